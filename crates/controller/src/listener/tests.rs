use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Extension;
use axum::routing::{get, post};
use futures::{StreamExt, stream};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::places::{Most, Open, Room, Stage, room};
use super::*;

const fn peer(number: u8) -> Peer {
    Peer::V4(Ipv4Addr::new(10, 0, 0, number))
}

#[test]
fn a_host_is_one_peer_whatever_address_it_takes() {
    for (address, want) in [
        ("10.0.0.1:80", peer(1)),
        ("[::ffff:10.0.0.1]:80", peer(1)),
        ("[2001:db8:0:7::1]:80", Peer::V6(0x2001_0db8_0000_0007)),
        ("[2001:db8:0:7:ffff::9]:81", Peer::V6(0x2001_0db8_0000_0007)),
        ("[2001:db8:0:8::1]:80", Peer::V6(0x2001_0db8_0000_0008)),
    ] {
        assert_eq!(Peer::from(address.parse::<SocketAddr>().unwrap()), want, "{address}");
    }
}

/// Connections with these peers, stages and ages in seconds.
fn table(open: &[(u8, Stage, u64)]) -> (BTreeMap<u64, Open>, Instant) {
    let begin = Instant::now();
    let now = begin + Duration::from_mins(10);
    let given = open.iter().map(|(number, stage, age)| {
        Open::given(peer(*number), *stage, now - Duration::from_secs(*age))
    });
    ((0..).zip(given).collect(), now)
}

#[test]
fn who_gives_way_has_most_and_has_been_idle_longest() {
    use Stage::{Answering, Body as Incomplete, Idle};
    // four places, three of one peer; a new connection of peer 9
    for (open, want) in [
        (&[][..], Room::Free),
        (&[(1, Idle, 1), (1, Idle, 9), (2, Idle, 99)], Room::Free),
        (&[(1, Idle, 1), (1, Idle, 9), (2, Idle, 99), (3, Idle, 99)], Room::Replaces(1)),
        (&[(1, Answering, 9), (1, Idle, 1), (2, Idle, 99), (3, Idle, 99)], Room::Replaces(1)),
        (&[(1, Answering, 9), (1, Answering, 9), (2, Idle, 1), (3, Idle, 2)], Room::Replaces(3)),
        // idle before incomplete, of the peer with most
        (&[(1, Incomplete, 9), (1, Idle, 1), (2, Idle, 99), (3, Idle, 99)], Room::Replaces(1)),
        (&[(1, Incomplete, 1), (1, Incomplete, 2), (2, Idle, 9), (3, Idle, 9)], Room::Replaces(1)),
        // who has one only loses none that has just begun
        (
            &[(1, Incomplete, 9), (2, Incomplete, 9), (3, Incomplete, 9), (4, Idle, 0)],
            Room::Replaces(3),
        ),
        (
            &[(1, Incomplete, 8), (2, Incomplete, 9), (3, Incomplete, 9), (4, Incomplete, 0)],
            Room::Replaces(1),
        ),
        (
            &[(1, Incomplete, 0), (2, Incomplete, 0), (3, Incomplete, 0), (4, Incomplete, 0)],
            Room::None,
        ),
        (&[(1, Answering, 9), (1, Answering, 9), (1, Answering, 9), (4, Answering, 9)], Room::None),
        // its own, where it has most
        (&[(9, Idle, 1), (9, Idle, 5), (1, Idle, 99), (2, Idle, 99)], Room::Replaces(1)),
        (&[(9, Idle, 1), (9, Idle, 5), (1, Answering, 9), (1, Answering, 9)], Room::Replaces(1)),
        // one peer has its part, though there is room
        (&[(9, Idle, 1), (9, Idle, 5), (9, Answering, 5)], Room::Replaces(1)),
        (&[(9, Incomplete, 0), (9, Incomplete, 5), (9, Answering, 5)], Room::Replaces(1)),
        (&[(9, Incomplete, 0), (9, Incomplete, 0), (9, Answering, 5), (1, Idle, 9)], Room::None),
    ] {
        let (table, now) = table(open);
        let most = Most { all: 4, of_a_peer: 3 };
        assert_eq!(room(&table, peer(9), now, most), want, "{open:?}");
    }
}

fn any_stage() -> impl Strategy<Value = Stage> {
    prop_oneof![
        Just(Stage::Idle),
        Just(Stage::Head),
        Just(Stage::Body),
        Just(Stage::Answering),
        Just(Stage::Sending),
        Just(Stage::Flushing),
    ]
}

proptest! {
    #[test]
    fn places_are_shared_out(
        open in prop::collection::vec((0..6_u8, any_stage(), 0..9_u64), 0..40),
        new in 0..8_u8, all in 1..40_usize, of_a_peer in 1..40_usize,
    ) {
        let open = &open[..open.len().min(all)];
        let (table, now) = table(open);
        let count = |peer: Peer| table.values().filter(|each| each.peer == peer).count();
        let own = count(peer(new));
        let most = Most { all, of_a_peer };
        match room(&table, peer(new), now, most) {
            Room::Free => prop_assert!(table.len() < all && own < of_a_peer),
            Room::Replaces(id) => {
                let loser = &table[&id];
                prop_assert!(table.len() >= all || own >= of_a_peer);
                prop_assert_ne!(loser.stage, Stage::Answering);
                // nobody is taken from who has less
                prop_assert!(loser.peer == peer(new) || count(loser.peer) > own);
                if loser.peer != peer(new) {
                    prop_assert!(own < of_a_peer);
                }
            }
            Room::None => {
                // all others that have more are being answered, or it has its part
                let larger = table.values().filter(|it| count(it.peer) > own + 1);
                prop_assert!(own >= of_a_peer || larger.filter(|it| it.peer != peer(new))
                    .all(|it| it.stage == Stage::Answering));
            }
        }
    }
}

