//! `appwrapper demo`, as a program that is run: the story, every sample, faults, and bad input.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn demo(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_appwrapper"));
    command.arg("demo").args(arguments).current_dir(root());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("it was piped");
    // a program that does not read is no error
    drop(stdin.write_all(input.as_bytes()));
    drop(stdin);
    child.wait_with_output().expect("the program ends")
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn complaint(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// The lines of a run as JSON, the last of them the result.
fn told(arguments: &[&str]) -> (Vec<Value>, Value) {
    let output = demo(&[arguments, &["-o", "json"]].concat(), "");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", complaint(&output));
    let text = text(&output);
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let result = lines.pop().expect("a last line");
    (lines, result["result"].clone())
}

/// The lines that begin with these objects and events come in this order.
fn in_order(lines: &[Value], beats: &[(&str, &str, &str)]) {
    let mut rest = lines.iter();
    for (object, event, part) in beats {
        let is = |line: &&Value| {
            line["object"] == *object
                && line["event"] == *event
                && line["message"].as_str().is_some_and(|message| message.contains(part))
        };
        assert!(rest.any(|line| is(&line)), "{object} {event} {part}: {lines:#?}");
    }
}

#[test]
fn the_story_has_its_beats_in_order() {
    let (lines, result) = told(&[]);
    // the node that fails is the one that the scheduler chose for the worker
    let runs = |line: &&Value| line["object"] == "Pod/train-worker-0" && line["event"] == "Runs";
    let message = lines.iter().find(runs).and_then(|line| line["message"].as_str());
    let mut words = message.expect("the worker runs").split_whitespace();
    let node = words.find(|word| word.starts_with("node-")).expect("a node");
    let object = format!("Node/{node}");
    let blocker = format!("Pod/train-worker-0 on node {node}");
    let elsewhere = format!(", not on {node} again");
    in_order(
        &lines,
        &[
            ("AppWrapper/train", "Admitted", "2 of 2 nvidia.com/gpu are reserved"),
            ("AppWrapper/train", "Running", ""),
            ("AppWrapper/train", "Ready", ""),
            ("AppWrapper/evaluate", "Waits", "0 of 2 nvidia.com/gpu are free"),
            (&object, "NodeDied", "Pod/train-worker-0"),
            ("Pod/train-worker-0", "StuckTerminating", node),
            ("Pod/train-master-0", "Failed", "exit code 1"),
            ("AppWrapper/train", "Unhealthy", "FailedComponent"),
            ("AppWrapper/train", "Resetting", "restart 1 of at most 3"),
            ("AppWrapper/train", "QuotaHeld", "stays reserved"),
            ("AppWrapper/train", "Warning", &blocker),
            ("Pod/train-worker-0", "Forced", "force-deleted"),
            ("AppWrapper/train", "EverythingGone", "20 s"),
            ("AppWrapper/train", "Resuming", "attempt 1"),
            ("Pod/train-worker-0", "Runs", &elsewhere),
            ("AppWrapper/train", "Succeeded", "attempt 1"),
            ("AppWrapper/train", "QuotaReleased", "0 of 2"),
            ("AppWrapper/evaluate", "Admitted", ""),
            ("AppWrapper/evaluate", "Succeeded", ""),
        ],
    );
    assert_eq!(result["phases"]["train"], "Succeeded");
    assert_eq!(result["phases"]["evaluate"], "Succeeded");
    let seconds = result["virtualSeconds"].as_f64().expect("a number");
    assert!((120.0..600.0).contains(&seconds), "{seconds}");
    let first = &lines[0];
    assert_eq!(first["time"], "2026-01-01T00:00:00Z", "{first}");
}

#[test]
fn the_story_of_the_readme_is_the_demos() {
    let story = text(&demo(&[], ""));
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md is there");
    let (_, shown) = readme.split_once("```text\n").expect("a block of output");
    let (shown, _) = shown.split_once("```").expect("its end");
    assert!(shown.lines().count() > 5, "{shown}");
    for line in shown.lines() {
        assert!(story.lines().any(|told| told == line), "README.md shows {line:?}:\n{story}");
    }
}

#[test]
fn the_night_of_the_fleet_page_is_the_simulators() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_appwrapper"));
    let told = command.args(["simulate", "--night"]).output().expect("the program runs");
    assert_eq!(told.status.code(), Some(0), "{}", complaint(&told));
    let told = text(&told);
    let page = std::fs::read_to_string(root().join("docs/user/fleet.md")).expect("it is there");
    let blocks: Vec<&str> = page.split("```text\n").skip(1).collect();
    let lines = blocks.iter().take(3).flat_map(|block| {
        block.split("```").next().unwrap_or_default().lines().collect::<Vec<_>>()
    });
    let lines: Vec<&str> = lines.collect();
    assert!(lines.len() > 20, "{lines:?}");
    for line in lines {
        assert!(told.lines().any(|one| one.trim() == line), "docs show {line:?}:\n{told}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_the_same_end() {
    for arguments in [vec![], vec!["-o", "json"], vec!["samples/jobset.yaml", "--fault", "pod"]] {
        let (one, two) = (demo(&arguments, ""), demo(&arguments, ""));
        assert_eq!(one.status.code(), Some(0), "{}", complaint(&one));
        assert!(one.stdout == two.stdout, "{arguments:?}");
        assert!(!text(&one).contains('\x1b'), "no colours without a terminal");
    }
    for seed in ["2", "3", "4", "5"] {
        let (_, result) = told(&["--seed", seed]);
        assert_eq!(result["phases"]["train"], "Succeeded", "seed {seed}");
        assert_eq!(result["phases"]["evaluate"], "Succeeded", "seed {seed}");
    }
}

/// What a sample expects of the demo if it needs an object that only a cluster has.
const NOT_SIMULATED: &str = "not simulated";

/// File and expected phase of every sample that the demo can run.
fn samples(folder: &str) -> Vec<(String, String)> {
    let mut all = all_samples(folder);
    all.retain(|(_, expect)| expect != NOT_SIMULATED);
    assert!(all.len() >= 9, "{all:?}");
    all
}

/// File and expectation of every sample.
fn all_samples(folder: &str) -> Vec<(String, String)> {
    let files = std::fs::read_dir(root().join(folder)).expect("the folder is there");
    let mut all: Vec<(String, String)> = files
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.is_file())
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a readable sample");
            let expect = text.lines().find_map(|line| line.strip_prefix("# expect: "));
            let file = Path::new(folder).join(path.file_name().expect("a name"));
            (file.display().to_string(), expect.expect("a sample says how it ends").to_owned())
        })
        .collect();
    all.sort();
    all
}

