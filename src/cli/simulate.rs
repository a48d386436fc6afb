//! `appwrapper simulate`.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgGroup;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::demo::recording;
use super::{DONE, Error, Output, fleet, term, web};
use crate::api::Phase;
use crate::clock::{Clock, SystemClock};
use crate::world::adversary::Hostility;
use crate::world::coverage::{Coverage, Covered};
use crate::world::explore::{Total, explore, run_one};
use crate::world::faults::{Fault, Faults};
use crate::world::film;
use crate::world::plans::{self, Outcome};
use crate::world::shrink::{self, Smallest};
use crate::world::{Options, RunReport};

/// How many failed seeds are shrunk and shown.
const SHOWN_MAX: usize = 5;
/// How many lines of a trace are shown of a failed seed.
const LINES_MAX: usize = 60;

/// Arguments of `simulate`.
#[derive(Debug, clap::Args)]
// what is required is a group: clap does not require a single flag that is in conflict with another one
#[command(
    group = ArgGroup::new("one seed").args(["trace", "web"]),
    group = ArgGroup::new("a trace").args(["trace"]),
    group = ArgGroup::new("a page").args(["web"]),
    group = ArgGroup::new("weeks").args(["fleet"]),
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Args {
    /// Number of seeds to run
    #[arg(long, default_value_t = 1000, conflicts_with = "trace")]
    seeds: u64,
    /// First seed; with --trace or --web, the only one
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Run one seed and print everything that happens
    #[arg(long)]
    trace: bool,
    /// Faults to inject: all, none, or a comma-separated list
    #[arg(long, default_value = "all")]
    faults: Faults,
    /// Add a hostile tenant to every seed instead of every tenth
    #[arg(long)]
    adversary: bool,
    /// With --trace or --web, number of steps before all faults end
    #[arg(long, requires = "one seed", default_value_t = Options::of(0, Faults::default()).steps)]
    steps: u64,
    /// Run one seed, and serve a page on 127.0.0.1 that plays it
    #[arg(long, conflicts_with_all = ["trace", "seeds", "exhaustive", "fleet", "output"])]
    web: bool,
    /// Port of the page; by default, any that is free
    #[arg(long, value_name = "PORT", requires = "a page", default_value_t = 0)]
    port: u16,
    /// Faults to leave out, by their number in the run
    #[arg(long, value_delimiter = ',', requires = "a trace")]
    without: Vec<u64>,
    /// Run every plan instead: inject each fault at each moment of each call of each scenario
    #[arg(long, conflicts_with_all = ["trace", "seeds", "seed", "faults", "adversary"])]
    exhaustive: bool,
    /// Run a fleet instead: weeks of a large cluster, and what its GPU-hours were used for, by retry policy
    #[arg(long, conflicts_with_all = ["trace", "seeds", "exhaustive", "adversary", "faults"])]
    fleet: bool,
    /// Run one night of a job with 512 GPUs instead, and tell its story, by retry policy
    #[arg(long, conflicts_with_all = ["trace", "web", "seeds", "seed", "exhaustive", "adversary", "faults", "fleet"])]
    night: bool,
    /// Number of days of the fleet
    #[arg(long, requires = "weeks", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=365))]
    days: u64,
    /// Number of nodes of the fleet, with 8 GPUs each
    #[arg(long, requires = "weeks", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1024))]
    nodes: u64,
    /// Number of threads; defaults to the number of CPUs
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The command did what it was asked, and something did not hold.
const VIOLATED: u8 = 1;

/// Runs seeds, one seed, or all plans.
///
/// # Errors
/// The page cannot be served.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    if args.web {
        return play(args);
    }
    let violated = if args.night {
        fleet::run_night(threads(args), args.output)
    } else if args.fleet {
        fleet::run(args.seed, args.days, args.nodes, threads(args), args.output)
    } else if args.trace {
        trace(args)
    } else if args.exhaustive {
        exhaustive(args)
    } else {
        many(args)
    };
    Ok(if violated { ExitCode::from(VIOLATED) } else { DONE })
}

/// Plays the run of a seed on a page.
fn play(args: &Args) -> Result<ExitCode, Error> {
    let seed = args.seed;
    let (film, report) = film::record(Options { steps: args.steps, ..options(args, seed) });
    let end = how_it_ended(&report);
    web::play(args.port, recording::of_film(film, format!("seed {seed}; {end}")))
}

