//! A compiled pattern: one automaton, searched forwards. What it is searched with is made for one search
//! and dropped after it, so that nothing grows with the number of threads or messages.

use regex_automata::Input;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_syntax::hir::HirKind;

use super::{Pattern, PatternError, malformed, weigh};

/// Memory for the states that a search makes as it goes; with more of them it starts over.
const SEARCH_BYTES_MAX: usize = 256 << 10;

/// A compiled pattern.
#[derive(Debug)]
pub(super) enum Program {
    /// A plain text.
    Text(Box<str>),
    /// Anything else.
    Automaton {
        /// What is asked first.
        dfa: Box<DFA>,
        /// What is asked where words are told apart in a message that is not ASCII.
        vm: PikeVM,
    },
}

impl Program {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// It is over one of the bounds of a pattern, or no regular expression.
    pub(super) fn compile(text: &str) -> Result<Self, PatternError> {
        let (hir, price) = weigh::syntax(text)?;
        if usize::try_from(price.bytes).map_or(true, |bytes| bytes > Pattern::COMPILED_BYTES_MAX) {
            return Err(PatternError::TooBig);
        }
        if let HirKind::Literal(literal) = hir.kind()
            && let Ok(text) = str::from_utf8(&literal.0)
        {
            return Ok(Self::Text(text.into()));
        }
        let config = thompson::Config::new()
            .nfa_size_limit(Some(Pattern::COMPILED_BYTES_MAX))
            .which_captures(WhichCaptures::None);
        let nfa =
            thompson::Compiler::new().configure(config).build_from_hir(&hir).map_err(|error| {
                match error.size_limit() {
                    Some(_) => PatternError::TooBig,
                    None => malformed(&error),
                }
            })?;
        let config = DFA::config()
            .cache_capacity(SEARCH_BYTES_MAX)
            .skip_cache_capacity_check(true)
            .unicode_word_boundary(true);
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa.clone());
        let dfa = dfa.map_err(|error| malformed(&error))?;
        let vm = PikeVM::new_from_nfa(nfa).map_err(|error| malformed(&error))?;
        Ok(Self::Automaton { dfa: Box::new(dfa), vm })
    }

    /// Whether it matches anywhere in the text.
    pub(super) fn is_match(&self, text: &str) -> bool {
        match self {
            Self::Text(part) => text.contains(&**part),
            Self::Automaton { dfa, vm } => {
                let input = Input::new(text).earliest(true);
                match dfa.try_search_fwd(&mut dfa.create_cache(), &input) {
                    Ok(found) => found.is_some(),
                    Err(_) => vm.is_match(&mut vm.create_cache(), text),
                }
            }
        }
    }

    /// The memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Automaton { dfa, .. } => dfa.get_nfa().memory_usage(),
        }
    }
}
