//! AppWrappers that live through a fault.

use kube::api::ListParams;
use serde_json::{Value, json};

use crate::harness::{Case, job, pod, tuned, wrapper};
use crate::objects::config_map;

/// No deadline of what rests may pass in the course of a test.
const LONG: &str = "24h";

/// The moment of the load at which a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Created,
    Resuming,
    Running,
    Resetting,
    Pausing,
    Failed,
    Suspended,
    Suspending,
    Resumed,
    ResumedAndResuming,
    Deleted,
    Terminating,
    Stuck,
    Succeeded,
}

impl Moment {
    pub const ALL: [Self; 14] = [
        Self::Resetting,
        Self::Suspending,
        Self::Resuming,
        Self::Terminating,
        Self::Pausing,
        Self::Stuck,
        Self::ResumedAndResuming,
        Self::Created,
        Self::Running,
        Self::Failed,
        Self::Suspended,
        Self::Resumed,
        Self::Deleted,
        Self::Succeeded,
    ];

    /// Begins the load, and comes to this moment.
    pub async fn come(self, case: &Case) {
        begin(case).await;
        match self {
            Self::Created => {}
            Self::Resuming | Self::Running | Self::Resetting => {
                was(case, "retried", &format!("{self:?}")).await;
            }
            Self::Succeeded => was(case, "retried", "Succeeded").await,
            Self::Pausing => was(case, "limited", "Resetting").await,
            Self::Failed => was(case, "limited", "Failed").await,
            Self::Suspended => case.suspend("suspended", true).await,
            Self::Suspending => {
                case.suspend("suspended", true).await;
                was(case, "suspended", "Suspending").await;
            }
            Self::Resumed | Self::ResumedAndResuming => {
                case.suspend("suspended", true).await;
                case.phase("suspended", "Suspended").await;
                case.suspend("suspended", false).await;
                if self == Self::ResumedAndResuming {
                    resumes_again(case).await;
                }
            }
            Self::Deleted => case.delete_wrapper("deleted").await,
            Self::Terminating => {
                case.delete_wrapper("deleted").await;
                was(case, "deleted", "Terminating").await;
            }
            Self::Stuck => {
                case.suspend("stuck", true).await;
                was(case, "stuck", "Suspending").await;
            }
        }
    }
}

/// Waits until an AppWrapper was in a phase, if only for a moment.
async fn was(case: &Case, name: &str, phase: &str) {
    case.until(&format!("{name} was {phase}"), |log| {
        log.of("AppWrapper", name).any(|seen| seen.phase() == phase).then_some(())
    })
    .await;
}

async fn resumes_again(case: &Case) {
    case.until("it resumes again", |log| {
        let mut states = log.of("AppWrapper", "suspended");
        states.by_ref().find(|seen| seen.phase() == "Suspended");
        states.any(|seen| seen.phase() == "Resuming").then_some(())
    })
    .await;
}

async fn begin(case: &Case) {
    case.wrap("suspended", json!({}), vec![job("suspended", json!({}), &[])]).await;
    let two = vec![job("deleted", json!({}), &[]), config_map("deleted")];
    case.wrap("deleted", json!({}), two).await;
    let forced = tuned(&[("forcefulDeletionGracePeriodDuration", "1s")]);
    case.wrap("stuck", forced, vec![pod("stuck", &[("stuck", "")])]).await;
    for name in ["suspended", "deleted", "stuck"] {
        case.condition(name, "PodsReady", "True").await;
    }
    let at_once = [("failureGracePeriodDuration", "0s"), ("retryPausePeriodDuration", "0s")];
    let life = [("run-for", "1s"), ("fail-until-attempt", "2")];
    case.wrap("retried", tuned(&at_once), vec![job("retried", json!({}), &life)]).await;
    let limited = [
        ("failureGracePeriodDuration", "0s"),
        ("retryPausePeriodDuration", "1s"),
        ("retryLimit", "1"),
    ];
    let life = [("run-for", "1s"), ("exit-code", "3")];
    case.wrap("limited", tuned(&limited), vec![pod("limited", &life)]).await;
}

