use serde_json::json;

use super::*;

fn deployment(image: &str, args: &[&str]) -> Deployment {
    let volume = json!([
        {"name": "cert", "secret": {"secretName": "kueue-webhook-server-cert"}},
        {"name": "manager-config", "configMap": {"name": "team-kueue-manager-config"}},
    ]);
    let containers = json!([
        {"name": "proxy", "image": "proxy:v9.9.9", "args": ["--feature-gates=A=false"]},
        {"name": "manager", "image": image, "command": ["/manager"], "args": args},
    ]);
    serde_json::from_value(json!({"spec": {
        "selector": {},
        "template": {"spec": {"containers": containers, "volumes": volume}},
    }}))
    .unwrap()
}

const IMAGE: &str = "registry.k8s.io/kueue/kueue:v0.18.3";
const CONFIG: &str = "--config=/controller_manager_config.yaml";

#[test]
fn the_account_says_where_kueue_is() {
    for (account, want) in [
        (
            "system:serviceaccount:kueue-system:kueue-controller-manager",
            "Deployment kueue-system/kueue-controller-manager",
        ),
        (
            "system:serviceaccount:batch:q-controller-manager",
            "Deployment batch/q-controller-manager",
        ),
        ("kueue", "Deployment kueue-system/kueue-controller-manager"),
        ("system:serviceaccount:x", "Deployment kueue-system/kueue-controller-manager"),
    ] {
        assert_eq!(Place::of(account).manager(), want);
    }
}

#[test]
fn the_deployment_says_version_gates_and_configuration() {
    for (args, gates, config_map) in [
        (vec![CONFIG, "--zap-log-level=2"], None, Some("team-kueue-manager-config")),
        (vec!["--zap-log-level=2"], None, None),
        (
            vec![CONFIG, "--feature-gates=FinishOrphanedWorkloads=false, B=1"],
            Some(vec![("FinishOrphanedWorkloads", false), ("B", true)]),
            Some("team-kueue-manager-config"),
        ),
        (vec!["-feature-gates", "A=true,B,C=x"], Some(vec![("A", true)]), None),
        (vec!["--feature-gates=A=true", "--feature-gates=A=false"], Some(vec![("A", false)]), None),
        (vec!["--feature-gates="], None, None),
        (vec!["--feature-gates"], None, None),
    ] {
        let want = Manager {
            image: IMAGE.to_owned(),
            version: Some(Version::new(0, 18, 3)),
            account: None,
            gates: gates.map(|gates: Vec<(&str, bool)>| {
                gates.into_iter().map(|(gate, value)| (gate.to_owned(), value)).collect()
            }),
            config_map: config_map.map(str::to_owned),
        };
        assert_eq!(Manager::of(&deployment(IMAGE, &args)), want, "{args:?}");
    }
    let empty = Manager::of(&Deployment::default());
    assert_eq!((empty.version, empty.gates, empty.config_map), (None, None, None));
}

/// The manifests of Kueue 0.18, with a section or two that is commented out there.
fn file(more: &str) -> String {
    format!(
        r#"
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health:
  healthProbeBindAddress: :8081
metrics:
  bindAddress: :8443
webhook:
  port: 9443
leaderElection:
  leaderElect: true
  resourceName: c1f6bfd2.kueue.x-k8s.io
controller:
  groupKindConcurrency:
    Job.batch: 5
    Workload.kueue.x-k8s.io: 5
clientConnection:
  qps: 50
  burst: 100
#waitForPodsReady:
#  timeout: 5m
integrations:
  frameworks:
  - "batch/job"
  - "jobset.x-k8s.io/jobset"
  - "workload.codeflare.dev/appwrapper"
  - "pod"
{more}"#
    )
}

fn period(text: &str) -> Period {
    text.parse().unwrap()
}

