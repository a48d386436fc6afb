//! The commands of docs/user/tour.md, as they stand there, and the page that it opens in between.

use crate::harness::{Case, quota_without_a_gap};
use crate::installed::installed_test;
use crate::page::{Reader, read, steps};
use crate::web::Served;

const COMMANDS: [&str; 12] = [
    "submit", "wait", "list", "why", "policy", "attach", "replay", "retry", "again", "attempts",
    "timeline", "delete",
];

/// The queue of the page, with a ClusterQueue of the test's own.
async fn queue(case: &Case) {
    let text = read("samples/getting-started/queues.yaml").replace("getting-started", "tour");
    for document in text.split("\n---\n") {
        case.create(serde_saphyr::from_str(document).expect("YAML")).await;
    }
}

/// What the page shows of train: the first cause of both attempts, and the timeline.
fn look_at_the_page(reader: &Reader) {
    let served = Served::start(&mut reader.shell("exec kubectl aw web"));
    let namespace = &reader.namespace;
    let story = served.json(&format!("story?namespace={namespace}&name=train"));
    assert_eq!(story["description"]["phase"], "Failed", "{story}");
    let failure = &story["description"]["failure"];
    assert_eq!(
        (&failure["exitCode"], &failure["container"]),
        (&75.into(), &"main".into()),
        "{story}"
    );
    let attempts = story["attempts"]["rows"].as_array().map_or(0, Vec::len);
    assert_eq!(attempts, 2, "{story}");
    assert!(
        story["drawing"]["shapes"].as_array().is_some_and(|shapes| !shapes.is_empty()),
        "{story}"
    );
}

#[test]
fn an_afternoon_goes_from_the_failure_to_the_success() {
    let steps = steps(&read("docs/user/tour.md"));
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, COMMANDS);
    installed_test("an_afternoon_goes_from_the_failure_to_the_success", async |case| {
        queue(&case).await;
        let reader = Reader::new(&case);
        for step in &steps {
            match step.name.as_str() {
                // a list right after the end could still show that it holds quota
                "list" => drop(case.condition("train", "QuotaReserved", "False").await),
                "policy" => look_at_the_page(&reader),
                _ => {}
            }
            reader.follow(step);
        }
        let drawn = std::fs::read_to_string(reader.folder.join("train.html")).expect("a file");
        for part in ["train", "exited with code 75", "<svg"] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert!(!drawn.contains("<script"), "it needs no script");
        case.gone("AppWrapper", "train").await;
        let log = case.log();
        let runs = log.phases("train").iter().filter(|phase| **phase == "Running").count();
        assert_eq!(runs, 5, "two attempts at night, three in the afternoon");
        quota_without_a_gap(&log, "train");
    });
}
