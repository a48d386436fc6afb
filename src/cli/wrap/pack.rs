//! One AppWrapper of ordinary manifests. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::super::bundle::{self, Document};
use super::added::{self, remove_entry};
use crate::api::{GROUP, keys};
use crate::kinds::{self, Kind};
use crate::tuning::shortened;

/// What the API server or another owner has put into the metadata of an object that was read from a cluster.
const SERVER_SET: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "ownerReferences",
];

/// Groups of kinds of Kubernetes itself that have no pods, whatever their version.
const WITHOUT_PODS: [&str; 5] =
    ["", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io"];

/// Groups and kinds of objects that are in no namespace.
const CLUSTER_SCOPED: [(&str, &str); 22] = [
    ("", "Namespace"),
    ("", "Node"),
    ("", "PersistentVolume"),
    ("networking.k8s.io", "IngressClass"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("resource.k8s.io", "DeviceClass"),
    ("resource.k8s.io", "ResourceSlice"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "StorageClass"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    (keys::KUEUE_GROUP, "AdmissionCheck"),
    (keys::KUEUE_GROUP, "ClusterQueue"),
    (keys::KUEUE_GROUP, "Cohort"),
    (keys::KUEUE_GROUP, "MultiKueueCluster"),
    (keys::KUEUE_GROUP, "MultiKueueConfig"),
    (keys::KUEUE_GROUP, "ResourceFlavor"),
    (keys::KUEUE_GROUP, "Topology"),
    (keys::KUEUE_GROUP, "WorkloadPriorityClass"),
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"),
];

/// Kinds without pods that the controller may create by default.
const CREATED: [&str; 2] = ["Service", "ConfigMap"];

/// Labels by which Kueue admits an object alone; an AppWrapper has them for all of its components.
pub(super) const KUEUE_LABELS: [&str; 3] = [keys::QUEUE_NAME, PRIORITY_CLASS, MAX_EXEC_TIME];

/// The `WorkloadPriorityClass` of an object.
const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";
/// The maximum execution time, which Kueue reads of the object that has the Workload.
const MAX_EXEC_TIME: &str = "kueue.x-k8s.io/max-exec-time-seconds";

/// What the user asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct WrapOptions {
    pub name: Option<String>,
    pub namespace: Option<String>,
    pub queue: Option<String>,
}

/// An AppWrapper, and what is worth knowing about it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Packed {
    pub manifest: Value,
    pub notes: Vec<String>,
}

/// Takes out the objects that another of them creates, which would otherwise exist twice, such as the pods of a Job
/// in a dump of a namespace. Returns a note for each that creates others, and for each that has created some and is
/// not among them.
pub(super) fn without_created(documents: Vec<Document>) -> (Vec<Document>, Vec<String>) {
    let uid = |document: &Document| document.text("/metadata/uid").to_owned();
    let titles = documents.iter().map(|document| (uid(document), document.title()));
    let titles: BTreeMap<String, String> = titles.filter(|(uid, _)| !uid.is_empty()).collect();
    let mut kept: Vec<Document> = vec![];
    let mut left_out: BTreeMap<&String, Vec<Document>> = BTreeMap::new();
    // by an object that is not among them: the index in what is kept
    let mut elsewhere: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for document in documents {
        let owners = document.value["metadata"]["ownerReferences"].as_array();
        let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
        let by = controller.and_then(|owner| titles.get(owner["uid"].as_str()?));
        if let Some(by) = by {
            left_out.entry(by).or_default().push(document);
            continue;
        }
        if let Some(owner) = controller {
            let text = |field: &str| shortened(owner[field].as_str().unwrap_or_default());
            let by = format!("{}/{}", text("kind"), text("name"));
            elsewhere.entry(by).or_default().push(kept.len());
        }
        kept.push(document);
    }
    let mut notes = vec![];
    for (by, created) in &left_out {
        let (are, them) = if created.len() == 1 { ("is", "it") } else { ("are", "them") };
        let named = bundle::named(created);
        notes.push(format!("{named} {are} left out: {by} creates {them}"));
    }
    for (by, created) in &elsewhere {
        let them = if created.len() == 1 { "it" } else { "them" };
        let named = bundle::named(created.iter().filter_map(|index| kept.get(*index)));
        notes.push(format!(
            "{named}: {by} created {them} and is not among the objects; leave {them} out if one of the objects \
             creates {by}"
        ));
    }
    (kept, notes)
}

/// Makes one AppWrapper of objects, in their order.
///
/// # Errors
/// What has to be decided first, and by whom.
pub(super) fn pack(documents: &[Document], options: &WrapOptions) -> Result<Packed, String> {
    if let Some(why) = documents.iter().find_map(not_wrapped) {
        return Err(why);
    }
    let mut notes = vec![];
    let namespace = agreed(
        documents,
        |document| document.text("/metadata/namespace"),
        options.namespace.as_deref(),
        "namespace",
        "--namespace",
    )?;
    let mut labels = Map::new();
    for (key, chosen, option) in [
        (keys::QUEUE_NAME, options.queue.as_deref(), "--queue"),
        (PRIORITY_CLASS, None, "one of them"),
        (MAX_EXEC_TIME, None, "one of them"),
    ] {
        let of = |document: &Document| label(&document.value, key).to_owned();
        let found = documents.iter().map(of).filter(|value| !value.is_empty());
        if let Some(chosen) = chosen {
            let replaced: BTreeSet<String> = found.filter(|value| value != chosen).collect();
            let replaced = replaced.iter().map(|it| shortened(it)).collect::<Vec<_>>().join(", ");
            if !replaced.is_empty() {
                notes.push(format!(
                    "{option} {chosen} replaces the queue of the manifests: {replaced}"
                ));
            }
            labels.insert(key.to_owned(), chosen.into());
        } else if let Some(value) =
            agreed(documents, |document| label(&document.value, key), None, key, option)?
        {
            labels.insert(key.to_owned(), value.into());
        }
    }
    let name =
        options.name.clone().or_else(|| name(documents)).ok_or_else(|| {
            "the name of the AppWrapper: no object has a name; set --name".to_owned()
        })?;
    let components: Vec<Value> = documents
        .iter()
        .map(|document| json!({"template": template(document, &mut notes)}))
        .collect();
    let mut metadata = Map::from_iter([("name".to_owned(), name.into())]);
    if let Some(namespace) = namespace {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), labels.into());
    }
    let manifest = json!({
        "apiVersion": format!("{GROUP}/v1beta2"),
        "kind": "AppWrapper",
        "metadata": metadata,
        "spec": {"components": components},
    });
    Ok(Packed { manifest, notes })
}

