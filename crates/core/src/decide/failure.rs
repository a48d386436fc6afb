//! The first cause of a failure, told from a pod or a component. Source: `docs/user/policies.md#recorded-attempts`.

use k8s_openapi::jiff::Timestamp;

use super::Facts;
use super::policy::category;
use super::policy::failure_view::{FailureView, first_failed, is_overdue};
use crate::api::FailureRecord;
use crate::price::STATUS_MESSAGE_BYTES_MAX as MESSAGE_BYTES_MAX;
use crate::snapshot::{
    Component, Container, ContainerState, Outcome, Pod, PodCondition, PodPhase, Snapshot,
    Termination,
};

/// When a pod failed: its first container that ended with another code than 0, else its first app container that
/// ended, else when it stopped being ready, else when it was to be disrupted, else when its status was written last, or when
/// its kubelet first saw it and rejected it. An init container that succeeded tells nothing, and a container of which the end
/// is not known may end without a time.
///
/// The clock of its node may be ahead: a container ended no later than the status that says so was written.
///
/// A pod whose node is deleted is terminated without a container status and stays Ready. One that is lost
/// with its node is dated by its node; where that is deleted, by what was written to the pod when its node was lost.
pub fn finished_at(pod: &Pod) -> Option<Timestamp> {
    if let Some(loss) = pod.lost {
        return loss.since.or_else(|| unready_by_node(pod)).or_else(|| disrupted_at(pod));
    }
    if pod.stuck.is_some() && pod.phase != PodPhase::Failed {
        return pod.stuck;
    }
    let ended = if let Some((_, end)) = culprit(pod) {
        end.finished_at
    } else {
        let apps = pod.terminated().filter(|(container, _)| !container.init);
        apps.filter_map(|(_, end)| end.finished_at).min()
    };
    written_by(pod, ended)
        .or_else(|| {
            let unready = |c: &&PodCondition| c.kind == "Ready" && c.status != "True";
            pod.conditions.iter().find(unready).and_then(|c| c.since)
        })
        .or_else(|| disrupted_at(pod))
        .or_else(|| pod.failed_by.filter(|_| pod.phase == PodPhase::Failed))
}

/// When a pod ended as a whole, with the last of its containers: only then the kubelet calls it Failed, and its component
/// may act. Of one that has not ended, and where nothing tells, it is when it [failed](finished_at).
pub fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let last = pod.terminated().filter_map(|(_, end)| end.finished_at).max();
    finished_at(pod).max(written_by(pod, last))
}

/// When a container of a pod ended, at the latest when the API server knew it.
fn written_by(pod: &Pod, ended: Option<Timestamp>) -> Option<Timestamp> {
    ended.map(|at| pod.failed_by.map_or(at, |written| at.min(written)))
}

/// When a pod stopped being Ready because its node did. The node controller gives no reason, the kubelet always does:
/// what it says is about the containers, and may be long before the node was lost.
pub fn unready_by_node(pod: &Pod) -> Option<Timestamp> {
    let by_node =
        |c: &&PodCondition| c.kind == "Ready" && c.status != "True" && c.reason.is_empty();
    pod.conditions.iter().find(by_node).and_then(|c| c.since)
}

/// When a pod was to be disrupted.
fn disrupted_at(pod: &Pod) -> Option<Timestamp> {
    pod.true_condition("DisruptionTarget").and_then(|c| c.since)
}

/// Sorts pods by when they failed, ties by name; those that cannot be dated come last.
pub fn sort(pods: &mut [&Pod]) {
    pods.sort_by_cached_key(|pod| {
        let at = finished_at(pod);
        (at.is_none(), at, pod.name.clone())
    });
}

/// The container that ended first with another code than 0.
fn culprit(pod: &Pod) -> Option<(&Container, &Termination)> {
    first_failed(pod.terminated())
}

