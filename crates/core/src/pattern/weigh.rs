//! What a pattern costs, told from its syntax.
//!
//! Steps bound the time of a search: after each byte of a message at most so many places in the pattern
//! are open, whatever the message is. Bytes bound the compiled form and the time of compiling. Classes
//! bound the time of reading the syntax itself: where case is ignored, each wide class is gone through
//! character by character.

use regex_syntax::ast::{
    self, Ast, ClassPerl, ClassSetItem, Flag, FlagsItemKind, GroupKind, Visitor,
};
use regex_syntax::hir::translate::Translator;
use regex_syntax::hir::{Class, Hir, HirKind};

use super::{Pattern, PatternError, malformed};

/// What a pattern costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// Places that can be open at once: characters and classes, times their repetitions. None where
    /// the pattern is a plain text.
    pub steps: u64,
    /// The most bytes of the compiled form.
    pub bytes: u64,
    /// How much the classes cost to be read; 1 is about 5 µs.
    pub classes: u64,
}

/// The weight of a class that is gone through character by character.
const WIDE: u64 = 1_000;
/// The most a pattern's classes may cost; more is not read any further.
pub(super) const CLASSES_MAX: u64 = 1_024;

/// Bytes of a state that takes one byte, and of a class's bounds.
const STATE_BYTES: u64 = 48;
/// Bytes for each range of characters of a class that is not ASCII.
const RANGE_BYTES: u64 = 32;
/// Bytes of what such a class has around its ranges.
const CLASS_BYTES: u64 = 400;

pub(super) fn price(text: &str) -> Result<Price, PatternError> {
    syntax(text).map(|(_, price)| price)
}

/// Reads a pattern, bounds first.
pub(super) fn syntax(text: &str) -> Result<(Hir, Price), PatternError> {
    if text.is_empty() {
        return Err(PatternError::Empty);
    }
    if text.len() > Pattern::BYTES_MAX {
        return Err(PatternError::TooLong(text.len()));
    }
    let mut parser = ast::parse::ParserBuilder::new().nest_limit(Pattern::LEVELS_MAX).build();
    let ast = parser.parse(text).map_err(|error| malformed(&error))?;
    let classes = classes(&ast);
    if classes > CLASSES_MAX {
        return Err(PatternError::ClassesTogether);
    }
    let hir = Translator::new().translate(text, &ast).map_err(|error| malformed(&error))?;
    let mut price = Price { classes, ..weigh(&hir) };
    if matches!(hir.kind(), HirKind::Literal(_)) {
        price.steps = 0;
    } else if hir.properties().look_set().contains_word_unicode() {
        // a slower search, where the message is not ASCII
        price.steps = price.steps.saturating_mul(4);
    }
    Ok((hir, price))
}

