use std::sync::OnceLock;

use crate::config::{Pattern, PatternError};

/// A pattern that is compiled when it is first asked: most AppWrappers never fail.
#[derive(Clone, Debug)]
pub struct LazyPattern {
    text: String,
    compiled: OnceLock<Result<Pattern, PatternError>>,
}

impl LazyPattern {
    /// A pattern that is not compiled yet.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self { text, compiled: OnceLock::new() }
    }

    /// Whether it matches anywhere in the text; one that does not compile never does.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.compiled().as_ref().is_ok_and(|pattern| pattern.is_match(text))
    }

    /// Why it does not compile, where it does not.
    #[must_use]
    pub fn flaw(&self) -> Option<&PatternError> {
        self.compiled().as_ref().err()
    }

    /// The text that it was made from.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn compiled(&self) -> &Result<Pattern, PatternError> {
        self.compiled.get_or_init(|| Pattern::new(&self.text))
    }
}

impl PartialEq for LazyPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for LazyPattern {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_does_not_compile_matches_nothing_and_says_why() {
        let good = LazyPattern::new("CUDA".into());
        assert!(good.is_match("a CUDA error") && good.flaw().is_none());
        let bad = LazyPattern::new("(".into());
        assert!(!bad.is_match("(") && bad.flaw().is_some());
    }
}
