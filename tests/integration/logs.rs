//! What the controller logs, and what it never does.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use appwrapper::clock::{Clock, SystemClock};
use appwrapper::controller::Controller;
use appwrapper::sim::{Address, ApiServer, Part, Store};
use appwrapper::telemetry;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;

use crate::harness::{config, pod, tuned, wrapper};

/// What was written, line by line.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(bytes.clone()).expect("logs are text")
    }
}

/// Runs an AppWrapper whose pod fails for good, and returns what was logged. All on one thread, since
/// logging is set up for this one alone.
fn logged(filter: &str, json: bool, secret: &str) -> String {
    let lines = Lines::default();
    let sink = lines.clone();
    let filter = EnvFilter::new(filter);
    let subscriber = telemetry::subscriber(json, filter, false, move || sink.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let mut store = Store::new(SystemClock.now());
        for definition in appwrapper::crd::all() {
            store.kinds.define(&serde_json::to_value(definition).expect("JSON"));
        }
        let server = ApiServer::new(store);
        let controller = Controller::new(server.client(), Arc::new(SystemClock), config());
        let running = tokio::spawn(controller.run(std::future::pending()));
        fail_for_good(&server, secret).await;
        running.abort();
    });
    lines.text()
}

async fn fail_for_good(server: &ApiServer, secret: &str) {
    let api = |api_version: &str, kind: &str| -> Api<DynamicObject> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(server.client(), "default", &resource)
    };
    let mut template = pod("p", &[("note", secret)]);
    template["spec"]["containers"][0]["env"] = json!([{"name": "TOKEN", "value": secret}]);
    let object = wrapper(
        "aw",
        tuned(&[("retryLimit", "0"), ("failureGracePeriodDuration", "0s")]),
        vec![template],
    );
    let object: DynamicObject = serde_json::from_value(object).expect("an AppWrapper");
    let wrappers = api("workload.codeflare.dev/v1beta2", "AppWrapper");
    wrappers.create(&PostParams::default(), &object).await.expect("it is accepted");
    let exists = |object: Option<&DynamicObject>| object.is_some();
    await_condition(api("v1", "Pod"), "p", exists).await.expect("the watch goes on");
    let ended = SystemClock.now().to_string();
    let terminated = json!({"exitCode": 3, "message": secret, "finishedAt": ended});
    let status = json!({
        "phase": "Failed",
        "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}],
    });
    server.with(|store| {
        let kind = store.kinds.by_name("v1", "Pod").expect("it is served");
        let address = Address::new(kind, "default", "p");
        let written = store.change(&address, Part::Status, |pod| pod["status"] = status);
        written.expect("the pod is there");
    });
    let released = |object: Option<&DynamicObject>| {
        let conditions = object.and_then(|object| object.data["status"]["conditions"].as_array());
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "QuotaReserved" && condition["status"] == "False")
    };
    await_condition(wrappers, "aw", released).await.expect("the watch goes on");
}

const SECRET: &str = "correct-horse-battery-staple";

#[test]
fn a_line_names_its_appwrapper_and_info_tells_changes_alone() {
    let text = logged(telemetry::DEFAULT_FILTER, true, SECRET);
    let mut changes = vec![];
    let mut decided = vec![];
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        if line["level"] != "INFO" {
            continue;
        }
        let span = &line["span"];
        assert_eq!((&span["namespace"], &span["appwrapper"]), (&json!("default"), &json!("aw")));
        assert!(span["uid"].is_string() && span["phase"].is_string(), "{line}");
        match line["message"].as_str() {
            Some("Phase changed.") => changes.push(line["to"].clone()),
            Some("Failure handled.") => decided.push(line.clone()),
            _ => panic!("no change: {line}"),
        }
    }
    assert_eq!(changes, ["Resuming", "Running", "Failed"], "{text}");
    assert_eq!(decided.len(), 1, "{text}");
    let facts = ["action", "pod", "container", "exit_code", "category"];
    let facts = facts.map(|fact| decided[0][fact].clone());
    assert_eq!(facts, [json!("Fail"), json!("p"), json!("main"), json!(3), json!("application")]);
}

#[test]
fn templates_and_last_words_are_never_logged() {
    let text = logged("debug,appwrapper=trace", false, SECRET);
    assert!(text.contains("Phase changed."), "{text}");
    assert!(text.contains("namespace=\"default\" appwrapper=\"aw\""), "{text}");
    let leaks: Vec<&str> = text.lines().filter(|line| line.contains(SECRET)).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}
