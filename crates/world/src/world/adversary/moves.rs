//! What the adversary does, one move at a time.

use std::sync::Arc;

use serde_json::json;

use super::forge::{HOLD, Victim};
use super::{Adversary, EVIL, Move, NAMESPACE, own};
use crate::sim::{Address, Deletion, Object, Part, Propagation};
use crate::world::actors::FORGED;
use crate::world::oracle::{ATTEMPT, FINALIZER, POD_SET, Thing, UID, Wrapper};
use crate::world::{LABEL, World};

/// How many objects a flood has.
const FLOOD: u64 = 40;

impl Adversary {
    /// Makes a move; what it was.
    pub(super) fn act(&mut self, world: &mut World) -> &'static str {
        let exists = self.wrapper(world).is_some();
        if !exists && !self.rng.one_in(4) {
            self.create(world);
            return "create";
        }
        let what = *self.rng.pick(&self.moves.clone());
        match what {
            Move::Pod => self.pod(world),
            Move::Object => self.object(world),
            Move::Claim => self.claim(world),
            Move::Relabel => self.relabel(world),
            Move::Strip => self.strip(world),
            Move::Orphan => self.delete_thing(world, Propagation::Orphan),
            Move::Delete => self.delete_thing(world, Propagation::Background),
            Move::Scale => self.scale(world),
            Move::Toggle => self.toggle(world),
            Move::Recreate => self.recreate(world),
            Move::Finalizer => self.take_finalizer(world),
            Move::Status => self.forge_status(world),
            Move::Flood => self.flood(world),
            Move::Edit => self.edit(world),
            Move::Steal => self.steal(world),
            Move::Hide => self.hide(world),
            Move::Plant => self.plant(world),
            Move::Revoked => self.lose_rights(world),
        }
        what.as_str()
    }

    /// What it leaves behind: a status that it has forged, and an AppWrapper that is to go.
    pub(super) fn act_last(&mut self, world: &mut World) {
        if self.moves.contains(&Move::Status) && self.rng.one_in(2) {
            self.forge_status(world);
        }
        if self.rng.one_in(4) {
            self.recreate(world);
        }
    }

    /// Its AppWrapper.
    fn wrapper(&self, world: &World) -> Option<Arc<Object>> {
        let kinds = &world.store.kinds;
        let kind = kinds.by_name("workload.codeflare.dev/v1beta2", "AppWrapper")?;
        world.store.get(&Address::new(kind, self.home, self.name)).cloned()
    }

    fn create(&mut self, world: &mut World) {
        let kinds = &world.store.kinds;
        let Some(kind) = kinds.by_name("workload.codeflare.dev/v1beta2", "AppWrapper") else {
            return;
        };
        let wrapper = own::wrapper(&mut self.rng, self.name, self.queued);
        if !world.closed {
            drop(world.store.create(kind, self.home, wrapper));
        }
    }

    /// One of its victims, by chance; its own AppWrapper where there is no other.
    fn victim(&mut self, world: &World) -> Option<Victim> {
        let all: Vec<(&Arc<str>, &Wrapper)> =
            world.oracle.wrappers.iter().filter(|(_, wrapper)| wrapper.sane).collect();
        let (uid, wrapper) = if all.is_empty() {
            world.oracle.wrappers.iter().next()?
        } else {
            *self.rng.pick(&all)
        };
        Some(Victim {
            name: wrapper.address.name.to_string(),
            uid: uid.to_string(),
            things: wrapper.things.keys().map(ToString::to_string).collect(),
        })
    }

    /// One of the things of its own AppWrapper, by chance.
    fn thing(&mut self, world: &World, wanted: impl Fn(&Thing) -> bool) -> Option<Arc<Object>> {
        let wrapper = self.wrapper(world)?;
        let things = &world.oracle.wrappers.get(&wrapper.uid)?.things;
        let uids: Vec<&Arc<str>> =
            things.iter().filter(|(_, thing)| wanted(thing)).map(|(uid, _)| uid).collect();
        if uids.is_empty() {
            return None;
        }
        let uid = *self.rng.pick(&uids);
        world.store.by_uid(uid).cloned()
    }

    fn pod(&mut self, world: &mut World) {
        let Some(victim) = self.victim(world) else { return };
        let home = self.home;
        let mut forger = self.forger(&mut world.store);
        let labels = forger.labels(&victim);
        let owners = forger.owners(&victim);
        forger.pod(home, &labels, &owners);
    }

    fn object(&mut self, world: &mut World) {
        let Some(victim) = self.victim(world) else { return };
        let home = self.home;
        let mut forger = self.forger(&mut world.store);
        let (api, kind) = *forger.rng.pick(&[("v1", "ConfigMap"), ("batch/v1", "Job")]);
        let metadata = json!({"name": forger.fresh("forged"), "labels": forger.labels(&victim),
            "annotations": {FORGED: "true"}, "ownerReferences": forger.owners(&victim)});
        let object = json!({"apiVersion": api, "kind": kind, "metadata": metadata,
            "spec": {"parallelism": 0}});
        forger.put(home, object);
    }

    /// A pod with the labels of its own AppWrapper, and a victim's UID as its owner.
    fn claim(&mut self, world: &mut World) {
        let Some(victim) = self.victim(world) else { return };
        let name = self.name;
        let uid = self.wrapper(world).map(|wrapper| wrapper.uid.to_string()).unwrap_or_default();
        let namespace = if self.rng.one_in(2) { EVIL } else { self.home };
        let mut forger = self.forger(&mut world.store);
        let own = Victim { name: name.to_owned(), uid, things: vec![] };
        let labels = forger.labels(&own);
        let owners = forger.stolen_owners(&victim);
        forger.pod(namespace, &labels, &owners);
    }

    fn relabel(&mut self, world: &mut World) {
        let Some(pod) = self.thing(world, |thing| thing.pod) else { return };
        let victim = self.victim(world).filter(|_| self.home == NAMESPACE);
        let which = self.rng.below(5);
        let attempt = *self.rng.pick(&["0", "1", "9", "-1", "x"]);
        world.store.change(&pod.address, Part::Whole, |pod| {
            let Some(labels) = pod["metadata"]["labels"].as_object_mut() else { return };
            match (which, victim) {
                (0, _) => drop(labels.remove(LABEL)),
                (1, Some(victim)) => {
                    labels.insert(LABEL.to_owned(), victim.name.into());
                    labels.insert(UID.to_owned(), victim.uid.into());
                }
                (2, _) => drop(labels.remove(UID)),
                (3, _) => drop(labels.insert(ATTEMPT.to_owned(), attempt.into())),
                _ => drop(labels.insert(POD_SET.to_owned(), "7-7".into())),
            }
        });
    }

    fn strip(&mut self, world: &mut World) {
        let Some(object) = self.thing(world, |thing| thing.pod || thing.component) else { return };
        let which = self.rng.below(4);
        let gone = object.is_deleting();
        self.held.insert(object.address.clone());
        world.store.change(&object.address, Part::Whole, |object| match which {
            0 => object["metadata"]["ownerReferences"] = json!([]),
            1 => object["metadata"]["labels"] = json!({}),
            2 if !gone => object["metadata"]["finalizers"] = json!([HOLD]),
            _ => object["metadata"]["finalizers"] = json!([]),
        });
    }

    fn hide(&mut self, world: &mut World) {
        let Some(pod) = self.thing(world, |thing| thing.pod && !thing.component) else { return };
        world.store.change(&pod.address, Part::Whole, |pod| {
            if let Some(labels) = pod["metadata"]["labels"].as_object_mut() {
                drop(labels.remove(LABEL));
            }
        });
        self.delete_thing(world, Propagation::Orphan);
    }

    fn plant(&mut self, world: &mut World) {
        let Some(wrapper) = self.wrapper(world) else { return };
        if let Some(own) = self.thing(world, |thing| thing.component && thing.part == Some(0)) {
            let now = Deletion { grace: Some(0), ..Deletion::default() };
            drop(world.store.delete(&own.address, &now));
        }
        let mut object = wrapper.value["spec"]["components"][0]["template"].clone();
        let home = self.home;
        let mut forger = self.forger(&mut world.store);
        object["metadata"]["annotations"] = json!({FORGED: "true"});
        object["metadata"]["ownerReferences"] = forger.bystanders();
        object["spec"]["parallelism"] = 0.into();
        object["spec"]["replicas"] = 0.into();
        let Some(uid) = forger.put_or_find(home, object) else { return };
        world.store.change(&wrapper.address, Part::Status, |wrapper| {
            if let Some(recorded) = wrapper.pointer_mut("/status/componentStatus/0") {
                recorded["uid"] = uid.into();
            }
        });
    }

    fn delete_thing(&mut self, world: &mut World, propagation: Propagation) {
        let orphans = propagation == Propagation::Orphan;
        let wanted = |thing: &Thing| (thing.component || thing.pod) && !(orphans && thing.pod);
        let Some(object) = self.thing(world, wanted) else { return };
        let deletion = Deletion { propagation: Some(propagation), ..Deletion::default() };
        drop(world.store.delete(&object.address, &deletion));
    }

    fn scale(&mut self, world: &mut World) {
        let Some(object) = self.thing(world, |thing| thing.component && !thing.pod) else { return };
        let count = self.rng.between(2, 6);
        let field = match world.store.kinds.get(object.address.kind).kind.as_str() {
            "Job" => "parallelism",
            "Deployment" | "StatefulSet" => "replicas",
            _ => return,
        };
        world.store.change(&object.address, Part::Whole, |object| {
            object["spec"][field] = count.into();
        });
    }

    fn toggle(&mut self, world: &mut World) {
        let Some(wrapper) = self.wrapper(world) else { return };
        let suspend = wrapper.value["spec"]["suspend"] == true;
        // who may let it run is for Kueue alone
        if suspend && self.queued {
            return;
        }
        world.store.change(&wrapper.address, Part::Whole, |wrapper| {
            wrapper["spec"]["suspend"] = (!suspend).into();
        });
    }

    fn recreate(&mut self, world: &mut World) {
        let Some(wrapper) = self.wrapper(world) else { return };
        let policies = [
            None,
            Some(Propagation::Background),
            Some(Propagation::Foreground),
            Some(Propagation::Orphan),
        ];
        let propagation = *self.rng.pick(&policies);
        let deletion = Deletion { propagation, ..Deletion::default() };
        drop(world.store.delete(&wrapper.address, &deletion));
    }

    fn take_finalizer(&mut self, world: &mut World) {
        let Some(wrapper) = self.wrapper(world) else { return };
        world.store.change(&wrapper.address, Part::Whole, |wrapper| {
            if let Some(all) = wrapper["metadata"]["finalizers"].as_array_mut() {
                all.retain(|name| name != FINALIZER);
            }
        });
    }

    fn forge_status(&mut self, world: &mut World) {
        let Some(wrapper) = self.wrapper(world) else { return };
        let Some(victim) = self.victim(world) else { return };
        let mut status = wrapper.value["status"].clone();
        if !status.is_object() {
            status = json!({});
        }
        self.forger(&mut world.store).status(&mut status, &victim);
        world.store.change(&wrapper.address, Part::Status, |wrapper| wrapper["status"] = status);
    }

    fn flood(&mut self, world: &mut World) {
        let Some(victim) = self.victim(world) else { return };
        let victim = if self.home == NAMESPACE {
            victim
        } else {
            Victim { name: self.name.to_owned(), ..victim }
        };
        let count = self.rng.between(5, FLOOD);
        let home = self.home;
        let mut forger = self.forger(&mut world.store);
        for number in 0..count {
            let labels = forger.labels(&victim);
            let owners = json!([{"apiVersion": "batch/v1", "kind": "Job", "controller": true,
                "name": format!("gone-{number}"), "uid": forger.fresh("uid")}]);
            let mut metadata = json!({"name": forger.fresh("flood"), "labels": labels,
                "annotations": {FORGED: "true"}});
            if forger.rng.one_in(2) {
                metadata["ownerReferences"] = owners;
                metadata["finalizers"] = json!([HOLD]);
            }
            // no node is ever found for it, so that it robs nobody of room
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {
                "nodeSelector": {"nowhere": "at-all"}, "containers": [{"name": "main", "image": "x"}]}});
            forger.put(home, pod);
        }
        let some: Vec<Address> = self.made.iter().rev().take(5).cloned().collect();
        for address in some {
            drop(world.store.delete(&address, &Deletion::default()));
        }
    }

    fn edit(&mut self, world: &mut World) {
        let Some(wrapper) = self.wrapper(world) else { return };
        let keys = [
            "retryPausePeriod",
            "failureGracePeriod",
            "forcefulDeletionGracePeriod",
            "warmupGracePeriod",
        ];
        let key = *self.rng.pick(&keys);
        let value = *self.rng.pick(&["0s", "-1h", "99999999h", "5 days", "", "0.0000001ns"]);
        world.store.change(&wrapper.address, Part::Whole, |wrapper| {
            wrapper["metadata"]["annotations"]
                [format!("workload.codeflare.dev.appwrapper/{key}Duration")] = value.into();
        });
    }

    fn steal(&mut self, world: &mut World) {
        let Some(victim) = self.victim(world) else { return };
        let home = self.home;
        let mut forger = self.forger(&mut world.store);
        let (api, kind) =
            *forger.rng.pick(&[("v1", "ConfigMap"), ("batch/v1", "Job"), ("v1", "Pod")]);
        let metadata = json!({"name": format!("{}-c{}", victim.name, forger.rng.between(0, 1)),
            "annotations": {FORGED: "true"}, "labels": forger.labels(&victim)});
        let object = json!({"apiVersion": api, "kind": kind, "metadata": metadata,
            "spec": {"parallelism": 0, "containers": [{"name": "main", "image": "x"}]}});
        forger.put(home, object);
    }

    fn lose_rights(&mut self, world: &mut World) {
        let resource = *self.rng.pick(&["jobs", "deployments", "statefulsets", "pods"]);
        let right = (own::USER.to_owned(), "create".to_owned(), resource.to_owned());
        if !world.store.revoked.remove(&right) {
            world.store.revoked.insert(right);
        }
    }
}

impl Move {
    /// Its name in traces.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Object => "object",
            Self::Claim => "claim",
            Self::Relabel => "relabel",
            Self::Strip => "strip",
            Self::Orphan => "orphan",
            Self::Delete => "delete",
            Self::Scale => "scale",
            Self::Toggle => "toggle",
            Self::Recreate => "recreate",
            Self::Finalizer => "finalizer",
            Self::Status => "status",
            Self::Flood => "flood",
            Self::Edit => "edit",
            Self::Steal => "steal",
            Self::Hide => "hide",
            Self::Plant => "plant",
            Self::Revoked => "revoked",
        }
    }
}
