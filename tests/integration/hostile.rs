//! Bad input that reaches the controller because no webhook refused it: it is answered, nothing panics,
//! and it hides nobody else.

use http::Request;
use serde_json::{Value, json};

use crate::harness::{Case, job, pod, tuned, without_webhook, wrapper};
use crate::objects::{app, config_map};

/// Waits for an AppWrapper to have failed because a component can never be created, with a Warning
/// that says why; its quota is released.
async fn refused(case: &Case, name: &str, why: &str) {
    case.phase(name, "Failed").await;
    let failed = case.condition(name, "QuotaReserved", "False").await;
    assert_eq!(failed.condition("ResourcesDeployed"), "False", "{name}");
    assert_eq!(failed.condition_field("Unhealthy", "reason"), "CreateFailed", "{name}");
    let message = case.warning(name, "CreateFailed").await;
    assert!(message.contains(why), "{name}: {message}");
}

#[test]
fn a_malformed_annotation_is_named_and_the_default_applies() {
    without_webhook("a_malformed_annotation_is_named_and_the_default_applies", async |case| {
        let flaws = [
            ("failureGracePeriodDuration", "-1h"),
            ("warmupGracePeriodDuration", "5 days"),
            ("admissionGracePeriodDuration", ""),
            ("retryPausePeriodDuration", "1M"),
            ("successTTLDuration", "NaN"),
            ("forcefulDeletionGracePeriodDuration", "25h"),
            ("deletionOnFailureGracePeriodDuration", "9999999999999999999s"),
            ("retryLimit", "4294967296"),
            ("terminalExitCodes", "0"),
            ("retryableExitCodes", "1,,2"),
            ("retryLimitt", "1"),
        ];
        // With the defaults, a failed Job is reset at once, up to three times.
        let life = [("run-for", "0s"), ("fail-until-attempt", "1")];
        case.wrap("aw", tuned(&flaws), vec![job("j", json!({}), &life)]).await;
        let done = case.phase("aw", "Succeeded").await;
        assert_eq!(done.attempts()[0]["retries"], json!({"used": 0, "limit": 3}));
        case.until("a warning for each flaw", |log| {
            let events = log.all("Event").filter(|it| it.object["reason"] == "InvalidAnnotation");
            let messages: Vec<&str> =
                events.filter_map(|event| event.object["message"].as_str()).collect();
            let named = |key: &str| messages.iter().any(|it| it.contains(&format!("{key}]")));
            flaws.iter().all(|(key, _)| named(key)).then_some(())
        })
        .await;
    });
}

#[test]
fn a_template_from_which_nothing_can_be_created_fails() {
    without_webhook("a_template_from_which_nothing_can_be_created_fails", async |case| {
        let with = |name: &str, pointer: &str, value: Value| {
            let mut template = job(name, json!({}), &[]);
            *template.pointer_mut(pointer).expect("the template has it") = value;
            template
        };
        let mut generated = job("generated", json!({}), &[]);
        generated["metadata"] = json!({"generateName": "generated-"});
        let mut many = job("many", json!({"parallelism": 4_294_967_297_u64}), &[]);
        many["spec"]["completions"] = json!(4_294_967_297_u64);
        for (name, template, why) in [
            ("boo", with("boo", "/spec/template/metadata", json!("boo")), "spec.template.metadata"),
            ("nothing", with("nothing", "/spec", json!({})), "the field \"template\""),
            ("generated", generated, "generateName"),
            ("many", many, "4294967297"),
        ] {
            case.wrap(name, json!({}), vec![pod(name, &[]), template]).await;
            refused(&case, name, why).await;
            assert!(case.log().uids("Pod", name).is_empty(), "{name}");
        }
        for (name, path, replicas) in [
            ("walks-out", "template/../../etc", json!(1)),
            ("endless", "template.spec.things[99999999999999999999]", json!(1)),
            ("wrong", "template.spec.template", json!(7)),
        ] {
            let mut aw = wrapper(name, json!({}), vec![job(name, json!({}), &[])]);
            aw["spec"]["components"][0]["podSets"] = json!([{"path": path, "replicas": replicas}]);
            case.create(aw).await;
            refused(&case, name, "podSets[0]").await;
        }
        case.others_go_on("other").await;
    });
}

