//! Stage 4: `spec.failurePolicy`, KEP-262; and stage 6, which grants what it asks for.

use super::build::{check, container, failed, ready, running};
use crate::api::Phase;
use crate::decide::tests::given::{World, at};
use crate::plan::Action;
use crate::snapshot::lost::Lost;
use crate::snapshot::{FailedJob, Pod, PodPhase, Presence};

const COUNTED: &str = "Restart retryLimit 0 of 3";

fn rules(lines: &[&str]) -> String {
    let rules: Vec<String> = lines
        .iter()
        .map(|line| {
            format!(
                "
  - {{{line}}}"
            )
        })
        .collect();
    let rules = rules.concat();
    format!("failurePolicy:\n  rules:{rules}")
}

/// A Job that failed at second 20 for this reason.
fn job(reason: &str, message: &str) -> World {
    running(&["Job/work:2"]).fails(0, reason, message, 20)
}

/// A component of two parts, each a pod set of one pod.
fn of_parts(title: &str, parts: [&str; 2]) -> World {
    let mut world = running(&[title]).component(0, |component| {
        component.pod_sets.push(component.pod_sets[0].clone());
        component.parts = parts.map(|part| Some(part.to_owned())).to_vec();
    });
    let sets = world.snapshot.components[0].pod_sets.clone();
    world.snapshot.status.component_status[0].pod_sets = sets;
    world
}

/// A pod of the second part.
fn of_second(pod: Pod) -> Pod {
    Pod { pod_set: Some(1), ..pod }
}

fn evicted(pod: Pod) -> Pod {
    pod.condition("DisruptionTarget", "True", "EvictionByEvictionAPI")
}

const IGNORE_EVICTED: &str = "podFailurePolicy: {rules: [\
    {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}";

/// Two Jobs; the second one failed first.
fn two() -> World {
    running(&["Job/a", "Job/b"]).fails(0, "BackoffLimitExceeded", "of a", 30).fails(
        1,
        "DeadlineExceeded",
        "of b",
        20,
    )
}

#[test]
fn each_action_does_what_it_says() {
    let world = |action: &str| {
        job("BackoffLimitExceeded", "m").spec(&rules(&[&format!("action: {action}")]))
    };
    let ignoring = "RestartAppWrapperAndIgnoreMaxRestarts";
    check(vec![
        ("FailAppWrapper", world("FailAppWrapper"), 20, "Fail failurePolicy/failurePolicyRule0#0"),
        (
            "RestartAppWrapper",
            world("RestartAppWrapper"),
            20,
            "Restart failurePolicy/failurePolicyRule0#0 0 of 3",
        ),
        (
            "… with no restart left",
            world("RestartAppWrapper").retries(3),
            20,
            "Fail retryLimit/failurePolicyRule0#0 3 of 3",
        ),
        (
            "RestartAppWrapperAndIgnoreMaxRestarts",
            world(ignoring),
            20,
            "RestartIgnoringLimit failurePolicy/failurePolicyRule0#0",
        ),
        (
            "… with no restart left",
            world(ignoring).retries(30),
            20,
            "RestartIgnoringLimit failurePolicy/failurePolicyRule0#0",
        ),
        (
            "RecreateComponent",
            world("RecreateComponent"),
            20,
            "RecreateComponent failurePolicy/failurePolicyRule0#0 0 of 3",
        ),
        (
            "… with no restart left",
            world("RecreateComponent").retries(3),
            20,
            "Fail retryLimit/failurePolicyRule0#0 3 of 3",
        ),
    ]);
    for (action, count) in [("RestartAppWrapper", 3), (ignoring, 2), ("RecreateComponent", 3)] {
        let decision = world(action).retries(2).decide(20);
        assert_eq!(decision.status.resetting_count, count, "{action}");
        assert_eq!(decision.verdict.counted, Some(count == 3), "{action}");
    }
}

