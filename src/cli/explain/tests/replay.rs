//! `--replay`: recorded failures, decided about by other policies.

use serde_json::{Value, json};

use super::super::replay;
use super::{at, inputs, line, spec, tuned, with, wrapper, yaml};

/// An AppWrapper with these attempts in its status, as YAML.
fn with_attempts(attempts: &str, counted: i32) -> Value {
    let running = with(wrapper("Running"), "/status/resettingCount", json!(counted));
    with(running, "/status/attempts", yaml(attempts))
}

/// What would have been decided.
fn replayed_with(settings: &str, wrapper: Value) -> Value {
    let (inputs, config) = inputs(settings, &[wrapper], 0);
    let answer = replay::answer(&inputs, &config, at(0).parse().expect("a moment"));
    let text = serde_json::to_string(&answer).expect("JSON");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    assert_eq!(keys(&answer), ["attempts", "name", "notes", "outcome"], "{text}");
    for attempt in answer["attempts"].as_array().expect("a list") {
        let replayed = &attempt["replayed"];
        assert_eq!(
            keys(replayed),
            ["action", "counted", "retries", "retryAfterSeconds", "rule"],
            "{text}"
        );
        let restarts = replayed["action"] != "Fail" && replayed["action"] != "None";
        assert_eq!(replayed["counted"].is_boolean(), restarts, "{text}");
    }
    answer
}

fn replayed(wrapper: Value) -> Value {
    replayed_with("{}", wrapper)
}

const FIELDS: [&str; 8] = [
    "/recorded/action",
    "/replayed/action",
    "/replayed/rule/source",
    "/replayed/rule/index",
    "/replayed/retries/used",
    "/replayed/retries/limit",
    "/replayed/retryAfterSeconds",
    "/differs",
];

/// One line for each failure.
fn lines(answer: &Value) -> Vec<String> {
    let attempts = answer["attempts"].as_array().expect("a list");
    attempts.iter().map(|attempt| line(attempt, &FIELDS)).collect()
}

/// Two restarts and the end: code 3, out of memory, and code 3 again; by a retry limit of 2.
const THREE: &str = "
- attempt: 0
  failedAt: '2026-01-01T00:01:00Z'
  outcome: Failed
  action: Restart
  rule: {source: retryLimit}
  retries: {used: 0, limit: 2}
  failure: {component: work, pod: w-0, podUID: u-0, node: node-1, container: main, exitCode: 3,
    reason: Error, message: 'a TRANSIENT error', category: application}
  collateral: 0
- attempt: 1
  failedAt: '2026-01-01T00:11:00Z'
  readyAt: '2026-01-01T00:10:00Z'
  outcome: Failed
  action: Restart
  rule: {source: retryLimit}
  retries: {used: 1, limit: 2}
  failure: {component: work, pod: w-1, node: node-2, container: main, exitCode: 137,
    reason: OOMKilled, category: oom}
- attempt: 2
  failedAt: '2026-01-01T00:21:00Z'
  outcome: Failed
  action: Fail
  rule: {source: retryLimit}
  retries: {used: 2, limit: 2}
  failure: {component: work, pod: w-0, node: node-1, container: main, exitCode: 3, reason: Error,
    category: application}
";

fn three() -> Value {
    tuned(with_attempts(THREE, 2), "retryLimit", "2")
}

#[test]
fn the_same_policies_decide_the_same() {
    let answer = replayed(three());
    assert_eq!(
        lines(&answer),
        [
            "Restart Restart retryLimit null 0 2 90 false",
            "Restart Restart retryLimit null 1 2 90 false",
            "Fail Fail retryLimit null 2 2 null false",
        ]
    );
    let want = "all 3 failures are decided the same way; fails at attempt 2, as recorded";
    assert_eq!((&answer["outcome"], &answer["notes"]), (&json!(want), &json!([])));
    let first = &answer["attempts"][0];
    assert_eq!(first["reason"], "retry limit not reached (0 of 2 restarts used)");
    assert_eq!((&first["assumptions"], &first["reached"]), (&json!([]), &json!(true)));
    let want = json!({"component": "work", "pod": "w-0", "node": "node-1", "container": "main",
        "exitCode": 3, "reason": "Error", "category": "application",
        "message": "a TRANSIENT error"});
    assert_eq!(first["failure"], want);
}

