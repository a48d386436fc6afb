//! Imports point one way: `observe → Snapshot → decide → Decision → act → status`, never back.

use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

/// Every module, with the modules above it that it may use. A module may use itself.
const MAY_USE: &[(&str, &[&str])] = &[
    ("api", &[]),
    // deliberate mistakes, in none but test builds
    ("bugs", &[]),
    ("price", &["api"]),
    ("quantity", &[]),
    ("limits", &["api", "price"]),
    ("pattern", &["limits"]),
    ("config", &["api", "limits", "pattern"]),
    ("clock", &[]),
    ("recent", &["clock"]),
    ("printable", &[]),
    ("telemetry", &["printable"]),
    ("election", &["clock", "telemetry"]),
    ("listener", &[]),
    ("tls", &["listener"]),
    ("certificate", &["clock", "telemetry", "tls"]),
    ("plan", &[]),
    ("status", &["api", "bugs"]),
    ("policies", &["api", "price", "quantity", "limits", "pattern", "config"]),
    ("snapshot", &["api", "plan", "quantity", "policies"]),
    (
        "decide",
        &[
            "api",
            "bugs",
            "price",
            "quantity",
            "limits",
            "pattern",
            "config",
            "policies",
            "plan",
            "printable",
            "snapshot",
            "status",
        ],
    ),
    ("podsets", &["api", "quantity", "limits", "policies", "snapshot"]),
    ("discovery", &[]),
    ("client", &[]),
    ("metrics", &["api"]),
    (
        "webhook",
        &[
            "api",
            "price",
            "quantity",
            "limits",
            "pattern",
            "config",
            "clock",
            "recent",
            "printable",
            "telemetry",
            "podsets",
            "crd",
            "metrics",
            "discovery",
            "listener",
        ],
    ),
    // what it finds is logged when the controller starts
    ("inspection", &["api", "limits", "config", "telemetry", "podsets", "discovery", "webhook"]),
    (
        "observe",
        &[
            "api",
            "bugs",
            "client",
            "limits",
            "plan",
            "policies",
            "price",
            "snapshot",
            "podsets",
            "config",
            "discovery",
            "status",
        ],
    ),
    (
        "act",
        &[
            "api", "bugs", "client", "limits", "clock", "recent", "decide", "podsets", "snapshot",
            "webhook", "observe", "status",
        ],
    ),
    (
        "reconcile",
        &[
            "api", "bugs", "limits", "config", "clock", "client", "plan", "snapshot", "decide",
            "podsets", "observe", "act", "metrics", "status",
        ],
    ),
    (
        "controller",
        &[
            "act",
            "api",
            "config",
            "clock",
            "decide",
            "metrics",
            "observe",
            "reconcile",
            "telemetry",
        ],
    ),
    ("serve", &["recent", "clock", "listener", "metrics", "telemetry"]),
    ("crd", &["api", "status"]),
    ("sim", &[]),
    // the controller as it is, on a server that shares nothing with it; the models and the checks ask
    // only for phases
    (
        "world",
        &[
            "act",
            "api",
            "bugs",
            "clock",
            "config",
            "observe",
            "crd",
            "reconcile",
            "telemetry",
            "sim",
        ],
    ),
];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The modules of this crate that a file names, in imports, in the code and in macros; comments and texts
/// do not count. `depth` is how many modules the file lies below the root of the crate.
fn uses(text: &str, depth: usize) -> Vec<String> {
    let tokens: TokenStream = text.parse().expect("the file is Rust");
    let mut modules = vec![];
    read(tokens, depth, &mut modules);
    modules
}

fn read(tokens: TokenStream, depth: usize, modules: &mut Vec<String>) {
    let all: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in all.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            let is_module = at >= 2 && is_word(all.get(at - 2), "mod");
            read(group.stream(), depth + usize::from(is_module), modules);
        }
        // `$crate`, and a name in the middle of a path, are something else
        let in_path = at > 1 && after_colons(&all[at - 2..]).is_some();
        if in_path
            || matches!(at.checked_sub(1).map(|before| &all[before]), Some(TokenTree::Punct(p)) if p.as_char() == '$')
        {
            continue;
        }
        if let Some(rest) = after_root(&all[at..], depth) {
            name_of(rest, modules);
        }
    }
}

/// What follows `crate::`, or as many `super::` as lead there.
fn after_root(tokens: &[TokenTree], depth: usize) -> Option<&[TokenTree]> {
    if is_word(tokens.first(), "crate") {
        return after_colons(&tokens[1..]);
    }
    let mut rest = tokens;
    for _ in 0..depth {
        if !is_word(rest.first(), "super") {
            return None;
        }
        rest = after_colons(&rest[1..])?;
    }
    (depth > 0 && !is_word(rest.first(), "super")).then_some(rest)
}

