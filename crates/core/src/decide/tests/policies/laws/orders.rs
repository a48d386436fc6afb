//! Order of rules and policies, and growth of delays.

use proptest::prelude::*;

use super::config;
use super::worlds::{any_of, failure_rule, of_rules, pod_rule, pods, policy, retry_rule};
use crate::config::Backoff;
use crate::decide::tests::given::World;
use crate::decide::tests::policies::build::running;
use crate::policies::{DefaultPolicy, attached};
use crate::snapshot::{Pod, PodPhase};
use crate::tuning::Period;

/// One Job of which one pod failed, and the Job with it.
fn failure() -> impl Strategy<Value = World> {
    let reason = any_of(&["BackoffLimitExceeded", "DeadlineExceeded"]);
    let pods = pods().prop_filter("it failed", |pod| pod.phase == PodPhase::Failed);
    (pods, reason).prop_map(|(pod, reason)| {
        let pod = Pod { component: Some(0), pod_set: Some(0), attempt: Some(0), ..pod };
        let world = running(&["Job/a:1", "Job/b:1", "Job/c:1"]);
        world.with(pod).fails(0, &reason, "mm", 700)
    })
}

/// The rules up to the one that matched, then others, then the rest the other way round.
fn changed_after(rules: &[String], matched: i32, more: &[String]) -> Vec<String> {
    let (first, rest) = rules.split_at(usize::try_from(matched).unwrap() + 1);
    first.iter().chain(more).chain(rest.iter().rev()).cloned().collect()
}

/// Whether what is decided stays when rules after the one that matched change.
fn stays(
    rules: &[String],
    more: &[String],
    world: impl Fn(&[String]) -> World,
) -> Result<(), TestCaseError> {
    let decision = world(rules).decide(800);
    let Some(matched) = decision.verdict.rule.as_ref().and_then(|rule| rule.index) else {
        return Ok(());
    };
    let other = world(&changed_after(rules, matched, more)).decide(800);
    prop_assert_eq!(decision.verdict, other.verdict);
    prop_assert_eq!(decision.status, other.status);
    Ok(())
}

fn names() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(any_of(&["infra", "ml", "base", "extra"]), 0..4)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn rules_after_the_first_match_of_a_retry_policy_change_nothing(
        world in failure(),
        rules in prop::collection::vec(retry_rule(), 1..5),
        more in prop::collection::vec(retry_rule(), 0..3),
    ) {
        stays(&rules, &more, |rules| {
            world.clone().with_retry_policy("p", of_rules("{}", rules))
        })?;
    }

    #[test]
    fn rules_after_the_first_match_of_a_failure_policy_change_nothing(
        world in failure(),
        rules in prop::collection::vec(failure_rule(), 1..5),
        more in prop::collection::vec(failure_rule(), 0..3),
    ) {
        stays(&rules, &more, |rules| {
            world.clone().with_spec(policy("failurePolicy", rules))
        })?;
    }

    #[test]
    fn rules_after_the_first_match_of_a_pod_failure_policy_change_nothing(
        world in failure(),
        rules in prop::collection::vec(pod_rule(), 1..5),
        more in prop::collection::vec(pod_rule(), 0..3),
    ) {
        stays(&rules, &more, |rules| {
            world.clone().with_spec(policy("podFailurePolicy", rules))
        })?;
    }

    #[test]
    fn a_policy_that_follows_one_that_matched_changes_nothing(
        world in failure(),
        rules in prop::collection::vec(retry_rule(), 1..5),
        more in prop::collection::vec(retry_rule(), 0..3),
    ) {
        let first = world.with_retry_policy("p", of_rules("{}", &rules));
        let decision = first.decide(800);
        if decision.verdict.rule.as_ref().is_some_and(|rule| rule.index.is_some()) {
            let both = first.with_retry_policy("q", of_rules("{}", &more));
            prop_assert_eq!(both.decide(800).status, decision.status);
        }
    }

    #[test]
    fn what_a_queue_attaches_is_neither_removed_nor_preceded(
        cluster in names(), local in names(), own in names(), default in prop::option::of(names()),
        overrides: bool,
    ) {
        let text = |names: &[String]| names.join(" ,");
        let default = default.map(|names| names.join("-"));
        let default = default.as_deref().filter(|name| !name.is_empty());
        let default = default.map(|name| DefaultPolicy { name, overrides });
        let of = |own: &[String]| attached(Some(&text(&cluster)), Some(&text(&local)), own, default);
        let (all, queues) = (of(&own), attached(Some(&text(&cluster)), Some(&text(&local)), &[], None));
        prop_assert!(all.starts_with(&queues), "{:?} {:?}", all, queues);
        prop_assert!(own.iter().all(|name| all.contains(name)));
        let mut unique = all.clone();
        unique.sort();
        unique.dedup();
        prop_assert_eq!(unique.len(), all.len());
        let any = !cluster.is_empty() || !local.is_empty() || !own.is_empty();
        if !any {
            prop_assert_eq!(all.first().map(String::as_str), default.map(|it| it.name));
        }
        if overrides && cluster.is_empty() && local.is_empty() {
            prop_assert!(default.is_none_or(|it| all[0] == it.name), "{:?}", all);
        }
    }

    #[test]
    fn a_backoff_never_shrinks_and_never_exceeds_its_maximum(
        initial in 0_u64..4000, more in 0_u64..100_000, multiplier in 1.0_f64..50.0, n in 1_i32..2000,
    ) {
        let (initial, maximum) = (Period::from_secs(initial), Period::from_secs(initial + more));
        let backoff = Backoff::new(initial, multiplier, maximum).unwrap();
        prop_assert_eq!(backoff.delay(1), initial);
        prop_assert!(backoff.delay(n) <= backoff.delay(n + 1));
        prop_assert!(backoff.delay(n + 1) <= maximum);
    }
}
