//! A client whose requests are sent again where the API server asks it to wait.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use http::{HeaderMap, Request, Response, StatusCode};
use kube::client::Body;
use tokio::sync::Mutex;
use tower::{BoxError, Layer, Service};

use super::{asked_to_wait, send};

/// How often a request is sent again. Source: `maxRetries` of client-go's `Request`.
const AGAIN_MAX: u32 = 10;
/// The longest `Retry-After` that is waited for; with a longer one, the answer is that of the request.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A layer of a client: a request that the API server answers with 429 or 503 and `Retry-After` is sent again after that
/// time, whatever its method: the API server has not carried it out. Without an answer, or with another one, that is not
/// known.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendAgain;

/// A client's service behind [`SendAgain`]. It is shared, since a call may take several requests.
#[derive(Debug)]
pub struct SendsAgain<S>(Arc<Mutex<S>>);

impl<S> Layer<S> for SendAgain {
    type Service = SendsAgain<S>;

    fn layer(&self, inner: S) -> SendsAgain<S> {
        SendsAgain(Arc::new(Mutex::new(inner)))
    }
}

impl<S, B> Service<Request<Body>> for SendsAgain<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(())) // each request waits for the service
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let service = self.0.clone();
        async move {
            for _ in 0..AGAIN_MAX {
                let again = copy(&request);
                let answer = send(&service, request).await?;
                let wait = wait(answer.status(), answer.headers());
                let (Some(again), Some(wait)) = (again, wait) else { return Ok(answer) };
                drop(answer);
                tokio::time::sleep(wait).await;
                request = again;
            }
            send(&service, request).await
        }
        .boxed()
    }
}

/// The same request; none where its body is a stream.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    Some(copy)
}

/// How long to wait before a request is sent again; none where it is not.
fn wait(code: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let wait = Duration::from_secs(asked_to_wait(code, headers)?.into());
    (wait <= WAIT_MAX).then_some(wait)
}
