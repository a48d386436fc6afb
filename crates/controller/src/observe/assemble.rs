//! Facts about single objects become one look at the world. Pure: the same for the cluster and a bundle.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use super::ancestry::{Ancestors, Doubt, Family, Lineage, Ours};
use super::cache::KindKey;
use super::kin::Place;
use super::pod_cache::{NotOurs, claims};
use super::pod_record::PodRecord;
use super::records::{Controller, ObjectRecord};
use crate::api::{
    AppWrapperSpec, AppWrapperStatus, Component as ApiComponent, ComponentStatus, GROUP, Phase,
    PodSet,
};
use crate::kinds::{self, Kind};
use crate::mutations::{self, Mutation};
use crate::policies::{Named, Policies, Unread};
use crate::price::memory_bytes;
use crate::snapshot::{Component, End, Object, Owner, Pod, Presence, Report};
use crate::status::{Flaws, items_max, text_max};

/// An AppWrapper as it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about one object")]
pub struct Wrapper {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its resource version.
    pub version: String,
    /// `metadata.generation`, which changes with the spec; 0 where there is none.
    pub generation: i64,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// That timestamp.
    pub deletion_timestamp: Option<Timestamp>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Its annotations that tune it.
    pub annotations: BTreeMap<String, String>,
    /// The queue of Kueue that it names.
    pub queue: Option<String>,
    /// MultiKueue of a manager cluster created it.
    pub has_manager: bool,
    /// It names its Workload, which Kueue then does not create.
    pub is_prebuilt: bool,
    /// Somebody applies it on the server's side: `managedFields` say which fields are theirs.
    pub is_applied: bool,
    /// What it asks for.
    pub spec: Arc<AppWrapperSpec>,
    /// What was seen of it.
    pub status: AppWrapperStatus,
    /// What the templates of its components say; nothing is known of their objects yet.
    pub components: Vec<Component>,
    /// Its own policies.
    pub policies: Arc<Policies>,
    /// What is wrong with the status as it is stored.
    pub flaws: Flaws,
    /// Bytes of the stored object beside its status.
    pub rest_bytes: usize,
}

