//! The object to create: the template, with what the AppWrapper and Kueue add to it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSchedulingGate, Toleration};
use serde_json::{Map, Value, json};

use super::{Error, Path, PathError};
use crate::api::{Component, PodSet, PodSetInfo, keys};

/// API version in our owner references.
pub const OWNER_API_VERSION: &str = "workload.codeflare.dev/v1beta2";
/// Kind in our owner references.
pub const OWNER_KIND: &str = "AppWrapper";

/// What only the API server sets; it is not passed on.
const SERVER_SET: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generateName",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "selfLink",
];

/// Whose object it is, and what marks it.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// Name of the AppWrapper.
    pub appwrapper: &'a str,
    /// UID of the AppWrapper.
    pub uid: &'a str,
    /// The attempt that creates it: 0, 1, 2, …
    pub attempt: i32,
    /// Namespace of the AppWrapper.
    pub namespace: &'a str,
    /// Index of the component in `spec.components`.
    pub component: usize,
    /// Scheduler of the pods that name none.
    pub scheduler_name: Option<&'a str>,
}

impl Stamp<'_> {
    /// The labels of a component's object: AppWrapper, its UID, and the attempt.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (keys::APPWRAPPER.to_owned(), self.appwrapper.to_owned()),
            (keys::APPWRAPPER_UID.to_owned(), self.uid.to_owned()),
            (keys::ATTEMPT.to_owned(), self.attempt.to_string()),
        ])
    }

    /// The labels of the pods of a pod set: those of the object, and the pod set.
    #[must_use]
    pub fn pod_labels(&self, pod_set: usize) -> BTreeMap<String, String> {
        let mut labels = self.labels();
        labels.insert(keys::POD_SET.to_owned(), format!("{}-{pod_set}", self.component));
        labels
    }
}

/// The object to create for a component.
///
/// On the object: our namespace, our labels, our owner reference as the only one, nothing that the
/// API server sets, no `status`. On every pod template: our labels, and what `podSetInfos` of the
/// same index adds. Our labels replace the template's and Kueue's of the same keys, because the
/// controller finds its objects by them; everything else of the template stays as it is.
/// Go: `createComponent`.
///
/// # Errors
/// Where a pod set leads nowhere, a field has another type than Kubernetes', the template names
/// another namespace, or `podSetInfos` and the template have different values for one label,
/// annotation or node selector entry.
pub fn render(
    component: &Component,
    pod_sets: &[PodSet],
    stamp: &Stamp<'_>,
) -> Result<Value, Error> {
    let mut object = component.template.clone();
    stamp_object(&mut object, stamp)?;
    for (index, set) in pod_sets.iter().enumerate() {
        let path: Path = set.path.parse().map_err(|problem: PathError| {
            Error::new(format!("podSets[{index}].path"), &set.path, problem.to_string())
        })?;
        let mut pod = Fields::of(path.get_mut(&mut object)?, set.path.clone())?;
        let mut metadata = pod.object("metadata")?;
        let labels = stamp.pod_labels(index);
        if let Some(info) = component.pod_set_infos.get(index) {
            let source = format!("podSetInfos[{index}]");
            inject_metadata(&mut metadata, info, &labels, &source)?;
            inject_spec(&mut pod.object("spec")?, info, &source)?;
        }
        pod.object("metadata")?.object("labels")?.overwrite(labels);
        if let Some(name) = stamp.scheduler_name {
            let spec = pod.object("spec")?;
            if matches!(spec.map.get("schedulerName"), None | Some(Value::Null))
                || spec.map.get("schedulerName").and_then(Value::as_str) == Some("")
            {
                spec.map.insert("schedulerName".to_owned(), name.into());
            }
        }
    }
    Ok(object)
}

/// Namespace, labels and owner of the object itself.
fn stamp_object(object: &mut Value, stamp: &Stamp<'_>) -> Result<(), Error> {
    let mut object = Fields::of(object, "template".to_owned())?;
    object.map.remove("status");
    let mut metadata = object.object("metadata")?;
    for field in SERVER_SET {
        metadata.map.remove(field);
    }
    let here = stamp.namespace;
    match metadata.map.get("namespace") {
        None | Some(Value::Null) => {}
        Some(Value::String(name)) if name.is_empty() || name == here => {}
        Some(other) => {
            return Err(Error::found("template.metadata.namespace", other, format!("{here:?}")));
        }
    }
    metadata.map.insert("namespace".to_owned(), here.into());
    metadata.map.insert(
        "ownerReferences".to_owned(),
        json!([{
            "apiVersion": OWNER_API_VERSION,
            "kind": OWNER_KIND,
            "name": stamp.appwrapper,
            "uid": stamp.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }]),
    );
    metadata.object("labels")?.overwrite(stamp.labels());
    Ok(())
}

