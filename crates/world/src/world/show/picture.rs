//! How a world is now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Show;
use crate::api::AppWrapperStatus;
use crate::sim::Object;
use crate::world::actors::kueue::{QUEUE, WorkloadState};
use crate::world::actors::{has_ended, is_true, phase};
use crate::world::oracle;
use crate::world::scene::pods_in;

/// The world as it is now.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Time since the world began.
    pub elapsed: Duration,
    /// AppWrappers.
    pub wrappers: Vec<WrapperNow>,
    /// Pods, by name.
    pub pods: Vec<PodNow>,
    /// Nodes: name, whether it answers, pods on it.
    pub nodes: Vec<(String, bool, usize)>,
    /// What is reserved and what there is, by resource, in thousandths.
    pub quota: BTreeMap<String, (i64, i64)>,
    /// The controller is there.
    pub controlled: bool,
}

/// An AppWrapper as it is now.
#[derive(Clone, Debug)]
pub struct WrapperNow {
    /// Its name.
    pub name: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its status.
    pub status: AppWrapperStatus,
    /// It is suspended.
    pub suspend: bool,
    /// What Kueue thinks of it, where Kueue manages it.
    pub standing: Option<WorkloadState>,
    /// What it asks Kueue for.
    pub needs: BTreeMap<String, i64>,
    /// Pods that run or have succeeded, and are not being deleted.
    pub ready: usize,
    /// Pods that it is made of.
    pub expected: usize,
}

/// A pod as it is now.
#[derive(Clone, Debug)]
pub struct PodNow {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// Its phase.
    pub phase: String,
    /// Its attempt.
    pub attempt: String,
    /// It is being deleted.
    pub terminating: bool,
    /// And nobody carries that out.
    pub hangs: bool,
}

impl Show {
    /// The world as it is now.
    #[must_use]
    pub fn picture(&self) -> Picture {
        let nodes = self.of_kind("v1", "Node").map(|node| {
            let name = &*node.address.name;
            let on = self
                .of_kind("v1", "Pod")
                .filter(|pod| pod.value["spec"]["nodeName"] == *name && !has_ended(pod));
            (name.to_owned(), is_true(&node.value, "Ready"), on.count())
        });
        let mut wrappers: Vec<&Arc<Object>> =
            self.of_kind("workload.codeflare.dev/v1beta2", "AppWrapper").collect();
        // in the order in which they came: UIDs are counted
        wrappers.sort_by_key(|wrapper| wrapper.uid.clone());
        Picture {
            elapsed: self.world.elapsed,
            wrappers: wrappers.into_iter().map(|wrapper| self.wrapper_now(wrapper)).collect(),
            pods: self.of_kind("v1", "Pod").map(|pod| self.pod_now(pod)).collect(),
            nodes: nodes.collect(),
            quota: self.quota(),
            controlled: self
                .world
                .replicas
                .iter()
                .any(|replica| replica.frozen_until <= self.world.elapsed),
        }
    }

    fn wrapper_now(&self, wrapper: &Object) -> WrapperNow {
        let workload = self.world.kueue.workloads.get(&wrapper.uid);
        let workload = workload.filter(|_| wrapper.label(QUEUE).is_some());
        let all = wrapper.value["metadata"]["annotations"].as_object().into_iter().flatten();
        let text = |(key, value): (&String, &Value)| {
            Some((key.clone(), value.as_str().unwrap_or_default().to_owned()))
        };
        let components = wrapper.value["spec"]["components"].as_array().into_iter().flatten();
        let expected: i64 = components
            .flat_map(|component| pods_in(&component["template"]))
            .map(|(count, _)| count)
            .sum();
        let things =
            self.world.oracle.wrappers.get(&wrapper.uid).map(|known| known.things.values());
        let runs = |phase: &str| phase == "Running" || phase == "Succeeded";
        let ready = things.into_iter().flatten();
        let ready = ready.filter(|thing| thing.pod && !thing.terminating && runs(&thing.phase));
        WrapperNow {
            name: wrapper.address.name.to_string(),
            annotations: all.filter_map(text).collect(),
            status: serde_json::from_value(wrapper.value["status"].clone()).unwrap_or_default(),
            suspend: wrapper.value["spec"]["suspend"] == true,
            standing: workload.map(|workload| workload.standing),
            needs: workload.map(|workload| workload.requests.clone()).unwrap_or_default(),
            ready: ready.count(),
            expected: usize::try_from(expected).unwrap_or(0),
        }
    }

    fn pod_now(&self, pod: &Object) -> PodNow {
        PodNow {
            name: pod.address.name.to_string(),
            node: pod.value["spec"]["nodeName"].as_str().unwrap_or_default().to_owned(),
            phase: phase(pod).to_owned(),
            attempt: pod.label(oracle::ATTEMPT).unwrap_or_default().to_owned(),
            terminating: pod.is_deleting(),
            hangs: self.world.kubelets.hangs(&self.world.store, pod),
        }
    }
}
