//! The facts of one failure, told in every order: one verdict.

use proptest::prelude::*;

use super::build::{failed, ready, running};
use super::laws::config;
use super::laws::worlds::{pods, retry_policy, spec};
use crate::api::AttemptAction;
use crate::decide::Facts;
use crate::decide::VerdictAction::{self, Handle};
use crate::decide::orders::{Told, dispute, orders};
use crate::decide::tests::given::{World, at};
use crate::plan::FreshRead;
use crate::snapshot::lost::Lost;
use crate::snapshot::{Pod, PodPhase};

/// What is decided about the facts of a world in every order.
fn told(world: &World, second: i64) -> Vec<Told> {
    let World { snapshot, limits, config } = world;
    let now = at(second);
    orders(Facts { snapshot, limits, config, now, anchor: now })
}

const FREE: &str = "failurePolicy: {rules: [{name: f, action: RestartAppWrapperAndIgnoreMaxRestarts, \
                    onJobFailureReasons: [BackoffLimitExceeded]}]}";
const FAIL: &str = "{rules: [{name: r, action: Fail, onExitCodes: {operator: In, values: [1]}}]}";

/// A Job of one pod and no retries: the pod fails at second 20, and the Job at 21.
fn failed_job() -> World {
    running(&["Job/work:1"]).with(failed(0)).backoff(0, 0, 1).fails(
        0,
        "BackoffLimitExceeded",
        "",
        21,
    )
}

/// The same of a pod that was deleted in the second in which it failed.
fn deleted() -> World {
    failed_job().pod(0, |pod| {
        (pod.terminating, pod.deletion_requested) = (true, Some(at(20)));
    })
}

/// The same of a pod that was evicted: the Job had replaced it while it was Terminating, and it runs.
fn evicted() -> World {
    let rule = "podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}";
    let world = failed_job().spec(rule).with(Pod { created: Some(at(15)), ..ready(0) });
    world.pod(0, |pod| {
        let evicted = pod.clone().condition("DisruptionTarget", "True", "EvictionByEvictionAPI");
        *pod = Pod { terminating: true, deletion_requested: Some(at(14)), ..evicted };
    })
}

/// The verdicts of a world, each once: action and source.
fn verdicts(all: &[Told]) -> Vec<(VerdictAction, String)> {
    let source = |one: &Told| one.rule.as_ref().map(|rule| rule.source.to_string());
    let mut all: Vec<_> =
        all.iter().map(|one| (one.action, source(one).unwrap_or_default())).collect();
    all.dedup();
    all
}

#[test]
fn there_is_one_verdict_whatever_comes_first() {
    let free = (Handle(AttemptAction::RestartIgnoringLimit), "failurePolicy".to_owned());
    let policy = (Handle(AttemptAction::Fail), "retryPolicy".to_owned());
    let counted = (Handle(AttemptAction::Restart), "retryLimit".to_owned());
    let ignored = (Handle(AttemptAction::RestartIgnoringLimit), "podFailurePolicy".to_owned());
    let with_node = |state| failed_job().loses_node(state, 22);
    let late = running(&["Job/work:1"]).with(ready(0)).fails(0, "BackoffLimitExceeded", "", 21);
    let late = late.loses_node(Lost::Deleted, 22).spec(FREE);
    let late =
        late.retry_policy("p", "{rules: [{name: lost, action: Fail, onConditions: [NodeLost]}]}");
    let rows: Vec<(&str, World, _)> = vec![
        ("the Job's own rule", failed_job().spec(FREE).retry_policy("p", FAIL), &free),
        ("… and the pod is deleted at once", deleted().spec(FREE).retry_policy("p", FAIL), &free),
        ("a RetryPolicy", failed_job().retry_policy("p", FAIL), &policy),
        ("no policy", failed_job(), &counted),
        (
            "an overriding one",
            failed_job().spec(FREE).overriding("p", &format!("{{override: true, {}", &FAIL[1..])),
            &policy,
        ),
        ("and its node is lost", with_node(Lost::Unreachable).spec(FREE), &free),
        ("… for good", with_node(Lost::Deleted).spec(FREE).retry_policy("p", FAIL), &free),
        ("the node of a pod that runs is lost after its Job has failed", late, &free),
        ("a replacement was there before the pod ended", evicted(), &ignored),
    ];
    for (what, world, want) in rows {
        let all = told(&world, 30);
        assert!(all.len() > 1, "{what}: {all:#?}");
        assert_eq!(dispute(&all), None, "{what}");
        assert_eq!(verdicts(&all), std::slice::from_ref(want), "{what}: {all:#?}");
    }
}

