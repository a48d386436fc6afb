//! The page of a running controller, and what is made of it: dashboard, alerts, documentation; and who
//! may read it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use appwrapper::api::AppWrapperStatus;
use appwrapper::clock::SystemClock;
use appwrapper::metrics::{Census, Metrics};
use appwrapper::serve::{Access, metrics_router};
use axum::body::Body;
use http::{Request, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::harness::{job, page, runtime_test, test, tuned};

/// On the page only where there is a webhook or a progress server that was asked, or a certificate.
const NOT_ALWAYS: [&str; 6] = [
    "appwrapper_admission_answers_total",
    "appwrapper_admission_seconds",
    "appwrapper_certificate_expiry_timestamp_seconds",
    "appwrapper_progress_reports_total",
    "appwrapper_progress_writes_total",
    "appwrapper_shadow_decisions_total",
];

/// A metric of a page.
#[derive(Debug, Default)]
struct Shown {
    is_histogram: bool,
    labels: BTreeSet<String>,
    sum: f64,
}

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(path).expect("the file is there")
}

/// The metrics of a page, by name: their labels, and the sum over all series (of counts, of a histogram).
fn shown(page: &str) -> BTreeMap<String, Shown> {
    let mut all: BTreeMap<String, Shown> = BTreeMap::new();
    for line in page.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').expect("a name and a type");
            let is_histogram = kind == "histogram";
            all.insert(name.to_owned(), Shown { is_histogram, ..Shown::default() });
        }
        if line.starts_with('#') {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a series and its value");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let pairs = labels.trim_end_matches('}').split("\",");
        let names = pairs.filter_map(|pair| pair.split_once('=')).map(|(label, _)| label);
        let of_histogram = name.trim_end_matches("_count");
        let metric = if all.contains_key(name) { name } else { of_histogram };
        if let Some(metric) = all.get_mut(metric) {
            metric.labels.extend(names.map(str::to_owned));
            metric.sum += value.parse::<f64>().expect("a value is a number");
        }
    }
    all
}

/// The names of our metrics in a query, as it says them.
fn named(query: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = query.split(|c: char| !is_part(c));
    words.filter(|word| word.starts_with("appwrapper_")).map(str::to_owned).collect()
}

