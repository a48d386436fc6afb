//! HTTP/1.1 over TLS.

use std::io;
use std::sync::Arc;

use axum::Router;
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::clients::Clients;
use super::current::Current;
use super::provider;
use crate::listener::{self, Handshake, Limits};

/// Serves a router over TLS 1.2 and 1.3 until `shutdown` ends: see [`listener::serve`]. With `clients`, it serves only clients
/// that have a certificate of an authority that is trusted.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    current: Arc<Current>,
    clients: Option<Arc<Clients>>,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) {
    let config = config(current, clients);
    listener::serve(listener, router, Tls::new(config), limits, shutdown).await;
}

/// TLS as the handshake of a connection.
#[derive(Clone)]
struct Tls(TlsAcceptor);

impl Tls {
    fn new(config: ServerConfig) -> Self {
        Self(TlsAcceptor::from(Arc::new(config)))
    }
}

impl Handshake for Tls {
    type Stream = TlsStream<TcpStream>;

    async fn shake(&self, stream: TcpStream) -> io::Result<Self::Stream> {
        self.0.accept(stream).await
    }
}

fn config(current: Arc<Current>, clients: Option<Arc<Clients>>) -> ServerConfig {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .unwrap_or_else(|error| unreachable!("ring has suites of both versions: {error}"));
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(current);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // each connection proves the certificate in force: none resumes what an older one proved
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}
