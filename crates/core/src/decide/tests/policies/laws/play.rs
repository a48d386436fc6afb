//! A random sequence of failures, played through: decided, written, gone, resumed, failed again.

use proptest::prelude::*;

use super::config;
use super::worlds::{pods, retry_policy, spec};
use crate::api::{AttemptOutcome, Phase};
use crate::decide::tests::given::{World, at};
use crate::decide::tests::policies::build::running;
use crate::plan::FreshRead;
use crate::snapshot::{Object, Outcome, Pod, Presence};

/// One failure: the component that says so, if one does, and pods.
type Failure = (Option<usize>, Vec<Pod>);

/// How long a step takes: longer than any grace, pause or delay.
const LONG: i64 = 100_000;

/// Creates whatever is to be there, so that it runs.
fn up(mut world: World, second: &mut i64) -> World {
    for round in 0..12 {
        *second += LONG / 100;
        world = world.settled(*second);
        let attempt = world.snapshot.status.attempts.last().map_or(0, |last| last.attempt);
        for action in world.decide(*second).actions {
            if let crate::plan::Action::Create(index) = action {
                let name = world.snapshot.components[index].name.clone();
                let uid = format!("uid-{name}-{second}-{round}");
                let object = Object { uid, attempt: Some(attempt), ..Object::default() };
                world.snapshot.components[index].presence = Presence::Present(object);
            }
        }
    }
    world
}

/// Makes it fail, at this second.
fn broken(mut world: World, failure: &Failure, second: i64) -> World {
    let attempt = world.snapshot.status.attempts.last().map_or(0, |last| last.attempt);
    world.snapshot.pods.clear();
    for pod in &failure.1 {
        let mut pod = pod.clone().at(second);
        pod.attempt = Some(attempt);
        pod.terminating = false;
        world = world.with(pod);
    }
    if let Some(index) = failure.0 {
        world = world.object_of(index, |object| {
            let (reason, message) = ("BackoffLimitExceeded".into(), "mm".into());
            object.report.outcome = Outcome::Failed { reason, message, at: Some(at(second)) };
        });
    }
    world
}

/// What is to be deleted goes: everything, or the component that is created again.
fn cleared(mut world: World, second: i64) -> World {
    if world.snapshot.status.phase != Phase::Running {
        let suspend = world.snapshot.status.phase == Phase::Suspending;
        return world.all_gone().suspended(suspend);
    }
    for target in world.decide(second).actions {
        if let crate::plan::Action::Delete(target) = target {
            world.snapshot.components[target.component].presence = Presence::Absent;
        }
    }
    world.snapshot.pods.clear();
    world.answered(FreshRead::Gone)
}

fn failures() -> impl Strategy<Value = Vec<Failure>> {
    let one = (prop::option::weighted(0.7, 0_usize..3), prop::collection::vec(pods(), 1..3));
    prop::collection::vec(one, 1..6)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn counts_never_decrease_and_never_pass_their_limits(
        spec in spec(),
        retry in prop::collection::vec(retry_policy(), 0..3),
        global in 0_i32..4,
        failures in failures(),
    ) {
        let mut world = running(&["Job/a:1", "Pod/b:1", "Job/c:1"])
            .with_spec(spec)
            .config(|config| config.retry_policy.global_max_retries = global)
            .answered(FreshRead::Gone);
        for (policy, index) in retry.iter().zip(0..) {
            world = world.with_retry_policy(&format!("p{index}"), policy.clone());
        }
        let mut second = 1000;
        let mut counted = 0;
        for failure in &failures {
            second += LONG;
            world = broken(world, failure, second);
            // grace periods run from what is written at the first look
            let mut decision = world.decide(second + 1);
            for _ in 0..4 {
                world = world.written(&decision);
                second += LONG;
                decision = world.decide(second);
                if decision.next != Phase::Running || decision.verdict.counted.is_some() {
                    break;
                }
            }
            counted += i32::from(decision.verdict.counted == Some(true));
            let (before, after) = (world.snapshot.status.clone(), decision.status.clone());
            prop_assert!(after.resetting_count >= before.resetting_count);
            for old in &before.retry_counts {
                let new = after.retry_counts.iter().find(|new| {
                    new.policy == old.policy && new.rule == old.rule
                });
                prop_assert!(new.is_some_and(|new| new.count >= old.count));
            }
            let number = |status: &crate::api::AppWrapperStatus| {
                status.attempts.last().map_or(0, |last| last.attempt)
            };
            prop_assert!(number(&after) >= number(&before));
            prop_assert!(after.attempts.len() <= 10);
            world = world.written(&decision);
            if matches!(decision.next, Phase::Failed | Phase::Succeeded) {
                break;
            }
            world = cleared(world, second);
            world = up(world, &mut second);
            if world.snapshot.status.phase == Phase::Suspended {
                world = up(world.suspended(false), &mut second);
            }
        }
        let status = &world.snapshot.status;
        prop_assert!(status.resetting_count <= global, "{} of {}", status.resetting_count, global);
        prop_assert!(status.resetting_count >= counted);
        if global == 0 {
            let again = |one: &crate::api::Attempt| {
                one.attempt > 0 || one.outcome == Some(AttemptOutcome::ComponentRecreated)
            };
            prop_assert!(!status.attempts.iter().any(again));
        }
    }
}
