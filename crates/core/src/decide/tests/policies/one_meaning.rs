//! One meaning for the same facts, whatever comes first: lost nodes, pods that do not terminate, components that
//! have not spoken yet, missing components, bounds of administrators, parts.

use super::build::{check, container, failed, pod_of, ready, running};
use crate::api::Phase;
use crate::decide::tests::given::{World, at};
use crate::plan::FreshRead;
use crate::snapshot::lost::{Loss, Lost};
use crate::snapshot::{
    BackoffLimit, ContainerState, FailedJob, Node, Outcome, Pod, PodPhase, Presence, Report,
};
use crate::tuning::Period;

const FREE: &str = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts}]}";
const IGNORE: &str = "podFailurePolicy: {rules: [\
    {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}";
const EVICTED: &str = "{rules: [{name: r, action: Retry, onConditions: [Evicted]}]}";

impl World {
    /// The node `node-1` is lost since a moment.
    pub(super) fn loses_node(mut self, state: Lost, second: i64) -> Self {
        let lost = Some(Loss { state, since: Some(at(second)) });
        self.snapshot.nodes.insert("node-1".into(), Node { lost, ..Node::default() });
        self.snapshot.mark_failed_pods();
        self
    }

    /// The Job of a component bears so many failures, and has counted so many.
    pub(super) fn backoff(self, index: usize, limit: i64, counted: impl Into<Option<i64>>) -> Self {
        let (limit, counted) = (Some(limit), counted.into());
        let backoff = BackoffLimit { limit, counted, fails_by_rule: false, marked: 0 };
        self.object_of(index, |object| _ = object.report.backoff.insert(0, backoff))
    }

    pub(super) fn overriding(mut self, name: &str, yaml: &str) -> Self {
        self = self.retry_policy(name, yaml);
        self.snapshot.retry.administered.insert(name.to_owned());
        self
    }
}

/// A Job of one pod, which runs since second 0 on a node that is lost at second 20.
fn lost(state: Lost) -> World {
    running(&["Job/work:1"]).with(ready(0)).settled(2).loses_node(state, 20)
}

#[test]
fn a_lost_node_is_a_disruption_in_every_policy() {
    let free = "RestartIgnoringLimit failurePolicy/failurePolicyRule0#0";
    let ignored = "RestartIgnoringLimit podFailurePolicy#0";
    let fails = "failurePolicy: {rules: [{action: FailAppWrapper}]}";
    let reasons = "failurePolicy: {rules: [\
        {action: FailAppWrapper, onJobFailureReasons: [BackoffLimitExceeded]}]}";
    let message = "failurePolicy: {rules: [\
        {action: FailAppWrapper, onJobFailureMessagePatterns: ['lost with node node-1']}]}";
    let gone = || lost(Lost::Deleted);
    let away = || lost(Lost::Unreachable);
    let retries = |world: World, on: &str| {
        world.retry_policy("p", &format!("{{rules: [{{name: r, action: Retry, {on}}}]}}"))
    };
    check(vec![
        ("failurePolicy, the node may return", away().spec(FREE), 79, "Wait 80"),
        ("… and does not", away().spec(FREE), 80, free),
        ("failurePolicy fails, the node may return", away().spec(fails), 79, "Wait 80"),
        ("… and cannot", gone().spec(fails), 20, "Fail failurePolicy/failurePolicyRule0#0"),
        ("a restart waits for what replaces the pod", gone().spec(FREE), 79, "Wait 80"),
        ("… not where nothing does", gone().spec(FREE).backoff(0, 0, 0), 20, free),
        (
            "a message names the node",
            gone().spec(message),
            20,
            "Fail failurePolicy/failurePolicyRule0#0",
        ),
        ("reasons are the Job's", gone().spec(reasons), 80, "Restart retryLimit 0 of 3"),
        ("Ignore, and the Job replaces it in time or not", gone().spec(IGNORE), 20, "Wait 380"),
        ("Ignore, and nothing does", gone().spec(IGNORE).backoff(0, 0, 0), 20, ignored),
        ("… which may return", away().spec(IGNORE).backoff(0, 0, 0), 79, "Wait 80"),
        ("… and does not", away().spec(IGNORE).backoff(0, 0, 0), 80, ignored),
        (
            "Evicted",
            retries(gone(), "onConditions: [Evicted]"),
            80,
            "Restart retryPolicy/p/r#0 0 of 20",
        ),
        (
            "NodeLost",
            retries(gone(), "onConditions: [NodeLost]"),
            80,
            "Restart retryPolicy/p/r#0 0 of 20",
        ),
        (
            "node",
            retries(gone(), "onFailureCategory: [node]"),
            80,
            "Restart retryPolicy/p/r#0 0 of 20",
        ),
    ]);
}

