//! Times and causes, in words.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::super::explain::answer::Failure;
use super::super::explain::text::span;
use super::super::term::Colour;
use crate::api::{Attempt, FailureRecord, Phase, condition};
use crate::snapshot::{Owner, Snapshot};

/// What stands in a table where there is nothing.
pub(super) const NOTHING: &str = "-";
/// What stands between the columns of a table, as kubectl prints them.
pub(super) const GAP: &str = "   ";

/// The moment of a time.
pub(super) fn at(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// How long ago something was, as kubectl prints ages: `45s`, `5m20s`, `3h`, `2d4h`.
pub(super) fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    since.map_or_else(
        || NOTHING.to_owned(),
        |since| rounded((now.as_second() - since.as_second()).max(0)),
    )
}

/// A length of time as kubectl prints it: the longer it is, the less exactly.
pub(super) fn rounded(seconds: i64) -> String {
    let two = |large: i64, large_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        small => format!("{large}{large_unit}{small}{small_unit}"),
    };
    match seconds {
        ..=119 => format!("{seconds}s"),
        120..=599 => two(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        600..=10_799 => format!("{}m", seconds / MINUTE),
        10_800..=28_799 => two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        28_800..=172_799 => format!("{}h", seconds / HOUR),
        172_800..=691_199 => two(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
        _ => format!("{}d", seconds / DAY),
    }
}

/// A moment, and how long ago that was.
pub(super) fn moment(at: Timestamp, now: Timestamp) -> String {
    format!("{at} ({} ago)", age(Some(at), now))
}

/// Seconds between two moments; none where one of them is not known.
pub(super) fn between(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<i64> {
    Some((to?.as_second() - from?.as_second()).max(0))
}

/// A length of time to the second, `1m30s`, or nothing.
pub(super) fn exactly(seconds: Option<i64>) -> String {
    seconds.map_or_else(|| NOTHING.to_owned(), span)
}

/// The phase in words.
pub(super) const fn phase(phase: Phase) -> &'static str {
    phase.name_or("(new)")
}

/// The colour of a phase; none while nothing has to be told.
pub(in crate::cli) const fn colour(phase: Phase) -> Option<Colour> {
    match phase {
        Phase::Succeeded => Some(Colour::Green),
        Phase::Failed => Some(Colour::Red),
        Phase::Resetting | Phase::Suspending | Phase::Terminating => Some(Colour::Yellow),
        Phase::Empty | Phase::Suspended | Phase::Resuming | Phase::Running => None,
    }
}

/// The first cause of a failure, with all that is known; a component that has the name of its pod is not named.
pub(in crate::cli) fn cause(failure: &FailureRecord) -> String {
    let mut facts = vec![];
    let mut fact = |name: &str, value: Option<String>| {
        facts.extend(value.map(|value| format!("{name} {value}")));
    };
    fact("component", failure.component.clone().filter(|_| failure.component != failure.pod));
    fact("pod", failure.pod.clone());
    fact("container", failure.container.clone());
    fact("exit code", failure.exit_code.map(|code| code.to_string()));
    fact("signal", failure.signal.map(|signal| signal.to_string()));
    fact("reason", failure.reason.clone());
    fact("category", failure.category.clone());
    fact("node", failure.node.clone());
    facts.join(", ")
}

/// The same for a column: `w-0/main 137 OOMKilled`.
pub(super) fn short_cause(failure: &FailureRecord) -> String {
    Failure::of(failure).short()
}

/// Whose the object is that has the name of a component.
pub(super) fn taken_by(owner: &Owner) -> String {
    match owner {
        Owner::Stranger(whose) => format!("an object of this name {}", Owner::of_existing(whose)),
        Owner::Former | Owner::Us => {
            "an object of this name from the previous AppWrapper still exists".to_owned()
        }
    }
}

/// Why an object has failed, as far as it says.
pub(super) fn failed_with(reason: &str, message: &str) -> String {
    let parts = [reason, message].into_iter().filter(|part| !part.is_empty());
    format!("failed: {}", parts.collect::<Vec<_>>().join(": "))
}

/// The last failure that is recorded, with its attempt.
pub(super) fn last_failure(attempts: &[Attempt]) -> Option<(&Attempt, &FailureRecord)> {
    attempts.iter().rev().find_map(|attempt| Some((attempt, attempt.failure.as_ref()?)))
}

/// The step of `executionPolicy` that creates a component, where it has not begun.
pub(super) fn later_step(snapshot: &Snapshot, index: usize) -> Option<usize> {
    let status = &snapshot.status;
    let is_under_way = matches!(status.phase, Phase::Resuming | Phase::Running);
    let has_begun = status.component_status.get(index).is_some_and(|one| {
        let deployed = condition::find(&one.conditions, condition::RESOURCES_DEPLOYED);
        one.uid.is_some() || deployed.is_some()
    });
    let step = snapshot.policies.steps.step(index);
    (is_under_way && !has_begun && step > 0).then_some(step)
}

/// A step for people: `step 2 of 3`.
pub(super) fn step(snapshot: &Snapshot, step: usize) -> String {
    format!("step {} of {}", step + 1, snapshot.policies.steps.last() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_kubectl() {
        for (seconds, want) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (320, "5m20s"),
            (601, "10m"),
            (10_860, "3h1m"),
            (90_000, "25h"),
            (187_200, "2d4h"),
            (864_000, "10d"),
        ] {
            assert_eq!(rounded(seconds), want);
        }
        let at = |second| Timestamp::from_second(second).ok();
        assert_eq!(age(None, at(9).unwrap()), "-");
        // clocks differ
        assert_eq!(age(at(20), at(9).unwrap()), "0s");
    }

    #[test]
    fn causes_are_named() {
        let failure = FailureRecord {
            component: Some("work".into()),
            pod: Some("w-0".into()),
            container: Some("main".into()),
            exit_code: Some(137),
            signal: Some(9),
            reason: Some("OOMKilled".into()),
            category: Some("oom".into()),
            node: Some("node-1".into()),
            ..FailureRecord::default()
        };
        assert_eq!(
            cause(&failure),
            "component work, pod w-0, container main, exit code 137, signal 9, reason OOMKilled, \
             category oom, node node-1"
        );
        assert_eq!(short_cause(&failure), "w-0/main 137 OOMKilled");
        let named_alike = FailureRecord {
            component: Some("p".into()),
            pod: Some("p".into()),
            ..FailureRecord::default()
        };
        assert_eq!(cause(&named_alike), "pod p");
        let component = FailureRecord {
            component: Some("work".into()),
            reason: Some("DeadlineExceeded".into()),
            ..FailureRecord::default()
        };
        assert_eq!(cause(&component), "component work, reason DeadlineExceeded");
        assert_eq!(short_cause(&component), "work DeadlineExceeded");
    }
}
