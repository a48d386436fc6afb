//! Naming components in policies: by name, or by `Kind/name`; and parts of them, where a policy may.

use std::collections::{BTreeMap, BTreeSet};

use super::component::Judged;
use super::finding::Findings;
use super::template::PodTemplate;
use crate::tuning::names;

/// The most components or parts that a message lists.
const LISTED_MAX: usize = 10;

/// Whether a list may name parts of components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// `name/part` and `Kind/name/part` name a part.
    Allowed,
    /// It names components as a whole.
    Refused,
}

/// The components that can be named.
pub(super) struct Targets<'a> {
    components: &'a [Judged],
    by_name: BTreeMap<&'a str, Vec<usize>>,
}

/// What a text names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// A component.
    Component(usize),
    /// A pod set of a component.
    PodSet(usize, usize),
    /// A part of a component with which something is wrong, so that its parts are not known.
    Unknown(usize),
}

/// A component, or one pod set of it, that a rule applies to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aimed<'a> {
    /// The component.
    pub(super) component: &'a Judged,
    /// Path of the pod set; none where the rule applies to all of them.
    path: Option<&'a str>,
}

impl<'a> Aimed<'a> {
    /// The pod templates that the rule applies to.
    pub(super) fn pods(self) -> impl Iterator<Item = &'a PodTemplate> {
        let all = self.component.pods.iter();
        all.filter(move |(path, _)| self.path.is_none_or(|one| one == *path)).map(|(_, pod)| pod)
    }
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

    /// The components that a list names as a whole, by index; what it does not name rightly is reported.
    pub(super) fn check(
        &self,
        listed: &[String],
        path: &str,
        parts: Parts,
        report: &mut Findings,
    ) -> BTreeMap<usize, usize> {
        let mut found = BTreeMap::new();
        let mut sets = BTreeMap::new();
        for (i, text) in listed.iter().enumerate() {
            if report.is_full() {
                break;
            }
            let field = format!("{path}[{i}]");
            match self.resolve(text, parts, report) {
                Ok(Named::Component(component)) if found.contains_key(&component) => {
                    report.invalid(field, text, "must be unique: the component is already listed");
                }
                Ok(Named::PodSet(component, set)) if sets.contains_key(&(component, set)) => {
                    report.invalid(field, text, "must be unique: the part is already listed");
                }
                Ok(Named::Component(component)) => _ = found.insert(component, i),
                Ok(Named::PodSet(component, set)) => _ = sets.insert((component, set), i),
                Ok(Named::Unknown(_)) => {}
                Err(message) => report.invalid(field, text, message),
            }
        }
        for ((component, _), i) in sets {
            if found.contains_key(&component) {
                let message = "has no effect: the list also names the component as a whole";
                report.doubtful(format!("{path}[{i}]"), Some(&listed[i]), message);
            }
        }
        found
    }

    /// What a filter applies to: what it names, or all components where it names none.
    pub(super) fn filtered(&self, listed: &[String]) -> Vec<Aimed<'a>> {
        if listed.is_empty() {
            return self
                .components
                .iter()
                .map(|component| Aimed { component, path: None })
                .collect();
        }
        let mut named: BTreeSet<(usize, Option<usize>)> = BTreeSet::new();
        for text in listed {
            match self.named(text) {
                Some(Named::Component(component) | Named::Unknown(component)) => {
                    named.insert((component, None));
                }
                Some(Named::PodSet(component, set)) => _ = named.insert((component, Some(set))),
                None => {}
            }
        }
        let aimed = named.into_iter().filter_map(|(component, set)| {
            let component = self.components.get(component)?;
            let path = |set: usize| Some(component.pod_sets.as_ref()?.get(set)?.path.as_str());
            Some(Aimed { component, path: set.and_then(path) })
        });
        aimed.collect()
    }

    /// A component by its index.
    pub(super) fn get(&self, component: usize) -> Option<&'a Judged> {
        self.components.get(component)
    }

    /// Every component.
    pub(super) const fn all(&self) -> &'a [Judged] {
        self.components
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

    /// What a text names, where that is one component or one part.
    fn named(&self, text: &str) -> Option<Named> {
        if let [component] = self.found(text)[..] {
            return Some(Named::Component(component));
        }
        let (owner, part) = text.rsplit_once('/')?;
        let [component] = self.found(owner)[..] else { return None };
        let judged = &self.components[component];
        if judged.pod_sets.is_none() {
            return Some(Named::Unknown(component));
        }
        match judged.sets_of(part)[..] {
            [set] => Some(Named::PodSet(component, set)),
            _ => None,
        }
    }

    fn resolve(&self, text: &str, parts: Parts, report: &mut Findings) -> Result<Named, String> {
        match (self.named(text), parts) {
            (Some(Named::Component(component)), _) => return Ok(Named::Component(component)),
            (Some(part @ (Named::PodSet(..) | Named::Unknown(_))), Parts::Allowed) => {
                return Ok(part);
            }
            (Some(Named::PodSet(..) | Named::Unknown(_)) | None, _) => {}
        }
        let found = self.found(text);
        if !found.is_empty() {
            return Err(format!("is ambiguous: must be one of {}", self.titles(&found)));
        }
        let Some((owner, part)) = text.rsplit_once('/') else {
            return Err(self.unknown(text, parts, report));
        };
        let found = self.found(owner);
        match found[..] {
            [component] => Err(self.no_part(component, part, parts, report)),
            [] => Err(self.unknown(text, parts, report)),
            _ => Err(format!("is ambiguous: must begin with one of {}", self.titles(&found))),
        }
    }

    fn titles(&self, found: &[usize]) -> String {
        let titles = found.iter().take(LISTED_MAX).map(|index| self.components[*index].title());
        titles.collect::<Vec<_>>().join(", ")
    }

    /// Why a text does not name a part of a component.
    fn no_part(&self, component: usize, part: &str, parts: Parts, report: &mut Findings) -> String {
        let judged = &self.components[component];
        let title = judged.title();
        if parts == Parts::Refused {
            return format!(
                "must be {title} as a whole: a part of a component is not allowed here"
            );
        }
        if judged.sets_of(part).len() > 1 {
            return format!("must be a part of {title}, but it has several with this name");
        }
        let known: BTreeSet<&str> = judged.parts.iter().flatten().map(String::as_str).collect();
        let known: Vec<&str> = known.into_iter().take(LISTED_MAX).collect();
        if known.is_empty() {
            return format!("must be {title} as a whole: it has no parts that can be named");
        }
        let meant = names::did_you_mean(report.meant(part, &known));
        format!("must be a part of {title}: one of {}{meant}", known.join(", "))
    }

    fn unknown(&self, text: &str, parts: Parts, report: &mut Findings) -> String {
        let known: Vec<&str> = self.by_name.keys().copied().collect();
        let listed = match self.by_name.len() {
            0 => "no component has a name".to_owned(),
            count if count <= LISTED_MAX => format!("one of {}", known.join(", ")),
            count => report.meant(text, &known).map_or_else(
                || format!("there are {count} components"),
                |name| format!("such as {name}"),
            ),
        };
        match parts {
            Parts::Allowed => format!(
                "must be the name of a component, or Kind/name, or either with /part: {listed}"
            ),
            Parts::Refused => format!("must be the name of a component, or Kind/name: {listed}"),
        }
    }
}
