//! Annotations of a pod template that ask Kueue for places in a topology. Kueue has no webhook for those of an AppWrapper:
//! it creates no Workload where it cannot read one that it uses, and says so in its log alone; a Workload with a level
//! that no Topology can have is never admitted. Its webhooks for other kinds and for pods deny more, such as annotations
//! that are not used together, whoever owns the object: an admitted AppWrapper would fail when its component is created.
//! Source: Kueue 0.19, `jobframework/tas.go`, the definition of Workloads, and `jobframework/tas_validation.go`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::finding::Findings;
use crate::tuning::names;

const REQUIRED: &str = "kueue.x-k8s.io/podset-required-topology";
const PREFERRED: &str = "kueue.x-k8s.io/podset-preferred-topology";
const UNCONSTRAINED: &str = "kueue.x-k8s.io/podset-unconstrained-topology";
const SLICE: &str = "kueue.x-k8s.io/podset-slice-required-topology";
const SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";
const LAYERS: &str = "kueue.x-k8s.io/podset-slice-required-topology-constraints";
const GROUP: &str = "kueue.x-k8s.io/podset-group-name";

/// The longest label of a level, and the longest name of a group, that a Workload takes.
const LEVEL_MAX: usize = 63;
const GROUP_MAX: usize = 256;

/// The most layers of slices, and the longest text in which they are looked for: what is read takes memory.
const LAYERS_MAX: usize = 3;
const LAYERS_BYTES_MAX: usize = 1024;

/// What `strconv.ParseBool` of Go reads.
const BOOLEANS: [&str; 12] =
    ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"];

const NO_LEVEL: &str = "must be the node label of a level of the Topology, of at most 63 characters, such as \
                        cloud.provider.com/topology-rack";
const NO_LAYERS: &str = "must be a JSON list of 1 to 3 objects, each with a topology, which is the node label of a \
                         level of its own, and a size of at least 1, which the next size divides";

/// What happens to a component of a kind that Kueue's webhooks check.
const DENIES: &str = "Kueue's webhook denies the component or its pods";
/// What happens to the pods of other kinds.
const MAY_DENY: &str = "Kueue's webhook denies the pods if Kueue manages pods";

/// The annotations of a pod template, and their path.
struct Annotations<'a> {
    all: &'a Value,
    path: String,
    /// Kueue has a webhook for the kind of the component.
    is_checked: bool,
}

impl<'a> Annotations<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.all.get(key).and_then(Value::as_str)
    }

    fn field(&self, key: &str) -> String {
        format!("{}[{key}]", self.path)
    }

    /// Annotations that Kueue itself reads without an error, and that its webhooks deny.
    fn denied(&self, key: &str, message: &str, report: &mut Findings) {
        let value = self.get(key).unwrap_or_default();
        if self.is_checked {
            report.invalid(self.field(key), value, format!("{message}: {DENIES}"));
        } else {
            report.doubtful(self.field(key), Some(value), format!("{message}: {MAY_DENY}"));
        }
    }
}

/// Checks the annotations of a pod template where the AppWrapper is new and has a queue. `most` is the largest slice;
/// `is_checked`: Kueue has a webhook for the kind of the component.
pub(super) fn check(
    metadata: &Value,
    path: &str,
    most: Option<i32>,
    is_checked: bool,
    report: &mut Findings,
) {
    let path = format!("{path}.annotations");
    let given = Annotations { all: &metadata["annotations"], path, is_checked };
    placement(&given, report);
    slices(&given, most, report);
    layers(&given, most, report);
    group(&given, report);
}

/// Of several, only the first is looked at.
fn placement(given: &Annotations<'_>, report: &mut Findings) {
    let mut keys = [REQUIRED, PREFERRED, UNCONSTRAINED].to_vec();
    keys.retain(|key| given.get(key).is_some());
    let Some(used) = keys.first() else { return };
    if keys.len() > 1 {
        let message = format!("must be the only one of {}", keys.join(", "));
        given.denied(used, &message, report);
    }
    if *used != UNCONSTRAINED {
        level(given, used, report);
    } else if let Some(text) = given.get(used)
        && !BOOLEANS.contains(&text)
    {
        report.invalid(given.field(used), text, "must be true or false");
    }
}

