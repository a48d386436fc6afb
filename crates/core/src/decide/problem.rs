//! What is wrong with an AppWrapper, and until when that is waited on.

use std::borrow::Cow;
use std::rc::Rc;

use k8s_openapi::jiff::Timestamp;

use super::consequence::FirstFailures;
use super::draft::Draft;
use super::failure;
use super::health::{self, PodSetHealth};
use super::policy::{Case, FailedComponent, Judged, NODE_LOST, Ruling, RulingAction, pod_failure};
use super::steps::{self, ComponentStage};
use super::{Facts, attempts, incidents, pods, replacement};
use crate::api::condition::unhealthy;
use crate::api::{FailureRecord, NoFitAction, RuleSource};
use crate::mutations::{self, Mutation};
use crate::snapshot::lost::Loss;
use crate::snapshot::{Component, Outcome, Pod};

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
    /// When the first cause happened.
    pub failed_at: Timestamp,
    /// It makes the AppWrapper unhealthy from here on; before, it is only waited on.
    pub unhealthy_from: Option<Timestamp>,
    /// When it is acted on if nothing changes; at once where absent.
    pub deadline: Option<Timestamp>,
    /// No policy is evaluated, and the restart is not counted: the node caused the problem.
    pub evacuation: bool,
    /// Components that failed, the first failure first.
    pub components: Vec<FailedComponent<'a>>,
    /// All of it is ignored by this rule of `podFailurePolicy`.
    pub ignored: Option<i32>,
    /// Nothing replaces the pod of the first cause.
    pub is_final: bool,
    /// The pods that are lost may be there again with their nodes: every verdict waits for the deadline.
    pub may_return: bool,
    /// Until when the component may still say why it failed, where `failurePolicy` has rules about that.
    pub owner_until: Option<Timestamp>,
    /// Pods cannot be scheduled, and `onNoFit` says what follows: no policy is evaluated.
    pub no_fit: Option<NoFitAction>,
    /// Every pod that failed, where that was looked at already.
    pub judged: Option<Rc<Judged<'a>>>,
}

impl<'a> Problem<'a> {
    /// A problem with one component; acted on at once unless a deadline is set.
    pub fn of_component(
        draft: &Draft<'a>,
        index: usize,
        reason: &'static str,
        message: &str,
    ) -> Self {
        let component = &draft.facts.snapshot.components[index];
        Self {
            reason,
            message: message.to_owned(),
            failure: failure::of_component(component, reason, message),
            pod: None,
            component: Some(index),
            failed_at: draft.facts.now,
            unhealthy_from: None,
            deadline: None,
            evacuation: false,
            components: vec![],
            ignored: None,
            is_final: true,
            may_return: false,
            owner_until: None,
            no_fit: None,
            judged: None,
        }
    }

    /// A problem that a pod has.
    pub fn of_pod(facts: Facts<'a>, pod: &'a Pod, reason: &'static str) -> Self {
        let component = pod.component.and_then(|index| facts.snapshot.components.get(index));
        let failure = failure::of_pod(facts, pod, component);
        Self {
            reason,
            message: failure::sentence(&failure),
            failure,
            pod: Some(pod),
            component: pod.component,
            failed_at: facts.now,
            unhealthy_from: None,
            deadline: None,
            evacuation: false,
            components: vec![],
            ignored: None,
            // only a failure asks it, and it goes through all pods
            is_final: pod.has_failed() && replacement::is_final(facts, pod),
            may_return: pod.lost.is_some_and(Loss::may_return) && pod.stuck.is_none(),
            owner_until: None,
            no_fit: None,
            judged: None,
        }
    }

