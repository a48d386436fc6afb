//! Scenarios of policies.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{MEANWHILE, Meanwhile, Scenario, component, end, scene, wrapper};
use crate::api::keys;
use crate::world::actors::kueue::QUEUE;

/// A pod that fails once, whichever attempt it is of.
const ONCE: &[(&str, &str)] = &[("run-for", "5s"), ("fail-first", "1"), ("exit-code", "42")];
/// A pod that always fails.
const ALWAYS: &[(&str, &str)] = &[("run-for", "5s"), ("exit-code", "42")];
/// A pod that succeeds.
const FINE: &[(&str, &str)] = &[("run-for", "5s")];
/// A pod that runs out of memory once.
const HUNGRY: &[(&str, &str)] =
    &[("run-for", "5s"), ("fail-first", "1"), ("exit-code", "137"), ("reason", "OOMKilled")];

/// A story of policies: what is in the spec beside the components, and how it ends.
struct Story {
    name: &'static str,
    kinds: &'static [&'static str],
    lives: &'static [&'static [(&'static str, &'static str)]],
    spec: Value,
    /// The `spec` of the retry policy that is attached, where one is.
    retry: Option<Value>,
    /// It waits in a queue.
    queued: bool,
    end: &'static str,
}

impl Story {
    const fn of(
        name: &'static str,
        kinds: &'static [&'static str],
        lives: &'static [&'static [(&'static str, &'static str)]],
        end: &'static str,
    ) -> Self {
        Self { name, kinds, lives, spec: Value::Null, retry: None, queued: false, end }
    }

    fn with(self, key: &str, policy: Value) -> Self {
        let mut spec = self.spec;
        spec[key] = policy;
        Self { spec, ..self }
    }

    fn retried(self, policy: Value) -> Self {
        Self { retry: Some(policy), ..self }
    }
}

fn stories() -> Vec<Story> {
    let recreate = || json!({"rules": [{"action": "RecreateComponent"}]});
    let order = |wait: &str| {
        let first = json!({"targetComponents": ["c0"], "waitForComponentsStatus": wait});
        json!({"executionPolicyOrder": "InOrder", "rules": [first]})
    };
    let ignore = || {
        let codes = json!({"operator": "In", "values": [42]});
        json!({"rules": [{"action": "Ignore", "onExitCodes": codes}]})
    };
    let backoff = json!({"initialDelay": "10s", "multiplier": 2.0});
    let any = json!({"action": "Retry", "onExitCodes": {"operator": "NotIn", "values": [200]}});
    let delayed = || {
        json!({"retryLimit": 2, "backoff": backoff, "antiAffinity": {"mode": "node"},
            "rules": [any]})
    };
    let grow = json!({"action": "Retry", "onConditions": ["OOMKilled"],
        "mutate": {"memory": {"factor": 1.5, "max": "1Gi"}}});
    let growing = || json!({"defaultAction": "Retry", "rules": [grow]});
    vec![
        Story::of("recreate-pod", &["Pod"], &[ONCE], "Succeeded").with("failurePolicy", recreate()),
        Story::of("recreate-job", &["Job", "ConfigMap"], &[ONCE, FINE], "Succeeded")
            .with("failurePolicy", recreate()),
        Story::of("recreate-job-set", &["JobSet"], &[ONCE], "Succeeded")
            .with("failurePolicy", recreate()),
        Story::of("recreate-always", &["Job"], &[ALWAYS], "Failed")
            .with("failurePolicy", recreate()),
        Story::of("in-order-ready", &["Job", "Pod"], &[FINE, FINE], "Succeeded")
            .with("executionPolicy", order("Ready")),
        Story::of("in-order-succeeded", &["Job", "Pod"], &[FINE, FINE], "Succeeded")
            .with("executionPolicy", order("Succeeded")),
        Story::of("in-order-fails-once", &["Pod", "Job"], &[FINE, ONCE], "Succeeded")
            .with("executionPolicy", order("Succeeded")),
        Story::of("in-order-recreate", &["Job", "Job"], &[FINE, ONCE], "Succeeded")
            .with("executionPolicy", order("Ready"))
            .with("failurePolicy", recreate()),
        Story::of("ignored", &["Pod"], &[ONCE], "Succeeded").with("podFailurePolicy", ignore()),
        Story::of("ignored-job", &["Job"], &[ONCE], "Succeeded").with("podFailurePolicy", ignore()),
        Story::of("delayed", &["Pod"], &[ONCE], "Succeeded").retried(delayed()),
        Story::of("delayed-always", &["Job"], &[ALWAYS], "Failed").retried(delayed()),
        Story::of("grows", &["Pod"], &[HUNGRY], "Succeeded").retried(growing()),
        Story {
            queued: true,
            ..Story::of("grows-in-queue", &["Job"], &[HUNGRY], "Succeeded").retried(growing())
        },
    ]
}

/// All of them, with what happens meanwhile.
pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = vec![];
    for story in stories() {
        for (suffix, meanwhile) in MEANWHILE {
            // who lets it run again is Kueue
            if story.queued && meanwhile == Meanwhile::Suspension {
                continue;
            }
            all.push(scenario(&story, suffix, meanwhile));
        }
    }
    all
}

fn scenario(story: &Story, suffix: &str, meanwhile: Meanwhile) -> Scenario {
    let components: Vec<Value> = story
        .kinds
        .iter()
        .zip(story.lives)
        .enumerate()
        .map(|(index, (kind, life))| {
            let mut template = component(kind, &format!("c{index}"), life);
            remember(&mut template);
            json!({ "template": template })
        })
        .collect();
    let mut wrapper = wrapper(&components);
    if let Some(spec) = story.spec.as_object() {
        for (key, policy) in spec {
            wrapper["spec"][key] = policy.clone();
        }
    }
    if story.queued {
        wrapper["spec"]["suspend"] = true.into();
        wrapper["metadata"]["labels"] = json!({QUEUE: "lq"});
        for one in wrapper["spec"]["components"].as_array_mut().into_iter().flatten() {
            one["podSets"] = json!([{"replicas": 1, "path": "template.spec.template"}]);
        }
    }
    let mut objects = vec![];
    if let Some(policy) = &story.retry {
        wrapper["metadata"]["annotations"][keys::RETRY_POLICIES] = "policy".into();
        objects
            .push(json!({"apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
            "metadata": {"name": "policy"}, "spec": policy}));
    }
    objects.push(wrapper);
    let mut scene = scene(objects, meanwhile);
    scene.nodes.push(("node-2".to_owned(), 16));
    if story.queued {
        scene.quota = BTreeMap::from([("pods".to_owned(), 1000)]);
    }
    let name = format!("{}{suffix}", story.name);
    Scenario { name, end: end(story.end, meanwhile), scene }
}

/// Containers have memory, so that it can grow.
fn remember(value: &mut Value) {
    match value {
        Value::Object(all) => {
            if all.contains_key("image") {
                all.insert("resources".to_owned(), json!({"requests": {"memory": "64Mi"}}));
            }
            all.values_mut().for_each(remember);
        }
        Value::Array(all) => all.iter_mut().for_each(remember),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
