//! What a Lease says, and what a candidate does about it. Pure: no client and no time of day.
//!
//! A Lease is JSON here and not a type: what others write into it, such as a time in the year 9999 that no
//! type of ours holds, must neither keep us from reading it nor get lost when we write it.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// How many times our own duration another candidate's Lease may last, whatever it says.
const LASTS_AT_MOST: u32 = 10;
/// A Lease whose last renewal is longer ago had no leader for a while. A failover or a rolling restart takes less time.
const LED_LATELY: SignedDuration = SignedDuration::from_mins(1);
/// The most characters of another holder's name that are logged.
const HOLDER_CHARS_MAX: usize = 100;

/// How long things take, in the manner of client-go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// A Lease that has not been renewed for this long may be taken.
    pub lease: Duration,
    /// A leader that cannot renew for this long loses leadership. Shorter than `lease`, so that two
    /// clocks may run at different speeds.
    pub renew_deadline: Duration,
    /// How often a leader renews.
    pub renew_every: Duration,
    /// How often another candidate reads the Lease.
    pub look_every: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            renew_every: Duration::from_secs(2),
            look_every: Duration::from_secs(1),
        }
    }
}

/// A Lease as it was when its last change was seen. The time of the change is measured by our own clock,
/// since the times in the Lease come from the clock of another replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    object: Value,
    since: Duration,
}

/// What a candidate does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It leads, and renews the Lease.
    Renew,
    /// It takes a Lease without a holder.
    Take,
    /// Another replica leads: it reads the Lease again after this time.
    Wait(Duration),
}

/// What a candidate writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    /// The new holder of the Lease; empty to release it.
    pub(super) holder: &'a str,
    pub(super) lasts: Duration,
    pub(super) now: Timestamp,
}

impl Record {
    /// What a Lease says whose read had ended at a moment (of [`crate::clock::Clock::elapsed`]). One that
    /// is as it was has been so since then; any other may have been written just before.
    pub(super) fn seen(object: Value, before: Option<&Self>, ended: Duration) -> Self {
        let since = before.filter(|before| before.version() == version(&object));
        let since = since.map_or(ended, |before| before.since);
        Self { object, since }
    }

    /// The version of the Lease; empty if it has none.
    pub(super) fn version(&self) -> &str {
        version(&self.object)
    }

    /// The holder; empty if the Lease has none.
    pub(super) fn holder(&self) -> &str {
        self.object["spec"]["holderIdentity"].as_str().unwrap_or_default()
    }

    /// The same for a log, and not longer than a name is.
    pub(super) fn holder_shown(&self) -> String {
        self.holder().chars().take(HOLDER_CHARS_MAX).collect()
    }

    /// Whether it says that nobody has led for a while. One that was never renewed does not.
    pub(super) fn is_long_free(&self, now: Timestamp) -> bool {
        let renewed = self.object["spec"]["renewTime"].as_str();
        let renewed = renewed.and_then(|text| text.parse::<Timestamp>().ok());
        renewed.is_some_and(|at| now.duration_since(at) > LED_LATELY)
    }

    /// How long it lasts: what it says, but not shorter than ours, by which its holder may have been
    /// started, too, and not longer than one that is configured like ours could.
    fn lasts(&self, times: &Times) -> Duration {
        let seconds = self.object["spec"]["leaseDurationSeconds"].as_i64().unwrap_or_default();
        let said = Duration::from_secs(seconds.max(0).unsigned_abs());
        said.clamp(times.lease, times.lease.saturating_mul(LASTS_AT_MOST))
    }

    /// What a candidate does about it.
    pub(super) fn step(&self, candidate: &str, at: Duration, times: &Times) -> Step {
        if self.holder() == candidate {
            return Step::Renew;
        }
        let left = self.since.saturating_add(self.lasts(times)).saturating_sub(at);
        if self.holder().is_empty() || left.is_zero() {
            Step::Take
        } else {
            Step::Wait(left.min(times.look_every))
        }
    }

