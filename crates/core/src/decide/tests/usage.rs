//! The ledger: one row for each sentence about its states, and random lives.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::given::{World, at, given};
use crate::api::{
    AppWrapperStatus, AttemptOutcome, Phase, Usage, UsageSeconds, UsageState, condition,
};
use crate::decide::Decision;
use crate::decide::usage::{SECONDS_MAX, seconds_at, total, unsettled};
use crate::plan::FreshRead;
use crate::snapshot::{Outcome, Owner, PodCondition, PodPhase, Presence, Report};
use crate::tuning::Period;

fn usage(state: UsageState, since: i64) -> Usage {
    Usage { state: Some(state), since: Some(Time(at(since))), ..Usage::default() }
}

impl World {
    fn usage(mut self, usage: Usage) -> Self {
        self.snapshot.status.usage = Some(usage);
        self
    }

    /// Its pods were bound to their nodes at these seconds.
    fn bound(mut self, seconds: &[i64]) -> Self {
        for (pod, second) in self.snapshot.pods.iter_mut().zip(seconds) {
            pod.conditions.push(PodCondition {
                kind: "PodScheduled".into(),
                status: "True".into(),
                since: Some(at(*second)),
                ..PodCondition::default()
            });
        }
        self
    }

    fn was_ready(mut self) -> Self {
        let conditions = &mut self.snapshot.status.conditions;
        condition::set(conditions, condition::PODS_READY, true, "R", "", at(0));
        let last = self.snapshot.status.attempts.last_mut().unwrap();
        last.ready_at = Some(Time(at(0)));
        self
    }

    fn holds_quota(mut self) -> Self {
        let conditions = &mut self.snapshot.status.conditions;
        condition::set(conditions, condition::QUOTA_RESERVED, true, "R", "", at(0));
        self
    }
}

/// The ledger that is written: its state, since when, and the seconds that are not 0.
fn written(decision: &Decision) -> String {
    let Some(usage) = &decision.status.usage else { return "none".to_owned() };
    let since = usage.since.as_ref().map(|since| since.0.as_second() - at(0).as_second());
    let mut text = match (usage.state, since) {
        (Some(state), Some(since)) => format!("{}@{since}", state.as_str()),
        (state, since) => format!("{state:?}@{since:?}"),
    };
    for state in UsageState::ALL {
        let seconds = usage.seconds.of(state);
        if seconds != 0 {
            text += &format!(" {} {seconds}", state.as_str());
        }
    }
    match usage.attempt_productive_seconds {
        0 => text,
        seconds => format!("{text} of-attempt {seconds}"),
    }
}

fn row(name: &str, world: &World, second: i64, want: &str) {
    let decision = world.decide(second);
    assert_eq!(decision.ask, FreshRead::Nothing, "{name}");
    assert_eq!(written(&decision), want, "{name}: {:?}", decision.verdict);
}

#[test]
fn the_ledger_begins_with_the_quota() {
    use UsageState as U;
    row("suspended", &given(Phase::Empty).suspended(true), 5, "none");
    row("new", &given(Phase::Empty).with_finalizer(), 5, "waiting@5");
    row("resumed", &given(Phase::Suspended).suspended(false).with_finalizer(), 5, "waiting@5");
    let running = given(Phase::Running).pods(&[PodPhase::Running; 2]);
    row("an object of an older version", &running, 5, "productive@5");
    let none = given(Phase::Running).pods(&[PodPhase::Pending; 2]);
    assert_eq!(none.decide(5).status.usage, None, "nothing is written for the ledger alone");
    let again = given(Phase::Suspended).suspended(false).with_finalizer();
    let mut before = usage(U::Productive, 0);
    before.seconds.productive = 7;
    (before.state, before.since) = (None, None);
    row("a second admission", &again.usage(before), 5, "waiting@5 productive 7");
}

