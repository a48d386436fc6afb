//! More pods than were declared: what counts, from when on, and what is done.

use super::given::{World, at, given};
use crate::api::{Phase, condition};
use crate::config::OverQuotaAction;
use crate::decide::{Decision, Warning};
use crate::plan::{Action, FreshRead};
use crate::snapshot::PodPhase;
use crate::snapshot::lost::{Loss, Lost};
use crate::tuning::Period;

use PodPhase::{Failed, Pending, Running, Succeeded, Unknown};

/// Two pods are declared; the pod of index `i` is created at second `i`.
fn running(pods: &[PodPhase]) -> World {
    given(Phase::Running).pods(pods)
}

fn said(decision: &Decision) -> &str {
    let found = condition::find(&decision.status.conditions, condition::PODS_OVER_QUOTA);
    found.filter(|found| found.status == "True").map_or("", |found| &found.message)
}

/// The deletion of a pod was requested at a second.
fn terminating(world: World, index: usize, second: i64) -> World {
    world.pod(index, |pod| {
        (pod.terminating, pod.deletion_requested) = (true, Some(at(second)));
    })
}

#[test]
fn the_table_of_what_is_too_many() {
    let three = || running(&[Running, Running, Pending]);
    let lost = Loss { state: Lost::NotReady, since: Some(at(0)) };
    for (what, world, second, want) in vec![
        ("as declared", running(&[Running, Running]), 500, ""),
        ("one more", three(), 12, "Job/work: pod set 0-0 has 3 live pods, but only 2 are declared"),
        ("one more, for a moment", three(), 11, ""),
        ("one more, unknown", running(&[Running, Running, Unknown]), 12, "has 3 live pods"),
        ("one has failed", running(&[Running, Failed, Running]), 500, ""),
        ("one has succeeded", running(&[Running, Succeeded, Running]), 500, ""),
        ("one is Terminating", terminating(three(), 0, 490), 500, ""),
        (
            "one is Terminating, nothing tells since when",
            three().pod(0, |pod| pod.terminating = true),
            500,
            "pod set 0-0 has 3 live pods",
        ),
        ("one is Terminating since 20", terminating(three(), 0, 20), 149, ""),
        (
            "one is Terminating, and does not go",
            terminating(three(), 0, 20),
            150,
            "pod set 0-0 has 3 live pods",
        ),
        (
            "one after the other is deleted",
            terminating(terminating(running(&[Running; 4]), 0, 20), 1, 30),
            155,
            "pod set 0-0 has 4 live pods",
        ),
        (
            "more are Terminating than are declared",
            (0..4).fold(running(&[Running; 5]), |world, index| terminating(world, index, 20)),
            50,
            "pod set 0-0 has 3 live pods, but only 2 are declared",
        ),
        ("one is lost", three().pod(0, |pod| pod.lost = Some(lost)), 20, ""),
        ("the third is young", three().pod(2, |pod| pod.created = Some(at(490))), 499, ""),
        ("the first is young", three().pod(0, |pod| pod.created = Some(at(490))), 500, "has 3"),
        (
            "no such pod set",
            three().pod(2, |pod| pod.pod_set = Some(7)),
            12,
            "pod set 0-7 has 1 live pod, but none is declared",
        ),
        ("in no pod set", three().pod(2, |pod| pod.pod_set = None), 12, "belongs to no pod set"),
        ("of nothing", three().pod(2, |pod| pod.component = None), 12, "1 live pod belongs to no"),
        ("no such component", three().pod(2, |pod| pod.component = Some(9)), 12, "to no component"),
    ] {
        let decision = world.decide(second);
        assert_eq!(decision.next, Phase::Running, "{what}");
        let said = said(&decision);
        assert_eq!(
            (said.is_empty(), said.contains(want)),
            (want.is_empty(), true),
            "{what}: {said}"
        );
        let told = decision.events.iter().filter(|event| event.reason == "PodsOverQuota").count();
        assert_eq!(told, usize::from(!want.is_empty()), "{what}");
    }
}

