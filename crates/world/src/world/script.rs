//! What users, strangers, machines and Kueue's administrator do.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::actors::kueue::Outcome;
use super::actors::{Task, nodes};
use super::coverage::Covered;
use super::scene::Act;
use super::{ACTIVE, LABEL, NAMESPACE, World, oracle};
use crate::sim::{Address, Deletion, Object, Part, Propagation};

/// A finalizer of nobody that we know.
const HOLD: &str = "example.com/hold";

impl World {
    /// Carries out a move of the script.
    pub(super) fn follow_script(&mut self, index: usize) {
        let act = self.script[index].clone();
        // of a calm world everything happens, else its end could not be compared
        let calm = self.adversary.as_ref().is_some_and(|adversary| adversary.calm);
        if !self.faults_on && act.does_harm() && !calm {
            return;
        }
        self.trace.detail(|| act.to_string().chars().take(60000).collect());
        if let Some(fault) = act.fault() {
            self.coverage.fault(fault);
        }
        match act {
            Act::Create(object) => self.create_or_retry(index, *object),
            Act::Suspend(name, suspend) => {
                let event = if suspend { Covered::Suspended } else { Covered::Resumed };
                // who may let it run is for Kueue alone, as the webhook has it
                let managed = !self.kueue.quota.is_empty();
                if suspend || !managed {
                    self.edit(&name, event, |value| value["spec"]["suspend"] = suspend.into());
                }
            }
            Act::Annotate(name, key, value) => {
                let key = format!("workload.codeflare.dev.appwrapper/{key}Duration");
                self.edit(&name, Covered::Edited, |object| {
                    object["metadata"]["annotations"][key] = value.into();
                });
            }
            Act::Activate(name, active) => {
                let event = if active { Covered::Activated } else { Covered::Deactivated };
                self.edit(&name, event, |object| {
                    object["metadata"]["annotations"][ACTIVE] = active.to_string().into();
                });
            }
            Act::Delete(name, propagation) => self.delete_wrapper(&name, propagation),
            Act::DeleteComponent(name) => self.delete_thing(&name, false),
            Act::DeletePod(name) => self.delete_thing(&name, true),
            Act::Unlabel(name) => self.unlabel(&name),
            Act::Hold(name) => self.hold(&name),
            Act::Preempt(name) => self.preempt(&name),
            Act::Impostor(name) => self.impostor(&name),
            Act::Node(name, up) => {
                self.happened(if up { Covered::NodeUp } else { Covered::NodeDown });
                self.set_node(&name, up);
            }
            Act::OutOfService(name, is_out) => {
                self.happened(if is_out { Covered::NodeShutDown } else { Covered::NodeUp });
                nodes::set_node(&mut self.store, &name, is_out.then_some(self.elapsed));
                nodes::set_out_of_service(&mut self.store, &name, is_out);
            }
            Act::DeleteNode(name) => self.delete_node(&name),
            Act::Mark(name, marked) => self.mark(&name, marked),
            Act::Serve(api, kind, served) => self.serve_kind(api, kind, served),
            Act::Close(closed) => {
                self.closed = closed;
                self.happened(Covered::NamespaceClosed);
            }
            Act::Policy(name, spec) => self.set_policy(&name, spec.map(|spec| *spec)),
            Act::Configure(most) => self.configure(most),
        }
    }

    /// Creates an object, or tries again a second later where that was refused.
    fn create_or_retry(&mut self, index: usize, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let (is_node, stranger) = (object["kind"] == "Node", object["kind"] != "AppWrapper");
        if self.closed || !self.create(object) {
            if self.faults_on {
                self.agenda.at(self.elapsed + Duration::from_secs(1), Task::Script(index));
            }
        } else if is_node {
            // its kubelet registers it with its status
            nodes::set_node(&mut self.store, &name, None);
        } else if stranger {
            let owner = name.split('-').next().unwrap_or_default().to_owned();
            self.happened_to(&owner, Covered::Stranger);
        }
    }

    fn wrapper(&self, name: &str) -> Option<Arc<Object>> {
        let kind = self.store.kinds.by_name("workload.codeflare.dev/v1beta2", "AppWrapper")?;
        self.store.get(&Address::new(kind, NAMESPACE, name)).cloned()
    }

    fn edit(&mut self, name: &str, event: Covered, change: impl FnOnce(&mut Value)) {
        let Some(wrapper) = self.wrapper(name) else { return };
        self.happened_to(name, event);
        self.store.change(&wrapper.address, Part::Whole, change);
    }

    fn delete_wrapper(&mut self, name: &str, propagation: Option<Propagation>) {
        let Some(wrapper) = self.wrapper(name) else { return };
        self.happened_to(name, Covered::Deleted);
        let deletion = Deletion { propagation, ..Deletion::default() };
        drop(self.store.delete(&wrapper.address, &deletion));
    }

