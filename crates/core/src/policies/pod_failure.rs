use std::collections::{BTreeMap, BTreeSet};

use super::target::Components;
use super::{Targets, index};
use crate::api::{ExitCodeOperator, PodFailurePolicyAction, PodFailurePolicyRule};
use crate::tuning::shortened;

/// A rule of `podFailurePolicy`. Source: KEP-3329.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRule {
    /// Its place, from 0.
    pub index: i32,
    /// What it does.
    pub action: PodFailurePolicyAction,
    /// The components that it is about.
    pub targets: Targets,
    /// The pods that it is about.
    pub matcher: PodMatcher,
}

/// What a pod must show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodMatcher {
    /// A container ended with such a code, which is not 0.
    ExitCodes {
        /// The container; any where there is none.
        container: Option<String>,
        /// Whether the code must be among the values or must not.
        operator: ExitCodeOperator,
        /// The codes.
        values: BTreeSet<i32>,
    },
    /// It has one of these conditions: type and status.
    Conditions(Vec<(String, String)>),
}

impl PodMatcher {
    /// Whether a code fits; 0 never does.
    #[must_use]
    pub fn takes_code(operator: ExitCodeOperator, values: &BTreeSet<i32>, code: i32) -> bool {
        code != 0
            && match operator {
                ExitCodeOperator::In => values.contains(&code),
                ExitCodeOperator::NotIn => !values.contains(&code),
            }
    }
}

/// Reads the rules; one that cannot be understood is left out.
pub(super) fn read(
    rules: &[PodFailurePolicyRule],
    unread: &BTreeMap<usize, String>,
    components: &Components<'_>,
    flaws: &mut Vec<String>,
) -> Vec<PodRule> {
    let mut read = vec![];
    for (i, rule) in rules.iter().enumerate() {
        let path = format!("spec.podFailurePolicy.rules[{i}]");
        if let Some(error) = unread.get(&i) {
            flaws.push(format!("{path}: {error}; the rule is ignored"));
            continue;
        }
        let targets = match components.resolve(&rule.target_components, true) {
            Ok(targets) => targets,
            Err(at) => {
                let name = shortened(&rule.target_components[at]);
                flaws.push(format!(
                    "{path}.targetComponents[{at}]: {name:?} must be the name of one component or of \
                     a part of one; the rule is ignored"
                ));
                continue;
            }
        };
        let matcher = match (&rule.on_exit_codes, &rule.on_pod_conditions[..]) {
            (Some(codes), []) => PodMatcher::ExitCodes {
                container: codes.container_name.clone(),
                operator: codes.operator,
                values: codes.values.iter().copied().collect(),
            },
            (None, [_, ..]) => {
                let status = |text: &Option<String>| text.clone().unwrap_or_else(|| "True".into());
                let pairs = rule.on_pod_conditions.iter();
                PodMatcher::Conditions(
                    pairs.map(|c| (c.type_.clone(), status(&c.status))).collect(),
                )
            }
            (Some(_), [_, ..]) | (None, []) => {
                flaws.push(format!(
                    "{path}: must have exactly one of onExitCodes and onPodConditions; the rule \
                     is ignored"
                ));
                continue;
            }
        };
        read.push(PodRule { index: index(i), action: rule.action, targets, matcher });
    }
    read
}
