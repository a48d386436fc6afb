//! A connection that is given up when its client takes too long to ask, or to take the answer.
//!
//! ```text
//!           first byte            whole head             answered
//! Waiting ─────────────▶ Head ─────────────▶ Busy ─────────────────▶ Waiting
//!    │ idle                │ header             no time here: the router's matter
//!    ▼                     ▼
//!  given up             given up
//! ```

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::places;

/// How far the request is that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing of it has come.
    Waiting,
    /// Some of its head has come.
    Head,
    /// It is being answered.
    Busy,
}

/// The times of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// From the first byte of a request to the end of its head; from the handshake for the first.
    pub(super) header: Duration,
    /// From an answer to the first byte of the next request.
    pub(super) idle: Duration,
    /// From the moment that the client takes no more of an answer until it has taken all of it.
    pub(super) answer: Duration,
}

/// Bytes of a connection, with an end to waiting for them.
#[derive(Debug)]
pub(super) struct Line<T> {
    inner: T,
    times: Times,
    stage: Stage,
    /// A request is being answered; the service says so.
    busy: Arc<AtomicBool>,
    place: Arc<places::Place>,
    deadline: Pin<Box<Sleep>>,
    /// Until then the client must have taken what was written.
    taken: Option<Pin<Box<Sleep>>>,
}

impl<T> Line<T> {
    /// A connection after its handshake, and what is set while a request is being answered.
    pub(super) fn new(
        inner: T,
        times: Times,
        place: Arc<places::Place>,
    ) -> (Self, Arc<AtomicBool>) {
        let busy = Arc::new(AtomicBool::new(false));
        let deadline = Box::pin(sleep(times.header));
        // a client that connects has something to ask: the first head has no time to be idle
        let stage = Stage::Head;
        let line = Self { inner, times, stage, busy: busy.clone(), place, deadline, taken: None };
        (line, busy)
    }

    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        let time = match stage {
            Stage::Waiting => {
                self.place.enter(places::Stage::Idle);
                self.times.idle
            }
            Stage::Head => {
                self.place.enter(places::Stage::Incomplete);
                self.times.header
            }
            Stage::Busy => return,
        };
        // a time so long that no clock shows its end is none
        if let Some(end) = Instant::now().checked_add(time) {
            self.deadline.as_mut().reset(end);
        }
    }

    /// Ends the wait for a client that does not take what is written.
    fn written<R>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<R>>,
        is_all: bool,
    ) -> Poll<io::Result<R>> {
        if written.is_ready() {
            if is_all {
                self.taken = None;
            }
            return written;
        }
        let time = self.times.answer;
        let deadline = self.taken.get_or_insert_with(|| Box::pin(sleep(time)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Line<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match (this.busy.load(Ordering::Relaxed), this.stage) {
            (true, Stage::Waiting | Stage::Head) => this.enter(Stage::Busy),
            (false, Stage::Busy) => this.enter(Stage::Waiting),
            (true, Stage::Busy) | (false, Stage::Waiting | Stage::Head) => {}
        }
        let before = buffer.filled().len();
        if let Poll::Ready(result) = Pin::new(&mut this.inner).poll_read(cx, buffer) {
            if this.stage == Stage::Waiting && buffer.filled().len() > before {
                this.enter(Stage::Head);
            }
            return Poll::Ready(result);
        }
        if this.stage == Stage::Busy {
            return Poll::Pending;
        }
        ready!(this.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Line<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write(cx, bytes);
        this.written(cx, written, false)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_flush(cx);
        this.written(cx, written, true)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_shutdown(cx);
        this.written(cx, written, true)
    }
}
