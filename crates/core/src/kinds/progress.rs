//! How the containers of a pod learn where to report their progress: by the environment variables of Kubeflow
//! Trainer's status protocol, a token of the pod's own ServiceAccount, and the CA of the server.
//!
//! The CA is an annotation of the pod, so that nothing else has to be created in the namespace.

use serde_json::{Value, json};

use super::Error;
use super::fields::Fields;
use crate::api::keys;
use crate::price::REPORTING_CONTAINERS_MAX;

/// The audience of the tokens: the server takes no others, and nobody else takes these.
pub const PROGRESS_AUDIENCE: &str = "workload.codeflare.dev/progress";

/// Name of the volume.
const VOLUME: &str = "appwrapper-progress";
/// Where it is mounted.
const MOUNT_PATH: &str = "/var/run/secrets/workload.codeflare.dev/progress";
/// The environment variables of the protocol: the URL, and the paths of two files.
const URL: &str = "KUBEFLOW_TRAINER_SERVER_URL";
const CA_CERT: &str = "KUBEFLOW_TRAINER_SERVER_CA_CERT";
const TOKEN: &str = "KUBEFLOW_TRAINER_SERVER_TOKEN";
/// How long a token is valid, in seconds; the kubelet renews it in time. The same as Trainer's.
const TOKEN_SECONDS: u32 = 3_600;

/// The progress server as pods reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressEndpoint {
    /// `https://`, host, and perhaps a port.
    pub url: String,
    /// The CA certificates that its certificate is to be verified with, PEM.
    pub ca: String,
}

/// The path on which the server takes the reports of an AppWrapper's pods: Trainer's, with the name of the
/// AppWrapper for that of the TrainJob.
#[must_use]
pub fn progress_path(namespace: &str, appwrapper: &str) -> String {
    format!(
        "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs/{appwrapper}/status"
    )
}

/// Adds to a pod template what its containers need to report: to the first [`REPORTING_CONTAINERS_MAX`]
/// containers, and to no init container.
///
/// A container that has one of the variables already, or a mount at the path, stays as it is, and so does a
/// pod without a container that is left, or with a volume of our name. A template without containers, such as
/// that of a TrainJob, is another object's.
pub(super) fn let_report(
    pod: &mut Fields<'_>,
    endpoint: &ProgressEndpoint,
    namespace: &str,
    appwrapper: &str,
) -> Result<(), Error> {
    let spec = pod.map.get("spec").unwrap_or(&Value::Null);
    let taken = items(spec, "volumes").iter().any(|volume| volume["name"] == VOLUME);
    if taken || !items(spec, "containers").iter().take(REPORTING_CONTAINERS_MAX).any(is_free) {
        return Ok(());
    }
    let mut spec = pod.object("spec")?;
    for container in spec.array("containers")?.iter_mut().take(REPORTING_CONTAINERS_MAX) {
        if is_free(container) {
            let mut container = Fields::of(container, "containers[]".to_owned())?;
            let url = format!("{}{}", endpoint.url, progress_path(namespace, appwrapper));
            container.array("env")?.extend([
                json!({"name": URL, "value": url}),
                json!({"name": CA_CERT, "value": format!("{MOUNT_PATH}/ca.crt")}),
                json!({"name": TOKEN, "value": format!("{MOUNT_PATH}/token")}),
            ]);
            let mount = json!({"name": VOLUME, "mountPath": MOUNT_PATH, "readOnly": true});
            container.array("volumeMounts")?.push(mount);
        }
    }
    spec.array("volumes")?.push(volume());
    let mut metadata = pod.object("metadata")?;
    let annotations = metadata.object("annotations")?;
    annotations.map.insert(keys::PROGRESS_CA.to_owned(), endpoint.ca.as_str().into());
    Ok(())
}

fn volume() -> Value {
    let field = format!("metadata.annotations['{}']", keys::PROGRESS_CA);
    json!({"name": VOLUME, "projected": {"sources": [
        {"serviceAccountToken": {
            "audience": PROGRESS_AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": "token",
        }},
        {"downwardAPI": {"items": [{"path": "ca.crt", "fieldRef": {"fieldPath": field}}]}},
    ]}})
}

/// Whether a container says nothing of the server itself.
fn is_free(container: &Value) -> bool {
    let has = |field, key, texts: &[&str]| {
        let all = items(container, field).iter();
        all.filter_map(|item| item[key].as_str())
            .any(|text| texts.contains(&text.trim_end_matches('/')))
    };
    container.is_object()
        && !has("env", "name", &[URL, CA_CERT, TOKEN])
        && !has("volumeMounts", "mountPath", &[MOUNT_PATH])
}

fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{given_object, given_pod};
    use super::super::{OwnershipLabels, infer, render};
    use super::*;
    use crate::api::Component;

    fn endpoint() -> ProgressEndpoint {
        ProgressEndpoint { url: "https://here:1".to_owned(), ca: "PEM".to_owned() }
    }

    fn told(spec: &Value) -> Result<Value, Error> {
        let mut pod = json!({ "spec": spec });
        let_report(&mut Fields::of(&mut pod, "pod".to_owned())?, &endpoint(), "team", "train")?;
        Ok(pod)
    }

    #[test]
    fn a_container_learns_where_to_report_and_with_what() {
        let other = json!({"name": "X", "value": "y"});
        let pod = told(&json!({
            "initContainers": [{"name": "init"}],
            "containers": [{"name": "a"}, {"name": "b", "env": [other], "volumeMounts": null}],
        }))
        .unwrap();
        let env = json!([
            {"name": "KUBEFLOW_TRAINER_SERVER_URL", "value": "https://here:1/apis/trainer.kubeflow.org\
                /v1alpha1/namespaces/team/trainjobs/train/status"},
            {"name": "KUBEFLOW_TRAINER_SERVER_CA_CERT",
                "value": "/var/run/secrets/workload.codeflare.dev/progress/ca.crt"},
            {"name": "KUBEFLOW_TRAINER_SERVER_TOKEN",
                "value": "/var/run/secrets/workload.codeflare.dev/progress/token"},
        ]);
        let mounts = json!([{"name": "appwrapper-progress", "readOnly": true,
            "mountPath": "/var/run/secrets/workload.codeflare.dev/progress"}]);
        let mut second = vec![other];
        second.extend(env.as_array().unwrap().clone());
        assert_eq!(
            pod,
            json!({
                "metadata": {"annotations": {"workload.codeflare.dev/progress-ca": "PEM"}},
                "spec": {
                    "initContainers": [{"name": "init"}],
                    "containers": [
                        {"name": "a", "env": env, "volumeMounts": mounts},
                        {"name": "b", "env": second, "volumeMounts": mounts},
                    ],
                    "volumes": [{"name": "appwrapper-progress", "projected": {"sources": [
                        {"serviceAccountToken": {"audience": "workload.codeflare.dev/progress",
                            "expirationSeconds": 3600, "path": "token"}},
                        {"downwardAPI": {"items": [{"path": "ca.crt", "fieldRef": {"fieldPath":
                            "metadata.annotations['workload.codeflare.dev/progress-ca']"}}]}},
                    ]}}],
                },
            })
        );
    }

    #[test]
    fn who_says_it_himself_keeps_his_own() {
        let free = json!({"name": "free"});
        for own in [
            json!({"env": [{"name": "KUBEFLOW_TRAINER_SERVER_TOKEN", "value": "/mine"}]}),
            json!({"volumeMounts": [{"name": "x",
                "mountPath": "/var/run/secrets/workload.codeflare.dev/progress/"}]}),
        ] {
            let alone = json!({"containers": [own]});
            assert_eq!(told(&alone), Ok(json!({ "spec": alone })), "nothing is of use");
            let pod = told(&json!({"containers": [own, free]})).unwrap();
            assert_eq!(pod["spec"]["containers"][0], own);
            assert_eq!(pod["spec"]["containers"][1]["env"].as_array().map(Vec::len), Some(3));
        }
    }

    #[test]
    fn what_has_no_containers_or_was_told_before_stays() {
        for spec in [
            json!({}),
            json!({"containers": null}),
            json!({"containers": []}),
            json!({"containers": 3}),
            json!({"containers": [3]}),
            json!({"containers": [{}], "volumes": [{"name": "appwrapper-progress"}]}),
        ] {
            assert_eq!(told(&spec), Ok(json!({ "spec": spec })), "{spec}");
        }
        let once = told(&given_pod()["spec"]).unwrap();
        let again = told(&once["spec"]).unwrap();
        assert_eq!(again["spec"], once["spec"]);
    }

    #[test]
    fn only_so_many_containers_are_told() {
        let spec = json!({"containers": vec![json!({}); REPORTING_CONTAINERS_MAX + 5]});
        let pod = told(&spec).unwrap();
        let told = items(&pod["spec"], "containers").iter().filter(|one| one.get("env").is_some());
        assert_eq!(told.count(), REPORTING_CONTAINERS_MAX);
        let per_container = crate::price::stored_bytes(&pod) / REPORTING_CONTAINERS_MAX;
        assert!(per_container < 700, "{per_container} bytes");
    }

    #[test]
    fn what_is_of_another_type_is_an_error() {
        for spec in [
            json!({"containers": [{"env": 3}]}),
            json!({"containers": [{"volumeMounts": {}}]}),
            json!({"containers": [{}], "volumes": "x"}),
        ] {
            assert!(told(&spec).is_err(), "{spec}");
        }
    }

    #[test]
    fn a_rendered_object_has_it_where_the_appwrapper_asks_for_it() {
        let jobs = json!({"replicatedJobs": [{"name": "a", "template": {"spec": {"template": given_pod()}}}]});
        let template = given_object("jobset.x-k8s.io/v1alpha2", "JobSet", &jobs);
        let component = Component { template, ..Component::default() };
        let pod_sets = infer(&component.template).unwrap();
        let rendered = |progress: Option<&ProgressEndpoint>| {
            let stamp = OwnershipLabels {
                appwrapper: "aw",
                uid: "u",
                attempt: 0,
                namespace: "n",
                component: 0,
                queue: None,
                scheduler_name: None,
                avoid_nodes: &[],
                suspect_nodes: None,
                aversions: &[],
                progress,
            };
            render(&component, &pod_sets, &stamp).unwrap().to_string()
        };
        assert!(!rendered(None).contains("progress"));
        assert!(rendered(Some(&endpoint())).contains("/namespaces/n/trainjobs/aw/status"));
    }
}
