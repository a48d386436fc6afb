//! Random worlds: three components, any policies, counts and pods.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::api::{Phase, condition};
use crate::decide::tests::given::{World, at};
use crate::decide::tests::policies::build::{container, in_phase, pod_of};
use crate::plan::FreshRead;
use crate::snapshot::{CreationFailure, Object, Outcome, Owner, Pod, PodPhase, Presence};

/// One of a few texts.
pub fn any_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(texts).prop_map(str::to_owned)
}

/// A text of a manifest, parsed: there are few, and each comes often.
fn parsed(text: &str) -> Value {
    thread_local! {
        static SEEN: RefCell<BTreeMap<String, Value>> = RefCell::default();
    }
    SEEN.with_borrow_mut(|seen| {
        let parse = || serde_saphyr::from_str(text).unwrap();
        seen.entry(text.to_owned()).or_insert_with(parse).clone()
    })
}

/// A policy of these rules, under its name in the spec.
pub fn policy(name: &str, rules: &[String]) -> Value {
    json!({ name: of_rules("{}", rules) })
}

/// A policy of these rules, with what else there is of it.
pub fn of_rules(head: &str, rules: &[String]) -> Value {
    let mut policy = parsed(head);
    policy["rules"] = rules.iter().map(|rule| parsed(rule)).collect();
    policy
}

const TARGETS: &[&str] = &["", "targetComponents: [a], ", "targetComponents: [b, c], "];

/// A rule of `podFailurePolicy`.
pub fn pod_rule() -> impl Strategy<Value = String> {
    let matcher = any_of(&[
        "onExitCodes: {operator: In, values: [42]}",
        "onExitCodes: {operator: NotIn, values: [42, 137]}",
        "onExitCodes: {containerName: side, operator: In, values: [1, 137]}",
        "onPodConditions: [{type: DisruptionTarget}]",
        "onPodConditions: [{type: Ready, status: \"False\"}]",
    ]);
    (any_of(&["FailAppWrapper", "Ignore", "Count"]), any_of(TARGETS), matcher)
        .prop_map(|(action, targets, matcher)| format!("{{action: {action}, {targets}{matcher}}}"))
}

/// A rule of `failurePolicy`.
pub fn failure_rule() -> impl Strategy<Value = String> {
    let action = any_of(&[
        "FailAppWrapper",
        "RestartAppWrapper",
        "RestartAppWrapperAndIgnoreMaxRestarts",
        "RecreateComponent",
    ]);
    let filter = any_of(&[
        "",
        "onJobFailureReasons: [BackoffLimitExceeded]",
        "onJobFailureReasons: [DeadlineExceeded, OOMKilled]",
        "onJobFailureMessagePatterns: ['m+']",
        "onJobFailureMessagePatterns: [x]",
    ]);
    (action, any_of(TARGETS), filter)
        .prop_map(|(action, targets, filter)| format!("{{action: {action}, {targets}{filter}}}"))
}

/// A rule of a retry policy.
pub fn retry_rule() -> impl Strategy<Value = String> {
    let matcher = any_of(&[
        "onConditions: [OOMKilled, Evicted]",
        "onConditions: [Preempted, DeadlineExceeded]",
        "onConditions: [Unschedulable]",
        "onExitCodes: {operator: In, values: [137, 1]}",
        "onExitCodes: {operator: NotIn, values: [42]}",
        "onTerminationMessage: {pattern: m}",
        "onFailureCategory: [application, oom]",
    ]);
    let more = any_of(&[
        "",
        "retryLimit: 0, ",
        "retryLimit: 1, ",
        "retryLimit: 2, ",
        "containerName: side, ",
        "includeInitContainers: true, ",
        "backoff: {initialDelay: 7s}, ",
        "antiAffinity: {mode: node}, ",
        "mutate: {memory: {factor: 2}}, ",
    ]);
    (any_of(&["Retry", "Retry", "Retry", "Fail"]), more, matcher)
        .prop_map(|(action, more, matcher)| format!("{{action: {action}, {more}{matcher}}}"))
}

/// A retry policy.
pub fn retry_policy() -> impl Strategy<Value = Value> {
    let head = any_of(&[
        "{}",
        "{defaultAction: Retry}",
        "{retryLimit: 1, defaultAction: Retry}",
        "{retryLimit: 3}",
        "{retryLimit: 2}",
        "{backoff: {initialDelay: 5s}, antiAffinity: {mode: node}}",
    ]);
    (head, prop::collection::vec(retry_rule(), 0..4))
        .prop_map(|(head, rules)| of_rules(&head, &rules))
}

