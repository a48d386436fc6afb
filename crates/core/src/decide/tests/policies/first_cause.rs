//! The first cause of several failures, whatever is seen first, and what is waited for before it is judged.

use super::build::{check, container, failed, pod_of, ready, running, runs};
use crate::api::condition::{self, unhealthy};
use crate::decide::tests::given::{World, at};
use crate::snapshot::lost::{Loss, Lost};
use crate::snapshot::{BackoffLimit, Expected, FailedJob, Node, Pod, PodCondition, PodPhase};

const IGNORE: &str = "podFailurePolicy: {rules: [\
    {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}";
const OVER: &str = "BackoffLimitExceeded";
const COUNTED: &str = "Restart retryLimit 0 of 3";

fn disrupted(pod: Pod, second: i64) -> Pod {
    let mut pod = pod;
    pod.conditions.push(PodCondition {
        kind: "DisruptionTarget".into(),
        status: "True".into(),
        reason: "PreemptionByScheduler".into(),
        since: Some(at(second)),
        ..PodCondition::default()
    });
    pod
}

#[test]
fn a_pod_that_is_being_ended_is_judged_when_it_has_ended() {
    let going = || {
        let pod = disrupted(ready(0), 20);
        let (requested, due) = (Some(at(20)), Some(at(50)));
        Pod { terminating: true, deletion_requested: requested, due_to_go: due, ..pod }
    };
    let job = |pod: Pod| running(&["Job/work:1"]).with(pod).fails(0, OVER, "", 21);
    let ended = || Pod { phase: PodPhase::Failed, ..going() }.code(143).at(30);
    let ends_well = || {
        let pod = Pod { phase: PodPhase::Succeeded, ..going() }.code(0).at(30);
        let mut world = job(pod);
        world.snapshot.mark_failed_pods();
        world
    };
    let by_eviction = "{rules: [{name: e, action: Retry, onConditions: [Preempted]}], \
                       defaultAction: Fail}";
    let ignored = "RestartIgnoringLimit podFailurePolicy#0";
    let other = IGNORE.replace(
        "onPodConditions: [{type: DisruptionTarget}]",
        "onExitCodes: {operator: In, values: [3]}",
    );
    let replaced = || {
        let world = running(&["Job/work:1"]).with(failed(0).at(5)).ready(0, 1).backoff(0, 6, 1);
        let world = world.settled(6).pod(1, |pod| *pod = Pod { name: "work-2".into(), ..going() });
        world.fails(0, OVER, "", 21)
    };
    let by_code = "{rules: [{name: c, action: Retry, onExitCodes: {operator: In, values: [143]}}], \
                   defaultAction: Fail}";
    let retryable = |world: World| world.limits(|limits| limits.retryable_exit_codes = [42].into());
    check(vec![
        ("the Job speaks first", job(going()).spec(IGNORE), 21, "Wait 60"),
        ("the pod has ended", job(ended()).spec(IGNORE), 31, ignored),
        ("the pod handles SIGTERM, and ends with 0", ends_well().spec(IGNORE), 31, ignored),
        (
            "… and a retry policy is there",
            ends_well().retry_policy("p", by_eviction),
            31,
            "Restart retryPolicy/p/e#0 0 of 20",
        ),
        ("it does not end", job(going()).spec(IGNORE), 60, COUNTED),
        ("another rule", job(going()).spec(&other), 21, "Wait 60"),
        ("no rule is there", job(going()), 21, COUNTED),
        ("a retry policy is there", job(going()).retry_policy("p", by_code), 21, "Wait 60"),
        (
            "… and the pod has ended",
            job(ended()).retry_policy("p", by_code),
            31,
            "Restart retryPolicy/p/c#0 0 of 20",
        ),
        ("exit codes may be retried", retryable(job(going())), 21, "Wait 60"),
        ("… and the pod has ended", retryable(job(ended())), 31, "Fail exitCodeAnnotation"),
        ("another failed", job(going()).with(failed(0)).spec(IGNORE), 21, COUNTED),
        ("… and was replaced", replaced().spec(IGNORE), 21, "Wait 60"),
    ]);
}

