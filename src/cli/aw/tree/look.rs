//! What an AppWrapper has made, read from a cluster.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::ListParams;
use serde_json::Value;

use super::super::{multikueue, words};
use super::grow::{Member, Node, PodFacts, Thing};
use crate::cli::Error;
use crate::cli::cluster::{unlisted, unread};
use crate::cli::place::{Place, get};
use crate::kinds::Kind;
use crate::observe::assemble::{Wrapper, kind_of};
use crate::observe::cache::KindKey;
use crate::observe::live::{self, Live};
use crate::observe::pod_record::PodRecord;
use crate::observe::raw_object::RawObject;
use crate::observe::records::{Controller, Identity, ObjectRecord};
use crate::snapshot::{Component, Object, Outcome, Owner, Pod, PodPhase, Presence};

/// The longest chain of owners between a component and a pod that is followed.
pub(super) const CHAIN_MAX: usize = 10;
/// The most owners that are read one by one: whoever may create pods chooses how many they name.
const OWNERS_MAX: usize = 200;

/// What was found.
#[derive(Debug, Default)]
pub(in crate::cli) struct Found {
    pub(super) components: Vec<Member>,
    pub(super) things: Vec<Thing>,
    /// The objects themselves, each with its kind; what the components own may be among them twice.
    pub objects: Vec<(KindKey, RawObject)>,
    /// What could not be read.
    pub notes: Vec<String>,
}

/// API version and kind of what something makes.
type Made = &'static [(&'static str, &'static str)];

/// What makes objects between itself and its pods, and has no row in the registry: API version and kind, and the kinds that it
/// makes.
const MAKES: [((&str, &str), Made); 1] = [(("batch/v1", "CronJob"), &[("batch/v1", "Job")])];

/// The kinds that stand between a component of a kind and its pods.
fn made_by(kind: &KindKey) -> Vec<KindKey> {
    let by = (kind.api_version.as_str(), kind.kind.as_str());
    let row = Kind::of_any_version(by.0, by.1);
    let known: Made = if row.is_known() { Kind::made_by(by.0, by.1) } else { &[] };
    let more = MAKES.iter().filter(|(maker, _)| *maker == by).flat_map(|(_, made)| made.iter());
    let made = known.iter().chain(more).map(|(api_version, kind)| KindKey {
        api_version: (*api_version).to_owned(),
        kind: (*kind).to_owned(),
    });
    made.filter(|kind| !kind.is_pod()).collect()
}

/// Reads the components, what is known to stand between them and their pods, the pods, and whatever else
/// owns those. What may not be read is noted.
pub(in crate::cli) async fn look(place: &Place, wrapper: &Wrapper) -> Result<Found, Error> {
    if let Some(note) = multikueue::note(place, wrapper).await? {
        let components = wrapper.components.iter();
        let components = components.map(|one| plain(one, absent(wrapper))).collect();
        return Ok(Found { components, notes: vec![note], ..Found::default() });
    }
    let live = Live::default();
    let mut found = Found::default();
    for index in 0..wrapper.components.len() {
        let component = &wrapper.components[index];
        let (member, object) =
            member(place, &live, wrapper, index, component, &mut found.notes).await?;
        found.objects.extend(object.map(|object| (kind_of(component), object)));
        found.components.push(member);
    }
    for kind in between(wrapper) {
        let listed = listed(place, &live, &kind).await;
        if let Some(listed) = permitted(listed, &kind.kind, &mut found.notes)? {
            found.things.extend(listed.iter().filter_map(|seen| thing(seen, &kind)));
            found.objects.extend(listed.into_iter().map(|seen| (kind.clone(), seen)));
        }
    }
    let pods = live::seen_pods(&place.client, &place.namespace, &wrapper.name).await;
    let pods = permitted(pods, "Pod", &mut found.notes)?.unwrap_or_default();
    let mut orphans = BTreeSet::new();
    climb(place, &live, wrapper, &pods, &mut found, &mut orphans).await?;
    found.things.extend(pods.iter().filter_map(|seen| pod_thing(seen, wrapper, &orphans)));
    found.objects.extend(pods.into_iter().map(|seen| (pod_kind(), seen)));
    Ok(found)
}

