//! What others wrote, where people and machines read it: terminals, events, conditions, labels of metrics.

use std::io::Write;
use std::process::{Command, Stdio};

use futures::StreamExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Case, job, page, plane, pod, test, tuned, wrapper};
use crate::installed::installed_test;
use crate::kueue::{Queue, queued};

/// A text that commands a terminal, and holds a line of its own.
const HOSTILE: &str = "out of luck\x1b[2J\nerror: forged\r\u{202e}";

/// Exit code, standard output and standard error of the program.
fn program(arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_appwrapper"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("it was piped");
    let input = input.to_owned();
    // a program that does not read is no error
    let writing = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().expect("the program ends");
    writing.join().expect("the thread ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The same as a user of the cluster, in the namespace of a test.
fn kubectl_aw(case: &Case, arguments: &[&str]) -> (Option<i32>, String, String) {
    let kubeconfig = plane().kubeconfig().display().to_string();
    program(&[arguments, &["-n", &case.namespace, "--kubeconfig", &kubeconfig]].concat(), "")
}

fn is_printable(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || (!c.is_control() && c != '\u{202e}'))
}

#[test]
fn what_a_pod_says_commands_no_terminal() {
    test("what_a_pod_says_commands_no_terminal", async |case| {
        let life = [("run-for", "1s"), ("exit-code", "3"), ("message", HOSTILE), ("reason", "Odd")];
        let settings = tuned(&[("retryLimit", "1"), ("failureGracePeriodDuration", "0s")]);
        case.wrap("bad", settings, vec![pod("bad-p", &life)]).await;
        case.condition("bad", "QuotaReserved", "False").await;
        let event = case.warning("bad", "Failed").await;
        assert!(event.contains("out of luck\\u{1b}[2J\\nerror: forged\\r\\u{202e}"), "{event:?}");
        let log = case.log();
        let messages = log.of("AppWrapper", "bad").flat_map(|seen| {
            let conditions = seen.object["status"]["conditions"].as_array();
            conditions.into_iter().flatten().map(|condition| condition["message"].as_str())
        });
        let messages: Vec<&str> = messages.flatten().collect();
        assert!(messages.iter().any(|message| message.contains("out of luck")), "{messages:?}");
        for message in messages.into_iter().chain([event.as_str()]) {
            assert!(is_printable(message) && !message.contains('\n'), "{message:?}");
        }
        for command in ["why", "attempts", "list", "tree"] {
            let name: &[&str] = if command == "list" { &[] } else { &["bad"] };
            let (code, said, _) = kubectl_aw(&case, &[&[command], name].concat());
            assert_eq!(code, Some(0), "{command}: {said}");
            assert!(is_printable(&said), "{command}: {said:?}");
            assert!(!said.lines().any(|line| line.starts_with("error: forged")), "{said}");
        }
    });
}

#[test]
fn a_template_with_fields_of_the_server_is_refused() {
    installed_test("a_template_with_fields_of_the_server_is_refused", async |case| {
        for (field, value) in [
            ("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            ("creationTimestamp", json!("2026-01-01T00:00:00Z")),
            ("deletionGracePeriodSeconds", json!(5)),
            ("generation", json!(3)),
            ("selfLink", json!("/api/v1/pods/x")),
        ] {
            let mut template = job("j", json!({}), &[]);
            template["metadata"][field] = value;
            let refused = case.try_create(wrapper("aw", json!({}), vec![template])).await;
            let error = refused.expect_err(field).to_string();
            let path = format!("spec.components[0].template.metadata.{field}: ");
            assert!(error.contains(&path) && error.contains("must be left out"), "{error}");
        }
    });
}

/// A value of the page by name and labels, zero where there is none.
fn value(page: &str, series: &str) -> u64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn junk_queue_names_take_no_label_from_a_real_queue() {
    const JUNK: usize = 1_010;
    test("junk_queue_names_take_no_label_from_a_real_queue", async |case| {
        let real = "zz-real-queue";
        Queue::of(real, 1).create(&case).await;
        let template = || vec![pod("p", &[("run-for", "10m")])];
        let junk =
            |n: usize| queued(&format!("junk-{n}"), &format!("junk-{n}"), json!({}), template());
        // one user may not create so many at once: a client waits, and tries again
        let create = async |n: usize| {
            while let Err(error) = case.try_create(junk(n)).await {
                assert!(
                    matches!(&error, kube::Error::Api(status) if status.code == 429),
                    "{error}"
                );
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
        };
        let creates = (0..JUNK).map(create);
        futures::stream::iter(creates).buffer_unordered(8).for_each(async |()| {}).await;
        case.until("all of them looked at", |log| {
            let mut seen = std::collections::BTreeSet::new();
            seen.extend(
                log.all("AppWrapper").filter(|it| it.phase() == "Suspended").map(|it| &it.name),
            );
            (seen.len() >= JUNK).then_some(())
        })
        .await;
        let before = page().await;
        assert!(!before.contains("queue=\"junk-"), "junk has a label");
        let others = value(&before, "appwrapper_appwrappers{phase=\"Suspended\",queue=\"other\"}");
        assert!(others >= 1_010, "{others}");
        case.create(queued("aw", real, json!({}), template())).await;
        case.phase("aw", "Running").await;
        let after = page().await;
        let series = format!("appwrapper_appwrappers{{phase=\"Running\",queue=\"{real}\"}}");
        assert_eq!(value(&after, &series), 1, "{after}");
        let (all, params) = (ListParams::default(), DeleteParams::background());
        case.wrappers().delete_collection(&params, &all).await.expect("they are deleted");
        case.gone("AppWrapper", "aw").await;
    });
}

#[test]
fn retry_tells_the_pause_of_the_cluster() {
    test("retry_tells_the_pause_of_the_cluster", async |case| {
        // the same as the controller of the tests has
        let settings =
            json!({"data": {"appwrapper.yaml": "faultTolerance: {retryPausePeriod: 0s}"}});
        let resource = kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let maps: kube::Api<kube::api::DynamicObject> =
            kube::Api::namespaced_with(case.client.clone(), "appwrapper-system", &resource);
        let (params, patch) = (PatchParams::default(), Patch::Merge(settings));
        maps.patch("appwrapper-config", &params, &patch).await.expect("the manifests have it");
        let settings = tuned(&[
            ("failureGracePeriodDuration", "0s"),
            ("forcefulDeletionGracePeriodDuration", "20s"),
            ("retryLimit", "1"),
        ]);
        let fails = pod("fails", &[("run-for", "2s"), ("exit-code", "3")]);
        let stays = pod("stays", &[("run-for", "10m"), ("stuck", "")]);
        case.wrap("aw", settings, vec![fails, stays]).await;
        case.phase("aw", "Resetting").await;
        let (code, said, error) = kubectl_aw(&case, &["retry", "aw"]);
        assert_eq!(code, Some(0), "{said}{error}");
        assert!(
            said.contains("its next attempt begins when all its resources are deleted\n"),
            "{said}"
        );
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
    });
}

const GOOD: &str = "
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: train, namespace: ns}
spec:
  components:
  - template:
      apiVersion: v1
      kind: Pod
      metadata: {name: p}
      spec: {containers: [{name: c, image: i}], restartPolicy: Never}
";

#[test]
fn no_line_is_forged_by_a_manifest() {
    let forged = "a\\e[2J\\nstdin: AppWrapper ns/b: valid\\r\\u202e";
    let name = GOOD.replace("name: train", &format!("name: \"{forged}\""));
    let kind = format!("kind: \"{forged}\"\nmetadata: {{name: x}}\n");
    let text = format!("{name}---\n{kind}---{GOOD}");
    let (code, said, error) = program(&["validate", "-"], &text);
    assert_eq!(code, Some(1), "{said}{error}");
    assert!(is_printable(&said), "{said:?}");
    assert!(said.contains("a\\u{1b}[2J\\nstdin: AppWrapper ns/b: valid\\r\\u{202e}"), "{said}");
    let valid: Vec<&str> = said.lines().filter(|line| line.ends_with(": valid")).collect();
    assert_eq!(valid, ["stdin, document 3 (line 16): AppWrapper ns/train: valid"], "{said}");
    for arguments in [&["explain", "-f", "-"][..], &["demo", "-"]] {
        let (_, said, error) = program(arguments, &text);
        assert!(is_printable(&said) && is_printable(&error), "{arguments:?}: {said:?} {error:?}");
        assert!(!error.lines().any(|line| line.starts_with("stdin: AppWrapper ns/b")), "{error}");
    }
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let crd = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_appwrapper"));
        command.arg("crd").stderr(Stdio::piped());
        command
    };
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = crd().stdout(full).output().expect("the program ends");
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.starts_with("error: cannot write to standard output: "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");

    let mut child = crd().stdout(Stdio::piped()).spawn().expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]), "like `| head`");
}

