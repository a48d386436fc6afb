//! A fleet as it goes on: jobs are submitted, incidents strike, people look after what failed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::plan::{
    CHECKPOINT, Incident, JobPlan, NOTICED_AFTER, POISONED_AFTER, Plan, RESUBMITTED_AFTER,
};
use super::{FleetOptions, FleetReport, GPUS_PER_NODE, LARGE, Policy, real, story};
use crate::decide::usage;
use crate::sim::{Deletion, Object, Part, Verb};
use crate::world::actors::{has_ended, is_true, nodes, phase};
use crate::world::faults::Faults;
use crate::world::scene::Scene;
use crate::world::{NAMESPACE, Options, Source, World, moment};

/// The annotation by which a pod reports.
const PROGRESS: &str = "workload.codeflare.dev/progress";
/// How often a pod reports.
const REPORTED_EVERY: Duration = Duration::from_mins(20);
/// Later than anything.
const NEVER: Duration = Duration::from_hours(24 * 3650);

/// Something that happens at a moment.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A job is submitted, for the first time or again.
    Submit(usize),
    /// Something happens to a node.
    Strike(u64, Incident),
    /// A node is back.
    Repair(u64),
    /// A person looks at a job that hangs in this attempt.
    Notice(usize, u64),
    /// A pod of a job reports, in this attempt.
    Report(usize, u64),
}

/// A job and what became of it.
#[derive(Clone, Debug)]
struct Job {
    plan: JobPlan,
    /// Work that is kept.
    done: Duration,
    /// Since when the pods of its attempt are ready.
    ready_at: Option<Duration>,
    /// Since when it hangs.
    hangs_since: Option<Duration>,
    /// Attempts whose pods were ready.
    attempts: u64,
    /// How often it was submitted.
    submitted: u64,
    /// The last ledger of its AppWrapper.
    usage: Value,
    /// The phase of its AppWrapper.
    phase: String,
    /// What the AppWrapper of this submission reserved is taken down: it has ended.
    settled: bool,
}

impl Job {
    const fn gpus(&self) -> u64 {
        self.plan.nodes * GPUS_PER_NODE
    }
}

/// The world of a fleet.
pub(super) struct Fleet {
    options: FleetOptions,
    policy: Policy,
    world: World,
    seen: usize,
    jobs: Vec<Job>,
    /// Jobs by the names of their AppWrappers.
    names: BTreeMap<Arc<str>, usize>,
    agenda: BTreeMap<(Duration, u64), Event>,
    counted: u64,
    told: Option<usize>,
    report: FleetReport,
}

impl Fleet {
    pub(super) fn new(options: &FleetOptions, plan: Plan, policy: Policy) -> Self {
        let pods = i64::try_from(options.nodes).unwrap_or(i64::MAX / 1000);
        let scene = Scene {
            nodes: (0..options.nodes).map(|node| (node_name(node), 1)).collect(),
            quota: BTreeMap::from([("pods".to_owned(), pods * 1000)]),
            config: policy.config().to_owned(),
            shows_workloads: policy.requeues(),
            ..Scene::default()
        };
        let job = |plan: &JobPlan| Job {
            plan: *plan,
            done: Duration::ZERO,
            ready_at: None,
            hangs_since: None,
            attempts: 0,
            submitted: 0,
            usage: Value::Null,
            phase: String::new(),
            settled: false,
        };
        let mut fleet = Self {
            options: *options,
            policy,
            world: World::of(Options::of(options.seed, Faults::default()), scene),
            seen: 0,
            jobs: plan.jobs.iter().map(job).collect(),
            names: BTreeMap::new(),
            agenda: BTreeMap::new(),
            counted: 0,
            told: plan.told,
            report: FleetReport::default(),
        };
        for (index, job) in plan.jobs.iter().enumerate() {
            fleet.at(job.at, Event::Submit(index));
        }
        for (at, node, incident) in plan.incidents {
            fleet.at(at, Event::Strike(node, incident));
        }
        fleet
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.counted += 1;
        self.agenda.insert((at, self.counted), event);
    }

