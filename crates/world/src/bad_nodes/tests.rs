use super::*;

/// `cargo test --release -p appwrapper-world bad_nodes -- --ignored --nocapture` prints the figures of
/// docs/user/suspect-nodes.md.
fn is_good(seeds: std::ops::Range<u64>) {
    let measured = measure(seeds);
    println!("{measured}");
    assert!(measured.precision_permille() >= 950, "{measured}");
    assert!(measured.recall_permille() >= 900, "{measured}");
    let (off, prefer) = (measured.off.failed_permille(), measured.prefer.failed_permille());
    assert!(prefer < off, "{measured}");
}

#[test]
fn bad_nodes_are_found_and_poison_jobs_are_not_blamed_on_nodes() {
    is_good(0..40);
}

#[test]
#[ignore = "nightly: 1,000 seeds"]
fn bad_nodes_are_found_in_a_thousand_seeds() {
    is_good(0..1000);
}

#[test]
fn a_run_is_the_same_each_time() {
    for seed in 0..3 {
        let outcome = || run(seed, SuspicionEffect::Prefer);
        assert_eq!(outcome(), outcome(), "seed {seed}");
    }
}
