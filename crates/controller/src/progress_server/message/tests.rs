use k8s_openapi::jiff::Timestamp;
use proptest::prelude::{Just, Strategy, prop, prop_assert, prop_oneof, proptest};
use serde_json::json;

use super::*;
use crate::progress::Report;

proptest! {
    #[test]
    fn any_body_gets_an_answer(body in prop::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        if let Err(error) = read(&body) {
            prop_assert!(error.to_string().len() < 1_000);
        }
    }

    #[test]
    fn any_message_gets_an_answer(
        percent in any_value(), eta in any_value(), metrics in any_value(),
        name in prop::sample::select(vec!["step", "current_step", "checkpoint", "loss"]),
        value in any_value(),
    ) {
        let metrics = if metrics.is_null() { json!([{"name": name, "value": value}]) } else { metrics };
        let body = json!({"trainerStatus": {"progressPercentage": percent,
            "estimatedRemainingSeconds": eta, "metrics": metrics}});
        match read(body.to_string().as_bytes()) {
            Ok(Some(values)) => {
                let report = Report::new(Timestamp::UNIX_EPOCH, values);
                if let Ok(report) = report {
                    prop_assert!(crate::progress::parse(&report.render()).is_ok());
                }
            }
            Ok(None) => {}
            Err(error) => {
                let text = error.to_string();
                prop_assert!(text.starts_with("trainerStatus.") && text.len() < 1_000, "{}", text);
            }
        }
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        proptest::prelude::any::<i64>().prop_map(Value::from),
        (-2_i64..103).prop_map(Value::from),
        proptest::prelude::any::<f64>().prop_map(Value::from),
        ".{0,80}".prop_map(Value::from),
        "[0-9]{1,20}(\\.0*)?".prop_map(Value::from),
        Just(json!([])),
        Just(json!([1])),
        Just(json!([{"name": "step"}])),
        Just(json!({})),
    ]
}

type Said = (Option<i64>, Option<i64>, Option<i64>, Option<String>);

fn said(status: &Value) -> Result<Option<Said>, String> {
    read(json!({"trainerStatus": status}).to_string().as_bytes())
        .map(|values| values.map(|v| (v.percent, v.step, v.eta, v.checkpoint)))
        .map_err(|error| error.to_string())
}

fn metric(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

fn metrics(all: &[Value]) -> Value {
    json!({ "metrics": all })
}

#[test]
fn what_a_message_says() {
    // as the callback of Transformers sends it
    let transformers = json!({"lastUpdatedTime": "2026-01-05T10:00:00.123456+00:00",
        "progressPercentage": 12, "estimatedRemainingSeconds": 600,
        "metrics": [metric("loss", "nan"), metric("current_step", "120"), metric("total_steps", "1000")]});
    assert_eq!(said(&transformers), Ok(Some((Some(12), Some(120), Some(600), None))));
    for (status, want) in [
        (json!(null), None),
        (json!({}), (Some((None, None, None, None)))),
        (json!({"progressPercentage": null, "other": 1}), (Some((None, None, None, None)))),
        (metrics(&[metric("step", "7")]), (Some((None, Some(7), None, None)))),
        (
            metrics(&[metric("step", "7"), metric("current_step", "8")]),
            (Some((None, Some(8), None, None))),
        ),
        (metrics(&[metric("step", "1200.0")]), (Some((None, Some(1200), None, None)))),
        (metrics(&[metric("current_step", "1200.0")]), (Some((None, Some(1200), None, None)))),
        (metrics(&[metric("step", "12.5")]), (Some((None, None, None, None)))),
        (metrics(&[metric("step", "-1")]), (Some((None, None, None, None)))),
        (
            metrics(&[metric("checkpoint", "s3://b/step-7")]),
            (Some((None, None, None, Some("s3://b/step-7".to_owned())))),
        ),
    ] {
        assert_eq!(said(&status), Ok(want), "{status}");
    }
}

#[test]
fn a_message_that_is_wrong_is_refused_with_the_field() {
    for (status, want) in [
        (
            json!({"progressPercentage": 101}),
            "trainerStatus.progressPercentage: Invalid value: 101: must be a whole number from 0 to 100",
        ),
        (
            json!({"progressPercentage": 1.5}),
            "trainerStatus.progressPercentage: Invalid value: 1.5: must be a whole number from 0 to 100",
        ),
        (
            json!({"estimatedRemainingSeconds": "\u{1b}[2J"}),
            "trainerStatus.estimatedRemainingSeconds: Invalid value: \"\\u{1b}[2J\": must be a whole number from 0 to 9007199254740991",
        ),
        (
            json!({"progressPercentage": "40"}),
            "trainerStatus.progressPercentage: Invalid value: \"40\": must be a whole number from 0 to 100",
        ),
        (
            metrics(&[metric("loss", "0.3"), metric("current_step", "abc")]),
            "trainerStatus.metrics[1].value: Invalid value: \"abc\": must be a whole number from 0 to 9007199254740991",
        ),
        (
            metrics(&[metric("current_step", "-1")]),
            "trainerStatus.metrics[0].value: Invalid value: \"-1\": must be a whole number from 0 to 9007199254740991",
        ),
        (
            metrics(&[metric("current_step", "7"), metric("global_step", "12.5")]),
            "trainerStatus.metrics[1].value: Invalid value: \"12.5\": must be a whole number from 0 to 9007199254740991",
        ),
        (json!([]), "trainerStatus: Invalid value: a list: must be an object"),
        (json!({"metrics": {}}), "trainerStatus.metrics: Invalid value: an object: must be a list"),
        (
            metrics(&[metric("a", "b"), json!({"name": "a", "value": 1})]),
            "trainerStatus.metrics[1].value: Invalid value: 1: must be a string",
        ),
        (
            metrics(&[json!(7)]),
            "trainerStatus.metrics[0].name: Invalid value: null: must be a string",
        ),
        (
            metrics(&vec![metric("a", "b"); 257]),
            "trainerStatus.metrics: Invalid value: 257: must be at most 256 metrics",
        ),
    ] {
        assert_eq!(said(&status), Err(want.to_owned()), "{status}");
    }
}

#[test]
fn a_message_without_status_says_nothing_else() {
    for body in ["{}", r#"{"trainerStatus": null}"#, r#"{"trainerStatus": {}, "other": 1}"#] {
        assert!(read(body.as_bytes()).is_ok(), "{body}");
    }
    for (body, want) in [
        (
            r#"{"progressPercentage": 50}"#,
            "progressPercentage: Invalid value: 50: must be a field of trainerStatus",
        ),
        (
            r#"{"trainerStatus": null, "a\u001b": "x"}"#,
            r#"a\u{1b}: Invalid value: "x": must be a field of trainerStatus"#,
        ),
    ] {
        let said = read(body.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(said, Err(want.to_owned()));
    }
}

#[test]
fn a_long_value_is_quoted_with_a_mark_where_it_is_cut() {
    for (chars, want) in [(64, "x".repeat(64)), (65, "x".repeat(63) + "…")] {
        let said = said(&json!({"progressPercentage": "x".repeat(chars)}));
        let want = format!(
            "trainerStatus.progressPercentage: Invalid value: \"{want}\": must be a whole number from 0 to 100"
        );
        assert_eq!(said, Err(want), "{chars}");
    }
}
