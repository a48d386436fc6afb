//! A Kubernetes controller for `AppWrapper` objects: any set of resources, admitted, watched, retried and
//! deleted as one unit.
//!
//! ```text
//!           ┌──────────── a read that the decision asks for ────────────┐
//!           ▼                                                           │
//! watches ─▶ observe ─▶ Snapshot ─▶ decide ─▶ Decision ─┬─ status changed: one guarded write
//!                                                       └─ actions: carried out by act
//! ```
//!
//! What is pure is in the crate `appwrapper-core`, the controller in `appwrapper-controller`, the simulated cluster in
//! `appwrapper-world`; their modules are named here as well. Here is [`cli`], the commands.

pub use appwrapper_controller::{
    act, certificate, client, clock, controller, discovery, election, listener, locked, metrics,
    observe, preflight, progress_server, reconcile, serve, shadow, telemetry, tls, ttl_cache,
    webhook,
};
pub use appwrapper_core::{
    api, config, crd, decide, failure_log, json_text, kinds, kueue, mutations, pattern, plan,
    policies, price, printable, progress, quantity, record, snapshot, status, suspicion, tuning,
};
#[cfg(feature = "demo")]
pub use appwrapper_world::{bad_nodes, sim, world};

pub mod cli;
