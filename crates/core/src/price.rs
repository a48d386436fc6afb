//! What one AppWrapper may cost: the bounds of its sizes and counts, by name, and the largest status
//! that it can grow to.
//!
//! Admission rejects what exceeds a bound. The controller, which also finds objects that were not validated,
//! ignores the surplus and reports it; it never stops for it.

use std::io;

use serde_json::Value;

use crate::api::PodSet;

/// The most components of a new AppWrapper. Larger ones that are stored already are finished.
pub const COMPONENTS_MAX: usize = crate::api::NEW_COMPONENTS_MAX;
/// The most containers of a pod template, init containers included.
pub const CONTAINERS_MAX: usize = 128;
/// The most containers of a pod template that are told where to report progress: what is added to each has up
/// to 1 KiB, and an object has at most 10 pod templates.
pub const REPORTING_CONTAINERS_MAX: usize = 32;
/// The most terms of the required node affinity of a pod template: each is written to, where nodes are
/// avoided.
pub const NODE_TERMS_MAX: usize = 64;
/// The most expressions, fields and values of the required node affinity of a pod template together. A retry
/// that avoids nodes compares them with each node.
pub const NODE_REQUIREMENTS_MAX: usize = 512;
/// The most tolerations of a pod template, which are compared with the taints of each node.
pub const TOLERATIONS_MAX: usize = 64;
/// The most resources of a pod that are known: pods that ask for different ones each keep the names.
pub const POD_RESOURCES_MAX: usize = 32;
/// The most containers of a pod of which the state is known, init containers included: those of the template, and as many that
/// others add.
pub const POD_CONTAINERS_MAX: usize = 2 * CONTAINERS_MAX;
/// The most conditions of a pod that are known.
pub const POD_CONDITIONS_MAX: usize = 32;
/// The most bytes of a message that is kept of a pod or a Job. A kubelet passes on no more of a termination message.
pub const KEPT_MESSAGE_BYTES_MAX: usize = 4 << 10;
/// The most bytes of the messages that are kept of a pod together. A kubelet passes on 12 KiB of termination messages.
pub const POD_MESSAGES_BYTES_MAX: usize = 16 << 10;
/// The most bytes of a word that is kept of a pod or a Job: a reason, the name of a container, the type of a condition, which
/// Kubernetes allows 317 bytes.
pub const KEPT_WORD_BYTES_MAX: usize = 512;
/// The most retry policies that one annotation names.
pub const POLICY_NAMES_MAX: usize = 16;
/// The most bytes of the annotations that tune an AppWrapper, keys and values together.
pub const OWN_ANNOTATIONS_BYTES_MAX: usize = 4 << 10;
/// The most bytes of all annotations of an object, keys and values together. Kubernetes:
/// `TotalAnnotationSizeLimitB`.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;
/// The most bytes of the labels of an AppWrapper, keys and values together. Kubernetes has no bound.
pub const LABELS_BYTES_MAX: usize = 32 << 10;
/// The most bytes of an AppWrapper, as it is stored, with the largest status that it can grow to. An
/// API server stores 1.5 MiB; the rest is for what others write into it.
pub const OBJECT_BYTES_MAX: usize = 1 << 20;
/// The most bytes that `metadata` may grow to after the creation.
pub const METADATA_BYTES_MAX: usize = 320 << 10;
/// The most memory that `spec` may take when it is read.
pub const MEMORY_BYTES_MAX: usize = 5 << 19;
/// The most values that `spec` may have: fields and list items, however deep.
pub const SPEC_VALUES_MAX: usize = 32 << 10;

/// The most bytes of a message in the status.
pub const STATUS_MESSAGE_BYTES_MAX: usize = 1 << 10;
/// The most bytes of the name of a checkpoint.
pub const CHECKPOINT_BYTES_MAX: usize = 256;
/// The most attempts in the status.
pub const ATTEMPTS_MAX: usize = 10;
/// The most rules of which the status counts the retries. Each of them has restarted the AppWrapper.
pub const RETRY_COUNTS_MAX: usize = 64;
/// The most nodes that the status says to avoid.
pub const AVOIDED_NODES_MAX: usize = 16;
/// The most suspect nodes that an attempt avoids.
pub const SUSPECT_NODES_MAX: usize = 32;
/// The most conditions of the status: ours, and a few of others.
pub const CONDITIONS_MAX: usize = 12;

/// The most ignored pods of one attempt that the status names, and counts.
pub const IGNORED_PODS_MAX: usize = 64;

/// The most objects between components and their pods that the status names.
pub const POD_OWNERS_MAX: usize = 128;

/// What of a component shows in the status.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape<'a> {
    /// Name of its object.
    pub name: &'a str,
    /// Kind of its object.
    pub kind: &'a str,
    /// API version of its object.
    pub api_version: &'a str,
    /// Its pod sets, declared or inferred.
    pub pod_sets: &'a [PodSet],
    /// Bytes of the memory that can be pending in it: [`pending_bytes`] of the pod set with the most.
    pub pending: usize,
}

