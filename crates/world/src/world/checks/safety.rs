//! What must hold after every change.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::{Check, Invariant, Scope};
use crate::api::Phase;
use crate::sim::{Address, Object, Store, Verb};
use crate::world::oracle::retry::Delay;
use crate::world::oracle::{Oracle, State, Thing, Wrapper, decided};

/// The invariants of state.
pub const SAFETY: &[Invariant<Check>] = &[
    ("S1", "where ResourcesDeployed is not True, no resource exists", nothing_undeclared),
    ("S2", "without QuotaReserved, no live pod exists", no_pod_without_quota),
    ("S2", "QuotaReserved is True in Resuming, Running and Resetting", quota_without_a_gap),
    ("S3", "a component is created only after Resuming or its step is stored", created_by_right),
    (
        "S3",
        "Resuming is entered only while suspend and the annotation active allow it",
        resumed_by_right,
    ),
    ("S12", "an unknown outcome is not a failure", failed_by_right),
    ("S5", "objects of two attempts never exist at the same time", attempts_do_not_overlap),
    ("S6", "the count never falls, and rises by one with a restart", counted_once),
    ("S6", "the count never exceeds the limit in force", within_the_limit),
    ("S9", "phases change only along the edges of the state machine", along_the_edges),
    ("S11", "the finalizer is set before anything is created", finalizer_first),
    ("S11", "the finalizer is removed only when nothing is left", finalizer_last),
    ("S13", "the retry pause starts when all resources are deleted", pause_kept),
    ("S13", "a failure takes effect only after its grace period", grace_kept),
    ("S15", "a failure is counted once", charged_once),
    ("S19", "Succeeded only when every pod has ended", ended_before_success),
    ("S19", "phase and conditions agree", conditions_agree),
];

fn names<'a>(things: impl Iterator<Item = &'a crate::world::oracle::Thing>) -> String {
    let all: Vec<String> = things.map(|thing| format!("{}/{}", thing.kind, thing.name)).collect();
    all.join(", ")
}

fn nothing_undeclared(scope: &Scope<'_>) -> Option<String> {
    let State { deployed, phase, .. } = scope.wrapper.state;
    let exists = scope.wrapper.rightful().next().is_some();
    (!deployed && exists).then(|| format!("{phase:?} with {}", names(scope.wrapper.rightful())))
}

fn no_pod_without_quota(scope: &Scope<'_>) -> Option<String> {
    let State { quota, phase, .. } = scope.wrapper.state;
    let live = || scope.wrapper.rightful().filter(|thing| thing.is_live_pod());
    (!quota && live().next().is_some()).then(|| format!("{phase:?} with {}", names(live())))
}

fn quota_without_a_gap(scope: &Scope<'_>) -> Option<String> {
    let State { quota, phase, .. } = scope.wrapper.state;
    let holds = matches!(phase, Phase::Resuming | Phase::Running | Phase::Resetting);
    (holds && !quota).then(|| format!("{phase:?} without quota"))
}

fn is_new_component(scope: &Scope<'_>) -> bool {
    let thing = scope.wrapper.things.get(&scope.change.object.uid);
    scope.ours && scope.change.verb == Verb::Added && thing.is_some_and(|thing| thing.component)
}

fn created_by_right(scope: &Scope<'_>) -> Option<String> {
    if !is_new_component(scope) || scope.late {
        return None;
    }
    let State { phase, attempt, quota, .. } = scope.wrapper.state;
    let thing = scope.wrapper.things.get(&scope.change.object.uid)?;
    let right = quota && scope.wrapper.wants(thing.part, thing.attempt);
    (!right).then(|| {
        format!("{} of attempt {} in {phase:?} of attempt {attempt}", thing.name, thing.attempt)
    })
}

fn resumed_by_right(scope: &Scope<'_>) -> Option<String> {
    let enters =
        scope.wrapper.state.phase == Phase::Resuming && scope.before.phase != Phase::Resuming;
    // the write was guarded, so that whoever wrote has seen it
    let State { suspend, inactive, .. } = scope.wrapper.state;
    match (suspend, inactive) {
        (true, _) if enters => Some("suspend is true".to_owned()),
        (false, true) if enters => Some("the annotation active is false".to_owned()),
        (true | false, true | false) => None,
    }
}

/// A creation in Resuming fails where something was refused for good, a name is taken, or the grace is over. A component
/// that exists may fail while others are still to come.
fn failed_by_right(scope: &Scope<'_>) -> Option<String> {
    let (before, after) = (scope.before.phase, scope.wrapper.state.phase);
    let object = &scope.change.object;
    if before != Phase::Resuming
        || after != Phase::Failed
        || super::policies::conditions_reason(&object.value) != Some("CreateFailed")
    {
        return None;
    }
    let waited = scope.wrapper.lasted + scope.slack;
    let right = scope.wrapper.obstacle
        || waited >= scope.wrapper.tuning.admission
        || has_taken_name(scope.store, scope.oracle, object);
    (!right).then(|| format!("after {:?}", scope.wrapper.lasted))
}

