//! Stage 4: `spec.failurePolicy`. Source: KEP-262.

use super::{Case, FailedComponent, Ignored, Missing, Ruling, RulingAction, retry_limit};
use crate::api::{FailurePolicyAction, RuleRef, RuleSource};
use crate::pattern::Pattern;
use crate::policies::FailureRule;
use crate::snapshot::{Component, FailedJob};

/// The most bytes of messages that patterns are shown in one decision, of all components together.
const MESSAGES_BYTES_MAX: usize = 2 << 10;

/// What the rules say.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A verdict.
    Ruling(Ruling),
    /// A counted restart, named by this rule where one names it; later stages ask the limits.
    Restart(Option<RuleRef>),
}

/// Asks the rules about each component that failed, the first failure first: of a `JobSet` about each of its
/// Jobs that failed, then about itself. Jobs of which every failed pod is ignored are passed over.
#[must_use]
pub fn rule(case: &Case<'_>) -> Said {
    let count: usize = case.components.iter().map(|each| 1 + each.jobs.len()).sum();
    let room = MESSAGES_BYTES_MAX / count.clamp(1, FAILURES_MAX);
    let all = case.components.iter().flat_map(failures).take(FAILURES_MAX);
    let mut granted = None;
    let mut answered = None;
    for failure in all {
        if answered == Some(failure.component) {
            continue; // an earlier failure of this component was answered
        }
        let mut rules = case.facts.snapshot.policies.failure_rules();
        let Some(rule) = rules.find(|rule| matches(rule, &failure, room)) else { continue };
        if rule.action.recreates_component() && is_restarted_anyway(case, failure.component, room) {
            answered = Some(failure.component);
            continue;
        }
        let name = RuleRef {
            name: Some(rule.name.clone()),
            index: Some(rule.index),
            ..RuleRef::plain(RuleSource::FailurePolicy)
        };
        let recreation = RulingAction::RecreateComponent(failure.component);
        let other = case.facts.snapshot.components.get(failure.component);
        let other = other.filter(|_| case.component != Some(failure.component));
        let ruling = match rule.action {
            FailurePolicyAction::FailAppWrapper => Ruling::unlimited(RulingAction::Fail, name),
            FailurePolicyAction::RestartAppWrapperAndIgnoreMaxRestarts => {
                Ruling::unlimited(RulingAction::RestartIgnoringLimit, name)
            }
            FailurePolicyAction::RecreateComponentAndIgnoreMaxRestarts => {
                Ruling::unlimited(recreation, name)
            }
            FailurePolicyAction::RecreateComponent => {
                Ruling::limited(recreation, name, retry_limit::retries(case))
            }
            FailurePolicyAction::RestartAppWrapper => {
                granted.get_or_insert(name);
                answered = Some(failure.component);
                continue;
            }
        };
        // of one that is recreated, the message names it
        let other = other.filter(|_| !rule.action.recreates_component());
        return Said::Ruling(Ruling { evidence: other.map(Component::title), ..ruling });
    }
    Said::Restart(granted)
}

/// Whether a component is recreated with everything else: another is missing, or failed for good and is ignored, or failed
/// before or in the same second, and no rule has a verdict on it.
fn is_restarted_anyway(case: &Case<'_>, component: usize, room: usize) -> bool {
    let snapshot = case.facts.snapshot;
    let mut earlier = case.components.iter().take_while(|each| each.index != component);
    let mut later = case.components.iter().skip_while(|each| each.index != component);
    let at = later.next().and_then(|each| each.at);
    let is_asked = |each: &FailedComponent<'_>| {
        failures(each).any(|failure| {
            snapshot.policies.failure_rules().any(|rule| matches(rule, &failure, room))
        })
    };
    case.missing != Missing::No
        || case.ignored == Ignored::Part
        || earlier.any(|each| each.has_ended(snapshot))
        || later
            .take_while(|each| each.at == at)
            .any(|each| each.has_ended(snapshot) && !is_asked(each))
}

/// The most failures that rules are asked about in one decision.
const FAILURES_MAX: usize = 64;

/// One failure that rules are asked about: of a component, or of a Job of it.
struct Failure<'a> {
    component: usize,
    part: Part<'a>,
    reason: &'a str,
    message: &'a str,
}

/// What of a component failed.
enum Part<'a> {
    /// A Job of this part of a `JobSet`.
    Job(&'a FailedJob),
    /// A pod of this pod set, where that is known.
    PodSet(Option<usize>),
}

fn failures<'a>(component: &'a FailedComponent<'_>) -> impl Iterator<Item = Failure<'a>> {
    let index = component.index;
    let of_job = move |job: &'a FailedJob| Failure {
        component: index,
        part: Part::Job(job),
        reason: &job.reason,
        message: &job.message,
    };
    let itself = Failure {
        component: index,
        part: Part::PodSet(component.pod_set),
        reason: component.reason,
        message: &component.message,
    };
    component.jobs.iter().copied().map(of_job).chain([itself])
}

/// What patterns are shown of a message: all of it, or its begin and its end. A log has what matters at
/// the end, a sentence at the begin.
fn shown(message: &str, room: usize) -> Vec<&str> {
    if message.len() <= room {
        return vec![message];
    }
    let begin = message.floor_char_boundary(room / 2);
    let end = message.ceil_char_boundary(message.len() - room / 2);
    vec![&message[..begin], &message[end..]]
}

/// Whether all filters of a rule hold for a failure.
fn matches(rule: &FailureRule, failure: &Failure<'_>, room: usize) -> bool {
    let found =
        |pattern: &Pattern| shown(failure.message, room).iter().any(|part| pattern.is_match(part));
    let component = Some(failure.component);
    let about = match failure.part {
        Part::Job(job) => rule.targets.include_pod_set(component, job.pod_set),
        Part::PodSet(pod_set) => rule.targets.include_pod_set(component, pod_set),
    };
    about
        && (rule.reasons.is_empty() || rule.reasons.iter().any(|one| one == failure.reason))
        && (rule.patterns.is_empty() || rule.patterns.iter().any(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_shown_by_its_begin_and_its_end() {
        assert_eq!(shown("short", 10), ["short"]);
        assert_eq!(shown("0123456789x", 10), ["01234", "6789x"]);
        for room in 0..12 {
            let parts = shown("éééééé", room);
            assert!(
                parts.iter().map(|part| part.len()).sum::<usize>() <= room,
                "{room}: {parts:?}"
            );
        }
    }
}
