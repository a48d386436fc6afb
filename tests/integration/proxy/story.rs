//! What AppWrappers go through while faults strike, and what must have come of it.

use appwrapper::world::faults::Effect;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;

use crate::harness::{
    Case, Log, Seen, attempts_do_not_overlap, job, pod, quota_without_a_gap, tuned,
};
use crate::objects::config_map;

/// Label on all that an AppWrapper has made.
const OWNED: &str = "workload.codeflare.dev/appwrapper-uid";
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
}

/// What is expected at the end.
struct End {
    attempts: usize,
    restarts: i64,
    /// Nothing may be left.
    empty: bool,
    /// Kinds and prefixes of names: one of each was made in each attempt.
    made: &'static [(&'static str, &'static str)],
}

impl Story {
    pub const ALL: [Self; 6] =
        [Self::Retried, Self::Pod, Self::Two, Self::Suspended, Self::Deleted, Self::Stuck];

    /// How many calls a controller makes at least, where nothing goes wrong.
    pub const fn calls(self) -> u32 {
        match self {
            Self::Retried => 15,
            Self::Pod => 10,
            Self::Two => 8,
            Self::Suspended => 16,
            Self::Deleted => 14,
            Self::Stuck => 12,
        }
    }

    const fn end(self) -> End {
        match self {
            Self::Retried => {
                End { attempts: 2, restarts: 1, empty: false, made: &[("Job", "j"), ("Pod", "j-")] }
            }
            Self::Pod | Self::Stuck => {
                End { attempts: 1, restarts: 0, empty: true, made: &[("Pod", "p")] }
            }
            Self::Two => End {
                attempts: 1,
                restarts: 0,
                empty: false,
                made: &[("Job", "j"), ("Pod", "j-"), ("ConfigMap", "c")],
            },
            Self::Suspended => {
                End { attempts: 2, restarts: 0, empty: false, made: &[("Job", "j")] }
            }
            Self::Deleted => End {
                attempts: 1,
                restarts: 0,
                empty: true,
                made: &[("Job", "j"), ("ConfigMap", "c")],
            },
        }
    }

    /// Creates the AppWrapper `aw`, does to it what is to be done, and waits for its end.
    pub async fn play(self, case: &Case) {
        let at_once = [("run-for", "0s")];
        match self {
            Self::Retried => {
                let life = [("run-for", "1s"), ("fail-until-attempt", "1")];
                case.wrap("aw", tuned(&[]), vec![job("j", json!({}), &life)]).await;
                case.phase("aw", "Succeeded").await;
            }
            Self::Pod => {
                let settings = tuned(&[("successTTLDuration", "0s")]);
                case.wrap("aw", settings, vec![pod("p", &at_once)]).await;
                case.condition("aw", "ResourcesDeployed", "False").await;
            }
            Self::Two => {
                let templates = vec![job("j", json!({}), &at_once), config_map("c")];
                case.wrap("aw", tuned(&[]), templates).await;
                case.phase("aw", "Succeeded").await;
            }
            Self::Suspended => {
                case.wrap("aw", tuned(&[]), vec![job("j", json!({}), &[])]).await;
                case.phase("aw", "Running").await;
                case.suspend("aw", true).await;
                case.phase("aw", "Suspended").await;
                case.suspend("aw", false).await;
                case.ready("aw", 1).await;
                let log = case.log();
                let pods = log.all("Pod").filter(|pod| pod.name.starts_with("j-"));
                let pod = pods.last().expect("it is ready");
                case.end_pod(&pod.name, "0").await;
                case.phase("aw", "Succeeded").await;
            }
            Self::Deleted => {
                let templates = vec![job("j", json!({}), &[]), config_map("c")];
                case.wrap("aw", tuned(&[]), templates).await;
                case.phase("aw", "Running").await;
                case.delete_wrapper("aw").await;
                case.gone("AppWrapper", "aw").await;
            }
            Self::Stuck => {
                let settings = tuned(&[("forcefulDeletionGracePeriodDuration", "2s")]);
                case.wrap("aw", settings, vec![pod("p", &[("stuck", "")])]).await;
                case.pod("p", "Running").await;
                case.suspend("aw", true).await;
                case.phase("aw", "Suspended").await;
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
        assert_eq!(last.attempts().len(), attempts, "{:?}", last.attempts());
        for (kind, prefix) in made {
            let uids = log.uids(kind, prefix).len();
            let most = attempts + usize::from(is_late);
            assert!((attempts..=most).contains(&uids), "{uids} {kind} {prefix}*");
        }
    }
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
    let mut found: Vec<&Seen> = vec![];
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
