//! Plots as SVG: latency over time within a run, and cost over size; a colour for each implementation.

use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::failure::Failure;
use crate::options::{Implementation, Scenario};
use crate::outcome::Outcome;
use crate::stats::real;

/// Width and height of a plot, in pixels.
const SIZE: (u32, u32) = (900, 520);
/// The same of a page of plots.
const PAGE: (u32, u32) = (1200, 1260);
/// Rows and columns of a page of plots.
const GRID: (usize, usize) = (3, 2);
/// The radius of a point, in pixels.
const POINT: i32 = 3;
/// Where the point of a legend is, in pixels from its left.
const LEGEND: i32 = 12;
/// Room above the highest point, as a factor.
const HEADROOM: f64 = 1.2;
/// The font of everything but titles, and its size.
const TEXT: (&str, i32) = ("sans-serif", 15);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// One plot.
struct Plot<'a> {
    title: String,
    /// Label of the horizontal axis, with the unit.
    x: &'a str,
    /// Label of the vertical axis, with the unit.
    y: &'a str,
    /// Points are joined by a line.
    joined: bool,
    series: Vec<(Implementation, Vec<(f64, f64)>)>,
}

/// Draws everything of a scenario; the files.
pub fn all(scenario: Scenario, outcomes: &[Outcome], dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut sizes: Vec<usize> = outcomes.iter().map(|outcome| outcome.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut files = vec![];
    for size in sizes {
        let path = dir.join(format!("{scenario}-{size}-latency.svg"));
        let plot = latency(scenario, size, outcomes);
        draw(&path, SIZE, |area| plot.draw(area))?;
        files.push(path);
    }
    let path = dir.join(format!("{scenario}-cost.svg"));
    let plots: Vec<Plot<'_>> =
        costs(scenario, outcomes).into_iter().filter(|plot| !plot.series.is_empty()).collect();
    draw(&path, PAGE, |area| {
        let areas = area.split_evenly(GRID);
        plots.iter().zip(&areas).try_for_each(|(plot, area)| plot.draw(area))
    })?;
    files.push(path);
    Ok(files)
}

fn draw(
    path: &Path,
    size: (u32, u32),
    content: impl FnOnce(&Area<'_>) -> Drawn,
) -> Result<(), Failure> {
    let area = SVGBackend::new(path, size).into_drawing_area();
    let drawn = area.fill(&WHITE).and_then(|()| content(&area)).and_then(|()| area.present());
    drawn.map_err(|error| Failure::Plot { path: path.to_owned(), problem: error.to_string() })
}

fn latency(scenario: Scenario, size: usize, outcomes: &[Outcome]) -> Plot<'static> {
    let of_size = outcomes.iter().filter(|outcome| outcome.size == size);
    let points = |outcome: &Outcome| -> Vec<(f64, f64)> {
        outcome.points.iter().map(|point| (point.at, point.latency)).collect()
    };
    let series = of_size.map(|outcome| (outcome.implementation, points(outcome))).collect();
    Plot {
        title: format!("{scenario}, {size} {}: {}", scenario.counted(), scenario.transition()),
        x: "time since the begin (s)",
        y: "latency (s)",
        joined: false,
        series,
    }
}

/// What a run cost in one respect.
type Measured = fn(&Outcome) -> Option<f64>;

fn costs(scenario: Scenario, outcomes: &[Outcome]) -> Vec<Plot<'static>> {
    let unit = scenario.unit();
    let all: [(String, &'static str, Measured); 6] = [
        (format!("CPU of the controller per {unit}"), "CPU time (ms)", |it| it.cost.cpu_ms),
        (format!("CPU of the API server per {unit}"), "CPU time (ms)", |it| it.cost.server_ms),
        (format!("requests of the controller per {unit}"), "requests", |it| it.cost.calls),
        (format!("requests of everybody per {unit}"), "requests", |it| it.cost.all_calls),
        ("peak memory of the controller".to_owned(), "memory (MiB)", |it| it.cost.peak_mb),
        (format!("p50 {}", scenario.transition()), "latency (s)", Outcome::median),
    ];
    let plot = |(title, y, measured): (String, &'static str, Measured)| Plot {
        title: format!("{scenario}: {title}"),
        x: scenario.counted(),
        y,
        joined: true,
        series: over_size(outcomes, measured),
    };
    all.into_iter().map(plot).collect()
}

/// A line for each implementation that has something measured, in the order of sizes.
fn over_size(outcomes: &[Outcome], measured: Measured) -> Vec<(Implementation, Vec<(f64, f64)>)> {
    let line = |implementation: &Implementation| {
        let of_it = outcomes.iter().filter(|outcome| outcome.implementation == *implementation);
        let mut points: Vec<(f64, f64)> =
            of_it.filter_map(|outcome| Some((real(outcome.size), measured(outcome)?))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        (*implementation, points)
    };
    Implementation::value_variants().iter().map(line).filter(|(_, it)| !it.is_empty()).collect()
}

const fn colour(implementation: Implementation) -> RGBColor {
    match implementation {
        Implementation::Controller => RGBColor(0, 90, 200),
        Implementation::Other => RGBColor(210, 90, 0),
        Implementation::Floor => RGBColor(110, 110, 110),
    }
}

impl Plot<'_> {
    fn draw(&self, area: &Area<'_>) -> Drawn {
        let (width, height) = self.ends();
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 18))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(66)
            .build_cartesian_2d(0.0..width, 0.0..height)?;
        // lines between the labelled ones would be most of the file
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .label_style(TEXT)
            .max_light_lines(1)
            .draw()?;
        for (implementation, points) in &self.series {
            let colour = colour(*implementation);
            let dots = points.iter().map(|point| Circle::new(*point, POINT, colour.filled()));
            chart
                .draw_series(dots)?
                .label(implementation.to_string())
                .legend(move |(x, y)| Circle::new((x + LEGEND, y), POINT, colour.filled()));
            if self.joined {
                chart
                    .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
            }
        }
        chart
            .configure_series_labels()
            .label_font(TEXT)
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()
    }

    /// Where the axes end: both begin at 0.
    fn ends(&self) -> (f64, f64) {
        let all = || self.series.iter().flat_map(|(_, points)| points);
        let end = |most: f64| if most > 0.0 { most * HEADROOM } else { 1.0 };
        let (x, y) = (all().map(|point| point.0), all().map(|point| point.1));
        (end(x.fold(0.0, f64::max)), end(y.fold(0.0, f64::max)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Point;

    #[test]
    fn a_plot_has_title_axes_legend_and_points() {
        let mut outcome = Outcome::new(Scenario::Storm, Implementation::Floor, 2);
        outcome.draw([Point { at: 1.0, latency: 0.5 }, Point { at: 1.5, latency: 0.75 }]);
        let plot = latency(Scenario::Storm, 2, &[outcome]);
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            plot.draw(&area).unwrap();
            area.present().unwrap();
        }
        for part in ["storm, 2 AppWrappers", "latency (s)", "since the begin (s)", "floor"] {
            assert!(text.contains(part), "{part}");
        }
        // two points, and that of the legend
        assert_eq!(text.matches("<circle").count(), 3);
    }
}
