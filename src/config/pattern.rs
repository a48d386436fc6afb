use std::fmt;

use regex::{Regex, RegexBuilder};

use crate::limits::shortened;

/// A regular expression whose text and memory are bounded, searched anywhere in a message.
///
/// The engine runs in time linear in the message, so that no pattern is a trap.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

/// Why a text is no [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is empty, and would match everything.
    #[error("must not be empty: it would match every message")]
    Empty,
    /// It is over [`Pattern::BYTES_MAX`].
    #[error("must be at most {max} bytes, and is {0}", max = Pattern::BYTES_MAX)]
    TooLong(usize),
    /// The compiled expression is over [`Pattern::COMPILED_BYTES_MAX`].
    #[error("must compile to at most 1 MiB: lessen its repetitions")]
    TooBig,
    /// It is no regular expression.
    #[error("must be a regular expression of the Rust crate regex: {0}")]
    Malformed(String),
}

impl Pattern {
    /// The longest text of a pattern.
    pub const BYTES_MAX: usize = 512;
    /// The most memory that a compiled pattern may take.
    pub const COMPILED_BYTES_MAX: usize = 1 << 20;

    /// Compiles a pattern.
    ///
    /// # Errors
    /// The text is empty, too long, too big when compiled, or no regular expression.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text.len() > Self::BYTES_MAX {
            return Err(PatternError::TooLong(text.len()));
        }
        let compiled = RegexBuilder::new(text)
            .size_limit(Self::COMPILED_BYTES_MAX)
            .dfa_size_limit(Self::COMPILED_BYTES_MAX)
            .build();
        compiled.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => PatternError::TooBig,
            other => PatternError::Malformed(reason(&other.to_string())),
        })
    }

    /// Whether it matches anywhere in the text.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// The text that it was made from.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Pattern {}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The last line says what is wrong; those before it draw the pattern with carets under it.
fn reason(error: &str) -> String {
    let line = error.lines().last().unwrap_or_default().trim();
    shortened(line.strip_prefix("error: ").unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_searched_anywhere() {
        let pattern = Pattern::new("CUDA error").unwrap();
        assert!(pattern.is_match("fatal: CUDA error 700"));
        assert!(!pattern.is_match("cuda error"));
        assert_eq!(pattern, Pattern::new("CUDA error").unwrap());
    }

    #[test]
    fn patterns_are_bounded() {
        assert_eq!(Pattern::new(""), Err(PatternError::Empty));
        assert_eq!(Pattern::new(&"a".repeat(513)), Err(PatternError::TooLong(513)));
        assert!(Pattern::new(&"a".repeat(512)).is_ok());
        assert_eq!(Pattern::new("(?:a{1000}){1000}"), Err(PatternError::TooBig));
        assert_eq!(Pattern::new("("), Err(PatternError::Malformed("unclosed group".to_owned())));
        assert!(matches!(Pattern::new("(?=a)"), Err(PatternError::Malformed(_))));
    }

    #[test]
    fn no_pattern_is_a_trap() {
        let pattern = Pattern::new("(a+)+$").unwrap();
        assert!(!pattern.is_match(&format!("{}b", "a".repeat(1 << 20))));
    }
}
