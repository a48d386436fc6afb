//! The certificate in force.

use std::sync::{Arc, RwLock};

use k8s_openapi::jiff::Timestamp;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::pair::Pair;
use crate::locked::RwLocked;

/// How long what is served can be served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validity {
    /// There is no certificate yet: every handshake fails.
    #[default]
    NotYet,
    /// There is one, which is valid between these moments.
    Between(Timestamp, Timestamp),
}

impl Validity {
    /// Whether there is a certificate that is valid at a moment, and when that changes by itself.
    #[must_use]
    pub fn at(self, moment: Timestamp) -> (bool, Option<Timestamp>) {
        match self {
            Self::Between(from, _) if moment < from => (false, Some(from)),
            Self::Between(_, until) if moment < until => (true, Some(until)),
            Self::NotYet | Self::Between(..) => (false, None),
        }
    }
}

/// The pair that new connections use. It can be changed while a server runs; open connections are not
/// affected.
#[derive(Debug, Default)]
pub struct Current {
    pair: RwLock<Option<Pair>>,
    validity: watch::Sender<Validity>,
}

impl Current {
    /// No pair yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a pair into use, at once.
    pub fn set(&self, pair: Pair) {
        let validity = Validity::Between(pair.not_before(), pair.not_after());
        *self.pair.write_locked() = Some(pair);
        self.validity.send_replace(validity);
    }

    /// The pair in force.
    #[must_use]
    pub fn pair(&self) -> Option<Pair> {
        self.pair.read_locked().clone()
    }

    /// When the pair in force expires.
    #[must_use]
    pub fn expires(&self) -> Option<Timestamp> {
        match *self.validity.borrow() {
            Validity::NotYet => None,
            Validity::Between(_, until) => Some(until),
        }
    }

    /// Tells of each change, for readiness and metrics.
    #[must_use]
    pub fn validity(&self) -> watch::Receiver<Validity> {
        self.validity.subscribe()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let pair = self.pair.read_locked();
        pair.as_ref().map(Pair::key)
    }
}
