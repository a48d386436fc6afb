//! What is seen of one AppWrapper over time.

use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use kube::runtime::watcher::{self, Event};

use super::super::Error;
use super::super::cluster::unanswered;
use super::super::place::{One, Place, appwrappers, get, is_absent, is_unserved};
use super::super::term;
use super::watch::relist::{Events, problem, watch};
use crate::observe::live;
use crate::observe::raw_object::RawObject;

/// Time between two reads of an AppWrapper that may not be watched.
const READ_EVERY: Duration = Duration::from_secs(2);

/// Reads of an AppWrapper.
type Reads = BoxStream<'static, Result<RawObject, kube::Error>>;

/// What is seen of an AppWrapper.
#[derive(Clone, Debug)]
pub(super) enum Observation {
    Is(Box<One>),
    /// There is none of that name, or another one.
    Gone,
}

/// The AppWrapper of a name and a UID, as a watch or reads show it.
pub(super) struct Observations {
    events: Events<Event<RawObject>>,
    /// One read after another, which begin where it may not be watched.
    reads: Reads,
    /// It may not be watched.
    is_denied: bool,
    uid: String,
    /// The list with which the watch begins had an object.
    listed: bool,
    /// Why nothing is seen, since the last error. Without a view, it was printed, and stays until a change is seen: a
    /// watch that fails after each list has the same to say.
    note: Option<String>,
    /// A view shows the note.
    in_view: bool,
}

impl Observations {
    /// Watches an AppWrapper that was seen.
    pub(super) fn of(place: &Place, one: &One) -> Self {
        let config =
            watcher::Config::default().fields(&format!("metadata.name={}", one.wrapper.name));
        let events = watch(place.api(&appwrappers()), config);
        let reads = reads(place, &one.wrapper.name);
        let uid = one.wrapper.uid.clone();
        Self { events, reads, is_denied: false, uid, listed: false, note: None, in_view: false }
    }

    /// The same for a view, which shows [`Self::note`]: nothing is printed.
    pub(super) fn in_view(self) -> Self {
        Self { in_view: true, ..self }
    }

    /// Why nothing is seen; none where something is.
    pub(super) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Waits for what is seen next. An error of the API server is told, and it is asked again after a pause. Nothing is lost
    /// where the wait is given up, not even the pause.
    ///
    /// # Errors
    /// The user may not watch AppWrappers.
    pub(super) async fn next(&mut self) -> Result<Observation, Error> {
        while let Some(event) = self.events.next().await {
            let event = match event {
                Ok(event) => event,
                // there is no such kind any more, and no object of it
                Err(error) if live::watch_error(&error).is_some_and(is_unserved) => {
                    return Ok(Observation::Gone);
                }
                Err(error) => {
                    tolerate(&error)?;
                    self.tell(error);
                    continue;
                }
            };
            match event {
                Event::Init => self.listed = false,
                Event::InitApply(seen) => {
                    self.listed = true;
                    if let Some(sight) = self.sight(seen) {
                        return Ok(sight);
                    }
                }
                Event::Apply(seen) => {
                    self.note = None;
                    if let Some(sight) = self.sight(seen) {
                        return Ok(sight);
                    }
                }
                Event::InitDone if self.listed => {
                    self.note = self.note.take().filter(|_| !self.in_view);
                }
                Event::InitDone | Event::Delete(_) => return Ok(Observation::Gone),
            }
        }
        Err(Error::Cluster("the watch ended unexpectedly".to_owned()))
    }

    /// Tells why nothing is seen, the same once.
    fn tell(&mut self, error: watcher::Error) {
        self.remark(problem("AppWrappers", error));
    }

    fn remark(&mut self, said: Option<String>) {
        if said != self.note
            && !self.in_view
            && let Some(said) = &said
        {
            term::remark(said);
        }
        self.note = said;
    }

    /// Waits for what is seen next, as [`Self::next`]; where it may not be watched, it is read again and again.
    ///
    /// # Errors
    /// The user may neither watch AppWrappers nor read this one.
    pub(super) async fn next_or_read(&mut self) -> Result<Observation, Error> {
        if !self.is_denied {
            match self.next().await {
                Ok(sight) => return Ok(sight),
                Err(_) => self.is_denied = true,
            }
        }
        while let Some(read) = self.reads.next().await {
            match read {
                Ok(seen) => {
                    if let Some(sight) = self.sight(seen) {
                        return Ok(sight);
                    }
                }
                Err(error) if is_unserved(&error) || is_absent(&error) => {
                    return Ok(Observation::Gone);
                }
                Err(error) if matches!(live::code(&error), Some(401 | 403)) => {
                    return Err(unanswered(&error));
                }
                Err(error) => self.remark(Some(unanswered(&error).to_string())),
            }
        }
        Err(Error::Cluster("the reads ended unexpectedly".to_owned()))
    }

    /// What is seen; none where it cannot be read.
    fn sight(&self, seen: RawObject) -> Option<Observation> {
        if seen.meta.uid.as_deref() != Some(self.uid.as_str()) {
            return Some(Observation::Gone);
        }
        One::of(seen).ok().map(|one| Observation::Is(one.into()))
    }
}

/// Reads an AppWrapper again and again, with a pause after each read. Nothing is lost where the wait for a read is given up.
fn reads(place: &Place, name: &str) -> Reads {
    let (client, namespace, name) =
        (place.client.clone(), place.namespace.clone(), name.to_owned());
    let read = move |pause: Duration| {
        let (client, namespace, name) = (client.clone(), namespace.clone(), name.clone());
        async move {
            tokio::time::sleep(pause).await;
            let read = get(&client, &appwrappers(), Some(&namespace), &name).await;
            Some((read, READ_EVERY))
        }
    };
    stream::unfold(Duration::ZERO, read).boxed()
}

