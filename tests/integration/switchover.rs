//! From the Go controller of the same API to this one, back, and again: what runs goes on running.
//!
//! Twenty AppWrappers in all phases under the one, then under the other; at each change all of them stay
//! as they are, and then each goes on as its phase says. The Go controller is the program itself, built
//! from its module.

mod fleet;
pub mod go;

use std::collections::BTreeMap;

use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use serde_json::Value;

use self::go::Go;
use crate::harness::{Case, runtime};
use crate::replicas::replica::Site;
use crate::replicas::{PLANE, alone};

/// Kinds of which the AppWrappers here are made.
const MADE: [(&str, &str); 4] =
    [("v1", "Pod"), ("batch/v1", "Job"), ("apps/v1", "Deployment"), ("v1", "ConfigMap")];
/// Label on all that an AppWrapper has made, under either controller.
const LABEL: &str = "workload.codeflare.dev/appwrapper";

/// What a change of controllers must leave as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    phase: String,
    restarts: i64,
    /// By UID: kind and name, and whether it is being deleted.
    things: BTreeMap<String, (String, bool)>,
}

impl State {
    /// That of all AppWrappers, by name.
    async fn of_all(case: &Case) -> BTreeMap<String, Self> {
        let mut all: BTreeMap<String, Self> = BTreeMap::new();
        for aw in list(&case.wrappers()).await {
            let status = &aw.data["status"];
            let state = Self {
                phase: status["phase"].as_str().unwrap_or_default().to_owned(),
                restarts: status["resettingCount"].as_i64().unwrap_or(0),
                things: BTreeMap::new(),
            };
            all.insert(aw.name_any(), state);
        }
        for (api_version, kind) in MADE {
            for thing in list(&case.api(api_version, kind)).await {
                let Some(state) = thing.labels().get(LABEL).and_then(|name| all.get_mut(name))
                else {
                    continue;
                };
                let name = format!("{kind}/{}", thing.name_any());
                let ends = thing.metadata.deletion_timestamp.is_some();
                state.things.insert(thing.uid().unwrap_or_default(), (name, ends));
            }
        }
        all
    }
}

async fn list(api: &Api<DynamicObject>) -> Vec<DynamicObject> {
    api.list(&ListParams::default()).await.expect("they can be listed").items
}

/// Whatever is stored in the statuses, to tell what a change of controllers did to them.
async fn statuses(case: &Case) -> BTreeMap<String, Value> {
    let all = list(&case.wrappers()).await.into_iter();
    all.map(|mut aw| (aw.name_any(), aw.data["status"].take())).collect()
}

/// Has another controller start, and sees that it changes nothing.
#[expect(clippy::print_stdout, reason = "what is written anew is no fault, and worth a look")]
async fn taken_over<T>(case: &Case, who: &str, start: impl Future<Output = T>) -> T {
    let (before, said) = (State::of_all(case).await, statuses(case).await);
    let started = start.await;
    // it has looked at what was there before, since that came first
    case.others_go_on(who).await;
    let mut after = State::of_all(case).await;
    after.remove(who);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (name, state) in &before {
        assert_eq!(state, &after[name], "{name}, {who}\n{}", case.story());
    }
    for (name, status) in statuses(case).await {
        let Some(old) = said.get(&name).filter(|old| **old != status) else { continue };
        for (key, now) in status.as_object().into_iter().flatten() {
            if old[key] != *now {
                println!("{who} {name} {key}: {} → {now}", old[key]);
            }
        }
    }
    started
}

#[test]
#[ignore = "nightly: runs the Go controller for minutes"]
fn what_runs_goes_on_from_the_go_controller_to_this_one_and_back_and_again() {
    let _alone = alone();
    runtime().block_on(async {
        let case = Case::new(PLANE.client(), "switchover").await;
        case.record("batch/v1", "Job").await;
        let site = Site {
            namespace: case.namespace.clone(),
            // the defaults: fifty AppWrappers at once keep a slow machine busy
            times: "leaseDuration: 15s".to_owned(),
            settings: String::new(),
        };
        let ours = async || {
            let replica = site.start().await;
            replica.leads().await;
            replica
        };
        let go = Go::start(&case).await;
        fleet::bring(&case, "a").await;
        go.stop().await;

        let mut replica = taken_over(&case, "ours", ours()).await;
        fleet::go_on(&case, "a").await;
        fleet::bring(&case, "b").await;
        replica.signal("TERM");
        assert_eq!(replica.ended().await.code(), Some(0));

        let go = taken_over(&case, "go-again", Go::start(&case)).await;
        fleet::go_on(&case, "b").await;
        fleet::bring(&case, "c").await;
        go.stop().await;

        let _replica = taken_over(&case, "ours-again", ours()).await;
        fleet::go_on(&case, "c").await;
        fleet::is_looked_after(&case, "b").await;
        let all = State::of_all(&case).await;
        for name in all.keys() {
            case.delete_wrapper(name).await;
        }
        for name in all.keys() {
            case.gone("AppWrapper", name).await;
        }
        assert!(list(&case.api("v1", "Pod")).await.is_empty(), "nothing is left");
    });
}
