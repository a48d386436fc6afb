//! What is seen of one AppWrapper over time.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::runtime::watcher::{self, Event, watcher};

use super::super::Error;
use super::super::cluster::unanswered;
use super::super::place::{One, Place, appwrappers};
use crate::observe::live;
use crate::observe::raw_object::RawObject;

/// How long a watch waits after an error before it is tried again.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

/// What is seen of an AppWrapper.
#[derive(Clone, Debug)]
pub(super) enum Sight {
    Is(Box<One>),
    /// There is none of that name, or another one.
    Gone,
}

/// The AppWrapper of a name and a UID, as a watch shows it.
pub(super) struct Sights {
    events: BoxStream<'static, watcher::Result<Event<RawObject>>>,
    uid: String,
    /// The list with which the watch begins had an object.
    listed: bool,
}

impl Sights {
    /// Watches an AppWrapper that was seen.
    pub(super) fn of(place: &Place, one: &One) -> Self {
        let config =
            watcher::Config::default().fields(&format!("metadata.name={}", one.wrapper.name));
        let events = watcher(place.api(&appwrappers()), config).boxed();
        Self { events, uid: one.wrapper.uid.clone(), listed: false }
    }

    /// Waits for what is seen next. An error of the API server is nothing seen: it is asked again. Nothing is lost
    /// where the wait is given up.
    ///
    /// # Errors
    /// The user may not watch AppWrappers.
    pub(super) async fn next(&mut self) -> Result<Sight, Error> {
        while let Some(event) = self.events.next().await {
            match event {
                Ok(Event::Init) => self.listed = false,
                Ok(Event::InitApply(seen)) => {
                    self.listed = true;
                    if let Some(sight) = self.sight(seen) {
                        return Ok(sight);
                    }
                }
                Ok(Event::Apply(seen)) => {
                    if let Some(sight) = self.sight(seen) {
                        return Ok(sight);
                    }
                }
                Ok(Event::InitDone) if self.listed => {}
                Ok(Event::InitDone | Event::Delete(_)) => return Ok(Sight::Gone),
                Err(error) => tolerate(error).await?,
            }
        }
        Err(Error::Cluster("the watch ended unexpectedly".to_owned()))
    }

    /// Waits until it is gone.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub(super) async fn gone(mut self) -> Result<(), Error> {
        while let Sight::Is(_) = self.next().await? {}
        Ok(())
    }

    /// What is seen; none where it cannot be read.
    fn sight(&self, seen: RawObject) -> Option<Sight> {
        if seen.meta.uid.as_deref() != Some(self.uid.as_str()) {
            return Some(Sight::Gone);
        }
        One::of(seen).ok().map(|one| Sight::Is(one.into()))
    }
}

/// Waits a little after an error of a watch; one that does not pass by itself ends the command.
pub(super) async fn tolerate(error: watcher::Error) -> Result<(), Error> {
    if let watcher::Error::InitialListFailed(error)
    | watcher::Error::WatchStartFailed(error)
    | watcher::Error::WatchFailed(error) = &error
        && matches!(live::code(error), Some(401 | 403))
    {
        return Err(unanswered(error));
    }
    tokio::time::sleep(PAUSE_AFTER_ERROR).await;
    Ok(())
}