/// The kinds of which the Go controller infers the pod sets, other than those of KubeRay.
const GO_COUNTS: [(&str, &str); 6] = [
    ("v1", "Pod"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "Job"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("kubeflow.org/v1", "PyTorchJob"),
];

/// Whether a version of an object has the spec of the one with this UID and `metadata.generation`, which the API server
/// changes with the spec.
pub(super) fn is_same_spec(uid: &str, generation: i64, meta: &ObjectMeta) -> bool {
    generation > 0 && meta.generation == Some(generation) && meta.uid.as_deref() == Some(uid)
}

impl Wrapper {
    /// Reads the templates of the components.
    #[must_use]
    pub(super) fn inspected(mut self) -> Self {
        self.components =
            (0..self.spec.components.len()).map(|index| self.inspect(index)).collect();
        self.leave_out(&Unread::default());
        self
    }

    /// The same, where another version with the same spec was inspected before.
    pub(super) fn inspected_as(mut self, known: &Self) -> Self {
        let again = |(index, before): (usize, &Component)| {
            let named = !text(&self.spec.components[index], "/metadata/name").is_empty();
            if before.flaw.is_some() || !named {
                return self.inspect(index);
            }
            let mut component = before.clone();
            self.note_recorded(index, &mut component);
            component
        };
        self.components = known.components.iter().enumerate().map(again).collect();
        self.policies = known.policies.clone();
        self
    }

    /// Whether nothing but metadata differs in another version of this object.
    #[must_use]
    pub fn is_decided_as(&self, other: &Self) -> bool {
        self.has_status_of(other)
            && self.deleting == other.deleting
            && self.generation == other.generation
            && self.spec == other.spec
    }

    /// Whether no leader has written between another version of this object and this one.
    #[must_use]
    pub fn has_status_of(&self, other: &Self) -> bool {
        self.status == other.status && self.flaws == other.flaws
    }

    /// Whether another version of this object has the same spec.
    pub(super) fn has_spec_of(&self, meta: &ObjectMeta) -> bool {
        is_same_spec(&self.uid, self.generation, meta)
    }

    /// Reads the policies without the rules that cannot be read.
    pub(super) fn leave_out(&mut self, unread: &Unread) {
        let names: Vec<Named<'_>> = self.components.iter().map(Component::named).collect();
        self.policies = Arc::new(Policies::without(unread, &self.spec, &names));
    }

    /// Memory that it takes, in bytes, about. What was made of its templates takes less than they do.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let templates = self.spec.components.iter().map(|wrapped| memory_bytes(&wrapped.template));
        let other = self.components.len() * size_of::<Component>() + self.rest_bytes;
        2 * templates.sum::<usize>() + other
    }

    /// What its pods request together, by resource, each in its own unit.
    #[must_use]
    pub fn requested(&self) -> BTreeMap<String, f64> {
        let pod_sets = self.components.iter().map(|component| component.pod_sets.as_slice());
        kinds::requested(self.spec.components.iter().zip(pod_sets))
    }

    /// A component of the spec. One that the Go controller made from `generateName` has the name that it has recorded.
    pub(crate) fn component(&self, index: usize) -> Cow<'_, ApiComponent> {
        let wrapped = &self.spec.components[index];
        let prefix = text(wrapped, "/metadata/generateName");
        let recorded = self.status.component_status.get(index).map(|recorded| &recorded.name);
        let generated = recorded.filter(|name| !prefix.is_empty() && name.starts_with(&prefix));
        let Some(name) = generated.filter(|_| text(wrapped, "/metadata/name").is_empty()) else {
            return Cow::Borrowed(wrapped);
        };
        let mut named = wrapped.clone();
        if let Some(metadata) = named.template["metadata"].as_object_mut() {
            metadata.remove("generateName");
            metadata.insert("name".to_owned(), name.clone().into());
        }
        Cow::Owned(named)
    }

    fn inspect(&self, index: usize) -> Component {
        let wrapped = &*self.component(index);
        let recorded = self.status.component_status.get(index);
        let mut component = match kinds::inspect(wrapped) {
            Ok(inspected) => Component {
                name: inspected.name,
                kind: inspected.kind,
                api_version: inspected.api_version,
                pod_sets: inspected.pod_sets,
                parts: inspected.parts,
                ..Component::default()
            },
            Err(flaw) => Component {
                name: text(wrapped, "/metadata/name"),
                kind: text(wrapped, "/kind"),
                api_version: text(wrapped, "/apiVersion"),
                flaw: Some(format!("spec.components[{index}].{flaw}")),
                ..Component::default()
            },
        };
        if let Some(recorded) = recorded {
            // what the template says counts, where it says something
            if component.flaw.is_some() {
                component.pod_sets.clone_from(&recorded.pod_sets);
            }
        }
        self.note_recorded(index, &mut component);
        component.end = Kind::of_any_version(&component.api_version, &component.kind).end;
        component
    }

    /// The UIDs that the status records of a component and of the owners of its pods.
    fn note_recorded(&self, index: usize, component: &mut Component) {
        let recorded = self.status.component_status.get(index);
        component.recorded = recorded.and_then(|recorded| recorded.uid.clone());
        component.recorded_pod_owners =
            recorded.map(|recorded| recorded.pod_owners.clone()).unwrap_or_default();
    }

    /// Entries of `componentStatus` that are about other objects than the templates become those of the
    /// templates: Kueue reads their pod sets.
    pub(super) fn name_forged_components(&mut self) {
        let stored = &self.status.component_status;
        let entries = stored.iter().zip(&self.components).enumerate();
        let forged: Vec<usize> = entries
            .filter(|(index, (entry, component))| {
                component.flaw.is_none()
                    && !is_about(entry, component)
                    && !self.stays_as_go_counted(*index)
            })
            .map(|(index, _)| index)
            .collect();
        // the Go controller writes pod sets first, and the names with the first creation
        let is_named = |index: &&usize| {
            let entry = &stored[**index];
            ![&entry.name, &entry.kind, &entry.api_version].iter().all(|text| text.is_empty())
        };
        if let Some(first) = forged.iter().find(is_named) {
            let text = format!(
                "status.componentStatus[{first}]: must have the name, kind, API version and pod sets of \
             spec.components[{first}].template"
            );
            let before = serde_json::to_value(stored).unwrap_or_default();
            self.flaws.name("componentStatus", text, before);
        }
        for index in forged {
            let is_recounted = self.is_counted_by_go(index);
            let (entry, component) =
                (&mut self.status.component_status[index], &mut self.components[index]);
            entry.name.clone_from(&component.name);
            entry.kind.clone_from(&component.kind);
            entry.api_version.clone_from(&component.api_version);
            entry.pod_sets.clone_from(&component.pod_sets);
            if is_recounted {
                continue; // it is about the same object
            }
            entry.uid = None;
            entry.pod_owners.clear();
            component.recorded = None;
            component.recorded_pod_owners.clear();
        }
    }

    /// Whether the pod sets of an entry stay although the template makes more pods: the Go controller has counted and started
    /// it, and Kueue would suspend what is counted otherwise while it runs. The UID says that this controller has recorded
    /// the object, as it does whatever it starts, and when a deletion begins: from then on the pods of the template count.
    ///
    /// Whoever forges such an entry has Kueue count what it wraps as the Go controller would, and only where the webhook has not
    /// filled in the pod sets of `spec`. Whoever may write the status can have Kueue release the whole quota anyway.
    fn stays_as_go_counted(&self, index: usize) -> bool {
        let is_created_before = match self.status.phase {
            Phase::Running | Phase::Succeeded | Phase::Failed | Phase::Terminating => true,
            Phase::Empty
            | Phase::Suspended
            | Phase::Resuming
            | Phase::Resetting
            | Phase::Suspending => false,
        };
        is_created_before
            && self.components[index].recorded.is_none()
            && self.is_counted_by_go(index)
    }

    /// Whether an entry is about what a template makes, with the pod sets that the Go controller infers: for a Ray cluster, 1
    /// head, and `replicas` (1) of each worker group; for a kind that it does not know, none.
    fn is_counted_by_go(&self, index: usize) -> bool {
        let (entry, component) = (&self.status.component_status[index], &self.components[index]);
        let wrapped = &self.spec.components[index];
        let groups = match component.kind.as_str() {
            "RayCluster" => "/spec/workerGroupSpecs",
            "RayJob" => "/spec/rayClusterSpec/workerGroupSpecs",
            _ => {
                let kind = (component.api_version.as_str(), component.kind.as_str());
                return !GO_COUNTS.contains(&kind)
                    && wrapped.pod_sets.is_empty()
                    && entry.pod_sets.is_empty()
                    && is_named_as(entry, component);
            }
        };
        let groups = wrapped.template.pointer(groups).and_then(|groups| groups.as_array());
        let workers = groups.into_iter().flatten().map(|group| group["replicas"].as_i64());
        let counts = [Some(1)].into_iter().chain(workers).map(|count| count.unwrap_or(1));
        let paths = component.pod_sets.iter().map(|set| set.path.as_str());
        let recorded = entry.pod_sets.iter();
        let recorded = recorded.map(|set| (set.path.as_str(), i64::from(set.count())));
        component.api_version == "ray.io/v1"
            && wrapped.pod_sets.is_empty()
            && is_named_as(entry, component)
            && recorded.eq(paths.zip(counts))
    }

    /// UIDs to which the chain of a pod of ours leads: the AppWrapper's and those of the components that
    /// are there and ours, each with the index of the component. A UID that is only recorded is none.
    #[must_use]
    pub fn roots(&self, components: &[Component]) -> BTreeMap<String, Option<usize>> {
        let present = components
            .iter()
            .enumerate()
            .filter_map(|(index, component)| Some((component.ours()?.uid.clone(), Some(index))));
        present.chain([(self.uid.clone(), None)]).collect()
    }

    /// Presence of an object that was found under a component's name; `seen` is the UID of the one that was
    /// last seen to be ours.
    #[must_use]
    pub fn presence(
        &self,
        index: usize,
        record: ObjectRecord,
        pod_sets: &[PodSet],
        seen: Option<&str>,
    ) -> Presence {
        let identity = record.identity;
        let component = self.components.get(index);
        let recorded = component.and_then(|component| component.recorded.as_ref());
        // Somebody took its owner away. That this process has seen whose it was is proof; what the status
        // records is one together with the label.
        let is_labelled = identity.appwrapper_uid.as_deref() == Some(self.uid.as_str());
        let is_seen = seen == Some(identity.uid.as_str()) && identity.may_be_of(&self.uid);
        let is_recorded = recorded == Some(&identity.uid);
        let orphaned = identity.controller.is_none() && (is_seen || is_recorded && is_labelled);
        let owner = match &identity.controller {
            _ if orphaned || mutations::is_present(Mutation::AdoptByName) => Owner::Us,
            _ if is_recorded && mutations::is_present(Mutation::RecordedUidIsProof) => Owner::Us,
            Some(controller) if controller.uid == self.uid => Owner::Us,
            Some(controller) if is_former(controller, &self.name) => Owner::Former,
            Some(controller) => Owner::Stranger(format!("{}/{}", controller.kind, controller.name)),
            None => Owner::Stranger(String::new()),
        };
        let mut report = reindexed(record.report, &record.paths, pod_sets);
        let never_ends = component.is_some_and(|component| component.end == End::Never);
        fit_counts(&mut report, pod_sets, record.lacks_counts, never_ends);
        Presence::Present(Object {
            uid: identity.uid,
            owner,
            attempt: identity.attempt,
            terminating: identity.terminating,
            deletion_requested: identity.deletion_requested,
            finalizers: identity.finalizers,
            report,
        })
    }
}

