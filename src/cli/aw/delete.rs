//! `appwrapper delete`: deletes an AppWrapper, waits until it is gone, and shows what it waits for.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Preconditions};
use serde::Serialize;
use tokio::time::MissedTickBehavior;

use super::super::configuration::ControllerConfig;
use super::super::explain::live::around;
use super::super::place::{One, Place};
use super::super::{Error, term};
use super::observations::{Observation, Observations};
use super::reach::Written;
use super::{Done, Patience, Target, block_on, now, sentence, words};
use crate::api::{condition, keys};
use crate::snapshot::{Owner, Pod, Presence, Snapshot};
use crate::tuning::Period;

/// Time between two looks at what blocks.
const LOOK: Duration = Duration::from_secs(5);
/// How many things that block are named.
const NAMED_MAX: usize = 5;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    target: Target,
    /// Maximum time to wait, such as 90s or 1h30m; by default without limit. The deletion continues
    #[arg(long, value_name = "DURATION", conflicts_with = "no_wait")]
    timeout: Option<Period>,
    /// Do not wait until it is gone
    #[arg(long)]
    no_wait: bool,
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Deletion {
    deleted: bool,
    timed_out: bool,
    /// What still exists, and what keeps it.
    waiting_for: Vec<String>,
}

pub(in crate::cli) fn run(args: &Args) -> Result<ExitCode, Error> {
    block_on(delete(args))?.tell(args.target.output)
}

async fn delete(args: &Args) -> Result<Done<Deletion>, Error> {
    let patience = Patience::new(args.timeout);
    let look = async {
        let place = args.target.place().await?;
        let one = place.one(&args.target.name).await?;
        Ok::<_, Error>((place, one))
    };
    let (place, one) = patience.answer(look).await?;
    let name = &one.wrapper.name;
    let done = |yes: bool, facts: Deletion, message: &str| Done {
        namespace: place.namespace.clone(),
        name: name.clone(),
        yes,
        facts,
        message: sentence(&place.namespace, name, message),
    };
    let seen = Preconditions { uid: Some(one.wrapper.uid.clone()), resource_version: None };
    let params = DeleteParams::background().preconditions(seen);
    match patience.answer(place.delete(name, &params)).await? {
        Written::Yes => {}
        Written::Conflict => {
            let why = "was deleted and recreated meanwhile: the new one is left unchanged";
            return Ok(done(false, Deletion::default(), why));
        }
        Written::Forbidden(error) => return Err(error),
        Written::Refused(why) => {
            // somebody else was faster
            if patience.answer(place.find(name)).await?.is_some() {
                let why = format!("was not deleted: {why}");
                return Ok(done(false, Deletion::default(), &why));
            }
        }
    }
    if args.no_wait {
        let message = "is being deleted; the controller deletes its resources first";
        return Ok(done(true, Deletion::default(), message));
    }
    let mut wait = Waiting { last: one.clone(), told: vec![] };
    let gone = wait.until_gone(&place);
    let is_gone = match patience.left() {
        Some(left) => tokio::time::timeout(left, gone).await.ok().transpose()?,
        None => Some(gone.await?),
    };
    if is_gone.is_some() {
        return Ok(done(true, Deletion { deleted: true, ..Deletion::default() }, "was deleted"));
    }
    let waiting_for = tokio::time::timeout(LOOK, blocked(&place, &wait.last)).await;
    let waiting_for = waiting_for.unwrap_or_else(|_| blockers(&wait.last, None, now()));
    let timeout = args.timeout.map(|timeout| format!(" within {timeout}")).unwrap_or_default();
    let mut message = format!("was not deleted{timeout}; waiting for:");
    for it in &waiting_for {
        message += &format!("\n{it}");
    }
    Ok(done(false, Deletion { deleted: false, timed_out: true, waiting_for }, &message))
}

/// Waits until an AppWrapper that is being deleted is gone, and tells somebody who looks on what it waits for.
pub(super) async fn until_gone(place: &Place, one: &One) -> Result<(), Error> {
    Waiting { last: one.clone(), told: vec![] }.until_gone(place).await
}

/// The AppWrapper as it was seen last, and what was told.
struct Waiting {
    last: One,
    told: Vec<String>,
}

impl Waiting {
    /// Waits until it is gone; tells somebody who looks on what it waits for, when that changes. Where it may not be
    /// watched, it is read again and again.
    async fn until_gone(&mut self, place: &Place) -> Result<(), Error> {
        let mut observations = Observations::of(place, &self.last);
        let mut looks = tokio::time::interval(LOOK);
        // a look that takes longer is not followed by another at once
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        looks.reset();
        loop {
            tokio::select! {
                sight = observations.next_or_read() => match sight? {
                    Observation::Is(one) => self.last = *one,
                    Observation::Gone => return Ok(()),
                },
                _ = looks.tick(), if std::io::stderr().is_terminal() => self.tell(place).await,
            }
        }
    }

    async fn tell(&mut self, place: &Place) {
        let blocked = blocked(place, &self.last).await;
        if blocked != self.told {
            for it in &blocked {
                term::progress(&progress(it));
            }
            self.told = blocked;
        }
    }
}

