//! The commands for users of AppWrappers; the same program is the plugin `kubectl aw`.
//!
//! [`reach`] reads and writes. Pure functions decide what to do and what to print.

pub(super) mod attempts;
pub(super) mod delete;
pub(super) mod describe;
pub(super) mod eff;
pub(super) mod export;
pub(super) mod history;
pub(super) mod list;
pub(super) mod logs;
pub(super) mod multikueue;
pub(super) mod nodes;
mod observations;
mod reach;
pub(super) mod report;
pub(super) mod retry;
pub(super) mod story;
pub(super) mod switch;
pub(super) mod timeline;
pub(super) mod tree;
pub(super) mod wait;
pub(super) mod watch;
pub(super) mod words;
mod workload;

use std::process::ExitCode;
use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;
use serde::Serialize;
use tokio::time::Instant;

use super::complete::names_in_the_cluster;
use super::place::{One, Place};
use super::term::{self, Page};
use super::{ClusterArgs, DONE, Error, NEGATIVE, Output, block_on};
use crate::api::GROUP;
use crate::clock::{Clock, SystemClock};
use crate::tuning::{Period, names};

/// Which AppWrapper, and how is answered.
#[derive(Debug, clap::Args)]
pub(super) struct Target {
    /// Name of the AppWrapper
    #[arg(value_parser = wrapper_name, add = ArgValueCompleter::new(names_in_the_cluster))]
    name: String,
    /// Namespace of the AppWrapper; defaults to the namespace of the kubeconfig
    #[arg(short, long, value_parser = object_name)]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl Target {
    /// Where it is.
    async fn place(&self) -> Result<Place, Error> {
        Place::of(&self.cluster, self.namespace.as_deref()).await
    }

    /// Changes the AppWrapper as it is now. A change answers none after a conflict, and is tried again.
    async fn change<T>(
        &self,
        change: impl AsyncFn(&Place, &One) -> Result<Option<Done<T>>, Error>,
    ) -> Result<Done<T>, Error> {
        let place = self.place().await?;
        for _ in 0..TRIES {
            let one = place.one(&self.name).await?;
            if let Some(done) = change(&place, &one).await? {
                return Ok(done);
            }
        }
        Err(Error::Negative(format!(
            "{}; try again",
            sentence(
                &place.namespace,
                &self.name,
                &format!("was modified concurrently {TRIES} times: nothing was changed")
            )
        )))
    }
}

/// How often a change is tried after a conflict.
const TRIES: u32 = 5;

/// How long a command with `--timeout=0`, which is one look, waits for an answer.
const ONE_LOOK: Period = Period::from_secs(10);

/// The `--timeout` of a command, from its beginning.
struct Patience {
    timeout: Option<Period>,
    begun: Instant,
}

impl Patience {
    fn new(timeout: Option<Period>) -> Self {
        Self { timeout, begun: Instant::now() }
    }

    /// The time that is left; none without a limit.
    fn left(&self) -> Option<Duration> {
        self.timeout.map(|timeout| timeout.as_duration().saturating_sub(self.begun.elapsed()))
    }

    /// An answer of the API server.
    ///
    /// # Errors
    /// Its own, or it does not come in time.
    async fn answer<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let Some(timeout) = self.timeout else { return work.await };
        let within = if timeout.is_zero() { ONE_LOOK } else { timeout };
        let left = within.as_duration().saturating_sub(self.begun.elapsed());
        let late = || Error::Cluster(format!("no answer from the API server within {within}"));
        tokio::time::timeout(left, work).await.unwrap_or_else(|_| Err(late()))
    }
}

/// A name that an object can have. Anything else would lead to another place of the API.
pub(super) fn object_name(text: &str) -> Result<String, String> {
    if names::is_subdomain(text) { Ok(text.to_owned()) } else { Err(names::SUBDOMAIN.to_owned()) }
}

/// The name of an AppWrapper, also as kubectl and `tree` take and print it: `aw/train`, `AppWrapper/train`,
/// `appwrapper.workload.codeflare.dev/train`.
pub(super) fn wrapper_name(text: &str) -> Result<String, String> {
    object_name(split_kind(text).1)
}