#[test]
fn after_a_failure_nothing_would_have_happened_but_is_judged_all_the_same() {
    let answer = replayed(tuned(three(), "terminalExitCodes", "137"));
    assert_eq!(
        lines(&answer),
        [
            "Restart Restart retryLimit null 0 2 90 false",
            "Restart Fail exitCodeAnnotation null - - null true",
            // the counts are those of the replay
            "Fail Restart retryLimit null 1 2 90 true",
        ]
    );
    let attempts = &answer["attempts"];
    assert_eq!(line(attempts, &["/0/reached", "/1/reached", "/2/reached"]), "true true false");
    assert_eq!(
        line(attempts, &["/1/reason", "/2/reason"]),
        "exit code 137 is listed in annotation \
         workload.codeflare.dev.appwrapper/terminalExitCodes; recorded: a restart by retryLimit \
         would not have happened; retry limit not reached (1 of 2 restarts used); \
         recorded: failure by retryLimit"
    );
    let alone = "only container main is evaluated, as an app container: the record has no other";
    assert_eq!(attempts[0]["assumptions"], json!([alone]));
    assert_eq!(attempts[1]["assumptions"], json!([]));
    assert_eq!(
        answer["outcome"],
        "2 of 3 failures are decided differently; fails at attempt 1: the failure after it would \
         not have happened"
    );
}

#[test]
fn what_would_have_come_after_a_failure_that_is_none_now_is_not_known() {
    let answer = replayed(tuned(three(), "retryLimit", "7"));
    assert_eq!(lines(&answer)[2], "Fail Restart retryLimit null 2 7 90 true");
    assert_eq!(
        answer["outcome"],
        "1 of 3 failures is decided differently; does not fail at attempt 2: what follows is \
         unknown"
    );
    let off = replayed_with("{retryPolicy: {globalMaxRetries: 0}}", three());
    assert_eq!(lines(&off)[0], "Restart Fail killSwitch null 0 0 null true");
    assert_eq!(
        off["outcome"],
        "all 3 failures are decided differently; fails at attempt 0: the 2 failures after it would \
         not have happened"
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table has as many lines as rows")]
fn a_pod_failure_policy_over_what_is_recorded() {
    let evicted = "{component: work, pod: w-0, container: main, exitCode: 143, reason: Error, \
                   category: evicted}";
    let condition = "{component: work, pod: w-0, reason: PreemptionByScheduler, \
                     category: preempted}";
    let coded = "{component: work, pod: w-0, container: main, exitCode: 42, reason: Error, \
                 category: application}";
    let oom = "{component: work, pod: w-0, container: main, exitCode: 137, reason: OOMKilled, \
               category: oom}";
    let ignore = "{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}";
    let fatal = "{action: FailAppWrapper, onExitCodes: {operator: In, values: [42]}}";
    let sidecar = "{action: FailAppWrapper, onExitCodes: {containerName: sidecar, operator: In, \
                   values: [1]}}";
    let taken = "Job/work is assumed to have failed with the pod; otherwise not a failure: rule 0 \
                 of podFailurePolicy ignores the pod, and Job/work replaces it";
    let cannot = |rule: &str, why: &str, judged: &str, otherwise: &str| {
        format!("{rule} cannot be evaluated ({why}): assumed {judged}; otherwise {otherwise}")
    };
    let conditions = "the record does not contain the conditions of the pod";
    let (free, left, fails) = (
        "rule 0 of podFailurePolicy restarts the AppWrapper, uncounted",
        "retry limit not reached (0 of 3 restarts used)",
        "rule 0 of podFailurePolicy fails the AppWrapper",
    );
    let rule = "rule 0 of podFailurePolicy";
    for (what, rules, failure, want, assumptions) in [
        (
            "preempted for certain",
            ignore,
            condition,
            "Restart RestartIgnoringLimit podFailurePolicy 0 - - 90 true",
            vec![taken.to_owned()],
        ),
        (
            "evicted, which comes with the condition",
            ignore,
            evicted,
            "Restart RestartIgnoringLimit podFailurePolicy 0 - - 90 true",
            vec![cannot(rule, conditions, "matching", left), taken.to_owned()],
        ),
        (
            "the category says that it was not",
            ignore,
            coded,
            "Restart Restart retryLimit null 0 3 90 false",
            vec![],
        ),
        (
            "the category does not tell",
            ignore,
            oom,
            "Restart Restart retryLimit null 0 3 90 false",
            vec![cannot(rule, conditions, "not matching", free)],
        ),
        (
            "the code is fatal",
            fatal,
            coded,
            "Restart Fail podFailurePolicy 0 - - null true",
            vec![],
        ),
        (
            "another container",
            sidecar,
            coded,
            "Restart Restart retryLimit null 0 3 90 false",
            vec![cannot(
                rule,
                "the record contains container main, not sidecar",
                "not matching",
                fails,
            )],
        ),
    ] {
        let attempt = format!(
            "[{{attempt: 0, action: Restart, rule: {{source: retryLimit}}, failure: {failure}}}]"
        );
        let fields = format!("podFailurePolicy: {{rules: [{rules}]}}");
        let answer = replayed(spec(with_attempts(&attempt, 1), &fields));
        assert_eq!(lines(&answer), [want], "{what}");
        assert_eq!(answer["attempts"][0]["assumptions"], json!(assumptions), "{what}");
    }
}

#[test]
fn an_ignored_pod_of_a_kind_that_never_fails_is_no_failure() {
    let attempt = "[{attempt: 0, action: Restart, rule: {source: retryLimit}, collateral: 2, \
                   failure: {component: web, pod: web-0, reason: PreemptionByScheduler, \
                   category: preempted}}]";
    let fields = "podFailurePolicy: {rules: [{action: Ignore, onPodConditions: \
                  [{type: DisruptionTarget}]}]}";
    let mut wrapper = spec(with_attempts(attempt, 1), fields);
    wrapper["spec"]["components"][0]["template"] = yaml(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web},
          spec: {template: {spec: {containers: [{name: main}]}}}}",
    );
    wrapper["status"]["componentStatus"][0] = yaml(
        "{name: web, kind: Deployment, apiVersion: apps/v1, podSets: [{path: template.spec.template}]}",
    );
    let answer = replayed(wrapper);
    assert_eq!(lines(&answer), ["Restart None podFailurePolicy 0 - - null true"]);
    let attempt = &answer["attempts"][0];
    assert_eq!(
        attempt["reason"],
        "not a failure: rule 0 of podFailurePolicy ignores the pod, and Deployment/web replaces \
         it; recorded: a restart by retryLimit"
    );
    let others = "2 more failed pods are not recorded: only the first is evaluated";
    assert_eq!(attempt["assumptions"], json!([others]));
}

