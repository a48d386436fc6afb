//! The replay for people: a table, then why, then what was assumed.

use std::collections::BTreeMap;

use super::{Judged, Replay};
use crate::api::{RuleRef, RuleSource};
use crate::cli::term::{Colour, Page, Row, table};
use crate::decide::policy::{counted_by, decider};
use crate::tuning::Period;

/// Titles of the table.
const TITLES: [&str; 7] = ["ATTEMPT", "FAILURE", "NODE", "RECORDED", "NOW", "RESTARTS", "PAUSE"];

/// The answer as a headline, a table and sentences.
pub(in crate::cli::explain) fn text(replay: &Replay, colours: bool) -> Page {
    let mut page = Page::default();
    page.line(&format!("{}: {}", replay.name, replay.outcome));
    if !replay.attempts.is_empty() {
        let rows: Vec<Row> =
            replay.attempts.iter().map(|judged| (row(judged), Some(colour(judged)))).collect();
        let titles = (TITLES.as_slice(), Some(Colour::Dim));
        page.line("");
        page.append(table(titles, &rows, "  ", colours));
        page.line("");
    }
    for judged in &replay.attempts {
        let mark = match (judged.unknown, judged.differs) {
            (true, _) => "unknown",
            (false, true) => "differs",
            (false, false) => "same",
        };
        let said = format!(" attempt {}: {}", judged.attempt, judged.reason);
        page.spans(&[(format!("{mark:<7}"), Some(colour(judged))), (said, None)], colours);
    }
    for (assumption, attempts) in assumptions(&replay.attempts) {
        let which = if attempts.len() == 1 { "attempt" } else { "attempts" };
        page.line(&format!("assumed {which} {}: {assumption}", attempts.join(", ")));
    }
    for note in &replay.notes {
        page.line(&format!("note    {note}"));
    }
    page
}

const fn colour(judged: &Judged) -> Colour {
    match (judged.reached, judged.differs || judged.unknown) {
        (false, _) => Colour::Dim,
        (true, true) => Colour::Yellow,
        (true, false) => Colour::Green,
    }
}

/// Every assumption once, with the attempts that it is about; in the order in which they come up.
fn assumptions(attempts: &[Judged]) -> Vec<(&str, Vec<String>)> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all: Vec<(&str, Vec<String>)> = vec![];
    for judged in attempts {
        for assumption in &judged.assumptions {
            let place = *places.entry(assumption).or_insert(all.len());
            match all.get_mut(place) {
                Some((_, numbers)) => numbers.push(judged.attempt.to_string()),
                None => all.push((assumption, vec![judged.attempt.to_string()])),
            }
        }
    }
    all
}

fn row(judged: &Judged) -> Vec<String> {
    let dash = || "-".to_owned();
    let recorded = judged
        .recorded
        .action
        .map_or_else(dash, |action| decision(action, judged.recorded.rule.as_ref()));
    let now = decision(judged.replayed.action, judged.replayed.rule.as_ref());
    let retries = judged.replayed.retries;
    let pause = judged.replayed.retry_after_seconds;
    vec![
        judged.attempt.to_string(),
        judged.failure.short(),
        judged.failure.node.clone().unwrap_or_else(dash),
        recorded,
        now,
        retries.map_or_else(dash, |of| format!("{} of {}", of.used, of.limit)),
        pause.map_or_else(dash, |seconds| {
            Period::from_secs(u64::try_from(seconds).unwrap_or(0)).to_string()
        }),
    ]
}

/// `Restart (infra/oom)`: the action, and its rule.
fn decision(action: &str, rule: Option<&RuleRef>) -> String {
    rule.map_or_else(|| action.to_owned(), |rule| format!("{action} ({})", short(rule)))
}

/// A rule in a column, which has no room for its [`decider`]: `infra/oom`, `failurePolicy/maintenance`, `retryLimit`; of a
/// limit, the rule that it is asked for.
fn short(rule: &RuleRef) -> String {
    use RuleSource::{FailurePolicy, PodFailurePolicy, StopWhen};

    if rule.source == StopWhen {
        return decider(rule);
    }
    let is_counted = counted_by(rule).is_some();
    let index = rule.index.filter(|_| !is_counted);
    let place = match (&rule.policy, &rule.name, index) {
        (Some(policy), Some(name), _) => Some(format!("{policy}/{name}")),
        (Some(policy), None, _) => Some(format!("{policy}, by default")),
        (None, Some(name), _) => Some(format!("{FailurePolicy}/{name}")),
        (None, None, Some(index)) => Some(format!("{PodFailurePolicy}.rules[{index}]")),
        (None, None, None) => None,
    };
    let mut text = match place {
        Some(place) if rule.source.is_limit() => format!("{} of {place}", rule.source),
        Some(place) => place,
        None => rule.source.to_string(),
    };
    if rule.overrides {
        text += " (override)";
    }
    if let (true, Some(index)) = (is_counted, rule.index) {
        text += &format!(", counted by {PodFailurePolicy}.rules[{index}]");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_a_short_form() {
        use RuleSource::{
            FailurePolicy, PodFailurePolicy, RetryLimit, RetryPolicy, StopWhen, UncountedLimit,
        };
        let infra = Some("infra");
        for (source, policy, name, index, want) in [
            (RetryPolicy, infra, Some("oom"), Some(1), "infra/oom"),
            (RetryPolicy, infra, None, None, "infra, by default"),
            (
                RetryPolicy,
                infra,
                None,
                Some(0),
                "infra, by default, counted by podFailurePolicy.rules[0]",
            ),
            (PodFailurePolicy, None, None, Some(0), "podFailurePolicy.rules[0]"),
            (FailurePolicy, None, Some("again"), Some(1), "failurePolicy/again"),
            (StopWhen, infra, None, None, "stopWhen of RetryPolicy infra"),
            (RetryLimit, None, None, None, "retryLimit"),
            (RetryLimit, None, None, Some(0), "retryLimit, counted by podFailurePolicy.rules[0]"),
            (RetryLimit, infra, Some("oom"), Some(1), "retryLimit of infra/oom"),
            (UncountedLimit, None, Some("again"), Some(1), "uncountedLimit of failurePolicy/again"),
            (UncountedLimit, None, None, Some(2), "uncountedLimit of podFailurePolicy.rules[2]"),
        ] {
            let (policy, name) = (policy.map(str::to_owned), name.map(str::to_owned));
            let rule = RuleRef { policy, name, index, ..RuleRef::plain(source) };
            assert_eq!(short(&rule), want);
        }
        let (policy, name) = (Some("infra".to_owned()), Some("never".to_owned()));
        let by = RuleRef { policy, name, overrides: true, ..RuleRef::plain(RetryPolicy) };
        assert_eq!(short(&by), "infra/never (override)");
    }
}
