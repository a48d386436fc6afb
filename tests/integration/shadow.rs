//! `appwrapper run --shadow` beside the Go controller: it writes nothing, it agrees, and where it does not, the page
//! about the switch says why.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use appwrapper::shadow::DifferenceKind;
use controlplane::{ControlPlane, Options};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::harness::{Case, job, own_crds, pod, runtime, start_plane, tuned, wrapper};
use crate::installed::{built, kubectl, on_loopback, token};
use crate::objects::config_map;
use crate::replicas::audit::{Audit, READS};
use crate::replicas::replica::{Replica, Site};
use crate::samples::samples;
use crate::switchover::go::Go;

/// The namespace and the account of the manifests.
const SHADOW: &str = "appwrapper-shadow";

/// A control plane for the Go controller and its shadows alone. Of our definitions it has the one that the Go controller
/// has as well.
static PLANE: LazyLock<ControlPlane> = LazyLock::new(|| {
    let mut options =
        Options { jobset: true, training: true, ray: true, audit: true, ..own_crds() };
    options.crds.retain(|definition| definition.spec.names.kind == "AppWrapper");
    start_plane(options)
});

/// A difference as the table of the documents and the log have it: kind, phase before, expected and observed phase.
type Told = (String, String, String, String);

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The differences that docs/admin/upgrade.md explains.
fn documented() -> BTreeSet<Told> {
    let page = page("docs/admin/upgrade.md");
    let (_, table) =
        page.split_once("| difference | from | expected | observed |").expect("the table");
    let lines = table.lines().skip(2).take_while(|line| line.starts_with("| "));
    let mut all = BTreeSet::new();
    for line in lines {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [kind, from, expected, observed, _] = cells[..] else { panic!("{line}") };
        for expected in expected.split(", ") {
            for observed in observed.split(", ") {
                let kind = kind.trim_matches('`').to_owned();
                all.insert((kind, from.to_owned(), expected.to_owned(), observed.to_owned()));
            }
        }
    }
    all
}

/// The differences that a shadow has logged, and of which AppWrapper.
fn logged(shadow: &Replica) -> BTreeMap<Told, BTreeSet<String>> {
    let mut all: BTreeMap<Told, BTreeSet<String>> = BTreeMap::new();
    for line in shadow.said() {
        if line["message"] != "The active controller decided differently." {
            continue;
        }
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let told = (text("difference"), text("from"), text("expected"), text("observed"));
        let name = line["span"]["appwrapper"].as_str().unwrap_or_default().to_owned();
        all.entry(told).or_default().insert(name);
    }
    all
}

/// How many steps the table of `/shadow` counts with this result.
fn counted(table: &str, result: &str) -> u64 {
    let rows = table.lines().filter(|line| line.split_whitespace().next() == Some(result));
    rows.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum()
}

#[test]
fn the_page_about_the_switch_explains_every_kind_of_difference() {
    let kinds: BTreeSet<String> = documented().into_iter().map(|(kind, ..)| kind).collect();
    let all: BTreeSet<String> =
        DifferenceKind::ALL.iter().map(|kind| kind.as_str().to_owned()).collect();
    assert_eq!(kinds, all);
}

/// The rights that rules grant to read: group, resource, name, verb.
fn reads(rules: Option<Vec<PolicyRule>>) -> BTreeSet<(String, String, String)> {
    let mut all = BTreeSet::new();
    for rule in rules.unwrap_or_default() {
        if rule.resource_names.is_some() {
            continue; // Kueue's settings and what belongs to the webhook
        }
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                let reads = rule.verbs.iter().filter(|verb| READS.contains(&verb.as_str()));
                all.extend(reads.map(|verb| (group.clone(), resource.clone(), verb.clone())));
            }
        }
    }
    all
}

fn roles(documents: &[Value]) -> Vec<ClusterRole> {
    let roles = documents.iter().filter(|it| it["kind"] == "ClusterRole");
    roles.map(|it| serde_json::from_value(it.clone()).expect("a role")).collect()
}

