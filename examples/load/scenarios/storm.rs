//! Running AppWrappers of one pod, all of which fail within a second or so.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{first, latencies, remake, transitions};
use crate::failure::Failure;
use crate::objects::{ENDLESS, number};
use crate::observe::{Seen, Watch, as_many};
use crate::outcome::Outcome;
use crate::run::{PATIENCE, Run, since};
use crate::stats::seconds;

/// Measures from a pod's failure to Unhealthy, and to the replacement Running.
pub async fn measure(run: &mut Run, outcome: &mut Outcome) -> Result<(), Failure> {
    let pods = run.watch_pods().await?;
    let wrappers = run.watch_wrappers().await?;
    run.bring_up(&wrappers, &pods).await?;
    let from = run.read();
    let (begin, end) = run.site.fail_pods(run.size, |i| format!("p-{i}")).await?;
    outcome.set_real("failed_within_s", seconds(begin, end), 2);
    let again = if run.has_controller() {
        let replaced = all_again(run.size, &pods).await?;
        // a condition of before the failure may still be there while the pod is being replaced
        let ready =
            |seen: &Seen| seen.resets >= 1 && seen.phase == "Running" && seen.is("PodsReady");
        let ready = as_many(run.size, ready);
        let ready = wrappers.until("all AppWrappers with PodsReady again", PATIENCE, ready).await?;
        replaced.max(ready)
    } else {
        tokio::select! {
            never = remake::failed_pods(&run.site, &pods, ENDLESS) => match never? {},
            again = all_again(run.size, &pods) => again?,
        }
    };
    let Replaced { failed, running } = replaced(&pods.all());
    if run.has_controller() {
        let unhealthy = first(&wrappers.all(), |seen| seen.is("Unhealthy"));
        let points = transitions(from.at, &failed, &unhealthy);
        outcome.set("unhealthy", points.len());
        outcome.set_latencies("unhealthy", &latencies(&points));
    }
    let points = transitions(from.at, &failed, &running);
    outcome.set("running_again", points.len());
    outcome.set_latencies("running_again", &latencies(&points));
    outcome.draw(points);
    outcome.set_real("all_again_s", since(&from, again), 1);
    run.account(outcome, &from, run.size).await
}

async fn all_again(size: usize, pods: &Watch) -> Result<Instant, Failure> {
    let mut story = Replaced::default();
    let mut uids = BTreeMap::new();
    let enough = |seen: &Seen| {
        story.take(seen, &mut uids);
        story.running.len() >= size
    };
    pods.until("all pods replaced", PATIENCE, enough).await
}

/// When pods failed, and when their replacements, which have the same names, ran; by number.
#[derive(Debug, Default)]
struct Replaced {
    failed: BTreeMap<usize, Instant>,
    running: BTreeMap<usize, Instant>,
}

impl Replaced {
    fn take(&mut self, seen: &Seen, uids: &mut BTreeMap<usize, String>) {
        let Some(number) = number(&seen.name) else { return };
        let first = uids.get(&number);
        if seen.phase == "Failed" && first.is_none() {
            self.failed.insert(number, seen.at);
            uids.insert(number, seen.uid.clone());
        } else if seen.phase == "Running" && first.is_some_and(|uid| *uid != seen.uid) {
            self.running.entry(number).or_insert(seen.at);
        }
    }
}

fn replaced(seen: &[Seen]) -> Replaced {
    let (mut story, mut uids) = (Replaced::default(), BTreeMap::new());
    for each in seen {
        story.take(each, &mut uids);
    }
    story
}
