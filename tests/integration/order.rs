//! One meaning, whatever comes first, where the real order of events matters: the Job that speaks after its pod,
//! the pod that stays Terminating, the component that is taken away, the Jobs and the parts of a JobSet.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Case, RawObject, job, pod, test, tuned, wrapper};
use crate::objects::job_set;

/// The first attempt of an AppWrapper, once it was decided about.
async fn decided(case: &Case, name: &str) -> (RawObject, Value) {
    case.until(&format!("a decision about {name}"), |log| {
        let seen = log.last("AppWrapper", name)?;
        let first = seen.attempts().first().filter(|one| one["action"].is_string())?.clone();
        Some((seen.clone(), first))
    })
    .await
}

/// A RetryPolicy, which has no namespace: its name must be a test's own.
async fn retry_policy(case: &Case, name: &str, spec: Value) {
    let (api_version, kind) = ("workload.codeflare.dev/v1alpha1", "RetryPolicy");
    let metadata = json!({"name": name});
    let policy =
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
    case.create(policy).await;
}

/// An AppWrapper with policies of its own.
async fn wrap(case: &Case, name: &str, settings: &[(&str, &str)], template: Value, spec: Value) {
    let mut object = wrapper(name, tuned(settings), vec![template]);
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    case.create(object).await;
}

#[test]
fn a_job_says_why_it_failed_before_limits_are_asked() {
    test("a_job_says_why_it_failed_before_limits_are_asked", async |case| {
        let code = json!({"operator": "In", "values": [3]});
        let rule = json!({"name": "code", "action": "Fail", "onExitCodes": code});
        retry_policy(&case, "order-owner", json!({"rules": [rule]})).await;
        let names = ["a", "b", "c", "d"];
        let run = async |name: &str| {
            let life = [("run-for", "1s"), ("fail-until-attempt", "1"), ("exit-code", "3")];
            let template = job(name, json!({"backoffLimit": 0}), &life);
            let policy = json!({"rules": [{
                "action": "RestartAppWrapperAndIgnoreMaxRestarts",
                "onJobFailureReasons": ["BackoffLimitExceeded"],
            }]});
            let settings = [("retryPolicies", "order-owner")];
            wrap(&case, name, &settings, template, json!({"failurePolicy": policy})).await;
            let (_, attempt) = decided(&case, name).await;
            assert_eq!(attempt["action"], "RestartIgnoringLimit", "{name}: {attempt}");
            assert_eq!(attempt["rule"]["source"], "failurePolicy", "{name}: {attempt}");
            let done = case.phase(name, "Succeeded").await;
            assert_eq!(done.restarts(), 0);
            assert_eq!(done.object["status"]["uncountedRestarts"], 1);
        };
        join_all(names.map(run)).await;
    });
}

#[test]
fn a_pod_that_stays_terminating_on_a_ready_node_is_a_failure() {
    test("a_pod_that_stays_terminating_on_a_ready_node", async |case| {
        let mut template = pod("p", &[("stuck", "")]);
        template["spec"]["terminationGracePeriodSeconds"] = 1.into();
        let settings = [("forcefulDeletionGracePeriodDuration", "2s")];
        wrap(&case, "aw", &settings, template, json!({})).await;
        case.condition("aw", "PodsReady", "True").await;
        case.delete("v1", "Pod", "p").await;
        let seen = case.unhealthy("aw", "StuckTerminating").await;
        let message = seen.condition_field("Unhealthy", "message").to_owned();
        assert!(message.contains("pod p"), "{message}");
        let (_, attempt) = decided(&case, "aw").await;
        assert_eq!(
            (&attempt["action"], &attempt["failure"]["pod"]),
            (&json!("Restart"), &json!("p"))
        );
        case.until("the second attempt", |log| {
            let seen = log.last("AppWrapper", "aw")?;
            (seen.phase() == "Running" && seen.attempts().len() == 2).then_some(())
        })
        .await;
    });
}

#[test]
fn a_component_that_was_taken_away_is_repaired_whatever_policies_say() {
    test("a_component_that_was_taken_away_is_repaired", async |case| {
        retry_policy(&case, "order-missing", json!({"defaultAction": "Fail"})).await;
        let settings = [("retryPolicies", "order-missing")];
        wrap(&case, "aw", &settings, job("j", json!({}), &[]), json!({})).await;
        case.condition("aw", "PodsReady", "True").await;
        case.delete("batch/v1", "Job", "j").await;
        let (_, attempt) = decided(&case, "aw").await;
        assert_eq!(attempt["action"], "Restart", "{attempt}");
        assert_eq!(attempt["rule"]["source"], "retryLimit", "{attempt}");
        case.until("the second attempt", |log| {
            let seen = log.last("AppWrapper", "aw")?;
            (seen.phase() == "Running" && seen.attempts().len() == 2).then_some(())
        })
        .await;
    });
}

/// A JobSet of two Jobs, of which one fails in its first attempt.
fn training(name: &str, failing: &str) -> Value {
    let fails = [("run-for", "1s"), ("fail-until-attempt", "1"), ("exit-code", "7")];
    let runs = [("run-for", "1s")];
    let life = |one: &str| if one == failing { &fails[..] } else { &runs[..] };
    let mut set =
        job_set(name, json!({}), &[("driver", life("driver")), ("workers", life("workers"))]);
    for replicated in set["spec"]["replicatedJobs"].as_array_mut().into_iter().flatten() {
        replicated["template"]["spec"]["backoffLimit"] = 0.into();
    }
    set
}

#[test]
fn a_rule_can_be_about_a_part_of_a_job_set() {
    test("a_rule_can_be_about_a_part_of_a_job_set", async |case| {
        let policy = |name: &str| {
            let target = format!("{name}/workers");
            let rule = json!({"action": "FailAppWrapper", "targetComponents": [target]});
            json!({"failurePolicy": {"rules": [rule]}})
        };
        wrap(&case, "workers", &[], training("workers", "workers"), policy("workers")).await;
        wrap(&case, "driver", &[], training("driver", "driver"), policy("driver")).await;
        let (_, attempt) = decided(&case, "workers").await;
        assert_eq!(
            (&attempt["action"], &attempt["rule"]["source"]),
            (&json!("Fail"), &json!("failurePolicy"))
        );
        let (_, attempt) = decided(&case, "driver").await;
        assert_eq!(attempt["action"], "Restart", "{attempt}");
        assert_eq!(attempt["rule"]["source"], "retryLimit", "{attempt}");
        case.phase("workers", "Failed").await;
        case.phase("driver", "Succeeded").await;
    });
}

#[test]
fn a_failed_job_of_a_job_set_is_asked_about_before_the_set() {
    test("a_failed_job_of_a_job_set_is_asked_about_before_the_set", async |case| {
        let rules = json!([
            {"name": "set", "action": "FailAppWrapper", "onJobFailureMessagePatterns": ["jobset failed"]},
            {"name": "job", "action": "RestartAppWrapperAndIgnoreMaxRestarts",
             "onJobFailureReasons": ["BackoffLimitExceeded"]},
        ]);
        let spec = json!({"failurePolicy": {"rules": rules}});
        wrap(&case, "aw", &[], training("set", "workers"), spec).await;
        let (_, attempt) = decided(&case, "aw").await;
        assert_eq!(
            (&attempt["action"], &attempt["rule"]["name"]),
            (&json!("RestartIgnoringLimit"), &json!("job"))
        );
        case.phase("aw", "Succeeded").await;
    });
}
