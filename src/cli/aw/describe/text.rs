//! The description for people.

use k8s_openapi::jiff::Timestamp;

use super::super::words::{self, moment};
use super::{Description, Failure};
use crate::cli::explain::answer::Explanation;
use crate::cli::explain::text::{details, step};
use crate::cli::term::{Colour, clean, paint};

/// A headline, then one line for each thing that there is to say.
pub(super) fn text(description: &Description, now: Timestamp, colours: bool) -> String {
    let mut text = headline(description, now, colours);
    let mut line = |name: &str, value: &str| text += &format!("{name:<10}  {}\n", clean(value));
    if let Some(manager) = &description.managed_by {
        line("managed by", manager);
    }
    if let Some(standing) = &description.queue {
        let queue = standing.queue.as_deref().unwrap_or("(none)");
        line("queue", &format!("{queue}: {}", standing.message));
    }
    for (index, member) in description.components.iter().enumerate() {
        let name = if index == 0 { "components" } else { "" };
        line(name, &format!("{}/{}: {}", member.kind, member.name, member.state));
    }
    if let Some(failure) = &description.failure {
        line("failure", &failed(failure, now));
        if let Some(message) = failure.record.message.as_ref().filter(|text| !text.is_empty()) {
            line("", message);
        }
        if let Some(decision) = &failure.decision {
            line("decision", decision);
        }
    }
    if let Some(next) = &description.next {
        text += &format!("{:<10}  {}\n", "next", step(next, now, colours));
        // it stands above, with all that is known of it
        let rest = Explanation { failure: None, ..next.clone() };
        for line in details(&rest).lines() {
            text += &format!("{:<10}{line}\n", "");
        }
    }
    for (index, event) in description.events.iter().enumerate() {
        let name = if index == 0 { "warnings" } else { "" };
        let times =
            if event.count > 1 { format!(" ({} times)", event.count) } else { String::new() };
        let age = words::age(event.at, now);
        let said = format!("{age} ago, {}: {}{times}", event.reason, event.message);
        text += &format!("{name:<10}  {}\n", clean(&said));
    }
    let advice = description.advice.iter().map(|advice| ("advice", advice));
    for (name, said) in advice.chain(description.notes.iter().map(|note| ("note", note))) {
        text += &format!("{name:<10}  {}\n", clean(said));
    }
    text
}

fn headline(description: &Description, now: Timestamp, colours: bool) -> String {
    let phase = words::phase(description.phase);
    let phase = match words::colour(description.phase) {
        Some(colour) => paint(phase, colour, colours),
        None => paint(phase, Colour::Bold, colours),
    };
    let title = clean(&format!("{}/{}", description.namespace, description.name));
    let since = description.since.map(|at| format!(" since {}", moment(at, now)));
    let attempt = description.attempt.map(|attempt| format!(", attempt {attempt}"));
    let restarts = match description.restarts {
        0 => String::new(),
        1 => ", 1 restart".to_owned(),
        more => format!(", {more} restarts"),
    };
    let (since, attempt) = (since.unwrap_or_default(), attempt.unwrap_or_default());
    format!("{title}: {phase}{since}{attempt}{restarts}\n")
}

fn failed(failure: &Failure, now: Timestamp) -> String {
    let mut text = words::cause(&failure.record);
    if let Some(attempt) = failure.attempt {
        text += &format!("; in attempt {attempt}");
    }
    if let Some(at) = failure.failed_at {
        text += &format!(", {} ago", words::age(Some(at), now));
    }
    text
}
