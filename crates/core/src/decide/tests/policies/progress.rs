//! Hangs: when missing progress is a failure, what is recorded of it, and who decides about it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::build::{check, failed, pod_of, running};
use crate::api::{Attempt, AttemptAction, AttemptOutcome, AttemptProgress, FailureRecord};
use crate::api::{PodSetSince, Usage, UsageState, condition};
use crate::decide::Facts;
use crate::decide::VerdictAction::{self, Handle};
use crate::decide::progress;
use crate::decide::tests::given::{World, at};
use crate::plan::FreshRead;
use crate::progress::{Report, Values, parse};
use crate::snapshot::{Expected, PodPhase, Presence};
use crate::tuning::Period;

const BOTH: &str = "progress: {startWithin: 20m, stallAfter: 10m}";
const STALL: &str = "progress: {stallAfter: 10m}";
const START: &str = "progress: {startWithin: 20m}";
const RESTART: &str = "Restart retryLimit 0 of 3";

/// A Job of two pods that are ready since a second.
fn ready(since: i64) -> World {
    ready_of(&["Job/work:2"], since)
}

/// The same, of the first of several components.
fn ready_of(components: &[&str], since: i64) -> World {
    let mut world = running(components).ready(0, 2);
    let pod_set = "0-0".to_owned();
    let from = Time(at(since));
    let entry = PodSetSince {
        pod_set,
        ready: true,
        terminating: false,
        since: from,
        failed_at: None,
        replaced_until: None,
    };
    world = world.since(|all| all.pod_sets.push(entry));
    let status = &mut world.snapshot.status;
    condition::set(&mut status.conditions, condition::PODS_READY, true, "Test", "", at(since));
    status.attempts[0].ready_at = Some(Time(at(since)));
    world
}

fn step(second: i64, step: i64) -> Report {
    Report::new(at(second), Values { step: Some(step), ..Values::default() }).unwrap()
}

fn percent(second: i64, percent: i64) -> Report {
    Report::new(at(second), Values { percent: Some(percent), ..Values::default() }).unwrap()
}

/// A message that only says that its pod works.
fn sign_of_life(second: i64) -> Report {
    Report::new(at(second), Values::default()).unwrap()
}

impl World {
    /// A pod reports.
    fn reports(self, pod: usize, report: Report) -> Self {
        self.pod(pod, |pod| pod.progress = Some(Ok(report)))
    }

    fn known(&self, second: i64) -> Option<progress::Progress> {
        let Self { snapshot, limits, config } = self;
        progress::of(Facts { snapshot, limits, config, now: at(second), anchor: at(second) })
    }
}

#[test]
fn missing_progress_is_a_failure_when_the_time_is_over() {
    let restart = "Restart retryLimit 0 of 3";
    let on = |yaml: &str| ready(0).spec(yaml);
    let first = || on(BOTH).reports(0, step(100, 1));
    let again = |yaml| ready(300).spec(yaml).reports(0, step(100, 1));
    check(vec![
        ("no guard", ready(0), 1_000_000, "None"),
        ("no report, half of the time is over", on(BOTH), 600, "Wait 1200"),
        ("no report, earlier", on(BOTH), 599, "None"),
        ("no report, just before", on(BOTH), 1199, "Wait 1200"),
        ("no report in time", on(BOTH), 1200, restart),
        ("the start has no limit", on(STALL), 1_000_000, "None"),
        ("a report", first(), 399, "None"),
        ("a report, half of the time is over", first(), 400, "Wait 700"),
        ("a report, just before", first(), 699, "Wait 700"),
        ("a report, and none newer", first(), 700, restart),
        ("another pod reports", first().reports(1, step(150, 1)), 749, "Wait 750"),
        ("another pod reports, none newer", first().reports(1, step(150, 1)), 750, restart),
        ("only the start has a limit", on(START).reports(0, step(100, 1)), 1_000_000, "None"),
        ("ready again: the start is waited for", again(BOTH), 1499, "Wait 1500"),
        ("ready again, no report", again(BOTH), 1500, restart),
        ("ready again, no limit of the start", again(STALL), 900, restart),
    ]);
}