/// What Kubernetes itself says minutes later leads to the same.
#[test]
fn a_pod_that_kubernetes_ended_for_its_node_is_judged_as_a_lost_one() {
    let ended = |reason: &str| {
        let pod = failed(0).condition("DisruptionTarget", "True", reason);
        running(&["Job/work:1"]).with(pod).backoff(0, 0, 1)
    };
    for reason in ["DeletionByTaintManager", "DeletionByPodGC"] {
        check(vec![
            (
                reason,
                ended(reason).spec(FREE),
                30,
                "RestartIgnoringLimit failurePolicy/failurePolicyRule0#0",
            ),
            (reason, ended(reason).spec(IGNORE), 25, "RestartIgnoringLimit podFailurePolicy#0"),
            (
                reason,
                ended(reason).retry_policy("p", EVICTED),
                25,
                "Restart retryPolicy/p/r#0 0 of 20",
            ),
        ]);
    }
}

#[test]
fn of_lost_pods_the_one_that_cannot_return_decides_the_wait() {
    let both = |state: Lost| {
        let other =
            Pod { name: "b".into(), uid: "b".into(), node: Some("node-2".into()), ..ready(0) };
        let world = running(&["Pod/work:2"]).with(ready(0)).with(other).settled(2);
        let mut world = world.loses_node(Lost::Unreachable, 20);
        let lost = Some(Loss { state, since: Some(at(21)) });
        world.snapshot.nodes.insert("node-2".into(), Node { lost, ..Node::default() });
        world.snapshot.mark_failed_pods();
        world.spec("failurePolicy: {rules: [{action: FailAppWrapper}]}")
    };
    check(vec![
        ("both may return", both(Lost::NotReady), 30, "Wait 80"),
        ("one cannot", both(Lost::Deleted), 30, "Fail failurePolicy/failurePolicyRule0#0"),
    ]);
}

#[test]
fn terminating_while_running_has_a_bound() {
    let going = |second: i64| {
        let pod = Pod { terminating: true, due_to_go: Some(at(second)), ..ready(0) };
        running(&["Job/work:1"]).with(ready(0)).settled(2).pod(0, |own| *own = pod)
    };
    let done = going(30).pod(0, |pod| pod.phase = PodPhase::Succeeded);
    let limit = "Restart retryLimit 0 of 3";
    let fails = "failurePolicy: {rules: [{action: FailAppWrapper}]}";
    let codes = "{rules: [{name: r, action: Fail, onConditions: [NodeLost]}]}";
    check(vec![
        ("it is waited for, and that ends", going(30), 31, "Wait 630"),
        ("… a moment before", going(30), 629, "Wait 630"),
        ("then it has failed", going(30), 630, limit),
        ("it is no failed component", going(30).spec(fails), 630, limit),
        ("it did not lose its node", going(30).retry_policy("p", codes), 630, "Fail retryPolicy/p"),
        ("one that succeeded has not failed, and is waited for no more", done, 2000, "Wait 2120"),
        ("on a node that may return", going(30).loses_node(Lost::NotReady, 625), 630, limit),
    ]);
    let decision = going(30).decide(630);
    assert_eq!(decision.verdict.reason.as_deref(), Some("StuckTerminating"));
    assert_eq!(decision.next, Phase::Resetting);
}

