//! Kubelets, node lifecycle and the collector of pods on lost nodes.
//!
//! What becomes of a pod is written in its annotations, the same that the tests on a real control
//! plane use: `sim/run-for`, `sim/exit-code`, `sim/reason`, `sim/message`, `sim/disruption`,
//! `sim/fail-until-attempt`, `sim/never-ready`, `sim/stuck`; and `sim/fail-first`, the number of pods
//! of a pod set that fail. Chance may add to that.
//!
//! `sim/progress-every` makes a pod report a step in its annotation `workload.codeflare.dev/progress` that often:
//! `sim/progress-steps` times, or until it ends. With `sim/hang-until-attempt`, it stops in earlier attempts alone, and
//! does not end in them. `sim/checkpoint-every` names a checkpoint every so many steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::nodes::{NodeState, node_state};
use super::reporter::Reporter;
use super::scheduler::schedule;
use super::{Env, Task, has_ended, phase, set_condition};
use crate::sim::{Address, Deletion, Object, Part, Store};
use crate::world::rng::{Rng, mix_text};

/// Label of the attempt, which a pod's fate may depend on.
const ATTEMPT: &str = "workload.codeflare.dev/attempt";
/// Labels of the pod set, over all attempts.
const POD_SET: [&str; 2] =
    ["workload.codeflare.dev/appwrapper-uid", "workload.codeflare.dev/podset"];
/// How long the pods of a node that is gone are left alone.
const QUARANTINE: Duration = Duration::from_secs(40);
/// How long a pod may stay on a node that does not answer, where it does not say so itself.
const TOLERATION: Duration = Duration::from_mins(5);
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// By how many seconds the clock of a node is off at most.
const OFF_MAX: u64 = 90;
/// What chance is asked for: how far each clock is off.
const CLOCKS: u64 = 14;

/// How likely it is that something goes wrong with a pod, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Temper {
    /// It fails.
    pub fails: u32,
    /// It never runs.
    pub hangs: u32,
    /// It does not go when it is deleted.
    pub sticks: u32,
    /// It is evicted while it runs.
    pub evicted: u32,
}

/// What becomes of one pod.
#[derive(Clone, Debug, Default)]
struct Life {
    runs_at: Option<Duration>,
    ends_at: Option<Duration>,
    evicted_at: Option<Duration>,
    code: i64,
    reason: String,
    message: String,
    /// Reason of a `DisruptionTarget` that it has when it ends; empty: none.
    disruption: String,
    sticks: bool,
    gone_at: Option<Duration>,
    reporter: Option<Reporter>,
    /// By how many seconds the clock of its node is off.
    off: i64,
    /// When its kubelet saw it first, by that clock.
    started: String,
}

/// All nodes and what runs on them.
#[derive(Clone, Debug, Default)]
pub struct Kubelets {
    /// How likely it is that something goes wrong.
    pub temper: Temper,
    /// How many pods chance has made fail, hang or be evicted, and how many stick.
    pub spoiled: (u64, u64),
    /// From which seed the clocks of the nodes are off; absent where they agree with the API server's.
    pub clocks: Option<u64>,
    lives: BTreeMap<Arc<str>, Life>,
    /// Pods whose node is gone, and since when.
    orphans: BTreeMap<Arc<str>, Duration>,
    /// How many pods there were of each pod set whose pods fail.
    made: Made,
}

/// How many pods there were, by the labels of their pod set.
#[derive(Clone, Debug, Default)]
struct Made {
    count: BTreeMap<[String; 2], i64>,
    /// Nothing fails for ever any more: a restart that is not counted would never be the last.
    healed: bool,
}

/// How many pods of a pod set fail at most, once everything is healed; more than any limit allows.
const FAIL_MAX: i64 = 30;

