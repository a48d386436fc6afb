//! The product as it is installed: `config/default`, applied by kubectl, and the program run with exactly
//! the rights of its ServiceAccount.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use controlplane::{ControlPlane, Options, Tool};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::harness::{Case, SETTINGS, own_crds, runtime, runtime_test, start_plane};

/// The namespace of the manifests.
pub const NAMESPACE: &str = "appwrapper-system";
/// The ServiceAccount of the manifests.
pub const ACCOUNT: &str = "appwrapper-controller";

/// A control plane on which the product is installed, with Kueue; its audit log is kept.
pub static INSTALLED: LazyLock<Installed> = LazyLock::new(|| {
    let options = Options {
        jobset: true,
        training: true,
        ray: true,
        kueue: true,
        audit: true,
        // Kueue would release the quota of what is being deleted while its pods still end
        kueue_config: json!({"featureGates": {"FinishOrphanedWorkloads": false}}),
        ..own_crds()
    };
    Installed::on(start_plane(options), SETTINGS)
});

/// A control plane and the program that runs on it.
pub struct Installed {
    pub plane: ControlPlane,
    settings: Value,
    folder: PathBuf,
    webhook: u16,
    metrics: u16,
    progress: u16,
    /// The process of the program.
    pub process: u32,
}

/// A running program.
pub struct Program {
    child: Child,
    /// What it says.
    log: PathBuf,
}

/// The program that is tested: that of the same build, or the one of `APPWRAPPER_TESTS_PROGRAM`.
pub fn program() -> PathBuf {
    let other = std::env::var_os("APPWRAPPER_TESTS_PROGRAM");
    other.map_or_else(|| env!("CARGO_BIN_EXE_appwrapper").into(), PathBuf::from)
}

impl Installed {
    /// Installs the manifests and starts the program, which runs until the tests end.
    pub fn on(plane: ControlPlane, settings: &str) -> Self {
        let folder = plane.state_dir().join("installed");
        fs::create_dir_all(&folder).expect("a folder");
        let settings = serde_saphyr::from_str(settings).expect("settings");
        let [webhook, metrics, progress] = [(); 3].map(|()| free_port());
        let mut installed =
            Self { plane, settings, folder, webhook, metrics, progress, process: 0 };
        let documents = on_loopback(&built(&["default", "history", "logs", "progress"]), webhook);
        let documents: Vec<String> = documents.iter().map(Value::to_string).collect();
        let manifests = format!("---\n{}\n", documents.join("\n---\n"));
        let applied = kubectl(
            installed.plane.kubeconfig(),
            &["apply", "--server-side", "--force-conflicts", "-f", "-"],
            manifests.as_bytes(),
        );
        applied.expect("the manifests are accepted");
        let mut program = installed.start("first");
        installed.process = program.child.id();
        program.until_ready(&installed);
        // It ends soon after the control plane, which ends with the tests: its Lease is lost then.
        installed
    }

    /// Starts a program with the rights of the ServiceAccount.
    fn start(&self, name: &str) -> Program {
        let (health, metrics) = (free_port(), self.metrics);
        let mut settings = self.settings.clone();
        settings["webhook"] = json!({"address": format!("127.0.0.1:{}", self.webhook)});
        let progress = format!("127.0.0.1:{}", self.progress);
        settings["progressServer"] =
            json!({"enabled": true, "address": progress, "url": format!("https://{progress}")});
        settings["failureLogs"] = json!({"enabled": true, "redact": ["secret=\\S+"]});
        settings["history"] = json!({"enabled": true});
        settings["health"] = json!({"address": format!("127.0.0.1:{health}")});
        settings["metrics"] = json!({"address": format!("127.0.0.1:{metrics}")});
        let file = |end: &str| self.folder.join(format!("{name}{end}"));
        fs::write(file(".yaml"), settings.to_string()).expect("it is written");
        fs::write(file(".kubeconfig"), self.kubeconfig()).expect("it is written");
        let log = File::create(file(".log")).expect("a log");
        let child = Command::new(program())
            .arg("run")
            .arg("--log-json")
            .arg("--config")
            .arg(file(".yaml"))
            .arg("--kubeconfig")
            .arg(file(".kubeconfig"))
            .stderr(log)
            .spawn()
            .expect("the program starts");
        Program { child, log: file(".log") }
    }

    /// A kubeconfig with a token of the ServiceAccount, and nothing else.
    fn kubeconfig(&self) -> String {
        let plane = &self.plane;
        let asked = std::thread::scope(|scope| {
            let asking =
                || runtime().block_on(async { token(plane.client(), NAMESPACE, ACCOUNT).await });
            scope.spawn(asking).join().expect("the thread ends")
        });
        let text = fs::read_to_string(self.plane.kubeconfig()).expect("it can be read");
        let mut config: Value = serde_saphyr::from_str(&text).expect("YAML");
        config["users"][0]["user"] = json!({"token": asked});
        config["contexts"][0]["context"]["namespace"] = json!(NAMESPACE);
        config.to_string()
    }

    /// A line of the program's status, such as `VmRSS:`, in KiB.
    pub fn memory(&self, field: &str) -> u64 {
        let path = format!("/proc/{}/status", self.process);
        let status = fs::read_to_string(path).expect("the program runs, on Linux");
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
        line.trim_matches(|c: char| !c.is_ascii_digit()).parse().expect("a number")
    }

