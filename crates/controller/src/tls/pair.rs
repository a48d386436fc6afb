//! A certificate and its private key, checked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use yasna::{ASN1Result, BERReader, Tag, tags};

use super::provider;

/// A chain of certificates with the private key of the first: what a server proves itself with.
#[derive(Clone)]
pub struct Pair {
    key: Arc<CertifiedKey>,
    not_before: Timestamp,
    not_after: Timestamp,
}

/// Why texts are no usable [`Pair`].
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// A text is not well-formed PEM.
    #[error("the {what} is not PEM")]
    NotPem {
        /// `certificate` or `private key`.
        what: &'static str,
        /// What is wrong with it.
        #[source]
        source: pem::Error,
    },
    /// There is no certificate in the text.
    #[error("no certificate found: expected a BEGIN CERTIFICATE section")]
    NoCertificate,
    /// There is no private key in the text.
    #[error("no private key found: expected an unencrypted BEGIN PRIVATE KEY section")]
    NoKey,
    /// What is in the section is no X.509 certificate.
    #[error("certificate {0} of the chain is not an X.509 certificate")]
    Malformed(usize),
    /// The key is of another pair.
    #[error("the private key does not match the certificate")]
    KeyDoesNotFit,
    /// The key cannot be used.
    #[error("unsupported private key: expected RSA, ECDSA on P-256 or P-384, or Ed25519")]
    Key(#[source] rustls::Error),
}

impl Pair {
    /// Reads a chain of certificates, the server's own first, and its private key; both PEM.
    ///
    /// Its validity now is not checked: an expired certificate is better than none.
    ///
    /// # Errors
    /// Where they are not what they should be, or do not belong together.
    pub fn parse(certificates: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let what = "certificate";
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|source| PairError::NotPem { what, source })?;
        let first = chain.first().ok_or(PairError::NoCertificate)?;
        ParsedCertificate::try_from(first).map_err(|_| PairError::Malformed(0))?;
        let mut valid = (Timestamp::MIN, Timestamp::MAX);
        for (position, certificate) in chain.iter().enumerate() {
            let (from, until) = validity(certificate).ok_or(PairError::Malformed(position))?;
            valid = (valid.0.max(from), valid.1.min(until));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|source| match source {
            pem::Error::NoItemsFound => PairError::NoKey,
            source => PairError::NotPem { what: "private key", source },
        })?;
        let key =
            CertifiedKey::from_der(chain, key, &provider()).map_err(|source| match source {
                rustls::Error::InconsistentKeys(_) => PairError::KeyDoesNotFit,
                source => PairError::Key(source),
            })?;
        Ok(Self { key: Arc::new(key), not_before: valid.0, not_after: valid.1 })
    }

    /// From when on all certificates of the chain are valid.
    #[must_use]
    pub const fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// Until when all certificates of the chain are valid.
    #[must_use]
    pub const fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// Whether a client that calls a host by this name, a DNS name or an IP address, takes the certificate
    /// for it.
    #[must_use]
    pub fn covers(&self, name: &ServerName<'_>) -> bool {
        self.parsed().is_some_and(|certificate| verify_server_name(&certificate, name).is_ok())
    }

    /// Until when a client that trusts these authorities, PEM, trusts the chain; nothing where it does not.
    #[must_use]
    pub fn trusted_until(&self, authorities: &[u8]) -> Option<Timestamp> {
        let mut roots = RootCertStore::empty();
        let mut until = self.not_after;
        for authority in CertificateDer::pem_slice_iter(authorities) {
            let authority = authority.ok()?;
            until = until.min(validity(&authority)?.1);
            roots.add(authority).ok()?;
        }
        let second = u64::try_from(self.not_before.as_second()).ok()?;
        let begin = UnixTime::since_unix_epoch(Duration::from_secs(second));
        let algorithms = provider().signature_verification_algorithms.all;
        let (certificate, others) = (self.parsed()?, self.key.cert.get(1..)?);
        verify_server_cert_signed_by_trust_anchor(&certificate, &roots, others, begin, algorithms)
            .ok()
            .map(|()| until)
    }

    pub(super) fn key(&self) -> Arc<CertifiedKey> {
        self.key.clone()
    }

    fn parsed(&self) -> Option<ParsedCertificate<'_>> {
        self.key.cert.first().and_then(|first| ParsedCertificate::try_from(first).ok())
    }
}

/// Two are equal that prove the same with the same certificates.
impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.key.cert == other.key.cert
    }
}

impl Eq for Pair {}

/// The private key does not appear.
impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key: _, not_before, not_after } = self;
        write!(f, "Pair({not_before}..{not_after})")
    }
}

/// Whether a text has certificates, PEM, and all of them can be read.
#[must_use]
pub fn are_certificates(text: &[u8]) -> bool {
    let mut all = CertificateDer::pem_slice_iter(text).peekable();
    let is_one = |der: CertificateDer<'_>| validity(&der).is_some();
    all.peek().is_some() && all.all(|certificate| certificate.is_ok_and(is_one))
}

/// From when and until when a certificate is valid: `Validity` of RFC 5280, 4.1.
fn validity(certificate: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let ends =
        |ends: &mut yasna::BERReaderSeq<'_, '_>| Ok((time(ends.next())?, time(ends.next())?));
    let body = |fields: &mut yasna::BERReaderSeq<'_, '_>| {
        fields.read_optional(|version| {
            version.read_tagged(Tag::context(0), |number| number.read_u8().map(drop))
        })?;
        let (_serial, _algorithm, _issuer) =
            (fields.next().read_der()?, fields.next().read_der()?, fields.next().read_der()?);
        let validity = fields.next().read_sequence(ends)?;
        while fields.read_optional(|rest| rest.read_der().map(drop))?.is_some() {}
        Ok(validity)
    };
    let read = yasna::parse_der(certificate, |reader| {
        reader.read_sequence(|parts| {
            let validity = parts.next().read_sequence(body)?;
            let (_algorithm, _signature) = (parts.next().read_der()?, parts.next().read_der()?);
            Ok(validity)
        })
    });
    let (from, until) = read.ok()?;
    Some((Timestamp::from_second(from).ok()?, Timestamp::from_second(until).ok()?))
}

/// A time in seconds since 1970.
fn time(reader: BERReader<'_, '_>) -> ASN1Result<i64> {
    if reader.lookahead_tag()? == tags::TAG_UTCTIME {
        return reader.read_utctime().map(|time| time.datetime().unix_timestamp());
    }
    reader.read_generalized_time().map(|time| time.datetime().unix_timestamp())
}
