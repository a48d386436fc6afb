//! RetryPolicy objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::finding::Findings;
use super::{Finding, budget, exit_codes, object, schema, size};
use crate::api::{Backoff as RawBackoff, Category, RetryAction, RetryRule};
use crate::config::{Backoff, BackoffError, CONDITIONS, Config};
use crate::pattern::Pattern;
use crate::quantity::Bytes;
use crate::tuning::names;

const API_VERSION: &str = "workload.codeflare.dev/v1alpha1";

/// The most rules, as the schema says it.
const RULES_MAX: usize = 100;

/// The most that memory may grow from one attempt to the next.
const FACTOR_MAX: f64 = 100.0;

/// Everything that is wrong with a RetryPolicy.
#[must_use]
pub fn retry_policy(policy: &Value, config: &Config) -> Vec<Finding> {
    let mut report = Findings::default();
    if object::is_shallow(policy, &mut report)
        && size::is_affordable(policy, &mut report)
        && object::is_a(policy, API_VERSION, "RetryPolicy", &mut report)
    {
        if let Some(metadata) = object::metadata(policy, &mut report) {
            own_name(metadata, &mut report);
        }
        spec(policy, config, &mut report);
    }
    report.into_findings()
}

/// A name, or a `generateName` that makes one.
fn own_name(metadata: &Value, report: &mut Findings) {
    let given = |field: &str| metadata[field].as_str().unwrap_or_default();
    let (name, prefix) = (given("name"), given("generateName"));
    let is_generated = name.is_empty() && !prefix.is_empty();
    if is_generated && !names::is_subdomain(&format!("{prefix}{}", object::GENERATED)) {
        report.invalid("metadata.generateName", prefix, names::SUBDOMAIN);
    }
    if !is_generated && !names::is_subdomain(name) {
        report.invalid("metadata.name", name, names::SUBDOMAIN);
    }
}

fn spec(policy: &Value, config: &Config, report: &mut Findings) {
    let Some(spec) = policy.get("spec") else {
        return report.wrong("spec", "must be given");
    };
    let spec = schema::check_spec(&schema::RETRY_POLICY, spec, report);
    if !spec.is_object() {
        return;
    }
    if let Ok(raw) = serde_json::from_value(spec["backoff"].clone()) {
        backoff(&raw, "spec.backoff", report);
    }
    budget::check(&spec, "spec", report);
    limit(&spec["retryLimit"], "spec.retryLimit", config, report);
    let mut seen = BTreeMap::new();
    let categories = categories(config);
    let rules = rules(&spec["rules"]);
    for Read { i, rule, given, .. } in &rules {
        check(rule, given, *i, &mut seen, report);
        limit(&given["retryLimit"], &format!("spec.rules[{i}].retryLimit"), config, report);
        for (j, category) in rule.on_failure_category.iter().enumerate() {
            let field = format!("spec.rules[{i}].onFailureCategory[{j}]");
            if !categories.contains(category.as_str()) && !report.has_error(&field) {
                let message =
                    "never matches: neither built in nor in failureCategories of the configuration";
                report.doubtful(field, Some(category), message);
            }
        }
    }
    let fails = |read: &Read<'_>| read.rule.action == RetryAction::Fail;
    let all_read = rules.len() == spec["rules"].as_array().map_or(0, Vec::len)
        && rules.iter().all(|read| read.is_whole);
    if spec["override"] == Value::Bool(true) && all_read && !rules.iter().any(fails) {
        let message = "has no effect: no rule has action Fail";
        report.doubtful("spec.override", Some("true"), message);
    }
}

/// A limit that the global one makes useless.
fn limit(given: &Value, field: &str, config: &Config, report: &mut Findings) {
    let global = config.retry_policy.global_max_retries;
    let limit = given.as_i64().filter(|limit| *limit > i64::from(global));
    if let Some(limit) = limit.filter(|_| !report.has_error(field)) {
        let message = format!("the configuration allows at most {global} restarts");
        report.doubtful(field, Some(&limit.to_string()), message);
    }
}

/// A rule, and the object that it was read from.
struct Read<'a> {
    i: usize,
    rule: RetryRule,
    given: &'a Value,
    /// All of its fields were read.
    is_whole: bool,
}

/// The rules, each with the fields of it that decode: the schema has reported the others, and they must not hide
/// what is wrong with these.
fn rules<'a>(list: &'a Value) -> Vec<Read<'a>> {
    let items = list.as_array().into_iter().flatten().take(RULES_MAX).enumerate();
    let read = |(i, given): (usize, &'a Value)| {
        let whole = serde_json::from_value(given.clone()).ok();
        let is_whole = whole.is_some();
        let rule = match whole {
            Some(rule) => rule,
            None => partly(given.as_object()?)?,
        };
        Some(Read { i, rule, given, is_whole })
    };
    items.filter_map(read).collect()
}

/// A rule of the fields that decode alone; a rule without an action retries.
fn partly(fields: &Map<String, Value>) -> Option<RetryRule> {
    let mut kept = Map::from_iter([("action".to_owned(), json!(RetryAction::Retry))]);
    for (name, value) in fields {
        let before = kept.insert(name.clone(), value.clone());
        if serde_json::from_value::<RetryRule>(kept.clone().into()).is_err() {
            match before {
                Some(before) => _ = kept.insert(name.clone(), before),
                None => _ = kept.remove(name),
            }
        }
    }
    serde_json::from_value(kept.into()).ok()
}

