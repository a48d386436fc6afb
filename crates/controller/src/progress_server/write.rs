//! Writes reports to pods.

use std::time::Duration;

use futures::future::join_all;
use kube::api::{GetParams, Patch, PatchParams};
use kube::core::Request;
use kube::{Client, Resource};
use serde_json::json;
use tokio::time::timeout;

use super::queue::{Ended, Queue};
use super::{LINES_OF_A_NAMESPACE, PodId};
use crate::api::keys;
use crate::client;
use crate::clock::Clock;
use crate::metrics::{Metrics, ReportWritten};
use crate::observe::live;
use crate::observe::raw_object::RawObject;
use crate::progress::{self, Report};
use crate::rate::RateLimiter;
use crate::telemetry;

/// How many writes are at work at a time.
const WRITERS: usize = 16;
/// The longest time of a write, both calls together.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);

/// Why a report was not written.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot get the pod")]
    Get(#[source] kube::Error),
    #[error("cannot patch the pod")]
    Patch(#[source] kube::Error),
    #[error("the API server did not respond within {} s", WRITE_TIME_MAX.as_secs())]
    Slow,
}

impl Error {
    /// Whether a later write may succeed.
    fn may_end(&self) -> bool {
        match self {
            Self::Get(error) | Self::Patch(error) => {
                !client::is_rejected_for_good(error) || client::is_refused_for_now(error)
            }
            Self::Slow => true,
        }
    }
}

/// Writes what waits, for ever.
pub(super) async fn run(client: &Client, queue: &Queue, metrics: &Metrics, clock: &dyn Clock) {
    let lines = RateLimiter::<String>::new(LINES_OF_A_NAMESPACE);
    let writer = async || {
        loop {
            let (pod, report) = queue.next().await;
            let written = timeout(WRITE_TIME_MAX, write(client, &pod, &report, clock)).await;
            let error = match written.unwrap_or(Err(Error::Slow)) {
                Ok(written) => {
                    metrics.report_written(written);
                    queue.ended(&pod, Ended::Done);
                    continue;
                }
                Err(error) => error,
            };
            metrics.report_written(ReportWritten::Failed);
            let ended = if error.may_end() { Ended::Failed(report) } else { Ended::Rejected };
            let is_first = queue.ended(&pod, ended);
            if is_first && lines.take(pod.namespace.clone(), 1, clock.elapsed()).is_ok() {
                let (cause, namespace, name) =
                    (telemetry::chain(&error), &pod.namespace, &pod.name);
                tracing::warn!(cause, namespace, pod = name, "Progress report not written.");
            }
        }
    };
    join_all((0..WRITERS).map(|_| writer())).await;
}

async fn write(
    client: &Client,
    pod: &PodId,
    report: &Report,
    clock: &dyn Clock,
) -> Result<ReportWritten, Error> {
    let pods = Request::new(RawObject::url_path(&live::pod_resource(), Some(&pod.namespace)));
    let request = pods.get_metadata(&pod.name, &GetParams::default());
    let request = request.map_err(|error| Error::Get(kube::Error::BuildRequest(error)))?;
    let found = match client.request::<RawObject>(request).await {
        Ok(found) => found.meta,
        Err(error) if live::code(&error) == Some(404) => return Ok(ReportWritten::Gone),
        Err(error) => return Err(Error::Get(error)),
    };
    if found.uid.as_deref() != Some(pod.uid.as_str()) {
        return Ok(ReportWritten::Gone);
    }
    let annotations = found.annotations.unwrap_or_default();
    // another replica may have written it; what cannot be read, or does not count, is replaced
    let now = clock.now();
    let before = annotations.get(keys::PROGRESS).and_then(|text| progress::parse(text).ok());
    let before = before.filter(|before| before.counts_from() <= now);
    // either clock may be wrong: the later time stays, and what the pod says now is taken
    let ahead = before.as_ref().filter(|before| before.is_ahead_of(now)).map(Report::at);
    let report = report.clone().no_earlier_than(ahead).after(before.as_ref());
    if before.as_ref().is_some_and(|before| says_no_more(&report, before)) {
        return Ok(ReportWritten::Unchanged);
    }
    let patch = json!({"metadata": {
        "uid": pod.uid, "annotations": {keys::PROGRESS: report.render()},
    }});
    let request = pods.patch_metadata(&pod.name, &PatchParams::default(), &Patch::Merge(patch));
    let request = request.map_err(|error| Error::Patch(kube::Error::BuildRequest(error)))?;
    match client.request_text(request).await {
        Ok(_) => Ok(ReportWritten::Written),
        // deleted, or another of its name
        Err(error) if matches!(live::code(&error), Some(404 | 409)) => Ok(ReportWritten::Gone),
        Err(error) => Err(Error::Patch(error)),
    }
}

/// Whether a report says nothing that the one before it does not, but for the remaining time.
fn says_no_more(report: &Report, before: &Report) -> bool {
    let said = |report: &Report| (report.at(), report.step(), report.percent());
    said(report) == said(before) && report.checkpoint() == before.checkpoint()
}
