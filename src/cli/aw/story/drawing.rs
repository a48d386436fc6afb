//! A timeline becomes shapes, which a file and the page draw alike.

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::timeline::{Group, Row, Stage, Timeline};
use crate::cli::explain::text::span;
use crate::printable;

/// Width of a drawing, in its own units.
const WIDTH: i64 = 780;
/// Where the bars begin, and end.
const LEFT: i64 = 210;
const RIGHT: i64 = 770;
/// The height of a row of an attempt, and of a pod.
const ATTEMPT_HEIGHT: i64 = 34;
const POD_HEIGHT: i64 = 20;
/// The most characters of a name, of the line under it, and of a title.
const NAME_CHARS_MAX: usize = 27;
const END_CHARS_MAX: usize = 32;
const TITLE_CHARS_MAX: usize = 90;
/// The most marks of the axis.
const TICKS_MAX: i64 = 6;
/// Distances of the marks, in seconds.
const STEPS: [i64; 24] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400, 172_800, 604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000,
];

/// A drawing: shapes from back to front.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Drawing {
    pub width: i64,
    pub height: i64,
    /// What it shows, for those who do not see it.
    pub label: String,
    pub shapes: Vec<Shape>,
}

/// A shape; lengths in units of the drawing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "shape")]
pub(in crate::cli) enum Shape {
    Bar { x: i64, y: i64, width: i64, height: i64, class: &'static str, title: String },
    Line { x1: i64, y1: i64, x2: i64, y2: i64, class: &'static str },
    Text { x: i64, y: i64, class: &'static str, text: String },
}

/// The drawing of a timeline.
pub(super) fn drawing(timeline: &Timeline, title: &str) -> Drawing {
    let mut pen = Pen { timeline, y: 22, shapes: vec![], used: vec![] };
    pen.text(0, "axis", &format!("{} UTC", clock(timeline.from)));
    pen.text(RIGHT, "axis end", &format!("{} UTC", clock(timeline.to)));
    pen.y += 22;
    let (top, back) = (pen.y - 8, pen.shapes.len());
    pen.group(&timeline.attempts, ATTEMPT_HEIGHT);
    for set in &timeline.pod_sets {
        pen.y += 10;
        pen.group(set, POD_HEIGHT);
    }
    let bottom = pen.y;
    let grid = pen.grid(top, bottom);
    pen.shapes.splice(back..back, grid);
    pen.marks(top, bottom);
    pen.y = bottom + 38;
    pen.legend();
    for note in &timeline.notes {
        pen.y += 18;
        pen.text(0, "muted", &printable::truncated(note, TITLE_CHARS_MAX));
    }
    let label = format!("Timeline of {title}: {}", spoken(timeline));
    Drawing { width: WIDTH, height: pen.y + 12, label, shapes: pen.shapes }
}

/// Time of day and date, to the second: `2026-01-01 00:00:05`.
fn clock(at: Timestamp) -> String {
    at.to_string().chars().take(19).map(|c| if c == 'T' { ' ' } else { c }).collect()
}

/// In one sentence.
fn spoken(timeline: &Timeline) -> String {
    let one = |row: &Row| {
        let last = row.spans.last().map(|span| span.stage.name()).unwrap_or_default();
        let end = if row.end.is_empty() { last } else { &row.end };
        format!("{}: {end}", row.name)
    };
    timeline.attempts.rows.iter().map(one).collect::<Vec<_>>().join("; ")
}

struct Pen<'a> {
    timeline: &'a Timeline,
    /// Baseline of the next text.
    y: i64,
    shapes: Vec<Shape>,
    used: Vec<Stage>,
}

impl Pen<'_> {
    fn text(&mut self, x: i64, class: &'static str, text: &str) {
        self.shapes.push(Shape::Text { x, y: self.y, class, text: text.to_owned() });
    }

    /// Where a moment is.
    fn x(&self, at: Timestamp) -> i64 {
        let Timeline { from, to, .. } = self.timeline;
        let whole = to.duration_since(*from).as_millis().max(1);
        let part = at.duration_since(*from).as_millis().clamp(0, whole);
        LEFT + i64::try_from(part * i128::from(RIGHT - LEFT) / whole).unwrap_or_default()
    }

    fn group(&mut self, group: &Group, height: i64) {
        self.text(0, "title", &printable::truncated(&group.title, TITLE_CHARS_MAX));
        self.y += 10;
        for row in &group.rows {
            self.row(row, height);
        }
        if group.left_out > 0 {
            self.y += 12;
            self.text(8, "muted", &format!("{} more", group.left_out));
            self.y += 4;
        }
        self.y += 12;
    }

    fn row(&mut self, row: &Row, height: i64) {
        let is_attempt = height == ATTEMPT_HEIGHT;
        let top = self.y;
        self.y = top + 14;
        let name = if row.failed { "name bad" } else { "name" };
        self.text(8, name, &printable::truncated(&row.name, NAME_CHARS_MAX));
        if is_attempt {
            self.y = top + 28;
            self.text(8, "muted", &printable::truncated(&row.end, END_CHARS_MAX));
        }
        let (y, thick) = if is_attempt { (top + 5, 20) } else { (top + 4, 12) };
        for span in &row.spans {
            let (x, end) = (self.x(span.from), self.x(span.to));
            self.used.push(span.stage);
            let title = printable::escape(&format!("{}: {}", row.name, span.title())).into_owned();
            // a span too short to be seen is still shown
            let width = (end - x).max(2);
            let class = class(span.stage);
            self.shapes.push(Shape::Bar { x, y, width, height: thick, class, title });
        }
        self.y = top + height;
    }

    /// The marks of the axis, and their lines.
    fn grid(&self, top: i64, bottom: i64) -> Vec<Shape> {
        let Timeline { from, to, .. } = self.timeline;
        let whole = to.as_second().saturating_sub(from.as_second()).max(1);
        let step = STEPS.into_iter().find(|step| whole / step <= TICKS_MAX);
        let step = step.unwrap_or_else(|| (whole / TICKS_MAX).max(1));
        let mut shapes = vec![];
        for mark in 0..=whole / step {
            let seconds = mark * step;
            let Ok(at) = Timestamp::from_second(from.as_second().saturating_add(seconds)) else {
                break;
            };
            let x = self.x(at);
            shapes.push(Shape::Line { x1: x, y1: top, x2: x, y2: bottom, class: "grid" });
            let text = if seconds == 0 { "0".to_owned() } else { span(seconds) };
            shapes.push(Shape::Text { x, y: bottom + 14, class: "axis middle", text });
        }
        shapes
    }

    /// Now, and the next deadline.
    fn marks(&mut self, top: i64, bottom: i64) {
        self.y = top - 2;
        if let Some(now) = self.timeline.now {
            let x = self.x(now);
            self.shapes.push(Shape::Line { x1: x, y1: top, x2: x, y2: bottom, class: "now" });
        }
        if let Some(deadline) = &self.timeline.deadline {
            let x = self.x(deadline.at);
            self.shapes.push(Shape::Line { x1: x, y1: top, x2: x, y2: bottom, class: "deadline" });
            let text = printable::truncated(&deadline.what, TITLE_CHARS_MAX);
            self.text(x, "axis end", &text);
        }
    }

    fn legend(&mut self) {
        let mut x = 8;
        for stage in
            Stage::ALL.into_iter().filter(|stage| self.used.contains(stage)).collect::<Vec<_>>()
        {
            let (y, class) = (self.y - 9, class(stage));
            self.shapes.push(Shape::Bar {
                x,
                y,
                width: 12,
                height: 10,
                class,
                title: String::new(),
            });
            self.text(x + 17, "axis", stage.name());
            let letters = i64::try_from(stage.name().len()).unwrap_or_default();
            x += 34 + letters * 7;
        }
    }
}

const fn class(stage: Stage) -> &'static str {
    match stage {
        Stage::Waiting => "waiting",
        Stage::Starting => "starting",
        Stage::Running => "running",
        Stage::Failing => "failing",
        Stage::Ending => "ending",
        Stage::TearingDown => "teardown",
        Stage::Pausing => "pausing",
    }
}
