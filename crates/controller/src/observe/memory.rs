//! What this process alone knows of one AppWrapper: what it did lately, what it saw to be the AppWrapper's ([`Kin`]), and
//! what was deleted before it was decided about ([`DeletedObjects`]).
//!
//! It is lost at a restart. Then more is read, pods whose owners are gone may be undetermined, and an end that nobody
//! recorded is not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::deleted_objects::DeletedObjects;
use super::kin::Kin;
use super::records::ObjectRecord;
use crate::mutations::{self, Mutation};
use crate::snapshot::{CreationFailure, FailedJob, Snapshot, Undetermined};
use appwrapper_core::shadow::Comparison;

/// A created object is believed to exist for this long until the watch shows it.
const CREATED_FOR: Duration = Duration::from_secs(5);
/// The same deletion is not sent again within this time.
const DELETE_AGAIN_AFTER: Duration = Duration::from_secs(4);
/// Of so many objects it is remembered that a deletion was refused.
const UNDELETABLE_MAX: usize = 64;
/// First and longest pause between two tries to create a component.
const CREATE_AGAIN_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));

/// A node of which the API server said that it is gone is not asked for again within this time.
const NODE_GONE_FOR: Duration = Duration::from_secs(5);

/// For so long after an undetermined pod has ended or is gone, its owner may still replace it.
const REPLACED_WITHIN: Duration = Duration::from_secs(10);

/// For how long a version of the AppWrapper is known to be the newest: less than a third of the duration of a lease.
const CONFIRMED_FOR: Duration = Duration::from_secs(4);

/// What this process did lately for one AppWrapper.
///
/// Its times are those of [`ReconcileState::tick`]: they never jump, and mean nothing to another process. `object` is about the
/// AppWrapper; `now`, `must_list` and `list_at` are about neither it nor an attempt; all else is about one attempt.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Default)]
pub struct ReconcileState {
    now: Duration,
    /// UID of the AppWrapper and attempt that all this is about.
    about: Option<(String, i32)>,
    /// What lasts from one attempt to the next.
    pub object: OfObject,
    /// Since when a watch shows an older version than the newest.
    behind_since: Option<Duration>,
    /// Objects that the watch has not shown since. Boxed, since a map of one has room for eleven.
    created: BTreeMap<usize, (Box<ObjectRecord>, Duration)>,
    /// Components whose object was seen in this attempt, or may have been created without a word of it.
    existed: BTreeSet<usize>,
    /// Another process may have begun this attempt.
    pub begun_before: bool,
    failures: BTreeMap<usize, Failure>,
    /// Nothing is created before, since the last try was not answered.
    none_created_before: Duration,
    deletions: BTreeMap<(String, bool), Duration>,
    /// Objects, by UID, of which a deletion is refused.
    undeletable: BTreeMap<String, Trouble>,
    /// Components of which a LIST found nothing, while everything is being deleted.
    absent: BTreeSet<usize>,
    /// Components that are pods and that a DELETE removed: the UID, and when.
    removed: BTreeMap<usize, (String, Duration)>,
    /// Nodes that the API server did not find, and when it was asked.
    gone_nodes: BTreeMap<String, Duration>,
    /// What was deleted since the last decision.
    pub deleted_objects: DeletedObjects,
    /// Owners of pods or components are left to be read, or an undetermined pod may be replaced: look again after this
    /// time.
    pub read_on_in: Option<Duration>,
    /// The last look has read a component without the label by which it is watched.
    pub has_unwatched: bool,
    /// An owner that may be of ours could not be read in the last look.
    pub missed: bool,
    /// Pods were put aside in the cache before their owners were read.
    pub unread_aside: bool,
    /// Too little is kept of some pods in the cache: they must be listed.
    pub must_list: bool,
    /// How many pods this reconcile has listed, or the last one where none is under way. They cost time also where they are not
    /// the AppWrapper's, and nothing of them is kept.
    pub listed: usize,
    /// When pods are listed that were put aside in the cache, and of which it may turn out whose they are.
    pub list_at: Option<Duration>,
    /// Failed Jobs of a `JobSet` that failed, by its UID: they stay as they are.
    pub failed_jobs: BTreeMap<String, Vec<FailedJob>>,
    /// Since when the Jobs of a `JobSet` that failed cannot be listed, and how many times they could not, by its UID.
    pub(super) jobs_unlisted: BTreeMap<String, (Duration, u32)>,
    /// Components that this process has created, and of which the status does not tell yet.
    pub unrecorded: BTreeSet<usize>,
    /// Why the API server refused to let memory grow, in this attempt.
    pub growth_refused: Option<String>,
    /// Why the API server refused to let its Workload be deactivated, in this attempt.
    pub workload_refused: Option<String>,
    /// Version and flaw of the object that could not be parsed and was reported last.
    pub unreadable: Option<Box<str>>,
    /// Consecutive errors.
    pub errors: u32,
    /// Since when the API server has refused calls, where no reconcile has succeeded since, nor failed for another reason.
    pub refused_since: Option<Duration>,
    /// An event told of one of the errors.
    pub is_error_told: bool,
    /// The API server refuses to let the AppWrapper be suspended, in this attempt.
    pub suspend_refused: Option<Trouble>,
    /// When what blocks a deletion was written last.
    pub blockers_named_at: Option<Timestamp>,
    /// The undetermined pod that was seen last.
    undetermined: Option<UndeterminedPod>,
    /// Since when everything is deleted, where the API server refuses the status that would say so.
    pub deleting: Option<Timestamp>,
}