/// What is recorded of a pod that failed, or that does not come up.
pub fn of_pod(facts: Facts<'_>, pod: &Pod, component: Option<&Component>) -> FailureRecord {
    let culprit = culprit(pod);
    let disruption = pod.true_condition("DisruptionTarget");
    let waiting = pod.containers.iter().find_map(|container| match &container.state {
        ContainerState::Waiting { reason, message } if !reason.is_empty() => {
            Some((container, reason, message))
        }
        ContainerState::Waiting { .. }
        | ContainerState::Unknown
        | ContainerState::Running
        | ContainerState::Terminated(_) => None,
    });
    let unscheduled = pod
        .conditions
        .iter()
        .find(|c| c.kind == "PodScheduled" && c.status == "False" && !c.reason.is_empty());
    let (container, reason, message) = match (culprit, disruption, waiting, unscheduled) {
        _ if let Some(loss) = pod.lost => {
            (None, first([loss.state.as_str()]), Some(format!("the node {}", loss.sentence())))
        }
        (Some((container, end)), ..) => (
            Some(container),
            reason_of(pod, end),
            first([&end.message, pod.message.as_deref().unwrap_or_default()]),
        ),
        (None, Some(target), ..) if pod.reason.is_none() => {
            (None, first([&target.reason]), first([&target.message]))
        }
        (None, _, Some((container, reason, message)), _) if pod.reason.is_none() => {
            (Some(container), first([reason]), first([message]))
        }
        (None, _, _, Some(condition)) if pod.reason.is_none() => {
            (None, first([&condition.reason]), first([&condition.message]))
        }
        (None, ..) => (None, pod.reason.clone(), pod.message.clone()),
    };
    FailureRecord {
        component: component.map(|component| facts.snapshot.recorded_name(component)),
        pod: Some(pod.name.clone()),
        pod_uid: Some(pod.uid.clone()),
        node: pod.node.clone(),
        container: container.map(|container| container.name.clone()),
        init_container: container.filter(|container| container.init).map(|_| true),
        exit_code: culprit.map(|(_, end)| end.exit_code),
        signal: culprit.and_then(|(_, end)| end.signal),
        reason,
        message: message.map(|text| shorten(&text)),
        category: Some(category::name(&look(pod, component), &facts.config.failure_categories)),
    }
}

/// Why a pod failed of which a container failed: that it died of its node, or was ended as a whole, comes before how
/// its containers then ended, but for one that was out of memory by itself.
fn reason_of(pod: &Pod, end: &Termination) -> Option<String> {
    let whole = pod.reason.as_deref().unwrap_or_default();
    let of_node = pod.true_condition("DisruptionTarget").filter(|_| pod.died_of_node());
    if end.reason == category::OOM_KILLED {
        first([&end.reason])
    } else {
        first([of_node.map_or("", |target| target.reason.as_str()), whole, &end.reason])
    }
}

/// A pod, with what its component says of its time.
fn look<'a>(pod: &'a Pod, component: Option<&Component>) -> FailureView<'a> {
    let overdue = component.is_some_and(|component| says(component, is_overdue));
    FailureView { overdue, ..FailureView::at(pod) }
}

/// Whether a component says that it failed for such a reason; a `JobSet`, by the first of its Jobs that failed, as
/// retry policies see it.
pub fn says(component: &Component, is_it: impl Fn(&str) -> bool) -> bool {
    let own = component.ours().is_some_and(|object| match &object.report.outcome {
        Outcome::Failed { reason, .. } => is_it(reason),
        Outcome::Active | Outcome::Succeeded => false,
    });
    own || component.failed_jobs.first().is_some_and(|job| is_it(&job.reason))
}

/// Reason and message of a pod that failed: its node's, else its own, else its container's.
pub fn said_by(pod: &Pod) -> (&str, &str) {
    if let Some(loss) = pod.lost {
        return (loss.state.as_str(), "");
    }
    let end = culprit(pod);
    let reason = pod.reason.as_deref().filter(|text| !text.is_empty());
    let message = pod.message.as_deref().filter(|text| !text.is_empty());
    (
        reason.or_else(|| end.map(|(_, end)| end.reason.as_str())).unwrap_or_default(),
        message.or_else(|| end.map(|(_, end)| end.message.as_str())).unwrap_or_default(),
    )
}

/// What is recorded of a component that failed, where no pod tells more.
pub fn of_component(
    snapshot: &Snapshot,
    component: &Component,
    reason: &str,
    message: &str,
) -> FailureRecord {
    FailureRecord {
        component: Some(snapshot.recorded_name(component)),
        reason: first([reason]),
        message: first([message]).map(|text| shorten(&text)),
        ..FailureRecord::default()
    }
}

