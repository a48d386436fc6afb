//! The commands of docs/user/getting-started.md, as they stand there, one after another.

use serde_json::Value;

use crate::harness::{Case, Log, quota_without_a_gap};
use crate::installed::installed_test;
use crate::page::{Reader, read, steps};

const PAGE: &str = "docs/user/getting-started.md";

/// What must hold of a command that is not run.
type Check = fn(&str);

/// The commands that create the cluster and install into it. They are not run, since the tests share a
/// control plane on which the product is installed: what they name is compared with what is there.
const REPLACED: [(&str, Check); 3] = [
    ("cluster", loads_the_image_of_the_manifests),
    ("kueue", installs_the_kueue_of_the_tests),
    ("appwrapper", applies_the_manifests_of_the_tests),
];

/// The commands that are run.
const RUN: [&str; 7] = ["queues", "submit", "wait", "list", "why", "attempts", "delete"];

fn loads_the_image_of_the_manifests(command: &str) {
    let deployment: Value =
        serde_saphyr::from_str(&read("config/manager/deployment.yaml")).expect("YAML");
    let image = deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str();
    let image = image.expect("an image");
    assert!(command.ends_with(&format!("kind load docker-image {image}")), "{command}: {image}");
    for other in [format!("minikube image load {image}"), format!("docker build -t {image} .")] {
        assert!(read(PAGE).contains(&other), "{other}");
    }
}

fn installs_the_kueue_of_the_tests(command: &str) {
    let modules = read("tests/controlplane/go/control-plane/go.mod");
    let line = modules.lines().find_map(|line| line.trim().strip_prefix("sigs.k8s.io/kueue v"));
    let version = line.and_then(|line| line.split(' ').next()).expect("a version");
    let (apply, _) = command.split_once(" &&").expect("it waits");
    assert!(apply.ends_with(&format!("/v{version}/manifests.yaml")), "{apply}: {version}");
}

fn applies_the_manifests_of_the_tests(command: &str) {
    let (apply, _) = command.split_once(" &&").expect("it waits");
    assert_eq!(apply, "kubectl apply --server-side -k config/default");
}

/// Waits until what a command shows is there; the page does not say how soon it is.
async fn before(case: &Case, command: &str) {
    match command {
        "list" => drop(case.ready("hello", 0).await),
        "why" => {
            let refused = |log: &Log| {
                let workload = log.workloads("large").last()?;
                let why = workload.condition_field("QuotaReserved", "message");
                why.contains("insufficient quota").then_some(())
            };
            case.until("Kueue refuses large", refused).await;
        }
        _ => {}
    }
}

#[test]
fn ten_commands_lead_where_the_page_says() {
    let steps = steps(&read(PAGE));
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, [&REPLACED.map(|(name, _)| name)[..], &RUN[..]].concat(), "ten commands");
    for ((_, check), step) in REPLACED.iter().zip(&steps) {
        check(&step.command);
    }
    installed_test("ten_commands_lead_where_the_page_says", async |case| {
        case.record_workloads().await;
        let reader = Reader::new(&case);
        for step in &steps[REPLACED.len()..] {
            before(&case, &step.name).await;
            reader.follow(step);
        }
        let twice = ["Resuming", "Running", "Resetting", "Resuming", "Running", "Succeeded"];
        let passed = case.log().phases("flaky").join(" ");
        assert!(passed.contains(&twice.join(" ")), "{passed}");
        quota_without_a_gap(&case.log(), "flaky");
        for name in ["hello", "flaky", "large"] {
            case.gone("AppWrapper", name).await;
        }
    });
}
