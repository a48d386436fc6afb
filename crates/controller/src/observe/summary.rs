//! What is kept of every AppWrapper, whatever its size: enough to find it, to count it, and to know which
//! kinds to watch for it.

use k8s_openapi::jiff::Timestamp;

use super::assemble::{Wrapper, kind_of};
use super::cache::KindKey;
use crate::api::{Phase, Usage, UsageState, condition, keys};
use crate::tuning::{FaultTolerance, Period};

/// The facts of an AppWrapper that are needed between two reconciles.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that hold or do not, each by itself")]
pub struct Summary {
    /// Its phase.
    pub phase: Phase,
    /// `status.since.gone` is set: all its resources are deleted, and no other attempt has begun.
    pub resources_deleted: bool,
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
    /// A template cannot be read: its status tells what it expects.
    pub is_flawed: bool,
    /// `QuotaReserved` is True.
    pub holds_quota: bool,
    /// It holds quota, or has held it.
    pub was_admitted: bool,
    /// Its deletion, or that of one component, is being forced; or that, or its success, waits for pods whose owner cannot be
    /// determined.
    pub is_stuck: bool,
    /// More pods live than it declares.
    pub is_over_quota: bool,
    /// Since when its quota is used for nothing, as far as its status says that.
    pub idle_since: Option<Timestamp>,
    /// Its annotation `forcefulDeletionGracePeriodDuration`, where that is a duration.
    forceful_deletion_grace: Option<Period>,
}

impl Summary {
    /// Summarises an AppWrapper.
    #[must_use]
    pub fn of(wrapper: &Wrapper) -> Self {
        let mut kinds: Vec<KindKey> = wrapper.components.iter().map(kind_of).collect();
        kinds.retain(|kind| !kind.kind.is_empty());
        kinds.sort();
        kinds.dedup();
        Self {
            suspend: wrapper.spec.suspend,
            is_ours: wrapper.is_ours(),
            kinds: kinds.into(),
            has_pods: wrapper.components.iter().any(|component| !component.pod_sets.is_empty()),
            is_flawed: wrapper.components.iter().any(|component| component.flaw.is_some()),
            ..Self::beside_spec(wrapper)
        }
    }

    /// Summarises a newer version with the same spec, of which only metadata and status were read; not one that is
    /// flawed.
    #[must_use]
    pub fn of_newer(&self, newer: &Wrapper) -> Self {
        let Self { suspend, is_ours, has_pods, is_flawed, .. } = *self;
        let kinds = self.kinds.clone();
        Self { suspend, is_ours, kinds, has_pods, is_flawed, ..Self::beside_spec(newer) }
    }

    /// What metadata and status say.
    fn beside_spec(wrapper: &Wrapper) -> Self {
        let (status, conditions) = (&wrapper.status, &wrapper.status.conditions);
        let grace = wrapper.annotations.get(keys::FORCEFUL_DELETION_GRACE);
        let holds_quota = condition::is_true(conditions, condition::QUOTA_RESERVED);
        let of_components = status.component_status.iter().map(|component| &component.conditions);
        let mut all_conditions = of_components.chain([conditions]);
        Self {
            phase: status.phase,
            resources_deleted: status.since.as_ref().is_some_and(|since| since.gone.is_some()),
            deleting: wrapper.deleting,
            suspend: false,
            is_ours: false,
            queue: wrapper.queue.clone(),
            names_retry_policies: wrapper.annotations.contains_key(keys::RETRY_POLICIES),
            kinds: Box::default(),
            has_pods: false,
            is_flawed: false,
            holds_quota,
            was_admitted: holds_quota || !status.attempts.is_empty(),
            is_stuck: all_conditions.any(|it| condition::is_deletion_stuck(it))
                || condition::is_true(conditions, condition::UNDETERMINED_PODS),
            is_over_quota: condition::is_true(conditions, condition::PODS_OVER_QUOTA),
            idle_since: status.usage.as_ref().and_then(idle_since),
            forceful_deletion_grace: grace.and_then(|text| text.parse().ok()),
        }
    }