#[test]
fn a_pod_that_is_being_ended_delays_nothing_that_it_cannot_change() {
    let going = || Pod { terminating: true, due_to_go: Some(at(3600)), ..disrupted(ready(0), 20) };
    let beside = |code: i32| {
        let world = running(&["Job/a:1", "Job/b:1"]).with(going()).fails(0, OVER, "", 21);
        world.with(failed(1).code(code).at(21)).backoff(1, 0, 1)
    };
    let fatal = "podFailurePolicy: {rules: [\
        {action: FailAppWrapper, onExitCodes: {operator: In, values: [42]}}, \
        {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}";
    let terminal = |world: World| world.limits(|limits| limits.terminal_exit_codes = [42].into());
    check(vec![
        ("another pod is fatal", beside(42).spec(fatal), 22, "Fail podFailurePolicy#0"),
        ("… another code", beside(43).spec(fatal), 22, "Wait 3610"),
        ("a terminal code of another", terminal(beside(42)), 22, "Fail exitCodeAnnotation"),
        (
            "… and what is ended may be ignored",
            terminal(beside(42)).spec(IGNORE),
            22,
            "Fail exitCodeAnnotation",
        ),
    ]);
}

#[test]
fn a_pod_fails_when_its_container_does_and_not_when_its_init_container_succeeded() {
    let world = |main, since| {
        let pod =
            pod_of(0, PodPhase::Failed).ended(main).and_init(container("init", 0, "", "", 10));
        let mut pod = disrupted(pod, since);
        pod.reason = None;
        running(&["Job/work:1"]).with(pod).backoff(0, 6, 0)
    };
    let lost = || {
        let mut main = container("main", 137, "ContainerStatusUnknown", "", 0);
        if let crate::snapshot::ContainerState::Terminated(end) = &mut main.state {
            end.finished_at = None;
        }
        main
    };
    check(vec![
        ("a container that was running", world(runs("main"), 100), 101, "Wait 160"),
        ("one of which the end is not known", world(lost(), 100), 101, "Wait 160"),
    ]);
}

/// Jobs `workers`, a pod of which exits with 1 at second 20 and is replaced, and `ps`, the node of which is lost at
/// second 25.
fn beside_lost(state: Lost) -> World {
    beside_lost_of("Job/workers:1", state)
}

/// The same with workers of any kind.
fn beside_lost_of(workers: &str, state: Lost) -> World {
    let mut world = running(&[workers, "Job/ps:1"])
        .with(failed(0).on("node-2"))
        .with(ready(1))
        .backoff(0, 6, 1)
        .settled(2);
    let lost = Some(Loss { state, since: Some(at(25)) });
    world.snapshot.nodes.insert("node-1".into(), Node { lost, ..Node::default() });
    world.snapshot.mark_failed_pods();
    world
}

#[test]
fn a_pod_whose_node_may_come_back_decides_nothing_about_another_failure() {
    let rule = "failurePolicy: {rules: [{action: FailAppWrapper, targetComponents: [ps]}]}";
    let fatal = "podFailurePolicy: {rules: [\
        {action: FailAppWrapper, onPodConditions: [{type: DisruptionTarget}]}]}";
    let by_rule = "Fail failurePolicy/failurePolicyRule0#0";
    let failed = |world: World| world.fails(0, OVER, "", 26);
    let gone = |spec| beside_lost(Lost::Deleted).spec(spec);
    let away = |spec| beside_lost(Lost::Unreachable).spec(spec);
    check(vec![
        ("a rule about its component", away(rule), 26, "Wait 80"),
        ("… its node is gone for good", gone(rule), 26, by_rule),
        ("a rule about the pod", away(fatal), 26, "Wait 80"),
        ("… its node is gone for good", gone(fatal), 26, "Fail podFailurePolicy#0"),
        ("the other component has failed", failed(away(rule)), 26, COUNTED),
        ("… and the node is gone for good", failed(gone(rule)), 26, by_rule),
        ("… and the pod is fatal", failed(away(fatal)), 26, COUNTED),
        ("… and its node is gone for good", failed(gone(fatal)), 26, "Fail podFailurePolicy#0"),
    ]);
}

