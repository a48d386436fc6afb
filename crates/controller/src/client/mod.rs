//! Rules for every call of the controller's clients: it has a timeout, a page of a list has a bound in bytes, and if
//! the API server asks clients to wait, the caller learns for how long.
//!
//! ```text
//! request ─▶ Limits ─▶ API server ─▶ answer, in full, within the time; of a watch only its head
//!                                    a page that is too large: fewer objects are asked for
//!                                    an error that is too long: only its code is kept
//!                                    429, 503: Retry-After becomes part of the error
//!                                    protobuf: becomes JSON
//! ```

mod again;
mod page;
mod protobuf;
mod read_only;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError};
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusDetails;
use kube::runtime::utils::{Backoff, ResetTimerBackoff};
use tokio::sync::Mutex;
use tower::{BoxError, Layer, Service, ServiceExt};

pub use again::{SendAgain, SendsAgain};
pub use read_only::{WouldWrite, read_only};

/// The timeout of a call: the API server gives a webhook 30 s, for admission and for conversion, and its answer tells
/// which object the call was about.
pub const CALL_WITHIN: Duration = Duration::from_secs(35);
/// The timeout of a list of all namespaces: a page may be large. The API server has the same timeout.
const LIST_ALL_WITHIN: Duration = Duration::from_mins(1);
/// The most bytes of an error. It names every field that is invalid, and the author of an object chooses how many are.
const ERROR_BYTES_MAX: usize = 256 << 10;
/// The shortest and the longest pause of a watch that fails; how long it must go well for the shortest to come next.
const WATCH_PAUSE: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(4));
const WATCH_CALM: Duration = Duration::from_mins(2);
/// How many bytes are kept of what the API server says.
const SAID_BYTES_MAX: usize = 2 << 10;
/// The longest pause because of a `Retry-After`.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);

/// For how long the API server asked not to be called, where it did: at most a minute.
#[must_use]
pub fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else { return None };
    if !asks_to_wait(status.code) {
        return None;
    }
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()).min(RETRY_AFTER_MAX))
}

/// Whether the API server answered, and did not ask to wait: a call about another object may succeed.
#[must_use]
pub fn concerns_one_object(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code != 429 && retry_after(error).is_none()
}

/// What admission plugins of the API server say of a request that they refuse for now: a quota frees up by itself or has
/// no usage yet, an API server that has just started knows no webhooks, no parameters of policies and no new kinds yet,
/// limit ranges cannot be read while etcd elects a leader, and a service account may be created beside the pod that uses
/// it. A namespace that is being deleted takes the AppWrapper with it, which has not failed.
const REFUSED_FOR_NOW: [&str; 9] = [
    "exceeded quota",
    "status unknown for quota",
    "not yet ready to handle request",
    "error looking up service account",
    "because it is being terminated",
    "there was an error enforcing limit ranges",
    " is forbidden: etcdserver: ",
    " denied request: failed to configure ", // a policy or its binding
    "cannot find RESTMapping for APIVersion",
];

/// What comes before the text in which an object that is invalid is quoted.
const IS_INVALID: &str = " is invalid: ";

/// The pauses of a watch that fails again and again: each twice as long as the one before. They stay short: after an outage, a
/// watch fails once more, since its resource version has expired, before it lists.
#[derive(Debug)]
pub struct WatchPauses(Duration);

/// Where a watch begins: it begins so again when it has gone well for a while.
#[must_use]
pub fn watch_backoff() -> ResetTimerBackoff<WatchPauses> {
    ResetTimerBackoff::new(WatchPauses(WATCH_PAUSE.0), WATCH_CALM)
}

impl Iterator for WatchPauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let longer = self.0.saturating_mul(2).min(WATCH_PAUSE.1);
        Some(std::mem::replace(&mut self.0, longer))
    }
}

impl Backoff for WatchPauses {
    fn reset(&mut self) {
        self.0 = WATCH_PAUSE.0;
    }
}

/// Whether the API server rejects the request however often it is made.
#[must_use]
pub fn is_rejected_for_good(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let for_now = |said: &str| REFUSED_FOR_NOW.iter().any(|text| said.contains(text));
    match status.code {
        403 => !for_now(&status.message),
        422 => !status.message.split(IS_INVALID).next().is_some_and(for_now),
        code => matches!(code, 400 | 405 | 413 | 415),
    }
}

