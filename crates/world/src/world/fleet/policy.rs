//! The policies that are compared, each a little more than the one before.

use serde_json::{Value, json};

use crate::world::actors::kueue::QUEUE;

/// The configuration without suspicion.
const TRUSTING: &str = "{nodeSuspicion: {effect: \"Off\"}}";
/// Failures of a GPU point to the node, and one namespace is trusted with that: all jobs of the fleet are of one.
const SUSPICIOUS: &str = "{nodeSuspicion: {effect: Prefer, namespaceShare: 100, hardwareCategories: [gpu]}, \
     failureCategories: [{name: gpu, onExitCodes: {operator: In, values: [134]}}]}";

/// What the AppWrappers of a fleet ask for, and how the controller is configured. Each has what the one before it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// No restart: a person submits again what has failed.
    ByHand,
    /// The defaults: three restarts.
    Restarts,
    /// Restarts are given back after a day of readiness; what never makes progress is not restarted.
    Budgets,
    /// Pods avoid suspect nodes.
    Suspicion,
    /// Pods report progress, and a job that hangs is restarted.
    Progress,
    /// A job whose pods find no node gives its quota back.
    NoFit,
}

impl Policy {
    /// In the order of the table.
    pub const ALL: [Self; 6] =
        [Self::ByHand, Self::Restarts, Self::Budgets, Self::Suspicion, Self::Progress, Self::NoFit];

    /// Its row of the table.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::ByHand => "no restarts",
            Self::Restarts => "3 restarts",
            Self::Budgets => "+ refill, stopWhen",
            Self::Suspicion => "+ nodeSuspicion",
            Self::Progress => "+ progress",
            Self::NoFit => "+ onNoFit: Requeue",
        }
    }

    /// The configuration of the controller, as YAML.
    pub(super) fn config(self) -> &'static str {
        if self >= Self::Suspicion { SUSPICIOUS } else { TRUSTING }
    }

    /// The annotation `retryLimit`.
    fn retry_limit(self) -> &'static str {
        if self == Self::ByHand { "0" } else { "3" }
    }

    /// Whether pods report progress.
    pub(super) fn reports(self) -> bool {
        self >= Self::Progress
    }

    /// Whether AppWrappers give their quota back through their Workloads.
    pub(super) fn requeues(self) -> bool {
        self >= Self::NoFit
    }

    /// Adds what the policy asks for to the `spec` of an AppWrapper.
    fn add_to(self, spec: &mut Value) {
        if self >= Self::Budgets {
            spec["failurePolicy"] = json!({
                "maxRestarts": 3, "refill": {"after": "24h"}, "stopWhen": {"attemptsWithoutProgress": 2},
            });
        }
        if self >= Self::Progress {
            spec["progress"] = json!({"startWithin": "30m", "stallAfter": "30m"});
        }
        if self >= Self::NoFit {
            spec["onNoFit"] = json!({"after": "4m", "action": "Requeue"});
        }
    }

    /// An AppWrapper of a Job with a pod on each of its nodes.
    pub(super) fn appwrapper(self, name: &str, nodes: u64) -> Value {
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {
                "parallelism": nodes, "completions": nodes, "completionMode": "Indexed", "backoffLimit": 0,
                "template": {"spec": {
                    "restartPolicy": "Never", "containers": [{"name": "main", "image": "trainer"}],
                }},
            },
        });
        let mut spec = json!({
            "suspend": true,
            "components": [{
                "podSets": [{"replicas": nodes, "path": "template.spec.template"}], "template": job,
            }],
        });
        self.add_to(&mut spec);
        json!({
            "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
            "metadata": {
                "name": name, "labels": {QUEUE: "fleet"},
                "annotations": {
                    "workload.codeflare.dev.appwrapper/retryLimit": self.retry_limit(),
                },
            },
            "spec": spec,
        })
    }
}