#[test]
fn a_step_that_begins_has_no_deadline_of_a_hang() {
    let order = "executionPolicy: {executionPolicyOrder: InOrder, rules: [\
                 {targetComponents: [work], waitForComponentsStatus: Ready}, \
                 {targetComponents: [next], waitForComponentsStatus: Ready}]}";
    let mut world = ready_of(&["Job/work:2", "Job/next:1"], 0).spec(&format!("{order}\n{STALL}"));
    world.snapshot.components[1].presence = Presence::Absent;
    world.snapshot.status.component_status[1].uid = None;
    let world = world.reports(0, step(100, 1));
    let verdict = world.answered(FreshRead::Gone).ask(500).verdict;
    assert_eq!((verdict.action, verdict.create), (VerdictAction::Deploy, vec![1]));
    assert_eq!((verdict.reason, verdict.deadline), (None, None));
}

/// An initializer may report nothing.
#[test]
fn the_first_report_is_waited_for_once_the_pods_of_all_steps_run() {
    let order = "executionPolicy: {executionPolicyOrder: InOrder, rules: [\
                 {targetComponents: [work], waitForComponentsStatus: Succeeded}]}";
    let all = ready_of(&["Job/work:2", "Job/next:1"], 0).spec(&format!("{order}\n{BOTH}"));
    let mut first = all.clone();
    first.snapshot.components[1].presence = Presence::Absent;
    first.snapshot.status.component_status[1].uid = None;
    let mut all = all.with(super::build::ready(1));
    let entry = all.snapshot.status.since.as_ref().unwrap().pod_sets[0].clone();
    let (pod_set, since) = ("1-0".to_owned(), Time(at(6000)));
    all = all.since(|stored| stored.pod_sets.push(PodSetSince { pod_set, since, ..entry }));
    check(vec![
        ("the first step reports nothing", first.clone(), 1_000_000, "None"),
        ("… and does: it may hang", first.reports(0, step(100, 1)), 700, RESTART),
        ("all steps have begun", all.clone(), 7199, "Wait 7200"),
        ("… and nothing was reported in time", all, 7200, RESTART),
    ]);
}

#[test]
fn reports_that_could_not_be_written_have_some_time_after_an_outage() {
    let after_gap = |second| {
        let mut world = ready(0).spec(BOTH).reports(0, step(100, 1));
        world.snapshot.last_gap = Some(at(second));
        world
    };
    check(vec![
        ("the API server has just answered again", after_gap(690), 719, "Wait 720"),
        ("and no report came", after_gap(690), 720, "Restart retryLimit 0 of 3"),
        ("it answered in time", after_gap(660), 700, "Restart retryLimit 0 of 3"),
        ("calls that fail for ever", after_gap(90_000), 87_099, "Wait 87100"),
        ("… for too long", after_gap(90_000), 87_100, "Restart retryLimit 0 of 3"),
    ]);
    let short = |second| {
        after_gap(second).config(|config| {
            config.fault_tolerance.grace_maximum = Period::from_secs(60);
        })
    };
    check(vec![
        ("an outage of more than gracePeriodMaximum", short(800), 829, "Wait 830"),
        ("… and no report came", short(800), 830, "Restart retryLimit 0 of 3"),
        ("… calls that fail for ever", short(90_000), 87_099, "Wait 87100"),
    ]);
    let reports_since = |second| {
        let mut world = ready(0).spec(BOTH).reports(0, step(100, 1));
        world.snapshot.reports_since = Some(at(second));
        world
    };
    check(vec![
        ("the server was down until now", reports_since(690), 700, "Wait 1290"),
        ("its clients have had their time", reports_since(690), 1290, "Restart retryLimit 0 of 3"),
        ("it was up before the report", reports_since(50), 700, "Restart retryLimit 0 of 3"),
        ("it begins again and again", reports_since(87_000), 87_099, "Wait 87100"),
        ("… for too long", reports_since(87_000), 87_100, "Restart retryLimit 0 of 3"),
    ]);
    let failed_at = after_gap(690).decide(720).status.attempts.pop().unwrap().failed_at;
    assert_eq!(failed_at, Some(Time(at(700))), "the hang itself was earlier");
}