/// Whether the API server refuses a request that it may take a moment later: one that has just started denies what it allows, and
/// admission refuses for now ([`REFUSED_FOR_NOW`]). Nothing says that it ends: a parameter of a policy may never be created.
#[must_use]
pub fn is_refused_for_now(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let is_refused = matches!(status.code, 403 | 422);
    is_refused && (is_denied_by_authorizer(status) || !is_rejected_for_good(error))
}

/// Whether the API server says that a webhook that it calls, for admission or for conversion, does not answer: that refuses
/// nothing. A conversion webhook that answers with an error has refused the object. Source: `Convert` in
/// `webhook_converter.go` of apiextensions-apiserver.
#[must_use]
pub fn lacks_webhook(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let said = |text: &str| status.message.contains(text);
    let is_conversion = said("conversion webhook for ") && said(" failed: Post ");
    status.code == 500 && (is_conversion || said("failed calling webhook"))
}

/// Whether the authorizer of the API server denies a request: admission, such as a webhook or a `ResourceQuota`, may answer
/// with 403, too. Of a path that is no resource, such as that of discovery, the message begins with `forbidden: User`. Source:
/// `forbiddenMessage` of apiserver.
#[must_use]
pub fn is_denied_by_authorizer(status: &Status) -> bool {
    let said = &status.message;
    let is_of_path = said.starts_with("forbidden: User ");
    status.code == 403 && (is_of_path || said.contains(" is forbidden: User "))
}

/// What the API server said, without the debugging text that the client adds: at most [`SAID_BYTES_MAX`] of it, since it may
/// quote what a user wrote, and is kept.
#[must_use]
pub fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => {
            let message = &status.message;
            message[..message.floor_char_boundary(SAID_BYTES_MAX)].to_owned()
        }
        other => other.to_string(),
    }
}

/// Too Many Requests, and Service Unavailable.
const fn asks_to_wait(code: u16) -> bool {
    matches!(code, 429 | 503)
}

/// For how many seconds the API server asks to wait, by the head of its answer.
fn asked_to_wait(code: StatusCode, headers: &HeaderMap) -> Option<u32> {
    let asked = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    let seconds = asked.trim().parse().ok()?;
    asks_to_wait(code.as_u16()).then_some(seconds)
}

/// An extension of a request for pods: of each, no more is read than
/// [`PodRecord`](crate::observe::pod_record::PodRecord) does, so that they may come in protobuf, which costs the API
/// server less than JSON. A list or a watch of the pods of all namespaces needs none.
#[derive(Clone, Copy, Debug)]
pub struct LeanPods;

/// Where the pods of all namespaces are.
const ALL_PODS: &str = "/api/v1/pods";

/// A call took too long. Whether a write was applied is not known.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path}: no response within {} s", within.as_secs())]
pub struct TooLate {
    method: Method,
    path: String,
    within: Duration,
}

/// A layer for a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits;

/// A client's service behind [`Limits`]. It is shared, since a call may take several requests.
#[derive(Debug)]
pub struct Limited<S> {
    service: Arc<Mutex<S>>,
    fitting: Arc<page::PageSizes>,
}

/// The body of an answer.
type LimitedBody = UnsyncBoxBody<Bytes, BoxError>;

impl<S> Layer<S> for Limits {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited { service: Arc::new(Mutex::new(inner)), fitting: Arc::default() }
    }
}

