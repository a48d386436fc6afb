//! The loop that accepts connections, and the requests of one connection.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

use super::Peer;
use super::body::{Arriving, Leaving};
use super::line::{Line, overdue};
use super::places::{Most, Place, Places, Stage};

/// After an error that a later attempt may not meet, such as too many open files.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Limits for clients. The router limits the body and the time of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time, handshakes included.
    pub connections: usize,
    /// Connections at a time of one [`Peer`].
    pub connections_of_a_peer: usize,
    /// From the connection to the end of the handshake.
    pub handshake: Duration,
    /// From the first byte of a request to the end of its head; from the handshake for the first request.
    pub header: Duration,
    /// Between two requests. Longer than the 90 s of Go's client: if the server closes a connection while
    /// the client sends a request, the request fails.
    pub idle: Duration,
    /// From the head of a request to the end of its body, unless the router has no time for so long.
    pub body: Duration,
    /// How long an answer may take until its last part is there, and how long a client may then take for the rest.
    pub answer: Duration,
    /// Headers of a request.
    pub headers_max: usize,
    /// The head of a request, in bytes.
    pub head_bytes_max: usize,
    /// How long requests that have begun may take after the shutdown.
    pub drain: Duration,
}

impl Default for Limits {
    /// For a server that many API servers call, perhaps all of them through one address.
    fn default() -> Self {
        Self {
            connections: 512,
            connections_of_a_peer: 256,
            handshake: Duration::from_secs(5),
            header: Duration::from_secs(5),
            idle: Duration::from_mins(3),
            body: Duration::from_secs(10),
            answer: Duration::from_secs(10),
            headers_max: 64,
            head_bytes_max: 16 * 1024,
            drain: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// For a server that a few clients ask now and then.
    #[must_use]
    pub fn small() -> Self {
        Self { connections: 64, connections_of_a_peer: 32, ..Self::default() }
    }
}

/// What comes before the requests of a connection.
pub trait Handshake: Clone + Send + Sync + 'static {
    /// The connection after it.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Shakes hands; the time is limited by who calls.
    fn shake(&self, stream: TcpStream) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// No handshake: plain text.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Handshake for Plain {
    type Stream = TcpStream;

    async fn shake(&self, stream: TcpStream) -> io::Result<TcpStream> {
        Ok(stream)
    }
}

/// Serves a router until `shutdown` ends; requests that have begun by then are finished, within
/// `limits.drain`. Each request has its [`Peer`] among its extensions.
///
/// It speaks HTTP/1.1 alone: a connection has one request at a time, so that the limit of connections
/// also limits requests, and no client can flood it with streams.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    handshake: impl Handshake,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) {
    let Limits { connections: all, connections_of_a_peer: of_a_peer, .. } = limits;
    let places = Places::new(Most { all, of_a_peer });
    let (stop, stopping) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        while connections.try_join_next().is_some() {}
        let (stream, place, peer) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let connection =
            Connection { router: router.clone(), peer, place: Arc::new(place), limits };
        let (handshake, stopping) = (handshake.clone(), stopping.clone());
        connections.spawn(async move {
            if let Err(error) = connection.serve(stream, handshake, stopping).await {
                tracing::debug!(cause = %error, "Connection closed.");
            }
        });
    }
    drop(listener);
    stop.send_replace(true);
    let ended = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.drain, ended).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "Shutdown timed out: requests were interrupted."
        );
    }
}

/// Waits for a connection within the limits; others are closed at once.
async fn accept(listener: &TcpListener, places: &Arc<Places>) -> (TcpStream, Place, Peer) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let peer = Peer::from(address);
                if let Some(place) = places.admit(peer) {
                    return (stream, place, peer);
                }
                tracing::debug!(%address, "Connection rejected: connection limit reached.");
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "Failed to accept a connection; retrying.");
                places.make_room();
                sleep(ACCEPT_AGAIN_AFTER).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind())
}

/// Why a connection was closed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the handshake took longer than {0:?}")]
    SlowHandshake(Duration),
    #[error("the handshake failed: {0}")]
    Handshake(io::Error),
    #[error("closed to make room for another connection")]
    Replaced,
    #[error("in stage {0:?} for too long")]
    Slow(Stage),
    #[error("{0}")]
    Http(hyper::Error),
}

/// What a connection is served with.
struct Connection {
    router: Router,
    peer: Peer,
    place: Arc<Place>,
    limits: Limits,
}

impl Connection {
    async fn serve(
        self,
        stream: TcpStream,
        handshake: impl Handshake,
        mut stopping: watch::Receiver<bool>,
    ) -> Result<(), Error> {
        let place = self.place.clone();
        let served = async move {
            // answers are small and waited for
            stream.set_nodelay(true).map_err(Error::Handshake)?;
            let within = self.limits.handshake;
            let stream = tokio::select! {
                stream = timeout(within, handshake.shake(stream)) => stream,
                // the sender outlives the connections
                _ = stopping.wait_for(|stop| *stop) => return Ok(()),
            };
            let stream = stream.map_err(|_| Error::SlowHandshake(within))?;
            let stream = stream.map_err(Error::Handshake)?;
            let (place, limits) = (self.place.clone(), self.limits);
            place.enter(Stage::Head);
            tokio::select! {
                ended = self.requests(stream, stopping) => ended,
                stage = overdue(&place, &limits) => Err(Error::Slow(stage)),
            }
        };
        tokio::select! {
            ended = served => ended,
            () = place.lost() => Err(Error::Replaced),
        }
    }

    async fn requests(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send,
        mut stopping: watch::Receiver<bool>,
    ) -> Result<(), Error> {
        let Self { router, peer, place, limits } = self;
        let line = Line::new(stream, place.clone());
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            place.enter(Stage::Body);
            let mut request = request.map(|body| Body::new(Arriving::new(body, place.clone())));
            request.extensions_mut().insert(peer);
            let (answer, place) = (router.clone().oneshot(request), place.clone());
            async move {
                let answer = answer.await;
                place.enter(Stage::Sending);
                answer.map(|answer| answer.map(|body| Leaving::new(body, place)))
            }
        });
        let mut http = http1::Builder::new();
        http.header_read_timeout(None) // the stages have times of their own
            .max_headers(limits.headers_max)
            .max_header_size(limits.head_bytes_max);
        let mut connection = pin!(http.serve_connection(TokioIo::new(line), service));
        tokio::select! {
            ended = &mut connection => return ended.map_err(Error::Http),
            _ = stopping.wait_for(|stop| *stop) => {}
        }
        connection.as_mut().graceful_shutdown();
        connection.await.map_err(Error::Http)
    }
}
