//! What holds whatever the order: several replicas, each in the middle of something, that die, that see
//! things late; API servers that see the bundles late; an administrator who resets them.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const HOST: &str = "a.b.svc";
const REPLICAS: usize = 3;
/// The longest time between two moments, in seconds: nothing that is on its way takes longer, and no replica
/// or API server is behind by more than two of them.
const TICK: i64 = 120;

/// A part of the story.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A replica does one thing: reads, plans, or writes.
    Step(usize),
    /// A replica ends, and begins anew.
    Crash(usize),
    /// Somebody resets the CA bundle of a configuration.
    Reset(usize),
    /// Time passes.
    Tick(i64),
}

fn events(resets: bool) -> impl Strategy<Value = Vec<Event>> {
    let resets = u32::from(resets);
    let event = prop_oneof![
        24 => (0..REPLICAS).prop_map(Event::Step),
        2 => (0..REPLICAS).prop_map(Event::Crash),
        resets => (0..2_usize).prop_map(Event::Reset),
        8 => (1..=TICK).prop_map(Event::Tick),
    ];
    vec(event, 2000)
}

#[derive(Clone, Debug)]
struct Versioned<T> {
    value: T,
    version: u32,
}

impl<T> Versioned<T> {
    /// A guarded write; whether it was let through.
    fn write(&mut self, read: u32, value: T) -> bool {
        let is_guarded = self.version == read;
        if is_guarded {
            (self.value, self.version) = (value, read + 1);
        }
        is_guarded
    }
}

type Bundle = Versioned<Option<String>>;

/// How far a replica is.
#[derive(Clone, Debug, Default)]
enum Stage {
    #[default]
    Begin,
    /// It has read the configurations.
    Read([Bundle; 2]),
    /// It is about to change the Secret.
    Changing(u32, Box<Certificates>, Change, i64),
    /// It is about to write these bundles, where they differ.
    Trusting([Bundle; 2], usize, String),
}

struct World {
    now: i64,
    secret: Versioned<Data>,
    bundles: [Bundle; 2],
    /// Every value of each configuration, with the second in which it began.
    history: [Vec<(i64, Option<String>)>; 2],
    replicas: [(Option<Served>, Stage); REPLICAS],
    read: BTreeMap<Data, Certificates>,
    promoted: u32,
}

impl World {
    fn new() -> Self {
        let nothing = Versioned { value: None, version: 0 };
        Self {
            now: 0,
            secret: Versioned { value: Data::new(), version: 0 },
            bundles: [nothing.clone(), nothing],
            history: [vec![(0, None)], vec![(0, None)]],
            replicas: Default::default(),
            read: BTreeMap::new(),
            promoted: 0,
        }
    }

