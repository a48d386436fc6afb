use std::fmt;
use std::str::FromStr;

/// An amount of memory in bytes, written as a Kubernetes quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// A text is no quantity of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a quantity of memory, such as 64Gi")]
pub struct BytesError;

/// What follows the number of a quantity, and what it stands for.
const UNITS: [(&str, f64); 15] = [
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

/// A Kubernetes quantity without a sign, taken apart: the text of its number, and its unit. Nothing where
/// the unit is none; the number is not read yet.
#[must_use]
pub fn number_and_unit(text: &str) -> Option<(&str, f64)> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == '+';
    let end = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let unit = match UNITS.iter().find(|(name, _)| *name == suffix) {
        Some((_, unit)) => *unit,
        None if suffix.is_empty() => 1.0,
        None => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            10_f64.powi(i32::from(exponent.parse::<i8>().ok()?))
        }
    };
    Some((number, unit))
}

impl FromStr for Bytes {
    type Err = BytesError;

    fn from_str(text: &str) -> Result<Self, BytesError> {
        // nobody counts memory in millionths of a byte
        if text.ends_with(['n', 'u']) {
            return Err(BytesError);
        }
        let (number, unit) = number_and_unit(text).ok_or(BytesError)?;
        // exact where it can be: most amounts are whole numbers of whole units
        if let Ok(whole) = number.parse::<u64>()
            && unit >= 1.0
        {
            return Ok(Self(saturated(whole, unit)));
        }
        let number: f64 = number.parse().map_err(|_| BytesError)?;
        Ok(Self(round_up(number * unit)))
    }
}

impl Bytes {
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

/// The largest amount that Kubernetes can write as a number of bytes.
const MOST: u64 = i64::MAX as u64;

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
            ("0", 0, "0"),
            ("99999999Ei", u64::MAX, "18446744073709551615"),
        ] {
            let read: Bytes = text.parse().unwrap();
            assert_eq!((read.0, read.to_string().as_str()), (bytes, written), "{text}");
        }
        for text in ["", "Mi", "1 Gi", "-1", "x", "1e99999"] {
            assert_eq!(text.parse::<Bytes>(), Err(BytesError), "{text}");
        }
    }

    #[test]
    fn growth_never_shrinks_and_never_overflows() {
        assert_eq!(Bytes(64 << 20).times(1.5), Bytes(96 << 20));
        assert_eq!(Bytes(3).times(1.1), Bytes(4));
        assert_eq!(Bytes(3).times(0.5), Bytes(3));
        assert_eq!(Bytes(MOST).times(100.0), Bytes(MOST));
    }
}
