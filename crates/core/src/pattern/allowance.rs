use super::weigh::{self, CLASSES_MAX};
use super::{Pattern, PatternError, Price};

/// What is left of what the patterns of one object may cost together.
///
/// The cheapest bounds are asked first, and nothing that is over one of them is read any further: what
/// is asked of an object costs no more than a dearest one that is let in.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    patterns: usize,
    text_bytes: usize,
    spent: Price,
}

impl Allowance {
    /// The most patterns of one object, in all its rules.
    pub const PATTERNS_MAX: usize = 100;
    /// The most bytes of their texts.
    pub const TEXT_BYTES_MAX: usize = 16 << 10;
    /// The most steps that they have, as [`Price::steps`].
    pub const STEPS_MAX: u64 = 1_024;
    /// The most bytes that they compile to.
    pub const COMPILED_BYTES_MAX: u64 = 1 << 20;

    /// Counts a pattern, by the length of its text alone.
    ///
    /// # Errors
    /// There is nothing left for it.
    pub fn count(&mut self, text: &str) -> Result<(), PatternError> {
        self.patterns = self.patterns.saturating_add(1);
        if self.patterns > Self::PATTERNS_MAX {
            return Err(PatternError::TooMany);
        }
        self.text_bytes = self.text_bytes.saturating_add(text.len());
        if self.text_bytes > Self::TEXT_BYTES_MAX {
            return Err(PatternError::TextTogether(self.text_bytes));
        }
        Ok(())
    }

    /// Takes what a pattern costs by its syntax; nothing is compiled.
    ///
    /// # Errors
    /// It is no pattern, or there is not enough left for it. Then nothing is taken.
    pub fn take(&mut self, text: &str) -> Result<(), PatternError> {
        // reading is what the classes make dear: what was spent so far is enough to say no
        if self.spent.classes >= CLASSES_MAX {
            return Err(PatternError::ClassesTogether);
        }
        let price = weigh::price(text)?;
        let sum = Price {
            steps: self.spent.steps.saturating_add(price.steps),
            bytes: self.spent.bytes.saturating_add(price.bytes),
            classes: self.spent.classes.saturating_add(price.classes),
        };
        self.spent.classes = sum.classes;
        if sum.classes > CLASSES_MAX {
            return Err(PatternError::ClassesTogether);
        }
        if usize::try_from(price.bytes).map_or(true, |bytes| bytes > Pattern::COMPILED_BYTES_MAX) {
            return Err(PatternError::TooBig);
        }
        if sum.steps > Self::STEPS_MAX {
            return Err(PatternError::StepsTogether(sum.steps));
        }
        if sum.bytes > Self::COMPILED_BYTES_MAX {
            return Err(PatternError::SizeTogether(sum.bytes.div_ceil(1024)));
        }
        self.spent = sum;
        Ok(())
    }

    /// Counts a pattern and takes what it costs.
    ///
    /// # Errors
    /// It is no pattern, or there is not enough left for it.
    pub fn admit(&mut self, text: &str) -> Result<(), PatternError> {
        self.count(text)?;
        self.take(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(texts: impl IntoIterator<Item = String>) -> (usize, Option<PatternError>) {
        let mut allowance = Allowance::default();
        let mut count = 0;
        for text in texts {
            match allowance.admit(&text) {
                Ok(()) => count += 1,
                Err(error) => return (count, Some(error)),
            }
        }
        (count, None)
    }

    #[test]
    fn an_object_has_so_much_for_all_its_patterns() {
        let plain = |i: usize| format!("quota of project {i} exceeded");
        assert_eq!(admitted((0..100).map(plain)), (100, None));
        assert_eq!(admitted((0..101).map(plain)), (100, Some(PatternError::TooMany)));
        let long = |_| "x".repeat(512);
        assert_eq!(admitted((0..40).map(long)), (32, Some(PatternError::TextTogether(16_896))));
        let usual = |i: usize| format!("node {i}.* (drained|lost)");
        assert_eq!(admitted((0..50).map(usual)).0, 50);
        let steps = |i: usize| format!("[ab]*a[ab]{{300}}{i}");
        assert_eq!(admitted((0..10).map(steps)), (3, Some(PatternError::StepsTogether(1212))));
        let words = |i: usize| format!(r"\w{{5}}{i}");
        let (count, error) = admitted((0..64).map(words));
        assert!((6..20).contains(&count), "{count}");
        assert!(matches!(error, Some(PatternError::SizeTogether(_))), "{error:?}");
        let classes = |i: usize| format!(r"(?i)[\s\S]{i}");
        assert_eq!(admitted((0..9).map(classes)), (1, Some(PatternError::ClassesTogether)));
    }

    #[test]
    fn a_failure_says_what_is_allowed() {
        for (error, want) in [
            (PatternError::TooMany, "must have at most 100 patterns in all rules combined"),
            (PatternError::TooBig, "must compile to at most 256 KiB: reduce its repetitions"),
            (
                PatternError::TextTogether(20_000),
                "patterns must be at most 16384 bytes in all rules combined, but are 20000 with this one",
            ),
            (
                PatternError::SizeTogether(2048),
                "patterns must compile to at most 1024 KiB in all rules combined, but compile to 2048 KiB with this one: reduce classes such as \\w and their repetitions",
            ),
        ] {
            assert_eq!(error.to_string(), want);
        }
    }
}
