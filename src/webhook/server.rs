//! The questions of API servers over HTTP: everything about them is bounded.
//!
//! ```text
//! request ─▶ place (≤ 64 at work) ─▶ body (≤ 8 MiB) ─▶ read and judge ─▶ ask the cluster ─▶ answer
//!              429                   408, 413, 415        400, 500           (denied: 503)
//!            └───────────────────────────── within 4 s: 504 ──────────────────────────────┘
//! ```
//!
//! Reading and judging, which is work and no waiting, is done beside the runtime that serves: an
//! object of 1 MiB holds up nobody else. A mistake that panics is answered with 500, and the server
//! lives.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use axum::routing::post;
use futures::FutureExt;
use futures::future::join;
use http_body_util::LengthLimitError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::answer::{Answer, printable};
use super::authorize::Authorize;
use super::judge::{Endpoint, Question, Verdict, judge};
use super::review::{Operation, Review, ReviewError};
use crate::clock::Clock;
use crate::config::Config;
use crate::metrics::{Admitted, Metrics};
use crate::telemetry;

/// The largest body: two objects as large as an API server takes them, and the envelope.
pub const BODY_BYTES_MAX: usize = 8 << 20;
/// The longest time for an answer. An API server waits 5 s, and should hear why there is none.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(4);
/// The longest time for the body to arrive.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(2);
/// The most questions at work at a time.
pub const AT_WORK_MAX: usize = 64;
/// The longest wait for a place among them.
pub const PLACE_TIME_MAX: Duration = Duration::from_secs(1);

/// Where the settings come from that hold now.
pub type Settings = Box<dyn Fn() -> Arc<Config> + Send + Sync>;

/// All that questions are answered with.
pub struct Admission {
    /// The settings that hold now.
    pub config: Settings,
    /// User name of this controller, as soon as it is known.
    pub own_account: Arc<OnceLock<String>>,
    /// Says what may be created.
    pub authorize: Arc<dyn Authorize>,
    /// Counters.
    pub metrics: Metrics,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// What stands behind the router.
struct Desk {
    admission: Arc<Admission>,
    at_work: Arc<Semaphore>,
}

/// Why there is no answer to a question.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error(
        "{AT_WORK_MAX} questions are being answered, and none was done within {} s: try again",
        PLACE_TIME_MAX.as_secs()
    )]
    Overloaded,
    #[error("there was no answer within {} s: try again", ANSWER_TIME_MAX.as_secs())]
    Timeout,
    #[error("the content type must be application/json")]
    ContentType,
    #[error("the body must be at most {BODY_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the body must arrive within {} s", BODY_TIME_MAX.as_secs())]
    SlowBody,
    #[error("the body did not arrive")]
    Body(#[source] axum::Error),
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error("a mistake of the controller: its log says more")]
    Panic,
}

/// What an answer is counted as.
struct Told {
    operation: Option<Operation>,
    admitted: Admitted,
    response: Response<Body>,
}

/// The paths of all webhooks.
pub fn router(admission: Arc<Admission>) -> Router {
    let desk = Arc::new(Desk { admission, at_work: Arc::new(Semaphore::new(AT_WORK_MAX)) });
    let mut router = Router::new();
    for endpoint in Endpoint::ALL {
        let desk = desk.clone();
        let serve = move |request| async move { desk.serve(endpoint, request).await };
        router = router.route(endpoint.path(), post(serve));
    }
    router
}

impl Desk {
    async fn serve(self: Arc<Self>, endpoint: Endpoint, request: Request<Body>) -> Response<Body> {
        let Admission { clock, metrics, .. } = &*self.admission;
        let start = clock.elapsed();
        let work = AssertUnwindSafe(self.answer(endpoint, request)).catch_unwind();
        let told = match timeout(ANSWER_TIME_MAX, work).await {
            Ok(Ok(Ok(told))) => told,
            Ok(Ok(Err(error))) => Told::nothing(&error),
            Ok(Err(panic)) => {
                let message = said(&*panic);
                tracing::error!(webhook = endpoint.as_str(), message, "A question made us panic.");
                Told::nothing(&NoAnswer::Panic)
            }
            Err(_) => Told::nothing(&NoAnswer::Timeout),
        };
        let operation = told.operation.map(Operation::as_str);
        let took = clock.elapsed().saturating_sub(start);
        metrics.admission(endpoint.as_str(), operation, told.admitted, took);
        told.response
    }

