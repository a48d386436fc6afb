//! What was read besides the cache.

/// An object that a component created, that owns pods, and that no longer has a controller: the component was
/// deleted with `--cascade=orphan`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// A read from the API server itself, which must be made before anything is concluded.
///
/// In this order each tells all that those before it tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FreshRead {
    /// None: the snapshot was enough.
    #[default]
    Nothing,
    /// GET the components that the cache does not hold: are they missing?
    Missing,
    /// The same, and LIST the pods: do too few of them run, or does only the cache lag behind?
    Pods,
    /// LIST components and pods: is everything gone?
    Gone,
}
