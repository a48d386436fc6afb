//! `appwrapper retry`: an AppWrapper that has failed is deleted and recreated from its own spec.
//!
//! A dry run comes first, so that a refusal costs nothing; the manifest is kept in a file until the new
//! AppWrapper exists.

mod recreate;

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Preconditions};
use serde::Serialize;
use serde_json::Value;

use super::super::cluster::{cluster_flags, target_words};
use super::super::configuration::ControllerConfig;
use super::super::place::{One, Place};
use super::super::{Error, json, program, term};
use super::reach::Written;
use super::switch::awaits_its_user;
use super::workload::Queued;
use super::{Done, Target, block_on, delete, multikueue, now, words};
use crate::api::{Phase, keys};
use crate::decide::pause;
use crate::observe::assemble::Wrapper;
use crate::printable::escape;
use crate::tuning::{Limits, Period};

/// Why an AppWrapper with a prebuilt Workload is not recreated. Source: Kueue 0.18, `jobframework/reconciler.go`: the
/// AppWrapper becomes the controller owner of the Workload.
const PREBUILT: &str = "was left unchanged: its prebuilt Workload would be deleted with it, and Kueue does not create \
                        another: save the manifest of that Workload, delete the AppWrapper, then create both again";

/// What helps where a `ResourceQuota` refuses the trial, for which the failed AppWrapper leaves no room.
const OVER_QUOTA: &str = "; the trial counts beside the failed AppWrapper: raise the quota by one, or delete the \
                          AppWrapper and create it again";

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RetryPlan {
    /// It is already being restarted, or returns to its queue.
    Already(String),
    /// It cannot be done, and what can.
    No(String),
    /// It is deleted and recreated.
    Recreate,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Retried {
    recreated: bool,
    /// The file that holds the manifest, where the new one could not be created.
    manifest: Option<String>,
}

pub(in crate::cli) fn run(target: &Target) -> Result<ExitCode, Error> {
    block_on(retry(target))?.tell(target.output)
}

async fn retry(target: &Target) -> Result<Done<Retried>, Error> {
    target.change(async |place: &Place, one: &One| recreate(place, one).await).await
}

/// None after a conflict.
async fn recreate(place: &Place, one: &One) -> Result<Option<Done<Retried>>, Error> {
    let done =
        |yes: bool, facts: Retried, message: &str| Ok(Some(Done::new(one, yes, facts, message)));
    let nothing = Retried::default();
    let known = match one.wrapper.status.phase {
        Phase::Resetting => ControllerConfig::of_cluster(&place.client).await,
        _ => ControllerConfig::default(),
    };
    match plan(&one.wrapper, &known, now(), program()) {
        RetryPlan::Already(how) => return done(true, nothing, &how),
        RetryPlan::No(why) => return done(false, nothing, &why),
        RetryPlan::Recreate => {}
    }
    let queued = matches!(place.workload(&one.wrapper.uid).await?, Queued::Workload(_));
    let old = &one.value()?;
    let manifest = recreate::manifest(old, queued || one.wrapper.queue.is_some());
    match place.create(&recreate::trial(&manifest, &one.wrapper.uid), true).await? {
        Written::Yes => {}
        Written::Conflict => return Ok(None),
        Written::Forbidden(error) => return Err(error),
        Written::Refused(why) => return done(false, nothing, &refused(&why)),
    }
    match replace(place, one, &manifest).await? {
        Replaced::Changed => Ok(None),
        Replaced::Yes => {
            let newer = place.one(&one.wrapper.name).await.and_then(|it| it.value()).ok();
            let rights = newer.and_then(|newer| other_rights(old, &newer)).unwrap_or_default();
            let facts = Retried { recreated: true, manifest: None };
            done(true, facts, &(recreated(&manifest, program()) + &rights))
        }
        Replaced::Refused(why) => done(false, nothing, &format!("could not be deleted: {why}")),
        Replaced::Lost { why, manifest } => {
            let message = format!(
                "was deleted, but could not be recreated: {why}\n\
                 to create it: kubectl create -f {manifest}{}",
                cluster_flags()
            );
            done(false, Retried { recreated: false, manifest: Some(manifest) }, &message)
        }
    }
}

/// That the trial was refused, and what helps.
fn refused(why: &str) -> String {
    let advice = if why.contains("exceeded quota") { OVER_QUOTA } else { "" };
    format!("was left unchanged, because it could not be recreated: {why}{advice}")
}

/// What was done, and what it is waiting for.
fn recreated(manifest: &Value, program: &str) -> String {
    let text = |field: &str| manifest["metadata"][field].as_str().unwrap_or_default();
    let it = target_words(text("name"), text("namespace"));
    let has_queue = manifest["metadata"]["labels"].get(keys::QUEUE_NAME).is_some();
    let next = match (manifest["spec"]["suspend"].as_bool(), has_queue) {
        (Some(true), true) => "; it is waiting for admission by its queue".to_owned(),
        (Some(true), false) => {
            format!("; it is suspended, as before; to resume it: {program} resume {it}")
        }
        (Some(false) | None, _) => String::new(),
    };
    format!("was deleted and recreated from its own spec{next}")
}

/// Whose permissions count from now on, where they are another user's than before.
fn other_rights(old: &Value, new: &Value) -> Option<String> {
    let [before, after] =
        [old, new].map(|object| object["spec"]["requester"]["username"].as_str().map(escape));
    let (before, after) = (before?, after?);
    (before != after).then(|| {
        format!(
            "; the controller now creates its resources with the permissions of {after}, not of \
             {before}"
        )
    })
}

/// What to do in each phase.
fn plan(wrapper: &Wrapper, known: &ControllerConfig, now: Timestamp, program: &str) -> RetryPlan {
    let name = target_words(&wrapper.name, &wrapper.namespace);
    let no = |why: String| RetryPlan::No(why);
    if wrapper.has_manager {
        return no(format!("is {}", multikueue::COPY));
    }
    if wrapper.deleting {
        return no("is being deleted: recreate it once it is gone".to_owned());
    }
    if let Some(manager) = wrapper.other_manager() {
        let is_sent = multikueue::is_sent(wrapper);
        let again = if is_sent { format!("; {}", multikueue::AGAIN) } else { String::new() };
        return no(format!("is managed by {manager}, not by this controller{again}"));
    }
    match wrapper.status.phase {
        Phase::Failed if wrapper.is_prebuilt && wrapper.queue.is_some() => no(PREBUILT.to_owned()),
        Phase::Failed => RetryPlan::Recreate,
        Phase::Resetting if wrapper.is_inactive() => no(format!(
            "is being suspended by its annotation active; to resume it: {program} resume {name}"
        )),
        Phase::Resetting if wrapper.status.requeue.is_some() => {
            RetryPlan::Already("is returning to its queue".to_owned())
        }
        Phase::Resetting => {
            RetryPlan::Already(format!("is already being restarted: {}", when(wrapper, known, now)))
        }
        Phase::Empty => no(format!(
            "is new: the controller has not reconciled it yet; see {program} why {name}"
        )),
        Phase::Suspended => {
            let resume = if awaits_its_user(wrapper) {
                format!("; to resume it: {program} resume {name}")
            } else {
                String::new()
            };
            no(format!(
                "is Suspended and has not failed; to see what it is waiting for: {program} why {name}{resume}"
            ))
        }
        Phase::Resuming | Phase::Running => no(format!(
            "is {} and has not failed; to restart it: {program} suspend {name}, \
             {program} wait {name} --for=Suspended, then {program} resume {name}",
            wrapper.status.phase
        )),
        Phase::Suspending => no(format!(
            "is being suspended; to resume it afterwards: {program} resume {name}"
        )),
        Phase::Succeeded => no(
            "has succeeded; to run it again, delete and recreate it, or create it under another name"
                .to_owned(),
        ),
        Phase::Terminating => no("is being deleted: recreate it once it is gone".to_owned()),
    }
}

/// When the next attempt begins, as far as that is known.
fn when(wrapper: &Wrapper, known: &ControllerConfig, now: Timestamp) -> String {
    let (limits, _) = Limits::of(&wrapper.annotations, &known.config.fault_tolerance);
    let status = &wrapper.status;
    let gone = status.since.as_ref().and_then(|since| since.gone.as_ref()).map(|gone| gone.0);
    let soon = |at: Timestamp| match at.as_second() - now.as_second() {
        ..=0 => "now".to_owned(),
        left => format!("in {} ({at})", words::rounded(left)),
    };
    let begins = match (gone, &status.retry_after) {
        (Some(gone), _) => {
            pause::until(status, &limits, gone).map_or_else(|| "now".to_owned(), soon)
        }
        (None, Some(after)) => {
            format!("when all its resources are deleted, but not before {}", after.0)
        }
        (None, None) => {
            let pause = Period::from_duration(pause::pause(status, &limits));
            if pause.is_zero() {
                "when all its resources are deleted".to_owned()
            } else {
                format!("{pause} after all its resources are deleted")
            }
        }
    };
    // a retry policy's moment is recorded; the pause is a setting
    let doubt = known.doubt.as_ref().filter(|_| status.retry_after.is_none());
    let doubt = doubt.map(|doubt| format!("; {doubt}")).unwrap_or_default();
    format!("its next attempt begins {begins}{doubt}")
}

/// How the exchange ended.
enum Replaced {
    Yes,
    /// It was changed before it could be deleted: nothing was done.
    Changed,
    /// It was not deleted.
    Refused(String),
    /// The old one is gone, and there is no new one.
    Lost {
        why: String,
        manifest: String,
    },
}

/// Deletes the one that was seen, waits until it is gone, and creates the new one.
async fn replace(place: &Place, one: &One, manifest: &Value) -> Result<Replaced, Error> {
    let name = &one.wrapper.name;
    let kept = Kept::new(file_name(&place.namespace, name), manifest)?;
    let seen = Preconditions {
        uid: Some(one.wrapper.uid.clone()),
        resource_version: Some(one.wrapper.version.clone()),
    };
    match place.delete(name, &DeleteParams::background().preconditions(seen)).await {
        Ok(Written::Yes) => {}
        Ok(Written::Conflict) => {
            kept.forget();
            return Ok(Replaced::Changed);
        }
        Ok(Written::Refused(why)) => {
            kept.forget();
            return Ok(Replaced::Refused(why));
        }
        Ok(Written::Forbidden(error)) => {
            kept.forget();
            return Err(error);
        }
        // it may be deleted or not: the file stays
        Err(error) => return Err(kept.explain(&error)),
    }
    let file = kept.place();
    term::progress(&format!("{name}: waiting until it is gone; its manifest is in {file}"));
    delete::until_gone(place, one).await.map_err(|error| kept.explain(&error))?;
    match place.create(manifest, false).await {
        Ok(Written::Yes) => {
            kept.forget();
            Ok(Replaced::Yes)
        }
        Ok(Written::Conflict) => Ok(Replaced::Lost {
            why: "it was modified concurrently".to_owned(),
            manifest: kept.place(),
        }),
        Ok(Written::Refused(why)) => Ok(Replaced::Lost { why, manifest: kept.place() }),
        Ok(Written::Forbidden(error)) | Err(error) => {
            Ok(Replaced::Lost { why: error.to_string(), manifest: kept.place() })
        }
    }
}

/// The file for the manifest of an AppWrapper: AppWrappers of several namespaces may have the same name.
fn file_name(namespace: &str, name: &str) -> String {
    format!("{namespace}.{name}.appwrapper.json")
}

/// Creates a file that only its owner may read. If it cannot be written as a whole, it does not stay.
fn write_new(file: &str, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // a template may hold what is not for everybody
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut open = options.open(file)?;
    write(&mut open).inspect_err(|_| drop(std::fs::remove_file(file)))
}

/// The manifest in a file of the current directory, until the new AppWrapper exists: whatever happens to
/// this program, the manifest is not lost.
struct Kept(String);

impl Kept {
    /// # Errors
    /// No file can be written; then nothing may be deleted.
    fn new(file: String, manifest: &Value) -> Result<Self, Error> {
        let text = json(manifest)?;
        let written = write_new(&file, |open| {
            open.write_all(text.as_bytes())?;
            open.sync_all()
        });
        match written {
            Ok(()) => Ok(Self(file)),
            Err(error) => Err(unsaved(&file, &error)),
        }
    }

    fn place(&self) -> String {
        format!("./{}", self.0)
    }

    /// It is no longer needed.
    fn forget(&self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            let place = self.place();
            term::remark(&format!("cannot remove {place}, which is no longer needed: {error}"));
        }
    }

    /// An error, and where the manifest is.
    fn explain(&self, error: &Error) -> Error {
        let place = self.place();
        let text = format!(
            "{error}\nthe AppWrapper may be deleted; to recreate it: kubectl create -f {place}{}",
            cluster_flags()
        );
        match error {
            Error::Cluster(_) => Error::Cluster(text),
            Error::Negative(_) => Error::Negative(text),
            Error::Usage(_) => Error::Usage(text),
            Error::System(_) => Error::System(text),
        }
    }
}

