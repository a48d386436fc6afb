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

use crate::component::{Component, GoModule, Program, Tool};
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
    let programs: Vec<Program> = components.iter().map(|it| it.program()).collect();
    let (places, was_missing) = find_or_build(&programs, &GoModule::COMPONENTS)?;
    let built = components.iter().zip(&was_missing).filter(|(_, built)| **built);
    let built = built.map(|(component, _)| *component).collect();
    Ok(Binaries { paths: components.iter().copied().zip(places).collect(), built })
}

/// Finds a tool as [`binaries`] does a component, or builds it: nobody else waits for that.
///
/// # Errors
///
/// As for [`binaries`].
pub fn tool(tool: Tool) -> Result<PathBuf, Error> {
    let (mut places, _) = find_or_build(&[tool.program()], tool.pins())?;
    Ok(places.remove(0))
}

/// Where each program is, and whether it had to be built. What `pins` pin is what they depend on.
fn find_or_build(
    programs: &[Program],
    pins: &[GoModule],
) -> Result<(Vec<PathBuf>, Vec<bool>), Error> {
    let home = env::target_dir().join("control-plane");
    let cache = std::path::absolute(home.join(fingerprint(pins)).join("bin"))
        .map_err(Error::io("find", &home))?;
    let assets = env::assets_dir();
    let place = |program: &Program| {
        let dirs = assets.iter().chain([&cache]);
        dirs.map(|dir| dir.join(program.name)).find(|path| path.is_file())
    };
    let missing = || programs.iter().map(|it| place(it).is_none()).collect::<Vec<bool>>();
    let mut built = missing();
    if built.contains(&true) {
        fs::create_dir_all(&cache).map_err(Error::io("create", &cache))?;
        let _lock = lock(&home.join("build.lock"))?;
        // Another process may have built some while this one waited.
        built = missing();
        let wanted: Vec<Program> =
            programs.iter().zip(&built).filter(|(_, missing)| **missing).map(|it| *it.0).collect();
        build(&wanted, &cache)?;
    }
    let places = programs.iter().map(|it| place(it).unwrap_or_else(|| cache.join(it.name)));
    Ok((places.collect(), built))
}

fn build(programs: &[Program], cache: &Path) -> Result<(), Error> {
    let ldflags = go::ldflags();
    for (done, program) in programs.iter().enumerate() {
        let name = program.name;
        say(&format!("[{}/{}] {name} …", done + 1, programs.len()));
        let start = Instant::now();
        let unfinished = cache.join(format!(".{name}"));
        go::build(*program, &unfinished, &ldflags)?;
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
fn fingerprint(modules: &[GoModule]) -> String {
    let ldflags = go::ldflags();
    let pins = modules.iter().flat_map(|module| module.pins()).flat_map(str::bytes);
    let hash = pins.chain(ldflags.bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
