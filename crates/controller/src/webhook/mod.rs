//! Admission: which fields are defaulted, and what is denied.
//!
//! ```text
//! API server ─▶ server    bounds of size, time and number; panics end here
//!                 │ bytes
//!               review    AdmissionReview ─▶ Review; anything else gets a 4xx
//!                 │
//!               judge ─┬─▶ default   CREATE, mutating: labels, suspend, pod sets as a JSON patch
//!                      ├─▶ validate  CREATE, UPDATE: everything that needs no cluster
//!                      └─▶ delete    DELETE: what it does to quota
//!                 │ ClusterChecks, if something is created and there is no error so far
//!               rate      how often a user, a namespace and a peer may cause requests to the cluster
//!               authorize    discovery and SubjectAccessReviews, behind a trait; access is the real one
//!                 │ findings
//!               answer ─▶ AdmissionReview: verdict, one message, warnings, patch
//! ```
//!
//! All but `server` and the implementation of [`authorize::Authorize`] are pure functions of the review
//! and the configuration; the command `validate` uses [`validate`] without a cluster. What needs a cluster
//! ([`validate::SKIPPED`]) is checked separately.

pub mod access;
pub mod authorize;
mod carried;
pub mod default;
pub mod delete;
pub mod judge;
mod levels;
mod rate;
mod refill;
pub mod response;
pub mod review;
pub mod server;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod validate;
mod weight;

/// The user of a request, with everything that an authorizer may use.
pub use crate::api::Requester as Identity;
