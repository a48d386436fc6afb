//! What can go wrong, by the numbers of the fault catalogue.
//!
//! | fault | here |
//! |---|---|
//! | F1 crash | [`Fault::Crash`] before, during and after each call |
//! | F2 reply lost | [`Fault::Lost`] |
//! | F3 generateName | names are fixed; a crash after a create is F1 |
//! | F4 hidden retries, hung sockets | [`Fault::Late`]: a write is applied long after its caller gave up |
//! | F5 cache behind own write | [`Fault::Lag`] |
//! | F6 pods that the cache hides | [`Fault::Lag`] of the pods |
//! | F7 lists that fail, partial pages | [`Fault::Refuse`], also with 410; lists come in pages of one |
//! | F8 watch drop, 410 | [`Fault::Relist`] |
//! | F9 back in time | [`Fault::Stale`] |
//! | F10 skipped, repeated, reordered | [`Fault::Skip`], [`Fault::Repeat`]; kinds are delivered in any order |
//! | F11 conflicts | [`Fault::Refuse`] with 409, and real ones with Kueue and the user |
//! | F12, F13 names in use | [`Fault::Stranger`] |
//! | F14 created again by the same name | [`Fault::User`] |
//! | F15 a finalizer of others | [`Fault::Finalizer`] |
//! | F16 stuck pods | [`Fault::Stuck`] |
//! | F17 lost nodes | [`Fault::Node`] |
//! | F18–F20 pods that fail, late, after success, fast | [`Fault::Pod`] |
//! | F21 clocks | [`Fault::Clock`] |
//! | F22, F23 two leaders | [`Fault::Leader`] |
//! | F24, F25 429, outages | [`Fault::Refuse`], [`Fault::Outage`] |
//! | F26 our webhook down | the webhook does not run here; half of the worlds refuse late creates |
//! | F27 other admission | [`Fault::Refuse`] with 403 of a quota on a create |
//! | F28–F32 suspension, deletion at any time | [`Fault::User`], [`Fault::Kueue`] |
//! | F33 Kueue frees quota on delete | Kueue's own fault; this world's Kueue waits for the object's end |
//! | F34 foreground, orphan | [`Fault::User`] deletes so too |
//! | F35 edits | [`Fault::User`] |
//! | F36 kinds that go | [`Fault::Kind`] |
//! | F37 namespace terminating | [`Fault::Namespace`] |
//! | F38, F39 poison | [`Fault::Poison`] |
//! | F40 many | a benchmark, not a simulation: the worlds here are small |
//! | F41 other versions | unknown status fields are in some worlds ([`Fault::Poison`]) |
//! | F42 panic | a panic of the controller ends the run as a violation |
//! | F43 preemption storm | [`Fault::Kueue`] |
//! | F44 event sink | [`Fault::Events`] |
//! | a hostile tenant | [`Fault::Adversary`]: see `world/adversary` |

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The process dies and starts again with an empty memory.
    Crash,
    /// A call is applied, and its reply is lost.
    Lost,
    /// A call fails, and is applied later all the same.
    Late,
    /// A call is refused: 401, 409, 410, 429, 403, 500, 503, 504.
    Refuse,
    /// Every call fails for a while.
    Outage,
    /// A watch falls behind.
    Lag,
    /// A watch starts again with a list.
    Relist,
    /// A watch starts again from an older state.
    Stale,
    /// A watch leaves out states that newer ones have replaced.
    Skip,
    /// A watch tells again what it told before.
    Repeat,
    /// A second replica leads while the first still believes that it does.
    Leader,
    /// The clock of a process jumps.
    Clock,
    /// Pods fail, hang, are evicted or deleted.
    Pod,
    /// Pods do not go when they are deleted.
    Stuck,
    /// Nodes die, come back, are deleted, are marked.
    Node,
    /// Somebody else's finalizer holds an object.
    Finalizer,
    /// Somebody else's objects have our names and labels.
    Stranger,
    /// A user suspends, resumes, edits, deletes, creates again.
    User,
    /// Kueue preempts, and evicts what is not ready.
    Kueue,
    /// A kind is not served for a while.
    Kind,
    /// Nothing new can be created in the namespace for a while.
    Namespace,
    /// An AppWrapper that cannot be read, and fields that nobody knows.
    Poison,
    /// Events are not accepted.
    Events,
    /// A tenant forges labels, owners and status, floods, and changes its mind; in every tenth world.
    Adversary,
}

