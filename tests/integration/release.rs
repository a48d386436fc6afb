//! The lanes and the release: workflows only call scripts, and the scripts do what they say.
//!
//! Programs that need a registry or GitHub are played by stand-ins, which write down how they were called.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

mod published;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The longest `run:` of a workflow, in lines.
const LINES_MAX: usize = 3;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder");
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    all.sort();
    all
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// An empty folder of one test.
fn empty(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("release").join(name);
    // the first time there is none
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// A folder with copies of these files of the repository.
fn copies(name: &str, files: &[&str]) -> PathBuf {
    let folder = empty(name);
    for file in files {
        let to = folder.join(file);
        fs::create_dir_all(to.parent().expect("it is in the folder")).expect("a folder");
        fs::copy(root().join(file), to).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
    folder
}

/// A program of this name in `bin`, which runs these lines of a shell script.
fn stand_in(folder: &Path, name: &str, lines: &str) {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let path = bin.join(name);
    fs::write(&path, format!("#!/bin/sh\n{lines}\n")).expect("it is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// A script of `folder`, with the stand-ins of `folder` before all other programs.
fn script(folder: &Path, name: &str) -> Command {
    let mut command = Command::new("bash");
    let path = std::env::var_os("PATH").expect("a PATH").into_string().expect("UTF-8");
    command.arg(folder.join(name)).current_dir(folder);
    command.env("LC_ALL", "C").env("PATH", format!("{}:{path}", folder.join("bin").display()));
    command
}

/// Exit code, standard output and standard error.
fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

/// The only line that an error is.
fn assert_fails(command: &mut Command, want: &str) {
    let (code, _, said) = run(command);
    assert_eq!(code, 1, "{said}");
    assert!(said.starts_with("error: ") && said.contains(want), "{want}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

fn workflows() -> Vec<(String, Value)> {
    let all = files(".github/workflows").into_iter().map(|path| {
        let workflow = serde_saphyr::from_str(&read(&path));
        let name = path.display().to_string();
        (name.clone(), workflow.unwrap_or_else(|error| panic!("{name}: {error}")))
    });
    all.collect()
}

#[test]
fn a_job_has_permissions_and_a_timeout() {
    let mut count = 0;
    for (name, workflow) in workflows() {
        let none = workflow["permissions"].as_object().expect("permissions of the workflow");
        assert!(none.is_empty(), "{name}: each job has its own permissions");
        assert!(workflow["concurrency"]["group"].is_string(), "{name}: no concurrency");
        for (job, value) in workflow["jobs"].as_object().expect("jobs") {
            assert!(value["permissions"].is_object(), "{name}: {job} has no permissions");
            assert!(value["timeout-minutes"].is_u64(), "{name}: {job} has no timeout-minutes");
            count += 1;
        }
    }
    assert!(count >= 3, "the jobs were found");
}

/// Expressions would be put into the text of a shell script, whatever they contain.
#[test]
fn a_step_calls_a_script_or_a_pinned_action() {
    let mut called = BTreeSet::new();
    for (name, workflow) in workflows() {
        let jobs = workflow["jobs"].as_object().expect("jobs");
        for step in jobs.values().flat_map(|job| job["steps"].as_array().expect("steps")) {
            if let Some(action) = step["uses"].as_str() {
                let (_, commit) = action.split_once('@').expect("a version");
                let is_commit =
                    commit.len() == 40 && commit.bytes().all(|it| it.is_ascii_hexdigit());
                assert!(is_commit, "{name}: {action} is not pinned by a commit");
                continue;
            }
            let lines = step["run"].as_str().expect("`run` or `uses`");
            assert!(lines.lines().count() <= LINES_MAX, "{name}: {lines:?} belongs into a script");
            assert!(!lines.contains("${{"), "{name}: {lines:?} has an expression: use `env`");
            for line in lines.lines() {
                let script = line.split(' ').next().unwrap_or_default();
                assert!(is_executable(&root().join(script)), "{name}: {line:?} calls no script");
                called.insert(script.to_owned());
            }
        }
    }
    for path in files("scripts") {
        let script = format!("scripts/{}", path.file_name().expect("a name").display());
        assert!(called.contains(&script), "no workflow calls {script}");
    }
    assert!(called.contains(".ci/run") && called.contains(".ci/nightly"), "{called:?}");
}

#[test]
fn a_script_is_strict_and_parses() {
    for path in files("scripts").into_iter().chain(files(".ci")) {
        let (name, text) = (path.display(), read(&path));
        assert!(is_executable(&path), "{name} is not executable");
        assert!(text.starts_with("#!/usr/bin/env bash\n# "), "{name}: bash, and what it is for");
        assert!(text.contains("\nset -euo pipefail\n"), "{name} is not strict");
        let (code, _, said) = run(Command::new("bash").arg("-n").arg(&path));
        assert_eq!(code, 0, "{said}");
    }
}

#[test]
fn wrong_arguments_are_answered_by_the_usage() {
    let many = ["x"; 9];
    let mut wrong: Vec<(PathBuf, &[&str])> = files("scripts")
        .into_iter()
        .flat_map(|path| [(path.clone(), &[][..]), (path, &many)])
        .collect();
    for (script, arguments) in [
        (".ci/audit", &["x"][..]),
        (".ci/allow-namespaces", &["x"]),
        (".ci/install", &["x"]),
        (".ci/nightly", &["x"]),
        (".ci/nightly", &["real-nodes", "ignored"]),
        ("scripts/static-binary", &["x86_64-unknown-linux-gnu", "out"]),
        ("scripts/image", &["appwrapper:0.1.0"]),
        ("scripts/chart", &["--help"]),
        ("scripts/release-notes", &["0.1.0"]),
        ("scripts/release-check", &["v1"]),
        ("scripts/sign", &["registry.example/team/appwrapper:0.1.0"]),
    ] {
        wrong.push((root().join(script), arguments));
    }
    for (path, arguments) in wrong {
        let (code, output, said) = run(Command::new(&path).args(arguments));
        let name = path.display();
        assert_eq!(code, 2, "{name} {arguments:?}: {said}");
        assert!(said.starts_with("usage: ") && said.lines().count() == 1, "{name}: {said}");
        assert_eq!(output, "", "{name} {arguments:?}");
    }
}

#[test]
fn the_nightly_workflow_runs_every_part_of_its_script() {
    let mut all = workflows().into_iter();
    let (_, workflow) = all.find(|(name, _)| name.ends_with("/nightly.yml")).expect("it is there");
    let parts = &workflow["jobs"]["nightly"]["strategy"]["matrix"]["part"];
    let parts = parts.as_array().expect("a list").iter().map(|part| part.as_str().expect("a name"));
    let (_, _, said) = run(Command::new(root().join(".ci/nightly")).arg("x"));
    let want = format!("usage: .ci/nightly [{}]\n", parts.collect::<Vec<_>>().join("|"));
    assert_eq!(said, want);
}

#[test]
fn the_release_check_names_every_place_with_another_version() {
    let places = [
        ("Cargo.toml", "\nversion = \"{}\""),
        ("Cargo.lock", "name = \"appwrapper\"\nversion = \"{}\""),
        ("charts/appwrapper/Chart.yaml", "\nversion: {}"),
        ("charts/appwrapper/Chart.yaml", "appVersion: {}"),
        ("charts/appwrapper/values.yaml", "image: appwrapper:{}"),
        ("config/manager/deployment.yaml", "image: appwrapper:{}"),
        ("config/shadow/deployment.yaml", "image: appwrapper:{}"),
        ("CHANGELOG.md", "## [{}] - 2026-01-02"),
    ];
    let mut all: Vec<&str> = places.iter().map(|(file, _)| *file).collect();
    all.push("scripts/release-check");
    let folder = copies("check", &all);
    let changes = format!("# Changelog\n\n## [{VERSION}] - 2026-01-02\n\n- Something.\n");
    fs::write(folder.join("CHANGELOG.md"), changes).expect("it is written");
    let tag = format!("v{VERSION}");
    let check = || {
        let mut command = script(&folder, "scripts/release-check");
        command.arg(&tag);
        command
    };
    let (code, _, said) = run(&mut check());
    assert_eq!(code, 0, "{said}");
    for (file, place) in places {
        let path = folder.join(file);
        let right = read(&path);
        let found = place.replace("{}", VERSION);
        assert!(right.contains(&found), "{file} has no {found:?}");
        fs::write(&path, right.replace(&found, &place.replace("{}", "7.7.7"))).expect("written");
        assert_fails(&mut check(), file);
        fs::write(&path, right).expect("it is written");
    }
    fs::write(folder.join("CHANGELOG.md"), format!("## [{VERSION}] - Unreleased\n"))
        .expect("written");
    assert_fails(&mut check(), "YYYY-MM-DD");
}

#[test]
fn the_release_notes_are_the_section_of_the_version() {
    let folder = copies("notes", &["scripts/release-notes"]);
    let changes = "# Changelog\n\n## [Unreleased]\n\n## [11.0.0] - 2026-03-01\n\n- Eleven.\n\n\
        ## [1.0.0] - 2026-02-01\n\n### Fixed\n\n- One.\n\n## [1.0.0-rc.1] - 2026-01-01\n\n- Almost.\n\n\
        [1.0.0]: somewhere\n";
    fs::write(folder.join("CHANGELOG.md"), changes).expect("it is written");
    for (tag, want) in [
        ("v11.0.0", "- Eleven.\n"),
        ("v1.0.0", "### Fixed\n\n- One.\n"),
        ("v1.0.0-rc.1", "- Almost.\n"),
    ] {
        let printed = run(script(&folder, "scripts/release-notes").arg(tag));
        assert_eq!(printed, (0, want.to_owned(), String::new()), "{tag}");
    }
    assert_fails(script(&folder, "scripts/release-notes").arg("v0.9.0"), "0.9.0");
    fs::write(folder.join("CHANGELOG.md"), "## [0.9.0] - 2026-01-01\n\n## [0.8.0]\n")
        .expect("written");
    assert_fails(script(&folder, "scripts/release-notes").arg("v0.9.0"), "0.9.0");
    let (code, ours, said) =
        run(script(root(), "scripts/release-notes").arg(format!("v{VERSION}")));
    assert_eq!(code, 0, "CHANGELOG.md: {said}");
    assert!(ours.lines().count() > 1, "{ours}");
}

#[test]
fn the_bill_of_materials_lists_what_the_binary_is_made_of() {
    let out = empty("sbom").join("sub/bom.json");
    let (code, _, said) = run(script(root(), "scripts/sbom").arg(&out));
    assert_eq!(code, 0, "{said}");
    let bill: Value = serde_json::from_str(&read(&out)).expect("JSON");
    assert_eq!(bill["bomFormat"], "CycloneDX");
    assert_eq!(bill["metadata"]["component"]["version"], VERSION);
    let mut listed = BTreeSet::from([format!("appwrapper v{VERSION}")]);
    for component in bill["components"].as_array().expect("components") {
        let text = |field: &str| component[field].as_str().expect("a text").to_owned();
        assert!(
            listed.insert(format!("{} v{}", text("name"), text("version"))),
            "twice: {component}"
        );
        let licence = component["licenses"][0]["expression"].as_str().expect("an expression");
        assert!(!licence.is_empty() && !licence.contains('/'), "{component}");
    }
    let (code, tree, said) = run(Command::new(env!("CARGO")).current_dir(root()).args([
        "tree",
        "--locked",
        "--package=appwrapper",
        "--no-default-features",
        "--edges=normal",
        "--prefix=none",
        "--target=x86_64-unknown-linux-musl",
        "--format={p}",
    ]));
    assert_eq!(code, 0, "{said}");
    for line in tree.lines() {
        let name = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        assert!(listed.contains(&name), "{name} is in the binary and not in the bill");
    }
    for other in ["proptest", "indicatif", "appwrapper-world", "cc"] {
        let start = format!("{other} v");
        assert!(
            !listed.iter().any(|name| name.starts_with(&start)),
            "{other} is not in the binary"
        );
    }
}

/// Whoever can move the tag cannot change what the signed chart installs.
#[test]
fn the_released_chart_names_the_image_by_its_digest() {
    let mut all = workflows().into_iter();
    let (_, workflow) = all.find(|(name, _)| name.ends_with("/release.yml")).expect("it is there");
    let jobs = &workflow["jobs"];
    assert_eq!(jobs["image"]["outputs"]["digest"], "${{ steps.image.outputs.digest }}");
    let steps = jobs["chart"]["steps"].as_array().expect("steps");
    let line = |step: &Value| step["run"].as_str().unwrap_or_default().to_owned();
    let step = steps.iter().find(|step| line(step).starts_with("scripts/chart "));
    let step = step.expect("it packages the chart");
    assert!(line(step).ends_with("@$DIGEST\""), "{step}");
    assert_eq!(step["env"]["DIGEST"], "${{ needs.image.outputs.digest }}");
}

/// With another one, rustup would download the toolchain while the image is built.
#[test]
fn the_image_is_built_with_the_pinned_toolchain() {
    let pinned = read(&root().join("rust-toolchain.toml"));
    let version = pinned.split('"').nth(1).expect("the channel");
    let dockerfile = read(&root().join("Dockerfile"));
    for want in
        [format!("FROM rust:{version}-alpine "), format!("ENV RUSTUP_TOOLCHAIN={version}\n")]
    {
        assert!(dockerfile.contains(&want), "{want}");
    }
}

#[test]
fn the_chart_is_packaged_with_its_version_and_image() {
    let image = format!("registry.example/team/appwrapper:{VERSION}@{DIGEST}");
    let archives = ["first", "second"].map(|name| {
        let out = empty(&format!("chart-{name}"));
        let (code, printed, said) = run(script(root(), "scripts/chart").arg(&out).arg(&image));
        assert_eq!(code, 0, "{said}");
        let archive = out.join(format!("appwrapper-{VERSION}.tgz"));
        assert_eq!(printed.trim_end(), archive.to_str().expect("UTF-8"));
        archive
    });
    let [first, second] = archives.each_ref().map(|path| fs::read(path).expect("an archive"));
    assert!(first == second, "two archives of one tree differ");
    let (_, list, _) = run(Command::new("tar").args(["tvz", "--utc", "-f"]).arg(&archives[0]));
    let is_fixed = |line: &str| line.contains(" 0/0 ") && line.contains(" 1970-01-02 00:00 ");
    assert!(!list.is_empty() && list.lines().all(is_fixed), "{list}");
    let unpack = |file: &str| {
        let (code, text, said) = run(Command::new("tar")
            .arg("xzOf")
            .arg(&archives[0])
            .arg(format!("appwrapper/{file}")));
        assert_eq!(code, 0, "{said}");
        text
    };
    let values: Value = serde_saphyr::from_str(&unpack("values.yaml")).expect("YAML");
    assert_eq!(values["image"], image.as_str());
    for path in files("charts/appwrapper/templates") {
        let name = format!("templates/{}", path.file_name().expect("a name").display());
        assert!(unpack(&name) == read(&path), "{name}");
    }
    assert_fails(script(root(), "scripts/chart").arg(empty("chart-no")).arg("a b"), "a b");
}
