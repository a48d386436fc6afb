//! The bytes of a connection, which tell how far its requests are.
//!
//! ```text
//!       first byte      whole head      whole body           answer         whole answer          all sent
//! Idle ───────────▶ Head ──────────▶ Body ──────────▶ Answering ──────▶ Sending ──────────────▶ Flushing ──────────▶ Idle
//! ```
//!
//! The service tells of those in the middle. Who may stay in which stage for how long is seen by
//! [`overdue`], beside the connection: hyper does not look at a connection on which nothing happens.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::sleep_until;

use super::Limits;
use super::places::{Place, Stage};

/// A connection after its handshake.
#[derive(Debug)]
pub(super) struct Line<T> {
    inner: T,
    place: Arc<Place>,
}

impl<T> Line<T> {
    /// A client that connects has something to ask: the first head has no time to be idle.
    pub(super) fn new(inner: T, place: Arc<Place>) -> Self {
        Self { inner, place }
    }
}

/// Waits until a connection is longer in one stage than it may be.
pub(super) async fn overdue(place: &Place, limits: &Limits) -> Stage {
    loop {
        let Some((stage, since)) = place.stage() else { return std::future::pending().await };
        let time = match stage {
            Stage::Idle => Some(limits.idle),
            Stage::Head => Some(limits.header),
            Stage::Body => Some(limits.body),
            // the router's matter
            Stage::Answering => None,
            Stage::Sending | Stage::Flushing => Some(limits.answer),
        };
        // a time so long that no clock shows its end is none
        let end = time.and_then(|time| since.checked_add(time));
        let over = async {
            match end {
                Some(end) => sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = over => return stage,
            () = place.changed() => {}
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Line<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.inner).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            this.place.follow(Stage::Idle, Stage::Head);
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Line<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.inner).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            this.place.follow(Stage::Flushing, Stage::Idle);
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}
