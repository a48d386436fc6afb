use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::*;

/// Every kind that is simulated, and one that is not.
const MANIFESTS: &str = r"
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: a, labels: {kueue.x-k8s.io/queue-name: q}, annotations: {sim/at: 1s}}
spec:
  components:
  - template:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: j, labels: {a: b}, annotations: {c: d}}
      spec:
        parallelism: 2
        template: &pod
          metadata: {labels: {a: b}, annotations: {sim/run-for: 20s}}
          spec: {restartPolicy: Never, containers: [{name: c, resources: {requests: {cpu: 1}, limits: {memory: 1Gi}}}]}
  - template:
      apiVersion: jobset.x-k8s.io/v1alpha2
      kind: JobSet
      metadata: {name: s}
      spec: {replicatedJobs: [{name: r, replicas: 1, template: {spec: {parallelism: 1, completions: 1, template: *pod}}}]}
  - template: {apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: p}, spec: {pytorchReplicaSpecs: {Master: {replicas: 1, template: *pod}}}}
  - template: {apiVersion: x.io/v1, kind: FooJob, metadata: {name: f}, spec: {template: *pod}}
    podSets: [{path: template.spec.template}]
---
";

const REST: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {a: b}}
spec: {taints: [{key: k, effect: NoSchedule}]}
status: {allocatable: {cpu: 8, memory: 64Gi, pods: "10"}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec: {resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4}]}]}]}
---
{apiVersion: v1, kind: Pod, metadata: {name: alone}, spec: {restartPolicy: Never, containers: [{name: c}]}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: alone}, spec: {completions: 2, template: {metadata: {labels: {x: z}}, spec: {restartPolicy: Never, containers: [{name: c}]}}}}
"#;

fn documents() -> Vec<Document> {
    read(&(MANIFESTS.to_owned() + REST))
}

fn read(text: &str) -> Vec<Document> {
    let source = Source { name: "f".to_owned(), bytes: text.as_bytes().to_vec() };
    let read: Result<Vec<_>, _> = bundle::documents(&[source]).into_iter().collect();
    read.expect("they are well formed")
}

fn hostile() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(null),
        json!("boo"),
        json!("18446744073709551615h"),
        json!("9223372036854775807"),
        json!("8388608Ti"),
        json!(-1),
        json!(0),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(2_147_483_647),
        json!(1.5),
        json!(true),
        json!([]),
        json!(["boo"]),
        json!({}),
        json!({"metadata": "boo", "spec": 3}),
        json!([[{"name": 3}]]),
    ])
}

/// Puts a value at a place, counted from the root.
fn put(value: &mut Value, left: &mut usize, new: &Value) -> bool {
    if *left == 0 {
        *value = new.clone();
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| put(item, left, new)),
        Value::Object(fields) => fields.values_mut().any(|field| put(field, left, new)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum::<usize>(),
        Value::Object(fields) => fields.values().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// What is told of some minutes; none where it is refused.
fn story(documents: Vec<Document>) -> Option<Vec<Line>> {
    let config = Config::default();
    if !refused(&documents, &config).is_empty() {
        return None;
    }
    let misfortunes = vec![Misfortune::Pod, Misfortune::Stuck];
    let prepared = cast::prepare(documents, misfortunes, 40);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut show = Show::new(1, prepared.cast).ok()?;
        let mut lines = vec![];
        let mut narration = Narration::default();
        let until = Duration::from_mins(4);
        while show.elapsed() < until && show.advance(until, until).await {
            for beat in show.drain() {
                lines.extend(narration.tell(&beat));
            }
            let frame = view::Frame { width: 100, height: 30, colours: true };
            drop(view::view("", &show.picture(), &lines, frame));
        }
        Some(lines)
    })
}

#[test]
fn the_help_has_each_annotation_of_the_samples() {
    let samples = [
        STORY,
        include_str!("../../../samples/fleet/no-fit.yaml"),
        include_str!("../../../samples/fleet/suspect-nodes.yaml"),
        include_str!("../../../samples/progress.yaml"),
    ];
    for rest in samples.iter().flat_map(|sample| sample.split("sim/").skip(1)) {
        let is_part = |c: &char| c.is_ascii_lowercase() || *c == '-';
        let name: String = rest.chars().take_while(is_part).collect();
        let has_row = ANNOTATIONS.contains(&format!("\n  sim/{name}: "));
        assert!(name.is_empty() || has_row, "sim/{name}");
    }
}

#[test]
fn what_is_good_is_run() {
    assert!(story(documents()).is_some(), "{:?}", refused(&documents(), &Config::default()));
}

#[test]
fn a_run_that_is_cut_before_the_end_says_so() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (run_for, want) in [("20s", false), ("3h", true)] {
        let text = format!(
            "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {{name: a}}\nspec:\n  \
             components:\n  - template: {{apiVersion: batch/v1, kind: Job, metadata: {{name: j}}, spec: {{template: \
             {{metadata: {{annotations: {{sim/run-for: {run_for}}}}}, \
             spec: {{restartPolicy: Never, containers: [{{name: c}}]}}}}}}}}\n"
        );
        let cast = cast::prepare(read(&text), vec![], 40).cast;
        let said = runtime.block_on(async {
            let mut show = Show::new(1, cast).expect("it is run");
            while show.elapsed() < HORIZON && show.advance(HORIZON, HORIZON).await {
                drop(show.drain());
            }
            let phases =
                show.picture().wrappers.iter().map(|it| it.status.phase).collect::<Vec<_>>();
            words::limit(show.is_cut(HORIZON), phases.into_iter())
        });
        assert_eq!(!said.is_empty(), want, "{run_for}: {said}");
    }
}

#[test]
fn components_of_later_steps_are_not_said_to_exist() {
    let job = |name: &str| {
        format!(
            "{{template: {{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}}}, spec: {{template: \
             {{metadata: {{annotations: {{sim/run-for: 20s}}}}, \
             spec: {{restartPolicy: Never, containers: [{{name: c}}]}}}}}}}}}}"
        )
    };
    let told = |order: &str| {
        let text = format!(
            "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {{name: a}}\n\
             spec:\n  executionPolicy: {order}\n  components: [{}, {}]\n",
            job("init"),
            job("work")
        );
        let lines = story(read(&text)).expect("it is run");
        let told = |line: &Line| ["Resuming", "Running"].contains(&line.event.as_str());
        let told = lines.into_iter().filter(|line| line.object == "AppWrapper/a" && told(line));
        told.map(|line| line.message).collect::<Vec<_>>()
    };
    let in_order = "{executionPolicyOrder: InOrder, rules: \
                    [{targetComponents: [init], waitForComponentsStatus: Succeeded}]}";
    assert_eq!(
        told(in_order),
        [
            "attempt 0 begins: its components are created step by step",
            "all components of the first step exist; waiting for their pods",
        ]
    );
    assert_eq!(
        told("{executionPolicyOrder: AnyOrder}"),
        [
            "attempt 0 begins: its components are created",
            "all components exist; waiting for their pods",
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_manifest_holds_it_is_run_or_refused(
        blows in prop::collection::vec((any::<Index>(), any::<Index>(), hostile()), 1..3),
    ) {
        let mut documents = documents();
        for (document, place, value) in blows {
            let at = document.index(documents.len());
            let struck = &mut documents[at].value;
            let mut left = place.index(count(struck));
            put(struck, &mut left, &value);
        }
        drop(story(documents));
    }
}
