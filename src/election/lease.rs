//! What a Lease says, and what a candidate does about it. Pure: no client and no time of day.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// How long things take, in the manner of client-go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// A Lease that nobody has written for so long may be taken.
    pub lease: Duration,
    /// A leader that could not renew for so long leads no more. Shorter than `lease`, so that two
    /// clocks may run at different speeds.
    pub renew_deadline: Duration,
    /// How often a leader renews.
    pub renew_every: Duration,
    /// How often another candidate looks.
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

/// A Lease as it was last seen to change. When somebody else wrote it is told by our own clock:
/// the times in it were read from another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    version: String,
    holder: String,
    lasts: Duration,
    /// How many times leadership has changed hands.
    pub(super) transitions: i32,
    /// When its holder took it.
    pub(super) acquired: Option<MicroTime>,
    since: Duration,
}

/// What a candidate does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It leads, and writes so again.
    Renew,
    /// It takes what nobody holds.
    Take,
    /// Somebody else leads: it looks again after so long.
    Wait(Duration),
}

impl Record {
    /// What a Lease that was read at a moment (of [`crate::clock::Clock::elapsed`]) says. One that
    /// is as it was has been so since then.
    pub(super) fn seen(lease: &Lease, before: Option<&Self>, at: Duration) -> Self {
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let spec = lease.spec.clone().unwrap_or_default();
        let since = before.filter(|before| before.version == version).map(|before| before.since);
        Self {
            version,
            holder: spec.holder_identity.unwrap_or_default(),
            // one that never ends could never be taken
            lasts: Duration::from_secs(
                spec.lease_duration_seconds.unwrap_or_default().max(0).unsigned_abs().into(),
            ),
            transitions: spec.lease_transitions.unwrap_or_default(),
            acquired: spec.acquire_time,
            since: since.unwrap_or(at),
        }
    }

    /// The version that a write must be guarded by.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Who leads; empty where nobody does.
    pub(super) fn holder(&self) -> &str {
        &self.holder
    }

    /// What a candidate does about it.
    pub(super) fn step(&self, candidate: &str, at: Duration, times: &Times) -> Step {
        if self.holder == candidate {
            return Step::Renew;
        }
        // where it says nothing of its own
        let lasts = if self.lasts.is_zero() { times.lease } else { self.lasts };
        let left = (self.since + lasts).saturating_sub(at);
        if self.holder.is_empty() || left.is_zero() {
            Step::Take
        } else {
            Step::Wait(left.min(times.look_every))
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use kube::core::ObjectMeta;

    use super::*;

    fn lease(version: &str, holder: &str, lasts: Option<i32>) -> Lease {
        Lease {
            metadata: ObjectMeta {
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: lasts,
                ..LeaseSpec::default()
            }),
        }
    }

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn a_lease_is_taken_when_it_has_stood_still_for_its_time() {
        let times = Times::default();
        for (holder, lasts, at, want) in [
            ("me", Some(15), 100, Step::Renew),
            ("", Some(15), 100, Step::Take),
            ("other", Some(15), 100, Step::Wait(secs(1))),
            ("other", Some(15), 114, Step::Wait(secs(1))),
            ("other", Some(15), 115, Step::Take),
            ("other", Some(60), 115, Step::Wait(secs(1))),
            // without a time of its own, ours is meant
            ("other", None, 114, Step::Wait(secs(1))),
            ("other", None, 115, Step::Take),
            ("other", Some(-5), 114, Step::Wait(secs(1))),
        ] {
            let record = Record::seen(&lease("1", holder, lasts), None, secs(100));
            assert_eq!(record.step("me", secs(at), &times), want, "{holder} {lasts:?} {at}");
        }
        let record = Record::seen(&lease("1", "other", Some(15)), None, secs(100));
        let soon = Duration::from_millis(114_700);
        let want = Step::Wait(Duration::from_millis(300));
        assert_eq!(record.step("me", soon, &times), want, "woken when it ends");
    }

    #[test]
    fn only_a_change_begins_its_time_anew() {
        let first = Record::seen(&lease("1", "other", Some(15)), None, secs(100));
        let same = Record::seen(&lease("1", "other", Some(15)), Some(&first), secs(110));
        assert_eq!(same.step("me", secs(115), &Times::default()), Step::Take);
        let renewed = Record::seen(&lease("2", "other", Some(15)), Some(&same), secs(110));
        let want = Step::Wait(secs(1));
        assert_eq!(renewed.step("me", secs(115), &Times::default()), want);
    }
}
