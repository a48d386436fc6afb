//! Components: each on its own, and all together.

use std::collections::BTreeMap;

use serde_json::Value;

use super::finding::{Findings, text};
use super::template::PodTemplate;
use super::{Occasion, kubeflow, object as objects, ray, template, warnings};
use crate::api::{Component, PodSet, keys};
use crate::config::Config;
use crate::kinds::{self, Kind};
use crate::price::COMPONENTS_MAX;
use crate::tuning::{Limits, Period, names, shortened};

/// The most pod sets of one AppWrapper: Kueue's Workload has no room for more.
pub(in crate::webhook) const POD_SETS_MAX: usize = 10;

/// The most components without pods that a message names.
const WITHOUT_PODS_SHOWN_MAX: usize = 3;

/// What is known of a component after its own checks.
#[derive(Debug)]
pub(super) struct Judged {
    /// `metadata.name` of its template; empty where it has none.
    pub(super) name: String,
    /// Kind of its template; empty where it has none.
    pub(super) kind: String,
    /// API version of its template; empty where it has none.
    pub(super) api_version: String,
    /// Bytes of the memory that can be pending in it.
    pub(super) pending: usize,
    /// Which of the known kinds.
    pub(super) known: &'static Kind,
    /// Its pod sets; none where something is wrong with it.
    pub(super) pod_sets: Option<Vec<PodSet>>,
    /// Name of the part that each pod set is.
    pub(super) parts: Vec<Option<String>>,
    /// Its pod templates, by the path of their pod set.
    pub(super) pods: BTreeMap<String, PodTemplate>,
}

impl Judged {
    /// Kind and name, for messages.
    pub(super) fn title(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    /// The pod sets that are a part of this name.
    pub(super) fn sets_of(&self, part: &str) -> Vec<usize> {
        let parts = self.parts.iter().enumerate();
        parts.filter(|(_, each)| each.as_deref() == Some(part)).map(|(set, _)| set).collect()
    }
}

/// What a component is checked against.
pub(super) struct ValidationContext<'a> {
    /// Namespace of the AppWrapper, where it names one.
    pub(super) namespace: Option<&'a str>,
    /// Its queue, where it has one.
    pub(super) queue: Option<&'a str>,
    /// MultiKueue copies one that is stored in the manager cluster. Whoever forges that harms only this AppWrapper.
    pub(super) is_copy: bool,
    /// The configuration.
    pub(super) config: &'a Config,
    /// How long a failure may last before it counts.
    pub(super) failure_grace: Period,
    /// How long a failed AppWrapper keeps its resources.
    pub(super) deletion_on_failure_grace: Period,
}

impl<'a> ValidationContext<'a> {
    fn of(metadata: &'a Value, config: &'a Config, limits: &Limits) -> Self {
        let given = |value: &'a Value| value.as_str().filter(|text| !text.is_empty());
        Self {
            namespace: given(&metadata["namespace"]),
            queue: queue_of(metadata, config),
            is_copy: metadata["labels"].get(keys::MULTIKUEUE_ORIGIN).is_some(),
            config,
            failure_grace: limits.failure_grace,
            deletion_on_failure_grace: limits.deletion_on_failure_grace,
        }
    }
}

/// The queue that an AppWrapper names, or gets by default.
pub(super) fn queue_of<'a>(metadata: &'a Value, config: &'a Config) -> Option<&'a str> {
    let named = metadata["labels"][keys::QUEUE_NAME].as_str().filter(|name| !name.is_empty());
    named.or(config.admission.default_queue_name.as_deref())
}

/// Checks every component of a `spec`; none where there are more than can be asked.
pub(super) fn check_all(
    spec: &Value,
    metadata: &Value,
    config: &Config,
    limits: &Limits,
    occasion: Occasion,
    report: &mut Findings,
) -> Option<Vec<Judged>> {
    // there must be one, as the schema says
    let components = spec["components"].as_array().map(Vec::as_slice).unwrap_or_default();
    let around = ValidationContext::of(metadata, config, limits);
    if occasion != Occasion::Stored && components.len() > COMPONENTS_MAX {
        let message = format!("must have at most {COMPONENTS_MAX} components");
        report.invalid("spec.components", components.len().to_string(), message);
        return None;
    }
    let all: Vec<Judged> = components
        .iter()
        .enumerate()
        .map(|(i, raw)| check(raw, &format!("spec.components[{i}]"), &around, occasion, report))
        .collect();
    unique_names(components, report);
    if !all.is_empty() {
        totals(&all, report);
    }
    if occasion != Occasion::Stored {
        warnings::uncounted(&all, report);
    }
    Some(all)
}

fn check(
    raw: &Value,
    path: &str,
    around: &ValidationContext<'_>,
    occasion: Occasion,
    report: &mut Findings,
) -> Judged {
    let object = &raw["template"];
    let field = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
    let is_new = occasion != Occasion::Stored;
    template::check(object, &format!("{path}.template"), around, occasion, report);
    if is_new {
        ray::check(object, &format!("{path}.template"), report);
        kubeflow::check(object, &format!("{path}.template"), report);
        warnings::check(object, &format!("{path}.template"), around, report);
    }
    // where it does not decode, the schema has said why
    let component: Option<Component> = serde_json::from_value(raw.clone()).ok();
    let agrees = |component: &Component| {
        if is_new { kinds::check_other_version(object, &component.pod_sets) } else { Ok(()) }
    };
    let inspected = component
        .as_ref()
        .map(|component| agrees(component).and_then(|()| kinds::inspect(component)));
    let mut parts = vec![];
    let pod_sets = match inspected {
        Some(Ok(inspected)) => {
            if let Some(component) = component.as_ref().filter(|_| around.queue.is_none()) {
                infos(raw, component, &inspected.pod_sets, path, report);
            }
            parts = inspected.parts;
            Some(inspected.pod_sets)
        }
        Some(Err(error))
            if occasion == Occasion::Offline && is_described_elsewhere(&error, object) =>
        {
            let message = "the pods are described in another object, which is read at admission";
            report.doubtful(format!("{path}.podSets"), None::<&str>, message);
            None
        }
        Some(Err(error)) => {
            let place = format!("{path}.{}", error.field);
            if !report.has_error(&place) {
                report.invalid(place, error.value, format!("expected {}", error.expected));
            }
            None
        }
        None => None,
    };
    let declared = component.map(|component| component.pod_sets).unwrap_or_default();
    let pods = template::check_pods(object, path, &declared, around, occasion, report);
    Judged {
        name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        kind: field("kind"),
        api_version: field("apiVersion"),
        known: Kind::of_object(object),
        pod_sets,
        pending: pods.pending,
        parts,
        pods: pods.by_path,
    }
}