/// What this process knows of one AppWrapper, whatever its attempt.
#[derive(Debug, Default)]
pub struct OfObject {
    /// The newest resource version of the AppWrapper that was seen or written.
    newest: Option<u128>,
    /// The newest one that a write of ours made.
    written: Option<u128>,
    /// The resource version that the AppWrapper is known to have had a moment ago: our own write made it,
    /// or the API server itself said so; and when that was.
    confirmed: Option<(u128, Duration)>,
    /// The remarks on annotations that were made last; none where this process has not looked at them yet.
    pub remarks: Option<Vec<String>>,
    /// What a shadow expects of the active controller; no other has one.
    pub comparison: Option<Box<Comparison>>,
    /// Up to when something may have been missed: the last error, or the first look after it.
    pub last_gap: Option<Timestamp>,
    /// The API server gave no answer at the last look: nothing was looked at since, for up to a minute. A call that it refuses
    /// says nothing of the pods, and may be refused for ever.
    pub is_blind: bool,
    /// Since when every look has shown more live pods than are declared.
    pub over_quota_since: Option<Timestamp>,
    /// Kinds that the AppWrapper uses have not been listed yet.
    pub unlisted: Option<Trouble>,
    /// What was once seen to be the AppWrapper's.
    pub kin: Kin,
}

/// What keeps an AppWrapper from getting on, and no error says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    since: Duration,
    is_told: bool,
}

impl Trouble {
    /// Whether an event is to tell of it now: once, when it has lasted for this time.
    pub fn is_to_tell(trouble: &mut Option<Self>, now: Duration, after: Duration) -> bool {
        let trouble = trouble.get_or_insert(Self { since: now, is_told: false });
        let is_due = !trouble.is_told && now.saturating_sub(trouble.since) >= after;
        trouble.is_told |= is_due;
        is_due
    }
}

/// An undetermined pod that was seen before it ended.
#[derive(Debug)]
struct UndeterminedPod {
    name: String,
    /// When it was found to have ended or to be gone.
    ended_at: Option<Duration>,
}

/// Why a component was not created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCreated {
    /// What the status says of it.
    pub why: CreationFailure,
    /// For how long the API server asked not to be called.
    pub retry_after: Option<Duration>,
    /// The answer does not tell: it may have been created.
    pub may_exist: bool,
    /// Nothing refused it: the API server, or what else must be there first, did not answer.
    pub unanswered: bool,
}

impl From<CreationFailure> for NotCreated {
    fn from(why: CreationFailure) -> Self {
        Self { why, retry_after: None, may_exist: false, unanswered: false }
    }
}

#[derive(Debug)]
struct Failure {
    why: CreationFailure,
    /// When the first try failed.
    first_at: Duration,
    tries: u32,
    again_at: Duration,
}

/// Frees the memory that an empty map keeps.
fn free_if_empty<K, V>(map: &mut BTreeMap<K, V>) {
    if map.is_empty() {
        *map = BTreeMap::new();
    }
}

