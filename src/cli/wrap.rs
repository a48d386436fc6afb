//! `appwrapper wrap` and `unwrap`: from ordinary manifests to one AppWrapper, and back. Neither needs a cluster.

mod added;
mod pack;
mod unpack;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::bundle::{self, Document};
use super::term;
use super::{DONE, Error, Output};
use crate::printable::{self, truncate_chars};
use crate::tuning::names;
use crate::webhook::validate::{self, Finding, Severity};
use pack::{Packed, WrapOptions, pack, without_created};
use unpack::unpack;

/// The longest finding, in characters: it may quote the manifest.
const FINDING_CHARS_MAX: usize = 2000;

#[derive(Debug, clap::Args)]
pub(super) struct WrapArgs {
    #[command(flatten)]
    input: Input,
    /// Name of the AppWrapper; defaults to the name of the first object that has pods
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Namespace of the AppWrapper; defaults to the namespace of the manifests, if they set one
    #[arg(short, long, value_parser = namespace)]
    namespace: Option<String>,
    /// LocalQueue of Kueue that admits it; defaults to the queue of the manifests, if they set one
    #[arg(short, long, value_name = "LOCALQUEUE")]
    queue: Option<String>,
    /// Controller configuration file, for validation; every key is optional
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct UnwrapArgs {
    #[command(flatten)]
    input: Input,
}

#[derive(Debug, clap::Args)]
struct Input {
    /// File, directory with all directories below, or - for standard input; repeat it for more
    #[arg(short, long = "filename", required = true, value_name = "FILE|DIR|-")]
    files: Vec<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// How manifests are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// YAML.
    #[default]
    #[value(alias = "text")]
    Yaml,
    /// JSON.
    Json,
}

fn namespace(text: &str) -> Result<String, String> {
    if names::is_label(text) { Ok(text.to_owned()) } else { Err(names::LABEL.to_owned()) }
}

impl Input {
    /// The objects of all files.
    fn documents(&self) -> Result<Vec<Document>, Error> {
        let sources =
            bundle::sources(&self.files).map_err(|error| Error::Usage(error.to_string()))?;
        let documents = bundle::documents_of(&self.files, &sources);
        let documents: Result<Vec<Document>, _> = documents.into_iter().collect();
        let documents = documents.map_err(|flaw| Error::Negative(flaw.to_string()))?;
        if documents.is_empty() {
            let files: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
            return Err(Error::Usage(format!("{}: no Kubernetes objects found", files.join(", "))));
        }
        Ok(documents)
    }
}

pub(super) fn wrap(args: &WrapArgs) -> Result<ExitCode, Error> {
    let config = super::configured(args.config.as_deref())?;
    let note_all = |notes: &[String]| {
        for note in notes {
            term::remark(&format!("note: {note}"));
        }
    };
    let (documents, left_out) = without_created(args.input.documents()?);
    note_all(&left_out);
    let options = WrapOptions {
        name: args.name.clone(),
        namespace: args.namespace.clone(),
        queue: args.queue.clone(),
    };
    let Packed { manifest, notes } = pack(&documents, &options).map_err(Error::Negative)?;
    note_all(&notes);
    let findings = validate::offline(&manifest, &config);
    let (errors, warnings): (Vec<_>, Vec<_>) =
        findings.iter().partition(|finding| finding.severity == Severity::Error);
    for warning in warnings {
        term::remark(&format!("warning: {}", described(warning, &documents)));
    }
    if !errors.is_empty() {
        let lines: Vec<String> =
            errors.into_iter().map(|error| described(error, &documents)).collect();
        return Err(Error::Negative(lines.join("\n")));
    }
    print(args.input.output, &[manifest])
}

pub(super) fn unwrap(args: &UnwrapArgs) -> Result<ExitCode, Error> {
    let (wrappers, left_out) = only_wrappers(args.input.documents()?);
    if let Some(note) = left_out {
        term::remark(&format!("note: {note}"));
    }
    let mut all = vec![];
    for wrapper in wrappers {
        all.extend(unpack(&wrapper).map_err(Error::Negative)?);
    }
    print(args.input.output, &all)
}

/// The AppWrappers, and a note about what is left out beside them; without any, everything, which is refused.
fn only_wrappers(documents: Vec<Document>) -> (Vec<Document>, Option<String>) {
    let is_wrapper = |document: &Document| document.is_ours("AppWrapper");
    let (wrappers, others): (Vec<_>, Vec<_>) = documents.into_iter().partition(is_wrapper);
    if wrappers.is_empty() {
        return (others, None);
    }
    let are = if others.len() == 1 { "is" } else { "are" };
    let note = format!("{} {are} left out: only AppWrappers are unwrapped", bundle::named(&others));
    (wrappers, (!others.is_empty()).then_some(note))
}

/// A finding, with the object that the component comes from.
fn described(finding: &Finding, documents: &[Document]) -> String {
    let index = finding.field.strip_prefix("spec.components[").and_then(|rest| {
        let (index, _) = rest.split_once(']')?;
        index.parse::<usize>().ok()
    });
    let text = truncate_chars(&finding.to_string(), FINDING_CHARS_MAX).into_owned();
    match index.and_then(|index| documents.get(index)) {
        Some(document) => format!("{}: {}: {text}", document.origin, document.title()),
        None => text,
    }
}

/// Prints objects: as YAML documents, or as JSON, several of them as a List.
fn print(format: Format, objects: &[Value]) -> Result<ExitCode, Error> {
    match (format, objects) {
        (Format::Json, [one]) => super::tell(Output::Json, one, term::Page::default)?,
        (Format::Json, many) => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": many});
            super::tell(Output::Json, &list, term::Page::default)?;
        }
        (Format::Yaml, all) => {
            let documents: Result<Vec<String>, Error> = all.iter().map(document).collect();
            term::print_own(&documents?.join("---\n"));
        }
    }
    Ok(DONE)
}

