//! What leaves the machine: each script with stand-ins for the programs that it calls.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{DIGEST, assert_fails, copies, read, run, script, stand_in};

/// Writes down how it was called, in `calls` of the folder that it runs in.
const NOTE: &str = r#"echo "$(basename "$0") $*" >>calls"#;

#[test]
fn the_image_is_made_of_the_static_binaries() {
    let folder = copies("image", &["scripts/image", "Dockerfile"]);
    let reference = "registry.example:5000/team/appwrapper:0.2.0";
    let image = || {
        let mut command = script(&folder, "scripts/image");
        command.arg(reference);
        command
    };
    stand_in(&folder, "git", "echo 0123abc");
    // writes the file that follows --metadata-file
    let docker = format!(
        "{NOTE}\nwhile [ $# -gt 0 ]; do\n  if [ \"$1\" = --metadata-file ]; then\n    \
         printf '{{\\n  \"containerimage.digest\": \"%s\"\\n}}\\n' \"$DIGEST\" >\"$2\"\n  fi\n  shift\ndone"
    );
    stand_in(&folder, "docker", &docker);
    assert_fails(&mut image(), "dist/appwrapper-linux-amd64");
    fs::create_dir(folder.join("dist")).expect("a folder");
    fs::write(folder.join("dist/appwrapper-linux-amd64"), "").expect("it is written");
    assert_fails(&mut image(), "dist/appwrapper-linux-arm64");
    fs::write(folder.join("dist/appwrapper-linux-arm64"), "").expect("it is written");

    let printed = run(image().env("DIGEST", DIGEST));
    assert_eq!((printed.0, printed.1), (0, format!("digest={DIGEST}\n")), "{}", printed.2);
    let calls = read(&folder.join("calls"));
    for want in [
        "--platform linux/amd64,linux/arm64 ",
        "--build-arg BINARY=prebuilt ",
        &format!("--tag {reference} --push"),
        "org.opencontainers.image.version=0.2.0 ",
        "org.opencontainers.image.revision=0123abc ",
    ] {
        assert!(calls.contains(want), "{want}: {calls}");
    }
    let last = calls.lines().last().expect("calls");
    assert!(last.starts_with("docker buildx rm appwrapper-"), "the builder stays: {calls}");
    let dockerfile = read(&folder.join("Dockerfile"));
    for want in ["ARG BINARY=build\n", " AS prebuilt\n", "dist/appwrapper-linux-${TARGETARCH} "] {
        assert!(dockerfile.contains(want), "{want}");
    }
    assert_fails(image().env("DIGEST", ""), "digest");
}

#[test]
fn a_token_is_in_no_command_line() {
    let folder = copies("login", &["scripts/registry-login"]);
    for program in ["docker", "helm"] {
        stand_in(&folder, program, &format!("{NOTE}\necho \"reads $(cat)\" >>calls"));
    }
    let login = || {
        let mut command = script(&folder, "scripts/registry-login");
        command.arg("registry.example:5000/team").env("REGISTRY_USER", "somebody");
        command.env_remove("REGISTRY_TOKEN");
        command
    };
    assert_fails(&mut login(), "REGISTRY_TOKEN");
    assert_fails(login().env("REGISTRY_TOKEN", "t0ken").env("REGISTRY_USER", ""), "REGISTRY_USER");
    let (code, _, said) = run(login().env("REGISTRY_TOKEN", "t0ken"));
    assert_eq!(code, 0, "{said}");
    let options = "login --username somebody --password-stdin registry.example:5000";
    let want = format!("docker {options}\nreads t0ken\nhelm registry {options}\nreads t0ken\n");
    assert_eq!(read(&folder.join("calls")), want);
}