/// UIDs of what the components of these UIDs have made, and of what that has made, but for pods; nothing of what cannot be read.
pub(in crate::cli) async fn made(
    place: &Place,
    wrapper: &Wrapper,
    components: &[String],
) -> Vec<String> {
    let live = Live::default();
    let mut things = vec![];
    for kind in between(wrapper) {
        let listed = listed(place, &live, &kind).await.unwrap_or_default();
        things.extend(listed.iter().filter_map(|seen| thing(seen, &kind)));
    }
    below(&things, components)
}

/// The same among objects that were found.
pub(in crate::cli) fn made_among(found: &Found, components: &[String]) -> Vec<String> {
    let pods: BTreeSet<&str> = found
        .objects
        .iter()
        .filter(|(kind, _)| kind.is_pod())
        .filter_map(|(_, seen)| seen.meta.uid.as_deref())
        .collect();
    let mut made = below(&found.things, components);
    made.retain(|uid| !pods.contains(uid.as_str()));
    made
}

/// UIDs of what is below the objects of these UIDs, those next to them first.
fn below(things: &[Thing], above: &[String]) -> Vec<String> {
    let mut known: BTreeSet<&str> = above.iter().map(String::as_str).collect();
    let mut below = vec![];
    for _ in 0..CHAIN_MAX {
        let is_next =
            |it: &&Thing| known.contains(it.owner.as_str()) && !known.contains(it.uid.as_str());
        let next: Vec<&Thing> = things.iter().filter(is_next).collect();
        if next.is_empty() {
            break;
        }
        known.extend(next.iter().map(|it| it.uid.as_str()));
        below.extend(next.iter().map(|it| it.uid.clone()));
    }
    below
}

/// The kinds that stand between the components and their pods.
fn between(wrapper: &Wrapper) -> BTreeSet<KindKey> {
    wrapper.components.iter().flat_map(|component| made_by(&kind_of(component))).collect()
}

/// All objects of a kind in the namespace.
async fn listed(place: &Place, live: &Live, kind: &KindKey) -> Result<Vec<RawObject>, live::Error> {
    let resource = live.resource(&place.client, kind).await?;
    let (namespace, all) = (Some(place.namespace.as_str()), ListParams::default());
    live::list(&place.client, &resource, namespace, &all).await
}

fn pod_kind() -> KindKey {
    KindKey { api_version: "v1".to_owned(), kind: "Pod".to_owned() }
}

/// The same of objects that were read before; what is not among them does not exist.
pub(in crate::cli) fn among(wrapper: &Wrapper, objects: Vec<(KindKey, RawObject)>) -> Found {
    let known: BTreeSet<&str> =
        objects.iter().filter_map(|(_, seen)| seen.meta.uid.as_deref()).collect();
    let mut found = Found::default();
    for (index, component) in wrapper.components.iter().enumerate() {
        let kind = kind_of(component);
        let object = objects.iter().find(|(of, seen)| {
            *of == kind && seen.meta.name.as_deref() == Some(component.name.as_str())
        });
        found.components.push(match object {
            Some((_, seen)) => seen_member(wrapper, index, component, &kind, seen),
            None => plain(component, absent(wrapper)),
        });
    }
    for (kind, seen) in objects.iter().filter(|(kind, _)| kind.kind != "Workload") {
        if !kind.is_pod() {
            found.things.extend(thing(seen, kind));
            continue;
        }
        let owner = Identity::of(&seen.meta).controller.map(|owner| owner.uid);
        let orphaned = owner.into_iter().filter(|uid| !known.contains(uid.as_str())).collect();
        found.things.extend(pod_thing(seen, wrapper, &orphaned));
    }
    found.objects = objects;
    found
}

/// A pod in the tree; none that nobody controls. One whose owner is gone is under the AppWrapper of its label.
fn pod_thing(seen: &RawObject, wrapper: &Wrapper, orphans: &BTreeSet<String>) -> Option<Thing> {
    let record = PodRecord::of(seen);
    let owner = record.identity.controller.as_ref()?;
    let labelled = record.identity.appwrapper_uid.as_deref() == Some(wrapper.uid.as_str());
    let mut node = pod_node(&record.pod, restarts(seen));
    let owner = if orphans.contains(&owner.uid) && labelled {
        node.state += ", its owner is gone";
        wrapper.uid.clone()
    } else {
        owner.uid.clone()
    };
    Some(Thing { uid: record.identity.uid, owner, node })
}

