//! What is kept of an object: the facts that decisions need, and nothing else.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::pod_record::PodRecord;
use super::raw_object::RawObject;
use crate::api::keys;
use crate::kinds::{self, Kind};
use crate::price::{KEPT_MESSAGE_BYTES_MAX, KEPT_WORD_BYTES_MAX};
use crate::snapshot::{Outcome, PodPhase, Report};

/// The longest name of an object.
const NAME_MAX: usize = 253;
/// The longest version, kind or UID.
const WORD_MAX: usize = 63;
/// How many finalizers of an object are kept, to name them.
const FINALIZERS_MAX: usize = 8;

/// Identity and ownership of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The controller that owns it; none where no request could be made from what the reference says.
    pub controller: Option<Controller>,
    /// Label: the AppWrapper's name.
    pub appwrapper: Option<String>,
    /// Label: the AppWrapper's UID.
    pub appwrapper_uid: Option<String>,
    /// Label: the attempt.
    pub attempt: Option<i32>,
    /// It has a deletion timestamp.
    pub terminating: bool,
    /// When its deletion was requested.
    pub deletion_requested: Option<Timestamp>,
    /// Finalizers that keep it.
    pub finalizers: Vec<String>,
}

/// A controller owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Controller {
    /// API version of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
}

/// A component's object, with whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectRecord {
    /// Identity and ownership.
    pub identity: Identity,
    /// What it says of itself; its pod sets in the order of `paths`.
    pub report: Report,
    /// Paths of its pod sets, as its own kind has them: an AppWrapper may declare another order.
    pub paths: Vec<String>,
    /// It does not say how many pods they have: they were recorded in it.
    pub lacks_counts: bool,
    /// What it was read from.
    pub(crate) content: Content,
}

/// Spec and status of an object, by their hash: whoever changes something else of it as often as he likes does not make
/// them be read again. Two records are the same whatever they were read from.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub(crate) struct Content(u64);

impl PartialEq for Content {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Content {
    fn of(seen: &RawObject) -> Self {
        let mut hasher = DefaultHasher::new();
        (seen.spec(), seen.status()).hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl Identity {
    /// Reads the metadata of an object.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Self {
        let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            controller: Controller::among(owners),
            appwrapper: label(keys::APPWRAPPER),
            appwrapper_uid: label(keys::APPWRAPPER_UID),
            attempt: label(keys::ATTEMPT).and_then(|text| text.parse().ok()),
            terminating: meta.deletion_timestamp.is_some(),
            deletion_requested: deletion_requested(
                meta.deletion_timestamp.as_ref(),
                meta.deletion_grace_period_seconds,
            ),
            finalizers: named_finalizers(meta.finalizers.as_deref().unwrap_or_default()),
        }
    }

    /// Whether its label does not name another AppWrapper than the one with this UID. The pods that the Go controller
    /// created have no such label.
    #[must_use]
    pub fn may_be_of(&self, uid: &str) -> bool {
        self.appwrapper_uid.as_deref().is_none_or(|own| own == uid)
    }
}

/// When the deletion of an object was requested, in whole seconds: its deletion timestamp without its grace period. The API
/// server adds that as a duration of Go, which wraps around where it is longer than 292 years.
pub(super) fn deletion_requested(due: Option<&Time>, grace: Option<i64>) -> Option<Timestamp> {
    let added = grace?.max(0).wrapping_mul(1_000_000_000);
    let requested = due?.0.checked_sub(SignedDuration::from_nanos(added)).ok()?;
    Timestamp::from_second(requested.as_second()).ok()
}

/// What is kept of the finalizers of an object.
pub(super) fn named_finalizers(all: &[String]) -> Vec<String> {
    all.iter().take(FINALIZERS_MAX).map(|name| name.chars().take(NAME_MAX).collect()).collect()
}

/// At most so many bytes of a text, and no more memory than they take.
pub(super) fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text.shrink_to_fit();
    text
}

/// What is kept of a reason, a type or the name of a container.
pub(super) fn word(text: String) -> String {
    cut(text, KEPT_WORD_BYTES_MAX)
}

