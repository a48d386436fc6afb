//! From a review and what is known to the response.
//!
//! Everything that needs no cluster is judged at once; where a cluster has to be asked as well, a
//! [`ClusterChecks`] says what.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::authorize::{AccessError, Named, NamedKind, Wrapped};
use super::default::default;
use super::delete;
use super::refill::refill;
use super::response::{AdmissionResponse, Op, Reason};
use super::review::{Operation, Resource, Review};
use super::validate::{self, Finding, Requester, Severity};
use super::{Identity, carried};
use crate::api::{PodSet, keys};
use crate::config::Config;
use crate::kinds::{Recorded, Reference, check_declared, record, reference};
use crate::kueue::WaitForPodsReady;
use crate::price::POLICY_NAMES_MAX;
use crate::tuning::names;

/// The most objects that are read because they describe pods: each costs a request.
const REFERENCES_MAX: usize = 8;

/// What is asked for, by the path of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// Fill in an AppWrapper.
    MutateAppWrapper,
    /// Judge an AppWrapper.
    ValidateAppWrapper,
    /// Judge a RetryPolicy.
    ValidateRetryPolicy,
}

impl Endpoint {
    /// All of them.
    pub const ALL: [Self; 3] =
        [Self::MutateAppWrapper, Self::ValidateAppWrapper, Self::ValidateRetryPolicy];

    /// The path of the request. Go: those that Kubebuilder makes of group, version and kind.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::MutateAppWrapper => "/mutate-workload-codeflare-dev-v1beta2-appwrapper",
            Self::ValidateAppWrapper => "/validate-workload-codeflare-dev-v1beta2-appwrapper",
            Self::ValidateRetryPolicy => "/validate-workload-codeflare-dev-v1alpha1-retrypolicy",
        }
    }

    /// Its name as a label of metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MutateAppWrapper => "mutate-appwrapper",
            Self::ValidateAppWrapper => "validate-appwrapper",
            Self::ValidateRetryPolicy => "validate-retrypolicy",
        }
    }

    /// What it is asked about.
    #[must_use]
    pub const fn resource(self) -> Resource {
        match self {
            Self::MutateAppWrapper | Self::ValidateAppWrapper => Resource::AppWrappers,
            Self::ValidateRetryPolicy => Resource::RetryPolicies,
        }
    }
}

/// How far a review is, as far as no cluster is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewStep {
    /// That is it.
    Final(AdmissionResponse),
    /// So far there is no error; a cluster has to be asked.
    Ask(ClusterChecks),
    /// Objects have to be read first that describe the pods of components.
    Read(Reading),
}

/// Objects that describe the pods of components, and what is filled in besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    answer: AdmissionResponse,
    /// Of each component, by its index.
    pub references: Vec<(usize, Reference)>,
}

/// What a cluster has to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterChecks {
    /// What was found so far.
    findings: Vec<Finding>,
    /// The components that are to be created.
    components: Vec<usize>,
    /// Whether the requester must be allowed to create them, and not the controller alone.
    pub check_user: bool,
    /// What it names, and what should exist.
    pub named: Vec<Named>,
}

/// Judges a review; `kueue` says how long Kueue waits for pods, and `own_account` is the user name of this
/// controller, where they are known.
#[must_use]
pub fn judge(
    endpoint: Endpoint,
    review: &Review,
    config: &Config,
    kueue: Option<WaitForPodsReady>,
    own_account: Option<&str>,
) -> ReviewStep {
    match (endpoint, review.operation) {
        (Endpoint::MutateAppWrapper, Operation::Create) => fill_in(review, config),
        (Endpoint::MutateAppWrapper, Operation::Update) => {
            ReviewStep::Final(follow(review, config, own_account))
        }
        (Endpoint::ValidateAppWrapper, Operation::Create) => create(review, config, kueue),
        (Endpoint::ValidateAppWrapper, Operation::Update) => update(review, config, own_account),
        (Endpoint::ValidateAppWrapper, Operation::Delete) => {
            ReviewStep::Final(delete::judge(review, config))
        }
        (Endpoint::ValidateRetryPolicy, Operation::Create | Operation::Update) => {
            ReviewStep::Final(retry_policy(review, config))
        }
        (Endpoint::MutateAppWrapper | Endpoint::ValidateRetryPolicy, Operation::Delete) => {
            ReviewStep::Final(AdmissionResponse::default())
        }
    }
}

