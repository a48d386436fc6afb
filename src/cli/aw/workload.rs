//! The Workload by which Kueue admits an AppWrapper.

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::super::explain::text::span;
use crate::api::{Phase, keys};
use crate::observe::assemble::Wrapper;
use crate::observe::raw_object::RawObject;
use crate::observe::workload::{self, SeenWorkload, WorkloadCondition};
use crate::tuning::names;

/// What is known of an AppWrapper's Workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Queued {
    /// The cluster serves no Workloads: Kueue is not installed.
    NoKueue,
    /// Kueue has not created one for it.
    Nothing,
    /// The user may not read it.
    Hidden(String),
    /// Kueue has created it.
    Workload(Box<SeenWorkload>),
}

/// How an AppWrapper stands in its queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueueStatus {
    /// The LocalQueue that it names.
    pub queue: Option<String>,
    pub workload: Option<String>,
    pub admitted: bool,
    /// `spec.active` of the Workload.
    pub active: Option<bool>,
    pub message: String,
}

/// The Workload of an AppWrapper among all of its namespace.
pub(super) fn of_owner(all: &[RawObject], uid: &str) -> Queued {
    workload::of_owner(all, uid)
        .map_or(Queued::Nothing, |workload| Queued::Workload(Box::new(workload)))
}

/// How it stands in its queue; none where it names none, and Kueue made nothing for it.
pub(super) fn standing(wrapper: &Wrapper, queued: &Queued, now: Timestamp) -> Option<QueueStatus> {
    let queue = wrapper.queue.as_deref();
    let plain = |message: String| QueueStatus {
        queue: queue.map(str::to_owned),
        workload: None,
        admitted: false,
        active: None,
        message,
    };
    match queued {
        Queued::Workload(workload) => Some(QueueStatus {
            workload: Some(workload.name.clone()),
            admitted: workload.is("Admitted") && !workload.is("Finished"),
            active: Some(workload.active),
            ..plain(whole_message(workload, wrapper, now))
        }),
        _ if queue.is_none() => None,
        Queued::NoKueue => {
            Some(plain("Kueue is not installed in this cluster: it cannot be admitted".to_owned()))
        }
        Queued::Nothing if wrapper.deleting => None,
        // Kueue keeps none of what has ended
        Queued::Nothing if [Phase::Succeeded, Phase::Failed].contains(&wrapper.status.phase) => None,
        Queued::Nothing if wrapper.has_manager => Some(plain(
            "it has no Workload: only MultiKueue of the manager cluster creates one for a copy"
                .to_owned(),
        )),
        Queued::Nothing if has_run(wrapper) => Some(plain(
            "its Workload was deleted: Kueue no longer counts its quota, and suspends the AppWrapper".to_owned(),
        )),
        Queued::Nothing if wrapper.is_prebuilt => Some(plain(format!(
            "its prebuilt Workload does not exist or belongs to another object: create one with the name in {}",
            keys::PREBUILT_WORKLOAD
        ))),
        Queued::Nothing if !names::is_label(&wrapper.name) || wrapper.name.len() > names::APPWRAPPER_MAX => {
            Some(plain(format!(
                "Kueue cannot create its Workload: the name of an AppWrapper with a queue must be at most {} lower-case \
                 letters, digits or '-'",
                names::APPWRAPPER_MAX
            )))
        }
        Queued::Nothing => Some(plain(
            "Kueue has not created its Workload: check that integrations.frameworks of Kueue lists \
             workload.codeflare.dev/appwrapper, that managedJobsNamespaceSelector of Kueue matches the labels of the \
             namespace, and that the PriorityClass or WorkloadPriorityClass that it names exists"
                .to_owned(),
        )),
        Queued::Hidden(why) => Some(plain(format!("cannot list its Workload: {why}"))),
    }
}

/// Whether Kueue has admitted it for an attempt that is not over.
fn has_run(wrapper: &Wrapper) -> bool {
    let waits = [Phase::Empty, Phase::Suspended].contains(&wrapper.status.phase);
    !waits && !wrapper.status.attempts.is_empty()
}

/// The most admission checks that are named.
const CHECKS_MAX: usize = 8;

