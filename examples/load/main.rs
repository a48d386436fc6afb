//! Puts load on a controller of AppWrappers and measures what that costs, beside another controller of the
//! same API and beside the same pods with no controller.
//!
//! ```text
//! cargo build --release && cargo run --release --example load -- [--scenario churn] [--sizes 100,300] …
//! ```
//!
//! Each run has a test control plane of its own, with an audit log, and a controller in a process of its
//! own: `appwrapper run` from beside this example, or `--program FILE`; the program of `--other`; or none,
//! the floor. Leader election and, without `--webhook`, the webhooks are off. A failure counts at once, and
//! the pause before a retry is 1 s.
//!
//! ```text
//! churn  AppWrappers of one 1 s pod, created over 8 connections at once: until all have Succeeded
//! storm  running AppWrappers of one pod, all of which fail at once: to Unhealthy, to the pod's replacement
//! gang   one AppWrapper with a Job of many pods, one of which fails: until all are gone, until all run again
//! scale  running AppWrappers: memory; the controller is killed and started again: until it has caught up; rest
//! fair   one AppWrapper a second in a quiet namespace, alone and while those of another one fail again and again
//! kueue  AppWrappers of one 1 s pod through a ClusterQueue with room for 50
//! ```
//!
//! It prints a line of JSON for each run and a table for each scenario, and writes to the directory of `--out`:
//! the lines (`runs.jsonl`), the controllers' logs, and plots as SVG.
//!
//! Times are those of watch events, as they arrive here. CPU time and memory are from `/proc`, requests from
//! the audit log. Ctrl-C ends everything.

mod audit;
mod failure;
mod objects;
mod observe;
mod options;
mod outcome;
mod plot;
mod program;
mod report;
mod run;
mod scenarios;
mod site;
mod stats;
mod usage;
mod webhook;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use appwrapper::telemetry::chain;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use self::failure::Failure;
use self::options::Options;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = tokio::select! {
        outcome = measure(&options) => outcome,
        stopped = stopped() => stopped.and(Err(Failure::Interrupted)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // there is nobody else to tell
            drop(writeln!(io::stderr(), "error: {}", chain(&failure)));
            ExitCode::FAILURE
        }
    }
}

/// Runs everything that the options ask for, and reports it.
async fn measure(options: &Options) -> Result<(), Failure> {
    let dir = &options.out;
    fs::create_dir_all(dir).map_err(Failure::io("create", dir))?;
    let implementations = options.implementations();
    for scenario in options.scenario.scenarios() {
        let mut outcomes = vec![];
        for size in &options.sizes {
            for implementation in &implementations {
                if !scenario.is_run_for(*implementation) {
                    continue;
                }
                let run = run::run(options, scenario, *implementation, *size);
                let outcome = Box::pin(run).await?;
                report::run(&outcome, dir)?;
                outcomes.push(outcome);
            }
        }
        report::say(&format!("\n{}", report::table(scenario, &outcomes)))?;
        for path in plot::all(scenario, &outcomes, dir)? {
            report::say(&format!("wrote {}", path.display()))?;
        }
    }
    Ok(())
}

/// Waits for Ctrl-C or SIGTERM.
async fn stopped() -> Result<(), Failure> {
    let cannot = || Failure::io("wait for", Path::new("SIGTERM"));
    let mut asked = signal(SignalKind::terminate()).map_err(cannot())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed.map_err(cannot()),
        _ = asked.recv() => Ok(()),
    }
}
