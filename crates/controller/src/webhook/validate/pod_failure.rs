//! `spec.podFailurePolicy` (KEP-3329).

use std::collections::BTreeSet;

use serde_json::Value;

use super::finding::Findings;
use super::target::{Aimed, Parts, Targets};
use super::{RULES_MAX, exit_codes, items, unused};
use crate::api::{OnExitCodes, OnPodCondition, PodFailurePolicyRule};
use crate::tuning::names;

/// Types that pods have by themselves or from Kubernetes.
const CONDITIONS: [&str; 7] = [
    "DisruptionTarget",
    "PodScheduled",
    "Ready",
    "Initialized",
    "ContainersReady",
    "PodReadyToStartContainers",
    "ConfigIssue",
];

pub(super) fn check(policy: &Value, targets: &Targets<'_>, report: &mut Findings) {
    let rules: Vec<(usize, PodFailurePolicyRule)> = items(&policy["rules"], RULES_MAX);
    for (i, rule) in &rules {
        let path = format!("spec.podFailurePolicy.rules[{i}]");
        let listed = format!("{path}.targetComponents");
        targets.check(&rule.target_components, &listed, Parts::Allowed, report);
        match (&rule.on_exit_codes, &rule.on_pod_conditions[..]) {
            (Some(_), [_, ..]) => report.invalid(
                &path,
                "onExitCodes, onPodConditions",
                "must have exactly one of onExitCodes and onPodConditions",
            ),
            (None, []) => {
                report.wrong(&path, "must have exactly one of onExitCodes and onPodConditions");
            }
            _ => {}
        }
        if let Some(codes) = &rule.on_exit_codes {
            let path = format!("{path}.onExitCodes");
            exit_codes::check(codes.operator, &codes.values, &path, report);
            let aimed = targets.filtered(&rule.target_components);
            container(codes, &aimed, &path, report);
            unused::exit_codes(&path, &aimed, report);
        }
        for (j, condition) in rule.on_pod_conditions.iter().enumerate() {
            pod_condition(condition, &format!("{path}.onPodConditions[{j}]"), report);
        }
    }
}

/// The container must be one of the pods' own; only where an operator or a webhook of a kind adds
/// containers, it may be another.
fn container(codes: &OnExitCodes, aimed: &[Aimed<'_>], path: &str, report: &mut Findings) {
    let Some(name) = codes.container_name.as_deref() else { return };
    let field = format!("{path}.containerName");
    if !names::is_label(name) {
        return report.invalid(field, name, names::LABEL);
    }
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for pod in aimed.iter().flat_map(|each| each.pods()) {
        known.extend(pod.containers.iter().map(String::as_str));
    }
    // while something is wrong with the pods, their containers are unknown
    let incomplete = aimed.iter().any(|each| each.component.pod_sets.is_none());
    if known.contains(name) || incomplete || aimed.is_empty() {
        return;
    }
    let listed: Vec<&str> = known.iter().copied().take(10).collect();
    let message = format!("must be a container of the pods: one of {}", listed.join(", "));
    if aimed.iter().any(|each| each.component.known.adds_containers) {
        report.doubtful(field, Some(name), message);
    } else {
        report.invalid(field, name, message);
    }
}

fn pod_condition(condition: &OnPodCondition, path: &str, report: &mut Findings) {
    let OnPodCondition { type_, status } = condition;
    let name = type_.rsplit_once('/').map_or(type_.as_str(), |(_, name)| name);
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || type_.len() > 316 || !name.bytes().all(inner) {
        let message = "must be a pod condition type, such as DisruptionTarget";
        report.invalid(format!("{path}.type"), type_, message);
    } else if let Some(meant) = report.meant(type_, &CONDITIONS)
        && meant != type_
    {
        let message = format!("did you mean {meant}?");
        report.doubtful(format!("{path}.type"), Some(type_), message);
    }
    if let Some(status) = status
        && !["True", "False", "Unknown"].contains(&status.as_str())
    {
        report.invalid(format!("{path}.status"), status, "must be True, False or Unknown");
    }
}
