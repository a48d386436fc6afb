//! The reads that a decision asks for, the Workload among them; the Workload is activated or deactivated.

use super::carry_out::{Carried, is_rejected_for_good};
use super::{Context, ERROR_PAUSE, Error, WATCH_OVERDUE};
use crate::act::workload as write;
use crate::decide::{Decision, current_attempt};
use crate::observe::assemble::Wrapper;
use crate::observe::memory::ReconcileState;
use crate::observe::workload;
use crate::plan::FreshRead;
use crate::snapshot::Snapshot;
use crate::snapshot::workload::{Workload, WorkloadRead};

/// What decisions have asked for since the last write or action, and what the Workload was then.
#[derive(Default)]
pub(super) struct Asked {
    /// What is read from the API server itself for the next snapshot.
    pub(super) fresh: FreshRead,
    workload: WorkloadRead,
}

impl Asked {
    /// Notes what a decision asks for, and reads the Workload where it does; whether it asks for anything.
    pub(super) async fn note(
        &mut self,
        context: &Context,
        memory: &ReconcileState,
        wrapper: &Wrapper,
        decision: &Decision,
    ) -> Result<bool, Error> {
        if decision.ask != FreshRead::Nothing {
            self.fresh = decision.ask;
        } else if decision.ask_workload {
            // one that may not be written is as good as one that may not be read
            self.workload = match &memory.workload_refused {
                Some(why) => WorkloadRead::Refused(why.clone()),
                None => workload::read(&context.client, &context.live, wrapper).await?,
            };
        }
        Ok(decision.asks())
    }

    /// Adds to a snapshot what is known of Kueue. As long as its configuration is not read, the Workload tells whether it
    /// replaces a node.
    pub(super) fn complete(&self, snapshot: &mut Snapshot, context: &Context) {
        let kueue = context.kueue();
        let is_read = *context.kueue_read.borrow();
        snapshot.wait_for_pods_ready = kueue.wait_for_pods_ready.filter(|_| snapshot.queue_managed);
        let may_replace = kueue.replaces_failed_nodes || !is_read;
        snapshot.replaces_failed_nodes = may_replace && snapshot.is_queued();
        snapshot.workload.clone_from(&self.workload);
    }
}

/// Sets `spec.active` of the Workload. What is refused for good is remembered for this attempt and decided about at
/// once; after a conflict, the Workload is read again.
pub(super) async fn switch(
    context: &Context,
    memory: &mut ReconcileState,
    wrapper: &Wrapper,
    workload: &Workload,
    active: bool,
) -> Result<Carried, Error> {
    let Some(resource) = workload::resource(&context.client, &context.live).await? else {
        return Ok(Carried::Later(WATCH_OVERDUE));
    };
    let attempt = current_attempt(&wrapper.status);
    let (client, namespace) = (&context.client, &wrapper.namespace);
    match write::switch(client, &resource, namespace, workload, active, attempt).await {
        Ok(()) => {
            tracing::info!(workload = workload.name, active, "Set spec.active of the Workload.");
            Ok(if active { Carried::GoOn } else { Carried::Later(WATCH_OVERDUE) })
        }
        Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(Carried::Later(ERROR_PAUSE.0)),
        Err(error) if !active && is_rejected_for_good(&error, memory) => {
            tracing::warn!(
                code = error.code(),
                "Setting spec.active of the Workload was rejected."
            );
            memory.workload_refused = Some(error.said());
            Ok(Carried::GoOn)
        }
        Err(error) => Err(error.into()),
    }
}
