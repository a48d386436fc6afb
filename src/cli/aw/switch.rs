//! `appwrapper suspend` and `resume`: by `spec.suspend`, or by the annotation `active` where Kueue has the say.

use std::process::ExitCode;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::super::cluster::{cluster_flags, quoted, target_words};
use super::super::place::{One, Place, appwrappers};
use super::super::{Error, program};
use super::list::{DEACTIVATED, awaits_admission};
use super::reach::Written;
use super::workload::{Queued, in_words, other_queue, requeuing};
use super::{Done, Target, block_on, multikueue, now};
use crate::api::{Phase, keys};
use crate::observe::assemble::Wrapper;
use crate::observe::workload::{SeenWorkload, WorkloadCondition};

/// Which of the two commands it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum SwitchAction {
    Suspend,
    Resume,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SuspendPlan {
    /// It is as it should be.
    Already(String),
    /// It cannot be done.
    No(String),
    /// `spec.suspend` of the AppWrapper.
    Spec,
    /// Its annotation `active`: the controller does the rest.
    Annotation,
    /// `spec.active` of its Workload, which somebody else has deactivated.
    Workload(Box<SeenWorkload>),
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Switched {
    action: SwitchAction,
    changed: bool,
    /// The Workload that was activated.
    workload: Option<String>,
}

pub(in crate::cli) fn suspend(target: &Target) -> Result<ExitCode, Error> {
    block_on(switch(target, SwitchAction::Suspend))?.tell(target.output)
}

pub(in crate::cli) fn resume(target: &Target) -> Result<ExitCode, Error> {
    block_on(switch(target, SwitchAction::Resume))?.tell(target.output)
}

async fn switch(target: &Target, action: SwitchAction) -> Result<Done<Switched>, Error> {
    let change = async |place: &Place, one: &One| {
        let wrapper = &*one.wrapper;
        let queued = match may_change(wrapper) {
            Ok(()) => place.workload(&wrapper.uid).await?,
            Err(_) => Queued::Nothing,
        };
        let plan = plan(wrapper, &queued, action, program(), now());
        let message = message(action, &plan, wrapper, &queued);
        carry_out(place, one, plan, action, message).await
    };
    target.change(change).await
}

/// None after a conflict.
async fn carry_out(
    place: &Place,
    one: &One,
    plan: SuspendPlan,
    action: SwitchAction,
    message: String,
) -> Result<Option<Done<Switched>>, Error> {
    let wrapper = &*one.wrapper;
    let done = |yes: bool, changed: bool, workload: Option<String>, message: String| {
        Done::new(one, yes, Switched { action, changed, workload }, &message)
    };
    let identity = json!({"uid": wrapper.uid, "resourceVersion": wrapper.version});
    let (written, workload) = match plan {
        SuspendPlan::Already(how) => return Ok(Some(done(true, false, None, how))),
        SuspendPlan::No(why) => return Ok(Some(done(false, false, None, why))),
        SuspendPlan::Spec => {
            let suspend = action == SwitchAction::Suspend;
            let patch = json!({"metadata": identity, "spec": {"suspend": suspend}});
            (place.patch(&appwrappers(), &wrapper.name, patch).await?, None)
        }
        SuspendPlan::Annotation => {
            let mut metadata = identity;
            let active = action == SwitchAction::Resume;
            metadata["annotations"] = json!({keys::ACTIVE: active.to_string()});
            let mut patch = json!({"metadata": metadata});
            if active && wrapper.queue.is_none() && wrapper.spec.suspend {
                patch["spec"] = json!({"suspend": false}); // nobody else would resume it
            }
            (place.patch(&appwrappers(), &wrapper.name, patch).await?, None)
        }
        SuspendPlan::Workload(workload) => {
            let patch = json!({
                "metadata": {
                    "uid": workload.uid, "resourceVersion": workload.version,
                    "annotations": {keys::DEACTIVATED_FOR: null},
                },
                "spec": {"active": true},
            });
            let gone = || Error::Cluster("the cluster no longer serves Workloads".to_owned());
            let resource = place.workloads().await?.ok_or_else(gone)?;
            (place.patch(&resource, &workload.name, patch).await?, Some(workload.name))
        }
    };
    Ok(match written {
        Written::Yes => Some(done(true, true, workload, message)),
        Written::Refused(why) => {
            Some(done(false, false, workload, format!("was not changed: {why}")))
        }
        Written::Forbidden(error) => return Err(error),
        Written::Conflict => None,
    })
}

/// Whether it stays suspended until somebody resumes it.
pub(super) fn awaits_its_user(wrapper: &Wrapper) -> bool {
    wrapper.is_inactive() || wrapper.queue.is_none() && wrapper.spec.suspend
}

/// Whether anybody may suspend or resume it, if only by its Workload; else why not.
fn may_change(wrapper: &Wrapper) -> Result<(), String> {
    if wrapper.has_manager {
        return Err(format!("is {}", multikueue::COPY));
    }
    if let Some(manager) = wrapper.other_manager().filter(|_| !multikueue::is_sent(wrapper)) {
        return Err(format!("is managed by {manager}, not by this controller"));
    }
    if wrapper.deleting {
        return Err("is being deleted".to_owned());
    }
    match wrapper.status.phase {
        Phase::Succeeded => Err("has succeeded, and Succeeded is final".to_owned()),
        Phase::Failed => Err("has failed, and Failed is final".to_owned()),
        Phase::Terminating => Err("is being deleted".to_owned()),
        Phase::Empty
        | Phase::Suspended
        | Phase::Resuming
        | Phase::Running
        | Phase::Resetting
        | Phase::Suspending => Ok(()),
    }
}

/// What is to be done so that it is suspended, or not.
fn plan(
    wrapper: &Wrapper,
    queued: &Queued,
    action: SwitchAction,
    program: &str,
    now: Timestamp,
) -> SuspendPlan {
    if let Err(why) = may_change(wrapper) {
        return SuspendPlan::No(why + &how_to_run_again(wrapper, program));
    }
    if let Queued::Workload(workload) = queued
        && action == SwitchAction::Resume
        && wrapper.spec.suspend
        && let Some((why, remedy)) = stuck(workload, wrapper)
    {
        return SuspendPlan::No(format!("was not resumed: {why}; {remedy}"));
    }
    if multikueue::is_sent(wrapper) {
        return of_sent(wrapper, queued, action);
    }
    let is_inactive = wrapper.is_inactive();
    match (queued, &wrapper.queue) {
        // it holds without Kueue, too
        (_, _) if action == SwitchAction::Resume && is_inactive => SuspendPlan::Annotation,
        (Queued::Workload(workload), _) => of_workload(workload, wrapper, action, now),
        // nothing admits it; a webhook that keeps the field for Kueue says so
        (Queued::NoKueue, Some(_)) if action == SwitchAction::Resume && wrapper.spec.suspend => {
            SuspendPlan::Spec
        }
        // Kueue has not seen it yet, or will not: it would take the field for its own, and the webhook keeps it for Kueue
        (Queued::NoKueue | Queued::Nothing | Queued::Hidden(_), Some(queue)) => match action {
            SwitchAction::Suspend if is_inactive => SuspendPlan::Already(ALREADY.to_owned()),
            SwitchAction::Suspend => SuspendPlan::Annotation,
            SwitchAction::Resume if !wrapper.spec.suspend => SuspendPlan::Already(RUNS.to_owned()),
            SwitchAction::Resume => SuspendPlan::No(format!(
                "is waiting for admission by queue {queue}; see {program} why {}",
                target_words(&wrapper.name, &wrapper.namespace)
            )),
        },
        (Queued::NoKueue | Queued::Nothing | Queued::Hidden(_), None) => {
            match (action, wrapper.spec.suspend) {
                (SwitchAction::Suspend, true) => SuspendPlan::Already(ALREADY.to_owned()),
                (SwitchAction::Resume, false) => SuspendPlan::Already(RUNS.to_owned()),
                (SwitchAction::Suspend, false) | (SwitchAction::Resume, true) => SuspendPlan::Spec,
            }
        }
    }
}

/// How one that has failed is run again; nothing of another.
fn how_to_run_again(wrapper: &Wrapper, program: &str) -> String {
    if wrapper.status.phase != Phase::Failed || wrapper.deleting || wrapper.has_manager {
        String::new()
    } else if multikueue::is_sent(wrapper) {
        format!("; {}", multikueue::AGAIN)
    } else if wrapper.is_ours() {
        let it = target_words(&wrapper.name, &wrapper.namespace);
        format!("; to recreate it: {program} retry {it}")
    } else {
        String::new()
    }
}

/// What is said where there is nothing to suspend, and nothing to resume.
const ALREADY: &str = "is already suspended";
const RUNS: &str = "is not suspended";

/// Of an AppWrapper that Kueue sends to a worker cluster: its Workload in this cluster alone says whether it runs.
fn of_sent(wrapper: &Wrapper, queued: &Queued, action: SwitchAction) -> SuspendPlan {
    let (verb, active) = match action {
        SwitchAction::Suspend => ("suspend", false),
        SwitchAction::Resume => ("resume", true),
    };
    let how = match queued {
        Queued::Workload(workload) if workload.active == active => {
            let name = &workload.name;
            return SuspendPlan::Already(match action {
                SwitchAction::Suspend => format!("{ALREADY}: its Workload {name} is not active"),
                SwitchAction::Resume => format!("{RUNS}: its Workload {name} is active"),
            });
        }
        Queued::Workload(workload) => multikueue::command(workload, &wrapper.namespace, active),
        Queued::NoKueue | Queued::Nothing | Queued::Hidden(_) => {
            format!("set spec.active of its Workload in this cluster to {active}")
        }
    };
    let manager = keys::MULTIKUEUE;
    SuspendPlan::No(format!("is managed by {manager}, not by this controller; to {verb} it: {how}"))
}

/// Of a Workload that can be seen; the annotation does not ask for a resumption.
fn of_workload(
    workload: &SeenWorkload,
    wrapper: &Wrapper,
    action: SwitchAction,
    now: Timestamp,
) -> SuspendPlan {
    let name = &workload.name;
    match (action, workload.active) {
        (SwitchAction::Suspend, _) if wrapper.is_inactive() => {
            SuspendPlan::Already(ALREADY.to_owned())
        }
        (SwitchAction::Suspend, false) if workload.deactivated_for.is_none() => {
            SuspendPlan::Already(format!("{ALREADY}: its Workload {name} is not active"))
        }
        // one that the controller has deactivated for a while stays so from now on
        (SwitchAction::Suspend, true | false) => SuspendPlan::Annotation,
        // its queue was removed: Kueue would admit the Workload, and never finish it
        (SwitchAction::Resume, true | false) if wrapper.queue.is_none() => {
            if wrapper.spec.suspend {
                SuspendPlan::Spec
            } else {
                SuspendPlan::Already(RUNS.to_owned())
            }
        }
        (SwitchAction::Resume, true) if wrapper.spec.suspend => {
            let later = requeuing(workload, now).map(|text| format!("; {text}"));
            SuspendPlan::Already(format!(
                "is already active: Workload {name} is waiting for admission{}",
                later.unwrap_or_default()
            ))
        }
        (SwitchAction::Resume, true) => SuspendPlan::Already(RUNS.to_owned()),
        (SwitchAction::Resume, false) => SuspendPlan::Workload(Box::new(workload.clone())),
    }
}

/// Whether Kueue suspends one that names no queue again, as it does with `manageJobsWithoutQueueName`: it has made a Workload
/// without a queue, which it never admits.
fn is_kept_without_queue(workload: &SeenWorkload, wrapper: &Wrapper) -> bool {
    let is_waiting = !workload.is("Admitted") && !workload.is("Finished");
    let has_queue = wrapper.queue.is_some() || workload.queue.is_some();
    wrapper.is_ours() && wrapper.spec.suspend && !has_queue && is_waiting
}

/// Why Kueue does not admit one that is suspended, and what its user can do; none where that is not Kueue's to say, and where
/// it waits for its turn.
pub(super) fn held(wrapper: &Wrapper, queued: &Queued, program: &str) -> Option<(String, String)> {
    let Queued::Workload(workload) = queued else { return None };
    let (phase, is_sent) = (wrapper.status.phase, multikueue::is_sent(wrapper));
    // before a worker cluster has admitted it for the first time, nobody writes its phase
    let is_waiting = phase == Phase::Suspended || is_sent && phase == Phase::Empty;
    if !is_waiting || wrapper.deleting || !(wrapper.is_ours() || is_sent) {
        return None;
    }
    let (why, remedy) = stuck(workload, wrapper).or_else(|| {
        let is_held = (awaits_admission(wrapper) || is_sent) && !workload.active;
        let resume = if is_sent {
            multikueue::command(workload, &wrapper.namespace, true)
        } else {
            format!("{program} resume {}", target_words(&wrapper.name, &wrapper.namespace))
        };
        is_held.then(|| (DEACTIVATED.to_owned(), format!("to resume it: {resume}")))
    })?;
    let is_copy = wrapper.has_manager;
    Some((why, if is_copy { format!("it is {}", multikueue::COPY) } else { remedy }))
}

/// Why Kueue does not admit it by this Workload, whoever resumes it, and what its user can do.
fn stuck(workload: &SeenWorkload, wrapper: &Wrapper) -> Option<(String, String)> {
    let (name, namespace) = (quoted(&workload.name), quoted(&wrapper.namespace));
    let flags = cluster_flags();
    if is_kept_without_queue(workload, wrapper) {
        let (aw, key) = (quoted(&wrapper.name), keys::QUEUE_NAME);
        return Some((
            "Kueue has created a Workload without a queue for it, and would suspend it again"
                .to_owned(),
            format!(
                "to give it a queue: kubectl label appwrapper {aw} -n {namespace} {key}=QUEUE{flags}; if \
                 manageJobsWithoutQueueName no longer applies to it, delete the Workload {name}"
            ),
        ));
    }
    let why = finished(workload, wrapper)
        .or_else(|| given_up(workload, wrapper))
        .or_else(|| other_queue(workload, wrapper))?;
    let remedy = if wrapper.is_prebuilt {
        format!(
            "Kueue does not create a prebuilt Workload: save its manifest (kubectl get workload {name} \
             -n {namespace}{flags} -o yaml), delete it, and create it again with spec.active true and without its status"
        )
    } else {
        let delete = format!("kubectl delete workload {name} -n {namespace}{flags}");
        format!("to let Kueue create another one: {delete}")
    };
    Some((why, remedy))
}

/// That Kueue has finished the Workload of one that is suspended and has not ended, as where it cannot start it. Without a
/// queue, Kueue does not have to start it.
fn finished(workload: &SeenWorkload, wrapper: &Wrapper) -> Option<String> {
    let by = workload.condition("Finished").filter(|it| it.status == "True")?;
    let is_needed = wrapper.queue.is_some() && wrapper.spec.suspend;
    is_needed.then(|| {
        let (name, why) = (&workload.name, in_words(by));
        format!("Kueue has finished its Workload {name} ({why}) and does not start it")
    })
}

/// The condition by which Kueue itself has deactivated a Workload, for more than `spec.active`: it does not take that back
/// when `spec.active` is true again. Source: Kueue 0.18, `workload_controller.go`.
fn given_up_by(workload: &SeenWorkload) -> Option<&WorkloadCondition> {
    let by_kueue = |kind: &str| {
        workload.condition(kind).filter(|it| it.reason.starts_with("DeactivatedDueTo"))
    };
    let target = workload.condition("DeactivationTarget").filter(|it| it.status == "True");
    target
        .or_else(|| by_kueue("Evicted").filter(|it| it.status == "True"))
        .or_else(|| by_kueue("Requeued").filter(|it| it.status == "False"))
}

/// That Kueue has deactivated it for good; without a queue, it does not have to admit it.
fn given_up(workload: &SeenWorkload, wrapper: &Wrapper) -> Option<String> {
    let by = given_up_by(workload).filter(|_| !workload.is("QuotaReserved"))?;
    let is_needed = wrapper.queue.is_some() || !workload.active;
    is_needed.then(|| {
        format!(
            "Kueue has deactivated its Workload {} ({}) and does not activate it again",
            workload.name, by.reason
        )
    })
}

/// Its Workload, where somebody other than the controller has deactivated it: the controller does not activate it.
fn deactivated_by_others(queued: &Queued) -> Option<&SeenWorkload> {
    match queued {
        Queued::Workload(workload) => {
            Some(&**workload).filter(|it| !it.active && it.deactivated_for.is_none())
        }
        Queued::NoKueue | Queued::Nothing | Queued::Hidden(_) => None,
    }
}

/// What follows where resources may exist.
const fn deletion(queued: &Queued) -> &'static str {
    match queued {
        Queued::NoKueue => "the controller deletes its resources",
        Queued::Nothing | Queued::Hidden(_) | Queued::Workload(_) => {
            "the controller deletes its resources, then Kueue releases its quota"
        }
    }
}

