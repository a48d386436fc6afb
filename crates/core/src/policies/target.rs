use std::collections::{BTreeMap, BTreeSet};

use super::Named;

/// What a rule is about: components by index, or pod sets of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Targets {
    /// Every component.
    #[default]
    All,
    /// Those that are named.
    Only(BTreeMap<usize, PodSets>),
}

/// The pod sets of a component that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodSets {
    /// The component as a whole.
    All,
    /// The parts that are named, by the index of their pod sets.
    Only(BTreeSet<usize>),
}

impl Targets {
    /// Whether the rule is about a component or a part of it; a rule that names some is not about what belongs
    /// to none.
    #[must_use]
    pub fn include(&self, component: Option<usize>) -> bool {
        match self {
            Self::All => true,
            Self::Only(named) => component.is_some_and(|index| named.contains_key(&index)),
        }
    }

    /// Whether the rule names parts of a component, and not the whole of it.
    #[must_use]
    pub fn is_of_part(&self, component: Option<usize>) -> bool {
        match self {
            Self::All => false,
            Self::Only(named) => match component.and_then(|index| named.get(&index)) {
                None | Some(PodSets::All) => false,
                Some(PodSets::Only(_)) => true,
            },
        }
    }

    /// Whether the rule is about a pod set. Where the pod set is not known, a rule that names parts is not about
    /// it.
    #[must_use]
    pub fn include_pod_set(&self, component: Option<usize>, pod_set: Option<usize>) -> bool {
        match self {
            Self::All => true,
            Self::Only(named) => match component.and_then(|index| named.get(&index)) {
                None => false,
                Some(PodSets::All) => true,
                Some(PodSets::Only(sets)) => pod_set.is_some_and(|set| sets.contains(&set)),
            },
        }
    }
}

/// The components that rules name, found without going through them all: rules, the names in them and
/// components are all as many as their author likes.
pub(super) struct Components<'a> {
    all: &'a [Named<'a>],
    by_name: BTreeMap<&'a str, Vec<(usize, &'a str)>>,
}

impl<'a> Components<'a> {
    pub(super) fn of(components: &'a [Named<'a>]) -> Self {
        let mut by_name: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
        for (index, component) in components.iter().enumerate() {
            by_name.entry(component.name).or_default().push((index, component.kind));
        }
        Self { all: components, by_name }
    }

    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether a component has pods.
    pub(super) fn has_pods(&self, index: usize) -> bool {
        self.all.get(index).is_some_and(|component| component.has_pods)
    }

    /// What a list names: every component where it names none. `parts` says whether it may name parts.
    ///
    /// # Errors
    /// The position of a name that fits nothing, or several.
    pub(super) fn resolve(&self, listed: &[String], parts: bool) -> Result<Targets, usize> {
        if listed.is_empty() {
            return Ok(Targets::All);
        }
        let mut found: BTreeMap<usize, PodSets> = BTreeMap::new();
        for (at, text) in listed.iter().enumerate() {
            if let Some(index) = self.find(text) {
                found.insert(index, PodSets::All);
                continue;
            }
            let part = if parts { self.find_part(text) } else { None };
            let (index, pod_set) = part.ok_or(at)?;
            match found.entry(index).or_insert_with(|| PodSets::Only(BTreeSet::new())) {
                PodSets::All => {}
                PodSets::Only(sets) => _ = sets.insert(pod_set),
            }
        }
        Ok(Targets::Only(found))
    }

    /// The only component that a text names: by name, or by `Kind/name`.
    pub(super) fn find(&self, text: &str) -> Option<usize> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (Some(kind), name),
            None => (None, text),
        };
        let named = self.by_name.get(name)?;
        let fits = |(_, each): &&(usize, &str)| kind.is_none_or(|kind| *each == kind);
        let mut found = named.iter().filter(fits);
        match (found.next(), found.next()) {
            (Some((index, _)), None) => Some(*index),
            (None, _) | (Some(_), Some(_)) => None,
        }
    }

    /// The component and pod set that `name/part` or `Kind/name/part` names. A part of this name alone counts:
    /// several pod sets of one name cannot be told apart.
    fn find_part(&self, text: &str) -> Option<(usize, usize)> {
        let (component, part) = text.rsplit_once('/')?;
        let index = self.find(component)?;
        let named = |each: &(usize, &Option<String>)| each.1.as_deref() == Some(part);
        let mut found = self.all[index].parts.iter().enumerate().filter(named);
        match (found.next(), found.next()) {
            (Some((pod_set, _)), None) => Some((index, pod_set)),
            (None, _) | (Some(_), Some(_)) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_named_by_name_or_by_kind_and_name() {
        let parts: Vec<Option<String>> =
            ["driver", "workers", "twice", "twice"].map(|part| Some(part.to_owned())).into();
        let named = |kind, name| Named { kind, name, has_pods: true, parts: &[] };
        let all = [
            named("Job", "a"),
            named("Service", "a"),
            Named { parts: &parts, ..named("JobSet", "b") },
        ];
        let components = Components::of(&all);
        for (text, want) in
            [("a", None), ("Job/a", Some(0)), ("Service/a", Some(1)), ("b", Some(2)), ("c", None)]
        {
            assert_eq!(components.find(text), want, "{text}");
        }
        let listed = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(components.resolve(&listed(&["b", "a"]), true), Err(1));
        assert_eq!(components.resolve(&[], true), Ok(Targets::All));
        assert!(!components.resolve(&listed(&["b"]), true).unwrap().include(None));
        for (names, want) in [
            (&["b/workers"][..], Some([false, true])),
            (&["JobSet/b/driver", "b/workers"], Some([true, true])),
            (&["b/workers", "b"], Some([true, true])),
            (&["b", "b/workers"], Some([true, true])),
            (&["b/Workers"], None),
            (&["b/twice"], None),
            (&["a/driver"], None),
        ] {
            let found = components.resolve(&listed(names), true).ok();
            let sets =
                |targets: Targets| [0, 1].map(|set| targets.include_pod_set(Some(2), Some(set)));
            assert_eq!(found.map(sets), want, "{names:?}");
        }
        assert_eq!(components.resolve(&listed(&["b/workers"]), false), Err(0));
    }
}