/// `executionPolicy`, or none.
fn order() -> impl Strategy<Value = Vec<String>> {
    let rule = |names: &'static str| {
        any_of(&["Ready", "Succeeded"]).prop_map(move |status| {
            format!("{{targetComponents: [{names}], waitForComponentsStatus: {status}}}")
        })
    };
    prop_oneof![
        2 => Just(vec![]),
        1 => rule("b").prop_map(|rule| vec![rule]),
        1 => (rule("c"), rule("a, b")).prop_map(|(first, second)| vec![first, second]),
        1 => (rule("b"), rule("a")).prop_map(|(first, second)| vec![first, second]),
    ]
}

/// The policies of a spec.
pub fn spec() -> impl Strategy<Value = Value> {
    let failure = prop_oneof![Just(vec![]), prop::collection::vec(failure_rule(), 1..4)];
    let pods = prop_oneof![Just(vec![]), prop::collection::vec(pod_rule(), 1..4)];
    (order(), prop::option::of(0..5), failure, pods).prop_map(|(order, most, failure, pods)| {
        let mut failure = of_rules("{}", &failure);
        failure["maxRestarts"] = most.into();
        let mut spec = json!({
            "failurePolicy": failure,
            "podFailurePolicy": of_rules("{}", &pods),
        });
        if !order.is_empty() {
            spec["executionPolicy"] = of_rules("{executionPolicyOrder: InOrder}", &order);
        }
        spec
    })
}

prop_compose! {
    /// A pod of any component.
    pub fn pods()(
        component in 0_usize..3,
        phase in prop::sample::select(vec![
            PodPhase::Pending, PodPhase::Running, PodPhase::Running, PodPhase::Succeeded,
            PodPhase::Failed, PodPhase::Failed, PodPhase::Unknown,
        ]),
        codes in (prop::sample::select(vec![0, 1, 42, 137]), prop::sample::select(vec![0, 1, 137])),
        reasons in (any_of(&["Error", "OOMKilled"]), prop::option::of(any_of(&["Evicted", "DeadlineExceeded"]))),
        message in any_of(&["", "mmm"]),
        target in prop::option::of(any_of(&["PreemptionByScheduler", "EvictionByEvictionAPI", "DeletionByPodGC"])),
        second in 0_i64..600,
        (is_ready, init, terminating, placed) in (any::<bool>(), any::<bool>(), prop::bool::weighted(0.1), prop::bool::weighted(0.9)),
        attempt in prop::option::weighted(0.8, Just(0)),
    ) -> Pod {
        let mut pod = pod_of(component, phase);
        if matches!(phase, PodPhase::Failed | PodPhase::Succeeded) {
            let side = container("side", codes.1, "Error", &message, second + 1);
            let main = container("main", codes.0, &reasons.0, &message, second);
            pod = if init { pod.ended(main).and_init(side) } else { pod.ended(main).and(side) };
        }
        if let Some(reason) = reasons.1 && phase == PodPhase::Failed {
            pod = pod.because(&reason);
        }
        if let Some(target) = target {
            pod = pod.condition("DisruptionTarget", "True", &target);
        }
        let ready = if is_ready && phase == PodPhase::Running { "True" } else { "False" };
        pod = pod.condition("Ready", ready, "");
        pod.pod_set = placed.then_some(0);
        Pod { terminating, attempt, created: Some(at(second)), ..pod }
    }
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let failed = (any_of(&["BackoffLimitExceeded", "DeadlineExceeded"]), 0_i64..600);
    prop_oneof![
        3 => Just(Outcome::Active),
        1 => Just(Outcome::Succeeded),
        2 => failed.prop_map(|(reason, second)| Outcome::Failed {
            reason, message: "mm".into(), at: Some(at(second)),
        }),
    ]
}

/// What is seen of a component.
fn presences() -> impl Strategy<Value = (Option<Presence>, Outcome, Option<CreationFailure>)> {
    let stranger = Object { owner: Owner::Stranger("X/y".into()), ..Object::default() };
    let former = Object { owner: Owner::Former, ..Object::default() };
    let presence = prop_oneof![
        12 => Just(None),
        2 => Just(Some(Presence::Absent)),
        1 => Just(Some(Presence::Unseen)),
        1 => Just(Some(Presence::NoKind)),
        1 => Just(Some(Presence::Present(stranger))),
        1 => Just(Some(Presence::Present(former))),
    ];
    let creation = prop::option::weighted(
        0.1,
        any::<bool>().prop_map(|fatal| CreationFailure { fatal, message: "no".into() }),
    );
    (presence, outcomes(), creation)
}

