//! Statuses that nobody should have written, from the stored object to the decision.

mod calls;
mod deleted_objects;
mod overtaken;
mod passing;
mod refused;

use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::act::delete::How;
use crate::api::{Phase, PodSet, condition};
use crate::config::Config;
use crate::decide::{Decision, Facts, decide};
use crate::observe::assemble::Wrapper;
use crate::observe::memory::ReconcileState;
use crate::observe::raw_object::RawObject;
use crate::plan::{Action, FreshRead};
use crate::snapshot::{Component, Object, Pod, PodPhase, Presence};
use crate::tuning::Limits;

const FAR: &str = "9999-12-31T23:59:59Z";
const PAST: &str = "2027-01-15T08:00:00Z";

/// A life played through: one Job with one pod, of attempt 3.
struct Play {
    object: Value,
    exists: bool,
    deleted: bool,
    second: i64,
    created: bool,
    events: Vec<String>,
}

impl Play {
    fn of(status: &Value, suspend: bool, deleting: bool) -> Self {
        let template = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
            "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}},
        });
        let mut metadata = json!({
            "name": "aw", "namespace": "ns", "uid": "uid", "resourceVersion": "1",
            "finalizers": ["workload.codeflare.dev/finalizer"],
        });
        if deleting {
            metadata["deletionTimestamp"] = PAST.into();
        }
        let spec = json!({"suspend": suspend, "components": [{"template": template}]});
        let object = json!({"metadata": metadata, "spec": spec, "status": status});
        Self { object, exists: true, deleted: false, second: 0, created: false, events: vec![] }
    }

    fn wrapper(&self) -> Wrapper {
        let seen: RawObject = serde_json::from_str(&self.object.to_string()).unwrap();
        Wrapper::read(&seen).unwrap()
    }

    fn decide(&self, wrapper: &Wrapper, ask: FreshRead) -> Decision {
        let mut snapshot = wrapper.snapshot();
        snapshot.components.clone_from(&wrapper.components);
        snapshot.answered = ask;
        let absent = if ask == FreshRead::Nothing { Presence::Unseen } else { Presence::Absent };
        snapshot.components[0].presence = absent;
        if self.exists {
            let object = Object { uid: "job".into(), attempt: Some(3), ..Object::default() };
            snapshot.components[0].presence = Presence::Present(object);
            snapshot.pods = vec![Pod {
                name: "j-0".into(),
                uid: "pod".into(),
                component: Some(0),
                pod_set: Some(0),
                attempt: Some(3),
                phase: PodPhase::Running,
                ..Pod::default()
            }];
        }
        let config = Config::default();
        let (limits, _) = Limits::of(&wrapper.annotations, &config.fault_tolerance);
        let now = Timestamp::from_second(1_800_000_000 + self.second).unwrap();
        decide(Facts { snapshot: &snapshot, limits: &limits, config: &config, now, anchor: now })
    }

    /// One look, as the controller makes it; whether it is to look again.
    fn look(&mut self) -> bool {
        let mut ask = FreshRead::Nothing;
        let wrapper = self.wrapper();
        let mut decision = self.decide(&wrapper, ask);
        while decision.ask != FreshRead::Nothing {
            assert!(decision.ask > ask, "asked for what was answered");
            ask = decision.ask;
            decision = self.decide(&wrapper, ask);
        }
        if decision.status != wrapper.status || !wrapper.flaws.is_empty() {
            self.events.extend(decision.events.into_iter().map(|event| event.message));
            self.object["status"] = serde_json::to_value(&decision.status).unwrap();
            return true;
        }
        for action in &decision.actions {
            match action {
                Action::Delete(_) | Action::ForceDelete(_) => self.exists = false,
                Action::RemoveFinalizer => self.deleted = true,
                Action::Create(_) => {
                    (self.created, self.exists) = (true, true);
                }
                Action::AddFinalizer
                | Action::GrowMemory { .. }
                | Action::DeletePod { .. }
                | Action::ForceDeletePod { .. }
                | Action::DeleteOrphan(_)
                | Action::SwitchWorkload { .. }
                | Action::Suspend => {}
            }
        }
        if decision.actions.is_empty() {
            let Some(at) = decision.requeue else { return false };
            self.second = (at.as_second() - 1_800_000_000).max(self.second);
        }
        !self.deleted
    }

    fn run(&mut self) {
        for _ in 0..30 {
            if !self.look() {
                return;
            }
        }
    }
}

fn running() -> Value {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Resuming", "message": "",
            "lastTransitionTime": PAST})
    };
    json!({
        "phase": "Running",
        "conditions": [condition("QuotaReserved"), condition("ResourcesDeployed")],
        "componentStatus": [{"name": "j", "kind": "Job", "apiVersion": "batch/v1", "uid": "job",
            "podSets": [{"path": "template.spec.template", "replicas": 1}]}],
        "attempts": [{"attempt": 3, "startedAt": PAST}],
        "since": {"deployed": PAST},
    })
}

