//! What names may look like, and which known name an unknown one is nearest to.

use crate::price::POLICY_NAMES_MAX;
use crate::printable::truncate_chars;

/// The longest label of a DNS name, and the longest value of a label of an object, in bytes.
pub const LABEL_MAX: usize = 63;

/// Whether a text is an RFC 1123 label: 1 to 63 lower-case letters, digits and inner hyphens.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=LABEL_MAX).contains(&text.len())
        && text.bytes().all(|byte| inner(byte) || byte == b'-')
        && text.bytes().next().is_some_and(inner)
        && text.bytes().last().is_some_and(inner)
}

/// Whether a text is an RFC 1123 subdomain: labels joined by dots, at most 253 characters.
///
/// As in Kubernetes, a single label may be longer than 63 here.
#[must_use]
pub fn is_subdomain(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=253).contains(&text.len())
        && text.split('.').all(|part| {
            part.bytes().all(|byte| inner(byte) || byte == b'-')
                && part.bytes().next().is_some_and(inner)
                && part.bytes().last().is_some_and(inner)
        })
}

/// Whether a text can be the value of a label: 1 to 63 letters, digits and inner hyphens, underscores and dots.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= LABEL_MAX
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && edge(text.bytes().next())
        && edge(text.bytes().last())
}

/// Whether a text can be the key of a label or a taint, or the name of a resource: a name, or a subdomain, a slash and a name.
#[must_use]
pub fn is_qualified(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_label_value(name),
        None => is_label_value(text),
    }
}

/// What [`is_label_value`] asks for, in words.
pub const LABEL_VALUE: &str = "must be at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit";

/// What [`is_qualified`] asks for, in words.
pub const QUALIFIED: &str = "must be a name of at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or \
                             digit, with or without a prefix such as example.com/";

/// The longest name of an AppWrapper, in bytes: Kueue and labels need room for a suffix.
pub const APPWRAPPER_MAX: usize = 61;

/// What [`is_label`] asks for, in words.
pub const LABEL: &str = "must be 1 to 63 lower-case letters, digits or '-', beginning and ending with a letter or digit";

/// What [`is_subdomain`] asks for, in words.
pub const SUBDOMAIN: &str = "must be at most 253 lower-case letters, digits, '-' or '.', beginning and ending with a letter or digit";

/// Why a text is no list of names of policies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyNamesError {
    /// Nothing stands between two commas, or there is nothing at all.
    #[error("has an empty item: must be names of RetryPolicies, separated by commas")]
    Empty,
    /// An item cannot be the name of an object.
    #[error("{0:?} is not the name of a RetryPolicy: {SUBDOMAIN}")]
    Malformed(String),
    /// There are more than [`POLICY_NAMES_MAX`].
    #[error("must list at most {POLICY_NAMES_MAX} RetryPolicies, but lists {0}")]
    TooMany(usize),
}

/// How many names an annotation has that exceeds [`POLICY_NAMES_MAX`]. The rest are ignored.
#[must_use]
pub fn too_many_policy_names(text: &str) -> Option<PolicyNamesError> {
    let count = 1 + text.bytes().filter(|byte| *byte == b',').count();
    (count > POLICY_NAMES_MAX).then_some(PolicyNamesError::TooMany(count))
}

/// The names of retry policies that an annotation holds, separated by commas, in order, each once: the
/// first [`POLICY_NAMES_MAX`] of them.
///
/// # Errors
/// An item is empty, or cannot be the name of an object.
pub fn policy_names(text: &str) -> Result<Vec<String>, PolicyNamesError> {
    let mut names: Vec<String> = vec![];
    for item in text.split(',').take(POLICY_NAMES_MAX).map(str::trim) {
        if item.is_empty() {
            return Err(PolicyNamesError::Empty);
        }
        if !is_subdomain(item) {
            return Err(PolicyNamesError::Malformed(shortened(item)));
        }
        if !names.iter().any(|name| name == item) {
            names.push(item.to_owned());
        }
    }
    Ok(names)
}

/// At most 64 characters: a message is for people.
#[must_use]
pub fn shortened(text: &str) -> String {
    const LENGTH_MAX: usize = 64;
    truncate_chars(text, LENGTH_MAX).into_owned()
}

/// The known name that takes the fewest edits to reach; of several, the first.
fn nearest<'a>(text: &str, known: &[&'a str]) -> Option<&'a str> {
    known.iter().copied().min_by_key(|name| distance(text, name))
}

/// The known name that a text probably means: the only one that begins with it, else one that is near.
#[must_use]
pub fn close<'a>(text: &str, known: &[&'a str]) -> Option<&'a str> {
    if let Some(name) = only_longer(text, known) {
        return Some(name);
    }
    let count = text.chars().count().min(CHARS_MAX);
    // of two short words, one edit makes many others; few typos are at the beginning
    let begins = |name: &&str| {
        let first = |text: &str| text.chars().next().map(|letter| letter.to_ascii_lowercase());
        count > SHORT_CHARS_MAX || first(text) == first(name)
    };
    nearest(text, known).filter(begins).filter(|name| distance(text, name) <= count / 3)
}