#[test]
fn a_shadow_may_read_what_the_controller_reads_and_write_nothing() {
    let documents = on_loopback(&built(&["shadow"]), 0);
    let all: BTreeSet<&str> = documents.iter().filter_map(|it| it["kind"].as_str()).collect();
    let kinds = [
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "Deployment",
        "Namespace",
        "NetworkPolicy",
        "ServiceAccount",
    ];
    assert_eq!(all, BTreeSet::from(kinds), "no webhook, no Role, no Lease");
    let mut own = BTreeSet::new();
    for role in roles(&documents) {
        for verb in role.rules.iter().flatten().flat_map(|rule| &rule.verbs) {
            assert!(READS.contains(&verb.as_str()), "{verb}");
        }
        own.extend(reads(role.rules));
    }
    let installed = roles(&on_loopback(&built(&["default"]), 0));
    let names = ["appwrapper-controller", "appwrapper-wrapped-kinds-known"];
    let controllers =
        installed.into_iter().filter(|role| names.contains(&role.name_any().as_str()));
    let theirs: BTreeSet<_> = controllers.flat_map(|role| reads(role.rules)).collect();
    // no attempt of a shadow avoids a node
    let mut theirs = theirs;
    theirs.retain(|(_, resource, _)| resource != "nodesuspicions");
    assert_eq!(own, theirs);
    let container = |folder: &str, name: &str| {
        let documents = on_loopback(&built(&[folder]), 0);
        let it = documents
            .iter()
            .find(|it| it["kind"] == "Deployment" && it["metadata"]["name"] == name);
        it.expect("a Deployment")["spec"]["template"]["spec"]["containers"][0].clone()
    };
    let ours = container("shadow", SHADOW);
    let theirs = container("default", "appwrapper-controller");
    assert_eq!(ours["image"], theirs["image"]);
    assert_eq!(ours["securityContext"], theirs["securityContext"]);
    assert_eq!(ours["args"][1], "--shadow");
}

/// Gives the account of the manifests its rights; its token.
async fn account(case: &Case) -> String {
    let needed = ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"];
    let documents = on_loopback(&built(&["shadow"]), 0);
    let texts =
        documents.iter().filter(|it| needed.contains(&it["kind"].as_str().unwrap_or_default()));
    let texts: Vec<String> = texts.map(Value::to_string).collect();
    let manifests = format!("---\n{}\n", texts.join("\n---\n"));
    let apply = ["apply", "--server-side", "-f", "-"];
    let applied = tokio::task::spawn_blocking(move || {
        kubectl(PLANE.kubeconfig(), &apply, manifests.as_bytes())
    });
    applied.await.expect("it ends").expect("the manifests are accepted");
    let account = format!("system:serviceaccount:{SHADOW}:{SHADOW}");
    let to = json!({"group": "workload.codeflare.dev", "resource": "appwrappers", "verb": "watch"});
    case.until_allowed(&account, to).await;
    token(PLANE.client(), SHADOW, SHADOW).await
}

/// The samples, and what shows a documented difference or none.
async fn bring(case: &Case) -> Vec<(String, String)> {
    let mut ends = vec![];
    for sample in samples("samples") {
        for object in sample.objects {
            let mut object = object;
            let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
            if object["kind"] == "AppWrapper" {
                let fails = name == "sample-retried-job"; // here, its pods never learn of a second attempt
                if fails {
                    let limit = "workload.codeflare.dev.appwrapper/retryLimit";
                    object["metadata"]["annotations"][limit] = "1".into();
                }
                ends.push((name, if fails { "Failed".to_owned() } else { sample.expect.clone() }));
            }
            case.create(object).await;
        }
    }
    let soon = [("failureGracePeriodDuration", "0s"), ("retryPausePeriodDuration", "0s")];
    let replaced = json!({"backoffLimit": 6});
    for (name, annotations, template) in [
        ("missing", tuned(&soon), job("missing", json!({}), &[])),
        ("replaced", tuned(&soon), job("replaced", replaced, &[])),
        ("no-pods", json!({}), config_map("no-pods")),
        ("expires", tuned(&[("successTTLDuration", "25s")]), pod("expires", &[("run-for", "15s")])),
        (
            "fails",
            tuned(&[("retryLimit", "0")]),
            pod("fails", &[("run-for", "5s"), ("exit-code", "3")]),
        ),
        ("sleeps", json!({}), pod("sleeps", &[])),
        ("goes", json!({}), job("goes", json!({}), &[])),
    ] {
        case.create(wrapper(name, annotations, vec![template])).await;
    }
    ends.extend([("no-pods", "Succeeded"), ("fails", "Failed")].map(|(a, b)| (a.into(), b.into())));
    ends
}

/// Users and their pods do something.
async fn live(case: &Case) {
    for name in ["missing", "replaced", "sleeps", "goes"] {
        case.condition(name, "PodsReady", "True").await;
    }
    case.delete("batch/v1", "Job", "missing").await;
    let pod = case.pod("replaced-", "Running").await;
    case.end_pod(&pod.name, "1").await;
    case.suspend("sleeps", true).await;
    case.phase("sleeps", "Suspended").await;
    case.suspend("sleeps", false).await;
    case.phase("sleeps", "Running").await;
    case.delete_wrapper("goes").await;
    case.gone("AppWrapper", "goes").await;
    case.phase("missing", "Failed").await;
    case.until("replaced was reset", |log| {
        let last = log.last("AppWrapper", "replaced")?;
        (last.object["status"]["resettingCount"] == 1 && last.phase() == "Running").then_some(())
    })
    .await;
    case.condition("expires", "ResourcesDeployed", "False").await;
}

