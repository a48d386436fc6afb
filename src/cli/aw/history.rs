//! `appwrapper history`: AppWrappers that were deleted, as the controller has recorded them.

use std::process::ExitCode;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::core::ApiResource;
use serde::Serialize;

use super::super::cluster::unlisted;
use super::super::ledger::Ledger;
use super::super::place::{Place, data_of};
use super::super::term::{self, Colour, Page, Row, table};
use super::super::{ClusterArgs, DONE, Error, Output};
use super::words::{self, GAP, NOTHING};
use super::{attempts, block_on, now, object_name, tell, wrapper_name};
use crate::api::{Attempt, AttemptAction, AttemptOutcome, keys};
use crate::observe::live;
use crate::observe::raw_object::RawObject;
use crate::record::{RECORD_KEY, Record};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Only AppWrappers of this name, with their attempts
    #[arg(value_parser = wrapper_name)]
    name: Option<String>,
    /// Namespace; defaults to the namespace of the kubeconfig
    #[arg(short, long, value_parser = object_name)]
    namespace: Option<String>,
    /// List deleted AppWrappers of all namespaces; overrides --namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The records of a namespace, or of all, the last one at the end.
#[derive(Debug, Serialize)]
struct Past {
    /// None: of all namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    items: Vec<Item>,
}

/// A record, and the namespace in which it is.
#[derive(Debug, Serialize)]
struct Item {
    namespace: String,
    #[serde(flatten)]
    record: Record,
}

pub(in crate::cli) fn run(args: &Args) -> Result<ExitCode, Error> {
    let past = block_on(async {
        let Place { client, namespace } =
            Place::of(&args.cluster, args.namespace.as_deref()).await?;
        let namespace = (!args.all_namespaces).then_some(namespace);
        let resource = ApiResource::erase::<ConfigMap>(&());
        let labels = match &args.name {
            Some(name) => format!("{}={name}", keys::RECORD),
            None => keys::RECORD.to_owned(),
        };
        let params = ListParams::default().labels(&labels);
        let listed = live::list(&client, &resource, namespace.as_deref(), &params).await;
        let listed = listed.map_err(|error| unlisted(&error))?;
        Ok(Past { items: records(&listed), namespace })
    })?;
    if past.items.is_empty() && args.output == Output::Text {
        let of = args.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        let place = past.namespace.map(|name| format!(" in namespace {name}")).unwrap_or_default();
        term::remark(&format!(
            "no record of a deleted AppWrapper{of}{place}; the controller keeps records only if its configuration \
             enables `history`"
        ));
        return Ok(DONE);
    }
    let (now, colours) = (now(), term::has_colour());
    let columns = Columns { namespaces: args.all_namespaces, colours };
    tell(args.output, &past, || text(&past.items, args.name.is_some(), columns, now))
}

/// The records that can be read, by the time of the deletion.
fn records(listed: &[RawObject]) -> Vec<Item> {
    let read = |seen: &RawObject| {
        let record = serde_json::from_str::<Record>(data_of(seen)?.get(RECORD_KEY)?).ok()?;
        Some(Item { namespace: seen.meta.namespace.clone().unwrap_or_default(), record })
    };
    let mut all: Vec<Item> = listed.iter().filter_map(read).collect();
    all.sort_by(|a, b| order(a).cmp(&order(b)));
    all
}

fn order(Item { namespace, record }: &Item) -> (Option<Timestamp>, &str, &str, &str) {
    (record.deleted, namespace, &record.name, &record.uid)
}

/// How the table looks.
#[derive(Clone, Copy, Debug)]
struct Columns {
    /// It has a column of namespaces.
    namespaces: bool,
    colours: bool,
}

const TITLES: [&str; 10] = [
    "NAMESPACE",
    "NAME",
    "OUTCOME",
    "QUEUE",
    "USER",
    "RESTARTS",
    "LAST FAILURE",
    "DURATION",
    "GOODPUT",
    "DELETED",
];

