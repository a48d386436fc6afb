//! Laws that hold in every world, generated ones included.

use proptest::prelude::*;

use super::given::{World, at, given, pod};
use crate::api::Phase;
use crate::api::condition::{self, unhealthy};
use crate::decide::edges::EDGES;
use crate::decide::{Decision, VerdictAction};
use crate::plan::{Action, FreshRead};
use crate::snapshot::{CreationFailure, Outcome, Owner, PodPhase, Presence, Undetermined};

fn phases() -> impl Strategy<Value = Phase> {
    prop::sample::select(Phase::ALL.to_vec())
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Active),
        Just(Outcome::Succeeded),
        (0_i64..600).prop_map(|second| Outcome::Failed {
            reason: "R".into(),
            message: "m".into(),
            at: Some(at(second)),
        }),
    ]
}

fn owners() -> impl Strategy<Value = Owner> {
    prop_oneof![
        4 => Just(Owner::Us),
        1 => Just(Owner::Former),
        1 => Just(Owner::Stranger("X/y".into())),
    ]
}

fn pods() -> impl Strategy<Value = Vec<(PodPhase, bool, i64, i32)>> {
    let phase = prop::sample::select(vec![
        PodPhase::Pending,
        PodPhase::Running,
        PodPhase::Succeeded,
        PodPhase::Failed,
        PodPhase::Unknown,
    ]);
    prop::collection::vec((phase, any::<bool>(), 0_i64..4000, 0_i32..2), 0..4)
}

prop_compose! {
    /// Pods of which it cannot be told whose they are.
    fn undetermined()(
        count in 1_usize..20_000, ended in 0_usize..3, settled in 0_usize..3, named in 1_usize..4, unsettled in any::<bool>(),
    )
        -> Undetermined
    {
        let names = (0..named.min(count)).map(|n| (format!("x-{n}"), "it has no controller".into()));
        Undetermined {
            count,
            live: count.saturating_sub(ended),
            outlived: count.saturating_sub(ended + settled),
            named: names.collect(),
            unsettled,
            incomplete: false,
        }
    }
}

prop_compose! {
    /// Any phase, with anything in the world around it.
    fn worlds()(
        phase in phases(),
        suspend in any::<bool>(),
        deleting in any::<bool>(),
        finalizer in any::<bool>(),
        (present, owner, terminating, outcome) in (0..4, owners(), any::<bool>(), outcomes()),
        pods in pods(),
        creation in prop::option::of(any::<bool>()),
        answered in prop::sample::select(vec![FreshRead::Nothing, FreshRead::Missing, FreshRead::Gone]),
        used in 0_i32..5,
        anchors in any::<bool>(),
        undetermined in prop_oneof![3 => Just(Undetermined::default()), 1 => undetermined()],
    ) -> World {
        let mut world = given(phase).suspended(suspend).retries(used).answered(answered);
        world.snapshot.deleting = deleting;
        world.snapshot.finalizer = finalizer;
        world = match present {
            0 => world.presence(Presence::Absent),
            1 => world.presence(Presence::Unseen),
            2 => world.presence(Presence::NoKind),
            _ => world.presence(Presence::Present(crate::snapshot::Object {
                uid: "job".into(),
                attempt: Some(0),
                owner,
                terminating,
                ..Default::default()
            })).says(outcome),
        };
        world.snapshot.pods = pods
            .iter()
            .enumerate()
            .map(|(index, (phase, terminating, second, attempt))| {
                let mut pod = pod(index, *phase);
                pod.terminating = *terminating;
                pod.attempt = Some(*attempt);
                pod.created = Some(at(*second));
                pod
            })
            .collect();
        world.snapshot.components[0].creation =
            creation.map(|fatal| CreationFailure { fatal, message: "no".into() });
        world.snapshot.undetermined = undetermined;
        if !anchors {
            world.snapshot.status.since = None;
        }
        world
    }
}

prop_compose! {
    /// A first step of which no object is seen, so that it is created unless something keeps it from that.
    fn beginning()(
        unseen in any::<bool>(),
        answered in prop::sample::select(vec![FreshRead::Nothing, FreshRead::Missing, FreshRead::Gone]),
        suspend in prop::bool::weighted(0.2),
        deleting in prop::bool::weighted(0.2),
        finalizer in prop::bool::weighted(0.8),
    ) -> World {
        let presence = if unseen { Presence::Unseen } else { Presence::Absent };
        let mut world = given(Phase::Resuming).presence(presence);
        world = world.suspended(suspend).answered(answered);
        world.snapshot.deleting = deleting;
        world.snapshot.finalizer = finalizer;
        world
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() }
}

