//! `leaderworkerset.x-k8s.io`.

use super::super::infer::pod_set;
use super::super::node::Node;
use super::super::status::Object;
use super::{End, Error, Kind, POD, Rules, STATEFUL_SET, expect_all};
use crate::api::{PodSet, keys};
use crate::snapshot::Report;

/// Label by which a LeaderWorkerSet numbers the pods of a group.
const LWS_WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// Label by which a LeaderWorkerSet numbers its groups.
const LWS_GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
/// Annotation that gives each group a topology domain of its own, which the node of its leader tells.
const EXCLUSIVE: &str = "leaderworkerset.sigs.k8s.io/exclusive-topology";

pub(super) const KINDS: &[Kind] = &[Kind {
    api_version: "leaderworkerset.x-k8s.io/v1",
    kind: "LeaderWorkerSet",
    plural: "leaderworkersets",
    // the leader of a group owns the StatefulSet of its workers
    makes: &[STATEFUL_SET, POD],
    end: End::Never,
    adds_containers: false,
    recreates: false,
    reads: &[],
    rules: &LeaderWorkerSet,
}];

/// Leaders `replicas` (1), workers `replicas` × (`size` (1) − 1); without a leader template all from the
/// worker template.
#[derive(Debug)]
struct LeaderWorkerSet;

impl Rules for LeaderWorkerSet {
    fn pod_sets(&self, template: &Node<'_>) -> Result<Vec<PodSet>, Error> {
        let replicas_field = template.walk(&["spec", "replicas"])?;
        let replicas = replicas_field.count()?.unwrap_or(1);
        let group = template.walk(&["spec", "leaderWorkerTemplate"])?;
        let size_field = group.field("size")?;
        let size = size_field.count()?.unwrap_or(1);
        if size == 0 {
            return Err(size_field.error("1 or more"));
        }
        let leader = group.field("leaderTemplate")?;
        let worker = group.field("workerTemplate")?;
        if leader.value().is_null() {
            let annotations = [
                (keys::TAS_POD_INDEX, LWS_WORKER_INDEX.to_owned()),
                (keys::TAS_SUB_GROUP_INDEX, LWS_GROUP_INDEX.to_owned()),
                (keys::TAS_SUB_GROUP_COUNT, replicas.to_string()),
            ];
            let count = replicas.saturating_mul(size);
            return Ok(vec![pod_set(worker.path(), count, &replicas_field, annotations)?]);
        }
        // without annotations: the workers of a group are numbered from 1 here, not from 0
        let workers = replicas.saturating_mul(size - 1);
        Ok(vec![
            pod_set(leader.path(), replicas, &replicas_field, [])?,
            pod_set(worker.path(), workers, &replicas_field, [])?,
        ])
    }

    /// The workers of a group may have to wait for their leader: until it is ready, or until it has a node.
    fn report(&self, object: Object<'_>, pod_sets: &[PodSet], report: &mut Report) {
        report.in_order =
            object.text("/spec/startupPolicy") == "LeaderReady" || object.is_annotated(EXCLUSIVE);
        // it recreates the whole group of a pod that restarts, and may be scaled down or updated
        report.deletes_pods = true;
        expect_all(pod_sets, report);
    }
}

#[cfg(test)]
pub(super) fn given() -> Vec<super::super::testing::Sample> {
    use serde_json::json;

    use super::super::testing::{given_object, given_pod};

    let pod = given_pod();
    let lws = json!({
        "replicas": 2,
        "leaderWorkerTemplate": {"size": 4, "leaderTemplate": pod, "workerTemplate": pod},
    });
    vec![(
        given_object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", &lws),
        vec![
            ("template.spec.leaderWorkerTemplate.leaderTemplate", 2),
            ("template.spec.leaderWorkerTemplate.workerTemplate", 6),
        ],
    )]
}
