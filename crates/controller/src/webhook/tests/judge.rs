use serde_json::{Value, json};

use super::{with, without};
use crate::api::keys;
use crate::config::Config;
use crate::webhook::authorize::{AccessError, NamedKind};
use crate::webhook::judge::{ClusterChecks, Endpoint, ReviewStep, judge};
use crate::webhook::response::{AdmissionResponse, Reason};
use crate::webhook::review::{Resource, Review};
use crate::webhook::testing::{asked, given_aw, given_job, given_policy, given_review};
use crate::webhook::validate::{Finding, Severity};

const VALIDATE: Endpoint = Endpoint::ValidateAppWrapper;
const POLICY: Endpoint = Endpoint::ValidateRetryPolicy;
const KUEUE: &str = "system:serviceaccount:kueue-system:kueue-controller-manager";
const OWN: &str = "system:serviceaccount:appwrapper-system:appwrapper-controller";
const LABELS: &str = "/metadata/labels";
const BAD: &str = "workload.codeflare.dev.appwrapper/retryLimit";

fn judged(endpoint: Endpoint, review: &Value) -> ReviewStep {
    judge(endpoint, &asked(endpoint, review), &Config::default(), None, Some(OWN))
}

fn created(aw: &Value) -> ReviewStep {
    judged(VALIDATE, &given_review(VALIDATE, "CREATE", &Value::Null, aw))
}

fn updated(old: &Value, new: &Value, username: &str) -> ReviewStep {
    let review = given_review(VALIDATE, "UPDATE", old, new);
    judged(VALIDATE, &with(&review, "/request/userInfo/username", json!(username)))
}

fn checks(verdict: ReviewStep) -> ClusterChecks {
    match verdict {
        ReviewStep::Ask(checks) => checks,
        ReviewStep::Final(answer) => panic!("it is final: {answer:?}"),
        ReviewStep::Read(reading) => panic!("objects are read: {reading:?}"),
    }
}

fn answer(verdict: ReviewStep) -> AdmissionResponse {
    match verdict {
        ReviewStep::Final(answer) => answer,
        ReviewStep::Ask(checks) => panic!("a cluster is asked: {checks:?}"),
        ReviewStep::Read(reading) => panic!("objects are read: {reading:?}"),
    }
}

/// The message of a denial; empty where it is let in.
fn denial(verdict: ReviewStep) -> String {
    answer(verdict).denied.map_or_else(String::new, |(_, message)| message)
}

#[test]
fn the_queue_is_looked_for_however_many_policies_are_named() {
    for (policies, want) in [(0, 1), (1, 2), (8, 9), (16, 17), (17, 17)] {
        let names: Vec<String> = (0..policies).map(|one| format!("p{one}")).collect();
        let annotations = json!({keys::RETRY_POLICIES: names.join(", ")});
        let aw = with(&given_aw(), LABELS, json!({keys::QUEUE_NAME: "q"}));
        let references = checks(created(&with(&aw, "/metadata/annotations", annotations))).named;
        let queues = references.iter().filter(|it| it.kind == NamedKind::LocalQueue).count();
        assert_eq!((references.len(), queues), (want, 1), "{policies} policies");
    }
}

#[test]
fn a_user_that_cannot_be_stored_creates_nothing() {
    let endpoint = Endpoint::MutateAppWrapper;
    let review = given_review(endpoint, "CREATE", &Value::Null, &given_aw());
    for (groups, is_refused) in [(80, false), (82, true)] {
        let groups = json!(vec!["g".repeat(100); groups]);
        let answer = answer(judged(endpoint, &with(&review, "/request/userInfo/groups", groups)));
        assert_eq!(answer.denied.is_some(), is_refused);
        assert_eq!(answer.patch.is_empty(), is_refused);
        if let Some((reason, message)) = answer.denied {
            assert_eq!(reason, Reason::Forbidden);
            assert!(message.starts_with("spec.requester must be at most 8192 bytes"), "{message}");
        }
    }
}

/// An AppWrapper in a queue, as it is stored.
fn stored() -> Value {
    let labels = json!({
        "kueue.x-k8s.io/queue-name": "main",
        "workload.codeflare.dev/user": "ann", "workload.codeflare.dev/userid": "u-1",
    });
    with(&with(&given_aw(), LABELS, labels), "/spec/suspend", json!(true))
}

#[test]
fn a_creation_without_errors_asks_about_every_component() {
    let components = json!([{"template": given_job("a")}, {"template": given_job("b")}]);
    let aw = with(&given_aw(), "/spec/components", components);
    let review = given_review(VALIDATE, "CREATE", &Value::Null, &aw);
    let found = checks(judged(VALIDATE, &review));
    assert!(found.check_user);
    let review = asked(VALIDATE, &review);
    let wrapped: Vec<_> = found
        .wrapped(&review)
        .into_iter()
        .map(|each| (each.path, each.api_version, each.kind, each.name))
        .collect();
    let row = |i: usize, name| (format!("spec.components[{i}].template"), "batch/v1", "Job", name);
    assert_eq!(wrapped, [row(0, "a"), row(1, "b")]);
    let config = Config::parse("admission: {userRBACAdmissionCheck: false}").expect("settings");
    let found = checks(judge(VALIDATE, &review, &config, None, None));
    assert!(!found.check_user, "the controller is still asked about");
}

