//! The AppWrapper controller.
pub mod api;
pub mod plan;
pub mod snapshot;
