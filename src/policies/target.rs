use std::collections::BTreeSet;

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

/// The components that a list names: all where it names none.
///
/// # Errors
/// The position of a name that fits no component, or several.
pub(super) fn resolve(listed: &[String], components: &[Named<'_>]) -> Result<Targets, usize> {
    if listed.is_empty() {
        return Ok(Targets::All);
    }
    let mut found = BTreeSet::new();
    for (at, text) in listed.iter().enumerate() {
        found.insert(find(text, components).ok_or(at)?);
    }
    Ok(Targets::Only(found))
}

/// The only component that a text names: by name, or by `Kind/name`.
pub(super) fn find(text: &str, components: &[Named<'_>]) -> Option<usize> {
    let (kind, name) = match text.split_once('/') {
        Some((kind, name)) => (Some(kind), name),
        None => (None, text),
    };
    let fits = |each: &Named<'_>| each.name == name && kind.is_none_or(|kind| each.kind == kind);
    let mut found = components.iter().enumerate().filter(|(_, each)| fits(each));
    match (found.next(), found.next()) {
        (Some((index, _)), None) => Some(index),
        (None, _) | (Some(_), Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_named_by_name_or_by_kind_and_name() {
        let components = [
            Named { kind: "Job", name: "a" },
            Named { kind: "Service", name: "a" },
            Named { kind: "Job", name: "b" },
        ];
        for (text, want) in
            [("a", None), ("Job/a", Some(0)), ("Service/a", Some(1)), ("b", Some(2)), ("c", None)]
        {
            assert_eq!(find(text, &components), want, "{text}");
        }
        let listed = ["b".to_owned(), "a".to_owned()];
        assert_eq!(resolve(&listed, &components), Err(1));
        assert_eq!(resolve(&[], &components), Ok(Targets::All));
        assert!(!resolve(&listed[..1], &components).unwrap().include(None));
    }
}
