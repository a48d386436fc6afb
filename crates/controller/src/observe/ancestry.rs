//! Whose a pod is: by a chain of controller owners that was seen, never by a label or a name alone.
//!
//! Anyone who may create pods may write any label and any owner reference. A label is therefore never a
//! reason to count a pod as ours; where it cannot be told whose a pod is, a label is a reason to wait.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::kin::{Kin, Place};
use super::pod_record::PodRecord;
use super::records::{Controller, group};
use crate::api::GROUP;
use crate::kinds::{Kind, OWNER_KIND};
use crate::mutations::{self, Mutation};
use crate::snapshot::Component;

/// What is known of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ancestor {
    /// There is no object of this kind, name and UID: garbage collection takes the middle of a chain first.
    Gone,
    /// It exists, and this controls it.
    Exists(Option<Controller>),
    /// It cannot be told.
    Unknown(Doubt),
}

/// Owners, by all that a reference to them says: what was read for one reference says nothing of another.
pub type Ancestors = BTreeMap<Controller, Ancestor>;

/// API version and kind of a pod.
const POD: (&str, &str) = ("v1", "Pod");

/// The longest chain of owners that is followed.
pub const CHAIN_MAX: usize = 10;

/// Why it cannot be told whose a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// It names no controller, or none that could be an object.
    NoOwner,
    /// Its owner does not exist.
    OwnerGone,
    /// Its owner does not exist, and was called like a component, or like what a component makes.
    Outlived,
    /// This controller may not read its owner.
    Forbidden,
    /// The cluster does not serve the kind of its owner.
    UnknownKind,
    /// Its owner could not be read for now.
    Unavailable,
    /// Its owner was not read yet: only so many are read at a time.
    Unread,
    /// Its owner exists, looks like one of this AppWrapper, and is not controlled by it: its labels or its
    /// owner reference were removed, or it was forged.
    OwnerDetached,
}

impl Doubt {
    /// Whether it may end without any event of the pod: a UID that is gone never comes back, and no owner
    /// is added unseen.
    #[must_use]
    pub const fn may_change(self) -> bool {
        match self {
            Self::NoOwner | Self::OwnerGone | Self::Outlived | Self::OwnerDetached => false,
            Self::Forbidden | Self::UnknownKind | Self::Unavailable | Self::Unread => true,
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoOwner => "it has no controller",
            Self::OwnerGone | Self::Outlived => "its owner does not exist",
            Self::Forbidden => "the AppWrapper controller is not allowed to get its owner",
            Self::UnknownKind => "the kind of its owner is not served",
            Self::Unavailable => "its owner could not be read",
            Self::Unread => "its owner has not been read yet",
            Self::OwnerDetached => "the AppWrapper does not control its owner",
        })
    }
}

/// Whose a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lineage {
    /// This AppWrapper's.
    Ours(Ours),
    /// It has our labels, and its owner cannot be determined.
    Undetermined(Doubt),
    /// It has another owner, or none.
    Stranger,
    /// This owner must be read first.
    Unread(Controller),
}

impl Lineage {
    /// The owner that must be read first, if one must.
    #[must_use]
    pub fn unread(&self) -> Option<&Controller> {
        match self {
            Self::Unread(owner) => Some(owner),
            Self::Ours(_) | Self::Undetermined(_) | Self::Stranger => None,
        }
    }
}

/// A pod of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ours {
    /// Where it belongs.
    pub place: Place,
    /// The owners between it and its component.
    pub links: Vec<Controller>,
    /// It was ours, and its owner references no longer say so.
    pub detached: bool,
}

/// All that tells which pods are an AppWrapper's.
#[derive(Clone, Debug)]
pub struct Family<'a> {
    /// UID of the AppWrapper.
    pub uid: &'a str,
    /// UIDs of the AppWrapper and of its components that are there, with their indexes.
    pub roots: &'a BTreeMap<String, Option<usize>>,
    /// Its components.
    pub components: &'a [Component],
    /// What was once seen to be its.
    pub kin: &'a Kin,
    /// The components of which the status records a UID, as that of their object or of one that they made.
    recorded: BTreeMap<&'a str, BTreeSet<usize>>,
}

/// What a chain of owners shows.
enum Chain {
    Ours(Option<usize>, Vec<Controller>),
    Stranger,
    /// It leads through an object that looks like ours, and ends there or elsewhere.
    Detached,
    Broken,
    Unknown(Doubt),
    Unread(Controller),
}

