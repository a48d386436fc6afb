//! What has changed is taken in: for the watches, the actors, the truth; and every invariant is checked.

use super::actors::workload;
use super::checks;
use super::coverage::Covered;
use super::oracle::{By, State};
use super::replica::Told;
use super::{Log, World, actors, oracle};
use crate::sim::{Store, Verb, view};

/// Who makes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A controller, by right.
    Ours,
    /// A controller that has lost the right, or whose call comes too late.
    Late,
    /// The adversary.
    Adversary,
    /// Anybody else.
    Others,
}

impl Source {
    pub(super) const fn is_ours(self) -> bool {
        matches!(self, Self::Ours | Self::Late)
    }
}

impl World {
    /// Takes in what has changed: for the watches, the actors, the truth; and checks it.
    pub(super) fn absorb(&mut self, source: Source) {
        while self.seen < self.store.history().len() {
            let change = self.store.history()[self.seen].clone();
            self.seen += 1;
            self.garbage.note(&self.store, &change);
            actors::route(&mut self.agenda, &self.store, &change);
            for Log { kind, filter, told, .. } in &mut self.logs {
                if let Some((verb, object)) = view(&change, *kind, filter) {
                    told.push(Told::new(verb, object));
                }
            }
            let object = &change.object;
            let verb = change.verb as u64;
            let name = object.address.name.clone();
            let numbers = [object.version, verb, object.address.kind as u64];
            self.trace.note(self.elapsed, "change", &name, &numbers);
            let (store, elapsed) = (&self.store, self.elapsed);
            self.trace.detail(|| describe(store, &change));
            if self.store.kinds.get(change.object.address.kind).kind == workload::KIND {
                // one that comes late was right when it was sent; L12 asks whether the AppWrapper returns
                let ours = source == Source::Ours;
                let (oracle, kueue) = (&self.oracle, &self.kueue);
                let found = ours.then(|| checks::kueue::switched(oracle, kueue, &change)).flatten();
                if let Some(violation) = found {
                    self.violated(violation);
                }
                continue;
            }
            let wrongful = source == Source::Late && !self.is_rightful(&change);
            let by =
                By { ours: source.is_ours(), late: wrongful, hostile: source == Source::Adversary };
            let Some((uid, before)) = self.oracle.note(&self.store, &change, by, elapsed) else {
                continue;
            };
            self.check(&uid, before, &change, source, wrongful);
            if let Some(gone) = self.oracle.gone.take().filter(|_| source == Source::Ours)
                && let Some(violation) = checks::hostile::let_go(&gone)
            {
                self.violated(violation);
            }
        }
    }

    /// Whether a component that was created late is still wanted.
    fn is_rightful(&self, change: &crate::sim::Change) -> bool {
        let Some(owner) = change.object.controller() else { return true };
        let uid = owner["uid"].as_str().unwrap_or_default();
        let attempt = change.object.label(oracle::ATTEMPT).and_then(|text| text.parse().ok());
        let kind = &self.store.kinds.get(change.object.address.kind).kind;
        self.oracle.wrappers.get(uid).is_some_and(|wrapper| {
            let part = wrapper.own.part(kind, &change.object.address.name);
            let wanted = attempt.is_some_and(|attempt| wrapper.wants(part, attempt));
            wanted && !wrapper.state.deleting
        })
    }

    fn check(
        &mut self,
        uid: &str,
        before: State,
        change: &crate::sim::Change,
        source: Source,
        late: bool,
    ) {
        let Some(wrapper) = self.oracle.wrappers.get(uid) else { return };
        for event in coverage_of(&self.store, change) {
            self.coverage.note(wrapper.state.phase, event);
        }
        if !wrapper.sane && !wrapper.hostile {
            return;
        }
        let scope = checks::Scope {
            store: &self.store,
            oracle: &self.oracle,
            change,
            wrapper,
            before,
            ours: source.is_ours(),
            late,
            elapsed: self.elapsed,
            prompt: self.is_prompt(),
            slack: self.slack(Some(wrapper)),
            dated_within: self.dated_within(),
        };
        if wrapper.hostile {
            self.coverage.checks += checks::safety::SAFETY.len() as u64;
            if let Some(violation) = checks::hostile::check(&scope) {
                self.violated(violation);
            }
            self.check_quota();
            return;
        }
        let found = checks::check(&scope);
        self.coverage.checks += checks::count();
        if let Some((source, action)) = checks::policies::ruling(&scope) {
            self.coverage.ruling(source, action);
        }
        if let Some(violation) = found {
            self.violated(violation);
        }
        self.check_admitted_pods(uid);
        self.check_quota();
    }
}

/// One line about a change.
fn describe(store: &Store, change: &crate::sim::Change) -> String {
    let object = &change.object;
    let kind = &store.kinds.get(object.address.kind).kind;
    let status = &object.value["status"];
    let phase = status["phase"].as_str().unwrap_or_default();
    let deleting = if object.is_deleting() { " deleting" } else { "" };
    let attempt =
        object.label(oracle::ATTEMPT).map(|n| format!(" attempt {n}")).unwrap_or_default();
    let suspend = &object.value["spec"]["suspend"];
    let suspend =
        if kind == "AppWrapper" { format!(" suspend={suspend} {status}") } else { String::new() };
    let verb = change.verb;
    format!("{verb:?} {kind}/{} {phase}{attempt}{suspend}{deleting}", object.address.name)
}

/// What a change means for the AppWrapper whose it is.
fn coverage_of(store: &Store, change: &crate::sim::Change) -> Vec<Covered> {
    let object = &change.object;
    let kind = store.kinds.get(object.address.kind).kind.as_str();
    let before = change.before.as_ref();
    let is_pod = kind == "Pod";
    if kind == "AppWrapper" {
        return vec![];
    }
    if change.verb == Verb::Deleted {
        return vec![if is_pod { Covered::PodGone } else { Covered::ComponentGone }];
    }
    let mut all = vec![];
    let began = object.is_deleting() && !before.is_some_and(|before| before.is_deleting());
    if began {
        all.push(if is_pod { Covered::PodTerminating } else { Covered::ComponentTerminating });
    }
    let became = |condition: &str| {
        actors::is_true(&object.value, condition)
            && !before.is_some_and(|before| actors::is_true(&before.value, condition))
    };
    if is_pod {
        let phase = actors::phase(object);
        if before.is_none_or(|before| actors::phase(before) != phase) {
            match phase {
                "Running" => all.push(Covered::PodRunning),
                "Succeeded" => all.push(Covered::PodSucceeded),
                "Failed" => all.push(Covered::PodFailed),
                _ => {}
            }
        }
        if became("DisruptionTarget") {
            all.push(Covered::PodDisrupted);
        }
    } else if became("Complete") || became("Completed") || became("Succeeded") {
        all.push(Covered::ComponentSucceeded);
    } else if became("Failed") {
        all.push(Covered::ComponentFailed);
    }
    all
}