fn fill_in(review: &Review, config: &Config) -> ReviewStep {
    let Review { object, requester, .. } = review;
    let (bytes, most) = (requester.bytes(), Identity::BYTES_MAX);
    if bytes > most {
        let message = format!(
            "spec.requester must be at most {most} bytes, but user name, UID, groups and extra of \
             the user take {bytes}; create this AppWrapper as a user with fewer groups"
        );
        return ReviewStep::Final(AdmissionResponse::denied(Reason::Forbidden, &message));
    }
    if object.too_deep {
        return ReviewStep::Final(AdmissionResponse::default());
    }
    let patch = default(&object.value, requester, config);
    let answer = AdmissionResponse { patch, ..AdmissionResponse::default() };
    let references = references(&object.value);
    if references.is_empty() {
        ReviewStep::Final(answer)
    } else {
        ReviewStep::Read(Reading { answer, references })
    }
}

/// The annotation with the policies follows `spec`, and components keep what was filled in.
fn follow(review: &Review, config: &Config, own_account: Option<&str>) -> AdmissionResponse {
    let Review { object, old_object, .. } = review;
    let requester = Requester::of(review, config, own_account);
    let mut patch = vec![];
    if !object.too_deep {
        if !requester.is_kueue && !requester.is_controller {
            patch = refill(&old_object.value, &object.value, config);
        }
        // it depends on `managedBy`, which may have been left out
        let mut filled = Cow::Borrowed(&object.value);
        for op in &patch {
            op.apply(filled.to_mut());
        }
        patch.extend(carried::on_update(&filled));
    }
    AdmissionResponse { patch, ..AdmissionResponse::default() }
}

impl Requester {
    fn of(review: &Review, config: &Config, own_account: Option<&str>) -> Self {
        let username = review.requester.username.as_str();
        Self {
            is_kueue: username == config.admission.kueue_account,
            is_controller: own_account == Some(username),
        }
    }
}

/// The objects that describe the pods of components.
fn references(aw: &Value) -> Vec<(usize, Reference)> {
    let all = components(aw).iter().enumerate().filter(|(_, component)| component.is_object());
    let of = |(i, component): (usize, &Value)| Some((i, reference(&component["template"])?));
    all.filter_map(of).collect()
}

impl Reading {
    /// What is read: the objects of the first components.
    #[must_use]
    pub fn wanted(&self) -> BTreeSet<&Reference> {
        self.references.iter().take(REFERENCES_MAX).map(|(_, reference)| reference).collect()
    }

    /// The answer, with what was read of each component, whatever it declares. A component of which nothing was read
    /// has no pod sets, and validation says so.
    #[must_use]
    pub fn filled(self, review: &Review, found: &BTreeMap<Reference, Value>) -> AdmissionResponse {
        let Self { mut answer, references } = self;
        for (number, (i, reference)) in references.iter().enumerate() {
            let component = &components(&review.object.value)[*i];
            let (name, kind, index) = (&reference.name, reference.kind, i.to_string());
            let at = |field| ["spec", "components", index.as_str(), field];
            // each may be as large as what was read: as many as were asked for, also of one object
            let read = found.get(reference).filter(|_| number < REFERENCES_MAX);
            let recorded = read.map(|read| record(&component["template"], read));
            let pod_sets = match recorded.transpose() {
                Ok(Some(Recorded { template, mut pod_sets })) => {
                    answer.patch.push(Op::set(&at("template"), template));
                    let declared: Vec<PodSet> =
                        serde_json::from_value(component["podSets"].clone()).unwrap_or_default();
                    keep_annotations(&mut pod_sets, &declared);
                    if !is_same(&declared, &pod_sets) {
                        answer.warnings.push(format!(
                            "spec.components[{i}].podSets: replaced with the pod sets of {kind} {name}"
                        ));
                    }
                    pod_sets
                }
                Ok(None) => vec![],
                Err(error) => {
                    answer.warnings.push(format!(
                        "spec.components[{i}]: cannot read the pods of {kind} {name}: {error}"
                    ));
                    vec![]
                }
            };
            let has_declared = component["podSets"].as_array().is_some_and(|sets| !sets.is_empty());
            if has_declared || !pod_sets.is_empty() {
                answer.patch.push(Op::set(&at("podSets"), json!(pod_sets)));
            }
        }
        answer
    }
}

