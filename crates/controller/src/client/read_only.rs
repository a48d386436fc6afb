//! A client that only reads.

use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt};
use http::{Method, Request};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

/// A layer of a client: every request that is not a GET fails, and does not leave.
///
/// That is more than writes of objects: reviews of access and of tokens are created, too.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOnly;

/// A client's service behind [`ReadOnly`].
#[derive(Clone, Debug)]
pub struct ReadOnlyService<S>(S);

/// A request was not sent, since it could change something.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path} was not sent: with --shadow, the controller only reads")]
pub struct WouldWrite {
    method: Method,
    path: String,
}

impl<S> Layer<S> for ReadOnly {
    type Service = ReadOnlyService<S>;

    fn layer(&self, inner: S) -> ReadOnlyService<S> {
        ReadOnlyService(inner)
    }
}

impl<S, R> Service<Request<Body>> for ReadOnlyService<S>
where
    S: Service<Request<Body>, Response = R>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    R: Send + 'static,
{
    type Response = R;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<R, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if *request.method() == Method::GET {
            return self.0.call(request).map(|answer| answer.map_err(Into::into)).boxed();
        }
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        std::future::ready(Err(WouldWrite { method, path }.into())).boxed()
    }
}
