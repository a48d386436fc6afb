//! Label values that are not known beforehand, such as categories of failures: only so many of them.

use std::collections::BTreeSet;

use crate::tuning::names::LABEL_MAX;

/// The label of all that came after.
pub const OTHER: &str = "other";

/// The first names that were seen, up to a limit; every later one is `other`.
#[derive(Debug)]
pub(super) struct Names {
    known: BTreeSet<String>,
    most: usize,
}

impl Names {
    /// No names yet, and at most that many.
    pub(super) const fn up_to(most: usize) -> Self {
        Self { known: BTreeSet::new(), most }
    }

    /// The label for a name that is not taken in.
    pub(super) fn known<'a>(&self, name: &'a str) -> &'a str {
        if self.known.contains(name) { name } else { OTHER }
    }

    /// The label for a name.
    pub(super) fn label<'a>(&mut self, name: &'a str) -> &'a str {
        if self.known.contains(name) {
            return name;
        }
        if self.known.len() >= self.most || name.len() > LABEL_MAX {
            return OTHER;
        }
        self.known.insert(name.to_owned());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_the_limit_is_other() {
        let mut names = Names::up_to(2);
        let labels = ["a", "b", "a", "c", "b", "d"].map(|name| names.label(name));
        assert_eq!(labels, ["a", "b", "a", OTHER, "b", OTHER]);
        assert_eq!(Names::up_to(2).label(&"x".repeat(64)), OTHER);
    }
}
