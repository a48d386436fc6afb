//! What must hold of policies, after every change.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::{Check, Invariant, Scope};
use crate::api::Phase;
use crate::sim::Verb;
use crate::world::moment;
use crate::world::oracle::own::Said;
use crate::world::oracle::retry::Delay;
use crate::world::oracle::{State, decided};

/// The invariants of policies.
pub const POLICIES: &[Invariant<Check>] = &[
    ("P1", "a component is created only when the steps before it reached their status", in_order),
    (
        "S8",
        "a component is created only when the one before and its pods are gone",
        created_when_gone,
    ),
    ("P3", "the recreation of a component is counted", recreation_counted),
    ("P4", "the count of a rule never falls", rule_counts_never_fall),
    ("P4", "the count of a rule never exceeds a limit that was in force", within_the_rules_limit),
    ("P5", "an ignored failure is not counted", ignored_is_uncounted),
    ("P6", "there is no retry after a failure that a rule makes final", final_is_final),
    ("P7", "a retry does not start before its delay is over", delay_kept),
    ("P7", "a retry does not start before retryAfter", retry_after_kept),
    ("P8", "no pod of a retry is on a node that the retry avoids", node_avoided),
    ("P9", "a retry has the memory that the policy requests", memory_grown),
    ("P10", "an AppWrapper fails for good only when no restart is left", given_up_by_right),
];

/// Source and action of a decision about a failure, where the change is one.
#[must_use]
pub fn ruling<'a>(scope: &Scope<'a>) -> Option<(&'a str, &'a str)> {
    if !scope.is_own() || !(is_restart(scope) || is_failure(scope) || is_recreation(scope)) {
        return None;
    }
    let attempt = decided(&scope.change.object.value)?;
    let source = attempt["rule"]["source"].as_str().unwrap_or("none");
    Some((source, attempt["action"].as_str()?))
}

fn was_active(scope: &Scope<'_>) -> bool {
    matches!(scope.before.phase, Phase::Resuming | Phase::Running)
}

/// The write ends the attempt because of a failure, and another is to come.
fn is_restart(scope: &Scope<'_>) -> bool {
    let State { phase: after, inactive, .. } = scope.wrapper.state;
    let grows = || after == Phase::Suspending && pending(&scope.change.object.value).is_some();
    // where the annotation active is false, it ends because of that
    was_active(scope) && !inactive && (after == Phase::Resetting || grows())
}

pub(super) fn is_failure(scope: &Scope<'_>) -> bool {
    was_active(scope) && scope.wrapper.state.phase == Phase::Failed
}

fn is_recreation(scope: &Scope<'_>) -> bool {
    scope.is_own() && !scope.wrapper.components.sent.is_empty()
}

fn resumes(scope: &Scope<'_>) -> bool {
    let enters = scope.wrapper.state.phase == Phase::Resuming;
    enters && matches!(scope.before.phase, Phase::Resetting | Phase::Suspended)
}

fn pending(wrapper: &Value) -> Option<&Vec<Value>> {
    wrapper["status"]["pendingMemory"].as_array().filter(|all| !all.is_empty())
}

/// The component that the change has created, by right.
fn created_part(scope: &Scope<'_>) -> Option<usize> {
    if !scope.ours || scope.late || scope.change.verb != Verb::Added {
        return None;
    }
    let thing = scope.wrapper.things.get(&scope.change.object.uid)?;
    thing.part.filter(|_| thing.component && !thing.late)
}

fn in_order(scope: &Scope<'_>) -> Option<String> {
    let own = &scope.wrapper.own;
    if !own.is_ordered() {
        return None;
    }
    let part = created_part(scope)?;
    let step = *own.steps.get(part)?;
    let lacking = (0..own.parts.len()).find(|other| {
        let (components, expected) = (&scope.wrapper.components, &scope.wrapper.pod_sets);
        own.steps[*other] < step && !components.has_reached(own, *other, expected)
    })?;
    Some(format!("{} before {} has", own.parts[part].1, own.parts[lacking].1))
}

