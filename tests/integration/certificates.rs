//! The webhook's certificate: kept by several replicas, renewed while objects are admitted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use appwrapper::certificate::{CertificateNames, Lifetimes, Renewer, Webhooks};
use appwrapper::clock::{Clock, SystemClock};
use appwrapper::sim::{ApiServer, Store};
use appwrapper::tls::{self, Current, Limits, Pair, Validity};
use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::post;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::runtime::wait::await_condition;
use kube::{Client, Resource};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::harness::{Case, runtime_test};
use crate::proxy::PLANE;

/// Nothing that is waited for takes longer, unless it never comes.
const PATIENCE: Duration = Duration::from_mins(4);
/// How many times the certificate changes under load.
const ROTATIONS: usize = 3;
/// How long a generation lives on the simulated server.
const LIFE: Duration = Duration::from_hours(3);
/// Objects are created by so many at a time.
const WORKERS: usize = 4;

/// A client's view of one of the configurations.
fn configurations<K: Resource<DynamicType = ()>>(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<K>(&()))
}

/// The names of the configurations.
fn webhooks(place: &CertificateNames) -> &Webhooks {
    place.webhooks.as_ref().expect("it has configurations")
}

/// The CA bundles of a configuration; nothing where an entry has none.
fn bundles(configuration: &DynamicObject) -> Option<Vec<String>> {
    let entries = configuration.data["webhooks"].as_array().expect("it has webhooks");
    let bundle = |entry: &Value| {
        let bundle = entry["clientConfig"].get("caBundle")?;
        let ByteString(bytes) = serde_json::from_value(bundle.clone()).ok()?;
        String::from_utf8(bytes).ok()
    };
    entries.iter().map(bundle).collect()
}

fn is_trusted_by(pair: &Pair, configuration: &DynamicObject) -> bool {
    let trusted = |bundle: &String| pair.trusted_until(bundle.as_bytes()).is_some();
    bundles(configuration).is_some_and(|bundles| bundles.iter().all(trusted))
}

/// Lets every object in.
fn allow(body: &Bytes) -> impl IntoResponse + use<> {
    let review: Value = serde_json::from_slice(body).expect("a review");
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true}});
    ([(header::CONTENT_TYPE, "application/json")], answer.to_string())
}

/// A replica of a webhook on the real control plane: its renewer and its server.
struct Replica {
    current: Arc<Current>,
    url: String,
    asked: Arc<AtomicUsize>,
}

impl Replica {
    async fn start(client: &Client, place: &CertificateNames, lifetimes: Lifetimes) -> Self {
        let (current, asked) = (Arc::new(Current::new()), Arc::new(AtomicUsize::new(0)));
        let renewer = Renewer::new(client, Arc::new(SystemClock), current.clone(), place.clone());
        tokio::spawn(renewer.with_lifetimes(lifetimes).run());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("https://{}/", listener.local_addr().expect("an address"));
        let count = asked.clone();
        let answer = post(async move |body: Bytes| {
            count.fetch_add(1, Ordering::Relaxed);
            allow(&body)
        });
        let router = Router::new().route("/", answer);
        let served = current.clone();
        tokio::spawn(async move {
            let stop = std::future::pending();
            tls::serve(listener, router, served, None, Limits::default(), stop).await;
        });
        Self { current, url, asked }
    }

    /// Waits until its certificate has changed so many times.
    async fn rotations(&self, count: usize) {
        let mut validity = self.current.validity();
        validity.mark_unchanged();
        for _ in 0..count {
            validity.changed().await.expect("the server runs");
        }
    }
}

/// An entry of a configuration, for `ConfigMap`s of one namespace alone.
fn entry(namespace: &str, name: &str, url: &str) -> Value {
    json!({
        "name": format!("{name}.example.com"), "clientConfig": {"url": url},
        "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                   "resources": ["configmaps"]}],
    })
}

async fn configure(api: &Api<DynamicObject>, name: &str, entries: &[Value]) {
    let object = json!({"metadata": {"name": name}, "webhooks": entries});
    let object = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object).await.expect("the configuration is accepted");
}

/// Creates objects until it is told to stop; returns how many, or the first that was refused.
async fn create_all(
    api: Api<DynamicObject>,
    worker: usize,
    stop: Arc<AtomicBool>,
) -> Result<usize, String> {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return Ok(number);
        }
        let object = json!({"metadata": {"name": format!("of-{worker}-{number}")}});
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        let created = api.create(&PostParams::default(), &object).await;
        created.map_err(|error| format!("object {number} of worker {worker}: {error}"))?;
    }
    unreachable!("there is always a next number")
}

