//! `appwrapper export`: an AppWrapper and the objects around it, as a bundle.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap_complete::engine::ArgValueCompleter;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::super::bundle::EXPORTED_AT;
use super::super::cluster::{said, unread};
use super::super::complete::names_in_the_cluster;
use super::super::configuration::ControllerConfig;
use super::super::explain::{retry_sources, world};
use super::super::place::{Place, get};
use super::super::{ClusterArgs, DONE, Error, json, term};
use super::describe::events;
use super::tree::look;
use super::{block_on, now, object_name, wrapper_name};
use crate::config::{Autopilot, Config};
use crate::observe::ancestry;
use crate::observe::assemble::{Wrapper, kind_of};
use crate::observe::cache::{Cache, KindKey};
use crate::observe::live;
use crate::observe::pod_record::PodRecord;
use crate::observe::raw_object::RawObject;
use crate::observe::records::Identity;
use crate::observe::retry_sources::{Attach, fill};

/// The most nodes of pods that are exported.
const NODES_MAX: usize = 200;
/// What stands for a value that is left out.
const LEFT_OUT: &str = "(left out)";

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Name of the AppWrapper
    #[arg(value_parser = wrapper_name, add = ArgValueCompleter::new(names_in_the_cluster))]
    name: String,
    /// Namespace of the AppWrapper; defaults to the namespace of the kubeconfig
    #[arg(short, long, value_parser = object_name)]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// What an export is made of.
struct Exported {
    wrapper: Value,
    /// The objects around it, each with its kind.
    objects: Vec<(KindKey, RawObject)>,
    notes: Vec<String>,
}

pub(in crate::cli) fn run(args: &Args) -> Result<ExitCode, Error> {
    let exported = block_on(async {
        let place = Place::of(&args.cluster, args.namespace.as_deref()).await?;
        collect(&place, &args.name).await
    })?;
    exported.notes.iter().for_each(|note| term::remark(&format!("note: {note}")));
    term::print_own(&json(&list(exported, now())?)?);
    Ok(DONE)
}

/// Reads everything that has a say in a decision about an AppWrapper.
async fn collect(place: &Place, name: &str) -> Result<Exported, Error> {
    let ControllerConfig { config, doubt } = ControllerConfig::of_cluster(&place.client).await;
    let one = place.one(name).await?;
    let wrapper = &*one.wrapper;
    let found = look::look(place, wrapper).await?;
    let mut notes: Vec<String> = found.notes.into_iter().chain(doubt).collect();
    let mut objects = ours(wrapper, found.objects);
    let (attach, cache) = (world::attach(wrapper, &config), Cache::default());
    let sources = retry_sources::collect(&place.client, wrapper, &attach, &cache).await?;
    let all_nodes = may_avoid_nodes(wrapper, &cache, &attach);
    objects.extend(nodes(place, &objects, all_nodes, &mut notes).await);
    objects.extend(sources.objects);
    notes.extend(sources.notes);
    objects.extend(workloads(place, &wrapper.uid, &mut notes).await);
    let warnings = warnings(place, wrapper, &objects, &config, &mut notes).await;
    objects.extend(warnings);
    Ok(Exported { wrapper: one.value()?, objects, notes })
}

/// The Warning events that `why` shows.
async fn warnings(
    place: &Place,
    wrapper: &Wrapper,
    objects: &[(KindKey, RawObject)],
    config: &Config,
    notes: &mut Vec<String>,
) -> Vec<(KindKey, RawObject)> {
    let snapshot = world::shown(wrapper, objects, config);
    let found = events::warnings(place, wrapper, Some(&snapshot), notes).await;
    found.into_iter().map(|seen| (kind("v1", "Event"), seen)).collect()
}

fn kind(api_version: &str, kind: &str) -> KindKey {
    KindKey { api_version: api_version.to_owned(), kind: kind.to_owned() }
}

