//! Preemption by priority finds its victim in any phase.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Case, RawObject, job, pod, tuned};
use crate::installed::installed_test;
use crate::objects::no_more;

use super::{Queue, is_reserved, lane, priority, queued, with_priority};

/// Where the victim is when it has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// Its Job cannot be created yet.
    Resuming,
    Running,
    /// Running with a failed pod, in the grace period of the failure.
    Grace,
    /// Resetting, with a pod that does not go.
    Deletion,
    /// Resetting, with nothing left, in the pause before the retry.
    Pause,
    /// On its way out, since its LocalQueue is drained, with a pod that does not go.
    Suspending,
    /// It has ended, and its failed pod is kept for its user to look at.
    Failed,
    /// It has ended, and its pod is kept for its user to look at.
    Succeeded,
}

const VICTIMS: [Victim; 8] = [
    Victim::Resuming,
    Victim::Running,
    Victim::Grace,
    Victim::Deletion,
    Victim::Pause,
    Victim::Suspending,
    Victim::Failed,
    Victim::Succeeded,
];

impl Victim {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn rival(self) -> String {
        format!("{}-vip", self.name())
    }

    fn queue(self) -> String {
        format!("kueue-preempts-{}", self.name())
    }

    /// The LocalQueue of the rival.
    fn lane(self) -> String {
        format!("{}-fast", self.queue())
    }

    fn has_stuck_pod(self) -> bool {
        matches!(self, Self::Deletion | Self::Suspending)
    }

    /// How many restarts have been counted before the preemption.
    fn restarts(self) -> i64 {
        i64::from(matches!(self, Self::Deletion | Self::Pause))
    }

    fn object(self) -> Value {
        let name = self.name();
        let settings: &[(&str, &str)] = match self {
            Self::Resuming => &[("admissionGracePeriodDuration", "1h")],
            Self::Grace => &[("failureGracePeriodDuration", "1h")],
            Self::Deletion | Self::Pause => {
                &[("failureGracePeriodDuration", "0s"), ("retryPausePeriodDuration", "1h")]
            }
            Self::Failed => &[
                ("failureGracePeriodDuration", "0s"),
                ("retryLimit", "0"),
                ("deletionOnFailureGracePeriodDuration", "1h"),
            ],
            Self::Running | Self::Suspending | Self::Succeeded => &[],
        };
        let mut templates = match self {
            Self::Resuming => vec![job(&name, json!({}), &[])],
            _ => vec![pod(&name, &[])],
        };
        if self.has_stuck_pod() {
            templates.push(pod(&format!("{name}-stuck"), &[("stuck", "")]));
        }
        queued(&name, &self.queue(), tuned(settings), templates)
    }

    /// Brings it to where the preemption finds it.
    async fn arrive(self, case: &Case) -> RawObject {
        let name = self.name();
        case.create(self.object()).await;
        if self == Self::Resuming {
            return case.says(&name, "Unhealthy", "exceeded quota").await;
        }
        case.ready(&name, 0).await;
        match self {
            Self::Grace | Self::Deletion | Self::Pause | Self::Failed => {
                case.end_pod(&name, "7").await;
            }
            Self::Succeeded => case.end_pod(&name, "0").await,
            Self::Suspending => case.drain(&self.queue(), true).await,
            Self::Resuming | Self::Running => {}
        }
        match self {
            Self::Grace => case.unhealthy(&name, "FoundFailedPods").await,
            Self::Deletion => case.phase(&name, "Resetting").await,
            Self::Pause => {
                case.phase(&name, "Resetting").await;
                case.condition(&name, "ResourcesDeployed", "False").await
            }
            Self::Resuming | Self::Running => case.phase(&name, "Running").await,
            Self::Suspending | Self::Failed | Self::Succeeded => {
                case.phase(&name, &format!("{self:?}")).await
            }
        }
    }