#[test]
fn other_facts_are_not_taken_apart() {
    let old = failed_job().spec(FREE);
    let of_two = running(&["Job/a:1", "Job/b:1"]).with(failed(0)).with(failed(1));
    let late = old.clone().pod(0, |pod| pod.created = Some(at(20)));
    let undated = old.clone().pod(0, |pod| pod.containers.clear());
    let alone = running(&["Job/work:1"]).with(failed(0));
    let ill = running(&["Job/work:2"]).with(failed(0)).fails(0, "BackoffLimitExceeded", "", 21);
    for (what, world) in [
        ("of two components", of_two),
        ("a pod that came later", late),
        ("nothing tells when", undated),
        ("one fact has one order", alone),
        ("a pod was missing before", ill),
    ] {
        assert_eq!(told(&world, 30), [], "{what}");
    }
}

#[cfg(feature = "mutations")]
#[test]
fn an_order_that_decides_otherwise_is_told() {
    use crate::mutations::{Mutation, put};
    let world = failed_job().spec(FREE).retry_policy("p", FAIL);
    put(Some(Mutation::OwnerUnheard));
    let told = dispute(&told(&world, 30));
    put(None);
    let told = told.expect("a dispute");
    assert!(
        told.contains("rule r of RetryPolicy p") && told.contains("rule f of failurePolicy"),
        "{told}"
    );
}

/// A pod of a Job that never replaces it; the Job says so; perhaps the node is lost, and perhaps another pod fails,
/// by itself or because the Job deletes it. Perhaps some exit codes are retryable alone.
fn failure() -> impl Strategy<Value = World> {
    let pod = || pods().prop_filter("it failed", |pod| pod.phase == PodPhase::Failed);
    let node = prop::option::of((prop::sample::select(Lost::ALL.to_vec()), 600_i64..604));
    let two = prop::option::of((pod(), 0_i64..9, any::<bool>()));
    let retryable = prop::option::of(0..4_i32);
    (pod(), two, 0_i64..9, node, retryable).prop_map(|(one, two, wait, node, retryable)| {
        let pod = |pod: Pod, second| {
            let pod = pod.at(second);
            Pod { component: Some(0), pod_set: Some(0), created: Some(at(0)), ..pod }
        };
        let count = 1 + i64::from(two.is_some());
        let mut world =
            running(&[if two.is_some() { "Job/a:2" } else { "Job/a:1" }, "Job/b:1", "Job/c:1"]);
        world = world.with(pod(one, 600));
        if let Some((two, later, is_deleted)) = two {
            let two = pod(two, 600 + later);
            let requested = Some(at(600 + later / 2)).filter(|_| is_deleted);
            let terminating = is_deleted;
            world = world.with(Pod { terminating, deletion_requested: requested, ..two });
        }
        world = world.with(ready(1)).with(ready(2)).backoff(0, 0, count);
        world = world.fails(0, "BackoffLimitExceeded", "mm", 600 + wait);
        world = world.limits(|limits| limits.retryable_exit_codes.extend(retryable));
        match node {
            Some((lost, second)) => world.loses_node(lost, second),
            None => world,
        }
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_order_of_events_changes_no_verdict(
        world in failure(),
        spec in spec(),
        retry in prop::collection::vec(retry_policy(), 0..3),
    ) {
        let mut world = world.with_spec(spec).answered(FreshRead::Gone);
        for (policy, index) in retry.iter().zip(0..) {
            world = world.with_retry_policy(&format!("p{index}"), policy.clone());
        }
        let all = told(&world, 620);
        prop_assert_eq!(dispute(&all), None, "{:#?}", all);
    }
}
