//! Kueue with `waitForPodsReady` that the controller knows, Workloads as objects, and `onNoFit` and the annotation
//! `active`, by chance.

use std::time::Duration;

use serde_json::json;

use super::{Act, HOSTILE, Scene};
use crate::world::actors::kueue::QUEUE;
use crate::world::rng::Rng;

impl Scene {
    /// In a third of the worlds with a queue, or in each. In half of those the nodes are small until everything is
    /// healed, so that Kueue admits what does not fit.
    pub(super) fn add_kueue(&mut self, rng: &mut Rng, all: bool) {
        if self.quota.is_empty() || !all && !rng.one_in(3) {
            return;
        }
        self.shows_workloads = true;
        if rng.one_in(2) {
            self.ready_within = Some(Duration::from_secs(rng.between(60, 400)));
        }
        if rng.one_in(2) {
            for (_, room) in &mut self.nodes {
                *room = 1;
            }
        }
        for (_, act) in &mut self.script {
            let Act::Create(object) = act else { continue };
            let labels = &object["metadata"]["labels"];
            let is_one = object["kind"] == "AppWrapper"
                && labels[HOSTILE].is_null()
                && labels[QUEUE].is_string()
                && object["spec"].is_object();
            if is_one && (all || !rng.one_in(3)) {
                let action = if rng.one_in(3) { "Hold" } else { "Requeue" };
                let after = format!("{}s", rng.between(10, 60));
                object["spec"]["onNoFit"] = json!({"after": after, "action": action});
            }
        }
    }

    /// In half of the worlds in which Kueue has patience and the Workloads are objects, that ends.
    pub(super) fn add_giving_up(&mut self, rng: &mut Rng) {
        if self.shows_workloads && self.ready_within.is_some() && rng.one_in(2) {
            let most = u32::try_from(rng.between(0, 3)).unwrap_or(0);
            self.gives_up = Some((Duration::from_secs(rng.between(60, 400)), most));
        }
    }

    /// In a third of the worlds, or in each, users deactivate AppWrappers; most activate them again. Not where the
    /// Workloads cannot be seen: the controller would look for them for ever.
    pub(super) fn add_activation(&mut self, rng: &mut Rng, all: bool) {
        if !self.quota.is_empty() && !self.shows_workloads || !all && !rng.one_in(3) {
            return;
        }
        let created = self.script.iter().filter_map(|(at, act)| match act {
            Act::Create(object) if object["kind"] == "AppWrapper" => {
                Some((*at, object["metadata"]["name"].as_str()?.to_owned()))
            }
            _ => None,
        });
        for (created, name) in created.collect::<Vec<_>>() {
            let mut at = created;
            let times = rng.below(5);
            for time in 0..times {
                at += Duration::from_millis(
                    rng.between(0, 90_000) / if rng.one_in(3) { 90 } else { 1 },
                );
                self.script.push((at, Act::Activate(name.clone(), time % 2 == 1)));
            }
        }
    }
}