#[test]
fn ignored_pods_decide_whatever_becomes_of_a_lost_node() {
    let by_code =
        "podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [1]}}]}";
    let rules = "podFailurePolicy: {rules: [{action: Ignore, targetComponents: [a], \
                 onPodConditions: [{type: DisruptionTarget}]}]}\n\
                 failurePolicy: {rules: [{action: RecreateComponent, targetComponents: [web]}]}";
    let lost = |workers| beside_lost_of(workers, Lost::Unreachable).spec(by_code);
    let pods = running(&["Pod/a:1", "Job/web:1"]).ready(0, 1).with(ready(1).on("node-2"));
    let pods = pods.backoff(1, 0, 0).spec(rules).settled(2);
    let mut both = pods.loses_node(Lost::Unreachable, 25);
    let lost_for_good = Some(Loss { state: Lost::Deleted, since: Some(at(25)) });
    both.snapshot.nodes.insert("node-2".into(), Node { lost: lost_for_good, ..Node::default() });
    both.snapshot.mark_failed_pods();
    let ignored = "RestartIgnoringLimit podFailurePolicy#0";
    check(vec![
        ("a Job failed", lost("Job/workers:1").fails(0, OVER, "", 26), 26, ignored),
        ("a wrapped Pod failed", lost("Pod/workers:1"), 26, ignored),
        (
            "it is ignored itself",
            both,
            31,
            "RecreateComponent failurePolicy/failurePolicyRule0#0 0 of 3",
        ),
    ]);
}

#[test]
fn a_job_that_may_fail_by_its_own_rule_speaks_first() {
    let rule = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts, \
                onJobFailureReasons: [PodFailurePolicy]}]}";
    let policy = "{rules: [{name: r, action: Fail, onExitCodes: {operator: In, values: [42]}}]}";
    let job = |limit: Option<i64>, fails_by_rule| {
        let world = running(&["Job/work:1"]).with(failed(0).code(42)).spec(rule);
        let backoff = BackoffLimit { limit, fails_by_rule, counted: Some(0), marked: 0 };
        let world = world.object_of(0, |object| _ = object.report.backoff.insert(0, backoff));
        world.retry_policy("p", policy)
    };
    let free = "RestartIgnoringLimit failurePolicy/failurePolicyRule0#0";
    check(vec![
        ("a rule may fail it", job(Some(6), true), 20, "Wait 30"),
        ("… and does", job(Some(6), true).fails(0, "PodFailurePolicy", "", 21), 21, free),
        ("… and does not", job(Some(6), true), 30, "Fail retryPolicy/p/r#0"),
        ("failures do not count alike", job(None, false), 20, "Wait 30"),
        ("it replaces the pod", job(Some(6), false), 20, "Fail retryPolicy/p/r#0"),
    ]);
}

/// Jobs of one pod that do not replace it: `ps`, whose pod exits with 1 at second 10, and `workers`, whose pod is out of
/// memory at second 9.
fn two() -> World {
    let oom = failed(1).ended(container("main", 137, "OOMKilled", "", 9)).on("node-9");
    let world = running(&["Job/ps:1", "Job/workers:1"]).with(failed(0).at(10)).with(oom);
    world.backoff(0, 0, 1).backoff(1, 0, 1)
}

#[test]
fn a_failure_on_a_node_whose_clock_is_ahead_may_be_the_first_cause() {
    let policy = "{rules: [{name: oom, action: Retry, onConditions: [OOMKilled]}], \
                  defaultAction: Fail}";
    let both = two().fails(0, OVER, "", 11).fails(1, OVER, "", 11).retry_policy("p", policy);
    let ahead = both.pod(1, |pod| *pod = Pod { failed_by: Some(at(9)), ..pod.clone().at(69) });
    assert_eq!(ahead.says_at(11), "Restart retryPolicy/p/oom#0 0 of 20");
}

