//! Pods report their progress over HTTP, as Kubeflow Trainer's clients do: with the URL, the CA and the token that
//! they find in their own environment.

use appwrapper::api::keys;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use crate::harness::{Case, RawObject, job, pod, tuned, wrapper};
use crate::installed::{INSTALLED, installed_test};

/// The audience that the tokens of the server have.
const AUDIENCE: &str = "workload.codeflare.dev/progress";

/// The ServiceAccount of the pods.
const ACCOUNT: &str = "trainer";

/// What a pod knows of the server.
struct Reporter {
    url: http::Uri,
    ca: String,
}

impl Reporter {
    /// Reads the environment of the first container, as the kubelet would mount it.
    fn of(pod: &RawObject) -> Self {
        let env = pod.object["spec"]["containers"][0]["env"].as_array().expect("an environment");
        let value = |name: &str| {
            let found = env.iter().find(|each| each["name"] == name).expect(name);
            found["value"].as_str().expect("a text").to_owned()
        };
        let token = value("KUBEFLOW_TRAINER_SERVER_TOKEN");
        let folder = token.strip_suffix("/token").expect("the token is a file");
        assert_eq!(value("KUBEFLOW_TRAINER_SERVER_CA_CERT"), format!("{folder}/ca.crt"));
        let volumes = pod.object["spec"]["volumes"].as_array().expect("volumes");
        let volume = volumes.iter().find(|each| each["name"] == "appwrapper-progress");
        let sources = &volume.expect("the volume")["projected"]["sources"];
        assert_eq!(sources[0]["serviceAccountToken"]["audience"], AUDIENCE);
        let ca = &pod.object["metadata"]["annotations"][keys::PROGRESS_CA];
        let url = value("KUBEFLOW_TRAINER_SERVER_URL").parse().expect("a URL");
        Self { url, ca: ca.as_str().expect("the CA").to_owned() }
    }

    /// Posts a report; the HTTP status of the answer.
    async fn post(&self, path: &str, token: &str, body: &Value) -> u16 {
        let host = format!("https://{}", self.url.authority().expect("a host"));
        let mut config = kube::Config::new(host.parse().expect("a URL"));
        let ca = CertificateDer::from_pem_slice(self.ca.as_bytes()).expect("a certificate");
        config.root_cert = Some(vec![ca.to_vec()]);
        config.default_retry = false;
        config.auth_info.token = Some(token.to_owned().into());
        let client = kube::Client::try_from(config).expect("a client");
        let request = http::Request::post(path).body(body.to_string().into_bytes());
        match client.request::<Value>(request.expect("a request")).await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("no answer: {error}"),
        }
    }
}

/// A token of the ServiceAccount, perhaps bound to a pod.
async fn token(case: &Case, audience: &str, pod: Option<&RawObject>) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(case.client.clone(), &case.namespace);
    let bound_object_ref = pod.map(|pod| BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(pod.name.clone()),
        uid: Some(pod.uid().to_owned()),
    });
    let spec = TokenRequestSpec {
        audiences: Some(vec![audience.to_owned()]),
        bound_object_ref,
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let asked = accounts.create_token_request(ACCOUNT, &PostParams::default(), &request).await;
    asked.expect("a token").status.and_then(|status| status.token).expect("a token")
}

/// A message, as the callback of Transformers sends it.
fn message(step: i64) -> Value {
    json!({"trainerStatus": {
        "lastUpdatedTime": "2026-01-05T10:00:00.5+00:00", "progressPercentage": 10,
        "estimatedRemainingSeconds": 60, "metrics": [
            {"name": "loss", "value": "0.5"}, {"name": "current_step", "value": step.to_string()},
        ],
    }})
}

/// Makes the ServiceAccount of the pods: nothing here makes one for each namespace, nor sets it in pods.
async fn account(case: &Case) {
    let accounts: Api<ServiceAccount> = Api::namespaced(case.client.clone(), &case.namespace);
    let object = serde_json::from_value(json!({"metadata": {"name": ACCOUNT}}));
    // it may be there
    drop(accounts.create(&PostParams::default(), &object.expect("an account")).await);
}

