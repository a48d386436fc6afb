//! Admission: what is filled in, and what is refused.
//!
//! [`validate`] is a pure function of the object and the configuration; the command `validate` asks
//! it without a cluster. What needs one ([`validate::SKIPPED`]) is judged beside it.

pub mod access;
pub mod authorize;
mod identity;
pub mod validate;

pub use identity::Identity;
