//! `appwrapper suspend` and `resume`: by `spec.suspend`, or by the Workload where Kueue has the say.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;

use super::super::place::{One, Place, appwrappers};
use super::super::{Error, program};
use super::reach::Written;
use super::workload::{Queued, Workload};
use super::{Done, Target, block_on};
use crate::api::{Phase, keys};
use crate::observe::assemble::Wrapper;

/// How often a change is tried after a conflict.
const TRIES: u32 = 5;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Wish {
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
    Wrapper,
    /// `spec.active` of its Workload.
    Workload(Workload),
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Switched {
    action: Wish,
    changed: bool,
    /// The Workload through which Kueue does it.
    workload: Option<String>,
}

pub(in crate::cli) fn suspend(target: &Target) -> Result<ExitCode, Error> {
    block_on(switch(target, Wish::Suspend))?.tell(target.output)
}

pub(in crate::cli) fn resume(target: &Target) -> Result<ExitCode, Error> {
    block_on(switch(target, Wish::Resume))?.tell(target.output)
}

async fn switch(target: &Target, wish: Wish) -> Result<Done<Switched>, Error> {
    let place = target.place().await?;
    for _ in 0..TRIES {
        let one = place.one(&target.name).await?;
        let wrapper = &*one.wrapper;
        let queued = match may_change(wrapper) {
            Ok(()) => place.workload(&wrapper.uid).await?,
            Err(_) => Queued::Nothing,
        };
        let plan = plan(wrapper, &queued, wish, program());
        if let Some(done) = carry_out(&place, &one, plan, wish).await? {
            return Ok(done);
        }
    }
    let Target { name, .. } = target;
    Err(Error::Negative(format!(
        "AppWrapper {}/{name} was modified concurrently {TRIES} times: nothing was changed; try again",
        place.namespace
    )))
}

/// None after a conflict.
async fn carry_out(
    place: &Place,
    one: &One,
    plan: SuspendPlan,
    wish: Wish,
) -> Result<Option<Done<Switched>>, Error> {
    let wrapper = &*one.wrapper;
    let done = |yes: bool, changed: bool, workload: Option<String>, message: String| Done {
        namespace: wrapper.namespace.clone(),
        name: wrapper.name.clone(),
        yes,
        facts: Switched { action: wish, changed, workload },
        message: format!("{}/{}: {message}", wrapper.namespace, wrapper.name),
    };
    let (written, workload) = match plan {
        SuspendPlan::Already(how) => return Ok(Some(done(true, false, None, how))),
        SuspendPlan::No(why) => return Ok(Some(done(false, false, None, why))),
        SuspendPlan::Wrapper => {
            let suspend = wish == Wish::Suspend;
            let patch = json!({
                "metadata": {"uid": wrapper.uid, "resourceVersion": wrapper.version},
                "spec": {"suspend": suspend},
            });
            (place.patch(&appwrappers(), &wrapper.name, patch).await?, None)
        }
        SuspendPlan::Workload(workload) => {
            let patch = json!({
                "metadata": {
                    "uid": workload.uid, "resourceVersion": workload.version,
                    "annotations": {keys::DEACTIVATED_FOR: null},
                },
                "spec": {"active": wish == Wish::Resume},
            });
            let Some(resource) = place.workloads().await? else { return Ok(None) };
            (place.patch(&resource, &workload.name, patch).await?, Some(workload.name))
        }
    };
    Ok(match written {
        Written::Yes => {
            let message = message(wish, workload.as_deref());
            Some(done(true, true, workload, message))
        }
        Written::Refused(why) => Some(done(false, false, workload, format!("refused: {why}"))),
        Written::Conflict => None,
    })
}

/// Whether anybody may suspend or resume it; else why not.
fn may_change(wrapper: &Wrapper) -> Result<(), String> {
    if let Some(manager) = wrapper.other_manager() {
        return Err(format!("it is managed by {manager}, not by this controller"));
    }
    if wrapper.deleting {
        return Err("it is being deleted".to_owned());
    }
    match wrapper.status.phase {
        Phase::Succeeded => Err("it has succeeded: nothing is running".to_owned()),
        Phase::Failed => Err("it has failed, and Failed is final".to_owned()),
        Phase::Terminating => Err("it is being deleted".to_owned()),
        Phase::Empty
        | Phase::Suspended
        | Phase::Resuming
        | Phase::Running
        | Phase::Resetting
        | Phase::Suspending => Ok(()),
    }
}

/// What is to be done so that it is suspended, or not.
fn plan(wrapper: &Wrapper, queued: &Queued, wish: Wish, program: &str) -> SuspendPlan {
    if let Err(why) = may_change(wrapper) {
        let retry = match wrapper.status.phase {
            Phase::Failed if !wrapper.deleting && wrapper.is_ours() => {
                format!("; to recreate it: {program} retry {}", wrapper.name)
            }
            _ => String::new(),
        };
        return SuspendPlan::No(why + &retry);
    }
    match (queued, &wrapper.queue) {
        (Queued::Workload(workload), _) => of_workload(workload, wrapper, wish),
        (Queued::Hidden(why), Some(queue)) => SuspendPlan::No(format!(
            "it is in queue {queue} and controlled by its Workload, which you cannot list: {why}"
        )),
        // Kueue has not seen it yet, or will not: it would take the field for its own
        (Queued::Nothing, Some(queue)) => SuspendPlan::No(format!(
            "it is in queue {queue}, but Kueue has not created its Workload (yet), and only Kueue \
             may set spec.suspend"
        )),
        (Queued::NoKueue, Some(_))
        | (Queued::NoKueue | Queued::Nothing | Queued::Hidden(_), None) => {
            match (wish, wrapper.spec.suspend) {
                (Wish::Suspend, true) => SuspendPlan::Already("is already suspended".to_owned()),
                (Wish::Resume, false) => SuspendPlan::Already("is not suspended".to_owned()),
                (Wish::Suspend, false) | (Wish::Resume, true) => SuspendPlan::Wrapper,
            }
        }
    }
}

fn of_workload(workload: &Workload, wrapper: &Wrapper, wish: Wish) -> SuspendPlan {
    let name = &workload.name;
    match (wish, workload.active) {
        // from now on it is the user who has deactivated it
        (Wish::Suspend, false) if workload.returns => SuspendPlan::Workload(workload.clone()),
        (Wish::Suspend, false) => {
            SuspendPlan::Already(format!("is already suspended: its Workload {name} is not active"))
        }
        (Wish::Resume, true) if wrapper.spec.suspend => SuspendPlan::Already(format!(
            "is already active: Workload {name} is waiting for admission"
        )),
        (Wish::Resume, true) => SuspendPlan::Already("is not suspended".to_owned()),
        (Wish::Suspend, true) | (Wish::Resume, false) => SuspendPlan::Workload(workload.clone()),
    }
}

/// What was done, in words.
fn message(wish: Wish, workload: Option<&str>) -> String {
    match (wish, workload) {
        (Wish::Suspend, None) => {
            "suspended (spec.suspend): the controller deletes its resources".to_owned()
        }
        (Wish::Resume, None) => "resumed (spec.suspend)".to_owned(),
        (Wish::Suspend, Some(workload)) => format!(
            "suspended through Kueue: spec.active of its Workload {workload} is now false\n\
             note: Kueue 0.18 releases its quota immediately, while its pods may still terminate"
        ),
        (Wish::Resume, Some(workload)) => format!(
            "resumed through Kueue: spec.active of its Workload {workload} is now true; it is \
             waiting for admission"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapper(phase: Phase, queue: Option<&str>, suspend: bool) -> Wrapper {
        let mut wrapper =
            Wrapper { name: "aw".into(), queue: queue.map(str::to_owned), ..Wrapper::default() };
        wrapper.status.phase = phase;
        wrapper.spec.suspend = suspend;
        wrapper
    }

    fn workload(active: bool) -> Workload {
        Workload { name: "w".into(), active, ..Workload::default() }
    }

    fn planned(wrapper: &Wrapper, queued: &Queued, wish: Wish) -> SuspendPlan {
        plan(wrapper, queued, wish, "kubectl aw")
    }

    #[test]
    fn without_a_queue_the_spec_says_whether_it_is_suspended() {
        use Wish::{Resume, Suspend};
        let already = |text: &str| SuspendPlan::Already(text.to_owned());
        for (suspended, wish, want) in [
            (false, Suspend, SuspendPlan::Wrapper),
            (true, Suspend, already("is already suspended")),
            (true, Resume, SuspendPlan::Wrapper),
            (false, Resume, already("is not suspended")),
        ] {
            for (queue, queued) in [
                (None, Queued::NoKueue),
                (None, Queued::Nothing),
                (None, Queued::Hidden("x".into())),
                (Some("gpu"), Queued::NoKueue),
            ] {
                let wrapper = wrapper(Phase::Running, queue, suspended);
                assert_eq!(planned(&wrapper, &queued, wish), want, "{queued:?}");
            }
        }
    }

    #[test]
    fn with_a_workload_kueue_does_it() {
        let returning = Workload { returns: true, ..workload(false) };
        let taken_over =
            of_workload(&returning, &wrapper(Phase::Suspended, Some("gpu"), true), Wish::Suspend);
        assert_eq!(taken_over, SuspendPlan::Workload(returning));
        let wrapper = |suspend| wrapper(Phase::Running, Some("gpu"), suspend);
        let of = |active| Queued::Workload(workload(active));
        let suspend = planned(&wrapper(false), &of(true), Wish::Suspend);
        assert_eq!(suspend, SuspendPlan::Workload(workload(true)));
        let resume = planned(&wrapper(true), &of(false), Wish::Resume);
        assert_eq!(resume, SuspendPlan::Workload(workload(false)));
        for (suspended, active, wish, want) in [
            (true, false, Wish::Suspend, "its Workload w is not active"),
            (true, true, Wish::Resume, "is waiting for admission"),
            (false, true, Wish::Resume, "is not suspended"),
        ] {
            match planned(&wrapper(suspended), &of(active), wish) {
                SuspendPlan::Already(text) => assert!(text.contains(want), "{text}"),
                other => panic!("{other:?}"),
            }
        }
        for queued in [Queued::Nothing, Queued::Hidden("forbidden".into())] {
            match planned(&wrapper(false), &queued, Wish::Suspend) {
                SuspendPlan::No(why) => assert!(why.contains("in queue gpu"), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_has_ended_or_is_not_ours_is_left_alone() {
        let mut deleting = wrapper(Phase::Running, None, false);
        deleting.deleting = true;
        let mut managed = wrapper(Phase::Running, None, false);
        managed.spec.managed_by = Some("kueue.x-k8s.io/multikueue".into());
        let mut ours = wrapper(Phase::Running, None, false);
        ours.spec.managed_by = Some(keys::CONTROLLER_NAME.into());
        assert_eq!(planned(&ours, &Queued::NoKueue, Wish::Suspend), SuspendPlan::Wrapper);
        for (wrapper, want) in [
            (wrapper(Phase::Succeeded, None, false), "it has succeeded"),
            (wrapper(Phase::Failed, None, true), "kubectl aw retry aw"),
            (wrapper(Phase::Terminating, None, false), "being deleted"),
            (deleting, "being deleted"),
            (managed, "managed by kueue.x-k8s.io/multikueue"),
        ] {
            for wish in [Wish::Suspend, Wish::Resume] {
                match planned(&wrapper, &Queued::NoKueue, wish) {
                    SuspendPlan::No(why) => assert!(why.contains(want), "{why}"),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn who_suspends_through_kueue_is_told_of_the_quota() {
        assert!(message(Wish::Suspend, Some("w")).contains("releases its quota immediately"));
        assert!(!message(Wish::Suspend, None).contains("quota"));
    }
}
