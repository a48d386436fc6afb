//! `appwrapper eff`: what the reserved quota of an AppWrapper was used for, and what each attempt cost.

use std::collections::BTreeMap;
use std::process::ExitCode;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::super::Error;
use super::super::explain::text::span;
use super::super::ledger::{Ledger, Resources, hours, percent};
use super::super::term::{self, Colour, Page, Row, table};
use super::attempts::outcome;
use super::words::{self, GAP, NOTHING, at};
use super::{Target, block_on, multikueue, now, tell};
use crate::api::{Attempt, AttemptOutcome, Phase, UsageState};
use crate::observe::assemble::Wrapper;

/// What the quota of an AppWrapper was used for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Efficiency {
    namespace: String,
    name: String,
    phase: Phase,
    /// None before quota was first reserved.
    pub usage: Option<Ledger>,
    /// What all its pods request together, each resource in its own unit.
    pub requests: BTreeMap<String, f64>,
    /// By state: what the resources of `requests` come to, in hours; of bytes, GiB-hours.
    resource_hours: BTreeMap<&'static str, BTreeMap<String, f64>>,
    attempts: Vec<Cost>,
    /// In which cluster this is recorded, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// What an attempt cost, from its beginning until all its resources were deleted.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cost {
    attempt: i32,
    outcome: Option<AttemptOutcome>,
    /// The same in a word; without one, what it does.
    #[serde(skip)]
    state: &'static str,
    /// Category of its failure.
    category: Option<String>,
    node: Option<String>,
    /// None where its beginning is not recorded.
    seconds: Option<i64>,
    /// From when it was ready for the first time to its failure or its end.
    ready_seconds: Option<i64>,
    resource_hours: BTreeMap<String, f64>,
}

pub(in crate::cli) fn run(target: &Target) -> Result<ExitCode, Error> {
    let (one, note) = block_on(multikueue::one(target))?;
    let now = now();
    let efficiency = Efficiency { note, ..efficiency(&one.wrapper, now) };
    tell(target.output, &efficiency, || text(&efficiency, now, term::has_colour()))
}

pub(super) fn efficiency(wrapper: &Wrapper, now: Timestamp) -> Efficiency {
    let requests = wrapper.requested();
    let usage = Ledger::of_wrapper(wrapper, now);
    let by_state = |ledger: &Ledger| {
        let of = |state: UsageState| (state.as_str(), hours(&requests, ledger.of_state(state)));
        UsageState::ALL.map(of).into()
    };
    Efficiency {
        namespace: wrapper.namespace.clone(),
        name: wrapper.name.clone(),
        phase: wrapper.status.phase,
        resource_hours: usage.as_ref().map(by_state).unwrap_or_default(),
        attempts: wrapper.status.attempts.iter().map(|one| cost(one, &requests, now)).collect(),
        usage,
        requests,
        note: None,
    }
}

fn cost(attempt: &Attempt, requests: &BTreeMap<String, f64>, now: Timestamp) -> Cost {
    let seconds = held_seconds(attempt, now);
    let failure = attempt.failure.as_ref();
    let failed = at(attempt.failed_at.as_ref());
    let until = failed.or_else(|| at(attempt.ended_at.as_ref())).unwrap_or(now);
    Cost {
        attempt: attempt.attempt,
        outcome: attempt.outcome,
        state: outcome(attempt),
        category: failure.and_then(|failure| failure.category.clone()),
        node: failure.and_then(|failure| failure.node.clone()),
        seconds,
        ready_seconds: words::between(at(attempt.ready_at.as_ref()), Some(until)),
        resource_hours: hours(requests, seconds.unwrap_or_default()),
    }
}

/// From the beginning of an attempt until all its resources were deleted, or until now.
pub(super) fn held_seconds(attempt: &Attempt, now: Timestamp) -> Option<i64> {
    let end = at(attempt.ended_at.as_ref()).unwrap_or(now);
    words::between(at(attempt.started_at.as_ref()), Some(end))
}

