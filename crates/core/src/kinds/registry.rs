//! The registry of kinds: one row for each kind whose pods are known.
//!
//! A row says everything that the product knows of a kind: its name, what it makes between itself and its
//! pods, whether it ends by itself, and by its [`Rules`] where its pods are and what its status means. The
//! RBAC rules, the checks at startup, admission and the simulated API server are made from the rows or
//! compared with them by tests.

mod core;
mod job_set;
mod kubeflow;
mod leader_worker_set;
mod ray;
mod train_job;
mod volcano;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::Error;
use super::node::Node;
use super::status::Object;
use crate::api::PodSet;
use crate::snapshot::{End, Expected, Report};

/// The families of kinds, in the order in which they are listed.
const FAMILIES: [&[Kind]; 7] = [
    core::KINDS,
    job_set::KINDS,
    leader_worker_set::KINDS,
    kubeflow::KINDS,
    ray::KINDS,
    volcano::KINDS,
    train_job::KINDS,
];

/// Stands for every kind that has no row: it makes anything, and says nothing.
static OTHER: Kind = Kind {
    api_version: "",
    kind: "",
    plural: "",
    makes: &[
        JOB,
        REPLICA_SET,
        STATEFUL_SET,
        RAY_CLUSTER,
        POD,
        JOB_SET,
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
        ("batch.volcano.sh/v1alpha1", "Job"),
    ],
    end: End::Unknown,
    adds_containers: true,
    recreates: false,
    reads: &[],
    rules: &NoRules,
};

/// API version and name of a kind.
type Name = (&'static str, &'static str);

/// The `MPIJob` of the MPI Operator, which runs its launcher in a Job, unlike the Training Operator, whose row it shares.
const MPI_OPERATOR: Name = ("kubeflow.org/v2beta1", "MPIJob");

const POD: Name = ("v1", "Pod");
const JOB: Name = ("batch/v1", "Job");
const JOB_SET: Name = ("jobset.x-k8s.io/v1alpha2", "JobSet");
const REPLICA_SET: Name = ("apps/v1", "ReplicaSet");
const STATEFUL_SET: Name = ("apps/v1", "StatefulSet");
const RAY_CLUSTER: Name = ("ray.io/v1", "RayCluster");

/// A kind of resource: one row of the registry.
#[derive(Debug)]
pub struct Kind {
    /// `apiVersion` of its objects; another version is another kind.
    pub api_version: &'static str,
    /// `kind` of its objects.
    pub kind: &'static str,
    /// Its name in paths and in RBAC rules.
    pub plural: &'static str,
    /// API version and kind of the objects that it makes between itself and its pods. They may go on
    /// making pods after the component itself is gone.
    pub makes: &'static [Name],
    /// Whether its objects end, and say so.
    pub end: End,
    /// Its controller may add containers to its pods.
    pub adds_containers: bool,
    /// Its controller goes on while an object is Terminating, and makes again what is deleted below it: it must
    /// not wait for that.
    pub recreates: bool,
    /// Names in paths of the kinds, in its own group, that describe its pods and are read at admission.
    pub reads: &'static [&'static str],
    rules: &'static dyn Rules,
}

/// What is particular to a kind. Everything is read from JSON that anybody may have written.
pub(super) trait Rules: fmt::Debug + Sync {
    /// The pod sets that a template implies.
    fn pod_sets(&self, template: &Node<'_>) -> Result<Vec<PodSet>, Error>;

    /// Adds to a report what the status of an object says.
    fn report(&self, object: Object<'_>, pod_sets: &[PodSet], report: &mut Report);

    /// The object that describes the pods of a template that does not do so itself.
    fn reference(&self, _template: &Value) -> Option<Reference> {
        None
    }

    /// The pod sets that were recorded in an object whose template implies none. It does not say how many pods they have.
    fn recorded(&self, _object: &Value) -> Vec<PodSet> {
        vec![]
    }

    /// Records in a template what the object that it refers to says of its pods.
    fn record(&self, _template: &mut Value, _referenced: &Value) -> Result<Vec<PodSet>, Error> {
        Ok(vec![])
    }

    /// What of the memory in a template reaches its pods, where not all of it does.
    fn limited_memory(&self, _template: &Value) -> Option<LimitedMemory> {
        None
    }

    /// Whether a stored template is this one with what was recorded in it.
    fn is_record_of(&self, _stored: &Value, _template: &Value) -> bool {
        false
    }

    /// The last changes to an object that is to be created, of any version of the kind: what is recorded in it for
    /// others goes, and what its operator must be told comes.
    fn finish(&self, _object: &mut Value) {}

    /// The field without which no object is created.
    fn must_store(&self) -> Option<MustStore> {
        None
    }
}

/// A field that an object must have once it is stored: without it, nobody would see its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MustStore {
    /// JSON pointer of the field.
    pub pointer: &'static str,
    /// Why an API server does not store it.
    pub why: &'static str,
}

/// The field of an object that the API server must store, where the object has it.
#[must_use]
pub fn must_store(object: &Value) -> Option<MustStore> {
    let field = Kind::of_object_of_any_version(object).rules().must_store()?;
    object.pointer(field.pointer).is_some().then_some(field)
}

/// The memory of one container alone reaches the pods of a template, or that of none.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitedMemory {
    /// The container.
    pub(super) container: Option<&'static str>,
    /// Why that of others does not.
    pub(super) why: &'static str,
}

