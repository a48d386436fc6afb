//! A bundle becomes the inputs of an explanation: what is not in it does not exist, except nodes and queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::super::bundle::{self, Document};
use super::super::complaint::complaint;
use super::ExplainInputs;
use super::objects::{complete, id};
use crate::api::{AppWrapperSpec, AppWrapperStatus, GROUP, Requester, keys};
use crate::config::Config;
use crate::observe::ancestry::{self, Ancestor, Ancestors, Family, Lineage};
use crate::observe::assemble::{self, Wrapper};
use crate::observe::cache::{Cache, Key, KindKey};
use crate::observe::kin::Kin;
use crate::observe::pod_record::PodRecord;
use crate::observe::raw_object::RawObject;
use crate::observe::records::{Controller, Identity, ObjectRecord};
use crate::observe::retry_sources::{self, Attach, RetrySource};
use crate::observe::{jobs, nodes, workload};
use crate::plan::FreshRead;
use crate::printable::truncate_chars;
use crate::snapshot::workload::WorkloadRead;
use crate::snapshot::{Component, FailedJob, Pod, Presence, Snapshot};
use crate::tuning::{Limits, shortened};
use crate::webhook::default::default;
use crate::webhook::validate::{self, Finding, Severity};

/// The longest finding, in characters: it may quote the manifest.
const FINDING_CHARS_MAX: usize = 2000;

/// A bundle that was read: an AppWrapper and the objects around it.
pub(in crate::cli) struct Bundle {
    pub seen: RawObject,
    pub wrapper: Arc<Wrapper>,
    objects: Vec<Found>,
    /// Why the webhook would deny an AppWrapper that is not created yet, and what the API server does not know of it.
    notes: Vec<String>,
    is_denied: bool,
}

/// An object of the bundle.
struct Found {
    api_version: String,
    group: String,
    kind: String,
    seen: RawObject,
}

impl Bundle {
    /// Reads the objects of a bundle. An AppWrapper that is not created yet becomes what the webhook makes of it.
    ///
    /// # Errors
    /// There is not exactly one AppWrapper, or something cannot be read.
    pub(in crate::cli) fn of(
        documents: Vec<Document>,
        config: &Config,
        now: Timestamp,
    ) -> Result<Self, String> {
        for document in &documents {
            check(document)?;
        }
        let (mut wrapper, mut others) = the_appwrapper(documents)?;
        let mut notes = if is_created(&wrapper) { vec![] } else { admit(&mut wrapper, config) };
        let is_denied = !notes.is_empty();
        let is_unknown = |finding: &Finding| finding.message.starts_with("unknown field");
        notes.extend(findings(&wrapper, config, is_unknown));
        complete(&mut wrapper, &mut others, now);
        let (seen, wrapper) = stored(&wrapper, config)?;
        none_twice(&others)?;
        let objects = others.iter().map(found).collect::<Result<_, _>>()?;
        Ok(Self { seen, wrapper, objects, notes, is_denied })
    }

    /// What its objects show.
    pub(in crate::cli) fn inputs(&self, config: &Config) -> ExplainInputs {
        let mut inputs = of(&self.wrapper, snapshot(&self.wrapper, &self.objects, config));
        inputs.notes.extend(self.notes.iter().cloned());
        ExplainInputs { is_denied: self.is_denied, ..inputs }
    }

    /// The objects around the AppWrapper, with their kinds.
    pub(in crate::cli) fn into_objects(self) -> Vec<(KindKey, RawObject)> {
        let keyed = |found: Found| {
            (KindKey { api_version: found.api_version, kind: found.kind }, found.seen)
        };
        self.objects.into_iter().map(keyed).collect()
    }
}

/// The objects by what an owner reference says: group, kind, name and UID.
struct Owners<'o>(BTreeMap<(&'o str, &'o str, &'o str, &'o str), &'o Found>);

impl<'o> Owners<'o> {
    fn of(objects: &'o [Found]) -> Self {
        let mut all = BTreeMap::new();
        for found in objects {
            let meta = &found.seen.meta;
            if let (Some(name), Some(uid)) = (&meta.name, &meta.uid) {
                let key = (found.group.as_str(), found.kind.as_str(), name.as_str(), uid.as_str());
                all.entry(key).or_insert(found);
            }
        }
        Self(all)
    }

    /// The object of an owner reference.
    fn get(&self, owner: &Controller) -> Option<&'o Found> {
        let group = bundle::group(&owner.api_version);
        let key = (group, owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str());
        self.0.get(&key).copied()
    }
}

