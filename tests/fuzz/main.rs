//! Everything that a stranger may send, broken in every way that came to mind: nothing panics, and
//! every answer is one that can be given.
//!
//! A few thousand inputs by default. A million, each within 100 ms of CPU time (a file that has more in it than
//! one AppWrapper may have: as often as it has that), and what the slowest took:
//!
//! ```sh
//! FUZZ_CASES=1000000 FUZZ_MILLIS_MAX=100 cargo test --release --test fuzz -- --test-threads 1 --nocapture
//! ```

mod blows;
mod cost;
#[path = "../dearest/mod.rs"]
#[allow(dead_code, reason = "tests/price and the bench use the rest")]
mod dearest;
mod samples;

use std::sync::LazyLock;

use appwrapper::api::{AppWrapperSpec, Component, PodSet, RetryPolicySpec};
use appwrapper::cli::validated_file;
use appwrapper::config::Config;
use appwrapper::kinds;
use appwrapper::policies::{Named, Policies, RetryPolicy};
use appwrapper::price;
use appwrapper::progress::{self, Report};
use appwrapper::progress_server;
use appwrapper::tuning::{ExitCodes, Limits, Period};
use appwrapper::webhook::default::default;
use appwrapper::webhook::judge::{Endpoint, ReviewStep, judge};
use appwrapper::webhook::response::AdmissionResponse;
use appwrapper::webhook::review::{Review, ReviewError};
use appwrapper::webhook::validate::{self, Requester};
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use self::blows::{Blow, hostile_text, pattern, strike};
use self::cost::Cost;

/// How many inputs there are, unless `FUZZ_CASES` says so.
const CASES: u32 = 4_000;

