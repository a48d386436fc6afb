//! Bundles for the rows of the contract's tables, and the answers that the tables give.

mod execution;
mod failure_policy;
mod health;
mod kueue;
mod live;
mod phases;
mod pod_failure_policy;
mod policy;
mod replay;
mod retry;
mod retry_sources;

use serde_json::{Value, json};

use super::super::bundle::{Document, Source, documents};
use super::{ExplainInputs, answer, world};
use crate::config::Config;

/// The keys of an answer, in their order.
const KEYS: [&str; 14] = [
    "phase",
    "nextPhase",
    "action",
    "reason",
    "message",
    "failure",
    "rule",
    "counted",
    "retries",
    "retryAfterSeconds",
    "deadline",
    "avoidNodes",
    "create",
    "delete",
];

/// A moment so many seconds after midnight.
fn at(second: i64) -> String {
    format!("2026-01-01T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// An AppWrapper around one Job of two pods, as it stands in a cluster: it was deployed at second 0.
fn wrapper(phase: &str) -> Value {
    let up = ["Resuming", "Running", "Resetting", "Suspending", "Failed", "Terminating"];
    let deployed = up.contains(&phase) || phase == "Succeeded";
    let condition = |kind: &str, status: bool| {
        json!({"type": kind, "status": if status { "True" } else { "False" }, "reason": "Test",
               "message": "", "lastTransitionTime": at(0)})
    };
    let mut conditions = vec![
        condition("QuotaReserved", up.contains(&phase)),
        condition("ResourcesDeployed", deployed),
    ];
    if ["Resetting", "Suspending", "Terminating"].contains(&phase) {
        conditions.push(condition("DeletingResources", true));
    }
    if phase == "Failed" {
        conditions.push(condition("Unhealthy", true));
    }
    let suspend = ["Suspended", "Suspending"].contains(&phase);
    let status = json!({
        "phase": phase, "conditions": conditions,
        "componentStatus": [{
            "name": "work", "kind": "Job", "apiVersion": "batch/v1",
            "podSets": [{"path": "template.spec.template", "replicas": 2}],
        }],
    });
    json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {
            "name": "aw", "namespace": "ns", "uid": "aw-uid", "annotations": {},
            "finalizers": ["workload.codeflare.dev/finalizer"],
        },
        "spec": {
            "suspend": suspend,
            "components": [{"template": template()}],
        },
        "status": if phase.is_empty() { json!({}) } else { status },
    })
}

fn template() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
        "spec": {"parallelism": 2, "completions": 2, "backoffLimit": 6, "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]},
        }},
    })
}

/// The Job of the AppWrapper.
fn job() -> Value {
    let mut job = template();
    job["metadata"] = json!({"name": "work", "namespace": "ns", "uid": "job-uid", "ownerReferences": [{
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "name": "aw",
        "uid": "aw-uid", "controller": true,
    }]});
    job
}

/// The Job, with a condition since second 20.
fn job_that_is(condition: &str, reason: &str) -> Value {
    let mut job = job();
    job["status"]["conditions"] = json!([{
        "type": condition, "status": "True", "reason": reason, "message": "says the Job",
        "lastTransitionTime": at(20),
    }]);
    job
}

/// A pod of the Job; one that ended did so at second 20.
fn pod(name: &str, phase: &str, exit_code: i32) -> Value {
    let ended = json!({"exitCode": exit_code, "reason": "Error", "finishedAt": at(20)});
    let state = match phase {
        "Failed" | "Succeeded" => json!({"terminated": ended}),
        "Running" => json!({"running": {"startedAt": at(1)}}),
        _ => json!({"waiting": {"reason": "ContainerCreating"}}),
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("{name}-uid"), "creationTimestamp": at(0),
            "labels": {"workload.codeflare.dev/appwrapper": "aw"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "work",
                "uid": "job-uid", "controller": true}],
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]},
    })
}

/// Two pods that run.
fn two() -> Vec<Value> {
    vec![pod("w-0", "Running", 0), pod("w-1", "Running", 0)]
}

/// An object with a value put in at a JSON pointer, whose parents exist.
fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let parent = if parent.is_empty() { Some(&mut object) } else { object.pointer_mut(parent) };
    parent.expect("the parent is there")[key] = value;
    object
}

