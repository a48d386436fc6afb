//! What is said about policies that cannot be used.

use std::collections::BTreeSet;

use super::draft::Draft;
use super::policy::Judged;
use super::{components, health, steps};
use crate::api::{Phase, PodFailurePolicyAction, condition};
use crate::price::{IGNORED_PODS_MAX, STATUS_MESSAGE_BYTES_MAX};
use crate::snapshot::Pod;

/// Reason of events about a policy of the AppWrapper itself.
const INVALID: &str = "InvalidPolicy";
/// How many flaws are named.
const FLAWS_MAX: usize = 5;

/// How many policies that cannot be used are named.
const MISSING_MAX: usize = 10;

/// Says which rules of the policies in force are left out; admission refuses them.
pub fn invalid_policies(draft: &mut Draft<'_>) {
    let snapshot = draft.facts.snapshot;
    let own = snapshot.policies.flaws();
    let count = own.len() + snapshot.retry.flaws().count();
    for flaw in own.iter().chain(snapshot.retry.flaws()).take(FLAWS_MAX) {
        draft.warn(INVALID, flaw.clone());
    }
    if let Some(more) = count.checked_sub(FLAWS_MAX).filter(|more| *more > 0) {
        let what =
            if more == 1 { "value of the policies is" } else { "values of the policies are" };
        draft.warn(INVALID, format!("{more} more {what} invalid"));
    }
}

/// Counts the failed pods that `podFailurePolicy` ignores, each once, and says so once an attempt.
pub fn ignored_failures(draft: &mut Draft<'_>, judged: &Judged<'_>) {
    look_when_overdue(draft);
    let known = draft.status.since.as_ref().map_or(&[][..], |since| &since.ignored_pods);
    let room = IGNORED_PODS_MAX.saturating_sub(known.len());
    if room == 0 {
        return;
    }
    // a pod that may be there again with its node has not failed yet
    let pods = &draft.facts.snapshot.pods;
    let is_open = |pod: &Pod| health::may_come_back(draft.facts, pod);
    let open: BTreeSet<&str> =
        pods.iter().filter(|pod| is_open(pod)).map(|pod| pod.uid.as_str()).collect();
    let is_new = |uid: &&str| !open.contains(uid) && !known.iter().any(|one| one == uid);
    let new: Vec<String> = judged.ignored().filter(is_new).take(room).map(str::to_owned).collect();
    if new.is_empty() {
        return;
    }
    if known.is_empty() {
        let decided = pods.iter().filter(|pod| !is_open(pod));
        let mut named = decided.filter_map(|pod| Some((pod, judged.ignores(pod)?)));
        if let Some((pod, rule)) = named.next() {
            let text =
                format!("Pod {} failed; rule {rule} of podFailurePolicy ignores it", pod.name);
            draft.warn("IgnoredFailure", text);
        }
    }
    let count = i32::try_from(new.len()).unwrap_or(i32::MAX);
    draft.status.ignored_failures = draft.status.ignored_failures.max(0).saturating_add(count);
    draft.since().ignored_pods.extend(new);
}

/// Decides again when a Terminating pod becomes overdue: it counts as failed from then on, and no event says so.
fn look_when_overdue(draft: &mut Draft<'_>) {
    let facts = draft.facts;
    let mut rules = facts.snapshot.policies.pod_failure.iter();
    if !rules.any(|rule| rule.action == PodFailurePolicyAction::Ignore) {
        return;
    }
    let waited_for =
        facts.snapshot.pods.iter().filter(|pod| pod.terminating && pod.stuck.is_none());
    let overdue = waited_for.filter_map(|pod| health::overdue_from(facts, pod)).min();
    if let Some(at) = overdue {
        draft.look_again(at);
    }
}

/// Says what the next step of `executionPolicy` waits for, while nothing else is done.
pub fn awaited_step(draft: &mut Draft<'_>, next: Phase) {
    let is_idle = draft.verdict.action.is_idle() && next == Phase::Running;
    if !is_idle || !draft.facts.snapshot.policies.steps.are_ordered() {
        return;
    }
    let pod_sets = components::begun_pod_sets(draft);
    if let Some(text) = steps::awaited(draft, &pod_sets) {
        append(&mut draft.verdict.message, &text);
    }
}

/// Adds a clause to a message.
fn append(message: &mut String, text: &str) {
    if !message.is_empty() {
        message.push_str("; ");
    }
    message.push_str(text);
}

/// Says which attached retry policies cannot be used, and that they can again. The others hold.
pub fn missing_policies(draft: &mut Draft<'_>, next: Phase) {
    let retry = &draft.facts.snapshot.retry;
    let unusable = &retry.unusable;
    let concerned = match next {
        Phase::Suspended
        | Phase::Resuming
        | Phase::Running
        | Phase::Resetting
        | Phase::Suspending => !draft.facts.snapshot.deleting,
        // the policy that is missing may be why it fails
        Phase::Failed => draft.facts.snapshot.status.phase != Phase::Failed,
        Phase::Empty | Phase::Succeeded | Phase::Terminating => false,
    };
    if !concerned || retry.unlisted {
        return;
    }
    if unusable.is_empty() {
        return draft.clear(condition::POLICY_NOT_FOUND, "PolicyFound", "");
    }
    let named = unusable.iter().take(MISSING_MAX).map(ToString::to_string);
    let more = unusable.len().saturating_sub(MISSING_MAX);
    let more = (more > 0).then(|| format!("and {more} more"));
    let text = named.chain(more).collect::<Vec<_>>().join("; ");
    let text = text[..text.floor_char_boundary(STATUS_MESSAGE_BYTES_MAX)].to_owned();
    let kind = condition::POLICY_NOT_FOUND;
    let old = condition::find(&draft.status.conditions, kind).cloned();
    draft.say(kind, kind, &text);
    if condition::find(&draft.status.conditions, kind) != old.as_ref() {
        draft.warn(kind, text.clone());
    }
    append(&mut draft.verdict.message, &text);
}