/// What was read; none where it cannot be, or its kind is not there, with a note: a tenant chooses what a pod names as its
/// owner. An answer that says nothing of the object itself is an error.
fn permitted<T>(
    read: Result<T, live::Error>,
    kind: &str,
    notes: &mut Vec<String>,
) -> Result<Option<T>, Error> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(live::Error::NoKind(_) | live::Error::NotNamespaced(_)) => Ok(None),
        Err(error) if error.code().is_some_and(is_about_the_object) => {
            let note = format!("cannot read objects of kind {kind}: {}", unread(&error));
            if !notes.contains(&note) {
                notes.push(note);
            }
            Ok(None)
        }
        Err(error) => Err(unlisted(&error)),
    }
}

/// Whether an answer with this code says that this object cannot be read, and not that nothing can, or not now.
fn is_about_the_object(code: u16) -> bool {
    (400..500).contains(&code) && ![401, 408, 429].contains(&code)
}

/// A component, and the object of its name.
async fn member(
    place: &Place,
    live: &Live,
    wrapper: &Wrapper,
    index: usize,
    component: &Component,
    notes: &mut Vec<String>,
) -> Result<(Member, Option<RawObject>), Error> {
    let kind = kind_of(component);
    let alone = |state: &str| Ok((plain(component, state), None));
    if component.name.is_empty() || component.kind.is_empty() {
        return alone("cannot be created from its template");
    }
    let resource = match live.resource(&place.client, &kind).await {
        Ok(resource) => resource,
        Err(live::Error::NoKind(_) | live::Error::NotNamespaced(_)) => {
            return alone("its kind is not served by the cluster");
        }
        Err(error) => return Err(unlisted(&error)),
    };
    match get(&place.client, &resource, Some(&place.namespace), &component.name).await {
        Ok(seen) => Ok((seen_member(wrapper, index, component, &kind, &seen), Some(seen))),
        Err(error) if live::code(&error) == Some(404) => alone("does not exist"),
        Err(error) => {
            let error = live::Error::api("get", error);
            permitted::<()>(Err(error), &component.kind, notes)?;
            alone("unknown: cannot be read")
        }
    }
}

/// What is said of a component that this cluster does not have.
fn absent(wrapper: &Wrapper) -> &'static str {
    if multikueue::is_sent(wrapper) { multikueue::CREATED_THERE } else { "does not exist" }
}

/// A component of which nothing more is known.
fn plain(component: &Component, state: &str) -> Member {
    Member { uid: None, node: Node::new(&component.kind, &component.name, state.to_owned()) }
}

/// A component and its object, where that is the AppWrapper's.
fn seen_member(
    wrapper: &Wrapper,
    index: usize,
    component: &Component,
    kind: &KindKey,
    seen: &RawObject,
) -> Member {
    let plain = |state: &str| plain(component, state);
    let record = ObjectRecord::of(seen, &kind.api_version, &kind.kind);
    let pod = kind.is_pod().then(|| pod_node(&PodRecord::of(seen).pod, restarts(seen)));
    match wrapper.presence(index, record, &component.pod_sets, None) {
        Presence::Present(Object { owner: Owner::Us, uid, report, terminating, .. }) => {
            let (state, bad) = state(&report.outcome, terminating);
            let known = Node { bad, ..Node::new(&component.kind, &component.name, state) };
            Member { uid: Some(uid), node: pod.unwrap_or(known) }
        }
        Presence::Present(Object { owner, .. }) => plain(&words::taken_by(&owner)),
        Presence::Unseen | Presence::Absent | Presence::NoKind => plain("does not exist"),
    }
}

/// How an object is doing, and whether that is bad.
fn state(outcome: &Outcome, terminating: bool) -> (String, bool) {
    let (state, bad) = match outcome {
        Outcome::Active => ("exists".to_owned(), false),
        Outcome::Succeeded => ("succeeded".to_owned(), false),
        Outcome::Failed { reason, message, .. } => (words::failed_with(reason, message), true),
    };
    if terminating { (format!("{state}, being deleted"), bad) } else { (state, bad) }
}

