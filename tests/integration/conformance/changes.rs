//! Changes of objects.

use serde_json::{Value, json};

use super::generate::{Generator, TEAMS};
use super::kinds::Kind;

impl Generator {
    pub(super) fn finalizers(&mut self) -> Value {
        self.random
            .of(&[
                &["example.com/hold"][..],
                &["example.com/hold"],
                &["example.com/hold", "example.com/other"],
                &["example.com/other"],
                &[],
            ])
            .into()
    }

    /// References to objects that stand before this one, so that there is no circle.
    pub(super) fn owners(&mut self, at: usize) -> Value {
        let mut owners = vec![];
        let candidates: Vec<(&'static Kind, String)> =
            self.targets[..at].iter().filter(|(kind, _)| !kind.is_unbound()).cloned().collect();
        for (place, (kind, name)) in candidates.iter().enumerate() {
            if self.random.percent(60) {
                let mut owner = json!({
                    "apiVersion": kind.api_version, "kind": kind.kind, "name": name,
                    "uid": format!("$uid:{}/{name}", kind.plural),
                });
                if self.foreground || self.random.percent(50) {
                    owner["blockOwnerDeletion"] = true.into();
                }
                if place == 0 && self.random.percent(50) {
                    owner["controller"] = true.into();
                }
                owners.push(owner);
            }
        }
        if self.random.percent(10) {
            owners.push(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": "absent",
                "uid": "22222222-2222-4222-8222-222222222222",
            }));
        }
        owners.into()
    }

    /// A change of what a kind has besides metadata.
    pub(super) fn content(&mut self, kind: &Kind) -> Value {
        let some = self.random.below(3);
        match kind.kind {
            "ConfigMap" => [
                json!({"data": {"k": "2"}}),
                json!({"data": {"k": null, "l": "1"}}),
                json!({"data": {"k": "1"}}),
            ][some]
                .clone(),
            "Lease" => [
                json!({"spec": {"holderIdentity": "b"}}),
                json!({"spec": {"leaseDurationSeconds": 7}}),
                json!({"spec": {"holderIdentity": "a"}}),
            ][some]
                .clone(),
            "Job" => [
                json!({"spec": {"parallelism": 2}}),
                json!({"spec": {"suspend": false}}),
                json!({"spec": {"backoffLimit": 3}}),
            ][some]
                .clone(),
            "AppWrapper" => self.wrapper_content(),
            _ => json!({"metadata": {"annotations": {"pods": "have little to change"}}}),
        }
    }

    fn wrapper_content(&mut self) -> Value {
        let template = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {"a": "b"}},
            "anything": {"goes": [1, {"here": true}]},
        });
        match self.random.below(9) {
            0 => json!({"spec": {"suspend": true}}),
            1 => json!({"spec": {"suspend": false}}),
            2 => json!({"spec": {"suspend": null, "unknown": {"x": 1}}}),
            3 => json!({"spec": {"managedBy": "example.com/somebody"}}),
            4 => json!({"spec": {"components": [{"template": template}]}}),
            5 => json!({"spec": {"components": [
                {"template": template, "unknown": 1, "podSets": [{"path": "x", "also": 1}]}]}}),
            6 => json!({"spec": {"components": [
                {"template": template, "podSetInfos": [{"tolerations": [{"key": "a", "x": 1}]}]}]}}),
            7 => json!({"spec": {"failurePolicy": {"maxRestarts": 3, "rules": []}}}),
            _ => json!({"unknown": 1, "spec": {"components": []}}),
        }
    }

    pub(super) fn status(&mut self, kind: &Kind) -> Value {
        match kind.kind {
            "Pod" => {
                json!({"phase": self.random.of(&["Pending", "Running", "Succeeded", "Failed"])})
            }
            "Job" => json!({"active": 1 + self.random.below(3)}),
            "AppWrapper" => [
                json!({"phase": "Running", "resettingCount": 1}),
                json!({"phase": "Suspended", "unknown": 1}),
                json!({"componentStatus": [{"conditions": [], "name": "x"}]}),
                json!({"conditions": [{
                    "type": "A", "status": "True", "reason": "R", "message": "m", "other": 1,
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
                json!({"phase": null}),
            ][self.random.below(5)]
            .clone(),
            _ => json!({"phase": "x"}),
        }
    }

    /// A change of an object's metadata or content.
    pub(super) fn change(&mut self, kind: &'static Kind, name: &str, at: usize) -> Value {
        let mut change = match self.random.below(12) {
            0..2 => json!({"metadata": {"labels": {"team": self.random.of(&TEAMS)}}}),
            2 => json!({"metadata": {"labels": {"team": null}}}),
            3 => json!({"metadata": {"annotations": {"note": self.random.of(&TEAMS)}}}),
            4 => json!({"metadata": {"annotations": null}}),
            5..7 if !kind.is_unbound() => {
                let finalizers = self.finalizers();
                json!({"metadata": {"finalizers": finalizers}})
            }
            7 => json!({"metadata": {"ownerReferences": self.owners(at)}}),
            8 if kind.status => json!({"status": self.status(kind)}),
            9 => [
                json!({}),
                json!({"metadata": {"generation": 9}}),
                json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}),
                json!({"metadata": {"deletionTimestamp": null, "deletionGracePeriodSeconds": 1}}),
                json!({"metadata": {"name": "other"}}),
                json!({"metadata": {"namespace": "other"}}),
            ][self.random.below(6)]
            .clone(),
            _ => self.content(kind),
        };
        self.guard(&mut change, kind, name);
        change
    }

    /// Adds what an object is expected to be.
    pub(super) fn guard(&mut self, change: &mut Value, kind: &Kind, name: &str) {
        let guard = match self.random.below(16) {
            0 => ("resourceVersion", format!("$stale:{}/{name}", kind.plural)),
            1..4 => ("resourceVersion", format!("$version:{}/{name}", kind.plural)),
            4 => ("uid", "33333333-3333-4333-8333-333333333333".to_owned()),
            5 => ("uid", format!("$uid:{}/{name}", kind.plural)),
            _ => return,
        };
        merge(change, &json!({"metadata": {guard.0: guard.1}}));
    }
}

/// Merges a change into an object, as a merge patch does, but keeps its nulls: for a change of a change.
pub fn merge(target: &mut Value, change: &Value) {
    match (target, change) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(fields.entry(key).or_insert(Value::Null), change);
            }
        }
        (target, change) => *target = change.clone(),
    }
}

/// Merges a change into an object; a null removes.
pub fn apply(target: &mut Value, change: &Value) {
    match (target, change) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (key, change) in changes {
                if change.is_null() {
                    fields.remove(key);
                } else {
                    apply(fields.entry(key).or_insert(Value::Null), change);
                }
            }
        }
        (target, change) => *target = change.clone(),
    }
}
