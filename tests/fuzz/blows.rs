//! Ways to break a JSON document and its text.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

/// Texts in a document that become something that no document can hold, when it is written.
const DEEP: &str = "@deep";
const DEEP_LEVELS: usize = 2_000;
const SURROGATE: &str = "@surrogate";
const HUGE: &str = "@huge";

/// One blow to a document; an index chooses one of its places.
#[derive(Clone, Debug)]
pub enum Blow {
    /// Another value.
    Put(Index, Value),
    /// It is gone.
    Remove(Index),
    /// It is what stands elsewhere.
    Copy(Index, Index),
    /// It lies so many lists deeper.
    Bury(Index, usize),
    /// A field more.
    Add(Index, String, Value),
    /// A list holds its first item so often.
    Repeat(Index, usize),
}

/// One blow to a text.
#[derive(Clone, Debug)]
pub enum TextBlow {
    None,
    Truncate(Index),
    Byte(Index, u8),
    Insert(Index, Vec<u8>),
}

/// Up to so many blows.
pub fn some(most: usize) -> impl Strategy<Value = Vec<Blow>> {
    prop::collection::vec(blow(), 0..=most)
}

fn blow() -> impl Strategy<Value = Blow> {
    let place = any::<Index>;
    prop_oneof![
        6 => (place(), hostile()).prop_map(|(at, value)| Blow::Put(at, value)),
        2 => place().prop_map(Blow::Remove),
        2 => (place(), place()).prop_map(|(at, from)| Blow::Copy(at, from)),
        1 => (place(), 1..90_usize).prop_map(|(at, levels)| Blow::Bury(at, levels)),
        2 => (place(), hostile_text(), hostile()).prop_map(|(at, name, value)| Blow::Add(at, name, value)),
        1 => (place(), 2..130_usize).prop_map(|(at, times)| Blow::Repeat(at, times)),
    ]
}

/// Mostly no blow: what cannot be read is not looked at any further.
pub fn text() -> impl Strategy<Value = TextBlow> {
    prop_oneof![
        12 => Just(TextBlow::None),
        1 => any::<Index>().prop_map(TextBlow::Truncate),
        2 => any::<(Index, u8)>().prop_map(|(at, byte)| TextBlow::Byte(at, byte)),
        1 => (any::<Index>(), prop::collection::vec(any::<u8>(), 1..8))
            .prop_map(|(at, bytes)| TextBlow::Insert(at, bytes)),
    ]
}

/// Pieces of YAML, each with the line before which it is put, and how deep.
pub fn yaml() -> impl Strategy<Value = Vec<(Index, usize, &'static str)>> {
    let piece = prop::sample::select(YAML);
    prop::collection::vec((any::<Index>(), 0..12_usize, piece), 0..4)
}

/// What means something in YAML.
const YAML: &[&str] = &[
    "---",
    "...",
    "%YAML 1.1",
    "%TAG ! tag:x,2000:",
    "&a",
    "*a",
    "&a [*a]",
    "<<: *a",
    "<<: {kind: Pod}",
    "- ",
    "- - - - -",
    "? {a: b}",
    "? ",
    ": ",
    "kind: Job",
    "kind: &k AppWrapper",
    "name: *k",
    "x: !!binary aGk=",
    "x: !foo bar",
    "x: |",
    "x: >-",
    "x: |9",
    "x: {",
    "x: [",
    "}",
    "]",
    "# comment",
    "\t",
    "x: 'open",
    "x: \"\\u0000\"",
    "x: \"\\x1b[2J\"",
    "1: a",
    "'1': b",
    "true: a",
    "null: b",
    "~: c",
    "x: .inf",
    "x: 1e999",
    "x: 0x7fffffffffffffffffff",
    "x: 0o17",
    "x: 1:30",
    "x: ${HOME}",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "\r",
];

