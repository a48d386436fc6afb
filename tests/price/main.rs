//! What the dearest objects that admission lets in cost, beside an ordinary one. Memory is counted, not
//! timed, so that it is the same on every machine; `cargo bench --bench price` says how long it takes.

#[path = "../dearest/mod.rs"]
mod dearest;
#[allow(dead_code, reason = "not every program that measures uses all of it")]
#[path = "../gang/mod.rs"]
mod gang;
mod gang_cost;
mod watched_objects;

use allocation_counter::{AllocationInfo, measure};
use appwrapper::config::Config;
use appwrapper::webhook::validate;

use self::dearest::look::{Watched, message};

/// The most memory of an object that is kept.
const KEPT_BYTES_MAX: i64 = 4 << 20;
/// How many times an ordinary object's allocations a look at the dearest one makes at most.
const TIMES_MAX: u64 = 400;

struct Cost {
    name: &'static str,
    kept: AllocationInfo,
    look: AllocationInfo,
    judged: AllocationInfo,
}

fn cost(name: &'static str, object: &serde_json::Value) -> Cost {
    let (watched, message) = (Watched::of(object), message());
    // what is made once for all is not counted
    drop((watched.look(&message), dearest::errors(object)));
    let mut wrapper = None;
    let kept = measure(|| wrapper = Some(watched.parsed()));
    let look = measure(|| drop(watched.look(&message)));
    let judged = measure(|| drop(validate::create(object, &Config::default())));
    Cost { name, kept, look, judged }
}

#[test]
fn the_dearest_object_costs_a_fixed_multiple_of_an_ordinary_one() {
    let ordinary = cost("ordinary", &dearest::ordinary());
    let all: Vec<Cost> =
        dearest::all().into_iter().map(|each| cost(each.name, &each.object)).collect();
    let mut table = vec![];
    for Cost { name, kept, look, judged } in std::iter::once(&ordinary).chain(&all) {
        table.push(format!(
            "{name:<22} kept {:>9}  look {:>7} allocations {:>10} bytes {:>9} at once  judged {:>7} {:>10} {:>9}",
            kept.bytes_current,
            look.count_total,
            look.bytes_total,
            look.bytes_max,
            judged.count_total,
            judged.bytes_total,
            judged.bytes_max,
        ));
    }
    let table = table.join("\n");
    for Cost { name, kept, look, judged } in &all {
        assert!(kept.bytes_current <= KEPT_BYTES_MAX, "{name}\n{table}");
        for (what, dear, usual) in
            [("look", look, &ordinary.look), ("judged", judged, &ordinary.judged)]
        {
            let times = dear.count_total / usual.count_total.max(1);
            assert!(times <= TIMES_MAX, "{name} {what}: {times} times\n{table}");
        }
    }
    println!("{table}");
}