impl Made {
    /// Whether the next pod of this pod set is among the first that fail.
    fn fails(&mut self, pod: &Object, first: Option<i64>) -> bool {
        let pod_set = POD_SET.map(|key| pod.label(key).unwrap_or_default().to_owned());
        let count = self.count.entry(pod_set).or_insert(0);
        *count += 1;
        let most = if self.healed { FAIL_MAX } else { i64::MAX };
        *count <= first.unwrap_or(most).min(most)
    }
}

impl Kubelets {
    /// Kubelets whose pods behave like this.
    #[must_use]
    pub fn new(temper: Temper) -> Self {
        Self { temper, ..Self::default() }
    }

    /// Looks at a pod: binds it, runs it, ends it, removes it.
    pub fn pod(&mut self, env: &mut Env<'_>, address: &Address) {
        let Some(pod) = env.store.get(address).cloned() else { return };
        let Some(node) = pod.value["spec"]["nodeName"].as_str().map(str::to_owned) else {
            schedule(env, &pod);
            return;
        };
        match node_state(env.store, &node) {
            NodeState::Gone => self.orphaned(env, &pod),
            NodeState::Down(since) => Self::abandoned(env, &pod, since),
            NodeState::Up => self.run(env, &pod),
        }
    }

    /// A node changed: its pods are looked at.
    pub fn node(&mut self, env: &mut Env<'_>, address: &Address) {
        let Some(kind) = env.store.kinds.by_name("v1", "Pod") else { return };
        let waits = |pod: &&Arc<Object>| {
            let node = &pod.value["spec"]["nodeName"];
            node.is_null() || node == &*address.name
        };
        let pods: Vec<Address> =
            env.store.all(kind).filter(waits).map(|pod| pod.address.clone()).collect();
        for pod in pods {
            env.agenda.add(Task::Pod(pod));
        }
    }

    /// Pods no longer refuse to go.
    pub fn heal(&mut self, env: &mut Env<'_>) {
        self.temper = Temper::default();
        self.made.healed = true;
        for (uid, life) in &mut self.lives {
            if let Some(pod) = env.store.by_uid(uid) {
                // who was told to stick goes on so: force is there for that
                life.sticks &= pod.annotation("sim/stuck").is_some();
                env.agenda.add(Task::Pod(pod.address.clone()));
            }
        }
    }

    /// A pod ends at a moment, and not before: exit code, reason and message.
    pub fn end_at(
        &mut self,
        env: &mut Env<'_>,
        pod: &Object,
        at: Duration,
        why: (i64, &str, &str),
    ) {
        let Some(life) = self.lives.get_mut(&pod.uid) else { return };
        life.ends_at = Some(at);
        (life.code, life.reason, life.message) = (why.0, why.1.to_owned(), why.2.to_owned());
        let task = Task::Pod(pod.address.clone());
        if at > env.elapsed { env.agenda.at(at, task) } else { env.agenda.add(task) }
    }

    /// A pod does not go any more when it is deleted.
    pub fn stick(&mut self, pod: &Object) {
        if let Some(life) = self.lives.get_mut(&pod.uid) {
            life.sticks = true;
        }
    }

    /// Whether nobody would carry out the deletion of a pod.
    #[must_use]
    pub fn hangs(&self, store: &Store, pod: &Object) -> bool {
        let node = pod.value["spec"]["nodeName"].as_str().unwrap_or_default();
        let down = !node.is_empty() && matches!(node_state(store, node), NodeState::Down(_));
        down || self.lives.get(&pod.uid).is_some_and(|life| life.sticks)
    }

    /// By how many seconds the clock of a pod's node is off.
    fn off(&self, pod: &Object) -> i64 {
        let node = pod.value["spec"]["nodeName"].as_str().unwrap_or_default();
        let off = |seed| Rng::new(mix_text(seed, node), CLOCKS).between(0, 2 * OFF_MAX);
        self.clocks.map_or(0, |seed| off(seed).cast_signed() - OFF_MAX.cast_signed())
    }