/// What is kept of a message that was written for people: all of it, or its begin and its end.
pub(super) fn message(mut text: String) -> String {
    if text.len() > KEPT_MESSAGE_BYTES_MAX {
        let half = KEPT_MESSAGE_BYTES_MAX / 2;
        let begin = text.floor_char_boundary(half);
        let end = text.ceil_char_boundary(text.len() - half);
        text.replace_range(begin..end, "");
    }
    cut(text, KEPT_MESSAGE_BYTES_MAX)
}

impl Controller {
    /// The controller among the owners of an object.
    #[must_use]
    pub fn among(owners: &[OwnerReference]) -> Option<Self> {
        owners.iter().find(|owner| owner.controller == Some(true)).and_then(Self::of)
    }

    /// Reads an owner reference. The API server accepts anything that is not empty there, whatever its
    /// length: a reference that cannot be to an object, or that would lead a request elsewhere, is none.
    #[must_use]
    pub fn of(owner: &OwnerReference) -> Option<Self> {
        let plain = |text: &str, longest: usize, others: &[u8]| {
            let fits = |byte: &u8| byte.is_ascii_alphanumeric() || others.contains(byte);
            (1..=longest).contains(&text.len())
                && text.as_bytes().iter().all(fits)
                && text.as_bytes()[0].is_ascii_alphanumeric()
        };
        let (group, version) =
            owner.api_version.rsplit_once('/').unwrap_or(("v", &owner.api_version));
        let is_plain = plain(group, NAME_MAX, b"-.")
            && plain(version, WORD_MAX, b"-")
            && plain(&owner.kind, WORD_MAX, b"")
            && plain(&owner.name, NAME_MAX, b"-._:")
            && plain(&owner.uid, WORD_MAX, b"-");
        is_plain.then(|| Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        })
    }

    /// Name for messages: `Kind/name`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    /// Whether both are references to the same object; another version of its group may be named.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.name == other.name
            && self.kind == other.kind
            && group(&self.api_version) == group(&other.api_version)
    }
}

/// The API group of an API version; none where that is the core group.
pub(crate) fn group(api_version: &str) -> Option<&str> {
    api_version.rsplit_once('/').map(|(group, _)| group)
}

impl ObjectRecord {
    /// Reads an object of a kind. One that cannot be read says nothing of itself, and neither does one of a kind that
    /// is not known in any version: it is not parsed, however large it is.
    #[must_use]
    pub fn of(seen: &RawObject, api_version: &str, kind: &str) -> Self {
        let identity = Identity::of(&seen.meta);
        if !Kind::of_any_version(api_version, kind).is_known() {
            return Self { identity, ..Self::default() };
        }
        let content = Content::of(seen);
        let Ok(mut object) = serde_json::from_str::<Value>(seen.raw.get()) else {
            return Self { identity, content, ..Self::default() };
        };
        // built-in kinds come without their kind in a list
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        let inferred = kinds::infer(&object).unwrap_or_default();
        let lacks_counts = inferred.is_empty();
        let pod_sets = if lacks_counts { kinds::recorded(&object) } else { inferred };
        let mut report = kinds::report(api_version, kind, &pod_sets, &object);
        if let Outcome::Failed { reason, message: told, .. } = &mut report.outcome {
            *reason = word(std::mem::take(reason));
            *told = message(std::mem::take(told));
        }
        let paths = pod_sets.into_iter().map(|set| set.path).collect();
        Self { identity, report, paths, lacks_counts, content }
    }

    /// Whether it was read from the same object with the same spec and status.
    pub(super) fn is_read_from(&self, seen: &RawObject) -> bool {
        seen.meta.uid.as_deref() == Some(&self.identity.uid)
            && self.content.0 == Content::of(seen).0
    }

    /// The same with other metadata.
    pub(super) fn with_meta(self, meta: &ObjectMeta) -> Self {
        Self { identity: Identity::of(meta), ..self }
    }

    /// A wrapped Pod, which is watched as a pod already.
    #[must_use]
    pub fn of_pod(record: &PodRecord) -> Self {
        let succeeded = record.pod.phase == PodPhase::Succeeded;
        let outcome = if succeeded { Outcome::Succeeded } else { Outcome::Active };
        let report = Report { outcome, unreplaced: BTreeSet::from([0]), ..Report::default() };
        let (identity, paths) = (record.identity.clone(), vec!["template".to_owned()]);
        Self { identity, report, paths, ..Self::default() }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LeanCondition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) last_transition_time: Option<Time>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_another_version_of_a_known_kind_is_read() {
        let succeeded = serde_json::json!({"type": "Succeeded", "status": "True"});
        let object = serde_json::json!({"metadata": {"name": "m", "uid": "u"},
            "status": {"conditions": [succeeded]}});
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        let outcome = |api_version| ObjectRecord::of(&seen, api_version, "MPIJob").report.outcome;
        assert_eq!(outcome("kubeflow.org/v2beta1"), Outcome::Succeeded);
        assert_eq!(outcome("example.com/v2beta1"), Outcome::Active);
    }