    /// Every pod that failed, as `podFailurePolicy` judges it.
    pub fn judged(&self, draft: &Draft<'a>) -> Rc<Judged<'a>> {
        self.judged.clone().unwrap_or_else(|| judge(draft))
    }

    /// The failure of one component of those that failed: a rule may be about another than the first.
    pub fn about(&self, draft: &Draft<'a>, index: usize) -> Self {
        let of_first = match self.pod {
            Some(pod) => pod.component == Some(index),
            None => self.components.first().is_none_or(|first| first.index == index),
        };
        let found = self.components.iter().find(|each| each.index == index);
        let Some(failed) = found.filter(|_| !of_first) else { return self.clone() };
        let component = &draft.facts.snapshot.components[index];
        let text = said(component, failed.reason, &failed.message);
        let (cause, now) = (cause(draft, index, |_| true), draft.facts.now);
        let (other, at) = if let Some(pod) = cause {
            (Self::of_pod(draft.facts, pod, self.reason), failure::finished_at(pod))
        } else {
            let failure = failure::of_component(component, failed.reason, &failed.message);
            let plain = Self::of_component(draft, index, self.reason, &text);
            (Self { failure, ..plain }, failed.at)
        };
        Self { message: text, failed_at: at.unwrap_or(now).min(now), ..other }
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
        super::policy::rule(&Case {
            facts: draft.facts,
            judged: self.judged(draft),
            components: self.components.clone(),
            pod: self.pod,
            component: self.component,
            ignored: self.ignored,
            charged,
            missing: self.reason == unhealthy::MISSING_COMPONENT && self.pod.is_none(),
            stalled: self.reason == unhealthy::STALLED,
            failure: &self.failure,
            failed_at: self.failed_at,
        })
    }

    /// Whether all that failed was counted already.
    pub fn is_charged(&self, draft: &Draft<'a>) -> bool {
        let of_component = |failed: &FailedComponent<'_>| {
            let cause = || cause(draft, failed.index, |_| true);
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
    /// A rule that fails needs no grace, nor does one that restarts where nothing replaces the pod. Too
    /// few pods are always waited for; a rule about a pod that does not come up spares
    /// `FailureGracePeriod` alone. A node that may be there again is waited for whatever the rules say, and a
    /// component that is about to say why it failed before RetryPolicies and limits are asked.
    pub fn due(&self, ruling: &Ruling) -> Option<Timestamp> {
        let fails = ruling.action == RulingAction::Fail;
        let said = ruling.by_rule && (fails || self.is_final);
        let due = match self.reason {
            unhealthy::FOUND_FAILED_PODS if said && !self.may_return => None,
            unhealthy::INSUFFICIENT_PODS_READY
                if ruling.by_rule && fails && ruling.rule.source == RuleSource::RetryPolicy =>
            {
                self.unhealthy_from
            }
            _ => self.deadline,
        };
        // what its node did to it is said for the component only as long as it says nothing itself
        let of_node = ruling.rule.source == RuleSource::FailurePolicy
            && self.components.iter().any(|component| component.reason == NODE_LOST);
        let owner = self.owner_until.filter(|_| ruling.is_of_limits() || of_node);
        due.max(owner.filter(|_| !mutations::is_present(Mutation::OwnerUnheard)))
    }
}

/// A component that failed, in a sentence.
fn said(component: &Component, reason: &str, message: &str) -> String {
    if message.is_empty() {
        return format!("{} failed ({reason})", component.title());
    }
    format!("{} failed ({reason}): {message}", component.title())
}

/// Every pod of the running attempt that failed or is lost, or those of one component, the first failure first. Those of a
/// component that is created again were judged already.
pub fn failed_pods<'a>(draft: &Draft<'a>, component: Option<usize>) -> Vec<&'a Pod> {
    let attempt = attempts::current(&draft.facts.snapshot.status);
    let judged = |pod: &Pod| {
        pod.component.is_some_and(|index| {
            draft.facts.snapshot.components.len() > index
                && steps::standing(draft, index) != ComponentStage::Up
        })
    };
    let mut pods: Vec<&Pod> = draft
        .facts
        .snapshot
        .pods
        .iter()
        .filter(|pod| pod.has_failed())
        .filter(|pod| pod.attempt.is_none_or(|number| number == attempt))
        .filter(|pod| component.is_none() || pod.component == component)
        .filter(|pod| !judged(pod))
        .collect();
    failure::sort(&mut pods);
    pods
}

