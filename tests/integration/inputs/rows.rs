//! The rows. Where the contract says otherwise than the list of inputs did, the row says so.

use serde_json::{Map, Value, json};

use super::Answer::{Accepted, Denied, RefusedByServer, Warned};
use super::Given::{Change, Object, Text};
use super::{Answer, Given, Judge, NAME, Row};

const PREFIX: &str = "workload.codeflare.dev.appwrapper";
const POD: &str = "template.spec.template";
const FIRST: &str = "/spec/components/0";

/// A Job of one pod.
fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox"}]}}},
    })
}

fn wrap(templates: &[Value]) -> Value {
    let components: Vec<Value> = templates.iter().map(|each| json!({"template": each})).collect();
    json!({
        "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {"name": NAME, "namespace": "team"},
        "spec": {"suspend": true, "components": components},
    })
}

fn good() -> Value {
    wrap(&[job("a")])
}

/// A copy with another value at a JSON pointer; objects on the way are made.
fn with(object: &Value, pointer: &str, value: Value) -> Value {
    let mut copy = object.clone();
    let mut place = &mut copy;
    for step in pointer.split('/').skip(1).map(|step| step.replace("~1", "/")) {
        place = match step.parse::<usize>() {
            Ok(index) if place.is_array() => &mut place[index],
            _ => &mut place[step],
        };
    }
    *place = value;
    copy
}

/// One more field of the template of a good AppWrapper, beside another component that has the pods.
fn beside(pointer: &str, value: Value) -> Given {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
    let aw = wrap(&[service, job("a")]);
    Object(with(&aw, &format!("{FIRST}/template{pointer}"), value))
}

fn annotated(key: &str, value: &str) -> Given {
    let mut aw = good();
    aw["metadata"]["annotations"] = json!({ format!("{PREFIX}/{key}"): value });
    Object(aw)
}

fn spec(field: &str, value: Value) -> Given {
    Object(with(&good(), &format!("/spec/{field}"), value))
}

fn pod_sets(sets: Value) -> Given {
    Object(with(&good(), &format!("{FIRST}/podSets"), sets))
}

fn codes(operator: &str, values: Value) -> Given {
    let rule = json!({"action": "Count", "onExitCodes": {"operator": operator, "values": values}});
    spec("podFailurePolicy", json!({"rules": [rule]}))
}

fn pattern(text: &str) -> Given {
    patterns(&[text])
}

fn patterns(texts: &[&str]) -> Given {
    let rule = json!({"action": "FailAppWrapper", "onJobFailureMessagePatterns": texts});
    spec("failurePolicy", json!({"rules": [rule]}))
}

fn retry_policy(rule: Value) -> Given {
    let mut whole = json!({"action": "Retry"});
    for (key, value) in rule.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    Object(json!({
        "apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
        "metadata": {"name": NAME}, "spec": {"rules": [whole]},
    }))
}

fn evicted(more: Value) -> Given {
    let mut rule = json!({"onConditions": ["Evicted"]});
    for (key, value) in more.as_object().into_iter().flatten() {
        rule[key] = value.clone();
    }
    retry_policy(rule)
}

fn factor(factor: Value) -> Given {
    evicted(json!({"mutate": {"memory": {"factor": factor}}}))
}

fn object_of(api_version: &str, kind: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}})
}

fn row(number: &'static str, name: &'static str, given: Given, answer: Answer) -> Row {
    Row { number, name, given, answer, judge: Judge::Pure, server: None }
}

impl Row {
    /// The API server refuses it by itself, with these words.
    fn server(mut self, says: &'static str) -> Self {
        self.server = Some(says);
        self
    }

    /// It takes a cluster to tell.
    fn cluster(mut self) -> Self {
        self.judge = Judge::Cluster;
        self
    }
}

const fn denied(field: &'static str, says: &'static str) -> Answer {
    Denied { field, says }
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = annotations();
    rows.extend(policies());
    rows.extend(retry_policies());
    rows.extend(pods());
    rows.extend(names());
    rows.extend(templates());
    rows.extend(kinds());
    rows.extend(texts());
    rows.extend(changes());
    rows
}

