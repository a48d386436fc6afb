//! `appwrapper wait`: until an AppWrapper reaches a phase, or can never reach it.

use std::process::ExitCode;

use serde::Serialize;

use super::super::place::{One, Place};
use super::super::{Error, term};
use super::list::state;
use super::observations::{Observation, Observations};
use super::words::NOTHING;
use super::{Done, Patience, Target, block_on, now, sentence, words};
use crate::api::Phase;
use crate::observe::assemble::Wrapper;
use crate::tuning::Period;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    target: Target,
    /// Phase to wait for, such as Running or Succeeded; or deleted
    #[arg(long = "for", value_name = "PHASE|deleted", value_parser = goal)]
    goal: Goal,
    /// Maximum time to wait, such as 90s or 1h30m; by default without limit
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Period>,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Phase(Phase),
    Deleted,
}

/// What follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WaitState {
    Reached,
    Wait,
    /// It will never be, and why.
    Never(String),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Waited {
    #[serde(rename = "for")]
    goal: String,
    reached: bool,
    timed_out: bool,
    /// The last phase that was seen; none where it is gone.
    phase: Option<Phase>,
}

fn goal(text: &str) -> Result<Goal, String> {
    // `delete` is the word of kubectl
    if ["deleted", "delete"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Ok(Goal::Deleted);
    }
    let named = Phase::ALL.into_iter().filter(|phase| !phase.is_empty());
    let found = named.clone().find(|phase| phase.as_str().eq_ignore_ascii_case(text));
    found.map(Goal::Phase).ok_or_else(|| {
        let all: Vec<&str> = named.map(Phase::as_str).collect();
        format!("must be deleted or a phase: {}", all.join(" "))
    })
}

pub(in crate::cli) fn run(args: &Args) -> Result<ExitCode, Error> {
    block_on(wait(args))?.tell(args.target.output)
}

async fn wait(args: &Args) -> Result<Done<Waited>, Error> {
    let name = &args.target.name;
    let patience = Patience::new(args.timeout);
    let look = async {
        let place = args.target.place().await?;
        let found = place.find(name).await?;
        Ok::<_, Error>((place, found))
    };
    let (place, found) = patience.answer(look).await?;
    let mut sight = match found {
        Some(one) => Observation::Is(one.into()),
        None if args.goal == Goal::Deleted => Observation::Gone,
        None => return Err(Error::Negative(place.nobody(name))),
    };
    let was_there = matches!(sight, Observation::Is(_));
    let mut verdict = judge(args.goal, &sight);
    let mut timed_out = false;
    if let (WaitState::Wait, Observation::Is(one)) = (&verdict, &sight) {
        let mut course = Course { goal: args.goal, last: (**one).clone() };
        let watched = course.watch(&place);
        let end = match patience.left() {
            Some(left) => tokio::time::timeout(left, watched).await.ok(),
            None => Some(watched.await),
        };
        (sight, verdict) = match end {
            Some(end) => end?,
            None => (Observation::Is(course.last.into()), WaitState::Wait),
        };
        timed_out = verdict == WaitState::Wait;
    }
    let message = message(args, was_there, &sight, &verdict);
    Ok(Done {
        namespace: place.namespace.clone(),
        name: name.clone(),
        yes: verdict == WaitState::Reached,
        facts: Waited {
            goal: text(args.goal).to_owned(),
            reached: verdict == WaitState::Reached,
            timed_out,
            phase: match &sight {
                Observation::Is(one) => Some(one.wrapper.status.phase),
                Observation::Gone => None,
            },
        },
        message: sentence(&place.namespace, name, &message),
    })
}

/// The AppWrapper as it was seen last, and what is waited for.
struct Course {
    goal: Goal,
    last: One,
}

impl Course {
    /// Watches until there is a verdict.
    async fn watch(&mut self, place: &Place) -> Result<(Observation, WaitState), Error> {
        let mut observations = Observations::of(place, &self.last);
        loop {
            let sight = observations.next().await?;
            let verdict = judge(self.goal, &sight);
            match (&sight, &verdict) {
                (Observation::Is(one), WaitState::Wait) => self.note(one),
                _ => return Ok((sight, verdict)),
            }
        }
    }

