use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::names::shortened;

/// A span of time that is not negative, written as Go's `time.ParseDuration` takes it, or in days.
///
/// ```
/// # use appwrapper_core::tuning::Period;
/// let period: Period = "1h30m".parse()?;
/// assert_eq!(period, Period::from_secs(5400));
/// assert_eq!("7d".parse::<Period>()?.to_string(), "7d");
/// assert!("5 days".parse::<Period>().is_err());
/// # Ok::<(), appwrapper_core::tuning::PeriodError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(Duration);

/// Why a text is no [`Period`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeriodError {
    /// It does not follow the grammar.
    #[error(
        "{0:?} is not a duration: must be like 90s, 1h30m, 1.5h or 7d (units ns us ms s m h d)"
    )]
    Malformed(String),
    /// It is below zero.
    #[error("{0:?} is negative: a duration must be 0 or more")]
    Negative(String),
    /// It is more than 2⁶³−1 ns.
    #[error("{0:?} is too long: a duration must be at most 2562047h (about 292 years)")]
    TooLong(String),
}

impl PeriodError {
    /// What is wrong and what is allowed, for messages that name the text themselves.
    #[must_use]
    pub const fn expected(&self) -> &'static str {
        match self {
            Self::Malformed(_) => {
                "must be a duration like 90s, 1h30m, 1.5h or 7d (units ns us ms s m h d)"
            }
            Self::Negative(_) => "must not be negative",
            Self::TooLong(_) => "must be at most 2562047h (about 292 years)",
        }
    }
}

impl Period {
    /// No time at all.
    pub const ZERO: Self = Self(Duration::ZERO);
    /// The longest period: what Go can hold, about 292 years.
    pub const MAX: Self = Self(Duration::from_nanos(i64::MAX.unsigned_abs()));

    /// That many seconds, at most [`Period::MAX`].
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        if seconds < Self::MAX.0.as_secs() { Self(Duration::from_secs(seconds)) } else { Self::MAX }
    }

    /// That long, at most [`Period::MAX`].
    #[must_use]
    pub fn from_duration(duration: Duration) -> Self {
        Self(duration.min(Self::MAX.0))
    }

    /// The same as the standard library has it.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        self.0
    }

    /// Whether it is no time at all.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    /// The moment that is this much later than `t`; the last moment there is where that is beyond it.
    #[must_use]
    pub fn after(self, t: Timestamp) -> Timestamp {
        t.checked_add(self.0).unwrap_or(Timestamp::MAX)
    }
}

/// Prints days, hours, minutes, seconds and less, the largest first: `7d`, `1h30m`, `1s500ms`, `0s`.
/// The text parses back to the same period. A single day is 24h, and days are printed only where
/// nothing is left over, so that Go reads all but those.
impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let nanos = self.0.subsec_nanos();
        if nanos == 0 && seconds > DAY && seconds.is_multiple_of(DAY) {
            return f.pad(&format!("{}d", seconds / DAY));
        }
        let parts = [
            (seconds / 3600, "h"),
            (seconds / 60 % 60, "m"),
            (seconds % 60, "s"),
            (u64::from(nanos / 1_000_000), "ms"),
            (u64::from(nanos / 1_000 % 1_000), "us"),
            (u64::from(nanos % 1_000), "ns"),
        ];
        let mut text = String::new();
        for (count, unit) in parts {
            if count > 0 {
                text += &count.to_string();
                text += unit;
            }
        }
        f.pad(if text.is_empty() { "0s" } else { &text })
    }
}

impl FromStr for Period {
    type Err = PeriodError;

    /// Parses what Go's `time.ParseDuration` takes and is not negative, and the unit `d` for 24 h.
    ///
    /// # Errors
    /// The text does not follow the grammar, is negative or too long.
    fn from_str(text: &str) -> Result<Self, PeriodError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let nanos = nanos(unsigned).map_err(|flaw| match flaw {
            Flaw::Malformed => PeriodError::Malformed(shortened(text)),
            Flaw::Overflow if negative => PeriodError::Negative(shortened(text)),
            Flaw::Overflow => PeriodError::TooLong(shortened(text)),
        })?;
        // Go takes -0s, which is no less than 0
        if negative && nanos > 0 {
            return Err(PeriodError::Negative(shortened(text)));
        }
        if nanos > i64::MAX.unsigned_abs() {
            return Err(PeriodError::TooLong(shortened(text)));
        }
        Ok(Self(Duration::from_nanos(nanos)))
    }
}

