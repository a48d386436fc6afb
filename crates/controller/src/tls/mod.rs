//! HTTPS with a certificate that may change while it is served.
//!
//! ```text
//! Pair (checked) ─▶ Current ─▶ every new connection
//! Clients (authorities) ─▶ every new connection, where clients must prove who they are
//! ```
//!
//! [`serve`] serves any router with the pair that is in force; [`Current::set`] changes it for the
//! connections that come after. Nothing here knows where a pair comes from.

mod clients;
mod current;
mod pair;
mod server;

pub use clients::{AuthoritiesError, Clients};
pub use current::{Current, Validity};
pub use pair::{Pair, PairError, are_certificates};
pub use server::serve;

pub use crate::listener::Limits;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};

/// The cryptography of everything that is served: ring, as in the Kubernetes client.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

#[cfg(test)]
mod tests;
