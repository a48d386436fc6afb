//! Kueue's queues, and how much of their quota is reserved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::observe::raw_object::RawObject;
use crate::observe::records::Identity;

/// The most queues that are shown, and the most resources of one.
const QUEUES_MAX: usize = 200;
const RESOURCES_MAX: usize = 50;

/// The queues, and what could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Queues {
    pub queues: Vec<LocalQueue>,
    pub notes: Vec<String>,
}

/// A `LocalQueue`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct LocalQueue {
    pub namespace: String,
    pub name: String,
    pub cluster_queue: String,
    /// Workloads that wait, and that are admitted.
    pub pending: i64,
    pub admitted: i64,
    pub resources: Vec<Share>,
}

/// A resource of a flavor, in Kubernetes quantities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Share {
    pub flavor: String,
    pub resource: String,
    /// What is reserved through this queue.
    pub reserved: String,
    /// What is reserved in its `ClusterQueue`, and how much there is; none where that may not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Lean {
    spec: LeanSpec,
    status: LeanStatus,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LeanSpec {
    cluster_queue: String,
    resource_groups: Vec<LeanGroup>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanGroup {
    flavors: Vec<LeanFlavor>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LeanStatus {
    pending_workloads: i64,
    admitted_workloads: i64,
    flavors_reservation: Vec<LeanFlavor>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LeanFlavor {
    name: String,
    resources: Vec<LeanResource>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LeanResource {
    name: String,
    total: String,
    nominal_quota: String,
}

/// The queues of a namespace, or of all, with the quota of their `ClusterQueue`s.
pub(super) fn queues(
    locals: &[RawObject],
    clusters: &[RawObject],
    mut notes: Vec<String>,
) -> Queues {
    // one that cannot be read says nothing
    let lean = |seen: &RawObject| serde_json::from_str::<Lean>(seen.raw.get()).unwrap_or_default();
    let clusters: BTreeMap<String, Lean> =
        clusters.iter().map(|seen| (Identity::of(&seen.meta).name, lean(seen))).collect();
    if locals.len() > QUEUES_MAX {
        notes.push(format!("only {QUEUES_MAX} of {} queues are shown", locals.len()));
    }
    let queue = |seen: &RawObject| {
        let Identity { namespace, name, .. } = Identity::of(&seen.meta);
        let local = lean(seen);
        let mut resources = resources(&local, clusters.get(&local.spec.cluster_queue));
        if resources.len() > RESOURCES_MAX {
            let all = resources.len();
            let of = format!("{all} resources of queue {namespace}/{name}");
            notes.push(format!("only {RESOURCES_MAX} of {of} are shown"));
            resources.truncate(RESOURCES_MAX);
        }
        LocalQueue {
            namespace,
            name,
            pending: local.status.pending_workloads,
            admitted: local.status.admitted_workloads,
            resources,
            cluster_queue: local.spec.cluster_queue,
        }
    };
    let queues = locals.iter().take(QUEUES_MAX).map(queue).collect();
    Queues { queues, notes }
}

fn resources(local: &Lean, cluster: Option<&Lean>) -> Vec<Share> {
    let mut all: BTreeMap<(&str, &str), Share> = BTreeMap::new();
    let quota = cluster.iter().flat_map(|cluster| &cluster.spec.resource_groups);
    for (flavor, of) in each(quota.flat_map(|group| &group.flavors)) {
        entry(&mut all, flavor, of).quota = Some(of.nominal_quota.clone());
    }
    let reserved = cluster.iter().flat_map(|cluster| &cluster.status.flavors_reservation);
    for (flavor, of) in each(reserved) {
        entry(&mut all, flavor, of).all = Some(of.total.clone());
    }
    for (flavor, of) in each(&local.status.flavors_reservation) {
        entry(&mut all, flavor, of).reserved.clone_from(&of.total);
    }
    all.into_values().collect()
}

/// The resources of flavors.
fn each<'l>(
    flavors: impl IntoIterator<Item = &'l LeanFlavor>,
) -> impl Iterator<Item = (&'l LeanFlavor, &'l LeanResource)> {
    let resources = |flavor: &'l LeanFlavor| flavor.resources.iter().map(move |of| (flavor, of));
    flavors.into_iter().flat_map(resources)
}

fn entry<'a, 'l>(
    all: &'a mut BTreeMap<(&'l str, &'l str), Share>,
    flavor: &'l LeanFlavor,
    of: &'l LeanResource,
) -> &'a mut Share {
    all.entry((&flavor.name, &of.name)).or_insert_with(|| Share {
        flavor: flavor.name.clone(),
        resource: of.name.clone(),
        reserved: "0".to_owned(),
        ..Share::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seen(value: &Value) -> RawObject {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    #[test]
    fn what_is_left_out_is_said() {
        let local = |n: usize| {
            let resources: Vec<Value> = (0..=RESOURCES_MAX)
                .map(|n| json!({"name": format!("r-{n}"), "total": "1"}))
                .collect();
            let flavors = json!([{"name": "f", "resources": resources}]);
            let flavors = if n == 0 { flavors } else { json!([]) };
            seen(&json!({"metadata": {"name": format!("q-{n}"), "namespace": "team"},
                "status": {"flavorsReservation": flavors}}))
        };
        let locals: Vec<RawObject> = (0..QUEUES_MAX + 100).map(local).collect();
        let shown = queues(&locals, &[], vec![]);
        assert_eq!((shown.queues.len(), shown.queues[0].resources.len()), (200, 50));
        let want = [
            "only 200 of 300 queues are shown",
            "only 50 of 51 resources of queue team/q-0 are shown",
        ];
        assert_eq!(shown.notes, want);
        let few = queues(&locals[1..=QUEUES_MAX], &[], vec![]);
        assert_eq!((few.queues.len(), few.notes.len()), (200, 0));
    }

    #[test]
    fn a_queue_says_what_is_reserved_and_how_much_there_is() {
        let flavors = |total: &str| {
            json!([{"name": "a100", "resources": [
                {"name": "nvidia.com/gpu", "total": total},
            ]}])
        };
        let local = json!({
            "metadata": {"name": "gpu", "namespace": "team"}, "spec": {"clusterQueue": "all"},
            "status": {"pendingWorkloads": 2, "admittedWorkloads": 1,
                "flavorsReservation": flavors("2")},
        });
        let cluster = json!({
            "metadata": {"name": "all"},
            "spec": {"resourceGroups": [{"flavors": [{"name": "a100", "resources": [
                {"name": "cpu", "nominalQuota": "8"}, {"name": "nvidia.com/gpu", "nominalQuota": "4"},
            ]}]}]},
            "status": {"flavorsReservation": flavors("3")},
        });
        let of =
            |clusters: &[RawObject]| queues(&[seen(&local)], clusters, vec![]).queues.remove(0);
        let queue = of(&[seen(&cluster)]);
        assert_eq!((queue.pending, queue.admitted, queue.cluster_queue.as_str()), (2, 1, "all"));
        let shown: Vec<_> = queue
            .resources
            .iter()
            .map(|it| {
                (it.resource.as_str(), it.reserved.as_str(), it.all.as_deref(), it.quota.as_deref())
            })
            .collect();
        let gpu = ("nvidia.com/gpu", "2", Some("3"), Some("4"));
        assert_eq!(shown, [("cpu", "0", None, Some("8")), gpu]);
        // ClusterQueues are often not for everybody's eyes
        let alone = of(&[]);
        assert_eq!(alone.resources.len(), 1);
        assert_eq!((&alone.resources[0].quota, alone.resources[0].reserved.as_str()), (&None, "2"));
    }
}