#[test]
fn the_owner_speaks_before_retry_policies_and_limits() {
    let rule = "failurePolicy: {rules: [{name: f, action: RestartAppWrapperAndIgnoreMaxRestarts, \
                onJobFailureReasons: [BackoffLimitExceeded]}]}";
    let policy = "{rules: [{name: r, action: Fail, onExitCodes: {operator: In, values: [3]}}]}";
    let pod = || running(&["Job/work:1"]).with(failed(0).code(3));
    let silent = || pod().backoff(0, 0, 1).spec(rule).retry_policy("p", policy);
    let spoken = || silent().fails(0, "BackoffLimitExceeded", "", 25);
    let hasty = |world: World| {
        world.limits(|limits| {
            (limits.warmup_grace, limits.failure_grace) =
                (Period::from_secs(0), Period::from_secs(0));
        })
    };
    let free = "RestartIgnoringLimit failurePolicy/f#0";
    check(vec![
        ("the pod comes first", silent(), 21, "Wait 30"),
        (
            "… and the Job later",
            silent().settled(21).fails(0, "BackoffLimitExceeded", "", 25),
            25,
            free,
        ),
        ("both at once", spoken(), 25, free),
        ("a Job that never speaks", silent(), 30, "Fail retryPolicy/p/r#0"),
        (
            "a Job that replaces the pod",
            pod().backoff(0, 6, 1).spec(rule).retry_policy("p", policy),
            21,
            "Fail retryPolicy/p/r#0",
        ),
        ("no period is waited for", hasty(silent()), 21, "Wait 30"),
        ("the pod is seen before the Job's count", silent().backoff(0, 0, 0), 21, "Wait 30"),
        (
            "without rules nothing is to be said",
            pod().backoff(0, 0, 1).retry_policy("p", policy),
            21,
            "Fail retryPolicy/p/r#0",
        ),
        (
            "a Job that has not counted the pod",
            pod().backoff(0, 2, 1).spec(rule).retry_policy("p", policy),
            21,
            "Fail retryPolicy/p/r#0",
        ),
        ("a Job whose count may be older than the pod", silent().backoff(0, 1, 1), 21, "Wait 30"),
        (
            "a Job of a JobSet, whose count is not known",
            silent().backoff(0, 6, None),
            21,
            "Wait 30",
        ),
        (
            "a pod that its Job must count",
            silent()
                .backoff(0, 1, 1)
                .pod(0, |pod| pod.finalizers = vec!["batch.kubernetes.io/job-tracking".into()]),
            21,
            "Wait 30",
        ),
    ]);
}

#[test]
fn nothing_that_an_owner_says_comes_before_an_overriding_policy() {
    let rule = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts}]}";
    let policy = "{override: true, rules: [{name: r, action: Fail, \
                  onExitCodes: {operator: In, values: [3]}}]}";
    let world = running(&["Job/work:1"]).with(failed(0).code(3)).backoff(0, 0, 1).spec(rule);
    check(vec![("at once", world.overriding("o", policy), 21, "Fail retryPolicy/o/r#0")]);
}

fn forget_end(pod: &mut Pod) {
    pod.conditions.clear();
    for container in &mut pod.containers {
        if let ContainerState::Terminated(end) = &mut container.state {
            end.finished_at = None;
        }
    }
}

#[test]
fn a_component_that_perhaps_replaces_the_pod_speaks_first() {
    let rule = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts}]}";
    let policy = "{rules: [{name: r, action: Fail, onExitCodes: {operator: In, values: [1]}}]}";
    let retriable = running(&["PyTorchJob/work:1"]).with(failed(0).code(137)).spec(rule).object_of(
        0,
        |object| {
            object.report.replaced_by_exit_code.insert(0);
        },
    );
    let killed = "{rules: [{name: r, action: Fail, onExitCodes: {operator: In, values: [137]}}]}";
    let retriable = retriable.retry_policy("p", killed);
    check(vec![(
        "an exit code with which it is replaced",
        retriable,
        20,
        "Fail retryPolicy/p/r#0",
    )]);
    for kind in ["PyTorchJob/work:1", "JobSet/work:1"] {
        let is_set = kind.starts_with("JobSet"); // it deletes pods whatever they did
        let silent = || {
            let world = running(&[kind]).with(failed(0)).retry_policy("p", policy);
            world.object_of(0, |object| {
                let Report { perhaps_unreplaced, replaced_by_exit_code, .. } = &mut object.report;
                let set = if is_set { perhaps_unreplaced } else { replaced_by_exit_code };
                set.insert(0);
            })
        };
        let removed = |requested| {
            silent().spec(rule).pod(0, |pod| {
                (pod.terminating, pod.deletion_requested) = (true, Some(at(requested)));
            })
        };
        let ended_some_time = removed(20).pod(0, forget_end);
        let spoken = || silent().spec(rule).settled(20).fails(0, "PyTorchJobFailed", "", 21);
        let restarts = silent().spec(
            "podFailurePolicy: {rules: [\
            {action: Ignore, onExitCodes: {operator: In, values: [1]}}]}",
        );
        check(vec![
            (kind, silent().spec(rule), 20, "Wait 30"),
            (
                "… and it fails",
                spoken(),
                21,
                "RestartIgnoringLimit failurePolicy/failurePolicyRule0#0",
            ),
            ("… and it does not speak", silent().spec(rule), 30, "Fail retryPolicy/p/r#0"),
            ("… and it replaces the pod", removed(20), 20, "Fail retryPolicy/p/r#0"),
            (
                "… but the pod did not end before",
                removed(19),
                20,
                if is_set { "None" } else { "Wait 30" },
            ),
            ("… but nothing says when it ended", ended_some_time, 20, "Wait 30"),
            ("no rule is about what it says", silent(), 20, "Fail retryPolicy/p/r#0"),
            ("it is not known that nothing replaces it", restarts, 21, "Wait 380"),
        ]);
    }
}