/// Adds the annotations of the declared pod sets to those that were read.
fn keep_annotations(read: &mut [PodSet], declared: &[PodSet]) {
    for set in read {
        let same = declared.iter().find(|other| other.path == set.path);
        set.annotations.extend(same.into_iter().flat_map(|other| other.annotations.clone()));
    }
}

/// Whether nothing is declared, or what was read. The numbers come first: nobody has limited that of the declared yet,
/// and each of them is compared with all others.
fn is_same(declared: &[PodSet], read: &[PodSet]) -> bool {
    declared.is_empty() || declared.len() == read.len() && check_declared(declared, read).is_ok()
}

fn create(review: &Review, config: &Config, kueue: Option<WaitForPodsReady>) -> ReviewStep {
    if review.object.too_deep {
        return ReviewStep::Final(AdmissionResponse::of(&[validate::too_deep()]));
    }
    let aw = &review.object.value;
    let mut findings = validate::create(aw, config);
    findings.extend(validate::waiting(aw, config, kueue));
    let check_user = config.admission.user_rbac_admission_check;
    let verdict = ask(findings, (0..components(aw).len()).collect(), check_user);
    match verdict {
        ReviewStep::Ask(checks) => ReviewStep::Ask(ClusterChecks { named: named(aw), ..checks }),
        ReviewStep::Final(_) | ReviewStep::Read(_) => verdict,
    }
}

/// The other objects that an AppWrapper names, each of which costs a request: its queue, and the RetryPolicies that are
/// regarded.
fn named(aw: &Value) -> Vec<Named> {
    let text = |part: &str, key: &str| aw["metadata"][part][key].as_str().unwrap_or_default();
    let queue = (NamedKind::LocalQueue, text("labels", keys::QUEUE_NAME));
    let policies = text("annotations", keys::RETRY_POLICIES).split(',').take(POLICY_NAMES_MAX);
    let policies = policies.map(|name| (NamedKind::RetryPolicy, name.trim()));
    std::iter::once(queue)
        .chain(policies)
        .filter(|(_, name)| names::is_subdomain(name))
        .map(|(kind, name)| Named { kind, name: name.to_owned() })
        .collect()
}

fn update(review: &Review, config: &Config, own_account: Option<&str>) -> ReviewStep {
    let requester = Requester::of(review, config, own_account);
    let (old, new) = (&review.old_object.value, &review.object.value);
    if let Some(finding) = validate::growth(old, new, requester) {
        return ReviewStep::Final(AdmissionResponse::of(&[finding]));
    }
    if is_settled(review) {
        return ReviewStep::Final(AdmissionResponse::default());
    }
    if review.object.too_deep && !review.old_object.too_deep {
        return ReviewStep::Final(AdmissionResponse::of(&[validate::too_deep()]));
    }
    let findings = validate::update(old, new, requester, config);
    // what is added to the pods is created with the rights of the requester, whoever adds it
    let changed = |i: &usize| {
        template(old, *i) != template(new, *i)
            || !requester.is_kueue && pod_set_infos(old, *i) != pod_set_infos(new, *i)
    };
    let changed = (0..components(new).len()).filter(changed).collect();
    // only the controller changes a template; what the user may create it has asked already
    let check_user = config.admission.user_rbac_admission_check && !requester.is_controller;
    ask(findings, changed, check_user)
}

