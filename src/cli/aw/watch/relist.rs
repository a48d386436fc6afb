//! Watches that list again after each error: a watch of kube's resumes without an event, so that nobody could tell that
//! it works again.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::cli::cluster::{said, unanswered};
use crate::client::watch_backoff;

/// What a watch shows, without end.
pub(in crate::cli) type Events<T> = BoxStream<'static, watcher::Result<T>>;

/// The watch of a resource. After an error it pauses and begins with a list.
pub(in crate::cli) fn watch<K>(api: Api<K>, config: watcher::Config) -> Events<Event<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    relisting(move || watcher(api.clone(), config.clone()).boxed())
}

fn relisting<T: Send + 'static>(begin: impl FnMut() -> Events<T> + Send + 'static) -> Events<T> {
    let watches = stream::repeat_with(begin).map(|events| {
        // each until its first error
        stream::unfold(Some(events), |events| async move {
            let mut events = events?;
            let event = events.next().await?;
            let rest = event.is_ok().then_some(events);
            Some((event, rest))
        })
    });
    watches.flatten().backoff(Pauses(watch_backoff())).boxed()
}

/// Pauses that no event makes short again, only a while without an error: a list that fails begins with an event, and a
/// user who may list but not watch has complete lists.
struct Pauses<B>(B);

impl<B: Backoff> Iterator for Pauses<B> {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next()
    }
}

impl<B: Backoff> Backoff for Pauses<B> {
    fn reset(&mut self) {}
}

/// Why some objects cannot be watched, in the words of the other commands; none where only the resource version is too
/// old, since the list that follows has a new one.
pub(in crate::cli) fn problem(what: &str, error: watcher::Error) -> Option<String> {
    let cause = match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => cause,
        watcher::Error::WatchError(status) => kube::Error::Api(status),
        error @ watcher::Error::NoResourceVersion => {
            return Some(format!("cannot watch {what}: {error}"));
        }
    };
    match &cause {
        kube::Error::Api(status) if status.code == 410 => None,
        kube::Error::Api(_) => Some(format!("cannot watch {what}: {}", said(&cause))),
        other => Some(unanswered(other).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_begins_again_after_an_error_and_the_pauses_grow() {
        // what comes after an error is not asked for
        let begin = || {
            let error = watcher::Error::NoResourceVersion;
            stream::iter([Ok("list"), Err(error), Ok("resumed")]).boxed()
        };
        let mut events = relisting(begin);
        let start = Instant::now();
        let mut failed = vec![];
        for _ in 0..6 {
            assert_eq!(events.next().await.unwrap().unwrap(), "list");
            assert!(events.next().await.unwrap().is_err());
            // in tenths of a second
            failed.push((start.elapsed().as_millis() + 50) / 100);
        }
        assert_eq!(failed, [0, 8, 24, 56, 96, 136]);
    }

    #[test]
    fn a_problem_is_told_in_the_words_of_the_other_commands() {
        let api = |code: u16, reason: &str, message: &str| {
            Status::failure(message, reason).with_code(code).boxed()
        };
        let of_api = |code, reason, message| kube::Error::Api(api(code, reason, message));
        let gone = "too old resource version: 1 (2)";
        let starting = "the request has been made before all known HTTP paths have been installed";
        let rows = [
            (
                watcher::Error::InitialListFailed(of_api(403, "Forbidden", "pods is forbidden")),
                Some("cannot watch pods: pods is forbidden".to_owned()),
            ),
            (
                watcher::Error::InitialListFailed(of_api(
                    404,
                    "Failed to parse error data",
                    "404 page not found",
                )),
                Some("cannot watch pods: 404 page not found".to_owned()),
            ),
            (
                watcher::Error::WatchStartFailed(of_api(503, "ServiceUnavailable", starting)),
                Some(format!("cannot watch pods: {starting}")),
            ),
            (
                watcher::Error::WatchError(api(500, "InternalError", "etcd is away")),
                Some("cannot watch pods: etcd is away".to_owned()),
            ),
            (watcher::Error::WatchError(api(410, "Expired", gone)), None),
            (watcher::Error::WatchStartFailed(of_api(410, "Expired", gone)), None),
        ];
        for (error, want) in rows {
            assert_eq!(problem("pods", error), want);
        }
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let refused = kube::Error::Service(Box::new(refused));
        let said = problem("pods", watcher::Error::WatchFailed(refused)).unwrap();
        assert!(said.starts_with("cannot reach the API server"), "{said}");
        assert!(said.ends_with(": connection refused"), "{said}");
    }
}