#[test]
fn before_an_attempt_is_ready_its_pods_wait_and_start() {
    use UsageState as U;
    let resuming = given(Phase::Resuming).usage(usage(U::Waiting, 0));
    row("created", &resuming, 5, "waiting@0");
    let two = |phase| given(Phase::Running).usage(usage(U::Waiting, 0)).pods(&[phase; 2]);
    row("ready", &two(PodPhase::Running).bound(&[3, 8]), 20, "productive@20 waiting 8 starting 12");
    row(
        "bound before the ledger",
        &two(PodPhase::Running).bound(&[-5, -9]),
        20,
        "productive@20 starting 20",
    );
    row(
        "bound in the future",
        &two(PodPhase::Running).bound(&[3, 99]),
        20,
        "productive@20 waiting 20",
    );
    row(
        "no condition: as created",
        &two(PodPhase::Running),
        20,
        "productive@20 waiting 1 starting 19",
    );
    let bound = two(PodPhase::Pending).bound(&[3, 8]).suspended(true);
    row("suspended while starting", &bound, 20, "teardown@20 waiting 8 starting 12");
    let unbound = two(PodPhase::Pending).bound(&[3]).pod(1, |pod| pod.node = None).suspended(true);
    row("one without a node", &unbound, 20, "teardown@20 waiting 20");
    let missing = given(Phase::Running).usage(usage(U::Waiting, 0)).pods(&[PodPhase::Pending]);
    row("one is missing", &missing.suspended(true), 20, "teardown@20 waiting 20");
    // a write for another reason while it starts
    let failed = given(Phase::Running)
        .usage(usage(U::Waiting, 0))
        .pods(&[PodPhase::Failed, PodPhase::Pending])
        .bound(&[3, 8]);
    row("a failure in its grace period", &failed, 21, "starting@8 waiting 8");
}

#[test]
fn what_an_attempt_did_is_lost_with_its_failure_alone() {
    use UsageState as U;
    let mut ledger = usage(U::Productive, 100);
    ledger.seconds.productive = 50;
    ledger.attempt_productive_seconds = 30;
    let world = |phase| given(phase).was_ready().usage(ledger.clone());
    let running = || world(Phase::Running).pods(&[PodPhase::Running; 2]);
    row("a failure", &running().failed_job(), 110, "teardown@110 productive 20 lost 40");
    let last = running().limits(|limits| limits.retry_limit = 0).failed_job();
    row("the last failure", &last, 110, "teardown@110 productive 20 lost 40");
    let kept = last.limits(|limits| limits.deletion_on_failure_grace = Period::from_secs(60));
    row("a failure that keeps resources", &kept, 110, "idle@110 productive 20 lost 40");
    row("a suspension", &running().suspended(true), 110, "teardown@110 productive 60");
    row("a deletion", &running().deleted(), 110, "teardown@110 productive 60");
    let done = world(Phase::Running).pods(&[PodPhase::Succeeded; 2]).says(Outcome::Succeeded);
    row("a success", &done, 110, "None@None productive 60");
    let short = world(Phase::Running).pods(&[PodPhase::Running]);
    row("not ready", &short, 110, "idle@110 productive 60 of-attempt 40");
    row("ready all the time", &running(), 110, "productive@100 productive 50 of-attempt 30");
    let back = running().usage(Usage { state: Some(U::Idle), ..ledger.clone() });
    let back = World { ..back };
    let mut unready = back.clone();
    condition::set(
        &mut unready.snapshot.status.conditions,
        condition::PODS_READY,
        false,
        "R",
        "",
        at(90),
    );
    row("ready again", &unready, 110, "productive@110 productive 50 idle 10 of-attempt 30");
}

#[test]
fn a_teardown_ends_when_everything_is_gone() {
    use UsageState as U;
    let resetting = given(Phase::Resetting).usage(usage(U::Teardown, 0));
    row("still there", &resetting, 5, "teardown@0");
    row("gone", &resetting.clone().gone(), 5, "pause@5 teardown 5");
    let at_once = resetting.clone().limits(|limits| limits.retry_pause = Period::from_secs(0));
    row("gone without a pause", &at_once.gone(), 5, "waiting@5 teardown 5");
    let paused = given(Phase::Resetting).usage(usage(U::Pause, 5)).gone();
    let paused = paused.since(|since| {
        (since.deleting, since.gone) = (None, Some(Time(at(5))));
    });
    row("paused", &paused, 50, "pause@5");
    row("the next attempt", &paused, 95, "waiting@95 pause 90");
    row("suspended in the pause", &paused.suspended(true), 50, "teardown@50 pause 45");
    let suspending = given(Phase::Suspending).usage(usage(U::Teardown, 0)).gone();
    row("suspended", &suspending, 5, "None@None teardown 5");
    let failed = given(Phase::Failed).usage(usage(U::Teardown, 0)).gone();
    row("failed", &failed, 5, "None@None teardown 5");
    let terminating = given(Phase::Terminating).holds_quota().usage(usage(U::Teardown, 0));
    row("being deleted", &terminating.gone(), 5, "teardown@0");
}

