//! Laws over random policies, counts and pods.

mod decisions;
mod orders;
mod play;
pub mod worlds;

use proptest::prelude::ProptestConfig;

pub fn config() -> ProptestConfig {
    ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() }
}
