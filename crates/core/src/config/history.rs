//! The section `history`.

use super::section::Section;
use crate::tuning::Period;

/// The longest time that a record is kept.
const TTL_MAX: Period = Period::from_secs(365 * 24 * 60 * 60);
/// The most records that are kept of a namespace, and of all.
const COUNTS_MAX: (i32, i32) = (10_000, 50_000);

/// The section `history`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// Whether a record of each AppWrapper is kept that is deleted.
    pub enabled: bool,
    /// For how long it is kept.
    pub ttl: Period,
    /// The most records of a namespace.
    pub per_namespace: usize,
    /// The most records of all namespaces.
    pub total: usize,
}

impl Default for History {
    fn default() -> Self {
        let ttl = Period::from_secs(30 * 24 * 60 * 60);
        Self { enabled: false, ttl, per_namespace: 100, total: 5000 }
    }
}

pub(super) fn read(section: &mut Section<'_>) -> History {
    let default = History::default();
    let ttl = section.period("ttl", default.ttl);
    if ttl > TTL_MAX || ttl.is_zero() {
        let message = format!("must be more than 0s and at most {TTL_MAX}");
        section.problem("ttl", Some(&ttl.to_string()), message);
    }
    let mut count = |name, default: usize, most: i32| {
        let given = section.whole(name, 1..=most, i32::try_from(default).unwrap_or(most));
        usize::try_from(given).unwrap_or(default)
    };
    let per_namespace = count("perNamespace", default.per_namespace, COUNTS_MAX.0);
    let total = count("total", default.total, COUNTS_MAX.1);
    History { enabled: section.flag("enabled", default.enabled), ttl, per_namespace, total }
}
