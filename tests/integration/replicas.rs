//! Two replicas, one of which leads: real processes, on a control plane of their own.
//!
//! The leader is killed, stopped and let go on, cut off, or asked to end, at every moment of the life of
//! AppWrappers. `REPLICA_ROUNDS=50` does each so many times; `REPLICA_TIMES` are the times of the Lease.

pub mod audit;
mod load;
mod observer;
mod relay;
pub mod replica;

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use controlplane::{ControlPlane, Options};
use serde_json::Value;
use tokio::time::Instant;

use self::audit::Audit;
use self::load::Moment;
use self::replica::{Replica, Site};
use crate::harness::{Case, Log, job, own_crds, pod, runtime, start_plane};

/// A control plane for tests whose controllers must be the only ones, one test at a time.
pub static PLANE: LazyLock<ControlPlane> =
    LazyLock::new(|| start_plane(Options { audit: true, ..own_crds() }));

/// How many rounds there are of each fault, unless `REPLICA_ROUNDS` says so.
const ROUNDS: usize = 2;
/// Times of the Lease, unless `REPLICA_TIMES` says so: long enough for a machine that does much besides.
const TIMES: &str = "leaseDuration: 6s, renewDeadline: 5s, retryPeriod: 500ms";
/// A Lease whose end no test lives to see.
const ENDLESS: &str = "leaseDuration: 20h, renewDeadline: 10h, retryPeriod: 300ms";
/// The exit code of a replica that leads no more.
const LEADS_NO_MORE: Option<i32> = Some(3);

/// The control plane for oneself.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    LazyLock::force(&PLANE);
    turn
}

/// What happens to a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// SIGKILL.
    Killed,
    /// SIGSTOP, and SIGCONT once another leads.
    Stopped,
    /// Nothing comes through to the API server, nor back.
    Cut,
    /// SIGTERM.
    Asked,
}

impl Fault {
    fn strike(self, leader: &Replica) {
        match self {
            Self::Killed => leader.signal("KILL"),
            Self::Stopped => leader.signal("STOP"),
            Self::Cut => leader.relay().cut(),
            Self::Asked => leader.signal("TERM"),
        }
    }

    /// Waits for the end of a leader of the past, which comes by itself.
    async fn ends(self, leader: &mut Replica) {
        if self == Self::Stopped {
            leader.signal("CONT");
        }
        let code = leader.ended().await.code();
        let want = match self {
            Self::Killed => None,
            Self::Stopped | Self::Cut => LEADS_NO_MORE,
            Self::Asked => Some(0),
        };
        assert_eq!(code, want, "{self:?}");
    }
}

/// Replicas at work, one of which leads.
struct Team {
    site: Site,
    /// Where the Lease is, and what rests.
    home: Case,
    leader: Replica,
    standby: Replica,
}

impl Team {
    async fn new(name: &str, times: &str) -> Self {
        let home = Case::new(PLANE.client(), name).await;
        for (api_version, kind) in
            [("batch/v1", "Job"), ("v1", "ConfigMap"), ("coordination.k8s.io/v1", "Lease")]
        {
            home.record(api_version, kind).await;
        }
        let (namespace, times) = (home.namespace.clone(), times.to_owned());
        let site = Site { namespace, times, settings: String::new() };
        let leader = site.start().await;
        leader.leads().await;
        let standby = site.start().await;
        standby.ready().await;
        Self { site, home, leader, standby }
    }

    /// Another leads in place of one that a fault has struck: how long that took since then. A fresh
    /// replica stands by.
    async fn take_over(&mut self, fault: Fault, struck: Instant) -> Duration {
        let old = self.leader.leads().await;
        let new = self
            .home
            .until("another leads", |log| {
                holders(log).last().filter(|name| **name != old && !name.is_empty()).cloned()
            })
            .await;
        let took = struck.elapsed();
        assert_eq!(self.standby.leads().await, new, "the one that stood by");
        fault.ends(&mut self.leader).await;
        self.writes_no_more(fault);
        let fresh = self.site.start().await;
        self.leader = std::mem::replace(&mut self.standby, fresh);
        self.standby.ready().await;
        took
    }
}

