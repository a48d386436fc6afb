use serde_json::json;

use super::*;

fn source(text: &str) -> [Source; 1] {
    [Source { name: "f".into(), bytes: text.as_bytes().to_vec() }]
}

fn read(text: &str) -> Vec<Result<String, String>> {
    let show = |each: Result<Document, Flaw>| match each {
        Ok(document) => Ok(format!("{}: {}", document.origin, document.title())),
        Err(flaw) => Err(flaw.to_string()),
    };
    documents(&source(text)).into_iter().map(show).collect()
}

fn good(text: &str) -> Vec<String> {
    read(text).into_iter().map(|each| each.expect("it is well formed")).collect()
}

#[test]
fn documents_lists_and_json_are_read() {
    let object = r#"{"kind": "Pod", "metadata": {"name": "p"}}"#;
    for (text, want) in [
        ("kind: Pod\nmetadata: {name: p}\n", vec!["f: Pod/p"]),
        (
            "# nothing\n---\nkind: Pod\nmetadata:\n  name: p\n---\n---\nkind: Job\nmetadata: {name: j}\n",
            vec!["f, document 1 (line 3): Pod/p", "f, document 2 (line 8): Job/j"],
        ),
        (object, vec!["f: Pod/p"]),
        (&format!("{object}\n{object}"), vec!["f, document 1: Pod/p", "f, document 2: Pod/p"]),
        (
            &format!("{object}\n---\n{object}\n"),
            vec!["f, document 1: Pod/p", "f, document 2: Pod/p"],
        ),
        (&format!("{{kind: List, items: [{object}]}}"), vec!["f, items[0]: Pod/p"]),
        (
            r#"{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}"#,
            vec!["f, items[0]: Pod/a"],
        ),
        (
            "kind: List\nitems:\n- {kind: List, items: [{kind: A, metadata: {name: b}}]}\n",
            vec!["f, items[0].items[0]: A/b"],
        ),
        ("kind: List\n", vec![]),
        ("kind: JobList\nitems: null\n", vec![]),
        ("kind: JobList\n", vec!["f: JobList/"]),
        ("kind: AllowList\nmetadata: {name: a}\nitems: {b: c}\n", vec!["f: AllowList/a"]),
        ("", vec![]),
    ] {
        assert_eq!(good(text), want, "{text}");
    }
}

#[test]
fn scalars_and_names_of_fields_are_read_as_kubectl_reads_them() {
    for (yaml, want) in [
        ("at: 2026-01-01T00:00:00Z", json!({"at": "2026-01-01T00:00:00Z"})),
        ("a: [1, true, -1, 1.5, null]", json!({"a": [1, true, -1, 1.5, null]})),
        ("a: [yes, No, on, OFF, y, n]", json!({"a": [true, false, true, false, true, false]})),
        ("a: [0400, 0644, -010, 0o17, 0b11, 0x1F]", json!({"a": [256, 420, -8, 15, 3, 31]})),
        ("a: [08, 0989, 1e3, 1., 0, 00]", json!({"a": [8, 989, 1000, 1, 0, 0]})),
        ("a: 1:30", json!({"a": "1:30"})),
        ("a: 190:20:30", json!({"a": "190:20:30"})),
        ("a: [10.0.0.1, 1_000, 0.5]", json!({"a": ["10.0.0.1", 1000, 0.5]})),
        ("a: ['yes', \"0400\", '1']", json!({"a": ["yes", "0400", "1"]})),
        (
            "{on: a, n: b, 0400: c, 1e3: d, 1.5: e}",
            json!({"true": "a", "false": "b", "256": "c", "1000": "d", "1.5": "e"}),
        ),
    ] {
        let text = format!("kind: X\nx:\n  {yaml}\n");
        let document = documents(&source(&text)).remove(0).unwrap();
        assert_eq!(document.value, json!({"kind": "X", "x": want}), "{yaml}");
        assert_eq!(as_kubectl_reads(yaml), Some(want), "{yaml}");
    }
}

#[test]
fn a_whole_number_of_json_has_no_decimal_point() {
    let text = r#"{"kind": "X", "a": [1.0, 1e3, -0.0, 0.5, 1e300]}"#;
    let document = documents(&source(text)).remove(0).unwrap();
    assert_eq!(document.value, json!({"kind": "X", "a": [1, 1000, 0, 0.5, 1e300]}));
}

