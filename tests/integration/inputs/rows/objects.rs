//! Pod sets, paths, names: rows 35 to 51, and 72.

#![expect(clippy::too_many_lines, reason = "a row has a few lines")]

use super::*;

pub(super) fn pods() -> Vec<Row> {
    const SET: &str = "spec.components[0].podSets[0].replicas";
    const PATH: &str = "spec.components[0].podSets[0].path";
    const PARALLEL: &str = "spec.components[0].template.spec.parallelism";
    let set = |replicas: i64| pod_sets(json!([{"path": POD, "replicas": replicas}]));
    let parallel = |count: i64| with(&job("a"), "/spec/parallelism", json!(count));
    let at = |path: &str| pod_sets(json!([{"path": path}]));
    let app = |name: &str, replicas: i64| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main"}]}}}})
    };
    let wide = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "a"},
        "spec": {"replicatedJobs": [{"name": "a", "replicas": 65536, "template": {"spec": {
            "parallelism": 65536, "completions": 65536,
            "template": {"spec": {"containers": [{"name": "main"}]}}}}}]},
    });
    let jobs = |count: usize| wrap(&(0..count).map(|i| job(&format!("j{i}"))).collect::<Vec<_>>());
    let unknown = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    vec![
        row("35", "negative", set(-1), denied(SET, "at least 0"))
            .server("greater than or equal to 0"),
        row(
            "35",
            "two times 2³¹−1",
            Object(wrap(&[app("d", 2_147_483_647), app("e", 2_147_483_647)])),
            denied("spec.components", "1 to 1000000 pods"),
        ),
        row(
            "36",
            "2³²",
            Object(wrap(&[wide])),
            denied("spec.components[0].template.spec.replicatedJobs[0].replicas", "expected"),
        ),
        row("37", "2³²+1", Object(wrap(&[parallel(4_294_967_297)])), denied(PARALLEL, "expected")),
        row("37", "negative", Object(wrap(&[parallel(-7)])), denied(PARALLEL, "expected")),
        row(
            "38",
            "no pods",
            Object(wrap(&[app("d", 0)])),
            denied("spec.components", "1 to 1000000 pods"),
        ),
        row(
            "39",
            "no pod sets",
            Object(wrap(&[unknown])),
            denied("spec.components", "at least one pod set, but has none"),
        ),
        row(
            "39",
            "no components",
            Object(wrap(&[])),
            denied("spec.components", "at least one entry"),
        )
        .server("spec.components"),
        // the contract has room for 10
        row("40", "9 pod sets", Object(jobs(9)), Accepted),
        row(
            "40",
            "11 pod sets",
            Object(jobs(11)),
            denied("spec.components", "at most 10 pod sets"),
        ),
        row(
            "41",
            "one path twice",
            pod_sets(json!([{"path": POD}, {"path": POD}])),
            denied("spec.components[0].podSets[1].path", "a path other than"),
        ),
        row("42", "walks out", at("template/../../etc"), denied(PATH, "position 8")),
        row("43", "no list there", at("template[0]"), denied(PATH, "array")),
        row("44", "ends with a dot", at("template.template."), denied(PATH, "position 18")),
        row("44", "index 10²⁰", at("template.a[100000000000000000000]"), denied(PATH, "index")),
        row(
            "45",
            "100 kB",
            at(&format!("template.{}", "a".repeat(100_000))),
            denied(PATH, "at most 512"),
        )
        .server("may not be more than 512"),
        row("45", "no pod template", at("template.spec"), denied(PATH, "a pod template")),
        row(
            "46",
            "metadata is a text",
            beside("/metadata", json!("boo")),
            denied("spec.components[0].template.metadata", "must be an object"),
        )
        .server("spec.components[0].template.metadata"),
        row(
            "46",
            "metadata of pods is a text",
            Object(with(
                &good(),
                &format!("{FIRST}/template/spec/template/metadata"),
                json!("boo"),
            )),
            denied("spec.components[0].template.spec.template.metadata", "expected"),
        ),
    ]
}

pub(super) fn names() -> Vec<Row> {
    const FIELD: &str = "metadata.name";
    const RULE: &str = "must be 1 to 61";
    let named = |name: &str| Object(with(&good(), "/metadata/name", json!(name)));
    let twins = wrap(&[job("a"), job("a")]);
    let labels = |of: &str, labels: Value| Object(with(&good(), &format!("{of}/labels"), labels));
    let of_pods = format!("{FIRST}/template/spec/template/metadata");
    vec![
        row("47", "62 characters", named(&"a".repeat(62)), denied(FIELD, RULE)).server(RULE),
        row("47", "253 characters", named(&"a".repeat(253)), denied(FIELD, RULE)).server(RULE),
        row("47", "61 characters", named(&"a".repeat(61)), Accepted),
        row("48", "dots", named("a.b"), denied(FIELD, RULE)).server(RULE),
        row(
            "50",
            "twins",
            Object(twins),
            denied("spec.components[1].template.metadata.name", "must be unique"),
        ),
        row(
            "51",
            "generated",
            beside("/metadata/generateName", json!("a-")),
            denied("spec.components[0].template.metadata.generateName", "must be left out"),
        ),
        row(
            "51",
            "no name",
            beside("/metadata", json!({"labels": {"a": "b"}})),
            denied("spec.components[0].template.metadata.name", "must be given"),
        ),
        row(
            "72",
            "value of a label",
            labels("/metadata", json!({"a": "b c"})),
            denied("metadata.labels[a]", "at most 63"),
        )
        .server("metadata.labels: Invalid value"),
        row(
            "72",
            "key of a label",
            labels("/metadata", json!({"a b": "c"})),
            denied("metadata.labels[a b]", "the key must be"),
        )
        .server("metadata.labels: Invalid value"),
        row(
            "72",
            "label of pods",
            labels(&of_pods, json!({"a": "b c"})),
            denied("spec.components[0].template.spec.template.metadata.labels[a]", "at most 63"),
        ),
        row("72", "bidi", named("a\u{202e}b"), denied(FIELD, RULE)).server("RFC 1123"),
        row("72", "zero width", named("a\u{200b}b"), denied(FIELD, RULE)).server("RFC 1123"),
    ]
}
