use proptest::prelude::*;

use super::*;

const PLACES: Places = Places { total: 8, per_namespace: both(3), shared: both(3), reserved: 2 };
/// A namespace that is not alone has fewer places.
const SHARED: Places = Places { shared: both(2), ..PLACES };
const STARTS: Stage = Stage::Starting;

const fn both(places: usize) -> ByStage {
    ByStage { starting: places, started: places }
}

fn key(text: &str) -> Key {
    let (namespace, name) = text.split_once('/').unwrap();
    Key { namespace: namespace.to_owned(), name: name.to_owned() }
}

const CHANGE: Ended =
    Ended { requeue: Requeue::OnChange, cool_down: Duration::ZERO, yields: false };

const fn after(seconds: u64) -> Ended {
    Ended { requeue: Requeue::After(at(seconds)), ..CHANGE }
}

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn with(keys: &[&str]) -> Schedule {
    let mut schedule = Schedule::new(PLACES);
    for text in keys {
        schedule.push(&key(text), STARTS, at(0));
    }
    schedule
}

/// All that can be taken now.
fn taken(schedule: &mut Schedule) -> Vec<String> {
    let all = std::iter::from_fn(|| schedule.take());
    all.map(|key| format!("{}/{}", key.namespace, key.name)).collect()
}

#[test]
fn namespaces_take_turns_and_have_a_limited_number_of_places() {
    for (pushed, want) in [
        (vec!["a/1", "a/2", "a/3", "b/1"], vec!["a/1", "b/1", "a/2", "a/3"]),
        (vec!["a/1", "a/2", "a/3", "a/4"], vec!["a/1", "a/2", "a/3"]),
        (vec!["a/1", "a/1", "a/1"], vec!["a/1"]),
        (vec!["a/1", "a/2", "b/1", "b/2", "c/1"], vec!["a/1", "b/1", "c/1", "a/2", "b/2"]),
    ] {
        assert_eq!(taken(&mut with(&pushed)), want, "{pushed:?}");
    }
}

#[test]
fn a_wait_begins_with_the_first_event_or_the_end_of_a_pause() {
    let mut schedule = with(&["a/1"]);
    let waited = |schedule: &mut Schedule, second: u64| {
        schedule.wake(at(second));
        assert_eq!(taken(schedule), ["a/1"], "at {second}");
        schedule.waited()
    };
    schedule.push(&key("a/1"), STARTS, at(2));
    assert_eq!(waited(&mut schedule, 5), at(5), "the first push counts");
    schedule.push(&key("a/1"), STARTS, at(6));
    schedule.push(&key("a/1"), STARTS, at(7));
    schedule.done(&key("a/1"), CHANGE, STARTS, at(9));
    assert_eq!(waited(&mut schedule, 10), at(4), "it was pushed during the reconcile");
    schedule.push(&key("a/1"), STARTS, at(11));
    schedule.done(&key("a/1"), Ended { cool_down: at(20), ..CHANGE }, STARTS, at(12));
    assert_eq!(waited(&mut schedule, 35), at(3), "it had to rest until 32");
    schedule.done(&key("a/1"), after(10), STARTS, at(36));
    assert_eq!(waited(&mut schedule, 47), at(1), "it was due at 46");
    schedule.done(&key("a/1"), after(10), STARTS, at(48));
    schedule.push(&key("a/1"), STARTS, at(50));
    assert_eq!(waited(&mut schedule, 52), at(2), "it was pushed before it was due");
}