    /// One of the things of an AppWrapper, by chance.
    fn thing(
        &mut self,
        name: &str,
        wanted: impl Fn(&oracle::Thing) -> bool,
    ) -> Option<Arc<Object>> {
        let wrapper = self.wrapper(name)?;
        let things = &self.oracle.wrappers.get(&wrapper.uid)?.things;
        let uids: Vec<&Arc<str>> =
            things.iter().filter(|(_, thing)| wanted(thing)).map(|(uid, _)| uid).collect();
        if uids.is_empty() {
            return None;
        }
        let uid = uids[self.user_rng.below(uids.len())].clone();
        self.store.by_uid(&uid).cloned()
    }

    fn delete_thing(&mut self, name: &str, pod: bool) {
        let wanted =
            |thing: &oracle::Thing| if pod { thing.pod } else { thing.component && !thing.pod };
        let Some(object) = self.thing(name, wanted) else { return };
        let event = if pod { Covered::PodDeleted } else { Covered::ComponentDeleted };
        self.happened_to(name, event);
        let deletion =
            Deletion { propagation: Some(Propagation::Background), ..Deletion::default() };
        drop(self.store.delete(&object.address, &deletion));
    }

    fn unlabel(&mut self, name: &str) {
        // a pod without the label is hidden from every watch: its owner has taken it away
        let wanted = |thing: &oracle::Thing| thing.component && !thing.pod;
        let Some(object) = self.thing(name, wanted) else { return };
        self.happened_to(name, Covered::ComponentUnlabelled);
        self.store.change(&object.address, Part::Whole, |object| {
            if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
                labels.remove(LABEL);
            }
        });
    }

    fn hold(&mut self, name: &str) {
        let Some(object) = self.thing(name, |thing| thing.component || thing.pod) else { return };
        if object.is_deleting() {
            return;
        }
        self.happened_to(name, Covered::FinalizerHeld);
        self.coverage.fault(super::faults::Fault::Finalizer);
        self.store.change(&object.address, Part::Whole, |object| {
            let mut all = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            all.push(HOLD.into());
            object["metadata"]["finalizers"] = all.into();
        });
    }

    /// Labels that somebody took away are back: without them no watch shows what becomes of a component.
    pub(super) fn relabel_all(&mut self) {
        let bare: Vec<(Address, String)> = self
            .oracle
            .wrappers
            .values()
            .flat_map(|wrapper| {
                let things = wrapper.things.iter();
                let components = things.filter(|(_, thing)| {
                    if wrapper.hostile { thing.pod && !thing.component } else { thing.component }
                });
                components.map(|(uid, _)| (uid, wrapper.address.name.to_string()))
            })
            .filter_map(|(uid, name)| Some((self.store.by_uid(uid)?, name)))
            .filter(|(object, name)| object.label(LABEL) != Some(name))
            .map(|(object, name)| (object.address.clone(), name))
            .collect();
        for (address, name) in bare {
            self.store.change(&address, Part::Whole, |object| {
                object["metadata"]["labels"][LABEL] = name.into();
            });
        }
    }

    /// Nobody holds anything any more.
    pub(super) fn release_all(&mut self) {
        let held: Vec<Address> = self
            .oracle
            .wrappers
            .values()
            .flat_map(|wrapper| wrapper.things.keys())
            .filter_map(|uid| self.store.by_uid(uid))
            .filter(|object| object.finalizers().any(|name| name == HOLD))
            .map(|object| object.address.clone())
            .collect();
        for address in held {
            self.store.change(&address, Part::Whole, |object| {
                if let Some(all) = object["metadata"]["finalizers"].as_array_mut() {
                    all.retain(|name| name != HOLD);
                }
            });
        }
    }

    fn preempt(&mut self, name: &str) {
        let Some(wrapper) = self.wrapper(name) else { return };
        let admitted = self.kueue.workloads.get(&wrapper.uid).is_some_and(|workload| {
            workload.standing == super::actors::kueue::WorkloadState::Admitted
        });
        if !admitted || wrapper.is_deleting() {
            return;
        }
        self.happened_to(name, Covered::Preempted);
        self.coverage.fault(super::faults::Fault::Kueue);
        let (_, kueue, mut env) = self.actors();
        kueue.evict(&mut env, &wrapper, Outcome::Preempted);
    }

    /// A pod ends at a moment, and not before: exit code, reason and message.
    pub(super) fn end_pod(&mut self, pod: &Object, at: Duration, why: (i64, &str, &str)) {
        let (kubelets, _, mut env) = self.actors();
        kubelets.end_at(&mut env, pod, at, why);
    }

    /// A pod with our labels that belongs to somebody else.
    fn impostor(&mut self, name: &str) {
        let uid = self.wrapper(name).map(|wrapper| wrapper.uid.to_string()).unwrap_or_default();
        let owner = json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": "other", "uid": "not-ours",
            "controller": true,
        }]);
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("{name}-impostor"), "labels": {
                LABEL: name, oracle::ATTEMPT: "0", "workload.codeflare.dev/podset": "0-0",
            }, "annotations": {"sim/run-for": "1s", "sim/exit-code": "3"}},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        });
        if self.user_rng.one_in(2) {
            // with its owner there, so that it is nobody's orphan
            self.create(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}),
            );
            let kind = self.store.kinds.by_name("v1", "ConfigMap");
            let other =
                kind.and_then(|kind| self.store.get(&Address::new(kind, NAMESPACE, "other")));
            let other = other.map(|other| other.uid.to_string()).unwrap_or_default();
            pod["metadata"]["ownerReferences"] = owner;
            pod["metadata"]["ownerReferences"][0]["uid"] = other.into();
            pod["metadata"]["ownerReferences"][0]["apiVersion"] = "v1".into();
            pod["metadata"]["ownerReferences"][0]["kind"] = "ConfigMap".into();
            pod["metadata"]["labels"]["workload.codeflare.dev/appwrapper-uid"] = uid.into();
        }
        if self.create(pod) {
            self.happened_to(name, Covered::Stranger);
            self.coverage.fault(super::faults::Fault::Stranger);
        }
    }

    /// A node stops to answer, or answers again. Where its kubelet is silent, that is noticed later.
    fn set_node(&mut self, name: &str, up: bool) {
        if up || !self.silent_nodes {
            return nodes::set_node(&mut self.store, name, (!up).then_some(self.elapsed));
        }
        let Some(kind) = self.store.kinds.by_name("v1", "Node") else { return };
        let noticed = self.elapsed + nodes::UNNOTICED_FOR;
        nodes::silence(&mut self.store, name, noticed);
        self.agenda.at(noticed, Task::Node(Address::new(kind, "", name)));
    }

    fn delete_node(&mut self, name: &str) {
        let Some(kind) = self.store.kinds.by_name("v1", "Node") else { return };
        let address = Address::new(kind, "", name);
        if self.store.delete(&address, &Deletion::default()).is_err() {
            return;
        }
        self.happened(Covered::NodeDeleted);
        self.coverage.fault(super::faults::Fault::Node);
        // its pods are looked at; its kubelet registers it again, or another machine has its hostname
        let (kubelets, _, mut env) = self.actors();
        kubelets.node(&mut env, &address);
        let other = if self.same_nodes { name.to_owned() } else { format!("{name}x") };
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": other, "labels": {"kubernetes.io/hostname": name}}});
        self.script.push(Act::Create(Box::new(node)));
        let at = self.elapsed + Duration::from_secs(20);
        self.agenda.at(at, Task::Script(self.script.len() - 1));
    }

    /// A retry policy comes, changes or goes.
    fn set_policy(&mut self, name: &str, spec: Option<Value>) {
        let (api, kind) = ("workload.codeflare.dev/v1alpha1", "RetryPolicy");
        let Some(id) = self.store.kinds.by_name(api, kind) else { return };
        let address = Address::new(id, "", name);
        self.happened(Covered::PolicyChanged);
        match spec {
            None => drop(self.store.delete(&address, &Deletion::default())),
            Some(spec) if self.store.get(&address).is_some() => {
                self.store.change(&address, Part::Whole, |policy| policy["spec"] = spec);
            }
            Some(spec) => {
                let object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec});
                self.create(object);
            }
        }
    }

    /// The configuration file changes; each process reads it.
    fn configure(&mut self, most: i32) {
        self.happened(Covered::Configured);
        self.config.retry_policy.global_max_retries = most;
        self.oracle.policies.note_global(i64::from(most));
        for replica in &self.replicas {
            replica.configure(&self.config);
        }
    }

    fn mark(&mut self, name: &str, marked: bool) {
        let Some(kind) = self.store.kinds.by_name("v1", "Node") else { return };
        self.happened(Covered::NodeMarked);
        self.store.change(&Address::new(kind, "", name), Part::Whole, |node| {
            node["metadata"]["labels"]["health"] = if marked { "EVICT" } else { "OK" }.into();
        });
    }

    pub(super) fn serve_kind(&mut self, api: &str, kind: &str, served: bool) {
        if served {
            for id in std::mem::take(&mut self.unserved) {
                self.store.kinds.serve(id, true);
            }
            self.happened(Covered::KindServed);
            return;
        }
        let Some(id) = self.store.kinds.by_name(api, kind) else { return };
        self.happened(Covered::KindRemoved);
        self.coverage.fault(super::faults::Fault::Kind);
        // the definition goes, and its objects with it; what they own follows
        let all: Vec<Address> = self.store.all(id).map(|object| object.address.clone()).collect();
        for address in all {
            self.store.change(&address, Part::Whole, |object| {
                object["metadata"]["finalizers"] = json!([]);
            });
            let background =
                Deletion { propagation: Some(Propagation::Background), ..Deletion::default() };
            drop(self.store.delete(&address, &background));
        }
        self.store.kinds.serve(id, false);
        self.unserved.push(id);
    }
}
