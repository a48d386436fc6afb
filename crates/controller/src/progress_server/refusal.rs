//! Why a report is not taken, as it is answered.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

use super::message::Malformed;
use super::{BODY_BYTES_MAX, written};
use crate::kinds::PROGRESS_AUDIENCE;
use crate::listener::Shares;
use crate::metrics::Reported;

/// Why a report is not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error(
        "the path must be /apis/trainer.kubeflow.org/v1alpha1/namespaces/NAMESPACE/trainjobs/NAME/status"
    )]
    Path,
    #[error("a bearer token is required, with the audience {PROGRESS_AUDIENCE}")]
    NoToken,
    #[error("the token must be valid, with the audience {PROGRESS_AUDIENCE}")]
    Token,
    #[error("the token must belong to a ServiceAccount and be bound to a pod")]
    NotAPod,
    #[error("the path must name the namespace of the pod, {0:?}")]
    Namespace(String),
    #[error("pod {0}, to which the token is bound, no longer exists")]
    Gone(String),
    #[error("pod {0} does not belong to an AppWrapper")]
    NoAppWrapper(String),
    #[error("AppWrapper {0} has no spec.progress")]
    NoProgress(String),
    #[error("the path must name the pod's AppWrapper, {0:?}, or one of its resources")]
    Name(String),
    #[error("the body must be at most {BODY_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the body did not arrive")]
    Body,
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("too many reports; try again in {} s", seconds(*.0))]
    TooMany(Duration),
    #[error("the server is overloaded; try again in {} s", seconds(*.0))]
    Overloaded(Duration),
    #[error("cannot check the {0}: the API server did not respond; try again later")]
    Unavailable(&'static str),
    #[error("the report could not be checked in time; try again later")]
    Slow,
    #[error("internal error; see the controller's log")]
    Internal,
}

/// The pause that is asked for where nothing says how long it has to be.
const LATER: Duration = Duration::from_secs(5);

fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

impl Refusal {
    /// Who waited for a place in vain has its own part of them, or all are taken.
    pub(super) fn no_place<K: Ord>(places: &Shares<K>, waited: Duration) -> Self {
        if places.is_any_left() { Self::TooMany(waited) } else { Self::Overloaded(waited) }
    }

    fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NoToken | Self::Token => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Self::NotAPod | Self::Namespace(_) | Self::NoAppWrapper(_) => {
                (StatusCode::FORBIDDEN, "Forbidden")
            }
            Self::Path | Self::Gone(_) | Self::NoProgress(_) | Self::Name(_) => {
                (StatusCode::NOT_FOUND, "NotFound")
            }
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            Self::Body | Self::Malformed(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
            Self::TooMany(_) | Self::Overloaded(_) => {
                (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests")
            }
            Self::Unavailable(_) | Self::Slow => {
                (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable")
            }
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        }
    }

    /// As what it is counted.
    pub(super) const fn reported(&self) -> Reported {
        match self {
            Self::NoToken | Self::Token => Reported::Unauthorized,
            Self::NotAPod | Self::Namespace(_) | Self::NoAppWrapper(_) => Reported::Forbidden,
            Self::Path | Self::Gone(_) | Self::NoProgress(_) | Self::Name(_) => Reported::NotFound,
            Self::TooLarge | Self::Body | Self::Malformed(_) => Reported::Malformed,
            Self::TooMany(_) => Reported::Limited,
            Self::Overloaded(_) => Reported::Overloaded,
            Self::Unavailable(_) | Self::Slow => Reported::Unavailable,
            Self::Internal => Reported::Error,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::TooMany(time) | Self::Overloaded(time) => Some(*time),
            Self::Unavailable(_) | Self::Slow => Some(LATER),
            Self::Path
            | Self::NoToken
            | Self::Token
            | Self::NotAPod
            | Self::Namespace(_)
            | Self::Gone(_)
            | Self::NoAppWrapper(_)
            | Self::NoProgress(_)
            | Self::Name(_)
            | Self::TooLarge
            | Self::Body
            | Self::Malformed(_)
            | Self::Internal => None,
        }
    }

    /// The answer: a `Status` of Kubernetes, as Trainer's.
    pub(super) fn response(&self) -> Response<Body> {
        let (status, reason) = self.status();
        let mut response = written(
            status,
            &json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": self.to_string(), "reason": reason, "code": status.as_u16(),
            }),
        );
        let headers = response.headers_mut();
        if let Some(time) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds(time).max(1)));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