fn is_former(controller: &Controller, name: &str) -> bool {
    controller.kind == kinds::OWNER_KIND
        && controller.api_version.split('/').next() == Some(GROUP)
        && controller.name == name
}

/// The report with its pod sets in the order of the AppWrapper instead of that of the kind.
fn reindexed(report: Report, paths: &[String], pod_sets: &[PodSet]) -> Report {
    let index = |old: usize| {
        let path = paths.get(old)?;
        pod_sets.iter().position(|set| set.path == *path)
    };
    Report {
        outcome: report.outcome,
        deletes_pods: report.deletes_pods,
        in_order: report.in_order,
        serves: report.serves,
        expected: report
            .expected
            .into_iter()
            .filter_map(|(old, expected)| Some((index(old)?, expected)))
            .collect(),
        unstarted: report.unstarted.into_iter().filter_map(index).collect(),
        unreplaced: report.unreplaced.into_iter().filter_map(index).collect(),
        perhaps_unreplaced: report.perhaps_unreplaced.into_iter().filter_map(index).collect(),
        replaced_by_exit_code: report.replaced_by_exit_code.into_iter().filter_map(index).collect(),
        backoff: report
            .backoff
            .into_iter()
            .filter_map(|(old, backoff)| Some((index(old)?, backoff)))
            .collect(),
    }
}

