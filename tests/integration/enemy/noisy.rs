//! A benchmark: three tenants with thousands of the dearest AppWrappers that admission accepts, beside a
//! tenant with ordinary ones: alone, while they create theirs, and for some minutes in which they change them.
//! While they create, the API server has no CPU left; one plain write says what of the time is its own.
//!
//! ```text
//! cargo build --release
//! APPWRAPPER_TESTS_PROGRAM=target/release/appwrapper NOISY_OBJECTS=2000 NOISY_MINUTES=10 \
//!   cargo test --test integration enemy::noisy -- --ignored --nocapture
//! ```

#![expect(clippy::print_stdout, reason = "a benchmark tells its figures")]

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};
use tokio::time::Instant;

use appwrapper::api::AppWrapper;
use appwrapper::price::memory_bytes;

use super::dearest;
use crate::harness::{Case, job, wrapper};
use crate::installed::{INSTALLED, NAMESPACE, installed_test};

/// How many tenants are hostile.
const ATTACKERS: usize = 3;
/// How many creations of one attacker are under way at the same time.
const AT_A_TIME: usize = 4;
/// How often an attacker changes one of its AppWrappers.
const CHANGE_EVERY: Duration = Duration::from_millis(250);
/// How often the quiet tenant creates an AppWrapper.
const CREATE_EVERY: Duration = Duration::from_secs(2);
/// How many AppWrappers the quiet tenant creates while it is alone.
const ALONE: usize = 100;
/// Of so many AppWrappers of an attacker, one is not suspended and fails again and again.
const RUNNING_EVERY: usize = 50;
/// The largest AppWrapper of an attacker, as text and in memory, in bytes: etcd has to hold thousands of
/// them, and the API server and Kueue keep every one of them parsed.
const BYTES_MAX: (usize, usize) = (64 * 1024, 256 * 1024);
/// How much memory the program may take, in KiB.
const MEMORY_MAX_KIB: u64 = 128 * 1024;

#[expect(clippy::disallowed_methods, reason = "how much is done is said from outside")]
fn setting(name: &str, default: usize) -> usize {
    let given = std::env::var(name).ok();
    given.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// A tenant that floods its namespace. Unlike a [`Case`] it records nothing.
struct Attacker {
    namespace: String,
    wrappers: Api<DynamicObject>,
}

impl Attacker {
    async fn new(case: &Case, number: usize) -> Self {
        let namespace = format!("noisy-{number}");
        let object = json!({"metadata": {"name": namespace}});
        let object: Namespace = serde_json::from_value(object).expect("a namespace");
        let namespaces: Api<Namespace> = Api::all(case.client.clone());
        namespaces.create(&PostParams::default(), &object).await.expect("the namespace is new");
        let resource = ApiResource::erase::<AppWrapper>(&());
        let wrappers = Api::namespaced_with(case.client.clone(), &namespace, &resource);
        Self { namespace, wrappers }
    }

    async fn flood(&self, count: usize, refused: &AtomicUsize) {
        stream::iter(0..count)
            .for_each_concurrent(AT_A_TIME, |number| async move {
                let object: DynamicObject =
                    serde_json::from_value(hostile(number)).expect("an object");
                let created = self.wrappers.create(&PostParams::default(), &object).await;
                if let Err(error) = created
                    && refused.fetch_add(1, Ordering::Relaxed) < 3
                {
                    println!("refused: {error}");
                }
            })
            .await;
    }

    async fn change(&self, count: usize, ends: &AtomicBool) {
        let mut number = 0;
        while !ends.load(Ordering::Relaxed) {
            let note = json!({"metadata": {"annotations": {"example.com/n": number.to_string()}}});
            let name = format!("aw-{}", number * 7 % count);
            // it may have been refused
            drop(self.wrappers.patch(&name, &PatchParams::default(), &Patch::Merge(note)).await);
            number += 1;
            tokio::time::sleep(CHANGE_EVERY).await;
        }
    }
}

/// The dearest AppWrappers that are small enough.
static DEAREST: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let all = dearest::all().into_iter().map(|each| each.object);
    let (text, memory) = BYTES_MAX;
    all.filter(|object| object.to_string().len() <= text && memory_bytes(object) <= memory)
        .collect()
});

/// The AppWrapper of an attacker: every fiftieth runs, and fails again and again.
fn hostile(number: usize) -> Value {
    let mut object = DEAREST[number % DEAREST.len()].clone();
    let metadata = object["metadata"].as_object_mut().expect("an object");
    metadata.retain(|key, _| matches!(key.as_str(), "annotations" | "labels"));
    object["metadata"]["name"] = format!("aw-{number}").into();
    if number.is_multiple_of(RUNNING_EVERY) {
        let life = [("run-for", "1s"), ("fail-until-attempt", "1000000"), ("exit-code", "1")];
        object["spec"]["components"] =
            json!([{"template": job(&format!("job-{number}"), json!({}), &life)}]);
    } else {
        object["spec"]["suspend"] = true.into();
    }
    object
}

