//! How long it takes to read what a watch shows of a gang of 1,000 pods, to tell whose they are, and to render its Job.
//!
//! `cargo bench --bench observe`

#[path = "../tests/gang/mod.rs"]
mod gang;

use std::sync::Arc;

use divan::{Bencher, black_box};
use gang::{Gang, PODS};

fn main() {
    divan::main();
}

/// Reads one event of a watch for each pod.
#[divan::bench]
fn read(bencher: Bencher<'_, '_>) {
    let events: Vec<String> = (0..PODS).map(gang::pod_event).collect();
    bencher.bench(|| black_box(&events).iter().for_each(|text| drop(black_box(gang::read(text)))));
}

/// Puts them into the cache.
#[divan::bench]
fn cache(bencher: Bencher<'_, '_>) {
    let records = Gang::of(PODS).records;
    let cache = appwrapper::observe::cache::Cache::default();
    bencher.bench(|| {
        black_box(&records)
            .iter()
            .map(|record| cache.put_pod(Arc::clone(record)).len())
            .sum::<usize>()
    });
}

/// Tells whose they are.
#[divan::bench]
fn classify(bencher: Bencher<'_, '_>) {
    let gang = Gang::of(PODS);
    bencher.bench(|| black_box(&gang).classified());
}

/// Renders the Job.
#[divan::bench]
fn render(bencher: Bencher<'_, '_>) {
    let gang = Gang::of(PODS);
    bencher.bench(|| black_box(&gang).rendered());
}
