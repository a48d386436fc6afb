//! One meaning for the same facts: whatever comes first, whoever says it.

use serde_json::Value;

use super::policies::{conditions_reason, is_failure};
use super::{Check, Invariant, Scope, Violation};
use crate::decide::orders::{Told, dispute};
use crate::snapshot::lost::Lost;
use crate::world::oracle::{Thing, decided};

/// The invariants of decisions, after every change.
pub const MEANING: &[Invariant<Check>] = &[
    ("P12", "failurePolicy is asked about a pod that is lost with its node", lost_is_a_failure),
    ("P13", "no RetryPolicy is asked about a missing component", missing_is_no_pod_failure),
    ("P14", "uncounted restarts never exceed their limit", within_the_uncounted_limit),
    ("P14", "an AppWrapper fails for uncounted restarts only at their limit", uncounted_by_right),
];

/// The verdicts about one failure, in every order of its facts.
#[must_use]
pub fn one_verdict(told: &[Told]) -> Option<Violation> {
    Some(Violation {
        invariant: "P11",
        sentence: "the verdict does not depend on which fact of a failure comes first",
        seen: dispute(told)?,
    })
}

/// The attempt about which this write decides something.
fn decides<'a>(scope: &Scope<'a>) -> Option<&'a Value> {
    let count = |value: &Value| {
        let all = value["status"]["attempts"].as_array().into_iter().flatten();
        let mut done = all.filter(|attempt| attempt["action"].is_string());
        done.next_back().map(|last| (last["attempt"].clone(), last["failedAt"].clone()))
    };
    let before = scope.change.before.as_ref()?;
    let after = &scope.change.object.value;
    (count(&before.value) != count(after)).then(|| decided(after))?
}

fn lost_is_a_failure(scope: &Scope<'_>) -> Option<String> {
    let attempt = decides(scope)?;
    let failure = &attempt["failure"];
    Lost::of(failure["reason"].as_str()?)?;
    if conditions_reason(&scope.change.object.value) != Some("FoundFailedPods") {
        return None;
    }
    let thing = scope.wrapper.things.get(failure["podUID"].as_str()?)?;
    // what is decided about another component that lost pods with the node may be graver
    let is_lost_too =
        |other: &Thing| other.pod && other.part != thing.part && other.node == thing.node;
    if scope.wrapper.things.values().any(is_lost_too) {
        return None;
    }
    let (index, _) = scope.wrapper.own.rule_of_lost(thing.part?, thing.set())?;
    let rule = &attempt["rule"];
    let unasked = match rule["source"].as_str()? {
        "retryLimit" if rule["policy"].is_null() => rule["name"].is_null(),
        "retryPolicy" | "retryLimit" => {
            let action = scope.wrapper.own.action_of(index)?;
            let policy = rule["policy"].as_str()?;
            action != "RestartAppWrapper" && !scope.oracle.policies.overriding.contains(policy)
        }
        _ => false,
    };
    unasked.then(|| format!("pod {}: {rule}, not rule {index}", thing.name))
}

fn missing_is_no_pod_failure(scope: &Scope<'_>) -> Option<String> {
    let attempt = decides(scope)?;
    let is_missing = conditions_reason(&scope.change.object.value) == Some("MissingComponent");
    let rule = &attempt["rule"];
    let asked =
        is_missing && attempt["failure"]["podUID"].is_null() && rule["source"] == "retryPolicy";
    asked.then(|| format!("component {}: {rule}", attempt["failure"]["component"]))
}

fn uncounted(value: &Value) -> i64 {
    value["status"]["uncountedRestarts"].as_i64().unwrap_or(0)
}

fn within_the_uncounted_limit(scope: &Scope<'_>) -> Option<String> {
    let (limit, now) = (scope.oracle.policies.uncounted, uncounted(&scope.change.object.value));
    (limit > 0 && now > limit).then(|| format!("{now} of {limit}"))
}

fn uncounted_by_right(scope: &Scope<'_>) -> Option<String> {
    let attempt = decides(scope).filter(|_| is_failure(scope))?;
    let (limit, now) = (scope.oracle.policies.uncounted, uncounted(&scope.change.object.value));
    let by_limit = attempt["rule"]["source"] == "uncountedLimit";
    (by_limit && (limit == 0 || now < limit)).then(|| format!("{now} of {limit}"))
}
