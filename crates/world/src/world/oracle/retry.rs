//! Every version of every retry policy that there ever was: a cache may show any of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use crate::sim::Object;
use crate::world::actors::kubelet::duration;

/// Annotation of a queue.
const ATTACHED: &str = "workload.codeflare.dev/retry-policies";

/// What the retry policies and the configuration have ever said.
#[derive(Clone, Debug)]
pub struct RetryPolicies {
    /// The lowest and the highest `globalMaxRetries`.
    pub global: (i64, i64),
    /// `maxUncountedRestarts`; 0 is no limit.
    pub uncounted: i64,
    /// Policies that a version said override what users wrote.
    pub overriding: BTreeSet<String>,
    /// Names that queues attach.
    attached: BTreeSet<String>,
    /// By policy and rule; "" is the default action.
    rules: BTreeMap<String, BTreeMap<String, Vec<Said>>>,
}

impl Default for RetryPolicies {
    fn default() -> Self {
        Self {
            global: (20, 20),
            uncounted: 0,
            overriding: BTreeSet::new(),
            attached: BTreeSet::new(),
            rules: BTreeMap::new(),
        }
    }
}

/// What a version says about a rule.
#[derive(Clone, Copy, Debug)]
struct Said {
    limit: Option<i64>,
    backoff: Option<Backoff>,
}

#[derive(Clone, Copy, Debug)]
struct Backoff {
    initial: Duration,
    multiplier: f64,
    most: Duration,
}

impl Backoff {
    fn read(value: &Value) -> Option<Self> {
        let period = |key: &str| value[key].as_str().and_then(duration);
        Some(Self {
            initial: period("initialDelay")?,
            multiplier: value["multiplier"].as_f64().unwrap_or(2.0),
            most: period("maxDelay").unwrap_or(Duration::from_mins(10)),
        })
    }

    fn delay(&self, n: i64) -> Duration {
        let power = i32::try_from(n - 1).unwrap_or(i32::MAX);
        let seconds = self.initial.as_secs_f64() * self.multiplier.powi(power);
        Duration::from_secs_f64(seconds.min(self.most.as_secs_f64()))
    }
}

/// What all versions of a rule say of the delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// At least this.
    AtLeast(Duration),
    /// None of them has a backoff.
    None,
    /// Some have one and some have not.
    Unknown,
}

impl RetryPolicies {
    /// The configuration says so from now on.
    pub fn note_global(&mut self, most: i64) {
        self.global = (self.global.0.min(most), self.global.1.max(most));
    }

    /// The configuration that the world begins with.
    pub const fn begin_global(&mut self, most: i64) {
        self.global = (most, most);
    }

    /// Takes in a version of a policy.
    pub fn note_policy(&mut self, object: &Object) {
        let spec = &object.value["spec"];
        let policy = self.rules.entry(object.address.name.to_string()).or_default();
        let backoff = Backoff::read(&spec["backoff"]);
        let limit = spec["retryLimit"].as_i64();
        if spec["override"] == true {
            self.overriding.insert(object.address.name.to_string());
        }
        policy.entry(String::new()).or_default().push(Said { limit, backoff });
        for (index, rule) in spec["rules"].as_array().into_iter().flatten().enumerate() {
            let name = rule["name"].as_str().map_or_else(|| format!("rule{index}"), str::to_owned);
            policy.entry(name).or_default().push(Said {
                limit: rule["retryLimit"].as_i64().or(limit),
                backoff: Backoff::read(&rule["backoff"]).or(backoff),
            });
        }
    }

    /// Takes in what a queue attaches.
    pub fn note_queue(&mut self, object: &Object) {
        self.attached.extend(listed(object.annotation(ATTACHED)));
    }

    /// Whether a retry policy was ever there that holds for an AppWrapper.
    #[must_use]
    pub fn may_hold(&self, own: &BTreeSet<String>, queued: bool) -> bool {
        let by_queue = self.attached.iter().filter(|_| queued);
        own.iter().chain(by_queue).any(|name| self.rules.contains_key(name))
    }

    /// The highest limit of a rule; none where no version has such a rule.
    #[must_use]
    pub fn limit(&self, policy: &str, rule: &str) -> Option<i64> {
        let versions = self.rules.get(policy)?.get(rule)?;
        versions.iter().map(|said| said.limit.unwrap_or(self.global.1)).max()
    }

    /// The delay before the n-th retry by a rule.
    #[must_use]
    pub fn delay(&self, policy: &str, rule: &str, n: i64) -> Delay {
        let versions = self.rules.get(policy).and_then(|rules| rules.get(rule));
        let versions = versions.map_or(&[][..], |versions| versions);
        let delays: Vec<Duration> =
            versions.iter().filter_map(|said| Some(said.backoff?.delay(n))).collect();
        match delays.iter().min() {
            None => Delay::None,
            Some(least) if delays.len() == versions.len() => Delay::AtLeast(*least),
            Some(_) => Delay::Unknown,
        }
    }
}

/// Names in a list.
pub fn listed(text: Option<&str>) -> impl Iterator<Item = String> {
    let names = text.unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned)
}