#[test]
fn a_pushed_chart_is_named_by_its_digest() {
    let folder = copies("push", &["scripts/publish-chart"]);
    let publish = || {
        let mut command = script(&folder, "scripts/publish-chart");
        command.args(["chart.tgz", "registry.example/team/charts"]);
        command
    };
    let registry = "registry.example/team/charts";
    assert_fails(&mut publish(), "chart.tgz");
    fs::write(folder.join("chart.tgz"), "").expect("it is written");
    let pushed = format!("{NOTE}\necho Pushed: {registry}/appwrapper:0.2.0\necho Digest: {DIGEST}");
    stand_in(&folder, "helm", &pushed);
    let (code, output, said) = run(&mut publish());
    assert_eq!((code, output), (0, format!("digest={DIGEST}\n")), "{said}");
    assert_eq!(read(&folder.join("calls")), format!("helm push chart.tgz oci://{registry}\n"));
    stand_in(&folder, "helm", "echo denied >&2; exit 1");
    assert_fails(&mut publish(), "denied");
}

#[test]
fn only_a_digest_is_signed() {
    let folder = copies("sign", &["scripts/sign"]);
    stand_in(&folder, "cosign", NOTE);
    let reference = format!("registry.example:5000/team/appwrapper@{DIGEST}");
    let (code, _, said) = run(script(&folder, "scripts/sign").arg(&reference));
    assert_eq!(code, 0, "{said}");
    assert_eq!(read(&folder.join("calls")), format!("cosign sign --yes {reference}\n"));
    for wrong in ["team/appwrapper:latest", "team/appwrapper@", "team/appwrapper@sha256:0123"] {
        assert_eq!(run(script(&folder, "scripts/sign").arg(wrong)).0, 2, "{wrong}");
    }
}

#[test]
fn the_release_has_notes_files_and_checksums() {
    let folder = copies("release", &["scripts/github-release", "scripts/release-notes"]);
    let changes =
        "## [1.0.0] - 2026-01-02\n\n- One.\n\n## [1.0.0-rc.1] - 2026-01-01\n\n- Almost.\n";
    fs::write(folder.join("CHANGELOG.md"), changes).expect("it is written");
    fs::create_dir(folder.join("dist")).expect("a folder");
    fs::write(folder.join("dist/appwrapper-linux-amd64"), "program").expect("it is written");
    // keeps the file that follows --notes-file, which is gone afterwards
    let notes =
        "while [ $# -gt 0 ]; do\n  [ \"$1\" != --notes-file ] || cat \"$2\" >notes\n  shift\ndone";
    stand_in(&folder, "gh", &format!("{NOTE}\n{notes}"));
    let release = |tag: &str| {
        let mut command = script(&folder, "scripts/github-release");
        command.args([tag, "dist"]).env("GH_TOKEN", "t0ken");
        command
    };
    assert_fails(release("v1.0.0").env("GH_TOKEN", ""), "GH_TOKEN");
    assert_fails(&mut release("v2.0.0"), "2.0.0");
    for (tag, prerelease, want) in
        [("v1.0.0", "", "- One.\n"), ("v1.0.0-rc.1", " --prerelease", "- Almost.\n")]
    {
        drop(fs::remove_file(folder.join("calls")));
        let (code, _, said) = run(&mut release(tag));
        assert_eq!(code, 0, "{said}");
        assert_eq!(read(&folder.join("notes")), want);
        let calls = read(&folder.join("calls"));
        assert!(calls.starts_with(&format!("gh release create {tag} --verify-tag ")), "{calls}");
        let files = format!("{prerelease} dist/SHA256SUMS dist/appwrapper-linux-amd64\n");
        assert!(calls.ends_with(&files), "{calls}");
        assert_eq!(calls.contains("--prerelease"), !prerelease.is_empty(), "{calls}");
        assert!(!calls.contains("t0ken"), "{calls}");
    }
    let sums = read(&folder.join("dist/SHA256SUMS"));
    assert_eq!(sums.lines().count(), 1, "{sums}");
    assert!(sums.ends_with("  appwrapper-linux-amd64\n"), "{sums}");
}

