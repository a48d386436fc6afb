//! The ledger of an AppWrapper, in numbers and in words.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::explain::text::{ago, span};
use super::term::Page;
use crate::api::{Usage, UsageSeconds, UsageState};
use crate::decide::usage::{seconds_at, total};
use crate::observe::assemble::Wrapper;
use crate::printable;

/// Seconds of an hour.
const HOUR: f64 = 3600.0;
/// Bytes of a GiB.
const GIB: f64 = 1_073_741_824.0;

/// The ledger at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ledger {
    /// What the quota is used for; none while none is reserved.
    pub state: Option<UsageState>,
    /// When this state began.
    pub since: Option<Timestamp>,
    /// Seconds in which quota was reserved.
    pub held_seconds: i64,
    /// Productive seconds of 100 in which quota was reserved, rounded; none before the first.
    pub goodput_percent: Option<i64>,
    /// Seconds by state; all of them.
    pub seconds: BTreeMap<&'static str, i64>,
    /// It has a queue: without one, there is no quota, and what counts is the time in which it may have resources.
    #[serde(skip)]
    has_queue: bool,
}

impl Ledger {
    /// Of an AppWrapper; none before anything was recorded.
    pub(super) fn of_wrapper(wrapper: &Wrapper, now: Timestamp) -> Option<Self> {
        let usage = wrapper.status.usage.as_ref()?;
        Some(Self::of(usage, wrapper.queue.is_some(), now))
    }

    /// Of what an AppWrapper has recorded, which has a queue or not.
    pub(super) fn of(usage: &Usage, has_queue: bool, now: Timestamp) -> Self {
        let since = usage.since.as_ref().filter(|_| usage.state.is_some());
        Self {
            state: usage.state,
            since: since.map(|since| since.0.min(now)),
            has_queue,
            ..Self::closed(&seconds_at(usage, now))
        }
    }

    /// Of seconds alone, which may be those of several AppWrappers.
    pub(super) fn closed(seconds: &UsageSeconds) -> Self {
        let held = total(seconds);
        Self {
            state: None,
            since: None,
            held_seconds: held,
            goodput_percent: percent(seconds.productive, held),
            seconds: UsageState::ALL.map(|state| (state.as_str(), seconds.of(state))).into(),
            has_queue: true,
        }
    }

    pub(super) fn of_state(&self, state: UsageState) -> i64 {
        self.seconds.get(state.as_str()).copied().unwrap_or_default()
    }

    /// In one line: `productive since …; quota reserved for 1h; 80% productive, lost 5m, teardown 7m`.
    pub(super) fn line(&self, now: Timestamp) -> String {
        let mut text = match (self.state, self.since) {
            (Some(state), Some(since)) => {
                format!("{} since {since} ({}); ", state.as_str(), ago(since, now))
            }
            (Some(state), None) => format!("{}; ", state.as_str()),
            (None, _) => String::new(),
        };
        let held = if self.has_queue { "quota reserved" } else { "held resources" };
        text += &format!("{held} for {}", span(self.held_seconds));
        let Some(percent) = self.goodput_percent else { return text };
        text += &format!("; {percent}% productive");
        for state in UsageState::ALL.into_iter().filter(|state| *state != UsageState::Productive) {
            let seconds = self.of_state(state);
            if seconds > 0 {
                text += &format!(", {} {}", state.as_str(), span(seconds));
            }
        }
        text
    }
}

/// How many of 100, rounded to the nearest; none of nothing.
pub(super) fn percent(part: i64, whole: i64) -> Option<i64> {
    let (part, whole) = (i128::from(part) * 100, i128::from(whole));
    let percent = (part + whole / 2).checked_div(whole)?;
    i64::try_from(percent).ok()
}

/// The resources of a report: each with its title, and what is counted of it in an hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Resources {
    /// The names, and the titles of their columns.
    pub columns: Vec<(String, String)>,
    /// How many others there are, for which there is no column.
    left_out: usize,
}

