//! The record of an AppWrapper that was deleted: what is kept of it, where, and for how long. Pure: `act` reads and
//! writes it.
//!
//! Each record is a ConfigMap in the namespace of its AppWrapper, which nothing owns, so that it outlives it. It is never
//! changed; the leader deletes those that are too old or too many.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::api::{AppWrapperStatus, Attempt, Usage};
use crate::config::History;
use crate::tuning::names;

/// The key of the record in its ConfigMap.
pub const RECORD_KEY: &str = "record";
/// The most bytes of a record.
pub const BYTES_MAX: usize = 16 << 10;
/// The most attempts of a record: as many as a status has.
const ATTEMPTS_MAX: usize = 10;
/// The longest message of an attempt, in characters.
const MESSAGE_CHARS_MAX: usize = 256;
/// What the names of the ConfigMaps begin with.
const PREFIX: &str = "appwrapper-record-";

/// What is kept of an AppWrapper.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The LocalQueue that it named.
    pub queue: Option<String>,
    /// The name of the user who created it.
    pub user: Option<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When everything of it was deleted.
    pub deleted: Option<Timestamp>,
    /// Counted restarts.
    pub restarts: i32,
    /// Uncounted restarts.
    pub uncounted_restarts: i32,
    /// Its last attempts.
    pub attempts: Vec<Attempt>,
    /// What its reserved quota was used for.
    pub usage: Option<Usage>,
}

impl Record {
    /// The last attempts and the counts of a status; the rest is for the caller to add.
    #[must_use]
    pub fn of(status: &AppWrapperStatus) -> Self {
        let skipped = status.attempts.len().saturating_sub(ATTEMPTS_MAX);
        Self {
            restarts: status.resetting_count.max(0),
            uncounted_restarts: status.uncounted_restarts.max(0),
            attempts: status.attempts[skipped..].iter().map(shortened).collect(),
            usage: status.usage.clone(),
            ..Self::default()
        }
    }

    /// The record as JSON, at most [`BYTES_MAX`]: without its first attempts where it would be longer.
    #[must_use]
    pub fn json(&self) -> String {
        let mut record = self.clone();
        loop {
            // nothing in it fails to be written
            let text = serde_json::to_string(&record).unwrap_or_default();
            if text.len() <= BYTES_MAX {
                return text;
            }
            if record.attempts.is_empty() {
                return String::new();
            }
            record.attempts.remove(0);
        }
    }
}

/// An attempt whose message is short enough.
fn shortened(attempt: &Attempt) -> Attempt {
    let mut attempt = attempt.clone();
    let message = attempt.failure.as_mut().and_then(|failure| failure.message.as_mut());
    if let Some(message) = message
        && let Some((end, _)) = message.char_indices().nth(MESSAGE_CHARS_MAX)
    {
        message.truncate(end);
    }
    attempt
}

/// The name of the ConfigMap with the record of an AppWrapper; none for a UID that is none.
#[must_use]
pub fn config_map(uid: &str) -> Option<String> {
    names::is_label(uid).then(|| format!("{PREFIX}{uid}"))
}

