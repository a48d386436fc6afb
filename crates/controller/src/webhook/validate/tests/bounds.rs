use super::*;

#[test]
fn names_are_short_labels() {
    for (row, name, fits) in [
        ("47", json!("a".repeat(61)), true),
        ("47", json!("a".repeat(62)), false),
        ("47", json!("a".repeat(253)), false),
        ("48", json!("a.b"), false),
        ("72", json!("a\u{200b}b"), false),
        ("72", json!("A"), false),
        ("72", json!(7), false),
    ] {
        let said = judged(&with(&given(&[job("a")]), "/metadata/name", name));
        if fits {
            assert_eq!(said, Vec::<String>::new());
        } else {
            only(row, &said, "error: metadata.name: Invalid value: ", "must be 1 to 61 lower-case");
        }
    }
    let nameless = with(&given(&[job("a")]), "/metadata", json!({"namespace": "team"}));
    only("47", &judged(&nameless), "error: metadata.name: must be 1 to 61", "");
    for (prefix, fits) in [("a".repeat(56), true), ("a".repeat(57), false), ("a.".into(), false)] {
        let said = judged(&with(&nameless, "/metadata/generateName", json!(prefix)));
        if fits {
            assert_eq!(said, Vec::<String>::new());
        } else {
            only(
                "47",
                &said,
                "error: metadata.generateName: ",
                "the 5 that the API server appends",
            );
        }
    }
}

#[test]
fn annotations_are_judged_by_their_limits() {
    for (row, name, value, start, fragment) in [
        ("1", "warmupGracePeriodDuration", "-1h", "error", "must not be negative"),
        ("2", "warmupGracePeriodDuration", "", "error", "must be a duration"),
        ("3", "warmupGracePeriodDuration", "NaN", "error", "must be a duration"),
        ("4", "warmupGracePeriodDuration", "1e9h", "error", "must be a duration"),
        ("5", "warmupGracePeriodDuration", "9999999999999999999s", "error", "2562047h"),
        ("6", "warmupGracePeriodDuration", "5 days", "error", "must be a duration"),
        ("8", "warmupGracePeriodDuration", "1M", "error", "must be a duration"),
        ("8", "warmupGracePeriodDuration", "1y", "error", "must be a duration"),
        ("9", "warmupGracePeriodDuration", "25h", "warning", "capped at 24h"),
        ("9", "successTTLDuration", "8d", "warning", "capped at 7d"),
        ("11", "retryLimit", "-1", "error", "must be a whole number from 0 to 2147483647"),
        ("12", "retryLimit", "4294967296", "error", "must be a whole number"),
        ("13", "retryLimit", "2147483648", "error", "must be a whole number"),
        ("14", "retryLimit", "3.5", "error", "must be a whole number"),
        ("14", "retryLimit", "1e3", "error", "must be a whole number"),
        ("15", "terminalExitCodes", "abc", "error", "\"abc\" is not an exit code"),
        ("17", "terminalExitCodes", "0", "error", "from 1 to 255"),
        ("18", "terminalExitCodes", "256", "error", "from 1 to 255"),
        ("18", "retryableExitCodes", "-1", "error", "from 1 to 255"),
        ("19", "retryableExitCodes", "1;2", "error", "separated by commas"),
        ("20", "retryableExitCodes", "1,,2", "error", "has an empty item"),
        ("21", "retryLimitt", "5", "warning", "did you mean retryLimit?"),
        ("33", "retryPolicies", "a,,b", "error", "has an empty item"),
    ] {
        let key = format!("workload.codeflare.dev.appwrapper/{name}");
        let mut aw = given(&[job("a")]);
        aw["metadata"]["annotations"] = json!({ &key: value });
        let said = if start == "error" { "Invalid value: " } else { "" };
        let start = format!("{start}: metadata.annotations[{key}]: {said}{value:?}: ");
        only(row, &judged(&aw), &start, fragment);
    }
    let prefix = "workload.codeflare.dev.appwrapper";
    let mut aw = given(&[job("a")]);
    aw["metadata"]["annotations"] = json!({
        format!("{prefix}/warmupGracePeriodDuration"): "0.0000000001ns",
        format!("{prefix}/deletionOnFailureGracePeriodDuration"): "1d",
        format!("{prefix}/terminalExitCodes"): "1, 2",
    });
    assert_eq!(judged(&aw), Vec::<String>::new(), "rows 7, 10, 16");
    aw["metadata"]["annotations"][format!("{prefix}/retryableExitCodes")] = json!("2,3");
    let start = format!("error: metadata.annotations[{prefix}/retryableExitCodes]: ");
    only("20", &judged(&aw), &start, "2 also in");
}