#[test]
#[ignore = "nightly: a certificate that lives for a minute"]
fn a_certificate_is_renewed_under_load_without_a_refused_request() {
    runtime_test(
        "certificates",
        || PLANE.client(),
        |case| async move {
            let place = CertificateNames {
                webhooks: Some(Webhooks {
                    mutating: "certificates-mutating".to_owned(),
                    validating: "certificates-validating".to_owned(),
                }),
                ..CertificateNames::of(&case.namespace)
            };
            let lifetimes = Lifetimes::of(Duration::from_secs(36));
            let one = Replica::start(&case.client, &place, lifetimes).await;
            let two = Replica::start(&case.client, &place, lifetimes).await;
            let mutating = configurations::<MutatingWebhookConfiguration>(&case.client);
            let validating = configurations::<ValidatingWebhookConfiguration>(&case.client);
            let entry = |name: &str, replica: &Replica| entry(&case.namespace, name, &replica.url);
            configure(&mutating, &webhooks(&place).mutating, &[entry("one", &one)]).await;
            let entries = [entry("two", &two), entry("again", &one)];
            configure(&validating, &webhooks(&place).validating, &entries).await;

            let maps = case.api("v1", "ConfigMap");
            admitted(&maps).await;
            let begin = Instant::now();
            let (stop, mut workers) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
            for worker in 0..WORKERS {
                workers.spawn(create_all(maps.clone(), worker, stop.clone()));
            }
            let rotated =
                async { tokio::join!(one.rotations(ROTATIONS), two.rotations(ROTATIONS)) };
            timeout(PATIENCE, rotated).await.expect("the certificate changes");
            stop.store(true, Ordering::Relaxed);
            let mut created = 0;
            while let Some(ended) = workers.join_next().await {
                created += ended.expect("a worker ends").expect("every object is admitted");
            }
            let asked = [&one, &two].map(|replica| replica.asked.load(Ordering::Relaxed));
            println!("{created} objects in {:.0?}, {asked:?} reviews", begin.elapsed());
            assert!(asked[0] >= 2 * created && asked[1] >= created, "all were asked: {asked:?}");

            mended_after_a_reset(&case, &place, &one).await;
            let params = DeleteParams::default();
            mutating.delete(&webhooks(&place).mutating, &params).await.expect("it is deleted");
            validating.delete(&webhooks(&place).validating, &params).await.expect("it is deleted");
        },
    );
}

/// Waits until the API server trusts the webhooks: it refuses everything before.
async fn admitted(maps: &Api<DynamicObject>) {
    let object = json!({"metadata": {"generateName": "first-"}});
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    let tries = async {
        while maps.create(&PostParams::default(), &object).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, tries).await.expect("the webhooks are trusted");
}

/// Somebody applies the manifest again, which has no CA bundle.
async fn mended_after_a_reset(case: &Case, place: &CertificateNames, replica: &Replica) {
    let api = configurations::<ValidatingWebhookConfiguration>(&case.client);
    let entries = json!([entry(&case.namespace, "two", &replica.url)]);
    let patch = Patch::Merge(json!({"webhooks": entries}));
    let patched = api.patch(&webhooks(place).validating, &PatchParams::default(), &patch).await;
    assert_eq!(bundles(&patched.expect("the patch is accepted")), None);
    let pair = replica.current.pair().expect("one is served");
    let mended =
        await_condition(api, &webhooks(place).validating, |found: Option<&DynamicObject>| {
            found.is_some_and(|found| is_trusted_by(&pair, found))
        });
    timeout(PATIENCE, mended).await.expect("it is mended").expect("the watch goes on");
    admitted(&case.api("v1", "ConfigMap")).await;
}

/// A clock that shows the runtime's time, which passes at once where everybody waits.
#[derive(Debug)]
struct Paused(Instant);

