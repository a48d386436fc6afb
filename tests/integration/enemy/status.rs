//! A status that somebody else wrote, or that is too large.
