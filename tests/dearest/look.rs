//! One full look of the controller at an object whose components have all failed.

use appwrapper::api::{Attempt, Phase, Since, condition};
use appwrapper::config::Config;
use appwrapper::decide::{Decision, Facts, decide};
use appwrapper::kinds::{self, NodeAntiAffinity, OwnershipLabels};
use appwrapper::observe::assemble::Wrapper;
use appwrapper::observe::raw_object::RawObject;
use appwrapper::plan::FreshRead;
use appwrapper::snapshot::{Object, Outcome, Presence, Report, Snapshot};
use appwrapper::tuning::Limits;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;

/// The object as a watch shows it.
pub struct Watched {
    text: String,
    config: Config,
    aversions: Vec<NodeAntiAffinity>,
}

impl Watched {
    pub fn of(object: &Value) -> Self {
        let mark = |required: bool| NodeAntiAffinity {
            resource: "nvidia.com/gpu".to_owned(),
            key: format!("autopilot.ibm.com/gpuhealth-{required}"),
            value: "ERR".to_owned(),
            required,
        };
        let config = Config::default();
        Self { text: object.to_string(), config, aversions: vec![mark(true), mark(false)] }
    }

    /// What is kept of it.
    pub fn parsed(&self) -> Arc<Wrapper> {
        let seen: RawObject = serde_json::from_str(&self.text).expect("an object");
        Arc::new(Wrapper::read(&seen).expect("an AppWrapper"))
    }

    /// What is decided when all that has pods has failed with these messages.
    pub fn decided(&self, wrapper: &Wrapper, message: &str) -> Decision {
        let (limits, _) = Limits::of(&wrapper.annotations, &self.config.fault_tolerance);
        let snapshot = failed(wrapper, message);
        let now = at(1_000);
        decide(Facts {
            snapshot: &snapshot,
            limits: &limits,
            config: &self.config,
            now,
            anchor: now,
        })
    }

    /// Bytes of all that is created.
    pub fn created(&self, wrapper: &Wrapper) -> usize {
        let avoid = ["node-1".to_owned()];
        let one = |(index, component): (usize, &appwrapper::api::Component)| {
            let stamp = OwnershipLabels {
                appwrapper: &wrapper.name,
                uid: &wrapper.uid,
                attempt: 1,
                namespace: &wrapper.namespace,
                component: index,
                queue: wrapper.queue.as_deref(),
                scheduler_name: Some("scheduler"),
                avoid_nodes: &avoid,
                suspect_nodes: None,
                aversions: &self.aversions,
                progress: None,
            };
            let pod_sets = &wrapper.components[index].pod_sets;
            let object = kinds::render(component, pod_sets, &stamp).expect("it can be created");
            object.to_string().len()
        };
        wrapper.spec.components.iter().enumerate().map(one).sum()
    }

    /// Everything once.
    #[allow(dead_code, reason = "not every program that measures uses it")]
    pub fn look(&self, message: &str) -> (Decision, usize) {
        let wrapper = self.parsed();
        (self.decided(&wrapper, message), self.created(&wrapper))
    }
}

/// A message that keeps every place of a pattern open, and no two places of it alike.
pub fn message() -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..4096).map(|_| if next() & 1 == 0 { 'a' } else { 'b' }).collect()
}

fn failed(wrapper: &Wrapper, message: &str) -> Snapshot {
    let mut snapshot = wrapper.snapshot();
    snapshot.finalizer = true;
    snapshot.suspend = false;
    snapshot.answered = FreshRead::Gone;
    snapshot.components.clone_from(&wrapper.components);
    for (index, component) in snapshot.components.iter_mut().enumerate() {
        let outcome = if component.pod_sets.is_empty() {
            Outcome::Active
        } else {
            let (reason, message) = ("BackoffLimitExceeded".to_owned(), message.to_owned());
            Outcome::Failed { reason, message, at: Some(at(20)) }
        };
        component.presence = Presence::Present(Object {
            uid: format!("uid-{index}"),
            attempt: Some(0),
            report: Report { outcome, ..Report::default() },
            ..Object::default()
        });
    }
    let status = &mut snapshot.status;
    status.phase = Phase::Running;
    status.attempts = vec![Attempt::default()];
    status.since = Some(Since { deployed: Some(Time(at(0))), ..Since::default() });
    let components = snapshot.components.iter().enumerate();
    status.component_status = components
        .map(|(index, component)| appwrapper::api::ComponentStatus {
            name: component.name.clone(),
            kind: component.kind.clone(),
            api_version: component.api_version.clone(),
            pod_sets: component.pod_sets.clone(),
            uid: Some(format!("uid-{index}")),
            ..Default::default()
        })
        .collect();
    for kind in [condition::QUOTA_RESERVED, condition::RESOURCES_DEPLOYED] {
        condition::set(&mut status.conditions, kind, true, "Test", "", at(0));
    }
    snapshot
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a moment")
}
