//! Creates a component, as the running attempt.

use kube::api::PostParams;
use kube::core::{ApiResource, Request};
use kube::{Client, Resource};
use serde_json::Value;

use super::rights::{Asked, Rights};
use crate::client::{self, said};
use crate::decide::current_attempt;
use crate::kinds::{self, MustStore, NodeAntiAffinity, OwnershipLabels};
use crate::mutations::{self, Mutation};
use crate::observe::assemble::{Wrapper, kind_of};
use crate::observe::cache::Key;
use crate::observe::live::{self, Live};
use crate::observe::memory::NotCreated;
use crate::observe::raw_object::RawObject;
use crate::observe::records::ObjectRecord;
use crate::progress_server::Serving;
use crate::snapshot::{Component, CreationFailure, Owner, Presence};

/// What the configuration says about a creation.
#[derive(Clone, Debug, Default)]
pub struct Settings<'a> {
    /// Scheduler of the pods that name none.
    pub scheduler_name: Option<&'a str>,
    /// Marks of nodes that pods stay away from, where they use a resource.
    pub aversions: Vec<NodeAntiAffinity>,
    /// What is asked about the user who created the AppWrapper.
    pub requester: Asked,
    /// Where pods report their progress, if the AppWrapper asks for it.
    pub progress: Serving,
}

/// Creates a component; an object of the same attempt that is there already is as good.
///
/// # Errors
/// Why there is none, and whether it is worth trying again.
pub async fn create(
    client: &Client,
    (live, rights): (&Live, &Rights),
    wrapper: &Wrapper,
    index: usize,
    component: &Component,
    settings: Settings<'_>,
) -> Result<ObjectRecord, NotCreated> {
    let kind = kind_of(component);
    let resource =
        live.in_own_version(client, &kind).await.map_err(|error| read_failure(&error))?;
    let allowed = rights.check(client, wrapper, &resource, settings.requester).await;
    allowed.map_err(unless_fatal)?;
    let attempt = current_attempt(&wrapper.status);
    let avoid_nodes = match &wrapper.status.avoid_nodes[..] {
        _ if mutations::is_present(Mutation::AvoidedNodeUsed) => &[],
        nodes => nodes,
    };
    let progress = match &settings.progress {
        // pods that could not report would count as hanging
        Serving::Starting if wrapper.spec.progress.is_some() => {
            let why = transient("the progress server has no certificate yet");
            return Err(unless_fatal(why));
        }
        Serving::Disabled | Serving::Starting => None,
        Serving::At(endpoint) => wrapper.spec.progress.as_ref().map(|_| &**endpoint),
    };
    let stamp = OwnershipLabels {
        appwrapper: &wrapper.name,
        uid: &wrapper.uid,
        attempt,
        namespace: &wrapper.namespace,
        component: index,
        queue: wrapper.queue.as_deref(),
        scheduler_name: settings.scheduler_name,
        avoid_nodes,
        suspect_nodes: wrapper.status.suspect_nodes.as_ref(),
        aversions: &settings.aversions,
        progress,
    };
    let object = kinds::render(&wrapper.component(index), &component.pod_sets, &stamp)
        .map_err(|flaw| fatal(format!("spec.components[{index}].{flaw}")))?;
    if let Some(why) = unstored(client, &resource, &wrapper.namespace, &object).await {
        return Err(fatal(why).into());
    }
    let params = PostParams::default();
    match post(client, &resource, &wrapper.namespace, &params, &object).await {
        Ok(seen) => Ok(ObjectRecord::of(&seen, &kind.api_version, &kind.kind)),
        // AlreadyExists, but also a conflict inside a quota or a webhook
        Err(error) if live::code(&error) == Some(409) => {
            let at = Key { namespace: wrapper.namespace.clone(), name: component.name.clone() };
            match live.object(client, &kind, &at).await {
                Ok(Some(found)) => Ok(adopt(wrapper, index, component, attempt, found)?),
                Ok(None) => Err(transient(said(&error)).into()),
                Err(error) => Err(NotCreated { may_exist: true, ..read_failure(&error) }),
            }
        }
        Err(error) if live::code(&error) == Some(404) => {
            // the namespace is going, or the kind is gone
            let missing = live.discover(client, &kind).await.err();
            Err(missing.map_or_else(|| write_failure(&error), |error| read_failure(&error)))
        }
        Err(error) => Err(write_failure(&error)),
    }
}

/// Why an object must not be created: a dry run shows that the API server drops what it must store. A dry run that is refused,
/// such as by a webhook that supports none, says nothing.
async fn unstored(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    object: &Value,
) -> Option<&'static str> {
    let MustStore { pointer, why } = kinds::must_store(object)?;
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let seen = post(client, resource, namespace, &params, object).await.ok()?;
    let stored: Value = serde_json::from_str(seen.raw.get()).ok()?;
    stored.pointer(pointer).is_none().then_some(why)
}

