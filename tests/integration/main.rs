//! Tests on a real control plane: etcd, kube-apiserver, controllers, scheduler, KWOK and operators.
//!
//! One control plane and one controller serve all of them; each test has a namespace of its own and
//! waits for what it watches, never for time.

#![expect(clippy::panic, reason = "a test ends so")]
#![expect(clippy::needless_pass_by_value, reason = "tests hand in literals")]

mod adopted;
mod crashes;
mod crds;
mod deeds;
mod deleting;
mod failing;
mod harness;
mod hostile;
mod kinds;
mod layers;
mod lifecycle;
mod objects;
mod ownership;
mod samples;
mod suspending;