#[test]
fn a_flaw_names_its_place() {
    for (text, want) in [
        ("just a text", "must be a Kubernetes object"),
        ("kind: A\n---\n- 1\n", "f, document 2 (line 3): must be a Kubernetes object"),
        ("metadata: {}", "f: kind: must be given"),
        ("apiVersion: v1\nspec: {}", "f: kind: must be given"),
        ("apiVersion: v2\nname: chart", "f: must be a Kubernetes object: it has no kind, "),
        ("replicas: 1", "f: must be a Kubernetes object: it has no kind, "),
        ("kind: List\nitems: 3", "items: must be a list"),
        ("kind: A\nspec: [\n", "invalid YAML"),
        ("kind: A\n  bad: indent\n", "line 2"),
        ("kind: A\nkind: B\n", "duplicate"),
        ("{\"kind\": \"A\",\n \"b\": ]}", "line 2"),
        ("kind: A\nx: *nobody\n", "invalid YAML"),
        ("{\"kind\": \"A\", \"kind\": \"B\"}", "invalid JSON: duplicate field \"kind\""),
        ("[{\"kind\": \"A\", \"x\": {\"a\": 1, \"a\": 2}}]", "line 1 column 32"),
        ("kind: A\nx: {a: 1, a: 2}\n", "duplicate field \"a\" (an API server keeps the last"),
        ("kind: A\nx: {1: a, '1': b}\n", "duplicate field \"1\""),
        ("kind: A\nx: {on: a, yes: b}\n", "duplicate field \"true\""),
        (
            "kind: A\nx: .inf\n",
            "number .inf is not finite (put it in quotes if a string is meant) at line 2",
        ),
        ("kind: A\nlabels: {commit: 123e4567}\n", "number 123e4567 is not finite"),
        ("{\"kind\": \"A\", \"x\": 1e999}", "number out of range"),
        ("kind: A\nx: \"\0\"\n", "unexpected character"),
        ("kind: A\nx: &x [*x]\n", "recursive"),
    ] {
        let flaws: Vec<String> = read(text).into_iter().filter_map(Result::err).collect();
        assert!(flaws.len() == 1 && flaws[0].contains(want), "{text}: {flaws:?}");
    }
}

#[test]
fn only_a_file_that_is_named_has_to_have_objects() {
    for (files, file, text, is_left_out) in [
        ("chart", "chart/values.yaml", "replicas: 1", true),
        ("chart", "chart/Chart.yaml", "apiVersion: v2\nname: chart", true),
        ("./", "./values.yaml", "replicas: 1", true),
        ("chart", "chart/p.yaml", "- op: replace", true),
        ("chart", "chart/p.yaml", "just a text", true),
        ("chart", "chart/a.yaml", "metadata: {name: a}", false),
        ("chart", "chart/a.yaml", "apiVersion: v1\nspec: {}", false),
        ("chart", "chart/a.yaml", "spec: [", false),
        ("chart", "chart/a.yaml", "{kind: List, items: [{}]}", false),
        ("chart", "chart/a.yaml", "{kind: List, items: [1]}", false),
        ("chart/values.yaml", "chart/values.yaml", "replicas: 1", false),
        ("chart/p.yaml", "chart/p.yaml", "- op: replace", false),
        ("chart chart/values.yaml", "chart/values.yaml", "replicas: 1", false),
        ("-", "stdin", "replicas: 1", false),
    ] {
        let files: Vec<PathBuf> = files.split(' ').map(PathBuf::from).collect();
        let source = Source { name: file.into(), bytes: text.into() };
        let found = documents_of(&files, &[source]);
        assert_eq!(found.is_empty(), is_left_out, "{files:?} {file} {text}: {found:?}");
    }
}

#[test]
fn yaml_in_its_flow_style_is_read_up_to_a_size() {
    let flow = |bytes: usize| format!("{{kind: A, metadata: {{name: {}}}}}", "n".repeat(bytes));
    assert!(read(&flow(60 << 10)).iter().all(Result::is_ok));
    let flaws: Vec<String> = read(&flow(64 << 10)).into_iter().filter_map(Result::err).collect();
    assert!(flaws.len() == 1 && flaws[0].contains("invalid JSON: "), "{flaws:?}");
}

