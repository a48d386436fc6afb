//! Text becomes JSON values: YAML documents, or JSON.

use serde::Deserialize;
use serde_json::Value;

/// The deepest nesting: an AppWrapper may have 64 levels, and a list adds two.
const DEPTH_MAX: usize = 100;

/// Stack of the YAML reader, which recurses.
const STACK_BYTES: usize = 64 << 20;

/// One document of a text.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The line on which it begins, from 1, where that is known.
    pub line: Option<u64>,
    /// The document, or why it cannot be read.
    pub value: Result<Value, String>,
}

/// The documents of a text; empty ones are left out.
pub(super) fn parse(text: &str) -> Vec<Parsed> {
    if !text.trim_start().starts_with(['{', '[']) {
        return yaml(text);
    }
    match json(text) {
        Ok(values) => values,
        // it may be YAML in its flow style
        Err(error) => {
            let documents = yaml(text);
            if documents.iter().all(|parsed| parsed.value.is_ok()) {
                return documents;
            }
            vec![Parsed { line: None, value: Err(format!("invalid JSON: {error}")) }]
        }
    }
}

/// JSON values one after the other. It recurses no deeper than 128 levels.
fn json(text: &str) -> Result<Vec<Parsed>, serde_json::Error> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    values.map(|value| Ok(Parsed { line: None, value: Ok(value?) })).collect()
}

/// YAML documents, read on a stack that holds [`DEPTH_MAX`] levels of an unoptimised reader too.
fn yaml(text: &str) -> Vec<Parsed> {
    let read = std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(STACK_BYTES);
        reader.spawn_scoped(scope, || yaml_here(text)).ok().and_then(|thread| thread.join().ok())
    });
    read.unwrap_or_else(|| {
        vec![Parsed { line: None, value: Err("cannot be read: no thread for it".to_owned()) }]
    })
}

fn yaml_here(text: &str) -> Vec<Parsed> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Root(serde_saphyr::Spanned<Value>);

    let options = serde_saphyr::options! {
        with_snippet: false,
        strict_booleans: true,
        emit_comments: false,
        // a dump of a large namespace is no attack; nesting and aliases are what is bounded
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_documents: 100_000,
            max_events: 20_000_000,
            max_nodes: 10_000_000,
            max_total_scalar_bytes: 256 << 20,
        },
    };
    let mut bytes = text.as_bytes();
    serde_saphyr::read_with_options::<_, Root>(&mut bytes, options)
        .map(|document| match document {
            Ok(Root(found)) => {
                let line = found.referenced.line();
                Parsed { line: (line > 0).then_some(line), value: Ok(found.value) }
            }
            Err(error) => Parsed { line: None, value: Err(format!("invalid YAML: {error}")) },
        })
        .collect()
}
