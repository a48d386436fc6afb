//! Admission reviews over HTTP: everything about them is bounded.
//!
//! ```text
//! request ─▶ body (≤ 4 MiB) ─▶ place (≤ 64 reviews) ─▶ read and judge ─▶ access checks ───▶ response
//!            408, 413, 415      429                     400, 413, 500      (denied: 429, 503)
//!            └───────────────────────────── within 4 s: 504 ──────────────────────────────┘
//! ```
//!
//! The bytes of bodies, the memory that they are read into, the reviews in progress and the access checks are
//! limited, and no peer gets all of them: see [`Shares`]. A small body needs no share of the bytes, so that
//! large and slow bodies delay only other large ones.
//!
//! Reading and judging are CPU work and run outside the runtime that serves, so that an object of 1 MiB
//! does not block other requests. A panic is answered with 500, and the server continues.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use axum::routing::post;
use futures::FutureExt;
use futures::future::join;
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::access;
use super::authorize::Authorize;
use super::judge::{ClusterChecks, Endpoint, Reading, ReviewStep, judge};
use super::rate::{Rates, Subject, Wait, subject};
use super::response::{AdmissionResponse, Reason, printable};
use super::review::{Operation, Review, ReviewError};
use super::weight::weight;
use crate::clock::Clock;
use crate::config::Config;
use crate::kueue::WaitForPodsReady;
use crate::listener::{Peer, Share, Shares};
use crate::metrics::{Metrics, ReviewResult};
use crate::printable::truncate_chars;
use crate::rate::{Rate, RateLimiter};
use crate::telemetry;

/// The largest body: two objects of 1.5 MiB, which is as much as etcd takes, and the envelope; or one of 3 MiB,
/// as large as an API server takes it.
pub const BODY_BYTES_MAX: usize = 4 << 20;
/// Up to this size a body takes no part of [`BODIES_MAX`]: as many as there are connections have room.
pub const SMALL_BODY_MAX: usize = 32 << 10;
/// Bytes of larger bodies at a time.
const BODIES_MAX: u32 = 24 << 20;
/// Those of one peer.
const BODIES_OF_A_PEER: u32 = 16 << 20;
/// Memory for what bodies are read into at a time, in bytes.
const READ_MAX: u32 = 64 << 20;
/// That of one peer: enough for any one review.
const READ_OF_A_PEER: u32 = 44 << 20;
/// The longest time for a response. An API server waits 5 s, and should be told why there is none.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(4);
/// The longest time for the body to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(2);
/// The most reviews in progress at a time.
pub const REVIEWS_MAX: u32 = 64;
/// Those of one peer.
const REVIEWS_OF_A_PEER: u32 = 48;
/// The most reviews whose access checks are in progress at a time.
pub const ACCESS_CHECKS_MAX: u32 = 32;
/// Those of one peer.
const ACCESS_CHECKS_OF_A_PEER: u32 = 20;
/// The longest object that is read for what it says of pods.
const REFERENCED_MAX: usize = 128 << 10;
/// The longest object that the API server may answer with when it is asked for one.
const OBJECT_MAX: u32 = 3 << 19;
/// Memory for such objects while they are being read, in bytes.
const OBJECTS_MAX: u32 = 16 << 20;
/// That of one peer.
const OBJECTS_OF_A_PEER: u32 = 12 << 20;
/// How often the log says that a review of one peer failed, and how often that one was denied.
const LINES_OF_A_PEER: Rate = Rate { each: Duration::from_secs(1), at_once: 10 };
/// The longest user or namespace in the log.
const LOGGED_CHARS_MAX: usize = 128;
/// The longest wait for a place among them.
pub const PLACE_TIME_MAX: Duration = Duration::from_secs(1);

/// Where the settings come from that hold now.
pub type Settings = Box<dyn Fn() -> Arc<Config> + Send + Sync>;

/// Where it comes from how long Kueue waits for pods.
pub type Waiting = Box<dyn Fn() -> Option<WaitForPodsReady> + Send + Sync>;

