//! Kinds that the API server does not serve yet, as far as is known. Each namespace can have only a limited
//! number of them discovered. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::observe::cache::KindKey;

/// Whether a kind has been found; set by the task that asks for it.
pub(super) type Found = Arc<AtomicBool>;

/// How many kinds that were not found are discovered again, for one namespace and in total.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub per_namespace: usize,
    pub total: usize,
}

/// The kinds whose discovery is retried since they have not been found.
#[derive(Debug)]
pub(super) struct Absent {
    most: Most,
    kinds: BTreeMap<KindKey, Asked>,
    counts: BTreeMap<String, usize>,
    asked: u64,
}

#[derive(Debug)]
struct Asked {
    /// The namespace of the AppWrapper that uses it.
    namespace: String,
    found: Found,
    /// Its position in the order in which kinds were added.
    number: u64,
}

/// The permission to discover a kind.
#[derive(Debug)]
pub(super) struct Permit {
    pub found: Found,
    /// The kind whose discovery stops to make room for this one.
    pub instead_of: Option<KindKey>,
}

impl Absent {
    pub(super) const fn new(most: Most) -> Self {
        Self { most, kinds: BTreeMap::new(), counts: BTreeMap::new(), asked: 0 }
    }

    /// Removes the kinds that have been found meanwhile.
    pub(super) fn prune(&mut self) {
        let found = self.kinds.extract_if(.., |_, asked| asked.found.load(Ordering::Acquire));
        for (_, asked) in found.collect::<Vec<_>>() {
            self.discount(&asked.namespace);
        }
    }

    /// Asks for the permission to discover a kind on behalf of a namespace. Where there are too many in
    /// total, the oldest kind of the namespace with the most of them is removed.
    pub(super) fn ask(&mut self, kind: &KindKey, namespace: &str) -> Option<Permit> {
        self.remove(kind); // asked for before, by a task that has ended
        if self.counts.get(namespace).is_some_and(|count| *count >= self.most.per_namespace) {
            return None;
        }
        let instead_of =
            if self.kinds.len() >= self.most.total { self.give_way(namespace) } else { None };
        let found = Found::default();
        let asked =
            Asked { namespace: namespace.to_owned(), found: found.clone(), number: self.asked };
        self.asked = self.asked.saturating_add(1);
        self.kinds.insert(kind.clone(), asked);
        *self.counts.entry(namespace.to_owned()).or_default() += 1;
        Some(Permit { found, instead_of })
    }

    /// A kind is no longer discovered.
    pub(super) fn remove(&mut self, kind: &KindKey) {
        if let Some(asked) = self.kinds.remove(kind) {
            self.discount(&asked.namespace);
        }
    }

    fn give_way(&mut self, asking: &str) -> Option<KindKey> {
        let (largest, _) =
            self.counts.iter().max_by_key(|(name, count)| (**count, *name == asking))?;
        let of_it = self.kinds.iter().filter(|(_, asked)| asked.namespace == *largest);
        let kind = of_it.min_by_key(|(_, asked)| asked.number)?.0.clone();
        self.remove(&kind);
        Some(kind)
    }

    fn discount(&mut self, namespace: &str) {
        if let Some(count) = self.counts.get_mut(namespace) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.counts.remove(namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> KindKey {
        KindKey { api_version: "example.com/v1".to_owned(), kind: name.to_owned() }
    }

    const MOST: Most = Most { per_namespace: 3, total: 5 };

    #[test]
    fn who_invents_kinds_gets_few_of_them_asked_for_and_takes_nobody_elses_place() {
        let mut absent = Absent::new(MOST);
        let mut ask = |name: &str, namespace: &str| {
            absent.ask(&kind(name), namespace).map(|it| it.instead_of.map(|kind| kind.kind))
        };
        for name in ["A", "B", "C"] {
            assert_eq!(ask(name, "hostile"), Some(None));
        }
        assert_eq!(ask("D", "hostile"), None);
        assert_eq!(ask("E", "other"), Some(None));
        assert_eq!(ask("F", "other"), Some(None));
        assert_eq!(ask("G", "third"), Some(Some("A".to_owned())), "the oldest of who has most");
        assert_eq!(ask("H", "hostile"), Some(Some("B".to_owned())));
        absent.remove(&kind("F"));
        assert_eq!(absent.counts["other"], 1);
    }

    #[test]
    fn a_kind_that_is_asked_for_again_needs_no_other_place() {
        let mut absent = Absent::new(MOST);
        for name in ["A", "B", "C", "C"] {
            let permit = absent.ask(&kind(name), "n");
            assert!(permit.is_some_and(|it| it.instead_of.is_none()), "{name}");
        }
        assert_eq!(absent.counts["n"], 3);
    }

    #[test]
    fn what_was_found_counts_no_more() {
        let mut absent = Absent::new(MOST);
        let permits: Vec<Permit> =
            ["A", "B", "C"].iter().filter_map(|name| absent.ask(&kind(name), "n")).collect();
        assert!(absent.ask(&kind("D"), "n").is_none());
        permits[1].found.store(true, Ordering::Release);
        absent.prune();
        assert!(absent.ask(&kind("D"), "n").is_some());
        assert_eq!((absent.kinds.len(), absent.counts["n"]), (3, 3));
    }
}