/// Recursion is bounded by the nesting that the parser allows.
fn weigh(hir: &Hir) -> Price {
    let sum = |all: &[Hir]| {
        let more = |sum: Price, each: &Hir| {
            let price = weigh(each);
            Price {
                steps: sum.steps.saturating_add(price.steps),
                bytes: sum.bytes.saturating_add(price.bytes).saturating_add(STATE_BYTES),
                classes: 0,
            }
        };
        all.iter().fold(Price::default(), more)
    };
    match hir.kind() {
        HirKind::Empty => Price { bytes: STATE_BYTES, ..Price::default() },
        HirKind::Look(_) => Price { steps: 1, bytes: STATE_BYTES, classes: 0 },
        HirKind::Literal(literal) => {
            let count = wide(literal.0.len());
            Price { steps: count, bytes: count.saturating_mul(STATE_BYTES), classes: 0 }
        }
        HirKind::Class(class) => {
            let bytes = match class {
                Class::Unicode(class) if !class.is_ascii() => {
                    CLASS_BYTES.saturating_add(wide(class.ranges().len()) * RANGE_BYTES)
                }
                Class::Unicode(class) => STATE_BYTES + wide(class.ranges().len()) * 8,
                Class::Bytes(class) => STATE_BYTES + wide(class.ranges().len()) * 8,
            };
            Price { steps: 1, bytes, classes: 0 }
        }
        HirKind::Repetition(repetition) => {
            let Price { steps, bytes, .. } = weigh(&repetition.sub);
            let times = u64::from(repetition.max.unwrap_or_else(|| repetition.min.max(1)));
            Price {
                steps: steps.saturating_mul(times),
                bytes: bytes.saturating_add(2 * STATE_BYTES).saturating_mul(times.max(1)),
                classes: 0,
            }
        }
        HirKind::Capture(capture) => weigh(&capture.sub),
        HirKind::Concat(all) | HirKind::Alternation(all) => sum(all),
    }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// What reading the classes costs.
fn classes(ast: &Ast) -> u64 {
    // it never fails: it only counts
    ast::visit(ast, Classes::default()).unwrap_or(u64::MAX)
}

#[derive(Default)]
struct Classes {
    /// Brackets that are open.
    depth: u64,
    ignores_case: bool,
    /// The sum where case matters, and where it does not.
    plain: u64,
    folded: u64,
}

impl Classes {
    fn add(&mut self, plain: u64, folded: u64) {
        let times = self.depth.max(1);
        self.plain = self.plain.saturating_add(plain.saturating_mul(times));
        self.folded = self.folded.saturating_add(folded.saturating_mul(times));
    }

    fn flags(&mut self, flags: &ast::Flags) {
        let ignores =
            |item: &ast::FlagsItem| item.kind == FlagsItemKind::Flag(Flag::CaseInsensitive);
        self.ignores_case |= flags.items.iter().any(ignores);
    }

    fn perl(&mut self, class: &ClassPerl) {
        // outside of brackets it is as it is, whatever the case
        let folded = if self.depth > 0 && class.negated { WIDE } else { 4 };
        self.add(1, folded);
    }
}

impl Visitor for Classes {
    type Output = u64;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<u64, Self::Err> {
        Ok(if self.ignores_case { self.folded } else { self.plain })
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        match ast {
            Ast::Flags(flags) => self.flags(&flags.flags),
            Ast::Group(group) => {
                if let GroupKind::NonCapturing(flags) = &group.kind {
                    self.flags(flags);
                }
            }
            Ast::ClassUnicode(_) => self.add(1, WIDE),
            Ast::ClassPerl(class) => self.perl(class),
            Ast::ClassBracketed(_) => self.depth += 1,
            Ast::Empty(_)
            | Ast::Literal(_)
            | Ast::Dot(_)
            | Ast::Assertion(_)
            | Ast::Repetition(_)
            | Ast::Alternation(_)
            | Ast::Concat(_) => {}
        }
        Ok(())
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        if matches!(ast, Ast::ClassBracketed(_)) {
            self.depth -= 1;
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        match item {
            ClassSetItem::Range(range) => {
                let width = u32::from(range.end.c).saturating_sub(u32::from(range.start.c));
                self.add(0, 1 + u64::from(width / 64).min(WIDE));
            }
            ClassSetItem::Ascii(class) => self.add(0, if class.negated { WIDE } else { 1 }),
            ClassSetItem::Unicode(_) => self.add(1, WIDE),
            ClassSetItem::Perl(class) => self.perl(class),
            ClassSetItem::Bracketed(class) => {
                self.depth += 1;
                self.add(1, if class.negated { WIDE } else { 1 });
            }
            ClassSetItem::Empty(_) | ClassSetItem::Literal(_) | ClassSetItem::Union(_) => {}
        }
        Ok(())
    }

    fn visit_class_set_item_post(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        if matches!(item, ClassSetItem::Bracketed(_)) {
            self.depth -= 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::program::Program;
    use super::*;

    #[test]
    fn steps_count_what_can_be_open_at_once() {
        for (text, steps) in [
            ("CUDA error", 0),
            ("node .* (drained|lost)", 18),
            (r"\w{19}0_1", 22),
            ("[ab]*a[ab]{500}c", 503),
            ("(?:a?b?){500}c", 1001),
            (r"\bfoo", 16),
            ("a{0}b|c", 1),
        ] {
            assert_eq!(price(text).map(|price| price.steps), Ok(steps), "{text}");
        }
    }

    /// Each takes many milliseconds to read.
    #[test]
    fn classes_that_take_long_to_read_are_not_read() {
        for text in [
            &"(?i)[[:^alpha:]a-z]".repeat(3),
            r"(?i)[\x{0}-\x{10FFFF}][\x{0}-\x{10FFFF}][\x{0}-\x{10FFFF}]",
            r"(?i)[[[[\S]a]b]c]",
            r"(?i)[[^a]b][[^a]b][[^a]b]",
            r"\p{Any}(?i:x)\p{Any}\p{Any}",
        ] {
            assert_eq!(price(text), Err(PatternError::ClassesTogether), "{text}");
        }
        for text in [r"(?i)error[\s\S]*\w+: [a-z0-9_-]+", r"[^\w\s]+\P{L}", &r"\W".repeat(200)] {
            assert!(price(text).is_ok(), "{text}");
        }
    }

    fn fits(text: &str) -> Result<(), TestCaseError> {
        let Ok(price) = price(text) else { return Ok(()) };
        match Program::compile(text) {
            Ok(program) => prop_assert!(
                wide(program.bytes()) <= price.bytes + 1024,
                "{text}: {} bytes, and {price:?}",
                program.bytes()
            ),
            Err(error) => {
                prop_assert!(price.bytes > wide(Pattern::COMPILED_BYTES_MAX), "{text}: {error}");
            }
        }
        Ok(())
    }

    #[test]
    fn the_compiled_form_is_no_bigger_than_its_price() {
        for text in [
            r"\w+",
            r"\d+",
            r"\W",
            ".",
            "(?s:.)",
            "[^a]",
            r"\s",
            r"\w{3}z",
            "[ab]*a[ab]{500}c",
            "(?:a?b?){500}c",
            "(?:.?){200}c",
            "(?:(?:a?b?)*){100}c",
            r"(?i)ßſK\w[^x]",
            "a|b|cd|",
            r"\bfoo\b$",
            r"[\p{Greek}--\p{Lu}]{3,9}",
            "(?:a{0,20}b?){10}",
            "(?:|||||a)*",
            "x{0}",
        ] {
            fits(text).unwrap();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_compiled_form_is_bigger_than_its_price(
            parts in prop::collection::vec(prop::sample::select(vec![
                "a", "é", ".", r"\w", r"\d", r"\S", "[ab]", "[^x]", r"\pL", "(?:", ")", "|", "*", "?",
                "{3}", "{0,9}", "{2,}", "^", r"\b", "(?i)", "[a-z", "]", "(", "$",
            ]), 1..14)
        ) {
            fits(&parts.concat())?;
        }
    }
}
