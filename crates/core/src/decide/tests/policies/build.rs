//! Worlds with several components and with policies written as in manifests.

use std::sync::Arc;

use serde_json::Value;

use crate::api::{AppWrapperSpec, Phase, RetryPolicySpec};
use crate::config::Config;
use crate::decide::tests::given::{World, at, given};
use crate::decide::{Decision, VerdictAction};
use crate::plan::FreshRead;
use crate::policies::{Named, Policies, RetryPolicy, UnusablePolicy};
use crate::snapshot::{
    Component, Container, ContainerState, End, FailedJob, Object, Outcome, Pod, PodCondition,
    PodPhase, Presence, Termination,
};

/// An AppWrapper that runs since second 0: `Kind/name`, or `Kind/name:pods`; nothing of pods yet.
pub fn running(components: &[&str]) -> World {
    in_phase(Phase::Running, components)
}

/// The kinds whose objects delete pods whatever these did, as `kinds::report` says.
const DELETES_PODS: [&str; 5] =
    ["Deployment", "JobSet", "LeaderWorkerSet", "StatefulSet", "TrainJob"];

/// The same in any phase.
pub fn in_phase(phase: Phase, components: &[&str]) -> World {
    let mut world = given(phase);
    let component = world.snapshot.components.remove(0);
    let status = world.snapshot.status.component_status.pop();
    for text in components {
        let (title, pods) = text.split_once(':').unwrap_or((text, "1"));
        let (kind, name) = title.split_once('/').expect("Kind/name");
        let pods: i32 = pods.parse().unwrap();
        let mut one = Component { name: name.into(), kind: kind.into(), ..component.clone() };
        one.pod_sets[0].replicas = Some(pods);
        if pods == 0 {
            one.pod_sets.clear();
            one.end = End::Unknown;
        }
        let mut of_it = status.clone();
        if let Presence::Present(object) = &mut one.presence {
            object.uid = format!("uid-{name}");
            object.report.deletes_pods = DELETES_PODS.contains(&kind);
            if kind == "Pod" {
                object.report.unreplaced.insert(0);
            }
        }
        if let Some(status) = &mut of_it {
            status.name = name.into();
            status.kind = kind.into();
            status.uid = status.uid.as_ref().map(|_| format!("uid-{name}"));
            status.pod_sets.clone_from(&one.pod_sets);
        }
        world.snapshot.components.push(one);
        world.snapshot.status.component_status.extend(of_it);
    }
    world
}

impl World {
    /// `failurePolicy`, `executionPolicy`, `podFailurePolicy` of the spec, as in a manifest.
    pub fn spec(self, yaml: &str) -> Self {
        let world = self.with_spec(serde_saphyr::from_str(yaml).unwrap());
        assert_eq!(world.snapshot.policies.flaws(), Vec::<String>::new());
        world
    }

    /// The same, parsed already; its patterns are not checked.
    pub fn with_spec(mut self, mut spec: Value) -> Self {
        spec["components"] = serde_json::json!([]);
        let spec: AppWrapperSpec = serde_json::from_value(spec).unwrap();
        let named: Vec<Named<'_>> = self.snapshot.components.iter().map(Component::named).collect();
        self.snapshot.policies = Arc::new(Policies::of(&spec, &named));
        self
    }

    /// One more retry policy that is attached: the `spec` of its manifest.
    pub fn retry_policy(self, name: &str, yaml: &str) -> Self {
        self.with_retry_policy(name, serde_saphyr::from_str(yaml).unwrap())
    }

    /// The same, parsed already.
    pub fn with_retry_policy(mut self, name: &str, spec: Value) -> Self {
        let spec: RetryPolicySpec = serde_json::from_value(spec).unwrap();
        let policy = RetryPolicy::read(name, &spec).unwrap();
        self.snapshot.retry.policies.push(Arc::new(policy));
        self
    }

    /// One more retry policy that is attached and does not exist.
    pub fn missing_policy(mut self, name: &str) -> Self {
        self.snapshot.retry.unusable.push(UnusablePolicy { name: name.into(), flaw: None });
        self
    }

