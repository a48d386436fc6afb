//! `appwrapper watch`: an AppWrapper until it has ended. On a terminal a view that is drawn again and again,
//! elsewhere a line for each change.

pub(in crate::cli) mod relist;
mod view;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};

use super::super::place::{One, Place};
use super::super::run::stop_of_a_view;
use super::super::term::{self, Page, Screen};
use super::super::{DONE, Error, Output};
use super::observations::{Observation, Observations};
use super::{Target, block_on, now, sentence, wait};
use crate::api::{Phase, keys};
use crate::observe::live::pod_resource;
use crate::observe::pod_record::{PodRecord, WatchedPod};
use relist::{Events, problem};
use view::{Frame, StatusChange, ViewInputs};

/// Time between two pictures: ages are in seconds.
const FRAME: Duration = Duration::from_secs(1);
/// The most changes that are kept for the view.
const CHANGES_MAX: usize = 50;
/// The most pods that are kept: a gang has thousands, and a terminal has no room for them.
const PODS_MAX: usize = 20_000;
/// Exit code after Ctrl-C, as a shell has it of a program that the signal ends.
const INTERRUPTED: u8 = 130;
/// Exit code where nobody reads its output any more, as a shell has it of a program that SIGPIPE ends.
const UNREAD: u8 = 141;

/// Why nothing more is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Succeeded,
    /// That it has failed, and why.
    Failed(String),
    Deleted,
    /// Ctrl-C; of a view, any signal that asks for its end.
    Interrupted,
    /// Nobody reads what is printed, or it cannot be written.
    Unread,
}

pub(in crate::cli) fn run(target: &Target) -> Result<ExitCode, Error> {
    let (end, namespace) = block_on(async {
        let place = target.place().await?;
        let one = place.one(&target.name).await?;
        let course = Course { changes: vec![], one };
        let end = if target.output == Output::Text && term::is_terminal() {
            live(&place, course, pin!(stop_of_a_view())).await?
        } else {
            let mut stop = pin!(tokio::signal::ctrl_c());
            // from now on the signal does not end the process by itself
            drop(futures::poll!(&mut stop));
            lines(&place, course, target.output, stop).await?
        };
        Ok((end, place.namespace))
    })?;
    let no = |what: &str| Err(Error::Negative(sentence(&namespace, &target.name, what)));
    match end {
        End::Succeeded => Ok(DONE),
        End::Interrupted => Ok(ExitCode::from(INTERRUPTED)),
        End::Unread => Ok(ExitCode::from(UNREAD)),
        End::Failed(why) => no(&why),
        End::Deleted => no("was deleted"),
    }
}

/// The AppWrapper as it was seen last, and what changed before.
struct Course {
    one: One,
    changes: Vec<StatusChange>,
}

impl Course {
    /// What is new about it, where something is that a line is worth.
    fn note(&mut self, sight: Observation) -> Option<StatusChange> {
        let change = match sight {
            Observation::Is(one) => {
                self.one = *one;
                StatusChange::of(&self.one.wrapper, now())
            }
            Observation::Gone => StatusChange::deleted(now()),
        }
        .after(&self.changes);
        if self.changes.last().is_some_and(|last| last.is_same(&change)) {
            return None;
        }
        if self.changes.len() == CHANGES_MAX {
            self.changes.remove(0);
        }
        self.changes.push(change.clone());
        Some(change)
    }

    /// How it ended, where it has.
    fn end(&self) -> Option<End> {
        if self.changes.last().is_some_and(StatusChange::is_deletion) {
            return Some(End::Deleted);
        }
        match self.one.wrapper.status.phase {
            Phase::Succeeded => Some(End::Succeeded),
            Phase::Failed => Some(End::Failed(wait::failed(&self.one.wrapper))),
            Phase::Empty
            | Phase::Suspended
            | Phase::Resuming
            | Phase::Running
            | Phase::Resetting
            | Phase::Suspending
            | Phase::Terminating => None,
        }
    }
}

/// Prints a line for each change.
async fn lines(
    place: &Place,
    mut course: Course,
    output: Output,
    mut stop: impl Future + Unpin,
) -> Result<End, Error> {
    let mut observations = Observations::of(place, &course.one);
    let mut sight = Observation::Is(course.one.clone().into());
    loop {
        if let Some(change) = course.note(sight) {
            let is_read = match output {
                Output::Json => term::print_json_on(&change.json()),
                Output::Text => {
                    let mut page = Page::default();
                    page.line(&change.line());
                    term::print_on(&page)
                }
            };
            if !is_read {
                return Ok(End::Unread);
            }
        }
        if let Some(end) = course.end() {
            return Ok(end);
        }
        sight = tokio::select! {
            seen = observations.next() => seen?,
            _ = &mut stop => return Ok(End::Interrupted),
        };
    }
}