/// What reviews are judged by.
pub struct Admission {
    /// The settings that hold now.
    pub config: Settings,
    /// How long Kueue waits for pods, as far as that is known now.
    pub kueue: Waiting,
    /// User name of this controller, as soon as it is known.
    pub own_account: Arc<OnceLock<String>>,
    /// Says what may be created.
    pub authorize: Arc<dyn Authorize>,
    /// Counters.
    pub metrics: Metrics,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// Serves reviews, within limits.
struct AdmissionServer {
    admission: Arc<Admission>,
    bodies: Shares,
    read: Shares,
    reviews: Shares,
    access_checks: Shares,
    rates: Rates,
    objects: Shares,
    /// Lines about reviews that failed.
    failures: RateLimiter<Peer>,
    /// Lines about denials: those of one user hide no failure.
    denials: RateLimiter<Peer>,
}

/// What a review holds while it is read and judged.
type Held = (Share, Share);

/// Why a request has no response of admission.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error(
        "too many admission reviews in progress: no capacity within {} s; try again later",
        PLACE_TIME_MAX.as_secs()
    )]
    Overloaded,
    #[error("too many access checks from this client; try again later")]
    TooMany,
    #[error(
        "the admission review did not complete within {} s; try again later",
        ANSWER_TIME_MAX.as_secs()
    )]
    Timeout,
    #[error("the content type must be application/json")]
    ContentType,
    #[error("the body must be at most {BODY_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the body must arrive within {} s", BODY_TIME_MAX.as_secs())]
    SlowBody,
    #[error("cannot read the body")]
    Body(#[source] axum::Error),
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error("internal error; see the controller's log")]
    Panic,
}

/// A response, and what it is counted as.
struct Outcome {
    operation: Option<Operation>,
    result: ReviewResult,
    response: Response<Body>,
}

/// The paths of all webhooks.
pub fn router(admission: Arc<Admission>) -> Router {
    let rates = Rates::new(admission.clock.clone());
    let server = Arc::new(AdmissionServer {
        admission,
        bodies: Shares::new(BODIES_MAX, BODIES_OF_A_PEER),
        read: Shares::new(READ_MAX, READ_OF_A_PEER),
        reviews: Shares::new(REVIEWS_MAX, REVIEWS_OF_A_PEER),
        access_checks: Shares::new(ACCESS_CHECKS_MAX, ACCESS_CHECKS_OF_A_PEER),
        rates,
        objects: Shares::new(OBJECTS_MAX, OBJECTS_OF_A_PEER),
        failures: RateLimiter::new(LINES_OF_A_PEER),
        denials: RateLimiter::new(LINES_OF_A_PEER),
    });
    let mut router = Router::new();
    for endpoint in Endpoint::ALL {
        let server = server.clone();
        let serve = move |request| async move { server.serve(endpoint, request).await };
        router = router.route(endpoint.path(), post(serve));
    }
    router
}

impl AdmissionServer {
    async fn serve(self: Arc<Self>, endpoint: Endpoint, request: Request<Body>) -> Response<Body> {
        let Admission { clock, metrics, .. } = &*self.admission;
        let start = clock.elapsed();
        let peer = request.extensions().get::<Peer>().copied();
        let work = AssertUnwindSafe(self.answer(endpoint, request)).catch_unwind();
        let told = match timeout(ANSWER_TIME_MAX, work).await {
            Ok(Ok(Ok(told))) => told,
            Ok(Ok(Err(error))) => self.failed(endpoint, peer, &error),
            // the panic hook has logged the location
            Ok(Err(_)) => self.failed(endpoint, peer, &RequestError::Panic),
            Err(_) => self.failed(endpoint, peer, &RequestError::Timeout),
        };
        let operation = told.operation.map(Operation::as_str);
        let took = clock.elapsed().saturating_sub(start);
        metrics.admission(endpoint.as_str(), operation, told.result, took);
        told.response
    }