/// What the objects of a bundle show.
///
/// # Errors
/// There is not exactly one AppWrapper, or something cannot be read.
pub(super) fn inputs(
    documents: Vec<Document>,
    config: &Config,
    now: Timestamp,
) -> Result<ExplainInputs, String> {
    Ok(Bundle::of(documents, config, now)?.inputs(config))
}

/// What these objects show of an AppWrapper.
pub(in crate::cli) fn shown(
    wrapper: &Wrapper,
    objects: &[(KindKey, RawObject)],
    config: &Config,
) -> Snapshot {
    let found = |(key, seen): &(KindKey, RawObject)| Found {
        api_version: key.api_version.clone(),
        group: bundle::group(&key.api_version).to_owned(),
        kind: key.kind.clone(),
        seen: seen.clone(),
    };
    let objects: Vec<Found> = objects.iter().map(found).collect();
    snapshot(wrapper, &objects, config)
}

/// An AppWrapper, and what was seen around it.
pub(super) fn of(wrapper: &Wrapper, snapshot: Snapshot) -> ExplainInputs {
    ExplainInputs {
        snapshot,
        wrapper: wrapper.clone(),
        notes: wrapper.flaws.named.clone(),
        unread: vec![],
        is_denied: false,
    }
}

fn check(document: &Document) -> Result<(), String> {
    for field in ["/apiVersion", "/metadata/name"] {
        if document.text(field).is_empty() {
            let field = field[1..].replace('/', ".");
            let kind = document.kind();
            return Err(format!("{}: {kind}: {field}: must be given", document.origin));
        }
    }
    Ok(())
}

/// The one AppWrapper, and the rest.
fn the_appwrapper(documents: Vec<Document>) -> Result<(Document, Vec<Document>), String> {
    let (mut wrappers, others): (Vec<_>, Vec<_>) =
        documents.into_iter().partition(|document| document.kind() == "AppWrapper");
    if let Some(other) = wrappers.iter().find(|document| !document.is_ours("AppWrapper")) {
        let version = shortened(other.text("/apiVersion"));
        let why = format!("Invalid value: {version:?}: must be {GROUP}/v1beta2");
        return Err(unreadable(other, "apiVersion", &why));
    }
    match (wrappers.pop(), wrappers.len()) {
        (Some(wrapper), 0) => Ok((wrapper, others)),
        (Some(last), more) => {
            let named = |one: &Document| format!("{} ({})", one.text("/metadata/name"), one.origin);
            let found: Vec<_> = wrappers.iter().map(named).chain([named(&last)]).collect();
            let count = more + 1;
            Err(format!(
                "expected exactly one AppWrapper in the bundle, found {count}: {}",
                found.join(", ")
            ))
        }
        (None, _) if others.is_empty() => {
            Err(format!("expected exactly one AppWrapper of {GROUP}, but the bundle is empty"))
        }
        (None, _) => {
            let found = bundle::named(&others);
            Err(format!(
                "expected exactly one AppWrapper of {GROUP} in the bundle, found only {found}"
            ))
        }
    }
}

/// Whether it comes from a cluster, or has a status: then the webhook has filled it in.
fn is_created(document: &Document) -> bool {
    let given = |pointer: &str| match document.value.pointer(pointer) {
        None | Some(Value::Null) => false,
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_)) => true,
    };
    let pointers =
        ["/status", "/metadata/uid", "/metadata/resourceVersion", "/metadata/creationTimestamp"];
    pointers.into_iter().any(given)
}

/// Fills in what the webhook does, and says why it would deny the AppWrapper.
fn admit(document: &mut Document, config: &Config) -> Vec<String> {
    // who creates it is not known, and decides nothing
    let requester = document.value.pointer("/spec/requester").cloned().unwrap_or_default();
    let requester: Requester = serde_json::from_value(requester).unwrap_or_default();
    for op in default(&document.value, &requester, config) {
        op.apply(&mut document.value);
    }
    let denied = |text| format!("the webhook would deny it: {text}");
    errors(document, config).into_iter().map(denied).collect()
}

/// The errors that the webhook would report.
fn errors(document: &Document, config: &Config) -> Vec<String> {
    findings(document, config, |finding| finding.severity == Severity::Error)
}

/// The findings of `validate` of some kind.
fn findings(
    document: &Document,
    config: &Config,
    is_wanted: impl Fn(&Finding) -> bool,
) -> Vec<String> {
    let findings = validate::offline(&document.value, config);
    let wanted = findings.iter().filter(|finding| is_wanted(finding));
    wanted.map(|one| truncate_chars(&one.to_string(), FINDING_CHARS_MAX).into_owned()).collect()
}