#[test]
fn the_first_rule_that_matches_decides_for_a_component() {
    let restart = "name: first, action: RestartAppWrapper, onJobFailureReasons: [DeadlineExceeded]";
    let fail = "action: FailAppWrapper";
    let world = |lines: &[&str], reason| job(reason, "m").spec(&rules(lines));
    check(vec![
        (
            "the first that matches",
            world(&[restart, fail], "DeadlineExceeded"),
            20,
            "Restart failurePolicy/first#0 0 of 3",
        ),
        (
            "the next, with the name that it has by default",
            world(&[restart, fail], "BackoffLimitExceeded"),
            20,
            "Fail failurePolicy/failurePolicyRule1#1",
        ),
        ("none", world(&[restart], "BackoffLimitExceeded"), 20, COUNTED),
    ]);
}

#[test]
fn maintenance_is_free_and_any_other_failure_has_a_limit() {
    let free = "name: maintenance, action: RestartAppWrapperAndIgnoreMaxRestarts, \
                onJobFailureReasons: [PodFailurePolicy]";
    let world = |reason, used| job(reason, "m").spec(&rules(&[free])).retries(used);
    check(vec![
        (
            "maintenance, and no restart is left",
            world("PodFailurePolicy", 3),
            20,
            "RestartIgnoringLimit failurePolicy/maintenance#0",
        ),
        ("another failure", world("BackoffLimitExceeded", 2), 20, "Restart retryLimit 2 of 3"),
        ("… and none is left", world("BackoffLimitExceeded", 3), 20, "Fail retryLimit 3 of 3"),
    ]);
}

#[test]
fn where_no_rule_matches_the_later_stages_decide() {
    let other = "action: FailAppWrapper, onJobFailureReasons: [DeadlineExceeded]";
    let world = || job("BackoffLimitExceeded", "m").spec(&rules(&[other]));
    let again = "{defaultAction: Retry, retryLimit: 7}";
    check(vec![
        ("the retry limit", world(), 20, COUNTED),
        ("… none is left", world().retries(3), 20, "Fail retryLimit 3 of 3"),
        (
            "a retry policy",
            world().retry_policy("p", again).retries(3),
            20,
            "Restart retryPolicy/p 0 of 7",
        ),
        ("… that fails", world().retry_policy("p", "{}"), 20, "Fail retryPolicy/p"),
    ]);
}

#[test]
fn a_restart_is_of_every_component_also_of_one_that_succeeded() {
    let world = running(&["Job/a", "Job/b"]).succeeds(0).fails(1, "R", "", 20);
    let decision = world.decide(20);
    assert_eq!((decision.next, decision.verdict.delete.clone()), (Phase::Resetting, vec![0, 1]));
    let resumed = world.written(&decision).all_gone().settled(21).settled(1000);
    assert_eq!(resumed.snapshot.status.phase, Phase::Resuming);
    assert_eq!(resumed.decide(1000).actions, [Action::Create(0), Action::Create(1)]);
}

#[test]
fn all_filters_of_a_rule_must_hold() {
    let fail = |filters: &str| {
        let world = running(&["Job/a", "Job/b"]).fails(1, "DeadlineExceeded", "ran for 10m", 20);
        world.spec(&rules(&[&format!("name: f, action: FailAppWrapper, {filters}")]))
    };
    let fails = "Fail failurePolicy/f#0";
    check(vec![
        ("a reason", fail("onJobFailureReasons: [FailedIndexes, DeadlineExceeded]"), 20, fails),
        ("no reason", fail("onJobFailureReasons: [FailedIndexes]"), 20, COUNTED),
        ("a reason is no pattern", fail("onJobFailureReasons: [Deadline]"), 20, COUNTED),
        ("a message", fail("onJobFailureMessagePatterns: [x, 'for \\d+m']"), 20, fails),
        ("no message", fail("onJobFailureMessagePatterns: ['^for']"), 20, COUNTED),
        ("a component", fail("targetComponents: [a, b]"), 20, fails),
        ("another component", fail("targetComponents: [a]"), 20, COUNTED),
        ("by kind and name", fail("targetComponents: [Job/b]"), 20, fails),
        (
            "empty lists ask for nothing",
            fail("onJobFailureReasons: [], targetComponents: []"),
            20,
            fails,
        ),
        (
            "all of them",
            fail(
                "targetComponents: [b], onJobFailureReasons: [DeadlineExceeded], \
                 onJobFailureMessagePatterns: [ran]",
            ),
            20,
            fails,
        ),
        (
            "all but the message",
            fail("targetComponents: [b], onJobFailureMessagePatterns: [walked]"),
            20,
            COUNTED,
        ),
        (
            "all but the reason",
            fail("onJobFailureReasons: [FailedIndexes], onJobFailureMessagePatterns: [ran]"),
            20,
            COUNTED,
        ),
    ]);
}