/// Labels and annotations of a pod set info, except the labels that we set ourselves.
fn inject_metadata(
    metadata: &mut Fields<'_>,
    info: &PodSetInfo,
    ours: &BTreeMap<String, String>,
    source: &str,
) -> Result<(), Error> {
    let mut labels = info.labels.clone();
    labels.retain(|key, _| !ours.contains_key(key));
    metadata.merge("labels", &labels, source)?;
    metadata.merge("annotations", &info.annotations, source)
}

/// Node selector, tolerations and scheduling gates of a pod set info.
fn inject_spec(spec: &mut Fields<'_>, info: &PodSetInfo, source: &str) -> Result<(), Error> {
    spec.merge("nodeSelector", &info.node_selector, source)?;
    if !info.tolerations.is_empty() {
        let additions: Vec<Value> = info.tolerations.iter().map(toleration).collect();
        spec.array("tolerations")?.extend(additions);
    }
    if !info.scheduling_gates.is_empty() {
        let gates = spec.array("schedulingGates")?;
        for PodSchedulingGate { name } in &info.scheduling_gates {
            let name = Value::from(name.as_str());
            if !gates.iter().any(|gate| gate.get("name") == Some(&name)) {
                gates.push(json!({ "name": name }));
            }
        }
    }
    Ok(())
}

/// A toleration as JSON, without the fields that it leaves out.
fn toleration(toleration: &Toleration) -> Value {
    let Toleration { effect, key, operator, toleration_seconds, value } = toleration;
    let texts = [("effect", effect), ("key", key), ("operator", operator), ("value", value)];
    let mut fields: Map<String, Value> = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_owned(), Value::from(text.as_deref()?))))
        .collect();
    if let Some(seconds) = toleration_seconds {
        fields.insert("tolerationSeconds".to_owned(), (*seconds).into());
    }
    Value::Object(fields)
}

/// The fields of an object that is being written, with its path for errors.
struct Fields<'a> {
    map: &'a mut Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    fn of(value: &'a mut Value, path: String) -> Result<Self, Error> {
        match value {
            Value::Object(map) => Ok(Self { map, path }),
            other => Err(Error::found(path, other, "an object")),
        }
    }

    /// The object in a field; an empty one where there is none yet.
    fn object(&mut self, name: &str) -> Result<Fields<'_>, Error> {
        let path = format!("{}.{name}", self.path);
        let value = self.map.entry(name).or_insert(Value::Null);
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        Fields::of(value, path)
    }

    /// The array in a field; an empty one where there is none yet.
    fn array(&mut self, name: &str) -> Result<&mut Vec<Value>, Error> {
        let value = self.map.entry(name).or_insert(Value::Null);
        if value.is_null() {
            *value = Value::Array(Vec::new());
        }
        match value {
            Value::Array(items) => Ok(items),
            other => Err(Error::found(format!("{}.{name}", self.path), other, "an array")),
        }
    }

    /// Adds entries to the map in a field; an entry that is there already must be the same.
    fn merge(
        &mut self,
        name: &str,
        additions: &BTreeMap<String, String>,
        source: &str,
    ) -> Result<(), Error> {
        if additions.is_empty() {
            return Ok(());
        }
        let target = self.object(name)?;
        for (key, value) in additions {
            match target.map.get(key) {
                Some(Value::String(text)) if text != value => {
                    let expected = format!("{text:?}, the value in {}", target.path);
                    return Err(Error::new(format!("{source}.{name}[{key}]"), value, expected));
                }
                Some(Value::String(_)) => {}
                None | Some(Value::Null) => {
                    target.map.insert(key.clone(), value.as_str().into());
                }
                Some(other) => {
                    return Err(Error::found(format!("{}[{key}]", target.path), other, "a string"));
                }
            }
        }
        Ok(())
    }

    /// Sets entries, whatever was there.
    fn overwrite(&mut self, entries: BTreeMap<String, String>) {
        self.map.extend(entries.into_iter().map(|(key, value)| (key, value.into())));
    }
}