/// Why an object cannot be wrapped; none where it can.
fn not_wrapped(document: &Document) -> Option<String> {
    let (group, kind) = (document.group(), document.kind());
    let why = if group == GROUP {
        format!("an object of {GROUP} cannot be wrapped")
    } else if CLUSTER_SCOPED.contains(&(group, kind)) {
        "is cluster-scoped and cannot be wrapped: create it by itself".to_owned()
    } else {
        return None;
    };
    Some(format!("{}: {}: {why}", document.origin, document.title()))
}

/// The one value that the objects that have one agree on, and the user's choice with them.
fn agreed<'a>(
    documents: &'a [Document],
    of: impl Fn(&'a Document) -> &'a str,
    chosen: Option<&'a str>,
    what: &str,
    option: &str,
) -> Result<Option<&'a str>, String> {
    let given = documents.iter().map(|document| (of(document), Some(document)));
    let mut given = chosen.map(|value| (value, None)).into_iter().chain(given);
    let mut given = given.by_ref().filter(|(value, _)| !value.is_empty());
    let Some((first, whose)) = given.next() else { return Ok(None) };
    match given.find(|(value, _)| *value != first) {
        None => Ok(Some(first)),
        Some((other, by)) => {
            let named = |document: Option<&Document>| {
                document.map_or_else(
                    || option.to_owned(),
                    |it| format!("{}: {}", it.origin, it.title()),
                )
            };
            Err(format!(
                "{what}: {:?} ({}) and {:?} ({}) differ: an AppWrapper has one",
                shortened(first),
                named(whose),
                shortened(other),
                named(by)
            ))
        }
    }
}

fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

/// The name of the first object that has pods; else of the first that has a name.
fn name(documents: &[Document]) -> Option<String> {
    let name = |document: &Document| {
        Some(document.text("/metadata/name")).filter(|name| !name.is_empty()).map(str::to_owned)
    };
    let with_pods = documents.iter().filter(|document| has_pods(&document.value));
    with_pods.chain(documents).find_map(name)
}

