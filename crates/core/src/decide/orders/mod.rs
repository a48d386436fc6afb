//! One failure, told in every order: whatever comes first, there is one verdict.
//!
//! A failure has several facts, each with a watch of its own: a pod fails, its component says that it failed, a
//! node is lost. [`orders`] takes the facts of a decision apart and tells them again, one by one, in each order in
//! which the API server could have delivered them, and decides after each and at each deadline, as the controller
//! does. [`dispute`] compares the verdicts.
//!
//! ```text
//! facts of a decision ─▶ before all of them, settled ─▶ told in one order ─▶ Outcome ─┐
//!                                                   └─▶ told in another  ─▶ Outcome ─┴▶ dispute
//! ```
//!
//! Only a failure of one component is taken apart: what happens to two of them is two failures. A fact is told at
//! most [`DELAY`] after the first of them, or when it happened where that was later. A fresh LIST shows every pod as
//! it is, and then each component is read again that says itself how it ended.

mod stage;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::consequence::FirstFailures;
use super::{Facts, VerdictAction, attempts, failure};
use crate::api::{Phase, RuleRef};
use crate::snapshot::{Outcome, Pod, PodPhase};
use stage::{Stage, before};

/// How long after the first fact of a failure the others may be told.
pub const DELAY: SignedDuration = SignedDuration::from_secs(9);
/// The most facts that are told in every order.
const EVENTS_MAX: usize = 4;

/// What a failure ended in, in one order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The facts in their order, each with its moment.
    pub order: String,
    /// The verdict; [`VerdictAction::Wait`] where it never came to one.
    pub action: VerdictAction,
    /// The rule that named the action.
    pub rule: Option<RuleRef>,
    /// Facts that had happened by then, and that do not follow from another, as bits.
    happened: u8,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    /// A pod fails: index.
    Pod(usize),
    /// A component says that it failed: index.
    Component(usize),
    /// A node is lost: name.
    Node(String),
}

/// Something that happens, and when.
#[derive(Clone, Debug)]
struct Fact {
    event: Event,
    at: Timestamp,
    /// It follows from another within [`DELAY`]: a component fails after its pods, and deletes the others.
    follows: bool,
}

/// The verdicts about the failure of a decision, one for each order. Empty where the facts are not those of one
/// failure of a component that was well before.
#[must_use]
pub fn orders(facts: Facts<'_>) -> Vec<Told> {
    let Some(events) = taken_apart(facts) else { return vec![] };
    let Some(first) = events.iter().map(|fact| fact.at).min() else { return vec![] };
    let begin = first - SignedDuration::from_secs(1);
    let mut stage = Stage { facts, events: &events, seen: before(facts.snapshot, &events) };
    if !stage.is_calm(begin) {
        return vec![];
    }
    let mut all: Vec<Told> = vec![];
    for order in permutations(events.len()) {
        for times in [earliest(&events, &order, first), latest(&events, &order, first)] {
            let Some(times) = times else { continue };
            let told = stage.clone().play(&order, &times);
            if !all.contains(&told) {
                all.push(told);
            }
        }
    }
    all
}

/// Two orders with the same facts and different verdicts, in a sentence.
#[must_use]
pub fn dispute(all: &[Told]) -> Option<String> {
    let differs = |one: &Told, other: &Told| {
        one.happened == other.happened && (one.action, &one.rule) != (other.action, &other.rule)
    };
    all.iter().enumerate().find_map(|(index, one)| {
        let other = all[index..].iter().find(|other| differs(one, other))?;
        Some(format!("{}, but {}", one.sentence(), other.sentence()))
    })
}

impl Told {
    fn sentence(&self) -> String {
        let rule = self.rule.as_ref().map(super::policy::decider).unwrap_or_default();
        format!("{}: {} ({rule})", self.order, self.action.as_str())
    }
}

