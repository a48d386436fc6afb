//! JSON text that is looked at before it is read: of any depth, well-formed or not.

/// The bytes of a JSON text that are not in a string, with their positions. The quotation marks are left out, too.
pub fn structure(json: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    let (mut in_string, mut escaped) = (false, false);
    // a byte of a longer character is never equal to one of these
    json.iter().copied().enumerate().filter(move |(_, byte)| match byte {
        _ if escaped => {
            escaped = false;
            false
        }
        b'\\' if in_string => {
            escaped = true;
            false
        }
        b'"' => {
            in_string = !in_string;
            false
        }
        _ => !in_string,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_string_is_no_structure() {
        for (json, want) in [
            ("", ""),
            ("[1, null]", "[1, null]"),
            (r#"{"a": [",", "]"]}"#, "{: [, ]}"),
            (r#"["\"]", "\\", 2]"#, "[, , 2]"),
            (r#"["é{", {"[": 1}]"#, "[, {: 1}]"),
            (r#"["open, 1"#, "["),
            (r"\n]", r"\n]"),
        ] {
            let found: Vec<(usize, u8)> = structure(json.as_bytes()).collect();
            let text: Vec<u8> = found.iter().map(|(_, byte)| *byte).collect();
            assert_eq!(String::from_utf8(text).unwrap(), want, "{json}");
            assert!(found.iter().all(|(at, byte)| json.as_bytes()[*at] == *byte), "{json}");
        }
    }
}
