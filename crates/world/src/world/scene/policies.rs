//! Policies by chance: of AppWrappers, of queues, and what an administrator does to them.
//!
//! They have a stream of chance of their own: a scene without them is what it was before they came.

use serde_json::{Map, Value, json};

use super::{Act, HOSTILE, PREFIX, Scene, each_pod, is_part};
use crate::world::faults::{Fault, Faults};
use crate::world::rng::Rng;

/// Names of retry policies; one more is named and never there.
const NAMES: [&str; 3] = ["infra", "ml", "own"];
/// Exit codes of pods that fail.
const CODES: [i64; 6] = [1, 2, 3, 42, 126, 137];
/// What containers say when they fail.
const MESSAGES: [&str; 3] = ["TRANSIENT: try again", "CUDA error: no device", "bad input"];

/// The words of policies.
struct Writer<'a> {
    rng: &'a mut Rng,
}

impl Scene {
    /// Adds policies to half of all scenes.
    pub fn add_policies(&mut self, rng: &mut Rng, faults: &Faults) {
        if rng.one_in(2) {
            return;
        }
        let mut writer = Writer { rng };
        if writer.rng.one_in(3) {
            let most = writer.rng.between(1, 3);
            let few = format!("{{retryPolicy: {{maxUncountedRestarts: {most}, ");
            self.config = self.config.replacen("{retryPolicy: {", &few, 1);
        }
        for (_, act) in &mut self.script {
            if let Act::Create(object) = act
                && object["kind"] == "AppWrapper"
                && object["metadata"]["labels"][HOSTILE].is_null()
            {
                writer.decorate(object, faults);
            }
        }
        writer.retry_policies(self);
        if !self.quota.is_empty() {
            writer.queues(self);
        }
        if faults.has(Fault::User) {
            writer.administrator(self);
        }
        if faults.has(Fault::User) && faults.has(Fault::Stuck) && writer.rng.one_in(4) {
            writer.stuck_pod(self);
        }
    }
}

/// The components that a rule is about, or a name that none has.
fn names(wrapper: &Value) -> Vec<Value> {
    let components = wrapper["spec"]["components"].as_array().into_iter().flatten();
    components.map(|component| component["template"]["metadata"]["name"].clone()).collect()
}