impl ReconcileState {
    /// What this process alone knows, for a snapshot. Where it missed something, that was up to now.
    pub fn tell(&mut self, snapshot: &mut Snapshot, now: Timestamp) {
        if self.missed || self.object.is_blind {
            self.object.last_gap = Some(now);
        }
        snapshot.last_gap = self.object.last_gap;
        for (component, index) in snapshot.components.iter_mut().zip(0..) {
            let failing_for = self.failures.get(&index).map(|failure| self.since(failure.first_at));
            component.failing_since =
                failing_for.and_then(|failing_for| now.checked_sub(failing_for).ok());
        }
        snapshot.blockers_named_at = self.blockers_named_at;
        snapshot.over_quota_since = self.object.over_quota_since;
    }

    /// Time has passed: `elapsed` is the time since some moment that stays the same.
    pub fn tick(&mut self, elapsed: Duration) {
        self.now = elapsed;
    }

    /// Whether it is about an object of this UID.
    #[must_use]
    pub fn is_about(&self, uid: &str) -> bool {
        self.about.as_ref().is_some_and(|(known, _)| known == uid)
    }

    /// Forgets what was about another object or attempt. An attempt may have been begun by another process, unless
    /// this one says otherwise: a watch that lags may show it only later.
    pub fn focus(&mut self, uid: &str, attempt: i32) {
        let about = Some((uid.to_owned(), attempt));
        if self.about != about {
            let same_object = self.is_about(uid);
            let object =
                if same_object { std::mem::take(&mut self.object) } else { OfObject::default() };
            *self = Self {
                now: self.now,
                about,
                object,
                begun_before: true,
                must_list: self.must_list,
                list_at: self.list_at,
                ..Self::default()
            };
        }
        // an attempt may last for weeks, and its pods may be made again without end
        let now = self.now;
        self.deletions.retain(|_, at| now.saturating_sub(*at) < DELETE_AGAIN_AFTER);
        self.gone_nodes.retain(|_, at| now.saturating_sub(*at) < NODE_GONE_FOR);
        free_if_empty(&mut self.deletions);
        free_if_empty(&mut self.gone_nodes);
    }

    /// The time, as it was told last.
    #[must_use]
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// Looks again after this time at the latest: something could not be read.
    pub fn look_again(&mut self, after: Duration) {
        self.read_on_in = self.read_on_in.into_iter().chain([after]).min();
    }

    /// When to look again for pods that no watch shows, and for those of which the owners are not read yet.
    #[must_use]
    pub fn pods_unseen_for(&self) -> Option<Duration> {
        self.read_on_in.into_iter().chain(self.object.kin.read_again_in(self.now)).min()
    }

    /// Remembers the undetermined pod that another process has waited for, where this one has seen none.
    pub fn recall_undetermined(&mut self, awaited: Option<&str>) {
        if self.undetermined.is_none() {
            let awaited = awaited.map(str::to_owned);
            self.undetermined = awaited.map(|name| UndeterminedPod { name, ended_at: None });
        }
    }

    /// Counts an undetermined pod for a while after it has ended or is gone: its owner may be replacing it, and
    /// quota must not be released in between.
    pub fn keep_undetermined(&mut self, found: &mut Undetermined) {
        if found.incomplete {
            return;
        }
        if found.live > found.outlived {
            let name = found.named.first().map(|(name, _)| name.clone()).unwrap_or_default();
            self.undetermined = Some(UndeterminedPod { name, ended_at: None });
            return;
        }
        let Some(pod) = &mut self.undetermined else { return };
        let ended_at = *pod.ended_at.get_or_insert(self.now);
        let left = REPLACED_WITHIN.saturating_sub(self.now.saturating_sub(ended_at));
        if !left.is_zero() {
            found.count += 1;
            found.live += 1;
            found.named.push((pod.name.clone(), "its owner may be replacing it".to_owned()));
            self.look_again(left);
        }
    }

    fn since(&self, moment: Duration) -> Duration {
        self.now.saturating_sub(moment)
    }

    /// Remembers the version that a write of ours made.
    pub fn wrote(&mut self, version: Option<&str>) {
        self.confirm(version);
        self.object.written = self.object.written.max(version.and_then(|text| text.parse().ok()));
    }

