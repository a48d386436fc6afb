//! A decision in the making: the status as it will be, and what goes with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::{Decision, Facts, Verdict, VerdictAction, Warning, recovery, usage};
use crate::api::{AppWrapperStatus, ComponentStatus, Phase, Since, condition};
use crate::plan::{Action, FreshRead};
use crate::price::POD_OWNERS_MAX;
use crate::printable::escape;
use crate::status;
use crate::suspicion::Testimony;

/// A decision in the making.
#[derive(Debug)]
pub struct Draft<'a> {
    /// What it depends on.
    pub facts: Facts<'a>,
    /// The status as it will be; the phase is set at the end.
    pub status: AppWrapperStatus,
    /// The decision in words.
    pub verdict: Verdict,
    /// Unhealthy was set to True in this decision; later checks do not clear it.
    pub unhealthy: bool,
    /// What the failure that is decided about says about its node.
    pub testimony: Option<Testimony>,
    /// Since when more pods live than are declared; none where no more do.
    pub over_quota_since: Option<Timestamp>,
    /// Actions, events, reads and the next look: they change by the functions below alone.
    decision: Decision,
}

impl<'a> Draft<'a> {
    pub(super) fn new(facts: Facts<'a>) -> Self {
        Self {
            facts,
            status: facts.snapshot.status.clone(),
            verdict: Verdict::default(),
            unhealthy: false,
            testimony: None,
            over_quota_since: None,
            decision: Decision::default(),
        }
    }

    /// Sets a condition of the AppWrapper. What others wrote is escaped in its message.
    pub fn condition(&mut self, kind: &str, status: bool, reason: &str, message: &str) {
        let message = escape(message);
        condition::set(&mut self.status.conditions, kind, status, reason, &message, self.facts.now);
    }

    /// Sets a condition to True with its message, also where it had another: only where the status is written anyway, or where
    /// something else is named.
    pub fn say(&mut self, kind: &str, reason: &str, message: &str) {
        let message = escape(message);
        let now = self.facts.now;
        condition::set_message(&mut self.status.conditions, kind, true, reason, &message, now);
    }

    /// Sets a condition to False where it is there and True.
    pub fn clear(&mut self, kind: &str, reason: &str, message: &str) {
        if condition::is_true(&self.status.conditions, kind) {
            self.condition(kind, false, reason, message);
        }
    }

    /// The anchors, to be changed.
    pub fn since(&mut self) -> &mut Since {
        self.status.since.get_or_insert_default()
    }

    /// The moment from which a period runs that begins now.
    pub const fn anchor(&self) -> Time {
        Time(self.facts.anchor)
    }

    /// Asks for something to be done.
    pub fn act(&mut self, action: Action) {
        self.decision.actions.push(action);
    }

    /// Whether something is to be done.
    pub fn acts(&self) -> bool {
        !self.decision.actions.is_empty()
    }

    /// Whether something must be read before this can be decided.
    pub fn asks(&self) -> bool {
        self.decision.asks()
    }

    /// Asks for a read before this can be decided.
    pub fn ask(&mut self, ask: FreshRead) {
        self.decision.ask = ask;
    }

    /// Asks for the Workload to be read before this can be decided.
    pub const fn ask_workload(&mut self) {
        self.decision.ask_workload = true;
    }

    /// Reconciles again at this time; the earliest counts.
    pub fn look_again(&mut self, at: Timestamp) {
        let requeue = &mut self.decision.requeue;
        *requeue = Some(requeue.map_or(at, |before| before.min(at)));
    }

    /// Nothing to do before this moment, which is when something will be decided.
    pub fn wait(&mut self, deadline: Timestamp) {
        self.look_again(deadline);
        self.verdict.action = VerdictAction::Wait;
        self.verdict.deadline = Some(deadline);
    }

    /// Makes an event of type Warning. What others wrote is escaped in its message.
    pub fn warn(&mut self, reason: &'static str, message: impl AsRef<str>) {
        let message = escape(message.as_ref()).into_owned();
        self.decision.events.push(Warning { reason, message });
    }

    /// Gives the event of this reason that says no more than this message another text; whether there is one.
    pub fn reword(&mut self, reason: &str, message: &str, text: &str) -> bool {
        let message = escape(message);
        let said =
            |it: &&mut Warning| it.reason == reason && message.starts_with(it.message.as_str());
        let event = self.decision.events.iter_mut().find(said);
        event.map(|event| event.message = escape(text).into_owned()).is_some()
    }

    /// `componentStatus`, one entry for each component, made where it is not there yet.
    pub fn component_status(&mut self) -> &mut Vec<ComponentStatus> {
        let components = &self.facts.snapshot.components;
        if self.status.component_status.len() != components.len() {
            self.status.component_status = components
                .iter()
                .map(|component| ComponentStatus {
                    name: component.name.clone(),
                    kind: component.kind.clone(),
                    api_version: component.api_version.clone(),
                    pod_sets: component.pod_sets.clone(),
                    ..ComponentStatus::default()
                })
                .collect();
        }
        &mut self.status.component_status
    }

    /// What stands between components and pods goes into a status that is written in any case. It is needed
    /// after a restart only, for pods that outlive their owners.
    fn record_pod_owners(&mut self, next: Phase) {
        let is_of_this_attempt = match next {
            Phase::Running | Phase::Resetting | Phase::Suspending | Phase::Terminating => true,
            Phase::Empty
            | Phase::Suspended
            | Phase::Resuming
            | Phase::Succeeded
            | Phase::Failed => false,
        };
        if !is_of_this_attempt {
            return;
        }
        let recorded = self.status.component_status.iter().map(|entry| entry.pod_owners.len());
        let mut left = POD_OWNERS_MAX.saturating_sub(recorded.sum());
        let seen = self.facts.snapshot.components.iter().map(|component| &component.pod_owners);
        for (entry, seen) in self.status.component_status.iter_mut().zip(seen) {
            let new = seen.iter().filter(|uid| !entry.pod_owners.contains(uid));
            let new: Vec<String> = new.take(left).cloned().collect();
            left -= new.len();
            entry.pod_owners.extend(new);
        }
    }

    /// The decision. A changed status is written alone; its actions follow with the next reconcile.
    pub(super) fn finish(mut self, next: Phase) -> Decision {
        let stored = &self.facts.snapshot.status;
        if self.asks() {
            // nothing may be concluded before the answer
            self.status = stored.clone();
            self.decision.actions.clear();
            self.decision.events.clear();
            self.testimony = None;
            return self.decision(next);
        }
        self.status.phase = next;
        if self.status.since.as_ref().is_some_and(|since| *since == Since::default()) {
            self.status.since = None;
        }
        if self.status != *stored {
            self.record_pod_owners(next);
            let status = std::mem::take(&mut self.status);
            self.status = status::writable(status, stored, self.facts.snapshot.rest_bytes);
        }
        if self.status != *stored {
            self.status.usage = usage::updated(&self);
            let kueue = self.facts.snapshot.wait_for_pods_ready;
            let eviction = recovery::eviction(&self.status, kueue);
            self.status.recovery_deadline = eviction.map(|eviction| Time(eviction.at));
        }
        if self.status != *stored {
            self.decision.actions.clear();
        }
        self.decision(next)
    }

    fn decision(self, next: Phase) -> Decision {
        let Self { status, verdict, testimony, over_quota_since, decision, .. } = self;
        Decision { next, status, testimony, over_quota_since, verdict, ..decision }
    }
}
