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

/// An error and its causes, on one line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}
