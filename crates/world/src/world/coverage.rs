//! Which events were met in which phase.

use std::collections::BTreeMap;

use crate::api::Phase;

appwrapper_core::named! {
    /// Something that happens to an AppWrapper or around it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Covered {
        PodRunning: "pod-running", "A pod of it runs.";
        PodSucceeded: "pod-succeeded", "A pod of it has succeeded.";
        PodFailed: "pod-failed", "A pod of it has failed.";
        PodDisrupted: "pod-disrupted", "A pod of it is to be disrupted.";
        PodTerminating: "pod-terminating", "A pod of it is being deleted.";
        PodGone: "pod-gone", "A pod of it is gone.";
        ComponentSucceeded: "component-succeeded", "A component says that it has succeeded.";
        ComponentFailed: "component-failed", "A component says that it has failed.";
        ComponentTerminating: "component-terminating", "A component is being deleted.";
        ComponentGone: "component-gone", "A component is gone.";
        ComponentDeleted: "component-deleted", "Somebody else deletes a component.";
        ComponentUnlabelled: "component-unlabelled", "Somebody takes our label from a component.";
        PodDeleted: "pod-deleted", "Somebody else deletes a pod.";
        FinalizerHeld: "finalizer-held", "Somebody's finalizer holds something of it.";
        NodeDown: "node-down", "A node stops to answer.";
        NodeUp: "node-up", "A node answers again.";
        NodeShutDown: "node-shut-down", "A node is shut down, and an administrator says so.";
        NodeDeleted: "node-deleted", "A node is deleted.";
        NodeMarked: "node-marked", "A node is marked `NoExecute`, or not any more.";
        Suspended: "suspended", "A user suspends it.";
        Resumed: "resumed", "A user resumes it.";
        Deleted: "deleted", "A user deletes it.";
        Edited: "edited", "A user changes its annotations.";
        Deactivated: "deactivated", "A user sets its annotation `active` to false.";
        Activated: "activated", "A user sets its annotation `active` to true.";
        Admitted: "admitted", "Kueue lets it in.";
        Preempted: "preempted", "Kueue makes it go for another, or for no reason.";
        NotReady: "not-ready", "Kueue makes it go because its pods took too long.";
        Stranger: "stranger", "Somebody's object takes a name or a label of it.";
        KindRemoved: "kind-removed", "A kind is not served any more.";
        KindServed: "kind-served", "A kind is served again.";
        NamespaceClosed: "namespace-closed", "Nothing new can be created.";
        PolicyChanged: "policy-changed", "An administrator changes or deletes a retry policy.";
        Configured: "configured", "An administrator changes the configuration.";
        Crash: "crash", "A controller dies.";
        TwoLeaders: "two-leaders", "Another replica leads, and the first does not know.";
        ReplyLost: "reply-lost", "A call is applied and its reply lost.";
        LateWrite: "late-write", "A write is applied after its caller gave up.";
        Conflict: "409", "A call is refused with 409.";
        TooMany: "429", "A call is refused with 429.";
        ServerError: "5xx", "A call is refused with 5xx.";
        Outage: "outage", "Every call fails for a while.";
        WatchLags: "watch-lags", "A watch falls behind.";
        WatchRestarts: "watch-restarts", "A watch lists again.";
        WatchGoesBack: "watch-goes-back", "A watch goes back in time.";
        WatchRepeats: "watch-repeats", "A watch repeats itself.";
        WatchSkips: "watch-skips", "A watch leaves out states.";
        ClockJumps: "clock-jumps", "A clock jumps.";
        Attacked: "attacked", "A hostile tenant makes a move.";
        Deadline: "deadline", "The time comes at which it is to be reconciled again.";
    }
}

const EVENTS: usize = Covered::ALL.len();
const PHASES: usize = Phase::ALL.len();

/// How often each event was met in each phase, and more.
#[derive(Clone, Debug)]
pub struct Coverage {
    seen: [[u64; EVENTS]; PHASES],
    /// Faults injected, by kind.
    pub faults: [u64; super::faults::Fault::ALL.len()],
    /// Invariant checks made.
    pub checks: u64,
    /// Orders in which the facts of failures were told.
    pub orders: u64,
    /// Decisions about failures, by the source of the rule and the action.
    pub rulings: BTreeMap<(String, String), u64>,
}

impl Default for Coverage {
    fn default() -> Self {
        Self {
            seen: [[0; EVENTS]; PHASES],
            faults: [0; super::faults::Fault::ALL.len()],
            checks: 0,
            orders: 0,
            rulings: BTreeMap::new(),
        }
    }
}

