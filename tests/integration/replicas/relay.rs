//! The way of one replica to the API server: it can be cut.
//!
//! TLS passes through as it is. The way has an address of its own, by which the audit log tells the
//! replicas apart.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A way that is there; it ends when this is dropped.
pub struct Relay {
    address: SocketAddr,
    line: watch::Sender<Line>,
    task: JoinHandle<()>,
}

/// Whether it is cut, and how often that has changed: a connection lives on only in its own era.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Line {
    era: u32,
    cut: bool,
}

impl Relay {
    /// A way from an address to the API server, and from the same address on to it.
    pub async fn new(own: IpAddr, server: SocketAddr) -> Self {
        let listener = TcpListener::bind((own, 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let (line, state) = watch::channel(Line::default());
        let task = tokio::spawn(accept(listener, server, state));
        Self { address, line, task }
    }

    /// Where the replica connects to.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From here on nothing comes through: new connections are refused, others stand still for ever.
    pub fn cut(&self) {
        self.line.send_modify(|line| *line = Line { era: line.era + 1, cut: true });
    }

    /// New connections come through; those of before stand still all the same.
    pub fn heal(&self) {
        self.line.send_modify(|line| *line = Line { era: line.era + 1, cut: false });
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, line: watch::Receiver<Line>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        if !line.borrow().cut {
            let own = listener.local_addr().map(|address| address.ip());
            connections.spawn(carry(stream, own, server, line.clone()));
        }
        while connections.try_join_next().is_some() {}
    }
}

/// One connection, until either side ends it.
async fn carry(
    stream: TcpStream,
    own: io::Result<IpAddr>,
    server: SocketAddr,
    line: watch::Receiver<Line>,
) -> io::Result<()> {
    let born = *line.borrow();
    let socket = TcpSocket::new_v4()?;
    socket.bind((own?, 0).into())?;
    let upstream = socket.connect(server).await?;
    upstream.set_nodelay(true)?;
    stream.set_nodelay(true)?;
    let (from_replica, to_replica) = stream.into_split();
    let (from_server, to_server) = upstream.into_split();
    tokio::join!(
        pump(from_replica, to_server, &line, born),
        pump(from_server, to_replica, &line, born)
    );
    Ok(())
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    line: &watch::Receiver<Line>,
    born: Line,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = from.read(&mut buffer).await.unwrap_or_default();
        // what is on its way when the line is cut is lost, and an end is not told either
        if *line.borrow() != born {
            std::future::pending::<()>().await;
        }
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
