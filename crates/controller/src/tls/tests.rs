//! The server over loopback, with clients that trust one authority.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use k8s_openapi::jiff::Timestamp;
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;

/// Texts of an authority and of a pair that it signed for `localhost` and 127.0.0.1.
struct Made {
    authority: String,
    certificate: String,
    key: String,
}

fn made() -> Made {
    let mut authority = CertificateParams::new(vec![]).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    authority.not_after = rcgen::date_time_ymd(2049, 1, 1);
    let authority_key = KeyPair::generate().unwrap();
    let text = authority.self_signed(&authority_key).unwrap().pem();
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let mut pair = CertificateParams::new(names).unwrap();
    // the first year that is written with four digits
    pair.not_before = rcgen::date_time_ymd(2001, 2, 3);
    pair.not_after = rcgen::date_time_ymd(2050, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = pair.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap().pem();
    Made { authority: text, certificate, key: key.serialize_pem() }
}

impl Made {
    fn pair(&self) -> Pair {
        Pair::parse(self.certificate.as_bytes(), self.key.as_bytes()).unwrap()
    }
}

#[test]
fn a_pair_is_checked_and_says_what_is_wrong() {
    let (one, other) = (made(), made());
    let broken = one.certificate.replace('M', "\u{1}");
    let section = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let twice = format!("{}{section}", one.certificate);
    let half = one.key.replace("-----END", "-----");
    let rows = [
        (one.certificate.as_str(), one.key.as_str(), "good"),
        ("", &one.key, "no certificate found: expected a BEGIN CERTIFICATE section"),
        (&one.key, &one.key, "no certificate found: expected a BEGIN CERTIFICATE section"),
        (&broken, &one.key, "the certificate is not PEM"),
        (section, &one.key, "certificate 0 of the chain is not an X.509 certificate"),
        (&twice, &one.key, "certificate 1 of the chain is not an X.509 certificate"),
        (
            &one.certificate,
            &one.certificate,
            "no private key found: expected an unencrypted BEGIN PRIVATE KEY section",
        ),
        (&one.certificate, &half, "the private key is not PEM"),
        (&one.certificate, &other.key, "the private key does not match the certificate"),
    ];
    for (certificate, key, want) in rows {
        let pair = Pair::parse(certificate.as_bytes(), key.as_bytes());
        let said = pair.map_or_else(|error| error.to_string(), |_| "good".to_owned());
        assert_eq!(said, want);
    }
}

#[test]
fn a_pair_knows_its_names_its_times_and_its_authority() {
    let (one, other) = (made(), made());
    let pair = one.pair();
    for (name, want) in [
        ("localhost", true),
        ("127.0.0.1", true),
        ("127.0.0.2", false),
        ("local", false),
        ("a.localhost", false),
    ] {
        assert_eq!(pair.covers(&ServerName::try_from(name).unwrap()), want, "{name}");
    }
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    assert_eq!(pair.not_before(), time("2001-02-03T00:00:00Z"));
    assert_eq!(pair.not_after(), time("2050-01-01T00:00:00Z"));
    let of_authority = Some(time("2049-01-01T00:00:00Z"));
    assert_eq!(pair.trusted_until(one.authority.as_bytes()), of_authority);
    assert_eq!(pair.trusted_until(other.authority.as_bytes()), None);
    assert_eq!(pair.trusted_until(b"no certificate"), None);
    assert!(are_certificates(one.authority.as_bytes()));
    assert!(!are_certificates(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"));
    assert!(!are_certificates(b""));
}

/// A server on loopback.
struct Running {
    address: SocketAddr,
    current: Arc<Current>,
    /// What the handler of `/wait` waits for, and how it says that it does.
    go_on: Arc<Notify>,
    waits: Arc<Notify>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

async fn start(limits: Limits) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let current = Arc::new(Current::new());
    let (go_on, waits) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (until, tell) = (go_on.clone(), waits.clone());
    let wait = get(async move || {
        tell.notify_one();
        until.notified().await;
        "waited"
    });
    let router = Router::new().route("/", get(async || "hello")).route("/wait", wait);
    let (stop, stopped) = oneshot::channel();
    let served = current.clone();
    let task = tokio::spawn(async move {
        serve(listener, router, served, None, limits, async { drop(stopped.await) }).await;
    });
    Running { address, current, go_on, waits, stop, task }
}

type Client = TlsStream<TcpStream>;

/// A connection of a client that trusts one authority.
async fn connect(address: SocketAddr, authority: &str) -> std::io::Result<Client> {
    connect_as(address, authority, None).await
}

/// The same of one that has a certificate.
async fn connect_as(
    address: SocketAddr,
    authority: &str,
    own: Option<&Made>,
) -> std::io::Result<Client> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let chain = CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
            config.with_client_auth_cert(vec![chain], key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let client = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    assert_eq!(client.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
    Ok(client)
}

async fn send(client: &mut Client, path: &str) {
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
}

/// One answer: its status and its body.
async fn answer(client: &mut Client) -> std::io::Result<(u16, String)> {
    let mut read = vec![];
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Ok((head[9..12].parse().unwrap(), body.to_owned()));
            }
        }
        let mut part = [0; 4096];
        match client.read(&mut part).await? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => read.extend_from_slice(&part[..count]),
        }
    }
}

