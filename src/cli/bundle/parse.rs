//! Text becomes JSON values: YAML documents, or JSON.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::tree::{Cost, Tree, duplicate};
use super::{DEPTH_MAX, OBJECTS_MAX, VALUES_MAX, too_many_objects};
use crate::price::values;
use crate::printable::truncate_chars;
use crate::tuning::shortened;

/// The most YAML events that aliases bring in, and that are kept of anchors. Manifests share a pod template or two;
/// each level of a bomb costs as much again.
const ALIASED_MAX: usize = 50_000;

/// The longest text that begins like JSON, is none, and is read as YAML in its flow style, in bytes: people write
/// such texts by hand, and reading one takes ten times as long.
const FLOW_BYTES_MAX: usize = 64 << 10;

/// Stack of the YAML reader, which recurses.
const STACK_BYTES: usize = 64 << 20;
/// The longest description of what is wrong with a text, in characters: it may quote what it found.
const FLAW_CHARS_MAX: usize = 300;

/// One document of a text.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The line on which it begins, from 1, where that is known.
    pub line: Option<u64>,
    /// The document, or why it cannot be read.
    pub value: Result<Value, String>,
}

impl Parsed {
    fn flaw(message: &str) -> Self {
        let message = truncate_chars(message, FLAW_CHARS_MAX).into_owned();
        Self { line: None, value: Err(message) }
    }
}

/// The documents of a text; empty ones are left out. What is read has at most [`DEPTH_MAX`] levels, and at
/// most so many values as are left, which are taken off.
pub(super) fn parse(text: &str, values_left: &mut usize) -> Vec<Parsed> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let documents = documents(text, *values_left);
    let read = documents.iter().filter_map(|parsed| parsed.value.as_ref().ok()).map(values);
    match values_left.checked_sub(read.sum()) {
        Some(left) => {
            *values_left = left;
            documents
        }
        // YAML counts names of fields, too, so that it is known only afterwards
        None => vec![Parsed::flaw(&too_many())],
    }
}

fn documents(text: &str, values_left: usize) -> Vec<Parsed> {
    if !text.trim_start().starts_with(['{', '[']) {
        return yaml(text, values_left);
    }
    let blanked = &without_separators(text);
    let cost = Cost::of(blanked);
    if cost.levels > DEPTH_MAX {
        return vec![Parsed::flaw(&too_deep())];
    }
    if cost.values > values_left {
        return vec![Parsed::flaw(&too_many())];
    }
    match json(blanked) {
        Ok(values) if values.len() > OBJECTS_MAX => vec![Parsed::flaw(&too_many_objects())],
        Ok(values) => values,
        // it may be YAML in its flow style
        Err(error) => {
            let flow = (text.len() <= FLOW_BYTES_MAX).then(|| yaml(text, values_left));
            flow.filter(|documents| documents.iter().all(|parsed| parsed.value.is_ok()))
                .unwrap_or_else(|| vec![Parsed::flaw(&format!("invalid JSON: {error}"))])
        }
    }
}

fn too_deep() -> String {
    format!("nested too deeply: at most {DEPTH_MAX} levels of objects and lists are read")
}

fn too_many() -> String {
    format!("too large: at most {VALUES_MAX} values are read across all files")
}

/// A text with blanks in place of the lines that separate YAML documents. No string of JSON has such a line in it.
fn without_separators(text: &str) -> Cow<'_, str> {
    if !text.contains("\n---") {
        return Cow::Borrowed(text);
    }
    let mut blanked = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if is_separator(line) {
            let (separator, end) = line.split_at(line.trim_end_matches('\n').len());
            blanked += &" ".repeat(separator.len());
            blanked += end;
        } else {
            blanked += line;
        }
    }
    Cow::Owned(blanked)
}

/// Whether a line is `---` and nothing else.
fn is_separator(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.trim().is_empty())
}

/// JSON values one after the other. At most one more than [`OBJECTS_MAX`] is read: [`Cost`] does not count a text that
/// stands alone.
fn json(text: &str) -> Result<Vec<Parsed>, serde_json::Error> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Tree>();
    values
        .take(OBJECTS_MAX + 1)
        .map(|tree| tree.map(|Tree(value)| Parsed { line: None, value: Ok(value) }))
        .collect()
}

/// How scalars of YAML are read: as `kubectl` reads them, which follows YAML 1.1. `yes` is true, and 0400 is octal.
pub(super) fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        with_snippet: false,
        strict_booleans: false,
        legacy_octal_numbers: true,
    }
}

/// YAML documents, read on a stack that holds [`DEPTH_MAX`] levels of an unoptimised reader too.
fn yaml(text: &str, values_left: usize) -> Vec<Parsed> {
    let read = std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(STACK_BYTES);
        let read = || yaml_here(text, values_left);
        reader.spawn_scoped(scope, read).ok().and_then(|thread| thread.join().ok())
    });
    read.unwrap_or_else(|| vec![Parsed::flaw("cannot be read: failed to start a thread")])
}

fn yaml_here(text: &str, values_left: usize) -> Vec<Parsed> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Root(serde_saphyr::Spanned<Tree>);

    let mut options = options();
    options.emit_comments = false;
    // a dump of a large namespace is no attack; what it comes to is bounded, aliases included
    options.budget = serde_saphyr::budget! {
        max_depth: DEPTH_MAX,
        flow_nesting_limit: DEPTH_MAX,
        max_documents: OBJECTS_MAX,
        max_events: VALUES_MAX.saturating_mul(4),
        max_nodes: values_left.saturating_mul(2),
        max_total_scalar_bytes: 128 << 20,
        max_recorded_anchor_events: ALIASED_MAX,
    };
    options.alias_limits = serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_MAX };
    let mut bytes = text.as_bytes();
    serde_saphyr::read_with_options::<_, Root>(&mut bytes, options)
        .map(|document| match document {
            Ok(Root(found)) => {
                let line = found.referenced.line();
                Parsed { line: (line > 0).then_some(line), value: Ok(found.value.0) }
            }
            Err(error) => Parsed::flaw(&format!("invalid YAML: {}", in_words(&error))),
        })
        .collect()
}

/// What is wrong with a YAML text, without the names that the reader has for its own settings.
fn in_words(error: &serde_saphyr::Error) -> String {
    let said = error.to_string();
    let message = match error {
        serde_saphyr::Error::DuplicateMappingKey { key, .. } => {
            duplicate(key.as_deref().unwrap_or("(an object)"))
        }
        serde_saphyr::Error::NonFiniteFloat { value, .. } => {
            let value = shortened(value);
            format!("number {value} is not finite (put it in quotes if a string is meant)")
        }
        // a breach inside of an alias has no variant of its own
        _ if said.contains("budget breached: Depth") => too_deep(),
        _ if said.contains("alias replay limit") || said.contains("RecordedAnchor") => {
            format!("too large: aliases may expand to at most {ALIASED_MAX} values and names")
        }
        _ if said.contains("budget breached") => too_many(),
        _ => return shorter(&said),
    };
    let place = error.location().filter(|place| place.line() > 0);
    let place = place.map(|place| format!(" at line {}, column {}", place.line(), place.column()));
    message + &place.unwrap_or_default()
}

/// Words that are longer than any word of a message are quoted from the text.
fn shorter(message: &str) -> String {
    message.split(' ').map(shortened).collect::<Vec<_>>().join(" ")
}
