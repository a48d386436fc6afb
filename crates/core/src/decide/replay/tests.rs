use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{Replay, replay};
use crate::api::{
    Attempt, AttemptAction, FailureRecord, Phase, Retries, RetryPolicySpec, RuleRef, RuleSource,
};
use crate::config::Config;
use crate::decide::Facts;
use crate::decide::tests::given::{World, at, given};
use crate::plan::FreshRead;
use crate::policies::{Named, Policies, RetryPolicy};
use crate::snapshot::{ContainerState, Outcome, Pod, PodCondition, PodPhase, Presence};

fn replayed(world: &World) -> Replay {
    let World { snapshot, limits, config } = world;
    replay(Facts { snapshot, limits, config, now: at(0), anchor: at(0) })
}

fn attach(mut world: World, name: &str, spec: Value) -> World {
    let spec: RetryPolicySpec = serde_json::from_value(spec).unwrap();
    let policy = RetryPolicy::read(name, &spec).unwrap();
    world.snapshot.retry.policies.push(Arc::new(policy));
    world
}

fn ruled(mut world: World, spec: &Value) -> World {
    let mut whole = json!({"components": []});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let named = [Named { kind: "Job", name: "work", has_pods: true, parts: &[] }];
    let policies = Policies::of(&serde_json::from_value(whole).unwrap(), &named);
    assert!(policies.flaws().is_empty());
    world.snapshot.policies = Arc::new(policies);
    world
}

fn target(reason: &str) -> PodCondition {
    PodCondition {
        kind: "DisruptionTarget".into(),
        status: "True".into(),
        reason: reason.into(),
        ..PodCondition::default()
    }
}

fn ended(pod: &mut Pod, exit_code: i32, reason: &str) {
    if let ContainerState::Terminated(end) = &mut pod.containers[0].state {
        end.exit_code = exit_code;
        end.reason = reason.into();
    }
}

/// Failures that are acted on at second 5000 at the latest, by name.
#[expect(clippy::too_many_lines, reason = "one table of cases")]
fn failures(world: &World) -> Vec<(&'static str, World)> {
    let failed = || world.clone().failed_job();
    let pods = |world: World| world.pods(&[PodPhase::Failed, PodPhase::Running]);
    let one = |change: fn(&mut Pod)| pods(failed()).pod(0, change);
    let waiting = |reason: &'static str| {
        let pods = world.clone().pods(&[PodPhase::Pending, PodPhase::Running]);
        pods.pod(0, |pod| {
            let (reason, message) = (reason.to_owned(), "m".to_owned());
            pod.containers[0].state = ContainerState::Waiting { reason, message };
        })
    };
    vec![
        ("a code", one(|_| {})),
        ("a code, the Job goes on", pods(world.clone())),
        ("another code", one(|pod| ended(pod, 42, "Error"))),
        ("out of memory", one(|pod| ended(pod, 137, "OOMKilled"))),
        (
            "evicted",
            one(|pod| {
                ended(pod, 143, "Error");
                pod.conditions.push(target("EvictionByEvictionAPI"));
            }),
        ),
        (
            "preempted",
            one(|pod| {
                ended(pod, 143, "Error");
                pod.conditions.push(target("PreemptionByScheduler"));
            }),
        ),
        (
            "out of memory when evicted",
            one(|pod| {
                ended(pod, 137, "OOMKilled");
                pod.conditions.push(target("EvictionByEvictionAPI"));
            }),
        ),
        (
            "collected",
            one(|pod| {
                pod.containers.clear();
                pod.conditions.push(target("DeletionByPodGC"));
            }),
        ),
        (
            "evicted by the kubelet",
            one(|pod| {
                pod.containers.clear();
                pod.reason = Some("Evicted".into());
                pod.conditions.push(target("TerminationByKubelet"));
            }),
        ),
        (
            "evicted by the shutdown of its node",
            one(|pod| {
                pod.containers.clear();
                pod.reason = Some("Terminated".into());
                pod.conditions.push(target("TerminationByKubelet"));
            }),
        ),
        (
            "over its storage limit",
            one(|pod| {
                ended(pod, 137, "Error");
                pod.reason = Some("Evicted".into());
                pod.message = Some("Usage of EmptyDir volume exceeds the limit".into());
            }),
        ),
        (
            "deleted for its node",
            one(|pod| {
                ended(pod, 143, "Error");
                pod.conditions.push(target("DeletionByTaintManager"));
            }),
        ),
        ("two codes", {
            let pods = failed().pods(&[PodPhase::Failed, PodPhase::Failed]);
            pods.pod(1, |pod| ended(pod, 42, "Error"))
        }),
        ("the Job alone", failed()),
        (
            "the Job ran too long",
            world.clone().says(Outcome::Failed {
                reason: "DeadlineExceeded".into(),
                message: "m".into(),
                at: Some(at(20)),
            }),
        ),
        ("missing", world.clone().presence(Presence::Absent).answered(FreshRead::Missing)),
        ("no image", waiting("ImagePullBackOff")),
        ("no pods", world.clone().answered(FreshRead::Pods)),
    ]
}

