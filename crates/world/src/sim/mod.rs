//! A Kubernetes API server in memory.
//!
//! ```text
//! kube::Client ─▶ service (tower) ─▶ request ─▶ answer ─▶ store (pure) ─▶ history ─▶ watch
//! ```
//!
//! The store is pure: it has no clock and no randomness; the time is set, and UIDs and generated names
//! are counted. It uses nothing of the controller, so that it cannot share the controller's mistakes;
//! a test sends the same requests to it and to a real kube-apiserver and compares.

mod create;
mod discovery;
mod garbage;
mod kinds;
mod object;
mod patch;
mod query;
mod refusal;
mod remove;
mod response;
mod schema;
mod selector;
mod service;
mod store;
#[cfg(test)]
mod tests;
mod watch;
mod write;

pub use garbage::Garbage;
pub use kinds::{Kind, KindId, Kinds};
pub use object::{Address, Object};
pub use refusal::Refusal;
pub use remove::{Deletion, Propagation};
pub use response::{ApiResponse, answer, answer_read};
pub use selector::Filter;
pub use service::{ApiServer, Reply, reply};
pub use store::{Change, Part, Store, Verb};
pub use watch::{Watch, view};
