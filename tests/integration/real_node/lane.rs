//! A control plane with a real node, and the product on it: its image, as the Deployment of the manifests.

use std::io::Write;
use std::net::TcpListener;
use std::sync::{LazyLock, PoisonError, RwLock};
use std::time::Duration;

use controlplane::{ControlPlane, Image, NodeOptions, Options, RealNode};
use serde_json::{Value, json};

use crate::harness::{Case, own_crds, runtime, runtime_test};
use crate::installed::{
    NAMESPACE, built, kubectl, on_loopback, program, until_the_webhook_answers,
};

/// The node of the product, and of every pod that asks for no other.
pub const NODE: &str = "real-0";
/// The image of pods: busybox, and curl.
pub const IMAGE: &str = "test/busybox:1";
/// Says that a machine without a node is a failure: `required`.
const VARIABLE: &str = "APPWRAPPER_TESTS_REAL_NODE";

static LANE: LazyLock<Option<Lane>> = LazyLock::new(|| {
    let Some(obstacle) = RealNode::obstacle() else {
        return Some(Lane::start());
    };
    let required = std::env::var_os(VARIABLE).is_some_and(|value| value == "required");
    assert!(!required, "no real node here: {obstacle}");
    None
});

/// A control plane, and the node with the product.
pub struct Lane {
    pub plane: ControlPlane,
    pub node: RealNode,
}

/// Held by every test; alone by one that kills the product, without which nothing can be created.
static PRODUCT: RwLock<()> = RwLock::new(());