#[test]
fn the_component_that_failed_first_decides_not_the_first_rule() {
    let fail_a = "name: a, action: FailAppWrapper, targetComponents: [a]";
    let ignore_b = "name: b, action: RestartAppWrapperAndIgnoreMaxRestarts, targetComponents: [b]";
    let restart_b = "name: rb, action: RestartAppWrapper, targetComponents: [b]";
    let restart_a = "name: ra, action: RestartAppWrapper, targetComponents: [a]";
    let world = |lines: &[&str]| two().spec(&rules(lines));
    check(vec![
        (
            "b failed first",
            world(&[fail_a, ignore_b]),
            30,
            "RestartIgnoringLimit failurePolicy/b#1",
        ),
        (
            "RestartAppWrapper asks for the next",
            world(&[restart_b, fail_a]),
            30,
            "Fail failurePolicy/a#1",
        ),
        ("no match asks for the next", world(&[fail_a]), 30, "Fail failurePolicy/a#0"),
        (
            "both restart: the first cause's rule is named",
            world(&[restart_a, restart_b]),
            30,
            "Restart failurePolicy/rb#1 0 of 3",
        ),
    ]);
}

#[test]
fn a_component_is_not_recreated_beside_a_restart_that_comes_anyway() {
    let again = "name: again, action: RecreateComponent, targetComponents: [a]";
    let free = "name: again, action: RecreateComponentAndIgnoreMaxRestarts, targetComponents: [a]";
    let restart = "name: r, action: RestartAppWrapper, targetComponents: [b]";
    let fail = "name: f, action: FailAppWrapper, targetComponents: [a]";
    let no_restart = |world: World| world.limits(|limits| limits.retry_limit = 1).retries(1);
    let gone = |lines: &[&str]| {
        let world = running(&["Job/a", "Job/b"]).fails(0, "BackoffLimitExceeded", "of a", 30);
        world.component(1, |one| one.presence = Presence::Absent).spec(&rules(lines))
    };
    let both = |lines: &[&str]| two().spec(&rules(lines));
    let lost = running(&["Job/a:1", "Pod/b:1"]).with(ready(1)).settled(2).backoff(0, 6, 0);
    let lost = lost.with(ready(0)).settled(3).loses_node(Lost::Deleted, 20);
    let of_pod = "name: again, action: RecreateComponent, targetComponents: [b]";
    let lost_first = running(&["Pod/b:1", "Job/a:1"]).with(ready(0)).settled(2).backoff(1, 6, 0);
    let lost_first = lost_first.with(ready(1)).settled(3).loses_node(Lost::Deleted, 20);
    check(vec![
        ("b is missing", gone(&[again]), 30, COUNTED),
        ("… with a pod that failed", gone(&[again]).with(failed(1)), 30, COUNTED),
        ("… and no restart is left", no_restart(gone(&[again])), 30, "Fail retryLimit 1 of 1"),
        ("… uncounted", gone(&[free]), 30, COUNTED),
        ("… a rule that fails still does", gone(&[fail]), 30, "Fail failurePolicy/f#0"),
        ("b restarts everything", both(&[restart, again]), 30, "Restart failurePolicy/r#0 0 of 3"),
        ("no rule is about b", both(&[again]), 30, COUNTED),
        ("… a rule that fails still does", both(&[fail]), 30, "Fail failurePolicy/f#0"),
        ("a Pod that was lost with its node", lost_first.spec(&rules(&[again])), 80, COUNTED),
        (
            "a component that only lost a pod",
            lost.spec(&rules(&[of_pod])),
            20,
            "RecreateComponent failurePolicy/again#0 0 of 3",
        ),
    ]);
}

