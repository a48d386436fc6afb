//! The binaries: built at first use, kept until the pinned versions change.
//!
//! They lie in `control-plane/<fingerprint>/bin` of Cargo's target directory. Each appears there by
//! a rename, so a build that was interrupted goes on where it stopped. A lock keeps test processes
//! that start together from building the same twice.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tokio::time::Instant;

use crate::component::{Component, GoModule};
use crate::error::Error;
use crate::{env, go};

/// Where the binaries are.
#[derive(Debug)]
pub struct Binaries {
    paths: BTreeMap<Component, PathBuf>,
    built: Vec<Component>,
}

impl Binaries {
    /// A component's binary, if it was asked for.
    #[must_use]
    pub fn path(&self, component: Component) -> Option<&Path> {
        self.paths.get(&component).map(PathBuf::as_path)
    }

    /// What had to be built just now: nothing, except at first use.
    #[must_use]
    pub fn built(&self) -> &[Component] {
        &self.built
    }
}

/// Finds the binaries of these components, in the directory that `KUBEBUILDER_ASSETS` names or
/// among those built before, and builds the others. It blocks, for minutes at first use, and tells
/// on standard error how far it is.
///
/// # Errors
///
/// [`Error::GoMissing`], [`Error::Go`] when a build fails, [`Error::Io`].
pub fn binaries(components: &[Component]) -> Result<Binaries, Error> {
    let home = env::target_dir().join("control-plane");
    let cache = std::path::absolute(home.join(fingerprint()).join("bin"))
        .map_err(Error::io("find", &home))?;
    let assets = env::assets_dir();
    let place = |component: &Component| {
        let dirs = assets.iter().chain([&cache]);
        dirs.map(|dir| dir.join(component.name())).find(|path| path.is_file())
    };
    let missing = || -> Vec<Component> {
        components.iter().filter(|component| place(component).is_none()).copied().collect()
    };
    let built = if missing().is_empty() {
        Vec::new()
    } else {
        fs::create_dir_all(&cache).map_err(Error::io("create", &cache))?;
        let _lock = lock(&home.join("build.lock"))?;
        // Another process may have built some while this one waited.
        let missing = missing();
        build(&missing, &cache)?;
        missing
    };
    let paths = components.iter().filter_map(|it| Some((*it, place(it)?))).collect();
    Ok(Binaries { paths, built })
}

fn build(components: &[Component], cache: &Path) -> Result<(), Error> {
    let ldflags = go::ldflags();
    for (done, component) in components.iter().enumerate() {
        let name = component.name();
        say(&format!("[{}/{}] {name} …", done + 1, components.len()));
        let start = Instant::now();
        let unfinished = cache.join(format!(".{name}"));
        go::build(*component, &unfinished, &ldflags)?;
        let finished = cache.join(name);
        fs::rename(&unfinished, &finished).map_err(Error::io("create", &finished))?;
        say(&format!(" {} s\n", start.elapsed().as_secs()));
    }
    Ok(())
}

/// Waits until no other process builds. The lock ends with the file, or with the process.
fn lock(path: &Path) -> Result<File, Error> {
    let file = File::create(path).map_err(Error::io("create", path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            say("waiting for another process to build the test control plane …\n");
            file.lock().map_err(Error::io("lock", path))?;
        }
        Err(TryLockError::Error(source)) => return Err(Error::io("lock", path)(source)),
    }
    Ok(file)
}

/// Past the capture of the test harness (which takes what `eprint!` writes): who waits for minutes
/// wants to know why.
fn say(text: &str) {
    let mut stderr = io::stderr();
    // Nobody is worse off without the progress.
    drop(stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()));
}

/// What the binaries depend on, as a directory's name: FNV-1a, since it must be the same in each
/// process and Rust release, and nobody attacks it.
fn fingerprint() -> String {
    let ldflags = go::ldflags();
    let pins = GoModule::ALL.into_iter().flat_map(GoModule::pins).flat_map(str::bytes);
    let hash = pins.chain(ldflags.bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
