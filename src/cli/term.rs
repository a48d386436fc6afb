//! What is printed: the one place that writes to the terminal.

use std::io::{IsTerminal, Write};

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
    };
    if colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}
