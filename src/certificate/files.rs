//! A certificate that somebody else keeps, in files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::telemetry;
use crate::tls::{Current, Pair, PairError};

/// The file of the certificates, the server's own first.
const CERTIFICATE: &str = "tls.crt";
/// The file of the private key.
const KEY: &str = "tls.key";
/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{path} cannot be read")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{CERTIFICATE} and {KEY} are not usable")]
    Pair(#[from] PairError),
}

/// The texts of both files, or why one cannot be read.
type Texts = Result<(Vec<u8>, Vec<u8>), (PathBuf, std::io::ErrorKind)>;

/// Keeps the pair of a directory's `tls.crt` and `tls.key` in force, for ever: read now, and again whenever
/// they change. What is not usable is logged, and the pair before stays.
pub async fn files(directory: PathBuf, current: Arc<Current>) {
    let mut taken: Option<Texts> = None;
    let mut seen: Option<Texts> = None;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        let texts = Some(read(&directory).await);
        // what is just being written is taken when two looks show the same; the first is taken at once
        let is_whole = seen.is_none() || seen == texts;
        seen = texts;
        if !is_whole || seen == taken {
            continue;
        }
        taken.clone_from(&seen);
        match seen.as_ref().map(parse) {
            Some(Ok(pair)) => {
                let until = pair.not_after();
                tracing::info!(directory = %directory.display(), %until, "A certificate was read.");
                current.set(pair);
            }
            Some(Err(error)) => {
                let (cause, directory) = (telemetry::chain(&error), directory.display());
                tracing::error!(cause, %directory, "The certificate is not usable; the one before stays.");
            }
            None => {}
        }
    }
}

async fn read(directory: &Path) -> Texts {
    let text = async |name: &str| {
        let path = directory.join(name);
        tokio::fs::read(&path).await.map_err(|error| (path, error.kind()))
    };
    Ok((text(CERTIFICATE).await?, text(KEY).await?))
}

fn parse(texts: &Texts) -> Result<Pair, Error> {
    match texts {
        Ok((certificate, key)) => Ok(Pair::parse(certificate, key)?),
        Err((path, kind)) => Err(Error::Read { path: path.clone(), source: (*kind).into() }),
    }
}