    /// The configuration file.
    pub fn configured(mut self, yaml: &str) -> Self {
        self.config = Config::parse(yaml).unwrap();
        self
    }

    /// Changes a component.
    pub fn component(mut self, index: usize, change: impl FnOnce(&mut Component)) -> Self {
        change(&mut self.snapshot.components[index]);
        self
    }

    /// Changes the object of a component.
    pub fn object_of(self, index: usize, change: impl FnOnce(&mut Object)) -> Self {
        self.component(index, |component| {
            if let Presence::Present(object) = &mut component.presence {
                change(object);
            }
        })
    }

    /// A component says that it failed.
    pub fn fails(self, index: usize, reason: &str, message: &str, second: i64) -> Self {
        let (reason, message) = (reason.into(), message.into());
        let failed = Outcome::Failed { reason, message, at: Some(at(second)) };
        self.object_of(index, |object| object.report.outcome = failed)
    }

    /// A Job of a `JobSet` has failed.
    pub fn failed_job_of(self, index: usize, reason: &str, message: &str) -> Self {
        let (reason, message) = (reason.into(), message.into());
        let job = FailedJob { name: "job".into(), reason, message, pod_set: None, at: None };
        self.component(index, |component| component.failed_jobs.push(job))
    }

    /// A component says that it succeeded.
    pub fn succeeds(self, index: usize) -> Self {
        self.object_of(index, |object| object.report.outcome = Outcome::Succeeded)
    }

    /// One more pod.
    pub fn with(mut self, pod: Pod) -> Self {
        let mut pod = pod;
        if let Some(component) = pod.component.and_then(|index| self.snapshot.components.get(index))
        {
            let of_it = self.snapshot.pods.iter().filter(|each| each.component == pod.component);
            let count = of_it.count();
            pod.name = format!("{}-{count}", component.name);
            pod.uid = format!("pod-{}", pod.name);
            if component.kind == "Pod" {
                pod.name.clone_from(&component.name);
                pod.uid = format!("uid-{}", component.name);
            }
        }
        self.snapshot.pods.push(pod);
        self
    }

    /// So many Ready pods of a component.
    pub fn ready(mut self, component: usize, count: usize) -> Self {
        for _ in 0..count {
            self = self.with(ready(component));
        }
        self
    }

    /// How often a rule of a retry policy was used.
    pub fn used(mut self, policy: &str, rule: &str, count: i32) -> Self {
        let (policy, rule) = (policy.into(), rule.into());
        self.snapshot.status.retry_counts.push(crate::api::RetryCount { policy, rule, count });
        self
    }

    /// The decision in one line, with pods and components as they are seen.
    pub fn says_at(&self, second: i64) -> String {
        said(&self.clone().answered(FreshRead::Gone).ask(second))
    }

    /// Carries a decision on: what is written is seen, for as long as something is written.
    pub fn settled(mut self, second: i64) -> Self {
        for _ in 0..6 {
            let decision = self.decide(second);
            if decision.status == self.snapshot.status {
                return self;
            }
            self = self.written(&decision);
        }
        panic!("still writing");
    }

    /// Nothing is left of the attempt, as a LIST says.
    pub fn all_gone(mut self) -> Self {
        for component in &mut self.snapshot.components {
            component.presence = Presence::Absent;
        }
        self.snapshot.pods.clear();
        self.answered(FreshRead::Gone)
    }
}

/// A pod of a component's first pod set that failed: at second 20, container `main`, code 1.
pub fn failed(component: usize) -> Pod {
    let mut pod = pod_of(component, PodPhase::Failed);
    pod.containers = vec![container("main", 1, "Error", "", 20)];
    pod
}

/// A pod that is Ready.
pub fn ready(component: usize) -> Pod {
    let pod = pod_of(component, PodPhase::Running).condition("Ready", "True", "");
    Pod { containers: vec![runs("main")], ..pod }
}

