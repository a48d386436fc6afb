use super::super::multikueue::tests::sent;
use super::*;

fn wrapper(phase: Phase, queue: Option<&str>, suspend: bool) -> Wrapper {
    let mut wrapper =
        Wrapper { name: "aw".into(), queue: queue.map(str::to_owned), ..Wrapper::default() };
    wrapper.status.phase = phase;
    std::sync::Arc::make_mut(&mut wrapper.spec).suspend = suspend;
    wrapper
}

fn workload(active: bool) -> SeenWorkload {
    SeenWorkload { name: "w".into(), active, ..SeenWorkload::default() }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

fn planned(wrapper: &Wrapper, queued: &Queued, action: SwitchAction) -> SuspendPlan {
    plan(wrapper, queued, action, "kubectl aw", at(0))
}

fn found(workload: SeenWorkload) -> Queued {
    Queued::Workload(Box::new(workload))
}

fn condition(kind: &str, status: &str, reason: &str) -> WorkloadCondition {
    WorkloadCondition {
        kind: kind.into(),
        status: status.into(),
        reason: reason.into(),
        ..WorkloadCondition::default()
    }
}

#[test]
fn without_a_queue_the_spec_says_whether_it_is_suspended() {
    use SwitchAction::{Resume, Suspend};
    let already = |text: &str| SuspendPlan::Already(text.to_owned());
    for (suspended, action, want) in [
        (false, Suspend, SuspendPlan::Spec),
        (true, Suspend, already("is already suspended")),
        (true, Resume, SuspendPlan::Spec),
        (false, Resume, already("is not suspended")),
    ] {
        for queued in [Queued::NoKueue, Queued::Nothing, Queued::Hidden("x".into())] {
            let wrapper = wrapper(Phase::Running, None, suspended);
            assert_eq!(planned(&wrapper, &queued, action), want, "{queued:?}");
        }
    }
}

#[test]
fn with_a_queue_the_annotation_says_whether_it_is_suspended() {
    use SwitchAction::{Resume, Suspend};
    let held = |suspend| {
        let mut held = wrapper(Phase::Suspended, Some("gpu"), suspend);
        held.annotations.insert(keys::ACTIVE.into(), "false".into());
        held
    };
    let plain = |suspend| wrapper(Phase::Running, Some("gpu"), suspend);
    let of = |active| found(workload(active));
    let of_queue = |active| found(SeenWorkload { queue: Some("gpu".into()), ..workload(active) });
    let admitted = found(SeenWorkload {
        conditions: vec![condition("Admitted", "True", "Admitted")],
        ..workload(true)
    });
    let returning = found(SeenWorkload { deactivated_for: Some("1".into()), ..workload(false) });
    let later = found(SeenWorkload { requeue_at: Some(at(53)), evictions: 2, ..workload(true) });
    let hidden = Queued::Hidden("forbidden".into());
    let annotation = "annotation";
    for (wrapper, queued, action, want) in vec![
        // too large for the stack
        (plain(false), of(true), Suspend, annotation),
        (plain(false), Queued::Nothing, Suspend, annotation),
        (plain(false), Queued::NoKueue, Suspend, annotation),
        (plain(true), Queued::NoKueue, Resume, "spec"),
        (plain(false), hidden.clone(), Suspend, annotation),
        (plain(true), of(true), Suspend, annotation),
        (plain(true), returning.clone(), Suspend, annotation),
        (plain(true), of(false), Suspend, "its Workload w is not active"),
        (held(true), of(true), Suspend, "is already suspended"),
        (held(true), returning, Suspend, "is already suspended"),
        (held(true), hidden.clone(), Suspend, "is already suspended"),
        (held(true), of(false), Resume, annotation),
        (held(false), hidden.clone(), Resume, annotation),
        (held(true), Queued::NoKueue, Resume, annotation),
        (plain(true), of(false), Resume, "workload w"),
        (plain(true), of(true), Resume, "is waiting for admission"),
        (
            plain(true),
            later,
            Resume,
            "; Kueue requeues it at 2026-01-01T00:00:53Z, in 53s (eviction 2)",
        ),
        (plain(false), of(true), Resume, "is not suspended"),
        (plain(false), hidden.clone(), Resume, "is not suspended"),
        (wrapper(Phase::Suspended, None, true), of_queue(false), Resume, "spec"),
        (wrapper(Phase::Running, None, false), of(false), Resume, "is not suspended"),
        (wrapper(Phase::Suspended, None, true), of_queue(true), Resume, "spec"),
        (wrapper(Phase::Suspended, None, true), admitted, Resume, "spec"),
        (wrapper(Phase::Suspended, None, true), of(true), Resume, "would suspend it again"),
        (plain(true), hidden, Resume, "is waiting for admission by queue gpu; see "),
    ] {
        let said = match planned(&wrapper, &queued, action) {
            SuspendPlan::Annotation => annotation.to_owned(),
            SuspendPlan::Workload(workload) => format!("workload {}", workload.name),
            SuspendPlan::Already(text) | SuspendPlan::No(text) => text,
            SuspendPlan::Spec => "spec".to_owned(),
        };
        assert!(said.contains(want), "{said} instead of {want}, {action:?} {queued:?}");
    }
}

#[test]
fn what_kueue_has_given_up_is_not_resumed() {
    let time = "DeactivatedDueToMaximumExecutionTimeExceeded";
    for (active, seen, is_final) in [
        (false, condition("DeactivationTarget", "True", "MaximumExecutionTimeExceeded"), true),
        (false, condition("Evicted", "True", time), true),
        (true, condition("Requeued", "False", "DeactivatedDueToAdmissionCheck"), true),
        (true, condition("Requeued", "True", "DeactivatedDueToAdmissionCheck"), false),
        (false, condition("Evicted", "True", "Deactivated"), false),
    ] {
        let workload = SeenWorkload { conditions: vec![seen.clone()], ..workload(active) };
        let wrapper = wrapper(Phase::Suspended, Some("gpu"), true);
        let queued = found(workload);
        let plan = planned(&wrapper, &queued, SwitchAction::Resume);
        let said = match plan {
            SuspendPlan::No(why) => why.contains("kubectl delete workload w"),
            _ => false,
        };
        assert_eq!(said, is_final, "{seen:?}");
        let (why, advice) = held(&wrapper, &queued, "kubectl aw").unzip();
        let final_words = "Kueue has deactivated its Workload w (";
        let want = match (is_final, active) {
            (true, _) => Some((final_words, "kubectl delete workload w -n ")),
            (false, false) => Some((DEACTIVATED, "to resume it: kubectl aw resume aw")),
            (false, true) => None,
        };
        let is_told = |text: Option<String>, want: Option<&str>| match (text, want) {
            (Some(text), Some(want)) => text.contains(want),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let (want_why, want_advice) = want.unzip();
        assert!(is_told(why, want_why) && is_told(advice, want_advice), "{seen:?}");
    }
}

#[test]
fn what_kueue_has_finished_without_starting_it_is_not_resumed() {
    for (queue, suspend, status, is_finished) in [
        (Some("gpu"), true, "True", true),
        (Some("gpu"), true, "False", false),
        (Some("gpu"), false, "True", false),
        (None, true, "True", false),
    ] {
        let by = WorkloadCondition {
            message: "node selectors differ".into(),
            ..condition("Finished", status, "FailedToStart")
        };
        let reserved = condition("QuotaReserved", "True", "QuotaReserved");
        let conditions = vec![reserved, by, condition("Admitted", "True", "Admitted")];
        let queued = found(SeenWorkload { conditions, ..workload(true) });
        let wrapper = wrapper(Phase::Suspended, queue, suspend);
        let plan = planned(&wrapper, &queued, SwitchAction::Resume);
        let held = held(&wrapper, &queued, "kubectl aw");
        assert_eq!(held.is_some(), is_finished, "{queue:?} {suspend} {status}: {held:?}");
        let refused = held.map(|(why, remedy)| {
            let want = "Kueue has finished its Workload w (FailedToStart: node selectors differ) \
                        and does not start it";
            assert_eq!(why, want);
            assert!(remedy.contains("kubectl delete workload w -n "), "{remedy}");
            SuspendPlan::No(format!("was not resumed: {why}; {remedy}"))
        });
        let is_refused = matches!(plan, SuspendPlan::No(_));
        assert_eq!(refused, is_refused.then_some(plan), "{queue:?} {suspend} {status}");
    }
}

#[test]
fn what_kueue_keeps_without_a_queue_is_not_resumed() {
    let inactive = |queue| {
        let mut inactive = wrapper(Phase::Suspended, queue, true);
        inactive.annotations.insert(keys::ACTIVE.into(), "false".into());
        inactive
    };
    let admitted = vec![condition("Admitted", "True", "Admitted")];
    let rows: Vec<(Wrapper, SeenWorkload, bool)> = vec![
        (wrapper(Phase::Suspended, None, true), workload(true), true),
        (wrapper(Phase::Suspended, None, true), workload(false), true),
        (inactive(None), workload(true), true),
        (inactive(None), workload(false), true),
        (inactive(Some("gpu")), workload(true), false),
        (inactive(None), SeenWorkload { conditions: admitted, ..workload(true) }, false),
    ];
    for (wrapper, workload, is_kept) in rows {
        let wrapper = Wrapper { namespace: "ns".into(), ..wrapper };
        let queued = found(workload);
        let plan = planned(&wrapper, &queued, SwitchAction::Resume);
        let advised = held(&wrapper, &queued, "kubectl aw");
        if is_kept {
            let (why, remedy) = advised.unwrap();
            assert!(why.ends_with("and would suspend it again"), "{why}");
            let label = "kubectl label appwrapper aw -n ns kueue.x-k8s.io/queue-name=QUEUE";
            assert!(remedy.contains(label), "{remedy}");
            assert_eq!(plan, SuspendPlan::No(format!("was not resumed: {why}; {remedy}")));
        } else {
            assert_eq!((plan, advised), (SuspendPlan::Annotation, None), "{queued:?}");
        }
    }
}

#[test]
fn a_workload_that_is_not_active_holds_only_what_is_suspended() {
    let queued = found(workload(false));
    for (suspend, is_held) in [(true, true), (false, false)] {
        let wrapper = wrapper(Phase::Suspended, Some("gpu"), suspend);
        assert_eq!(held(&wrapper, &queued, "kubectl aw").is_some(), is_held, "{suspend}");
    }
}

#[test]
fn a_prebuilt_workload_that_kueue_has_given_up_is_created_again() {
    let given_up = condition("DeactivationTarget", "True", "MaximumExecutionTimeExceeded");
    let queued = found(SeenWorkload { conditions: vec![given_up], ..workload(false) });
    for (is_prebuilt, want) in [
        (false, "to let Kueue create another one: kubectl delete workload w -n team"),
        (
            true,
            "Kueue does not create a prebuilt Workload: save its manifest (kubectl get workload w -n team \
             -o yaml), delete it, and create it again with spec.active true and without its status",
        ),
    ] {
        let stopped = Wrapper {
            namespace: "team".into(),
            is_prebuilt,
            ..wrapper(Phase::Suspended, Some("gpu"), true)
        };
        let (_, remedy) = held(&stopped, &queued, "kubectl aw").unwrap();
        assert_eq!(remedy, want);
    }
}

#[test]
fn what_kueue_left_in_another_queue_is_not_resumed() {
    let mut held_back = wrapper(Phase::Suspended, Some("new"), true);
    held_back.annotations.insert(keys::ACTIVE.into(), "false".into());
    let suspended = |queue| wrapper(Phase::Suspended, queue, true);
    for (wrapper, is_refused, is_held) in [
        (suspended(Some("new")), true, true),
        (held_back, true, true),
        (suspended(Some("old")), false, false),
        (suspended(None), false, false),
    ] {
        let conditions = vec![condition("Evicted", "True", "Preempted")];
        let queued =
            found(SeenWorkload { queue: Some("old".into()), conditions, ..workload(true) });
        let is_refusal = |plan: &SuspendPlan| match plan {
            SuspendPlan::No(why) => {
                why.contains("its Workload is in queue old") && why.contains("delete workload w")
            }
            SuspendPlan::Already(_)
            | SuspendPlan::Spec
            | SuspendPlan::Annotation
            | SuspendPlan::Workload(_) => false,
        };
        let plan = planned(&wrapper, &queued, SwitchAction::Resume);
        assert_eq!(is_refusal(&plan), is_refused, "{:?}: {plan:?}", wrapper.queue);
        let held = held(&wrapper, &queued, "kubectl aw");
        assert_eq!(held.is_some(), is_held, "{:?}: {held:?}", wrapper.queue);
    }
}

#[test]
fn what_has_ended_or_is_not_ours_is_left_alone() {
    let mut deleting = wrapper(Phase::Running, None, false);
    deleting.deleting = true;
    let managed_by = |manager: &str| {
        let mut managed = wrapper(Phase::Running, None, false);
        std::sync::Arc::make_mut(&mut managed.spec).managed_by = Some(manager.into());
        managed
    };
    let managed = managed_by("kueue.x-k8s.io/multikueue");
    let ours = managed_by(keys::CONTROLLER_NAME);
    let copied = |phase| Wrapper { has_manager: true, ..wrapper(phase, Some("gpu"), false) };
    assert_eq!(planned(&ours, &Queued::NoKueue, SwitchAction::Suspend), SuspendPlan::Spec);
    for (wrapper, want) in vec![
        // too large for the stack
        (wrapper(Phase::Succeeded, None, false), "has succeeded"),
        (wrapper(Phase::Failed, None, true), "kubectl aw retry aw"),
        (wrapper(Phase::Terminating, None, false), "being deleted"),
        (deleting, "being deleted"),
        (managed, "managed by kueue.x-k8s.io/multikueue, not by this controller; to "),
        (copied(Phase::Running), "change the AppWrapper in the manager cluster"),
        (copied(Phase::Suspended), "is a copy that MultiKueue created"),
        (copied(Phase::Failed), "in the manager cluster"),
        (sent(Phase::Failed), "; to run it again, delete the AppWrapper and create it again"),
        (sent(Phase::Succeeded), "has succeeded"),
        (Wrapper { deleting: true, ..sent(Phase::Running) }, "being deleted"),
        (managed_by("example.com/other"), "managed by example.com/other, not by this controller"),
    ] {
        for action in [SwitchAction::Suspend, SwitchAction::Resume] {
            match planned(&wrapper, &Queued::NoKueue, action) {
                SuspendPlan::No(why) => assert!(why.contains(want), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn what_runs_in_a_worker_cluster_is_suspended_by_its_workload() {
    use SwitchAction::{Resume, Suspend};
    let patch = |active: bool| {
        format!(
            "it: kubectl patch workload w -n ns --type=merge -p '{{\"spec\":{{\"active\":{active}}}}}'"
        )
    };
    let of = |active| found(workload(active));
    let no_name =
        |active: bool| format!("set spec.active of its Workload in this cluster to {active}");
    for (action, queued, is_refused, want) in [
        (Suspend, of(true), true, format!("to suspend {}", patch(false))),
        (Suspend, of(false), false, "is already suspended: its Workload w is not active".into()),
        (Resume, of(false), true, format!("to resume {}", patch(true))),
        (Resume, of(true), false, "is not suspended: its Workload w is active".into()),
        (Suspend, Queued::Nothing, true, no_name(false)),
        (Resume, Queued::Hidden("forbidden".into()), true, no_name(true)),
    ] {
        let (refused, said) = match planned(&sent(Phase::Running), &queued, action) {
            SuspendPlan::No(why) => (true, why),
            SuspendPlan::Already(how) => (false, how),
            other => panic!("{other:?}"),
        };
        assert_eq!(refused, is_refused, "{said}");
        assert!(said.ends_with(&want), "{said}");
    }
    for phase in [Phase::Empty, Phase::Suspended] {
        let advice = held(&sent(phase), &of(false), "kubectl aw").map(|(_, advice)| advice);
        assert_eq!(advice, Some(format!("to resume {}", patch(true))), "{phase}");
        assert_eq!(held(&sent(phase), &of(true), "kubectl aw"), None, "{phase}");
    }
    let copy = Wrapper { has_manager: true, ..wrapper(Phase::Suspended, Some("gpu"), true) };
    let (_, advice) = held(&copy, &of(false), "kubectl aw").unwrap();
    assert!(advice.starts_with("it is a copy that MultiKueue created"), "{advice}");
}

#[test]
fn who_suspends_with_a_queue_is_told_of_the_quota() {
    let nothing = Queued::Nothing;
    let said = |plan, phase| {
        message(SwitchAction::Suspend, &plan, &wrapper(phase, Some("gpu"), true), &nothing)
    };
    let quota = "then Kueue releases its quota";
    assert!(said(SuspendPlan::Annotation, Phase::Running).contains(quota));
    let running = wrapper(Phase::Running, Some("gpu"), false);
    let without_kueue =
        message(SwitchAction::Suspend, &SuspendPlan::Annotation, &running, &Queued::NoKueue);
    assert!(without_kueue.ends_with(": the controller deletes its resources"), "{without_kueue}");
    assert!(said(SuspendPlan::Annotation, Phase::Suspended).contains("it stays suspended"));
    assert!(!said(SuspendPlan::Spec, Phase::Running).contains("quota"));
    for (queue, want) in [(Some("gpu"), true), (None, false)] {
        let wrapper = wrapper(Phase::Suspended, queue, true);
        let said = message(SwitchAction::Resume, &SuspendPlan::Annotation, &wrapper, &nothing);
        assert_eq!(said.contains("it returns to its queue"), want);
    }
}

#[test]
fn who_resumes_is_told_that_somebody_else_deactivated_the_workload() {
    let ours = SeenWorkload { deactivated_for: Some("1".into()), ..workload(false) };
    let evicted = condition("Evicted", "True", "DeactivatedDueToMaximumExecutionTimeExceeded");
    let given_up = SeenWorkload { conditions: vec![evicted], ..workload(false) };
    for (queue, suspend, workload, want) in [
        (Some("gpu"), true, workload(false), true),
        (Some("gpu"), false, workload(false), true),
        (Some("gpu"), false, given_up, false),
        (Some("gpu"), true, ours, false),
        (Some("gpu"), true, workload(true), false),
        (None, true, SeenWorkload { queue: Some("gpu".into()), ..workload(false) }, false),
    ] {
        for phase in [Phase::Suspended, Phase::Resetting] {
            let mut wrapper = wrapper(phase, queue, suspend);
            wrapper.annotations.insert(keys::ACTIVE.into(), "false".into());
            let queued = found(workload.clone());
            let plan = planned(&wrapper, &queued, SwitchAction::Resume);
            assert_eq!(plan, SuspendPlan::Annotation, "{queued:?}");
            let said = message(SwitchAction::Resume, &plan, &wrapper, &queued);
            let is_said = said.ends_with(
                "; somebody else has deactivated its Workload w: run this command again to activate it",
            );
            assert_eq!(is_said, want, "{said}");
        }
    }
}
