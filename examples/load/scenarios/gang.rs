//! One AppWrapper with a Job of many pods, one of which fails: all are replaced. Without a controller,
//! the example deletes the Job and creates it again.

use std::collections::BTreeSet;

use super::latencies;
use crate::failure::Failure;
use crate::objects;
use crate::observe::Seen;
use crate::outcome::{Outcome, Point};
use crate::run::{PATIENCE, Run, since};
use crate::site::NAMESPACE;
use crate::stats::seconds;

/// Whether so many pods run at the same time, none of which is among `old`.
fn running(count: usize, old: BTreeSet<String>) -> impl FnMut(&Seen) -> bool {
    let mut now = BTreeSet::new();
    move |seen| {
        if seen.phase == "Running" && !seen.deleting && !old.contains(&seen.uid) {
            now.insert(seen.uid.clone());
        } else {
            now.remove(&seen.uid);
        }
        now.len() >= count
    }
}

/// Measures until all run, until all are gone after the failure, and until all run again.
pub async fn measure(run: &mut Run, outcome: &mut Outcome) -> Result<(), Failure> {
    let pods = run.watch_pods().await?;
    let wrappers = run.watch_wrappers().await?;
    let first = run.read();
    let jobs = objects::jobs(NAMESPACE);
    if run.has_controller() {
        let wrapper = objects::wrapped_job("aw-0", run.size);
        run.site.create(&objects::wrappers(NAMESPACE), &wrapper).await?;
    } else {
        run.site.create(&jobs, &objects::job("j-0", run.size)).await?;
    }
    let up = pods.until("all pods Running", PATIENCE, running(run.size, BTreeSet::new())).await?;
    outcome.set_real("first_up_s", since(&first, up), 1);
    if run.has_controller() {
        // the Job's status comes later than the last pod's
        wrappers.until("PodsReady", PATIENCE, |seen| seen.is("PodsReady")).await?;
        outcome.set_real("cpu_s_up", run.read().controller - first.controller, 2);
        outcome.set_real("rss_mb", run.resident(), 1);
    }
    let seen = pods.all();
    let old: BTreeSet<String> = seen.iter().map(|seen| seen.uid.clone()).collect();
    let victim = seen.get(seen.len() / 2).map(|seen| seen.name.clone()).unwrap_or_default();
    let from = run.read();
    run.site.fail_pods(1, |_| victim.clone()).await?;
    if !run.has_controller() {
        run.site.delete(0, &format!("{jobs}/j-0")).await?;
    }
    let mut left = old.clone();
    let gone = |seen: &Seen| {
        if seen.deleted {
            left.remove(&seen.uid);
        }
        left.is_empty()
    };
    let gone = pods.until("all pods gone", PATIENCE, gone).await?;
    outcome.set_real("gone_s", since(&from, gone), 1);
    if !run.has_controller() {
        run.site.create(&jobs, &objects::job("j-0", run.size)).await?;
    }
    let again =
        pods.until("all pods Running again", PATIENCE, running(run.size, old.clone())).await?;
    outcome.set_real("again_s", since(&from, again), 1);
    if run.has_controller() {
        let seen = wrappers.all();
        let unhealthy = seen.iter().find(|seen| seen.at >= from.at && seen.is("Unhealthy"));
        outcome.set_real("unhealthy_s", unhealthy.map(|seen| seconds(from.at, seen.at)), 2);
        outcome.set_real("cpu_s_again", run.read().controller - from.controller, 2);
        let calls = run.calls(&from, &run.read()).await?;
        outcome.set("calls_total", calls.own.total());
    }
    let points = again_by_pod(&pods.all(), &old, |seen| since(&from, seen.at));
    outcome.set_latencies("pod_again", &latencies(&points));
    outcome.draw(points);
    run.account(outcome, &from, run.size).await
}

/// When each new pod was first Running, since the failure.
fn again_by_pod(seen: &[Seen], old: &BTreeSet<String>, at: impl Fn(&Seen) -> f64) -> Vec<Point> {
    let mut known = BTreeSet::new();
    let new = seen.iter().filter(|seen| {
        seen.phase == "Running" && !old.contains(&seen.uid) && known.insert(&seen.uid)
    });
    new.map(|seen| Point { at: at(seen), latency: at(seen) }).collect()
}