fn told(kind: &str, from: &str, expected: &str, observed: &str) -> Told {
    (kind.to_owned(), from.to_owned(), expected.to_owned(), observed.to_owned())
}

#[test]
#[ignore = "nightly: runs the Go controller for minutes"]
fn beside_the_go_controller_the_differences_are_the_documented_ones() {
    runtime().block_on(async {
        let case = Case::new(PLANE.client(), "shadow").await;
        let token = account(&case).await;
        let site = Site {
            namespace: case.namespace.clone(),
            times: "leaseDuration: 15s".to_owned(),
            settings: String::new(),
        };
        let mut patient = site.start_on(&PLANE, &["--shadow"], Some(&token)).await;
        let hasty = ["--shadow", "--shadow-patience", "2s"];
        let hasty = site.start_on(&PLANE, &hasty, Some(&token)).await;
        patient.ready().await;
        hasty.ready().await;
        let go = Go::start_on(&PLANE, &case).await;
        let ends = bring(&case).await;
        live(&case).await;
        for (name, phase) in &ends {
            case.phase(name, phase).await;
        }
        // a shadow that has seen a later AppWrapper has seen these
        let table = agreed_about_another(&case, &patient).await;

        finds_what_is_documented(&case, &patient, &hasty);
        assert!(counted(&table, "agree") > 40, "{table}");
        let metrics = patient.page("/metrics").await;
        let name = "appwrapper_shadow_decisions_total{difference=\"none\",result=\"agree\"} ";
        assert!(metrics.contains(name), "{metrics}");
        assert!(metrics.contains("appwrapper_leader 0"), "{metrics}");

        tells_the_sum(&mut patient, counted(&table, "agree")).await;
        let audit = Audit::of(PLANE.audit_log());
        for shadow in [&patient, &hasty] {
            let lines = shadow.said();
            let mut messages = lines.iter().filter_map(|line| line["message"].as_str());
            assert!(!messages.any(|text| text.contains("watch")), "every watch works");
            let calls = audit.calls(&shadow.address());
            assert!(calls.len() > 10, "its requests are told by its address");
            let wrong =
                calls.iter().filter(|(verb, _, code)| !READS.contains(verb) || *code == 403);
            assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&(&str, &str, u64)>::new());
        }
        go.stop().await;
    });
}

/// Waits until a shadow has compared one more AppWrapper to its end; its table.
async fn agreed_about_another(case: &Case, shadow: &Replica) -> String {
    case.wrap("last", json!({}), vec![pod("last", &[("run-for", "1s")])]).await;
    case.phase("last", "Succeeded").await;
    let succeeded = |table: &str| {
        let rows =
            table.lines().filter(|line| line.starts_with("agree") && line.contains("Succeeded"));
        rows.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum::<u64>()
    };
    let before = succeeded(&shadow.page("/shadow").await);
    case.wrap("very-last", json!({}), vec![pod("very-last", &[("run-for", "1s")])]).await;
    let compared = async {
        loop {
            let table = shadow.page("/shadow").await;
            if succeeded(&table) > before {
                return table;
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_mins(2), compared).await;
    waited.expect("the last AppWrapper is compared")
}

/// All that the patient one found is documented; each found what was staged for it.
fn finds_what_is_documented(case: &Case, patient: &Replica, hasty: &Replica) {
    let (documented, found, impatient) = (documented(), logged(patient), logged(hasty));
    for (difference, names) in &found {
        let is_known = documented.contains(difference);
        assert!(is_known, "{difference:?} of {names:?}\n{}", case.story());
    }
    for (found, difference, name) in [
        (&found, told("other_phase", "Running", "Resetting", "Failed"), "missing"),
        (&found, told("moved", "Running", "Running", "Resetting"), "replaced"),
        (&found, told("moved", "Running", "Running", "Succeeded"), "no-pods"),
        (&impatient, told("stayed", "Running", "Resetting", "Running"), "missing"),
        (&impatient, told("deleted", "Succeeded", "Succeeded", "Succeeded"), "expires"),
    ] {
        let is_found = found.get(&difference).is_some_and(|names| names.contains(name));
        assert!(is_found, "{difference:?} of {name}: {found:?}\n{}", case.story());
    }
}

/// A shadow that is asked to end tells what it has found.
async fn tells_the_sum(shadow: &mut Replica, agreed: u64) {
    shadow.signal("TERM");
    assert_eq!(shadow.ended().await.code(), Some(0));
    let lines = shadow.said();
    let begins = |line: &&Value| {
        line["message"].as_str().is_some_and(|text| text.starts_with("The comparison"))
    };
    let sum = lines.iter().find(begins).expect("the sum is told at the end");
    assert!(sum["agree"].as_u64() >= Some(agreed), "{sum}");
}
