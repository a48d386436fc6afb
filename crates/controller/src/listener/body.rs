//! The body of a request, which tells when it has arrived, and that of an answer, which tells when all of it is there.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::places::{Place, Stage};

/// A body on its way.
pub(super) struct Arriving {
    body: Incoming,
    place: Arc<Place>,
}

impl Arriving {
    pub(super) fn new(body: Incoming, place: Arc<Place>) -> Self {
        if body.is_end_stream() {
            place.enter(Stage::Answering);
        }
        Self { body, place }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if self.body.is_end_stream() || matches!(frame, Poll::Ready(None)) {
            self.place.enter(Stage::Answering);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer; whoever sends it drops it once nothing more comes.
pub(super) struct Leaving<B> {
    body: B,
    place: Arc<Place>,
}

impl<B> Leaving<B> {
    pub(super) fn new(body: B, place: Arc<Place>) -> Self {
        Self { body, place }
    }
}

impl<B: Body + Unpin> Body for Leaving<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Leaving<B> {
    fn drop(&mut self) {
        self.place.follow(Stage::Sending, Stage::Flushing);
    }
}
