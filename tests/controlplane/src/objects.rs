//! Requests to the API server.

use std::collections::BTreeSet;

use http::Request;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, GroupVersionForDiscovery};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::error::Error;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Keeps the server from sending back all of an object that it was just sent.
const METADATA_ONLY: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Creates an object given as JSON at the path of its collection, unless it is there already.
pub(crate) async fn create(client: &Client, path: &str, object: &Value) -> Result<(), Error> {
    post(client, path, JSON, object.to_string().into_bytes()).await
}

/// Creates a CRD given as YAML, unless it is there already.
pub(crate) async fn create_definition(client: &Client, yaml: Vec<u8>) -> Result<(), Error> {
    post(client, DEFINITIONS, YAML, yaml).await
}

/// Creates a namespace, unless it is there already.
pub(crate) async fn create_namespace(client: &Client, name: &str) -> Result<(), Error> {
    create(client, "/api/v1/namespaces", &json!({ "metadata": { "name": name } })).await
}

async fn post(client: &Client, path: &str, format: &str, body: Vec<u8>) -> Result<(), Error> {
    let request = Request::post(path).header("content-type", format);
    match send(client, format!("create in {path}"), request, body).await {
        Err(Error::Api { source: kube::Error::Api(status), .. }) if status.code == 409 => Ok(()),
        other => other,
    }
}

async fn send(
    client: &Client,
    action: String,
    request: http::request::Builder,
    body: Vec<u8>,
) -> Result<(), Error> {
    let request = request.header("accept", METADATA_ONLY).body(body);
    let answer = match request.map_err(kube::Error::HttpError) {
        Ok(request) => client.request_text(request).await,
        Err(error) => Err(error),
    };
    answer.map(drop).map_err(Error::api(action))
}

/// Whether the server says that it is ready, and has made the namespace that tests use.
pub(crate) async fn server_is_ready(client: &Client) -> bool {
    get(client, "/readyz").await && get(client, "/api/v1/namespaces/default").await
}

/// Whether resources of one group can be discovered, which is when they can be used. An operator
/// that starts sooner does without them, or ends.
pub(crate) async fn are_served(client: &Client, group: &str, plurals: &[&str]) -> bool {
    try_are_served(client, group, plurals).await.unwrap_or(false)
}

async fn try_are_served(client: &Client, group: &str, plurals: &[&str]) -> kube::Result<bool> {
    let request = Request::get(format!("/apis/{group}")).body(Vec::new());
    let group: APIGroup = client.request(request.map_err(kube::Error::HttpError)?).await?;
    let mut served = BTreeSet::new();
    for GroupVersionForDiscovery { group_version, .. } in group.versions {
        let listed = client.list_api_group_resources(&group_version).await?.resources;
        served.extend(listed.into_iter().map(|it| it.name));
    }
    Ok(plurals.iter().all(|it| served.contains(*it)))
}

/// Whether all nodes have reported, and pods may go there.
pub(crate) async fn nodes_are_ready(client: &Client, count: usize) -> bool {
    let api: Api<Node> = Api::all(client.clone());
    let Ok(nodes) = api.list(&ListParams::default()).await else { return false };
    let usable = |node: &&Node| takes_pods(node) && node.name_any().starts_with("node-");
    nodes.iter().filter(usable).count() >= count
}

/// Whether one node has reported, and pods may go there.
pub(crate) async fn node_is_ready(client: &Client, name: &str) -> bool {
    let api: Api<Node> = Api::all(client.clone());
    api.get_opt(name).await.ok().flatten().is_some_and(|node| takes_pods(&node))
}

fn takes_pods(node: &Node) -> bool {
    let tainted = node.spec.as_ref().and_then(|it| it.taints.as_ref());
    let conditions = node.status.as_ref().and_then(|it| it.conditions.as_ref());
    tainted.is_none_or(Vec::is_empty)
        && conditions
            .is_some_and(|all| all.iter().any(|it| it.type_ == "Ready" && it.status == "True"))
}

async fn get(client: &Client, path: &str) -> bool {
    match Request::get(path).body(Vec::new()) {
        Ok(request) => client.request_text(request).await.is_ok(),
        Err(_) => false,
    }
}