fn after_colons(tokens: &[TokenTree]) -> Option<&[TokenTree]> {
    let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ':');
    tokens.get(..2)?.iter().all(is_colon).then(|| &tokens[2..])
}

/// The module that a path begins with, or those that its braces hold.
fn name_of(path: &[TokenTree], modules: &mut Vec<String>) {
    match path.first() {
        Some(TokenTree::Ident(name)) => modules.push(name.to_string()),
        Some(TokenTree::Group(group)) => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_comma =
                |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ',');
            inner.split(is_comma).for_each(|each| name_of(each, modules));
        }
        // everything at once
        Some(TokenTree::Punct(_)) => modules.push("*".to_owned()),
        Some(TokenTree::Literal(_)) | None => {}
    }
}

fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(name)) if name == word)
}

/// How many modules a file lies below the root of the crate: `a/b.rs` and `a/b/mod.rs` are two.
fn depth(inside: &Path) -> usize {
    inside.iter().filter(|name| *name != "mod").count()
}

#[test]
fn every_way_to_name_a_module_is_seen() {
    for (text, depth, want) in [
        ("use crate::api;", 1, vec!["api"]),
        ("use crate::api::{A, B};", 1, vec!["api"]),
        (
            "use crate::{api, limits::{Limits, names}, config as c};",
            1,
            vec!["api", "limits", "config"],
        ),
        ("pub use crate :: { api::A , };", 1, vec!["api"]),
        ("use crate::*;", 1, vec!["*"]),
        (
            "fn f() -> crate::api::A { crate::config::load::<crate::clock::C>() }",
            1,
            vec!["api", "config", "clock"],
        ),
        ("fn f() { assert!(crate::metrics::OTHER == *\"x\"); }", 1, vec!["metrics"]),
        ("macro_rules! m { () => { $crate::api::A } }", 1, vec![]),
        ("//! See crate::api.\n/* crate::a */ fn f() { g(\"crate::b::c\") }", 1, vec![]),
        ("pub(in crate::webhook) fn f() {}", 1, vec!["webhook"]),
        ("pub(crate) fn f() { other::crate_::x(); }", 1, vec![]),
        ("struct S { a: crate::api::A, b: Vec<crate::clock::C> }", 1, vec!["api", "clock"]),
        ("use super::api::A;", 1, vec!["api"]),
        ("use super::sibling::A;", 2, vec![]),
        ("use super::super::{api, config::Config};", 2, vec!["api", "config"]),
        ("mod tests { use super::super::api::A; use super::local; }", 1, vec!["api"]),
    ] {
        assert_eq!(uses(text, depth), want, "{text}");
    }
    assert_eq!(
        [depth(Path::new("a/mod")), depth(Path::new("a")), depth(Path::new("a/b"))],
        [1, 1, 2]
    );
}

#[test]
fn imports_point_one_way() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![];
    rust_files(&src, &mut files);
    let mut wrong = vec![];
    for file in &files {
        let inside = file.strip_prefix(&src).expect("it was found there").with_extension("");
        let module = inside.iter().next().and_then(|name| name.to_str()).expect("a module");
        if ["main", "lib", "cli"].contains(&module) {
            continue;
        }
        let row = MAY_USE.iter().find(|(name, _)| *name == module);
        let (_, allowed) = row.unwrap_or_else(|| panic!("{module} has no row in the table"));
        let text = std::fs::read_to_string(file).expect("a readable file");
        for used in uses(&text, depth(&inside)) {
            if used != module && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{} uses {used}", inside.display()));
            }
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "not allowed:\n{}", wrong.join("\n"));
    assert!(files.len() > 50, "the files were found");
}

/// The table itself has no way back.
#[test]
fn the_table_has_no_cycle() {
    let position = |name: &str| MAY_USE.iter().position(|(row, _)| *row == name);
    for (module, allowed) in MAY_USE {
        for used in *allowed {
            let below = position(used) < position(module);
            // the schema is made from the types alone, and only checked against
            assert!(below || *used == "crd", "{module} → {used}");
        }
    }
}

#[test]
fn deciding_is_pure() {
    let mut files = vec![];
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/decide"), &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a readable file");
        for word in ["async ", ".await", "kube::", "tokio", "Timestamp::now", "Clock"] {
            assert!(!text.contains(word), "{} has {word:?}", file.display());
        }
    }
}
