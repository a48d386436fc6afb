//! The commands for users, as a program that is run against a real control plane.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use controlplane::{ControlPlane, Tool};
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::harness::{Case, Log, job, plane, pod, quota_without_a_gap, test, tuned, wrapper};
use crate::installed::{INSTALLED, installed_test};
use crate::kueue::{Queue, queued};
use crate::objects::job_set;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_appwrapper");

/// A user: with these rights, in the namespace of a test, and in a directory of its own.
pub struct User {
    kubeconfig: PathBuf,
    namespace: String,
    pub folder: PathBuf,
}

/// What a command said.
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl User {
    pub fn of(case: &Case, kubeconfig: &Path) -> Self {
        let folder = plane().state_dir().join("users").join(&case.namespace);
        std::fs::create_dir_all(&folder).expect("a folder");
        let (kubeconfig, namespace) = (kubeconfig.to_owned(), case.namespace.clone());
        Self { kubeconfig, namespace, folder }
    }

    pub fn admin(case: &Case) -> Self {
        Self::of(case, plane().kubeconfig())
    }

    /// Somebody who may read AppWrappers in the namespace of a test and do this to them, and nothing else.
    async fn with_rights(case: &Case, plane: &ControlPlane, name: &str, verbs: &[&str]) -> Self {
        let verbs = [&["get", "list", "watch"], verbs].concat();
        let rules = json!([{"apiGroups": ["workload.codeflare.dev"], "resources": ["appwrappers"],
                            "verbs": verbs}]);
        let api = "rbac.authorization.k8s.io";
        let meta = json!({"name": name});
        let role = json!({"apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": meta, "rules": rules});
        case.create(role).await;
        case.create(json!({
            "apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": meta,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": api, "kind": "User", "name": name}],
        }))
        .await;
        let kubeconfig = plane.kubeconfig_of(name, &[]).expect("a kubeconfig");
        let user = Self::of(case, &kubeconfig);
        // rights are seen a moment later
        assert!((0..600).any(|_| user.run(&["list"]).code == Some(0)), "never");
        user
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).arg("-n").arg(&self.namespace).current_dir(&self.folder);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    /// A command about the cluster, and not about a namespace.
    pub fn cluster(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).arg("--kubeconfig").arg(&self.kubeconfig);
        command.output().expect("the program runs").into()
    }

    /// A command that needs no cluster, in the user's directory.
    pub fn cluster_free(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(&self.folder);
        command.output().expect("the program runs").into()
    }

    /// A file in its directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn run(&self, arguments: &[&str]) -> Said {
        self.command(arguments).output().expect("the program runs").into()
    }

    /// The answer as JSON, and the exit code.
    pub fn json(&self, arguments: &[&str]) -> (Value, Option<i32>) {
        let said = self.run(&[arguments, &["-o", "json"]].concat());
        let json = serde_json::from_str(&said.out);
        (json.unwrap_or_else(|_| panic!("{arguments:?}: {} {}", said.out, said.err)), said.code)
    }

    /// What is left in its directory.
    fn files(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.folder).expect("the folder is there");
        files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned()).collect()
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        Self { code: output.status.code(), out, err }
    }
}

impl Said {
    /// It ended with this code and said all of this.
    pub fn with(self, code: i32, parts: &[&str]) -> Self {
        let all = format!("{}{}", self.out, self.err);
        assert_eq!(self.code, Some(code), "{all}");
        for part in parts {
            assert!(all.contains(part), "no {part:?} in: {all}");
        }
        self
    }
}

/// An AppWrapper whose only pod ends with code 3, and words that would clear the screen.
pub fn failing(name: &str) -> Value {
    let life =
        [("run-for", "1s"), ("exit-code", "3"), ("message", "no \x1b[2Jgood"), ("reason", "Odd")];
    let settings = tuned(&[("retryLimit", "1"), ("failureGracePeriodDuration", "0s")]);
    wrapper(name, settings, vec![pod(&format!("{name}-p"), &life)])
}

