//! AppWrappers of one pod that runs for 1 s, created as fast as the connections can, until all have
//! succeeded.

use tokio::time::Instant;

use super::{first, latencies, numbered, transitions};
use crate::failure::Failure;
use crate::objects::SHORT;
use crate::observe::{Seen, as_many};
use crate::outcome::Outcome;
use crate::run::{PATIENCE, Run, since};
use crate::site::NAMESPACE;

fn succeeded(seen: &Seen) -> bool {
    seen.phase == "Succeeded"
}

/// Measures from creation to Succeeded, and from a pod's end to that of its AppWrapper.
pub async fn measure(run: &mut Run, outcome: &mut Outcome) -> Result<(), Failure> {
    let pods = run.watch_pods().await?;
    let wrappers = run.watch_wrappers().await?;
    let from = run.read();
    let object = |i: usize| run.object("aw", &i.to_string(), SHORT);
    let asked = run.site.create_all(&run.collection(NAMESPACE), run.size, object).await?;
    outcome.set_real("created_s", since(&from, Instant::now()), 2);
    let watch = if run.has_controller() { &wrappers } else { &pods };
    let done = as_many(run.size, succeeded);
    let done = watch.until("all of them Succeeded", PATIENCE, done).await?;
    outcome.set_real("wall_s", since(&from, done), 2);
    let ends = first(&watch.all(), succeeded);
    let points = transitions(from.at, &numbered(&asked), &ends);
    outcome.set_latencies("succeeded", &latencies(&points));
    outcome.draw(points);
    if run.has_controller() {
        let told = transitions(from.at, &first(&pods.all(), succeeded), &ends);
        outcome.set_latencies("pod_end_to_succeeded", &latencies(&told));
    }
    run.account(outcome, &from, run.size).await
}
