//! Which AppWrapper is reconciled next. Pure: times are handed in, and nothing waits here.
//!
//! ```text
//! push, retry ─▶ timers ─▶ queue of its group ─▶ turn of its group ─▶ take ─▶ done
//! ```
//!
//! A group is the AppWrappers of a namespace that start, or those that have started. Groups take turns, so that one with
//! thousands of changes delays another by a few reconciles at most: what starts delays no failure, and failures delay no
//! start. An AppWrapper that restarts counts as one that starts as soon as all its resources are deleted.
//!
//! A group holds a limited number of places, fewer while another namespace is active: its calls take the API server's
//! time, and a busy namespace would use all of it. The last places of all are kept for groups that hold none, so that
//! calls which hang in one do not keep another waiting.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::observe::cache::Key;

/// After so many fresh AppWrappers of a group, one that failed or was slow has its turn.
const FRESH_IN_A_ROW: usize = 3;
/// For so long after a reconcile began, its namespace is active.
const ACTIVE_FOR: Duration = Duration::from_secs(10);

/// The longest pause of an AppWrapper that is gone, which is the first after a panic: whoever deletes and creates one again and
/// again that panics does not have it reconciled more often.
const GONE_PAUSE: Duration = Duration::from_secs(1);

/// How many reconciles are under way at the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// In all.
    pub total: usize,
    /// For one namespace.
    pub per_namespace: ByStage,
    /// For one namespace while another is active.
    pub shared: ByStage,
    /// Of all, for groups that hold no place.
    pub reserved: usize,
}

/// Places for each stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByStage {
    pub starting: usize,
    pub started: usize,
}

/// How far an AppWrapper is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Its components have not all been created, or all were deleted for a restart.
    #[default]
    Starting,
    /// It runs, is reset, or ends.
    Started,
}

/// The AppWrappers of a namespace in one stage.
type Group = (String, Stage);

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// When the AppWrapper is reconciled again.
    pub requeue: Requeue,
    /// Cool-down: changes within this time do not trigger a reconcile before it ends.
    pub cool_down: Duration,
    /// It failed or was slow: others of its group go first.
    pub yields: bool,
}

/// When an AppWrapper is reconciled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requeue {
    /// When something happens.
    OnChange,
    /// After this time, or earlier when something happens.
    After(Duration),
    /// After this time, and not earlier, whatever happens.
    NotBefore(Duration),
}

impl Requeue {
    /// The same of an AppWrapper that went meanwhile.
    pub(super) fn of_gone(self) -> Self {
        match self {
            Self::NotBefore(pause) => Self::NotBefore(pause.min(GONE_PAUSE)),
            Self::OnChange | Self::After(_) => self,
        }
    }
}

/// What is known of one AppWrapper. One of which there is nothing to remember has no entry.
#[derive(Debug, Default)]
struct Entry {
    state: State,
    /// The group that it waits in, holds a place of, or waits in next.
    stage: Stage,
    timer: Option<Duration>,
    /// Since when it waits to be reconciled: since the first of the events that are not handled yet, or the end of its pause.
    since: Option<Duration>,
    not_before: Duration,
    yields: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Waiting,
    Running,
    /// Something happened while it was being reconciled.
    RunningAgain,
}

#[derive(Debug, Default)]
struct Waiting {
    fresh: VecDeque<String>,
    yielding: VecDeque<String>,
    fresh_in_a_row: usize,
    running: usize,
    /// Whether it is in the round of turns.
    in_turn: bool,
}

impl Waiting {
    fn waits(&self) -> bool {
        !self.fresh.is_empty() || !self.yielding.is_empty()
    }

    fn next(&mut self) -> Option<String> {
        let yielding_first = self.fresh.is_empty() || self.fresh_in_a_row >= FRESH_IN_A_ROW;
        if yielding_first && let Some(name) = self.yielding.pop_front() {
            self.fresh_in_a_row = 0;
            return Some(name);
        }
        self.fresh_in_a_row = self.fresh_in_a_row.saturating_add(1);
        self.fresh.pop_front()
    }
}

