//! Regular expressions that strangers write: what they cost is known before they are compiled, they are
//! compiled when they are first asked, and what is kept of them fits into one budget of the process.
//!
//! ```text
//! text ─▶ weigh   the syntax alone: steps, bytes, classes ─▶ Allowance   what one object may have
//!   └───▶ program one automaton ─▶ kept   the programs asked last, 16 MiB of them
//! ```

mod allowance;
mod kept;
mod program;
mod weigh;

use std::fmt;
use std::sync::Arc;

pub use allowance::Allowance;
pub use kept::BYTES_MAX as KEPT_BYTES_MAX;
pub use weigh::Price;

use crate::tuning::shortened;

/// A regular expression whose text, size and time are bounded, searched anywhere in a message.
///
/// It holds the text alone: the compiled form is made when it is first asked, and dropped when others
/// need the room.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern(Arc<str>);

/// Why a text is no [`Pattern`], or is one too many for its object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is empty, and would match everything.
    #[error("must not be empty: it would match every message")]
    Empty,
    /// It is over [`Pattern::BYTES_MAX`].
    #[error("must be at most {max} bytes, and is {0}", max = Pattern::BYTES_MAX)]
    TooLong(usize),
    /// The compiled expression is over [`Pattern::COMPILED_BYTES_MAX`].
    #[error("must compile to at most {} KiB: reduce its repetitions", Pattern::COMPILED_BYTES_MAX >> 10)]
    TooBig,
    /// It is no regular expression.
    #[error("must be a valid regular expression of the Rust crate regex: {0}")]
    Malformed(String),
    /// The object has more than [`Allowance::PATTERNS_MAX`].
    #[error("must have at most {} patterns in all rules combined", Allowance::PATTERNS_MAX)]
    TooMany,
    /// The texts of the object are over [`Allowance::TEXT_BYTES_MAX`].
    #[error(
        "patterns must be at most {most} bytes in all rules combined, but are {0} with this one",
        most = Allowance::TEXT_BYTES_MAX
    )]
    TextTogether(usize),
    /// The patterns of the object are over [`Allowance::STEPS_MAX`].
    #[error(
        "patterns must have at most {most} steps in all rules combined, but have {0} with this one: a \
         step is a character or class, times its repetitions; a pattern without special characters has \
         none",
        most = Allowance::STEPS_MAX
    )]
    StepsTogether(u64),
    /// The patterns of the object are over [`Allowance::COMPILED_BYTES_MAX`].
    #[error(
        "patterns must compile to at most {most} KiB in all rules combined, but compile to {0} KiB with \
         this one: reduce classes such as \\w and their repetitions",
        most = Allowance::COMPILED_BYTES_MAX >> 10
    )]
    SizeTogether(u64),
    /// The classes of the object's patterns take too long to read.
    #[error(
        "classes are too many or too wide in all rules combined: reduce negated classes, \\p{{…}} and \
         wide ranges with (?i)"
    )]
    ClassesTogether,
}

impl Pattern {
    /// The longest text of a pattern.
    pub const BYTES_MAX: usize = 512;
    /// The most memory that a compiled pattern may take.
    pub const COMPILED_BYTES_MAX: usize = 256 << 10;
    /// The deepest nesting of groups, repetitions and classes.
    const LEVELS_MAX: u32 = 32;

    /// A checked pattern, as one that is alone in its object.
    ///
    /// # Errors
    /// The text is empty, too long, too big when compiled, or no regular expression.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        Allowance::default().admit(text)?;
        compile(text)?;
        Ok(Self::unchecked(text))
    }

    /// A pattern that nobody has checked: one that cannot be compiled matches nothing.
    #[must_use]
    pub fn unchecked(text: &str) -> Self {
        Self(text.into())
    }

    /// Whether it matches anywhere in the text.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        kept::program(&self.0).is_ok_and(|program| program.is_match(text))
    }

    /// What it costs, told from its syntax: nothing is compiled.
    ///
    /// # Errors
    /// The text is empty, too long, or no regular expression.
    pub fn price(&self) -> Result<Price, PatternError> {
        weigh::price(&self.0)
    }

    /// The text that it was made from.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Compiles a pattern, to see that it can be; nothing is kept.
///
/// # Errors
/// It is over one of the bounds of a pattern, or no regular expression.
pub fn compile(text: &str) -> Result<(), PatternError> {
    program::Program::compile(text).map(drop)
}

impl PatternError {
    /// Whether it is about all patterns of an object, and not about this one.
    #[must_use]
    pub const fn is_of_all(&self) -> bool {
        match self {
            Self::Empty | Self::TooLong(_) | Self::TooBig | Self::Malformed(_) => false,
            Self::TooMany
            | Self::TextTogether(_)
            | Self::StepsTogether(_)
            | Self::SizeTogether(_)
            | Self::ClassesTogether => true,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The last line says what is wrong; those before it draw the pattern with carets under it.
fn malformed(error: &impl fmt::Display) -> PatternError {
    let error = error.to_string();
    let line = error.lines().last().unwrap_or_default().trim();
    PatternError::Malformed(shortened(line.strip_prefix("error: ").unwrap_or(line)))
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
        for (text, message, want) in [
            ("^node .* (drained|lost)$", "node n-1 was drained", true),
            ("^node .* (drained|lost)$", "a node n-1 was drained", false),
            (r"(?i)cuda\s+error \d{3}", "CUDA  Error 700", true),
            (r"\bfoo\b", "é foo é", true),
            (r"\bfoo\b", "éfooé", false),
            (r"x*", "", true),
            ("é", "caf\u{e9}", true),
        ] {
            assert_eq!(Pattern::new(text).unwrap().is_match(message), want, "{text}");
        }
        assert!(!Pattern::unchecked("(").is_match("("));
    }

    #[test]
    fn patterns_are_bounded() {
        assert_eq!(Pattern::new(""), Err(PatternError::Empty));
        assert_eq!(Pattern::new(&"a".repeat(513)), Err(PatternError::TooLong(513)));
        assert!(Pattern::new(&"a".repeat(512)).is_ok());
        assert_eq!(Pattern::new("("), Err(PatternError::Malformed("unclosed group".to_owned())));
        assert!(matches!(Pattern::new("(?=a)"), Err(PatternError::Malformed(_))));
        assert_eq!(Pattern::new(r"\w{19}0_1"), Err(PatternError::TooBig));
        let deep = "(".repeat(40) + &")".repeat(40);
        assert!(matches!(Pattern::new(&deep), Err(PatternError::Malformed(_))));
    }

    /// As the crate regex reads it, and no Unicode class needs more than it is said to.
    #[test]
    fn no_pattern_is_a_trap() {
        for text in ["(?:a{1000}){1000}", "(?:a?b?){1000}", r"(?i)[\P{L}\P{N}x][[^a]b]"] {
            assert!(Pattern::new(text).is_err(), "{text}");
        }
        let pattern = Pattern::new("(a+)+$").unwrap();
        assert!(!pattern.is_match(&format!("{}b", "a".repeat(1 << 20))));
    }
}
