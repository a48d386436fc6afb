//! The garbage collector, one move at a time: when it moves is for its caller to say.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::object::{Address, Object};
use super::remove::{Deletion, FOREGROUND, ORPHAN, Propagation};
use super::store::{Change, Part, Store, Verb};

/// What the collector has not looked at yet.
#[derive(Clone, Debug, Default)]
pub struct Garbage(BTreeSet<Address>);

impl Garbage {
    /// Notes what a change may have made garbage.
    ///
    /// An owner that waits for its dependents looks for them when it begins to wait, and again when one
    /// of them goes or no longer blocks it; not when there is a new one.
    pub fn note(&mut self, store: &Store, change: &Change) {
        let object = &change.object;
        let before = change.before.as_deref();
        let mut wakes: Vec<&str> = vec![];
        match change.verb {
            Verb::Added | Verb::Modified => {
                let lost = object.owner_uids().any(|uid| store.by_uid(uid).is_none());
                let begins = |name: &str| {
                    waits(object, name) && !before.is_some_and(|before| waits(before, name))
                };
                if lost || begins(FOREGROUND) || begins(ORPHAN) {
                    self.0.insert(object.address.clone());
                }
                if begins(FOREGROUND) {
                    self.0.extend(store.owned_by(&object.uid).map(|each| each.address.clone()));
                }
                let blocked = before.into_iter().flat_map(Object::owner_uids);
                wakes.extend(blocked.filter(|uid| {
                    before.is_some_and(|before| blocks(before, uid)) && !blocks(object, uid)
                }));
            }
            Verb::Deleted => {
                self.0.extend(store.owned_by(&object.uid).map(|each| each.address.clone()));
                wakes.extend(object.owner_uids());
            }
        }
        for owner in wakes.into_iter().filter_map(|uid| store.by_uid(uid)) {
            if waits(owner, FOREGROUND) {
                self.0.insert(owner.address.clone());
            }
        }
    }

    /// Whether there is anything to look at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What there is to look at.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Looks at the n-th of what there is to look at; whether anything was changed.
    pub fn collect(&mut self, store: &mut Store, n: usize) -> bool {
        let Some(address) = self.0.iter().nth(n).cloned() else { return false };
        self.0.remove(&address);
        let Some(object) = store.get(&address).cloned() else { return false };
        if object.is_deleting() && store.finish(&object) {
            return true;
        }
        store.judge(&object)
    }
}

impl Store {
    /// Goes on with an object that waits for its dependents.
    fn finish(&mut self, object: &Arc<Object>) -> bool {
        if object.finalizers().any(|name| name == ORPHAN) {
            let dependents: Vec<Address> =
                self.owned_by(&object.uid).map(|each| each.address.clone()).collect();
            for address in &dependents {
                self.change(address, Part::Whole, |value| disown(value, &object.uid));
            }
            return self.drop_finalizer(object, ORPHAN);
        }
        if object.finalizers().any(|name| name == FOREGROUND) {
            let blocking: Vec<Arc<Object>> = self
                .owned_by(&object.uid)
                .filter(|each| blocks(each, &object.uid))
                .cloned()
                .collect();
            if blocking.is_empty() {
                return self.drop_finalizer(object, FOREGROUND);
            }
            let mut changed = false;
            for each in blocking.iter().filter(|each| !each.is_deleting()) {
                changed |= self.judge(each);
            }
            return changed;
        }
        false
    }

    fn drop_finalizer(&mut self, object: &Object, name: &str) -> bool {
        let left: Vec<String> =
            object.finalizers().filter(|each| *each != name).map(str::to_owned).collect();
        self.change(&object.address, Part::Whole, |value| {
            value["metadata"]["finalizers"] = json!(left);
        })
        .is_some()
    }

