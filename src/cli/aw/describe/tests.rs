use serde_json::{Value, json};

use super::super::super::explain::ExplainInputs;
use super::*;
use crate::api::keys;
use crate::snapshot::{Container, ContainerState, Object, Report, Termination};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

fn condition_of(kind: &str, status: &str, second: i64) -> Value {
    json!({"type": kind, "status": status, "reason": "R", "message": "",
           "lastTransitionTime": at(second)})
}

/// An AppWrapper around one Pod that never is retried by itself.
fn one(status: &Value, annotations: &Value) -> One {
    let deleted = (status["phase"] == "Terminating").then(|| at(11));
    let object = json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {"name": "train", "namespace": "ns", "uid": "u", "creationTimestamp": at(0),
                     "annotations": annotations, "finalizers": [keys::FINALIZER],
                     "deletionTimestamp": deleted},
        "spec": {"components": [{"template": {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        }}]},
        "status": status,
    });
    One::of(serde_json::from_str(&object.to_string()).unwrap()).unwrap()
}

fn running() -> Value {
    json!({
        "phase": "Running", "resettingCount": 1,
        "conditions": [
            condition_of("QuotaReserved", "True", 5), condition_of("ResourcesDeployed", "True", 5),
            condition_of("PodsReady", "True", 10),
        ],
        "componentStatus": [{"name": "p", "kind": "Pod", "apiVersion": "v1",
            "podSets": [{"path": "template", "replicas": 1}], "uid": "pod-uid"}],
        "attempts": [
            {
                "attempt": 0, "startedAt": at(0), "failedAt": at(2), "endedAt": at(4),
                "outcome": "Failed", "action": "Restart", "rule": {"source": "retryLimit"},
                "retries": {"used": 0, "limit": 3},
                "failure": {"pod": "p", "exitCode": 1, "node": "node-2"},
            },
            {"attempt": 1, "startedAt": at(5), "readyAt": at(10)},
        ],
    })
}

fn pod(phase: PodPhase) -> Pod {
    let end = Termination {
        exit_code: 3,
        reason: "Error".into(),
        message: "CUDA error\x1b[2J".into(),
        finished_at: Some(at(20)),
        ..Termination::default()
    };
    let failed = phase == PodPhase::Failed;
    let state = if failed { ContainerState::Terminated(end) } else { ContainerState::Running };
    Pod {
        name: "p".into(),
        uid: "pod-uid".into(),
        component: Some(0),
        pod_set: Some(0),
        attempt: Some(1),
        node: Some("node-1".into()),
        phase,
        containers: vec![Container { name: "main".into(), init: false, restartable: false, state }],
        ..Pod::default()
    }
}

fn snapshot(one: &One, presence: Presence, pods: Vec<Pod>) -> Snapshot {
    let mut components = one.wrapper.components.clone();
    components[0].presence = presence;
    let answered = crate::plan::FreshRead::Gone;
    Snapshot { components, pods, answered, ..one.wrapper.snapshot() }
}

fn ours() -> Presence {
    let report = Report { unreplaced: [0].into(), ..Report::default() };
    Presence::Present(Object { uid: "pod-uid".into(), report, ..Object::default() })
}

fn described(one: &One, snapshot: Snapshot, now: Timestamp) -> Description {
    let wrapper = (*one.wrapper).clone();
    let inputs =
        ExplainInputs { snapshot, wrapper, notes: vec![], unread: vec![], is_denied: false };
    let next = explain(&inputs, &crate::config::Config::default(), now);
    description(one, Some(&inputs.snapshot), Some(next), vec![])
}

