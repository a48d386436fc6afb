//! A gang: one Job of many pods, as watches show it.

use std::collections::BTreeMap;
use std::sync::Arc;

use appwrapper::api::Component as ApiComponent;
use appwrapper::kinds::{self, OwnershipLabels};
use appwrapper::observe::ancestry::{Ancestors, Family};
use appwrapper::observe::assemble;
use appwrapper::observe::kin::Kin;
use appwrapper::observe::pod_record::{PodRecord, WatchedPod};
use appwrapper::snapshot::{Component, Object, Presence};
use kube::core::WatchEvent;
use serde_json::{Value, json};

/// The pods of the gang.
pub const PODS: usize = 1_000;

/// All that is known of the gang when its pods are told from those of others.
pub struct Gang {
    /// The pods, as they are kept.
    pub records: Vec<Arc<PodRecord>>,
    components: Vec<Component>,
    roots: BTreeMap<String, Option<usize>>,
    kin: Kin,
    wrapped: ApiComponent,
}

impl Gang {
    /// A gang of so many pods.
    pub fn of(pods: usize) -> Self {
        let pod_sets = kinds::infer(&job()).expect("a Job");
        let object = Object { uid: "job-uid".into(), attempt: Some(0), ..Object::default() };
        let component = Component {
            name: "work".into(),
            kind: "Job".into(),
            api_version: "batch/v1".into(),
            pod_sets,
            presence: Presence::Present(object),
            ..Component::default()
        };
        let roots = [("job-uid".to_owned(), Some(0)), ("uid".to_owned(), None)];
        Self {
            records: (0..pods).map(|index| read(&pod_event(index))).collect(),
            components: vec![component],
            roots: roots.into(),
            kin: Kin::default(),
            wrapped: ApiComponent { template: job(), ..ApiComponent::default() },
        }
    }

    /// How many pods turn out to be of the gang.
    pub fn classified(&self) -> usize {
        let family = Family::new("uid", &self.roots, &self.components, &self.kin);
        assemble::pods(&self.records, &family, &Ancestors::new()).ours.len()
    }

    /// The Job as it is created.
    pub fn rendered(&self) -> Value {
        let stamp = OwnershipLabels {
            appwrapper: "gang",
            uid: "uid",
            attempt: 0,
            namespace: "n",
            component: 0,
            queue: None,
            scheduler_name: None,
            avoid_nodes: &[],
            suspect_nodes: None,
            aversions: &[],
            progress: None,
        };
        kinds::render(&self.wrapped, &self.components[0].pod_sets, &stamp).expect("a Job")
    }
}

/// What is kept of a pod that an event of a watch shows.
pub fn read(event: &str) -> Arc<PodRecord> {
    let event: WatchEvent<WatchedPod> = serde_json::from_str(event).expect("an event");
    let WatchEvent::Modified(pod) = event else { unreachable!("the type of the event") };
    pod.record
}

fn job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
        "spec": {
            "parallelism": PODS, "completions": PODS, "completionMode": "Indexed",
            "template": {"spec": {"restartPolicy": "Never", "containers": [container()]}},
        },
    })
}

fn container() -> Value {
    json!({
        "name": "main", "image": "registry.example.com/train:1", "command": ["python", "train.py"],
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"nvidia.com/gpu": "1"}},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": true}],
    })
}

/// The event of a watch in which a pod of the gang runs, with what an API server adds.
pub fn pod_event(index: usize) -> String {
    let time = "2026-01-01T00:00:00Z";
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": time});
    let owned = json!({
        ".": {}, "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:a": {}, "f:b": {}}},
        "f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {"f:image": {}, "f:name": {}, "f:resources": {}}}},
    });
    let labels = json!({
        "workload.codeflare.dev/appwrapper": "gang",
        "workload.codeflare.dev/appwrapper-uid": "uid",
        "workload.codeflare.dev/attempt": "0",
        "workload.codeflare.dev/podset": "0-0",
        "batch.kubernetes.io/controller-uid": "job-uid", "batch.kubernetes.io/job-name": "work",
        "batch.kubernetes.io/job-completion-index": index.to_string(),
    });
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": format!("work-{index}"), "namespace": "n", "uid": format!("pod-{index}"),
            "resourceVersion": index.to_string(), "creationTimestamp": time, "labels": labels,
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "job-uid",
                "controller": true, "blockOwnerDeletion": true,
            }],
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update", "time": time, "fieldsV1": owned},
                {"manager": "kubelet", "operation": "Update", "time": time, "fieldsV1": owned},
            ],
        },
        "spec": {
            "nodeName": format!("node-{index}"), "restartPolicy": "Never", "containers": [container()],
            "volumes": [{"name": "token", "projected": {"defaultMode": 420, "sources": []}}],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            ],
        },
        "status": {
            "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.0.1.1", "startTime": time,
            "conditions": (["Initialized", "Ready", "ContainersReady", "PodScheduled"]).map(condition),
            "containerStatuses": [{
                "name": "main", "ready": true, "started": true, "restartCount": 0,
                "image": "registry.example.com/train:1", "imageID": "sha256:0",
                "state": {"running": {"startedAt": time}}, "lastState": {},
            }],
        },
    });
    // in the order of an API server
    format!(r#"{{"type":"MODIFIED","object":{pod}}}"#)
}