    /// The Lease as it is to be written over this one, guarded by its version: only what a candidate says of
    /// itself changes.
    pub(super) fn written(&self, step: Step, entry: &Entry<'_>) -> Value {
        let mut object = self.object.clone();
        // a spec that is not an object is replaced
        if !object["spec"].is_object() {
            object["spec"] = json!({});
        }
        let spec = &mut object["spec"];
        let transitions = spec["leaseTransitions"].as_i64().unwrap_or_default();
        let is_taken = matches!(step, Step::Take);
        let transitions = transitions.saturating_add(i64::from(is_taken)).clamp(0, i32::MAX.into());
        spec["leaseTransitions"] = transitions.into();
        if is_taken || !spec["acquireTime"].is_string() {
            spec["acquireTime"] = moment(entry.now);
        }
        say(spec, entry);
        object
    }
}

/// A Lease where there is none.
pub(super) fn first(entry: &Entry<'_>) -> Value {
    let mut spec = json!({"acquireTime": moment(entry.now), "leaseTransitions": 0});
    say(&mut spec, entry);
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": entry.name}, "spec": spec,
    })
}

/// What each write says.
fn say(spec: &mut Value, entry: &Entry<'_>) {
    let seconds = i32::try_from(entry.lasts.as_secs()).unwrap_or(i32::MAX);
    spec["holderIdentity"] = entry.holder.into();
    spec["leaseDurationSeconds"] = seconds.max(1).into();
    spec["renewTime"] = moment(entry.now);
}

