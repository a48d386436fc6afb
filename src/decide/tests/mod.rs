//! Tables of facts, then laws over generated worlds.

mod given;
mod laws;
mod table;
