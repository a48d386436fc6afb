//! `spec.failurePolicy`: rules in order over the components that failed, the first failure first.

use serde_json::{Value, json};

use super::super::{answer, text};
use super::{
    at, explain, explain_with, inputs, job, job_that_is, line, pod, spec, two, with, wrapper,
};

const FIELDS: [&str; 10] = [
    "/nextPhase",
    "/action",
    "/reason",
    "/rule/source",
    "/rule/name",
    "/rule/index",
    "/counted",
    "/retries",
    "/retryAfterSeconds",
    "/delete",
];

/// A policy of these rules.
fn rules(rules: &str) -> String {
    format!("failurePolicy: {{rules: [{rules}]}}")
}

/// The Job failed for this reason, after so many restarts; both of its pods still run.
fn failed(fields: &str, used: i32, reason: &str) -> Vec<Value> {
    let wrapper = with(wrapper("Running"), "/status/resettingCount", json!(used));
    [vec![spec(wrapper, fields), job_that_is("Failed", reason)], two()].concat()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table has as many lines as rows")]
fn every_action_and_every_filter() {
    let fail = "{name: bad, action: FailAppWrapper, onJobFailureReasons: [PodFailurePolicy]}";
    let free = "{action: RestartAppWrapperAndIgnoreMaxRestarts, \
                onJobFailureMessagePatterns: ['says \\w+ Job']}";
    let restart = "{name: again, action: RestartAppWrapper}";
    let recreate = "{action: RecreateComponent, targetComponents: [work]}";
    let all = [fail, free, restart].join(", ");
    for (what, fields, used, reason, want) in [
        (
            "the reason fits",
            rules(&all),
            0,
            "PodFailurePolicy",
            "Failed Fail FailedComponent failurePolicy bad 0 null null null",
        ),
        (
            "the message fits, whatever was counted",
            rules(&all),
            7,
            "BackoffLimitExceeded",
            "Resetting RestartIgnoringLimit FailedComponent failurePolicy failurePolicyRule1 1 \
             false null 90",
        ),
        (
            "no filter",
            rules(restart),
            1,
            "BackoffLimitExceeded",
            r#"Resetting Restart FailedComponent failurePolicy again 0 true {"limit":3,"used":1} 90"#,
        ),
        (
            "no filter, and no restart left",
            rules(restart),
            3,
            "BackoffLimitExceeded",
            r#"Failed Fail FailedComponent retryLimit again 0 null {"limit":3,"used":3} null"#,
        ),
        (
            "no rule fits",
            rules(fail),
            2,
            "BackoffLimitExceeded",
            r#"Resetting Restart FailedComponent retryLimit null null true {"limit":3,"used":2} 90"#,
        ),
        (
            "the component is created again, at once",
            rules(recreate),
            2,
            "BackoffLimitExceeded",
            "Running RecreateComponent FailedComponent failurePolicy failurePolicyRule0 0 true \
             {\"limit\":3,\"used\":2} null",
        ),
        (
            "the component is created again after a pause",
            rules("{action: RecreateComponentAndIgnoreMaxRestarts}"),
            2,
            "BackoffLimitExceeded",
            "Running RecreateComponent FailedComponent failurePolicy failurePolicyRule0 0 false \
             null 90",
        ),
        (
            "the component is not created again: no restart left",
            rules(recreate),
            3,
            "BackoffLimitExceeded",
            "Failed Fail FailedComponent retryLimit failurePolicyRule0 0 null \
             {\"limit\":3,\"used\":3} null",
        ),
        (
            "the policy's own limit",
            format!("failurePolicy: {{maxRestarts: 1, rules: [{recreate}]}}"),
            1,
            "BackoffLimitExceeded",
            "Failed Fail FailedComponent retryLimit failurePolicyRule0 0 null \
             {\"limit\":1,\"used\":1} null",
        ),
        (
            "both filters must hold",
            rules(
                "{action: FailAppWrapper, onJobFailureReasons: [PodFailurePolicy], \
                 onJobFailureMessagePatterns: [nothing]}",
            ),
            0,
            "PodFailurePolicy",
            r#"Resetting Restart FailedComponent retryLimit null null true {"limit":3,"used":0} 90"#,
        ),
        (
            "another component",
            rules("{action: FailAppWrapper, targetComponents: [other]}"),
            0,
            "PodFailurePolicy",
            r#"Resetting Restart FailedComponent retryLimit null null true {"limit":3,"used":0} 90"#,
        ),
    ] {
        let want = format!(r#"{want} ["Job/work"]"#);
        assert_eq!(line(&explain(&failed(&fields, used, reason), 30), &FIELDS), want, "{what}");
    }
}

#[test]
fn a_component_that_was_created_again_is_running_all_the_while() {
    let fields = rules("{action: RecreateComponent}");
    let answer = explain(&failed(&fields, 0, "BackoffLimitExceeded"), 30);
    let shown = ["/phase", "/nextPhase", "/create", "/delete", "/deadline"];
    assert_eq!(line(&answer, &shown), r#"Running Running [] ["Job/work"] null"#);
}

#[test]
fn the_pause_of_a_component_begins_when_it_is_gone() {
    let attempts = json!([
        {"attempt": 0, "action": "RecreateComponent", "failure": {"component": "work"}},
        {"attempt": 0},
    ]);
    let coming = json!([{"type": "ResourcesDeployed", "status": "False", "reason": "Deploying",
        "message": "", "lastTransitionTime": at(25)}]);
    let wrapper = with(wrapper("Running"), "/status/attempts", attempts);
    let wrapper = with(wrapper, "/status/componentStatus/0/conditions", coming);
    let (inputs, config) =
        inputs("{}", &[with(wrapper, "/status/retryAfter", json!(at(115)))], 100);
    let now = at(100).parse().expect("a moment");
    let lines = text::details(&answer::explain(&inputs, &config, now), now);
    assert!(lines.contains(&"  pause     15s left".to_owned()), "{lines:?}");
}

#[test]
fn the_first_failure_decides_and_not_the_first_rule() {
    let mut wrapper = spec(
        wrapper("Running"),
        "failurePolicy:
          rules:
          - {name: late, action: FailAppWrapper, targetComponents: [second]}
          - {name: early, action: RestartAppWrapperAndIgnoreMaxRestarts, targetComponents: [work]}",
    );
    let rename = |job: Value| {
        let named = with(job, "/metadata/name", json!("second"));
        with(named, "/metadata/uid", json!("second-uid"))
    };
    let template = wrapper["spec"]["components"][0]["template"].clone();
    let components = wrapper["spec"]["components"].as_array_mut().expect("components");
    components.push(json!({"template": with(template, "/metadata/name", json!("second"))}));
    let status = wrapper["status"]["componentStatus"][0].clone();
    let statuses = wrapper["status"]["componentStatus"].as_array_mut().expect("a list");
    statuses.push(with(status, "/name", json!("second")));
    let second = rename(job_that_is("Failed", "BackoffLimitExceeded"));
    let since = "/status/conditions/0/lastTransitionTime";
    for (at_second, want) in [(25, "RestartIgnoringLimit early"), (15, "Fail late")] {
        let second = with(second.clone(), since, json!(at(at_second)));
        let objects = [vec![wrapper.clone(), job_that_is("Failed", "X"), second], two()].concat();
        assert_eq!(line(&explain(&objects, 30), &["/action", "/rule/name"]), want);
    }
}

#[test]
fn stages_before_it_come_first() {
    let fields = rules("{action: RestartAppWrapperAndIgnoreMaxRestarts}");
    let switch = "{retryPolicy: {globalMaxRetries: 0}}";
    let answer = explain_with(switch, &failed(&fields, 0, "BackoffLimitExceeded"), 30);
    assert_eq!(line(&answer, &FIELDS[1..4]), "Fail FailedComponent killSwitch");
    let coded = super::tuned(spec(wrapper("Running"), &fields), "terminalExitCodes", "3");
    let failed = job_that_is("Failed", "BackoffLimitExceeded");
    let objects = [coded, failed, pod("w-0", "Failed", 3), pod("w-1", "Running", 0)];
    let answer = explain(&objects, 30);
    assert_eq!(line(&answer, &FIELDS[1..4]), "Fail FailedComponent exitCodeAnnotation");
}

#[test]
fn a_pod_that_failed_alone_is_no_failed_component() {
    let wrapper = spec(wrapper("Running"), &rules("{action: FailAppWrapper}"));
    let objects = [wrapper, job(), pod("w-0", "Failed", 3), pod("w-1", "Running", 0)];
    let waits = line(&explain(&objects, 30), &["/action", "/deadline"]);
    assert_eq!(waits, format!("Wait {}", at(80)));
    assert_eq!(line(&explain(&objects, 80), &["/action", "/rule/source"]), "Restart retryLimit");
}

#[test]
fn a_wrapped_pod_is_a_component_that_fails_by_itself() {
    let fields = rules("{action: FailAppWrapper, onJobFailureMessagePatterns: [CUDA]}");
    let mut wrapper = spec(wrapper("Running"), &fields);
    let mut pod = pod("p", "Failed", 3);
    let template = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": pod["spec"].clone()});
    wrapper["spec"]["components"][0]["template"] = template;
    wrapper["status"]["componentStatus"][0] = json!({"name": "p", "kind": "Pod",
        "apiVersion": "v1", "podSets": [{"path": "template"}]});
    pod["metadata"]["ownerReferences"] = job()["metadata"]["ownerReferences"].clone();
    let ended = "/status/containerStatuses/0/state/terminated/message";
    let said = with(pod.clone(), ended, json!("a CUDA error"));
    let fields = ["/nextPhase", "/action", "/rule/source", "/rule/index"];
    let at_once = explain(&[wrapper.clone(), said], 21);
    assert_eq!(line(&at_once, &fields), "Failed Fail failurePolicy 0");
    // another message is waited for, like any failed pod
    let other = explain(&[wrapper, pod], 21);
    assert_eq!(line(&other, &["/action", "/deadline"]), format!("Wait {}", at(80)));
}

#[test]
fn a_job_set_alone_tells_nothing_of_its_jobs() {
    let fields = rules("{action: FailAppWrapper, onJobFailureReasons: [PodFailurePolicy]}");
    let mut wrapper = spec(wrapper("Running"), &fields);
    let pods = json!({"spec": {"containers": [{"name": "main"}], "restartPolicy": "Never"}});
    let of_one = json!({"replicas": 1, "name": "a", "template": {"spec": {"template": pods}}});
    let template = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "set"}, "spec": {"replicatedJobs": [of_one]}});
    wrapper["spec"]["components"][0]["template"] = template.clone();
    wrapper["status"]["componentStatus"][0] = json!({"name": "set", "kind": "JobSet",
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "podSets": [{"path": "template.spec.replicatedJobs[0].template.spec.template"}]});
    let mut set = template;
    set["metadata"] = json!({"name": "set", "namespace": "ns", "uid": "set-uid",
        "ownerReferences": job()["metadata"]["ownerReferences"]});
    set["status"]["conditions"] = json!([{"type": "Failed", "status": "True",
        "reason": "FailedJobs", "message": "jobset failed due to one or more job failures",
        "lastTransitionTime": at(20)}]);
    let answer = explain(&[wrapper, set], 30);
    let want = "Restart FailedComponent retryLimit null";
    assert_eq!(line(&answer, &FIELDS[1..5]), want);
}

