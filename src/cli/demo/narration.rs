//! What happens, in words for somebody who sees it for the first time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::term::{Colour, Span, padded, wide};
use super::words::{amount_text, clock, of_quota, seconds, span};
use crate::api::{AppWrapperStatus, Phase, Retries, SuspectEffect, SuspectNodes, condition};
use crate::config::FaultTolerance;
use crate::decide::pause;
use crate::sim::{Change, Object, Verb};
use crate::tuning::Limits;
use crate::world::actors::kueue::{QUEUE, WorkloadState};
use crate::world::actors::{is_true, phase as phase_of};
use crate::world::show::{Beat, Show, What};

/// One line of the story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub at: Duration,
    /// `Kind/name`.
    pub object: String,
    /// One word.
    pub event: String,
    /// What happened and why.
    pub message: String,
}

/// Who tells it, and what was told already.
#[derive(Debug, Default)]
pub(super) struct Narration {
    /// The node on which a pod of this name ran last.
    nodes: BTreeMap<String, String>,
    /// Nodes that stopped reporting.
    dead: BTreeSet<String>,
    /// What the AppWrapper said when it became unhealthy: reasons of its events are no news.
    unhealthy: BTreeMap<String, BTreeSet<String>>,
}

/// Event and message.
type Said = (&'static str, String);

impl Line {
    pub(super) fn note(object: String, message: String) -> Self {
        Self { at: Duration::ZERO, object, event: "Note".to_owned(), message }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "time": Show::time(self.at), "seconds": seconds(self.at), "object": self.object,
            "event": self.event, "message": self.message,
        })
    }

    /// The line, the object in a column of a width, the event in its colour.
    pub(super) fn spans(&self, width: usize) -> [Span; 3] {
        [
            (format!("{}  {}  ", clock(self.at), padded(&self.object, width)), None),
            (self.event.clone(), self.colour()),
            (format!(": {}", self.message), None),
        ]
    }

    fn colour(&self) -> Option<Colour> {
        match self.event.as_str() {
            "Succeeded" | "Ready" | "Admitted" | "QuotaReleased" | "Back" => Some(Colour::Green),
            "Failed" | "Unhealthy" | "NodeDied" | "Crashed" | "Outage" | "Stuck" | "Forced" => {
                Some(Colour::Red)
            }
            "Resetting" | "Suspending" | "QuotaHeld" | "Waits" | "Evicted" | "Warning" => {
                Some(Colour::Yellow)
            }
            _ => None,
        }
    }
}

/// The width of the column of objects.
pub(super) fn width(lines: &[Line]) -> usize {
    lines.iter().map(|line| wide(&line.object)).max().unwrap_or_default()
}

impl Narration {
    /// The lines about something that happened; none where it is not worth telling.
    pub(super) fn tell(&mut self, beat: &Beat) -> Vec<Line> {
        let (object, said) = match &beat.what {
            What::Changed { change, kind, hangs, wrapper } => {
                let object = format!("{kind}/{}", change.object.address.name);
                let said = match kind.as_str() {
                    "AppWrapper" => self.wrapper(change, beat.at),
                    "Pod" if wrapper.is_some() => self.pod(change, *hangs),
                    "Node" => node(change),
                    _ if wrapper.is_some() => component(change),
                    _ => vec![],
                };
                (object, said)
            }
            What::Warned { name, reason, message } => {
                (format!("AppWrapper/{name}"), self.warned(name, reason, message))
            }
            What::Queued { name, before, now, needs, quota } => {
                let said = queued(*before, *now, needs, quota);
                (format!("AppWrapper/{name}"), vec![said])
            }
            What::Struck { object, event, message } => {
                if let Some(node) = object.strip_prefix("Node/") {
                    self.dead.insert(node.to_owned());
                }
                (object.clone(), vec![(*event, message.clone())])
            }
        };
        let line = |(event, message): Said| Line {
            at: beat.at,
            object: object.clone(),
            event: event.to_owned(),
            message,
        };
        said.into_iter().map(line).collect()
    }

