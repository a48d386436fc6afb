use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use regex::Regex;
use serde_json::{Value, json};

use super::conform::{conforms, is_plain_moment};
use super::definition::MOMENT;
use super::*;
use crate::api::{AppWrapperStatus, Attempt, ComponentStatus, FailureRecord, Phase, condition};

fn read_value(value: &Value) -> Read {
    let evidence = Evidence { deleting: false, suspend: false, finalizer: true };
    let text = value.to_string();
    if conforms(&text) {
        let closely = read::field_by_field(Some(&text)).unwrap();
        assert_eq!(closely.status, serde_json::from_str(&text).unwrap(), "{text}");
        assert!(closely.flaws.is_empty(), "{text}: {:?}", closely.flaws);
    }
    read(Some(&text), evidence)
}

fn condition_of(kind: &str, time: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": time})
}

#[test]
fn a_plain_moment_has_no_fraction_and_no_other_zone() {
    let pattern = Regex::new(MOMENT).unwrap();
    for (text, is_plain, is_allowed) in [
        ("2026-01-01T00:00:00Z", true, true),
        (UNREADABLE, true, true),
        ("2026-01-01T00:00:00.5Z", false, true),
        ("2026-01-01T00:00:00+02:00", false, true),
        ("1999-01-01T00:00:00Z", false, false),
        ("2200-01-01T00:00:00Z", false, false),
        ("2026-01-01T30:00:00Z", false, false),
        ("2026-01-01T00:60:00Z", false, false),
        ("2026-01-01T00:00:60Z", false, false),
        ("2026-01-01 00:00:00Z", false, false),
        ("2026-01-01T00:00:00z", false, false),
        ("2026-01-01T00:00:00", false, false),
        ("2026-01-01T00:00:0éZ", false, false),
        ("", false, false),
    ] {
        assert_eq!(
            (is_plain_moment(text), pattern.is_match(text)),
            (is_plain, is_allowed),
            "{text}"
        );
    }
}

#[test]
fn a_condition_without_a_time_still_says_what_it_says() {
    let timeless = json!({"type": "Unhealthy", "status": "True", "reason": "R", "message": ""});
    let read = read_value(&json!({"phase": "Running", "conditions": [timeless]}));
    let want = json!([condition_of("Unhealthy", UNREADABLE)]);
    assert_eq!(serde_json::to_value(&read.status.conditions).unwrap(), want);
    assert!(read.flaws.is_empty(), "{:?}", read.flaws);
}

#[test]
fn what_can_be_read_is_read_and_the_rest_is_named() {
    const T: &str = "2026-01-01T00:00:00Z";
    for (stored, want, named) in [
        (json!({"phase": "Running"}), json!({"phase": "Running"}), ""),
        (json!({"phase": "Running", "new": {"a": 1}}), json!({"phase": "Running"}), ""),
        (json!({"phase": "Running", "since": null}), json!({"phase": "Running"}), ""),
        (json!({"phase": "Hibernating"}), json!({"phase": "Resuming"}), "status.phase: "),
        (json!({"phase": 7}), json!({"phase": "Resuming"}), "status.phase: "),
        (json!({"phase": "Terminating"}), json!({"phase": "Resuming"}), "status.phase: "),
        (
            json!({"phase": "Running", "resettingCount": -5}),
            json!({"phase": "Running"}),
            "status.resettingCount: ",
        ),
        (
            json!({"phase": "Running", "resettingCount": 99_999_999_999_u64}),
            json!({"phase": "Running", "resettingCount": i32::MAX}),
            "status.resettingCount: ",
        ),
        (
            json!({"phase": "Running", "resettingCount": "1"}),
            json!({"phase": "Running"}),
            "status.resettingCount: ",
        ),
        (
            json!({"phase": "Running", "retryAfter": "9999-12-31T23:59:59Z"}),
            json!({"phase": "Running"}),
            "status.retryAfter: ",
        ),
        (
            json!({"phase": "Running", "conditions": [condition_of("QuotaReserved", "9999-12-31T23:59:59Z")]}),
            json!({"phase": "Running", "conditions": [condition_of("QuotaReserved", UNREADABLE)]}),
            "status.conditions[0].lastTransitionTime: ",
        ),
        (
            json!({"phase": "Running", "conditions": [3, condition_of("Unhealthy", T)]}),
            json!({"phase": "Running", "conditions": [condition_of("Unhealthy", T)]}),
            "status.conditions[0]: ",
        ),
        (
            json!({"phase": "Running", "since": {"deployed": T, "gone": 5, "later": T}}),
            json!({"phase": "Running", "since": {"deployed": T}}),
            "status.since.gone: ",
        ),
        (
            json!({"phase": "Running", "attempts": [{"attempt": "x"}, {"attempt": 2, "action": "Hope"}]}),
            json!({"phase": "Running", "attempts": [{"attempt": 2}]}),
            "status.attempts[0].attempt: ",
        ),
        (
            json!({"phase": "Running", "avoidNodes": ["a\nb", "node-1"]}),
            json!({"phase": "Running", "avoidNodes": ["node-1"]}),
            "status.avoidNodes[0]: ",
        ),
    ] {
        let Read { status, flaws } = read_value(&stored);
        assert_eq!(serde_json::to_value(&status).unwrap(), want, "{stored}");
        let texts = flaws.named.join("; ");
        assert_eq!(flaws.is_empty(), named.is_empty(), "{stored}: {texts}");
        assert!(texts.contains(named), "{stored}: {texts}");
    }
}

