//! Tables of steps of an active controller, then the law that this controller agrees with itself.

use proptest::prelude::*;

use super::*;
use crate::api::{AttemptAction, condition};
use crate::decide::VerdictAction::Handle;
use crate::decide::tests::given::{World, at, given};
use crate::plan::{Action, FreshRead};
use crate::snapshot::{Object, Outcome, PodPhase, Presence};

const PATIENCE: i64 = 120;

/// A comparison, and the world that it looks at.
struct Watched {
    comparison: Comparison,
    world: World,
    second: i64,
}

fn watched(world: World) -> Watched {
    Watched { comparison: Comparison::default(), world, second: 0 }
}

/// The decision, after all reads that it asks for; they show the same.
fn decided(world: &World, second: i64) -> Decision {
    let mut world = world.clone().answered(FreshRead::Nothing);
    loop {
        let decision = world.ask(second);
        if decision.ask <= world.snapshot.answered {
            return decision;
        }
        world = world.answered(decision.ask);
    }
}

impl Watched {
    /// Looks at a second.
    fn look(&mut self, second: i64) -> Vec<Finding> {
        self.look_until(second, second)
    }

    /// Looks in between two seconds: the time is rounded down and up.
    fn look_until(&mut self, second: i64, anchor: i64) -> Vec<Finding> {
        self.second = second;
        let World { snapshot, limits, config } = &self.world;
        let (now, anchor) = (at(second), at(anchor));
        let patience = Period::from_secs(PATIENCE.unsigned_abs());
        let snapshot = snapshot.clone();
        let sight = ShadowInputs { snapshot, limits, config, now, anchor, patience };
        let decision = decided(&self.world, second);
        self.comparison.look(sight, &decision).findings
    }

    /// The active controller stores something, a second later.
    fn stores(&mut self, change: impl FnOnce(&mut crate::api::AppWrapperStatus)) -> Vec<Finding> {
        change(&mut self.world.snapshot.status);
        self.look(self.second + 1)
    }

    fn goes(&mut self, phase: Phase) -> Vec<Finding> {
        self.stores(|status| status.phase = phase)
    }

    fn change(&mut self, change: impl FnOnce(World) -> World) {
        self.world = change(self.world.clone());
    }
}

fn agreed(from: Phase, to: Phase) -> Vec<Finding> {
    vec![Finding::Agreed { from, to }]
}

/// The only finding: kind, expected and observed phase.
fn only(findings: &[Finding]) -> (DifferenceKind, Phase, Phase) {
    match findings {
        [Finding::Differs(Difference { kind, expected, observed, .. })] => {
            (*kind, *expected, *observed)
        }
        other => panic!("{other:?}"),
    }
}

fn set(status: &mut crate::api::AppWrapperStatus, kind: &str, value: bool, second: i64) {
    condition::set(&mut status.conditions, kind, value, "Test", "", at(second));
}

const fn running() -> [PodPhase; 2] {
    [PodPhase::Running, PodPhase::Running]
}

#[test]
fn a_step_that_this_controller_would_make_is_agreed() {
    let mut up = watched(given(Phase::Running).pods(&running()));
    assert_eq!(up.look(10), []);
    assert_eq!(up.look(20), [], "nothing has happened");
    up.change(|world| world.says(Outcome::Succeeded).pods(&[PodPhase::Succeeded; 2]));
    assert_eq!(up.goes(Phase::Succeeded), agreed(Phase::Running, Phase::Succeeded));
    let mut up = watched(given(Phase::Running).pods(&running()));
    up.look(10);
    up.change(|world| world.suspended(true));
    assert_eq!(up.goes(Phase::Suspending), agreed(Phase::Running, Phase::Suspending));
    up.change(World::gone);
    assert_eq!(up.goes(Phase::Suspended), agreed(Phase::Suspending, Phase::Suspended));
    let mut up = watched(given(Phase::Running).pods(&running()));
    up.look(10);
    up.change(World::deleted);
    assert_eq!(up.goes(Phase::Terminating), agreed(Phase::Running, Phase::Terminating));
}

#[test]
fn phases_in_between_may_be_unseen() {
    let mut born = watched(given(Phase::Empty));
    born.look(0);
    assert_eq!(born.goes(Phase::Suspended), agreed(Phase::Empty, Phase::Suspended));
    let up = given(Phase::Running).pods(&running()).with_finalizer();
    for from in [Phase::Empty, Phase::Suspended] {
        let mut born = watched(given(from).suspended(false).with_finalizer());
        born.look(0);
        born.world = up.clone();
        assert_eq!(born.look(1), agreed(from, Phase::Running));
    }
    let mut failed = watched(given(Phase::Running).failed_job());
    failed.look(200);
    failed.world = up.retries(1);
    assert_eq!(failed.look(201), agreed(Phase::Running, Phase::Running), "a whole restart");
}

