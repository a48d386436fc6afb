//! Stage 3: the annotations `terminalExitCodes` and `retryableExitCodes`.

use super::{Case, Ruling, RulingAction};
use crate::api::{RuleRef, RuleSource, keys};
use crate::decide::health;
use crate::snapshot::Pod;
use crate::tuning::Limits;

/// Fails where a code is terminal, or where codes are named that may be retried and it is not one.
pub fn rule(case: &Case<'_>) -> Option<Ruling> {
    let asked = case.judged.left.iter().copied().filter(|pod| has_a_say(case, pod));
    let mut all = asked.flat_map(|pod| codes(pod).map(move |(name, code)| (pod, name, code)));
    let (pod, container, code, verdict) = all.find_map(|(pod, container, code)| {
        Some((pod, container, code, verdict(case.facts.limits, code)?))
    })?;
    let failure = case.failure;
    // an older record has no UID
    let is_named = failure.pod_uid.as_ref().is_none_or(|uid| *uid == pod.uid)
        && (failure.pod.as_ref(), failure.container.as_deref(), failure.exit_code)
            == (Some(&pod.name), Some(container), Some(code));
    // the message names the first cause already
    let whose = if is_named {
        String::new()
    } else {
        format!(" of container {container} of pod {}", pod.name)
    };
    let evidence = Some(format!("exit code {code}{whose} {verdict}"));
    let rule = RuleRef::plain(RuleSource::ExitCodeAnnotation);
    Some(Ruling { evidence, ..Ruling::unlimited(RulingAction::Fail, rule) })
}

/// Which annotation makes a code terminal, and how; none where neither does.
fn verdict(limits: &Limits, code: i32) -> Option<String> {
    let retryable = &limits.retryable_exit_codes;
    if limits.terminal_exit_codes.contains(&code) {
        Some(format!("is listed in annotation {}", keys::TERMINAL_EXIT_CODES))
    } else if !retryable.is_empty() && !retryable.contains(&code) {
        Some(format!("is not listed in annotation {}", keys::RETRYABLE_EXIT_CODES))
    } else {
        None
    }
}

/// Whether a pod is asked: one that was replaced says nothing about a later failure. It may still be the first cause, of a
/// component that failed although its pods were replaced.
fn has_a_say(case: &Case<'_>, pod: &Pod) -> bool {
    case.pod.is_some_and(|cause| (&cause.uid, &cause.name) == (&pod.uid, &pod.name))
        || !health::is_replaced(case.facts.snapshot, pod)
}

/// The codes other than 0 with which its app containers ended; none of a pod that died of its node: it may be lost without
/// a code as well.
fn codes(pod: &Pod) -> impl Iterator<Item = (&str, i32)> {
    let known = pod.terminated().filter(|_| !pod.died_of_node());
    known
        .filter(|(container, end)| !container.init && end.exit_code != 0)
        .map(|(container, end)| (container.name.as_str(), end.exit_code))
}