#[test]
fn a_namespace_has_fewer_places_while_another_is_active() {
    let mut schedule = Schedule::new(SHARED);
    for name in ["a/1", "a/2", "a/3", "a/4", "a/5", "a/6"] {
        schedule.push(&key(name), STARTS, at(0));
    }
    assert_eq!(taken(&mut schedule), ["a/1", "a/2", "a/3"], "it is alone");
    schedule.push(&key("b/1"), STARTS, at(1));
    assert_eq!(taken(&mut schedule), ["b/1"]);
    schedule.done(&key("a/1"), CHANGE, STARTS, at(1));
    assert_eq!(taken(&mut schedule), [""; 0], "two are left to it, and it holds them");
    schedule.done(&key("a/2"), CHANGE, STARTS, at(2));
    assert_eq!(taken(&mut schedule), ["a/4"]);
    schedule.done(&key("b/1"), CHANGE, STARTS, at(2));
    schedule.done(&key("a/3"), CHANGE, STARTS, at(11));
    assert_eq!(taken(&mut schedule), ["a/5"]);
    schedule.push(&key("a/7"), STARTS, at(12)); // nothing of b began for more than ten seconds
    assert_eq!(taken(&mut schedule), ["a/6"]);
}

#[test]
fn what_starts_and_what_has_started_have_places_of_their_own() {
    let per_namespace = ByStage { starting: 1, started: 2 };
    let mut schedule = Schedule::new(Places { per_namespace, ..PLACES });
    for (name, stage) in [
        ("a/new-1", STARTS),
        ("a/new-2", STARTS),
        ("a/old-1", Stage::Started),
        ("a/old-2", Stage::Started),
        ("a/old-3", Stage::Started),
    ] {
        schedule.push(&key(name), stage, at(0));
    }
    assert_eq!(taken(&mut schedule), ["a/new-1", "a/old-1", "a/old-2"]);
    // it has started meanwhile, and something has happened to it again
    schedule.push(&key("a/new-1"), STARTS, at(0));
    schedule.done(&key("a/new-1"), CHANGE, Stage::Started, at(0));
    assert_eq!(taken(&mut schedule), ["a/new-2"]);
    schedule.done(&key("a/old-1"), CHANGE, STARTS, at(0));
    schedule.done(&key("a/old-2"), CHANGE, STARTS, at(0));
    assert_eq!(taken(&mut schedule), ["a/old-3", "a/new-1"]);
}

#[test]
fn the_last_places_are_for_groups_that_hold_none() {
    let mut schedule = with(&["a/1", "a/2", "a/3", "b/1", "b/2", "b/3"]);
    assert_eq!(taken(&mut schedule).len(), 6, "as many as are not reserved");
    schedule.push(&key("c/1"), STARTS, at(0));
    schedule.push(&key("c/2"), STARTS, at(0));
    assert_eq!(taken(&mut schedule), ["c/1"]);
    schedule.push(&key("d/1"), STARTS, at(0));
    assert_eq!(taken(&mut schedule), ["d/1"]);
    schedule.push(&key("e/1"), STARTS, at(0));
    assert_eq!(taken(&mut schedule), [""; 0], "there is no place left at all");
    schedule.done(&key("d/1"), CHANGE, STARTS, at(0));
    assert_eq!(taken(&mut schedule), ["e/1"]);
}

#[test]
fn none_is_reconciled_twice_at_the_same_time_and_no_change_is_lost() {
    let mut schedule = with(&["a/1"]);
    assert_eq!(taken(&mut schedule), ["a/1"]);
    schedule.push(&key("a/1"), STARTS, at(1));
    schedule.push(&key("a/1"), STARTS, at(1));
    assert_eq!(schedule.waiting(), 1);
    assert_eq!(taken(&mut schedule), [""; 0]);
    schedule.done(&key("a/1"), after(60), STARTS, at(2));
    assert_eq!(schedule.next_due(), None, "what waits needs no timer");
    assert_eq!(taken(&mut schedule), ["a/1"]);
    schedule.done(&key("a/1"), CHANGE, STARTS, at(3));
    assert_eq!((schedule.waiting(), schedule.entries.len()), (0, 0), "nothing is kept");
    assert!(schedule.groups.is_empty() && schedule.turns.is_empty());
}

