//! Stage 2: `spec.podFailurePolicy`, KEP-3329.

use super::build::{check, container, failed, pod_of, ready, running, runs};
use crate::decide::tests::given::{World, at};
use crate::snapshot::lost::Lost;
use crate::snapshot::{Pod, PodPhase};

/// A Job of two pods.
fn job() -> World {
    running(&["Job/work:2"])
}

/// A policy of such rules: `action: …`, what it is about.
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
    format!("podFailurePolicy:\n  rules:{rules}")
}

const IGNORE_DISRUPTION: &str = "action: Ignore, onPodConditions: [{type: DisruptionTarget}]";
const FAIL_ON_42: &str = "action: FailAppWrapper, onExitCodes: {operator: In, values: [42]}";
const IGNORE_43: &str = "action: Ignore, onExitCodes: {operator: In, values: [43]}";
const IGNORE_42: &str = "action: Ignore, onExitCodes: {operator: In, values: [42]}";
const COUNT_42: &str = "action: Count, onExitCodes: {operator: In, values: [42]}";

const FAILS: &str = "Fail podFailurePolicy#0";
const UNCOUNTED: &str = "RestartIgnoringLimit podFailurePolicy#0";
const IN_GRACE: &str = "Wait 80";
const COUNTED: &str = "Restart retryLimit 0 of 3";

#[test]
fn a_rule_that_fails_does_so_at_once() {
    let policy = rules(&[FAIL_ON_42]);
    let world = |code| job().spec(&policy).with(failed(0).code(code)).ready(0, 1);
    check(vec![
        ("a code that is named", world(42), 20, FAILS),
        ("another", world(41), 20, IN_GRACE),
        ("… is the retry limit's, after its grace", world(41), 80, COUNTED),
        ("no retry is asked for", world(42).retries(0), 20, FAILS),
    ]);
}

#[test]
fn count_and_no_match_are_no_verdict_and_go_on() {
    let world = |line: &str| job().spec(&rules(&[line])).with(failed(0).code(42)).ready(0, 1);
    check(vec![
        ("Count waits", world(COUNT_42), 79, IN_GRACE),
        ("… goes on, and is named", world(COUNT_42), 80, "Restart retryLimit#0 0 of 3"),
        ("no match waits", world(IGNORE_43), 79, IN_GRACE),
        ("… and goes on", world(IGNORE_43), 80, COUNTED),
    ]);
}

#[test]
fn the_first_matching_rule_decides_for_each_pod() {
    let world = |lines: &[&str]| job().spec(&rules(lines)).with(failed(0).code(42)).ready(0, 1);
    check(vec![
        ("Count hides a later FailAppWrapper", world(&[COUNT_42, FAIL_ON_42]), 20, IN_GRACE),
        ("Ignore hides it, too", world(&[IGNORE_42, FAIL_ON_42]), 20, "Wait 380"),
        ("FailAppWrapper hides Ignore", world(&[FAIL_ON_42, IGNORE_42]), 20, FAILS),
        ("no match asks the next", world(&[IGNORE_43, FAIL_ON_42]), 20, "Fail podFailurePolicy#1"),
    ]);
}

#[test]
fn exit_codes_match_as_in_a_job() {
    let on = |codes: &str| {
        let line = format!("action: FailAppWrapper, onExitCodes: {{{codes}}}");
        job().spec(&rules(&[&line])).ready(0, 1)
    };
    let two = |first, second| {
        let main = container("main", first, "Error", "", 20);
        failed(0).ended(main).and(container("side", second, "Error", "", 21))
    };
    let init = failed(0).ended(runs("main")).and_init(container("prepare", 42, "Error", "", 20));
    let evicted = failed(0).code(0).because("Evicted");
    let is_in = "operator: In, values: [41, 42]";
    let not_in = "operator: NotIn, values: [41, 42]";
    let of_side = "containerName: side, operator: In, values: [42]";
    let ended = "Wait 81"; // the grace period begins with the end of the last container
    check(vec![
        ("In: one of the values", on(is_in).with(two(42, 1)), 21, FAILS),
        ("In: any container", on(is_in).with(two(1, 42)), 21, FAILS),
        ("In: none of the values", on(is_in).with(two(1, 2)), 21, ended),
        ("NotIn: another code", on(not_in).with(two(1, 42)), 21, FAILS),
        ("NotIn: only the values", on(not_in).with(two(41, 42)), 21, ended),
        ("NotIn: 0 is never meant", on(not_in).with(two(42, 0)), 21, ended),
        ("NotIn: no container failed", on(not_in).with(evicted), 21, IN_GRACE),
        ("containerName: the named one", on(of_side).with(two(1, 42)), 21, FAILS),
        ("containerName: another one", on(of_side).with(two(42, 1)), 21, ended),
        ("init containers count as well", on(is_in).with(init), 21, FAILS),
    ]);
}

