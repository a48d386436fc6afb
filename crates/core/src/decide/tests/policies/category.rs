//! Categories of failures: the administrator's first, then those built in.

use super::build::{container, failed, running, runs};
use crate::decide::tests::given::World;
use crate::snapshot::Pod;

/// The category that is recorded of a Job that failed with this pod.
fn category(world: &World) -> String {
    world.decide(25).verdict.failure.unwrap().category.unwrap()
}

fn job(pod: Pod) -> World {
    running(&["Job/work:1"]).with(pod).fails(0, "BackoffLimitExceeded", "", 25)
}

fn oom(second: i64) -> crate::snapshot::Container {
    container("side", 137, "OOMKilled", "", second)
}

#[test]
fn built_in_categories_are_tried_in_order() {
    let disrupted = |reason: &str| failed(0).condition("DisruptionTarget", "True", reason);
    let quiet = |pod: Pod| Pod { containers: vec![], ..pod };
    for (want, pod) in [
        ("oom", disrupted("EvictionByEvictionAPI").ended(oom(20))),
        ("evicted", disrupted("TerminationByKubelet")),
        ("evicted", failed(0).because("Evicted")),
        ("preempted", disrupted("PreemptionByScheduler")),
        ("deadline", failed(0).because("DeadlineExceeded")),
        ("image", quiet(failed(0)).waits("ImagePullBackOff")),
        ("image", failed(0).and(runs("x")).waits("ErrImagePull")),
        ("config", quiet(failed(0)).waits("CreateContainerConfigError")),
        ("node", disrupted("DeletionByPodGC")),
        ("node", quiet(failed(0)).because("NodeLost")),
        ("application", failed(0).code(1)),
        ("unknown", quiet(failed(0))),
        ("unknown", failed(0).code(0)),
    ] {
        assert_eq!(category(&job(pod.clone())), want, "{pod:?}");
    }
}

#[test]
fn a_category_is_judged_by_the_first_failed_container_init_containers_too() {
    let first = |code, second| container("main", code, "Error", "", second);
    for (want, pod) in [
        ("oom", failed(0).ended(first(1, 22)).and(oom(20))),
        ("application", failed(0).ended(first(1, 20)).and(oom(22))),
        ("oom", failed(0).ended(first(0, 10)).and(oom(20))),
        ("oom", failed(0).ended(runs("main")).and_init(oom(20))),
    ] {
        assert_eq!(category(&job(pod.clone())), want, "{pod:?}");
    }
}

#[test]
fn the_administrators_categories_come_first_in_their_order() {
    let config = "failureCategories:
  - {name: cuda_error, onTerminationMessage: {pattern: 'CUDA error'}}
  - {name: lost, onConditions: [Evicted, OOMKilled]}
  - {name: our_code, onExitCodes: {operator: In, values: [137, 9]}}
  - {name: never, onExitCodes: {operator: In, values: [9]}}";
    let said = |code, message: &str| failed(0).ended(container("main", code, "Error", message, 20));
    for (want, pod) in [
        ("cuda_error", said(9, "a CUDA error: 3")),
        ("lost", failed(0).ended(oom(20))),
        ("our_code", said(9, "")),
        ("our_code", said(137, "")),
        ("application", said(1, "")),
        ("lost", failed(0).code(0).because("Evicted")),
        ("preempted", failed(0).condition("DisruptionTarget", "True", "PreemptionByScheduler")),
    ] {
        assert_eq!(category(&job(pod.clone()).configured(config)), want, "{pod:?}");
    }
}

#[test]
fn a_configured_category_looks_at_the_first_failed_container_alone() {
    let config = "failureCategories:
  - {name: cuda_error, onTerminationMessage: {pattern: CUDA}}
  - {name: nine, onExitCodes: {operator: In, values: [9]}}
  - {name: memory, onConditions: [OOMKilled]}";
    let first = container("main", 1, "Error", "", 20);
    for second in [
        container("side", 1, "Error", "CUDA", 21),
        container("side", 9, "Error", "", 21),
        container("side", 137, "OOMKilled", "", 21),
    ] {
        let pod = failed(0).ended(first.clone()).and(second);
        assert_eq!(category(&job(pod).configured(config)), "application");
    }
}

#[test]
fn a_rule_matches_the_category_that_is_recorded() {
    let config = "failureCategories: [{name: cuda_error, onTerminationMessage: {pattern: CUDA}}]";
    let policy = "{rules: [\
                  {name: cuda, action: Retry, onFailureCategory: [cuda_error, infiniband_error]}, \
                  {name: rest, action: Retry, onFailureCategory: [application]}]}";
    let world = |message: &str| {
        let pod = failed(0).ended(container("main", 1, "Error", message, 20));
        job(pod).configured(config).retry_policy("p", policy)
    };
    assert_eq!(world("CUDA").says_at(25), "Restart retryPolicy/p/cuda#0 0 of 20");
    assert_eq!(world("x").says_at(25), "Restart retryPolicy/p/rest#1 0 of 20");
    assert_eq!(category(&world("CUDA")), "cuda_error");
}

#[test]
fn a_job_that_ran_for_too_long_is_of_the_category_deadline() {
    let of = |kind: &str, reason: &str| {
        let world = running(&[&format!("{kind}/work:1")]).with(failed(0));
        world.fails(0, reason, "", 25)
    };
    assert_eq!(category(&of("Job", "DeadlineExceeded")), "deadline");
    let set = of("JobSet", "FailedJobs").failed_job_of(0, "DeadlineExceeded", "");
    assert_eq!(category(&set), "deadline", "as a rule of a retry policy sees it");
}