#[test]
fn a_timer_gives_way_to_an_earlier_time_and_to_an_event() {
    let mut schedule = with(&["a/1"]);
    taken(&mut schedule);
    schedule.done(&key("a/1"), after(60), STARTS, at(0));
    assert_eq!(schedule.next_due(), Some(at(60)));
    schedule.wake(at(59));
    assert_eq!(taken(&mut schedule), [""; 0]);
    schedule.push(&key("a/1"), STARTS, at(59));
    assert_eq!((taken(&mut schedule), schedule.next_due()), (vec!["a/1".to_owned()], None));
    schedule.done(&key("a/1"), after(11), STARTS, at(59));
    schedule.wake(at(70));
    assert_eq!(taken(&mut schedule), ["a/1"]);
}

#[test]
fn a_push_tells_whether_something_new_waits_or_is_due_earlier() {
    let one = key("a/1");
    let mut schedule = with(&[]);
    let is_news = |schedule: &mut Schedule, second: u64| schedule.push(&one, STARTS, at(second));
    assert!(is_news(&mut schedule, 0));
    assert!(!is_news(&mut schedule, 0), "it waits already");
    taken(&mut schedule);
    assert!(!is_news(&mut schedule, 1), "it is being reconciled");
    assert!(!is_news(&mut schedule, 1), "it is reconciled again anyway");
    schedule.done(&one, CHANGE, STARTS, at(1));
    assert!(!is_news(&mut schedule, 2), "it waits since the end of its reconcile");
    assert_eq!(taken(&mut schedule), ["a/1"]);
    schedule.done(&one, Ended { cool_down: at(5), ..after(60) }, STARTS, at(2));
    assert!(is_news(&mut schedule, 3), "it is due when it has rested");
    assert_eq!(schedule.next_due(), Some(at(7)));
    assert!(!is_news(&mut schedule, 4), "it is due no earlier");
    schedule.wake(at(7));
    assert!(!is_news(&mut schedule, 7), "its time has come");
    assert_eq!(taken(&mut schedule), ["a/1"]);
    schedule.done(&one, after(60), STARTS, at(8));
    assert!(is_news(&mut schedule, 9), "it does not wait for its timer");
    assert_eq!(taken(&mut schedule), ["a/1"]);
}

#[test]
fn what_must_pause_pauses_whatever_happens() {
    let pause = Ended { requeue: Requeue::NotBefore(at(29)), yields: true, ..CHANGE };
    for happens in [false, true] {
        let mut schedule = with(&["a/1"]);
        taken(&mut schedule);
        if happens {
            schedule.push(&key("a/1"), STARTS, at(1));
        }
        schedule.done(&key("a/1"), pause, STARTS, at(1));
        schedule.push(&key("a/1"), STARTS, at(2));
        schedule.wake(at(29));
        assert_eq!(taken(&mut schedule), [""; 0], "{happens}");
        schedule.wake(at(30));
        assert_eq!(taken(&mut schedule), ["a/1"], "{happens}");
    }
}

#[test]
fn another_of_the_name_of_one_that_is_gone_pauses_for_a_moment() {
    let mut schedule = with(&["a/1"]);
    taken(&mut schedule);
    let pause = Ended { requeue: Requeue::NotBefore(at(300)), yields: true, ..CHANGE };
    schedule.done(&key("a/1"), pause, STARTS, at(0));
    schedule.forget(&key("a/1"), at(10));
    schedule.push(&key("a/1"), STARTS, at(10));
    assert_eq!((taken(&mut schedule), schedule.next_due()), (vec![], Some(at(11))));
    schedule.wake(at(11));
    assert_eq!(taken(&mut schedule), ["a/1"]);
    schedule.done(&key("a/1"), CHANGE, STARTS, at(11));
    schedule.forget(&key("a/1"), at(11));
    assert_eq!((schedule.entries.len(), schedule.next_due()), (0, None));
}

