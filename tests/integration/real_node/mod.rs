//! What KWOK cannot show: a real kubelet, real containers, and on them the product as it is installed.
//!
//! Needs root and containerd; elsewhere each test says that it is skipped, and why. Each row of
//! `docs/dev/real-node.md` is one AppWrapper of these tests: what the kubelet wrote and what the controller
//! said must be what the page says.

mod containers;
mod ends;
mod lane;
mod nodes;
mod page;
mod product;