#[test]
fn a_failed_pod_is_described_with_its_exit_code_its_rule_and_what_comes_next() {
    let one = one(&running(), &json!({}));
    let snapshot = snapshot(&one, ours(), vec![pod(PodPhase::Failed)]);
    let mut description = described(&one, snapshot, at(30));
    description.queue = Some(QueueStatus {
        queue: Some("gpu".into()),
        workload: Some("w".into()),
        admitted: true,
        active: Some(true),
        message: "admitted".into(),
    });
    description.events = vec![Warning {
        at: Some(at(21)),
        count: 2,
        reason: "FoundFailedPods".into(),
        message: "Pod/p failed\nerror: forged".into(),
        object: None,
    }];
    let text = text::text(&description, at(30), false).to_string();
    insta::assert_snapshot!(text, @r"
    ns/train: Running since 2026-01-01T00:00:05Z (25s ago), attempt 1, 1 restart
    queue       gpu: admitted
    components  Pod/p: exists; pods: 1 Failed
    failure     pod p, container main, exit code 3, reason Error, category application, node node-1; in attempt 1
                CUDA error\u{1b}[2J
    next        Running (waits until 2026-01-01T00:01:20Z, in 50s)
                why       FoundFailedPods: pod p on node node-1: container main exited with code 3 (Error): CUDA error\u{1b}[2J
                restarts  1 of 3 used before
    warnings    9s ago, FoundFailedPods: Pod/p failed\nerror: forged (2 times)
    ");
    let json = serde_json::to_value(&description).unwrap();
    assert_eq!(json["failure"]["exitCode"], 3);
    assert_eq!(json["failure"]["node"], "node-1");
    assert_eq!(json["next"]["action"], "Wait");
    assert_eq!(json["since"], json!(at(5)));
}

#[test]
fn what_has_failed_for_good_says_what_was_decided_and_what_to_do() {
    let mut status = running();
    status["phase"] = "Failed".into();
    status["since"] = json!({"failed": at(25)});
    status["conditions"] = json!([
        condition_of("QuotaReserved", "False", 26),
        condition_of("ResourcesDeployed", "False", 26),
        condition_of("Unhealthy", "True", 25),
    ]);
    status["attempts"][1] = json!({
        "attempt": 1, "startedAt": at(5), "failedAt": at(20), "endedAt": at(26),
        "outcome": "Failed", "action": "Fail",
        "rule": {"source": "podFailurePolicy", "index": 0},
        "failure": {"component": "p", "pod": "p", "container": "main", "exitCode": 42,
                    "reason": "Error", "node": "node-1", "message": "bad input"},
    });
    let one = one(&status, &json!({}));
    let snapshot = snapshot(&one, Presence::Absent, vec![]);
    let text = text::text(&described(&one, snapshot, at(86)), at(86), false).to_string();
    insta::assert_snapshot!(text, @r"
    ns/train: Failed since 2026-01-01T00:00:25Z (61s ago), attempt 1, 1 restart
    components  Pod/p: does not exist
    failure     pod p, container main, exit code 42, reason Error, node node-1; in attempt 1, 66s ago
                bad input
    decision    Fail by rule 0 of podFailurePolicy
    next        Failed (final; to recreate it from its own spec: appwrapper retry train -n ns)
    ");
}

#[test]
fn what_no_limit_counts_and_the_count_rule_are_shown() {
    let mut status = running();
    status["uncountedRestarts"] = 2.into();
    status["ignoredFailures"] = 3.into();
    status["attempts"][0]["rule"] = json!({"source": "retryLimit", "index": 1});
    let one = one(&status, &json!({}));
    let snapshot = snapshot(&one, ours(), vec![pod(PodPhase::Running)]);
    let mut description = described(&one, snapshot, at(30));
    description.uncounted_restarts = Uncounted::of(&one.wrapper, &Config::default());
    let text = text::text(&description, at(30), false).to_string();
    insta::assert_snapshot!(text, @r"
    ns/train: Running since 2026-01-01T00:00:05Z (25s ago), attempt 1, 1 restart
    components  Pod/p: exists; pods: 1 Running
    uncounted   2 of 100 uncounted restarts used
    ignored     3 failed pods, by podFailurePolicy
    failure     pod p, exit code 1, node node-2; in attempt 0, 28s ago
    decision    Restart by retryLimit (rule 1 of podFailurePolicy counts the failure), 0 of 3 restarts used before
    next        Running (pods running)
    ");
    let json = serde_json::to_value(&description).unwrap();
    assert_eq!(json["uncountedRestarts"], json!({"used": 2, "limit": 100}));
    assert_eq!(json["ignoredFailures"], 3);
    let endless = Config::parse("{retryPolicy: {maxUncountedRestarts: 0}}").unwrap();
    assert_eq!(Uncounted::of(&one.wrapper, &endless), Uncounted { used: 2, limit: None });
}

#[test]
fn what_is_new_has_no_components_yet_and_perhaps_no_controller() {
    let lease =
        "check whether a controller is running: kubectl -n appwrapper-system get pods,leases";
    for (phase, want) in
        [("", "not created yet"), ("Suspended", "not created yet"), ("Resuming", "does not exist")]
    {
        let one = one(&json!({"phase": phase}), &json!({}));
        let description = described(&one, snapshot(&one, Presence::Absent, vec![]), at(5));
        assert_eq!(description.components[0].state, want, "{phase}");
        assert_eq!(
            description.advice.is_some_and(|advice| advice.contains(lease)),
            phase.is_empty()
        );
    }
    let new = one(&json!({}), &json!({}));
    assert_eq!(advice(&new.wrapper, None, "appwrapper"), None, "a manifest is in no cluster");
    let mut again = running();
    again["phase"] = "Suspended".into();
    let again = one(&again, &json!({}));
    assert_eq!(member(&snapshot(&again, Presence::Absent, vec![]), 0).state, "does not exist");
}

#[test]
fn a_component_of_a_later_step_is_not_created_yet() {
    let job = |name: &str| {
        json!({"template": {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}})
    };
    let deployed = condition_of("ResourcesDeployed", "True", 5);
    let entry = |name: &str, conditions: Value| {
        json!({"name": name, "kind": "Job", "apiVersion": "batch/v1",
            "podSets": [{"path": "template.spec.template"}], "conditions": conditions})
    };
    let object = json!({
        "metadata": {"name": "aw", "namespace": "ns", "uid": "u", "creationTimestamp": at(0)},
        "spec": {"components": [job("init"), job("work")], "executionPolicy": {
            "executionPolicyOrder": "InOrder",
            "rules": [{"targetComponents": ["init"], "waitForComponentsStatus": "Succeeded"}]}},
        "status": {"phase": "Running", "componentStatus":
            [entry("init", json!([deployed])), entry("work", json!([]))]},
    });
    let one = One::of(serde_json::from_str(&object.to_string()).unwrap()).unwrap();
    let mut snapshot =
        Snapshot { components: one.wrapper.components.clone(), ..one.wrapper.snapshot() };
    snapshot.components[1].presence = Presence::Absent;
    assert_eq!(member(&snapshot, 1).state, "not created before step 2 of 2");
    snapshot.status.component_status[1].uid = Some("work-uid".to_owned());
    assert_eq!(member(&snapshot, 1).state, "does not exist");
}

#[test]
fn a_manager_cluster_shows_what_its_worker_cluster_reports() {
    let mut status = running();
    status["phase"] = "Failed".into();
    let mut failure = condition_of("LastFailure", "True", 25);
    failure["message"] =
        "component p, pod p on node n\u{1b}[2J; attempt 1: Fail by retryLimit".into();
    status["conditions"].as_array_mut().unwrap().push(failure);
    status["attempts"] = json!([]);
    let one = |manager: &str| {
        let mut one = one(&status, &json!({}));
        let mut wrapper = (*one.wrapper).clone();
        std::sync::Arc::make_mut(&mut wrapper.spec).managed_by = Some(manager.into());
        one.wrapper = std::sync::Arc::new(wrapper);
        one
    };
    let sent = one("kueue.x-k8s.io/multikueue");
    let snapshot = snapshot(&sent, Presence::Absent, vec![]);
    let text = text::text(&description(&sent, Some(&snapshot), None, vec![]), at(86), false);
    insta::assert_snapshot!(text.to_string(), @r"
    ns/train: Failed, 1 restart
    managed by  kueue.x-k8s.io/multikueue
    components  Pod/p: created in the worker cluster only
    failure     61s ago, in the worker cluster: component p, pod p on node n\u{1b}[2J; attempt 1: Fail by retryLimit
    advice      to run it again, delete the AppWrapper and create it again in this cluster
    ");
    let other = description(&one("example.com/other"), Some(&snapshot), None, vec![]);
    assert_eq!(other.last_failure, None);
}

#[test]
fn what_is_deleted_in_a_manager_cluster_is_said_to_be_deleted() {
    for (manager, deleting, is_told) in [
        (Some(keys::MULTIKUEUE), true, true),
        (Some("example.com/other"), true, true),
        (Some(keys::MULTIKUEUE), false, false),
        (None, true, false),
    ] {
        let mut one = one(&json!({"phase": "Running"}), &json!({}));
        let mut wrapper = (*one.wrapper).clone();
        wrapper.deleting = deleting;
        wrapper.queue = Some("gpu".into());
        std::sync::Arc::make_mut(&mut wrapper.spec).managed_by = manager.map(str::to_owned);
        one.wrapper = std::sync::Arc::new(wrapper.clone());
        let snapshot = snapshot(&one, Presence::Absent, vec![]);
        let inputs =
            ExplainInputs { snapshot, wrapper, notes: vec![], unread: vec![], is_denied: false };
        let gathered = Gathered {
            one,
            config: Config::default(),
            queued: Queued::Nothing,
            warnings: vec![],
            inputs: Some(inputs),
            notes: vec![],
        };
        let description = describe(&gathered, at(5));
        let told = format!("it is being deleted; waiting for finalizers: {}", keys::FINALIZER);
        assert_eq!(description.notes.contains(&told), is_told, "{manager:?} {deleting}");
        assert_eq!(description.next.is_none(), is_told, "{manager:?} {deleting}");
        let is_advised = description.queue.is_some();
        assert_eq!(is_advised, !deleting, "{manager:?} {deleting}");
    }
}

#[test]
fn a_copy_of_multikueue_says_where_it_is_changed() {
    for (phase, want) in [("Failed", true), ("Succeeded", true), ("Running", false)] {
        let mut one = one(&json!({"phase": phase}), &json!({}));
        let wrapper = Wrapper { has_manager: true, ..(*one.wrapper).clone() };
        one.wrapper = std::sync::Arc::new(wrapper);
        let description = described(&one, snapshot(&one, Presence::Absent, vec![]), at(5));
        let advice = description.advice.unwrap_or_default();
        assert!(advice.ends_with("change the AppWrapper in the manager cluster"), "{advice}");
        let next = description.next.unwrap();
        assert_eq!(next.standing == "final", want, "{phase}: {}", next.standing);
    }
}

#[test]
fn components_say_why_they_are_not_there() {
    let one = one(&running(), &json!({}));
    let object = |owner: Owner| Presence::Present(Object { owner, ..Object::default() });
    let failed = Outcome::Failed { reason: "Deadline".into(), message: "late".into(), at: None };
    let mut ending = pod(PodPhase::Running);
    ending.terminating = true;
    let of = |presence: Presence, pods: Vec<Pod>| member(&snapshot(&one, presence, pods), 0).state;
    let reports = |outcome: Outcome, terminating: bool| {
        let report = Report { outcome, ..Report::default() };
        let finalizers = vec!["foregroundDeletion".to_owned()];
        Presence::Present(Object { terminating, finalizers, report, ..Object::default() })
    };
    for (presence, pods, want) in [
        (Presence::Absent, vec![], "does not exist"),
        (Presence::NoKind, vec![], "its kind is not served by the cluster"),
        (ours(), vec![pod(PodPhase::Running), ending], "exists; pods: 1 Running, 1 Terminating"),
        (
            object(Owner::Stranger("Job/x".into())),
            vec![],
            "an object of this name already exists and is owned by Job/x",
        ),
        (
            object(Owner::Stranger(String::new())),
            vec![],
            "an object of this name already exists, and no AppWrapper owns it",
        ),
        (reports(failed, false), vec![], "failed: Deadline: late"),
        (reports(Outcome::Succeeded, false), vec![], "succeeded"),
        (reports(Outcome::Active, true), vec![], "being deleted, finalizers foregroundDeletion"),
    ] {
        assert_eq!(of(presence, pods), want);
    }
}

#[test]
fn a_workload_that_is_not_active_keeps_it_from_being_admitted() {
    let mut one = one(&json!({"phase": "Suspended"}), &json!({}));
    let mut wrapper = (*one.wrapper).clone();
    wrapper.queue = Some("gpu".into());
    std::sync::Arc::make_mut(&mut wrapper.spec).suspend = true;
    one.wrapper = std::sync::Arc::new(wrapper);
    let mut snapshot = snapshot(&one, Presence::Absent, vec![]);
    snapshot.suspend = true;
    let wrapper = (*one.wrapper).clone();
    let inputs =
        ExplainInputs { snapshot, wrapper, notes: vec![], unread: vec![], is_denied: false };
    let mut gathered = Gathered {
        one,
        config: Config::default(),
        queued: Queued::Nothing,
        warnings: vec![],
        inputs: Some(inputs),
        notes: vec![],
    };
    for (active, standing, advice) in [
        (true, "waiting for admission by queue gpu", None),
        (
            false,
            "deactivated: not admitted until its Workload is active again",
            Some("to resume it: appwrapper resume train -n ns"),
        ),
    ] {
        let workload = json!({
            "metadata": {"name": "w", "uid": "w", "ownerReferences": [
                {"apiVersion": "v", "kind": "K", "name": "train", "uid": "u", "controller": true},
            ]},
            "spec": {"active": active},
        });
        let seen: RawObject = serde_json::from_str(&workload.to_string()).unwrap();
        gathered.queued = workload::of_owner(&[seen], "u");
        let description = describe(&gathered, at(5));
        assert_eq!(description.next.unwrap().standing, standing);
        assert_eq!(description.advice.as_deref(), advice);
    }
}

#[test]
fn each_phase_knows_since_when_it_is() {
    let failed = |since: Value| {
        json!({"phase": "Failed", "since": since,
               "conditions": [condition_of("Unhealthy", "True", 6)],
               "attempts": [{"attempt": 0, "startedAt": at(1), "failedAt": at(4)}]})
    };
    for (status, want) in [
        (json!({}), Some(at(0))),
        (json!({"phase": "Suspended"}), Some(at(0))),
        (
            json!({"phase": "Suspended", "conditions": [condition_of("QuotaReserved", "False", 7)]}),
            Some(at(7)),
        ),
        (json!({"phase": "Resuming", "since": {"deployed": at(3)}}), Some(at(3))),
        (running(), Some(at(5))),
        (
            json!({"phase": "Resetting", "conditions": [condition_of("DeletingResources", "True", 8)]}),
            Some(at(8)),
        ),
        (json!({"phase": "Resetting"}), None),
        (json!({"phase": "Resetting", "since": {"gone": at(9)}}), Some(at(9))),
        (json!({"phase": "Succeeded", "since": {"succeeded": at(9)}}), Some(at(9))),
        (
            json!({"phase": "Failed", "conditions": [condition_of("Unhealthy", "True", 6)]}),
            Some(at(6)),
        ),
        (failed(json!({"failed": at(9)})), Some(at(9))),
        (failed(json!({})), Some(at(4))),
    ] {
        assert_eq!(since(&one(&status, &json!({}))), want, "{status}");
    }
    let deleted = one(&json!({"phase": "Terminating"}), &json!({}));
    assert_eq!(since(&deleted), Some(at(11)));
}
