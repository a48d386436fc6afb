//! Label and field selectors.

use serde_json::Value;

use super::refusal::Refusal;

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Labels {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

/// One requirement of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    path: &'static str,
    value: String,
    equal: bool,
}

/// What a list or a watch asks for, within a namespace or in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this namespace; all where empty.
    pub namespace: String,
    labels: Vec<Labels>,
    fields: Vec<Field>,
}

/// The fields that can be selected by, with where they are.
const FIELDS: &[(&str, &str, bool)] = &[
    ("metadata.name", "/metadata/name", true),
    ("metadata.namespace", "/metadata/namespace", true),
    ("spec.nodeName", "/spec/nodeName", false),
    ("status.phase", "/status/phase", false),
];

impl Filter {
    /// Reads the two selectors.
    ///
    /// # Errors
    /// 400 where one cannot be read, or names a field that cannot be selected by.
    pub fn parse(
        namespace: &str,
        labels: &str,
        fields: &str,
        is_pod: bool,
    ) -> Result<Self, Refusal> {
        let mut filter = Self { namespace: namespace.to_owned(), ..Self::default() };
        for part in split(labels) {
            filter.labels.push(Labels::parse(part.trim())?);
        }
        for part in fields.split(',').filter(|part| !part.trim().is_empty()) {
            filter.fields.push(Field::parse(part.trim(), is_pod)?);
        }
        Ok(filter)
    }

    /// Everything that has a label.
    #[must_use]
    pub fn labelled(key: &str) -> Self {
        Self { labels: vec![Labels::Exists(key.to_owned())], ..Self::default() }
    }

    /// Whether anything but the namespace is asked for.
    #[must_use]
    pub const fn selects(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// Whether there is at most one object to look at, and this is not it: a name in a namespace is
    /// looked up, not searched for.
    pub(super) fn passes_over(&self, name: &str) -> bool {
        let names =
            |field: &Field| field.equal && field.path == "/metadata/name" && field.value != name;
        !self.namespace.is_empty() && self.fields.iter().any(names)
    }

    /// Whether a namespace is asked for.
    #[must_use]
    pub fn is_within(&self, namespace: &str) -> bool {
        self.namespace.is_empty() || self.namespace == namespace
    }

    /// Whether an object is asked for.
    #[must_use]
    pub fn matches(&self, namespace: &str, object: &Value) -> bool {
        self.is_within(namespace)
            && self.labels.iter().all(|one| one.matches(&object["metadata"]["labels"]))
            && self.fields.iter().all(|one| one.matches(object))
    }
}

/// Splits at commas that are not in brackets.
fn split(text: &str) -> Vec<&str> {
    let mut parts = vec![];
    let (mut start, mut depth) = (0, 0_u32);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

impl Labels {
    fn parse(text: &str) -> Result<Self, Refusal> {
        let wrong = || {
            Refusal::bad_request(format!(
                "unable to parse requirement {text:?} of a label selector"
            ))
        };
        if let Some(key) = text.strip_prefix('!') {
            return Ok(Self::Absent(key.trim().to_owned()));
        }
        if let Some((key, rest)) = text.split_once(' ')
            && let Some((operator, values)) = rest.trim().split_once('(')
        {
            let values = values.strip_suffix(')').ok_or_else(wrong)?;
            let values = values.split(',').map(|value| value.trim().to_owned()).collect();
            return match operator.trim() {
                "in" => Ok(Self::In(key.to_owned(), values)),
                "notin" => Ok(Self::NotIn(key.to_owned(), values)),
                _ => Err(wrong()),
            };
        }
        let pair = |operator: &str| {
            text.split_once(operator)
                .map(|(key, value)| (key.trim().to_owned(), vec![value.trim().to_owned()]))
        };
        if let Some((key, values)) = pair("!=") {
            return Ok(Self::NotIn(key, values));
        }
        if let Some((key, values)) = pair("==").or_else(|| pair("=")) {
            return Ok(Self::In(key, values));
        }
        if text.contains([' ', '(', ')']) {
            return Err(wrong());
        }
        Ok(Self::Exists(text.to_owned()))
    }

    fn matches(&self, labels: &Value) -> bool {
        let value = |key: &String| labels.get(key).and_then(Value::as_str);
        let among = |key, values: &Vec<String>| {
            value(key).is_some_and(|value| values.iter().any(|one| one == value))
        };
        match self {
            Self::In(key, values) => among(key, values),
            Self::NotIn(key, values) => !among(key, values),
            Self::Exists(key) => value(key).is_some(),
            Self::Absent(key) => value(key).is_none(),
        }
    }
}

impl Field {
    fn parse(text: &str, is_pod: bool) -> Result<Self, Refusal> {
        let (key, value, equal) = if let Some((key, value)) = text.split_once("!=") {
            (key, value, false)
        } else if let Some((key, value)) = text.split_once("==") {
            (key, value, true)
        } else if let Some((key, value)) = text.split_once('=') {
            (key, value, true)
        } else {
            return Err(Refusal::bad_request(format!(
                "invalid selector: {text:?}; can't understand"
            )));
        };
        let known = FIELDS.iter().find(|(name, _, of_all)| *name == key && (*of_all || is_pod));
        match known {
            Some((_, path, _)) => Ok(Self { path, value: value.to_owned(), equal }),
            None => Err(Refusal::bad_request(format!("field label not supported: {key}"))),
        }
    }

    fn matches(&self, object: &Value) -> bool {
        let found = object.pointer(self.path).and_then(Value::as_str).unwrap_or_default();
        (found == self.value) == self.equal
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_selected_by_equality_and_by_sets() {
        let object = json!({"metadata": {"name": "a", "labels": {"app": "x", "tier": "1"}}});
        for (selector, want) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("other", false),
            ("!other", true),
            ("app=x", true),
            ("app==x,tier=2", false),
            ("app!=x", false),
            ("other!=x", true),
            ("app in (x, y)", true),
            ("app in (y)", false),
            ("app notin (y,z),tier in (1)", true),
            ("other notin (y)", true),
        ] {
            let filter = Filter::parse("", selector, "", false).unwrap();
            assert_eq!(filter.matches("n", &object), want, "{selector}");
        }
        assert_eq!(Filter::parse("", "app in x", "", false).unwrap_err().code, 400);
        assert!(!Filter::parse("m", "", "", false).unwrap().matches("n", &object));
    }

    #[test]
    fn fields_are_selected_by_where_they_are_known() {
        let pod = json!({"metadata": {"name": "a"}, "status": {"phase": "Running"}});
        for (selector, want) in [
            ("metadata.name=a", true),
            ("metadata.name!=a", false),
            ("status.phase==Running,metadata.name=b", false),
        ] {
            let filter = Filter::parse("", "", selector, true).unwrap();
            assert_eq!(filter.matches("n", &pod), want, "{selector}");
        }
        assert_eq!(Filter::parse("", "", "status.phase=x", false).unwrap_err().code, 400);
        assert_eq!(Filter::parse("", "", "spec.other=x", true).unwrap_err().code, 400);
    }
}
