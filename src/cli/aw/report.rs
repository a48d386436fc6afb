//! `appwrapper report`: what reserved quota was used for, over all AppWrappers that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use clap::ValueEnum;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use serde::Serialize;

use super::super::explain::text::span;
use super::super::ledger::{Ledger, Resources, add, exact_hours, rounded};
use super::super::place::{One, Place, appwrappers, unlisted_appwrappers};
use super::super::term::{self, Page, Row, table};
use super::super::{ClusterArgs, Error, Output};
use super::eff::{held_seconds, with_resources};
use super::multikueue::is_sent;
use super::words::{GAP, NOTHING};
use super::{block_on, now, object_name, tell};
use crate::api::{AttemptAction, UsageSeconds, UsageState, condition, keys};
use crate::decide::usage::seconds_at;
use crate::observe::assemble::Wrapper;
use crate::observe::live;
use crate::tuning::Period;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Only AppWrappers that held quota within this time, and failures within it, such as 7d
    #[arg(long, value_name = "DURATION", default_value = "7d")]
    since: Period,
    /// What to group the rows by
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// Namespace; defaults to the namespace of the kubeconfig
    #[arg(short, long, value_parser = object_name)]
    namespace: Option<String>,
    /// Report AppWrappers in all namespaces; overrides --namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// What the rows are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
enum By {
    /// A queue: the time of its AppWrappers
    #[default]
    Queue,
    /// A user: the time of the AppWrappers that the user created
    User,
    /// A namespace: the time of its AppWrappers
    Namespace,
    /// A failure category: the attempts that ended in it
    #[value(alias = "cause")]
    Category,
    /// A node: the attempts whose first failure was on it
    Node,
}

/// The report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    by: By,
    since: Timestamp,
    /// How many AppWrappers are in it.
    app_wrappers: usize,
    /// How many could not be read.
    unreadable: usize,
    /// How many hold or held quota and run in worker clusters of MultiKueue, which record what it was used for.
    elsewhere: usize,
    /// The rows; the one with the most time first.
    rows: Vec<Line>,
    /// How many namespaces request each resource.
    #[serde(skip)]
    namespaces: BTreeMap<String, usize>,
}

/// One row.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    /// The namespace of the queue, where all namespaces are reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// The queue, user, namespace, category or node; empty where there is none.
    name: String,
    /// AppWrappers, or failed attempts.
    count: usize,
    /// By queue, user and namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Ledger>,
    /// Seconds in which quota was reserved; by category and node, those of the failed attempts.
    seconds: i64,
    /// By queue, user and namespace: of the seconds that were neither productive nor can become so. None by category and
    /// node: an attempt does not record which of its time is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    wasted_resource_hours: Option<BTreeMap<String, f64>>,
    /// Of all these seconds.
    resource_hours: BTreeMap<String, f64>,
}

/// What a row is about: the namespace of a queue, where all namespaces are reported, and the name.
type Key = (Option<String>, String);

/// The rows as they are summed up, and the namespaces that request each resource.
#[derive(Default)]
struct Sums {
    rows: BTreeMap<Key, Sum>,
    namespaces: BTreeMap<String, BTreeSet<String>>,
}

/// What is summed up.
#[derive(Default)]
struct Sum {
    count: usize,
    usage: UsageSeconds,
    seconds: i64,
    wasted: BTreeMap<String, f64>,
    hours: BTreeMap<String, f64>,
}

pub(in crate::cli) fn run(args: &Args) -> Result<ExitCode, Error> {
    let seen = block_on(async {
        let Place { client, namespace } =
            Place::of(&args.cluster, args.namespace.as_deref()).await?;
        let namespace = (!args.all_namespaces).then_some(namespace);
        let params = ListParams::default();
        let listed = live::list(&client, &appwrappers(), namespace.as_deref(), &params).await;
        listed.map_err(|error| unlisted_appwrappers(&error))
    })?;
    let now = now();
    let all = seen.into_iter().map(|seen| {
        let one = One::of(seen).map_err(drop);
        one.map(|one| {
            let user = user(&one);
            (one, user)
        })
    });
    let report = report(all, args.by, args.all_namespaces, args.since, now);
    tell(args.output, &report, || text(&report, term::has_colour()))
}

