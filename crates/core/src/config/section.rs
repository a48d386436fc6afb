use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::error::Problem;
use super::renamed;
use crate::tuning::{Period, names, shortened};

/// One object of the file, read field by field; every problem is noted and a default goes on.
pub(super) struct Section<'a> {
    path: String,
    fields: Option<&'a Map<String, Value>>,
    known: Vec<&'static str>,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Section<'a> {
    /// The object at the root of the file. A file without any content is an empty one.
    pub(super) fn root(file: &'a Value, problems: &'a mut Vec<Problem>) -> Self {
        Self::new(String::new(), Some(file), problems)
    }

    fn new(path: String, value: Option<&'a Value>, problems: &'a mut Vec<Problem>) -> Self {
        let fields = match value {
            // a section whose every key is a comment is null
            None | Some(Value::Null) => None,
            Some(Value::Object(fields)) => Some(fields),
            Some(other) => {
                problems.push(Problem::new(&path, Some(&text(other)), "must be an object"));
                None
            }
        };
        Self { path, fields, known: vec![], problems }
    }

    /// Reads with a function, then refuses the fields that it did not ask for.
    pub(super) fn read<T>(mut self, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let value = read(&mut self);
        for (name, unknown) in self.fields.into_iter().flatten() {
            if !self.known.contains(&name.as_str()) {
                let path = join(&self.path, &shortened(name));
                let hint = renamed::hint(&path);
                let hint = hint.unwrap_or_else(|| names::hint(name, &self.known));
                let message = format!("unknown key: {hint}");
                self.problems.push(Problem::new(&path, Some(&text(unknown)), message));
            }
        }
        value
    }

    /// Reads an object in this one.
    pub(super) fn section<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        let value = self.field(name);
        Section::new(join(&self.path, name), value, self.problems).read(read)
    }

    /// Whether a field is there and not null.
    pub(super) fn has(&mut self, name: &'static str) -> bool {
        self.field(name).is_some_and(|value| !value.is_null())
    }

    /// Whether a field is the boolean `false`.
    pub(super) fn is_false(&mut self, name: &'static str) -> bool {
        self.field(name) == Some(&Value::Bool(false))
    }

    /// Notes what is wrong with a field.
    pub(super) fn problem(&mut self, name: &str, value: Option<&str>, message: impl Into<String>) {
        let path = if name.is_empty() { self.path.clone() } else { join(&self.path, name) };
        self.problems.push(Problem::new(&path, value, message));
    }

    /// A duration; 0 may stand there as a number.
    pub(super) fn period(&mut self, name: &'static str, default: Period) -> Period {
        self.maybe_period(name).unwrap_or(default)
    }

    /// A duration, none where it is left out or wrong.
    pub(super) fn maybe_period(&mut self, name: &'static str) -> Option<Period> {
        let value = self.field(name)?;
        let text = text(value);
        let parsed = text.parse::<Period>();
        let malformed = crate::tuning::PeriodError::Malformed(String::new()).expected();
        let wrong = match (value, parsed) {
            (Value::String(_) | Value::Number(_), Ok(period)) => return Some(period),
            (Value::String(_) | Value::Number(_), Err(error)) => error.expected(),
            _ => malformed,
        };
        self.problem(name, Some(&text), wrong);
        None
    }

    /// A whole number from a range.
    pub(super) fn whole(
        &mut self,
        name: &'static str,
        range: RangeInclusive<i32>,
        default: i32,
    ) -> i32 {
        let Some(value) = self.field(name) else { return default };
        let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
        number.filter(|number| range.contains(number)).unwrap_or_else(|| {
            let (least, most) = range.into_inner();
            let message = format!("must be a whole number from {least} to {most}");
            self.problem(name, Some(&text(value)), message);
            default
        })
    }

    /// A number.
    pub(super) fn number(&mut self, name: &'static str, default: f64) -> f64 {
        let Some(value) = self.field(name) else { return default };
        value.as_f64().unwrap_or_else(|| {
            self.problem(name, Some(&text(value)), "must be a finite number");
            default
        })
    }

    /// True or false.
    pub(super) fn flag(&mut self, name: &'static str, default: bool) -> bool {
        let Some(value) = self.field(name) else { return default };
        value.as_bool().unwrap_or_else(|| {
            self.problem(name, Some(&text(value)), "must be true or false");
            default
        })
    }

    /// A text; none where it is left out, empty or wrong.
    pub(super) fn text(&mut self, name: &'static str) -> Option<String> {
        match self.field(name)? {
            Value::String(text) => (!text.is_empty()).then(|| text.clone()),
            other => {
                self.problem(name, Some(&text(other)), "must be a string");
                None
            }
        }
    }

    /// A quantity as its text: it may stand there as a number. None where it is left out or empty. Whether it is a
    /// quantity is not checked.
    pub(super) fn quantity(&mut self, name: &'static str) -> Option<String> {
        self.field(name).map(text).filter(|text| !text.is_empty())
    }

    /// One of some texts, which must be given; none where it is wrong.
    pub(super) fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let value = self.field(name);
        let given = value.and_then(Value::as_str);
        let found = choices.iter().find(|(text, _)| given == Some(text));
        if found.is_none() {
            let names: Vec<_> = choices.iter().map(|(text, _)| *text).collect();
            let message = format!("must be one of {}", names.join(", "));
            self.problem(name, value.map(text).as_deref(), message);
        }
        found.map(|(_, choice)| *choice)
    }

    /// The name of an object; none where it is left out, empty or wrong.
    pub(super) fn name(&mut self, name: &'static str) -> Option<String> {
        let text = self.text(name)?;
        if names::is_subdomain(&text) {
            return Some(text);
        }
        self.problem(name, Some(&text), names::SUBDOMAIN);
        None
    }

    /// An address to listen on.
    pub(super) fn address(&mut self, name: &'static str, default: SocketAddr) -> SocketAddr {
        let Some(value) = self.field(name) else { return default };
        let parsed = value.as_str().and_then(|text| text.parse().ok());
        parsed.unwrap_or_else(|| {
            let message = "must be an IP address and a port, such as 0.0.0.0:8443 or [::]:8443";
            self.problem(name, Some(&text(value)), message);
            default
        })
    }

    /// A list of texts, each made into something; what is wrong is left out.
    pub(super) fn texts<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let mut all = vec![];
        for (i, item) in self.items(name, usize::MAX).iter().enumerate() {
            let parsed = item.as_str().ok_or_else(|| "must be a string".to_owned());
            match parsed.and_then(&parse) {
                Ok(value) => all.push(value),
                Err(message) => {
                    self.problem(&format!("{name}[{i}]"), Some(&text(item)), message);
                }
            }
        }
        all
    }

    /// A list of at most 255 exit codes, as policies have them; what is wrong is left out.
    pub(super) fn codes(&mut self, name: &'static str, takes_zero: bool) -> BTreeSet<i32> {
        let mut all = BTreeSet::new();
        for (i, item) in self.items(name, 255).iter().enumerate() {
            let code = item.as_i64().and_then(|code| i32::try_from(code).ok());
            let wrong = match code {
                None => "must be a whole number of 32 bits",
                Some(0) if !takes_zero => "must not be 0 with the operator In: it is not a failure",
                Some(code) if !all.insert(code) => "must be unique in the list",
                Some(_) => continue,
            };
            self.problem(&format!("{name}[{i}]"), Some(&text(item)), wrong);
        }
        all
    }

    /// Whether a list has nothing in it, or is not there.
    pub(super) fn is_empty(&mut self, name: &'static str) -> bool {
        match self.field(name) {
            None | Some(Value::Null) => true,
            Some(value) => value.as_array().is_some_and(Vec::is_empty),
        }
    }

    /// A list of objects, each read with a function; what is wrong is left out.
    pub(super) fn sections<T>(
        &mut self,
        name: &'static str,
        most: usize,
        read: impl Fn(&mut Section<'_>) -> Option<T>,
    ) -> Vec<T> {
        let mut all = vec![];
        for (i, item) in self.items(name, most).iter().enumerate() {
            let path = join(&self.path, &format!("{name}[{i}]"));
            if item.is_null() {
                self.problems.push(Problem::new(&path, Some("null"), "must be an object"));
            } else {
                all.extend(Section::new(path, Some(item), self.problems).read(&read));
            }
        }
        all
    }

    /// An object whose keys are free and whose values are lists of objects.
    pub(super) fn lists<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&mut Section<'_>) -> Option<T>,
    ) -> Vec<(String, Vec<T>)> {
        let mut all = vec![];
        let path = join(&self.path, name);
        let value = self.field(name);
        let lists = match value {
            None | Some(Value::Null) => None,
            Some(Value::Object(lists)) => Some(lists),
            Some(other) => {
                self.problem(name, Some(&text(other)), "must be an object of lists");
                None
            }
        };
        for (key, list) in lists.into_iter().flatten() {
            let path = format!("{path}[{}]", shortened(key));
            let mut items = vec![];
            for (i, item) in array(list, &path, self.problems).iter().enumerate() {
                let item_path = format!("{path}[{i}]");
                items.extend(Section::new(item_path, Some(item), self.problems).read(&read));
            }
            all.push((key.clone(), items));
        }
        all
    }

    fn items(&mut self, name: &'static str, most: usize) -> &'a [Value] {
        let Some(value) = self.field(name) else { return &[] };
        let path = join(&self.path, name);
        let items = array(value, &path, self.problems);
        if items.len() > most {
            let message = format!("must have at most {most} entries, but has {}", items.len());
            self.problems.push(Problem::new(&path, None, message));
        }
        &items[..items.len().min(most)]
    }

    fn field(&mut self, name: &'static str) -> Option<&'a Value> {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
        self.fields.and_then(|fields| fields.get(name))
    }
}

fn array<'a>(value: &'a Value, path: &str, problems: &mut Vec<Problem>) -> &'a [Value] {
    match value {
        Value::Null => &[],
        Value::Array(items) => items,
        other => {
            problems.push(Problem::new(path, Some(&text(other)), "must be a list"));
            &[]
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The value as it is named in a message.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    }
}
