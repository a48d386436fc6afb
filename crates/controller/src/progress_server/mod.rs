//! Takes the progress reports of pods, by Kubeflow Trainer's status protocol.
//!
//! ```text
//! POST …/namespaces/NAMESPACE/trainjobs/NAME/status
//!   ─▶ token: which pod? (TokenReview) ─▶ owner: an AppWrapper with spec.progress? ─▶ message
//!      401, 403, 429, 503                 403, 404, 429, 503                          400, 413
//!   ─▶ queue ─▶ writer ─▶ the annotation of the pod
//!      429
//! ```
//!
//! A request is about the pod that its token is bound to, and about nothing else: the namespace comes from the
//! ServiceAccount, the name and the UID of the pod from what the API server says of the token. The path must agree
//! with that, and is otherwise not used.
//!
//! Every replica serves. A pod is patched at most once in [`queue::INTERVAL`]; reports in between are joined.

mod message;
mod owner;
mod queue;
mod refusal;
mod token;
mod write;

#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use axum::routing::{any, post};
use futures::FutureExt;
use http_body_util::BodyExt;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::json;
use tokio::time::timeout;

use crate::clock::Clock;
use crate::kinds::{ProgressEndpoint, progress_path};
use crate::listener::{Limits, Peer};
use crate::locked::RwLocked;
use crate::metrics::{Metrics, Reported};
use crate::observe::live::Live;
use crate::progress::{Report, Values};
use crate::rate::{Rate, RateLimiter};

use owner::Owners;
use queue::{Full, Queue};
use refusal::Refusal;
use token::Tokens;

pub use message::{Malformed, read};

/// The largest body: the same as Trainer's.
pub const BODY_BYTES_MAX: usize = 64 << 10;
/// The longest time for an answer. The client of Transformers waits 5 s.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(4);
/// The longest time in which a body arrives: the pod's own delay does not count as one of the API server.
const BODY_TIME_MAX: Duration = Duration::from_secs(2);
/// The reports of one pod: clients send one every 5 s, and some at once at the beginning and at the end.
const OF_POD: Rate = Rate { each: Duration::from_secs(1), at_once: 10 };
/// Those of all pods of a namespace.
const OF_NAMESPACE: Rate = Rate { each: Duration::from_millis(5), at_once: 1_000 };
/// How long a request waits at most until it may ask the API server about its token or its pod.
const PLACE_TIME_MAX: Duration = Duration::from_secs(1);
/// How often the log says that the owners of pods of a namespace cannot be read, or that their reports are not written.
const LINES_OF_A_NAMESPACE: Rate = Rate { each: Duration::from_secs(1), at_once: 10 };

/// What takes longer to serve will not do so by itself: hangs are not left alone for it.
const STARTS_WITHIN: Duration = Duration::from_mins(5);

/// A pod, as a token names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PodId {
    namespace: String,
    name: String,
    uid: String,
}

/// Whether pods can report, where, and since when.
#[derive(Debug, Default)]
pub struct ProgressState {
    serving: RwLock<Serving>,
    /// When this process began to start the server, and when it served first.
    started: OnceLock<Timestamp>,
    served: OnceLock<Timestamp>,
}

/// Whether the progress server serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Serving {
    /// The configuration does not enable it.
    #[default]
    Disabled,
    /// It has no certificate yet.
    Starting,
    /// Pods reach it here.
    At(Arc<ProgressEndpoint>),
}

impl ProgressState {
    /// What is so now.
    #[must_use]
    pub fn get(&self) -> Serving {
        self.serving.read_locked().clone()
    }

    /// Sets what is so from now on.
    pub fn set(&self, serving: Serving, now: Timestamp) {
        self.started.get_or_init(|| now);
        match &serving {
            Serving::Disabled | Serving::Starting => {}
            Serving::At(_) => {
                self.served.get_or_init(|| now); // a renewed certificate interrupts nothing
            }
        }
        *self.serving.write_locked() = serving;
    }

    /// Since when pods can report here: now, where they cannot yet, but no later than [`STARTS_WITHIN`] after the start of
    /// the process; none where the server is disabled.
    #[must_use]
    pub fn since(&self, now: Timestamp) -> Option<Timestamp> {
        match self.get() {
            Serving::Disabled => None,
            Serving::Starting | Serving::At(_) => {
                let latest = self.started.get().and_then(|at| at.checked_add(STARTS_WITHIN).ok());
                let served = self.served.get().copied().unwrap_or(now);
                Some(latest.map_or(served, |latest| served.min(latest)))
            }
        }
    }
}

