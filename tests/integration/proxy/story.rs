//! What AppWrappers go through while faults strike, and what must have come of it.

use appwrapper::world::faults::Effect;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::line::Line;
use crate::harness::{
    Case, Log, RawObject, attempts_do_not_overlap, job, pod, quota_without_a_gap, tuned,
};
use crate::objects::config_map;

/// Label on all that an AppWrapper has made.
const OWNED: &str = "workload.codeflare.dev/appwrapper-uid";
/// Label that says in which attempt.
const ATTEMPT: &str = "workload.codeflare.dev/attempt";
/// Label by which that is found.
const LABEL: &str = "workload.codeflare.dev/appwrapper";

/// A story.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Story {
    /// A Job fails once and then succeeds.
    Retried,
    /// A Pod succeeds, and goes at once.
    Pod,
    /// A Job succeeds beside a `ConfigMap`.
    Two,
    /// A Job is suspended in the middle, and resumed.
    Suspended,
    /// A Job and a `ConfigMap` are deleted in the middle.
    Deleted,
    /// A pod does not go when it is suspended.
    Stuck,
    /// A Job whose label was taken away, so that no watch shows it, is suspended.
    Hidden,
    /// It is suspended at the moment of the fault, and resumed.
    SuspendedThen,
    /// It is deleted at the moment of the fault.
    DeletedThen,
}

/// What is expected at the end.
#[derive(Clone, Copy)]
struct End {
    /// At least and at most.
    attempts: (usize, usize),
    restarts: i64,
    /// Nothing may be left.
    empty: bool,
    /// Kinds and prefixes of names: one of each was made in each attempt, where every attempt came so
    /// far.
    made: &'static [(&'static str, &'static str)],
}

impl Story {
    pub const ALL: [Self; 9] = [
        Self::Retried,
        Self::Pod,
        Self::Two,
        Self::Suspended,
        Self::Deleted,
        Self::Stuck,
        Self::Hidden,
        Self::SuspendedThen,
        Self::DeletedThen,
    ];

    /// How many calls a controller makes at least, where nothing goes wrong; for those that end with the
    /// fault, up to the moment at which all is ready.
    pub const fn calls(self) -> u32 {
        match self {
            Self::Retried => 15,
            Self::Pod => 10,
            Self::Two | Self::DeletedThen => 8,
            Self::Suspended => 16,
            Self::Deleted | Self::Hidden => 14,
            Self::Stuck => 12,
            Self::SuspendedThen => 6,
        }
    }

    const fn end(self) -> End {
        let once = End { attempts: (1, 1), restarts: 0, empty: true, made: &[] };
        match self {
            Self::Retried => End {
                attempts: (2, 2),
                restarts: 1,
                empty: false,
                made: &[("Job", "j"), ("Pod", "j-")],
            },
            Self::Two => End {
                empty: false,
                made: &[("Job", "j"), ("Pod", "j-"), ("ConfigMap", "c")],
                ..once
            },
            Self::Suspended => {
                End { attempts: (2, 2), empty: false, made: &[("Job", "j")], ..once }
            }
            Self::SuspendedThen => {
                End { attempts: (1, 2), empty: false, made: &[("Job", "j")], ..once }
            }
            Self::Pod | Self::Stuck => End { made: &[("Pod", "p")], ..once },
            Self::Hidden => End { made: &[("Job", "j")], ..once },
            Self::Deleted => End { made: &[("Job", "j"), ("ConfigMap", "c")], ..once },
            Self::DeletedThen => {
                End { attempts: (0, 1), made: &[("Job", "j"), ("ConfigMap", "c")], ..once }
            }
        }
    }

    /// Creates the AppWrapper `aw`, does to it what is to be done, and waits for its end.
    pub async fn play(self, case: &Case, line: &Line) {
        let (settings, templates) = self.wrapped();
        case.wrap("aw", tuned(settings), templates).await;
        match self {
            Self::Retried | Self::Two => drop(case.phase("aw", "Succeeded").await),
            Self::Pod => drop(case.condition("aw", "ResourcesDeployed", "False").await),
            Self::Suspended => {
                case.phase("aw", "Running").await;
                suspend_and_resume(case).await;
            }
            Self::SuspendedThen => {
                struck_or_ready(case, line).await;
                suspend_and_resume(case).await;
            }
            Self::Deleted => {
                case.phase("aw", "Running").await;
                case.delete_wrapper("aw").await;
                case.gone("AppWrapper", "aw").await;
            }
            Self::DeletedThen => {
                struck_or_ready(case, line).await;
                case.delete_wrapper("aw").await;
                case.gone("AppWrapper", "aw").await;
            }
            Self::Stuck => {
                case.pod("p", "Running").await;
                case.suspend("aw", true).await;
                case.phase("aw", "Suspended").await;
            }
            Self::Hidden => {
                case.phase("aw", "Running").await;
                let unlabelled = json!({"metadata": {"labels": {LABEL: null}}});
                case.change("batch/v1", "Job", "j", unlabelled).await;
                case.suspend("aw", true).await;
                case.phase("aw", "Suspended").await;
            }
        }
    }

