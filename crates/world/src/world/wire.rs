//! Between a controller and the API server: each call waits here until the world answers it.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Method, Request, header};
use kube::client::Body;
use serde_json::Value;
use tower::Service;

use crate::locked::Locked;
use crate::sim::{Reply, reply};

/// The calls of one process that nobody has taken yet.
#[derive(Clone, Debug, Default)]
pub struct Wire(Arc<Mutex<VecDeque<Call>>>);

/// A call that waits for its answer.
#[derive(Debug)]
pub struct Call {
    /// HTTP method.
    pub method: Method,
    /// Path and query.
    pub uri: String,
    /// Content type of the body.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
    slot: Slot,
}

#[derive(Clone, Default)]
struct Slot(Arc<Mutex<Answered>>);

#[derive(Default)]
struct Answered {
    reply: Option<Result<Reply, kube::Error>>,
    waker: Option<Waker>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

impl Wire {
    /// The oldest call that nobody has taken.
    #[must_use]
    pub fn take(&self) -> Option<Call> {
        self.0.locked().pop_front()
    }
}

impl Call {
    /// Whether it writes.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.method != Method::GET && !self.is_review()
    }

    /// Whether it asks about rights: a POST that stores nothing.
    #[must_use]
    pub fn is_review(&self) -> bool {
        self.uri.starts_with("/apis/authorization.k8s.io/")
    }

    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Answers it with a document.
    pub fn answer(&self, code: u16, text: String) {
        self.settle(Ok(reply(code, text)));
    }

    /// Breaks the connection.
    pub fn sever(&self) {
        self.settle(Err(kube::Error::Service("the connection was reset".into())));
    }

    fn settle(&self, answer: Result<Reply, kube::Error>) {
        let mut slot = self.slot.0.locked();
        slot.reply = Some(answer);
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }

    /// A copy that can be carried out later, when nobody waits for the answer any more.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self {
            method: self.method.clone(),
            uri: self.uri.clone(),
            content_type: self.content_type.clone(),
            body: self.body.clone(),
            slot: Slot::default(),
        }
    }
}

/// The answer to come.
#[derive(Debug)]
pub struct Waiting(Slot);

impl Future for Waiting {
    type Output = Result<Reply, kube::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.0.locked();
        if let Some(reply) = slot.reply.take() {
            return Poll::Ready(reply);
        }
        slot.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Service<Request<Body>> for Wire {
    type Response = Reply;
    type Error = kube::Error;
    type Future = Waiting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Waiting {
        let (head, body) = request.into_parts();
        let content_type = head.headers.get(header::CONTENT_TYPE);
        let slot = Slot::default();
        let call = Call {
            method: head.method,
            uri: head.uri.path_and_query().map(|path| path.as_str().to_owned()).unwrap_or_default(),
            content_type: content_type
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
            // a body in memory is there at once
            body: futures::FutureExt::now_or_never(body.collect_bytes())
                .and_then(Result::ok)
                .unwrap_or_default(),
            slot: slot.clone(),
        };
        self.0.locked().push_back(call);
        Waiting(slot)
    }
}
