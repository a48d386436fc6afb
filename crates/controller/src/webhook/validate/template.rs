//! What a template may hold: one object that the user could create alone, and nothing of ours.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::component::{POD_SETS_MAX, ValidationContext};
use super::finding::{Findings, text};
use super::{Occasion, amounts, object as objects, object_name, pod_spec, size};
use crate::api::{GROUP, PodSet, keys};
use crate::config::AllowedKind;
use crate::kinds::{self, Kind, Uncounted};
use crate::price::{
    CONTAINERS_MAX, NODE_REQUIREMENTS_MAX, NODE_TERMS_MAX, TOLERATIONS_MAX, pending_bytes,
};
use crate::tuning::{KEYS, names, shortened};

/// Labels that the controller sets and finds its objects by.
const OURS: [&str; 4] = [keys::APPWRAPPER, keys::APPWRAPPER_UID, keys::ATTEMPT, keys::POD_SET];

/// What the API server sets, or what would tie the object to another owner.
const FORBIDDEN: [(&str, &str); 11] = [
    ("generateName", "must be left out: the object requires a fixed name"),
    ("ownerReferences", "must be left out: the AppWrapper becomes the owner"),
    ("finalizers", "must be left out: they would block the deletion of the object"),
    ("uid", SERVER_SET),
    ("resourceVersion", SERVER_SET),
    ("generation", SERVER_SET),
    ("creationTimestamp", SERVER_SET),
    ("deletionTimestamp", SERVER_SET),
    ("deletionGracePeriodSeconds", SERVER_SET),
    ("managedFields", SERVER_SET),
    ("selfLink", SERVER_SET),
];

/// What Kueue itself writes into the pod templates of what it admits: another value in a template would be a conflict, and
/// the last one has Kueue gate the pods until their parent ungates them, which an AppWrapper never does.
const SET_BY_KUEUE: [(&str, &str); 3] = [
    ("labels", "kueue.x-k8s.io/podset"),
    ("annotations", "kueue.x-k8s.io/workload"),
    ("annotations", "kueue.x-k8s.io/pod-suspending-parent"),
];

/// Groups whose kinds have a webhook of Kueue that checks their pod templates, beside Jobs and most kinds of `kubeflow.org`.
const CHECKED_GROUPS: [&str; 5] = [
    "jobset.x-k8s.io",
    "leaderworkerset.x-k8s.io",
    "ray.io",
    "sparkoperator.k8s.io",
    "trainer.kubeflow.org",
];

/// Annotation by which Kueue gates the pods of a Job, a RayService or a RayCluster, also of one that a RayJob has created;
/// it removes the gate from those of its own elastic Workloads only. Source: Kueue 0.19, `job_webhook.go` and `elastic_job_ungater.go`.
const ELASTIC: &str = "kueue.x-k8s.io/elastic-job";

/// The most resources that a message names.
const UNCOUNTED_SHOWN_MAX: usize = 3;

const SERVER_SET: &str = "must be left out: the API server sets it";

/// API group of an `apiVersion`; empty for the core group.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Checks a template, pods apart.
pub(super) fn check(
    object: &Value,
    path: &str,
    around: &ValidationContext<'_>,
    occasion: Occasion,
    report: &mut Findings,
) {
    if !object.is_object() {
        return;
    }
    kind(object, path, around, report);
    nested(object, path, report);
    size::annotations(&object["metadata"], &format!("{path}.metadata"), report);
    if has(object, "status") {
        let field = format!("{path}.status");
        report.invalid(field, text(&object["status"]), SERVER_SET);
    }
    let metadata = &object["metadata"];
    if !metadata.is_object() {
        let field = format!("{path}.metadata");
        return report.invalid(field, text(metadata), "must be an object with a name");
    }
    let path = format!("{path}.metadata");
    object_name::check(object, &format!("{path}.name"), occasion, report);
    for (field, message) in FORBIDDEN {
        if has(metadata, field) {
            report.invalid(format!("{path}.{field}"), text(&metadata[field]), message);
        }
    }
    namespace(&metadata["namespace"], &format!("{path}.namespace"), around, report);
    labels(metadata, &path, report);
    misplaced(metadata, &path, report);
    queue(&metadata["labels"][keys::QUEUE_NAME], &path, around, occasion, report);
    if occasion != Occasion::Stored {
        objects::keys_and_values(metadata, &path, report);
    }
    if is_new_for_kueue(around, occasion)
        && is_gated_if_elastic(object)
        && metadata["annotations"][ELASTIC] == "true"
    {
        let message = "must be left out: Kueue gates the pods, and removes the gate only from jobs that it admits by \
                       themselves";
        report.invalid(format!("{path}.annotations[{ELASTIC}]"), "true", message);
    }
}