#[test]
fn pod_conditions_match_by_type_and_status() {
    let on = |pairs: &str| {
        let line = format!("action: FailAppWrapper, onPodConditions: [{pairs}]");
        job().spec(&rules(&[&line])).ready(0, 1)
    };
    let disrupted = |status| failed(0).condition("DisruptionTarget", status, "Any");
    let is_true = "{type: DisruptionTarget, status: \"True\"}";
    let default = "{type: DisruptionTarget}";
    let or = "{type: ConfigIssue}, {type: DisruptionTarget}";
    let is_false = "{type: DisruptionTarget, status: \"False\"}";
    check(vec![
        ("True", on(is_true).with(disrupted("True")), 20, FAILS),
        ("not True", on(is_true).with(disrupted("False")), 20, IN_GRACE),
        ("True by default", on(default).with(disrupted("True")), 20, FAILS),
        ("False where that is meant", on(is_false).with(disrupted("False")), 20, FAILS),
        ("no such condition", on(is_true).with(failed(0)), 20, IN_GRACE),
        ("any of several", on(or).with(disrupted("True")), 20, FAILS),
    ]);
}

#[test]
fn a_rule_is_only_about_its_target_components() {
    let line = "action: FailAppWrapper, targetComponents: [b], \
                onExitCodes: {operator: In, values: [42]}";
    let two = || running(&["Job/a:1", "Job/b:1"]).spec(&rules(&[line]));
    let of_nothing = crate::snapshot::Pod { component: None, ..failed(1).code(42) };
    check(vec![
        ("its own", two().ready(0, 1).with(failed(1).code(42)), 20, FAILS),
        ("another's", two().ready(1, 1).with(failed(0).code(42)), 20, IN_GRACE),
        ("nobody's", two().ready(0, 1).ready(1, 1).with(of_nothing), 20, "None"),
    ]);
}

#[test]
fn fail_app_wrapper_of_any_pod_comes_before_any_ignore() {
    let policy = rules(&[IGNORE_43, FAIL_ON_42]);
    let world = || job().spec(&policy);
    let early = || failed(0).code(43).at(10);
    let late = || failed(0).code(42).at(20);
    check(vec![
        (
            "the ignored one first",
            world().with(early()).with(late()),
            20,
            "Fail podFailurePolicy#1",
        ),
        (
            "in a component that failed",
            world().with(early()).with(late()).fails(0, "BackoffLimitExceeded", "", 20),
            20,
            "Fail podFailurePolicy#1",
        ),
        (
            "the component's only failure is ignored, another pod is fatal",
            running(&["Job/a", "Job/b"])
                .spec(&policy)
                .with(failed(0).code(43))
                .with(failed(1).code(42))
                .fails(0, "BackoffLimitExceeded", "", 20),
            20,
            "Fail podFailurePolicy#1",
        ),
    ]);
}

#[test]
fn each_failed_pod_is_judged_also_one_that_was_made_up_for() {
    let world = || job().spec(&rules(&[FAIL_ON_42]));
    let made_up_for = |pod| world().with(pod).ready(0, 2);
    let mut earlier = failed(0).code(42);
    earlier.attempt = Some(1);
    let runs_on = crate::snapshot::Pod { phase: PodPhase::Running, ..failed(0).code(42) };
    check(vec![
        ("a fatal pod that was made up for", made_up_for(failed(0).code(42)), 500, FAILS),
        ("another that was made up for", made_up_for(failed(0).code(41)), 500, "None"),
        ("a pod of another attempt", made_up_for(earlier), 500, "None"),
        ("a pod that is not in a terminal phase", made_up_for(runs_on), 500, "None"),
    ]);
}

#[test]
fn pods_are_judged_in_order_of_finish_time_and_ties_by_name() {
    let fail_on_41 = "action: FailAppWrapper, onExitCodes: {operator: In, values: [41]}";
    let world = || job().spec(&rules(&[fail_on_41, FAIL_ON_42]));
    let two =
        |a: i64, b: i64| world().with(failed(0).code(41).at(a)).with(failed(0).code(42).at(b));
    check(vec![
        ("the earlier is the first", two(20, 10), 20, "Fail podFailurePolicy#1"),
        ("also where it is listed first", two(10, 20), 20, "Fail podFailurePolicy#0"),
        ("ties by name", two(20, 20), 20, "Fail podFailurePolicy#0"),
        (
            "ties by name, listed the other way",
            two(20, 20).pod(0, |pod| pod.name = "z".into()),
            20,
            "Fail podFailurePolicy#1",
        ),
    ]);
}

