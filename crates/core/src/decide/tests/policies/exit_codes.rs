//! Stage 3: the annotations `terminalExitCodes` and `retryableExitCodes`.

use super::build::{check, container, failed, ready, running};
use crate::api::keys;
use crate::decide::tests::given::{World, at};
use crate::snapshot::Pod;

const FAILS: &str = "Fail exitCodeAnnotation";
const COUNTED: &str = "Restart retryLimit 0 of 3";

fn terminal(codes: &[i32]) -> World {
    let codes = codes.iter().copied().collect();
    running(&["Job/work:2"]).limits(|limits| limits.terminal_exit_codes = codes)
}

fn retryable(codes: &[i32]) -> World {
    let codes = codes.iter().copied().collect();
    running(&["Job/work:2"]).limits(|limits| limits.retryable_exit_codes = codes)
}

#[test]
fn a_terminal_code_and_one_that_is_not_retryable_fail_at_once() {
    let pod = |code| failed(0).code(code);
    check(vec![
        ("terminal", terminal(&[3]).with(pod(3)), 20, FAILS),
        ("not terminal", terminal(&[3]).with(pod(4)), 80, COUNTED),
        ("retryable", retryable(&[3]).with(pod(3)), 80, COUNTED),
        ("… waits for its grace", retryable(&[3]).with(pod(3)), 20, "Wait 80"),
        ("not retryable", retryable(&[3]).with(pod(4)), 20, FAILS),
    ]);
}

#[test]
fn the_message_names_the_annotation_that_decided() {
    for (world, want) in [
        (terminal(&[7]), "exit code 7 is listed in annotation terminalExitCodes"),
        (retryable(&[3]), "exit code 7 is not listed in annotation retryableExitCodes"),
    ] {
        let message = world.with(failed(0).code(7)).decide(20).verdict.message;
        let message = message.replace(keys::ANNOTATION_PREFIX, "");
        assert!(message.ends_with(&format!("; {want}")), "{message}");
    }
}

#[test]
fn codes_are_the_non_zero_ones_of_app_containers() {
    let side = |code| failed(0).code(0).and(container("side", code, "Error", "", 20));
    let init = failed(0).code(0).and_init(container("prepare", 3, "Error", "", 20));
    let evicted = failed(0).code(0).because("Evicted");
    let of_node =
        failed(0).code(143).condition("DisruptionTarget", "True", "DeletionByTaintManager");
    check(vec![
        ("any container", terminal(&[3]).with(side(3)), 20, FAILS),
        ("0 is no code", retryable(&[3]).with(side(3)), 80, COUNTED),
        ("any that is not retryable", retryable(&[3]).with(side(4)), 20, FAILS),
        ("not an init container's: terminal", terminal(&[3]).with(init.clone()), 80, COUNTED),
        ("not an init container's: retryable", retryable(&[4]).with(init), 80, COUNTED),
        ("without a code, go on", retryable(&[3]).with(evicted), 80, COUNTED),
        ("it died of its node", retryable(&[3]).with(of_node), 80, COUNTED),
    ]);
}

#[test]
fn codes_are_those_of_the_pods_that_the_pod_failure_policy_left() {
    let policy = |action: &str| {
        format!(
            "podFailurePolicy: {{rules: [{{action: {action}, \
             onExitCodes: {{operator: In, values: [3]}}}}]}}"
        )
    };
    let pods = |world: World| world.with(failed(0).code(3)).with(failed(0).code(4));
    check(vec![
        ("an ignored pod has no say", pods(terminal(&[3]).spec(&policy("Ignore"))), 80, COUNTED),
        ("a counted pod has", pods(terminal(&[3]).spec(&policy("Count"))), 20, FAILS),
        (
            "the pod failure policy comes first",
            pods(terminal(&[3]).spec(&policy("FailAppWrapper"))),
            20,
            "Fail podFailurePolicy#0",
        ),
    ]);
}

/// A pod that ends with a code, and of which the deletion was requested before.
fn deleted(code: i32, requested: i64, ended: i64) -> Pod {
    let pod = failed(0).code(code).at(ended);
    Pod { terminating: true, deletion_requested: Some(at(requested)), ..pod }
}

#[test]
fn a_pod_that_was_deleted_after_a_failure_has_no_say() {
    let worlds = |pod: Pod| retryable(&[3]).with(failed(0).code(3)).with(pod);
    let disrupted =
        deleted(143, 20, 25).condition("DisruptionTarget", "True", "EvictionByEvictionAPI");
    let out_of_memory = failed(0).ended(container("main", 137, "OOMKilled", "", 20));
    let out_of_memory =
        Pod { terminating: true, deletion_requested: Some(at(20)), ..out_of_memory };
    let alone = |pod: Pod| retryable(&[3]).with(pod);
    let overdue = |pod: Pod| alone(pod).fails(0, "DeadlineExceeded", "", 20);
    let policy = "podFailurePolicy: {rules: [{action: FailAppWrapper, \
                  onExitCodes: {operator: In, values: [143]}}]}";
    let ignored = "podFailurePolicy: {rules: [{action: Ignore, \
                   onExitCodes: {operator: In, values: [3]}}]}";
    check(vec![
        ("a sibling that ends later", worlds(deleted(143, 20, 25)), 80, COUNTED),
        ("… whatever its code", worlds(deleted(4, 20, 25)), 80, COUNTED),
        ("… in the same second", worlds(deleted(137, 20, 20)), 80, COUNTED),
        ("its own code in that second", worlds(deleted(4, 20, 20)), 20, FAILS),
        ("out of memory in that second", worlds(out_of_memory), 20, FAILS),
        ("it had failed before", worlds(deleted(4, 26, 25)), 25, FAILS),
        ("it was deleted before that failure", worlds(deleted(143, 15, 25)), 25, FAILS),
        ("disrupted", worlds(disrupted), 25, FAILS),
        ("nothing failed before", alone(deleted(143, 20, 25)), 25, FAILS),
        ("its Job had failed", overdue(deleted(143, 20, 25)), 25, COUNTED),
        ("podFailurePolicy", worlds(deleted(143, 20, 25)).spec(policy), 80, COUNTED),
        (
            "all that failed by itself is ignored",
            worlds(deleted(143, 20, 25)).fails(0, "BackoffLimitExceeded", "", 20).spec(ignored),
            80,
            "RestartIgnoringLimit podFailurePolicy#0",
        ),
    ]);
}

