//! The environment, read here alone.

use std::path::{Path, PathBuf};

/// The file by which Cargo marks its target directory.
const TARGET_MARK: &str = "CACHEDIR.TAG";

/// The directory with ready-made binaries, if the user names one.
pub(crate) fn assets_dir() -> Option<PathBuf> {
    variable("KUBEBUILDER_ASSETS").map(PathBuf::from)
}

/// Where a program is: a path is taken as it is, a name is looked for in `PATH`.
pub(crate) fn program(name: impl AsRef<Path>) -> Option<PathBuf> {
    let name = name.as_ref();
    if name.is_absolute() {
        return name.is_file().then(|| name.to_path_buf());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// Cargo's target directory: the running test lies in it, wherever it was put.
pub(crate) fn target_dir() -> PathBuf {
    let running = std::env::current_exe().ok();
    running
        .iter()
        .flat_map(|exe| exe.ancestors())
        .find(|dir| dir.join(TARGET_MARK).is_file())
        .map(Path::to_path_buf)
        .or_else(|| variable("CARGO_TARGET_DIR").map(PathBuf::from))
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"))
}

/// A variable that is set to something.
#[expect(clippy::disallowed_methods, reason = "this module is the edge of the crate")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