    /// Whether there is another line about a peer: anybody may send requests.
    fn may_log(&self, lines: &RateLimiter<Peer>, peer: Option<Peer>) -> bool {
        let now = self.admission.clock.elapsed();
        peer.is_none_or(|peer| lines.take(peer, 1, now).is_ok())
    }

    /// Says in the log why there is no response of admission.
    fn failed(&self, endpoint: Endpoint, peer: Option<Peer>, error: &RequestError) -> Outcome {
        let outcome = Outcome::nothing(error);
        if self.may_log(&self.failures, peer) {
            let (webhook, status) = (endpoint.as_str(), outcome.response.status().as_u16());
            let cause = telemetry::chain(error);
            tracing::warn!(webhook, status, cause, "Admission review failed.");
        }
        outcome
    }

    /// Says in the log who was denied. Not the message: it quotes the object.
    fn denied(&self, endpoint: Endpoint, peer: Option<Peer>, review: &Review, reason: Reason) {
        if self.may_log(&self.denials, peer) {
            let (webhook, operation) = (endpoint.as_str(), review.operation.as_str());
            let (namespace, user) = subject_of(review);
            let reason = reason.as_str();
            tracing::info!(webhook, operation, %namespace, %user, reason, "Admission denied.");
        }
    }

    async fn answer(
        &self,
        endpoint: Endpoint,
        request: Request<Body>,
    ) -> Result<Outcome, RequestError> {
        let (head, body) = request.into_parts();
        if !is_json(&head.headers) {
            return Err(RequestError::ContentType);
        }
        let peer = head.extensions.get::<Peer>().copied();
        let (body, _room) = self.body(peer, body).await?;
        let place = in_time(self.reviews.take(peer, 1)).await?;
        let room = u32::try_from(weight(&body)).unwrap_or(u32::MAX);
        let room = in_time(self.read.take(peer, room)).await?;
        let permits = Arc::new((place, room));
        let (review, verdict) = self.judged(endpoint, body, permits.clone()).await?;
        let answer = match verdict {
            ReviewStep::Final(answer) => answer,
            ReviewStep::Ask(checks) => self.check_access(endpoint, peer, &review, checks).await?,
            ReviewStep::Read(reading) => self.read(peer, &review, reading).await?,
        };
        drop(permits);
        // why access could not be checked is logged already
        if let Some((reason, _)) = answer.denied
            && reason != Reason::Unavailable
        {
            self.denied(endpoint, peer, &review, reason);
        }
        Ok(Outcome::answer(&review, &answer))
    }

    /// The whole body, and its part of all bodies: by the length that is declared, or else the largest.
    async fn body(
        &self,
        peer: Option<Peer>,
        body: Body,
    ) -> Result<(Bytes, Option<Share>), RequestError> {
        let hint = body.size_hint();
        if hint.lower() > BODY_BYTES_MAX as u64 {
            return Err(RequestError::TooLarge);
        }
        let declared = hint.exact().and_then(|length| usize::try_from(length).ok());
        let declared = declared.unwrap_or(BODY_BYTES_MAX);
        let share = if declared <= SMALL_BODY_MAX {
            None
        } else {
            let bytes = u32::try_from(declared).unwrap_or(u32::MAX);
            Some(in_time(self.bodies.take(peer, bytes)).await?)
        };
        let body =
            timeout(BODY_TIME_MAX, whole(body)).await.map_err(|_| RequestError::SlowBody)??;
        Ok((body, share))
    }

    /// Reads and judges outside the runtime. `held` is released when the work has ended, also if the request
    /// has timed out.
    async fn judged(
        &self,
        endpoint: Endpoint,
        body: Bytes,
        held: Arc<Held>,
    ) -> Result<(Review, ReviewStep), RequestError> {
        let admission = self.admission.clone();
        let work = spawn_blocking(move || {
            let _held = held;
            let review = Review::read(&body, endpoint.resource())?;
            // everything of it has been copied
            drop(body);
            let own_account = admission.own_account.get().map(String::as_str);
            let verdict =
                judge(endpoint, &review, &(admission.config)(), (admission.kueue)(), own_account);
            Ok((review, verdict))
        });
        work.await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
    }