async fn post(
    client: &Client,
    resource: &ApiResource,
    namespace: &str,
    params: &PostParams,
    object: &Value,
) -> Result<RawObject, kube::Error> {
    let request = Request::new(RawObject::url_path(resource, Some(namespace)))
        .create(params, object.to_string().into_bytes())
        .map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}

/// What to make of an object that has the name already. Only our own of the same attempt is taken.
fn adopt(
    wrapper: &Wrapper,
    index: usize,
    component: &Component,
    attempt: i32,
    found: ObjectRecord,
) -> Result<ObjectRecord, CreationFailure> {
    let title = component.title();
    let Presence::Present(object) =
        wrapper.presence(index, found.clone(), &component.pod_sets, None)
    else {
        return Err(transient(format!("cannot determine the state of {title}")));
    };
    match object.owner {
        Owner::Stranger(who) if !object.terminating => {
            Err(fatal(format!("the object {}", Owner::of_unchanged(&who))))
        }
        Owner::Us if !object.terminating && object.attempt.is_none_or(|n| n == attempt) => {
            Ok(found)
        }
        Owner::Us | Owner::Former | Owner::Stranger(_) => Err(transient(object.holds_name())),
    }
}

pub(super) fn fatal(message: impl Into<String>) -> CreationFailure {
    CreationFailure { fatal: true, message: message.into() }
}

pub(super) fn transient(message: impl Into<String>) -> CreationFailure {
    CreationFailure { fatal: false, message: message.into() }
}

/// What is not refused for good is not known yet.
fn unless_fatal(why: CreationFailure) -> NotCreated {
    NotCreated { unanswered: !why.fatal, ..why.into() }
}

/// A read that is rejected refuses no creation: an API server that has just started denies what it allows a moment later.
fn read_failure(error: &live::Error) -> NotCreated {
    match error {
        live::Error::NoKind(_) | live::Error::NotNamespaced(_) => fatal(error.to_string()).into(),
        live::Error::Api { source, .. } => {
            let failure = write_failure(source);
            let why = transient(failure.why.message);
            NotCreated { why, may_exist: false, ..failure }
        }
    }
}

/// Invalid, forbidden and the like will not change by themselves; all else may.
fn write_failure(error: &kube::Error) -> NotCreated {
    let is_fatal =
        client::is_rejected_for_good(error) || mutations::is_present(Mutation::LostIsFailed);
    let why = CreationFailure { fatal: is_fatal, message: said(error) };
    let may_exist = live::code(error).is_none_or(|code| code >= 500);
    let unanswered = !client::concerns_one_object(error) || is_outage(error);
    NotCreated { why, retry_after: client::retry_after(error), may_exist, unanswered }
}

