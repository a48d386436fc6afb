//! Quota, finalizer and rights.
