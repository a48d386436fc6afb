//! `appwrapper validate`: what admission would say of files, as far as no cluster is needed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgGroup;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::bundle::{self, Document, Flaw};
use super::configuration::ASSUMED;
use super::term::{self, Colour, Page};
use super::{DONE, Error, Output, program, tell};
use crate::api::GROUP;
use crate::config::Config;
use crate::tuning::{names, shortened};
use crate::webhook::validate::{self, Finding, Severity};

#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(
    group = ArgGroup::new("checked").args(["files", "named", "config"]).required(true).multiple(true),
)]
pub(super) struct Args {
    /// File, directory with all directories below, or - for standard input; every AppWrapper and RetryPolicy in it
    /// is checked
    #[arg(value_name = "FILE|DIR|-")]
    files: Vec<PathBuf>,
    /// The same, as in kubectl
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-")]
    named: Vec<PathBuf>,
    /// Controller configuration file; every key is optional. Without other files, it is checked alone
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// What is said of all files.
#[derive(Debug, Serialize)]
struct FileReport {
    valid: bool,
    objects: Vec<Checked>,
    /// The checks that need a cluster.
    skipped: &'static [&'static str],
    /// What else is worth knowing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// Objects of other kinds, which nobody checked.
    #[serde(rename = "notChecked", serialize_with = "named")]
    others: Vec<Document>,
}

/// Where objects are, and what they are.
fn named<S: Serializer>(documents: &[Document], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(documents.iter().map(|document| {
        let given = |pointer: &str| Some(document.text(pointer)).filter(|text| !text.is_empty());
        let name = given("/metadata/name").or_else(|| given("/metadata/generateName"));
        json!({"file": document.origin.file, "kind": document.kind(), "name": name})
    }))
}

/// What is said of one object, or of what is in its place.
#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    valid: bool,
    findings: Vec<Said>,
    /// What the lines about it begin with.
    #[serde(skip)]
    title: String,
}