/// The API server, or a webhook that it calls, does not answer. A request ends with 504 where webhooks take all of its time,
/// also with `failurePolicy: Ignore`.
fn is_outage(error: &kube::Error) -> bool {
    matches!(live::code(error), Some(502..=504)) || client::lacks_webhook(error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::keys;

    #[test]
    fn an_object_of_another_attempt_is_not_taken() {
        let read =
            |object: Value| -> RawObject { serde_json::from_str(&object.to_string()).unwrap() };
        let template = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
            "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}}});
        let appwrapper = json!({"metadata": {"name": "aw", "namespace": "ns", "uid": "uid",
            "resourceVersion": "1"}, "spec": {"components": [{"template": template}]}});
        let wrapper = Wrapper::read(&read(appwrapper)).unwrap();
        let owner = json!([{"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
            "name": "aw", "uid": "uid", "controller": true}]);
        let (exists, goes) = (
            "an object of this name still exists (UID job)",
            "the name is held by a terminating object (UID job)",
        );
        for (attempt, deleted, want) in [
            ("2", None, Some(exists)),
            ("2", Some("2026-01-01T00:00:00Z"), Some(goes)),
            ("3", Some("2026-01-01T00:00:00Z"), Some(goes)),
            ("3", None, None),
        ] {
            let job = json!({"metadata": {"name": "j", "namespace": "ns", "uid": "job",
                "labels": {keys::ATTEMPT: attempt}, "ownerReferences": owner,
                "deletionTimestamp": deleted}});
            let found = ObjectRecord::of(&read(job), "batch/v1", "Job");
            let said = adopt(&wrapper, 0, &wrapper.components[0], 3, found).err();
            assert_eq!(said, want.map(transient), "{attempt} {deleted:?}");
        }
    }

    #[test]
    fn the_message_says_whose_the_object_is_that_has_the_name() {
        let read =
            |object: Value| -> RawObject { serde_json::from_str(&object.to_string()).unwrap() };
        let template = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        let appwrapper = json!({"metadata": {"name": "aw", "namespace": "ns", "uid": "uid",
            "resourceVersion": "1"}, "spec": {"components": [{"template": template}]}});
        let wrapper = Wrapper::read(&read(appwrapper)).unwrap();
        for (owners, want) in [
            (
                json!([]),
                "the object already exists, and no AppWrapper owns it; it is left unchanged: \
                 delete it, or use another name",
            ),
            (
                json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d",
                    "controller": true}]),
                "the object already exists and is owned by Deployment/d; it is left unchanged",
            ),
        ] {
            let found = json!({"metadata": {"name": "c", "namespace": "ns", "uid": "other",
                "ownerReferences": owners}});
            let found = ObjectRecord::of(&read(found), "v1", "ConfigMap");
            let said = adopt(&wrapper, 0, &wrapper.components[0], 0, found).err();
            assert_eq!(said, Some(fatal(want)));
        }
    }

    #[test]
    fn a_read_that_is_denied_refuses_no_creation() {
        let status = |message: &str| kube::core::Status {
            code: 403,
            message: message.to_owned(),
            ..kube::core::Status::default()
        };
        for message in [
            "forbidden: User \"a\" cannot get path \"/apis/batch/v1\"",
            "jobs.batch \"j\" is forbidden: User \"a\" cannot get resource \"jobs\"",
        ] {
            assert!(client::is_denied_by_authorizer(&status(message)), "{message}");
            let error = live::Error::api("get", kube::Error::Api(Box::new(status(message))));
            assert_eq!(read_failure(&error).why, transient(message));
        }
        let of_webhook = "admission webhook \"w\" denied the request: forbidden: User a may not";
        assert!(!client::is_denied_by_authorizer(&status(of_webhook)));
    }

    /// Code and message of an answer, and whether it is final.
    const ANSWERS: &[(u16, &str, bool)] = &[
        (422, "spec.replicas: Invalid value", true),
        (403, "jobs is forbidden: User x cannot create", true),
        (403, "pods is forbidden: exceeded quota: q", false),
        (403, "pods is forbidden: status unknown for quota: q, resources: pods", false),
        (403, "jobs.batch \"a\" is forbidden: not yet ready to handle request", false),
        (403, "pods \"a\" is forbidden: error looking up service account n/s: not found", false),
        (
            403,
            "pods \"a\" is forbidden: unable to CREATE pods at this time because there was an \
             error enforcing limit ranges",
            false,
        ),
        (403, "pods \"a\" is forbidden: etcdserver: leader changed", false),
        (
            403,
            "jobs.batch \"a\" is forbidden: cannot set blockOwnerDeletion in this case because \
             cannot find RESTMapping for APIVersion x/v1 Kind X: no matches for kind",
            false,
        ),
        (
            422,
            "jobs.batch \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' \
             denied request: failed to configure binding: paramKind kind not yet synced",
            false,
        ),
        (
            422,
            "jobs.batch \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no",
            true,
        ),
        // what the author of the object wrote does not count
        (
            422,
            "Job.batch \"a\" is invalid: x: Invalid value: \" denied request: failed to \
             configure \"",
            true,
        ),
        (400, "strict decoding error", true),
        (409, "conflict", false),
        (429, "too many requests", false),
        (500, "webhook failed", false),
        (500, "Internal error occurred: failed calling webhook \"x\": connection refused", false),
        (500, "conversion webhook for a/v1, Kind=A failed: Post \"https://w\": refused", false),
        (500, "conversion webhook for a/v1, Kind=A failed: spec.a is unknown", false),
        (502, "bad gateway", false),
        (503, "etcd", false),
        (504, "Timeout: request did not complete within requested timeout", false),
    ];

    #[test]
    fn only_what_will_not_change_by_itself_is_fatal() {
        for (code, message, want) in ANSWERS.iter().copied() {
            let status = kube::core::Status {
                code,
                message: message.to_owned(),
                ..kube::core::Status::default()
            };
            let failure = write_failure(&kube::Error::Api(Box::new(status)));
            let why = CreationFailure { fatal: want, message: message.into() };
            assert_eq!(failure.why, why, "{code}");
            assert_eq!(failure.may_exist, code >= 500, "{code}");
            let is_unanswered = matches!(code, 429 | 502..=504)
                || ["calling webhook", "failed: Post"].iter().any(|it| message.contains(it));
            assert_eq!(failure.unanswered, is_unanswered, "{code} {message}");
        }
    }
}
