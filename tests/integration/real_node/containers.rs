//! Containers that fail, each in its own way: the categories of a failure that a pod alone can show.

use serde_json::{Value, json};

use super::lane::on_real_node;
use super::page::{
    Row, all, job, on_the_page, once, pod, said, shell, template, told, with_image, wrote,
};
use crate::harness::{Case, Log};

/// Uses memory until there is none.
const EAT: &str = "tail /dev/zero";

fn limited(script: &str, resource: &str, limit: &str) -> Value {
    let mut template = shell(script);
    let container = &mut template["spec"]["containers"][0];
    container["resources"] = json!({"limits": {resource: limit}});
    template
}

fn with(mut template: Value, field: &str, value: Value) -> Value {
    template["spec"][field] = value;
    template
}

fn container_with(mut template: Value, field: &str, value: Value) -> Value {
    template["spec"]["containers"][0][field] = value;
    template
}

fn row(name: &'static str, done: &'static str, template: Value) -> Row {
    Row { name, done, template, bare: false }
}

/// How containers end by themselves.
fn codes() -> Vec<Row> {
    let two = json!([
        with_image(json!({"name": "main", "command": ["sh", "-c", "exit 3"]})),
        with_image(json!({"name": "other", "command": ["sleep", "3"]})),
    ]);
    let init = |script: &str| {
        json!([with_image(json!({"name": "init", "command": ["sh", "-c", script]}))])
    };
    let sidecar = json!([with_image(json!({"name": "sidecar", "restartPolicy": "Always",
        "command": ["sleep", "1000"]}))]);
    let flaky = "if [ -e /data/seen ]; then exit 0; fi; touch /data/seen; exit 4";
    let flaky = container_with(
        shell(flaky),
        "volumeMounts",
        json!([{"name": "data", "mountPath": "/data"}]),
    );
    let flaky = with(flaky, "volumes", json!([{"name": "data", "emptyDir": {}}]));
    vec![
        row("code", "exits with 3", shell("exit 3")),
        row(
            "signal",
            "a child dies of SIGSEGV, and its shell exits with the code of that",
            shell("sleep 1000 & kill -SEGV $!; wait $!; exit $?"),
        ),
        row("two", "one of two containers exits with 3", with(shell(""), "containers", two)),
        row(
            "init",
            "an init container exits with 5",
            with(shell("true"), "initContainers", init("exit 5")),
        ),
        row(
            "sidecar",
            "exits with 3 beside a sidecar",
            with(shell("exit 3"), "initContainers", sidecar.clone()),
        ),
        row(
            "sidecar-ok",
            "exits with 0 beside a sidecar",
            with(shell("true"), "initContainers", sidecar),
        ),
        Row {
            bare: true,
            ..row(
                "on-failure",
                "`restartPolicy: OnFailure`: exits with 4, then with 0",
                with(flaky, "restartPolicy", json!("OnFailure")),
            )
        },
        row(
            "no-command",
            "its command does not exist",
            template(json!({"name": "main", "command": ["/none"]})),
        ),
    ]
}

/// What the kubelet does about containers that do not do well.
fn probes() -> Vec<Row> {
    vec![
        row(
            "liveness",
            "its liveness probe fails",
            container_with(
                shell("sleep 1000"),
                "livenessProbe",
                json!({
                "exec": {"command": ["sh", "-c", "exit 1"]}, "periodSeconds": 1, "failureThreshold": 1}),
            ),
        ),
        row(
            "startup",
            "its startup probe fails",
            container_with(
                shell("sleep 1000"),
                "startupProbe",
                json!({
                "exec": {"command": ["sh", "-c", "exit 1"]}, "periodSeconds": 1, "failureThreshold": 1}),
            ),
        ),
    ]
}

/// What the kernel and the kubelet do about a container that uses too much.
fn limits() -> Vec<Row> {
    let volume = shell("dd if=/dev/zero of=/data/x bs=1M count=20; sleep 1000");
    let volume =
        container_with(volume, "volumeMounts", json!([{"name": "data", "mountPath": "/data"}]));
    let volume =
        with(volume, "volumes", json!([{"name": "data", "emptyDir": {"sizeLimit": "4Mi"}}]));
    let write = "dd if=/dev/zero of=/tmp/x bs=1M count=20; sleep 1000";
    vec![
        row(
            "oom",
            "uses more memory than its limit",
            limited(&format!("exec {EAT}"), "memory", "64Mi"),
        ),
        row(
            "oom-child",
            "a child uses more memory than the limit; its shell then exits with 1",
            limited(&format!("{EAT}; exit 1"), "memory", "64Mi"),
        ),
        row("volume", "writes more into an emptyDir than its `sizeLimit`", volume),
        row(
            "storage",
            "writes more than its limit of ephemeral storage",
            limited(write, "ephemeral-storage", "4Mi"),
        ),
        row(
            "deadline",
            "runs for longer than `activeDeadlineSeconds` of the pod",
            with(shell("sleep 1000"), "activeDeadlineSeconds", json!(2)),
        ),
    ]
}

