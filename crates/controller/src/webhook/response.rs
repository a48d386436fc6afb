//! What an API server is told: an [`AdmissionResponse`], written as an `AdmissionReview`.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use serde::Serialize;
use serde_json::Value;

use super::validate::{Finding, Severity};
use crate::printable::{self, truncated};

/// The longest message: an object can be wrong in many places, and people read it.
const MESSAGE_CHARS_MAX: usize = 8 * 1024;
/// The longest warning, and all together: an API server cuts what is longer.
const WARNING_CHARS_MAX: usize = 256;
const WARNINGS_CHARS_MAX: usize = 4 * 1024;
/// The longest value of an audit annotation.
const AUDIT_CHARS_MAX: usize = 256;

/// Why a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The object is wrong, or may not be changed so.
    Invalid,
    /// The requester is not allowed to do it.
    Forbidden,
    /// The API server did not respond to an access check.
    Unavailable,
    /// The requester sent too many requests. Clients retry after this many seconds.
    TooManyRequests(u16),
}

impl Reason {
    const fn code(self) -> u16 {
        match self {
            Self::Invalid => 422,
            Self::Forbidden => 403,
            Self::Unavailable => 503,
            Self::TooManyRequests(_) => 429,
        }
    }

    /// Kubernetes: `StatusReason`.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::Forbidden => "Forbidden",
            Self::Unavailable => "ServiceUnavailable",
            Self::TooManyRequests(_) => "TooManyRequests",
        }
    }

    /// From the seconds in it an API server makes the header `Retry-After`.
    const fn details(self) -> Option<Details> {
        match self {
            Self::TooManyRequests(seconds) => Some(Details { retry_after_seconds: seconds }),
            Self::Invalid | Self::Forbidden | Self::Unavailable => None,
        }
    }
}

/// One change of an object that is to be created. JSON Patch: `add`, which also replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Op {
    #[serde(rename = "op")]
    what: &'static str,
    path: String,
    value: Value,
}

impl Op {
    /// Sets the field that these names lead to.
    pub(super) fn set(names: &[&str], value: Value) -> Self {
        let escaped = |name: &&str| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        Self { what: "add", path: names.iter().map(escaped).collect(), value }
    }

    /// Makes the change, as an API server does; none where the field above it does not exist.
    pub fn apply(&self, object: &mut Value) {
        let Some((parent, name)) = self.path.rsplit_once('/') else { return };
        let name = name.replace("~1", "/").replace("~0", "~");
        match object.pointer_mut(parent) {
            Some(Value::Object(fields)) => _ = fields.insert(name, self.value.clone()),
            Some(Value::Array(items)) if name == "-" => items.push(self.value.clone()),
            // no change of one item is ever made
            Some(
                Value::Array(_)
                | Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_),
            )
            | None => {}
        }
    }
}

/// A verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionResponse {
    /// Why the request is denied, with all errors; none if it is allowed.
    pub denied: Option<(Reason, String)>,
    /// Warnings for the requester.
    pub warnings: Vec<String>,
    /// The fields that are defaulted.
    pub patch: Vec<Op>,
}

impl AdmissionResponse {
    /// Allows the request, or denies it if one of the findings is an error.
    #[must_use]
    pub fn of(findings: &[Finding]) -> Self {
        let said = |severity| {
            findings.iter().filter(move |each| each.severity == severity).map(ToString::to_string)
        };
        let errors: Vec<String> = said(Severity::Error).collect();
        let denied = (!errors.is_empty()).then(|| (Reason::Invalid, joined(&errors)));
        Self { denied, warnings: bounded(said(Severity::Warning)), patch: vec![] }
    }

    /// Denies the request.
    #[must_use]
    pub fn denied(reason: Reason, message: &str) -> Self {
        let message = truncated(message, MESSAGE_CHARS_MAX);
        Self { denied: Some((reason, message)), ..Self::default() }
    }

    /// Allows the request with warnings, which may be longer than the API server's limit for one.
    #[must_use]
    pub fn warned(warnings: impl IntoIterator<Item = String>) -> Self {
        Self { warnings: bounded(warnings.into_iter()), ..Self::default() }
    }

    /// Whether the request is allowed.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.denied.is_none()
    }

    /// The body of the response to a review. Kubernetes: `AdmissionReview` with a response.
    #[must_use]
    pub fn write(&self, uid: &str, requester: &str) -> Vec<u8> {
        let Self { denied, warnings, patch } = self;
        let patch = (!patch.is_empty()).then(|| ByteString(json(patch)));
        let requester = truncated(requester, AUDIT_CHARS_MAX);
        json(&Envelope {
            api_version: "admission.k8s.io/v1",
            kind: "AdmissionReview",
            response: Response {
                uid,
                allowed: denied.is_none(),
                status: denied.as_ref().map(|(reason, message)| Status {
                    outcome: "Failure",
                    code: reason.code(),
                    reason: reason.as_str(),
                    message,
                    details: reason.details(),
                }),
                warnings,
                patch_type: patch.is_some().then_some("JSONPatch"),
                patch,
                audit_annotations: BTreeMap::from([("requester", requester)]),
            },
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    audit_annotations: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct Status<'a> {
    #[serde(rename = "status")]
    outcome: &'static str,
    code: u16,
    reason: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    retry_after_seconds: u16,
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // keys are texts, and memory takes everything
    serde_json::to_vec(value).unwrap_or_default()
}

/// All errors on one line, as many as fit.
fn joined(errors: &[String]) -> String {
    let mut text = String::new();
    for (i, error) in errors.iter().enumerate() {
        let error = truncated(error, MESSAGE_CHARS_MAX / 4);
        if i > 0 && text.len() + error.len() > MESSAGE_CHARS_MAX {
            text += &format!("; and {} more", errors.len() - i);
            break;
        }
        if i > 0 {
            text += "; ";
        }
        text += &error;
    }
    text
}

/// As many warnings as an API server passes on.
fn bounded(warnings: impl Iterator<Item = String>) -> Vec<String> {
    let all: Vec<String> = warnings.map(|warning| truncated(&warning, WARNING_CHARS_MAX)).collect();
    let mut room = WARNINGS_CHARS_MAX - WARNING_CHARS_MAX;
    let fits = |warning: &&String| {
        let left = room.checked_sub(warning.chars().count());
        room = left.unwrap_or(0);
        left.is_some()
    };
    let mut kept: Vec<String> = all.iter().take_while(fits).cloned().collect();
    if kept.len() < all.len() {
        let more = all.len() - kept.len();
        let noun = if more == 1 { "warning" } else { "warnings" };
        kept.push(format!("and {more} more {noun}"));
    }
    kept
}

/// Without control characters, for which an API server drops a warning, and what is invisible.
pub(super) fn printable(text: &str) -> String {
    printable::escape(text).into_owned()
}