/// A pod of a component's first pod set.
pub fn pod_of(component: usize, phase: PodPhase) -> Pod {
    Pod {
        name: format!("pod-{component}"),
        uid: format!("uid-{component}"),
        component: Some(component),
        pod_set: Some(0),
        attempt: Some(0),
        node: Some("node-1".into()),
        phase,
        created: Some(at(0)),
        ..Pod::default()
    }
}

/// A container that runs.
pub fn runs(name: &str) -> Container {
    Container { name: name.into(), init: false, restartable: false, state: ContainerState::Running }
}

/// A container that ended.
pub fn container(name: &str, code: i32, reason: &str, message: &str, second: i64) -> Container {
    let state = ContainerState::Terminated(Termination {
        exit_code: code,
        signal: None,
        reason: reason.into(),
        message: message.into(),
        finished_at: Some(at(second)),
    });
    Container { name: name.into(), init: false, restartable: false, state }
}

impl Pod {
    /// Its container `main` ended with this code.
    pub(super) fn code(self, code: i32) -> Self {
        self.ended(container("main", code, "Error", "", 20))
    }

    /// Its only container ended so.
    pub(in crate::decide::tests) fn ended(self, container: Container) -> Self {
        Self { containers: vec![container], ..self }
    }

    /// Its containers failed at this moment.
    pub(in crate::decide::tests) fn at(mut self, second: i64) -> Self {
        for container in &mut self.containers {
            if let ContainerState::Terminated(end) = &mut container.state {
                end.finished_at = Some(at(second));
            }
        }
        self
    }

    /// One more container.
    pub(super) fn and(mut self, container: Container) -> Self {
        self.containers.push(container);
        self
    }

    /// One more container, an init container.
    pub(super) fn and_init(self, container: Container) -> Self {
        self.and(Container { init: true, ..container })
    }

    /// Its own reason.
    pub(super) fn because(self, reason: &str) -> Self {
        Self { reason: Some(reason.into()), ..self }
    }

    /// One more condition.
    pub(super) fn condition(mut self, kind: &str, status: &str, reason: &str) -> Self {
        self.conditions.push(PodCondition {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            ..PodCondition::default()
        });
        self
    }

    /// Its only container waits for this reason.
    pub(super) fn waits(self, reason: &str) -> Self {
        let state = ContainerState::Waiting { reason: reason.into(), message: String::new() };
        let main = Container { name: "main".into(), init: false, restartable: false, state };
        Self { containers: vec![main], ..self }
    }

    /// Its node.
    pub(super) fn on(self, node: &str) -> Self {
        Self { node: Some(node.into()), ..self }
    }
}

/// A decision in one line: the action; the rule as `source/policy/name#index`; `used of limit`; the
/// deadline of a wait in seconds.
pub fn said(decision: &Decision) -> String {
    let verdict = &decision.verdict;
    let mut text = verdict.action.as_str().to_owned();
    if verdict.action == VerdictAction::Wait {
        let deadline = verdict.deadline.expect("a wait has a deadline");
        return format!("Wait {}", deadline.as_second() - at(0).as_second());
    }
    if let Some(rule) = &verdict.rule {
        text += &format!(" {}", rule.source);
        for part in [&rule.policy, &rule.name].into_iter().flatten() {
            text += &format!("/{part}");
        }
        if let Some(index) = rule.index {
            text += &format!("#{index}");
        }
    }
    if let Some(retries) = verdict.retries {
        text += &format!(" {} of {}", retries.used, retries.limit);
    }
    text
}

/// Checks each row: what it is about, the world, the second, and the decision in one line.
#[expect(clippy::needless_pass_by_value, reason = "a table is written in place")]
pub fn check(rows: Vec<(&str, World, i64, &str)>) {
    let wrong: Vec<String> = rows
        .iter()
        .map(|(what, world, second, want)| (what, world.says_at(*second), want))
        .filter(|(_, said, want)| said != *want)
        .map(|(what, said, want)| format!("{what}:\n  said {said}\n  want {want}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