/// The queue of AppWrappers.
#[derive(Debug)]
pub(super) struct Schedule {
    places: Places,
    entries: BTreeMap<Key, Entry>,
    groups: BTreeMap<Group, Waiting>,
    /// Groups in which something waits and that have a place left, in the order of their turns.
    turns: VecDeque<Group>,
    timers: BTreeSet<(Duration, Key)>,
    running: usize,
    waiting: usize,
    /// How long the AppWrapper waited that was taken last.
    waited: Duration,
    /// The time that was handed in last.
    now: Duration,
    /// The two namespaces in which a reconcile began last, each with when: these two are enough to tell whether any
    /// other than a given one is active.
    active: [Option<(String, Duration)>; 2],
}

impl Schedule {
    pub(super) fn new(places: Places) -> Self {
        Self {
            places,
            entries: BTreeMap::new(),
            groups: BTreeMap::new(),
            turns: VecDeque::new(),
            timers: BTreeSet::new(),
            running: 0,
            waiting: 0,
            waited: Duration::ZERO,
            now: Duration::ZERO,
            active: [None, None],
        }
    }

    /// How many wait to be reconciled, those that something happened to meanwhile included.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// How long the AppWrapper waited that was taken last, without the pause that it had to keep.
    pub(super) const fn waited(&self) -> Duration {
        self.waited
    }

    /// Something happened to an AppWrapper in this stage. Whether it waits since then, or has an earlier timer: otherwise
    /// nothing else can be taken, and nothing is due earlier.
    pub(super) fn push(&mut self, key: &Key, stage: Stage, now: Duration) -> bool {
        self.now = now;
        let entry = self.entries.entry(key.clone()).or_default();
        match entry.state {
            State::Waiting | State::RunningAgain => false,
            State::Running => {
                entry.state = State::RunningAgain;
                entry.since = Some(now);
                self.waiting += 1;
                false // the end of its reconcile lines it up
            }
            State::Idle => {
                entry.stage = stage;
                let at = entry.not_before;
                if at > now {
                    entry.since = None;
                    self.set_timer(key, at)
                } else {
                    self.wait(key);
                    true
                }
            }
        }
    }