#[test]
fn a_failure_policy_over_components_that_speak_and_over_pods() {
    let said = "{component: work, reason: DeadlineExceeded, message: 'Job was active too long'}";
    let pod = "{component: work, pod: w-0, container: main, exitCode: 3, reason: Error, \
               category: application}";
    let missing =
        "{component: work, reason: MissingComponent, message: 'Job/work no longer exists'}";
    let fatal = "{name: late, action: FailAppWrapper, onJobFailureReasons: [DeadlineExceeded]}";
    let recreate = "{action: RecreateComponent}";
    let unknown = "rule late of failurePolicy cannot be evaluated (the record contains the message \
                   of the pod, not why Job/work failed): assumed";
    let plain = "{source: retryLimit}";
    let decided = "{source: failurePolicy, name: late, index: 0}";
    let taken = "Job/work is assumed to have failed with the pod; otherwise retry limit not \
                 reached (0 of 3 restarts used)";
    for (what, rules, failure, rule, want, assumptions) in [
        ("it says so", fatal, said, plain, "Fail failurePolicy 0", vec![]),
        ("it was gone, not failed", fatal, missing, plain, "Restart retryLimit null", vec![]),
        (
            "a pod says nothing of it",
            fatal,
            pod,
            plain,
            "Restart retryLimit null",
            vec![format!(
                "{unknown} not matching; otherwise rule late of failurePolicy fails the AppWrapper"
            )],
        ),
        (
            "the rule of that name decided then",
            fatal,
            pod,
            decided,
            "Fail failurePolicy 0",
            vec![format!(
                "{unknown} matching, because a rule of that name was applied; otherwise retry \
                 limit not reached (0 of 3 restarts used)"
            )],
        ),
        (
            "no filter",
            recreate,
            pod,
            plain,
            "RecreateComponent failurePolicy 0",
            vec![taken.to_owned()],
        ),
    ] {
        let attempt =
            format!("[{{attempt: 0, action: Restart, rule: {rule}, failure: {failure}}}]");
        let fields = format!("failurePolicy: {{rules: [{rules}]}}");
        let answer = replayed(spec(with_attempts(&attempt, 1), &fields));
        let fields = ["/replayed/action", "/replayed/rule/source", "/replayed/rule/index"];
        let first = &answer["attempts"][0];
        assert_eq!(line(first, &fields), want, "{what}");
        assert_eq!(first["assumptions"], json!(assumptions), "{what}");
    }
}