fn slices(given: &Annotations<'_>, most: Option<i32>, report: &mut Findings) {
    if given.get(LAYERS).is_some() {
        return; // whatever these say, that they are here is an error of the layers
    }
    match (given.get(SLICE), given.get(SLICE_SIZE)) {
        (None, None) => {}
        (Some(_), None) => needs(given, SLICE, SLICE_SIZE, report),
        (None, Some(_)) => needs(given, SLICE_SIZE, SLICE, report),
        (Some(_), Some(text)) => {
            level(given, SLICE, report);
            match text.parse::<i32>() {
                Ok(size) if size >= 1 => fits(given, SLICE_SIZE, size, most, report),
                Ok(_) | Err(_) => {
                    let message = "must be a whole number from 1 to 2147483647";
                    report.invalid(given.field(SLICE_SIZE), text, message);
                }
            }
        }
    }
}

/// Slices of slices, which stand for the two annotations of [`slices`]. Kueue 0.18 denies them unless the feature gate
/// `TASMultiLayerTopology` is on, as it is by default in 0.19.
fn layers(given: &Annotations<'_>, most: Option<i32>, report: &mut Findings) {
    let Some(text) = given.get(LAYERS) else { return };
    let mut others = [SLICE, SLICE_SIZE].to_vec();
    others.retain(|key| given.get(key).is_some());
    if !others.is_empty() {
        let message = format!("must be left out with {}", others.join(" and "));
        given.denied(LAYERS, &message, report);
        return;
    }
    if text.len() > LAYERS_BYTES_MAX {
        let message = format!("is not checked, since it has more than {LAYERS_BYTES_MAX} bytes");
        report.doubtful(given.field(LAYERS), None, message);
    } else if let Some(largest) = largest_layer(text) {
        fits(given, LAYERS, largest, most, report);
    } else {
        report.invalid(given.field(LAYERS), text, NO_LAYERS);
    }
}

fn group(given: &Annotations<'_>, report: &mut Findings) {
    let Some(name) = given.get(GROUP) else { return };
    if [REQUIRED, PREFERRED].into_iter().all(|key| given.get(key).is_none()) {
        needs(given, GROUP, &format!("{REQUIRED} or {PREFERRED}"), report);
        return;
    }
    if name.chars().count() > GROUP_MAX {
        report.invalid(given.field(GROUP), name, format!("must be at most {GROUP_MAX} characters"));
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) && name.parse::<u64>().is_ok() {
        given.denied(GROUP, "must not be a number", report);
    }
    for key in [SLICE, SLICE_SIZE, LAYERS] {
        if given.get(key).is_some() {
            given.denied(GROUP, &format!("must be left out with {key}"), report);
        }
    }
}

/// An annotation that is allowed only beside another one.
fn needs(given: &Annotations<'_>, key: &str, other: &str, report: &mut Findings) {
    given.denied(key, &format!("must be left out without {other}"), report);
}

/// A slice that has more pods than there are.
fn fits(given: &Annotations<'_>, key: &str, size: i32, most: Option<i32>, report: &mut Findings) {
    if let Some(most) = most
        && size > most
    {
        let message = format!("must not have slices of more than the {most} pods");
        given.denied(key, &message, report);
    }
}

/// An annotation that names a level of a topology.
fn level(given: &Annotations<'_>, key: &str, report: &mut Findings) {
    if let Some(text) = given.get(key)
        && !is_level(text)
    {
        report.invalid(given.field(key), text, NO_LEVEL);
    }
}

fn is_level(text: &str) -> bool {
    text.len() <= LEVEL_MAX && names::is_qualified(text)
}

/// The size of the first layer, which is the largest; none where these are no layers.
fn largest_layer(text: &str) -> Option<i32> {
    let objects: Vec<Map<String, Value>> = serde_json::from_str(text).ok()?;
    if objects.len() > LAYERS_MAX {
        return None;
    }
    let layers: Vec<(&str, i32)> = objects.iter().map(layer).collect::<Option<_>>()?;
    let levels: BTreeSet<&str> = layers.iter().map(|(level, _)| *level).collect();
    let divide = layers.is_sorted_by(|(_, above), (_, below)| above % below == 0);
    let (_, largest) = layers.first()?;
    (levels.len() == layers.len() && divide).then_some(*largest)
}

/// The level and the size of a layer.
fn layer(object: &Map<String, Value>) -> Option<(&str, i32)> {
    // Go reads keys in capitals as well
    let field = |name: &str| {
        object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let level = field("topology")?.as_str().filter(|level| is_level(level))?;
    let size = i32::try_from(field("size")?.as_i64()?).ok()?;
    (size >= 1).then_some((level, size))
}
