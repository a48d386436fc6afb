//! What became of one job, in sentences.

use serde_json::Value;

/// What a status says that has another phase than the one before; none where that is not worth a line.
pub(super) fn sentence(status: &Value) -> Option<String> {
    let attempt = status["attempts"].as_array().and_then(|all| all.last());
    let attempt = attempt.unwrap_or(&Value::Null);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let failure = &attempt["failure"];
    let cause = match (failure["reason"].as_str(), failure["exitCode"].as_i64()) {
        (Some(reason), Some(code)) => format!("{reason}, exit code {code}"),
        (Some(reason), None) => reason.to_owned(),
        (None, _) => text(&failure["category"]),
    };
    match status["phase"].as_str().unwrap_or_default() {
        "Resetting" => {
            let (retries, used) = (&attempt["retries"], &status["resettingCount"]);
            let how = match attempt["action"].as_str() {
                Some("Requeue") => "returns to the queue, no retry is used".to_owned(),
                Some("Hold") => "tries again, no retry is used".to_owned(),
                _ => format!("restart {used} of at most {}", retries["limit"]),
            };
            Some(format!("{cause}: {how}"))
        }
        "Suspended" if attempt["outcome"] == "NoFit" => {
            Some("its quota is free; it waits in the queue".to_owned())
        }
        "Failed" => Some(format!("Failed: {cause}")),
        "Succeeded" => Some("Succeeded".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_phase_is_told_with_its_cause() {
        let status = |phase: &str, action: &str, outcome: &str| {
            json!({"phase": phase, "resettingCount": 2, "attempts": [{
                "action": action, "outcome": outcome, "retries": {"used": 1, "limit": 3},
                "failure": {"reason": "FoundFailedPods", "exitCode": 134},
            }]})
        };
        for (phase, action, outcome, told) in [
            (
                "Resetting",
                "Restart",
                "Failed",
                Some("FoundFailedPods, exit code 134: restart 2 of at most 3"),
            ),
            (
                "Resetting",
                "Requeue",
                "NoFit",
                Some("FoundFailedPods, exit code 134: returns to the queue, no retry is used"),
            ),
            ("Suspended", "Requeue", "NoFit", Some("its quota is free; it waits in the queue")),
            ("Suspended", "Restart", "Suspended", None),
            ("Failed", "Fail", "Failed", Some("Failed: FoundFailedPods, exit code 134")),
            ("Running", "", "", None),
        ] {
            assert_eq!(
                sentence(&status(phase, action, outcome)).as_deref(),
                told,
                "{phase} {action}"
            );
        }
    }
}
