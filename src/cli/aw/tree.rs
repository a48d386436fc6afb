//! `appwrapper tree`: an AppWrapper, its components, and what they made, down to the pods.

mod grow;
pub(in crate::cli) mod look;

use std::process::ExitCode;

use serde::Serialize;

use super::super::Error;
use super::super::term::{self, Colour, Page};
use super::{Target, block_on, tell, words};
use grow::{Node, grow};
use look::Found;

use crate::observe::assemble::Wrapper;

/// A tree, and what could not be read.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Tree {
    namespace: String,
    #[serde(flatten)]
    root: Node,
    notes: Vec<String>,
}

pub(in crate::cli) fn run(target: &Target) -> Result<ExitCode, Error> {
    let tree = block_on(async {
        let place = target.place().await?;
        let one = place.one(&target.name).await?;
        let found = look::look(&place, &one.wrapper).await?;
        Ok(tree(&one.wrapper, &found))
    })?;
    tell(target.output, &tree, || text(&tree, term::has_colour()))
}

/// The tree of what was found.
pub(in crate::cli) fn tree(wrapper: &Wrapper, found: &Found) -> Tree {
    let phase = words::phase(wrapper.status.phase).to_owned();
    let root = Node::new("AppWrapper", &wrapper.name, phase);
    let (root, note) = grow(root, &wrapper.uid, found.components.clone(), found.things.clone());
    let notes = found.notes.iter().cloned().chain(note).collect();
    Tree { namespace: wrapper.namespace.clone(), root, notes }
}

fn text(tree: &Tree, colours: bool) -> Page {
    let mut page = Page::default();
    draw(&tree.root, "", "", colours, &mut page);
    for note in &tree.notes {
        page.line(&format!("note: {note}"));
    }
    page
}

/// One line for a node, then those under it; `stem` stands before its own line, `below` before theirs.
fn draw(node: &Node, stem: &str, below: &str, colours: bool, page: &mut Page) {
    let title = format!("{}/{}", node.kind, node.name);
    let colour = node.bad.then_some(Colour::Red);
    let line = [(stem.to_owned(), None), (title, colour), (format!("  {}", node.state), None)];
    page.spans(&line, colours);
    let count = node.children.len();
    for (index, child) in node.children.iter().enumerate() {
        let (branch, gap) =
            if index + 1 < count { ("├─ ", "│  ") } else { ("└─ ", "   ") };
        draw(child, &format!("{below}{branch}"), &format!("{below}{gap}"), colours, page);
    }
}

#[cfg(test)]
mod tests {
    use super::grow::tests::{component, thing};
    use super::*;

    #[test]
    fn a_tree_is_drawn_with_its_branches() {
        let things = vec![
            thing("Job", "set-a", "job-a", "set", "exists"),
            thing("Pod", "set-a-0", "pod-a", "job-a", "Running on node-1"),
            thing("Pod", "set-a-1", "pod-b", "job-a", "Failed\x1b[2J"),
        ];
        let components = vec![
            component("JobSet", "set", Some("set"), "exists"),
            component("ConfigMap", "data", None, "not created"),
        ];
        let root = Node::new("AppWrapper", "aw", "Running".into());
        let (root, _) = grow(root, "aw", components, things);
        let tree = Tree { namespace: "ns".into(), root, notes: vec!["Jobs: no".into()] };
        let want = "\
AppWrapper/aw  Running
├─ JobSet/set  exists
│  └─ Job/set-a  exists
│     ├─ Pod/set-a-0  Running on node-1
│     └─ Pod/set-a-1  Failed\\u{1b}[2J
└─ ConfigMap/data  not created
note: Jobs: no
";
        assert_eq!(text(&tree, false).to_string(), want);
        let json = serde_json::to_value(&tree).unwrap();
        assert_eq!(json["kind"], "AppWrapper");
        assert_eq!(json["children"][0]["children"][0]["children"][1]["name"], "set-a-1");
    }
}