#[test]
fn a_missing_component_fails_elsewhere_and_restarts_here() {
    let mut up = watched(given(Phase::Running).pods(&running()));
    up.look(10);
    up.change(|world| world.presence(Presence::Absent));
    assert_eq!(up.look(20), []);
    let found = up.goes(Phase::Failed);
    assert_eq!(only(&found), (DifferenceKind::OtherPhase, Phase::Resetting, Phase::Failed));
    let [Finding::Differs(difference)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(difference.from, Phase::Running);
    assert_eq!(difference.action, Handle(AttemptAction::Restart));
    assert_eq!(difference.reason, "MissingComponent");
    assert_eq!(difference.since, Some(at(20)));
    assert_eq!(up.look(30), [], "it is told once");
}

#[test]
fn a_job_that_replaces_its_pods_is_reset_elsewhere() {
    let failed = [PodPhase::Failed, PodPhase::Running, PodPhase::Running];
    let mut up = watched(given(Phase::Running).pods(&running()));
    up.look(10);
    up.change(|world| world.pods(&failed));
    assert_eq!(up.look(300), []);
    up.change(|world| world.object(|object| object.terminating = true));
    let found = up.stores(|status| {
        status.phase = Phase::Resetting;
        status.resetting_count = 1;
    });
    assert_eq!(only(&found), (DifferenceKind::Moved, Phase::Running, Phase::Resetting));
}

#[test]
fn a_success_that_the_job_reports_a_moment_later_is_none_and_another_is() {
    for (reports, kind) in [(true, None), (false, Some(DifferenceKind::Moved))] {
        let mut up = watched(given(Phase::Running).pods(&running()));
        up.look(10);
        up.change(|world| world.pods(&[PodPhase::Succeeded; 2]));
        assert_eq!(up.goes(Phase::Succeeded), [], "it may be explained yet");
        if reports {
            up.change(|world| world.says(Outcome::Succeeded));
        }
        let found = [up.look(15), up.look(40)].concat();
        match kind {
            None => assert_eq!(found, agreed(Phase::Running, Phase::Succeeded)),
            Some(kind) => assert_eq!(only(&found), (kind, Phase::Running, Phase::Succeeded)),
        }
    }
}

#[test]
fn what_is_overdue_is_told_once_and_its_step_is_not_judged_again() {
    let mut up = watched(given(Phase::Running).failed_job());
    assert_eq!(up.look(200), []);
    assert_eq!(up.look(200 + PATIENCE - 1), []);
    let found = up.look(200 + PATIENCE);
    assert_eq!(only(&found), (DifferenceKind::Stayed, Phase::Resetting, Phase::Running));
    assert_eq!(up.look(200 + PATIENCE + 50), []);
    let late = up.stores(|status| {
        status.phase = Phase::Resetting;
        status.resetting_count = 1;
    });
    assert_eq!(late, []);
}

#[test]
fn a_look_is_asked_for_when_something_becomes_overdue() {
    let world = given(Phase::Running).failed_job();
    let World { snapshot, limits, config } = &world;
    let (now, patience) = (at(200), Period::from_secs(60));
    let snapshot = snapshot.clone();
    let sight = ShadowInputs { snapshot, limits, config, now, anchor: now, patience };
    let compared = Comparison::default().look(sight, &decided(&world, 200));
    assert_eq!(compared, Compared { findings: vec![], again: Some(at(260)) });
}

#[test]
fn a_restart_that_is_counted_otherwise_differs() {
    for (stored, want) in [(1, None), (0, Some((1, 0))), (2, Some((1, 2)))] {
        let mut up = watched(given(Phase::Running).failed_job());
        up.look(200);
        let found = up.stores(|status| {
            status.phase = Phase::Resetting;
            status.resetting_count = stored;
        });
        match want {
            None => assert_eq!(found, agreed(Phase::Running, Phase::Resetting)),
            Some(counts) => {
                let [Finding::Differs(difference)] = &found[..] else { panic!("{found:?}") };
                assert_eq!(difference.kind, DifferenceKind::Counted);
                assert_eq!(difference.retries, Some(counts));
            }
        }
    }
}

#[test]
fn the_end_of_the_retry_limit_is_no_restart() {
    let mut up = watched(given(Phase::Running).failed_job().retries(3));
    up.look(200);
    let found = up.stores(|status| {
        status.phase = Phase::Resetting;
        status.resetting_count = 4;
    });
    assert_eq!(only(&found), (DifferenceKind::OtherPhase, Phase::Failed, Phase::Resetting));
}

#[test]
fn a_pause_that_ends_much_earlier_differs() {
    for (pause, differs) in [(90, false), (600, true)] {
        let world = given(Phase::Resetting).gone();
        let mut down = watched(world.limits(|it| it.retry_pause = Period::from_secs(pause)));
        set(&mut down.world.snapshot.status, condition::RESOURCES_DEPLOYED, false, 100);
        down.look(105);
        let found = down.stores(|status| {
            status.phase = Phase::Resuming;
            set(status, condition::RESOURCES_DEPLOYED, true, 106);
        });
        if differs {
            assert_eq!(found, [], "it may be explained yet");
            let found = down.look(130);
            let wanted = (DifferenceKind::Moved, Phase::Resetting, Phase::Resuming);
            assert_eq!(only(&found), wanted);
            let [Finding::Differs(difference)] = &found[..] else { panic!("{found:?}") };
            assert_eq!(difference.due, Some(at(700)));
        } else {
            assert_eq!(found, agreed(Phase::Resetting, Phase::Resuming));
        }
    }
}

#[test]
fn resources_that_are_deleted_early_or_kept_differ() {
    let kept = || {
        let mut done = given(Phase::Succeeded).pods(&[PodPhase::Succeeded; 2]);
        set(&mut done.snapshot.status, condition::QUOTA_RESERVED, false, 0);
        done.limits(|limits| limits.success_ttl = Period::from_secs(1000))
    };
    let mut done = watched(kept());
    done.look(100);
    assert_eq!(done.stores(|it| set(it, condition::DELETING_RESOURCES, true, 100)), []);
    let phase = Phase::Succeeded;
    assert_eq!(only(&done.look(200)), (DifferenceKind::Deleted, phase, phase));

    let mut done = watched(kept());
    assert_eq!(done.look(1000), []);
    assert_eq!(only(&done.look(1000 + PATIENCE)), (DifferenceKind::Kept, phase, phase));
    let mut done = watched(kept());
    done.look(1000);
    let found = done.stores(|it| set(it, condition::DELETING_RESOURCES, true, 1000));
    assert_eq!(found, agreed(phase, phase));
}

#[test]
fn quota_that_is_released_while_a_pod_exists_differs() {
    let released = |status: &mut crate::api::AppWrapperStatus| {
        set(status, condition::QUOTA_RESERVED, false, 100);
        set(status, condition::RESOURCES_DEPLOYED, false, 100);
    };
    let phase = Phase::Failed;
    let mut failed = watched(given(phase).pods(&running()));
    failed.look(100);
    assert_eq!(failed.stores(released), []);
    assert_eq!(only(&failed.look(120)), (DifferenceKind::Deleted, phase, phase));
    let mut failed = watched(given(phase).pods(&running()));
    failed.look(100);
    failed.change(World::gone);
    assert_eq!(failed.stores(released), agreed(phase, phase));
}

#[test]
fn what_is_not_seen_is_neither_agreed_nor_a_difference() {
    let unseen = |from, to| vec![Finding::Unseen { from, to }];
    let mut born = watched(given(Phase::Resuming).presence(Presence::Absent));
    born.look(1);
    assert_eq!(born.goes(Phase::Failed), unseen(Phase::Resuming, Phase::Failed), "a creation");

    let mut up = watched(given(Phase::Running).pods(&running()));
    up.look(10);
    up.change(World::gone);
    up.world.snapshot.last_gap = Some(at(11));
    assert_eq!(up.goes(Phase::Resetting), unseen(Phase::Running, Phase::Resetting), "a gap");

    let mut up = watched(given(Phase::Running).pods(&running()));
    up.world.snapshot.last_gap = Some(at(11));
    up.look_until(10, 11);
    let found = only(&up.goes(Phase::Failed));
    assert_eq!(found, (DifferenceKind::Moved, Phase::Running, Phase::Failed), "a gap before");

    let mut up = watched(given(Phase::Running).pods(&running()));
    up.look(10);
    assert_eq!(up.goes(Phase::Suspending), []);
    let found = up.look(30);
    assert_eq!(found, unseen(Phase::Running, Phase::Suspending), "a request that was withdrawn");
}

#[test]
fn another_appwrapper_of_the_name_is_another() {
    let mut up = watched(given(Phase::Running).pods(&running()));
    up.look(10);
    up.world.snapshot.uid = "other".to_owned();
    assert_eq!(up.goes(Phase::Failed), []);
}

/// What happens to an AppWrapper whose controller is this one.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Suspended(bool),
    Succeeds,
    Fails,
    Loses,
    Waits(i64),
    /// So many steps of the controller, of which the comparison sees the last.
    Steps(usize),
    Deleted,
}

