//! What may change in an AppWrapper, and by whom.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::finding::{Findings, text};
use super::{Finding, Occasion, judged};
use crate::api::{
    Component, ExecutionPolicy, FailurePolicy, OnNoFit, PodFailurePolicy, Progress,
    UNLESS_SUSPENDED, keys,
};
use crate::config::Config;
use crate::price::{METADATA_BYTES_MAX, OBJECT_BYTES_MAX, stored_bytes};

/// Who asks for a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// It is Kueue.
    pub is_kueue: bool,
    /// It is this controller.
    pub is_controller: bool,
}

const IMMUTABLE: &str = "must not be changed";

/// Everything that is wrong with a change of an AppWrapper.
///
/// What was wrong with the old object already is not held against the new one: it may have been
/// stored without validation, and it must still be possible to finish and delete it.
#[must_use]
pub fn update(old: &Value, new: &Value, requester: Requester, config: &Config) -> Vec<Finding> {
    let mut report = Findings::default();
    if old["spec"] != new["spec"] || old["metadata"] != new["metadata"] {
        let of = |object: &Value| judged(object, config, Occasion::Stored);
        let found = of(new);
        // most are right, and then the old one need not be looked at
        let before = if found.is_empty() { vec![] } else { of(old) };
        for finding in found.into_iter().filter(|each| !before.contains(each)) {
            report.push(finding);
        }
    }
    labels(old, new, &mut report);
    if old["spec"] != new["spec"] {
        spec(old, new, requester, &mut report);
    }
    report.into_findings()
}

/// What is wrong with how an AppWrapper grows, where it does: it must leave room for its status, and its
/// creator could make it larger later. What Kueue and this controller write is never in question, and
/// neither is anything that does not grow.
#[must_use]
pub fn growth(old: &Value, new: &Value, requester: Requester) -> Option<Finding> {
    if requester.is_kueue || requester.is_controller {
        return None;
    }
    let metadata = |object: &Value| stored_bytes(&object["metadata"]);
    let (before, now) = (metadata(old), metadata(new));
    let mut report = Findings::default();
    if now > before && now > METADATA_BYTES_MAX {
        let message = format!(
            "must not grow beyond {METADATA_BYTES_MAX} bytes as stored, including managedFields; it \
             was {before}"
        );
        report.invalid("metadata", format!("{now} bytes"), message);
    }
    if old["spec"] != new["spec"] {
        let (before, after) = (asked(old), asked(new));
        if after > before && after.saturating_add(now) > OBJECT_BYTES_MAX {
            let message = format!(
                "must not grow beyond {OBJECT_BYTES_MAX} bytes as stored, including metadata ({now}); \
                 it was {before}"
            );
            report.invalid("spec", format!("{after} bytes"), message);
        }
    }
    report.into_findings().into_iter().next()
}

/// Bytes of what is asked for; that it is suspended is always the same.
fn asked(aw: &Value) -> usize {
    let fields = aw["spec"].as_object().into_iter().flatten();
    let asked = fields.filter(|(name, _)| *name != "suspend");
    asked.map(|(name, value)| name.len() + stored_bytes(value) + 4).sum()
}

/// The labels that name the user who created it.
fn labels(old: &Value, new: &Value, report: &mut Findings) {
    for key in [keys::USER, keys::USER_ID] {
        let value = &new["metadata"]["labels"][key];
        if old["metadata"]["labels"][key] != *value {
            report.invalid(format!("metadata.labels[{key}]"), text(value), IMMUTABLE);
        }
    }
}

