//! Nodes that are lost, and what that means for the pods on them.

use k8s_openapi::jiff::Timestamp;

/// Taint by which an administrator says that a node is shut down, so that nothing runs on it.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A node whose pods count as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What became of the node.
    pub state: Lost,
    /// Since when, by the clocks of the cluster; absent where nothing tells.
    pub since: Option<Timestamp>,
}

named! {
    /// What became of a node. Its name is the reason in the record of a failure.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Lost {
        NotReady: "NodeNotReady", "Its kubelet says that it is not ready.";
        Unreachable: "NodeUnreachable", "Its kubelet stopped reporting.";
        OutOfService: "NodeOutOfService", "An administrator says that it is shut down.";
        Deleted: "NodeDeleted", "It no longer exists.";
    }
}

impl Loss {
    /// Whether the node may be there again, and its pods with it. Then they may still run, too.
    #[must_use]
    pub const fn may_return(self) -> bool {
        match self.state {
            Lost::NotReady | Lost::Unreachable => true,
            Lost::OutOfService | Lost::Deleted => false,
        }
    }

    /// What became of the node, to follow its name.
    #[must_use]
    pub fn sentence(self) -> String {
        let (now, lasting) = match self.state {
            Lost::NotReady => ("is not ready", "has not been ready"),
            Lost::Unreachable => ("is unreachable", "has been unreachable"),
            Lost::OutOfService => ("is out of service", "has been out of service"),
            Lost::Deleted => ("no longer exists", "has not existed"),
        };
        self.since.map_or_else(|| now.to_owned(), |since| format!("{lasting} since {since}"))
    }
}

impl Lost {
    /// What became of a node, by the reason in the record of a failure.
    #[must_use]
    pub fn of(reason: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lost| lost.as_str() == reason)
    }
}
