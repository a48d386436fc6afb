//! The story of an AppWrapper: everything that is told of it, for the page and for a picture to keep.

mod drawing;
mod html;
mod pods;
mod svg;
mod timeline;

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::super::Error;
use super::super::bundle::Document;
use super::super::explain::answer::Explanation;
use super::super::explain::world::Bundle;
use super::super::ledger::Resources;
use super::super::place::{One, Place};
use super::attempts::{self, recorded};
use super::describe::events;
use super::describe::text::{heading, said};
use super::describe::{Description, Gathered, describe, gather};
use super::eff::{efficiency, state_rows};
use super::tree::look::{self, Found};
use super::tree::{Tree, tree};
use super::workload;
use crate::api::Phase;
use crate::config::Config;
use crate::observe::assemble::Wrapper;
use crate::observe::raw_object::RawObject;
use drawing::{Drawing, drawing};
use timeline::{Deadline, Given};

pub(in crate::cli) use html::html;
pub(in crate::cli) use pods::{Life, past};
pub(in crate::cli) use svg::STYLE;

/// What is known of an AppWrapper.
pub(in crate::cli) struct StoryInputs {
    pub gathered: Gathered,
    pub found: Found,
    /// Pods that are gone; only a simulated cluster keeps them.
    pub past: Vec<Life>,
    /// When the deletion of the resources of earlier attempts began; only a simulated cluster keeps that.
    pub deletions: BTreeMap<i32, Timestamp>,
}

/// The story at a moment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Story {
    pub now: Timestamp,
    /// `kubectl aw why`: its headline, and its lines.
    pub heading: String,
    pub why: Vec<Line>,
    /// What comes next, the first first.
    pub deadlines: Vec<Deadline>,
    pub drawing: Drawing,
    pub description: Description,
    /// `kubectl aw attempts`; none where none is recorded.
    pub attempts: Option<Table>,
    /// `kubectl aw eff`; none before quota was first reserved.
    pub ledger: Option<Table>,
    pub tree: Tree,
}

/// A table of texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Table {
    /// What it comes to, in one line; may be empty.
    pub summary: String,
    pub titles: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A line with a name; without one, it goes on with the line before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Line {
    pub name: &'static str,
    pub value: String,
}

impl StoryInputs {
    /// Reads an AppWrapper from a cluster.
    ///
    /// # Errors
    /// There is no such AppWrapper, it cannot be read, or the cluster does not answer.
    pub(in crate::cli) async fn of_cluster(place: &Place, name: &str) -> Result<Self, Error> {
        let gathered = gather(place, name, None).await?;
        let found = look::look(place, &gathered.one.wrapper).await?;
        Ok(Self { gathered, found, past: vec![], deletions: BTreeMap::new() })
    }

    /// Reads it from a bundle.
    ///
    /// # Errors
    /// There is not exactly one AppWrapper, or something cannot be read.
    pub(in crate::cli) fn of_bundle(
        documents: Vec<Document>,
        config: &Config,
        now: Timestamp,
    ) -> Result<Self, String> {
        let bundle = Bundle::of(documents, config, now)?;
        let inputs = bundle.inputs(config);
        let one = One { seen: bundle.seen.clone(), wrapper: bundle.wrapper.clone() };
        let found = look::among(&one.wrapper, bundle.into_objects());
        let workloads = found.objects.iter().filter(|(key, _)| key.kind == "Workload");
        let workloads: Vec<RawObject> = workloads.map(|(_, seen)| seen.clone()).collect();
        let queued = workload::of_owner(&workloads, &one.wrapper.uid);
        let warnings = events::among(&one.wrapper, &inputs.snapshot, &found);
        let gathered = Gathered {
            one,
            config: config.clone(),
            queued,
            warnings,
            inputs: Some(inputs),
            notes: vec![],
        };
        Ok(Self { gathered, found, past: vec![], deletions: BTreeMap::new() })
    }

