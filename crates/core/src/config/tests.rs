use super::*;

fn problems(text: &str) -> Vec<String> {
    match Config::parse(text) {
        Ok(_) => vec![],
        Err(errors) => errors.to_string().lines().map(str::to_owned).collect(),
    }
}

#[test]
fn the_file_in_the_repository_lists_the_defaults() {
    let text = include_str!("../../../../config/appwrapper.yaml");
    assert_eq!(Config::parse(text), Ok(Config::default()));
}

#[test]
fn an_empty_file_is_the_default() {
    for text in ["", "\n", "# nothing\n", "{}", "faultTolerance:\n", "autopilot: {resourceTaints:}"]
    {
        assert_eq!(Config::parse(text), Ok(Config::default()), "{text:?}");
    }
}

/// Every key, with another value than the default's.
const EVERY_KEY: &str = r#"
faultTolerance: {admissionGracePeriod: 1s, warmupGracePeriod: 2s, failureGracePeriod: 3s, retryPausePeriod: 4s, retryLimit: 5, deletionOnFailureGracePeriod: 6s, forcefulDeletionGracePeriod: 7s, successTTL: 8s, gracePeriodMaximum: 9s}
retryPolicy: {globalMaxRetries: 0, maxUncountedRestarts: 7, defaultPolicyName: infra, defaultBackoff: {initialDelay: 10s, multiplier: 3, maxDelay: 1d}, refill: {after: 1d}}
failureCategories:
- {name: cuda_error, onTerminationMessage: {pattern: "CUDA error"}}
- {name: oom, onConditions: [OOMKilled]}
- {name: disk, onExitCodes: {operator: NotIn, values: [255, 0, -1073741819]}}
failureLogs: {enabled: true, lines: 50, maxBytes: 4Ki, redact: ["token=\\S+"]}
history: {enabled: true, ttl: 1d, perNamespace: 7, total: 8}
autopilot: {injectAntiAffinities: false, monitorNodes: false, resourceTaints: {nvidia.com/gpu: [{key: autopilot.ibm.com/gpuhealth, value: ERR, effect: NoSchedule}]}}
nodeSuspicion: {effect: Require, halfLife: 1d, threshold: 150, namespaceShare: 100, hardwareCategories: [cuda_error, disk]}
admission: {defaultQueueName: main, userRBACAdmissionCheck: false, allowedKinds: [Job.batch, Pod], kueueAccount: kueue, refuseForegroundDeletion: false, requireRequester: true, podsOverQuota: {action: Suspend, gracePeriod: 3s}}
schedulerName: volcano
webhook: {enabled: false, address: "127.0.0.1:1", certDir: /certs}
progressServer: {enabled: true, address: "127.0.0.1:4", url: "https://progress.example.com:9"}
metrics: {address: "[::1]:2", secure: false}
health: {address: "0.0.0.0:3"}
leaderElection: {enabled: false, namespace: system, name: lock, leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 500ms}
"#;

#[test]
fn the_keys_about_failures_are_read() {
    let config = Config::parse(EVERY_KEY).unwrap();
    let Config { fault_tolerance, retry_policy, .. } = &config;
    assert_eq!(fault_tolerance.retry_limit, 5);
    assert_eq!(fault_tolerance.grace_maximum.to_string(), "9s");
    assert_eq!(fault_tolerance.success_ttl.to_string(), "8s");
    assert_eq!(retry_policy.global_max_retries, 0);
    assert_eq!(retry_policy.max_uncounted_restarts, 7);
    assert_eq!(retry_policy.default_policy_name.as_deref(), Some("infra"));
    assert_eq!(retry_policy.default_backoff.unwrap().delay(2).to_string(), "30s");
    let names: Vec<_> = config.failure_categories.iter().map(|each| each.name.as_str()).collect();
    assert_eq!(names, ["cuda_error", "oom", "disk"]);
    let values = BTreeSet::from([-1_073_741_819, 0, 255]);
    let not_in = CategoryMatcher::ExitCodes { operator: ExitCodeOperator::NotIn, values };
    assert_eq!(config.failure_categories[2].matcher, not_in);
    let redact = vec![Pattern::new(r"token=\S+").unwrap()];
    let logs = FailureLogs { enabled: true, lines: 50, bytes_max: 4096, redact };
    assert_eq!(config.failure_logs, logs);
    let ttl = crate::tuning::Period::from_secs(86_400);
    assert_eq!(config.history, History { enabled: true, ttl, per_namespace: 7, total: 8 });
    let taint = &config.autopilot.resource_taints["nvidia.com/gpu"][0];
    assert_eq!((taint.value.as_str(), taint.effect), ("ERR", Effect::NoSchedule));
    let suspicion = &config.node_suspicion;
    assert_eq!((suspicion.effect, suspicion.threshold), (SuspicionEffect::Require, 150));
    assert_eq!((suspicion.half_life.to_string().as_str(), suspicion.namespace_share), ("24h", 100));
    assert_eq!(suspicion.hardware_categories, ["cuda_error", "disk"]);
    assert!(config.admission.allows("batch", "Job") && config.admission.allows("", "Pod"));
    assert!(!config.admission.allows("", "Secret"));
}

