//! One AppWrapper a second in a quiet namespace, alone, and while those of another namespace fail again and
//! again.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::remake;
use crate::failure::Failure;
use crate::objects::{ENDLESS, FAILING, pods};
use crate::observe::{Seen, Watch, as_many};
use crate::outcome::{Outcome, Point, parts};
use crate::run::{PATIENCE, Run};
use crate::site::NAMESPACE;
use crate::stats::{QUANTILES, SECOND, rounded, seconds};

/// The other namespace.
const QUIET: &str = "quiet";
/// How many AppWrappers are created in it, each time.
const PROBES: usize = 20;
/// One that takes longer counts with the time until then.
const WAIT_MAX: Duration = Duration::from_secs(99);

/// Measures from creation to Running in the quiet namespace.
pub async fn measure(run: &mut Run, outcome: &mut Outcome) -> Result<(), Failure> {
    run.site.namespace(QUIET).await?;
    let quiet = run.site.watch(run.collection(QUIET)).await?;
    let noisy = run.site.watch(pods(NAMESPACE)).await?;
    let begin = Instant::now();
    let alone = probe(run, &quiet, "a", begin).await?;
    outcome.set("alone", summary(&alone));
    let object = |i: usize| run.object("aw", &i.to_string(), FAILING);
    run.site.create_all(&run.collection(NAMESPACE), run.size, object).await?;
    let storm = async {
        let all_failed = as_many(run.size, |seen| seen.phase == "Failed");
        noisy.until("all pods of the noisy namespace Failed", PATIENCE, all_failed).await?;
        let from = run.read();
        Ok::<_, Failure>((from, probe(run, &quiet, "s", begin).await?))
    };
    let (from, in_storm) = if run.has_controller() {
        storm.await?
    } else {
        tokio::select! {
            never = remake::failed_pods(&run.site, &noisy, FAILING) => match never? {},
            measured = storm => measured?,
        }
    };
    outcome.set("in_storm", summary(&in_storm));
    let failures = failures(&noisy.all(), from.at);
    outcome.set("failures_in_storm", failures);
    outcome.draw(alone.into_iter().chain(in_storm));
    run.account(outcome, &from, failures).await
}

/// How many pods have failed since then.
fn failures(seen: &[Seen], since: Instant) -> usize {
    let mut first = BTreeMap::new();
    for each in seen.iter().filter(|seen| seen.phase == "Failed") {
        first.entry(&each.uid).or_insert(each.at);
    }
    first.values().filter(|at| **at >= since).count()
}

/// Creates one a second, and waits until all run.
async fn probe(run: &Run, quiet: &Watch, tag: &str, begin: Instant) -> Result<Vec<Point>, Failure> {
    let mut every = tokio::time::interval(SECOND);
    let mut asked = BTreeMap::new();
    for number in 0..PROBES {
        every.tick().await;
        let suffix = format!("{tag}-{number}");
        let object = run.object("aw", &suffix, ENDLESS);
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        asked.insert(name, run.site.create(&run.collection(QUIET), &object).await?);
    }
    let is_probe = |seen: &Seen| asked.contains_key(&seen.name);
    let all = as_many(PROBES, |seen| is_probe(seen) && seen.phase == "Running");
    match quiet.until("all of the quiet namespace Running", WAIT_MAX, all).await {
        Ok(_) | Err(Failure::Late { .. }) => {}
        Err(failure) => return Err(failure),
    }
    let mut running = BTreeMap::new();
    for seen in quiet.all().into_iter().filter(|seen| seen.phase == "Running") {
        running.entry(seen.name).or_insert(seen.at);
    }
    let now = Instant::now();
    let point = |(name, from): (&String, &Instant)| {
        let to = running.get(name).copied().unwrap_or(now);
        Point { at: seconds(begin, to), latency: seconds(*from, to) }
    };
    Ok(asked.iter().map(point).collect())
}

fn summary(points: &[Point]) -> serde_json::Value {
    let latencies = super::latencies(points);
    let quantile = |per_mille| latencies.quantile(per_mille).map(|value| rounded(value, 3));
    parts(QUANTILES.map(|(name, per_mille)| (name.to_owned(), quantile(per_mille))))
}
