//! What is seen of one AppWrapper over time.

use futures::StreamExt;
use kube::runtime::watcher::{self, Event};

use super::super::Error;
use super::super::cluster::unanswered;
use super::super::place::{One, Place, appwrappers};
use super::watch::relist::{Events, watch};
use crate::observe::live;
use crate::observe::raw_object::RawObject;

/// What is seen of an AppWrapper.
#[derive(Clone, Debug)]
pub(super) enum Sight {
    Is(Box<One>),
    /// There is none of that name, or another one.
    Gone,
}

/// The AppWrapper of a name and a UID, as a watch shows it.
pub(super) struct Sights {
    events: Events<Event<RawObject>>,
    uid: String,
    /// The list with which the watch begins had an object.
    listed: bool,
}

impl Sights {
    /// Watches an AppWrapper that was seen.
    pub(super) fn of(place: &Place, one: &One) -> Self {
        let config =
            watcher::Config::default().fields(&format!("metadata.name={}", one.wrapper.name));
        let events = watch(place.api(&appwrappers()), config);
        Self { events, uid: one.wrapper.uid.clone(), listed: false }
    }

    /// Waits for what is seen next. An error of the API server is nothing seen: it is asked again, after a pause. Nothing is lost
    /// where the wait is given up, not even the pause.
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
                Err(error) => tolerate(&error)?,
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

/// # Errors
/// That of a watch which does not pass by itself: it ends the command.
fn tolerate(error: &watcher::Error) -> Result<(), Error> {
    if let watcher::Error::InitialListFailed(error)
    | watcher::Error::WatchStartFailed(error)
    | watcher::Error::WatchFailed(error) = error
        && matches!(live::code(error), Some(401 | 403))
    {
        return Err(unanswered(error));
    }
    Ok(())
}
