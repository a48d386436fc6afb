//! One control plane, from its build to what remains of it after a SIGKILL.
//!
//! It runs in a child process, which is this test again, so that there is somebody to kill.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use controlplane::{ControlPlane, NodeOptions, Options, RealNode, Versions, annotations, build};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::time::sleep;

/// Comes before the state directory in what the child prints.
const MARK: &str = "state directory: ";

const ATTEMPT: &str = "workload.codeflare.dev/attempt";

#[tokio::test(flavor = "multi_thread")]
async fn pods_live_as_told_and_nothing_survives_its_owner() {
    let options = options();
    let versions = Versions::chosen().expect("there are such versions");
    build::binaries(&options.components(), versions).expect("they are built");
    let again = build::binaries(&options.components(), versions).expect("they are there");
    assert_eq!(again.built(), []);

    let (mut owner, dir) = start_owner("owner");
    let client = client(&dir.join("kubeconfig")).await;
    let pods = Api::<Pod>::namespaced(client, "default");
    pods_end_as_their_annotations_say(&pods).await;
    a_pod_that_is_never_ready_stays_pending(&pods).await;
    a_stuck_pod_goes_only_by_force(&pods).await;

    assert!(!processes_of(&dir).is_empty(), "or the next check means nothing");
    owner.kill().expect("it is ours");
    owner.wait().expect("it is ours");
    eventually(|| async { processes_of(&dir).is_empty() && !dir.exists() }).await;
}

/// Not a test: the process that owns the control plane. It keeps it in a `static`, as test suites
/// do, and ends with its standard input.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs as a child of the test above"]
async fn owner() {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    let plane = ControlPlane::start(options()).await.expect("it starts");
    let plane = PLANE.get_or_init(|| plane);
    let mut stdout = std::io::stdout();
    writeln!(stdout, "\n{MARK}{}", plane.state_dir().display()).expect("the parent reads it");
    std::io::stdin().read_to_end(&mut Vec::new()).expect("a pipe");
}

/// Containers, mounts and cgroups go, too.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: needs root and containerd; builds a kubelet"]
async fn nothing_of_a_real_node_survives_its_owner() {
    if let Some(why) = RealNode::obstacle() {
        let said = writeln!(std::io::stderr(), "skipped: no real node here: {why}");
        return said.expect("standard error is there");
    }
    let (mut owner, dir) = start_owner("node_owner");
    let kubeconfig = dir.join("kubeconfig");
    let pods = Api::<Pod>::namespaced(client(&kubeconfig).await, "default");
    let pod = json!({"metadata": {"name": "sleeps"}, "spec": {
        "hostNetwork": true,
        "containers": [{"name": "main", "image": "test/pause:1", "imagePullPolicy": "Never"}],
    }});
    let pod = serde_json::from_value(pod).expect("it is a pod");
    pods.create(&PostParams::default(), &pod).await.expect("it is valid");
    eventually(|| async { phase_of(&get(&pods, "sleeps").await) == "Running" }).await;
    assert!(!cgroups_of(&dir).is_empty(), "or the next check means nothing");
    owner.kill().expect("it is ours");
    owner.wait().expect("it is ours");
    // a cgroup cannot be removed while a process is in it
    eventually(|| async { cgroups_of(&dir).is_empty() && !dir.exists() }).await;
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("it can be read");
    assert!(!mounts.contains(dir.to_str().expect("it is UTF-8")), "{mounts}");
}

/// Not a test: the process that owns a control plane and a node.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs as a child of the test above"]
async fn node_owner() {
    static OWNED: OnceLock<(ControlPlane, RealNode)> = OnceLock::new();
    let options = Options { nodes: 0, ..Options::default() };
    let plane = ControlPlane::start(options).await.expect("it starts");
    let options = NodeOptions { name: "real".to_owned(), memory_mib: None };
    let node = RealNode::start(&plane, options).await.expect("it starts");
    let (_, node) = OWNED.get_or_init(|| (plane, node));
    let mut stdout = std::io::stdout();
    writeln!(stdout, "\n{MARK}{}", node.dir().display()).expect("the parent reads it");
    std::io::stdin().read_to_end(&mut Vec::new()).expect("a pipe");
}

/// The cgroups of the node of a directory, in every hierarchy.
fn cgroups_of(dir: &Path) -> Vec<PathBuf> {
    let name = format!("appwrapper-node-{}", dir.file_name().expect("a name").to_string_lossy());
    let root = Path::new("/sys/fs/cgroup");
    let below = std::fs::read_dir(root).expect("cgroups").flatten().map(|entry| entry.path());
    let all = below.chain([root.to_path_buf()]).map(|hierarchy| hierarchy.join(&name));
    all.filter(|path| path.exists()).collect()
}

fn options() -> Options {
    Options { nodes: 1, ..Options::default() }
}