/// What users do while nobody leads.
pub async fn go_on(case: &Case) {
    case.wrap("late", json!({}), vec![pod("late", &[("run-for", "0s")])]).await;
    case.suspend("suspended", true).await;
    case.suspend("stuck", true).await;
    if case.stored_wrapper("deleted").await {
        case.delete_wrapper("deleted").await;
    }
}

/// Waits until everything has come to its end, and takes it away.
pub async fn end(case: &Case) {
    case.phase("late", "Succeeded").await;
    case.gone("AppWrapper", "deleted").await;
    case.phase("stuck", "Suspended").await;
    let retried = case.phase("retried", "Succeeded").await;
    assert_eq!(retried.restarts(), 2, "each failure is counted once");
    let limited = case.phase("limited", "Failed").await;
    assert_eq!(limited.restarts(), 1, "the limit holds");
    let suspended = case.phase("suspended", "Suspended").await;
    case.suspend("suspended", false).await;
    let next = i64::try_from(suspended.attempts().len()).expect("a small number");
    case.ready("suspended", next).await;
    for name in ["late", "stuck", "retried", "limited", "suspended"] {
        case.delete_wrapper(name).await;
    }
    for name in ["late", "stuck", "retried", "limited", "suspended"] {
        case.gone("AppWrapper", name).await;
    }
    let left = case.api("v1", "Pod").list(&ListParams::default()).await;
    let left: Vec<_> = left.expect("pods can be listed").items;
    assert!(left.is_empty(), "{left:?}");
}

/// AppWrappers at rest in every phase that can rest: nobody touches them, and nothing changes them.
/// Returns the revision from which on that is so.
pub async fn at_rest(case: &Case) -> u64 {
    let patient = tuned(&[
        ("warmupGracePeriodDuration", LONG),
        ("deletionOnFailureGracePeriodDuration", LONG),
        ("retryLimit", "0"),
        ("failureGracePeriodDuration", "0s"),
    ]);
    let pair = json!({"parallelism": 2, "completions": 2});
    let wrap = async |name: &str, templates: Vec<Value>| {
        case.wrap(name, patient.clone(), templates).await;
    };
    wrap("job", vec![job("job", pair, &[])]).await;
    wrap("pod", vec![pod("pod", &[])]).await;
    wrap("two", vec![pod("two-a", &[]), pod("two-b", &[])]).await;
    wrap("beside", vec![job("beside", json!({}), &[]), config_map("beside")]).await;
    wrap("waiting", vec![pod("waiting", &[("never-ready", "")])]).await;
    wrap("done", vec![pod("done", &[("run-for", "0s")])]).await;
    wrap("broken", vec![pod("broken", &[("run-for", "0s"), ("exit-code", "3")])]).await;
    let mut asleep = wrapper("asleep", patient, vec![pod("asleep", &[])]);
    asleep["spec"]["suspend"] = true.into();
    case.create(asleep).await;
    for name in ["job", "pod", "two", "beside"] {
        case.condition(name, "PodsReady", "True").await;
    }
    for (name, phase) in [
        ("waiting", "Running"),
        ("done", "Succeeded"),
        ("broken", "Failed"),
        ("asleep", "Suspended"),
    ] {
        case.phase(name, phase).await;
    }
    case.until("the Jobs have counted their pods", |log| {
        let ready = |name| Some(log.last("Job", name)?.object["status"]["ready"].as_i64()? > 0);
        (ready("job")? && ready("beside")?).then_some(())
    })
    .await;
    case.others_go_on("another").await;
    // later than the last change of all
    let last = case.create(config_map("last")).await;
    last.metadata.resource_version.and_then(|text| text.parse().ok()).expect("a number")
}

impl Case {
    /// Whether an AppWrapper is there that is not being deleted.
    async fn stored_wrapper(&self, name: &str) -> bool {
        let stored = self.stored("workload.codeflare.dev/v1beta2", "AppWrapper", name).await;
        stored.is_some_and(|it| it.metadata.deletion_timestamp.is_none())
    }
}