#[test]
fn metadata_may_be_anything() {
    for (pointer, value, start) in [
        ("/metadata", json!("boo"), "error: metadata: Invalid value: \"boo\": must be an object"),
        ("/metadata/labels", json!([]), "error: metadata.labels: Invalid value: \"[]\""),
        ("/metadata/labels", json!({"a": 1}), "error: metadata.labels[a]: Invalid value: \"1\""),
        (
            "/metadata/labels",
            json!({"kueue.x-k8s.io/queue-name": "Bad Q"}),
            "error: metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: \"Bad Q\": must be the name of a \
             LocalQueue: at most 63",
        ),
        (
            "/metadata/labels",
            json!({"kueue.x-k8s.io/queue-name": "a".repeat(64)}),
            "error: metadata.labels[kueue.x-k8s.io/queue-name]: ",
        ),
        ("/metadata/annotations", json!({"a": {}}), "error: metadata.annotations[a]: "),
        (
            "/metadata/annotations",
            json!({"a": 5}),
            "error: metadata.annotations[a]: Invalid value: \"5\": must be a string: write \"5\"",
        ),
        (
            "/metadata/labels",
            json!({"kueue.x-k8s.io/queuename": "q", "kueue.x-k8s.io/priority-class": "high"}),
            "warning: metadata.labels[kueue.x-k8s.io/queuename]: \"q\": has no effect: did you \
             mean the label kueue.x-k8s.io/queue-name?",
        ),
        (
            "/metadata/annotations",
            json!({"kueue.x-k8s.io/queue-name": "q"}),
            "warning: metadata.annotations[kueue.x-k8s.io/queue-name]: \"q\": has no effect: set \
             it in metadata.labels",
        ),
        (
            "/metadata/labels",
            json!({"workload.codeflare.dev.appwrapper/retryLimit": "5"}),
            "warning: metadata.labels[workload.codeflare.dev.appwrapper/retryLimit]: \"5\": has \
             no effect: set it in metadata.annotations",
        ),
        ("/apiVersion", json!("workload.codeflare.dev/v1beta1"), "error: apiVersion: "),
        ("/kind", json!("Job"), "error: kind: Invalid value: \"Job\": must be AppWrapper"),
        ("/spec", json!(7), "error: spec: Invalid value: \"7\": must be an object"),
        ("/spec", json!({}), "error: spec.components: must be given"),
        ("/spec", json!({"components": {}}), "error: spec.components: Invalid value: \"{}\""),
        (
            "/spec/suspend",
            json!("yes"),
            "error: spec.suspend: Invalid value: \"yes\": must be true",
        ),
        ("/spec/managedBy", json!(1), "error: spec.managedBy: Invalid value: \"1\": must be a str"),
        (
            "/spec/managedBy",
            json!("foo"),
            "warning: spec.managedBy: \"foo\": this controller leaves the AppWrapper alone; to \
             have it run here, leave the field out",
        ),
        (
            "/spec/progress",
            json!({"stallAfter": 5}),
            "error: spec.progress.stallAfter: Invalid value: \"5\": must be a duration such as 10m",
        ),
        (
            "/spec/failurePolicy",
            json!({"refill": "24h"}),
            "error: spec.failurePolicy.refill: Invalid value: \"24h\": must be an object such as \
             {after: 24h}",
        ),
        (
            "/spec/components",
            json!([job("a")]),
            "error: spec.components[0].template: must be given: put the batch/v1 Job under template",
        ),
        ("/spec/failPolicy", json!({}), "warning: spec.failPolicy: \"{}\": unknown"),
    ] {
        let said = judged(&with(&given(&[job("a")]), pointer, value));
        assert!(said.iter().any(|line| line.starts_with(start)), "{start}: {said:#?}");
        assert!(said.len() <= 2, "{said:#?}");
    }
    for nothing in [json!(null), json!([]), json!("x"), json!(1)] {
        only("71", &judged(&nothing), "error: Invalid value: ", "must be an object of kind");
    }
}

