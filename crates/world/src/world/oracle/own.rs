//! The policies in the spec of an AppWrapper, read here by other code than the controller's.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::retry;
use crate::sim::Object;
use crate::world::actors::kubelet::duration;
use crate::world::actors::kueue::QUEUE;
use crate::world::scene::pods_in;

const RETRY_POLICIES: &str = "workload.codeflare.dev.appwrapper/retryPolicies";

/// The policies of an AppWrapper.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// Kind and name of each component.
    pub parts: Vec<(String, String)>,
    /// `failurePolicy.maxRestarts`.
    pub max_restarts: Option<i64>,
    /// `failurePolicy.refill.after`.
    pub refill_after: Option<Duration>,
    /// `failurePolicy.stopWhen`: attempts in a row, and the readiness that is progress.
    pub stop_after: Option<(usize, Duration)>,
    /// `spec.progress`: `startWithin` and `stallAfter`.
    pub progress: Option<(Option<Duration>, Option<Duration>)>,
    /// Retry policies that it names.
    pub named: BTreeSet<String>,
    /// It waits in a queue.
    pub queued: bool,
    /// The step of each component.
    pub steps: Vec<usize>,
    /// Components with a Job that ends with its pods, however many they are: once one has succeeded, the
    /// Job asks for no other.
    pub open_ended: BTreeSet<usize>,
    /// For each step but the last: its components must succeed; else be ready.
    pub must_succeed: Vec<bool>,
    /// Names of the replicated Jobs of each component, in the order of its pod sets.
    jobs: Vec<Vec<String>>,
    pod_rules: Vec<Value>,
    failure_rules: Vec<Value>,
}

fn stop_after(stop_when: &Value) -> Option<(usize, Duration)> {
    let most = stop_when["attemptsWithoutProgress"].as_u64()?;
    let progress_after =
        stop_when["progressAfter"].as_str().and_then(duration).unwrap_or(Duration::from_mins(10));
    Some((usize::try_from(most).ok()?, progress_after))
}

/// What `podFailurePolicy` says of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It fails the AppWrapper.
    Fatal,
    /// It is no failure.
    Ignored,
    /// It is one like any other.
    Counted,
}

/// How a pod failed.
#[derive(Clone, Debug, Default)]
pub struct PodFailure {
    /// Its component.
    pub part: Option<usize>,
    /// Its pod set.
    pub pod_set: Option<usize>,
    /// Containers that ended, and their codes.
    codes: Vec<(String, i64)>,
    /// Type and status of its conditions.
    conditions: Vec<(String, String)>,
}

impl PodFailure {
    /// Reads a pod.
    #[must_use]
    pub fn of(pod: &Value, part: Option<usize>, pod_set: Option<usize>) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let containers = pod["status"]["containerStatuses"].as_array();
        let codes = containers.into_iter().flatten().filter_map(|one| {
            Some((text(&one["name"]), one["state"]["terminated"]["exitCode"].as_i64()?))
        });
        let conditions = pod["status"]["conditions"].as_array();
        let pairs = conditions.into_iter().flatten();
        Self {
            part,
            pod_set,
            codes: codes.collect(),
            conditions: pairs.map(|one| (text(&one["type"]), text(&one["status"]))).collect(),
        }
    }
}

