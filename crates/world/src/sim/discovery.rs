//! Discovery: which groups, versions and resources there are.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::kinds::Kind;
use super::refusal::Refusal;
use super::store::Store;

/// The document of a discovery path.
pub(super) fn document(store: &Store, path: &str) -> Result<String, Refusal> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let document = match parts.as_slice() {
        ["version"] => json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0-simulated"}),
        ["healthz" | "livez" | "readyz"] => return Ok("ok".to_owned()),
        ["api"] => json!({"kind": "APIVersions", "versions": ["v1"]}),
        ["apis"] => {
            let names: BTreeSet<&str> = store
                .kinds
                .served()
                .map(|(_, kind)| kind.group.as_str())
                .filter(|group| !group.is_empty())
                .collect();
            let groups: Vec<Value> = names.into_iter().map(|name| group(store, name)).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        ["api", version] => resources(store, "", version)?,
        ["apis", name] if has_group(store, name) => {
            let mut group = group(store, name);
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            group
        }
        ["apis", name, version] => resources(store, name, version)?,
        _ => return Err(Refusal::nowhere()),
    };
    Ok(document.to_string())
}

fn has_group(store: &Store, name: &str) -> bool {
    store.kinds.served().any(|(_, kind)| kind.group == name)
}

fn group(store: &Store, name: &str) -> Value {
    let mut versions: Vec<&str> = store
        .kinds
        .served()
        .filter(|(_, kind)| kind.group == name)
        .map(|(_, kind)| kind.version.as_str())
        .collect();
    versions.sort_by_key(|version| Reverse(maturity(version)));
    versions.dedup();
    let versions: Vec<Value> = versions
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

/// Orders versions: the mature before beta before alpha, of each the greater number first.
fn maturity(version: &str) -> (u8, u32, u32) {
    let number = |text: &str| text.parse().unwrap_or(0);
    let rest = version.strip_prefix('v').unwrap_or(version);
    for (rank, word) in [(1, "beta"), (0, "alpha")] {
        if let Some((major, minor)) = rest.split_once(word) {
            return (rank, number(major), number(minor));
        }
    }
    (2, number(rest), 0)
}

fn resources(store: &Store, group: &str, version: &str) -> Result<Value, Refusal> {
    let kinds: Vec<&Kind> = store
        .kinds
        .served()
        .map(|(_, kind)| kind)
        .filter(|kind| kind.group == group && kind.version == version)
        .collect();
    let Some(first) = kinds.first() else { return Err(Refusal::nowhere()) };
    let verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
    let mut resources = vec![];
    for kind in &kinds {
        let one = |name: String, verbs: &[&str]| {
            json!({
                "name": name, "singularName": kind.kind.to_lowercase(), "kind": kind.kind,
                "namespaced": kind.namespaced, "verbs": verbs,
            })
        };
        resources.push(one(kind.plural.clone(), &verbs));
        if kind.status {
            resources.push(one(format!("{}/status", kind.plural), &["get", "patch", "update"]));
        }
    }
    Ok(json!({
        "kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": first.api_version(), "resources": resources,
    }))
}
