//! The answer for people.

use k8s_openapi::jiff::Timestamp;

use super::super::aw::words;
use super::super::term::{Colour, Page, Span};
use super::answer::{Budget, Eviction, Explanation, PauseStart, Progress};
use crate::api::{AttemptAction, Phase, RuleSource, SuspectEffect, SuspectNodes};
use crate::decide::VerdictAction;
use crate::decide::policy::{decider, used_before};
use crate::tuning::Period;

/// The answer as a headline and a few lines.
pub(super) fn text(answer: &Explanation, now: Timestamp, colours: bool) -> Page {
    let mut page = Page::default();
    let mut headline = vec![(format!("{}: ", answer.title), None)];
    headline.extend(step(answer, now));
    page.spans(&headline, colours);
    for line in details(answer, now) {
        page.line(&line);
    }
    page
}

/// The lines after the headline.
pub(in crate::cli) fn details(answer: &Explanation, now: Timestamp) -> Vec<String> {
    let line = |(name, value): (&str, String)| format!("  {name:<9} {value}");
    facts(answer, now).into_iter().map(line).collect()
}

/// The same as names and values.
pub(in crate::cli) fn facts(answer: &Explanation, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut facts = vec![];
    let mut line = |name: &'static str, value: String| {
        if !value.is_empty() {
            facts.push((name, value));
        }
    };
    line("why", why(answer));
    line("failure", answer.record.as_ref().map(words::cause).unwrap_or_default());
    line("by", answer.rule.as_ref().map(decider).unwrap_or_default());
    line("restarts", restarts(answer));
    line("progress", answer.progress.as_ref().map(|it| progress(it, now)).unwrap_or_default());
    line("budget", answer.budget.as_ref().map(budget).unwrap_or_default());
    line("pause", answer.retry_after_seconds.map(|left| pause(answer, left)).unwrap_or_default());
    line("kueue", answer.eviction.as_ref().map(|it| eviction(it, answer, now)).unwrap_or_default());
    line("avoids", answer.avoid_nodes.join(", "));
    let has_attempts =
        !matches!(answer.phase, Phase::Succeeded | Phase::Failed | Phase::Terminating);
    let avoided = answer.suspect_nodes.as_ref().filter(|_| has_attempts);
    line("suspects", avoided.map(suspects).unwrap_or_default());
    line("creates", answer.create.join(", "));
    line("deletes", answer.delete.join(", "));
    line("usage", answer.usage.as_ref().map(|usage| usage.line(now)).unwrap_or_default());
    for note in &answer.notes {
        line("note", note.clone());
    }
    facts
}

/// The suspect nodes that the attempt avoids, and how.
fn suspects(nodes: &SuspectNodes) -> String {
    let how = match nodes.effect {
        SuspectEffect::Prefer => "pods prefer other nodes than",
        SuspectEffect::Require => "pods require other nodes than",
    };
    format!("{how} {}", nodes.hostnames.join(", "))
}

/// The phase, the next one, and what is done.
pub(in crate::cli) fn step(answer: &Explanation, now: Timestamp) -> [Span; 2] {
    let shown = |phase: Phase| phase.name_or("(new)");
    let mut phases = shown(answer.phase).to_owned();
    if answer.is_denied {
        return [(phases, None), (format!(", {}", answer.message), Some(Colour::Red))];
    }
    if answer.next_phase != answer.phase {
        phases += &format!(" → {}", shown(answer.next_phase));
    }
    let colour = match answer.action {
        VerdictAction::None => words::colour(answer.next_phase),
        VerdictAction::Succeed => Some(Colour::Green),
        VerdictAction::Handle(AttemptAction::Fail) => Some(Colour::Red),
        VerdictAction::Wait
        | VerdictAction::Deploy
        | VerdictAction::Delete
        | VerdictAction::Handle(_) => Some(Colour::Yellow),
    };
    let action = match (answer.action, answer.deadline) {
        (VerdictAction::None, _) if answer.is_at_rest() => answer.standing.clone(),
        (VerdictAction::None, _) => String::new(),
        (VerdictAction::Wait, Some(deadline)) => {
            format!("waits until {deadline}, {}", relative(deadline, now))
        }
        (action, _) => counted(answer, action),
    };
    let action = if action.is_empty() { action } else { format!(" ({action})") };
    [(phases, colour), (action, None)]
}

