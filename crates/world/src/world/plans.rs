//! Every call of a scenario, hit by every fault, at every moment.

mod policies;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use super::coverage::Coverage;
use super::explore::{each, run};
use super::faults::{FaultPlan, Faults};
use super::scene::{Act, Scene, appwrapper, pod_object, pod_of};
use super::{Options, RunReport, World};
use crate::api::keys;
use crate::locked::Locked;
use crate::sim::Propagation;

/// A story without chance but for the order of things, and how it must end.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// The phase at the end; none where the AppWrapper is gone.
    pub end: Option<&'static str>,
    scene: Scene,
}

/// Name, annotations of its pods, and phase at the end.
type Life = (&'static str, &'static [(&'static str, &'static str)], &'static str);

/// How a pod lives.
const LIVES: &[Life] = &[
    ("succeeds", &[("run-for", "5s")], "Succeeded"),
    ("fails-once", &[("run-for", "5s"), ("fail-until-attempt", "1")], "Succeeded"),
    ("always-fails", &[("run-for", "5s"), ("exit-code", "3")], "Failed"),
    ("sticks", &[("run-for", "5s"), ("fail-until-attempt", "1"), ("stuck", "true")], "Succeeded"),
];

/// What happens to it meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    Suspension,
    Deletion,
    ComponentDeleted,
}

const MEANWHILE: [(&str, Meanwhile); 4] = [
    ("", Meanwhile::Nothing),
    ("-suspended", Meanwhile::Suspension),
    ("-deleted", Meanwhile::Deletion),
    ("-component-deleted", Meanwhile::ComponentDeleted),
];

fn component(kind: &str, name: &str, life: &[(&str, &str)]) -> Value {
    let object = |api: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec});
    let job = json!({"backoffLimit": 0, "template": pod_of(life)});
    match kind {
        "Pod" => pod_object(name, life),
        "Job" => object("batch/v1", job),
        "JobSet" => {
            let jobs = json!([{"name": "r", "replicas": 2, "template": {"spec": job}}]);
            object("jobset.x-k8s.io/v1alpha2", json!({"replicatedJobs": jobs}))
        }
        _ => object("v1", json!({})),
    }
}

/// All scenarios: shapes × lives × what happens meanwhile, and those of policies.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    let shapes: [(&str, &[&str]); 3] =
        [("pod", &["Pod"]), ("job-and-config", &["Job", "ConfigMap"]), ("job-set", &["JobSet"])];
    let mut all = vec![];
    for (shape, kinds) in shapes {
        for (life, annotations, end) in LIVES {
            for (suffix, meanwhile) in MEANWHILE {
                let name = format!("{shape}-{life}{suffix}");
                let object = |(index, kind): (usize, &&str)| json!({"template": component(kind, &format!("c{index}"), annotations)});
                let components: Vec<Value> = kinds.iter().enumerate().map(object).collect();
                let scene = scene(vec![wrapper(&components)], meanwhile);
                all.push(Scenario { name, end: self::end(end, meanwhile), scene });
            }
        }
    }
    all.extend(policies::scenarios());
    all
}

/// The phase at the end.
const fn end(usual: &'static str, meanwhile: Meanwhile) -> Option<&'static str> {
    match meanwhile {
        Meanwhile::Deletion => None,
        Meanwhile::Nothing | Meanwhile::Suspension | Meanwhile::ComponentDeleted => Some(usual),
    }
}

/// The AppWrapper of a scenario.
fn wrapper(components: &[Value]) -> Value {
    let annotations = json!({
        keys::FAILURE_GRACE: "2s",
        keys::RETRY_PAUSE: "5s",
        keys::RETRY_LIMIT: "2",
        keys::FORCEFUL_DELETION_GRACE: "20s",
        keys::SUCCESS_TTL: "300s",
    });
    appwrapper("aw", &annotations, &json!({"components": components}), false)
}

fn scene(objects: Vec<Value>, meanwhile: Meanwhile) -> Scene {
    let seconds = Duration::from_secs;
    let aw = || "aw".to_owned();
    let script = match meanwhile {
        Meanwhile::Nothing => vec![],
        Meanwhile::Suspension => {
            vec![(seconds(3), Act::Suspend(aw(), true)), (seconds(60), Act::Suspend(aw(), false))]
        }
        Meanwhile::Deletion => vec![(seconds(3), Act::Delete(aw(), Some(Propagation::Background)))],
        Meanwhile::ComponentDeleted => vec![(seconds(3), Act::DeleteComponent(aw()))],
    };
    Scene {
        nodes: vec![("node-1".to_owned(), 16)],
        objects,
        script,
        config: "{}".to_owned(),
        ..Scene::default()
    }
}

impl Scenario {
    /// Runs it, with a planned fault or without.
    #[must_use]
    pub fn run(&self, plan: Option<FaultPlan>, keep_trace: bool) -> RunReport {
        let options = Options { keep_trace, plan, ..Options::of(1, Faults::default()) };
        // healed only by its own end: no chance is at work
        let options = Options { steps: 60_000, ..options };
        run(|| World::of(options, self.scene.clone()))
    }

    /// What is wrong with how it ended.
    #[must_use]
    pub fn wrong(&self, report: &RunReport) -> Option<String> {
        if let Some((violation, _)) = &report.violation {
            return Some(violation.to_string());
        }
        let end = report.phases.get("aw").map(String::as_str);
        (end != self.end).then(|| format!("ended as {end:?}, expected {:?}", self.end))
    }
}

/// What came of all plans of all scenarios.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Plans that were run.
    pub plans: u64,
    /// What was met.
    pub coverage: Coverage,
    /// Scenario, plan, and what was wrong.
    pub wrong: Vec<(String, FaultPlan, String)>,
    /// Calls of each scenario without a fault.
    pub calls: BTreeMap<String, u32>,
}

/// Runs every plan of a scenario.
#[must_use]
pub fn exhaust(scenario: &Scenario) -> Outcome {
    let mut outcome = Outcome::default();
    let plain = scenario.run(None, false);
    outcome.calls.insert(scenario.name.clone(), plain.calls);
    for plan in FaultPlan::all(plain.calls) {
        let report = scenario.run(Some(plan), false);
        outcome.plans += 1;
        outcome.coverage.merge(&report.coverage);
        if let Some(wrong) = scenario.wrong(&report) {
            outcome.wrong.push((scenario.name.clone(), plan, wrong));
        }
    }
    outcome
}

impl Outcome {
    /// Adds what came of other scenarios.
    pub fn merge(&mut self, other: Self) {
        self.plans += other.plans;
        self.coverage.merge(&other.coverage);
        self.wrong.extend(other.wrong);
        self.calls.extend(other.calls);
    }
}

/// Runs every plan of these scenarios, on so many threads; `done` hears of each scenario.
#[must_use]
pub fn exhaust_all(scenarios: &[Scenario], jobs: usize, done: &(dyn Fn() + Sync)) -> Outcome {
    let total = Mutex::new(Outcome::default());
    each(jobs, scenarios.iter(), |scenario| {
        let outcome = exhaust(scenario);
        total.locked().merge(outcome);
        done();
    });
    let mut total = std::mem::take(&mut *total.locked());
    total.wrong.sort();
    total
}