fn start_owner(name: &str) -> (Child, PathBuf) {
    let this = std::env::current_exe().expect("it runs");
    let mut command = Command::new(this);
    command.args(["--exact", name, "--ignored", "--nocapture"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs now");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let dir = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix(MARK).map(PathBuf::from))
        .expect("the owner says where the state is");
    (child, dir)
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("it is there");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("it is complete")).expect("it makes a client")
}

async fn pods_end_as_their_annotations_say(pods: &Api<Pod>) {
    let run = (annotations::RUN_FOR, "1s");
    let until = (annotations::FAIL_UNTIL_ATTEMPT, "10");
    let code = (annotations::EXIT_CODE, "137");
    let reason = (annotations::REASON, "OOMKilled");
    let message = (annotations::MESSAGE, "say \"no\": gone");
    let told = Some("say \"no\": gone");
    let cases: [(&str, &[_], Option<&str>, _); 7] = [
        ("good", &[run], None, (0, "Completed", None)),
        ("bad", &[run, code], None, (137, "Error", None)),
        ("reasoned", &[run, code, reason, message], None, (137, "OOMKilled", told)),
        ("no-attempt", &[run, until], None, (1, "Error", None)),
        ("attempt-9", &[run, until], Some("9"), (1, "Error", None)),
        ("attempt-9-code", &[run, until, code, reason], Some("9"), (137, "OOMKilled", None)),
        ("attempt-10", &[run, until, code, reason, message], Some("10"), (0, "Completed", None)),
    ];
    for (name, notes, attempt, _) in &cases {
        create(pods, name, notes, *attempt).await;
    }
    for (name, _, _, (code, reason, message)) in cases {
        eventually(|| async { ended(&get(pods, name).await).is_some() }).await;
        let pod = get(pods, name).await;
        let end = ended(&pod).expect("it has ended");
        assert_eq!((end.exit_code, end.reason.as_deref()), (code, Some(reason)), "{name}");
        assert_eq!(end.message.as_deref(), message, "{name}");
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        assert_eq!(phase_of(&pod), phase, "{name}");
        let status = pod.status.expect("it has ended");
        let inits = status.init_container_statuses.expect("it has two");
        let ready: Vec<_> = inits.iter().map(|it| (it.name.as_str(), it.ready)).collect();
        assert_eq!(ready, [("prepare", true), ("sidecar", true)], "{name}");
    }
}

async fn a_pod_that_is_never_ready_stays_pending(pods: &Api<Pod>) {
    let on_node = async || get(pods, "pending").await.spec.and_then(|it| it.node_name);
    create(pods, "pending", &[(annotations::NEVER_READY, "")], None).await;
    eventually(|| async { on_node().await.is_some() }).await;
    // a pod that is created after it runs first
    create(pods, "ordinary", &[], None).await;
    eventually(|| async { phase_of(&get(pods, "ordinary").await) == "Running" }).await;
    assert_eq!(phase_of(&get(pods, "pending").await), "Pending");
}

async fn a_stuck_pod_goes_only_by_force(pods: &Api<Pod>) {
    let gone = async |name| pods.get_opt(name).await.expect("it answers").is_none();
    create(pods, "stuck", &[(annotations::STUCK, "")], None).await;
    create(pods, "running", &[], None).await;
    for name in ["stuck", "running"] {
        eventually(|| async { phase_of(&get(pods, name).await) == "Running" }).await;
        pods.delete(name, &DeleteParams::default()).await.expect("it is there");
    }
    eventually(|| gone("running")).await;
    assert!(get(pods, "stuck").await.metadata.deletion_timestamp.is_some());
    pods.delete("stuck", &DeleteParams::default().grace_period(0)).await.expect("it is there");
    assert!(gone("stuck").await);
}

async fn create(pods: &Api<Pod>, name: &str, notes: &[(&str, &str)], attempt: Option<&str>) {
    let labels: BTreeMap<_, _> = attempt.map(|it| (ATTEMPT, it)).into_iter().collect();
    let notes: BTreeMap<_, _> = notes.iter().copied().collect();
    let pod = json!({
        "metadata": { "name": name, "annotations": notes, "labels": labels },
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [
                { "name": "prepare", "image": "none" },
                { "name": "sidecar", "image": "none", "restartPolicy": "Always" },
            ],
            "containers": [{ "name": "main", "image": "none" }],
        },
    });
    let pod = serde_json::from_value(pod).expect("it is a pod");
    pods.create(&PostParams::default(), &pod).await.expect("it is valid");
}

async fn get(pods: &Api<Pod>, name: &str) -> Pod {
    pods.get(name).await.expect("it is there")
}

fn phase_of(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|it| it.phase.as_deref()).unwrap_or_default()
}

fn ended(pod: &Pod) -> Option<&ContainerStateTerminated> {
    let main = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    main.state.as_ref()?.terminated.as_ref()
}

/// The command lines in which a directory occurs.
fn processes_of(dir: &Path) -> Vec<String> {
    let listed = Command::new("ps").args(["-A", "-ww", "-o", "args="]).output().expect("it runs");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let dir = dir.to_str().expect("it is UTF-8");
    listed.lines().filter(|line| line.contains(dir)).map(str::to_owned).collect()
}

async fn eventually<Answer: Future<Output = bool>>(mut check: impl FnMut() -> Answer) {
    for _ in 0..300 {
        if check().await {
            return;
        }
        sleep(Duration::from_millis(200)).await;
    }
    assert!(check().await, "not within a minute");
}