/// What was violated, and at which step, if anything was.
fn how_it_ended(report: &RunReport) -> String {
    report.violation.as_ref().map_or_else(
        || "every invariant holds".to_owned(),
        |(violation, step)| format!("step {step}: {violation}"),
    )
}

fn trace(args: &Args) -> bool {
    let without: BTreeSet<u64> = args.without.iter().copied().collect();
    let options =
        Options { keep_trace: true, steps: args.steps, without, ..options(args, args.seed) };
    let report = run_one(options);
    let violation = report.violation.as_ref();
    match args.output {
        Output::Text => {
            report.lines.iter().for_each(|line| term::print_own(&format!("{line}\n")));
            let end = how_it_ended(&report);
            let phases: Vec<String> =
                report.phases.iter().map(|(name, phase)| format!("{name} {phase}")).collect();
            term::print_own(&format!(
                "{} steps, hash {:016x}; {}; {end}\n",
                report.steps,
                report.hash,
                phases.join(", ")
            ));
        }
        Output::Json => {
            let lines = &report.lines;
            let result = json!({
                "seed": report.seed, "steps": report.steps, "hash": format!("{:016x}", report.hash),
                "phases": report.phases, "trace": lines,
                "violation": violation.map(|(violation, step)| json!({
                    "invariant": violation.invariant, "sentence": violation.sentence,
                    "seen": violation.seen, "step": step,
                })),
            });
            term::print_json_line(&result);
        }
    }
    violation.is_some()
}

/// A run of a seed.
fn options(args: &Args, seed: u64) -> Options {
    let hostility = if args.adversary { Hostility::Always } else { Hostility::Tenth };
    Options { hostility, ..Options::of(seed, args.faults.clone()) }
}

fn threads(args: &Args) -> usize {
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    args.threads.unwrap_or(all)
}

fn progress(length: u64, what: &str) -> ProgressBar {
    let bar = if term::is_terminal() { ProgressBar::new(length) } else { ProgressBar::hidden() };
    let template = format!("{{bar:30}} {{pos}}/{{len}} {what}, {{per_sec}}, {{eta}} left  {{msg}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar
}

fn many(args: &Args) -> bool {
    let bar = progress(args.seeds, "seeds");
    let begin = SystemClock.elapsed();
    let done = |report: &RunReport| {
        bar.inc(1);
        if report.violation.is_some() {
            bar.set_message("an invariant was violated");
        }
    };
    let total = {
        let hostility = options(args, 0).hostility;
        explore(args.seed, args.seeds, threads(args), &args.faults, hostility, &done)
    };
    let lasted = SystemClock.elapsed().saturating_sub(begin);
    bar.finish_and_clear();
    let shown: Vec<Smallest> = total
        .failed
        .iter()
        .take(SHOWN_MAX)
        .map(|report| shrink::shrink(report, &options(args, report.seed)))
        .collect();
    match args.output {
        Output::Text => term::print_own(&text(&total, lasted, &shown)),
        Output::Json => term::print_json_line(&document(&total, lasted, &shown)),
    }
    !total.failed.is_empty()
}

/// A number of things a second, rounded down.
fn per_second(count: u64, lasted: Duration) -> u64 {
    let millis = u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX).max(1);
    count.saturating_mul(1000) / millis
}

fn text(total: &Total, lasted: Duration, shown: &[Smallest]) -> String {
    let mut text = String::new();
    for smallest in shown {
        text.push_str(&failure(smallest));
    }
    let (seen, all) = total.coverage.pairs();
    text.push_str(&format!(
        "{} seeds, {} steps ({} per second), {} calls, {} checks, {} violations\n\
         {seen} of {all} pairs of phase and event covered\n",
        total.seeds,
        total.steps,
        per_second(total.steps, lasted),
        total.calls,
        total.coverage.checks,
        total.failed.len(),
    ));
    for (phase, event) in total.coverage.unseen().into_iter().take(12) {
        text.push_str(&format!("  not covered: {} in {phase:?}\n", event.as_str()));
    }
    let faults: Vec<String> = Fault::ALL
        .iter()
        .map(|fault| format!("{fault} {}", total.coverage.faults[*fault as usize]))
        .collect();
    for ((source, action), count) in &total.coverage.rulings {
        text.push_str(&format!("  {source} → {action}: {count}\n"));
    }
    text.push_str(&format!("faults: {}\nhash {:016x}\n", faults.join(", "), total.hash));
    text
}