/// Runs a test in a namespace of its own, where the product runs on a real node.
pub fn on_real_node<F: Future<Output = ()>>(
    name: &str,
    body: impl FnOnce(Case, &'static Lane) -> F,
) {
    let Some(lane) = lane(name) else { return };
    let _shared = PRODUCT.read().unwrap_or_else(PoisonError::into_inner);
    runtime_test(name, || lane.plane.client(), |case| body(case, lane));
}

/// The same, while no other of these tests runs.
pub fn alone_on_real_node<F: Future<Output = ()>>(
    name: &str,
    body: impl FnOnce(Case, &'static Lane) -> F,
) {
    let Some(lane) = lane(name) else { return };
    let _alone = PRODUCT.write().unwrap_or_else(PoisonError::into_inner);
    runtime_test(name, || lane.plane.client(), |case| body(case, lane));
}

/// What runs until the tests end; where there can be no node, says so.
fn lane(test: &str) -> Option<&'static Lane> {
    if LANE.is_none() {
        let why = RealNode::obstacle().unwrap_or_default();
        // past the capture of the test harness
        let said = writeln!(std::io::stderr(), "{test} is skipped: no real node here: {why}");
        said.expect("standard error is there");
    }
    LANE.as_ref()
}

impl Lane {
    fn start() -> Self {
        let started = std::thread::spawn(|| {
            runtime().block_on(async {
                let options = Options { nodes: 0, service_accounts: true, ..own_crds() };
                let plane = ControlPlane::start(options).await.expect("the control plane starts");
                let node = node(&plane, NODE, None).await;
                Self { plane, node }
            })
        });
        let lane = started.join().expect("the thread ends");
        lane.install();
        lane
    }

    /// Applies the manifests, and waits until the program on the node leads and serves.
    fn install(&self) {
        let name = concat!("library/appwrapper:", env!("CARGO_PKG_VERSION"));
        let image = Image::new(name).program(program(), "/appwrapper");
        let image = image.user("65532:65532").entrypoint(&["/appwrapper"]);
        self.node.load(&image).expect("the image of the product is loaded");
        let [webhook, metrics, progress, health] = [(); 4].map(|()| free_port());
        let address = |port: u16| format!("127.0.0.1:{port}");
        let settings = json!({
            "faultTolerance": {"retryPausePeriod": "0s"},
            "nodeSuspicion": {"effect": "Off"},
            "admission": {"requireRequester": true},
            "webhook": {"address": address(webhook)},
            "metrics": {"address": address(metrics)},
            "health": {"address": address(health)},
            "progressServer": {"enabled": true, "address": address(progress),
                "url": format!("https://{}", address(progress))},
        });
        let ports =
            json!({"webhook": webhook, "metrics": metrics, "progress": progress, "health": health});
        let mut text = String::new();
        for mut document in on_loopback(&built(&["default", "progress"]), webhook) {
            match document["kind"].as_str() {
                // it asks for pods without the network of their node, which there is not
                Some("Namespace") => {
                    let enforce = "pod-security.kubernetes.io/enforce";
                    document["metadata"]["labels"][enforce] = json!("privileged");
                }
                Some("Deployment") => self.on_the_node(&mut document, &ports),
                Some("ConfigMap") if document["metadata"]["name"] == "appwrapper-config" => {
                    document["data"]["appwrapper.yaml"] = json!(settings.to_string());
                }
                Some(_) | None => {}
            }
            text += &format!("---\n{document}\n");
        }
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        kubectl(self.plane.kubeconfig(), &apply, text.as_bytes()).expect("they are accepted");
        until_the_webhook_answers(self.plane.kubeconfig(), || self.logs());
    }

    /// What differs from a cluster: one node, and no network but the machine's loopback.
    fn on_the_node(&self, deployment: &mut Value, ports: &Value) {
        deployment["spec"]["replicas"] = json!(1);
        // two of them cannot have the same ports
        deployment["spec"]["strategy"] = json!({"type": "Recreate"});
        let spec = &mut deployment["spec"]["template"]["spec"];
        spec["hostNetwork"] = json!(true);
        spec["nodeSelector"] = json!({"kubernetes.io/hostname": NODE});
        let api = self.plane.config().cluster_url;
        let container = &mut spec["containers"][0];
        container["env"] = json!([
            {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"},
            {"name": "KUBERNETES_SERVICE_PORT", "value": api.port_u16().expect("a port").to_string()},
        ]);
        for port in container["ports"].as_array_mut().expect("ports") {
            let name = port["name"].as_str().expect("a name").to_owned();
            port["containerPort"] = ports[&name].clone();
        }
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            container[probe]["httpGet"]["host"] = json!("127.0.0.1");
            container[probe]["periodSeconds"] = json!(1);
        }
        // a program that hangs does not heed SIGTERM
        container["livenessProbe"]["terminationGracePeriodSeconds"] = json!(1);
    }

    /// What the kubelet kept of the product's output.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        let pods =
            std::fs::read_dir(self.node.dir().join("log/pods")).into_iter().flatten().flatten();
        for pod in pods.filter(|pod| pod.file_name().to_string_lossy().starts_with(NAMESPACE)) {
            let logs =
                std::fs::read_dir(pod.path().join("controller")).into_iter().flatten().flatten();
            for log in logs {
                text += &std::fs::read_to_string(log.path()).unwrap_or_default();
            }
        }
        let kubelet =
            std::fs::read_to_string(self.node.dir().join("kubelet.log")).unwrap_or_default();
        let tail: Vec<&str> = kubelet.lines().rev().take(20).collect();
        text + &tail.join("\n")
    }
}

/// A node with the image of pods.
pub async fn node(plane: &ControlPlane, name: &str, memory_mib: Option<u64>) -> RealNode {
    let options = NodeOptions { name: name.to_owned(), memory_mib };
    let node = RealNode::start(plane, options).await.expect("the node gets ready");
    let applets = ["sh", "sleep", "cat", "dd", "tail", "touch", "rm", "true"];
    let image =
        Image::new(IMAGE).program("busybox", "/bin/busybox").called("/bin/busybox", &applets);
    node.load(&image.program("curl", "/bin/curl")).expect("the image is loaded");
    node
}

/// A port on loopback that nobody uses now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Waits until something is so that nobody tells of.
pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(2), wait)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"));
}
