//! The reviews that the API server is asked for, and their answers.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::webhook::Identity;
use crate::webhook::authorize::AccessError;

/// No single answer is waited for longer: the API server itself waits a few seconds for admission.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Something that is done to the objects of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// Verb, such as `create`.
    pub verb: &'static str,
    /// Where; none: in all namespaces.
    pub namespace: Option<String>,
    /// API group; empty for the core group.
    pub group: String,
    /// Version of the API group.
    pub version: String,
    /// The resource: the plural that paths have, and a subresource after it: `pods/log`.
    pub resource: String,
}

impl Access {
    fn attributes(self) -> ResourceAttributes {
        let Self { verb, namespace, group, version, resource } = self;
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), Some(subresource.to_owned())),
            None => (resource, None),
        };
        ResourceAttributes {
            verb: Some(verb.to_owned()),
            namespace,
            group: Some(group),
            version: Some(version),
            resource: Some(resource),
            subresource,
            // Kubernetes authorizes a creation without looking at a name
            name: None,
            ..ResourceAttributes::default()
        }
    }
}

/// Whether somebody has a right. The caller says how long an answer may take.
///
/// # Errors
/// Where that cannot be told.
pub async fn may(client: &Client, who: &Identity, access: Access) -> Result<bool, AccessError> {
    let what = described(&access);
    verdict(ask(client, who, access).await?, &what)
}

/// The same for who acts on a denial for good: one that nobody gave, beside an error of an authorizer, is none.
///
/// # Errors
/// Where that cannot be told.
pub async fn may_for_good(
    client: &Client,
    who: &Identity,
    access: Access,
) -> Result<bool, AccessError> {
    let what = described(&access);
    let status = ask(client, who, access).await?;
    let undecided = status.as_ref().filter(|it| !it.allowed && it.denied != Some(true));
    match undecided.and_then(|it| it.evaluation_error.as_deref()).filter(|why| !why.is_empty()) {
        Some(why) => {
            let message = format!("{what}: {}", crate::tuning::shortened(why));
            Err(AccessError { message, source: None })
        }
        None => verdict(status, &what),
    }
}

async fn ask(
    client: &Client,
    who: &Identity,
    access: Access,
) -> Result<Option<SubjectAccessReviewStatus>, AccessError> {
    let what = described(&access);
    let review = subject_review(who, access);
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await;
    let failed = |error| AccessError { message: what, source: Some(Box::new(error)) };
    Ok(answer.map_err(failed)?.status)
}

/// What is asked about a user.
pub(super) fn described(access: &Access) -> String {
    format!("check whether the user can {} {}", access.verb, access.resource)
}

/// Whether we have a right ourselves.
///
/// # Errors
/// Where that cannot be told.
pub async fn may_i(client: &Client, access: Access) -> Result<bool, AccessError> {
    let what = format!("check whether the controller can {} {}", access.verb, access.resource);
    let review = SelfSubjectAccessReview {
        metadata: ObjectMeta::default(),
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(access.attributes()),
            non_resource_attributes: None,
        },
        status: None,
    };
    let answer = created(client, &review, &what).await?;
    verdict(answer.status, &what)
}

/// The user name by which the API server knows us.
///
/// # Errors
/// Where it does not say.
pub async fn own_account(client: &Client) -> Result<String, AccessError> {
    let what = "get the controller's own user name";
    let answer = created(client, &SelfSubjectReview::default(), what).await?;
    let name = answer.status.and_then(|status| status.user_info?.username);
    name.filter(|name| !name.is_empty()).ok_or_else(|| AccessError {
        message: format!("{what}: the response has none"),
        source: None,
    })
}

/// A review with everything that an authorizer may look at.
fn subject_review(who: &Identity, access: Access) -> SubjectAccessReview {
    let Identity { username, uid, groups, extra } = who;
    SubjectAccessReview {
        metadata: ObjectMeta::default(),
        spec: SubjectAccessReviewSpec {
            user: Some(username.clone()),
            uid: (!uid.is_empty()).then(|| uid.clone()),
            groups: Some(groups.clone()),
            extra: Some(extra.clone()),
            resource_attributes: Some(access.attributes()),
            non_resource_attributes: None,
        },
        status: None,
    }
}

/// An `evaluationError` beside a verdict does not make the verdict less certain.
fn verdict(status: Option<SubjectAccessReviewStatus>, what: &str) -> Result<bool, AccessError> {
    match status {
        Some(status) => Ok(status.allowed && status.denied != Some(true)),
        None => Err(AccessError {
            message: format!("{what}: the response has no status"),
            source: None,
        }),
    }
}

async fn created<K>(client: &Client, review: &K, what: &str) -> Result<K, AccessError>
where
    K: Resource<Scope = k8s_openapi::ClusterResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    in_time(what, api.create(&PostParams::default(), review)).await
}

/// An answer of the API server, or why there is none.
///
/// # Errors
/// Where it failed, or did not come in time.
pub async fn in_time<T>(
    what: &str,
    answer: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, AccessError> {
    let failed = |error| AccessError { message: what.to_owned(), source: Some(Box::new(error)) };
    soon(what, async { answer.await.map_err(failed) }).await
}

/// The same of an answer that says itself why there is none.
///
/// # Errors
/// Where it failed, or did not come in time.
pub async fn soon<T>(
    what: &str,
    answer: impl Future<Output = Result<T, AccessError>>,
) -> Result<T, AccessError> {
    tokio::time::timeout(ANSWER_WITHIN, answer).await.unwrap_or_else(|_| {
        let message = format!("{what}: no response within {} s", ANSWER_WITHIN.as_secs());
        Err(AccessError { message, source: None })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn access() -> Access {
        Access {
            verb: "create",
            namespace: Some("team".into()),
            group: "batch".into(),
            version: "v1".into(),
            resource: "jobs".into(),
        }
    }

    #[test]
    fn a_review_has_the_whole_identity_and_no_name() {
        let who: Identity = serde_json::from_value(json!({
            "username": "alice", "uid": "u-1", "groups": ["a", "b"],
            "extra": {"example.org/scope": ["x", "y"]},
        }))
        .unwrap();
        let body = serde_json::to_value(subject_review(&who, access())).unwrap();
        let want = json!({
            "user": "alice", "uid": "u-1", "groups": ["a", "b"],
            "extra": {"example.org/scope": ["x", "y"]},
            "resourceAttributes": {
                "verb": "create", "namespace": "team", "group": "batch", "version": "v1",
                "resource": "jobs",
            },
        });
        assert_eq!(body["spec"], want);
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        let status = |allowed, denied| {
            let evaluation_error = Some("cannot resolve a role".to_owned());
            Some(SubjectAccessReviewStatus { allowed, denied, evaluation_error, reason: None })
        };
        for (status, want) in [
            (status(true, None), Some(true)),
            (status(true, Some(false)), Some(true)),
            (status(true, Some(true)), Some(false)),
            (status(false, None), Some(false)),
            (status(false, Some(true)), Some(false)),
            (None, None),
        ] {
            assert_eq!(verdict(status.clone(), "ask").ok(), want, "{status:?}");
        }
    }
}
