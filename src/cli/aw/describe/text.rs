//! The description for people.

use k8s_openapi::jiff::Timestamp;

use super::super::words::{self, moment};
use super::{Description, Failure, Uncounted};
use crate::cli::explain::text::{details, step};
use crate::cli::explain::{self, answer::Explanation};
use crate::cli::term::{Colour, Page, Span};

/// A headline, then one line for each thing that there is to say.
pub(super) fn text(description: &Description, now: Timestamp, colours: bool) -> Page {
    let mut page = Page::default();
    page.spans(&headline(description, now), colours);
    for (name, value) in facts(description, now) {
        page.line(&format!("{name:<10}  {value}"));
    }
    if let Some(next) = &description.next {
        let mut line = vec![(format!("{:<10}  ", "next"), None)];
        line.extend(step(next, now));
        page.spans(&line, colours);
        for line in details(&rest(next), now) {
            page.line(&format!("{:<10}{line}", ""));
        }
    }
    for (name, value) in ends(description, now) {
        page.line(&format!("{name:<10}  {value}"));
    }
    page
}

/// The headline as one text.
pub(in crate::cli) fn heading(description: &Description, now: Timestamp) -> String {
    headline(description, now).into_iter().map(|(text, _)| text).collect()
}

/// All lines after the headline, as names and values; a line without a name goes on with the one before.
pub(in crate::cli) fn said(
    description: &Description,
    now: Timestamp,
) -> Vec<(&'static str, String)> {
    let mut said = facts(description, now);
    if let Some(next) = &description.next {
        said.push(("next", step(next, now).into_iter().map(|(text, _)| text).collect()));
        said.extend(explain::text::facts(&rest(next), now));
    }
    said.extend(ends(description, now));
    said
}

/// What is not said of the next step: it stands above, with all that is known of it.
fn rest(next: &Explanation) -> Explanation {
    Explanation { record: None, usage: None, ..next.clone() }
}

/// What stands after what comes next.
fn ends(description: &Description, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut ends = vec![];
    for (index, event) in description.events.iter().enumerate() {
        let name = if index == 0 { "warnings" } else { "" };
        let times =
            if event.count > 1 { format!(" ({} times)", event.count) } else { String::new() };
        let age = words::age(event.at, now);
        let of = event.object.as_ref().map(|object| format!(" of {object}")).unwrap_or_default();
        ends.push((name, format!("{age} ago, {}{of}: {}{times}", event.reason, event.message)));
    }
    // of what has failed, the line `next` says it already
    let is_said = |advice: &&String| {
        let next = description.next.as_ref().filter(|next| next.is_at_rest());
        next.is_some_and(|next| next.standing.ends_with(advice.as_str()))
    };
    let advice = description.advice.iter().filter(|advice| !is_said(advice));
    ends.extend(advice.map(|advice| ("advice", advice.clone())));
    ends.extend(description.notes.iter().map(|note| ("note", note.clone())));
    ends
}

/// What stands before what comes next: names and values, one for each line.
fn facts(description: &Description, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut facts = vec![];
    facts.extend(description.managed_by.clone().map(|manager| ("managed by", manager)));
    if let Some(standing) = &description.queue {
        let queue = standing.queue.as_deref().unwrap_or("(none)");
        facts.push(("queue", format!("{queue}: {}", standing.message)));
    }
    for (index, member) in description.components.iter().enumerate() {
        let name = if index == 0 { "components" } else { "" };
        facts.push((name, format!("{}/{}: {}", member.kind, member.name, member.state)));
    }
    let Uncounted { used, limit } = description.uncounted_restarts;
    if used > 0 {
        let limit = limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
        facts.push(("uncounted", format!("{used}{limit} uncounted restarts used")));
    }
    match description.ignored_failures {
        0 => {}
        1 => facts.push(("ignored", "1 failed pod, by podFailurePolicy".to_owned())),
        more => facts.push(("ignored", format!("{more} failed pods, by podFailurePolicy"))),
    }
    let usage = description.usage.as_ref().map(|usage| ("usage", usage.line(now)));
    facts.extend(usage);
    if let Some(failure) = &description.failure {
        facts.push(("failure", failed(failure, now)));
        let message = failure.record.message.clone().filter(|text| !text.is_empty());
        facts.extend(message.map(|message| ("", message)));
        facts.extend(failure.decision.clone().map(|decision| ("decision", decision)));
    }
    if let Some(reported) = &description.last_failure {
        let age = words::age(Some(reported.failed_at), now);
        facts.push(("failure", format!("{age} ago, in the worker cluster: {}", reported.message)));
    }
    facts
}

fn headline(description: &Description, now: Timestamp) -> Vec<Span> {
    let colour = words::colour(description.phase).unwrap_or(Colour::Bold);
    let since = description.since.map(|at| format!(" since {}", moment(at, now)));
    let attempt = description.attempt.map(|attempt| format!(", attempt {attempt}"));
    let restarts = match description.restarts {
        0 => String::new(),
        1 => ", 1 restart".to_owned(),
        more => format!(", {more} restarts"),
    };
    let (since, attempt) = (since.unwrap_or_default(), attempt.unwrap_or_default());
    vec![
        (format!("{}/{}: ", description.namespace, description.name), None),
        (words::phase(description.phase).to_owned(), Some(colour)),
        (format!("{since}{attempt}{restarts}"), None),
    ]
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
