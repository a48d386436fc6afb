//! Stage 5: retry policies in force; which rule decides, and how often.

use super::build::{check, container, failed, running};
use crate::api::condition;
use crate::decide::tests::given::World;
use crate::price::RETRY_COUNTS_MAX;

const RETRY_137: &str =
    "{rules: [{name: killed, action: Retry, onExitCodes: {operator: In, values: [137]}}]}";
const FAIL_137: &str = "{rules: [{action: Fail, onExitCodes: {operator: In, values: [137]}}]}";

/// A Job that failed with a pod of this code.
fn job(code: i32) -> World {
    running(&["Job/work:1"]).with(failed(0).code(code)).fails(0, "BackoffLimitExceeded", "", 25)
}

#[test]
fn rules_of_several_policies_are_asked_in_order_and_the_first_match_decides() {
    let infra = "{retryLimit: 4, rules: [\
                 {action: Fail, onExitCodes: {operator: In, values: [3]}}, \
                 {name: killed, action: Retry, onExitCodes: {operator: In, values: [137]}}]}";
    let team = "{retryLimit: 6, rules: [\
                {action: Retry, onExitCodes: {operator: In, values: [3, 137]}}, \
                {name: any, action: Retry, onExitCodes: {operator: NotIn, values: [1]}}]}";
    let both = |code| job(code).retry_policy("infra", infra).retry_policy("team", team);
    let other = |code| job(code).retry_policy("team", team).retry_policy("infra", infra);
    check(vec![
        ("the first policy's first rule", both(3), 25, "Fail retryPolicy/infra/rule0#0"),
        ("its second", both(137), 25, "Restart retryPolicy/infra/killed#1 0 of 4"),
        ("the second policy's", both(7), 25, "Restart retryPolicy/team/any#1 0 of 6"),
        ("in the other order", other(3), 25, "Restart retryPolicy/team/rule0#0 0 of 6"),
        ("none: the default action of the first", both(1), 25, "Fail retryPolicy/infra"),
    ]);
}

#[test]
fn no_match_takes_the_default_action_of_the_first_policy() {
    let retry = "{defaultAction: Retry, retryLimit: 2}";
    let fail = "{defaultAction: Fail}";
    check(vec![
        ("Fail by default", job(1).retry_policy("p", RETRY_137), 25, "Fail retryPolicy/p"),
        ("Fail", job(1).retry_policy("p", fail), 25, "Fail retryPolicy/p"),
        ("Retry", job(1).retry_policy("p", retry), 25, "Restart retryPolicy/p 0 of 2"),
        (
            "of the first alone",
            job(1).retry_policy("p", retry).retry_policy("q", fail),
            25,
            "Restart retryPolicy/p 0 of 2",
        ),
        (
            "counted under the name \"\"",
            job(1).retry_policy("p", retry).used("p", "", 1),
            25,
            "Restart retryPolicy/p 1 of 2",
        ),
        (
            "up to its limit",
            job(1).retry_policy("p", retry).used("p", "", 2),
            25,
            "Fail retryLimit/p 2 of 2",
        ),
    ]);
    let decision = job(1).retry_policy("p", retry).decide(25);
    let counts = &decision.status.retry_counts;
    assert_eq!((counts[0].policy.as_str(), counts[0].rule.as_str(), counts[0].count), ("p", "", 1));
}

