//! The ordinary manifests of an AppWrapper. Pure.

use serde_json::{Map, Value};

use super::super::bundle::Document;
use super::pack::{KUEUE_LABELS, has_pods};

/// The objects that an AppWrapper would create, in order: in its namespace, and those with pods in its queue.
///
/// # Errors
/// It is none, or has something else in the place of a template.
pub(super) fn unpack(document: &Document) -> Result<Vec<Value>, String> {
    let place = || format!("{}: {}", document.origin, document.title());
    if !document.is_ours("AppWrapper") {
        return Err(format!("{}: is not an AppWrapper", place()));
    }
    let metadata = &document.value["metadata"];
    let components = document.value["spec"]["components"].as_array();
    let components =
        components.ok_or_else(|| format!("{}: spec.components: must be a list", place()))?;
    let object = |(index, component): (usize, &Value)| {
        let mut object = component["template"].clone();
        let declares = component["podSets"].as_array().is_some_and(|sets| !sets.is_empty());
        let has_pods = declares || has_pods(&object);
        let field = format!("spec.components[{index}].template");
        let fields = object.as_object_mut();
        let fields = fields.ok_or_else(|| format!("{}: {field}: must be an object", place()))?;
        let own = fields.entry("metadata").or_insert_with(|| Map::new().into());
        let own = own.as_object_mut();
        let own = own.ok_or_else(|| format!("{}: {field}.metadata: must be an object", place()))?;
        if let Some(namespace) = metadata.get("namespace") {
            own.entry("namespace").or_insert_with(|| namespace.clone());
        }
        let labels =
            KUEUE_LABELS.iter().filter_map(|key| Some((*key, metadata["labels"].get(key)?)));
        for (key, value) in labels.filter(|_| has_pods) {
            let labels = own.entry("labels").or_insert_with(|| Map::new().into());
            if let Some(labels) = labels.as_object_mut() {
                labels.entry(key).or_insert_with(|| value.clone());
            }
        }
        Ok(object)
    };
    components.iter().enumerate().map(object).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::pack::{WrapOptions, pack};
    use super::super::tests::read;
    use super::*;
    use crate::cli::bundle::Origin;

    fn of(value: Value) -> Document {
        let origin = Origin { file: "f".into(), document: None, line: None, path: String::new() };
        Document { origin, value }
    }

    #[test]
    fn unwrapping_gives_back_what_was_wrapped() {
        let yaml = "
apiVersion: v1
kind: Service
metadata: {name: head, namespace: team}
spec: {clusterIP: None}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: team, labels: {kueue.x-k8s.io/queue-name: gpu, kueue.x-k8s.io/priority-class: high, a: b}}
spec:
  replicatedJobs:
  - name: workers
    replicas: 2
    template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
";
        let documents = read(yaml);
        let wrapped = pack(&documents, &WrapOptions::default()).unwrap().manifest;
        let given: Vec<Value> = documents.into_iter().map(|document| document.value).collect();
        let back = unpack(&of(wrapped.clone())).unwrap();
        assert_eq!(back, given);
        let again: Vec<Document> = back.into_iter().map(of).collect();
        let name = wrapped["metadata"]["name"].as_str().map(str::to_owned);
        let again = pack(&again, &WrapOptions { name, ..WrapOptions::default() }).unwrap().manifest;
        assert_eq!(again, wrapped);
    }

    #[test]
    fn a_queue_is_given_to_what_has_pods_alone() {
        let wrapper = |component: Value| {
            of(json!({
                "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
                "metadata": {"name": "a", "labels": {"kueue.x-k8s.io/queue-name": "gpu"}},
                "spec": {"components": [component]},
            }))
        };
        let thing =
            json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}});
        let declared = json!({"template": thing, "podSets": [{"path": "template.spec"}]});
        let labels =
            |document: &Document| unpack(document).unwrap()[0]["metadata"]["labels"].clone();
        assert_eq!(labels(&wrapper(declared)), json!({"kueue.x-k8s.io/queue-name": "gpu"}));
        assert_eq!(labels(&wrapper(json!({"template": thing}))), Value::Null);
    }

    #[test]
    fn what_is_no_appwrapper_is_named() {
        let broken = |spec: Value| {
            of(
                json!({"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "spec": spec}),
            )
        };
        for (document, want) in [
            (of(json!({"apiVersion": "v1", "kind": "Pod"})), "is not an AppWrapper"),
            (broken(json!({})), "spec.components: must be a list"),
            (broken(json!({"components": [{}]})), "spec.components[0].template: must be an object"),
            (
                broken(json!({"components": [{"template": {"metadata": 1}}]})),
                "spec.components[0].template.metadata: must be an object",
            ),
        ] {
            let error = unpack(&document).unwrap_err();
            assert!(error.ends_with(want), "{error}");
        }
    }
}