impl Own {
    /// Reads a spec.
    #[must_use]
    pub fn of(object: &Object) -> Self {
        let spec = &object.value["spec"];
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let parts: Vec<(String, String)> = list(&spec["components"])
            .iter()
            .map(|component| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let template = &component["template"];
                (text(&template["kind"]), text(&template["metadata"]["name"]))
            })
            .collect();
        let mut own = Self {
            max_restarts: spec["failurePolicy"]["maxRestarts"].as_i64(),
            refill_after: spec["failurePolicy"]["refill"]["after"].as_str().and_then(duration),
            stop_after: stop_after(&spec["failurePolicy"]["stopWhen"]),
            progress: spec["progress"].is_object().then(|| {
                (
                    spec["progress"]["startWithin"].as_str().and_then(duration),
                    spec["progress"]["stallAfter"].as_str().and_then(duration),
                )
            }),
            named: retry::listed(object.annotation(RETRY_POLICIES)).collect(),
            queued: object.label(QUEUE).is_some(),
            steps: vec![0; parts.len()],
            open_ended: list(&spec["components"])
                .iter()
                .enumerate()
                .filter(|(_, component)| is_open_ended(&component["template"]))
                .map(|(index, _)| index)
                .collect(),
            must_succeed: vec![],
            jobs: list(&spec["components"]).iter().map(jobs_of).collect(),
            pod_rules: list(&spec["podFailurePolicy"]["rules"]),
            failure_rules: list(&spec["failurePolicy"]["rules"]),
            parts,
        };
        let execution = &spec["executionPolicy"];
        if execution["executionPolicyOrder"] == "InOrder" {
            let has_pods = |component: &Value| {
                let declared = component["podSets"].as_array().is_some_and(|sets| !sets.is_empty());
                declared || !pods_in(&component["template"]).is_empty()
            };
            let has_pods: Vec<bool> = list(&spec["components"]).iter().map(has_pods).collect();
            own.read_steps(&list(&execution["rules"]), &has_pods);
        }
        own
    }

    /// What no rule names comes last, and first where it has no pods.
    fn read_steps(&mut self, rules: &[Value], has_pods: &[bool]) {
        let step = |name: &str, has_pods: bool| {
            let named = |rule: &Value| {
                let targets = rule["targetComponents"].as_array();
                targets.into_iter().flatten().any(|target| target == name)
            };
            rules.iter().position(named).unwrap_or(if has_pods { rules.len() } else { 0 })
        };
        let parts = self.parts.iter().zip(has_pods);
        self.steps = parts.map(|((_, name), has_pods)| step(name, *has_pods)).collect();
        self.must_succeed =
            rules.iter().map(|rule| rule["waitForComponentsStatus"] == "Succeeded").collect();
    }

    /// Whether some component waits for another.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.steps.iter().any(|step| *step > 0)
    }

    /// The component of this kind and name.
    #[must_use]
    pub fn part(&self, kind: &str, name: &str) -> Option<usize> {
        self.parts.iter().position(|part| part.0 == kind && part.1 == name)
    }

    /// Whether pods are judged at all.
    #[must_use]
    pub const fn judges_pods(&self) -> bool {
        !self.pod_rules.is_empty()
    }

    /// Targets are written `name`, `Kind/name`, `name/part` or `Kind/name/part`.
    fn is_about(&self, rule: &Value, part: Option<usize>, pod_set: Option<usize>) -> bool {
        let targets = rule["targetComponents"].as_array().map_or(&[][..], |all| all);
        let Some(index) = part.filter(|_| !targets.is_empty()) else { return targets.is_empty() };
        let Some((kind, name)) = self.parts.get(index) else { return false };
        let job = pod_set.and_then(|set| self.jobs.get(index)?.get(set));
        let whole = [name.clone(), format!("{kind}/{name}")];
        let of_it = whole.iter().map(|text| format!("{text}/{}", job.map_or("", String::as_str)));
        let all: Vec<String> = whole.iter().cloned().chain(of_it).collect();
        targets.iter().any(|target| all.iter().any(|one| target == one.as_str()))
    }

    /// The first rule of `failurePolicy` about a component that lost a pod with its node: its index and action.
    /// None where one before it may be about something else that the component says.
    #[must_use]
    pub fn rule_of_lost(&self, part: usize, pod_set: Option<usize>) -> Option<(usize, &str)> {
        let about = |rule: &Value| self.is_about(rule, Some(part), pod_set);
        let (index, rule) = self.failure_rules.iter().enumerate().find(|(_, rule)| about(rule))?;
        let is_plain = |key: &str| rule[key].as_array().is_none_or(Vec::is_empty);
        let plain = is_plain("onJobFailureReasons") && is_plain("onJobFailureMessagePatterns");
        rule["action"].as_str().filter(|_| plain).map(|action| (index, action))
    }

    /// The action of a rule of `failurePolicy`.
    #[must_use]
    pub fn action_of(&self, index: usize) -> Option<&str> {
        self.failure_rules.get(index)?["action"].as_str()
    }

    /// What the first rule that matches says of a pod.
    #[must_use]
    pub fn judge(&self, pod: &PodFailure) -> Said {
        let mut matching = self
            .pod_rules
            .iter()
            .filter(|rule| self.is_about(rule, pod.part, pod.pod_set) && fits(rule, pod));
        match matching.next().and_then(|rule| rule["action"].as_str()) {
            Some("FailAppWrapper") => Said::Fatal,
            Some("Ignore") => Said::Ignored,
            Some(_) | None => Said::Counted,
        }
    }

    /// Whether the first rule of `failurePolicy` about the failure of a component fails the AppWrapper.
    /// A pattern is not read here: where one stands before, nothing is said.
    #[must_use]
    pub fn is_fatal(&self, part: usize, reason: &str) -> bool {
        for rule in self.failure_rules.iter().filter(|rule| self.is_about(rule, Some(part), None)) {
            let list = |key: &str| rule[key].as_array().map_or(&[][..], |all| all);
            let reasons = list("onJobFailureReasons");
            if !reasons.is_empty() && !reasons.iter().any(|one| one == reason) {
                continue;
            }
            let plain = list("onJobFailureMessagePatterns").is_empty();
            return plain && rule["action"] == "FailAppWrapper";
        }
        false
    }
}

fn jobs_of(component: &Value) -> Vec<String> {
    let jobs = component["template"]["spec"]["replicatedJobs"].as_array();
    let names = jobs.into_iter().flatten().filter_map(|job| job["name"].as_str());
    names.map(str::to_owned).collect()
}

fn is_open_ended(template: &Value) -> bool {
    let open = |spec: &Value| spec["completions"].is_null() && !spec["parallelism"].is_null();
    let mut inner = template["spec"]["replicatedJobs"].as_array().into_iter().flatten();
    template["kind"] == "Job" && open(&template["spec"])
        || inner.any(|job| open(&job["template"]["spec"]))
}

fn fits(rule: &Value, pod: &PodFailure) -> bool {
    if let Some(wanted) = rule["onPodConditions"].as_array().filter(|all| !all.is_empty()) {
        return wanted.iter().any(|one| {
            let status = one["status"].as_str().unwrap_or("True");
            pod.conditions.iter().any(|(kind, is)| one["type"] == **kind && is == status)
        });
    }
    let codes = &rule["onExitCodes"];
    let values = codes["values"].as_array().map_or(&[][..], |all| all);
    let named = |container: &str| codes["containerName"].as_str().is_none_or(|n| n == container);
    pod.codes.iter().filter(|(name, code)| *code != 0 && named(name)).any(|(_, code)| {
        let among = values.iter().any(|value| value == code);
        among == (codes["operator"] == "In")
    })
}