#[test]
fn a_clock_that_is_ahead_does_not_stop_the_guard() {
    let restart = "Restart retryLimit 0 of 3";
    let world = |second| ready(0).spec(BOTH).reports(0, step(second, 1));
    check(vec![
        ("a little ahead: as if it came now", world(160), 100, "None"),
        ("… and counts from its time later", world(160), 760, restart),
        ("more than an hour ahead: as if it came now", world(5000), 1200, "None"),
        ("… and counts from its time later", world(5000), 5600, restart),
        ("days ahead: no report", world(1_000_000), 1200, restart),
    ]);
    let far = ready(0).spec(STALL).reports(0, step(100_000, 1));
    assert_eq!(far.ask(100).requeue, Some(at(13_600)), "it counts from then on");
    assert_eq!(world(160).known(100).unwrap().flaws, [""; 0]);
    for (world, so) in [(far, "the report is ignored"), (world(5000), "counts as made now")] {
        let flaws = world.known(100).unwrap().flaws;
        let want = "pod work-0: annotation workload.codeflare.dev/progress: at: ";
        assert!(flaws[0].starts_with(want) && flaws[0].contains("is in the future"), "{flaws:?}");
        assert!(flaws[0].ends_with(so), "{flaws:?}");
    }
    let malformed = ready(0).spec(STALL).pod(0, |pod| pod.progress = Some(parse("{}")));
    assert_eq!(malformed.known(0).unwrap().flaws.len(), 1);
    check(vec![("what cannot be read is no report", malformed, 1_000_000, "None")]);
}

#[test]
fn nothing_is_a_hang_that_is_done_or_that_other_deadlines_are_about() {
    let late = 5000;
    let on = || ready(0).spec(BOTH).reports(0, step(100, 1)).reports(1, step(100, 1));
    let done = |world: World, index: usize| world.pod(index, |pod| pod.phase = PodPhase::Succeeded);
    let all_done = || on().reports(1, percent(200, 100));
    check(vec![
        ("succeeded in the same look", done(done(on().succeeds(0), 0), 1), late, "Succeed"),
        ("the Job has succeeded, a pod goes on", on().succeeds(0), late, "None"),
        ("every pod that reported has succeeded", done(done(on(), 0), 1), late, "None"),
        ("one of them goes on", done(on(), 0), late, "Restart retryLimit 0 of 3"),
        (
            "the other is Terminating",
            done(on(), 0).pod(1, |pod| pod.terminating = true).object_of(0, |job| {
                job.report.expected.insert(0, Expected { succeeded: 2, ..Expected::pods(2) });
            }),
            late,
            "None",
        ),
        ("all is done", all_done(), late, "None"),
        ("all is done, the other works", all_done().reports(0, sign_of_life(300)), late, "None"),
        ("not all is done by another", all_done().reports(0, percent(300, 99)), late, RESTART),
        ("only its own part is done", done(all_done(), 1).reports(0, step(300, 2)), late, RESTART),
        ("not yet", on().reports(1, percent(200, 99)), late, "Restart retryLimit 0 of 3"),
        ("it is suspended", on().suspended(true), late, "Delete"),
        ("it is deleted", on().deleted(), late, "Delete"),
    ]);
    let short = running(&["Job/work:2"]).spec(BOTH).ready(0, 1).reports(0, step(100, 1));
    assert_eq!(short.known(late).unwrap().deadline, None, "a pod is missing");
}

