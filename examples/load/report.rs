//! Results as text: a table for each scenario, a line of JSON for each run.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use crate::failure::Failure;
use crate::options::Scenario;
use crate::outcome::Outcome;

/// The file of the lines of JSON.
const LINES: &str = "runs.jsonl";

/// Writes a line to standard output.
pub fn say(line: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{line}").map_err(Failure::io("write to", Path::new("standard output")))
}

/// Prints a run as a line of JSON, and appends it to the file of the directory.
pub fn run(outcome: &Outcome, dir: &Path) -> Result<(), Failure> {
    let line = serde_json::to_string(outcome).map_err(|error| Failure::Document {
        what: "the measures".to_owned(),
        problem: error.to_string(),
    })?;
    say(&line)?;
    let path = dir.join(LINES);
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| writeln!(file, "{line}"));
    written.map_err(Failure::io("write", &path))
}

/// A table with a column for each run, and the measures that any of them has as rows.
pub fn table(scenario: Scenario, outcomes: &[Outcome]) -> String {
    let columns: Vec<Vec<(String, String)>> = outcomes.iter().map(Outcome::rows).collect();
    let mut names: Vec<&String> = vec![];
    for columns in &columns {
        let mut place = 0;
        for (name, _) in columns {
            // after the row that comes before it in this column, so that rows of one kind stay together
            let known = names.iter().position(|known| *known == name);
            if known.is_none() {
                names.insert(place, name);
            }
            place = known.unwrap_or(place) + 1;
        }
    }
    let head = outcomes.iter().map(|it| format!("{} {}", it.implementation, it.size));
    let mut rows: Vec<Vec<String>> =
        vec![std::iter::once(scenario.to_string()).chain(head).collect()];
    for name in names {
        let cell = |column: &Vec<(String, String)>| {
            let found = column.iter().find(|(known, _)| known == name);
            found.map_or_else(|| "-".to_owned(), |(_, value)| value.clone())
        };
        rows.push(std::iter::once(name.clone()).chain(columns.iter().map(cell)).collect());
    }
    aligned(&rows)
}

fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|it| it.chars().count()).max()
    };
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            text +=
                &if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Implementation;
    use crate::outcome::parts;

    #[test]
    fn a_table_has_the_rows_of_all_runs() {
        let run = |implementation| Outcome::new(Scenario::Churn, implementation, 20);
        let mut controller = run(Implementation::Controller);
        controller.set("wall_s", 1.5);
        controller.set("calls", parts([("create pods".to_owned(), 20)]));
        controller.set("rss_mb", 12.0);
        let mut floor = run(Implementation::Floor);
        floor.set("wall_s", 1.25);
        floor.set("extra", 1);
        let table = table(Scenario::Churn, &[controller, floor]);
        let expected = "\
churn               controller 20  floor 20
wall_s                        1.5      1.25
extra                           -         1
calls: create pods             20         -
rss_mb                       12.0         -
";
        assert_eq!(table, expected);
    }
}