    fn note(&mut self, one: &One) {
        if one.wrapper.status.phase != self.last.wrapper.status.phase {
            term::progress(&format!("{}: {}", one.wrapper.name, phase_and_state(&one.wrapper)));
        }
        self.last = one.clone();
    }
}

fn judge(goal: Goal, sight: &Observation) -> WaitState {
    let never = |why: &str| WaitState::Never(why.to_owned());
    let wrapper = match (goal, sight) {
        (Goal::Deleted, Observation::Gone) => return WaitState::Reached,
        (Goal::Phase(_), Observation::Gone) => return never("it was deleted"),
        (Goal::Deleted, Observation::Is(_)) => return WaitState::Wait,
        (Goal::Phase(wanted), Observation::Is(one)) if one.wrapper.status.phase == wanted => {
            return WaitState::Reached;
        }
        (Goal::Phase(_), Observation::Is(one)) => &one.wrapper,
    };
    match wrapper.status.phase {
        _ if goal == Goal::Phase(Phase::Terminating) => WaitState::Wait,
        _ if wrapper.deleting => never("it is being deleted"),
        Phase::Terminating => never("it is being deleted"),
        Phase::Succeeded => never("it has succeeded, and Succeeded is final"),
        Phase::Failed => WaitState::Never(format!("it {}", failed(wrapper))),
        Phase::Empty
        | Phase::Suspended
        | Phase::Resuming
        | Phase::Running
        | Phase::Resetting
        | Phase::Suspending => WaitState::Wait,
    }
}

/// That it has failed, and why, as far as that is known.
pub(super) fn failed(wrapper: &Wrapper) -> String {
    let recorded = words::last_failure(&wrapper.status.attempts);
    let cause = recorded.map(|(_, failure)| words::cause(failure));
    let cause = cause.filter(|cause| !cause.is_empty()).unwrap_or_else(|| state(wrapper, now()));
    if cause == NOTHING { "has failed".to_owned() } else { format!("has failed: {cause}") }
}

/// Its phase, and its state where there is something to say.
fn phase_and_state(wrapper: &Wrapper) -> String {
    let phase = words::phase(wrapper.status.phase);
    let state = state(wrapper, now());
    if state == NOTHING { phase.to_owned() } else { format!("{phase}, {state}") }
}

const fn text(goal: Goal) -> &'static str {
    match goal {
        Goal::Phase(phase) => phase.as_str(),
        Goal::Deleted => "deleted",
    }
}

