//! Plans the changes of the certificate. Pure.
//!
//! ```text
//!  nothing usable ──make──▶ current ◀──────────────────────── forget ──────────────────────┐
//!                              │ two thirds of its life, or a name is missing               │ overlap
//!                              ▼                                                            │
//!                      current + next ──in the bundles──▶ trusted ──overlap──▶ current + old
//!                              ▲                              │
//!                              └────── not in the bundles ────┘
//! ```
//!
//! One write of the Secret at a time, guarded by its `resourceVersion`; after each, everything is read
//! and planned again. Who carries it out reads the configurations first, then the Secret, and guards
//! the write of a configuration by the version that it read: so no bundle is ever replaced by one
//! that knows less of the Secret.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::generation::{Generation, Served};
use super::lifetimes::{Lifetimes, after};
use super::name::Names;
use super::stored::{Certificates, Next, Old};

/// The time comes rounded down; what begins now has begun before the next whole second.
const RESOLUTION: Duration = Duration::from_secs(1);

/// What the webhook configurations say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookState {
    /// The names by which the webhook is called.
    pub names: Names,
    /// The CA bundle of each entry of each configuration; nothing where it has none.
    pub bundles: Vec<Option<String>>,
}

/// The plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation<'a> {
    /// What is served: what the Secret says, also where it has expired or is not valid yet, and nothing better is there.
    pub serve: Option<&'a Served>,
    /// How the Secret changes, before anything else.
    pub change: Option<Change>,
    /// The bundle for each entry of the configurations; none as long as there is no certificate.
    pub bundle: Option<String>,
    /// When it is time to plan again, where nothing else happens.
    pub look_again: Timestamp,
}

/// A change of the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new generation comes into use at once, since nothing usable is there.
    Make,
    /// A next generation is made.
    MakeNext,
    /// The authority of the next generation is in the configurations, for the first time.
    Trust,
    /// It is not there any more.
    Distrust,
    /// The next generation comes into use.
    Promote,
    /// The authority of the generation before is forgotten.
    Forget,
    /// What is of no use in the Secret goes.
    Tidy,
}

/// Makes the plan; `is_tidy` if the Secret has no unusable data.
#[must_use]
pub fn plan<'a>(
    stored: &'a Certificates,
    is_tidy: bool,
    faced: &WebhookState,
    now: Timestamp,
    lifetimes: Lifetimes,
) -> Rotation<'a> {
    let bundle = stored.bundle();
    let is_held = faced.bundles.iter().all(|held| *held == bundle);
    Rotation {
        serve: stored.current.as_ref(),
        change: change(stored, is_tidy, is_held, &faced.names, now, lifetimes),
        bundle,
        look_again: look_again(stored, now, lifetimes),
    }
}

fn change(
    stored: &Certificates,
    is_tidy: bool,
    is_held: bool,
    names: &Names,
    now: Timestamp,
    lifetimes: Lifetimes,
) -> Option<Change> {
    let is_valid = |served: &Served| {
        now < served.until() && !lifetimes.is_early(served.pair().not_before(), now)
    };
    let is_usable = |next: &&Next| is_valid(&next.served) && next.served.covers(names);
    let next = stored.next.as_ref().filter(is_usable);
    let Some(current) = stored.current.as_ref().filter(|current| is_valid(current)) else {
        return Some(next.map_or(Change::Make, |_| Change::Promote));
    };
    if let Some(next) = next {
        return next_step(next, current, is_held, names, now, lifetimes);
    }
    if stored.next.is_some() || !current.covers(names) || now >= lifetimes.renewal(current.until())
    {
        return Some(Change::MakeNext);
    }
    let is_over = |old: &Old| has_passed(old.since, now, lifetimes) != Passed::NotYet;
    if stored.old.as_ref().is_some_and(is_over) {
        return Some(Change::Forget);
    }
    (!is_tidy).then_some(Change::Tidy)
}

/// How a next generation comes into use beside one that can still be served.
fn next_step(
    next: &Next,
    current: &Served,
    is_held: bool,
    names: &Names,
    now: Timestamp,
    lifetimes: Lifetimes,
) -> Option<Change> {
    let Some(since) = next.trusted_since else {
        return is_held.then_some(Change::Trust);
    };
    if !is_held {
        return Some(Change::Distrust);
    }
    // calls by a name that the certificate lacks fail now, and all calls fail once it has expired
    let is_urgent = !current.covers(names) || now >= lifetimes.last_moment(current.until());
    match has_passed(since, now, lifetimes) {
        Passed::Yes => Some(Change::Promote),
        Passed::NotYet => is_urgent.then_some(Change::Promote),
        Passed::Never => Some(Change::Trust),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    Yes,
    NotYet,
    /// The beginning lies so far ahead that some clock was wrong.
    Never,
}

/// Whether the overlap has passed since a moment.
fn has_passed(since: Timestamp, now: Timestamp, lifetimes: Lifetimes) -> Passed {
    if now >= after(since, lifetimes.overlap()) {
        Passed::Yes
    } else if since > after(now, lifetimes.overlap() + RESOLUTION) {
        Passed::Never
    } else {
        Passed::NotYet
    }
}

fn look_again(stored: &Certificates, now: Timestamp, lifetimes: Lifetimes) -> Timestamp {
    let Certificates { current, next, old } = stored;
    let current = current.as_ref().map(Served::until);
    let passes = |since| after(since, lifetimes.overlap());
    let moments = [
        current,
        current.map(|until| lifetimes.renewal(until)),
        current.map(|until| lifetimes.last_moment(until)),
        next.as_ref().map(|next| next.served.until()),
        next.as_ref().and_then(|next| next.trusted_since).map(passes),
        old.as_ref().map(|old| passes(old.since)),
    ];
    // where nothing is ahead there is a change to be made, and it is seen
    let ahead = moments.into_iter().flatten().filter(|moment| *moment > now).min();
    ahead.unwrap_or_else(|| after(now, lifetimes.overlap()))
}

impl Change {
    /// Carries it out on what the Secret holds. `make` makes a generation, where one is needed.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn apply<E>(
        self,
        stored: &mut Certificates,
        now: Timestamp,
        make: impl FnOnce() -> Result<Generation, E>,
    ) -> Result<(), E> {
        let begin = after(now, RESOLUTION);
        match self {
            Self::Make => {
                *stored = Certificates { current: make()?.check(), ..Certificates::default() }
            }
            Self::MakeNext => {
                let generation = make()?;
                stored.next = generation.check().map(|served| Next { served, trusted_since: None });
            }
            Self::Trust => trust(stored, Some(begin)),
            Self::Distrust => trust(stored, None),
            Self::Promote => {
                let before = stored.current.take().filter(|before| now < before.until());
                stored.old = before
                    .map(|old| Old { authority: old.texts().authority.clone(), since: begin });
                stored.current = stored.next.take().map(|next| next.served);
            }
            Self::Forget => stored.old = None,
            Self::Tidy => {}
        }
        Ok(())
    }

    /// What it is, for the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Make => "Created a new certificate; it is in use.",
            Self::MakeNext => "Created the next certificate.",
            Self::Trust => "The webhook configurations trust the next certificate.",
            Self::Distrust => {
                "The webhook configurations no longer trust the next certificate; waiting again."
            }
            Self::Promote => "The next certificate is now in use.",
            Self::Forget => "Removed the CA of the previous certificate.",
            Self::Tidy => "Removed unusable data from the certificate Secret.",
        }
    }
}

fn trust(stored: &mut Certificates, since: Option<Timestamp>) {
    if let Some(next) = &mut stored.next {
        next.trusted_since = since;
    }
}
