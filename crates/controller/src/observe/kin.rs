//! What was once seen to belong to an AppWrapper: it stays so by its UID, whatever becomes of its labels
//! and owner references afterwards.
//!
//! Known to one process only. After a restart the status tells, which records the UIDs of components and of
//! up to 128 owners of pods; a pod whose chain of owners is broken otherwise is undetermined.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::pod_record::PodRecord;
use super::records::Controller;
use crate::mutations::{self, Mutation};
use crate::price::POD_OWNERS_MAX;
use crate::snapshot::{Component, PodPhase};

/// A pod that no watch shows any more is read again after this time, and then twice as long after each read.
const READ_AGAIN_AFTER: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(10));
/// The longest pause while quota waits for such pods.
const READ_SOON_AFTER: Duration = Duration::from_mins(1);
/// The most objects between components and pods that are remembered, where there are fewer than half as many pods; a chain
/// through another is read again.
const LINKS_MAX: usize = 1_000;

/// The pods of one AppWrapper, and what stands between them and its components.
#[derive(Debug, Default)]
pub struct Kin {
    /// UIDs of the components' objects, by the index of the component. No map, since a map of one has room for eleven.
    components: Vec<Option<Box<str>>>,
    links: BTreeMap<String, Link>,
    /// By UID. Boxed, since a map of one has room for eleven.
    pods: BTreeMap<String, Box<Known>>,
    /// How many times its pods were compared with what is seen.
    round: u64,
    /// The release of quota or a verdict waits for its pods: however long the pause of one, it is read again after a minute.
    pub reads_soon: bool,
}

#[derive(Debug)]
struct Link {
    owner: Controller,
    component: Option<usize>,
    /// The round in which a pod named it last.
    seen: u64,
}

/// Where a pod belongs, as it was when it was first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Index of its component; absent where nothing tells.
    pub component: Option<usize>,
    /// Index of its pod set in the component; absent where nothing tells.
    pub pod_set: Option<usize>,
    /// The attempt that created it.
    pub attempt: Option<i32>,
}

#[derive(Debug)]
struct Known {
    name: String,
    place: Place,
    /// The round in which it was seen last.
    seen: u64,
    /// It is neither in the cache nor in a list, and its deletion was not seen. Boxed, since it is rare and large.
    unseen: Option<Box<Unseen>>,
}

#[derive(Debug, Default)]
struct Unseen {
    /// As it was read; none before it was.
    record: Option<PodRecord>,
    read_at: Option<Duration>,
    /// The time from that read to the next.
    pause: Duration,
}

impl Unseen {
    /// How long until it is read again.
    fn left(&self, now: Duration, soon: bool) -> Duration {
        let pause = if soon { self.pause.min(READ_SOON_AFTER) } else { self.pause };
        let passed = self.read_at.map(|at| now.saturating_sub(at));
        passed.map_or(Duration::ZERO, |passed| pause.saturating_sub(passed))
    }
}