fn moment(now: Timestamp) -> Value {
    // a time is a text, and that cannot fail
    serde_json::to_value(MicroTime(now)).unwrap_or_default()
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lease(version: &str, holder: &str, lasts: &Value) -> Value {
        json!({
            "metadata": {"name": "lock", "resourceVersion": version},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": lasts},
        })
    }

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn seen(holder: &str, lasts: &Value) -> Record {
        Record::seen(lease("1", holder, lasts), None, secs(100))
    }

    #[test]
    fn a_lease_is_taken_when_it_has_stood_still_for_its_time() {
        let times = Times::default();
        for (holder, lasts, at, want) in [
            ("me", json!(15), 100, Step::Renew),
            ("", json!(15), 100, Step::Take),
            ("other", json!(15), 100, Step::Wait(secs(1))),
            ("other", json!(15), 114, Step::Wait(secs(1))),
            ("other", json!(15), 115, Step::Take),
            ("other", json!(60), 115, Step::Wait(secs(1))),
            ("other", json!(60), 160, Step::Take),
            // less than ours, nothing or nonsense: ours is meant
            ("other", json!(1), 114, Step::Wait(secs(1))),
            ("other", json!(null), 114, Step::Wait(secs(1))),
            ("other", json!(null), 115, Step::Take),
            ("other", json!(-5), 114, Step::Wait(secs(1))),
            ("other", json!(-5), 115, Step::Take),
            ("other", json!("9"), 115, Step::Take),
            // no Lease is for ever
            ("other", json!(i32::MAX), 249, Step::Wait(secs(1))),
            ("other", json!(i32::MAX), 250, Step::Take),
            ("other", json!(i64::MAX), 250, Step::Take),
        ] {
            let record = seen(holder, &lasts);
            assert_eq!(record.step("me", secs(at), &times), want, "{holder} {lasts} {at}");
        }
        let soon = Duration::from_millis(114_700);
        let want = Step::Wait(Duration::from_millis(300));
        assert_eq!(seen("other", &json!(15)).step("me", soon, &times), want, "woken when it ends");
    }

    #[test]
    fn only_a_change_begins_its_time_anew() {
        let first = seen("other", &json!(15));
        let same = Record::seen(lease("1", "other", &json!(15)), Some(&first), secs(110));
        assert_eq!(same.step("me", secs(115), &Times::default()), Step::Take);
        let renewed = Record::seen(lease("2", "other", &json!(15)), Some(&same), secs(110));
        let want = Step::Wait(secs(1));
        assert_eq!(renewed.step("me", secs(115), &Times::default()), want);
        assert_eq!(renewed.step("me", secs(125), &Times::default()), Step::Take);
    }

    fn entry(holder: &str) -> Entry<'_> {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        Entry { name: "lock", holder, lasts: secs(15), now }
    }

    #[test]
    fn a_write_changes_only_what_a_candidate_says_of_itself() {
        let metadata = json!({
            "name": "lock", "resourceVersion": "7", "uid": "u", "labels": {"team": "a"},
            "annotations": {"note": "keep"}, "ownerReferences": [{"kind": "Deployment"}],
            "managedFields": [{"time": "9999-12-31T23:59:59Z"}],
        });
        let found = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
            "spec": {"holderIdentity": "other", "leaseDurationSeconds": 9, "leaseTransitions": 4,
                "acquireTime": "9999-12-31T23:59:59.000000Z",
                "renewTime": "9999-12-31T23:59:59.000000Z", "strategy": "OldestEmulationVersion"},
        });
        let record = Record::seen(found, None, secs(0));
        let now = "2027-01-15T08:00:00.000000Z";
        for (step, holder, acquired, transitions) in [
            (Step::Take, "me", now, 5),
            (Step::Renew, "me", "9999-12-31T23:59:59.000000Z", 4),
            (Step::Renew, "", "9999-12-31T23:59:59.000000Z", 4),
        ] {
            let written = record.written(step, &entry(holder));
            assert_eq!(written["metadata"], metadata, "{step:?}");
            assert_eq!(
                written["spec"],
                json!({"holderIdentity": holder, "leaseDurationSeconds": 15,
                    "leaseTransitions": transitions, "acquireTime": acquired, "renewTime": now,
                    "strategy": "OldestEmulationVersion"})
            );
        }
        let most = json!({"metadata": {"resourceVersion": "1"},
            "spec": {"leaseTransitions": i32::MAX}});
        let written = Record::seen(most, None, secs(0)).written(Step::Take, &entry("me"));
        assert_eq!(written["spec"]["leaseTransitions"], i32::MAX);
        let empty = Record::seen(json!({"spec": [1]}), None, secs(0));
        assert_eq!(empty.written(Step::Take, &entry("me"))["spec"]["leaseTransitions"], 1);
        assert_eq!(first(&entry("me"))["spec"]["acquireTime"], now);
    }

    #[test]
    fn a_long_name_is_cut_where_it_is_told() {
        let record = seen(&"ä".repeat(200_000), &json!(15));
        assert_eq!(record.holder_shown().chars().count(), HOLDER_CHARS_MAX);
        assert_eq!(record.step("me", secs(115), &Times::default()), Step::Take);
    }

    proptest! {
        /// A leader's renewal leaves at `sent` and is applied later; a candidate's read of it ends later
        /// still. Whatever the Lease says, the candidate takes it only when the leader has ended. The Lease of a
        /// leader that was started with another duration says so, up to ten times ours.
        #[test]
        fn two_never_lead_at_a_time(
            sent in 0..10_000_u64, on_its_way in 0..60_000_u64, reading in 0..60_000_u64,
            looks in prop::collection::vec((0..5_000_u64, 0..20_000_u64), 1..20),
            (lasts, lease_of_leader) in prop_oneof![
                any::<i32>().prop_map(|lasts| (lasts, Times::default().lease)),
                (1..=150_i32).prop_map(|lasts| (lasts, secs(lasts.unsigned_abs().into()))),
            ],
        ) {
            let millis = Duration::from_millis;
            let times = Times::default();
            // its deadline is shorter than its Lease
            let ended_at = millis(sent) + lease_of_leader;
            let mut at = sent + on_its_way + reading;
            let mut record = Record::seen(lease("1", "other", &json!(lasts)), None, millis(at));
            for (pause, reading) in looks {
                at += pause + reading;
                record = Record::seen(lease("1", "other", &json!(lasts)), Some(&record), millis(at));
                if record.step("me", millis(at), &times) == Step::Take {
                    prop_assert!(millis(at) >= ended_at);
                }
            }
        }

        /// Whatever is written into it, a Lease that stands still is taken after a bounded time.
        #[test]
        fn no_lease_lasts_for_ever(lasts in any::<i64>(), holder in ".{0,20}") {
            let times = Times::default();
            let end = secs(100) + times.lease * LASTS_AT_MOST;
            let step = seen(&holder, &json!(lasts)).step("me", end, &times);
            prop_assert!(step == Step::Take || holder == "me");
        }
    }
}