/// Whether the pods of an object are counted without its author declaring them.
pub(super) fn has_pods(object: &Value) -> bool {
    let reads_them = kinds::reference(object).is_some();
    reads_them || kinds::infer(object).is_ok_and(|pod_sets| !pod_sets.is_empty())
}

/// An object as the template of a component: without what a cluster has added, and without what the AppWrapper has
/// for all of its components.
fn template(document: &Document, notes: &mut Vec<String>) -> Value {
    let mut object = document.value.clone();
    let title = document.title();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("namespace");
        for field in SERVER_SET {
            metadata.remove(field);
        }
        if metadata.remove("finalizers").is_some() {
            notes.push(format!(
                "{title}: metadata.finalizers are left out: they would block its deletion"
            ));
        }
        for label in KUEUE_LABELS {
            remove_entry(metadata, "labels", label);
        }
        remove_entry(metadata, "annotations", "kubectl.kubernetes.io/last-applied-configuration");
    }
    if document.value["metadata"]["uid"].is_string() {
        added::remove(&mut object);
        if added::remove_of_kueue(&mut object) {
            notes.push(format!(
                "{title}: node selectors, tolerations and the annotation podset-unconstrained-topology of its pods \
                 stay, also where Kueue has added them: remove these"
            ));
        }
    }
    let kind = Kind::of_object(&object);
    let has_no_pods = WITHOUT_PODS.contains(&document.group());
    if has_no_pods && !kind.is_known() && !CREATED.contains(&document.kind()) {
        notes.push(format!(
            "{title}: by default, the controller cannot create this kind: see \
             docs/admin/install.md#kinds-that-may-be-wrapped"
        ));
    }
    if kind.is_known() {
        for path in ["/spec", "/spec/runPolicy"] {
            let fields = object.pointer_mut(path).and_then(Value::as_object_mut);
            if let Some(fields) =
                fields.filter(|fields| fields.get("suspend") == Some(&true.into()))
            {
                fields.remove("suspend");
                let path = path.trim_start_matches('/').replace('/', ".");
                notes.push(format!(
                    "{title}: {path}.suspend is left out: nothing would resume it; Kueue suspends the AppWrapper"
                ));
            }
        }
    } else if !has_no_pods {
        notes.push(format!(
            "{title}: the pods of this kind are unknown; if it has any, declare them in podSets of the component"
        ));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;
    use crate::config::Config;
    use crate::webhook::validate;

    const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: team, labels: {kueue.x-k8s.io/queue-name: gpu}}
spec:
  suspend: true
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: i}]}
";
    const CONFIG: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {team: vision}}