/// An object as a YAML document. One that YAML would show with characters that a terminal obeys or hides is written
/// as JSON, which is YAML too, and escapes them.
fn document(object: &Value) -> Result<String, Error> {
    let yaml = serde_saphyr::to_string(object)
        .map_err(|error| Error::Negative(format!("cannot write YAML: {error}")))?;
    let is_plain = yaml.lines().all(|line| printable::escape(line) == line);
    let means_the_same = || bundle::as_kubectl_reads(&yaml).is_some_and(|read| read == *object);
    if is_plain && means_the_same() {
        return Ok(if yaml.ends_with('\n') { yaml } else { yaml + "\n" });
    }
    super::json(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn read(yaml: &str) -> Vec<Document> {
        let source = bundle::Source { name: "f.yaml".into(), bytes: yaml.as_bytes().to_vec() };
        bundle::documents(&[source]).into_iter().map(|document| document.unwrap()).collect()
    }

    #[test]
    fn what_is_beside_objects_in_a_directory_is_left_out() {
        let chart = std::env::temp_dir().join(format!("appwrapper-chart-{}", std::process::id()));
        std::fs::create_dir_all(&chart).unwrap();
        std::fs::write(chart.join("job.yaml"), "kind: Job\nmetadata: {name: train}\n").unwrap();
        std::fs::write(chart.join("values.yaml"), "replicas: 1\n").unwrap();
        let files = vec![chart.clone()];
        let explained = super::super::explain::read(&files).unwrap();
        let wrapped = Input { files, output: Format::Yaml }.documents().unwrap();
        for documents in [explained, wrapped] {
            assert_eq!(bundle::named(&documents), "Job/train");
        }
        std::fs::remove_dir_all(&chart).unwrap();
    }

    #[test]
    fn what_is_printed_reads_as_what_was_given() {
        let odd = json!({
            "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c", "namespace": "n"},
            "data": {"yes": "yes", "n": "1e3", "null": "null", "~": "~", "date": "2026-01-01", "x": "0x1f",
                "empty": "", "space": " a ", "lines": "a\n  b\n\nc\n", "tab": "a\tb", "colon": "a: b # c",
                "on": "on", "octal": "0400", "nine": "09", "time": "1:30", "binary": "0b1", "y": "y", "one": "1_000",
                "quote": "it's \"so\"", "dash": "- a", "long": "x ".repeat(500), "é": "größer"},
        });
        let text = document(&odd).unwrap();
        let back = read(&text);
        assert_eq!(back[0].value, odd, "{text}");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_printed() {
        for hostile in ["\x1b[2J", "a\rb", "\u{202e}abc", "\u{9b}31m", "a\u{2028}b", "\u{7}"] {
            let object = json!({"kind": "ConfigMap", "data": {hostile: hostile}});
            let text = document(&object).unwrap();
            for line in text.lines() {
                assert_eq!(printable::escape(line), line, "{hostile:?}");
            }
            assert_eq!(read(&text)[0].value, object);
        }
    }

    #[test]
    fn what_is_beside_an_appwrapper_is_not_unwrapped() {
        let ours = "
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: a}
";
        let other = |name: &str| format!("---\nkind: Pod\nmetadata: {{name: {name}}}\n");
        let both = other("p") + &other("q");
        for (text, kept, note) in [
            (ours.to_owned(), 1, None),
            (ours.to_owned() + &other("p"), 1, Some("Pod/p is left out: only AppWrappers")),
            (ours.to_owned() + &both, 1, Some("Pod/p, Pod/q are left out: only AppWrappers")),
            (both, 2, None),
        ] {
            let (found, said) = only_wrappers(read(&text));
            assert_eq!((found.len(), said.is_some()), (kept, note.is_some()), "{said:?}");
            assert!(said.unwrap_or_default().starts_with(note.unwrap_or_default()));
        }
    }

    #[test]
    fn a_namespace_that_is_refused_is_told_what_names_are() {
        for (text, is_one) in [("team-a", true), ("-x", false), ("a-", false), ("a.b", false)] {
            let want = if is_one { Ok(text.to_owned()) } else { Err(names::LABEL.to_owned()) };
            assert_eq!(namespace(text), want, "{text}");
        }
    }

    #[test]
    fn a_finding_names_the_object_that_it_is_about() {
        let documents = read("kind: A\nmetadata: {name: a}\n---\nkind: B\nmetadata: {name: b}\n");
        let finding = |field: &str| Finding {
            severity: Severity::Error,
            field: field.to_owned(),
            value: None,
            message: "must be given".to_owned(),
        };
        for (field, want) in [
            (
                "spec.components[1].template.spec",
                "f.yaml, document 2 (line 4): B/b: spec.components[1]",
            ),
            ("spec.components[7].template", "spec.components[7].template: must"),
            ("metadata.name", "metadata.name: must be given"),
        ] {
            let said = described(&finding(field), &documents);
            assert!(said.starts_with(want), "{said}");
        }
    }
}