#[test]
fn an_ignored_pod_that_is_replaced_is_no_failure() {
    let world = || job().spec(&rules(&[IGNORE_42]));
    let ignored = || world().with(failed(0).code(42));
    check(vec![
        (
            "its place is still empty: too few pods, no failed pod",
            ignored().ready(0, 1),
            200,
            "Wait 380",
        ),
        (
            "… which is a failure of its own",
            ignored().ready(0, 1),
            380,
            "Restart retryLimit 0 of 3",
        ),
        ("its place was taken", ignored().ready(0, 2), 500, "None"),
        (
            "another pod, that is not ignored, is a failure",
            ignored().with(failed(0).code(1).at(30)),
            89,
            "Wait 90",
        ),
        ("… as ever", ignored().with(failed(0).code(1).at(30)), 90, COUNTED),
    ]);
}

/// Its kubelet has stopped, and it stays Terminating: its Job waits for its end, or its operator for its name.
#[test]
fn an_ignored_pod_of_a_lost_node_that_stays_is_not_counted() {
    let ignore = "podFailurePolicy: {rules: [\
        {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}";
    let world = |policy| {
        let world = running(&["Job/work:2"]).spec(policy).with(ready(0).on("node-2"));
        world.with(ready(0)).settled(10).loses_node(Lost::Unreachable, 20).settled(20)
    };
    // replaced, hours ago
    let before = || {
        let world = running(&["Job/work:1"]).spec(ignore).with(ready(0)).settled(10);
        let world = world.loses_node(Lost::Unreachable, 20).settled(20);
        let mut world = world.with(ready(0).on("node-2")).settled(330);
        world.snapshot.pods.truncate(1);
        world.settled(5000)
    };
    let gone = || {
        let mut world = world(ignore);
        world.snapshot.pods.remove(0);
        world.settled(30)
    };
    let new = |second| Pod { created: Some(at(second)), ..pod_of(0, PodPhase::Pending) };
    let replaced = || world(ignore).with(new(310).on("node-2"));
    let other = || world(ignore).with(failed(0).on("node-2"));
    check(vec![
        ("its place stays empty", world(ignore), 379, "Wait 380"),
        ("… and the restart is not counted", world(ignore), 380, UNCOUNTED),
        ("nothing ignores it", world(""), 380, COUNTED),
        ("another pod that is missing is not ignored", other(), 380, COUNTED),
        ("another pod that is missing is gone", gone(), 380, COUNTED),
        ("what took its place is gone, later", before(), 5059, "Wait 5120"),
        ("… which is a failure of its own", before(), 5120, COUNTED),
        ("its replacement has a warm-up of its own", replaced(), 609, "Wait 670"),
        ("… and is a failure of its own", replaced(), 670, COUNTED),
        ("… once", world(ignore).with(new(360).on("node-2")), 680, COUNTED),
    ]);
}

#[test]
fn an_ignored_pod_that_nothing_replaces_restarts_uncounted_at_once() {
    let disrupted = || failed(0).condition("DisruptionTarget", "True", "PreemptionByScheduler");
    let pod = || running(&["Pod/work"]).spec(&rules(&[IGNORE_DISRUPTION])).with(disrupted());
    let never = || {
        let world = running(&["PyTorchJob/work:2"]).spec(&rules(&[IGNORE_DISRUPTION]));
        world.object_of(0, |object| _ = object.report.unreplaced.insert(0)).with(disrupted())
    };
    check(vec![
        ("a wrapped Pod", pod(), 20, UNCOUNTED),
        ("a replica that never restarts", never().ready(0, 1), 20, UNCOUNTED),
        ("no limit holds", pod().retries(3), 20, UNCOUNTED),
        ("made up for, all the same", never().ready(0, 2), 20, "None"),
    ]);
    let decision = pod().retries(2).decide(20);
    assert_eq!(decision.status.resetting_count, 2);
    assert_eq!(decision.verdict.counted, Some(false));
}

#[test]
fn ignored_pods_restart_uncounted_where_no_other_failure_is_left() {
    let policy = rules(&[IGNORE_42]);
    let two = |first: &str, second: &str| running(&[first, second]).spec(&policy);
    let ignored = |index| failed(index).code(42);
    let other = |index| failed(index).code(1);
    check(vec![
        (
            "another wrapped Pod failed as well",
            two("Pod/a", "Pod/b").with(ignored(0)).with(other(1)),
            20,
            IN_GRACE,
        ),
        (
            "… and is decided about",
            two("Pod/a", "Pod/b").with(ignored(0)).with(other(1)),
            80,
            COUNTED,
        ),
        (
            "a Job has a failed pod that may still be made up for",
            two("Pod/a", "Job/b").with(ignored(0)).with(other(1)),
            79,
            IN_GRACE,
        ),
        (
            "… and it was",
            two("Pod/a", "Job/b").with(ignored(0)).with(other(1)).ready(1, 1),
            79,
            UNCOUNTED,
        ),
        (
            "both are ignored",
            two("Pod/a", "Pod/b").with(ignored(0)).with(ignored(1)),
            20,
            UNCOUNTED,
        ),
    ]);
}

