//! What an object may cost, and that nothing which is stored is held up for it.

use super::*;
use crate::api::keys;
use crate::price::{
    ANNOTATIONS_BYTES_MAX, LABELS_BYTES_MAX, METADATA_BYTES_MAX, OBJECT_BYTES_MAX,
    OWN_ANNOTATIONS_BYTES_MAX,
};

const PREFIX: &str = "workload.codeflare.dev.appwrapper";

/// A Job beside something with so many bytes in it.
fn filled(bytes: usize) -> Value {
    let mut aw = given(&[job("a"), service("b")]);
    aw["spec"]["components"][1]["template"]["data"] = json!("a".repeat(bytes));
    aw
}

#[test]
fn an_object_leaves_room_for_the_largest_status() {
    let empty = filled(0).to_string().len();
    only(
        "69",
        &judged(&filled(OBJECT_BYTES_MAX)),
        &format!("error: must be at most {OBJECT_BYTES_MAX} bytes as stored, but is "),
        "",
    );
    let full = filled(OBJECT_BYTES_MAX - empty);
    let said = judged(&full);
    only("69", &said, "error: must be at most 1048576 bytes as stored, including its", "");
    let status: usize =
        said[0].rsplit("up to ").next().unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((100_000..300_000).contains(&status), "{status}");
    assert_eq!(judged(&filled(OBJECT_BYTES_MAX - empty - status)), Vec::<String>::new());
    only("69", &judged(&filled(OBJECT_BYTES_MAX - empty - status + 1)), "error: must be at", "");
    // a status that somebody sends along does not count
    let mut sent = filled(OBJECT_BYTES_MAX - empty - status);
    sent["status"] = json!({"phase": "x".repeat(400_000)});
    assert_eq!(judged(&sent), Vec::<String>::new());
    let mut escaped = filled(0);
    escaped["spec"]["components"][1]["template"]["data"] = json!("<".repeat(180_000));
    only("69", &judged(&escaped), "error: must be at most 1048576 bytes as stored", "");
    escaped["spec"]["components"][1]["template"]["data"] = json!("<".repeat(100_000));
    assert_eq!(judged(&escaped), Vec::<String>::new());
}

#[test]
fn small_objects_by_the_thousand_are_refused() {
    let mut aw = filled(0);
    aw["spec"]["components"][1]["template"]["data"] = json!(vec![json!({"": 0}); 100_000]);
    assert!(aw.to_string().len() < 800_000);
    only(
        "69",
        &judged(&aw),
        "error: spec: must take at most 2621440 bytes of memory",
        "fewer fields",
    );
}

#[test]
fn empty_items_by_the_thousand_are_refused() {
    let with_items = |count: usize| {
        let mut aw = filled(0);
        aw["spec"]["components"][1]["template"]["data"] = json!(vec![json!([]); count]);
        judged(&aw)
    };
    assert_eq!(with_items(32_000), Vec::<String>::new());
    only(
        "values",
        &with_items(32_768),
        "error: spec: must have at most 32768 fields and list items, but has 327",
        "",
    );
}

#[test]
fn components_containers_and_terms_are_counted() {
    let many = |count: usize| {
        let mut templates = vec![job("a")];
        templates.extend((1..count).map(|i| service(&format!("s{i}"))));
        judged(&given(&templates))
    };
    assert_eq!(many(128), Vec::<String>::new());
    only(
        "C",
        &many(129),
        "error: spec.components: Invalid value: \"129\": must have at most 128",
        "",
    );
    let containers = |count: usize| {
        let all: Vec<Value> = (0..count).map(|i| json!({"name": format!("c{i}")})).collect();
        judged(&with(
            &given(&[job("a")]),
            "/spec/components/0/template/spec/template/spec/containers",
            json!(all),
        ))
    };
    assert_eq!(containers(128), Vec::<String>::new());
    only(
        "C",
        &containers(129),
        "error: spec.components[0].template.spec.template.spec.containers: ",
        "at most 128",
    );
    let terms = |count: usize| {
        let affinity = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": vec![json!({}); count]},
        }});
        let mut aw = given(&[job("a")]);
        aw["spec"]["components"][0]["template"]["spec"]["template"]["spec"]["affinity"] = affinity;
        judged(&aw)
    };
    assert_eq!(terms(64), Vec::<String>::new());
    only(
        "C",
        &terms(65),
        "error: spec.components[0].template.spec.template.spec.affinity",
        "at most 64",
    );
}

