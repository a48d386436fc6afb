//! Paths into a component's template, such as `template.spec.replicatedJobs[0].template`.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::Error;

/// The longest path (bytes).
const BYTES_MAX: usize = 512;
/// The deepest path (fields and indexes after `template`).
const STEPS_MAX: usize = 32;
/// How every path starts.
const ROOT: &str = "template";

/// A path from a component's template down, by the grammar `template(.field|[index])*`.
///
/// A field is any text without `.`, `[`, `]` and control characters; an index is decimal, without
/// leading zeros. One place therefore has one text, and equal texts mean equal places.
/// Go: `getValueAtPath`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(usize),
}

/// Why a text is no path. Positions are bytes from the start of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It has more than 512 bytes.
    #[error("a path of at most {BYTES_MAX} bytes")]
    TooLong,
    /// It has more than 32 fields and indexes.
    #[error("a path of at most {STEPS_MAX} fields and indexes")]
    TooDeep,
    /// It does not start with `template`.
    #[error("a path that starts with {ROOT:?}")]
    Root,
    /// A field without a name.
    #[error("the name of a field at position {0}")]
    Field(usize),
    /// An index that is not a small decimal number in brackets.
    #[error("an index such as [0] at position {0}")]
    Index(usize),
    /// Neither a field nor an index.
    #[error("\".\" or \"[\" at position {0}")]
    Step(usize),
}

impl Path {
    /// The place in a template.
    ///
    /// # Errors
    /// Where a step leads nowhere; the error names the place reached until then.
    pub fn get<'a>(&self, template: &'a Value) -> Result<&'a Value, Error> {
        let mut place = template;
        for (count, step) in self.steps.iter().enumerate() {
            let next = match step {
                Step::Field(name) => place.as_object().and_then(|fields| fields.get(name)),
                Step::Index(index) => place.as_array().and_then(|items| items.get(*index)),
            };
            place = next.ok_or_else(|| self.missing(count, step, place))?;
        }
        Ok(place)
    }

    /// The place in a template, to change it.
    ///
    /// # Errors
    /// As [`Path::get`].
    pub fn get_mut<'a>(&self, template: &'a mut Value) -> Result<&'a mut Value, Error> {
        self.get(template)?;
        let mut place = template;
        for (count, step) in self.steps.iter().enumerate() {
            let next = match step {
                Step::Field(name) => place.as_object_mut().and_then(|fields| fields.get_mut(name)),
                Step::Index(index) => place.as_array_mut().and_then(|items| items.get_mut(*index)),
            };
            place = next.ok_or_else(|| self.missing(count, step, &Value::Null))?;
        }
        Ok(place)
    }

    /// `step`, which is preceded by `count` others, leads nowhere from `place`.
    fn missing(&self, count: usize, step: &Step, place: &Value) -> Error {
        let reached = Self { steps: self.steps.iter().take(count).cloned().collect() };
        let expected = match step {
            Step::Field(name) => format!("an object with the field {name:?}"),
            Step::Index(index) => format!("an array with the index {index}"),
        };
        Error::found(reached.to_string(), place, expected)
    }
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        if text.len() > BYTES_MAX {
            return Err(PathError::TooLong);
        }
        let mut rest = text.strip_prefix(ROOT).ok_or(PathError::Root)?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if steps.len() == STEPS_MAX {
                return Err(PathError::TooDeep);
            }
            let position = text.len() - rest.len();
            let (step, after) = if let Some(field) = rest.strip_prefix('.') {
                parse_field(field).ok_or(PathError::Field(position + 1))?
            } else if let Some(index) = rest.strip_prefix('[') {
                parse_index(index).ok_or(PathError::Index(position))?
            } else {
                return Err(PathError::Step(position));
            };
            steps.push(step);
            rest = after;
        }
        Ok(Self { steps })
    }
}