/// The objects that have the names of its components, and those that belong to it by their owners or, where an owner
/// is gone, by their label; each once.
fn ours(wrapper: &Wrapper, objects: Vec<(KindKey, RawObject)>) -> Vec<(KindKey, RawObject)> {
    let components: BTreeSet<(KindKey, &str)> =
        wrapper.components.iter().map(|one| (kind_of(one), one.name.as_str())).collect();
    let all: Vec<_> =
        objects.into_iter().map(|(kind, seen)| (Identity::of(&seen.meta), kind, seen)).collect();
    let is_named = |of: &Identity, kind: &KindKey| components.contains(&(kind.clone(), &of.name));
    let mut known = BTreeSet::from([wrapper.uid.clone()]);
    // each round finds what those of the round before own
    for _ in 0..=ancestry::CHAIN_MAX {
        let before = known.len();
        for (of, kind, _) in &all {
            let is_owned = of.controller.as_ref().is_some_and(|owner| known.contains(&owner.uid));
            let is_labelled = kind.is_pod() && of.appwrapper_uid.as_ref() == Some(&wrapper.uid);
            if is_owned || is_labelled || is_named(of, kind) {
                known.insert(of.uid.clone());
            }
        }
        if known.len() == before {
            break;
        }
    }
    let mut taken = BTreeSet::new();
    let is_first = |of: &Identity| known.contains(&of.uid) && taken.insert(of.uid.clone());
    all.into_iter().filter_map(with(is_first)).collect()
}

/// The kind and the object, where the identity fits.
fn with(
    mut fits: impl FnMut(&Identity) -> bool,
) -> impl FnMut((Identity, KindKey, RawObject)) -> Option<(KindKey, RawObject)> {
    move |(of, kind, seen)| fits(&of).then_some((kind, seen))
}

/// Whether a RetryPolicy can make a retry avoid a node: then it matters which others there are.
fn may_avoid_nodes(wrapper: &Wrapper, cache: &Cache, attach: &Attach) -> bool {
    let mut snapshot = wrapper.snapshot();
    // marks of nodes do not matter for that
    fill(&mut snapshot, wrapper, cache, attach, &Autopilot::default());
    snapshot.retry.may_avoid_nodes()
}

/// All nodes, or those of its pods, as far as they may be read.
async fn nodes(
    place: &Place,
    objects: &[(KindKey, RawObject)],
    all: bool,
    notes: &mut Vec<String>,
) -> Vec<(KindKey, RawObject)> {
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&());
    if all {
        let listed = live::list(&place.client, &resource, None, &ListParams::default()).await;
        // only some of them would count as all there are
        let listed = listed.unwrap_or_else(|error| {
            notes.push(format!("cannot list nodes: {}", unread(&error)));
            vec![]
        });
        return listed.into_iter().map(|seen| (kind("v1", "Node"), seen)).collect();
    }
    let pods = objects.iter().filter(|(kind, _)| kind.is_pod());
    let names: BTreeSet<String> =
        pods.filter_map(|(_, seen)| PodRecord::of(seen).pod.node).collect();
    if names.len() > NODES_MAX {
        notes.push(format!("only {NODES_MAX} of {} nodes are exported", names.len()));
    }
    let mut found = vec![];
    for name in names.into_iter().take(NODES_MAX) {
        match get(&place.client, &resource, None, &name).await {
            Ok(seen) => found.push((kind("v1", "Node"), seen)),
            Err(error) if live::code(&error) == Some(404) => {}
            Err(error) => {
                notes.push(format!("cannot read nodes: {}", said(&error)));
                break;
            }
        }
    }
    found
}

/// Its Workloads, where Kueue is installed and they may be read.
async fn workloads(place: &Place, uid: &str, notes: &mut Vec<String>) -> Vec<(KindKey, RawObject)> {
    match place.listed_workloads(uid).await {
        Ok(None) => vec![],
        Ok(Some((resource, all))) => {
            let key = kind(&resource.api_version, &resource.kind);
            let is_its = |seen: &RawObject| {
                let owners = seen.meta.owner_references.as_deref().unwrap_or_default();
                owners.iter().any(|owner| owner.uid == uid)
            };
            all.into_iter().filter(is_its).map(|seen| (key.clone(), seen)).collect()
        }
        Err(error) => {
            notes.push(format!("cannot list Workloads: {}", unread(&error)));
            vec![]
        }
    }
}

