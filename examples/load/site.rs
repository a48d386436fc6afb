//! The control plane of one run, and requests to it.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use controlplane::{ControlPlane, Options};
use futures::future::try_join_all;
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::objects;
use crate::observe::Watch;

/// The namespace of a run.
pub const NAMESPACE: &str = "load";
/// How many connections create objects at the same time.
const CONNECTIONS: usize = 8;
/// The nodes of a small run; each takes 1000 pods.
const NODES: usize = 4;
/// How many objects one more node is for.
const OBJECTS_PER_NODE: usize = 500;
/// The longest that the webhook may ask to wait before a request is repeated.
const WAIT_MAX: u32 = 60;

/// A control plane with nothing in it but one namespace.
pub struct Site {
    plane: ControlPlane,
    clients: Vec<Client>,
}

impl Site {
    /// Starts a control plane with an audit log and room for so many pods.
    pub async fn start(size: usize, kueue: bool) -> Result<Self, Failure> {
        let options = Options {
            nodes: NODES + size / OBJECTS_PER_NODE,
            audit: true,
            kueue,
            // Kueue would release the quota of what is being deleted while its pods still end
            kueue_config: json!({"featureGates": {"FinishOrphanedWorkloads": false}}),
            crds: appwrapper::crd::all().into(),
            ..Options::default()
        };
        let plane = ControlPlane::start(options).await?;
        // a client of its own has connections of its own
        let clients = (0..CONNECTIONS).map(|_| plane.client()).collect();
        let this = Self { plane, clients };
        this.namespace(NAMESPACE).await?;
        Ok(this)
    }

    /// The directory that all processes of the control plane have in their command lines.
    pub fn dir(&self) -> &Path {
        self.plane.state_dir()
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        self.plane.kubeconfig()
    }

    /// The audit log.
    pub fn audit_log(&self) -> Result<&Path, Failure> {
        let problem = || "the control plane was started without one".to_owned();
        self.plane.audit_log().ok_or_else(|| Failure::Document {
            what: "the audit log".to_owned(),
            problem: problem(),
        })
    }

    /// Ends everything.
    pub async fn stop(self) {
        self.plane.stop().await;
    }

    /// Watches a collection, over a connection of its own.
    pub async fn watch(&self, path: String) -> Result<Watch, Failure> {
        Watch::start(self.plane.client(), path).await
    }

    /// Creates a namespace.
    pub async fn namespace(&self, name: &str) -> Result<(), Failure> {
        self.create("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await.map(drop)
    }

    /// Creates an object in a collection; when that was asked for.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Instant, Failure> {
        self.create_over(0, path, object).await
    }

    /// Creates objects over several connections, as fast as these can; when each was asked for.
    pub async fn create_all(
        &self,
        path: &str,
        count: usize,
        object: impl Fn(usize) -> Value,
    ) -> Result<Vec<Instant>, Failure> {
        let next = AtomicUsize::new(0);
        let work = (0..CONNECTIONS).map(|connection| {
            let (next, object) = (&next, &object);
            async move {
                let mut asked = vec![];
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return Ok::<_, Failure>(asked);
                    }
                    let at = self.create_over(connection, path, &object(number)).await?;
                    asked.push((number, at));
                }
            }
        });
        let mut all: Vec<(usize, Instant)> =
            try_join_all(work).await?.into_iter().flatten().collect();
        all.sort_unstable();
        Ok(all.into_iter().map(|(_, at)| at).collect())
    }

    async fn create_over(
        &self,
        connection: usize,
        path: &str,
        object: &Value,
    ) -> Result<Instant, Failure> {
        let asked = Instant::now();
        let body = object.to_string().into_bytes();
        loop {
            let action = || format!("create {} in {path}", object["metadata"]["name"]);
            let request = Request::post(path).header("content-type", "application/json");
            match self.send(connection, request, body.clone()).await {
                // where the webhook limits a user's rate, it says when to ask again
                Err(kube::Error::Api(status)) if status.code == 429 => {
                    let wait = status.details.map_or(1, |details| details.retry_after_seconds);
                    let wait = Duration::from_secs(wait.clamp(1, WAIT_MAX).into());
                    tokio::time::sleep(wait).await;
                }
                answer => return answer.map(|_| asked).map_err(Failure::api(action())),
            }
        }
    }

    /// Sends a merge patch of an object, or of its status.
    pub async fn patch(&self, number: usize, path: &str, change: &Value) -> Result<(), Failure> {
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        let sent = self.send(number, request, change.to_string().into_bytes()).await;
        sent.map(drop).map_err(Failure::api(format!("patch {path}")))
    }

    /// Deletes an object, and then what it owns.
    pub async fn delete(&self, number: usize, path: &str) -> Result<(), Failure> {
        let request = Request::delete(format!("{path}?propagationPolicy=Background"));
        let sent = self.send(number, request, vec![]).await;
        sent.map(drop).map_err(Failure::api(format!("delete {path}")))
    }

    /// Has so many pods of the run fail at once, `name(i)` each; when the first and the last were asked for.
    pub async fn fail_pods(
        &self,
        count: usize,
        name: impl Fn(usize) -> String,
    ) -> Result<(Instant, Instant), Failure> {
        let (begin, pods, failed) = (Instant::now(), objects::pods(NAMESPACE), objects::failed());
        let next = AtomicUsize::new(0);
        let work = (0..CONNECTIONS * 2).map(|connection| {
            let (next, name, pods, failed) = (&next, &name, &pods, &failed);
            async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return Ok::<(), Failure>(());
                    }
                    let path = format!("{pods}/{}/status", name(number));
                    self.patch(connection, &path, failed).await?;
                }
            }
        });
        try_join_all(work).await?;
        Ok((begin, Instant::now()))
    }

    async fn send(
        &self,
        number: usize,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> kube::Result<String> {
        let request = request.body(body).map_err(kube::Error::HttpError)?;
        let client = &self.clients[number % self.clients.len()];
        client.request_text(request).await
    }
}