#[test]
fn what_is_written_in_an_attempt_of_another_process_begins_none() {
    let in_phase = |phase: &str| {
        let mut status = running();
        status["phase"] = phase.into();
        Play::of(&status, false, false)
    };
    let resuming = in_phase("Resuming");
    let written: RawObject = serde_json::from_str(&resuming.object.to_string()).unwrap();
    let status = resuming.wrapper().status;
    let decision = Decision { next: Phase::Resuming, status, ..Decision::default() };
    for (before, begun_before) in [("Suspended", false), ("Resetting", false), ("Resuming", true)] {
        let mut memory = ReconcileState::default();
        memory.focus("uid", 3);
        let stored = in_phase(before).wrapper();
        let newer = super::attempt_begun(&mut memory, &stored, &written, &decision);
        assert!(newer.is_some(), "{before}");
        assert_eq!(memory.begun_before, begun_before, "{before}");
    }
}

/// Statuses of which something cannot be read, or cannot be true.
fn garbage() -> Vec<(&'static str, Value)> {
    let condition = |time: &str| json!([{"type": "QuotaReserved", "status": "True", "reason": "R", "message": "", "lastTransitionTime": time}]);
    vec![
        ("phase", json!("Hibernating")),
        ("phase", json!("running")),
        ("phase", json!(7)),
        ("phase", json!({"a": 1})),
        ("phase", json!("x".repeat(100_000))),
        ("phase", json!("")),
        ("phase", json!("Terminating")),
        ("retryAfter", json!(FAR)),
        ("retryAfter", json!("0001-01-01T00:00:00Z")),
        ("retryAfter", json!("soon")),
        ("conditions", condition(FAR)),
        ("conditions", condition("yesterday")),
        ("conditions", json!("none")),
        ("conditions", json!([5, {"type": "QuotaReserved"}])),
        ("resettingCount", json!(-2_147_483_648_i64)),
        ("resettingCount", json!(-1)),
        ("resettingCount", json!(99_999_999_999_u64)),
        ("resettingCount", json!("3")),
        ("attempts", json!([{"attempt": -1}])),
        ("attempts", json!([{"attempt": "3"}])),
        ("attempts", json!([{"attempt": 3, "startedAt": FAR, "outcome": "Exploded"}])),
        ("attempts", json!(vec![json!({"attempt": 3}); 5000])),
        ("componentStatus", json!([7])),
        (
            "componentStatus",
            json!([{"name": "victim", "kind": "ConfigMap", "apiVersion": "v1", "uid": "job"}]),
        ),
        (
            "componentStatus",
            json!([{"name": "j", "kind": "Job", "apiVersion": "batch/v1", "podSets": 1}]),
        ),
        ("componentStatus", json!([{"name": "j", "conditions": [{"type": "Succeeded"}]}])),
        ("since", json!({"deployed": FAR, "deleting": 5})),
        ("since", json!(["2026"])),
        ("since", json!({"podSets": [{"podSet": 0, "ready": "yes", "since": FAR}]})),
        ("retryCounts", json!([{"policy": "p", "rule": "r", "count": -5}])),
        ("retryCounts", json!({"p": 1})),
        ("avoidNodes", json!(vec!["node"; 10_000])),
        ("avoidNodes", json!([{"a": 1}, "a b\u{1b}"])),
        (
            "pendingMemory",
            json!([{"component": 0, "podSet": 0, "container": "main", "request": "999Ei"}]),
        ),
        ("pendingMemory", json!([{"component": -1, "podSet": 99, "container": 5}])),
    ]
}

fn damaged() -> impl Iterator<Item = (String, Value)> {
    garbage().into_iter().map(|(field, value)| {
        let mut status = running();
        let shown: String = value.to_string().chars().take(80).collect();
        status[field] = value;
        (format!("{field}: {shown}"), status)
    })
}

#[test]
fn no_status_stops_a_deletion() {
    for (what, status) in damaged() {
        let mut play = Play::of(&status, false, true);
        play.run();
        assert!(play.deleted && !play.exists, "{what}: {}", play.object["status"]);
        assert!(!play.created, "{what}");
    }
}

#[test]
fn no_status_stops_a_suspension() {
    for (what, status) in damaged() {
        let mut play = Play::of(&status, true, false);
        play.run();
        let wrapper = play.wrapper();
        assert_eq!(wrapper.status.phase, Phase::Suspended, "{what}");
        assert!(!play.exists && !play.created, "{what}");
        let conditions = &wrapper.status.conditions;
        for kind in [condition::QUOTA_RESERVED, condition::RESOURCES_DEPLOYED] {
            assert!(condition::find(conditions, kind).is_some(), "{what}");
            assert!(!condition::is_true(conditions, kind), "{what}");
        }
    }
}

