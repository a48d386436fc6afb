//! How much memory the program takes as it is installed, and whether the limit of its manifest is enough.

use std::collections::BTreeSet;
use std::fs;

use futures::{StreamExt, stream};
use kube::runtime::watcher::{Config, Event, watcher};
use serde_json::{Value, json};

use crate::harness::{job, wrapper};
use crate::installed::{INSTALLED, installed_test};

/// How many AppWrappers there are, unless `MEMORY_APPWRAPPERS` says so; each has two pods.
const COUNT: usize = 3_000;
/// How many are created at a time.
const AT_A_TIME: usize = 8;

#[expect(clippy::disallowed_methods, reason = "how much is done is said from outside")]
fn count() -> usize {
    let given = std::env::var("MEMORY_APPWRAPPERS").ok();
    given.map_or(COUNT, |text| text.parse().expect("MEMORY_APPWRAPPERS is a number"))
}

/// The limit of the manifest, in KiB.
fn limit() -> u64 {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/manager/deployment.yaml");
    let text = fs::read_to_string(path).expect("the manifest is there");
    let deployment: Value = serde_saphyr::from_str(&text).expect("YAML");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let limit = container["resources"]["limits"]["memory"].as_str().expect("a limit");
    let mebibytes: u64 = limit.strip_suffix("Mi").expect("Mi").parse().expect("a number");
    mebibytes * 1024
}

#[test]
#[ignore = "nightly: creates 3,000 AppWrappers"]
fn the_limit_of_the_manifest_is_enough() {
    installed_test("the_limit_of_the_manifest_is_enough", async |case| {
        let count = count();
        let begin = INSTALLED.memory("VmRSS:");
        let mut events = Box::pin(watcher(case.wrappers(), Config::default()));
        let creation = stream::iter(0..count).for_each_concurrent(AT_A_TIME, |number| {
            let pods = json!({"parallelism": 2, "completions": 2});
            let template = job(&format!("job-{number}"), pods, &[("run-for", "20h")]);
            let object = wrapper(&format!("aw-{number}"), json!({}), vec![template]);
            let case = &case;
            async move { drop(case.create(object).await) }
        });
        let deployment = async {
            let mut running = BTreeSet::new();
            while running.len() < count {
                // a watch that ends is begun again
                let Some(Ok(Event::Apply(seen) | Event::InitApply(seen))) = events.next().await
                else {
                    continue;
                };
                if seen.data["status"]["phase"] == "Running" {
                    running.insert(seen.metadata.name);
                }
            }
        };
        futures::join!(creation, deployment);
        let (most, limit) = (INSTALLED.memory("VmHWM:"), limit());
        println!(
            "{count} AppWrappers: {begin} KiB before, {} KiB now, {most} KiB at most, {limit} KiB allowed",
            INSTALLED.memory("VmRSS:"),
        );
        assert!(most < limit, "{most} KiB of {limit}");
    });
}