/// Another object, in which the pods of a template are described.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Its API version.
    pub api_version: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its name in paths.
    pub plural: &'static str,
    /// It is in the namespace of the AppWrapper; else in none.
    pub namespaced: bool,
    /// Its name, as anybody may have written it.
    pub name: String,
}

/// A template with what was read of its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The template.
    pub template: Value,
    /// Its pod sets.
    pub pod_sets: Vec<PodSet>,
}

/// The object that describes the pods of a template, where the template does not do so itself.
#[must_use]
pub fn reference(template: &Value) -> Option<Reference> {
    Kind::of_object(template).rules().reference(template)
}

/// Records in a template what the object that it refers to says of its pods.
///
/// # Errors
/// Where that object or the template is not what it must be.
pub fn record(template: &Value, referenced: &Value) -> Result<Recorded, Error> {
    let mut template = template.clone();
    let pod_sets = Kind::of_object(&template).rules().record(&mut template, referenced)?;
    Ok(Recorded { template, pod_sets })
}

/// What of the memory in a template reaches its pods, where not all of it does.
pub(super) fn limited_memory(template: &Value) -> Option<LimitedMemory> {
    Kind::of_object(template).rules().limited_memory(template)
}

/// The pod sets that [`record`] has recorded in an object whose template implies none, in their order. Their counts are not
/// in it: its AppWrapper declares them.
#[must_use]
pub fn recorded(object: &Value) -> Vec<PodSet> {
    Kind::of_object(object).rules().recorded(object)
}

/// Whether a stored template is another one with what [`record`] added to it.
#[must_use]
pub fn is_record_of(stored: &Value, template: &Value) -> bool {
    Kind::of_object(stored).rules().is_record_of(stored, template)
}

/// The rules of kinds without any.
#[derive(Debug)]
struct NoRules;

impl Rules for NoRules {
    fn pod_sets(&self, _: &Node<'_>) -> Result<Vec<PodSet>, Error> {
        Ok(vec![])
    }

    fn report(&self, _: Object<'_>, _: &[PodSet], _: &mut Report) {}
}

impl Kind {
    /// Whether it makes a `RayCluster`, which replaces its pods as long as it is there, also after the job has succeeded.
    #[must_use]
    pub fn makes_cluster(&self) -> bool {
        self.is_known() && self.makes.contains(&RAY_CLUSTER)
    }

    /// The row of an API version and a kind, both as they stand in an object. All kinds without a row share
    /// one.
    #[must_use]
    pub fn of(api_version: &str, kind: &str) -> &'static Self {
        let mut all = Self::all();
        all.find(|row| row.kind == kind && row.api_version == api_version).unwrap_or(&OTHER)
    }