#[test]
fn a_missing_component_is_no_pod_failure() {
    let missing =
        |world: World| world.component(0, |component| component.presence = Presence::Absent);
    let fails = "{defaultAction: Fail}";
    let alone = || missing(running(&["Job/work:1", "Job/b:1"]).with(ready(0)));
    let with_pod = || missing(running(&["Job/work:1", "Job/b:1"]).with(failed(0)));
    let with_other = || missing(running(&["Job/work:1", "Job/b:1"]).with(ready(0)).with(failed(1)));
    let terminal = "podFailurePolicy: {rules: [\
        {action: FailAppWrapper, onExitCodes: {operator: In, values: [1]}}]}";
    check(vec![
        ("it is repaired", alone().retry_policy("p", fails), 30, "Restart retryLimit 0 of 3"),
        (
            "whatever else failed",
            with_other().retry_policy("p", fails),
            30,
            "Restart retryLimit 0 of 3",
        ),
        (
            "a pod of it that failed is the cause",
            with_pod().retry_policy("p", fails),
            30,
            "Fail retryPolicy/p",
        ),
        ("a fatal pod is fatal", with_other().spec(terminal), 30, "Fail podFailurePolicy#0"),
    ]);
    let failure = with_pod().decide(30).verdict.failure.unwrap();
    assert_eq!((failure.pod.as_deref(), failure.exit_code), (Some("work-0"), Some(1)));
}

#[test]
fn an_overriding_policy_is_asked_before_anything_that_a_user_wrote() {
    let policy = "{override: true, rules: [\
        {name: again, action: Retry, onExitCodes: {operator: In, values: [4]}}, \
        {name: never, action: Fail, onExitCodes: {operator: In, values: [3, 4]}}]}";
    let user = "podFailurePolicy: {rules: [\
        {action: Ignore, onExitCodes: {operator: In, values: [3, 4]}}]}";
    let world =
        |code| running(&["Job/work:1"]).with(failed(0).code(code)).backoff(0, 0, 1).spec(user);
    let no = "Fail retryPolicy/p/never#1";
    let ignored = "RestartIgnoringLimit podFailurePolicy#0";
    check(vec![
        ("it fails", world(3).overriding("p", policy), 21, no),
        ("also what the Job replaces", world(3).backoff(0, 6, 1).overriding("p", policy), 21, no),
        ("its Retry leaves it to the rest", world(4).overriding("p", policy), 21, ignored),
        (
            "no rule of it matches",
            world(3).overriding("p", &policy.replace("3, 4", "5")),
            21,
            ignored,
        ),
        (
            "… and the Job replaces the pod",
            world(3).backoff(0, 6, 1).overriding("p", &policy.replace("3, 4", "5")),
            21,
            "Wait 380",
        ),
        ("a user attached it", world(3).retry_policy("p", policy), 21, ignored),
        (
            "it does not override",
            world(3).overriding("p", &policy.replace("true", "false")),
            21,
            ignored,
        ),
    ]);
    let named = |world: World| world.decide(21).verdict.rule.unwrap().overrides;
    assert!(named(world(3).overriding("p", policy)));
    assert!(!named(world(3).spec("{}").retry_policy("p", policy)));
}

