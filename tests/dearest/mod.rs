//! The dearest objects that admission lets in: each as large as it may be in one dimension, and one that
//! combines them. A bench measures what they cost, a test compares that with an ordinary object, and the
//! fuzzer breaks them.

pub mod look;

use appwrapper::config::Config;
use appwrapper::price::{COMPONENTS_MAX, CONTAINERS_MAX, NODE_TERMS_MAX, POLICY_NAMES_MAX};
use appwrapper::webhook::validate::{self, Severity};
use serde_json::{Map, Value, json};

const PREFIX: &str = "workload.codeflare.dev.appwrapper/";

/// An object that is as dear as it may be in some way.
pub struct Dear {
    /// In which way.
    pub name: &'static str,
    /// The object, which admission lets in.
    pub object: Value,
}

/// What is wrong with an object, warnings apart.
pub fn errors(object: &Value) -> Vec<String> {
    let found = validate::create(object, &Config::default());
    let errors = found.into_iter().filter(|each| each.severity == Severity::Error);
    errors.map(|each| each.to_string()).collect()
}

/// One Job of one pod, one policy, one annotation: what most people write.
pub fn ordinary() -> Value {
    let mut object = of(vec![job("work", pod(1))]);
    object["metadata"]["annotations"] = json!({format!("{PREFIX}retryLimit"): "2"});
    object["spec"]["failurePolicy"] = json!({"rules": [{
        "action": "FailAppWrapper", "onJobFailureMessagePatterns": ["node .* (drained|lost)"],
    }]});
    object
}

/// Every one of them.
pub fn all() -> Vec<Dear> {
    let all = vec![
        Dear { name: "patterns_many", object: with_patterns(|i| format!("quota {i} (is|was) ex")) },
        Dear {
            name: "patterns_of_steps",
            object: with_patterns(|i| format!("[ab]*a[ab]{{97}}{i}")),
        },
        Dear { name: "patterns_of_memory", object: with_patterns(|i| format!(r"\w{{4}}{i}")) },
        Dear { name: "patterns_of_classes", object: with_patterns(|i| format!(r"(?i)[\S]{i}")) },
        Dear { name: "names", object: names() },
        Dear { name: "annotations", object: annotations() },
        Dear { name: "labels", object: labels() },
        Dear { name: "components", object: of(jobs_and_services(COMPONENTS_MAX)) },
        Dear { name: "pod_sets", object: pod_sets() },
        Dear { name: "rules_by_targets", object: rules_by_targets(COMPONENTS_MAX) },
        Dear { name: "text", object: largest(|bytes| json!({"a": "x".repeat(bytes)})) },
        Dear { name: "escaped", object: largest(|bytes| json!({"a": "<".repeat(bytes)})) },
        Dear { name: "small_objects", object: largest(|bytes| json!(vec![json!({"": 0}); bytes])) },
        Dear { name: "small_items", object: largest(|bytes| json!(vec![json!([]); bytes])) },
        Dear { name: "depth", object: depth() },
        Dear { name: "exit_codes", object: exit_codes() },
        Dear { name: "containers", object: of(vec![job("work", pod(CONTAINERS_MAX))]) },
        Dear { name: "env", object: env() },
        Dear { name: "node_terms", object: node_terms() },
        Dear { name: "together", object: together() },
    ];
    for each in &all {
        assert_eq!(errors(&each.object), Vec::<String>::new(), "{}", each.name);
    }
    all
}

fn of(templates: Vec<Value>) -> Value {
    let components: Vec<Value> =
        templates.into_iter().map(|each| json!({"template": each})).collect();
    json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {"name": "dear", "namespace": "team", "uid": "u-1", "resourceVersion": "1"},
        "spec": {"suspend": true, "components": components},
    })
}

#[allow(clippy::needless_pass_by_value, reason = "literals are handed in")]
fn job(name: &str, pod: Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": pod},
    })
}