#[test]
fn uncounted_restarts_in_a_row_pause_ever_longer() {
    let one = |number: i32, more: &str| {
        format!(
            "{{attempt: {number}, {more} action: Restart, rule: {{source: retryLimit}}, failure: \
             {{component: work, reason: BackoffLimitExceeded, message: m}}}}"
        )
    };
    let ready = "readyAt: '2026-01-01T00:00:00Z',";
    let attempts = format!("[{}, {}, {}, {}]", one(0, ""), one(1, ""), one(2, ""), one(3, ready));
    let fields = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts}]}";
    let answer = replayed(spec(with_attempts(&attempts, 4), fields));
    let pauses: Vec<_> = (0..4)
        .map(|index| answer["attempts"][index]["replayed"]["retryAfterSeconds"].clone())
        .collect();
    assert_eq!(json!(pauses), json!([90, 180, 360, 90]));
}

#[test]
fn what_was_counted_before_the_first_attempt_that_is_recorded_is_taken_over() {
    let attempts = THREE.replace("attempt: 2", "attempt: 9").replace("attempt: 1", "attempt: 8");
    let attempts = attempts.replace("attempt: 0", "attempt: 7");
    let answer = replayed(tuned(with_attempts(&attempts, 8), "retryLimit", "8"));
    let used = |index: usize| answer["attempts"][index]["replayed"]["retries"]["used"].clone();
    assert_eq!(json!([used(0), used(1), used(2)]), json!([6, 7, 8]));
    let note = "counted restarts before attempt 7, the first that is recorded: 6, used as recorded";
    assert_eq!(answer["notes"], json!([note]));
}

#[test]
fn no_policy_is_asked_about_a_marked_node_and_a_component_that_cannot_be_created() {
    let attempts = "
    - {attempt: 0, action: RestartIgnoringLimit,
       failure: {component: work, pod: w-0, node: node-1, category: node}}
    - {attempt: 1, action: Fail,
       failure: {component: work, reason: CreateFailed, message: 'Job/work: invalid'}}";
    let fatal = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts}]}";
    let answer = replayed(spec(with_attempts(attempts, 0), fatal));
    assert_eq!(
        lines(&answer),
        [
            "RestartIgnoringLimit RestartIgnoringLimit - - - - 90 false",
            "Fail Fail - - - - null false"
        ]
    );
    let answer = replayed_with("{retryPolicy: {globalMaxRetries: 0}}", with_attempts(attempts, 0));
    assert_eq!(lines(&answer)[0], "RestartIgnoringLimit Fail killSwitch null 0 0 null true");
}

#[test]
fn without_a_recorded_failure_there_is_nothing_to_replay() {
    let others = json!("other.io/manager");
    for (wrapper, want) in [
        (wrapper("Running"), "no attempts recorded: nothing to replay"),
        (
            with_attempts("[{attempt: 0, outcome: Suspended}, {attempt: 1}]", 0),
            "no failure recorded in 2 attempts: nothing to replay",
        ),
        (
            with(three(), "/spec/managedBy", others),
            "managed by other.io/manager, not by this controller",
        ),
    ] {
        let answer = replayed(wrapper);
        assert_eq!((&answer["outcome"], &answer["attempts"]), (&json!(want), &json!([])));
    }
}

#[test]
fn what_is_wrong_with_the_changed_policies_is_noted() {
    let fields = "failurePolicy: {rules: [{action: FailAppWrapper, targetComponents: [wrok]}]}";
    let answer = replayed(tuned(spec(three(), fields), "retryLimits", "3"));
    let notes = answer["notes"].to_string();
    assert!(notes.contains("targetComponents[0]") && notes.contains("wrok"), "{notes}");
    assert!(notes.contains("did you mean retryLimit?"), "{notes}");
}