fn spec(old: &Value, new: &Value, requester: Requester, report: &mut Findings) {
    let queued = is_queued(old) || is_queued(new);
    let (old, new) = (&old["spec"], &new["spec"]);
    let suspended = is_suspended(old);
    if given(&old["managedBy"]) != given(&new["managedBy"]) {
        report.invalid("spec.managedBy", text(&new["managedBy"]), IMMUTABLE);
    }
    if given(&old["requester"]) != given(&new["requester"]) {
        report.wrong("spec.requester", IMMUTABLE);
    }
    if suspended != is_suspended(new) && queued && !requester.is_kueue && !requester.is_controller {
        let message = "must be changed only by Kueue: the AppWrapper has a queue";
        report.invalid("spec.suspend", text(&new["suspend"]), message);
    }
    if !same::<ExecutionPolicy>(&old["executionPolicy"], &new["executionPolicy"]) {
        report.wrong("spec.executionPolicy", IMMUTABLE);
    }
    if !suspended {
        if !same::<FailurePolicy>(&old["failurePolicy"], &new["failurePolicy"]) {
            report.wrong("spec.failurePolicy", UNLESS_SUSPENDED);
        }
        if !same::<PodFailurePolicy>(&old["podFailurePolicy"], &new["podFailurePolicy"]) {
            report.wrong("spec.podFailurePolicy", UNLESS_SUSPENDED);
        }
        if !same::<Progress>(&old["progress"], &new["progress"]) {
            report.wrong("spec.progress", UNLESS_SUSPENDED);
        }
        if !same::<OnNoFit>(&old["onNoFit"], &new["onNoFit"]) {
            report.wrong("spec.onNoFit", UNLESS_SUSPENDED);
        }
    }
    components(old, new, requester, queued, report);
}

fn components(old: &Value, new: &Value, requester: Requester, queued: bool, report: &mut Findings) {
    let list = |spec: &'_ Value| spec["components"].as_array().cloned().unwrap_or_default();
    // the controller grows a template; with a queue only in the write that sends it back to Kueue
    let grows = requester.is_controller && (is_suspended(new) || !queued);
    let (old, new) = (list(old), list(new));
    if old.len() != new.len() {
        let message = format!("must not be changed: the AppWrapper has {} components", old.len());
        return report.invalid("spec.components", new.len().to_string(), message);
    }
    for (i, (old, new)) in old.iter().zip(&new).enumerate() {
        let path = format!("spec.components[{i}]");
        if old["template"] != new["template"] && !grows {
            report.wrong(format!("{path}.template"), IMMUTABLE);
        }
        // compared by meaning: Kueue writes the whole list through types of its own
        let typed = |raw: &Value| serde_json::from_value::<Component>(raw.clone()).ok();
        let (same_sets, same_infos) = match (typed(old), typed(new)) {
            (Some(old), Some(new)) => (
                old.pod_sets.len() == new.pod_sets.len()
                    && old.pod_sets.iter().zip(&new.pod_sets).all(|(old, new)| {
                        old.path == new.path
                            && old.count() == new.count()
                            && old.annotations == new.annotations
                    }),
                old.pod_set_infos == new.pod_set_infos,
            ),
            _ => (old["podSets"] == new["podSets"], old["podSetInfos"] == new["podSetInfos"]),
        };
        if !same_sets {
            report.wrong(format!("{path}.podSets"), IMMUTABLE);
        }
        if !same_infos && queued && !requester.is_kueue {
            let message = "must be changed only by Kueue: the AppWrapper has a queue";
            report.wrong(format!("{path}.podSetInfos"), message);
        }
    }
}

fn is_queued(aw: &Value) -> bool {
    aw["metadata"]["labels"][keys::QUEUE_NAME].as_str().is_some_and(|queue| !queue.is_empty())
}

fn is_suspended(spec: &Value) -> bool {
    spec["suspend"].as_bool().unwrap_or_default()
}

fn given(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| !value.is_null())
}

/// Whether two values mean the same: what is left out, null and empty are not told apart.
pub(super) fn same<T: DeserializeOwned + PartialEq>(old: &Value, new: &Value) -> bool {
    let typed = |raw: &Value| serde_json::from_value::<Option<T>>(raw.clone());
    match (typed(old), typed(new)) {
        (Ok(old), Ok(new)) => old == new,
        _ => old == new,
    }
}