#[test]
fn each_failed_job_of_a_job_set_is_asked_about() {
    let world = |filters: &str| {
        running(&["JobSet/work:2"])
            .fails(0, "FailedJobs", "jobset failed", 20)
            .failed_job_of(0, "PodFailurePolicy", "pod work-0 exited with 42")
            .failed_job_of(0, "FailedIndexes", "later")
            .spec(&rules(&[&format!("name: f, action: FailAppWrapper, {filters}")]))
    };
    let fails = "Fail failurePolicy/f#0";
    check(vec![
        ("its own reason", world("onJobFailureReasons: [FailedJobs]"), 20, fails),
        ("its own message", world("onJobFailureMessagePatterns: [jobset]"), 20, fails),
        ("the Job's reason", world("onJobFailureReasons: [PodFailurePolicy]"), 20, fails),
        ("the Job's message", world("onJobFailureMessagePatterns: ['with 42']"), 20, fails),
        ("a later Job's", world("onJobFailureReasons: [FailedIndexes]"), 20, fails),
        ("… its message too", world("onJobFailureMessagePatterns: [later]"), 20, fails),
        ("no failure has both", world("onJobFailureReasons: [FailedIndexes], onJobFailureMessagePatterns: [work-0]"), 20, COUNTED),
        (
            "a restart that is asked for ends the asking about this component",
            world("onJobFailureReasons: [FailedJobs]").spec(&rules(&[
                "action: RestartAppWrapper, onJobFailureReasons: [FailedIndexes]",
                "action: FailAppWrapper, onJobFailureReasons: [FailedJobs]",
            ])),
            20,
            "Restart failurePolicy/failurePolicyRule0#0 0 of 3",
        ),
        (
            "the first failure goes through all rules first",
            world("onJobFailureReasons: [FailedJobs]").spec(&rules(&[
                "action: FailAppWrapper, onJobFailureReasons: [FailedIndexes]",
                "name: f, action: RestartAppWrapperAndIgnoreMaxRestarts, onJobFailureReasons: [PodFailurePolicy]",
            ])),
            20,
            "RestartIgnoringLimit failurePolicy/f#1",
        ),
        (
            "the first rule that matches a Job decides about it",
            world("onJobFailureReasons: [FailedJobs]").spec(&rules(&[
                "name: f, action: RestartAppWrapperAndIgnoreMaxRestarts, onJobFailureReasons: [PodFailurePolicy]",
                "action: FailAppWrapper",
            ])),
            20,
            "RestartIgnoringLimit failurePolicy/f#0",
        ),
    ]);
}

