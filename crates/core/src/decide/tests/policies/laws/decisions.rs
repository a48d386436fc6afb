//! What holds of every single decision.

use proptest::prelude::*;

use super::config;
use super::worlds::{orderly, worlds};
use crate::api::{AttemptAction, Phase, RuleSource, WaitFor, condition};
use crate::decide::Decision;
use crate::decide::VerdictAction::Handle;
use crate::decide::edges::EDGES;
use crate::decide::tests::given::World;
use crate::decide::tests::laws::waits;
use crate::plan::{Action, FreshRead};
use crate::snapshot::{Outcome, PodPhase};

const UP: &[Phase] = &[Phase::Running, Phase::Running, Phase::Resuming];

/// The limit that a counted restart must be below, and the count that it is asked of.
fn limit(world: &World, decision: &Decision) -> (i32, i32) {
    let rule = decision.verdict.rule.as_ref().expect("a counted restart has a rule");
    let status = &world.snapshot.status;
    if rule.source != RuleSource::RetryPolicy {
        let own = world.snapshot.policies.max_restarts.unwrap_or(world.limits.retry_limit);
        return (status.resetting_count, own);
    }
    let name = rule.policy.as_ref().expect("a retry policy has a name");
    let policies = &world.snapshot.retry.policies;
    let policy = policies.iter().find(|policy| policy.name == *name).expect("it is in force");
    // beside a default action stands the rule of podFailurePolicy that counts the pod
    let index = rule.index.filter(|_| rule.name.is_some());
    let of_rule = index.and_then(|index| policy.rules[usize::try_from(index).unwrap()].retry_limit);
    let global = world.config.retry_policy.global_max_retries;
    let key = rule.name.clone().unwrap_or_default();
    (count(status, name, &key), of_rule.or(policy.retry_limit).unwrap_or(global))
}

fn count(status: &crate::api::AppWrapperStatus, policy: &str, rule: &str) -> i32 {
    let counts = &status.retry_counts;
    let found = counts.iter().find(|one| one.policy == policy && one.rule == rule);
    found.map_or(0, |one| one.count)
}

/// Whether a component has reached what the next step waits for; by the documentation, not by the code.
fn has_reached(world: &World, decision: &Decision, index: usize) -> bool {
    let component = &world.snapshot.components[index];
    let deployed = &decision.status.component_status[index].conditions;
    if condition::find(deployed, condition::RESOURCES_DEPLOYED)
        .is_some_and(|one| one.status != "True")
    {
        return false; // it is away
    }
    if component.pod_sets.is_empty() {
        return component.ours().is_some();
    }
    let recorded = &decision.status.component_status[index].conditions;
    let says = component.ours().is_some_and(|one| one.report.outcome == Outcome::Succeeded);
    if says || condition::is_true(recorded, "Succeeded") {
        return true;
    }
    let steps = &world.snapshot.policies.steps;
    let ready = world.snapshot.pods.iter().filter(|pod| {
        pod.component == Some(index)
            && pod.pod_set == Some(0)
            && !pod.terminating
            && (pod.phase == PodPhase::Succeeded
                || pod.phase == PodPhase::Running && pod.true_condition("Ready").is_some())
    });
    steps.wait_for(steps.step(index)) == WaitFor::Ready
        && component.ours().is_some()
        && ready.count() >= 1
}

fn is_begun(status: &crate::api::AppWrapperStatus, index: usize) -> bool {
    let of_it = status.component_status.get(index);
    of_it.is_some_and(|one| {
        condition::find(&one.conditions, condition::RESOURCES_DEPLOYED).is_some()
    })
}

/// Whether it is written that a component goes, to be created again.
fn is_going(world: &World, index: usize) -> bool {
    let conditions = &world.snapshot.status.component_status[index].conditions;
    let deployed = condition::find(conditions, condition::RESOURCES_DEPLOYED);
    deployed.is_some_and(|one| one.status == "False" && one.reason == "Recreating")
}

