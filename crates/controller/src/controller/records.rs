//! Deletes records of AppWrappers that are too old or too many, off the path of reconciles.

use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::act::record as act;
use crate::reconcile::Context;
use crate::record::{Allowance, expired};
use crate::telemetry;

/// How often the records are counted.
const EVERY: Duration = Duration::from_mins(10);
/// How many records are deleted at a time.
const DELETED_AT_ONCE: usize = 1000;
/// How long it may take in all.
const WITHIN: Duration = Duration::from_mins(5);

/// Deletes what is too old or too much, while a history is kept; never ends. For the leader alone.
pub(super) async fn tidy(context: &Context) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if !context.config().history.enabled {
            continue;
        }
        if tokio::time::timeout(WITHIN, Box::pin(tidy_once(context))).await.is_err() {
            tracing::warn!("Timed out deleting records of AppWrappers.");
        }
    }
}

async fn tidy_once(context: &Context) {
    let all = match act::list(&context.client).await {
        Ok(all) => all,
        Err(error) => {
            tracing::warn!(cause = telemetry::chain(&error), "The records cannot be counted.");
            return;
        }
    };
    let config = context.config();
    let going = expired(all, &config.history, context.clock.now());
    let is_done = going.len() <= DELETED_AT_ONCE;
    for kept in going.iter().take(DELETED_AT_ONCE) {
        if let Err(error) = act::remove(&context.client, kept).await {
            tracing::warn!(cause = telemetry::chain(&error), "A record was not deleted.");
            return;
        }
    }
    if is_done {
        let mut allowance = context.records.lock().unwrap_or_else(PoisonError::into_inner);
        *allowance = Allowance::default();
    }
}
