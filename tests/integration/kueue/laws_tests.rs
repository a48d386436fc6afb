//! The laws themselves can be broken: each by one write.

use std::sync::Arc;

use serde_json::{Value, json};

use super::laws::{Figures, judge};
use super::observer::{Change, Kind};

const QUOTA: usize = 2;

fn change(kind: Kind, uid: &str, owner: &str, rest: Value) -> Change {
    let mut object = rest;
    object["metadata"]["uid"] = uid.into();
    object["metadata"]["name"] = uid.into();
    if !owner.is_empty() {
        object["metadata"]["ownerReferences"] = json!([{"uid": owner, "controller": true}]);
    }
    Change { revision: 0, kind, deleted: false, object: Arc::new(object) }
}

fn gone(mut change: Change) -> Change {
    change.deleted = true;
    change
}

fn conditions(all: &[(&str, bool)]) -> Value {
    let status = |holds| if holds { "True" } else { "False" };
    all.iter().map(|(kind, holds)| json!({"type": kind, "status": status(*holds)})).collect()
}

/// The AppWrapper `uid`: what it says of its quota and its resources.
fn wrapper(uid: &str, quota: bool, deployed: bool) -> Change {
    let conditions = conditions(&[("QuotaReserved", quota), ("ResourcesDeployed", deployed)]);
    change(Kind::AppWrapper, uid, "", json!({"status": {"conditions": conditions}}))
}

/// One that Kueue has suspended.
fn suspended(uid: &str, quota: bool, deployed: bool) -> Change {
    let mut suspended = wrapper(uid, quota, deployed);
    Arc::make_mut(&mut suspended.object)["spec"]["suspend"] = true.into();
    suspended
}

fn restarted(count: i64) -> Change {
    let conditions = conditions(&[("QuotaReserved", true), ("ResourcesDeployed", true)]);
    let status = json!({"conditions": conditions, "resettingCount": count});
    let annotations = json!({"workload.codeflare.dev.appwrapper/retryLimit": "1"});
    let rest = json!({"metadata": {"annotations": annotations}, "status": status});
    change(Kind::AppWrapper, "a", "", rest)
}

/// The Workload of an AppWrapper: for so many pods.
fn workload(owner: &str, reserved: bool, count: usize) -> Change {
    let status = json!({
        "conditions": conditions(&[("QuotaReserved", reserved)]),
        "admission": {"podSetAssignments": [{"count": count}]},
    });
    change(Kind::Workload, &format!("{owner}-wl"), owner, json!({"status": status}))
}

fn pod(uid: &str, owner: &str, attempt: &str) -> Change {
    let labels = json!({"workload.codeflare.dev/attempt": attempt});
    let rest = json!({"metadata": {"labels": labels}, "status": {"phase": "Running"}});
    change(Kind::Pod, uid, owner, rest)
}

fn job(uid: &str, owner: &str) -> Change {
    change(Kind::Job, uid, owner, json!({}))
}

/// An AppWrapper that runs two pods, one of a Job.
fn runs() -> Vec<Change> {
    vec![
        wrapper("a", false, false),
        workload("a", true, 2),
        wrapper("a", true, true),
        job("j", "a"),
        pod("p", "a", "0"),
        pod("q", "j", "0"),
    ]
}

fn said(more: Vec<Change>) -> Result<Figures, String> {
    let mut history = runs();
    history.extend(more);
    judge(&history, QUOTA)
}

#[test]
fn what_is_lawful_is_counted() {
    let figures = said(vec![gone(pod("p", "a", "0"))]).expect("it is lawful");
    assert_eq!((figures.moments, figures.pods, figures.at_once, figures.counted), (7, 2, 2, 2));
    assert_eq!((figures.admissions, figures.evictions, figures.thefts), (1, 0, 0));
}

#[test]
fn each_law_can_be_broken() {
    for (law, more) in [
        ("S1", vec![wrapper("a", true, false)]),
        ("S2", vec![wrapper("a", false, true)]),
        ("S3", vec![suspended("b", true, true)]),
        ("S4", vec![pod("r", "a", "0")]),
        ("S4", vec![workload("b", true, 1)]),
        ("S4", vec![gone(workload("a", true, 2))]),
        ("S5", vec![gone(pod("p", "a", "0")), pod("r", "a", "1")]),
        ("S6", vec![restarted(2)]),
        ("S6", vec![restarted(1), restarted(0)]),
        ("S11", vec![gone(wrapper("a", true, true))]),
    ] {
        let wrong = said(more).expect_err(law);
        let first = wrong.lines().next().unwrap_or_default();
        assert!(first.contains(&format!("{law}: ")), "{law}: {first}");
    }
}

#[test]
fn a_theft_excuses_the_robbed_until_it_says_that_it_has_nothing() {
    let robbed = || vec![workload("a", false, 0)];
    let figures = said(robbed()).expect("Kueue took it");
    assert_eq!((figures.thefts, figures.evictions), (1, 1));
    // Meanwhile another may run.
    let mut other = robbed();
    other.extend([workload("b", true, 2), wrapper("b", true, true), pod("r", "b", "0")]);
    assert!(said(other).is_ok());
    // It must not start again without quota.
    let mut again = robbed();
    again.extend([gone(pod("p", "a", "0")), gone(pod("q", "j", "0")), gone(job("j", "a"))]);
    again.extend([suspended("a", false, false), wrapper("a", true, true), pod("r", "a", "1")]);
    assert!(said(again).is_err_and(|wrong| wrong.contains("S4")));
    // What gave its quota back itself is not robbed.
    let gave_back = vec![
        gone(pod("p", "a", "0")),
        gone(pod("q", "j", "0")),
        gone(job("j", "a")),
        suspended("a", false, false),
        workload("a", false, 0),
    ];
    let figures = said(gave_back).expect("it is lawful");
    assert_eq!((figures.thefts, figures.evictions), (0, 1));
}

#[test]
fn what_kueue_has_started_is_robbed_before_it_says_so() {
    let started =
        || vec![suspended("a", false, false), workload("a", true, 2), wrapper("a", false, false)];
    let takes_it = [workload("a", false, 0), wrapper("a", true, true), pod("p", "a", "0")];
    let mut robbed = started();
    robbed.extend(takes_it.clone());
    robbed.extend([suspended("a", true, true), gone(pod("p", "a", "0"))]);
    let figures = judge(&robbed, QUOTA).expect("Kueue took it");
    assert_eq!((figures.thefts, figures.evictions), (1, 1));
    // Once stopped, it is judged as any other.
    robbed.push(suspended("a", false, false));
    robbed.extend([wrapper("a", true, true), pod("q", "a", "1")]);
    assert!(judge(&robbed, QUOTA).is_err_and(|wrong| wrong.contains("S4")));
    // What is suspended before the quota is taken has nothing to start with.
    let mut stopped = started();
    stopped.push(suspended("a", false, false));
    stopped.extend(takes_it);
    assert!(judge(&stopped, QUOTA).is_err_and(|wrong| wrong.contains("S4")));
}
