//! Annotations of a pod template that ask Kueue for places in a topology. Kueue has no webhook for those of an AppWrapper:
//! it creates no Workload where it cannot read one that it uses, and says so in its log alone; a Workload with a level
//! that no Topology can have is never admitted. Only this is an error. Of annotations that are not used together, Kueue
//! takes one and ignores the others, which is doubtful: for other kinds, its webhooks deny that.
//! Source: Kueue 0.19, `jobframework/tas.go`, the definition of Workloads, and `jobframework/tas_validation.go`.

use serde_json::{Map, Value};

use super::Occasion;
use super::component::Around;
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
                         level, and a size of at least 1";

/// The annotations of a pod template, and their path.
struct Annotations<'a> {
    all: &'a Value,
    path: String,
}

impl<'a> Annotations<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.all.get(key).and_then(Value::as_str)
    }

    fn field(&self, key: &str) -> String {
        format!("{}[{key}]", self.path)
    }
}

/// Checks the annotations of a pod template where the AppWrapper is new and has a queue.
pub(super) fn check(
    metadata: &Value,
    path: &str,
    around: &Around<'_>,
    occasion: Occasion,
    report: &mut Findings,
) {
    if around.queue.is_none() || occasion == Occasion::Stored {
        return;
    }
    let path = format!("{path}.annotations");
    let given = Annotations { all: &metadata["annotations"], path };
    placement(&given, report);
    slices(&given, report);
    layers(&given, report);
    group(&given, report);
}

/// Kueue uses the first of three.
fn placement(given: &Annotations<'_>, report: &mut Findings) {
    let mut keys = [REQUIRED, PREFERRED, UNCONSTRAINED].to_vec();
    keys.retain(|key| given.get(key).is_some());
    let Some(used) = keys.first() else { return };
    if keys.len() > 1 {
        first_only(given, &keys, report);
    }
    if *used != UNCONSTRAINED {
        level(given, used, report);
    } else if let Some(text) = given.get(used)
        && !BOOLEANS.contains(&text)
    {
        report.invalid(given.field(used), text, "must be true or false");
    }
}

fn slices(given: &Annotations<'_>, report: &mut Findings) {
    match (given.get(SLICE), given.get(SLICE_SIZE)) {
        (Some(_), None) => ignored(given, SLICE, SLICE_SIZE, report),
        (None, Some(_)) => ignored(given, SLICE_SIZE, SLICE, report),
        (Some(_), Some(_)) if given.get(LAYERS).is_some() => {
            first_only(given, &[LAYERS, SLICE], report);
        }
        (Some(_), Some(text)) => {
            level(given, SLICE, report);
            if !text.parse().is_ok_and(|size: i32| size >= 1) {
                let message = "must be a whole number from 1 to 2147483647";
                report.invalid(given.field(SLICE_SIZE), text, message);
            }
        }
        (None, None) => {}
    }
}

/// Slices of slices, which stand for the two annotations of [`slices`]. Kueue 0.18 ignores them unless the feature gate
/// `TASMultiLayerTopology` is on, as it is by default in 0.19.
fn layers(given: &Annotations<'_>, report: &mut Findings) {
    let Some(text) = given.get(LAYERS) else { return };
    if text.len() > LAYERS_BYTES_MAX {
        let message = format!("is not checked, since it has more than {LAYERS_BYTES_MAX} bytes");
        report.doubtful(given.field(LAYERS), None, message);
    } else if !are_layers(text) {
        report.invalid(given.field(LAYERS), text, NO_LAYERS);
    }
}

fn group(given: &Annotations<'_>, report: &mut Findings) {
    let Some(name) = given.get(GROUP) else { return };
    if [REQUIRED, PREFERRED].into_iter().all(|key| given.get(key).is_none()) {
        ignored(given, GROUP, &format!("{REQUIRED} or {PREFERRED}"), report);
        return;
    }
    let field = given.field(GROUP);
    if name.chars().count() > GROUP_MAX {
        report.invalid(field.as_str(), name, format!("must be at most {GROUP_MAX} characters"));
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) && name.parse::<u64>().is_ok() {
        let message = "Kueue may add another pod set to this group: give a name that is no number";
        report.doubtful(field.as_str(), Some(name), message);
    }
    for key in [SLICE, SLICE_SIZE, LAYERS] {
        if given.get(key).is_some() {
            let message = format!("Kueue does not support a group with {key}");
            report.doubtful(field.as_str(), Some(name), message);
        }
    }
}

/// Several annotations of which Kueue uses one.
fn first_only(given: &Annotations<'_>, keys: &[&str], report: &mut Findings) {
    let message = format!("Kueue uses only the first of {}", keys.join(", "));
    report.doubtful(given.path.as_str(), None, message);
}

/// An annotation that has no effect without another one.
fn ignored(given: &Annotations<'_>, key: &str, without: &str, report: &mut Findings) {
    let message = format!("Kueue ignores it without {without}");
    report.doubtful(given.field(key), given.get(key), message);
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

fn are_layers(text: &str) -> bool {
    let layers: Vec<Map<String, Value>> = serde_json::from_str(text).unwrap_or_default();
    let is_layer = |layer: &Map<String, Value>| {
        // Go reads keys in capitals as well
        let field = |name: &str| {
            layer.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        let size = field("size").and_then(Value::as_i64);
        field("topology").and_then(Value::as_str).is_some_and(is_level)
            && size.is_some_and(|size| (1..=i64::from(i32::MAX)).contains(&size))
    };
    (1..=LAYERS_MAX).contains(&layers.len()) && layers.iter().all(is_layer)
}
