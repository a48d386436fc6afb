//! How long one decision takes: with and without policies, over a gang of 1,000 pods.
//!
//! `cargo bench`

use std::sync::Arc;

use appwrapper::api::{Attempt, ComponentStatus, Phase, PodSet, RetryPolicySpec, Since, condition};
use appwrapper::config::Config;
use appwrapper::decide::{Facts, decide};
use appwrapper::plan::FreshRead;
use appwrapper::policies::{Named, Policies, RetryPolicy};
use appwrapper::snapshot::{
    Component, Container, ContainerState, End, Object, Outcome, Pod, PodPhase, Presence, Report,
    Snapshot, Termination,
};
use appwrapper::tuning::Limits;
use divan::{Bencher, black_box};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

const PODS: usize = 1_000;
const RULES: usize = 20;
const POLICIES: usize = 3;

fn main() {
    divan::main();
}

/// All pods run and no policy is set: what a decision costs most of the time.
#[divan::bench]
fn healthy(bencher: Bencher<'_, '_>) {
    run(bencher, &world(PodPhase::Running, false));
}

/// The same, with every policy set: none is asked while nothing fails.
#[divan::bench]
fn healthy_with_policies(bencher: Bencher<'_, '_>) {
    run(bencher, &world(PodPhase::Running, true));
}

/// Every pod failed, and no policy is set.
#[divan::bench]
fn failed(bencher: Bencher<'_, '_>) {
    run(bencher, &world(PodPhase::Failed, false));
}

/// Every pod failed, and only the last rule of the last policy matches.
#[divan::bench]
fn failed_with_policies(bencher: Bencher<'_, '_>) {
    let world = world(PodPhase::Failed, true);
    let decision = decide(world.facts());
    let rule = decision.verdict.rule.and_then(|rule| rule.name);
    assert_eq!(rule.as_deref(), Some("rule19"), "the last rule decides");
    run(bencher, &world);
}

fn run(bencher: Bencher<'_, '_>, world: &World) {
    bencher.bench(|| decide(black_box(world).facts()));
}

struct World {
    snapshot: Snapshot,
    limits: Limits,
    config: Config,
}

impl World {
    fn facts(&self) -> Facts<'_> {
        let Self { snapshot, limits, config } = self;
        let now = at(1_000);
        Facts { snapshot, limits, config, now, anchor: now }
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a moment")
}

fn world(phase: PodPhase, with_policies: bool) -> World {
    let config = Config::default();
    let (limits, _) = Limits::of(&[].into(), &config.fault_tolerance);
    let count = i32::try_from(PODS).expect("a small number");
    let pod_set = PodSet { replicas: Some(count), ..PodSet::default() };
    let mut snapshot = Snapshot {
        uid: "uid".into(),
        finalizer: true,
        answered: FreshRead::Gone,
        components: vec![component(&pod_set, phase)],
        pods: (0..PODS).map(|index| pod(index, phase)).collect(),
        ..Snapshot::default()
    };
    let status = &mut snapshot.status;
    status.phase = Phase::Running;
    status.attempts = vec![Attempt::default()];
    status.since = Some(Since { deployed: Some(Time(at(0))), ..Since::default() });
    status.component_status = vec![ComponentStatus {
        pod_sets: vec![pod_set],
        uid: Some("job".into()),
        ..ComponentStatus::default()
    }];
    for kind in [condition::QUOTA_RESERVED, condition::RESOURCES_DEPLOYED] {
        condition::set(&mut status.conditions, kind, true, "Bench", "", at(0));
    }
    if with_policies {
        let spec = serde_json::from_value(spec()).expect("a spec");
        let names = [Named { kind: "Job", name: "work", has_pods: true, parts: &[] }];
        snapshot.policies = Arc::new(Policies::of(&spec, &names));
        snapshot.retry.policies = (0..POLICIES).map(|number| Arc::new(policy(number))).collect();
    }
    World { snapshot, limits, config }
}

fn component(pod_set: &PodSet, phase: PodPhase) -> Component {
    let outcome = if phase == PodPhase::Failed {
        let (reason, message) = ("BackoffLimitExceeded".into(), "too often".into());
        Outcome::Failed { reason, message, at: Some(at(21)) }
    } else {
        Outcome::Active
    };
    Component {
        name: "work".into(),
        kind: "Job".into(),
        api_version: "batch/v1".into(),
        pod_sets: vec![pod_set.clone()],
        end: End::Reported,
        presence: Presence::Present(Object {
            uid: "job".into(),
            attempt: Some(0),
            report: Report { outcome, ..Report::default() },
            ..Object::default()
        }),
        ..Component::default()
    }
}

fn pod(index: usize, phase: PodPhase) -> Pod {
    let state = if phase == PodPhase::Failed {
        ContainerState::Terminated(Termination {
            exit_code: 7,
            reason: "Error".into(),
            message: "step 4711: the optimizer diverged".into(),
            finished_at: Some(at(20)),
            ..Termination::default()
        })
    } else {
        ContainerState::Running
    };
    Pod {
        name: format!("work-{index}"),
        uid: format!("pod-{index}"),
        component: Some(0),
        pod_set: Some(0),
        attempt: Some(0),
        node: Some(format!("node-{index}")),
        phase,
        containers: vec![Container { name: "main".into(), init: false, restartable: false, state }],
        ..Pod::default()
    }
}

/// Rules that look closely and do not match.
fn spec() -> Value {
    let failure = |i: usize| {
        let pattern = format!("quota of project {i} (is|was) exceeded");
        json!({"action": "FailAppWrapper", "onJobFailureMessagePatterns": [pattern]})
    };
    let pods = |i: usize| {
        let values: Vec<usize> = (100..200 + i).collect();
        json!({"action": "Ignore", "onExitCodes": {"operator": "In", "values": values}})
    };
    json!({
        "components": [],
        "failurePolicy": {"rules": (0..RULES).map(failure).collect::<Vec<_>>()},
        "podFailurePolicy": {"rules": (0..RULES).map(pods).collect::<Vec<_>>()},
    })
}

fn policy(number: usize) -> RetryPolicy {
    let rule = |i: usize| {
        let last = number + 1 == POLICIES && i + 1 == RULES;
        let pattern = if last { "diverged".into() } else { format!("CUDA error {number}{i}") };
        json!({"action": "Retry", "onTerminationMessage": {"pattern": pattern}})
    };
    let spec = json!({"rules": (0..RULES).map(rule).collect::<Vec<_>>()});
    let spec: RetryPolicySpec = serde_json::from_value(spec).expect("a spec");
    RetryPolicy::read(&format!("policy-{number}"), &spec).expect("a policy")
}