    /// Goes on until the end.
    pub(super) async fn run(mut self) -> FleetReport {
        while self.world.elapsed < self.options.lasts && self.world.violation.is_none() {
            if self.world.is_idle() {
                let next = self.agenda.keys().next().map(|(at, _)| *at);
                let moments = [self.world.next_moment(), next, Some(self.options.lasts)];
                let next = moments.into_iter().flatten().min().unwrap_or(self.options.lasts);
                self.world.pass(next.saturating_sub(self.world.elapsed));
            } else {
                self.world.step().await;
            }
            self.carry_out();
            self.look();
        }
        self.close()
    }

    /// Does what is due.
    fn carry_out(&mut self) {
        while let Some(entry) = self.agenda.first_entry() {
            if entry.key().0 > self.world.elapsed {
                break;
            }
            match entry.remove() {
                Event::Submit(index) => self.submit(index),
                Event::Strike(node, incident) => self.strike(node, incident),
                Event::Repair(node) => {
                    nodes::set_node(&mut self.world.store, &node_name(node), None);
                }
                Event::Notice(index, attempt) => self.notice(index, attempt),
                Event::Report(index, attempt) => self.send_report(index, attempt),
            }
            self.world.absorb(Source::Others);
        }
    }

    /// Takes down what happened to the job whose story is told.
    fn tell(&mut self, index: usize, text: impl FnOnce() -> String) {
        if self.told == Some(index) {
            self.report.story.push((self.world.elapsed, text()));
        }
    }

    fn submit(&mut self, index: usize) {
        let job = &mut self.jobs[index];
        if job.submitted > 0 {
            self.report.by_hand += 1;
            let old = name(index, job.submitted);
            delete(&mut self.world, &old);
            self.tell(index, || "a person submits it again".to_owned());
        } else {
            self.report.submitted += 1;
            self.tell(index, || "submitted".to_owned());
        }
        let job = &mut self.jobs[index];
        job.settled = false;
        job.submitted += 1;
        let name = name(index, job.submitted);
        let object = self.policy.appwrapper(&name, job.plan.nodes);
        self.names.insert(name.as_str().into(), index);
        self.world.create(object);
    }

    fn strike(&mut self, node: u64, incident: Incident) {
        let node = node_name(node);
        if let Some(index) = self.pod_on(&node).and_then(|pod| self.job_of(&pod)) {
            self.tell(index, || match incident {
                Incident::Crash(_) => format!("{node} crashes"),
                Incident::Gpu => format!("a GPU of {node} fails"),
                Incident::Hang => "it hangs".to_owned(),
            });
        }
        match incident {
            Incident::Crash(repair) => {
                let since = self.world.elapsed;
                nodes::set_node(&mut self.world.store, &node, Some(since));
                let number = node.trim_start_matches("node-").parse().unwrap_or(0);
                self.at(since + repair, Event::Repair(number));
            }
            Incident::Gpu => {
                if let Some(pod) = self.pod_on(&node) {
                    let why = (134, "Error", "CUDA error: uncorrectable ECC error encountered");
                    self.world.end_pod(&pod, self.world.elapsed, why);
                }
            }
            Incident::Hang => {
                let job = self.pod_on(&node).and_then(|pod| self.job_of(&pod));
                if let Some(index) = job {
                    self.hang(index);
                }
            }
        }
    }

    /// None of its pods ends by itself any more.
    fn hang(&mut self, index: usize) {
        let elapsed = self.world.elapsed;
        let job = &mut self.jobs[index];
        if job.ready_at.is_none() || job.hangs_since.is_some() {
            return;
        }
        job.hangs_since = Some(elapsed);
        let attempt = job.attempts;
        self.end_pods(index, NEVER, 0);
        self.at(elapsed + NOTICED_AFTER, Event::Notice(index, attempt));
    }

    /// A person ends a job that hangs.
    fn notice(&mut self, index: usize, attempt: u64) {
        let job = &self.jobs[index];
        if job.attempts == attempt && job.hangs_since.is_some() {
            self.report.by_hand += 1;
            self.tell(index, || "a person notices the hang and ends its pods".to_owned());
            self.end_pods(index, self.world.elapsed, 137);
        }
    }