/// The export as a List, the AppWrapper first.
fn list(exported: Exported, now: Timestamp) -> Result<Value, Error> {
    let mut wrapper = exported.wrapper;
    if let Some(metadata) = wrapper.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(EXPORTED_AT.to_owned(), json!(now));
        }
    }
    let mut items = vec![wrapper];
    for (kind, seen) in exported.objects {
        let mut value: Value = serde_json::from_str(seen.raw.get()).map_err(|error| {
            let name = seen.meta.name.unwrap_or_default();
            Error::Negative(format!("{} {name} cannot be read: {error}", kind.kind))
        })?;
        // the items of a list come without them
        if let Some(object) = value.as_object_mut() {
            object.entry("apiVersion").or_insert_with(|| json!(kind.api_version));
            object.entry("kind").or_insert_with(|| json!(kind.kind));
        }
        items.push(value);
    }
    items.iter_mut().for_each(leave_out);
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}))
}

/// Leaves out what no decision needs and what may be secret: values of environment variables, the parameters of Ray's
/// processes and its credentials for Redis, the data of `Secret`s and `ConfigMap`s, here and in the templates of
/// components; who wrote which field; of nodes, all but what a decision reads.
fn leave_out(value: &mut Value) {
    match value {
        Value::Object(object) => {
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
            let is_data = kind == "Secret" || kind == "ConfigMap";
            let is_node = kind == "Node";
            for (key, field) in object.iter_mut() {
                match key.as_str() {
                    "data" | "stringData" | "binaryData" if is_data => blank(field),
                    "env" | "envVars" => hide_values(field),
                    // YAML texts that can hold environment variables, and parameters that can hold a password
                    "runtimeEnvYAML" | "serveConfigV2" => *field = json!(LEFT_OUT),
                    "rayStartParams" => blank(field),
                    // of gcsFaultToleranceOptions
                    "redisUsername" | "redisPassword" => hide_value(field),
                    "status" if is_node => keep(field, &["allocatable", "conditions"]),
                    "metadata" if is_node => keep(field, &["name", "uid", "labels"]),
                    "metadata" => lighten(field),
                    _ => leave_out(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn lighten(metadata: &mut Value) {
    let Some(metadata) = metadata.as_object_mut() else { return };
    metadata.remove("managedFields");
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

fn keep(object: &mut Value, fields: &[&str]) {
    let Some(object) = object.as_object_mut() else { return };
    object.retain(|field, _| fields.contains(&field.as_str()));
}

fn blank(data: &mut Value) {
    let Some(data) = data.as_object_mut() else { return };
    data.values_mut().for_each(|value| *value = json!(LEFT_OUT));
}

/// Hides the values of environment variables: of a list, or of an object, which has one for each name.
fn hide_values(env: &mut Value) {
    blank(env);
    for variable in env.as_array_mut().into_iter().flatten() {
        hide_value(variable);
        leave_out(variable);
    }
}

/// Hides a text, or the `value` of an object, which may also name a Secret.
fn hide_value(field: &mut Value) {
    if field.is_string() {
        *field = json!(LEFT_OUT);
    } else if let Some(value) = field.get_mut("value") {
        *value = json!(LEFT_OUT);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::place::One;
    use super::*;
    use crate::observe::cache::Key;
    use crate::observe::retry_sources as observed;

    fn seen(value: &Value) -> RawObject {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    #[test]
    fn what_may_be_secret_is_left_out() {
        let env = json!([{"name": "TOKEN", "value": "s3cret"}, {"name": "X", "valueFrom": {}}]);
        let pod = json!({
            "metadata": {"name": "p", "uid": "p", "managedFields": [1]},
            "spec": {"containers": [{"name": "main", "env": env}]},
        });
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "data": {"key": "s3cret"}, "stringData": {"key": "s3cret"}});
        let from = json!({"secretKeyRef": {"name": "redis", "key": "password"}});
        let redis = json!({"redisAddress": "redis:6379", "redisUsername": {"value": "s3cret"},
            "redisPassword": {"value": "s3cret", "valueFrom": from}});
        let ray = json!({"kind": "RayJob", "spec": {
            "runtimeEnvYAML": "env_vars: {TOKEN: s3cret}", "serveConfigV2": "s3cret",
            "rayClusterSpec": {
                "gcsFaultToleranceOptions": redis,
                "headGroupSpec": {"rayStartParams": {"redis-password": "s3cret"}},
            },
        }});
        let other = json!({"kind": "Other", "spec": {
            "a": {"env": {"TOKEN": "s3cret"}}, "b": [{"envVars": {"TOKEN": "s3cret"}}],
            "c": {"env": ["TOKEN=s3cret", {"inner": {"env": {"TOKEN": "s3cret"}}}]},
            "d": {"envVars": [{"name": "TOKEN", "value": "s3cret"}]},
        }});
        let wrapper = json!({
            "metadata": {"name": "train", "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "s3cret", "a": "b",
            }},
            "spec": {"components": [
                {"template": secret}, {"template": pod}, {"template": ray}, {"template": other},
            ]},
        });
        let objects = vec![(kind("v1", "Pod"), seen(&pod))];
        let exported = Exported { wrapper, objects, notes: vec![] };
        let list = list(exported, Timestamp::UNIX_EPOCH).unwrap();
        assert!(!list.to_string().contains("s3cret"), "{list:#}");
        let annotations = &list["items"][0]["metadata"]["annotations"];
        assert_eq!(*annotations, json!({"a": "b", EXPORTED_AT: "1970-01-01T00:00:00Z"}));
        let pod = &list["items"][1];
        assert_eq!((&pod["kind"], &pod["apiVersion"]), (&json!("Pod"), &json!("v1")));
        assert_eq!(pod["metadata"], json!({"name": "p", "uid": "p"}));
        let env = &pod["spec"]["containers"][0]["env"];
        assert_eq!(env[0], json!({"name": "TOKEN", "value": LEFT_OUT}));
        let secret = &list["items"][0]["spec"]["components"][0]["template"];
        assert_eq!(secret["data"], json!({"key": LEFT_OUT}));
        let ray = &list["items"][0]["spec"]["components"][2]["template"]["spec"]["rayClusterSpec"];
        let redis = &ray["gcsFaultToleranceOptions"];
        assert_eq!(redis["redisAddress"], "redis:6379");
        assert_eq!(redis["redisPassword"], json!({"value": LEFT_OUT, "valueFrom": from}));
    }

    #[tokio::test]
    async fn all_nodes_are_exported_where_a_policy_may_avoid_one() {
        let service = tower::service_fn(|request: http::Request<kube::client::Body>| {
            let node = |name: &str| json!({"metadata": {"name": name}});
            let body = match request.uri().path() {
                "/api/v1/nodes" => json!({"apiVersion": "v1", "kind": "NodeList", "metadata": {},
                    "items": [node("n1"), node("n2")]}),
                _ => node("n1"),
            };
            let body = kube::client::Body::from(body.to_string().into_bytes());
            std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(body)))
        });
        let place = Place { client: kube::Client::new(service, "ns"), namespace: "ns".into() };
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1"}});
        let objects = [(kind("v1", "Pod"), seen(&pod))];
        let one = One::of(seen(&json!({
            "metadata": {"name": "train", "namespace": "ns", "uid": "aw", "annotations": {
                "workload.codeflare.dev.appwrapper/retryPolicies": "p"}},
            "spec": {"components": []},
        })));
        let one = one.unwrap();
        let wrapper = &*one.wrapper;
        let attach = world::attach(wrapper, &Config::default());
        for (rule, want) in [
            (json!({"action": "Retry", "onConditions": ["Evicted"]}), 1),
            (
                json!({"action": "Retry", "onConditions": ["Evicted"],
                    "antiAffinity": {"mode": "node"}}),
                2,
            ),
        ] {
            let policy = json!({"metadata": {"name": "p"}, "spec": {"rules": [rule]}});
            let (cache, policies) = (Cache::default(), observed::retry_policies());
            let at = Key { namespace: String::new(), name: "p".into() };
            let policy = observed::RetrySource::of(&seen(&policy), policies);
            cache.put_retry_source(policies, at, policy);
            let all = may_avoid_nodes(wrapper, &cache, &attach);
            let found = nodes(&place, &objects, all, &mut vec![]).await;
            assert_eq!(found.len(), want, "{rule}");
        }
    }

    #[tokio::test]
    async fn events_about_missing_pods_are_exported() {
        let service = tower::service_fn(|request: http::Request<kube::client::Body>| {
            let query = request.uri().query().unwrap_or_default();
            let of = |uid: &&str| query.contains(&format!("involvedObject.uid%3D{uid}%2C"));
            let items: Vec<Value> = ["aw", "mine", "other"]
                .into_iter()
                .filter(of)
                .map(|uid| json!({"metadata": {"name": format!("about-{uid}")}}))
                .collect();
            let list = json!({"apiVersion": "v1", "kind": "EventList", "metadata": {},
                "items": items});
            let body = kube::client::Body::from(list.to_string().into_bytes());
            std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(body)))
        });
        let place = Place { client: kube::Client::new(service, "ns"), namespace: "ns".into() };
        let job = |name: &str, owner: &str| {
            let owner = json!({"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
                "name": "train", "uid": owner, "controller": true});
            let job = json!({"metadata": {"name": name, "namespace": "ns", "uid": name,
                "ownerReferences": [owner]}});
            (kind("batch/v1", "Job"), seen(&job))
        };
        let objects = [job("mine", "aw"), job("other", "elsewhere")];
        for (phase, want) in
            [("Running", vec!["about-aw", "about-mine"]), ("Succeeded", vec!["about-aw"])]
        {
            let one = One::of(seen(&json!({
                "metadata": {"name": "train", "namespace": "ns", "uid": "aw"},
                "spec": {"components": [{"template": {
                    "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "mine"},
                    "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}},
                }}]},
                "status": {"phase": phase},
            })));
            let (wrapper, config) = (one.unwrap().wrapper, Config::default());
            let mut notes = vec![];
            let found = warnings(&place, &wrapper, &objects, &config, &mut notes).await;
            let names: Vec<_> = found.iter().filter_map(|(_, e)| e.meta.name.as_deref()).collect();
            assert_eq!((names, notes), (want, vec![]), "{phase}");
        }
    }

    #[test]
    fn only_what_belongs_to_it_is_exported() {
        let owned = |name: &str, owner: &str| {
            seen(&json!({"metadata": {"name": name, "uid": name, "ownerReferences": [
                {"apiVersion": "v1", "kind": "X", "name": "x", "uid": owner, "controller": true},
            ]}}))
        };
        let wrapper = One::of(seen(&json!({
            "metadata": {"name": "train", "namespace": "ns", "uid": "aw"},
            "spec": {"components": [{"template": {
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "mine"},
                "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}},
            }}]},
        })));
        let job = || kind("batch/v1", "Job");
        let objects = vec![
            (kind("v1", "Pod"), owned("pod", "between")),
            (job(), owned("between", "mine")),
            (job(), owned("other", "elsewhere")),
            (job(), owned("mine", "a-stranger")),
            (kind("v1", "Pod"), owned("stranger", "other")),
            (kind("v1", "Pod"), owned("pod", "between")),
        ];
        let found = ours(&wrapper.unwrap().wrapper, objects);
        let names: Vec<_> = found.iter().map(|(_, seen)| seen.meta.name.as_deref()).collect();
        assert_eq!(names, [Some("pod"), Some("between"), Some("mine")]);
    }
}
