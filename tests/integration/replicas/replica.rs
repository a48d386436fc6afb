//! Processes of `appwrapper run`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use controlplane::ControlPlane;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::PLANE;
use super::relay::Relay;

/// Nothing that is waited for takes longer, unless it never comes.
const PATIENCE: Duration = Duration::from_mins(2);
/// How often it is asked whether a replica is ready.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// How many lines of a replica's log are told of a failure.
const TAIL: usize = 40;

/// Where replicas that know each other run.
pub struct Site {
    /// Namespace of their Lease.
    pub namespace: String,
    /// Times of the Lease, as the configuration has them.
    pub times: String,
    /// The rest of their configuration.
    pub settings: String,
}

/// A process. It is killed when this is dropped.
pub struct Replica {
    process: Child,
    relay: Relay,
    lines: watch::Receiver<Vec<String>>,
    health: SocketAddr,
    metrics: SocketAddr,
}

impl Site {
    /// Starts a replica.
    pub async fn start(&self) -> Replica {
        self.start_on(&PLANE, &[], None).await
    }

    /// Starts one on any control plane, with more arguments and, where a token is given, as its account.
    pub async fn start_on(
        &self,
        plane: &ControlPlane,
        arguments: &[&str],
        token: Option<&str>,
    ) -> Replica {
        // one address each, also among those of other tests
        static STARTED: AtomicU16 = AtomicU16::new(1);
        let number = STARTED.fetch_add(1, Ordering::SeqCst);
        let [high, low] = number.to_be_bytes();
        let own = IpAddr::V4(Ipv4Addr::new(127, 77, high, low));
        let mut kubeconfig: Value = read_kubeconfig(plane);
        if let Some(token) = token {
            kubeconfig["users"][0]["user"] = json!({"token": token});
        }
        let server = kubeconfig["clusters"][0]["cluster"]["server"].take();
        let server = server.as_str().and_then(|url| url.strip_prefix("https://")).expect("a URL");
        let relay = Relay::new(own, server.parse().expect("an address")).await;
        // the certificate is of the server's own address
        let cluster = &mut kubeconfig["clusters"][0]["cluster"];
        cluster["server"] = format!("https://{}", relay.address()).into();
        cluster["tls-server-name"] = "127.0.0.1".into();
        let [health, metrics] = [free(own).await, free(own).await];
        let Self { namespace, times, settings } = self;
        let config = format!(
            "leaderElection: {{namespace: {namespace}, name: lock, {times}}}\n\
             webhook: {{enabled: false}}\n\
             metrics: {{address: \"{metrics}\", secure: false}}\n\
             health: {{address: \"{health}\"}}\n{settings}"
        );
        let kubeconfig =
            write(plane, &format!("replica-{number}.kubeconfig"), &kubeconfig.to_string());
        let config = write(plane, &format!("replica-{number}.yaml"), &config);
        let mut command = Command::new(env!("CARGO_BIN_EXE_appwrapper"));
        command.args(["run", "--log-json", "--kubeconfig"]).arg(kubeconfig);
        command.arg("--config").arg(config).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.kill_on_drop(true).spawn().expect("it starts");
        let mut output = BufReader::new(process.stderr.take().expect("it is piped")).lines();
        let (sender, lines) = watch::channel(vec![]);
        tokio::spawn(async move {
            while let Ok(Some(line)) = output.next_line().await {
                sender.send_modify(|lines: &mut Vec<String>| lines.push(line));
            }
        });
        Replica { process, relay, lines, health, metrics }
    }
}

impl Replica {
    /// Waits until its caches are warm.
    pub async fn ready(&self) {
        let asked = async {
            while !self.is_ready().await {
                tokio::time::sleep(ASK_EVERY).await;
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| self.fail("never ready"));
    }

    async fn is_ready(&self) -> bool {
        get(self.health, "/readyz").await.is_ok_and(|answer| answer.contains(" 200 "))
    }

    /// A page of its metrics server.
    pub async fn page(&self, path: &str) -> String {
        get(self.metrics, path).await.unwrap_or_else(|error| self.fail(&error.to_string()))
    }

    /// What it has said: the lines of its log that are JSON.
    pub fn said(&self) -> Vec<Value> {
        let lines = self.lines.borrow();
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until it says that it leads; returns its name on the Lease.
    pub async fn leads(&self) -> String {
        let mut lines = self.lines.clone();
        let told = lines.wait_for(|lines| lines.iter().any(|line| identity(line).is_some()));
        let told = tokio::time::timeout(PATIENCE, told).await;
        let Ok(Ok(lines)) = told else { self.fail("never led") };
        lines.iter().find_map(|line| identity(line)).expect("it was there")
    }

    /// Whether it has said that it leads.
    pub fn has_led(&self) -> bool {
        self.lines.borrow().iter().any(|line| identity(line).is_some())
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let id = self.process.id().unwrap_or_else(|| self.fail("it has ended")).to_string();
        let mut kill = std::process::Command::new("/bin/sh");
        kill.args(["-c", "kill -s \"$1\" \"$2\"", "sh", name, &id]);
        assert!(kill.status().is_ok_and(|status| status.success()), "{name} is sent");
    }

    /// Its way to the API server.
    pub const fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Its address, as the audit log has it.
    pub fn address(&self) -> String {
        self.relay.address().ip().to_string()
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(PATIENCE, self.process.wait()).await;
        let Ok(ended) = ended else { self.fail("it does not end") };
        ended.expect("it can be waited for")
    }

    /// Whether it runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    fn fail(&self, what: &str) -> ! {
        panic!("{what}: {}", self.address())
    }
}

impl Drop for Replica {
    #[expect(clippy::print_stdout, reason = "a test has failed, and this tells why")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let lines = self.lines.borrow();
            let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
            println!("── log of {}\n{tail}", self.address());
        }
    }
}

/// The name of who says here that it leads.
fn identity(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    let leads = line["message"] == "Acquired leadership.";
    leads.then(|| line["identity"].as_str().unwrap_or_default().to_owned())
}

/// What a server answers, with its head.
async fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

fn read_kubeconfig(plane: &ControlPlane) -> Value {
    let text = std::fs::read_to_string(plane.kubeconfig()).expect("the kubeconfig is there");
    serde_saphyr::from_str(&text).expect("it is YAML")
}

/// A port of an address that nobody listens on.
async fn free(own: IpAddr) -> SocketAddr {
    let listener = TcpListener::bind((own, 0)).await.expect("a port is free");
    listener.local_addr().expect("it has an address")
}

/// A file beside those of the control plane; it goes with them.
fn write(plane: &ControlPlane, name: &str, text: &str) -> PathBuf {
    let path = plane.state_dir().join(name);
    std::fs::write(&path, text).expect("the file can be written");
    path
}
