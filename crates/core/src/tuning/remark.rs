use std::fmt;

use super::names::shortened;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Admission refuses the object; the controller, which cannot, takes the default and says so.
    Error,
    /// Allowed, but probably not meant.
    Warning,
}

/// Something to say about one annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// How bad it is.
    pub severity: Severity,
    /// The annotation, with its prefix.
    pub key: String,
    /// Its value, at most 64 characters of it.
    pub value: String,
    /// What is wrong with it and what is allowed, or what is done instead.
    pub message: String,
}

impl Remark {
    pub(super) fn error(key: &str, value: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, key, value, message)
    }

    pub(super) fn warning(key: &str, value: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, key, value, message)
    }

    fn new(severity: Severity, key: &str, value: &str, message: impl Into<String>) -> Self {
        Self { severity, key: key.to_owned(), value: shortened(value), message: message.into() }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, key, value, message } = self;
        write_finding(f, *severity, &format!("metadata.annotations[{key}]"), Some(value), message)
    }
}

/// Writes what is the matter with a field, in the manner of Kubernetes: `spec.x: Invalid value: "v": must be …`. The value
/// of a warning is valid. Without a field, it is about the object as a whole.
///
/// # Errors
/// Those of the formatter.
pub fn write_finding(
    f: &mut fmt::Formatter<'_>,
    severity: Severity,
    field: &str,
    value: Option<&str>,
    message: &str,
) -> fmt::Result {
    if !field.is_empty() {
        write!(f, "{field}: ")?;
    }
    match (value, severity) {
        (Some(value), Severity::Error) => write!(f, "Invalid value: {value:?}: {message}"),
        (Some(value), Severity::Warning) => write!(f, "{value:?}: {message}"),
        (None, Severity::Error | Severity::Warning) => f.write_str(message),
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}
