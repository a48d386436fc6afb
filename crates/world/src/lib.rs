//! The controller in a simulated cluster: [`sim`] is a Kubernetes API server in memory, [`world`] puts the controller's own
//! reconcile, models of everybody else, faults and invariants around it.

use appwrapper_controller::{act, clock, observe, reconcile, telemetry};
use appwrapper_core::{api, config, crd};

pub mod sim;
pub mod world;