/// A line about one of those that block; what says that the list is not complete is a line of its own.
fn progress(blocker: &str) -> String {
    if blocker.starts_with('(') || blocker.starts_with("and ") {
        blocker.to_owned()
    } else {
        format!("waiting for {blocker}")
    }
}

/// What blocks the deletion, read from the cluster as far as the user may.
async fn blocked(place: &Place, one: &One) -> Vec<String> {
    let config = ControllerConfig::of_cluster(&place.client).await.config;
    match around(&place.client, &one.wrapper, &config).await {
        Ok(inputs) => blockers(one, Some(&inputs.snapshot), now()),
        Err(error) => {
            let mut all = blockers(one, None, now());
            all.push(format!("(cannot read its components and pods: {error})"));
            all
        }
    }
}

/// What blocks the deletion of an AppWrapper: pods, components, then its own finalizers.
fn blockers(one: &One, snapshot: Option<&Snapshot>, now: Timestamp) -> Vec<String> {
    let mut all = snapshot.map(|snapshot| existing(snapshot, now)).unwrap_or_default();
    if snapshot.is_none()
        && let Some(told) = deleting(one)
    {
        all.push(told.to_owned());
    }
    let more = all.len().saturating_sub(NAMED_MAX);
    all.truncate(NAMED_MAX);
    if more > 0 {
        all.push(format!("and {more} more"));
    }
    let finalizers = one.seen.meta.finalizers.as_deref().unwrap_or_default();
    let others: Vec<&str> =
        finalizers.iter().map(String::as_str).filter(|name| *name != keys::FINALIZER).collect();
    let is_ours = others.len() < finalizers.len();
    if !others.is_empty() {
        all.push(format!("finalizers of the AppWrapper: {}", others.join(", ")));
    }
    if is_ours && all.is_empty() {
        all.push(match one.wrapper.other_manager() {
            Some(manager) if manager != keys::MULTIKUEUE => {
                format!("{manager} to remove the finalizer {}", keys::FINALIZER)
            }
            Some(_) | None => format!(
                "the controller to remove the finalizer {}; if this lasts, check that it is running",
                keys::FINALIZER
            ),
        });
    }
    all
}

/// What the controller waits for, as far as it names that.
fn deleting(one: &One) -> Option<&str> {
    let said = condition::find(&one.wrapper.status.conditions, condition::DELETING_RESOURCES)
        .filter(|said| said.status == "True")?;
    Some(said.message.strip_prefix("Waiting for ").unwrap_or("its components"))
}

/// What still exists: pods first, since components wait for them.
fn existing(snapshot: &Snapshot, now: Timestamp) -> Vec<String> {
    let mut pods: Vec<&Pod> = snapshot.pods.iter().collect();
    pods.sort_by(|a, b| (a.due_to_go, &a.name).cmp(&(b.due_to_go, &b.name)));
    let pods = pods.into_iter().map(|pod| described(snapshot, pod, now));
    let objects = snapshot.components.iter().filter(|component| component.kind != "Pod");
    let objects = objects.filter_map(|component| match &component.presence {
        Presence::Present(object) if object.owner == Owner::Us => {
            let state = if object.terminating { ", being deleted" } else { "" };
            let keeps = keeps(&object.finalizers);
            Some(format!("{}/{}{state}{keeps}", component.kind, component.name))
        }
        Presence::Present(_) | Presence::Absent | Presence::Unseen | Presence::NoKind => None,
    });
    let undetermined =
        snapshot.undetermined.named.iter().map(|(name, why)| {
            format!("Pod/{name}, which has the labels of this AppWrapper ({why})")
        });
    pods.chain(objects).chain(undetermined).collect()
}

fn described(snapshot: &Snapshot, pod: &Pod, now: Timestamp) -> String {
    let mut text = format!("Pod/{}", pod.name);
    if let Some(node) = &pod.node {
        text += &format!(" on node {node}");
        if snapshot.loss_of(pod).is_some() {
            text += ", which is lost";
        }
    }
    match pod.due_to_go {
        Some(due) if due < now => {
            text += &format!(", Terminating, overdue for {}", words::age(Some(due), now));
        }
        Some(_) => text += ", Terminating",
        None => text += &format!(", {}", pod.phase.as_str()),
    }
    text + &keeps(&pod.finalizers)
}