#[test]
fn the_first_cause_is_the_first_failed_pod_whichever_component_speaks_first() {
    let policy = "{rules: [{name: oom, action: Retry, antiAffinity: {mode: node}, \
                  onConditions: [OOMKilled]}], defaultAction: Fail}";
    let retry = "Restart retryPolicy/p/oom#0 0 of 20";
    let both = || two().fails(0, OVER, "", 11).fails(1, OVER, "", 11).retry_policy("p", policy);
    check(vec![
        ("both have failed", both(), 11, retry),
        (
            "only the later one says so",
            two().fails(0, OVER, "", 11).retry_policy("p", policy),
            11,
            retry,
        ),
        (
            "… and the earlier one would be replaced",
            two().backoff(1, 6, 1).fails(0, OVER, "", 11).retry_policy("p", policy),
            11,
            retry,
        ),
        (
            "only the earlier one does",
            two().fails(1, OVER, "", 11).retry_policy("p", policy),
            11,
            retry,
        ),
    ]);
    let tied = |index: usize| {
        let oom = container("main", 137, "OOMKilled", "", 10);
        let world = two().pod(1, |pod| pod.containers = vec![oom]);
        world.fails(index, OVER, "", 11).retry_policy("p", policy)
    };
    let first = "Fail retryPolicy/p";
    check(vec![
        ("of the same second, the first name", tied(0), 11, first),
        ("… whoever speaks first", tied(1), 11, first),
        ("… and both do", tied(0).fails(1, OVER, "", 10), 11, first),
    ]);
    let decision = both().decide(11);
    let failure = decision.verdict.failure.expect("a failure");
    assert_eq!(
        (failure.pod.as_deref(), failure.component.as_deref()),
        (Some("workers-0"), Some("workers"))
    );
    assert_eq!(decision.status.avoid_nodes, ["node-9"]);
    let of_workers =
        "failurePolicy: {rules: [{action: FailAppWrapper, targetComponents: [workers]}]}";
    check(vec![
        (
            "the other may have to say something",
            two().fails(0, OVER, "", 11).spec(of_workers),
            11,
            "Wait 19",
        ),
        (
            "… and says it",
            two().fails(0, OVER, "", 11).fails(1, OVER, "", 12).spec(of_workers),
            12,
            "Fail failurePolicy/failurePolicyRule0#0",
        ),
    ]);
}

#[test]
fn what_else_failed_is_asked_about_where_a_component_is_missing() {
    let rule = "failurePolicy: {rules: [{action: FailAppWrapper, targetComponents: [b]}]}";
    let world = || {
        let world = running(&["Job/a:1", "Job/b:1"]).ready(0, 1).with(failed(1));
        let world = world.component(0, |one| one.presence = crate::snapshot::Presence::Absent);
        world.fails(1, OVER, "", 25)
    };
    check(vec![
        (
            "a rule about the other",
            world().spec(rule),
            26,
            "Fail failurePolicy/failurePolicyRule0#0",
        ),
        ("no rule about it", world().spec(&rule.replace("[b]", "[a]")), 26, COUNTED),
    ]);
    let failure = world().decide(26).verdict.failure.expect("a failure");
    assert_eq!(failure.component.as_deref(), Some("a"));
    assert_eq!(
        world()
            .decide(26)
            .status
            .conditions
            .iter()
            .find(|one| one.type_ == "Unhealthy")
            .map(|one| one.reason.as_str()),
        Some(unhealthy::MISSING_COMPONENT)
    );
}

#[test]
fn an_overriding_policy_is_asked_about_the_first_cause_also_where_a_user_ignores_it() {
    let user =
        "podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [3]}}]}";
    let policy = "{override: true, rules: [{name: never, action: Fail, \
                  onExitCodes: {operator: In, values: [3]}}]}";
    let world = |first: i64| {
        let pods = running(&["Job/work:2"])
            .with(failed(0).code(3).at(first))
            .with(failed(0).code(1).at(12));
        pods.spec(user).overriding("p", policy).fails(0, OVER, "", 13)
    };
    check(vec![
        ("it failed first", world(10), 14, "Fail retryPolicy/p/never#0"),
        ("another failed first", world(13), 14, "Fail retryPolicy/p"),
    ]);
}

