//! Which failed pod is the cause, whatever is seen first: not one that was replaced, and of the others the first.

use super::build::{check, container, failed, ready, running};
use crate::api::Phase;
use crate::decide::tests::given::{World, at};
use crate::snapshot::{Pod, Presence};
use crate::tuning::Period;

const OVER: &str = "BackoffLimitExceeded";
const JUDGES: &str = "{rules: [\
    {name: f, action: Fail, onExitCodes: {operator: In, values: [42]}}, \
    {name: oom, action: Retry, onConditions: [OOMKilled]}], defaultAction: Retry}";

/// A Job of two pods that runs since second 30; a pod failed at second 20 and was replaced.
fn replaced() -> World {
    running(&["Job/work:2"]).with(failed(0)).ready(0, 2).backoff(0, 6, 1).settled(30)
}

fn named(name: &str, pod: Pod) -> Pod {
    Pod { name: name.into(), uid: name.into(), ..pod }
}

#[test]
fn a_pod_that_was_replaced_is_not_the_cause_at_any_later_look() {
    let mut drained = replaced().pod(1, |pod| pod.terminating = true);
    for second in 1000..1020 {
        let decision = drained.decide(second);
        assert_eq!(decision.next, Phase::Running, "at {second}: {:?}", decision.verdict);
        assert_eq!(decision.verdict.deadline, None, "at {second}");
        drained = drained.written(&decision);
    }
    // the replacement is there before the pod set is seen to be short
    let at_once = replaced().pod(1, |pod| pod.name = "other".into()).settled(1000);
    assert_eq!(at_once.decide(1001).verdict.deadline, None);
    // two were replaced, one after the other, and only the first was seen to be missing
    let twice = replaced().with(failed(0).at(500)).settled(520);
    let drained = twice.pod(1, |pod| pod.terminating = true).settled(1000);
    assert_eq!(drained.decide(1001).verdict.deadline, None);
}

#[test]
fn the_clock_of_a_node_that_runs_ahead_leads_to_no_write_at_each_look() {
    let world = running(&["Job/work:2"]).with(failed(0).at(300)).ready(0, 2).backoff(0, 6, 1);
    let world = world.settled(30);
    for second in 31..300 {
        assert_eq!(world.decide(second).status, world.snapshot.status, "at {second}");
    }
    let until = |world: &World| {
        let since = world.snapshot.status.since.as_ref().expect("it runs");
        since.pod_sets[0].replaced_until.as_ref().map(|time| time.0)
    };
    assert_eq!((until(&world), until(&world.settled(300))), (None, Some(at(300))));
    // the API server knows that it had failed
    let known = |pod: Pod| Pod { failed_by: Some(at(21)), ..pod };
    let world = running(&["Job/work:2"]).with(known(failed(0).at(300))).ready(0, 2);
    assert_eq!(until(&world.backoff(0, 6, 1).settled(30)), Some(at(21)));
}

#[test]
fn a_pod_that_fails_as_soon_as_all_run_is_a_failure() {
    let world = running(&["Job/work:2"]).ready(0, 2).backoff(0, 6, 0).settled(30);
    // the kubelet rounds the end down, the watch is late
    let mut world = world.pod(1, |pod| *pod = named("work-1", failed(0).at(29)));
    for second in 31..34 {
        let decision = world.decide(second);
        assert_eq!(decision.verdict.deadline, Some(at(89)), "at {second}");
        world = world.written(&decision);
    }
}

/// A container failed at 20, before another pod failed at 50 and was replaced; the last container of the pod ended at 100.
#[test]
fn a_pod_that_ended_after_the_last_replacement_was_not_replaced() {
    let world = running(&["Job/work:2"]).with(failed(0).at(50)).ready(0, 2).backoff(0, 6, 1);
    let mut world = world.settled(60);
    world.limits.terminal_exit_codes = [42].into();
    let late = failed(0).code(42).at(20).and(container("log", 0, "Completed", "", 100));
    let world = world.pod(2, |pod| *pod = named("work-1", late));
    assert_eq!(world.says_at(101), "Fail exitCodeAnnotation");
    // what its owner deletes because of it is its consequence, whether it is still there or gone
    let rule = "podFailurePolicy: {rules: [{action: FailAppWrapper, \
                onExitCodes: {operator: In, values: [143]}}]}";
    let mut world = world.limits(|limits| limits.terminal_exit_codes.clear()).spec(rule);
    world = world.settled(101).pod(1, |pod| {
        let deleted = Pod { deletion_requested: Some(at(101)), ..failed(0).code(143).at(102) };
        *pod = named("work-2", Pod { terminating: true, ..deleted });
    });
    assert_eq!(world.says_at(103), "Wait 160");
    world.snapshot.pods.remove(2);
    assert_eq!(world.says_at(103), "None", "its owner replaces both");
}