#[test]
fn what_is_compared_with_each_node_has_a_bound() {
    let pod = |field: &str, value: Value| {
        let mut aw = given(&[job("a")]);
        aw["spec"]["components"][0]["template"]["spec"]["template"]["spec"][field] = value;
        judged(&aw)
    };
    let affinity = |expressions: Value| {
        pod(
            "affinity",
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}),
        )
    };
    let exists =
        |count: usize| affinity(json!(vec![json!({"key": "k", "operator": "Exists"}); count]));
    let one_of = |count: usize| {
        affinity(json!([{"key": "k", "operator": "In", "values": vec!["v"; count]}]))
    };
    let tolerations =
        |count: usize| pod("tolerations", json!(vec![json!({"operator": "Exists"}); count]));
    for said in [exists(512), one_of(511), tolerations(64)] {
        assert_eq!(said, Vec::<String>::new());
    }
    let at = "error: spec.components[0].template.spec.template.spec";
    let what = "must be at most 512 expressions, fields and values";
    only("C", &exists(513), &format!("{at}.affinity"), what);
    only("C", &one_of(512), &format!("{at}.affinity"), what);
    only("C", &tolerations(65), &format!("{at}.tolerations"), "must be at most 64 tolerations");
}

#[test]
fn annotations_have_a_bound_together() {
    let with_annotations = |all: Value| {
        let mut aw = given(&[job("a")]);
        aw["metadata"]["annotations"] = all;
        judged(&aw)
    };
    let others = |bytes: usize| json!({"a": "x".repeat(bytes - 1)});
    assert_eq!(with_annotations(others(ANNOTATIONS_BYTES_MAX)), Vec::<String>::new());
    only(
        "70",
        &with_annotations(others(ANNOTATIONS_BYTES_MAX + 1)),
        "error: metadata.annotations: Invalid value: \"262145 bytes\": must total at most 262144 bytes",
        "including keys",
    );
    let key = format!("{PREFIX}/retryPolicies");
    let names: Vec<String> = (0..48_000).map(|i| format!("p{i}")).collect();
    let said = with_annotations(
        json!({&key: names[..24_000].join(","), format!("{PREFIX}/retryLimit"): "2"}),
    );
    let start = format!("error: metadata.annotations[{key}]: Invalid value: \"p0,p1,");
    only("C2", &said, &start, &format!("must total at most {OWN_ANNOTATIONS_BYTES_MAX} bytes"));
    only(
        "C2",
        &with_annotations(json!({&key: names[..17].join(",")})),
        &start,
        "must list at most 16 RetryPolicies, but lists 17",
    );
    let mut aw = given(&[job("a")]);
    aw["spec"]["components"][0]["template"]["metadata"]["annotations"] =
        others(ANNOTATIONS_BYTES_MAX + 1);
    only("70", &judged(&aw), "error: spec.components[0].template.metadata.annotations: ", "262144");
}

#[test]
fn labels_have_a_bound_together() {
    let with_labels = |bytes: usize| {
        // 64 bytes each, and the rest in the last one
        let (count, rest) = (LABELS_BYTES_MAX / 64, bytes - LABELS_BYTES_MAX);
        let length = |i: usize| 64 - 5 + if i + 1 == count { rest } else { 0 };
        let label = |i: usize| (format!("{i:05}"), json!("x".repeat(length(i))));
        let labels: serde_json::Map<String, Value> = (0..count).map(label).collect();
        let mut aw = given(&[job("a")]);
        aw["metadata"]["labels"] = labels.into();
        judged(&aw)
    };
    assert_eq!(with_labels(LABELS_BYTES_MAX), Vec::<String>::new());
    only(
        "labels",
        &with_labels(LABELS_BYTES_MAX + 1),
        "error: metadata.labels: Invalid value: \"32769 bytes\": must total at most 32768 bytes",
        "including keys",
    );
}

