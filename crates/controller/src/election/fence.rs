//! Keeps a leader that has lost its Lease from writing.

use std::future::poll_fn;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt};
use http::{Method, Request};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

use super::Leadership;

/// A layer of a client: a request that may write is not sent while another replica may lead.
///
/// A process that was stopped and goes on knows nothing of the time in between; its first write
/// would come after the new leader's. It may be stopped just while a request waits for a connection, so
/// it is asked again whenever a request gets on. Writes are guarded by `resourceVersion` besides.
#[derive(Clone, Debug)]
pub struct LeaderWrites(Leadership);

/// A client's service behind a [`LeaderWrites`].
#[derive(Clone, Debug)]
pub struct LeaderWritesService<S> {
    inner: S,
    leadership: Leadership,
}

/// A write was not sent, or its response not awaited, because another replica may lead.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path} was aborted: this replica may no longer be the leader")]
pub struct NotLeading {
    method: Method,
    path: String,
}

impl LeaderWrites {
    /// A fence that lets writes pass while this replica leads.
    #[must_use]
    pub const fn new(leadership: Leadership) -> Self {
        Self(leadership)
    }
}

impl<S> Layer<S> for LeaderWrites {
    type Service = LeaderWritesService<S>;

    fn layer(&self, inner: S) -> LeaderWritesService<S> {
        LeaderWritesService { inner, leadership: self.0.clone() }
    }
}

impl<S, R> Service<Request<Body>> for LeaderWritesService<S>
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
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            return self.inner.call(request).map(|answer| answer.map_err(Into::into)).boxed();
        }
        let leadership = self.leadership.clone();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let mut answer = leadership.holds().then(|| Box::pin(self.inner.call(request)));
        poll_fn(move |context| {
            if let Some(answer) = answer.as_mut().filter(|_| leadership.holds()) {
                return answer.as_mut().poll(context).map_err(Into::into);
            }
            let (method, path) = (method.clone(), path.clone());
            Poll::Ready(Err(NotLeading { method, path }.into()))
        })
        .boxed()
    }
}
