use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::names::shortened;

/// Exit codes of failures, 1 to 255, written comma-separated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitCodes(BTreeSet<i32>);

/// Why a text is no list of exit codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExitCodesError {
    /// Nothing stands between two commas, or there is nothing at all.
    #[error("has an empty item: must be exit codes from 1 to 255, separated by commas")]
    Empty,
    /// An item is no exit code of a failure.
    #[error("{0:?} is not an exit code: must be whole numbers from 1 to 255, separated by commas")]
    Malformed(String),
}

impl ExitCodes {
    /// The codes, in order.
    #[must_use]
    pub fn into_set(self) -> BTreeSet<i32> {
        self.0
    }
}

impl FromStr for ExitCodes {
    type Err = ExitCodesError;

    fn from_str(text: &str) -> Result<Self, ExitCodesError> {
        text.split(',').map(code).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for ExitCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&joined(&self.0))
    }
}

/// The codes, separated by commas.
pub(super) fn joined<'a>(codes: impl IntoIterator<Item = &'a i32>) -> String {
    codes.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn code(item: &str) -> Result<i32, ExitCodesError> {
    let item = item.trim();
    if item.is_empty() {
        return Err(ExitCodesError::Empty);
    }
    // `parse` would take a sign
    let digits = item.bytes().all(|byte| byte.is_ascii_digit());
    match item.parse::<u8>() {
        Ok(code) if digits && code > 0 => Ok(code.into()),
        _ => Err(ExitCodesError::Malformed(shortened(item))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_trimmed_and_duplicates_fold() {
        for (text, want) in
            [("1", "1"), ("1,2", "1,2"), (" 1 , 2 ", "1,2"), ("255,1,255", "1,255"), ("007", "7")]
        {
            let codes: ExitCodes = text.parse().unwrap();
            assert_eq!(codes.to_string(), want, "{text}");
            assert_eq!(codes.to_string().parse(), Ok(codes), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in ["", " ", ",", "1,,2", "1,", ",1"] {
            assert_eq!(text.parse::<ExitCodes>(), Err(ExitCodesError::Empty), "{text}");
        }
        for text in ["abc", "0", "256", "-1", "+1", "1;2", "1 2", "1.0", "0x1", "4294967297", "٣"]
        {
            let want = ExitCodesError::Malformed(text.into());
            assert_eq!(text.parse::<ExitCodes>(), Err(want), "{text}");
        }
    }
}