/// # Errors
/// That of a watch which does not pass by itself: it ends the command.
fn tolerate(error: &watcher::Error) -> Result<(), Error> {
    match live::watch_error(error) {
        Some(error) if matches!(live::code(error), Some(401 | 403)) => Err(unanswered(error)),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    fn seen() -> RawObject {
        let object = json!({"metadata": {"name": "aw", "namespace": "ns", "uid": "u"},
            "spec": {"components": []}});
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn expired() -> kube::Error {
        kube::Error::Service("the token has expired".into())
    }

    fn observations(events: Vec<watcher::Result<Event<RawObject>>>, in_view: bool) -> Observations {
        let events = stream::iter(events).boxed();
        Observations {
            events,
            reads: stream::empty().boxed(),
            is_denied: false,
            uid: "u".to_owned(),
            listed: false,
            note: None,
            in_view,
        }
    }

    #[tokio::test]
    async fn why_nothing_is_seen_is_noted_until_something_is() {
        let api = |code: u16, message: &str| {
            kube::Error::Api(Status::failure(message, "r").with_code(code).boxed())
        };
        let events = vec![
            Err(watcher::Error::WatchFailed(expired())),
            Err(watcher::Error::InitialListFailed(expired())),
            Ok(Event::Init),
            Ok(Event::InitApply(seen())),
            Ok(Event::InitDone),
            Ok(Event::Apply(seen())),
            Err(watcher::Error::InitialListFailed(api(404, "default backend - 404"))),
            Ok(Event::Apply(seen())),
            Err(watcher::Error::InitialListFailed(api(404, "404 page not found"))),
            Err(watcher::Error::InitialListFailed(api(403, "forbidden"))),
        ];
        let mut observations = observations(events, true);
        assert!(matches!(observations.next().await, Ok(Observation::Is(_))));
        let note = observations.note().map(str::to_owned).unwrap_or_default();
        assert!(note.contains("the token has expired"), "{note}");
        assert!(matches!(observations.next().await, Ok(Observation::Is(_))));
        assert_eq!(observations.note(), None);
        assert!(matches!(observations.next().await, Ok(Observation::Is(_))), "behind a proxy");
        assert!(matches!(observations.next().await, Ok(Observation::Gone)), "without the kind");
        assert!(observations.next().await.is_err());
    }

    /// A place whose API server answers one after another, and at the end with the last one.
    fn place(answers: Vec<(u16, serde_json::Value)>) -> Place {
        let left = std::sync::Mutex::new(answers);
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let mut left = left.lock().unwrap();
            let (code, body) = if left.len() > 1 { left.remove(0) } else { left[0].clone() };
            let body = kube::client::Body::from(body.to_string().into_bytes());
            std::future::ready(http::Response::builder().status(code).body(body))
        });
        Place { client: kube::Client::new(service, "ns"), namespace: "ns".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_not_be_watched_is_read_until_it_is_gone() {
        let status = |code: u16, reason: &str, message: &str| {
            let body = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason,
                "message": message});
            (code, body)
        };
        let is = |uid: &str| (200, json!({"metadata": {"name": "aw", "uid": uid}}));
        let gone = || status(404, "NotFound", "appwrappers \"aw\" not found");
        for (answers, is_gone, seconds) in [
            (vec![gone()], true, 0),
            (vec![is("u"), is("u"), gone()], true, 4),
            (vec![is("u"), is("v")], true, 2),
            (vec![status(404, "NotFound", "404 page not found")], true, 0),
            (vec![status(500, "InternalError", "etcd is away"), gone()], true, 2),
            (vec![status(404, "x", "default backend - 404"), gone()], true, 2),
            (vec![is("u"), status(403, "Forbidden", "no")], false, 2),
            (vec![status(401, "Unauthorized", "no")], false, 0),
        ] {
            let denied = Status::failure("no", "Forbidden").with_code(403).boxed();
            let events = vec![
                Ok(Event::Init),
                Ok(Event::InitApply(seen())),
                Ok(Event::InitDone),
                Err(watcher::Error::WatchStartFailed(kube::Error::Api(denied))),
            ];
            let begun = tokio::time::Instant::now();
            let told = format!("{answers:?}");
            let reads = reads(&place(answers), "aw");
            let mut observations = Observations { reads, ..observations(events, false) };
            let found = loop {
                match observations.next_or_read().await {
                    Ok(Observation::Is(_)) => {}
                    Ok(Observation::Gone) => break true,
                    Err(_) => break false,
                }
            };
            assert_eq!((found, begun.elapsed().as_secs()), (is_gone, seconds), "{told}");
        }
    }

    #[tokio::test]
    async fn without_a_view_a_note_stays_until_a_change_is_seen() {
        for in_view in [true, false] {
            let events = vec![
                Err(watcher::Error::WatchFailed(expired())),
                Ok(Event::Init),
                Ok(Event::InitApply(seen())),
                Ok(Event::InitDone),
                Ok(Event::Init),
                Ok(Event::InitApply(seen())),
                Ok(Event::InitDone),
                Ok(Event::Apply(seen())),
            ];
            let mut observations = observations(events, in_view);
            for has_note in [true, !in_view, false] {
                assert!(matches!(observations.next().await, Ok(Observation::Is(_))));
                assert_eq!(observations.note().is_some(), has_note, "in a view: {in_view}");
            }
        }
    }
}