fn message(args: &Args, was_there: bool, sight: &Observation, verdict: &WaitState) -> String {
    let goal = |reach: &str| match args.goal {
        Goal::Phase(phase) => format!("{reach} phase {}", phase.as_str()),
        Goal::Deleted => "be deleted".to_owned(),
    };
    match verdict {
        WaitState::Reached if !was_there => "does not exist".to_owned(),
        WaitState::Reached if args.goal == Goal::Deleted => "was deleted".to_owned(),
        WaitState::Reached => goal("reached"),
        WaitState::Never(why) => format!("will not {}: {why}", goal("reach")),
        WaitState::Wait => {
            let timeout = args.timeout.map(|timeout| format!(" within {timeout}"));
            let now_is = match sight {
                Observation::Is(one) => format!("it is {}", phase_and_state(&one.wrapper)),
                Observation::Gone => "it is gone".to_owned(),
            };
            let not = match args.goal {
                Goal::Phase(_) => format!("did not {}", goal("reach")),
                Goal::Deleted => "was not deleted".to_owned(),
            };
            format!("{not}{}: {now_is}", timeout.unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::{ClusterArgs, Output};
    use crate::observe::raw_object::RawObject;

    fn args() -> Args {
        let target = Target {
            name: "aw".to_owned(),
            namespace: None,
            cluster: ClusterArgs::default(),
            output: Output::Text,
        };
        Args { target, goal: Goal::Deleted, timeout: None }
    }

    #[test]
    fn a_state_that_says_nothing_is_left_out() {
        for (phase, want) in [
            ("Succeeded", "was not deleted: it is Succeeded"),
            ("Failed", "was not deleted: it is Failed, p/c 3"),
            ("Running", "was not deleted: it is Running, waiting for its pods"),
        ] {
            assert_eq!(message(&args(), true, &sight(phase, false), &WaitState::Wait), want);
        }
        let wrapper = |attempts: &str| Wrapper {
            status: serde_json::from_str(attempts).unwrap(),
            ..Wrapper::default()
        };
        for (status, want) in [
            (r#"{"phase": "Failed"}"#, "has failed"),
            (
                r#"{"phase": "Failed", "attempts": [{"attempt": 0, "failure": {"pod": "p"}}]}"#,
                "has failed: pod p",
            ),
        ] {
            assert_eq!(failed(&wrapper(status)), want);
        }
    }

    #[test]
    fn only_what_was_there_was_deleted() {
        let args = args();
        let said = |was_there| message(&args, was_there, &Observation::Gone, &WaitState::Reached);
        assert_eq!([true, false].map(said), ["was deleted", "does not exist"]);
    }

    fn sight(phase: &str, deleting: bool) -> Observation {
        let mut object = json!({
            "metadata": {"name": "aw", "namespace": "ns", "uid": "u"},
            "spec": {"components": []},
            "status": {"phase": phase, "attempts": [
                {"attempt": 0, "failure": {"pod": "p", "container": "c", "exitCode": 3}},
            ]},
        });
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        Observation::Is(One::of(seen).unwrap().into())
    }

    #[test]
    fn a_failure_that_came_back_from_a_worker_cluster_is_told() {
        let object = json!({
            "metadata": {"name": "aw", "namespace": "ns", "uid": "u"},
            "spec": {"components": [], "managedBy": "kueue.x-k8s.io/multikueue"},
            "status": {"phase": "Failed", "conditions": [{"type": "LastFailure", "status": "True",
                "reason": "Fail", "message": "pod p exited with code 3",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        let sight = Observation::Is(One::of(seen).unwrap().into());
        let want = WaitState::Never("it has failed: pod p exited with code 3".to_owned());
        assert_eq!(judge(Goal::Phase(Phase::Succeeded), &sight), want);
    }

    #[test]
    fn a_goal_is_a_phase_in_any_case_or_deleted() {
        for (text, want) in [
            ("Running", Goal::Phase(Phase::Running)),
            ("succeeded", Goal::Phase(Phase::Succeeded)),
            ("FAILED", Goal::Phase(Phase::Failed)),
            ("Deleted", Goal::Deleted),
            ("delete", Goal::Deleted),
        ] {
            assert_eq!(goal(text), Ok(want));
        }
        for text in ["", "Ready", "condition=PodsReady"] {
            let error = goal(text).unwrap_err();
            assert!(error.contains("or a phase: Suspended Resuming Running"), "{error}");
        }
    }

    #[test]
    fn an_end_is_reached_or_never_will_be() {
        let phase = Goal::Phase;
        let never = |why: &str| WaitState::Never(why.to_owned());
        let failed = "it has failed: pod p, container c, exit code 3";
        for (goal, sight, want) in [
            (phase(Phase::Running), sight("Running", false), WaitState::Reached),
            (phase(Phase::Running), sight("Suspended", false), WaitState::Wait),
            (phase(Phase::Running), sight("Resetting", false), WaitState::Wait),
            (phase(Phase::Succeeded), sight("Running", false), WaitState::Wait),
            (phase(Phase::Succeeded), sight("Failed", false), never(failed)),
            (
                phase(Phase::Failed),
                sight("Succeeded", false),
                never("it has succeeded, and Succeeded is final"),
            ),
            (phase(Phase::Failed), sight("Failed", true), WaitState::Reached),
            (phase(Phase::Running), sight("Suspending", true), never("it is being deleted")),
            (phase(Phase::Running), sight("Terminating", true), never("it is being deleted")),
            (phase(Phase::Terminating), sight("Running", true), WaitState::Wait),
            (phase(Phase::Terminating), sight("Failed", false), WaitState::Wait),
            (phase(Phase::Terminating), Observation::Gone, never("it was deleted")),
            (phase(Phase::Succeeded), Observation::Gone, never("it was deleted")),
            (Goal::Deleted, sight("Succeeded", false), WaitState::Wait),
            (Goal::Deleted, Observation::Gone, WaitState::Reached),
        ] {
            assert_eq!(judge(goal, &sight), want, "{goal:?}");
        }
    }
}