data: {a: b}
";

    fn packed(yaml: &str, options: &WrapOptions) -> Result<Packed, String> {
        pack(&read(yaml), options)
    }

    #[test]
    fn objects_become_components_and_what_they_share_becomes_the_appwrappers() {
        let Packed { manifest, notes } =
            packed(&format!("{CONFIG}---{JOB}"), &WrapOptions::default()).unwrap();
        assert_eq!(
            manifest["metadata"],
            json!({"name": "train", "namespace": "team", "labels": {keys::QUEUE_NAME: "gpu"}})
        );
        let template = |index: usize| &manifest["spec"]["components"][index]["template"];
        assert_eq!(
            template(0)["metadata"],
            json!({"name": "settings", "labels": {"team": "vision"}})
        );
        assert_eq!(template(1)["metadata"], json!({"name": "train"}));
        assert_eq!(template(1)["spec"].get("suspend"), None);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with("Job/train: spec.suspend is left out"), "{notes:?}");
        assert_eq!(validate::offline(&manifest, &Config::default()), vec![]);
    }

    #[test]
    fn the_placement_by_a_flavor_is_noted() {
        let mut documents = read(JOB);
        let job = &mut documents[0].value;
        job["metadata"]["uid"] = json!("u");
        let pod = &mut job["spec"]["template"];
        pod["metadata"] = json!({"labels": {"kueue.x-k8s.io/podset": "main"}});
        let unreachable = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}]);
        let annotations = json!({"kueue.x-k8s.io/podset-unconstrained-topology": "true"});
        for (place, added, is_noted) in [
            ("/spec/nodeSelector", json!({"gpu": "h100"}), true),
            ("/spec/tolerations", json!([{"key": "gpu", "operator": "Exists"}]), true),
            ("/spec/tolerations", unreachable, false),
            ("/metadata/annotations", annotations, true),
        ] {
            let mut documents = documents.clone();
            let pod = documents[0].value.pointer_mut("/spec/template").unwrap();
            let (map, field) = place.rsplit_once('/').unwrap();
            pod.pointer_mut(map).unwrap()[field] = added;
            let Packed { manifest, notes } = pack(&documents, &WrapOptions::default()).unwrap();
            let has_note = notes.iter().any(|it| it.ends_with("has added them: remove these"));
            assert_eq!(has_note, is_noted, "{place}: {notes:?}");
            assert_eq!(validate::offline(&manifest, &Config::default()), vec![]);
        }
    }

    #[test]
    fn the_labels_of_kueue_are_those_of_the_appwrapper() {
        let labels = json!({PRIORITY_CLASS: "high", MAX_EXEC_TIME: "3600", "team": "vision"});
        let mut documents = read(&format!("{CONFIG}---{JOB}"));
        documents[1].value["metadata"]["labels"] = labels;
        let Packed { manifest, .. } = pack(&documents, &WrapOptions::default()).unwrap();
        let want = json!({PRIORITY_CLASS: "high", MAX_EXEC_TIME: "3600"});
        assert_eq!(manifest["metadata"]["labels"], want);
        let template = &manifest["spec"]["components"][1]["template"];
        assert_eq!(template["metadata"]["labels"], json!({"team": "vision"}));
        documents[0].value["metadata"]["labels"][MAX_EXEC_TIME] = json!("60");
        let error = pack(&documents, &WrapOptions::default()).unwrap_err();
        assert!(error.starts_with("kueue.x-k8s.io/max-exec-time-seconds: \"60\""), "{error}");
    }

    #[test]
    fn what_a_cluster_added_is_left_out() {
        let mut documents = read(CONFIG);
        documents[0].value["status"] = json!({"x": 1});
        let metadata = documents[0].value["metadata"].as_object_mut().unwrap();
        for field in SERVER_SET {
            metadata.insert(field.to_owned(), json!("x"));
        }
        metadata.insert("finalizers".to_owned(), json!(["a/b"]));
        let applied = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"});
        metadata.insert("annotations".to_owned(), applied);
        let Packed { manifest, notes } = pack(&documents, &WrapOptions::default()).unwrap();
        let clean = packed(CONFIG, &WrapOptions::default()).unwrap();
        assert_eq!(manifest, clean.manifest);
        assert!(notes[0].contains("metadata.finalizers are left out"), "{notes:?}");
        assert_eq!(clean.notes, Vec::<String>::new());
    }

    #[test]
    fn what_another_object_creates_is_left_out() {
        let owned = |kind: &str, name: &str, owner: &str, controller: bool| {
            let owner =
                json!({"kind": "ReplicaSet", "name": "r", "uid": owner, "controller": controller});
            let metadata = json!({"name": name, "uid": name, "ownerReferences": [owner]});
            json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}).to_string()
        };
        let job = r#"{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "uid": "j"}}"#;
        let all = [
            owned("Pod", "a", "j", true),
            job.to_owned(),
            owned("Pod", "b", "elsewhere", true),
            owned("ConfigMap", "c", "j", false),
            owned("Secret", "d", "a", true),
            owned("Pod", "e", "j", true),
        ];
        let (kept, notes) = without_created(read(&all.join("\n---\n")));
        let kept: Vec<String> = kept.iter().map(Document::title).collect();
        assert_eq!(kept, ["Job/train", "Pod/b", "ConfigMap/c"]);
        assert_eq!(
            notes,
            [
                "Pod/a, Pod/e are left out: Job/train creates them",
                "Secret/d is left out: Pod/a creates it",
                "Pod/b: ReplicaSet/r created it and is not among the objects; leave it out if one of the objects \
                 creates ReplicaSet/r",
            ]
        );
    }

    #[test]
    fn what_differs_is_decided_by_the_user() {
        let other = JOB.replace("gpu", "cpu").replace("name: train", "name: eval");
        let both = format!("{JOB}---{other}");
        let options = |queue: Option<&str>, namespace: Option<&str>| WrapOptions {
            queue: queue.map(str::to_owned),
            namespace: namespace.map(str::to_owned),
            name: None,
        };
        let error = packed(&both, &options(None, None)).unwrap_err();
        assert!(error.contains("\"gpu\" (f.yaml, document 1 (line 2): Job/train)"), "{error}");
        assert!(error.contains("\"cpu\" (f.yaml, document 2"), "{error}");
        let Packed { manifest, notes } = packed(&both, &options(Some("big"), None)).unwrap();
        assert_eq!(manifest["metadata"]["labels"][keys::QUEUE_NAME], "big");
        assert!(notes[0].contains("--queue big replaces the queue of the manifests: cpu, gpu"));
        let error = packed(JOB, &options(None, Some("other"))).unwrap_err();
        assert!(error.contains("namespace: \"other\" (--namespace) and \"team\""), "{error}");
        let Packed { manifest, .. } = packed(CONFIG, &options(Some("q"), Some("other"))).unwrap();
        assert_eq!(manifest["metadata"]["namespace"], "other");
        let elsewhere = CONFIG.replace("name: settings", "name: settings, namespace: other");
        assert!(packed(&format!("{JOB}---{elsewhere}"), &options(None, None)).is_err());
    }

    #[test]
    fn the_name_is_that_of_the_first_object_with_pods_or_the_users() {
        for (yaml, name, want) in [
            (format!("{CONFIG}---{JOB}"), None, Ok("train")),
            (CONFIG.to_owned(), None, Ok("settings")),
            (JOB.to_owned(), Some("mine"), Ok("mine")),
            ("kind: ConfigMap\napiVersion: v1\n".to_owned(), None, Err(())),
        ] {
            let options = WrapOptions { name: name.map(str::to_owned), ..WrapOptions::default() };
            let packed = packed(&yaml, &options);
            let name = packed.as_ref().map(|it| it.manifest["metadata"]["name"].as_str().unwrap());
            assert_eq!(name.map_err(|_| ()), want, "{yaml}");
        }
    }

    #[test]
    fn a_kind_that_the_controller_may_not_create_is_noted() {
        for (kind, noted) in [
            ("Secret", true),
            ("PersistentVolumeClaim", true),
            ("ConfigMap", false),
            ("Service", false),
        ] {
            let other = format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\n---{JOB}");
            let Packed { notes, .. } = packed(&other, &WrapOptions::default()).unwrap();
            let want =
                format!("{kind}/a: by default, the controller cannot create this kind: see docs/");
            assert_eq!(notes.iter().any(|note| note.starts_with(&want)), noted, "{notes:?}");
        }
    }

    #[test]
    fn an_appwrapper_is_not_wrapped_and_an_unknown_kind_is_noted() {
        let ours =
            "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {name: a}";
        assert!(packed(ours, &WrapOptions::default()).unwrap_err().contains("cannot be wrapped"));
        for (version, kind, is_refused) in [
            ("v1", "Namespace", true),
            ("storage.k8s.io/v1", "StorageClass", true),
            ("kueue.x-k8s.io/v1beta1", "ClusterQueue", true),
            ("kueue.x-k8s.io/v1beta1", "ResourceFlavor", true),
            ("kueue.x-k8s.io/v1beta2", "Cohort", true),
            ("kueue.x-k8s.io/v1beta1", "MultiKueueCluster", true),
            ("kueue.x-k8s.io/v1beta1", "MultiKueueConfig", true),
            ("kueue.x-k8s.io/v1beta1", "LocalQueue", false),
            ("networking.k8s.io/v1", "IngressClass", true),
            ("networking.k8s.io/v1", "Ingress", false),
            ("resource.k8s.io/v1", "DeviceClass", true),
            ("resource.k8s.io/v1", "ResourceSlice", true),
            ("resource.k8s.io/v1", "ResourceClaim", false),
            ("storage.k8s.io/v1", "CSIDriver", true),
            ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", true),
            ("example.com/v1", "Namespace", false),
        ] {
            let other = format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}");
            let said = packed(&format!("{other}\n---{JOB}"), &WrapOptions::default()).err();
            let why = "is cluster-scoped and cannot be wrapped: create it by itself";
            let want = is_refused.then(|| format!("f.yaml, document 1: {kind}/a: {why}"));
            assert_eq!(said, want, "{version}");
        }
        let unknown = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}";
        let Packed { notes, .. } = packed(unknown, &WrapOptions::default()).unwrap();
        assert!(notes[0].contains("declare them in podSets"), "{notes:?}");
    }
}
