//! The limits of one AppWrapper: the defaults of the configuration, tuned by its annotations.
//!
//! A malformed annotation never fails here: its default applies, and a [`Remark`] says so.
//! Admission refuses the object for it; the controller makes a Warning event of it.

mod exit_codes;
pub mod names;
mod period;
mod remark;

use std::collections::{BTreeMap, BTreeSet};

pub use exit_codes::{ExitCodes, ExitCodesError};
pub use names::shortened;
pub use period::{Period, PeriodError};
pub use remark::{Remark, Severity, write_finding};

use crate::api::keys;
use crate::price::OWN_ANNOTATIONS_BYTES_MAX;

/// The section `faultTolerance` of the configuration: what an AppWrapper gets without annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultTolerance {
    /// How long pods may take to appear, and components to be created.
    pub admission_grace: Period,
    /// How long pods may take to run.
    pub warmup_grace: Period,
    /// How long a failure may last before it counts.
    pub failure_grace: Period,
    /// Pause between the end of one attempt and the start of the next.
    pub retry_pause: Period,
    /// How many counted restarts are allowed.
    pub retry_limit: i32,
    /// How long a failed AppWrapper keeps its resources.
    pub deletion_on_failure_grace: Period,
    /// How long a deletion may take before it is forced.
    pub forceful_deletion_grace: Period,
    /// How long a succeeded AppWrapper keeps its resources; also the most that an annotation gives.
    pub success_ttl: Period,
    /// The most that an annotation can set any of the grace periods and the pause to.
    pub grace_maximum: Period,
}

impl Default for FaultTolerance {
    fn default() -> Self {
        const MINUTE: u64 = 60;
        const HOUR: u64 = 60 * MINUTE;
        Self {
            admission_grace: Period::from_secs(MINUTE),
            warmup_grace: Period::from_secs(5 * MINUTE),
            failure_grace: Period::from_secs(MINUTE),
            retry_pause: Period::from_secs(90),
            retry_limit: 3,
            deletion_on_failure_grace: Period::ZERO,
            forceful_deletion_grace: Period::from_secs(10 * MINUTE),
            success_ttl: Period::from_secs(7 * 24 * HOUR),
            grace_maximum: Period::from_secs(24 * HOUR),
        }
    }
}

/// What holds for one AppWrapper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long pods may take to appear, and components to be created.
    pub admission_grace: Period,
    /// How long pods may take to run.
    pub warmup_grace: Period,
    /// How long a failure may last before it counts.
    pub failure_grace: Period,
    /// Pause between the end of one attempt and the start of the next.
    pub retry_pause: Period,
    /// How many counted restarts are allowed.
    pub retry_limit: i32,
    /// How long a failed AppWrapper keeps its resources.
    pub deletion_on_failure_grace: Period,
    /// How long a deletion may take before it is forced.
    pub forceful_deletion_grace: Period,
    /// How long a succeeded AppWrapper keeps its resources.
    pub success_ttl: Period,
    /// Exit codes after which no retry is made.
    pub terminal_exit_codes: BTreeSet<i32>,
    /// The only exit codes after which a retry is made; empty: any code.
    pub retryable_exit_codes: BTreeSet<i32>,
    /// Names of the retry policies that the AppWrapper itself attaches, in order.
    pub retry_policies: Vec<String>,
    /// Whether it may run, where that is set.
    pub active: Option<bool>,
}

/// The annotations that tune an AppWrapper, with their prefix.
pub const KEYS: [&str; 12] = [
    keys::ADMISSION_GRACE,
    keys::WARMUP_GRACE,
    keys::FAILURE_GRACE,
    keys::RETRY_PAUSE,
    keys::RETRY_LIMIT,
    keys::DELETION_ON_FAILURE_GRACE,
    keys::FORCEFUL_DELETION_GRACE,
    keys::SUCCESS_TTL,
    keys::TERMINAL_EXIT_CODES,
    keys::RETRYABLE_EXIT_CODES,
    keys::RETRY_POLICIES,
    keys::ACTIVE,
];

/// The most unknown annotations that are remarked upon: each is compared with every known one.
const UNKNOWN_MAX: usize = 5;

/// The most annotations with the prefix of the API group that are compared with the known names.
const COMPARED_MAX: usize = 20;

/// Annotations with our prefix that belong to a pod set.
const OF_POD_SETS: [&str; 3] =
    [keys::TAS_POD_INDEX, keys::TAS_SUB_GROUP_INDEX, keys::TAS_SUB_GROUP_COUNT];

