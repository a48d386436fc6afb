//! Keeps the log of the first cause of a failure that was just recorded, before its pod is deleted.

use super::Context;
use super::beside::in_time;
use crate::act::failure_log as act;
use crate::decide::Decision;
use crate::failure_log::{Wanted, expired, wanted};
use crate::observe::assemble::Wrapper;
use crate::snapshot::Snapshot;

/// Keeps a log, if the configuration says so and the status that was written is the first to record its failure. What
/// goes wrong is logged, and changes nothing else. `wrapper` is the AppWrapper as it was decided about.
pub(super) async fn keep(
    context: &Context,
    wrapper: &Wrapper,
    snapshot: &Snapshot,
    decision: &Decision,
) {
    if !context.config().failure_logs.enabled {
        return;
    }
    let Some(wanted) = wanted(&wrapper.status, &decision.status, snapshot) else { return };
    if let Err(cause) = kept(context, wrapper, &wanted, decision).await {
        tracing::warn!(pod = wanted.pod, cause, "The log was not kept.");
    }
}

/// Keeps a log, and deletes the one that is too many then.
///
/// # Errors
/// Why it is not kept.
async fn kept(
    context: &Context,
    wrapper: &Wrapper,
    wanted: &Wanted,
    decision: &Decision,
) -> Result<(), String> {
    let Some(_slot) = context.log_reads.take(&wrapper.namespace) else {
        return Err("too many logs are being read".to_owned());
    };
    let config = context.config();
    let work = async {
        act::keep(&context.client, wrapper, wanted, &config.failure_logs).await?;
        match expired(&decision.status) {
            Some(name) => act::expire(&context.client, wrapper, &name).await,
            None => Ok(()),
        }
    };
    in_time(work).await
}
