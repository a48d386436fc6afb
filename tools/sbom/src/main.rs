//! What is in the binary of the image: every crate with version and licence, from Cargo itself.
//!
//! `cargo run -p sbom` prints a software bill of materials (CycloneDX 1.5);
//! `cargo run -p sbom -- licences` prints each licence and the crates that have it.

#![expect(clippy::print_stdout, reason = "this is what it is for")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::process::Command;

use serde_json::{Value, json};

/// The platforms of the image.
const PLATFORMS: [&str; 2] = ["aarch64-unknown-linux-musl", "x86_64-unknown-linux-musl"];

fn main() -> Result<(), Box<dyn Error>> {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--format-version=1", "--locked"])?)?;
    let tree = tree()?;
    let packages = packages(&metadata, &tree);
    if packages.len() != tree.len() {
        let (found, all) = (packages.len(), tree.len());
        return Err(format!("cargo metadata has {found} of the {all} crates of cargo tree").into());
    }
    match std::env::args().nth(1).as_deref() {
        None => println!("{}", serde_json::to_string_pretty(&bill(&packages))?),
        Some("licences") => {
            for (licence, names) in licences(&packages) {
                println!("{licence}: {}", names.join(", "));
            }
        }
        Some(other) => return Err(format!("{other:?} is not `licences`").into()),
    }
    Ok(())
}

fn cargo(arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = Command::new("cargo").args(arguments).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// `name@version` of each crate that the binary is made of. Crates that only build or test it are
/// left out, and so are those of features that the image does not have.
fn tree() -> Result<BTreeSet<String>, Box<dyn Error>> {
    let mut arguments = vec!["tree", "--package=appwrapper", "--edges=normal", "--locked"];
    arguments.extend(["--no-default-features", "--prefix=none", "--format={p}"]);
    for platform in PLATFORMS {
        arguments.extend(["--target", platform]);
    }
    let lines = cargo(&arguments)?;
    let crates = lines.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" v")?;
        Some(format!("{name}@{}", rest.split(' ').next()?))
    });
    Ok(crates.collect())
}

fn id(package: &Value) -> String {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    format!("{}@{}", text("name"), text("version"))
}

fn packages<'a>(metadata: &'a Value, tree: &BTreeSet<String>) -> Vec<&'a Value> {
    let all = metadata["packages"].as_array().into_iter().flatten();
    all.filter(|package| tree.contains(&id(package))).collect()
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
        let licence = package["license"].as_str().unwrap_or_default();
        // some crates still separate alternatives by a slash, which is no SPDX expression
        let licence = licence.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ");
        json!({
            "type": "library",
            "name": package["name"],
            "version": package["version"],
            "purl": format!("pkg:cargo/{}", id(package)),
            "licenses": [{"expression": licence}],
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
