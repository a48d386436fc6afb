//! What a newer version wrote: a rule, or a field of a policy, that cannot be read is left out, and what is left
//! holds.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::RetryPolicy;
use crate::api::{
    self, ExecutionPolicy, ExecutionRule, FailurePolicyRule, OnNoFit, PodFailurePolicyRule,
    Progress, Refill, RetryAction, RetryPolicySpec, RetryRule, StopWhen,
};
use crate::config::Backoff;
use crate::tuning::shortened;

/// The most unknown fields of a policy that are named.
const UNKNOWN_MAX: usize = 10;
/// The most bytes of a reason.
const REASON_BYTES_MAX: usize = 300;

/// Rules of an AppWrapper that cannot be read, by their place, and why; and other fields of its policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    pub(super) failure: BTreeMap<usize, String>,
    pub(super) pod_failure: BTreeMap<usize, String>,
    pub(super) execution: BTreeMap<usize, String>,
    /// The other fields that cannot be read, why, and what holds instead.
    pub(super) ignored: Vec<String>,
}

impl Unread {
    /// Finds the rules of `failurePolicy`, `podFailurePolicy` and `executionPolicy` in a `spec` that cannot be read.
    /// Rules that can be read stand in their places; whoever reads the policies leaves them out, but for the steps, whose
    /// components keep their order. Other fields of policies that cannot be read are taken out, but for `maxRestarts`, which is
    /// then 0: it never makes the AppWrapper restart more often.
    #[must_use]
    pub fn take(spec: &mut Value) -> Self {
        let failure = |_: &Value| json!({"action": "FailAppWrapper"});
        let pod_failure = |_: &Value| json!({"action": "Count"});
        let execution = |rule: &Value| {
            let names = rule["targetComponents"].as_array().into_iter().flatten();
            let names: Vec<&Value> = names.filter(|name| name.is_string()).collect();
            json!({"targetComponents": names, "waitForComponentsStatus": "Ready"})
        };
        let pod_rules = "/podFailurePolicy/rules";
        Self {
            failure: replaced::<FailurePolicyRule>(spec, "/failurePolicy/rules", failure),
            pod_failure: replaced::<PodFailurePolicyRule>(spec, pod_rules, pod_failure),
            execution: replaced::<ExecutionRule>(spec, "/executionPolicy/rules", execution),
            ignored: ignored(spec),
        }
    }

    /// Whether everything can be read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { failure, pod_failure, execution, ignored } = self;
        [failure, pod_failure, execution].into_iter().all(BTreeMap::is_empty) && ignored.is_empty()
    }
}

/// Takes out or replaces the fields of policies that cannot be read, once their rules can be.
fn ignored(spec: &mut Value) -> Vec<String> {
    let flaws = [
        removed::<OnNoFit>(spec, "/onNoFit"),
        removed::<Progress>(spec, "/progress"),
        instead::<i32>(spec, "/failurePolicy/maxRestarts", json!(0), "0 applies"),
        removed::<Refill>(spec, "/failurePolicy/refill"),
        removed::<StopWhen>(spec, "/failurePolicy/stopWhen"),
        removed::<ExecutionPolicy>(spec, "/executionPolicy"),
    ];
    flaws.into_iter().flatten().collect()
}

/// Takes out an optional field of `spec` that cannot be read, and says why.
fn removed<T: DeserializeOwned>(spec: &mut Value, pointer: &str) -> Option<String> {
    instead::<T>(spec, pointer, Value::Null, "it is ignored")
}

/// Puts another value in the place of an optional field of `spec` that cannot be read, and says why and what holds.
fn instead<T: DeserializeOwned>(
    spec: &mut Value,
    pointer: &str,
    other: Value,
    holds: &str,
) -> Option<String> {
    let value = spec.pointer_mut(pointer).filter(|value| !value.is_null())?;
    let error = from::<T>(value.clone()).err()?;
    *value = other;
    Some(format!("spec{}: {error}; {holds}", pointer.replace('/', ".")))
}

/// Puts others in the places of rules that cannot be read, and says why.
fn replaced<T: DeserializeOwned>(
    spec: &mut Value,
    pointer: &str,
    other: impl Fn(&Value) -> Value,
) -> BTreeMap<usize, String> {
    let mut unread = BTreeMap::new();
    let rules = spec.pointer_mut(pointer).and_then(Value::as_array_mut);
    for (i, rule) in rules.into_iter().flatten().enumerate() {
        match from::<T>(rule.clone()) {
            Ok(_) => {}
            Err(error) => {
                *rule = other(rule);
                unread.insert(i, error);
            }
        }
    }
    unread
}

