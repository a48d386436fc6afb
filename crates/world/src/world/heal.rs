//! Faults that strike anything but a call; and the end of all faults.

use std::time::Duration;

use super::actors::nodes;
use super::checks::hostile;
use super::checks::liveness::{self, EndScope};
use super::coverage::Covered;
use super::faults::Fault;
use super::{Source, World};

/// Steps in which everything must come to rest once nothing goes wrong any more: a hundred uncounted restarts, each of
/// a `JobSet` that restarts its Jobs, take 150,000.
const REST_STEPS: u64 = 250_000;
/// Steps without a call of a controller after which it is at rest, whatever others do.
const QUIET_STEPS: u64 = 10_000;
/// A step, on an average: what the adversary has made endless goes on no faster.
const SLOW_STEP: Duration = Duration::from_millis(400);
/// And the time: longer than the longest period, a week.
const REST_TIME: Duration = Duration::from_hours(24 * 30);

impl World {
    /// Perhaps something goes wrong.
    pub(super) fn strike(&mut self) {
        if self.fault_rng.below(10_000) >= self.weights.other_faults as usize {
            return;
        }
        let choices = [
            Fault::Lag,
            Fault::Relist,
            Fault::Stale,
            Fault::Repeat,
            Fault::Clock,
            Fault::Outage,
            Fault::Leader,
            Fault::Crash,
        ];
        let fault = *self.fault_rng.pick(&choices);
        let replica = self.fault_rng.below(self.replicas.len());
        let stream = self.fault_rng.below(self.replicas[replica].streams.len());
        if !self.may_strike(fault) {
            return;
        }
        match fault {
            Fault::Lag => {
                let wait = Duration::from_millis(self.fault_rng.between(10, 20_000));
                self.replicas[replica].streams[stream].lags_until = self.elapsed + wait;
                self.happened(Covered::WatchLags);
            }
            Fault::Relist => {
                self.replicas[replica].streams[stream].relist = true;
                self.happened(Covered::WatchRestarts);
            }
            Fault::Stale => {
                self.go_back(replica, stream);
                self.happened(Covered::WatchGoesBack);
            }
            Fault::Repeat => {
                let back = self.fault_rng.below(6);
                let stream = &mut self.replicas[replica].streams[stream];
                stream.at = stream.at.map(|at| at.saturating_sub(back));
                self.happened(Covered::WatchRepeats);
            }
            Fault::Clock => {
                let seconds = self.fault_rng.between(0, 2 * 86_400);
                let seconds = i64::try_from(seconds).unwrap_or(0) - 86_400;
                self.replicas[replica].clock.jump(seconds);
                self.happened(Covered::ClockJumps);
            }
            Fault::Outage => {
                let wait = Duration::from_millis(self.fault_rng.between(100, 120_000));
                self.outage_until = self.elapsed + wait;
                self.happened(Covered::Outage);
            }
            Fault::Leader => self.take_over(replica),
            _ => self.crash(replica),
        }
    }

    /// A process dies, and starts again.
    pub(super) fn crash(&mut self, index: usize) {
        // what it has just written was dated by its clock
        self.note_skew();
        self.happened(Covered::Crash);
        let leads = self.replicas[index].leads && self.replicas[index].doubts.is_none();
        self.replicas[index] = self.new_replica(leads);
        self.oracle.lose_sight(&self.store, self.elapsed);
    }

    /// The process stands still, and another leads; later it goes on, and does not know.
    pub(super) fn take_over(&mut self, index: usize) {
        if self.replicas[index].doubts.is_some() || !self.replicas[index].leads {
            return;
        }
        self.happened(Covered::TwoLeaders);
        let pause = Duration::from_millis(self.fault_rng.between(0, 40_000));
        let moves = u32::try_from(self.fault_rng.between(0, 30)).unwrap_or(0);
        let old = &mut self.replicas[index];
        old.frozen_until = self.elapsed + pause;
        old.doubts = Some(moves);
        // what is under way is written with the time of its decision
        for key in old.flights.keys() {
            let written = self.oracle.wrappers.values_mut().filter(|wrapper| wrapper.is_of(key));
            written.for_each(|wrapper| wrapper.note_skew(pause));
        }
        if self.replicas.len() == 1 {
            let new = self.new_replica(true);
            self.replicas.push(new);
            return;
        }
        let other = 1 - index;
        if self.replicas[other].doubts.is_some() {
            // who has lost the lease once has ended, and another process leads
            self.replicas[other] = self.new_replica(true);
        }
        let elapsed = self.elapsed;
        let new = &mut self.replicas[other];
        new.leads = true;
        new.frozen_until = elapsed;
        new.push_known(elapsed);
    }