impl<'a> Family<'a> {
    /// All of one AppWrapper.
    #[must_use]
    pub fn new(
        uid: &'a str,
        roots: &'a BTreeMap<String, Option<usize>>,
        components: &'a [Component],
        kin: &'a Kin,
    ) -> Self {
        let mut recorded: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for (index, component) in components.iter().enumerate() {
            for owner in component.recorded.iter().chain(&component.recorded_pod_owners) {
                recorded.entry(owner).or_default().insert(index);
            }
        }
        Self { uid, roots, components, kin, recorded }
    }

    /// Follows the chain of a pod's owners.
    #[must_use]
    pub fn lineage(&self, pod: &PodRecord, ancestors: &Ancestors) -> Lineage {
        let chain = self.chain(pod, ancestors);
        if let Some(place) = self.kin.place(&pod.identity.uid) {
            let (links, detached) = match chain {
                // its component was not known yet when it was first seen
                Chain::Ours(component, links) if place.component.is_none() => {
                    let place = place_of(pod, component);
                    return Lineage::Ours(Ours { place, links, detached: false });
                }
                Chain::Ours(_, links) => (links, false),
                // garbage collection deletes a pod whose owner is gone
                Chain::Broken if pod.identity.controller.is_some() => (vec![], false),
                Chain::Broken | Chain::Stranger | Chain::Detached => (vec![], true),
                Chain::Unknown(_) | Chain::Unread(_) => (vec![], false),
            };
            return Lineage::Ours(Ours { place: place.clone(), links, detached });
        }
        let labelled = pod.identity.appwrapper_uid.as_deref();
        if labelled.is_some_and(|uid| uid != self.uid) {
            return Lineage::Stranger;
        }
        match chain {
            Chain::Ours(component, links) => {
                let place = place_of(pod, component);
                Lineage::Ours(Ours { place, links, detached: false })
            }
            Chain::Stranger | Chain::Detached | Chain::Broken
                if labelled.is_some() && mutations::is_present(Mutation::LabelIsOwnership) =>
            {
                Lineage::Ours(Ours { place: place_of(pod, None), ..Ours::default() })
            }
            Chain::Unknown(Doubt::UnknownKind)
                if mutations::is_present(Mutation::InventedOwnerIsGone) =>
            {
                Lineage::Ours(Ours { place: place_of(pod, None), ..Ours::default() })
            }
            Chain::Stranger => Lineage::Stranger,
            // nothing of it runs, and nobody would ever take it away
            Chain::Detached if labelled.is_none() || pod.pod.has_ended() => Lineage::Stranger,
            Chain::Detached => Lineage::Undetermined(Doubt::OwnerDetached),
            Chain::Unknown(doubt) => Lineage::Undetermined(doubt),
            Chain::Unread(owner) => Lineage::Unread(owner),
            // pods of the Go controller do not name the UID, nor did it record those of their owners
            Chain::Broken if labelled.is_none() => match &pod.identity.controller {
                Some(owner) if self.is_like(owner, |component| component.recorded.is_none()) => {
                    Lineage::Undetermined(Doubt::Outlived)
                }
                Some(_) | None => Lineage::Stranger,
            },
            Chain::Broken if let Some(owner) = &pod.identity.controller => {
                let outlived = self.is_like_ours(owner);
                Lineage::Undetermined(if outlived { Doubt::Outlived } else { Doubt::OwnerGone })
            }
            Chain::Broken if pod.pod.has_ended() => Lineage::Stranger,
            Chain::Broken => Lineage::Undetermined(Doubt::NoOwner),
        }
    }

    fn chain(&self, pod: &PodRecord, ancestors: &Ancestors) -> Chain {
        if let Some(Some(index)) = self.roots.get(&pod.identity.uid) {
            return Chain::Ours(Some(*index), vec![]); // a wrapped Pod
        }
        let Some(mut owner) = pod.identity.controller.as_ref() else { return Chain::Broken };
        let mut links: Vec<Controller> = vec![];
        let mut end = Chain::Stranger;
        for _ in 0..CHAIN_MAX {
            if owner.uid == self.uid {
                return self.chain_to_us(pod, owner, links);
            }
            if let Some(Some(index)) = self.roots.get(&owner.uid)
                && let Some(component) = self.components.get(*index)
                && is_object_of(owner, component)
            {
                let owns = Kind::may_own_pods(&component.api_version, &component.kind);
                return if owns { Chain::Ours(Some(*index), links) } else { Chain::Stranger };
            }
            if let Some(component) = self.kin.link(owner) {
                return Chain::Ours(component, links);
            }
            if let Some(component) = self.leader(owner) {
                links.push(owner.clone());
                return Chain::Ours(Some(component), links);
            }
            match ancestors.get(owner) {
                None => return Chain::Unread(owner.clone()),
                Some(Ancestor::Gone) => {
                    let recorded = self.recorded(owner, pod);
                    return recorded.map_or(Chain::Broken, |index| Chain::Ours(Some(index), links));
                }
                Some(Ancestor::Unknown(doubt)) => return Chain::Unknown(*doubt),
                Some(Ancestor::Exists(next)) => {
                    if self.recorded(owner, pod).is_some()
                        || next.is_none() && self.is_like_ours(owner)
                    {
                        end = Chain::Detached;
                    }
                    let Some(next) = next else { return end };
                    links.push(owner.clone());
                    owner = next;
                }
            }
        }
        end
    }