fn annotations() -> Vec<Row> {
    const WARMUP: &str =
        "metadata.annotations[workload.codeflare.dev.appwrapper/warmupGracePeriodDuration]";
    const LIMIT: &str = "metadata.annotations[workload.codeflare.dev.appwrapper/retryLimit]";
    const CODES: &str = "metadata.annotations[workload.codeflare.dev.appwrapper/terminalExitCodes]";
    let warmup = |text: &str| annotated("warmupGracePeriodDuration", text);
    let limit = |text: &str| annotated("retryLimit", text);
    let terminal = |text: &str| annotated("terminalExitCodes", text);
    let mut both = good();
    both["metadata"]["annotations"] = json!({
        format!("{PREFIX}/terminalExitCodes"): "1,2", format!("{PREFIX}/retryableExitCodes"): "2,3",
    });
    vec![
        row("1", "negative", warmup("-1h"), denied(WARMUP, "must not be negative")),
        row("2", "empty", warmup(""), denied(WARMUP, "must be a duration")),
        row("3", "no number", warmup("NaN"), denied(WARMUP, "must be a duration")),
        row("3", "infinite", warmup("Inf"), denied(WARMUP, "must be a duration")),
        row("4", "exponent", warmup("1e9h"), denied(WARMUP, "must be a duration")),
        row(
            "5",
            "over 64 bits",
            warmup("9999999999999999999s"),
            denied(WARMUP, "at most 2562047h"),
        ),
        row("6", "words", warmup("5 days"), denied(WARMUP, "must be a duration")),
        // the contract has d for 24 h, within the maximum of grace periods
        row("7", "a day", annotated("successTTLDuration", "5d"), Accepted),
        row("8", "month", warmup("1M"), denied(WARMUP, "must be a duration")),
        row("8", "year", warmup("1y"), denied(WARMUP, "must be a duration")),
        row("9", "over the maximum", warmup("25h"), Warned { says: "clipped to 24h" }),
        row("10", "less than it counts", warmup("0.0000000001ns"), Accepted),
        row("11", "negative limit", limit("-1"), denied(LIMIT, "must be a whole number from 0")),
        row("12", "2³²", limit("4294967296"), denied(LIMIT, "must be a whole number from 0")),
        row("13", "2³¹", limit("2147483648"), denied(LIMIT, "must be a whole number from 0")),
        row("14", "fraction", limit("3.5"), denied(LIMIT, "must be a whole number from 0")),
        row("14", "exponent", limit("1e3"), denied(LIMIT, "must be a whole number from 0")),
        row("15", "word", terminal("abc"), denied(CODES, "is not an exit code")),
        // the contract allows spaces
        row("16", "spaces", terminal("1, 2"), Accepted),
        row("17", "zero", terminal("0"), denied(CODES, "from 1 to 255")),
        row("18", "256", terminal("256"), denied(CODES, "from 1 to 255")),
        row("18", "minus", terminal("-1"), denied(CODES, "from 1 to 255")),
        row("19", "semicolon", terminal("1;2"), denied(CODES, "separated by commas")),
        row("20", "gap", terminal("1,,2"), denied(CODES, "has an empty item")),
        row(
            "20",
            "in both lists",
            Object(both),
            denied(
                "metadata.annotations[workload.codeflare.dev.appwrapper/retryableExitCodes]",
                "2 also in",
            ),
        ),
        // the contract accepts an unknown key with a warning
        row(
            "21",
            "typo",
            annotated("retryLimitt", "5"),
            Warned { says: "did you mean retryLimit?" },
        ),
    ]
}