/// Limits for connections: many pods, each with one now and then.
#[must_use]
pub fn limits() -> Limits {
    Limits { connections_of_a_peer: 64, ..Limits::default() }
}

/// The server without its listener.
#[derive(Clone)]
pub struct Desk(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    tokens: Tokens,
    owners: Owners,
    of_pods: RateLimiter<String>,
    of_namespaces: RateLimiter<String>,
    queue: Queue,
    client: Client,
}

impl Desk {
    /// A server that asks the API server with this client, and patches pods with it.
    #[must_use]
    pub fn new(client: Client, clock: Arc<dyn Clock>, metrics: Metrics) -> Self {
        Self(Arc::new(Inner {
            tokens: Tokens::new(client.clone(), clock.clone()),
            owners: Owners::new(client.clone(), Live::default(), clock.clone()),
            of_pods: RateLimiter::new(OF_POD),
            of_namespaces: RateLimiter::new(OF_NAMESPACE),
            queue: Queue::new(clock.clone()),
            clock,
            metrics,
            client,
        }))
    }

    /// The one path that is served.
    pub fn router(&self) -> Router {
        let (desk, other) = (self.clone(), self.clone());
        let serve = move |Path((namespace, name)): Path<(String, String)>, request| async move {
            desk.serve(&namespace, &name, request).await
        };
        let unknown = any(move || async move { other.told(&Err(Refusal::Path)) });
        Router::new()
            .route(&progress_path("{namespace}", "{name}"), post(serve))
            .fallback_service(unknown)
    }

    /// Writes what was reported, for ever.
    pub async fn write(&self) {
        let Inner { client, queue, metrics, clock, .. } = &*self.0;
        write::run(client, queue, metrics, &**clock).await;
    }

    /// Has what was reported written at once, while [`Self::write`] runs; ends when nothing waits any more.
    pub async fn flush(&self) {
        self.0.queue.flush().await;
    }

    async fn serve(&self, namespace: &str, name: &str, request: Request<Body>) -> Response<Body> {
        let work = AssertUnwindSafe(self.answer(namespace, name, request)).catch_unwind();
        let answer = match timeout(ANSWER_TIME_MAX, work).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Refusal::Internal),
            Err(_) => Err(Refusal::Slow),
        };
        self.told(&answer)
    }

    async fn answer(
        &self,
        namespace: &str,
        name: &str,
        request: Request<Body>,
    ) -> Result<(), Refusal> {
        let Inner { clock, tokens, owners, of_pods, of_namespaces, queue, .. } = &*self.0;
        let (head, body) = request.into_parts();
        let peer = head.extensions.get::<Peer>().copied();
        let pod = tokens.pod(peer, token::bearer(&head.headers)?).await?;
        if pod.namespace != namespace {
            return Err(Refusal::Namespace(pod.namespace));
        }
        let now = clock.elapsed();
        of_pods.take(pod.uid.clone(), 1, now).map_err(Refusal::TooMany)?;
        of_namespaces.take(pod.namespace.clone(), 1, now).map_err(Refusal::TooMany)?;
        let owner = owners.of(&pod).await?;
        if !owner.is_called(name) {
            return Err(Refusal::Name(owner.appwrapper.clone()));
        }
        let body = timeout(BODY_TIME_MAX, whole(body)).await.map_err(|_| Refusal::Body)??;
        let Some(values) = read(&body)? else { return Ok(()) };
        queue.put(pod, report(values, &**clock)?).map_err(|full| match full {
            Full::Namespace => Refusal::TooMany(queue::INTERVAL),
            Full::Queue => Refusal::Overloaded(queue::INTERVAL),
        })
    }

    fn told(&self, answer: &Result<(), Refusal>) -> Response<Body> {
        let reported = answer.as_ref().map_or_else(Refusal::reported, |()| Reported::Accepted);
        self.0.metrics.reported(reported);
        match answer {
            Ok(()) => written(StatusCode::OK, &json!({})),
            Err(refusal) => refusal.response(),
        }
    }
}

/// A report of now: the clock of the pod does not count.
fn report(values: Values, clock: &dyn Clock) -> Result<Report, Malformed> {
    Report::new(clock.now(), values).map_err(Malformed::Report)
}

/// The whole body, if it is small enough.
async fn whole(body: Body) -> Result<Bytes, Refusal> {
    let limited = http_body_util::Limited::new(body, BODY_BYTES_MAX);
    match limited.collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(Refusal::TooLarge),
        Err(_) => Err(Refusal::Body),
    }
}

fn written(status: StatusCode, body: &serde_json::Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