    /// Whether a version is older than one that a write of ours made.
    #[must_use]
    pub fn awaits_own_write(&self, version: &str) -> bool {
        let versions = (self.object.written, version.parse::<u128>());
        matches!(versions, (Some(own), Ok(read)) if read < own)
    }

    /// Remembers the version that the API server itself told.
    pub fn confirm(&mut self, version: Option<&str>) {
        let version = version.and_then(|text| text.parse().ok());
        self.object.confirmed =
            version.map(|version| (version, self.now)).or(self.object.confirmed);
        self.object.newest = self.object.newest.max(version);
    }

    /// Remembers that a version was seen.
    pub fn saw(&mut self, version: &str) {
        self.object.newest = self.object.newest.max(version.parse().ok());
        self.behind_since = None;
    }

    /// For how long a watch has shown versions that are older than the newest, this look included.
    pub fn behind_for(&mut self) -> Duration {
        let since = *self.behind_since.get_or_insert(self.now);
        self.since(since)
    }

    /// Takes an older version for the newest, since the API server itself has no newer one: its data were restored.
    pub fn went_back(&mut self, version: &str) {
        self.object.newest = version.parse().ok();
        (self.object.confirmed, self.object.written) = (None, None);
    }

    /// Whether a version is older than one that was seen or written: a watch that went back in time
    /// shows it, and it must not be decided by.
    #[must_use]
    pub fn outdates(&self, version: &str) -> bool {
        if mutations::is_present(Mutation::StaleIsNew) {
            return false;
        }
        let versions = (self.object.newest, version.parse::<u128>());
        matches!(versions, (Some(newest), Ok(read)) if read < newest)
    }

    /// Whether a version is known to be more than the word of a watch, which may lag behind by any time.
    /// What was known a while ago is not: a leader that does not know yet that it was replaced may have
    /// written since.
    #[must_use]
    pub fn is_confirmed(&self, version: &str) -> bool {
        let known = self.object.confirmed.is_some_and(|(confirmed, at)| {
            version.parse() == Ok(confirmed) && self.since(at) <= CONFIRMED_FOR
        });
        known || mutations::is_present(Mutation::StaleIsNew)
    }

    /// Remembers an object that was created.
    pub fn created(&mut self, index: usize, record: ObjectRecord) {
        self.failures.remove(&index);
        self.absent.remove(&index);
        self.removed.remove(&index);
        self.existed.insert(index);
        self.unrecorded.insert(index);
        self.object.kin.put_component(index, &record.identity.uid);
        self.created.insert(index, (Box::new(record), self.now));
    }

    /// The Jobs of a `JobSet` cannot be listed: whether the decision waits for them, at least for so long and so many tries.
    pub fn waits_for_jobs(&mut self, uid: &str, (time, tries): (Duration, u32)) -> bool {
        let now = self.now;
        let kin = &self.object.kin;
        // a component may be recreated without end
        self.jobs_unlisted.retain(|known, _| known == uid || kin.is_component(known));
        let (since, count) = self.jobs_unlisted.entry(uid.to_owned()).or_insert((now, 0));
        *count += 1;
        *count < tries || now.saturating_sub(*since) < time
    }

    /// Whether the object of a component is known, or must be feared, to have been there in this attempt;
    /// `shown` is the attempt of the object that is there.
    pub fn existed(&mut self, index: usize, shown: Option<i32>) -> bool {
        let current = self.about.as_ref().map(|(_, attempt)| *attempt);
        if shown.is_some() && shown == current {
            self.existed.insert(index);
        }
        self.existed.contains(&index)
    }

    /// An object that was created a moment ago, for as long as the watch may still lack it.
    #[must_use]
    pub fn recently_created(&self, index: usize) -> Option<&ObjectRecord> {
        let (record, at) = self.created.get(&index)?;
        (self.since(*at) < CREATED_FOR).then_some(record)
    }

    /// The watch has shown the object of a component: from here on, the watch alone is believed.
    pub fn shown(&mut self, index: usize) {
        self.created.remove(&index);
        free_if_empty(&mut self.created);
    }