fn text(items: &[Item], with_attempts: bool, columns: Columns, now: Timestamp) -> Page {
    let Columns { namespaces, colours } = columns;
    let first = usize::from(!namespaces);
    let row = |item: &Item| -> Row {
        let (cells, colour) = row(item, now);
        (cells[first..].to_vec(), colour)
    };
    let rows: Vec<Row> = items.iter().map(row).collect();
    let mut page = table((&TITLES[first..], None), &rows, GAP, colours);
    for Item { namespace, record } in items.iter().filter(|_| with_attempts) {
        page.line("");
        let place = if namespaces { format!("{namespace}/") } else { String::new() };
        let deleted = record.deleted.map(|at| format!(", deleted {}", words::moment(at, now)));
        page.line(&format!("{place}{}{}", record.name, deleted.unwrap_or_default()));
        page.append(attempts::page(&record.attempts, record.deleted, now, colours));
    }
    page
}

/// The namespace comes first.
fn row(Item { namespace, record }: &Item, now: Timestamp) -> Row {
    let dash = || NOTHING.to_owned();
    let outcome = ending(record.attempts.last());
    let colour = match outcome {
        AttemptOutcome::Succeeded => Some(Colour::Green),
        AttemptOutcome::Failed => Some(Colour::Red),
        AttemptOutcome::Suspended
        | AttemptOutcome::Deleted
        | AttemptOutcome::ComponentRecreated
        | AttemptOutcome::NoFit => None,
    };
    let cause =
        words::last_failure(&record.attempts).map(|(_, failure)| words::short_cause(failure));
    let age = |at: Option<Timestamp>| match at {
        Some(at) => format!("{} ago", words::age(Some(at), now)),
        None => dash(),
    };
    let cells = vec![
        namespace.clone(),
        record.name.clone(),
        outcome.as_str().to_owned(),
        record.queue.clone().unwrap_or_else(dash),
        record.user.clone().unwrap_or_else(dash),
        record.restarts.to_string(),
        cause.filter(|cause| !cause.is_empty()).unwrap_or_else(dash),
        words::exactly(took(record)),
        goodput(record, now).map_or_else(dash, |percent| format!("{percent}%")),
        age(record.deleted),
    ];
    (cells, colour)
}

/// How it ended: as its last attempt, unless it was deleted during that attempt, or after a failure that would have restarted
/// it.
fn ending(last: Option<&Attempt>) -> AttemptOutcome {
    let Some(last) = last else { return AttemptOutcome::Deleted };
    let is_final = match last.action {
        Some(AttemptAction::Fail) | None => true,
        Some(
            AttemptAction::Restart
            | AttemptAction::RestartIgnoringLimit
            | AttemptAction::RecreateComponent
            | AttemptAction::Hold
            | AttemptAction::Requeue,
        ) => false,
    };
    match last.outcome {
        Some(AttemptOutcome::Failed) if !is_final => AttemptOutcome::Deleted,
        Some(AttemptOutcome::ComponentRecreated) | None => AttemptOutcome::Deleted,
        Some(
            outcome @ (AttemptOutcome::Succeeded
            | AttemptOutcome::Failed
            | AttemptOutcome::Suspended
            | AttemptOutcome::Deleted
            | AttemptOutcome::NoFit),
        ) => outcome,
    }
}

/// Productive seconds of 100 in which quota was reserved, until the deletion.
fn goodput(record: &Record, now: Timestamp) -> Option<i64> {
    let until = record.deleted.unwrap_or(now);
    Ledger::of(record.usage.as_ref()?, record.queue.is_some(), until).goodput_percent
}

