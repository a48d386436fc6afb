//! The status of an AppWrapper as input and as output.
//!
//! Whoever may write `/status` may write anything into it, and so may another version. It is read field by
//! field: what cannot be read is absent. It is written so that the definition accepts it and the object
//! stays small enough to be stored.
//!
//! ```text
//! stored JSON ─ read ─▶ AppWrapperStatus + flaws ─ decide ─▶ fit ─▶ written
//!                 ▲                                           ▲
//!                 └────────── bounds of the definition ───────┘
//! ```

mod conform;
mod definition;
mod evidence;
mod fit;
mod moments;
mod read;
mod shape;

pub use definition::{bound, items_max, text_max};
pub use evidence::Evidence;
pub use fit::{BYTES_MAX, fit, minimal, writable};
pub use moments::{RetryBound, UNREADABLE, settle_moments};
pub use read::{Flaws, Read, read};

#[cfg(test)]
mod tests;
