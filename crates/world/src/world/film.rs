//! A recording of a run: what changed, and when.

use std::time::Duration;

use super::explore::run_async;
use super::{Options, RunReport, World};
use crate::sim::Change;

/// The most changes, and the most lines, that are recorded: an adversary makes some runs endless.
const CHANGES_MAX: usize = 20_000;

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct Film {
    /// The changes of objects, in order, with the time since the world began.
    pub changes: Vec<(Duration, Change)>,
    /// The lines of the trace, likewise.
    pub lines: Vec<(Duration, String)>,
    /// Changes of the store, and lines of the trace, that were seen.
    seen: (usize, usize),
}

/// Runs the world of a seed to its end, and records it.
#[must_use]
pub fn record(options: Options) -> (Film, RunReport) {
    let options = Options { keep_trace: true, ..options };
    run_async(async {
        let mut world = World::random(options);
        world.film = Some(Film::default());
        world.film();
        world.go_on_to_the_end().await;
        let film = world.film.take().unwrap_or_default();
        (film, world.report())
    })
}

impl World {
    /// Records what happened since the last step.
    pub(super) fn film(&mut self) {
        let Some(film) = &mut self.film else { return };
        let (changes, lines) = (self.store.history(), self.trace.lines());
        let at = self.elapsed;
        let room = CHANGES_MAX.saturating_sub(film.changes.len());
        let new = changes.iter().skip(film.seen.0).take(room);
        film.changes.extend(new.map(|change| (at, change.clone())));
        let room = CHANGES_MAX.saturating_sub(film.lines.len());
        let new = lines.iter().skip(film.seen.1).take(room);
        film.lines.extend(new.map(|line| (at, line.clone())));
        film.seen = (changes.len(), lines.len());
    }
}
