//! Which queues have a label of their own. Anybody may name any queue in an AppWrapper, so that a name
//! alone is worth nothing: the queue must exist, or work must have been admitted under its name.

use std::collections::{BTreeMap, BTreeSet};

use super::census::{Present, QueueKnown};
use super::names::OTHER;
use crate::tuning::names::LABEL_MAX;

/// How many names that are known only from admitted work one namespace can bring in.
const PER_NAMESPACE_MAX: usize = 50;

/// The queues that have a label; every other one is `other`.
#[derive(Debug)]
pub(super) struct Queues {
    labelled: BTreeSet<String>,
    most: usize,
}

/// What is known of the name of a queue; what comes first has the better claim to a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// The queue exists.
    Exists,
    /// Work was admitted under the name, and it has a label already.
    Keeps,
    /// Work was admitted under the name.
    Admitted,
    /// It has a label, and an AppWrapper still names it.
    Named,
    /// It has a label, and no AppWrapper names it.
    Unused,
}

impl Queues {
    /// No queues yet, and at most that many.
    pub(super) const fn up_to(most: usize) -> Self {
        Self { labelled: BTreeSet::new(), most }
    }

    /// Chooses the queues again. Returns the names that lost their label.
    pub(super) fn choose(&mut self, present: &[Present]) -> Vec<String> {
        let mut claims: Vec<(Claim, &str, &str)> = self.claims(present);
        claims.sort();
        let mut chosen = BTreeSet::new();
        let mut brought: BTreeMap<&str, usize> = BTreeMap::new();
        for (claim, name, namespace) in claims {
            if chosen.len() >= self.most || chosen.contains(name) {
                continue;
            }
            if claim != Claim::Exists {
                let count = brought.entry(namespace).or_default();
                if *count >= PER_NAMESPACE_MAX && claim != Claim::Unused {
                    continue;
                }
                *count += 1;
            }
            chosen.insert(name.to_owned());
        }
        let lost = self.labelled.difference(&chosen).cloned().collect();
        self.labelled = chosen;
        lost
    }

    /// Every name with what is known of it in each namespace that names it.
    fn claims<'a>(&'a self, present: &'a [Present]) -> Vec<(Claim, &'a str, &'a str)> {
        let mut claims: BTreeMap<(&str, &str), Claim> = BTreeMap::new();
        let mut named: BTreeSet<&str> = BTreeSet::new();
        for each in present.iter().filter(|each| (1..=LABEL_MAX).contains(&each.queue.len())) {
            let name = each.queue.as_str();
            named.insert(name);
            let claim = match (each.queue_known, self.labelled.contains(name)) {
                (QueueKnown::Exists, _) => Claim::Exists,
                (QueueKnown::Admitted, true) => Claim::Keeps,
                (QueueKnown::Admitted, false) => Claim::Admitted,
                (QueueKnown::Named, true) => Claim::Named,
                (QueueKnown::Named, false) => continue,
            };
            let best = claims.entry((name, &each.namespace)).or_insert_with(|| claim.clone());
            if claim < *best {
                *best = claim;
            }
        }
        let unused = self.labelled.iter().filter(|name| !named.contains(name.as_str()));
        let claims = claims.into_iter().map(|((name, namespace), claim)| (claim, name, namespace));
        claims.chain(unused.map(|name| (Claim::Unused, name.as_str(), ""))).collect()
    }

    /// The label for a queue; an AppWrapper without one has an empty label.
    pub(super) fn label<'a>(&self, queue: &'a str) -> &'a str {
        if queue.is_empty() || self.labelled.contains(queue) { queue } else { OTHER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(namespace: &str, queue: &str) -> Present {
        let (namespace, queue) = (namespace.to_owned(), queue.to_owned());
        Present { namespace, queue, ..Present::default() }
    }

    fn admitted(namespace: &str, queue: &str) -> Present {
        Present { queue_known: QueueKnown::Admitted, ..named(namespace, queue) }
    }

    fn existing(namespace: &str, queue: &str) -> Present {
        Present { queue_known: QueueKnown::Exists, ..named(namespace, queue) }
    }

    #[test]
    fn a_name_alone_is_worth_no_label() {
        let mut queues = Queues::up_to(3);
        let long = "x".repeat(64);
        let all = [
            named("a", "junk"),
            admitted("a", "used"),
            existing("b", "real"),
            admitted("a", &long),
        ];
        assert!(queues.choose(&all).is_empty());
        let labels = ["junk", "used", "real", &long, ""].map(|name| queues.label(name));
        assert_eq!(labels, [OTHER, "used", "real", OTHER, ""]);
    }

    #[test]
    fn what_exists_comes_first_and_what_is_unused_makes_room() {
        let mut queues = Queues::up_to(2);
        assert!(
            queues.choose(&[admitted("a", "x"), admitted("a", "y"), admitted("a", "z")]).is_empty()
        );
        assert_eq!(queues.label("z"), OTHER);
        // nobody needs the room: what is unused keeps its label, and what is named only, too
        assert!(queues.choose(&[named("a", "x")]).is_empty());
        assert_eq!([queues.label("x"), queues.label("y")], ["x", "y"]);
        assert_eq!(queues.choose(&[named("a", "x"), admitted("b", "z")]), ["y"]);
        assert_eq!(
            queues.choose(&[admitted("a", "x"), admitted("b", "z"), existing("c", "real")]),
            ["z"]
        );
        assert_eq!([queues.label("x"), queues.label("real")], ["x", "real"]);
    }

    #[test]
    fn one_namespace_does_not_take_all_labels() {
        let mut queues = Queues::up_to(1000);
        let mut all: Vec<Present> =
            (0..5_000).map(|n| admitted("a-hostile", &format!("a{n:04}"))).collect();
        all.push(admitted("team", "zebra"));
        queues.choose(&all);
        assert_eq!(queues.label("zebra"), "zebra");
        assert_eq!(queues.labelled.len(), PER_NAMESPACE_MAX + 1);
        let before = queues.labelled.clone();
        assert!(queues.choose(&all).is_empty(), "the same at the next look");
        assert_eq!(queues.labelled, before);
    }
}
