//! The certificates: one authority, a serving pair for everything that listens, an administrator
//! and Kueue.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::config::KUEUE_ACCOUNT;
use crate::error::Error;

/// The certificates of one control plane, all PEM.
pub(crate) struct Pki {
    /// The authority's certificate.
    pub(crate) ca: String,
    /// For everything that listens: loopback, and the service `kubernetes`.
    pub(crate) serving: Pair,
    /// A member of `system:masters`.
    pub(crate) admin: Pair,
    /// Kueue, under the name of its account.
    pub(crate) kueue: Pair,
    /// With which service account tokens are signed; `certificate` is the bare public key.
    pub(crate) tokens: Pair,
}

/// A certificate and its private key.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Where the components read them.
pub(crate) struct PkiFiles {
    pub(crate) dir: PathBuf,
}

impl Pki {
    pub(crate) fn generate() -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let mut authority = named("test control plane", &[])?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca = authority.self_signed(&key)?.pem();
        let issuer = Issuer::new(authority, key);

        let names = ["localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "10.0.0.1"];
        let serving = named("localhost", &names)?;
        // Of the group that may do everything.
        let master = |name| -> Result<Pair, Error> {
            let mut params = named(name, &[])?;
            params.distinguished_name.push(DnType::OrganizationName, "system:masters");
            signed(params, ExtendedKeyUsagePurpose::ClientAuth, &issuer)
        };
        let tokens = KeyPair::generate()?;
        Ok(Self {
            serving: signed(serving, ExtendedKeyUsagePurpose::ServerAuth, &issuer)?,
            admin: master("admin")?,
            kueue: master(KUEUE_ACCOUNT)?,
            tokens: Pair { certificate: tokens.public_key_pem(), key: tokens.serialize_pem() },
            ca,
        })
    }

    /// Writes what the components read as files.
    pub(crate) fn write(&self, dir: &Path) -> Result<PkiFiles, Error> {
        fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        let files = PkiFiles { dir: dir.to_path_buf() };
        for (path, text) in [
            (files.ca(), &self.ca),
            (files.certificate(), &self.serving.certificate),
            (files.key(), &self.serving.key),
            (files.token_certificate(), &self.tokens.certificate),
            (files.token_key(), &self.tokens.key),
        ] {
            fs::write(&path, text).map_err(Error::io("write", &path))?;
        }
        Ok(files)
    }
}

/// The names of the serving pair's files are those that webhook servers look for.
impl PkiFiles {
    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.dir.join("tls.crt")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.dir.join("tls.key")
    }

    pub(crate) fn token_certificate(&self) -> PathBuf {
        self.dir.join("tokens.pub")
    }

    pub(crate) fn token_key(&self) -> PathBuf {
        self.dir.join("tokens.key")
    }
}

fn named(name: &str, alternatives: &[&str]) -> Result<CertificateParams, Error> {
    let alternatives: Vec<String> = alternatives.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(alternatives)?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

fn signed(
    mut params: CertificateParams,
    usage: ExtendedKeyUsagePurpose,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<Pair, Error> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?.pem();
    Ok(Pair { certificate, key: key.serialize_pem() })
}