#[test]
fn the_keys_about_the_process_are_read() {
    let config = Config::parse(EVERY_KEY).unwrap();
    assert_eq!(config.scheduler_name.as_deref(), Some("volcano"));
    assert_eq!(config.webhook.cert_dir.as_deref(), Some(Path::new("/certs")));
    assert_eq!(config.metrics.address.to_string(), "[::1]:2");
    assert_eq!(config.health.address.port(), 3);
    assert_eq!(config.leader_election.namespace.as_deref(), Some("system"));
    let LeaderElection { lease_duration, renew_deadline, retry_period, .. } =
        config.leader_election;
    assert_eq!(
        [lease_duration, renew_deadline, retry_period].map(|it| it.to_string()).join(" "),
        "30s 20s 500ms"
    );
    assert_eq!(config.admission.kueue_account, "kueue");
    assert!(!config.admission.refuse_foreground_deletion);
    assert!(config.admission.require_requester);
    let grace = crate::tuning::Period::from_secs(3);
    let want = PodsOverQuota { action: OverQuotaAction::Suspend, grace };
    assert_eq!(config.admission.pods_over_quota, want);
}

/// As the quantities of Kubernetes.
#[test]
fn a_quantity_may_be_a_number() {
    for text in ["8192", "'8192'", "8Ki"] {
        let config = Config::parse(&format!("failureLogs: {{maxBytes: {text}}}")).expect(text);
        assert_eq!(config.failure_logs.bytes_max, 8192, "{text}");
    }
}

/// The chart has `false` where its values have `Off`.
#[test]
fn the_effect_off_may_be_a_boolean() {
    for text in ["Off", "'Off'", "false"] {
        let config = Config::parse(&format!("nodeSuspicion: {{effect: {text}}}")).expect(text);
        assert_eq!(config.node_suspicion.effect, SuspicionEffect::Off, "{text}");
    }
}

#[test]
fn everything_that_is_wrong_is_reported_at_once() {
    let text = r#"
faultTolerance: {retryLimit: -1, successTTL: 5 days, failureGracePeriod: 25h, warmupGrace: 1s}
retryPolicy: {defaultBackoff: {multiplier: 0.5}}
metrics: {address: ":8443", secure: "yes", port: 8443, adress: x}
health: 7
appwrapper: {}
unheard: 1
"#;
    assert_eq!(
        problems(text),
        [
            "faultTolerance.retryLimit: Invalid value: \"-1\": must be a whole number from 0 to 2147483647",
            "faultTolerance.successTTL: Invalid value: \"5 days\": must be a duration like 90s, 1h30m, 1.5h or 7d (units ns us ms s m h d)",
            "faultTolerance.failureGracePeriod: Invalid value: \"25h\": must be at most gracePeriodMaximum (24h)",
            "faultTolerance.warmupGrace: Invalid value: \"1s\": unknown key: did you mean warmupGracePeriod?",
            "retryPolicy.defaultBackoff.initialDelay: must be given",
            "retryPolicy.defaultBackoff.multiplier: Invalid value: \"0.5\": must be 1 or more",
            "metrics.address: Invalid value: \":8443\": must be an IP address and a port, such as 0.0.0.0:8443 or [::]:8443",
            "metrics.secure: Invalid value: \"yes\": must be true or false",
            "metrics.adress: Invalid value: \"x\": unknown key: did you mean address?",
            "metrics.port: Invalid value: \"8443\": unknown key: must be one of address, secure",
            "health: Invalid value: \"7\": must be an object",
            "appwrapper: Invalid value: \"an object\": unknown key: is a key of the Go controller's configuration: docs/admin/upgrade.md has the keys of both",
            "unheard: Invalid value: \"1\": unknown key: must be one of faultTolerance, retryPolicy, failureCategories, failureLogs, history, autopilot, nodeSuspicion, admission, schedulerName, webhook, progressServer, metrics, health, leaderElection",
        ]
    );
}