/// A server in plain text.
struct Served {
    address: SocketAddr,
    waits: Arc<Notify>,
    go_on: Arc<Notify>,
}

/// An answer that comes in parts, long after each other.
fn parts() -> Body {
    let parts = stream::iter(["first", "second"]).then(|part| async move {
        tokio::time::sleep(Duration::from_hours(1)).await;
        Ok::<_, Infallible>(part)
    });
    Body::from_stream(parts)
}

async fn start(limits: Limits) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (waits, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, until) = (waits.clone(), go_on.clone());
    let wait = get(async move || {
        tell.notify_one();
        until.notified().await;
        "waited"
    });
    let router = Router::new()
        .route("/", get(async |Extension(peer): Extension<Peer>| format!("{peer:?}")))
        .route("/wait", wait)
        .route("/large", get(async || "x".repeat(64 << 20)))
        .route("/parts", get(async || parts()))
        .route("/body", post(async |body: Bytes| body.len().to_string()));
    tokio::spawn(serve(listener, router, Plain, limits, std::future::pending()));
    Served { address, waits, go_on }
}

/// A connection from an address of this host.
async fn from(number: u8, server: &Served) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, number), 0).into()).unwrap();
    socket.connect(server.address).await.unwrap()
}

/// What is answered to a request; nothing where the connection is closed.
async fn asked(stream: &mut TcpStream, path: &str) -> Option<String> {
    let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut text = vec![];
    loop {
        if let Some((head, body)) = String::from_utf8_lossy(&text).split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
            if body.len() >= length.parse().unwrap() {
                return Some(body.to_owned());
            }
        }
        let mut part = [0; 4096];
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => text.extend_from_slice(&part[..count]),
        }
    }
}

async fn closed(mut stream: TcpStream) {
    let mut rest = [0; 4096];
    while !matches!(stream.read(&mut rest).await, Ok(0) | Err(_)) {}
}

/// Ten times as many idle connections as there are places, and as many requests that never end, from
/// several addresses: who has something to ask is served every time, also on the connection that it has.
#[tokio::test]
async fn idle_and_slow_peers_keep_nobody_out() {
    let short = Duration::from_secs(2);
    let limits = Limits {
        connections: 32,
        connections_of_a_peer: 24,
        header: short,
        body: short,
        ..Limits::default()
    };
    let server = start(limits).await;
    let mut kept = from(1, &server).await;
    assert_eq!(asked(&mut kept, "/").await.as_deref(), Some("V4(127.0.0.1)"));
    let mut held = vec![];
    for round in 0..320_u16 {
        let mut stream = from(2 + u8::try_from(round % 7).unwrap(), &server).await;
        if round % 2 == 0 {
            // half a head, or a body that does not come
            let begun = if round % 4 == 0 {
                "GET / HT"
            } else {
                "POST /body HTTP/1.1\r\nHost: a\r\ncontent-length: 9\r\n\r\nx"
            };
            drop(stream.write_all(begun.as_bytes()).await);
        }
        held.push(stream);
        if round % 16 == 0 {
            let mut fresh = from(1, &server).await;
            assert!(asked(&mut fresh, "/").await.is_some(), "{round}");
            assert!(asked(&mut kept, "/").await.is_some(), "{round}: the one that was there");
        }
    }
    // the first were closed long ago
    for stream in held.drain(..100) {
        closed(stream).await;
    }
}

#[tokio::test]
async fn what_has_arrived_is_answered_whoever_comes() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let server = start(limits).await;
    let mut first = from(1, &server).await;
    let (mut answer, waits) =
        (tokio::spawn(async move { asked(&mut first, "/wait").await }), server.waits.clone());
    waits.notified().await;
    for number in 2..40 {
        let mut other = from(number, &server).await;
        assert!(asked(&mut other, "/").await.is_some(), "{number}");
    }
    assert!(futures::poll!(&mut answer).is_pending());
    server.go_on.notify_one();
    assert_eq!(answer.await.unwrap().as_deref(), Some("waited"));
}

/// Nobody reads: the answer does not fit into what the system buffers.
#[tokio::test]
async fn who_does_not_take_the_answer_is_given_up() {
    let short = Duration::from_millis(300);
    let server = start(Limits { answer: short, ..Limits::default() }).await;
    let mut stream = from(1, &server).await;
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    // the first bytes come, and then nothing is read until the server has given up
    stream.readable().await.unwrap();
    let mut other = from(2, &server).await;
    other.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
    tokio::time::sleep(short * 4).await;
    let mut read = 0;
    let mut part = vec![0; 1 << 20];
    while let Ok(count @ 1..) = stream.read(&mut part).await {
        read += count;
    }
    assert!(read < 64 << 20, "it was cut off: {read}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_not_idle_until_its_last_part_is_sent() {
    let (never, idle) = (Duration::MAX, Duration::from_mins(3));
    let limits = Limits { header: never, body: never, answer: never, idle, ..Limits::default() };
    let server = start(limits).await;
    let mut stream = from(1, &server).await;
    stream.write_all(b"GET /parts HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.contains("first") && text.ends_with("second\r\n0\r\n\r\n"), "{text}");
}

#[tokio::test]
async fn a_head_must_come_in_time_and_idle_connections_end() {
    let short = Duration::from_millis(200);
    let server = start(Limits { header: short, idle: short, ..Limits::default() }).await;
    for begun in ["", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let mut stream = from(1, &server).await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        closed(stream).await;
    }
}
