//! Reading the status of an object: leniently, since whatever is malformed says nothing.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::snapshot::Outcome;

/// Number of indexes in a list such as `1,3-5,7`.
pub(super) fn indexes(list: &str) -> i64 {
    let number = |text: &str| text.trim().parse::<i64>().ok();
    let counts = list.split(',').filter_map(|item| {
        let (low, high) = item.split_once('-').unwrap_or((item, item));
        number(high)?.checked_sub(number(low)?)?.checked_add(1).filter(|count| *count > 0)
    });
    counts.fold(0, i64::saturating_add)
}

/// An object whose status is read leniently.
#[derive(Clone, Copy)]
pub(super) struct Object<'a>(pub(super) &'a Value);

impl<'a> Object<'a> {
    /// The text at a JSON pointer; "" where there is none.
    pub(super) fn text(self, pointer: &str) -> &'a str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The number at a JSON pointer, where there is one from 0 on.
    pub(super) fn count(self, pointer: &str) -> Option<i64> {
        self.0.pointer(pointer).and_then(Value::as_i64).filter(|count| *count >= 0)
    }

    /// The elements at a JSON pointer; none where there is no array.
    pub(super) fn array(self, pointer: &str) -> &'a [Value] {
        self.0.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Whether its metadata has an annotation.
    pub(super) fn is_annotated(self, name: &str) -> bool {
        !self.0["metadata"]["annotations"][name].is_null()
    }

    /// The condition of a type, where it is True.
    pub(super) fn condition(self, kind: &str) -> Option<Self> {
        let mut conditions = self.array("/status/conditions").iter().map(Object);
        conditions.find(|it| it.text("/type") == kind && it.text("/status") == "True")
    }

    /// The outcome that the conditions tell; of several failures the first that is named.
    pub(super) fn verdict(self, success: &str, failures: &[&str]) -> Outcome {
        if self.condition(success).is_some() {
            return Outcome::Succeeded;
        }
        match failures.iter().find_map(|kind| self.condition(kind)) {
            Some(condition) => Outcome::Failed {
                reason: condition.text("/reason").to_owned(),
                message: condition.text("/message").to_owned(),
                at: condition.text("/lastTransitionTime").parse::<Timestamp>().ok(),
            },
            None => Outcome::Active,
        }
    }

    /// Parallelism and completions of the Job whose `spec` is at a pointer; no completions where
    /// it works on a queue, until one pod succeeds.
    pub(super) fn job_shape(self, spec: &str) -> (i64, Option<i64>) {
        let parallelism = self.count(&format!("{spec}/parallelism"));
        let completions = self.count(&format!("{spec}/completions"));
        let queue = parallelism.is_some() && completions.is_none();
        (parallelism.unwrap_or(1), completions.or(if queue { None } else { Some(1) }))
    }
}

/// The elements at a JSON pointer by their names. Whoever creates an object chooses how many there are, so that none
/// is searched for in a list.
pub(super) fn by_name<'a>(object: Object<'a>, pointer: &str) -> BTreeMap<&'a str, Object<'a>> {
    object.array(pointer).iter().map(|item| (Object(item).text("/name"), Object(item))).collect()
}

/// What a status counts of the Jobs that an object makes, by their names.
pub(super) struct JobCounts<'a>(BTreeMap<&'a str, Object<'a>>);

impl<'a> JobCounts<'a> {
    pub(super) fn of(object: Object<'a>, pointer: &str) -> Self {
        Self(by_name(object, pointer))
    }

    /// The sum of these fields of a name; what is absent counts as 0.
    pub(super) fn sum(&self, name: &str, fields: &[&str]) -> i64 {
        let Some(counts) = self.0.get(name) else { return 0 };
        let count = |field: &&str| counts.count(&format!("/{field}"));
        fields.iter().filter_map(count).fold(0, i64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_indexes_are_counted() {
        for (list, want) in [("", 0), ("3", 1), ("1,3-5,7", 5), ("5-3", 0), ("x,-,2", 1)] {
            assert_eq!(indexes(list), want, "{list}");
        }
    }
}
