//! What pods say, and what their components count and say of them.

use super::build::{check, failed, running};
use crate::api::{Phase, condition, keys};
use crate::decide::tests::given::at;
use crate::snapshot::{End, Outcome, Pod, PodPhase};

const COUNTED: &str = "Restart retryLimit 0 of 3";

#[test]
fn a_failed_pod_that_its_job_has_marked_counts_once() {
    let retries = "{rules: [{name: r, action: Retry, onExitCodes: {operator: In, values: [1]}}]}";
    let job = |marked| {
        let world = (0..4).fold(running(&["Job/work:8"]), |world, number| {
            let name = format!("work-{number}");
            let finalizers = vec![keys::JOB_TRACKING.to_owned()];
            world.with(Pod { uid: name.clone(), name, finalizers, ..failed(0).code(1) })
        });
        let world = world.backoff(0, 6, 4).object_of(0, |object| {
            object.report.backoff.values_mut().for_each(|limit| limit.marked = marked);
        });
        world.retry_policy("p", retries)
    };
    check(vec![
        ("the Job has marked them", job(4), 20, "Wait 80"),
        ("it has counted others", job(0), 20, "Restart retryPolicy/p/r#0 0 of 20"),
    ]);
}

#[test]
fn a_component_whose_pods_keep_failing_gets_no_more_time_to_speak() {
    let rule = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts, \
                onJobFailureReasons: [PodFailurePolicy]}]}";
    let world = || {
        let second = Pod { name: "b-1".into(), uid: "b-1".into(), ..failed(1).at(28) };
        let world = running(&["Job/a:1", "JobSet/b:2"]).with(failed(1).at(20)).with(second);
        let world = world.object_of(1, |object| _ = object.report.perhaps_unreplaced.insert(0));
        world.fails(0, "BackoffLimitExceeded", "", 20).spec(rule)
    };
    check(vec![
        ("it may still say why", world(), 29, "Wait 30"),
        ("it has not said why", world(), 30, COUNTED),
    ]);
}

#[test]
fn what_failed_first_is_asked_about_first_also_where_it_speaks_later() {
    let rule = "failurePolicy: {rules: [{action: FailAppWrapper, \
                onJobFailureReasons: [BackoffLimitExceeded]}]}";
    let world = |second| {
        let world = running(&["Job/a:1", "JobSet/b:2"]).with(failed(0).at(20));
        let world = world.with(failed(1).at(second));
        let world = world.object_of(1, |object| _ = object.report.perhaps_unreplaced.insert(0));
        world.fails(0, "BackoffLimitExceeded", "", 20).spec(rule)
    };
    check(vec![
        ("the other has failed before", world(18), 27, "Wait 28"),
        ("it has said nothing", world(18), 28, "Fail failurePolicy/failurePolicyRule0#0"),
        ("the other has failed later", world(21), 22, "Fail failurePolicy/failurePolicyRule0#0"),
    ]);
}

#[test]
fn pods_tell_of_success_only_where_nothing_is_known_of_their_kind() {
    for (end, requested, want) in [
        (End::Unknown, None, true),
        (End::Unknown, Some(21), true),
        (End::Unknown, Some(20), false),
        (End::Never, None, false),
        (End::Reported, None, false),
    ] {
        let pod = Pod {
            phase: PodPhase::Succeeded,
            terminating: requested.is_some(),
            deletion_requested: requested.map(at),
            ..failed(0).code(0).at(20)
        };
        let world = running(&["Thing/work:1"]).with(pod);
        let decision = world.component(0, |component| component.end = end).decide(22);
        let conditions = &decision.status.component_status[0].conditions;
        let has_succeeded = condition::is_true(conditions, condition::COMPONENT_SUCCEEDED);
        assert_eq!(has_succeeded, want, "{end:?} {requested:?}");
    }
}

#[test]
fn a_component_of_an_unknown_kind_that_declares_no_pods_has_succeeded() {
    let world = running(&["Thing/idle:1", "ConfigMap/settings:0", "Job/work:1"]);
    let mut world = world.succeeds(2).component(0, |component| {
        component.end = End::Unknown;
        component.pod_sets[0].replicas = Some(0);
    });
    world.snapshot.status.component_status[0].pod_sets[0].replicas = Some(0);
    let decision = world.decide(22);
    assert_eq!(decision.next, Phase::Succeeded, "{:?}", decision.verdict);
    let recorded = &decision.status.component_status[1].conditions;
    assert!(!condition::is_true(recorded, condition::COMPONENT_SUCCEEDED), "it has no pods");
}

#[test]
fn an_app_wrapper_of_which_no_component_has_pods_does_not_succeed() {
    for (end, outcome, want) in [
        (End::Unknown, Outcome::Active, Phase::Running),
        (End::Reported, Outcome::Active, Phase::Running),
        (End::Reported, Outcome::Succeeded, Phase::Succeeded),
    ] {
        let mut world = running(&["Thing/idle:1"]).component(0, |component| {
            component.end = end;
            component.pod_sets[0].replicas = Some(0);
        });
        world.snapshot.status.component_status[0].pod_sets[0].replicas = Some(0);
        let world = world.says(outcome.clone());
        assert_eq!(world.decide(22).next, want, "{end:?} {outcome:?}");
    }
}