#[test]
fn a_watch_that_nobody_reads_ends() {
    test("a_watch_that_nobody_reads_ends", async |case| {
        case.wrap("unread", json!({}), vec![pod("unread-p", &[])]).await;
        let kubeconfig = plane().kubeconfig().display().to_string();
        let mut watch = Command::new(env!("CARGO_BIN_EXE_appwrapper"));
        watch.args(["watch", "unread", "-n", &case.namespace, "--kubeconfig", &kubeconfig]);
        watch.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = watch.spawn().expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!((output.status.code(), output.stderr), (Some(141), vec![]));
    });
}

#[test]
fn what_is_wrong_with_a_file_is_one_clear_error() {
    let twice = r#"{"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {"name": "a"}, "spec": {"suspend": true}, "spec": {"components": []}}"#;
    let mut labels = String::new();
    for n in 0..60_000 {
        labels += &format!("    l{n}: 1\n");
    }
    let labels = GOOD
        .replace("{name: train, namespace: ns}", &format!("\n  name: train\n  labels:\n{labels}"));
    let values = format!("kind: A\nx: [{}1]\n", "1,".repeat(3_000_001));
    for (input, code, want) in [
        (twice, 1, "duplicate field \"spec\""),
        (
            &labels,
            1,
            "metadata.labels: Invalid value: \"348890 bytes\": must total at most 32768 bytes",
        ),
        (&GOOD.replace("namespace: ns", "labels: {l0: 1}"), 1, "metadata.labels[l0]"),
        (&values, 1, "at most 3000000 values are read"),
    ] {
        let (is, said, error) = program(&["validate", "-"], input);
        assert_eq!(is, Some(code), "{error}");
        assert!(said.contains(want), "{}", &said[..said.len().min(500)]);
        let (is, _, error) = program(&["explain", "-f", "-"], input);
        assert_eq!(is, Some(2), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let (_, _, error) = program(&["explain", "-f", "-"], &labels);
    assert!(
        error.contains("metadata.labels.l0: invalid type: integer `1`, expected a string"),
        "{error}"
    );
}

#[test]
fn a_demo_of_a_hostile_manifest_ends_with_an_error() {
    let with = |template: Value| {
        let mut object: Value = serde_saphyr::from_str(GOOD).expect("YAML");
        object["spec"]["components"][0]["template"] = template;
        object["spec"]["components"][0]["podSets"] = json!([{"path": "template.spec.template"}]);
        object.to_string()
    };
    let pods =
        |metadata: Value| json!({"metadata": metadata, "spec": {"containers": [{"name": "c"}]}});
    let unknown = |metadata: Value| {
        with(
            json!({"apiVersion": "x.io/v1", "kind": "FooJob", "metadata": {"name": "f"}, "spec": {"template": pods(metadata)}}),
        )
    };
    let raw = |template: Value| {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}});
        format!("{GOOD}---\n{job}")
    };
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": 3}});
    let counted = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"parallelism": 1_000_000, "template": pods(json!({}))}});
    for (name, input) in [
        ("metadata of an unknown kind", unknown(json!("boo"))),
        ("annotations of an unknown kind", unknown(json!({"annotations": "boo"}))),
        ("metadata of pods", raw(pods(json!("boo")))),
        ("labels of pods", raw(pods(json!({"labels": ["boo"]})))),
        ("no template", raw(json!("boo"))),
        ("labels of a node", format!("{GOOD}---\n{node}")),
        ("a million pods", format!("{GOOD}---\n{counted}")),
    ] {
        let (code, said, error) = program(&["demo", "-"], &input);
        assert!(!error.contains("panicked"), "{name}: {error}");
        assert!(matches!(code, Some(0..=2)), "{name}: {code:?} {said}{error}");
    }
}