#[test]
fn a_failure_is_told_and_what_has_failed_is_made_anew() {
    test("a_failure_is_told_and_what_has_failed_is_made_anew", async |case| {
        let user = User::admin(&case);
        let mut object = failing("bad");
        object["metadata"]["labels"] = json!({"team": "vision"});
        let first = case.create(object).await.metadata.uid.expect("it has a UID");
        let cause = ["pod bad-p, container main, exit code 3", "node node-"];
        user.run(&["wait", "bad", "--for=succeeded", "--timeout=2m"])
            .with(1, &["will not reach phase Succeeded: it has failed"])
            .with(1, &cause);
        case.condition("bad", "QuotaReserved", "False").await;
        case.warning("bad", "FoundFailedPods").await;
        user.run(&["list"]).with(0, &["NAME ", "bad ", "Failed", "bad-p/main 3 Odd"]);
        user.run(&["list", "-l", "team=vision"]).with(0, &["bad "]);
        user.run(&["list", "-l", "team=other"]).with(0, &["no AppWrappers found in namespace"]);
        user.run(&["list", "-l", "=="]).with(2, &["--selector"]);
        let (list, code) = user.json(&["list"]);
        assert_eq!((code, &list["items"][0]["restarts"]), (Some(0), &json!(1)));
        let decided = "Fail by retryLimit, 1 of 1 restarts used before";
        let parts = [decided, "FoundFailedPods", "no \\u{1b}[2Jgood"];
        let why = user.run(&["why", "bad"]).with(0, &cause).with(0, &parts);
        assert!(!why.out.contains('\x1b'), "{}", why.out);
        let (why, _) = user.json(&["describe", "bad"]);
        assert_eq!(why["failure"]["exitCode"], 3);
        assert_eq!(why["phase"], "Failed");
        assert!(why["failure"]["node"].is_string() && why["since"].is_string(), "{why}");
        assert_eq!(why["components"][0]["state"], "does not exist");
        let (attempts, _) = user.json(&["attempts", "bad"]);
        let decided = |index: usize| attempts["attempts"][index]["action"].clone();
        assert_eq!(
            [decided(0), decided(1), decided(2)],
            [json!("Restart"), json!("Fail"), json!(null)]
        );
        user.run(&["attempts", "bad"]).with(0, &["ATTEMPT", "Restart by retryLimit, 0 of 1"]);
        user.run(&["suspend", "bad"])
            .with(1, &["has failed, and Failed is final", "appwrapper retry bad"]);
        let name = format!("{}.bad.appwrapper.json", case.namespace);
        let file = user.folder.join(&name);
        std::fs::write(&file, "of before").expect("it is written");
        user.run(&["retry", "bad"]).with(1, &["nothing was done", &format!("./{name}")]);
        std::fs::remove_file(&file).expect("it goes");
        user.run(&["retry", "bad"]).with(0, &["was deleted and recreated from its own spec"]);
        let again = case.until("the new one", |log| {
            log.last("AppWrapper", "bad").filter(|seen| seen.uid() != first).cloned()
        });
        let metadata = &again.await.object["metadata"];
        assert_eq!(metadata["labels"]["team"], "vision");
        let limit = "workload.codeflare.dev.appwrapper/retryLimit";
        assert_eq!(metadata["annotations"][limit], "1");
        assert_eq!(user.files(), Vec::<String>::new());
        let (waited, code) = user.json(&["wait", "bad", "--for=FAILED", "--timeout=2m"]);
        assert_eq!((code, &waited["reached"]), (Some(0), &json!(true)));
        let (attempts, _) = user.json(&["attempts", "bad"]);
        assert_eq!(
            attempts["attempts"].as_array().map(Vec::len),
            Some(2),
            "a new life: {attempts}"
        );
    });
}