    fn wrapper(&mut self, change: &Change, now: Duration) -> Vec<Said> {
        let object = &change.object;
        let name = object.address.name.to_string();
        if change.verb == Verb::Deleted {
            return vec![("Deleted", "the AppWrapper and all its resources are gone".to_owned())];
        }
        let Some(before) = &change.before else {
            return vec![("Created", introduction(object))];
        };
        let (old, new) = (status(before), status(object));
        let mut said = vec![];
        let became = |kind: &str| {
            condition::is_true(&new.conditions, kind) && !condition::is_true(&old.conditions, kind)
        };
        if became(condition::UNHEALTHY) || reason_changed(&old, &new) {
            let found = condition::find(&new.conditions, condition::UNHEALTHY);
            if let Some(found) = found {
                said.push(("Unhealthy", format!("{}: {}", found.reason, found.message)));
                self.unhealthy.entry(name).or_default().insert(found.reason.clone());
            }
        }
        if old.phase != new.phase {
            said.extend(entered(object, &old, &new));
        }
        if new.suspect_nodes != old.suspect_nodes {
            said.extend(new.suspect_nodes.as_ref().map(avoided));
        }
        if became(condition::PODS_READY) {
            said.push(("Ready", "all its pods are running".to_owned()));
        }
        let lost = condition::is_true(&old.conditions, condition::PODS_READY)
            && new.phase == Phase::Running
            && !condition::is_true(&new.conditions, condition::PODS_READY);
        if let Some(found) =
            condition::find(&new.conditions, condition::PODS_READY).filter(|_| lost)
        {
            said.push(("NotReady", found.message.clone()));
        }
        if gone(&new) && !gone(&old) && new.phase == Phase::Resetting {
            let next = if new.requeue.is_some() {
                "Kueue releases the quota".to_owned()
            } else {
                let when = pause_left(&new, &limits(object), now)
                    .map_or_else(|| "at once".to_owned(), |left| format!("in {}", span(left)));
                format!("the next attempt begins {when}")
            };
            said.push(("EverythingGone", format!("all its resources are deleted; {next}")));
        }
        said
    }

    fn pod(&mut self, change: &Change, hangs: bool) -> Vec<Said> {
        let pod = &change.object;
        let name = pod.address.name.to_string();
        let node = pod.value["spec"]["nodeName"].as_str().unwrap_or_default();
        if change.verb == Verb::Deleted {
            let forced = hangs && change.before.as_ref().is_some_and(|old| old.is_deleting());
            let message = format!("force-deleted; {node} never confirmed that it stopped");
            return if forced { vec![("Forced", message)] } else { vec![] };
        }
        let mut said = vec![];
        let before = change.before.as_deref();
        if hangs && pod.is_deleting() && !before.is_some_and(Object::is_deleting) {
            let message = format!("is Terminating; {node} does not confirm that it stopped");
            said.push(("StuckTerminating", message));
        }
        let unscheduled = |object: &Object| reason_of(object, "PodScheduled") == "Unschedulable";
        if unscheduled(pod) && !before.is_some_and(unscheduled) {
            said.push(("Unschedulable", "no node can run it".to_owned()));
        }
        let phase = phase_of(pod);
        if before.is_some_and(|before| phase_of(before) == phase) {
            return said;
        }
        match phase {
            "Running" => {
                let last = self.nodes.insert(name, node.to_owned());
                let moved = last.filter(|last| last != node && self.dead.contains(last));
                let moved = moved.map(|last| format!(", not on {last} again")).unwrap_or_default();
                let attempt = pod.label("workload.codeflare.dev/attempt").unwrap_or("0");
                said.push(("Runs", format!("on {node}{moved} (attempt {attempt})")));
            }
            "Succeeded" => {
                said.push(("Succeeded", format!("its container exited with code 0 on {node}")));
            }
            // it ends because it is deleted: not worth telling
            "Failed" if pod.is_deleting() && !hangs => {}
            "Failed" => said.push(("Failed", format!("{} on {node}", ending(pod)))),
            _ => {}
        }
        said
    }

    fn warned(&mut self, name: &str, reason: &str, message: &str) -> Vec<Said> {
        let known = self.unhealthy.get_mut(name).is_some_and(|reasons| reasons.remove(reason));
        match reason {
            // the change of phase has told it
            "Resetting" | "Failed" => vec![],
            _ if known => vec![],
            _ => {
                let forced = message.strip_prefix("Waiting for ");
                let forced = forced.filter(|_| reason == condition::deleting::FORCED);
                let message = match forced {
                    Some(named) => format!("force-deletes {named}"),
                    None => message.to_owned(),
                };
                vec![("Warning", format!("{reason}: {message}"))]
            }
        }
    }
}

fn status(object: &Object) -> AppWrapperStatus {
    serde_json::from_value(object.value["status"].clone()).unwrap_or_default()
}

/// The limits of an AppWrapper: its annotations, else the defaults.
pub(super) fn limits_of(annotations: &BTreeMap<String, String>) -> Limits {
    Limits::of(annotations, &FaultTolerance::default()).0
}