#[test]
fn keys_of_the_go_controller_are_named_as_the_documentation_does() {
    let said = problems("faultTolerance: {resetPause: 1m}\nwebhooksEnabled: true\n");
    let want = [
        "faultTolerance.resetPause: Invalid value: \"1m\": unknown key: is named faultTolerance.retryPausePeriod here",
        "webhooksEnabled: Invalid value: \"true\": unknown key: is named webhook.enabled here",
    ];
    assert_eq!(said, want);
    let page = include_str!("../../../../docs/admin/upgrade.md");
    for (there, here) in renamed::RENAMED {
        let is_row = |line: &str| line.contains(there) && line.contains(&format!("`{here}`"));
        assert!(page.lines().any(is_row), "{there} {here}");
    }
}

#[test]
fn a_configmap_is_no_configuration() {
    let text = "kind: ConfigMap\napiVersion: v1\ndata: {appwrapper.yaml: 'health: {}'}\n";
    let want = "kind: Invalid value: \"ConfigMap\": must be the configuration itself, not a ConfigMap: \
                pass the text of its key appwrapper.yaml";
    assert_eq!(problems(text), [want]);
}

#[test]
fn each_wrong_value_is_named() {
    for (text, start, fragment) in WRONG {
        let problems = problems(text);
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        assert!(
            problems[0].starts_with(start) && problems[0].contains(fragment),
            "{text}: {problems:?}"
        );
    }
}

