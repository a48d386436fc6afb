//! `appwrapper simulate --fleet`.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::Output;
use super::term::{self, Page, Row, table};
use crate::world::fleet::{FleetOptions, FleetReport, LARGE, Policy, assumptions, simulate};

/// Simulates the fleet of a seed with every policy; whether an invariant was violated.
pub fn run(seed: u64, days: u64, nodes: u64, jobs: usize, output: Output) -> bool {
    let options = FleetOptions { seed, lasts: Duration::from_hours(24 * days), nodes };
    let reports = reports(&options, jobs);
    match output {
        Output::Text => {
            term::print(&page(&reports));
            for (policy, report) in &reports {
                if let Some(violation) = &report.violation {
                    term::complain(&format!("{}: {violation}", policy.title()));
                }
            }
            term::print_own(&notes());
        }
        Output::Json => term::print_json_line(&document(&options, &reports)),
    }
    reports.iter().any(|(_, report)| report.violation.is_some())
}

/// The policies run beside each other: they share nothing.
fn reports(options: &FleetOptions, jobs: usize) -> Vec<(Policy, FleetReport)> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(vec![]));
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, Policy::ALL.len()) {
            scope.spawn(|| {
                while let Some(policy) = Policy::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = simulate(options, *policy);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((*policy, report));
                }
            });
        }
    });
    let mut reports = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    reports.sort_by_key(|(policy, _)| Policy::ALL.iter().position(|one| one == policy));
    reports
}

fn page(reports: &[(Policy, FleetReport)]) -> Page {
    let titles = [
        "POLICY",
        "UTILIZATION",
        "GOODPUT",
        "LOST GPU-H",
        "HUNG GPU-H",
        "SUCCEEDED",
        "FAILURES",
        "LARGE JOBS FAILED",
        "BY HAND",
    ];
    let rows: Vec<Row> = reports.iter().map(|(policy, report)| row(*policy, report)).collect();
    table((&titles, None), &rows, "   ", false)
}

fn row(policy: Policy, report: &FleetReport) -> Row {
    let FleetReport { large_attempts, large_failures, succeeded, submitted, .. } = report;
    let cells = [
        policy.title().to_owned(),
        format!("{:.1}%", report.utilization()),
        format!("{:.1}%", report.goodput()),
        format!("{:.0}", report.lost),
        format!("{:.0}", report.hung),
        format!("{succeeded} of {submitted}"),
        report.failures.to_string(),
        format!("{large_failures} of {large_attempts}"),
        report.by_hand.to_string(),
    ];
    (cells.into(), None)
}

fn notes() -> String {
    let mut text = format!(
        "\nUTILIZATION is useful work per GPU-hour of the cluster; GOODPUT, per GPU-hour for which quota was reserved.\n\
         LARGE JOBS FAILED counts attempts of jobs with at least {LARGE} GPUs. BY HAND counts what a person had to do.\n"
    );
    for line in assumptions() {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn document(options: &FleetOptions, reports: &[(Policy, FleetReport)]) -> Value {
    let one = |(policy, report): &(Policy, FleetReport)| {
        json!({
            "policy": policy.title(), "goodput": report.goodput(), "utilization": report.utilization(),
            "gpuHours": report,
        })
    };
    json!({
        "seed": options.seed, "days": options.lasts.as_secs() / 86_400, "nodes": options.nodes,
        "assumptions": assumptions(), "policies": reports.iter().map(one).collect::<Vec<_>>(),
    })
}