#[test]
fn what_happens_during_a_rest_leads_to_one_reconcile_after_it() {
    for (ended, want) in [(CHANGE, at(3)), (after(1), at(2)), (after(8), at(3))] {
        for happens_before in [false, true] {
            let mut schedule = with(&["a/1"]);
            taken(&mut schedule);
            if happens_before {
                schedule.push(&key("a/1"), STARTS, at(0));
            }
            schedule.done(&key("a/1"), Ended { cool_down: at(2), ..ended }, STARTS, at(1));
            schedule.push(&key("a/1"), STARTS, at(1));
            schedule.push(&key("a/1"), STARTS, at(2));
            assert_eq!((taken(&mut schedule), schedule.next_due()), (vec![], Some(want)));
            schedule.wake(want);
            assert_eq!(taken(&mut schedule), ["a/1"], "{ended:?}");
            schedule.done(&key("a/1"), CHANGE, STARTS, want);
            assert_eq!((schedule.next_due(), schedule.entries.len()), (None, 0));
        }
    }
}

/// The reconcile that removes the finalizer ends before the watch shows that the AppWrapper is gone.
#[test]
fn an_appwrapper_that_goes_leaves_no_entry() {
    let mut schedule = Schedule::new(PLACES);
    for number in 0..1000 {
        let key = key(&format!("a/{number}"));
        schedule.push(&key, STARTS, at(0));
        schedule.wake(at(0));
        assert_eq!(schedule.take(), Some(key.clone()));
        schedule.done(&key, Ended { cool_down: at(1), ..CHANGE }, STARTS, at(0));
        schedule.push(&key, STARTS, at(0)); // it is gone
    }
    schedule.wake(at(1));
    while let Some(key) = schedule.take() {
        schedule.done(&key, CHANGE, STARTS, at(1));
    }
    assert_eq!((schedule.entries.len(), schedule.groups.len()), (0, 0));
}

#[test]
fn what_fails_falls_behind_in_its_group_and_still_has_its_turn() {
    let mut schedule = Schedule::new(Places { per_namespace: both(1), ..PLACES });
    schedule.push(&key("a/bad"), STARTS, at(0));
    taken(&mut schedule);
    let failed = Ended { yields: true, ..after(1) };
    schedule.done(&key("a/bad"), failed, STARTS, at(0));
    schedule.wake(at(1));
    for name in ["a/1", "a/2", "a/3", "a/4", "a/5"] {
        schedule.push(&key(name), STARTS, at(1));
    }
    let mut order = vec![];
    while let Some(next) = schedule.take() {
        order.push(next.name.clone());
        schedule.done(&next, CHANGE, STARTS, at(2));
    }
    assert_eq!(order, ["1", "2", "3", "bad", "4", "5"]);
}

/// A step of a run.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push(usize, usize),
    Take,
    /// One of those under way ends: again after so long, or not before, how long it rests, and whether it yields.
    Done(usize, Option<(u64, bool)>, u64, bool),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..6_usize, 0..8_usize).prop_map(|(namespace, name)| Step::Push(namespace, name)),
        4 => Just(Step::Take),
        3 => (0..8_usize, prop::option::of((0..9_u64, any::<bool>())), 0..3_u64, any::<bool>())
            .prop_map(|(one, again, cool_down, yields)| Step::Done(one, again, cool_down, yields)),
        1 => (0..5_u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..300)
}

/// Every other AppWrapper of a namespace has started.
fn group_of(key: &Key) -> Group {
    let has_started = key.name.parse::<usize>().is_ok_and(|number| number % 2 == 1);
    (key.namespace.clone(), if has_started { Stage::Started } else { Stage::Starting })
}

/// A schedule, and what it must know: the reference is a plain list of what is owed.
struct Run {
    schedule: Schedule,
    now: Duration,
    running: Vec<Key>,
    /// Since it was last taken, something happened to it, or its time has come or will come.
    owed: BTreeSet<Key>,
    /// When a reconcile of each namespace began last.
    begun: BTreeMap<String, Duration>,
    /// Reconciles of other groups, since a group that waits and has a place was last served.
    passed_over: BTreeMap<Group, BTreeMap<Group, usize>>,
}