fn events() -> impl Strategy<Value = Vec<Happens>> {
    let one = prop_oneof![
        2 => any::<bool>().prop_map(Happens::Suspended),
        1 => Just(Happens::Succeeds),
        2 => Just(Happens::Fails),
        1 => Just(Happens::Loses),
        2 => (1_i64..400).prop_map(Happens::Waits),
        8 => (1_usize..9).prop_map(Happens::Steps),
    ];
    (prop::collection::vec(one, 1..40), any::<bool>()).prop_map(|(mut all, deleted)| {
        if deleted {
            all.extend([Happens::Deleted, Happens::Steps(3)]);
        }
        all
    })
}

impl Watched {
    /// One step of this controller: it writes, or it acts; whether there was anything to do.
    fn step(&mut self) -> bool {
        self.second += 1;
        let decision = decided(&self.world, self.second);
        if decision.status != self.world.snapshot.status {
            self.world.snapshot.status = decision.status;
            return true;
        }
        let attempt = self.world.snapshot.status.attempts.last().map(|last| last.attempt);
        let acts = !decision.actions.is_empty();
        for action in decision.actions {
            match action {
                Action::AddFinalizer => self.world.snapshot.finalizer = true,
                Action::Create(_) => {
                    let uid = format!("job-{}", self.second);
                    let object = Object { uid, attempt, ..Object::default() };
                    self.change(|world| world.presence(Presence::Present(object)));
                    self.change(|world| world.pods(&running()));
                    for pod in &mut self.world.snapshot.pods {
                        pod.attempt = attempt;
                    }
                }
                Action::Delete(_) | Action::ForceDelete(_) => self.change(World::gone),
                Action::RemoveFinalizer => self.world.snapshot.finalizer = false,
                Action::DeletePod { .. }
                | Action::ForceDeletePod { .. }
                | Action::DeleteOrphan(_)
                | Action::GrowMemory { .. }
                | Action::Suspend
                | Action::SwitchWorkload { .. } => {}
            }
        }
        acts
    }