fn limits(object: &Object) -> Limits {
    let all = object.value["metadata"]["annotations"].as_object().into_iter().flatten();
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    limits_of(&all.filter_map(text).collect())
}

fn gone(status: &AppWrapperStatus) -> bool {
    status.since.as_ref().is_some_and(|since| since.gone.is_some())
}

/// What is left of the pause before the next attempt; none where it begins at once, or where something still
/// exists.
pub(super) fn pause_left(
    status: &AppWrapperStatus,
    limits: &Limits,
    now: Duration,
) -> Option<Duration> {
    let gone = status.since.as_ref()?.gone.as_ref()?.0;
    let until = Show::moment_of(pause::until(status, limits, gone)?);
    until.checked_sub(now).filter(|left| !left.is_zero())
}

fn reason_changed(old: &AppWrapperStatus, new: &AppWrapperStatus) -> bool {
    let reason = |status: &AppWrapperStatus| {
        condition::find(&status.conditions, condition::UNHEALTHY)
            .filter(|found| found.status == "True")
            .map(|found| found.reason.clone())
    };
    reason(new).is_some_and(|new| reason(old).is_some_and(|old| old != new))
}

fn reason_of<'a>(object: &'a Object, kind: &str) -> &'a str {
    let mut all = object.value["status"]["conditions"].as_array().into_iter().flatten();
    let found = all.find(|one| one["type"] == kind);
    found.and_then(|one| one["reason"].as_str()).unwrap_or_default()
}

fn introduction(object: &Object) -> String {
    let components = object.value["spec"]["components"].as_array().into_iter().flatten();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let titles: Vec<String> = components
        .map(|one| &one["template"])
        .map(|one| format!("{}/{}", word(&one["kind"]), word(&one["metadata"]["name"])))
        .collect();
    let queue = object.label(QUEUE).map(|queue| format!("is submitted to queue {queue} and"));
    format!("{} wraps {}", queue.unwrap_or_default(), titles.join(", ")).trim().to_owned()
}

/// What it means that an AppWrapper is in another phase.
fn entered(object: &Object, old: &AppWrapperStatus, new: &AppWrapperStatus) -> Vec<Said> {
    let managed = object.label(QUEUE).is_some();
    let attempt = new.attempts.last().map_or(0, |attempt| attempt.attempt);
    let held = ("QuotaHeld", "its quota stays reserved during the reset".to_owned());
    let message = match new.phase {
        Phase::Empty => return vec![],
        Phase::Suspended if old.phase == Phase::Suspending && managed => {
            "all its resources are deleted, and its quota is released".to_owned()
        }
        Phase::Suspended if old.phase == Phase::Suspending => {
            "all its resources are deleted".to_owned()
        }
        Phase::Suspended if managed => "no resources are created until Kueue admits it".to_owned(),
        Phase::Suspended => "no resources are created while spec.suspend is true".to_owned(),
        Phase::Resuming => {
            let order = &object.value["spec"]["executionPolicy"]["executionPolicyOrder"];
            let how = if order == "InOrder" { " step by step" } else { "" };
            format!("attempt {attempt} begins: its components are created{how}")
        }
        Phase::Running if new.component_status.iter().any(|one| one.uid.is_none()) => {
            "all components of the first step exist; waiting for their pods".to_owned()
        }
        Phase::Running => "all components exist; waiting for their pods".to_owned(),
        Phase::Suspending => "the controller deletes all its resources".to_owned(),
        Phase::Succeeded => format!("all components succeeded in attempt {attempt}"),
        Phase::Failed => format!("not retried: {}", why_failed(new)),
        Phase::Terminating => "it is being deleted, with all its resources".to_owned(),
        Phase::Resetting if new.requeue.is_some() => {
            "its pods are unschedulable: all its resources are deleted, and it returns to the queue"
                .to_owned()
        }
        Phase::Resetting => {
            let said =
                ("Resetting", format!("all its resources are deleted and recreated{}", count(new)));
            return if managed { vec![said, held] } else { vec![said] };
        }
    };
    vec![(new.phase.as_str(), message)]
}

/// Which nodes its pods avoid.
fn avoided(suspects: &SuspectNodes) -> Said {
    let nodes = suspects.hostnames.join(", ");
    let message = match suspects.effect {
        SuspectEffect::Prefer => format!("its pods prefer other nodes than {nodes}"),
        SuspectEffect::Require => format!("its pods require other nodes than {nodes}"),
    };
    ("Avoids", message)
}

fn count(status: &AppWrapperStatus) -> String {
    let retries = status.attempts.last().and_then(|attempt| attempt.retries);
    retries.map_or_else(String::new, |Retries { used, limit }| {
        // not `resettingCount`, which counts the restarts that were given back, too
        format!(" (restart {} of at most {limit})", used + 1)
    })
}

