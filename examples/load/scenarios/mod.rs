//! What is done to a controller, and what is measured meanwhile.

mod churn;
mod fair;
mod gang;
mod kueue;
mod remake;
mod scale;
mod storm;

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::failure::Failure;
use crate::objects::number;
use crate::observe::Seen;
use crate::options::Scenario;
use crate::outcome::{Outcome, Point};
use crate::run::Run;
use crate::stats::{Latencies, seconds};

/// Runs a scenario with a controller that works, or with none.
pub async fn measure(
    scenario: Scenario,
    run: &mut Run,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    match scenario {
        Scenario::Churn => churn::measure(run, outcome).await,
        Scenario::Storm => storm::measure(run, outcome).await,
        Scenario::Gang => gang::measure(run, outcome).await,
        Scenario::Scale => scale::measure(run, outcome).await,
        Scenario::Fair => fair::measure(run, outcome).await,
        Scenario::Kueue => kueue::measure(run, outcome).await,
    }
}

/// When each object, by the number in its name, was first seen to meet a condition.
fn first(seen: &[Seen], met: impl Fn(&Seen) -> bool) -> BTreeMap<usize, Instant> {
    let mut first = BTreeMap::new();
    for each in seen.iter().filter(|seen| met(seen)) {
        if let Some(number) = number(&each.name) {
            first.entry(number).or_insert(each.at);
        }
    }
    first
}

/// Transitions between two moments of the same object; those that have both.
fn transitions(
    begin: Instant,
    from: &BTreeMap<usize, Instant>,
    to: &BTreeMap<usize, Instant>,
) -> Vec<Point> {
    let both = from.iter().filter_map(|(number, from)| Some((*from, *to.get(number)?)));
    both.map(|(from, to)| Point { at: seconds(begin, to), latency: seconds(from, to) }).collect()
}

fn latencies(points: &[Point]) -> Latencies {
    points.iter().map(|point| point.latency).collect()
}

/// Times in a list, by their place in it.
fn numbered(times: &[Instant]) -> BTreeMap<usize, Instant> {
    times.iter().copied().enumerate().collect()
}
