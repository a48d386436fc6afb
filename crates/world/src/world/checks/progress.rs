//! What must hold of `spec.progress`, by what the pods really reported.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::liveness::EndScope;
use super::{Check, Invariant, Scope};
use crate::sim::Store;
use crate::world::actors::is_true;
use crate::world::moment;
use crate::world::oracle::{Wrapper, decided};

/// How long after its deadline a hang is handled at the latest, where nothing goes wrong.
const PROMPT: Duration = Duration::from_secs(5);

/// The invariants of `spec.progress`.
pub const PROGRESS: &[Invariant<Check>] = &[
    ("P15", "no AppWrapper that reports in time counts as hanging", reported_in_time),
    ("P15", "a hang is handled within 5 s of its deadline", handled_promptly),
    ("P15", "a hang is not found later than the periods of spec.progress allow", found_in_time),
];

/// When a hang was found that this write handles.
fn hang(scope: &Scope<'_>) -> Option<Timestamp> {
    let of = |value: &Value| {
        let last = decided(value).filter(|last| last["failure"]["category"] == "hang")?;
        last["failedAt"].as_str()?.parse::<Timestamp>().ok()
    };
    let before = scope.change.before.as_ref().and_then(|before| of(&before.value));
    of(&scope.change.object.value).filter(|at| Some(*at) != before)
}

/// The progress that pods of the current attempt in these phases report: when, and the step. Those of components that
/// have succeeded are left out.
fn reports(
    wrapper: &Wrapper,
    (store, object): (&Store, &Value),
    phases: &[&str],
) -> Vec<(Timestamp, i64)> {
    let own = wrapper.things.iter().filter(|(_, it)| it.pod && !it.late && !it.terminating);
    own.filter(|(_, thing)| thing.attempt == wrapper.state.attempt)
        .filter(|(_, thing)| phases.contains(&thing.phase.as_str()))
        .filter(|(_, thing)| {
            let set = thing.pod_set.as_deref().and_then(|set| set.split('-').next());
            let index = set.and_then(|text| text.parse().ok());
            !index.is_some_and(|index| has_succeeded(object, index))
        })
        .filter_map(|(uid, _)| {
            let text = store.by_uid(uid)?.annotation("workload.codeflare.dev/progress")?;
            let report: Value = serde_json::from_str(text).ok()?;
            Some((report["at"].as_str()?.parse().ok()?, report["step"].as_i64()?))
        })
        .collect()
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn reported_in_time(scope: &Scope<'_>) -> Option<String> {
    let hang = hang(scope)?;
    let Some((_, stall)) = scope.wrapper.own.progress else {
        return Some(format!("a hang at {hang} without spec.progress"));
    };
    let stall = stall?;
    let seen = (scope.store, &scope.change.object.value);
    let all = reports(scope.wrapper, seen, &["Running"]);
    // what was written while it was decided may not have been seen
    let in_time = |at: Timestamp| {
        later(at, scope.slack) < hang && later(at, stall.saturating_sub(scope.slack)) > hang
    };
    let newer = all.into_iter().find(|(at, _)| in_time(*at))?;
    Some(format!("a hang at {hang}, but step {} was reported at {}", newer.1, newer.0))
}

fn handled_promptly(scope: &Scope<'_>) -> Option<String> {
    let hang = hang(scope).filter(|_| scope.prompt)?;
    let now = moment(scope.elapsed);
    (now > later(hang, PROMPT)).then(|| format!("a hang at {hang}, handled at {now}"))
}

fn found_in_time(scope: &Scope<'_>) -> Option<String> {
    let hang = hang(scope)?;
    let (start, stall) = scope.wrapper.own.progress?;
    let before = scope.change.before.as_ref()?;
    let seen = (scope.store, &scope.change.object.value);
    // the pod that reported last may fail while the hang is written
    let all = reports(scope.wrapper, seen, &["Running", "Succeeded", "Failed"]);
    let ready = condition_since(&before.value["status"], "PodsReady");
    let components = before.value["status"]["componentStatus"].as_array();
    let succeeded =
        components.into_iter().flatten().filter_map(|one| condition_since(one, "Succeeded"));
    let last = all.into_iter().map(|(at, _)| at).chain(ready).chain(succeeded).max()?;
    let longest = start.max(stall)?;
    let late = hang > later(last, longest + scope.slack);
    late.then(|| format!("a hang at {hang}, {longest:?} after {last}"))
}

fn condition_since(status: &Value, kind: &str) -> Option<Timestamp> {
    let all = status["conditions"].as_array()?;
    let found = all.iter().find(|one| one["type"] == kind && one["status"] == "True")?;
    found["lastTransitionTime"].as_str()?.parse().ok()
}

/// Once nothing happens any more, no pod reports: one that still runs has stopped.
pub(super) fn none_hangs(scope: &EndScope<'_>) -> Option<String> {
    let mut all = scope.oracle.wrappers.values().filter(|wrapper| wrapper.sane);
    all.find_map(|wrapper| {
        let (_, stall) = wrapper.own.progress?;
        stall?;
        let object = scope.store.get(&wrapper.address)?;
        let state = wrapper.state;
        let runs = state.phase == crate::api::Phase::Running && !state.deleting && !state.suspend;
        if !runs || !is_true(&object.value, "PodsReady") {
            return None;
        }
        let seen = (scope.store, &object.value);
        let (at, step) = reports(wrapper, seen, &["Running"]).into_iter().max()?;
        Some(format!("{}: step {step} at {at}, and none newer", wrapper.address.name))
    })
}

/// Whether it is written that a component has succeeded.
pub(super) fn has_succeeded(object: &Value, index: usize) -> bool {
    let conditions = object["status"]["componentStatus"][index]["conditions"].as_array();
    let mut all = conditions.into_iter().flatten();
    all.any(|one| one["type"] == "Succeeded" && one["status"] == "True")
}