/// Who created an AppWrapper. The label, which is cut and has no special characters, counts only where the spec does not say.
fn user(one: &One) -> Option<String> {
    let exact = one.wrapper.spec.requester.as_ref().map(|requester| requester.username.clone());
    let labels = one.seen.meta.labels.as_ref();
    exact.or_else(|| labels?.get(keys::USER).cloned())
}

fn report(
    all: impl Iterator<Item = Result<(One, Option<String>), ()>>,
    by: By,
    all_namespaces: bool,
    within: Period,
    now: Timestamp,
) -> Report {
    let since = now.checked_sub(within.as_duration()).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut sums = Sums::default();
    let (mut count, mut unreadable, mut elsewhere) = (0, 0, 0);
    for one in all {
        let Ok((one, user)) = one else {
            unreadable += 1;
            continue;
        };
        let wrapper = &*one.wrapper;
        if !held_since(wrapper, since) {
            elsewhere += usize::from(is_sent(wrapper) && reserved_since(wrapper, since));
            continue;
        }
        count += 1;
        match by {
            By::Queue => add_ledger(&mut sums, queue(wrapper, all_namespaces), wrapper, now),
            By::User => add_ledger(&mut sums, (None, user.unwrap_or_default()), wrapper, now),
            By::Namespace => add_ledger(&mut sums, (None, wrapper.namespace.clone()), wrapper, now),
            By::Category | By::Node => add_failures(&mut sums, by, wrapper, since, now),
        }
    }
    let is_ledger = match by {
        By::Queue | By::User | By::Namespace => true,
        By::Category | By::Node => false,
    };
    let Sums { rows, namespaces } = sums;
    let mut rows: Vec<Line> = rows.into_iter().map(|(key, sum)| sum.line(key, is_ledger)).collect();
    rows.sort_by(|a, b| {
        (b.seconds, &a.name, &a.namespace).cmp(&(a.seconds, &b.name, &b.namespace))
    });
    let namespaces = namespaces.into_iter().map(|(name, all)| (name, all.len())).collect();
    Report { by, since, app_wrappers: count, unreadable, elsewhere, rows, namespaces }
}

/// Whether it holds quota, or released it after a moment, and what it was used for is recorded.
fn held_since(wrapper: &Wrapper, since: Timestamp) -> bool {
    wrapper.status.usage.is_some() && reserved_since(wrapper, since)
}

/// Whether it holds quota, or released it after a moment.
fn reserved_since(wrapper: &Wrapper, since: Timestamp) -> bool {
    let found = condition::find(&wrapper.status.conditions, condition::QUOTA_RESERVED);
    found.is_some_and(|found| found.status == "True" || found.last_transition_time.0 >= since)
}

/// The queue of an AppWrapper. Queues of two namespaces may have the same name.
fn queue(wrapper: &Wrapper, all_namespaces: bool) -> Key {
    let name = wrapper.queue.clone().unwrap_or_default();
    let is_ambiguous = all_namespaces && !name.is_empty();
    (is_ambiguous.then(|| wrapper.namespace.clone()), name)
}

fn add_ledger(sums: &mut Sums, key: Key, wrapper: &Wrapper, now: Timestamp) {
    let Some(usage) = &wrapper.status.usage else { return };
    let (seconds, requested) = (seconds_at(usage, now), wrapper.requested());
    let ledger = Ledger::closed(&seconds);
    let sum = sums.row(key, &wrapper.namespace, &requested);
    sum.count += 1;
    sum.seconds = sum.seconds.saturating_add(ledger.held_seconds);
    for state in UsageState::ALL {
        let of_state = sum.usage.of_mut(state);
        *of_state = of_state.saturating_add(seconds.of(state));
    }
    let wasted = ledger.held_seconds.saturating_sub(seconds.productive);
    add(&mut sum.wasted, &exact_hours(&requested, wasted));
    add(&mut sum.hours, &exact_hours(&requested, ledger.held_seconds));
}