#[test]
fn a_component_that_succeeds_is_progress() {
    let mut world = running(&["Job/first:1", "Job/second:1"]).ready(0, 1).ready(1, 1);
    let entry = |set: &str| PodSetSince {
        pod_set: set.to_owned(),
        ready: true,
        terminating: false,
        since: Time(at(0)),
        failed_at: None,
        replaced_until: None,
    };
    world = world.since(|all| all.pod_sets = vec![entry("0-0"), entry("1-0")]);
    let world = world.spec(BOTH).reports(0, step(900, 9)).reports(1, step(100, 1)).succeeds(0);
    let world = world.pod(0, |pod| pod.phase = PodPhase::Succeeded).settled(1000);
    check(vec![
        ("the other one reported long ago", world.clone(), 2199, "Wait 2200"),
        ("… and reports no more", world, 2200, "Restart retryLimit 0 of 3"),
    ]);
}

#[test]
fn the_pods_are_listed_before_it_is_decided() {
    let world = ready(0).spec(BOTH).reports(0, step(100, 1));
    assert_eq!(world.ask(700).ask, FreshRead::Pods);
    assert_eq!(world.ask(699).ask, FreshRead::Nothing);
    let newer = world.reports(0, step(650, 2)).answered(FreshRead::Pods);
    assert_eq!(newer.ask(700).verdict.action, VerdictAction::None);
}

#[test]
fn waiting_writes_nothing_and_wakes_up_on_time() {
    let world = ready(0).spec(BOTH).reports(0, step(100, 7)).settled(101);
    for (second, requeue) in [(101, 700), (399, 700), (400, 700), (699, 700)] {
        let decision = world.ask(second);
        assert_eq!(decision.requeue, Some(at(requeue)), "{second}");
        assert_eq!(decision.status, world.snapshot.status, "{second}");
        assert!(decision.events.is_empty());
    }
    let verdict = world.ask(400).verdict;
    assert_eq!(
        verdict.message,
        format!(
            "pod work-0 reported the last progress at {}: step 7 (stallAfter 10m); counts as a hang \
             at {} unless progress is reported",
            at(100),
            at(700)
        )
    );
    let again = ready(300).spec(BOTH).reports(0, step(100, 1)).settled(301);
    assert_eq!(again.ask(400).requeue, Some(at(1000)), "a newer report wakes nobody");
    let unguarded = ready(0).reports(0, step(100, 7)).settled(101);
    assert_eq!(unguarded.ask(5000).requeue, None);
    assert_eq!(unguarded.known(5000), None);
}

#[test]
fn the_record_names_the_pod_the_step_and_the_category() {
    let report = Values {
        step: Some(1200),
        percent: Some(40),
        checkpoint: Some("step-1000".into()),
        eta: None,
    };
    let world = ready(0).spec(BOTH).reports(1, Report::new(at(100), report).unwrap());
    let decision = world.decide(705);
    let attempt = decision.status.attempts.last().unwrap();
    let failure = attempt.failure.as_ref().unwrap();
    assert_eq!(
        (failure.component.as_deref(), failure.pod.as_deref(), failure.node.as_deref()),
        (Some("work"), Some("work-1"), Some("node-1"))
    );
    assert_eq!(
        (failure.reason.as_deref(), failure.category.as_deref(), failure.exit_code),
        (Some("Stalled"), Some("hang"), None)
    );
    let message = format!(
        "pod work-1 reported the last progress at {}: step 1200, 40 % (stallAfter 10m)",
        at(100)
    );
    assert_eq!(failure.message.as_ref(), Some(&message));
    let unhealthy = condition::find(&decision.status.conditions, condition::UNHEALTHY).unwrap();
    assert_eq!((unhealthy.status.as_str(), unhealthy.reason.as_str()), ("True", "Stalled"));
    let progress = AttemptProgress {
        at: Time(at(100)),
        step: Some(1200),
        percent: Some(40),
        checkpoint: Some("step-1000".into()),
    };
    assert_eq!((attempt.failed_at.clone(), attempt.collateral), (Some(Time(at(700))), Some(0)));
    assert_eq!(attempt.progress, Some(progress));
    let silent = ready(0).spec(BOTH).decide(1200);
    let failure = silent.status.attempts.last().unwrap().failure.clone().unwrap();
    assert_eq!((failure.component.as_deref(), failure.pod.as_deref()), (Some("work"), None));
    assert_eq!(failure.category.as_deref(), Some("hang"));
    let succeeded = ready(0).spec(BOTH).reports(0, step(100, 9)).succeeds(0);
    let succeeded = succeeded.pod(0, |pod| pod.phase = PodPhase::Succeeded);
    let succeeded = succeeded.pod(1, |pod| pod.phase = PodPhase::Succeeded).decide(200);
    let recorded = succeeded.status.attempts[0].progress.clone().unwrap();
    assert_eq!((recorded.step, recorded.at), (Some(9), Time(at(100))));
}