#[test]
fn the_delay_after_pods_that_do_not_come_up_runs_from_when_that_is_a_failure() {
    let policy = "{rules: [{name: r, action: Retry, onConditions: [Unschedulable], \
                  backoff: {initialDelay: 5m}}]}";
    let pod = pod_of(0, PodPhase::Pending).condition("PodScheduled", "False", "Unschedulable");
    let decision = running(&["Job/work:1"]).with(pod).retry_policy("p", policy).decide(360);
    assert_eq!(decision.status.retry_after.map(|time| time.0), Some(at(600)));
}

#[test]
fn no_policy_is_asked_about_a_pod_that_its_job_deleted() {
    let policy = "{rules: [{name: code, action: Fail, onExitCodes: {operator: In, values: [143]}}, \
                  {name: late, action: Retry, onConditions: [DeadlineExceeded]}]}";
    let world =
        || running(&["Job/work:1"]).fails(0, "DeadlineExceeded", "", 20).retry_policy("p", policy);
    let pod = failed(0).code(143).at(25);
    let deleted = || Pod { terminating: true, deletion_requested: Some(at(20)), ..pod.clone() };
    let late = "Restart retryPolicy/p/late#1 0 of 20";
    check(vec![
        ("the pod runs", world().ready(0, 1), 21, late),
        ("the pod has ended", world().with(deleted()), 26, late),
    ]);
    let failure = world().with(deleted()).decide(26).verdict.failure.expect("a failure");
    assert_eq!((failure.pod, failure.reason.as_deref()), (None, Some("DeadlineExceeded")));
}

#[test]
fn no_policy_is_asked_about_a_pod_that_its_job_deleted_because_it_succeeded() {
    let rule = "podFailurePolicy: {rules: [{action: FailAppWrapper, onExitCodes: {operator: NotIn, values: [40]}}]}";
    let deleted = |pod: Pod| Pod { terminating: true, deletion_requested: Some(at(20)), ..pod };
    let killed = || deleted(failed(0).code(143).at(25));
    let world = |pod: Pod| {
        let still_running = deleted(pod_of(0, PodPhase::Running));
        running(&["Job/work:2"]).spec(rule).with(pod).with(still_running)
    };
    let succeeding = |world: World| {
        world.object_of(0, |object| {
            object.report.deletes_pods = true;
            object.report.expected.insert(0, Expected::default());
        })
    };
    let fails = "Fail podFailurePolicy#0";
    check(vec![
        ("the Job goes on", world(killed()), 26, fails),
        ("it meets its success criteria", succeeding(world(killed())), 26, "None"),
        ("it has succeeded", world(killed()).succeeds(0), 26, "None"),
        ("the same at a later look", world(killed()).succeeds(0).settled(26), 27, "None"),
        ("a pod fails by itself since", world(failed(0).code(1).at(25)).succeeds(0), 26, "None"),
        ("a pod failed by itself before", succeeding(world(failed(0).code(1).at(18))), 26, fails),
    ]);
}

#[test]
fn no_policy_is_asked_about_a_pod_deleted_after_a_disruption() {
    let rules = "podFailurePolicy: {rules: [\
        {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}, \
        {action: FailAppWrapper, onExitCodes: {operator: NotIn, values: [40, 41, 42]}}]}";
    let going = |pod: Pod, second: i64| {
        let (requested, due) = (Some(at(second)), Some(at(second + 30)));
        Pod { terminating: true, deletion_requested: requested, due_to_go: due, ..pod }
    };
    let evicted = |pod: Pod| going(disrupted(pod, 20), 20);
    let world =
        |kind: &str, first: Pod, peer: Pod| running(&[kind]).with(first).with(peer).spec(rules);
    let job = |peer: Pod| {
        let first = evicted(failed(0).code(143).at(21));
        world("Job/work:2", first, peer).fails(0, OVER, "", 21)
    };
    let killed = |requested| going(failed(0).code(143).at(30), requested);
    let fails = "Fail podFailurePolicy#1";
    check(vec![
        ("deleted with it", job(killed(20)), 31, "RestartIgnoringLimit podFailurePolicy#0"),
        ("deleted before", job(killed(19)), 31, fails),
        ("failed by itself before", job(going(failed(0).code(1).at(18), 20)), 31, fails),
    ]);
    let peer = going(failed(0).code(143).at(21), 20);
    let ending = world("Job/work:2", evicted(ready(0)), peer);
    assert_ne!(ending.says_at(22), fails, "the evicted pod has not ended");
    let both = running(&["Job/work:2"]).ready(0, 2).spec(rules).settled(2);
    let both = both.pod_is(0, evicted(failed(0).code(143).at(21))).pod_is(1, going(ready(0), 20));
    let mut gone = both.settled(22).pod_is(1, killed(20)).fails(0, OVER, "", 21);
    gone.snapshot.pods.remove(0);
    assert_ne!(gone.says_at(31), fails, "the evicted pod is gone");
}

