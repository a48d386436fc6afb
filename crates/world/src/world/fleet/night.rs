//! One night of a job with 512 GPUs, and the afternoon before: a plan in which every incident is written down.

use std::time::Duration;

use super::FleetOptions;
use super::plan::{Incident, JobPlan, Plan};

/// Nodes of the cluster: four more than the job takes.
const NODES: u64 = 68;
/// Nodes of the job: 512 GPUs.
const JOB_NODES: u64 = 64;
/// The node whose GPU fails again and again.
const BAD_NODE: u64 = 12;
/// When the simulation begins, in minutes of the day.
const BEGINS: u64 = 14 * 60;

/// A time of the day or of the next morning, since the simulation began.
const fn at(hour: u64, minute: u64) -> Duration {
    let day = if hour * 60 + minute < BEGINS { 24 * 60 } else { 0 };
    Duration::from_mins(day + hour * 60 + minute - BEGINS)
}

/// The time of the day of a moment: `23:10`.
#[must_use]
pub fn time_of_day(elapsed: Duration) -> String {
    let minutes = BEGINS + elapsed.as_secs() / 60;
    format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60)
}

/// The same with the day, where it is not the first: `04:10 on day 2`.
#[must_use]
pub fn moment(elapsed: Duration) -> String {
    match (BEGINS + elapsed.as_secs() / 60) / (24 * 60) {
        0 => time_of_day(elapsed),
        day => format!("{} on day {}", time_of_day(elapsed), day + 1),
    }
}

/// The cluster of the night, until 10:00 of the second day: what takes longer is seen to end.
pub(super) const OPTIONS: FleetOptions =
    FleetOptions { seed: 1, lasts: Duration::from_hours(44), nodes: NODES };

/// What every row assumes, a line each.
#[must_use]
pub fn assumptions() -> [&'static str; 5] {
    [
        "14:00, 15:30, 17:00: 34 jobs of 2 nodes fill the cluster, and the GPU of node-12 fails 20 min later.",
        "20:00: a job of 64 nodes with 10 h of work. The GPU of node-12 fails at 21:40, 22:50 and 00:20.",
        "01:30: a collective operation never returns if the job runs.",
        "05:10: a node of the job crashes for 2 h, while another job holds 4 nodes; 8 jobs of 8 nodes wait.",
        "Checkpoints and people are those of --fleet: every hour; after 4 h, or 8 h where a job hangs.",
    ]
}

/// What comes, whatever the policy.
pub(super) fn plan() -> Plan {
    let job = |at, nodes, minutes| JobPlan {
        at,
        nodes,
        work: Duration::from_mins(minutes),
        poison: false,
    };
    let mut jobs = vec![];
    let mut incidents = vec![];
    for wave in [at(14, 0), at(15, 30), at(17, 0)] {
        jobs.extend(std::iter::repeat_n(job(wave, 2, 60), 34));
        incidents.push((wave + Duration::from_mins(20), BAD_NODE, Incident::Gpu));
    }
    let told = jobs.len();
    jobs.push(job(at(20, 0), JOB_NODES, 600));
    jobs.push(job(at(4, 0), 4, 180));
    jobs.extend(std::iter::repeat_n(job(at(4, 30), 8, 60), 8));
    for (hour, minute) in [(21, 40), (22, 50), (0, 20)] {
        incidents.push((at(hour, minute), BAD_NODE, Incident::Gpu));
    }
    incidents.push((at(1, 30), 20, Incident::Hang));
    incidents.push((at(5, 10), 31, Incident::Crash(Duration::from_hours(2))));
    Plan { jobs, incidents, told: Some(told) }
}

#[cfg(test)]
mod tests {
    use super::super::{Policy, night};
    use super::*;

    #[test]
    fn times_of_the_day_go_over_midnight() {
        assert_eq!(at(20, 0), Duration::from_hours(6));
        assert_eq!(at(5, 10), Duration::from_mins(15 * 60 + 10));
        assert_eq!(time_of_day(at(5, 10)), "05:10");
        assert_eq!(time_of_day(at(23, 59)), "23:59");
    }

    #[test]
    fn the_job_ends_earlier_with_all_parts_and_nobody_acts() {
        let (least, most) = (night(Policy::ByHand), night(Policy::NoFit));
        for report in [&least, &most] {
            assert_eq!(report.violation, None);
            assert_eq!(report.succeeded, report.submitted, "{report:?}");
        }
        assert!(least.by_hand > 0, "{least:?}");
        assert_eq!(most.by_hand, 0, "{most:?}");
        let end = |report: &super::super::FleetReport| report.story.last().map(|(at, _)| *at);
        assert!(end(&most) < end(&least), "{most:?}");
    }
}
