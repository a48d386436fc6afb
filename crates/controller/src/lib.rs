//! The controller: what watches a cluster, decides with `appwrapper-core`, and acts; and the servers around it.
//!
//! Each module uses only modules above it in the table of ARCHITECTURE.md.

use appwrapper_core::{
    api, config, decide, failure_log, json_text, kinds, kueue, mutations, pattern, plan, policies,
    price, printable, progress, quantity, record, snapshot, status, suspicion, tuning,
};

pub mod act;
pub mod certificate;
pub mod client;
pub mod clock;
pub mod controller;
pub mod discovery;
pub mod election;
pub mod listener;
pub mod locked;
pub mod metrics;
pub mod observe;
pub mod preflight;
pub mod progress_server;
mod rate;
pub mod reconcile;
pub mod serve;
pub mod shadow;
pub mod telemetry;
pub mod tls;
pub mod ttl_cache;
pub mod webhook;
