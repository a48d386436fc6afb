//! `kubeflow.org/v1`, as Training Operator 1.9 serves it.

use super::super::infer::pod_set;
use super::super::node::Node;
use super::super::status::Object;
use super::{End, Error, Kind, Rules, pod_set_indexes};
use crate::api::{PodSet, keys};
use crate::snapshot::{Expected, Outcome, Report};

/// Label by which the Training Operator numbers the pods of a replica type.
const KUBEFLOW_INDEX: &str = "training.kubeflow.org/replica-index";

/// What the message says of a job that ran for longer than `activeDeadlineSeconds`, and the reason that other kinds give.
const OVERDUE: &str = "active longer than specified deadline";
const DEADLINE: &str = "DeadlineExceeded";

pub(super) const KINDS: &[Kind] = &[
    // init-pytorch, in the workers
    Kind { adds_containers: true, ..row("PyTorchJob", "pytorchjobs", &PYTORCH) },
    row("TFJob", "tfjobs", &TENSORFLOW),
    // kubectl-delivery, in the launcher
    Kind { adds_containers: true, ..row("MPIJob", "mpijobs", &MPI) },
    row("XGBoostJob", "xgboostjobs", &XGBOOST),
    row("PaddleJob", "paddlejobs", &PADDLE),
    row("JAXJob", "jaxjobs", &JAX),
];

const fn row(kind: &'static str, plural: &'static str, rules: &'static Replicated) -> Kind {
    Kind {
        api_version: "kubeflow.org/v1",
        kind,
        plural,
        makes: &[],
        end: End::Reported,
        adds_containers: false,
        recreates: false,
        reads: &[],
        rules,
    }
}

/// A job of replica types: `replicas` of each.
#[derive(Debug)]
struct Replicated {
    /// The field of `spec` that holds the replica types.
    specs: &'static str,
    /// The replica types, in the order in which Kueue counts them. Case matters.
    types: &'static [&'static str],
    /// The replica type of which there are none where it does not say; of all others there is one.
    none_of: Option<&'static str>,
    /// The restart policy of a replica type that has none.
    restart_policy: &'static str,
    /// Whether it creates a pod again that has failed, where the restart policy says so.
    replaces: bool,
}

const PYTORCH: Replicated = Replicated {
    specs: "pytorchReplicaSpecs",
    types: &["Master", "Worker"],
    none_of: None,
    restart_policy: "OnFailure",
    replaces: true,
};
const TENSORFLOW: Replicated = Replicated {
    specs: "tfReplicaSpecs",
    types: &["Chief", "Master", "PS", "Worker", "Evaluator"],
    none_of: None,
    restart_policy: "Never",
    replaces: true,
};
/// Of `v1` alone, not the MPI Operator's `v2beta1`.
const MPI: Replicated = Replicated {
    specs: "mpiReplicaSpecs",
    types: &["Launcher", "Worker"],
    none_of: Some("Worker"),
    restart_policy: "Never",
    replaces: false,
};
const XGBOOST: Replicated = Replicated {
    specs: "xgbReplicaSpecs",
    types: &["Master", "Worker"],
    none_of: None,
    restart_policy: "Never",
    replaces: true,
};
const PADDLE: Replicated = Replicated {
    specs: "paddleReplicaSpecs",
    types: &["Master", "Worker"],
    none_of: None,
    restart_policy: "OnFailure",
    replaces: true,
};
const JAX: Replicated = Replicated {
    specs: "jaxReplicaSpecs",
    types: &["Worker"],
    none_of: None,
    restart_policy: "Never",
    replaces: true,
};

impl Replicated {
    /// Number of pods of a replica type that does not say.
    fn default_replicas(&self, replica_type: &str) -> i64 {
        i64::from(self.none_of != Some(replica_type))
    }
}

impl Rules for Replicated {
    fn pod_sets(&self, template: &Node<'_>) -> Result<Vec<PodSet>, Error> {
        let specs = template.walk(&["spec", self.specs])?;
        let types = self.types;
        if let Some(unknown) = specs.object()?.keys().find(|name| !types.contains(&name.as_str())) {
            let expected = format!("only the replica types {}", types.join(", "));
            return Err(Error::new(specs.path(), unknown, expected));
        }
        let mut pod_sets = Vec::new();
        for replica_type in types {
            let spec = specs.field(replica_type)?;
            if spec.value().is_null() {
                continue;
            }
            let replicas = spec.field("replicas")?;
            let count = replicas.count()?.unwrap_or_else(|| self.default_replicas(replica_type));
            let annotations = [(keys::TAS_POD_INDEX, KUBEFLOW_INDEX.to_owned())];
            let path = spec.field("template")?;
            pod_sets.push(pod_set(path.path(), count, &replicas, annotations)?);
        }
        Ok(pod_sets)
    }

