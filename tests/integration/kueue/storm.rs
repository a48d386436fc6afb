//! One AppWrapper that is let in and thrown out again and again, at moments of chance.

use appwrapper::world::rng::Rng;
use serde_json::json;

use crate::harness::{Case, Seen, job, pod, tuned};
use crate::installed::installed_test;

use super::laws::judge;
use super::observer::Observer;
use super::{Queue, queued, suspend};

/// So many attempts it takes.
const ATTEMPTS: i64 = 30;
const QUEUE: &str = "kueue-storm";
/// So many attempts are recorded at most (design: flight recorder).
const RECORDED_MAX: usize = 10;

/// Waits for a moment of chance: one of these phases, or none.
async fn some_moment(case: &Case, rng: &mut Rng, phases: &[&str]) {
    if rng.one_in(3) {
        return;
    }
    let phase = *rng.pick(phases);
    let now = case.log().last("AppWrapper", "aw").map_or(0, Seen::revision);
    // that phase, or what comes after it: it may be over already
    case.until(&format!("aw is {phase} once more, or rests"), |log| {
        let mut since = log.of("AppWrapper", "aw").filter(|seen| seen.revision() >= now);
        since.find(|seen| seen.phase() == phase || is_at_rest(seen)).map(drop)
    })
    .await;
}

/// It does nothing more unless something happens to it.
fn is_at_rest(seen: &Seen) -> bool {
    let suspended = seen.object["spec"]["suspend"] == true && seen.phase() == "Suspended";
    let runs = seen.object["spec"]["suspend"] != true && seen.condition("PodsReady") == "True";
    suspended || runs && seen.phase() == "Running"
}

fn attempt(case: &Case) -> i64 {
    case.log().last("AppWrapper", "aw").map_or(-1, Seen::attempt)
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
/// down it says what is waited for, which is now more, now less. Whether a recorded attempt got ready is
/// chance: that moment alone is not looked at.
fn longest(case: &Case, attempts: std::ops::Range<i64>) -> usize {
    let log = case.log();
    let states = log.of("AppWrapper", "aw").filter(|seen| seen.phase() == "Suspended");
    let states = states.filter(|seen| attempts.contains(&seen.attempt()));
    let length = |seen: &Seen| {
        let mut left = seen.object["status"].clone();
        let recorded = left["attempts"].as_array_mut().expect("attempts are recorded");
        assert!(recorded.len() <= RECORDED_MAX, "{recorded:?}");
        for attempt in recorded {
            attempt.as_object_mut().expect("an object").remove("readyAt");
        }
        left.to_string().len()
    };
    states.map(length).max().unwrap_or(0)
}

#[test]
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
        assert_eq!(log.last("AppWrapper", "aw").map(Seen::restarts), Some(1), "seed {seed}");
        let (early, late) = (longest(&case, 12..20), longest(&case, 20..ATTEMPTS));
        assert!(
            early > 0 && late <= early + early / 20,
            "seed {seed}: {early}, later {late} bytes of status"
        );
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
        let history = observer.history().await;
        let figures = judge(&history, 3).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        println!("seed {seed}: {figures:?}");
        assert!(figures.evictions > 10 && figures.pods > 30, "seed {seed}: {figures:?}");
    });
}
