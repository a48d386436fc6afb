//! What runs in a pod and reports its progress.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::kubelet::duration;
use super::{Env, Task};
use crate::sim::{Object, Part};

/// The annotation, as whoever reports would write it.
const PROGRESS: &str = "workload.codeflare.dev/progress";
/// The most reports of a pod: no world reports for ever.
const REPORTS_MAX: u64 = 40;

/// A process that reports a step every so often.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    every: Duration,
    next: Option<Duration>,
    left: u64,
    step: u64,
    checkpoint_every: Option<u64>,
    /// The last checkpoint, and when it was.
    checkpoint: Option<(String, String)>,
}

impl Reporter {
    /// The reporter of a pod of an attempt, where it has one.
    pub(super) fn of(pod: &Object, attempt: i64) -> Option<Self> {
        let number = |key: &str| pod.annotation(key).and_then(|text| text.parse::<u64>().ok());
        let every = pod.annotation("sim/progress-every").and_then(duration)?;
        let stops = pod.annotation("sim/hang-until-attempt").is_none() || Self::hangs(pod, attempt);
        let left = number("sim/progress-steps").filter(|_| stops).unwrap_or(REPORTS_MAX);
        Some(Self {
            every: every.max(Duration::from_secs(1)),
            next: None,
            left: left.min(REPORTS_MAX),
            step: 0,
            checkpoint_every: number("sim/checkpoint-every").filter(|every| *every > 0),
            checkpoint: None,
        })
    }

    /// Whether a pod stops to report in this attempt, and does not end.
    pub(super) fn hangs(pod: &Object, attempt: i64) -> bool {
        let until = pod.annotation("sim/hang-until-attempt").and_then(|text| text.parse().ok());
        until.is_some_and(|until: i64| attempt < until)
    }

    /// The pod runs from now on.
    pub(super) fn begin(&mut self, env: &mut Env<'_>, pod: &Arc<Object>) {
        if self.left > 0 {
            let next = env.elapsed + self.every;
            self.next = Some(next);
            env.agenda.at(next, Task::Pod(pod.address.clone()));
        }
    }

    /// Reports, where that is due.
    pub(super) fn report(&mut self, env: &mut Env<'_>, pod: &Arc<Object>) {
        if self.left == 0 || self.next.is_none_or(|next| env.elapsed < next) {
            return;
        }
        self.left -= 1;
        self.step += 1;
        let now = env.store.now();
        if self.checkpoint_every.is_some_and(|every| self.step.is_multiple_of(every)) {
            self.checkpoint = Some((format!("step-{}", self.step), now.clone()));
        }
        let mut report = json!({"at": now, "step": self.step});
        if let Some((name, at)) = &self.checkpoint {
            report["checkpoint"] = name.as_str().into();
            report["checkpointAt"] = at.as_str().into();
        }
        env.store.change(&pod.address, Part::Whole, |pod| {
            pod["metadata"]["annotations"][PROGRESS] = report.to_string().into();
        });
        self.begin(env, pod);
    }
}