    /// Annotations and templates.
    fn wrapped(self) -> (&'static [(&'static str, &'static str)], Vec<Value>) {
        let at_once = [("run-for", "0s")];
        match self {
            Self::Retried => {
                let life = [("run-for", "1s"), ("fail-until-attempt", "1")];
                (&[], vec![job("j", json!({}), &life)])
            }
            Self::Pod => (&[("successTTLDuration", "0s")], vec![pod("p", &at_once)]),
            Self::Two => (&[], vec![job("j", json!({}), &at_once), config_map("c")]),
            Self::Suspended | Self::SuspendedThen | Self::Hidden => {
                (&[], vec![job("j", json!({}), &[])])
            }
            Self::Deleted | Self::DeletedThen => {
                (&[], vec![job("j", json!({}), &[]), config_map("c")])
            }
            Self::Stuck => {
                let settings = &[("forcefulDeletionGracePeriodDuration", "2s")];
                (settings, vec![pod("p", &[("stuck", "")])])
            }
        }
    }

    /// What must hold, whatever the fault was.
    pub async fn check(self, case: &Case, effect: Effect) {
        let End { attempts, restarts, empty, made } = self.end();
        if empty {
            let what = "nothing of it is left";
            case.until(what, |log| alive(log, u64::MAX).is_empty().then_some(())).await;
        }
        // What a leader of the past had on its way may still be made, and is swept away.
        let is_late = effect == Effect::Leader;
        if !is_late {
            case.until("nothing is there while it says so", |log| {
                let empties = empty_at(log);
                empties.iter().all(|at| alive(log, *at).is_empty()).then_some(())
            })
            .await;
        }
        let log = case.log();
        quota_without_a_gap(&log, "aw");
        attempts_do_not_overlap(&log);
        let last = log.of("AppWrapper", "aw").last().expect("it was there");
        assert_eq!(last.restarts(), restarts, "counted restarts");
        let (fewest, most) = attempts;
        let known = last.attempts().len();
        assert!((fewest..=most).contains(&known), "{:?}", last.attempts());
        for (kind, prefix) in made {
            let uids = log.uids(kind, prefix).len();
            let fewest = if fewest == most { known } else { 0 };
            let most = known + usize::from(is_late);
            assert!((fewest..=most).contains(&uids), "{uids} {kind} {prefix}*");
        }
    }
}

/// Waits for the fault, or for the moment at which all is ready where it has not come by then.
async fn struck_or_ready(case: &Case, line: &Line) {
    tokio::select! {
        () = line.until(|state| state.struck) => {}
        _ = case.condition("aw", "PodsReady", "True") => {}
    }
}

/// Suspends and resumes it, and ends its pod well.
async fn suspend_and_resume(case: &Case) {
    case.suspend("aw", true).await;
    let suspended = case.phase("aw", "Suspended").await;
    case.suspend("aw", false).await;
    let next = i64::try_from(suspended.attempts().len()).expect("a small number");
    case.ready("aw", next).await;
    let pod = case
        .until("the pod of the next attempt runs", |log| {
            let mut pods = log.all("Pod").filter(|pod| pod.phase() == "Running");
            let attempt = next.to_string();
            pods.find(|pod| pod.object["metadata"]["labels"][ATTEMPT] == *attempt).cloned()
        })
        .await;
    case.end_pod(&pod.name, "0").await;
    case.phase("aw", "Succeeded").await;
}

/// What belongs to somebody else, and has our label.
pub struct Strangers(DynamicObject, DynamicObject);

impl Strangers {
    pub async fn create(case: &Case) -> Self {
        let mut objects = [config_map("stranger"), pod("stranger", &[])];
        for object in &mut objects {
            object["metadata"]["labels"] = json!({LABEL: "aw"});
        }
        let [settings, pod] = objects;
        Self(case.create(settings).await, case.create(pod).await)
    }

    pub async fn check(&self, case: &Case) {
        let Self(settings, pod) = self;
        let now = case.stored("v1", "ConfigMap", "stranger").await.expect("it is still there");
        assert_eq!(now.resource_version(), settings.resource_version(), "it was not written");
        let now = case.stored("v1", "Pod", "stranger").await.expect("it is still there");
        assert_eq!(now.uid(), pod.uid(), "it is the same");
        assert_eq!(now.metadata.deletion_timestamp, None, "it was not deleted");
    }
}

/// Revisions at which it was said that nothing of the AppWrapper is left.
fn empty_at(log: &Log) -> Vec<u64> {
    let mut was_deployed = false;
    let mut found = vec![];
    for seen in log.of("AppWrapper", "aw") {
        let says = seen.condition("ResourcesDeployed");
        if seen.deleted || (says == "False" && was_deployed) {
            found.push(seen.revision());
        }
        was_deployed = says == "True";
    }
    found
}

/// Objects of the AppWrapper that were there at a revision.
fn alive(log: &Log, at: u64) -> Vec<String> {
    let mut found: Vec<&RawObject> = vec![];
    let kinds = ["Job", "Pod", "ConfigMap"];
    for seen in kinds.into_iter().flat_map(|kind| log.all(kind)) {
        let is_ours = seen.object["metadata"]["labels"][OWNED].is_string();
        if is_ours && seen.revision() < at {
            found.retain(|other| other.uid() != seen.uid());
            if !seen.deleted {
                found.push(seen);
            }
        }
    }
    found.iter().map(|seen| format!("{}/{}", seen.kind, seen.name)).collect()
}
