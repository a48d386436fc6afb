//! Whether the periods of an AppWrapper fit into those of Kueue's `waitForPodsReady`. What does not fit is allowed:
//! Kueue then evicts the AppWrapper first.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Finding;
use super::finding::Findings;
use crate::api::keys;
use crate::config::Config;
use crate::kueue::{Timeout, WaitForPodsReady, total};
use crate::tuning::{Limits, Period};

/// What does not fit, of an AppWrapper with a queue.
#[must_use]
pub fn waiting(aw: &Value, config: &Config, kueue: Option<WaitForPodsReady>) -> Vec<Finding> {
    let metadata = &aw["metadata"];
    let Some(kueue) = kueue.filter(|_| metadata["labels"][keys::QUEUE_NAME].is_string()) else {
        return vec![];
    };
    let given = metadata["annotations"].as_object().into_iter().flatten();
    let annotations: BTreeMap<String, String> =
        given.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    let (limits, _) = Limits::of(&annotations, &config.fault_tolerance);
    let warmup = ("warmupGracePeriodDuration", limits.warmup_grace);
    let restart = [
        ("failureGracePeriodDuration", limits.failure_grace),
        ("forcefulDeletionGracePeriodDuration", limits.forceful_deletion_grace),
        ("retryPausePeriodDuration", limits.retry_pause),
        warmup,
    ];
    let mut report = Findings::default();
    for (timeout, parts, what) in [
        (Timeout::Start, &[warmup][..], "the first start"),
        (Timeout::Recovery, &restart[..], "a restart"),
    ] {
        let needed = total(&parts.iter().map(|(_, period)| *period).collect::<Vec<_>>());
        if let Some(period) = kueue.period(timeout).filter(|period| *period < needed) {
            report.doubtful("metadata.annotations", None, message(timeout, period, parts, what));
        }
    }
    report.into_findings()
}

fn message(timeout: Timeout, period: Period, parts: &[(&str, Period)], what: &str) -> String {
    let field = timeout.field();
    let names: Vec<String> =
        parts.iter().map(|(name, period)| format!("{name} {period}")).collect();
    let needed = total(&parts.iter().map(|(_, period)| *period).collect::<Vec<_>>());
    let sum = if parts.len() > 1 { format!(" = {needed}") } else { String::new() };
    format!(
        "{what} may take {}{sum}, but Kueue evicts the AppWrapper after {period} ({field}): shorten the \
         periods to {period} or less, or have {field} raised to {needed} or more",
        names.join(" + ")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_fit_is_said_with_fields_and_values() {
        let period = |text: &str| text.parse::<Period>().unwrap();
        let prefix = keys::ANNOTATION_PREFIX;
        for (queue, timeout, recovery, warmup, want) in [
            (true, "30m", Some("30m"), "5m", vec![]),
            (true, "5m", Some("17m30s"), "5m", vec![]),
            (true, "5m", None, "5m", vec![]),
            (false, "1m", Some("1m"), "5m", vec![]),
            (
                true,
                "5m",
                None,
                "6m",
                vec!["the first start may take warmupGracePeriodDuration 6m,"],
            ),
            (
                true,
                "5m",
                Some("17m29s"),
                "5m",
                vec![
                    "a restart may take failureGracePeriodDuration 1m + \
                      forcefulDeletionGracePeriodDuration 10m + retryPausePeriodDuration 1m30s + \
                      warmupGracePeriodDuration 5m = 17m30s, but Kueue evicts the AppWrapper after 17m29s",
                ],
            ),
        ] {
            let mut aw = json!({"metadata": {"annotations": {}, "labels": {}}});
            aw["metadata"]["annotations"][format!("{prefix}warmupGracePeriodDuration")] =
                warmup.into();
            if queue {
                aw["metadata"]["labels"][keys::QUEUE_NAME] = "gpu".into();
            }
            let kueue = WaitForPodsReady {
                timeout: period(timeout),
                recovery_timeout: recovery.map(period),
            };
            let found = waiting(&aw, &Config::default(), Some(kueue));
            assert_eq!(found.len(), want.len(), "{found:?}");
            for (found, want) in found.iter().zip(want) {
                assert!(found.message.starts_with(want), "{found}");
            }
            assert_eq!(waiting(&aw, &Config::default(), None), []);
        }
    }
}