impl<S, B> Service<Request<Body>> for Limited<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<LimitedBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<LimitedBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(())) // each request waits for the service
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let within = deadline(&method, &uri);
        let is_watch = method == Method::GET && is_watch(&uri);
        let lists_all_pods = method == Method::GET && uri.path() == ALL_PODS;
        if lists_all_pods || request.extensions().get::<LeanPods>().is_some() {
            request.headers_mut().insert(header::ACCEPT, protobuf::ACCEPT);
        }
        let mut page = page::Page::of(&request);
        let (service, fitting) = (self.service.clone(), self.fitting.clone());
        let answered = async move {
            let request = fitting.adapt(page.as_mut(), request)?;
            let answer = send(&service, request).await?;
            if is_watch && answer.status().is_success() {
                let is_protobuf = protobuf::is_it(answer.headers());
                return Ok(answer.map(|body| {
                    if is_protobuf {
                        protobuf::lines(body).boxed_unsync()
                    } else {
                        body.map_err(Into::into).boxed_unsync()
                    }
                }));
            }
            let is_error = answer.status().is_client_error() || answer.status().is_server_error();
            let answer = if is_error {
                error_in_full(answer).await?
            } else {
                page::whole(answer, page, &service, &fitting).await?
            };
            let (head, mut bytes) = answer.into_parts();
            if protobuf::is_it(&head.headers) {
                bytes = protobuf::json(&bytes)?.into();
            }
            let bytes = with_retry_after(head.status, &head.headers, bytes);
            let body = Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
            Ok(Response::from_parts(head, body))
        };
        async move {
            let late = move |_| TooLate { method, path: uri.path().to_owned(), within };
            tokio::time::timeout(within, answered).await.map_err(late)?
        }
        .boxed()
    }
}

async fn send<S, B>(service: &Mutex<S>, request: Request<Body>) -> Result<Response<B>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    let answer = service.lock().await.ready().await.map_err(Into::into)?.call(request);
    answer.await.map_err(Into::into)
}

/// An error in full, or only its code where its text is longer than [`ERROR_BYTES_MAX`].
async fn error_in_full<B>(answer: Response<B>) -> Result<Response<Bytes>, BoxError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (mut head, body) = answer.into_parts();
    let bytes = match http_body_util::Limited::new(body, ERROR_BYTES_MAX).collect().await {
        Ok(body) if protobuf::is_it(&head.headers) => body.to_bytes(),
        Ok(body) => with_code(head.status, body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            head.headers.remove(header::CONTENT_TYPE); // it may have been protobuf
            let kib = ERROR_BYTES_MAX >> 10;
            let text = format!(
                "the error message of the API server has more than {kib} KiB; to read it, send the \
                 request with kubectl and --dry-run=server"
            );
            let mut status = Status::failure(&text, &reason_of(head.status));
            status.code = head.status.as_u16();
            serde_json::to_vec(&status)?.into()
        }
        Err(error) => return Err(error),
    };
    Ok(Response::from_parts(head, bytes))
}

/// An error with the code of its head, where it is JSON without a code: a proxy writes such ones.
fn with_code(code: StatusCode, body: Bytes) -> Bytes {
    match serde_json::from_slice::<Status>(&body) {
        Ok(mut status) if status.code == 0 => {
            status.code = code.as_u16();
            serde_json::to_vec(&status).map_or(body, Bytes::from)
        }
        Ok(_) | Err(_) => body,
    }
}

/// The reason of a Status, as far as its code tells.
fn reason_of(code: StatusCode) -> String {
    code.canonical_reason().unwrap_or_default().replace(' ', "")
}

/// How long a call may take.
fn deadline(method: &Method, uri: &Uri) -> Duration {
    let is_page = || has_parameter(uri, |name, _| name == "limit");
    match *method {
        Method::GET | Method::HEAD if is_page() && !uri.path().contains("/namespaces/") => {
            LIST_ALL_WITHIN
        }
        _ => CALL_WITHIN,
    }
}

fn is_watch(uri: &Uri) -> bool {
    has_parameter(uri, |name, value| name == "watch" && matches!(value, "true" | "1"))
}

fn has_parameter(uri: &Uri, is_it: impl Fn(&str, &str) -> bool) -> bool {
    let pairs = uri.query().unwrap_or_default().split('&');
    let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.any(|(name, value)| is_it(name, value))
}

/// The body of an error with the `Retry-After` of its head, where it does not have that already: the
/// API server's own limits on requests answer in plain text.
fn with_retry_after(code: StatusCode, headers: &HeaderMap, body: Bytes) -> Bytes {
    let Some(seconds) = asked_to_wait(code, headers) else { return body };
    let mut status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&body);
        Status::failure(text.trim(), &reason_of(code))
    });
    status.code = code.as_u16();
    let details = status.details.get_or_insert_with(|| StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: vec![],
        retry_after_seconds: 0,
    });
    if details.retry_after_seconds == 0 {
        details.retry_after_seconds = seconds;
    }
    serde_json::to_vec(&status).map_or(body, Bytes::from)
}