impl Writer<'_> {
    fn decorate(&mut self, wrapper: &mut Value, faults: &Faults) {
        if self.rng.one_in(4) {
            self.config_map(wrapper);
        }
        let names = names(wrapper);
        let targets = self.named(wrapper);
        if self.rng.one_in(2) {
            wrapper["spec"]["failurePolicy"] = self.failure_policy(&targets);
        }
        if self.rng.one_in(3) {
            wrapper["spec"]["podFailurePolicy"] = self.pod_failure_policy(&targets);
        }
        if names.len() > 1 && !self.rng.one_in(3) {
            wrapper["spec"]["executionPolicy"] = self.execution_policy(names);
        }
        if self.rng.one_in(2) {
            wrapper["metadata"]["annotations"][format!("{PREFIX}retryPolicies")] =
                self.attached().into();
        }
        let fails = faults.has(Fault::Pod);
        each_pod(&mut wrapper["spec"]["components"], &mut |pod| self.pod(pod, fails));
    }

    /// One more component, without pods; it may come first or last.
    fn config_map(&mut self, wrapper: &mut Value) {
        let name = format!("{}-cm", wrapper["metadata"]["name"].as_str().unwrap_or_default());
        let template = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"},
        });
        if let Some(all) = wrapper["spec"]["components"].as_array_mut() {
            let at = if self.rng.one_in(2) { 0 } else { all.len() };
            all.insert(at, json!({"template": template, "podSets": []}));
        }
    }

    /// What rules may name: each component, perhaps with its kind, and parts of a `JobSet`.
    fn named(&mut self, wrapper: &Value) -> Vec<Value> {
        let mut all = vec![];
        for component in wrapper["spec"]["components"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let template = &component["template"];
            let mut name = text(&template["metadata"]["name"]);
            if self.rng.one_in(4) {
                name = format!("{}/{name}", text(&template["kind"]));
            }
            let jobs = template["spec"]["replicatedJobs"].as_array();
            let jobs = jobs.into_iter().flatten();
            all.extend(jobs.map(|job| json!(format!("{name}/{}", text(&job["name"])))));
            all.push(name.into());
        }
        all
    }

    /// One or two names, perhaps of a policy that is not there.
    fn attached(&mut self) -> String {
        let first = *self.rng.pick(&NAMES);
        if !self.rng.one_in(3) {
            return first.to_owned();
        }
        let second = *self.rng.pick(&["infra", "ml", "own", "nobody"]);
        format!("{first}, {second}")
    }

    /// How pods fail, and the memory that they ask for.
    fn pod(&mut self, pod: &mut Value, fails: bool) {
        if self.rng.one_in(2) {
            let mut resources = json!({"requests": {"memory": "64Mi"}});
            if self.rng.one_in(2) {
                resources["limits"]["memory"] = "96Mi".into();
            }
            let containers = pod["spec"]["containers"].as_array_mut();
            for container in containers.into_iter().flatten() {
                let gpu = container["resources"]["limits"]["nvidia.com/gpu"].clone();
                container["resources"] = resources.clone();
                if !gpu.is_null() {
                    container["resources"]["limits"]["nvidia.com/gpu"] = gpu;
                }
            }
        }
        let ends = pod["metadata"]["annotations"]["sim/run-for"].is_string();
        if !fails || !ends || self.rng.one_in(2) {
            return;
        }
        let code = *self.rng.pick(&CODES);
        let mut own = Map::new();
        let mut put = |key: &str, value: &str| own.insert(format!("sim/{key}"), value.into());
        put("exit-code", &code.to_string());
        if code == 137 {
            put("reason", "OOMKilled");
        }
        if self.rng.one_in(2) {
            put("message", MESSAGES[self.rng.below(MESSAGES.len())]);
        }
        let until = self.rng.between(1, 3).to_string();
        match self.rng.below(4) {
            0 => {}
            1 => drop(put("fail-until-attempt", &until)),
            _ => drop(put("fail-first", &until)),
        }
        if let Some(all) = pod["metadata"]["annotations"].as_object_mut() {
            all.remove("sim/fail-until-attempt");
            all.extend(own);
        }
    }

    /// The components of a rule: any, or one.
    fn targets(&mut self, names: &[Value]) -> Value {
        if self.rng.one_in(2) { json!([]) } else { json!([self.rng.pick(names)]) }
    }

    fn failure_policy(&mut self, names: &[Value]) -> Value {
        let actions = [
            "FailAppWrapper",
            "RestartAppWrapper",
            "RestartAppWrapperAndIgnoreMaxRestarts",
            "RecreateComponent",
            "RecreateComponent",
            "RecreateComponentAndIgnoreMaxRestarts",
        ];
        let rules: Vec<Value> = (0..self.rng.between(1, 2))
            .map(|_| {
                let action = *self.rng.pick(&actions);
                // parts cannot be recreated
                let whole: Vec<Value> =
                    names.iter().filter(|name| !is_part(name)).cloned().collect();
                let names = if action.starts_with("Recreate") { &whole } else { names };
                let mut rule = json!({"action": action, "targetComponents": self.targets(names)});
                if self.rng.one_in(4) {
                    let reasons = ["BackoffLimitExceeded", "FailedJobs", "OOMKilled", "Error"];
                    rule["onJobFailureReasons"] =
                        json!([self.rng.pick(&reasons), "DeadlineExceeded"]);
                }
                if self.rng.one_in(4) {
                    let patterns = ["backoff limit", "CUDA", "TRANSIENT|bad", "one or more job"];
                    rule["onJobFailureMessagePatterns"] = json!([self.rng.pick(&patterns)]);
                }
                rule
            })
            .collect();
        let mut policy = json!({"rules": rules});
        if self.rng.one_in(2) {
            policy["maxRestarts"] = self.rng.between(0, 4).into();
        }
        policy
    }

    fn codes(&mut self) -> Value {
        let operator = *self.rng.pick(&["In", "In", "NotIn"]);
        let values = [*self.rng.pick(&CODES), *self.rng.pick(&[1, 137, 143])];
        json!({"operator": operator, "values": values})
    }

    fn pod_failure_policy(&mut self, names: &[Value]) -> Value {
        let actions = ["FailAppWrapper", "Ignore", "Ignore", "Count"];
        let rules: Vec<Value> = (0..self.rng.between(1, 3))
            .map(|_| {
                let action = *self.rng.pick(&actions);
                let mut rule = json!({"action": action, "targetComponents": self.targets(names)});
                if self.rng.one_in(3) {
                    rule["onPodConditions"] = json!([{"type": "DisruptionTarget"}]);
                } else {
                    rule["onExitCodes"] = self.codes();
                    if self.rng.one_in(3) {
                        rule["onExitCodes"]["containerName"] = "main".into();
                    }
                }
                rule
            })
            .collect();
        json!({ "rules": rules })
    }

    /// Steps of one component each; the last ones are perhaps named by no rule.
    fn execution_policy(&mut self, mut names: Vec<Value>) -> Value {
        if self.rng.one_in(3) {
            names.reverse();
        }
        if self.rng.one_in(2) {
            names.pop();
        }
        let rules: Vec<Value> = names
            .into_iter()
            .map(|name| {
                let wait = *self.rng.pick(&["Ready", "Ready", "Succeeded"]);
                json!({"targetComponents": [name], "waitForComponentsStatus": wait})
            })
            .collect();
        let order = if self.rng.one_in(12) { "AnyOrder" } else { "InOrder" };
        json!({"executionPolicyOrder": order, "rules": if order == "InOrder" { rules } else { vec![] }})
    }

    fn backoff(&mut self) -> Value {
        let delay = format!("{}s", self.rng.pick(&[1, 10, 60]));
        json!({"initialDelay": delay, "multiplier": 2.0, "maxDelay": "5m"})
    }

    fn retry_rule(&mut self) -> Value {
        let action = *self.rng.pick(&["Retry", "Retry", "Retry", "Fail"]);
        let mut rule = json!({ "action": action });
        match self.rng.below(5) {
            0 | 1 => rule["onExitCodes"] = self.codes(),
            2 => {
                let all = ["OOMKilled", "Evicted", "Unschedulable", "DeadlineExceeded"];
                rule["onConditions"] = json!([self.rng.pick(&all), "Evicted"]);
            }
            3 => {
                let pattern = *self.rng.pick(&["CUDA", ".*TRANSIENT.*", "bad|again"]);
                rule["onTerminationMessage"] = json!({ "pattern": pattern });
            }
            _ => {
                let all = ["application", "oom", "node", "evicted", "unknown", "image"];
                rule["onFailureCategory"] = json!([self.rng.pick(&all), "application"]);
            }
        }
        if action == "Retry" {
            if self.rng.one_in(2) {
                rule["retryLimit"] = self.rng.between(0, 3).into();
            }
            if self.rng.one_in(2) {
                rule["mutate"] = json!({"memory": {"factor": 1.5, "max": "200Mi"}});
            }
        }
        if self.rng.one_in(3) {
            rule["backoff"] = self.backoff();
        }
        if self.rng.one_in(3) {
            rule["antiAffinity"] = json!({"mode": self.rng.pick(&["node", "node", "none"])});
        }
        rule
    }

    fn retry_policy(&mut self) -> Value {
        let rules: Vec<Value> = (0..self.rng.between(0, 3)).map(|_| self.retry_rule()).collect();
        let mut spec = json!({ "rules": rules });
        if self.rng.one_in(2) {
            spec["retryLimit"] = self.rng.between(0, 4).into();
        }
        if !self.rng.one_in(3) {
            spec["defaultAction"] = "Retry".into();
        }
        if self.rng.one_in(2) {
            spec["backoff"] = self.backoff();
        }
        if self.rng.one_in(4) {
            spec["override"] = true.into();
        }
        if self.rng.one_in(2) {
            spec["antiAffinity"] = json!({"mode": "node"});
        }
        spec
    }

    fn retry_policies(&mut self, scene: &mut Scene) {
        for name in NAMES {
            if self.rng.one_in(4) {
                continue;
            }
            scene.objects.push(json!({
                "apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
                "metadata": {"name": name}, "spec": self.retry_policy(),
            }));
        }
    }

    /// The queues, with the policies that an administrator has attached to them.
    fn queues(&mut self, scene: &mut Scene) {
        const KEY: &str = "workload.codeflare.dev/retry-policies";
        for (kind, name) in [("ClusterQueue", "cq"), ("LocalQueue", "lq")] {
            let mut queue = json!({
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
                "metadata": {"name": name}, "spec": {},
            });
            if kind == "LocalQueue" {
                queue["spec"]["clusterQueue"] = "cq".into();
            }
            if self.rng.one_in(3) {
                queue["metadata"]["annotations"] = json!({ KEY: self.attached() });
            }
            scene.objects.push(queue);
        }
    }

    /// Somebody deletes a pod that does not go, while its node is well.
    fn stuck_pod(&mut self, scene: &mut Scene) {
        let (at, mut deleted) = (self.rng.moment(60), None);
        for (_, act) in &mut scene.script {
            if let Act::Create(object) = act
                && object["kind"] == "AppWrapper"
                && object["metadata"]["labels"][HOSTILE].is_null()
            {
                each_pod(&mut object["spec"]["components"], &mut |pod| {
                    pod["metadata"]["annotations"]["sim/stuck"] = "true".into();
                    let runs = pod["metadata"]["annotations"].get_mut("sim/run-for");
                    if let Some(runs) = runs {
                        *runs = "90s".into();
                    }
                });
                deleted = object["metadata"]["name"].as_str().map(str::to_owned);
                break;
            }
        }
        scene.script.extend(deleted.map(|name| (at, Act::DeletePod(name))));
    }

    /// What an administrator does while AppWrappers run.
    fn administrator(&mut self, scene: &mut Scene) {
        for _ in 0..self.rng.below(3) {
            let at = self.rng.moment(300);
            let name = (*self.rng.pick(&NAMES)).to_owned();
            let act = match self.rng.below(4) {
                0 => Act::Policy(name, None),
                1 => Act::Configure(*self.rng.pick(&[0, 1, 2, 3, 20])),
                _ => Act::Policy(name, Some(Box::new(self.retry_policy()))),
            };
            scene.script.push((at, act));
        }
    }
}
