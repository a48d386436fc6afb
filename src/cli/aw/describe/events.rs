//! Warning events: about an AppWrapper, and about what should make its pods run.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::tree::look::{self, Found};
use crate::api::condition;
use crate::cli::place::Place;
use crate::observe::assemble::Wrapper;
use crate::observe::raw_object::RawObject;
use crate::snapshot::{Pod, PodPhase, Snapshot};

/// The most events that are shown.
const EVENTS_MAX: usize = 5;
/// The most objects other than the AppWrapper whose events are read, and the most pods among them.
const OBJECTS_MAX: usize = 8;
const PODS_MAX: usize = 3;

/// A Warning event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Warning {
    pub at: Option<Timestamp>,
    pub count: i32,
    pub reason: String,
    pub message: String,
    /// `<kind>/<name>` of the object that it is about; none where that is the AppWrapper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
}

/// The Warning events about an AppWrapper. While it waits for its pods, those about its components, what they have made, and
/// pods that do not run yet, too: why a Job has no pods, or a pod no volume, stands nowhere else. Notes why others cannot be
/// seen, once.
pub(in crate::cli) async fn warnings(
    place: &Place,
    wrapper: &Wrapper,
    snapshot: Option<&Snapshot>,
    notes: &mut Vec<String>,
) -> Vec<RawObject> {
    let mut about = vec![wrapper.uid.clone()];
    if let Some(snapshot) = snapshot.filter(|_| waits_for_pods(wrapper)) {
        let components = components(snapshot);
        let made = look::made(place, wrapper, &components).await;
        about.extend(makers(snapshot, components, made));
    }
    let mut found = vec![];
    for uid in about {
        match place.warnings(&uid).await {
            Ok(more) => found.extend(more),
            Err(note) if notes.contains(&note) => {}
            Err(note) => notes.push(note),
        }
    }
    found
}

/// The same among the objects of a bundle.
pub(in crate::cli) fn among(
    wrapper: &Wrapper,
    snapshot: &Snapshot,
    found: &Found,
) -> Vec<RawObject> {
    let mut about = BTreeSet::from([wrapper.uid.clone()]);
    if waits_for_pods(wrapper) {
        let components = components(snapshot);
        let made = look::made_among(found, &components);
        about.extend(makers(snapshot, components, made));
    }
    let events = found.objects.iter().filter(|(kind, _)| kind.kind == "Event");
    let seen = events.map(|(_, seen)| seen);
    seen.filter(|seen| is_warning_about(seen, &about)).cloned().collect()
}

/// Whether this is a Warning event about one of the objects of these UIDs.
fn is_warning_about(seen: &RawObject, about: &BTreeSet<String>) -> bool {
    // one that cannot be read is about nothing
    let event: Value = serde_json::from_str(seen.raw.get()).unwrap_or_default();
    let uid = event["involvedObject"]["uid"].as_str();
    event["type"] == "Warning" && uid.is_some_and(|uid| about.contains(uid))
}

fn waits_for_pods(wrapper: &Wrapper) -> bool {
    let status = &wrapper.status;
    status.phase.runs_components() && !condition::is_true(&status.conditions, condition::PODS_READY)
}

/// UIDs of the components that make pods.
fn components(snapshot: &Snapshot) -> Vec<String> {
    let components = snapshot.components.iter().filter(|component| !component.pod_sets.is_empty());
    components.filter_map(|component| Some(component.ours()?.uid.clone())).collect()
}

/// UIDs of what should make the pods run: pods that do not, components, and what those have made.
fn makers(snapshot: &Snapshot, components: Vec<String>, made: Vec<String>) -> BTreeSet<String> {
    let is_pending = |pod: &&Pod| pod.phase == PodPhase::Pending && !pod.terminating;
    let pods = snapshot.pods.iter().filter(is_pending).take(PODS_MAX).map(|pod| pod.uid.clone());
    pods.chain(components).chain(made).take(OBJECTS_MAX).collect()
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LeanEvent {
    reason: String,
    message: String,
    count: Option<i32>,
    series: Option<LeanSeries>,
    first_timestamp: Option<Timestamp>,
    last_timestamp: Option<Timestamp>,
    event_time: Option<Timestamp>,
    involved_object: Involved,
}

/// What is counted of an event that came more than once.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LeanSeries {
    count: i32,
    last_observed_time: Option<Timestamp>,
}

/// What an event is about.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Involved {
    kind: String,
    name: String,
    uid: String,
}

