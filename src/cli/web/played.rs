//! A recording: objects and how they changed, of an export or of a simulated cluster.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::Error;
use super::super::aw::list::{Item, item};
use super::super::aw::story::{Life, Story, StoryInputs, past};
use super::super::bundle::{Document, Origin, exported_at};
use super::super::configuration::assumed;
use super::queues::{Queues, queues};
use crate::api::keys;
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::observe::raw_object::RawObject;

/// Steps of the slider between two changes that are far apart.
const BETWEEN: i64 = 10;

/// A change of an object.
#[derive(Clone, Debug)]
pub(in crate::cli) struct ObjectChange {
    pub at: Timestamp,
    /// The object after it; where it is gone, as it was last.
    pub value: Value,
    pub gone: bool,
}

/// Something that happened, in words.
#[derive(Clone, Debug, Serialize)]
pub(in crate::cli) struct Told {
    pub at: Timestamp,
    /// About what: `Kind/name`; may be empty.
    pub object: String,
    pub text: String,
}

/// A recording.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Recording {
    pub title: String,
    pub config: Config,
    /// What is not certain about it, for each story.
    pub notes: Vec<String>,
    /// In order.
    pub changes: Vec<ObjectChange>,
    pub lines: Vec<Told>,
    /// The queues from a moment on.
    pub queues: Vec<(Timestamp, Queues)>,
    /// When it ends; where it begins, too, it is a single moment.
    pub end: Timestamp,
}

/// An object at a moment.
struct Now<'r> {
    value: &'r Value,
    /// When it was gone.
    gone: Option<Timestamp>,
}

impl Recording {
    /// The single moment of a bundle: when it was exported, else now.
    ///
    /// # Errors
    /// There is not exactly one AppWrapper in it, or something cannot be read.
    pub(super) fn of_bundle(documents: Vec<Document>, config: Config) -> Result<Self, String> {
        let end = exported_at(&documents).unwrap_or_else(|| SystemClock.now());
        let inputs = StoryInputs::of_bundle(documents.clone(), &config, end)?;
        let notes = assumed(&inputs.gathered.one.wrapper).into_iter().collect();
        let namespace = documents
            .iter()
            .find(|document| document.is_ours("AppWrapper"))
            .map(|document| document.text("/metadata/namespace").to_owned());
        let of_kueue = |kind: &str| -> Vec<RawObject> {
            let all = documents.iter().filter(|it| it.group() == keys::KUEUE_GROUP);
            all.filter(|it| it.kind() == kind).filter_map(|it| seen(&it.value)).collect()
        };
        let (locals, clusters) = (of_kueue("LocalQueue"), of_kueue("ClusterQueue"));
        let queues = vec![(end, queues(&locals, &clusters, vec![]))];
        let change = |mut document: Document| {
            let is_ours = document.is_ours("AppWrapper");
            if let Some(metadata) = document.value.get_mut("metadata").filter(|_| is_ours)
                && namespace.as_ref().is_none_or(String::is_empty)
            {
                metadata["namespace"] = json!("default");
            }
            ObjectChange { at: end, value: document.value, gone: false }
        };
        let changes = documents.into_iter().map(change).collect();
        let title = "export".to_owned();
        Ok(Self { title, config, notes, changes, queues, end, ..Self::default() })
    }

    fn begin(&self) -> Timestamp {
        self.changes.first().map_or(self.end, |change| change.at)
    }

    /// What the page needs before everything else.
    pub(super) fn info(&self) -> Value {
        json!({
            "mode": "played", "title": self.title, "moments": self.moments(), "lines": self.lines,
        })
    }

    /// The moments of the slider, in seconds: each at which something changed, and some between two that are far apart,
    /// so that a week in which nothing happens is not longer than a minute in which much does.
    fn moments(&self) -> Vec<i64> {
        let changed = self.changes.iter().map(|change| change.at.as_second());
        let mut changed: Vec<i64> = changed.chain([self.end.as_second()]).collect();
        changed.dedup();
        let mut moments: Vec<i64> = changed.first().copied().into_iter().collect();
        for pair in changed.windows(2) {
            let &[from, to] = pair else { continue };
            let step = ((to - from) / BETWEEN).max(1);
            moments.extend((1..BETWEEN).map(|n| from + n * step).take_while(|at| *at < to));
            moments.push(to);
        }
        moments
    }

    fn moment(&self, at: Option<Timestamp>) -> Timestamp {
        at.unwrap_or(self.end).clamp(self.begin(), self.end)
    }