    /// The status tells of the object of a component.
    pub fn recorded(&mut self, index: usize) {
        if self.unrecorded.remove(&index) && self.unrecorded.is_empty() {
            self.unrecorded = BTreeSet::new(); // an empty set keeps its memory
        }
    }

    /// The API server did not find the object of a component, while everything is being deleted.
    pub fn found_absent(&mut self, index: usize) {
        self.absent.insert(index);
    }

    /// Whether the API server did not find the object of a component since the deletion of this attempt began:
    /// reason enough not to ask again with every pod that goes. The last word before anything is released is a LIST.
    #[must_use]
    pub fn is_absent(&self, index: usize) -> bool {
        self.absent.contains(&index)
    }

    /// Remembers that the API server removed the pod of a component when it was asked to delete it.
    pub fn removed(&mut self, index: usize, uid: &str) {
        self.removed.insert(index, (uid.to_owned(), self.now));
    }

    /// The UID of the pod of a component that the API server removed a moment ago. What was removed a while ago says
    /// nothing: a leader that does not know yet that it was replaced may have created another since.
    #[must_use]
    pub fn removed_uid(&self, index: usize) -> Option<&str> {
        let (uid, at) = self.removed.get(&index)?;
        (self.since(*at) <= CONFIRMED_FOR).then_some(uid)
    }

    /// Remembers that the API server did not find a node.
    pub fn node_gone(&mut self, name: &str) {
        self.gone_nodes.insert(name.to_owned(), self.now);
    }

    /// Whether the API server did not find a node a moment ago.
    #[must_use]
    pub fn is_node_gone(&self, name: &str) -> bool {
        self.gone_nodes.get(name).is_some_and(|at| self.since(*at) < NODE_GONE_FOR)
    }

    /// When to look again for objects that were created and that the watch has not shown.
    #[must_use]
    pub fn unshown_for(&self) -> Option<Duration> {
        let left = self.created.values().map(|(_, at)| CREATED_FOR.saturating_sub(self.since(*at)));
        left.filter(|left| !left.is_zero()).max()
    }

    /// Remembers that a component could not be created. Where nothing answered, or the API server asked not to be called, no
    /// other is created earlier.
    pub fn failed(&mut self, index: usize, failure: NotCreated) {
        let NotCreated { why, retry_after, may_exist, unanswered } = failure;
        if may_exist {
            self.existed.insert(index);
        }
        let old = self.failures.get(&index);
        let (tries, first_at) = old.map_or((0, self.now), |old| (old.tries, old.first_at));
        let (first, longest) = CREATE_AGAIN_AFTER;
        let pause = first.saturating_mul(2_u32.saturating_pow(tries)).min(longest);
        let again_at = self.now + pause.max(retry_after.unwrap_or_default());
        let tries = tries.saturating_add(1);
        self.failures.insert(index, Failure { why, first_at, tries, again_at });
        if unanswered {
            self.none_created_before = self.none_created_before.max(again_at);
        }
    }

    /// Why a component could not be created, the last time.
    #[must_use]
    pub fn failure(&self, index: usize) -> Option<&CreationFailure> {
        self.failures.get(&index).map(|failure| &failure.why)
    }

    /// How long to wait before a component is tried again; zero where it can be tried now.
    #[must_use]
    pub fn pause_before_create(&self, index: usize) -> Duration {
        let own = self.failures.get(&index).map(|failure| failure.again_at).unwrap_or_default();
        own.max(self.none_created_before).saturating_sub(self.now)
    }

    /// Whether a deletion is to be sent, and not just repeated; remembers that it is.
    pub fn may_delete(&mut self, uid: &str, forced: bool) -> bool {
        let key = (uid.to_owned(), forced);
        let recent =
            self.deletions.get(&key).is_some_and(|at| self.since(*at) < DELETE_AGAIN_AFTER);
        if !recent {
            self.deletions.insert(key, self.now);
        }
        !recent
    }

    /// The API server has accepted a deletion: what was refused before is over.
    pub fn deletion_accepted(&mut self, uid: &str) {
        self.undeletable.remove(uid);
        free_if_empty(&mut self.undeletable);
    }