    fn run(&mut self, env: &mut Env<'_>, pod: &Arc<Object>) {
        let (temper, off) = (self.temper, self.off(pod));
        let (spoiled, made) = (&mut self.spoiled, &mut self.made);
        let life = self.lives.entry(pod.uid.clone()).or_insert_with(|| {
            let (life, harmed) = Life::of(env, pod, temper, made);
            spoiled.0 += u64::from(harmed.0);
            spoiled.1 += u64::from(harmed.1);
            Life { off, started: env.store.now_after(off), ..life }
        });
        let due = |moment: Option<Duration>| moment.is_some_and(|moment| moment <= env.elapsed);
        if pod.is_deleting() {
            leave(env, pod, life);
        } else if phase(pod) == "Pending" {
            match life.runs_at {
                Some(_) if due(life.runs_at) => begin(env, pod, life),
                Some(_) => {}
                None => wait_for_image(env, pod),
            }
        } else if phase(pod) == "Running" {
            if due(life.evicted_at) {
                life.evicted_at = None;
                evict(env, pod);
            } else if due(life.ends_at) {
                if !life.disruption.is_empty() {
                    disrupt(env, pod, &life.disruption);
                }
                end(env, pod, life, (life.code, &life.reason, &life.message));
            } else if let Some(reporter) = &mut life.reporter {
                reporter.report(env, pod);
            }
        }
    }

    /// Its node does not exist any more; after a while it is collected.
    fn orphaned(&mut self, env: &mut Env<'_>, pod: &Arc<Object>) {
        let since = *self.orphans.entry(pod.uid.clone()).or_insert(env.elapsed);
        let until = since + QUARANTINE;
        if env.elapsed < until {
            env.agenda.at(until, Task::Pod(pod.address.clone()));
        } else {
            collect(env, pod);
        }
    }

    /// Nobody looks after the pod; after a while it is deleted, which nobody carries out.
    fn abandoned(env: &mut Env<'_>, pod: &Arc<Object>, since: Duration) {
        let until = since + toleration(pod);
        if pod.is_deleting() || has_ended(pod) {
            return;
        }
        if env.elapsed < until {
            env.agenda.at(until, Task::Pod(pod.address.clone()));
            return;
        }
        disrupt(env, pod, "DeletionByTaintManager");
        drop(env.store.delete(&pod.address, &Deletion::default()));
    }
}

/// How long a pod may stay on a node that does not answer.
fn toleration(pod: &Object) -> Duration {
    let all = pod.value["spec"]["tolerations"].as_array();
    let own = all.into_iter().flatten().find(|one| one["key"] == UNREACHABLE);
    own.and_then(|one| one["tolerationSeconds"].as_u64()).map_or(TOLERATION, Duration::from_secs)
}

impl Life {
    fn of(
        env: &mut Env<'_>,
        pod: &Arc<Object>,
        temper: Temper,
        made: &mut Made,
    ) -> (Self, (bool, bool)) {
        let annotation = |key: &str| pod.annotation(key);
        let attempt = pod.label(ATTEMPT).and_then(|text| text.parse().ok()).unwrap_or(0_i64);
        let fail_until = annotation("sim/fail-until-attempt").and_then(|text| text.parse().ok());
        let runs_for = annotation("sim/run-for").and_then(duration);
        let code = annotation("sim/exit-code").and_then(|text| text.parse().ok());
        let first = annotation("sim/fail-first").and_then(|text| text.parse::<i64>().ok());
        let judged = first.is_some() || code.is_some_and(|code: i64| code != 0);
        let among_first = !judged || made.fails(pod, first);
        let fails = fail_until.is_none_or(|until| attempt < until) && among_first;
        let default = i64::from(fail_until.is_some() || first.is_some());
        let code = if fails { code.unwrap_or(default) } else { 0 };
        let text = |key: &str| annotation(key).filter(|_| fails).unwrap_or_default().to_owned();
        let mut life = Self {
            runs_at: Some(env.elapsed + Duration::from_millis(env.rng.between(100, 2_000))),
            code,
            reason: text("sim/reason"),
            message: text("sim/message"),
            disruption: text("sim/disruption"),
            sticks: annotation("sim/stuck").is_some(),
            ..Self::default()
        };
        life.ends_at = runs_for.and_then(|length| Some(life.runs_at? + length));
        life.reporter = Reporter::of(pod, attempt);
        if Reporter::hangs(pod, attempt) {
            life.ends_at = None;
        }
        let harmed = life.spoil(env, temper);
        if annotation("sim/never-ready").is_some() {
            life.runs_at = None;
        }
        let moments = [life.runs_at, life.ends_at, life.evicted_at];
        for moment in moments.into_iter().flatten() {
            env.agenda.at(moment, Task::Pod(pod.address.clone()));
        }
        (life, harmed)
    }

