//! The Workload by which Kueue admits an AppWrapper, as it was read.

/// What a read of the Workload showed. It is read only where a decision asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WorkloadRead {
    /// It was not read.
    #[default]
    NotRead,
    /// It cannot be read or written, and why.
    Refused(String),
    /// There is none that the AppWrapper controls.
    Absent,
    /// It is there.
    Found(Workload),
}

/// What matters of a Workload. Kueue: `WorkloadSpec`, `WorkloadStatus`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its resource version.
    pub version: String,
    /// `spec.active`: Kueue admits it only while this is true.
    pub active: bool,
    /// The attempt in the annotation of the controller that has deactivated it; none where it has none.
    pub deactivated_for: Option<String>,
    /// Its condition `QuotaReserved` is True, and it is not finished.
    pub holds_quota: bool,
    /// Its condition `Evicted` is True.
    pub evicted: bool,
    /// Its condition `Finished` is True: Kueue no longer acts on it.
    pub finished: bool,
    /// `status.unhealthyNodes`: Kueue looks for replacements of these nodes.
    pub unhealthy_nodes: Vec<String>,
    /// All of its pods have places in a topology: Kueue replaces failed nodes of it.
    pub has_topology: bool,
}
