//! Suspect nodes by chance.

use super::Scene;
use crate::world::rng::Rng;

/// Here everything is in one namespace, and lasts for minutes: a lost node and one more failure make a suspect.
const SETTINGS: &str = "threshold: 51, namespaceShare: 100";

impl Scene {
    /// Switches suspicion on in a quarter of the worlds, or for certain.
    pub(super) fn add_suspicion(&mut self, rng: &mut Rng, all: bool) {
        let effect = match rng.below(if all { 2 } else { 8 }) {
            0 => "Prefer",
            1 => "Require",
            _ => return,
        };
        let settings =
            format!("{{nodeSuspicion: {{effect: {effect}, {SETTINGS}}}, retryPolicy: {{");
        self.config = self.config.replacen("{retryPolicy: {", &settings, 1);
    }

    /// Whether its configuration switches suspicion on.
    #[must_use]
    pub fn has_suspicion(&self) -> bool {
        self.config.contains("nodeSuspicion")
    }
}
