//! `appwrapper simulate --fleet`, and `--night`, which tells of one job.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use super::Output;
use super::term::{self, Page, Row, table};
use crate::locked::Locked;
use crate::world::explore::each;
use crate::world::fleet::night::{self, time_of_day};
use crate::world::fleet::{FleetOptions, FleetReport, LARGE, Policy, assumptions, simulate};

/// The policies whose stories of the night are told: the defaults, and all parts.
const TOLD: [Policy; 2] = [Policy::Restarts, Policy::NoFit];

/// Simulates the fleet of a seed with every policy; whether an invariant was violated.
pub fn run(seed: u64, days: u64, nodes: u64, threads: usize, output: Output) -> bool {
    let options = FleetOptions { seed, lasts: Duration::from_hours(24 * days), nodes };
    let reports = reports(threads, |policy| simulate(&options, policy));
    match output {
        Output::Text => {
            term::print(&page(&reports));
            term::print_own(&notes());
        }
        Output::Json => term::print_json_line(&document(&options, &reports)),
    }
    violated(&reports)
}

/// Tells of the night of a job with 512 GPUs, with every policy; whether an invariant was violated.
pub fn run_night(threads: usize, output: Output) -> bool {
    let reports = reports(threads, crate::world::fleet::night);
    match output {
        Output::Text => {
            let titles =
                ["POLICY", "JOB ENDS", "USEFUL GPU-H", "LOST GPU-H", "HUNG GPU-H", "BY HAND"];
            let rows: Vec<Row> = reports.iter().map(night_row).collect();
            term::print(&table((&titles, None), &rows, "   ", false));
            term::print_own(&stories(&reports));
        }
        Output::Json => {
            let one = |(policy, report): &(Policy, FleetReport)| {
                let told = |(at, text): &(Duration, String)| json!({"time": time_of_day(*at), "seconds": at.as_secs(), "message": text});
                let story: Vec<Value> = report.story.iter().map(told).collect();
                json!({"policy": policy.title(), "gpuHours": report, "story": story})
            };
            term::print_json_line(&json!({
                "assumptions": night::assumptions(), "policies": reports.iter().map(one).collect::<Vec<_>>(),
            }));
        }
    }
    violated(&reports)
}

fn night_row((policy, report): &(Policy, FleetReport)) -> Row {
    let last = report.story.last().filter(|(_, text)| text == "Succeeded");
    let cells = [
        policy.title().to_owned(),
        last.map_or_else(|| "-".to_owned(), |(at, _)| night::moment(*at)),
        format!("{:.0}", report.useful),
        format!("{:.0}", report.lost),
        format!("{:.0}", report.hung),
        report.by_hand.to_string(),
    ];
    (cells.into(), None)
}

fn stories(reports: &[(Policy, FleetReport)]) -> String {
    let mut text = "\nOf all jobs; BY HAND counts what a person had to do.\n".to_owned();
    for (policy, report) in reports.iter().filter(|(policy, _)| TOLD.contains(policy)) {
        text += &format!("\nThe job of 512 GPUs, policy {}:\n", policy.title());
        for (at, told) in &report.story {
            text += &format!("  {}  {told}\n", time_of_day(*at));
        }
    }
    text.push('\n');
    for line in night::assumptions() {
        text += line;
        text.push('\n');
    }
    text
}

/// Complains of each invariant that did not hold; whether there is one.
fn violated(reports: &[(Policy, FleetReport)]) -> bool {
    let mut found = false;
    for (policy, report) in reports {
        if let Some(violation) = &report.violation {
            term::complain(&format!("{}: {violation}", policy.title()));
            found = true;
        }
    }
    found
}

/// The policies run beside each other: they share nothing.
fn reports(
    threads: usize,
    simulate: impl Fn(Policy) -> FleetReport + Sync,
) -> Vec<(Policy, FleetReport)> {
    let done = Mutex::new(vec![]);
    each(threads.min(Policy::ALL.len()), Policy::ALL.into_iter(), |policy| {
        let report = simulate(policy);
        done.locked().push((policy, report));
    });
    let mut reports = std::mem::take(&mut *done.locked());
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