/// Whether it is written that every component with pods has succeeded.
fn have_all_succeeded(world: &World) -> bool {
    let all = world.snapshot.components.iter().zip(&world.snapshot.status.component_status);
    let mut with_pods = all.filter(|(component, _)| !component.pod_sets.is_empty());
    with_pods
        .all(|(_, status)| condition::is_true(&status.conditions, condition::COMPONENT_SUCCEEDED))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_counted_restart_is_below_every_limit_in_force(world in worlds(UP), second in 0_i64..2000) {
        let decision = world.decide(second);
        let (before, after) = (&world.snapshot.status, &decision.status);
        if decision.verdict.counted != Some(true) {
            prop_assert_eq!(after.resetting_count, before.resetting_count);
            prop_assert_eq!(&after.retry_counts, &before.retry_counts);
            return Ok(());
        }
        prop_assert_eq!(after.resetting_count, before.resetting_count + 1);
        prop_assert!(after.resetting_count <= world.config.retry_policy.global_max_retries);
        let (used, most) = limit(&world, &decision);
        prop_assert!(used < most, "{} of {}", used, most);
        let rule = decision.verdict.rule.clone().unwrap();
        for one in &after.retry_counts {
            let same = rule.policy.as_ref() == Some(&one.policy)
                && rule.name.clone().unwrap_or_default() == one.rule;
            let more = i32::from(same && rule.source == RuleSource::RetryPolicy);
            prop_assert_eq!(one.count, count(before, &one.policy, &one.rule) + more);
        }
    }

    #[test]
    fn the_kill_switch_allows_no_restart_of_any_kind(world in worlds(UP), second in 0_i64..2000) {
        let decision = world.config(|config| config.retry_policy.global_max_retries = 0).decide(second);
        prop_assert_eq!(decision.verdict.counted, None);
        prop_assert!(decision.next != Phase::Resetting);
        prop_assert!(decision.verdict.action != Handle(AttemptAction::RecreateComponent));
    }

    #[test]
    fn an_uncounted_restart_only_comes_from_a_rule_that_says_so(
        world in worlds(UP), second in 0_i64..2000,
    ) {
        let verdict = world.decide(second).verdict;
        if verdict.action == Handle(AttemptAction::RestartIgnoringLimit) {
            let source = verdict.rule.unwrap().source;
            prop_assert!([RuleSource::PodFailurePolicy, RuleSource::FailurePolicy].contains(&source));
        }
    }

    #[test]
    fn no_step_begins_before_all_earlier_ones_have_reached_their_status(
        world in prop_oneof![worlds(UP), orderly()], second in 0_i64..2000,
    ) {
        let steps = world.snapshot.policies.steps.clone();
        let before = world.snapshot.status.clone();
        let decision = world.decide(second);
        let begins = |index: &usize| !is_begun(&before, *index) && is_begun(&decision.status, *index);
        let recreated = decision.verdict.action == Handle(AttemptAction::RecreateComponent);
        let runs = world.snapshot.status.phase == Phase::Running && decision.next == Phase::Running;
        if recreated || !runs {
            return Ok(());
        }
        for index in (0..3).filter(begins) {
            for earlier in (0..3).filter(|one| steps.step(*one) < steps.step(index)) {
                prop_assert!(has_reached(&world, &decision, earlier), "{} before {}", index, earlier);
            }
        }
    }

    #[test]
    fn nothing_is_created_before_the_earlier_steps_are_far_enough(
        world in prop_oneof![worlds(&[Phase::Running]), orderly()], second in 0_i64..2000,
    ) {
        let steps = world.snapshot.policies.steps.clone();
        let decision = world.decide(second);
        for action in &decision.actions {
            let Action::Create(index) = action else { continue };
            for earlier in (0..3).filter(|one| steps.step(*one) < steps.step(*index)) {
                prop_assert!(has_reached(&world, &decision, earlier), "{} before {}", index, earlier);
            }
        }
    }

    #[test]
    fn resuming_creates_the_first_step_alone(world in worlds(&[Phase::Resuming]), second in 0_i64..50) {
        for action in world.decide(second).actions {
            if let Action::Create(index) = action {
                prop_assert_eq!(world.snapshot.policies.steps.step(index), 0);
            }
        }
    }

    #[test]
    fn in_running_only_what_is_created_again_is_deleted(
        world in worlds(&[Phase::Running]), second in 0_i64..2000,
    ) {
        let decision = world.decide(second);
        let recreated = decision.verdict.action == Handle(AttemptAction::RecreateComponent);
        if recreated {
            let delete = &decision.verdict.delete;
            prop_assert_eq!(delete.len(), 1);
            prop_assert!(is_going(&world.clone().written(&decision), delete[0]));
        }
        let after = world.clone().written(&decision);
        for second in [second, second + 5000] {
            let next = after.decide(second);
            if next.next != Phase::Running {
                continue;
            }
            for action in next.actions {
                match action {
                    Action::Delete(target) | Action::ForceDelete(target) => {
                        prop_assert!(is_going(&after, target.component));
                        let ours = world.snapshot.components[target.component].ours();
                        prop_assert_eq!(Some(target.uid), ours.map(|object| object.uid.clone()));
                    }
                    Action::DeletePod { ref uid, .. } | Action::ForceDeletePod { ref uid, .. } => {
                        let pod = world.snapshot.pods.iter().find(|pod| pod.uid == *uid).unwrap();
                        let is_forced = matches!(action, Action::ForceDeletePod { .. });
                        let is_left_over = pod.terminating == is_forced && have_all_succeeded(&after);
                        let is_recreated =
                            pod.component.is_some_and(|index| is_going(&after, index));
                        prop_assert!(is_recreated || is_left_over);
                    }
                    Action::AddFinalizer | Action::Create(_) | Action::GrowMemory { .. }
                    | Action::DeleteOrphan(_) | Action::Suspend | Action::SwitchWorkload { .. }
                    | Action::RemoveFinalizer => {}
                }
            }
        }
    }

    #[test]
    fn no_decision_panics_and_every_law_of_decisions_holds(
        world in worlds(&Phase::ALL), second in 0_i64..5000,
    ) {
        let from = world.snapshot.status.phase;
        let decision = world.decide(second);
        let edge = (from, decision.next);
        prop_assert!(from == decision.next || EDGES.contains(&edge), "{edge:?}");
        let changed = decision.status != world.snapshot.status;
        prop_assert!(!changed || decision.actions.is_empty());
        if decision.actions.iter().any(|action| matches!(action, Action::Create(_))) {
            prop_assert!(!world.snapshot.suspend && !world.snapshot.deleting);
            prop_assert!([Phase::Resuming, Phase::Running].contains(&from));
        }
        if decision.ask == FreshRead::Nothing {
            prop_assert_eq!(waits(&decision), decision.verdict.deadline.is_some());
        }
        if matches!(decision.next, Phase::Resuming | Phase::Running | Phase::Resetting) {
            prop_assert!(condition::is_true(&decision.status.conditions, condition::QUOTA_RESERVED));
        }
    }

    #[test]
    fn a_world_that_stands_still_comes_to_rest(world in worlds(&Phase::ALL), second in 0_i64..5000) {
        let mut world = world.answered(FreshRead::Gone);
        for later in 0..12 {
            let decision = world.decide(second + later);
            let moves_on = decision.status.phase != world.snapshot.status.phase;
            if decision.status == world.snapshot.status && !moves_on {
                let again = world.decide(second + later);
                prop_assert_eq!(again.events, vec![]);
                return Ok(());
            }
            world = world.written(&decision);
        }
        prop_assert!(false, "still writing: {:?}", world.snapshot.status);
    }
}