    /// Says in the log why access cannot be checked.
    fn unchecked(
        &self,
        endpoint: Endpoint,
        peer: Option<Peer>,
        review: &Review,
        error: &dyn std::error::Error,
    ) {
        if self.may_log(&self.failures, peer) {
            let (webhook, cause) = (endpoint.as_str(), telemetry::chain(error));
            let (namespace, user) = subject_of(review);
            tracing::warn!(
                webhook, %namespace, %user, cause,
                "Access check failed; admission denied."
            );
        }
    }

    /// Charges the requests to the cluster that a review causes.
    fn charge(
        &self,
        peer: Option<Peer>,
        review: &Review,
        about: &Subject,
        requests: u32,
    ) -> Result<(), Wait> {
        let Review { requester, namespace, .. } = review;
        let is_controller = self.admission.own_account.get() == Some(&requester.username);
        let tenant = (!is_controller).then_some(namespace.as_str());
        self.rates.charge(peer, requester, tenant, about, requests)
    }

    async fn check_access(
        &self,
        endpoint: Endpoint,
        peer: Option<Peer>,
        review: &Review,
        checks: ClusterChecks,
    ) -> Result<AdmissionResponse, RequestError> {
        let wrapped = checks.wrapped(review);
        let Review { requester, namespace, .. } = review;
        let kinds: BTreeSet<_> = wrapped.iter().map(|it| [it.api_version, it.kind]).collect();
        if let Some(finding) = access::too_many(kinds.len()) {
            return Ok(checks.answered(Ok(vec![finding])));
        }
        let named = checks.named.iter().map(|it| [it.kind.as_str(), it.name.as_str()]);
        let requests = u32::try_from(kinds.len() + checks.named.len()).unwrap_or(u32::MAX);
        let about = subject(requester, namespace, kinds.into_iter().chain(named));
        if let Err(wait) = self.charge(peer, review, &about, requests) {
            return refused(&wait);
        }
        let place = in_time(self.access_checks.take(peer, 1)).await?;
        let authorize = &self.admission.authorize;
        let rights = authorize.findings(requester, namespace, &wrapped, checks.check_user);
        let (found, missing) = join(rights, authorize.missing(namespace, &checks.named)).await;
        drop(place);
        let found = found.map(|findings| [findings, missing].concat());
        match &found {
            Ok(findings) if findings.is_empty() => self.rates.remembered(about),
            Ok(_) => {}
            Err(error) => self.unchecked(endpoint, peer, review, error),
        }
        Ok(checks.answered(found))
    }
}

impl AdmissionServer {
    /// Reads the objects that describe the pods of components, one after the other.
    async fn read(
        &self,
        peer: Option<Peer>,
        review: &Review,
        reading: Reading,
    ) -> Result<AdmissionResponse, RequestError> {
        let Review { requester, namespace, .. } = review;
        let wanted = reading.wanted();
        let names = wanted.iter().map(|it| [it.kind, it.name.as_str()]);
        let about = subject(requester, namespace, names);
        let requests = u32::try_from(wanted.len()).unwrap_or(u32::MAX);
        if let Err(wait) = self.charge(peer, review, &about, requests) {
            return refused(&wait);
        }
        let _place = in_time(self.access_checks.take(peer, 1)).await?;
        let (mut found, mut rooms) = (BTreeMap::new(), vec![]);
        for reference in wanted {
            // not of what the review holds a part of already: it would wait for itself
            let room = in_time(self.objects.take(peer, OBJECT_MAX)).await?;
            let text = self.admission.authorize.referenced(namespace, reference).await;
            drop(room);
            match text {
                Ok(Some(text)) if text.len() <= REFERENCED_MAX => {
                    let room = u32::try_from(weight(text.as_bytes())).unwrap_or(u32::MAX);
                    rooms.push(in_time(self.read.take(peer, room)).await?);
                    if let Ok(object) = serde_json::from_str(&text) {
                        found.insert(reference.clone(), object);
                    }
                }
                Ok(Some(_) | None) => {}
                Err(error) => {
                    let cause = telemetry::chain(&error);
                    tracing::debug!(cause, "Cannot read the object that describes the pods.");
                }
            }
        }
        Ok(reading.filled(review, &found))
    }
}