const DAY: u64 = 24 * 60 * 60;

/// 2⁶³: the absolute value of the smallest duration of Go, the bound of every step of its parser.
const BOUND: u64 = 1 << 63;

enum Flaw {
    Malformed,
    Overflow,
}

/// Go: `time.ParseDuration`, after the sign.
fn nanos(text: &str) -> Result<u64, Flaw> {
    if text == "0" {
        return Ok(0);
    }
    if text.is_empty() {
        return Err(Flaw::Malformed);
    }
    let mut total: u64 = 0;
    let mut rest = text;
    // A later item that is malformed is a malformed text, whatever the earlier ones come to.
    let mut overflow = false;
    while !rest.is_empty() {
        let whole = leading_digits(rest);
        rest = &rest[whole.len()..];
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            fraction = leading_digits(after);
            rest = &after[fraction.len()..];
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(Flaw::Malformed);
        }
        let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = unit_nanos(&rest[..end]).ok_or(Flaw::Malformed)?;
        rest = &rest[end..];
        match item(whole, fraction, unit).and_then(|nanos| total.checked_add(nanos)) {
            Some(sum) if sum <= BOUND => total = sum,
            _ => overflow = true,
        }
    }
    if overflow { Err(Flaw::Overflow) } else { Ok(total) }
}

/// One number with its unit, in nanoseconds; none where it is over the bound.
fn item(whole: &str, fraction: &str, unit: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let whole = whole.checked_mul(unit).filter(|nanos| *nanos <= BOUND)?;
    whole.checked_add(fraction_nanos(fraction, unit)).filter(|nanos| *nanos <= BOUND)
}

/// The part after the point, in nanoseconds, rounded the way Go does it.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "Go computes in float64, and the result must be the same to the nanosecond; it is below one unit"
)]
fn fraction_nanos(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0_u64, 1_f64);
    for digit in digits.bytes() {
        let next = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit - b'0')));
        match next {
            Some(next) if value <= (BOUND - 1) / 10 && next <= BOUND => value = next,
            // digits beyond what Go holds are dropped
            _ => break,
        }
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