fn from<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| {
        let mut text = error.to_string();
        text.truncate(text.floor_char_boundary(REASON_BYTES_MAX));
        text
    })
}

impl RetryPolicy {
    /// Reads the `spec` of a `RetryPolicy` as it is stored. A rule that cannot be read is left out. A field of the
    /// policy itself that cannot be read never makes it more generous: `defaultAction` is then `Fail`, and
    /// `retryLimit` 0. [`flaws`](Self::flaws) names all of them.
    #[must_use]
    pub fn of_stored(name: &str, spec: Map<String, Value>) -> Self {
        let mut stored = Stored::default();
        let (mut flaws, mut unknown) = (vec![], 0);
        for (field, value) in spec.into_iter().filter(|(_, value)| !value.is_null()) {
            let Err(Flaw { error, instead }) = stored.set(&field, value) else { continue };
            unknown += usize::from(error == UNKNOWN);
            if unknown <= UNKNOWN_MAX {
                let field = shortened(&field);
                flaws.push(format!("RetryPolicy {name}: spec.{field}: {error}; {instead}"));
            }
        }
        let Stored { mut spec, backoff, rules } = stored;
        let rules = rules.unwrap_or_else(|| {
            spec.default_action = Some(RetryAction::Fail);
            vec![]
        });
        let mut policy = Self::of(name, &spec, backoff, rules.into_iter().map(from::<RetryRule>));
        policy.flaws.splice(0..0, flaws);
        policy
    }
}

/// What was read of a `RetryPolicy`.
#[derive(Debug)]
struct Stored {
    /// Its fields but `backoff` and `rules`.
    spec: RetryPolicySpec,
    backoff: Option<Backoff>,
    /// Its rules, unread; none where they are no list.
    rules: Option<Vec<Value>>,
}

impl Default for Stored {
    fn default() -> Self {
        Self { spec: RetryPolicySpec::default(), backoff: None, rules: Some(vec![]) }
    }
}

/// Why a field cannot be read, and what holds instead.
struct Flaw {
    error: String,
    instead: &'static str,
}

const UNKNOWN: &str = "unknown field";

impl Stored {
    fn set(&mut self, field: &str, value: Value) -> Result<(), Flaw> {
        let (read, instead) = match field {
            "retryLimit" => {
                self.spec.retry_limit = Some(0);
                (from(value).map(|limit| self.spec.retry_limit = Some(limit)), "0 applies")
            }
            "defaultAction" => {
                (from(value).map(|action| self.spec.default_action = Some(action)), "Fail applies")
            }
            "override" => {
                (from(value).map(|overrides| self.spec.overrides = overrides), "false applies")
            }
            "backoff" => {
                let raw = from::<api::Backoff>(value);
                let read = raw.and_then(|raw| read_backoff(Some(&raw), "backoff"));
                (read.map(|backoff| self.backoff = backoff), "it is ignored")
            }
            "antiAffinity" => {
                (from(value).map(|mode| self.spec.anti_affinity = Some(mode)), "it is ignored")
            }
            "refill" => {
                (from(value).map(|refill| self.spec.refill = Some(refill)), "it is ignored")
            }
            "stopWhen" => {
                (from(value).map(|stop| self.spec.stop_when = Some(stop)), "it is ignored")
            }
            "rules" => {
                self.rules = None;
                let read = from(value).map(|rules| self.rules = Some(rules));
                (read, "no rule and defaultAction Fail apply")
            }
            _ => (Err(UNKNOWN.to_owned()), "it is ignored"),
        };
        read.map_err(|error| Flaw { error, instead })
    }
}