#[test]
fn a_job_of_which_every_failed_pod_is_ignored_is_passed_over() {
    let policy = format!(
        "{IGNORE_EVICTED}\n{}",
        rules(&[
            "name: w, action: FailAppWrapper, targetComponents: [set/workers]",
            "name: d, action: RestartAppWrapper, targetComponents: [set/driver]",
        ])
    );
    let over = "BackoffLimitExceeded";
    let job = |pod_set, reason: &str, second| FailedJob {
        pod_set: Some(pod_set),
        reason: reason.to_owned(),
        at: Some(at(second)),
        ..FailedJob::default()
    };
    let of_jobs = |jobs: Vec<FailedJob>| {
        let set = of_parts("JobSet/set:1", ["workers", "driver"]).spec(&policy);
        set.component(0, |set| set.failed_jobs = jobs).fails(0, "FailedJobs", "", 12)
    };
    let world = |worker: Pod, reason: &str| {
        let set = of_jobs(vec![job(0, reason, 10), job(1, over, 11)]).with(worker);
        set.with(of_second(failed(0).at(11)))
    };
    let ignored = || evicted(failed(0).at(10));
    let overdue = || job(1, "DeadlineExceeded", 11);
    let last = || of_jobs(vec![job(0, over, 10), overdue()]).with(ignored());
    let first = of_jobs(vec![overdue(), job(0, over, 12)]).with(ignored());
    let deleted = Pod { terminating: true, deletion_requested: Some(at(11)), ..failed(0).at(12) };
    let (fails, restarts) = ("Fail failurePolicy/w#0", "Restart failurePolicy/d#1 0 of 3");
    check(vec![
        ("the driver decides", world(ignored(), over), 12, restarts),
        ("the driver ran for too long, and its pod is gone", last(), 12, restarts),
        ("… before the workers failed", first, 12, restarts),
        ("… and its Job deleted its pod", last().with(of_second(deleted)), 12, restarts),
        ("nothing ignores the worker", world(failed(0).at(10), over), 12, fails),
        ("the workers ran for too long", world(ignored(), "DeadlineExceeded"), 12, fails),
        ("another worker fails", world(ignored(), over).with(failed(0).at(10)), 12, fails),
    ]);
}

#[test]
fn a_wrapped_pod_that_failed_is_a_failed_component() {
    let rule = "name: f, action: FailAppWrapper, targetComponents: [work], \
                onJobFailureReasons: [OOMKilled]";
    let world = |pod| running(&["Pod/work"]).spec(&rules(&[rule])).with(pod);
    let killed = failed(0).ended(container("main", 137, "OOMKilled", "", 20));
    let ignoring = "name: r, action: RestartAppWrapperAndIgnoreMaxRestarts";
    let restarting = running(&["Pod/work"]).spec(&rules(&[ignoring])).with(failed(0));
    check(vec![
        ("its container's reason", world(killed), 20, "Fail failurePolicy/f#0"),
        ("its own reason", world(failed(0).because("OOMKilled")), 20, "Fail failurePolicy/f#0"),
        ("another reason", world(failed(0)), 20, "Wait 80"),
        (
            "a restart comes at once: nothing replaces it",
            restarting,
            20,
            "RestartIgnoringLimit failurePolicy/r#0",
        ),
    ]);
    let job = running(&["Job/work:2"]).spec(&rules(&["action: FailAppWrapper"])).with(failed(0));
    check(vec![("a pod of a Job that goes on is none", job, 80, COUNTED)]);
}

#[test]
fn a_component_of_which_every_failed_pod_is_ignored_is_left_out() {
    let policy = format!(
        "podFailurePolicy: {{rules: [{{action: Ignore, \
         onExitCodes: {{operator: In, values: [42]}}}}]}}\n{}",
        rules(&["name: b, action: FailAppWrapper, targetComponents: [b]"])
    );
    let deadline = || two().spec(&policy).with(failed(0)).with(failed(1).code(42));
    let world = || deadline().fails(1, "BackoffLimitExceeded", "of b", 20);
    let fails = "Fail failurePolicy/b#0";
    check(vec![
        ("b failed first, and is ignored", world(), 30, COUNTED),
        ("b is not ignored", world().with(failed(1)), 30, fails),
        ("b ran for too long, whatever its pods did", deadline(), 30, fails),
    ]);
}