fn leading_digits(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // both the micro sign and the Greek letter, as in Go
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_go_accepts_means_the_same() {
        // from the tests of Go's time package, and of our own
        for (text, nanos) in [
            ("0", 0),
            ("+0", 0),
            ("-0", 0),
            ("-0s", 0),
            ("5s", 5_000_000_000),
            ("+5s", 5_000_000_000),
            ("5.0s", 5_000_000_000),
            ("5.s", 5_000_000_000),
            (".5s", 500_000_000),
            ("1.004s", 1_004_000_000),
            ("1.00400s", 1_004_000_000),
            ("100.00100s", 100_001_000_000),
            ("10ns", 10),
            ("11us", 11_000),
            ("12µs", 12_000),
            ("12μs", 12_000),
            ("3h30m", 12_600_000_000_000),
            ("10.5s4m", 250_500_000_000),
            ("1h2m3s4ms5us6ns", 3_723_004_005_006),
            ("39h9m14.425s", 140_954_425_000_000),
            ("52763797000ns", 52_763_797_000),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("9007199254740993ns", 9_007_199_254_740_993),
            ("0.100000000000000000000h", 360_000_000_000),
            ("0.830103483285477580700h", 2_988_372_539_827),
            ("9223372036854775807ns", i64::MAX.unsigned_abs()),
            ("0.0000000001ns", 0),
            ("1.5h", 5_400_000_000_000),
            ("90s", 90_000_000_000),
            ("10m0s", 600_000_000_000),
            ("1d", 86_400_000_000_000),
            ("5d", 432_000_000_000_000),
            ("1d12h", 129_600_000_000_000),
            ("0.5d", 43_200_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Period(Duration::from_nanos(nanos))), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "",
            "3",
            "-",
            "+",
            "s",
            ".",
            "-.",
            ".s",
            "+.s",
            "1 s",
            " 1s",
            "1s ",
            "5 days",
            "1M",
            "1y",
            "1w",
            "5days",
            "NaN",
            "Inf",
            "1e9h",
            "1h-30m",
            "++5s",
            "0x1s",
            "1.2.3s",
            "1,5s",
            "٣s",
            "1h ",
            "1H",
            "0.0",
            "\0",
            "1s\n",
            "99999999999999999999s1",
        ] {
            assert_eq!(text.parse::<Period>(), Err(PeriodError::Malformed(text.into())), "{text}");
        }
        for text in ["-1h", "-0.5s", "-99999999999999999999s"] {
            assert_eq!(text.parse::<Period>(), Err(PeriodError::Negative(text.into())), "{text}");
        }
        for text in [
            "9999999999999999999s",
            "9223372036854775808ns",
            "9223372036854ms775us808ns",
            "3000000h",
            "99999999999999999999999999s",
            "106752d",
        ] {
            assert_eq!(text.parse::<Period>(), Err(PeriodError::TooLong(text.into())), "{text}");
        }
    }

    /// Why this has a parser of its own: a text that the Go controller reads must mean the same here.
    #[test]
    fn humantime_reads_less_than_go_does() {
        for text in
            ["+0", "+5s", "5.s", ".5s", "12\u{3bc}s", "0.0000000001ns", "0.3333333333333333333h"]
        {
            assert!(humantime::parse_duration(text).is_err(), "{text}");
            assert!(text.parse::<Period>().is_ok(), "{text}");
        }
        // and more than is allowed
        for text in ["5 days", "1y", "1w", "1M", "1h ", "1hour"] {
            assert!(humantime::parse_duration(text).is_ok(), "{text}");
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
    }

    #[test]
    fn errors_name_the_text_shortened_and_what_is_allowed() {
        let error =
            format!("{}\u{202e}", "é".repeat(100)).parse::<Period>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("\"{}…\" is not", "é".repeat(63))), "{error}");
        let error = "5 days".parse::<Period>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"5 days\" is not a duration: must be like 90s, 1h30m, 1.5h or 7d (units ns us ms s m h d)"
        );
    }

    #[test]
    fn periods_are_printed_for_people() {
        for (text, want) in [
            ("0", "0s"),
            ("90s", "1m30s"),
            ("24h", "24h"),
            ("7d", "7d"),
            ("168h", "7d"),
            ("25h", "25h"),
            ("1.5s", "1s500ms"),
            ("1ns", "1ns"),
            ("10m0s", "10m"),
        ] {
            assert_eq!(text.parse::<Period>().unwrap().to_string(), want, "{text}");
        }
    }

    #[test]
    fn adding_to_a_moment_saturates() {
        let t = Timestamp::from_second(0).unwrap();
        assert_eq!(Period::from_secs(60).after(t), Timestamp::from_second(60).unwrap());
        assert_eq!(Period::from_secs(1).after(Timestamp::MAX), Timestamp::MAX);
        assert_eq!(Period::from_secs(u64::MAX), Period::MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_printed_parses_back(nanos in 0..=i64::MAX.unsigned_abs(), shift in 0..60_u32) {
            let period = Period(Duration::from_nanos(nanos >> shift));
            prop_assert_eq!(period.to_string().parse(), Ok(period));
        }

        #[test]
        fn whole_seconds_parse_back(seconds in 0..10_000_000_u64) {
            let period = Period::from_secs(seconds);
            prop_assert_eq!(period.to_string().parse(), Ok(period));
        }

        #[test]
        fn humantime_agrees_where_both_read_it(text in "([0-9]{1,4}(\\.[0-9]{1,3})?(ms|s|m|h|d)){1,3}") {
            if let Ok(theirs) = humantime::parse_duration(&text) {
                prop_assert_eq!(text.parse::<Period>().map(Period::as_duration), Ok(theirs));
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "[-+0-9.nuµsmhd ]{0,40}|.{0,20}") {
            if let Ok(period) = text.parse::<Period>() {
                prop_assert!(period <= Period::MAX);
            }
        }
    }
}