#[test]
fn the_reader_closes_the_open_interval() {
    let mut ledger = usage(UsageState::Teardown, 100);
    ledger.seconds = UsageSeconds { teardown: 5, idle: 2, ..UsageSeconds::default() };
    for (now, teardown) in [(100, 5), (103, 8), (90, 5), (-1_000_000, 5)] {
        let seconds = seconds_at(&ledger, at(now));
        assert_eq!((seconds.teardown, total(&seconds)), (teardown, teardown + 2), "{now}");
    }
    let closed = Usage { state: None, ..ledger };
    assert_eq!(total(&seconds_at(&closed, at(500))), 7);
}

#[test]
fn what_somebody_wrote_stays_within_bounds() {
    let mut hostile = usage(UsageState::Productive, 0);
    for state in UsageState::ALL {
        *hostile.seconds.of_mut(state) = i64::MAX;
    }
    hostile.attempt_productive_seconds = i64::MAX;
    let seconds = seconds_at(&hostile, at(10));
    assert_eq!(total(&seconds), 7 * SECONDS_MAX);
    assert_eq!(unsettled(&hostile, at(10)), SECONDS_MAX);
    for state in UsageState::ALL {
        *hostile.seconds.of_mut(state) = i64::MIN;
    }
    hostile.attempt_productive_seconds = i64::MIN;
    assert_eq!(total(&seconds_at(&hostile, at(10))), 10);
    let running = given(Phase::Running).was_ready().pods(&[PodPhase::Running; 2]);
    let decision = running.usage(hostile).failed_job().decide(10);
    assert_eq!(written(&decision), "teardown@10 lost 10");
    let mut ahead = usage(UsageState::Productive, 1_000_000);
    ahead.seconds.productive = 3;
    let running = given(Phase::Running).was_ready().pods(&[PodPhase::Running; 2]);
    let decision = running.usage(ahead).suspended(true).decide(10);
    assert_eq!(written(&decision), "teardown@10 productive 3", "a moment after now is now");
}