impl Resources {
    /// The most columns: a name is anybody's choice.
    const MOST: usize = 5;

    /// CPU and memory, then the others by name.
    pub(super) fn of<'a>(requested: impl IntoIterator<Item = &'a BTreeMap<String, f64>>) -> Self {
        let names: BTreeSet<&String> = requested.into_iter().flat_map(BTreeMap::keys).collect();
        Self::by_namespaces(names.into_iter().map(|name| (name, 1)))
    }

    /// CPU and memory, then the others: first those that the most namespaces request, since a user of one of them chooses any
    /// names. Each name comes once.
    pub(super) fn by_namespaces<'a>(
        requested: impl IntoIterator<Item = (&'a String, usize)>,
    ) -> Self {
        let mut names: Vec<(&String, usize)> = requested.into_iter().collect();
        let rank = |name: &str| match name {
            "cpu" => 0,
            "memory" => 1,
            "ephemeral-storage" => 3,
            _ => 2,
        };
        names.sort_by_key(|(name, namespaces)| {
            (rank(name).min(2), Reverse(*namespaces), rank(name), *name)
        });
        let left_out = names.len().saturating_sub(Self::MOST);
        let titled = names.into_iter().take(Self::MOST).map(|(name, _)| {
            let title = match name.as_str() {
                "cpu" => "CPU-HOURS".to_owned(),
                "memory" => "MEMORY GIB-HOURS".to_owned(),
                name => format!("{}-HOURS", resource_title(name)),
            };
            (name.clone(), title)
        });
        Self { columns: titled.collect(), left_out }
    }

    /// One cell for each column: the hours of some seconds of these amounts.
    pub(super) fn cells(&self, hours: &BTreeMap<String, f64>) -> Vec<String> {
        let of = |(name, _): &(String, String)| hours.get(name).copied().unwrap_or_default();
        self.columns.iter().map(of).map(decimal).collect()
    }

    /// A line that says how many have no column; nothing if all have one.
    pub(super) fn remark(&self) -> Page {
        let mut page = Page::default();
        if self.left_out > 0 {
            let what = if self.left_out == 1 { "resource" } else { "resources" };
            page.line(&format!("{} more {what}: use -o json", self.left_out));
        }
        page
    }
}

/// The name of a resource, as a title has it: it is anybody's choice.
pub(super) fn resource_title(name: &str) -> String {
    /// In characters.
    const LONGEST: usize = 40;
    printable::truncated(name, LONGEST)
}

/// What is used of each resource in some seconds, to two decimals: core-hours, GiB-hours of memory, device-hours.
pub(super) fn hours(requested: &BTreeMap<String, f64>, seconds: i64) -> BTreeMap<String, f64> {
    rounded(exact_hours(requested, seconds))
}

/// The same as it is, to be added up.
pub(super) fn exact_hours(
    requested: &BTreeMap<String, f64>,
    seconds: i64,
) -> BTreeMap<String, f64> {
    let of = |(name, amount): (&String, &f64)| {
        let unit = if is_bytes(name) { GIB } else { 1.0 };
        #[expect(clippy::cast_precision_loss, reason = "seconds are below 2^53 each")]
        let hours = amount / unit * (seconds as f64 / HOUR);
        (name.clone(), hours)
    };
    requested.iter().map(of).collect()
}

/// Amounts to two decimals.
pub(super) fn rounded(amounts: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    amounts.into_iter().map(|(name, amount)| (name, (amount * 100.0).round() / 100.0)).collect()
}

fn is_bytes(name: &str) -> bool {
    name == "memory" || name == "ephemeral-storage" || name.starts_with("hugepages-")
}

/// Adds amounts of resources to others.
pub(super) fn add(sum: &mut BTreeMap<String, f64>, more: &BTreeMap<String, f64>) {
    for (name, amount) in more {
        *sum.entry(name.clone()).or_default() += amount;
    }
}