    /// Steps until nothing is left to do now.
    fn rests(&mut self) {
        let rests = (0..50).any(|_| !self.step());
        assert!(rests, "it never rests");
    }

    /// What happens; whether the comparison must see it before the controller acts, which deletes what it acted on.
    fn happens(&mut self, event: Happens) -> bool {
        let at_second = self.second;
        let exists = self.world.snapshot.components[0].ours().is_some();
        match event {
            Happens::Suspended(suspend) => self.change(|world| world.suspended(suspend)),
            Happens::Succeeds if exists => {
                self.change(|world| world.says(Outcome::Succeeded));
                for pod in &mut self.world.snapshot.pods {
                    pod.phase = PodPhase::Succeeded;
                }
            }
            Happens::Fails if exists => {
                let (reason, message) = ("BackoffLimitExceeded".into(), String::new());
                let failed = Outcome::Failed { reason, message, at: Some(at(at_second)) };
                self.change(|world| world.says(failed));
                return true;
            }
            Happens::Loses if exists => {
                self.change(World::gone);
                return true;
            }
            Happens::Succeeds | Happens::Fails | Happens::Loses => {}
            Happens::Waits(seconds) => self.second += seconds,
            Happens::Deleted => self.change(World::deleted),
            Happens::Steps(count) => {
                for _ in 0..count {
                    self.step();
                }
            }
        }
        false
    }
}

fn differences(findings: &[Finding]) -> Vec<&Finding> {
    findings.iter().filter(|finding| matches!(finding, Finding::Differs(_))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn this_controller_agrees_with_itself(events in events(), pause in 0_u64..400) {
        let mut here = watched(given(Phase::Empty));
        here.world = here.world.limits(|limits| limits.retry_pause = Period::from_secs(pause));
        here.look(0);
        let mut agreed = 0;
        for (index, event) in events.iter().enumerate() {
            let waits = matches!(event, Happens::Waits(_));
            if waits {
                // the controller comes to rest before time goes on
                here.rests();
                let found = here.look(here.second);
                prop_assert!(differences(&found).is_empty(), "{:?} {} of {:?}", found, index, events);
                agreed += found.len();
            }
            let must_be_seen = here.happens(*event);
            if must_be_seen || waits || matches!(event, Happens::Steps(_)) {
                let found = here.look(here.second);
                let none: Vec<&Finding> = vec![];
                prop_assert_eq!(differences(&found), none, "{} of {:?}", index, events);
                agreed += found.len();
            }
        }
        let moved = here.world.snapshot.status.phase != Phase::Empty;
        prop_assert!(!moved || agreed > 0, "it was compared: {:?}", events);
    }
}
