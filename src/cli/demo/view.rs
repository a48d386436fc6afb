//! The live view: tables of what there is now, and the last lines of the story. Pure: no terminal here.

use std::time::Duration;

use super::super::term::{Colour, Shown, Span, padded, widths};
use super::narration::{Line, limits_of, pause_left, width};
use super::words::{amount_text, clock};
use crate::api::{Phase, condition};
use crate::printable::escape;
use crate::tuning::Period;
use crate::world::actors::kueue::WorkloadState;
use crate::world::show::{Picture, PodNow, Show, WrapperNow};

/// How many lines of the story are kept in view.
const LINES: usize = 8;
/// Width of a bar of quota.
const BAR: i64 = 20;

/// Where it is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub width: usize,
    pub height: usize,
    pub colours: bool,
}

/// Since when a period runs.
type Anchor = Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>;

/// The whole view, line by line, none wider than the frame.
pub(super) fn view(title: &str, picture: &Picture, lines: &[Line], frame: Frame) -> Vec<Shown> {
    let mut all: Vec<Vec<Span>> = vec![header(title, picture), vec![]];
    all.extend(table(
        &["APPWRAPPER", "PHASE", "ATTEMPT", "PODS", "QUOTA HELD", "WAITING FOR"],
        picture.wrappers.iter().map(|wrapper| wrapper_row(wrapper, picture.elapsed)).collect(),
    ));
    let mut below = vec![vec![], nodes(picture)];
    below.extend(bars(picture));
    below.push(vec![]);
    let fixed = all.len() + below.len() + 3;
    let room = frame.height.saturating_sub(fixed + LINES.min(lines.len())).max(3);
    let mut pods: Vec<Vec<Span>> = picture.pods.iter().map(pod_row).collect();
    let more = pods.len().saturating_sub(room);
    pods.truncate(room);
    if !pods.is_empty() {
        all.push(vec![]);
        all.extend(table(&["POD", "NODE", "PHASE", "ATTEMPT", "STATE"], pods));
    }
    if more > 0 {
        all.push(vec![(format!("… and {more} more"), Some(Colour::Dim))]);
    }
    all.extend(below);
    let mut drawn: Vec<Shown> = all.into_iter().map(|spans| fit(&spans, frame)).collect();
    // what is new is worth more than nothing, and less than the tables
    let left = frame.height.saturating_sub(drawn.len()).clamp(1, LINES);
    let shown = &lines[lines.len().saturating_sub(left)..];
    drawn.truncate(frame.height.saturating_sub(shown.len()));
    let width = width(shown);
    drawn.extend(shown.iter().map(|line| fit(&line.spans(width), frame)));
    drawn
}

fn header(title: &str, picture: &Picture) -> Vec<Span> {
    let mut spans = vec![
        (clock(picture.elapsed), Some(Colour::Bold)),
        (format!(" of virtual time  {title}"), Some(Colour::Dim)),
    ];
    if !picture.controlled {
        spans.push(("  no controller".to_owned(), Some(Colour::Red)));
    }
    spans
}

/// Columns as wide as they must be, with their titles.
fn table(titles: &[&str], rows: Vec<Vec<Span>>) -> Vec<Vec<Span>> {
    let head = titles.iter().map(|title| ((*title).to_owned(), Some(Colour::Dim))).collect();
    let mut all: Vec<Vec<Span>> = vec![head];
    let safe = |(text, colour): Span| (escape(&text).into_owned(), colour);
    all.extend(rows.into_iter().map(|row| row.into_iter().map(safe).collect()));
    let widths = widths(all.iter().map(|row| row.iter().map(|(text, _)| text.as_str())));
    for row in &mut all {
        for ((text, _), width) in row.iter_mut().zip(&widths) {
            *text = padded(text, width + 2);
        }
    }
    all
}

/// A line of a frame.
fn fit(spans: &[Span], frame: Frame) -> Shown {
    Shown::fitted(spans, frame.width, frame.colours)
}

const fn colour_of(phase: Phase) -> Option<Colour> {
    match phase {
        Phase::Running | Phase::Succeeded => Some(Colour::Green),
        Phase::Failed => Some(Colour::Red),
        Phase::Resuming | Phase::Resetting | Phase::Suspending | Phase::Terminating => {
            Some(Colour::Yellow)
        }
        Phase::Empty | Phase::Suspended => None,
    }
}

fn wrapper_row(wrapper: &WrapperNow, now: Duration) -> Vec<Span> {
    let status = &wrapper.status;
    let attempt =
        status.attempts.last().map_or_else(|| "-".to_owned(), |last| last.attempt.to_string());
    let unhealthy = condition::is_true(&status.conditions, condition::UNHEALTHY);
    let colour = if unhealthy && status.phase == Phase::Running {
        Some(Colour::Red)
    } else {
        colour_of(status.phase)
    };
    let pods = format!("{}/{}", wrapper.ready, wrapper.expected);
    vec![
        (wrapper.name.clone(), None),
        (status.phase.as_str().to_owned(), colour),
        (attempt, None),
        (pods, None),
        (held(wrapper), None),
        (waits(wrapper, now), None),
    ]
}

