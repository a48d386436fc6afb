//! Sizes, characters, changes: rows 68 to 75.

use super::*;

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

pub(super) fn texts() -> Vec<Row> {
    let deep = |levels: usize| {
        let mut value = json!({});
        for _ in 1..levels {
            value = json!({ "a": value });
        }
        beside("/spec", value)
    };
    let long = |bytes: usize| beside("/data", json!({"a": "x".repeat(bytes)}));
    let labels: Map<String, Value> =
        (0..9_500).map(|i| (format!("{}{i}", "l".repeat(50)), json!("b".repeat(60)))).collect();
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]
"
    .to_owned();
    for i in 0..8 {
        let (new, old) = (char::from(b'b' + i), char::from(b'a' + i));
        bomb += &format!(
            "{new}: &{new} [{}]
",
            vec![format!("*{old}"); 9].join(",")
        );
    }
    bomb += "apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: bomb}
";
    let surrogate = here().replace("\"sample\"", r#""a\ud800b""#);
    vec![
        // the object, spec, components, the component and its template are levels too
        row("68", "65 levels", deep(60), denied("", "must have at most 64 levels")),
        row("68", "64 levels", deep(59), Accepted),
        row("68", "over 1 MiB", long(1 << 20), denied("", "must be at most 1048576 bytes")),
        row("69", "9,500 labels", Object(with(&good(), "/metadata/labels", labels.into())), denied("", "must be at most 1048576 bytes")),
        row("69", "annotations of 300 kB", Object(with(&good(), "/metadata/annotations", json!({"a": "x".repeat(300_000)}))), RefusedByServer { says: "metadata.annotations: Too long" }),
        row("69", "over 3 MiB", Text(here().replace("busybox", &"x".repeat(3_200_000)).into()), RefusedByServer { says: "limit is 3145728" }),
        row("70", "anchors", Text(bomb.into()), RefusedByServer { says: "excessive aliasing" }),
        row("71", "no UTF-8", Text([b"apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {name: a".as_slice(), &[0xff, 0xfe], b"}\n"].concat()), RefusedByServer { says: "RFC 1123" }),
        row("71", "a control character", written(b"a\0b"), RefusedByServer { says: "invalid character" }),
        row("71", "NUL in a name", Object(with(&good(), "/metadata/name", json!("a\0b"))), denied("metadata.name", "must be 1 to 61")).server("RFC 1123"),
        row("73", "half a surrogate pair", Text(surrogate.into()), RefusedByServer { says: "RFC 1123" }),
    ]
}

pub(super) fn changes() -> Vec<Row> {
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
            denied("spec.components[0].podSetInfos", "only by Kueue"),
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