/// Prefix of labels and of other annotations; users take it for the one of the annotations here.
const GROUP_PREFIX: &str = "workload.codeflare.dev/";

fn suffix(key: &'static str) -> &'static str {
    key.split_at(keys::ANNOTATION_PREFIX.len()).1
}

impl Limits {
    /// The limits of an AppWrapper with these `metadata.annotations`, and what to say about them.
    #[must_use]
    pub fn of(
        annotations: &BTreeMap<String, String>,
        defaults: &FaultTolerance,
    ) -> (Self, Vec<Remark>) {
        let mut reader = Reader::of(annotations);
        let maximum = defaults.grace_maximum;
        let mut grace = |key, default| reader.period(key, default, maximum);
        let mut limits = Self {
            admission_grace: grace(keys::ADMISSION_GRACE, defaults.admission_grace),
            warmup_grace: grace(keys::WARMUP_GRACE, defaults.warmup_grace),
            failure_grace: grace(keys::FAILURE_GRACE, defaults.failure_grace),
            retry_pause: grace(keys::RETRY_PAUSE, defaults.retry_pause),
            deletion_on_failure_grace: grace(
                keys::DELETION_ON_FAILURE_GRACE,
                defaults.deletion_on_failure_grace,
            ),
            forceful_deletion_grace: grace(
                keys::FORCEFUL_DELETION_GRACE,
                defaults.forceful_deletion_grace,
            ),
            success_ttl: reader.period(
                keys::SUCCESS_TTL,
                defaults.success_ttl,
                defaults.success_ttl,
            ),
            retry_limit: reader.retry_limit(defaults.retry_limit),
            terminal_exit_codes: reader.exit_codes(keys::TERMINAL_EXIT_CODES),
            retryable_exit_codes: reader.exit_codes(keys::RETRYABLE_EXIT_CODES),
            retry_policies: reader.retry_policies(),
            active: reader.active(),
        };
        reader.no_code_in_both(&mut limits);
        reader.unknown_keys();
        (limits, reader.remarks)
    }
}

struct Reader<'a> {
    annotations: &'a BTreeMap<String, String>,
    /// What is read of them: the smaller ones, as many as fit.
    known: BTreeMap<&'static str, &'a str>,
    remarks: Vec<Remark>,
}

impl<'a> Reader<'a> {
    /// Takes of what is known as much as the annotations may have together, and says what is left out.
    fn of(annotations: &'a BTreeMap<String, String>) -> Self {
        let ours = || {
            let from = annotations.range(keys::ANNOTATION_PREFIX.to_owned()..);
            from.take_while(|(key, _)| key.starts_with(keys::ANNOTATION_PREFIX))
        };
        let size = |key: &str, text: &str| key.len() + text.len();
        let sum = ours().map(|(key, text)| size(key, text)).sum::<usize>();
        let mut known: Vec<(&'static str, &'a str)> = vec![];
        known.extend(KEYS.iter().filter_map(|key| Some((*key, annotations.get(*key)?.as_str()))));
        let mut remarks = vec![];
        if sum > OWN_ANNOTATIONS_BYTES_MAX {
            let prefix = keys::ANNOTATION_PREFIX;
            let message = |own: usize| {
                format!(
                    "annotations with prefix {prefix} must total at most \
                     {OWN_ANNOTATIONS_BYTES_MAX} bytes, including keys, but total {sum}; this one has \
                     {own}"
                )
            };
            known.sort_by_key(|(key, text)| size(key, text));
            let mut room = OWN_ANNOTATIONS_BYTES_MAX;
            known.retain(|(key, text)| {
                let left = room.checked_sub(size(key, text));
                room = left.unwrap_or(room);
                left.is_some()
            });
            if let Some((key, text)) = ours().max_by_key(|(key, text)| size(key, text)) {
                remarks.push(Remark::error(&shortened(key), text, message(size(key, text))));
            }
        }
        Self { annotations, known: known.into_iter().collect(), remarks }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.known.get(key).copied()
    }

    fn period(&mut self, key: &str, default: Period, maximum: Period) -> Period {
        let Some(text) = self.get(key) else { return default };
        match text.parse::<Period>() {
            Ok(period) if period <= maximum => period,
            Ok(_) => {
                self.remarks.push(Remark::warning(key, text, format!("capped at {maximum}")));
                maximum
            }
            Err(error) => {
                self.remarks.push(Remark::error(key, text, error.expected()));
                default
            }
        }
    }