/// The categories that a failure can have.
fn categories(config: &Config) -> BTreeSet<&str> {
    let configured = config.failure_categories.iter().map(|each| each.name.as_str());
    Category::ALL.iter().map(|each| each.as_str()).chain(configured).collect()
}

fn check(
    rule: &RetryRule,
    given: &Value,
    i: usize,
    seen: &mut BTreeMap<String, usize>,
    report: &mut Findings,
) {
    let path = format!("spec.rules[{i}]");
    name(rule.name.as_deref(), i, seen, report);
    matcher(rule, given, &path, report);
    if let Some(container) = rule.container_name.as_deref()
        && !names::is_label(container)
    {
        report.invalid(format!("{path}.containerName"), container, names::LABEL);
    }
    if let Some(raw) = &rule.backoff {
        backoff(raw, &format!("{path}.backoff"), report);
    }
    mutate(rule, &path, report);
    if rule.action == RetryAction::Fail {
        for (field, given) in [
            ("retryLimit", rule.retry_limit.is_some()),
            ("backoff", rule.backoff.is_some()),
            ("antiAffinity", rule.anti_affinity.is_some()),
        ] {
            if given {
                report.doubtful(format!("{path}.{field}"), None, "has no effect with action Fail");
            }
        }
    }
}

fn name(given: Option<&str>, i: usize, seen: &mut BTreeMap<String, usize>, report: &mut Findings) {
    let field = format!("spec.rules[{i}].name");
    if let Some(name) = given
        && !names::is_label(name)
    {
        return report.invalid(field, name, names::LABEL);
    }
    let name = given.map_or_else(|| format!("rule{i}"), str::to_owned);
    if let Some(first) = seen.get(&name) {
        let message = format!("must be unique: spec.rules[{first}] also has it");
        return report.invalid(field, name, message);
    }
    seen.insert(name, i);
}

fn matcher(rule: &RetryRule, given: &Value, path: &str, report: &mut Findings) {
    let matchers = ["onConditions", "onExitCodes", "onTerminationMessage", "onFailureCategory"];
    let is_given = |name: &&&str| match &given[**name] {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => true,
    };
    let given: Vec<&str> = matchers.iter().filter(is_given).copied().collect();
    let all = matchers.join(", ");
    match given.len() {
        0 => report.wrong(path, format!("must have exactly one of {all}")),
        1 => {}
        _ => report.invalid(path, given.join(", "), format!("must have exactly one of {all}")),
    }
    for (i, condition) in rule.on_conditions.iter().enumerate() {
        if !CONDITIONS.contains(&condition.as_str()) {
            let message = format!("must be one of {}", CONDITIONS.join(", "));
            report.invalid(format!("{path}.onConditions[{i}]"), condition, message);
        }
    }
    if let Some(codes) = &rule.on_exit_codes {
        exit_codes::check(codes.operator, &codes.values, &format!("{path}.onExitCodes"), report);
    }
    if let Some(message) = &rule.on_termination_message
        && let Err(error) = Pattern::new(&message.pattern)
    {
        let field = format!("{path}.onTerminationMessage.pattern");
        report.invalid(field, &message.pattern, error.to_string());
    }
    for (i, category) in rule.on_failure_category.iter().enumerate() {
        // the names of categories may have underscores, such as cuda_error
        if !names::is_label(&category.replace('_', "-")) {
            let message = "must be the name of a failure category, such as oom or node";
            report.invalid(format!("{path}.onFailureCategory[{i}]"), category, message);
        }
    }
}

fn backoff(raw: &RawBackoff, path: &str, report: &mut Findings) {
    match Backoff::try_from(raw) {
        Ok(_) => {}
        Err(BackoffError::InitialDelay(error)) => {
            report.invalid(format!("{path}.initialDelay"), &raw.initial_delay, error.expected());
        }
        Err(BackoffError::MaxDelay(error)) => {
            let given = raw.max_delay.as_deref().unwrap_or_default();
            report.invalid(format!("{path}.maxDelay"), given, error.expected());
        }
        Err(BackoffError::Multiplier(given)) => {
            let message = "must be a number of 1 or more";
            report.invalid(format!("{path}.multiplier"), given.to_string(), message);
        }
        Err(BackoffError::Order(_, maximum)) => {
            let message = format!("must be at most maxDelay ({maximum})");
            report.invalid(format!("{path}.initialDelay"), &raw.initial_delay, message);
        }
    }
}

fn mutate(rule: &RetryRule, path: &str, report: &mut Findings) {
    let Some(mutation) = &rule.mutate else { return };
    let path = format!("{path}.mutate");
    if rule.action != RetryAction::Retry {
        report.wrong(&path, "must be left out: it needs action Retry");
    }
    let Some(memory) = &mutation.memory else {
        return report.wrong(format!("{path}.memory"), "must be given");
    };
    // written so that what is no number fails too
    if !(memory.factor > 1.0 && memory.factor <= FACTOR_MAX) {
        let message = format!("must be above 1 and at most {FACTOR_MAX}");
        report.invalid(format!("{path}.memory.factor"), memory.factor.to_string(), message);
    }
    if let Some(max) = memory.max.as_deref()
        && let Err(error) = Bytes::at_least_one(max)
    {
        report.invalid(format!("{path}.memory.max"), max, error.to_string());
    }
}