    /// An AppWrapper is gone: another of its name pauses for a moment, and no longer.
    pub(super) fn forget(&mut self, key: &Key, now: Duration) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.not_before = entry.not_before.min(now.saturating_add(GONE_PAUSE));
        }
    }

    /// Moves to the queues what is due.
    pub(super) fn wake(&mut self, now: Duration) {
        self.now = now;
        while self.next_due().is_some_and(|at| at <= now)
            && let Some((_, key)) = self.timers.first().cloned()
        {
            self.wait(&key);
        }
    }

    /// When something is due next.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The next AppWrapper to be reconciled, where one waits and has a place; [`Schedule::done`] ends it.
    pub(super) fn take(&mut self) -> Option<Key> {
        if self.running >= self.places.total {
            return None;
        }
        let few_left = self.running >= self.places.total.saturating_sub(self.places.reserved);
        for _ in 0..self.turns.len() {
            let name = self.turns.pop_front()?;
            let most = self.places_of(&name);
            let Some(group) = self.groups.get_mut(&name) else { continue };
            if group.running >= most {
                group.in_turn = false; // the end of one of its reconciles lines it up again
                continue;
            }
            if few_left && group.running > 0 {
                self.turns.push_back(name);
                continue;
            }
            group.in_turn = false;
            let next = group.next();
            group.running += usize::from(next.is_some());
            self.line_up(&name);
            let (namespace, _) = name;
            let Some(next) = next else { continue };
            self.note_active(&namespace);
            let key = Key { namespace, name: next };
            self.running += 1;
            self.waiting = self.waiting.saturating_sub(1);
            let entry = self.entries.entry(key.clone()).or_default();
            entry.state = State::Running;
            let since = entry.since.take().unwrap_or(self.now);
            self.waited = self.now.saturating_sub(since);
            return Some(key);
        }
        None
    }

    /// A reconcile has ended, and the AppWrapper is in this stage now.
    pub(super) fn done(&mut self, key: &Key, ended: Ended, stage: Stage, now: Duration) {
        self.now = now;
        let Some(entry) = self.entries.get_mut(key) else { return };
        let again = match entry.state {
            State::Idle | State::Waiting => return,
            State::Running => false,
            State::RunningAgain => true,
        };
        entry.state = State::Idle;
        entry.yields = ended.yields;
        let group = (key.namespace.clone(), std::mem::replace(&mut entry.stage, stage));
        let at = |pause: Duration| now.saturating_add(pause);
        let rested = at(ended.cool_down);
        entry.not_before = match ended.requeue {
            Requeue::OnChange | Requeue::After(_) => rested,
            Requeue::NotBefore(pause) => at(pause).max(rested),
        };
        self.running = self.running.saturating_sub(1);
        if let Some(left) = self.groups.get_mut(&group) {
            left.running = left.running.saturating_sub(1);
        }
        if again {
            self.waiting = self.waiting.saturating_sub(1);
            self.push(key, stage, now);
        }
        match ended.requeue {
            Requeue::OnChange => {}
            Requeue::After(pause) | Requeue::NotBefore(pause) => {
                self.set_timer(key, at(pause));
            }
        }
        self.line_up(&group);
        // an entry that rests is kept until the next reconcile; that of an AppWrapper that is gone has no rest
        let is_idle = |entry: &Entry| {
            entry.state == State::Idle && entry.timer.is_none() && entry.not_before <= now
        };
        if self.entries.get(key).is_some_and(is_idle) {
            self.entries.remove(key);
        }
        let is_unused = |it: &Waiting| !it.waits() && it.running == 0;
        if self.groups.get(&group).is_some_and(is_unused) {
            self.groups.remove(&group);
        }
    }

    /// Reconciles at a time, or earlier where that was asked for before. Whether the timer is new or earlier.
    fn set_timer(&mut self, key: &Key, at: Duration) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        if entry.state != State::Idle || entry.timer.is_some_and(|before| before <= at) {
            return false;
        }
        if let Some(before) = entry.timer.replace(at) {
            self.timers.remove(&(before, key.clone()));
        }
        self.timers.insert((at, key.clone()));
        true
    }

    /// An idle AppWrapper waits for its turn.
    fn wait(&mut self, key: &Key) {
        let entry = self.entries.entry(key.clone()).or_default();
        let mut due = self.now;
        if let Some(at) = entry.timer.take() {
            due = due.min(at);
            self.timers.remove(&(at, key.clone()));
        }
        if entry.state != State::Idle {
            return;
        }
        entry.state = State::Waiting;
        entry.since.get_or_insert(due);
        let name = (key.namespace.clone(), entry.stage);
        let group = self.groups.entry(name.clone()).or_default();
        let queue = if entry.yields { &mut group.yielding } else { &mut group.fresh };
        queue.push_back(key.name.clone());
        self.waiting += 1;
        self.line_up(&name);
    }

    /// Puts a group into the round of turns, at its end, where it belongs there and is not yet.
    fn line_up(&mut self, name: &Group) {
        let most = self.places_of(name);
        let Some(group) = self.groups.get_mut(name) else { return };
        let has_place = group.running < most;
        if !group.in_turn && has_place && group.waits() {
            group.in_turn = true;
            self.turns.push_back(name.clone());
        }
    }

    /// How many places a group may hold now.
    fn places_of(&self, (namespace, stage): &Group) -> usize {
        let is_active = |at: Duration| self.now.saturating_sub(at) <= ACTIVE_FOR;
        let mut others = self.active.iter().flatten().filter(|(other, _)| other != namespace);
        let is_alone = !others.any(|(_, at)| is_active(*at));
        let places = if is_alone { self.places.per_namespace } else { self.places.shared };
        match stage {
            Stage::Starting => places.starting,
            Stage::Started => places.started,
        }
    }

    fn note_active(&mut self, name: &str) {
        let [last, before] = &mut self.active;
        match last {
            Some((active, at)) if active == name => *at = self.now,
            Some(_) | None => {
                *before = last.take();
                *last = Some((name.to_owned(), self.now));
            }
        }
    }
}

#[cfg(test)]
mod tests;
