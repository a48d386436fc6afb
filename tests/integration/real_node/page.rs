//! The page with what was seen, and how it is told there.

use serde_json::{Value, json};

use super::lane::{IMAGE, NODE};
use crate::harness::{Case, Log, RawObject, tuned, wrapper};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/dev/real-node.md");

/// One AppWrapper, and what the page says of it.
pub struct Row {
    /// Its name, and that of its only component.
    pub name: &'static str,
    /// What is done to its pod, as the page has it.
    pub done: &'static str,
    /// Its pod template.
    pub template: Value,
    /// Its component is a Pod, and not a Job.
    pub bare: bool,
}

/// A pod template with one container, which runs a script of the shell.
pub fn shell(script: &str) -> Value {
    template(json!({"name": "main", "command": ["sh", "-c", script]}))
}

/// A pod template with one container, on the node of all.
pub fn template(container: Value) -> Value {
    json!({"metadata": {}, "spec": {
        "restartPolicy": "Never",
        "hostNetwork": true,
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"kubernetes.io/hostname": NODE},
        "containers": [with_image(container)],
    }})
}

/// A container with the image of all, where it has none.
pub fn with_image(mut container: Value) -> Value {
    if container["image"].is_null() {
        container["image"] = json!(IMAGE);
        container["imagePullPolicy"] = json!("Never");
    }
    container
}

/// A Job around a pod template.
pub fn job(name: &str, template: Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": template}})
}

/// A Pod of a pod template.
pub fn pod(name: &str, mut template: Value) -> Value {
    template["apiVersion"] = json!("v1");
    template["kind"] = json!("Pod");
    template["metadata"]["name"] = json!(name);
    template
}

/// An AppWrapper around a component, which fails at its first failure.
pub fn once(name: &str, settings: &[(&str, &str)], component: Value) -> Value {
    let defaults = [("retryLimit", "0"), ("failureGracePeriodDuration", "1s")];
    let own = |key: &str| settings.iter().any(|(other, _)| *other == key);
    let defaults = defaults.into_iter().filter(|(key, _)| !own(key));
    let settings: Vec<_> = defaults.chain(settings.iter().copied()).collect();
    wrapper(name, tuned(&settings), vec![component])
}

impl Row {
    /// Creates it.
    pub async fn create(&self, case: &Case) {
        let around = if self.bare { pod } else { job };
        let component = around(self.name, self.template.clone());
        case.create(once(self.name, &[], component)).await;
    }

    /// Waits until it is known why its pod does not run, and lets the AppWrapper wait no longer.
    pub async fn give_up(&self, case: &Case) {
        let known = |log: &Log| {
            let told = told(&states_of_first(log, self.name).last()?.object);
            (told != "Pending" && !told.ends_with("ContainerCreating")).then_some(())
        };
        case.until(&format!("why {} does not run", self.name), known).await;
        let soon = [("admissionGracePeriodDuration", "1s"), ("warmupGracePeriodDuration", "1s")];
        case.patch(self.name, json!({"metadata": {"annotations": tuned(&soon)}})).await;
    }

    /// Waits until it has ended, and compares it with the page.
    pub async fn check(&self, case: &Case) -> Result<(), String> {
        let ended = |log: &Log| {
            let last = log.last("AppWrapper", self.name)?;
            ["Failed", "Succeeded"].contains(&last.phase()).then(|| last.clone())
        };
        let ended = case.until(&format!("{} ends", self.name), ended).await;
        on_the_page(self.done, &wrote(&case.log(), self.name), &said(&ended.object))
    }
}

/// Checks rows, and names all that differ.
pub fn all(checked: impl IntoIterator<Item = Result<(), String>>) {
    let wrong: Vec<String> = checked.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{PAGE} does not have:\n{}", wrong.join("\n"));
}

/// Whether the page has a row; the row where it has not.
pub fn on_the_page(done: &str, wrote: &str, said: &str) -> Result<(), String> {
    let line = format!("| {done} | {wrote} | {said} |");
    let page = std::fs::read_to_string(PAGE).expect("the page");
    if page.lines().any(|other| other == line) { Ok(()) } else { Err(line) }
}

/// What the kubelet wrote last of the first pod of an AppWrapper, before anything deleted it.
pub fn wrote(log: &Log, name: &str) -> String {
    let states = states_of_first(log, name);
    let last = states.iter().rev().find(|it| it.object["metadata"]["deletionTimestamp"].is_null());
    last.map_or_else(|| "no pod".to_owned(), |it| told(&it.object))
}

/// What the kubelet wrote last of the first pod of an AppWrapper, which something deleted.
pub fn wrote_at_last(log: &Log, name: &str) -> String {
    let states = states_of_first(log, name);
    states.last().map_or_else(|| "no pod".to_owned(), |it| told(&it.object))
}

fn states_of_first<'a>(log: &'a Log, name: &str) -> Vec<&'a RawObject> {
    let label = "/metadata/labels/workload.codeflare.dev~1appwrapper";
    let first = log.all("Pod").find(|it| it.object.pointer(label) == Some(&json!(name)));
    let of_first =
        |it: &&RawObject| first.is_some_and(|first| first.uid() == it.uid()) && !it.deleted;
    log.all("Pod").filter(of_first).collect()
}

/// Phase, reasons and containers of a pod.
pub fn told(pod: &Value) -> String {
    let status = &pod["status"];
    let mut text = status["phase"].as_str().unwrap_or_default().to_owned();
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let telling = [("DisruptionTarget", "True"), ("PodScheduled", "False")];
        if telling
            .iter()
            .any(|(kind, is)| condition["type"] == **kind && condition["status"] == **is)
        {
            text += &format!(", {}", condition["reason"].as_str().unwrap_or_default());
        }
    }
    if let Some(reason) = status["reason"].as_str() {
        text += &format!(", {reason}");
    }
    if status["reason"] == "Evicted" {
        // it writes so before it has seen the containers end, or after
        return text;
    }
    for list in ["initContainerStatuses", "containerStatuses"] {
        for container in status[list].as_array().into_iter().flatten() {
            text += &format!("; {}", of_container(container));
        }
    }
    text
}

fn of_container(container: &Value) -> String {
    let name = container["name"].as_str().unwrap_or_default();
    let state = &container["state"];
    let reason = |state: &Value| state["reason"].as_str().unwrap_or_default().to_owned();
    let mut text = if state["terminated"].is_object() {
        let end = &state["terminated"];
        format!("{name} {} {}", end["exitCode"], reason(end))
    } else if state["waiting"].is_object() {
        // it goes from one to the other and back
        format!("{name} {}", reason(&state["waiting"]).replace("ErrImagePull", "ImagePullBackOff"))
    } else {
        format!("{name} runs")
    };
    if let Some(count) = container["restartCount"].as_i64().filter(|count| *count > 0) {
        text += &format!(", restarts {count}");
    }
    text
}

/// What the controller said of the end of the first attempt.
pub fn said(wrapper: &Value) -> String {
    let phase = wrapper["status"]["phase"].as_str().unwrap_or_default();
    let failure = &wrapper["status"]["attempts"][0]["failure"];
    if failure.is_null() {
        return phase.to_owned();
    }
    let text = |key: &str| failure[key].as_str().unwrap_or_default().to_owned();
    let mut told = match failure["category"].as_str() {
        Some(category) => format!("`{category}`: {}", text("reason")),
        None => text("reason"),
    };
    if let Some(code) = failure["exitCode"].as_i64().filter(|_| failure["reason"] != "Evicted") {
        told += &format!(", {} {code}", text("container"));
    }
    told.replace("ErrImagePull", "ImagePullBackOff")
}