/// Why it failed, which names the rule or the limit.
fn why_failed(status: &AppWrapperStatus) -> String {
    let found = condition::find(&status.conditions, condition::UNHEALTHY);
    found.map(|found| found.message.clone()).unwrap_or_default()
}

/// How a pod that failed ended.
fn ending(pod: &Object) -> String {
    let statuses = pod.value["status"]["containerStatuses"].as_array().into_iter().flatten();
    let ended = statuses.map(|one| &one["state"]["terminated"]).find(|ended| ended.is_object());
    let Some(ended) = ended else { return "terminated without a container status".to_owned() };
    let reason = ended["reason"].as_str().unwrap_or_default();
    let said = ended["message"].as_str().map(|text| format!(" ({text})")).unwrap_or_default();
    format!("exit code {}, {reason}{said},", ended["exitCode"])
}

fn node(change: &Change) -> Vec<Said> {
    let ready = |object: &Object| is_true(&object.value, "Ready");
    let known = |object: &Object| !reason_of(object, "Ready").is_empty();
    match &change.before {
        Some(before) if known(before) && !ready(before) && ready(&change.object) => {
            vec![("Back", "is Ready again".to_owned())]
        }
        Some(_) | None => vec![],
    }
}

fn component(change: &Change) -> Vec<Said> {
    let owned = change.object.controller().is_some_and(|owner| owner["kind"] == "AppWrapper");
    if !owned || change.verb == Verb::Deleted {
        return vec![];
    }
    let before = change.before.as_deref();
    let became = |kind: &str| {
        is_true(&change.object.value, kind) && !before.is_some_and(|old| is_true(&old.value, kind))
    };
    if became("Failed") {
        return vec![("Failed", reason_of(&change.object, "Failed").to_owned())];
    }
    if became("Complete") || became("Completed") || became("Succeeded") {
        return vec![("Succeeded", "all its pods succeeded".to_owned())];
    }
    vec![]
}

fn queued(
    before: Option<WorkloadState>,
    now: WorkloadState,
    needs: &BTreeMap<String, i64>,
    quota: &BTreeMap<String, (i64, i64)>,
) -> Said {
    let needed = needs.iter().filter(|(_, amount)| **amount > 0);
    let needed = needed.map(|(name, amount)| format!("{} {name}", amount_text(*amount)));
    let needed = needed.collect::<Vec<_>>().join(", ");
    let used = || of_quota(needs, quota, |(used, all)| (used, all), "reserved");
    let free = || of_quota(needs, quota, |(used, all)| (all - used, all), "free");
    match now {
        WorkloadState::Pending => ("Waits", format!("needs {needed}; {}", free())),
        WorkloadState::Admitted => {
            let again =
                if before.is_some_and(|b| b == WorkloadState::Evicting) { " again" } else { "" };
            ("Admitted", format!("Kueue reserves {needed} for it{again}; {}", used()))
        }
        WorkloadState::Evicting => {
            ("Evicted", "evicted by Kueue; its quota is released once nothing is left".to_owned())
        }
        WorkloadState::Finished => ("QuotaReleased", format!("releases {needed}; {}", used())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(value: Value) -> AppWrapperStatus {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_restart_is_counted_as_the_limit_counts() {
        // one restart was given back: the second is again the first of one
        let status = status(json!({
            "resettingCount": 2,
            "attempts": [{"attempt": 1, "retries": {"used": 0, "limit": 1}}],
        }));
        assert_eq!(count(&status), " (restart 1 of at most 1)");
    }

    #[test]
    fn a_warning_says_what_is_done() {
        let mut narration = Narration::default();
        for (reason, message, want) in [
            ("ForcefulDeletion", "Waiting for Pod/p and 1 more", "force-deletes Pod/p and 1 more"),
            ("DeletionInitiated", "Waiting for Pod/p", "Waiting for Pod/p"),
        ] {
            let said = narration.warned("a", reason, message);
            assert_eq!(said, [("Warning", format!("{reason}: {want}"))]);
        }
    }

    #[test]
    fn the_limit_that_was_reached_is_named_once() {
        let message = "pod p failed; retry limit reached (2 of 2 restarts used)";
        let status = status(json!({
            "attempts": [{"attempt": 2, "retries": {"used": 2, "limit": 2}}],
            "conditions": [{
                "type": "Unhealthy", "status": "True", "reason": "FoundFailedPods",
                "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        }));
        assert_eq!(why_failed(&status), message);
    }
}
