//! An object as it comes over the wire: its metadata, and the rest unread.
//!
//! A list or a watch of typed objects fails as a whole when one of them cannot be read: an unknown
//! phase, a template nested 10,000 deep. Here the rest of the object is skipped over, which cannot
//! fail, and read object by object afterwards.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    ManagedFieldsEntry, ObjectMeta, OwnerReference, Time,
};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object: its metadata, and the whole of it as JSON text.
#[derive(Clone, Debug)]
pub struct RawObject {
    /// Metadata, without annotations of no use here. Of `managedFields` it only tells whether somebody applies the
    /// object on the server's side: one entry then, else none.
    pub meta: ObjectMeta,
    /// The whole object.
    pub raw: Box<RawValue>,
    /// Whether it has neither `managedFields` nor what `kubectl apply` has noted: nothing large that is never read.
    pub(super) is_lean: bool,
    /// Where `spec` and `status` are in it: so nobody has to look for them again.
    spec: Option<Range<usize>>,
    status: Option<Range<usize>>,
}

impl RawObject {
    /// The text of `spec`, where there is one.
    #[must_use]
    pub fn spec(&self) -> Option<&str> {
        self.raw.get().get(self.spec.clone()?)
    }

    /// The text of `status`, where there is one.
    #[must_use]
    pub fn status(&self) -> Option<&str> {
        self.raw.get().get(self.status.clone()?)
    }
}

/// The part of the metadata that is used. `managedFields` mirrors a hostile object's depth.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeanMeta<'a> {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    creation_timestamp: Option<Time>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    owner_references: Option<Vec<OwnerReference>>,
    #[serde(default)]
    finalizers: Option<Vec<String>>,
    #[serde(borrow, default)]
    managed_fields: Option<&'a RawValue>,
}

/// What one client, or one that applies the object, has written.
#[derive(Deserialize)]
struct Managed<'a> {
    #[serde(borrow, default)]
    operation: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    metadata: LeanMeta<'a>,
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

/// Where a part of a text is in it.
fn range(whole: &str, part: &RawValue) -> Option<Range<usize>> {
    let (whole, part) = (whole.as_bytes().as_ptr_range(), part.get().as_bytes().as_ptr_range());
    let start = part.start.addr().checked_sub(whole.start.addr())?;
    Some(start..start + (part.end.addr() - part.start.addr()))
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let Parts { metadata, spec, status } =
            serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        let [spec, status] = [spec, status].map(|part| range(raw.get(), part?));
        let is_lean = metadata.is_lean();
        Ok(Self { meta: metadata.into(), raw, is_lean, spec, status })
    }
}

/// The annotation in which `kubectl apply` notes the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The operation of `kubectl apply --server-side`.
const APPLY: &str = "Apply";

/// Whether somebody applies an object on the server's side, by its `managedFields`.
fn is_applied(managed_fields: &RawValue) -> bool {
    let all: Result<Vec<Managed<'_>>, _> = serde_json::from_str(managed_fields.get());
    !all.is_ok_and(|all| all.iter().all(|each| each.operation.as_deref() != Some(APPLY)))
}

impl LeanMeta<'_> {
    fn is_lean(&self) -> bool {
        let annotations = self.annotations.as_ref();
        self.managed_fields.is_none_or(|all| all.get() == "[]")
            && annotations.is_none_or(|all| !all.contains_key(LAST_APPLIED))
    }
}

impl From<LeanMeta<'_>> for ObjectMeta {
    fn from(lean: LeanMeta<'_>) -> Self {
        let applied = ManagedFieldsEntry {
            operation: Some(APPLY.to_owned()),
            ..ManagedFieldsEntry::default()
        };
        Self {
            managed_fields: lean
                .managed_fields
                .filter(|all| is_applied(all))
                .map(|_| vec![applied]),
            name: lean.name,
            namespace: lean.namespace,
            uid: lean.uid,
            resource_version: lean.resource_version,
            generation: lean.generation,
            deletion_timestamp: lean.deletion_timestamp,
            deletion_grace_period_seconds: lean.deletion_grace_period_seconds,
            creation_timestamp: lean.creation_timestamp,
            labels: lean.labels,
            annotations: lean.annotations.map(|mut all| {
                all.remove(LAST_APPLIED);
                all
            }),
            owner_references: lean.owner_references,
            finalizers: lean.finalizers,
            ..Self::default()
        }
    }
}

