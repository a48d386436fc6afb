//! Ownership: which pods and components count as those of an AppWrapper.
