//! What one object may cost: more than that is refused, and what came past admission is cut to it.

use appwrapper::api::AppWrapper;
use futures::future::join_all;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Error};
use serde_json::{Map, Value, json};

use super::quota::{AW, Tenant};
use crate::harness::{Case, pod, tuned, without_webhook, wrapper};
use crate::installed::{INSTALLED, installed_test};
use crate::kueue::{self, ACCOUNT, QUEUE};
use crate::objects::config_map;

/// Why something was refused; a server that gave up is no refusal.
fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    match answer.expect_err("it is refused") {
        Error::Api(status) => {
            assert!((400..500).contains(&status.code), "{status:?}");
            status.message.clone()
        }
        error => panic!("{error}"),
    }
}

fn with_rules(name: &str, rules: Vec<Value>) -> Value {
    let mut aw = wrapper(name, json!({}), vec![pod(name, &[("run-for", "0s")])]);
    aw["spec"]["failurePolicy"] = json!({"rules": rules});
    aw
}

/// 20 rules of 20 patterns, none of which is over the bound of a pattern of old.
fn dear_patterns(name: &str) -> Value {
    let pattern = |i: usize| format!(r"\w{{19}}{name}_{i}");
    let rule = |rule: usize| {
        let patterns: Vec<String> = (0..20).map(|i| pattern(20 * rule + i)).collect();
        json!({"action": "FailAppWrapper", "onJobFailureMessagePatterns": patterns})
    };
    with_rules(name, (0..20).map(rule).collect())
}

fn names(count: usize) -> String {
    (0..count).map(|i| format!("p{i}")).collect::<Vec<_>>().join(",")
}

#[test]
fn patterns_that_cost_too_much_are_refused_at_once() {
    installed_test("patterns_that_cost_too_much_are_refused_at_once", async |case| {
        let objects: Vec<Value> = (0..8).map(|i| dear_patterns(&format!("a{i}"))).collect();
        let answers = join_all(objects.into_iter().map(|aw| case.try_create(aw))).await;
        for answer in answers {
            let said = refusal(answer);
            let field = "spec.failurePolicy.rules[0].onJobFailureMessagePatterns[0]";
            assert!(said.contains(field), "{said}");
            assert!(said.contains("must compile to at most 256 KiB"), "{said}");
        }
        // each is cheap, and all together are not
        let some = |i: usize| format!(r"\w{{5}}{i}");
        let rules = vec![
            json!({"action": "FailAppWrapper", "onJobFailureMessagePatterns": (0..20).map(some).collect::<Vec<_>>()}),
        ];
        let said = refusal(case.try_create(with_rules("sum", rules)).await);
        assert!(said.contains("in all rules combined"), "{said}");
        // what would take seconds to read is not read
        let slow = "(?i)".to_owned() + &"[[:^alpha:]a-z]".repeat(33);
        let rules = vec![
            json!({"action": "FailAppWrapper", "onJobFailureMessagePatterns": vec![slow; 20]}),
        ];
        let said = refusal(case.try_create(with_rules("slow", rules)).await);
        assert!(said.contains("classes are too many or too wide"), "{said}");
    });
}

#[test]
fn dear_patterns_past_admission_are_left_out_with_a_warning() {
    without_webhook("dear_patterns_past_admission_are_left_out_with_a_warning", async |case| {
        case.create(dear_patterns("aw")).await;
        let said = case.warning("aw", "InvalidPolicy").await;
        assert!(said.contains("the rule is ignored"), "{said}");
        case.phase("aw", "Succeeded").await;
        case.others_go_on("other").await;
    });
}

#[test]
fn a_list_of_48000_policies_is_refused() {
    installed_test("a_list_of_48000_policies_is_refused", async |case| {
        let with = |text: &str| {
            wrapper("aw", tuned(&[("retryPolicies", text)]), vec![pod("p", &[("run-for", "0s")])])
        };
        let said = refusal(case.try_create(with(&names(24_000))).await);
        assert!(said.contains("must total at most 4096 bytes"), "{said}");
        assert!(said.contains("appwrapper/retryPolicies"), "{said}");
        let said = refusal(case.try_create(with(&names(17))).await);
        assert!(said.contains("at most 16 RetryPolicies, but lists 17"), "{said}");
        case.create(with(&names(16))).await;
        case.phase("aw", "Succeeded").await;
    });
}