#[test]
fn waiting_for_pods_has_the_defaults_of_its_version() {
    let v18 = Some(Version::new(0, 18, 3));
    let v19 = Some(Version::new(0, 19, 0));
    let section = |text: &str| file(&format!("waitForPodsReady: {text}"));
    let old = |text: &str| section(text).replace("v1beta2", "v1beta1");
    let disabled =
        |text: &str| file(&format!("featureGates: {{DisableWaitForPodsReady: true}}\n{text}"));
    for (file, version, want) in [
        (file(""), v18, None),
        (file(""), None, None),
        (file(""), v19, Some(("30m", Some("30m")))),
        (section("{timeout: 5m}"), v18, Some(("5m", Some("5m")))),
        (section("{timeout: 5m}"), None, Some(("5m", Some("5m")))),
        (section("{timeout: 5m}"), v19, Some(("5m", Some("5m")))),
        (section("{timeout: 1h30m, recoveryTimeout: 3m}"), v18, Some(("90m", Some("3m")))),
        (section("{timeout: 5m, recoveryTimeout: 0s}"), v18, Some(("5m", None))),
        (section("{recoveryTimeout: 3m}"), v19, Some(("30m", Some("3m")))),
        (section("{recoveryTimeout: 3m}"), v18, None),
        (section("{}"), v18, None),
        (disabled(""), v19, None),
        (disabled("waitForPodsReady: {timeout: 5m}"), v19, None),
        (disabled("waitForPodsReady: {enable: true}").replace("v1beta2", "v1beta1"), v19, None),
        (old("{enable: true}"), v18, Some(("5m", Some("5m")))),
        (old("{enable: yes}"), v18, Some(("5m", Some("5m")))),
        (old("{enable: true, timeout: 10m}"), v18, Some(("10m", Some("10m")))),
        (old("{timeout: 10m}"), v18, None),
        (old("{timeout: 10m}"), v19, None),
    ] {
        let settings = Settings::parse(&file).unwrap();
        let want = want.map(|(timeout, recovery)| WaitForPodsReady {
            timeout: period(timeout),
            recovery_timeout: recovery.map(period),
        });
        assert_eq!(settings.pods_ready(version, &settings.gates), want, "{version:?}{file}");
    }
}

#[test]
fn what_is_wrong_with_the_file_is_said() {
    for (text, want) in [
        ("{", "invalid YAML: "),
        (
            "waitForPodsReady: {timeout: soon}",
            "waitForPodsReady.timeout: \"soon\" is not a duration",
        ),
        ("waitForPodsReady: {recoveryTimeout: 5}", "waitForPodsReady.recoveryTimeout: 5 is not"),
    ] {
        let error = Settings::parse(text).unwrap_err();
        assert!(error.starts_with(want), "{error}");
    }
}

fn judged(manager: Reading<Manager>, settings: Reading<Settings>) -> Vec<String> {
    judged_as("system:serviceaccount:kueue-system:kueue-controller-manager", manager, settings)
}

#[expect(clippy::needless_pass_by_value, reason = "tests hand in what they have just read")]
fn judged_as(account: &str, manager: Reading<Manager>, settings: Reading<Settings>) -> Vec<String> {
    let notices = judge(account, &manager, &settings, &FaultTolerance::default());
    notices.iter().map(ToString::to_string).collect()
}

#[test]
fn an_account_that_is_not_kueues_is_said() {
    let held = file("featureGates: {FinishOrphanedWorkloads: false}");
    let right = "system:serviceaccount:kueue-system:kueue-controller-manager";
    for (account, runs_as, is_said) in [
        (right, Some("kueue-controller-manager"), false),
        (right, None, false),
        (right, Some("kueue"), true),
        ("kueue-controller-manager", Some("kueue-controller-manager"), true),
        ("system:serviceaccount:kueue-controller-manager", Some("kueue-controller-manager"), true),
    ] {
        let mut deployment = deployment(IMAGE, &[CONFIG]);
        let pod = deployment.spec.as_mut().and_then(|spec| spec.template.spec.as_mut());
        pod.unwrap().service_account_name = runs_as.map(str::to_owned);
        let said = judged_as(account, Ok(Manager::of(&deployment)), Settings::parse(&held));
        assert_eq!(said.len(), usize::from(is_said), "{account} {runs_as:?}: {said:#?}");
        if let Some(said) = said.first() {
            let own = format!("system:serviceaccount:kueue-system:{}", runs_as.unwrap());
            let want = format!("runs as {own}, but admission.kueueAccount is {account}: ");
            assert!(said.contains(&want), "{said}");
        }
    }
}

