//! What users, strangers and machines do, by chance.

use std::time::Duration;

use serde_json::{Value, json};

use super::author::Author;
use super::{Act, HOSTILE, Scene};
use crate::sim::Propagation;
use crate::world::faults::Fault;

impl Author<'_> {
    pub(super) fn strangers(&mut self, scene: &mut Scene, names: &[String]) {
        if self.faults.has(Fault::Stranger) && self.rng.one_in(5) {
            let name = self.rng.pick(names).clone();
            let kind = *self.rng.pick(&[("v1", "ConfigMap"), ("batch/v1", "Job"), ("v1", "Pod")]);
            let mut object = json!({
                "apiVersion": kind.0, "kind": kind.1, "metadata": {"name": format!("{name}-c0")},
                "spec": {"parallelism": 0},
            });
            if self.rng.one_in(2) {
                object["metadata"]["labels"] = json!({
                    "workload.codeflare.dev/appwrapper": name,
                    "workload.codeflare.dev/attempt": "0",
                });
            }
            let at = self.rng.moment(30);
            scene.script.push((at, Act::Create(Box::new(object))));
        }
        if self.faults.has(Fault::Stranger) && self.rng.one_in(4) {
            let name = self.rng.pick(names).clone();
            let at = self.later();
            scene.script.push((at, Act::Impostor(name)));
        }
        if self.faults.has(Fault::Poison) && self.rng.one_in(6) {
            let at = self.rng.moment(10);
            scene.script.push((at, Act::Create(Box::new(self.poison()))));
        }
    }

    /// AppWrappers from which nothing can come.
    pub(super) fn poison(&mut self) -> Value {
        let mut wrapper = json!({
            "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
            "metadata": {"name": "poison", "labels": {HOSTILE: "true"}},
            "spec": {"suspend": false, "components": []},
        });
        match self.rng.below(4) {
            0 => wrapper["spec"]["components"] = 3.into(),
            1 => wrapper["spec"]["components"] = json!([{"template": {"metadata": "boo"}}]),
            2 => {
                wrapper["spec"]["components"] = json!([{"template": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}}]);
            }
            _ => wrapper["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue".into(),
        }
        wrapper
    }

    pub(super) fn people(&mut self, scene: &mut Scene, names: &[String], queued: bool) {
        if self.faults.has(Fault::User) {
            for _ in 0..self.rng.below(5) {
                let name = self.rng.pick(names).clone();
                let at = self.later();
                let act = self.user_action(name.clone(), scene);
                scene.script.push((at, act));
                if self.rng.one_in(3) {
                    self.burst(&name, at, scene);
                }
            }
        }
        if self.faults.has(Fault::Kueue) && queued {
            for _ in 0..self.rng.below(4) {
                let name = self.rng.pick(names).clone();
                let at = self.later();
                scene.script.push((at, Act::Preempt(name)));
            }
        }
    }

    /// More happens to the same AppWrapper, shortly after.
    pub(super) fn burst(&mut self, name: &str, after: Duration, scene: &mut Scene) {
        for _ in 0..self.rng.between(1, 3) {
            let at = after + Duration::from_millis(self.rng.between(1, 700));
            let name = name.to_owned();
            let act = match self.rng.below(7) {
                0 => Act::DeletePod(name),
                1 => Act::DeleteComponent(name),
                2 => Act::Unlabel(name),
                3 if self.faults.has(Fault::Finalizer) => Act::Hold(name),
                4 => Act::Suspend(name, true),
                5 => Act::Suspend(name, false),
                _ => Act::Annotate(name, "failureGracePeriod", "7s".to_owned()),
            };
            scene.script.push((at, act));
        }
    }

    pub(super) fn user_action(&mut self, name: String, scene: &mut Scene) -> Act {
        match self.rng.below(11) {
            0 | 1 => Act::Suspend(name, true),
            2 | 3 => Act::Suspend(name, false),
            4 => {
                let policies = [
                    None,
                    Some(Propagation::Background),
                    Some(Propagation::Foreground),
                    Some(Propagation::Orphan),
                ];
                Act::Delete(name, *self.rng.pick(&policies))
            }
            5 => {
                // and again, by the same name
                let queued = !scene.quota.is_empty();
                let wrapper = self.wrapper(&name, queued);
                let at = self.later();
                scene.script.push((at, Act::Create(Box::new(wrapper))));
                Act::Delete(name, None)
            }
            6 => {
                let key = *self.rng.pick(&[
                    "failureGracePeriod",
                    "retryPausePeriod",
                    "warmupGracePeriod",
                ]);
                Act::Annotate(name, key, format!("{}s", self.rng.between(0, 30)))
            }
            7 => Act::DeleteComponent(name),
            8 => Act::Unlabel(name),
            _ => Act::DeletePod(name),
        }
    }

    pub(super) fn machines(&mut self, scene: &mut Scene, names: &[String]) {
        if self.faults.has(Fault::Finalizer) && self.rng.one_in(3) {
            let name = self.rng.pick(names).clone();
            let at = self.later();
            scene.script.push((at, Act::Hold(name)));
        }
        if self.faults.has(Fault::Node) {
            for _ in 0..self.rng.below(4) {
                let node = scene.nodes[self.rng.below(scene.nodes.len())].0.clone();
                let at = self.later();
                let act = match self.rng.below(4) {
                    0 => Act::DeleteNode(node),
                    1 => Act::Mark(node, true),
                    2 => Act::OutOfService(node, true),
                    _ => Act::Node(node, false),
                };
                if let Act::Node(node, _) | Act::OutOfService(node, _) | Act::Mark(node, _) = &act {
                    let back = at + self.later();
                    let undo = match &act {
                        Act::Mark(..) => Act::Mark(node.clone(), false),
                        Act::OutOfService(..) => Act::OutOfService(node.clone(), false),
                        _ => Act::Node(node.clone(), true),
                    };
                    scene.script.push((back, undo));
                }
                scene.script.push((at, act));
            }
        }
        if self.faults.has(Fault::Kind) && self.rng.one_in(5) {
            let (api, kind) =
                *self.rng.pick(&[("jobset.x-k8s.io/v1alpha2", "JobSet"), ("batch/v1", "Job")]);
            let at = self.later();
            let back = at + self.later();
            scene.script.push((at, Act::Serve(api, kind, false)));
            scene.script.push((back, Act::Serve(api, kind, true)));
        }
        if self.faults.has(Fault::Namespace) && self.rng.one_in(8) {
            let at = self.later();
            let back = at + self.later();
            scene.script.push((at, Act::Close(true)));
            scene.script.push((back, Act::Close(false)));
        }
    }
}