/// Whether somebody else's object has the name of a component of an AppWrapper.
#[must_use]
pub fn has_taken_name(store: &Store, oracle: &Oracle, wrapper: &Object) -> bool {
    let components = wrapper.value["spec"]["components"].as_array();
    components.into_iter().flatten().any(|component| {
        let text = |key: &str| component["template"][key].as_str().unwrap_or_default();
        let name = component["template"]["metadata"]["name"].as_str().unwrap_or_default();
        let kind = store.kinds.by_name(text("apiVersion"), text("kind"));
        let namespace = &wrapper.address.namespace;
        let found = kind.and_then(|kind| store.get(&Address::new(kind, namespace, name)));
        found.is_some_and(|found| oracle.root_of(&found.uid) != Some(&wrapper.uid))
    })
}

fn attempts_do_not_overlap(scope: &Scope<'_>) -> Option<String> {
    let attempts: BTreeSet<i64> = scope
        .wrapper
        .rightful()
        .filter(|thing| thing.component || thing.pod)
        .map(|thing| thing.attempt)
        .collect();
    (attempts.len() > 1)
        .then(|| format!("attempts {attempts:?}: {}", names(scope.wrapper.rightful())))
}

fn counted_once(scope: &Scope<'_>) -> Option<String> {
    let (before, after) = (scope.before, scope.wrapper.state);
    let grew = after.count - before.count;
    let on_the_edge = after.phase == Phase::Resetting && before.phase != Phase::Resetting;
    // with more memory, it goes back through Kueue
    let anew = || {
        after.phase == Phase::Suspending
            && before.phase != Phase::Suspending
            && scope.change.object.value["status"]["pendingMemory"].is_array()
    };
    let recreated = || after.phase == Phase::Running && scope.wrapper.components.sent.len() == 1;
    let right = grew == 0 || grew == 1 && (on_the_edge || anew() || recreated());
    (!right).then(|| format!("{} → {} in {:?}", before.count, after.count, after.phase))
}

fn within_the_limit(scope: &Scope<'_>) -> Option<String> {
    let Wrapper { own, tuning, state, .. } = scope.wrapper;
    let policies = &scope.oracle.policies;
    let global = policies.global.1;
    let limit = if policies.may_hold(&own.named, own.queued) {
        global
    } else {
        own.max_restarts.unwrap_or(tuning.limit)
    };
    let (used, all) = (state.used, state.global_used);
    (used > limit || all > global).then(|| format!("{used} of {limit}, {all} of {global} in all"))
}

fn along_the_edges(scope: &Scope<'_>) -> Option<String> {
    use Phase as P;
    let (from, to) = (scope.before.phase, scope.wrapper.state.phase);
    let right = from == to
        || to == P::Terminating
        || matches!(
            (from, to),
            (P::Empty, P::Suspended | P::Resuming)
                | (P::Suspended, P::Resuming)
                | (P::Resuming, P::Running | P::Resetting | P::Failed | P::Suspending)
                | (P::Running, P::Succeeded | P::Resetting | P::Failed | P::Suspending)
                | (P::Resetting, P::Resuming | P::Suspending)
                | (P::Suspending, P::Suspended)
        );
    (!right || from == P::Terminating && to != from).then(|| format!("{from:?} → {to:?}"))
}

fn finalizer_first(scope: &Scope<'_>) -> Option<String> {
    let lacks = is_new_component(scope) && !scope.late && !scope.wrapper.state.finalizer;
    lacks.then(|| scope.change.object.address.name.to_string())
}

fn finalizer_last(scope: &Scope<'_>) -> Option<String> {
    let went = scope.before.finalizer && !scope.wrapper.state.finalizer;
    // a user's orphaning deletion leaves what has ended and cannot be told from anybody else's
    let is_left = |thing: &&Thing| !thing.unproven || !thing.pod || thing.is_live_pod();
    let left = || scope.wrapper.rightful().filter(is_left);
    (went && left().next().is_some()).then(|| names(left()))
}

fn pause_kept(scope: &Scope<'_>) -> Option<String> {
    let (before, after) = (scope.before.phase, scope.wrapper.state.phase);
    if before != Phase::Resetting || after != Phase::Resuming {
        return None;
    }
    if super::policies::delay(scope) != Delay::None {
        return None;
    }
    // the state of the phase before is still known: note_state has run, so the pause is kept beside it
    let paused = scope.elapsed.saturating_sub(scope.wrapper.paused_from?);
    let pause = scope.wrapper.tuning.pause;
    (paused + scope.slack < pause).then(|| format!("{paused:?} of {pause:?}"))
}