#[test]
fn what_is_wrong_with_a_template_spares_the_access_checks() {
    let named = |name: Value| with(&given_aw(), "/spec/components/0/template/metadata/name", name);
    for (aw, want) in [
        (named(json!("")), "spec.components[0].template.metadata.name"),
        (with(&given_aw(), "/spec/components/0/template/kind", json!("List")), "template.kind"),
        (with(&given_aw(), "/spec/components", json!([])), "spec.components"),
        (with(&given_aw(), "/spec", json!("x")), "spec"),
        (with(&given_aw(), "/kind", json!("Pod")), "kind"),
        (json!(7), "must be an object"),
    ] {
        let message = denial(created(&aw));
        assert!(message.contains(want), "{message}");
    }
}

#[test]
fn everything_else_that_is_wrong_is_said_together_with_the_clusters_answer() {
    let aw = with(&given_aw(), "/metadata/annotations", json!({BAD: "-1"}));
    let aw = with(&aw, "/spec/failurePolicy", json!({"maxRestarts": -1}));
    let refusal = Finding {
        severity: Severity::Error,
        field: "spec.components[0].template".to_owned(),
        value: None,
        message: "ann must be allowed to create it".to_owned(),
    };
    let (reason, message) =
        checks(created(&aw)).answered(Ok(vec![refusal])).denied.expect("denied");
    assert_eq!(reason, Reason::Forbidden);
    for want in [BAD, "spec.failurePolicy.maxRestarts", "ann must be allowed"] {
        assert!(message.contains(want), "{want}: {message}");
    }
    let (reason, _) = checks(created(&aw)).answered(Ok(vec![])).denied.expect("denied");
    assert_eq!(reason, Reason::Invalid);
    let clean = checks(created(&given_aw())).answered(Ok(vec![]));
    assert_eq!(clean, AdmissionResponse::default());
}

#[test]
fn without_an_answer_of_the_cluster_nothing_is_let_in() {
    let error = AccessError { message: "discovery of batch/v1".to_owned(), source: None };
    let (reason, message) =
        checks(created(&given_aw())).answered(Err(error)).denied.expect("denied");
    assert_eq!(reason, Reason::Unavailable);
    assert!(
        message.contains("try again") && message.contains("discovery of batch/v1"),
        "{message}"
    );
}

#[test]
fn a_change_asks_only_about_templates_that_changed() {
    let grown = with(&stored(), "/spec/components/0/template/spec/x", json!(1));
    let found = checks(updated(&stored(), &grown, OWN));
    assert!(!found.check_user, "the controller grew it");
    assert!(denial(updated(&stored(), &grown, "ann")).contains("components[0].template"));
    let annotated = with(&stored(), "/metadata/annotations", json!({"a": "b"}));
    assert_eq!(denial(updated(&stored(), &annotated, "ann")), "");
}

#[test]
fn who_changes_what_is_added_to_pods_needs_the_rights_to_create_them() {
    let infos = "/spec/components/0/podSetInfos";
    let old = without(&stored(), "/metadata/labels");
    let aimed = with(&old, infos, json!([{"nodeSelector": {"a": "b"}}]));
    assert!(checks(updated(&old, &aimed, "bob")).check_user);
    for (username, new) in [(KUEUE, &aimed), ("bob", &with(&old, infos, json!([])))] {
        assert_eq!(denial(updated(&old, new, username)), "", "{username}");
    }
}

#[test]
fn only_kueue_and_the_controller_change_suspend_of_what_has_a_queue() {
    let running = with(&stored(), "/spec/suspend", json!(false));
    for (username, is_let_in) in
        [(KUEUE, true), (OWN, true), ("ann", false), ("system:admin", false)]
    {
        let message = denial(updated(&stored(), &running, username));
        assert_eq!(message.is_empty(), is_let_in, "{username}: {message}");
    }
    let review = given_review(VALIDATE, "UPDATE", &stored(), &running);
    let review = with(&review, "/request/userInfo/username", json!(OWN));
    let unknown = judge(VALIDATE, &asked(VALIDATE, &review), &Config::default(), None, None);
    assert!(!denial(unknown).is_empty(), "nobody is the controller until its name is known");
}

#[test]
fn bookkeeping_is_let_in_whatever_the_object_looks_like() {
    let poison = with(&stored(), "/spec", json!({"components": "boo"}));
    let kept = [
        ("/metadata/finalizers", json!(["workload.codeflare.dev/finalizer"])),
        ("/metadata/managedFields", json!([{"manager": "x"}])),
        ("/metadata/ownerReferences", json!([])),
    ];
    for (pointer, value) in kept {
        let new = with(&poison, pointer, value);
        assert_eq!(denial(updated(&poison, &new, "ann")), "", "{pointer}");
    }
    let bad = with(&stored(), "/metadata/annotations", json!({BAD: "-1"}));
    assert!(denial(updated(&stored(), &bad, "ann")).contains(BAD), "an annotation is looked at");
}

