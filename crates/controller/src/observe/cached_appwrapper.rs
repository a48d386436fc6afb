//! An AppWrapper as the watch shows it: read, or with the reason why it cannot be.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::assemble::{Wrapper, is_same_spec};
use super::cache::Key;
use super::raw_object::RawObject;
use super::summary::Summary;
use crate::api::{AppWrapperSpec, AppWrapperStatus, keys};
use crate::mutations;
use crate::policies::Unread;
use crate::status::{self, Evidence, Flaws, Read};

/// An AppWrapper as it is stored: a summary, and its text where that is kept.
#[derive(Clone, Debug)]
pub struct CachedAppWrapper {
    key: Key,
    uid: String,
    version: String,
    /// `metadata.generation`, which changes with the spec; 0 where there is none.
    generation: i64,
    size: usize,
    text: Option<Box<str>>,
    /// How many bytes of the object are not in its text.
    left_out: usize,
    /// What it says in short, or why it cannot be read.
    pub summary: Result<Arc<Summary>, String>,
}

/// What is known of an AppWrapper before the watch shows a newer version.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// As it was parsed last.
    pub parsed: Option<Arc<Wrapper>>,
    /// As the watch has shown it.
    pub stored: Option<Arc<CachedAppWrapper>>,
}

/// Reads an AppWrapper without the rules and the fields of policies that cannot be read; none where these are not what is wrong.
fn without_unread_rules(seen: &RawObject) -> Option<Wrapper> {
    let mut spec: Value = serde_json::from_str(seen.spec()?).ok()?;
    let unread = Unread::take(&mut spec);
    if unread.is_empty() {
        return None;
    }
    let spec: AppWrapperSpec = serde_json::from_value(spec).ok()?;
    let mut wrapper = wrapper(seen, Arc::new(spec), None);
    wrapper.leave_out(&unread);
    Some(wrapper)
}

/// The status is whatever was written into it: it is read as far as it can be.
fn read_status(seen: &RawObject, suspend: bool) -> Read {
    let finalizers = seen.meta.finalizers.iter().flatten();
    let evidence = Evidence {
        deleting: seen.meta.deletion_timestamp.is_some(),
        suspend,
        finalizer: finalizers.into_iter().any(|name| name == keys::FINALIZER),
    };
    status::read(seen.status(), evidence)
}

fn wrapper(seen: &RawObject, spec: Arc<AppWrapperSpec>, known: Option<&Wrapper>) -> Wrapper {
    let Read { status, flaws } = read_status(seen, spec.suspend);
    let plain = Wrapper::plain(&seen.meta, spec, status);
    let mut wrapper = match known {
        Some(known) => plain.inspected_as(known),
        None => plain.inspected(),
    };
    wrapper.flaws = flaws;
    wrapper.rest_bytes = seen.raw.get().len() - seen.status().map_or(0, str::len);
    wrapper.name_forged_components();
    wrapper
}

impl CachedAppWrapper {
    /// Reads an object, and the whole of it, too, where it can be read.
    ///
    /// Where the spec was read before and the AppWrapper is not kept parsed, the spec is left to the reconcile: an
    /// AppWrapper may be large, and changes are read in the one task of the watch, where nobody takes turns.
    #[must_use]
    pub fn read(seen: RawObject, before: &Before) -> (Self, Option<Arc<Wrapper>>) {
        if let Some(annotations) = &seen.meta.annotations {
            mutations::panic_where_asked("watch", annotations);
        }
        if let (None, Some(stored)) = (&before.parsed, &before.stored)
            && let Some(summary) = stored.summary_of_newer(&seen)
        {
            return (Self::readable(seen, Ok(summary)), None);
        }
        let wrapper = match &before.parsed {
            Some(known) => Wrapper::read_newer(&seen, known),
            None => Wrapper::read(&seen),
        };
        let summary = match &wrapper {
            Ok(wrapper) => Ok(Arc::new(Summary::of(wrapper))),
            Err(flaw) => Err(flaw.clone()),
        };
        (Self::readable(seen, summary), wrapper.ok().map(Arc::new))
    }

