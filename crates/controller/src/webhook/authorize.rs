//! The trait for the checks that need a cluster.

use std::error::Error;

use futures::future::BoxFuture;

use super::Identity;
use super::validate::Finding;
use crate::api::keys;
use crate::kinds::Reference;

/// Says whether wrapped objects may be created, by the requester and by the controller itself, and
/// whether their kinds exist and are namespaced. It asks a cluster.
pub trait Authorize: Send + Sync {
    /// The errors that prevent the creation of these objects in a namespace; none if it is allowed.
    /// The requester is checked only with `check_user`.
    ///
    /// # Errors
    /// The cluster did not respond: nothing is known, and the request must be denied.
    fn findings<'a>(
        &'a self,
        requester: &'a Identity,
        namespace: &'a str,
        wrapped: &'a [Wrapped<'a>],
        check_user: bool,
    ) -> BoxFuture<'a, Result<Vec<Finding>, AccessError>>;

    /// Warnings about objects that an AppWrapper of a namespace names and that do not exist. There is no
    /// warning if their existence cannot be checked.
    fn missing<'a>(&'a self, namespace: &'a str, named: &'a [Named])
    -> BoxFuture<'a, Vec<Finding>>;

    /// The text of an object that describes the pods of a component; none where there is no such object.
    ///
    /// # Errors
    /// It could not be read.
    fn referenced<'a>(
        &'a self,
        namespace: &'a str,
        reference: &'a Reference,
    ) -> BoxFuture<'a, Result<Option<String>, AccessError>>;
}

/// An object that an AppWrapper names, and which may come later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// What it is.
    pub kind: NamedKind,
    /// Its name.
    pub name: String,
}

/// What an AppWrapper names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamedKind {
    /// A RetryPolicy, in an annotation.
    RetryPolicy,
    /// A LocalQueue, in a label.
    LocalQueue,
}

impl NamedKind {
    /// Its kind.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RetryPolicy => "RetryPolicy",
            Self::LocalQueue => "LocalQueue",
        }
    }

    /// Where it is named.
    #[must_use]
    pub fn field(self) -> String {
        match self {
            Self::RetryPolicy => format!("metadata.annotations[{}]", keys::RETRY_POLICIES),
            Self::LocalQueue => format!("metadata.labels[{}]", keys::QUEUE_NAME),
        }
    }
}

/// An object to create, as far as an authorizer needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapped<'a> {
    /// Path of the template, such as `spec.components[0].template`.
    pub path: String,
    /// API version, such as `batch/v1`.
    pub api_version: &'a str,
    /// Kind, such as `Job`.
    pub kind: &'a str,
    /// Name of the object.
    pub name: &'a str,
}

/// The cluster did not respond.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct AccessError {
    /// The request.
    pub message: String,
    /// Why there is no response.
    #[source]
    pub source: Option<Box<dyn Error + Send + Sync>>,
}
