//! The Helm chart is made from the manifests in `config/`: `UPDATE_CHART=1 cargo test --test integration
//! chart::the_chart` writes it, and the rules of the kinds that may be wrapped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use appwrapper::client::CALL_WITHIN;
use appwrapper::config::Config;
use serde::Deserialize;
use serde_json::Value;

/// What differs between the manifests and the chart's templates. Each text must be found somewhere.
const REPLACED: [(&str, &str); 20] = [
    ("namespace: appwrapper-system", "namespace: {{ .Release.Namespace }}"),
    (".appwrapper-system.svc", ".{{ .Release.Namespace }}.svc"),
    ("namespaces: [appwrapper-system]", "namespaces: [\"{{ .Release.Namespace }}\"]"),
    ("image: appwrapper:0.2.0", "image: {{ .Values.image }}"),
    REPLICAS,
    ("pods: \"8\"", "pods: {{ mul 4 .Values.replicas | quote }}"),
    (
        "        resources:\n          requests: {cpu: 100m, memory: 64Mi}\n          \
         limits: {memory: 512Mi}\n",
        "        resources:\n          {{- toYaml .Values.resources | nindent 10 }}\n",
    ),
    (
        "    admission:\n      requireRequester: true\n",
        "    {{- toYaml .Values.configuration | nindent 4 }}\n",
    ),
    // of the Deployment and of network policies; ports of the API server are written the other way round
    (
        "ort: 9443}",
        "ort: {{ ((.Values.configuration).webhook).address | default \":9443\" \
         | splitList \":\" | last }} }",
    ),
    (
        "ort: 8443}",
        "ort: {{ ((.Values.configuration).metrics).address | default \":8443\" \
         | splitList \":\" | last }} }",
    ),
    (
        "ort: 8444}",
        "ort: {{ ((.Values.configuration).progressServer).address | default \":8444\" \
         | splitList \":\" | last }} }",
    ),
    (
        "ort: 8081}",
        "ort: {{ ((.Values.configuration).health).address | default \":8081\" \
         | splitList \":\" | last }} }",
    ),
    (
        "resourceNames: [appwrapper-controller]",
        "resourceNames: [{{ ((.Values.configuration).leaderElection).name \
         | default \"appwrapper-controller\" | quote }}]",
    ),
    POD,
    (
        "--log-json]\n",
        "--log-json]\n        {{- with .Values.env }}\n        env:\n          \
         {{- toYaml . | nindent 10 }}\n        {{- end }}\n",
    ),
    (
        "mountPath: /etc/appwrapper, readOnly: true}\n",
        "mountPath: /etc/appwrapper, readOnly: true}\n        \
         {{- with .Values.volumeMounts }}\n        \
         {{- toYaml . | nindent 8 }}\n        {{- end }}\n",
    ),
    (
        "        configMap:\n          name: appwrapper-config\n",
        "        configMap:\n          name: appwrapper-config\n      \
         {{- with .Values.volumes }}\n      {{- toYaml . | nindent 6 }}\n      {{- end }}\n",
    ),
    // of the ServiceMonitor and of the PrometheusRule
    (
        "appwrapper\nspec:\n  # the alerts say",
        "appwrapper\n    {{- with .Values.prometheusLabels }}\n    \
         {{- toYaml . | nindent 4 }}\n    {{- end }}\nspec:\n  # the alerts say",
    ),
    (
        "appwrapper\nspec:\n  groups:\n",
        "appwrapper\n    {{- with .Values.prometheusLabels }}\n    \
         {{- toYaml . | nindent 4 }}\n    {{- end }}\nspec:\n  groups:\n",
    ),
    // a change of what is read only at startup restarts the pods, but for the Lease
    (
        "  template:\n    metadata:\n      labels:\n",
        "  template:\n    metadata:\n      annotations:\n        \
         checksum/startup-configuration: {{ list (pick (.Values.configuration | default dict) \
         \"webhook\" \"progressServer\" \"metrics\" \"health\") \
         (pick ((.Values.configuration).admission | default dict) \"kueueAccount\") \
         | toJson | sha256sum | quote }}\n      labels:\n",
    ),
];

