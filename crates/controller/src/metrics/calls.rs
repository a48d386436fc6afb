//! Counts the requests of a Kubernetes client, by verb and answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response, Uri};
use prometheus::IntCounterVec;
use tokio::time::Instant;
use tower::{Layer, Service};

/// The code of a request without a response.
const NO_ANSWER: &str = "error";
/// A request that is given up counts as one without a response if it has waited this long. An earlier one is not needed any more:
/// a watch ends, a client of the webhook leaves, another replica leads.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(1);

/// A layer for a client.
#[derive(Clone, Debug)]
pub struct CountCalls(IntCounterVec);

/// A service whose requests are counted when they are answered.
#[derive(Clone, Debug)]
pub struct Counted<S> {
    inner: S,
    counter: IntCounterVec,
}

/// A request that waits for its response.
struct Waiting {
    counter: IntCounterVec,
    verb: &'static str,
    since: Instant,
    is_counted: bool,
}

impl Waiting {
    fn count(&mut self, code: &str) {
        self.is_counted = true;
        self.counter.with_label_values(&[self.verb, code]).inc();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.is_counted && self.since.elapsed() >= GIVEN_UP_AFTER {
            self.count(NO_ANSWER);
        }
    }
}

impl CountCalls {
    pub(super) const fn new(counter: IntCounterVec) -> Self {
        Self(counter)
    }
}

impl<S> Layer<S> for CountCalls {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, counter: self.0.clone() }
    }
}

impl<S, Q, R> Service<Request<Q>> for Counted<S>
where
    S: Service<Request<Q>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let mut waiting = Waiting {
            counter: self.counter.clone(),
            verb: verb(request.method(), request.uri()),
            since: Instant::now(),
            is_counted: false,
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().map(Response::status);
            let code = code.as_ref().map_or(NO_ANSWER, |status| status.as_str());
            waiting.count(code);
            answer
        })
    }
}

/// The verb of a request, as Kubernetes names it in roles and audit logs.
fn verb(method: &Method, uri: &Uri) -> &'static str {
    let is_named = names_an_object(uri.path());
    match *method {
        Method::GET if watches(uri) => "watch",
        Method::GET if is_named => "get",
        Method::GET => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if is_named => "delete",
        Method::DELETE => "deletecollection",
        _ => "other",
    }
}

fn watches(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// Whether a path leads to one thing: an object, or what is no resource, such as `/version`.
fn names_an_object(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (["api", _, resource @ ..] | ["apis", _, _, resource @ ..]) = parts.as_slice() else {
        return true;
    };
    match resource {
        ["namespaces", _, _] | [_] => false,
        ["namespaces", _, _, _, ..] | [_, _, ..] | [] => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_is_the_one_of_a_role() {
        let aw = "/apis/workload.codeflare.dev/v1beta2/namespaces/n/appwrappers";
        for (method, uri, want) in [
            (Method::GET, "/api/v1/pods?limit=500", "list"),
            (Method::GET, "/api/v1/pods?watch=true&resourceVersion=7", "watch"),
            (Method::GET, "/api/v1/pods?labelSelector=watch%3Dtrue", "list"),
            (Method::GET, "/api/v1/namespaces/n/pods", "list"),
            (Method::GET, "/api/v1/namespaces/n/pods/p", "get"),
            (Method::GET, "/api/v1/namespaces", "list"),
            (Method::GET, "/api/v1/namespaces/n", "get"),
            (Method::GET, "/apis/batch/v1", "get"),
            (Method::GET, "/version", "get"),
            (Method::POST, aw, "create"),
            (Method::PUT, &format!("{aw}/a"), "update"),
            (Method::PATCH, &format!("{aw}/a/status"), "patch"),
            (Method::DELETE, &format!("{aw}/a"), "delete"),
            (Method::DELETE, aw, "deletecollection"),
            (Method::OPTIONS, "/", "other"),
        ] {
            assert_eq!(verb(&method, &uri.parse().unwrap()), want, "{method} {uri}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_and_their_absence_are_counted() {
        let metrics = super::super::Metrics::new();
        let service = tower::service_fn(|request: Request<()>| async move {
            match request.uri().path() {
                "/api/v1/pods" => Ok(Response::new(())),
                "/api/v1/nodes/hangs" => std::future::pending().await,
                _ => Err(std::io::Error::other("cut off")),
            }
        });
        let mut counted = metrics.calls().layer(service);
        for path in ["/api/v1/pods", "/api/v1/pods", "/api/v1/nodes/n"] {
            drop(counted.call(Request::get(path).body(()).unwrap()).await);
        }
        for waits in [GIVEN_UP_AFTER / 2, GIVEN_UP_AFTER] {
            let answer = counted.call(Request::delete("/api/v1/nodes/hangs").body(()).unwrap());
            tokio::time::timeout(waits, answer).await.unwrap_err();
        }
        let page = metrics.page();
        for line in [
            r#"appwrapper_api_requests_total{code="200",verb="list"} 2"#,
            r#"appwrapper_api_requests_total{code="error",verb="get"} 1"#,
            r#"appwrapper_api_requests_total{code="error",verb="delete"} 1"#,
        ] {
            assert!(page.contains(line), "{page}");
        }
    }
}