/// The bytes of a document in YAML's block style, with pieces put in.
pub fn block_style(
    document: &Value,
    pieces: &[(Index, usize, &'static str)],
    blow: &TextBlow,
) -> Vec<u8> {
    let text = serde_saphyr::to_string(document).expect("YAML");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (at, indent, piece) in pieces {
        lines.insert(at.index(lines.len() + 1), format!("{}{piece}", " ".repeat(*indent)));
    }
    struck_text(lines.join("\n").into_bytes(), blow)
}

/// Values that mean something somewhere, and are wrong nearly everywhere.
fn hostile() -> impl Strategy<Value = Value> {
    let texts = hostile_text().prop_map(Value::from);
    let numbers = prop::sample::select(vec![
        json!(0),
        json!(-1),
        json!(1),
        json!(255),
        json!(256),
        json!(65536),
        json!(i32::MAX),
        json!(2_147_483_648_i64),
        json!(4_294_967_297_i64),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1.5),
        json!(-0.0),
        json!(1e308),
        json!(5e-324),
    ]);
    let pod = json!({"spec": {"containers": [{"name": "main"}]}});
    let others = prop::sample::select(vec![
        json!(null),
        json!(true),
        json!(false),
        json!([]),
        json!({}),
        json!([null]),
        json!([[]]),
        json!({"": ""}),
        pod.clone(),
        json!([pod]),
        json!(DEEP),
        json!(SURROGATE),
        json!(HUGE),
        json!({"apiVersion": "workload.codeflare.dev/v1", "kind": "AppWrapper", "spec": {}}),
        json!({"apiVersion": "v1", "kind": "List", "items": [{}]}),
        json!({"factor": 1e308, "max": "1e99Ei"}),
    ]);
    prop_oneof![
        texts,
        numbers,
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        others
    ]
}

/// Texts that mean something somewhere.
const TEXTS: &[&str] = &[
    "",
    " ",
    "\0",
    "a\nb",
    "é",
    "\u{202e}abc",
    "\u{200b}",
    "-1h",
    "1e9h",
    "NaN",
    "1.5h",
    "5d",
    "1M",
    "9999999999999999999s",
    "0.0000000001ns",
    "-1",
    "3.5",
    "1e3",
    "4294967296",
    "2147483648",
    "1, 2",
    "1,,2",
    "256",
    "0",
    "a,b",
    ",",
    "(",
    "(a+)+$",
    "(?:a{1000}){1000}",
    "[[:alpha:]]{1,999}",
    ".*",
    "\\",
    "v1",
    "batch/v1",
    "ray.io/v1",
    "Pod",
    "Job",
    "JobSet",
    "PyTorchJob",
    "RayCluster",
    "List",
    "JobList",
    "AppWrapper",
    "workload.codeflare.dev/v1beta1",
    "work",
    "train",
    "Job/work",
    "/",
    "Service/",
    "team",
    "template",
    "template.spec.template",
    "template.spec.template[0]",
    "template.metadata",
    "template..",
    "template/../../etc",
    "template.spec.replicatedJobs[99999999999999999999].template",
    "default",
    "CREATE",
    "UPDATE",
    "DELETE",
    "Foreground",
    "Orphan",
    "True",
    "Retry",
    "Fail",
    "Ignore",
    "InOrder",
    "Ready",
    "9223372036854775808Ei",
    "64Gi",
    "1e400",
    "ResourcesDeployed",
    "2026-01-01T00:00:00Z",
];

/// Texts that mean something somewhere, and others.
pub fn hostile_text() -> impl Strategy<Value = String> {
    let known = prop::sample::select(TEXTS);
    prop_oneof![
        6 => known.prop_map(str::to_owned),
        2 => pattern("[a-z0-9.,/\\[\\]-]{0,12}"),
        1 => prop::collection::vec(any::<char>(), 0..20).prop_map(String::from_iter),
        1 => (1..400_usize).prop_map(|length| "aé".repeat(length)),
    ]
}

/// Texts of a pattern, which is read once: as a plain text it would be read again for each.
pub fn pattern(regex: &str) -> impl Strategy<Value = String> + use<> {
    prop::string::string_regex(regex).expect("a pattern")
}

/// Deals a blow.
pub fn strike(document: &mut Value, blow: &Blow) {
    let count = count(document);
    let place = |at: &Index| at.index(count);
    match blow {
        Blow::Put(at, value) => *nth(document, place(at)) = value.clone(),
        Blow::Remove(at) => match nth(document, place(at)) {
            Value::Object(fields) if !fields.is_empty() => {
                let name = fields.keys().nth(at.index(fields.len())).cloned();
                name.and_then(|name| fields.remove(&name));
            }
            Value::Array(items) if !items.is_empty() => drop(items.remove(at.index(items.len()))),
            other => *other = Value::Null,
        },
        Blow::Copy(at, from) => {
            let value = nth(document, place(from)).clone();
            // what holds itself doubles with each blow
            if self::count(&value) < 200 {
                *nth(document, place(at)) = value;
            }
        }
        Blow::Bury(at, levels) => {
            let value = nth(document, place(at));
            *value = (0..*levels).fold(value.take(), |inner, _| json!([inner]));
        }
        Blow::Add(at, name, value) => {
            if let Value::Object(fields) = nth(document, place(at)) {
                fields.insert(name.clone(), value.clone());
            }
        }
        Blow::Repeat(at, times) => match nth(document, place(at)) {
            Value::Array(items) if items.len() == 1 && self::count(&items[0]) < 40 => {
                *items = vec![items[0].clone(); *times];
            }
            _ => {}
        },
    }
}

/// Values in a document, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum::<usize>(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// A value in a document: the n-th, itself being the first.
fn nth(value: &mut Value, n: usize) -> &mut Value {
    if n == 0 {
        return value;
    }
    let mut left = n - 1;
    let is_in = |inner: &Value| {
        let count = count(inner);
        let found = left < count;
        left -= if found { 0 } else { count };
        found
    };
    let found = match value {
        Value::Array(items) => find(items.iter_mut(), is_in),
        Value::Object(fields) => find(fields.values_mut(), is_in),
        _ => None,
    };
    nth(found.expect("it was counted"), left)
}

fn find<'a>(
    mut inner: impl Iterator<Item = &'a mut Value>,
    mut is_in: impl FnMut(&Value) -> bool,
) -> Option<&'a mut Value> {
    inner.find(|each| is_in(each))
}

/// The bytes of a document.
pub fn written(document: &Value, blow: &TextBlow) -> Vec<u8> {
    let mut text = document.to_string();
    if text.contains('@') {
        let deep = "[".repeat(DEEP_LEVELS) + &"]".repeat(DEEP_LEVELS);
        for (mark, raw) in
            [(DEEP, deep.as_str()), (SURROGATE, r#""\ud800""#), (HUGE, "-1e99999999999999999999")]
        {
            text = text.replace(&format!("{mark:?}"), raw);
        }
    }
    struck_text(text.into_bytes(), blow)
}

fn struck_text(mut bytes: Vec<u8>, blow: &TextBlow) -> Vec<u8> {
    if bytes.is_empty() {
        return bytes;
    }
    match blow {
        TextBlow::None => {}
        TextBlow::Truncate(at) => bytes.truncate(at.index(bytes.len())),
        TextBlow::Byte(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        TextBlow::Insert(at, more) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, more.iter().copied());
        }
    }
    bytes
}