fn pod(containers: usize) -> Value {
    let resources = json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}});
    let containers: Vec<Value> = (0..containers)
        .map(|i| json!({"name": format!("c{i}"), "image": "i", "resources": resources}))
        .collect();
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}})
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}})
}

/// Ten that have pods, and the rest that have none.
fn jobs_and_services(count: usize) -> Vec<Value> {
    let name = |i: usize| format!("{}-{i}", "n".repeat(240));
    (0..count).map(|i| if i < 10 { job(&name(i), pod(1)) } else { service(&name(i)) }).collect()
}

/// As many patterns of a form as are let in, 20 a rule.
fn with_patterns(form: impl Fn(usize) -> String) -> Value {
    let given = |count: usize| {
        let patterns: Vec<String> = (0..count).map(&form).collect();
        let rules = patterns.chunks(20).map(
            |some| json!({"action": "RestartAppWrapper", "onJobFailureMessagePatterns": some}),
        );
        let mut object = of(vec![job("work", pod(1))]);
        object["spec"]["failurePolicy"] = json!({"rules": rules.collect::<Vec<_>>()});
        object
    };
    most(400, given)
}

/// The largest of a family that is let in: the smaller ones are.
fn most(bound: usize, given: impl Fn(usize) -> Value) -> Value {
    let (mut good, mut bad) = (0, bound + 1);
    while good + 1 < bad {
        let middle = usize::midpoint(good, bad);
        if errors(&given(middle)).is_empty() {
            good = middle;
        } else {
            bad = middle;
        }
    }
    assert!(good > 0, "nothing is let in");
    given(good)
}

fn names() -> Value {
    let mut object = of(vec![job("work", pod(1))]);
    let name = |i: usize| format!("{}{i:02}", "p".repeat(235));
    let names: Vec<String> = (0..POLICY_NAMES_MAX).map(name).collect();
    object["metadata"]["annotations"] = json!({format!("{PREFIX}retryPolicies"): names.join(",")});
    object
}

/// Ours with unknown keys, and others up to what an API server takes.
fn annotations() -> Value {
    most(256 << 10, |bytes| {
        let mut all: Map<String, Value> = Map::new();
        for i in 0..bytes.min(60) {
            all.insert(format!("{PREFIX}{}{i}", "retryLimit".repeat(2)), "1".into());
        }
        for i in 0..bytes / 20 {
            all.insert(format!("a/{i}"), "0123456789".into());
        }
        let mut object = of(vec![job("work", pod(1))]);
        object["metadata"]["annotations"] = all.into();
        object
    })
}

fn labels() -> Value {
    most(40_000, |count| {
        let all: Map<String, Value> = (0..count).map(|i| (format!("l{i}"), "v".into())).collect();
        let mut object = of(vec![job("work", pod(1))]);
        object["metadata"]["labels"] = all.into();
        object
    })
}

/// A JobSet of ten Jobs, each of which Kueue adds to.
fn pod_sets() -> Value {
    let jobs: Vec<Value> = (0..10)
        .map(|i| json!({"name": format!("w{i}"), "replicas": 2, "template": {"spec": {"template": pod(12)}}}))
        .collect();
    let mut object = of(vec![json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"},
        "spec": {"replicatedJobs": jobs},
    })]);
    let gates: Vec<Value> = (0..200).map(|i| json!({"name": format!("g{i}")})).collect();
    let selector: Map<String, Value> = (0..200).map(|i| (format!("s{i}"), "v".into())).collect();
    let info = json!({"nodeSelector": selector, "schedulingGates": gates, "labels": selector});
    object["spec"]["components"][0]["podSetInfos"] = json!(vec![info; 10]);
    object
}

