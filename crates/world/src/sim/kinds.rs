//! The kinds that the server serves.

use std::sync::Arc;

use serde_json::Value;

use super::schema::Schema;
use crate::kinds::Kind as Wrapped;

/// A kind, by its index: kinds are added and switched off, never renumbered.
pub type KindId = usize;

/// What the server knows of a kind.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: String,
    /// Version in the group.
    pub version: String,
    /// Resource name in paths.
    pub plural: String,
    /// Name of the kind.
    pub kind: String,
    /// Its objects are in namespaces.
    pub namespaced: bool,
    /// It has a status subresource: `status` is written there alone.
    pub status: bool,
    /// `metadata.generation` counts changes of what is not metadata or status.
    pub generation: bool,
    /// An update without `resourceVersion` is accepted.
    pub unconditional: bool,
    /// A deletion leaves time to end: pods.
    pub graceful: bool,
    /// Of a custom resource: defaults, and which fields are known.
    pub(super) schema: Option<Arc<Schema>>,
    /// It is served now; a definition that is removed takes its kind away.
    pub served: bool,
}

impl Kind {
    /// `apiVersion` of its objects.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Deleted without a policy, its objects leave alone what they own: so it was before there were
    /// policies.
    #[must_use]
    pub fn orphans(&self) -> bool {
        self.group == "batch" && self.kind == "Job"
    }

    /// An update of what is not there creates it.
    #[must_use]
    pub fn created_by_update(&self) -> bool {
        ["Lease", "Event"].contains(&self.kind.as_str()) && !self.is_custom()
    }

    /// A deletion is answered with the object.
    #[must_use]
    pub fn returned(&self) -> bool {
        let kinds = ["Pod", "Service", "ServiceAccount", "PersistentVolumeClaim"];
        self.group.is_empty() && kinds.contains(&self.kind.as_str())
    }

    /// What differs most is compared first.
    fn is_at(&self, group: &str, version: &str, plural: &str) -> bool {
        self.plural == plural && self.group == group && self.version == version
    }

    /// It was defined by a custom resource definition, not built in.
    #[must_use]
    pub fn is_custom(&self) -> bool {
        self.group.contains('.') && !self.group.ends_with(".k8s.io")
            || self.schema.is_some()
            || self.group.ends_with(".x-k8s.io")
    }
}

/// All kinds.
#[derive(Clone, Debug)]
pub struct Kinds {
    all: Vec<Kind>,
}

/// Group, version, plural, kind; then N(amespaced), S(tatus), G(eneration), U(nconditional update), and
/// T for time to end.
const BUILT_IN: &[(&str, &str, &str, &str, &str)] = &[
    ("", "v1", "namespaces", "Namespace", "SU"),
    ("", "v1", "nodes", "Node", "SU"),
    ("", "v1", "pods", "Pod", "NSGUT"),
    ("", "v1", "configmaps", "ConfigMap", "NU"),
    ("", "v1", "secrets", "Secret", "NU"),
    ("", "v1", "services", "Service", "NSU"),
    ("", "v1", "serviceaccounts", "ServiceAccount", "NU"),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "NSU"),
    ("", "v1", "events", "Event", "NU"),
    ("apps", "v1", "deployments", "Deployment", "NSGU"),
    ("apps", "v1", "replicasets", "ReplicaSet", "NSGU"),
    ("apps", "v1", "statefulsets", "StatefulSet", "NSGU"),
    ("batch", "v1", "jobs", "Job", "NSGU"),
    ("coordination.k8s.io", "v1", "leases", "Lease", "N"),
    ("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "GU"),
    ("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", "U"),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "SGU"),
];

/// The same for Kueue's.
const KUEUE: &[(&str, &str, &str, &str, &str)] = &[
    ("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", "SG"),
    ("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue", "NSG"),
    ("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", "G"),
];

impl Default for Kinds {
    fn default() -> Self {
        let mut kinds = Self { all: vec![] };
        let wrapped = Wrapped::all().filter(|row| row.group().contains('.')).map(|row| {
            let version = row.api_version.split_once('/').map_or("", |(_, version)| version);
            (row.group(), version, row.plural, row.kind, "NSG")
        });
        let all = BUILT_IN.iter().copied().chain(wrapped).chain(KUEUE.iter().copied());
        for (group, version, plural, kind, flags) in all {
            let has = |flag: char| flags.contains(flag);
            kinds.add(Kind {
                group: group.to_owned(),
                version: version.to_owned(),
                plural: plural.to_owned(),
                kind: kind.to_owned(),
                namespaced: has('N'),
                status: has('S'),
                generation: has('G'),
                unconditional: has('U'),
                graceful: has('T'),
                schema: None,
                served: true,
            });
        }
        kinds
    }
}

impl Kinds {
    fn add(&mut self, kind: Kind) -> KindId {
        let known =
            self.all.iter().position(|known| known.is_at(&kind.group, &kind.version, &kind.plural));
        if let Some(id) = known {
            self.all[id] = kind;
            return id;
        }
        self.all.push(kind);
        self.all.len() - 1
    }

    /// Serves what a custom resource definition defines: every version that it serves.
    pub fn define(&mut self, crd: &Value) -> Vec<KindId> {
        let text = |value: &Value, pointer: &str| {
            value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
        let mut ids = vec![];
        for version in versions.into_iter().flatten() {
            let subresource = version.pointer("/subresources/status").is_some();
            ids.push(
                self.add(Kind {
                    group: text(crd, "/spec/group"),
                    version: text(version, "/name"),
                    plural: text(crd, "/spec/names/plural"),
                    kind: text(crd, "/spec/names/kind"),
                    namespaced: text(crd, "/spec/scope") == "Namespaced",
                    status: subresource,
                    generation: true,
                    unconditional: false,
                    graceful: false,
                    schema: version
                        .pointer("/schema/openAPIV3Schema")
                        .map(|schema| Arc::new(Schema::of(schema))),
                    served: version.get("served").and_then(Value::as_bool).unwrap_or(true),
                }),
            );
        }
        ids
    }

    /// A kind.
    #[must_use]
    pub fn get(&self, id: KindId) -> &Kind {
        &self.all[id]
    }

    /// Stops or begins to serve a kind.
    pub fn serve(&mut self, id: KindId, served: bool) {
        self.all[id].served = served;
    }

    /// The kind of a path, where it is served.
    #[must_use]
    pub fn by_path(&self, group: &str, version: &str, plural: &str) -> Option<KindId> {
        let known = self.all.iter().position(|known| known.is_at(group, version, plural));
        known.filter(|id| self.all[*id].served)
    }

    /// The kind of an object, by its `apiVersion` and `kind`, where it is served.
    #[must_use]
    pub fn by_name(&self, api_version: &str, kind: &str) -> Option<KindId> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        self.all.iter().position(|known| {
            known.kind == kind && known.served && known.group == group && known.version == version
        })
    }

    /// Whether a kind was ever defined, served or not.
    #[must_use]
    pub fn knows(&self, api_version: &str, kind: &str) -> bool {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        self.all
            .iter()
            .any(|known| known.group == group && known.version == version && known.kind == kind)
    }

    /// All kinds that are served.
    pub fn served(&self) -> impl Iterator<Item = (KindId, &Kind)> {
        self.all.iter().enumerate().filter(|(_, kind)| kind.served)
    }
}
