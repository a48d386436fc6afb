//! Imports point one way: `observe → Snapshot → decide → Decision → act → status`, never back.

use std::path::{Path, PathBuf};

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
    ("telemetry", &[]),
    ("election", &["clock", "telemetry"]),
    ("tls", &[]),
    ("certificate", &["clock", "telemetry", "tls"]),
    ("plan", &[]),
    ("policies", &["api", "price", "quantity", "limits", "pattern", "config"]),
    ("snapshot", &["api", "plan", "quantity", "policies"]),
    (
        "decide",
        &[
            "api", "bugs", "price", "quantity", "limits", "pattern", "config", "policies", "plan",
            "snapshot",
        ],
    ),
    ("podsets", &["api", "quantity", "limits", "policies", "snapshot"]),
    ("discovery", &[]),
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
            "telemetry",
            "podsets",
            "crd",
            "metrics",
            "discovery",
        ],
    ),
    // what it finds is logged when the controller starts
    ("inspection", &["limits", "config", "telemetry", "podsets", "discovery", "webhook"]),
    ("observe", &["api", "bugs", "plan", "policies", "snapshot", "podsets", "config", "discovery"]),
    ("act", &["api", "bugs", "decide", "podsets", "snapshot", "observe"]),
    (
        "reconcile",
        &[
            "api", "bugs", "limits", "config", "clock", "plan", "snapshot", "decide", "podsets",
            "observe", "act", "metrics",
        ],
    ),
    ("controller", &["api", "config", "clock", "metrics", "observe", "reconcile", "telemetry"]),
    ("serve", &["recent", "clock", "metrics", "telemetry"]),
    ("crd", &["api"]),
    ("sim", &[]),
    // the controller as it is, on a server that shares nothing with it; the models and the checks ask
    // only for phases
    (
        "world",
        &["api", "bugs", "clock", "config", "observe", "crd", "reconcile", "telemetry", "sim"],
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

/// The modules of this crate that a file names.
fn uses(text: &str) -> Vec<String> {
    let mut modules = vec![];
    for (start, _) in text.match_indices("crate::") {
        let rest = &text[start + "crate::".len()..];
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
        // `$crate::`, `super_crate::` and the like are something else
        let before = text[..start].chars().next_back();
        if !name.is_empty() && !before.is_some_and(|c| is_word(c) || c == '$' || c == ':') {
            modules.push(name);
        }
    }
    modules
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
        for used in uses(&text) {
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
