//! What a status write settles of the ledger: seconds by state and cause. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::NONE;
use super::names::OTHER;
use crate::api::{AppWrapperStatus, Attempt, Category, UsageSeconds, UsageState};
use crate::config::FailureCategory;
use crate::decide::usage::{released, settled};
use crate::snapshot::place::Site;

/// How many resources of an AppWrapper are looked for on nodes: of one that no node has, each node is asked.
const ASKED_MAX: usize = 16;

/// Seconds of one AppWrapper that were settled, and what its pods request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spent {
    /// The queue that it names; empty where it names none.
    pub queue: String,
    /// What all its pods request together, by resource.
    pub requested: BTreeMap<String, f64>,
    /// The resources of these that exist.
    pub real: BTreeSet<String>,
    /// State, cause, and seconds.
    pub parts: Vec<(UsageState, String, i64)>,
}

/// An AppWrapper whose status is written, as far as its ledger goes.
#[derive(Clone, Copy, Debug)]
pub struct UsageChange<'a> {
    /// The status before.
    pub old: &'a AppWrapperStatus,
    /// The status after; none where the AppWrapper is removed.
    pub new: Option<&'a AppWrapperStatus>,
    /// When it was created: it held no quota before.
    pub created: Option<Timestamp>,
    /// The failure categories of the configuration.
    pub categories: &'a [FailureCategory],
}

