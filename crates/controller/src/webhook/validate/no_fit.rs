//! `spec.onNoFit`.

use serde_json::Value;

use super::component::queue_of;
use super::finding::Findings;
use crate::api::{OnNoFit, keys};
use crate::config::Config;
use crate::policies::NoFitRule;

const FIELD: &str = "spec.onNoFit";

/// Checks what the schema cannot say.
pub(super) fn check(given: &Value, metadata: &Value, config: &Config, report: &mut Findings) {
    let Ok(on_no_fit) = serde_json::from_value::<OnNoFit>(given.clone()) else { return };
    if let Err(error) = NoFitRule::try_from(&on_no_fit) {
        let after = on_no_fit.after.as_deref().unwrap_or_default();
        return report.invalid(format!("{FIELD}.after"), after, error.expected());
    }
    if queue_of(metadata, config).is_none() {
        let message = format!("has no effect: the AppWrapper has no label {}", keys::QUEUE_NAME);
        report.doubtful(FIELD, None, message);
    }
    if config.retry_policy.global_max_retries == 0 {
        let message = "has no effect: retryPolicy.globalMaxRetries is 0";
        report.doubtful(FIELD, None, message);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_has_no_effect_is_a_warning_and_what_is_malformed_an_error() {
        let queued = json!({"labels": {keys::QUEUE_NAME: "gpu"}});
        let unlimited = Config::default();
        let none = Config::parse("retryPolicy: {globalMaxRetries: 0}").unwrap();
        let by_default = Config::parse("admission: {defaultQueueName: gpu}").unwrap();
        for (given, metadata, config, want) in [
            (json!(null), &json!({}), &none, vec![]),
            (json!({"action": "Hold"}), &queued, &unlimited, vec![]),
            (json!({"action": "Hold"}), &json!({}), &by_default, vec![]),
            (json!({"action": "Requeue", "after": "10s"}), &queued, &unlimited, vec![]),
            (
                json!({"action": "Hold"}),
                &json!({}),
                &unlimited,
                vec!["spec.onNoFit: has no effect"],
            ),
            (json!({"action": "Hold"}), &queued, &none, vec!["spec.onNoFit: has no effect"]),
            (
                json!({"action": "Hold", "after": "9s"}),
                &queued,
                &unlimited,
                vec!["spec.onNoFit.after: Invalid value: \"9s\": must be at least 10s"],
            ),
            (
                json!({"action": "Hold", "after": "soon"}),
                &queued,
                &unlimited,
                vec!["spec.onNoFit.after: Invalid value: \"soon\": "],
            ),
        ] {
            let mut report = Findings::default();
            check(&given, metadata, config, &mut report);
            let found = report.into_findings();
            assert_eq!(found.len(), want.len(), "{given}: {found:?}");
            for (found, want) in found.iter().zip(want) {
                assert!(found.to_string().starts_with(want), "{found}");
            }
        }
    }
}