#[test]
fn retry_policies_have_a_budget_of_their_own_for_it() {
    let hang = || ready(0).spec(BOTH).reports(0, step(100, 1));
    let by_category = "{defaultAction: Fail, rules: [{name: hang, action: Retry, retryLimit: 2, \
                       onFailureCategory: [hang]}]}";
    let by_condition = "{defaultAction: Fail, rules: [{name: stalled, action: Retry, \
                        retryLimit: 1, onConditions: [Stalled]}]}";
    let others = "{defaultAction: Retry, rules: [{name: other, action: Fail, \
                  onConditions: [OOMKilled, Evicted, NodeLost, DeadlineExceeded]}, {name: codes, \
                  action: Fail, onExitCodes: {operator: NotIn, values: [7]}}, {name: text, \
                  action: Fail, onTerminationMessage: {pattern: progress}}]}";
    let mended = failed(0).code(42).at(10);
    let configured = "failureCategories: [{name: stuck, onConditions: [Stalled]}]";
    let stuck = "{defaultAction: Fail, rules: [{name: s, action: Retry, \
                 onFailureCategory: [stuck]}]}";
    check(vec![
        (
            "a category",
            hang().retry_policy("p", by_category),
            700,
            "Restart retryPolicy/p/hang#0 0 of 2",
        ),
        (
            "its own limit",
            hang().retry_policy("p", by_category).used("p", "hang", 2),
            700,
            "Fail retryLimit/p/hang#0 2 of 2",
        ),
        (
            "a condition",
            hang().retry_policy("p", by_condition),
            700,
            "Restart retryPolicy/p/stalled#0 0 of 1",
        ),
        (
            "what is about pods",
            hang().retry_policy("p", others),
            700,
            "Restart retryPolicy/p 0 of 20",
        ),
        (
            "a configured category",
            hang().configured(configured).retry_policy("p", stuck),
            700,
            "Restart retryPolicy/p/s#0 0 of 20",
        ),
        (
            "an older failure that was mended is not about it",
            hang().with(mended).spec(
                "{progress: {stallAfter: 10m}, podFailurePolicy: {rules: [{action: FailAppWrapper, \
                 onPodConditions: [{type: Never, status: \"True\"}]}]}}",
            ),
            700,
            "Restart retryLimit 0 of 3",
        ),
    ]);
}

/// The world as that of a later attempt, after attempts that got to these steps and then failed.
fn after(steps: &[Option<i64>], world: World) -> World {
    let number = i32::try_from(steps.len()).unwrap();
    let mut world = world;
    let running = world.snapshot.status.attempts.remove(0);
    let past = steps.iter().zip(0..).map(|(step, attempt)| Attempt {
        attempt,
        ready_at: Some(Time(at(0))),
        failed_at: Some(Time(at(9000))),
        outcome: Some(AttemptOutcome::Failed),
        action: Some(AttemptAction::Restart),
        failure: Some(FailureRecord::default()),
        progress: step.map(|step| AttemptProgress {
            at: Time(at(0)),
            step: Some(step),
            percent: None,
            checkpoint: None,
        }),
        ..Attempt::default()
    });
    world.snapshot.status.attempts = past.chain([Attempt { attempt: number, ..running }]).collect();
    world.snapshot.pods.iter_mut().for_each(|pod| pod.attempt = Some(number));
    world.object_of(0, |object| object.attempt = Some(number))
}