/// The action, and whether it counts as a restart.
fn counted(answer: &Explanation, action: VerdictAction) -> String {
    let action = action.as_str();
    match (answer.counted, answer.retries) {
        (Some(true), Some(retries)) => {
            format!("{action}, restart {} of {}", retries.used.saturating_add(1), retries.limit)
        }
        (Some(false), _) => format!("{action}, not counted"),
        (Some(true), None) | (None, _) => action.to_owned(),
    }
}

fn why(answer: &Explanation) -> String {
    if answer.is_denied {
        return String::new(); // the headline says it
    }
    match (&answer.reason, answer.message.as_str()) {
        (Some(reason), "") => reason.clone(),
        (Some(reason), message) => format!("{reason}: {message}"),
        (None, message) => message.to_owned(),
    }
}

fn restarts(answer: &Explanation) -> String {
    if answer.restarts_unknown {
        return "unknown".to_owned();
    }
    let Some(retries) = answer.retries else { return String::new() };
    let source = answer.rule.as_ref().map(|rule| rule.source);
    if source == Some(RuleSource::UncountedLimit) {
        return used_before(source, retries);
    }
    format!("{} of {} used before", retries.used, retries.limit) // the title of the line says of what
}

fn budget(budget: &Budget) -> String {
    let restarts = if budget.used == 1 { "restart" } else { "restarts" };
    let mut text = format!("{} counted {restarts} used", budget.used);
    if budget.global_used != budget.used {
        text += &format!(", {} of globalMaxRetries", budget.global_used);
    }
    if let Some(since) = budget.since {
        text += &format!(" since {since}");
    }
    if let Some(refill_at) = budget.refill_at {
        text += &format!("; given back at {refill_at} if pods keep running");
    }
    text
}

fn progress(progress: &Progress, now: Timestamp) -> String {
    let mut text = match (&progress.pod, progress.at) {
        (Some(pod), Some(at)) => format!("pod {pod}, {}", ago(at, now)),
        (Some(_), None) | (None, _) => "none reported".to_owned(),
    };
    let step = progress.step.map(|step| format!("step {step}"));
    let percent = progress.percent.map(|percent| format!("{percent} %"));
    let eta = progress.eta_seconds.map(|eta| format!("{} left", span(eta)));
    let checkpoint = progress.checkpoint.as_ref().map(|name| format!("checkpoint {name}"));
    let facts: Vec<String> = [step, percent, eta, checkpoint].into_iter().flatten().collect();
    if !facts.is_empty() {
        text += &format!(": {}", facts.join(", "));
    }
    if let Some(at) = progress.hang_at {
        text += &format!(
            "; counts as a hang at {at}, {}, unless {} arrives",
            relative(at, now),
            progress.awaited()
        );
    }
    text
}

/// Kueue's deadline, and whose comes next.
fn eviction(eviction: &Eviction, answer: &Explanation, now: Timestamp) -> String {
    let Eviction { at, timeout, next } = eviction;
    let kueue = format!(
        "evicts it at {at}, {}, unless its pods are running ({timeout})",
        relative(*at, now)
    );
    match (answer.deadline, *next) {
        (None, _) => kueue,
        (Some(own), "Kueue") => format!("{kueue}; before the controller's deadline at {own}"),
        (Some(own), _) => format!("{kueue}; the controller's deadline at {own} comes first"),
    }
}

fn pause(answer: &Explanation, left: i64) -> String {
    let left = span(left);
    match answer.pause {
        PauseStart::Begun => format!("{left} left"),
        PauseStart::Failure => format!("{left} left, and all resources must be deleted"),
        PauseStart::Deletion => format!("{left}, after the deletion"),
    }
}

/// `in 5m`, `3s ago`.
fn relative(moment: Timestamp, now: Timestamp) -> String {
    let seconds = moment.as_second() - now.as_second();
    if seconds < 0 { ago(moment, now) } else { format!("in {}", span(seconds)) }
}

/// `3s ago`; `0s ago` if the clock that set the moment is ahead of this one.
pub(in crate::cli) fn ago(moment: Timestamp, now: Timestamp) -> String {
    format!("{} ago", span((now.as_second() - moment.as_second()).max(0)))
}

/// Seconds for people: `1m30s`.
pub(in crate::cli) fn span(seconds: i64) -> String {
    Period::from_secs(u64::try_from(seconds).unwrap_or(0)).to_string()
}
