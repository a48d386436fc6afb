//! What a gang costs for each of its pods, in allocations: they do not depend on the machine. `cargo bench --bench observe` says
//! how long it takes.

use allocation_counter::measure;

use crate::gang::{self, Gang, PODS};

/// The most allocations to read what a watch shows of a pod.
const READ_MAX: u64 = 70;
/// The most allocations for each pod to tell whose it is.
const CLASSIFY_MAX: u64 = 20;

#[test]
fn the_cost_of_a_pod_is_bounded_and_the_same_in_a_larger_gang() {
    let event = gang::pod_event(0);
    drop(gang::read(&event)); // what is made once for all is not counted
    let read = measure(|| drop(gang::read(&event)));
    let classified = |pods: usize| {
        let gang = Gang::of(pods);
        let mut found = 0;
        let cost = measure(|| found = gang.classified());
        assert_eq!(found, pods, "all are of the gang");
        cost.count_total / pods as u64
    };
    let (few, many) = (classified(PODS / 10), classified(PODS));
    println!("read {}, classify {few} of {}, {many} of {PODS}", read.count_total, PODS / 10);
    assert!(read.count_total <= READ_MAX, "{read:?}");
    assert!(many <= CLASSIFY_MAX && many <= few + 1, "{few}, {many}");
}
