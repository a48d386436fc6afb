//! One step: what can happen now, and which of it does.

use std::time::Duration;

use super::actors::kueue::Outcome;
use super::actors::{Task, batch, nodes, operators};
use super::checks;
use super::coverage::Covered;
use super::faults::Fault;
use super::judged::Judged;
use super::replica::{Landed, Topic, state_at};
use super::rng::Rng;
use super::{Options, Source, Weights, World};
use crate::observe::cache::Key;
use crate::reconcile::Next;
use crate::sim::Address;

/// Something that can happen now.
#[derive(Clone, Copy, Debug)]
enum Step<K> {
    Deliver(usize, usize),
    Serve(usize, K),
    Resume(usize, K),
    Begin(usize, K),
    Act,
    Collect,
    Late(usize),
}

impl Step<&Key> {
    fn owned(self) -> Step<Key> {
        match self {
            Self::Deliver(replica, stream) => Step::Deliver(replica, stream),
            Self::Serve(replica, key) => Step::Serve(replica, key.clone()),
            Self::Resume(replica, key) => Step::Resume(replica, key.clone()),
            Self::Begin(replica, key) => Step::Begin(replica, key.clone()),
            Self::Act => Step::Act,
            Self::Collect => Step::Collect,
            Self::Late(index) => Step::Late(index),
        }
    }
}

impl Weights {
    pub(super) fn random(rng: &mut Rng, options: &Options) -> Self {
        let mut one = || 1 + rng.below(8);
        let (deliver, serve, begin, act, collect) = (one(), one(), one(), one(), one());
        let harm = !options.faults.0.is_empty();
        Self {
            deliver,
            serve,
            begin,
            act,
            collect,
            call_faults: if harm { *rng.pick(&[0, 10, 30, 100]) } else { 0 },
            other_faults: if harm { *rng.pick(&[0, 20, 60, 150]) } else { 0 },
        }
    }
}

impl World {
    /// Whether nothing is left to happen, now or later.
    pub(super) fn is_over(&self) -> bool {
        self.is_idle() && self.next_moment().is_none()
    }

    /// Whether nothing can happen before time passes.
    pub(super) fn is_idle(&self) -> bool {
        let mut is_idle = true;
        self.each_possible(|_, _| is_idle = false);
        is_idle
    }

    /// Makes one step; false where nothing is left to happen.
    pub(super) async fn step(&mut self) -> bool {
        let next = self.choose();
        if next.is_none() && self.next_moment().is_none() {
            return false;
        }
        self.trace.steps += 1;
        match next {
            None => self.wait(),
            Some(step) => {
                if self.faults_on {
                    self.strike();
                }
                // a strike may have taken away what was possible
                self.take(step).await;
                let pass = Duration::from_millis(self.chance.between(0, 8));
                self.pass(pass);
            }
        }
        self.film();
        true
    }

    /// Shows everything that can happen now, with its weight.
    fn each_possible<'a>(&'a self, mut show: impl FnMut(Step<&'a Key>, usize)) {
        let weights = &self.weights;
        for (index, replica) in self.replicas.iter().enumerate() {
            if replica.frozen_until > self.elapsed {
                continue;
            }
            for (number, stream) in replica.streams.iter().enumerate() {
                let waits = stream.lags_until > self.elapsed;
                let behind = match (stream.log, stream.at) {
                    (Some(log), Some(at)) => stream.relist || self.logs[log].told.len() > at,
                    (_, None) | (None, _) => true,
                };
                if behind && !waits {
                    show(Step::Deliver(index, number), weights.deliver);
                }
            }
            for (key, flight) in &replica.flights {
                if flight.call.is_some() {
                    show(Step::Serve(index, key), weights.serve);
                } else if !flight.waits_for_another() {
                    show(Step::Resume(index, key), weights.serve);
                }
            }
            // AppWrappers and pods, as the controller does it
            let listed = replica.streams.iter().take(2).all(|stream| stream.at.is_some());
            if replica.leads && listed {
                for (key, at) in &replica.due {
                    if *at <= self.elapsed && !replica.flights.contains_key(key) {
                        show(Step::Begin(index, key), weights.begin);
                    }
                }
            }
        }
        for (index, late) in self.late.iter().enumerate() {
            if late.at <= self.elapsed {
                show(Step::Late(index), 1);
            }
        }
        if !self.agenda.is_empty() {
            show(Step::Act, weights.act * self.agenda.len().min(4));
        }
        if !self.garbage.is_empty() {
            show(Step::Collect, weights.collect * self.garbage.len().min(4));
        }
    }

