//! One run: a control plane of its own, with a controller or without.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::objects::{self, ENDLESS};
use crate::observe::{Seen, Watch, as_many};
use crate::options::{Implementation, Options, Scenario};
use crate::outcome::{Outcome, parts};
use crate::program::{Program, Running, beside_the_example, free_port};
use crate::scenarios;
use crate::site::{NAMESPACE, Site};
use crate::stats::{SECOND, real, rounded, seconds};
use crate::usage::{self, Reading};
use crate::{audit, webhook};

/// Nothing that is waited for takes longer, unless it never comes.
pub const PATIENCE: Duration = Duration::from_mins(10);
/// What the controller still does after the last transition belongs to its cost. It is known when that is
/// over only by its silence.
const AFTERWARDS: Duration = SECOND;
/// How many kinds of requests are told.
pub const CALLS_MAX: usize = 20;
/// The API server, among the components.
const SERVER: &str = "kube-apiserver";

/// What a scenario works with.
pub struct Run {
    /// The control plane.
    pub site: Site,
    /// How many AppWrappers, or pods of a gang.
    pub size: usize,
    /// How long to measure at rest, in seconds.
    pub rest: u32,
    program: Option<Program>,
    running: Option<Running>,
    ended: mpsc::UnboundedSender<Failure>,
}

/// Runs a scenario on a new control plane, which ends with the run.
pub async fn run(
    options: &Options,
    scenario: Scenario,
    implementation: Implementation,
    size: usize,
) -> Result<Outcome, Failure> {
    let with_webhook = options.webhook && implementation == Implementation::Controller;
    let webhook = if with_webhook { Some(free_port()?) } else { None };
    let program = program(options, scenario, implementation, size, webhook)?;
    let plane = Site::start(size, scenario == Scenario::Kueue).await?;
    if let Some(port) = webhook {
        webhook::install(&plane, port).await?;
    }
    let (ended, mut is_ended) = mpsc::unbounded_channel();
    let rest = options.rest;
    let mut run = Run { site: plane, size, rest, program, running: None, ended };
    let mut outcome = Outcome::new(scenario, implementation, size);
    let measured = async {
        run.start().await?;
        run.warm_up(with_webhook).await?;
        scenarios::measure(scenario, &mut run, &mut outcome).await?;
        run.note_memory(&mut outcome);
        Ok(())
    };
    let measured = tokio::select! {
        measured = measured => measured,
        Some(failure) = is_ended.recv() => Err(failure),
    };
    run.stop().await;
    run.site.stop().await;
    measured.map(|()| outcome)
}

/// The controller of an implementation, if it has one.
fn program(
    options: &Options,
    scenario: Scenario,
    implementation: Implementation,
    size: usize,
    webhook: Option<u16>,
) -> Result<Option<Program>, Failure> {
    let file: PathBuf = match implementation {
        Implementation::Floor => return Ok(None),
        Implementation::Other => options.other.clone().ok_or(Failure::NoOther)?,
        Implementation::Controller => match &options.program {
            Some(file) => file.clone(),
            None => beside_the_example()?,
        },
    };
    // its working directory is not ours to say
    let file = std::path::absolute(&file).map_err(Failure::io("find", &file))?;
    let log = options.out.join(format!("{scenario}-{size}-{implementation}.log"));
    Program::new(implementation, file, log, webhook).map(Some)
}

impl Run {
    /// Whether there is a controller.
    pub const fn has_controller(&self) -> bool {
        self.program.is_some()
    }

    /// Starts the controller, if there is one to start.
    pub async fn start(&mut self) -> Result<(), Failure> {
        if let Some(program) = &self.program {
            self.running = Some(program.start(&self.site, self.ended.clone()).await?);
        }
        Ok(())
    }