fn stored(document: &Document, config: &Config) -> Result<(RawObject, Arc<Wrapper>), String> {
    let seen = found(document)?.seen;
    let read = Wrapper::read(&seen).map(Arc::new);
    let wrapper = read.map_err(|flaw| {
        let errors = errors(document, config);
        if !errors.is_empty() {
            let about = format!("{}: {}", document.origin, document.title());
            let lines: Vec<String> =
                errors.iter().map(|error| format!("{about}: {error}")).collect();
            return lines.join("\n");
        }
        let part = |name: &str| document.value.get(name).filter(|part| !part.is_null());
        let spec = part("spec").and_then(|spec| complaint::<AppWrapperSpec>(spec, "spec"));
        let status = || complaint::<AppWrapperStatus>(part("status")?, "status");
        match spec.or_else(status) {
            Some((field, why)) => unreadable(document, &field, &why),
            None => format!("{}: {}: {}", document.origin, document.title(), without_place(&flaw)),
        }
    })?;
    Ok((seen, wrapper))
}

/// Reads the metadata; the rest is read by its kind.
fn found(document: &Document) -> Result<Found, String> {
    match serde_json::from_str::<RawObject>(&document.value.to_string()) {
        Ok(seen) => {
            let (group, kind) = (document.group().to_owned(), document.kind().to_owned());
            let api_version = document.text("/apiVersion").to_owned();
            Ok(Found { api_version, group, kind, seen })
        }
        Err(error) => {
            let metadata = document.value.get("metadata").unwrap_or(&Value::Null);
            let complaint = complaint::<ObjectMeta>(metadata, "metadata");
            let general = || ("metadata".to_owned(), without_place(&error.to_string()));
            let (field, why) = complaint.unwrap_or_else(general);
            Err(unreadable(document, &field, &why))
        }
    }
}

fn unreadable(document: &Document, field: &str, why: &str) -> String {
    format!("{}: {}: {field}: {why}", document.origin, document.title())
}

/// Without the position, which refers to a text that the user has not written.
fn without_place(error: &str) -> String {
    error.split(" at line ").next().unwrap_or_default().to_owned()
}

fn none_twice(documents: &[Document]) -> Result<(), String> {
    let mut first = BTreeMap::new();
    for document in documents {
        if let Some(other) = first.insert(id(document), document) {
            return Err(format!(
                "{} is duplicated in the bundle: {}; {}",
                document.title(),
                other.origin,
                document.origin
            ));
        }
    }
    Ok(())
}

fn snapshot(wrapper: &Wrapper, objects: &[Found], config: &Config) -> Snapshot {
    let mut components: Vec<Component> = vec![];
    let named = by_name(wrapper, objects);
    let jobs: Vec<&RawObject> = objects_of(wrapper, objects)
        .filter(|found| found.group == "batch" && found.kind == "Job")
        .map(|found| &found.seen)
        .collect();
    for index in 0..wrapper.spec.components.len() {
        let mut component = wrapper.components[index].clone();
        let group = bundle::group(&component.api_version);
        component.presence = match named.get(&(group, &component.kind, &component.name)) {
            Some(found) => {
                let record = ObjectRecord::of(&found.seen, &component.api_version, &component.kind);
                wrapper.presence(index, record, &component.pod_sets, None)
            }
            None => Presence::Absent,
        };
        component.failed_jobs = failed_jobs(&component, &jobs);
        components.push(component);
    }
    let records: Vec<Arc<PodRecord>> = objects_of(wrapper, objects)
        .filter(|found| found.kind == "Pod" && found.group.is_empty())
        .map(|found| Arc::new(PodRecord::of(&found.seen)))
        .collect();
    let roots = wrapper.roots(&components);
    let pods = pods(wrapper, &records, &roots, &components, objects);
    let cache = Cache::default();
    let mut snapshot = Snapshot {
        nodes: nodes(objects, config, &cache),
        components,
        pods,
        answered: FreshRead::Gone,
        ..wrapper.snapshot()
    };
    for found in objects {
        if let Some(kind) = retry_sources::kind_of(&found.group, &found.kind) {
            cache.put_retry_source(
                &kind,
                Key::of(&found.seen.meta),
                RetrySource::of(&found.seen, &kind),
            );
        }
    }
    snapshot.mark_failed_pods();
    let attach = attach(wrapper, config);
    retry_sources::fill(&mut snapshot, wrapper, &cache, &attach, &config.autopilot);
    snapshot.workload = workload_of(wrapper, objects);
    assume_replacement(&mut snapshot);
    snapshot
}