impl Paused {
    fn precise(&self) -> Timestamp {
        let begin = Timestamp::from_second(1_800_000_000).expect("a moment");
        begin.checked_add(self.0.elapsed()).expect("a moment")
    }
}

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.precise().as_second()).expect("a moment")
    }

    fn around_now(&self) -> (Timestamp, Timestamp) {
        (self.now(), self.now().checked_add(Duration::from_secs(1)).expect("a moment"))
    }

    fn until(&self, moment: Timestamp) -> Duration {
        moment.duration_since(self.precise()).try_into().unwrap_or_default()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Two replicas on a simulated server.
struct Simulated {
    client: Client,
    replicas: [Arc<Current>; 2],
    clock: Arc<Paused>,
    place: CertificateNames,
}

impl Simulated {
    fn start() -> Self {
        let clock = Arc::new(Paused(Instant::now()));
        let mut store = Store::new(clock.now());
        for kind in ["Mutating", "Validating"] {
            let plural = format!("{}webhookconfigurations", kind.to_lowercase());
            let kind = format!("{kind}WebhookConfiguration");
            store.kinds.define(&json!({"spec": {
                "group": "admissionregistration.k8s.io", "scope": "Cluster",
                "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1", "served": true}],
            }}));
        }
        let client = ApiServer::new(store).client();
        let place = CertificateNames::of("default");
        let replicas = [(); 2].map(|()| {
            let current = Arc::new(Current::new());
            let renewer = Renewer::new(&client, clock.clone(), current.clone(), place.clone());
            tokio::spawn(renewer.with_lifetimes(Lifetimes::of(LIFE)).run());
            current
        });
        Self { client, replicas, clock, place }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.place.namespace)
    }

    async fn configurations(&self) -> Vec<DynamicObject> {
        let mutating = configurations::<MutatingWebhookConfiguration>(&self.client);
        let validating = configurations::<ValidatingWebhookConfiguration>(&self.client);
        let found = [
            mutating.get_opt(&webhooks(&self.place).mutating).await,
            validating.get_opt(&webhooks(&self.place).validating).await,
        ];
        found.into_iter().filter_map(|found| found.expect("the server answers")).collect()
    }

    /// Whether both serve the same, which is valid, trusted, and for this host.
    async fn is_well(&self, host: &str) -> bool {
        let [Some(one), Some(two)] = self.replicas.each_ref().map(|it| it.pair()) else {
            return false;
        };
        let host = host.try_into().expect("a name");
        let is_trusted = |found: &DynamicObject| is_trusted_by(&one, found);
        one == two
            && one.covers(&host)
            && one.not_after() > self.clock.now()
            && self.configurations().await.iter().all(is_trusted)
    }

    /// Waits until all is well, and for as long until it stays so.
    async fn settles(&self, host: &str) -> Pair {
        let wait = async {
            while !self.is_well(host).await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(PATIENCE, wait).await.expect("all is well in the end");
        self.replicas[0].pair().expect("one is served")
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_outlives_configurations_and_secrets() {
    let world = Simulated::start();
    let first = world.settles("appwrapper-webhook-service.default.svc").await;
    // configurations come, with names of their own
    let client = |client| json!({"name": "w", "clientConfig": client});
    let service = client(json!({"service": {"name": "other", "namespace": "elsewhere"}}));
    let url = client(json!({"url": "https://10.1.2.3:9443/"}));
    let mutating = configurations::<MutatingWebhookConfiguration>(&world.client);
    let validating = configurations::<ValidatingWebhookConfiguration>(&world.client);
    configure(&mutating, &webhooks(&world.place).mutating, &[service.clone(), url]).await;
    configure(&validating, &webhooks(&world.place).validating, &[service]).await;
    let second = world.settles("10.1.2.3").await;
    assert!(first != second && second.covers(&"other.elsewhere.svc".try_into().expect("a name")));
    // a day passes, and at no moment anything is wrong
    let mut validity = world.replicas[0].validity();
    let mut changes = 0;
    for _ in 0..24 * 20 {
        tokio::time::sleep(Duration::from_mins(3)).await;
        assert!(world.is_well("10.1.2.3").await, "at {}", world.clock.now());
        changes += usize::from(validity.has_changed().expect("it runs"));
        validity.mark_unchanged();
    }
    assert_eq!(changes, 11, "one in 2 h 10 min");
    // somebody puts garbage into the Secret, somebody deletes it
    let before = world.settles("10.1.2.3").await;
    let garbage = json!({"data": {"tls.key": "YQ==", "next-tls.crt": "YQ=="}});
    let (name, params) = (world.place.secret.as_str(), PatchParams::default());
    let patched = world.secrets().patch(name, &params, &Patch::Merge(garbage)).await;
    patched.expect("the Secret is there");
    renewed(&world, &before).await;
    let before = world.settles("10.1.2.3").await;
    world.secrets().delete(name, &DeleteParams::default()).await.expect("the Secret is there");
    renewed(&world, &before).await;
    let kept = world.secrets().get(name).await.expect("the Secret is there again");
    let keys: Vec<String> = kept.data.unwrap_or_default().into_keys().collect();
    assert_eq!(keys, ["ca.crt", "tls.crt", "tls.key"]);
}

/// Waits until another certificate is in use, and all is well.
async fn renewed(world: &Simulated, before: &Pair) {
    let mut validity = world.replicas[0].validity();
    let is_other = |_: &Validity| world.replicas[0].pair().as_ref() != Some(before);
    let waited = timeout(PATIENCE, validity.wait_for(is_other)).await;
    drop(waited.expect("it is renewed").expect("it runs"));
    world.settles("10.1.2.3").await;
}
