//! What is known of one AppWrapper: its state, what exists of it, and since when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::components::{Components, Successes};
use super::ledger::Ledger;
use super::own::{Own, PodFailure};
use super::{
    ATTEMPT, FINALIZER, Fullness, LISTED_WITHIN, POD_SET, SEEN_AFTER, State, Thing, Wrapper,
};
use crate::api::Phase;
use crate::observe::cache::Key;
use crate::sim::Object;
use crate::world::ACTIVE;
use crate::world::actors::is_true;
use crate::world::scene::{self, Tuning};

impl State {
    pub(super) fn of(object: &Object) -> Self {
        let status = &object.value["status"];
        let attempts = status["attempts"].as_array();
        let last = attempts.and_then(|all| all.last());
        let phase = status["phase"].as_str().unwrap_or_default();
        let count = status["resettingCount"].as_i64().unwrap_or(0);
        let budget = |field: &str| status["budget"][field].as_i64().unwrap_or(count);
        Self {
            used: budget("used"),
            global_used: budget("globalUsed"),
            phase: phase.parse().unwrap_or_default(),
            suspend: object.value["spec"]["suspend"] == true,
            inactive: object.annotation(ACTIVE) == Some("false"),
            deleting: object.is_deleting(),
            finalizer: object.finalizers().any(|name| name == FINALIZER),
            quota: is_true(&object.value, "QuotaReserved"),
            deployed: is_true(&object.value, "ResourcesDeployed"),
            count,
            attempt: last.and_then(|attempt| attempt["attempt"].as_i64()).unwrap_or(0),
        }
    }
}

impl Wrapper {
    pub(super) fn new(object: &Object, elapsed: Duration) -> Self {
        let components = object.value["spec"]["components"].as_array();
        let mut pod_sets = BTreeMap::new();
        for (index, component) in components.into_iter().flatten().enumerate() {
            for (number, (count, _)) in scene::pods_in(&component["template"]).iter().enumerate() {
                pod_sets.insert(format!("{index}-{number}"), *count);
            }
        }
        let manager = object.value["spec"]["managedBy"].as_str();
        Self {
            address: object.address.clone(),
            sane: components.is_some()
                && manager.is_none()
                && object.label(scene::HOSTILE).is_none(),
            hostile: false,
            forged_at: None,
            succeeded: Successes::default(),
            requester: requester(object),
            state: State::of(object),
            things: BTreeMap::new(),
            tuning: Tuning::read(object),
            retuned: false,
            pod_sets,
            countable: !object.text().contains("\"completions\""),
            entered: elapsed,
            deployed_at: elapsed,
            deployed_before: None,
            teardown: None,
            emptied: None,
            full: BTreeMap::new(),
            failed_pod: None,
            charged: vec![],
            hurried: false,
            obstacle: false,
            overtaken: 0,
            skew: (Duration::ZERO, Duration::ZERO),
            lasted: Duration::ZERO,
            paused_from: None,
            short_before: Duration::ZERO,
            failed_before: None,
            own: Own::of(object),
            components: Components::default(),
            failures: BTreeMap::new(),
            ledger: Ledger::default(),
        }
    }

    pub(super) fn note_state(&mut self, before: State, elapsed: Duration) {
        let phase = self.state.phase;
        if phase == before.phase {
            return;
        }
        self.paused_from = self.emptied.map(|emptied| emptied.max(self.entered));
        self.short_before = self.short_for(elapsed);
        self.failed_before = self.failed_pod;
        self.lasted = elapsed.saturating_sub(self.entered);
        self.entered = elapsed;
        match phase {
            Phase::Resuming => {
                self.deployed_before = Some(self.deployed_at);
                self.deployed_at = elapsed;
                self.obstacle = false;
                self.skew = (Duration::ZERO, self.skew.0);
                self.teardown = None;
                self.emptied = None;
                self.full.clear();
                self.failed_pod = None;
                self.components.begin();
                self.succeeded = Successes::default();
            }
            Phase::Resetting | Phase::Suspending | Phase::Terminating => {
                if self.rightful().next().is_none() {
                    self.emptied.get_or_insert(elapsed);
                }
            }
            Phase::Empty | Phase::Suspended | Phase::Running | Phase::Succeeded | Phase::Failed => {
            }
        }
    }