/// An object between a component and its pods; none that nobody controls.
fn thing(seen: &RawObject, kind: &KindKey) -> Option<Thing> {
    let record = ObjectRecord::of(seen, &kind.api_version, &kind.kind);
    let (state, bad) = state(&record.report.outcome, record.identity.terminating);
    let Identity { name, uid, controller, .. } = record.identity;
    let node = Node { bad, ..Node::new(&kind.kind, &name, state) };
    Some(Thing { uid, owner: controller?.uid, node })
}

/// Reads the owners of pods that are not known yet, and theirs, until the chain leads to the AppWrapper or
/// ends; `orphans` are owners that do not exist.
async fn climb(
    place: &Place,
    live: &Live,
    wrapper: &Wrapper,
    pods: &[RawObject],
    found: &mut Found,
    orphans: &mut BTreeSet<String>,
) -> Result<(), Error> {
    let mut known: BTreeSet<String> = found.things.iter().map(|thing| thing.uid.clone()).collect();
    known.extend(found.components.iter().filter_map(|member| member.uid.clone()));
    known.insert(wrapper.uid.clone());
    let owners = pods.iter().filter_map(|seen| Identity::of(&seen.meta).controller);
    let mut wanted: BTreeMap<String, Controller> =
        owners.map(|owner| (owner.uid.clone(), owner)).collect();
    let mut left = OWNERS_MAX;
    for _ in 0..CHAIN_MAX {
        let mut next = BTreeMap::new();
        for (uid, owner) in wanted {
            if !known.insert(uid.clone()) {
                continue;
            }
            if left == 0 {
                found.notes.push(format!("only {OWNERS_MAX} owners of pods were read"));
                return Ok(());
            }
            left -= 1;
            let kind = KindKey { api_version: owner.api_version, kind: owner.kind };
            let read = match live.resource(&place.client, &kind).await {
                Ok(resource) => get(&place.client, &resource, Some(&place.namespace), &owner.name)
                    .await
                    .map(Some)
                    .or_else(|error| match live::code(&error) {
                        Some(404) => Ok(None),
                        _ => Err(live::Error::api("get", error)),
                    }),
                Err(live::Error::NoKind(_)) => Ok(None),
                Err(error) => Err(error),
            };
            match permitted(read, &kind.kind, &mut found.notes)? {
                Some(Some(seen)) if seen.meta.uid.as_deref() == Some(uid.as_str()) => {
                    let above = Identity::of(&seen.meta).controller;
                    next.extend(above.map(|owner| (owner.uid.clone(), owner)));
                    found.things.extend(thing(&seen, &kind));
                    found.objects.push((kind, seen));
                }
                Some(_) => drop(orphans.insert(uid)),
                None => {}
            }
        }
        if next.is_empty() {
            break;
        }
        wanted = next;
    }
    Ok(())
}

fn pod_node(pod: &Pod, restarts: i64) -> Node {
    let phase = pod.phase.as_str();
    let mut state = phase.to_owned();
    if let Some(node) = &pod.node {
        state += &format!(" on {node}");
    }
    if pod.phase == PodPhase::Failed {
        let ends = pod.terminated().filter(|(_, end)| end.exit_code != 0);
        let ends = ends.map(|(container, end)| {
            format!("{} exited with code {}", container.name, end.exit_code)
        });
        state += &ends.fold(String::new(), |all, end| format!("{all}, {end}"));
    }
    if restarts > 0 {
        let word = if restarts == 1 { "restart" } else { "restarts" };
        state += &format!(", {restarts} {word}");
    }
    if pod.terminating {
        state += ", being deleted";
    }
    let facts = PodFacts {
        phase,
        node: pod.node.clone(),
        restarts,
        attempt: pod.attempt,
        terminating: pod.terminating,
    };
    let bad = pod.phase == PodPhase::Failed;
    Node { pod: Some(facts), bad, ..Node::new("Pod", &pod.name, state) }
}