fn text(efficiency: &Efficiency, now: Timestamp, colours: bool) -> Page {
    let Efficiency { namespace, name, requests, .. } = efficiency;
    let phase = words::phase(efficiency.phase);
    let mut page = Page::default();
    let Some(ledger) = &efficiency.usage else {
        let why =
            efficiency.note.as_deref().unwrap_or("nothing has been recorded of its usage yet");
        page.line(&format!("{namespace}/{name}: {phase}; {why}"));
        return page;
    };
    page.line(&format!("{namespace}/{name}: {phase}"));
    page.line(&format!("usage  {}", ledger.line(now)));
    let resources = Resources::of([requests]);
    page.line("");
    page.append(states(efficiency, ledger, &resources, colours));
    page.append(resources.remark());
    if !efficiency.attempts.is_empty() {
        page.line("");
        page.append(attempts(efficiency, &resources, colours));
    }
    page
}

fn states(efficiency: &Efficiency, ledger: &Ledger, resources: &Resources, colours: bool) -> Page {
    let (titles, rows) = state_rows(efficiency, ledger, resources);
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    table((&titles, None), &rows, GAP, colours)
}

/// What the quota was used for: titles, and a row for each state.
pub(super) fn state_rows(
    efficiency: &Efficiency,
    ledger: &Ledger,
    resources: &Resources,
) -> (Vec<String>, Vec<Row>) {
    let titles = with_resources(&["STATE", "TIME", "PERCENT"], resources);
    let row = |name: &str, seconds: i64, colour: Option<Colour>| -> Row {
        let share = percent(seconds, ledger.held_seconds);
        let share = share.map_or_else(|| NOTHING.to_owned(), |share| format!("{share}%"));
        let mut cells = vec![name.to_owned(), span(seconds), share];
        cells.extend(resources.cells(&hours(&efficiency.requests, seconds)));
        (cells, colour)
    };
    let mut rows: Vec<Row> = UsageState::ALL
        .into_iter()
        .map(|state| row(state.as_str(), ledger.of_state(state), colour(state)))
        .collect();
    rows.push(row("all", ledger.held_seconds, None));
    (titles, rows)
}

fn attempts(efficiency: &Efficiency, resources: &Resources, colours: bool) -> Page {
    let titles =
        with_resources(&["ATTEMPT", "DURATION", "READY", "OUTCOME", "CATEGORY", "NODE"], resources);
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let rows: Vec<Row> = efficiency.attempts.iter().map(|cost| attempt(cost, resources)).collect();
    table((&titles, None), &rows, GAP, colours)
}

fn attempt(cost: &Cost, resources: &Resources) -> Row {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| NOTHING.to_owned());
    let mut cells = vec![
        cost.attempt.to_string(),
        words::exactly(cost.seconds),
        words::exactly(cost.ready_seconds),
        cost.state.to_owned(),
        text(&cost.category),
        text(&cost.node),
    ];
    cells.extend(resources.cells(&cost.resource_hours));
    (cells, None)
}

/// Titles of columns, and those of the resources after them.
pub(super) fn with_resources(titles: &[&str], resources: &Resources) -> Vec<String> {
    let own = titles.iter().map(|title| (*title).to_owned());
    own.chain(resources.columns.iter().map(|(_, title)| title.clone())).collect()
}

