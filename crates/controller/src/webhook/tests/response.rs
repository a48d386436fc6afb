use k8s_openapi::ByteString;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::webhook::response::{AdmissionResponse, Op, Reason};
use crate::webhook::testing::config;
use crate::webhook::validate::{Finding, Severity};

fn finding(severity: Severity, field: &str, message: &str) -> Finding {
    Finding { severity, field: field.to_owned(), value: None, message: message.to_owned() }
}

fn written(answer: &AdmissionResponse) -> Value {
    serde_json::from_slice(&answer.write("u-7", "ann")).expect("JSON")
}

#[test]
fn everything_that_is_wrong_is_one_message() {
    let findings = [
        finding(Severity::Error, "spec.a", "must be x"),
        finding(Severity::Warning, "spec.b", "has no effect"),
        finding(Severity::Error, "", "must be small"),
    ];
    assert_eq!(
        written(&AdmissionResponse::of(&findings)),
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
            "uid": "u-7", "allowed": false, "auditAnnotations": {"requester": "ann"},
            "status": {"status": "Failure", "code": 422, "reason": "Invalid",
                "message": "spec.a: must be x; must be small"},
            "warnings": ["spec.b: has no effect"],
        }})
    );
    let allowed = written(&AdmissionResponse::of(&findings[1..2]));
    assert_eq!(
        (&allowed["response"]["allowed"], &allowed["response"]["status"]),
        (&json!(true), &Value::Null)
    );
    let denied = AdmissionResponse::denied(Reason::Unavailable, "try again");
    assert_eq!(written(&denied)["response"]["status"]["code"], 503);
    let often = AdmissionResponse::denied(Reason::TooManyRequests(7), "try again");
    assert_eq!(
        written(&often)["response"]["status"],
        json!({"status": "Failure", "code": 429, "reason": "TooManyRequests",
            "message": "try again", "details": {"retryAfterSeconds": 7}})
    );
}

#[test]
fn a_patch_is_written_in_base64_with_escaped_paths() {
    let patch = vec![Op::set(&["metadata", "labels", "a/b~c"], json!("x"))];
    let found = written(&AdmissionResponse { patch, ..AdmissionResponse::default() });
    let response = &found["response"];
    assert_eq!((&response["allowed"], &response["patchType"]), (&json!(true), &json!("JSONPatch")));
    let patch: ByteString = serde_json::from_value(response["patch"].clone()).expect("base64");
    let patch: Value = serde_json::from_slice(&patch.0).expect("JSON");
    assert_eq!(patch, json!([{"op": "add", "path": "/metadata/labels/a~1b~0c", "value": "x"}]));
    let none = written(&AdmissionResponse::default());
    assert_eq!(none["response"].get("patch"), None);
    assert_eq!(none["response"].get("patchType"), None);
}

#[test]
fn control_characters_are_shown_and_not_passed_on() {
    let findings =
        [finding(Severity::Error, "a\nb", "\u{1b}[31m"), finding(Severity::Warning, "c\0", "é")];
    let answer = AdmissionResponse::of(&findings);
    assert_eq!(answer.denied.expect("denied").1, r"a\nb: \u{1b}[31m");
    assert_eq!(answer.warnings, [r"c\u{0}: é"]);
}

#[test]
fn what_does_not_fit_is_counted() {
    let many = |severity| -> Vec<Finding> {
        (0..200).map(|i| finding(severity, &format!("spec.f{i}"), &"x".repeat(300))).collect()
    };
    let (_, message) = AdmissionResponse::of(&many(Severity::Error)).denied.expect("denied");
    let listed = message.matches("spec.f").count();
    assert!(message.ends_with(&format!("; and {} more", 200 - listed)), "{message}");
    let warnings = AdmissionResponse::of(&many(Severity::Warning)).warnings;
    assert_eq!(warnings[0].chars().count(), 256);
    assert!(warnings[0].ends_with("x…"));
    let last = warnings.last().expect("some").clone();
    assert_eq!(last, format!("and {} more warnings", 200 - (warnings.len() - 1)));
    let one_more = AdmissionResponse::of(&many(Severity::Warning)[..warnings.len()]).warnings;
    assert_eq!(one_more.last().expect("some"), "and 1 more warning");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn answers_are_bounded(texts in prop::collection::vec((any::<bool>(), "(.|[\n\u{0}é]){0,300}"), 0..60),
        requester in ".{0,600}") {
        let severity = |bad| if bad { Severity::Error } else { Severity::Warning };
        let findings: Vec<Finding> =
            texts.iter().map(|(bad, text)| finding(severity(*bad), "f", text)).collect();
        let answer = AdmissionResponse::of(&findings);
        prop_assert_eq!(answer.is_allowed(), texts.iter().all(|(bad, _)| !bad));
        let message = answer.denied.as_ref().map_or("", |(_, message)| message);
        prop_assert!(message.len() <= 16 * 1024);
        let chars: usize = answer.warnings.iter().map(|each| each.chars().count()).sum();
        prop_assert!(chars <= 4 * 1024);
        prop_assert!(answer.warnings.iter().all(|each| each.chars().count() <= 256));
        let shown = answer.warnings.join("") + message;
        prop_assert!(!shown.chars().any(char::is_control));
        let found: Value = serde_json::from_slice(&answer.write("u", &requester)).expect("JSON");
        let audit = found["response"]["auditAnnotations"]["requester"].as_str().expect("text");
        prop_assert!(audit.chars().count() <= 256);
    }
}
