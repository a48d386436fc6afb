//! Tables of facts, then laws over generated worlds.

pub mod given;
mod input;
mod laws;
mod nodes;
mod over_quota;
mod policies;
mod recovery;
mod resuming;
mod suspicion;
mod table;
mod usage;
