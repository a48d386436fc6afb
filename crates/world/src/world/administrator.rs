//! An administrator who does what a condition asks for: a pod that holds back an AppWrapper, and of which the
//! controller cannot tell whose it is, is deleted by force.

use super::actors::find_condition;
use super::{Source, World};
use crate::api::condition;
use crate::sim::{Deletion, Object};

impl World {
    /// Deletes the pods that AppWrappers name as undetermined; whether there were any.
    ///
    /// That is a person's work only where no process could know better. A pod whose owner the leading
    /// process has read, or the status records, is left to the controller.
    pub(super) fn delete_undetermined(&mut self) -> bool {
        let Some(leader) = self.replicas.iter().find(|replica| replica.leads) else { return false };
        let mut named = vec![];
        for wrapper in self.oracle.wrappers.values().filter(|wrapper| wrapper.sane) {
            let Some(object) = self.store.get(&wrapper.address) else { continue };
            let pods = self.store.kinds.by_name("v1", "Pod").map(|kind| self.store.all(kind));
            for pod in pods.into_iter().flatten().filter(|pod| is_named(object, pod)) {
                let owner = pod.controller().and_then(|owner| owner["uid"].as_str());
                let Some(owner) = owner else { continue };
                let known = leader.read.contains(owner) || records(object, owner);
                if self.store.by_uid(owner).is_none() && !known {
                    named.push(pod.clone());
                }
            }
        }
        for pod in &named {
            let deletion =
                Deletion { grace: Some(0), uid: Some(pod.uid.to_string()), ..Deletion::default() };
            drop(self.store.delete(&pod.address, &deletion));
        }
        self.absorb(Source::Others);
        !named.is_empty()
    }
}

/// Whether an AppWrapper waits for a pod of which it says that it cannot tell whose it is.
fn is_named(wrapper: &Object, pod: &Object) -> bool {
    let name = format!("Pod/{}, which has the labels", pod.address.name);
    let kinds = [condition::DELETING_RESOURCES, condition::UNDETERMINED_PODS];
    let mut messages = kinds.iter().filter_map(|kind| {
        find_condition(&wrapper.value, kind).and_then(|condition| condition["message"].as_str())
    });
    messages.any(|message| message.contains(&name))
}

/// Whether the status of an AppWrapper names an owner of pods.
fn records(wrapper: &Object, owner: &str) -> bool {
    let components = wrapper.value["status"]["componentStatus"].as_array().into_iter().flatten();
    let mut owners =
        components.flat_map(|entry| entry["podOwners"].as_array().into_iter().flatten());
    owners.any(|uid| uid == owner)
}