/// Without a Lease, each replica is active: there is one, and it ends before the next one starts. The API server refuses the
/// defaults of another strategy beside `Recreate`.
const REPLICAS: (&str, &str) = (
    "  replicas: 2\n",
    r#"  replicas: {{ .Values.replicas }}
  {{- if eq (((.Values.configuration).leaderElection).enabled | toString) "false" }}
  {{- if gt (int .Values.replicas) 1 }}
  {{- fail "configuration.leaderElection.enabled is false: set replicas to 1" }}
  {{- end }}
  strategy: {type: Recreate, rollingUpdate: null}
  {{- end }}
"#,
);

/// Where pods run, and with which credentials their image is pulled.
const POD: (&str, &str) = (
    "      priorityClassName: system-cluster-critical\n",
    "      priorityClassName: system-cluster-critical
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
",
);

/// The role whose rules are made from the registry of kinds.
const ROLE: &str = "config/rbac/wrapped-kinds.yaml";

/// The folders whose files are in the chart where a value says so.
const OPTIONAL: [&str; 4] = ["history", "logs", "progress", "prometheus"];

/// The folder whose files are in the chart unless the configuration says that there is no webhook.
const WEBHOOK: &str = "webhook";

/// Where the webhook is not turned off: `enabled` is true if it is left out.
const HAS_WEBHOOK: &str = "ne (((.Values.configuration).webhook).enabled | toString) \"false\"";

/// The longest time that the start of the program takes before it calls the API server.
const START: Duration = Duration::from_secs(10);

/// Helm makes the namespace.
const LEFT_OUT: &str = "manager/namespace.yaml";