#[test]
fn a_component_whose_failed_pods_are_all_ignored_restarts_uncounted() {
    let policy = rules(&[IGNORE_42]);
    let one = || job().spec(&policy).fails(0, "BackoffLimitExceeded", "", 25);
    let two =
        || running(&["Job/a", "Job/b"]).spec(&policy).fails(0, "BackoffLimitExceeded", "", 25);
    let both = || two().fails(1, "BackoffLimitExceeded", "", 30);
    let ignored = |index| failed(index).code(42);
    let other = |index| failed(index).code(1);
    check(vec![
        ("all of its pods", one().with(ignored(0)).with(ignored(0)), 25, UNCOUNTED),
        ("with no restart left", one().with(ignored(0)).retries(3), 25, UNCOUNTED),
        ("not all of its pods", one().with(ignored(0)).with(other(0)), 25, COUNTED),
        ("no pod at all", one(), 25, COUNTED),
        (
            "also one that was made up for, if it is not ignored",
            one().with(ignored(0)).with(other(0)).ready(0, 2),
            25,
            COUNTED,
        ),
        ("of every failed component", both().with(ignored(0)).with(ignored(1)), 30, UNCOUNTED),
        ("but not of the other", both().with(ignored(0)).with(other(1)), 30, COUNTED),
        ("the other has no pods", both().with(ignored(0)), 30, COUNTED),
        ("a pod of another component failed", two().with(ignored(0)).with(other(1)), 79, IN_GRACE),
        ("… and is decided about", two().with(ignored(0)).with(other(1)), 80, COUNTED),
        ("… or made up for", two().with(ignored(0)).with(other(1)).ready(1, 1), 79, UNCOUNTED),
    ]);
}

#[test]
fn the_first_cause_is_a_pod_that_is_not_ignored() {
    let world = job()
        .spec(&rules(&[IGNORE_42]))
        .fails(0, "BackoffLimitExceeded", "", 25)
        .with(failed(0).code(42).at(5))
        .with(failed(0).code(7).at(20));
    let failure = world.decide(25).verdict.failure.unwrap();
    assert_eq!(failure.exit_code, Some(7));
    let ready =
        job().spec(&rules(&[IGNORE_42])).with(failed(0).code(42)).with(ready(0)).with(ready(0));
    assert_eq!(ready.decide(30).verdict.failure, None);
}

/// The node was lost at second 20, and that is seen at second 101: its pod set was ready in between.
#[test]
fn a_fatal_pod_that_is_lost_has_its_grace_from_when_that_is_seen() {
    let fatal = "podFailurePolicy: {rules: [\
        {action: FailAppWrapper, onPodConditions: [{type: DisruptionTarget}]}]}";
    let late = running(&["Job/work:1"]).with(ready(0)).settled(100).spec(fatal);
    let late = late.loses_node(Lost::NotReady, 20);
    let seen = late.clone().written(&late.decide(101));
    let replaced = running(&["Job/work:1"]).spec(fatal).with(ready(0)).settled(2);
    let replaced = replaced.loses_node(Lost::NotReady, 20).settled(21);
    let replaced = replaced.with(ready(0).on("node-2")).settled(30);
    let fails = "Fail podFailurePolicy#0";
    check(vec![
        ("it is seen", late, 101, "Wait 161"),
        ("… and looked at again", seen.clone(), 110, "Wait 161"),
        ("… and its node is not back", seen, 161, fails),
        ("it was replaced", replaced.clone(), 31, "Wait 80"),
        ("… and its node is not back", replaced, 80, fails),
    ]);
}

#[test]
fn an_overriding_policy_waits_for_a_lost_node_from_when_that_is_seen() {
    let ignore = "podFailurePolicy: {rules: [\
        {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}";
    let policy = "{override: true, rules: [{name: never, action: Fail, onConditions: [NodeLost]}]}";
    let late = running(&["Job/work:1"]).with(ready(0)).settled(100).spec(ignore);
    let late = late.loses_node(Lost::NotReady, 20).overriding("p", policy);
    let seen = late.clone().settled(101);
    check(vec![
        ("it is seen", late, 101, "Wait 161"),
        ("… and looked at again", seen.clone(), 110, "Wait 161"),
        ("… and its node is not back", seen, 161, "Fail retryPolicy/p/never#0"),
    ]);
}
