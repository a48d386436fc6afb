//! The controller as a process of its own.

use std::fs::{self, OpenOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::failure::Failure;
use crate::options::Implementation;
use crate::site::{NAMESPACE, Site};

/// A second in the Go controller's settings.
const NANOS: u64 = 1_000_000_000;

/// How to start a controller.
#[derive(Clone, Debug)]
pub struct Program {
    implementation: Implementation,
    file: PathBuf,
    log: PathBuf,
    webhook: Option<u16>,
}

/// It runs, and is killed when it is stopped or when the runtime ends.
#[derive(Debug)]
pub struct Running {
    /// Its process.
    pub id: u32,
    /// The process is killed once this is dropped.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Program {
    /// Of a file that is there. `webhook` is the port of this controller's webhooks, if it is to serve some.
    pub fn new(
        implementation: Implementation,
        file: PathBuf,
        log: PathBuf,
        webhook: Option<u16>,
    ) -> Result<Self, Failure> {
        if file.is_file() {
            Ok(Self { implementation, file, log, webhook })
        } else {
            Err(Failure::NoProgram(file))
        }
    }

    /// What its user agent begins with.
    pub fn agent(&self) -> String {
        match self.implementation {
            Implementation::Controller => "appwrapper/".to_owned(),
            // client-go names the program's file
            Implementation::Other => {
                format!("{}/", self.file.file_name().unwrap_or_default().to_string_lossy())
            }
            Implementation::Floor => String::new(),
        }
    }

    /// Starts it. Once it ends by itself, `ended` is told.
    pub async fn start(
        &self,
        site: &Site,
        ended: mpsc::UnboundedSender<Failure>,
    ) -> Result<Running, Failure> {
        let mut command = Command::new(&self.file);
        command.env("KUBECONFIG", site.kubeconfig()).env("NAMESPACE", NAMESPACE);
        match self.implementation {
            Implementation::Other => configure_other(site).await?,
            Implementation::Controller | Implementation::Floor => {
                let settings = site.dir().join("load-settings.yaml");
                let text = self.settings()?.to_string();
                fs::write(&settings, text).map_err(Failure::io("write", &settings))?;
                command.args(["run", "--kubeconfig"]).arg(site.kubeconfig());
                command.arg("--config").arg(settings);
            }
        }
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.map_err(Failure::io("write", &self.log))?;
        let errors = log.try_clone().map_err(Failure::io("write", &self.log))?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors).kill_on_drop(true);
        // a Ctrl-C is this example's to handle
        command.process_group(0);
        let child = command.spawn().map_err(Failure::io("start", &self.file))?;
        let id = child.id().unwrap_or_default();
        let (stop, asked) = oneshot::channel();
        let task = tokio::spawn(look_after(child, asked, ended, self.log.clone()));
        Ok(Running { id, stop, task })
    }

    fn settings(&self) -> Result<Value, Failure> {
        let webhook = match self.webhook {
            Some(port) => json!({"address": format!("127.0.0.1:{port}")}),
            None => json!({"enabled": false}),
        };
        Ok(json!({
            "faultTolerance": {
                "failureGracePeriod": "0s", "retryPausePeriod": "1s", "retryLimit": 100,
                "admissionGracePeriod": "10m", "warmupGracePeriod": "10m",
            },
            "webhook": webhook,
            "leaderElection": {"enabled": false},
            "metrics": {"address": format!("127.0.0.1:{}", free_port()?), "secure": false},
            "health": {"address": format!("127.0.0.1:{}", free_port()?)},
        }))
    }
}

impl Running {
    /// Kills it, and waits until it is gone.
    pub async fn kill(self) {
        drop(self.stop);
        // an error would say that the runtime ends, and with it the process
        drop(self.task.await);
    }
}

/// Waits until a process ends, or kills it.
async fn look_after(
    mut child: Child,
    asked: oneshot::Receiver<()>,
    ended: mpsc::UnboundedSender<Failure>,
    log: PathBuf,
) {
    let status = tokio::select! {
        status = child.wait() => status,
        _ = asked => {
            // it fails only for a process that has ended
            drop(child.kill().await);
            return;
        }
    };
    let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
    // nobody listens once the run is over
    drop(ended.send(Failure::Ended { status, log }));
}

/// Gives the Go controller its configuration, as a ConfigMap in its namespace.
async fn configure_other(site: &Site) -> Result<(), Failure> {
    let config = json!({
        "webhooksEnabled": false,
        "appwrapper": {"faultTolerance": {
            "admissionGracePeriod": 600 * NANOS, "warmupGracePeriod": 600 * NANOS,
            "failureGracePeriod": 0, "resetPause": NANOS, "retryLimit": 100,
            "deletionGracePeriod": 600 * NANOS, "gracePeriodCeiling": 86_400 * NANOS,
            "successTTLCeiling": 7 * 86_400 * NANOS,
        }},
        "controllerManager": {
            "health": {"bindAddress": format!("127.0.0.1:{}", free_port()?)},
            "metrics": {"bindAddress": "0"},
            "leaderElection": false,
        },
    });
    let map = json!({
        "metadata": {"name": "appwrapper-operator-config"},
        // JSON is YAML
        "data": {"config.yaml": config.to_string()},
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    match site.create(&path, &map).await {
        // it is started a second time, and its old ports are free again
        Err(Failure::Api { source: kube::Error::Api(status), .. }) if status.code == 409 => Ok(()),
        created => created.map(drop),
    }
}

/// A port on loopback that nobody uses now.
pub fn free_port() -> Result<u16, Failure> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    port.map(|address| address.port()).map_err(Failure::io("find a free port on", Path::new("lo")))
}

/// The program that Cargo puts beside this example.
pub fn beside_the_example() -> Result<PathBuf, Failure> {
    let unknown = Failure::io("find the file of", Path::new("this example"));
    let example = std::env::current_exe().map_err(unknown)?;
    let examples = example.parent().unwrap_or(&example);
    Ok(examples.parent().unwrap_or(examples).join("appwrapper"))
}