    /// The summary of a newer version with the same spec.
    fn summary_of_newer(&self, seen: &RawObject) -> Option<Arc<Summary>> {
        let summary = self.summary.as_ref().ok().filter(|summary| !summary.is_flawed)?;
        is_same_spec(&self.uid, self.generation, &seen.meta).then(|| {
            let Read { status, .. } = read_status(seen, summary.suspend);
            Arc::new(summary.of_newer(&Wrapper::plain(&seen.meta, Arc::default(), status)))
        })
    }

    /// One with its text, where it can be read.
    fn readable(seen: RawObject, summary: Result<Arc<Summary>, String>) -> Self {
        let whole = seen.raw.get().len();
        let text = match &summary {
            Ok(_) if seen.is_lean => Some(Box::<str>::from(seen.raw)),
            Ok(_) => Some(lean(&seen).into_boxed_str()),
            Err(_) => None,
        };
        let mut stored = Self::new(seen.meta, text, summary);
        stored.left_out = whole.saturating_sub(stored.size);
        stored
    }

    /// One that cannot be read, and why.
    #[must_use]
    pub fn unreadable(meta: ObjectMeta, why: String) -> Self {
        Self::new(meta, None, Err(why))
    }

    fn new(
        meta: ObjectMeta,
        text: Option<Box<str>>,
        summary: Result<Arc<Summary>, String>,
    ) -> Self {
        let generation = meta.generation.unwrap_or_default();
        let ObjectMeta { namespace, name, uid, resource_version, .. } = meta;
        let [namespace, name, uid, version] =
            [namespace, name, uid, resource_version].map(Option::unwrap_or_default);
        let size = text.as_ref().map_or(0, |text| text.len());
        let key = Key { namespace, name };
        Self { key, uid, version, generation, size, text, left_out: 0, summary }
    }

    /// Its namespace and name.
    #[must_use]
    pub fn key(&self) -> Key {
        self.key.clone()
    }

    /// Its UID.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Its resource version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The size of its text, in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Its text, where it is kept.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The AppWrapper that its text says, where that is kept.
    #[must_use]
    pub fn parsed(&self) -> Option<Wrapper> {
        let seen = serde_json::from_str::<RawObject>(self.text()?).ok()?;
        let mut wrapper = Wrapper::read(&seen).ok()?;
        wrapper.rest_bytes += self.left_out;
        Some(wrapper)
    }

    /// The same without its text.
    #[must_use]
    pub(super) fn without_text(&self) -> Self {
        Self { text: None, ..self.clone() }
    }
}

/// The text without what is never read: `managedFields` is often the larger part of an object.
fn lean(seen: &RawObject) -> String {
    let Ok(metadata) = serde_json::to_string(&seen.meta) else {
        return seen.raw.get().to_owned();
    };
    let [spec, status] = [seen.spec(), seen.status()].map(|part| part.unwrap_or("null"));
    format!(r#"{{"metadata":{metadata},"spec":{spec},"status":{status}}}"#)
}

impl Wrapper {
    /// Reads an object. Rules of its policies that cannot be read are left out, and its policies say so.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn read(seen: &RawObject) -> Result<Self, String> {
        let spec = seen.spec().map_or_else(|| Ok(AppWrapperSpec::default()), serde_json::from_str);
        match spec {
            Ok(spec) => Ok(wrapper(seen, Arc::new(spec), None)),
            Err(error) => without_unread_rules(seen).ok_or_else(|| error.to_string()),
        }
    }

    /// The same for an object of which an earlier version is known. The API server changes `metadata.generation` with
    /// the spec: where it is the same, neither the templates nor the policies are read again.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn read_newer(seen: &RawObject, known: &Self) -> Result<Self, String> {
        if known.has_spec_of(&seen.meta) {
            return Ok(wrapper(seen, known.spec.clone(), Some(known)));
        }
        Self::read(seen)
    }

    /// An AppWrapper from its parts.
    #[must_use]
    pub fn new(meta: &ObjectMeta, spec: AppWrapperSpec, status: AppWrapperStatus) -> Self {
        Self::plain(meta, Arc::new(spec), status).inspected()
    }

    fn plain(meta: &ObjectMeta, spec: Arc<AppWrapperSpec>, status: AppWrapperStatus) -> Self {
        let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key));
        let queue = label(keys::QUEUE_NAME);
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        let prebuilt = [annotation(keys::PREBUILT_WORKLOAD), label(keys::PREBUILT_WORKLOAD)];
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            deleting: meta.deletion_timestamp.is_some(),
            deletion_timestamp: meta.deletion_timestamp.as_ref().map(|time| time.0),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            annotations: tuning(meta),
            queue: queue.filter(|name| !name.is_empty()).cloned(),
            has_manager: label(keys::MULTIKUEUE_ORIGIN).is_some(),
            is_prebuilt: prebuilt.iter().flatten().any(|name| !name.is_empty()),
            is_applied: meta.managed_fields.as_ref().is_some_and(|all| !all.is_empty()),
            spec,
            status,
            components: vec![],
            policies: std::sync::Arc::default(),
            flaws: Flaws::default(),
            rest_bytes: 0,
        }
    }

    /// Whether this controller is the one that looks after it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.other_manager().is_none()
    }

    /// Whether its annotation keeps it from running: it does not in a worker cluster of MultiKueue.
    #[must_use]
    pub fn is_inactive(&self) -> bool {
        !self.has_manager && self.annotations.get(keys::ACTIVE).is_some_and(|text| text == "false")
    }

    /// `spec.managedBy`, where that is another controller.
    #[must_use]
    pub fn other_manager(&self) -> Option<&str> {
        self.spec.managed_by.as_deref().filter(|name| *name != keys::CONTROLLER_NAME)
    }
}

