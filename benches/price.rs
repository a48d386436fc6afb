//! How long one full look at the dearest objects takes that admission lets in, all of whose components
//! have failed, and how long admission takes to judge them.
//!
//! `cargo bench --bench price`

#[path = "../tests/dearest/mod.rs"]
mod dearest;

use appwrapper::config::Config;
use appwrapper::webhook::validate;
use dearest::look::{Watched, message};
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

fn names() -> Vec<&'static str> {
    let mut names = vec!["ordinary"];
    names.extend(dearest::all().into_iter().map(|each| each.name));
    names
}

fn object(name: &str) -> serde_json::Value {
    let found = dearest::all().into_iter().find(|each| each.name == name);
    found.map_or_else(dearest::ordinary, |each| each.object)
}

/// Reads it, as each event of a watch has it done.
#[divan::bench(args = names(), sample_count = 20, sample_size = 1)]
fn read(bencher: Bencher<'_, '_>, name: &str) {
    let watched = Watched::of(&object(name));
    bencher.bench(|| black_box(&watched).parsed());
}

/// Decides about the failure of all that it has.
#[divan::bench(args = names(), sample_count = 20, sample_size = 1)]
fn decide(bencher: Bencher<'_, '_>, name: &str) {
    let (watched, message) = (Watched::of(&object(name)), message());
    let wrapper = watched.parsed();
    bencher.bench(|| black_box(&watched).decided(&wrapper, &message));
}

/// Makes everything that it wraps.
#[divan::bench(args = names(), sample_count = 20, sample_size = 1)]
fn create(bencher: Bencher<'_, '_>, name: &str) {
    let watched = Watched::of(&object(name));
    let wrapper = watched.parsed();
    bencher.bench(|| black_box(&watched).created(&wrapper));
}

/// Judges it at its creation.
#[divan::bench(args = names(), sample_count = 20, sample_size = 1)]
fn judge(bencher: Bencher<'_, '_>, name: &str) {
    let object = object(name);
    bencher.bench(|| validate::create(black_box(&object), &Config::default()));
}
