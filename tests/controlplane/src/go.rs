//! The Go tool: builds binaries and knows where the sources of a module lie.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::component::{Component, GoModule, Program};
use crate::error::{Error, tail};

/// Builds a binary. `output` must not be relative.
pub(crate) fn build(program: Program, output: &Path, ldflags: &str) -> Result<(), Error> {
    let mut go = command(program.go_module);
    go.env("CGO_ENABLED", "0").args(["build", "-trimpath", "-ldflags", ldflags, "-o"]);
    go.arg(output).arg(program.package);
    run(go, program.name).map(drop)
}

/// The link flags: without them kube-apiserver says that it is v0.0.0, and clients that ask for its
/// version refuse to work with it.
pub(crate) fn ldflags() -> String {
    const VERSION: &str = "k8s.io/component-base/version";
    let [go_mod, _] = GoModule::ControlPlane.pins();
    let version = pinned(go_mod, "k8s.io/kubernetes").unwrap_or("v0.0.0");
    let minor = version.split('.').nth(1).unwrap_or_default();
    format!(
        "-s -w -X {VERSION}.gitVersion={version} -X {VERSION}.gitMajor=1 \
         -X {VERSION}.gitMinor={minor}"
    )
}

/// The version of a module in a `go.mod`.
fn pinned<'text>(go_mod: &'text str, module: &str) -> Option<&'text str> {
    go_mod.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(module)).then(|| words.next()).flatten()
    })
}

/// The directories that have the manifests of these components.
pub(crate) fn manifest_dirs(
    components: &[Component],
) -> Result<BTreeMap<Component, PathBuf>, Error> {
    let mut found = BTreeMap::new();
    for go_module in GoModule::COMPONENTS {
        let mut wanted: BTreeMap<&str, Component> = BTreeMap::new();
        for &component in components.iter().filter(|it| it.go_module() == go_module) {
            wanted.extend(component.manifests_module().map(|module| (module, component)));
        }
        if wanted.is_empty() {
            continue;
        }
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
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("go").join(module.dir());
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

#[cfg(test)]
mod tests {
    use crate::component::GoModule;

    #[test]
    fn the_version_is_that_of_go_mod() {
        let go_mod = "require (\n\tk8s.io/kubernetes/x v1.2.3\n\tk8s.io/kubernetes v1.36.0 // y\n)";
        assert_eq!(super::pinned(go_mod, "k8s.io/kubernetes"), Some("v1.36.0"));
        assert!(super::ldflags().contains("gitVersion=v1."), "{}", super::ldflags());
    }

    /// They share the link flags, which say one version.
    #[test]
    fn kubectl_and_kubelet_are_of_the_version_of_the_server() {
        let version = |module: GoModule| super::pinned(module.pins()[0], "k8s.io/kubernetes");
        let server = version(GoModule::ControlPlane);
        assert!(server.is_some());
        for module in [GoModule::Kubectl, GoModule::Kubelet] {
            assert_eq!(version(module), server, "{module:?}");
        }
    }
}
