use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

named! {
    /// Phase of an AppWrapper: `status.phase`, and the states of the state machine. In the order of a life.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
    )]
    #[serde(into = "&'static str", try_from = "String")]
    pub enum Phase {
        #[default]
        Empty: "", "Not reconciled yet; \"\" on the wire.";
        Suspended: "Suspended", "Nothing is deployed; waits for `suspend: false`.";
        Resuming: "Resuming", "Its components are being created.";
        Running: "Running", "Its components exist and are watched.";
        Resetting: "Resetting", "All resources are being deleted and will be recreated; the quota stays reserved.";
        Suspending: "Suspending", "Everything is being deleted because `suspend` is true.";
        Succeeded: "Succeeded", "Done; the components are kept for `successTTL`.";
        Failed: "Failed", "Failed for good; the components are deleted, then the quota is released.";
        Terminating: "Terminating", "The AppWrapper is being deleted, and with it all that it created.";
    }
}

/// A phase that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown phase {0:?}: expected one of {known}", known = Phase::ALL.map(Phase::as_str).join(", "))]
pub struct UnknownPhase(pub String);

impl Phase {
    /// The same, with a word for the empty phase.
    #[must_use]
    pub const fn name_or(self, empty: &'static str) -> &'static str {
        if matches!(self, Self::Empty) { empty } else { self.as_str() }
    }

    /// Whether components are to exist, and are decided about.
    #[must_use]
    pub const fn runs_components(self) -> bool {
        match self {
            Self::Resuming | Self::Running => true,
            Self::Empty
            | Self::Suspended
            | Self::Resetting
            | Self::Suspending
            | Self::Succeeded
            | Self::Failed
            | Self::Terminating => false,
        }
    }

    /// For `skip_serializing_if`: the Go project leaves an empty phase out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::Empty
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<Phase> for &'static str {
    fn from(phase: Phase) -> Self {
        phase.as_str()
    }
}

impl FromStr for Phase {
    type Err = UnknownPhase;

    fn from_str(text: &str) -> Result<Self, UnknownPhase> {
        Self::ALL
            .into_iter()
            .find(|phase| phase.as_str() == text)
            .ok_or_else(|| UnknownPhase(text.to_owned()))
    }
}

impl TryFrom<String> for Phase {
    type Error = UnknownPhase;

    fn try_from(text: String) -> Result<Self, UnknownPhase> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_survives_the_wire() {
        for phase in Phase::ALL {
            let json = serde_json::to_string(&phase).unwrap();
            assert_eq!(json, format!("\"{phase}\""));
            assert_eq!(serde_json::from_str::<Phase>(&json).unwrap(), phase);
        }
    }

    #[test]
    fn an_unknown_phase_is_an_error_that_lists_the_known_ones() {
        let error = serde_json::from_str::<Phase>("\"Paused\"").unwrap_err().to_string();
        assert!(error.contains("unknown phase \"Paused\""), "{error}");
        assert!(error.contains("Suspended, Resuming"), "{error}");
    }
}
