//! Files, directories and standard input.

use std::io::Read;
use std::path::{Path, PathBuf};

/// The most that is read, in bytes, in all files together.
const BYTES_MAX: u64 = 64 << 20;
/// The most files that are read.
const FILES_MAX: usize = 10_000;

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name for messages.
    pub name: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be opened or read.
    #[error("{name}: {source}")]
    Read {
        /// The file.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// With it, there is too much.
    #[error("{name}: too large: at most {} MiB are read across all files", BYTES_MAX >> 20)]
    TooLarge {
        /// The file.
        name: String,
    },
    /// A directory has nothing that could be read.
    #[error("{0}: no *.yaml, *.yml or *.json files in this directory")]
    Empty(String),
    /// There are too many files.
    #[error("{0}: too many files: at most {FILES_MAX} are read")]
    TooMany(String),
}

/// Reads files, the files of directories and of all directories below in the order of their names, and standard input
/// (`-`).
///
/// # Errors
/// The first that cannot be read.
pub fn sources(paths: &[PathBuf]) -> Result<Vec<Source>, Error> {
    let mut all: Vec<Source> = vec![];
    let mut left = BYTES_MAX;
    let mut keep = |source: Source, all: &mut Vec<Source>| {
        left = match left.checked_sub(source.bytes.len() as u64) {
            Some(left) => left,
            None => return Err(Error::TooLarge { name: source.name }),
        };
        if all.len() >= FILES_MAX {
            return Err(Error::TooMany(source.name));
        }
        all.push(source);
        Ok(())
    };
    for path in paths {
        let name = name(path);
        if path.as_os_str() == "-" {
            keep(read(name, std::io::stdin().lock())?, &mut all)?;
        } else if path.is_dir() {
            let files = files_of(path)?;
            if files.is_empty() {
                return Err(Error::Empty(name));
            }
            for file in files {
                keep(open(&file)?, &mut all)?;
            }
        } else {
            keep(open(path)?, &mut all)?;
        }
    }
    Ok(all)
}

/// The name of a file for messages.
pub(super) fn name(path: &Path) -> String {
    if path.as_os_str() == "-" { "stdin".to_owned() } else { path.display().to_string() }
}

fn files_of(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let (mut files, mut directories) = (vec![], vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        let cannot = |source| Error::Read { name: directory.display().to_string(), source };
        for entry in std::fs::read_dir(&directory).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let path = entry.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            // a link to a directory is none: it may lead back
            if entry.file_type().map_err(cannot)?.is_dir() {
                directories.push(path);
            } else if path.is_file() && matches!(extension, Some("yaml" | "yml" | "json")) {
                files.push(path);
            }
            // one more than is read, which says so
            if files.len() > FILES_MAX {
                return Ok(files);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn open(path: &Path) -> Result<Source, Error> {
    let name = path.display().to_string();
    match std::fs::File::open(path) {
        Ok(file) => read(name, file),
        Err(source) => Err(Error::Read { name, source }),
    }
}

fn read(name: String, input: impl Read) -> Result<Source, Error> {
    let mut bytes = vec![];
    let mut input = input.take(BYTES_MAX + 1);
    if let Err(source) = input.read_to_end(&mut bytes) {
        return Err(Error::Read { name, source });
    }
    if input.limit() == 0 {
        return Err(Error::TooLarge { name });
    }
    Ok(Source { name, bytes })
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    #[test]
    fn directories_below_are_searched_and_no_links_to_directories() {
        let root = std::env::temp_dir().join(format!("appwrapper-below-{}", std::process::id()));
        let below = root.join("b/c");
        std::fs::create_dir_all(&below).unwrap();
        for name in ["a.yaml", "z.txt", "b/c/d.json"] {
            std::fs::write(root.join(name), "{}").unwrap();
        }
        std::os::unix::fs::symlink(&root, below.join("back")).unwrap();
        std::os::unix::fs::symlink(root.join("a.yaml"), below.join("e.yml")).unwrap();
        let names = |read: Result<Vec<Source>, Error>| {
            let named = |source: &Source| {
                let path = Path::new(&source.name).strip_prefix(&root).unwrap();
                path.display().to_string()
            };
            read.unwrap().iter().map(named).collect::<Vec<_>>()
        };
        assert_eq!(names(sources(from_ref(&root))), ["a.yaml", "b/c/d.json", "b/c/e.yml"]);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
