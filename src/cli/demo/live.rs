//! The show on a terminal: drawn in place until it is over or somebody has seen enough.

use std::time::Duration;

use super::super::run::stop_of_a_view;
use super::super::term::{self, Page, Screen, Shown};
use super::narration::{Line, Narration};
use super::view::{self, Frame};
use super::{HORIZON, ViewOptions, words};
use crate::world::show::Show;

/// Time between two pictures.
const FRAME: Duration = Duration::from_millis(80);
/// The size of the terminal is asked for again after so many frames.
const FRAMES_OF_A_SIZE: u32 = 10;
/// Frames in which nothing is told before time goes faster.
const PATIENCE: u32 = 30;
/// How much faster it goes at most.
const HASTE_MAX: f64 = 200.0;
/// Virtual seconds per real second, at most: more than [`HORIZON`] passes between two pictures.
const SPEED_MAX: f64 = 1e6;

/// Shows it all; false where somebody ended it.
pub(super) async fn live(mut show: Show, options: &ViewOptions) -> bool {
    let mut narration = Narration::default();
    let mut lines: Vec<Line> = options.notes.clone();
    let screen = Screen::enter();
    let (mut quiet, mut frame) = (0_u32, 0_u32);
    let mut size = term::size();
    let mut seen_enough = false;
    let stop = stop_of_a_view();
    tokio::pin!(stop);
    loop {
        let haste = haste(quiet);
        let told = lines.len();
        let goes_on = move_on(&mut show, &mut narration, &mut lines, options.speed * haste).await;
        quiet = if lines.len() > told { 0 } else { quiet + 1 };
        frame = frame.wrapping_add(1);
        if frame.is_multiple_of(FRAMES_OF_A_SIZE) {
            size = term::size();
        }
        let drawn = draw(&show, &lines, &title(options, haste), size);
        screen.draw(&drawn);
        if !goes_on {
            break;
        }
        let pause = if options.speed > 0.0 { FRAME } else { Duration::ZERO };
        tokio::select! {
            () = &mut stop => {
                seen_enough = true;
                break;
            }
            () = tokio::time::sleep(pause) => {}
        }
    }
    drop(screen);
    let (width, height) = term::size();
    // here the terminal may scroll
    let mut page = Page::from(draw(&show, &lines, &title(options, 1.0), (width, height.max(60))));
    page.line("");
    let summary = words::summary(&show, &lines);
    for line in summary.iter().flat_map(|line| words::wrapped(line, width)) {
        page.line(&line);
    }
    term::print(&page);
    !seen_enough
}

/// The time that passes between two pictures.
fn step(speed: f64) -> Duration {
    FRAME.mul_f64(speed.min(SPEED_MAX))
}

/// Lets time pass, at most to the next line of the story; false where it is over.
async fn move_on(
    show: &mut Show,
    narration: &mut Narration,
    lines: &mut Vec<Line>,
    speed: f64,
) -> bool {
    let target = if speed > 0.0 { show.elapsed() + step(speed) } else { HORIZON };
    let told = lines.len();
    while show.elapsed() < target && lines.len() == told {
        let goes_on = show.advance(target, HORIZON).await;
        for beat in show.drain() {
            lines.extend(narration.tell(&beat));
        }
        if !goes_on || show.elapsed() >= HORIZON {
            return false;
        }
    }
    true
}

/// Where nothing happens for long, time goes faster and faster.
fn haste(quiet: u32) -> f64 {
    let over = quiet.saturating_sub(PATIENCE);
    1.1_f64.powi(i32::try_from(over).unwrap_or(i32::MAX)).min(HASTE_MAX)
}

fn title(options: &ViewOptions, haste: f64) -> String {
    let faster = if haste > 1.0 { "  »" } else { "" };
    format!("seed {}{faster}", options.seed)
}

fn draw(show: &Show, lines: &[Line], title: &str, (width, height): (usize, usize)) -> Vec<Shown> {
    let frame = Frame { width, height, colours: term::has_colour() };
    view::view(title, &show.picture(), lines, frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_speed_is_a_length_of_time() {
        assert_eq!(step(1.0), FRAME);
        assert_eq!(step(1e21), step(SPEED_MAX));
        assert_eq!(step(f64::MAX * HASTE_MAX), step(SPEED_MAX));
    }
}
