//! The certificate of the webhook: where it comes from, and how it is renewed.
//!
//! ```text
//! certDir ─▶ files ─────────────────────────────────┐
//!                                                   ├─▶ tls::Current ─▶ tls::serve
//! Secret, webhook configurations ─▶ plan ─▶ Renewer ┘
//! ```
//!
//! Either externally managed [`files`], or a [`Renewer`]: a single-use CA signs one pair, its key is
//! discarded, and the CA bundles of the webhook configurations make the API server trust it.
//! Each generation is a new authority, so that no key that can sign is ever stored. All replicas serve
//! the certificate in one Secret, and any of them can write it.
//!
//! How `run` puts it together:
//!
//! ```no_run
//! # async fn run(client: kube::Client, config: appwrapper_core::config::Config, router: axum::Router)
//! # -> std::io::Result<()> {
//! use std::sync::Arc;
//!
//! use appwrapper_controller::certificate::{self, CertificateNames, Renewer};
//! use appwrapper_controller::clock::SystemClock;
//! use appwrapper_controller::listener;
//! use appwrapper_controller::tls::{self, Current, Limits};
//! use tokio::net::TcpListener;
//!
//! let current = Arc::new(Current::new());
//! let validity = current.validity(); // for readiness and a metric
//! let keeping = match config.webhook.cert_dir {
//!     Some(directory) => tokio::spawn(certificate::files(directory, current.clone())),
//!     None => {
//!         let names = CertificateNames::of(client.default_namespace());
//!         let clock = Arc::new(SystemClock);
//!         tokio::spawn(Renewer::new(&client, clock, current.clone(), names).run())
//!     }
//! };
//! let listener = listener::bind(config.webhook.address).and_then(TcpListener::from_std)?;
//! let stop = std::future::pending();
//! tls::serve(listener, router, current, None, Limits::default(), stop).await;
//! keeping.abort();
//! # drop(validity);
//! # Ok(())
//! # }
//! ```
//!
//! The progress server has a certificate of its own, with the same renewer and without webhook configurations:
//! pods learn its authority when they are created, so it lives as long as [`Lifetimes::of_pods`].
//!
//! Rights: `secrets` in its own namespace: `create`, and `get`, `list`, `watch`, `update` of
//! [`SECRET`]; of the two configurations `get`, `list`, `watch`, `update`. Watches name the object, so
//! that `resourceNames` suffice.

mod configuration;
mod files;
mod generation;
mod lifetimes;
mod name;
mod plan;
mod renewer;
mod stored;

pub use files::{client_authorities, files};
pub use generation::{Generation, Served};
pub use lifetimes::Lifetimes;
pub use name::{Name, Names};
pub use plan::{Change, Rotation, WebhookState, plan};
pub use renewer::{
    CertificateNames, MUTATING, PROGRESS_SERVICE, Renewer, SECRET, SERVICE, VALIDATING, Webhooks,
};
pub use stored::{Certificates, Data, Next, Old};

#[cfg(test)]
mod tests;