/// Reads a delay.
pub(super) fn read_backoff(
    raw: Option<&api::Backoff>,
    path: &str,
) -> Result<Option<Backoff>, String> {
    let read = raw.map(Backoff::try_from).transpose();
    read.map_err(|error| format!("{path}.{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(spec: Value) -> RetryPolicy {
        let Value::Object(spec) = spec else { panic!("an object: {spec}") };
        RetryPolicy::of_stored("p", spec)
    }

    #[test]
    fn a_rule_that_cannot_be_read_is_left_out_alone() {
        let good = json!({"action": "Fail", "onConditions": ["NodeLost"]});
        for (rule, why) in [
            (json!({"action": "Escalate", "onConditions": ["Evicted"]}), "`Escalate`"),
            (json!({"action": "Retry", "onConditions": ["Melted"]}), "must be one of OOMKilled"),
            (
                json!({"action": "Retry", "onConditions": ["Evicted"], "onPhase": "Failed"}),
                "unknown field `onPhase`",
            ),
            (
                json!({"action": "Retry", "onExitCodes": {"operator": "In", "values": [1], "of": 1}}),
                "unknown field `of`",
            ),
            (
                json!({"action": "Retry", "onExitCodes": {"operator": "Above", "values": [1]}}),
                "`Above`",
            ),
            (json!({"action": "Retry", "onTerminationMessage": {"pattern": "("}}), "unclosed"),
            (
                json!({"action": "Retry", "onConditions": ["Evicted"], "antiAffinity": {"mode": "zone"}}),
                "`zone`",
            ),
            (
                json!({"action": "Retry", "onConditions": ["Evicted"], "mutate": {"cpu": 2}}),
                "unknown field `cpu`",
            ),
            (json!(7), "invalid type"),
        ] {
            let policy = read(json!({"defaultAction": "Retry", "rules": [rule, good]}));
            let indexes: Vec<i32> = policy.rules.iter().map(|rule| rule.index).collect();
            assert_eq!(indexes, [1], "{why}");
            assert_eq!(policy.flaws.len(), 1, "{why}: {:?}", policy.flaws);
            let flaw = &policy.flaws[0];
            assert!(
                flaw.starts_with("RetryPolicy p: spec.rules[0]") && flaw.contains(why),
                "{flaw}"
            );
            assert!(flaw.ends_with("; the rule is ignored"), "{flaw}");
            assert_eq!(policy.default_action, RetryAction::Retry, "{why}");
        }
    }

    #[test]
    fn a_rule_that_would_share_the_count_of_another_is_left_out() {
        let rule = |name: Option<&str>, action: &str| {
            let conditions = ["Evicted"];
            json!({"name": name, "action": action, "onConditions": conditions})
        };
        let shared =
            "RetryPolicy p: spec.rules[1].name: \"rule1\" must be unique; the rule is ignored";
        for (first, second, flaws) in [
            (rule(Some("rule1"), "Retry"), rule(None, "Retry"), vec![shared]),
            (rule(None, "Retry"), rule(None, "Retry"), vec![]),
            // a rule that fails the AppWrapper has no count
            (rule(Some("rule1"), "Fail"), rule(None, "Retry"), vec![]),
            (rule(Some("rule1"), "Retry"), rule(None, "Fail"), vec![]),
        ] {
            let policy = read(json!({"rules": [first, second]}));
            assert_eq!(policy.flaws, flaws, "{first} {second}");
            assert_eq!(policy.rules.len(), 2 - flaws.len(), "{first} {second}");
        }
    }

    #[test]
    fn a_field_that_cannot_be_read_makes_a_policy_no_more_generous() {
        let rule = json!({"action": "Retry", "onConditions": ["Evicted"]});
        let all = json!({
            "retryLimit": 5, "defaultAction": "Retry", "override": true,
            "backoff": {"initialDelay": "10s"}, "antiAffinity": {"mode": "node"}, "rules": [rule],
        });
        let whole = read(all.clone());
        assert_eq!(whole.flaws, Vec::<String>::new());
        for (field, value, want) in [
            ("retryLimit", json!("many"), RetryPolicy { retry_limit: Some(0), ..whole.clone() }),
            (
                "defaultAction",
                json!("Escalate"),
                RetryPolicy { default_action: RetryAction::Fail, ..whole.clone() },
            ),
            ("override", json!("always"), RetryPolicy { overrides: false, ..whole.clone() }),
            (
                "backoff",
                json!({"initialDelay": "1s", "jitter": 1}),
                RetryPolicy { backoff: None, ..whole.clone() },
            ),
            (
                "backoff",
                json!({"initialDelay": "soon"}),
                RetryPolicy { backoff: None, ..whole.clone() },
            ),
            (
                "antiAffinity",
                json!({"mode": "zone"}),
                RetryPolicy { avoid_node: false, ..whole.clone() },
            ),
            (
                "rules",
                json!("all"),
                RetryPolicy { rules: vec![], default_action: RetryAction::Fail, ..whole.clone() },
            ),
            ("jitter", json!(1), whole.clone()),
        ] {
            let mut spec = all.clone();
            spec[field] = value;
            let found = read(spec);
            let start = format!("RetryPolicy p: spec.{field}: ");
            assert!(
                found.flaws.len() == 1 && found.flaws[0].starts_with(&start),
                "{:?}",
                found.flaws
            );
            assert_eq!(RetryPolicy { flaws: vec![], ..found }, want, "{field}");
        }
        assert_eq!(read(json!({"retryLimit": null, "rules": null})), read(json!({})));
        let many: Map<String, Value> = (0..100).map(|i| (format!("f{i}"), json!(i))).collect();
        assert_eq!(RetryPolicy::of_stored("p", many).flaws.len(), UNKNOWN_MAX);
    }
}
