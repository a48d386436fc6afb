//! Deletions: how each kind is deleted, and that a request is not sent twice in a row.

use super::carry_out::told_after;
use super::{Context, Error};
use crate::act::delete::{self, Deleted};
use crate::act::events::About;
use crate::decide::Warning;
use crate::kinds;
use crate::observe::assemble::kind_of;
use crate::observe::cache::KindKey;
use crate::observe::live;
use crate::observe::memory::ReconcileState;
use crate::plan::{Action, Orphan, Target};
use crate::snapshot::{Component, Snapshot};

/// A component with objects between itself and its pods is deleted after them, also with force, unless its
/// controller would make them again meanwhile. A second request would make it wait for them again: nothing is
/// sent while it is Terminating.
pub(super) fn how_to_delete(component: &Component, forced: bool) -> Option<delete::How> {
    let kind = kinds::Kind::of_any_version(&component.api_version, &component.kind);
    let made = kinds::Kind::made_by(&component.api_version, &component.kind);
    let last = !component.pod_sets.is_empty() && !made.is_empty() && !kind.recreates;
    let on_its_way = component.ours().is_some_and(|object| object.terminating);
    match (forced, last) {
        (false, false) => Some(delete::How::Graceful),
        (true, false) => Some(delete::How::Forced),
        (_, true) if on_its_way => None,
        (false, true) => Some(delete::How::GracefulLast),
        (true, true) => Some(delete::How::ForcedLast),
    }
}

/// The object to delete.
struct DeleteTarget<'a> {
    resource: &'a kube::core::ApiResource,
    name: &'a str,
    uid: &'a str,
}

/// Carries out an action that deletes; any other is none of this.
pub(super) async fn carry_out(
    context: &Context,
    memory: &mut ReconcileState,
    snapshot: &Snapshot,
    action: &Action,
) -> Result<(), Error> {
    match action {
        Action::Delete(target) => delete_one(context, memory, snapshot, target, false).await,
        Action::ForceDelete(target) => delete_one(context, memory, snapshot, target, true).await,
        Action::DeletePod { name, uid } => {
            delete_pod(context, memory, snapshot, (name, uid), delete::How::Graceful).await
        }
        Action::ForceDeletePod { name, uid } => {
            delete_pod(context, memory, snapshot, (name, uid), delete::How::Forced).await
        }
        Action::DeleteOrphan(Orphan { api_version, kind, name, uid }) => {
            let kind = KindKey { api_version: api_version.clone(), kind: kind.clone() };
            let object = (&kind, name.as_str(), uid.as_str());
            delete_object(context, memory, snapshot, object, delete::How::Graceful).await.map(drop)
        }
        Action::AddFinalizer
        | Action::Create(_)
        | Action::GrowMemory { .. }
        | Action::Suspend
        | Action::SwitchWorkload { .. }
        | Action::RemoveFinalizer => Ok(()),
    }
}

async fn delete_pod(
    context: &Context,
    memory: &mut ReconcileState,
    snapshot: &Snapshot,
    (name, uid): (&str, &str),
    how: delete::How,
) -> Result<(), Error> {
    let pod = DeleteTarget { resource: &live::pod_resource(), name, uid };
    send_delete(context, memory, snapshot, &pod, how).await.map(drop)
}

async fn delete_one(
    context: &Context,
    memory: &mut ReconcileState,
    snapshot: &Snapshot,
    target: &Target,
    forced: bool,
) -> Result<(), Error> {
    let component = &snapshot.components[target.component];
    let Some(how) = how_to_delete(component, forced) else { return Ok(()) };
    let kind = kind_of(component);
    let object = (&kind, component.name.as_str(), target.uid.as_str());
    match delete_object(context, memory, snapshot, object, how).await? {
        Deleted::AtOnce => memory.removed(target.component, &target.uid),
        Deleted::Later => {}
    }
    Ok(())
}

async fn delete_object(
    context: &Context,
    memory: &mut ReconcileState,
    snapshot: &Snapshot,
    (kind, name, uid): (&KindKey, &str, &str),
    how: delete::How,
) -> Result<Deleted, Error> {
    let resource = match context.live.resource(&context.client, kind).await {
        Ok(resource) => resource,
        // nothing of a kind that does not exist is left to delete
        Err(live::Error::NoKind(_) | live::Error::NotNamespaced(_)) => return Ok(Deleted::Later),
        Err(error @ live::Error::Api { .. }) => return Err(error.into()),
    };
    let target = DeleteTarget { resource: &resource, name, uid };
    send_delete(context, memory, snapshot, &target, how).await
}

async fn send_delete(
    context: &Context,
    memory: &mut ReconcileState,
    snapshot: &Snapshot,
    target: &DeleteTarget<'_>,
    how: delete::How,
) -> Result<Deleted, Error> {
    let forced = matches!(how, delete::How::Forced | delete::How::ForcedLast);
    memory.tick(context.clock.elapsed()); // deletions before it may have taken long
    if !memory.may_delete(target.uid, forced) {
        return Ok(Deleted::Later);
    }
    let DeleteTarget { resource, name, uid } = target;
    let sent = delete::delete(&context.client, resource, &snapshot.namespace, name, uid, how).await;
    if let Err(error) = &sent {
        let is_refused =
            error.is_rejected_for_good() || error.is_refused_for_now() || error.lacks_webhook();
        if memory.deletion_failed(uid, forced, is_refused, told_after(error)) {
            let object = format!("{}/{name}", resource.kind);
            let message = format!("Cannot delete {object}: {}", error.said());
            let about =
                About { namespace: &snapshot.namespace, name: &snapshot.name, uid: &snapshot.uid };
            context.warn(&about, &Warning { reason: "DeleteFailed", message });
        }
    } else {
        memory.deletion_accepted(uid);
        if forced {
            tracing::info!(kind = resource.kind, object = name, "Force-deleted.");
        }
    }
    Ok(sent?)
}
