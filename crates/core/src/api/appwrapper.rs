use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSchedulingGate, Toleration};
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::no_fit::OnNoFit;
use super::policy::{ExecutionPolicy, FailurePolicy, PodFailurePolicy};
use super::progress::Progress;
use super::requester::Requester;
use super::rules::{
    components_stay, few_components, immutable, name_rule, never_set_later,
    never_set_unless_suspended, spec_stays,
};
use super::status::AppWrapperStatus;

/// The most components of a stored object; a rule limits new ones to fewer. The Go project has no bound, but
/// without one the API server rejects rules that compare components; no useful object of 1 MiB has as many.
pub(super) const COMPONENTS_MAX: usize = 5000;

/// The most pod sets of a component: Kueue has room for no more in all of them together.
const POD_SETS_MAX: usize = 10;

/// Desired state of an AppWrapper.
// Go: `AppWrapperSpec`; the policies and the requester are additions.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "workload.codeflare.dev",
    version = "v1beta2",
    kind = "AppWrapper",
    plural = "appwrappers",
    namespaced,
    status = "AppWrapperStatus",
    shortname = "aw",
    derive = "PartialEq",
    derive = "Default",
    doc = "A set of resources that is admitted, monitored, retried and deleted as one unit.",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Quota Reserved",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="QuotaReserved")].status"#
    ),
    printcolumn(
        name = "Resources Deployed",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="ResourcesDeployed")].status"#
    ),
    printcolumn(
        name = "Unhealthy",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Unhealthy")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = name_rule(),
    validation = few_components(),
    validation = spec_stays(),
    validation = components_stay()
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = immutable("managedBy"),
    validation = never_set_later("executionPolicy"),
    validation = never_set_later("requester"),
    validation = never_set_unless_suspended("failurePolicy"),
    validation = never_set_unless_suspended("podFailurePolicy"),
    validation = never_set_unless_suspended("progress"),
    validation = never_set_unless_suspended("onNoFit")
)]
pub struct AppWrapperSpec {
    /// The wrapped resources.
    #[schemars(length(min = 1, max = COMPONENTS_MAX))]
    pub components: Vec<Component>,

    /// If true, no resources are deployed. Kueue sets it to false on admission and to true on eviction.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,

    /// The controller that manages this AppWrapper. If not set, it is managed by
    /// `workload.codeflare.dev/appwrapper-controller`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,

    /// What to do when a component fails (KEP-262).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,

    /// The order in which the components are created (KEP-672). Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_policy: Option<ExecutionPolicy>,

    /// What to do when a pod fails (KEP-3329).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_failure_policy: Option<PodFailurePolicy>,

    /// When missing progress is a failure. Defaults to never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// What to do if the pods cannot be scheduled. It has an effect only with a queue of Kueue. If it is not set,
    /// `warmupGracePeriod` applies, and a retry is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_no_fit: Option<OnNoFit>,

    /// The user who created this AppWrapper. The admission webhook sets it on creation, whatever the
    /// request contains; it cannot be changed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<Requester>,
}

/// A wrapped resource.
// Go: `AppWrapperComponent`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Arbitrary metadata of this component.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,

    /// The pod templates of this component and their pod counts. Inferred for known kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = bounded_pod_sets)]
    pub pod_sets: Vec<PodSet>,

    /// What Kueue adds to the pods of each pod set. Written by Kueue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_set_infos: Vec<PodSetInfo>,

    /// The resource itself.
    #[schemars(schema_with = "embedded_resource")]
    pub template: Value,
}

/// A group of pods that are created from one pod template.
// Go: `AppWrapperPodSet`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSet {
    /// Number of pods. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// Path to the pod template within the component, such as `template.spec.template`.
    pub path: String,

    /// Arbitrary metadata of this pod set. Kueue reads the annotations for Topology-Aware Scheduling.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What Kueue adds to the pods of an admitted pod set.
// Go: `AppWrapperPodSetInfo`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSetInfo {
    /// Annotations to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,

    /// Labels to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Node selector entries to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,

    /// Tolerations to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,

    /// Scheduling gates to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduling_gates: Vec<PodSchedulingGate>,
}

impl PodSet {
    /// Number of pods; 1 if the field is not set. Go: `Replicas`.
    #[must_use]
    pub fn count(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }
}

/// Where objects have their contents. A rule that compares two objects does not notice that a field
/// which the schema does not name was replaced by another such field.
const CONTENTS: [&str; 7] =
    ["binaryData", "data", "roleRef", "rules", "spec", "stringData", "subjects"];

fn embedded_resource(_: &mut SchemaGenerator) -> Schema {
    let anything = json!({"nullable": true, "x-kubernetes-preserve-unknown-fields": true});
    let contents: Map<String, Value> =
        CONTENTS.iter().map(|field| ((*field).to_owned(), anything.clone())).collect();
    json_schema!({
        "description": "The resource itself.",
        "type": "object",
        "properties": contents,
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// Bounds of the pod sets that are asked for. Those of `status` have none, so that it can be written
/// whatever an object of before the bounds holds.
fn bounded_pod_sets(schema: &mut Schema) {
    schema.insert("maxItems".to_owned(), POD_SETS_MAX.into());
    let bounds = [
        ("/items/properties/replicas", "minimum", 0),
        ("/items/properties/path", "minLength", 1),
        ("/items/properties/path", "maxLength", 512),
    ];
    for (field, keyword, bound) in bounds {
        if let Some(field) = schema.pointer_mut(field).and_then(Value::as_object_mut) {
            field.insert(keyword.to_owned(), bound.into());
        }
    }
}

// serde hands the field over by reference
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_false(flag: &bool) -> bool {
    !flag
}