#[test]
fn kueue_as_it_comes_releases_quota_too_early() {
    let manager = Manager::of(&deployment(IMAGE, &[CONFIG]));
    let said = judged(Ok(manager), Settings::parse(&file("")));
    let want = "Kueue 0.18.3 releases the quota of a deleted AppWrapper immediately, while its \
                pods still run, and admits other workloads: set FinishOrphanedWorkloads to false \
                in featureGates of ConfigMap kueue-system/team-kueue-manager-config and restart Kueue";
    assert_eq!(said, [want]);
}

#[test]
fn admission_that_is_blocked_while_pods_are_not_ready_is_said() {
    let held = "featureGates: {FinishOrphanedWorkloads: false}";
    let section = |text: &str| file(&format!("{held}\nwaitForPodsReady: {text}"));
    let old = |text: &str| section(text).replace("v1beta2", "v1beta1");
    let want = "Kueue admits no other workload while an AppWrapper restarts, or is kept after a \
                failure: set waitForPodsReady.blockAdmission of ConfigMap \
                kueue-system/team-kueue-manager-config to false (it defaults to true in v1beta1) \
                and restart Kueue";
    for (text, is_blocked) in [
        (section("{timeout: 30m}"), false),
        (section("{timeout: 30m, blockAdmission: false}"), false),
        (section("{timeout: 30m, blockAdmission: true}"), true),
        (old("{enable: true, timeout: 30m}"), true),
        (old("{enable: true, timeout: 30m, blockAdmission: false}"), false),
        (old("{enable: false, blockAdmission: true}"), false),
        (old("{timeout: 30m}"), false),
    ] {
        let manager = Manager::of(&deployment(IMAGE, &[CONFIG]));
        let said = judged(Ok(manager), Settings::parse(&text));
        assert_eq!(said, vec![want; usize::from(is_blocked)], "{text}");
    }
}

#[test]
fn a_kueue_that_is_too_old_is_to_be_upgraded() {
    let with = file("featureGates: {FinishOrphanedWorkloads: false}");
    let without = with.replace("  - \"workload.codeflare.dev/appwrapper\"\n", "");
    let add = "add workload.codeflare.dev/appwrapper to integrations.frameworks";
    for (tag, file, old, lacks) in [
        ("v0.10.2", &without, Some("0.10.2"), false),
        ("v0.11.0", &without, Some("0.11.0"), true),
        ("v0.16.5", &without, Some("0.16.5"), true),
        ("v0.16.5", &with, Some("0.16.5"), false),
        ("v0.18.0", &without, None, true),
        ("v0.18.0", &with, None, false),
        ("main", &without, None, true),
    ] {
        let manager = Manager::of(&deployment(&format!("kueue:{tag}"), &[CONFIG]));
        let said = judged(Ok(manager), Settings::parse(file));
        let old = old.map(|version| {
            format!(
                "Kueue {version} is installed; this controller needs 0.18 or newer: upgrade Kueue"
            )
        });
        let is_old = |notice: &&String| notice.contains("is installed");
        assert_eq!(said.iter().find(is_old), old.as_ref(), "{tag}: {said:#?}");
        assert_eq!(said.iter().any(|notice| notice.contains(add)), lacks, "{tag}: {said:#?}");
        let count = usize::from(old.is_some()) + usize::from(lacks);
        assert_eq!(said.len(), count, "{tag}: {said:#?}");
    }
}

