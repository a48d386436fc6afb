//! What it costs to read an object that a watch shows, in allocations: whoever creates the object chooses how many
//! parts it has, and each part costs the same in a larger one.

use allocation_counter::measure;
use appwrapper::observe::raw_object::RawObject;
use appwrapper::observe::records::ObjectRecord;
use serde_json::{Value, json};

/// The most allocations for each part.
const PART_MAX: u64 = 120;

fn pod() -> Value {
    json!({"spec": {"containers": [{"name": "c"}]}})
}

/// A JobSet each of whose Jobs waits for all earlier ones, which have no replicas and so are up.
fn job_set(parts: usize) -> Value {
    let jobs = (0..parts).map(|i| {
        json!({"name": format!("j{i}"), "replicas": 0, "template": {"spec": {"template": pod()}}})
    });
    json!({"startupPolicy": {"startupPolicyOrder": "InOrder"}, "replicatedJobs": jobs.collect::<Vec<_>>()})
}

/// A Volcano Job each of whose tasks waits for others.
fn volcano_job(parts: usize) -> Value {
    let tasks = (0..parts).map(|i| {
        let names: Vec<String> = (0..8).map(|k| format!("t{}", (i + k) % parts)).collect();
        json!({"name": format!("t{i}"), "replicas": 0, "template": pod(), "dependsOn": {"name": names}})
    });
    json!({"tasks": tasks.collect::<Vec<_>>()})
}

#[test]
fn an_object_of_a_kind_without_rules_is_not_parsed() {
    let cost = |keys: usize| {
        let data: std::collections::BTreeMap<String, &str> =
            (0..keys).map(|i| (format!("k{i}"), "v")).collect();
        let object = json!({"metadata": {"name": "x", "uid": "u"}, "data": data});
        let seen: RawObject = serde_json::from_str(&object.to_string()).expect("it is an object");
        measure(|| drop(ObjectRecord::of(&seen, "v1", "ConfigMap"))).count_total
    };
    assert_eq!(cost(1), cost(10_000));
}

#[test]
fn the_cost_of_a_part_is_the_same_in_a_larger_object() {
    for (api_version, kind, spec) in [
        ("jobset.x-k8s.io/v1alpha2", "JobSet", job_set as fn(usize) -> Value),
        ("batch.volcano.sh/v1alpha1", "Job", volcano_job),
    ] {
        let cost = |parts: usize| {
            let object = json!({"metadata": {"name": "x", "uid": "u"}, "spec": spec(parts)});
            let seen: RawObject =
                serde_json::from_str(&object.to_string()).expect("it is an object");
            let mut record = None;
            let cost = measure(|| record = Some(ObjectRecord::of(&seen, api_version, kind)));
            assert_eq!(record.map(|record| record.report.expected.len()), Some(parts), "{kind}");
            cost.count_total / parts as u64
        };
        let (few, many) = (cost(50), cost(2_000));
        println!("{kind}: {few} of 50, {many} of 2000");
        assert!(many <= PART_MAX && many <= few + 1, "{kind}: {few}, {many}");
    }
}
