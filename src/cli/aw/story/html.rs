//! A story as a page that needs nothing else: no script, nothing that is loaded.

use super::svg::{escape, svg};
use super::{Line, Story, Table};

/// What the document may load: nothing but its own style.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const CSS: &str = include_str!("story.css");

/// The story as an HTML document.
pub(in crate::cli) fn html(story: &Story) -> String {
    let description = &story.description;
    let title = escape(&format!("AppWrapper {}/{}", description.namespace, description.name));
    let mut parts = vec![
        format!("<h1>{title}</h1>\n<p>{}</p>", escape(&story.heading)),
        format!("<section aria-label=\"Timeline\">\n{}</section>", svg(&story.drawing)),
        section("Why", &lines(&story.why)),
    ];
    parts.extend(story.attempts.as_ref().map(|it| section("Attempts", &table(it))));
    parts.extend(story.ledger.as_ref().map(|it| section("Usage", &table(it))));
    parts.push(format!("<footer>As of {}.</footer>", escape(&story.now.to_string())));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{CSS}</style>\n</head>\n<body>\n<main>\n{}\n</main>\n</body>\n</html>\n",
        parts.join("\n")
    )
}

fn section(title: &str, body: &str) -> String {
    format!("<section>\n<h2>{title}</h2>\n{body}</section>")
}

fn lines(lines: &[Line]) -> String {
    let row = |line: &Line| {
        format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", line.name, escape(&line.value))
    };
    format!("<table>\n{}</table>\n", lines.iter().map(row).collect::<String>())
}

fn table(table: &Table) -> String {
    let cells = |tag: &str, cells: &[String]| {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows: String = table.rows.iter().map(|row| cells("td", row)).collect();
    let summary = match table.summary.as_str() {
        "" => String::new(),
        summary => format!("<p>{}</p>\n", escape(summary)),
    };
    format!("{summary}<table>\n{}{rows}</table>\n", cells("th", &table.titles))
}
