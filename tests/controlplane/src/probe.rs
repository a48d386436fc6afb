//! Waiting: polls often, gives up at last, and notices when what it waits for has ended.

use std::future::Future;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::error::{Error, tail_of};
use crate::supervisor::Process;

/// Far more than anything takes, since the machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_mins(2);
const INTERVAL: Duration = Duration::from_millis(100);

/// Waits until `check` says yes. `process` is the component to blame if it does not.
pub(crate) async fn until<F, Answer>(
    process: &Process,
    what: &str,
    mut check: F,
) -> Result<(), Error>
where
    F: FnMut() -> Answer,
    Answer: Future<Output = bool>,
{
    let start = Instant::now();
    loop {
        let answer = timeout(Duration::from_secs(5), check()).await;
        if answer.unwrap_or(false) {
            return Ok(());
        }
        process.check()?;
        if start.elapsed() > PATIENCE {
            return Err(Error::NotReady {
                what: format!("{}: {what}", process.name()),
                seconds: PATIENCE.as_secs(),
                log: process.log().to_path_buf(),
                tail: tail_of(process.log()),
            });
        }
        sleep(INTERVAL).await;
    }
}

/// Waits until something listens on a port.
pub(crate) async fn listens(process: &Process, port: u16) -> Result<(), Error> {
    until(process, "its port", || async move {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok()
    })
    .await
}

/// Waits until an operator's health port says that it is ready.
pub(crate) async fn healthy(process: &Process, port: u16) -> Result<(), Error> {
    until(process, "its health check", || async move { get_ok(port).await.unwrap_or(false) }).await
}

/// Whether `GET /readyz` is answered with 200.
async fn get_ok(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_all(b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split(' ').nth(1) == Some("200"))
}