#[test]
fn large_json_documents_are_separated_as_those_of_yaml() {
    let object = |name: &str| {
        let metadata = json!({"name": name, "annotations": {"a": "n".repeat(64 << 10)}});
        json!({"kind": "Pod", "metadata": metadata}).to_string()
    };
    for (separator, is_read) in [
        ("\n---\n", true),
        ("\r\n---\r\n", true),
        ("\n---  \n", true),
        ("\n--- # Source: \"chart/pod.yaml [{\n", false),
        ("\n---\n---\n", true),
        ("\n--- # a\r\"b\"\n", false),
        ("\n---#\n", false),
        ("\n--- |\n", false),
        ("\n ---\n", false),
    ] {
        let found = read(&format!("{}{separator}{}", object("p"), object("q")));
        let found: Vec<String> = found.into_iter().filter_map(Result::ok).collect();
        let is_found = found == ["f, document 1: Pod/p", "f, document 2: Pod/q"];
        assert_eq!(is_found, is_read, "{separator:?}: {found:?}");
    }
}

#[test]
fn bombs_are_refused_with_one_clear_error() {
    let deep_json = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    let deep_flow = format!("kind: A\nspec: {}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let mut deep_block = "kind: A\n".to_owned();
    for level in 0..2_000 {
        deep_block += &format!("{}a:\n", " ".repeat(level));
    }
    let deep_dashes = format!("kind: A\nx:\n{}1\n", "- ".repeat(10_000));
    let mut aliases = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
    for level in 1..20 {
        let before = format!("*a{}", level - 1);
        aliases += &format!("a{level}: &a{level} [{}]\n", [before.as_str(); 10].join(", "));
    }
    let texts = format!("a: &a {}\nb:\n{}", "x".repeat(200_000), "- *a\n".repeat(1_000));
    let values = format!("[{}1]", "1,".repeat(VALUES_MAX));
    let texts_alone = format!("[]{}", "\"\"".repeat(OBJECTS_MAX));
    let long = format!("kind: A\n{}\n", "y".repeat(1_000_000));
    for (bomb, want) in [
        (deep_json, "at most 100 levels"),
        (deep_flow, "invalid YAML"),
        (deep_block, "at most 100 levels"),
        (deep_dashes, "at most 100 levels"),
        (aliases, "aliases may expand to at most 50000"),
        (texts, "at most 3000000 values"),
        (values, "at most 3000000 values"),
        (texts_alone, "at most 50000 are read"),
        (long, "invalid YAML"),
    ] {
        let found = read(&bomb);
        let [Err(flaw)] = found.as_slice() else { panic!("{} {found:?}", &bomb[..40]) };
        assert!(flaw.len() < 350 && flaw.contains(want), "{flaw}");
    }
}

#[test]
fn files_share_what_is_read_of_them() {
    let of =
        |text: String, count: usize| vec![Source { name: "f".into(), bytes: text.into() }; count];
    let many = documents(&of("kind: A\n---\n".repeat(OBJECTS_MAX / 4), 5));
    let flaws: Vec<_> = many.iter().filter_map(|each| each.as_ref().err()).collect();
    assert_eq!(many.len(), OBJECTS_MAX + 1);
    assert!(flaws.len() == 1 && flaws[0].to_string().contains("at most 50000"), "{flaws:?}");
    let half = format!("{{\"kind\": \"A\", \"x\": [{}1]}}", "1,".repeat(VALUES_MAX / 2));
    let found = documents(&of(half, 3));
    assert_eq!(found.iter().filter(|each| each.is_ok()).count(), 1, "{:?}", found[1]);
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_file() {
    assert_eq!(good("\u{feff}{\"kind\": \"Pod\", \"metadata\": {\"name\": \"p\"}}"), ["f: Pod/p"]);
    assert_eq!(good("\u{feff}kind: Pod\nmetadata: {name: p}\n"), ["f: Pod/p"]);
}

#[test]
fn what_is_allowed_is_not_too_deep() {
    let nest = format!("{}1{}", "{a: ".repeat(62), "}".repeat(62));
    assert_eq!(good(&format!("kind: List\nitems:\n- kind: A\n  x: {nest}\n")).len(), 1);
}