#[test]
fn kinds_whose_pods_kueue_admits_by_themselves_are_said() {
    let volcano = "Job.v1alpha1.batch.volcano.sh";
    let mpi = "MPIJob.v1.kubeflow.org";
    let held = "featureGates: {FinishOrphanedWorkloads: false}";
    let all = format!("manageJobsWithoutQueueName: true\n{held}");
    let with = |names: &str, more: &str| file(&format!("  externalFrameworks: [{names}]\n{more}"));
    for (text, want) in [
        (file(held), None),
        (file(&all), Some(format!("add {volcano} and {mpi} to integrations.externalFrameworks"))),
        (file(&all).replace("  - \"pod\"\n", ""), None),
        (with(volcano, &all), Some(format!("add {mpi} to integrations.externalFrameworks of"))),
        (with(&format!("{volcano}, {mpi}"), &all), None),
    ] {
        let manager = Manager::of(&deployment(IMAGE, &[CONFIG]));
        let said = judged(Ok(manager), Settings::parse(&text));
        assert_eq!(said.len(), usize::from(want.is_some()), "{said:#?}{text}");
        let is_said = |want: String| said.iter().any(|notice| notice.contains(&want));
        assert!(want.is_none_or(is_said), "{said:#?}");
    }
}

#[test]
fn each_thing_that_is_off_is_one_notice() {
    let held = "featureGates: {FinishOrphanedWorkloads: false}";
    let flags = [CONFIG, "--feature-gates=VisibilityOnDemand=false"];
    let with = |args: &[&str]| Manager::of(&deployment(IMAGE, args));
    let without = file(held).replace("  - \"workload.codeflare.dev/appwrapper\"\n", "");
    for (manager, text, want) in [
        (with(&[CONFIG]), file(held), vec![]),
        // those of the command line count, and there they must be changed
        (
            with(&flags),
            file(""),
            vec![
                "in --feature-gates of Deployment kueue-system/kueue-controller-manager and restart",
            ],
        ),
        (
            with(&[CONFIG]),
            without,
            vec!["add workload.codeflare.dev/appwrapper to integrations.frameworks"],
        ),
        (
            with(&[CONFIG]),
            file(&format!("{held}\nwaitForPodsReady: {{timeout: 5m, recoveryTimeout: 3m}}")),
            vec!["raise waitForPodsReady.timeout of", "raise waitForPodsReady.recoveryTimeout of"],
        ),
        (
            Manager::of(&deployment("kueue:main", &[CONFIG])),
            file(""),
            vec![
                r#"cannot determine the version of Kueue from its image "kueue:main": since 0.18"#,
            ],
        ),
        (Manager::of(&deployment("kueue:main", &[CONFIG])), file(held), vec![]),
    ] {
        let said = judged(Ok(manager), Settings::parse(&text));
        assert_eq!(said.len(), want.len(), "{said:#?}");
        for (said, want) in said.iter().zip(want) {
            assert!(said.contains(want), "{said}");
        }
    }
    // without a configuration it runs with its defaults: Jobs alone
    let said = judged(Ok(with(&[])), Ok(Settings::default()));
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(said[0].contains("in the flag --feature-gates of Deployment"), "{said:#?}");
    assert!(said[1].contains("integrations.frameworks"), "{said:#?}");
}

fn no<T>() -> Reading<T> {
    Err("not found".to_owned())
}

#[test]
fn what_cannot_be_read_is_one_notice_and_the_rest_is_judged() {
    let both = judged(no(), no());
    let want = "Kueue is installed, but the controller cannot read Deployment \
                kueue-system/kueue-controller-manager (not found) and ConfigMap \
                kueue-system/kueue-manager-config (not found), and so cannot check whether Kueue \
                keeps the quota of a deleted AppWrapper and whether Kueue's timeouts fit: allow the \
                controller to get them, or set admission.kueueAccount to Kueue's service account";
    assert_eq!(both, [want]);
    let manager = || Ok(Manager::of(&deployment(IMAGE, &[CONFIG])));
    let no_file = judged(manager(), no());
    assert_eq!(no_file.len(), 1, "{no_file:#?}");
    assert!(no_file[0].contains("team-kueue-manager-config (not found)"), "{no_file:#?}");
    // the gate that is set is known without a version, and so are the timeouts
    let text =
        file("featureGates: {FinishOrphanedWorkloads: true}\nwaitForPodsReady: {timeout: 5m}");
    let no_manager = judged(no(), Settings::parse(&text));
    assert_eq!(no_manager.len(), 4, "{no_manager:#?}");
    assert!(no_manager[1].starts_with("Kueue releases the quota"), "{no_manager:#?}");
    assert_eq!(judged(no(), Settings::parse(&file(""))).len(), 1);
}