#[test]
fn a_pod_fails_for_its_component_when_its_last_container_has_ended() {
    let pod = || failed(0).code(3).and(container("log", 0, "Completed", "", 100));
    let rule = "failurePolicy: {rules: [{name: f, action: FailAppWrapper, \
                onJobFailureReasons: [BackoffLimitExceeded]}]}";
    let world = |limit, failed| running(&["Job/work:1"]).with(pod()).backoff(0, limit, failed);
    let silent = || world(0, 1).spec(rule);
    let gap = |mut world: World, second: i64| {
        world.snapshot.last_gap = Some(at(second));
        world
    };
    check(vec![
        ("it is replaced, or not, from then on", world(6, 1), 101, "Wait 160"),
        ("its Job may say why it failed from then on", silent(), 101, "Wait 160"),
        ("… however short the grace period", hasty(silent()), 101, "Wait 110"),
        ("… and does", silent().fails(0, OVER, "", 101), 102, "Fail failurePolicy/f#0"),
        ("the API server did not answer before", gap(world(6, 1), 99), 101, "Wait 160"),
        ("… and at the end of the grace period", gap(world(6, 1), 159), 160, "Wait 189"),
        ("… again and again", gap(world(6, 1), 219), 220, "Restart retryLimit 0 of 3"),
        (
            "… with a short grace period",
            gap(hasty(world(6, 1)), 159),
            160,
            "Restart retryLimit 0 of 3",
        ),
    ]);
}

fn hasty(world: World) -> World {
    world.limits(|limits| limits.failure_grace = Period::from_secs(0))
}

#[test]
fn the_first_cause_is_the_pod_that_failed_first_not_the_one_that_was_seen_first() {
    let base = || running(&["Job/work:2"]).backoff(0, 6, 0).retry_policy("p", JUDGES);
    let early = || failed(0).code(42).at(3);
    let late = || failed(0).code(1).at(5);
    let want = "Fail retryPolicy/p/f#0";
    let at_once = base().with(early()).with(late());
    assert_eq!(at_once.says_at(10), want);
    let late_first = base().with(ready(0)).with(late()).settled(6);
    assert_eq!(late_first.says_at(7), "Wait 65");
    let late_first = late_first.pod(0, |pod| *pod = named("work-0", early()));
    assert_eq!(late_first.says_at(10), want);
}

#[test]
fn a_component_fails_because_of_its_last_pod_not_of_one_that_was_replaced() {
    let oom = || {
        let killed = super::build::container("main", 137, "OOMKilled", "", 20);
        failed(0).ended(killed)
    };
    let runs = || {
        let world = running(&["Job/work:1"]).with(oom()).ready(0, 1).backoff(0, 1, 1);
        world.retry_policy("p", JUDGES).settled(30)
    };
    let ends =
        |world: World| world.pod(1, |pod| *pod = named("work-1", failed(0).code(42).at(900)));
    let fails = |world: World| world.fails(0, "BackoffLimitExceeded", "too often", 901);
    let want = "Fail retryPolicy/p/f#0";
    assert_eq!(ends(runs()).says_at(901), want);
    assert_eq!(fails(ends(runs())).says_at(902), want);
    let decision = fails(ends(runs())).decide(902);
    let last = decision.status.attempts.last().and_then(|attempt| attempt.failure.clone());
    assert_eq!(last.and_then(|failure| failure.pod).as_deref(), Some("work-1"));
    // nothing is left of the last pod: it is not said to be another
    let missing = runs().component(0, |component| component.presence = Presence::Absent);
    assert_eq!(missing.says_at(902), "Restart retryLimit 0 of 3");
    let of_pod = missing.decide(902).status.attempts.last().and_then(|one| one.failure.clone());
    assert_eq!(of_pod.and_then(|failure| failure.pod), None);
}

#[test]
fn an_ignored_pod_counts_also_where_its_component_is_missing() {
    let ignores =
        "podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [1]}}]}";
    let world = running(&["Job/work:2"]).spec(ignores).with(failed(0)).ready(0, 1);
    let one_by_one = world.clone().written(&world.decide(21));
    for world in [world, one_by_one] {
        let gone = world.component(0, |component| component.presence = Presence::Absent);
        let status = gone.answered(crate::plan::FreshRead::Gone).ask(30).status;
        assert_eq!(status.ignored_failures, 1);
        assert_eq!(status.phase, Phase::Resetting);
    }
}

#[test]
fn the_exit_code_of_a_pod_that_was_replaced_decides_nothing_about_a_later_failure() {
    let later = |codes: &[i32], code: i32| {
        let codes = codes.iter().copied().collect();
        let world = replaced().limits(|limits| limits.terminal_exit_codes = codes);
        world.pod(1, |pod| *pod = named("work-1", failed(0).code(code).at(1000)))
    };
    check(vec![
        ("the code of the replaced pod", later(&[1], 4), 1001, "Wait 1060"),
        ("its own code", later(&[1, 7], 7), 1001, "Fail exitCodeAnnotation"),
        (
            "it is all that tells why its Job failed",
            replaced().limits(|limits| limits.terminal_exit_codes = [1].into()).fails(
                0,
                "BackoffLimitExceeded",
                "",
                40,
            ),
            41,
            "Fail exitCodeAnnotation",
        ),
    ]);
    // the first cause is another pod than that whose code decides
    let both = later(&[7], 4).with(failed(0).code(7).at(1001).on("node-2"));
    let message = both.decide(1002).verdict.message;
    let named = "; exit code 7 of container main of pod work-3 is listed in annotation \
                 workload.codeflare.dev.appwrapper/terminalExitCodes";
    assert!(message.ends_with(named), "{message}");
}

