//! What is wrong with an AppWrapper, and until when that is waited on.

use std::rc::Rc;

use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use super::node_replacement::{self, Replacing};
use super::policy::{
    Case, FailedComponent, Ignored, Judged, Missing, NODE_LOST, Ruling, RulingAction,
};
use super::replacement::SilentOwners;
use super::{Facts, failed, failure, incidents, replacement};
use crate::api::condition::unhealthy;
use crate::api::{FailureRecord, NoFitAction, RuleSource};
use crate::mutations::{self, Mutation};
use crate::snapshot::Pod;
use crate::snapshot::lost::Loss;

/// Something that is wrong.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// Reason of `Unhealthy`.
    pub reason: &'static str,
    /// What is wrong, for people.
    pub message: String,
    /// The first cause.
    pub failure: FailureRecord,
    /// The pod of the first cause; none where no pod tells.
    pub pod: Option<&'a Pod>,
    /// Index of the component of the first cause; none where nothing tells.
    pub component: Option<usize>,
    /// Index in its component of the pod set that has too few pods; none where that is not the problem.
    pub pod_set: Option<usize>,
    /// When the first cause happened.
    pub failed_at: Timestamp,
    /// It makes the AppWrapper unhealthy from here on; before, it is only waited on.
    pub unhealthy_from: Option<Timestamp>,
    /// When it is acted on if nothing changes; at once where absent.
    pub deadline: Option<Timestamp>,
    /// Components that failed, the first failure first.
    pub components: Vec<FailedComponent<'a>>,
    /// What of it `podFailurePolicy` ignores.
    pub ignored: Ignored,
    /// Nothing replaces the pod of the first cause.
    pub is_final: bool,
    /// The pods that are lost may be there again with their nodes: every verdict waits for the deadline.
    pub may_return: bool,
    /// Components that may still say why they failed, where `failurePolicy` has rules about that.
    pub silent_owners: Option<SilentOwners>,
    /// Pods cannot be scheduled, and `onNoFit` says what follows, unless an overriding RetryPolicy fails the AppWrapper.
    pub no_fit: Option<NoFitAction>,
    /// Every pod that failed, where that was looked at already.
    pub judged: Option<Rc<Judged<'a>>>,
}

/// Whether a problem is that a component is missing or cannot be created.
pub(super) fn missing(reason: &str, pod: Option<&Pod>) -> Missing {
    let is_missing = [unhealthy::MISSING_COMPONENT, unhealthy::CREATE_FAILED].contains(&reason);
    match (is_missing, pod) {
        (false, _) => Missing::No,
        (true, Some(_)) => Missing::WithPod,
        (true, None) => Missing::Alone,
    }
}

impl<'a> Problem<'a> {
    /// A problem with one component; acted on at once unless a deadline is set.
    pub fn of_component(
        draft: &Draft<'a>,
        index: usize,
        reason: &'static str,
        message: &str,
    ) -> Self {
        let snapshot = draft.facts.snapshot;
        let component = &snapshot.components[index];
        let failure = failure::of_component(snapshot, component, reason, message);
        let plain = Self::plain(draft.facts.now, reason, message.to_owned(), failure);
        Self { component: Some(index), ..plain }
    }

    /// A problem that a pod has.
    pub fn of_pod(facts: Facts<'a>, pod: &'a Pod, reason: &'static str) -> Self {
        let component = pod.component.and_then(|index| facts.snapshot.components.get(index));
        let failure = failure::of_pod(facts, pod, component);
        Self {
            pod: Some(pod),
            component: pod.component,
            // only a failure asks it, and it goes through all pods
            is_final: pod.has_failed() && replacement::is_final(facts, pod),
            may_return: pod.lost.is_some_and(Loss::may_return) && pod.stuck.is_none(),
            ..Self::plain(facts.now, reason, failure::sentence(&failure), failure)
        }
    }

    /// A problem of now; acted on at once.
    fn plain(
        now: Timestamp,
        reason: &'static str,
        message: String,
        failure: FailureRecord,
    ) -> Self {
        Self {
            reason,
            message,
            failure,
            pod: None,
            component: None,
            pod_set: None,
            failed_at: now,
            unhealthy_from: None,
            deadline: None,
            components: vec![],
            ignored: Ignored::Nothing,
            is_final: true,
            may_return: false,
            silent_owners: None,
            no_fit: None,
            judged: None,
        }
    }

    /// Whether no policy is evaluated and the restart is not counted: the node caused the problem.
    pub fn evacuates(&self) -> bool {
        self.reason == unhealthy::AUTOPILOT_NO_EXECUTE
    }