/// Pods of which no container runs.
fn waiting() -> Vec<Row> {
    let image = |image: &str, policy: &str| {
        template(json!({"name": "main", "image": image, "imagePullPolicy": policy}))
    };
    let from = json!([{"configMapRef": {"name": "missing"}}]);
    let elsewhere = json!({"kubernetes.io/hostname": "none"});
    vec![
        row(
            "no-image",
            "its image is not on the node, `imagePullPolicy: Never`",
            image("test/none:1", "Never"),
        ),
        row(
            "no-registry",
            "nothing listens where its image should be",
            image("127.0.0.1:1/none:1", "Always"),
        ),
        row("image-name", "the name of its image is malformed", image("test/NONE:1", "Always")),
        row(
            "no-config",
            "its ConfigMap does not exist",
            container_with(shell("true"), "envFrom", from),
        ),
        row(
            "nowhere",
            "no node has the label that it selects",
            with(shell("true"), "nodeSelector", elsewhere),
        ),
        row(
            "refused",
            "is for Windows, so that its node refuses it",
            with(shell("true"), "os", json!({"name": "windows"})),
        ),
    ]
}

async fn seen(case: Case, rows: Vec<Row>) {
    for row in &rows {
        row.create(&case).await;
    }
    let mut checked = vec![];
    for row in &rows {
        checked.push(row.check(&case).await);
    }
    all(checked);
}

#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn containers_end_with_codes() {
    on_real_node("containers_end_with_codes", async |case, _| {
        seen(case, codes().into_iter().chain(probes()).collect()).await;
    });
}

#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn limits_are_enforced() {
    on_real_node("limits_are_enforced", async |case, _| seen(case, limits()).await);
}

#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn pods_that_never_run_are_told() {
    on_real_node("pods_that_never_run_are_told", async |case, _| {
        let rows = waiting();
        for row in &rows {
            row.create(&case).await;
        }
        for row in &rows {
            row.give_up(&case).await;
        }
        let mut checked = vec![];
        for row in &rows {
            checked.push(row.check(&case).await);
        }
        all(checked);
    });
}

/// Its phase is Running all the time, and that is what counts.
#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn a_pod_that_crashes_again_and_again_runs() {
    on_real_node("a_pod_that_crashes_again_and_again_runs", async |case, _| {
        let template = with(shell("exit 3"), "restartPolicy", json!("Always"));
        case.create(once("crash", &[], pod("crash", template))).await;
        let crashes = |log: &Log| {
            let last = log.last("Pod", "crash")?;
            let waiting = &last.object["status"]["containerStatuses"][0]["state"]["waiting"];
            (waiting["reason"] == "CrashLoopBackOff").then(|| last.clone())
        };
        let seen = case.until("it crashes again and again", crashes).await;
        let running = case.condition("crash", "PodsReady", "True").await;
        let wrote = told(&seen.object);
        let wrote = wrote.split(", restarts").next().unwrap_or_default();
        let done = "`restartPolicy: Always`: exits with 3 again and again";
        all([on_the_page(done, wrote, &said(&running.object))]);
    });
}

/// The message of a container has a line break at its end; nobody wants to see it, nor a pattern to meet it.
#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn a_message_is_told_without_its_last_line_break() {
    on_real_node("a_message_is_told_without_its_last_line_break", async |case, _| {
        let template = shell("echo 'CUDA error' >/dev/termination-log; exit 3");
        let mut wrapper = once("message", &[("retryLimit", "1")], job("message", template));
        wrapper["metadata"]["annotations"]["workload.codeflare.dev.appwrapper/retryPolicies"] =
            json!("real-node-message");
        case.create(json!({
            "apiVersion": "workload.codeflare.dev/v1alpha1", "kind": "RetryPolicy",
            "metadata": {"name": "real-node-message"},
            "spec": {"defaultAction": "Retry", "rules": [
                {"name": "cuda", "action": "Fail", "onTerminationMessage": {"pattern": "^CUDA error$"}}]},
        }))
        .await;
        case.create(wrapper).await;
        let failed = case.phase("message", "Failed").await;
        let attempt = &failed.object["status"]["attempts"][0];
        assert_eq!(attempt["failure"]["message"], "CUDA error", "{attempt}");
        assert_eq!(attempt["rule"]["name"], "cuda", "{attempt}");
    });
}

/// The kernel kills the child, and the shell goes on: the pod has the reason of a failure and is none.
#[test]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
fn a_container_whose_child_is_out_of_memory_may_succeed() {
    on_real_node("a_container_whose_child_is_out_of_memory_may_succeed", async |case, _| {
        let one_group = std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let template = limited(&format!("{EAT}; exit 0"), "memory", "64Mi");
        case.create(once("child", &[], job("child", template))).await;
        let ended = |log: &Log| {
            let last = log.last("AppWrapper", "child")?;
            ["Failed", "Succeeded"].contains(&last.phase()).then(|| last.clone())
        };
        let ended = case.until("it ends", ended).await;
        if one_group {
            // all of the container is killed
            assert_eq!(said(&ended.object), "`oom`: OOMKilled, main 137");
            return;
        }
        let done =
            "a child uses more memory than the limit; its shell then exits with 0 (cgroup v1)";
        all([on_the_page(done, &wrote(&case.log(), "child"), &said(&ended.object))]);
    });
}