impl Run {
    fn new() -> Self {
        Self {
            schedule: Schedule::new(SHARED),
            now: at(0),
            begun: BTreeMap::new(),
            running: vec![],
            owed: BTreeSet::new(),
            passed_over: BTreeMap::new(),
        }
    }

    fn take(&mut self) -> Result<bool, TestCaseError> {
        let Some(key) = self.schedule.take() else { return Ok(false) };
        prop_assert!(!self.running.contains(&key), "{key:?} runs twice at the same time");
        prop_assert!(self.owed.remove(&key), "{key:?} was not asked for");
        self.running.push(key.clone());
        let group = group_of(&key);
        let held = self.running.iter().filter(|other| group_of(other) == group).count();
        let most = PLACES.per_namespace.starting;
        prop_assert!(held <= most && self.running.len() <= PLACES.total);
        let is_active = |(name, begun): (&String, &Duration)| {
            *name != key.namespace && self.now.saturating_sub(*begun) <= ACTIVE_FOR
        };
        let is_shared = self.begun.iter().any(is_active);
        prop_assert!(
            held <= SHARED.shared.starting || !is_shared,
            "it holds {held}, and is not alone"
        );
        self.begun.insert(key.namespace.clone(), self.now);
        let spare = PLACES.total - PLACES.reserved;
        prop_assert!(held == 1 || self.running.len() <= spare, "a reserved place was taken");
        self.passed_over.remove(&group);
        for (name, waiting) in &self.schedule.groups {
            let could = waiting.waits() && waiting.running == 0;
            if !could || *name == group {
                self.passed_over.remove(name);
                continue;
            }
            let others = self.passed_over.entry(name.clone()).or_default();
            let count = others.entry(group.clone()).or_default();
            *count += 1;
            prop_assert!(*count <= 1, "{group:?} was served twice before {name:?}");
        }
        Ok(true)
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Push(namespace, name) => {
                let key = key(&format!("{namespace}/{name}"));
                self.schedule.push(&key, group_of(&key).1, self.now);
                self.owed.insert(key);
            }
            Step::Take => drop(self.take()?),
            Step::Done(one, again, cool_down, yields) => {
                if self.running.is_empty() {
                    return Ok(());
                }
                let key = self.running.remove(one % self.running.len());
                let requeue = match again {
                    None => Requeue::OnChange,
                    Some((seconds, false)) => Requeue::After(at(seconds)),
                    Some((seconds, true)) => Requeue::NotBefore(at(seconds)),
                };
                let ended = Ended { requeue, cool_down: at(cool_down), yields };
                self.schedule.done(&key, ended, group_of(&key).1, self.now);
                if again.is_some() {
                    self.owed.insert(key);
                }
            }
            Step::Pass(seconds) => {
                self.now += at(seconds);
                self.schedule.wake(self.now);
            }
        }
        let again = self.running.iter().filter(|key| self.owed.contains(*key)).count();
        let counted = self.schedule.turns.len();
        prop_assert!(counted <= self.schedule.groups.len(), "a group has two turns");
        prop_assert!(self.schedule.waiting() >= again);
        Ok(())
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_doubled_or_passed_over_twice(steps in steps()) {
        let mut run = Run::new();
        for step in steps {
            run.step(step)?;
        }
        // everything ends, and time passes: what is owed is served
        for _ in 0..200 {
            while run.take()? {}
            for key in std::mem::take(&mut run.running) {
                run.schedule.done(&key, CHANGE, group_of(&key).1, run.now);
            }
            run.now += at(1);
            run.schedule.wake(run.now);
        }
        prop_assert!(run.owed.is_empty(), "never served: {:?}", run.owed);
        prop_assert_eq!(run.schedule.waiting(), 0);
        prop_assert!(run.schedule.groups.is_empty() && run.schedule.turns.is_empty());
    }
}