fn created_when_gone(scope: &Scope<'_>) -> Option<String> {
    let part = created_part(scope)?;
    let uid = &scope.change.object.uid;
    let mut others = scope.wrapper.things.iter().filter(|(other, _)| *other != uid);
    let left = others.find(|(_, thing)| {
        thing.part == Some(part) && !thing.late && (thing.component || thing.pod)
    })?;
    Some(format!("{} beside {}", scope.change.object.address.name, left.1.name))
}

fn recreation_counted(scope: &Scope<'_>) -> Option<String> {
    let sent = &scope.wrapper.components.sent;
    let (before, after) = (scope.before.count, scope.wrapper.state.count);
    let more = i64::from(!is_of_one_incident(scope) && !is_free(scope));
    let right = after == before + more;
    (is_recreation(scope) && !right).then(|| format!("{sent:?}: {before} → {after}"))
}

/// Whether the rule that names the recreation does not count it.
fn is_free(scope: &Scope<'_>) -> bool {
    let rule = decided(&scope.change.object.value).map(|attempt| &attempt["rule"]);
    let rule = rule.filter(|rule| rule["source"] == "failurePolicy");
    let index = rule.and_then(|rule| usize::try_from(rule["index"].as_u64()?).ok());
    let action = index.and_then(|index| scope.wrapper.own.action_of(index));
    action == Some("RecreateComponentAndIgnoreMaxRestarts")
}

/// Whether a component goes for a node that another of the same attempt has gone for, and that has not been
/// lost anew since.
fn is_of_one_incident(scope: &Scope<'_>) -> bool {
    let all = scope.change.object.value["status"]["attempts"].as_array();
    let mut ended = all.into_iter().flatten().rev().filter(|one| one["action"].is_string());
    let Some(last) = ended.next() else { return false };
    let node = |attempt: &Value| -> Option<String> {
        let is_node = attempt["failure"]["category"] == "node";
        attempt["failure"]["node"].as_str().filter(|_| is_node).map(str::to_owned)
    };
    let Some(name) = node(last) else { return false };
    let earlier = ended.find(|one| {
        one["attempt"] == last["attempt"]
            && one["action"] == "RecreateComponent"
            && node(one).as_ref() == Some(&name)
    });
    let at = |text: &Value| text.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let Some(then) = earlier.and_then(|earlier| at(&earlier["endedAt"])) else { return false };
    let last_loss = scope.oracle.lost.get(&name).and_then(|all| all.last());
    // the API keeps whole seconds
    last_loss.is_some_and(|since| moment(Duration::from_secs(since.as_secs())) <= then)
}

fn rule_counts(wrapper: &Value) -> impl Iterator<Item = (&str, &str, i64)> {
    let all = wrapper["status"]["retryCounts"].as_array().into_iter().flatten();
    all.filter_map(|one| {
        Some((one["policy"].as_str()?, one["rule"].as_str()?, one["count"].as_i64()?))
    })
}

fn rule_counts_never_fall(scope: &Scope<'_>) -> Option<String> {
    let before = scope.change.before.as_ref().filter(|_| scope.is_own())?;
    let after = &scope.change.object.value;
    let fell = |(policy, rule, count): &(&str, &str, i64)| {
        let now = rule_counts(after).find(|(p, r, _)| p == policy && r == rule);
        now.is_none_or(|(.., now)| now < *count)
    };
    let (policy, rule, count) = rule_counts(&before.value).find(fell)?;
    Some(format!("{policy}/{rule} had {count}"))
}

fn within_the_rules_limit(scope: &Scope<'_>) -> Option<String> {
    if !scope.is_own() {
        return None;
    }
    rule_counts(&scope.change.object.value).find_map(|(policy, rule, count)| {
        let limit = scope.oracle.policies.limit(policy, rule).unwrap_or(0);
        (count > limit).then(|| format!("{policy}/{rule}: {count} of {limit}"))
    })
}