#[test]
fn names_that_fit_nothing_are_not_compared_for_ever() {
    let name = |i: usize| format!("{}{i}", "n".repeat(60));
    let mut templates = vec![job("a")];
    templates.extend((0..127).map(|i| service(&name(i))));
    let mut aw = given(&templates);
    let unknown: Vec<String> = (0..3_500).map(|i| format!("m{i}")).collect();
    let rule = json!({"action": "FailAppWrapper", "targetComponents": unknown});
    aw["spec"]["failurePolicy"] = json!({"rules": vec![rule; 8]});
    let said = judged(&aw);
    assert_eq!(said.len(), 101, "{:?}", &said[0]);
}

fn changed(old: &Value, new: &Value, requester: Requester) -> Vec<String> {
    let growth = growth(old, new, requester);
    say(growth.into_iter().chain(update(old, new, requester, &Config::default())).collect())
}

/// What is stored is finished and deleted, whatever it costs.
#[test]
fn nothing_that_is_stored_is_held_up_for_its_size() {
    let kueue = Requester { is_kueue: true, ..Requester::default() };
    let mut templates = vec![job("a")];
    templates.extend((0..1990).map(|i| service(&format!("s{i}"))));
    let mut large = given(&templates);
    large["status"] = json!({"componentStatus": vec![json!({"name": "x".repeat(700)}); 1990]});
    large["metadata"]["labels"] = json!({keys::QUEUE_NAME: "main"});
    large["metadata"]["annotations"] =
        json!({format!("{PREFIX}/retryPolicies"): "p,".repeat(50_000) + "p"});
    assert!(large.to_string().len() > OBJECT_BYTES_MAX);
    let mut running = large.clone();
    running["spec"]["suspend"] = json!(false);
    running["spec"]["components"][0]["podSetInfos"] = json!([{"nodeSelector": {"a": "b"}}]);
    assert_eq!(changed(&large, &running, kueue), Vec::<String>::new(), "admitted");
    assert_eq!(changed(&running, &large, kueue), Vec::<String>::new(), "suspended");
    let mut labelled = large.clone();
    labelled["metadata"]["labels"]["team"] = json!("red");
    assert_eq!(changed(&large, &labelled, Requester::default()), Vec::<String>::new(), "labelled");
    let mut unqueued = (large.clone(), running.clone());
    for aw in [&mut unqueued.0, &mut unqueued.1] {
        aw["metadata"]["labels"] = json!({});
        aw["spec"]["components"][0]["podSetInfos"] = json!([]);
    }
    assert_eq!(changed(&unqueued.1, &unqueued.0, Requester::default()), Vec::<String>::new());
    assert_eq!(changed(&unqueued.0, &unqueued.1, Requester::default()), Vec::<String>::new());
}

#[test]
fn nobody_makes_it_larger_later() {
    let small = filled(700_000);
    let ours = Requester { is_controller: true, ..Requester::default() };
    let with_metadata = |field: &str, value: Value| {
        let mut new = small.clone();
        new["metadata"][field] = value;
        new
    };
    let managers = |count: usize| json!(vec![json!({"manager": "x".repeat(1000)}); count]);
    let labels = json!({"a": "x".repeat(METADATA_BYTES_MAX)});
    for new in [with_metadata("labels", labels), with_metadata("managedFields", managers(400))] {
        only(
            "39",
            &changed(&small, &new, Requester::default())[..1],
            "error: metadata: Invalid value: ",
            "must not grow beyond",
        );
        assert!(growth(&small, &new, ours).is_none());
        assert!(growth(&new, &new, Requester::default()).is_none(), "it does not grow");
        assert!(growth(&new, &small, Requester::default()).is_none(), "it shrinks");
    }
    assert!(
        growth(&small, &with_metadata("managedFields", managers(200)), Requester::default())
            .is_none()
    );
    let mut injected = small.clone();
    injected["spec"]["components"][0]["podSetInfos"] =
        json!([{"annotations": {"a": "x".repeat(400_000)}}]);
    only(
        "39",
        &changed(&small, &injected, Requester::default()),
        "error: spec: Invalid value: ",
        "must not grow beyond",
    );
}