/// A pod to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl Kin {
    /// The component to which the chain through an owner leads, where that was seen.
    #[must_use]
    pub fn link(&self, owner: &Controller) -> Option<Option<usize>> {
        let link = self.links.get(&owner.uid).filter(|link| link.owner.is_same(owner))?;
        Some(link.component)
    }

    /// Tells each component the UIDs of the objects between it and its pods, as far as a status records them.
    pub fn tell_pod_owners(&self, components: &mut [Component]) {
        for (uid, link) in &self.links {
            let component = link.component.and_then(|index| components.get_mut(index));
            if let Some(Component { pod_owners, .. }) = component
                && pod_owners.len() < POD_OWNERS_MAX
            {
                pod_owners.push(uid.clone());
            }
        }
    }

    /// Where a pod belongs, if it was seen to be ours.
    #[must_use]
    pub fn place(&self, uid: &str) -> Option<&Place> {
        self.pods.get(uid).map(|known| &known.place)
    }

    /// The same of a pod with this name.
    #[must_use]
    pub fn place_of_named(&self, uid: &str, name: &str) -> Option<&Place> {
        self.pods.get(uid).filter(|known| known.name == name).map(|known| &known.place)
    }

    /// UID of the object of a component, where it was seen to be ours.
    #[must_use]
    pub fn component(&self, index: usize) -> Option<&str> {
        self.components.get(index)?.as_deref()
    }

    /// Whether a UID is that of the object of a component, where it was seen to be ours.
    #[must_use]
    pub fn is_component(&self, uid: &str) -> bool {
        self.components.iter().any(|known| known.as_deref() == Some(uid))
    }

    /// Remembers the object of a component.
    pub fn put_component(&mut self, index: usize, uid: &str) {
        if self.component(index) == Some(uid) {
            return;
        }
        if self.components.is_empty() {
            self.components.reserve_exact(index + 1); // most have one component
        }
        if self.components.len() <= index {
            self.components.resize(index + 1, None);
        }
        self.components[index] = Some(uid.into());
    }

    /// Remembers an object between a component and its pods.
    pub fn put_link(&mut self, owner: Controller, component: Option<usize>) {
        self.links.insert(owner.uid.clone(), Link { owner, component, seen: self.round });
    }

    /// Forgets objects between components and pods where there are too many, those first that no pod has named for longest: a
    /// `JobSet` may restart without end, with other Jobs each time.
    pub fn forget_old_links(&mut self) {
        let most = LINKS_MAX.max(2 * self.pods.len());
        let excess = self.links.len().saturating_sub(most);
        if excess == 0 {
            return;
        }
        let unnamed = self.links.iter().filter(|(_, link)| link.seen < self.round);
        let mut oldest: Vec<(u64, String)> =
            unnamed.map(|(uid, link)| (link.seen, uid.clone())).collect();
        oldest.sort_unstable();
        for (_, uid) in oldest.into_iter().take(excess) {
            self.links.remove(&uid);
        }
    }

    /// Remembers a pod of ours, with the place that it had when its component was first known.
    pub fn put_pod(&mut self, uid: &str, name: &str, place: &Place) {
        if let Some(known) = self.pods.get_mut(uid) {
            if known.place.component.is_none() {
                known.place.clone_from(place);
            }
        } else {
            let (name, place) = (name.to_owned(), place.clone());
            let known = Known { name, place, seen: self.round, unseen: None };
            self.pods.insert(uid.to_owned(), Box::new(known));
        }
    }

    /// A pod is gone.
    pub fn forget(&mut self, uid: &str) {
        self.pods.remove(uid);
    }

    /// A LIST showed that nothing is left.
    pub fn nothing_is_left(&mut self) {
        if self.pods.is_empty() {
            self.components = vec![];
            self.links.clear();
        }
    }

    /// Compares with what is seen; returns the pods that must be read, the one read longest ago first.
    pub fn missing(&mut self, seen: &[Arc<PodRecord>], now: Duration) -> Vec<Missing> {
        self.round += 1;
        for record in seen {
            if let Some(known) = self.pods.get_mut(&record.identity.uid) {
                (known.seen, known.unseen) = (self.round, None);
            }
            if let Some(owner) = &record.identity.controller
                && let Some(link) = self.links.get_mut(&owner.uid)
            {
                link.seen = self.round;
            }
        }
        if mutations::is_present(Mutation::RelabelledPodIsGone) {
            return vec![];
        }
        let mut due = vec![];
        for (uid, known) in self.pods.iter_mut().filter(|(_, known)| known.seen != self.round) {
            let unseen = known.unseen.get_or_insert_default();
            if unseen.left(now, self.reads_soon).is_zero() {
                let missing = Missing { name: known.name.clone(), uid: uid.clone() };
                due.push((unseen.read_at, missing));
            }
        }
        due.sort_by_key(|(read_at, _)| *read_at);
        due.into_iter().map(|(_, missing)| missing).collect()
    }

    /// A pod that no watch shows exists; `record` is how it was read, where it was.
    pub fn exists(&mut self, uid: &str, record: Option<PodRecord>, now: Duration) {
        if let Some(unseen) = self.pods.get_mut(uid).and_then(|known| known.unseen.as_mut()) {
            unseen.read_at = Some(now);
            unseen.pause = (2 * unseen.pause).clamp(READ_AGAIN_AFTER.0, READ_AGAIN_AFTER.1);
            unseen.record = record.or_else(|| unseen.record.take());
        }
    }

    /// A pod is gone that the watch still shows: it stays known until the watch tells how it ended.
    pub fn over(&mut self, uid: &str) {
        if let Some(known) = self.pods.get_mut(uid) {
            known.unseen = None;
        }
    }

    /// The pods that no watch shows and that are not known to be gone, as they were read last.
    #[must_use]
    pub fn unseen(&self, namespace: &str) -> Vec<Arc<PodRecord>> {
        let unseen = self.pods.iter().filter(|(_, known)| known.unseen.is_some());
        let records = unseen.map(|(uid, known)| {
            let read = known.unseen.as_ref().and_then(|unseen| unseen.record.clone());
            Arc::new(read.unwrap_or_else(|| known.unread(uid, namespace)))
        });
        records.collect()
    }

    /// When a pod that no watch shows is to be read again.
    #[must_use]
    pub fn read_again_in(&self, now: Duration) -> Option<Duration> {
        let unseen = self.pods.values().filter_map(|known| known.unseen.as_ref());
        let left = unseen.map(|unseen| unseen.left(now, self.reads_soon)).min();
        left.map(|left| left.max(Duration::from_secs(1))) // one that is due waits for its turn
    }
}