#[test]
fn what_runs_goes_on_and_nothing_comes_beside_it() {
    for (what, status) in damaged() {
        let mut play = Play::of(&status, false, false);
        play.run();
        let wrapper = play.wrapper();
        assert_eq!(wrapper.status.phase, Phase::Running, "{what}: {}", play.object["status"]);
        assert!(play.exists && !play.created, "{what}");
        assert!(wrapper.flaws.is_empty(), "{what}: {:?}", wrapper.flaws);
        assert_eq!(wrapper.status.attempts.last().map(|last| last.attempt), Some(3), "{what}");
        let quota = condition::is_true(&wrapper.status.conditions, condition::QUOTA_RESERVED);
        assert!(quota, "{what}");
        assert!(!play.events.is_empty(), "{what}: nobody was told");
    }
}

#[test]
fn everything_damaged_at_once_still_goes_on() {
    let mut status = json!({});
    for (field, value) in garbage() {
        status[field] = value;
    }
    status["phase"] = "Hibernating".into();
    for (suspend, deleting) in [(false, false), (true, false), (false, true)] {
        let mut play = Play::of(&status, suspend, deleting);
        play.run();
        let phase = play.wrapper().status.phase;
        assert!(!play.created);
        match (suspend, deleting) {
            (_, true) => assert!(play.deleted && !play.exists),
            (true, _) => assert!(phase == Phase::Suspended && !play.exists),
            (false, false) => assert!(phase == Phase::Running && play.exists, "{phase}"),
        }
    }
}

/// Any JSON at all.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(Value::from(FAR)),
        Just(Value::from(PAST)),
        Just(Value::from("True")),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let keys = vec![
            "type",
            "status",
            "reason",
            "message",
            "lastTransitionTime",
            "attempt",
            "action",
            "uid",
            "name",
            "conditions",
            "podSets",
            "deleting",
            "gone",
            "deployed",
            "podSet",
            "since",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(keys), inner, 0..7).prop_map(|map| {
                Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

prop_compose! {
    fn any_status()(
        fields in prop::collection::btree_map(
            prop::sample::select(vec![
                "conditions", "componentStatus", "attempts", "retryCounts", "retryAfter", "since",
                "avoidNodes", "pendingMemory", "resettingCount", "phase",
            ]),
            any_json(),
            0..10,
        ),
        phase in prop::option::of(prop::sample::select(Phase::ALL.to_vec())),
    ) -> Value {
        let mut status = json!({});
        for (field, value) in fields {
            status[field] = value;
        }
        if let Some(phase) = phase {
            status["phase"] = phase.as_str().into();
        }
        status
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_status_a_deletion_ends(status in any_status(), suspend in any::<bool>()) {
        let mut play = Play::of(&status, suspend, true);
        play.run();
        prop_assert!(play.deleted && !play.exists && !play.created, "{}", play.object["status"]);
    }

    #[test]
    fn whatever_the_status_a_suspension_deletes_everything(status in any_status()) {
        let mut play = Play::of(&status, true, false);
        play.run();
        let phase = play.wrapper().status.phase;
        prop_assert!(!play.created);
        prop_assert!(!play.exists || phase == Phase::Succeeded, "{}", play.object["status"]);
    }
}

#[test]
fn a_component_goes_last_unless_its_controller_goes_on_until_then() {
    for (api_version, kind, want) in [
        ("batch/v1", "Job", [How::Graceful, How::Forced]),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", [How::GracefulLast, How::ForcedLast]),
        ("ray.io/v1", "RayJob", [How::GracefulLast, How::ForcedLast]),
        ("ray.io/v1", "RayService", [How::Graceful, How::Forced]),
        ("ray.io/v1alpha1", "RayService", [How::Graceful, How::Forced]),
        ("ray.io/v1alpha1", "RayJob", [How::GracefulLast, How::ForcedLast]),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob", [How::Graceful, How::Forced]),
        // the MPI Operator runs the launcher in a Job
        ("kubeflow.org/v2beta1", "MPIJob", [How::GracefulLast, How::ForcedLast]),
        ("kubeflow.org/v1", "MPIJob", [How::Graceful, How::Forced]),
    ] {
        let component = Component {
            api_version: api_version.into(),
            kind: kind.into(),
            pod_sets: vec![PodSet::default()],
            ..Component::default()
        };
        let found = [false, true].map(|forced| super::deletion::how_to_delete(&component, forced));
        assert_eq!(found, want.map(Some), "{api_version} {kind}");
    }
}
