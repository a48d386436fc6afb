//! Mutations of the controller, to see that the simulation finds them. Without the cargo feature
//! `mutations` none of them exists.

named! {
    /// A mistake that the controller could make.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Mutation {
        QuotaEarly: "quota-early", "Quota is released before the pods are gone.";
        DeleteByName: "delete-by-name", "Objects are deleted without their UID.";
        AdoptByName: "adopt-by-name", "An object that has the name of a component is taken, whosever it is.";
        AttemptsOverlap: "attempts-overlap", "The next attempt begins while objects of the last exist.";
        CountTwice: "count-twice", "A failure is counted twice.";
        ForgetAnchor: "forget-anchor", "The moment from which the retry pause runs is forgotten.";
        ErrorIsEmpty: "error-is-empty", "A list that failed counts as an empty one.";
        CacheIsTruth: "cache-is-truth", "What the cache does not show is gone.";
        FinalizerEarly: "finalizer-early", "The finalizer goes before everything is gone.";
        FinalizerLate: "finalizer-late", "Components are created before the finalizer is there.";
        Unguarded: "unguarded", "The status is written without the resource version.";
        LostIsFailed: "lost-is-failed", "A create whose reply is lost fails the AppWrapper.";
        NoPause: "no-pause", "The retry pause is left out.";
        NoGrace: "no-grace", "A failed pod is acted on at once.";
        NoLimit: "no-limit", "The retry limit is not asked.";
        ForceAtOnce: "force-at-once", "Pods are deleted by force from the beginning.";
        NeverForce: "never-force", "Pods are never deleted by force.";
        SucceedEarly: "succeed-early", "It has succeeded while pods still run.";
        IgnoreSuspend: "ignore-suspend", "Suspension is not answered in Resetting.";
        StaleIsNew: "stale-is-new", "Objects are created by the word of a watch that went back in time.";
        NothingSwept: "nothing-swept", "What came too late stays.";
        AlwaysWrite: "always-write", "The status is written though nothing has changed.";
        IgnoredIsCounted: "ignored-is-counted", "A failure that podFailurePolicy ignores is counted.";
        RuleLimitUnasked: "rule-limit-unasked", "The limit of a retry policy's rule is not asked.";
        BackoffForgotten: "backoff-forgotten", "The delay of a retry policy is left out.";
        AvoidedNodeUsed: "avoided-node-used", "The node of the failure is not avoided.";
        GrowthForgotten: "growth-forgotten", "The memory of a retry does not grow.";
        GrowthEarly: "growth-early", "The memory of a retry grows before everything is gone.";
        StepsAtOnce: "steps-at-once", "The next step begins before the last has got as far as it must.";
        RecreateAtOnce: "recreate-at-once", "A component is created again before its pods are gone.";
        RecreateUncounted: "recreate-uncounted", "A component that is created again is not counted.";
        LostIsFenced: "lost-is-fenced", "Force is used at once on a node that is only not heard of.";
        FatalIsRetried: "fatal-is-retried", "A rule that says that the AppWrapper fails is not heard.";
        LabelIsOwnership: "label-is-ownership", "A pod with our labels is ours, whoever created it.";
        InventedOwnerIsGone: "invented-owner-is-gone", "An owner of a kind that is not served once was ours.";
        RelabelledPodIsGone: "relabelled-pod-is-gone", "A pod that has lost our labels is gone.";
        OrphanedPodIsGone: "orphaned-pod-is-gone", "A pod that has lost its owners is gone.";
        RightsAskedOnce: "rights-asked-once", "The requester's rights are not asked again.";
        FinalizerNotRestored: "finalizer-not-restored", "A finalizer that somebody took away stays away.";
        NoFloorOfUncounted: "no-floor-of-uncounted", "Uncounted restarts follow each other without a pause.";
        RecordedUidIsProof: "recorded-uid-is-proof", "An object whose UID the status records is ours.";
        AncestorsByUid: "ancestors-by-uid", "What was read of an owner holds for every reference to its UID.";
        UnreadableOwnerFailsLook: "unreadable-owner-fails-look", "An owner that the controller is forbidden to read makes the whole read fail.";
        NegativeCountTrusted: "negative-count-trusted", "A count below zero is counted on.";
        FarRetryAfterTrusted: "far-retry-after-trusted", "Any moment of the next attempt is waited for.";
        UnknownPhaseStopsAll: "unknown-phase-stops-all", "A phase that cannot be read ends every look.";
        OverQuotaUnsaid: "over-quota-unsaid", "More pods than were admitted are not told of.";
        LostIsNoFailure: "lost-is-no-failure", "A pod lost with its node is no failure of its component.";
        StuckIsWaitedFor: "stuck-is-waited-for", "A pod that stays Terminating stops all graces.";
        OwnerUnheard: "owner-unheard", "Limits are asked before the component has said why it failed.";
        MissingIsPodFailure: "missing-is-pod-failure", "Retry policies are asked about a missing component.";
        NoUncountedLimit: "no-uncounted-limit", "Uncounted restarts have no limit.";
        TeardownUncounted: "teardown-uncounted", "The ledger does not count the time of a deletion.";
        LostIsProductive: "lost-is-productive", "What an attempt did stays productive after its failure.";
        RefilledUnready: "refilled-unready", "Restarts are given back though pods were not ready for so long.";
        StopWhenUnasked: "stop-when-unasked", "stopWhen is not asked.";
        StallUnseen: "stall-unseen", "Missing progress is never a failure.";
        OldReportIsNew: "old-report-is-new", "A report counts as new whenever it is read.";
        ReportUnread: "report-unread", "Reports do not move the deadline of a hang.";
        SuspectTwice: "suspect-twice", "An AppWrapper counts more than once against a node.";
        NamespaceUnbounded: "namespace-unbounded", "Containers of one namespace make a node suspect.";
        WithdrawnStays: "withdrawn-stays", "A failure that follows the pod stays evidence against the node.";
        RecoveryFromAttempt: "recovery-from-attempt", "Kueue's recoveryTimeout is counted from the attempt.";
        NoFitIsCounted: "no-fit-is-counted", "onNoFit uses a retry.";
        RequeueEarly: "requeue-early", "A Workload is deactivated while resources exist.";
        InactiveRuns: "inactive-runs", "The annotation `active` is ignored.";
        RequeueForgotten: "requeue-forgotten", "A Workload that the controller deactivated stays inactive.";
        AnyDeactivationTrusted: "any-deactivation-trusted", "A Workload that somebody else has deactivated is activated again.";
        DeleteLate: "delete-late", "A deletion begins ten seconds late.";
        DeadlineForgotten: "deadline-forgotten", "Nothing is reconciled again when a period ends.";
    }
}

