//! Images without a registry: an archive of one layer, with programs of this machine and the libraries that
//! they are linked with.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::run;
use crate::env;
use crate::error::Error;

/// An image to be made: what is in it, and how it starts.
#[derive(Clone, Debug)]
pub struct Image {
    name: String,
    /// Each program, and where it is in the image.
    programs: Vec<(PathBuf, String)>,
    /// Each link, and what it leads to.
    links: Vec<(String, String)>,
    config: Value,
}

impl Image {
    /// An empty image of a name with a tag, such as `test/busybox:1`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let config = json!({"Env": ["PATH=/bin"]});
        Self { name: name.to_owned(), programs: vec![], links: vec![], config }
    }

    /// With a program, a path or a name to be found in `PATH`, and where it goes.
    #[must_use]
    pub fn program(mut self, program: impl AsRef<Path>, place: &str) -> Self {
        self.programs.push((program.as_ref().to_path_buf(), place.to_owned()));
        self
    }

    /// With links in `/bin` by which a program is called.
    #[must_use]
    pub fn called(mut self, program: &str, names: &[&str]) -> Self {
        self.links.extend(names.iter().map(|name| (format!("bin/{name}"), program.to_owned())));
        self
    }

    /// What is run where a container does not say.
    #[must_use]
    pub fn entrypoint(mut self, arguments: &[&str]) -> Self {
        self.config["Entrypoint"] = json!(arguments);
        self
    }

    /// As which user and group, `UID:GID`, it runs where a container does not say.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.config["User"] = json!(user);
        self
    }

    /// Writes the archive into a directory; its path.
    pub(super) fn write(&self, parent: &Path) -> Result<PathBuf, Error> {
        let dir = parent.join(self.name.replace(['/', ':'], "_"));
        let root = dir.join("root");
        for name in ["bin", "tmp", "etc"] {
            let path = root.join(name);
            fs::create_dir_all(&path).map_err(Error::io("create", &path))?;
        }
        for (program, place) in &self.programs {
            let missing = || Error::Command {
                command: format!("find {}", program.display()),
                output: "there is no such program".to_owned(),
            };
            let program = env::program(program).ok_or_else(missing)?;
            copy(&program, &root.join(place.trim_start_matches('/')))?;
            for library in libraries(&program)? {
                copy(&library, &root.join(library.strip_prefix("/").unwrap_or(&library)))?;
            }
        }
        for (name, target) in &self.links {
            let path = root.join(name);
            std::os::unix::fs::symlink(target, &path).map_err(Error::io("create", &path))?;
        }
        let archive = self.pack(&dir, &root)?;
        fs::remove_dir_all(&dir).map_err(Error::io("remove", &dir))?;
        Ok(archive)
    }

    fn pack(&self, dir: &Path, root: &Path) -> Result<PathBuf, Error> {
        let layer = dir.join("layer.tar");
        tar(&layer, root, &["."])?;
        let mut digest = Command::new("sha256sum");
        digest.arg(&layer);
        let digest = run(digest)?;
        let digest = digest.split_whitespace().next().unwrap_or_default();
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        });
        let tag = format!("docker.io/{}", self.name);
        let manifest =
            json!([{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]);
        for (name, value) in [("config.json", config), ("manifest.json", manifest)] {
            let path = dir.join(name);
            fs::write(&path, value.to_string()).map_err(Error::io("write", &path))?;
        }
        let archive = dir.with_extension("tar");
        tar(&archive, dir, &["manifest.json", "config.json", "layer.tar"])?;
        Ok(archive)
    }
}

fn tar(archive: &Path, dir: &Path, what: &[&str]) -> Result<(), Error> {
    let mut command = Command::new("tar");
    command.args(["--owner=0", "--group=0", "-cf"]).arg(archive).arg("-C").arg(dir).args(what);
    run(command).map(drop)
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let parent = to.parent().unwrap_or(to);
    fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    fs::copy(from, to).map(drop).map_err(Error::io("copy", from))
}

/// The libraries that a program is linked with, and what loads them; none of a static one.
fn libraries(program: &Path) -> Result<BTreeSet<PathBuf>, Error> {
    let mut ldd = Command::new("ldd");
    ldd.arg(program).env("LC_ALL", "C");
    match run(ldd) {
        Ok(listed) => Ok(paths(&listed)),
        Err(Error::Command { output, .. }) if output.contains("not a dynamic executable") => {
            Ok(BTreeSet::new())
        }
        Err(error) => Err(error),
    }
}

fn paths(listed: &str) -> BTreeSet<PathBuf> {
    let words =
        listed.lines().filter_map(|line| line.split_whitespace().find(|it| it.starts_with('/')));
    words.map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_as_ldd_lists_them() {
        let listed = "\tlinux-vdso.so.1 (0x1)\n\tlibm.so.6 => /lib/x/libm.so.6 (0x2)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
        let want = ["/lib/x/libm.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(paths(listed), want.into());
        assert_eq!(paths("\tstatically linked\n"), BTreeSet::new());
    }
}