fn grace_kept(scope: &Scope<'_>) -> Option<String> {
    let (before, after) = (scope.before.phase, scope.wrapper.state.phase);
    let from = matches!(before, Phase::Running | Phase::Resuming);
    let acted = matches!(after, Phase::Resetting | Phase::Failed) && from;
    if !acted || scope.wrapper.tuning.codes || scope.wrapper.state.inactive {
        return None;
    }
    let attempt = decided(&scope.change.object.value)?;
    let rule = &attempt["rule"];
    let source = rule["source"].as_str().unwrap_or_default();
    // a rule decides at once; a default action and a limit do not
    let by_rule = match source {
        "podFailurePolicy" | "failurePolicy" => true,
        "retryPolicy" => rule["name"].is_string(),
        _ => false,
    };
    let fails = after == Phase::Failed;
    let conditions = scope.change.object.value["status"]["conditions"].as_array();
    let unhealthy = conditions.into_iter().flatten().find(|one| one["type"] == "Unhealthy")?;
    let tuning = &scope.wrapper.tuning;
    let (waited, grace) = match unhealthy["reason"].as_str()? {
        // in Resuming, `failed_by_right` judges the rest
        reason if before == Phase::Resuming && reason != "FoundFailedPods" => return None,
        "FoundFailedPods" if by_rule || has_terminating_component(scope, attempt) => {
            return None;
        }
        "FoundFailedPods" => {
            let failed = scope.wrapper.failed_before?;
            (scope.elapsed.saturating_sub(failed), tuning.failure)
        }
        // which of a Job's many completions should run now, only the Job knows
        "InsufficientPodsReady" if !scope.wrapper.countable => return None,
        // all pods run: how long one was not Ready is not known here
        "InsufficientPodsReady" if scope.wrapper.has_full_steps() => return None,
        "InsufficientPodsReady" => {
            let shortest = tuning.admission.min(tuning.warmup);
            let spared = by_rule && fails && source == "retryPolicy";
            let failure = if spared { Duration::ZERO } else { tuning.failure };
            (scope.wrapper.short_before, shortest + failure)
        }
        _ => return None,
    };
    (waited + scope.slack + scope.dated_within < grace)
        .then(|| format!("{} after {waited:?} of {grace:?}", unhealthy["reason"]))
}

/// Whether a component that is a pod failed, and is being deleted or gone, as the first cause or one of several: nothing
/// makes up for its failure.
fn has_terminating_component(scope: &Scope<'_>, attempt: &Value) -> bool {
    let cause = &attempt["failure"];
    let is_component = cause["pod"].as_str().is_some_and(|pod| {
        cause["component"] == *pod || cause["component"] == format!("Pod/{pod}")
    });
    let things = &scope.wrapper.things;
    let is_gone = cause["podUID"].as_str().is_some_and(|uid| things.get(uid).is_none());
    let components = scope.change.object.value["spec"]["components"].as_array();
    let mut pods = components.into_iter().flatten().zip(0..);
    let other_is_gone = attempt["collateral"].as_i64().is_some_and(|others| others > 0)
        && pods.any(|(component, index)| {
            let is_it = |thing: &Thing| thing.component && thing.part == Some(index);
            component["template"]["kind"] == "Pod" && !things.values().any(is_it)
        });
    let mut going = things.values().filter(|thing| thing.pod && thing.component);
    going.any(|thing| thing.terminating && thing.phase == "Failed")
        || is_component && is_gone
        || other_is_gone
}

fn charged_once(scope: &Scope<'_>) -> Option<String> {
    let charged = &scope.wrapper.charged;
    let last = charged.last()?;
    let grew = scope.wrapper.state.count > scope.before.count;
    let twice = charged.iter().filter(|uid| *uid == last).count() > 1;
    (grew && twice).then(|| format!("pod {last}"))
}

fn ended_before_success(scope: &Scope<'_>) -> Option<String> {
    let enters =
        scope.wrapper.state.phase == Phase::Succeeded && scope.before.phase != Phase::Succeeded;
    let live = || scope.wrapper.rightful().filter(|t| t.pod && (t.is_live_pod() || t.terminating));
    (enters && live().next().is_some()).then(|| names(live()))
}

fn conditions_agree(scope: &Scope<'_>) -> Option<String> {
    let State { phase, quota, deployed, count, .. } = scope.wrapper.state;
    let right = match phase {
        Phase::Empty | Phase::Suspended => !quota && !deployed,
        Phase::Resuming | Phase::Running => quota && deployed,
        // nothing is deployed in a pause, from which it may be suspended
        Phase::Resetting | Phase::Suspending => quota,
        Phase::Succeeded => !quota,
        // the quota goes with the last object, in one write
        Phase::Failed => quota == deployed,
        Phase::Terminating => true,
    };
    (!right).then(|| format!("{phase:?}: quota {quota}, deployed {deployed}, count {count}"))
}