fn only_phase(result: &Value) -> String {
    let phases = result["phases"].as_object().expect("phases");
    assert_eq!(phases.len(), 1, "{result}");
    phases.values().next().and_then(Value::as_str).expect("a phase").to_owned()
}

#[test]
fn every_sample_ends_as_it_says() {
    for (file, expect) in samples("samples").into_iter().chain(samples("samples/policies")) {
        let (_, result) = told(&[&file]);
        assert_eq!(only_phase(&result), expect, "{file}");
    }
}

#[test]
fn a_sample_that_needs_a_cluster_ends_with_one_error() {
    let needing = all_samples("samples").into_iter().filter(|(_, expect)| expect == NOT_SIMULATED);
    let files: Vec<String> = needing.map(|(file, _)| file).collect();
    assert_eq!(files, ["samples/trainjob.yaml"]);
    let output = demo(&["samples/trainjob.yaml"], "");
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    let error = complaint(&output);
    assert!(error.contains("spec.components[0].podSets") && error.lines().count() == 1, "{error}");
}

/// What is told of a pause is what comes.
#[test]
fn the_next_attempt_begins_when_it_is_told() {
    let mut told_of = 0;
    for (file, _) in samples("samples").into_iter().chain(samples("samples/policies")) {
        let (lines, _) = told(&[&file, "--fault", "pod"]);
        for (at, line) in
            lines.iter().enumerate().filter(|(_, line)| line["event"] == "EverythingGone")
        {
            let promised = line["message"].as_str().expect("a message");
            let next = lines[at..]
                .iter()
                .find(|next| next["event"] == "Resuming" && next["object"] == line["object"]);
            let Some(next) = next else { continue };
            let seconds = |line: &Value| line["seconds"].as_f64().expect("a number");
            let waited = seconds(next) - seconds(line);
            let (_, when) = promised.split_once("begins ").expect("it says when");
            let promised: f64 = match when.strip_prefix("in ") {
                None => 0.0,
                Some(span) => span
                    .rsplit("min")
                    .map(|part| part.trim().trim_end_matches(" s").parse::<f64>().unwrap_or(0.0))
                    .zip([1.0, 60.0])
                    .map(|(count, unit)| count * unit)
                    .sum(),
            };
            assert!((waited - promised).abs() <= 3.0, "{file}: {when}, and it took {waited} s");
            told_of += 1;
        }
    }
    assert!(told_of >= 3, "{told_of}");
}

