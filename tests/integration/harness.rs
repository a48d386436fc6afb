//! The control plane, the controller, and a namespace for each test.

mod log;
mod manifests;

use std::sync::{Arc, LazyLock, OnceLock, mpsc};
use std::time::Duration;

use appwrapper::client::Limits;
use appwrapper::clock::SystemClock;
use appwrapper::config::Config;
use appwrapper::controller::Controller;
use appwrapper::metrics::Metrics;
use controlplane::{ControlPlane, Options};
use futures::StreamExt;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::ClientBuilder;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;

pub use log::{Log, RawObject, attempts_do_not_overlap, quota_without_a_gap};
pub use manifests::{job, pod, pod_template, tuned, wrapper};

use crate::installed::INSTALLED;
use crate::kueue::QUEUE;

/// Nothing that a test waits for takes longer, unless it never comes.
const PATIENCE: Duration = Duration::from_mins(2);

/// Kinds of the tests that have no namespace.
const CLUSTER_SCOPED: [&str; 4] =
    ["RetryPolicy", "NodeSuspicion", "ClusterQueue", "ResourceFlavor"];

/// The control plane that all tests share.
pub static PLANE: LazyLock<ControlPlane> = LazyLock::new(|| {
    let options = Options { jobset: true, training: true, ray: true, kueue: true, ..own_crds() };
    start_plane(options)
});

/// What the controller that serves all tests counts.
pub static METRICS: LazyLock<Metrics> = LazyLock::new(Metrics::new);

/// Options with our own definitions, so that garbage collection knows them from the start.
pub fn own_crds() -> Options {
    Options { crds: appwrapper::crd::all().into(), ..Options::default() }
}

/// Starts a control plane from a thread that has no runtime.
pub fn start_plane(options: Options) -> ControlPlane {
    let started = std::thread::spawn(|| runtime().block_on(ControlPlane::start(options)));
    started.join().expect("the thread ends").expect("the control plane starts")
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts")
}

/// Settings with periods that suit a test; each can be changed by an annotation. Pods of many tests fail on the same
/// nodes, and none of those is to be suspect.
pub const SETTINGS: &str = "{faultTolerance: {retryPausePeriod: 0s}, nodeSuspicion: {threshold: 700}, autopilot: {resourceTaints:
    {nvidia.com/gpu: [{key: autopilot.ibm.com/gpuhealth, value: EVICT, effect: NoExecute}]}}}";

pub fn config() -> Config {
    Config::parse(SETTINGS).expect("the settings are right")
}

/// Starts the controller that serves all tests, once; it runs until the process ends.
fn controller() {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        run_controller(|| {
            drop(
                tracing_subscriber::fmt()
                    .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
                    .with_test_writer()
                    .try_init(),
            );
            let clock = Arc::new(SystemClock);
            let metrics = METRICS.clone();
            let builder = ClientBuilder::try_from(PLANE.config()).expect("as at the start");
            let client = builder.with_layer(&metrics.calls()).with_layer(&Limits).build();
            Controller::with_metrics(client, clock, config(), metrics)
        });
    });
}

/// Runs a controller on a thread of its own until the process ends, and waits until it is ready.
pub fn run_controller(make: impl FnOnce() -> Controller + Send + 'static) {
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        runtime().block_on(async move {
            let controller = make();
            let mut listed = controller.ready();
            tokio::spawn(async move {
                listed.wait_for(|listed| *listed).await.expect("the controller runs");
                ready.send(()).expect("the test waits");
            });
            controller.run(std::future::pending()).await;
        });
    });
    is_ready.recv().expect("the controller gets ready");
}

/// Whether tests run on the product as it is installed; else, where this variable says so, with a
/// controller in this process, which a debugger can stop.
pub fn on_the_installed() -> bool {
    std::env::var_os("APPWRAPPER_TESTS_ON").is_none_or(|place| place != "process")
}

/// The control plane of the tests that run on either.
pub fn plane() -> &'static ControlPlane {
    if on_the_installed() { &INSTALLED.plane } else { &PLANE }
}

/// Runs a test in a namespace of its own, with the shared controller.
pub fn test<F: Future<Output = ()>>(name: &str, body: impl FnOnce(Case) -> F) {
    if on_the_installed() {
        runtime_test(name, || INSTALLED.plane.client(), body);
    } else {
        without_webhook(name, body);
    }
}

/// Runs a test in a namespace of its own, with a controller in this process and nobody to refuse anything.
pub fn without_webhook<F: Future<Output = ()>>(name: &str, body: impl FnOnce(Case) -> F) {
    let client = || {
        controller();
        PLANE.client()
    };
    runtime_test(name, client, body);
}

/// The metrics of the controller that serves all tests.
pub async fn page() -> String {
    if on_the_installed() { INSTALLED.page().await } else { METRICS.page() }
}