/// Every text under this key, at any depth.
fn texts<'v>(value: &'v Value, key: &str, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if name == key {
                    found.extend(field.as_str());
                }
                texts(field, key, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, key, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn dashboard() -> Value {
    serde_json::from_str(&read("config/grafana/appwrapper.json")).expect("a dashboard is JSON")
}

fn rules() -> Value {
    serde_saphyr::from_str(&read("config/prometheus/rules.yaml")).expect("rules are YAML")
}

/// Every query of the dashboard and of the alerts.
fn queries() -> Vec<String> {
    let (dashboard, rules) = (dashboard(), rules());
    let mut found = vec![];
    texts(&dashboard, "expr", &mut found);
    texts(&dashboard["templating"], "query", &mut found);
    let panels = found.len();
    texts(&rules, "expr", &mut found);
    assert!(panels > 20 && found.len() > panels + 10, "the queries were found");
    found.into_iter().map(str::to_owned).collect()
}

/// The rows of a table of the documentation whose first cell is code that fits.
fn rows(prefix: &str) -> BTreeMap<String, Vec<String>> {
    let page = read("docs/admin/metrics.md");
    let start = format!("| `{prefix}");
    let rows = page.lines().filter(|line| line.starts_with(&start));
    rows.map(|line| {
        let cells: Vec<String> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        (cells[0].trim_matches('`').to_owned(), cells)
    })
    .collect()
}

/// One AppWrapper that fails once and succeeds then, so that there is something to count.
async fn activity(case: &crate::harness::Case) {
    let life = [("run-for", "1s"), ("fail-until-attempt", "1"), ("exit-code", "3")];
    let settings = tuned(&[("failureGracePeriodDuration", "0s")]);
    case.wrap("aw", settings, vec![job("j", json!({}), &life)]).await;
    case.phase("aw", "Succeeded").await;
    case.delete_wrapper("aw").await;
    case.gone("AppWrapper", "aw").await;
    case.wrap("still", json!({}), vec![job("s", json!({}), &[("run-for", "1h")])]).await;
    case.condition("still", "PodsReady", "True").await;
}

#[test]
fn the_page_is_what_queries_and_documentation_name() {
    let name = "the_page_is_what_queries_and_documentation_name";
    test(name, async |case| {
        drop(page().await); // idle quota is summed from one scrape to the next
        activity(&case).await;
        let page = page().await;
        let shown = shown(&page);
        for name in [
            "appwrapper_appwrappers",
            "appwrapper_phase_changes_total",
            "appwrapper_attempts_total",
            "appwrapper_detection_seconds",
            "appwrapper_teardown_seconds",
            "appwrapper_pause_seconds",
            "appwrapper_start_seconds",
            "appwrapper_reconcile_seconds",
            "appwrapper_api_requests_total",
        ] {
            let metric = shown.get(name).unwrap_or_else(|| panic!("{name} is not in\n{page}"));
            assert!(metric.sum >= 1.0, "{name} counts nothing:\n{page}");
        }
        assert!(page.contains("appwrapper_warnings_total{reason="), "{page}");
        assert!(page.contains(r#"category="application""#), "{page}");
        assert!(!page.contains(&case.namespace), "no namespace is a label");

        let base = |word: &str| -> String {
            let stems = ["_bucket", "_sum", "_count"].map(|end| word.trim_end_matches(end));
            let of_histogram = stems.into_iter().find(|stem| {
                *stem != word
                    && (shown.get(*stem).is_some_and(|metric| metric.is_histogram)
                        || NOT_ALWAYS.contains(stem))
            });
            of_histogram.unwrap_or(word).to_owned()
        };
        let is_known = |name: &str| shown.contains_key(name) || NOT_ALWAYS.contains(&name);
        let mut used = BTreeSet::new();
        for query in queries() {
            for word in named(&query) {
                assert!(is_known(&base(&word)), "{word} of {query} is not on the page");
                used.insert(base(&word));
            }
        }
        let documented = rows("appwrapper_");
        for name in documented.keys().chain(&used) {
            assert!(is_known(name), "{name} is not on the page");
        }
        for (name, metric) in &shown {
            assert!(used.contains(name), "{name} is in no query");
            let cells = documented.get(name).unwrap_or_else(|| panic!("{name} has no row"));
            let labels: BTreeSet<String> = cells[1]
                .split(',')
                .map(|label| label.trim().trim_matches('`').to_owned())
                .filter(|label| !label.is_empty())
                .collect();
            let mut on_page = metric.labels.clone();
            on_page.remove("le");
            assert_eq!(labels, on_page, "labels of {name}");
        }
    });
}

#[test]
fn every_alert_is_described_and_says_what_it_is() {
    let described: BTreeSet<String> = rows("AppWrapper").into_keys().collect();
    let rules = rules();
    let mut alerts = BTreeSet::new();
    for group in rules["spec"]["groups"].as_array().expect("groups") {
        for rule in group["rules"].as_array().expect("rules") {
            let name = rule["alert"].as_str().expect("an alert has a name");
            for field in ["/expr", "/for", "/labels/severity", "/annotations/summary"] {
                assert!(rule.pointer(field).is_some_and(Value::is_string), "{name} has {field}");
            }
            alerts.insert(name.to_owned());
        }
    }
    assert_eq!(alerts, described);
}

/// What is counted may be one, and what is said holds for each cause.
#[test]
fn the_text_of_an_alert_holds_whenever_it_fires() {
    let rules = rules();
    let groups = rules["spec"]["groups"].as_array().expect("groups").iter();
    let all: Vec<&Value> =
        groups.flat_map(|group| group["rules"].as_array().expect("rules")).collect();
    let text = |rule: &Value, field: &str| {
        rule["annotations"][field].as_str().unwrap_or_default().to_owned()
    };
    for rule in all.iter().copied() {
        let is_one = rule["expr"].as_str().expect("a query").ends_with("> 0");
        let summary = text(rule, "summary");
        assert!(!(is_one && summary.starts_with("{{ $value }}")), "{summary}");
    }
    for (alert, field, want) in [
        ("AppWrapperCertificateExpiring", "summary", "has {{ $value | humanizeDuration }} left"),
        ("AppWrapperNoLeader", "description", "none is ready"),
        ("AppWrapperCertificateExpiring", "description", "certificates of webhook.certDir"),
        ("AppWrapperCertificateExpiring", "description", "Once it has expired"),
        ("AppWrapperStuckPods", "description", "Unhealthy with reason StuckTerminating"),
        ("AppWrapperStuckPods", "description", "may still run"),
        ("AppWrapperStuckDeletions", "description", "UndeterminedPods names the pods"),
        ("AppWrapperPodsOverQuota", "summary", "more pods than they declare"),
        ("AppWrapperInternalErrors", "description", "Place watch: the controller skipped"),
        ("AppWrapperQueueSlow", "description", "the controller's pod"),
        ("AppWrapperAdmissionDenied", "description", "\"Admission denied.\" in the log"),
    ] {
        let rule =
            all.iter().copied().find(|rule| rule["alert"] == alert).expect("the alert is there");
        let said = text(rule, field);
        assert!(said.contains(want), "{alert}: {said}");
    }
}

/// A queue in which nothing was productive has no series of that state: it is the one to look at.
#[test]
fn a_share_shows_the_queues_of_which_nothing_is_in_it() {
    let mut shares = queries();
    shares.retain(|query| query.contains("state=\"productive\""));
    assert!(!shares.is_empty());
    for query in shares {
        assert!(query.contains(" or 0 * sum by (queue) (") && query.ends_with(" > 0)"), "{query}");
    }
}

/// The query of an alert.
fn rule(alert: &str) -> String {
    let rules = rules();
    let groups = rules["spec"]["groups"].as_array().expect("groups").iter();
    let mut all = groups.flat_map(|group| group["rules"].as_array().expect("rules"));
    let found = all.find(|rule| rule["alert"] == alert).expect("the alert is there");
    found["expr"].as_str().expect("a query").to_owned()
}

/// The value of each `sum(increase(…))` of a query, where everything on a page happened within its range.
fn increases(query: &str, page: &str) -> Vec<f64> {
    let selectors = query.split("sum(increase(").skip(1);
    let total = |selector: &str| {
        let (series, _) = selector.split_once("}[").expect("a range");
        let (name, matchers) = series.split_once('{').expect("labels");
        let matchers = matchers.split(',').filter(|it| !it.starts_with("job="));
        let matchers: Vec<(&str, &str)> =
            matchers.map(|it| it.split_once('=').expect("a label and its values")).collect();
        let fits = |line: &&str| {
            let has = |(label, values): &(&str, &str)| {
                let mut values = values.trim_matches(['~', '"']).split('|');
                values.any(|value| line.contains(&format!("{label}=\"{value}\"")))
            };
            line.starts_with(&format!("{name}{{")) && matchers.iter().all(has)
        };
        let values = page.lines().filter(fits).filter_map(|line| line.rsplit(' ').next());
        values.map(|value| value.parse::<f64>().expect("a number")).sum()
    };
    selectors.map(total).collect()
}

/// The last look at an attempt of an AppWrapper, and what is written then.
fn ends(metrics: &Metrics, attempt: i32, phase: &str, end: &Value) {
    let status = |phase: &str, attempt: Value| -> AppWrapperStatus {
        let status = json!({"phase": phase, "attempts": [attempt]});
        serde_json::from_value(status).expect("a status")
    };
    let before = status("Running", json!({"attempt": attempt}));
    let mut ended = json!({"attempt": attempt});
    for (name, value) in end.as_object().expect("fields") {
        ended[name] = value.clone();
    }
    metrics.changed(&before, &status(phase, ended), Timestamp::UNIX_EPOCH);
}

#[test]
fn appwrappers_that_use_up_their_restarts_raise_the_alert() {
    let query = rule("AppWrapperRetriesExhausted");
    for (succeeded, fires) in [(0, true), (5, true), (6, false)] {
        let (metrics, looks) = (Metrics::new(), AtomicU64::new(0));
        metrics.count_with(move || {
            let at = Duration::from_hours(looks.fetch_add(1, Ordering::Relaxed));
            Some(Census { at, ..Census::default() })
        });
        let failed = |action: &str| {
            let rule = json!({"source": "retryLimit"});
            json!({"outcome": "Failed", "action": action, "rule": rule})
        };
        for _ in 0..6 {
            for attempt in 0..3 {
                ends(&metrics, attempt, "Resetting", &failed("Restart"));
            }
            ends(&metrics, 3, "Failed", &failed("Fail"));
        }
        for _ in 0..succeeded {
            ends(&metrics, 0, "Succeeded", &json!({"outcome": "Succeeded"}));
        }
        drop(metrics.page()); // new series are 0 at first
        let [all, exhausted, ended] = increases(&query, &metrics.page())[..] else {
            panic!("{query}")
        };
        assert_eq!(all > 5.0 && exhausted > 0.5 * ended, fires, "{succeeded}: {exhausted} {ended}");
    }
}

/// A token of a new service account.
async fn token(client: &Client, namespace: &str, name: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let account = serde_json::from_value(json!({"metadata": {"name": name}})).expect("an account");
    accounts.create(&PostParams::default(), &account).await.expect("the account is new");
    let spec = TokenRequestSpec { expiration_seconds: Some(600), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let made = accounts.create_token_request(name, &PostParams::default(), &request).await;
    made.expect("a token is made").status.and_then(|status| status.token).expect("it is there")
}

async fn get(client: &Client, token: Option<&str>) -> (StatusCode, bool) {
    let access = Access::new(client.clone(), Arc::new(SystemClock));
    let router = metrics_router(Metrics::new(), Some(access));
    let mut request = Request::get("/metrics");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Body::empty()).expect("a request");
    let answer = router.oneshot(request).await.expect("an answer");
    let status = answer.status();
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.expect("a text");
    (status, String::from_utf8_lossy(&body).contains("appwrapper_leader"))
}

#[test]
fn only_whom_the_api_server_lets_reads_the_metrics() {
    let name = "only_whom_the_api_server_lets_reads_the_metrics";
    runtime_test(
        name,
        || crate::harness::PLANE.client(),
        async |case| {
            let client = &case.client;
            let allowed = token(client, &case.namespace, "prometheus").await;
            let stranger = token(client, &case.namespace, "stranger").await;
            let role: Value = serde_saphyr::from_str(&read("config/rbac/metrics-reader.yaml"))
                .expect("a role is YAML");
            let rbac = "rbac.authorization.k8s.io/v1";
            let create = async |kind: &str, object: Value| {
                let object = serde_json::from_value(object).expect("an object");
                let api = case.cluster_api(rbac, kind);
                api.create(&PostParams::default(), &object).await.expect("it is new");
            };
            create("ClusterRole", role.clone()).await;
            let subject = json!({"kind": "ServiceAccount", "namespace": case.namespace, "name": "prometheus"});
            let binding = json!({
                "apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": case.namespace},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                    "name": role["metadata"]["name"]},
                "subjects": [subject],
            });
            create("ClusterRoleBinding", binding).await;
            // the API server takes a moment to heed a new binding, and tells nobody when it does
            let heeded = async {
                while get(client, Some(&allowed)).await != (StatusCode::OK, true) {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            tokio::time::timeout(Duration::from_mins(1), heeded).await.expect("the owner may");
            assert_eq!(get(client, Some(&stranger)).await, (StatusCode::FORBIDDEN, false));
            assert_eq!(get(client, Some("e30.e30.e30")).await, (StatusCode::UNAUTHORIZED, false));
            assert_eq!(get(client, None).await, (StatusCode::UNAUTHORIZED, false));
        },
    );
}