/// A failed seed: what does not hold, how to see it again, and how it came.
fn failure(smallest: &Smallest) -> String {
    let Some((violation, step)) = &smallest.report.violation else { return String::new() };
    let lines = &smallest.report.lines;
    let last = &lines[lines.len().saturating_sub(LINES_MAX)..];
    format!(
        "seed {} step {step}: {violation}\n  {}\n{}\n\n",
        smallest.options.seed,
        shrink::command(&smallest.options),
        last.join("\n")
    )
}

fn table(coverage: &Coverage) -> Value {
    let row = |phase: Phase| {
        let counts =
            Covered::ALL.iter().map(|event| (event.as_str(), coverage.count(phase, *event)));
        (format!("{phase:?}"), counts.collect::<std::collections::BTreeMap<_, _>>())
    };
    let rows: std::collections::BTreeMap<_, _> = Phase::ALL.into_iter().map(row).collect();
    json!(rows)
}

/// Decisions about failures, by source and action.
fn rulings(coverage: &Coverage) -> Value {
    let one = |((source, action), count): (&(String, String), &u64)| json!({"source": source, "action": action, "count": count});
    coverage.rulings.iter().map(one).collect()
}

fn document(total: &Total, lasted: Duration, shown: &[Smallest]) -> Value {
    let (seen, all) = total.coverage.pairs();
    let faults: std::collections::BTreeMap<&str, u64> = Fault::ALL
        .iter()
        .map(|fault| (fault.as_str(), total.coverage.faults[*fault as usize]))
        .collect();
    let unseen: Vec<String> = total
        .coverage
        .unseen()
        .into_iter()
        .map(|(phase, event)| format!("{phase:?}/{}", event.as_str()))
        .collect();
    let failed: Vec<Value> = shown
        .iter()
        .filter_map(|smallest| {
            let (violation, step) = smallest.report.violation.as_ref()?;
            Some(json!({
                "seed": smallest.options.seed, "step": step, "invariant": violation.invariant,
                "sentence": violation.sentence, "seen": violation.seen,
                "command": shrink::command(&smallest.options), "trace": smallest.report.lines,
            }))
        })
        .collect();
    json!({
        "seeds": total.seeds, "steps": total.steps, "seconds": lasted.as_secs_f64(),
        "stepsPerSecond": per_second(total.steps, lasted), "violations": total.failed.len(),
        "calls": total.calls, "checks": total.coverage.checks,
        "hash": format!("{:016x}", total.hash), "faults": faults,
        "pairs": {"seen": seen, "of": all, "unseen": unseen}, "events": table(&total.coverage),
        "rulings": rulings(&total.coverage), "failed": failed,
    })
}

fn exhaustive(args: &Args) -> bool {
    let scenarios = plans::scenarios();
    let bar = progress(scenarios.len() as u64, "scenarios");
    let outcome = plans::exhaust_all(&scenarios, threads(args), &|| bar.inc(1));
    bar.finish_and_clear();
    match args.output {
        Output::Text => term::print_own(&plans_text(&outcome)),
        Output::Json => {
            let wrong: Vec<Value> = outcome
                .wrong
                .iter()
                .map(|(scenario, plan, wrong)| {
                    json!({"scenario": scenario, "plan": format!("{plan:?}"), "wrong": wrong})
                })
                .collect();
            let result = json!({
                "scenarios": outcome.calls.len(), "plans": outcome.plans,
                "violations": outcome.wrong.len(), "calls": outcome.calls, "wrong": wrong,
                "events": table(&outcome.coverage),
            });
            term::print_json_line(&result);
        }
    }
    !outcome.wrong.is_empty()
}

fn plans_text(outcome: &Outcome) -> String {
    let mut text = String::new();
    for (scenario, plan, wrong) in outcome.wrong.iter().take(20) {
        text.push_str(&format!("{scenario}, {plan:?}: {wrong}\n"));
    }
    text.push_str(&format!(
        "{} scenarios, {} plans, {} violations\n",
        outcome.calls.len(),
        outcome.plans,
        outcome.wrong.len()
    ));
    text
}
