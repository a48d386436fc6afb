//! The condition that tells a manager cluster of MultiKueue why an attempt ended. Kueue copies conditions,
//! but not `status.attempts`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::draft::Draft;
use super::failure;
use super::policy::{decider, used_before};
use crate::api::{Attempt, FailureRecord, condition};

/// Writes the failure of the last attempt into the condition, where Kueue copies it.
pub fn report(draft: &mut Draft<'_>) {
    if !draft.facts.snapshot.has_manager {
        return;
    }
    let said = draft.status.attempts.last().and_then(|attempt| {
        let reason = attempt.action?.as_str();
        let at = attempt.failed_at.clone().unwrap_or(Time(draft.facts.now));
        Some((reason, sentence(attempt, attempt.failure.as_ref()?), at))
    });
    let Some((reason, message, at)) = said else { return };
    // each failure has a time of its own
    let kind = condition::LAST_FAILURE;
    draft.status.conditions.retain(|old| old.type_ != kind);
    draft.condition(kind, true, reason, &message);
    if let Some(new) = draft.status.conditions.iter_mut().find(|new| new.type_ == kind) {
        new.last_transition_time = at;
    }
}

/// The cause, the decision and last what the container said: a long message is cut at its end.
fn sentence(attempt: &Attempt, record: &FailureRecord) -> String {
    let component = record.component.as_ref().filter(|_| record.pod.is_some());
    let mut text = component.map(|name| format!("component {name}, ")).unwrap_or_default();
    text += &failure::sentence(&FailureRecord { message: None, ..record.clone() });
    if let Some(category) = &record.category {
        text += &format!(", category {category}");
    }
    text += &format!("; attempt {}: {}", attempt.attempt, decision(attempt).unwrap_or_default());
    if let Some(message) = record.message.as_deref().filter(|message| !message.is_empty()) {
        text += &format!("; message: {}", message.trim());
    }
    text
}

/// The action, the rule by which it was chosen, and the retries before; none where nothing was decided.
#[must_use]
pub fn decision(attempt: &Attempt) -> Option<String> {
    let mut text = attempt.action?.as_str().to_owned();
    if let Some(rule) = &attempt.rule {
        text += &format!(" by {}", decider(rule));
    }
    if let Some(retries) = attempt.retries {
        let source = attempt.rule.as_ref().map(|rule| rule.source);
        text += &format!(", {}", used_before(source, retries));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{AttemptAction, Phase, Retries, RuleRef, RuleSource};
    use crate::config::Config;
    use crate::decide::tests::given::{at, given};
    use crate::decide::{Facts, draft::Draft};

    fn failed() -> Attempt {
        Attempt {
            attempt: 1,
            failed_at: Some(Time(at(7))),
            action: Some(AttemptAction::Fail),
            rule: Some(RuleRef::plain(RuleSource::RetryLimit)),
            retries: Some(Retries { used: 1, limit: 1 }),
            failure: Some(FailureRecord {
                component: Some("train".into()),
                pod: Some("train-0".into()),
                node: Some("node-1".into()),
                container: Some("main".into()),
                exit_code: Some(137),
                reason: Some("OOMKilled".into()),
                message: Some("last words\n".into()),
                category: Some("oom".into()),
                ..FailureRecord::default()
            }),
            ..Attempt::default()
        }
    }

    /// The condition after the failures of these attempts; none where no manager cluster is told.
    fn reported(attempts: &[Attempt], has_manager: bool) -> Option<(String, String, Time)> {
        let mut world = given(Phase::Running);
        world.snapshot.has_manager = has_manager;
        let config = Config::default();
        let (snapshot, limits) = (&world.snapshot, &world.limits);
        let facts = Facts { snapshot, limits, config: &config, now: at(9), anchor: at(9) };
        let mut draft = Draft::new(facts);
        for attempt in attempts {
            draft.status.attempts = vec![attempt.clone()];
            report(&mut draft);
        }
        let found = condition::find(&draft.status.conditions, condition::LAST_FAILURE)?.clone();
        Some((found.reason, found.message, found.last_transition_time))
    }

    #[test]
    fn it_has_the_cause_and_the_decision() {
        let (reason, message, time) = reported(&[failed()], true).unwrap();
        assert_eq!(
            message,
            "component train, pod train-0 on node node-1: container main exited with code 137 \
             (OOMKilled), category oom; attempt 1: Fail by retryLimit, 1 of 1 restarts used before; \
             message: last words"
        );
        assert_eq!((reason.as_str(), time), ("Fail", Time(at(7))));
        assert_eq!(reported(&[failed()], false), None, "nobody copies it");
    }

    #[test]
    fn a_later_failure_replaces_an_earlier_one() {
        let first = Attempt {
            attempt: 0,
            failed_at: Some(Time(at(3))),
            action: Some(AttemptAction::Restart),
            ..failed()
        };
        let (reason, message, time) = reported(&[first, failed()], true).unwrap();
        assert_eq!((reason.as_str(), time), ("Fail", Time(at(7))));
        assert!(message.contains("attempt 1"), "{message}");
    }

    #[test]
    fn a_long_message_costs_neither_cause_nor_decision() {
        let mut long = failed();
        long.failure.as_mut().unwrap().message = Some("x".repeat(5000));
        let (_, message, _) = reported(&[long], true).unwrap();
        assert!(message.contains("1 of 1 restarts used before; message: x"), "{message}");
    }
}