    /// The component that something is of: by its own name, its owner's, or its label.
    pub(super) fn part_of(&self, thing: &Thing, owner: Option<&str>) -> Option<usize> {
        if thing.component {
            return self.own.part(&thing.kind, &thing.name);
        }
        let of_owner = || self.things.get(owner?)?.part;
        let of_label = || thing.pod_set.as_deref()?.split('-').next()?.parse().ok();
        of_owner().or_else(of_label)
    }

    /// What a component or a pod of it has reached, and how a pod failed.
    pub(super) fn note_thing(&mut self, object: &Object, thing: &Thing) {
        if self.own.judges_pods() && thing.pod && thing.phase == "Failed" {
            let failure = PodFailure::of(&object.value, thing.part, thing.set());
            self.failures.insert(object.uid.clone(), failure);
        }
        self.succeeded.note(object, thing);
        if self.own.is_ordered() && !thing.late {
            self.components.reach(object, thing);
        }
    }

    /// Whether a component is to be created now, as an object of this attempt; that it was suspended or
    /// deleted a moment ago, nobody can know.
    #[must_use]
    pub fn wants(&self, part: Option<usize>, attempt: i64) -> bool {
        let State { phase, attempt: current, .. } = self.state;
        let right = match phase {
            Phase::Resuming => true,
            Phase::Running => part.is_some_and(|part| self.components.coming.contains(&part)),
            Phase::Empty
            | Phase::Suspended
            | Phase::Resetting
            | Phase::Suspending
            | Phase::Succeeded
            | Phase::Failed
            | Phase::Terminating => false,
        };
        right && attempt == current
    }

    /// Removes an object. Returns the UIDs of what makes pods of the component that somebody else deleted from
    /// above it: it goes on for a while, and nobody can see it.
    pub(super) fn remove(&mut self, uid: &str, ours: bool, elapsed: Duration) -> Vec<Arc<str>> {
        let removed = self.things.remove(uid);
        let removed_by_right = removed.as_ref().is_some_and(|thing| !thing.late);
        let mut late = vec![];
        if let Some(component) = removed.filter(|thing| thing.component && !ours) {
            for (uid, thing) in &mut self.things {
                if !thing.component && !thing.pod && thing.part == component.part {
                    thing.late = true;
                    late.push(uid.clone());
                }
            }
        }
        if removed_by_right && self.rightful().next().is_none() {
            self.emptied = Some(elapsed);
        }
        late
    }

    /// Since when each pod set lacks pods, and when the first pod failed. What is on a node that is shown to be lost is
    /// neither there nor well.
    pub(super) fn note_pods(&mut self, lost_nodes: &BTreeSet<String>, elapsed: Duration) {
        let is_lost = |thing: &Thing| {
            let is_on = |node: &String| lost_nodes.contains(node);
            thing.is_live_pod() && thing.node.as_ref().is_some_and(is_on)
        };
        let failed = |thing: &Thing| thing.pod && thing.phase == "Failed" || is_lost(thing);
        if self.failed_pod.is_none() && self.things.values().any(failed) {
            self.failed_pod = Some(elapsed);
        }
        for (name, expected) in &self.pod_sets {
            let own = |thing: &&Thing| {
                thing.runs() && !is_lost(thing) && thing.pod_set.as_deref() == Some(name)
            };
            let runs = i64::try_from(self.things.values().filter(own).count()).unwrap_or(i64::MAX);
            let known = self.full.get(name).copied();
            let new = match (known, runs >= *expected) {
                (None, true) => Fullness::Full(elapsed, None),
                (Some(Fullness::Short(lost)), true) => Fullness::Full(elapsed, Some(lost)),
                (Some(Fullness::Full(since, before)), false) => {
                    let brief = elapsed.saturating_sub(since) < SEEN_AFTER;
                    Fullness::Short(before.filter(|_| brief).unwrap_or(elapsed))
                }
                (None, false) => continue,
                (Some(same), _) => same,
            };
            self.full.insert(name.clone(), new);
        }
    }

    /// For how long the pod set that has lacked pods longest has lacked them.
    #[must_use]
    pub fn short_for(&self, elapsed: Duration) -> Duration {
        let since = |name: &String| match self.full.get(name) {
            Some(Fullness::Short(lost)) => *lost,
            Some(Fullness::Full(since, Some(lost)))
                if elapsed.saturating_sub(*since) < SEEN_AFTER =>
            {
                *lost
            }
            // it has come up, while a LIST was under way that shows a pod as it was before
            Some(Fullness::Full(since, None)) if elapsed.saturating_sub(*since) < LISTED_WITHIN => {
                self.deployed_at
            }
            Some(Fullness::Full(..)) => elapsed,
            None => self.deployed_at,
        };
        let longest = self.pod_sets.keys().map(since).min().unwrap_or(self.deployed_at);
        elapsed.saturating_sub(longest)
    }