#[test]
fn no_pods_to_expect_is_no_success() {
    without_webhook("no_pods_to_expect_is_no_success", async |case| {
        case.wrap("empty", json!({}), vec![app("Deployment", "d", 0)]).await;
        case.wrap("podless", json!({}), vec![config_map("c")]).await;
        for name in ["empty", "podless"] {
            case.ready(name, 0).await;
        }
        case.others_go_on("other").await;
        for name in ["empty", "podless"] {
            assert_eq!(case.log().phases(name), ["", "Resuming", "Running"]);
        }
    });
}

#[test]
fn two_components_of_one_name_do_not_fight() {
    without_webhook("two_components_of_one_name_do_not_fight", async |case| {
        let templates = vec![config_map("twin"), config_map("twin"), pod("p", &[])];
        case.wrap("aw", json!({}), templates).await;
        case.record("v1", "ConfigMap").await;
        case.ready("aw", 0).await;
        case.end_pod("p", "0").await;
        case.phases("aw", &["", "Resuming", "Running", "Succeeded"]).await;
        assert_eq!(case.log().uids("ConfigMap", "twin").len(), 1);
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
        assert!(case.stored("v1", "ConfigMap", "twin").await.is_none());
    });
}

#[test]
fn an_object_too_large_for_a_status_says_so() {
    without_webhook("an_object_too_large_for_a_status_says_so", async |case| {
        let mut template = config_map("c");
        template["data"]["a"] = "x".repeat(1_571_000).into();
        case.wrap("large", json!({}), vec![template]).await;
        case.warning("large", "ObjectTooLarge").await;
        case.others_go_on("other").await;
        case.delete_wrapper("large").await;
        case.gone("AppWrapper", "large").await;
    });
}

#[test]
fn a_template_nested_5000_levels_deep_hides_nobody() {
    without_webhook("a_template_nested_5000_levels_deep_hides_nobody", async |case| {
        // In a namespace of its own: the watch of this test could not read it either.
        let deep = Case::new(case.client.clone(), "nested-deep").await;
        let nest = format!("{}1{}", r#"{"a":"#.repeat(5_000), "}".repeat(5_000));
        let body = wrapper("deep", json!({}), vec![config_map("c")]).to_string();
        let body = body.replace(r#""a":"b""#, &format!(r#""a":{nest}"#));
        assert!(body.len() > 20_000, "the template is nested");
        let path = "/apis/workload.codeflare.dev/v1beta2/namespaces/nested-deep/appwrappers";
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(body.into_bytes()).expect("a request");
        case.client.request_text(request).await.expect("the API server takes it");
        let unread = deep.warning("deep", "InvalidObject").await;
        assert!(unread.contains("is not reconciled"), "{unread}");
        case.others_go_on("other").await;
        deep.delete_wrapper("deep").await;
        case.others_go_on("after").await;
    });
}

#[test]
fn a_forged_status_harms_no_other_object() {
    without_webhook("a_forged_status_harms_no_other_object", async |case| {
        let victim = case.create(config_map("victim")).await;
        case.wrap("aw", json!({}), vec![config_map("c"), pod("p", &[])]).await;
        case.ready("aw", 0).await;
        let status = |component: usize| {
            let seen = case.log().last("AppWrapper", "aw").cloned().expect("it is there");
            seen.object["status"]["componentStatus"][component].clone()
        };
        let mut forged = status(0);
        forged["name"] = "victim".into();
        case.change_status("aw", json!({"componentStatus": [forged, status(1)]})).await;
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
        let stored = case.stored("v1", "ConfigMap", "victim").await.expect("it is still there");
        assert_eq!(stored.metadata.resource_version, victim.metadata.resource_version);
    });
}