    /// Deletes an object that has lost its owners; whether anything was changed.
    fn judge(&mut self, object: &Arc<Object>) -> bool {
        let owners: Vec<&Value> = object.owners().collect();
        if owners.is_empty() || object.is_deleting() {
            return false;
        }
        let uid = |owner: &Value| owner["uid"].as_str().unwrap_or_default().to_owned();
        let found: Vec<Option<Arc<Object>>> =
            owners.iter().map(|owner| self.by_uid(&uid(owner)).cloned()).collect();
        // the collector cannot look for an object of a kind that was never defined
        let nameable = |(owner, found): (&&Value, &Option<Arc<Object>>)| {
            let text = |key: &str| owner[key].as_str().unwrap_or_default();
            found.is_some() || self.kinds.knows(text("apiVersion"), text("kind"))
        };
        if !owners.iter().zip(&found).all(nameable) {
            return false;
        }
        let waits = |owner: &Arc<Object>| waits(owner, FOREGROUND);
        let solid = found.iter().flatten().any(|owner| !waits(owner));
        if solid {
            let gone: Vec<String> = owners
                .iter()
                .zip(&found)
                .filter(|(_, found)| found.as_ref().is_none_or(waits))
                .map(|(owner, _)| uid(owner))
                .collect();
            if !gone.is_empty() {
                self.change(&object.address, Part::Whole, |value| {
                    for each in &gone {
                        disown(value, each);
                    }
                });
            }
            return !gone.is_empty();
        }
        let waited_for = found.iter().flatten().any(waits);
        let has_dependents = self.owned_by(&object.uid).next().is_some();
        let own = |name: &str| object.finalizers().any(|each| each == name);
        let propagation = if waited_for && has_dependents || own(FOREGROUND) {
            Propagation::Foreground
        } else if own(ORPHAN) {
            Propagation::Orphan
        } else {
            Propagation::Background
        };
        let deletion = Deletion {
            propagation: Some(propagation),
            uid: Some(object.uid.to_string()),
            ..Deletion::default()
        };
        self.delete(&object.address, &deletion).is_ok()
    }
}

/// Whether an object waits for its dependents, in one way or the other.
fn waits(object: &Object, finalizer: &str) -> bool {
    object.is_deleting() && object.finalizers().any(|name| name == finalizer)
}

/// Whether an object keeps a foreground deletion of its owner waiting.
fn blocks(object: &Object, owner: &str) -> bool {
    object.owners().any(|each| each["uid"] == owner && each["blockOwnerDeletion"] == true)
}

fn disown(value: &mut Value, owner: &str) {
    if let Some(owners) = value["metadata"]["ownerReferences"].as_array_mut() {
        owners.retain(|each| each["uid"] != owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(name: &str, owner: Option<&Object>) -> Value {
        let mut value = json!({"metadata": {"name": name}});
        if let Some(owner) = owner {
            value["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "v1", "kind": "ConfigMap", "name": &*owner.address.name,
                "uid": &*owner.uid, "blockOwnerDeletion": true,
            }]);
        }
        value
    }

    /// A chain of three, the first deleted in a way; what is left when the collector is done.
    fn left_after(propagation: Propagation) -> Vec<String> {
        let mut store = Store::default();
        let kind = store.kinds.by_name("v1", "ConfigMap").unwrap();
        let a = store.create(kind, "default", owned("a", None)).unwrap();
        let b = store.create(kind, "default", owned("b", Some(&a))).unwrap();
        store.create(kind, "default", owned("c", Some(&b))).unwrap();
        let deletion = Deletion { propagation: Some(propagation), ..Deletion::default() };
        store.delete(&a.address, &deletion).unwrap();
        let mut garbage = Garbage::default();
        let mut seen = 0;
        loop {
            for change in &store.history()[seen..] {
                garbage.note(&store, change);
                seen += 1;
            }
            if garbage.is_empty() {
                break;
            }
            garbage.collect(&mut store, 0);
        }
        store.all(kind).map(|object| object.address.name.to_string()).collect()
    }

    #[test]
    fn dependents_go_or_stay() {
        assert_eq!(left_after(Propagation::Background), Vec::<String>::new());
        assert_eq!(left_after(Propagation::Foreground), Vec::<String>::new());
        assert_eq!(left_after(Propagation::Orphan), ["b", "c"]);
    }
}
