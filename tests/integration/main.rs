//! Tests on a real control plane: etcd, kube-apiserver, controllers, scheduler, KWOK and operators.
//!
//! One control plane and one controller serve all of them; each test has a namespace of its own and
//! waits for what it watches, never for time.

mod crashes;
mod harness;
mod lifecycle;
