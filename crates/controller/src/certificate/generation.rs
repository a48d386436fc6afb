//! A generation: a throw-away authority and the one pair that it signed.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use super::name::{Name, Names};
use crate::tls::Pair;

/// The texts of a generation, all PEM. The authority's key is nowhere: nothing is ever signed again.
#[derive(Clone, PartialEq, Eq)]
pub struct Generation {
    /// The authority's certificate, for who calls.
    pub authority: String,
    /// The certificate, for who is called.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// A generation that was checked, and can be served.
#[derive(Clone, PartialEq, Eq)]
pub struct Served {
    texts: Generation,
    pair: Pair,
    until: Timestamp,
}

/// A certificate could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot create a certificate")]
pub struct Error(#[from] rcgen::Error);

impl Generation {
    /// Makes a generation for these names, valid between these moments.
    ///
    /// # Errors
    /// Where there is no randomness, or a name cannot stand in a certificate.
    pub fn make(names: &Names, valid: (Timestamp, Timestamp)) -> Result<Self, Error> {
        let mut authority = params(valid, &Names::new())?;
        // a name of its own: who has several of them finds the right one
        let name = format!("appwrapper webhook until {}", valid.1);
        authority.distinguished_name.push(DnType::CommonName, name);
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let mut pair = params(valid, names)?;
        pair.distinguished_name.push(DnType::CommonName, "appwrapper webhook");
        pair.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        pair.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        pair.use_authority_key_identifier_extension = true;

        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;
        let key = KeyPair::generate()?;
        let certificate = pair.signed_by(&key, &Issuer::new(authority, authority_key))?;
        let pem = |certificate: &Certificate| certificate.pem().replace("\r\n", "\n");
        Ok(Self {
            authority: pem(&authority_certificate),
            certificate: pem(&certificate),
            key: key.serialize_pem(),
        })
    }

    /// Checks it; nothing where a text is not what it should be, or they do not belong together.
    #[must_use]
    pub fn check(self) -> Option<Served> {
        let pair = Pair::parse(self.certificate.as_bytes(), self.key.as_bytes()).ok()?;
        let until = pair.trusted_until(self.authority.as_bytes())?;
        Some(Served { texts: self, pair, until })
    }
}

impl Served {
    /// Its texts.
    #[must_use]
    pub const fn texts(&self) -> &Generation {
        &self.texts
    }

    /// What is served.
    #[must_use]
    pub const fn pair(&self) -> &Pair {
        &self.pair
    }

    /// Until when it is trusted by who trusts its authority.
    #[must_use]
    pub const fn until(&self) -> Timestamp {
        self.until
    }

    /// Whether it is for all these names.
    #[must_use]
    pub fn covers(&self, names: &Names) -> bool {
        names.iter().all(|name| self.pair.covers(&name.server_name()))
    }
}

/// No key appears.
impl std::fmt::Debug for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Generation")
    }
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Served(until {})", self.until)
    }
}

fn params(valid: (Timestamp, Timestamp), names: &Names) -> Result<CertificateParams, Error> {
    let names: Vec<String> = names.iter().map(Name::to_string).collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    let time = |moment: Timestamp| {
        let seconds = u64::try_from(moment.as_second()).unwrap_or_default();
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    (params.not_before, params.not_after) = (time(valid.0), time(valid.1));
    Ok(params)
}