    /// A deletion that failed may be sent again at once. Whether an event is to tell of it: where those of this object have
    /// been refused for this time, once.
    pub fn deletion_failed(
        &mut self,
        uid: &str,
        forced: bool,
        is_refused: bool,
        after: Duration,
    ) -> bool {
        self.deletions.remove(&(uid.to_owned(), forced));
        free_if_empty(&mut self.deletions);
        let mut trouble = self.undeletable.get(uid).copied();
        if !is_refused {
            // an API server that starts again denies again for a moment
            if trouble.is_some_and(|trouble| !trouble.is_told) {
                self.undeletable.remove(uid);
            }
            return false;
        }
        if trouble.is_none() && self.undeletable.len() >= UNDELETABLE_MAX {
            return false;
        }
        let is_to_tell = Trouble::is_to_tell(&mut trouble, self.now, after);
        self.undeletable.extend(trouble.map(|trouble| (uid.to_owned(), trouble)));
        is_to_tell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> CreationFailure {
        CreationFailure { fatal: false, message: String::new() }
    }

    #[test]
    fn where_nobody_answers_no_other_component_is_created_either() {
        for (unanswered, retry_after, want) in
            [(false, None, [1, 0]), (true, None, [1, 1]), (true, Some(60), [60, 60])]
        {
            let mut memory = ReconcileState::default();
            let retry_after = retry_after.map(Duration::from_secs);
            memory.failed(0, NotCreated { retry_after, unanswered, ..failure().into() });
            let pauses = [0, 1].map(|index| memory.pause_before_create(index).as_secs());
            assert_eq!(pauses, want, "{unanswered} {retry_after:?}");
        }
    }

    #[test]
    fn a_try_to_create_backs_off_up_to_a_limit() {
        let mut memory = ReconcileState::default();
        let mut pauses = vec![];
        for _ in 0..6 {
            memory.failed(0, failure().into());
            pauses.push(memory.pause_before_create(0).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 15, 15]);
        memory.tick(Duration::from_secs(15));
        assert_eq!(memory.pause_before_create(0), Duration::ZERO);
    }

    #[test]
    fn it_is_told_since_when_a_creation_fails() {
        let start = Timestamp::from_second(1_800_000_000).unwrap();
        let mut memory = ReconcileState::default();
        memory.focus("u", 0);
        let told = |memory: &mut ReconcileState, second: u64| {
            memory.tick(Duration::from_secs(second));
            let components = vec![crate::snapshot::Component::default(); 2];
            let mut snapshot = Snapshot { components, ..Snapshot::default() };
            memory.tell(&mut snapshot, start + Duration::from_secs(second));
            let since = snapshot.components.iter().map(|component| component.failing_since);
            since.map(|at| at.map(|at| (at - start).get_seconds())).collect::<Vec<_>>()
        };
        assert_eq!(told(&mut memory, 5), [None, None]);
        memory.failed(1, failure().into());
        assert_eq!(told(&mut memory, 9), [None, Some(5)]);
        memory.failed(1, failure().into());
        assert_eq!(told(&mut memory, 20), [None, Some(5)], "the first failure");
        memory.focus("u", 1);
        assert_eq!(told(&mut memory, 30), [None, None], "another attempt");
    }

    #[test]
    fn a_deletion_is_not_repeated_at_once() {
        let mut memory = ReconcileState::default();
        assert!(memory.may_delete("u", false));
        assert!(!memory.may_delete("u", false));
        assert!(memory.may_delete("u", true), "a forceful one is another");
        memory.tick(DELETE_AGAIN_AFTER);
        assert!(memory.may_delete("u", false));
        memory.node_gone("n");
        memory.focus("u", 0);
        let kept = |memory: &ReconcileState| (memory.deletions.len(), memory.gone_nodes.len());
        assert_eq!(kept(&memory), (0, 0), "another attempt");
        assert!(memory.may_delete("u", false));
        memory.node_gone("n");
        memory.focus("u", 0);
        assert_eq!(kept(&memory), (1, 1));
        memory.tick(DELETE_AGAIN_AFTER + NODE_GONE_FOR);
        memory.focus("u", 0);
        assert_eq!(kept(&memory), (0, 0), "they say nothing any more");
    }

    #[test]
    fn a_refused_deletion_is_told_once_also_after_another_failure() {
        let mut memory = ReconcileState::default();
        let mut failed =
            |uid: &str, refused| memory.deletion_failed(uid, false, refused, Duration::ZERO);
        let told = [false, true, true, false, true].map(|refused| failed("u", refused));
        assert_eq!(told, [false, true, false, false, false]);
        assert!(failed("v", true), "another object");
        let others = (0..UNDELETABLE_MAX).filter(|other| failed(&other.to_string(), true));
        assert_eq!(others.count(), UNDELETABLE_MAX - 2, "their number is bounded");
    }

    #[test]
    fn an_accepted_deletion_ends_what_was_refused_before() {
        let mut memory = ReconcileState::default();
        let after = Duration::from_secs(30);
        let others: Vec<String> = (0..UNDELETABLE_MAX).map(|other| other.to_string()).collect();
        for other in &others {
            assert!(!memory.deletion_failed(other, false, true, after), "{other}");
        }
        for other in &others {
            memory.deletion_accepted(other);
        }
        assert!(memory.deletion_failed("v", false, true, Duration::ZERO), "there is room for it");
        assert!(!memory.deletion_failed("u", false, true, after));
        memory.deletion_accepted("u");
        memory.tick(Duration::from_mins(10));
        assert!(!memory.deletion_failed("u", false, true, after), "it is refused again");
    }

    #[test]
    fn trouble_is_told_once_when_it_has_lasted() {
        let mut trouble = None;
        let after = Duration::from_secs(30);
        let told = [50, 79, 80, 81, 200]
            .map(|second| Trouble::is_to_tell(&mut trouble, Duration::from_secs(second), after));
        assert_eq!(told, [false, false, true, false, false]);
    }

    #[test]
    fn a_removed_pod_is_known_for_a_moment() {
        let mut memory = ReconcileState::default();
        memory.removed(0, "u");
        assert_eq!((memory.removed_uid(0), memory.removed_uid(1)), (Some("u"), None));
        memory.tick(CONFIRMED_FOR + Duration::from_millis(1));
        assert_eq!(memory.removed_uid(0), None);
    }

    #[test]
    fn an_undetermined_pod_is_counted_for_a_while_after_it_is_gone() {
        let found = |count: usize, live, outlived| {
            let named = vec![("x".to_owned(), "it has no controller".to_owned()); count.min(1)];
            Undetermined { count, live, outlived, named, ..Undetermined::default() }
        };
        let mut memory = ReconcileState::default();
        let mut seen = |second, mut found: Undetermined| {
            memory.tick(Duration::from_secs(second));
            memory.read_on_in = None; // as after the owners were read
            memory.keep_undetermined(&mut found);
            (found.count, memory.pods_unseen_for().map(|left| left.as_secs()))
        };
        assert_eq!(seen(0, found(0, 0, 0)), (0, None), "none was ever seen");
        assert_eq!(seen(1, found(2, 2, 0)), (2, None), "a watch shows when it goes");
        assert_eq!(seen(50, found(0, 0, 0)), (1, Some(10)), "however long ago it was seen");
        assert_eq!(
            seen(55, found(1, 0, 0)),
            (2, Some(5)),
            "one that has ended may be replaced, too"
        );
        assert_eq!(seen(57, found(1, 1, 0)), (1, None), "it was replaced");
        assert_eq!(
            seen(58, found(1, 1, 1)),
            (2, Some(10)),
            "what garbage collection deletes is not"
        );
        let late = Undetermined { incomplete: true, ..found(0, 0, 0) };
        assert_eq!(seen(59, late), (0, None), "not every owner was read");
        assert_eq!(seen(68, found(0, 0, 0)), (0, None));
    }

    #[test]
    fn an_undetermined_pod_of_an_earlier_process_is_counted_once() {
        let mut memory = ReconcileState::default();
        for (second, want) in [(50, 1), (59, 1), (60, 0), (90, 0)] {
            memory.tick(Duration::from_secs(second));
            memory.recall_undetermined(Some("p"));
            let mut found = Undetermined::default();
            memory.keep_undetermined(&mut found);
            assert_eq!((found.count, found.live), (want, want), "{second}");
        }
    }

    #[test]
    fn a_refusal_to_grow_is_about_one_attempt() {
        let mut memory = ReconcileState::default();
        memory.focus("u", 0);
        memory.growth_refused = Some("no".to_owned());
        memory.focus("u", 0);
        assert!(memory.growth_refused.is_some());
        memory.focus("u", 1);
        assert_eq!(memory.growth_refused, None);
    }

    #[test]
    fn what_is_known_of_the_object_lasts_to_its_next_attempt() {
        let mut memory = ReconcileState::default();
        memory.focus("u", 0);
        memory.object.kin.put_component(0, "c");
        memory.object.remarks = Some(vec![]);
        assert!(!Trouble::is_to_tell(&mut memory.object.unlisted, Duration::ZERO, Duration::MAX));
        for (uid, attempt, is_known) in [("u", 0, true), ("u", 1, true), ("v", 1, false)] {
            memory.focus(uid, attempt);
            let OfObject { kin, remarks, unlisted, .. } = &memory.object;
            let known = [kin.is_component("c"), remarks.is_some(), unlisted.is_some()];
            assert_eq!(known, [is_known; 3], "{uid} {attempt}");
        }
    }

    #[test]
    fn an_excess_of_pods_lasts_from_one_attempt_to_the_next() {
        let start = Timestamp::from_second(1_800_000_000).unwrap();
        let mut memory = ReconcileState::default();
        memory.focus("u", 0);
        memory.object.over_quota_since = Some(start);
        let told = |memory: &mut ReconcileState, uid: &str| {
            memory.focus(uid, 1);
            let mut snapshot = Snapshot::default();
            memory.tell(&mut snapshot, start);
            snapshot.over_quota_since
        };
        assert_eq!(told(&mut memory, "u"), Some(start));
        assert_eq!(told(&mut memory, "v"), None, "another object");
    }

    #[test]
    fn nothing_is_known_from_an_outage_to_the_next_look() {
        let start = Timestamp::from_second(1_800_000_000).unwrap();
        let mut memory = ReconcileState::default();
        memory.focus("u", 0);
        (memory.object.last_gap, memory.object.is_blind) = (Some(start), true);
        memory.focus("u", 1); // another attempt
        let told = |memory: &mut ReconcileState, second| {
            let mut snapshot = Snapshot::default();
            memory.tell(&mut snapshot, start + Duration::from_secs(second));
            snapshot.last_gap.map(|gap| (gap - start).get_seconds())
        };
        assert_eq!(told(&mut memory, 47), Some(47));
        memory.object.is_blind = false;
        assert_eq!(told(&mut memory, 50), Some(47), "a look without error");
    }

    #[test]
    fn a_shadow_expects_the_same_of_the_next_attempt() {
        let mut memory = ReconcileState::default();
        memory.focus("u", 0);
        memory.object.comparison = Some(Box::default());
        memory.focus("u", 1);
        assert!(memory.object.comparison.is_some());
        memory.focus("v", 0);
        assert!(memory.object.comparison.is_none(), "another object");
    }

    #[test]
    fn an_attempt_may_have_been_begun_by_another_process() {
        let mut memory = ReconcileState::default();
        for attempt in [0, 1] {
            memory.focus("u", attempt);
            assert!(memory.begun_before, "{attempt}");
            memory.begun_before = false; // this process began it
            memory.focus("u", attempt);
            assert!(!memory.begun_before, "{attempt}");
        }
    }

    #[test]
    fn an_older_version_than_the_newest_is_not_decided_by() {
        let mut memory = ReconcileState::default();
        memory.focus("u", 0);
        assert!(!memory.outdates("5"));
        memory.confirm(Some("7"));
        assert!(memory.is_confirmed("7") && !memory.is_confirmed("8"));
        memory.tick(Duration::from_secs(10));
        assert!(!memory.is_confirmed("7"), "another may have written since");
        memory.saw("6");
        assert!(memory.outdates("6"));
        assert!(!memory.outdates("7"));
        memory.focus("u", 1);
        assert!(memory.outdates("6"), "another attempt of the same object");
        assert_eq!(memory.behind_for(), Duration::ZERO);
        memory.tick(Duration::from_secs(70));
        assert_eq!(memory.behind_for(), Duration::from_mins(1));
        memory.went_back("4");
        assert!(!memory.outdates("4") && memory.outdates("3"));
        memory.focus("v", 0);
        assert!(!memory.outdates("6"), "another object of the same name");
    }
}
