//! What is printed: the one place that writes to the terminal, but for the progress bar of `simulate`.

use std::fmt;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use unicode_width::UnicodeWidthChar;

use crate::printable::{self, truncate_chars};

/// A text for people. Whatever is put into it is escaped there, so that nothing that others wrote can
/// command a terminal or look like a line of ours; this is the only text that [`print`] takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page(Vec<Shown>);

/// One line of a [`Page`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown(String);

/// A piece of a line, and its colour.
pub type Span = (String, Option<Colour>);

impl Shown {
    /// A line without colours.
    #[must_use]
    pub fn plain(text: &str) -> Self {
        Self(piece(text))
    }

    /// A line of pieces, in their colours where there are colours.
    #[must_use]
    pub fn spans(spans: &[Span], colours: bool) -> Self {
        let painted = |(text, colour): &Span| {
            let text = piece(text);
            match colour {
                Some(colour) if !text.trim().is_empty() => paint(&text, *colour, colours),
                Some(_) | None => text,
            }
        };
        Self(spans.iter().map(painted).collect())
    }

    /// The same, cut to the columns of a terminal before it is painted; some characters take two.
    #[must_use]
    pub fn fitted(spans: &[Span], width: usize, colours: bool) -> Self {
        let mut left = width;
        let cut = |(text, colour): &Span| {
            let fits = |character: &char| {
                let after = left.checked_sub(character.width().unwrap_or_default());
                left = after.unwrap_or_default();
                after.is_some()
            };
            let part: String = printable::escape(text).chars().take_while(fits).collect();
            (part, *colour)
        };
        let line = Self::spans(&spans.iter().map(cut).collect::<Vec<_>>(), colours);
        if colours { line } else { line.trimmed() }
    }

    /// The same line without spaces at its end.
    #[must_use]
    pub fn trimmed(self) -> Self {
        Self(self.0.trim_end().to_owned())
    }
}