/// A file, the begin of the only line about it, and something that the line says.
const WRONG: &[(&str, &str, &str)] = &[
    ("faultTolerance: {retryLimit: 2147483648}", "faultTolerance.retryLimit: ", "whole number"),
    ("faultTolerance: {retryLimit: 3.5}", "faultTolerance.retryLimit: ", "whole number"),
    ("faultTolerance: {retryLimit: '3'}", "faultTolerance.retryLimit: ", "whole number"),
    ("faultTolerance: {retryPausePeriod: -1h}", "faultTolerance.retryPausePeriod: ", "negative"),
    ("faultTolerance: {retryPausePeriod: 90}", "faultTolerance.retryPausePeriod: ", "duration"),
    ("faultTolerance: {retryPausePeriod:}", "faultTolerance.retryPausePeriod: ", "duration"),
    (
        "faultTolerance: {admissionGracePeriod: 6m}",
        "faultTolerance.admissionGracePeriod: Invalid value: \"6m\": ",
        "at most warmupGracePeriod (5m)",
    ),
    ("retryPolicy: {globalMaxRetries: -1}", "retryPolicy.globalMaxRetries: ", "0 to 2147483647"),
    ("nodeSuspicion: {effect: off}", "nodeSuspicion.effect: ", "one of Off, Prefer, Require"),
    ("nodeSuspicion: {effect: true}", "nodeSuspicion.effect: ", "one of Off, Prefer, Require"),
    ("nodeSuspicion: {halfLife: 59m}", "nodeSuspicion.halfLife: ", "from 1h to 90d"),
    ("nodeSuspicion: {threshold: 50}", "nodeSuspicion.threshold: ", "from 51 to 800"),
    ("nodeSuspicion: {threshold: 801}", "nodeSuspicion.threshold: ", "from 51 to 800"),
    ("nodeSuspicion: {namespaceShare: 101}", "nodeSuspicion.namespaceShare: ", "from 1 to 100"),
    (
        "nodeSuspicion: {hardwareCategories: [A]}",
        "nodeSuspicion.hardwareCategories[0]: ",
        "lower-case",
    ),
    (
        "{nodeSuspicion: {hardwareCategories: [node, cuda_eror]}, failureCategories: \
         [{name: cuda_error, onTerminationMessage: {pattern: CUDA}}]}",
        "nodeSuspicion.hardwareCategories[1]: Invalid value: \"cuda_eror\": unknown category: ",
        "did you mean cuda_error?",
    ),
    (
        "nodeSuspicion: {hardwareCategories: [disk]}",
        "nodeSuspicion.hardwareCategories[0]: Invalid value: \"disk\": unknown category: ",
        "must be one of oom, node, ",
    ),
    ("retryPolicy: {refill: {}}", "retryPolicy.refill.after: ", "must be given"),
    ("retryPolicy: {refill: {after: 59s}}", "retryPolicy.refill.after: ", "at least 1m"),
    (
        "retryPolicy: {maxUncountedRestarts: -1}",
        "retryPolicy.maxUncountedRestarts: ",
        "0 to 2147483647",
    ),
    ("retryPolicy: {defaultPolicyName: A_b}", "retryPolicy.defaultPolicyName: ", "lower-case"),
    ("retryPolicy: {defaultPolicyName: 1}", "retryPolicy.defaultPolicyName: ", "string"),
    (
        "retryPolicy: {defaultBackoff: {initialDelay: 11m}}",
        "retryPolicy.defaultBackoff.initialDelay: Invalid value: \"11m\": ",
        "at most maxDelay (10m)",
    ),
    (
        "retryPolicy: {defaultBackoff: {initialDelay: 1s, multiplier: .nan}}",
        "invalid YAML: ",
        "non-finite float `.nan` rejected by the configured policy at line 1",
    ),
    ("failureCategories: {}", "failureCategories: ", "must be a list"),
    ("failureCategories: [{name: a}]", "failureCategories[0]: ", "exactly one of"),
    (
        "failureCategories: [{name: a, onConditions: [Evicted], onTerminationMessage: {pattern: a}}]",
        "failureCategories[0]: Invalid value: \"onTerminationMessage, onConditions\": ",
        "exactly one of",
    ),
    (
        "failureCategories: [{name: A, onConditions: [Evicted]}]",
        "failureCategories[0].name: ",
        "lower-case",
    ),
    ("failureCategories: [{onConditions: [Evicted]}]", "failureCategories[0].name: ", "given"),
    (
        "failureCategories: [{name: a, onConditions: [Evicted]}, {name: a, onConditions: [Evicted]}]",
        "failureCategories: Invalid value: \"a\": ",
        "unique",
    ),
    (
        "failureCategories: [{name: a, onConditions: [Evict]}]",
        "failureCategories[0].onConditions[0]: Invalid value: \"Evict\": ",
        "OOMKilled, Evicted",
    ),
    (
        "failureCategories: [{name: a, onConditions: [1]}]",
        "failureCategories[0].onConditions[0]: ",
        "string",
    ),
    (
        "failureCategories: [{name: a, onConditions: []}]",
        "failureCategories[0].onConditions: ",
        "at least one",
    ),
    (
        "failureCategories: [{name: a, onTerminationMessage: {pattern: '('}}]",
        "failureCategories[0].onTerminationMessage.pattern: Invalid value: \"(\": ",
        "unclosed group",
    ),
    (
        "failureCategories: [{name: a, onTerminationMessage: {}}]",
        "failureCategories[0].onTerminationMessage.pattern: ",
        "must not be empty",
    ),
    (
        "failureCategories: [{name: a, onExitCodes: {operator: Is, values: [1]}}]",
        "failureCategories[0].onExitCodes.operator: Invalid value: \"Is\": ",
        "one of In, NotIn",
    ),
    (
        "failureCategories: [{name: a, onExitCodes: {operator: In, values: [0]}}]",
        "failureCategories[0].onExitCodes.values[0]: Invalid value: \"0\": ",
        "must not be 0 with the operator In",
    ),
    (
        "failureCategories: [{name: a, onExitCodes: {operator: In, values: [74, 74]}}]",
        "failureCategories[0].onExitCodes.values[1]: Invalid value: \"74\": ",
        "must be unique in the list",
    ),
    (
        "failureCategories: [{name: a, onExitCodes: {operator: In, values: [2147483648]}}]",
        "failureCategories[0].onExitCodes.values[0]: Invalid value: \"2147483648\": ",
        "must be a whole number of 32 bits",
    ),
    (
        "failureCategories: [{name: a, onExitCodes: {operator: In}}]",
        "failureCategories[0].onExitCodes.values: ",
        "at least one",
    ),
    ("failureLogs: {lines: 0}", "failureLogs.lines: ", "from 1 to 1000"),
    ("failureLogs: {lines: 1001}", "failureLogs.lines: ", "from 1 to 1000"),
    ("failureLogs: {maxBytes: 1023}", "failureLogs.maxBytes: ", "from 1Ki to 64Ki"),
    (
        "failureLogs: {maxBytes: true}",
        "failureLogs.maxBytes: Invalid value: \"true\": ",
        "must be a quantity from 1Ki to 64Ki, such as 8Ki",
    ),
    ("failureLogs: {maxBytes: [8Ki]}", "failureLogs.maxBytes: ", "from 1Ki to 64Ki"),
    ("failureLogs: {maxBytes: null}", "failureLogs.maxBytes: ", "from 1Ki to 64Ki"),
    ("failureLogs: {maxBytes: '1023'}", "failureLogs.maxBytes: ", "from 1Ki to 64Ki"),
    ("failureLogs: {maxBytes: 65Ki}", "failureLogs.maxBytes: ", "from 1Ki to 64Ki"),
    ("failureLogs: {redact: ['(']}", "failureLogs.redact[0]: ", "unclosed group"),
    ("history: {ttl: 0s}", "history.ttl: ", "more than 0s"),
    ("history: {ttl: 366d}", "history.ttl: ", "at most 365d"),
    ("history: {perNamespace: 0}", "history.perNamespace: ", "from 1 to 10000"),
    ("history: {perNamespace: 10001}", "history.perNamespace: ", "from 1 to 10000"),
    ("history: {total: 50001}", "history.total: ", "from 1 to 50000"),
    (
        "autopilot: {resourceTaints: {gpu: [{key: a, effect: No}]}}",
        "autopilot.resourceTaints[gpu][0].effect: Invalid value: \"No\": ",
        "NoExecute",
    ),
    (
        "autopilot: {resourceTaints: {gpu: [{effect: NoExecute}]}}",
        "autopilot.resourceTaints[gpu][0].key: ",
        "given",
    ),
    (
        "autopilot: {resourceTaints: {gpu: [{key: a b, effect: NoExecute}]}}",
        "autopilot.resourceTaints[gpu][0].key: Invalid value: \"a b\": ",
        "letters, digits",
    ),
    (
        "autopilot: {resourceTaints: {gpu: [{key: example.com/a, value: b c, effect: NoExecute}]}}",
        "autopilot.resourceTaints[gpu][0].value: Invalid value: \"b c\": ",
        "at most 63 letters",
    ),
    (
        "admission: {defaultQueueName: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}",
        "admission.defaultQueueName: Invalid value: \"aaaa",
        "at most 63",
    ),
    ("autopilot: {resourceTaints: []}", "autopilot.resourceTaints: ", "object"),
    (
        "leaderElection: {leaseDuration: 14.5s}",
        "leaderElection.leaseDuration: ",
        "whole number of seconds",
    ),
    (
        "leaderElection: {renewDeadline: 15s}",
        "leaderElection.renewDeadline: ",
        "less than leaseDuration (15s)",
    ),
    (
        "leaderElection: {retryPeriod: 10s}",
        "leaderElection.retryPeriod: ",
        "less than renewDeadline (10s)",
    ),
    ("leaderElection: {retryPeriod: 0s}", "leaderElection.retryPeriod: ", "greater than 0"),
    (
        "admission: {podsOverQuota: {action: Delete}}",
        "admission.podsOverQuota.action: ",
        "must be one of Report, Suspend",
    ),
    ("admission: {allowedKinds: [job.batch]}", "admission.allowedKinds[0]: ", "Kind.group"),
    ("admission: {allowedKinds: [batch/v1]}", "admission.allowedKinds[0]: ", "Kind.group"),
    ("schedulerName: 'a b'", "schedulerName: ", "lower-case"),
    ("webhook: {address: localhost:1}", "webhook.address: ", "IP address"),
    (
        "metrics: {address: '127.0.0.1:9443'}",
        "metrics.address: Invalid value: \"127.0.0.1:9443\": ",
        "must differ from webhook.address",
    ),
    (
        "webhook: {address: '127.0.0.1:1'}\nhealth: {address: '127.0.0.1:1'}",
        "health.address: ",
        "must differ from webhook.address",
    ),
    (
        "progressServer: {url: 'http://a'}",
        "progressServer.url: Invalid value: \"http://a\": ",
        "https://",
    ),
    ("progressServer: {url: 'https://a/b'}", "progressServer.url: ", "no path"),
    ("webhook: {enabled: 1}", "webhook.enabled: ", "true or false"),
    ("leaderElection: {name: A}", "leaderElection.name: ", "lower-case"),
    ("[]", "Invalid value: \"a list\": ", "must be an object"),
    ("text", "Invalid value: \"text\": ", "must be an object"),
    ("a: [", "invalid YAML: ", "line"),
    ("health: {}\nhealth: {}", "invalid YAML: ", "line 2"),
    ("a: 1\n---\nb: 2", "must be one YAML document", ""),
];

