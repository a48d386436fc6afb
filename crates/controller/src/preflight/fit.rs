//! Whether the controller's periods fit those of Kueue's `waitForPodsReady`.
//!
//! Kueue evicts an AppWrapper that is not ready for `timeout` after its admission, or not ready again for
//! `recoveryTimeout` after it was. We wait for a first readiness for the warm-up and then the failure
//! grace period (admission runs within the warm-up, from the same moment). A retry takes the failure
//! grace period, the deletion, the pause and the warm-up of the next attempt. What does not fit is no
//! fault, since an eviction is a suspension like any other, but the retry was in vain.

use super::Notice;
use crate::kueue::{WaitForPodsReady, total};
use crate::tuning::FaultTolerance;

/// What does not fit; `file` names Kueue's configuration.
pub(super) fn judge(kueue: WaitForPodsReady, ours: &FaultTolerance, file: &str) -> Vec<Notice> {
    let WaitForPodsReady { timeout, recovery_timeout: recovery } = kueue;
    let FaultTolerance { warmup_grace, failure_grace, retry_pause, .. } = ours;
    let mut notices = vec![];
    let start = total(&[*warmup_grace, *failure_grace]);
    if timeout < start {
        notices.push(Notice(format!(
            "Kueue evicts an AppWrapper whose pods are not ready {timeout} after admission, but \
             the controller waits {start} for them (warmupGracePeriod {warmup_grace} + \
             failureGracePeriod {failure_grace}): raise waitForPodsReady.timeout of {file} to \
             {start} or more, or shorten these two periods in faultTolerance"
        )));
    }
    let retry = total(&[*failure_grace, *retry_pause, *warmup_grace]);
    if let Some(recovery) = recovery.filter(|recovery| *recovery < retry) {
        notices.push(Notice(format!(
            "Kueue evicts an AppWrapper whose pods are not ready again {recovery} after a failure, \
             during a retry that may take {retry} plus the time of the deletion \
             (failureGracePeriod {failure_grace} + retryPausePeriod {retry_pause} + \
             warmupGracePeriod {warmup_grace}): raise waitForPodsReady.recoveryTimeout of {file} \
             (it defaults to timeout) to more than {retry}, or shorten these three periods in \
             faultTolerance"
        )));
    }
    notices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::Period;

    #[test]
    fn what_does_not_fit_is_said_with_its_numbers() {
        let periods = |text: &str| text.parse::<Period>().unwrap();
        // ours: 5m + 1m to start, 1m + 1m30s + 5m for a retry
        for (timeout, recovery, want) in [
            ("30m", Some("30m"), vec![]),
            ("30m", None, vec![]),
            ("6m", Some("7m30s"), vec![]),
            ("5m59s", Some("8m"), vec!["5m59s", "6m"]),
            ("10m", Some("7m29s"), vec!["7m29s", "7m30s"]),
            ("5m", Some("3m"), vec!["5m", "6m", "3m", "7m30s"]),
            ("5m", None, vec!["5m", "6m"]),
        ] {
            let kueue = WaitForPodsReady {
                timeout: periods(timeout),
                recovery_timeout: recovery.map(periods),
            };
            let notices = judge(kueue, &FaultTolerance::default(), "ConfigMap a/b");
            assert_eq!(notices.len(), want.len() / 2, "{notices:?}");
            for (notice, numbers) in notices.iter().zip(want.chunks(2)) {
                for number in numbers {
                    let named = format!(" {number} ");
                    assert!(notice.0.contains(&named), "{number}: {notice}");
                }
                assert!(notice.0.contains("of ConfigMap a/b"), "{notice}");
            }
        }
    }

    #[test]
    fn the_longest_periods_do_not_overflow() {
        let ours = FaultTolerance {
            warmup_grace: Period::MAX,
            failure_grace: Period::MAX,
            retry_pause: Period::MAX,
            ..FaultTolerance::default()
        };
        let kueue = WaitForPodsReady { timeout: Period::ZERO, recovery_timeout: Some(Period::MAX) };
        assert_eq!(judge(kueue, &ours, "f").len(), 1);
    }
}
