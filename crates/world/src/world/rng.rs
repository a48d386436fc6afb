//! The only source of chance: one seed, one stream of numbers, the same on every machine.

use std::time::Duration;

/// A stream of numbers (`SplitMix64`).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of a seed, for a purpose: streams of different purposes do not disturb each other.
    #[must_use]
    pub const fn new(seed: u64, purpose: u64) -> Self {
        let mut rng = Self(seed ^ purpose.wrapping_mul(0xA076_1D64_78BD_642F));
        rng.next();
        rng
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below a bound; 0 where the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.next()) * bound as u128;
        // less than the bound, since the other factor is less than 2 to the 64th
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number from a range, both ends included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = usize::try_from(high - low).unwrap_or(usize::MAX - 1);
        low + self.below(span + 1) as u64
    }

    /// A moment within the first so many seconds.
    pub fn moment(&mut self, seconds: u64) -> Duration {
        Duration::from_millis(self.between(0, seconds * 1000))
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// True in so many of a thousand times.
    pub fn permille(&mut self, share: u32) -> bool {
        self.below(1000) < share as usize
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Mixes a number into a hash (FNV-1a over eight bytes at once, then stirred).
#[must_use]
pub const fn mix(hash: u64, value: u64) -> u64 {
    let mixed = (hash ^ value).wrapping_mul(0x0000_0100_0000_01B3);
    mixed ^ (mixed >> 29)
}

/// Mixes a text into a hash.
#[must_use]
pub fn mix_text(hash: u64, text: &str) -> u64 {
    text.bytes().fold(mix(hash, text.len() as u64), |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_everywhere() {
        let mut rng = Rng::new(1, 2);
        let first: Vec<usize> = (0..6).map(|_| rng.below(100)).collect();
        let mut again = Rng::new(1, 2);
        assert_eq!(first, (0..6).map(|_| again.below(100)).collect::<Vec<_>>());
        let mut other = Rng::new(1, 3);
        assert_ne!(first, (0..6).map(|_| other.below(100)).collect::<Vec<_>>());
        assert_eq!(mix_text(0, "ab"), mix_text(0, "ab"));
        assert_ne!(mix_text(mix_text(0, "ab"), "c"), mix_text(mix_text(0, "a"), "bc"));
    }
}