/// The last events, the last one at the end; `uid` is the AppWrapper's. What another object repeats with other names, such as
/// that of the pod that its Job cannot create, is shown once.
pub(super) fn last(events: &[RawObject], uid: &str) -> Vec<Warning> {
    let mut all: Vec<Warning> = events
        .iter()
        .map(|seen| {
            // one that cannot be read says nothing
            let event: LeanEvent = serde_json::from_str(seen.raw.get()).unwrap_or_default();
            let created = seen.meta.creation_timestamp.as_ref().map(|time| time.0);
            let series = event.series.unwrap_or_default();
            let last = series.last_observed_time.or(event.last_timestamp);
            let at = last.or(event.event_time).or(event.first_timestamp);
            let Involved { kind, name, uid: of } = event.involved_object;
            Warning {
                at: at.or(created),
                count: event.count.unwrap_or(1).max(series.count),
                reason: event.reason,
                message: event.message,
                object: (of != uid).then(|| format!("{kind}/{name}")),
            }
        })
        .collect();
    all.sort_by(|a, b| (a.at, &a.reason, &a.message).cmp(&(b.at, &b.reason, &b.message)));
    // whoever may create events chooses how many there are
    let mut shown: Vec<Warning> = vec![];
    for event in all.into_iter().rev() {
        let is_same = |other: &&mut Warning| {
            event.object.is_some()
                && (&other.object, &other.reason) == (&event.object, &event.reason)
        };
        if let Some(same) = shown.iter_mut().find(is_same) {
            same.count = same.count.saturating_add(event.count);
        } else if shown.len() < EVENTS_MAX {
            shown.push(event);
        }
    }
    shown.reverse();
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(event: &Value) -> RawObject {
        serde_json::from_str(&event.to_string()).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    #[test]
    fn the_last_events_are_shown_in_order_with_what_they_are_about() {
        let event = |second: i64| {
            let (kind, uid) = if second == 4 { ("Job", "job") } else { ("AppWrapper", "aw") };
            seen(&json!({"metadata": {"name": "e"}, "reason": format!("R{second}"),
                "message": "m", "lastTimestamp": at(second),
                "involvedObject": {"kind": kind, "name": "train", "uid": uid}}))
        };
        let events: Vec<RawObject> = [3, 1, 7, 2, 5, 4, 6].map(event).into();
        let shown = last(&events, "aw");
        let reasons: Vec<&str> = shown.iter().map(|event| event.reason.as_str()).collect();
        assert_eq!(reasons, ["R3", "R4", "R5", "R6", "R7"]);
        let objects: Vec<Option<&str>> =
            shown.iter().map(|event| event.object.as_deref()).collect();
        assert_eq!(objects, [None, Some("Job/train"), None, None, None]);
        let [one, same] = ["job-x is forbidden", "job-y is forbidden"].map(|message| {
            seen(&json!({"metadata": {"name": "e"}, "reason": "FailedCreate", "message": message,
                "lastTimestamp": at(1), "count": 2,
                "involvedObject": {"kind": "Job", "name": "train", "uid": "job"}}))
        });
        let shown = last(&[one, same], "aw");
        let said: Vec<_> =
            shown.iter().map(|event| (event.message.as_str(), event.count)).collect();
        assert_eq!(said, [("job-y is forbidden", 4)], "the pods that a Job cannot create differ");
        let micro = json!({"metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.123456Z"});
        assert_eq!(
            last(&[seen(&micro)], "")[0].at.map(Timestamp::as_second),
            Some(at(0).as_second())
        );
    }

    #[test]
    fn more_events_are_read_only_while_pods_are_waited_for() {
        for (phase, ready, want) in [
            ("Suspended", None, false),
            ("Resuming", None, true),
            ("Running", None, true),
            ("Running", Some("False"), true),
            ("Running", Some("True"), false),
            ("Resetting", Some("False"), false),
            ("Succeeded", None, false),
        ] {
            let conditions: Vec<Value> = ready
                .map(|ready| {
                    json!({"type": "PodsReady", "status": ready, "reason": "r", "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"})
                })
                .into_iter()
                .collect();
            let wrapper = json!({"metadata": {"name": "aw", "namespace": "ns", "uid": "u"},
                "spec": {"components": []}, "status": {"phase": phase, "conditions": conditions}});
            let wrapper = Wrapper::read(&seen(&wrapper)).unwrap();
            assert_eq!(waits_for_pods(&wrapper), want, "{phase} {ready:?}");
        }
    }
}