impl Fault {
    /// Every kind of fault.
    pub const ALL: [Self; 24] = [
        Self::Crash,
        Self::Lost,
        Self::Late,
        Self::Refuse,
        Self::Outage,
        Self::Lag,
        Self::Relist,
        Self::Stale,
        Self::Skip,
        Self::Repeat,
        Self::Leader,
        Self::Clock,
        Self::Pod,
        Self::Stuck,
        Self::Node,
        Self::Finalizer,
        Self::Stranger,
        Self::User,
        Self::Kueue,
        Self::Kind,
        Self::Namespace,
        Self::Poison,
        Self::Events,
        Self::Adversary,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Lost => "lost",
            Self::Late => "late",
            Self::Refuse => "refuse",
            Self::Outage => "outage",
            Self::Lag => "lag",
            Self::Relist => "relist",
            Self::Stale => "stale",
            Self::Skip => "skip",
            Self::Repeat => "repeat",
            Self::Leader => "leader",
            Self::Clock => "clock",
            Self::Pod => "pod",
            Self::Stuck => "stuck",
            Self::Node => "node",
            Self::Finalizer => "finalizer",
            Self::Stranger => "stranger",
            Self::User => "user",
            Self::Kueue => "kueue",
            Self::Kind => "kind",
            Self::Namespace => "namespace",
            Self::Poison => "poison",
            Self::Events => "events",
            Self::Adversary => "adversary",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The kinds of fault that may happen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(pub BTreeSet<Fault>);

/// A list of faults that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown fault {0:?}: expected all, none, or a list of {known}", known = names().join(", "))]
pub struct UnknownFault(String);

fn names() -> Vec<&'static str> {
    Fault::ALL.iter().map(|fault| fault.as_str()).collect()
}

impl Faults {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Self(Fault::ALL.into())
    }

    /// Whether a kind of fault may happen.
    #[must_use]
    pub fn has(&self, fault: Fault) -> bool {
        self.0.contains(&fault)
    }
}

impl FromStr for Faults {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        match text.trim() {
            "all" => return Ok(Self::all()),
            "none" => return Ok(Self::default()),
            _ => {}
        }
        let known = |name: &str| {
            let mut all = Fault::ALL.into_iter();
            all.find(|fault| fault.as_str() == name).ok_or_else(|| UnknownFault(name.to_owned()))
        };
        text.split(',').map(|name| known(name.trim())).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        if self.0.len() == Fault::ALL.len() {
            return f.write_str("all");
        }
        let names: Vec<&str> = self.0.iter().map(|fault| fault.as_str()).collect();
        f.write_str(&names.join(","))
    }
}

/// When a planned fault strikes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Before it reaches the API server.
    Before,
    /// When it is applied and its reply is on the way.
    Lost,
    /// When its reply has come.
    After,
}

/// What a planned fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The process dies.
    Crash,
    /// The API server answers with this code; after a reply, to all calls for a while.
    Code(u16),
    /// Another replica takes over, and the old leader goes on later.
    Leader,
}

/// One planned fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultPlan {
    /// Index of the call.
    pub call: u32,
    /// When.
    pub moment: Moment,
    /// What.
    pub effect: Effect,
}

impl FaultPlan {
    /// Every plan for a run of so many calls.
    pub fn all(calls: u32) -> impl Iterator<Item = Self> {
        let moments = [Moment::Before, Moment::Lost, Moment::After];
        let effects = [
            Effect::Crash,
            Effect::Code(409),
            Effect::Code(429),
            Effect::Code(504),
            Effect::Leader,
        ];
        (0..calls).flat_map(move |call| {
            moments.into_iter().flat_map(move |moment| {
                effects.into_iter().map(move |effect| Self { call, moment, effect })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_faults_are_read_back_as_they_are_written() {
        for text in ["all", "none", "crash", "lost,pod,node"] {
            assert_eq!(text.parse::<Faults>().unwrap().to_string(), text);
        }
        let error = "crash,craash".parse::<Faults>().unwrap_err().to_string();
        assert!(
            error.contains("unknown fault \"craash\"") && error.contains("crash, lost"),
            "{error}"
        );
        assert_eq!(FaultPlan::all(2).count(), 2 * 3 * 5);
    }
}
