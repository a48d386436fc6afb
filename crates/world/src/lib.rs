//! The controller in a simulated cluster: [`sim`] is a Kubernetes API server in memory; [`world`] adds the
//! controller's own reconcile, models of the other actors, faults and invariants.

use appwrapper_controller::{act, clock, observe, reconcile, telemetry};
use appwrapper_core::{api, config, crd, decide, kinds, snapshot};

pub mod sim;
pub mod world;