#[expect(clippy::too_many_lines, reason = "one table of cases")]
fn policies() -> Vec<(&'static str, World)> {
    let world = || given(Phase::Running);
    let retry = |action: &str, matcher: Value| {
        let rule = matcher.as_object().unwrap().clone();
        let mut rule = Value::Object(rule);
        rule["action"] = action.into();
        rule["name"] = json!("it");
        json!({"retryLimit": 2, "defaultAction": "Retry", "rules": [rule]})
    };
    vec![
        ("none", world()),
        ("kill switch", world().config(|c| c.retry_policy.global_max_retries = 0)),
        ("terminal", world().limits(|l| l.terminal_exit_codes.extend([42]))),
        ("retryable", world().limits(|l| l.retryable_exit_codes.extend([3, 143]))),
        (
            "podFailurePolicy",
            ruled(
                world(),
                &json!({"podFailurePolicy": {"rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                    {"action": "FailAppWrapper", "onExitCodes": {"operator": "In", "values": [42]}},
                ]}}),
            ),
        ),
        (
            "failurePolicy",
            ruled(
                world(),
                &json!({"failurePolicy": {"maxRestarts": 1, "rules": [
                    {"action": "FailAppWrapper", "onJobFailureReasons": ["DeadlineExceeded"]},
                    {"action": "RecreateComponent", "onJobFailureMessagePatterns": ["often"]},
                    {"action": "RestartAppWrapperAndIgnoreMaxRestarts"},
                ]}}),
            ),
        ),
        (
            "conditions",
            attach(
                world(),
                "p",
                retry(
                    "Fail",
                    json!({"onConditions": ["OOMKilled", "Evicted", "DeadlineExceeded"]}),
                ),
            ),
        ),
        (
            "storage limit",
            attach(world(), "p", retry("Fail", json!({"onConditions": ["StorageLimitExceeded"]}))),
        ),
        (
            "codes",
            attach(
                world(),
                "p",
                retry(
                    "Retry",
                    json!({"onExitCodes": {"operator": "In", "values": [3, 137]},
                    "backoff": {"initialDelay": "10s"}}),
                ),
            ),
        ),
        (
            "categories",
            attach(
                world(),
                "p",
                retry(
                    "Fail",
                    json!({"onFailureCategory": ["image", "evicted", "node", "application"]}),
                ),
            ),
        ),
    ]
}