#[test]
fn a_rules_limit_is_its_own_or_the_policys_or_the_global_one() {
    let policy = |policy_limit: &str, rule_limit: &str| {
        format!(
            "{{{policy_limit} rules: [{{name: r, action: Retry, {rule_limit} \
             onExitCodes: {{operator: In, values: [137]}}}}]}}"
        )
    };
    let world = |policy_limit: &str, rule_limit: &str, used| {
        job(137).retry_policy("p", &policy(policy_limit, rule_limit)).used("p", "r", used)
    };
    let (of_policy, of_rule) = ("retryLimit: 5,", "retryLimit: 2,");
    check(vec![
        ("the rule's", world(of_policy, of_rule, 1), 25, "Restart retryPolicy/p/r#0 1 of 2"),
        ("… reached", world(of_policy, of_rule, 2), 25, "Fail retryLimit/p/r#0 2 of 2"),
        ("the policy's", world(of_policy, "", 4), 25, "Restart retryPolicy/p/r#0 4 of 5"),
        ("… reached", world(of_policy, "", 5), 25, "Fail retryLimit/p/r#0 5 of 5"),
        ("the global one", world("", "", 19), 25, "Restart retryPolicy/p/r#0 19 of 20"),
        ("… reached", world("", "", 20), 25, "Fail retryLimit/p/r#0 20 of 20"),
        (
            "a rule that allows none",
            world("", "retryLimit: 0,", 0),
            25,
            "Fail retryLimit/p/r#0 0 of 0",
        ),
        (
            "a rule above its policy",
            world("retryLimit: 1,", of_rule, 1),
            25,
            "Restart retryPolicy/p/r#0 1 of 2",
        ),
        (
            "another rule's count is its own",
            world("", of_rule, 0).used("p", "other", 9),
            25,
            "Restart retryPolicy/p/r#0 0 of 2",
        ),
        (
            "another policy's, too",
            world("", of_rule, 0).used("q", "r", 9),
            25,
            "Restart retryPolicy/p/r#0 0 of 2",
        ),
    ]);
}

#[test]
fn so_many_rules_are_counted_and_the_one_that_was_used_least_makes_room() {
    let policy = "{rules: [{name: r, action: Retry, onExitCodes: {operator: In, values: [137]}}]}";
    let mut world = job(137).retry_policy("p", policy);
    for index in 0..RETRY_COUNTS_MAX {
        let used = if index == 7 { 1 } else { 2 };
        world = world.used("q", &format!("r{index}"), used);
    }
    let counted = world.decide(25).status.retry_counts;
    assert_eq!(counted.len(), RETRY_COUNTS_MAX);
    assert!(counted.iter().any(|one| (one.policy.as_str(), one.count) == ("p", 1)));
    assert!(counted.iter().all(|one| one.rule != "r7"));
}

#[test]
fn the_total_binds_every_rule_and_the_limit_that_decides_is_told() {
    let policy = "{rules: [{name: r, action: Retry, retryLimit: 5, \
                  onExitCodes: {operator: In, values: [137]}}]}";
    let world =
        |of_rule, total| job(137).retry_policy("p", policy).used("p", "r", of_rule).retries(total);
    let few = "retryPolicy: {globalMaxRetries: 3}";
    check(vec![
        ("the rule has less left", world(4, 4), 25, "Restart retryPolicy/p/r#0 4 of 5"),
        ("the total has less left", world(0, 18), 25, "Restart retryPolicy/p/r#0 18 of 20"),
        ("the total is reached", world(0, 20), 25, "Fail retryLimit/p/r#0 20 of 20"),
        (
            "a renamed rule starts at 0; the total binds",
            world(0, 20).used("p", "old", 5),
            25,
            "Fail retryLimit/p/r#0 20 of 20",
        ),
        (
            "a renamed rule starts at 0",
            world(0, 5).used("p", "old", 5),
            25,
            "Restart retryPolicy/p/r#0 0 of 5",
        ),
        (
            "lowered by the configuration",
            world(1, 3).configured(few),
            25,
            "Fail retryLimit/p/r#0 3 of 3",
        ),
        ("already over it", world(1, 4).configured(few), 25, "Fail retryLimit/p/r#0 4 of 3"),
    ]);
}