fn policies() -> Vec<Row> {
    const VALUES: &str = "spec.podFailurePolicy.rules[0].onExitCodes.values";
    const VALUE: &str = "spec.podFailurePolicy.rules[0].onExitCodes.values[0]";
    const SECOND: &str = "spec.podFailurePolicy.rules[0].onExitCodes.values[1]";
    const PATTERN: &str = "spec.failurePolicy.rules[0].onJobFailureMessagePatterns[0]";
    let all: Vec<i32> = (0..=255).collect();
    let ignore = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]});
    let many = vec![json!({"type": "DisruptionTarget"}); 21];
    let other = json!({"containerName": "other", "operator": "In", "values": [1]});
    vec![
        row("22", "success is no failure", codes("In", json!([0])), denied(VALUE, "must not be 0"))
            .server("must not have 0"),
        row("22", "unsorted", codes("In", json!([2, 1])), denied(SECOND, "ascending order"))
            .server("must be in ascending order"),
        row("23", "twice", codes("In", json!([1, 1])), denied(SECOND, "unique"))
            .server("Duplicate value"),
        row("24", "none", codes("In", json!([])), denied(VALUES, "at least one entry"))
            .server("at least 1 items"),
        row("24", "256 of them", codes("NotIn", json!(all)), denied(VALUES, "at most 255"))
            .server("must have at most 255 items"),
        row("24", "over 255", codes("In", json!([256])), denied(VALUE, "at most 255"))
            .server("less than or equal to 255"),
        row(
            "25",
            "21 rules",
            spec("podFailurePolicy", json!({"rules": vec![ignore; 21]})),
            denied("spec.podFailurePolicy.rules", "at most 20 entries"),
        )
        .server("must have at most 20 items"),
        row(
            "25",
            "unknown container",
            spec("podFailurePolicy", json!({"rules": [{"action": "Count", "onExitCodes": other}]})),
            denied(
                "spec.podFailurePolicy.rules[0].onExitCodes.containerName",
                "must be a container of the pods: one of main",
            ),
        ),
        row(
            "25",
            "21 conditions",
            spec(
                "podFailurePolicy",
                json!({"rules": [{"action": "Count", "onPodConditions": many}]}),
            ),
            denied("spec.podFailurePolicy.rules[0].onPodConditions", "at most 20 entries"),
        )
        .server("must have at most 20 items"),
        // linear in the message, so no trap
        row("26", "nested repetition", pattern("(a+)+$"), Accepted),
        row("27", "explodes", pattern("(?:a{1000}){1000}"), denied(PATTERN, "at most 1 MiB")),
        row("28", "unclosed", pattern("("), denied(PATTERN, "unclosed group")),
        row(
            "28",
            "21 patterns",
            patterns(&["a"; 21]),
            denied("spec.failurePolicy.rules[0].onJobFailureMessagePatterns", "at most 20 entries"),
        )
        .server("must have at most 20 items"),
        row("28", "513 bytes", pattern(&"a".repeat(513)), denied(PATTERN, "at most 512"))
            .server("may not be more than 512"),
        row(
            "28",
            "257 letters of 2 bytes",
            pattern(&"é".repeat(257)),
            denied(PATTERN, "512 bytes"),
        ),
    ]
}

fn retry_policies() -> Vec<Row> {
    const RULE: &str = "spec.rules[0]";
    const FACTOR: &str = "spec.rules[0].mutate.memory.factor";
    const NAMED: &str = "spec.rules[0].name";
    let unspecified = json!({"action": null, "onConditions": ["Evicted"]});
    let category = |name: &str| retry_policy(json!({"onFailureCategory": [name]}));
    vec![
        row(
            "29",
            "no action",
            retry_policy(unspecified),
            denied("spec.rules[0].action", "must be given"),
        )
        .server("spec.rules[0].action"),
        row("30", "no matcher", retry_policy(json!({})), denied(RULE, "exactly one of"))
            .server("exactly one of onConditions"),
        row(
            "30",
            "two matchers",
            evicted(json!({"onFailureCategory": ["oom"]})),
            denied(RULE, "exactly one of"),
        )
        .server("exactly one of onConditions"),
        row(
            "30",
            "nothing grows",
            evicted(json!({"mutate": {}})),
            denied("spec.rules[0].mutate.memory", "must be given"),
        )
        .server("must be given"),
        row("31", "factor 1", factor(json!(1)), denied(FACTOR, "above 1")).server("above 1"),
        row("31", "factor below 1", factor(json!(0.5)), denied(FACTOR, "above 1"))
            .server("above 1"),
        row("31", "no number", factor(json!("NaN")), denied(FACTOR, "must be a number"))
            .server("must be of type number"),
        row("31", "factor 1e308", factor(json!(1e308)), denied(FACTOR, "at most 100"))
            .server("at most 100"),
        row(
            "32",
            "name of 64",
            evicted(json!({"name": "a".repeat(64)})),
            denied(NAMED, "at most 63"),
        )
        .server("may not be more than 63"),
        row("32", "capitals", evicted(json!({"name": "A"})), denied(NAMED, "1 to 63 lower-case"))
            .server("must be 1 to 63 lower-case"),
        row(
            "32",
            "no category",
            category(""),
            denied("spec.rules[0].onFailureCategory[0]", "name of a category"),
        )
        .server("names of categories"),
        row(
            "32",
            "limit 2³²",
            evicted(json!({"retryLimit": 4_294_967_296_i64})),
            denied("spec.rules[0].retryLimit", "whole number"),
        )
        .server("spec.rules[0].retryLimit"),
        // the policy may come later; until then a user sees that it is missing
        row(
            "33",
            "missing policy",
            annotated("retryPolicies", "nowhere"),
            Warned { says: "nowhere" },
        )
        .cluster(),
        row(
            "33",
            "no name",
            annotated("retryPolicies", "a,,b"),
            denied(
                "metadata.annotations[workload.codeflare.dev.appwrapper/retryPolicies]",
                "has an empty item",
            ),
        ),
    ]
}