/// Restarts of the containers of a pod.
fn restarts(seen: &RawObject) -> i64 {
    let pod: Value = serde_json::from_str(seen.raw.get()).unwrap_or_default();
    ["initContainerStatuses", "containerStatuses"]
        .iter()
        .filter_map(|field| pod["status"][field].as_array())
        .flatten()
        .filter_map(|status| status["restartCount"].as_i64())
        .fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_says_phase_node_exit_code_and_restarts() {
        let seen = |status: Value| -> RawObject {
            let pod = json!({"metadata": {"name": "p", "deletionTimestamp": null},
                "spec": {"nodeName": "node-1"}, "status": status});
            serde_json::from_str(&pod.to_string()).unwrap()
        };
        for (status, want, bad) in [
            (
                json!({"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 2}]}),
                "Running on node-1, 2 restarts",
                false,
            ),
            (
                json!({"phase": "Failed", "containerStatuses": [
                    {"name": "c", "restartCount": 1, "state": {"terminated": {"exitCode": 3}}},
                ]}),
                "Failed on node-1, c exited with code 3, 1 restart",
                true,
            ),
            (json!({}), "Pending on node-1", false),
        ] {
            let seen = seen(status);
            let node = pod_node(&PodRecord::of(&seen).pod, restarts(&seen));
            assert_eq!((node.state.as_str(), node.bad), (want, bad));
        }
    }

    #[test]
    fn what_stands_between_a_component_and_its_pods_is_known_for_the_usual_kinds() {
        let made = |api_version: &str, kind: &str| {
            let kind = KindKey { api_version: api_version.into(), kind: kind.into() };
            made_by(&kind).into_iter().map(|made| made.kind).collect::<Vec<_>>()
        };
        assert_eq!(made("jobset.x-k8s.io/v1alpha2", "JobSet"), ["Job"]);
        assert_eq!(made("apps/v1", "Deployment"), ["ReplicaSet"]);
        assert_eq!(made("ray.io/v1", "RayJob"), ["RayCluster", "Job"]);
        assert_eq!(made("trainer.kubeflow.org/v1alpha1", "TrainJob"), ["JobSet", "Job"]);
        assert_eq!(made("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), ["StatefulSet"]);
        assert_eq!(made("batch/v1", "CronJob"), ["Job"]);
        assert_eq!(made("kubeflow.org/v2beta1", "MPIJob"), ["Job"]);
        assert!(made("kubeflow.org/v1", "MPIJob").is_empty());
        assert!(made("batch/v1", "Job").is_empty());
        assert!(made("example.com/v1", "JobSet").is_empty());
    }

    #[test]
    fn what_the_makers_below_a_component_have_made_is_found_too() {
        let thing = |uid: &str, owner: &str| Thing {
            uid: uid.to_owned(),
            owner: owner.to_owned(),
            ..Thing::default()
        };
        // the Job is read before the JobSet that made it; two others name each other
        let things = [
            thing("job", "set"),
            thing("set", "train"),
            thing("other", "elsewhere"),
            thing("a", "b"),
            thing("b", "a"),
        ];
        assert_eq!(below(&things, &["train".to_owned()]), ["set", "job"]);
        assert_eq!(below(&things, &["a".to_owned()]), ["b"]);
        assert!(below(&things, &[]).is_empty());
    }

    #[test]
    fn a_manager_cluster_does_not_miss_what_runs_in_the_worker_cluster() {
        let of = |manager: Option<&str>| {
            let object = json!({
                "metadata": {"name": "aw", "namespace": "ns", "uid": "u"},
                "spec": {"managedBy": manager, "components": [{"template": {
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
                }}]},
            });
            let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
            let found = among(&Wrapper::read(&seen).unwrap(), vec![]);
            found.components[0].node.state.clone()
        };
        assert_eq!(of(Some("kueue.x-k8s.io/multikueue")), "created in the worker cluster only");
        assert_eq!(of(None), "does not exist");
    }

    #[test]
    fn what_may_not_be_read_is_noted_and_an_error_is_an_error() {
        let status = |code: u16| {
            let error: kube::core::Status =
                serde_json::from_value(json!({"message": "no", "code": code})).unwrap();
            live::Error::api("list", kube::Error::Api(error.into()))
        };
        let mut notes = vec![];
        for code in [403, 403, 404, 405, 422] {
            assert_eq!(permitted::<()>(Err(status(code)), "Job", &mut notes).unwrap(), None);
        }
        assert_eq!(notes, ["cannot read objects of kind Job: no"]);
        for code in [401, 408, 429, 500, 503] {
            assert!(permitted::<()>(Err(status(code)), "Job", &mut notes).is_err(), "{code}");
        }
    }
}