#[test]
fn the_same_policies_decide_as_they_did_or_it_is_said_what_was_assumed() {
    let mut differ = vec![];
    for (policy, world) in policies() {
        for (failure, world) in failures(&world) {
            let decision = world.decide(5000);
            let recorded = decision.status.attempts.iter().find(|each| each.failure.is_some());
            assert!(recorded.is_some(), "{policy}, {failure}: {decision:?}");
            let replay = replayed(&world.written(&decision));
            let [one] = &replay.failures[..] else { panic!("{policy}, {failure}") };
            if one.differs() {
                assert!(!one.assumptions.is_empty(), "{policy}, {failure}: {one:#?}");
                differ.push(format!("{policy}, {failure}: {:?}", one.action));
            } else {
                assert_eq!(one.retries, one.recorded.retries, "{policy}, {failure}: {one:#?}");
                assert_eq!(one.counted(), decision.verdict.counted, "{policy}, {failure}");
            }
        }
    }
    // in the second pod there was the code that decided; and a Job that goes on is not recorded
    insta::assert_snapshot!(differ.join("\n"), @r"
    terminal, two codes: Some(Restart)
    retryable, two codes: Some(Restart)
    podFailurePolicy, two codes: Some(Restart)
    failurePolicy, a code, the Job goes on: Some(RestartIgnoringLimit)
    ");
}

/// Attempts with these failures, all of them counted restarts by no rule.
fn recorded(mut world: World, failures: &[FailureRecord]) -> World {
    let attempts = failures.iter().zip(0..).map(|(failure, number)| Attempt {
        attempt: number,
        failed_at: Some(Time(at(i64::from(number) * 100))),
        action: Some(AttemptAction::Restart),
        failure: Some(failure.clone()),
        ..Attempt::default()
    });
    world.snapshot.status.attempts = attempts.collect();
    world.snapshot.status.resetting_count = i32::try_from(failures.len()).unwrap();
    world
}

fn exited(code: i32, message: &str, category: &str) -> FailureRecord {
    FailureRecord {
        component: Some("work".into()),
        pod: Some("w-0".into()),
        node: Some("node-1".into()),
        container: Some("main".into()),
        exit_code: Some(code),
        reason: Some(if category == "oom" { "OOMKilled" } else { "Error" }.into()),
        message: Some(message.into()),
        category: Some(category.into()),
        ..FailureRecord::default()
    }
}

#[test]
fn whether_one_component_is_recreated_depends_on_the_others() {
    let none = "the record does not show whether other components failed: assumed none";
    let cases = [(2, Some(1), true), (2, None, false), (1, Some(1), false)];
    for (components, collateral, unknown) in cases {
        let mut world = recorded(given(Phase::Running), &[exited(3, "", "application")]);
        let attempt = &mut world.snapshot.status.attempts[0];
        attempt.collateral = collateral;
        attempt.rule = Some(RuleRef::plain(RuleSource::RetryLimit));
        if components == 2 {
            let mut other = world.snapshot.components[0].clone();
            other.name = "other".into();
            world.snapshot.components.push(other);
        }
        let rules = json!({"failurePolicy": {"rules": [{"action": "RecreateComponent"}]}});
        let replay = replayed(&ruled(world, &rules));
        let one = &replay.failures[0];
        let what = format!("{components} {collateral:?}: {one:#?}");
        assert_eq!(one.action, Some(AttemptAction::RecreateComponent), "{what}");
        assert_eq!((one.unknown, one.differs()), (unknown, !unknown), "{what}");
        assert_eq!(one.assumptions.iter().any(|text| text == none), unknown, "{what}");
        assert!(one.reason.ends_with("; recorded: a restart by retryLimit"), "{what}");
    }
}

#[test]
fn the_component_of_a_failure_is_found_if_another_has_its_name() {
    let rules = "failurePolicy: {rules: [\
        {action: FailAppWrapper, targetComponents: [PyTorchJob/work]}, \
        {action: RestartAppWrapperAndIgnoreMaxRestarts, targetComponents: [Job/work]}]}";
    for (named, want) in [
        ("Job/work", AttemptAction::RestartIgnoringLimit),
        ("PyTorchJob/work", AttemptAction::Fail),
    ] {
        let component = Some(named.to_owned());
        let record = FailureRecord { component, ..exited(3, "", "application") };
        let mut world = recorded(given(Phase::Running), &[record]);
        let mut other = world.snapshot.components[0].clone();
        other.kind = "PyTorchJob".into();
        world.snapshot.components.push(other);
        let replay = replayed(&world.spec(rules));
        let one = &replay.failures[0];
        assert_eq!(one.action, Some(want), "{one:#?}");
        let unsure = |text: &String| text.contains("components are named");
        assert!(!one.assumptions.iter().any(unsure), "{one:#?}");
    }
}

#[test]
fn of_a_rule_about_a_part_it_is_said_that_no_part_is_recorded() {
    let by_code = "podFailurePolicy: {rules: [{action: FailAppWrapper, \
        targetComponents: [work/workers], onExitCodes: {operator: In, values: [42]}}]}";
    let by_part = "failurePolicy: {rules: [\
        {name: it, action: FailAppWrapper, targetComponents: [work/workers]}]}";
    let said = "the record does not contain the part that failed";
    for (rules, source, name) in [
        (by_code, RuleSource::PodFailurePolicy, None),
        (by_part, RuleSource::FailurePolicy, Some("it".to_owned())),
    ] {
        let mut world = recorded(given(Phase::Running), &[exited(42, "", "application")]);
        let component = &mut world.snapshot.components[0];
        component.kind = "JobSet".into();
        component.parts = vec![Some("workers".into())];
        let mut world = world.spec(rules);
        let one = &replayed(&world).failures[0];
        assert_eq!(one.action, Some(AttemptAction::Restart), "{one:#?}");
        assert!(one.assumptions.iter().any(|text| text.contains(said)), "{one:#?}");
        let attempt = &mut world.snapshot.status.attempts[0];
        attempt.action = Some(AttemptAction::Fail);
        attempt.rule = Some(RuleRef { name, index: Some(0), ..RuleRef::plain(source) });
        let one = &replayed(&world).failures[0];
        assert_eq!((one.action, one.differs()), (Some(AttemptAction::Fail), false), "{one:#?}");
        assert!(one.assumptions.iter().any(|text| text.contains(said)), "{one:#?}");
    }
}

#[test]
fn a_recorded_init_container_is_no_app_container() {
    for (init_container, want) in
        [(Some(true), AttemptAction::Restart), (None, AttemptAction::Fail)]
    {
        let record = FailureRecord { init_container, ..exited(3, "", "application") };
        let world = recorded(given(Phase::Running), &[record]);
        let replay = replayed(&world.limits(|limits| limits.terminal_exit_codes.extend([3])));
        let one = &replay.failures[0];
        assert_eq!((one.action, one.assumptions.len()), (Some(want), 0), "{one:#?}");
    }
}

#[test]
fn a_recorded_hang_is_one_again() {
    let by_pod = FailureRecord {
        reason: Some("Stalled".into()),
        container: None,
        exit_code: None,
        ..exited(0, "pod w-0 reported the last progress at …", "hang")
    };
    let silent = FailureRecord { pod: None, node: None, ..by_pod.clone() };
    let policy = json!({"defaultAction": "Fail", "rules": [
        {"name": "hang", "action": "Retry", "retryLimit": 1, "onFailureCategory": ["hang"]},
    ]});
    for record in [by_pod, silent] {
        let world = recorded(given(Phase::Running), &vec![record; 2]);
        let replay = replayed(&attach(world, "p", policy.clone()));
        let actions: Vec<_> = replay.failures.iter().map(|failure| failure.action).collect();
        assert_eq!(actions, [Some(AttemptAction::Restart), Some(AttemptAction::Fail)]);
        assert_eq!(replay.failures[0].assumptions, Vec::<String>::new());
    }
}

#[test]
fn a_retry_policy_counts_its_own_rules_and_backs_off() {
    let policy = json!({"retryLimit": 9, "rules": [
        {"name": "oom", "action": "Retry", "onConditions": ["OOMKilled"], "retryLimit": 1,
            "mutate": {"memory": {"factor": 1.5}}},
        {"name": "flaky", "action": "Retry", "onTerminationMessage": {"pattern": "TRANSIENT"},
            "backoff": {"initialDelay": "10s", "multiplier": 3.0},
            "antiAffinity": {"mode": "node"}},
    ]});
    let flaky = exited(3, "TRANSIENT", "application");
    let oom = exited(137, "", "oom");
    let all = [flaky.clone(), oom.clone(), flaky, oom, exited(1, "", "application")];
    let replay = replayed(&attach(recorded(given(Phase::Failed), &all), "infra", policy));
    let lines: Vec<String> = replay
        .failures
        .iter()
        .map(|one| {
            let rule = one.rule.as_ref().and_then(|rule| rule.name.clone());
            let (retries, pause) =
                (one.retries.map(|of| (of.used, of.limit)), one.retry_after_seconds);
            format!("{:?} {rule:?} {retries:?} {pause:?} {}", one.action, one.reached)
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    Some(Restart) Some("flaky") Some((0, 9)) Some(10) true
    Some(Restart) Some("oom") Some((0, 1)) Some(90) true
    Some(Restart) Some("flaky") Some((1, 9)) Some(30) true
    Some(Fail) Some("oom") Some((1, 1)) None true
    Some(Fail) None None None false
    "#);
    let reasons: Vec<&str> = replay.failures.iter().map(|one| one.reason.as_str()).collect();
    insta::assert_snapshot!(reasons.join("\n"), @r"
    rule flaky of RetryPolicy infra restarts the AppWrapper (0 of 9 restarts used), avoids node node-1; recorded: a restart by no rule
    rule oom of RetryPolicy infra restarts the AppWrapper (0 of 1 restarts used), multiplies memory by 1.5; recorded: a restart by no rule
    rule flaky of RetryPolicy infra restarts the AppWrapper (1 of 9 restarts used), avoids node node-1; recorded: a restart by no rule
    retry limit reached for rule oom of RetryPolicy infra (1 of 1 restarts used); recorded: a restart by no rule
    would not have happened; the default action of RetryPolicy infra fails the AppWrapper; recorded: a restart by no rule
    ");
}

#[test]
fn restarts_are_given_back_and_stopped_in_a_replay() {
    let record = exited(3, "", "application");
    let failed = |readiness: i64| {
        let mut world = recorded(given(Phase::Running), &vec![record.clone(); 3]);
        for (attempt, start) in world.snapshot.status.attempts.iter_mut().zip([0, 1000, 2000]) {
            attempt.ready_at = Some(Time(at(start)));
            attempt.failed_at = Some(Time(at(start + readiness)));
        }
        world
    };
    let actions = |world: &World, policy: Value| -> Vec<Option<AttemptAction>> {
        let world = ruled(world.clone(), &json!({ "failurePolicy": policy }));
        replayed(&world).failures.into_iter().map(|failure| failure.action).collect()
    };
    let (restart, fail) = (Some(AttemptAction::Restart), Some(AttemptAction::Fail));
    let refill = || json!({"maxRestarts": 1, "refill": {"after": "10m"}});
    assert_eq!(actions(&failed(600), refill()), [restart; 3]);
    assert_eq!(actions(&failed(599), refill()), [restart, fail, fail]);
    let stop = || json!({"stopWhen": {"attemptsWithoutProgress": 2, "progressAfter": "10m"}});
    assert_eq!(actions(&failed(600), stop()), [restart; 3]);
    assert_eq!(actions(&failed(599), stop())[..2], [restart, fail]);
    let world = ruled(failed(600), &json!({ "failurePolicy": refill() }));
    let said = &replayed(&world).failures[1].assumptions;
    assert!(said.iter().any(|text| text.contains("retries were given back")), "{said:?}");
}

#[test]
fn what_a_retry_rule_cannot_be_told_is_said() {
    let cut = "x".repeat(1024);
    let cuda = "failureCategories: [{name: cuda, onTerminationMessage: {pattern: CUDA}}]";
    let rule = |matcher: Value| {
        let mut rule = matcher;
        rule["action"] = json!("Fail");
        rule["name"] = json!("it");
        json!({"defaultAction": "Retry", "rules": [rule]})
    };
    let mut lines = vec![];
    for (what, record, matcher) in [
        (
            "another container",
            exited(3, "", "application"),
            json!({"containerName": "side", "onExitCodes": {"operator": "In", "values": [3]}}),
        ),
        (
            "a message that is cut",
            exited(3, &cut, "application"),
            json!({"onTerminationMessage": {"pattern": "TRANSIENT"}}),
        ),
        (
            "a category that hides others",
            exited(137, "", "oom"),
            json!({"onConditions": ["Preempted"]}),
        ),
        (
            "a category that was another's",
            exited(3, "no more of it", "cuda"),
            json!({"onFailureCategory": ["cuda"]}),
        ),
        (
            "a category by a configuration since changed",
            exited(3, "CUDA error", "application"),
            json!({"onFailureCategory": ["application"]}),
        ),
        ("told", exited(3, "", "application"), json!({"onConditions": ["Evicted", "Preempted"]})),
    ] {
        let mut world = recorded(given(Phase::Failed), &[record]);
        world.config = Config::parse(cuda).unwrap();
        let replay = replayed(&attach(world, "infra", rule(matcher)));
        let one = &replay.failures[0];
        lines.push(format!("{what}: {:?} {:?}", one.action, one.assumptions));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    another container: Some(Restart) ["rule it of RetryPolicy infra cannot be evaluated (the record contains container main, not side): assumed not matching; otherwise rule it of RetryPolicy infra fails the AppWrapper"]
    a message that is cut: Some(Restart) ["rule it of RetryPolicy infra cannot be evaluated (the recorded message is truncated to 1 KiB): assumed not matching; otherwise rule it of RetryPolicy infra fails the AppWrapper"]
    a category that hides others: Some(Restart) ["rule it of RetryPolicy infra cannot be evaluated (the recorded category, oom, does not show what else happened): assumed not matching; otherwise rule it of RetryPolicy infra fails the AppWrapper"]
    a category that was another's: Some(Fail) ["rule it of RetryPolicy infra cannot be evaluated (recorded as cuda, but application by the rest of the record): assumed matching; otherwise the default action of RetryPolicy infra restarts the AppWrapper (0 of 20 restarts used)"]
    a category by a configuration since changed: Some(Restart) ["rule it of RetryPolicy infra cannot be evaluated (recorded as application, but cuda by the rest of the record): assumed not matching; otherwise rule it of RetryPolicy infra fails the AppWrapper"]
    told: Some(Restart) []
    "#);
}

/// An AppWrapper with these uncounted restarts in all, of which some are recorded.
fn restarted(all: i32, records: &[FailureRecord]) -> World {
    let mut world = recorded(given(Phase::Running), records);
    for attempt in &mut world.snapshot.status.attempts {
        attempt.action = Some(AttemptAction::RestartIgnoringLimit);
    }
    world.snapshot.status.resetting_count = 0;
    world.snapshot.status.uncounted_restarts = all;
    world
}

#[test]
fn uncounted_restarts_have_a_limit_in_a_replay() {
    let free = json!({"failurePolicy": {"rules": [
        {"action": "RestartAppWrapperAndIgnoreMaxRestarts"},
    ]}});
    let by_rule = ruled(restarted(4, &vec![exited(3, "", "application"); 3]), &free);
    let marked = FailureRecord {
        container: None,
        exit_code: None,
        reason: None,
        message: None,
        ..exited(0, "", "node")
    };
    let by_node = restarted(4, &vec![marked; 3]);
    let (restart, fail) = (Some(AttemptAction::RestartIgnoringLimit), Some(AttemptAction::Fail));
    for (what, world) in [("a rule", by_rule), ("marked nodes", by_node.clone())] {
        for (most, want) in [(0, [restart; 3]), (4, [restart; 3]), (3, [restart, restart, fail])] {
            let limited = |config: &mut Config| config.retry_policy.max_uncounted_restarts = most;
            let replay = replayed(&world.clone().config(limited));
            let actions: Vec<_> = replay.failures.iter().map(|one| one.action).collect();
            assert_eq!(actions, want, "{what} {most}");
        }
    }
    let replay = replayed(&by_node.config(|c| c.retry_policy.max_uncounted_restarts = 1));
    let first = &replay.failures[0];
    assert_eq!(first.rule, Some(RuleRef::plain(RuleSource::UncountedLimit)));
    assert_eq!(first.retries, Some(Retries { used: 1, limit: 1 }));
}

#[test]
fn recreations_without_a_limit_are_no_counted_restarts() {
    let mut world = recorded(given(Phase::Running), &vec![exited(3, "", "application"); 3]);
    let counted = Some(Retries { used: 5, limit: 9 });
    let attempts = world.snapshot.status.attempts.iter_mut();
    for (attempt, retries) in attempts.zip([None, counted]) {
        attempt.action = Some(AttemptAction::RecreateComponent);
        attempt.retries = retries;
    }
    world.snapshot.status.resetting_count = 7;
    assert_eq!(replayed(&world).before, 5);
}

#[test]
fn recreations_without_a_limit_do_not_stop_a_replay() {
    let failed = |reason: &str| FailureRecord {
        component: Some("work".into()),
        reason: Some(reason.into()),
        ..FailureRecord::default()
    };
    let spec = "failurePolicy: {stopWhen: {attemptsWithoutProgress: 2}, rules: [\
        {action: RecreateComponentAndIgnoreMaxRestarts, onJobFailureReasons: [DeadlineExceeded]}, \
        {action: RecreateComponent}]}";
    for (first, pause, want) in [
        ("DeadlineExceeded", Some(90), AttemptAction::RecreateComponent),
        ("BackoffLimitExceeded", None, AttemptAction::Fail),
    ] {
        let records = [failed(first), failed("BackoffLimitExceeded")];
        let replay = replayed(&recorded(given(Phase::Running), &records).spec(spec));
        assert_eq!(replay.failures[0].action, Some(AttemptAction::RecreateComponent), "{first}");
        assert_eq!(replay.failures[0].retry_after_seconds, pause, "{first}");
        assert_eq!(replay.failures[1].action, Some(want), "{first}");
    }
}

#[test]
fn what_rules_were_used_before_is_taken_over() {
    let mut world = recorded(given(Phase::Failed), &[exited(3, "", "application")]);
    world.snapshot.status.attempts[0].attempt = 11;
    world.snapshot.status.resetting_count = 6;
    world.snapshot.status.retry_counts = vec![
        crate::api::RetryCount { policy: "infra".into(), rule: String::new(), count: 4 },
        crate::api::RetryCount { policy: "gone".into(), rule: "r".into(), count: 1 },
    ];
    let world = attach(world, "infra", json!({"retryLimit": 4, "defaultAction": "Retry"}));
    let replay = replayed(&world);
    assert_eq!(replay.before, 5);
    assert_eq!(replay.failures[0].action, Some(AttemptAction::Fail));
}