/// Whether an AppWrapper is to be created with a queue. What is wrong for Kueue in a stored one, or in the copy of one, is
/// there already.
fn is_new_for_kueue(around: &ValidationContext<'_>, occasion: Occasion) -> bool {
    around.queue.is_some() && !around.is_copy && occasion != Occasion::Stored
}

/// Whether Kueue's webhook gates the pods of a kind that has the annotation [`ELASTIC`].
fn is_gated_if_elastic(object: &Value) -> bool {
    match (group(api_version(object)), object["kind"].as_str()) {
        ("batch", Some("Job")) => true,
        ("ray.io", Some(kind)) => ["RayCluster", "RayJob", "RayService"].contains(&kind),
        _ => false,
    }
}

/// Whether Kueue has a webhook that checks the topology of the pod templates of a kind.
fn has_webhook_of_kueue(object: &Value) -> bool {
    match (group(api_version(object)), object["kind"].as_str()) {
        ("batch", kind) => kind == Some("Job"),
        ("kubeflow.org", kind) => {
            kind != Some("MPIJob") || api_version(object).ends_with("v2beta1")
        }
        (group, _) => CHECKED_GROUPS.contains(&group),
    }
}

pub(super) fn api_version(object: &Value) -> &str {
    object["apiVersion"].as_str().unwrap_or_default()
}

/// What is known of the pod templates of a component.
#[derive(Debug, Default)]
pub(super) struct Pods {
    /// Each of them, by the path of its pod set.
    pub(super) by_path: BTreeMap<String, PodTemplate>,
    /// Bytes of the memory that can be pending in one of them.
    pub(super) pending: usize,
}

/// What policies ask of a pod template.
#[derive(Debug, Default)]
pub(super) struct PodTemplate {
    /// Names of its containers.
    pub(super) containers: BTreeSet<String>,
    /// The kubelet restarts a container that failed: `restartPolicy` is `OnFailure`.
    pub(super) restarts_containers: bool,
}