#[test]
fn an_overriding_policy_is_asked_also_where_a_component_is_missing() {
    let policy = "{override: true, rules: [\
        {name: never, action: Fail, onExitCodes: {operator: In, values: [74]}}]}";
    let missing = |world: World| world.component(1, |it| it.presence = Presence::Absent);
    let with =
        |code| missing(running(&["Job/work:1", "ConfigMap/cfg:0"]).with(failed(0).code(code)));
    let over = |code| with(code).overriding("p", policy);
    let (no, repaired) = ("Fail retryPolicy/p/never#0", "Restart retryLimit 0 of 3");
    check(vec![
        ("a pod failed", over(74), 21, no),
        ("its Job would replace it", over(74).backoff(0, 6, 1), 21, no),
        ("its Job failed", over(74).fails(0, "BackoffLimitExceeded", "", 20), 21, no),
        ("it was replaced", over(74).ready(0, 1), 21, repaired),
        ("no rule matches", over(1), 21, repaired),
        ("a user attached it", with(74).retry_policy("p", policy), 21, repaired),
    ]);
}

#[test]
fn an_overriding_policy_is_asked_about_what_failed_before() {
    let policy = "{override: true, defaultAction: Retry, rules: [\
        {name: never, action: Fail, onExitCodes: {operator: In, values: [74]}}]}";
    let world = |other: i64, own: i64| {
        let world = running(&["Job/work:1", "Job/b:1"]).with(failed(0).code(74).at(other));
        let world = world.with(failed(1).at(own)).overriding("p", policy);
        world.component(1, |it| it.presence = Presence::Absent)
    };
    check(vec![
        ("a pod of another failed first", world(20, 25), 30, "Fail retryPolicy/p/never#0"),
        ("its own pod failed first", world(25, 20), 30, "Restart retryPolicy/p 0 of 20"),
    ]);
}

#[test]
fn uncounted_restarts_have_a_limit() {
    let world = |used: i32, most: i32| {
        let world = running(&["Job/work:1"]).fails(0, "BackoffLimitExceeded", "", 20).spec(FREE);
        let mut world = world.config(|config| config.retry_policy.max_uncounted_restarts = most);
        world.snapshot.status.uncounted_restarts = used;
        world
    };
    check(vec![
        ("one is left", world(1, 2), 20, "RestartIgnoringLimit failurePolicy/failurePolicyRule0#0"),
        ("none is", world(2, 2), 20, "Fail uncountedLimit/failurePolicyRule0#0 2 of 2"),
        (
            "0 is no limit",
            world(200, 0),
            20,
            "RestartIgnoringLimit failurePolicy/failurePolicyRule0#0",
        ),
    ]);
    assert_eq!(world(1, 2).decide(20).status.uncounted_restarts, 2);
    assert_eq!(world(1, 2).decide(20).status.resetting_count, 0);
}

#[test]
fn a_component_can_be_recreated_uncounted() {
    let rule = "failurePolicy: {rules: [{action: RecreateComponentAndIgnoreMaxRestarts}]}";
    let world = running(&["Job/work:1", "Job/b:1"]).with(ready(1)).spec(rule).retries(3);
    let failed = world.fails(0, "BackoffLimitExceeded", "", 20);
    let decision = failed.decide(20);
    check(vec![(
        "no limit is asked",
        failed.clone(),
        20,
        "RecreateComponent failurePolicy/failurePolicyRule0#0",
    )]);
    let status = &decision.status;
    assert_eq!((status.resetting_count, status.uncounted_restarts), (3, 1));
    assert_eq!(decision.verdict.retry_after_seconds, Some(90));
    // it pauses once everything of the component is gone
    let going = failed.written(&decision);
    let gone = going.component(0, |component| component.presence = Presence::Absent);
    let gone = gone.answered(FreshRead::Gone).settled(25);
    assert_eq!(gone.snapshot.status.retry_after.as_ref().map(|time| time.0), Some(at(115)));
    assert_eq!(gone.says_at(114), "Wait 115");
    assert_eq!(gone.decide(114).verdict.retry_after_seconds, Some(1));
    assert_eq!(gone.says_at(115), "Deploy");
}

