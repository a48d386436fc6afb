//! Every sample runs, as its own comments say.

use std::path::{Path, PathBuf};

use futures::future::join_all;
use serde_json::Value;

use crate::harness::{Case, test};

pub struct Sample {
    file: PathBuf,
    pub objects: Vec<Value>,
    pub expect: String,
    phases: Vec<String>,
    attempts: Vec<String>,
}

/// The texts after `# <key>: ` in a sample.
fn comments(text: &str, key: &str) -> Vec<String> {
    let prefix = format!("# {key}: ");
    text.lines().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
}

/// The samples of a folder that have no test of their own.
pub fn samples(folder: &str) -> Vec<Sample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let files = files.map(|entry| entry.expect("a readable folder").path());
    let samples = files.filter(|file| file.extension().is_some_and(|end| end == "yaml"));
    let texts = samples.map(|file| {
        let text = std::fs::read_to_string(&file).expect("a readable sample");
        (file, text)
    });
    // some have a test of their own, which they name
    texts
        .filter(|(_, text)| comments(text, "test").is_empty())
        .map(|(file, text)| {
            let only = |key: &str| {
                let found = comments(&text, key);
                assert_eq!(found.len(), 1, "{}: {key}", file.display());
                found[0].clone()
            };
            Sample {
                objects: serde_saphyr::from_multiple(&text).expect("a sample is YAML"),
                expect: only("expect"),
                phases: only("phases").split(", ").map(str::to_owned).collect(),
                attempts: comments(&text, "attempts"),
                file,
            }
        })
        .collect()
}

/// What was decided about each failure: `Restart by retryPolicy/oom`.
fn decided(object: &Value) -> Vec<String> {
    let attempts = object["status"]["attempts"].as_array().into_iter().flatten();
    let failed = attempts.filter(|attempt| attempt["action"].is_string());
    let text = |value: &Value| match value {
        Value::String(text) => format!("/{text}"),
        Value::Number(number) => format!("/{number}"),
        _ => String::new(),
    };
    failed
        .map(|attempt| {
            let rule = &attempt["rule"];
            let action = attempt["action"].as_str().unwrap_or_default();
            let source = rule["source"].as_str().unwrap_or_default();
            let name = if rule["name"].is_string() { &rule["name"] } else { &rule["index"] };
            format!("{action} by {source}{}", text(name))
        })
        .collect()
}

async fn run(case: &Case, sample: &Sample) {
    let mut name = String::new();
    for object in &sample.objects {
        if object["kind"] == "AppWrapper" {
            object["metadata"]["name"].as_str().expect("it has a name").clone_into(&mut name);
        }
        let made = case.try_create(object.clone()).await;
        made.unwrap_or_else(|error| panic!("{}: {error}", sample.file.display()));
    }
    let mut phases: Vec<&str> = vec![""];
    phases.extend(sample.phases.iter().map(String::as_str));
    assert_eq!(phases.last().copied(), Some(sample.expect.as_str()), "{}", sample.file.display());
    case.phases(&name, &phases).await;
    let last = case.phase(&name, &sample.expect).await;
    if !sample.attempts.is_empty() {
        assert_eq!(decided(&last.object), sample.attempts, "{}", sample.file.display());
    }
    if sample.expect != "Failed" {
        case.condition(&name, "PodsReady", "True").await;
    }
}

#[test]
fn every_sample_lives_as_it_says() {
    test("every_sample_lives_as_it_says", async |case| {
        let samples = samples("samples");
        assert_eq!(samples.len(), 9, "a new sample is a new test");
        join_all(samples.iter().map(|sample| run(&case, sample))).await;
    });
}

#[test]
fn every_story_of_a_policy_goes_as_its_sample_says() {
    test("every_story_of_a_policy_goes_as_its_sample_says", async |case| {
        let samples = samples("samples/policies");
        assert_eq!(samples.len(), 22, "a new sample is a new test");
        join_all(samples.iter().map(|sample| run(&case, sample))).await;
    });
}