/// A number for people: two decimals below 10, none from 10 on.
fn decimal(amount: f64) -> String {
    if amount == 0.0 {
        "0".to_owned()
    } else if amount < 10.0 {
        format!("{amount:.2}")
    } else {
        format!("{amount:.0}")
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    #[test]
    fn a_ledger_is_one_line() {
        let mut usage = Usage {
            state: Some(UsageState::Productive),
            since: Some(Time(at(0))),
            ..Usage::default()
        };
        usage.seconds.lost = 300;
        usage.seconds.teardown = 60;
        let line = |usage: &Usage, second| Ledger::of(usage, true, at(second)).line(at(second));
        assert_eq!(
            line(&usage, 240),
            "productive since 2026-01-01T00:00:00Z (4m ago); quota reserved for 10m; 40% \
             productive, lost 5m, teardown 1m"
        );
        for now in [0, -2] {
            let line = Ledger::of(&usage, true, at(0)).line(at(now));
            assert!(line.contains("(0s ago)"), "the clock of the controller may be ahead: {line}");
        }
        usage.state = None;
        assert_eq!(line(&usage, 240), "quota reserved for 6m; 0% productive, lost 5m, teardown 1m");
        let unqueued = Ledger::of(&usage, false, at(240)).line(at(240));
        assert_eq!(unqueued, "held resources for 6m; 0% productive, lost 5m, teardown 1m");
        let new = Usage { state: Some(UsageState::Waiting), ..Usage::default() };
        assert_eq!(line(&new, 0), "waiting; quota reserved for 0s");
        // whatever somebody wrote
        usage.seconds.productive = i64::MAX;
        assert_eq!(Ledger::of(&usage, true, at(0)).goodput_percent, Some(100));
    }

    #[test]
    fn percentages_are_rounded_to_the_nearest() {
        for (part, whole, want) in [
            (0, 0, None),
            (0, 9, Some(0)),
            (1, 3, Some(33)),
            (2, 3, Some(67)),
            (1, 200, Some(1)),
            (1, 201, Some(0)),
            (9, 9, Some(100)),
        ] {
            assert_eq!(percent(part, whole), want, "{part} of {whole}");
        }
    }

    #[test]
    fn hours_have_the_unit_of_their_resource() {
        let requested = |all: &[(&str, f64)]| {
            all.iter()
                .map(|(name, amount)| ((*name).to_owned(), *amount))
                .collect::<BTreeMap<_, _>>()
        };
        let all = requested(&[("memory", 2.0 * GIB), ("nvidia.com/gpu", 8.0), ("cpu", 0.5)]);
        let want = requested(&[("memory", 3.0), ("nvidia.com/gpu", 12.0), ("cpu", 0.75)]);
        assert_eq!(hours(&all, 5400), want);
        let resources = Resources::of([&all, &requested(&[("cpu", 1.0), ("a\u{1b}[2J/x", 1.0)])]);
        let titles: Vec<&str> = resources.columns.iter().map(|(_, title)| title.as_str()).collect();
        assert_eq!(
            titles,
            ["CPU-HOURS", "MEMORY GIB-HOURS", "a\\u{1b}[2J/x-HOURS", "nvidia.com/gpu-HOURS"]
        );
        assert_eq!(resources.cells(&hours(&all, 5400)), ["0.75", "3.00", "0", "12"]);
        assert_eq!(resources.left_out, 0);
    }

    #[test]
    fn what_one_namespace_requests_takes_no_column_from_others() {
        let requested = [("a.com/x", 1), ("a.com/y", 1), ("a.com/z", 1), ("b.com/gpu", 2)];
        let common = [("memory", 2), ("cpu", 1), ("ephemeral-storage", 3)];
        let all = requested.into_iter().chain(common);
        let all: Vec<(String, usize)> = all.map(|(name, count)| (name.to_owned(), count)).collect();
        let resources = Resources::by_namespaces(all.iter().map(|(name, count)| (name, *count)));
        let names: Vec<&str> = resources.columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["cpu", "memory", "ephemeral-storage", "b.com/gpu", "a.com/x"]);
        assert_eq!(resources.left_out, 2);
    }
}
