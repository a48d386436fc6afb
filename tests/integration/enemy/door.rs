//! The listening ports and the Lease.
