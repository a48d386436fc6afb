//! One AppWrapper, one namespace or one call must not delay another.
