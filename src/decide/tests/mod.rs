//! Tables of facts, then laws over generated worlds.

pub mod given;
mod input;
mod laws;
mod nodes;
mod policies;
mod table;
