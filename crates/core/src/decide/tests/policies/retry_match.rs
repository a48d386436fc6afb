//! Which failures a rule of a retry policy matches.

use super::build::{container, failed, pod_of, running, runs};
use crate::decide::tests::given::World;
use crate::snapshot::{Container, Pod, PodPhase};

/// A Job that failed with this pod.
fn job(pod: Pod) -> World {
    running(&["Job/work:1"]).with(pod).fails(0, "BackoffLimitExceeded", "", 25)
}

/// Whether a rule of these lines matches.
fn matches(rule: &str, world: &World) -> bool {
    let policy = format!("{{rules: [{{name: r, action: Retry, {rule}}}]}}");
    match world.clone().retry_policy("p", &policy).says_at(25).as_str() {
        "Restart retryPolicy/p/r#0 0 of 20" => true,
        "Fail retryPolicy/p" => false,
        other => panic!("{other}"),
    }
}

fn check(rows: Vec<(&str, &str, Pod, bool)>) {
    for (what, rule, pod, want) in rows {
        assert_eq!(matches(rule, &job(pod)), want, "{what}");
    }
}

const IN_3: &str = "onExitCodes: {operator: In, values: [3]}";
const NOT_IN_3: &str = "onExitCodes: {operator: NotIn, values: [3]}";
const OOM: &str = "onConditions: [OOMKilled]";

#[test]
fn exit_codes_are_those_of_the_first_container_that_failed() {
    let two = |first, second| {
        let late = container("main", first, "Error", "", 21);
        failed(0).ended(late).and(container("side", second, "Error", "", 20))
    };
    check(vec![
        ("In", IN_3, failed(0).code(3), true),
        ("not In", IN_3, failed(0).code(4), false),
        ("NotIn", NOT_IN_3, failed(0).code(4), true),
        ("not NotIn", NOT_IN_3, failed(0).code(3), false),
        ("the first to end", IN_3, two(1, 3), true),
        ("not a later one", IN_3, two(3, 1), false),
        ("0 is no failure: the first that has another", IN_3, two(3, 0), true),
        ("0 matches nothing", NOT_IN_3, failed(0).code(0).because("Evicted"), false),
        (
            "0 matches nothing, listed or not",
            "onExitCodes: {operator: In, values: [0]}",
            failed(0).code(0).because("Evicted"),
            false,
        ),
        ("no container ended", NOT_IN_3, failed(0).ended(runs("main")), false),
    ]);
}

#[test]
fn a_rule_with_a_container_name_looks_at_that_container_only() {
    let named = |rule: &str| format!("containerName: side, {rule}");
    let two = |main: i32, side: i32, reason: &str, message: &str| {
        let main = container("main", main, "Error", "", 19);
        failed(0).ended(main).and(container("side", side, reason, message, 20))
    };
    let message = "onTerminationMessage: {pattern: gone}";
    check(vec![
        ("its code", &named(IN_3), two(1, 3, "Error", ""), true),
        ("another's code", &named(IN_3), two(3, 1, "Error", ""), false),
        ("it ended with 0", &named(NOT_IN_3), two(1, 0, "Completed", ""), false),
        ("its reason", &named(OOM), two(1, 137, "OOMKilled", ""), true),
        (
            "another's reason",
            &named(OOM),
            failed(0).ended(container("main", 137, "OOMKilled", "", 20)),
            false,
        ),
        ("its message", &named(message), two(1, 1, "Error", "gone"), true),
        (
            "another's message",
            &named(message),
            failed(0).ended(container("main", 1, "Error", "gone", 20)),
            false,
        ),
        ("no such container", &named(NOT_IN_3), failed(0), false),
        (
            "an init container that is named",
            "containerName: prepare, onExitCodes: {operator: In, values: [3]}",
            failed(0).ended(runs("main")).and_init(container("prepare", 3, "Error", "", 20)),
            true,
        ),
    ]);
}

#[test]
fn init_containers_are_only_looked_at_where_the_rule_says_so() {
    let init = |reason: &str, message: &str| {
        failed(0).ended(runs("main")).and_init(container("prepare", 3, reason, message, 19))
    };
    let with = |rule: &str| format!("includeInitContainers: true, {rule}");
    let message = "onTerminationMessage: {pattern: gone}";
    let both = || failed(0).code(4).and_init(container("prepare", 3, "Error", "", 19));
    check(vec![
        ("code, left out", IN_3, init("Error", ""), false),
        ("code, included", &with(IN_3), init("Error", ""), true),
        ("OOMKilled, left out", OOM, init("OOMKilled", ""), false),
        ("OOMKilled, included", &with(OOM), init("OOMKilled", ""), true),
        ("message, left out", message, init("Error", "gone"), false),
        ("message, included", &with(message), init("Error", "gone"), true),
        ("the first of both", &with(IN_3), both(), true),
        ("the first app container", IN_3, both(), false),
    ]);
}

