//! All that was seen in a namespace, and what must hold of it.

use std::sync::Arc;

use serde_json::Value;

/// Everything that was seen in a namespace, in order.
#[derive(Clone, Debug, Default)]
pub struct Log(pub(super) Vec<RawObject>);

/// One change of one object.
#[derive(Clone, Debug)]
pub struct RawObject {
    pub kind: String,
    pub name: String,
    pub deleted: bool,
    pub object: Arc<Value>,
}

impl RawObject {
    pub fn is(&self, kind: &str, name: &str) -> bool {
        self.kind == kind && self.name == name
    }

    pub fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().expect("an object has a UID")
    }

    pub fn phase(&self) -> &str {
        self.object["status"]["phase"].as_str().unwrap_or_default()
    }

    /// Status of a condition of an AppWrapper: "True", "False", or "" where there is none.
    pub fn condition(&self, kind: &str) -> &str {
        self.condition_field(kind, "status")
    }

    pub fn condition_field(&self, kind: &str, field: &str) -> &str {
        let conditions = self.object["status"]["conditions"].as_array();
        let found = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
        found.and_then(|condition| condition[field].as_str()).unwrap_or_default()
    }
}

impl Log {
    /// Every state of one object.
    pub fn of(&self, kind: &str, name: &str) -> impl Iterator<Item = &RawObject> {
        self.0.iter().filter(move |seen| seen.is(kind, name))
    }

    /// Everything of a kind.
    pub fn all(&self, kind: &str) -> impl Iterator<Item = &RawObject> {
        self.0.iter().filter(move |seen| seen.kind == kind)
    }

    /// The last state of an object that exists.
    pub fn last(&self, kind: &str, name: &str) -> Option<&RawObject> {
        self.of(kind, name).last().filter(|seen| !seen.deleted)
    }

    /// The phases of an AppWrapper, without repetitions.
    pub fn phases(&self, name: &str) -> Vec<String> {
        let mut phases: Vec<String> =
            self.of("AppWrapper", name).map(|s| s.phase().into()).collect();
        phases.dedup();
        phases
    }

    /// UIDs that objects of a kind and name prefix had, in order of appearance.
    pub fn uids(&self, kind: &str, prefix: &str) -> Vec<String> {
        let mut uids: Vec<String> = vec![];
        for seen in self.all(kind).filter(|seen| seen.name.starts_with(prefix)) {
            if !uids.iter().any(|uid| uid == seen.uid()) {
                uids.push(seen.uid().to_owned());
            }
        }
        uids
    }
}

/// From the first time it is True to the end of the last attempt, `QuotaReserved` has no gap.
pub fn quota_without_a_gap(log: &Log, name: &str) {
    let states: Vec<(String, String)> = log
        .of("AppWrapper", name)
        .map(|seen| (seen.phase().to_owned(), seen.condition("QuotaReserved").to_owned()))
        .collect();
    for (phase, quota) in &states {
        if ["Resuming", "Running", "Resetting"].contains(&phase.as_str()) {
            assert_eq!(quota, "True", "{states:?}");
        }
    }
}

/// A pod of a later attempt appears only after every pod of an earlier one of its AppWrapper is gone.
pub fn attempts_do_not_overlap(log: &Log) {
    let mut alive: Vec<(&str, &Value, &Value)> = vec![];
    for seen in log.all("Pod") {
        let labels = &seen.object["metadata"]["labels"];
        let (owner, attempt) = (
            &labels["workload.codeflare.dev/appwrapper-uid"],
            &labels["workload.codeflare.dev/attempt"],
        );
        alive.retain(|(uid, ..)| *uid != seen.uid());
        if !seen.deleted && attempt.is_string() {
            alive.push((seen.uid(), owner, attempt));
        }
        let overlaps =
            |(_, who, other): &(&str, &Value, &Value)| *who == owner && *other != attempt;
        assert!(seen.deleted || !alive.iter().any(overlaps), "{} beside {alive:?}", seen.name);
    }
}
