//! One recorded failure before the stages of the policies.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use super::ambiguity::{self, Doubt, ReplayInputs, Why};
use super::record::{Evidence, RecordedFailure};
use crate::api::{
    AppWrapperStatus, Attempt, AttemptAction, FailurePolicyAction, FailureRecord,
    PodFailurePolicyAction, RuleRef, RuleSource,
};
use crate::decide::policy::{
    self, Case, FailedComponent, Ignored, NODE_LOST, Ruling, RulingAction, pod_failure,
};
use crate::decide::problem::missing;
use crate::decide::{Facts, failure, incidents};
use crate::snapshot::{End, Pod, Snapshot};

/// What is decided about one failure.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayDecision {
    /// The stages say so.
    Ruled(Ruling),
    /// No stage is asked, for this reason.
    Unasked(AttemptAction, &'static str),
    /// It is no failure: a rule of `podFailurePolicy` ignores the pod, and this component replaces it.
    NoFailure(RuleRef, String),
}

/// One recorded failure, and all that it is judged by.
#[derive(Debug)]
pub struct FailureReplay<'a> {
    facts: Facts<'a>,
    attempt: &'a Attempt,
    evidence: Evidence<'a>,
    inputs: ReplayInputs,
    doubts: Vec<Doubt>,
}

impl ReplayDecision {
    /// What is decided where a node was marked: of the limits, that of uncounted restarts alone is asked.
    fn of_marked_node(facts: Facts<'_>, source: RuleSource) -> Self {
        let restart = RulingAction::RestartIgnoringLimit;
        let ruling = Ruling::unlimited(restart, RuleRef::plain(source));
        let ruling = policy::within_uncounted_limit(facts, ruling);
        if ruling.action == RulingAction::Fail {
            return Self::Ruled(ruling);
        }
        let why = "the node was marked NoExecute: no policy is evaluated";
        Self::Unasked(AttemptAction::RestartIgnoringLimit, why)
    }

    /// The action; nothing where it is no failure.
    pub const fn action(&self) -> Option<AttemptAction> {
        match self {
            Self::Ruled(ruling) => Some(match ruling.action {
                RulingAction::Restart => AttemptAction::Restart,
                RulingAction::RestartIgnoringLimit => AttemptAction::RestartIgnoringLimit,
                RulingAction::RecreateComponent(_) => AttemptAction::RecreateComponent,
                RulingAction::Fail => AttemptAction::Fail,
            }),
            Self::Unasked(action, _) => Some(*action),
            Self::NoFailure(..) => None,
        }
    }

    /// The rule that names the action.
    pub fn rule(&self) -> Option<RuleRef> {
        match self {
            Self::Ruled(ruling) => Some(ruling.rule.clone()),
            Self::NoFailure(rule, _) => Some(rule.clone()),
            Self::Unasked(..) => None,
        }
    }

    /// What the stages say.
    pub const fn ruling(&self) -> Option<&Ruling> {
        match self {
            Self::Ruled(ruling) => Some(ruling),
            Self::Unasked(..) | Self::NoFailure(..) => None,
        }
    }

    /// One sentence that names the rule, and how the next attempt differs.
    pub fn sentence(&self, failure: &FailureRecord) -> String {
        let ruling = match self {
            Self::Ruled(ruling) => ruling,
            Self::Unasked(_, why) => return (*why).to_owned(),
            Self::NoFailure(rule, component) => {
                let place = policy::place(rule);
                return format!(
                    "not a failure: {place} ignores the pod, and {component} replaces it"
                );
            }
        };
        let mut text = ruling.sentence();
        if let Some(retry) = &ruling.retry {
            if let Some(node) = failure.node.as_ref().filter(|_| retry.avoid_node) {
                text += &format!(", avoids node {node}");
            }
            if let Some(memory) = retry.memory {
                text += &format!(", multiplies memory by {}", memory.factor);
            }
        }
        text
    }

    fn is_same(&self, other: &Self) -> bool {
        self.action() == other.action() && self.rule() == other.rule()
    }

    fn is_by(&self, source: RuleSource) -> bool {
        self.ruling().is_some_and(|ruling| ruling.rule.source == source)
    }
}

impl<'a> FailureReplay<'a> {
    /// A failure, judged with these counts.
    pub fn of(
        facts: Facts<'a>,
        status: &AppWrapperStatus,
        attempt: &'a Attempt,
        record: &'a FailureRecord,
    ) -> Self {
        let seen = facts.snapshot;
        let evidence = Evidence::of(attempt, record, seen, facts.config);
        // the world around it is not that of the failure
        let snapshot = Snapshot {
            namespace: seen.namespace.clone(),
            name: seen.name.clone(),
            uid: seen.uid.clone(),
            status: status.clone(),
            components: seen.components.clone(),
            policies: seen.policies.clone(),
            retry: seen.retry.clone(),
            queue_managed: seen.queue_managed,
            ..Snapshot::default()
        };
        let inputs = ReplayInputs { snapshot, limits: facts.limits.clone() };
        let doubts = ambiguity::doubts(&evidence, attempt, &inputs, facts.config);
        Self { facts, attempt, evidence, inputs, doubts }
    }

