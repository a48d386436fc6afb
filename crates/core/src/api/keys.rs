//! Labels, annotations, finalizer and names that are part of the API.

/// Label on every component and pod: the AppWrapper's name. Go: `AppWrapperLabel`.
pub const APPWRAPPER: &str = "workload.codeflare.dev/appwrapper";
/// Label on every component and pod: the AppWrapper's UID, since names are reused.
pub const APPWRAPPER_UID: &str = "workload.codeflare.dev/appwrapper-uid";
/// Label on every component and pod: the attempt (0, 1, 2, …) that created it.
pub const ATTEMPT: &str = "workload.codeflare.dev/attempt";
/// Label on every pod: `<component index>-<pod set index>`.
pub const POD_SET: &str = "workload.codeflare.dev/podset";
/// Finalizer that keeps an AppWrapper until everything it created is gone. Go: `AppWrapperFinalizer`.
pub const FINALIZER: &str = "workload.codeflare.dev/finalizer";
/// Our name in `spec.managedBy`. Go: `AppWrapperControllerName`.
pub const CONTROLLER_NAME: &str = "workload.codeflare.dev/appwrapper-controller";
/// Label that names the user who created the AppWrapper.
pub const USER: &str = "workload.codeflare.dev/user";
/// Label that holds the UID of the user who created the AppWrapper.
pub const USER_ID: &str = "workload.codeflare.dev/userid";
/// API group of Kueue.
pub const KUEUE_GROUP: &str = "kueue.x-k8s.io";
/// Label by which Kueue assigns an object to a LocalQueue.
pub const QUEUE_NAME: &str = "kueue.x-k8s.io/queue-name";
/// `spec.managedBy` of an AppWrapper that Kueue sends to a worker cluster.
pub const MULTIKUEUE: &str = "kueue.x-k8s.io/multikueue";
/// Label of Kueue on an AppWrapper in a worker cluster that it created for a manager cluster.
pub const MULTIKUEUE_ORIGIN: &str = "kueue.x-k8s.io/multikueue-origin";
/// Label or annotation of Kueue that names the Workload of an object: Kueue takes that one and creates none.
pub const PREBUILT_WORKLOAD: &str = "kueue.x-k8s.io/prebuilt-workload-name";
/// Finalizer of a pod that its Job has not counted yet; the Job controller removes it.
pub const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Label that the scheduler and node selectors use for a node's name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Prefix of the annotations by which a user tunes one AppWrapper.
pub const ANNOTATION_PREFIX: &str = "workload.codeflare.dev.appwrapper/";
/// Annotation: see `faultTolerance.admissionGracePeriod`.
pub const ADMISSION_GRACE: &str = "workload.codeflare.dev.appwrapper/admissionGracePeriodDuration";
/// Annotation: see `faultTolerance.warmupGracePeriod`.
pub const WARMUP_GRACE: &str = "workload.codeflare.dev.appwrapper/warmupGracePeriodDuration";
/// Annotation: see `faultTolerance.failureGracePeriod`.
pub const FAILURE_GRACE: &str = "workload.codeflare.dev.appwrapper/failureGracePeriodDuration";
/// Annotation: see `faultTolerance.retryPausePeriod`.
pub const RETRY_PAUSE: &str = "workload.codeflare.dev.appwrapper/retryPausePeriodDuration";
/// Annotation: how many counted restarts are allowed.
pub const RETRY_LIMIT: &str = "workload.codeflare.dev.appwrapper/retryLimit";
/// Annotation: see `faultTolerance.deletionOnFailureGracePeriod`.
pub const DELETION_ON_FAILURE_GRACE: &str =
    "workload.codeflare.dev.appwrapper/deletionOnFailureGracePeriodDuration";
/// Annotation: see `faultTolerance.forcefulDeletionGracePeriod`.
pub const FORCEFUL_DELETION_GRACE: &str =
    "workload.codeflare.dev.appwrapper/forcefulDeletionGracePeriodDuration";
