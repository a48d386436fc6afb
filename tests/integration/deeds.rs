//! What tests do to a cluster beside creating AppWrappers, and what must hold in any story.

use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Case, Log, RawObject, attempts_do_not_overlap, pod, quota_without_a_gap};

const UID_LABEL: &str = "workload.codeflare.dev/appwrapper-uid";

impl Case {
    /// An object as it is stored now.
    pub async fn stored(&self, api_version: &str, kind: &str, name: &str) -> Option<DynamicObject> {
        self.api(api_version, kind).get_opt(name).await.expect("the object can be read")
    }

    /// Changes an object.
    pub async fn change(&self, api_version: &str, kind: &str, name: &str, patch: Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let changed = self.api(api_version, kind).patch(name, &params, &patch).await;
        changed.expect("the change is accepted");
    }

    /// Changes the status of an AppWrapper.
    pub async fn change_status(&self, name: &str, status: Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(json!({"status": status})));
        let changed = self.wrappers().patch_status(name, &params, &patch).await;
        changed.expect("the status is accepted");
    }

    /// Ends a pod that runs: with this exit code.
    pub async fn end_pod(&self, name: &str, exit_code: &str) {
        let notes = json!({"sim/run-for": "0s", "sim/exit-code": exit_code});
        self.change("v1", "Pod", name, json!({"metadata": {"annotations": notes}})).await;
    }

    /// Takes away a pod that does not go by itself.
    pub async fn force_delete_pod(&self, name: &str) {
        let params = DeleteParams::default().grace_period(0);
        self.api("v1", "Pod").delete(name, &params).await.expect("the pod is deleted");
    }

    /// Waits for a condition to have a message that contains a text.
    pub async fn says(&self, name: &str, condition: &str, text: &str) -> RawObject {
        self.until(&format!("{condition} of {name} says {text}"), |log| {
            let mut states = log.of("AppWrapper", name);
            states.find(|seen| seen.condition_field(condition, "message").contains(text)).cloned()
        })
        .await
    }

    /// Waits for `Unhealthy` to be True for a reason.
    pub async fn unhealthy(&self, name: &str, reason: &str) -> RawObject {
        self.until(&format!("{name} Unhealthy: {reason}"), |log| {
            let mut states = log.of("AppWrapper", name);
            states
                .find(|seen| {
                    seen.condition("Unhealthy") == "True"
                        && seen.condition_field("Unhealthy", "reason") == reason
                })
                .cloned()
        })
        .await
    }

    /// Waits until the pods of an attempt are ready.
    pub async fn ready(&self, name: &str, attempt: i64) -> RawObject {
        self.until(&format!("{name} ready in attempt {attempt}"), |log| {
            let last = log.last("AppWrapper", name)?;
            (last.condition("PodsReady") == "True" && last.attempt() == attempt)
                .then(|| last.clone())
        })
        .await
    }

    /// Creates another AppWrapper and waits for it to succeed: the controller goes on, and has had
    /// the time to do wrong whatever it could.
    pub async fn others_go_on(&self, name: &str) {
        self.wrap(name, json!({}), vec![pod(name, &[("run-for", "0s")])]).await;
        self.phase(name, "Succeeded").await;
    }

    /// Waits for the laws that hold in every story to be seen to hold for an AppWrapper: no pod
    /// lived while it said that none did, nor when it went; attempts did not overlap; the quota was
    /// held without a gap.
    pub async fn lawful(&self, name: &str) {
        self.until(&format!("no pod of {name} outlives its quota"), |log| {
            log.pods_alive_when_nothing_was_deployed(name).is_empty().then_some(())
        })
        .await;
        let log = self.log();
        attempts_do_not_overlap(&log);
        quota_without_a_gap(&log, name);
    }
}

impl RawObject {
    /// The place of this change among all changes of the cluster.
    pub fn revision(&self) -> u64 {
        let text = self.object["metadata"]["resourceVersion"].as_str().expect("it has a version");
        text.parse().expect("a version is a number")
    }

    /// Number of the attempt that an AppWrapper is in.
    pub fn attempt(&self) -> i64 {
        self.attempts().last().and_then(|last| last["attempt"].as_i64()).unwrap_or(-1)
    }

    /// The recorded attempts.
    pub fn attempts(&self) -> &[Value] {
        self.object["status"]["attempts"].as_array().map_or(&[], Vec::as_slice)
    }

    /// How many restarts were counted.
    pub fn restarts(&self) -> i64 {
        self.object["status"]["resettingCount"].as_i64().unwrap_or(0)
    }

    /// The moment at which a condition took its status.
    pub fn moment(&self, condition: &str) -> Timestamp {
        let text = self.condition_field(condition, "lastTransitionTime");
        text.parse().unwrap_or_else(|_| panic!("{condition} is not there: {}", self.object))
    }

    /// A moment that is written down in the object.
    pub fn moment_at(&self, pointer: &str) -> Timestamp {
        let text = self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        text.parse().unwrap_or_else(|_| panic!("no moment at {pointer}: {}", self.object))
    }
}

/// Seconds from one moment to another.
pub fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    to.as_second() - from.as_second()
}

impl Log {
    /// The first state of an AppWrapper in a phase.
    pub fn first(&self, name: &str, phase: &str) -> &RawObject {
        let mut states = self.of("AppWrapper", name);
        states.find(|seen| seen.phase() == phase).unwrap_or_else(|| panic!("never {phase}"))
    }

    /// Pods of an AppWrapper that lived while it said that nothing was deployed, or after its end.
    fn pods_alive_when_nothing_was_deployed(&self, name: &str) -> Vec<String> {
        let empty: Vec<(&str, u64)> = self
            .of("AppWrapper", name)
            .filter(|seen| seen.deleted || seen.condition("ResourcesDeployed") == "False")
            .map(|seen| (seen.uid(), seen.revision()))
            .collect();
        let mut pods: Vec<(&RawObject, Option<u64>)> = vec![];
        for seen in self.all("Pod") {
            let end = seen.deleted.then(|| seen.revision());
            match pods.iter_mut().find(|(first, _)| first.uid() == seen.uid()) {
                Some((_, gone)) => *gone = end,
                None => pods.push((seen, end)),
            }
        }
        let lived = |pod: &RawObject, end: Option<u64>| {
            empty.iter().any(|(uid, at)| {
                pod.object["metadata"]["labels"][UID_LABEL] == *uid
                    && pod.revision() < *at
                    && end.is_none_or(|end| end > *at)
            })
        };
        let guilty = pods.into_iter().filter(|(pod, end)| lived(pod, *end));
        guilty.map(|(pod, _)| pod.name.clone()).collect()
    }
}
