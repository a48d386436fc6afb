//! The manifest from which an AppWrapper is recreated.

use serde_json::{Map, Value, json};

use crate::tuning::names;

/// What a manifest keeps of the metadata; the rest belongs to the API server or to the old object alone.
/// `kubectl apply` goes on from its annotation `last-applied-configuration`, so that stays, too.
const METADATA: [&str; 5] = ["name", "namespace", "labels", "annotations", "ownerReferences"];

/// How many characters of a UID tell two AppWrappers apart.
const UID_CHARS: usize = 8;

/// The AppWrapper without status, finalizers, UID and other fields of the old object. Where Kueue admits
/// it, it begins suspended, and without what Kueue put in when it was admitted. The requester is whoever
/// recreates it.
pub(super) fn manifest(stored: &Value, queued: bool) -> Value {
    let metadata: Map<String, Value> = METADATA
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), stored["metadata"].get(*field)?.clone())))
        .collect();
    let mut spec = stored["spec"].clone();
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("requester");
    }
    if queued && let Some(fields) = spec.as_object_mut() {
        fields.insert("suspend".to_owned(), true.into());
        let components = fields.get_mut("components").and_then(Value::as_array_mut);
        for component in components.into_iter().flatten().filter_map(Value::as_object_mut) {
            component.remove("podSetInfos");
        }
    }
    json!({
        "apiVersion": stored["apiVersion"],
        "kind": stored["kind"],
        "metadata": metadata,
        "spec": spec,
    })
}

/// The same under a name that nobody has, for a trial while the old one is still there.
pub(super) fn trial(manifest: &Value, uid: &str) -> Value {
    let mark: String = uid.chars().filter(char::is_ascii_alphanumeric).take(UID_CHARS).collect();
    let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
    let room = names::APPWRAPPER_MAX - UID_CHARS - 1;
    let name = &name[..name.floor_char_boundary(room)];
    let mut trial = manifest.clone();
    trial["metadata"]["name"] = format!("{name}-{mark}").into();
    trial
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::keys;

    fn stored() -> Value {
        json!({
            "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
            "metadata": {
                "name": "train", "namespace": "ns", "uid": "0a1b2c3d-4e5f", "resourceVersion": "7",
                "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": [keys::FINALIZER, "other/finalizer"],
                "managedFields": [{"manager": "kubectl"}],
                "labels": {keys::QUEUE_NAME: "gpu", "team": "vision"},
                "annotations": {keys::RETRY_LIMIT: "2", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}],
            },
            "spec": {
                "suspend": false, "unknown": {"kept": true}, "requester": {"username": "ann"},
                "components": [{
                    "podSetInfos": [{"nodeSelector": {"flavor": "a100"}}],
                    "podSets": [{"path": "template", "replicas": 1}],
                    "template": {"kind": "Pod", "podSetInfos": "its own"},
                }],
            },
            "status": {"phase": "Failed"},
        })
    }

    #[test]
    fn what_is_the_users_stays_and_what_is_of_its_life_goes() {
        let queued = manifest(&stored(), true);
        assert_eq!(
            queued,
            json!({
                "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
                "metadata": {
                    "name": "train", "namespace": "ns",
                    "labels": {keys::QUEUE_NAME: "gpu", "team": "vision"},
                    "annotations": {keys::RETRY_LIMIT: "2", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
                    "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}],
                },
                "spec": {
                    "suspend": true, "unknown": {"kept": true},
                    "components": [{
                        "podSets": [{"path": "template", "replicas": 1}],
                        "template": {"kind": "Pod", "podSetInfos": "its own"},
                    }],
                },
            })
        );
        let alone = manifest(&stored(), false);
        let mut kept = stored()["spec"].clone();
        kept.as_object_mut().expect("an object").remove("requester");
        assert_eq!(alone["spec"], kept);
        let mut bare = stored();
        bare["metadata"] = json!({"name": "train"});
        assert_eq!(manifest(&bare, false)["metadata"], json!({"name": "train"}));
    }

    #[test]
    fn a_trial_has_a_name_of_its_own_that_fits() {
        let name = |name: &str| {
            let mut manifest = manifest(&stored(), true);
            manifest["metadata"]["name"] = name.into();
            trial(&manifest, "0a1b2c3d-4e5f")["metadata"]["name"].as_str().unwrap().to_owned()
        };
        assert_eq!(name("train"), "train-0a1b2c3d");
        let long = name(&"x".repeat(61));
        assert_eq!(long.len(), 61);
        assert!(long.ends_with("-0a1b2c3d"));
    }
}
