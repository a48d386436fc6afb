//! A tree from objects and their owners. By UIDs alone: what only has a fitting name is not in it.

use std::collections::BTreeMap;

use serde::Serialize;

/// An object in the tree, with those that it owns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Node {
    pub kind: String,
    pub name: String,
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodFacts>,
    /// It has failed, or is not what it should be.
    #[serde(skip)]
    pub bad: bool,
    pub children: Vec<Self>,
}

/// What is said of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodFacts {
    pub phase: &'static str,
    pub node: Option<String>,
    /// Restarts of its containers.
    pub restarts: i64,
    pub attempt: Option<i32>,
    pub terminating: bool,
}

/// An object that was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Thing {
    pub uid: String,
    /// UID of the object that controls it.
    pub owner: String,
    pub node: Node,
}

/// A component: its object, where there is one that is the AppWrapper's.
#[derive(Clone, Debug, Default)]
pub(super) struct Member {
    pub uid: Option<String>,
    pub node: Node,
}

impl Node {
    pub(super) fn new(kind: &str, name: &str, state: String) -> Self {
        Self { kind: kind.to_owned(), name: name.to_owned(), state, ..Self::default() }
    }
}

/// Puts the components under the AppWrapper, and everything else under its owner. What has no owner in the
/// tree is left out; what the AppWrapper itself owns and is no component is under it, after those.
pub(super) fn grow(root: Node, uid: &str, components: Vec<Member>, things: Vec<Thing>) -> Node {
    let known: Vec<String> = components.iter().filter_map(|member| member.uid.clone()).collect();
    let mut by_owner: BTreeMap<String, Vec<Thing>> = BTreeMap::new();
    for thing in things.into_iter().filter(|thing| !known.contains(&thing.uid)) {
        by_owner.entry(thing.owner.clone()).or_default().push(thing);
    }
    let mut children: Vec<Node> = components
        .into_iter()
        .map(|member| {
            let below = member.uid.map(|uid| under(&uid, &mut by_owner)).unwrap_or_default();
            Node { children: below, ..member.node }
        })
        .collect();
    children.extend(under(uid, &mut by_owner));
    Node { children, ..root }
}

/// What an object owns. Each is taken out of the rest, so that a circle ends.
fn under(uid: &str, by_owner: &mut BTreeMap<String, Vec<Thing>>) -> Vec<Node> {
    let mut things = by_owner.remove(uid).unwrap_or_default();
    things.sort_by(|a, b| {
        (&a.node.kind, &a.node.name, &a.uid).cmp(&(&b.node.kind, &b.node.name, &b.uid))
    });
    things
        .into_iter()
        .map(|thing| Node { children: under(&thing.uid, by_owner), ..thing.node })
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn thing(kind: &str, name: &str, uid: &str, owner: &str, state: &str) -> Thing {
        let node = Node::new(kind, name, state.to_owned());
        Thing { uid: uid.to_owned(), owner: owner.to_owned(), node }
    }

    pub fn component(kind: &str, name: &str, uid: Option<&str>, state: &str) -> Member {
        Member { uid: uid.map(str::to_owned), node: Node::new(kind, name, state.to_owned()) }
    }

    fn shape(node: &Node) -> String {
        let below: Vec<String> = node.children.iter().map(shape).collect();
        if below.is_empty() {
            node.name.clone()
        } else {
            format!("{}({})", node.name, below.join(" "))
        }
    }

    #[test]
    fn everything_is_under_its_owner_and_strangers_are_nowhere() {
        let things = vec![
            thing("Pod", "b", "b", "job", ""),
            thing("Pod", "a", "a", "job", ""),
            thing("Job", "job", "job", "set", ""),
            thing("Pod", "stranger", "s", "elsewhere", ""),
            thing("Pod", "stray", "t", "aw", ""),
            thing("Job", "circle-1", "c1", "c2", ""),
            thing("Job", "circle-2", "c2", "c1", ""),
            thing("Job", "itself", "me", "me", ""),
            // a component that is a pod is found among the pods, too
            thing("Pod", "wrapped", "w", "aw", ""),
        ];
        let components = vec![
            component("JobSet", "set", Some("set"), ""),
            component("Pod", "wrapped", Some("w"), ""),
            component("Job", "missing", None, ""),
        ];
        let tree = grow(Node::new("AppWrapper", "aw", String::new()), "aw", components, things);
        assert_eq!(shape(&tree), "aw(set(job(a b)) wrapped missing stray)");
    }
}
