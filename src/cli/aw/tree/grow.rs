//! A tree from objects and their owners. By UIDs alone: what only has a fitting name is not in it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::look::CHAIN_MAX;

/// The most levels of objects under a component: the longest chain of owners that is read, and a pod.
const LEVELS_MAX: usize = CHAIN_MAX + 1;
/// The most objects under the components and the AppWrapper: whoever may create Jobs chooses how many there are.
const THINGS_MAX: usize = 2_000;

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
/// tree is left out; what the AppWrapper itself owns and is no component is under it, after those. Where there is more
/// than is shown, a note says so.
pub(super) fn grow(
    root: Node,
    uid: &str,
    components: Vec<Member>,
    things: Vec<Thing>,
) -> (Node, Option<String>) {
    let known: Vec<String> = components.iter().filter_map(|member| member.uid.clone()).collect();
    let mut by_owner: BTreeMap<String, Vec<Thing>> = BTreeMap::new();
    for thing in things.into_iter().filter(|thing| !known.contains(&thing.uid)) {
        by_owner.entry(thing.owner.clone()).or_default().push(thing);
    }
    let mut rest = Rest { by_owner, room: THINGS_MAX, is_cut: false };
    let mut children: Vec<Node> = components
        .into_iter()
        .map(|member| {
            let below = member.uid.map(|uid| rest.under(&uid, LEVELS_MAX)).unwrap_or_default();
            Node { children: below, ..member.node }
        })
        .collect();
    children.extend(rest.under(uid, LEVELS_MAX));
    let note = rest.is_cut.then(|| {
        format!("more objects exist: at most {THINGS_MAX} in {LEVELS_MAX} levels are shown")
    });
    (Node { children, ..root }, note)
}

/// What is not in the tree yet.
struct Rest {
    by_owner: BTreeMap<String, Vec<Thing>>,
    /// How many more objects are shown.
    room: usize,
    /// Some objects are not shown.
    is_cut: bool,
}

impl Rest {
    /// What an object owns, in at most so many levels. Each is taken out of the rest, so that a circle ends.
    fn under(&mut self, uid: &str, levels: usize) -> Vec<Node> {
        let mut things = self.by_owner.remove(uid).unwrap_or_default();
        things.sort_by(|a, b| {
            (&a.node.kind, &a.node.name, &a.uid).cmp(&(&b.node.kind, &b.node.name, &b.uid))
        });
        let room = if levels == 0 { 0 } else { self.room };
        self.is_cut |= things.len() > room;
        things.truncate(room);
        self.room -= things.len();
        let below = levels.saturating_sub(1);
        things
            .into_iter()
            .map(|thing| Node { children: self.under(&thing.uid, below), ..thing.node })
            .collect()
    }
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
        let root = Node::new("AppWrapper", "aw", String::new());
        let (tree, note) = grow(root, "aw", components, things);
        assert_eq!(shape(&tree), "aw(set(job(a b)) wrapped missing stray)");
        assert_eq!(note, None);
    }

    #[test]
    fn long_chains_and_crowds_are_cut_with_a_note() {
        fn count(node: &Node) -> usize {
            1 + node.children.iter().map(count).sum::<usize>()
        }
        let link = |n: usize| thing("Job", "j", &format!("u{}", n + 1), &format!("u{n}"), "");
        let one = |n: usize| thing("Pod", &format!("p{n}"), &format!("p{n}"), "u0", "");
        let chain = |length: usize| (0..length).map(link).collect::<Vec<_>>();
        let crowd = |length: usize| (0..length).map(one).collect::<Vec<_>>();
        for (things, shown, is_cut) in [
            (chain(LEVELS_MAX), LEVELS_MAX, false),
            (chain(20_000), LEVELS_MAX, true),
            (crowd(THINGS_MAX), THINGS_MAX, false),
            (crowd(THINGS_MAX + 1), THINGS_MAX, true),
        ] {
            // under a component, and under the AppWrapper itself
            for (uid, components) in [
                ("aw", vec![component("JobSet", "set", Some("u0"), "")]),
                ("u0", vec![component("JobSet", "set", None, "")]),
            ] {
                let root = Node::new("AppWrapper", "aw", String::new());
                let (tree, note) = grow(root, uid, components, things.clone());
                assert_eq!((count(&tree), note.is_some()), (shown + 2, is_cut));
            }
        }
    }
}
