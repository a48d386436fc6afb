//! What a world and its checks say of single facts, without a run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kube::client::Body;
use serde_json::{Value, json};
use tower::Service;

use super::actors::kueue::QUEUE;
use super::actors::{Env, is_true, nodes};
use super::checks::liveness::{self, EndScope};
use super::checks::{Scope, safety, suspicion, usage};
use super::explore::run_async;
use super::faults::Faults;
use super::oracle::{By, Oracle, State};
use super::replica::Told;
use super::scene::{Act, Scene};
use super::wire::Wire;
use super::{LABEL, LateCall, NAMESPACE, Options, World, moment};
use crate::sim::{Address, Change, Deletion, Part};

const API: &str = "workload.codeflare.dev/v1beta2";

/// A world with an AppWrapper of one pod, in which nothing has happened yet.
fn small_world() -> (World, Arc<str>, Address) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": []}});
    let wrapper = json!({"apiVersion": API, "kind": "AppWrapper",
        "metadata": {"name": "aw", "labels": {QUEUE: "lq"}},
        "spec": {"suspend": true, "components": [{"template": pod}]}});
    let quota = BTreeMap::from([("pods".to_owned(), 1000)]);
    let config = "{}".to_owned();
    let scene = Scene { objects: vec![wrapper], quota, config, ..Scene::default() };
    let world = World::of(Options::of(1, Faults::default()), scene);
    let (uid, wrapper) = world.oracle.wrappers.first_key_value().unwrap();
    let (uid, address) = (uid.clone(), wrapper.address.clone());
    (world, uid, address)
}

/// Creates a pod of the AppWrapper on a node.
fn add_pod(world: &mut World, uid: &str, name: &str) -> Address {
    let owner = json!({"apiVersion": API, "kind": "AppWrapper", "name": "aw", "uid": uid,
        "controller": true});
    let pod = json!({
        "metadata": {"name": name, "labels": {LABEL: "aw"}, "ownerReferences": [owner]},
        "spec": {"nodeName": "n", "containers": []},
    });
    let kind = world.store.kinds.by_name("v1", "Pod").unwrap();
    world.store.create(kind, NAMESPACE, pod).unwrap().address.clone()
}

/// Has the oracle take in what has changed, at this second.
fn note(world: &mut World, second: u64) {
    while let Some(change) = world.store.history().get(world.seen).cloned() {
        world.seen += 1;
        world.oracle.note(&world.store, &change, By::default(), Duration::from_secs(second));
    }
}

#[test]
fn more_pods_than_kueue_has_admitted_are_seen() {
    run_async(async {
        let (mut world, uid, address) = small_world();
        let (store, agenda) = (&mut world.store, &mut world.agenda);
        let mut env = Env { store, rng: &mut world.user_rng, agenda, elapsed: Duration::ZERO };
        world.kueue.act(&mut env, &address);
        for (name, want) in [("p", None), ("q", Some("S4"))] {
            add_pod(&mut world, &uid, name);
            note(&mut world, 0);
            world.check_admitted_pods(&uid);
            let found = world.violation.as_ref().map(|(violation, _)| violation.invariant);
            assert_eq!(found, want, "{name}");
        }
    });
}

#[test]
fn a_cache_that_differs_from_what_is_stored_is_seen() {
    let found = |world: &World| {
        let oracle = Oracle::default();
        let scope = EndScope {
            store: &world.store,
            oracle: &oracle,
            kueue: &world.kueue,
            leader: &world.replicas[0],
            rest: (0, 0),
            rested: true,
            elapsed: Duration::ZERO,
        };
        liveness::check(&scope).map(|violation| (violation.invariant, violation.seen))
    };
    let tell = |world: &mut World| {
        let change = world.store.history().last().unwrap().clone();
        world.replicas[0].tell(1, &Told::new(change.verb, change.object), Duration::ZERO);
    };
    run_async(async {
        let (mut world, uid, _) = small_world();
        let pod = add_pod(&mut world, &uid, "p");
        let now = Deletion { grace: Some(0), ..Deletion::default() };
        for (text, step) in [("not in the cache", 0), ("is Pending", 1), ("cache alone", 2)] {
            match step {
                1 => {
                    let run = |pod: &mut serde_json::Value| {
                        pod["status"]["phase"] = "Running".into();
                    };
                    world.store.change(&pod, Part::Status, run);
                }
                2 => drop(world.store.delete(&pod, &now)),
                _ => {}
            }
            let (invariant, seen) = found(&world).unwrap();
            assert!(invariant == "L8" && seen.contains(text), "{step}: {invariant} {seen}");
            tell(&mut world);
            assert_eq!(found(&world), None, "{step}");
        }
    });
}