/// The component that failed first, of those that say so. Source: table of section 4.2.
///
/// One of which every failed pod is ignored only counts where nothing else has failed.
pub fn failed_component<'a>(
    draft: &Draft<'a>,
    judged: &Rc<Judged<'a>>,
    pod_sets: &[PodSetHealth<'a>],
) -> Option<Problem<'a>> {
    let mut failed = failed_components(draft);
    let first = failed.first()?.index;
    let spared = |failed: &FailedComponent<'_>| {
        let pods = failed_pods(draft, Some(failed.index));
        let own = pods.iter().filter(|pod| !judged.is_consequence(pod));
        let mut rules = own.map(|pod| judged.ignores(pod));
        let first = rules.next()??;
        rules.all(|rule| rule.is_some()).then_some(first)
    };
    let ignored = failed.first().and_then(spared);
    failed.retain(|each| spared(each).is_none());
    if failed.is_empty()
        && pods::not_replaced(draft, judged, pod_sets)
            .iter()
            .any(|pod| judged.ignores(pod).is_none())
    {
        return None; // that one is decided about
    }
    let index = failed.first().map_or(first, |each| each.index);
    let component = &draft.facts.snapshot.components[index];
    let Outcome::Failed { reason, message, at } = &component.ours()?.report.outcome else {
        return None;
    };
    let text = said(component, reason, message);
    let mut problem = Problem::of_component(draft, index, unhealthy::FAILED_COMPONENT, &text);
    let counts = |pod: &Pod| failed.is_empty() || judged.ignores(pod).is_none();
    let disrupted = || {
        let pod = disrupted_pod(draft, index)?;
        failed_pods(draft, Some(index)).is_empty().then_some(pod)
    };
    if let Some(pod) = cause(draft, index, counts).or_else(disrupted) {
        let said = Problem::of_pod(draft.facts, pod, unhealthy::FAILED_COMPONENT);
        problem.message = format!("{text}; {}", said.message);
        problem.failure = said.failure;
        problem.pod = Some(pod);
        problem.failed_at =
            failure::finished_at(pod).unwrap_or(problem.failed_at).min(draft.facts.now);
    } else {
        problem.failure = failure::of_component(component, reason, message);
        problem.failed_at = at.map_or(problem.failed_at, |at| at.min(draft.facts.now));
    }
    problem.ignored = if failed.is_empty() { ignored } else { None };
    let not_replaced = pods::not_replaced(draft, judged, pod_sets);
    problem.components = with_pods(draft, judged, &not_replaced, failed);
    problem.judged = Some(judged.clone());
    Some(problem)
}

/// The failed pod of a component that made it fail, of those that count: the first that was not replaced, else the
/// last one. So it is the same pod whether its own failure is seen first or that of the component. A pod that was
/// deleted because the component had failed comes after all others.
fn cause<'a>(draft: &Draft<'a>, index: usize, counts: impl Fn(&Pod) -> bool) -> Option<&'a Pod> {
    let mut pods = failed_pods(draft, Some(index));
    pods.retain(|pod| counts(pod));
    let first_failures = FirstFailures::of(draft.facts);
    let is_own = |pod: &&Pod| !first_failures.is_consequence(pod);
    let own: Vec<&Pod> = pods.iter().copied().filter(is_own).collect();
    let pods = if own.is_empty() { pods } else { own };
    let first = pods.iter().find(|pod| !health::is_replaced(draft.facts.snapshot, pod));
    first.or_else(|| pods.last()).copied()
}

/// The pod of a component that was first to be ended from outside, and still is in its grace period. A Job counts it
/// as failed at once, and may fail seconds before the pod does.
fn disrupted_pod<'a>(draft: &Draft<'a>, index: usize) -> Option<&'a Pod> {
    let attempt = attempts::current(&draft.facts.snapshot.status);
    let pods = draft.facts.snapshot.pods.iter().filter(|pod| {
        pod.component == Some(index)
            && pod.is_going()
            && pod.attempt.is_none_or(|number| number == attempt)
    });
    let disrupted =
        pods.filter_map(|pod| Some((pod.true_condition("DisruptionTarget")?.since, pod)));
    let first = disrupted.min_by_key(|(since, pod)| (since.is_none(), *since, pod.name.clone()));
    first.map(|(_, pod)| pod)
}

/// A component that was created and is gone. A pod of it that failed is the first cause.
pub fn missing_component<'a>(draft: &Draft<'a>, index: usize, message: &str) -> Problem<'a> {
    let reason = unhealthy::MISSING_COMPONENT;
    let plain = Problem::of_component(draft, index, reason, message);
    let judged = judge(draft);
    let counts = |pod: &&Pod| {
        judged.ignores(pod).is_none()
            && !judged.is_consequence(pod)
            && !health::is_replaced(draft.facts.snapshot, pod)
    };
    let Some(pod) = failed_pods(draft, Some(index)).into_iter().find(counts) else {
        return plain;
    };
    let of_pod = Problem::of_pod(draft.facts, pod, reason);
    Problem {
        message: format!("{message}; {}", of_pod.message),
        failed_at: failure::finished_at(pod).unwrap_or(plain.failed_at).min(plain.failed_at),
        judged: Some(judged),
        is_final: true,
        may_return: false,
        ..of_pod
    }
}