#[test]
fn a_part_of_a_component_can_be_targeted() {
    let parts = |component: &mut crate::snapshot::Component| {
        component.pod_sets.push(component.pod_sets[0].clone());
        component.parts = vec![Some("driver".into()), Some("workers".into())];
    };
    let set = |part: &str| {
        let rule = format!(
            "failurePolicy: {{rules: [{{action: FailAppWrapper, targetComponents: [work/{part}]}}]}}"
        );
        running(&["JobSet/work:1"]).component(0, parts).spec(&rule)
    };
    let job =
        |pod_set| FailedJob { pod_set: Some(pod_set), reason: "R".into(), ..FailedJob::default() };
    let failed_job = |world: World, pod_set| {
        let world = world.fails(0, "FailedJobs", "", 20);
        world.component(0, |component| component.failed_jobs.push(job(pod_set)))
    };
    let pods = |part: &str, pod_set| {
        let rule = format!(
            "podFailurePolicy: {{rules: [{{action: FailAppWrapper, targetComponents: [work/{part}], \
             onExitCodes: {{operator: In, values: [1]}}}}]}}"
        );
        let pod = Pod { pod_set: Some(pod_set), ..failed(0) };
        let both = |mut world: World| {
            let sets = world.snapshot.components[0].pod_sets.clone();
            world.snapshot.status.component_status[0].pod_sets = sets;
            world
        };
        both(running(&["JobSet/work:1"]).component(0, parts)).spec(&rule).with(pod)
    };
    let fails = "Fail failurePolicy/failurePolicyRule0#0";
    check(vec![
        ("a Job of the part", failed_job(set("workers"), 1), 20, fails),
        ("a Job of another", failed_job(set("driver"), 1), 20, "Restart retryLimit 0 of 3"),
        ("a pod of the part", pods("workers", 1), 20, "Fail podFailurePolicy#0"),
        ("a pod of another", pods("driver", 1), 80, "Restart retryLimit 0 of 3"),
    ]);
}

#[test]
fn ignored_pods_are_counted_once() {
    let world = running(&["Job/work:1"]).with(ready(0)).with(
        Pod { name: "old".into(), uid: "old".into(), ..failed(0) }.condition(
            "DisruptionTarget",
            "True",
            "EvictionByEvictionAPI",
        ),
    );
    let world = world.spec(IGNORE);
    let first = world.decide(30);
    assert_eq!(first.status.ignored_failures, 1);
    assert!(first.events.iter().any(|event| event.reason == "IgnoredFailure"), "{first:?}");
    let world = world.written(&first);
    assert_eq!(world.decide(31).status.ignored_failures, 1);
    let more = world.with(Pod { name: "more".into(), uid: "more".into(), ..failed(0) }.condition(
        "DisruptionTarget",
        "True",
        "EvictionByEvictionAPI",
    ));
    let second = more.decide(32);
    assert_eq!(second.status.ignored_failures, 2);
    assert!(second.events.is_empty(), "one event an attempt: {:?}", second.events);
}

/// A Terminating pod counts as failed as soon as it is overdue, not when the next event arrives.
#[test]
fn an_ignored_terminating_pod_is_counted_when_it_is_overdue() {
    let name = || "old".to_owned();
    let evicted =
        Pod { name: name(), uid: name(), terminating: true, due_to_go: Some(at(20)), ..ready(0) }
            .condition("DisruptionTarget", "True", "EvictionByEvictionAPI");
    let world = running(&["Job/work:1"]).with(ready(0)).with(evicted).spec(IGNORE);
    // before it counts as one pod too many
    let world = world.limits(|limits| limits.forceful_deletion_grace = Period::from_secs(60));
    let before = world.decide(30);
    assert_eq!(before.status.ignored_failures, 0);
    let overdue = before.requeue.expect("it is decided again without an event");
    let world = world.written(&before);
    let second = (overdue - at(0)).get_seconds();
    assert_eq!(world.decide(second - 1).status.ignored_failures, 0);
    assert_eq!(world.decide(second).status.ignored_failures, 1);
}

/// The message of the pod is asked live as it is recorded, and as a replay asks it.
#[test]
fn a_pod_that_failed_as_a_whole_speaks_through_its_message() {
    let policy =
        "{rules: [{name: r, action: Fail, onTerminationMessage: {pattern: 'low on resource'}}]}";
    let mut pod = failed(0).because("Evicted");
    pod.containers.clear();
    pod.message = Some("The node was low on resource: memory.".into());
    let world = running(&["Job/work:1"]).with(pod).retry_policy("p", policy);
    check(vec![("live", world.clone(), 21, "Fail retryPolicy/p/r#0")]);
    let decision = world.decide(21);
    let world = world.written(&decision);
    let facts = crate::decide::Facts {
        snapshot: &world.snapshot,
        limits: &world.limits,
        config: &world.config,
        now: at(30),
        anchor: at(30),
    };
    let replayed = crate::decide::replay::replay(facts);
    assert!(!replayed.failures[0].differs(), "{replayed:#?}");
}