impl Team {
    /// The old leader has changed nothing since the new one leads. One that was stopped may have just
    /// handed a request to a connection: that leaves when it goes on, and is guarded by `resourceVersion`
    /// or UID, or makes what the new leader sweeps away where it is not to be. The observer judges it.
    #[expect(clippy::print_stdout, reason = "it is seldom, and worth a look")]
    fn writes_no_more(&self, fault: Fault) {
        let audit = Audit::of(PLANE.audit_log());
        let late = audit.late(&self.leader.address(), &self.standby.address());
        if fault == Fault::Stopped {
            for request in late {
                println!("was on its way: {request}");
            }
        } else {
            assert!(late.is_empty(), "{fault:?}: {late:?}");
        }
    }

    /// One leads and one stands by.
    fn check(&mut self) {
        assert!(self.leader.runs(), "the leader has ended");
        assert!(self.standby.runs(), "the standby has ended");
        assert!(!self.standby.has_led(), "both lead");
    }
}

/// Who has held the Lease, in order.
fn holders(log: &Log) -> Vec<String> {
    let leases = log.of("Lease", "lock");
    let mut all: Vec<String> = leases
        .map(|seen| seen.object["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
        .collect();
    all.dedup();
    all
}

/// Goes through a fault many times.
#[expect(clippy::print_stdout, reason = "who has many rounds done looks on")]
fn survive(fault: Fault, times: &str) {
    let _alone = alone();
    runtime().block_on(async {
        let name = format!("{fault:?}").to_lowercase();
        let mut team = Team::new(&name, times).await;
        let rest = load::at_rest(&team.home).await;
        let mut took = vec![];
        for round in 0..rounds() {
            let moment = Moment::ALL[round % Moment::ALL.len()];
            let case = Case::new(PLANE.client(), &format!("{name}-{round}")).await;
            case.record("batch/v1", "Job").await;
            case.record("v1", "ConfigMap").await;
            moment.come(&case).await;
            let struck = Instant::now();
            fault.strike(&team.leader);
            let (takeover, ()) = futures::join!(team.take_over(fault, struck), load::go_on(&case));
            load::end(&case).await;
            let log = case.log();
            let wrong = observer::wrongs(&observer::in_order(&log));
            assert!(wrong.is_empty(), "{moment:?}: {}\n{}", wrong.join("\n"), case.story());
            let touched = observer::changes_since(&team.home.log(), rest);
            assert!(touched.is_empty(), "{moment:?}: {}", touched.join("\n"));
            team.check();
            println!("{name} {round} at {moment:?}: another led after {takeover:.2?}");
            took.push(takeover);
        }
        took.sort();
        let middle = took[took.len() / 2];
        let longest = took.last().expect("there was a round");
        println!(
            "{name} {} times: half of all within {middle:.2?}, all within {longest:.2?}",
            took.len()
        );
        if fault == Fault::Asked {
            given_back(&team.home.log());
        }
    });
}

/// Between two leaders, nobody held the Lease.
fn given_back(log: &Log) {
    let holders = holders(log);
    let between: Vec<&String> = holders.iter().skip(1).step_by(2).collect();
    assert!(between.iter().all(|name| name.is_empty()), "{holders:?}");
    assert!(between.len() >= rounds(), "{holders:?}");
}

#[expect(clippy::disallowed_methods, reason = "how much is done is said from outside")]
fn rounds() -> usize {
    let given = std::env::var("REPLICA_ROUNDS").ok();
    given.map_or(ROUNDS, |text| text.parse().expect("REPLICA_ROUNDS is a number"))
}

#[expect(clippy::disallowed_methods, reason = "how it is done is said from outside")]
fn times() -> String {
    std::env::var("REPLICA_TIMES").unwrap_or_else(|_| TIMES.to_owned())
}

#[test]
#[ignore = "nightly: leaders that die take a minute each"]
fn another_leads_when_the_leader_is_killed() {
    survive(Fault::Killed, &times());
}

#[test]
#[ignore = "nightly: leaders that die take a minute each"]
fn a_leader_that_was_stopped_and_goes_on_ends_by_itself() {
    survive(Fault::Stopped, &times());
}

#[test]
#[ignore = "nightly: leaders that die take a minute each"]
fn a_leader_that_is_cut_off_ends_by_itself() {
    survive(Fault::Cut, &times());
}

/// The Lease does not end by itself here.
#[test]
#[ignore = "nightly: leaders that die take a minute each"]
fn a_leader_that_is_asked_to_end_gives_the_lease_back() {
    survive(Fault::Asked, ENDLESS);
}

/// The connections of before are dead, and nothing says so but their silence.
#[test]
#[ignore = "nightly: leaders that die take a minute each"]
fn a_standby_that_was_cut_off_for_a_while_leads_with_what_is_true() {
    let _alone = alone();
    runtime().block_on(async {
        let mut team = Team::new("deaf", &times()).await;
        team.home.wrap("suspended", serde_json::json!({}), vec![pod("suspended", &[])]).await;
        team.home.condition("suspended", "PodsReady", "True").await;
        team.standby.relay().cut();
        team.standby.relay().heal();
        team.home.suspend("suspended", true).await;
        team.home.phase("suspended", "Suspended").await;
        team.home
            .wrap("new", serde_json::json!({}), vec![job("new", serde_json::json!({}), &[])])
            .await;
        team.home.condition("new", "PodsReady", "True").await;
        let struck = Instant::now();
        Fault::Killed.strike(&team.leader);
        team.take_over(Fault::Killed, struck).await;
        team.home.suspend("new", true).await;
        team.home.phase("new", "Suspended").await;
        team.home.others_go_on("other").await;
        assert_eq!(team.home.phase("suspended", "Suspended").await.restarts(), 0);
        team.home.lawful("new").await;
    });
}

/// Runs the program with an API server that does not answer, until it ends; where `is_asked`, it is asked to end once it says
/// that it connects. `filter` is `RUST_LOG`. Returns its exit code, and the message of each line of its log.
fn run_at(
    server: SocketAddr,
    config: &str,
    arguments: &[&str],
    filter: Option<&str>,
    is_asked: bool,
) -> (Option<i32>, Vec<String>) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-api-server");
    std::fs::create_dir_all(&folder).expect("a folder");
    let kubeconfig = serde_json::json!({
        "clusters": [{"name": "c", "cluster": {"server": format!("https://{server}")}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    });
    let kubeconfig = ("kubeconfig", kubeconfig.to_string());
    let [kubeconfig, config] = [kubeconfig, ("config", config.to_owned())].map(|(name, text)| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("it is written");
        path
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_appwrapper"));
    command.args(["run", "--log-json", "--kubeconfig"]).arg(kubeconfig);
    command.arg("--config").arg(config).args(arguments).env_remove("RUST_LOG");
    command.envs(filter.map(|filter| ("RUST_LOG", filter)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("it starts");
    let output = BufReader::new(process.stderr.take().expect("it is piped"));
    let mut said = vec![];
    for line in output.lines().map(|line| line.expect("text")) {
        let event = serde_json::from_str::<Value>(&line);
        let event = event.unwrap_or_else(|error| panic!("{error}: {line}"));
        let message = event["message"].as_str().unwrap_or_default().to_owned();
        if is_asked && message == "Connecting to the API server." {
            let mut kill = Command::new("/bin/sh");
            kill.args(["-c", "kill -s TERM \"$1\"", "sh", &process.id().to_string()]);
            assert!(kill.status().is_ok_and(|status| status.success()), "it is sent");
        }
        said.push(message);
    }
    (process.wait().expect("it can be waited for").code(), said)
}

#[test]
fn why_a_replica_ends_before_it_works_is_a_line_of_json() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let silent_at = silent.local_addr().expect("an address");
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let closed_at = closed.local_addr().expect("an address");
    drop(closed);
    let connects = "Connecting to the API server.";
    let stopped = "Stopped before the API server answered.";
    let refused = format!("cannot reach the API server https://{closed_at}/: connection refused");
    for (server, config, arguments, is_asked, code, want) in [
        (silent_at, "{}", &["--shadow"][..], true, 0, [connects, stopped]),
        (silent_at, "{}", &[], true, 0, [connects, stopped]),
        (closed_at, "{}", &[], false, 3, [connects, &refused]),
        (closed_at, "a: 1\nb: 2", &[], false, 2, ["a: Invalid value", "\nb: Invalid value"]),
    ] {
        let (found, said) = run_at(server, config, arguments, None, is_asked);
        assert_eq!(found, Some(code), "{said:?}");
        let all = said.join("\n");
        assert!(want.iter().all(|text| all.contains(text)), "{said:?}");
    }
    for filter in ["appwrapper_controller=debug", "appwrapper::controller=debug", "off"] {
        let (found, said) = run_at(closed_at, "{}", &[], Some(filter), false);
        let last = said.last().cloned().unwrap_or_default();
        assert!(found == Some(3) && last.contains(&refused), "{filter}: {said:?}");
    }
}