#[test]
fn what_runs_is_shown_waited_for_suspended_and_resumed() {
    test("what_runs_is_shown_waited_for_suspended_and_resumed", async |case| {
        let user = User::admin(&case);
        let set = job_set("set", json!({}), &[("main", &[])]);
        case.wrap("run", json!({}), vec![set, job("side", json!({}), &[])]).await;
        user.run(&["wait", "run", "--for=running", "--timeout=2m"])
            .with(0, &["reached phase Running"]);
        case.ready("run", 0).await;
        let list = user.run(&["list"]).with(0, &["Running", "pods running"]);
        assert!(!list.out.contains("reserved"), "it has no queue: {}", list.out);
        user.run(&["why", "run"]).with(0, &["JobSet/set: exists; pods: 1 Running"]);
        user.run(&["attempts", "run"]).with(0, &["(running)"]);
        let (tree, _) = user.json(&["tree", "run"]);
        let job = &tree["children"][0]["children"][0];
        assert_eq!((&job["kind"], &job["name"]), (&json!("Job"), &json!("set-main-0")), "{tree}");
        assert_eq!(job["children"][0]["pod"]["phase"], "Running", "{tree}");
        assert_eq!(tree["children"][1]["children"][0]["kind"], "Pod", "{tree}");
        let drawn =
            ["AppWrapper/run  Running\n├─ JobSet/set", "│  └─ Job/set-main-0", "Running on node-"];
        user.run(&["tree", "run"]).with(0, &drawn);

        let (waited, code) = user.json(&["wait", "run", "--for=Succeeded", "--timeout=1s"]);
        assert_eq!((code, &waited["timedOut"]), (Some(1), &json!(true)));
        user.run(&["wait", "run", "--for=Succeeded", "--timeout=0"])
            .with(1, &["it is Running, pods running"]);
        user.run(&["retry", "run"]).with(1, &["is Running and has not failed"]);
        user.run(&["resume", "run"]).with(0, &["is not suspended"]);
        user.run(&["suspend", "run"]).with(0, &["suspended (spec.suspend)"]);
        user.run(&["wait", "run", "--for=Suspended", "--timeout=2m"]).with(0, &[]);
        let (again, code) = user.json(&["suspend", "run"]);
        assert_eq!((code, &again["changed"]), (Some(0), &json!(false)), "{again}");
        user.run(&["resume", "run"]).with(0, &["resumed"]);
        case.ready("run", 1).await;

        let waiting = |goal| {
            let mut command = user.command(&["wait", "run", goal]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
        };
        let (gone, never) = (waiting("--for=deleted"), waiting("--for=Succeeded"));
        case.delete_wrapper("run").await;
        let ends = [gone, never].map(|mut child| child.wait().expect("it ends").code());
        assert_eq!(ends, [Some(0), Some(1)]);
        user.run(&["wait", "run", "--for=deleted"]).with(0, &["does not exist"]);
        for command in ["why", "attempts", "tree", "retry", "suspend", "resume"] {
            user.run(&[command, "run"]).with(1, &["/run not found"]);
        }
        user.run(&["wait", "run", "--for=Running"]).with(1, &["/run not found"]);
    });
}

#[test]
fn through_a_queue_kueue_suspends_resumes_and_admits_anew() {
    installed_test("through_a_queue_kueue_suspends_resumes_and_admits_anew", async |case| {
        let user = User::of(&case, INSTALLED.plane.kubeconfig());
        case.record_workloads().await;
        Queue::of("aw-queue", 1).create(&case).await;
        case.create(queued("first", "aw-queue", json!({}), vec![pod("p", &[])])).await;
        case.ready("first", 0).await;
        case.create(queued("second", "aw-queue", json!({}), vec![pod("q", &[])])).await;
        case.workload("second", "QuotaReserved", "False").await;
        user.run(&["list"]).with(0, &["aw-queue", "waiting for admission by queue aw-queue"]);
        user.run(&["why", "first"]).with(0, &["aw-queue: admitted"]);
        user.run(&["why", "second"]).with(0, &["not admitted: Pending:"]);

        let owner = User::with_rights(&case, &INSTALLED.plane, "owner-of-first", &["patch"]).await;
        owner.run(&["suspend", "first"]).with(0, &["then Kueue releases its quota"]);
        case.phase("first", "Suspended").await;
        owner.run(&["suspend", "first"]).with(0, &["is already suspended"]);
        owner.run(&["list"]).with(0, &["suspended by its annotation active"]);
        case.ready("second", 0).await;
        let why = ["deactivated", "to resume it: appwrapper resume first"];
        user.run(&["why", "first"]).with(0, &why);
        // what waits in the queue leaves it
        case.create(queued("waits", "aw-queue", json!({}), vec![pod("w", &[])])).await;
        case.workload("waits", "QuotaReserved", "False").await;
        owner.run(&["suspend", "waits"]).with(0, &["it stays suspended"]);
        let inactive = |log: &Log, name: &str| {
            let last = log.workloads(name).last()?;
            (last.object["spec"]["active"] == false).then_some(())
        };
        case.until("the Workload is inactive", |log| inactive(log, "waits")).await;
        case.end_pod("q", "0").await;
        case.phase("second", "Succeeded").await;
        user.run(&["suspend", "second"]).with(1, &["has succeeded"]);
        owner.run(&["resume", "first"]).with(0, &["it returns to its queue"]);
        case.ready("first", 1).await;
        quota_without_a_gap(&case.log(), "first");
        let again = case.phase("first", "Running").await;
        assert_eq!(again.attempts()[0]["outcome"], "Suspended", "{:?}", again.attempts());
        assert_eq!(inactive(&case.log(), "waits"), Some(()));
        user.run(&["delete", "waits"]).with(0, &[]);
        // an administrator's deactivation is not the owner's to undo
        case.activate("first", false).await;
        case.phase("first", "Suspended").await;
        owner.run(&["resume", "first"]).with(1, &["is waiting for admission by queue"]);
        user.run(&["resume", "first"]).with(0, &["waiting for admission"]);
        case.ready("first", 2).await;

        let settings = tuned(&[("retryLimit", "0"), ("failureGracePeriodDuration", "0s")]);
        case.create(queued("third", "aw-queue", settings, vec![pod("r", &[])])).await;
        case.delete_wrapper("first").await;
        case.ready("third", 0).await;
        case.end_pod("r", "7").await;
        case.condition("third", "QuotaReserved", "False").await;
        let old = case.phase("third", "Failed").await;
        user.run(&["retry", "third"]).with(0, &["waiting for admission by its queue"]);
        case.until("the new one is admitted", |log| {
            let last = log.last("AppWrapper", "third")?;
            (last.uid() != old.uid() && last.condition("PodsReady") == "True").then_some(())
        })
        .await;
    });
}

#[test]
fn what_could_not_be_created_again_is_not_deleted() {
    test("what_could_not_be_created_again_is_not_deleted", async |case| {
        let created = case.create(failing("kept")).await;
        case.condition("kept", "QuotaReserved", "False").await;
        case.phase("kept", "Failed").await;
        let user = User::with_rights(&case, plane(), "viewer-who-deletes", &["delete"]).await;
        user.run(&["retry", "kept"]).with(3, &["cannot create resource"]);
        let stored = case.wrappers().get("kept").await.expect("it is there");
        assert_eq!(stored.metadata.uid, created.metadata.uid);
        assert_eq!(stored.metadata.deletion_timestamp, None);
        // what may not be looked at is said
        user.run(&["tree", "kept"]).with(0, &["note: cannot read objects of kind Pod"]);
        let parts = ["exit code 3", "cannot list events", "cannot read its components and pods"];
        let why = user.run(&["why", "kept"]).with(0, &parts);
        assert!(!why.out.contains("Status {"), "{}", why.out);
    });
}

/// A rule of the cluster by which nobody may create an AppWrapper of one name.
async fn forbid(case: &Case, name: &str) {
    let api = "admissionregistration.k8s.io/v1";
    let namespaced = json!({"matchLabels": {"kubernetes.io/metadata.name": case.namespace}});
    let policy = json!({
        "apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": case.namespace},
        "spec": {
            "matchConstraints": {"namespaceSelector": namespaced, "resourceRules": [{
                "apiGroups": ["workload.codeflare.dev"], "apiVersions": ["*"],
                "operations": ["CREATE"], "resources": ["appwrappers"],
            }]},
            "validations": [{"expression": format!("object.metadata.name != '{name}'"),
                             "message": "not this one"}],
        },
    });
    let binding = json!({
        "apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": case.namespace},
        "spec": {"policyName": case.namespace, "validationActions": ["Deny"]},
    });
    for object in [policy, binding] {
        let kind = object["kind"].as_str().expect("a kind");
        let made: Api<DynamicObject> = case.cluster_api(api, kind);
        let object = serde_json::from_value(object).expect("an object");
        made.create(&PostParams::default(), &object).await.expect("it is new");
    }
    let trial = PostParams { dry_run: true, ..PostParams::default() };
    let mut object = failing(name);
    object["metadata"]["namespace"] = case.namespace.clone().into();
    let object = serde_json::from_value(object).expect("an object");
    // what is written is in force a moment later
    loop {
        match case.wrappers().create(&trial, &object).await {
            Err(kube::Error::Api(status)) if status.message.contains("not this one") => return,
            _ => tokio::task::yield_now().await,
        }
    }
}

