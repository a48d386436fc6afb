//! Logs of pods that exist, through the API server.

use std::collections::BTreeSet;

use super::{Args, Log, without_logs};
use crate::act::failure_log;
use crate::api::FailureRecord;
use crate::cli::Error;
use crate::cli::cluster::{said, unanswered, unlisted};
use crate::cli::place::{One, Place, get};
use crate::observe::live::{self, pod_resource};
use crate::observe::pod_record::PodRecord;
use crate::observe::raw_object::RawObject;

/// The most logs that are read: each is a request.
const LOGS_MAX: usize = 100;

/// The logs of all pods of the AppWrapper, by pod and container, and notes about those that could not be read.
pub(super) async fn all(
    place: &Place,
    one: &One,
    args: &Args,
) -> Result<(Vec<Log>, Vec<String>), Error> {
    let seen = live::seen_pods(&place.client, &place.namespace, &one.wrapper.name).await;
    let seen = seen.map_err(|error| unlisted(&error))?;
    let pods = records(&seen, &one.wrapper.uid);
    if let Some(wanted) = args.container.as_deref() {
        has_container(&pods, wanted)
            .map_err(|why| Error::Negative(format!("{}: {why}", title(place, one))))?;
    }
    let no_log = without_logs(one, !pods.is_empty());
    let places = containers(pods, args.container.as_deref());
    let mut notes = vec![];
    if places.len() > LOGS_MAX {
        notes.push(format!("only the first {LOGS_MAX} of {} containers are shown", places.len()));
    }
    if places.is_empty() {
        notes.push(format!("it has no pods with a log{no_log}"));
    }
    let (mut logs, mut unread) = (vec![], None);
    for (attempt, pod, container) in places.into_iter().take(LOGS_MAX) {
        match read(place, &pod, &container, args).await {
            Ok((text, is_cut)) => {
                logs.push(Log { attempt, pod, container, kept: false, text, is_cut });
            }
            Err(error) => {
                let why = format!("{pod}/{container}: {error}");
                unread.get_or_insert_with(|| why.clone());
                notes.push(why);
            }
        }
    }
    if logs.is_empty()
        && let Some(why) = unread
    {
        return Err(Error::Cluster(format!("cannot read the log of {why}")));
    }
    Ok((logs, notes))
}

/// What is kept of the pods that may be of the AppWrapper with this UID.
fn records(seen: &[RawObject], uid: &str) -> Vec<PodRecord> {
    seen.iter().map(PodRecord::of).filter(|record| record.identity.may_be_of(uid)).collect()
}

fn title(place: &Place, one: &One) -> String {
    format!("AppWrapper {}/{}", place.namespace, one.wrapper.name)
}

/// # Errors
/// There are pods, and none has a container of this name.
fn has_container(pods: &[PodRecord], wanted: &str) -> Result<(), String> {
    let all = pods.iter().flat_map(|record| &record.pod.containers);
    let names: BTreeSet<&str> = all.map(|one| one.name.as_str()).collect();
    if names.is_empty() || names.contains(wanted) {
        return Ok(());
    }
    let names: Vec<&str> = names.into_iter().collect();
    Err(format!("no pod has a container {wanted}; the containers: {}", names.join(", ")))
}

/// The containers whose logs there may be: attempt, pod, container.
fn containers(
    mut pods: Vec<PodRecord>,
    container: Option<&str>,
) -> Vec<(Option<i32>, String, String)> {
    pods.sort_by(|a, b| a.pod.name.cmp(&b.pod.name));
    let of = |record: PodRecord| {
        let pod = record.pod;
        let named = pod.containers.into_iter().map(|one| one.name);
        let wanted = named.filter(|name| container.is_none_or(|wanted| wanted == name));
        wanted.map(|name| (pod.attempt, pod.name.clone(), name)).collect::<Vec<_>>()
    };
    pods.into_iter().filter(|record| record.pod.node.is_some()).flat_map(of).collect()
}