/// Fits what a report expects to the declared pod sets: an object may not say how many pods it makes, and one that never ends
/// may have been scaled up, which there is no quota for.
fn fit_counts(report: &mut Report, pod_sets: &[PodSet], lacks_counts: bool, never_ends: bool) {
    for (index, expected) in &mut report.expected {
        let declared = pod_sets.get(*index).map_or(0, |set| i64::from(set.count()));
        if lacks_counts {
            expected.jobs = if expected.jobs > 0 { declared } else { 0 };
            if declared == 0 {
                report.unstarted.remove(index);
            }
        } else if never_ends {
            expected.jobs = expected.jobs.min(declared);
        }
    }
}

fn text(component: &ApiComponent, pointer: &str) -> String {
    let value = component.template.pointer(pointer).and_then(|value| value.as_str());
    value.unwrap_or_default().to_owned()
}

/// Whether an entry of `componentStatus` is about what a template makes. It has no more of it than the definition takes.
fn is_about(entry: &ComponentStatus, component: &Component) -> bool {
    let shape = |sets: &[PodSet]| -> Vec<(String, i32)> {
        let recorded = sets.iter().take(items_max("componentStatus[].podSets"));
        recorded.map(|set| (cut(&set.path, "path"), set.count())).collect()
    };
    is_named_as(entry, component) && shape(&entry.pod_sets) == shape(&component.pod_sets)
}

