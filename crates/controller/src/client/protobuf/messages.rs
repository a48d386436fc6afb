//! The messages that are decoded, with the fields that are read of them. Their numbers are those of `generated.proto` of
//! `k8s.io/api/core/v1` and `k8s.io/apimachinery`.
//!
//! A text need not be UTF-8 there: whoever writes an object in protobuf chooses its bytes. So all but the API server's own
//! texts are read as bytes, and made texts as JSON from the API server would have them.

use bytes::Bytes;
use k8s_openapi::jiff::Timestamp;
use prost::Message;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::api::keys::POD_KEYS;

/// More than a field of a reference to an object may have: a group and a version.
const REFERENCE_BYTES_MAX: usize = 400;

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchEvent {
    #[prost(string, tag = "1")]
    pub(super) kind: String,
    #[prost(message, optional, tag = "2")]
    pub(super) object: Option<RawExtension>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) raw: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Unknown {
    #[prost(message, optional, tag = "1")]
    pub(super) type_meta: Option<TypeMeta>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) raw: Bytes,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TypeMeta {
    #[prost(string, tag = "1")]
    pub(super) api_version: String,
    #[prost(string, tag = "2")]
    pub(super) kind: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct PodList {
    #[prost(message, required, tag = "1")]
    pub(super) metadata: ListMeta,
    #[prost(message, repeated, tag = "2")]
    pub(super) items: Vec<Pod>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListMeta {
    #[prost(string, tag = "2")]
    pub(super) resource_version: String,
    #[prost(string, tag = "3")]
    #[serde(rename = "continue")]
    pub(super) continue_token: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Status {
    #[prost(message, required, tag = "1")]
    pub(super) metadata: ListMeta,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(rename = "status", serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) outcome: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) message: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) reason: Bytes,
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) details: Option<StatusDetails>,
    #[prost(int32, tag = "6")]
    pub(super) code: i32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusDetails {
    #[prost(int32, tag = "5")]
    pub(super) retry_after_seconds: i32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Pod {
    #[prost(message, required, tag = "1")]
    pub(super) metadata: ObjectMeta,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) spec: Option<PodSpec>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<PodStatus>,
}

impl Pod {
    /// Drops `managedFields` unless the pod is Failed: they are read only then.
    pub(super) fn drop_unread(&mut self) {
        if self.status.as_ref().is_none_or(|status| status.phase != "Failed") {
            self.metadata.managed_fields.clear();
        }
    }
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectMeta {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) name: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) namespace: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) uid: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) resource_version: Bytes,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "is_no_time")]
    pub(super) creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "9")]
    #[serde(skip_serializing_if = "is_no_time")]
    pub(super) deletion_timestamp: Option<Time>,
    #[prost(int64, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deletion_grace_period_seconds: Option<i64>,
    #[prost(message, repeated, tag = "11")]
    #[serde(serialize_with = "known", skip_serializing_if = "Vec::is_empty")]
    pub(super) labels: Vec<Entry>,
    #[prost(message, repeated, tag = "12")]
    #[serde(serialize_with = "known", skip_serializing_if = "Vec::is_empty")]
    pub(super) annotations: Vec<Entry>,
    #[prost(message, repeated, tag = "13")]
    #[serde(serialize_with = "controllers", skip_serializing_if = "Vec::is_empty")]
    pub(super) owner_references: Vec<OwnerReference>,
    #[prost(bytes = "bytes", repeated, tag = "14")]
    #[serde(serialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub(super) finalizers: Vec<Bytes>,
    #[prost(message, repeated, tag = "17")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) managed_fields: Vec<ManagedFields>,
}

/// When a subresource was written; not which fields of it.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct ManagedFields {
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "is_no_time")]
    pub(super) time: Option<Time>,
    #[prost(bytes = "bytes", tag = "8")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) subresource: Bytes,
}

