//! Admission: what is filled in, and what is refused.
//!
//! ```text
//! API server ─▶ server    bounds of size, time and number; panics end here
//!                 │ bytes
//!               review    AdmissionReview ─▶ Review; anything else gets a 4xx
//!                 │
//!               judge ─┬─▶ default   CREATE, mutating: labels, suspend, pod sets as a JSON patch
//!                      ├─▶ validate  CREATE, UPDATE: everything that needs no cluster
//!                      └─▶ delete    DELETE: what it does to quota
//!                 │ Question, where something is to be created and nothing is wrong so far
//!               rate      how often a user and a peer may make us ask the cluster
//!               authorize    discovery and SubjectAccessReviews, behind a trait; access is the real one
//!                 │ findings
//!               answer ─▶ AdmissionReview: verdict, one message, warnings, patch
//! ```
//!
//! All but `server` and who implements [`authorize::Authorize`] are pure functions of the question
//! and the configuration; the command `validate` asks [`validate`] without a cluster. What needs one
//! ([`validate::SKIPPED`]) is judged beside it.

pub mod access;
pub mod answer;
pub mod authorize;
pub mod default;
pub mod delete;
pub mod judge;
mod levels;
mod rate;
pub mod review;
pub mod server;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod validate;
mod weight;

/// Who asks, with everything that an authorizer may look at.
pub use crate::api::Requester as Identity;