/// Whether an entry has the name, kind and API version of what a template makes.
fn is_named_as(entry: &ComponentStatus, component: &Component) -> bool {
    entry.name == cut(&component.name, "name")
        && entry.kind == cut(&component.kind, "kind")
        && entry.api_version == cut(&component.api_version, "apiVersion")
}

/// As much of a text as the definition takes in a field of an entry.
fn cut(text: &str, field: &str) -> String {
    text.chars().take(text_max(field)).collect()
}

/// The kind of a component.
#[must_use]
pub fn kind_of(component: &Component) -> KindKey {
    KindKey { api_version: component.api_version.clone(), kind: component.kind.clone() }
}

/// What pods have turned out to be.
#[derive(Debug, Default)]
pub struct Sorted {
    /// Ours.
    pub ours: Vec<Pod>,
    /// The owners between them and their components, each with the index of the component.
    pub links: BTreeMap<Controller, Option<usize>>,
    /// Not ours, or not known to be.
    pub others: Vec<NotOurs>,
}

/// Tells our pods from the others; one whose owner is not read yet is undetermined.
#[must_use]
pub fn pods(records: &[Arc<PodRecord>], family: &Family<'_>, ancestors: &Ancestors) -> Sorted {
    let lineages = records.iter().map(|record| family.lineage(record, ancestors));
    sorted(records, lineages, family.components)
}

/// The same, where it was told already whose each of the pods is.
pub(super) fn sorted(
    records: &[Arc<PodRecord>],
    lineages: impl IntoIterator<Item = Lineage>,
    components: &[Component],
) -> Sorted {
    let mut sorted = Sorted::default();
    for (record, lineage) in records.iter().zip(lineages) {
        let doubt = match lineage {
            Lineage::Ours(Ours { place, links, detached }) => {
                let Place { component, pod_set, attempt } = place;
                let pod = Pod { component, pod_set, attempt, detached, ..record.pod.clone() };
                sorted.ours.push(pod);
                sorted.links.extend(links.into_iter().map(|link| (link, component)));
                continue;
            }
            Lineage::Stranger => None,
            Lineage::Undetermined(doubt) => Some(doubt),
            Lineage::Unread(_) => Some(Doubt::Unread),
        };
        sorted.others.push(NotOurs {
            name: record.identity.name.clone(),
            claims: claims(record),
            ended: record.pod.has_ended(),
            doubt,
        });
    }
    place_unlabelled(&mut sorted.ours, components);
    sorted
}

/// Pods of the Go controller have no label for their pod set: they fill the sets in order.
fn place_unlabelled(pods: &mut [Pod], components: &[Component]) {
    for (index, component) in components.iter().enumerate() {
        let mut room: Vec<i64> =
            component.pod_sets.iter().map(|set| i64::from(set.count())).collect();
        for pod in pods.iter().filter(|pod| pod.component == Some(index)) {
            if let Some(left) = pod.pod_set.and_then(|pod_set| room.get_mut(pod_set)) {
                *left -= 1;
            }
        }
        for pod in pods.iter_mut() {
            if pod.component == Some(index) && pod.pod_set.is_none() {
                let pod_set = room.iter().position(|left| *left > 0).unwrap_or(0);
                if let Some(left) = room.get_mut(pod_set) {
                    *left -= 1;
                    pod.pod_set = Some(pod_set);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