fn keeps(finalizers: &[String]) -> String {
    if finalizers.is_empty() {
        String::new()
    } else {
        format!(", finalizers {}", finalizers.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::observe::raw_object::RawObject;
    use crate::snapshot::{Component, Object};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn one(finalizers: &[&str], message: &str) -> One {
        let object = json!({
            "metadata": {"name": "aw", "namespace": "ns", "uid": "u", "finalizers": finalizers},
            "spec": {"components": []},
            "status": {"phase": "Terminating", "conditions": [
                {"type": "DeletingResources", "status": "True", "reason": "R", "message": message,
                 "lastTransitionTime": at(0)}]},
        });
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        One::of(seen).unwrap()
    }

    fn pod(name: &str, due: Option<i64>, finalizers: &[&str]) -> Pod {
        Pod {
            name: name.into(),
            node: Some("node-1".into()),
            due_to_go: due.map(at),
            terminating: due.is_some(),
            finalizers: finalizers.iter().map(|name| (*name).to_owned()).collect(),
            ..Pod::default()
        }
    }

    #[test]
    fn pods_components_and_finalizers_are_named() {
        let object = Object {
            owner: Owner::Us,
            terminating: true,
            finalizers: vec!["foregroundDeletion".into()],
            ..Object::default()
        };
        let job = Component {
            kind: "Job".into(),
            name: "j".into(),
            presence: Presence::Present(object),
            ..Component::default()
        };
        let snapshot = Snapshot {
            pods: vec![pod("b", Some(200), &[]), pod("a", Some(40), &["x/y"]), pod("c", None, &[])],
            components: vec![job],
            ..Snapshot::default()
        };
        let said = blockers(&one(&[keys::FINALIZER], ""), Some(&snapshot), at(100));
        assert_eq!(
            said,
            [
                "Pod/c on node node-1, Pending",
                "Pod/a on node node-1, Terminating, overdue for 60s, finalizers x/y",
                "Pod/b on node node-1, Terminating",
                "Job/j, being deleted, finalizers foregroundDeletion",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_right_to_watch_the_end_of_a_deletion_is_read() {
        let mut reads = 0;
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let status = |code: u16, reason: &str, message: &str| {
                let body = json!({"kind": "Status", "status": "Failure", "code": code,
                    "reason": reason, "message": message});
                (code, body)
            };
            let (code, body) = if !request.uri().path().ends_with("/appwrappers/aw") {
                status(403, "Forbidden", "no")
            } else if reads < 2 {
                reads += 1;
                let finalizers = [format!("a/{reads}")];
                let metadata = json!({"name": "aw", "uid": "u", "finalizers": finalizers});
                (200, json!({"metadata": metadata, "spec": {"components": []}}))
            } else {
                status(404, "NotFound", "appwrappers \"aw\" not found")
            };
            let body = kube::client::Body::from(body.to_string().into_bytes());
            std::future::ready(http::Response::builder().status(code).body(body))
        });
        let place = Place { client: kube::Client::new(service, "ns"), namespace: "ns".into() };
        let mut waiting = Waiting { last: one(&[], ""), told: vec![] };
        let begun = tokio::time::Instant::now();
        waiting.until_gone(&place).await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 4);
        let finalizers = waiting.last.seen.meta.finalizers.as_deref().unwrap_or_default();
        assert_eq!(finalizers, ["a/2"], "as it was read last");
    }

    #[test]
    fn few_of_many_are_named() {
        let pods = (0..1000).map(|n| pod(&format!("p-{n:03}"), Some(10), &[])).collect();
        let snapshot = Snapshot { pods, ..Snapshot::default() };
        let said = blockers(&one(&[keys::FINALIZER, "a/b"], ""), Some(&snapshot), at(0));
        assert_eq!(said.len(), NAMED_MAX + 2);
        assert_eq!(said[NAMED_MAX], "and 995 more");
        assert_eq!(said[NAMED_MAX + 1], "finalizers of the AppWrapper: a/b");
    }

    #[test]
    fn a_line_of_progress_is_a_sentence() {
        for (blocker, want) in [
            ("Pod/p", "waiting for Pod/p"),
            ("the controller to remove it", "waiting for the controller to remove it"),
            ("and 3 more", "and 3 more"),
            ("(cannot read its pods: no)", "(cannot read its pods: no)"),
        ] {
            assert_eq!(progress(blocker), want);
        }
    }

    #[test]
    fn where_nothing_exists_the_finalizer_is_named() {
        let empty = Snapshot::default();
        let named = "Waiting for Pod/p on node n and 3 more";
        let begun = "The components are being deleted";
        for (finalizers, message, snapshot, want) in [
            (
                vec![keys::FINALIZER],
                named,
                Some(&empty),
                vec!["the controller to remove the finalizer"],
            ),
            (vec!["a/b"], named, Some(&empty), vec!["finalizers of the AppWrapper: a/b"]),
            (vec![keys::FINALIZER], named, None, vec!["Pod/p on node n and 3 more"]),
            (vec![keys::FINALIZER], begun, None, vec!["its components"]),
            (vec![], named, Some(&empty), vec![]),
        ] {
            let said = blockers(&one(&finalizers, message), snapshot, at(0));
            assert_eq!(said.len(), want.len(), "{said:?}");
            assert!(said.iter().zip(want).all(|(said, want)| said.starts_with(want)), "{said:?}");
        }
        let mut sent = one(&[keys::FINALIZER], "");
        let wrapper = std::sync::Arc::make_mut(&mut sent.wrapper);
        std::sync::Arc::make_mut(&mut wrapper.spec).managed_by = Some(keys::MULTIKUEUE.into());
        let said = blockers(&sent, Some(&empty), at(0));
        assert!(said[0].starts_with("the controller to remove the finalizer"), "{said:?}");
    }
}
