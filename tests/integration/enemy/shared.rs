//! One AppWrapper, one namespace or one call must not delay another.

mod slow;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use appwrapper::clock::SystemClock;
use appwrapper::config::Config;
use appwrapper::controller::Controller;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::slow::Slow;
use crate::harness::{self, Case, Log, page, pod, runtime, runtime_test, wrapper};
use crate::installed::{INSTALLED, installed_test, kubectl};
use crate::nodes::Own;
use crate::proxy::PLANE as OWN_PLANE;
use crate::proxy::line::{Line, Role};
use crate::replicas;
use crate::replicas::replica::Site;

/// How many AppWrappers a slow namespace has.
const SLOW_WRAPPERS: usize = 32;
/// How many of its creations are waited for: as many of a namespace start at a time while another is active.
const HELD: usize = 3;
/// How many kinds are invented, and how many of them may be asked for.
const INVENTED: usize = 100;
const ASKED_MOST: usize = 32;

/// The annotation with which an AppWrapper asks for a deliberate mistake, in test builds alone.
fn mistake(kind: &str, value: &str) -> Value {
    json!({format!("workload.codeflare.dev.appwrapper/deliberate-{kind}"): value})
}

/// Runs a test with a controller of its own, which sees its namespace alone.
fn with_controller<F: Future<Output = ()>>(
    name: &str,
    config: Config,
    told: impl FnOnce(Arc<Case>, Arc<Line>, Arc<appwrapper::reconcile::Context>) -> F,
) {
    LazyLock::force(&OWN_PLANE);
    runtime_test(
        name,
        || OWN_PLANE.client(),
        async |case| {
            let case = Arc::new(case);
            let line = Line::quiet(case.client.clone(), &case.namespace);
            let clock = Arc::new(SystemClock);
            let controller = Controller::new(line.client(Role::First), clock, config);
            let context = controller.context.clone();
            let told = told(case, line, context);
            tokio::select! {
                () = controller.run(std::future::pending()) => {}
                () = told => {}
            }
        },
    );
}

