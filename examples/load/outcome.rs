//! What one run has measured.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use crate::options::{Implementation, Scenario};
use crate::stats::{Latencies, QUANTILES, rounded};

/// One run's measures, by name and in order: the line of JSON and the rows of the table.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was run.
    pub scenario: Scenario,
    /// With what.
    pub implementation: Implementation,
    /// The size.
    pub size: usize,
    /// Each measure with its name, which says its unit: `_s`, `_ms`, `_mb` (MiB).
    pub measures: Vec<(String, Value)>,
    /// The latencies of the scenario's transition, one each.
    pub points: Vec<Point>,
    /// What it cost.
    pub cost: Cost,
}

/// One transition of one object.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// When it ended, in seconds since the run began.
    pub at: f64,
    /// How long it took, in seconds.
    pub latency: f64,
}

/// What a run cost, for the plots. None where there is nothing to measure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// CPU time of the controller for each AppWrapper or pod, in milliseconds.
    pub cpu_ms: Option<f64>,
    /// CPU time of the API server, the same.
    pub server_ms: Option<f64>,
    /// Requests of the controller, the same.
    pub calls: Option<f64>,
    /// Requests of everybody, the same.
    pub all_calls: Option<f64>,
    /// The most resident memory of the controller, in MiB.
    pub peak_mb: Option<f64>,
}

impl Outcome {
    /// Of a run that begins.
    pub const fn new(scenario: Scenario, implementation: Implementation, size: usize) -> Self {
        let cost =
            Cost { cpu_ms: None, server_ms: None, calls: None, all_calls: None, peak_mb: None };
        Self { scenario, implementation, size, measures: vec![], points: vec![], cost }
    }

    /// Adds a measure.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.measures.push((name.into(), value.into()));
    }

    /// Adds a number with so many decimal places, or null.
    pub fn set_real(
        &mut self,
        name: impl Into<String>,
        value: impl Into<Option<f64>>,
        places: i32,
    ) {
        self.set(name, value.into().map(|value| rounded(value, places)));
    }

    /// Adds p50, p99 and the maximum of latencies.
    pub fn set_latencies(&mut self, name: &str, latencies: &Latencies) {
        for (suffix, per_mille) in QUANTILES {
            self.set_real(format!("{name}_{suffix}"), latencies.quantile(per_mille), 3);
        }
    }

    /// Keeps the latencies of the scenario's transition.
    pub fn draw(&mut self, points: impl IntoIterator<Item = Point>) {
        self.points.extend(points);
    }

    /// p50 of the transition that is drawn, in seconds.
    pub fn median(&self) -> Option<f64> {
        self.points.iter().map(|point| point.latency).collect::<Latencies>().quantile(500)
    }

    /// The rows of a table; a measure that has parts is one row for each.
    pub fn rows(&self) -> Vec<(String, String)> {
        let mut rows = vec![];
        for (name, value) in &self.measures {
            match value {
                Value::Object(parts) => {
                    let parts =
                        parts.iter().map(|(part, value)| (format!("{name}: {part}"), value));
                    rows.extend(parts.map(|(name, value)| (name, cell(value))));
                }
                value => rows.push((name.clone(), cell(value))),
            }
        }
        rows
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("impl", &self.implementation.to_string())?;
        map.serialize_entry("scenario", &self.scenario.to_string())?;
        map.serialize_entry("n", &self.size)?;
        for (name, value) in &self.measures {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Parts of a measure, by name.
pub fn parts<T: Into<Value>>(parts: impl IntoIterator<Item = (String, T)>) -> Value {
    let parts: Map<String, Value> =
        parts.into_iter().map(|(name, value)| (name, value.into())).collect();
    json!(parts)
}