    fn report(&self, object: Object<'_>, pod_sets: &[PodSet], report: &mut Report) {
        report.outcome = outcome(object);
        // with Volcano as its gang scheduler, the operator creates no pod before the queue admits the PodGroup
        report.in_order = !object.0["spec"]["runPolicy"]["schedulingPolicy"].is_null();
        let specs = self.specs;
        let indexes = pod_set_indexes(pod_sets);
        for replica_type in self.types {
            let path = format!("template.spec.{specs}.{replica_type}.template");
            let Some(&index) = indexes.get(path.as_str()) else { continue };
            let field = format!("/spec/{specs}/{replica_type}");
            let replicas = object.count(&format!("{field}/replicas"));
            let replicas = replicas.unwrap_or_else(|| self.default_replicas(replica_type));
            let succeeded =
                object.count(&format!("/status/replicaStatuses/{replica_type}/succeeded"));
            let expected =
                Expected { succeeded: succeeded.unwrap_or(0), ..Expected::pods(replicas) };
            report.expected.insert(index, expected);
            let policy = match object.text(&format!("{field}/restartPolicy")) {
                "" => self.restart_policy,
                policy => policy,
            };
            match policy {
                _ if !self.replaces => _ = report.unreplaced.insert(index),
                "Never" => _ = report.unreplaced.insert(index),
                "ExitCode" => _ = report.replaced_by_exit_code.insert(index),
                _ => {}
            }
        }
    }
}

/// How it ended. One that is too old or has failed too often deletes its pods first, and only then says that it failed, with
/// the same reason whatever the cause: the time before the deletion is the time of its completion. The MPI Operator gives the
/// reason of the Job of the launcher, and behind a slash that of its last failed pod.
fn outcome(object: Object<'_>) -> Outcome {
    let mut outcome = object.verdict("Succeeded", &["Failed"]);
    if let Outcome::Failed { reason, message, at } = &mut outcome {
        let ended = object.text("/status/completionTime").parse().ok();
        *at = [*at, ended].into_iter().flatten().min();
        if message.contains(OVERDUE) {
            DEADLINE.clone_into(reason);
        }
        if let Some(end) = reason.find('/') {
            reason.truncate(end);
        }
    }
    outcome
}

#[cfg(test)]
pub(super) fn given() -> Vec<super::super::testing::Sample> {
    use serde_json::{Value, json};

    use super::super::testing::{given_object, given_pod};

    let one = json!({"template": given_pod()});
    let three = json!({"replicas": 3, "template": given_pod()});
    let given = |kind: &str, specs: Value| given_object("kubeflow.org/v1", kind, &specs);
    vec![
        (
            given("PyTorchJob", json!({"pytorchReplicaSpecs": {"Worker": three, "Master": one}})),
            vec![
                ("template.spec.pytorchReplicaSpecs.Master.template", 1),
                ("template.spec.pytorchReplicaSpecs.Worker.template", 3),
            ],
        ),
        (
            given("MPIJob", json!({"mpiReplicaSpecs": {"Worker": one, "Launcher": one}})),
            vec![
                ("template.spec.mpiReplicaSpecs.Launcher.template", 1),
                ("template.spec.mpiReplicaSpecs.Worker.template", 0),
            ],
        ),
        (
            given("TFJob", json!({"tfReplicaSpecs": {"PS": three, "Chief": one}})),
            vec![
                ("template.spec.tfReplicaSpecs.Chief.template", 1),
                ("template.spec.tfReplicaSpecs.PS.template", 3),
            ],
        ),
        (
            given("XGBoostJob", json!({"xgbReplicaSpecs": {"Master": one}})),
            vec![("template.spec.xgbReplicaSpecs.Master.template", 1)],
        ),
        (
            given("PaddleJob", json!({"paddleReplicaSpecs": {"Worker": three}})),
            vec![("template.spec.paddleReplicaSpecs.Worker.template", 3)],
        ),
        (
            given("JAXJob", json!({"jaxReplicaSpecs": {"Worker": three}})),
            vec![("template.spec.jaxReplicaSpecs.Worker.template", 3)],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_training_operator_adds_init_containers_to_two_kinds() {
        let adds = |kind: &&Kind| kind.adds_containers;
        let found: Vec<&str> = KINDS.iter().filter(adds).map(|kind| kind.kind).collect();
        assert_eq!(found, ["PyTorchJob", "MPIJob"]);
    }
}
