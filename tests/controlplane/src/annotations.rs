//! The annotations by which a pod says what becomes of it. They are read by the KWOK stages in
//! `stages.yaml`, which a test below keeps in step with this list.

/// How long the pod runs before it ends, as a Go duration: `3s`. Without it, it runs on forever.
pub const RUN_FOR: &str = "sim/run-for";

/// The exit code of all its containers (default 0; with [`FAIL_UNTIL_ATTEMPT`], 1).
pub const EXIT_CODE: &str = "sim/exit-code";

/// The reason its containers give for having ended, as in `OOMKilled` (default `Completed` or
/// `Error`).
pub const REASON: &str = "sim/reason";

/// The termination message of its containers.
pub const MESSAGE: &str = "sim/message";

/// The reason of a condition `DisruptionTarget` that it has when it ends, as in `PreemptionByScheduler`.
pub const DISRUPTION: &str = "sim/disruption";

/// Fails while the label `workload.codeflare.dev/attempt` (missing: 0) is less than this number,
/// and from then on succeeds, whatever exit code, reason, message and disruption the other annotations
/// name.
pub const FAIL_UNTIL_ATTEMPT: &str = "sim/fail-until-attempt";

/// The pod stays Pending after it has been given a node. The value does not matter.
pub const NEVER_READY: &str = "sim/never-ready";

/// The pod does not go when it is deleted, unless by force. The value does not matter.
pub const STUCK: &str = "sim/stuck";

#[cfg(test)]
mod tests {
    #[test]
    fn the_stages_read_each_of_them() {
        let stages = include_str!("stages.yaml");
        for name in [
            super::RUN_FOR,
            super::EXIT_CODE,
            super::REASON,
            super::MESSAGE,
            super::DISRUPTION,
            super::FAIL_UNTIL_ATTEMPT,
            super::NEVER_READY,
            super::STUCK,
        ] {
            assert!(stages.contains(&format!("\"{name}\"")), "{name}");
        }
    }
}
