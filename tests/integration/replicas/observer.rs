//! What must hold after every change, seen by somebody who shares nothing with the controller.
//!
//! All changes are gone through in the order of etcd's revisions, which is one for all kinds.

use std::collections::{BTreeMap, BTreeSet};

use crate::harness::{Log, RawObject};

/// Kinds that an AppWrapper of these tests is or is made of.
pub const KINDS: [&str; 4] = ["AppWrapper", "Job", "ConfigMap", "Pod"];

/// Phases, each with those that may come after it.
const WAYS: [(&str, &[&str]); 9] = [
    ("", &["Suspended", "Resuming", "Terminating"]),
    ("Suspended", &["Resuming", "Terminating"]),
    ("Resuming", &["Running", "Resetting", "Failed", "Suspending", "Terminating"]),
    ("Running", &["Succeeded", "Resetting", "Failed", "Suspending", "Terminating"]),
    ("Resetting", &["Resuming", "Suspending", "Terminating"]),
    ("Suspending", &["Suspended", "Terminating"]),
    ("Succeeded", &["Terminating"]),
    ("Failed", &["Terminating"]),
    ("Terminating", &[]),
];

/// Phases in which quota is held.
const HOLD_QUOTA: [&str; 3] = ["Resuming", "Running", "Resetting"];

/// Retries, unless an annotation says so.
const RETRY_LIMIT: i64 = 3;

/// An AppWrapper as it is by now.
#[derive(Clone, Debug, Default)]
struct Wrapper {
    phase: String,
    deployed: bool,
    quota: bool,
    restarts: i64,
    limit: i64,
    gone: bool,
}

/// A component or a pod that exists.
#[derive(Clone, Debug)]
struct Thing {
    kind: String,
    name: String,
    owner: String,
    attempt: String,
    lives: bool,
}

/// All that exists by now, and what was wrong on the way.
#[derive(Default)]
struct World {
    wrappers: BTreeMap<String, Wrapper>,
    things: BTreeMap<String, Thing>,
    wrong: Vec<String>,
}

/// Changes of these kinds, in order, each once.
pub fn in_order(log: &Log) -> Vec<&RawObject> {
    let mut all: Vec<&RawObject> = KINDS.iter().flat_map(|kind| log.all(kind)).collect();
    all.sort_by_key(|seen| seen.revision());
    // a watch that begins anew shows again what there is
    let mut known = BTreeSet::new();
    all.retain(|seen| known.insert((seen.uid(), seen.revision(), seen.deleted)));
    all
}

/// What is wrong with a course of events, in the order in which it was seen.
pub fn wrongs(events: &[&RawObject]) -> Vec<String> {
    let mut world = World::default();
    for seen in events {
        if seen.kind == "AppWrapper" {
            world.wrapper(seen);
        } else {
            world.thing(seen);
        }
    }
    world.wrong
}

impl World {
    fn wrapper(&mut self, seen: &RawObject) {
        let before = self.wrappers.get(seen.uid()).cloned().unwrap_or_default();
        let limit =
            &seen.object["metadata"]["annotations"]["workload.codeflare.dev.appwrapper/retryLimit"];
        let after = Wrapper {
            phase: seen.phase().to_owned(),
            deployed: seen.condition("ResourcesDeployed") == "True",
            quota: seen.condition("QuotaReserved") == "True",
            restarts: seen.restarts(),
            limit: limit.as_str().map_or(RETRY_LIMIT, |text| text.parse().expect("a number")),
            gone: seen.deleted,
        };
        let (from, to) = (before.phase.as_str(), after.phase.as_str());
        if from != to && !ways(from).contains(&to) {
            self.note(seen, format!("went from {from:?} to {to:?}"));
        }
        if after.restarts > after.limit {
            self.note(seen, format!("{} restarts, of {}", after.restarts, after.limit));
        }
        if after.restarts < before.restarts
            || after.restarts > before.restarts + i64::from(from != to && to == "Resetting")
        {
            let Wrapper { restarts, limit, .. } = after;
            self.note(seen, format!("{} restarts, then {restarts}, of {limit}", before.restarts));
        }
        if HOLD_QUOTA.contains(&to) && !after.quota && !after.gone {
            self.note(seen, format!("no quota in {to}"));
        }
        if to == "Succeeded" && after.quota && !after.gone {
            self.note(seen, "quota after success".to_owned());
        }
        self.wrappers.insert(seen.uid().to_owned(), after);
        self.empty(seen, seen.uid());
    }

    fn thing(&mut self, seen: &RawObject) {
        let label = |key: &str| {
            let key = format!("workload.codeflare.dev/{key}");
            seen.object["metadata"]["labels"][key].as_str().map(str::to_owned)
        };
        if seen.deleted {
            self.things.remove(seen.uid());
            return;
        }
        let (Some(owner), Some(attempt)) = (label("appwrapper-uid"), label("attempt")) else {
            return;
        };
        let lives = seen.kind == "Pod" && !["Succeeded", "Failed"].contains(&seen.phase());
        let (kind, name) = (seen.kind.clone(), seen.name.clone());
        let thing = Thing { kind, name, owner: owner.clone(), attempt, lives };
        let is_new = self.things.insert(seen.uid().to_owned(), thing.clone()).is_none();
        if !is_new {
            return;
        }
        let others = self.things.values().filter(|other| other.owner == owner);
        let older: Vec<String> = others
            .filter(|other| other.attempt != thing.attempt)
            .map(|other| format!("{}/{} of {}", other.kind, other.name, other.attempt))
            .collect();
        if !older.is_empty() {
            let older = older.join(", ");
            self.note(seen, format!("attempt {} began beside {older}", thing.attempt));
        }
        self.empty(seen, &owner);
    }

