//! The Go tool: builds binaries and knows where the sources of a module lie.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::component::{Component, Program};
use crate::error::{Error, tail};
use crate::modules::GoModule;
use crate::versions::Versions;

/// Builds a binary. `output` must not be relative.
pub(crate) fn build(program: Program, output: &Path) -> Result<(), Error> {
    let mut go = command(program.go_module);
    let ldflags = program.go_module.ldflags();
    go.env("CGO_ENABLED", "0").args(["build", "-trimpath", "-ldflags", &ldflags, "-o"]);
    go.arg(output).arg(program.package);
    run(go, program.name).map(drop)
}

/// The directories that have the manifests of these components.
pub(crate) fn manifest_dirs(
    components: &[Component],
    versions: Versions,
) -> Result<BTreeMap<Component, PathBuf>, Error> {
    let mut of_dirs: BTreeMap<&str, (GoModule, BTreeMap<&str, Component>)> = BTreeMap::new();
    for &component in components {
        let Some(module) = component.manifests_module() else { continue };
        let go_module = component.go_module(versions);
        let entry = of_dirs.entry(go_module.dir).or_insert_with(|| (go_module, BTreeMap::new()));
        entry.1.insert(module, component);
    }
    let mut found = BTreeMap::new();
    for (go_module, wanted) in of_dirs.into_values() {
        let mut go = command(go_module);
        go.args(["mod", "download", "-json"]).args(wanted.keys());
        let answer = run(go, "the manifests' modules")?;
        for module in serde_json::Deserializer::from_str(&answer).into_iter::<Download>() {
            let Download { path, dir } = module.map_err(|error| Error::Go {
                command: "go mod download -json".to_owned(),
                output: error.to_string(),
            })?;
            found.extend(wanted.get(path.as_str()).map(|component| (*component, dir)));
        }
    }
    Ok(found)
}

/// One line of `go mod download -json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Download {
    path: String,
    dir: PathBuf,
}

fn command(module: GoModule) -> Command {
    let mut go = Command::new("go");
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("go").join(module.dir);
    // A workspace file further up would add its own versions to ours.
    go.current_dir(dir).env("GOWORK", "off").stdin(Stdio::null());
    go
}

/// Runs it and returns its standard output.
fn run(mut go: Command, wanted: &str) -> Result<String, Error> {
    let output = go.output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::GoMissing { missing: wanted.to_owned() },
        _ => Error::Io { action: "run go".to_owned(), source },
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let arguments: Vec<_> = go.get_args().map(|argument| argument.to_string_lossy()).collect();
    let command = format!("go {}", arguments.join(" "));
    Err(Error::Go { command, output: tail(&String::from_utf8_lossy(&output.stderr)) })
}
