//! Wire types: the three custom resources, their keys, phases and conditions. Data only, no logic.
//!
//! Compatible with `workload.codeflare.dev/v1beta2` of the Go project; what we add is optional and
//! stands at the top level of `spec` and `status`, because Kueue rewrites `spec.components` through
//! typed structs that would drop an unknown field there.

mod appwrapper;
mod attempt;
mod budget;
mod category;
pub mod condition;
pub mod keys;
mod no_fit;
mod node_suspicion;
mod phase;
mod policy;
mod progress;
mod requester;
mod retry_policy;
mod rules;
mod status;
mod usage;

pub use appwrapper::{AppWrapper, AppWrapperSpec, Component, PodSet, PodSetInfo};
pub use attempt::{
    Attempt, AttemptAction, AttemptOutcome, FailureRecord, Retries, RuleRef, RuleSource,
};
pub use budget::{Budget, Refill, StopWhen};
pub use category::Category;
pub use no_fit::{NoFitAction, OnNoFit, Requeue};
pub use node_suspicion::{
    EvidenceKind, NodeSuspicion, NodeSuspicionSpec, SuspectEffect, SuspectNodes, SuspicionEvidence,
};
pub use phase::{Phase, UnknownPhase};
pub use policy::{
    ExecutionOrder, ExecutionPolicy, ExecutionRule, ExitCodeOperator, FailurePolicy,
    FailurePolicyAction, FailurePolicyRule, OnExitCodes, OnPodCondition, PodFailurePolicy,
    PodFailurePolicyAction, PodFailurePolicyRule, WaitFor,
};
pub use progress::{AttemptProgress, Progress};
pub use requester::Requester;
pub use retry_policy::{
    AntiAffinity, AntiAffinityMode, Backoff, MemoryGrowth, Mutation, OnTerminationMessage,
    RetryAction, RetryExitCodes, RetryPolicy, RetryPolicySpec, RetryRule,
};
pub use rules::UNLESS_SUSPENDED;
pub use status::{
    AppWrapperStatus, ComponentStatus, PendingMemory, PodSetSince, RetryCount, Since,
};
pub use usage::{Usage, UsageSeconds, UsageState};

/// API group of the custom resources.
pub const GROUP: &str = "workload.codeflare.dev";
/// The most components of an AppWrapper that is to be created.
pub const NEW_COMPONENTS_MAX: usize = 128;