    /// The same, where neither the pod nor its containers say why: the record says what is wrong.
    pub fn or_said(mut self, what: &str) -> Self {
        if self.failure.reason.is_none() && self.failure.message.is_none() {
            self.failure.reason = Some(self.reason.to_owned());
            self.failure.message = Some(what.to_owned());
            self.message = failure::sentence(&self.failure);
        }
        self
    }

    /// Every pod that failed, as `podFailurePolicy` judges it.
    pub fn judged(&self, draft: &Draft<'a>) -> Rc<Judged<'a>> {
        self.judged.clone().unwrap_or_else(|| failed::judge(draft))
    }

    /// The failure of one component of those that failed: a rule may be about another than the first.
    pub fn about(&self, draft: &Draft<'a>, index: usize) -> Self {
        let found = self.components.iter().find(|each| each.index == index);
        let Some(failed) = found.filter(|_| self.component != Some(index)) else {
            return self.clone();
        };
        let snapshot = draft.facts.snapshot;
        let component = &snapshot.components[index];
        let text = failed::said(component, failed.reason, &failed.message);
        let judged = self.judged(draft);
        let (cause, now) = (failed::counted_cause(draft, &judged, index), draft.facts.now);
        let (other, at) = if let Some(pod) = cause {
            // one that is still being ended may have no date of its own
            let at = failure::finished_at(pod).or(failed.at);
            (Self::of_pod(draft.facts, pod, self.reason), at)
        } else {
            let (reason, message) = (failed.reason, &failed.message);
            let failure = failure::of_component(snapshot, component, reason, message);
            let plain = Self::of_component(draft, index, self.reason, &text);
            (Self { failure, ..plain }, failed.at)
        };
        Self { message: text, failed_at: at.unwrap_or(now).min(now), ..other }
    }

    /// What a ruling is about: where it recreates a component, the failure of that one.
    pub fn subject(&self, draft: &Draft<'a>, ruling: &Ruling) -> Self {
        match ruling.action {
            RulingAction::RecreateComponent(index) => self.about(draft, index),
            RulingAction::Restart | RulingAction::RestartIgnoringLimit | RulingAction::Fail => {
                self.clone()
            }
        }
    }

    /// Whether its first cause happened before that of another.
    pub fn is_before(&self, other: &Self) -> bool {
        let order = |one: &Self| {
            let at = one.pod.map_or(Some(one.failed_at), failure::finished_at);
            (at.is_none(), at, one.pod.map(|pod| &pod.name))
        };
        order(self) < order(other)
    }

    /// What the stages of the policies say about it.
    ///
    /// A rule may be about another component than the first, which died of something else.
    pub fn ruling(&self, draft: &Draft<'a>) -> Ruling {
        let charged = self.is_charged(draft);
        let ruling = self.ruling_as(draft, charged);
        let RulingAction::RecreateComponent(index) = ruling.action else { return ruling };
        let of_it = self.about(draft, index).pod_is_charged(draft);
        if of_it == charged { ruling } else { self.ruling_as(draft, of_it) }
    }

    fn ruling_as(&self, draft: &Draft<'a>, charged: bool) -> Ruling {
        let judged = self.judged(draft);
        // a pod that may come back is decisive only where it is the first cause, which is waited with
        let if_lost = judged.fatal_if_lost.filter(|_| self.may_return);
        super::policy::rule(&Case {
            facts: draft.facts,
            fatal: judged.fatal.or(if_lost).map(|(_, index)| index),
            judged,
            components: self.components.clone(),
            pod: self.pod,
            component: self.component,
            ignored: self.ignored,
            charged,
            missing: missing(self.reason, self.pod),
            stalled: self.reason == unhealthy::STALLED,
            failure: &self.failure,
            failed_at: self.failed_at,
        })
    }

    /// Whether all that failed was counted already.
    pub fn is_charged(&self, draft: &Draft<'a>) -> bool {
        let of_component = |failed: &FailedComponent<'_>| {
            let cause = || failed::counted_cause(draft, &self.judged(draft), failed.index);
            Some(failed.index) == self.component
                || cause().is_some_and(|pod| incidents::is_charged(draft.facts.snapshot, pod))
        };
        self.pod_is_charged(draft) && self.components.iter().all(of_component)
    }

    /// Whether the end of the pod's node was counted already: a component was created again for it in this
    /// attempt, and the pod was there then.
    pub fn pod_is_charged(&self, draft: &Draft<'a>) -> bool {
        self.pod.is_some_and(|pod| incidents::is_charged(draft.facts.snapshot, pod))
    }