    fn retry_limit(&mut self, default: i32) -> i32 {
        let Some(text) = self.get(keys::RETRY_LIMIT) else { return default };
        match text.parse::<i32>() {
            Ok(limit) if limit >= 0 => limit,
            _ => {
                let message = format!("must be a whole number from 0 to {}", i32::MAX);
                self.remarks.push(Remark::error(keys::RETRY_LIMIT, text, message));
                default
            }
        }
    }

    fn exit_codes(&mut self, key: &str) -> BTreeSet<i32> {
        let Some(text) = self.get(key) else { return BTreeSet::new() };
        let codes = text.parse::<ExitCodes>().unwrap_or_else(|error| {
            self.remarks.push(Remark::error(key, text, error.to_string()));
            ExitCodes::default()
        });
        codes.into_set()
    }

    fn retry_policies(&mut self) -> Vec<String> {
        let key = keys::RETRY_POLICIES;
        let Some(text) = self.get(key) else { return vec![] };
        if let Some(error) = names::too_many_policy_names(text) {
            self.remarks.push(Remark::error(key, text, error.to_string()));
        }
        names::policy_names(text).unwrap_or_else(|error| {
            self.remarks.push(Remark::error(key, text, error.to_string()));
            vec![]
        })
    }

    fn active(&mut self) -> Option<bool> {
        let text = self.get(keys::ACTIVE)?;
        let active = text.parse().ok();
        if active.is_none() {
            let message = r#"must be "true" or "false""#;
            self.remarks.push(Remark::error(keys::ACTIVE, text, message));
        }
        active
    }

    /// A code that is both terminal and retryable says nothing: then neither list applies.
    fn no_code_in_both(&mut self, limits: &mut Limits) {
        let both: Vec<_> =
            limits.terminal_exit_codes.intersection(&limits.retryable_exit_codes).collect();
        if both.is_empty() {
            return;
        }
        let key = keys::RETRYABLE_EXIT_CODES;
        let text = self.get(key).unwrap_or_default();
        let message = format!(
            "{} also in {}: an exit code must be in only one of the lists",
            exit_codes::joined(both),
            keys::TERMINAL_EXIT_CODES
        );
        self.remarks.push(Remark::error(key, text, message));
        limits.terminal_exit_codes.clear();
        limits.retryable_exit_codes.clear();
    }

    fn unknown_keys(&mut self) {
        let unknown = self.annotations.iter().filter_map(|(key, value)| {
            let name = key.strip_prefix(keys::ANNOTATION_PREFIX)?;
            (!KEYS.contains(&key.as_str())).then_some((key, name, value))
        });
        let known = KEYS.map(suffix);
        let mut remarks = vec![];
        for (key, name, value) in unknown.take(UNKNOWN_MAX) {
            let message = if OF_POD_SETS.contains(&key.as_str()) {
                "has no effect here: it belongs in the annotations of a pod set".to_owned()
            } else {
                format!("unknown annotation, has no effect; {}", names::hint(name, &known))
            };
            remarks.push(Remark::warning(&shortened(key), value, message));
        }
        let misplaced = self.with_the_prefix_of_the_group(&known);
        remarks.extend(misplaced.take(UNKNOWN_MAX.saturating_sub(remarks.len())));
        self.remarks.extend(remarks);
    }

    /// Annotations that have the prefix of labels and fields, and the name of one that tunes an AppWrapper.
    fn with_the_prefix_of_the_group<'k>(
        &self,
        known: &'k [&'static str],
    ) -> impl Iterator<Item = Remark> + use<'a, 'k> {
        let from = self.annotations.range(GROUP_PREFIX.to_owned()..);
        let ours =
            from.map_while(|(key, value)| Some((key, key.strip_prefix(GROUP_PREFIX)?, value)));
        ours.take(COMPARED_MAX).filter_map(|(key, name, value)| {
            let of_queues = key == keys::QUEUE_RETRY_POLICIES;
            let meant = if of_queues {
                keys::RETRY_POLICIES
            } else {
                let near = names::close(name, known)?;
                KEYS.into_iter().find(|key| suffix(key) == near)?
            };
            let whose = if of_queues { " on an AppWrapper" } else { "" };
            let message = format!("has no effect{whose}; did you mean {meant}?");
            Some(Remark::warning(&shortened(key), value, message))
        })
    }
}

#[cfg(test)]
mod tests;
