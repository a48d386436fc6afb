//! Keeps a record of an AppWrapper before its finalizer is removed.

use super::Context;
use super::beside::in_time;
use crate::act::record as act;
use crate::config::History;
use crate::locked::Locked;
use crate::observe::assemble::Wrapper;
use crate::record::Record;

/// The longest name of a user that is kept, in characters.
const USER_CHARS_MAX: usize = 256;

/// Keeps a record, if the configuration says so and an attempt was begun. What goes wrong is logged, and changes nothing
/// else.
pub(super) async fn keep(context: &Context, wrapper: &Wrapper) {
    let config = context.config();
    if !config.history.enabled || wrapper.status.attempts.is_empty() {
        return;
    }
    if let Err(cause) = kept(context, wrapper, &config.history).await {
        tracing::warn!(cause, "No record was kept.");
    }
}

/// Keeps a record.
///
/// # Errors
/// Why it is not kept.
async fn kept(context: &Context, wrapper: &Wrapper, settings: &History) -> Result<(), String> {
    let may_write = {
        let mut allowance = context.records.locked();
        allowance.take(&wrapper.namespace, &wrapper.uid, settings)
    };
    if !may_write {
        return Err("too many AppWrappers were deleted lately".to_owned());
    }
    let user = wrapper.spec.requester.as_ref().map(|requester| requester.username.as_str());
    let record = Record {
        name: wrapper.name.clone(),
        uid: wrapper.uid.clone(),
        queue: wrapper.queue.clone(),
        user: user.map(|user| user.chars().take(USER_CHARS_MAX).collect()),
        created: wrapper.created,
        deleted: Some(context.clock.now()),
        ..Record::of(&wrapper.status)
    };
    in_time(act::keep(&context.client, wrapper, &record)).await
}
