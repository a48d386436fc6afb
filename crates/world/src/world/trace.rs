//! What happened, as one line an event; and the hash of all of it.

use std::time::Duration;

use super::rng::{mix, mix_text};

/// The events of a run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    lines: Option<Vec<String>>,
    hash: u64,
    /// How many events there were.
    pub steps: u64,
}

impl Trace {
    /// A trace that keeps its lines.
    #[must_use]
    pub fn kept() -> Self {
        Self { lines: Some(vec![]), ..Self::default() }
    }

    /// Whether the lines are kept.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        self.lines.is_some()
    }

    /// The lines.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    /// The lines so far, to be handed on.
    pub fn drain(&mut self) -> Vec<String> {
        self.lines.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The hash of all events.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// Notes an event: what it is, about what, and numbers that make it unique.
    pub fn note(&mut self, at: Duration, what: &'static str, about: &str, numbers: &[u64]) {
        self.hash = mix(self.hash, at.subsec_millis().into());
        self.hash = mix_text(mix(self.hash, at.as_secs()), what);
        self.hash = mix_text(self.hash, about);
        for number in numbers {
            self.hash = mix(self.hash, *number);
        }
        if let Some(lines) = &mut self.lines {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            lines.push(format!(
                "{:>12.3}  {what:<12} {about} {}",
                at.as_secs_f64(),
                numbers.join(" ")
            ));
        }
    }

    /// Notes a detail that the hash need not know, because other events tell it.
    pub fn detail(&mut self, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>12}  {}", "", text()));
        }
    }
}