/// A text of a name: a subdomain of Kubernetes, which is stored as it is.
const NAME: usize = 253 + 2;
/// A text of a label: the hostname of a node.
const LABEL: usize = 63 + 2;
/// A moment, or a UID, or a number, with its key.
const SMALL: usize = 64;
/// A message whose every byte is stored as six (`\u003c`).
const MESSAGE: usize = 6 * STATUS_MESSAGE_BYTES_MAX + 2;
/// A condition without its message. Kubernetes: types of up to 316 characters, reasons of up to 1,024;
/// ours are words.
const CONDITION: usize = 5 * SMALL;
/// A condition of a component; it has no message.
const COMPONENT_CONDITIONS: usize = 2 * CONDITION;
/// What was recorded of one attempt: its moments, outcome, action and counts; the rule's policy and
/// name; of the failure pod, node, container, reason, category and message. The component's name is
/// extra.
const ATTEMPT: usize = 12 * SMALL + 8 * (NAME + SMALL) + MESSAGE + PROGRESS;
/// The last progress of an attempt: a moment, two numbers, and a checkpoint whose every byte is stored as six.
const PROGRESS: usize = 5 * SMALL + 6 * CHECKPOINT_BYTES_MAX + 2;
/// One of `retryCounts`.
const RETRY_COUNT: usize = NAME + 63 + 2 * SMALL;
/// The ledger `usage`: a state, a moment, and seconds by state.
const USAGE: usize = 12 * SMALL;
/// What stands once: phase, counts, anchors, keys, brackets.
const FRAME: usize = 2 << 10;

/// The largest status that an AppWrapper of these components can grow to, in bytes as it is stored.
///
/// | part | at most |
/// |---|---|
/// | `conditions` | [`CONDITIONS_MAX`] × (320 + a message) |
/// | `componentStatus` | for each component: name, kind, API version, its pod sets as they are written in `spec`, UID, 2 conditions without a message |
/// | `podOwners` | [`POD_OWNERS_MAX`] × a UID, over all components |
/// | `since.ignoredPods` | [`IGNORED_PODS_MAX`] × a UID |
/// | `attempts` | [`ATTEMPTS_MAX`] × (names, moments, a message, a checkpoint, the longest kind and name of a component) |
/// | `retryCounts` | [`RETRY_COUNTS_MAX`] × (a policy, a rule, a number) |
/// | `avoidNodes` | [`AVOIDED_NODES_MAX`] × a name |
/// | `suspectNodes` | [`SUSPECT_NODES_MAX`] × a label, and a word |
/// | `pendingMemory` | the containers of the pod set that has most of them |
/// | `since` | 6 moments, and one for each pod set |
/// | `usage` | a state, a moment, 8 numbers |
///
/// A message has at most [`STATUS_MESSAGE_BYTES_MAX`] bytes, each stored as up to six.
#[must_use]
pub fn largest_status<'a>(components: impl IntoIterator<Item = Shape<'a>>) -> usize {
    let mut sum = FRAME
        + USAGE
        + CONDITIONS_MAX * (CONDITION + MESSAGE)
        + RETRY_COUNTS_MAX * RETRY_COUNT
        + AVOIDED_NODES_MAX * (NAME + 1)
        + SUSPECT_NODES_MAX * (LABEL + 1)
        + SMALL
        + (POD_OWNERS_MAX + IGNORED_PODS_MAX) * SMALL;
    let (mut name, mut pending) = (0, 0);
    for each in components {
        let texts = text_bytes(each.name) + text_bytes(each.kind) + text_bytes(each.api_version);
        let pod_sets = each.pod_sets.iter().map(|set| stored_bytes(set) + SMALL + 3 * SMALL);
        sum += texts + 3 * SMALL + COMPONENT_CONDITIONS + pod_sets.sum::<usize>();
        name = name.max(text_bytes(each.kind) + text_bytes(each.name));
        pending = pending.max(each.pending);
    }
    sum + ATTEMPTS_MAX * (ATTEMPT + name) + pending
}

/// Bytes of what can be pending for containers of these names.
pub fn pending_bytes<'a>(containers: impl IntoIterator<Item = &'a str>) -> usize {
    containers.into_iter().map(|name| text_bytes(name) + 3 * SMALL).sum()
}

/// Bytes of a value as an API server stores it.
#[must_use]
pub fn stored_bytes(value: &(impl serde::Serialize + ?Sized)) -> usize {
    let mut size = StoredSize(0);
    // cannot fail: keys are texts, and the counter takes everything
    match serde_json::to_writer(&mut size, value) {
        Ok(()) => size.0,
        Err(_) => usize::MAX / 4,
    }
}

fn text_bytes(text: &str) -> usize {
    stored_bytes(text)
}

/// Counts what is written to it. Go writes `<`, `>`, `&` and two separators of lines as six bytes.
struct StoredSize(usize);

impl io::Write for StoredSize {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let escaped = bytes.iter().filter(|byte| matches!(byte, b'<' | b'>' | b'&')).count();
        let starts = bytes.iter().filter(|byte| matches!(byte, 0xe2)).count();
        self.0 += bytes.len() + 5 * escaped + 3 * starts;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Memory that a value takes when it is read, about: a small object takes a hundred times its text.
#[must_use]
pub fn memory_bytes(value: &Value) -> usize {
    /// Entries of a node of a map, of which it fills at least about the half.
    const NODE_ENTRIES: usize = 11;
    const KEY: usize = size_of::<String>();
    const SLOT: usize = size_of::<Value>();
    let mut sum = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        sum += match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => {
                open.extend(items);
                // a list grows by doubling while it is read
                if items.is_empty() { 0 } else { items.len().next_power_of_two().max(4) * SLOT }
            }
            Value::Object(fields) => {
                open.extend(fields.values());
                let keys = fields.keys().map(String::len).sum::<usize>();
                let nodes = fields.len().div_ceil(NODE_ENTRIES / 2);
                keys + nodes * NODE_ENTRIES * (KEY + SLOT)
            }
        };
    }
    sum
}

/// The number of values in a value, itself included.
#[must_use]
pub fn values(value: &Value) -> usize {
    let (mut count, mut open) = (0, vec![value]);
    while let Some(value) = open.pop() {
        count += 1;
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    count
}

#[cfg(test)]
mod tests;