#[test]
fn an_entry_that_cannot_be_read_keeps_the_place_of_its_component() {
    let read = read_value(&json!({"phase": "Running", "componentStatus": [5, {"name": "b"}]}));
    let names: Vec<&str> =
        read.status.component_status.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["", "b"]);
}

#[test]
fn of_too_many_attempts_the_last_stay() {
    let attempts: Vec<Value> = (0..50).map(|number| json!({"attempt": number})).collect();
    let read = read_value(&json!({"phase": "Running", "attempts": attempts}));
    assert_eq!(read.status.attempts.last().map(|last| last.attempt), Some(49));
    assert!(!read.flaws.is_empty());
}

#[test]
fn an_unknown_phase_is_the_oldest_that_fits() {
    let unknown = |more: Value| {
        let mut status = json!({"phase": "Hibernating"});
        status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        status.to_string()
    };
    let up = Evidence { deleting: false, suspend: false, finalizer: true };
    let deleting =
        json!({"conditions": [condition_of("DeletingResources", "2026-01-01T00:00:00Z")]});
    for (evidence, more, want) in [
        (up, json!({}), Phase::Resuming),
        (Evidence { finalizer: false, ..up }, json!({}), Phase::Suspended),
        (Evidence { suspend: true, ..up }, json!({}), Phase::Suspending),
        (Evidence { suspend: true, deleting: true, ..up }, json!({}), Phase::Terminating),
        (up, deleting, Phase::Resetting),
        (up, json!({"since": {"gone": "2026-01-01T00:00:00Z"}}), Phase::Resetting),
        (up, json!({"attempts": [{"attempt": 1, "outcome": "Succeeded"}]}), Phase::Succeeded),
        (up, json!({"attempts": [{"attempt": 1, "action": "Fail"}]}), Phase::Failed),
    ] {
        let read = read(Some(&unknown(more.clone())), evidence);
        assert_eq!(read.status.phase, want, "{evidence:?} {more}");
        assert!(read.flaws.stored.contains_key("phase"));
    }
    for raw in ["3", "\"x\"", "[]", "{"] {
        assert_eq!(read(Some(raw), up).status.phase, Phase::Resuming, "{raw}");
    }
}

#[test]
fn a_phase_that_other_fields_deny_is_not_believed() {
    let holds = json!([condition_of("QuotaReserved", "2026-01-01T00:00:00Z")]);
    for (phase, suspend, want) in [
        ("", false, Phase::Resuming),
        ("", true, Phase::Suspending),
        ("Suspended", true, Phase::Suspending),
        ("Suspended", false, Phase::Suspended),
        ("Terminating", true, Phase::Suspending),
        ("Running", false, Phase::Running),
    ] {
        let raw = json!({"phase": phase, "conditions": holds}).to_string();
        let evidence = Evidence { deleting: false, suspend, finalizer: true };
        assert_eq!(read(Some(&raw), evidence).status.phase, want, "{phase} {suspend}");
    }
}