    fn stored(&mut self) -> Certificates {
        let data = &self.secret.value;
        if let Some(known) = self.read.get(data) {
            return known.clone();
        }
        let stored = Certificates::read(data);
        self.read.insert(data.clone(), stored.clone());
        stored
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Step(replica) => self.step(replica),
            Event::Crash(replica) => self.replicas[replica] = (None, Stage::Begin),
            Event::Reset(which) => {
                let version = self.bundles[which].version;
                self.write_bundle(which, version, None);
            }
            Event::Tick(seconds) => {
                // everybody has seen by now what the Secret was at the tick before
                let current = self.stored().current;
                for (serves, stage) in &mut self.replicas {
                    serves.clone_from(&current);
                    // what has been on its way for longer than a moment has timed out
                    *stage = Stage::Begin;
                }
                // somebody does what is to be done; the others still serve what they did
                let looks = usize::try_from(self.now).unwrap() % REPLICAS;
                while !self.is_at_rest(looks) {
                    self.step(looks);
                }
                self.now += seconds;
            }
        }
        self.check();
    }

    /// Whether a replica that begins finds nothing to do.
    fn is_at_rest(&mut self, replica: usize) -> bool {
        let stored = self.stored();
        let plan = self.plan(&stored, &self.bundles);
        matches!(self.replicas[replica].1, Stage::Begin)
            && plan.change.is_none()
            && self.bundles.iter().all(|bundle| bundle.value == plan.bundle)
    }

    fn plan<'a>(&self, stored: &'a Certificates, read: &[Bundle; 2]) -> Rotation<'a> {
        let bundles = read.iter().map(|bundle| bundle.value.clone()).collect();
        let faced = WebhookState { names: names(&[HOST]), bundles };
        plan(stored, true, &faced, at(self.now), lifetimes())
    }

    fn step(&mut self, replica: usize) {
        let stage = std::mem::take(&mut self.replicas[replica].1);
        self.replicas[replica].1 = match stage {
            Stage::Begin => Stage::Read(self.bundles.clone()),
            Stage::Read(read) => {
                let stored = self.stored();
                let plan = self.plan(&stored, &read);
                self.replicas[replica].0 = plan.serve.cloned();
                match (plan.change, plan.bundle) {
                    (Some(change), _) => {
                        let stored = Box::new(stored.clone());
                        Stage::Changing(self.secret.version, stored, change, self.now)
                    }
                    (None, Some(bundle)) => Stage::Trusting(read, 0, bundle),
                    (None, None) => Stage::Begin,
                }
            }
            Stage::Changing(version, stored, change, planned) => {
                self.change(version, *stored, change, planned);
                Stage::Begin
            }
            Stage::Trusting(read, which, bundle) => {
                if read[which].value.as_ref() != Some(&bundle) {
                    self.write_bundle(which, read[which].version, Some(bundle.clone()));
                }
                if which == 0 { Stage::Trusting(read, 1, bundle) } else { Stage::Begin }
            }
        };
    }

    fn change(&mut self, version: u32, mut stored: Certificates, change: Change, planned: i64) {
        let make = || Generation::make(&names(&[HOST]), lifetimes().valid(at(planned)));
        let before = stored.current.as_ref().map(Served::until);
        change.apply(&mut stored, at(planned), make).unwrap();
        let mut data = self.secret.value.clone();
        stored.write(&mut data);
        if self.secret.write(version, data) && change == Change::Promote {
            self.promoted += 1;
            // in the last moment nothing is waited for
            if before.is_some_and(|until| at(planned) < lifetimes().last_moment(until)) {
                self.check_promotion(&stored);
            }
        }
    }

    fn write_bundle(&mut self, which: usize, version: u32, value: Option<String>) {
        if self.bundles[which].write(version, value.clone()) {
            self.history[which].push((self.now, value));
        }
    }

    /// What a configuration held at some time of the last `span` seconds, and for more than no time. What it
    /// holds now it holds until `end`.
    fn held(&self, which: usize, span: i64, end: i64) -> impl Iterator<Item = &Option<String>> {
        let values = &self.history[which];
        let ends = values.iter().skip(1).map(|(begin, _)| *begin).chain([end]);
        let since = self.now - span;
        values
            .iter()
            .zip(ends)
            .filter_map(move |((begin, value), end)| (end > since && *begin < end).then_some(value))
    }

    /// What comes into use has been trusted for the overlap, but for what was on its way.
    fn check_promotion(&self, stored: &Certificates) {
        let authority = &stored.current.as_ref().unwrap().texts().authority;
        for which in 0..2 {
            // a reset in the same moment cannot be seen: no write is guarded by two objects
            for value in self.held(which, OVERLAP - TICK, self.now) {
                let holds = value.as_ref().is_some_and(|bundle| bundle.contains(authority));
                assert!(holds, "at {} configuration {which} has not held it for long", self.now);
            }
        }
    }

    /// Whoever calls a replica, with whatever bundle of late, trusts it; and it has not expired.
    fn check(&self) {
        for (serves, _) in &self.replicas {
            let Some(served) = serves else { continue };
            assert!(served.until() > at(self.now), "expired at {}", self.now);
            for which in 0..2 {
                // nothing is trusted before the first certificate, and after a reset
                for bundle in self.held(which, 2 * TICK, i64::MAX).flatten() {
                    let holds = bundle.contains(&served.texts().authority);
                    assert!(holds, "at {} configuration {which} does not trust it", self.now);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whoever_calls_trusts_what_is_served(events in events(false)) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
        }
        prop_assert!(world.promoted >= 2, "{} in {} s", world.promoted, world.now);
    }

    /// An administrator whose tool resets the bundles: what is new waits anew each time, and comes into use
    /// in the end.
    #[test]
    fn a_reset_of_the_bundles_makes_nothing_worse(events in events(true)) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
        }
    }
}