#[test]
fn a_termination_message_is_searched_in_every_container_that_ended() {
    let message = "onTerminationMessage: {pattern: '.*TRANSIENT.*'}";
    let first = container("main", 1, "Error", "of no use", 19);
    let second = |code| container("side", code, "Error", "a TRANSIENT error", 20);
    let fine = || container("main", 0, "Completed", "", 19);
    check(vec![
        ("the first", message, failed(0).ended(second(1)), true),
        ("a later one", message, failed(0).ended(first.clone()).and(second(1)), true),
        ("one that ended with 0", message, failed(0).ended(first.clone()).and(second(0)), true),
        (
            "the pod's, of a container without one",
            message,
            {
                let silent = container("main", 1, "Error", "", 19);
                Pod { message: Some("a TRANSIENT error".into()), ..failed(0).ended(silent) }
            },
            true,
        ),
        (
            "the pod's, where a container has one",
            message,
            { Pod { message: Some("a TRANSIENT error".into()), ..failed(0).ended(first) } },
            false,
        ),
        (
            "the pod's, of a pod that failed as a whole",
            message,
            {
                let whole = failed(0).ended(runs("main")).because("Evicted");
                Pod { message: Some("a TRANSIENT error".into()), ..whole }
            },
            true,
        ),
        ("only the one that failed", message, failed(0).ended(fine()).and(second(1)), true),
        (
            "anywhere in the text",
            "onTerminationMessage: {pattern: 'SIENT e'}",
            failed(0).ended(second(1)),
            true,
        ),
        (
            "the case matters",
            "onTerminationMessage: {pattern: transient}",
            failed(0).ended(second(1)),
            false,
        ),
    ]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table of cases")]
fn conditions_match_as_the_table_says() {
    let disrupted = |reason: &str| failed(0).condition("DisruptionTarget", "True", reason);
    let (evicted, preempted) = ("onConditions: [Evicted]", "onConditions: [Preempted]");
    let deadline = "onConditions: [DeadlineExceeded]";
    let (lost, storage) = ("onConditions: [NodeLost]", "onConditions: [StorageLimitExceeded]");
    let says = |message: &str| Pod {
        message: Some(message.to_owned()),
        ..failed(0).ended(runs("main")).because("Evicted")
    };
    let own_limit =
        || says("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ");
    let pressure = || says("The node was low on resource: ephemeral-storage. ");
    let oom = |code| container("side", code, "OOMKilled", "", 21);
    check(vec![
        (
            "OOMKilled: the first container",
            OOM,
            failed(0).ended(container("main", 137, "OOMKilled", "", 20)),
            true,
        ),
        ("OOMKilled: not a later container", OOM, failed(0).and(oom(137)), false),
        (
            "OOMKilled: a sidecar that ends with the first",
            OOM,
            {
                let sidecar = Container { restartable: true, ..container("a", 1, "Error", "", 20) };
                failed(0).ended(container("main", 137, "OOMKilled", "", 20)).and_init(sidecar)
            },
            true,
        ),
        ("OOMKilled: code 137 alone", OOM, failed(0).code(137), false),
        ("Evicted: the pod's reason", evicted, failed(0).because("Evicted"), true),
        ("Evicted: EvictionByEvictionAPI", evicted, disrupted("EvictionByEvictionAPI"), true),
        ("Evicted: DeletionByTaintManager", evicted, disrupted("DeletionByTaintManager"), true),
        ("Evicted: TerminationByKubelet", evicted, disrupted("TerminationByKubelet"), true),
        ("Evicted: PreemptionByScheduler", evicted, disrupted("PreemptionByScheduler"), false),
        ("Evicted: DeletionByPodGC", evicted, disrupted("DeletionByPodGC"), true),
        ("Evicted: a reason of its own", evicted, disrupted("Maintenance"), true),
        ("NodeLost: DeletionByPodGC", lost, disrupted("DeletionByPodGC"), true),
        ("NodeLost: DeletionByTaintManager", lost, disrupted("DeletionByTaintManager"), true),
        ("NodeLost: EvictionByEvictionAPI", lost, disrupted("EvictionByEvictionAPI"), false),
        ("StorageLimitExceeded: the pod's own", storage, own_limit(), true),
        ("Evicted: the pod's own limit", evicted, own_limit(), true),
        ("StorageLimitExceeded: pressure of the node", storage, pressure(), false),
        ("a category of its own", "onFailureCategory: [storage_limit]", own_limit(), true),
        ("pressure is no such category", "onFailureCategory: [storage_limit]", pressure(), false),
        (
            "Evicted: a condition that is not True",
            evicted,
            failed(0).condition("DisruptionTarget", "False", "EvictionByEvictionAPI"),
            false,
        ),
        ("Preempted: PreemptionByScheduler", preempted, disrupted("PreemptionByScheduler"), true),
        ("Preempted: EvictionByEvictionAPI", preempted, disrupted("EvictionByEvictionAPI"), false),
        (
            "DeadlineExceeded: the pod's reason",
            deadline,
            failed(0).because("DeadlineExceeded"),
            true,
        ),
        ("DeadlineExceeded: another reason", deadline, failed(0).because("Evicted"), false),
        (
            "any of several",
            "onConditions: [Preempted, Evicted]",
            failed(0).because("Evicted"),
            true,
        ),
        ("none of several", "onConditions: [Preempted, Evicted]", failed(0), false),
    ]);
}

#[test]
fn deadline_exceeded_is_also_what_the_job_of_the_failure_says() {
    let rule = "onConditions: [DeadlineExceeded]";
    let said = |kind: &str, reason: &str| {
        let world = running(&[&format!("{kind}/work:1")]);
        world.with(failed(0)).fails(0, reason, "", 25)
    };
    assert!(matches(rule, &said("Job", "DeadlineExceeded")));
    assert!(!matches(rule, &said("Job", "BackoffLimitExceeded")));
    let of_set = said("JobSet", "FailedJobs").failed_job_of(0, "DeadlineExceeded", "");
    assert!(matches(rule, &of_set), "a Job of a JobSet");
    let no_pod = running(&["Job/work:1"]).fails(0, "DeadlineExceeded", "", 25);
    assert!(matches(rule, &no_pod), "without a pod");
    let category = "onFailureCategory: [deadline]";
    assert!(matches(category, &said("Job", "DeadlineExceeded")));
    assert!(matches(category, &no_pod));
    assert!(matches(category, &of_set));
}

#[test]
fn a_failure_that_neither_pod_nor_component_tells_has_no_category() {
    let rule = "onFailureCategory: [unknown]";
    let silent = running(&["PyTorchJob/work:1"]).fails(0, "PyTorchJobFailed", "", 25);
    assert_eq!(silent.decide(25).verdict.failure.unwrap().category, None);
    assert!(!matches(rule, &silent));
    assert!(matches(rule, &job(failed(0).code(0))), "a pod that does not tell");
}

#[test]
fn deadline_exceeded_of_another_component_is_not_this_failure() {
    let rule = "onConditions: [DeadlineExceeded]";
    let other = || failed(1).because("DeadlineExceeded").at(22);
    let world = running(&["Job/a:1", "Pod/b"]).with(failed(0)).with(other());
    let world = world.fails(0, "BackoffLimitExceeded", "", 25);
    assert!(!matches(rule, &world), "the pod of the failed Job says nothing of it");
}

#[test]
fn unschedulable_is_a_pod_that_was_not_scheduled_for_that_reason() {
    let pending =
        |status, reason| pod_of(0, PodPhase::Pending).condition("PodScheduled", status, reason);
    let policy = "{rules: [{name: r, action: Retry, onConditions: [Unschedulable]}]}";
    let says = |pod| running(&["Job/work:1"]).with(pod).retry_policy("p", policy).says_at(360);
    assert_eq!(says(pending("False", "Unschedulable")), "Restart retryPolicy/p/r#0 0 of 20");
    assert_eq!(says(pending("False", "SchedulingGated")), "Fail retryPolicy/p");
    assert_eq!(says(pending("True", "Unschedulable")), "Fail retryPolicy/p");
}

#[test]
fn the_failure_that_is_matched_is_the_first_cause() {
    let world = running(&["Job/work:2"])
        .with(failed(0).code(4).at(22))
        .with(failed(0).code(3).at(20))
        .fails(0, "BackoffLimitExceeded", "", 25);
    assert!(matches(IN_3, &world));
    assert!(!matches("onExitCodes: {operator: In, values: [4]}", &world));
}

#[test]
fn every_rule_has_exactly_one_matcher() {
    let read = |rule: &str| {
        let yaml = format!("{{rules: [{{action: Retry, {rule}}}]}}");
        let spec = serde_saphyr::from_str(&yaml).unwrap();
        let policy = crate::policies::RetryPolicy::read("p", &spec).unwrap();
        assert_eq!(policy.rules.len() + policy.flaws.len(), 1, "{rule}: it is ignored, or holds");
        policy.flaws.join("")
    };
    assert_eq!(read(IN_3), "");
    for rule in ["containerName: main", &format!("{IN_3}, {OOM}")] {
        let flaw = read(rule);
        assert!(
            flaw.starts_with("RetryPolicy p: spec.rules[0]: must have exactly one of"),
            "{flaw}"
        );
        assert!(flaw.ends_with("; the rule is ignored"), "{flaw}");
    }
    assert!(read("onConditions: [Cosmic]").contains("onConditions"));
    assert!(read("onTerminationMessage: {pattern: '('}").contains("pattern"));
    for memory in ["factor: 1.0", "factor: 2.0, max: 64n", "factor: 2.0, max: lots"] {
        let flaw = read(&format!("{IN_3}, mutate: {{memory: {{{memory}}}}}"));
        assert!(flaw.contains("spec.rules[0].mutate.memory."), "{flaw}");
    }
}
