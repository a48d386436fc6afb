use std::fmt;
use std::path::PathBuf;

use crate::tuning::{Severity, shortened, write_finding};

/// One thing that is wrong in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field, such as `faultTolerance.retryLimit`; empty for the file as a whole.
    pub field: String,
    /// The value as it stands there, shortened; none where something is missing.
    pub value: Option<String>,
    /// What is wrong with it and what is allowed.
    pub message: String,
}

/// Everything that is wrong in a configuration; prints one problem on each line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(Vec<Problem>);

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("cannot read configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is not a valid configuration.
    #[error("configuration {} is invalid", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Everything that is wrong.
        #[source]
        source: Errors,
    },
}

impl Problem {
    pub(super) fn new(field: &str, value: Option<&str>, message: impl Into<String>) -> Self {
        Self { field: field.to_owned(), value: value.map(shortened), message: message.into() }
    }
}

impl Errors {
    /// None where there is nothing wrong.
    pub(super) fn of(problems: Vec<Problem>) -> Option<Self> {
        (!problems.is_empty()).then_some(Self(problems))
    }

    /// The problems, in the order of the sections.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, value, message } = self;
        write_finding(f, Severity::Error, field, value.as_deref(), message)
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
