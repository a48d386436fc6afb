//! The Workload by which Kueue admits an AppWrapper.

use serde::Serialize;

use crate::api::Phase;
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
    Workload(SeenWorkload),
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
    workload::of_owner(all, uid).map_or(Queued::Nothing, Queued::Workload)
}

/// How it stands in its queue; none where it names none, and Kueue made nothing for it.
pub(super) fn standing(wrapper: &Wrapper, queued: &Queued) -> Option<QueueStatus> {
    let (queue, is_suspended) = (wrapper.queue.as_deref(), wrapper.spec.suspend);
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
            ..plain(match &workload.cluster {
                Some(cluster) => format!("{}; worker cluster {cluster}", message(workload, is_suspended)),
                None => message(workload, is_suspended),
            })
        }),
        _ if queue.is_none() => None,
        Queued::NoKueue => {
            Some(plain("Kueue is not installed in this cluster: nothing admits it".to_owned()))
        }
        // Kueue keeps none of what has ended
        Queued::Nothing if [Phase::Succeeded, Phase::Failed].contains(&wrapper.status.phase) => None,
        Queued::Nothing if !wrapper.status.attempts.is_empty() => Some(plain(
            "its Workload was deleted: Kueue no longer counts its quota, and stops it".to_owned(),
        )),
        Queued::Nothing if !names::is_label(&wrapper.name) || wrapper.name.len() > names::APPWRAPPER_MAX => {
            Some(plain(format!(
                "Kueue cannot create its Workload: the name of an AppWrapper with a queue must be at most {} lower-case \
                 letters, digits or '-'",
                names::APPWRAPPER_MAX
            )))
        }
        Queued::Nothing => Some(plain(
            "Kueue has not created its Workload: check that integrations.frameworks of Kueue lists \
             workload.codeflare.dev/appwrapper, and that the PriorityClass or WorkloadPriorityClass that it names exists"
                .to_owned(),
        )),
        Queued::Hidden(why) => Some(plain(format!("cannot list its Workload: {why}"))),
    }
}

/// The most admission checks that are named.
const CHECKS_MAX: usize = 8;

/// What Kueue says: why it is not admitted, where it is not.
fn message(workload: &SeenWorkload, is_suspended: bool) -> String {
    let said = |condition: &WorkloadCondition| match (condition.reason.as_str(), &condition.message)
    {
        ("", message) => message.clone(),
        (reason, message) if message.is_empty() => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    let when = |kind: &str, status: &str| {
        workload.condition(kind).filter(|condition| condition.status == status).map(said)
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
            None if is_suspended => {
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
        let admitted = admitted.filter(|one| one.status == "False").map(said);
        let admitted = admitted.map(|said| format!(": {said}")).unwrap_or_default();
        return format!("quota reserved, waiting for admission{admitted}");
    }
    let waits = when("QuotaReserved", "False");
    let evicted = when("Evicted", "True").map(|said| format!("was evicted: {said}"));
    let mut parts: Vec<String> = [waits, evicted].into_iter().flatten().collect();
    parts.extend(Some(open_checks(workload)).filter(|checks| !checks.is_empty()));
    if parts.is_empty() {
        "waiting: Kueue has not processed it yet".to_owned()
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
            (true, vec![], "waiting: Kueue has not processed it yet"),
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
            let standing = standing(&gpu(), &of_owner(&[of], "uid")).unwrap();
            assert_eq!(standing.message, want, "{active} {conditions:?}");
            let is_admitted = conditions.contains(&admitted) && !want.starts_with("finished");
            assert_eq!(standing.admitted, is_admitted);
        }
        let mut checked = workload("w", "uid", true, &[quota, ("Admitted", "False", "x")]);
        checked["status"]["conditions"][1]["reason"] = "NoReservation".into();
        let message = |of: &Value| standing(&gpu(), &of_owner(&[seen(of)], "uid")).unwrap().message;
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
        let elsewhere = standing(&gpu(), &of_owner(&[seen(&elsewhere)], "uid")).unwrap();
        assert_eq!(elsewhere.message, "admitted; worker cluster west");
        assert_eq!(standing(&Wrapper::default(), &Queued::Nothing), None);
        assert_eq!(standing(&Wrapper::default(), &Queued::NoKueue), None);
        let hidden = standing(&gpu(), &Queued::Hidden("forbidden".into())).unwrap();
        assert_eq!(hidden.message, "cannot list its Workload: forbidden");
        let gone = |phase: Phase, attempts: usize| {
            let mut wrapper = Wrapper { name: "work".to_owned(), ..gpu() };
            wrapper.status.phase = phase;
            wrapper.status.attempts = vec![Attempt::default(); attempts];
            standing(&wrapper, &Queued::Nothing).map(|status| status.message)
        };
        assert_eq!(gone(Phase::Succeeded, 1), None);
        assert!(gone(Phase::Running, 1).unwrap().starts_with("its Workload was deleted"));
        assert!(gone(Phase::Suspended, 0).unwrap().contains("has not created its Workload"));
    }

    #[test]
    fn a_name_that_kueue_cannot_use_is_why_there_is_no_workload() {
        let wrapper = Wrapper {
            name: "run.v1".to_owned(),
            queue: Some("q".to_owned()),
            ..Wrapper::default()
        };
        let said = standing(&wrapper, &Queued::Nothing).unwrap().message;
        assert!(said.starts_with("Kueue cannot create its Workload: the name"), "{said}");
    }
}