/// The facts of a failure; none where there are too many, or some of which nothing tells when they happened.
fn taken_apart(facts: Facts<'_>) -> Option<Vec<Fact>> {
    let snapshot = facts.snapshot;
    if snapshot.status.phase != Phase::Running || snapshot.deleting || snapshot.suspend {
        return None;
    }
    let attempt = attempts::current(&snapshot.status);
    let mut events: Vec<(Event, Option<Timestamp>, Option<usize>)> = vec![];
    for (index, pod) in snapshot.pods.iter().enumerate() {
        if pod.attempt.is_some_and(|number| number != attempt) {
            return None;
        }
        if pod.phase == PodPhase::Failed {
            events.push((Event::Pod(index), failure::finished_at(pod), pod.component));
        } else if pod.terminating {
            return None;
        }
        let loss = snapshot.loss_of(pod).filter(|_| pod.phase != PodPhase::Succeeded);
        if let (Some(loss), Some(node)) = (loss, &pod.node) {
            let event = Event::Node(node.clone());
            if !events
                .iter()
                .any(|(one, at, of)| (one, *at, *of) == (&event, loss.since, pod.component))
            {
                events.push((event, loss.since, pod.component));
            }
        }
    }
    for (index, component) in snapshot.components.iter().enumerate() {
        let outcome = component.ours().map(|object| &object.report.outcome);
        if let Some(Outcome::Failed { at, .. }) = outcome {
            events.push((Event::Component(index), *at, Some(index)));
        }
    }
    dated(facts, events)
}

fn dated(
    facts: Facts<'_>,
    events: Vec<(Event, Option<Timestamp>, Option<usize>)>,
) -> Option<Vec<Fact>> {
    let of_one = events.iter().all(|(.., of)| of.is_some() && *of == events[0].2);
    if !of_one || !(2..=EVENTS_MAX).contains(&events.len()) {
        return None;
    }
    let first = events.iter().map(|(_, at, _)| *at).min()??;
    let first_pod = events.iter().filter(|(event, ..)| matches!(event, Event::Pod(_)));
    let first_pod = first_pod.filter_map(|(_, at, _)| *at).min();
    let first_failures = FirstFailures::of(facts);
    let dated = |(event, at, _): (Event, Option<Timestamp>, _)| {
        let at = at.filter(|at| *at <= facts.now)?;
        let follows = match event {
            Event::Component(_) => first_pod.is_some_and(|pod| pod <= at) && at <= first + DELAY,
            Event::Pod(index) => first_failures.is_consequence(&facts.snapshot.pods[index]),
            Event::Node(_) => false,
        };
        Some(Fact { event, at, follows })
    };
    let is_old = |pod: &Pod| pod.created.is_none_or(|created| created < first);
    facts.snapshot.pods.iter().all(is_old).then(|| events.into_iter().map(dated).collect())?
}

/// The last moment at which a fact is told.
fn bound(fact: &Fact, first: Timestamp) -> Timestamp {
    fact.at.max(first + DELAY)
}

/// When each is told, as early as the order allows; none where one would be told too late.
fn earliest(events: &[Fact], order: &[usize], first: Timestamp) -> Option<Vec<Timestamp>> {
    let mut time = first;
    let told = order.iter().map(|index| {
        time = time.max(events[*index].at);
        (time <= bound(&events[*index], first)).then_some(time)
    });
    told.collect()
}

/// When each is told, as late as it may be.
fn latest(events: &[Fact], order: &[usize], first: Timestamp) -> Option<Vec<Timestamp>> {
    let mut time = Timestamp::MAX;
    let told = order.iter().rev().map(|index| {
        time = time.min(bound(&events[*index], first));
        (events[*index].at <= time).then_some(time)
    });
    let mut times: Vec<Timestamp> = told.collect::<Option<_>>()?;
    times.reverse();
    Some(times)
}

/// Every order of so many.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for next in 0..count {
        let longer = |order: &Vec<usize>| -> Vec<Vec<usize>> {
            let at = |position: usize| {
                let mut order = order.clone();
                order.insert(position, next);
                order
            };
            (0..=order.len()).map(at).collect()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}
