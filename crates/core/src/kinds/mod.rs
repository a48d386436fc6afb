//! What the wrapped kinds are made of: where their pods come from, how many they are, what is
//! written into them, and what they say of their own end.
//!
//! ```text
//! template ─ inspect ─▶ name, kind, pod sets        before anything is created
//!               ├─ infer   known kinds count their own pods
//!               └─ check   declared pod sets agree with them
//! template ─ render ──▶ the object to create        labels, owner, what Kueue adds
//! object ─── report ──▶ its own verdict             from the status of its kind
//! template ─ templates ▶ what its pods ask for       nodes, memory; `grow` writes more of it
//!               ├─ requested ▶ what all of them request together
//!               ├─ uncounted ▶ what one of them requests and Kueue does not count
//!               └─ uncountable ▶ what all pods of one request, beyond what Kueue can add up
//! ```
//!
//! Everything here is a pure function of JSON that anybody may have written: whatever it is, the
//! answer is a value or an [`Error`] that names the field, never a panic.

mod avoid;
mod check;
mod error;
mod fields;
mod infer;
mod inspect;
mod memory;
mod node;
mod parts;
mod path;
mod progress;
pub mod quantity;
mod registry;
mod render;
mod report;
mod requests;
mod status;
mod templates;
#[cfg(test)]
mod testing;

pub use avoid::NodeAntiAffinity;
pub use check::{POD_TOTAL_MAX, check_declared, expected_total, pod_template};
pub use error::Error;
pub use infer::{check_other_version, infer};
pub use inspect::{Inspected, inspect};
pub use memory::grow;
pub use parts::parts;
pub use path::{Path, PathError};
pub use progress::{PROGRESS_AUDIENCE, ProgressEndpoint, progress_path};
pub use quantity::{amount, amounts, is_negative};
pub use registry::{
    Kind, MustStore, Recorded, Reference, is_record_of, must_store, record, recorded, reference,
};
pub use render::{OWNER_API_VERSION, OWNER_KIND, OwnershipLabels, check_infos, render};
pub use report::report;
pub use requests::{Uncounted, requested, uncountable, uncounted};
pub use templates::{NODE_TERMS, node_requirements, node_terms, templates};