/// What happens to a Job of two pods.
#[derive(Clone, Copy, Debug)]
enum Event {
    Pods(PodPhase, PodPhase, bool),
    Gone,
    JobFails,
    JobSucceeds,
    Suspend(bool),
    Passes(i64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let phase = || prop::sample::select(PodPhase::ALL.to_vec());
    let event = prop_oneof![
        4 => (phase(), phase(), any::<bool>()).prop_map(|(a, b, bound)| Event::Pods(a, b, bound)),
        2 => Just(Event::Pods(PodPhase::Running, PodPhase::Running, true)),
        3 => Just(Event::Gone),
        1 => Just(Event::JobFails),
        1 => Just(Event::JobSucceeds),
        1 => any::<bool>().prop_map(Event::Suspend),
        3 => Just(Event::Suspend(false)),
        8 => (0_i64..200).prop_map(Event::Passes),
    ];
    prop::collection::vec(event, 1..60)
}

fn happened(mut world: World, event: Event, second: i64) -> World {
    let attempt = world.snapshot.status.attempts.last().map_or(0, |last| last.attempt);
    let object = crate::snapshot::Object {
        uid: format!("job-{attempt}"),
        attempt: Some(attempt),
        owner: Owner::default(),
        ..Default::default()
    };
    let is_up = matches!(world.snapshot.status.phase, Phase::Resuming | Phase::Running);
    match event {
        Event::Pods(a, b, bound) if is_up => {
            world.snapshot.components[0].presence = Presence::Present(object);
            world = world.pods(&[a, b]).bound(&[second - 3, second - 1]);
            for pod in &mut world.snapshot.pods {
                pod.attempt = Some(attempt);
                pod.node = pod.node.take().filter(|_| bound);
            }
            world.answered(FreshRead::Pods)
        }
        Event::JobFails | Event::JobSucceeds if is_up => {
            let outcome = match event {
                Event::JobFails => Outcome::Failed {
                    reason: "BackoffLimitExceeded".into(),
                    message: String::new(),
                    at: Some(at(second)),
                },
                Event::JobSucceeds
                | Event::Pods(..)
                | Event::Gone
                | Event::Suspend(_)
                | Event::Passes(_) => Outcome::Succeeded,
            };
            let report = Report { outcome, ..Report::default() };
            let object = crate::snapshot::Object { report, ..object };
            world.snapshot.components[0].presence = Presence::Present(object);
            world.answered(FreshRead::Pods)
        }
        Event::Gone => world.gone(),
        Event::Suspend(suspend) => world.suspended(suspend),
        Event::Pods(..) | Event::JobFails | Event::JobSucceeds | Event::Passes(_) => world,
    }
}

/// How long quota was held, by the condition alone.
#[derive(Default)]
struct Held {
    closed: i64,
    since: Option<i64>,
}

impl Held {
    fn note(&mut self, status: &AppWrapperStatus, now: i64) {
        let holds = condition::is_true(&status.conditions, condition::QUOTA_RESERVED);
        match (self.since, holds) {
            (None, true) => self.since = Some(now),
            (Some(since), false) => {
                self.closed += now - since;
                self.since = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    fn at(&self, now: i64) -> i64 {
        self.closed + self.since.map_or(0, |since| now - since)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_states_add_up_to_the_time_that_quota_was_held(
        events in events(), retries in 0_i32..4, pause in 0_i64..100, kept in 0_i64..50,
    ) {
        let mut world = given(Phase::Suspended).suspended(false).with_finalizer().limits(|limits| {
            limits.retry_limit = retries;
            limits.retry_pause = Period::from_secs(pause.unsigned_abs());
            limits.deletion_on_failure_grace = Period::from_secs(kept.unsigned_abs());
        });
        let (mut held, mut second) = (Held::default(), 0);
        let (mut productive, mut lost) = (0, 0);
        for event in events {
            second += if let Event::Passes(seconds) = event { seconds } else { 0 };
            world = happened(world, event, second);
            let decision = world.decide(second);
            let (before, after) = (&world.snapshot.status, &decision.status);
            held.note(after, second);
            let usage = after.usage.clone().unwrap_or_default();
            let seconds = seconds_at(&usage, at(second));
            prop_assert_eq!(total(&seconds), held.at(second), "{:?}", usage);
            prop_assert_eq!(usage.state.is_some(), held.since.is_some());
            prop_assert!(seconds.lost >= lost && seconds.productive + seconds.lost >= productive);
            prop_assert!(unsettled(&usage, at(second)) <= seconds.productive);
            let fails = after.attempts.last().is_some_and(|last| {
                last.outcome == Some(AttemptOutcome::Failed) && last.action.is_some()
            }) && before.attempts.last().is_some_and(|last| last.action.is_none());
            let at_stake = before.usage.as_ref().map_or(0, |usage| unsettled(usage, at(second)));
            prop_assert_eq!(seconds.lost - lost, if fails { at_stake } else { 0 });
            (productive, lost) = (seconds.productive + seconds.lost, seconds.lost);
            let same = AppWrapperStatus { usage: before.usage.clone(), ..after.clone() } == *before;
            prop_assert!(!same || after.usage == before.usage, "no write of its own");
            world = world.written(&decision);
        }
    }

    #[test]
    fn a_clock_that_steps_back_takes_nothing_away(
        events in prop::collection::vec((events(), -300_i64..300), 1..5),
    ) {
        let mut world = given(Phase::Suspended).suspended(false).with_finalizer();
        let (mut second, mut known) = (0, UsageSeconds::default());
        for (events, step) in events {
            second += step;
            for event in events {
                second += if let Event::Passes(seconds) = event { seconds } else { 0 };
                world = happened(world, event, second);
                let decision = world.decide(second);
                let usage = decision.status.usage.clone().unwrap_or_default();
                for state in UsageState::ALL {
                    let (now, before) = (usage.seconds.of(state), known.of(state));
                    let may_fall = state == UsageState::Productive;
                    prop_assert!(now >= before || may_fall, "{:?}: {} < {}", state, now, before);
                }
                prop_assert!(total(&usage.seconds) >= total(&known));
                known = usage.seconds;
                world = world.written(&decision);
            }
        }
    }
}