    /// Nothing exists of what says so, nor a live pod of what has no quota.
    fn empty(&mut self, seen: &RawObject, uid: &str) {
        let wrapper = self.wrappers.get(uid).cloned().unwrap_or_default();
        let of_it = self.things.values().filter(|thing| thing.owner == uid);
        let wrong = of_it
            .filter(|thing| wrapper.gone || !wrapper.deployed || (!wrapper.quota && thing.lives));
        let names: Vec<String> =
            wrong.map(|thing| format!("{}/{}", thing.kind, thing.name)).collect();
        if !names.is_empty() {
            let Wrapper { phase, deployed, quota, gone, .. } = &wrapper;
            let state = format!("{phase:?} deployed: {deployed} quota: {quota} gone: {gone}");
            self.note(seen, format!("{state}, and there is {}", names.join(", ")));
        }
    }

    fn note(&mut self, seen: &RawObject, what: String) {
        self.wrong.push(format!("{} {}/{}: {what}", seen.revision(), seen.kind, seen.name));
    }
}

fn ways(from: &str) -> &'static [&'static str] {
    WAYS.iter().find(|(phase, _)| *phase == from).map_or(&[], |(_, ways)| ways)
}

/// What happened after a revision to AppWrappers and to what they are made of, where nothing was to: the
/// cluster itself may say of a node that it is not ready, and then of its pods.
pub fn changes_since(log: &Log, revision: u64) -> Vec<String> {
    let all = in_order(log);
    let (before, after): (Vec<&RawObject>, Vec<&RawObject>) =
        all.into_iter().partition(|seen| seen.revision() <= revision);
    let known: BTreeSet<&str> = before.iter().map(|seen| seen.uid()).collect();
    let is_ours = |seen: &&RawObject| {
        seen.kind == "AppWrapper"
            || seen.deleted
            || seen.object["metadata"]["deletionTimestamp"].is_string()
            || !known.contains(seen.uid())
    };
    let changes = after.into_iter().filter(is_ours);
    changes
        .map(|seen| format!("{} {}/{}: {}", seen.revision(), seen.kind, seen.name, seen.object))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn seen(revision: u64, kind: &str, uid: &str, object: Value, deleted: bool) -> RawObject {
        let mut object = object;
        object["metadata"]["uid"] = uid.into();
        object["metadata"]["resourceVersion"] = revision.to_string().into();
        RawObject { kind: kind.to_owned(), name: uid.to_owned(), deleted, object: Arc::new(object) }
    }

    fn wrapper(revision: u64, phase: &str, deployed: bool, restarts: i64) -> RawObject {
        let is = |kind: &str, status: bool| json!({"type": kind, "status": if status { "True" } else { "False" }});
        let conditions = [is("ResourcesDeployed", deployed), is("QuotaReserved", deployed)];
        let status = json!({"phase": phase, "resettingCount": restarts, "conditions": conditions});
        seen(revision, "AppWrapper", "w", json!({"status": status}), false)
    }

    fn pod(revision: u64, uid: &str, attempt: &str) -> RawObject {
        let labels = json!({
            "workload.codeflare.dev/appwrapper-uid": "w",
            "workload.codeflare.dev/attempt": attempt,
        });
        let pod = json!({"metadata": {"labels": labels}, "status": {"phase": "Running"}});
        seen(revision, "Pod", uid, pod, false)
    }

    fn gone(revision: u64, of: &RawObject) -> RawObject {
        seen(revision, &of.kind, of.uid(), (*of.object).clone(), true)
    }

    #[test]
    fn a_course_of_events_is_judged_at_every_step() {
        let start = || vec![wrapper(1, "", false, 0), wrapper(2, "Resuming", true, 0)];
        let first = pod(3, "a", "0");
        let running = wrapper(4, "Running", true, 0);
        let resetting = wrapper(5, "Resetting", true, 1);
        let lawful = vec![
            first.clone(),
            running.clone(),
            resetting.clone(),
            gone(6, &first),
            wrapper(7, "Resuming", true, 1),
            pod(8, "b", "1"),
        ];
        let suspending = wrapper(5, "Suspending", true, 0);
        let terminating = wrapper(5, "Terminating", true, 0);
        for (want, course) in [
            ("", lawful),
            (
                "began beside",
                vec![first.clone(), running.clone(), resetting.clone(), pod(6, "b", "1")],
            ),
            (
                "there is Pod/a",
                vec![first.clone(), running.clone(), suspending, wrapper(6, "Suspended", false, 0)],
            ),
            ("gone: true", vec![first.clone(), terminating.clone(), gone(6, &terminating)]),
            ("from \"Resuming\" to \"Succeeded\"", vec![wrapper(4, "Succeeded", true, 0)]),
            ("1 restarts, then 0", vec![resetting.clone(), wrapper(6, "Resuming", true, 0)]),
            ("0 restarts, then 1", vec![wrapper(4, "Running", true, 1)]),
            ("4 restarts, of 3", vec![running.clone(), wrapper(5, "Resetting", true, 4)]),
            ("no quota in Running", vec![wrapper(4, "Running", false, 0)]),
            ("quota after success", vec![running.clone(), wrapper(5, "Succeeded", true, 0)]),
        ] {
            let mut all = start();
            all.extend(course);
            let wrong = wrongs(&all.iter().collect::<Vec<_>>());
            assert_eq!(wrong.is_empty(), want.is_empty(), "{want}: {wrong:?}");
            assert!(want.is_empty() || wrong[0].contains(want), "{want}: {wrong:?}");
        }
    }
}
