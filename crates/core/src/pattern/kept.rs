//! The compiled patterns that are kept: those that were asked last, as many as fit into one budget of
//! the process. Whoever fills it up makes others compile again, which takes them less than a
//! millisecond, and makes the process no larger.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::PatternError;
use super::program::Program;

/// The most bytes of compiled patterns that a process keeps.
pub const BYTES_MAX: usize = 16 << 20;
/// What each takes besides, about.
const OVERHEAD: usize = 2048;

type Compiled = Result<Arc<Program>, PatternError>;

static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(|| Mutex::new(Kept::new(BYTES_MAX)));

/// The compiled form of a pattern.
///
/// # Errors
/// It cannot be compiled.
pub(super) fn program(text: &Arc<str>) -> Compiled {
    let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept().get(text) {
        return known;
    }
    // nobody waits for it
    let compiled = Program::compile(text).map(Arc::new);
    kept().put(text.clone(), compiled.clone());
    compiled
}

struct Kept {
    bytes_max: usize,
    bytes: usize,
    next: u64,
    by_text: BTreeMap<Arc<str>, Entry>,
    /// The texts in the order in which they were asked, for who has to go.
    by_use: BTreeMap<u64, Arc<str>>,
}

struct Entry {
    used: u64,
    bytes: usize,
    compiled: Compiled,
}

impl Kept {
    const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, next: 0, by_text: BTreeMap::new(), by_use: BTreeMap::new() }
    }

    fn get(&mut self, text: &str) -> Option<Compiled> {
        let entry = self.by_text.get_mut(text)?;
        if let Some(text) = self.by_use.remove(&entry.used) {
            entry.used = self.next;
            self.by_use.insert(self.next, text);
            self.next += 1;
        }
        Some(entry.compiled.clone())
    }

    fn put(&mut self, text: Arc<str>, compiled: Compiled) {
        self.remove(&text);
        let program = compiled.as_ref().map_or(0, |program| program.bytes());
        let bytes = program + 2 * text.len() + OVERHEAD;
        self.by_use.insert(self.next, text.clone());
        self.by_text.insert(text, Entry { used: self.next, bytes, compiled });
        self.next += 1;
        self.bytes += bytes;
        while self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.by_use.first_key_value() else { break };
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, text: &str) {
        if let Some(entry) = self.by_text.remove(text) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(kept: &mut Kept, text: &str) {
        kept.put(text.into(), Program::compile(text).map(Arc::new));
    }

    #[test]
    fn what_was_not_asked_for_longest_makes_room() {
        let one = |text: &str| {
            let mut kept = Kept::new(usize::MAX);
            put(&mut kept, text);
            kept.bytes
        };
        let mut kept = Kept::new(one(r"\w+1") * 3);
        for text in [r"\w+1", r"\w+2", r"\w+3"] {
            put(&mut kept, text);
        }
        assert!(kept.get(r"\w+1").is_some());
        put(&mut kept, r"\w+4");
        assert!(kept.get(r"\w+2").is_none(), "it was not asked for longest");
        assert!([r"\w+1", r"\w+3", r"\w+4"].iter().all(|text| kept.get(text).is_some()));
        put(&mut kept, r"\w+4");
        assert_eq!(kept.by_text.len(), 3);
    }

    #[test]
    fn the_budget_holds_whatever_is_asked() {
        let mut kept = Kept::new(100_000);
        for i in 0..500 {
            put(&mut kept, &format!("{}{i}", if i % 3 == 0 { r"\w{3}" } else { "(" }));
            assert!(kept.bytes <= kept.bytes_max);
            let sum: usize = kept.by_text.values().map(|entry| entry.bytes).sum();
            assert_eq!((kept.bytes, kept.by_text.len()), (sum, kept.by_use.len()));
        }
    }
}
