//! The truth about quota: many AppWrappers, little room, and everything that can go wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use appwrapper::world::rng::Rng;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::{Case, job, pod, tuned};
use crate::installed::installed_test;

use super::laws::{Figures, judge};
use super::observer::{Change, Observer};
use super::{Queue, lane, priority, queued, suspend, with_priority};

/// How many AppWrappers there are, unless `TRUTH_APPWRAPPERS` says so.
const WRAPPERS: usize = 40;
/// How many pods fit.
const QUOTA: u32 = 10;
/// How many lanes (`LocalQueue`s) there are: one may be drained while the others go on.
const LANES: usize = 4;
/// The name of the ClusterQueue and all that belongs to it.
const NAME: &str = "kueue-truth";
/// So long nothing is waited for.
const TICK: Duration = Duration::from_secs(1);
/// So many times in a row nothing happens only when something hangs.
const QUIET_MAX: u32 = 60;

#[expect(clippy::disallowed_methods, reason = "how much is done is said from outside")]
fn setting(name: &str) -> Option<u64> {
    let given = std::env::var(name).ok();
    given.map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// What its user does to an AppWrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UserAction {
    /// Suspends it, past Kueue, which starts it again at once: nobody took its quota.
    Suspend,
    Delete,
}

/// An AppWrapper, and what its user does to it in which phase.
struct Plan {
    object: Value,
    deed: Option<(&'static str, UserAction)>,
}

fn lane_name(number: usize) -> String {
    format!("{NAME}-{number}")
}

/// How the pods of an AppWrapper live.
fn life(rng: &mut Rng) -> Vec<(&'static str, &'static str)> {
    let mut life = vec![("run-for", *rng.pick(&["0s", "300ms", "1s", "2s"]))];
    if rng.permille(400) {
        life.push(("exit-code", *rng.pick(&["1", "7", "137"])));
        life.push(("fail-until-attempt", *rng.pick(&["1", "2", "9"])));
    }
    if rng.permille(150) {
        life.push(("stuck", ""));
    }
    life
}

fn plan(rng: &mut Rng, number: usize) -> Plan {
    let name = format!("aw-{number}");
    let settings = tuned(&[
        ("retryLimit", *rng.pick(&["0", "1", "2"])),
        ("terminalExitCodes", *rng.pick(&["137", "99"])),
        ("failureGracePeriodDuration", *rng.pick(&["0s", "500ms"])),
        ("retryPausePeriodDuration", *rng.pick(&["0s", "1s", "5s"])),
        ("deletionOnFailureGracePeriodDuration", *rng.pick(&["0s", "1s"])),
        ("forcefulDeletionGracePeriodDuration", *rng.pick(&["1s", "2s"])),
    ]);
    let components = rng.between(1, 2);
    let components = (0..components).map(|index| {
        let name = format!("{name}-{index}");
        let life = life(rng);
        if rng.one_in(2) {
            return pod(&name, &life);
        }
        let pods = rng.between(1, 2);
        let retries = rng.between(0, 1);
        let settings = json!({"parallelism": pods, "completions": pods, "backoffLimit": retries});
        job(&name, settings, &life)
    });
    let components = components.collect();
    let mut object = queued(&name, &lane_name(rng.below(LANES)), settings, components);
    if rng.permille(250) {
        object = with_priority(object, NAME);
    }
    let phases = ["Suspended", "Resuming", "Running", "Resetting", "Suspending"];
    let deeds = [UserAction::Suspend, UserAction::Delete];
    let deed = rng.permille(400).then(|| (*rng.pick(&phases), *rng.pick(&deeds)));
    // what is not running can be suspended no more
    let deed = deed.filter(|(phase, deed)| {
        *deed == UserAction::Delete || ["Resuming", "Running", "Resetting"].contains(phase)
    });
    Plan { object, deed }
}

/// Makes things happen, by what has happened.
struct Driver<'a> {
    case: &'a Case,
    rng: Rng,
    plans: std::vec::IntoIter<Plan>,
    deeds: BTreeMap<String, (&'static str, UserAction)>,
    /// Those that have not ended.
    open: BTreeMap<String, String>,
    /// The lane that is drained, and for how many more changes.
    drained: Option<(String, u64)>,
}

impl Driver<'_> {
    async fn create(&mut self) {
        let Some(Plan { object, deed }) = self.plans.next() else { return };
        let name = object["metadata"]["name"].as_str().expect("it has a name").to_owned();
        self.deeds.extend(deed.map(|deed| (name.clone(), deed)));
        self.open.insert(name, String::new());
        self.case.create(object).await;
    }

