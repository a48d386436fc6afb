//! A server of HTTP/1.1 over TLS, with a limit on everything that a client can use up.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::current::Current;
use super::line::{Line, Times};
use super::provider;

/// After an error that a later attempt may not meet, such as too many open files.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What a client may use up. What a request may, body and time, is the router's matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time, handshakes included; more wait until one has ended.
    pub connections: usize,
    /// From the connection to the end of the handshake.
    pub handshake: Duration,
    /// From the first byte of a request to the end of its head; from the handshake for the first request.
    pub header: Duration,
    /// Between two requests. Longer than the 90 s of Go's client: who closes a connection that the other
    /// is just sending on makes that request fail.
    pub idle: Duration,
    /// Headers of a request.
    pub headers_max: usize,
    /// The head of a request, in bytes.
    pub head_bytes_max: usize,
    /// How long requests that have begun may take after the shutdown.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(10),
            idle: Duration::from_mins(3),
            headers_max: 64,
            head_bytes_max: 16 * 1024,
            drain: Duration::from_secs(5),
        }
    }
}

/// Serves a router over TLS 1.2 and 1.3 until `shutdown` ends; requests that have begun by then are
/// finished, within `limits.drain`.
///
/// It speaks HTTP/1.1 alone: a connection has one request at a time, so that the limit of connections
/// is one of requests, too, and nobody floods it with streams.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    current: Arc<Current>,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) {
    let acceptor = TlsAcceptor::from(Arc::new(config(current)));
    let places = Arc::new(Semaphore::new(limits.connections));
    let (stop, stopping) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        while connections.try_join_next().is_some() {}
        let (stream, place) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let (acceptor, router) = (acceptor.clone(), router.clone());
        let stopping = stopping.clone();
        connections.spawn(async move {
            if let Err(error) = connection(stream, acceptor, router, limits, stopping).await {
                tracing::debug!(cause = %error, "A connection was given up.");
            }
            drop(place);
        });
    }
    drop(listener);
    stop.send_replace(true);
    let ended = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.drain, ended).await.is_err() {
        tracing::warn!(connections = connections.len(), "Requests were cut off by the shutdown.");
    }
}

fn config(current: Arc<Current>) -> ServerConfig {
    let builder = ServerConfig::builder_with_provider(provider());
    let mut config = builder
        .with_protocol_versions(&[&TLS13, &TLS12])
        .unwrap_or_else(|error| unreachable!("ring has suites of both versions: {error}"))
        .with_no_client_auth()
        .with_cert_resolver(current);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // each connection proves the certificate in force: none resumes what an older one proved
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}

/// Waits for a place, then for a client: those that find no place wait in the listener's queue.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    let place = places.clone().acquire_owned().await;
    let place = place.unwrap_or_else(|_| unreachable!("nobody closes it"));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "No connection can be accepted; will try again.");
                sleep(ACCEPT_AGAIN_AFTER).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind())
}

/// Why a connection was given up.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the handshake took longer than {0:?}")]
    SlowHandshake(Duration),
    #[error("the handshake failed: {0}")]
    Handshake(io::Error),
    #[error("{0}")]
    Http(hyper::Error),
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Router,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) -> Result<(), Error> {
    // answers are small and waited for
    stream.set_nodelay(true).map_err(Error::Handshake)?;
    let stream = tokio::select! {
        stream = timeout(limits.handshake, acceptor.accept(stream)) => stream,
        // the sender outlives the connections
        _ = stopping.wait_for(|stop| *stop) => return Ok(()),
    };
    let stream =
        stream.map_err(|_| Error::SlowHandshake(limits.handshake))?.map_err(Error::Handshake)?;
    let (line, busy) = Line::new(stream, Times { header: limits.header, idle: limits.idle });
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let answering = Answering::new(&busy);
        let answer = router.clone().oneshot(request);
        async move {
            let answer = answer.await;
            drop(answering);
            answer
        }
    });
    let mut http = http1::Builder::new();
    http.header_read_timeout(None) // the line has one, and another between requests
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

/// A request is being answered as long as this lives.
struct Answering(Arc<AtomicBool>);

impl Answering {
    fn new(busy: &Arc<AtomicBool>) -> Self {
        busy.store(true, Ordering::Relaxed);
        Self(busy.clone())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
