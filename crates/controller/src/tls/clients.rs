//! The authorities whose clients are served.

use std::sync::{Arc, RwLock};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use tokio::sync::watch;

use super::provider;
use crate::locked::RwLocked;

/// The CAs that must have signed the clients' certificates. They can be changed while a server runs;
/// as long as there are none, no client is served.
#[derive(Debug, Default)]
pub struct Clients {
    verifier: RwLock<Option<Arc<dyn ClientCertVerifier>>>,
    is_known: watch::Sender<bool>,
}

/// Why a text names no authorities.
#[derive(Debug, thiserror::Error)]
pub enum AuthoritiesError {
    /// It is not well-formed PEM.
    #[error("the text is not PEM")]
    NotPem(#[from] pem::Error),
    /// A certificate cannot be used as an authority.
    #[error("certificate {0} is not an X.509 CA certificate")]
    Malformed(usize, #[source] Error),
    /// There is none.
    #[error("no certificate found: expected a BEGIN CERTIFICATE section")]
    Unusable(#[from] VerifierBuilderError),
}

impl Clients {
    /// No authorities yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on, serves clients of these CAs (PEM); open connections are not affected.
    ///
    /// # Errors
    /// They cannot be read; the previous ones stay.
    pub fn trust(&self, authorities: &[u8]) -> Result<(), AuthoritiesError> {
        let mut roots = RootCertStore::empty();
        for (position, authority) in CertificateDer::pem_slice_iter(authorities).enumerate() {
            let malformed = |error| AuthoritiesError::Malformed(position, error);
            roots.add(authority?).map_err(malformed)?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        let verifier = verifier.build()?;
        *self.verifier.write_locked() = Some(verifier);
        self.is_known.send_replace(true);
        Ok(())
    }

    /// Tells whether any CA is known, for readiness.
    #[must_use]
    pub fn is_known(&self) -> watch::Receiver<bool> {
        self.is_known.subscribe()
    }
}

impl ClientCertVerifier for Clients {
    /// None: clients have one certificate, and the list changes.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verifier = self.verifier.read_locked().clone();
        let none = || Error::General("no client CA is loaded".to_owned());
        verifier.ok_or_else(none)?.verify_client_cert(certificate, others, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