#[test]
fn two_policies_count_side_by_side_and_the_total_caps_both() {
    let infra = "{retryLimit: 10, rules: [{name: preempted, action: Retry, \
                 onConditions: [Preempted]}]}";
    let training = "{retryLimit: 5, rules: [{name: oom, action: Retry, onConditions: [OOMKilled], \
                    retryLimit: 3}]}";
    let world = |pod, of_infra, of_training, total| {
        let world = running(&["Job/work:1"]).with(pod).fails(0, "BackoffLimitExceeded", "", 25);
        let world = world.retry_policy("infra", infra).retry_policy("training", training);
        let world = world.used("infra", "preempted", of_infra);
        world.used("training", "oom", of_training).retries(total)
    };
    let preempted = || failed(0).condition("DisruptionTarget", "True", "PreemptionByScheduler");
    let oom = || failed(0).ended(container("main", 137, "OOMKilled", "", 20));
    check(vec![
        (
            "preempted for the tenth time",
            world(preempted(), 9, 3, 12),
            25,
            "Restart retryPolicy/infra/preempted#0 9 of 10",
        ),
        (
            "… and for the eleventh",
            world(preempted(), 10, 0, 10),
            25,
            "Fail retryLimit/infra/preempted#0 10 of 10",
        ),
        (
            "out of memory for the third time",
            world(oom(), 10, 2, 12),
            25,
            "Restart retryPolicy/training/oom#0 2 of 3",
        ),
        (
            "… and for the fourth",
            world(oom(), 0, 3, 3),
            25,
            "Fail retryLimit/training/oom#0 3 of 3",
        ),
        (
            "both have some left, the total has none",
            world(oom(), 9, 2, 20),
            25,
            "Fail retryLimit/training/oom#0 20 of 20",
        ),
    ]);
}

#[test]
fn max_restarts_and_the_retry_limit_are_not_asked_where_a_retry_policy_holds() {
    let world = job(137).spec("failurePolicy: {maxRestarts: 1}").retry_policy("p", RETRY_137);
    check(vec![
        ("maxRestarts", world.retries(2), 25, "Restart retryPolicy/p/killed#0 2 of 20"),
        (
            "the retry limit",
            job(137).retry_policy("p", RETRY_137).retries(3),
            25,
            "Restart retryPolicy/p/killed#0 3 of 20",
        ),
    ]);
}

#[test]
fn a_retry_counts_its_rule_and_the_total_and_nothing_else() {
    let world = job(137).retry_policy("p", RETRY_137).used("p", "killed", 2).used("q", "killed", 4);
    let decision = world.retries(6).decide(25);
    let counts: Vec<(&str, &str, i32)> = decision
        .status
        .retry_counts
        .iter()
        .map(|one| (one.policy.as_str(), one.rule.as_str(), one.count))
        .collect();
    assert_eq!(counts, [("p", "killed", 3), ("q", "killed", 4)]);
    assert_eq!(decision.status.resetting_count, 7);
    let refused = job(137).retry_policy("p", FAIL_137).used("p", "rule0", 2).decide(25);
    assert_eq!(refused.status.retry_counts[0].count, 2, "a failure counts nothing");
}

#[test]
fn missing_policies_are_told_and_the_others_apply() {
    let world = job(137).missing_policy("gone").missing_policy("lost").retry_policy("p", RETRY_137);
    let decision = world.decide(25);
    assert_eq!(super::build::said(&decision), "Restart retryPolicy/p/killed#0 0 of 20");
    assert!(decision.verdict.message.contains("RetryPolicy gone"), "{}", decision.verdict.message);
    assert!(decision.events.iter().any(|event| event.reason == condition::POLICY_NOT_FOUND));
    assert!(condition::is_true(&decision.status.conditions, condition::POLICY_NOT_FOUND));
    let told = |world: &World, second| {
        let decision = world.decide(second);
        let found = condition::find(&decision.status.conditions, condition::POLICY_NOT_FOUND);
        let message = found.map(|found| found.message.clone()).unwrap_or_default();
        let is_told = decision.events.iter().any(|it| it.reason == condition::POLICY_NOT_FOUND);
        (message, is_told)
    };
    let both = "RetryPolicy gone does not exist; RetryPolicy lost does not exist".to_owned();
    let mut found = world.written(&decision);
    assert_eq!(told(&found, 26), (both, false), "the event comes once");
    found.snapshot.retry.unusable.pop();
    let one = "RetryPolicy gone does not exist".to_owned();
    assert_eq!(told(&found, 27), (one.clone(), true), "the other is there");
    let decision = found.decide(27);
    let mut found = found.written(&decision);
    assert_eq!(told(&found, 28), (one, false));
    found.snapshot.retry.unusable.clear();
    let decision = found.decide(29);
    assert!(!condition::is_true(&decision.status.conditions, condition::POLICY_NOT_FOUND));
}