#[test]
fn a_pod_that_was_replaced_takes_nothing_from_a_later_one_that_is_ignored() {
    let ignores =
        "podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [7]}}]}";
    let world = || {
        let world = running(&["Job/work:1"]).with(failed(0)).ready(0, 1).backoff(0, 1, 1);
        let world = world.spec(ignores).settled(30);
        let world = world.pod(1, |pod| *pod = named("work-1", failed(0).code(7).at(900)));
        world.fails(0, OVER, "", 901)
    };
    let uncounted = "RestartIgnoringLimit podFailurePolicy#0";
    let terminal = world().limits(|limits| limits.terminal_exit_codes = [1].into());
    check(vec![
        ("its Job is over its backoff limit", world(), 902, uncounted),
        ("… and the code of the replaced one is terminal", terminal, 902, uncounted),
        ("… and a retry policy fails it", world().retry_policy("p", JUDGES), 902, uncounted),
    ]);
}

/// A Job of one pod; one that is ignored failed at second 20, and another has run since second 30.
fn ignored_and_replaced(kind: &str, rules: &str) -> World {
    let ignores =
        "podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [1]}}]}";
    let world = running(&[kind]).with(failed(0)).ready(0, 1).backoff(0, 6, 1);
    world.spec(&format!("{ignores}\n{rules}")).settled(30)
}

#[test]
fn an_ignored_pod_that_was_replaced_does_not_excuse_a_later_failure() {
    const DAY: i64 = 24 * 3600;
    let rule = "failurePolicy: {rules: [{action: FailAppWrapper, onJobFailureReasons: [DeadlineExceeded]}]}";
    let job = |rules: &str| ignored_and_replaced("Job/work:1", rules);
    let job_of = |reason: &str| {
        let world = ignored_and_replaced("JobSet/work:1", rule).fails(0, "FailedJobs", "", DAY);
        world.failed_job_of(0, reason, "")
    };
    let fails = "Fail failurePolicy/failurePolicyRule0#0";
    let counted = "Restart retryLimit 0 of 3";
    let uncounted = "RestartIgnoringLimit podFailurePolicy#0";
    let deleted = || {
        let mut world = job("").pod(0, |pod| {
            (pod.terminating, pod.deletion_requested) = (true, Some(at(DAY)));
        });
        world.snapshot.pods.truncate(1); // nothing is left of the pod that made it fail
        world.fails(0, OVER, "", DAY)
    };
    let again = |world: World| world.pod(1, |pod| *pod = named("work-1", failed(0).at(DAY)));
    check(vec![
        ("a deadline", job(rule).fails(0, "DeadlineExceeded", "", DAY), DAY, fails),
        ("… no rule about it", job("").fails(0, "DeadlineExceeded", "", DAY), DAY, counted),
        ("a backoff limit, while the old pod is deleted", deleted(), DAY, counted),
        ("… of a Job of a JobSet", job_of("DeadlineExceeded"), DAY, fails),
        (
            "… with a pod that is not replaced yet",
            again(job(rule)).fails(0, "DeadlineExceeded", "", DAY),
            DAY,
            fails,
        ),
        ("another pod, of which nothing is left", job("").fails(0, OVER, "", DAY), DAY, counted),
        ("… of a Job of a JobSet", job_of(OVER), DAY, counted),
        ("another pod, ignored as well", again(job("")).fails(0, OVER, "", DAY), DAY, uncounted),
        ("its index", job("").fails(0, "FailedIndexes", "", DAY), DAY, uncounted),
    ]);
}

#[test]
fn a_pod_that_was_replaced_is_not_the_cause_of_a_deadline() {
    let policy = "{backoff: {initialDelay: 60s}, rules: [{name: late, action: Retry, \
                  onConditions: [DeadlineExceeded]}]}";
    let of = |reason: &str| {
        let world = replaced().retry_policy("p", policy).fails(0, reason, "", 1000).decide(1001);
        let failure = world.status.attempts.last().and_then(|last| last.failure.clone());
        let until = world.status.retry_after.map(|time| time.0);
        (failure.and_then(|failure| failure.exit_code), until)
    };
    assert_eq!(of("DeadlineExceeded"), (None, Some(at(1060))));
    assert_eq!(of(OVER), (Some(1), None), "it is all that tells");
    let late = replaced().fails(0, "FailedJobs", "", 1000).failed_job_of(0, "DeadlineExceeded", "");
    let late = late.retry_policy("p", policy).decide(1001);
    let failure = late.verdict.failure.expect("a failure");
    assert_eq!((failure.pod, failure.reason.as_deref()), (None, Some("FailedJobs")));
}
