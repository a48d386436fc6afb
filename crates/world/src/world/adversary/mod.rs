//! A tenant who means harm: it forges labels, owners, status and sizes, floods, and changes its mind.
//!
//! It acts with a tenant's rights alone: it creates what it likes in its own namespace, which may be that of
//! its victims; it changes and deletes what it has created and what came of its own AppWrapper; sometimes it
//! may write `/status` of that. What it does not do, because Kubernetes itself would answer for it:
//!
//! - it changes and deletes nothing of its victims;
//! - it names no victim's object as owner by kind, name and UID at once, nor has it the labels that the
//!   selector of a victim's Job matches: Kubernetes' own controllers and collector would believe it;
//! - with a queue, it does not unsuspend its AppWrapper or take the queue's label away: admission refuses that.
//!
//! Half of its worlds are calm: nothing else goes wrong but crashes and relists, and how each victim ends
//! follows from its spec. There the end is compared with that of a twin, the same world in which the
//! adversary does nothing.

mod calm;
mod forge;
mod moves;
mod own;
pub mod twin;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::actors::Task;
use super::coverage::Covered;
use super::faults::{Fault, Faults};
use super::rng::Rng;
use super::scene::Scene;
use super::{NAMESPACE, Options, Source, World};
use crate::sim::{Address, Deletion, Part, Store};
use forge::Forger;

/// The adversary's own namespace.
pub const EVIL: &str = "evil";
/// Seeds in which the adversary acts: one in ten.
const TURN: u64 = 5;
/// Resources that the controller may not read.
const UNREADABLE: [&str; 2] = ["secrets", "cronjobs"];

/// In which worlds there is an adversary, where that fault may happen at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hostility {
    /// In every tenth.
    #[default]
    Tenth,
    /// In each.
    Always,
    /// In every tenth, and it does nothing: the twin of a world.
    MutedTenth,
    /// In each, and it does nothing.
    MutedAlways,
}

impl Hostility {
    const fn is_muted(self) -> bool {
        matches!(self, Self::MutedTenth | Self::MutedAlways)
    }

    const fn muted(self) -> Self {
        match self {
            Self::Tenth | Self::MutedTenth => Self::MutedTenth,
            Self::Always | Self::MutedAlways => Self::MutedAlways,
        }
    }
}

/// A kind of move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// A pod with a victim's labels.
    Pod,
    /// Another object with a victim's labels.
    Object,
    /// A pod with its own labels, and a victim's UID as its owner under another kind.
    Claim,
    /// Labels of its own pods are changed.
    Relabel,
    /// Its own pods and components lose owners, labels or finalizers, or get some.
    Strip,
    /// A component of its own is deleted, and what it owns is left.
    Orphan,
    /// A component or a pod of its own is deleted.
    Delete,
    /// A component of its own is to have more pods than were admitted.
    Scale,
    /// Its AppWrapper is suspended or resumed.
    Toggle,
    /// Its AppWrapper is deleted in one way or the other, and comes again by the same name.
    Recreate,
    /// The controller's finalizer is taken from its AppWrapper.
    Finalizer,
    /// The status of its AppWrapper is forged.
    Status,
    /// Many objects come, change and go quickly.
    Flood,
    /// The annotations of its AppWrapper are changed.
    Edit,
    /// The name of a victim's component is taken.
    Steal,
    /// A pod of its own loses our label, and its component is deleted from above it.
    Hide,
    /// The name of a component of its own is taken by another's object, whose UID its status records.
    Plant,
    /// An administrator takes away its right to create.
    Revoked,
}

/// The adversary.
#[derive(Clone, Debug)]
pub struct Adversary {
    /// Nothing but crashes and relists goes wrong beside it.
    pub calm: bool,
    rng: Rng,
    home: &'static str,
    /// Name of its AppWrapper.
    name: &'static str,
    queued: bool,
    muted: bool,
    moves: Vec<Move>,
    left: u64,
    gap: u64,
    /// What it has made, but for AppWrappers.
    made: BTreeSet<Address>,
    /// What it holds with a finalizer.
    held: BTreeSet<Address>,
    counted: u64,
}

/// Whether there is an adversary in a world, even if it does nothing.
fn is_present(options: &Options) -> bool {
    let turn = match options.hostility {
        Hostility::Tenth | Hostility::MutedTenth => options.seed % 10 == TURN,
        Hostility::Always | Hostility::MutedAlways => true,
    };
    turn && options.plan.is_none() && options.faults.has(Fault::Adversary)
}