#[test]
fn a_rule_of_a_newer_version_is_left_out_with_a_note() {
    let fail = "{action: FailAppWrapper, targetComponents: [work]}";
    for (what, fields, note) in [
        (
            "an action",
            "{action: Escalate}",
            "spec.failurePolicy.rules[0]: unknown variant `Escalate`",
        ),
        (
            "a field",
            "{action: FailAppWrapper, onPhase: [Failed]}",
            "spec.failurePolicy.rules[0]: unknown field `onPhase`",
        ),
    ] {
        let objects = failed(&rules(&format!("{fields}, {fail}")), 0, "BackoffLimitExceeded");
        let answer = explain(&objects, 30);
        let want = "Fail FailedComponent failurePolicy failurePolicyRule1 1";
        assert_eq!(line(&answer, &FIELDS[1..6]), want, "{what}");
        let (inputs, config) = inputs("{}", &objects, 30);
        let notes = answer::explain(&inputs, &config, at(30).parse().expect("a moment")).notes;
        assert!(notes.iter().any(|one| one.starts_with(note)), "{what}: {notes:?}");
        assert!(
            notes.iter().any(|one| one.ends_with("; the rule is ignored")),
            "{what}: {notes:?}"
        );
    }
    let pods = "podFailurePolicy: {rules: [{action: Escalate, onPodConditions: [{type: Ready}]}]}";
    let answer = explain(&failed(pods, 0, "BackoffLimitExceeded"), 30);
    assert_eq!(line(&answer, &FIELDS[1..4]), "Restart FailedComponent retryLimit");
}