    /// What is decided, with every doubt settled as it is assumed.
    pub fn judge(&self) -> ReplayDecision {
        self.rule(&self.settled(None), true)
    }

    /// The inputs with every doubt settled as it is assumed, but for one.
    fn settled(&self, flipped: Option<usize>) -> ReplayInputs {
        let mut inputs = self.inputs.clone();
        for (index, doubt) in self.doubts.iter().enumerate() {
            let matches = doubt.matches != (flipped == Some(index));
            doubt.settle(matches, &mut inputs, &self.evidence, self.facts.config);
        }
        inputs
    }

    /// Asks the stages. Of a pod's component it must be assumed that it had failed, or had not.
    fn rule(&self, inputs: &ReplayInputs, component_failed: bool) -> ReplayDecision {
        let evidence = &self.evidence;
        let snapshot = &inputs.snapshot;
        if evidence.happened == RecordedFailure::Hopeless {
            let why = "the component cannot be created: no policy is evaluated";
            return ReplayDecision::Unasked(AttemptAction::Fail, why);
        }
        let pod = evidence.pod.as_ref();
        let failed: Vec<&Pod> =
            pod.into_iter().filter(|_| evidence.happened == RecordedFailure::PodFailed).collect();
        let judged = pod_failure::judge(snapshot, &failed, |_| false);
        let ignored = failed.first().and_then(|pod| judged.ignores(pod));
        let fatal = judged.fatal.map(|(_, index)| index);
        let component = evidence.component(snapshot);
        if let (Some(index), Some(component)) = (ignored, component)
            && !(component.end == End::Reported && component_failed || component.kind == "Pod")
        {
            let source = RuleRef::plain(RuleSource::PodFailurePolicy);
            let rule = RuleRef { index: Some(index), ..source };
            return ReplayDecision::NoFailure(rule, component.title());
        }
        let spared = ignored.is_some();
        let components = if spared { vec![] } else { self.components(snapshot, component_failed) };
        let facts = Facts { snapshot, limits: &inputs.limits, ..self.facts };
        let (judged, component) = (Rc::new(judged), evidence.component);
        let charged = incidents::is_repeated(&snapshot.status.attempts);
        let missing = missing(evidence.said().0, pod);
        let case = Case {
            facts,
            judged,
            components,
            pod,
            component,
            ignored: Ignored::of(ignored, true, true),
            charged,
            fatal,
            missing,
            stalled: evidence.happened == RecordedFailure::Stalled,
            failure: evidence.record,
            failed_at: evidence.at.unwrap_or(facts.now),
        };
        let ruling = policy::rule(&case);
        let by_switch = ruling.rule.source == RuleSource::KillSwitch;
        if evidence.happened == RecordedFailure::NodeMarked && !by_switch {
            return ReplayDecision::of_marked_node(facts, ruling.rule.source);
        }
        ReplayDecision::Ruled(ruling)
    }