#[test]
fn an_ignored_pod_does_not_say_when_its_component_ran_for_too_long() {
    let lines = rules(&[
        "name: a, action: FailAppWrapper, targetComponents: [a]",
        "name: b, action: RestartAppWrapperAndIgnoreMaxRestarts, targetComponents: [b]",
    ]);
    let world = |policy: &str| {
        let world = running(&["Job/a", "Job/b"]).spec(&format!("{policy}\n{lines}"));
        let world = world.with(evicted(failed(0).at(10))).with(failed(1).at(20));
        let world = world.fails(1, "BackoffLimitExceeded", "of b", 21);
        world.fails(0, "DeadlineExceeded", "of a", 30)
    };
    let of_b = "RestartIgnoringLimit failurePolicy/b#1";
    let a_failed_first = world(IGNORE_EVICTED).fails(0, "DeadlineExceeded", "of a", 19);
    check(vec![
        ("its pod is ignored", world(IGNORE_EVICTED), 30, of_b),
        ("its time was over before b failed", a_failed_first, 30, "Fail failurePolicy/a#0"),
        ("nothing ignores its pod", world(""), 30, "Fail failurePolicy/a#0"),
    ]);
}

#[test]
fn an_ignored_pod_names_no_part_that_failed() {
    let lines = rules(&[
        "name: w, action: RestartAppWrapperAndIgnoreMaxRestarts, targetComponents: [train/Worker]",
        "name: m, action: FailAppWrapper, targetComponents: [train/Master]",
    ]);
    let train = || of_parts("PyTorchJob/train:1", ["Master", "Worker"]);
    let both = || {
        let world = train().object_of(0, |object| object.report.unreplaced.extend([0, 1]));
        let world = world.with(failed(0).at(11)).with(of_second(evicted(failed(0).at(10))));
        world.fails(0, "JobFailed", "", 12)
    };
    let ignoring = format!("{IGNORE_EVICTED}\n{lines}");
    let terminating = || {
        let (requested, due) = (Some(at(20)), Some(at(50)));
        let pod = Pod { deletion_requested: requested, due_to_go: due, ..evicted(ready(0)) };
        of_second(Pod { terminating: true, ..pod })
    };
    // the Master was replaced before the Worker is evicted
    let ending = train().with(failed(0).at(5)).with(ready(0)).with(of_second(ready(0)));
    let ending =
        ending.spec(&lines).settled(6).pod_is(2, terminating()).fails(0, "JobFailed", "", 21);
    let overdue = |policy: &str| {
        let world = train().with(of_second(evicted(failed(0).at(10)))).spec(policy);
        world.fails(0, "DeadlineExceeded", "", 12)
    };
    let free = "RestartIgnoringLimit failurePolicy/w#0";
    check(vec![
        ("the Worker is ignored", both().spec(&ignoring), 12, "Fail failurePolicy/m#1"),
        ("nothing is ignored", both().spec(&lines), 12, free),
        ("no other pod failed, and the time is over", overdue(&ignoring), 12, COUNTED),
        ("… and nothing is ignored", overdue(&lines), 12, free),
        ("the Worker is still being ended", ending, 21, free),
    ]);
}

#[test]
fn nothing_is_recreated_beside_what_is_ignored_and_restarts_everything() {
    let policy = format!(
        "podFailurePolicy: {{rules: [{{action: Ignore, \
         onExitCodes: {{operator: In, values: [42]}}}}]}}\n{}",
        rules(&["name: b, action: RecreateComponent, targetComponents: [b]"])
    );
    let jobs = |code: i32| {
        let world = two().spec(&policy).with(failed(0).code(code).at(10));
        world.with(failed(1).at(20)).fails(1, "BackoffLimitExceeded", "of b", 20)
    };
    let pods = |code: i32| {
        let world = running(&["Pod/a:1", "Pod/b:1"]).spec(&policy);
        world.with(failed(0).code(code).at(10)).with(failed(1).at(20))
    };
    check(vec![
        ("a Job of which every pod is ignored", jobs(42).fails(0, "R", "", 10), 21, COUNTED),
        ("a Pod that is ignored", pods(42), 80, COUNTED),
    ]);
}