#[test]
fn a_list_of_48000_policies_past_admission_is_cut() {
    without_webhook("a_list_of_48000_policies_past_admission_is_cut", async |case| {
        let life = [("run-for", "0s")];
        case.wrap("long", tuned(&[("retryPolicies", &names(24_000))]), vec![pod("l", &life)]).await;
        case.wrap("many", tuned(&[("retryPolicies", &names(200))]), vec![pod("m", &life)]).await;
        let said = case.warning("long", "InvalidAnnotation").await;
        assert!(said.contains("must total at most 4096 bytes"), "{said}");
        let said = case.warning("many", "InvalidAnnotation").await;
        assert!(said.contains("at most 16 RetryPolicies"), "{said}");
        let said = case.warning("many", "PolicyNotFound").await;
        assert!(said.contains("p0 ") && said.contains("and 6 more"), "{said}");
        assert!(said.len() <= 1024, "{} bytes", said.len());
        for name in ["long", "many"] {
            case.phase(name, "Succeeded").await;
        }
    });
}

fn many_components(count: usize) -> Value {
    let mut templates = vec![pod("p", &[("run-for", "0s")])];
    templates.extend((1..count).map(|i| config_map(&format!("c{i}"))));
    wrapper("aw", json!({}), templates)
}

#[test]
fn a_new_appwrapper_has_at_most_128_components() {
    installed_test("a_new_appwrapper_has_at_most_128_components", async |case| {
        let said = refusal(case.try_create(many_components(129)).await);
        assert!(said.contains("at most 128 components"), "{said}");
        case.create(many_components(128)).await;
        case.phase("aw", "Succeeded").await;
    });
}

#[test]
fn the_definition_bounds_components_too() {
    without_webhook("the_definition_bounds_components_too", async |case| {
        let said = refusal(case.try_create(many_components(129)).await);
        assert!(said.contains("spec.components must have at most 128 components"), "{said}");
    });
}

/// One that waits for Kueue, around a ConfigMap of so many bytes.
fn queued(bytes: usize, text: &str) -> Value {
    let mut data = config_map("c");
    data["data"]["a"] = text.repeat(bytes).into();
    let mut aw = wrapper("aw", json!({}), vec![pod("p", &[]), data]);
    aw["metadata"]["labels"] = json!({QUEUE: "nowhere"});
    aw
}

fn wrappers_as(case: &Case, client: Client) -> Api<AppWrapper> {
    Api::namespaced(client, &case.namespace)
}

async fn as_kueue(case: &Case, patch: Value) -> Result<AppWrapper, Error> {
    let client = INSTALLED.plane.client_of(ACCOUNT, &["system:masters"]).expect("a client");
    let (api, params) = (wrappers_as(case, client), PatchParams::default());
    api.patch("aw", &params, &Patch::Merge(patch)).await
}

#[test]
fn an_object_leaves_room_for_its_status() {
    installed_test("an_object_leaves_room_for_its_status", async |case| {
        let said = refusal(case.try_create(queued(1_040_000, "x")).await);
        assert!(said.contains("including its status"), "{said}");
        // Go stores it as six times as many bytes
        let said = refusal(case.try_create(queued(200_000, "<")).await);
        assert!(said.contains("as stored"), "{said}");
        // what Kueue and the controller write is never in question, however large it is by now
        case.create(queued(780_000, "x")).await;
        let seen = case.phase("aw", "Suspended").await;
        let selector: Map<String, Value> =
            (0..3_000).map(|i| (format!("example.com/{i}"), "x".repeat(60).into())).collect();
        let mut components = seen.object["spec"]["components"].clone();
        components[0]["podSetInfos"] = json!([{"annotations": selector}]);
        as_kueue(&case, json!({"spec": {"components": components}})).await.expect("Kueue may");
        // the real Kueue has not admitted it, and may take that back at once
        let start = async {
            loop {
                as_kueue(&case, json!({"spec": {"suspend": false}})).await.expect("Kueue may");
                case.until("Kueue suspends it again", |log| {
                    let aw = log.last("AppWrapper", "aw")?;
                    (aw.object["spec"]["suspend"] == true).then_some(())
                })
                .await;
            }
        };
        let ready = case.until("aw is ready", |log| {
            log.all("AppWrapper").find(|aw| aw.condition("PodsReady") == "True").map(|_| ())
        });
        tokio::select! {
            () = ready => {}
            () = start => {}
        }
        kueue::suspend(&case, "aw").await;
        case.phase("aw", "Suspended").await;
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
    });
}