/// An AppWrapper of a Job whose pod is to report.
async fn reporting(case: &Case, name: &str, stall_after: &str) -> RawObject {
    account(case).await;
    let mut job = job(name, json!({}), &[]);
    job["spec"]["template"]["spec"]["serviceAccountName"] = json!(ACCOUNT);
    let mut wrapper = wrapper(name, tuned(&[("retryLimit", "0")]), vec![job]);
    wrapper["spec"]["progress"] = json!({ "stallAfter": stall_after });
    case.create(wrapper).await;
    case.pod(name, "Running").await
}

/// Waits until a pod has the report of a step.
async fn reported(case: &Case, pod: &str, step: i64) {
    let step = format!("\"step\":{step}");
    case.until(&format!("{pod} reports {step}"), |log| {
        let seen = log.last("Pod", pod)?;
        let text = seen.object["metadata"]["annotations"][keys::PROGRESS].as_str()?;
        text.contains(&step).then_some(())
    })
    .await;
}

/// Reports progress once.
pub async fn report_progress(case: &Case, name: &str) {
    let pod = reporting(case, name, "1h").await;
    let reporter = Reporter::of(&pod);
    let token = token(case, AUDIENCE, Some(&pod)).await;
    assert_eq!(reporter.post(reporter.url.path(), &token, &message(1)).await, 200);
    reported(case, &pod.name, 1).await;
    case.delete_wrapper(name).await;
    case.gone("AppWrapper", name).await;
}

#[test]
fn a_pod_reports_over_http_until_it_hangs() {
    installed_test("a_pod_reports_over_http_until_it_hangs", async |case| {
        let pod = reporting(&case, "train", "10s").await;
        let reporter = Reporter::of(&pod);
        let token = token(&case, AUDIENCE, Some(&pod)).await;
        let path = reporter.url.path().to_owned();
        for step in [1, 2] {
            assert_eq!(reporter.post(&path, &token, &message(step)).await, 200);
            reported(&case, &pod.name, step).await;
        }
        // it says nothing any more
        let failed = case.phase("train", "Failed").await;
        let attempt = &failed.object["status"]["attempts"][0];
        assert!(attempt.to_string().contains("Stalled"), "{attempt}");
        assert_eq!(attempt["progress"]["step"], 2, "{attempt}");
    });
}

#[test]
fn the_server_has_a_thread_of_its_own() {
    installed_test("the_server_has_a_thread_of_its_own", async |_| {
        let threads = std::fs::read_dir(format!("/proc/{}/task", INSTALLED.process));
        let name = |thread: std::io::Result<std::fs::DirEntry>| {
            let file = thread.expect("a thread").path().join("comm");
            // it may have ended
            std::fs::read_to_string(file).unwrap_or_default().trim().to_owned()
        };
        let names: Vec<String> = threads.expect("it runs, on Linux").map(name).collect();
        for thread in ["progress", "servers"] {
            assert!(names.iter().any(|name| name == thread), "{thread}: {names:?}");
        }
    });
}

#[test]
fn nobody_reports_for_another() {
    installed_test("nobody_reports_for_another", async |case| {
        let pod_of_train = reporting(&case, "train", "1h").await;
        let reporter = Reporter::of(&pod_of_train);
        let path = reporter.url.path().to_owned();
        let elsewhere = path.replace(&case.namespace, "kube-system");
        let another = path.replace("/train/", "/other/");
        let own = token(&case, AUDIENCE, Some(&pod_of_train)).await;
        // a pod that no AppWrapper made
        let mut forged = pod("forged", &[]);
        forged["spec"]["serviceAccountName"] = json!(ACCOUNT);
        case.create(forged).await;
        let forged = case.pod("forged", "Running").await;
        let forged = token(&case, AUDIENCE, Some(&forged)).await;
        let unbound = token(&case, AUDIENCE, None).await;
        let audience = token(&case, "https://kubernetes.default.svc", Some(&pod_of_train)).await;
        for (path, token, code) in [
            (&path, own.as_str(), 200),
            (&elsewhere, &own, 403),
            (&another, &own, 404),
            (&path, &forged, 403),
            (&path, &unbound, 403),
            (&path, &audience, 401),
            (&path, "guess", 401),
        ] {
            assert_eq!(reporter.post(path, token, &message(1)).await, code, "{path}");
        }
        let wrong = json!({"trainerStatus": {"progressPercentage": 101}});
        assert_eq!(reporter.post(&path, &own, &wrong).await, 400);
    });
}