#[test]
fn uncounted_restarts_end_at_their_limit() {
    let free =
        "failurePolicy: {rules: [{name: free, action: RestartAppWrapperAndIgnoreMaxRestarts}]}";
    let objects = |used: i32| {
        let wrapper = with(wrapper("Running"), "/status/uncountedRestarts", json!(used));
        [spec(wrapper, free), job_that_is("Failed", "BackoffLimitExceeded")]
    };
    let settings = "{retryPolicy: {maxUncountedRestarts: 2}}";
    let fields = ["/action", "/rule", "/retries"];
    let rule =
        |source: &str| format!(r#"{{"source":"{source}","policy":null,"name":"free","index":0}}"#);
    let text = |used: i32| {
        let answer = explain_with(settings, &objects(used), 30);
        let json = line(&answer, &fields);
        let message = line(&answer, &["/message"]);
        (json.replace(&answer["rule"].to_string(), "R"), answer["rule"].clone(), message)
    };
    let parsed = |source: &str| serde_json::from_str::<Value>(&rule(source)).expect("JSON");
    let (said, named, _) = text(1);
    assert_eq!((said.as_str(), named), ("RestartIgnoringLimit R null", parsed("failurePolicy")));
    let (said, named, message) = text(2);
    assert_eq!(said, r#"Fail R {"limit":2,"used":2}"#);
    assert_eq!(named, parsed("uncountedLimit"));
    let end = "; limit of uncounted restarts reached for rule free of failurePolicy (2 of 2 uncounted restarts used)";
    assert!(message.ends_with(end), "{message}");
}
