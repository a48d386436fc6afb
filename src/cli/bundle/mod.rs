//! Kubernetes objects from files: multi-document YAML, JSON, lists, directories, standard input.
//!
//! Files are anybody's: what they come to is bounded, aliases included, and every flaw names its place.

mod parse;
mod source;
mod tree;

use std::fmt;
use std::path::{Path, PathBuf};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::cluster::quoted;
use crate::kinds::Kind;

pub use source::{Source, sources};

/// The deepest nesting: an AppWrapper may have 64 levels, and a list adds two.
const DEPTH_MAX: usize = 100;
/// The most objects of all files together.
const OBJECTS_MAX: usize = 50_000;
/// The most values (objects, lists, texts, numbers) of all files together: they take about 100 bytes each.
const VALUES_MAX: usize = 3_000_000;

/// What is said of a document that is no Kubernetes object at all: it has neither kind, metadata nor spec.
const NO_OBJECT: &str = "must be a Kubernetes object: it has no kind, no metadata and no spec";

/// Where an object was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file, or `stdin`.
    pub file: String,
    /// Number of the document in the file, from 1; absent where it is the only one.
    pub document: Option<usize>,
    /// Line of the file on which the document begins, from 1.
    pub line: Option<u64>,
    /// Path of the object in its document where that is a list: `items[2]`.
    pub path: String,
}

/// A Kubernetes object: a JSON object that has a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Where it was found.
    pub origin: Origin,
    /// The object.
    pub value: Value,
}

/// Something in a file that is no Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {message}")]
pub struct Flaw {
    /// Where it is.
    pub origin: Origin,
    /// What is wrong.
    pub message: String,
}

impl Document {
    /// A text in it by JSON pointer; empty where there is none.
    #[must_use]
    pub fn text(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// The group of its API version; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        group(self.text("/apiVersion"))
    }

    /// `Kind/name`, for messages.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind(), self.text("/metadata/name"))
    }

    /// Whether it is of one of our kinds.
    #[must_use]
    pub fn is_ours(&self, kind: &str) -> bool {
        self.kind() == kind && self.group() == crate::api::GROUP
    }
}

impl Flaw {
    /// Whether it is a document of a directory which is no Kubernetes object at all, such as the values of a chart: only
    /// a file that is named itself has to have objects.
    fn is_beside_objects(&self, files: &[PathBuf]) -> bool {
        let file = Path::new(&self.origin.file);
        let is_below = |path: &PathBuf| file != path && file.starts_with(path);
        let is_named = files.iter().any(|path| file == path);
        let is_whole = self.origin.path.is_empty();
        self.message == NO_OBJECT && is_whole && !is_named && files.iter().any(is_below)
    }
}

/// The most objects that a message names.
const NAMED_MAX: usize = 5;

/// The first few of the objects, for messages: `Job/a, Job/b and 3 more`.
#[must_use]
pub fn named<'a>(documents: impl IntoIterator<Item = &'a Document>) -> String {
    let mut documents = documents.into_iter();
    let titles: Vec<String> = documents.by_ref().take(NAMED_MAX).map(Document::title).collect();
    let more = documents.count();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    titles.join(", ") + &more
}

/// Says that files have no object of the kinds that a command reads, what they have instead, and how an AppWrapper
/// is made of it where there is none of our own kinds and something has pods.
#[must_use]
pub fn none_of(kinds: &str, files: &[PathBuf], documents: &[Document], program: &str) -> String {
    let listed: Vec<String> = files.iter().map(|file| source::name(file)).collect();
    let listed = listed.join(", ");
    if documents.is_empty() {
        return format!("{listed}: no {kinds} found");
    }
    let found = format!("{listed}: no {kinds} found, only {}", named(documents));
    let is_ours = |document: &Document| document.group() == crate::api::GROUP;
    let has_pods = |document: &Document| Kind::of_object(&document.value).is_known();
    if documents.iter().any(is_ours) || !documents.iter().any(has_pods) {
        return found;
    }
    let it = if documents.len() == 1 { "it" } else { "them" };
    let quoted = |file: &PathBuf| quoted(&file.display().to_string());
    let given: Vec<String> = files.iter().map(|file| format!(" -f {}", quoted(file))).collect();
    format!("{found}; to make an AppWrapper of {it}: {program} wrap{}", given.concat())
}

/// The annotation of an exported AppWrapper that says when it was exported.
pub const EXPORTED_AT: &str = "workload.codeflare.dev/exported-at";

/// When the AppWrapper of a bundle was exported; none where it was not, or where the annotation is no time.
#[must_use]
pub fn exported_at(documents: &[Document]) -> Option<Timestamp> {
    let wrapper = documents.iter().find(|document| document.is_ours("AppWrapper"))?;
    let annotation = wrapper.value.pointer("/metadata/annotations")?.get(EXPORTED_AT)?;
    annotation.as_str()?.parse().ok()
}

