//! Snapshots for tests, built by intent.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use crate::api::{Attempt, ComponentStatus, Phase, PodSet, Since, condition};
use crate::config::Config;
use crate::decide::{Decision, Facts, decide};
use crate::plan::FreshRead;
use crate::snapshot::{
    Component, Container, ContainerState, End, Object, Outcome, Owner, Pod, PodPhase, Presence,
    Report, Snapshot, Termination,
};
use crate::tuning::Limits;

/// A moment, in seconds after an arbitrary beginning.
pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// A world: a snapshot and the limits that hold in it.
#[derive(Clone, Debug)]
pub struct World {
    pub snapshot: Snapshot,
    pub limits: Limits,
    pub config: Config,
}

/// A Job of two pods, in a phase, with the conditions and anchors that it would have there since
/// second 0; everything that was created is there.
pub fn given(phase: Phase) -> World {
    let config = Config::default();
    let (limits, _) = Limits::of(&std::collections::BTreeMap::new(), &config.fault_tolerance);
    let pod_set =
        PodSet { replicas: Some(2), path: "template.spec.template".into(), ..PodSet::default() };
    let mut component = Component {
        name: "work".into(),
        kind: "Job".into(),
        api_version: "batch/v1".into(),
        pod_sets: vec![pod_set.clone()],
        end: End::Reported,
        presence: Presence::Absent,
        ..Component::default()
    };
    let mut snapshot = Snapshot {
        namespace: "ns".into(),
        name: "aw".into(),
        uid: "uid".into(),
        ..Snapshot::default()
    };
    let status = &mut snapshot.status;
    status.phase = phase;
    if phase != Phase::Empty {
        status.component_status = vec![ComponentStatus {
            name: "work".into(),
            kind: "Job".into(),
            api_version: "batch/v1".into(),
            pod_sets: vec![pod_set],
            ..ComponentStatus::default()
        }];
    }
    let up = matches!(phase, Phase::Resuming | Phase::Running);
    let down = matches!(phase, Phase::Resetting | Phase::Suspending | Phase::Terminating);
    let quota = up || phase == Phase::Resetting || phase == Phase::Suspending;
    if up || down || matches!(phase, Phase::Succeeded | Phase::Failed) {
        snapshot.finalizer = true;
        status.attempts = vec![Attempt { started_at: Some(Time(at(0))), ..Attempt::default() }];
        component.presence = Presence::Present(ours());
        // it is written down once every component of the first step exists
        status.component_status[0].uid = (phase != Phase::Resuming).then(|| "job".into());
        set(&mut status.conditions, condition::RESOURCES_DEPLOYED, true);
        set(&mut status.conditions, condition::QUOTA_RESERVED, quota || phase == Phase::Failed);
        set(&mut status.conditions, condition::PODS_READY, false);
    }
    let now = Some(Time(at(0)));
    status.since = match phase {
        Phase::Resuming | Phase::Running => Some(Since { deployed: now, ..Since::default() }),
        Phase::Resetting | Phase::Suspending | Phase::Terminating => {
            set(&mut status.conditions, condition::DELETING_RESOURCES, true);
            Some(Since { deleting: now, ..Since::default() })
        }
        Phase::Succeeded => Some(Since { succeeded: now, ..Since::default() }),
        Phase::Failed => {
            Some(Since { failed: now, deleting: Some(Time(at(0))), ..Since::default() })
        }
        Phase::Empty | Phase::Suspended => None,
    };
    snapshot.deleting = phase == Phase::Terminating;
    snapshot.suspend = matches!(phase, Phase::Suspended | Phase::Suspending);
    snapshot.components = vec![component];
    World { snapshot, limits, config }
}

fn set(conditions: &mut Vec<Condition>, kind: &str, status: bool) {
    condition::set(conditions, kind, status, "Test", "", at(0));
}

fn ours() -> Object {
    Object { uid: "job".into(), attempt: Some(0), ..Object::default() }
}

impl World {
    pub fn suspended(mut self, suspend: bool) -> Self {
        self.snapshot.suspend = suspend;
        self
    }

    pub fn deleted(mut self) -> Self {
        self.snapshot.deleting = true;
        self
    }