impl UsageChange<'_> {
    /// The seconds that the write settles, by state and cause; empty for most writes.
    #[must_use]
    pub fn parts(&self, now: Timestamp) -> Vec<(UsageState, String, i64)> {
        let of = |status: &AppWrapperStatus| status.usage.as_ref().map(settled);
        let before = of(self.old).unwrap_or_default();
        let after = match self.new {
            Some(new) => of(new),
            None => self.old.usage.as_ref().map(|usage| settled(&released(usage, now))),
        };
        let Some(after) = after else { return vec![] };
        // whatever somebody wrote into the status
        let lived = self.created.map(|created| now.as_second().saturating_sub(created.as_second()));
        let most = lived.unwrap_or(i64::MAX).max(0);
        let grown = |state: UsageState| {
            let more = after.of(state).saturating_sub(before.of(state)).min(most);
            (more > 0).then(|| (state, self.cause(state), more))
        };
        UsageState::ALL.into_iter().filter_map(grown).collect()
    }

    /// The resources that exist, of those that are requested: a node has them. Where the nodes are not known, those
    /// of an AppWrapper whose pods were all scheduled once.
    #[must_use]
    pub fn real(&self, requested: &BTreeMap<String, f64>, nodes: &[Arc<Site>]) -> BTreeSet<String> {
        let is_real = |resource: &&String| {
            if nodes.is_empty() {
                return self.was_scheduled();
            }
            nodes.iter().any(|node| node.allocatable.contains_key(*resource))
        };
        requested.keys().take(ASKED_MAX).filter(is_real).cloned().collect()
    }

    fn was_scheduled(&self) -> bool {
        let usage = self.new.unwrap_or(self.old).usage.as_ref();
        usage.is_some_and(|usage| {
            let UsageSeconds { starting, productive, lost, .. } = usage.seconds;
            let is_open =
                matches!(usage.state, Some(UsageState::Starting | UsageState::Productive));
            is_open || starting > 0 || productive > 0 || lost > 0
        })
    }

    /// The failure category that time in a state is due to; empty where no failure caused it.
    ///
    /// The interval that is closed is one of the attempt that was the last before. Its teardown and its pause are due
    /// to a failure only if that ended it; idle time also if a component of it was recreated before.
    fn cause(&self, state: UsageState) -> String {
        let Some(last) = self.old.attempts.last() else { return String::new() };
        let after = self.new.map_or(self.old.attempts.as_slice(), |new| &new.attempts);
        let same =
            |one: &&Attempt| one.attempt == last.attempt && one.started_at == last.started_at;
        let last = after.iter().rfind(same).unwrap_or(last);
        let failed = |one: &&Attempt| one.attempt == last.attempt && one.action.is_some();
        let caused_by = match state {
            UsageState::Waiting | UsageState::Starting | UsageState::Productive => None,
            UsageState::Teardown | UsageState::Pause => Some(last).filter(failed),
            UsageState::Lost | UsageState::Idle => after.iter().rfind(failed),
        };
        caused_by.map(|attempt| self.label(attempt).to_owned()).unwrap_or_default()
    }

    /// The category of a failure, if that is one that the controller gives.
    fn label<'a>(&self, attempt: &'a Attempt) -> &'a str {
        let failure = attempt.failure.as_ref();
        let Some(name) = failure.and_then(|failure| failure.category.as_deref()) else {
            return NONE;
        };
        let is_known = Category::ALL.iter().any(|one| one.as_str() == name)
            || self.categories.iter().any(|one| one.name == name);
        if is_known { name } else { OTHER }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn status(attempts: &Value, usage: &Value) -> AppWrapperStatus {
        serde_json::from_value(json!({"attempts": attempts, "usage": usage})).unwrap()
    }

    fn parts(old: &AppWrapperStatus, new: Option<&AppWrapperStatus>) -> String {
        let change = UsageChange { old, new, created: Some(at(-1000)), categories: &[] };
        let parts = change.parts(at(100));
        let texts =
            parts.iter().map(|(state, cause, more)| format!("{}/{cause} {more}", state.as_str()));
        texts.collect::<Vec<_>>().join(", ")
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table of cases")]
    fn what_a_write_settles_is_counted_with_its_cause() {
        let running = json!([{"attempt": 0}]);
        let failed = |category: &Value| json!([{"attempt": 0, "action": "Restart", "failure": {"category": category}}]);
        let next = json!([
            {"attempt": 0, "action": "Restart", "failure": {"category": "node"}}, {"attempt": 1},
        ]);
        let recreated = json!([
            {"attempt": 0, "action": "RecreateComponent", "failure": {"category": "oom"}},
            {"attempt": 0, "startedAt": at(50)},
        ]);
        let suspended = json!([
            {"attempt": 0, "action": "RecreateComponent", "failure": {"category": "oom"}},
            {"attempt": 0, "startedAt": at(50), "outcome": "Suspended"},
        ]);
        let ready = json!({"state": "productive", "seconds": {"waiting": 5}});
        let short = json!({"state": "idle", "attemptProductiveSeconds": 40,
            "seconds": {"waiting": 5, "productive": 40}});
        let lost = json!({"state": "teardown", "seconds": {"waiting": 5, "lost": 40, "idle": 9}});
        let gone = json!({"state": "pause", "seconds": {"lost": 40, "teardown": 20}});
        let kept = json!({"state": null, "seconds": {"waiting": 5, "productive": 40}});
        for (name, old, new, want) in [
            (
                "ready",
                (&running, json!({"state": "waiting"})),
                Some((&running, &ready)),
                "waiting/ 5",
            ),
            ("not settled", (&running, ready.clone()), Some((&running, &short)), ""),
            ("success", (&running, short.clone()), Some((&running, &kept)), "productive/ 40"),
            (
                "failure",
                (&running, short.clone()),
                Some((&failed(&json!("oom")), &lost)),
                "lost/oom 40, idle/oom 9",
            ),
            (
                "forged",
                (&running, short.clone()),
                Some((&failed(&json!("x")), &lost)),
                "lost/other 40, idle/other 9",
            ),
            (
                "no category",
                (&running, short.clone()),
                Some((&failed(&Value::Null), &lost)),
                "lost/none 40, idle/none 9",
            ),
            (
                "gone",
                (&failed(&json!("oom")), json!({"state": "teardown", "seconds": {"lost": 40}})),
                Some((&failed(&json!("oom")), &gone)),
                "teardown/oom 20",
            ),
            (
                "next attempt",
                (&failed(&json!("node")), gone.clone()),
                Some((&next, &json!({"seconds": {"lost": 40, "teardown": 20, "pause": 9}}))),
                "pause/node 9",
            ),
            (
                "recreated",
                (&recreated, json!({"state": "idle"})),
                Some((&recreated, &json!({"seconds": {"idle": 9}}))),
                "idle/oom 9",
            ),
            (
                "suspended later",
                (&suspended, json!({"state": "teardown"})),
                Some((&suspended, &json!({"seconds": {"teardown": 9}}))),
                "teardown/ 9",
            ),
            (
                "removed",
                (&running, json!({"state": "teardown", "since": at(70)})),
                None,
                "teardown/ 30",
            ),
            (
                "forged time",
                (&running, json!({"state": "teardown", "since": at(-900_000)})),
                None,
                "teardown/ 1100",
            ),
            ("unchanged", (&running, lost.clone()), Some((&running, &lost)), ""),
        ] {
            let old = status(old.0, &old.1);
            let new = new.map(|(attempts, usage)| status(attempts, usage));
            assert_eq!(parts(&old, new.as_ref()), want, "{name}");
        }
        assert_eq!(parts(&AppWrapperStatus::default(), Some(&AppWrapperStatus::default())), "");
    }

    #[test]
    fn resources_that_exist_are_those_of_nodes() {
        let node = |resource: &str| {
            let allocatable =
                [("cpu", 4.0), (resource, 8.0)].map(|(name, most)| (name.into(), most));
            Arc::new(Site { allocatable: allocatable.into(), ..Site::default() })
        };
        let nodes = [node("nvidia.com/gpu"), node("x/y")];
        let requested: BTreeMap<String, f64> =
            ["cpu", "nvidia.com/gpu", "x/invented"].map(|name| (name.into(), 1.0)).into();
        let running = json!({"state": "productive"});
        for (usage, nodes, want) in [
            (&running, nodes.as_slice(), vec!["cpu", "nvidia.com/gpu"]),
            (&json!({"state": "waiting"}), nodes.as_slice(), vec!["cpu", "nvidia.com/gpu"]),
            (&running, &[], vec!["cpu", "nvidia.com/gpu", "x/invented"]),
            (&json!({"state": "waiting"}), &[], vec![]),
        ] {
            let old = status(&json!([]), usage);
            let change = UsageChange { old: &old, new: None, created: None, categories: &[] };
            let real = change.real(&requested, nodes);
            assert_eq!(real.iter().collect::<Vec<_>>(), want, "{usage}");
        }
    }

    #[test]
    fn categories_of_the_configuration_are_causes() {
        let config = crate::config::Config::parse(
            "failureCategories: [{name: cuda, onTerminationMessage: {pattern: CUDA}}]",
        );
        let old = status(&json!([{"attempt": 0}]), &json!({}));
        let new = status(
            &json!([{"attempt": 0, "action": "Fail", "failure": {"category": "cuda"}}]),
            &json!({"seconds": {"lost": 1}}),
        );
        let categories = &config.unwrap().failure_categories;
        let change = UsageChange { old: &old, new: Some(&new), created: None, categories };
        assert_eq!(change.parts(at(0)), [(UsageState::Lost, "cuda".to_owned(), 1)]);
    }
}