    /// One of what can happen now.
    fn choose(&mut self) -> Option<Step<Key>> {
        let mut total = 0;
        self.each_possible(|_, weight| total += weight);
        if total == 0 {
            return None;
        }
        let mut left = self.chance.below(total);
        let mut chosen = None;
        self.each_possible(|step, weight| {
            if chosen.is_none() && left < weight {
                chosen = Some(step);
            }
            left = left.saturating_sub(weight);
        });
        chosen.map(Step::owned)
    }

    async fn take(&mut self, step: Step<Key>) {
        match step {
            Step::Deliver(replica, stream) => self.deliver(replica, stream),
            Step::Serve(replica, key) => self.serve(replica, &key).await,
            Step::Resume(replica, key) => {
                self.drive(replica, &key).await;
                self.grow_doubt(replica);
            }
            Step::Begin(replica, key) => self.begin(replica, &key).await,
            Step::Act => {
                let n = self.chance.below(self.agenda.len());
                if let Some(task) = self.agenda.take(n) {
                    self.act(&task);
                }
            }
            Step::Collect => {
                let n = self.chance.below(self.garbage.len());
                self.garbage.collect(&mut self.store, n);
                self.trace.note(self.elapsed, "collect", "", &[n as u64]);
                self.absorb(Source::Others);
            }
            Step::Late(index) => self.carry_out_late(index),
        }
    }

    /// The next moment at which something happens by itself.
    pub(super) fn next_moment(&self) -> Option<Duration> {
        let leaders = self.replicas.iter().filter(|replica| replica.leads);
        let dues = leaders.flat_map(|replica| replica.due.values().copied());
        let lags = self.replicas.iter().flat_map(|replica| {
            replica.streams.iter().map(|stream| stream.lags_until).chain([replica.frozen_until])
        });
        let late = self.late.iter().map(|late| late.at);
        let all = self.agenda.next().into_iter().chain(dues).chain(lags).chain(late);
        all.filter(|moment| *moment > self.elapsed).min()
    }

    /// Nothing can happen now: time passes until something can.
    fn wait(&mut self) {
        if let Some(moment) = self.next_moment() {
            self.trace.note(self.elapsed, "wait", "", &[]);
            self.pass(moment.saturating_sub(self.elapsed));
        }
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, by: Duration) {
        self.elapsed += by;
        for replica in &self.replicas {
            replica.clock.advance(by);
        }
        if self.options.faults.has(Fault::Clock) {
            self.note_skew();
        }
        self.store.set_now(super::moment(self.elapsed));
        self.agenda.advance(self.elapsed);
    }

