//! The controller: what watches a cluster, decides with `appwrapper-core`, and acts; and the servers around it.
//!
//! In data order: [`clock`], [`recent`], [`telemetry`], [`discovery`], [`client`], [`metrics`], [`webhook`],
//! [`inspection`], [`observe`] (reads), [`act`] (writes), [`reconcile`] (where they meet), [`controller`],
//! [`election`], [`listener`], [`tls`] and [`certificate`], [`serve`]. A module uses only modules before it.

use appwrapper_core::{
    api, bugs, config, decide, kinds, limits, pattern, plan, policies, price, printable, quantity,
    snapshot, status,
};

pub mod act;
pub mod certificate;
pub mod client;
pub mod clock;
pub mod controller;
pub mod discovery;
pub mod election;
pub mod inspection;
pub mod listener;
pub mod metrics;
pub mod observe;
pub mod recent;
pub mod reconcile;
pub mod serve;
pub mod telemetry;
pub mod tls;
pub mod webhook;