/// As far as this step; a component may be away, to be created again.
fn far(mut world: World, begun: usize, away: Option<(usize, bool)>) -> World {
    let steps = world.snapshot.policies.steps.clone();
    for index in (0..3).filter(|index| steps.step(*index) > begun) {
        world.snapshot.status.component_status[index].uid = None;
        world.snapshot.components[index].presence = Presence::Absent;
        world.snapshot.components[index].creation = None;
        world.snapshot.pods.retain(|pod| pod.component != Some(index));
    }
    if let Some((index, going)) = away.filter(|(index, _)| steps.step(*index) <= begun) {
        let reason = if going { "Recreating" } else { "Deploying" };
        let status = &mut world.snapshot.status.component_status[index];
        let kind = condition::RESOURCES_DEPLOYED;
        condition::set(&mut status.conditions, kind, false, reason, "", at(0));
        status.uid = status.uid.take().filter(|_| going);
        if going {
            world = world.fails(index, "BackoffLimitExceeded", "mm", 0); // that is why it goes
        }
    }
    world
}

prop_compose! {
    /// A world of these phases.
    pub fn worlds(phases: &'static [Phase])(
        phase in prop::sample::select(phases),
        kinds in prop::collection::vec(any_of(&["Job", "Job", "Pod", "JobSet", "Service"]), 3),
        spec in spec(),
        retry in prop::collection::vec(retry_policy(), 0..3),
        pods in prop::collection::vec(pods(), 0..5),
        seen in prop::collection::vec(presences(), 3),
        (global, limit, used) in (0_i32..6, 0_i32..5, 0_i32..5),
        counts in prop::collection::btree_map((0_usize..2, 0_usize..4), 0_i32..4, 0..3),
        (suspend, queue, finalizer) in (prop::bool::weighted(0.05), any::<bool>(), prop::bool::weighted(0.9)),
        answered in prop::sample::select(vec![FreshRead::Nothing, FreshRead::Missing, FreshRead::Pods, FreshRead::Gone]),
        codes in (prop::option::weighted(0.1, Just(42)), prop::option::weighted(0.1, Just(137))),
        begun in 0_usize..3,
        away in prop::option::weighted(0.3, (0_usize..3, any::<bool>())),
    ) -> World {
        let titles: Vec<String> = kinds
            .iter()
            .zip(["a", "b", "c"])
            .map(|(kind, name)| format!("{kind}/{name}:{}", u8::from(kind != "Service")))
            .collect();
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        let mut world = in_phase(phase, &titles).with_spec(spec);
        world.config.retry_policy.global_max_retries = global;
        for (policy, index) in retry.iter().zip(0..) {
            world = world.with_retry_policy(&format!("p{index}"), policy.clone());
        }
        for (index, (presence, outcome, creation)) in seen.into_iter().enumerate() {
            let of_pod = kinds[index] == "Pod";
            world = world.object_of(index, |object| {
                object.report.outcome = if of_pod { Outcome::Active } else { outcome };
            });
            world = world.component(index, |component| {
                component.creation = creation;
                if let Some(presence) = presence {
                    component.presence = presence;
                }
            });
        }
        for pod in pods {
            world = world.with(pod);
        }
        for ((policy, rule), count) in counts {
            world = world.used(&format!("p{policy}"), &format!("rule{rule}"), count);
        }
        if phase == Phase::Running {
            world = far(world, begun, away);
        }
        world.limits.retry_limit = limit;
        world.limits.terminal_exit_codes = codes.0.into_iter().collect();
        world.limits.retryable_exit_codes = codes.1.into_iter().collect();
        world.snapshot.suspend |= suspend;
        world.snapshot.queue_managed = queue;
        world.snapshot.finalizer &= finalizer;
        world.retries(used).answered(answered)
    }
}

prop_compose! {
    /// A world in which nothing has failed, somewhere on its way through three steps.
    pub fn orderly()(
        waits in prop::collection::vec(any_of(&["Ready", "Succeeded"]), 2),
        begun in 0_usize..3,
        away in prop::option::of((0_usize..3, any::<bool>())),
        pods in prop::collection::vec((any::<bool>(), prop::bool::weighted(0.3)), 3),
        of_pods in prop::collection::vec(prop::bool::weighted(0.8), 3),
    ) -> World {
        let title = |(name, pods): (&str, bool)| format!("Job/{name}:{}", u8::from(pods));
        let titles: Vec<String> = ["a", "b", "c"].into_iter().zip(of_pods).map(title).collect();
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        let rules: Vec<String> = ["b", "a"]
            .iter()
            .zip(waits)
            .map(|(name, wait)| {
                format!("{{targetComponents: [{name}], waitForComponentsStatus: {wait}}}")
            })
            .collect();
        let order = of_rules("{executionPolicyOrder: InOrder}", &rules);
        let mut world = in_phase(Phase::Running, &titles);
        world = world.with_spec(json!({ "executionPolicy": order }));
        for (index, (ready, succeeded)) in pods.into_iter().enumerate() {
            let status = if ready { "True" } else { "False" };
            let pod = pod_of(index, PodPhase::Running).condition("Ready", status, "");
            world = world.with(pod);
            if succeeded {
                world = world.succeeds(index);
            }
        }
        far(world, begun, away).answered(FreshRead::Gone)
    }
}