/// How long an ordinary AppWrapper takes from its creation until it is Running.
async fn created_to_running(case: &Case, number: usize) -> Duration {
    let name = format!("quiet-{number}");
    let template = job(&name, json!({}), &[("run-for", "20h")]);
    let began = Instant::now();
    case.create(wrapper(&name, json!({}), vec![template])).await;
    case.phase(&name, "Running").await;
    let took = began.elapsed();
    case.delete_wrapper(&name).await;
    took
}

/// How long the API server takes for one write that no controller has a part in.
async fn plain_write(case: &Case, number: usize) -> Duration {
    let name = format!("plain-{number}");
    let began = Instant::now();
    case.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})).await;
    let took = began.elapsed();
    case.delete("v1", "ConfigMap", &name).await;
    took
}

/// What the quiet tenant has measured.
#[derive(Default)]
struct Measured {
    running: Vec<Duration>,
    plain: Vec<Duration>,
}

impl Measured {
    async fn take(&mut self, case: &Case, number: usize) -> Duration {
        self.plain.push(plain_write(case, number).await);
        let took = created_to_running(case, number).await;
        self.running.push(took);
        took
    }

    /// Prints the times; returns the 99th percentile of created → Running.
    fn told(self, when: &str) -> Duration {
        let Self { running, plain } = self;
        told(&format!("{when}: one plain write"), plain);
        told(&format!("{when}: created → Running"), running)
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

fn told(what: &str, mut times: Vec<Duration>) -> Duration {
    times.sort();
    let [p50, p99, most] = [50, 99, 100].map(|percent| percentile(&times, percent));
    let count = times.len();
    println!("{what}: {count} times, p50 {p50:.3?}, p99 {p99:.3?}, max {most:.3?}");
    p99
}

/// Who has held the Lease, without repetitions.
async fn holders(client: kube::Client, ends: &AtomicBool) -> Vec<String> {
    let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let mut holders = vec![];
    while !ends.load(Ordering::Relaxed) {
        if let Ok(lease) = leases.get("appwrapper-controller").await {
            holders.extend(lease.spec.and_then(|spec| spec.holder_identity));
            holders.dedup();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    holders
}

#[test]
#[ignore = "nightly: a benchmark of a quarter of an hour"]
fn a_quiet_tenant_beside_three_hostile_ones() {
    installed_test("a_quiet_tenant_beside_three_hostile_ones", async |case| {
        let count = setting("NOISY_OBJECTS", 2_000);
        let lasts = Duration::from_secs(60 * setting("NOISY_MINUTES", 10) as u64);
        let mut attackers = vec![];
        for number in 0..ATTACKERS {
            attackers.push(Attacker::new(&case, number).await);
        }
        LazyLock::force(&DEAREST); // it takes seconds, in which this process does nothing else
        let mut alone = Measured::default();
        for number in 0..ALONE {
            alone.take(&case, number).await;
        }
        let alone = alone.told("alone");
        let (before, refused, flooding, ends) = (
            INSTALLED.memory("VmRSS:"),
            AtomicUsize::new(0),
            AtomicUsize::new(ATTACKERS),
            AtomicBool::new(false),
        );
        let quiet = async {
            let (mut flood, mut beside) = (Measured::default(), Measured::default());
            let mut number = ALONE;
            let mut flooded = Instant::now();
            while flooded.elapsed() < lasts {
                let floods = flooding.load(Ordering::Relaxed) > 0;
                let took = if floods { &mut flood } else { &mut beside }.take(&case, number).await;
                if floods {
                    flooded = Instant::now();
                } else if took > 2 * alone {
                    println!("{:.0?}: {took:.3?}", flooded.elapsed());
                }
                number += 1;
                tokio::time::sleep(CREATE_EVERY).await;
            }
            ends.store(true, Ordering::Relaxed);
            flood.told("while they create");
            beside.told("beside them")
        };
        let began = Instant::now();
        let attack = stream::iter(&attackers).for_each_concurrent(None, |attacker| async {
            attacker.flood(count, &refused).await;
            println!("{}: all created after {:.0?}", attacker.namespace, began.elapsed());
            flooding.fetch_sub(1, Ordering::Relaxed);
            attacker.change(count, &ends).await;
        });
        let (beside, (), holders) =
            futures::join!(quiet, attack, holders(case.client.clone(), &ends));
        let most = INSTALLED.memory("VmHWM:");
        println!(
            "{ATTACKERS} × {count} objects, {} refused; resident {before} KiB before, {} KiB now, {most} KiB at most; \
             p99 {:.2} times that alone; the Lease was held by {holders:?}",
            refused.load(Ordering::Relaxed),
            INSTALLED.memory("VmRSS:"),
            beside.as_secs_f64() / alone.as_secs_f64(),
        );
        assert!(refused.load(Ordering::Relaxed) * 10 < ATTACKERS * count, "the attack was refused");
        assert_eq!(holders.len(), 1, "leadership changed");
        assert!(most < MEMORY_MAX_KIB, "{most} KiB");
    });
}
