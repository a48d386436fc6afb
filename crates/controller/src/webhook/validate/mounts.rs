//! Steps of an execution policy in which pods wait for an object that a later step creates.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::component::Judged;
use super::finding::Findings;
use crate::kinds;

/// A kind of objects that pods mount, and a name.
type Object = (&'static str, String);

/// Warns of pods that use an object of a later step. `steps` has the step of each component.
pub(super) fn check(
    components: &[Value],
    judged: &[Judged],
    steps: &[usize],
    report: &mut Findings,
) {
    let mut created: BTreeMap<Object, usize> = BTreeMap::new();
    for (each, step) in judged.iter().zip(steps) {
        let kind = ["ConfigMap", "Secret", "PersistentVolumeClaim"]
            .into_iter()
            .find(|kind| *kind == each.kind && each.api_version == "v1");
        if let Some(kind) = kind {
            created.insert((kind, each.name.clone()), *step);
        }
    }
    if created.is_empty() {
        return;
    }
    let all = components.iter().zip(judged).zip(steps).enumerate();
    for (i, ((raw, each), step)) in all {
        let mut told = BTreeSet::new();
        for path in each.pods.keys() {
            let Some(pod) = pod_template(&raw["template"], path) else { continue };
            for (kind, name) in used(&pod["spec"]) {
                let object = (kind, name.to_owned());
                if created.get(&object).is_some_and(|later| later > step) && told.insert(object) {
                    let message = format!(
                        "{} never starts: its pods need {kind}/{name}, which a later step creates",
                        each.title()
                    );
                    report.doubtful(format!("spec.components[{i}].{path}.spec"), None, message);
                }
            }
        }
    }
}

fn pod_template<'a>(template: &'a Value, path: &str) -> Option<&'a Value> {
    kinds::pod_template(template, &path.parse().ok()?).ok()
}

/// The objects without which the containers of a pod do not start.
fn used(spec: &Value) -> Vec<(&'static str, &str)> {
    let mut used = vec![];
    for volume in items(spec, "volumes") {
        used.extend(needed("ConfigMap", &volume["configMap"], "name"));
        used.extend(needed("Secret", &volume["secret"], "secretName"));
        used.extend(needed("PersistentVolumeClaim", &volume["persistentVolumeClaim"], "claimName"));
        for source in items(&volume["projected"], "sources") {
            used.extend(needed("ConfigMap", &source["configMap"], "name"));
            used.extend(needed("Secret", &source["secret"], "name"));
        }
    }
    for container in items(spec, "containers").iter().chain(items(spec, "initContainers")) {
        for source in items(container, "envFrom") {
            used.extend(needed("ConfigMap", &source["configMapRef"], "name"));
            used.extend(needed("Secret", &source["secretRef"], "name"));
        }
        for variable in items(container, "env") {
            let source = &variable["valueFrom"];
            used.extend(needed("ConfigMap", &source["configMapKeyRef"], "name"));
            used.extend(needed("Secret", &source["secretKeyRef"], "name"));
        }
    }
    used
}

/// An object that is named, unless the pod also starts without it.
fn needed<'a>(
    kind: &'static str,
    source: &'a Value,
    field: &str,
) -> Option<(&'static str, &'a str)> {
    let name = source[field].as_str().filter(|name| !name.is_empty())?;
    (source["optional"] != Value::Bool(true)).then_some((kind, name))
}

fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map(Vec::as_slice).unwrap_or_default()
}
