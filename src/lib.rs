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
//! In data order: [`api`], [`price`], [`quantity`], [`limits`], [`pattern`], [`config`], [`policies`], [`clock`], [`recent`],
//! [`printable`], [`telemetry`], [`plan`], [`snapshot`], [`status`],
//! [`decide`] (pure), [`podsets`], [`crd`], [`discovery`], [`client`], [`metrics`], [`webhook`], [`inspection`], [`observe`] (reads),
//! [`act`] (writes), [`reconcile`] (where they meet), [`controller`], [`election`], [`listener`], [`tls`] and [`certificate`],
//! [`serve`], [`cli`]. A module uses only modules before it, and a test checks that.

pub mod act;
pub mod api;
pub mod bugs;
pub mod certificate;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod controller;
pub mod crd;
pub mod decide;
pub mod discovery;
pub mod election;
pub mod inspection;
pub mod limits;
pub mod listener;
pub mod metrics;
pub mod observe;
pub mod pattern;
pub mod plan;
pub mod podsets;
pub mod policies;
pub mod price;
pub mod printable;
pub mod quantity;
pub mod recent;
pub mod reconcile;
pub mod serve;
pub mod sim;
pub mod snapshot;
pub mod status;
pub mod telemetry;
pub mod tls;
pub mod webhook;
pub mod world;