#[test]
fn attempts_without_a_newer_step_stop() {
    let spec = "{progress: {stallAfter: 10m}, \
                failurePolicy: {stopWhen: {attemptsWithoutProgress: 2, progressAfter: 1m}}}";
    let at_step =
        |past: &[Option<i64>], now| after(past, ready(0).spec(spec).reports(0, step(100, now)));
    let (restart, stop) = ("Restart retryLimit 0 of 3", "Fail stopWhen");
    check(vec![
        ("the first steps", at_step(&[], 5), 700, restart),
        ("a newer step", at_step(&[Some(5)], 6), 700, restart),
        ("no newer step, once", at_step(&[Some(4), Some(5)], 5), 700, restart),
        ("no newer step, twice", at_step(&[Some(5), Some(5)], 5), 700, stop),
        (
            "a newer step, and later another pod says that it works",
            at_step(&[Some(5), Some(5)], 6).reports(1, sign_of_life(150)),
            750,
            restart,
        ),
        ("attempts without a report", at_step(&[Some(5), None], 4), 700, stop),
        ("an attempt without a report", after(&[Some(5), None], silent(spec)), 20, stop),
    ]);
    let evidence = at_step(&[Some(5), Some(5)], 5).decide(700).verdict.message;
    assert!(evidence.contains("2 attempts in a row failed without a newer step"), "{evidence}");
}

/// A Job that failed at second 20 and reported nothing.
fn silent(spec: &str) -> World {
    let world = running(&["Job/work:1"]).spec(spec).with(failed(0));
    world.fails(0, "BackoffLimitExceeded", "", 20)
}

#[test]
fn what_was_saved_in_a_checkpoint_is_not_lost() {
    let lost = |checkpoint: Option<i64>, yaml: &str| {
        let mut world = ready(0).spec(yaml).reports(0, step(100, 1));
        if let Some(second) = checkpoint {
            let values = Values { checkpoint: Some("c".into()), ..Values::default() };
            world = world.reports(1, Report::new(at(second), values).unwrap());
        }
        let state = Some(UsageState::Productive);
        let usage = Usage { state, since: Some(Time(at(0))), ..Usage::default() };
        world.snapshot.status.usage = Some(usage);
        let conditions = &mut world.snapshot.status.conditions;
        condition::set(conditions, condition::QUOTA_RESERVED, true, "R", "", at(0));
        let failed = world.with(pod_of(0, PodPhase::Pending)).fails(0, "Failed", "", 400);
        let seconds = failed.decide(400).status.usage.unwrap().seconds;
        (seconds.productive, seconds.lost)
    };
    assert_eq!(lost(None, BOTH), (0, 400));
    assert_eq!(lost(Some(300), BOTH), (300, 100));
    assert_eq!(lost(Some(-50), BOTH), (0, 400), "before it was productive");
    assert_eq!(lost(Some(430), BOTH), (400, 0), "a clock may be ahead");
    assert_eq!(lost(Some(300), "failurePolicy: {maxRestarts: 3}"), (0, 400), "nobody asked");
}

proptest! {
    /// Whatever is reported in whatever order: one that reports in time is never taken for a hang, and one that does
    /// not is at the deadline.
    #[test]
    fn one_that_reports_in_time_does_not_hang(
        reports in prop::collection::vec((0..2_usize, 0..2000_i64), 1..8),
        now in 0..4000_i64,
    ) {
        let mut world = ready(0).spec(BOTH);
        let mut newest = i64::MIN;
        for (pod, second) in reports.into_iter().filter(|(_, second)| *second <= now) {
            world = world.reports(pod, step(second, second));
        }
        for pod in &world.snapshot.pods {
            if let Some(Ok(report)) = &pod.progress {
                newest = newest.max(report.at().as_second() - at(0).as_second());
            }
        }
        let deadline = if newest == i64::MIN { 1200 } else { newest + 600 };
        let hangs = world.decide(now).verdict.action == Handle(AttemptAction::Restart);
        prop_assert_eq!(hangs, now >= deadline, "{} {}", now, deadline);
    }
}