    /// Whether it has steps, and every pod set has all its pods: a step may only wait for them to be Ready.
    #[must_use]
    pub fn has_full_steps(&self) -> bool {
        let is_full = |name: &String| matches!(self.full.get(name), Some(Fullness::Full(..)));
        self.own.is_ordered() && self.pod_sets.keys().all(is_full)
    }

    /// A clock that it is written with is off by so much, or a write of it comes so late.
    pub fn note_skew(&mut self, by: Duration) {
        self.skew.0 = self.skew.0.max(by);
        self.ledger.skew = self.ledger.skew.max(by);
    }

    /// By how much the times in its status may be off: those of this attempt, and of the one before.
    #[must_use]
    pub fn skew(&self) -> Duration {
        self.skew.0.max(self.skew.1)
    }

    /// Whether it is the AppWrapper of this namespace and name.
    #[must_use]
    pub fn is_of(&self, key: &Key) -> bool {
        *self.address.name == *key.name && *self.address.namespace == *key.namespace
    }

    /// Things that were made by right.
    pub fn rightful(&self) -> impl Iterator<Item = &Thing> {
        self.things.values().filter(|thing| !thing.late)
    }
}

/// Who asked for an AppWrapper, as admission has written it down.
fn requester(object: &Object) -> Option<String> {
    let requester = &object.value["spec"]["requester"];
    let user = if requester.is_string() { requester } else { &requester["username"] };
    user.as_str().map(str::to_owned)
}

pub(super) fn thing(
    object: &Object,
    kind: &str,
    root: &str,
    known: Option<&Thing>,
    late: bool,
) -> Thing {
    let label = |key: &str| object.label(key);
    let attempt = label(ATTEMPT).and_then(|text| text.parse().ok());
    let component = object.controller().is_some_and(|owner| owner["uid"] == *root);
    Thing {
        kind: kind.to_owned(),
        name: object.address.name.clone(),
        // a label that somebody took away is remembered
        attempt: known.map_or(attempt, |known| Some(known.attempt)).unwrap_or(-1),
        component,
        part: known.and_then(|known| known.part),
        pod: kind == "Pod",
        pod_set: label(POD_SET).map(str::to_owned),
        phase: phase_of(&object.value),
        node: object.value["spec"]["nodeName"].as_str().map(str::to_owned),
        terminating: object.is_deleting(),
        late: known.map_or(late, |known| known.late),
        escaped: known.is_some_and(|known| known.escaped),
        unproven: false,
        since: Duration::ZERO,
    }
}

fn phase_of(value: &Value) -> String {
    value["status"]["phase"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sim::Part;
    use crate::world::oracle::{By, Oracle};

    #[test]
    fn what_was_off_or_in_the_way_is_forgotten_with_its_attempt() {
        let mut store = crate::world::new_store(false);
        let (api, kind) = ("workload.codeflare.dev/v1beta2", "AppWrapper");
        let kind = store.kinds.by_name(api, kind).unwrap();
        let object = json!({"metadata": {"name": "aw"}, "spec": {"components": []}});
        let address = store.create(kind, "default", object).unwrap().address.clone();
        let mut oracle = Oracle::default();
        for (phase, off, want) in [
            ("Resuming", 0, (0, false)),
            ("Running", 50, (50, true)),
            ("Resuming", 0, (50, false)),
            ("Running", 3, (50, true)),
            ("Resuming", 0, (3, false)),
        ] {
            store.change(&address, Part::Status, |it| it["status"]["phase"] = phase.into());
            let change = store.history().last().unwrap().clone();
            oracle.note(&store, &change, By::default(), Duration::ZERO);
            let wrapper = oracle.wrappers.values_mut().next().unwrap();
            wrapper.note_skew(Duration::from_secs(off));
            wrapper.obstacle |= off > 0;
            assert_eq!((wrapper.skew().as_secs(), wrapper.obstacle), want, "{phase} {off}");
            assert!(off == 0 || wrapper.ledger.skew.as_secs() == 50);
        }
    }
}