/// The quota that is reserved for it.
fn held(wrapper: &WrapperNow) -> String {
    let holds = match wrapper.standing {
        Some(WorkloadState::Admitted | WorkloadState::Evicting) => true,
        Some(WorkloadState::Pending | WorkloadState::Finished) => false,
        None => return "(no queue)".to_owned(),
    };
    let amounts = wrapper.needs.iter().filter(|(_, amount)| **amount > 0);
    let amounts: Vec<String> =
        amounts.map(|(name, amount)| format!("{} {name}", amount_text(*amount))).collect();
    if holds { amounts.join(", ") } else { "-".to_owned() }
}

/// What an AppWrapper waits for, and how long yet.
fn waits(wrapper: &WrapperNow, now: Duration) -> String {
    let status = &wrapper.status;
    let limits = limits_of(&wrapper.annotations);
    let since = status.since.clone().unwrap_or_default();
    let left = |anchor: &Anchor, period: Period| {
        let end = Show::moment_of(anchor.as_ref()?.0) + period.as_duration();
        let left = end.checked_sub(now).filter(|left| !left.is_zero())?;
        Some(rounded_up(left))
    };
    let within = |what: &str, left: Option<String>| match left {
        Some(left) => format!("{what} {left}"),
        None => String::new(),
    };
    let is = |kind| condition::is_true(&status.conditions, kind);
    match status.phase {
        Phase::Empty => "the controller".to_owned(),
        Phase::Suspended if wrapper.standing.is_some() => "quota".to_owned(),
        Phase::Suspended => "spec.suspend: false".to_owned(),
        Phase::Resuming => "its components".to_owned(),
        Phase::Running if is(condition::UNHEALTHY) => {
            let left = left(&since.failed_pods, limits.failure_grace);
            format!("its failed pods to be replaced{}", within(", restart in", left))
        }
        Phase::Running if !is(condition::PODS_READY) => "its pods to run".to_owned(),
        Phase::Running => "its pods to complete".to_owned(),
        Phase::Resetting if since.gone.is_some() => {
            within("the next attempt in", pause_left(status, &limits, now).map(rounded_up))
        }
        Phase::Resetting | Phase::Suspending | Phase::Terminating => {
            let left = left(&since.deleting, limits.forceful_deletion_grace);
            format!("deletion of its resources{}", within("; forced in", left))
        }
        Phase::Failed if is(condition::RESOURCES_DEPLOYED) => {
            within("its deletion in", left(&since.failed, limits.deletion_on_failure_grace))
        }
        Phase::Succeeded | Phase::Failed => String::new(),
    }
}

/// What is left of a period, in whole seconds.
fn rounded_up(left: Duration) -> String {
    clock(left + Duration::from_millis(999))
}

fn pod_row(pod: &PodNow) -> Vec<Span> {
    let colour = match pod.phase.as_str() {
        "Running" | "Succeeded" => Some(Colour::Green),
        "Failed" => Some(Colour::Red),
        _ => None,
    };
    let (state, tint) = match (pod.hangs, pod.terminating) {
        (true, true) => ("stuck in Terminating", Some(Colour::Red)),
        (true, false) => ("not reporting", Some(Colour::Red)),
        (false, true) => ("Terminating", Some(Colour::Yellow)),
        (false, false) if pod.node.is_empty() => ("waiting for a node", Some(Colour::Yellow)),
        (false, false) => ("", None),
    };
    vec![
        (pod.name.clone(), None),
        (pod.node.clone(), None),
        (pod.phase.clone(), colour.filter(|_| !pod.hangs)),
        (pod.attempt.clone(), None),
        (state.to_owned(), tint),
    ]
}

fn nodes(picture: &Picture) -> Vec<Span> {
    let mut spans = vec![("NODES  ".to_owned(), Some(Colour::Dim))];
    for (name, answers, pods) in &picture.nodes {
        let colour = if *answers { Colour::Green } else { Colour::Red };
        let state = match (answers, pods) {
            (false, _) => "NotReady".to_owned(),
            (true, 0) => "idle".to_owned(),
            (true, 1) => "1 pod".to_owned(),
            (true, more) => format!("{more} pods"),
        };
        spans.push((if *answers { "● " } else { "✗ " }.to_owned(), Some(colour)));
        spans.push((format!("{name} {state}   "), None));
    }
    spans
}

