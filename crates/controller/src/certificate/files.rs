//! An externally managed certificate, in files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::telemetry;
use crate::tls::{AuthoritiesError, Clients, Current, Pair, PairError};

/// The file of the certificates, the server's own first.
const CERTIFICATE: &str = "tls.crt";
/// The file of the private key.
const KEY: &str = "tls.key";
/// How often the files are read.
const LOOK_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("invalid {CERTIFICATE} or {KEY}")]
    Pair(#[from] PairError),
    #[error("invalid client CA certificates")]
    Authorities(#[from] AuthoritiesError),
}

/// What a file holds, or why it cannot be read.
type Text = Result<Vec<u8>, (PathBuf, std::io::ErrorKind)>;
/// What both files hold, or why one cannot be read.
type Texts = Result<(Vec<u8>, Vec<u8>), (PathBuf, std::io::ErrorKind)>;

/// Serves the pair of a directory's `tls.crt` and `tls.key`, and reloads it whenever they change. An unusable
/// pair is logged, and the previous one stays.
pub async fn files(directory: PathBuf, current: Arc<Current>) {
    let take = |texts: &Texts| {
        let pair = parse(texts)?;
        let (from, until) = (pair.not_before(), pair.not_after());
        tracing::info!(directory = %directory.display(), %from, %until, "Certificate loaded.");
        current.set(pair);
        Ok::<_, Error>(())
    };
    kept(|| read(directory.clone()), |texts| {
        if let Err(error) = take(texts) {
            let (cause, directory) = (telemetry::chain(&error), directory.display());
            tracing::error!(cause, %directory, "Certificate not usable; keeping the previous one.");
        }
    })
    .await;
}

/// Trusts the client CA certificates (PEM) of a file, and reloads them whenever they change. Unusable ones
/// are logged, and the previous ones stay; without any, no client is served.
pub async fn client_authorities(file: PathBuf, clients: Arc<Clients>) {
    let take = |text: &Text| {
        let text = text.as_ref().map_err(|(path, kind)| unread(path, *kind))?;
        clients.trust(text)?;
        tracing::info!(file = %file.display(), "Client CA certificates loaded.");
        Ok::<_, Error>(())
    };
    kept(|| text(file.clone()), |text| {
        if let Err(error) = take(text) {
            let (cause, file) = (telemetry::chain(&error), file.display());
            tracing::error!(cause, %file, "Client CA certificates not usable; keeping the previous ones.");
        }
    })
    .await;
}

/// Reads something again and again, and hands over what has changed.
async fn kept<T, F>(read: impl Fn() -> F, take: impl Fn(&T))
where
    T: Clone + PartialEq,
    F: Future<Output = T>,
{
    let (mut taken, mut seen): (Option<T>, Option<T>) = (None, None);
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        let now = read().await;
        // what is just being written is taken when two looks show the same; the first is taken at once
        let is_whole = seen.as_ref().is_none_or(|seen| *seen == now);
        if is_whole && taken.as_ref() != Some(&now) {
            take(&now);
            taken = Some(now.clone());
        }
        seen = Some(now);
    }
}

async fn read(directory: PathBuf) -> Texts {
    let [certificate, key] = [CERTIFICATE, KEY].map(|name| text(directory.join(name)));
    Ok((certificate.await?, key.await?))
}

async fn text(path: PathBuf) -> Text {
    tokio::fs::read(&path).await.map_err(|error| (path, error.kind()))
}

fn unread(path: &Path, kind: std::io::ErrorKind) -> Error {
    Error::Read { path: path.to_owned(), source: kind.into() }
}

fn parse(texts: &Texts) -> Result<Pair, Error> {
    match texts {
        Ok((certificate, key)) => Ok(Pair::parse(certificate, key)?),
        Err((path, kind)) => Err(unread(path, *kind)),
    }
}
