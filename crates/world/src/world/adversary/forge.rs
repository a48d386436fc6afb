//! Forgeries: labels, owner references, statuses.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{EVIL, NAMESPACE};
use crate::sim::{Address, Store};
use crate::world::LABEL;
use crate::world::actors::FORGED;
use crate::world::oracle::{ATTEMPT, POD_SET, UID};
use crate::world::rng::Rng;

/// A finalizer of nobody that the controller knows.
pub(super) const HOLD: &str = "example.com/hold";

/// Whose something claims to be.
#[derive(Clone, Debug)]
pub(super) struct Victim {
    /// Name of the AppWrapper.
    pub name: String,
    /// UID of the AppWrapper.
    pub uid: String,
    /// UIDs of what belongs to it.
    pub things: Vec<String>,
}

/// Makes forged objects.
pub(super) struct Forger<'a> {
    pub rng: &'a mut Rng,
    pub store: &'a mut Store,
    pub home: &'static str,
    pub made: &'a mut BTreeSet<Address>,
    pub counted: &'a mut u64,
}

/// A controller owner reference.
fn reference(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true})
}

impl Forger<'_> {
    /// Creates the objects that forged owner references name.
    pub fn prepare(&mut self) {
        let object = |api: &str, kind: &str, name: &str| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}});
        for namespace in [NAMESPACE, EVIL] {
            for (api, kind) in [("v1", "Secret"), ("batch/v1", "CronJob"), ("v1", "ConfigMap")] {
                self.put(namespace, object(api, kind, "bystander"));
            }
        }
    }

    /// Where an object is to be, if its kind is served.
    fn address(&self, namespace: &str, object: &Value) -> Option<Address> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let [api_version, kind] = ["apiVersion", "kind"].map(|key| text(&object[key]));
        let kind = self.store.kinds.by_name(&api_version, &kind)?;
        Some(Address::new(kind, namespace, &text(&object["metadata"]["name"])))
    }

    /// Creates an object of its own; its UID where it was accepted.
    pub fn put(&mut self, namespace: &str, object: Value) -> Option<String> {
        let kind = self.address(namespace, &object)?.kind;
        let created = self.store.create(kind, namespace, object).ok()?;
        self.made.insert(created.address.clone());
        Some(created.uid.to_string())
    }

    /// The same; the UID of the forged object that has the name, where there is one.
    pub fn put_or_find(&mut self, namespace: &str, object: Value) -> Option<String> {
        let address = self.address(namespace, &object)?;
        if self.made.contains(&address) {
            return self.store.get(&address).map(|found| found.uid.to_string());
        }
        self.put(namespace, object)
    }

    /// A name that was not used before.
    pub fn fresh(&mut self, what: &str) -> String {
        *self.counted += 1;
        format!("{what}-{}", self.counted)
    }

    /// UID of an object of its namespace that has nothing to do with anybody.
    fn bystander(&self, api_version: &str, kind: &str) -> String {
        let kind = self.store.kinds.by_name(api_version, kind);
        let object =
            kind.and_then(|kind| self.store.get(&Address::new(kind, self.home, "bystander")));
        object.map(|object| object.uid.to_string()).unwrap_or_default()
    }

    /// Owner references to an object that has nothing to do with anybody.
    pub fn bystanders(&self) -> Value {
        let uid = self.bystander("v1", "ConfigMap");
        json!([reference("v1", "ConfigMap", "bystander", &uid)])
    }

    /// Owner references that lead to no AppWrapper, or to a victim's by its UID alone.
    pub fn owners(&mut self, victim: &Victim) -> Value {
        let stolen = |rng: &mut Rng| {
            let all = &victim.things;
            if all.is_empty() { victim.uid.clone() } else { rng.pick(all).clone() }
        };
        match self.rng.below(15) {
            0 => json!([]),
            1 => json!([reference("example.com/v9", "Invented", "x", "no-such-uid")]),
            2 => json!([reference("v1", "Secret", "bystander", &self.bystander("v1", "Secret"))]),
            3 => {
                let uid = self.bystander("batch/v1", "CronJob");
                json!([reference("batch/v1", "CronJob", "bystander", &uid)])
            }
            4 => json!([reference("batch/v1", "Job", "a b/../%\u{7f}\n", "no-such-uid")]),
            5 => json!([reference("bat ch/v1", "Job", "x", "no-such-uid")]),
            6 => json!([reference("v1", "Node", "node-1", "no-such-uid")]),
            7 => json!([reference("batch/v1", "Job", "x", &"u".repeat(4_000))]),
            8 => json!([reference("batch/v1", "Job", "gone", "no-such-uid")]),
            9 => self.bystanders(),
            10 => json!([reference("v1", "Node", "node-1", &stolen(self.rng))]),
            11 => json!([reference("example.com/v9", "Invented", "x", &stolen(self.rng))]),
            12 => json!([reference("v1", "Secret", "bystander", &stolen(self.rng))]),
            13 => json!([reference("v1", "ConfigMap", "bystander", &victim.uid)]),
            _ => self.cycle(),
        }
    }

    /// Owner references of another kind with the UID of something of a victim's.
    pub fn stolen_owners(&mut self, victim: &Victim) -> Value {
        let all = &victim.things;
        let uid = if all.is_empty() { victim.uid.clone() } else { self.rng.pick(all).clone() };
        json!([match self.rng.below(5) {
            0..=2 => reference("v1", "Node", "node-1", &uid),
            3 => reference("example.com/v9", "Invented", "x", &uid),
            _ => reference("v1", "ConfigMap", "bystander", &uid),
        }])
    }

    /// Two objects that own each other.
    fn cycle(&mut self) -> Value {
        let (a, b) = (self.fresh("ring"), self.fresh("ring"));
        let object = |name: &str, owners: Value| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "annotations": {FORGED: "true"}, "ownerReferences": owners}})
        };
        let home = self.home;
        let Some(first) = self.put(home, object(&a, json!([]))) else { return json!([]) };
        let to_first = reference("v1", "ConfigMap", &a, &first);
        let second = self.put(home, object(&b, json!([to_first]))).unwrap_or_default();
        let to_second = reference("v1", "ConfigMap", &b, &second);
        if let Some(kind) = self.store.kinds.by_name("v1", "ConfigMap") {
            let address = Address::new(kind, home, &a);
            self.store.change(&address, crate::sim::Part::Whole, |object| {
                object["metadata"]["ownerReferences"] = json!([to_second]);
            });
        }
        json!([to_first])
    }

    /// Labels of a victim, some of them wrong.
    pub fn labels(&mut self, victim: &Victim) -> Value {
        let mut labels = json!({LABEL: victim.name});
        if !self.rng.one_in(3) {
            labels[UID] = victim.uid.clone().into();
        }
        if !self.rng.one_in(3) {
            labels[ATTEMPT] = (*self.rng.pick(&["0", "1", "7", "-1", "2147483647", "x"])).into();
        }
        if !self.rng.one_in(4) {
            let sets = ["0-0", "0-1", "1-0", "99-99", "18446744073709551615-0", "a-b"];
            labels[POD_SET] = (*self.rng.pick(&sets)).into();
        }
        labels
    }

    /// How a forged pod lives.
    pub fn life(&mut self) -> Value {
        match self.rng.below(6) {
            0 => json!({FORGED: "true"}),
            1 => json!({FORGED: "true", "sim/never-ready": "true"}),
            2 => json!({FORGED: "true", "sim/run-for": "1s"}),
            3 => {
                let message = "x".repeat(4_096);
                json!({FORGED: "true", "sim/run-for": "1s", "sim/exit-code": "42", "sim/message": message})
            }
            4 => {
                json!({FORGED: "true", "sim/run-for": "1s", "sim/exit-code": "3", "sim/stuck": "true"})
            }
            _ => {
                json!({FORGED: "true", "sim/run-for": "1s", "sim/exit-code": "137", "sim/reason": "OOMKilled"})
            }
        }
    }

    /// A pod of nobody.
    pub fn pod(&mut self, namespace: &str, labels: &Value, owners: &Value) {
        let name = self.fresh("forged");
        let mut metadata = json!({"name": name, "labels": labels, "annotations": self.life(),
            "ownerReferences": owners});
        if self.rng.one_in(3) {
            metadata["finalizers"] = json!([HOLD]);
        }
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"containers": [{"name": "main", "image": "x"}]}});
        self.put(namespace, pod);
    }

    /// Changes the status of an AppWrapper to something that no controller has written.
    pub fn status(&mut self, status: &mut Value, victim: &Victim) {
        const FAR: [&str; 4] = [
            "9999-12-31T23:59:59Z",
            "2100-01-01T00:00:00Z",
            "0001-01-01T00:00:00Z",
            "2026-02-01T00:00:00Z",
        ];
        let far = *self.rng.pick(&FAR);
        let phases = ["Paused", "running", "Suspended", "Resetting", "Terminating", "Running"];
        match self.rng.below(16) {
            0 | 1 => status["phase"] = (*self.rng.pick(&phases)).into(),
            2 | 14 | 15 => {
                status["retryAfter"] = far.into();
                if self.rng.one_in(2) {
                    status["phase"] = "Resetting".into();
                }
            }
            3 => self.condition(status, far),
            4 => {
                status["resettingCount"] =
                    (*self.rng.pick(&[-1_i64, -2_147_483_648, 2_147_483_647])).into();
            }
            5 | 6 => self.component(status, victim),
            7 => {
                let number = *self.rng.pick(&[-5_i64, 2_147_483_647, 0]);
                status["attempts"] = json!([{"attempt": number, "startedAt": far}]);
            }
            8 => {
                status["pendingMemory"] = json!([
                    {"component": -1, "podSet": 99, "container": "main", "request": "999999Ti"},
                    {"component": 0, "podSet": 0, "container": "main", "request": "garbage"},
                ]);
            }
            9 => {
                status["since"] =
                    json!({"deployed": far, "deleting": far, "gone": far, "failedPods": far});
            }
            10 => status["uncountedRestarts"] = (*self.rng.pick(&[-1_i64, 2_147_483_647])).into(),
            11 => {
                status["retryCounts"] = json!([{"policy": "infra", "rule": "", "count": -7}]);
                status["avoidNodes"] = json!(["node-1", "node-2", "node-3"]);
            }
            12 => {
                let done = json!([{"type": "Succeeded", "status": "True", "reason": "x", "message": "", "lastTransitionTime": far}]);
                for one in status["componentStatus"].as_array_mut().into_iter().flatten() {
                    one["conditions"] = done.clone();
                }
            }
            _ => *status = json!({}),
        }
    }

    fn condition(&mut self, status: &mut Value, far: &str) {
        let kinds =
            ["QuotaReserved", "ResourcesDeployed", "PodsReady", "Unhealthy", "DeletingResources"];
        let kind = *self.rng.pick(&kinds);
        let word = *self.rng.pick(&["True", "False", "Unknown"]);
        let new = json!({"type": kind, "status": word, "reason": "Forged", "lastTransitionTime": far,
            "message": "x".repeat(1_000)});
        let mut all = status["conditions"].as_array().cloned().unwrap_or_default();
        all.retain(|one| one["type"] != kind);
        all.push(new);
        status["conditions"] = all.into();
    }

    /// A component that points at somebody else's object.
    fn component(&mut self, status: &mut Value, victim: &Victim) {
        let objects = victim.things.iter().filter_map(|uid| self.store.by_uid(uid));
        let mut all: Vec<Value> =
            objects.map(|object| Self::pointer(self.store, &object.address, &object.uid)).collect();
        if let Some(kind) = self.store.kinds.by_name("v1", "ConfigMap") {
            let at = Address::new(kind, self.home, "bystander");
            if let Some(found) = self.store.get(&at) {
                all.push(Self::pointer(self.store, &at, &found.uid));
            }
        }
        if all.is_empty() {
            return;
        }
        let forged = self.rng.pick(&all).clone();
        let mut own = status["componentStatus"].as_array().cloned().unwrap_or_default();
        match self.rng.below(3) {
            0 if !own.is_empty() => own[0]["uid"] = forged["uid"].clone(),
            1 => own = vec![forged; 40],
            _ if own.is_empty() => own.push(forged),
            _ => own[0] = forged,
        }
        status["componentStatus"] = own.into();
    }

    fn pointer(store: &Store, address: &Address, uid: &str) -> Value {
        let kind = store.kinds.get(address.kind);
        json!({"name": &*address.name, "kind": kind.kind, "apiVersion": kind.api_version(),
            "uid": uid, "podSets": []})
    }
}