/// Its Workload, where the bundle has it.
fn workload_of(wrapper: &Wrapper, objects: &[Found]) -> WorkloadRead {
    let is_owned = |found: &&Found| {
        found.seen.meta.owner_references.iter().flatten().any(|owner| owner.uid == wrapper.uid)
    };
    let all: Vec<RawObject> = objects_of(wrapper, objects)
        .filter(|found| found.group == keys::KUEUE_GROUP && found.kind == "Workload")
        .filter(is_owned)
        .map(|found| found.seen.clone())
        .collect();
    let found = workload::of_owner(&all, &wrapper.uid);
    found.map_or(WorkloadRead::NotRead, |seen| WorkloadRead::Found(seen.into_snapshot()))
}

/// Kueue's settings are not read: by default it replaces failed nodes, where all pods have places in a topology.
pub(super) fn assume_replacement(snapshot: &mut Snapshot) {
    let is_read = !matches!(snapshot.workload, WorkloadRead::NotRead);
    snapshot.replaces_failed_nodes = is_read && snapshot.is_queued();
}

/// The pods of the bundle that are the AppWrapper's. A bundle rarely holds what stands between a component and
/// its pods: there, a pod whose owner is left out is the AppWrapper's where its label names the UID.
fn pods(
    wrapper: &Wrapper,
    records: &[Arc<PodRecord>],
    roots: &BTreeMap<String, Option<usize>>,
    components: &[Component],
    objects: &[Found],
) -> Vec<Pod> {
    let (mut kin, mut ancestors) = (Kin::default(), Ancestors::new());
    let owners = Owners::of(objects);
    for _ in 0..=ancestry::CHAIN_MAX {
        let family = Family::new(&wrapper.uid, roots, components, &kin);
        let mut unread = vec![];
        for record in records {
            if let Lineage::Unread(owner) = family.lineage(record, &ancestors) {
                unread.push((owner, record));
            }
        }
        if unread.is_empty() {
            break;
        }
        for (owner, record) in unread {
            if let Some(found) = owners.get(&owner) {
                let controller = Identity::of(&found.seen.meta).controller;
                ancestors.insert(owner, Ancestor::Exists(controller));
            } else if record.identity.appwrapper_uid.as_deref() == Some(&wrapper.uid) {
                kin.put_link(owner, record.pod_set.map(|(component, _)| component));
            } else {
                ancestors.insert(owner, Ancestor::Gone);
            }
        }
    }
    let family = Family::new(&wrapper.uid, roots, components, &kin);
    assemble::pods(records, &family, &ancestors).ours
}

/// The retry policies that the AppWrapper and the configuration name.
pub(in crate::cli) fn attach(wrapper: &Wrapper, config: &Config) -> Attach {
    let (limits, _) = Limits::of(&wrapper.annotations, &config.fault_tolerance);
    let default = config.retry_policy.default_policy_name.clone();
    Attach { own: limits.retry_policies, default }
}

fn failed_jobs(component: &Component, jobs: &[&RawObject]) -> Vec<FailedJob> {
    let Some((_, uid)) = jobs::failed_job_set(component) else { return vec![] };
    jobs::among(jobs.iter().copied(), uid, &component.parts)
}

/// The objects in the namespace of the AppWrapper.
fn objects_of<'o>(wrapper: &Wrapper, objects: &'o [Found]) -> impl Iterator<Item = &'o Found> {
    objects.iter().filter(|found| found.seen.meta.namespace.as_deref() == Some(&wrapper.namespace))
}

/// The same by group, kind and name.
fn by_name<'o>(
    wrapper: &Wrapper,
    objects: &'o [Found],
) -> BTreeMap<(&'o str, &'o str, &'o str), &'o Found> {
    let named = objects_of(wrapper, objects).map(|found| {
        let name = found.seen.meta.name.as_deref().unwrap_or_default();
        ((found.group.as_str(), found.kind.as_str(), name), found)
    });
    named.collect()
}

/// The nodes as the controller sees them, of which none is known to be gone; as places for pods they go into the cache.
fn nodes(
    objects: &[Found],
    config: &Config,
    cache: &Cache,
) -> BTreeMap<String, crate::snapshot::Node> {
    let marks = nodes::marks(&config.autopilot);
    let mut known = BTreeMap::new();
    for found in objects.iter().filter(|found| found.kind == "Node" && found.group.is_empty()) {
        let (mut node, site) = nodes::node(&found.seen, &marks);
        node.lost = node.lost.filter(|_| config.autopilot.monitor_nodes);
        known.insert(site.name.clone(), node.clone());
        cache.put_node(node, site);
    }
    cache.nodes_listed(&known.keys().cloned().collect());
    known
}
