//! The AppWrapper controller.
pub mod act;
pub mod api;
pub mod cli;
pub mod clock;
pub mod config;
pub mod controller;
pub mod crd;
pub mod decide;
pub mod limits;
pub mod metrics;
pub mod observe;
pub mod plan;
pub mod podsets;
pub mod reconcile;
pub mod serve;
pub mod snapshot;
pub mod telemetry;