/// A piece of a line, safe and not longer than anybody reads.
fn piece(text: &str) -> String {
    printable::truncated(text, LINE_CHARS_MAX)
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Page {
    /// Adds a line; a line break in it is escaped.
    pub fn line(&mut self, text: &str) {
        self.0.push(Shown::plain(text));
    }

    /// Adds a line whose tabs stay.
    pub fn line_with_tabs(&mut self, text: &str) {
        let pieces: Vec<_> = text.split('\t').map(printable::escape).collect();
        let safe = pieces.join("\t");
        self.0.push(Shown(truncate_chars(&safe, LINE_CHARS_MAX).into_owned()));
    }

    /// Adds a line of pieces.
    pub fn spans(&mut self, spans: &[Span], colours: bool) {
        self.0.push(Shown::spans(spans, colours));
    }

    /// Adds a text that may have several lines. All but the first are indented, so that a line break in
    /// what it quotes makes no line that looks like one of ours.
    pub fn message(&mut self, text: &str) {
        for (number, line) in text.lines().enumerate() {
            let indent = if number == 0 { "" } else { "  " };
            self.line(&format!("{indent}{line}"));
        }
    }

    /// Adds all lines of another.
    pub fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl From<Vec<Shown>> for Page {
    fn from(lines: Vec<Shown>) -> Self {
        Self(lines)
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Prints a text for people.
pub fn print(page: &Page) {
    write(&page.to_string());
}

/// Prints a text for people, where more will follow; false where nobody reads it any more (`| head`), or where it
/// cannot be written.
#[must_use]
pub fn print_on(page: &Page) -> bool {
    written(&page.to_string()).is_ok()
}

/// Prints text that this program alone wrote, such as its own definitions, or that commands no terminal for certain.
pub fn print_own(text: &str) {
    write(text);
}

/// Prints an answer as JSON, on several lines.
///
/// # Errors
/// It cannot be written as JSON.
pub fn print_json(answer: &impl Serialize) -> Result<(), serde_json::Error> {
    write(&json(answer)?);
    Ok(())
}

/// Prints a value as JSON, on one line.
pub fn print_json_line(value: &serde_json::Value) {
    drop(written(&json_line(value)));
}

/// The same, where more will follow; false where nobody reads it any more, or where it cannot be written.
#[must_use]
pub fn print_json_on(value: &serde_json::Value) -> bool {
    written(&json_line(value)).is_ok()
}

fn json_line(value: &serde_json::Value) -> String {
    printable::escape_json(&value.to_string()).into_owned() + "\n"
}

fn write(text: &str) {
    drop(written(text));
}

/// Something could not be written to standard output, although somebody reads it: the disk is full, for example.
static OUTPUT_FAILED: AtomicBool = AtomicBool::new(false);

/// Whether something could not be written to standard output. Then an error has been printed.
#[must_use]
pub fn output_failed() -> bool {
    OUTPUT_FAILED.load(Ordering::Relaxed)
}

/// Writes to standard output. A reader that has gone away (`| head`) is no error of ours; the first other one is
/// printed.
fn written(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = &written
        && error.kind() != ErrorKind::BrokenPipe
        && !OUTPUT_FAILED.swap(true, Ordering::Relaxed)
    {
        complain(&format!("cannot write to standard output: {error}"));
    }
    written
}

/// Prints an error. It may have several lines.
pub fn complain(text: &str) {
    let mut page = Page::default();
    page.message(&format!("error: {}", truncate_chars(text, COMPLAINT_CHARS_MAX)));
    drop(write!(std::io::stderr().lock(), "{page}"));
}

/// Says on standard error what is worth knowing, whoever reads it.
pub fn remark(text: &str) {
    drop(writeln!(std::io::stderr().lock(), "{}", Shown::plain(text)));
}

/// Says on standard error how far it is, where somebody looks on.
pub fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        remark(text);
    }
}

/// The longest error, in characters: a server may answer with a text of any length.
const COMPLAINT_CHARS_MAX: usize = 16 << 10;
/// The longest piece of a line, in characters: names in a file may have any length. The API has none that is
/// longer than 32 KiB.
const LINE_CHARS_MAX: usize = 32 << 10;
/// The longest cell of a table, in characters: it would widen every row.
const CELL_CHARS_MAX: usize = 200;

/// An answer as JSON, on several lines. What a terminal would obey is escaped in it, as JSON does it.
///
/// # Errors
/// It cannot be written as JSON.
pub fn json(answer: &impl Serialize) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string_pretty(answer)?;
    Ok(printable::escape_json(&text).into_owned() + "\n")
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
fn paint(text: &str, colour: Colour, colours: bool) -> String {
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
/// whole.
#[must_use]
pub fn table(titles: (&[&str], Option<Colour>), rows: &[Row], gap: &str, colours: bool) -> Page {
    let lines = columns(titles, rows, gap);
    Page(lines.into_iter().map(|line| Shown::spans(&[line], colours)).collect())
}

/// The lines of such a table, not yet painted.
#[must_use]
pub fn columns(titles: (&[&str], Option<Colour>), rows: &[Row], gap: &str) -> Vec<Span> {
    let (titles, colour) = titles;
    let titles: Row = (titles.iter().map(|title| (*title).to_owned()).collect(), colour);
    let cell = |cell: &String| printable::truncated(cell, CELL_CHARS_MAX);
    let cells =
        rows.iter().map(|(cells, colour)| (cells.iter().map(cell).collect::<Vec<_>>(), *colour));
    let all: Vec<Row> = std::iter::once(titles).chain(cells).collect();
    let widths = widths(all.iter().map(|(cells, _)| cells.iter().map(String::as_str)));
    let line = |(cells, colour): &Row| {
        let cells: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| padded(cell, *width)).collect();
        (cells.join(gap).trim_end().to_owned(), *colour)
    };
    all.iter().map(line).collect()
}

/// How wide each column of some rows of cells must be.
#[must_use]
pub fn widths<'c, R>(rows: impl IntoIterator<Item = R>) -> Vec<usize>
where
    R: IntoIterator<Item = &'c str>,
{
    let mut widths: Vec<usize> = vec![];
    for row in rows {
        for (column, cell) in row.into_iter().enumerate() {
            let wide = wide(cell);
            match widths.get_mut(column) {
                Some(width) => *width = wide.max(*width),
                None => widths.push(wide),
            }
        }
    }
    widths
}

/// The columns of a terminal that a text takes; some characters take two, some none.
#[must_use]
pub fn wide(text: &str) -> usize {
    text.chars().map(|character| character.width().unwrap_or_default()).sum()
}

/// A text with spaces up to so many columns.
#[must_use]
pub fn padded(text: &str, width: usize) -> String {
    text.to_owned() + &" ".repeat(width.saturating_sub(wide(text)))
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
        write("\x1b[?1049h\x1b[?25l\x1b[2J");
        Self(())
    }

    /// Draws lines over what was there; no line may be wider than the terminal.
    pub fn draw(&self, lines: &[Shown]) {
        let mut text = "\x1b[H".to_owned();
        for (index, line) in lines.iter().enumerate() {
            let end = if index + 1 < lines.len() { "\r\n" } else { "" };
            text.push_str(&format!("{line}\x1b[K{end}"));
        }
        text.push_str("\x1b[J");
        write(&text);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        write("\x1b[?25h\x1b[?1049l");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_makes_no_line_and_no_command() {
        let hostile = "a\x1b[2J\nf.yaml: valid\r\u{202e}";
        let mut page = Page::default();
        page.line(hostile);
        page.spans(&[("ok ".into(), Some(Colour::Green)), (hostile.into(), None)], true);
        page.message(&format!("one: {hostile}"));
        assert_eq!(
            page.to_string(),
            "a\\u{1b}[2J\\nf.yaml: valid\\r\\u{202e}\n\
             \x1b[32mok \x1b[0ma\\u{1b}[2J\\nf.yaml: valid\\r\\u{202e}\n\
             one: a\\u{1b}[2J\n  f.yaml: valid\\r\\u{202e}\n"
        );
    }

    #[test]
    fn a_line_is_cut_by_the_columns_that_it_takes() {
        for (text, width, want) in [
            ("abc", 3, "abc"),
            ("abc", 2, "ab"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本"),
            ("a日e\u{301}x", 4, "a日e\u{301}"),
            ("日", 1, ""),
        ] {
            let spans = [(text.to_owned(), None), (String::new(), None)];
            assert_eq!(Shown::fitted(&spans, width, true).to_string(), want, "{text} {width}");
        }
        let spans = [("a日".to_owned(), None), ("b".to_owned(), None)];
        assert_eq!(Shown::fitted(&spans, 2, true).to_string(), "a", "nothing follows a gap");
    }

    #[test]
    fn a_column_is_as_wide_as_the_terminal_shows_it() {
        let rows: [Row; 2] = [
            (vec!["日本語".into(), "1m".into()], None),
            (vec!["e\u{301}x".into(), "2m".into()], None),
        ];
        assert_eq!(
            table((&["STATE", "AGE"], None), &rows, "  ", false).to_string(),
            "STATE   AGE\n日本語  1m\ne\u{301}x      2m\n"
        );
    }

    #[test]
    fn a_long_cell_widens_no_table_without_end() {
        let rows: [Row; 2] = [(vec!["x".repeat(1_000_000)], None), (vec!["y".into()], None)];
        assert!(table((&["NAME"], None), &rows, " ", false).to_string().len() < 1_000);
    }

    #[test]
    fn a_table_has_columns_and_no_commands() {
        let rows: [Row; 2] = [
            (vec!["train".into(), "Running".into(), "2".into()], None),
            (vec!["a\x1b[2J".into(), "Failed".into(), "-".into()], Some(Colour::Red)),
        ];
        assert_eq!(
            table((&["NAME", "PHASE", "RESTARTS"], None), &rows, "   ", true).to_string(),
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