#[test]
fn of_many_pod_sets_the_first_are_named_and_the_others_counted() {
    for (count, want) in
        [(5, "is declared"), (6, "; and 1 more pod set"), (7, "; and 2 more pod sets")]
    {
        let mut world = running(&vec![Running; 2 + count]);
        for (index, pod) in world.snapshot.pods.iter_mut().enumerate().skip(2) {
            pod.pod_set = Some(10 + index);
        }
        let decision = world.decide(500);
        assert!(said(&decision).ends_with(want), "{}", said(&decision));
    }
}

/// Each look shows other pods, none of which is older than 3 s.
#[test]
fn pods_that_live_for_a_moment_are_too_many_too() {
    let seen = |count: usize, known: Option<i64>, second: i64| {
        let mut world = running(&vec![Running; count]);
        for pod in &mut world.snapshot.pods {
            pod.created = Some(at(second - 3));
        }
        world.snapshot.over_quota_since = known.map(at);
        world
    };
    let first = seen(3, None, 100).decide(100);
    assert_eq!((said(&first), first.over_quota_since), ("", Some(at(97))));
    assert!(first.requeue.is_some_and(|requeue| requeue <= at(107)), "when the grace period ends");
    assert_eq!(seen(3, Some(97), 110).ask(110).ask, FreshRead::Pods);
    let second = seen(3, Some(97), 110).decide(110);
    assert!(said(&second).contains("has 3 live pods"), "{}", said(&second));
    assert_eq!(second.over_quota_since, Some(at(97)));
    // calls failed until 399: one pod may follow another after a time with none too many
    let mut again = seen(3, Some(97), 400);
    again.snapshot.last_gap = Some(at(399));
    let again = again.decide(400);
    assert_eq!((said(&again), again.over_quota_since), ("", Some(at(397))));
    let another_leader = seen(3, None, 111).written(&second).decide(111);
    assert_eq!(said(&another_leader), said(&second), "what was said stays so");
    // what is as declared, or replaced one by one, begins nothing and ends what was
    for fewer in [seen(2, Some(97), 110), terminating(seen(3, Some(97), 110), 0, 108)] {
        let decision = fewer.decide(110);
        assert_eq!((said(&decision), decision.over_quota_since), ("", None));
    }
    let replaced = terminating(seen(3, Some(97), 110), 0, 108);
    let mut two_sets = replaced.pod(1, |pod| pod.created = Some(at(1)));
    let stranger = crate::snapshot::Pod { component: None, ..two_sets.snapshot.pods[1].clone() };
    two_sets.snapshot.pods.push(stranger);
    let decision = two_sets.decide(110);
    assert_eq!(said(&decision), "1 live pod belongs to no component", "only what is too many");
}

#[test]
fn it_is_looked_at_when_it_is_due_and_not_believed_of_a_watch() {
    let world = running(&[Running, Running, Running]);
    assert!(world.ask(5).requeue.is_some_and(|requeue| requeue <= at(12)));
    let replaced = terminating(world.clone(), 0, 5);
    assert!(replaced.ask(12).requeue.is_some_and(|requeue| requeue <= at(135)));
    assert_eq!(world.ask(12).ask, FreshRead::Pods);
    let known = world.clone().written(&world.decide(12));
    let again = known.decide(13);
    assert_eq!(known.ask(13).ask, FreshRead::Nothing, "it is known");
    assert_eq!(said(&again), said(&world.decide(12)));
    assert!(again.events.is_empty() && again.actions.is_empty(), "it was told");
    assert_eq!(again.status, known.snapshot.status);
}