/// Reasons of the Normal events about an AppWrapper.
fn normal_events(log: &Log, name: &str) -> BTreeSet<String> {
    log.all("Event")
        .map(|event| &event.object)
        .filter(|event| event["involvedObject"]["name"] == name && event["type"] == "Normal")
        .filter_map(|event| event["reason"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn slow_admission_in_two_namespaces_delays_no_third() {
    installed_test("slow_admission_delays_no_third", async |case| {
        let mut slow = vec![];
        for name in ["slow-admission-a", "slow-admission-b"] {
            slow.push(Case::new(case.client.clone(), name).await);
        }
        let names: Vec<&str> = slow.iter().map(|case| case.namespace.as_str()).collect();
        let webhook = Slow::start(&case, &names).await;
        for number in 0..SLOW_WRAPPERS {
            for each in &slow {
                let name = format!("aw-{number}");
                each.wrap(&name, json!({}), vec![pod(&format!("p-{number}"), &[])]).await;
            }
        }
        webhook.until_asked(HELD * slow.len()).await;
        case.wrap("aw", json!({}), vec![pod("p", &[])]).await;
        case.phase("aw", "Running").await;
        assert_eq!(webhook.ended(), 0, "it waited for a creation of another namespace");
        webhook.release();
        for each in &slow {
            for number in 0..SLOW_WRAPPERS {
                each.phase(&format!("aw-{number}"), "Running").await;
            }
        }
        webhook.remove().await;
    });
}

#[test]
fn a_panic_concerns_one_appwrapper() {
    installed_test("a_panic_concerns_one_appwrapper", async |case| {
        for place in ["reconcile", "watch"] {
            case.wrap(place, mistake("panic", place), vec![pod(place, &[])]).await;
        }
        let told = case.warning("reconcile", "InternalError").await;
        assert!(!told.contains("asked for by"), "it quotes the object: {told}");
        case.warning("watch", "InvalidObject").await;
        case.wrap("well", json!({}), vec![pod("well", &[])]).await;
        case.phase("well", "Running").await;
        let page = page().await;
        for place in ["reconcile", "watch"] {
            let none = format!("appwrapper_panics_total{{place=\"{place}\"}} 0\n");
            assert!(page.contains("appwrapper_panics_total") && !page.contains(&none), "{page}");
            let mended = json!({"metadata": {"annotations": {"workload.codeflare.dev.appwrapper/deliberate-panic": null}}});
            case.patch(place, mended).await;
            case.phase(place, "Running").await;
        }
    });
}

#[test]
fn a_controller_starts_where_an_appwrapper_makes_it_panic() {
    let name = "a_controller_starts_where_one_panics";
    LazyLock::force(&OWN_PLANE);
    runtime_test(
        name,
        || OWN_PLANE.client(),
        async |case| {
            for place in ["reconcile", "watch"] {
                case.wrap(place, mistake("panic", place), vec![pod(place, &[])]).await;
            }
            case.wrap("well", json!({}), vec![pod("well", &[])]).await;
            // one after another: each begins with the same objects
            for phase in ["Running", "Succeeded"] {
                let line = Line::quiet(case.client.clone(), &case.namespace);
                let clock = Arc::new(SystemClock);
                let controller =
                    Controller::new(line.client(Role::First), clock, harness::config());
                let told = async {
                    case.warning("reconcile", "InternalError").await;
                    let name = format!("well-{}", phase.to_lowercase());
                    let run = [("run-for", if phase == "Running" { "1h" } else { "0s" })];
                    case.wrap(&name, json!({}), vec![pod(&name, &run)]).await;
                    case.phase(&name, phase).await;
                };
                tokio::select! {
                    () = controller.run(std::future::pending()) => panic!("it has ended"),
                    () = told => {}
                }
            }
            assert_eq!(case.log().phases("reconcile"), [""], "nothing was done for it");
        },
    );
}

#[test]
fn few_of_many_invented_kinds_are_asked_for() {
    let name = "few_of_many_invented_kinds_are_asked_for";
    with_controller(name, harness::config(), async |case, line, _| {
        let group = |number: usize| format!("g{number}.invented.example.com");
        let templates = (0..INVENTED).map(|number| {
            let api_version = format!("{}/v1", group(number));
            json!({"apiVersion": api_version, "kind": "Thing", "metadata": {"name": "t"}})
        });
        let mut object = wrapper("invented", json!({}), templates.collect());
        object["spec"]["suspend"] = true.into();
        case.create(object).await;
        case.phase("invented", "Suspended").await;
        case.wrap("well", json!({}), vec![pod("well", &[])]).await;
        case.phase("well", "Running").await;
        let calls = line.calls();
        let asked =
            (0..INVENTED).filter(|number| calls.iter().any(|call| call.contains(&group(*number))));
        let asked = asked.count();
        assert!((1..=ASKED_MOST).contains(&asked), "{asked} kinds were asked for");
    });
}

#[test]
fn a_run_that_succeeds_says_so_in_events() {
    installed_test("a_run_that_succeeds_says_so_in_events", async |case| {
        case.wrap("aw", json!({}), vec![pod("p", &[("run-for", "0s")])]).await;
        case.phase("aw", "Succeeded").await;
        let want = BTreeSet::from(["Running".to_owned(), "Succeeded".to_owned()]);
        case.until("events of both phases", |log| (normal_events(log, "aw") == want).then_some(()))
            .await;
        let arguments = ["describe", "appwrapper", "aw", "--namespace", &case.namespace];
        let said = kubectl(INSTALLED.plane.kubeconfig(), &arguments, &[]).expect("it is described");
        assert!(said.contains("Created the components of attempt 0"), "{said}");
        assert!(said.contains("All components succeeded"), "{said}");
    });
}

#[test]
fn an_event_that_comes_again_is_counted() {
    installed_test("an_event_that_comes_again_is_counted", async |case| {
        case.wrap("aw", json!({}), vec![pod("p", &[("run-for", "1h")])]).await;
        for _ in 0..2 {
            case.phase("aw", "Running").await;
            case.suspend("aw", true).await;
            case.phase("aw", "Suspended").await;
            case.suspend("aw", false).await;
        }
        case.until("the event Suspended twice", |log| {
            let mut events = log.all("Event").map(|event| &event.object);
            events.find(|it| it["reason"] == "Suspended" && it["series"]["count"] == 2).map(drop)
        })
        .await;
    });
}

#[test]
fn marks_of_nodes_that_are_configured_later_count() {
    let name = "marks_that_are_configured_later_count";
    let mut before = harness::config();
    before.autopilot.resource_taints.clear();
    with_controller(name, before, async |case, _, context| {
        let own = Own::new(&case, 1).await;
        let node = own.name(0);
        let nodes: Api<Node> = Api::all(case.client.clone());
        let marked = json!({"metadata": {"labels": {"autopilot.ibm.com/gpuhealth": "EVICT"}}});
        let marked = Patch::Merge(marked);
        nodes.patch(&node, &PatchParams::default(), &marked).await.expect("the node is there");
        let mut pod = pod("p", &[]);
        let resources = json!({"limits": {"nvidia.com/gpu": "1"}});
        pod["spec"]["containers"][0]["resources"] = resources;
        pod["spec"]["nodeName"] = node.into();
        pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        case.wrap("aw", json!({}), vec![pod]).await;
        case.condition("aw", "PodsReady", "True").await;
        *context.config.write().expect("nobody panicked") = Arc::new(harness::config());
        context.requeue_all();
        case.warning("aw", "AutopilotNoExecute").await;
        own.clear().await;
    });
}

#[test]
fn the_lease_is_renewed_while_the_controller_is_busy() {
    let _alone = replicas::alone();
    runtime().block_on(async {
        let home = Case::new(replicas::PLANE.client(), "busy-leader").await;
        home.record("coordination.k8s.io/v1", "Lease").await;
        let times = "leaseDuration: 6s, renewDeadline: 5s, retryPeriod: 200ms".to_owned();
        let site = Site { namespace: home.namespace.clone(), times, settings: String::new() };
        let mut leader = site.start().await;
        let name = leader.leads().await;
        let mut standby = site.start().await;
        standby.ready().await;
        let begun = Instant::now();
        home.wrap("aw", mistake("block", "8"), vec![pod("p", &[])]).await;
        home.phase("aw", "Running").await;
        assert!(begun.elapsed() >= Duration::from_secs(8), "it was busy");
        let log = home.log();
        let holders: BTreeSet<&str> = log
            .of("Lease", "lock")
            .filter_map(|seen| seen.object["spec"]["holderIdentity"].as_str())
            .collect();
        assert_eq!(holders, BTreeSet::from([name.as_str()]));
        assert!(leader.runs() && standby.runs() && !standby.has_led());
    });
}
