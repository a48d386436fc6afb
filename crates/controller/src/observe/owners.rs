//! What was read of owners, remembered for a while: bounded for each namespace, so that what happens in one
//! namespace never makes another's answers go.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ancestry::Ancestor;
use super::records::Controller;
use crate::mutations::{self, Mutation};

/// How many answers are remembered for one namespace.
const NAMESPACE_MAX: usize = 2_048;
/// How many are remembered in all.
const TOTAL_MAX: usize = 32_768;
/// For how long it is believed that an owner cannot be told, or that its kind has no namespace.
pub const DOUBT_FOR: Duration = Duration::from_mins(1);

/// Answers by namespace and by all that a reference says. The oldest makes room for a new one.
#[derive(Debug, Default)]
pub struct Owners {
    namespaces: BTreeMap<String, Space>,
    total: usize,
}

#[derive(Debug, Default)]
struct Space {
    answers: BTreeMap<Controller, CachedOwner>,
    /// The references in the order in which they were read.
    by_age: BTreeMap<u64, Controller>,
    next: u64,
}

#[derive(Debug)]
struct CachedOwner {
    number: u64,
    ancestor: Ancestor,
    /// When it is over; never, where no later read could say anything else.
    until: Option<Duration>,
}

impl Space {
    fn remove_oldest(&mut self) -> bool {
        let Some((_, oldest)) = self.by_age.pop_first() else { return false };
        self.answers.remove(&oldest).is_some()
    }

    fn put(&mut self, owner: Controller, ancestor: Ancestor, until: Option<Duration>) -> bool {
        let number = self.next;
        self.next += 1;
        let old = self.answers.insert(owner.clone(), CachedOwner { number, ancestor, until });
        if let Some(old) = &old {
            self.by_age.remove(&old.number);
        }
        self.by_age.insert(number, owner);
        old.is_none()
    }
}

impl Owners {
    /// What was read of an owner.
    #[must_use]
    pub fn get(&self, namespace: &str, owner: &Controller, now: Duration) -> Option<Ancestor> {
        let by_uid = || {
            let all = self.namespaces.values().flat_map(|space| &space.answers);
            all.filter(|(known, _)| known.uid == owner.uid).map(|(_, answer)| answer).next()
        };
        let answer = if mutations::is_present(Mutation::AncestorsByUid) {
            by_uid()?
        } else {
            self.namespaces.get(namespace)?.answers.get(owner)?
        };
        answer.until.is_none_or(|until| now < until).then(|| answer.ancestor.clone())
    }

    /// Remembers what was read of an owner; for how long, where that may change.
    pub fn put(
        &mut self,
        namespace: &str,
        owner: Controller,
        ancestor: Ancestor,
        until: Option<Duration>,
    ) {
        let space = self.namespaces.entry(namespace.to_owned()).or_default();
        self.total += usize::from(space.put(owner, ancestor, until));
        if space.answers.len() > NAMESPACE_MAX {
            self.total -= usize::from(space.remove_oldest());
        }
        if self.total > TOTAL_MAX {
            self.shrink();
        }
    }

    /// Makes room where there is most: in the namespace that has the most answers.
    fn shrink(&mut self) {
        let most = self.namespaces.values_mut().max_by_key(|space| space.answers.len());
        if most.is_some_and(Space::remove_oldest) {
            self.total -= 1;
        }
        self.namespaces.retain(|_, space| !space.answers.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str, uid: &str) -> Controller {
        Controller {
            api_version: "batch/v1".into(),
            kind: "Job".into(),
            name: name.into(),
            uid: uid.into(),
        }
    }

    #[test]
    fn an_answer_is_about_one_reference_in_one_namespace() {
        let (mut owners, now) = (Owners::default(), Duration::ZERO);
        let node = Controller { api_version: "v1".into(), kind: "Node".into(), ..owner("j", "u") };
        owners.put("victim", owner("j", "u"), Ancestor::Exists(Some(owner("k", "v"))), None);
        owners.put("attacker", owner("j", "u"), Ancestor::Gone, None);
        owners.put("victim", node.clone(), Ancestor::Exists(None), None);
        let exists = Ancestor::Exists(Some(owner("k", "v")));
        assert_eq!(owners.get("victim", &owner("j", "u"), now), Some(exists));
        assert_eq!(owners.get("attacker", &owner("j", "u"), now), Some(Ancestor::Gone));
        assert_eq!(owners.get("victim", &owner("x", "u"), now), None);
        assert_eq!(owners.get("attacker", &node, now), None);
    }

    #[test]
    fn an_answer_that_may_change_ends() {
        let mut owners = Owners::default();
        let until = Duration::from_secs(2);
        owners.put("n", owner("j", "u"), Ancestor::Gone, Some(until));
        assert!(owners.get("n", &owner("j", "u"), Duration::from_secs(1)).is_some());
        assert!(owners.get("n", &owner("j", "u"), until).is_none());
    }

    #[test]
    fn a_flood_in_one_namespace_evicts_its_own_answers_one_by_one() {
        let (mut owners, now) = (Owners::default(), Duration::ZERO);
        owners.put("victim", owner("j", "u"), Ancestor::Gone, None);
        for number in 0..3 * NAMESPACE_MAX {
            owners.put("flood", owner(&number.to_string(), "u"), Ancestor::Gone, None);
        }
        assert_eq!(owners.namespaces["flood"].answers.len(), NAMESPACE_MAX);
        assert_eq!(owners.total, NAMESPACE_MAX + 1);
        let last = (3 * NAMESPACE_MAX - 1).to_string();
        assert!(owners.get("flood", &owner(&last, "u"), now).is_some());
        assert!(owners.get("flood", &owner("0", "u"), now).is_none());
        assert!(owners.get("victim", &owner("j", "u"), now).is_some());
        assert_eq!(owners.namespaces["flood"].by_age.len(), NAMESPACE_MAX);
    }

    #[test]
    fn a_flood_over_many_namespaces_leaves_the_small_ones() {
        let (mut owners, now) = (Owners::default(), Duration::ZERO);
        owners.put("victim", owner("j", "u"), Ancestor::Gone, None);
        for number in 0..2 * TOTAL_MAX {
            let namespace = format!("flood-{}", number % 20);
            owners.put(&namespace, owner(&number.to_string(), "u"), Ancestor::Gone, None);
        }
        assert_eq!(owners.total, TOTAL_MAX);
        assert!(owners.get("victim", &owner("j", "u"), now).is_some());
    }
}