/// An object, or part of one, from YAML.
fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The wrapper with fields of `spec` from YAML, such as `failurePolicy: {rules: []}`.
fn spec(mut wrapper: Value, fields: &str) -> Value {
    let fields = yaml(fields);
    for (name, value) in fields.as_object().expect("fields") {
        wrapper["spec"][name] = value.clone();
    }
    wrapper
}

/// The wrapper with an annotation of ours.
fn tuned(wrapper: Value, key: &str, value: &str) -> Value {
    let mut wrapper = wrapper;
    let key = format!("workload.codeflare.dev.appwrapper/{key}");
    wrapper["metadata"]["annotations"][key] = value.into();
    wrapper
}

/// What these objects show at a moment, and the settings of a file.
fn inputs(settings: &str, objects: &[Value], second: i64) -> (ExplainInputs, Config) {
    let text: Vec<String> = objects.iter().map(Value::to_string).collect();
    let source = [Source { name: "bundle".into(), bytes: text.join("\n---\n").into_bytes() }];
    let read: Result<Vec<Document>, _> = documents(&source).into_iter().collect();
    let config = Config::parse(settings).expect("the settings are right");
    let now = at(second).parse().expect("a moment");
    let inputs = world::inputs(read.expect("a readable bundle"), &config, now);
    (inputs.expect("one AppWrapper"), config)
}

/// The answer for these objects at a moment, with the settings of a file.
fn explain_with(settings: &str, objects: &[Value], second: i64) -> Value {
    let (inputs, config) = inputs(settings, objects, second);
    let explanation = answer::explain(&inputs, &config, at(second).parse().expect("a moment"));
    let text = serde_json::to_string(&explanation).expect("JSON");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    check(&answer, &text);
    answer
}

/// The answer for these objects at a moment.
fn explain(objects: &[Value], second: i64) -> Value {
    explain_with("{}", objects, second)
}

/// What holds for every answer.
fn check(answer: &Value, text: &str) {
    let mut last = 0;
    for key in KEYS {
        let place = text[last..].find(&format!("\"{key}\":")).map(|place| place + last);
        last = place.unwrap_or_else(|| panic!("{key} is missing or out of order: {text}"));
    }
    let keys = KEYS.len() + usize::from(answer.get("notes").is_some());
    assert_eq!(answer.as_object().expect("an object").len(), keys, "{text}");
    let action = answer["action"].as_str().expect("an action");
    assert_eq!(action == "Wait", answer["deadline"].is_string(), "{text}");
    let restarts = ["Restart", "RestartIgnoringLimit", "RecreateComponent"].contains(&action);
    assert_eq!(restarts, answer["counted"].is_boolean(), "{text}");
    assert!(answer["rule"].is_null() || restarts || action == "Fail", "{text}");
}