/// What `podFailurePolicy` says of the pod that is named as the cause, where it has failed.
fn said_of_cause(scope: &Scope<'_>) -> Option<(Said, String)> {
    let failure = &decided(&scope.change.object.value)?["failure"];
    let pod = scope.wrapper.failures.get(failure["podUID"].as_str()?)?;
    // a pod that is only waited for was not judged
    let unhealthy = scope.change.object.value["status"]["conditions"].as_array()?;
    let reason = unhealthy.iter().find(|one| one["type"] == "Unhealthy")?["reason"].as_str()?;
    let judged = matches!(reason, "FoundFailedPods" | "FailedComponent");
    let name = failure["pod"].as_str().unwrap_or_default().to_owned();
    judged.then(|| (scope.wrapper.own.judge(pod), name))
}

fn ignored_is_uncounted(scope: &Scope<'_>) -> Option<String> {
    if scope.wrapper.state.count <= scope.before.count || !scope.wrapper.own.judges_pods() {
        return None;
    }
    let (said, pod) = said_of_cause(scope)?;
    (said == Said::Ignored).then(|| format!("pod {pod}"))
}

fn final_is_final(scope: &Scope<'_>) -> Option<String> {
    if !scope.is_own() || !(is_restart(scope) || is_recreation(scope)) {
        return None;
    }
    if let Some((Said::Fatal, pod)) = said_of_cause(scope) {
        return Some(format!("pod {pod}"));
    }
    // stage 4 speaks where stage 2 has not
    let attempt = decided(&scope.change.object.value)?;
    let reason = attempt["failure"]["reason"].as_str()?;
    let own = &scope.wrapper.own;
    let name = attempt["failure"]["component"].as_str()?;
    let is_it = |(kind, own): &(String, String)| own == name || format!("{kind}/{own}") == name;
    let part = own.parts.iter().position(is_it)?;
    let wrapped_pod = own.parts[part].0 == "Pod" && attempt["failure"]["podUID"].is_string();
    let asked = attempt["rule"]["source"] != "podFailurePolicy" && wrapped_pod;
    let failed = scope.wrapper.failed_before.is_some() || is_recreation(scope);
    let found = conditions_reason(&scope.change.object.value) == Some("FoundFailedPods");
    (asked && failed && found && own.is_fatal(part, reason)).then(|| format!("component {name}"))
}

pub(super) fn conditions_reason(wrapper: &Value) -> Option<&str> {
    let all = wrapper["status"]["conditions"].as_array()?;
    all.iter().find(|one| one["type"] == "Unhealthy")?["reason"].as_str()
}

/// What all versions of the rule that decided say of the delay before the attempt that begins.
#[must_use]
pub fn delay(scope: &Scope<'_>) -> Delay {
    let wrapper = &scope.change.object.value;
    let Some(attempt) = decided(wrapper) else { return Delay::None };
    let rule = &attempt["rule"];
    let restarted = attempt["action"] == "Restart";
    let policy = rule["policy"].as_str().filter(|_| rule["source"] == "retryPolicy" && restarted);
    let Some(policy) = policy else { return Delay::None };
    let rule = rule["name"].as_str().unwrap_or_default();
    let n = rule_counts(wrapper).find(|(p, r, _)| *p == policy && *r == rule);
    scope.oracle.policies.delay(policy, rule, n.map_or(1, |(.., n)| n))
}

/// A suspension in between ends the delay: whoever resumes it means now.
fn delay_kept(scope: &Scope<'_>) -> Option<String> {
    if !resumes(scope) || scope.before.phase != Phase::Resetting {
        return None;
    }
    let Delay::AtLeast(delay) = delay(scope) else { return None };
    let failed_at = decided(&scope.change.object.value)?["failedAt"].as_str()?;
    let failed_at: Timestamp = failed_at.parse().ok()?;
    let until = failed_at.checked_add(delay).ok()?;
    let now = moment(scope.elapsed).checked_add(scope.slack).ok()?;
    (now < until).then(|| format!("before {until}, {delay:?} after {failed_at}"))
}

