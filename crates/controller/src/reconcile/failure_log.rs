//! Keeps the log of the first cause of a failure that was just recorded, before its pod is deleted.

use super::Context;
use super::beside::in_time;
use crate::act::{Error, failure_log as act};
use crate::decide::Decision;
use crate::failure_log::{Wanted, expired, wanted};
use crate::observe::assemble::Wrapper;
use crate::snapshot::Snapshot;

/// Keeps a log, if the configuration says so and the status that was written is the first to record its failure; and
/// deletes the one that is too many then, also where the new failure has no log. What goes wrong is logged, and changes
/// nothing else. `wrapper` is the AppWrapper as it was decided about.
pub(super) async fn keep(
    context: &Context,
    wrapper: &Wrapper,
    snapshot: &Snapshot,
    decision: &Decision,
) {
    if !context.config().failure_logs.enabled {
        return;
    }
    let (old, new) = (&wrapper.status, &decision.status);
    let (wanted, expired) = (wanted(old, new, snapshot), expired(old, new));
    tokio::join!(keep_new(context, wrapper, wanted), delete_old(context, wrapper, &expired));
}

async fn keep_new(context: &Context, wrapper: &Wrapper, wanted: Option<Wanted>) {
    let Some(wanted) = wanted else { return };
    if let Err(cause) = kept(context, wrapper, &wanted).await {
        tracing::warn!(pod = wanted.pod, cause, "The log was not kept.");
    }
}

/// Keeps a log.
///
/// # Errors
/// Why it is not kept.
async fn kept(context: &Context, wrapper: &Wrapper, wanted: &Wanted) -> Result<(), String> {
    let Some(_slot) = context.log_reads.take(&wrapper.namespace) else {
        return Err("too many logs are being read".to_owned());
    };
    let config = context.config();
    in_time(act::keep(&context.client, wrapper, wanted, &config.failure_logs)).await
}

/// Deletes the ConfigMaps of these names: in general one, and none before there are so many failures.
async fn delete_old(context: &Context, wrapper: &Wrapper, names: &[String]) {
    if names.is_empty() {
        return;
    }
    let work = async {
        let mut last = Ok::<_, Error>(());
        for name in names {
            // one that is refused keeps no other
            if let Err(error) = act::expire(&context.client, wrapper, name).await {
                last = Err(error);
            }
        }
        last
    };
    if let Err(cause) = in_time(work).await {
        let config_maps = names.join(", ");
        tracing::warn!(config_maps, cause, "The log of an earlier failure was not deleted.");
    }
}
