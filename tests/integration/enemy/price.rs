//! Dearest objects: patterns, lists of names, annotations, components.
