//! In each table of ARCHITECTURE.md, a module uses only modules above it.

use std::collections::BTreeMap;
use std::path::Path;

/// The modules of a crate, from the top of its table.
fn table(page: &str, krate: &str) -> Vec<String> {
    let head = format!("| module of `crates/{krate}` |");
    let rows = page.split(&head).nth(1).expect("a table").lines().skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let names = |row: &str| {
        let first = row.split('|').nth(1).unwrap_or_default().to_owned();
        first.split(',').map(|name| name.trim().trim_matches('`').to_owned()).collect::<Vec<_>>()
    };
    rows.flat_map(names).collect()
}

/// The code of a module without comments and tests.
fn code(path: &Path, into: &mut String) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("a directory").flatten() {
            code(&entry.path(), into);
        }
        return;
    }
    let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let is_test = path.components().any(|part| part.as_os_str() == "tests");
    if is_test || ["tests", "testing"].contains(&name) || !path.is_file() {
        return;
    }
    let text = std::fs::read_to_string(path).expect("a file");
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    into.extend(lines.flat_map(|line| [line, "\n"]));
}

/// The word at the begin of a text.
fn word(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The modules that code names after `crate::`, one by one or in braces.
fn used(code: &str) -> Vec<&str> {
    code.split("crate::").skip(1).flat_map(named).collect()
}

fn named(text: &str) -> Vec<&str> {
    match text.strip_prefix('{').and_then(|rest| rest.split_once("};")) {
        Some((group, _)) => group.split(',').map(word).collect(),
        None => vec![word(text)],
    }
}

#[test]
fn a_module_uses_only_modules_above_it() {
    let page = std::fs::read_to_string("ARCHITECTURE.md").expect("the page");
    for krate in ["core", "controller", "world"] {
        let order = table(&page, krate);
        let source = Path::new("crates").join(krate).join("src");
        let lib = std::fs::read_to_string(source.join("lib.rs")).expect("a crate");
        let module = |line: &str| {
            let rest = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ")?;
            Some(rest.strip_suffix(';')?.to_owned())
        };
        let declared: Vec<String> = lib.lines().filter_map(module).collect();
        let mut listed = order.clone();
        listed.sort_unstable();
        assert_eq!(listed, declared, "ARCHITECTURE.md lists each module of crates/{krate} once");
        let rank: BTreeMap<&str, usize> =
            order.iter().enumerate().map(|(rank, name)| (name.as_str(), rank)).collect();
        for (name, own) in &rank {
            let mut text = String::new();
            code(&source.join(format!("{name}.rs")), &mut text);
            code(&source.join(name), &mut text);
            assert!(!text.is_empty(), "{krate}::{name}");
            for used in used(&text) {
                let is_above = rank.get(used).is_none_or(|used| used <= own);
                assert!(is_above, "{krate}::{name} uses {used}, which is below it");
            }
        }
    }
}

#[test]
fn the_simulated_api_server_uses_no_code_of_the_controller() {
    let source = Path::new("crates/world/src");
    let lib = std::fs::read_to_string(source.join("lib.rs")).expect("a crate");
    let taken = lib.split("use appwrapper_controller::{").nth(1).and_then(|it| it.split_once("};"));
    let taken = taken.expect("modules of the controller").0.split(',');
    let taken: Vec<&str> = taken.map(word).collect();
    assert!(taken.contains(&"reconcile"), "{taken:?}");
    let mut text = String::new();
    code(&source.join("sim"), &mut text);
    assert!(!text.contains("appwrapper_controller"));
    for used in used(&text) {
        assert!(!taken.contains(&used), "sim uses {used} of the controller");
    }
}