/// What Kueue says, and where its quota is.
fn whole_message(workload: &SeenWorkload, wrapper: &Wrapper, now: Timestamp) -> String {
    let cluster = workload.cluster.as_ref().map(|cluster| format!("worker cluster {cluster}"));
    let parts = [Some(message(workload, wrapper, now)), cluster, other_queue(workload, wrapper)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// That its Workload is in another queue than its label names, where Kueue leaves it there. Source: Kueue 0.18,
/// `jobframework/reconciler.go`: it returns for an evicted Workload before it compares the queues.
pub(super) fn other_queue(workload: &SeenWorkload, wrapper: &Wrapper) -> Option<String> {
    let (queue, wanted) = (workload.queue.as_ref()?, wrapper.queue.as_ref()?);
    if queue == wanted || workload.is("Finished") {
        return None;
    }
    let why = if workload.is("QuotaReserved") {
        "holds quota"
    } else if workload.is("Evicted") {
        "was evicted"
    } else {
        return None; // it moves this one at once
    };
    Some(format!("its Workload is in queue {queue}: Kueue does not move a Workload that {why}"))
}

/// When Kueue requeues it, while it waits after an eviction.
pub(super) fn requeuing(workload: &SeenWorkload, now: Timestamp) -> Option<String> {
    let at = workload.requeue_at.filter(|at| now < *at && workload.active)?;
    let left = span(at.as_second() - now.as_second());
    let evictions = match workload.evictions {
        0 => String::new(),
        count => format!(" (eviction {count})"),
    };
    Some(format!("Kueue requeues it at {at}, in {left}{evictions}"))
}

/// Kueue has written no condition: with `BestEffortFIFO` this lasts for a moment, with `StrictFIFO` until the Workload is the
/// first of its queue.
const NOT_TRIED: &str = "waiting in its queue; Kueue has not tried to admit it: with StrictFIFO, it waits for the \
                         Workloads ahead of it";

/// The reason and the message of a condition, as far as it has them.
pub(super) fn in_words(condition: &WorkloadCondition) -> String {
    match (condition.reason.as_str(), condition.message.as_str()) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// What Kueue says: why it is not admitted, where it is not.
fn message(workload: &SeenWorkload, wrapper: &Wrapper, now: Timestamp) -> String {
    let when = |kind: &str, status: &str| {
        workload.condition(kind).filter(|condition| condition.status == status).map(in_words)
    };
    if let Some(finished) = when("Finished", "True") {
        return format!("finished: {finished}");
    }
    if !workload.active {
        let evicted = when("Evicted", "True").map(|said| format!("; {said}")).unwrap_or_default();
        return format!("deactivated: spec.active of its Workload is false{evicted}");
    }
    if workload.is("Admitted") {
        return match when("Evicted", "True") {
            Some(said) => format!("being evicted: {said}"),
            None if wrapper.spec.suspend && wrapper.queue.is_none() => {
                "admitted, but the AppWrapper has no queue label any more: Kueue does not resume it"
                    .to_owned()
            }
            None if wrapper.spec.suspend => {
                "admitted, but Kueue has not resumed it: if this lasts, compare \
                                     admission.kueueAccount with the user name of Kueue"
                    .to_owned()
            }
            None => "admitted".to_owned(),
        };
    }
    if workload.is("QuotaReserved") {
        let checks = open_checks(workload);
        if !checks.is_empty() {
            return format!("quota reserved, waiting for admission checks: {checks}");
        }
        // one from before the reservation says nothing
        let stands = |one: &&WorkloadCondition| !one.reason.starts_with("NoReservation");
        let admitted = workload.condition("Admitted").filter(stands);
        let admitted = admitted.filter(|one| one.status == "False").map(in_words);
        let admitted = admitted.map(|said| format!(": {said}")).unwrap_or_default();
        return format!("quota reserved, waiting for admission{admitted}");
    }
    let waits = when("QuotaReserved", "False");
    // Kueue repeats the message of an eviction in QuotaReserved
    let text = |kind: &str| workload.condition(kind).map(|condition| condition.message.as_str());
    let is_new = text("Evicted") != text("QuotaReserved");
    let evicted = when("Evicted", "True").filter(|_| is_new);
    let evicted = evicted.map(|said| format!("was evicted: {said}"));
    let parts = [waits, evicted, requeuing(workload, now)];
    let mut parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.extend(Some(open_checks(workload)).filter(|checks| !checks.is_empty()));
    if parts.is_empty() {
        NOT_TRIED.to_owned()
    } else {
        format!("not admitted: {}", parts.join("; "))
    }
}

/// The admission checks that are not ready: `name (state: message)`.
fn open_checks(workload: &SeenWorkload) -> String {
    let open = workload.checks.iter().filter(|check| check.state != "Ready").take(CHECKS_MAX);
    let said = open.map(|check| match check.message.as_str() {
        "" => format!("{} ({})", check.name, check.state),
        message => format!("{} ({}: {message})", check.name, check.state),
    });
    said.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::Attempt;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn gpu() -> Wrapper {
        Wrapper { queue: Some("gpu".to_owned()), ..Wrapper::default() }
    }

    fn seen(value: &Value) -> RawObject {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    fn workload(name: &str, owner: &str, active: bool, conditions: &[(&str, &str, &str)]) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status, message)| {
                json!({"type": kind, "status": status, "reason": "R", "message": message})
            })
            .collect();
        json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": "1", "ownerReferences": [
                {"apiVersion": "v1", "kind": "X", "name": "x", "uid": owner, "controller": true},
            ]},
            "spec": {"active": active}, "status": {"conditions": conditions},
        })
    }

    #[test]
    fn the_workload_is_the_one_that_the_appwrapper_owns() {
        let all = [
            workload("other", "other-uid", true, &[]),
            workload("old", "uid", true, &[("Finished", "True", "")]),
            workload("new", "uid", false, &[]),
        ];
        let all: Vec<RawObject> = all.iter().map(seen).collect();
        match of_owner(&all, "uid") {
            Queued::Workload(found) => {
                assert_eq!((found.name.as_str(), found.active), ("new", false));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(of_owner(&all, "nobody"), Queued::Nothing);
    }

    #[test]
    fn the_standing_says_why_it_is_not_admitted() {
        let no_quota = ("QuotaReserved", "False", "couldn't assign flavors");
        let quota = ("QuotaReserved", "True", "");
        let admitted = ("Admitted", "True", "");
        let evicted = ("Evicted", "True", "preempted");
        for (active, conditions, want) in [
            (true, vec![], NOT_TRIED),
            (true, vec![no_quota], "not admitted: R: couldn't assign flavors"),
            (
                true,
                vec![no_quota, evicted],
                "not admitted: R: couldn't assign flavors; was evicted: R: preempted",
            ),
            (
                true,
                vec![quota, ("Admitted", "False", "checks")],
                "quota reserved, waiting for admission: R: checks",
            ),
            (true, vec![quota, admitted], "admitted"),
            (true, vec![quota, admitted, evicted], "being evicted: R: preempted"),
            (
                false,
                vec![no_quota, evicted],
                "deactivated: spec.active of its Workload is false; R: preempted",
            ),
            (true, vec![quota, admitted, ("Finished", "True", "done")], "finished: R: done"),
        ] {
            let of = seen(&workload("w", "uid", active, &conditions));
            let standing = standing(&gpu(), &of_owner(&[of], "uid"), at(0)).unwrap();
            assert_eq!(standing.message, want, "{active} {conditions:?}");
            let is_admitted = conditions.contains(&admitted) && !want.starts_with("finished");
            assert_eq!(standing.admitted, is_admitted);
        }
        let mut checked = workload("w", "uid", true, &[quota, ("Admitted", "False", "x")]);
        checked["status"]["conditions"][1]["reason"] = "NoReservation".into();
        let message =
            |of: &Value| standing(&gpu(), &of_owner(&[seen(of)], "uid"), at(0)).unwrap().message;
        let waiting = "quota reserved, waiting for admission";
        assert_eq!(message(&checked), waiting);
        checked["status"]["admissionChecks"] = json!([{"name": "a", "state": "Ready"},
            {"name": "b", "state": "Pending", "message": "no nodes yet"}, {"name": "c", "state": "Retry"}]);
        assert_eq!(
            message(&checked),
            format!("{waiting} checks: b (Pending: no nodes yet), c (Retry)")
        );
        let mut elsewhere = workload("w", "uid", true, &[quota, admitted]);
        elsewhere["status"]["clusterName"] = "west".into();
        assert_eq!(message(&elsewhere), "admitted; worker cluster west");
    }

    #[test]
    fn the_standing_says_why_there_is_no_workload() {
        assert_eq!(standing(&Wrapper::default(), &Queued::Nothing, at(0)), None);
        assert_eq!(standing(&Wrapper::default(), &Queued::NoKueue, at(0)), None);
        let hidden = standing(&gpu(), &Queued::Hidden("forbidden".into()), at(0)).unwrap();
        assert_eq!(hidden.message, "cannot list its Workload: forbidden");
        let gone = |phase: Phase, attempts: usize| {
            let mut wrapper = Wrapper { name: "work".to_owned(), ..gpu() };
            wrapper.status.phase = phase;
            wrapper.status.attempts = vec![Attempt::default(); attempts];
            standing(&wrapper, &Queued::Nothing, at(0)).map(|status| status.message)
        };
        assert_eq!(gone(Phase::Succeeded, 1), None);
        assert!(gone(Phase::Running, 1).unwrap().starts_with("its Workload was deleted"));
        for (phase, attempts) in [(Phase::Suspended, 0), (Phase::Suspended, 1), (Phase::Empty, 1)] {
            let said = gone(phase, attempts).unwrap();
            assert!(said.contains("has not created its Workload"), "{phase} {attempts}: {said}");
        }
        let prebuilt = Wrapper { is_prebuilt: true, ..gpu() };
        let said = standing(&prebuilt, &Queued::Nothing, at(0)).unwrap().message;
        assert!(said.starts_with("its prebuilt Workload does not exist"), "{said}");
        let deleting = Wrapper { deleting: true, ..gpu() };
        assert_eq!(standing(&deleting, &Queued::Nothing, at(0)), None);
        let copy = Wrapper { has_manager: true, ..gpu() };
        let said = standing(&copy, &Queued::Nothing, at(0)).unwrap().message;
        assert!(said.starts_with("it has no Workload: only MultiKueue"), "{said}");
    }

    #[test]
    fn a_name_that_kueue_cannot_use_is_why_there_is_no_workload() {
        let wrapper = Wrapper {
            name: "run.v1".to_owned(),
            queue: Some("q".to_owned()),
            ..Wrapper::default()
        };
        let said = standing(&wrapper, &Queued::Nothing, at(0)).unwrap().message;
        assert!(said.starts_with("Kueue cannot create its Workload: the name"), "{said}");
    }

    #[test]
    fn a_workload_that_kueue_leaves_in_another_queue_is_told() {
        let (no, yes) = (|kind| (kind, "False", ""), |kind| (kind, "True", ""));
        let moved = "Kueue does not move a Workload that";
        for (queue, conditions, want) in [
            ("old", vec![no("QuotaReserved"), yes("Evicted")], Some("was evicted")),
            ("old", vec![yes("QuotaReserved"), yes("Admitted")], Some("holds quota")),
            ("old", vec![no("QuotaReserved")], None),
            ("old", vec![yes("Evicted"), yes("Finished")], None),
            ("gpu", vec![no("QuotaReserved"), yes("Evicted")], None),
            ("", vec![no("QuotaReserved"), yes("Evicted")], None),
        ] {
            let mut of = workload("w", "uid", true, &conditions);
            of["spec"]["queueName"] = queue.into();
            let said = standing(&gpu(), &of_owner(&[seen(&of)], "uid"), at(0)).unwrap().message;
            let told = said.split_once("; its Workload is in queue old: ").map(|(_, told)| told);
            assert_eq!(told.map(str::to_owned), want.map(|why| format!("{moved} {why}")), "{said}");
        }
    }

    #[test]
    fn the_time_of_requeuing_is_told_and_an_eviction_once() {
        let late = "Exceeded the PodsReady timeout ns/w";
        for (waits, requeue_at, evictions, want) in [
            (late, at(53), 1, "; Kueue requeues it at 2026-01-01T00:00:53Z, in 53s (eviction 1)"),
            (late, at(53), 0, "; Kueue requeues it at 2026-01-01T00:00:53Z, in 53s"),
            (late, at(0), 1, ""),
            ("no quota", at(0), 1, "; was evicted: R: Exceeded the PodsReady timeout ns/w"),
        ] {
            let conditions = [("QuotaReserved", "False", waits), ("Evicted", "True", late)];
            let mut of = workload("w", "uid", true, &conditions);
            of["status"]["requeueState"] = json!({"count": evictions, "requeueAt": requeue_at});
            let said = standing(&gpu(), &of_owner(&[seen(&of)], "uid"), at(0)).unwrap().message;
            assert_eq!(said, format!("not admitted: R: {waits}{want}"));
        }
    }

    #[test]
    fn an_admission_without_a_queue_label_is_told() {
        let of = seen(&workload("w", "uid", true, &[("Admitted", "True", "")]));
        for (queue, want) in [
            (None, "admitted, but the AppWrapper has no queue label any more"),
            (Some("gpu".to_owned()), "admitted, but Kueue has not resumed it"),
        ] {
            let mut wrapper = Wrapper { queue, ..Wrapper::default() };
            std::sync::Arc::make_mut(&mut wrapper.spec).suspend = true;
            let queued = of_owner(std::slice::from_ref(&of), "uid");
            let said = standing(&wrapper, &queued, at(0)).unwrap().message;
            assert!(said.starts_with(want), "{said}");
        }
    }
}