fn pods() -> Vec<Row> {
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
            denied("spec.components", "1 to 10 pod sets"),
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
        row("40", "11 pod sets", Object(jobs(11)), denied("spec.components", "1 to 10 pod sets")),
        row(
            "41",
            "one path twice",
            pod_sets(json!([{"path": POD}, {"path": POD}])),
            denied("spec.components[0].podSets[1].path", "another path"),
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

fn names() -> Vec<Row> {
    const FIELD: &str = "metadata.name";
    let named = |name: &str| Object(with(&good(), "/metadata/name", json!(name)));
    let twins = wrap(&[job("a"), job("a")]);
    const RULE: &str = "must be 1 to 61";
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
        row("72", "bidi", named("a\u{202e}b"), denied(FIELD, RULE)).server("RFC 1123"),
        row("72", "zero width", named("a\u{200b}b"), denied(FIELD, RULE)).server("RFC 1123"),
    ]
}

fn templates() -> Vec<Row> {
    let metadata = |field: &str, value: Value| beside(&format!("/metadata/{field}"), value);
    let queue = "kueue.x-k8s.io/queue-name";
    let label = "workload.codeflare.dev/appwrapper";
    let mut queued = good();
    queued["metadata"]["labels"] = json!({ queue: "main" });
    queued["spec"]["components"][0]["template"]["metadata"]["labels"] = json!({ queue: "other" });
    let mut child = good();
    child["spec"]["components"][0]["template"]["metadata"]["labels"] = json!({ queue: "other" });
    let pod_labels = format!("{FIRST}/template/spec/template/metadata/labels");
    let pod = |field: &str, value: Value| {
        Object(with(&good(), &format!("{FIRST}/template/spec/template/spec/{field}"), value))
    };
    vec![
        row(
            "52",
            "owners",
            metadata(
                "ownerReferences",
                json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]),
            ),
            denied("spec.components[0].template.metadata.ownerReferences", "must be left out"),
        ),
        row(
            "52",
            "finalizers",
            metadata("finalizers", json!(["a/b"])),
            denied("spec.components[0].template.metadata.finalizers", "must be left out"),
        ),
        row(
            "53",
            "uid",
            metadata("uid", json!("u")),
            denied("spec.components[0].template.metadata.uid", "must be left out"),
        ),
        row(
            "53",
            "version",
            metadata("resourceVersion", json!("1")),
            denied("spec.components[0].template.metadata.resourceVersion", "must be left out"),
        ),
        row(
            "53",
            "fields",
            metadata("managedFields", json!([{"manager": "m"}])),
            denied("spec.components[0].template.metadata.managedFields", "must be left out"),
        ),
        row(
            "53",
            "status",
            beside("/status", json!({"a": 1})),
            denied("spec.components[0].template.status", "must be left out"),
        ),
        row(
            "54",
            "our label",
            metadata("labels", json!({ label: "victim" })),
            denied(
                "spec.components[0].template.metadata.labels[workload.codeflare.dev/appwrapper]",
                "the controller sets it",
            ),
        ),
        row(
            "54",
            "our label on pods",
            Object(with(&good(), &pod_labels, json!({ label: "victim" }))),
            denied(
                "spec.components[0].template.spec.template.metadata.labels[workload.codeflare.dev/appwrapper]",
                "must be left out",
            ),
        ),
        row(
            "55",
            "another queue",
            Object(queued),
            denied(
                "spec.components[0].template.metadata.labels[kueue.x-k8s.io/queue-name]",
                "own queue \"main\"",
            ),
        ),
        row(
            "56",
            "a queue of its own",
            Object(child),
            Warned { says: "Kueue would admit this component" },
        ),
        row(
            "57",
            "another namespace",
            metadata("namespace", json!("other")),
            denied(
                "spec.components[0].template.metadata.namespace",
                "the AppWrapper's own namespace",
            ),
        ),
        // the right to create the pod decides, and the admission of pods
        row(
            "67",
            "privileged",
            pod("containers/0/securityContext", json!({"privileged": true})),
            Accepted,
        ),
        row(
            "67",
            "host path",
            pod("volumes", json!([{"name": "v", "hostPath": {"path": "/"}}])),
            Accepted,
        ),
        row("67", "account", pod("serviceAccountName", json!("other")), Accepted),
        row(
            "67",
            "node",
            pod("nodeName", json!("node-0")),
            denied(
                "spec.components[0].template.spec.template.spec.nodeName",
                "bypasses the scheduler",
            ),
        ),
    ]
}

