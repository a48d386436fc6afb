use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::tuning::{Remark, Severity, names, shortened, write_finding};

/// Something that is wrong, or probably not meant, in an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// How bad it is: an error refuses the object.
    pub severity: Severity,
    /// Path of the field, such as `spec.components[0].template.metadata.namespace`; empty for the
    /// object as a whole.
    pub field: String,
    /// The value as it stands there, shortened; none where something is missing or nothing fits.
    pub value: Option<String>,
    /// What is wrong with it and what is allowed.
    pub message: String,
}

/// In the manner of Kubernetes, without the severity.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, field, value, message } = self;
        write_finding(f, *severity, field, value.as_deref(), message)
    }
}

impl From<Remark> for Finding {
    fn from(remark: Remark) -> Self {
        Self {
            severity: remark.severity,
            field: format!("metadata.annotations[{}]", remark.key),
            value: Some(remark.value),
            message: remark.message,
        }
    }
}

/// The findings so far, each once.
#[derive(Debug, Default)]
pub(super) struct Findings {
    all: Vec<Finding>,
    /// Errors and warnings so far.
    counts: (usize, usize),
    /// Fields whose errors are said for good.
    settled: BTreeSet<String>,
    /// Names that were suggested so far.
    suggested: usize,
}

/// The most names that are suggested: each is compared with every one that is known.
const SUGGESTIONS_MAX: usize = 20;
/// The most known names that one is compared with.
const KNOWN_MAX: usize = 200;

/// The most findings of one severity: an object of 1 MiB can be wrong in very many places.
const FINDINGS_MAX: usize = 100;

impl Findings {
    /// A value is not allowed.
    pub(super) fn invalid(
        &mut self,
        field: impl Into<String>,
        value: impl AsRef<str>,
        message: impl Into<String>,
    ) {
        self.add(Severity::Error, field.into(), Some(value.as_ref()), message.into());
    }

    /// Something is missing, or wrong as a whole.
    pub(super) fn wrong(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.add(Severity::Error, field.into(), None, message.into());
    }

    /// Something is allowed, but probably not meant.
    pub(super) fn doubtful(
        &mut self,
        field: impl Into<String>,
        value: Option<&str>,
        message: impl Into<String>,
    ) {
        self.add(Severity::Warning, field.into(), value, message.into());
    }

    /// Whether a field has an error already.
    pub(super) fn has_error(&self, field: &str) -> bool {
        let mut errors = self.all.iter().filter(|each| each.severity == Severity::Error);
        errors.any(|each| each.field == field)
    }

    /// The number of errors so far.
    pub(super) const fn errors(&self) -> usize {
        self.counts.0
    }

    /// No more errors of the fields that have one: what their structure forbids is not judged further.
    pub(super) fn settle(&mut self) {
        let errors = self.all.iter().filter(|each| each.severity == Severity::Error);
        self.settled.extend(errors.map(|each| each.field.clone()));
    }

    pub(super) fn push(&mut self, finding: Finding) {
        // each severity has its own bound, so that warnings never crowd out an error
        let severity = finding.severity;
        let count = match severity {
            Severity::Error => &mut self.counts.0,
            Severity::Warning => &mut self.counts.1,
        };
        if *count < FINDINGS_MAX {
            if !self.all.contains(&finding) {
                *count += 1;
                self.all.push(finding);
            }
        } else if *count == FINDINGS_MAX {
            *count += 1;
            let message =
                format!("more findings exist: only {FINDINGS_MAX} of each severity are listed");
            self.all.push(Finding { severity, field: String::new(), value: None, message });
        }
    }

    /// Whether no more errors are listed: then there is no need to look for them.
    pub(super) const fn is_full(&self) -> bool {
        self.counts.0 > FINDINGS_MAX
    }

    /// The known name that a text probably means, for the first few that are asked about.
    pub(super) fn meant<'a>(&mut self, text: &str, known: &[&'a str]) -> Option<&'a str> {
        self.suggested += 1;
        let known = &known[..known.len().min(KNOWN_MAX)];
        if self.suggested > SUGGESTIONS_MAX { None } else { names::close(text, known) }
    }

    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.all
    }

    fn add(&mut self, severity: Severity, field: String, value: Option<&str>, message: String) {
        if severity == Severity::Error && self.settled.contains(&field) {
            return;
        }
        self.push(Finding { severity, field, value: value.map(shortened), message });
    }
}

/// A JSON value as it is named in a message: texts and numbers themselves, the rest by their kind.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => shortened(text),
        Value::Array(items) if items.is_empty() => "[]".to_owned(),
        Value::Array(_) => "[…]".to_owned(),
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(_) => "{…}".to_owned(),
        other => other.to_string(),
    }
}