/// Implements `kube::Resource` for what is read of objects whose kind is known at run time only: where its `ObjectMeta` is, and
/// whether the API server is asked for the metadata alone.
macro_rules! resource_of_any_kind {
    ($type:ty, $($meta:tt).+, metadata_only: $metadata_only:literal) => {
        impl ::kube::Resource for $type {
            type DynamicType = ::kube::core::ApiResource;
            type Scope = ::kube::core::DynamicResourceScope;

            fn metadata_api() -> bool {
                $metadata_only
            }

            fn kind(resource: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                resource.kind.as_str().into()
            }

            fn group(resource: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                resource.group.as_str().into()
            }

            fn version(resource: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                resource.version.as_str().into()
            }

            fn api_version(resource: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                resource.api_version.as_str().into()
            }

            fn plural(resource: &Self::DynamicType) -> ::std::borrow::Cow<'_, str> {
                resource.plural.as_str().into()
            }

            fn meta(&self) -> &::kube::core::ObjectMeta {
                &self.$($meta).+
            }

            fn meta_mut(&mut self) -> &mut ::kube::core::ObjectMeta {
                &mut self.$($meta).+
            }
        }
    };
}
pub(crate) use resource_of_any_kind;

resource_of_any_kind!(RawObject, meta, metadata_only: false);

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};

    use super::*;

    fn deep(levels: usize) -> String {
        let nest = format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        format!(
            r#"{{"metadata":{{"name":"deep","managedFields":[{nest}]}},"spec":{nest},"status":3}}"#
        )
    }

    #[test]
    fn a_hostile_object_does_not_hide_the_others_of_a_list() {
        let good = r#"{"metadata":{"name":"good","uid":"u"}}"#;
        let text = format!(
            r#"{{"kind":"XList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":[{},{good}]}}"#,
            deep(9_000)
        );
        let list: ObjectList<RawObject> = serde_json::from_str(&text).unwrap();
        let names: Vec<_> =
            list.items.iter().filter_map(|seen| seen.meta.name.as_deref()).collect();
        assert_eq!(names, ["deep", "good"]);
        assert!(serde_json::from_str::<serde_json::Value>(list.items[0].raw.get()).is_err());
    }

    #[test]
    fn who_applies_an_object_is_kept_and_no_other_manager() {
        let update = r#"{"manager":"kubectl","operation":"Update","fieldsV1":{"f:spec":{}}}"#;
        let apply = r#"{"manager":"argocd","operation":"Apply","fieldsV1":{"f:spec":{}}}"#;
        for (managers, want) in [
            (String::new(), false),
            (update.to_owned(), false),
            (apply.to_owned(), true),
            (format!("{update},{apply}"), true),
            // nothing is taken away where that is not known
            ("7".to_owned(), true),
        ] {
            let text = format!(r#"{{"metadata":{{"managedFields":[{managers}]}}}}"#);
            let seen: RawObject = serde_json::from_str(&text).unwrap();
            assert_eq!(seen.meta.managed_fields.is_some(), want, "{managers}");
            let again = serde_json::json!({ "metadata": seen.meta }).to_string();
            let again: RawObject = serde_json::from_str(&again).unwrap();
            assert_eq!(again.meta.managed_fields.is_some(), want, "{managers}");
        }
        let seen: RawObject = serde_json::from_str(r#"{"metadata":{}}"#).unwrap();
        assert_eq!(seen.meta.managed_fields, None);
    }

    #[test]
    fn a_hostile_object_does_not_end_a_watch() {
        let text = format!(r#"{{"type":"ADDED","object":{}}}"#, deep(9_000));
        match serde_json::from_str::<WatchEvent<RawObject>>(&text).unwrap() {
            WatchEvent::Added(seen) => assert_eq!(seen.meta.name.as_deref(), Some("deep")),
            other => panic!("{other:?}"),
        }
    }
}
