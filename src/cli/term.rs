//! What is printed: the one place that writes to the terminal.

use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};

use serde::Serialize;

/// Prints a text as it is. A reader that has gone away (`| head`) is no error.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Prints an error. It may have several lines; what it quotes is cleaned.
pub fn complain(text: &str) {
    let text: Vec<String> = text.lines().map(clean).collect();
    let mut out = std::io::stderr().lock();
    drop(writeln!(out, "error: {}", text.join("\n")));
}

/// Says on standard error what is worth knowing, whoever reads it.
pub fn remark(text: &str) {
    let mut out = std::io::stderr().lock();
    drop(writeln!(out, "{}", clean(text)));
}

/// Says on standard error how far it is, where somebody looks on.
pub fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        remark(text);
    }
}

/// A text that others wrote, on one line, as it may be shown: what a terminal would obey, and what
/// would make it show something else than is there, is escaped.
#[must_use]
pub fn clean(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else if misleads(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Characters that nobody sees, and that turn round or break what stands beside them.
const fn misleads(c: char) -> bool {
    matches!(
        c,
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
    )
}

/// An answer as JSON, on several lines. The same is escaped in it, as JSON does it.
///
/// # Errors
/// It cannot be written as JSON.
pub fn json(answer: &impl Serialize) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string_pretty(answer)?;
    let mut shown = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        // between its values there are no others than line feeds
        if c != '\n' && (c.is_control() || misleads(c)) {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown.push('\n');
    Ok(shown)
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

/// A row of a table: its cells, and the colour of the line.
pub type Row = (Vec<String>, Option<Colour>);

/// Columns as wide as they must be, under titles, with this gap between them; a line is coloured as a
/// whole, and its cells are cleaned.
#[must_use]
pub fn table(titles: (&[&str], Option<Colour>), rows: &[Row], gap: &str, colours: bool) -> String {
    let (titles, colour) = titles;
    let titles: Row = (titles.iter().map(|title| (*title).to_owned()).collect(), colour);
    let cleaned = rows
        .iter()
        .map(|(cells, colour)| (cells.iter().map(|cell| clean(cell)).collect::<Vec<_>>(), *colour));
    let all: Vec<Row> = std::iter::once(titles).chain(cleaned).collect();
    let columns = all.iter().map(|(cells, _)| cells.len()).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = all.iter().filter_map(|(cells, _)| cells.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |(cells, colour): &Row| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let line = padded.join(gap).trim_end().to_owned();
        let line = match colour {
            Some(colour) => paint(&line, *colour, colours),
            None => line,
        };
        line + "\n"
    };
    all.iter().map(line).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_command_a_terminal() {
        for (text, shown) in [
            ("CUDA error: Fehler größer ✓", "CUDA error: Fehler größer ✓"),
            ("\x1b[2J\x1b]0;title\x07", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            ("one\nerror: two\r\t", "one\\nerror: two\\r\\t"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}"),
            ("a\u{202e}cba", "a\\u{202e}cba"),
        ] {
            assert_eq!(clean(text), shown);
        }
    }

    #[test]
    fn a_table_has_columns_and_no_commands() {
        let rows: [Row; 2] = [
            (vec!["train".into(), "Running".into(), "2".into()], None),
            (vec!["a\x1b[2J".into(), "Failed".into(), "-".into()], Some(Colour::Red)),
        ];
        assert_eq!(
            table((&["NAME", "PHASE", "RESTARTS"], None), &rows, "   ", true),
            "NAME         PHASE     RESTARTS\n\
             train        Running   2\n\
             \x1b[31ma\\u{1b}[2J   Failed    -\x1b[0m\n"
        );
    }

    #[test]
    fn json_means_the_same_without_what_a_terminal_obeys() {
        let answer = serde_json::json!({"message": "\x1b[2J\u{9b}\n\u{202e}é"});
        let text = json(&answer).unwrap();
        assert_eq!(text, "{\n  \"message\": \"\\u001b[2J\\u009b\\n\\u202eé\"\n}\n");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), answer);
    }
}