#[test]
fn where_every_policy_is_missing_none_is_in_force() {
    check(vec![
        (
            "the retry limit decides",
            job(137).missing_policy("a").missing_policy("b"),
            25,
            "Restart retryLimit 0 of 3",
        ),
        ("… and is reached", job(137).missing_policy("a").retries(3), 25, "Fail retryLimit 3 of 3"),
        ("none is attached", job(137).retries(2), 25, "Restart retryLimit 2 of 3"),
    ]);
}

#[test]
fn a_rule_that_fails_comes_at_once_and_all_else_waits_where_the_pod_is_replaced() {
    let active = |code| running(&["Job/work:2"]).with(failed(0).code(code)).ready(0, 1);
    let pod = |code| running(&["Pod/work"]).with(failed(0).code(code));
    check(vec![
        (
            "Fail of a rule",
            active(137).retry_policy("p", FAIL_137),
            20,
            "Fail retryPolicy/p/rule0#0",
        ),
        (
            "Retry of a rule, the pod is replaced",
            active(137).retry_policy("p", RETRY_137),
            20,
            "Wait 80",
        ),
        (
            "… then it is a retry",
            active(137).retry_policy("p", RETRY_137),
            80,
            "Restart retryPolicy/p/killed#0 0 of 20",
        ),
        (
            "… unless it was made up for",
            active(137).retry_policy("p", RETRY_137).ready(0, 1),
            80,
            "None",
        ),
        (
            "Retry of a rule, nothing replaces the pod",
            pod(137).retry_policy("p", RETRY_137),
            20,
            "Restart retryPolicy/p/killed#0 0 of 20",
        ),
        ("the default action waits", active(1).retry_policy("p", RETRY_137), 79, "Wait 80"),
        ("… and fails", active(1).retry_policy("p", RETRY_137), 80, "Fail retryPolicy/p"),
    ]);
}

#[test]
fn a_pod_that_does_not_come_up_is_failed_after_its_grace_without_the_failure_grace() {
    let stuck = || {
        let pod = super::build::pod_of(0, crate::snapshot::PodPhase::Pending);
        let pod = pod.condition("PodScheduled", "False", "Unschedulable");
        running(&["Job/work:1"]).with(pod)
    };
    let rule =
        |action: &str| format!("{{rules: [{{action: {action}, onConditions: [Unschedulable]}}]}}");
    check(vec![
        ("Fail: within warm-up", stuck().retry_policy("p", &rule("Fail")), 299, "Wait 300"),
        (
            "Fail: after warm-up",
            stuck().retry_policy("p", &rule("Fail")),
            300,
            "Fail retryPolicy/p/rule0#0",
        ),
        (
            "Retry: waits for failureGracePeriod as well",
            stuck().retry_policy("p", &rule("Retry")),
            300,
            "Wait 360",
        ),
        (
            "Retry: then",
            stuck().retry_policy("p", &rule("Retry")),
            360,
            "Restart retryPolicy/p/rule0#0 0 of 20",
        ),
    ]);
}

#[test]
fn a_node_clock_that_runs_ahead_does_not_move_the_grace_at_every_look() {
    let world = running(&["Job/work:2"]).with(failed(0).at(120)).ready(0, 1).settled(100);
    assert_eq!(world.says_at(110), "Wait 160", "from when it was first seen");
    let again = world.decide(110);
    assert_eq!(again.status, world.snapshot.status, "nothing is written at every look");
    let past = world.settled(121);
    assert_eq!(past.says_at(179), "Wait 180", "from the finish time, once that is over");
    assert_eq!(past.decide(180).next, crate::api::Phase::Resetting);
}
