//! Reads.
pub mod ancestry;
pub mod assemble;
pub mod cache;
pub mod records;
pub mod seen;