#[test]
fn labels_and_annotations_are_such_as_the_api_server_takes() {
    let component = "/spec/components/0/template";
    for (at, path) in [
        ("/metadata", "metadata"),
        (&format!("{component}/metadata"), "spec.components[0].template.metadata"),
        (
            &format!("{component}/spec/template/metadata"),
            "spec.components[0].template.spec.template.metadata",
        ),
    ] {
        let set = |part: &str, key: &str, value: &str| {
            with(&given(&[job("a")]), &format!("{at}/{part}"), json!({ key: value }))
        };
        let long = "x".repeat(64);
        for (part, key, value, want) in [
            ("labels", "a b", "x", ": the key must be a name of at most 63"),
            ("labels", "/a", "x", ": the key must be a name of at most 63"),
            ("labels", "a/b/c", "x", ": the key must be a name of at most 63"),
            ("labels", "Example.com/a", "x", ": the key must be a name of at most 63"),
            ("labels", "a", "b c", ": Invalid value: \"b c\": must be at most 63 letters"),
            ("labels", "a", &long, ": Invalid value: \"xxx"),
            ("annotations", "a b", "x", ": the key must be a name of at most 63"),
            ("annotations", &long, "x", ": the key must be a name of at most 63"),
        ] {
            let aw = set(part, key, value);
            only(path, &judged(&aw), &format!("error: {path}.{part}["), want);
            // it is there already
            let changed = with(&aw, "/spec/suspend", json!(false));
            let said = update(&aw, &changed, Requester::default(), &Config::default());
            assert_eq!(say(said), Vec::<String>::new(), "{path} {key}");
        }
        for (part, key, value) in [
            ("labels", "a", ""),
            ("labels", "example.com/A_b.c", "B-1_c.d"),
            ("annotations", "Example.com/a", "any text: of any length"),
        ] {
            assert_eq!(judged(&set(part, key, value)), Vec::<String>::new(), "{path} {key}");
        }
    }
}

#[test]
fn depth_is_bounded() {
    let nest = |levels: usize| {
        let mut value = json!({});
        for _ in 1..levels {
            value = json!({ "a": value });
        }
        value
    };
    // the object, spec, components, the component, its template and spec are levels too
    let of = |levels| {
        with(&given(&[job("a"), service("b")]), "/spec/components/1/template/spec", nest(levels))
    };
    assert_eq!(judged(&of(64 - 5)), Vec::<String>::new());
    only("68", &judged(&of(65 - 5)), "error: must have at most 64 levels", "");
    only("68", &judged(&of(1000)), "error: must have at most 64 levels", "");
}

#[test]
fn findings_are_bounded_and_errors_come_through() {
    let many: serde_json::Map<String, Value> =
        (0..1000).map(|i| (format!("unknown{i}"), json!(1))).collect();
    let mut aw = with(&given(&[job("a")]), "/spec/components/0/podSets", json!("x"));
    aw["spec"]["components"][0].as_object_mut().unwrap().extend(many);
    let said = judged(&aw);
    let errors: Vec<_> = said.iter().filter(|line| line.starts_with("error")).collect();
    assert_eq!(said.len(), 102);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        said.iter().any(
            |line| line == "warning: more findings exist: only 100 of each severity are listed"
        )
    );
}

#[test]
fn a_message_is_short_and_escaped() {
    let name = format!("a\u{202e}\0\"{}", "b".repeat(1000));
    let said = judged(&with(&given(&[job("a")]), "/metadata/name", json!(name)));
    only(
        "72",
        &said,
        "error: metadata.name: Invalid value: \"a\\u{202e}\\0\\\"bbb",
        "b…\": must be",
    );
    assert!(said[0].len() < 300, "{said:?}");
}