async fn ask(client: &mut Client, path: &str) -> std::io::Result<(u16, String)> {
    send(client, path).await;
    answer(client).await
}

fn hello() -> (u16, String) {
    (200, "hello".to_owned())
}

#[tokio::test]
async fn only_who_trusts_the_authority_is_served_and_nobody_before_there_is_a_certificate() {
    let server = start(Limits::default()).await;
    let (one, other) = (made(), made());
    assert!(connect(server.address, &one.authority).await.is_err(), "there is none yet");
    assert_eq!(
        (server.current.expires(), *server.current.validity().borrow()),
        (None, Validity::NotYet)
    );
    server.current.set(one.pair());
    let (from, until) = (one.pair().not_before(), one.pair().not_after());
    let validity = *server.current.validity().borrow();
    assert_eq!(validity, Validity::Between(from, until));
    let second = Duration::from_secs(1);
    for (moment, want) in [
        (from - second, (false, Some(from))),
        (from, (true, Some(until))),
        (until - second, (true, Some(until))),
        (until, (false, None)),
    ] {
        assert_eq!(validity.at(moment), want, "{moment}");
    }
    assert!(connect(server.address, &other.authority).await.is_err(), "it is not trusted");
    let mut client = connect(server.address, &one.authority).await.unwrap();
    assert_eq!(ask(&mut client, "/").await.unwrap(), hello());
    assert_eq!(ask(&mut client, "/none").await.unwrap().0, 404, "on the same connection");
}

#[tokio::test]
async fn a_change_of_the_certificate_is_seen_by_new_connections_and_breaks_none() {
    let server = start(Limits::default()).await;
    let pairs = [made(), made(), made()];
    server.current.set(pairs[0].pair());
    let mut old = connect(server.address, &pairs[0].authority).await.unwrap();
    assert_eq!(ask(&mut old, "/").await.unwrap(), hello());
    send(&mut old, "/wait").await;
    server.waits.notified().await;
    for (position, made) in pairs.iter().enumerate() {
        server.current.set(made.pair());
        for (other, trusted) in pairs.iter().enumerate() {
            let client = connect(server.address, &trusted.authority).await;
            assert_eq!(client.is_ok(), other == position);
            if let Ok(mut client) = client {
                assert_eq!(ask(&mut client, "/").await.unwrap(), hello());
            }
        }
    }
    server.go_on.notify_one();
    assert_eq!(answer(&mut old).await.unwrap(), (200, "waited".to_owned()));
    assert_eq!(ask(&mut old, "/").await.unwrap(), hello());
}

/// Waits until the other side closes the connection.
async fn closed(stream: &mut (impl tokio::io::AsyncRead + Unpin)) {
    let mut rest = [0; 1024];
    while !matches!(stream.read(&mut rest).await, Ok(0) | Err(_)) {}
}

/// A server with one limit that is short.
async fn hasty(made: &Made, change: impl FnOnce(&mut Limits, Duration)) -> Running {
    let mut limits = Limits::default();
    change(&mut limits, Duration::from_secs(2));
    let server = start(limits).await;
    server.current.set(made.pair());
    server
}

#[tokio::test]
async fn who_is_slow_is_given_up_and_holds_up_nobody() {
    let made = &made();
    let no_handshake = async {
        let server = hasty(made, |limits, short| limits.handshake = short).await;
        let mut silent = TcpStream::connect(server.address).await.unwrap();
        let mut client = connect(server.address, &made.authority).await.unwrap();
        assert_eq!(ask(&mut client, "/").await.unwrap(), hello());
        closed(&mut silent).await;
        assert_eq!(ask(&mut client, "/").await.unwrap(), hello(), "who has shaken hands stays");
    };
    // nothing of a request, or half of one, or half of a second one, which came with the first
    let begun = ["", "GET / HTTP/1.1\r\nHo", "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HT"];
    let half_a_request = begun.map(async |begun| {
        let change = |limits: &mut Limits, short| (limits.header, limits.idle) = (short, short);
        let server = hasty(made, change).await;
        let mut client = connect(server.address, &made.authority).await.unwrap();
        client.write_all(begun.as_bytes()).await.unwrap();
        closed(&mut client).await;
    });
    let no_second_request = async {
        let server = hasty(made, |limits, short| limits.idle = short).await;
        let mut client = connect(server.address, &made.authority).await.unwrap();
        assert_eq!(ask(&mut client, "/").await.unwrap(), hello());
        closed(&mut client).await;
    };
    tokio::join!(no_handshake, futures::future::join_all(half_a_request), no_second_request);
}

