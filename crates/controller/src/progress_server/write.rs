//! Writes reports to pods.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::time::timeout;

use super::PodId;
use super::queue::{Ended, Queue};
use crate::api::keys;
use crate::client;
use crate::metrics::{Metrics, ReportWritten};
use crate::observe::live;
use crate::progress::{self, Report};
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
            Self::Get(error) | Self::Patch(error) => !client::is_rejected_for_good(error),
            Self::Slow => true,
        }
    }
}

/// Writes what waits, for ever.
pub(super) async fn run(client: &Client, queue: &Queue, metrics: &Metrics) {
    let writer = async || {
        loop {
            let (pod, report) = queue.next().await;
            let written = timeout(WRITE_TIME_MAX, write(client, &pod, &report)).await;
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
            if queue.ended(&pod, ended) {
                let (cause, namespace, name) =
                    (telemetry::chain(&error), &pod.namespace, &pod.name);
                tracing::warn!(cause, namespace, pod = name, "Progress report not written.");
            }
        }
    };
    join_all((0..WRITERS).map(|_| writer())).await;
}

async fn write(client: &Client, pod: &PodId, report: &Report) -> Result<ReportWritten, Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let found = pods.get_metadata_opt(&pod.name).await.map_err(Error::Get)?;
    let found = found.filter(|found| found.metadata.uid.as_deref() == Some(pod.uid.as_str()));
    let Some(found) = found else { return Ok(ReportWritten::Gone) };
    let annotations = found.metadata.annotations.unwrap_or_default();
    // another replica may have written it; what cannot be read is replaced
    let before = annotations.get(keys::PROGRESS).and_then(|text| progress::parse(text).ok());
    let report = report.clone().after(before.as_ref());
    if before.as_ref().is_some_and(|before| says_no_more(&report, before)) {
        return Ok(ReportWritten::Unchanged);
    }
    let patch = json!({"metadata": {
        "uid": pod.uid, "annotations": {keys::PROGRESS: report.render()},
    }});
    match pods.patch_metadata(&pod.name, &PatchParams::default(), &Patch::Merge(patch)).await {
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
