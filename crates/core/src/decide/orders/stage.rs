//! One order of the facts of a failure, played.

use k8s_openapi::jiff::Timestamp;

use super::{Event, Fact, Told};
use crate::api::{Phase, RuleRef};
use crate::decide::{Decision, Facts, VerdictAction, consequence, decide};
use crate::plan::FreshRead;
use crate::snapshot::workload::WorkloadRead;
use crate::snapshot::{ContainerState, End, Outcome, Pod, PodPhase, Presence, Snapshot};

/// How often something is written, read or waited for in one order.
const LOOKS_MAX: usize = 12;

/// The snapshot before any of it happened.
pub fn before(snapshot: &Snapshot, events: &[Fact]) -> Snapshot {
    let mut before = snapshot.clone();
    before.answered = FreshRead::Nothing;
    before.last_gap = None;
    before.over_quota_since = None;
    before.workload = WorkloadRead::NotRead;
    for Fact { event, .. } in events {
        match event {
            Event::Pod(index) => {
                uncount(&mut before, *index);
                run(&mut before.pods[*index]);
            }
            Event::Component(index) => {
                before.components[*index].failed_jobs.clear();
                if let Presence::Present(object) = &mut before.components[*index].presence {
                    object.report.outcome = Outcome::Active;
                }
            }
            Event::Node(name) => {
                if let Some(node) = before.nodes.get_mut(name) {
                    node.lost = None;
                }
            }
        }
    }
    before.mark_failed_pods();
    if let Some(since) = &mut before.status.since {
        since.failed_pods = None;
        since.ignored_pods.clear();
        let disrupted = events.iter().filter_map(|fact| match &fact.event {
            Event::Pod(index) => consequence::disrupted_from(snapshot, &snapshot.pods[*index]),
            Event::Component(_) | Event::Node(_) => None,
        });
        let first = events.iter().map(|fact| fact.at).chain(disrupted).min();
        for entry in &mut since.pod_sets {
            entry.failed_at = entry.failed_at.take().filter(|at| Some(at.0) < first);
        }
    }
    before
}

/// The Job of a pod has not counted it yet.
fn uncount(snapshot: &mut Snapshot, index: usize) {
    let pod = &snapshot.pods[index];
    let (Some(component), Some(pod_set)) = (pod.component, pod.pod_set) else { return };
    let Presence::Present(object) = &mut snapshot.components[component].presence else { return };
    let backoff = object.report.backoff.get_mut(&pod_set);
    if let Some(counted) = backoff.and_then(|backoff| backoff.counted.as_mut()) {
        *counted = (*counted - 1).max(0);
    }
}

/// A pod as it was before it failed.
fn run(pod: &mut Pod) {
    pod.phase = PodPhase::Running;
    pod.terminating = false;
    pod.due_to_go = None;
    pod.held_by_finalizers = false;
    pod.deletion_requested = None;
    pod.reason = None;
    pod.message = None;
    pod.conditions.retain(|condition| condition.kind != "DisruptionTarget");
    for condition in pod.conditions.iter_mut().filter(|condition| condition.kind == "Ready") {
        "True".clone_into(&mut condition.status);
    }
    for container in &mut pod.containers {
        let ended_well =
            matches!(&container.state, ContainerState::Terminated(end) if end.exit_code == 0);
        if !(container.init && ended_well) {
            container.state = ContainerState::Running;
        }
    }
}

/// One run: what is seen so far.
#[derive(Clone)]
pub struct Stage<'a> {
    pub facts: Facts<'a>,
    pub events: &'a [Fact],
    pub seen: Snapshot,
}