/// An entry of a map from texts to texts.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Entry {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnerReference {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "reference")]
    pub(super) kind: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "reference")]
    pub(super) name: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    #[serde(serialize_with = "reference")]
    pub(super) uid: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    #[serde(serialize_with = "reference")]
    pub(super) api_version: Bytes,
    #[prost(bool, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) controller: Option<bool>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSpec {
    #[prost(message, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) containers: Vec<Container>,
    #[prost(bytes = "bytes", tag = "10")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) node_name: Bytes,
    #[prost(message, repeated, tag = "20")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) init_containers: Vec<Container>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text")]
    pub(super) name: Bytes,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resources: Option<Resources>,
    #[prost(bytes = "bytes", tag = "24")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) restart_policy: Bytes,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Resources {
    #[prost(message, repeated, tag = "1")]
    #[serde(serialize_with = "quantities", skip_serializing_if = "Vec::is_empty")]
    pub(super) limits: Vec<Amount>,
    #[prost(message, repeated, tag = "2")]
    #[serde(serialize_with = "quantities", skip_serializing_if = "Vec::is_empty")]
    pub(super) requests: Vec<Amount>,
}

/// An entry of a map from resources to quantities.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Amount {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) resource: Bytes,
    #[prost(message, optional, tag = "2")]
    pub(super) quantity: Option<Quantity>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Quantity {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) text: Bytes,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodStatus {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) phase: Bytes,
    #[prost(message, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) conditions: Vec<Condition>,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) message: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) reason: Bytes,
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "is_no_time")]
    pub(super) start_time: Option<Time>,
    #[prost(message, repeated, tag = "8")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) container_statuses: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "10")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(rename = "type", serialize_with = "text")]
    pub(super) kind: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text")]
    pub(super) status: Bytes,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "is_no_time")]
    pub(super) last_transition_time: Option<Time>,
    #[prost(bytes = "bytes", tag = "5")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) reason: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) message: Bytes,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct ContainerStatus {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text")]
    pub(super) name: Bytes,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<State>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct State {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waiting: Option<Waiting>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) running: Option<Running>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) terminated: Option<Terminated>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Waiting {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) reason: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) message: Bytes,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Running {}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Terminated {
    #[prost(int32, tag = "1")]
    pub(super) exit_code: i32,
    #[prost(int32, tag = "2")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) signal: i32,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) reason: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    pub(super) message: Bytes,
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "is_no_time")]
    pub(super) finished_at: Option<Time>,
}

/// A time of day; without seconds where there is none.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Time {
    #[prost(int64, optional, tag = "1")]
    pub(super) seconds: Option<i64>,
}

impl Time {
    fn moment(self) -> Option<Timestamp> {
        Timestamp::from_second(self.seconds?).ok()
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.moment().serialize(serializer)
    }
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
fn is_no_time(time: &Option<Time>) -> bool {
    time.and_then(Time::moment).is_none()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(number: &i32) -> bool {
    *number == 0
}

fn text<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

fn list<S: Serializer>(all: &[Bytes], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().map(|bytes| String::from_utf8_lossy(bytes)))
}

/// The labels or annotations that are read of a pod. JSON may be six times as long as a text of the others.
fn known<S: Serializer>(entries: &[Entry], serializer: S) -> Result<S::Ok, S::Error> {
    let is_read = |entry: &&Entry| POD_KEYS.iter().any(|key| key.as_bytes() == entry.key);
    let read = entries.iter().filter(is_read);
    map(read.map(|entry| (entry.key.clone(), entry.value.clone())), serializer)
}

/// The owner references that are read: that of the controller. One that is longer than any to an object is cut, which
/// makes it none.
fn controllers<S: Serializer>(all: &[OwnerReference], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().filter(|owner| owner.controller == Some(true)).take(1))
}

fn reference<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    text(&bytes.slice(..bytes.len().min(REFERENCE_BYTES_MAX)), serializer)
}

fn quantities<S: Serializer>(entries: &[Amount], serializer: S) -> Result<S::Ok, S::Error> {
    let amount = |entry: &'_ Amount| entry.quantity.clone().unwrap_or_default().text;
    map(entries.iter().map(|entry| (entry.resource.clone(), amount(entry))), serializer)
}

fn map<S: Serializer>(
    entries: impl Iterator<Item = (Bytes, Bytes)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (key, value) in entries {
        let [key, value] = [&key, &value].map(|bytes| String::from_utf8_lossy(bytes));
        map.serialize_entry(&key, &value)?;
    }
    map.end()
}