    /// The story at a moment.
    pub(in crate::cli) fn story(&self, now: Timestamp) -> Story {
        let Gathered { one, inputs, .. } = &self.gathered;
        let wrapper = &*one.wrapper;
        let description = describe(&self.gathered, now);
        let since = wrapper.status.since.as_ref();
        let is_gone = since.is_some_and(|since| since.gone.is_some());
        let deadlines = deadlines(&description, is_gone, now);
        let pods =
            inputs.as_ref().map(|inputs| inputs.snapshot.pods.as_slice()).unwrap_or_default();
        let objects = self.found.objects.iter().map(|(_, seen)| seen);
        let mut lives = pods::lives(pods, objects);
        lives.extend(self.past.iter().cloned());
        let timeline = timeline::timeline(&Given {
            wrapper,
            created: one.created(),
            lives: &lives,
            deletions: &self.deletions,
            deadline: deadlines.first(),
            now,
        });
        let title = format!("AppWrapper {}/{}", wrapper.namespace, wrapper.name);
        let line = |(name, value)| Line { name, value };
        Story {
            now,
            heading: heading(&description, now),
            why: said(&description, now).into_iter().map(line).collect(),
            deadlines,
            drawing: drawing(&timeline, &title),
            description,
            attempts: attempts_table(wrapper, now),
            ledger: ledger_table(wrapper, now),
            tree: tree(wrapper, &self.found),
        }
    }
}

impl Story {
    /// The timeline as an SVG document.
    pub(in crate::cli) fn svg(&self) -> String {
        svg::svg(&self.drawing)
    }
}

fn attempts_table(wrapper: &Wrapper, now: Timestamp) -> Option<Table> {
    let recorded = recorded(wrapper, now);
    let titles = attempts::TITLES.map(str::to_owned).into();
    let rows: Vec<Vec<String>> = recorded.attempts.iter().map(|entry| entry.cells(now)).collect();
    (!rows.is_empty()).then(|| Table { summary: String::new(), titles, rows })
}

fn ledger_table(wrapper: &Wrapper, now: Timestamp) -> Option<Table> {
    let efficiency = efficiency(wrapper, now);
    let ledger = efficiency.usage.as_ref()?;
    let resources = Resources::of([&efficiency.requests]);
    let (titles, rows) = state_rows(&efficiency, ledger, &resources);
    let rows = rows.into_iter().map(|(cells, _)| cells).collect();
    Some(Table { summary: ledger.line(now), titles, rows })
}

/// The deadlines to come, the earliest first.
fn deadlines(description: &Description, is_gone: bool, now: Timestamp) -> Vec<Deadline> {
    let Some(next) = &description.next else { return vec![] };
    let mut all = vec![];
    let mut add = |at: Option<Timestamp>, what: String| {
        all.extend(at.filter(|at| *at > now).map(|at| Deadline { at, what }));
    };
    add(next.deadline, verdict(next, is_gone));
    let eviction = next.eviction.as_ref();
    add(eviction.map(|it| it.at), "Kueue evicts it unless its pods are running".to_owned());
    let progress = next.progress.as_ref();
    if let Some(progress) = progress {
        let hang = format!("it counts as a hang unless {} arrives", progress.awaited());
        add(progress.hang_at, hang);
    }
    let budget = next.budget.as_ref();
    let refill = "restarts are given back if its pods keep running";
    add(budget.and_then(|it| it.refill_at), refill.to_owned());
    all.sort_by_key(|deadline| deadline.at);
    all
}

/// What the controller does at its deadline.
fn verdict(next: &Explanation, is_gone: bool) -> String {
    match next.phase {
        Phase::Resetting if is_gone => "the next attempt begins".to_owned(),
        Phase::Resetting | Phase::Suspending | Phase::Terminating => {
            "the controller forces the deletion".to_owned()
        }
        Phase::Succeeded | Phase::Failed => "the controller deletes its resources".to_owned(),
        Phase::Empty | Phase::Suspended | Phase::Resuming | Phase::Running => match &next.reason {
            Some(reason) => format!("the controller acts: {reason}"),
            None => "the controller acts".to_owned(),
        },
    }
}