/// The group of an API version; empty for the core group.
#[must_use]
pub fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

impl Origin {
    fn file(name: &str) -> Self {
        Self { file: name.to_owned(), document: None, line: None, path: String::new() }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, document, line, path } = self;
        f.write_str(file)?;
        if let Some(number) = document {
            write!(f, ", document {number}")?;
        }
        if let Some(line) = line.filter(|line| *line > 1) {
            write!(f, " (line {line})")?;
        }
        if !path.is_empty() {
            write!(f, ", {path}")?;
        }
        Ok(())
    }
}

/// Reads one YAML document as `kubectl` reads it; none where it is no YAML.
#[must_use]
pub fn as_kubectl_reads(yaml: &str) -> Option<Value> {
    let read = serde_saphyr::from_str_with_options::<tree::Tree>(yaml, parse::options());
    read.ok().map(|tree::Tree(value)| value)
}

/// The objects of files, in order, lists taken apart. Beyond the most that is read, there is one flaw more.
#[must_use]
pub fn documents(sources: &[Source]) -> Vec<Result<Document, Flaw>> {
    let mut values_left = VALUES_MAX;
    let mut all = vec![];
    for source in sources {
        all.append(&mut of_file(source, &mut values_left));
        if all.len() > OBJECTS_MAX {
            all.truncate(OBJECTS_MAX);
            let origin = Origin::file(&source.name);
            all.push(Err(Flaw { origin, message: too_many_objects() }));
            break;
        }
    }
    all
}

/// The same of the sources of files and directories, without what is beside objects in a directory.
#[must_use]
pub fn documents_of(files: &[PathBuf], sources: &[Source]) -> Vec<Result<Document, Flaw>> {
    let mut all = documents(sources);
    all.retain(|each| !each.as_ref().is_err_and(|flaw| flaw.is_beside_objects(files)));
    all
}

fn too_many_objects() -> String {
    format!("too many objects: at most {OBJECTS_MAX} are read across all files")
}

fn of_file(source: &Source, values_left: &mut usize) -> Vec<Result<Document, Flaw>> {
    let parsed = match std::str::from_utf8(&source.bytes) {
        Ok(text) => parse::parse(text, values_left),
        Err(error) => vec![parse::Parsed {
            line: None,
            value: Err(format!("not UTF-8 at byte {}", error.valid_up_to())),
        }],
    };
    let many = parsed.len() > 1;
    let mut all = vec![];
    for (number, parsed) in (1..).zip(parsed) {
        let origin = Origin {
            file: source.name.clone(),
            document: many.then_some(number),
            line: parsed.line,
            path: String::new(),
        };
        match parsed.value {
            Ok(value) => take_apart(origin, value, &mut all),
            Err(message) => all.push(Err(Flaw { origin, message })),
        }
    }
    all
}

/// A list's items; anything else as it is.
fn take_apart(origin: Origin, value: Value, all: &mut Vec<Result<Document, Flaw>>) {
    let flaw = |origin, message: &str| Err(Flaw { origin, message: message.to_owned() });
    let Value::Object(mut object) = value else {
        all.push(flaw(origin, NO_OBJECT)); // such as a patch of kustomize
        return;
    };
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
    if kind.is_empty() {
        // a Chart.yaml has an API version
        let given = ["kind", "metadata", "spec"];
        let is_object = given.iter().any(|field| object.contains_key(*field));
        all.push(flaw(origin, if is_object { "kind: must be given" } else { NO_OBJECT }));
        return;
    }
    let is_list = kind.ends_with("List") && !object.contains_key("spec");
    let items = match object.get_mut("items") {
        Some(Value::Array(items)) if is_list => std::mem::take(items),
        Some(Value::Null) if is_list => vec![],
        // without a list of items, an object of any other kind is no list: `kind: AllowList`
        None if is_list && kind == "List" => vec![],
        Some(_) if is_list && kind == "List" => {
            all.push(flaw(origin, "items: must be a list"));
            return;
        }
        _ => {
            all.push(Ok(Document { origin, value: Value::Object(object) }));
            return;
        }
    };
    let kind_of_items = kind.strip_suffix("List").filter(|kind| !kind.is_empty());
    for (index, mut item) in items.into_iter().enumerate() {
        let separator = if origin.path.is_empty() { "" } else { "." };
        let path = format!("{}{separator}items[{index}]", origin.path);
        // the API server leaves the kind out of the items of a list of one kind
        if let (Value::Object(item), Some(kind)) = (&mut item, kind_of_items) {
            item.entry("kind").or_insert_with(|| kind.into());
            item.entry("apiVersion").or_insert_with(|| api_version.as_str().into());
        }
        take_apart(Origin { path, ..origin.clone() }, item, all);
    }
}

#[cfg(test)]
mod tests;