    /// The first pod of a job reports its minutes of work as the step, and its checkpoints.
    fn send_report(&mut self, index: usize, attempt: u64) {
        let job = &self.jobs[index];
        let Some(since) = job.ready_at.filter(|_| job.attempts == attempt) else { return };
        if job.hangs_since.is_some() {
            return;
        }
        let worked = self.world.elapsed.saturating_sub(since);
        let now = self.world.store.now();
        let mut report = json!({"at": now, "step": (job.done + worked).as_secs() / 60});
        let kept = whole_checkpoints(worked);
        if !kept.is_zero() {
            report["checkpoint"] = format!("hour-{}", (job.done + kept).as_secs() / 3600).into();
            report["checkpointAt"] = moment(since + kept).to_string().into();
        }
        if let Some(pod) = self.pods_of(index).first() {
            self.world.store.change(&pod.address, Part::Whole, |pod| {
                pod["metadata"]["annotations"][PROGRESS] = report.to_string().into();
            });
        }
        self.at(self.world.elapsed + REPORTED_EVERY, Event::Report(index, attempt));
    }

    fn pods_of(&self, index: usize) -> Vec<Arc<Object>> {
        self.pods().filter(|pod| self.job_of(pod) == Some(index)).cloned().collect()
    }

    /// Lets the pods of a job end at a moment.
    fn end_pods(&mut self, index: usize, at: Duration, code: i64) {
        for pod in self.pods_of(index) {
            self.world.end_pod(&pod, at, (code, "", ""));
        }
    }

    fn pods(&self) -> impl Iterator<Item = &Arc<Object>> {
        let kind = self.world.store.kinds.by_name("v1", "Pod");
        kind.into_iter().flat_map(|kind| self.world.store.all(kind))
    }

    fn pod_on(&self, node: &str) -> Option<Arc<Object>> {
        let is_on = |pod: &&Arc<Object>| {
            pod.value["spec"]["nodeName"] == *node && phase(pod) == "Running" && !has_ended(pod)
        };
        self.pods().find(is_on).cloned()
    }

    fn job_of(&self, pod: &Object) -> Option<usize> {
        self.names.get(pod.label(crate::world::LABEL)?).copied()
    }

    /// Takes in what has become of the AppWrappers.
    fn look(&mut self) {
        while self.seen < self.world.store.history().len() {
            let change = self.world.store.history()[self.seen].clone();
            self.seen += 1;
            let kind = &self.world.store.kinds.get(change.object.address.kind).kind;
            if kind != "AppWrapper" {
                continue;
            }
            let Some(index) = self.names.get(&change.object.address.name).copied() else {
                continue;
            };
            if *change.object.address.name != *name(index, self.jobs[index].submitted) {
                continue;
            }
            if change.verb != Verb::Deleted {
                self.note(index, &change.object);
            }
        }
    }

    fn note(&mut self, index: usize, object: &Object) {
        if self.jobs[index].settled {
            return;
        }
        let status = &object.value["status"];
        let phase = status["phase"].as_str().unwrap_or_default();
        self.jobs[index].usage = status["usage"].clone();
        let is_ready = phase == "Running" && is_true(&object.value, "PodsReady");
        match (self.jobs[index].ready_at, is_ready) {
            (None, true) => self.begin(index),
            (Some(since), false) => self.end(index, since, phase == "Succeeded"),
            (Some(_), true) | (None, false) => {}
        }
        let job = &mut self.jobs[index];
        if job.phase != phase {
            phase.clone_into(&mut job.phase);
            if let Some(sentence) = story::sentence(status) {
                self.tell(index, || sentence);
            }
        }
        match phase {
            "Succeeded" => {
                self.report.succeeded += 1;
                self.settle(index);
            }
            // nobody submits again what has a bug
            "Failed" if !is_true(&object.value, "ResourcesDeployed") => {
                self.settle(index);
                if !self.jobs[index].plan.poison {
                    self.at(self.world.elapsed + RESUBMITTED_AFTER, Event::Submit(index));
                }
            }
            _ => {}
        }
    }

