//! Numbers, times and the end of the story, in words.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Phase;
use crate::world::show::{Misfortune, Show, WrapperNow};

use super::super::ledger::Ledger;
use super::narration::Line;
use super::{Fault, HORIZON};

/// An amount in thousandths, as a person writes it.
pub(super) fn amount_text(amount: i64) -> String {
    let giga = 1000 << 30;
    let mega = 1000 << 20;
    match amount {
        _ if amount != 0 && amount % giga == 0 => format!("{}Gi", amount / giga),
        _ if amount != 0 && amount % mega == 0 => format!("{}Mi", amount / mega),
        _ if amount % 1000 == 0 => (amount / 1000).to_string(),
        _ => format!("{amount}m"),
    }
}

/// `02:05`, and hours where there are any.
pub(super) fn clock(at: Duration) -> String {
    let all = at.as_secs();
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes:02}:{seconds:02}")
    }
}

/// `1 min 30 s`.
pub(super) fn span(length: Duration) -> String {
    let all = length.as_secs();
    let parts = [(all / 3600, "h"), (all / 60 % 60, "min"), (all % 60, "s")];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count} {unit}"))
        .collect();
    if parts.is_empty() { "less than a second".to_owned() } else { parts.join(" ") }
}

pub(super) fn seconds(at: Duration) -> Value {
    let millis = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
    #[expect(clippy::cast_precision_loss, reason = "a week has few milliseconds")]
    let seconds = millis as f64 / 1000.0;
    seconds.into()
}

/// The last line for programs.
pub(super) fn result(show: &Show) -> Value {
    let picture = show.picture();
    let wrappers = picture.wrappers.iter();
    let phases: serde_json::Map<String, Value> = wrappers
        .map(|wrapper| (wrapper.name.clone(), wrapper.status.phase.as_str().into()))
        .collect();
    json!({"phases": phases, "virtualSeconds": seconds(show.elapsed())})
}

/// The last lines for people: what the quota of each AppWrapper was used for, and how they ended.
pub(super) fn summary(show: &Show, lines: &[Line]) -> Vec<String> {
    let picture = show.picture();
    let one = |wrapper: &WrapperNow| {
        let phase = match wrapper.status.phase {
            Phase::Empty => "new",
            phase => phase.as_str(),
        };
        let again = match wrapper.status.resetting_count {
            0 => String::new(),
            1 => " after 1 restart".to_owned(),
            more => format!(" after {more} restarts"),
        };
        format!("{} is {phase}{again}", wrapper.name)
    };
    let ends: Vec<String> = picture.wrappers.iter().map(one).collect();
    let now = Show::moment_at(show.elapsed());
    let ledgers = picture.wrappers.iter().filter_map(|wrapper| {
        let usage = wrapper.status.usage.as_ref()?;
        let has_queue = wrapper.standing.is_some();
        let ledger = Ledger::of(usage, has_queue, now).line(now);
        Some(format!("{}: {ledger}.", wrapper.name))
    });
    let phases = picture.wrappers.iter().map(|wrapper| wrapper.status.phase);
    let is_cut = show.is_cut(HORIZON);
    let end = format!(
        "{} of virtual time: {}.{}{} The controller's own code made every decision; the \
         cluster was simulated.",
        span(lines.iter().map(|line| line.at).max().unwrap_or_default()),
        ends.join("; "),
        limit(is_cut, phases),
        not_injected(&show.unstruck())
    );
    ledgers.chain([end]).collect()
}

/// Where the simulation was cut before an AppWrapper ended: how long it lasts at most.
pub(super) fn limit(is_cut: bool, mut phases: impl Iterator<Item = Phase>) -> String {
    let goes_on = |phase| match phase {
        Phase::Empty
        | Phase::Suspended
        | Phase::Resuming
        | Phase::Running
        | Phase::Resetting
        | Phase::Suspending
        | Phase::Terminating => true,
        Phase::Succeeded | Phase::Failed => false,
    };
    if is_cut && phases.any(goes_on) {
        format!(" At most {} of virtual time are simulated.", span(HORIZON))
    } else {
        String::new()
    }
}

/// The faults that were asked for and never happened.
fn not_injected(missed: &[Misfortune]) -> String {
    if missed.is_empty() {
        return String::new();
    }
    let names: Vec<String> = missed.iter().copied().map(Fault::name).collect();
    format!(" Not injected, because no pod ran for long enough: {}.", names.join(", "))
}

/// A text in lines of a width, broken between words.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `2 of 2 nvidia.com/gpu are reserved`, of what is asked for.
pub(super) fn of_quota(
    needs: &BTreeMap<String, i64>,
    quota: &BTreeMap<String, (i64, i64)>,
    pick: impl Fn((i64, i64)) -> (i64, i64),
    word: &str,
) -> String {
    let asked = quota.iter().filter(|(name, _)| needs.get(*name).is_some_and(|n| *n > 0));
    let texts: Vec<String> = asked
        .map(|(name, both)| {
            let (part, all) = pick(*both);
            format!("{} of {} {name}", amount_text(part), amount_text(all))
        })
        .collect();
    format!("{} are {word}", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_is_not_injected_has_the_name_of_its_option() {
        for (missed, want) in [
            (&[Misfortune::Crash][..], " Not injected, because no pod ran for long enough: crash."),
            (
                &[Misfortune::Stuck, Misfortune::Node],
                " Not injected, because no pod ran for long enough: stuck, node.",
            ),
            (&[], ""),
        ] {
            assert_eq!(not_injected(missed), want);
        }
    }

    #[test]
    fn the_length_of_the_simulation_is_said_where_it_was_cut() {
        let said = " At most 2 h of virtual time are simulated.";
        for (is_cut, phases, want) in [
            (true, &[Phase::Succeeded, Phase::Failed][..], ""),
            (true, &[Phase::Succeeded, Phase::Resetting], said),
            (true, &[Phase::Suspended], said),
            (false, &[Phase::Running, Phase::Suspended], ""),
        ] {
            assert_eq!(limit(is_cut, phases.iter().copied()), want, "{is_cut} {phases:?}");
        }
    }

    #[test]
    fn amounts_and_times_read_as_a_person_writes_them() {
        assert_eq!([2000, 500, 0, 1000 << 30].map(amount_text), ["2", "500m", "0", "1Gi"]);
        assert_eq!(
            [5, 125, 3725].map(|s| clock(Duration::from_secs(s))),
            ["00:05", "02:05", "1:02:05"]
        );
        assert_eq!(
            [0, 90, 7200].map(|s| span(Duration::from_secs(s))),
            ["less than a second", "1 min 30 s", "2 h"]
        );
        assert_eq!(seconds(Duration::from_millis(1500)), 1.5);
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
    }
}
