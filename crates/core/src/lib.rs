//! What an AppWrapper is, what its policies say, and what is decided about it: from facts alone. This crate names no
//! client, no runtime and no clock, since its manifest has none.
//!
//! Each module uses only modules above it in the table of ARCHITECTURE.md.

pub mod api;
pub mod config;
pub mod crd;
pub mod decide;
pub mod failure_log;
pub mod kinds;
pub mod kueue;
pub mod mutations;
pub mod pattern;
pub mod plan;
pub mod policies;
pub mod price;
pub mod printable;
pub mod progress;
pub mod quantity;
pub mod record;
pub mod shadow;
pub mod snapshot;
pub mod status;
pub mod suspicion;
pub mod tuning;