/// From the start of its first attempt that is recorded to the end of its last one.
fn took(record: &Record) -> Option<i64> {
    let (first, last) = (record.attempts.first()?, record.attempts.last()?);
    let started = first.started_at.as_ref().map(|time| time.0);
    words::between(started, attempts::ended(last).or(record.deleted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(text: &str) -> RawObject {
        let metadata = json!({"name": "c", "namespace": "ns"});
        let object = json!({"metadata": metadata, "data": {RECORD_KEY: text}});
        serde_json::from_str(&object.to_string()).unwrap()
    }

    const PLAIN: Columns = Columns { namespaces: false, colours: false };

    #[test]
    fn records_are_read_in_order_and_what_cannot_be_read_is_left_out() {
        let record = |name: &str, at: &str| json!({"name": name, "deleted": at}).to_string();
        let all = [
            seen(&record("b", "2026-01-01T00:01:00Z")),
            seen("{"),
            seen(&record("a", "2026-01-01T00:00:00Z")),
        ];
        let names: Vec<String> = records(&all).into_iter().map(|item| item.record.name).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn a_record_has_a_line_and_its_attempts() {
        let record = json!({
            "name": "train\u{1b}[2J", "queue": "gpu", "user": "ann", "restarts": 1,
            "created": "2026-01-01T00:00:00Z", "deleted": "2026-01-01T00:10:00Z",
            "usage": {"state": "teardown", "since": "2026-01-01T00:09:00Z",
                "seconds": {"waiting": 60, "productive": 360}},
            "attempts": [
                {"attempt": 0, "startedAt": "2026-01-01T00:01:00Z", "outcome": "Failed",
                    "failure": {"pod": "w-0", "container": "main", "exitCode": 3}},
                {"attempt": 1, "startedAt": "2026-01-01T00:02:00Z",
                    "endedAt": "2026-01-01T00:03:30Z", "outcome": "Succeeded"},
            ],
        });
        let now: Timestamp = "2026-01-01T00:11:00Z".parse().unwrap();
        let all = records(&[seen(&record.to_string())]);
        let page = text(&all, true, PLAIN, now).to_string();
        let lines: Vec<&str> = page.lines().collect();
        let cells = |line: &'_ str| -> Vec<String> {
            let cells = line.split("   ").map(str::trim).filter(|cell| !cell.is_empty());
            cells.map(str::to_owned).collect()
        };
        // the teardown counts until the deletion: 6 of 8 minutes
        let want = [
            "train\\u{1b}[2J",
            "Succeeded",
            "gpu",
            "ann",
            "1",
            "w-0/main 3",
            "2m30s",
            "75%",
            "60s ago",
        ];
        assert_eq!(cells(lines[1]), want);
        assert!(lines[3].starts_with("train\\u{1b}[2J, deleted 2026-01-01T00:10:00Z"), "{page}");
        assert!(lines[4].starts_with("ATTEMPT") && lines.len() == 7, "{page}");
        assert!(!text(&all, false, PLAIN, now).to_string().contains("ATTEMPT"));
        let wide = text(&all, true, Columns { namespaces: true, ..PLAIN }, now).to_string();
        let lines: Vec<&str> = wide.lines().collect();
        assert_eq!(cells(lines[0])[..2], ["NAMESPACE", "NAME"]);
        assert_eq!(cells(lines[1])[..2], ["ns", want[0]]);
        assert!(lines[3].starts_with("ns/train"), "{wide}");
        let json = serde_json::to_value(&all).unwrap();
        assert_eq!((&json[0]["namespace"], &json[0]["restarts"]), (&json!("ns"), &json!(1)));
    }

    #[test]
    fn one_that_was_deleted_before_its_next_attempt_has_not_failed() {
        for (last, want, colour) in [
            (json!({"outcome": "Failed", "action": "Restart"}), "Deleted", None),
            (json!({"outcome": "Failed", "action": "RestartIgnoringLimit"}), "Deleted", None),
            (json!({"outcome": "Failed", "action": "Fail"}), "Failed", Some(Colour::Red)),
            (json!({"outcome": "Failed"}), "Failed", Some(Colour::Red)),
            (json!({"outcome": "NoFit", "action": "Requeue"}), "NoFit", None),
            (json!({"outcome": "ComponentRecreated"}), "Deleted", None),
            (json!({"outcome": "Succeeded"}), "Succeeded", Some(Colour::Green)),
            (json!({}), "Deleted", None),
        ] {
            let mut attempt = last.clone();
            attempt["attempt"] = 0.into();
            let record = json!({"name": "train", "attempts": [attempt]});
            let all = records(&[seen(&record.to_string())]);
            let (cells, painted) = row(&all[0], Timestamp::UNIX_EPOCH);
            assert_eq!((cells[2].as_str(), painted), (want, colour), "{last}");
        }
    }

    #[test]
    fn an_attempt_that_the_deletion_ended_took_until_then() {
        let record = json!({
            "name": "train", "deleted": "2026-01-01T00:10:00Z",
            "attempts": [{"attempt": 0, "startedAt": "2026-01-01T00:08:00Z", "outcome": "Deleted"}],
        });
        let all = records(&[seen(&record.to_string())]);
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let page = text(&all, true, PLAIN, now).to_string();
        assert_eq!(page.matches("   2m   ").count(), 2, "of the list and of the attempt: {page}");
        assert!(page.contains("   50m ago   2m   "), "{page}");
    }
}