#[test]
fn it_names_other_pod_sets_at_once_and_other_counts_never() {
    let first = running(&[Running, Running, Running]).decide(12);
    let four = running(&[Running; 4]).written(&first).decide(13);
    assert_eq!((said(&four), four.events.len()), (said(&first), 0));
    let mut other = running(&[Running, Running, Running]).written(&first);
    let pods = &mut other.snapshot.pods;
    pods.push(crate::snapshot::Pod { component: None, ..pods[1].clone() });
    let decision = other.decide(13);
    let both = format!("1 live pod belongs to no component; {}", said(&first));
    assert_eq!((said(&decision), decision.events.len()), (both.as_str(), 0), "it was told");
    let suspends = other.config(|config| {
        config.admission.pods_over_quota.action = OverQuotaAction::Suspend;
    });
    assert_eq!(suspends.decide(13).actions, [Action::Suspend], "no write delays it");
}

#[test]
fn it_ends_with_the_excess() {
    let world = running(&[Running, Running, Running]);
    let known = world.clone().written(&world.decide(12));
    let fewer = known.clone().pod(1, |pod| pod.terminating = true).decide(20);
    let ended = condition::find(&fewer.status.conditions, condition::PODS_OVER_QUOTA);
    assert_eq!(ended.map(|ended| ended.status.as_str()), Some("False"));
    let failed = known.failed_job().decide(30);
    assert_eq!(failed.next, Phase::Resetting);
    assert_ne!(said(&failed), "", "they use the quota until they go");
}

#[test]
fn it_is_told_in_every_phase_that_holds_quota() {
    for phase in Phase::ALL {
        let holds = match phase {
            Phase::Resuming
            | Phase::Running
            | Phase::Resetting
            | Phase::Suspending
            | Phase::Failed => true,
            Phase::Empty | Phase::Suspended | Phase::Succeeded | Phase::Terminating => false,
        };
        let decision = given(phase).pods(&[Running, Running, Running]).decide(12);
        assert_eq!(!said(&decision).is_empty(), holds, "{phase}");
    }
}

/// How long components stay after a failure, and pods that do not go, is up to the annotations.
#[test]
fn what_runs_too_many_and_is_to_end_is_not_kept_for_as_long_as_it_asks() {
    for action in [OverQuotaAction::Report, OverQuotaAction::Suspend] {
        let ends = action == OverQuotaAction::Suspend;
        let told = |world: World| {
            let world = world.config(|config| config.admission.pods_over_quota.action = action);
            let first = world.decide(700);
            assert_ne!(said(&first), "");
            world.written(&first)
        };
        let day = Period::from_secs(24 * 60 * 60);
        let failed = given(Phase::Failed)
            .pods(&[Running, Running, Running])
            .since(|since| since.deleting = None)
            .limits(|limits| limits.deletion_on_failure_grace = day);
        let begun = told(failed).decide(701).status.since.and_then(|since| since.deleting);
        assert_eq!(begun.is_some(), ends, "{action:?}");
        let stuck = (0..3)
            .fold(given(Phase::Suspending).pods(&[Running, Running, Running]), |world, index| {
                terminating(world, index, 0)
            });
        let stuck = told(stuck.limits(|limits| limits.forceful_deletion_grace = day));
        let named = stuck.clone().written(&stuck.decide(701)).decide(702);
        let forces = |action: &Action| matches!(action, Action::ForceDelete(_));
        assert_eq!(named.actions.iter().any(forces), ends, "{action:?}: {:?}", named.actions);
    }
}

#[test]
fn where_the_configuration_says_so_it_is_suspended() {
    let pods = [Running, Running, Running];
    let world = running(&pods).config(|config| {
        config.admission.pods_over_quota.action = OverQuotaAction::Suspend;
    });
    let first = world.decide(12);
    assert!(first.actions.is_empty(), "it is written first");
    let ends = |event: &Warning| event.message.ends_with("; the AppWrapper will be suspended");
    assert!(first.events.iter().any(ends), "nothing is done yet: {:?}", first.events);
    let known = world.written(&first);
    assert_eq!(
        known.ask(13).ask,
        FreshRead::Pods,
        "nothing is suspended for what only a watch shows"
    );
    assert_eq!(known.decide(13).actions, [Action::Suspend]);
    assert!(known.pod(1, |pod| pod.terminating = true).decide(14).actions.is_empty());
}
