//! What hostile tenants, broken neighbours and unreachable services try, on the real control plane.

#[path = "../dearest/mod.rs"]
#[allow(dead_code, reason = "tests/price and the bench use the rest")]
mod dearest;
mod door;
mod noisy;
pub mod ours;
mod price;
mod quota;
mod shared;
mod status;
mod words;
