//! Condition types and reasons, and the one way to set a condition.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// Condition: quota is reserved for this AppWrapper, and Kueue must not give it to another.
pub const QUOTA_RESERVED: &str = "QuotaReserved";
/// Condition: components or pods of this AppWrapper exist or may exist.
pub const RESOURCES_DEPLOYED: &str = "ResourcesDeployed";
/// Condition: every expected pod is Running or Succeeded.
pub const PODS_READY: &str = "PodsReady";
/// Condition: something failed; the reason says what.
pub const UNHEALTHY: &str = "Unhealthy";
/// Condition: the components are being deleted.
pub const DELETING_RESOURCES: &str = "DeletingResources";
/// Condition: an attached RetryPolicy does not exist or cannot be used.
pub const POLICY_NOT_FOUND: &str = "PolicyNotFound";
/// Condition: success is delayed by pods whose owner cannot be determined.
pub const UNDETERMINED_PODS: &str = "UndeterminedPods";
/// Condition: more pods are live than the AppWrapper declares and Kueue has admitted.
pub const PODS_OVER_QUOTA: &str = "PodsOverQuota";
/// Condition: the first cause of the last failure, and what was decided. It exists only in a worker cluster of
/// MultiKueue, and where Kueue copies it: in the manager cluster. There, `status.attempts` is empty.
pub const LAST_FAILURE: &str = "LastFailure";
/// Condition of a component in `componentStatus`: it said that it succeeded.
pub const COMPONENT_SUCCEEDED: &str = "Succeeded";

/// Reasons of `Unhealthy`; the first six are the Go project's.
pub mod unhealthy {
    /// A component could not be created.
    pub const CREATE_FAILED: &str = "CreateFailed";
    /// A component that was created is gone.
    pub const MISSING_COMPONENT: &str = "MissingComponent";
    /// A component says that it failed.
    pub const FAILED_COMPONENT: &str = "FailedComponent";
    /// A pod failed and its component has not made up for it.
    pub const FOUND_FAILED_PODS: &str = "FoundFailedPods";
    /// A node was marked `NoExecute` for a resource that a pod uses.
    pub const AUTOPILOT_NO_EXECUTE: &str = "AutopilotNoExecute";
    /// Too few pods are there, or run, for too long.
    pub const INSUFFICIENT_PODS_READY: &str = "InsufficientPodsReady";
    /// No pod reports progress for longer than `spec.progress` allows.
    pub const STALLED: &str = "Stalled";
    /// A pod stays Terminating for longer than `forcefulDeletionGracePeriod`.
    pub const STUCK_TERMINATING: &str = "StuckTerminating";
    /// Pods cannot be scheduled for as long as `onNoFit` allows.
    pub const NO_FIT: &str = "NoFit";
    /// Nothing is wrong (any more). Go's reason for clearing the condition.
    pub const FOUND_NO_FAILED_PODS: &str = "FoundNoFailedPods";
}

/// Reasons of `DeletingResources`.
pub mod deleting {
    /// The components are being deleted in the ordinary way.
    pub const INITIATED: &str = "DeletionInitiated";
    /// The grace period has expired; what is left is deleted with grace period 0.
    pub const FORCED: &str = "ForcefulDeletion";
    /// Only pods whose owner cannot be determined are left.
    pub const UNDETERMINED: &str = "UndeterminedPods";
    /// Everything is gone.
    pub const COMPLETE: &str = "DeletionComplete";
    /// Waits for `deletionOnFailureGracePeriod`.
    pub const PAUSED: &str = "DeletionPaused";
}

/// Reasons of `PodsReady`.
pub mod ready {
    /// Every expected pod runs or has succeeded.
    pub const SUFFICIENT: &str = "SufficientPodsReady";
}

/// Finds the condition of a type.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether the condition of a type is True.
#[must_use]
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == "True")
}

/// Whether a deletion is being forced, and something still exists.
#[must_use]
pub fn is_deletion_forced(conditions: &[Condition]) -> bool {
    is_deleting(conditions, &[deleting::FORCED])
}

/// Whether a deletion is being forced, or waits for pods whose owner cannot be determined, and something still exists.
#[must_use]
pub fn is_deletion_stuck(conditions: &[Condition]) -> bool {
    is_deleting(conditions, &[deleting::FORCED, deleting::UNDETERMINED])
}

fn is_deleting(conditions: &[Condition], reasons: &[&str]) -> bool {
    find(conditions, DELETING_RESOURCES)
        .is_some_and(|found| found.status == "True" && reasons.contains(&found.reason.as_str()))
}

/// When the condition of a type took the status that it has.
#[must_use]
pub fn since(conditions: &[Condition], kind: &str) -> Option<Timestamp> {
    find(conditions, kind).map(|condition| condition.last_transition_time.0)
}

/// Sets a condition; its transition time moves only when its status changes.
///
/// The message is kept while status and reason stay, so that a count in it never causes a write.
/// Use [`set_message`] for a message that must follow what is seen.
pub fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let unchanged = find(conditions, kind)
        .is_some_and(|old| old.status == status_text(status) && old.reason == reason);
    if !unchanged {
        set_message(conditions, kind, status, reason, message, now);
    }
}

/// Sets a condition and its message; its transition time moves only when its status changes.
pub fn set_message(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let status = status_text(status);
    let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    if let Some(old) = conditions.iter_mut().find(|condition| condition.type_ == kind) {
        if old.status != status {
            status.clone_into(&mut old.status);
            old.last_transition_time = Time(now);
        }
        reason.clone_into(&mut old.reason);
        old.message = message;
    } else {
        conditions.push(Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: Time(now),
            observed_generation: None,
        });
    }
}

/// The longest message of a condition; the API allows 32,768 bytes, which would crowd the object.
const MESSAGE_CHARS_MAX: usize = 1024;

const fn status_text(status: bool) -> &'static str {
    if status { "True" } else { "False" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_transition_time_moves_with_the_status_alone() {
        let mut conditions = vec![];
        set(&mut conditions, UNHEALTHY, false, "A", "one", at(1));
        set(&mut conditions, UNHEALTHY, false, "B", "two", at(2));
        assert_eq!(since(&conditions, UNHEALTHY), Some(at(1)));
        assert_eq!(conditions[0].message, "two");
        set(&mut conditions, UNHEALTHY, true, "B", "three", at(3));
        assert_eq!(since(&conditions, UNHEALTHY), Some(at(3)));
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn a_message_alone_does_not_change_a_condition_that_stays() {
        let mut conditions = vec![];
        set(&mut conditions, UNHEALTHY, true, "A", "1 pod", at(1));
        let before = conditions.clone();
        set(&mut conditions, UNHEALTHY, true, "A", "2 pods", at(2));
        assert_eq!(conditions, before);
        set_message(&mut conditions, UNHEALTHY, true, "A", "2 pods", at(2));
        assert_eq!(conditions[0].message, "2 pods");
        assert_eq!(since(&conditions, UNHEALTHY), Some(at(1)));
    }

    #[test]
    fn a_message_is_bounded() {
        let mut conditions = vec![];
        set(&mut conditions, UNHEALTHY, true, "A", &"é".repeat(5000), at(1));
        assert_eq!(conditions[0].message.chars().count(), MESSAGE_CHARS_MAX);
    }
}