    /// All its pods are ready: its work goes on at the last checkpoint.
    fn begin(&mut self, index: usize) {
        let elapsed = self.world.elapsed;
        let job = &mut self.jobs[index];
        (job.ready_at, job.hangs_since) = (Some(elapsed), None);
        job.attempts += 1;
        let (left, poison) = (job.plan.work.saturating_sub(job.done), job.plan.poison);
        let attempt = job.attempts;
        if job.gpus() >= LARGE {
            self.report.large_attempts += 1;
        }
        self.tell(index, || format!("runs, with {:.0} h of work left", hours(left)));
        if poison {
            self.end_pods(index, elapsed + POISONED_AFTER, 1);
        } else {
            self.end_pods(index, elapsed + left, 0);
            if self.policy.reports() {
                self.at(elapsed + REPORTED_EVERY, Event::Report(index, attempt));
            }
        }
    }

    /// Its attempt is over, or a pod of it: what was done since the last checkpoint is lost.
    fn end(&mut self, index: usize, since: Duration, succeeded: bool) {
        let elapsed = self.world.elapsed;
        let job = &mut self.jobs[index];
        let worked = job.hangs_since.unwrap_or(elapsed).saturating_sub(since);
        let hung = job.hangs_since.map_or(Duration::ZERO, |at| elapsed.saturating_sub(at));
        let gpus = real(job.gpus());
        (job.ready_at, job.hangs_since) = (None, None);
        self.report.hung += gpus * hours(hung);
        if succeeded {
            job.done = job.plan.work;
            return;
        }
        let kept = if job.plan.poison { Duration::ZERO } else { whole_checkpoints(worked) };
        job.done += kept;
        let lost = gpus * hours(worked.saturating_sub(kept));
        self.report.lost += lost;
        self.report.failures += 1;
        if job.gpus() >= LARGE {
            self.report.large_failures += 1;
        }
        self.tell(index, || {
            let held = match gpus * hours(hung) {
                0.0 => String::new(),
                held => format!("; it hung for {held:.0}"),
            };
            format!("stops: {lost:.0} GPU-hours of work are lost{held}")
        });
    }

    /// Takes down what an AppWrapper reserved, before another takes its place.
    fn settle(&mut self, index: usize) {
        let job = &mut self.jobs[index];
        if std::mem::replace(&mut job.settled, true) {
            return;
        }
        let usage = std::mem::take(&mut job.usage);
        let Ok(usage) = serde_json::from_value::<crate::api::Usage>(usage) else { return };
        let seconds = usage::seconds_at(&usage, moment(self.world.elapsed));
        let reserved = Duration::from_secs(usage::total(&seconds).unsigned_abs());
        let gpus = real(job.gpus());
        self.report.reserved += gpus * hours(reserved);
    }

    fn close(mut self) -> FleetReport {
        self.told = None;
        for index in 0..self.jobs.len() {
            self.settle(index);
            if let Some(since) = self.jobs[index].ready_at {
                let failures = (self.report.failures, self.report.large_failures, self.report.lost);
                self.end(index, since, false);
                // the end of the simulation is no failure
                (self.report.failures, self.report.large_failures, self.report.lost) = failures;
            }
        }
        let useful = self
            .jobs
            .iter()
            .filter(|job| !job.plan.poison)
            .map(|job| real(job.gpus()) * hours(job.done.min(job.plan.work)));
        self.report.useful = useful.sum();
        let gpus = real(self.options.nodes * GPUS_PER_NODE);
        self.report.capacity = gpus * hours(self.options.lasts);
        self.report.steps = self.world.trace.steps;
        self.report.violation =
            self.world.violation.as_ref().map(|(found, step)| format!("step {step}: {found}"));
        self.report
    }
}

/// How much of some work its checkpoints keep.
const fn whole_checkpoints(worked: Duration) -> Duration {
    Duration::from_secs(worked.as_secs() / CHECKPOINT.as_secs() * CHECKPOINT.as_secs())
}

fn hours(time: Duration) -> f64 {
    time.as_secs_f64() / 3600.0
}

fn node_name(node: u64) -> String {
    format!("node-{node}")
}

fn name(index: usize, submission: u64) -> String {
    format!("job{index}-{submission}")
}

fn delete(world: &mut World, name: &str) {
    let Some(kind) = world.store.kinds.by_name("workload.codeflare.dev/v1beta2", "AppWrapper")
    else {
        return;
    };
    let address = crate::sim::Address::new(kind, NAMESPACE, name);
    drop(world.store.delete(&address, &Deletion::default()));
}