    /// A process that has been replaced notices, sooner or later, and ends.
    pub(super) fn grow_doubt(&mut self, index: usize) {
        let Some(replica) = self.replicas.get_mut(index) else { return };
        let Some(left) = replica.doubts else { return };
        if left > 0 {
            replica.doubts = Some(left - 1);
        } else {
            self.note_skew();
            self.replicas[index] = self.new_replica(false);
        }
    }

    /// From here on nothing goes wrong.
    pub(super) fn heal(&mut self) {
        self.trace.note(self.elapsed, "heal", "", &[]);
        self.faults_on = false;
        self.outage_until = Duration::ZERO;
        self.closed = false;
        self.serve_kind("", "", true);
        let nodes: Vec<String> = self
            .store
            .kinds
            .by_name("v1", "Node")
            .map(|kind| self.store.all(kind).map(|node| node.address.name.to_string()).collect())
            .unwrap_or_default();
        if nodes.is_empty() {
            self.add_node("node-1", 16);
        }
        for node in nodes {
            nodes::set_node(&mut self.store, &node, None);
            nodes::set_out_of_service(&mut self.store, &node, false);
            self.deed_mark(&node);
        }
        if self.kueue.shows_workloads {
            self.enlarge_nodes();
        }
        self.retreat();
        self.release_all();
        self.relabel_all();
        let (kubelets, _, mut env) = self.actors();
        kubelets.heal(&mut env);
        self.absorb(Source::Others);
        for index in 0..self.replicas.len() {
            if self.replicas[index].doubts.is_some() {
                self.replicas[index] = self.new_replica(false);
            }
            let replica = &mut self.replicas[index];
            replica.frozen_until = Duration::ZERO;
            replica.clock.set(super::moment(self.elapsed));
            for stream in &mut replica.streams {
                stream.lags_until = Duration::ZERO;
                stream.relist = true;
            }
        }
    }

    /// What Kueue admits fits from now on.
    fn enlarge_nodes(&mut self) {
        let Some(kind) = self.store.kinds.by_name("v1", "Node") else { return };
        let nodes: Vec<_> = self.store.all(kind).map(|node| node.address.clone()).collect();
        for node in nodes {
            self.store.change(&node, crate::sim::Part::Status, |node| {
                node["status"]["allocatable"]["pods"] = "16".into();
            });
        }
    }

    fn deed_mark(&mut self, node: &str) {
        let Some(kind) = self.store.kinds.by_name("v1", "Node") else { return };
        let address = crate::sim::Address::new(kind, "", node);
        self.store.change(&address, crate::sim::Part::Whole, |node| {
            if node["metadata"]["labels"]["health"] == "EVICT" {
                node["metadata"]["labels"]["health"] = "OK".into();
            }
        });
    }

    /// Goes on until nothing is left to do, then looks at everything once more.
    pub(super) async fn come_to_rest(&mut self) {
        let begun = (self.trace.steps, self.elapsed);
        let mut rested = self.settle().await;
        while rested && self.delete_undetermined() {
            rested = self.settle().await;
        }
        let version = self.store.version();
        let elapsed = self.elapsed;
        for replica in &mut self.replicas {
            if replica.leads {
                replica.push_known(elapsed);
            }
        }
        let rested = self.settle().await && rested;
        // An operator that tries for ever to make what the adversary has made impossible, or a queue that admits
        // for ever what can never run: no end to judge.
        let quiet = self.trace.steps.saturating_sub(self.last_call) > QUIET_STEPS;
        let steps = u32::try_from(self.trace.steps - begun.0).unwrap_or(u32::MAX);
        let slow = self.elapsed.saturating_sub(begun.1) > SLOW_STEP * steps;
        let endless = !rested && (quiet || slow) && self.adversary.is_some();
        if self.violation.is_some() {
            return;
        }
        let Some(leader) = self.replicas.iter().find(|replica| replica.leads) else { return };
        let scope = EndScope {
            store: &self.store,
            oracle: &self.oracle,
            kueue: &self.kueue,
            leader,
            rest: (version, self.store.version()),
            elapsed: self.elapsed,
            rested,
        };
        let found = if endless {
            hostile::check_endless(&scope)
        } else {
            self.coverage.checks += liveness::LIVENESS.len() as u64;
            liveness::check(&scope)
        };
        if let Some(violation) = found {
            self.violated(violation);
        }
    }

    async fn settle(&mut self) -> bool {
        let (steps, time) = (self.trace.steps + REST_STEPS, self.elapsed + REST_TIME);
        while self.violation.is_none() {
            if self.trace.steps > steps || self.elapsed > time {
                return self.is_over();
            }
            if !self.step().await {
                return true;
            }
        }
        true
    }
}