/// The annotations that tune an AppWrapper; the others may be large, and nobody asks for them.
fn tuning(meta: &ObjectMeta) -> BTreeMap<String, String> {
    let all = meta.annotations.iter().flatten();
    let ours = all.filter(|(key, _)| key.starts_with(keys::ANNOTATION_PREFIX));
    ours.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(value: &Value) -> CachedAppWrapper {
        let seen = serde_json::from_str::<RawObject>(&value.to_string()).unwrap();
        CachedAppWrapper::read(seen, &Before::default()).0
    }

    #[test]
    fn an_object_that_cannot_be_read_says_why_and_keeps_its_name() {
        let good = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"components": []}});
        assert!(stored(&good).summary.is_ok());
        let mut bad = good.clone();
        bad["spec"] = json!({"components": 3});
        let bad = stored(&bad);
        assert_eq!(bad.key().name, "a");
        assert!(bad.summary.as_ref().unwrap_err().contains("invalid type"), "{:?}", bad.summary);
    }

    #[test]
    fn only_a_text_with_fields_that_are_never_read_is_rewritten() {
        let applied = r#""annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}"#;
        for (metadata, is_kept) in [
            (r#""name":"a""#.to_owned(), true),
            (r#""name":"a","managedFields":null"#.to_owned(), true),
            (r#""name":"a","managedFields":[]"#.to_owned(), true),
            (r#""name":"a","annotations":{"note":"b"}"#.to_owned(), true),
            (r#""name":"a","managedFields":[{"operation":"Update"}]"#.to_owned(), false),
            (r#""name":"a","managedFields":[{"operation":"Apply"}]"#.to_owned(), false),
            (format!(r#""name":"a",{applied}"#), false),
        ] {
            let kind = r#""apiVersion":"workload.codeflare.dev/v1beta2","kind":"AppWrapper""#;
            let rest = r#""spec":{"components":[]},"status":{"phase":"Running"}"#;
            let text = format!(r#"{{{kind},"metadata":{{{metadata}}},{rest}}}"#);
            let seen = serde_json::from_str::<RawObject>(&text).unwrap();
            let whole = Wrapper::read(&seen).unwrap();
            let (stored, _) = CachedAppWrapper::read(seen, &Before::default());
            assert_eq!(stored.text() == Some(text.as_str()), is_kept, "{metadata}");
            assert_eq!(stored.parsed(), Some(whole), "{metadata}");
        }
    }

    #[test]
    fn a_label_or_an_annotation_names_a_prebuilt_workload() {
        for (metadata, want) in [
            (json!({}), false),
            (json!({"labels": {keys::PREBUILT_WORKLOAD: "w"}}), true),
            (json!({"annotations": {keys::PREBUILT_WORKLOAD: "w"}}), true),
            (json!({"labels": {keys::PREBUILT_WORKLOAD: ""}}), false),
        ] {
            let meta: ObjectMeta = serde_json::from_value(metadata.clone()).unwrap();
            let wrapper =
                Wrapper::new(&meta, AppWrapperSpec::default(), AppWrapperStatus::default());
            let found = (wrapper.is_prebuilt, wrapper.snapshot().is_prebuilt);
            assert_eq!(found, (want, want), "{metadata}");
        }
    }

    #[test]
    fn a_rule_of_a_newer_version_is_left_out_alone() {
        let known = json!({"action": "FailAppWrapper", "targetComponents": ["a"]});
        let codes = json!({"operator": "In", "values": [1]});
        let ignored = json!({"action": "Ignore", "onExitCodes": codes});
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"},
            "spec": {"template": {"spec": {"containers": []}}}});
        let object = json!({
            "metadata": {"name": "x", "namespace": "n"},
            "spec": {
                "components": [{"template": job}],
                "failurePolicy": {"maxRestarts": 2, "rules": [{"action": "Escalate"}, known]},
                "podFailurePolicy": {"rules": [
                    ignored, {"action": "Ignore", "onExitCodes": codes, "onPhase": "Failed"},
                ]},
            },
            "status": {"phase": "Running"},
        });
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        let policies = Wrapper::read(&seen).unwrap().policies;
        assert_eq!(policies.max_restarts, Some(2));
        assert_eq!(policies.failure_rules().map(|rule| rule.index).collect::<Vec<_>>(), [1]);
        assert_eq!(policies.pod_failure.iter().map(|rule| rule.index).collect::<Vec<_>>(), [0]);
        let flaws = policies.flaws();
        assert_eq!(flaws.len(), 2, "{flaws:?}");
        assert!(flaws[0].starts_with("spec.failurePolicy.rules[0]: unknown variant `Escalate`"));
        assert!(flaws[1].starts_with("spec.podFailurePolicy.rules[1]: unknown field `onPhase`"));
        assert!(flaws.iter().all(|flaw| flaw.ends_with("; the rule is ignored")), "{flaws:?}");
        // anything else that cannot be read is no matter of rules
        let mut bad = object;
        bad["spec"]["components"] = json!(3);
        assert!(stored(&bad).summary.is_err());
    }

    #[test]
    fn a_field_of_a_newer_version_is_ignored_alone() {
        let known = json!({
            "components": [],
            "failurePolicy": {"maxRestarts": 2, "refill": {"after": "24h"},
                "stopWhen": {"attemptsWithoutProgress": 3}},
            "progress": {"stallAfter": "10m"},
            "onNoFit": {"action": "Hold"},
        });
        let fields = [
            ("/failurePolicy/maxRestarts", json!("many"), "; 0 applies"),
            ("/failurePolicy/refill", json!({"each": "24h"}), "; it is ignored"),
            (
                "/failurePolicy/stopWhen",
                json!({"attemptsWithoutProgress": "all"}),
                "; it is ignored",
            ),
            ("/progress", json!({"stallAfter": {"steps": 3}}), "; it is ignored"),
            ("/onNoFit", json!({"action": "Move"}), "; it is ignored"),
        ];
        for (index, (pointer, value, holds)) in fields.into_iter().enumerate() {
            let mut spec = known.clone();
            *spec.pointer_mut(pointer).unwrap() = value;
            let object = json!({"metadata": {"name": "x", "namespace": "n"}, "spec": spec});
            let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
            let policies = Wrapper::read(&seen).unwrap().policies;
            let kept = [
                policies.max_restarts == Some(2),
                policies.budget.refill_after.is_some(),
                policies.budget.stop_when.is_some(),
                policies.progress.is_some(),
                policies.no_fit.is_some(),
            ];
            assert_eq!(kept, [0, 1, 2, 3, 4].map(|other| other != index), "{pointer}");
            let restarts = if index == 0 { 0 } else { 2 };
            assert_eq!(policies.max_restarts, Some(restarts), "{pointer}");
            let flaws = policies.flaws();
            assert_eq!(flaws.len(), 1, "{flaws:?}");
            assert!(flaws[0].starts_with(&format!("spec{}: ", pointer.replace('/', "."))));
            assert!(flaws[0].ends_with(holds), "{flaws:?}");
        }
    }

    #[test]
    fn steps_of_a_newer_version_keep_their_place() {
        let component = |name: &str| {
            json!({"template": {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
                "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}})
        };
        let step = |name: &str, wait: &str| {
            let named = [name];
            json!({"targetComponents": named, "waitForComponentsStatus": wait})
        };
        let mut after = step("b", "Ready");
        after["after"] = json!("1m");
        let (rule, policy) = ("spec.executionPolicy.rules[1]: ", "spec.executionPolicy: ");
        let kept = "; its components keep their place, and are waited for until Ready";
        let ignored = "; it is ignored";
        for (order, second, path, why, end, steps) in [
            ("InOrder", step("b", "Started"), rule, "unknown variant `Started`", kept, [0, 1, 2]),
            ("InOrder", after, rule, "unknown field `after`", kept, [0, 1, 2]),
            ("Graph", step("b", "Ready"), policy, "unknown variant `Graph`", ignored, [0; 3]),
        ] {
            let rules = json!([step("a", "Ready"), second, step("c", "Ready")]);
            let object = json!({
                "metadata": {"name": "x", "namespace": "n"},
                "spec": {
                    "components": [component("a"), component("b"), component("c")],
                    "executionPolicy": {"executionPolicyOrder": order, "rules": rules},
                },
                "status": {"phase": "Running"},
            });
            let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
            let policies = Wrapper::read(&seen).unwrap().policies;
            assert_eq!([0, 1, 2].map(|index| policies.steps.step(index)), steps, "{why}");
            let flaws = policies.flaws();
            assert_eq!(flaws.len(), 1, "{flaws:?}");
            assert!(flaws[0].starts_with(&format!("{path}{why}")), "{flaws:?}");
            assert!(flaws[0].ends_with(end), "{flaws:?}");
        }
    }

    #[test]
    fn a_spec_is_read_once_for_each_generation() {
        let template = |metadata: Value| {
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
                "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}})
        };
        let named = json!({"template": template(json!({"name": "named"}))});
        let generated = json!({"template": template(json!({"generateName": "made-"}))});
        let flawed = json!([named, generated, {"template": {"kind": "Job"}}]);
        let sound = json!([named, named]);
        let made = |components: &Value, uid: &str, generation: Option<i64>, status: &Value| {
            let metadata =
                json!({"name": "a", "namespace": "n", "uid": uid, "generation": generation});
            let object = json!({"metadata": metadata, "spec": {"components": components},
                "status": status});
            serde_json::from_str::<RawObject>(&object.to_string()).unwrap()
        };
        let entry = |name: &str| {
            json!({"name": name, "kind": "Job", "apiVersion": "batch/v1", "uid": name,
                "podOwners": ["o"], "podSets": [{"path": "template.spec.template", "replicas": 3}]})
        };
        let created = json!({"phase": "Running",
            "componentStatus": [entry("named"), entry("made-x"), entry("other")]});
        let begun = json!({"phase": "Resuming"});
        for (before, after, again) in [
            (("u", Some(1), &begun), ("u", Some(1), &created), true),
            (("u", Some(1), &created), ("u", Some(1), &begun), true),
            (("u", Some(1), &begun), ("u", Some(2), &created), false),
            (("u", Some(1), &begun), ("v", Some(1), &created), false),
            (("u", None, &begun), ("u", None, &created), false),
            (("u", Some(0), &begun), ("u", Some(0), &created), false),
        ] {
            for (components, is_flawed) in [(&sound, false), (&flawed, true)] {
                let first = made(components, before.0, before.1, before.2);
                let seen = made(components, after.0, after.1, after.2);
                let known = Wrapper::read(&first).unwrap();
                let newer = Wrapper::read_newer(&seen, &known).unwrap();
                assert_eq!(newer, Wrapper::read(&seen).unwrap(), "{before:?} {after:?}");
                assert_eq!(Arc::ptr_eq(&newer.spec, &known.spec), again, "{before:?} {after:?}");
                // one that is not kept parsed is summarised without its spec, unless a template is flawed
                let (stored, _) = CachedAppWrapper::read(first, &Before::default());
                let unparsed = Before { parsed: None, stored: Some(Arc::new(stored)) };
                let (fresh, whole) = CachedAppWrapper::read(seen.clone(), &Before::default());
                let (stored, parsed) = CachedAppWrapper::read(seen, &unparsed);
                assert_eq!(parsed.is_none(), again && !is_flawed, "{before:?} {after:?}");
                assert_eq!(stored.summary, fresh.summary, "{before:?} {after:?}");
                assert_eq!(stored.parsed(), whole.map(Arc::unwrap_or_clone));
            }
        }
    }
}