/// Whether a ConfigMap with the label of records is named as one.
#[must_use]
pub fn is_named_as_record(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// A ConfigMap that has the label of records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    /// When it was created: when its AppWrapper was deleted.
    pub created: Timestamp,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// The records that are to go: those that are too old; of a namespace, all but the youngest; then the oldest of the
/// namespaces that have most, so that nobody displaces the records of others. A ConfigMap of another name is none.
/// Namespaces take turns, so that none keeps those of others from being deleted.
#[must_use]
pub fn expired(all: Vec<Kept>, settings: &History, now: Timestamp) -> Vec<Kept> {
    let mut going = vec![];
    let mut by_namespace: BTreeMap<String, Vec<Kept>> = BTreeMap::new();
    for kept in all.into_iter().filter(|kept| is_named_as_record(&kept.name)) {
        if settings.ttl.after(kept.created) <= now {
            going.push(kept);
        } else {
            by_namespace.entry(kept.namespace.clone()).or_default().push(kept);
        }
    }
    for records in by_namespace.values_mut() {
        records.sort();
        let more = records.len().saturating_sub(settings.per_namespace);
        going.extend(records.drain(..more));
    }
    let share = share(by_namespace.values().map(Vec::len), settings.total);
    for records in by_namespace.values_mut() {
        let more = records.len().saturating_sub(share);
        going.extend(records.drain(..more));
    }
    let mut turns: BTreeMap<String, usize> = BTreeMap::new();
    going.sort_by_cached_key(|kept| {
        let turn = turns.entry(kept.namespace.clone()).or_default();
        *turn += 1;
        *turn
    });
    going
}

/// The largest number that each namespace may have so that all together have at most `total`.
fn share(counts: impl Iterator<Item = usize>, total: usize) -> usize {
    let mut counts: Vec<usize> = counts.collect();
    counts.sort_unstable();
    let (mut left, mut namespaces) = (total, counts.len());
    for count in counts {
        let even = left / namespaces.max(1);
        if count > even {
            return even;
        }
        left -= count;
        namespaces -= 1;
    }
    usize::MAX
}

/// How many records may be written until the leader has deleted those that are too many: as many in each namespace, and
/// in all, as may be kept.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    /// The UIDs of the AppWrappers of each.
    by_namespace: BTreeMap<String, BTreeSet<String>>,
    total: usize,
}

impl Allowance {
    /// Whether the record of an AppWrapper may be written; it counts once then, however often the removal of the finalizer is
    /// tried.
    pub fn take(&mut self, namespace: &str, uid: &str, settings: &History) -> bool {
        let known = self.by_namespace.get(namespace);
        if known.is_some_and(|uids| uids.contains(uid)) {
            return true;
        }
        let count = known.map_or(0, BTreeSet::len);
        if count >= settings.per_namespace || self.total >= settings.total {
            return false;
        }
        self.by_namespace.entry(namespace.to_owned()).or_default().insert(uid.to_owned());
        self.total += 1;
        true
    }