#[cfg(feature = "mutations")]
mod switch {
    use std::cell::Cell;

    thread_local! {
        static PRESENT: Cell<Option<super::Mutation>> = const { Cell::new(None) };
    }

    /// Whether a mutation is present in what this thread runs.
    #[must_use]
    pub fn is_present(mutation: super::Mutation) -> bool {
        PRESENT.get() == Some(mutation)
    }

    /// Puts a mutation into what this thread runs, or takes it out.
    pub fn put(mutation: Option<super::Mutation>) {
        PRESENT.set(mutation);
    }
}

#[cfg(feature = "mutations")]
pub use switch::{is_present, put};

/// The annotation with which an object asks for a panic; its value is the place.
#[cfg(feature = "mutations")]
pub const PANIC: &str = "workload.codeflare.dev.appwrapper/deliberate-panic";

/// Panics at a place where the annotations of an object ask for it, to see that this object alone is
/// concerned: `reconcile`, `watch`.
///
/// # Panics
/// Where it is asked for.
#[cfg(feature = "mutations")]
pub fn panic_where_asked(place: &str, annotations: &std::collections::BTreeMap<String, String>) {
    let is_asked_for = annotations.get(PANIC).is_some_and(|asked| asked == place);
    assert!(!is_asked_for, "asked for by {annotations:?}");
}

/// Keeps its thread busy for as many seconds as the annotations of an object ask for.
#[cfg(feature = "mutations")]
pub fn block_where_asked(annotations: &std::collections::BTreeMap<String, String>) {
    let asked = annotations
        .get("workload.codeflare.dev.appwrapper/deliberate-block")
        .and_then(|text| text.parse().ok());
    std::thread::sleep(std::time::Duration::from_secs(asked.unwrap_or_default()));
}

/// Does nothing, in this build.
#[cfg(not(feature = "mutations"))]
#[inline]
pub const fn block_where_asked(_: &std::collections::BTreeMap<String, String>) {}

/// Does nothing, in this build.
#[cfg(not(feature = "mutations"))]
#[inline]
pub const fn panic_where_asked(_: &str, _: &std::collections::BTreeMap<String, String>) {}

/// Whether a mutation is present: never, in this build.
#[cfg(not(feature = "mutations"))]
#[must_use]
#[inline]
pub const fn is_present(_: Mutation) -> bool {
    false
}