/// The kind before a name, with its slash, and the name: `aw/train` is `aw/` and `train`. The first is empty where the
/// kind is not AppWrapper.
pub(super) fn split_kind(text: &str) -> (&str, &str) {
    let is_ours = |kind: &str| {
        let (kind, group) = kind.split_once('.').unwrap_or((kind, GROUP));
        let names = ["appwrapper", "appwrappers", "aw"];
        names.iter().any(|name| name.eq_ignore_ascii_case(kind)) && group == GROUP
    };
    match text.split_once('/') {
        Some((kind, name)) if is_ours(kind) => (&text[..=kind.len()], name),
        Some(_) | None => ("", text),
    }
}

/// The answer of a command that changes something or waits: what was done, or why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Done<T> {
    namespace: String,
    name: String,
    /// It is as it was asked for: exit code 0.
    #[serde(skip)]
    yes: bool,
    #[serde(flatten)]
    facts: T,
    /// The answer in sentences, one a line.
    message: String,
}

impl<T> Done<T> {
    /// The answer about an AppWrapper, with what is said of it.
    fn new(of: &One, yes: bool, facts: T, predicate: &str) -> Self {
        let (namespace, name) = (of.wrapper.namespace.clone(), of.wrapper.name.clone());
        let message = sentence(&namespace, &name, predicate);
        Self { namespace, name, yes, facts, message }
    }
}

/// A sentence about an AppWrapper, from what is said of it.
fn sentence(namespace: &str, name: &str, predicate: &str) -> String {
    format!("AppWrapper {namespace}/{name} {predicate}")
}

impl<T: Serialize> Done<T> {
    /// Prints the answer; a negative one, in text, as an error.
    fn tell(&self, output: Output) -> Result<ExitCode, Error> {
        match output {
            Output::Json => {
                super::tell(output, self, Page::default)?;
                Ok(if self.yes { DONE } else { ExitCode::from(NEGATIVE) })
            }
            Output::Text if self.yes => {
                let mut page = Page::default();
                page.message(&self.message);
                term::print(&page);
                Ok(DONE)
            }
            Output::Text => Err(Error::Negative(self.message.clone())),
        }
    }
}

/// Prints an answer for people or for programs.
fn tell(
    output: Output,
    answer: &impl Serialize,
    page: impl FnOnce() -> Page,
) -> Result<ExitCode, Error> {
    super::tell(output, answer, page)?;
    Ok(DONE)
}

fn now() -> k8s_openapi::jiff::Timestamp {
    SystemClock.now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_comes_within_the_timeout() {
        let never = std::future::pending::<Result<(), Error>>;
        for (timeout, want, seconds) in [("2s", "within 2s", 2), ("0", "within 10s", 10)] {
            let begun = Instant::now();
            let patience = Patience::new(Some(timeout.parse().unwrap()));
            assert_eq!(patience.answer(async { Ok(1) }).await.ok(), Some(1));
            let said = patience.answer(never()).await.unwrap_err().to_string();
            assert_eq!(said, format!("no answer from the API server {want}"));
            // one timeout is for all answers
            assert!(patience.answer(never()).await.is_err());
            assert_eq!(begun.elapsed().as_secs(), seconds);
            assert_eq!(patience.left(), Some(Duration::ZERO));
        }
        assert_eq!(Patience::new(None).left(), None);
    }

    #[test]
    fn only_names_are_names() {
        for name in ["train", "a", "0", "my-job.v2", &"x".repeat(253)] {
            assert_eq!(object_name(name).as_deref(), Ok(name));
        }
        for text in ["", "../pods", "a/b", "Train", ".", "-n", "n-", "a?b", &"x".repeat(254)] {
            assert_eq!(object_name(text), Err(names::SUBDOMAIN.to_owned()), "{text}");
            assert!(wrapper_name(text).is_err(), "{text}");
            assert!(wrapper_name(&format!("aw/{text}")).is_err(), "{text}");
        }
    }

    #[test]
    fn an_appwrapper_may_be_named_as_in_kubectl() {
        let with_group = "appwrapper.workload.codeflare.dev";
        let kinds = ["aw", "appwrapper", "appwrappers", "AppWrapper", with_group];
        for text in kinds.map(|kind| format!("{kind}/train")) {
            assert_eq!(wrapper_name(&text).as_deref(), Ok("train"), "{text}");
        }
        for (typed, want) in [
            ("tr", ("", "tr")),
            ("aw/tr", ("aw/", "tr")),
            ("appwrappers/", ("appwrappers/", "")),
            ("pod/tr", ("", "pod/tr")),
        ] {
            assert_eq!(split_kind(typed), want);
        }
        for text in ["pod/train", "appwrapper.example.com/train", "aw/aw/train"] {
            assert!(wrapper_name(text).is_err(), "{text}");
        }
    }
}
