//! Naming components in policies: by name, or by `Kind/name`.

use std::collections::{BTreeMap, BTreeSet};

use super::component::Judged;
use super::finding::Findings;

/// The most components that a message lists.
const LISTED_MAX: usize = 10;

/// The components that can be named.
pub(super) struct Targets<'a> {
    components: &'a [Judged],
    by_name: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Targets<'a> {
    pub(super) fn of(components: &'a [Judged]) -> Self {
        let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (i, component) in components.iter().enumerate() {
            if !component.name.is_empty() {
                by_name.entry(&component.name).or_default().push(i);
            }
        }
        Self { components, by_name }
    }

    /// The components that a list names, by index; those that it does not name rightly are reported.
    pub(super) fn check(
        &self,
        listed: &[String],
        path: &str,
        report: &mut Findings,
    ) -> BTreeMap<usize, usize> {
        let mut found = BTreeMap::new();
        for (i, text) in listed.iter().enumerate() {
            if report.is_full() {
                break;
            }
            let field = format!("{path}[{i}]");
            match self.resolve(text, report) {
                Ok(component) if found.contains_key(&component) => {
                    report.invalid(field, text, "must be unique: the component is already listed");
                }
                Ok(component) => _ = found.insert(component, i),
                Err(message) => report.invalid(field, text, message),
            }
        }
        found
    }

    /// The components of a filter: those that it names, or all where it names none.
    pub(super) fn filtered(&self, listed: &[String]) -> Vec<&'a Judged> {
        if listed.is_empty() {
            return self.components.iter().collect();
        }
        let named = listed.iter().filter_map(|text| match self.found(text)[..] {
            [component] => Some(component),
            _ => None,
        });
        let named: BTreeSet<usize> = named.collect();
        named.into_iter().filter_map(|component| self.components.get(component)).collect()
    }

    /// A component by its index.
    pub(super) fn get(&self, component: usize) -> Option<&'a Judged> {
        self.components.get(component)
    }

    /// The components that a text names.
    fn found(&self, text: &str) -> Vec<usize> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (Some(kind), name),
            None => (None, text),
        };
        let named = self.by_name.get(name).into_iter().flatten().copied();
        let fits =
            |component: &usize| kind.is_none_or(|kind| self.components[*component].kind == kind);
        named.filter(fits).take(LISTED_MAX + 1).collect()
    }

    fn resolve(&self, text: &str, report: &mut Findings) -> Result<usize, String> {
        let found = self.found(text);
        let full = |component: usize| {
            let each = &self.components[component];
            format!("{}/{}", each.kind, each.name)
        };
        match found[..] {
            [component] => Ok(component),
            [] => Err(self.unknown(text, report)),
            _ => {
                let listed: Vec<String> =
                    found.iter().take(LISTED_MAX).copied().map(full).collect();
                Err(format!("is ambiguous: must be one of {}", listed.join(", ")))
            }
        }
    }

    fn unknown(&self, text: &str, report: &mut Findings) -> String {
        let known: Vec<&str> = self.by_name.keys().copied().collect();
        let listed = match self.by_name.len() {
            0 => "no component has a name".to_owned(),
            count if count <= LISTED_MAX => format!("one of {}", known.join(", ")),
            count => report.meant(text, &known).map_or_else(
                || format!("there are {count} components"),
                |name| format!("such as {name}"),
            ),
        };
        format!("must be the name of a component, or Kind/name: {listed}")
    }
}
