//! Quantiles, rounding and differences of time.

use std::time::Duration;

use tokio::time::Instant;

/// Latencies, in seconds.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Vec<f64>);

impl Latencies {
    /// The value that so many of a thousand are below: 500 is the median, 990 is p99, 1000 the maximum.
    pub fn quantile(&self, per_mille: usize) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        sorted.get(last.min(sorted.len() * per_mille / 1000)).copied()
    }
}

impl FromIterator<f64> for Latencies {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "no count here comes near 2^53")]
pub fn real(count: impl TryInto<u64>) -> f64 {
    count.try_into().map_or(0.0, |count| count as f64)
}

/// With so many decimal places.
pub fn rounded(value: f64, places: i32) -> f64 {
    let scale = 10_f64.powi(places);
    (value * scale).round() / scale
}

/// From one moment to a later one, in seconds; negative where it is earlier.
pub fn seconds(from: Instant, to: Instant) -> f64 {
    if to >= from {
        to.duration_since(from).as_secs_f64()
    } else {
        -from.duration_since(to).as_secs_f64()
    }
}

/// The quantiles that are told, with their names.
pub const QUANTILES: [(&str, usize); 3] = [("p50", 500), ("p99", 990), ("max", 1000)];

/// A second.
pub const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let all: Latencies = (0..100).rev().map(f64::from).collect();
        let quantiles = [0, 500, 990, 1000].map(|per_mille| all.quantile(per_mille));
        assert_eq!(quantiles, [Some(0.0), Some(50.0), Some(99.0), Some(99.0)]);
        let one: Latencies = [0.25].into_iter().collect();
        assert_eq!([500, 990, 1000].map(|it| one.quantile(it)), [Some(0.25); 3]);
        assert_eq!(Latencies::default().quantile(500), None);
    }

    #[test]
    fn a_difference_has_a_sign() {
        let now = Instant::now();
        assert!((seconds(now, now + SECOND) - 1.0).abs() < 1e-9);
        assert!((seconds(now + SECOND, now) + 1.0).abs() < 1e-9);
        assert!((rounded(1.234_56, 3) - 1.235).abs() < 1e-9);
    }
}
