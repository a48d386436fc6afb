//! One fault at one call of the real controller on the real API server, many times: the same faults as in
//! the simulated world.
//!
//! Each plan has a namespace, a controller that sees no other, and one fault. `FAULT_PLANS=600` runs so
//! many of them.

pub mod line;
mod story;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock};

use appwrapper::clock::SystemClock;
use appwrapper::controller::Controller;
use appwrapper::world::faults::{Effect, FaultPlan, Moment};
use controlplane::ControlPlane;
use futures::{FutureExt, StreamExt, stream};
use tokio::time::Instant;

use self::line::{Counted, Line, Role};
use self::story::{Story, Strangers};
use crate::harness::{self, Case, own_crds, runtime, start_plane};

/// A control plane of its own: the controllers of these tests must be the only ones.
pub static PLANE: LazyLock<ControlPlane> = LazyLock::new(|| start_plane(own_crds()));

/// How many plans there are, unless `FAULT_PLANS` says so.
const PLANS: usize = 100;
/// How many plans go on side by side.
const SIDE_BY_SIDE: usize = 25;
/// The writes that the controller makes for a Job that fails once and then succeeds: finalizer,
/// Resuming, create, Running, ready, Resetting, delete, gone, and again up to Succeeded.
const WRITES: u32 = 13;
/// What happens to a call.
const EFFECTS: [Effect; 6] = [
    Effect::Crash,
    Effect::Code(409),
    Effect::Code(429),
    Effect::Code(500),
    Effect::Code(504),
    Effect::Leader,
];
/// How many lines of a log are told of a failure.
const TAIL: usize = 40;

/// A fault in a story.
#[derive(Clone, Copy, Debug)]
struct Trial {
    story: Story,
    plan: FaultPlan,
    counted: Counted,
}

impl Trial {
    fn name(&self) -> String {
        let Self { story, plan: FaultPlan { call, moment, effect }, counted } = self;
        let effect = match effect {
            Effect::Crash => "crash".to_owned(),
            Effect::Code(code) => code.to_string(),
            Effect::Leader => "leader".to_owned(),
        };
        format!("{story:?}-{counted:?}-{call}-{moment:?}-{effect}").to_lowercase()
    }
}

/// What came of a trial.
struct Outcome {
    struck: bool,
    /// What was wrong, with the ends of both logs.
    wrong: Option<String>,
}

/// Runs the controllers of a trial, for as long as it is waited for.
async fn lead(line: &Arc<Line>, effect: Effect) {
    let run = async |role, ends: futures::future::BoxFuture<'_, ()>| {
        let clock = Arc::new(SystemClock);
        Controller::new(line.client(role), clock, harness::config()).run(ends).await;
    };
    let first = run(Role::First, line.until(|state| state.dead).boxed());
    let second = async {
        line.until(|state| if effect == Effect::Crash { state.dead } else { state.struck }).await;
        if matches!(effect, Effect::Code(_)) {
            return; // nobody else is needed
        }
        run(Role::Second, std::future::pending().boxed()).await;
    };
    futures::join!(first, second);
    std::future::pending::<()>().await;
}

async fn attempt(trial: Trial) -> Outcome {
    let Trial { story, plan, counted } = trial;
    let case = Case::new(PLANE.client(), &trial.name()).await;
    case.record("batch/v1", "Job").await;
    case.record("v1", "ConfigMap").await;
    let line = Line::new(case.client.clone(), &case.namespace, plan, counted);
    let told = async {
        let strangers = Strangers::create(&case).await;
        story.play(&case, &line).await;
        line.settle().await;
        story.check(&case, plan.effect).await;
        strangers.check(&case).await;
    };
    let all = async {
        tokio::select! {
            () = Box::pin(lead(&line, plan.effect)) => {}
            () = told => {}
        }
    };
    let ended = AssertUnwindSafe(all).catch_unwind().await;
    let wrong = ended.err().map(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let first = text.lines().next().unwrap_or_default();
        let (seen, calls) = (tail(&case.story()), tail(&line.calls().join("\n")));
        format!("{}: {first}\n── seen\n{seen}\n── calls\n{calls}", trial.name())
    });
    Outcome { struck: line.struck(), wrong }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

/// Runs trials side by side; every one must end as it should. Returns how many faults struck.
#[expect(clippy::print_stdout, reason = "who has many plans run looks on")]
fn run(trials: Vec<Trial>) -> usize {
    LazyLock::force(&PLANE);
    runtime().block_on(async {
        let begin = Instant::now();
        let all = stream::iter(trials).map(|trial| async move {
            let begin = Instant::now();
            let outcome = tokio::spawn(attempt(trial)).await.expect("what panics is caught");
            println!("{:>6.1?} {} {}", begin.elapsed(), trial.name(), outcome.struck);
            outcome
        });
        let outcomes: Vec<Outcome> = all.buffer_unordered(SIDE_BY_SIDE).collect().await;
        println!("{} plans in {:.0?}", outcomes.len(), begin.elapsed());
        let wrong: Vec<&str> = outcomes.iter().filter_map(|it| it.wrong.as_deref()).collect();
        assert!(wrong.is_empty(), "{} went wrong:\n\n{}", wrong.len(), wrong.join("\n\n"));
        outcomes.iter().filter(|outcome| outcome.struck).count()
    })
}

/// Every fault at every call of every story.
fn all_trials() -> Vec<Trial> {
    let mut all = vec![];
    for story in Story::ALL {
        for call in 0..story.calls() {
            for moment in [Moment::Before, Moment::Lost, Moment::After] {
                all.extend(EFFECTS.map(|effect| Trial {
                    story,
                    plan: FaultPlan { call, moment, effect },
                    counted: Counted::Calls,
                }));
            }
        }
    }
    all
}

/// So many of them, the same ones each time: from everywhere, however few there are.
fn some_trials(count: usize) -> Vec<Trial> {
    let all = all_trials();
    let are_coprime = |mut a: usize, mut b: usize| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    // a step near the golden ratio spreads them
    let golden = all.len() * 618 / 1000;
    let step = (golden..all.len()).find(|step| are_coprime(*step, all.len())).unwrap_or(1);
    (0..count.min(all.len())).map(|nth| all[nth * step % all.len()]).collect()
}

#[expect(clippy::disallowed_methods, reason = "how much is done is said from outside")]
fn count() -> usize {
    let given = std::env::var("FAULT_PLANS").ok();
    given.map_or(PLANS, |text| text.parse().expect("FAULT_PLANS is a number"))
}

#[test]
#[ignore = "nightly: a fault at each of many calls"]
fn the_controller_may_die_at_any_write() {
    let trials = (0..WRITES).flat_map(|call| {
        [Moment::Before, Moment::Lost].map(|moment| Trial {
            story: Story::Retried,
            plan: FaultPlan { call, moment, effect: Effect::Crash },
            counted: Counted::Writes,
        })
    });
    let trials: Vec<Trial> = trials.collect();
    let count = trials.len();
    // where two changes are seen at once, they are one write
    assert!(run(trials) >= count - 2, "there are fewer writes than that");
}

#[test]
#[ignore = "nightly: a fault at each of many calls"]
fn any_call_may_meet_a_fault() {
    let trials = some_trials(count());
    let count = trials.len();
    let struck = run(trials);
    // how often a story lists depends on what the watches show first
    assert!(struck * 100 >= count * 95, "{struck} of {count} faults struck");
}