/// Two pods, of which the first is evicted at second 20 and still ends when the other one is deleted.
#[test]
fn a_disruption_explains_no_deletion_of_another_kind_or_much_later() {
    let going = |pod: Pod, second: i64| {
        let (requested, due) = (Some(at(second)), Some(at(3620)));
        Pod { terminating: true, deletion_requested: requested, due_to_go: due, ..pod }
    };
    let world = |kind: &str| {
        let world = running(&[kind]).limits(|limits| limits.terminal_exit_codes = [42].into());
        let world = world.ready(0, 2).settled(2);
        world.pod_is(0, going(disrupted(ready(0), 20), 20)).settled(21)
    };
    let deleted = |world: World| {
        let world = world.pod_is(1, going(ready(0), 600)).settled(600);
        world.pod_is(1, going(failed(0).code(42).at(605), 600))
    };
    let replaced = world("Job/work:2").ready(0, 1).settled(25);
    let fails = "Fail exitCodeAnnotation";
    check(vec![
        ("a job that counts it at its end", deleted(world("PyTorchJob/work:2")), 606, fails),
        ("a Job that has replaced it", deleted(replaced), 606, fails),
    ]);
    assert_ne!(deleted(world("Job/work:2")).says_at(606), fails, "a Job may have failed for it");
}

#[test]
fn the_pods_that_a_failed_job_of_a_jobset_deletes_have_no_say() {
    let pod = failed(0).code(143).at(24);
    let peer = Pod { terminating: true, deletion_requested: Some(at(22)), ..pod };
    let job = FailedJob {
        name: "j".into(),
        pod_set: Some(0),
        reason: OVER.into(),
        message: String::new(),
        at: Some(at(21)),
    };
    // the clock of its node is ahead
    let world = running(&["JobSet/work:2"]).with(failed(0).code(42).at(25)).with(peer);
    let mut world =
        world.component(0, |one| one.failed_jobs.push(job)).fails(0, "FailedJobs", "", 25);
    world.limits.retryable_exit_codes = [42].into();
    check(vec![("a peer", world, 26, COUNTED)]);
}

#[test]
fn a_component_is_recreated_at_once_only_where_nothing_replaces_its_own_pod() {
    let rule = "failurePolicy: {rules: [{action: RecreateComponent, targetComponents: [web]}]}";
    let world = |web: &str| {
        let pods = running(&[web, "Job/b:1"]).spec(rule).with(ready(0)).backoff(1, 0, 1).settled(2);
        pods.with(failed(1).on("node-2")).loses_node(Lost::Deleted, 25)
    };
    let job = || world("Job/web:1").backoff(0, 0, 0);
    check(vec![
        ("its ReplicaSet replaces it", world("Deployment/web:1"), 31, "Wait 80"),
        (
            "… and has not in time",
            world("Deployment/web:1"),
            80,
            "RecreateComponent failurePolicy/failurePolicyRule0#0 0 of 3",
        ),
        (
            "nothing replaces it",
            job(),
            31,
            "RecreateComponent failurePolicy/failurePolicyRule0#0 0 of 3",
        ),
    ]);
}

