/// Keys of the Go controller's configuration, without `appwrapper.` and `controllerManager.`, and what they are called
/// here. `docs/admin/upgrade.md` has them all.
pub(super) const RENAMED: [(&str, &str); 10] = [
    ("userRBACAdmissionCheck", "admission.userRBACAdmissionCheck"),
    ("defaultQueueName", "admission.defaultQueueName"),
    ("faultTolerance.resetPause", "faultTolerance.retryPausePeriod"),
    ("faultTolerance.deletionGracePeriod", "faultTolerance.forcefulDeletionGracePeriod"),
    ("faultTolerance.gracePeriodCeiling", "faultTolerance.gracePeriodMaximum"),
    ("faultTolerance.successTTLCeiling", "faultTolerance.successTTL"),
    ("metrics.bindAddress", "metrics.address"),
    ("health.bindAddress", "health.address"),
    ("webhooksEnabled", "webhook.enabled"),
    ("certManagement", "webhook.certDir"),
];

/// The sections of the Go controller's configuration that there are not here.
const SECTIONS: [&str; 2] = ["appwrapper", "controllerManager"];

/// What to say of a key that the Go controller has.
pub(super) fn hint(path: &str) -> Option<String> {
    if SECTIONS.contains(&path) {
        return Some(
            "is a key of the Go controller's configuration: docs/admin/upgrade.md has the keys of both"
                .to_owned(),
        );
    }
    let renamed = RENAMED.iter().find(|(there, _)| *there == path);
    renamed.map(|(_, here)| format!("is named {here} here"))
}