const fn colour(state: UsageState) -> Option<Colour> {
    match state {
        UsageState::Productive => Some(Colour::Green),
        UsageState::Lost => Some(Colour::Red),
        UsageState::Waiting
        | UsageState::Starting
        | UsageState::Idle
        | UsageState::Teardown
        | UsageState::Pause => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::super::super::place::One;
    use super::*;

    pub fn moment(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    /// An AppWrapper around a Job of two pods with 4 GPUs each.
    pub fn one(name: &str, queue: &str, user: &str, status: &Value) -> One {
        let object = json!({
            "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
            "metadata": {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": moment(0),
                "labels": {"kueue.x-k8s.io/queue-name": queue, "workload.codeflare.dev/user": user}},
            "spec": {"components": [{"template": {
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"},
                "spec": {"parallelism": 2, "completions": 2, "template": {"spec": {"containers": [
                    {"name": "main", "image": "x", "resources": {
                        "requests": {"cpu": "500m", "memory": "2Gi"},
                        "limits": {"nvidia.com/gpu": 4},
                    }},
                ]}}},
            }}]},
            "status": status,
        });
        One::of(serde_json::from_str(&object.to_string()).unwrap()).unwrap()
    }

    /// Lost its first attempt to a node, and is productive in the second.
    pub fn restarted() -> Value {
        json!({
            "phase": "Running", "resettingCount": 1,
            "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": moment(0)}],
            "attempts": [
                {"attempt": 0, "startedAt": moment(0), "readyAt": moment(60), "failedAt": moment(1860),
                    "endedAt": moment(1920), "outcome": "Failed", "action": "Restart",
                    "failure": {"node": "node-1", "category": "node"}},
                {"attempt": 1, "startedAt": moment(2010), "readyAt": moment(2100)},
            ],
            "usage": {
                "state": "productive", "since": moment(2100),
                "seconds": {"waiting": 30, "starting": 120, "lost": 1800, "teardown": 60, "pause": 90},
            },
        })
    }

    #[test]
    fn the_time_is_shown_by_state_and_by_attempt() {
        let one = one("train", "gpu", "ada", &restarted());
        let efficiency = efficiency(&one.wrapper, moment(5700));
        let page = text(&efficiency, moment(5700), false).to_string();
        insta::assert_snapshot!(page, @r"
        ns/train: Running
        usage  productive since 2026-01-01T00:35:00Z (1h ago); quota reserved for 1h35m; 63% productive, waiting 30s, starting 2m, lost 30m, teardown 1m, pause 1m30s

        STATE        TIME    PERCENT   CPU-HOURS   MEMORY GIB-HOURS   nvidia.com/gpu-HOURS
        waiting      30s     1%        0.01        0.03               0.07
        starting     2m      2%        0.03        0.13               0.27
        productive   1h      63%       1.00        4.00               8.00
        lost         30m     32%       0.50        2.00               4.00
        idle         0s      0%        0           0                  0
        teardown     1m      1%        0.02        0.07               0.13
        pause        1m30s   2%        0.03        0.10               0.20
        all          1h35m   100%      1.58        6.33               13

        ATTEMPT   DURATION   READY   OUTCOME     CATEGORY   NODE     CPU-HOURS   MEMORY GIB-HOURS   nvidia.com/gpu-HOURS
        0         32m        30m     Failed      node       node-1   0.53        2.13               4.27
        1         1h1m30s    1h      (running)   -          -        1.02        4.10               8.20
        ");
        let json = serde_json::to_value(&efficiency).unwrap();
        assert_eq!(json["usage"]["goodputPercent"], 63);
        assert_eq!(json["usage"]["seconds"]["lost"], 1800);
        assert_eq!(json["requests"]["nvidia.com/gpu"], 8.0);
        assert_eq!(json["resourceHours"]["lost"]["nvidia.com/gpu"], 4.0);
        assert_eq!(json["resourceHours"]["productive"]["memory"], 4.0);
        assert_eq!(json["attempts"][0]["seconds"], 1920);
        assert_eq!(json["attempts"][0]["category"], "node");
    }

    #[test]
    fn without_a_queue_nothing_is_said_of_quota() {
        let one = one("train", "", "ada", &restarted());
        let page = text(&efficiency(&one.wrapper, moment(5700)), moment(5700), false).to_string();
        assert!(page.contains("; held resources for 1h35m; 63% productive"), "{page}");
        assert!(!page.contains("quota"), "{page}");
    }

    #[test]
    fn without_quota_it_says_so() {
        let one = one("new", "gpu", "ada", &json!({"phase": "Suspended"}));
        let efficiency = efficiency(&one.wrapper, moment(10));
        assert_eq!(
            text(&efficiency, moment(10), false).to_string(),
            "ns/new: Suspended; nothing has been recorded of its usage yet\n"
        );
        let sent = Efficiency { note: Some("it is elsewhere".to_owned()), ..efficiency };
        let page = text(&sent, moment(10), false).to_string();
        assert_eq!(page, "ns/new: Suspended; it is elsewhere\n");
    }
}