#[derive(Deserialize)]
struct Kustomization {
    resources: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files that a folder with a `kustomization.yaml` brings together.
fn files(folder: &Path) -> Vec<PathBuf> {
    let text = read(&folder.join("kustomization.yaml"));
    let kustomization: Kustomization = serde_saphyr::from_str(&text).expect("a kustomization");
    let resources = kustomization.resources.iter().map(|name| folder.join(name));
    resources.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Every file of the chart that is made: path in the chart, text.
fn chart() -> BTreeMap<String, String> {
    let root = root();
    let config = root.join("config").canonicalize().expect("there are manifests");
    let mut made = BTreeMap::new();
    let mut found = [false; REPLACED.len()];
    let all = ["default", "history", "logs", "progress", "prometheus"]
        .map(|name| files(&config.join(name)));
    let all = all.into_iter().flatten();
    for file in all {
        let file = file.canonicalize().expect("it is there");
        let text = read(&file);
        let Ok(name) = file.strip_prefix(&config) else {
            let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
            made.insert(format!("crds/{name}"), text);
            continue;
        };
        let name = name.to_str().expect("a name").to_owned();
        if name == LEFT_OUT {
            continue;
        }
        // what Prometheus is to read has braces of its own
        let prometheus = name.starts_with("prometheus/");
        let mut text = if prometheus { escaped(&text) } else { text };
        assert!(prometheus || !text.contains("{{"), "{name} would be taken for a template");
        for ((from, to), found) in REPLACED.iter().zip(&mut found) {
            *found |= text.contains(from);
            text = text.replace(from, to);
        }
        if let Some(condition) = condition(&name) {
            text = format!("{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n");
        }
        made.insert(format!("templates/{}", name.replace('/', "-")), text);
    }
    for ((from, _), found) in REPLACED.iter().zip(found) {
        assert!(found, "no manifest has {from:?} any more");
    }
    made
}

/// When a file is in the chart, as Helm says it; none: always.
fn condition(name: &str) -> Option<String> {
    let (folder, _) = name.split_once('/')?;
    if folder == WEBHOOK {
        return Some(HAS_WEBHOOK.to_owned());
    }
    OPTIONAL.contains(&folder).then(|| format!(".Values.{folder}"))
}

/// Braces that are not for Helm.
fn escaped(text: &str) -> String {
    let marked = text.replace("{{", "\u{1}").replace("}}", "\u{2}");
    marked.replace('\u{1}', "{{ \"{{\" }}").replace('\u{2}', "{{ \"}}\" }}")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whether it is written is said from outside")]
fn the_chart_is_made_from_the_manifests() {
    let folder = root().join("charts/appwrapper");
    let is_update = std::env::var("UPDATE_CHART").is_ok();
    if is_update {
        let path = root().join(ROLE);
        std::fs::write(&path, wrapped_kinds(&read(&path))).expect("it is written");
    }
    let made = chart();
    if is_update {
        for sub in ["templates", "crds"] {
            // the first time there is none
            drop(std::fs::remove_dir_all(folder.join(sub)));
            std::fs::create_dir_all(folder.join(sub)).expect("a folder");
        }
        for (name, text) in &made {
            std::fs::write(folder.join(name), text).expect("it is written");
        }
    }
    let hint = "run: UPDATE_CHART=1 cargo test --test integration chart::the_chart";
    for (name, text) in &made {
        assert!(read(&folder.join(name)) == *text, "{name} is out of date; {hint}");
    }
    let count: usize = ["templates", "crds"]
        .map(|sub| std::fs::read_dir(folder.join(sub)).expect("a folder").count())
        .iter()
        .sum();
    assert_eq!(count, made.len(), "there are files of old; {hint}");
}

/// The role with its rules as the registry of kinds has them, and what goes with them.
fn wrapped_kinds(role: &str) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = vec![("", vec!["services", "configmaps"])];
    for row in appwrapper::kinds::Kind::all() {
        match groups.iter_mut().find(|(group, _)| *group == row.group()) {
            Some((_, plurals)) => plurals.push(row.plural),
            None => groups.push((row.group(), vec![row.plural])),
        }
    }
    // what the coscheduling plugin reads, as with the Go controller
    groups.extend(
        ["scheduling.sigs.k8s.io", "scheduling.x-k8s.io"].map(|group| (group, vec!["podgroups"])),
    );
    let read = appwrapper::kinds::Kind::all().filter(|row| !row.reads.is_empty()).map(|row| {
        let (group, plurals) = (row.group(), row.reads.join(", "));
        format!("- apiGroups: [{group}]\n  resources: [{plurals}]\n  verbs: [get]\n")
    });
    let rules = groups.into_iter().map(|(group, mut plurals)| {
        plurals.sort_unstable();
        let group = if group.is_empty() { "\"\"" } else { group };
        let plurals = plurals.join(", ");
        format!(
            "- apiGroups: [{group}]\n  resources: [{plurals}]\n  \
             verbs: [create, get, list, watch, delete]\n"
        )
    });
    let marker = "    workload.codeflare.dev/aggregate-to-wrapped-kinds: \"true\"\nrules:\n";
    let (head, old) = role.split_once(marker).expect("the role of the known kinds");
    let (_, tail) = old.split_once("---\n").expect("its binding");
    format!("{head}{marker}{}---\n{tail}", rules.chain(read).collect::<String>())
}

#[test]
fn every_known_kind_may_be_wrapped() {
    let role = read(&root().join(ROLE));
    let hint = "run: UPDATE_CHART=1 cargo test --test integration chart::the_chart";
    assert!(role == wrapped_kinds(&role), "{ROLE} is out of date; {hint}");
}

/// The last object of a file.
fn manifest(path: &str) -> Value {
    let text = read(&root().join(path));
    let last = text.rsplit("\n---\n").next().unwrap_or_default();
    serde_saphyr::from_str(last).expect("a manifest is YAML")
}

/// The value under a key of each item.
fn each(items: &Value, key: &str) -> Vec<Value> {
    items.as_array().into_iter().flatten().map(|item| item[key].clone()).collect()
}

/// The pods of the Go controller have the same label, and the same ports under other names.
#[test]
fn network_policies_open_ports_of_the_deployment_by_number() {
    let deployment = manifest("config/manager/deployment.yaml");
    let ports = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"];
    let known = each(ports, "containerPort");
    for (path, count) in
        [("config/manager/network-policy.yaml", 2), ("config/progress/network-policy.yaml", 1)]
    {
        let rules = each(&manifest(path)["spec"]["ingress"], "ports");
        let opened: Vec<Value> = rules.iter().flat_map(|ports| each(ports, "port")).collect();
        assert_eq!(opened.len(), count, "{path}");
        assert!(opened.iter().all(|port| known.contains(port)), "{path}: {opened:?}");
    }
}

/// The API server of minikube listens on the port on which the controller has its metrics.
#[test]
fn pods_reach_api_servers_of_common_clusters() {
    let ports = [443, 6443, 8443, 16443].map(Value::from);
    for path in ["config/manager/network-policy.yaml", "config/shadow/network-policy.yaml"] {
        let rules = each(&manifest(path)["spec"]["egress"], "ports");
        assert_eq!(each(&rules[1], "port"), ports, "{path}");
    }
    let text = &chart()["templates/manager-network-policy.yaml"];
    for port in ports {
        assert!(text.contains(&format!("- {{port: {port}, protocol: TCP}}\n")), "{port}: {text}");
    }
}

#[test]
fn a_port_of_the_chart_is_that_of_its_configuration() {
    let made = chart();
    for (path, servers) in [
        ("manager-deployment", &["webhook", "metrics", "progressServer", "health"][..]),
        ("manager-network-policy", &["webhook", "metrics"]),
        ("progress-network-policy", &["progressServer"]),
    ] {
        let text = &made[&format!("templates/{path}.yaml")];
        for server in servers {
            let address = format!("ort: {{{{ ((.Values.configuration).{server}).address | ");
            assert_eq!(text.matches(&address).count(), 1, "{path}: {server}");
        }
    }
}

/// A value with a wrong name or type would change nothing, or grant rights: a map that says `enabled: false` is true.
#[test]
fn every_value_of_the_chart_has_a_type_and_is_used() {
    let value = |name: &str| -> Value {
        let text = read(&root().join("charts/appwrapper").join(name));
        serde_saphyr::from_str(&text).expect("YAML or JSON")
    };
    let (values, schema) = (value("values.yaml"), value("values.schema.json"));
    assert_eq!(schema["additionalProperties"], false);
    let types = schema["properties"].as_object().expect("an object");
    let templates = chart().into_values().collect::<String>();
    for (name, default) in values.as_object().expect("an object") {
        let want = match default {
            Value::Bool(_) => "boolean",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
            Value::Null => "null",
        };
        assert_eq!(types[name]["type"], want, "{name}");
        let used = |end: char| templates.contains(&format!(".Values.{name}{end}"));
        assert!(used(' ') || used(')'), "no template has {name}");
    }
    // of a chart that has this one as a dependency: `condition: appwrapper.enabled`
    let others: Vec<&String> = types.keys().filter(|name| values[*name].is_null()).collect();
    assert_eq!(others, ["enabled", "global"]);
}

#[test]
fn without_an_election_the_chart_has_one_replica_at_a_time() {
    let text = &chart()["templates/manager-deployment.yaml"];
    let (before, rest) = text.split_once("  strategy: {type: Recreate, ").expect("a strategy");
    let is_off = "((.Values.configuration).leaderElection).enabled | toString) \"false\" }}";
    assert!(before.contains(is_off) && before.contains("{{- fail "), "{before}");
    assert!(rest.starts_with("rollingUpdate: null}\n  {{- end }}\n  selector:\n"), "{rest}");
}

/// The API server denies whatever it cannot ask the webhook about.
#[test]
fn without_a_webhook_the_chart_has_no_configuration_of_it() {
    let made = chart();
    for (path, kind) in [
        ("configurations", "kind: MutatingWebhookConfiguration\n"),
        ("configurations", "kind: ValidatingWebhookConfiguration\n"),
        ("service", "kind: Service\n"),
    ] {
        let text = &made[&format!("templates/webhook-{path}.yaml")];
        let start = format!("{{{{- if {HAS_WEBHOOK} }}}}\n");
        assert!(text.starts_with(&start) && text.ends_with("\n{{- end }}\n"), "{path}: {text}");
        assert!(text.contains(kind), "{path}: {kind}");
    }
}

#[test]
fn a_change_that_needs_a_restart_changes_the_pod_template() {
    let other = "{webhook: {enabled: false}, progressServer: {enabled: true}, \
        metrics: {secure: false}, health: {address: '127.0.0.1:1'}, \
        leaderElection: {enabled: false}, admission: {kueueAccount: a}}";
    let other = Config::parse(other).expect("it is valid");
    let sections = other.needs_restart(&Config::default());
    assert_eq!(sections.len(), 6, "{sections:?}");
    let text = &chart()["templates/manager-deployment.yaml"];
    let start = "checksum/startup-configuration: ";
    let sum = text.lines().find(|line| line.trim_start().starts_with(start));
    let sum = sum.expect("an annotation");
    for section in sections {
        // a rolling restart with another Lease would make two leaders
        let restarts = section != "leaderElection";
        let key = section.rsplit_once('.').map_or(section, |(_, key)| key);
        assert_eq!(sum.contains(&format!("\"{key}\"")), restarts, "{section}: {sum}");
    }
}

/// The CA certificate stays the same when the webhook's certificate is renewed.
#[test]
fn cert_manager_signs_the_certificate_with_a_ca_of_its_own() {
    let text = read(&root().join("config/cert-manager/certificate.yaml"));
    let all: Vec<Value> = text
        .split("\n---\n")
        .map(|object| serde_saphyr::from_str(object).expect("a manifest is YAML"))
        .collect();
    let named = |kind: &str, name: &Value| {
        let mut found = all.iter();
        let found = found.find(|it| it["kind"] == kind && it["metadata"]["name"] == *name);
        found.unwrap_or_else(|| panic!("{kind} {name}"))
    };
    let certificate = named("Certificate", &Value::from("appwrapper-webhook"));
    let issuer = named("Issuer", &certificate["spec"]["issuerRef"]["name"]);
    let secret = &issuer["spec"]["ca"]["secretName"];
    let authority = all.iter().find(|it| it["spec"]["isCA"] == true).expect("a CA");
    assert!(secret.is_string() && authority["spec"]["secretName"] == *secret, "{secret}");
    // so that the next CA certificate is valid for what the last one has signed
    assert_eq!(authority["spec"]["privateKey"]["rotationPolicy"], "Never");
    named("Issuer", &authority["spec"]["issuerRef"]["name"]);
}

/// No selector matches pods with `hostNetwork`.
#[test]
fn pods_of_every_network_reach_the_progress_server() {
    let rules = &manifest("config/progress/network-policy.yaml")["spec"]["ingress"];
    assert!(rules[0]["ports"].is_array() && rules[0]["from"].is_null(), "{rules}");
}

/// `OpenShift` chooses the user of a pod, and denies one that names another.
#[test]
fn pods_run_as_any_user_but_root() {
    for path in ["config/manager/deployment.yaml", "config/shadow/deployment.yaml"] {
        let security = &manifest(path)["spec"]["template"]["spec"]["securityContext"];
        assert_eq!(security["runAsNonRoot"], true, "{path}");
        assert!(["runAsUser", "runAsGroup"].iter().all(|key| security[key].is_null()), "{path}");
    }
}

/// Nodes route requests to a pod for a moment after it has become Terminating.
#[test]
fn a_pod_that_ends_still_serves_for_a_moment() {
    let pod = &manifest("config/manager/deployment.yaml")["spec"]["template"]["spec"];
    let pause = &pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"];
    let pause = pause.as_i64().expect("a pause before SIGTERM");
    let grace = pod["terminationGracePeriodSeconds"].as_i64().expect("a grace period");
    // what was begun, the release of the Lease, requests that have begun
    assert!(pause > 0 && grace > pause + 10 + 10 + 5, "{pause} {grace}");
}

/// Health is served once the API server has answered.
#[test]
fn a_pod_whose_api_server_is_silent_says_so_before_it_is_killed() {
    for path in ["config/manager/deployment.yaml", "config/shadow/deployment.yaml"] {
        let container = &manifest(path)["spec"]["template"]["spec"]["containers"][0];
        let probe = &container["startupProbe"];
        let [period, failures] =
            ["periodSeconds", "failureThreshold"].map(|key| probe[key].as_u64().expect(key));
        assert!(Duration::from_secs(period * failures) > CALL_WITHIN + START, "{path}: {probe}");
        assert_eq!(probe["httpGet"], container["livenessProbe"]["httpGet"], "{path}");
    }
}

#[test]
fn a_replica_that_is_not_ready_does_not_keep_its_node() {
    let budget = manifest("config/manager/disruption-budget.yaml");
    assert_eq!(budget["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow");
}
