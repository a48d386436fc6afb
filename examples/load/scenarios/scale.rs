//! Running AppWrappers: the controller's memory; then it is killed and started again, and then nothing
//! happens any more. Without a controller, only what the pods cost.

use std::time::Duration;

use tokio::time::Instant;

use super::{first, latencies, numbered, transitions};
use crate::failure::Failure;
use crate::objects::{ENDLESS, wrappers};
use crate::observe::Watch;
use crate::outcome::{Outcome, parts};
use crate::run::{CALLS_MAX, PATIENCE, Run, since};
use crate::site::NAMESPACE;
use crate::stats::real;

/// Before memory is read again and rest begins: what follows a transition, such as events, is over then.
const CALM: Duration = Duration::from_secs(10);

/// Measures creation until ready, the restart, and the rest.
pub async fn measure(run: &mut Run, outcome: &mut Outcome) -> Result<(), Failure> {
    let pods = run.watch_pods().await?;
    let wrappers = run.watch_wrappers().await?;
    let from = run.read();
    let asked = run.bring_up(&wrappers, &pods).await?;
    outcome.set_real("up_s", since(&from, Instant::now()), 1);
    let ready = if run.has_controller() {
        first(&wrappers.all(), |seen| seen.is("PodsReady"))
    } else {
        first(&pods.all(), |seen| seen.is("Ready"))
    };
    let points = transitions(from.at, &numbered(&asked), &ready);
    outcome.set_latencies("ready", &latencies(&points));
    outcome.draw(points);
    run.account(outcome, &from, run.size).await?;
    if !run.has_controller() {
        return Ok(());
    }
    outcome.set_real("rss_mb", run.resident(), 1);
    outcome.set_real("peak_mb", run.peak(), 1);
    outcome.cost.peak_mb = run.peak();
    tokio::time::sleep(CALM).await;
    restart(run, outcome, &wrappers).await?;
    rest(run, outcome).await
}

/// Kills the controller and starts it again: it has caught up when a new AppWrapper runs.
async fn restart(run: &mut Run, outcome: &mut Outcome, watch: &Watch) -> Result<(), Failure> {
    run.stop().await;
    let from = run.read();
    run.start().await?;
    let number = run.size.to_string();
    let fresh = run.object("aw", &number, ENDLESS);
    run.site.create(&wrappers(NAMESPACE), &fresh).await?;
    let name = format!("aw-{number}");
    let caught_up = watch
        .until("a new AppWrapper Running after the restart", PATIENCE, |seen| {
            seen.name == name && seen.phase == "Running"
        })
        .await?;
    outcome.set_real("caught_up_s", since(&from, caught_up), 2);
    tokio::time::sleep(CALM).await;
    let to = run.read();
    // a new process begins at 0
    outcome.set_real("restart_cpu_s", to.controller, 2);
    outcome.set_real("restart_rss_mb", run.resident(), 1);
    outcome.set_real("restart_peak_mb", run.peak(), 1);
    let calls = run.calls(&from, &to).await?.own;
    outcome.set("restart_calls_total", calls.total());
    outcome.set("restart_calls", parts(calls.most(CALLS_MAX)));
    Ok(())
}

/// Measures a controller that has nothing to do.
async fn rest(run: &Run, outcome: &mut Outcome) -> Result<(), Failure> {
    let (from, length) = (run.read(), run.rest);
    tokio::time::sleep(Duration::from_secs(length.into())).await;
    let to = run.read();
    let calls = run.calls(&from, &to).await?.own;
    outcome.set(format!("idle_calls_{length}s"), calls.total());
    let used = (to.controller - from.controller) * 1000.0;
    outcome.set_real(format!("idle_cpu_ms_{length}s"), used, 0);
    outcome.set("idle_calls", parts(calls.most(CALLS_MAX)));
    outcome.set_real("idle_cpu_percent", used / 10.0 / real(length.max(1)), 3);
    Ok(())
}
