//! Whose a pod is: by the chain of its controller owners, never by a label or a name alone.

use std::collections::{BTreeMap, BTreeSet};

use super::records::{Controller, PodRecord};

/// What is known of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ancestor {
    /// It does not exist: garbage collection takes the middle of a chain first.
    Gone,
    /// It exists, and this controls it.
    Exists(Option<Controller>),
}

/// Owners, by UID.
pub type Ancestors = BTreeMap<String, Ancestor>;

/// The longest chain of owners that is followed.
const CHAIN_MAX: usize = 10;

/// Whose a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lineage {
    /// Its chain leads to this AppWrapper, or to this UID, which is one of its components.
    Ours(String),
    /// Its chain breaks off, and its label names this AppWrapper's UID.
    Orphan,
    /// It belongs to somebody else, or to nobody.
    Stranger,
    /// This owner must be read first.
    Unknown(Controller),
}

/// Follows the chain of a pod's owners.
///
/// `roots` are the UIDs of the AppWrapper and of its components, past ones that are recorded too.
#[must_use]
pub fn lineage(
    pod: &PodRecord,
    appwrapper_uid: &str,
    roots: &BTreeSet<String>,
    ancestors: &Ancestors,
) -> Lineage {
    let labelled = pod.identity.appwrapper_uid.as_deref();
    if labelled.is_some_and(|uid| uid != appwrapper_uid) {
        return Lineage::Stranger;
    }
    let Some(mut owner) = pod.identity.controller.as_ref() else { return Lineage::Stranger };
    for _ in 0..CHAIN_MAX {
        if roots.contains(&owner.uid) {
            return Lineage::Ours(owner.uid.clone());
        }
        match ancestors.get(&owner.uid) {
            None => return Lineage::Unknown(owner.clone()),
            Some(Ancestor::Gone) if labelled.is_some() => return Lineage::Orphan,
            Some(Ancestor::Gone | Ancestor::Exists(None)) => return Lineage::Stranger,
            Some(Ancestor::Exists(Some(next))) => owner = next,
        }
    }
    Lineage::Stranger
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::records::Identity;

    fn controller(uid: &str) -> Controller {
        Controller {
            kind: "Job".into(),
            name: uid.into(),
            uid: uid.into(),
            ..Controller::default()
        }
    }

    fn pod(owner: Option<&str>, label: Option<&str>) -> PodRecord {
        let identity = Identity {
            controller: owner.map(controller),
            appwrapper_uid: label.map(str::to_owned),
            ..Identity::default()
        };
        PodRecord { identity, ..PodRecord::default() }
    }

    #[test]
    fn a_pod_is_ours_by_its_owners_alone() {
        let roots = BTreeSet::from(["aw".to_owned(), "jobset".to_owned()]);
        let ancestors = Ancestors::from([
            ("job".to_owned(), Ancestor::Exists(Some(controller("jobset")))),
            ("theirs".to_owned(), Ancestor::Exists(None)),
            ("gone".to_owned(), Ancestor::Gone),
            ("loop".to_owned(), Ancestor::Exists(Some(controller("loop")))),
        ]);
        let ours = |uid: &str| Lineage::Ours(uid.to_owned());
        for (owner, label, want) in [
            (Some("aw"), None, ours("aw")),
            (Some("jobset"), Some("aw"), ours("jobset")),
            (Some("job"), None, ours("jobset")),
            (Some("job"), Some("other"), Lineage::Stranger),
            (Some("theirs"), Some("aw"), Lineage::Stranger),
            (Some("gone"), Some("aw"), Lineage::Orphan),
            (Some("gone"), None, Lineage::Stranger),
            (Some("loop"), Some("aw"), Lineage::Stranger),
            (Some("new"), Some("aw"), Lineage::Unknown(controller("new"))),
            (None, Some("aw"), Lineage::Stranger),
        ] {
            let got = lineage(&pod(owner, label), "aw", &roots, &ancestors);
            assert_eq!(got, want, "{owner:?} {label:?}");
        }
    }
}
