use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::from_zero::ZERO_FOR;
use super::*;
use crate::api::condition::{self, deleting, unhealthy};
use crate::api::{
    Attempt, AttemptAction, AttemptOutcome, Budget, FailureRecord, RuleRef, RuleSource, Since,
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn time(second: i64) -> Time {
    Time(at(second))
}

/// A status in a phase, with conditions that are True since a moment.
fn given(phase: Phase, conditions: &[(&str, &str, i64)]) -> AppWrapperStatus {
    let mut status = AppWrapperStatus { phase, ..AppWrapperStatus::default() };
    for (kind, reason, since) in conditions {
        condition::set(&mut status.conditions, kind, true, reason, "", at(*since));
    }
    status
}

fn attempt(number: i32, started: i64) -> Attempt {
    Attempt { attempt: number, started_at: Some(time(started)), ..Attempt::default() }
}

fn failed(attempt: Attempt, failed_at: i64, action: AttemptAction) -> Attempt {
    Attempt {
        failed_at: Some(time(failed_at)),
        outcome: Some(AttemptOutcome::Failed),
        action: Some(action),
        rule: Some(RuleRef::plain(RuleSource::RetryLimit)),
        failure: Some(FailureRecord {
            category: Some("oom".to_owned()),
            ..FailureRecord::default()
        }),
        ..attempt
    }
}

fn with(mut status: AppWrapperStatus, attempts: Vec<Attempt>, since: Since) -> AppWrapperStatus {
    (status.attempts, status.since) = (attempts, Some(since));
    status
}

fn decided(action: AttemptAction) -> Vec<Failure> {
    let category = Some("oom".to_owned());
    vec![Failure { action, source: Some(RuleSource::RetryLimit), category }]
}

const UNHEALTHY: &str = condition::UNHEALTHY;
const DELETING: &str = condition::DELETING_RESOURCES;

#[test]
fn a_failure_that_is_waited_on_is_detected_once() {
    let running = given(Phase::Running, &[]);
    let awaited = Since { failed_pods: Some(time(90)), ..Since::default() };
    for (reason, want) in [
        (unhealthy::FOUND_FAILED_PODS, Some(10)),
        (unhealthy::FAILED_COMPONENT, Some(10)),
        // no object tells since when
        (unhealthy::MISSING_COMPONENT, None),
        (unhealthy::INSUFFICIENT_PODS_READY, None),
        (unhealthy::AUTOPILOT_NO_EXECUTE, None),
    ] {
        let seen = given(Phase::Running, &[(UNHEALTHY, reason, 100)]);
        let seen = with(seen, vec![attempt(0, 1)], awaited.clone());
        let change = Change::of(&running, &seen, at(100));
        assert_eq!(change.detection, want, "{reason}");
        assert_eq!(Change::of(&seen, &seen, at(130)), Change::default(), "{reason}, again");
    }
}

#[test]
fn a_restart_tells_detection_cause_and_rule() {
    let old = with(given(Phase::Running, &[]), vec![attempt(0, 1)], Since::default());
    let conditions =
        [(UNHEALTHY, unhealthy::FAILED_COMPONENT, 100), (DELETING, deleting::INITIATED, 100)];
    let last = failed(attempt(0, 1), 97, AttemptAction::Restart);
    let new = with(given(Phase::Resetting, &conditions), vec![last], Since::default());
    let want = Change {
        phase: Some((Phase::Running, Phase::Resetting)),
        failures: decided(AttemptAction::Restart),
        outcomes: vec![AttemptOutcome::Failed],
        detection: Some(3),
        ..Change::default()
    };
    assert_eq!(Change::of(&old, &new, at(100)), want);
    // it was Unhealthy before: only the decision is new
    let waited = with(
        given(Phase::Running, &[(UNHEALTHY, unhealthy::FOUND_FAILED_PODS, 98)]),
        vec![attempt(0, 1)],
        Since::default(),
    );
    assert_eq!(Change::of(&waited, &new, at(100)), Change { detection: None, ..want });
}

#[test]
fn teardown_and_pause_end_where_the_next_begins() {
    let began = [(DELETING, deleting::INITIATED, 100)];
    let closed = || failed(attempt(0, 1), 97, AttemptAction::Restart);
    let since = Since { deleting: Some(time(100)), ..Since::default() };
    let deleting = with(given(Phase::Resetting, &began), vec![closed()], since);
    let pause = Since { gone: Some(time(121)), ..Since::default() };
    let ended = Attempt { ended_at: Some(time(120)), ..closed() };
    let gone = with(given(Phase::Resetting, &[]), vec![ended.clone()], pause);
    let change = Change::of(&deleting, &gone, at(120));
    assert_eq!(change, Change { teardown: Some(20), ..Change::default() });
    let next = |now| {
        let deployed = Since { deployed: Some(time(now)), ..Since::default() };
        with(given(Phase::Resuming, &[]), vec![ended.clone(), attempt(1, now)], deployed)
    };
    let phase = Some((Phase::Resetting, Phase::Resuming));
    let change = Change::of(&gone, &next(210), at(210));
    assert_eq!(change, Change { phase, pause: Some(89), ..Change::default() });
    // without a pause, one write ends the deletion and begins the next attempt
    let change = Change::of(&deleting, &next(120), at(120));
    assert_eq!(change, Change { phase, teardown: Some(20), pause: Some(0), ..Change::default() });
    // the moment at which everything was gone is rounded up: it may lie ahead
    assert_eq!(Change::of(&gone, &next(120), at(120)).pause, Some(0));
}

#[test]
fn a_start_ends_when_every_pod_is_there() {
    let running = |attempts| with(given(Phase::Running, &[]), attempts, Since::default());
    let ready = |attempt| Attempt { ready_at: Some(time(15)), ..attempt };
    let (before, after) = (running(vec![attempt(0, 10)]), running(vec![ready(attempt(0, 10))]));
    assert_eq!(Change::of(&before, &after, at(15)).start, Some(5));
    assert_eq!(Change::of(&after, &after, at(16)).start, None);
    // after one component was created again, the rest of the attempt has an entry of its own
    let recreated = Attempt {
        outcome: Some(AttemptOutcome::ComponentRecreated),
        ..failed(attempt(0, 1), 9, AttemptAction::RecreateComponent)
    };
    let before = running(vec![recreated.clone(), attempt(0, 10)]);
    let after = running(vec![recreated, ready(attempt(0, 10))]);
    assert_eq!(Change::of(&before, &after, at(15)).start, None);
}

#[test]
fn one_component_created_again_closes_an_entry_and_opens_another() {
    let before = with(given(Phase::Running, &[]), vec![attempt(0, 1)], Since::default());
    let closed = Attempt {
        outcome: Some(AttemptOutcome::ComponentRecreated),
        ..failed(attempt(0, 1), 9, AttemptAction::RecreateComponent)
    };
    let after = with(given(Phase::Running, &[]), vec![closed, attempt(0, 10)], Since::default());
    let change = Change::of(&before, &after, at(10));
    assert_eq!(change.failures, decided(AttemptAction::RecreateComponent));
    assert_eq!(change.outcomes, [AttemptOutcome::ComponentRecreated]);
}

#[test]
fn an_entry_that_fell_off_the_record_changes_nothing() {
    let closed =
        |number: i32| failed(attempt(number, i64::from(number) * 10), 9, AttemptAction::Restart);
    let full: Vec<Attempt> = (0..10).map(closed).collect();
    let before = with(given(Phase::Resetting, &[]), full.clone(), Since::default());
    let mut moved = full[1..].to_vec();
    moved.push(attempt(10, 500));
    let after = with(given(Phase::Resuming, &[]), moved, Since::default());
    let change = Change::of(&before, &after, at(500));
    assert_eq!((change.failures, change.outcomes), (vec![], vec![]));
}

#[test]
fn an_object_of_the_go_controller_has_no_entry_before_it_fails() {
    let before = given(Phase::Running, &[]);
    let closed = failed(Attempt::default(), 95, AttemptAction::Fail);
    let reason = [(UNHEALTHY, unhealthy::FOUND_FAILED_PODS, 100)];
    let after = with(given(Phase::Failed, &reason), vec![closed], Since::default());
    let change = Change::of(&before, &after, at(100));
    assert_eq!(change.failures, decided(AttemptAction::Fail));
    assert_eq!(change.detection, Some(5));
}

#[test]
fn a_deletion_ends_with_the_finalizer() {
    let terminating = given(Phase::Terminating, &[(DELETING, deleting::FORCED, 100)]);
    let change = Change::removal(&terminating, at(130));
    assert_eq!(change, Change { teardown: Some(30), ..Change::default() });
    let nothing_to_delete = given(Phase::Terminating, &[]);
    assert_eq!(Change::removal(&nothing_to_delete, at(130)), Change::default());
}

#[test]
fn a_clock_that_is_far_off_tells_no_duration() {
    let running = given(Phase::Running, &[]);
    for (failed_pods, want) in [(130, Some(0)), (1_000, None), (-86_400, Some(86_500))] {
        let seen = given(Phase::Running, &[(UNHEALTHY, unhealthy::FOUND_FAILED_PODS, 100)]);
        let since = Since { failed_pods: Some(time(failed_pods)), ..Since::default() };
        let seen = with(seen, vec![], since);
        assert_eq!(Change::of(&running, &seen, at(100)).detection, want, "{failed_pods}");
    }
}

#[test]
fn changes_appear_on_the_page() {
    let (metrics, world) = watching();
    let fresh = metrics.page();
    for line in [
        concat!("appwrapper_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        r#"appwrapper_phase_changes_total{from="Empty",to="Suspended"} 0"#,
        r#"appwrapper_phase_changes_total{from="Running",to="Resetting"} 0"#,
        r#"appwrapper_attempts_total{outcome="Failed"} 0"#,
    ] {
        assert!(fresh.contains(line), "{line}\n{fresh}");
    }
    let old = with(given(Phase::Running, &[]), vec![attempt(0, 1)], Since::default());
    let last = failed(attempt(0, 1), 97, AttemptAction::Restart);
    let reason = [(UNHEALTHY, unhealthy::FAILED_COMPONENT, 100)];
    let new = with(given(Phase::Resetting, &reason), vec![last], Since::default());
    metrics.changed(&AppWrapperStatus::default(), &old, at(1));
    metrics.changed(&old, &new, at(100));
    metrics.warning("FoundFailedPods");
    metrics.reconciled(Duration::from_millis(3), true);
    for at in [Duration::ZERO, ZERO_FOR / 2] {
        world.lock().unwrap().at = at;
        let page = metrics.page();
        for line in [
            r#"appwrapper_failures_total{action="Restart",category="oom",source="retryLimit"} 0"#,
            r#"appwrapper_warnings_total{reason="FoundFailedPods"} 0"#,
        ] {
            assert!(page.contains(line), "every Prometheus sees 0 first: {line}\n{page}");
        }
    }
    world.lock().unwrap().at = ZERO_FOR;
    let page = metrics.page();
    for line in [
        r#"appwrapper_phase_changes_total{from="Empty",to="Running"} 1"#,
        r#"appwrapper_phase_changes_total{from="Running",to="Resetting"} 1"#,
        r#"appwrapper_failures_total{action="Restart",category="oom",source="retryLimit"} 1"#,
        r#"appwrapper_attempts_total{outcome="Failed"} 1"#,
        r#"appwrapper_warnings_total{reason="FoundFailedPods"} 1"#,
        r#"appwrapper_detection_seconds_bucket{le="2"} 0"#,
        r#"appwrapper_detection_seconds_bucket{le="5"} 1"#,
        r#"appwrapper_reconcile_seconds_bucket{result="ok",le="0.005"} 1"#,
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

#[test]
fn a_refill_is_counted_once() {
    let old = given(Phase::Running, &[]);
    let budget = Budget { used: 0, global_used: 2, since: Time(at(1)) };
    let new = AppWrapperStatus { budget: Some(budget.clone()), ..old.clone() };
    let used = AppWrapperStatus { budget: Some(Budget { used: 1, ..budget }), ..old.clone() };
    let is_refilled = |old, new| Change::of(old, new, at(2)).is_refilled;
    assert!(is_refilled(&old, &new));
    assert!(!is_refilled(&new, &used) && !is_refilled(&new, &new) && !is_refilled(&new, &old));
}

#[test]
fn restarts_and_ignored_pods_are_counted_once() {
    let given = |counted, uncounted, ignored| AppWrapperStatus {
        resetting_count: counted,
        uncounted_restarts: uncounted,
        ignored_failures: ignored,
        ..given(Phase::Running, &[])
    };
    let counts = |old: &AppWrapperStatus, new: &AppWrapperStatus| {
        let Change { counted_restarts, uncounted_restarts, ignored_failures, .. } =
            Change::of(old, new, at(1));
        (counted_restarts, uncounted_restarts, ignored_failures)
    };
    let (old, new) = (given(1, 2, 3), given(1, 3, 5));
    assert_eq!(counts(&old, &new), (0, 1, 2));
    assert_eq!(counts(&new, &new), (0, 0, 0));
    assert_eq!(counts(&old, &given(2, 2, 3)), (1, 0, 0));
    assert_eq!(counts(&given(5, 5, 5), &given(0, 0, 0)), (0, 0, 0), "a count never decreases");
    assert_eq!(counts(&given(0, i32::MIN, 0), &given(0, 1, 0)), (0, 1, 0), "an edited status");
    let metrics = Metrics::new();
    let page = metrics.page();
    for line in [
        r#"appwrapper_restarts_total{counted="false"} 0"#,
        r#"appwrapper_restarts_total{counted="true"} 0"#,
        "appwrapper_ignored_failures_total 0",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    metrics.changed(&old, &new, at(1));
    metrics.changed(&new, &new, at(2));
    metrics.changed(&new, &given(2, 3, 5), at(3));
    let page = metrics.page();
    for line in [
        r#"appwrapper_restarts_total{counted="false"} 1"#,
        r#"appwrapper_restarts_total{counted="true"} 1"#,
        "appwrapper_ignored_failures_total 2",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

fn present(uid: &str, phase: Phase, queue: &str, idle: bool) -> Present {
    let (uid, queue) = (uid.to_owned(), queue.to_owned());
    Present { uid, phase, queue, idle, queue_known: QueueKnown::Admitted, ..Present::default() }
}

/// Metrics with a world that can be changed.
fn watching() -> (Metrics, Arc<Mutex<Census>>) {
    let metrics = Metrics::new();
    let world = Arc::new(Mutex::new(Census::default()));
    let source = world.clone();
    metrics.count_with(move || Some(source.lock().unwrap().clone()));
    (metrics, world)
}

#[test]
fn what_is_there_is_counted_at_each_scrape() {
    let (metrics, world) = watching();
    world.lock().unwrap().suspect_nodes = 2;
    world.lock().unwrap().present = vec![
        present("1", Phase::Running, "a", false),
        present("2", Phase::Running, "a", true),
        present("3", Phase::Empty, "", false),
        Present {
            stuck_pods: 2,
            stuck: true,
            over_quota: true,
            ..present("4", Phase::Resetting, "b", true)
        },
    ];
    let page = metrics.page();
    for line in [
        r#"appwrapper_appwrappers{phase="Running",queue="a"} 2"#,
        r#"appwrapper_appwrappers{phase="Empty",queue=""} 1"#,
        r#"appwrapper_quota_idle{queue="a"} 1"#,
        r#"appwrapper_quota_idle{queue=""} 0"#,
        "appwrapper_stuck_pods 2",
        "appwrapper_stuck_deletions 1",
        "appwrapper_pods_over_quota 1",
        "appwrapper_suspect_nodes 2",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    world.lock().unwrap().present.clear();
    let page = metrics.page();
    assert!(!page.contains("appwrapper_appwrappers{"), "{page}");
    assert!(page.contains("appwrapper_stuck_pods 0"), "{page}");
}

#[test]
fn idle_quota_is_summed_from_scrape_to_scrape() {
    let (metrics, world) = watching();
    let told = std::cell::Cell::new(Duration::ZERO);
    let look = |second: u64, idle: &[&str]| {
        let all = ["x", "y"].map(|uid| Present {
            idle_for: told.get(),
            ..present(uid, Phase::Resuming, "q", idle.contains(&uid))
        });
        *world.lock().unwrap() =
            Census { at: Duration::from_secs(second), present: all.into(), suspect_nodes: 2 };
        let page = metrics.page();
        let value = |name: &str| -> f64 {
            let line = page.lines().find(|line| line.starts_with(&format!("{name}{{")));
            line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(f64::NAN)
        };
        let total = value("appwrapper_quota_idle_seconds_total");
        (total, value("appwrapper_quota_idle_longest_seconds"))
    };
    assert_eq!(look(100, &["x", "y"]), (0.0, 0.0), "nothing is known of before");
    assert_eq!(look(115, &["x", "y"]), (30.0, 15.0));
    assert_eq!(look(130, &["y"]), (45.0, 30.0));
    assert_eq!(look(145, &[]), (45.0, 0.0));
    assert_eq!(look(150, &["x"]), (50.0, 0.0), "idle again");
    assert_eq!(look(9_150, &["x"]), (170.0, 9_000.0), "a long time without a scrape");
    metrics.set_leader(false);
    assert!(look(9_160, &["x"]).0.is_nan(), "a replica that stands by reports nothing");
    metrics.set_leader(true);
    assert_eq!(look(9_200, &["x"]), (170.0, 0.0), "and knows nothing of the time before");
    told.set(Duration::from_mins(10));
    assert_eq!(look(9_210, &["x"]), (180.0, 10.0), "what was seen counts");
    metrics.set_leader(false);
    look(9_220, &["x"]);
    metrics.set_leader(true);
    assert_eq!(look(9_230, &["x"]), (180.0, 600.0), "the first look counts what the status says");
    assert_eq!(look(9_240, &["x"]), (190.0, 610.0));
    assert_eq!(look(9_250, &["y"]), (200.0, 0.0), "idle again");
}

#[test]
fn names_of_queues_and_categories_are_bounded() {
    let (metrics, world) = watching();
    let many = (0..QUEUES_MAX + 5).map(|n| {
        let namespace = format!("ns{}", n % 50);
        Present { namespace, ..present("", Phase::Running, &format!("q{n}"), false) }
    });
    world.lock().unwrap().present = many.collect();
    let page = metrics.page();
    let series = page.lines().filter(|line| line.starts_with("appwrapper_appwrappers{")).count();
    assert_eq!(series, QUEUES_MAX + 1);
    assert!(page.contains(r#"appwrapper_appwrappers{phase="Running",queue="other"} 5"#), "{page}");
    for number in 0..CATEGORIES_MAX + 3 {
        let mut last = failed(attempt(0, 1), 9, AttemptAction::Restart);
        let category = Some(format!("c{number}"));
        last.failure = Some(FailureRecord { category, ..FailureRecord::default() });
        let new = with(AppWrapperStatus::default(), vec![last], Since::default());
        metrics.changed(&AppWrapperStatus::default(), &new, at(10));
    }
    drop(metrics.page());
    world.lock().unwrap().at = ZERO_FOR;
    let other = r#"{action="Restart",category="other",source="retryLimit"} 3"#;
    assert!(metrics.page().contains(other));
}

#[test]
fn an_invalid_configuration_is_on_the_page() {
    let metrics = Metrics::new();
    for (is_valid, want) in [(None, 1), (Some(false), 0), (Some(true), 1)] {
        if let Some(is_valid) = is_valid {
            metrics.set_configuration_valid(is_valid);
        }
        let line = format!("appwrapper_configuration_valid {want}\n");
        assert!(metrics.page().contains(&line), "{is_valid:?}: {}", metrics.page());
    }
}

#[test]
fn the_certificate_is_on_the_page_once_there_is_one() {
    let metrics = Metrics::new();
    assert!(metrics.page().contains("appwrapper_leader 1\n"));
    metrics.set_leader(false);
    assert!(metrics.page().contains("appwrapper_leader 0\n"));
    let name = "appwrapper_certificate_expiry_timestamp_seconds ";
    assert!(!metrics.page().contains(name));
    metrics.set_certificate_expiry(at(1_900_000_000));
    assert!(metrics.page().contains(&format!("{name}1900000000\n")));
}
