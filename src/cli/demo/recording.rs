//! A run of a simulated cluster, recorded for the page.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::super::web::{LocalQueue, ObjectChange, Queues, Recording, Share, Told};
use super::HORIZON;
use super::narration::{Line, Narration};
use super::words::amount_text;
use crate::api::keys;
use crate::sim;
use crate::world::actors::kueue::WorkloadState;
use crate::world::film::Film;
use crate::world::show::{Beat, Show, What};

/// Runs a show to its end.
pub(super) async fn record(mut show: Show, notes: &[Line]) -> Recording {
    let mut taken = Taken::default();
    "demo".clone_into(&mut taken.recording.title);
    taken.recording.lines.extend(notes.iter().map(told));
    loop {
        let goes_on = show.advance(HORIZON, HORIZON).await;
        show.drain().iter().for_each(|beat| taken.take(beat));
        if !goes_on || show.elapsed() >= HORIZON {
            break;
        }
    }
    taken.recording.end = moment(show.elapsed());
    taken.recording
}

/// What a film shows, with its own lines.
pub(in crate::cli) fn of_film(film: Film, title: String) -> Recording {
    let changes: Vec<ObjectChange> = film.changes.iter().map(|(at, it)| change(*at, it)).collect();
    let line = |(at, text)| Told { at: moment(at), object: String::new(), text };
    Recording {
        title,
        end: changes.last().map_or_else(|| moment(Duration::ZERO), |last| last.at),
        changes,
        lines: film.lines.into_iter().map(line).collect(),
        ..Recording::default()
    }
}

/// The time of day of a moment, in whole seconds, as the status has it.
fn moment(at: Duration) -> Timestamp {
    Show::time(at).parse().unwrap_or_default()
}

fn change(at: Duration, change: &sim::Change) -> ObjectChange {
    let gone = change.verb == sim::Verb::Deleted;
    ObjectChange { at: moment(at), value: change.object.value.clone(), gone }
}

fn told(line: &Line) -> Told {
    let Line { at, object, event, message } = line;
    Told { at: moment(*at), object: object.clone(), text: format!("{event}: {message}") }
}

/// What was recorded so far.
#[derive(Default)]
struct Taken {
    recording: Recording,
    narration: Narration,
    /// Metadata of the AppWrappers, by name.
    wrappers: BTreeMap<String, Value>,
}

impl Taken {
    fn take(&mut self, beat: &Beat) {
        self.recording.lines.extend(self.narration.tell(beat).iter().map(told));
        match &beat.what {
            What::Changed { change: seen, kind, .. } => {
                if kind == "AppWrapper" {
                    let name = seen.object.address.name.to_string();
                    self.wrappers.insert(name, seen.object.value["metadata"].clone());
                }
                self.recording.changes.push(change(beat.at, seen));
            }
            What::Queued { name, now, quota, .. } => {
                if let Some(metadata) = self.wrappers.get(&**name) {
                    let value = workload(metadata, *now);
                    self.recording.changes.push(ObjectChange {
                        at: moment(beat.at),
                        value,
                        gone: false,
                    });
                }
                self.recording.queues.push((moment(beat.at), queues(quota)));
            }
            What::Warned { .. } | What::Struck { .. } => {}
        }
    }
}

/// The Workload that Kueue would have, by what the simulated Kueue decided.
fn workload(wrapper: &Value, state: WorkloadState) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message});
    let waits = condition("QuotaReserved", "False", "Pending", "insufficient unused quota");
    let has = condition("QuotaReserved", "True", "QuotaReserved", "");
    let admitted = condition("Admitted", "True", "Admitted", "");
    let conditions = match state {
        WorkloadState::Pending => vec![waits],
        WorkloadState::Admitted => vec![has, admitted],
        WorkloadState::Evicting => vec![has, admitted, condition("Evicted", "True", "Evicted", "")],
        WorkloadState::Finished => vec![condition("Finished", "True", "Finished", "")],
    };
    let text = |key: &str| wrapper[key].as_str().unwrap_or_default().to_owned();
    let (name, uid) = (text("name"), text("uid"));
    json!({
        "apiVersion": format!("{}/v1beta2", keys::KUEUE_GROUP), "kind": "Workload",
        "metadata": {
            "name": format!("appwrapper-{name}"), "namespace": text("namespace"),
            "uid": format!("workload-{uid}"), "ownerReferences": [{
                "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "name": name,
                "uid": uid, "controller": true,
            }],
        },
        "spec": {"active": true}, "status": {"conditions": conditions},
    })
}

/// The simulated Kueue has one ClusterQueue, and all of it is shown.
fn queues(quota: &BTreeMap<String, (i64, i64)>) -> Queues {
    let resource = |(name, (reserved, all)): (&String, &(i64, i64))| Share {
        resource: name.clone(),
        reserved: amount_text(*reserved),
        all: Some(amount_text(*reserved)),
        quota: Some(amount_text(*all)),
        ..Share::default()
    };
    let resources = quota.iter().map(resource).collect();
    let queue =
        LocalQueue { cluster_queue: "kueue".to_owned(), resources, ..LocalQueue::default() };
    Queues { queues: vec![queue], notes: vec![] }
}
