//! Whether Kueue releases the quota of an AppWrapper that is being deleted.

use std::collections::BTreeMap;
use std::fmt;

use super::kueue::ORPHANS;

/// A released version of Kueue, or a candidate of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    pub(super) const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// The version in the tag of an image, such as `registry.example/kueue:v0.18.3`; none where the
    /// tag is no version.
    pub(super) fn of_image(image: &str) -> Option<Self> {
        let name = image.split('@').next()?.rsplit('/').next()?;
        let (_, tag) = name.split_once(':')?;
        let tag = tag.strip_prefix('v').unwrap_or(tag);
        let numbers = tag.split_once('-').map_or(tag, |(numbers, _)| numbers);
        let mut numbers = numbers.split('.').map(|number| number.parse().ok());
        let version = Self::new(numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch } = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// What Kueue does with the quota of an AppWrapper when its deletion begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDelete {
    /// It releases it at once.
    Released,
    /// It keeps it until the AppWrapper is gone.
    Held,
    /// That cannot be told.
    Unknown,
}

/// How far the gate is in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Absent,
    Alpha,
    Beta,
}

/// Kueue: `pkg/features/kube_features.go` of each release; in 0.16.8 and 0.17.3 it was taken back.
fn stage(version: Version) -> Stage {
    let within = |from: (u32, u32), to: (u32, u32)| {
        version >= Version::new(0, from.0, from.1) && version < Version::new(0, to.0, to.1)
    };
    if version >= Version::new(0, 18, 0) || within((16, 6), (16, 8)) || within((17, 1), (17, 3)) {
        Stage::Beta
    } else if within((16, 8), (17, 0)) || within((17, 3), (18, 0)) {
        Stage::Alpha
    } else {
        Stage::Absent
    }
}

/// What holds with the gates that are set; none where they could not be read. No release up to 0.19.2
/// waits for the owner to be gone while the gate is on.
pub(super) fn on_delete(
    version: Option<Version>,
    gates: Option<&BTreeMap<String, bool>>,
) -> OnDelete {
    let set = |gate: &str| gates.and_then(|gates| gates.get(gate)).copied();
    let is_on = match (set(ORPHANS), version.map(stage)) {
        (Some(is_on), _) => Some(is_on),
        (None, Some(Stage::Absent)) => Some(false),
        (None, _) if gates.is_none() => None,
        (None, Some(Stage::Alpha)) => Some(set("AllAlpha").unwrap_or(false)),
        (None, Some(Stage::Beta)) => Some(set("AllBeta").unwrap_or(true)),
        (None, None) => None,
    };
    match is_on {
        Some(true) => OnDelete::Released,
        Some(false) => OnDelete::Held,
        None => OnDelete::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_tag() {
        for (image, want) in [
            ("registry.k8s.io/kueue/kueue:v0.18.3", Some("0.18.3")),
            ("registry.k8s.io/kueue/kueue:v0.18.3@sha256:0123", Some("0.18.3")),
            ("localhost:5000/kueue:0.19.0-rc.1", Some("0.19.0")),
            ("kueue:v0.18.0-gke.3", Some("0.18.0")),
            ("localhost:5000/kueue", None),
            ("kueue@sha256:0123", None),
            ("kueue:main", None),
            ("kueue:v0.18", None),
            ("kueue:v0.18.3.1", None),
            ("kueue:v20260101-v0.18.0-12-gabc", None),
            ("", None),
        ] {
            let version = Version::of_image(image).map(|version| version.to_string());
            assert_eq!(version.as_deref(), want, "{image}");
        }
    }

    #[test]
    fn the_gate_decides_and_its_default_depends_on_the_version() {
        use OnDelete::{Held, Released, Unknown};
        let version = |text: &str| Version::of_image(&format!("kueue:{text}"));
        for (text, gates, want) in [
            ("v0.15.2", vec![], Held),
            ("v0.16.5", vec![], Held),
            ("v0.16.6", vec![], Released),
            ("v0.16.7", vec![], Released),
            ("v0.16.8", vec![], Held),
            ("v0.16.12", vec![], Held),
            ("v0.17.0", vec![], Held),
            ("v0.17.1", vec![], Released),
            ("v0.17.2", vec![], Released),
            ("v0.17.8", vec![], Held),
            ("v0.17.8", vec![(ORPHANS, true)], Released),
            ("v0.17.8", vec![("AllAlpha", true)], Released),
            ("v0.17.8", vec![("AllBeta", true)], Held),
            ("v0.18.0", vec![], Released),
            ("v0.18.3", vec![("VisibilityOnDemand", false)], Released),
            ("v0.18.3", vec![(ORPHANS, false)], Held),
            ("v0.18.3", vec![("AllBeta", false)], Held),
            ("v0.18.3", vec![("AllBeta", false), (ORPHANS, true)], Released),
            ("v0.19.2", vec![], Released),
            ("v1.0.0", vec![], Released),
            ("main", vec![], Unknown),
            ("main", vec![(ORPHANS, false)], Held),
            ("main", vec![(ORPHANS, true)], Released),
        ] {
            let gates: BTreeMap<String, bool> =
                gates.into_iter().map(|(gate, value)| (gate.to_owned(), value)).collect();
            assert_eq!(on_delete(version(text), Some(&gates)), want, "{text} {gates:?}");
        }
        assert_eq!(on_delete(version("v0.18.3"), None), Unknown, "the gates could not be read");
        assert_eq!(on_delete(version("v0.15.0"), None), Held);
    }
}
