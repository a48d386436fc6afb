//! What is in the binary: every crate with version and licence, from Cargo itself.
//!
//! `cargo run --example sbom` prints a software bill of materials (CycloneDX 1.5);
//! `cargo run --example sbom -- licences` a list of licences and who has them.

#![expect(clippy::print_stdout, reason = "this is what it is for")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::process::Command;

use serde_json::{Value, json};

/// The platform of the image.
const PLATFORM: &str = "x86_64-unknown-linux-musl";

fn main() -> Result<(), Box<dyn Error>> {
    let asked = Command::new("cargo")
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform", PLATFORM])
        .output()?;
    if !asked.status.success() {
        return Err(String::from_utf8_lossy(&asked.stderr).into());
    }
    let metadata: Value = serde_json::from_slice(&asked.stdout)?;
    let packages = packages(&metadata);
    if std::env::args().nth(1).as_deref() == Some("licences") {
        for (licence, names) in licences(&packages) {
            println!("{licence}: {}", names.join(", "));
        }
    } else {
        println!("{}", serde_json::to_string_pretty(&bill(&packages))?);
    }
    Ok(())
}

/// The packages that the binary is made of: what it depends on, and what that depends on; what only
/// builds or tests it is left out.
fn packages(metadata: &Value) -> Vec<&Value> {
    let items = |value: &'static str| metadata[value].as_array().into_iter().flatten();
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let nodes: BTreeMap<&str, &Value> =
        nodes.filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let root = items("packages").find(|package| package["name"] == "appwrapper");
    let mut open: Vec<&str> = root.and_then(|package| package["id"].as_str()).into_iter().collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let depends = nodes.get(id).and_then(|node| node["deps"].as_array());
        let is_part = |dependency: &&Value| {
            let kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
            kinds.into_iter().any(|kind| kind["kind"].is_null())
        };
        let parts = depends.into_iter().flatten().filter(is_part);
        open.extend(parts.filter_map(|dependency| dependency["pkg"].as_str()));
    }
    items("packages")
        .filter(|package| package["id"].as_str().is_some_and(|id| seen.contains(id)))
        .collect()
}

fn licences<'a>(packages: &[&'a Value]) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("none is named");
        all.entry(licence).or_default().extend(package["name"].as_str());
    }
    all
}

fn bill(packages: &[&Value]) -> Value {
    let component = |package: &&Value| {
        let text = |field: &str| package[field].as_str().unwrap_or_default();
        let (name, version) = (text("name"), text("version"));
        json!({
            "type": "library",
            "name": name,
            "version": version,
            "purl": format!("pkg:cargo/{name}@{version}"),
            "licenses": [{"expression": text("license").replace('/', " OR ")}],
        })
    };
    let is_ours = |package: &&&Value| package["name"] == "appwrapper";
    let ours = packages.iter().find(is_ours).map(component).unwrap_or_default();
    let others: Vec<Value> =
        packages.iter().filter(|package| !is_ours(package)).map(component).collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application", "name": ours["name"], "version": ours["version"],
            "purl": ours["purl"], "licenses": ours["licenses"],
        }},
        "components": others,
    })
}