/// A Job of two pods: one was lost with a node that was not ready and then deleted, and the other one exits with 1 at
/// second 25, since its peer is gone.
fn peer_of_deleted(node_said: &[PodCondition]) -> World {
    let pod = Pod {
        conditions: node_said.to_vec(),
        containers: vec![runs("main")],
        ..pod_of(0, PodPhase::Running)
    };
    let mut world = running(&["Job/work:2"]).with(pod).with(failed(0).at(25).on("node-2"));
    let lost = Some(Loss { state: Lost::Deleted, since: None });
    world.snapshot.nodes.insert("node-1".into(), Node { lost, ..Node::default() });
    world.snapshot.mark_failed_pods();
    world.fails(0, OVER, "", 26)
}

#[test]
fn a_pod_on_a_deleted_node_is_dated_by_what_was_written_to_it() {
    let policy =
        "{rules: [{name: node, action: Retry, onConditions: [NodeLost]}], defaultAction: Fail}";
    let since = |kind: &str, status: &str, reason: &str, second| PodCondition {
        kind: kind.into(),
        status: status.into(),
        reason: reason.into(),
        since: Some(at(second)),
        ..PodCondition::default()
    };
    let world = |conditions: &[PodCondition]| peer_of_deleted(conditions).retry_policy("p", policy);
    let by_node = since("Ready", "False", "", 20);
    let by_kubelet = since("Ready", "False", "ContainersNotReady", 5);
    let target = since("DisruptionTarget", "True", "DeletionByTaintManager", 21);
    let retry = "Restart retryPolicy/p/node#0 0 of 20";
    check(vec![
        ("its node was not ready", world(std::slice::from_ref(&by_node)), 90, retry),
        (
            "… after the peer had failed",
            world(&[since("Ready", "False", "", 30)]),
            90,
            "Fail retryPolicy/p",
        ),
        ("it was to be evicted", world(std::slice::from_ref(&target)), 90, retry),
        (
            "its containers were not ready before",
            world(std::slice::from_ref(&by_kubelet)),
            90,
            "Fail retryPolicy/p",
        ),
        ("… and it was to be evicted", world(&[by_kubelet, target]), 90, retry),
        ("nothing dates it", world(&[]), 90, "Fail retryPolicy/p"),
    ]);
}

#[test]
fn pods_are_not_ready_while_a_failed_component_is_waited_for() {
    let pod = disrupted(ready(0), 20);
    let (requested, due) = (Some(at(20)), Some(at(50)));
    let going = Pod { terminating: true, deletion_requested: requested, due_to_go: due, ..pod };
    let world = running(&["Job/work:1"]).ready(0, 1).settled(2).pod_is(0, going);
    let world = world.fails(0, OVER, "", 21);
    for (what, world, said, reason) in [
        ("its pod ends", world.clone().spec(IGNORE), "Wait 60", "InsufficientPodsReady"),
        ("nothing is waited for", world, COUNTED, "Resetting"),
    ] {
        let conditions = world.decide(21).status.conditions;
        let ready = condition::find(&conditions, condition::PODS_READY).unwrap();
        let found = (world.says_at(21), ready.status.as_str(), ready.reason.as_str());
        assert_eq!(found, (said.to_owned(), "False", reason), "{what}");
    }
}

/// Job `a` beside Job `work`, which failed: its pod is in its grace period until second 50, and is waited for.
#[test]
fn a_success_is_recorded_while_another_failure_is_waited_for() {
    let pod = disrupted(ready(1), 20);
    let (requested, due) = (Some(at(20)), Some(at(50)));
    let going = Pod { terminating: true, deletion_requested: requested, due_to_go: due, ..pod };
    let world =
        running(&["Job/a:1", "Job/work:1"]).with(pod_of(0, PodPhase::Succeeded)).with(going);
    let world = world.spec(IGNORE).fails(1, OVER, "", 21).succeeds(0).settled(22);
    assert_eq!(world.says_at(23), "Wait 60");
    let mut gone = world.component(0, |one| one.presence = crate::snapshot::Presence::Absent);
    gone.snapshot.pods.retain(|pod| pod.component != Some(0));
    check(vec![("its TTL has removed it", gone, 59, "Wait 60")]);
}