fn add_failures(sums: &mut Sums, by: By, wrapper: &Wrapper, since: Timestamp, now: Timestamp) {
    let requested = wrapper.requested();
    let is_failure = |action: Option<AttemptAction>| match action {
        Some(
            AttemptAction::Restart
            | AttemptAction::RestartIgnoringLimit
            | AttemptAction::RecreateComponent
            | AttemptAction::Fail
            | AttemptAction::Hold
            | AttemptAction::Requeue,
        ) => true,
        None => false,
    };
    for attempt in wrapper.status.attempts.iter().filter(|one| is_failure(one.action)) {
        if attempt.failed_at.as_ref().is_some_and(|at| at.0 < since) {
            continue;
        }
        let failure = attempt.failure.clone().unwrap_or_default();
        let name = if by == By::Node { failure.node } else { failure.category };
        let seconds = held_seconds(attempt, now).unwrap_or_default();
        let key = (None, name.unwrap_or_default());
        let sum = sums.row(key, &wrapper.namespace, &requested);
        sum.count += 1;
        sum.seconds = sum.seconds.saturating_add(seconds);
        add(&mut sum.hours, &exact_hours(&requested, seconds));
    }
}

impl Sums {
    /// A row, to which an AppWrapper of a namespace adds what it requests.
    fn row(&mut self, key: Key, namespace: &str, requested: &BTreeMap<String, f64>) -> &mut Sum {
        for name in requested.keys() {
            self.namespaces.entry(name.clone()).or_default().insert(namespace.to_owned());
        }
        self.rows.entry(key).or_default()
    }
}

impl Sum {
    fn line(self, (namespace, name): Key, is_ledger: bool) -> Line {
        Line {
            namespace,
            name,
            count: self.count,
            usage: is_ledger.then(|| Ledger::closed(&self.usage)),
            seconds: self.seconds,
            wasted_resource_hours: is_ledger.then(|| rounded(self.wasted)),
            resource_hours: rounded(self.hours),
        }
    }
}

fn text(report: &Report, colours: bool) -> Page {
    let mut page = Page::default();
    if report.rows.is_empty() && report.elsewhere == 0 {
        let what = match report.by {
            By::Queue | By::User | By::Namespace => "AppWrapper held quota",
            By::Category | By::Node => "attempt failed",
        };
        page.line(&format!("no {what} since {}", report.since));
    } else if !report.rows.is_empty() {
        let requested = report.namespaces.iter().map(|(name, count)| (name, *count));
        let resources = Resources::by_namespaces(requested);
        let titles = with_resources(&titles(report.by), &resources);
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        let rows: Vec<Row> = report.rows.iter().map(|line| row(line, &resources)).collect();
        page.append(table((&titles, None), &rows, GAP, colours));
        page.append(resources.remark());
    }
    if report.unreadable > 0 {
        let what = if report.unreadable == 1 { "AppWrapper" } else { "AppWrappers" };
        page.line(&format!("{} {what} cannot be read", report.unreadable));
    }
    if report.elsewhere > 0 {
        let what = if report.elsewhere == 1 { "AppWrapper runs" } else { "AppWrappers run" };
        let there = "in worker clusters of MultiKueue: run this command there";
        page.line(&format!("{} {what} or ran {there}", report.elsewhere));
    }
    page
}

/// The titles; those of the resources follow, of the time that was not productive, or of the attempts.
fn titles(by: By) -> Vec<&'static str> {
    let ledger: &[_] = &["APPWRAPPERS", "RESERVED", "GOODPUT", "LOST", "NOT PRODUCTIVE"];
    let failures: &[_] = &["FAILURES", "ATTEMPT TIME"];
    let (first, others) = match by {
        By::Queue => ("QUEUE", ledger),
        By::User => ("USER", ledger),
        By::Namespace => ("NAMESPACE", ledger),
        By::Category => ("CATEGORY", failures),
        By::Node => ("NODE", failures),
    };
    [&[first], others].concat()
}