/// Whether something is decided at a deadline if nothing changes.
pub fn waits(decision: &Decision) -> bool {
    let verdict = &decision.verdict;
    let is_refused = verdict.reason.as_deref() == Some(unhealthy::CREATE_FAILED);
    verdict.action == VerdictAction::Wait || verdict.action == VerdictAction::Deploy && is_refused
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn only_edges_of_the_table_are_taken(world in worlds(), second in 0_i64..5000) {
        let from = world.snapshot.status.phase;
        let decision = world.decide(second);
        let edge = (from, decision.next);
        prop_assert!(from == decision.next || EDGES.contains(&edge), "{edge:?}");
        prop_assert_eq!(decision.status.phase, decision.next);
    }

    #[test]
    fn a_status_that_changes_carries_no_action(world in worlds(), second in 0_i64..5000) {
        let decision = world.decide(second);
        let changed = decision.status != world.snapshot.status;
        prop_assert!(!changed || decision.actions.is_empty());
        prop_assert!(decision.ask == FreshRead::Nothing || (!changed && decision.actions.is_empty()));
    }

    #[test]
    fn nothing_is_created_while_it_is_suspended_or_deleted(
        world in prop_oneof![worlds(), beginning()], second in 0_i64..5000,
    ) {
        let decision = world.decide(second);
        let creates = decision.actions.iter().any(|a| matches!(a, Action::Create(_)));
        if creates {
            prop_assert!(!world.snapshot.suspend && !world.snapshot.deleting);
            prop_assert!(world.snapshot.finalizer);
            prop_assert_eq!(world.snapshot.status.phase, Phase::Resuming);
        }
    }

    #[test]
    fn nothing_that_is_not_ours_is_deleted(world in worlds(), second in 0_i64..5000) {
        let ours = world.snapshot.components[0].ours().map(|object| object.uid.clone());
        for action in world.decide(second).actions {
            if let Action::Delete(target) | Action::ForceDelete(target) = action {
                prop_assert_eq!(Some(target.uid), ours.clone());
            }
        }
    }

    #[test]
    fn quota_and_finalizer_go_only_when_everything_is_gone(
        world in worlds(), second in 0_i64..5000,
    ) {
        let empty = world.snapshot.components[0].ours().is_none()
            && world.snapshot.pods.is_empty()
            && world.snapshot.undetermined.count == 0
            && world.snapshot.answered == FreshRead::Gone;
        let decision = world.decide(second);
        let had = |kind| condition::is_true(&world.snapshot.status.conditions, kind);
        let has = |kind| condition::is_true(&decision.status.conditions, kind);
        if had(condition::RESOURCES_DEPLOYED) && !has(condition::RESOURCES_DEPLOYED) {
            prop_assert!(empty);
        }
        if had(condition::QUOTA_RESERVED) && !has(condition::QUOTA_RESERVED) {
            let live = world.snapshot.undetermined.live;
            prop_assert!(empty || decision.next == Phase::Succeeded && live == 0);
        }
        if decision.actions.contains(&Action::RemoveFinalizer) {
            prop_assert!(empty);
        }
    }

    #[test]
    fn quota_is_held_from_resuming_to_the_last_resetting(
        world in worlds(), second in 0_i64..5000,
    ) {
        let decision = world.decide(second);
        if matches!(decision.next, Phase::Resuming | Phase::Running | Phase::Resetting) {
            prop_assert!(condition::is_true(&decision.status.conditions, condition::QUOTA_RESERVED));
        }
    }

    #[test]
    fn counted_restarts_stay_within_the_limit(world in worlds(), second in 0_i64..5000) {
        let before = world.snapshot.status.resetting_count;
        let after = world.decide(second).status.resetting_count;
        prop_assert!(after == before || (after == before + 1 && after <= world.limits.retry_limit));
    }

    #[test]
    fn undetermined_pods_change_nothing_but_that_quota_is_held(
        world in worlds(), found in undetermined(), second in 0_i64..5000,
    ) {
        let mut without = world;
        without.snapshot.undetermined = Undetermined::default();
        let mut with = without.clone();
        let unsettled = found.unsettled;
        with.snapshot.undetermined = found;
        let (plain, held) = (without.decide(second), with.decide(second));
        let had = |kind| condition::is_true(&without.snapshot.status.conditions, kind);
        let releases = |decision: &crate::decide::Decision| {
            let has = |kind| condition::is_true(&decision.status.conditions, kind);
            had(condition::RESOURCES_DEPLOYED) && !has(condition::RESOURCES_DEPLOYED)
                || had(condition::QUOTA_RESERVED) && !has(condition::QUOTA_RESERVED)
                || decision.next == Phase::Succeeded && without.snapshot.status.phase != Phase::Succeeded
                || decision.actions.contains(&Action::RemoveFinalizer)
        };
        if releases(&plain) {
            let stays = without.snapshot.status.phase;
            let harmless = |action: &Action| *action == Action::AddFinalizer;
            let waits = held.next == stays
                && held.actions.iter().all(harmless)
                && held.ask == plain.ask;
            prop_assert!(waits, "{:?} → {:?}", stays, held.next);
            prop_assert!(!unsettled || held.requeue.is_some(), "it is asked again");
        } else {
            prop_assert_eq!(held.next, plain.next);
            prop_assert_eq!(held.actions, plain.actions);
            prop_assert_eq!(held.ask, plain.ask);
            prop_assert_eq!(held.status.resetting_count, plain.status.resetting_count);
        }
    }

    #[test]
    fn nothing_is_created_beside_a_pod_that_may_be_its_own(
        world in prop_oneof![worlds(), beginning()],
        found in undetermined(),
        existed in any::<bool>(),
        second in 0_i64..5000,
    ) {
        let mut world = world;
        let lives = if existed { found.live > 0 } else { found.outlived > 0 };
        world.snapshot.undetermined = found;
        world.snapshot.components[0].existed = existed;
        world.snapshot.components[0].may_have_existed = true;
        let creates = |action: &Action| matches!(action, Action::Create(0));
        prop_assert!(!lives || !world.decide(second).actions.iter().any(creates));
    }

    #[test]
    fn owners_of_pods_are_recorded_in_a_status_that_is_written_anyway(
        world in worlds(), seen in 0_usize..200, second in 0_i64..5000,
    ) {
        let mut world = world;
        let plain = world.decide(second);
        let uids: Vec<String> = (0..seen).map(|number| format!("uid-{number}")).collect();
        world.snapshot.components[0].pod_owners = uids;
        let decision = world.decide(second);
        let recorded = |status: &crate::api::AppWrapperStatus| {
            status.component_status.first().map_or(0, |entry| entry.pod_owners.len())
        };
        let (stored, before) = (&world.snapshot.status, recorded(&world.snapshot.status));
        prop_assert_eq!(decision.status == *stored, plain.status == *stored);
        let after = recorded(&decision.status);
        prop_assert!(after <= crate::price::POD_OWNERS_MAX);
        let runs = matches!(decision.next, Phase::Running | Phase::Resetting | Phase::Suspending);
        if decision.status != *stored && runs && !decision.status.component_status.is_empty() {
            prop_assert_eq!(after, (before + seen).min(crate::price::POD_OWNERS_MAX));
        }
    }

    #[test]
    fn what_has_a_deadline_waits_or_tries_a_creation_again(
        world in worlds(), second in prop_oneof![0_i64..100, 0_i64..5000],
    ) {
        let decision = world.decide(second);
        if decision.ask == FreshRead::Nothing {
            prop_assert_eq!(waits(&decision), decision.verdict.deadline.is_some());
            if let Some(deadline) = decision.verdict.deadline {
                prop_assert!(deadline > at(second));
                prop_assert!(decision.requeue.is_some_and(|requeue| requeue <= deadline));
            }
        }
    }

    #[test]
    fn a_world_that_stands_still_comes_to_rest(world in worlds(), second in 0_i64..5000) {
        let mut world = world.answered(FreshRead::Gone);
        let mut decision = world.decide(second);
        for _ in 0..6 {
            if decision.status == world.snapshot.status {
                return Ok(());
            }
            world = world.written(&decision);
            decision = world.decide(second);
        }
        prop_assert!(false, "still writing: {:?} → {:?}", world.snapshot.status, decision.status);
    }
}
