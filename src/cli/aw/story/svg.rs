//! A drawing as a file that needs nothing else.

use std::borrow::Cow;

use super::drawing::{Drawing, Shape};
use crate::printable;

/// The colours and fonts of a drawing, in a file and on the page.
pub(in crate::cli) const STYLE: &str = include_str!("timeline.css");

/// The drawing as an SVG document.
pub(super) fn svg(drawing: &Drawing) -> String {
    let Drawing { width, height, label, shapes } = drawing;
    let label = escape(label);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"timeline\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{label}\">\n<title>{label}</title>\n\
         <style>\n{STYLE}</style>\n<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n"
    );
    for shape in shapes {
        text.push_str(&element(shape));
        text.push('\n');
    }
    text + "</svg>\n"
}

fn element(shape: &Shape) -> String {
    match shape {
        Shape::Bar { x, y, width, height, class, title } => {
            let title = if title.is_empty() {
                String::new()
            } else {
                format!("<title>{}</title>", escape(title))
            };
            format!(
                "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\">{title}</rect>"
            )
        }
        Shape::Line { x1, y1, x2, y2, class } => {
            format!("<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>")
        }
        Shape::Text { x, y, class, text } => {
            format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escape(text))
        }
    }
}

/// A text for XML and HTML, between tags and in attributes: what others wrote stays text.
pub(super) fn escape(text: &str) -> String {
    let safe: Cow<'_, str> = printable::escape(text);
    let mut escaped = String::with_capacity(safe.len());
    for c in safe.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML has none of these two, however they are written
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_stays_text() {
        let hostile = "</title><script>alert('1')</script>&\"\u{ffff}\u{1b}[2J\u{202e}";
        let want = "&lt;/title&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;\u{fffd}\
                    \\u{1b}[2J\\u{202e}";
        assert_eq!(escape(hostile), want);
        let title = hostile.to_owned();
        let bar = Shape::Bar { x: 0, y: 0, width: 1, height: 1, class: "running", title };
        let shapes = vec![bar, Shape::Text { x: 0, y: 0, class: "name", text: hostile.to_owned() }];
        let drawing = Drawing { width: 1, height: 1, label: hostile.to_owned(), shapes };
        let svg = svg(&drawing);
        assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{svg}");
        assert_eq!(svg.matches(want).count(), 4, "{svg}");
    }
}