#[test]
fn a_user_cannot_make_it_too_large_for_its_status_later() {
    installed_test("a_user_cannot_make_it_too_large_for_its_status_later", async |case| {
        case.create(queued(600_000, "x")).await;
        case.phase("aw", "Suspended").await;
        let labels: Map<String, Value> =
            (0..5_000).map(|i| (format!("example.com/{i}"), "x".repeat(60).into())).collect();
        let api = wrappers_as(&case, case.client.clone());
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        let said = refusal(api.patch("aw", &PatchParams::default(), &patch).await);
        assert!(said.contains("metadata") && said.contains("must not grow beyond"), "{said}");
        let patch = Patch::Merge(json!({"metadata": {"labels": {"team": "red"}}}));
        api.patch("aw", &PatchParams::default(), &patch).await.expect("a few are fine");
        // nor by finalizers and owner references, unless they may update appwrappers/finalizers
        let tenant = Tenant::new(&case).await;
        let finalizers = |count: usize| {
            let name = |i: usize| format!("example.com/{i}-{}", "x".repeat(50));
            json!({"metadata": {"finalizers": (0..count).map(name).collect::<Vec<_>>()}})
        };
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x".repeat(400_000),
            "uid": "u"});
        for change in [finalizers(6_000), json!({"metadata": {"ownerReferences": [owner]}})] {
            let said = refusal(tenant.patch(AW, "aw", change).await);
            assert!(said.contains("metadata") && said.contains("must not grow beyond"), "{said}");
        }
        tenant.patch(AW, "aw", finalizers(40)).await.expect("it does not grow by much");
        tenant.patch(AW, "aw", finalizers(0)).await.expect("it shrinks");
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
    });
}

fn retry_policy(name: &str, rules: Value) -> Value {
    json!({
        "apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
        "metadata": {"name": name}, "spec": {"rules": rules},
    })
}

#[test]
fn a_maximum_of_memory_that_nobody_can_use_is_refused() {
    installed_test("a_maximum_of_memory_that_nobody_can_use_is_refused", async |case| {
        let with = |name: &str, max: &str| {
            let memory = json!({"memory": {"factor": 1.5, "max": max}});
            retry_policy(
                name,
                json!([
                    {"action": "Retry", "onConditions": ["OOMKilled"], "mutate": memory},
                ]),
            )
        };
        for max in ["64n", "500m", "0.1"] {
            let said = refusal(case.try_create(with("price-memory", max)).await);
            assert!(said.contains("must be a quantity of at least 1 byte"), "{max}: {said}");
        }
        case.create(with("price-memory", "64Gi")).await;
    });
}

#[test]
fn a_rule_that_cannot_be_understood_is_left_out_alone() {
    without_webhook("a_rule_that_cannot_be_understood_is_left_out_alone", async |case| {
        let rules = json!([
            {"action": "Fail", "onTerminationMessage": {"pattern": "("}},
            {"name": "again", "action": "Retry", "onExitCodes": {"operator": "In", "values": [42]}},
        ]);
        case.create(retry_policy("price-left-out", rules)).await;
        let life = [("run-for", "0s"), ("exit-code", "42"), ("fail-until-attempt", "1")];
        case.wrap("aw", tuned(&[("retryPolicies", "price-left-out")]), vec![pod("p", &life)]).await;
        let said = case.warning("aw", "InvalidPolicy").await;
        assert!(said.contains("RetryPolicy price-left-out: spec.rules[0]"), "{said}");
        let done = case.phase("aw", "Succeeded").await;
        let rule = &done.object["status"]["attempts"][0]["rule"];
        assert_eq!(rule["name"], "again", "{rule}");
    });
}