#[test]
fn the_definition_bounds_every_field() {
    fn unbounded(schema: &Value, path: &str, found: &mut Vec<String>) {
        let has = |key: &str| schema.get(key).is_some();
        let bounded = match schema["type"].as_str() {
            Some("string") => has("maxLength") || has("enum"),
            Some("integer") => has("minimum") && has("maximum"),
            Some("array") => has("maxItems"),
            Some("object") if has("additionalProperties") => has("maxProperties"),
            _ => true,
        };
        if !bounded {
            found.push(path.to_owned());
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            unbounded(field, &format!("{path}.{name}"), found);
        }
        for inner in ["items", "additionalProperties"] {
            if schema[inner].is_object() {
                unbounded(&schema[inner], &format!("{path}.{inner}"), found);
            }
        }
    }
    let definition = <crate::api::AppWrapper as kube::CustomResourceExt>::crd();
    let schema = definition.spec.versions[0].schema.clone().unwrap();
    let mut status =
        schema.open_api_v3_schema.unwrap().properties.unwrap().remove("status").unwrap();
    bound(&mut status);
    let mut found = vec![];
    unbounded(&serde_json::to_value(&status).unwrap(), "status", &mut found);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_moment_after_now_is_now() {
    let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
    let until = |latest, instead| RetryBound { latest: at(latest), instead: at(instead) };
    let mut status = read_value(&json!({
        "phase": "Running",
        "retryAfter": "2150-01-01T00:00:00Z",
        "since": {"deployed": "2150-01-01T00:00:00Z", "deleting": "2020-01-01T00:00:00Z"},
        "conditions": [condition_of("QuotaReserved", UNREADABLE)],
    }))
    .status;
    assert!(settle_moments(&mut status, at(0), until(900, 600)));
    let since = status.since.clone().unwrap();
    assert_eq!(since.deployed, Some(Time(at(0))));
    assert!(since.deleting.unwrap().0 < at(0), "the past is left as it is");
    assert_eq!(status.retry_after, Some(Time(at(600))));
    assert_eq!(condition::since(&status.conditions, condition::QUOTA_RESERVED), Some(at(0)));
    assert!(!settle_moments(&mut status, at(1), until(901, 601)), "once is enough");
}

/// Any JSON that is likely to be read as a status.
#[expect(clippy::too_many_lines, reason = "one table of cases")]
fn any_status() -> impl Strategy<Value = Value> {
    const WORDS: [&str; 38] = [
        "phase",
        "conditions",
        "componentStatus",
        "attempts",
        "retryCounts",
        "retryAfter",
        "since",
        "avoidNodes",
        "pendingMemory",
        "resettingCount",
        "name",
        "kind",
        "podSets",
        "uid",
        "type",
        "status",
        "reason",
        "message",
        "lastTransitionTime",
        "attempt",
        "outcome",
        "action",
        "rule",
        "source",
        "deployed",
        "deleting",
        "gone",
        "count",
        "path",
        "replicas",
        "container",
        "request",
        "podSet",
        "component",
        "usage",
        "state",
        "seconds",
        "productive",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        prop::sample::select(vec![
            "Running",
            "True",
            "False",
            "9999-12-31T23:59:59Z",
            "2026-01-01T00:00:00Z",
            "",
            "x",
            "QuotaReserved",
            "ResourcesDeployed",
            "Succeeded",
            "Restart",
            "-1Gi",
            "99Ei",
        ])
        .prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        let key = prop_oneof![
            9 => prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned),
            1 => ".{0,5}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..9)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

prop_compose! {
    fn any_components()(count in 0_usize..300, uid in any::<bool>(), length in 0_usize..200)
        -> Vec<ComponentStatus>
    {
        (0..count).map(|index| {
            let mut one = ComponentStatus {
                name: format!("{index}{}", "n".repeat(length)),
                uid: uid.then(|| format!("uid-{index}")),
                ..ComponentStatus::default()
            };
            let now = Timestamp::from_second(1_800_000_000).unwrap();
            condition::set(&mut one.conditions, condition::RESOURCES_DEPLOYED, true, "R", "m", now);
            one
        }).collect()
    }
}

prop_compose! {
    fn any_size()(
        component_status in any_components(), attempts in 0_i32..12, message in 0_usize..2000,
    ) -> AppWrapperStatus {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let mut status = AppWrapperStatus {
            phase: Phase::Running,
            resetting_count: 3,
            component_status,
            retry_after: Some(Time(now)),
            attempts: (0..attempts).map(|number| Attempt {
                attempt: number,
                failure: Some(FailureRecord {
                    message: Some("m".repeat(message)),
                    ..FailureRecord::default()
                }),
                ..Attempt::default()
            }).collect(),
            ..AppWrapperStatus::default()
        };
        for kind in [
            condition::QUOTA_RESERVED,
            condition::RESOURCES_DEPLOYED,
            condition::PODS_OVER_QUOTA,
            condition::UNHEALTHY,
        ] {
            condition::set(&mut status.conditions, kind, true, "R", &"m".repeat(message), now);
        }
        status
    }
}

fn size(status: &AppWrapperStatus) -> usize {
    serde_json::to_vec(status).unwrap().len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_is_read_and_what_was_read_has_no_flaw(
        stored in any_status(), deleting in any::<bool>(), suspend in any::<bool>(), finalizer in any::<bool>(),
    ) {
        let evidence = Evidence { deleting, suspend, finalizer };
        let first = read(Some(&stored.to_string()), evidence);
        let written = serde_json::to_string(&first.status).unwrap();
        let again = read(Some(&written), evidence);
        // the phase that was found may contradict the rest in another way once, and never again
        let third = read(Some(&serde_json::to_string(&again.status).unwrap()), evidence);
        prop_assert!(third.flaws.is_empty(), "{:?}", third.flaws);
        prop_assert_eq!(&again.status, &third.status);
        prop_assert_eq!(writable(again.status.clone(), &again.status, 0), again.status);
    }

    #[test]
    fn a_status_that_conforms_is_what_it_is_field_by_field(stored in any_status()) {
        let text = stored.to_string();
        let closely = read::field_by_field(Some(&text));
        if conforms(&text) {
            let status = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&closely, &Some(Read { status, flaws: Flaws::default() }));
        }
        if let Some(Read { status, .. }) = closely {
            // what was read is written as it is, and not looked at more closely again
            prop_assert!(conforms(&serde_json::to_string(&status).unwrap()));
        }
    }

    #[test]
    fn a_plain_moment_is_one_that_the_pattern_allows(
        text in "2[0-2][0-9]{2}-[0-9]{2}-[0-9]{2}T[0-3][0-9]:[0-6][0-9]:[0-6][0-9]Z",
    ) {
        prop_assert_eq!(is_plain_moment(&text), Regex::new(MOMENT).unwrap().is_match(&text));
    }

    #[test]
    fn what_is_cut_fits_and_is_cut_once(status in any_size(), budget in 0_usize..100_000) {
        let cut = fit(status.clone(), budget);
        prop_assert_eq!(&fit(cut.clone(), budget), &cut);
        prop_assert!(size(&cut) <= budget.max(size(&minimal(&status))));
        prop_assert!(size(&cut) <= size(&status));
        // more room never keeps less
        prop_assert!(size(&fit(status.clone(), budget + 1000)) >= size(&cut));
        if size(&status) <= budget {
            prop_assert_eq!(&cut, &status);
        }
        prop_assert_eq!(cut.phase, status.phase);
        prop_assert_eq!(cut.resetting_count, status.resetting_count);
        prop_assert_eq!(&cut.retry_after, &status.retry_after);
        let last = |status: &AppWrapperStatus| status.attempts.last().map(|last| last.attempt);
        prop_assert_eq!(last(&cut), last(&status));
        for kind in
            [condition::QUOTA_RESERVED, condition::RESOURCES_DEPLOYED, condition::PODS_OVER_QUOTA]
        {
            prop_assert!(condition::is_true(&cut.conditions, kind));
        }
    }

    #[test]
    fn what_is_dropped_does_not_come_back_at_the_edge(status in any_size(), rest in 0_usize..1_400_000, more in 0_usize..3000) {
        let cut = writable(status.clone(), &status, rest);
        if cut.component_status.is_empty() && !status.component_status.is_empty() {
            // the next look fills the list in again, and the rest of the object has changed a little
            let refilled = AppWrapperStatus { component_status: status.component_status.clone(), ..cut.clone() };
            prop_assert_eq!(writable(refilled, &cut, rest.saturating_sub(more)), cut);
        }
    }
}
