use std::collections::{BTreeMap, BTreeSet};

use super::Named;

/// The components that a rule is about, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Targets {
    /// Every component.
    #[default]
    All,
    /// Those that are named.
    Only(BTreeSet<usize>),
}

impl Targets {
    /// Whether the rule is about a component; a rule that names some is not about what belongs to none.
    #[must_use]
    pub fn include(&self, component: Option<usize>) -> bool {
        match self {
            Self::All => true,
            Self::Only(indexes) => component.is_some_and(|index| indexes.contains(&index)),
        }
    }
}

/// The components that rules name, found without going through them all: rules, the names in them and
/// components are all as many as their author likes.
pub(super) struct Components<'a> {
    count: usize,
    by_name: BTreeMap<&'a str, Vec<(usize, &'a str)>>,
}

impl<'a> Components<'a> {
    pub(super) fn of(components: &[Named<'a>]) -> Self {
        let mut by_name: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
        for (index, component) in components.iter().enumerate() {
            by_name.entry(component.name).or_default().push((index, component.kind));
        }
        Self { count: components.len(), by_name }
    }

    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// The components that a list names: all where it names none.
    ///
    /// # Errors
    /// The position of a name that fits no component, or several.
    pub(super) fn resolve(&self, listed: &[String]) -> Result<Targets, usize> {
        if listed.is_empty() {
            return Ok(Targets::All);
        }
        let mut found = BTreeSet::new();
        for (at, text) in listed.iter().enumerate() {
            found.insert(self.find(text).ok_or(at)?);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_named_by_name_or_by_kind_and_name() {
        let components = Components::of(&[
            Named { kind: "Job", name: "a" },
            Named { kind: "Service", name: "a" },
            Named { kind: "Job", name: "b" },
        ]);
        for (text, want) in
            [("a", None), ("Job/a", Some(0)), ("Service/a", Some(1)), ("b", Some(2)), ("c", None)]
        {
            assert_eq!(components.find(text), want, "{text}");
        }
        let listed = ["b".to_owned(), "a".to_owned()];
        assert_eq!(components.resolve(&listed), Err(1));
        assert_eq!(components.resolve(&[]), Ok(Targets::All));
        assert!(!components.resolve(&listed[..1]).unwrap().include(None));
    }
}