    /// What `/metrics` says to somebody who may read it.
    pub async fn page(&self) -> String {
        let bindings: Api<ClusterRoleBinding> = Api::all(self.plane.client());
        let binding = json!({
            "metadata": {"name": "scraper"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "appwrapper-metrics-reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": "default"}],
        });
        let binding = serde_json::from_value(binding).expect("a binding");
        // it may be there
        drop(bindings.create(&PostParams::default(), &binding).await);
        // the API server takes a moment to heed a new binding, and tells nobody when it does
        let heeded = async {
            loop {
                if let Ok(page) = self.scrape("default", "scraper").await {
                    return page;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), heeded).await.expect("the owner may")
    }

    /// What `/metrics` says to a ServiceAccount, which is made where it is not there.
    pub async fn scrape(&self, namespace: &str, account: &str) -> Result<String, kube::Error> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.plane.client(), namespace);
        let object = json!({"metadata": {"name": account}});
        let object = serde_json::from_value(object).expect("an account");
        // it may be there
        drop(accounts.create(&PostParams::default(), &object).await);
        let address = format!("https://127.0.0.1:{}", self.metrics);
        let mut config = kube::Config::new(address.parse().expect("an address"));
        config.accept_invalid_certs = true;
        config.default_retry = false;
        config.auth_info.token = Some(token(self.plane.client(), namespace, account).await.into());
        let request = http::Request::get("/metrics").body(vec![]).expect("a request");
        kube::Client::try_from(config)?.request_text(request).await
    }
}

/// A token of a ServiceAccount.
pub async fn token(client: kube::Client, namespace: &str, account: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, namespace);
    let spec = Some(TokenRequestSpec::default());
    let request = TokenRequest { spec, ..Default::default() };
    let asked = accounts.create_token_request(account, &PostParams::default(), &request).await;
    asked.expect("a token").status.and_then(|status| status.token).expect("a token")
}

impl Program {
    /// Waits until the webhook answers, by asking it as anybody would.
    fn until_ready(&mut self, installed: &Installed) {
        until_the_webhook_answers(installed.plane.kubeconfig(), || {
            let ended = self.child.try_wait().expect("it can be asked");
            assert!(ended.is_none(), "it has ended: {}", self.said());
            self.said()
        });
    }

    /// What the program has said.
    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// The manifests of these directories of `config/`.
pub fn built(directories: &[&str]) -> String {
    let built = directories.iter().map(|name| {
        let folder = format!("{}/config/{name}", env!("CARGO_MANIFEST_DIR"));
        let kustomize = ["kustomize", folder.as_str()];
        kubectl(Path::new(""), &kustomize, &[]).expect("the manifests fit together")
    });
    built.collect::<Vec<_>>().join("---\n")
}

/// The manifests with the webhook on loopback: there are no services here.
pub fn on_loopback(manifests: &str, webhook: u16) -> Vec<Value> {
    let yaml = serde_saphyr::options! { strict_booleans: true };
    let mut documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(manifests, yaml).expect("YAML");
    for document in &mut documents {
        let webhooks = document.get_mut("webhooks").and_then(Value::as_array_mut);
        for one in webhooks.into_iter().flatten() {
            let client = &mut one["clientConfig"];
            let path = client["service"]["path"].as_str().expect("a path").to_owned();
            *client = json!({"url": format!("https://127.0.0.1:{webhook}{path}")});
        }
    }
    documents
}

/// Waits until the webhook answers, by asking it as anybody would; `said` is what its server says meanwhile.
pub fn until_the_webhook_answers(kubeconfig: &Path, mut said: impl FnMut() -> String) {
    let probe = r#"{"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {"name": "probe", "namespace": "default"}, "spec": {"components": []}}"#;
    let arguments = ["create", "--dry-run=server", "-f", "-"];
    let mut last = String::new();
    for _ in 0..600 {
        let answer = kubectl(kubeconfig, &arguments, probe.as_bytes());
        if answer.as_ref().is_err_and(|answer| !answer.contains("failed calling webhook")) {
            return;
        }
        last = said();
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the webhook never answered: {last}");
}

/// A port on loopback that nobody uses now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Runs kubectl; what it said, on standard error where it failed.
pub fn kubectl(kubeconfig: &Path, arguments: &[&str], input: &[u8]) -> Result<String, String> {
    static KUBECTL: LazyLock<PathBuf> =
        LazyLock::new(|| controlplane::build::tool(Tool::Kubectl).expect("kubectl is built"));
    let mut child = Command::new(&*KUBECTL)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    let mut stdin = child.stdin.take().expect("it reads");
    let input = input.to_owned();
    let writing = std::thread::spawn(move || {
        // it may refuse before it has read everything
        drop(stdin.write_all(&input));
    });
    let output = child.wait_with_output().expect("kubectl ends");
    writing.join().expect("the thread ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        // warnings are said besides
        Ok(text(&output.stdout) + &text(&output.stderr))
    } else {
        Err(text(&output.stderr))
    }
}

/// Runs a test in a namespace of its own where the product is installed.
pub fn installed_test<F: Future<Output = ()>>(name: &str, body: impl FnOnce(Case) -> F) {
    runtime_test(name, || INSTALLED.plane.client(), body);
}