    /// Whether what controls an owner is known to be ours already, so that reading the owner leads to us.
    pub(super) fn is_known(&self, controller: &Controller) -> bool {
        self.roots.contains_key(&controller.uid)
            || self.kin.link(controller).is_some()
            || self.leader(controller).is_some()
    }

    /// The component of a pod of ours that a reference names, where pods of its kind own others: the leader of a group of a
    /// LeaderWorkerSet owns the StatefulSet of its workers.
    fn leader(&self, owner: &Controller) -> Option<usize> {
        let named = (owner.api_version.as_str(), owner.kind.as_str());
        let index = self.kin.place_of_named(&owner.uid, &owner.name)?.component?;
        let component = self.components.get(index)?;
        let kind = Kind::of(&component.api_version, &component.kind);
        (named == POD && kind.makes.contains(&POD)).then_some(index)
    }

    /// Whether a reference names the object of a component, or one of a kind that a component makes, and is
    /// named after it.
    fn is_like_ours(&self, owner: &Controller) -> bool {
        self.is_like(owner, |_| true)
    }

    /// The same of these components.
    fn is_like(&self, owner: &Controller, of: impl Fn(&Component) -> bool) -> bool {
        let made = (owner.api_version.as_str(), owner.kind.as_str());
        let named = self.components.iter().filter(|component| !component.name.is_empty());
        named.filter(|component| of(component)).any(|component| {
            let kind = Kind::of(&component.api_version, &component.kind);
            let is_made = kind.makes.contains(&made) && owner.name.starts_with(&component.name);
            is_object_of(owner, component) || is_made
        })
    }

    /// The component whose recorded object a reference names, or one that it made. Between, the label has to
    /// say so, too. Where that object is gone, only the record tells whose it was.
    fn recorded(&self, owner: &Controller, pod: &PodRecord) -> Option<usize> {
        let is_labelled = pod.identity.appwrapper_uid.as_deref() == Some(self.uid);
        let mut candidates = self.recorded.get(owner.uid.as_str())?.iter().copied();
        candidates.find(|index| {
            let Some(component) = self.components.get(*index) else { return false };
            let kind = Kind::of(&component.api_version, &component.kind);
            let may_make = |made: &(&str, &str)| *made == (&owner.api_version, &owner.kind);
            let is_made = is_labelled
                && kind.makes.iter().any(may_make)
                && component.recorded_pod_owners.contains(&owner.uid);
            let is_it = component.recorded.as_deref() == Some(owner.uid.as_str())
                && is_object_of(owner, component);
            (is_it || is_made) && Kind::may_own_pods(&component.api_version, &component.kind)
        })
    }

    /// Directly under an AppWrapper there are only its components, which are known by name.
    fn chain_to_us(&self, pod: &PodRecord, us: &Controller, mut links: Vec<Controller>) -> Chain {
        let group = us.api_version.split('/').next();
        if us.kind != OWNER_KIND || group != Some(GROUP) {
            return Chain::Stranger;
        }
        let components = self.components;
        let index = match links.last() {
            Some(top) => components.iter().position(|component| {
                is_object_of(top, component)
                    && Kind::may_own_pods(&component.api_version, &component.kind)
            }),
            None => components.iter().position(|component| {
                let kind = Kind::of(&component.api_version, &component.kind);
                kind.is_pod() && component.name == pod.identity.name
            }),
        };
        let Some(index) = index else { return Chain::Stranger };
        links.pop(); // the component itself is no link: its UID may be another's tomorrow
        Chain::Ours(Some(index), links)
    }
}

/// Whether a reference names the object of a component, as far as kind and name tell.
fn is_object_of(owner: &Controller, component: &Component) -> bool {
    owner.kind == component.kind
        && owner.name == component.name
        && group(&owner.api_version) == group(&component.api_version)
}

fn place_of(pod: &PodRecord, component: Option<usize>) -> Place {
    let labelled =
        pod.pod_set.filter(|(index, _)| component.is_none_or(|component| component == *index));
    let pod_set = labelled.map(|(_, pod_set)| pod_set);
    Place { component, pod_set, attempt: pod.identity.attempt }
}

#[cfg(test)]
mod tests;