/// An answer may take as long as the router lets it: the times of the line are those of the client alone.
#[tokio::test]
async fn who_waits_for_an_answer_is_not_slow() {
    let short = Duration::from_secs(1);
    let limits = Limits { header: short, idle: short, ..Limits::default() };
    let server = start(limits).await;
    let made = made();
    server.current.set(made.pair());
    let mut client = connect(server.address, &made.authority).await.unwrap();
    send(&mut client, "/wait").await;
    server.waits.notified().await;
    // another one is given up meanwhile, and its time began later
    closed(&mut connect(server.address, &made.authority).await.unwrap()).await;
    server.go_on.notify_one();
    assert_eq!(answer(&mut client).await.unwrap().0, 200);
}

#[tokio::test]
async fn beyond_the_limit_the_connection_that_was_idle_longest_gives_way() {
    let server = start(Limits { connections: 2, ..Limits::default() }).await;
    let made = made();
    server.current.set(made.pair());
    let mut first = connect(server.address, &made.authority).await.unwrap();
    let mut second = connect(server.address, &made.authority).await.unwrap();
    for client in [&mut first, &mut second] {
        assert_eq!(ask(client, "/").await.unwrap(), hello());
    }
    let mut third = connect(server.address, &made.authority).await.unwrap();
    assert_eq!(ask(&mut third, "/").await.unwrap(), hello());
    closed(&mut first).await;
    assert_eq!(ask(&mut second, "/").await.unwrap(), hello());
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = start(Limits::default()).await;
    let made = made();
    server.current.set(made.pair());
    let many = "a: b\r\n".repeat(Limits::default().headers_max + 1);
    let large = format!("a: {}\r\n", "b".repeat(Limits::default().head_bytes_max));
    for headers in [many, large] {
        let mut client = connect(server.address, &made.authority).await.unwrap();
        let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(answer(&mut client).await.unwrap().0, 431);
    }
}

#[tokio::test]
async fn at_the_shutdown_what_has_begun_is_finished() {
    let server = start(Limits::default()).await;
    let made = made();
    server.current.set(made.pair());
    let mut idle = connect(server.address, &made.authority).await.unwrap();
    assert_eq!(ask(&mut idle, "/").await.unwrap(), hello());
    let mut client = connect(server.address, &made.authority).await.unwrap();
    send(&mut client, "/wait").await;
    server.waits.notified().await;
    server.stop.send(()).unwrap();
    closed(&mut idle).await;
    assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens any more");
    server.go_on.notify_one();
    assert_eq!(answer(&mut client).await.unwrap(), (200, "waited".to_owned()));
    server.task.await.unwrap();
}

#[tokio::test]
async fn at_the_shutdown_what_does_not_end_is_cut_off() {
    let server = start(Limits { drain: Duration::from_millis(50), ..Limits::default() }).await;
    let made = made();
    server.current.set(made.pair());
    let mut client = connect(server.address, &made.authority).await.unwrap();
    send(&mut client, "/wait").await;
    server.waits.notified().await;
    server.stop.send(()).unwrap();
    server.task.await.unwrap();
    assert!(answer(&mut client).await.is_err());
}

/// A server for clients of some authorities.
async fn start_for(clients: &Arc<Clients>, made: &Made) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let current = Arc::new(Current::new());
    current.set(made.pair());
    let router = Router::new().route("/", get(async || "hello"));
    let (clients, limits) = (Some(clients.clone()), Limits::default());
    tokio::spawn(serve(listener, router, current, clients, limits, std::future::pending()));
    address
}

#[tokio::test]
async fn only_clients_of_an_authority_are_served_and_authorities_may_change() {
    let (server, mine, other) = (made(), made(), made());
    let clients = Arc::new(Clients::new());
    let address = start_for(&clients, &server).await;
    // TLS 1.3 tells a client that it is refused when it reads
    let is_answered =
        async |own: Option<&Made>| match connect_as(address, &server.authority, own).await {
            Ok(mut client) => {
                // it may be told while it writes
                let head = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
                drop(client.write_all(head.as_bytes()).await);
                answer(&mut client).await.is_ok_and(|answer| answer == hello())
            }
            Err(_) => false,
        };
    assert!(!is_answered(Some(&mine)).await, "no authority is known yet");
    assert!(
        clients.trust(b"no certificate").is_err() && clients.trust(mine.key.as_bytes()).is_err()
    );
    let is_known = clients.is_known();
    assert!(!*is_known.borrow(), "this process is not ready");
    clients.trust(mine.authority.as_bytes()).unwrap();
    assert!(*is_known.borrow());
    assert!(is_answered(Some(&mine)).await);
    assert!(!is_answered(None).await, "without a certificate");
    assert!(!is_answered(Some(&other)).await, "with one of another authority");
    assert!(clients.trust(b"").is_err());
    assert!(is_answered(Some(&mine)).await, "what is not usable changes nothing");
    let both = format!("{}{}", mine.authority, other.authority);
    clients.trust(both.as_bytes()).unwrap();
    assert!(is_answered(Some(&mine)).await && is_answered(Some(&other)).await);
    clients.trust(other.authority.as_bytes()).unwrap();
    assert!(!is_answered(Some(&mine)).await, "not any more");
}
