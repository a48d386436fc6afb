//! What must hold of `refill` and `stopWhen`.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::{Check, Invariant, Scope};
use crate::world::oracle::decided;

/// The invariants of budgets.
pub const BUDGETS: &[Invariant<Check>] = &[
    ("P13", "restarts are given back only after readiness without interruption", earned),
    ("P13", "each counted restart is counted by the budget", counted_on),
    ("P14", "no restart follows attempts without progress that stopWhen stops", stopped),
];

fn given_back(scope: &Scope<'_>) -> Option<Timestamp> {
    let since = |object: &Value| object["status"]["budget"]["since"].as_str()?.parse().ok();
    let before = scope.change.before.as_ref().and_then(|before| since(&before.value));
    let after = since(&scope.change.object.value);
    after.filter(|_| after != before)
}

/// Since when `PodsReady` is True.
fn ready_since(object: &Value) -> Option<Timestamp> {
    let mut all = object["status"]["conditions"].as_array()?.iter();
    let ready = all.find(|one| one["type"] == "PodsReady" && one["status"] == "True")?;
    ready["lastTransitionTime"].as_str()?.parse().ok()
}

fn earned(scope: &Scope<'_>) -> Option<String> {
    let at = given_back(scope)?;
    let before = scope.change.before.as_ref()?;
    let after = scope.wrapper.own.refill_after;
    let (Some(after), Some(ready)) = (after, ready_since(&before.value)) else {
        return Some(format!("at {at}: the pods were not ready, or nothing gives back"));
    };
    let due = ready.checked_add(after.saturating_sub(scope.slack)).ok()?;
    (at < due).then(|| format!("at {at}, ready since {ready}"))
}

fn counted_on(scope: &Scope<'_>) -> Option<String> {
    let (before, after) = (scope.before, scope.wrapper.state);
    let more = after.count - before.count;
    if given_back(scope).is_some() {
        return (after.used != 0 || more != 0).then(|| format!("{} used", after.used));
    }
    let right = after.used - before.used == more && after.global_used - before.global_used == more;
    (!right).then(|| format!("{more} more, used {} → {}", before.used, after.used))
}

fn stopped(scope: &Scope<'_>) -> Option<String> {
    let (most, progress_after) = scope.wrapper.own.stop_after?;
    if scope.wrapper.state.count <= scope.before.count {
        return None;
    }
    let status = &scope.change.object.value["status"];
    let last = decided(&scope.change.object.value)?;
    let entries = status["attempts"].as_array()?;
    let until = entries.iter().position(|one| one == last)?;
    let mut failures = 0;
    let reports = entries.iter().any(|entry| entry["progress"]["step"].is_i64());
    for (index, entry) in entries[..=until].iter().enumerate().rev() {
        if entry["failedAt"].is_null() && !reports {
            continue; // it was suspended
        }
        let progressed = if reports {
            is_further(entry, &entries[..index])
        } else {
            has_progressed(entry, progress_after)
        };
        if progressed {
            break;
        }
        failures += usize::from(entry["action"] == "Restart");
    }
    (failures >= most).then(|| format!("{failures} of {most}"))
}

/// Whether an attempt got to a later step than all before it.
fn is_further(entry: &Value, earlier: &[Value]) -> bool {
    let step = |entry: &Value| entry["progress"]["step"].as_i64();
    let before = earlier.iter().filter_map(step).max();
    step(entry).is_some_and(|own| before.is_none_or(|before| before < own))
}

/// Whether the pods of an attempt were ready for so long before it failed. Times are in whole seconds.
fn has_progressed(entry: &Value, progress_after: Duration) -> bool {
    let moment = |value: &Value| value.as_str()?.parse::<Timestamp>().ok();
    let (ready, failed) = (moment(&entry["readyAt"]), moment(&entry["failedAt"]));
    let (Some(ready), Some(failed)) = (ready, failed) else { return false };
    ready.checked_add(progress_after).is_ok_and(|progress| progress <= failed)
}
