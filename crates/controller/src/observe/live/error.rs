//! Why a read from the API server failed.

use std::time::Duration;

use kube::runtime::watcher;

use crate::client;
use crate::observe::cache::KindKey;

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server could not be asked, or answered with an error.
    #[error("{what}")]
    Api {
        /// What was being done.
        what: String,
        /// What happened.
        #[source]
        source: Box<kube::Error>,
    },
    /// Discovery, asked afresh, does not know the kind.
    #[error("no matches for kind {:?} in version {:?}", .0.kind, .0.api_version)]
    NoKind(KindKey),
    /// The kind is not namespaced, and an AppWrapper wraps only what is.
    #[error("{} of {} is cluster-scoped and cannot be wrapped", .0.kind, .0.api_version)]
    NotNamespaced(KindKey),
}

impl Error {
    /// Wraps an error of the client.
    pub fn api(what: impl Into<String>, source: impl Into<Box<kube::Error>>) -> Self {
        Self::Api { what: what.into(), source: source.into() }
    }

    /// The same error, for another that waited for the same call.
    pub(in crate::observe) fn again(&self) -> Self {
        match self {
            Self::Api { what, source } => {
                let source = match &**source {
                    kube::Error::Api(status) => kube::Error::Api(status.clone()),
                    other => kube::Error::Service(other.to_string().into()),
                };
                Self::api(what.clone(), source)
            }
            Self::NoKind(kind) => Self::NoKind(kind.clone()),
            Self::NotNamespaced(kind) => Self::NotNamespaced(kind.clone()),
        }
    }

    /// For how long the API server asked not to be called.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Api { source, .. } => client::retry_after(source),
            Self::NoKind(_) | Self::NotNamespaced(_) => None,
        }
    }

    /// The API server answered, and did not ask to wait: a call about another object may succeed.
    #[must_use]
    pub fn concerns_one_object(&self) -> bool {
        match self {
            Self::Api { source, .. } => client::concerns_one_object(source),
            Self::NoKind(_) | Self::NotNamespaced(_) => true,
        }
    }

    /// The API server refuses the read, and may allow it a moment later.
    #[must_use]
    pub fn is_refused_for_now(&self) -> bool {
        match self {
            Self::Api { source, .. } => client::is_refused_for_now(source),
            Self::NoKind(_) | Self::NotNamespaced(_) => false,
        }
    }

    /// What the API server said, where it refuses the read, for good or for now.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Api { source, .. } => {
                let is_refused =
                    client::is_rejected_for_good(source) || client::is_refused_for_now(source);
                is_refused.then(|| client::said(source))
            }
            Self::NoKind(_) | Self::NotNamespaced(_) => None,
        }
    }

    /// The HTTP status that the API server answered with, where it did.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => code(source),
            Self::NoKind(_) | Self::NotNamespaced(_) => None,
        }
    }
}

/// The HTTP status that the API server answered with, where it did.
#[must_use]
pub fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// The error of a request of a watch.
#[must_use]
pub const fn watch_error(error: &watcher::Error) -> Option<&kube::Error> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Some(error),
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => None,
    }
}