impl Known {
    /// All that is known of a pod that is not read yet: that it exists.
    fn unread(&self, uid: &str, namespace: &str) -> PodRecord {
        let mut record = PodRecord::default();
        namespace.clone_into(&mut record.identity.namespace);
        self.name.clone_into(&mut record.identity.name);
        uid.clone_into(&mut record.identity.uid);
        self.name.clone_into(&mut record.pod.name);
        uid.clone_into(&mut record.pod.uid);
        record.pod.phase = PodPhase::Unknown;
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(uid: &str) -> PodRecord {
        let mut record = PodRecord::default();
        uid.clone_into(&mut record.identity.uid);
        record
    }

    fn seen<const N: usize>(uids: [&str; N]) -> [Arc<PodRecord>; N] {
        uids.map(|uid| Arc::new(record(uid)))
    }

    fn uids(missing: &[Missing]) -> Vec<&str> {
        missing.iter().map(|missing| missing.uid.as_str()).collect()
    }

    #[test]
    fn a_pod_that_no_watch_shows_is_read_at_once_and_then_now_and_then() {
        let mut kin = Kin::default();
        let at = Duration::from_secs;
        for uid in ["a", "b", "c"] {
            kin.put_pod(uid, uid, &Place::default());
        }
        assert_eq!(uids(&kin.missing(&seen(["a", "b"]), at(1))), ["c"]);
        assert_eq!(kin.read_again_in(at(1)), Some(at(1)), "it was not read");
        kin.exists("c", None, at(1));
        assert_eq!(kin.unseen("n")[0].pod.phase, PodPhase::Unknown);
        kin.exists("c", Some(record("c")), at(2));
        assert_eq!(kin.unseen("n"), seen(["c"]));
        assert_eq!(uids(&kin.missing(&seen(["a"]), at(3))), ["b"]);
        assert_eq!(
            uids(&kin.missing(&seen(["a"]), at(20))),
            ["b"],
            "twice as long after each read"
        );
        assert_eq!(uids(&kin.missing(&seen(["a"]), at(22))), ["b", "c"], "never read comes first");
        kin.forget("b");
        assert_eq!(uids(&kin.missing(&seen(["c"]), at(23))), ["a"], "one came back");
        assert_eq!(kin.unseen("n").len(), 1);
    }

    #[test]
    fn a_pod_that_quota_waits_for_is_read_again_soon() {
        let mut kin = Kin::default();
        let at = Duration::from_secs;
        kin.put_pod("c", "c", &Place::default());
        assert_eq!(uids(&kin.missing(&[], at(0))), ["c"]);
        for _ in 0..7 {
            kin.exists("c", Some(record("c")), at(1000));
        }
        assert!(kin.missing(&[], at(1060)).is_empty());
        assert_eq!(kin.read_again_in(at(1060)), Some(at(540)));
        kin.reads_soon = true;
        assert_eq!(kin.read_again_in(at(1004)), Some(at(56)));
        assert!(kin.missing(&[], at(1059)).is_empty());
        assert_eq!(uids(&kin.missing(&[], at(1060))), ["c"]);
    }

    #[test]
    fn a_link_is_known_by_all_that_a_reference_says() {
        let mut kin = Kin::default();
        let owner = Controller {
            api_version: "batch/v1".into(),
            kind: "Job".into(),
            name: "j".into(),
            uid: "u".into(),
        };
        kin.put_link(owner.clone(), Some(2));
        assert_eq!(kin.link(&owner), Some(Some(2)));
        assert!(
            kin.link(&Controller { api_version: "batch/v2".into(), ..owner.clone() }).is_some()
        );
        for other in [
            Controller { api_version: "v1".into(), ..owner.clone() },
            Controller { kind: "Node".into(), ..owner.clone() },
            Controller { name: "k".into(), ..owner.clone() },
            Controller { uid: "v".into(), ..owner.clone() },
        ] {
            assert_eq!(kin.link(&other), None, "{other:?}");
        }
        kin.put_pod("p", "p", &Place::default());
        kin.nothing_is_left();
        assert!(kin.link(&owner).is_some(), "a pod is left");
        kin.forget("p");
        kin.nothing_is_left();
        assert_eq!(kin.link(&owner), None);
    }

    fn job(number: usize) -> Controller {
        let name = format!("j{number:05}");
        let uid = name.clone();
        Controller { api_version: "batch/v1".into(), kind: "Job".into(), name, uid }
    }

    /// A pod of that Job.
    fn pod_of(number: usize) -> Arc<PodRecord> {
        let mut record = record(&format!("p{number}"));
        record.identity.controller = Some(job(number));
        Arc::new(record)
    }

    /// A look that shows the pods of these Jobs, and no others.
    fn look(kin: &mut Kin, jobs: &[usize]) {
        let pods: Vec<_> = jobs.iter().map(|number| pod_of(*number)).collect();
        for missing in kin.missing(&pods, Duration::ZERO) {
            kin.forget(&missing.uid);
        }
        for (number, pod) in jobs.iter().zip(&pods) {
            kin.put_pod(&pod.identity.uid, "p", &Place::default());
            if kin.link(&job(*number)).is_none() {
                kin.put_link(job(*number), Some(0));
            }
        }
        kin.forget_old_links();
    }

    #[test]
    fn of_owners_made_without_end_those_last_named_are_remembered() {
        let mut kin = Kin::default();
        for restart in 0..300 {
            look(&mut kin, &[0, 10 * restart + 1, 10 * restart + 2, 10 * restart + 3]);
        }
        assert_eq!(kin.links.len(), 901, "there is room for all");
        for restart in 300..600 {
            look(&mut kin, &[0, 10 * restart + 1, 10 * restart + 2, 10 * restart + 3]);
        }
        assert_eq!(kin.links.len(), LINKS_MAX);
        let is_known = [0, 1, 5991, 5993].map(|number| kin.link(&job(number)).is_some());
        assert_eq!(is_known, [true, false, true, true]);
    }

    /// A Deployment that replaces its only pod each time, which never runs.
    #[test]
    fn owners_are_forgotten_though_no_pod_of_the_last_look_is_left() {
        let mut kin = Kin::default();
        for restart in 0..2 * LINKS_MAX {
            kin.forget(&format!("p{}", restart.saturating_sub(1)));
            look(&mut kin, &[restart]);
        }
        assert_eq!(kin.links.len(), LINKS_MAX);
        let is_known = [0, 1_999].map(|number| kin.link(&job(number)).is_some());
        assert_eq!(is_known, [false, true]);
    }

    #[test]
    fn the_owners_of_a_large_gang_are_all_remembered() {
        let mut kin = Kin::default();
        let all: Vec<usize> = (0..3 * LINKS_MAX).collect();
        for _ in 0..2 {
            look(&mut kin, &all);
            assert_eq!(kin.links.len(), all.len());
        }
    }

    #[test]
    fn the_object_of_a_component_is_known_until_nothing_is_left() {
        let mut kin = Kin::default();
        let known = |kin: &Kin| [0, 1, 2, 3].map(|index| kin.component(index).map(str::to_owned));
        let wanted = |uids: [&str; 4]| uids.map(|uid| (!uid.is_empty()).then(|| uid.to_owned()));
        for (index, uid, want) in [
            (2, "c", ["", "", "c", ""]),
            (0, "a", ["a", "", "c", ""]),
            (0, "a", ["a", "", "c", ""]),
            (2, "d", ["a", "", "d", ""]),
            (3, "e", ["a", "", "d", "e"]),
        ] {
            kin.put_component(index, uid);
            assert_eq!(known(&kin), wanted(want), "{index} {uid}");
            assert!(kin.is_component(uid), "{uid}");
        }
        assert!(!kin.is_component("c") && !kin.is_component(""));
        kin.nothing_is_left();
        assert_eq!(known(&kin), wanted([""; 4]));
    }

    #[test]
    fn a_place_is_learned_once_its_component_is_known_and_stays() {
        let place = |component: Option<usize>| Place { component, ..Place::default() };
        let mut kin = Kin::default();
        for (seen, want) in [(None, None), (Some(1), Some(1)), (Some(2), Some(1)), (None, Some(1))]
        {
            kin.put_pod("u", "p", &place(seen));
            assert_eq!(kin.place("u"), Some(&place(want)), "{seen:?}");
        }
    }
}