    /// Kills the controller, if it runs, and waits until it is gone.
    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill().await;
        }
    }

    /// Waits until the controller works: until it has brought up an AppWrapper, and taken it down.
    async fn warm_up(&self, with_webhook: bool) -> Result<(), Failure> {
        const WARM: &str = "warm";
        if !self.has_controller() {
            return Ok(());
        }
        self.site.namespace(WARM).await?;
        let path = objects::wrappers(WARM);
        let watch = self.site.watch(path.clone()).await?;
        let wrapper = objects::wrapper(WARM, &objects::pod("p", ENDLESS));
        if with_webhook {
            webhook::until_it_answers(&self.site, &path, &wrapper).await?;
        }
        self.site.create(&path, &wrapper).await?;
        let running = |seen: &Seen| seen.phase == "Running";
        watch.until("the controller at work", PATIENCE, running).await?;
        self.site.delete(0, &format!("{path}/{WARM}")).await?;
        watch.until("the first AppWrapper gone", PATIENCE, |seen| seen.deleted).await.map(drop)
    }

    /// The collection of what a scenario creates: AppWrappers, or bare pods without a controller.
    pub fn collection(&self, namespace: &str) -> String {
        if self.has_controller() { objects::wrappers(namespace) } else { objects::pods(namespace) }
    }

    /// Watches AppWrappers of the run.
    pub async fn watch_wrappers(&self) -> Result<Watch, Failure> {
        self.site.watch(objects::wrappers(NAMESPACE)).await
    }

    /// Watches pods of the run.
    pub async fn watch_pods(&self) -> Result<Watch, Failure> {
        self.site.watch(objects::pods(NAMESPACE)).await
    }

    /// Brings up AppWrappers, or bare pods, that run on; when each was asked for. `wrappers` are watched
    /// where there is a controller, `pods` always.
    pub async fn bring_up(&self, wrappers: &Watch, pods: &Watch) -> Result<Vec<Instant>, Failure> {
        let asked = self
            .site
            .create_all(&self.collection(NAMESPACE), self.size, |i| {
                self.object("aw", &i.to_string(), ENDLESS)
            })
            .await?;
        let running = as_many(self.size, |seen| seen.phase == "Running");
        pods.until("all pods Running", PATIENCE, running).await?;
        if self.has_controller() {
            let ready = as_many(self.size, |seen| seen.is("PodsReady"));
            wrappers.until("all AppWrappers with PodsReady", PATIENCE, ready).await?;
        }
        Ok(asked)
    }

    /// An AppWrapper `<prefix>-<suffix>` around the pod `p-<suffix>`, or, without a controller, only that pod.
    pub fn object(&self, prefix: &str, suffix: &str, life: objects::Life) -> serde_json::Value {
        let pod = objects::pod(&format!("p-{suffix}"), life);
        if self.has_controller() {
            objects::wrapper(&format!("{prefix}-{suffix}"), &pod)
        } else {
            pod
        }
    }

    /// What was used so far.
    pub fn read(&self) -> Reading {
        usage::read(self.id(), self.site.dir())
    }

    /// Resident memory of the controller now, in MiB.
    pub fn resident(&self) -> Option<f64> {
        usage::memory(self.id()?, "VmRSS")
    }

    /// The same at most, since it was started.
    pub fn peak(&self) -> Option<f64> {
        usage::memory(self.id()?, "VmHWM")
    }

    fn id(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.id)
    }

    /// Notes what a period has cost, from `from` until a second after now, for each of `count` units.
    pub async fn account(
        &self,
        outcome: &mut Outcome,
        from: &Reading,
        count: usize,
    ) -> Result<(), Failure> {
        tokio::time::sleep(AFTERWARDS).await;
        let to = self.read();
        let unit = outcome.scenario.unit().suffix();
        let each = |value: f64| value / real(count.max(1));
        let used = to.components.iter().map(|(name, after)| {
            let before = from.components.get(name).copied().unwrap_or_default();
            (name.clone(), each((after - before) * 1000.0))
        });
        let used: Vec<(String, f64)> = used.collect();
        let calls = self.calls(from, &to).await?;
        let cost = &mut outcome.cost;
        cost.server_ms = used.iter().find(|(name, _)| name == SERVER).map(|(_, ms)| *ms);
        cost.all_calls = Some(each(calls.all.total().into()));
        if self.has_controller() {
            let cpu = each((to.controller - from.controller) * 1000.0);
            let own = each(calls.own.total().into());
            (cost.cpu_ms, cost.calls) = (Some(cpu), Some(own));
            outcome.set_real(format!("cpu_ms_per_{unit}"), cpu, 2);
            outcome.set_real(format!("calls_per_{unit}"), own, 2);
            outcome.set("calls", parts(calls.own.most(CALLS_MAX)));
        }
        outcome.set_real(format!("all_calls_per_{unit}"), outcome.cost.all_calls, 2);
        let used = used.into_iter().map(|(name, ms)| (name, rounded(ms, 1)));
        outcome.set(format!("plane_cpu_ms_per_{unit}"), parts(used));
        Ok(())
    }

    /// The requests of a period that is over for at least a moment.
    pub async fn calls(&self, from: &Reading, to: &Reading) -> Result<audit::Counted, Failure> {
        let log = self.site.audit_log()?.to_owned();
        let agent = self.program.as_ref().map(Program::agent).unwrap_or_default();
        let (from, to) = (from.day, to.day);
        // it reads a large file
        let counted = tokio::task::spawn_blocking(move || audit::count(&log, &agent, from, to));
        counted.await.map_err(|error| Failure::Document {
            what: "the audit log".to_owned(),
            problem: error.to_string(),
        })?
    }

    fn note_memory(&self, outcome: &mut Outcome) {
        if self.has_controller() {
            let has = |name: &str| outcome.measures.iter().any(|(known, _)| known == name);
            let (resident, peak) = (!has("rss_mb"), !has("peak_mb"));
            if resident {
                outcome.set_real("rss_mb", self.resident(), 1);
            }
            if peak {
                outcome.cost.peak_mb = self.peak();
                outcome.set_real("peak_mb", self.peak(), 1);
            }
        }
    }
}

/// From one reading to a moment, in seconds.
pub fn since(from: &Reading, to: Instant) -> f64 {
    seconds(from.at, to)
}
