//! The names of categories of failures that are built in. Source: Armada retry policies.

named! {
    /// What kind of failure a pod had. Policies, the status and output have its name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Category {
        Oom: "oom", "A container used more memory than it may.";
        Node: "node", "Its node is gone or lost.";
        StorageLimit: "storage_limit", "The pod exceeded its own limit of ephemeral storage.";
        Evicted: "evicted", "The pod was evicted from its node.";
        Preempted: "preempted", "A pod of higher priority took its place.";
        Deadline: "deadline", "It ran for too long.";
        Unschedulable: "unschedulable", "No node takes it.";
        Image: "image", "The image cannot be pulled.";
        Config: "config", "Its configuration is wrong.";
        Hang: "hang", "No pod reports progress.";
        Application: "application", "A container ended with another code than 0.";
        Unknown: "unknown", "None of these.";
    }
}
