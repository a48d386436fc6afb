//! A load to look at: AppWrappers of three queues that succeed, fail, run out of memory, are preempted,
//! hang. Its page is served for a Prometheus beside it.
//!
//! ```text
//! METRICS_LOAD=127.0.0.1:18443 METRICS_LOAD_SECONDS=300 cargo test --test integration load:: -- --ignored
//! ```

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::{Case, job, page, test, tuned, wrapper};

/// A pause between two AppWrappers.
const EVERY: Duration = Duration::from_secs(2);

/// How pods live, in turn, and how many pods a Job has.
const LIVES: [(&[(&str, &str)], i32); 12] = [
    (&[("run-for", "20s")], 2),
    (&[("run-for", "12s")], 4),
    (&[("run-for", "4s"), ("fail-until-attempt", "1"), ("exit-code", "3")], 1),
    (&[("run-for", "25s")], 1),
    (&[("run-for", "6s")], 4),
    (&[("run-for", "4s"), ("fail-until-attempt", "2"), ("reason", "OOMKilled")], 2),
    (&[("run-for", "15s")], 1),
    (&[("run-for", "3s"), ("exit-code", "1")], 1),
    (&[("run-for", "9s")], 2),
    (&[("run-for", "4s"), ("fail-until-attempt", "1"), ("disruption", "PreemptionByScheduler")], 1),
    // what has failed is gone at once when it is deleted: what lives is not
    (&[("never-ready", "yes"), ("stuck", "yes")], 1),
    (&[("never-ready", "yes")], 1),
];

/// Queues and their CPUs; every Job's pod asks for two.
const QUEUES: [(&str, &str); 3] = [("research", "40"), ("production", "24"), ("batch", "8")];

async fn queue(case: &Case, name: &str, cpu: &str) {
    let kueue = "kueue.x-k8s.io/v1beta2";
    let of = |kind: &str, spec: Value| json!({"apiVersion": kueue, "kind": kind, "metadata": {"name": name}, "spec": spec});
    case.create(of("ResourceFlavor", json!({}))).await;
    let groups = json!([{"coveredResources": ["cpu"], "flavors": [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu}]}]}]);
    let spec = json!({"namespaceSelector": {}, "resourceGroups": groups});
    case.create(of("ClusterQueue", spec)).await;
    case.create(of("LocalQueue", json!({"clusterQueue": name}))).await;
}

fn submitted(number: usize) -> Value {
    let (life, pods) = LIVES[number % LIVES.len()];
    let mut template =
        job(&format!("j-{number}"), json!({"parallelism": pods, "completions": pods}), life);
    template["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
        "2".into();
    let settings = tuned(&[
        ("retryLimit", "2"),
        ("retryPausePeriodDuration", "5s"),
        ("failureGracePeriodDuration", "2s"),
        ("warmupGracePeriodDuration", "20s"),
        ("forcefulDeletionGracePeriodDuration", "30s"),
        ("successTTLDuration", "30s"),
    ]);
    let mut object = wrapper(&format!("aw-{number}"), settings, vec![template]);
    let (queue, _) = QUEUES[(number + number / LIVES.len()) % QUEUES.len()];
    object["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": queue});
    object["spec"]["suspend"] = true.into();
    object
}

#[expect(clippy::disallowed_methods, reason = "how much is done is said from outside")]
fn asked(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[test]
#[ignore = "a tool: set METRICS_LOAD"]
fn a_load_is_served_where_one_is_asked_for() {
    let address = asked("METRICS_LOAD").expect("METRICS_LOAD");
    let address: SocketAddr = address.parse().expect("METRICS_LOAD is an address");
    let seconds = asked("METRICS_LOAD_SECONDS").map_or(300, |text| text.parse().expect("seconds"));
    test("a_load_is_served_where_one_is_asked_for", async |case| {
        let listener = TcpListener::bind(address).await.expect("the address is free");
        let router = Router::new().route("/metrics", get(page));
        tokio::spawn(axum::serve(listener, router).into_future());
        for (name, cpu) in QUEUES {
            queue(&case, name, cpu).await;
        }
        let ends = tokio::time::Instant::now() + Duration::from_secs(seconds);
        let mut every = tokio::time::interval(EVERY);
        let mut number = 0;
        while tokio::time::Instant::now() < ends {
            every.tick().await;
            case.create(submitted(number)).await;
            number += 1;
        }
    });
}