/// The namespace and the user of a review, as the log has them.
fn subject_of(review: &Review) -> (Cow<'_, str>, Cow<'_, str>) {
    let Review { namespace, requester, .. } = review;
    (
        truncate_chars(namespace, LOGGED_CHARS_MAX),
        truncate_chars(&requester.username, LOGGED_CHARS_MAX),
    )
}

/// The response where there were too many access checks. A peer gets an HTTP error, since it asks for many users.
fn refused(wait: &Wait) -> Result<AdmissionResponse, RequestError> {
    match *wait {
        Wait::Peer(_) => Err(RequestError::TooMany),
        Wait::User(time) => Ok(too_often("for this user", time)),
        Wait::Namespace(time) => Ok(too_often("in this namespace", time)),
    }
}

/// The response where there were too many access checks.
fn too_often(whose: &str, time: Duration) -> AdmissionResponse {
    let seconds = u16::try_from(time.as_secs()).unwrap_or(u16::MAX).saturating_add(1);
    let message = format!("too many access checks {whose}; try again in {seconds} s");
    AdmissionResponse::denied(Reason::TooManyRequests(seconds), &message)
}

/// Something that others hold, as soon as it is free.
async fn in_time<T>(free: impl Future<Output = T>) -> Result<T, RequestError> {
    timeout(PLACE_TIME_MAX, free).await.map_err(|_| RequestError::Overloaded)
}

impl Outcome {
    fn answer(review: &Review, answer: &AdmissionResponse) -> Self {
        let Review { uid, operation, requester, .. } = review;
        let mut response = Response::new(answer.write(uid, &requester.username).into());
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        let result = match &answer.denied {
            None => ReviewResult::Allowed,
            Some((Reason::TooManyRequests(_), _)) => ReviewResult::Overloaded,
            Some((Reason::Unavailable, _)) => ReviewResult::Error,
            Some((Reason::Invalid | Reason::Forbidden, _)) => ReviewResult::Denied,
        };
        Self { operation: Some(*operation), result, response }
    }

    /// One line that says why there is no answer.
    fn nothing(error: &RequestError) -> Self {
        let (status, result) = match error {
            RequestError::Overloaded | RequestError::TooMany => {
                (StatusCode::TOO_MANY_REQUESTS, ReviewResult::Overloaded)
            }
            RequestError::Timeout => (StatusCode::GATEWAY_TIMEOUT, ReviewResult::Timeout),
            RequestError::ContentType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, ReviewResult::Malformed)
            }
            RequestError::TooLarge | RequestError::Review(ReviewError::TooHeavy { .. }) => {
                (StatusCode::PAYLOAD_TOO_LARGE, ReviewResult::Malformed)
            }
            // anybody may send a head without a body
            RequestError::SlowBody => (StatusCode::REQUEST_TIMEOUT, ReviewResult::Malformed),
            RequestError::Body(_) | RequestError::Review(_) => {
                (StatusCode::BAD_REQUEST, ReviewResult::Malformed)
            }
            RequestError::Panic => (StatusCode::INTERNAL_SERVER_ERROR, ReviewResult::Error),
        };
        let line = printable(&error.to_string()) + "\n";
        let mut response = Response::new(Body::from(line));
        *response.status_mut() = status;
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        Self { operation: None, result, response }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = given.and_then(|text| text.split(';').next());
    essence.is_some_and(|text| text.trim().eq_ignore_ascii_case("application/json"))
}

/// A body of bounded size.
async fn whole(mut body: Body) -> Result<Bytes, RequestError> {
    let mut whole = vec![];
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(RequestError::Body)?.into_data() else { continue };
        if whole.len() + data.len() > BODY_BYTES_MAX {
            return Err(RequestError::TooLarge);
        }
        // not more room than what has come needs, whatever was declared
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
}