#[test]
fn changed_sections_that_are_read_at_startup_are_named() {
    let config = |text| Config::parse(text).unwrap();
    let started = config("webhook: {enabled: false}\nretryPolicy: {globalMaxRetries: 1}");
    for (text, want) in [
        ("webhook: {enabled: false}\nretryPolicy: {globalMaxRetries: 2}", vec![]),
        ("", vec!["webhook"]),
        (
            "webhook: {enabled: false}\nhealth: {address: '127.0.0.1:1'}\nleaderElection: {name: a}",
            vec!["health", "leaderElection"],
        ),
        ("webhook: {enabled: false}\nadmission: {kueueAccount: a}", vec!["admission.kueueAccount"]),
        ("webhook: {enabled: false}\nadmission: {requireRequester: true}", vec![]),
    ] {
        assert_eq!(config(text).needs_restart(&started), want, "{text}");
    }
}

#[test]
fn servers_that_do_not_meet_may_have_one_port() {
    for text in [
        "webhook: {address: '127.0.0.1:1'}\nhealth: {address: '127.0.0.2:1'}",
        "webhook: {enabled: false}\nhealth: {address: '0.0.0.0:9443'}",
        "health: {address: '0.0.0.0:8444'}", // the progress server is off
        "health: {address: '127.0.0.1:0'}\nmetrics: {address: '127.0.0.1:0'}",
    ] {
        assert!(Config::parse(text).is_ok(), "{text}");
    }
}

#[test]
fn there_are_at_most_100_categories() {
    let one = |i: usize| format!("- {{name: c{i}, onConditions: [Evicted]}}\n");
    let many = |count| format!("failureCategories:\n{}", (0..count).map(one).collect::<String>());
    assert_eq!(Config::parse(&many(100)).unwrap().failure_categories.len(), 100);
    assert_eq!(
        problems(&many(101)),
        ["failureCategories: must have at most 100 entries, but has 101"]
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Config::load(Path::new("/nonexistent/a.yaml")).unwrap_err();
    assert_eq!(error.to_string(), "cannot read configuration /nonexistent/a.yaml");
    assert!(matches!(error, LoadError::Read { .. }));
}

#[test]
fn allowed_kinds_are_printed_as_they_are_written() {
    for text in ["Job.batch", "Pod", "RayCluster.ray.io"] {
        assert_eq!(text.parse::<AllowedKind>().unwrap().to_string(), text);
    }
    for text in ["", ".batch", "Job.", "job.batch", "Job.Batch", "apps/v1", "Job batch"] {
        assert_eq!(text.parse::<AllowedKind>(), Err(AllowedKindError), "{text}");
    }
}