fn kinds() -> Vec<Row> {
    const KIND: &str = "spec.components[0].template.kind";
    let wrapping = |object: Value| Object(wrap(&[object, job("a")]));
    let inner = |version: &str| {
        let mut inner = object_of(&format!("workload.codeflare.dev/{version}"), "AppWrapper");
        inner["spec"] = json!({"components": []});
        inner
    };
    let mut list = object_of("v1", "List");
    list["items"] = json!([inner("v1beta2")]);
    let mut hidden = object_of("example.com/v1", "Template");
    hidden["spec"] = json!({"template": inner("v1beta1")});
    let mut rows = vec![
        row(
            "59",
            "unknown",
            wrapping(object_of("nowhere.example.com/v1", "Nothing")),
            denied("spec.components[0].template", "Nothing"),
        )
        .cluster(),
        row("60", "nested", wrapping(inner("v1beta2")), denied(KIND, "of any version")),
        row(
            "61",
            "nested in another version",
            wrapping(inner("v1beta1")),
            denied(KIND, "of any version"),
        ),
        row("62", "in a list", wrapping(list), denied(KIND, "must not be a list")),
        row(
            "62",
            "in a template",
            wrapping(hidden),
            denied("spec.components[0].template.spec.template.kind", "of any version"),
        ),
        // by the contract every namespaced kind is allowed that the user may create, unless the
        // configuration has a list
        row("63", "role", wrapping(object_of("rbac.authorization.k8s.io/v1", "Role")), Accepted),
        row(
            "66",
            "subresource",
            wrapping(object_of("v1", "pods/exec")),
            denied(KIND, "must be a kind"),
        ),
        row(
            "66",
            "token",
            wrapping(object_of("authentication.k8s.io/v1", "TokenRequest")),
            denied("spec.components[0].template", "TokenRequest"),
        )
        .cluster(),
    ];
    for (number, api_version, kind) in [
        ("58", "rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("58", "v1", "Namespace"),
        ("58", "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("58", "v1", "Node"),
        ("63", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
        ("64", "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
        ("64", "apiregistration.k8s.io/v1", "APIService"),
        ("65", "certificates.k8s.io/v1", "CertificateSigningRequest"),
        ("65", "v1", "PersistentVolume"),
    ] {
        let given = wrapping(object_of(api_version, kind));
        rows.push(row(number, kind, given, denied("spec.components[0].template", kind)).cluster());
    }
    rows
}

/// A good AppWrapper as a text, in the namespace of the test.
fn here() -> String {
    good().to_string().replace("\"team\"", "\"inputs\"")
}

/// A good AppWrapper with a text in the place of an annotation's value.
fn written(value: &[u8]) -> Given {
    let aw = with(&good(), "/metadata/annotations", json!({"a": "PLACE"})).to_string();
    let aw = aw.replace("\"team\"", "\"inputs\"");
    let (before, after) = aw.split_once("PLACE").expect("it is there");
    Text([before.as_bytes(), value, after.as_bytes()].concat())
}

fn texts() -> Vec<Row> {
    let deep = |levels: usize| {
        let mut value = json!({});
        for _ in 1..levels {
            value = json!({ "a": value });
        }
        beside("/spec", value)
    };
    let long = |bytes: usize| beside("/data", json!({"a": "x".repeat(bytes)}));
    let labels: Map<String, Value> = (0..100_000).map(|i| (format!("l{i}"), json!("b"))).collect();
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned()
        + &(0..8).map(|i| {
            let (new, old) = (char::from(b'b' + i), char::from(b'a' + i));
            format!("{new}: &{new} [*{old},*{old},*{old},*{old},*{old},*{old},*{old},*{old},*{old}]\n")
        }).collect::<String>()
        + "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {name: bomb}\n";
    let surrogate = here().replace("\"sample\"", r#""a\ud800b""#);
    vec![
        // the object, spec, components, the component and its template are levels too
        row("68", "65 levels", deep(60), denied("", "must have at most 64 levels")),
        row("68", "64 levels", deep(59), Accepted),
        row("68", "over 1 MiB", long(1 << 20), denied("", "must be at most 1048576 bytes")),
        row("69", "10⁵ labels", Object(with(&good(), "/metadata/labels", labels.into())), denied("", "must be at most 1048576 bytes")),
        row("69", "annotations of 300 kB", Object(with(&good(), "/metadata/annotations", json!({"a": "x".repeat(300_000)}))), RefusedByServer { says: "metadata.annotations: Too long" }),
        row("69", "over 3 MiB", Text(here().replace("busybox", &"x".repeat(3_200_000)).into()), RefusedByServer { says: "limit is 3145728" }),
        row("70", "anchors", Text(bomb.into()), RefusedByServer { says: "excessive aliasing" }),
        row("71", "no UTF-8", Text([b"apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {name: a".as_slice(), &[0xff, 0xfe], b"}\n"].concat()), RefusedByServer { says: "RFC 1123" }),
        row("71", "a control character", written(b"a\0b"), RefusedByServer { says: "invalid character" }),
        row("71", "NUL in a name", Object(with(&good(), "/metadata/name", json!("a\0b"))), denied("metadata.name", "must be 1 to 61")).server("RFC 1123"),
        row("73", "half a surrogate pair", Text(surrogate.into()), RefusedByServer { says: "RFC 1123" }),
    ]
}

fn changes() -> Vec<Row> {
    let mut queued = good();
    queued["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "main"});
    let set = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    let change = |path: &str, value: Value| Change(good(), set(path, value));
    let other = json!([{"path": POD, "replicas": 7}]);
    let infos = json!([{"nodeSelector": {"a": "b"}}]);
    let user = "/metadata/labels";
    vec![
        row(
            "74",
            "template",
            change(&format!("{FIRST}/template/spec/parallelism"), json!(2)),
            denied("spec.components[0].template", "must not be changed"),
        )
        .server("templates must not be changed"),
        row(
            "74",
            "manager",
            change("/spec/managedBy", json!("example.com/x")),
            denied("spec.managedBy", "must not be changed"),
        )
        .server("must not be changed"),
        row(
            "74",
            "pod sets",
            change(&format!("{FIRST}/podSets"), other),
            denied("spec.components[0].podSets", "must not be changed"),
        )
        .server("podSets must not be changed"),
        row(
            "74",
            "user",
            change(user, json!({"workload.codeflare.dev/user": "somebody"})),
            denied("metadata.labels[workload.codeflare.dev/user]", "must not be changed"),
        ),
        row(
            "74",
            "pod set infos",
            Change(queued, set(&format!("{FIRST}/podSetInfos"), infos)),
            denied("spec.components[0].podSetInfos", "by Kueue alone"),
        ),
        row(
            "75",
            "no components left",
            change("/spec/components", json!([])),
            denied("spec.components", "must not be changed"),
        )
        .server("spec.components"),
        row(
            "75",
            "another component",
            change("/spec/components/-", json!({"template": job("b")})),
            denied("spec.components", "must not be changed"),
        )
        .server("no component can be added"),
    ]
}