/// Draws a view until it has ended; its last picture stays.
async fn live(
    place: &Place,
    mut course: Course,
    mut stop: impl Future + Unpin,
) -> Result<End, Error> {
    let mut observations = Observations::of(place, &course.one).in_view();
    let mut pods = Pods::of(place, &course.one);
    course.note(Observation::Is(course.one.clone().into()));
    let mut ticks = tokio::time::interval(FRAME);
    let screen = Screen::enter();
    let end = loop {
        if let Some(end) = course.end() {
            break end;
        }
        tokio::select! {
            seen = observations.next() => drop(course.note(seen?)),
            () = pods.next() => {}
            _ = &mut stop => break End::Interrupted,
            // a storm of changes is drawn once a second, too
            _ = ticks.tick() => screen.draw(&draw(&course, &pods, observations.note())),
        }
    };
    drop(screen);
    term::print(&Page::from(draw(&course, &pods, observations.note())));
    Ok(end)
}

fn draw(course: &Course, pods: &Pods, note: Option<&str>) -> Vec<term::Shown> {
    let (width, height) = term::size();
    let inputs = ViewInputs {
        one: &course.one,
        pods: pods.known.values().map(|record| &**record).collect(),
        changes: &course.changes,
        note: note.or(pods.note.as_deref()),
    };
    view::view(&inputs, now(), Frame { width, height, colours: term::has_colour() })
}

/// Pods by name.
type PodRecords = BTreeMap<String, Arc<PodRecord>>;

/// The pods of an AppWrapper, as far as the user may see them.
struct Pods {
    events: Events<Event<WatchedPod>>,
    uid: String,
    known: PodRecords,
    /// Those of the list under way: what is known stays until it is complete.
    listed: PodRecords,
    /// Why they are not seen.
    note: Option<String>,
}

impl Pods {
    fn of(place: &Place, one: &One) -> Self {
        let labels = format!("{}={}", keys::APPWRAPPER, one.wrapper.name);
        let api = Api::namespaced_with(place.client.clone(), &place.namespace, &pod_resource());
        let events = relist::watch(api, watcher::Config::default().labels(&labels));
        Self::seen(events, &one.wrapper.uid)
    }

    fn seen(events: Events<Event<WatchedPod>>, uid: &str) -> Self {
        let (known, listed) = (PodRecords::new(), PodRecords::new());
        Self { events, uid: uid.to_owned(), known, listed, note: None }
    }

    /// Waits for a change. What cannot be seen is noted, and never ends.
    async fn next(&mut self) {
        match self.events.next().await {
            Some(Ok(Event::Init)) => self.listed.clear(),
            Some(Ok(Event::InitApply(pod))) => keep(&mut self.listed, &self.uid, pod.record),
            Some(Ok(Event::Apply(pod))) => keep(&mut self.known, &self.uid, pod.record),
            Some(Ok(Event::Delete(pod))) => drop(self.known.remove(&pod.record.identity.name)),
            Some(Ok(Event::InitDone)) => {
                self.known = std::mem::take(&mut self.listed);
                self.note = None;
            }
            Some(Err(error)) => {
                self.note = problem("pods", error).or_else(|| self.note.take());
            }
            None => std::future::pending().await,
        }
    }
}

/// Keeps a pod where it is of the AppWrapper with this UID, and as far as there is room.
fn keep(pods: &mut PodRecords, uid: &str, record: Arc<PodRecord>) {
    let name = record.identity.name.clone();
    if record.identity.may_be_of(uid) && (pods.len() < PODS_MAX || pods.contains_key(&name)) {
        pods.insert(name, record);
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    fn pod(name: &str) -> WatchedPod {
        let labels = json!({"workload.codeflare.dev/appwrapper-uid": "u"});
        let object = json!({"metadata": {"name": name, "labels": labels}});
        serde_json::from_str(&object.to_string()).unwrap()
    }

    #[test]
    fn pods_that_the_go_controller_created_are_in_view() {
        let object = json!({"metadata": {"name": "old", "labels": {keys::APPWRAPPER: "a"}}});
        let old: WatchedPod = serde_json::from_str(&object.to_string()).unwrap();
        let mut pods = PodRecords::new();
        keep(&mut pods, "v", pod("of-another").record);
        keep(&mut pods, "v", old.record);
        assert_eq!(pods.keys().collect::<Vec<_>>(), ["old"]);
    }

    #[tokio::test]
    async fn pods_stay_in_view_and_the_note_goes_when_they_are_listed_again() {
        let status = Status::failure("pods is forbidden", "Forbidden").with_code(403).boxed();
        let events = vec![
            Ok(Event::Init),
            Ok(Event::InitApply(pod("a"))),
            Ok(Event::InitApply(pod("b"))),
            Ok(Event::InitDone),
            Err(watcher::Error::InitialListFailed(kube::Error::Api(status))),
            Ok(Event::Init),
            Ok(Event::InitApply(pod("b"))),
            Ok(Event::InitDone),
        ];
        let mut pods = Pods::seen(stream::iter(events).boxed(), "u");
        let note = Some("cannot watch pods: pods is forbidden");
        let steps: [(usize, &[&str], Option<&str>); 4] = [
            (4, &["a", "b"], None),
            (1, &["a", "b"], note),
            (2, &["a", "b"], note),
            (1, &["b"], None),
        ];
        for (events, known, note) in steps {
            for _ in 0..events {
                pods.next().await;
            }
            let names: Vec<&str> = pods.known.keys().map(String::as_str).collect();
            assert_eq!((&names[..], pods.note.as_deref()), (known, note));
        }
    }
}