#[test]
fn the_clock_of_a_process_that_ends_is_noted() {
    run_async(async {
        for crashes in [true, false] {
            let (mut world, uid, _) = small_world();
            let off = Duration::from_secs(100);
            world.replicas[0].clock.set(moment(off));
            if crashes {
                world.crash(0);
            } else {
                world.replicas[0].doubts = Some(0);
                world.grow_doubt(0);
            }
            assert_eq!(world.oracle.wrappers[&uid].skew(), off, "{crashes}");
        }
    });
}

#[test]
fn a_late_write_that_changes_nothing_excuses_nothing() {
    run_async(async {
        for (applies, want) in [(false, 0), (true, 50)] {
            let (mut world, uid, address) = small_world();
            let version = world.store.get(&address).unwrap().version - u64::from(!applies);
            let body = json!({
                "metadata": {"resourceVersion": version.to_string(), "uid": &*uid},
                "status": {"phase": "Suspended"},
            });
            let uri = format!("/apis/{API}/namespaces/{NAMESPACE}/appwrappers/aw/status");
            let request = Request::patch(uri)
                .header("content-type", "application/merge-patch+json")
                .body(Body::from(body.to_string().into_bytes()))
                .unwrap();
            let mut wire = Wire::default();
            let _answer = wire.call(request);
            let call = wire.take().unwrap();
            let (sent, off) = (Duration::ZERO, Duration::ZERO);
            world.elapsed = Duration::from_secs(50);
            world.late.push(LateCall { sent, off, at: world.elapsed, call });
            world.carry_out_late(0);
            let wrapper = &world.oracle.wrappers[&uid];
            let found = (wrapper.skew().as_secs(), wrapper.overtaken > 0);
            assert_eq!(found, (want, applies), "{applies}");
        }
    });
}

#[test]
fn a_pod_on_a_silent_node_fails_when_that_is_noticed() {
    run_async(async {
        let (mut world, uid, _) = small_world();
        world.add_node("n", 16);
        add_pod(&mut world, &uid, "p");
        note(&mut world, 0);
        let noticed = Duration::from_secs(50);
        nodes::silence(&mut world.store, "n", noticed);
        note(&mut world, 10);
        let kind = world.store.kinds.by_name("v1", "Node").unwrap();
        nodes::notice(&mut world.store, &Address::new(kind, "", "n"), noticed);
        note(&mut world, 50);
        assert_eq!(world.oracle.wrappers[&uid].failed_pod, Some(noticed));
    });
}

#[test]
fn a_node_that_returns_registers_with_its_status() {
    run_async(async {
        let (mut world, ..) = small_world();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        world.script.push(Act::Create(Box::new(node)));
        world.follow_script(0);
        let kind = world.store.kinds.by_name("v1", "Node").unwrap();
        let node = world.store.get(&Address::new(kind, "", "n")).unwrap();
        assert!(is_true(&node.value, "Ready"));
    });
}

/// What a check is asked about a change of the AppWrapper by the controller.
fn scope<'a>(
    world: &'a World,
    uid: &str,
    change: &'a Change,
    before: State,
    elapsed: Duration,
) -> Scope<'a> {
    Scope {
        store: &world.store,
        oracle: &world.oracle,
        change,
        wrapper: &world.oracle.wrappers[uid],
        before,
        ours: true,
        late: false,
        elapsed,
        prompt: true,
        slack: Duration::ZERO,
        dated_within: Duration::ZERO,
    }
}