    async fn answer(&self, endpoint: Endpoint, request: Request<Body>) -> Result<Told, NoAnswer> {
        let (head, body) = request.into_parts();
        if !is_json(&head.headers) {
            return Err(NoAnswer::ContentType);
        }
        let place = timeout(PLACE_TIME_MAX, self.at_work.clone().acquire_owned()).await;
        // it is never closed
        let Ok(Ok(place)) = place else { return Err(NoAnswer::Overloaded) };
        let place = Arc::new(place);
        let body = timeout(BODY_TIME_MAX, whole(body)).await.map_err(|_| NoAnswer::SlowBody)??;
        let (review, verdict) = self.judged(endpoint, body, place.clone()).await?;
        let answer = match verdict {
            Verdict::Final(answer) => answer,
            Verdict::Ask(question) => self.ask(&review, question).await,
        };
        drop(place);
        Ok(Told::answer(endpoint, &review, &answer))
    }

    /// Reads and judges beside the runtime. The place is given back when that has really ended, also
    /// where nobody waits for it any more.
    async fn judged(
        &self,
        endpoint: Endpoint,
        body: Bytes,
        place: Arc<OwnedSemaphorePermit>,
    ) -> Result<(Review, Verdict), NoAnswer> {
        let admission = self.admission.clone();
        let work = spawn_blocking(move || {
            let _place = place;
            let review = Review::read(&body, endpoint.resource())?;
            let own_account = admission.own_account.get().map(String::as_str);
            let verdict = judge(endpoint, &review, &(admission.config)(), own_account);
            Ok((review, verdict))
        });
        work.await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
    }

    async fn ask(&self, review: &Review, question: Question) -> Answer {
        let wrapped = question.wrapped(review);
        let Review { requester, namespace, .. } = review;
        let authorize = &self.admission.authorize;
        let rights = authorize.findings(requester, namespace, &wrapped, question.check_user);
        let (found, missing) = join(rights, authorize.missing(namespace, &question.named)).await;
        let found = found.map(|findings| [findings, missing].concat());
        if let Err(error) = &found {
            let cause = telemetry::chain(error);
            tracing::warn!(cause, "Nothing is known of what may be created.");
        }
        question.answered(found)
    }
}

impl Told {
    fn answer(endpoint: Endpoint, review: &Review, answer: &Answer) -> Self {
        let Review { uid, operation, requester, .. } = review;
        if let Some((reason, _)) = &answer.denied {
            let (webhook, operation) = (endpoint.as_str(), operation.as_str());
            tracing::debug!(webhook, operation, uid, ?reason, "Not let in.");
        }
        let mut response = Response::new(answer.write(uid, &requester.username).into());
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        let admitted = if answer.is_allowed() { Admitted::Allowed } else { Admitted::Denied };
        Self { operation: Some(*operation), admitted, response }
    }

    /// One line that says why there is no answer.
    fn nothing(error: &NoAnswer) -> Self {
        let (status, admitted) = match error {
            NoAnswer::Overloaded => (StatusCode::TOO_MANY_REQUESTS, Admitted::Overloaded),
            NoAnswer::Timeout => (StatusCode::GATEWAY_TIMEOUT, Admitted::Timeout),
            NoAnswer::ContentType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, Admitted::Malformed),
            NoAnswer::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, Admitted::Malformed),
            NoAnswer::SlowBody => (StatusCode::REQUEST_TIMEOUT, Admitted::Timeout),
            NoAnswer::Body(_) | NoAnswer::Review(_) => {
                (StatusCode::BAD_REQUEST, Admitted::Malformed)
            }
            NoAnswer::Panic => (StatusCode::INTERNAL_SERVER_ERROR, Admitted::Error),
        };
        let cause = telemetry::chain(error);
        tracing::warn!(status = status.as_u16(), cause, "A question is not answered.");
        let line = printable(&error.to_string()) + "\n";
        let mut response = Response::new(Body::from(line));
        *response.status_mut() = status;
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        Self { operation: None, admitted, response }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = given.and_then(|text| text.split(';').next());
    essence.is_some_and(|text| text.trim().eq_ignore_ascii_case("application/json"))
}

/// A body of bounded size.
async fn whole(body: Body) -> Result<Bytes, NoAnswer> {
    to_bytes(body, BODY_BYTES_MAX).await.map_err(|error| {
        let source = std::error::Error::source(&error);
        if source.is_some_and(<dyn std::error::Error>::is::<LengthLimitError>) {
            NoAnswer::TooLarge
        } else {
            NoAnswer::Body(error)
        }
    })
}

/// What a panic said.
fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default()
}
