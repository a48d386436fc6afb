//! More memory for the next attempt.

use std::sync::Arc;

use super::carry_out::{Carried, is_rejected_for_good, wrote};
use super::{Context, Error};
use crate::act::wrapper as write;
use crate::observe::assemble::Wrapper;
use crate::observe::memory::ReconcileState;

/// Why memory did not grow although the write was accepted.
const TAKEN_BACK: &str = "the API server accepted the update but kept the old memory";

/// Writes the memory that is pending. What is refused for good is remembered and decided about at once:
/// the retry goes on as it was.
pub(super) async fn grow(
    context: &Context,
    memory: &mut ReconcileState,
    wrapper: &Arc<Wrapper>,
    suspend: bool,
) -> Result<Carried, Error> {
    match write::grow_memory(&context.client, wrapper, suspend).await {
        Ok(written) => {
            let pending = wrapper.status.pending_memory.len();
            tracing::info!(pending, suspend, "Memory increased.");
            let carried = wrote(memory, wrapper, &written);
            if let Carried::Newer(newer) = &carried
                && !write::has_grown(newer)
            {
                // or each reconcile would write it again
                memory.growth_refused = Some(TAKEN_BACK.to_owned());
            }
            Ok(carried)
        }
        Err(error) if is_rejected_for_good(&error, memory) => {
            let why = error.said();
            tracing::warn!(code = error.code(), "Memory increase rejected; see the events.");
            memory.growth_refused = Some(why);
            Ok(Carried::GoOn)
        }
        Err(error) => Err(error.into()),
    }
}
