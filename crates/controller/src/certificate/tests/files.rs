//! A certificate in files, replaced in the kubelet's manner.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::fs;

use super::*;
use crate::tls::Current;

/// More than two looks.
const LOOKED: Duration = Duration::from_secs(7);

/// What the kubelet makes of a Secret: `tls.crt` → `..data/tls.crt`, `..data` → a directory of its own.
struct Volume {
    path: PathBuf,
    version: u32,
}

impl Volume {
    async fn new() -> Self {
        let path = std::env::temp_dir().join(format!("appwrapper-cert-{}", std::process::id()));
        fs::create_dir_all(&path).await.unwrap();
        for name in ["tls.crt", "tls.key"] {
            fs::symlink(Path::new("..data").join(name), path.join(name)).await.unwrap();
        }
        Self { path, version: 0 }
    }

    /// Replaces both files at once; returns what is served when they must have been looked at.
    async fn put(&mut self, certificate: &str, key: &str, current: &Current) -> Option<Timestamp> {
        self.version += 1;
        let directory = self.path.join(format!("..{}", self.version));
        fs::create_dir(&directory).await.unwrap();
        fs::write(directory.join("tls.crt"), certificate).await.unwrap();
        fs::write(directory.join("tls.key"), key).await.unwrap();
        fs::symlink(&directory, self.path.join("..new")).await.unwrap();
        fs::rename(self.path.join("..new"), self.path.join("..data")).await.unwrap();
        tokio::time::sleep(LOOKED).await;
        current.expires()
    }
}

#[tokio::test(start_paused = true)]
async fn files_that_change_are_read_again_and_broken_ones_are_not_taken() {
    let current = Arc::new(Current::new());
    let mut volume = Volume::new().await;
    let task = tokio::spawn(files(volume.path.clone(), current.clone()));
    tokio::time::sleep(LOOKED).await;
    assert_eq!(current.expires(), None, "there are none yet");
    let (one, two) = (made(0, &["a"]), made(50, &["a"]));
    let (first, second) = (one.texts(), two.texts());
    let until = |second: i64| Some(at(LIFE.cast_signed() + second));
    assert_eq!(volume.put(&first.certificate, &first.key, &current).await, until(0));
    assert_eq!(volume.put(&second.certificate, &first.key, &current).await, until(0), "no pair");
    assert_eq!(volume.put("", "", &current).await, until(0), "nothing");
    assert_eq!(volume.put(&second.certificate, &second.key, &current).await, until(50));
    fs::remove_file(volume.path.join("tls.key")).await.unwrap();
    tokio::time::sleep(LOOKED).await;
    assert_eq!(current.expires(), until(50), "one is missing");
    task.abort();
    fs::remove_dir_all(&volume.path).await.unwrap();
}