    /// The component that failed, as far as it is recorded that one did.
    fn components<'g>(
        &'g self,
        snapshot: &'g Snapshot,
        component_failed: bool,
    ) -> Vec<FailedComponent<'g>> {
        let evidence = &self.evidence;
        let (Some(index), Some(component)) = (evidence.component, evidence.component(snapshot))
        else {
            return vec![];
        };
        let lost = |pod: &Pod| {
            let node = pod.node.as_deref().unwrap_or_default();
            Cow::Owned(format!("pod {} was lost with node {node}", pod.name))
        };
        let borrowed = |(reason, message): (&'g str, &'g str)| (reason, Cow::Borrowed(message));
        let (reason, message) = match (evidence.happened, &evidence.pod) {
            (RecordedFailure::ComponentFailed, _) => borrowed(evidence.said()),
            (RecordedFailure::PodFailed, Some(pod)) if pod.died_of_node() => (NODE_LOST, lost(pod)),
            (RecordedFailure::PodFailed, Some(pod)) if component.kind == "Pod" => {
                borrowed(failure::said_by(pod))
            }
            // rules that ask for reason or message are in doubt, and settled
            (RecordedFailure::PodFailed, _)
                if component.end == End::Reported && component_failed =>
            {
                borrowed(("", ""))
            }
            (
                RecordedFailure::PodFailed
                | RecordedFailure::PodWaits
                | RecordedFailure::ComponentLacks
                | RecordedFailure::NodeMarked
                | RecordedFailure::Hopeless
                | RecordedFailure::Stalled,
                _,
            ) => return vec![],
        };
        let pod_set = evidence.pod.as_ref().and_then(|pod| pod.pod_set);
        vec![FailedComponent { index, reason, message, pod_set, at: evidence.at, jobs: vec![] }]
    }

    /// What was assumed, as far as the replayed decision depends on it.
    pub fn assumptions(&self, decision: &ReplayDecision) -> Vec<String> {
        let mut all = vec![];
        all.extend(self.about_the_component());
        let mut alone = false;
        for (index, doubt) in self.doubts.iter().enumerate() {
            let otherwise = self.rule(&self.settled(Some(index)), true);
            if otherwise.is_same(decision) {
                continue;
            }
            if doubt.why == Why::OtherContainers {
                alone = true;
            } else {
                all.push(doubt.sentence(&otherwise.sentence(self.evidence.record)));
            }
        }
        if alone {
            let container = self.evidence.container();
            let is_init = self.evidence.record.init_container == Some(true);
            let what = if is_init { "an init container" } else { "an app container" };
            all.push(format!(
                "only container {container} is evaluated, as {what}: the record has no other"
            ));
        }
        all.extend(self.about_other_pods(decision));
        all.extend(self.about_the_end(decision));
        all
    }

    /// The component may have been renamed, or share its name.
    fn about_the_component(&self) -> Option<String> {
        let policies = &self.inputs.snapshot.policies;
        let name = self.evidence.record.component.as_deref()?;
        let components = self.inputs.snapshot.components.iter();
        let named = components.filter(|one| one.name == name || one.title() == name).count();
        if policies.failure.is_empty() && policies.pod_failure.is_empty() {
            return None;
        }
        match named {
            0 => Some(format!(
                "no component is named {name} anymore: rules with targetComponents do not apply"
            )),
            1 => None,
            _ => Some(format!("{named} components are named {name}: evaluated as the first one")),
        }
    }

    /// Only the first cause is recorded.
    fn about_other_pods(&self, decision: &ReplayDecision) -> Option<String> {
        let others = self.attempt.collateral.filter(|others| *others > 0)?;
        if self.evidence.happened != RecordedFailure::PodFailed {
            return None;
        }
        let decided = decision.action() == Some(AttemptAction::Fail)
            && (decision.is_by(RuleSource::PodFailurePolicy)
                || decision.is_by(RuleSource::ExitCodeAnnotation));
        let ReplayInputs { snapshot, limits } = &self.inputs;
        let mut rules = snapshot.policies.pod_failure.iter();
        let asked = rules.any(|rule| rule.action == PodFailurePolicyAction::FailAppWrapper)
            || !limits.terminal_exit_codes.is_empty()
            || !limits.retryable_exit_codes.is_empty();
        let ignored = decision
            .rule()
            .is_some_and(|rule| rule.source == RuleSource::PodFailurePolicy && !decided);
        (!decided && !decision.is_by(RuleSource::KillSwitch) && (asked || ignored)).then(|| {
            let pods = if others == 1 { "pod is" } else { "pods are" };
            format!("{others} more failed {pods} not recorded: only the first is evaluated")
        })
    }

    /// Whether one component is recreated now, and was not then, although others may have failed: then everything is
    /// restarted.
    fn is_recreated_alone(&self, decision: &ReplayDecision) -> bool {
        let recreated = Some(AttemptAction::RecreateComponent);
        decision.is_by(RuleSource::FailurePolicy)
            && decision.action() == recreated
            && self.attempt.action != recreated
            && self.attempt.collateral.is_some_and(|others| others > 0)
            && self.inputs.snapshot.components.len() > 1
    }

    /// Whether the decision is the recorded one if another component failed, too: the rules do not recreate one then.
    pub fn depends_on_others(&self, decision: &ReplayDecision) -> bool {
        if !self.is_recreated_alone(decision) {
            return false;
        }
        let mut inputs = self.settled(None);
        Arc::make_mut(&mut inputs.snapshot.policies).failure.clear();
        let restarted = self.rule(&inputs, true);
        restarted.action() == self.attempt.action && restarted.rule() == self.attempt.rule
    }

    /// Whether the pod's component had failed is not recorded, nor which other components had.
    fn about_the_end(&self, decision: &ReplayDecision) -> Vec<String> {
        let mut all = vec![];
        let evidence = &self.evidence;
        let snapshot = &self.inputs.snapshot;
        let recorded = self.attempt.rule.as_ref().map(|rule| rule.source);
        let of_pod = evidence.happened == RecordedFailure::PodFailed;
        if let Some(component) = evidence.component(snapshot)
            && of_pod
            && recorded != Some(RuleSource::FailurePolicy)
        {
            let otherwise = self.rule(&self.settled(None), false);
            if !otherwise.is_same(decision) {
                let title = component.title();
                let otherwise = otherwise.sentence(evidence.record);
                all.push(format!(
                    "{title} is assumed to have failed with the pod; otherwise {otherwise}"
                ));
            }
        }
        let restarts = decision.is_by(RuleSource::FailurePolicy)
            && decision.action() == Some(AttemptAction::Restart);
        let later = restarts
            || decision.is_by(RuleSource::RetryPolicy)
            || decision.is_by(RuleSource::RetryLimit);
        let others = snapshot.policies.failure.iter().any(|rule| {
            rule.action != FailurePolicyAction::RestartAppWrapper
                && (0..snapshot.components.len()).any(|index| {
                    evidence.component != Some(index) && rule.targets.include(Some(index))
                })
        });
        let asked = of_pod || evidence.happened == RecordedFailure::ComponentFailed;
        if later && others && asked || self.is_recreated_alone(decision) {
            all.push(
                "the record does not show whether other components failed: assumed none".into(),
            );
        }
        all
    }
}
