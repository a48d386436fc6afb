//! What the Secret holds.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use super::generation::{Generation, Served};
use crate::tls::are_certificates;

/// The data of a Secret.
pub type Data = BTreeMap<String, Vec<u8>>;

const CURRENT: [&str; 3] = ["ca.crt", "tls.crt", "tls.key"];
const NEXT: [&str; 3] = ["next-ca.crt", "next-tls.crt", "next-tls.key"];
/// Since when the configurations hold the authority of the next generation; RFC 3339.
const NEXT_TRUSTED_SINCE: &str = "next-trusted-since";
const OLD: &str = "old-ca.crt";
/// Since when the generation in use has been, and the old one not any more; RFC 3339.
const IN_USE_SINCE: &str = "in-use-since";

/// The keys of the Secret that belong to the certificates; others are left as they are.
const KEYS: [&str; 9] = [
    CURRENT[0],
    CURRENT[1],
    CURRENT[2],
    NEXT[0],
    NEXT[1],
    NEXT[2],
    NEXT_TRUSTED_SINCE,
    OLD,
    IN_USE_SINCE,
];

/// What the Secret holds, as far as it can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// What is served.
    pub current: Option<Served>,
    /// What is served next.
    pub next: Option<Next>,
    /// What was served before.
    pub old: Option<Old>,
}

/// A generation that is not in use yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// What is served next.
    pub served: Served,
    /// Since when its authority is in the configurations without a gap; nothing where it is not.
    pub trusted_since: Option<Timestamp>,
}

/// The authority of the generation that was in use before: a replica may still serve what it signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Old {
    /// Its certificate, PEM.
    pub authority: String,
    /// Since when it has been out of use.
    pub since: Timestamp,
}

impl Certificates {
    /// Reads the data of a Secret. What is of no use is as if it were not there.
    #[must_use]
    pub fn read(data: &Data) -> Self {
        let time = |key| text(data, key).and_then(|text| text.trim().parse().ok());
        let next = generation(data, NEXT);
        let old = || Some(Old { authority: text(data, OLD)?, since: time(IN_USE_SINCE)? });
        Self {
            current: generation(data, CURRENT),
            next: next.map(|served| Next { served, trusted_since: time(NEXT_TRUSTED_SINCE) }),
            old: old().filter(|old| are_certificates(old.authority.as_bytes())),
        }
    }

    /// Writes it over the data of a Secret.
    pub fn write(&self, data: &mut Data) {
        let Self { current, next, old } = self;
        data.retain(|key, _| !KEYS.contains(&key.as_str()));
        let mut put = |key: &str, text: &str| data.insert(key.to_owned(), text.into());
        let generations = [(CURRENT, current.as_ref()), (NEXT, next.as_ref().map(|n| &n.served))];
        for (keys, served) in generations {
            let Some(Generation { authority, certificate, key }) = served.map(Served::texts) else {
                continue;
            };
            for (name, text) in keys.iter().zip([authority, certificate, key]) {
                put(name, text);
            }
        }
        if let Some(since) = next.as_ref().and_then(|next| next.trusted_since) {
            put(NEXT_TRUSTED_SINCE, &since.to_string());
        }
        if let Some(Old { authority, since }) = old {
            put(OLD, authority);
            put(IN_USE_SINCE, &since.to_string());
        }
    }

    /// Whether the data of a Secret are these and nothing else of the certificates.
    #[must_use]
    pub fn is_all_of(&self, data: &Data) -> bool {
        let mut written = data.clone();
        self.write(&mut written);
        written == *data
    }

    /// What callers are to trust: the authorities of all generations, PEM. It does not depend on which of them
    /// is in use, so that a generation comes into use without a change of it.
    #[must_use]
    pub fn bundle(&self) -> Option<String> {
        let Self { current, next, old } = self;
        let mut authorities = BTreeSet::from([current.as_ref()?.texts().authority.as_str()]);
        authorities.extend(next.as_ref().map(|next| next.served.texts().authority.as_str()));
        authorities.extend(old.as_ref().map(|old| old.authority.as_str()));
        let mut bundle = String::new();
        for authority in authorities {
            bundle += authority.trim_end();
            bundle += "\n";
        }
        Some(bundle)
    }
}

fn text(data: &Data, key: &str) -> Option<String> {
    String::from_utf8(data.get(key)?.clone()).ok()
}

fn generation(data: &Data, [authority, certificate, key]: [&str; 3]) -> Option<Served> {
    let (authority, certificate) = (text(data, authority)?, text(data, certificate)?);
    Generation { authority, certificate, key: text(data, key)? }.check()
}