fn retry_after_kept(scope: &Scope<'_>) -> Option<String> {
    if !resumes(scope) {
        return None;
    }
    let before = scope.change.before.as_ref()?;
    let until: Timestamp = before.value["status"]["retryAfter"].as_str()?.parse().ok()?;
    let now = moment(scope.elapsed).checked_add(scope.slack).ok()?;
    (now < until).then(|| format!("before {until}"))
}

fn node_avoided(scope: &Scope<'_>) -> Option<String> {
    let thing = scope.wrapper.things.get(&scope.change.object.uid)?;
    let node = scope.change.object.value["spec"]["nodeName"].as_str().filter(|_| thing.pod)?;
    let wrapper = scope.store.get(&scope.wrapper.address)?;
    let avoided = wrapper.value["status"]["avoidNodes"].as_array()?;
    let state = scope.wrapper.state;
    let current = matches!(state.phase, Phase::Resuming | Phase::Running)
        && thing.attempt == state.attempt
        && !thing.late;
    // a node that came later may have another's name
    let kind = scope.store.kinds.by_name("v1", "Node")?;
    let node = scope.store.all(kind).find(|one| *one.address.name == *node)?;
    let hostname = node.label("kubernetes.io/hostname")?;
    let is_there = avoided.iter().any(|name| name == hostname);
    (current && is_there).then(|| format!("{} on {hostname}", thing.name))
}

/// What was pending is pending no more.
fn memory_grown(scope: &Scope<'_>) -> Option<String> {
    let goes_on = matches!(scope.wrapper.state.phase, Phase::Resuming | Phase::Suspended);
    if !goes_on || !scope.is_own() || pending(&scope.change.object.value).is_some() {
        return None;
    }
    if is_edited(scope) {
        return None;
    }
    let before = scope.change.before.as_ref()?;
    let components = &scope.change.object.value["spec"]["components"];
    for one in pending(&before.value)? {
        let index = |key: &str| one[key].as_u64().and_then(|n| usize::try_from(n).ok());
        let (component, pod_set) = (index("component")?, index("podSet")?);
        let pods = crate::world::scene::pods_in(&components[component]["template"]);
        let (_, pod) = pods.get(pod_set)?;
        let mut containers = pod["spec"]["containers"].as_array()?.iter();
        let container = containers.find(|container| container["name"] == one["container"])?;
        let resources = &container["resources"];
        for (key, at) in [("request", "requests"), ("limit", "limits")] {
            let has = &resources[at]["memory"];
            if one[key].is_string() && one[key] != *has {
                return Some(format!("component {component}: {has} of {}", one[key]));
            }
        }
    }
    None
}

/// Whether the retry policy that decided was edited or deleted: it may not ask for the memory any more.
fn is_edited(scope: &Scope<'_>) -> bool {
    let rule = decided(&scope.change.object.value).map(|attempt| &attempt["rule"]);
    let name = rule.and_then(|rule| rule["policy"].as_str());
    let kind = scope.store.kinds.by_name("workload.codeflare.dev/v1alpha1", "RetryPolicy");
    let found = kind.zip(name).and_then(|(kind, name)| {
        scope.store.all(kind).find(|policy| *policy.address.name == *name)
    });
    found.is_none_or(|policy| policy.value["metadata"]["generation"] != 1)
}

fn given_up_by_right(scope: &Scope<'_>) -> Option<String> {
    if !scope.is_own() || !is_failure(scope) {
        return None;
    }
    let attempt = decided(&scope.change.object.value)?;
    let rule = &attempt["rule"];
    if rule["source"] != "retryLimit" || rule["policy"].is_string() {
        return None;
    }
    let (own, tuning) = (&scope.wrapper.own, &scope.wrapper.tuning);
    let limit = own.max_restarts.unwrap_or(tuning.limit);
    let (state, global) = (scope.wrapper.state, scope.oracle.policies.global.0);
    let is_left = state.used < limit && state.global_used < global;
    is_left.then(|| format!("{} of {limit}, {} of {global} in all", state.used, state.global_used))
}
