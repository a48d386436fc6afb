//! AppWrappers of one pod that runs for 1 s, through a `ClusterQueue` that has room for fifty of them.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{first, latencies, numbered, transitions};
use crate::failure::Failure;
use crate::objects::{self, SHORT};
use crate::observe::{Seen, as_many};
use crate::outcome::Outcome;
use crate::run::{PATIENCE, Run, since};
use crate::site::NAMESPACE;
use crate::stats::real;

/// The group and version of queues.
const GROUP: &str = "kueue.x-k8s.io/v1beta2";
/// The name of everything here.
const NAME: &str = "load";
/// Room for fifty pods, which request 1m each.
const QUOTA: &str = "50m";

fn succeeded(seen: &Seen) -> bool {
    seen.phase == "Succeeded"
}

/// Measures from creation to Succeeded.
pub async fn measure(run: &mut Run, outcome: &mut Outcome) -> Result<(), Failure> {
    queue(run).await?;
    let wrappers = run.watch_wrappers().await?;
    let from = run.read();
    let object = |i: usize| objects::queued(run.object("aw", &i.to_string(), SHORT), NAME);
    let asked = run.site.create_all(&objects::wrappers(NAMESPACE), run.size, object).await?;
    outcome.set_real("created_s", since(&from, Instant::now()), 2);
    let done = as_many(run.size, succeeded);
    let done = wrappers.until("all AppWrappers Succeeded", PATIENCE, done).await?;
    outcome.set_real("wall_s", since(&from, done), 1);
    outcome.set_real("per_s", real(run.size) / since(&from, done), 1);
    let points = transitions(from.at, &numbered(&asked), &first(&wrappers.all(), succeeded));
    outcome.set_latencies("succeeded", &latencies(&points));
    outcome.draw(points);
    run.account(outcome, &from, run.size).await
}

/// Creates the queue, and waits until it admits.
async fn queue(run: &Run) -> Result<(), Failure> {
    let of = |kind: &str, spec: Value| json!({"apiVersion": GROUP, "kind": kind, "metadata": {"name": NAME}, "spec": spec});
    let groups = json!([{"coveredResources": ["cpu"], "flavors": [
        {"name": NAME, "resources": [{"name": "cpu", "nominalQuota": QUOTA}]}]}]);
    let locals = format!("/apis/{GROUP}/namespaces/{NAMESPACE}/localqueues");
    let queues = run.site.watch(locals.clone()).await?;
    let all = [
        (format!("/apis/{GROUP}/resourceflavors"), of("ResourceFlavor", json!({}))),
        (
            format!("/apis/{GROUP}/clusterqueues"),
            of("ClusterQueue", json!({"namespaceSelector": {}, "resourceGroups": groups})),
        ),
        (locals, of("LocalQueue", json!({"clusterQueue": NAME}))),
    ];
    for (path, object) in all {
        run.site.create(&path, &object).await?;
    }
    queues.until("an active LocalQueue", PATIENCE, |seen| seen.is("Active")).await.map(drop)
}