/// Whether it is said to be too early that an AppWrapper restarts: in which phase, for which reason, and how many seconds
/// after its pod failed.
fn is_too_early(phase: &str, reason: &str, waited: u64) -> bool {
    let (mut world, uid, address) = small_world();
    world.store.change(&address, Part::Status, |it| it["status"]["phase"] = phase.into());
    note(&mut world, 0);
    let pod = add_pod(&mut world, &uid, "p");
    world.store.change(&pod, Part::Status, |pod| pod["status"]["phase"] = "Failed".into());
    note(&mut world, 10);
    // what the message says does not matter
    let message = "Pod/p: 0 of 1 pods are Ready in pod set 0-0; a later step waits for them";
    let status = json!({
        "phase": "Resetting",
        "conditions": [{"type": "Unhealthy", "status": "True", "reason": reason,
            "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "attempts": [{"attempt": 0, "action": "Restart", "failure": {"message": message}}],
    });
    world.store.change(&address, Part::Status, |it| it["status"] = status);
    let change = world.store.history()[world.seen].clone();
    let elapsed = Duration::from_secs(10 + waited);
    let noted = world.oracle.note(&world.store, &change, By::default(), elapsed);
    let scope = scope(&world, &uid, &change, noted.unwrap().1, elapsed);
    let sentence = "a failure takes effect only after its grace period";
    let check = safety::SAFETY.iter().find(|(_, known, _)| *known == sentence).unwrap().2;
    check(&scope).is_some()
}

#[test]
fn a_failure_waits_for_its_grace_period_in_resuming_too() {
    run_async(async {
        for (phase, reason, waited, want) in [
            ("Running", "FoundFailedPods", 59, true),
            ("Running", "FoundFailedPods", 60, false),
            ("Resuming", "FoundFailedPods", 59, true),
            ("Resuming", "FoundFailedPods", 60, false),
            ("Resuming", "CreateFailed", 0, false),
            ("Running", "InsufficientPodsReady", 59, true),
        ] {
            assert_eq!(is_too_early(phase, reason, waited), want, "{phase} {reason} {waited}");
        }
    });
}

/// The invariants of usage and suspicion that a status breaks in a cluster of so many nodes.
fn broken_by(nodes: usize, status: &Value) -> String {
    let (mut world, uid, address) = small_world();
    for index in 0..nodes {
        world.add_node(&format!("node-{index}"), 1);
    }
    note(&mut world, 0);
    world.store.change(&address, Part::Status, |it| it["status"] = status.clone());
    let change = world.store.history()[world.seen].clone();
    let noted = world.oracle.note(&world.store, &change, By::default(), Duration::ZERO);
    let scope = scope(&world, &uid, &change, noted.unwrap().1, Duration::ZERO);
    let all = usage::USAGE.iter().chain(suspicion::SUSPICION);
    let broken = all.filter(|(_, _, check)| check(&scope).is_some());
    broken.map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_ledger_is_checked_as_it_is_stored() {
    run_async(async {
        let begin = moment(Duration::ZERO).to_string();
        let condition =
            |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": begin});
        let conditions = json!([condition("QuotaReserved"), condition("PodsReady")]);
        for (seconds, of_attempt, want) in [
            (json!({}), 0, ""),
            (json!({"waiting": 5}), 0, "U1"),
            (json!({"waiting": -5}), 0, "U1"),
            (json!({"lost": 5, "idle": -5}), 0, "U2"),
            (json!({"productive": -5, "idle": 5}), -5, "U2"),
            (json!({}), 5, "U2"),
        ] {
            let usage = json!({"state": "productive", "since": begin, "seconds": seconds,
                "attemptProductiveSeconds": of_attempt});
            let status = json!({"phase": "Running", "conditions": conditions, "usage": usage});
            assert_eq!(broken_by(0, &status), want, "{usage}");
        }
    });
}

#[test]
fn more_suspect_nodes_than_a_twentieth_are_seen() {
    run_async(async {
        for (nodes, suspects, want) in [
            (0, 1, ""),
            (39, 1, ""),
            (39, 2, "N1"),
            (40, 2, ""),
            (40, 3, "N1"),
            (700, 32, ""),
            (700, 33, "N1"),
        ] {
            let names: Vec<String> = (0..suspects).map(|index| format!("node-{index}")).collect();
            let status = json!({"suspectNodes": {"effect": "Prefer", "hostnames": names}});
            assert_eq!(broken_by(nodes, &status), want, "{suspects} of {nodes}");
        }
    });
}