/// What was done, in words.
fn message(action: SwitchAction, plan: &SuspendPlan, wrapper: &Wrapper, queued: &Queued) -> String {
    let key = keys::ACTIVE;
    let has_queue = wrapper.queue.is_some() && !matches!(queued, Queued::NoKueue);
    match (action, plan) {
        (_, SuspendPlan::Already(text) | SuspendPlan::No(text)) => text.clone(),
        (SwitchAction::Suspend, SuspendPlan::Spec) => {
            "suspended (spec.suspend): the controller deletes its resources".to_owned()
        }
        (SwitchAction::Resume, SuspendPlan::Spec) => "resumed (spec.suspend)".to_owned(),
        (SwitchAction::Suspend, SuspendPlan::Annotation) => {
            let then = match wrapper.status.phase {
                Phase::Empty | Phase::Suspended => "it stays suspended",
                Phase::Resuming
                | Phase::Running
                | Phase::Resetting
                | Phase::Suspending
                | Phase::Succeeded
                | Phase::Failed
                | Phase::Terminating => deletion(queued),
            };
            format!("suspended (annotation {key}): {then}")
        }
        (SwitchAction::Resume, SuspendPlan::Annotation) => {
            // what Kueue has given up is not activated by this command
            let is_activated = |it: &&SeenWorkload| has_queue && given_up(it, wrapper).is_none();
            if let Some(workload) = deactivated_by_others(queued).filter(is_activated) {
                return format!(
                    "resumed (annotation {key}); somebody else has deactivated its Workload {}: run this command \
                     again to activate it",
                    workload.name
                );
            }
            let restarts = wrapper.status.phase == Phase::Resetting;
            let then = match (has_queue, restarts) {
                (true, true) => ": it restarts when its resources are deleted",
                (true, false) => ": it returns to its queue",
                (false, _) => "",
            };
            format!("resumed (annotation {key}){then}")
        }
        (SwitchAction::Suspend | SwitchAction::Resume, SuspendPlan::Workload(workload)) => {
            format!(
                "resumed through Kueue: spec.active of its Workload {} is now true; it is waiting \
                 for admission",
                workload.name
            )
        }
    }
}

#[cfg(test)]
mod tests;