#[derive(Debug, Serialize)]
struct Said {
    severity: String,
    field: String,
    value: Option<String>,
    message: String,
    #[serde(skip)]
    line: String,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Error> {
    let files: Vec<PathBuf> = args.files.iter().chain(&args.named).cloned().collect();
    if let (true, Some(config)) = (files.is_empty(), &args.config) {
        return alone(config, args.output);
    }
    let named = args.config.as_deref();
    let config = named.map(|file| super::configured(Some(file))).transpose()?;
    let sources = bundle::sources(&files).map_err(|error| Error::Usage(error.to_string()))?;
    let answer = answer(bundle::documents_of(&files, &sources), config.as_ref());
    if answer.objects.is_empty() {
        let kinds = "AppWrapper or RetryPolicy";
        return Err(Error::Usage(bundle::none_of(kinds, &files, &answer.others, program())));
    }
    tell(args.output, &answer, || text(&answer, term::has_colour()))?;
    Ok(if answer.valid { DONE } else { ExitCode::from(1) })
}

/// Checks a configuration, without any AppWrapper.
fn alone(config: &Path, output: Output) -> Result<ExitCode, Error> {
    super::configured(Some(config))?;
    tell(output, &json!({"valid": true}), || {
        let mut page = Page::default();
        page.line(&format!("{}: valid", config.display()));
        page
    })?;
    Ok(DONE)
}

/// What `validate` says of the bytes of a file, for people and as JSON: the whole way from one to the other.
#[must_use]
pub fn validated_file(bytes: &[u8], config: &Config) -> (String, String) {
    let source = bundle::Source { name: "file".to_owned(), bytes: bytes.to_vec() };
    let answer = answer(bundle::documents(&[source]), Some(config));
    (text(&answer, false).to_string(), term::json(&answer).unwrap_or_default())
}

/// What is said of documents, by the default configuration where none is given.
fn answer(documents: Vec<Result<Document, Flaw>>, config: Option<&Config>) -> FileReport {
    let assumed = || format!("{ASSUMED}; to use that: --config FILE");
    let notes = config.is_none().then(assumed).into_iter().collect();
    let default = Config::default();
    let config = config.unwrap_or(&default);
    let (mut objects, mut others) = (vec![], vec![]);
    for document in documents {
        match document {
            Ok(document) if document.kind() == "AppWrapper" => {
                let findings = validate::offline(&document.value, config);
                objects.push(Checked::of(&document, findings));
            }
            Ok(document) if is_retry_policy(&document) => {
                let findings = validate::retry_policy(&document.value, config);
                objects.push(Checked::of(&document, findings));
            }
            Ok(document) if document.group() == GROUP && document.kind() != "NodeSuspicion" => {
                objects.push(Checked::of(&document, vec![unknown_kind(document.kind())]));
            }
            Ok(document) => others.push(document),
            Err(flaw) => objects.push(Checked::flawed(flaw)),
        }
    }
    let valid = objects.iter().all(|object| object.valid);
    FileReport { valid, objects, skipped: validate::SKIPPED, notes, others }
}

/// What is wrong with a kind that our API group does not have.
fn unknown_kind(kind: &str) -> Finding {
    const KINDS: [&str; 3] = ["AppWrapper", "RetryPolicy", "NodeSuspicion"];
    let meant = names::did_you_mean(names::close(kind, &KINDS));
    Finding {
        severity: Severity::Error,
        field: "kind".to_owned(),
        value: Some(shortened(kind)),
        message: format!("must be one of {}{}", KINDS.join(", "), meant),
    }
}

/// Whether an object is to be checked as a RetryPolicy; the check says so where its API version is left out. Other groups
/// have such a kind.
fn is_retry_policy(document: &Document) -> bool {
    let kind = "RetryPolicy";
    document.is_ours(kind) || (document.kind() == kind && document.group().is_empty())
}

impl Checked {
    fn of(document: &Document, findings: Vec<Finding>) -> Self {
        let given = |pointer: &str| {
            Some(document.text(pointer)).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let namespace = given("/metadata/namespace");
        let name = given("/metadata/name").or_else(|| given("/metadata/generateName"));
        let shown = name.as_deref().unwrap_or("(no name)");
        let path = namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        Self {
            file: document.origin.file.clone(),
            kind: given("/kind"),
            valid: findings.iter().all(|finding| finding.severity != Severity::Error),
            findings: findings.into_iter().map(Said::of).collect(),
            title: format!("{}: {} {path}{shown}", document.origin, document.kind()),
            namespace,
            name,
        }
    }

    fn flawed(flaw: Flaw) -> Self {
        let title = flaw.origin.to_string();
        let said = Said {
            severity: Severity::Error.to_string(),
            field: flaw.origin.path,
            value: None,
            line: flaw.message.clone(),
            message: flaw.message,
        };
        Self {
            file: flaw.origin.file,
            kind: None,
            namespace: None,
            name: None,
            valid: false,
            findings: vec![said],
            title,
        }
    }
}

impl Said {
    fn of(finding: Finding) -> Self {
        let line = match finding.severity {
            Severity::Error => finding.to_string(),
            Severity::Warning => format!("warning: {finding}"),
        };
        Self {
            severity: finding.severity.to_string(),
            field: finding.field,
            value: finding.value,
            message: finding.message,
            line,
        }
    }
}

fn text(answer: &FileReport, colours: bool) -> Page {
    let mut page = Page::default();
    for object in &answer.objects {
        for finding in &object.findings {
            page.line(&format!("{}: {}", object.title, finding.line));
        }
        if object.valid {
            let title = (format!("{}: ", object.title), None);
            page.spans(&[title, ("valid".to_owned(), Some(Colour::Green))], colours);
        }
    }
    for other in &answer.others {
        page.line(&format!("{}: {}: not checked", other.origin, other.title()));
    }
    let valid = answer.objects.iter().filter(|object| object.valid).count();
    let invalid = answer.objects.len() - valid;
    let colour = if answer.valid { Colour::Green } else { Colour::Red };
    let summary = (format!("{valid} valid, {invalid} invalid"), Some(colour));
    page.spans(&[summary, ("; not checked without a cluster:".to_owned(), None)], colours);
    for skipped in answer.skipped {
        page.line(&format!("  {}", skipped.replace("kubectl aw", program())));
    }
    for note in &answer.notes {
        page.line(&format!("note: {note}"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> FileReport {
        given_with(text, Some(&Config::default()))
    }

    fn given_with(text: &str, config: Option<&Config>) -> FileReport {
        let source = bundle::Source { name: "f.yaml".into(), bytes: text.as_bytes().to_vec() };
        answer(bundle::documents(&[source]), config)
    }

    const GOOD: &str = "
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: train, namespace: ns}
spec:
  components:
  - template:
      apiVersion: v1
      kind: Pod
      metadata: {name: p}
      spec: {containers: [{name: c, image: i}], restartPolicy: Never}
";

    #[test]
    fn every_object_is_judged_and_the_rest_is_named() {
        let bad = GOOD.replace("name: p}", "name: p, namespace: other}").replace("train", "bad");
        let other = "kind: Node\napiVersion: v1\nmetadata: {name: node-1}";
        let answer = given(&format!("{GOOD}---{bad}---\n{other}\n---\n- 1\n"));
        let valid: Vec<_> = answer.objects.iter().map(|object| object.valid).collect();
        assert_eq!((answer.valid, valid), (false, vec![true, false, false]));
        let said = text(&answer, false).to_string();
        for want in [
            "f.yaml, document 1 (line 2): AppWrapper ns/train: valid\n",
            "AppWrapper ns/bad: spec.components[0].template.metadata.namespace: Invalid value",
            "f.yaml, document 3 (line 24): Node/node-1: not checked\n",
            "f.yaml, document 4 (line 28): must be a Kubernetes object",
            "\n1 valid, 2 invalid; not checked without a cluster:\n",
        ] {
            assert!(said.contains(want), "{want}\n{said}");
        }
    }

    #[test]
    fn programs_get_the_same_as_json() {
        let annotated = GOOD.replace(
            "namespace: ns}",
            "annotations: {workload.codeflare.dev.appwrapper/retryLimits: '4'}}",
        );
        let other = "kind: Node\napiVersion: v1\nmetadata: {name: node-1}\n";
        let answer = serde_json::to_value(given(&format!("{annotated}---\n{other}"))).unwrap();
        let object = &answer["objects"][0];
        assert_eq!((&answer["valid"], &object["valid"]), (&true.into(), &true.into()));
        assert_eq!(object["file"], "f.yaml");
        assert_eq!(object["namespace"], serde_json::Value::Null);
        assert_eq!(object["findings"][0]["severity"], "warning");
        assert!(answer["skipped"].as_array().is_some_and(|skipped| !skipped.is_empty()));
        let not_checked = json!([{"file": "f.yaml", "kind": "Node", "name": "node-1"}]);
        assert_eq!(answer["notChecked"], not_checked);
    }

    #[test]
    fn the_default_configuration_is_said_to_be_assumed_where_none_is_named() {
        for (config, want) in [(None, true), (Some(&Config::default()), false)] {
            let answer = given_with(GOOD, config);
            let said = text(&answer, false).to_string();
            let note = "assuming the default configuration: the files do not contain that of the \
                        controller; to use that: --config FILE";
            assert_eq!(said.ends_with(&format!("\nnote: {note}\n")), want, "{said}");
            assert_eq!(said.matches("assuming").count(), usize::from(want), "{said}");
            let json = serde_json::to_value(&answer).unwrap();
            assert_eq!(json["skipped"], json!(validate::SKIPPED));
            assert_eq!(json.get("notes"), want.then(|| json!([note])).as_ref());
        }
    }

    #[test]
    fn a_misspelt_kind_of_our_group_is_invalid() {
        for (kind, valid, want) in [
            (
                "Appwrapper",
                false,
                "kind: Invalid value: \"Appwrapper\": must be one of AppWrapper, RetryPolicy, \
                                   NodeSuspicion: did you mean AppWrapper?",
            ),
            (
                "Queue",
                false,
                "kind: Invalid value: \"Queue\": must be one of AppWrapper, RetryPolicy, \
                              NodeSuspicion\n",
            ),
            ("NodeSuspicion", true, "NodeSuspicion/bad: not checked"),
        ] {
            let other =
                GOOD.replace("kind: AppWrapper", &format!("kind: {kind}")).replace("train", "bad");
            let answer = given(&format!("{GOOD}---{other}"));
            let said = text(&answer, false).to_string();
            assert!(answer.valid == valid && said.contains(want), "{said}");
        }
    }

    #[test]
    fn files_without_our_kinds_are_named_with_what_makes_an_appwrapper_of_them() {
        let said = |yaml: &str| {
            let others = given(yaml).others;
            bundle::none_of("AppWrapper", &["a.yaml".into(), "b c".into()], &others, "kubectl aw")
        };
        let job = "kind: Job\napiVersion: batch/v1\nmetadata: {name: train}\n---\n";
        assert_eq!(said(""), "a.yaml, b c: no AppWrapper found");
        let stdin = bundle::none_of("AppWrapper", &["-".into()], &[], "kubectl aw");
        assert_eq!(stdin, "stdin: no AppWrapper found");
        assert_eq!(
            said(job),
            "a.yaml, b c: no AppWrapper found, only Job/train; to make an AppWrapper of it: kubectl aw wrap -f a.yaml \
             -f 'b c'"
        );
        let node = "kind: NodeSuspicion\napiVersion: workload.codeflare.dev/v1alpha1\nmetadata: {name: s}\n";
        assert_eq!(said(node), "a.yaml, b c: no AppWrapper found, only NodeSuspicion/s");
        let queue =
            "kind: ResourceFlavor\napiVersion: kueue.x-k8s.io/v1beta1\nmetadata: {name: f}\n";
        assert_eq!(said(queue), "a.yaml, b c: no AppWrapper found, only ResourceFlavor/f");
        let many = said(&job.repeat(7));
        assert!(many.contains(", Job/train and 2 more; to make an AppWrapper of them: "), "{many}");
    }

    #[test]
    fn a_configuration_is_checked_alone() {
        let said = |file: &str| alone(Path::new(file), Output::Text);
        said("config/appwrapper.yaml").unwrap();
        assert!(matches!(said("Cargo.toml"), Err(Error::Negative(_))));
        assert!(matches!(said("config/no-such.yaml"), Err(Error::Usage(_))));
    }

    #[test]
    fn a_kind_without_our_api_version_is_judged_too() {
        for (version, value) in
            [("", "null"), ("apiVersion: mcad.ibm.com/v1beta1", "mcad.ibm.com/v1beta1")]
        {
            let answer =
                given(&format!("{version}\nkind: AppWrapper\nmetadata: {{name: a}}\nspec: {{}}"));
            assert!(!answer.valid);
            let said = &answer.objects[0].findings[0];
            assert_eq!(
                (said.field.as_str(), said.value.as_deref().unwrap_or_default()),
                ("apiVersion", value)
            );
            assert!(
                said.message.contains("must be workload.codeflare.dev/v1beta2"),
                "{}",
                said.message
            );
        }
    }
}