/// The field that a text starts with, and what follows it.
fn parse_field(text: &str) -> Option<(Step, &str)> {
    let end = text.find(['.', '[', ']']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() || name.contains(char::is_control) {
        return None;
    }
    Some((Step::Field(name.to_owned()), rest))
}

/// The index that a text after `[` starts with, and what follows its `]`.
fn parse_index(text: &str) -> Option<(Step, &str)> {
    let (digits, rest) = text.split_once(']')?;
    let canonical = digits == "0" || !digits.starts_with('0');
    if !canonical || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // 32 bits on every machine: an array of 1 MiB cannot be longer
    let index: u32 = digits.parse().ok()?;
    Some((Step::Index(usize::try_from(index).ok()?), rest))
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ROOT)?;
        for step in &self.steps {
            match step {
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::testing::{any_json, config};
    use super::*;

    #[test]
    fn what_is_no_path_is_refused_with_its_position() {
        let deep = "template".to_owned() + &".a".repeat(33);
        let long = "template.".to_owned() + &"a".repeat(512);
        for (text, want) in [
            ("", PathError::Root),
            ("spec.template", PathError::Root),
            ("template.template.", PathError::Field(18)),
            ("template.", PathError::Field(9)),
            ("template..spec", PathError::Field(9)),
            ("template.\u{0}", PathError::Field(9)),
            ("template/../../etc", PathError::Step(8)),
            ("template./../../etc", PathError::Field(11)),
            ("templates", PathError::Step(8)),
            ("template[0]x", PathError::Step(11)),
            ("template.a]", PathError::Step(10)),
            ("template[", PathError::Index(8)),
            ("template[]", PathError::Index(8)),
            ("template[-1]", PathError::Index(8)),
            ("template[+1]", PathError::Index(8)),
            ("template[01]", PathError::Index(8)),
            ("template.a[100000000000000000000]", PathError::Index(10)),
            (deep.as_str(), PathError::TooDeep),
            (long.as_str(), PathError::TooLong),
        ] {
            assert_eq!(text.parse::<Path>(), Err(want), "{text}");
        }
    }

    #[test]
    fn a_path_leads_to_its_place_or_says_where_it_ends() {
        let template = json!({"spec": {"jobs": [{"/": 1}], "a b": null}});
        for (text, want) in [
            ("template", Ok(template.clone())),
            ("template.spec.jobs[0]./", Ok(json!(1))),
            ("template.spec.a b", Ok(json!(null))),
            ("template[0]", Err(("template", "an array with the index 0"))),
            ("template.spec.jobs[1]", Err(("template.spec.jobs", "an array with the index 1"))),
            (
                "template.spec.jobs.x",
                Err(("template.spec.jobs", r#"an object with the field "x""#)),
            ),
            ("template.x.y", Err(("template", r#"an object with the field "x""#))),
        ] {
            let path: Path = text.parse().expect(text);
            let found = path.get(&template).cloned();
            let found = found.map_err(|error| (error.field, error.expected));
            let want = want.map_err(|(field, text)| (field.to_owned(), text.to_owned()));
            assert_eq!(found, want, "{text}");
            assert_eq!(path.to_string(), text);
        }
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn what_follows_the_grammar_is_written_as_it_was(
            text in "template([.][a-z/ ]{1,3}|\\[(0|[1-9][0-9]{0,8})\\]){0,32}",
        ) {
            let path: Path = text.parse().expect("it follows the grammar");
            prop_assert_eq!(path.to_string(), text);
        }

        #[test]
        fn no_text_panics_and_what_parses_is_written_as_it_was(
            text in "(template)?([.][a-z/ ]{0,3}|\\[[0-9]{0,12}\\]?){0,36}",
        ) {
            if let Ok(path) = text.parse::<Path>() {
                prop_assert_eq!(path.to_string(), text);
            }
        }

        #[test]
        fn get_and_get_mut_agree(
            text in "template([.](a|spec|template)|\\[[0-2]\\]){0,4}",
            mut template in any_json(),
        ) {
            let path: Path = text.parse().expect("it follows the grammar");
            let found = path.get(&template).cloned();
            prop_assert_eq!(path.get_mut(&mut template).cloned(), found);
        }
    }
}
