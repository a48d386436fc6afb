//! The Go controller as a process.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;

use controlplane::{ControlPlane, Tool, build};
use serde_json::json;
use tokio::process::{Child, Command};

use crate::harness::Case;
use crate::replicas::PLANE;

/// How many bytes of its log are told of a failure.
const TAIL: usize = 4000;

/// It runs. It is killed when this is dropped.
pub struct Go {
    process: Child,
    log: PathBuf,
}

impl Go {
    /// Starts it with its defaults, but without webhooks.
    pub async fn start(case: &Case) -> Self {
        Self::start_on(&PLANE, case).await
    }

    /// The same on any control plane.
    pub async fn start_on(plane: &ControlPlane, case: &Case) -> Self {
        let built = tokio::task::spawn_blocking(|| build::tool(Tool::GoAppWrapper)).await;
        let program = built.expect("it ends").expect("the Go controller is built");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let health = free.expect("a port is free").to_string();
        let config = json!({
            "webhooksEnabled": false,
            "controllerManager": {
                "health": {"bindAddress": health},
                "metrics": {"bindAddress": "0"},
            },
        });
        let name = "appwrapper-operator-config";
        if case.stored("v1", "ConfigMap", name).await.is_none() {
            let config = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                "data": {"config.yaml": config.to_string()},
            });
            case.create(config).await;
        } else {
            let config = json!({"data": {"config.yaml": config.to_string()}});
            case.change("v1", "ConfigMap", name, config).await;
        }
        let log = plane.state_dir().join("go-appwrapper.log");
        let output = File::create(&log).expect("the log can be written");
        let errors = output.try_clone().expect("the log can be written");
        let mut command = Command::new(program);
        command.env("KUBECONFIG", plane.kubeconfig()).env("NAMESPACE", &case.namespace);
        command.stdin(Stdio::null()).stdout(output).stderr(errors).kill_on_drop(true);
        Self { process: command.spawn().expect("it starts"), log }
    }

    /// Asks it to end, and waits for that.
    pub async fn stop(mut self) {
        let id = self.process.id().expect("it runs").to_string();
        let asked = std::process::Command::new("/bin/sh")
            .args(["-c", "kill -s TERM \"$1\"", "sh", &id])
            .status();
        assert!(asked.is_ok_and(|status| status.success()), "it is asked");
        self.process.wait().await.expect("it can be waited for");
    }
}

impl Drop for Go {
    #[expect(clippy::print_stdout, reason = "a test has failed, and this tells why")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = std::fs::read(&self.log).unwrap_or_default();
            let tail = &text[text.len().saturating_sub(TAIL)..];
            println!("── log of the Go controller\n{}", String::from_utf8_lossy(tail));
        }
    }
}