impl Coverage {
    /// Notes an event.
    pub const fn note(&mut self, phase: Phase, event: Covered) {
        self.seen[phase as usize][event as usize] += 1;
    }

    /// Notes an injected fault.
    pub const fn fault(&mut self, fault: super::faults::Fault) {
        self.faults[fault as usize] += 1;
    }

    /// Notes a decision about a failure.
    pub fn ruling(&mut self, source: &str, action: &str) {
        *self.rulings.entry((source.to_owned(), action.to_owned())).or_insert(0) += 1;
    }

    /// Adds what another run has seen.
    pub fn merge(&mut self, other: &Self) {
        for (row, others) in self.seen.iter_mut().zip(&other.seen) {
            row.iter_mut().zip(others).for_each(|(sum, more)| *sum += more);
        }
        self.faults.iter_mut().zip(&other.faults).for_each(|(sum, more)| *sum += more);
        self.checks += other.checks;
        self.orders += other.orders;
        for (ruling, count) in &other.rulings {
            *self.rulings.entry(ruling.clone()).or_insert(0) += count;
        }
    }

    /// How often an event was met in a phase.
    #[must_use]
    pub const fn count(&self, phase: Phase, event: Covered) -> u64 {
        self.seen[phase as usize][event as usize]
    }

    /// The pairs that can be met and were not.
    #[must_use]
    pub fn unseen(&self) -> Vec<(Phase, Covered)> {
        let pairs = Phase::ALL
            .into_iter()
            .flat_map(|phase| Covered::ALL.iter().map(move |event| (phase, *event)));
        pairs
            .filter(|(phase, event)| why_never(*phase, *event).is_none())
            .filter(|(phase, event)| self.count(*phase, *event) == 0)
            .collect()
    }

    /// How many pairs can be met, and how many of them were.
    #[must_use]
    pub fn pairs(&self) -> (usize, usize) {
        let impossible =
            |phase: Phase| Covered::ALL.iter().filter(|h| why_never(phase, **h).is_some()).count();
        let all = PHASES * EVENTS - Phase::ALL.into_iter().map(impossible).sum::<usize>();
        (all - self.unseen().len(), all)
    }
}

/// Whether an event is one of the things of an AppWrapper: of its pods and components.
const fn is_of_things(event: Covered) -> bool {
    use Covered as H;
    matches!(
        event,
        H::PodRunning
            | H::PodSucceeded
            | H::PodFailed
            | H::PodDisrupted
            | H::PodTerminating
            | H::PodGone
            | H::PodDeleted
            | H::ComponentSucceeded
            | H::ComponentFailed
            | H::ComponentTerminating
            | H::ComponentGone
            | H::ComponentDeleted
            | H::ComponentUnlabelled
            | H::FinalizerHeld
    )
}

/// Why an event is not asked for in a phase, where it is not.
#[must_use]
pub const fn why_never(phase: Phase, event: Covered) -> Option<&'static str> {
    use Covered as H;
    use Phase as P;
    match (phase, event) {
        (P::Empty, event) if is_of_things(event) => Some("nothing was created yet"),
        (P::Suspended, event) if is_of_things(event) => {
            Some("nothing of it is there, but for what a write that came too late has made")
        }
        (P::Empty, H::Preempted | H::NotReady) => Some("Kueue has not let it in yet"),
        (
            P::Resuming
            | P::Running
            | P::Resetting
            | P::Suspending
            | P::Terminating
            | P::Succeeded
            | P::Failed,
            H::Admitted,
        ) => Some("Kueue lets in what waits: this holds quota, goes, or has ended, but for a race"),
        (
            P::Suspending | P::Suspended | P::Succeeded | P::Terminating,
            H::Preempted | H::NotReady,
        ) => Some("Kueue makes go what runs: this goes already, or has ended, but for a race"),
        (
            P::Succeeded,
            H::PodRunning
            | H::PodSucceeded
            | H::PodFailed
            | H::PodDisrupted
            | H::ComponentSucceeded
            | H::ComponentFailed,
        ) => Some("every pod has ended, but for what a write that came too late has made"),
        (P::Terminating, H::ComponentSucceeded) => {
            Some("what goes is ended before it is done, but for a race")
        }
        (P::Empty | P::Suspended, H::Deadline) => Some("nothing is waited for"),
        _ => None,
    }
}
