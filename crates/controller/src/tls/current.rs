//! The certificate in force.

use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::jiff::Timestamp;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::pair::Pair;

/// How long what is served can be served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validity {
    /// There is no certificate yet: every handshake fails.
    #[default]
    NotYet,
    /// There is one, which is valid until then.
    Until(Timestamp),
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
        let until = Validity::Until(pair.not_after());
        *self.pair.write().unwrap_or_else(PoisonError::into_inner) = Some(pair);
        self.validity.send_replace(until);
    }

    /// The pair in force.
    #[must_use]
    pub fn pair(&self) -> Option<Pair> {
        self.pair.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// When the pair in force expires.
    #[must_use]
    pub fn expires(&self) -> Option<Timestamp> {
        match *self.validity.borrow() {
            Validity::NotYet => None,
            Validity::Until(moment) => Some(moment),
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
        let pair = self.pair.read().unwrap_or_else(PoisonError::into_inner);
        pair.as_ref().map(Pair::key)
    }
}