    async fn lanes(&mut self, busy: bool) {
        match &mut self.drained {
            Some((_, left)) if *left > 0 && busy => *left -= 1,
            Some((lane, _)) => {
                self.case.drain(lane, false).await;
                self.drained = None;
            }
            None if busy && self.rng.one_in(40) => {
                let lane = lane_name(self.rng.below(LANES));
                self.case.drain(&lane, true).await;
                self.drained = Some((lane, self.rng.between(0, 60)));
            }
            None => {}
        }
    }

    async fn act(&mut self, change: &Change) {
        let name = change.name();
        let phase = change.phase();
        let ended = change.deleted
            || phase == "Succeeded"
            || phase == "Failed" && change.condition("ResourcesDeployed") == "False";
        if ended {
            self.open.remove(name);
        } else if let Some(open) = self.open.get_mut(name) {
            phase.clone_into(open);
        }
        let due = self.deeds.get(name).filter(|(when, _)| *when == phase).copied();
        let Some((_, deed)) = due else { return };
        self.deeds.remove(name);
        match deed {
            UserAction::Suspend => suspend(self.case, name).await,
            UserAction::Delete => {
                // it may have ended, but it is there
                let params = DeleteParams::background();
                drop(self.case.wrappers().delete(name, &params).await);
            }
        }
    }

    /// Until all have ended.
    async fn run(&mut self, observer: &mut Observer) {
        for _ in 0..2 * QUOTA {
            self.create().await;
        }
        let mut quiet = 0;
        while !self.open.is_empty() || self.drained.is_some() {
            // All that is left may be in the lane that is drained: then nothing happens.
            let change = tokio::time::timeout(TICK, observer.wrappers.recv()).await.ok().flatten();
            quiet = if change.is_some() { 0 } else { quiet + 1 };
            assert!(quiet < QUIET_MAX, "nothing happens any more to {:?}", self.open);
            self.lanes(change.is_some()).await;
            if self.rng.one_in(3) {
                self.create().await;
            }
            if let Some(change) = change {
                self.act(&change).await;
            }
        }
    }
}

/// Everything that happened, in order.
async fn story(case: &Case, seed: u64, count: usize) -> Vec<Change> {
    Queue::of(NAME, QUOTA).preempting().create(case).await;
    for number in 0..LANES {
        lane(case, &lane_name(number), NAME).await;
    }
    priority(case, NAME, 1000).await;
    let mut observer = Observer::new(case).await;
    let mut rng = Rng::new(seed, 1);
    let plans: Vec<Plan> = (0..count).map(|number| plan(&mut rng, number)).collect();
    let mut driver = Driver {
        case,
        rng,
        plans: plans.into_iter(),
        deeds: BTreeMap::new(),
        open: BTreeMap::new(),
        drained: None,
    };
    driver.run(&mut observer).await;
    assert!(driver.plans.next().is_none(), "all were created");
    observer.history().await
}

#[test]
fn no_pod_is_ever_without_quota() {
    installed_test("no_pod_is_ever_without_quota", async |case| {
        let count = setting("TRUTH_APPWRAPPERS");
        let count = count.map_or(WRAPPERS, |count| usize::try_from(count).expect("not so many"));
        // a new one each time, so that in time there are many
        let seed = setting("TRUTH_SEED").unwrap_or_else(|| std::process::id().into());
        println!(
            "seed {seed}: TRUTH_SEED={seed} TRUTH_APPWRAPPERS={count} repeats it, but for time"
        );
        let begin = Instant::now();
        let history = story(&case, seed, count).await;
        let figures = judge(&history, QUOTA as usize);
        println!("{count} AppWrappers in {:.0?}: {figures:?}", begin.elapsed());
        let Figures { moments, pods, counted, evictions, restarts, .. } =
            figures.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        // Or there was nothing to judge.
        assert!(moments > 20 * count && pods > count, "{moments} moments, {pods} pods");
        assert!(counted == QUOTA as usize && evictions > 0 && restarts > 0);
    });
}
