//! Kubernetes quantities: the one place that reads them. Source: the grammar of
//! `k8s.io/apimachinery/pkg/api/resource`, without a minus.

use std::fmt;
use std::str::FromStr;

/// An amount of memory in bytes, written as a Kubernetes quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// A text is no quantity of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a quantity of at least 1 byte, such as 64Gi")]
pub struct BytesError;

/// The longest text of a quantity that anybody needs.
const TEXT_BYTES_MAX: usize = 64;

/// The largest amount that Kubernetes can write as a number of bytes.
const MOST: u64 = i64::MAX as u64;

/// What follows the number of a quantity, and what it stands for.
const UNITS: [(&str, f64); 16] = [
    ("", 1.0),
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
];

/// A quantity taken apart: the text of its number, and what one of its units is.
fn parts(text: &str) -> Option<(&str, f64)> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let end = unsigned.find(|c| !is_number(c)).unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let points = number.bytes().filter(|byte| *byte == b'.').count();
    if points > 1 || number.len() == points {
        return None;
    }
    let unit = if let Some((_, unit)) = UNITS.iter().find(|(name, _)| *name == suffix) {
        *unit
    } else {
        let exponent: i8 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        (-18..=18).contains(&exponent).then(|| 10_f64.powi(exponent.into()))?
    };
    Some((number, unit))
}

/// The amount that a text stands for, in the unit of its resource (cores, bytes, devices).
#[must_use]
pub fn amount(text: &str) -> Option<f64> {
    let (number, unit) = parts(text)?;
    Some(number.parse::<f64>().ok()? * unit)
}

/// What is less than a byte is rounded up, as Kubernetes does.
impl FromStr for Bytes {
    type Err = BytesError;

    fn from_str(text: &str) -> Result<Self, BytesError> {
        let (number, unit) = parts(text).ok_or(BytesError)?;
        // exact where it can be: most amounts are whole numbers of whole units
        if let Ok(whole) = number.parse::<u64>()
            && unit >= 1.0
        {
            return Ok(Self(saturated(whole, unit).min(MOST)));
        }
        let number: f64 = number.parse().map_err(|_| BytesError)?;
        Ok(Self(round_up(number * unit)))
    }
}

impl Bytes {
    /// An amount of at least one byte: what memory may grow to. Admission and the controller read it
    /// here, so that what is let in can be used.
    ///
    /// # Errors
    /// The text is no quantity, or stands for less.
    pub fn at_least_one(text: &str) -> Result<Self, BytesError> {
        let enough = amount(text).is_some_and(|amount| amount >= 1.0);
        enough.then(|| text.parse()).ok_or(BytesError)?
    }

    /// This amount times a factor, rounded up, as far as it can be written.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a byte in 2^53 does not matter")]
        let grown = self.0 as f64 * factor;
        Self(round_up(grown).max(self.0))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "units are whole")]
const fn saturated(whole: u64, unit: f64) -> u64 {
    whole.saturating_mul(unit as u64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
fn round_up(amount: f64) -> u64 {
    (amount.ceil().max(0.0) as u64).min(MOST)
}

/// The largest binary unit of which it is a whole number; in bytes where there is none.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
        let fits = |(bits, _): &&(u64, &str)| self.0 > 0 && self.0.is_multiple_of(1 << bits);
        match UNITS.iter().find(fits) {
            Some((bits, unit)) => f.pad(&format!("{}{unit}", self.0 >> bits)),
            None => f.pad(&self.0.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_read_and_written() {
        for (text, bytes, written) in [
            ("64Mi", 64 << 20, "64Mi"),
            ("1.5Gi", 3 << 29, "1536Mi"),
            ("1G", 1_000_000_000, "1000000000"),
            ("2e3", 2000, "2000"),
            ("1024", 1024, "1Ki"),
            ("500m", 1, "1"),
            ("64n", 1, "1"),
            ("+1Ki", 1024, "1Ki"),
            (".5Ki", 512, "512"),
            ("1.", 1, "1"),
            ("0", 0, "0"),
            ("99999999Ei", MOST, "9223372036854775807"),
        ] {
            let read: Bytes = text.parse().unwrap();
            assert_eq!((read.0, read.to_string().as_str()), (bytes, written), "{text}");
        }
        for text in [
            "",
            "Mi",
            "1 Gi",
            "-1",
            "x",
            "1e99999",
            "1e99",
            "1+2",
            ".",
            "1.2.3",
            "1e",
            "64GB",
            "64gi",
            "NaN",
            "inf",
            "1K",
            "٣",
            "0x1",
            &"1".repeat(65),
        ] {
            assert_eq!(text.parse::<Bytes>(), Err(BytesError), "{text}");
            assert_eq!(amount(text), None, "{text}");
        }
    }

    #[test]
    fn a_maximum_is_at_least_one_byte() {
        for text in ["1", "64Gi", "1.5G", "2e9", "2E9", "1500m", "+1Ki", ".5Gi", "1.", "9E"] {
            assert!(Bytes::at_least_one(text).is_ok(), "{text}");
        }
        for text in ["64n", "500m", "999u", "0", "0Gi", "0.0", "1e-3", "-1Gi", "lots", ""] {
            assert_eq!(Bytes::at_least_one(text), Err(BytesError), "{text}");
        }
    }

    #[test]
    fn growth_never_shrinks_and_never_overflows() {
        assert_eq!(Bytes(64 << 20).times(1.5), Bytes(96 << 20));
        assert_eq!(Bytes(3).times(1.1), Bytes(4));
        assert_eq!(Bytes(3).times(0.5), Bytes(3));
        assert_eq!(Bytes(MOST).times(100.0), Bytes(MOST));
    }

    proptest! {
        #[test]
        fn both_readings_agree(text in "[+]?[0-9.]{0,5}(n|u|m|k|M|G|Ki|Gi|Ei|e[0-9]|E-?[0-9]{2}|x)?") {
            let bytes = text.parse::<Bytes>().ok();
            prop_assert_eq!(amount(&text).is_some(), bytes.is_some());
            if let (Some(amount), Some(bytes)) = (amount(&text), bytes) {
                #[expect(clippy::cast_precision_loss, reason = "compared roughly")]
                let read = bytes.0 as f64;
                prop_assert!(bytes.0 == MOST || (read - amount).abs() <= 1.0 + amount * 1e-9);
                prop_assert_eq!(bytes.to_string().parse::<Bytes>(), Ok(bytes));
            }
        }
    }
}