/// `: did you mean …?`, to follow what is allowed; empty where nothing is meant.
#[must_use]
pub fn did_you_mean(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| format!(": did you mean {meant}?"))
}

/// The only known name that begins with a text, case apart.
fn only_longer<'a>(text: &str, known: &[&'a str]) -> Option<&'a str> {
    let begins = |name: &&&str| {
        let start = name.get(..text.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(text))
    };
    let mut longer = known.iter().filter(begins);
    let first = longer.next().filter(|_| text.len() >= PREFIX_BYTES_MIN)?;
    longer.next().is_none().then_some(*first)
}

/// What to say of a text that is none of the known names: the one that was probably meant, or all.
#[must_use]
pub fn hint(text: &str, known: &[&str]) -> String {
    close(text, known).map_or_else(
        || format!("must be one of {}", known.join(", ")),
        |name| format!("did you mean {name}?"),
    )
}

/// A shorter text says too little of the name that begins with it.
const PREFIX_BYTES_MIN: usize = 3;

/// A word that is as short, or shorter, has many others near it.
const SHORT_CHARS_MAX: usize = 4;

/// A longer text is not a typo, and the table of distances must stay small.
const CHARS_MAX: usize = 64;

/// Letters added, removed, replaced or swapped with their neighbour, case apart.
fn distance(a: &str, b: &str) -> usize {
    let start = |text: &str| -> String { text.to_lowercase().chars().take(CHARS_MAX).collect() };
    strsim::osa_distance(&start(a), &start(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_subdomains_are_those_of_kubernetes() {
        for (text, label, subdomain) in [
            ("a", true, true),
            ("a-1", true, true),
            ("1", true, true),
            ("a.b", false, true),
            ("", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("A", false, false),
            ("a..b", false, false),
            ("a.", false, false),
            ("é", false, false),
            ("a\u{200b}b", false, false),
            (&"a".repeat(63), true, true),
            (&"a".repeat(64), false, true),
            (&"a".repeat(253), false, true),
            (&"a".repeat(254), false, false),
        ] {
            assert_eq!((is_label(text), is_subdomain(text)), (label, subdomain), "{text}");
        }
    }

    #[test]
    fn names_of_policies_keep_their_order() {
        assert_eq!(policy_names("b, a.c ,b"), Ok(vec!["b".to_owned(), "a.c".to_owned()]));
        for text in ["", "a,,b", "a,", " "] {
            assert_eq!(policy_names(text), Err(PolicyNamesError::Empty), "{text}");
        }
        for text in ["A", "a b", "a/b", "a;b", "_"] {
            assert_eq!(policy_names(text), Err(PolicyNamesError::Malformed(text.into())), "{text}");
        }
    }

    #[test]
    fn names_beyond_the_most_are_not_looked_at() {
        let names = |count: usize| (0..count).map(|i| format!("p{i}")).collect::<Vec<_>>();
        let most = names(POLICY_NAMES_MAX);
        assert_eq!(too_many_policy_names(&most.join(",")), None);
        let text = names(48_000).join(",") + ",,/";
        assert_eq!(policy_names(&text), Ok(most));
        assert_eq!(too_many_policy_names(&text), Some(PolicyNamesError::TooMany(48_002)));
    }

    #[test]
    fn the_nearest_name_is_the_one_that_was_meant() {
        let known = ["retryLimit", "retryPolicies", "successTTLDuration"];
        for (text, want) in [
            ("retryLimitt", "retryLimit"),
            ("retrylimit", "retryLimit"),
            ("rteryLimit", "retryLimit"),
            ("retryPolicy", "retryPolicies"),
            ("successTTL", "successTTLDuration"),
        ] {
            assert_eq!(nearest(text, &known), Some(want), "{text}");
        }
        assert_eq!(nearest("x", &[]), None);
        assert_eq!(close("retryLimits", &known), Some("retryLimit"));
        assert_eq!(close("colour", &known), None);
        let known = ["warmupGracePeriodDuration", "retryLimit", "retryPolicies"];
        for (text, want) in [
            ("warmupGracePeriod", Some("warmupGracePeriodDuration")),
            ("WARMUP", Some("warmupGracePeriodDuration")),
            ("retry", None),
            ("wa", None),
            ("", None),
            ("wär", None),
        ] {
            assert_eq!(close(text, &known), want, "{text}");
        }
        assert_eq!(close("zone", &["none", "node"]), None, "no typo");
        assert_eq!(close("Jobb", &["Job", "Pod"]), Some("Job"));
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance(&"a".repeat(100_000), ""), CHARS_MAX);
    }
}