    /// The records of all namespaces that are too many are deleted, but for those of these: their counts stay.
    pub fn renew(&mut self, behind: &BTreeSet<String>) {
        self.by_namespace.retain(|namespace, _| behind.contains(namespace));
        self.total = self.by_namespace.values().map(BTreeSet::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::FailureRecord;
    use crate::tuning::Period;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn settings(per_namespace: usize, total: usize) -> History {
        History { enabled: true, ttl: Period::from_secs(1000), per_namespace, total }
    }

    fn kept(namespace: &str, second: i64) -> Kept {
        let name = format!("{PREFIX}{namespace}-{second}");
        Kept { created: at(second), namespace: namespace.into(), uid: name.clone(), name }
    }

    fn going(all: &[Kept], settings: &History) -> Vec<String> {
        let going = expired(all.to_vec(), settings, at(1500)).into_iter();
        let mut names: Vec<String> =
            going.map(|kept| kept.name[PREFIX.len()..].to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_old_or_too_much_goes_and_nothing_of_others() {
        let all: Vec<Kept> = [
            kept("a", 500),
            kept("a", 501),
            kept("a", 900),
            kept("a", 800),
            kept("b", 700),
            kept("c", 400),
        ]
        .into();
        assert_eq!(going(&all, &settings(10, 100)), ["a-500", "c-400"], "1000 s are over");
        assert_eq!(going(&all, &settings(2, 100)), ["a-500", "a-501", "c-400"]);
        assert_eq!(going(&all, &settings(10, 3)), ["a-500", "a-501", "c-400"]);
        assert_eq!(
            going(&all, &settings(10, 2)),
            ["a-500", "a-501", "a-800", "c-400"],
            "b has few"
        );
        let order: Vec<String> = expired(all.clone(), &settings(10, 100), at(9000))
            .into_iter()
            .map(|kept| kept.name[PREFIX.len()..].to_owned())
            .collect();
        let want = ["a-500", "b-700", "c-400", "a-501", "a-900", "a-800"];
        assert_eq!(order, want, "namespaces take turns");
        let other = Kept { name: "settings".into(), ..kept("a", 1) };
        assert_eq!(expired(vec![other], &settings(1, 1), at(9000)), vec![]);
    }

    #[test]
    fn no_more_is_kept_than_allowed_and_namespaces_with_few_keep_theirs() {
        for (counts, total, want) in [
            (vec![], 5, usize::MAX),
            (vec![1, 2], 5, usize::MAX),
            (vec![1, 9], 5, 4),
            (vec![3, 3, 3], 6, 2),
            (vec![1, 5, 5], 6, 2),
            (vec![5, 5, 5], 2, 0),
        ] {
            let share = share(counts.iter().copied(), total);
            assert_eq!(share, want, "{counts:?} of {total}");
            let sum: usize = counts.iter().map(|count| count.min(&share)).sum();
            assert!(sum <= total, "{counts:?} of {total}: {sum}");
        }
    }

    #[test]
    fn between_two_deletions_no_namespace_writes_without_end() {
        let (mut allowance, settings) = (Allowance::default(), settings(2, 3));
        let take = |allowance: &mut Allowance, all: &[(&str, &str)]| {
            let one = |(of, uid): &(&str, &str)| allowance.take(of, uid, &settings);
            all.iter().map(one).collect::<Vec<_>>()
        };
        let all = [("a", "1"), ("a", "1"), ("a", "2"), ("a", "3"), ("b", "4"), ("b", "5")];
        let taken = take(&mut allowance, &all);
        assert_eq!(taken, [true, true, true, false, true, false], "another try costs nothing");
        allowance.renew(&BTreeSet::from(["a".to_owned()]));
        let taken = take(&mut allowance, &[("a", "3"), ("b", "5"), ("b", "6")]);
        assert_eq!(taken, [false, true, false], "a has records left that are too many");
        allowance.renew(&BTreeSet::new());
        assert_eq!(take(&mut allowance, &[("a", "3")]), [true]);
    }

    #[test]
    fn a_record_is_never_longer_than_it_may_be() {
        let attempt = |number: i32, text: usize| Attempt {
            attempt: number,
            failure: Some(FailureRecord {
                message: Some("ä".repeat(text)),
                reason: Some("r".repeat(text)),
                ..FailureRecord::default()
            }),
            ..Attempt::default()
        };
        let status = |count: i32, text: usize| AppWrapperStatus {
            resetting_count: -1,
            attempts: (0..count).map(|number| attempt(number, text)).collect(),
            ..AppWrapperStatus::default()
        };
        let numbers = |record: &Record| {
            record.attempts.iter().map(|attempt| attempt.attempt).collect::<Vec<_>>()
        };
        let record = Record::of(&status(12, 300));
        assert_eq!(numbers(&record), (2..12).collect::<Vec<_>>());
        assert_eq!(record.restarts, 0);
        let message = record.attempts[0].failure.as_ref().unwrap().message.as_ref().unwrap();
        assert_eq!(message.chars().count(), MESSAGE_CHARS_MAX);
        let back: Record = serde_json::from_str(&record.json()).unwrap();
        assert_eq!(back, record);
        let large = Record::of(&status(10, 4000)).json();
        assert!(large.len() <= BYTES_MAX);
        let back: Record = serde_json::from_str(&large).unwrap();
        assert!(!back.attempts.is_empty() && back.attempts.len() < 10);
        assert_eq!(back.attempts.last().map(|attempt| attempt.attempt), Some(9), "the last stays");
        assert!(Record::of(&status(1, 40_000)).json().len() <= BYTES_MAX);
    }
}