/// The components that say that they failed, the first failure first.
fn failed_components<'a>(draft: &Draft<'a>) -> Vec<FailedComponent<'a>> {
    let snapshot = draft.facts.snapshot;
    let mut failed: Vec<FailedComponent<'_>> = snapshot
        .components
        .iter()
        .enumerate()
        .filter(|(index, component)| {
            health::is_current(draft, *index, component)
                && steps::standing(draft, *index) == ComponentStage::Up
        })
        .filter_map(|(index, component)| match &component.ours()?.report.outcome {
            Outcome::Failed { reason, message, at } => Some(FailedComponent {
                index,
                reason,
                message: Cow::Borrowed(message),
                pod_set: cause(draft, index, |_| true).and_then(|pod| pod.pod_set),
                at: *at,
                jobs: &component.failed_jobs,
            }),
            Outcome::Active | Outcome::Succeeded => None,
        })
        .collect();
    failed.sort_by_key(|each| (each.at.is_none(), each.at, each.index));
    failed
}

/// Failed components, beside them wrapped Pods that failed and components of which a pod died with its node:
/// what `failurePolicy` is about.
pub fn with_pods<'a>(
    draft: &Draft<'a>,
    judged: &Judged<'a>,
    not_replaced: &[&'a Pod],
    mut failed: Vec<FailedComponent<'a>>,
) -> Vec<FailedComponent<'a>> {
    let snapshot = draft.facts.snapshot;
    let lost =
        not_replaced.iter().filter(|pod| pod.died_of_node() && judged.ignores(pod).is_none());
    for pod in lost.filter(|_| !mutations::is_present(Mutation::LostIsNoFailure)) {
        let Some(index) = pod.component else { continue };
        if failed.iter().any(|each| each.index == index) {
            continue;
        }
        let node = pod.node.as_deref().unwrap_or_default();
        failed.push(FailedComponent {
            index,
            reason: NODE_LOST,
            message: format!("pod {} was lost with node {node}", pod.name).into(),
            pod_set: pod.pod_set,
            at: failure::finished_at(pod),
            jobs: &[],
        });
    }
    for pod in &judged.left {
        let Some(index) = pod.component else { continue };
        let wrapped = snapshot.components.get(index).is_some_and(|component| {
            component.kind == "Pod" && component.ours().is_some_and(|object| object.uid == pod.uid)
        });
        if wrapped && failed.iter().all(|each| each.index != index) {
            let (reason, message) = failure::said_by(pod);
            let at = failure::finished_at(pod);
            let (message, pod_set) = (Cow::Borrowed(message), pod.pod_set);
            failed.push(FailedComponent { index, reason, message, pod_set, at, jobs: &[] });
        }
    }
    failed.sort_by_key(|each| (each.at.is_none(), each.at, each.index));
    failed
}

/// The problem that is acted on first.
pub fn most_urgent<'a>(draft: &Draft<'a>, problems: Vec<Problem<'a>>) -> Option<Problem<'a>> {
    let now = draft.facts.now;
    problems.into_iter().min_by_key(|problem| {
        if problem.evacuation {
            return now;
        }
        if problem.no_fit.is_some() {
            return problem.deadline.map_or(now, |deadline| deadline.max(now));
        }
        problem.due(&problem.ruling(draft)).map_or(now, |deadline| deadline.max(now))
    })
}

/// The failed pods of the running attempt, judged by `podFailurePolicy`.
pub fn judge<'a>(draft: &Draft<'a>) -> Rc<Judged<'a>> {
    let first_failures = FirstFailures::of(draft.facts);
    let (consequences, failed): (Vec<&Pod>, Vec<&Pod>) =
        failed_pods(draft, None).into_iter().partition(|pod| first_failures.is_consequence(pod));
    let mut judged = pod_failure::judge(draft.facts.snapshot, &failed);
    let consequences = consequences.iter().map(|pod| (pod.uid.as_str(), pod.name.as_str()));
    judged.consequences = consequences.collect();
    Rc::new(judged)
}
