//! What the image is made of, without an engine for containers: one static binary in an empty root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The platform of the image.
const TARGET: &str = "x86_64-unknown-linux-musl";

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Builds the binary as the image has it; everything it depends on, too.
fn build() -> PathBuf {
    let root = env!("CARGO_MANIFEST_DIR");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("image");
    let built = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["build", "--locked", "--no-default-features", "--bin", "appwrapper"])
        .args(["--target", TARGET, "--target-dir"])
        .arg(&folder)
        // the little C that there is needs no library, so that any compiler does
        .env("CC_x86_64_unknown_linux_musl", "cc")
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{}", said(&built));
    folder.join(TARGET).join("debug/appwrapper")
}

#[test]
#[ignore = "nightly: builds everything once more; .ci/run, too"]
fn the_binary_runs_where_there_is_nothing_else() {
    let binary = build();
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("empty-root");
    // the first time there is none
    drop(fs::remove_dir_all(&root));
    fs::create_dir(&root).expect("a folder");
    fs::copy(binary, root.join("appwrapper")).expect("it is copied");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/job.yaml");
    fs::copy(sample, root.join("job.yaml")).expect("it is copied");
    for (arguments, want) in [
        (vec!["crd"], "appwrappers.workload.codeflare.dev"),
        (vec!["validate", "/job.yaml"], "valid"),
        (vec!["explain", "-f", "/job.yaml"], "creates"),
        (vec!["demo"], "unrecognized subcommand"),
        (vec!["run"], "no cluster: "),
    ] {
        let ran = Command::new("unshare")
            .args(["--map-root-user", "chroot"])
            .arg(&root)
            .arg("/appwrapper")
            .args(&arguments)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .output()
            .expect("unshare runs");
        let said = said(&ran);
        assert!(said.contains(want), "{arguments:?}: {said}");
    }
}
