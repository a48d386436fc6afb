//! How the victims of a world ended, and how they end where the adversary does nothing.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Adversary, is_present};
use crate::world::checks::Violation;
use crate::world::{Options, RunReport, World};

/// The twin of a world, where its ends can be compared.
#[must_use]
pub fn of(options: &Options) -> Option<Options> {
    let acts = is_present(options) && !options.hostility.is_muted();
    let calm = acts && Adversary::of(options)?.calm;
    let hostility = options.hostility.muted();
    calm.then(|| Options { hostility, keep_trace: false, ..options.clone() })
}

/// What differs between the ends of the victims, where something does.
#[must_use]
pub fn compare(report: &RunReport, twin: &RunReport) -> Option<Violation> {
    let both = report.ends.keys().chain(twin.ends.keys());
    let text = |end: Option<&Value>| end.map_or_else(|| "gone".to_owned(), ToString::to_string);
    both.map(|name| (name, report.ends.get(name), twin.ends.get(name)))
        .find(|(_, end, alone)| end != alone)
        .map(|(name, end, alone)| Violation {
            invariant: "S18",
            sentence: "a victim ends as it does without the adversary",
            seen: format!("{name}: {}, alone {}", text(end), text(alone)),
        })
}

/// What does not depend on when things happened.
fn end(object: &Value) -> Value {
    let status = &object["status"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let attempts: Vec<Value> = list(&status["attempts"])
        .iter()
        .map(|one| {
            let source = &one["rule"]["source"];
            json!([one["attempt"], one["outcome"], one["action"], source])
        })
        .collect();
    let conditions: BTreeMap<String, Value> = list(&status["conditions"])
        .iter()
        // a forged pod may hold back the release of quota for a while, and no more
        .filter(|one| one["type"] != "DeletingResources" && one["type"] != "UndeterminedPods")
        .map(|one| (one["type"].to_string(), one["status"].clone()))
        .collect();
    json!({
        "phase": status["phase"], "attempts": attempts, "conditions": conditions,
        "counted": status["resettingCount"], "uncounted": status["uncountedRestarts"],
        "ignored": status["ignoredFailures"], "rules": status["retryCounts"],
    })
}

impl World {
    /// How each victim has ended.
    pub(in crate::world) fn ends(&self) -> BTreeMap<String, Value> {
        if self.adversary.is_none() {
            return BTreeMap::new();
        }
        let victims = self.oracle.wrappers.values().filter(|wrapper| wrapper.sane);
        victims
            .filter_map(|wrapper| {
                let object = self.store.get(&wrapper.address)?;
                Some((wrapper.address.name.to_string(), end(&object.value)))
            })
            .collect()
    }
}