/// Annotation: see `faultTolerance.successTTL`.
pub const SUCCESS_TTL: &str = "workload.codeflare.dev.appwrapper/successTTLDuration";
/// Annotation: exit codes after which no retry is made, comma-separated.
pub const TERMINAL_EXIT_CODES: &str = "workload.codeflare.dev.appwrapper/terminalExitCodes";
/// Annotation: the only exit codes after which a retry is made, comma-separated.
pub const RETRYABLE_EXIT_CODES: &str = "workload.codeflare.dev.appwrapper/retryableExitCodes";
/// Annotation: names of the RetryPolicies in force, comma-separated.
pub const RETRY_POLICIES: &str = "workload.codeflare.dev.appwrapper/retryPolicies";

/// Annotation: `false` keeps the AppWrapper from running, as `spec.active` does to a Workload of Kueue: its resources are
/// deleted, then its quota is given back. `true`, or its absence, lets it run.
pub const ACTIVE: &str = "workload.codeflare.dev.appwrapper/active";

/// Annotation: the policies of `spec` as JSON. MultiKueue copies annotations, but not the fields. It has not
/// [`ANNOTATION_PREFIX`]: it may be larger than what tunes an AppWrapper, and only admission reads it.
pub const POLICIES: &str = "workload.codeflare.dev/policies";
/// Annotation of a ClusterQueue or a LocalQueue: names of the RetryPolicies in force for all that is in
/// it, comma-separated.
pub const QUEUE_RETRY_POLICIES: &str = "workload.codeflare.dev/retry-policies";

/// Annotation of a pod: the last progress that it reported. `progress` has the format.
pub const PROGRESS: &str = "workload.codeflare.dev/progress";

/// Annotation of a pod: the CA certificates (PEM) of the progress server, which the pod mounts as a file.
pub const PROGRESS_CA: &str = "workload.codeflare.dev/progress-ca";

/// Annotation of a pod, with the value `true`: it may be force-deleted on a lost node. Source: Kueue, KEP-6757.
pub const SAFE_TO_FORCE_DELETE: &str = "kueue.x-k8s.io/safe-to-forcefully-delete";

/// The labels and annotations that are read of a pod of an AppWrapper.
pub const POD_KEYS: [&str; 6] =
    [APPWRAPPER, APPWRAPPER_UID, ATTEMPT, POD_SET, PROGRESS, SAFE_TO_FORCE_DELETE];

/// Pod-set annotation for Topology-Aware Scheduling: the label that holds a pod's index.
pub const TAS_POD_INDEX: &str = "workload.codeflare.dev.appwrapper/tas-pod-index-label";
/// Pod-set annotation for Topology-Aware Scheduling: the label that holds a sub-group's index.
pub const TAS_SUB_GROUP_INDEX: &str = "workload.codeflare.dev.appwrapper/tas-sub-group-index-label";
/// Pod-set annotation for Topology-Aware Scheduling: the number of sub-groups.
pub const TAS_SUB_GROUP_COUNT: &str = "workload.codeflare.dev.appwrapper/tas-sub-group-count";

/// Scheduling gate of a pod for which Kueue chooses the node. Kueue: `TopologySchedulingGate`.
pub const TOPOLOGY_GATE: &str = "kueue.x-k8s.io/topology";

/// Label that Kueue gives to Workloads: UID of the object that they are for.
pub const JOB_UID: &str = "kueue.x-k8s.io/job-uid";
/// Annotation of a Workload that the controller has deactivated to return its AppWrapper to the queue: number of the
/// attempt.
pub const DEACTIVATED_FOR: &str = "workload.codeflare.dev.appwrapper/deactivatedForAttempt";

/// Label of a ConfigMap with the end of a log: the AppWrapper whose failure it is about.
pub const FAILURE_LOG: &str = "workload.codeflare.dev/failure-log";

/// Label of a ConfigMap with the record of an AppWrapper that was deleted: its name.
pub const RECORD: &str = "workload.codeflare.dev/record";