#[test]
fn what_could_not_be_created_after_all_is_kept_in_a_file() {
    test("what_could_not_be_created_after_all_is_kept_in_a_file", async |case| {
        let user = User::admin(&case);
        let created = case.create(failing("lost")).await;
        case.phase("lost", "Failed").await;
        forbid(&case, "lost").await;
        let said = user.run(&["retry", "lost"]);
        let file = format!("{}.lost.appwrapper.json", case.namespace);
        let create = format!("kubectl create -f ./{file}");
        said.with(1, &["could not be recreated", "not this one", &create]);
        case.gone("AppWrapper", "lost").await;
        assert_eq!(user.files(), [file.as_str()]);
        let kept = std::fs::read_to_string(user.folder.join(&file));
        let kept: Value = serde_json::from_str(&kept.expect("it can be read")).expect("JSON");
        assert_eq!(kept["spec"]["components"], created.data["spec"]["components"]);
        assert_eq!(kept["metadata"]["uid"], Value::Null);
    });
}

#[test]
fn usage_and_reach_have_exit_codes_of_their_own() {
    let run = |arguments: &[&str]| -> Said {
        Command::new(PROGRAM).args(arguments).output().expect("the program runs").into()
    };
    run(&["why"]).with(2, &["Usage: appwrapper why"]);
    run(&["why", "../pods/x"]).with(2, &["must be at most 253"]);
    run(&["wait", "aw", "--for=Ready"]).with(2, &["must be deleted or a phase", "Running"]);
    run(&["wait", "aw", "--for=Running", "--timeout=5 days"]).with(2, &["is not a duration"]);
    run(&["web", "-A", "-f", "x"]).with(2, &["cannot be used with"]);
    let folder = std::env::temp_dir().join(format!("appwrapper-reach-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let nowhere = folder.join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    std::fs::write(&nowhere, config.to_string()).expect("it is written");
    let nowhere = nowhere.to_str().expect("a path");
    let all: [&[&str]; 12] = [
        &["list"],
        &["why", "a"],
        &["attempts", "a"],
        &["tree", "a"],
        &["retry", "a"],
        &["suspend", "a"],
        &["resume", "a"],
        &["wait", "a", "--for=Running"],
        &["watch", "a"],
        &["delete", "a"],
        &["logs", "a"],
        &["history"],
    ];
    for arguments in all {
        let said = run(&[arguments, &["--kubeconfig", nowhere]].concat());
        said.with(3, &["cannot reach the API server"]);
    }
    std::fs::remove_dir_all(folder).expect("it goes");
}

#[test]
fn kubectl_finds_its_plugin() {
    test("kubectl_finds_its_plugin", async |case| {
        let user = User::admin(&case);
        std::os::unix::fs::symlink(PROGRAM, user.folder.join("kubectl-aw")).expect("a link");
        let kubectl = controlplane::build::tool(Tool::Kubectl).expect("kubectl is built");
        let plugin = |arguments: &[&str]| -> Said {
            let mut command = Command::new(&kubectl);
            command.arg("aw").args(arguments).env("PATH", &user.folder);
            command.env("KUBECONFIG", plane().kubeconfig()).output().expect("kubectl runs").into()
        };
        plugin(&["why"]).with(2, &["Usage: kubectl aw why"]);
        plugin(&["--help"]).with(0, &["Usage: kubectl aw <COMMAND>"]);
        let namespace = case.namespace.as_str();
        case.wrap("new", json!({}), vec![pod("p", &[])]).await;
        case.ready("new", 0).await;
        plugin(&["list", "-n", namespace]).with(0, &["new ", "Running"]);
        plugin(&["list", "-A"]).with(0, &["NAMESPACE ", namespace]);
        let advice = plugin(&["retry", "new", "-n", namespace]);
        let wait = format!("kubectl aw wait new -n {namespace} --for=Suspended, then ");
        advice.with(1, &[&wait, &format!("kubectl aw resume new -n {namespace}")]);
    });
}

/// The requests of a user, from the audit log.
fn requests(name: &str) -> Vec<String> {
    let log = INSTALLED.plane.audit_log().expect("it is kept");
    let log = std::fs::read_to_string(log).expect("it can be read");
    let events = log.lines().filter(|line| line.contains(name));
    let events = events.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let theirs = events.filter(|event| event["impersonatedUser"]["username"] == name);
    theirs.map(|event| format!("{} {}", event["verb"], event["requestURI"])).collect()
}

#[test]
fn the_reasons_take_at_most_ten_calls() {
    installed_test("the_reasons_take_at_most_ten_calls", async |case| {
        let name = "asks-for-reasons";
        let kubeconfig = INSTALLED.plane.kubeconfig_of(name, &["system:masters"]);
        let user = User::of(&case, &kubeconfig.expect("a kubeconfig"));
        Queue::of("aw-calls", 8).create(&case).await;
        let settings = tuned(&[("failureGracePeriodDuration", "0s"), ("retryLimit", "1")]);
        let life = [("run-for", "1s"), ("fail-until-attempt", "1"), ("exit-code", "3")];
        let workers = job("train", json!({"parallelism": 6, "completions": 6}), &life);
        case.create(queued("train", "aw-calls", settings, vec![workers])).await;
        case.phase("train", "Succeeded").await;
        user.run(&["why", "train"]).with(0, &["queue       aw-calls", "exit code 3"]);
        let calls = requests(name);
        assert!((1..=10).contains(&calls.len()), "{calls:#?}");
    });
}
