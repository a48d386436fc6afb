//! `appwrapper simulate`.

use std::process::ExitCode;

use super::{DONE, Error, Output, term};
use crate::world::Options;
use crate::world::explore::{explore, run_one};
use crate::world::faults::Faults;

/// Arguments of `simulate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many seeds to run
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// Run from this seed on; with --trace, this seed alone
    #[arg(long)]
    seed: Option<u64>,
    /// Print what happened
    #[arg(long)]
    trace: bool,
    /// What may go wrong: all, none, or a list
    #[arg(long, default_value = "all")]
    faults: Faults,
    /// How many seeds run side by side
    #[arg(long)]
    jobs: Option<usize>,
    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Runs the seeds.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let first = args.seed.unwrap_or(0);
    if args.trace {
        let options = Options { keep_trace: true, ..Options::of(first, args.faults.clone()) };
        let report = run_one(options);
        for line in &report.lines {
            term::print(&format!("{line}\n"));
        }
        term::print(&format!(
            "{:?} {} {:x} {:?}\n",
            report.violation, report.steps, report.hash, report.phases
        ));
        return Ok(DONE);
    }
    let jobs = args.jobs.unwrap_or(2);
    let total = explore(first, args.seeds, jobs, &args.faults, &|_| {});
    for report in total.failed.iter().take(12) {
        if let Some((violation, step)) = &report.violation {
            term::print(&format!("seed {} step {step}: {violation}\n", report.seed));
        }
    }
    term::print(&format!(
        "{} seeds {} steps {} calls {:x} {} failed {:?}\n",
        total.seeds,
        total.steps,
        total.calls,
        total.hash,
        total.failed.len(),
        total.coverage.pairs()
    ));
    Ok(DONE)
}
