//! Anti-affinity: the node of the failure is avoided.

use std::sync::Arc;

use super::build::{failed, running};
use crate::api::Phase;
use crate::decide::tests::given::{World, given};
use crate::snapshot::PodTemplate;
use crate::snapshot::place::Site;

const AVOID: &str = "{defaultAction: Retry, antiAffinity: {mode: node}}";

fn job() -> World {
    let world = running(&["Job/work:2"]).fails(0, "BackoffLimitExceeded", "", 25);
    world.with(failed(0).at(22).on("late")).with(failed(0).on("first"))
}

fn sites(mut world: World, sites: &[(&str, &str)]) -> World {
    let site = |(name, hostname): &(&str, &str)| {
        let labels = [("kubernetes.io/hostname".to_owned(), (*hostname).to_owned())];
        Arc::new(Site { name: (*name).into(), labels: labels.into(), ..Site::default() })
    };
    world.snapshot.sites = sites.iter().map(site).collect();
    world.component(0, |component| component.templates = vec![PodTemplate::default()])
}

fn avoided(world: &World) -> Vec<String> {
    world.decide(25).status.avoid_nodes
}

#[test]
fn the_mode_is_the_rules_or_else_the_policys_and_none_by_default() {
    let policy = |of_policy: &str, of_rule: &str| {
        let rule = format!("action: Retry, {of_rule} onExitCodes: {{operator: In, values: [1]}}");
        format!("{{{of_policy} rules: [{{{rule}}}]}}")
    };
    let avoid = "antiAffinity: {mode: node},";
    let none = "antiAffinity: {mode: none},";
    for (of_policy, of_rule, want) in [
        ("", "", false),
        (avoid, "", true),
        ("", avoid, true),
        (avoid, none, false),
        (none, avoid, true),
    ] {
        let world = job().retry_policy("p", &policy(of_policy, of_rule));
        assert_eq!(avoided(&world).is_empty(), !want, "{of_policy} {of_rule}");
    }
    assert!(avoided(&job()).is_empty(), "no retry policy, nothing is avoided");
}

#[test]
fn only_the_node_of_the_first_cause_of_the_last_failure_is_avoided() {
    let mut world = job().retry_policy("p", AVOID);
    world.snapshot.status.avoid_nodes = vec!["of-an-earlier-failure".into()];
    assert_eq!(avoided(&world), ["first"]);
}

#[test]
fn the_next_failure_clears_it() {
    let with_old = |world: World| {
        let mut world = world;
        world.snapshot.status.avoid_nodes = vec!["old".into()];
        world
    };
    let plain = with_old(job().retry_policy("p", "{defaultAction: Retry}"));
    assert!(avoided(&plain).is_empty(), "a retry that avoids nothing");
    assert!(avoided(&with_old(job())).is_empty(), "no retry policy");
    let ignoring = "failurePolicy: {rules: [{action: RestartAppWrapperAndIgnoreMaxRestarts}]}";
    let uncounted = with_old(job().spec(ignoring).retry_policy("p", AVOID));
    assert!(avoided(&uncounted).is_empty(), "an uncounted restart");
    let mut nowhere = with_old(job().retry_policy("p", AVOID));
    nowhere.snapshot.pods.clear();
    assert!(avoided(&nowhere).is_empty(), "no pod tells of a node");
}

#[test]
fn a_node_is_avoided_by_its_hostname() {
    let nodes = [("first", "host-1"), ("late", "host-2")];
    assert_eq!(avoided(&sites(job().retry_policy("p", AVOID), &nodes)), ["host-1"]);
    assert_eq!(avoided(&job().retry_policy("p", AVOID)), ["first"], "nodes are not known");
}

#[test]
fn it_is_left_out_with_an_event_where_no_other_node_could_ever_take_the_pod() {
    let world = sites(job().retry_policy("p", AVOID), &[("first", "host-1")]);
    let decision = world.decide(25);
    assert!(decision.status.avoid_nodes.is_empty());
    let event = decision.events.iter().find(|event| event.reason == "NodeNotAvoided").unwrap();
    assert!(event.message.contains("first") && event.message.contains("Job/work"));
    let same_host = sites(job().retry_policy("p", AVOID), &[("first", "h"), ("late", "h")]);
    assert!(avoided(&same_host).is_empty(), "two nodes of one hostname are one place");
    let elsewhere = sites(job().retry_policy("p", AVOID), &[("first", "host-1"), ("x", "host-2")]);
    assert_eq!(avoided(&elsewhere), ["host-1"]);
    let told = |world: &World| {
        let events = world.decide(25).events;
        events.into_iter().find(|event| event.reason == "NodeNotAvoided").map(|it| it.message)
    };
    assert_eq!(told(&elsewhere), None);
    let assigned = elsewhere
        .component(0, |component| component.templates[0].placement.assigned_by_kueue = true);
    assert!(avoided(&assigned).is_empty());
    assert!(told(&assigned).unwrap().contains("Topology-Aware Scheduling"));
}

#[test]
fn a_component_without_pods_is_not_said_to_have_no_room() {
    let world = running(&["ConfigMap/cfg:0", "Job/work:2"]);
    let world = world.fails(1, "BackoffLimitExceeded", "", 25).with(failed(1).on("first"));
    let world = sites(world.retry_policy("p", AVOID), &[("first", "host-1")]);
    let world = world.component(0, |component| component.templates.clear());
    let world = world.component(1, |component| component.templates = vec![PodTemplate::default()]);
    let events = world.decide(25).events;
    let event = events.iter().find(|event| event.reason == "NodeNotAvoided").unwrap();
    assert!(event.message.ends_with("no room for the pods of Job/work"), "{}", event.message);
}

#[test]
fn a_node_that_the_gang_needs_is_not_avoided() {
    let names = [("first", "first"), ("late", "late"), ("more", "more")];
    for (nodes, cpu, want) in [
        (2, 1.0, &[][..]), // one pod fits on the other node, and two do not
        (2, 0.5, &["first"]),
        (3, 1.0, &["first"]),
    ] {
        let mut world = sites(job().retry_policy("p", AVOID), &names[..nodes]);
        let so_much = |cpu: f64| [("cpu".to_owned(), cpu)].into();
        for site in &mut world.snapshot.sites {
            Arc::make_mut(site).allocatable = so_much(1.0);
        }
        world.snapshot.components[0].templates[0].placement.requests = so_much(cpu);
        assert_eq!(avoided(&world), want, "two pods of {cpu} on {nodes} nodes");
    }
}

#[test]
fn what_is_avoided_is_asked_again_when_the_next_attempt_begins() {
    for (nodes, want) in [
        (&[][..], &["host-1"][..]), // they are not known
        (&[("first", "host-1"), ("late", "host-2")], &["host-1"]),
        (&[("first", "host-1")], &[]),
        (&[("first", "host-1"), ("other", "host-1")], &[]),
    ] {
        let mut world = sites(given(Phase::Suspended).suspended(false).with_finalizer(), nodes);
        world.snapshot.status.avoid_nodes = vec!["host-1".into()];
        let decision = world.decide(25);
        assert_eq!(decision.next, Phase::Resuming);
        assert_eq!(decision.status.avoid_nodes, want, "{nodes:?}");
        let told = decision.events.iter().any(|event| event.reason == "NodeNotAvoided");
        assert_eq!(told, want.is_empty(), "{nodes:?}");
    }
}