    /// When it is acted on, given what the policies say; now where nothing is to be waited for.
    ///
    /// A rule that fails needs no grace, nor does one that restarts where nothing replaces the pod: of a component that is
    /// recreated, its own. Too few pods are always waited for; a rule about a pod that does not come up spares
    /// `failureGracePeriod` alone. A node that may be there again is waited for whatever the rules say, and a
    /// component that is about to say why it failed before RetryPolicies and limits are asked, before a rule of
    /// `failurePolicy` decides about one that failed later, or another is recreated.
    pub fn due(&self, draft: &Draft<'a>, ruling: &Ruling) -> Option<Timestamp> {
        let fails = ruling.action == RulingAction::Fail;
        let is_final = match ruling.action {
            // it may be about another component than the first cause
            RulingAction::RecreateComponent(index) => self.about(draft, index).is_final,
            RulingAction::Restart | RulingAction::RestartIgnoringLimit | RulingAction::Fail => {
                self.is_final
            }
        };
        let said = ruling.by_rule && (fails || is_final);
        let due = match self.reason {
            unhealthy::FOUND_FAILED_PODS if said && !self.may_return => None,
            unhealthy::INSUFFICIENT_PODS_READY
                if ruling.by_rule && fails && ruling.rule.source == RuleSource::RetryPolicy =>
            {
                self.unhealthy_from
            }
            // how another pod ends changes nothing about that, unless an overriding policy is asked about it first
            unhealthy::FAILED_COMPONENT if fails && any_pod_decides(draft, ruling) => None,
            _ => self.deadline,
        };
        // what its node did to it is said for the component only as long as it says nothing itself
        let of_node = ruling.rule.source == RuleSource::FailurePolicy
            && self.components.iter().any(|component| component.reason == NODE_LOST);
        // of one that is to be recreated, another that fails may be restarted with it
        let recreates = matches!(ruling.action, RulingAction::RecreateComponent(_));
        let is_first = ruling.rule.overrides; // nothing that a component says comes before it
        let waits = ruling.is_of_limits() && !is_first || of_node || recreates;
        // what failed first is asked about first
        let is_earlier = |silent: &SilentOwners| {
            let spoke = self.components.first().and_then(|component| component.at);
            let is_rule = ruling.rule.source == RuleSource::FailurePolicy;
            is_rule && spoke.is_none_or(|spoke| silent.since <= spoke)
        };
        let silent = self.silent_owners.filter(|silent| waits || is_earlier(silent));
        let owner = silent.map(|silent| silent.until);
        due.max(owner.filter(|_| !mutations::is_present(Mutation::OwnerUnheard)))
    }
}

/// Whether a ruling is about any pod that failed, so that no later one changes it.
fn any_pod_decides(draft: &Draft<'_>, ruling: &Ruling) -> bool {
    let of_any_pod = match ruling.rule.source {
        RuleSource::PodFailurePolicy | RuleSource::ExitCodeAnnotation => true,
        RuleSource::KillSwitch
        | RuleSource::FailurePolicy
        | RuleSource::RetryPolicy
        | RuleSource::RetryLimit
        | RuleSource::StopWhen
        | RuleSource::UncountedLimit => false,
    };
    of_any_pod && draft.facts.snapshot.retry.overriding().next().is_none()
}

/// Takes out the problem that is acted on first. One that is held back, although it is due, holds back no other that is due;
/// a node is evacuated first then.
pub fn most_urgent<'a>(draft: &Draft<'a>, problems: &mut Vec<Problem<'a>>) -> Option<Problem<'a>> {
    let now = draft.facts.now;
    let due = |problem: &Problem<'_>| {
        if problem.evacuates() {
            return now;
        }
        if problem.no_fit.is_some() {
            return problem.deadline.map_or(now, |deadline| deadline.max(now));
        }
        problem.due(draft, &problem.ruling(draft)).map_or(now, |deadline| deadline.max(now))
    };
    let first = (0..problems.len()).min_by_key(|index| due(&problems[*index]))?;
    let is_held = |index: usize| is_held_back(draft, &problems[index]);
    let other = if due(&problems[first]) <= now && is_held(first) {
        let open = (0..problems.len()).filter(|index| due(&problems[*index]) <= now);
        let open = open.filter(|index| !is_held(*index));
        open.min_by_key(|index| !problems[*index].evacuates())
    } else {
        None
    };
    Some(problems.swap_remove(other.unwrap_or(first)))
}

/// Whether a problem that is due waits for Kueue to replace the node.
fn is_held_back<'a>(draft: &Draft<'a>, problem: &Problem<'a>) -> bool {
    let ruling = problem.ruling(draft);
    let replacing = || node_replacement::replacing(draft, &problem.subject(draft, &ruling));
    !ruling.fails_by_rule() && matches!(replacing(), Replacing::Until { .. })
}