#[test]
fn every_sample_survives_every_fault() {
    for (file, expect) in samples("samples") {
        for fault in ["node", "pod", "stuck", "preempt", "crash", "outage", "component"] {
            let (lines, result) = told(&[&file, "--fault", fault]);
            assert_eq!(only_phase(&result), expect, "{file} {fault}: {lines:#?}");
        }
    }
}

/// A story that rightly ends otherwise with a fault: sample, fault, end, and why.
const OTHERWISE: &[(&str, &str, &str, &str)] = &[
    (
        "armada-memory.yaml",
        "component",
        "Failed",
        "the pod that is deleted ends with 143, which its default action fails",
    ),
    (
        "kep-262-1-maintenance.yaml",
        "pod",
        "Failed",
        "the pod exits with a code that is a bug there",
    ),
    (
        "kep-262-3-free-restarts.yaml",
        "pod",
        "Failed",
        "the pod's end is no maintenance; 0 restarts",
    ),
    (
        "kep-262-3-free-restarts.yaml",
        "component",
        "Failed",
        "a deletion is no maintenance; 0 restarts",
    ),
    ("kep-262-4-by-part.yaml", "component", "Failed", "a deletion is of no part; 0 restarts"),
    ("kep-3329-1-retriable.yaml", "pod", "Failed", "the pod exits with a code that is final there"),
    (
        "kep-3329-2-disruption.yaml",
        "component",
        "Failed",
        "a deletion is no disruption; 0 restarts",
    ),
    ("kep-672-3-pilot.yaml", "pod", "Failed", "it allows 0 restarts"),
    ("kep-672-3-pilot.yaml", "component", "Failed", "it allows 0 restarts"),
];