    fn deliver(&mut self, index: usize, number: usize) {
        let Some(stream) = self.replicas[index].streams.get(number) else { return };
        let (at, relist) = (stream.at, stream.relist);
        if let Topic::Kind(kind) = &stream.topic
            && self.scope_of(&stream.topic).is_none()
        {
            let kind = kind.clone();
            self.trace.note(self.elapsed, "blind", &kind.kind, &[index as u64]);
            self.replicas[index].blind(&kind, self.elapsed);
            let stream = &mut self.replicas[index].streams[number];
            stream.at = None;
            stream.lags_until = self.elapsed + Duration::from_secs(2);
            return;
        }
        let elapsed = self.elapsed;
        let Some(log) = self.log_of(index, number) else { return };
        let log = &self.logs[log].told;
        match at {
            Some(at) if !relist => {
                let Some(told) = log.get(at) else { return };
                let address = &told.object.address;
                let replaced =
                    log[at + 1..].iter().take(8).any(|later| later.object.address == *address);
                let skips = replaced
                    && self.faults_on
                    && self.options.faults.has(Fault::Skip)
                    && self.fault_rng.one_in(6);
                self.replicas[index].streams[number].at = Some(at + 1);
                let numbers = [index as u64, number as u64, told.object.version];
                if skips {
                    self.trace.note(elapsed, "skip", &address.name, &numbers);
                    self.coverage.fault(Fault::Skip);
                    self.happened(Covered::WatchSkips);
                    return;
                }
                self.trace.note(elapsed, "deliver", &address.name, &numbers);
                self.replicas[index].tell(number, told, elapsed);
            }
            Some(_) | None => {
                let upto = log.len();
                self.trace.note(elapsed, "list", "", &[index as u64, number as u64, upto as u64]);
                self.replicas[index].list(number, log, upto, elapsed);
            }
        }
    }

    /// A watch lists a state of the past, and goes on from there.
    pub(super) fn go_back(&mut self, index: usize, number: usize) {
        let Some(log) = self.replicas[index].streams[number].log else { return };
        let log = &self.logs[log].told;
        let Some(at) = self.replicas[index].streams[number].at else { return };
        let upto = at.saturating_sub(self.fault_rng.below(12));
        debug_assert!(state_at(log, upto).len() <= log.len());
        let elapsed = self.elapsed;
        self.replicas[index].list(number, log, upto, elapsed);
    }

    async fn begin(&mut self, index: usize, key: &Key) {
        let timed = self.replicas[index].timed.remove(key);
        if timed {
            self.happened_to(&key.name, Covered::Deadline);
        }
        self.trace.note(self.elapsed, "look", &key.name, &[index as u64]);
        if self.replicas[index].begin(key) {
            self.drive(index, key).await;
        }
    }

    /// Drives a reconcile to its next call or its end.
    pub(super) async fn drive(&mut self, index: usize, key: &Key) {
        let mut events = vec![];
        let hurt = self.replicas[index].flights.get(key).is_none_or(|flight| flight.hurt);
        let landed = self.replicas[index].drive(key, |notice| events.push(notice)).await;
        for notice in events {
            self.serve_event(notice);
        }
        let elapsed = self.elapsed;
        let replica = &mut self.replicas[index];
        replica.drain_woken(elapsed);
        let judged = replica.drain_judged();
        self.compare(&judged);
        let Some(replica) = self.replicas.get_mut(index) else { return };
        match landed {
            Landed::Waits | Landed::Done(Ok(Next::OnChange)) => {}
            Landed::Done(Ok(Next::After(pause))) => {
                replica.push_later(key.clone(), elapsed + pause);
            }
            Landed::Done(Err(error)) => {
                let errors = crate::reconcile::errors(&replica.context, key);
                let pause = crate::reconcile::error_pause(errors);
                let pause = error.retry_after().map_or(pause, |asked| asked.max(pause));
                replica.push_later(key.clone(), elapsed + pause);
                if !hurt {
                    self.failed_by_itself(key, &error);
                }
                self.trace.detail(|| format!("error: {}", crate::telemetry::chain(&error)));
            }
            Landed::Panicked(text) => self.violated(super::checks::Violation {
                invariant: "S20",
                sentence: "the controller does not panic",
                seen: text,
            }),
        }
    }

    /// What was decided about a failure does not depend on which of its facts came first.
    fn compare(&mut self, judged: &[Judged]) {
        for (key, told) in judged {
            self.coverage.orders += told.len() as u64;
            let is_key = |wrapper: &&super::oracle::Wrapper| {
                let at = &wrapper.address;
                wrapper.sane && *at.name == *key.name && *at.namespace == *key.namespace
            };
            let wrapper = self.oracle.wrappers.values().find(is_key);
            if let Some(violation) = wrapper.and_then(|_| super::checks::meaning::one_verdict(told))
            {
                self.violated(violation);
            }
        }
    }