/// That the manifest cannot be saved.
fn unsaved(file: &str, error: &io::Error) -> Error {
    if error.kind() == ErrorKind::AlreadyExists {
        return Error::Negative(format!(
            "nothing was done: ./{file} holds the manifest of an earlier retry; remove it if that \
             AppWrapper exists again"
        ));
    }
    Error::System(format!(
        "nothing was done: cannot save the manifest to ./{file} before the AppWrapper is deleted: \
         {error}"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn wrapper(status: Value) -> Wrapper {
        Wrapper {
            name: "train".into(),
            status: serde_json::from_value(status).unwrap(),
            ..Wrapper::default()
        }
    }

    #[test]
    fn only_what_has_failed_is_recreated() {
        for (phase, want) in [
            ("", "has not reconciled it yet; see kubectl aw why train"),
            ("Suspended", "kubectl aw why train"),
            ("Resuming", "is Resuming and has not failed"),
            ("Running", "kubectl aw wait train --for=Suspended, then kubectl aw resume train"),
            ("Suspending", "kubectl aw resume train"),
            ("Succeeded", "has succeeded"),
            ("Terminating", "is being deleted"),
        ] {
            match plan(
                &wrapper(json!({"phase": phase})),
                &ControllerConfig::default(),
                at(0),
                "kubectl aw",
            ) {
                RetryPlan::No(why) => assert!(why.contains(want), "{why}"),
                other => panic!("{phase}: {other:?}"),
            }
        }
        let mut failed = wrapper(json!({"phase": "Failed"}));
        assert_eq!(
            plan(&failed, &ControllerConfig::default(), at(0), "kubectl aw"),
            RetryPlan::Recreate
        );
        std::sync::Arc::make_mut(&mut failed.spec).managed_by = Some("other".into());
        assert!(matches!(
            plan(&failed, &ControllerConfig::default(), at(0), "kubectl aw"),
            RetryPlan::No(_)
        ));
        std::sync::Arc::make_mut(&mut failed.spec).managed_by = None;
        failed.deleting = true;
        assert!(matches!(
            plan(&failed, &ControllerConfig::default(), at(0), "kubectl aw"),
            RetryPlan::No(_)
        ));
    }

    #[test]
    fn what_has_a_prebuilt_workload_in_a_queue_is_not_recreated() {
        for (is_prebuilt, queue, want) in [
            (true, Some("gpu"), RetryPlan::No(PREBUILT.to_owned())),
            (true, None, RetryPlan::Recreate),
            (false, Some("gpu"), RetryPlan::Recreate),
        ] {
            let queue = queue.map(str::to_owned);
            let failed = Wrapper { is_prebuilt, queue, ..wrapper(json!({"phase": "Failed"})) };
            assert_eq!(plan(&failed, &ControllerConfig::default(), at(0), "kubectl aw"), want);
        }
        assert!(PREBUILT.starts_with("was left unchanged: its prebuilt Workload would be deleted"));
    }

    #[test]
    fn what_multikueue_sends_or_has_created_is_not_recreated() {
        let sent = || multikueue::tests::sent(Phase::Failed);
        let copy = || Wrapper { has_manager: true, ..wrapper(json!({"phase": "Failed"})) };
        for (wrapper, want) in [
            (copy(), "change the AppWrapper in the manager cluster"),
            (Wrapper { deleting: true, ..copy() }, "is a copy that MultiKueue created"),
            (sent(), "; to run it again, delete the AppWrapper and create it again"),
            (Wrapper { deleting: true, ..sent() }, "is being deleted: recreate it once it is gone"),
        ] {
            match plan(&wrapper, &ControllerConfig::default(), at(0), "kubectl aw") {
                RetryPlan::No(why) => assert!(why.contains(want), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_full_quota_of_appwrappers_is_explained() {
        let full =
            "appwrappers.workload.codeflare.dev \"train-0a1b2c3d\" is forbidden: exceeded quota: q";
        for (why, is_explained) in [(full, true), ("admission webhook \"w\" denied it", false)] {
            let said = refused(why);
            assert!(said.contains(&format!("could not be recreated: {why}")), "{said}");
            assert_eq!(said.ends_with(OVER_QUOTA), is_explained, "{said}");
        }
    }

    #[test]
    fn a_manifest_that_cannot_be_saved_is_told_by_its_cause() {
        let said = |kind: ErrorKind| unsaved(&file_name("ns", "train"), &kind.into());
        match said(ErrorKind::AlreadyExists) {
            Error::Negative(why) => assert_eq!(
                why,
                "nothing was done: ./ns.train.appwrapper.json holds the manifest of an earlier \
                 retry; remove it if that AppWrapper exists again"
            ),
            other => panic!("{other:?}"),
        }
        for kind in [ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied] {
            match said(kind) {
                Error::System(why) => assert!(why.contains("cannot save the manifest"), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_manifest_is_saved_as_a_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("appwrapper-kept-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name).display().to_string();
        let manifest = json!({"kind": "AppWrapper"});
        let full = write_new(&path("full"), |open| {
            open.write_all(b"{")?;
            Err(ErrorKind::StorageFull.into())
        });
        assert_eq!(full.map_err(|error| error.kind()), Err(ErrorKind::StorageFull));
        let kept = Kept::new(path("full"), &manifest).unwrap();
        let text = std::fs::read_to_string(&kept.0).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), manifest);
        let again = Kept::new(path("full"), &json!({})).err();
        assert!(matches!(again, Some(Error::Negative(_))), "{again:?}");
        assert_eq!(std::fs::read_to_string(&kept.0).unwrap(), text, "it is not overwritten");
        let missing = Kept::new(path("missing/full"), &manifest).err();
        assert!(matches!(missing, Some(Error::System(_))), "{missing:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn another_users_rights_are_not_lent_silently() {
        let by = |user: Value| json!({"spec": {"requester": {"username": user}}});
        for (old, new, want) in [
            (by(json!("ann")), by(json!("ann")), None),
            (
                by(json!("ann")),
                by(json!("admin")),
                Some("with the permissions of admin, not of ann"),
            ),
            (by(json!("ann")), json!({"spec": {}}), None),
            (json!({"spec": {}}), by(json!("admin")), None),
            (by(json!("a\u{1b}[2J")), by(json!("admin")), Some("not of a\\u{1b}[2J")),
        ] {
            let said = other_rights(&old, &new);
            assert_eq!(said.is_some(), want.is_some(), "{said:?}");
            assert!(said.unwrap_or_default().ends_with(want.unwrap_or_default()));
        }
    }

    #[test]
    fn what_was_recreated_says_what_it_waits_for() {
        for (suspend, labels, want) in [
            (json!(false), json!({}), "own spec"),
            (json!(true), json!({}), "to resume it: kubectl aw resume train"),
            (json!(true), json!({keys::QUEUE_NAME: "gpu"}), "waiting for admission by its queue"),
        ] {
            let manifest = json!({"metadata": {"name": "train", "labels": labels}, "spec": {"suspend": suspend}});
            let said = recreated(&manifest, "kubectl aw");
            assert!(said.ends_with(want), "{said}");
        }
    }

    #[test]
    fn what_is_being_retried_says_when() {
        for (status, want) in [
            (json!({}), "begins 90s after all its resources are deleted".replace("90s", "1m30s")),
            (json!({"since": {"gone": at(0)}}), "begins in 60s (2026-01-01T00:01:30Z)".to_owned()),
            (json!({"since": {"gone": at(-100)}}), "begins now".to_owned()),
            (
                json!({"retryAfter": at(40)}),
                "begins when all its resources are deleted, but not before 2026-01-01T00:00:40Z"
                    .to_owned(),
            ),
            (
                json!({"retryAfter": at(40), "since": {"gone": at(0)}}),
                "begins in 10s (2026-01-01T00:00:40Z)".to_owned(),
            ),
        ] {
            let mut status = status;
            status["phase"] = "Resetting".into();
            match plan(&wrapper(status), &ControllerConfig::default(), at(30), "kubectl aw") {
                RetryPlan::Already(how) => assert!(how.ends_with(&want), "{how}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_requeued_or_inactive_appwrapper_is_not_said_to_restart() {
        let requeued = json!({"phase": "Resetting", "requeue": {"attempt": 1}});
        match plan(&wrapper(requeued), &ControllerConfig::default(), at(30), "kubectl aw") {
            RetryPlan::Already(how) => assert_eq!(how, "is returning to its queue"),
            other => panic!("{other:?}"),
        }
        let mut inactive = wrapper(json!({"phase": "Resetting"}));
        inactive.annotations.insert(keys::ACTIVE.to_owned(), "false".to_owned());
        match plan(&inactive, &ControllerConfig::default(), at(30), "kubectl aw") {
            RetryPlan::No(why) => assert!(why.contains("kubectl aw resume train"), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn times_are_those_of_the_configuration_or_said_to_be_assumed() {
        let said = |known: &ControllerConfig, status: Value| when(&wrapper(status), known, at(30));
        let mut known = ControllerConfig::default();
        known.config.fault_tolerance.retry_pause = "10m".parse().unwrap();
        let gone = || json!({"phase": "Resetting", "since": {"gone": at(0)}});
        assert!(said(&known, gone()).contains("in 9m30s"), "{}", said(&known, gone()));
        known.config.fault_tolerance.retry_pause = Period::ZERO;
        assert_eq!(said(&known, gone()), "its next attempt begins now");
        let status = json!({"phase": "Resetting"});
        assert_eq!(
            said(&known, status),
            "its next attempt begins when all its resources are deleted"
        );
        let doubt = Some("assuming the default configuration".to_owned());
        let assumed = ControllerConfig { doubt, ..ControllerConfig::default() };
        assert!(said(&assumed, gone()).ends_with("Z); assuming the default configuration"));
        let recorded =
            json!({"phase": "Resetting", "retryAfter": at(40), "since": {"gone": at(0)}});
        assert!(!said(&assumed, recorded).contains("assuming"), "a recorded moment is known");
        // uncounted restarts that never became ready double the pause
        let attempt =
            |n: i32| json!({"attempt": n, "outcome": "Failed", "action": "RestartIgnoringLimit"});
        let again = json!({"phase": "Resetting", "attempts": [attempt(0), attempt(1)]});
        assert!(
            said(&ControllerConfig::default(), again).contains("begins 3m after"),
            "two in a row"
        );
    }
}