/// The chosen fields of an answer, in a line.
fn line(answer: &Value, fields: &[&str]) -> String {
    let shown = fields.iter().map(|field| match answer.pointer(field) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "-".to_owned(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_name_of_a_file_is_no_name() {
    for (text, want) in [
        ("train", Ok("train".to_owned())),
        ("no-such-file.yaml", Ok("no-such-file.yaml".to_owned())),
        ("samples/job.yaml", Err("did you mean -f samples/job.yaml?".to_owned())),
    ] {
        assert_eq!(super::name_not_file(text), want);
    }
    assert!(super::name_not_file("no/such/file.yaml").is_err());
}

/// A manifest as users write it, before the webhook.
fn manifest() -> Value {
    let mut manifest = wrapper("");
    manifest["metadata"] = json!({
        "name": "aw", "namespace": "ns", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"},
    });
    manifest["spec"] = json!({"components": [{"template": template()}]});
    manifest.as_object_mut().expect("an object").remove("status");
    manifest
}

#[test]
fn a_manifest_is_filled_in_as_the_webhook_does() {
    let shown = |manifest: &Value| {
        line(&explain(std::slice::from_ref(manifest), 1), &["/nextPhase", "/action", "/message"])
    };
    assert_eq!(shown(&manifest()), "Suspended None waiting for admission by queue user-queue");
    let mut admitted = manifest();
    admitted["metadata"]["uid"] = json!("u");
    assert!(shown(&admitted).starts_with("Resuming Deploy "), "Kueue has set suspend to false");
    let mut plain = manifest();
    plain["metadata"]["labels"] = json!(null);
    assert!(shown(&plain).starts_with("Resuming Deploy "));
    let settings = "admission: {defaultQueueName: gpu}";
    let answer = explain_with(settings, &[plain], 1);
    assert_eq!(answer["message"], "waiting for admission by queue gpu");
}

#[test]
fn a_manifest_that_the_webhook_would_deny_is_noted() {
    let notes = |manifest: Value| inputs("{}", &[manifest], 1).0.notes;
    assert_eq!(notes(manifest()), Vec::<String>::new());
    let mut bad = manifest();
    bad["spec"]["components"][0]["template"]["kind"] = json!("Jobb");
    let said = notes(bad.clone());
    assert_eq!(said.len(), 1, "{said:?}");
    let start = "the webhook would deny it: spec.components: must have at least one pod set";
    assert!(said[0].starts_with(start) && said[0].contains("did you mean Job?"), "{said:?}");
    let answer = explain(&[bad.clone()], 1);
    assert_eq!(answer["notes"], json!(said));
    assert_eq!(line(&answer, &["/action", "/create"]), "None []");
    let (denied, config) = inputs("{}", &[bad.clone()], 1);
    let now = at(1).parse().expect("a moment");
    let answer = super::text::text(&answer::explain(&denied, &config, now), now, false).to_string();
    let headline =
        "ns/aw: (new), cannot be created: the webhook would deny it\n  note      the webhook";
    assert!(answer.starts_with(headline), "{answer}");
    bad["status"] = wrapper("Suspended")["status"].clone();
    let said = notes(bad);
    assert!(
        said.iter().all(|note| !note.starts_with("the webhook")),
        "it is in a cluster: {said:?}"
    );
}

#[test]
fn an_appwrapper_of_another_group_is_named() {
    let mut other = manifest();
    other["apiVersion"] = json!("mcad.ibm.com/v1beta1");
    let source = [Source { name: "f".into(), bytes: other.to_string().into_bytes() }];
    let read: Result<Vec<Document>, _> = documents(&source).into_iter().collect();
    let now = at(1).parse().expect("a moment");
    let error =
        world::inputs(read.expect("an object"), &Config::default(), now).expect_err("a text");
    let want = "f: AppWrapper/aw: apiVersion: Invalid value: \"mcad.ibm.com/v1beta1\": \
                must be workload.codeflare.dev/v1beta2";
    assert_eq!(error, want);
}

#[test]
fn unknown_fields_are_noted() {
    let mut unknown = manifest();
    unknown["spec"]["suspended"] = json!(true);
    let answer = explain(&[unknown], 1);
    let notes = answer["notes"].as_array().expect("notes");
    let note = notes[0].as_str().expect("a text");
    assert!(note.starts_with("spec.suspended: \"true\": unknown field, has no effect"), "{note}");
    assert!(note.ends_with("did you mean suspend?") && notes.len() == 1, "{notes:?}");
    assert_eq!(answer["nextPhase"], "Suspended", "it is not denied");
}

#[test]
fn a_manifest_that_cannot_be_read_has_the_findings_of_validate() {
    let mut bad = manifest();
    bad["spec"]["components"][0]["podSets"] =
        json!([{"path": "template.spec.template", "replicas": "4"}]);
    bad["spec"]["components"][0]["template"]["metadata"]["name"] = json!("A b");
    let source = [Source { name: "f".into(), bytes: bad.to_string().into_bytes() }];
    let read: Result<Vec<Document>, _> = documents(&source).into_iter().collect();
    let now = at(1).parse().expect("a moment");
    let error =
        world::inputs(read.expect("an object"), &Config::default(), now).expect_err("a text");
    for want in [
        "f: AppWrapper/aw: spec.components[0].podSets[0].replicas: Invalid value: \"4\": must be a whole number",
        "\nf: AppWrapper/aw: spec.components[0].template.metadata.name: Invalid value: \"A b\": must be",
    ] {
        assert!(error.contains(want), "{error}");
    }
}
