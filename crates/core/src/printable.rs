//! Text that others wrote, made safe to print: for a terminal, a log, a message of an event or a condition.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// What a terminal obeys, what ends a line, and what is invisible or changes the order of its neighbours:
/// control and format characters, line and paragraph separators, and what Unicode calls default ignorable.
static UNSAFE: LazyLock<Regex> = LazyLock::new(|| {
    let class = r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]";
    Regex::new(class).unwrap_or_else(|error| unreachable!("a class of characters: {error}"))
});

/// The same text on one line, with every unsafe character escaped as in Rust: `\n`, `\u{1b}`.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    replace(text, |c, safe| match c {
        _ if c.is_control() => safe.extend(c.escape_default()),
        _ => safe.extend(c.escape_unicode()),
    })
}

/// The same for JSON text that is formatted already: escaped as in JSON, so that it means the same. Line
/// feeds stay, since JSON has none inside of its strings.
#[must_use]
pub fn escape_json(json: &str) -> Cow<'_, str> {
    replace(json, |c, safe| match c {
        '\n' => safe.push(c),
        _ => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        }
    })
}

/// At most so many characters; where some are left out, the last one is `…`.
#[must_use]
pub fn truncate_chars(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        None => Cow::Borrowed(text),
        Some(_) => {
            text.chars().take(chars_max.saturating_sub(1)).chain(['…']).take(chars_max).collect()
        }
    }
}

/// The same text on one line, escaped as by [`escape`], at most so many characters.
#[must_use]
pub fn truncated(text: &str, chars_max: usize) -> String {
    truncate_chars(&escape(text), chars_max).into_owned()
}

fn replace(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        return Cow::Borrowed(text);
    }
    UNSAFE.replace_all(text, |found: &regex::Captures<'_>| {
        let mut safe = String::new();
        found[0].chars().for_each(|c| escape(c, &mut safe));
        safe
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_or_hides_is_escaped() {
        for (text, want) in [
            ("", ""),
            ("plain text, 50 %", "plain text, 50 %"),
            ("CUDA error: Fehler größer ✓ 日本", "CUDA error: Fehler größer ✓ 日本"),
            ("\x1b[2J\x1b]0;title\x07", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            ("one\nerror: two\r\t", "one\\nerror: two\\r\\t"),
            ("a\r\nb\u{b}\u{c}\u{85}", "a\\r\\nb\\u{b}\\u{c}\\u{85}"),
            ("\0\u{8}\u{9b}31m\u{7f}", "\\u{0}\\u{8}\\u{9b}31m\\u{7f}"),
            ("a\u{2028}b\u{2029}", "a\\u{2028}b\\u{2029}"),
            ("a\u{202e}cba\u{2066}\u{61c}", "a\\u{202e}cba\\u{2066}\\u{61c}"),
            ("a\u{200b}\u{200d}\u{feff}\u{ad}b", "a\\u{200b}\\u{200d}\\u{feff}\\u{ad}b"),
            ("\u{3164}\u{115f}\u{34f}\u{180e}", "\\u{3164}\\u{115f}\\u{34f}\\u{180e}"),
            ("a\u{e0041}\u{fff9}", "a\\u{e0041}\\u{fff9}"),
        ] {
            assert_eq!(escape(text), want);
            assert_eq!(escape(&escape(text)), want, "once is enough");
        }
    }

    #[test]
    fn a_text_has_at_most_so_many_characters() {
        for (text, chars_max, want) in [
            ("größer", 6, "größer"),
            ("größer", 5, "größ…"),
            ("größer", 1, "…"),
            ("größer", 0, ""),
            ("", 0, ""),
        ] {
            assert_eq!(truncate_chars(text, chars_max), want, "{text} {chars_max}");
        }
    }

    #[test]
    fn what_is_escaped_counts_as_it_is_printed() {
        for (chars_max, want) in [(5, "a\\nbc"), (4, "a\\n…"), (3, "a\\…")] {
            assert_eq!(truncated("a\nbc", chars_max), want, "{chars_max}");
        }
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({"m": "\x1b[2J\u{9b}\n\u{202e}é\u{e0041}\u{2028}"});
        let text = serde_json::to_string_pretty(&value).unwrap_or_default();
        let safe = escape_json(&text);
        assert_eq!(safe, "{\n  \"m\": \"\\u001b[2J\\u009b\\n\\u202eé\\udb40\\udc41\\u2028\"\n}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).ok(), Some(value));
    }

    #[test]
    fn no_character_but_graphic_ones_and_spaces_passes() {
        for c in '\0'..=char::MAX {
            let text = c.to_string();
            let shown = escape(&text);
            let graphic =
                shown.chars().all(|c| !c.is_control() && !('\u{200b}'..='\u{200f}').contains(&c));
            assert!(graphic && shown.lines().count() == 1, "{c:?}");
        }
    }
}