    pub fn with_finalizer(mut self) -> Self {
        self.snapshot.finalizer = true;
        self
    }

    pub fn presence(mut self, presence: Presence) -> Self {
        self.snapshot.components[0].presence = presence;
        self
    }

    pub fn owner(self, owner: Owner) -> Self {
        self.object(|object| object.owner = owner)
    }

    pub fn object(mut self, change: impl FnOnce(&mut Object)) -> Self {
        if let Presence::Present(object) = &mut self.snapshot.components[0].presence {
            change(object);
        }
        self
    }

    pub fn says(self, outcome: Outcome) -> Self {
        self.object(|object| {
            let deletes_pods = object.report.deletes_pods;
            object.report = Report { outcome, deletes_pods, ..Report::default() };
        })
    }

    pub fn failed_job(self) -> Self {
        self.says(Outcome::Failed {
            reason: "BackoffLimitExceeded".into(),
            message: "too often".into(),
            at: Some(at(20)),
        })
    }

    pub fn pods(mut self, phases: &[PodPhase]) -> Self {
        self.snapshot.pods = phases.iter().enumerate().map(|(i, phase)| pod(i, *phase)).collect();
        self
    }

    pub fn pod(mut self, index: usize, change: impl FnOnce(&mut Pod)) -> Self {
        change(&mut self.snapshot.pods[index]);
        self
    }

    /// What a pod has become; it keeps its name and UID.
    pub fn pod_is(self, index: usize, now: Pod) -> Self {
        self.pod(index, |pod| {
            let (name, uid) = (pod.name.clone(), pod.uid.clone());
            *pod = Pod { name, uid, ..now };
        })
    }

    pub fn gone(mut self) -> Self {
        self.snapshot.components[0].presence = Presence::Absent;
        self.snapshot.pods.clear();
        self.snapshot.answered = FreshRead::Gone;
        self
    }

    pub fn answered(mut self, ask: FreshRead) -> Self {
        self.snapshot.answered = ask;
        self
    }

    pub fn since(mut self, change: impl FnOnce(&mut Since)) -> Self {
        let since = self.snapshot.status.since.get_or_insert_default();
        change(since);
        // both are written together
        if since.gone.is_some() {
            set(&mut self.snapshot.status.conditions, condition::RESOURCES_DEPLOYED, false);
        }
        self
    }

    pub fn retries(mut self, used: i32) -> Self {
        self.snapshot.status.resetting_count = used;
        self
    }

    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// The decision; where only the pods must be listed first, they are as they were seen.
    pub fn decide(&self, second: i64) -> Decision {
        let first = self.ask(second);
        if first.ask == FreshRead::Pods {
            self.clone().answered(FreshRead::Pods).ask(second)
        } else {
            first
        }
    }

    /// The decision, or what must be read before it.
    pub fn ask(&self, second: i64) -> Decision {
        let Self { snapshot, limits, config } = self;
        let now = at(second);
        decide(Facts { snapshot, limits, config, now, anchor: now })
    }

    /// The world after the status of a decision was written and seen.
    pub fn written(mut self, decision: &Decision) -> Self {
        self.snapshot.status.clone_from(&decision.status);
        self
    }
}

/// A pod of the only pod set; a failed one ended at second 20 with code 3.
pub fn pod(index: usize, phase: PodPhase) -> Pod {
    let state = match phase {
        PodPhase::Failed => ContainerState::Terminated(Termination {
            exit_code: 3,
            reason: "Error".into(),
            finished_at: Some(at(20)),
            ..Termination::default()
        }),
        PodPhase::Succeeded => ContainerState::Terminated(Termination {
            finished_at: Some(at(20)),
            ..Termination::default()
        }),
        PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => ContainerState::Running,
    };
    Pod {
        name: format!("work-{index}"),
        uid: format!("pod-{index}"),
        component: Some(0),
        pod_set: Some(0),
        attempt: Some(0),
        node: Some("node-1".into()),
        phase,
        created: Some(at(i64::try_from(index).unwrap())),
        containers: vec![Container { name: "main".into(), init: false, restartable: false, state }],
        ..Pod::default()
    }
}