/// One sentence: which pod on which node, which container with which code, and what it said.
pub fn sentence(record: &FailureRecord) -> String {
    let mut text = match (&record.pod, &record.component) {
        (Some(pod), _) => format!("pod {pod}"),
        (None, Some(component)) => format!("component {component}"),
        (None, None) => "unknown cause".to_owned(),
    };
    if let Some(node) = &record.node {
        text += &format!(" on node {node}");
    }
    if let (Some(container), Some(code)) = (&record.container, record.exit_code) {
        text += &format!(": container {container} exited with code {code}");
    }
    if let Some(reason) = &record.reason {
        text += &format!(" ({reason})");
    }
    if let Some(message) = record.message.as_deref().filter(|message| !message.is_empty()) {
        // what else is said may follow
        let message = message.trim();
        text += &format!(": {}", message.strip_suffix('.').unwrap_or(message));
    }
    text
}

fn first<const N: usize>(texts: [&str; N]) -> Option<String> {
    texts.into_iter().find(|text| !text.is_empty()).map(str::to_owned)
}

/// Cuts a message to [`MESSAGE_BYTES_MAX`], between characters.
fn shorten(text: &str) -> String {
    text[..text.floor_char_boundary(MESSAGE_BYTES_MAX)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Phase;
    use crate::decide::tests::given::{at, given};

    fn ended(name: &str, exit_code: i32, second: i64) -> Container {
        Container {
            name: name.into(),
            init: false,
            restartable: false,
            state: ContainerState::Terminated(Termination {
                exit_code,
                finished_at: Some(Timestamp::from_second(second).unwrap()),
                reason: if exit_code == 0 { "Completed".into() } else { "Error".into() },
                ..Termination::default()
            }),
        }
    }

    #[test]
    fn the_container_that_failed_first_is_the_cause() {
        let containers = vec![ended("late", 1, 30), ended("fine", 0, 10), ended("early", 7, 20)];
        let pod = Pod { name: "p".into(), node: Some("n".into()), containers, ..Pod::default() };
        let world = given(Phase::Running);
        let facts = Facts {
            snapshot: &world.snapshot,
            limits: &world.limits,
            config: &world.config,
            now: at(0),
            anchor: at(0),
        };
        let record = of_pod(facts, &pod, None);
        assert_eq!((record.container.as_deref(), record.exit_code), (Some("early"), Some(7)));
        assert_eq!(finished_at(&pod).unwrap().as_second(), 20);
        assert_eq!(
            sentence(&record),
            "pod p on node n: container early exited with code 7 (Error)"
        );
    }

    #[test]
    fn a_sentence_takes_no_period_of_the_message_over() {
        for (message, want) in
            [("Preempted.\n", ": Preempted"), ("no memory", ": no memory"), ("", "")]
        {
            let (pod, message) = (Some("p".to_owned()), Some(message.to_owned()));
            let record = FailureRecord { pod, message, ..FailureRecord::default() };
            assert_eq!(sentence(&record), format!("pod p{want}"));
        }
    }

    #[test]
    fn a_pod_that_its_kubelet_rejected_failed_when_it_was_first_seen() {
        let rejected = |phase| Pod { phase, failed_by: Some(at(3)), ..Pod::default() };
        assert_eq!(finished_at(&rejected(PodPhase::Failed)), Some(at(3)));
        assert_eq!(finished_at(&rejected(PodPhase::Running)), None);
        let ran = Pod { containers: vec![ended("c", 1, 30)], ..rejected(PodPhase::Failed) };
        assert_eq!(finished_at(&ran).unwrap().as_second(), 30);
    }

    #[test]
    fn no_container_ends_after_its_end_was_written() {
        let second = |second: i64| Timestamp::from_second(second).unwrap();
        // the clock of its node is as it should be, ahead, or nothing tells
        for (written, want) in [(Some(40), 30), (Some(30), 30), (Some(25), 25), (None, 30)] {
            let containers = vec![ended("main", 1, 30), ended("log", 0, 31)];
            let (phase, failed_by) = (PodPhase::Failed, written.map(second));
            let pod = Pod { phase, failed_by, containers, ..Pod::default() };
            assert_eq!(finished_at(&pod), Some(second(want)), "{written:?}");
            let last = written.map_or(31, |written| written.min(31));
            assert_eq!(ended_at(&pod), Some(second(last)), "{written:?}");
            // its owner deletes it because it failed
            let deleted = Pod { deletion_requested: Some(second(26)), ..pod };
            let by_deletion = crate::decide::consequence::ended_by_deletion(&deleted);
            assert_eq!(by_deletion, want > 26, "{written:?}");
        }
    }

    #[test]
    fn a_pod_that_was_ended_as_a_whole_says_why() {
        let world = given(Phase::Running);
        let (snapshot, limits) = (&world.snapshot, &world.limits);
        let facts = Facts { snapshot, limits, config: &world.config, now: at(0), anchor: at(0) };
        let killed = |reason: &str, of_pod: Option<&str>| {
            let mut container = ended("main", 137, 20);
            if let ContainerState::Terminated(end) = &mut container.state {
                end.reason = reason.into();
            }
            let reason = of_pod.map(str::to_owned);
            let pod = Pod { containers: vec![container], reason, ..Pod::default() };
            let record = super::of_pod(facts, &pod, None);
            (record.exit_code.unwrap(), record.reason.unwrap(), record.category.unwrap())
        };
        for (reason, of_pod, want) in [
            ("Error", Some("DeadlineExceeded"), ("DeadlineExceeded", "deadline")),
            ("Error", Some("Evicted"), ("Evicted", "evicted")),
            ("OOMKilled", Some("Evicted"), ("OOMKilled", "oom")),
            ("Error", None, ("Error", "application")),
        ] {
            let told = killed(reason, of_pod);
            assert_eq!((told.0, told.1.as_str(), told.2.as_str()), (137, want.0, want.1));
        }
    }

    #[test]
    fn a_pod_that_died_of_its_node_says_so() {
        let world = given(Phase::Running);
        let (snapshot, limits) = (&world.snapshot, &world.limits);
        let facts = Facts { snapshot, limits, config: &world.config, now: at(0), anchor: at(0) };
        for (target, want) in [
            ("DeletionByTaintManager", "DeletionByTaintManager"),
            ("DeletionByPodGC", "DeletionByPodGC"),
            ("PreemptionByScheduler", "Error"),
        ] {
            let condition = PodCondition {
                kind: "DisruptionTarget".into(),
                status: "True".into(),
                reason: target.into(),
                ..PodCondition::default()
            };
            let (containers, conditions) = (vec![ended("main", 143, 20)], vec![condition]);
            let pod = Pod { conditions, containers, ..Pod::default() };
            let record = of_pod(facts, &pod, None);
            assert_eq!((record.exit_code, record.reason.as_deref()), (Some(143), Some(want)));
        }
    }

    #[test]
    fn a_component_is_recorded_with_its_kind_if_another_has_its_name() {
        let component = |kind: &str, name: &str| {
            let (kind, name) = (kind.to_owned(), name.to_owned());
            Component { name, kind, ..Component::default() }
        };
        let long = "x".repeat(253);
        let components = vec![
            component("Job", "a"),
            component("Service", "a"),
            component("Job", "b"),
            component("Job", &long),
            component("Service", &long),
        ];
        let snapshot = Snapshot { components, ..Snapshot::default() };
        let names: Vec<String> =
            snapshot.components.iter().map(|one| snapshot.recorded_name(one)).collect();
        let long = long.as_str();
        assert_eq!(names, ["Job/a", "Service/a", "b", long, long]);
        let found: Vec<Option<usize>> =
            names.iter().map(|name| snapshot.component_named(name)).collect();
        assert_eq!(found, [Some(0), Some(1), Some(2), Some(3), Some(3)]);
        assert_eq!(snapshot.component_named("a"), Some(0), "an earlier version recorded it");
        assert_eq!(snapshot.component_named("c"), None);
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        let component = Component::default();
        let record = of_component(&Snapshot::default(), &component, "R", &"é".repeat(600));
        let message = record.message.unwrap();
        assert_eq!(message.len(), MESSAGE_BYTES_MAX);
    }

    #[test]
    fn a_pod_without_an_ended_container_is_dated_by_its_readiness() {
        let since = Some(Timestamp::from_second(9).unwrap());
        let ready = crate::snapshot::PodCondition {
            kind: "Ready".into(),
            status: "False".into(),
            since,
            ..Default::default()
        };
        let pod = Pod { conditions: vec![ready], ..Pod::default() };
        assert_eq!(finished_at(&pod), since);
    }
}