fn row(line: &Line, resources: &Resources) -> Row {
    let name = match &line.namespace {
        Some(namespace) => format!("{namespace}/{}", line.name),
        None if line.name.is_empty() => "(none)".to_owned(),
        None => line.name.clone(),
    };
    let mut cells = vec![name, line.count.to_string(), span(line.seconds)];
    if let Some(ledger) = &line.usage {
        let percent = ledger.goodput_percent;
        cells.push(percent.map_or_else(|| NOTHING.to_owned(), |percent| format!("{percent}%")));
        cells.push(span(ledger.of_state(UsageState::Lost)));
        let productive = ledger.of_state(UsageState::Productive);
        cells.push(span(ledger.held_seconds.saturating_sub(productive)));
    }
    let hours = line.wasted_resource_hours.as_ref().unwrap_or(&line.resource_hours);
    cells.extend(resources.cells(hours));
    (cells, None)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::eff::tests::{moment, one, restarted};
    use super::*;
    use crate::api::Requester;

    fn given() -> Vec<Result<(One, Option<String>), ()>> {
        let done = json!({
            "phase": "Succeeded",
            "conditions": [{"type": "QuotaReserved", "status": "False", "reason": "R",
                "message": "", "lastTransitionTime": moment(600)}],
            "usage": {"seconds": {"waiting": 60, "productive": 540}},
        });
        let of = |name: &str, queue: &str, user: &str, status: &Value| {
            Ok((one(name, queue, user, status), Some(user.to_owned())))
        };
        vec![
            of("train", "gpu", "ada", &restarted()),
            of("again", "gpu", "bob", &restarted()),
            of("done", "cpu", "ada", &done),
            of("new", "cpu", "ada", &json!({"phase": "Suspended"})),
            Err(()),
        ]
    }

    fn page(by: By, within: &str) -> String {
        let report = report(given().into_iter(), by, false, within.parse().unwrap(), moment(5700));
        text(&report, false).to_string()
    }

    #[test]
    fn rows_are_queues_users_categories_and_nodes() {
        insta::assert_snapshot!(page(By::Queue, "7d"), @r"
        QUEUE   APPWRAPPERS   RESERVED   GOODPUT   LOST   NOT PRODUCTIVE   CPU-HOURS   MEMORY GIB-HOURS   nvidia.com/gpu-HOURS
        gpu     2             3h10m      63%       1h     1h10m            1.17        4.67               9.33
        cpu     1             10m        90%       0s     1m               0.02        0.07               0.13
        1 AppWrapper cannot be read
        ");
        insta::assert_snapshot!(page(By::User, "7d"), @r"
        USER   APPWRAPPERS   RESERVED   GOODPUT   LOST   NOT PRODUCTIVE   CPU-HOURS   MEMORY GIB-HOURS   nvidia.com/gpu-HOURS
        ada    2             1h45m      66%       30m    36m              0.60        2.40               4.80
        bob    1             1h35m      63%       30m    35m              0.58        2.33               4.67
        1 AppWrapper cannot be read
        ");
        insta::assert_snapshot!(page(By::Category, "7d"), @r"
        CATEGORY   FAILURES   ATTEMPT TIME   CPU-HOURS   MEMORY GIB-HOURS   nvidia.com/gpu-HOURS
        node       2          1h4m           1.07        4.27               8.53
        1 AppWrapper cannot be read
        ");
        insta::assert_snapshot!(page(By::Node, "7d"), @r"
        NODE     FAILURES   ATTEMPT TIME   CPU-HOURS   MEMORY GIB-HOURS   nvidia.com/gpu-HOURS
        node-1   2          1h4m           1.07        4.27               8.53
        1 AppWrapper cannot be read
        ");
    }

    #[test]
    fn queues_of_the_same_name_in_two_namespaces_are_two_rows() {
        let of = |namespace: &str, queue: &str| {
            let mut one = one("train", queue, "ada", &restarted());
            std::sync::Arc::make_mut(&mut one.wrapper).namespace = namespace.to_owned();
            Ok((one, Some("ada".to_owned())))
        };
        let all = || [of("a", "gpu"), of("b", "gpu"), of("b", "gpu"), of("a", ""), of("b", "")];
        let rows = |by, all_namespaces| {
            let within = "7d".parse().unwrap();
            let report = report(all().into_iter(), by, all_namespaces, within, moment(5700));
            let name =
                |row: &Line| (super::row(row, &Resources::default()).0[0].clone(), row.count);
            report.rows.iter().map(name).collect::<Vec<_>>()
        };
        let row = |name: &str, count: usize| (name.to_owned(), count);
        assert_eq!(rows(By::Queue, true), [row("(none)", 2), row("b/gpu", 2), row("a/gpu", 1)]);
        assert_eq!(rows(By::Queue, false), [row("gpu", 3), row("(none)", 2)]);
        assert_eq!(rows(By::User, true), [row("ada", 5)]);
        assert_eq!(rows(By::Namespace, true), [row("b", 3), row("a", 2)]);
    }

    #[test]
    fn users_with_the_same_label_are_two_rows() {
        let of = |username: Option<&str>| {
            let mut one = one("train", "gpu", "ada", &restarted());
            let wrapper = std::sync::Arc::make_mut(&mut one.wrapper);
            let requester = username.map(|username| Requester {
                username: username.to_owned(),
                ..Requester::default()
            });
            std::sync::Arc::make_mut(&mut wrapper.spec).requester = requester;
            let user = user(&one);
            Ok((one, user))
        };
        let all = [Some("ada@a.example"), Some("ada@b.example"), Some("ada@b.example"), None];
        let within = "7d".parse().unwrap();
        let report = report(all.into_iter().map(of), By::User, false, within, moment(5700));
        let rows: Vec<_> = report.rows.iter().map(|row| (row.name.as_str(), row.count)).collect();
        assert_eq!(rows, [("ada@b.example", 2), ("ada", 1), ("ada@a.example", 1)]);
    }

    /// A user of one namespace chooses any names.
    #[test]
    fn a_resource_of_many_namespaces_has_its_column() {
        let of = |namespace: &str, names: &[&str]| {
            let mut one = one("train", "q", "ada", &restarted());
            let wrapper = std::sync::Arc::make_mut(&mut one.wrapper);
            wrapper.namespace = namespace.to_owned();
            let spec = std::sync::Arc::make_mut(&mut wrapper.spec);
            let path = "/spec/template/spec/containers/0/resources/limits";
            let limits = spec.components[0].template.pointer_mut(path).unwrap();
            *limits = names.iter().map(|name| ((*name).to_owned(), json!(1))).collect();
            Ok((one, None))
        };
        let many = ["a.com/v", "a.com/w", "a.com/x", "a.com/y", "a.com/z"];
        let all = || [("a", &many[..]), ("a", &many), ("b", &["b.com/gpu"]), ("c", &["b.com/gpu"])];
        for by in [By::Queue, By::User, By::Namespace, By::Category, By::Node] {
            let within = "7d".parse().unwrap();
            let all = all().into_iter().map(|(namespace, names)| of(namespace, names));
            let report = report(all, by, true, within, moment(5700));
            let page = text(&report, false).to_string();
            let titles = page.lines().next().unwrap();
            assert!(titles.contains("b.com/gpu-HOURS") && !titles.contains("a.com/x"), "{page}");
            assert!(page.contains("\n3 more resources: use -o json\n"), "{page}");
        }
    }

    #[test]
    fn what_is_older_is_left_out() {
        let report = |by, within: &str| {
            report(given().into_iter(), by, false, within.parse().unwrap(), moment(5700))
        };
        assert_eq!(report(By::Queue, "7d").app_wrappers, 3);
        assert_eq!(report(By::Queue, "1h").app_wrappers, 2, "one released its quota before");
        assert_eq!(report(By::Category, "1h").rows.len(), 0, "the failure is older");
        let json = serde_json::to_value(report(By::Queue, "7d")).unwrap();
        assert_eq!(json["rows"][0]["name"], "gpu");
        assert_eq!(json["rows"][0]["usage"]["seconds"]["lost"], 3600);
        assert_eq!(json["rows"][0]["resourceHours"]["nvidia.com/gpu"], 25.33);
        assert_eq!(json["unreadable"], 1);
    }

    #[test]
    fn only_ledgers_tell_wasted_hours() {
        for (by, is_ledger) in [
            (By::Queue, true),
            (By::User, true),
            (By::Namespace, true),
            (By::Category, false),
            (By::Node, false),
        ] {
            let within = "7d".parse().unwrap();
            let report = report(given().into_iter(), by, false, within, moment(5700));
            let json = serde_json::to_value(report).unwrap();
            for field in ["usage", "wastedResourceHours"] {
                assert_eq!(json["rows"][0][field].is_object(), is_ledger, "{field} {by:?}");
            }
            assert!(json["rows"][0]["resourceHours"].is_object(), "{by:?}");
        }
    }

    #[test]
    fn hours_are_rounded_after_they_are_added() {
        for (seconds, want) in [(17, 4.72), (19, 5.28)] {
            let status = json!({
                "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "R",
                    "message": "", "lastTransitionTime": moment(0)}],
                "usage": {"seconds": {"waiting": seconds}},
            });
            let all = (0..1000).map(|_| Ok((one("short", "gpu", "ada", &status), None)));
            let report = report(all, By::Queue, false, "7d".parse().unwrap(), moment(60));
            let json = serde_json::to_value(report).unwrap();
            assert_eq!(json["rows"][0]["wastedResourceHours"]["cpu"], want);
            assert_eq!(json["rows"][0]["resourceHours"]["cpu"], want);
        }
    }

    #[test]
    fn the_earlier_name_of_the_category_is_understood() {
        for name in ["category", "cause"] {
            assert_eq!(By::from_str(name, false), Ok(By::Category), "{name}");
        }
        let shown = By::Category.to_possible_value();
        assert_eq!(shown.map(|value| value.get_name().to_owned()).as_deref(), Some("category"));
    }

    #[test]
    fn what_runs_in_a_worker_cluster_is_counted_and_not_reported() {
        let quota = |status: &str, second: i64| {
            json!({"phase": "Running", "conditions": [
                {"type": "QuotaReserved", "status": status, "reason": "R", "message": "",
                    "lastTransitionTime": moment(second)}]})
        };
        let sent = |status: &Value| {
            let mut one = one("sent", "gpu", "ada", status);
            let wrapper = std::sync::Arc::make_mut(&mut one.wrapper);
            std::sync::Arc::make_mut(&mut wrapper.spec).managed_by = Some(keys::MULTIKUEUE.into());
            Ok((one, None))
        };
        let all = || [sent(&quota("True", 0)), sent(&quota("False", 0)), sent(&json!({}))];
        for (within, want) in [
            ("1d", "2 AppWrappers run or ran in worker clusters of MultiKueue: run this"),
            ("1s", "1 AppWrapper runs or ran in worker clusters of MultiKueue: run this"),
        ] {
            let within = within.parse().unwrap();
            let report = report(all().into_iter(), By::Queue, false, within, moment(60));
            let page = text(&report, false).to_string();
            assert_eq!(page, format!("{want} command there\n"));
        }
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        let none =
            report(std::iter::empty(), By::Queue, false, "1d".parse().unwrap(), moment(86_400));
        let page = text(&none, false).to_string();
        assert_eq!(page, "no AppWrapper held quota since 2026-01-01T00:00:00Z\n");
    }
}