/// A forced deletion of what a failed AppWrapper kept runs from the start of the deletion, whoever wrote that.
#[test]
fn the_deletion_after_a_failure_keeps_its_beginning() {
    let mut world = running(&["Job/work:1"]).with(pod_of(0, PodPhase::Running));
    world.snapshot.status.phase = Phase::Failed;
    let status = &mut world.snapshot.status;
    crate::api::condition::set(
        &mut status.conditions,
        crate::api::condition::DELETING_RESOURCES,
        true,
        "DeletionInitiated",
        "",
        at(5),
    );
    status.since = None;
    let decision = world.decide(50);
    let since = decision.status.since.and_then(|since| since.deleting);
    assert_eq!(since.map(|time| time.0), Some(at(5)));
}

/// Pods are seen one by one: the first cause is known only when all that failed are.
#[test]
fn every_decision_about_a_failure_knows_all_pods() {
    let retry = "{rules: [{name: r, action: Retry, onExitCodes: {operator: In, values: [1]}}]}";
    let failed = || running(&["Job/work:1"]).with(failed(0)).backoff(0, 0, 1);
    let missing = running(&["Job/work:1"])
        .with(ready(0))
        .component(0, |component| component.presence = Presence::Absent)
        .answered(FreshRead::Missing);
    for (what, world) in [
        ("a rule that needs no grace", failed().retry_policy("p", retry)),
        ("a component that failed", failed().fails(0, "BackoffLimitExceeded", "", 20)),
        ("a component that is missing", missing),
    ] {
        assert_eq!(world.ask(21).ask, FreshRead::Pods, "{what}");
    }
}

/// Says nothing of the components that succeeded: `Outcome` is theirs.
#[test]
fn a_container_that_ended_with_0_is_no_first_cause() {
    let ended = container("side", 0, "Completed", "", 19);
    let world = running(&["Job/work:1"]).with(failed(0).and(ended));
    let outcome = Outcome::Failed { reason: "R".into(), message: String::new(), at: Some(at(20)) };
    let world = world.object_of(0, |object| object.report.outcome = outcome);
    assert_eq!(world.decide(20).verdict.failure.unwrap().exit_code, Some(1));
}

/// A container of it may have ended before: what Kubernetes will say of the pod is that it was lost.
#[test]
fn a_lost_pod_has_no_exit_code() {
    let lost = |state| {
        let pod = ready(0).and(container("side", 3, "OOMKilled", "", 10));
        running(&["Job/work:1"]).with(pod).settled(2).loses_node(state, 20)
    };
    let of_pods = "podFailurePolicy: {rules: [\
        {action: FailAppWrapper, onExitCodes: {operator: In, values: [3]}}]}";
    let of_codes = "{rules: [{name: r, action: Fail, onExitCodes: {operator: In, values: [3]}}, \
                    {name: o, action: Fail, onConditions: [OOMKilled]}], defaultAction: Retry}";
    let terminal = |world: World| world.limits(|limits| limits.terminal_exit_codes = [3].into());
    let retryable = |world: World| world.limits(|limits| limits.retryable_exit_codes = [5].into());
    let counted = "Restart retryLimit 0 of 3";
    for state in [Lost::Deleted, Lost::NotReady] {
        check(vec![
            ("terminalExitCodes", terminal(lost(state)), 20, "Wait 80"),
            ("… after its grace", terminal(lost(state)), 80, counted),
            ("retryableExitCodes", retryable(lost(state)), 80, counted),
            ("podFailurePolicy", lost(state).spec(of_pods), 80, counted),
            (
                "RetryPolicy",
                lost(state).retry_policy("p", of_codes),
                80,
                "Restart retryPolicy/p 0 of 20",
            ),
        ]);
    }
    let beside = terminal(lost(Lost::NotReady)).with(failed(0).on("node-2").at(21));
    check(vec![("another pod failed", beside.backoff(0, 0, 1), 81, counted)]);
}