/// What `podSetInfos` adds to the pods of an AppWrapper without a queue. With one, Kueue replaces it.
fn infos(
    raw: &Value,
    component: &Component,
    pod_sets: &[PodSet],
    path: &str,
    report: &mut Findings,
) {
    for (i, info) in raw["podSetInfos"].as_array().into_iter().flatten().enumerate() {
        objects::keys_and_values(info, &format!("{path}.podSetInfos[{i}]"), report);
    }
    if let Err(error) = kinds::check_infos(component, pod_sets) {
        let field = format!("{path}.{}", error.field);
        report.invalid(field, error.value, format!("expected {}", error.expected));
    }
    let (given, used) = (component.pod_set_infos.len(), pod_sets.len());
    if given > used {
        let message =
            format!("entries beyond the number of pod sets, {used}, have no effect: each has one");
        report.doubtful(format!("{path}.podSetInfos"), Some(&given.to_string()), message);
    }
}

/// Whether only the pod sets are missing, which the webhook reads from another object.
fn is_described_elsewhere(error: &kinds::Error, template: &Value) -> bool {
    error.field == "podSets" && kinds::reference(template).is_some()
}

/// One AppWrapper cannot create the same object twice, whatever the version of its API.
fn unique_names(components: &[Value], report: &mut Findings) {
    let mut seen: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for (i, raw) in components.iter().enumerate() {
        let object = &raw["template"];
        let [api_version, kind, name] =
            [&object["apiVersion"], &object["kind"], &object["metadata"]["name"]]
                .map(|value| value.as_str().unwrap_or_default());
        if kind.is_empty() || name.is_empty() {
            continue;
        }
        match seen.get(&(template::group(api_version), kind, name)) {
            Some(first) => {
                let message =
                    format!("must be unique: spec.components[{first}] is also {kind}/{name}");
                let field = format!("spec.components[{i}].template.metadata.name");
                report.invalid(field, text(&object["metadata"]["name"]), message);
            }
            None => _ = seen.insert((template::group(api_version), kind, name), i),
        }
    }
}

/// Why a component has no pod set.
fn without_pods(i: usize, component: &Judged, report: &mut Findings) -> String {
    let Judged { kind, api_version, known, .. } = component;
    let title = format!("components[{i}] {}", shortened(&component.title()));
    if let Some(why) = warnings::unsteady(api_version, kind) {
        return format!("{title} {why}");
    }
    // of another version of a known kind, its pod sets were asked for already
    let rows = Kind::all().filter(|row| row.kind == kind);
    let same: Vec<String> = rows.map(|row| format!("{} {kind}", row.api_version)).collect();
    let hint = if same.is_empty() {
        names::did_you_mean(meant(kind, report))
    } else {
        format!(" (known: {})", same.join(", "))
    };
    if known.is_known() || (hint.is_empty() && !Kind::may_own_pods(api_version, kind)) {
        return format!("{title} has no pods");
    }
    let unknown = shortened(&format!("{api_version} {kind}"));
    let or = if hint.ends_with('?') { " Otherwise" } else { ";" };
    format!("{title} has the unknown kind {unknown}{hint}{or} declare its podSets")
}

/// The known kind that a text probably means.
fn meant(kind: &str, report: &mut Findings) -> Option<&'static str> {
    let known: Vec<&'static str> = Kind::all().map(|row| row.kind).collect();
    report.meant(kind, &known)
}

/// The numbers of pod sets and of pods; unknown while something is wrong with a component.
fn totals(all: &[Judged], report: &mut Findings) {
    let known: Option<Vec<_>> = all.iter().map(|each| each.pod_sets.as_deref()).collect();
    let Some(known) = known else { return };
    let count = known.iter().map(|pod_sets| pod_sets.len()).sum::<usize>();
    if count == 0 {
        let (shown, more) = all.split_at(all.len().min(WITHOUT_PODS_SHOWN_MAX));
        let mut reasons: Vec<String> =
            shown.iter().enumerate().map(|(i, each)| without_pods(i, each, report)).collect();
        if !more.is_empty() {
            let noun = if more.len() == 1 { "component" } else { "components" };
            reasons.push(format!("and {} more {noun}", more.len()));
        }
        let message =
            format!("must have at least one pod set, but has none: {}", reasons.join("; "));
        report.wrong("spec.components", message);
        return;
    }
    if count > POD_SETS_MAX {
        let message = format!("must have at most {POD_SETS_MAX} pod sets in total");
        report.invalid("spec.components", count.to_string(), message);
        return;
    }
    if let Err(error) = kinds::expected_total(known.into_iter().flatten()) {
        report.invalid("spec.components", error.value, format!("expected {}", error.expected));
    }
}
