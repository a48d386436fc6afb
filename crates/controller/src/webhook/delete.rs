//! What a deletion does to quota.
//!
//! Kueue frees quota by its own object, the Workload, which belongs to the AppWrapper. Deleted in the
//! background, an AppWrapper outlives its pods by its finalizer, and so does its Workload. In the
//! foreground the Workload is deleted first, with the AppWrapper's other dependents; and orphaned it
//! is no longer tied to the pods at all.

use serde_json::Value;

use super::response::{AdmissionResponse, Reason};
use super::review::{DeleteOptions, Review};
use crate::api::{Phase, condition, keys};
use crate::config::Config;

/// What deletes everything in a namespace that is deleted. The garbage collector is no exception: where the owner of an
/// AppWrapper is deleted in the foreground, it deletes the AppWrapper so too, for anybody.
const OF_NAMESPACES: &str = "system:serviceaccount:kube-system:namespace-controller";

/// A way to delete that does not wait for the pods before quota is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Early {
    Foreground,
    Orphan,
}

/// Answers a deletion: one that releases quota before the pods are gone is denied, or allowed with a warning
/// if the configuration says so.
#[must_use]
pub fn judge(review: &Review, config: &Config) -> AdmissionResponse {
    let Review { requester, old_object, options, .. } = review;
    let aw = &old_object.value;
    let concerns_quota = |early: &Early| match early {
        Early::Foreground => holds_quota(aw),
        Early::Orphan => holds_quota(aw) || may_get_quota(aw),
    };
    let early = early(options, aw).filter(concerns_quota);
    let Some(early) = early.filter(|_| requester.username != OF_NAMESPACES) else {
        return AdmissionResponse::default();
    };
    let what = match early {
        Early::Foreground => {
            "foreground deletion releases the quota while pods are still running: \
             Kueue's Workload is deleted first"
        }
        Early::Orphan => {
            "orphaning deletion detaches Kueue's Workload: quota is released while pods are still \
             running, or stays reserved after they are gone"
        }
    };
    let instead = "use background deletion instead: kubectl delete --cascade=background";
    if config.admission.refuse_foreground_deletion {
        AdmissionResponse::denied(Reason::Forbidden, &format!("{what}; {instead}"))
    } else {
        AdmissionResponse::warned([what.to_owned(), instead.to_owned()])
    }
}

/// Whether there may be pods that use quota: not once it has succeeded, although its resources are kept.
fn holds_quota(aw: &Value) -> bool {
    let has = |kind: &str, status: &str| {
        let mut conditions = aw["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|each| each["type"] == kind && each["status"] == status)
    };
    has(condition::RESOURCES_DEPLOYED, "True") && !has(condition::QUOTA_RESERVED, "False")
}

/// Whether Kueue may reserve quota for its Workload, also once nothing is left to run: it has a queue, and has not ended.
fn may_get_quota(aw: &Value) -> bool {
    let queue = aw["metadata"]["labels"][keys::QUEUE_NAME].as_str();
    let ended = [Phase::Succeeded, Phase::Failed];
    queue.is_some_and(|queue| !queue.is_empty())
        && ended.iter().all(|phase| aw["status"]["phase"] != phase.as_str())
}

/// What the options say; or else a finalizer, which means the same.
fn early(options: &DeleteOptions, aw: &Value) -> Option<Early> {
    match (options.propagation_policy.as_deref(), options.orphan_dependents) {
        (Some("Foreground"), _) => Some(Early::Foreground),
        (Some("Orphan"), _) | (None, Some(true)) => Some(Early::Orphan),
        (Some(_), _) | (None, Some(false)) => None,
        (None, None) => {
            let finalizers = aw["metadata"]["finalizers"].as_array().into_iter().flatten();
            let mut meant = finalizers.filter_map(|each| match each.as_str()? {
                "foregroundDeletion" => Some(Early::Foreground),
                "orphan" => Some(Early::Orphan),
                _ => None,
            });
            meant.next()
        }
    }
}