    /// A rival that needs all of the quota comes, and gets it when nothing of the victim is left.
    async fn preempt(self, case: &Case) {
        let (name, rival) = (self.name(), self.rival());
        let count = if self.has_stuck_pod() { 2 } else { 1 };
        let pods = (0..count).map(|it| pod(&format!("{rival}-{it}"), &[]));
        let object = queued(&rival, &self.lane(), json!({}), pods.collect());
        case.create(with_priority(object, "kueue-preempts")).await;
        if self.has_stuck_pod() {
            case.phase(&name, "Suspending").await;
            case.workload(&rival, "QuotaReserved", "False").await;
            let last = case.log().workloads(&name).last().cloned().expect("it has one");
            assert!(is_reserved(&last), "{self:?}: {}", last.object["status"]);
            case.force_delete_pod(&format!("{name}-stuck")).await;
        }
        case.ready(&rival, 0).await;
        let log = case.log();
        // The pods of the rival have its name, and are not gone.
        for uid in log.uids("Pod", &name) {
            let last = log.all("Pod").filter(|pod| pod.uid() == uid).last().expect("it was seen");
            let gone = last.deleted && last.revision() < log.reserved_at(&rival);
            let over = self == Self::Succeeded && last.phase() == "Succeeded";
            assert!(gone || over || last.name.starts_with(&rival), "{self:?}: {}", last.object);
        }
        for it in 0..count {
            case.end_pod(&format!("{rival}-{it}"), "0").await;
        }
        case.phase(&rival, "Succeeded").await;
    }

    /// It waited in its queue, comes in again and completes.
    async fn come_back(self, case: &Case) {
        let name = self.name();
        if self == Self::Suspending {
            case.drain(&self.queue(), false).await;
        }
        let again = case
            .until(&format!("{name} is ready again"), |log| {
                let mut states = log.of("AppWrapper", &name);
                states.find(|it| it.phase() == "Suspended" && it.attempt() >= 0)?;
                states.find(|it| it.condition("PodsReady") == "True").cloned()
            })
            .await;
        assert_eq!(again.restarts(), self.restarts(), "{self:?}");
        let log = case.log();
        let pods = log.uids("Pod", &name).into_iter().filter_map(|uid| {
            let last = log.all("Pod").filter(|pod| pod.uid() == uid).last()?;
            (!last.deleted).then(|| last.name.clone())
        });
        for pod in pods.filter(|pod| !pod.contains("-vip")) {
            case.end_pod(&pod, "0").await;
        }
        let done = case.phase(&name, "Succeeded").await;
        assert_eq!(done.restarts(), self.restarts(), "{self:?}");
        let finished = case.workload(&name, "Finished", "True").await;
        assert_eq!(finished.condition_field("Finished", "reason"), "Succeeded");
    }

    /// It has ended before, and nothing comes of a preemption.
    async fn stay(self, case: &Case) {
        let seen = case.phase(&self.name(), &format!("{self:?}")).await;
        let finished = case.workload(&self.name(), "Finished", "True").await;
        assert_eq!(finished.condition_field("Finished", "reason"), format!("{self:?}"));
        assert_eq!(seen.restarts(), 0, "{self:?}");
        let kept = self == Self::Succeeded;
        assert_eq!(seen.condition("ResourcesDeployed"), if kept { "True" } else { "False" });
    }

    async fn is_preempted(self, case: &Case) {
        let pods = if self.has_stuck_pod() { 2 } else { 1 };
        Queue::of(&self.queue(), pods).preempting().create(case).await;
        lane(case, &self.lane(), &self.queue()).await;
        self.arrive(case).await;
        self.preempt(case).await;
        if self == Self::Resuming {
            case.delete("v1", "ResourceQuota", "none").await;
        }
        match self {
            Self::Failed | Self::Succeeded => self.stay(case).await,
            _ => self.come_back(case).await,
        }
        case.lawful(&self.name()).await;
    }
}

#[test]
fn a_victim_is_found_in_every_phase_and_comes_back() {
    installed_test("a_victim_is_found_in_every_phase_and_comes_back", async |case| {
        case.record_workloads().await;
        case.create(no_more("count/jobs.batch")).await;
        priority(&case, "kueue-preempts", 1000).await;
        join_all(VICTIMS.map(|victim| victim.is_preempted(&case))).await;
    });
}
