//! What hostile tenants, broken neighbours and unreachable services try, on the real control plane.

mod door;
mod ours;
mod price;
mod quota;
mod shared;
mod status;
mod words;
