//! How far the components of an AppWrapper are: what its status says of them, and what they have reached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Thing;
use super::own::Own;
use crate::sim::Object;
use crate::world::actors::is_true;

/// The components of an AppWrapper.
#[derive(Clone, Debug, Default)]
pub struct Components {
    /// Those that the status says are to be created.
    pub coming: BTreeSet<usize>,
    /// Those that the status says are to go and come back, and since when.
    pub going: BTreeMap<usize, Duration>,
    /// Those that the last write of the status has sent away.
    pub sent: Vec<usize>,
    /// Those that were created in this attempt, where there are steps.
    pub made: BTreeSet<usize>,
    /// Those that say that they have succeeded, in this attempt.
    ended: BTreeSet<usize>,
    /// Pods of each pod set that were ready or had succeeded, in this attempt.
    ready: BTreeMap<String, BTreeSet<Arc<str>>>,
    /// Pods of each pod set that had succeeded, in this attempt.
    succeeded: BTreeMap<String, BTreeSet<Arc<str>>>,
}

/// What has succeeded, whether it is still there or not.
#[derive(Clone, Debug, Default)]
pub struct Successes {
    /// Components that say so themselves.
    pub parts: BTreeSet<usize>,
    /// Pods, by pod set.
    pub pods: BTreeMap<String, BTreeSet<Arc<str>>>,
}

impl Successes {
    /// Takes in how a component or a pod is.
    pub fn note(&mut self, object: &Object, thing: &Thing) {
        let pod = thing.pod && thing.phase == "Succeeded";
        let ends = ["Complete", "Completed", "Succeeded"];
        let ended = pod || ends.iter().any(|condition| is_true(&object.value, condition));
        if let Some(part) = thing.part.filter(|_| thing.component && ended) {
            self.parts.insert(part);
        }
        if let Some(set) = thing.pod_set.as_ref().filter(|_| pod) {
            self.pods.entry(set.clone()).or_default().insert(object.uid.clone());
        }
    }
}

impl Components {
    /// A new attempt.
    pub fn begin(&mut self) {
        self.made.clear();
        self.ended.clear();
        self.ready.clear();
        self.succeeded.clear();
    }

    /// What `componentStatus` says.
    pub fn note(&mut self, status: &Value, elapsed: Duration) {
        self.coming.clear();
        self.sent.clear();
        let mut going = BTreeSet::new();
        for (index, component) in status.as_array().into_iter().flatten().enumerate() {
            let conditions = component["conditions"].as_array();
            let deployed =
                conditions.into_iter().flatten().find(|one| one["type"] == "ResourcesDeployed");
            let Some(deployed) = deployed.filter(|one| one["status"] == "False") else { continue };
            if deployed["reason"] == "Recreating" {
                going.insert(index);
            } else {
                self.coming.insert(index);
            }
        }
        self.going.retain(|index, _| going.contains(index));
        for index in going {
            self.going.entry(index).or_insert_with(|| {
                self.sent.push(index);
                elapsed
            });
        }
    }

    /// Takes in how a component or a pod is.
    pub fn reach(&mut self, object: &Object, thing: &Thing) {
        let ends = ["Complete", "Completed", "Succeeded"];
        let ended = ends.iter().any(|condition| is_true(&object.value, condition))
            || thing.pod && thing.phase == "Succeeded";
        if let Some(part) = thing.part.filter(|_| thing.component) {
            self.made.insert(part);
            if ended {
                self.ended.insert(part);
            }
        }
        let Some(pod_set) = thing.pod_set.as_ref().filter(|_| thing.pod) else { return };
        if thing.phase == "Running" || thing.phase == "Succeeded" {
            let ready = self.ready.entry(pod_set.clone()).or_default();
            ready.insert(object.uid.clone());
        }
        if thing.phase == "Succeeded" {
            let succeeded = self.succeeded.entry(pod_set.clone()).or_default();
            succeeded.insert(object.uid.clone());
        }
    }

    /// Whether a component has ever been so far in this attempt that the next step may begin; that all of
    /// its pods were so at once is not asked, since a watch may leave out states.
    #[must_use]
    pub fn has_reached(&self, own: &Own, part: usize, expected: &BTreeMap<String, i64>) -> bool {
        let must_succeed = own.must_succeed.get(own.steps[part]).copied().unwrap_or(false);
        let seen = if must_succeed { &self.succeeded } else { &self.ready };
        let prefix = format!("{part}-");
        let mut sets = expected.iter().filter(|(name, _)| name.starts_with(&prefix));
        self.ended.contains(&part)
            || sets.all(|(name, count)| {
                if own.open_ended.contains(&part) && self.succeeded.contains_key(name) {
                    return !must_succeed;
                }
                let seen = seen.get(name).map_or(0, BTreeSet::len);
                i64::try_from(seen).unwrap_or(i64::MAX) >= *count
            })
    }
}