/// A share of all inputs, in percent.
#[expect(clippy::disallowed_methods, reason = "how much is done is said from outside")]
fn share(percent: u32) -> ProptestConfig {
    let given = std::env::var("FUZZ_CASES").ok();
    let all = given.map_or(CASES, |text| text.parse().expect("FUZZ_CASES is a number"));
    let cases = all / 100 * percent;
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// The share of inputs that are one of the dearest AppWrappers: each takes as long as hundreds of others.
const DEAR: f64 = 0.004;
static DEAREST: LazyLock<Vec<Value>> =
    LazyLock::new(|| dearest::all().into_iter().map(|each| each.object).collect());

/// What an input is made from, where it is about AppWrappers.
fn dear() -> impl Strategy<Value = Option<usize>> {
    prop::option::weighted(DEAR, 0..DEAREST.len())
}

fn sample(endpoint: Endpoint, dear: Option<usize>) -> Value {
    let sample = samples::of(endpoint);
    match dear {
        Some(number) if sample["kind"] == "AppWrapper" => DEAREST[number].clone(),
        Some(_) | None => sample,
    }
}

fn struck(mut value: Value, blows: &[Blow]) -> Value {
    for blow in blows {
        strike(&mut value, blow);
    }
    value
}

/// An object as an API server stores it: without the fields that are null.
fn stored(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let given = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(given.map(|(name, value)| (name, stored(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(stored).collect(),
        other => other,
    }
}

fn config() -> Config {
    Config::parse("admission: {defaultQueueName: spare, refuseForegroundDeletion: true}")
        .expect("settings")
}

/// The answer to a question, as it would be sent.
fn answered(endpoint: Endpoint, review: &Review, config: &Config) -> AdmissionResponse {
    match judge(endpoint, review, config, None, Some("robot")) {
        ReviewStep::Final(answer) => answer,
        ReviewStep::Ask(question) => {
            for each in question.wrapped(review) {
                assert!(each.path.starts_with("spec.components["), "{}", each.path);
                let all = [each.api_version, each.kind, each.name];
                assert!(all.iter().all(|text| !text.is_empty()), "{each:?}");
            }
            question.answered(Ok(vec![]))
        }
        ReviewStep::Read(reading) => {
            let all = reading.references.clone().into_iter();
            // whatever is in the cluster: the review itself
            let found = all.map(|(_, reference)| (reference, review.object.value.clone()));
            reading.filled(review, &found.collect())
        }
    }
}

#[test]
fn any_bytes_get_an_answer_or_one_line() {
    let cost = Cost::new("admission");
    let inputs = (
        (0..3_usize, 0..4_usize, dear()),
        blows::some(2),
        blows::some(4),
        blows::some(2),
        blows::text(),
    );
    proptest!(share(35), |(((endpoint, operation, dear), old, new, envelope, text) in inputs)| {
        let endpoint = Endpoint::ALL[endpoint];
        let operation = ["CREATE", "UPDATE", "DELETE", "CONNECT"][operation];
        let sample = sample(endpoint, dear);
        // mostly a change of the new object alone
        let old = struck(sample.clone(), &old);
        let new = struck(if new.len() % 2 == 0 { old.clone() } else { sample }, &new);
        let review = samples::review(endpoint, operation, &old, &new);
        let bytes = blows::written(&struck(review, &envelope), &text);
        let config = config();
        let read = cost.of(|| {
            let review = Review::read(&bytes, endpoint.resource())?;
            let answer = answered(endpoint, &review, &config);
            let body = answer.write(&review.uid, &review.requester.username);
            Ok::<_, ReviewError>((review, answer, body))
        })?;
        match read {
            Ok((review, answer, body)) => {
                let body: Value = serde_json::from_slice(&body).expect("JSON");
                prop_assert_eq!(&body["response"]["uid"], &json!(review.uid));
                prop_assert_eq!(&body["response"]["allowed"], &json!(answer.is_allowed()));
                let chars = answer.warnings.iter().map(|each| each.chars().count()).sum::<usize>();
                prop_assert!(chars <= 4096);
                let message = answer.denied.map_or(0, |(_, message)| message.len());
                prop_assert!(message < 64 << 10, "{} bytes", message);
            }
            Err(error) => prop_assert!(error.to_string().chars().count() < 500, "{}", error),
        }
    });
}

/// How many AppWrappers of the largest size have so many bytes or values: a blow may repeat what is large.
fn appwrappers_in(bytes: usize, values: usize) -> u32 {
    let count =
        bytes.div_ceil(price::OBJECT_BYTES_MAX).max(values.div_ceil(price::SPEC_VALUES_MAX));
    u32::try_from(count).expect("a few")
}

#[test]
fn any_file_is_judged_line_by_line() {
    let cost = Cost::new("validate");
    let inputs = (dear(), blows::some(4), blows::some(4), 0..4_usize, blows::text(), blows::yaml());
    proptest!(share(20), |((dear, wrapper, policy, style, text, yaml) in inputs)| {
        let wrapper = struck(sample(Endpoint::ValidateAppWrapper, dear), &wrapper);
        let policy = struck(samples::of(Endpoint::ValidateRetryPolicy), &policy);
        let file = match style {
            0 => blows::written(&wrapper, &text),
            1 => blows::written(&json!({"kind": "List", "items": [wrapper, policy]}), &text),
            2 => [&blows::written(&wrapper, &text)[..], b"\n---\n", &policy.to_string().into_bytes()].concat(),
            _ => blows::block_style(&wrapper, &yaml, &text),
        };
        let config = config();
        let values = price::values(&wrapper) + price::values(&policy);
        let (text, json) = cost.of_many(appwrappers_in(file.len(), values), || validated_file(&file, &config))?;
        let is_shown = |c: char| c == '\n' || !c.is_control();
        prop_assert!(text.chars().all(is_shown), "{}", text);
        let answer: Value = serde_json::from_str(&json).expect("JSON");
        let objects = answer["objects"].as_array().map_or(0, Vec::len);
        prop_assert!(text.lines().count() < objects * 210 + 20, "{}", text);
    });
}

#[test]
fn whatever_is_filled_in_applies_and_once_is_enough() {
    let cost = Cost::new("default");
    proptest!(share(9), |(new in blows::some(4), user in hostile_text())| {
        let aw = struck(samples::of(Endpoint::MutateAppWrapper), &new);
        let review = samples::review(Endpoint::MutateAppWrapper, "CREATE", &Value::Null, &aw);
        let bytes = review.to_string().into_bytes();
        // null is no object
        let Ok(mut review) = Review::read(&bytes, Endpoint::MutateAppWrapper.resource()) else {
            return Ok(());
        };
        review.requester.username = user;
        let aw = &mut review.object.value;
        let patch = cost.of(|| default(aw, &review.requester, &config()))?;
        let patch = serde_json::from_value::<json_patch::Patch>(json!(patch)).expect("a patch");
        json_patch::patch(aw, &patch).expect("it applies");
        prop_assert_eq!(default(aw, &review.requester, &config()), []);
    });
}

/// The component of the sample.
const JOB: Named<'_> = Named { kind: "Job", name: "work", has_pods: true, parts: &[] };

#[test]
fn any_policy_is_judged_and_read() {
    let cost = Cost::new("policies");
    proptest!(share(9), |(new in blows::some(6), retry in blows::some(6))| {
        let config = config();
        let old = samples::of(Endpoint::ValidateAppWrapper);
        let mut aw = old.clone();
        for policy in ["failurePolicy", "podFailurePolicy", "executionPolicy"] {
            aw["spec"][policy] = struck(aw["spec"][policy].take(), &new);
        }
        let mut policy = samples::of(Endpoint::ValidateRetryPolicy);
        policy["spec"] = struck(policy["spec"].take(), &retry);
        // neither unknown fields, which are warned of, nor nulls are stored
        let (is_good, read) = cost.of(|| {
            drop(validate::create(&aw, &config));
            drop(validate::update(&old, &aw, Requester::default(), &config));
            if let Ok(spec) = serde_json::from_value::<AppWrapperSpec>(aw["spec"].take()) {
                drop(Policies::of(&spec, &[JOB]).flaws());
            }
            let is_good = validate::retry_policy(&policy, &config).is_empty();
            let spec = serde_json::from_value::<RetryPolicySpec>(stored(policy["spec"].take()));
            (is_good, spec.ok().and_then(|spec| RetryPolicy::read("infra", &spec).ok()))
        })?;
        prop_assert!(!is_good || read.is_some(), "what is let in can be read");
    });
}

#[test]
fn any_annotations_give_limits() {
    let cost = Cost::new("annotations");
    let values = prop::collection::vec(hostile_text(), 12);
    proptest!(share(9), |(values in values, name in hostile_text())| {
        let keys = samples::ANNOTATIONS.iter().map(|key| (*key).to_owned());
        let odd = format!("workload.codeflare.dev.appwrapper/{name}");
        let annotations = keys.chain([odd]).zip(values.iter().cloned()).collect();
        let defaults = Config::default().fault_tolerance;
        let (limits, remarks) = cost.of(|| Limits::of(&annotations, &defaults))?;
        prop_assert!(limits.retry_limit >= 0 && limits.warmup_grace <= defaults.grace_maximum);
        prop_assert!(remarks.iter().all(|each| !each.to_string().is_empty()));
    });
}

#[test]
fn any_duration_is_read_or_refused() {
    let cost = Cost::new("durations");
    let texts = prop_oneof![
        hostile_text(),
        pattern(
            "[-+]?[0-9]{0,22}(\\.[0-9]{0,22})?(ns|us|µs|ms|s|m|h|d|M|y| )?([0-9.]{0,9}[smhd])?"
        ),
    ];
    proptest!(share(9), |(text in texts)| {
        let (period, codes) = cost.of(|| (text.parse::<Period>(), text.parse::<ExitCodes>()))?;
        if let Ok(period) = period {
            prop_assert_eq!(period.to_string().parse::<Period>(), Ok(period), "{}", text);
        }
        if let Ok(codes) = codes {
            prop_assert!(codes.into_set().iter().all(|code| (1..=255).contains(code)));
        }
    });
}

#[test]
fn any_path_leads_somewhere_or_nowhere() {
    let cost = Cost::new("paths");
    let paths = prop_oneof![
        hostile_text(),
        pattern(
            "(template)?(\\.(spec|template|metadata|containers|[a-z./]{0,9})|\\[[0-9-]{0,21}\\]){0,9}"
        ),
        pattern("(template\\.){0,60}|a{510,515}"),
    ];
    proptest!(share(9), |(path in paths, replicas in any::<Option<i32>>())| {
        let pod_sets = vec![PodSet { path: path.clone(), replicas, ..PodSet::default() }];
        let template = samples::job("work");
        let component = Component { template, pod_sets, ..Component::default() };
        let found = cost.of(|| kinds::inspect(&component))?;
        prop_assert!(found.is_err() || path == "template.spec.template", "{}", path);
        if let Ok(path) = path.parse::<kinds::Path>() {
            let shown = path.to_string();
            prop_assert_eq!(shown.parse::<kinds::Path>().expect("it parses back"), path);
            let mut template = component.template;
            drop(path_of(&shown).get_mut(&mut template).map(|value| *value = Value::Null));
        }
    });
}

#[test]
fn any_progress_report_is_read_or_refused() {
    let cost = Cost::new("reports");
    proptest!(share(9), |(blows in blows::some(6), text in blows::text())| {
        let metric = |name: &str, value: &str| json!({"name": name, "value": value});
        let message = json!({"trainerStatus": {
            "lastUpdatedTime": "2026-01-05T10:00:00Z", "progressPercentage": 40,
            "estimatedRemainingSeconds": 600, "metrics": [
                metric("loss", "nan"), metric("current_step", "1200"), metric("checkpoint", "c"),
            ],
        }});
        let bytes = blows::written(&struck(message, &blows), &text);
        let read = cost.of(|| {
            let values = progress_server::read(&bytes)?;
            let of = |values| Report::new(Timestamp::UNIX_EPOCH, values);
            Ok::<_, progress_server::Malformed>(values.map(of))
        })?;
        match read {
            Ok(Some(Ok(report))) => {
                prop_assert_eq!(progress::parse(&report.render()), Ok(report));
            }
            Ok(Some(Err(error))) => prop_assert!(error.to_string().chars().count() < 500),
            Ok(None) => {}
            Err(error) => prop_assert!(error.to_string().chars().count() < 500, "{}", error),
        }
    });
}

fn path_of(text: &str) -> kinds::Path {
    text.parse().expect("a path")
}
