//! Every sample runs, as its own comments say.

use std::path::{Path, PathBuf};

use futures::future::join_all;
use serde_json::Value;

use crate::harness::{Case, test};

struct Sample {
    file: PathBuf,
    object: Value,
    expect: String,
    phases: Vec<String>,
}

/// The text after `# <key>: ` in a sample.
fn comment(text: &str, key: &str) -> Option<String> {
    let prefix = format!("# {key}: ");
    text.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
}

fn samples() -> Vec<Sample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let files = std::fs::read_dir(folder).expect("samples/ is there");
    files
        .map(|entry| {
            let file = entry.expect("a readable folder").path();
            let text = std::fs::read_to_string(&file).expect("a readable sample");
            let phases = comment(&text, "phases").expect("a sample names its phases");
            Sample {
                object: serde_saphyr::from_str(&text).expect("a sample is YAML"),
                expect: comment(&text, "expect").expect("a sample says how it ends"),
                phases: phases.split(", ").map(str::to_owned).collect(),
                file,
            }
        })
        .collect()
}

async fn run(case: &Case, sample: &Sample) {
    let name = sample.object["metadata"]["name"].as_str().expect("a sample has a name");
    let made = case.try_create(sample.object.clone()).await;
    made.unwrap_or_else(|error| panic!("{}: {error}", sample.file.display()));
    let mut phases: Vec<&str> = vec![""];
    phases.extend(sample.phases.iter().map(String::as_str));
    case.phases(name, &phases).await;
    case.condition(name, "PodsReady", "True").await;
    assert_eq!(phases.last().copied(), Some(sample.expect.as_str()), "{}", sample.file.display());
}

#[test]
fn every_sample_lives_as_it_says() {
    test("every_sample_lives_as_it_says", async |case| {
        let samples = samples();
        assert_eq!(samples.len(), 9, "a new sample is a new test");
        join_all(samples.iter().map(|sample| run(&case, sample))).await;
    });
}
