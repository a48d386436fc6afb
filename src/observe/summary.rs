//! What is kept of every AppWrapper, whatever its size: enough to find it, to count it, and to know which
//! kinds to watch for it.

use std::collections::BTreeMap;

use super::assemble::{Wrapper, kind_of};
use super::cache::KindKey;
use crate::api::{Phase, condition, keys};
use crate::limits::{FaultTolerance, Limits, Period};

/// The facts of an AppWrapper that are needed between two reconciles.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that hold or do not, each by itself")]
pub struct Summary {
    /// Its phase.
    pub phase: Phase,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// `spec.suspend`.
    pub suspend: bool,
    /// This controller manages it.
    pub is_ours: bool,
    /// The LocalQueue that it names.
    pub queue: Option<String>,
    /// It names retry policies.
    pub names_retry_policies: bool,
    /// The kinds that it wraps, sorted, each once; those that name no kind are left out.
    pub kinds: Box<[KindKey]>,
    /// It expects pods.
    pub has_pods: bool,
    /// `QuotaReserved` is True.
    pub holds_quota: bool,
    /// It holds quota, or has held it.
    pub was_admitted: bool,
    /// Its deletion is being forced, and something still exists.
    pub is_deletion_stuck: bool,
    /// More pods live than it declares.
    pub is_over_quota: bool,
    /// Its annotation `forcefulDeletionGracePeriodDuration`.
    forceful_deletion_grace: Option<Box<str>>,
}

impl Summary {
    /// Summarises an AppWrapper.
    #[must_use]
    pub fn of(wrapper: &Wrapper) -> Self {
        let mut kinds: Vec<KindKey> = wrapper.components.iter().map(kind_of).collect();
        kinds.retain(|kind| !kind.kind.is_empty());
        kinds.sort();
        kinds.dedup();
        let grace = wrapper.annotations.get(keys::FORCEFUL_DELETION_GRACE);
        let holds_quota = condition::is_true(&wrapper.status.conditions, condition::QUOTA_RESERVED);
        Self {
            phase: wrapper.status.phase,
            deleting: wrapper.deleting,
            suspend: wrapper.spec.suspend,
            is_ours: wrapper.is_ours(),
            queue: wrapper.queue.clone(),
            names_retry_policies: wrapper.annotations.contains_key(keys::RETRY_POLICIES),
            kinds: kinds.into(),
            has_pods: wrapper.components.iter().any(|component| !component.pod_sets.is_empty()),
            holds_quota,
            was_admitted: holds_quota || !wrapper.status.attempts.is_empty(),
            is_deletion_stuck: condition::is_deletion_forced(&wrapper.status.conditions),
            is_over_quota: condition::is_true(
                &wrapper.status.conditions,
                condition::PODS_OVER_QUOTA,
            ),
            forceful_deletion_grace: grace.map(|text| text.as_str().into()),
        }
    }

    /// How long its deletion may take before it is forced.
    #[must_use]
    pub fn forceful_deletion_grace(&self, defaults: &FaultTolerance) -> Period {
        let own = self.forceful_deletion_grace.as_deref();
        let annotations: BTreeMap<String, String> = own
            .map(|text| (keys::FORCEFUL_DELETION_GRACE.to_owned(), text.to_owned()))
            .into_iter()
            .collect();
        Limits::of(&annotations, defaults).0.forceful_deletion_grace
    }
}