/// A pod that failed is deleted at once, and a sibling ends by SIGTERM later.
#[test]
fn a_pod_that_was_deleted_after_a_failure_has_no_say_when_the_failed_one_is_gone() {
    let remove = |mut world: World| {
        world.snapshot.pods.remove(0);
        world
    };
    let sibling = || Pod { name: "work-9".into(), uid: "work-9".into(), ..deleted(143, 21, 25) };
    let seen = |world: World| remove(world.with(failed(0).code(1)).with(ready(0)).settled(21));
    let ends = |mut world: World, pod: Pod| {
        world.snapshot.pods = vec![pod];
        world
    };
    let job = || seen(retryable(&[1]));
    let job_set = || {
        let set = running(&["JobSet/work:2"]);
        seen(set.limits(|limits| limits.retryable_exit_codes = [1].into()))
    };
    let again = {
        let mut world = job();
        world.snapshot.pods.clear();
        world.ready(0, 2).settled(30)
    };
    let going = |world: World| world.object_of(0, |object| object.terminating = true);
    let job_deleted_at = |second: i64| {
        let world = going(retryable(&[1]).with(sibling()));
        world.object_of(0, |object| object.deletion_requested = Some(at(second)))
    };
    check(vec![
        ("it had failed before", ends(job(), sibling()), 26, "None"),
        ("… deleted before that", ends(job(), deleted(143, 15, 25)), 26, FAILS),
        ("… of a JobSet", ends(job_set(), deleted(143, 15, 25)), 26, "None"),
        ("… and all run again", ends(again, deleted(143, 31, 35)), 36, FAILS),
        ("its Job is being deleted", going(retryable(&[1]).with(sibling())), 26, "None"),
        ("… it failed by itself", going(retryable(&[1]).with(deleted(3, 26, 25))), 26, FAILS),
        ("… deleted with its Job", job_deleted_at(21), 26, "None"),
        ("… deleted before its Job", job_deleted_at(22), 26, FAILS),
    ]);
    let pod = running(&["Pod/work:1"]).limits(|limits| limits.retryable_exit_codes = [1].into());
    check(vec![("a Pod itself", going(pod.with(deleted(143, 20, 25))), 26, FAILS)]);
}

#[test]
fn exit_codes_come_before_the_failure_policy_and_retry_policies() {
    let restart = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts}]}";
    let world = || terminal(&[3]).with(failed(0).code(3)).fails(0, "BackoffLimitExceeded", "", 20);
    check(vec![
        ("failurePolicy", world().spec(restart), 20, FAILS),
        ("a retry policy", world().retry_policy("p", "{defaultAction: Retry}"), 20, FAILS),
    ]);
}

/// A Job counts a pod from when its deletion is requested, and may fail while the program still ends.
#[test]
fn the_code_of_a_pod_that_somebody_deletes_is_waited_for() {
    let deleted = |second: i64, pod: Pod| {
        let (requested, due) = (Some(at(second)), Some(at(second + 30)));
        let pod = Pod { terminating: true, deletion_requested: requested, due_to_go: due, ..pod };
        running(&["Job/work:1"]).with(pod).fails(0, "BackoffLimitExceeded", "", 25)
    };
    let going = |second| deleted(second, ready(0));
    let ended = || deleted(20, failed(0).code(143).at(27));
    let asked = |world: World| world.limits(|limits| limits.terminal_exit_codes = [143].into());
    let behind = |world: World| world.pod(0, |pod| pod.created = Some(at(-100)));
    let policy = "{rules: [{name: r, action: Retry, onExitCodes: {operator: In, values: [143]}}]}";
    let of_job_set = || {
        let pod = going(20).snapshot.pods.remove(0);
        let world = running(&["JobSet/work:1"]).with(pod).fails(0, "FailedJobs", "", 25);
        asked(world.failed_job_of(0, "BackoffLimitExceeded", ""))
    };
    let retried = "Restart retryPolicy/p/r#0 0 of 20";
    check(vec![
        ("its Job has failed", asked(going(20)), 25, "Wait 60"),
        ("… and the API server's clock is behind", behind(asked(going(20))), 25, "Wait 160"),
        ("… and it has ended", asked(ended()), 27, FAILS),
        ("a RetryPolicy asks for it", going(20).retry_policy("p", policy), 25, "Wait 60"),
        ("… and gets it", ended().retry_policy("p", policy), 27, retried),
        ("nobody asks for it", going(20), 25, COUNTED),
        ("its Job has deleted it", asked(going(25)), 25, COUNTED),
        ("the deleted pods of a JobSet are not judged", of_job_set(), 25, COUNTED),
    ]);
}
