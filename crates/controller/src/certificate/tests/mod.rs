//! The plan: a table of facts, then laws.

mod files;
mod laws;
mod table;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::*;

/// Seconds of the life of a generation; the overlap is 600 of them.
const LIFE: u64 = 7200;
const OVERLAP: i64 = 600;

fn lifetimes() -> Lifetimes {
    Lifetimes::of(Duration::from_secs(LIFE))
}

/// A moment of the tests, in seconds from their beginning.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn names(texts: &[&str]) -> Names {
    texts.iter().filter_map(|text| Name::parse(text)).collect()
}

/// A generation that was made at a second.
fn made(second: i64, texts: &[&str]) -> Served {
    let valid = lifetimes().valid(at(second));
    Generation::make(&names(texts), valid).unwrap().check().unwrap()
}