fn rules_by_targets(components: usize) -> Value {
    // every policy names every component, which leaves less for each name
    let name = |i: usize| format!("{}-{i}", "n".repeat(16));
    let templates = (0..components)
        .map(|i| if i < 10 { job(&name(i), pod(1)) } else { service(&name(i)) })
        .collect();
    let mut object = of(templates);
    let names: Vec<String> = (0..components).map(name).collect();
    let codes: Vec<i32> = (1..=255).collect();
    let failure = json!({"action": "RestartAppWrapper", "targetComponents": names,
        "onJobFailureReasons": ["DeadlineExceeded"]});
    let pods = json!({"action": "Ignore", "targetComponents": names,
        "onExitCodes": {"operator": "NotIn", "values": codes}});
    object["spec"]["failurePolicy"] = json!({"rules": vec![failure; 20]});
    object["spec"]["podFailurePolicy"] = json!({"rules": vec![pods; 20]});
    let steps: Vec<Value> = names
        .chunks(components.div_ceil(20))
        .map(|some| json!({"targetComponents": some, "waitForComponentsStatus": "Ready"}))
        .collect();
    object["spec"]["executionPolicy"] = json!({"executionPolicyOrder": "InOrder", "rules": steps});
    object
}

/// The largest contents of a ConfigMap that are let in, beside a Job.
fn largest(contents: impl Fn(usize) -> Value) -> Value {
    most(1 << 20, |bytes| {
        let data = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": contents(bytes),
        });
        of(vec![job("work", pod(1)), data])
    })
}

/// Many things, each as deep as it may be.
fn depth() -> Value {
    let nest = (0..56).fold(json!({}), |inner, _| json!({ "a": inner }));
    largest(move |bytes| json!({"a": vec![nest.clone(); bytes / 1000]}))
}

fn exit_codes() -> Value {
    let mut object = of(vec![job("work", pod(1))]);
    let odd: Vec<String> = (1..=255).step_by(2).map(|code| code.to_string()).collect();
    let even: Vec<String> = (2..=255).step_by(2).map(|code| code.to_string()).collect();
    object["metadata"]["annotations"] = json!({
        format!("{PREFIX}terminalExitCodes"): odd.join(","),
        format!("{PREFIX}retryableExitCodes"): even.join(","),
    });
    let codes: Vec<i32> = (1..=255).collect();
    let rule = json!({"action": "Count", "onExitCodes": {"operator": "NotIn", "values": codes}});
    object["spec"]["podFailurePolicy"] = json!({"rules": vec![rule; 20]});
    object
}

/// As many environment variables as are let in.
fn env() -> Value {
    most(20_000, |count| {
        let env: Vec<Value> =
            (0..count).map(|i| json!({"name": format!("V{i}"), "value": "v"})).collect();
        let mut pod = pod(1);
        pod["spec"]["containers"][0]["env"] = env.into();
        of(vec![job("work", pod)])
    })
}

/// Terms of node affinity, to each of which every mark of a node is added.
fn node_terms() -> Value {
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]});
    let jobs = (0..10).map(|i| {
        let mut pod = pod(1);
        pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 1.into();
        pod["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": vec![term.clone(); NODE_TERMS_MAX]},
        }});
        job(&format!("work-{i}"), pod)
    });
    of(jobs.collect())
}

/// Much of everything.
fn together() -> Value {
    let mut object = rules_by_targets(COMPONENTS_MAX);
    let given = |pattern: String| json!({"action": "RestartAppWrapper", "onJobFailureMessagePatterns": [pattern]});
    let rules = (0..10).map(|i| given(format!("[ab]*a[ab]{{90}}{i}")));
    let words = (0..5).map(|i| given(format!(r"\w{{6}}{i}")));
    let mut rules: Vec<Value> = rules.chain(words).collect();
    rules.resize(20, object["spec"]["failurePolicy"]["rules"][0].clone());
    object["spec"]["failurePolicy"]["rules"] = rules.into();
    object["metadata"]["annotations"] = names()["metadata"]["annotations"].clone();
    most(8_000, |count| {
        let mut object = object.clone();
        let env: Vec<Value> =
            (0..count).map(|i| json!({"name": format!("V{i}"), "value": "v"})).collect();
        let mut pod = pod(CONTAINERS_MAX);
        pod["spec"]["containers"][0]["env"] = env.into();
        object["spec"]["components"][0]["template"]["spec"]["template"] = pod;
        object
    })
}
