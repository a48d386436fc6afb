//! What is printed: the one place that writes to the terminal.

use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};

/// Prints a text as it is. A reader that has gone away (`| head`) is no error.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Prints an error.
pub fn complain(text: &str) {
    let mut out = std::io::stderr().lock();
    drop(writeln!(out, "error: {text}"));
}

/// Whether standard output is a terminal, so that colour and progress make sense.
#[must_use]
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// A colour of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Something is wrong.
    Red,
    /// All is well.
    Green,
    /// Something is being done.
    Yellow,
    /// Not worth a look.
    Dim,
    /// Worth the first look.
    Bold,
}

/// Whether standard output takes colour: a terminal, and nobody asked for none (<https://no-color.org>).
#[must_use]
pub fn has_colour() -> bool {
    is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A text in a colour, where there are colours.
#[must_use]
pub fn paint(text: &str, colour: Colour, colours: bool) -> String {
    let code = match colour {
        Colour::Red => 31,
        Colour::Green => 32,
        Colour::Yellow => 33,
        Colour::Dim => 2,
        Colour::Bold => 1,
    };
    if colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Columns and rows of the terminal, from the environment or from `stty`; else a usual size.
#[must_use]
pub fn size() -> (usize, usize) {
    let given = |name: &str| std::env::var_os(name)?.to_str()?.parse().ok();
    match (given("COLUMNS"), given("LINES")) {
        (Some(columns), Some(rows)) => (columns, rows),
        (columns, rows) => {
            let (wide, high) = asked_size().unwrap_or((100, 30));
            (columns.unwrap_or(wide), rows.unwrap_or(high))
        }
    }
}

/// The standard library cannot ask; every system with terminals has a tool that does.
fn asked_size() -> Option<(usize, usize)> {
    let terminal = std::fs::File::open("/dev/tty").ok()?;
    let mut stty = Command::new("stty");
    let answer = stty.arg("size").stdin(terminal).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(answer.stdout).ok()?;
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    let (rows, columns) = (numbers.next()?, numbers.next()?);
    (rows > 0 && columns > 0).then_some((columns, rows))
}

/// The whole terminal, without a cursor; what was on it is back when this is dropped.
#[derive(Debug)]
pub struct Screen(());

impl Screen {
    /// Takes the terminal.
    #[must_use]
    pub fn enter() -> Self {
        print("\x1b[?1049h\x1b[?25l\x1b[2J");
        Self(())
    }

    /// Draws lines over what was there; no line may be wider than the terminal.
    pub fn draw(&self, lines: &[String]) {
        let mut text = "\x1b[H".to_owned();
        for (index, line) in lines.iter().enumerate() {
            let end = if index + 1 < lines.len() { "\r\n" } else { "" };
            text.push_str(&format!("{line}\x1b[K{end}"));
        }
        text.push_str("\x1b[J");
        print(&text);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        print("\x1b[?25h\x1b[?1049l");
    }
}
