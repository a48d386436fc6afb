//! Names that a certificate is for.

use std::collections::BTreeSet;
use std::fmt;

use rustls::pki_types::ServerName;

/// A DNS name or an IP address, as a client calls it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

/// The names that a certificate is for.
pub type Names = BTreeSet<Name>;

impl Name {
    /// Nothing where a text is neither a DNS name nor an IP address. An IPv6 address may be in brackets, as in
    /// a URL.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        let name = bare.trim_end_matches('.').to_ascii_lowercase();
        ServerName::try_from(name.as_str()).is_ok().then_some(Self(name))
    }

    /// The name as written in a certificate.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn server_name(&self) -> ServerName<'_> {
        ServerName::try_from(self.as_str()).unwrap_or_else(|_| unreachable!("it was parsed before"))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
