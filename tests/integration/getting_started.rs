//! The commands of docs/user/getting-started.md, as they stand there, one after another.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use controlplane::Tool;
use serde_json::{Value, json};

use crate::harness::{Case, Log, quota_without_a_gap};
use crate::installed::{INSTALLED, installed_test};

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

/// A command of the page, which follows the comment `<!-- command: NAME -->`, and what it prints there.
#[derive(Debug, Default)]
struct Step {
    name: String,
    command: String,
    output: String,
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The commands of a page. Of the blocks after a marker, the first in `sh` is the command and the first
/// in `text` its output.
fn steps(page: &str) -> Vec<Step> {
    let parts = page.split("<!-- command: ").skip(1);
    parts
        .map(|part| {
            let (name, rest) = part.split_once(" -->").expect("the comment ends");
            let block = |language: &str| {
                let (_, inside) = rest.split_once(&format!("```{language}\n"))?;
                Some(inside.split_once("\n```").expect("the block ends").0.to_owned())
            };
            Step {
                name: name.to_owned(),
                command: block("sh").unwrap_or_else(|| panic!("{name} has no command")),
                output: block("text").unwrap_or_default(),
            }
        })
        .collect()
}

/// Whether a line is the one of the page: word by word, and anything in the place of `<what differs>`.
fn is_like(shown: &str, line: &str) -> bool {
    let (shown, line): (Vec<&str>, Vec<&str>) =
        (shown.split_whitespace().collect(), line.split_whitespace().collect());
    let same = |(shown, word): (&&str, &&str)| {
        let parts = shown.split_once('<').and_then(|(begin, rest)| {
            let (_, end) = rest.split_once('>')?;
            Some((begin, end))
        });
        parts.map_or(shown == word, |(begin, end)| {
            let rest = word.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
            rest.is_some_and(|differs| !differs.is_empty())
        })
    };
    shown.len() == line.len() && shown.iter().zip(&line).all(same)
}

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

/// Somebody who types what the page says, in the namespace of a test.
struct Reader {
    folder: PathBuf,
    namespace: String,
}

impl Reader {
    fn new(case: &Case) -> Self {
        let folder = INSTALLED.plane.state_dir().join("readers").join(&case.namespace);
        fs::create_dir_all(&folder).expect("a folder");
        let kubectl = controlplane::build::tool(Tool::Kubectl).expect("kubectl is built");
        symlink(kubectl, folder.join("kubectl")).expect("a link");
        symlink(env!("CARGO_BIN_EXE_appwrapper"), folder.join("kubectl-aw")).expect("a link");
        let text = fs::read_to_string(INSTALLED.plane.kubeconfig()).expect("it can be read");
        let mut config: Value = serde_saphyr::from_str(&text).expect("YAML");
        config["contexts"][0]["context"]["namespace"] = json!(case.namespace);
        fs::write(folder.join("kubeconfig"), config.to_string()).expect("it is written");
        Self { folder, namespace: case.namespace.clone() }
    }

    /// Runs a command as it stands in the page; what it printed must be what the page shows.
    fn follow(&self, step: &Step) {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(&step.command).current_dir(env!("CARGO_MANIFEST_DIR"));
        shell.env("PATH", &self.folder).env("HOME", &self.folder);
        shell.env("KUBECONFIG", self.folder.join("kubeconfig"));
        let Output { status, stdout, stderr } = shell.output().expect("a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        // the page is in the namespace `default`
        let seen = text(&stdout).replace(&self.namespace, "default");
        let all = format!("{}\n{seen}{}", step.command, text(&stderr));
        assert!(status.success(), "{status}: {all}");
        let (shown, lines): (Vec<&str>, Vec<&str>) =
            (step.output.lines().collect(), seen.trim_end().lines().collect());
        assert!(!shown.is_empty(), "the page says what is seen: {all}");
        assert_eq!(shown.len(), lines.len(), "the page shows:\n{}\n\n{all}", step.output);
        for (shown, line) in shown.iter().zip(lines) {
            assert!(is_like(shown, line), "the page shows:\n{shown}\n\n{all}");
        }
    }
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

#[test]
fn only_what_is_marked_in_the_page_may_differ() {
    assert!(is_like("a   <5s> ago", "a 17s ago"));
    assert!(is_like("(<5s> ago), on <node-1>.", "(17s ago), on kind-control-plane."));
    for line in ["a ago", "b 5s ago", "a 5s", "a 5s ago b", "a 5s later", ""] {
        assert!(!is_like("a <5s> ago", line), "{line}");
    }
    assert!(!is_like("(<5s>)", "()"));
    assert!(is_like("a > b", "a > b") && !is_like("a > b", "a > c"));
}
