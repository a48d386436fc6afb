//! Serves HTTP/1.1 to unauthenticated clients: whatever one client sends or does not send, others are still
//! served.
//!
//! ```text
//! TCP ─▶ places: a place, or that of a connection that gives way ─▶ handshake ─▶ line: deadlines ─▶ router
//! ```
//!
//! There is a limit for all connections and one for each [`Peer`]. Where there is no place left, the peer
//! with the most connections loses one: the one that has been idle longest, or else the one that has taken
//! longest to send its request. A request that has arrived is always answered.

mod bind;
mod body;
mod line;
mod peer;
mod places;
mod server;
mod shares;

pub use bind::bind;
pub use peer::Peer;
pub use server::{Handshake, Limits, Plain, serve};
pub use shares::{Share, Shares};

#[cfg(test)]
mod tests;