/// Checks the pod templates of a component, those that are declared and those that its kind
/// implies.
pub(super) fn check_pods(
    object: &Value,
    component: &str,
    declared: &[PodSet],
    around: &ValidationContext<'_>,
    occasion: Occasion,
    report: &mut Findings,
) -> Pods {
    // where there is something wrong with the pod sets, that is reported by who inspects them
    let inferred = kinds::infer(object).unwrap_or_default();
    let paths: BTreeSet<&str> =
        inferred.iter().chain(declared).map(|set| set.path.as_str()).collect();
    let is_few = paths.len() <= POD_SETS_MAX;
    let is_job = object["apiVersion"] == "batch/v1" && object["kind"] == "Job";
    let mut pods = Pods::default();
    for text_of_path in paths {
        let Ok(path) = text_of_path.parse::<kinds::Path>() else { continue };
        let Ok(pod) = kinds::pod_template(object, &path) else { continue };
        let metadata = format!("{component}.{text_of_path}.metadata");
        labels(&pod["metadata"], &metadata, report);
        misplaced(&pod["metadata"], &metadata, report);
        size::annotations(&pod["metadata"], &metadata, report);
        if is_new_for_kueue(around, occasion) {
            let most = inferred.iter().find(|set| is_job && set.path == text_of_path);
            let most = most.map(PodSet::count);
            let checks = has_webhook_of_kueue(object);
            super::topology::check(&pod["metadata"], &metadata, most, checks, report);
            set_by_kueue(&pod["metadata"], &metadata, report);
        }
        let spec = &pod["spec"];
        let field = format!("{component}.{text_of_path}.spec");
        if has(spec, "nodeName") {
            let message = "must be left out: it bypasses the scheduler and the quota";
            report.invalid(format!("{field}.nodeName"), text(&spec["nodeName"]), message);
        }
        if around.queue.is_some() || occasion != Occasion::Stored {
            amounts::check(spec, &field, report);
        }
        if around.queue.is_some() {
            let sets = inferred.iter().chain(declared).filter(|set| set.path == text_of_path);
            let count = sets.map(PodSet::count).max().unwrap_or_default();
            amounts::uncountable(spec, count, &field, report);
            uncounted(spec, &field, report);
        }
        let items = |list: &str| spec[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let all = || items("containers").iter().chain(items("initContainers"));
        let names = || all().map(|item| item["name"].as_str().unwrap_or_default());
        pods.pending = pods.pending.max(pending_bytes(names()));
        let restart = restart_policy(object, text_of_path, spec);
        let template = PodTemplate {
            containers: names().filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            restarts_containers: restart == Some("OnFailure"),
        };
        pods.by_path.insert(text_of_path.to_owned(), template);
        if occasion != Occasion::Stored {
            objects::keys_and_values(&pod["metadata"], &metadata, report);
            counts(spec, &field, all().count(), report);
            // more of them are too many
            if is_few {
                pod_spec::check(spec, &field, around.queue.is_some(), report);
            }
        }
    }
    pods
}

/// The `restartPolicy` of the pods of a pod set. That of a Kubeflow replica replaces that of its template, also where it is
/// the default one; a JobSet has a default of its own, and so has the one that a TrainJob makes.
fn restart_policy<'a>(object: &'a Value, path: &str, spec: &'a Value) -> Option<&'a str> {
    let replica = path.strip_suffix(".template").filter(|path| path.contains("ReplicaSpecs."));
    if let Some(replica) = replica.and_then(|path| path.strip_prefix("template.")) {
        let pointer = format!("/{}/restartPolicy", replica.replace('.', "/"));
        let given = object.pointer(&pointer).and_then(Value::as_str);
        let usual = match object["kind"].as_str().unwrap_or_default() {
            "PyTorchJob" | "PaddleJob" => "OnFailure",
            _ if replica.ends_with(".Launcher") && Kind::is_object_of_mpi_operator(object) => {
                "OnFailure"
            }
            _ => "Never",
        };
        return given.filter(|policy| !policy.is_empty()).or(Some(usual));
    }
    let given = spec.get("restartPolicy").and_then(Value::as_str);
    let of_job_set = matches!(object["kind"].as_str(), Some("JobSet" | "TrainJob"));
    given.or_else(|| of_job_set.then_some("OnFailure"))
}

/// What Kueue does not count needs no quota, and would take that of others.
fn uncounted(spec: &Value, path: &str, report: &mut Findings) {
    if has(spec, "resourceClaims") {
        let message = "must be left out: Kueue does not count the resource claims of an AppWrapper";
        report.invalid(format!("{path}.resourceClaims"), text(&spec["resourceClaims"]), message);
    }
    let more = kinds::uncounted(spec);
    let shown = &more[..more.len().min(UNCOUNTED_SHOWN_MAX)];
    if shown.is_empty() {
        return;
    }
    let list = |amount: fn(&Uncounted) -> f64| {
        let one = |it: &Uncounted| format!("{} {}", amount(it), shortened(&it.resource));
        shown.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let message = format!(
        "must be at most what Kueue counts for a pod ({}): for an AppWrapper, Kueue counts a sidecar container as an \
         init container, and not the resources of the pod as a whole; move the sidecar to containers, or give an init \
         container before it requests as large as those of the pod",
        list(|it| it.counted)
    );
    report.invalid(path.to_owned(), list(|it| it.requested), message);
}

/// Limits what is written to, read again or compared with each node for each retry.
fn counts(spec: &Value, path: &str, containers: usize, report: &mut Findings) {
    if containers > CONTAINERS_MAX {
        let message =
            format!("must be at most {CONTAINERS_MAX} containers, including init containers");
        report.invalid(format!("{path}.containers"), containers.to_string(), message);
    }
    let terms = kinds::node_terms(spec).unwrap_or_default().len();
    let requirements = kinds::node_requirements(spec);
    let tolerations = spec["tolerations"].as_array().map_or(0, Vec::len);
    for (field, count, most, what) in [
        (kinds::NODE_TERMS, terms, NODE_TERMS_MAX, "terms"),
        (kinds::NODE_TERMS, requirements, NODE_REQUIREMENTS_MAX, "expressions, fields and values"),
        ("tolerations", tolerations, TOLERATIONS_MAX, "tolerations"),
    ] {
        if count > most {
            let message = format!("must be at most {most} {what}");
            report.invalid(format!("{path}.{field}"), count.to_string(), message);
        }
    }
}

/// Whether a field says anything. Go's clients write `status: {}` and `null` for what is not set.
pub(super) fn has(object: &Value, field: &str) -> bool {
    match object.get(field) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(Value::Bool(_) | Value::Number(_)) => true,
    }
}

fn kind(object: &Value, path: &str, around: &ValidationContext<'_>, report: &mut Findings) {
    let api_version = api_version(object);
    let parts: Vec<&str> = api_version.split('/').collect();
    let good = match parts[..] {
        [version] => names::is_label(version),
        [group, version] => names::is_subdomain(group) && names::is_label(version),
        _ => false,
    };
    if !good {
        let message = "must be an API version, such as v1 or batch/v1";
        report.invalid(format!("{path}.apiVersion"), text(&object["apiVersion"]), message);
    }
    let kind = object["kind"].as_str().unwrap_or_default();
    let field = format!("{path}.kind");
    let alphanumeric = kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if kind.is_empty() || kind.len() > names::LABEL_MAX || !alphanumeric {
        return report.invalid(field, text(&object["kind"]), "must be a kind, such as Job");
    }
    let group = group(api_version);
    if group == GROUP && kind == "AppWrapper" {
        return report.invalid(field, kind, "must not be an AppWrapper of any version");
    }
    let has_items = object["items"].is_array() && object.get("spec").is_none();
    // the name of any other kind may end so
    if kind == "List" || kind.ends_with("List") && has_items {
        let message = "must not be a list: use a separate component for each object";
        return report.invalid(field, kind, message);
    }
    let admission = &around.config.admission;
    if good && !admission.allows(group, kind) {
        let allowed: Vec<_> = admission.allowed_kinds.iter().map(ToString::to_string).collect();
        let given = AllowedKind { group: group.to_owned(), kind: kind.to_owned() };
        let message = format!(
            "{given} is not in admission.allowedKinds of the configuration: {}",
            allowed.join(", ")
        );
        report.invalid(field, kind, message);
    }
}

/// An AppWrapper deeper down, such as in a template of a template.
fn nested(object: &Value, path: &str, report: &mut Findings) {
    let mut way = vec![];
    for (name, value) in object.as_object().into_iter().flatten() {
        way.push(Step::Field(name));
        search(value, path, &mut way, report);
        way.pop();
    }
}

/// One step on the way to a value: the path is written only where something is said of it.
pub(super) enum Step<'a> {
    /// To a field of an object.
    Field(&'a str),
    /// To what has a key in a map.
    Key(&'a str),
    /// To an item of a list.
    Item(usize),
}

/// The path of a value to which this way leads from another one.
pub(super) fn written(path: &str, way: &[Step<'_>]) -> String {
    let mut text = path.to_owned();
    for step in way {
        match step {
            Step::Field(name) => text += &format!(".{}", shortened(name)),
            Step::Key(key) => text += &format!("[{}]", shortened(key)),
            Step::Item(i) => text += &format!("[{i}]"),
        }
    }
    text
}

/// Recursion is bounded: an object that is too deep is not looked at.
fn search<'a>(value: &'a Value, path: &str, way: &mut Vec<Step<'a>>, report: &mut Findings) {
    match value {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                way.push(Step::Item(i));
                search(item, path, way, report);
                way.pop();
            }
        }
        Value::Object(fields) => {
            let api_version = api_version(value);
            let ours = value["kind"] == "AppWrapper" && group(api_version) == GROUP;
            // without a spec it is a reference, such as that of an event
            if ours && fields.contains_key("spec") && !report.is_full() {
                let field = written(path, way) + ".kind";
                report.invalid(field, "AppWrapper", "must not be an AppWrapper of any version");
            }
            for (name, field) in fields {
                way.push(Step::Field(name));
                search(field, path, way, report);
                way.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn namespace(value: &Value, field: &str, around: &ValidationContext<'_>, report: &mut Findings) {
    let given = match value {
        Value::Null => return,
        Value::String(given) if given.is_empty() => return,
        Value::String(given) => given,
        other => return report.invalid(field, text(other), "must be a string"),
    };
    match around.namespace {
        Some(own) if own == given => {}
        Some(own) => {
            let message = format!("must be the AppWrapper's own namespace {own:?} or left out");
            report.invalid(field, given, message);
        }
        None => {
            let message =
                "must be the AppWrapper's own namespace, but the AppWrapper does not set one";
            report.doubtful(field, Some(given), message);
        }
    }
}

fn labels(metadata: &Value, path: &str, report: &mut Findings) {
    for key in OURS {
        if let Some(value) = metadata["labels"].get(key) {
            let field = format!("{path}.labels[{key}]");
            report.invalid(field, text(value), "must be left out: the controller sets it");
        }
    }
}

/// What only Kueue may write.
fn set_by_kueue(metadata: &Value, path: &str, report: &mut Findings) {
    for (map, key) in SET_BY_KUEUE {
        if let Some(value) = metadata[map].get(key) {
            let field = format!("{path}.{map}[{key}]");
            report.invalid(field, text(value), "must be left out: only Kueue sets it");
        }
    }
}

/// Annotations of the AppWrapper, which are read nowhere else.
fn misplaced(metadata: &Value, path: &str, report: &mut Findings) {
    for key in KEYS {
        if let Some(value) = metadata["annotations"].get(key) {
            let field = format!("{path}.annotations[{key}]");
            let message =
                "has no effect here: it belongs in metadata.annotations of the AppWrapper";
            report.doubtful(field, Some(&text(value)), message);
        }
    }
}

/// A queue of its own would have the component admitted a second time. One that was the AppWrapper's before it was moved to
/// another queue cannot be changed any more; whoever creates the component writes the new one.
fn queue(
    value: &Value,
    path: &str,
    around: &ValidationContext<'_>,
    occasion: Occasion,
    report: &mut Findings,
) {
    let Some(given) = value.as_str().filter(|given| !given.is_empty()) else { return };
    let field = format!("{path}.labels[{}]", keys::QUEUE_NAME);
    match around.queue {
        Some(own) if own == given => {}
        Some(own) if occasion == Occasion::Stored => {
            let message = format!("has no effect: the component is created with the queue {own:?}");
            report.doubtful(field, Some(given), message);
        }
        Some(own) => {
            let message = format!("must be the AppWrapper's own queue {own:?} or left out");
            report.invalid(field, given, message);
        }
        None => {
            let message = "must be a label of the AppWrapper, which has no queue: Kueue would admit \
                           this component separately";
            report.doubtful(field, Some(given), message);
        }
    }
}