impl Stage<'_> {
    fn decide(&self, now: Timestamp) -> Decision {
        decide(Facts { snapshot: &self.seen, now, anchor: now, ..self.facts })
    }

    /// Whether nothing is the matter, once what is to be written is written.
    pub fn is_calm(&mut self, now: Timestamp) -> bool {
        for _ in 0..LOOKS_MAX {
            let decision = self.decide(now);
            if decision.status == self.seen.status {
                return !decision.asks()
                    && decision.verdict.action == VerdictAction::None
                    && decision.actions.is_empty();
            }
            if decision.next != Phase::Running {
                return false;
            }
            self.seen.status = decision.status;
        }
        false
    }

    /// Tells the facts in an order, at these moments.
    pub fn play(mut self, order: &[usize], times: &[Timestamp]) -> Told {
        let mut names = vec![];
        for (position, (index, time)) in order.iter().zip(times).enumerate() {
            self.tell(*index);
            names.push(format!("{} at {time}", self.name(*index)));
            let next = times.get(position + 1).copied();
            if let Some((action, rule, at)) = self.follow(*time, next) {
                return Told { order: names.join(", "), action, rule, happened: self.happened(at) };
            }
        }
        let (action, order) = (VerdictAction::Wait, names.join(", "));
        Told { order, action, rule: None, happened: u8::MAX }
    }

    /// Decides now and at each deadline before the next fact, until there is a verdict.
    fn follow(
        &mut self,
        from: Timestamp,
        until: Option<Timestamp>,
    ) -> Option<(VerdictAction, Option<RuleRef>, Timestamp)> {
        let mut now = from;
        for _ in 0..LOOKS_MAX {
            let decision = self.decide(now);
            if decision.ask_workload {
                self.seen.workload = match &self.facts.snapshot.workload {
                    WorkloadRead::NotRead => WorkloadRead::Absent,
                    known => known.clone(),
                };
                continue;
            }
            if decision.ask != FreshRead::Nothing {
                self.read(decision.ask, now);
                continue;
            }
            if !decision.verdict.action.is_idle() {
                return Some((decision.verdict.action, decision.verdict.rule, now));
            }
            self.seen.answered = FreshRead::Nothing;
            if decision.status != self.seen.status {
                self.seen.status = decision.status;
                continue;
            }
            now = decision.requeue.filter(|at| until.is_none_or(|until| *at < until))?.max(now);
        }
        None
    }

    /// The API server is asked: it knows every pod, and then how each component has ended that says so itself.
    fn read(&mut self, ask: FreshRead, now: Timestamp) {
        self.seen.answered = ask;
        if ask < FreshRead::Pods {
            return;
        }
        for (index, fact) in self.events.iter().enumerate() {
            if fact.at <= now && matches!(fact.event, Event::Pod(_)) {
                self.tell(index);
            }
        }
        for (index, fact) in self.events.iter().enumerate() {
            if let Event::Component(component) = fact.event
                && fact.at <= now
                && self.seen.components[component].end == End::Reported
            {
                self.tell(index);
            }
        }
    }

    /// A fact is seen. That a Job has counted a pod is seen with what the Job says.
    fn tell(&mut self, index: usize) {
        let truth = self.facts.snapshot;
        match &self.events[index].event {
            Event::Pod(pod) => self.seen.pods[*pod] = truth.pods[*pod].clone(),
            Event::Component(component) => {
                self.seen.components[*component] = truth.components[*component].clone();
            }
            Event::Node(name) => {
                if let Some(node) = truth.nodes.get(name) {
                    self.seen.nodes.insert(name.clone(), node.clone());
                }
            }
        }
        self.seen.mark_failed_pods();
    }

    fn name(&self, index: usize) -> String {
        let truth = self.facts.snapshot;
        match &self.events[index].event {
            Event::Pod(pod) => format!("Pod/{}", truth.pods[*pod].name),
            Event::Component(component) => truth.components[*component].title(),
            Event::Node(name) => format!("Node/{name}"),
        }
    }

    /// The facts that had happened by a moment, without those that follow from others.
    fn happened(&self, at: Timestamp) -> u8 {
        let happened = |fact: &Fact| fact.at <= at && !fact.follows;
        let bits = self.events.iter().enumerate().filter(|(_, fact)| happened(fact));
        bits.fold(0, |all, (index, _)| all | 1 << index)
    }
}
