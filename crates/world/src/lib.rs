//! The controller in a simulated cluster: [`sim`] is a Kubernetes API server in memory; [`world`] adds the
//! controller's own reconcile, models of the other actors, faults and invariants; [`bad_nodes`] is a cluster over
//! weeks, for suspect nodes.

use appwrapper_controller::{act, clock, locked, observe, reconcile, telemetry};
use appwrapper_core::{api, config, crd, decide, kinds, kueue, snapshot, suspicion, tuning};

pub mod bad_nodes;
pub mod sim;
pub mod world;
