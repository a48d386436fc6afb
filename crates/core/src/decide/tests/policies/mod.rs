//! One row for each statement of `docs/user/policies.md`, and laws over random policies.
//!
//! Policies are written as in manifests and read through the API types; the expectation is one line, see
//! [`build::said`].

mod activation;
mod budget;
pub(super) mod build;
mod category;
mod execution;
mod execution_grace;
mod exit_codes;
mod failure;
mod first_cause;
mod kill_switch;
mod later_looks;
mod laws;
mod memory;
mod no_fit;
mod node_replacement;
mod one_meaning;
mod pod_failure;
mod pod_review;
mod pods_and_owners;
mod progress;
mod recorder;
mod recreate;
mod replaced;
mod retry;
mod retry_delay;
mod retry_match;
mod retry_node;
mod said;
mod told;