    /// A look has failed though no call of it did: what a tenant has written must not do that to others.
    fn failed_by_itself(&mut self, key: &Key, error: &crate::reconcile::Error) {
        let is_key = |wrapper: &&super::oracle::Wrapper| {
            let at = &wrapper.address;
            *at.name == *key.name && *at.namespace == *key.namespace
        };
        let wrapper = self.oracle.wrappers.values().find(is_key);
        if self.adversary.is_some() && wrapper.is_some_and(|wrapper| wrapper.sane) {
            self.violated(super::checks::Violation {
                invariant: "S18",
                sentence: "a reconcile of a victim fails only where a call failed",
                seen: format!("{}: {}", key.name, crate::telemetry::chain(error)),
            });
        }
    }

    fn act(&mut self, task: &Task) {
        let elapsed = self.elapsed;
        let (kubelets, kueue, mut env) = self.actors();
        match task {
            Task::Pod(address) => {
                kubelets.pod(&mut env, address);
                batch::release_lost(&mut env, address);
            }
            Task::Node(address) => {
                nodes::notice(env.store, address, elapsed);
                kubelets.node(&mut env, address);
            }
            Task::Job(address) => batch::job(&mut env, address),
            Task::JobSet(address) => batch::job_set(&mut env, address),
            Task::Operator(address) => operators::act(&mut env, address),
            Task::Queue(address) => {
                let (address, outcome) = kueue.act(&mut env, address);
                self.check_eviction(&address, outcome);
                self.check_release(&address, outcome);
                let event = match outcome {
                    Outcome::Admitted => Some(Covered::Admitted),
                    Outcome::Preempted => Some(Covered::Preempted),
                    Outcome::NotReady => Some(Covered::NotReady),
                    Outcome::Deactivated | Outcome::Nothing | Outcome::Released => None,
                };
                if let Some(event) = event {
                    self.trace.detail(|| format!("kueue: {} {outcome:?}", address.name));
                    self.happened_to(&address.name, event);
                }
            }
            Task::Script(index) => self.follow_script(*index),
            Task::Attack => self.attack(),
        }
        let name = match task {
            Task::Pod(at)
            | Task::Node(at)
            | Task::Job(at)
            | Task::JobSet(at)
            | Task::Operator(at)
            | Task::Queue(at) => at.name.clone(),
            Task::Script(_) => "script".into(),
            Task::Attack => "adversary".into(),
        };
        self.trace.note(elapsed, "act", &name, &[self.agenda.len() as u64]);
        self.absorb(Source::Others);
    }

    /// Nothing runs any more where Kueue has freed the quota.
    fn check_release(&mut self, address: &Address, outcome: Outcome) {
        if outcome != Outcome::Released {
            return;
        }
        let Some(object) = self.store.get(address).cloned() else { return };
        let known = self.oracle.wrappers.get(&object.uid).filter(|wrapper| wrapper.sane);
        if let Some(violation) = known.and_then(checks::kueue::released) {
            self.violated(violation);
        }
    }

    /// The deadline that the status shows is not after Kueue's.
    fn check_eviction(&mut self, address: &Address, outcome: Outcome) {
        if outcome != Outcome::NotReady || !self.kueue.shows_workloads {
            return;
        }
        let Some(object) = self.store.get(address).cloned() else { return };
        let wrapper = self.oracle.wrappers.get(&object.uid).filter(|wrapper| wrapper.sane);
        let known = self.kueue.workloads.get(&object.uid);
        let (Some(wrapper), Some(known)) = (wrapper, known) else { return };
        let found = checks::kueue::evicted(
            &object,
            known,
            &self.kueue,
            (self.elapsed, self.slack(Some(wrapper))),
        );
        if let Some(violation) = found {
            self.violated(violation);
        }
    }
}