/// Runs a test in a namespace of its own, on the control plane of a client, which is made inside of the
/// test's runtime.
pub fn runtime_test<F: Future<Output = ()>>(
    name: &str,
    client: impl FnOnce() -> Client,
    body: impl FnOnce(Case) -> F,
) {
    runtime().block_on(async {
        let case = Case::new(client(), name).await;
        body(case).await;
    });
}

/// A namespace, and all that was seen in it.
pub struct Case {
    pub client: Client,
    pub namespace: String,
    log: watch::Receiver<Log>,
    sender: Arc<watch::Sender<Log>>,
}

impl Case {
    pub async fn new(client: Client, name: &str) -> Self {
        let namespace = name.replace('_', "-");
        let object: Namespace =
            serde_json::from_value(json!({"metadata": {"name": namespace}})).expect("a namespace");
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &object).await.expect("the namespace is new");
        let (sender, log) = watch::channel(Log::default());
        let case = Self { client, namespace, log, sender: Arc::new(sender) };
        case.record("workload.codeflare.dev/v1beta2", "AppWrapper").await;
        case.record("v1", "Pod").await;
        case.record("v1", "Event").await;
        case
    }

    /// Records a kind from here on.
    pub async fn record(&self, api_version: &str, kind: &str) {
        let api = self.api(api_version, kind);
        let kind = kind.to_owned();
        let sender = self.sender.clone();
        let (listed, is_listed) = tokio::sync::oneshot::channel();
        let mut listed = Some(listed);
        tokio::spawn(async move {
            let mut events = Box::pin(watcher(api, watcher::Config::default()).default_backoff());
            while let Some(event) = events.next().await {
                let (object, deleted) = match event {
                    Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                        (object, false)
                    }
                    Ok(watcher::Event::Delete(object)) => (object, true),
                    Ok(watcher::Event::InitDone) => {
                        listed.take().map(|listed| listed.send(()));
                        continue;
                    }
                    Ok(watcher::Event::Init) | Err(_) => continue,
                };
                let seen = RawObject {
                    kind: kind.clone(),
                    name: object.name_any(),
                    deleted,
                    object: Arc::new(serde_json::to_value(object).expect("an object is JSON")),
                };
                sender.send_modify(|log| log.0.push(seen));
            }
        });
        is_listed.await.expect("the watch starts");
    }

    pub fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    pub fn wrappers(&self) -> Api<DynamicObject> {
        self.api("workload.codeflare.dev/v1beta2", "AppWrapper")
    }

    /// An API of what has no namespace.
    pub fn cluster_api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::all_with(self.client.clone(), &resource)
    }

    /// Creates an object; its namespace, where its kind has one, is this one. All tests are one user: where the
    /// webhook says that this user asks too often, it is asked again when it says, as clients do.
    pub async fn create(&self, object: Value) -> DynamicObject {
        loop {
            match self.try_create(object.clone()).await {
                Err(kube::Error::Api(status)) if status.code == 429 => {
                    let after = status.details.map_or(1, |details| details.retry_after_seconds);
                    let after = u64::from(after.max(1));
                    tokio::time::sleep(std::time::Duration::from_secs(after)).await;
                }
                created => return created.expect("the object is accepted"),
            }
        }
    }

    pub async fn try_create(&self, object: Value) -> Result<DynamicObject, kube::Error> {
        let text = |pointer: &str| object[pointer].as_str().expect("an object has a kind");
        let api = if CLUSTER_SCOPED.contains(&text("kind")) {
            self.cluster_api(text("apiVersion"), text("kind"))
        } else {
            self.api(text("apiVersion"), text("kind"))
        };
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &object).await
    }

    /// Creates an AppWrapper around these templates, unsuspended.
    pub async fn wrap(
        &self,
        name: &str,
        annotations: Value,
        templates: Vec<Value>,
    ) -> DynamicObject {
        self.create(wrapper(name, annotations, templates)).await
    }

    /// Sets `spec.suspend`.
    pub async fn suspend(&self, name: &str, suspend: bool) {
        self.patch(name, json!({"spec": {"suspend": suspend}})).await;
    }

    pub async fn patch(&self, name: &str, patch: Value) {
        let (api, params, patch) = (self.wrappers(), PatchParams::default(), Patch::Merge(patch));
        api.patch(name, &params, &patch).await.expect("the patch is accepted");
    }

    /// Waits until the API server allows a user something: its authorizer learns of a new role a moment later.
    pub async fn until_allowed(&self, user: &str, attributes: Value) {
        let review =
            json!({"metadata": {}, "spec": {"user": user, "resourceAttributes": attributes}});
        let review: SubjectAccessReview = serde_json::from_value(review).expect("a question");
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let heeded = async {
            loop {
                let answer = reviews.create(&PostParams::default(), &review).await;
                if answer.expect("an answer").status.is_some_and(|said| said.allowed) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), heeded).await.expect("the role counts");
    }

    pub async fn delete(&self, api_version: &str, kind: &str, name: &str) {
        let params = DeleteParams::background();
        self.api(api_version, kind).delete(name, &params).await.expect("the object is deleted");
    }

    pub async fn delete_wrapper(&self, name: &str) {
        self.delete("workload.codeflare.dev/v1beta2", "AppWrapper", name).await;
    }

    pub fn log(&self) -> Log {
        self.log.borrow().clone()
    }

    /// Waits until something was seen.
    pub async fn until<T>(&self, what: &str, seen: impl Fn(&Log) -> Option<T>) -> T {
        let mut log = self.log.clone();
        let wait = async {
            loop {
                if let Some(found) = seen(&log.borrow_and_update()) {
                    return found;
                }
                log.changed().await.expect("the watches run");
            }
        };
        let found = tokio::time::timeout(PATIENCE, wait).await;
        found.unwrap_or_else(|_| panic!("never seen: {what}\n{}", self.story()))
    }

    /// Waits for a phase of an AppWrapper.
    pub async fn phase(&self, name: &str, phase: &str) -> RawObject {
        self.until(&format!("{name} {phase}"), |log| {
            log.last("AppWrapper", name).filter(|seen| seen.phase() == phase).cloned()
        })
        .await
    }

    /// Waits for an AppWrapper to be in a phase, or to have been in it: it may leave the phase before the test looks.
    pub async fn was(&self, name: &str, phase: &str) -> RawObject {
        self.until(&format!("{name} was {phase}"), |log| {
            log.of("AppWrapper", name).find(|seen| seen.phase() == phase).cloned()
        })
        .await
    }

    /// Waits for an AppWrapper to have been in these phases, in this order, with nothing between. Kueue may
    /// let it in before the controller has looked at it once: then it was not Suspended at first.
    pub async fn phases(&self, name: &str, phases: &[&str]) {
        self.until(&format!("{name}: {}", phases.join(" → ")), |log| {
            let seen = log.phases(name);
            let has_queue = log
                .of("AppWrapper", name)
                .any(|it| it.object["metadata"]["labels"][QUEUE].is_string());
            let at_once = match phases {
                ["", "Suspended", later @ ..] if has_queue => [&[""], later].concat(),
                all => all.to_vec(),
            };
            (seen == phases || seen == at_once).then_some(())
        })
        .await;
    }

    /// Waits for a condition of an AppWrapper.
    pub async fn condition(&self, name: &str, kind: &str, status: &str) -> RawObject {
        self.until(&format!("{name} {kind} {status}"), |log| {
            log.last("AppWrapper", name).filter(|seen| seen.condition(kind) == status).cloned()
        })
        .await
    }

    /// Waits for an AppWrapper to be gone.
    pub async fn gone(&self, kind: &str, name: &str) {
        self.until(&format!("{kind}/{name} gone"), |log| {
            log.of(kind, name).last().filter(|seen| seen.deleted).map(drop)
        })
        .await;
    }

    /// Waits for a pod of a name prefix to be in a phase.
    pub async fn pod(&self, prefix: &str, phase: &str) -> RawObject {
        self.until(&format!("a pod {prefix}* {phase}"), |log| {
            let mut pods = log.all("Pod").filter(|pod| pod.name.starts_with(prefix));
            pods.find(|pod| pod.phase() == phase).cloned()
        })
        .await
    }

    /// Waits for a Warning event about an AppWrapper; returns its message.
    pub async fn warning(&self, name: &str, reason: &str) -> String {
        self.until(&format!("a Warning {reason} about {name}"), |log| {
            log.all("Event")
                .filter(|event| event.object["involvedObject"]["name"] == name)
                .filter(|event| event.object["type"] == "Warning")
                .find(|event| event.object["reason"] == reason)
                .map(|event| event.object["message"].as_str().unwrap_or_default().to_owned())
        })
        .await
    }

    /// What was seen, for a failed test: one line a change.
    pub fn story(&self) -> String {
        let mut lines: Vec<String> = vec![];
        for seen in &self.log.borrow().0 {
            let status = &seen.object["status"];
            let detail = match seen.kind.as_str() {
                "Event" => format!("{}: {}", seen.object["reason"], seen.object["message"]),
                "Pod" => status["phase"].to_string(),
                _ => status.to_string(),
            };
            let gone = if seen.deleted { " deleted" } else { "" };
            lines.push(format!("{}/{}{gone} {detail}", seen.kind, seen.name));
        }
        lines.join("\n")
    }
}