/// A node that dies, a pod that fails or a component that is deleted changes no end of a story, but where the
/// policies of the story say so.
#[test]
fn every_story_ends_as_it_says_whatever_happens_beside_it() {
    let mut wrong = vec![];
    for (file, expect) in samples("samples/policies") {
        for fault in ["node", "pod", "component"] {
            let listed = OTHERWISE.iter().find(|(one, of, ..)| file.ends_with(one) && *of == fault);
            let expect = listed.map_or(expect.as_str(), |(_, _, end, _)| end);
            let (lines, result) = told(&[&file, "--fault", fault]);
            let end = only_phase(&result);
            let last = lines.last().map(|line| line["message"].clone()).unwrap_or_default();
            if end != expect {
                wrong.push(format!("{file} --fault {fault}: {end}, not {expect}: {last}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_urgent_takes_the_quota_for_a_while() {
    let sample = std::fs::read_to_string(root().join("samples/job.yaml")).expect("a sample");
    let queued = sample.replace(
        "  name: sample-job\n  #",
        "  name: sample-job\n  labels: {kueue.x-k8s.io/queue-name: q}\n  #",
    );
    let queue = "
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec:
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: f, resources: [{name: cpu, nominalQuota: 200m}]}]
";
    let output = demo(&["-", "--fault", "preempt", "-o", "json"], &format!("{queued}{queue}"));
    let text = text(&output);
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    in_order(
        &lines,
        &[
            ("AppWrapper/sample-job", "Admitted", "200m of 200m cpu"),
            ("AppWrapper/urgent", "Urgent", ""),
            ("AppWrapper/sample-job", "Evicted", ""),
            ("AppWrapper/sample-job", "Suspended", "its quota is released"),
            ("AppWrapper/urgent", "Admitted", ""),
            ("AppWrapper/urgent", "Succeeded", ""),
            ("AppWrapper/sample-job", "Admitted", ""),
            ("AppWrapper/sample-job", "Succeeded", "attempt 1"),
        ],
    );
}

#[test]
fn what_no_node_takes_gives_its_quota_to_another_and_returns() {
    let (lines, result) = told(&["samples/fleet/no-fit.yaml"]);
    in_order(
        &lines,
        &[
            ("AppWrapper/big", "Admitted", "2 of 2 nvidia.com/gpu are reserved"),
            ("AppWrapper/small", "Waits", "0 of 2 nvidia.com/gpu are free"),
            ("AppWrapper/big", "Unhealthy", "NoFit"),
            ("AppWrapper/big", "Resetting", "returns to the queue"),
            ("AppWrapper/big", "EverythingGone", "Kueue releases the quota"),
            ("AppWrapper/big", "Suspended", "its quota is released"),
            ("AppWrapper/small", "Admitted", ""),
            ("AppWrapper/small", "Succeeded", ""),
            ("AppWrapper/big", "Admitted", ""),
            ("AppWrapper/big", "Succeeded", "attempt 1"),
        ],
    );
    assert_eq!(result["phases"], serde_json::json!({"big": "Succeeded", "small": "Succeeded"}));
    let summary = text(&demo(&["samples/fleet/no-fit.yaml"], ""));
    assert!(summary.contains("\nbig: quota reserved for "), "{summary}");
    let last =
        summary.lines().filter_map(|line| line.split_once("  ")).next_back().expect("a line").0;
    let (minutes, seconds) = last.split_once(':').expect("a time");
    let minutes = minutes.trim_start_matches('0');
    let total = format!("\n{minutes} min {} s of virtual time", seconds.trim_start_matches('0'));
    assert!(summary.contains(&total), "{total}: {summary}");
    let unqueued = text(&demo(&["samples/annotations.yaml"], ""));
    assert!(unqueued.contains(": held resources for "), "{unqueued}");
    assert!(!summary.contains("after 1 restart"), "{summary}");
}

#[test]
fn a_node_that_is_lost_three_times_is_avoided() {
    let (lines, result) = told(&["samples/fleet/suspect-nodes.yaml"]);
    in_order(
        &lines,
        &[
            ("Node/node-2", "NodeDied", "Pod/monday-"),
            ("AppWrapper/monday", "Succeeded", "attempt 1"),
            ("Node/node-2", "NodeDied", "Pod/tuesday-"),
            ("AppWrapper/tuesday", "Succeeded", "attempt 1"),
            ("Node/node-2", "NodeDied", "Pod/wednesday-"),
            ("AppWrapper/wednesday", "Avoids", "prefer other nodes than node-2"),
            ("AppWrapper/wednesday", "Succeeded", "attempt 1"),
            ("AppWrapper/thursday", "Avoids", "prefer other nodes than node-2"),
            ("AppWrapper/thursday", "Succeeded", "attempt 0"),
        ],
    );
    let early = ["AppWrapper/monday", "AppWrapper/tuesday"];
    let avoids = |line: &&Value| line["event"] == "Avoids";
    assert!(
        lines.iter().filter(avoids).all(|line| !early.iter().any(|one| line["object"] == *one))
    );
    assert_eq!(result["phases"].as_object().map(serde_json::Map::len), Some(4), "{result}");
}

#[test]
fn bad_input_is_one_clear_error() {
    let missing = demo(&["samples/nothing.yaml"], "");
    assert_eq!(missing.status.code(), Some(2));
    assert!(complaint(&missing).contains("samples/nothing.yaml"), "{}", complaint(&missing));

    let broken = demo(&["-"], "kind: [\n");
    assert_eq!(broken.status.code(), Some(2));
    assert!(complaint(&broken).starts_with("error: stdin"), "{}", complaint(&broken));
    assert_eq!(complaint(&broken).lines().count(), 1, "{}", complaint(&broken));

    let nothing = demo(&["-"], "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n");
    assert_eq!(nothing.status.code(), Some(2));
    assert!(complaint(&nothing).contains("no AppWrapper"), "{}", complaint(&nothing));

    let sample = std::fs::read_to_string(root().join("samples/pod.yaml")).expect("a sample");
    let refused = demo(&["-"], &sample.replace("name: sample-pod\n  #", "name: Sample_Pod\n  #"));
    assert_eq!(refused.status.code(), Some(1), "{}", complaint(&refused));
    assert!(complaint(&refused).contains("metadata.name"), "{}", complaint(&refused));
    assert_eq!(text(&refused), "");

    let twice = sample.replace("\n---", "");
    let twice = demo(&["-"], &format!("{twice}---\n{twice}"));
    assert_eq!(twice.status.code(), Some(2), "{}", complaint(&twice));
    assert!(complaint(&twice).contains("stdin, document 2"), "{}", complaint(&twice));

    let slow = demo(&["--speed", "-1"], "");
    assert_eq!(slow.status.code(), Some(2), "{}", complaint(&slow));
}
