//! One AppWrapper that is let in and thrown out again and again, at moments of chance.

use appwrapper::world::rng::Rng;
use serde_json::{Value, json};

use crate::harness::{Case, RawObject, job, pod, tuned};
use crate::installed::installed_test;

use super::laws::judge;
use super::observer::Observer;
use super::{Queue, queued, suspend};

/// So many attempts it takes.
const ATTEMPTS: i64 = 30;
const QUEUE: &str = "kueue-storm";
/// So many attempts are recorded at most.
const RECORDED_MAX: usize = 10;

/// Waits for a moment of chance: one of these phases, or none.
async fn some_moment(case: &Case, rng: &mut Rng, phases: &[&str]) {
    if rng.one_in(3) {
        return;
    }
    let phase = *rng.pick(phases);
    let now = case.log().last("AppWrapper", "aw").map_or(0, RawObject::revision);
    // that phase, or what comes after it: it may be over already
    case.until(&format!("aw is {phase} once more, or rests"), |log| {
        let mut since = log.of("AppWrapper", "aw").filter(|seen| seen.revision() >= now);
        since.find(|seen| seen.phase() == phase || is_at_rest(seen)).map(drop)
    })
    .await;
}

/// It does nothing more unless something happens to it.
fn is_at_rest(seen: &RawObject) -> bool {
    let suspended = seen.object["spec"]["suspend"] == true && seen.phase() == "Suspended";
    let runs = seen.object["spec"]["suspend"] != true && seen.condition("PodsReady") == "True";
    suspended || runs && seen.phase() == "Running"
}

fn attempt(case: &Case) -> i64 {
    case.log().last("AppWrapper", "aw").map_or(-1, RawObject::attempt)
}

async fn storm(case: &Case, rng: &mut Rng) {
    while attempt(case) < ATTEMPTS {
        if rng.one_in(4) {
            // Past Kueue, which has not taken its quota: off, and on again.
            suspend(case, "aw").await;
            some_moment(case, rng, &["Suspending", "Suspended", "Resuming"]).await;
            continue;
        }
        case.drain(QUEUE, true).await;
        some_moment(case, rng, &["Suspending", "Suspended"]).await;
        case.drain(QUEUE, false).await;
        some_moment(case, rng, &["Resuming", "Running"]).await;
    }
}

/// The longest status of a suspended AppWrapper in so many attempts: what is left of them. While it is torn
/// down it says what is waited for, which is now more, now less.
fn longest(case: &Case, attempts: std::ops::Range<i64>) -> String {
    let log = case.log();
    let states = log.of("AppWrapper", "aw").filter(|seen| seen.phase() == "Suspended");
    let states = states.filter(|seen| attempts.contains(&seen.attempt()));
    let texts = states.map(|seen| without_chance(seen.object["status"].clone()).to_string());
    texts.max_by_key(String::len).unwrap_or_default()
}

/// A status without what depends on how far an attempt got: the moment at which it was ready, and the
/// conditions of its components. Of those there is one of a type at most.
fn without_chance(mut status: Value) -> Value {
    let fields = |list: &mut Value, field: &str| -> Vec<Option<Value>> {
        let entries = list.as_array_mut().expect("a list").iter_mut();
        entries.map(|it| it.as_object_mut().expect("an object").remove(field)).collect()
    };
    let ready = fields(&mut status["attempts"], "readyAt");
    assert!(ready.len() <= RECORDED_MAX, "{status}");
    for conditions in fields(&mut status["componentStatus"], "conditions").into_iter().flatten() {
        let all = conditions.as_array().expect("a list").iter();
        let mut types: Vec<&str> = all.filter_map(|it| it["type"].as_str()).collect();
        types.sort_unstable();
        assert!(types.is_sorted_by(|one, next| one < next), "{conditions}");
    }
    status
}

#[test]
#[ignore = "nightly: a storm of evictions"]
fn a_storm_of_evictions_leaves_nothing_behind() {
    installed_test("a_storm_of_evictions_leaves_nothing_behind", async |case| {
        let seed = u64::from(std::process::id());
        let mut rng = Rng::new(seed, 2);
        let observer = Observer::new(&case).await;
        Queue::of(QUEUE, 3).create(&case).await;
        let settings = tuned(&[("failureGracePeriodDuration", "0s")]);
        let two = json!({"parallelism": 2, "completions": 2});
        let templates = vec![job("j", two, &[]), pod("p", &[])];
        case.create(queued("aw", QUEUE, settings, templates)).await;
        case.ready("aw", 0).await;
        case.end_pod("p", "7").await;
        // whichever attempt that is: Kueue may have lost its patience with this one
        case.until("aw is ready after its retry", |log| {
            let mut states = log.of("AppWrapper", "aw");
            states.find(|it| it.restarts() == 1 && it.condition("PodsReady") == "True").map(drop)
        })
        .await;
        storm(&case, &mut rng).await;
        let log = case.log();
        assert_eq!(log.last("AppWrapper", "aw").map(RawObject::restarts), Some(1), "seed {seed}");
        let (early, late) = (longest(&case, 12..20), longest(&case, 20..ATTEMPTS));
        assert!(
            !early.is_empty() && late.len() <= early.len() + early.len() / 20,
            "seed {seed}: {} bytes of status, later {}:\n{early}\n{late}",
            early.len(),
            late.len()
        );
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
        let history = observer.history().await;
        let figures = judge(&history, 3).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        println!("seed {seed}: {figures:?}");
        assert!(figures.evictions > 10 && figures.pods > 30, "seed {seed}: {figures:?}");
    });
}
