//! AppWrappers by chance.

use std::time::Duration;

use serde_json::{Value, json};

use super::{PREFIX, appwrapper, paths, pods_in};
use crate::world::actors::kubelet::Temper;
use crate::world::actors::kueue::PRIORITY;
use crate::world::faults::{Fault, Faults};
use crate::world::rng::Rng;

/// The words of a random scene.
pub(super) struct Author<'a> {
    pub(super) rng: &'a mut Rng,
    pub(super) faults: &'a Faults,
}

impl Author<'_> {
    /// A moment of a life: mostly early, when things happen.
    pub(super) fn later(&mut self) -> Duration {
        let within = *self.rng.pick(&[10, 30, 120, 600]);
        self.rng.moment(within)
    }

    pub(super) fn config(&mut self) -> String {
        let kill = if self.rng.one_in(40) { 0 } else { 20 };
        format!(
            "{{retryPolicy: {{globalMaxRetries: {kill}}}, autopilot: {{resourceTaints: \
             {{nvidia.com/gpu: [{{key: health, value: EVICT, effect: NoExecute}}]}}}}}}"
        )
    }

    pub(super) fn temper(&mut self) -> Temper {
        let mut one = |fault: Fault, most: u64| {
            if self.faults.has(fault) && self.rng.one_in(2) {
                u32::try_from(self.rng.between(20, most)).unwrap_or(0)
            } else {
                0
            }
        };
        Temper {
            fails: one(Fault::Pod, 600),
            hangs: one(Fault::Pod, 250),
            evicted: one(Fault::Pod, 250),
            sticks: one(Fault::Stuck, 300),
        }
    }

    /// An AppWrapper of one to three components, tuned by annotations.
    pub(super) fn wrapper(&mut self, name: &str, queued: bool) -> Value {
        let count = *self.rng.pick(&[1, 1, 1, 2, 3]);
        let components: Vec<Value> = (0..count)
            .map(|index| {
                let template = self.template(&format!("{name}-c{index}"));
                let sets: Vec<Value> = pods_in(&template)
                    .iter()
                    .zip(paths(&template))
                    .map(|((count, _), path)| json!({"replicas": count, "path": path}))
                    .collect();
                json!({"template": template, "podSets": sets})
            })
            .collect();
        let annotations = self.annotations();
        let spec = json!({"suspend": queued || self.rng.one_in(8), "components": components});
        let mut wrapper = appwrapper(name, &annotations, &spec, queued);
        if queued {
            let priority = self.rng.between(0, 2).to_string();
            wrapper["metadata"]["labels"][PRIORITY] = priority.into();
        }
        wrapper
    }

    pub(super) fn annotations(&mut self) -> Value {
        let mut all = serde_json::Map::new();
        let periods: [(&str, &[u64]); 7] = [
            ("admissionGracePeriod", &[0, 5, 60]),
            ("warmupGracePeriod", &[0, 10, 300]),
            ("failureGracePeriod", &[0, 5, 60]),
            ("retryPausePeriod", &[0, 3, 90]),
            ("deletionOnFailureGracePeriod", &[0, 0, 30, 900]),
            ("forcefulDeletionGracePeriod", &[0, 20, 600]),
            ("successTTL", &[0, 40, 604_800]),
        ];
        for (key, choices) in periods {
            if !self.rng.one_in(3) {
                let seconds = self.rng.pick(choices);
                all.insert(format!("{PREFIX}{key}Duration"), format!("{seconds}s").into());
            }
        }
        if self.rng.one_in(2) {
            let limit = self.rng.between(0, 3).to_string();
            all.insert(format!("{PREFIX}retryLimit"), limit.into());
        }
        if self.rng.one_in(8) {
            all.insert(format!("{PREFIX}terminalExitCodes"), "42, 126".into());
        }
        if self.rng.one_in(10) {
            all.insert(format!("{PREFIX}retryableExitCodes"), "1,137,143".into());
        }
        if self.rng.one_in(12) {
            all.insert(format!("{PREFIX}failureGracePeriodDuration"), "5 days".into());
        }
        all.into()
    }

    /// How a pod lives, by its annotations.
    pub(super) fn life(&mut self, ends: bool) -> Value {
        let mut all = serde_json::Map::new();
        if ends {
            let seconds = *self.rng.pick(&[1, 5, 30, 90]);
            all.insert("sim/run-for".to_owned(), format!("{seconds}s").into());
            if self.faults.has(Fault::Pod) && self.rng.one_in(4) {
                let until = self.rng.between(1, 3).to_string();
                all.insert("sim/fail-until-attempt".to_owned(), until.into());
            }
        }
        if self.faults.has(Fault::Stuck) && self.rng.one_in(12) {
            all.insert("sim/stuck".to_owned(), "true".into());
        }
        all.into()
    }

    pub(super) fn pod(&mut self, ends: bool) -> Value {
        let gpu = self.rng.one_in(3);
        let limits = if gpu { json!({"nvidia.com/gpu": 1}) } else { json!({}) };
        json!({
            "metadata": {"annotations": self.life(ends)},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}],
            },
        })
    }

    pub(super) fn job_spec(&mut self) -> Value {
        let backoff = if self.rng.one_in(4) { 3 } else { self.rng.between(0, 1) };
        let mut spec = json!({"backoffLimit": backoff, "template": self.pod(true)});
        if self.rng.one_in(2) {
            spec["parallelism"] = self.rng.between(1, 2).into();
            spec["completions"] = self.rng.between(1, 3).into();
        }
        spec
    }

    pub(super) fn template(&mut self, name: &str) -> Value {
        let object = |api: &str, kind: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec});
        match self.rng.below(12) {
            0..=2 => {
                let mut pod = self.pod(true);
                pod["apiVersion"] = "v1".into();
                pod["kind"] = "Pod".into();
                pod["metadata"]["name"] = name.into();
                pod
            }
            3..=6 => {
                let mut spec = self.job_spec();
                if self.rng.one_in(4) {
                    spec["ttlSecondsAfterFinished"] = self.rng.between(0, 20).into();
                }
                object("batch/v1", "Job", spec)
            }
            7 | 8 => {
                let jobs: Vec<Value> = (0..self.rng.between(1, 2))
                    .map(|n| {
                        let spec = self.job_spec();
                        json!({"name": format!("r{n}"), "replicas": 1, "template": {"spec": spec}})
                    })
                    .collect();
                let mut spec = json!({"replicatedJobs": jobs});
                if self.rng.one_in(3) {
                    spec["failurePolicy"] = json!({"maxRestarts": 1});
                }
                object("jobset.x-k8s.io/v1alpha2", "JobSet", spec)
            }
            9 => {
                let spec = json!({"replicas": self.rng.between(1, 2), "template": self.pod(false)});
                object("apps/v1", "Deployment", spec)
            }
            10 => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                "data": {"a": "b"}}),
            _ => {
                let spec = json!({"replicas": self.rng.between(1, 2), "template": self.pod(false)});
                object("apps/v1", "StatefulSet", spec)
            }
        }
    }
}
