//! What admission asks about the rights to what is wrapped.

use std::error::Error;

use futures::future::BoxFuture;

use super::Identity;
use super::validate::Finding;

/// One wrapped template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapped<'a> {
    /// Where it stands, such as `spec.components[0].template`.
    pub path: String,
    /// Its `apiVersion`.
    pub api_version: &'a str,
    /// Its `kind`.
    pub kind: &'a str,
    /// Its `metadata.name`.
    pub name: &'a str,
}

/// Why it cannot be told whether somebody may wrap something.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct AccessError {
    /// What was being asked.
    pub message: String,
    /// What happened.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

/// Tells what may be wrapped.
pub trait Authorize: Send + Sync {
    /// What speaks against wrapping these templates in a namespace; nothing where all may be.
    /// The requester's own rights are looked at where `check_user` says so.
    ///
    /// # Errors
    /// Where that cannot be told. It is then not allowed.
    fn findings<'a>(
        &'a self,
        requester: &'a Identity,
        namespace: &'a str,
        wrapped: &'a [Wrapped<'a>],
        check_user: bool,
    ) -> BoxFuture<'a, Result<Vec<Finding>, AccessError>>;
}
