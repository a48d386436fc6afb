//! The commands with which a user follows, deletes and converts AppWrappers, against a real control plane.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::aw::{PROGRAM, Said, User};
use crate::harness::{Case, job, plane, pod, test, tuned, wrapper};
use crate::installed::kubectl;
use crate::objects::{config_map, service};

/// Starts a command whose output is read while it runs.
fn started(user: &User, arguments: &[&str]) -> Child {
    let mut command = user.command(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

fn first_line(child: &mut Child) -> String {
    let out = child.stdout.as_mut().expect("it is piped");
    // byte by byte, so that nothing of the next line is taken
    let mut line = String::new();
    BufReader::with_capacity(1, out).read_line(&mut line).expect("UTF-8");
    line.trim_end().to_owned()
}

/// All that a command said whose first line was read before.
fn ended(child: Child, first: &str) -> Said {
    let mut said: Said = child.wait_with_output().expect("it ends").into();
    said.out = format!("{first}\n{}", said.out);
    said
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn a_watch_has_a_line_for_each_change_and_ends_with_the_appwrapper() {
    test("a_watch_has_a_line_for_each_change_and_ends_with_the_appwrapper", async |case| {
        let user = User::admin(&case);
        user.run(&["watch", "none"]).with(1, &["/none not found"]);
        case.wrap("good", json!({}), vec![pod("p", &[])]).await;
        let mut watch = started(&user, &["watch", "good"]);
        let first = first_line(&mut watch);
        case.ready("good", 0).await;
        case.end_pod("p", "0").await;
        let said = ended(watch, &first).with(0, &["  Running", "attempt 0"]);
        let lines: Vec<&str> = said.out.lines().collect();
        assert!(lines.last().is_some_and(|line| line.contains("  Succeeded")), "{lines:?}");
        assert!(lines.windows(2).all(|two| two[0] != two[1]), "{lines:?}");
        assert!(!said.out.contains('\x1b'), "no terminal, no commands for one");

        let settings = tuned(&[("retryLimit", "1"), ("failureGracePeriodDuration", "0s")]);
        case.create(wrapper("bad", settings, vec![pod("bad-p", &[])])).await;
        let mut watch = started(&user, &["watch", "bad"]);
        let first = first_line(&mut watch);
        for attempt in 0..2 {
            case.ready("bad", attempt).await;
            case.end_pod("bad-p", "3").await;
        }
        let of = |name: &str| format!("AppWrapper {}/{name}", case.namespace);
        let cause = of("bad") + " has failed: pod bad-p, container main, exit code 3";
        // the decision about the first attempt waits for nothing: no line of Running could tell why
        let said = ended(watch, &first).with(1, &[&cause, "attempt 0  bad-p/main 3"]);
        assert!(said.out.contains("Resetting") && said.out.contains("attempt 1"), "{}", said.out);
        let json = user.run(&["watch", "bad", "-o", "json"]);
        let last = json.out.lines().last().expect("a line");
        let last: Value = serde_json::from_str(last).expect("JSON");
        assert_eq!((&last["phase"], &last["deleted"]), (&json!("Failed"), &json!(false)));

        case.wrap("long", json!({}), vec![pod("q", &[])]).await;
        case.ready("long", 0).await;
        let mut interrupted = started(&user, &["watch", "long"]);
        assert!(first_line(&mut interrupted).contains("pods running"));
        signal(&interrupted, "-INT");
        assert_eq!(interrupted.wait().expect("it ends").code(), Some(130));
        let mut deleted = started(&user, &["watch", "long"]);
        first_line(&mut deleted);
        case.delete_wrapper("long").await;
        let said: Said = deleted.wait_with_output().expect("it ends").into();
        said.with(1, &["  deleted", &(of("long") + " was deleted")]);
    });
}

/// A terminal is made by `script`, which every Linux with util-linux has.
#[test]
fn a_watch_draws_on_a_terminal_and_gives_it_back() {
    test("a_watch_draws_on_a_terminal_and_gives_it_back", async |case| {
        let user = User::admin(&case);
        case.wrap("seen", json!({}), vec![pod("p", &[])]).await;
        case.ready("seen", 0).await;
        let plain = user.command(&["watch", "seen"]);
        let words: Vec<String> = std::iter::once(plain.get_program())
            .chain(plain.get_args())
            .map(|word| format!("'{}'", word.to_str().expect("UTF-8")))
            .collect();
        let on_a_terminal = |line: &str| {
            let mut script = Command::new("script");
            script.args(["-qec", line, "/dev/null"]).env("NO_COLOR", "");
            script.env("COLUMNS", "100").env("LINES", "20");
            script.stdin(Stdio::null()).stdout(Stdio::piped());
            script
        };
        let line = words.join(" ");
        // it is ended by SIGTERM
        let ended = on_a_terminal(&format!("timeout 5 {line}")).output().expect("script runs");
        let shown = String::from_utf8_lossy(&ended.stdout);
        assert!(shown.contains("\x1b[?1049h"), "{shown:?}");
        assert!(shown.contains("\x1b[?25h\x1b[?1049l"), "{shown:?}");
        let child = on_a_terminal(&line).spawn();
        let mut child = child.expect("script runs");
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut shown = String::new();
        while !shown.contains("POD ") || !shown.contains("Running") {
            assert_ne!(out.read_line(&mut shown).expect("UTF-8"), 0, "{shown}");
        }
        case.end_pod("p", "0").await;
        out.read_to_string(&mut shown).expect("UTF-8");
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{shown}");
        let (_, after) = shown.rsplit_once("\x1b[?1049l").expect("the terminal is given back");
        assert!(shown.starts_with("\x1b[?1049h\x1b[?25l"), "{shown:?}");
        assert!(after.contains("Succeeded"), "the last picture stays: {after:?}");
    });
}

async fn finalizers(case: &Case, name: &str, finalizers: Value) {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    case.wrappers().patch(name, &PatchParams::default(), &patch).await.expect("it is there");
}

#[test]
fn a_deletion_waits_and_says_what_blocks_it() {
    test("a_deletion_waits_and_says_what_blocks_it", async |case| {
        let user = User::admin(&case);
        user.run(&["delete", "none"]).with(1, &["/none not found"]);
        user.run(&["delete", "none", "--no-wait", "--timeout=1s"])
            .with(2, &["cannot be used with"]);
        case.wrap("quick", json!({}), vec![job("j", json!({}), &[])]).await;
        case.ready("quick", 0).await;
        user.run(&["delete", "quick"]).with(0, &["quick was deleted"]);
        assert!(case.wrappers().get_opt("quick").await.expect("an answer").is_none());

        case.wrap("stuck", json!({}), vec![pod("p", &[("stuck", "")])]).await;
        case.ready("stuck", 0).await;
        let said = user.run(&["delete", "stuck", "--timeout=1s"]);
        said.with(
            1,
            &[
                "stuck was not deleted within 1s; waiting for:",
                "Pod/p on node node-",
                "Terminating",
            ],
        );
        let (json, code) = user.json(&["delete", "stuck", "--timeout=0"]);
        assert_eq!((code, &json["timedOut"]), (Some(1), &json!(true)), "{json}");
        assert!(json["waitingFor"][0].as_str().is_some_and(|it| it.starts_with("Pod/p")), "{json}");
        user.run(&["delete", "stuck", "--no-wait"]).with(0, &["is being deleted"]);
        let gone = started(&user, &["delete", "stuck"]);
        case.force_delete_pod("p").await;
        let said: Said = gone.wait_with_output().expect("it ends").into();
        said.with(0, &["stuck was deleted"]);

        case.wrap("kept", json!({}), vec![pod("q", &[])]).await;
        case.ready("kept", 0).await;
        let own = "workload.codeflare.dev/finalizer";
        finalizers(&case, "kept", json!([own, "example.com/keep"])).await;
        user.run(&["delete", "kept", "--no-wait"]).with(0, &[]);
        case.gone("Pod", "q").await;
        let last = case.until("only the other finalizer is left", |log| {
            let last = log.last("AppWrapper", "kept")?;
            let finalizers = &last.object["metadata"]["finalizers"];
            (*finalizers == json!(["example.com/keep"])).then_some(())
        });
        last.await;
        let said = user.run(&["delete", "kept", "--timeout=0"]);
        said.with(1, &["finalizers of the AppWrapper: example.com/keep"]);
        finalizers(&case, "kept", Value::Null).await;
        case.gone("AppWrapper", "kept").await;
    });
}

#[test]
fn manifests_become_an_appwrapper_that_runs_and_manifests_again() {
    test("manifests_become_an_appwrapper_that_runs_and_manifests_again", async |case| {
        let user = User::admin(&case);
        let folder = plane().state_dir().join("wrap");
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("all.yaml");
        let mut train = job("train", json!({"suspend": true}), &[("run-for", "1s")]);
        train["metadata"]["namespace"] = case.namespace.clone().into();
        let given = [config_map("settings"), service("head"), train];
        let documents: Vec<String> = given.iter().map(ToString::to_string).collect();
        std::fs::write(&file, documents.join("\n---\n")).expect("it is written");
        let run = |arguments: &[&str]| -> Said {
            let mut command = Command::new(PROGRAM);
            command.args(arguments).output().expect("the program runs").into()
        };
        let path = file.to_str().expect("a path");
        let wrapped = run(&["wrap", "-f", path]).with(0, &["Job/train: spec.suspend is left out"]);
        let manifest = folder.join("wrapped.yaml");
        std::fs::write(&manifest, &wrapped.out).expect("it is written");
        let manifest = manifest.to_str().expect("a path");
        run(&["validate", manifest]).with(0, &["1 valid, 0 invalid"]);
        let created = kubectl(plane().kubeconfig(), &["create", "-f", manifest], &[]);
        created.expect("the API server takes it");
        user.run(&["wait", "train", "--for=Succeeded", "--timeout=2m"])
            .with(0, &["train reached phase Succeeded"]);

        let back = run(&["unwrap", "-f", manifest, "-o", "json"]).with(0, &[]);
        let back: Value = serde_json::from_str(&back.out).expect("JSON");
        let kinds: Vec<&Value> = (0..3).map(|index| &back["items"][index]["kind"]).collect();
        assert_eq!(kinds, ["ConfigMap", "Service", "Job"]);
        assert_eq!(back["items"][0]["metadata"]["namespace"], case.namespace);
        let queued =
            run(&["wrap", "-f", path, "-q", "gpu", "--name", "mine", "-o", "json"]).with(0, &[]);
        let queued: Value = serde_json::from_str(&queued.out).expect("JSON");
        assert_eq!(queued["metadata"]["name"], "mine");
        assert_eq!(queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "gpu");

        let bad = folder.join("bad.yaml");
        let mut owned = config_map("owned");
        owned["metadata"]["ownerReferences"] =
            json!([{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]);
        let ours = wrapper("aw", json!({}), vec![]);
        std::fs::write(&bad, format!("{owned}\n---\n{ours}")).expect("it is written");
        run(&["wrap", "-f", bad.to_str().expect("a path")])
            .with(1, &["cannot be wrapped", "note: ConfigMap/owned: ReplicaSet/r created it"]);
        std::fs::write(&bad, format!("{}\n---\n{}", given[0], given[0])).expect("it is written");
        let said = run(&["wrap", "-f", bad.to_str().expect("a path")]);
        let said = said.with(1, &["document 2", "ConfigMap/settings: spec.components[1]"]);
        assert_eq!(said.out, "", "nothing that is invalid is printed");
        run(&["wrap", "-f", "/nowhere.yaml"]).with(2, &["/nowhere.yaml"]);
        run(&["unwrap", "-f", path]).with(1, &["is not an AppWrapper"]);
    });
}

#[test]
fn shells_and_kubectl_complete_commands_and_live_names() {
    test("shells_and_kubectl_complete_commands_and_live_names", async |case| {
        let user = User::admin(&case);
        for name in ["train-a", "train-b", "other"] {
            let mut object = wrapper(name, json!({}), vec![pod(&format!("{name}-p"), &[])]);
            object["spec"]["suspend"] = true.into();
            case.create(object).await;
        }
        let kubeconfig = plane().kubeconfig().to_str().expect("a path").to_owned();
        let link = user.folder.join("kubectl_complete-aw");
        std::os::unix::fs::symlink(PROGRAM, &link).expect("a link");
        let words = ["why", "--kubeconfig", &kubeconfig, "-n", &case.namespace, "tr"];
        let said: Said = Command::new(&link).args(words).output().expect("it runs").into();
        assert_eq!(said.with(0, &[]).out, "train-a\ntrain-b\n:4\n");
        let words = ["why", "--kubeconfig", &kubeconfig, "-n", &case.namespace, "aw/tr"];
        let said: Said = Command::new(&link).args(words).output().expect("it runs").into();
        assert_eq!(said.with(0, &[]).out, "aw/train-a\naw/train-b\n:4\n");
        let words = ["why", "-n", &case.namespace, "tr"];
        let said: Said = Command::new(&link)
            .args(words)
            .env("KUBECONFIG", "/nowhere")
            .output()
            .expect("it runs")
            .into();
        assert_eq!(said.with(0, &[]).out, ":4\n", "without a cluster, there are no names");

        for shell in ["bash", "zsh", "fish"] {
            let script: Said =
                Command::new(PROGRAM).args(["completion", shell]).output().expect("it runs").into();
            script.with(0, &["APPWRAPPER_COMPLETE", "appwrapper"]);
        }
        let folder = std::path::Path::new(PROGRAM).parent().expect("a folder").display();
        let typed = format!("appwrapper why --kubeconfig {kubeconfig} -n {} tr", case.namespace);
        let script = format!(
            "PATH={folder}:$PATH; source <(appwrapper completion bash)
            COMP_LINE='{typed}'; COMP_WORDS=($COMP_LINE); COMP_CWORD=6; COMP_TYPE=9
            _clap_complete_appwrapper appwrapper tr -n; printf '%s ' \"${{COMPREPLY[@]}}\""
        );
        let bash: Said = Command::new("bash").args(["-c", &script]).output().expect("bash").into();
        assert_eq!(bash.out.trim(), "train-a train-b", "{}", bash.err);
    });
}

/// The flags of a command, as its help names them.
fn flags(command: &str) -> String {
    let said: Said =
        Command::new(PROGRAM).args([command, "--help"]).output().expect("it runs").into();
    said.with(0, &[]).out
}

#[test]
fn the_plugins_of_k9s_call_commands_that_there_are() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/config/k9s/plugins.yaml");
    let text = std::fs::read_to_string(file).expect("it can be read");
    let file: Value = serde_saphyr::from_str(&text).expect("YAML");
    let plugins = file["plugins"].as_object().expect("plugins");
    let mut keys = std::collections::BTreeSet::new();
    for (name, plugin) in plugins {
        assert!(keys.insert(plugin["shortCut"].to_string()), "{name}: its key has another plugin");
        assert_eq!(plugin["scopes"], json!(["appwrappers"]), "{name}");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let args: Vec<String> =
            plugin["args"].as_array().expect("a list").iter().map(text).collect();
        let words = match text(&plugin["command"]).as_str() {
            "kubectl-aw" => &args[..],
            "sh" => {
                assert_eq!((args[0].as_str(), args[2].as_str()), ("-c", "kubectl-aw"), "{name}");
                // what k9s puts in is never part of a shell script
                assert!(args[1].contains("\"$0\" \"$@\"") && !args[1].contains("$NAME"), "{name}");
                &args[3..]
            }
            other => panic!("{name}: {other}"),
        };
        let help = flags(&words[0]);
        for flag in words.iter().filter(|word| word.starts_with('-')) {
            let is_known = help.contains(&format!("{flag},"))
                || help.contains(&format!("{flag} "))
                || help.contains(&format!("{flag}\n"));
            assert!(is_known, "{name}: {} has no {flag}", words[0]);
        }
        for variable in ["$NAME", "$NAMESPACE", "$CONTEXT"] {
            assert!(words.iter().any(|word| word == variable), "{name}: {variable}");
        }
        let changes = ["suspend", "resume", "retry", "delete"].contains(&words[0].as_str());
        assert_eq!(
            plugin["confirm"] == json!(true),
            changes,
            "{name}: what changes something asks"
        );
    }
    assert!(plugins.len() >= 5, "the plugins were found");
}