    /// How long its deletion may take before it is forced.
    #[must_use]
    pub fn forceful_deletion_grace(&self, defaults: &FaultTolerance) -> Period {
        let own = self.forceful_deletion_grace.map(|own| own.min(defaults.grace_maximum));
        own.unwrap_or(defaults.forceful_deletion_grace)
    }
}

/// Since when an AppWrapper without running pods has probably had none: while it is torn down, its pods may still run.
fn idle_since(usage: &Usage) -> Option<Timestamp> {
    let is_idle = match usage.state? {
        UsageState::Waiting | UsageState::Starting | UsageState::Pause | UsageState::Idle => true,
        UsageState::Productive | UsageState::Lost | UsageState::Teardown => false,
    };
    usage.since.as_ref().filter(|_| is_idle).map(|since| since.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

    use super::*;
    use crate::api::condition::deleting;
    use crate::api::{AppWrapperSpec, AppWrapperStatus, ComponentStatus};
    use crate::tuning::Limits;

    #[test]
    fn a_deletion_that_is_forced_or_undetermined_is_stuck() {
        for (is_true, reason, want) in [
            (true, deleting::INITIATED, false),
            (true, deleting::FORCED, true),
            (true, deleting::UNDETERMINED, true),
            (false, deleting::FORCED, false),
            (false, deleting::COMPLETE, false),
        ] {
            let mut conditions = vec![];
            let (kind, now) = (condition::DELETING_RESOURCES, Timestamp::UNIX_EPOCH);
            condition::set(&mut conditions, kind, is_true, reason, "", now);
            let of_all =
                AppWrapperStatus { conditions: conditions.clone(), ..AppWrapperStatus::default() };
            let of_one = ComponentStatus { conditions, ..ComponentStatus::default() };
            let component_status = vec![ComponentStatus::default(), of_one];
            let of_component = AppWrapperStatus { component_status, ..AppWrapperStatus::default() };
            for status in [of_all, of_component] {
                let wrapper =
                    Wrapper::new(&ObjectMeta::default(), AppWrapperSpec::default(), status);
                assert_eq!(Summary::of(&wrapper).is_stuck, want, "{is_true} {reason}");
            }
        }
        for holds in [true, false] {
            let mut status = AppWrapperStatus::default();
            let (kind, now) = (condition::UNDETERMINED_PODS, Timestamp::UNIX_EPOCH);
            condition::set(&mut status.conditions, kind, holds, "OwnerUnknown", "", now);
            let wrapper = Wrapper::new(&ObjectMeta::default(), AppWrapperSpec::default(), status);
            assert_eq!(Summary::of(&wrapper).is_stuck, holds, "its success is held back");
        }
    }

    #[test]
    fn quota_is_idle_since_the_state_began_in_which_nothing_runs() {
        let since = Timestamp::UNIX_EPOCH;
        for (state, is_idle) in [
            (None, false),
            (Some(UsageState::Waiting), true),
            (Some(UsageState::Starting), true),
            (Some(UsageState::Idle), true),
            (Some(UsageState::Pause), true),
            (Some(UsageState::Productive), false),
            (Some(UsageState::Teardown), false),
        ] {
            let usage = Usage { state, since: Some(Time(since)), ..Usage::default() };
            assert_eq!(idle_since(&usage), is_idle.then_some(since), "{state:?}");
        }
    }

    #[test]
    fn the_grace_of_a_forceful_deletion_is_that_of_the_limits() {
        let defaults = FaultTolerance::default();
        for text in [None, Some("90s"), Some("0"), Some("99h"), Some("-1h"), Some("5 days")] {
            let annotations: BTreeMap<String, String> = text
                .map(|text| (keys::FORCEFUL_DELETION_GRACE.to_owned(), text.to_owned()))
                .into_iter()
                .collect();
            let meta =
                ObjectMeta { annotations: Some(annotations.clone()), ..ObjectMeta::default() };
            let wrapper =
                Wrapper::new(&meta, AppWrapperSpec::default(), AppWrapperStatus::default());
            let want = Limits::of(&annotations, &defaults).0.forceful_deletion_grace;
            assert_eq!(Summary::of(&wrapper).forceful_deletion_grace(&defaults), want, "{text:?}");
        }
    }
}