/// One bar for each resource that anybody could ask for.
fn bars(picture: &Picture) -> Vec<Vec<Span>> {
    let asked = |name: &String| {
        let needs = |wrapper: &WrapperNow| wrapper.needs.get(name).is_some_and(|need| *need > 0);
        picture.wrappers.iter().any(needs)
    };
    let one = |(name, (used, all)): (&String, &(i64, i64))| {
        let full = if *all > 0 { (used.saturating_mul(BAR) / all).clamp(0, BAR) } else { 0 };
        let (full, empty) = (times("█", full), times("░", BAR - full));
        vec![
            ("QUOTA  ".to_owned(), Some(Colour::Dim)),
            (full, Some(Colour::Yellow)),
            (empty, Some(Colour::Dim)),
            (format!(" {} of {} {name}", amount_text(*used), amount_text(*all)), None),
        ]
    };
    picture.quota.iter().filter(|(name, _)| asked(name)).map(one).collect()
}

fn times(text: &str, count: i64) -> String {
    text.repeat(usize::try_from(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::api::{AppWrapperStatus, Attempt, Since};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn wrapper(name: &str, standing: WorkloadState, status: AppWrapperStatus) -> WrapperNow {
        WrapperNow {
            name: name.to_owned(),
            annotations: BTreeMap::new(),
            status,
            suspend: false,
            standing: Some(standing),
            needs: BTreeMap::from([("nvidia.com/gpu".to_owned(), 2000)]),
            ready: 0,
            expected: 2,
        }
    }

    fn picture() -> Picture {
        let deleting = "2026-01-01T00:01:00Z".parse().unwrap();
        let resetting = AppWrapperStatus {
            phase: Phase::Resetting,
            attempts: vec![Attempt { attempt: 1, ..Attempt::default() }],
            since: Some(Since { deleting: Some(Time(deleting)), ..Since::default() }),
            ..AppWrapperStatus::default()
        };
        let suspended = AppWrapperStatus { phase: Phase::Suspended, ..AppWrapperStatus::default() };
        Picture {
            elapsed: Duration::from_secs(90),
            wrappers: vec![
                wrapper("train", WorkloadState::Admitted, resetting),
                wrapper("evaluate", WorkloadState::Pending, suspended),
            ],
            pods: vec![PodNow {
                name: "train-0".to_owned(),
                node: "node-2".to_owned(),
                phase: "Running".to_owned(),
                attempt: "1".to_owned(),
                terminating: true,
                hangs: true,
            }],
            nodes: vec![("node-1".to_owned(), true, 0), ("node-2".to_owned(), false, 1)],
            quota: BTreeMap::from([("nvidia.com/gpu".to_owned(), (2000, 4000))]),
            controlled: true,
        }
    }

    fn lines() -> Vec<Line> {
        vec![Line {
            at: Duration::from_mins(1),
            object: "AppWrapper/train".to_owned(),
            event: "Resetting".to_owned(),
            message: "everything is deleted".to_owned(),
        }]
    }

    fn shown(title: &str, picture: &Picture, lines: &[Line], frame: Frame) -> Vec<String> {
        view(title, picture, lines, frame).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_view_says_who_waits_for_what() {
        let frame = Frame { width: 100, height: 30, colours: false };
        insta::assert_snapshot!(shown("seed 1", &picture(), &lines(), frame).join("\n"), @r"
        01:30 of virtual time  seed 1

        APPWRAPPER  PHASE      ATTEMPT  PODS  QUOTA HELD        WAITING FOR
        train       Resetting  1        0/2   2 nvidia.com/gpu  deletion of its resources; forced in 09:30
        evaluate    Suspended  -        0/2   -                 quota

        POD      NODE    PHASE    ATTEMPT  STATE
        train-0  node-2  Running  1        stuck in Terminating

        NODES  ● node-1 idle   ✗ node-2 NotReady
        QUOTA  ██████████░░░░░░░░░░ 2 of 4 nvidia.com/gpu

        01:00  AppWrapper/train  Resetting: everything is deleted
        ");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_colours_take_no_room() {
        for (width, height) in [(10, 24), (40, 10), (79, 4)] {
            let plain = Frame { width, height, colours: false };
            let drawn = shown("seed 1", &picture(), &lines(), plain);
            assert!(drawn.len() <= height && drawn[0].starts_with("01:30"), "{drawn:?}");
            let widest = drawn.iter().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{drawn:?}");
            let coloured = Frame { colours: true, ..plain };
            let bare: Vec<String> = shown("seed 1", &picture(), &lines(), coloured)
                .iter()
                .map(|line| without_colours(line).trim_end().to_owned())
                .collect();
            let drawn: Vec<&str> = drawn.iter().map(|line| line.trim_end()).collect();
            assert_eq!(bare, drawn);
        }
    }

    fn without_colours(line: &str) -> String {
        let mut parts = line.split('\x1b');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
    }

    #[test]
    fn many_pods_leave_room_for_the_rest() {
        let mut picture = picture();
        let one = picture.pods[0].clone();
        picture.pods = vec![one; 50];
        let frame = Frame { width: 80, height: 24, colours: false };
        let drawn = shown("seed 1", &picture, &lines(), frame);
        assert!(drawn.len() <= 24, "{}", drawn.len());
        assert!(drawn.iter().any(|line| line.starts_with("… and ")), "{drawn:?}");
    }
}
