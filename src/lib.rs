//! The AppWrapper controller.
pub mod api;
pub mod clock;
pub mod config;
pub mod decide;
pub mod limits;
pub mod observe;
pub mod plan;
pub mod podsets;
pub mod snapshot;