/// Whether a change needs no validation: bookkeeping of a controller or the garbage collector in `metadata`,
/// or any change of mutable fields in an object that is being deleted.
fn is_settled(review: &Review) -> bool {
    const BOOKKEEPING: [&str; 6] = [
        "finalizers",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "generation",
        "deletionGracePeriodSeconds",
    ];
    let (old, new) = (&review.old_object.value, &review.object.value);
    if old["spec"] != new["spec"] {
        return false;
    }
    let (Some(old), Some(new)) = (old["metadata"].as_object(), new["metadata"].as_object()) else {
        return false;
    };
    if is_deleted(old) && is_deleted(new) {
        return [keys::USER, keys::USER_ID].iter().all(|key| label(old, key) == label(new, key));
    }
    let is_rest = |(name, _): &(&String, &Value)| !BOOKKEEPING.contains(&name.as_str());
    old.iter().filter(is_rest).eq(new.iter().filter(is_rest))
}

pub(super) fn is_deleted(metadata: &Map<String, Value>) -> bool {
    metadata.get("deletionTimestamp").is_some_and(|moment| !moment.is_null())
}

fn label<'a>(metadata: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    metadata.get("labels")?.get(key)
}

fn retry_policy(review: &Review, config: &Config) -> AdmissionResponse {
    let too_deep = |object: &super::review::Object| object.too_deep.then(validate::too_deep);
    let mut findings = validate::retry_policy(&review.object.value, config);
    findings.extend(too_deep(&review.object));
    if review.operation == Operation::Update {
        // what was wrong before is not held against it: it must still be possible to delete it
        let mut before = validate::retry_policy(&review.old_object.value, config);
        before.extend(too_deep(&review.old_object));
        findings.retain(|each| each.severity == Severity::Warning || !before.contains(each));
    }
    AdmissionResponse::of(&findings)
}

/// Asks about components, unless what is wrong already concerns them.
fn ask(findings: Vec<Finding>, components: Vec<usize>, check_user: bool) -> ReviewStep {
    let errors = || findings.iter().filter(|each| each.severity == Severity::Error);
    let in_metadata = |field: &str| field.starts_with("metadata.");
    let in_policy =
        |field: &str| field.starts_with("spec.") && !field.starts_with("spec.components");
    let is_apart = |each: &Finding| in_metadata(&each.field) || in_policy(&each.field);
    if components.is_empty() || !errors().all(is_apart) {
        return ReviewStep::Final(AdmissionResponse::of(&findings));
    }
    ReviewStep::Ask(ClusterChecks { findings, components, check_user, named: vec![] })
}

impl ClusterChecks {
    /// The objects to ask about.
    #[must_use]
    pub fn wrapped<'a>(&self, review: &'a Review) -> Vec<Wrapped<'a>> {
        let text = |value: &'a Value| value.as_str().unwrap_or_default();
        let of = |i: &usize| {
            // one that cannot be read is asked about too, and no such kind is known
            let template = template(&review.object.value, *i);
            Wrapped {
                path: format!("spec.components[{i}].template"),
                api_version: text(&template["apiVersion"]),
                kind: text(&template["kind"]),
                name: text(&template["metadata"]["name"]),
            }
        };
        self.components.iter().map(of).collect()
    }

    /// The answer, with what the cluster said.
    #[must_use]
    pub fn answered(self, found: Result<Vec<Finding>, AccessError>) -> AdmissionResponse {
        let Self { mut findings, components: _, check_user: _, named: _ } = self;
        match found {
            Ok(found) => {
                let may_not = found.iter().any(|each| each.severity == Severity::Error);
                findings.extend(found);
                let mut answer = AdmissionResponse::of(&findings);
                if let Some((reason, _)) = answer.denied.as_mut().filter(|_| may_not) {
                    *reason = Reason::Forbidden;
                }
                answer
            }
            Err(error) => {
                let message =
                    format!("cannot check access to the components, try again later: {error}");
                AdmissionResponse::denied(Reason::Unavailable, &message)
            }
        }
    }
}

fn template(aw: &Value, component: usize) -> &Value {
    components(aw).get(component).map_or(&Value::Null, |each| &each["template"])
}

fn pod_set_infos(aw: &Value, component: usize) -> &[Value] {
    let infos = components(aw).get(component).and_then(|each| each["podSetInfos"].as_array());
    infos.map_or(&[], Vec::as_slice)
}

fn components(aw: &Value) -> &[Value] {
    aw["spec"]["components"].as_array().map_or(&[], Vec::as_slice)
}
