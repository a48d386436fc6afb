//! Why a request is refused.

use serde_json::{Value, json};

/// A refusal: what a `Status` object says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// HTTP status.
    pub code: u16,
    /// Machine-readable reason.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    #[must_use]
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into() }
    }

    pub(super) fn not_found(plural: &str, group: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{}{name:?} not found", of(plural, group)))
    }

    pub(super) fn exists(plural: &str, group: &str, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{}{name:?} already exists", of(plural, group)))
    }

    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(409, "Conflict", message)
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// A version that is no longer kept.
    pub(super) fn expired() -> Self {
        Self::new(410, "Expired", "the resource version is too old: it is no longer kept")
    }

    /// No such resource.
    pub(super) fn no_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// No such group or version, or no such custom resource: no status object tells it.
    pub(super) fn nowhere() -> Self {
        Self::new(404, "", "404 page not found\n")
    }

    /// Only the message is sent.
    pub(super) const fn is_bare(&self) -> bool {
        self.code == 404 && self.reason.is_empty()
    }

    /// The `Status` object.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        status
    }
}

fn of(plural: &str, group: &str) -> String {
    if group.is_empty() { format!("{plural} ") } else { format!("{plural}.{group} ") }
}