#[test]
fn what_depends_on_more_than_is_recorded_is_unknown() {
    let attempt = "[{attempt: 0, action: Restart, rule: {source: retryLimit}, collateral: 1, \
                   failure: {component: work, pod: w-0, container: main, exitCode: 3, \
                   reason: Error, category: application}}]";
    let rules = "failurePolicy: {rules: [{action: RecreateComponent}]}";
    let mut wrapper = spec(with_attempts(attempt, 1), rules);
    for list in ["/spec/components", "/status/componentStatus"] {
        let list = wrapper.pointer_mut(list).and_then(Value::as_array_mut).expect("a list");
        let text = list[0].to_string().replace("\"work\"", "\"other\"");
        list.push(serde_json::from_str(&text).expect("JSON"));
    }
    let answer = replayed(wrapper.clone());
    let fields = ["/replayed/action", "/differs", "/unknown"];
    assert_eq!(line(&answer["attempts"][0], &fields), "RecreateComponent false true");
    let want = "it is unknown whether the only failure is decided differently; does not fail";
    assert_eq!(answer["outcome"], want);
    let mut twice = with(wrapper.clone(), "/status/resettingCount", json!(2));
    let attempts = twice["status"]["attempts"].as_array_mut().expect("a list");
    let second = with(attempts[0].clone(), "/attempt", json!(1));
    attempts.push(second);
    assert_eq!(
        replayed(twice)["outcome"],
        "0 of 2 failures are decided differently; for 2, this is unknown; does not fail"
    );
    let (inputs, config) = inputs("{}", &[wrapper], 0);
    let answer = replay::answer(&inputs, &config, at(0).parse().expect("a moment"));
    let page = replay::text(&answer, false).to_string();
    assert!(page.contains("\nunknown attempt 0: rule"), "{page}");
}

#[test]
fn without_the_policies_nothing_is_decided() {
    let (mut inputs, config) = inputs("{}", &[three()], 0);
    let why = "cannot read RetryPolicy infra: forbidden";
    inputs.unread.push(why.to_owned());
    let answer = replay::answer(&inputs, &config, at(0).parse().expect("a moment"));
    assert_eq!(answer.outcome, format!("cannot be decided: {why}"));
    assert!(answer.attempts.is_empty() && answer.undecided);
    // without failures, no policy is needed
    let (mut inputs, config) = super::inputs("{}", &[wrapper("Running")], 0);
    inputs.unread.push(why.to_owned());
    let answer = replay::answer(&inputs, &config, at(0).parse().expect("a moment"));
    assert!(!answer.undecided, "{answer:?}");
}

#[test]
fn people_get_a_table_and_the_reasons() {
    let (inputs, config) = inputs("{}", &[tuned(three(), "terminalExitCodes", "137")], 0);
    let answer = replay::answer(&inputs, &config, at(0).parse().expect("a moment"));
    insta::assert_snapshot!(replay::text(&answer, false).to_string(), @r"
    ns/aw: 2 of 3 failures are decided differently; fails at attempt 1: the failure after it would not have happened

    ATTEMPT  FAILURE                 NODE    RECORDED              NOW                        RESTARTS  PAUSE
    0        w-0/main 3 Error        node-1  Restart (retryLimit)  Restart (retryLimit)       0 of 2    1m30s
    1        w-1/main 137 OOMKilled  node-2  Restart (retryLimit)  Fail (exitCodeAnnotation)  -         -
    2        w-0/main 3 Error        node-1  Fail (retryLimit)     Restart (retryLimit)       1 of 2    1m30s

    same    attempt 0: retry limit not reached (0 of 2 restarts used)
    differs attempt 1: exit code 137 is listed in annotation workload.codeflare.dev.appwrapper/terminalExitCodes; recorded: a restart by retryLimit
    differs attempt 2: would not have happened; retry limit not reached (1 of 2 restarts used); recorded: failure by retryLimit
    assumed attempts 0, 2: only container main is evaluated, as an app container: the record has no other
    ");
    let coloured = replay::text(&answer, true).to_string();
    assert!(coloured.contains("\u{1b}[33mdiffers\u{1b}[0m attempt 1"), "{coloured}");
}