    /// Lets chance do harm.
    ///
    /// Whether it makes the pod fail, hang or go, and whether it makes it stick.
    fn spoil(&mut self, env: &mut Env<'_>, temper: Temper) -> (bool, bool) {
        let Some(runs_at) = self.runs_at else { return (false, false) };
        let soon = |env: &mut Env<'_>| Duration::from_millis(env.rng.between(1, 60_000));
        let fails = env.rng.permille(temper.fails);
        if fails {
            self.ends_at = Some(runs_at + soon(env));
            self.code = *env.rng.pick(&[1, 2, 42, 126, 137, 143]);
            if self.code == 137 { "OOMKilled" } else { "Error" }.clone_into(&mut self.reason);
            // no chance of its own, which would change every world
            let message = match self.ends_at.map_or(0, |at| at.subsec_millis()) % 4 {
                0 => "TRANSIENT: try again",
                1 => "CUDA error: no device",
                _ => "",
            };
            message.clone_into(&mut self.message);
        }
        let evicted = env.rng.permille(temper.evicted);
        if evicted {
            self.evicted_at = Some(runs_at + soon(env));
        }
        let sticks = env.rng.permille(temper.sticks);
        self.sticks |= sticks;
        let hangs = env.rng.permille(temper.hangs);
        if hangs {
            self.runs_at = None;
        }
        (fails || evicted || hangs, sticks)
    }
}

/// The largest number of a duration; of hours, they are a century.
const SPAN_MAX: u64 = 1_000_000;

/// A duration such as `300ms`, `3s`, `2m`, `1h`.
pub(in crate::world) fn duration(text: &str) -> Option<Duration> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    // nothing takes longer, and no sum of times overflows
    let count = text[..at].parse::<u64>().ok()?.min(SPAN_MAX);
    match &text[at..] {
        "ms" => Some(Duration::from_millis(count)),
        "s" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_mins(count)),
        "h" => Some(Duration::from_hours(count)),
        _ => None,
    }
}

fn containers(pod: &Value) -> Vec<String> {
    let all = pod["spec"]["containers"].as_array();
    let names = all.into_iter().flatten().filter_map(|one| one["name"].as_str());
    names.map(str::to_owned).collect()
}

fn begin(env: &mut Env<'_>, pod: &Arc<Object>, life: &mut Life) {
    if let Some(reporter) = &mut life.reporter {
        reporter.begin(env, pod);
    }
    let (now, ran) = (env.store.now(), env.store.now_after(life.off));
    env.store.change(&pod.address, Part::Status, |pod| {
        pod["status"]["phase"] = "Running".into();
        pod["status"]["startTime"] = life.started.as_str().into();
        let running = json!({"running": {"startedAt": ran}});
        pod["status"]["containerStatuses"] = states(pod, &running);
        set_condition(pod, "Ready", true, "", "", &now);
    });
    let moments = [life.ends_at, life.evicted_at];
    for moment in moments.into_iter().flatten() {
        env.agenda.at(moment, Task::Pod(pod.address.clone()));
    }
}

fn states(pod: &Value, state: &Value) -> Value {
    let one = |name: String| json!({"name": name, "state": state});
    containers(pod).into_iter().map(one).collect()
}