#[test]
fn the_limit_is_max_restarts_or_else_the_retry_limit_and_never_above_the_global_one() {
    let most = |most: i32, used| {
        job("R", "m").spec(&format!("failurePolicy: {{maxRestarts: {most}}}")).retries(used)
    };
    let global = |world: World, most: i32| {
        world.configured(&format!("retryPolicy: {{globalMaxRetries: {most}}}"))
    };
    check(vec![
        ("maxRestarts, below", most(5, 4), 20, "Restart retryLimit 4 of 5"),
        ("maxRestarts, reached", most(5, 5), 20, "Fail retryLimit 5 of 5"),
        ("maxRestarts is lower", most(1, 1), 20, "Fail retryLimit 1 of 1"),
        ("maxRestarts: 0", most(0, 0), 20, "Fail retryLimit 0 of 0"),
        (
            "no maxRestarts: the retry limit",
            job("R", "m").retries(2),
            20,
            "Restart retryLimit 2 of 3",
        ),
        ("… reached", job("R", "m").retries(3), 20, "Fail retryLimit 3 of 3"),
        ("the global limit is 20 by default", most(99, 19), 20, "Restart retryLimit 19 of 20"),
        ("… and binds", most(99, 20), 20, "Fail retryLimit 20 of 20"),
        ("the global limit is lowered", global(most(5, 2), 2), 20, "Fail retryLimit 2 of 2"),
        ("used up beyond the limit", most(1, 9), 20, "Fail retryLimit 9 of 1"),
    ]);
}

#[test]
fn a_restart_that_the_failure_policy_asks_for_is_granted_by_the_stage_that_counts() {
    let world = || job("R", "m").spec(&rules(&["name: r, action: RestartAppWrapper"]));
    check(vec![
        (
            "by stage 6: the rule that asked is named",
            world(),
            20,
            "Restart failurePolicy/r#0 0 of 3",
        ),
        (
            "by stage 5: the retry policy is named, and its limit asked",
            world().retry_policy("p", "{defaultAction: Retry, retryLimit: 7}").retries(3),
            20,
            "Restart retryPolicy/p 0 of 7",
        ),
        (
            "stage 5 may refuse it",
            world().retry_policy("p", "{defaultAction: Fail}"),
            20,
            "Fail retryPolicy/p",
        ),
        (
            "a verdict of stage 4 never comes to stage 5",
            job("R", "m")
                .spec(&rules(&["name: r, action: RestartAppWrapperAndIgnoreMaxRestarts"]))
                .retry_policy("p", "{defaultAction: Fail}"),
            20,
            "RestartIgnoringLimit failurePolicy/r#0",
        ),
        (
            "nor does RecreateComponent",
            job("R", "m")
                .spec(&rules(&["name: r, action: RecreateComponent"]))
                .retry_policy("p", "{defaultAction: Fail}"),
            20,
            "RecreateComponent failurePolicy/r#0 0 of 3",
        ),
    ]);
}

/// Source: `docs/user/policies.md#pods-that-stay-terminating`: such a pod is asked about here only on a lost node.
#[test]
fn a_wrapped_pod_that_stays_terminating_is_no_failed_component() {
    let fails = "failurePolicy: {rules: [{action: FailAppWrapper}]}";
    let going = || {
        let pod = Pod { terminating: true, due_to_go: Some(at(30)), ..ready(0) };
        let world = running(&["Pod/work:1"]).spec(fails).with(ready(0)).settled(2);
        world.pod(0, |own| *own = Pod { name: own.name.clone(), uid: own.uid.clone(), ..pod })
    };
    let ended = |pod: &mut Pod| (pod.phase, pod.containers) = (PodPhase::Failed, vec![]);
    let by_rule = "Fail failurePolicy/failurePolicyRule0#0";
    check(vec![
        ("its node is well", going(), 630, "Restart retryLimit 0 of 3"),
        ("its node is lost", going().loses_node(Lost::Deleted, 40), 630, by_rule),
        ("it has failed", going().pod(0, ended), 630, by_rule),
    ]);
}