#[test]
fn what_is_being_deleted_keeps_what_is_immutable() {
    let ended = |aw: &Value| with(aw, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let old = ended(&stored());
    let annotated = with(&old, "/metadata/annotations", json!({BAD: "-1"}));
    assert_eq!(denial(updated(&old, &annotated, "ann")), "");
    for (pointer, value, want) in [
        ("/metadata/labels/workload.codeflare.dev~1user", json!("bob"), "user"),
        ("/spec/components/0/template/spec/x", json!(1), "components[0].template"),
        ("/spec/managedBy", json!("else"), "spec.managedBy"),
    ] {
        let message = denial(updated(&old, &with(&old, pointer, value), "ann"));
        assert!(message.contains(want), "{message}");
    }
}

/// The review with a list of so many levels in a component.
fn deepened(review: &Value, levels: usize) -> Review {
    let deep = "[".repeat(levels) + &"]".repeat(levels);
    let text = review.to_string().replace("\"DEEP\"", &deep);
    Review::read(text.as_bytes(), Resource::AppWrappers).expect("a review")
}

#[test]
fn an_object_that_is_too_deep_is_denied_and_an_old_one_can_still_be_finished() {
    let deep = with(&stored(), "/spec/components/0/template/spec/x", json!("DEEP"));
    let config = Config::default();
    let judged = |operation: &str, old: &Value, new: &Value, levels| {
        let review = given_review(VALIDATE, operation, old, new);
        let review = with(&review, "/request/userInfo/username", json!(KUEUE));
        judge(VALIDATE, &deepened(&review, levels), &config, None, None)
    };
    let null = Value::Null;
    for levels in [61, 9_999, 100_000] {
        let message = denial(judged("CREATE", &null, &deep, levels));
        assert_eq!(message, "must have at most 64 levels of objects and lists");
        let message = denial(judged("UPDATE", &stored(), &deep, levels));
        assert_eq!(message, "must have at most 64 levels of objects and lists");
        let finished = with(&deep, "/metadata/finalizers", json!([]));
        assert_eq!(denial(judged("UPDATE", &deep, &finished, levels)), "");
        let started = with(&deep, "/spec/suspend", json!(false));
        assert_eq!(denial(judged("UPDATE", &deep, &started, levels)), "");
        let other = with(&deep, "/spec/components/0/template/spec/x", json!("DEEPDEEP"));
        assert!(denial(judged("UPDATE", &deep, &other, levels)).contains("must not be changed"));
        assert_eq!(answer(judged("DELETE", &deep, &null, levels)), AdmissionResponse::default());
        let review = given_review(Endpoint::MutateAppWrapper, "CREATE", &null, &deep);
        let mutated =
            judge(Endpoint::MutateAppWrapper, &deepened(&review, levels), &config, None, None);
        assert_eq!(answer(mutated), AdmissionResponse::default(), "validation says what is wrong");
    }
    checks(judged("CREATE", &null, &deep, 57));
}

#[test]
fn what_is_missing_is_filled_in_on_creation() {
    let mutate = Endpoint::MutateAppWrapper;
    let old = stored();
    let of = |operation: &str| {
        let review = given_review(mutate, operation, &old, &given_aw());
        answer(judged(mutate, &review)).patch.len()
    };
    assert_eq!(
        [of("CREATE"), of("UPDATE"), of("DELETE")],
        [4, 2, 0],
        "labels, requester, pod sets and finalizer; on an update, labels and suspend as they were"
    );
}

#[test]
fn retry_policies_are_judged_when_they_are_created_and_changed() {
    let of = |operation: &str, old: &Value, new: &Value| {
        let review = given_review(POLICY, operation, old, new);
        let config = Config::default();
        denial(judge(POLICY, &asked(POLICY, &review), &config, None, None))
    };
    let (good, null) = (given_policy(), Value::Null);
    let bad = with(&good, "/spec/rules/0/action", json!("Perhaps"));
    let worse = with(&bad, "/spec/retryLimit", json!(-1));
    assert_eq!(of("CREATE", &null, &good), "");
    assert!(of("CREATE", &null, &bad).contains("spec.rules[0].action"));
    assert!(of("UPDATE", &good, &bad).contains("spec.rules[0].action"));
    assert_eq!(of("UPDATE", &bad, &with(&bad, "/metadata/finalizers", json!([]))), "");
    let message = of("UPDATE", &bad, &worse);
    assert!(message.contains("retryLimit") && !message.contains("action"), "{message}");
    assert_eq!(of("DELETE", &bad, &null), "");
    assert_eq!(of("UPDATE", &without(&good, "/spec"), &good), "");
}

#[test]
fn a_dry_run_gets_the_same_verdict() {
    let bad = with(&given_aw(), "/spec/components", json!([]));
    for aw in [given_aw(), bad] {
        let review = given_review(VALIDATE, "CREATE", &Value::Null, &aw);
        let dry = with(&review, "/request/dryRun", json!(true));
        assert_eq!(judged(VALIDATE, &review), judged(VALIDATE, &dry));
    }
}
