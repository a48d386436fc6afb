use super::Unread;
use super::target::Components;
use crate::api::{ExecutionOrder, ExecutionPolicy, WaitFor};
use crate::tuning::shortened;

/// In which order components are created. Source: KEP-672.
///
/// Without an order there is one step, 0, of every component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// The step of each component, by index; empty where there is no order.
    of: Vec<usize>,
    /// What the components of each step but the last must reach.
    waits: Vec<WaitFor>,
}

/// What cannot be read of the rules of an execution policy, and what applies instead.
pub(super) fn flaws(unread: &Unread) -> impl Iterator<Item = String> {
    let of_rule = |(i, error): (&usize, &String)| {
        format!(
            "spec.executionPolicy.rules[{i}]: {error}; its components keep their place, and are \
             waited for until Ready"
        )
    };
    unread.execution.iter().map(of_rule)
}

impl Steps {
    /// Reads an execution policy. Of the components that no rule names, those with pods come after all that are
    /// named; those without pods belong to the first step: pods mount what they hold.
    pub(super) fn of(
        policy: Option<&ExecutionPolicy>,
        components: &Components<'_>,
        flaws: &mut Vec<String>,
    ) -> Self {
        let Some(policy) = policy.filter(|policy| {
            policy.execution_policy_order == ExecutionOrder::InOrder && !policy.rules.is_empty()
        }) else {
            return Self::default();
        };
        let last = policy.rules.len();
        let default = |index| if components.has_pods(index) { last } else { 0 };
        let default: Vec<usize> = (0..components.count()).map(default).collect();
        let mut named = vec![last; components.count()];
        for (step, rule) in policy.rules.iter().enumerate() {
            for (at, name) in rule.target_components.iter().enumerate() {
                match components.find(name) {
                    // the first rule that names a component holds
                    Some(index) => named[index] = named[index].min(step),
                    None => flaws.push(format!(
                        "spec.executionPolicy.rules[{step}].targetComponents[{at}]: {:?} must be \
                         the name of one component; it is ignored",
                        shortened(name)
                    )),
                }
            }
        }
        let by_rule = |(named, default): (usize, usize)| if named < last { named } else { default };
        let mut of: Vec<usize> = named.into_iter().zip(default).map(by_rule).collect();
        let mut waits: Vec<WaitFor> =
            policy.rules.iter().map(|rule| rule.wait_for_components_status).collect();
        // a step without components would never be seen to begin
        for step in (0..last).rev() {
            if !of.contains(&step) {
                waits.remove(step);
                of.iter_mut().filter(|each| **each > step).for_each(|each| *each -= 1);
            }
        }
        Self { of, waits }
    }

    /// Whether rules say how components are created, if only in one step.
    #[must_use]
    pub const fn have_rules(&self) -> bool {
        !self.of.is_empty()
    }

    /// Whether there is an order at all.
    #[must_use]
    pub fn are_ordered(&self) -> bool {
        self.last() > 0
    }

    /// The step of a component.
    #[must_use]
    pub fn step(&self, component: usize) -> usize {
        self.of.get(component).copied().unwrap_or(0)
    }

    /// The last step.
    #[must_use]
    pub fn last(&self) -> usize {
        self.of.iter().copied().max().unwrap_or(0)
    }

    /// What the components of a step must reach before the next begins.
    #[must_use]
    pub fn wait_for(&self, step: usize) -> WaitFor {
        self.waits.get(step).copied().unwrap_or(WaitFor::Ready)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Named;
    use super::*;
    use crate::api::ExecutionRule;

    #[test]
    fn components_that_no_rule_names_come_last() {
        let names = ["a", "b", "c", "d", "m"];
        let job = |name| Named { kind: "Job", name, has_pods: name != "m", parts: &[] };
        let all = names.map(job);
        let components = &Components::of(&all);
        let rule = |names: &[&str]| ExecutionRule {
            target_components: names.iter().map(|name| (*name).to_owned()).collect(),
            wait_for_components_status: WaitFor::Succeeded,
        };
        for (rules, want) in [
            (vec![rule(&["b"]), rule(&["c"])], [2, 0, 1, 2, 0]),
            (vec![rule(&["b"]), rule(&["c", "m"])], [2, 0, 1, 2, 1]),
            (vec![rule(&["a", "b", "c", "d"])], [0, 0, 0, 0, 0]),
            (vec![rule(&["a"]), rule(&["b", "c", "d"])], [0, 1, 1, 1, 0]),
            (vec![rule(&["nothing"]), rule(&["b"])], [2, 1, 2, 2, 0]),
        ] {
            let execution_policy_order = ExecutionOrder::InOrder;
            let mut policy = ExecutionPolicy { execution_policy_order, rules };
            let mut flaws = vec![];
            let steps = Steps::of(Some(&policy), components, &mut flaws);
            assert_eq!([0, 1, 2, 3, 4].map(|index| steps.step(index)), want, "{policy:?}");
            policy.execution_policy_order = ExecutionOrder::AnyOrder;
            assert_eq!(Steps::of(Some(&policy), components, &mut flaws), Steps::default());
        }
    }
}