#[test]
fn another_architecture_needs_a_compiler_of_its_own() {
    let (target, variable) = if std::env::consts::ARCH == "aarch64" {
        ("x86_64-unknown-linux-musl", "CC_x86_64_unknown_linux_musl")
    } else {
        ("aarch64-unknown-linux-musl", "CC_aarch64_unknown_linux_musl")
    };
    let folder = copies("static", &["scripts/static-binary", "rust-toolchain.toml"]);
    // neither installs nor builds anything
    stand_in(&folder, "rustup", NOTE);
    let cargo = format!(
        "{NOTE}\nmkdir -p target/{target}/release\ncp \"$PROGRAM\" target/{target}/release/appwrapper"
    );
    stand_in(&folder, "cargo", &cargo);
    let build = || {
        let mut command = script(&folder, "scripts/static-binary");
        command.args([target, "dist/program"]).env_remove(variable).env_remove("CARGO_TARGET_DIR");
        command
    };
    assert_fails(&mut build(), variable);
    let text = folder.join("scripts/static-binary");
    assert_fails(build().env(variable, "cc").env("PROGRAM", text), "no ELF file");
    // the shell is linked to libraries
    assert_fails(build().env(variable, "cc").env("PROGRAM", "/bin/sh"), "not static");
    let calls = read(&folder.join("calls"));
    assert!(
        calls.contains(" --no-default-features ") && calls.contains(&format!("--target {target}"))
    );
}

#[test]
fn an_audit_that_cannot_look_says_so() {
    let folder = copies("audit", &[".ci/audit"]);
    let scanning = "echo '    Scanning Cargo.lock for vulnerabilities (1 crate dependencies)'";
    for (lines, code, want) in [
        (scanning.to_owned(), 0, ""),
        (format!("{scanning}; exit 1"), 1, "found vulnerabilities"),
        ("echo 'error: the server is away' >&2; exit 1".to_owned(), 3, "the advisory database"),
    ] {
        stand_in(&folder, "cargo", &lines);
        let (ended, _, said) = run(&mut script(&folder, ".ci/audit"));
        assert_eq!(ended, code, "{lines}: {said}");
        assert!(said.contains(want), "{lines}: {said}");
    }
}

#[test]
fn the_plugin_is_packed_with_a_manifest_that_fits() {
    let folder = copies("krew", &["scripts/krew", "config/krew/aw.yaml", "LICENSE"]);
    let dist = folder.join("dist");
    fs::create_dir_all(&dist).expect("a folder");
    let address = "https://example.com/releases/v1.2.3";
    let pack = || {
        let mut command = script(&folder, "scripts/krew");
        command.args(["v1.2.3", "dist", address, "https://example.com/"]);
        command
    };
    fs::write(dist.join("appwrapper-linux-amd64"), "one").expect("it is written");
    assert_fails(&mut pack(), "appwrapper-linux-arm64 is missing");
    fs::write(dist.join("appwrapper-linux-arm64"), "two").expect("it is written");
    let (code, _, said) = run(&mut pack());
    assert_eq!(code, 0, "{said}");
    let text = read(&dist.join("aw.yaml"));
    assert!(!text.contains('@') && !text.contains("scripts/"), "{text}");
    let manifest: Value = serde_saphyr::from_str(&text).expect("YAML");
    assert_eq!(manifest["spec"]["version"], "v1.2.3");
    assert_eq!(manifest["metadata"]["name"], "aw", "kubectl-aw is the plugin of this name");
    for (index, architecture, content) in [(0, "amd64", "one"), (1, "arm64", "two")] {
        let platform = &manifest["spec"]["platforms"][index];
        let name = format!("kubectl-aw-linux-{architecture}.tar.gz");
        assert_eq!(platform["selector"]["matchLabels"]["arch"], architecture);
        assert_eq!(platform["uri"], format!("{address}/{name}"));
        let archive = dist.join(&name);
        let (_, sum, _) = run(Command::new("sha256sum").arg(&archive));
        assert!(sum.starts_with(platform["sha256"].as_str().expect("a text")), "{sum}");
        let bin = platform["bin"].as_str().expect("a text");
        let (code, packed, said) = run(Command::new("tar").arg("xzOf").arg(&archive).arg(bin));
        assert_eq!((code, packed.as_str()), (0, content), "{said}");
        let (_, list, _) = run(Command::new("tar").arg("tvzf").arg(&archive));
        assert!(list.starts_with("-rwxr-xr-x") || list.contains("\n-rwxr-xr-x"), "{list}");
        assert!(list.contains("LICENSE"), "{list}");
    }
}