    #[test]
    fn what_an_object_tells_of_its_failure_has_a_bound() {
        let long = format!("{}\nMemoryError: end", "m".repeat(700 << 10));
        for text in ["short", &long] {
            let failed = serde_json::json!({"type": "Failed", "status": "True", "reason": text,
                "message": text});
            let object = serde_json::json!({"metadata": {"name": "j", "uid": "u"},
                "status": {"conditions": [failed]}});
            let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
            let outcome = ObjectRecord::of(&seen, "batch/v1", "Job").report.outcome;
            let Outcome::Failed { reason, message, .. } = &outcome else { panic!("{outcome:?}") };
            let want = [KEPT_WORD_BYTES_MAX, KEPT_MESSAGE_BYTES_MAX].map(|max| text.len().min(max));
            assert_eq!([reason.len(), message.len()], want);
            assert!(message.ends_with(text.lines().next_back().unwrap()), "{message}");
        }
        let letters = "é".repeat(KEPT_MESSAGE_BYTES_MAX);
        for text in [format!("m{letters}"), format!("{letters}m")] {
            assert_eq!(message(text).len(), KEPT_MESSAGE_BYTES_MAX - 1, "whole letters");
        }
    }

    /// What the API server adds is what its `time.Duration` comes to.
    #[test]
    fn a_deletion_was_requested_then_whatever_its_grace_period() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (grace, due) in [
            (0, 1_800_000_000),
            (30, 1_800_000_030),
            (9_223_372_036, 11_023_372_036), // the longest that does not wrap around
            (9_223_372_037, -7_423_372_037),
            (553_502_322_211, 1_899_999_999),
            (i64::MAX, 1_799_999_999),
        ] {
            let requested = deletion_requested(Some(&Time(at(due))), Some(grace)).unwrap();
            let off = requested.duration_since(at(1_800_000_000)).as_secs();
            assert!((-1..=0).contains(&off), "{grace}: {off} s");
        }
        assert_eq!(deletion_requested(Some(&Time(at(7))), None), None);
    }

    #[test]
    fn an_object_whose_label_names_no_uid_may_be_of_each() {
        for (label, want) in [(None, true), (Some("u"), true), (Some("v"), false)] {
            let appwrapper_uid = label.map(str::to_owned);
            let identity = Identity { appwrapper_uid, ..Identity::default() };
            assert_eq!(identity.may_be_of("u"), want, "{label:?}");
        }
    }

    #[test]
    fn an_owner_reference_from_which_no_request_can_be_made_is_none() {
        let good = ["batch/v1", "Job", "j-1.x", "0b1f-2"];
        let with = |at: usize, text: &str| {
            let mut parts = good.map(str::to_owned);
            text.clone_into(&mut parts[at]);
            let [api_version, kind, name, uid] = parts;
            let controller = Some(true);
            Controller::of(&OwnerReference {
                api_version,
                kind,
                name,
                uid,
                controller,
                ..OwnerReference::default()
            })
        };
        assert!(with(0, "v1").is_some() && with(0, "a-b.example.com/v1beta2").is_some());
        let long = "a".repeat(500_000);
        for (at, text) in [
            (0, ""),
            (0, "a/b/v1"),
            (0, "/v1"),
            (0, "batch/"),
            (0, "batch/../v1"),
            (1, "Jo/b"),
            (1, "J b"),
            (2, "a/../../secrets/s"),
            (2, "?watch=true"),
            (2, ".."),
            (2, "x%2F"),
            (2, "a\n"),
            (2, "é"),
            (3, ""),
            (3, "u/1"),
            (0, &long),
            (1, &long),
            (2, &long),
            (3, &long),
        ] {
            assert_eq!(with(at, text), None, "{at} {}", &text[..text.len().min(30)]);
        }
    }
}