    /// The row of the kind of an object; that of kinds without a row where the object does not say.
    #[must_use]
    pub fn of_object(object: &Value) -> &'static Self {
        let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
        Self::of(text("apiVersion"), text("kind"))
    }

    /// The row of another version of a kind, where this version has none. The core group has one version.
    #[must_use]
    pub fn of_other_version(api_version: &str, kind: &str) -> Option<&'static Self> {
        let (group, _) = api_version.split_once('/')?;
        let row = Self::all().find(|row| row.kind == kind && row.group() == group)?;
        (!Self::of(api_version, kind).is_known()).then_some(row)
    }

    /// The row of a kind, whatever its version; that of kinds without a row where no version has one.
    #[must_use]
    pub fn of_any_version(api_version: &str, kind: &str) -> &'static Self {
        let other = Self::of_other_version(api_version, kind);
        other.unwrap_or_else(|| Self::of(api_version, kind))
    }

    /// Whether a kind is the `MPIJob` of the MPI Operator.
    #[must_use]
    pub fn is_of_mpi_operator(api_version: &str, kind: &str) -> bool {
        (api_version, kind) == MPI_OPERATOR
    }

    /// What objects of a kind make between themselves and their pods, whatever the version; of a kind without a row, anything.
    #[must_use]
    pub fn made_by(api_version: &str, kind: &str) -> &'static [(&'static str, &'static str)] {
        if Self::is_of_mpi_operator(api_version, kind) {
            &[JOB]
        } else {
            Self::of_any_version(api_version, kind).makes
        }
    }

    /// The row of the kind of an object, whatever its version.
    #[must_use]
    pub fn of_object_of_any_version(object: &Value) -> &'static Self {
        let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
        Self::of_any_version(text("apiVersion"), text("kind"))
    }

    /// Whether an object is an `MPIJob` of the MPI Operator.
    #[must_use]
    pub fn is_object_of_mpi_operator(object: &Value) -> bool {
        let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
        Self::is_of_mpi_operator(text("apiVersion"), text("kind"))
    }

    /// All rows.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        FAMILIES.into_iter().flatten()
    }

    /// Whether it has a row.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.kind.is_empty()
    }

    /// Whether it is the `v1` Pod.
    #[must_use]
    pub fn is_pod(&self) -> bool {
        (self.api_version, self.kind) == POD
    }

    /// Whether it is the JobSet, whose Jobs say more of a failure than it does.
    #[must_use]
    pub fn is_job_set(&self) -> bool {
        self.kind == "JobSet"
    }

    /// Its API group; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Whether an object may control pods: none of the core group does but `ReplicationController`s.
    #[must_use]
    pub fn may_own_pods(api_version: &str, kind: &str) -> bool {
        api_version != "v1" || kind == "ReplicationController"
    }

    /// What is particular to it.
    pub(super) fn rules(&self) -> &'static dyn Rules {
        self.rules
    }
}

/// The indexes of pod sets by their paths.
fn pod_set_indexes(pod_sets: &[PodSet]) -> BTreeMap<&str, usize> {
    pod_sets.iter().enumerate().map(|(index, set)| (set.path.as_str(), index)).collect()
}

/// What does not end runs all its pods, as many as its object is scaled to.
fn expect_all(pod_sets: &[PodSet], report: &mut Report) {
    let all = pod_sets.iter().map(|set| Expected::pods(set.count().into()));
    report.expected.extend(all.enumerate());
}

/// A small object of every kind, with its pod sets.
#[cfg(test)]
pub(super) fn given() -> Vec<super::testing::Sample> {
    let families = [
        core::given,
        job_set::given,
        leader_worker_set::given,
        kubeflow::given,
        ray::given,
        volcano::given,
        train_job::given,
    ];
    families.into_iter().flat_map(|given| given()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn group_version_and_kind_must_all_fit() {
        for (api_version, kind, want) in [
            ("v1", "Pod", true),
            ("batch/v1", "Job", true),
            ("batch/v1beta1", "Job", false),
            ("batch/v1", "job", false),
            ("v1", "Job", false),
            ("core/v1", "Pod", false),
            ("jobset.x-k8s.io/v1alpha2", "JobSet", true),
            ("kubeflow.org/v1", "PyTorchJob", true),
            ("kubeflow.org/v1", "PytorchJob", false),
            ("kubeflow.org/v1", "MPIJob", true),
            ("kubeflow.org/v2beta1", "MPIJob", false),
            ("ray.io/v1alpha1", "RayCluster", false),
            ("ray.io/v1", "RayService", true),
            ("", "", false),
        ] {
            let found = Kind::of(api_version, kind);
            assert_eq!(found.is_known(), want, "{api_version} {kind}");
            assert!(!want || (found.api_version, found.kind) == (api_version, kind));
        }
    }

    #[test]
    fn an_object_that_does_not_say_is_another_kind() {
        for object in [json!(null), json!([]), json!({"kind": "Pod"}), json!({"apiVersion": 1})] {
            assert!(!Kind::of_object(&object).is_known(), "{object}");
        }
        assert!(Kind::of_object(&json!({"apiVersion": "v1", "kind": "Pod"})).is_pod());
    }

    #[test]
    fn every_kind_has_one_row_and_an_object_to_test_it() {
        let rows: Vec<Name> = Kind::all().map(|row| (row.api_version, row.kind)).collect();
        assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len());
        let objects: Vec<Value> = given().into_iter().map(|(object, _)| object).collect();
        for (api_version, kind) in rows {
            let is_it = |object: &&Value| object["apiVersion"] == api_version;
            let found = objects.iter().filter(is_it).any(|object| object["kind"] == kind);
            assert!(found, "{kind}");
        }
    }
}