    /// The objects at a moment, also those that are gone by then, in the order in which they came.
    fn objects(&self, at: Timestamp) -> Vec<Now<'_>> {
        let mut places: BTreeMap<Id<'_>, usize> = BTreeMap::new();
        let mut objects: Vec<Now<'_>> = vec![];
        for ObjectChange { at, value, gone } in
            self.changes.iter().take_while(|change| change.at <= at)
        {
            let now = Now { value, gone: gone.then_some(*at) };
            if let Some(index) = places.get(&id(value)) {
                objects[*index] = now;
            } else {
                places.insert(id(value), objects.len());
                objects.push(now);
            }
        }
        objects
    }

    /// The rows of the list at a moment.
    pub(super) fn rows(&self, at: Option<Timestamp>) -> Vec<Item> {
        let at = self.moment(at);
        let objects = self.objects(at);
        let wrappers = objects.iter().filter(|now| now.gone.is_none() && is_wrapper(now.value));
        wrappers.filter_map(|now| Some(item(&seen(now.value)?, Timestamp::MAX))).collect()
    }

    /// The queues at a moment.
    pub(super) fn queues(&self, at: Option<Timestamp>) -> Queues {
        let at = self.moment(at);
        let last = self.queues.iter().rev().find(|(from, _)| *from <= at);
        last.map(|(_, queues)| queues.clone()).unwrap_or_default()
    }

    /// The story of an AppWrapper at a moment.
    ///
    /// # Errors
    /// It does not exist then, or something cannot be read.
    pub(super) fn story(
        &self,
        namespace: &str,
        name: &str,
        at: Option<Timestamp>,
    ) -> Result<Story, Error> {
        let at = self.moment(at);
        let objects = self.objects(at);
        let is_it = |value: &Value| {
            let metadata = &value["metadata"];
            is_wrapper(value) && metadata["namespace"] == namespace && metadata["name"] == name
        };
        let wrapper = objects.iter().rev().find(|now| now.gone.is_none() && is_it(now.value));
        let Some(wrapper) = wrapper else {
            let why = format!("AppWrapper {namespace}/{name} does not exist at this moment");
            return Err(Error::Negative(why));
        };
        let uid = wrapper.value["metadata"]["uid"].as_str().unwrap_or_default();
        let around = objects.iter().filter(|now| {
            let others = &now.value["metadata"]["namespace"];
            now.gone.is_none()
                && !is_wrapper(now.value)
                && (others.is_null() || others == namespace)
        });
        let documents = std::iter::once(wrapper).chain(around).map(document).collect();
        let mut inputs =
            StoryInputs::of_bundle(documents, &self.config, at).map_err(Error::Negative)?;
        inputs.gathered.notes.extend(self.notes.iter().cloned());
        inputs.past = objects.iter().filter_map(|now| life(now, uid)).collect();
        inputs.deletions = self.deletions(uid, at);
        Ok(inputs.story(at))
    }

    /// When the deletion of the resources of each attempt began.
    fn deletions(&self, uid: &str, at: Timestamp) -> BTreeMap<i32, Timestamp> {
        let mut deletions = BTreeMap::new();
        let changes = self.changes.iter().take_while(|change| change.at <= at);
        for ObjectChange { value, .. } in
            changes.filter(|change| change.value["metadata"]["uid"] == uid)
        {
            let status = &value["status"];
            let attempts = status["attempts"].as_array().and_then(|all| all.last());
            let number = attempts.and_then(|last| last["attempt"].as_i64());
            let number = number.and_then(|number| i32::try_from(number).ok());
            let began = status["since"]["deleting"].as_str().and_then(|text| text.parse().ok());
            if let (Some(number), Some(began)) = (number, began) {
                deletions.entry(number).or_insert(began);
            }
        }
        deletions
    }
}

/// Kind, namespace, name and UID.
type Id<'v> = (&'v str, &'v str, &'v str, &'v str);

fn id(value: &Value) -> Id<'_> {
    fn text(value: &Value) -> &str {
        value.as_str().unwrap_or_default()
    }
    let metadata = &value["metadata"];
    (
        text(&value["kind"]),
        text(&metadata["namespace"]),
        text(&metadata["name"]),
        text(&metadata["uid"]),
    )
}

fn is_wrapper(value: &Value) -> bool {
    value["kind"] == "AppWrapper"
}

fn seen(value: &Value) -> Option<RawObject> {
    serde_json::from_str(&value.to_string()).ok()
}

fn document(now: &Now<'_>) -> Document {
    let origin =
        Origin { file: "recording".to_owned(), document: None, line: None, path: String::new() };
    Document { origin, value: now.value.clone() }
}

/// The life of a pod of an AppWrapper that is gone.
fn life(now: &Now<'_>, uid: &str) -> Option<Life> {
    let gone = now.gone?;
    let labels = &now.value["metadata"]["labels"];
    let is_its = now.value["kind"] == "Pod" && labels[keys::APPWRAPPER_UID] == uid;
    is_its.then(|| seen(now.value)).flatten().map(|seen| past(&seen, gone))
}