fn wait_for_image(env: &mut Env<'_>, pod: &Arc<Object>) {
    env.store.change(&pod.address, Part::Status, |pod| {
        let reason = "ImagePullBackOff";
        let waiting = json!({"waiting": {"reason": reason, "message": "Back-off pulling image"}});
        pod["status"]["containerStatuses"] = states(pod, &waiting);
    });
}

/// A pod ends: exit code, reason and message.
fn end(env: &mut Env<'_>, pod: &Arc<Object>, life: &Life, why: (i64, &str, &str)) {
    let (code, reason, message) = why;
    let (now, finished) = (env.store.now(), env.store.now_after(life.off));
    env.store.change(&pod.address, Part::Status, |pod| {
        pod["status"]["startTime"] = life.started.as_str().into();
        pod["status"]["phase"] = if code == 0 { "Succeeded" } else { "Failed" }.into();
        let default = if code == 0 { "Completed" } else { "Error" };
        let reason = if reason.is_empty() { default } else { reason };
        let mut ended = json!({"exitCode": code, "reason": reason, "finishedAt": finished});
        if !message.is_empty() {
            ended["message"] = message.into();
        }
        pod["status"]["containerStatuses"] = states(pod, &json!({"terminated": ended}));
        let why = if code == 0 { "PodCompleted" } else { "PodFailed" };
        set_condition(pod, "Ready", false, why, "", &now);
    });
}

fn disrupt(env: &mut Env<'_>, pod: &Arc<Object>, reason: &str) {
    let now = env.store.now();
    env.store.change(&pod.address, Part::Status, |pod| {
        set_condition(pod, "DisruptionTarget", true, reason, "", &now);
    });
}

/// The eviction API: a condition, then an ordinary deletion.
fn evict(env: &mut Env<'_>, pod: &Arc<Object>) {
    disrupt(env, pod, "EvictionByEvictionAPI");
    drop(env.store.delete(&pod.address, &Deletion::default()));
}

/// A pod that is deleted ends, and then it goes.
fn leave(env: &mut Env<'_>, pod: &Arc<Object>, life: &mut Life) {
    if life.sticks {
        return;
    }
    let Some(gone_at) = life.gone_at else {
        let at = env.elapsed + Duration::from_millis(env.rng.between(100, 5_000));
        life.gone_at = Some(at);
        env.agenda.at(at, Task::Pod(pod.address.clone()));
        return;
    };
    if env.elapsed < gone_at {
        return;
    }
    if !has_ended(pod) {
        // some programs handle SIGTERM and end with 0; no chance of its own, which would change every world
        let handles_signal = gone_at.subsec_millis().is_multiple_of(8);
        let (code, reason) = if handles_signal { (0, "Completed") } else { (143, "Error") };
        end(env, pod, life, (code, reason, ""));
        env.agenda.add(Task::Pod(pod.address.clone()));
        return;
    }
    remove(env, pod);
}

fn remove(env: &mut Env<'_>, pod: &Arc<Object>) {
    let deletion =
        Deletion { grace: Some(0), uid: Some(pod.uid.to_string()), ..Deletion::default() };
    drop(env.store.delete(&pod.address, &deletion));
}

/// The node of a pod is gone: the pod is ended in its absence.
fn collect(env: &mut Env<'_>, pod: &Arc<Object>) {
    if !has_ended(pod) {
        disrupt(env, pod, "DeletionByPodGC");
        env.store
            .change(&pod.address, Part::Status, |pod| pod["status"]["phase"] = "Failed".into());
    }
    remove(env, pod);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_annotations_are_read() {
        assert_eq!(duration("300ms"), Some(Duration::from_millis(300)));
        assert_eq!(duration("3s"), Some(Duration::from_secs(3)));
        assert_eq!(duration("2m"), Some(Duration::from_mins(2)));
        assert_eq!(duration("18446744073709551615h"), Some(Duration::from_hours(SPAN_MAX)));
        assert_eq!(duration("3"), None);
        assert_eq!(duration("x"), None);
    }
}
