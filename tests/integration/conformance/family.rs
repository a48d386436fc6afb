//! Owners and what they own.

use serde_json::json;

use super::generate::{Generator, JSON, MERGE_PATCH, Step, send};

impl Generator {
    /// The life of an owner and of what it owns, from its end: chance alone rarely makes one.
    pub(super) fn family(&mut self) -> Vec<Step> {
        let [(parent, name), (child, other), ..] = self.targets.as_slice() else { return vec![] };
        if parent.is_unbound() || child.is_unbound() {
            return vec![];
        }
        let lists = [parent.path(&self.namespace), child.path(&self.namespace)];
        let paths = [format!("{}/{name}", lists[0]), format!("{}/{other}", lists[1])];
        let mut dependent = child.fresh(other);
        dependent["metadata"]["ownerReferences"] = json!([{
            "apiVersion": parent.api_version, "kind": parent.kind, "name": name,
            "uid": format!("$uid:{}/{name}", parent.plural), "blockOwnerDeletion": true,
        }]);
        dependent["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let owner = parent.fresh(name);
        let policies = ["Background", "Orphan", "Foreground"];
        let policy = policies[self.random.below(if self.foreground { 3 } else { 2 })];
        let release = json!({"metadata": {"finalizers": []}});
        vec![
            send("PATCH", paths[1].clone(), MERGE_PATCH, Some(release)),
            send("GET", paths[1].clone(), JSON, None),
            send("GET", paths[0].clone(), JSON, None),
            send("DELETE", paths[0].clone(), JSON, Some(json!({"propagationPolicy": policy}))),
            send("POST", lists[1].clone(), JSON, Some(dependent)),
            send("POST", lists[0].clone(), JSON, Some(owner)),
        ]
    }
}