impl Adversary {
    /// The adversary of a seed, where there is one.
    #[must_use]
    pub fn of(options: &Options) -> Option<Self> {
        if !is_present(options) {
            return None;
        }
        let mut rng = Rng::new(options.seed, 6);
        let calm = rng.one_in(2);
        let home = if rng.one_in(3) { EVIL } else { NAMESPACE };
        // in a namespace of its own it may have a victim's name
        let name = if home == EVIL && rng.one_in(2) { "aw0" } else { "mallory" };
        let possible = Self::possible(&mut rng, home, calm);
        let count = rng.between(1, 4);
        let moves = (0..count).map(|_| *rng.pick(&possible)).collect();
        let left = *rng.pick(&[4, 10, 30]);
        let gap = *rng.pick(&[50, 1_000, 6_000]);
        Some(Self {
            calm,
            rng,
            home,
            name,
            queued: false,
            muted: options.hostility.is_muted(),
            moves,
            left,
            gap,
            made: BTreeSet::new(),
            held: BTreeSet::new(),
            counted: 0,
        })
    }

    fn possible(rng: &mut Rng, home: &str, calm: bool) -> Vec<Move> {
        use Move as M;
        let mut all = vec![
            M::Claim,
            M::Claim,
            M::Relabel,
            M::Strip,
            M::Hide,
            M::Hide,
            M::Orphan,
            M::Delete,
            M::Scale,
            M::Toggle,
            M::Recreate,
            M::Finalizer,
            M::Flood,
            M::Edit,
            M::Revoked,
        ];
        if home == NAMESPACE {
            all.extend([M::Pod, M::Pod, M::Pod, M::Object]);
            if !calm {
                all.push(M::Steal);
            }
        }
        if rng.one_in(2) {
            all.extend([M::Status, M::Status, M::Status, M::Plant, M::Plant]);
        }
        all
    }

    /// What it does, in words of its own kind: for the trace.
    fn forger<'a>(&'a mut self, store: &'a mut Store) -> Forger<'a> {
        let Self { rng, home, made, counted, .. } = self;
        Forger { rng, store, home, made, counted }
    }
}

impl World {
    /// The world of a seed in which there is an adversary.
    pub(super) fn hostile(mut options: Options, mut adversary: Adversary) -> Self {
        let seed = options.seed;
        let scene = if adversary.calm {
            let harm = [Fault::Adversary, Fault::Crash, Fault::Relist];
            let left = harm.into_iter().filter(|fault| options.faults.has(*fault));
            options.faults = Faults(left.collect());
            calm::scene(&mut Rng::new(seed, 1))
        } else {
            let mut scene = Scene::random(&mut Rng::new(seed, 1), &options.faults);
            scene.add_policies(&mut Rng::new(seed, 5), &options.faults);
            scene.add_fleet_parts(seed);
            scene
        };
        adversary.queued = !scene.quota.is_empty();
        let mut world = Self::of(options, scene);
        world.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EVIL}}));
        world.store.kinds.define(&json!({"spec": {
            "group": "batch", "scope": "Namespaced",
            "names": {"plural": "cronjobs", "kind": "CronJob"},
            "versions": [{"name": "v1", "served": true}],
        }}));
        adversary.forger(&mut world.store).prepare();
        world.absorb(Source::Others);
        world.agenda.at(Duration::from_secs(2), Task::Attack);
        world.oracle.calm = adversary.calm;
        world.adversary = Some(adversary);
        world
    }

    /// Whether the controller may not read what a call asks for.
    pub(super) fn is_unreadable(&self, plural: &str) -> bool {
        self.adversary.is_some() && UNREADABLE.contains(&plural)
    }

    /// The adversary makes a move.
    pub(super) fn attack(&mut self) {
        let Some(mut adversary) = self.adversary.take() else { return };
        if self.faults_on && !adversary.muted && adversary.left > 0 {
            adversary.left -= 1;
            if self.may_strike(Fault::Adversary) {
                self.happened(Covered::Attacked);
                let what = adversary.act(self);
                self.trace.note(self.elapsed, "attack", what, &[adversary.left]);
            }
            let pause = Duration::from_millis(adversary.rng.between(1, adversary.gap));
            self.agenda.at(self.elapsed + pause, Task::Attack);
        }
        self.adversary = Some(adversary);
        self.absorb(Source::Adversary);
    }

    /// The adversary makes its last move. What it has made is taken away, and its right to create is given
    /// back; its AppWrapper stays.
    pub(super) fn retreat(&mut self) {
        let Some(mut adversary) = self.adversary.take() else { return };
        if !adversary.muted {
            adversary.act_last(self);
        }
        let adversary = self.adversary.insert(adversary);
        let made = std::mem::take(&mut adversary.made);
        for address in made.iter().chain(&std::mem::take(&mut adversary.held)) {
            self.store.change(address, Part::Whole, |object| {
                if let Some(all) = object["metadata"]["finalizers"].as_array_mut() {
                    all.retain(|name| name != forge::HOLD);
                }
            });
        }
        for address in &made {
            let now = Deletion { grace: Some(0), ..Deletion::default() };
            drop(self.store.delete(address, &now));
        }
        self.store.revoked.clear();
        self.absorb(Source::Adversary);
    }
}