/// The log of the pod of a failure, or why it cannot be read; none where the pod does not exist any more.
pub(super) async fn of_failure(
    place: &Place,
    attempt: i32,
    failure: &FailureRecord,
    args: &Args,
) -> Result<Option<Result<Log, String>>, Error> {
    let Some(name) = &failure.pod else { return Ok(None) };
    let record = match get(&place.client, &pod_resource(), Some(&place.namespace), name).await {
        Ok(seen) => PodRecord::of(&seen),
        Err(error) => return unseen(&error),
    };
    let wanted = args.container.as_ref().or(failure.container.as_ref());
    let first = || record.pod.containers.iter().find(|one| !one.init).map(|one| &one.name);
    let (Some(container), true) =
        (wanted.or_else(first), failure.pod_uid.as_ref() == Some(&record.pod.uid))
    else {
        return Ok(None);
    };
    let text = read(place, name, container, args).await;
    Ok(Some(text.map(|(text, is_cut)| Log {
        attempt: Some(attempt),
        pod: name.clone(),
        container: container.clone(),
        kept: false,
        text,
        is_cut,
    })))
}

/// What a pod that cannot be read means for its log: one that does not exist has none, and one that the user may not see may have
/// one.
fn unseen(error: &kube::Error) -> Result<Option<Result<Log, String>>, Error> {
    match live::code(error) {
        Some(404) => Ok(None),
        Some(403) => Ok(Some(Err(said(error)))),
        Some(_) | None => Err(unanswered(error)),
    }
}

/// The end of the log of a container, and whether more was asked for.
///
/// # Errors
/// Why it cannot be read.
async fn read(
    place: &Place,
    pod: &str,
    container: &str,
    args: &Args,
) -> Result<(String, bool), String> {
    let of = (pod, container);
    let log = failure_log::read(&place.client, &place.namespace, of, args.tail).await;
    let (log, is_cut) = log.map_err(|error| error.said())?;
    Ok((String::from_utf8_lossy(&log).into_owned(), is_cut))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;
    use crate::api::keys;
    use crate::snapshot::{Container, Pod};

    #[test]
    fn pods_that_the_go_controller_created_have_logs() {
        let pod = |name: &str, labels| {
            let object = json!({"metadata": {"name": name, "labels": labels}});
            serde_json::from_str::<RawObject>(&object.to_string()).unwrap()
        };
        let seen = [
            pod("old", json!({keys::APPWRAPPER: "a"})),
            pod("own", json!({keys::APPWRAPPER: "a", keys::APPWRAPPER_UID: "u"})),
            pod("of-another", json!({keys::APPWRAPPER: "a", keys::APPWRAPPER_UID: "v"})),
        ];
        let names: Vec<String> = records(&seen, "u").into_iter().map(|it| it.pod.name).collect();
        assert_eq!(names, ["old", "own"]);
    }

    #[test]
    fn a_pod_that_may_not_be_seen_is_no_deleted_pod() {
        let unseen = |code: u16| {
            unseen(&kube::Error::Api(Status::failure("no", "r").with_code(code).boxed()))
        };
        assert_eq!(unseen(404).unwrap(), None);
        assert_eq!(unseen(403).unwrap(), Some(Err("no".to_owned())));
        assert!(unseen(500).is_err());
    }

    #[test]
    fn every_container_of_a_pod_that_has_a_node_is_asked() {
        let pod = |name: &str, node: Option<&str>, containers: &[&str]| {
            let container =
                |name: &&str| Container { name: (*name).to_owned(), ..Container::default() };
            let pod = Pod {
                name: name.into(),
                node: node.map(str::to_owned),
                attempt: Some(1),
                containers: containers.iter().map(container).collect(),
                ..Pod::default()
            };
            PodRecord { pod, ..PodRecord::default() }
        };
        let all = || {
            vec![
                pod("b", Some("n"), &["main"]),
                pod("a", Some("n"), &["setup", "main"]),
                pod("c", None, &["main"]),
            ]
        };
        let named = |container| {
            let all = containers(all(), container).into_iter();
            all.map(|(_, pod, container)| format!("{pod}/{container}")).collect::<Vec<_>>()
        };
        assert_eq!(named(None), ["a/setup", "a/main", "b/main"]);
        assert_eq!(named(Some("main")), ["a/main", "b/main"]);
        assert_eq!(named(Some("other")), Vec::<String>::new());
        assert_eq!(has_container(&all(), "main"), Ok(()));
        assert_eq!(has_container(&[], "other"), Ok(()));
        let said = has_container(&all(), "other").unwrap_err();
        assert_eq!(said, "no pod has a container other; the containers: main, setup");
    }
}
