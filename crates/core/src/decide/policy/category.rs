//! Categories of failures: the administrator's, then those built in. Source: Armada retry policies.

use super::failure_view::FailureView;
use crate::api::Category;
use crate::config::{CategoryMatcher, FailureCategory};
use crate::policies::{FailureCondition, PodMatcher};
use crate::snapshot::{ContainerState, Pod, PodPhase};

const IMAGE_REASONS: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "ImageInspectError",
];
const CONFIG_REASONS: [&str; 4] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
];

/// Reasons of a container that ended before its program ran: its command is not there, or may not be run.
const START_REASONS: [&str; 2] = ["StartError", "ContainerCannotRun"];

/// The name of the category of a failure: the first that fits.
///
/// Judged by the first container that failed, init containers too.
#[must_use]
pub fn name(view: &FailureView<'_>, configured: &[FailureCategory]) -> String {
    let fits = |category: &&FailureCategory| configured_fits(view, &category.matcher);
    match configured.iter().find(fits) {
        Some(category) => category.name.clone(),
        None => of(view).as_str().to_owned(),
    }
}

fn configured_fits(view: &FailureView<'_>, matcher: &CategoryMatcher) -> bool {
    match matcher {
        CategoryMatcher::ExitCodes { operator, values } => view
            .culprit()
            .is_some_and(|end| PodMatcher::takes_code(*operator, values, end.exit_code)),
        CategoryMatcher::TerminationMessage(pattern) => {
            view.first_message().is_some_and(|message| pattern.is_match(message))
        }
        CategoryMatcher::Conditions(names) => {
            names.iter().filter_map(|name| name.parse().ok()).any(|one| view.has(one))
        }
    }
}

/// Reason of a container that used more memory than it may.
pub const OOM_KILLED: &str = "OOMKilled";

/// The built-in category of a failure. Of a pod that is lost its node is the cause, whatever else it
/// has: that it is evicted follows from it.
#[must_use]
pub fn of(view: &FailureView<'_>) -> Category {
    if view.pod.is_some_and(|pod| pod.lost.is_some()) {
        return Category::Node;
    }
    let by_condition = [
        (FailureCondition::OomKilled, Category::Oom),
        (FailureCondition::NodeLost, Category::Node),
        (FailureCondition::StorageLimitExceeded, Category::StorageLimit),
        (FailureCondition::Evicted, Category::Evicted),
        (FailureCondition::Preempted, Category::Preempted),
        (FailureCondition::DeadlineExceeded, Category::Deadline),
        (FailureCondition::Unschedulable, Category::Unschedulable),
        (FailureCondition::Stalled, Category::Hang),
    ];
    if let Some((_, category)) = by_condition.iter().find(|(one, _)| view.has(*one)) {
        return *category;
    }
    let waits_for = |pod: &Pod, reasons: &[&str]| {
        pod.containers.iter().any(|container| match &container.state {
            ContainerState::Waiting { reason, .. } => reasons.contains(&reason.as_str()),
            ContainerState::Unknown | ContainerState::Running | ContainerState::Terminated(_) => {
                false
            }
        })
    };
    let collected = |pod: &Pod| {
        matches!(pod.reason.as_deref(), Some("NodeLost" | "NodeShutdown"))
            || pod.phase == PodPhase::Unknown
    };
    match view.pod {
        Some(pod) if waits_for(pod, &IMAGE_REASONS) => Category::Image,
        Some(pod) if waits_for(pod, &CONFIG_REASONS) => Category::Config,
        Some(pod) if collected(pod) => Category::Node,
        Some(_)
            if view.culprit().is_some_and(|end| START_REASONS.contains(&end.reason.as_str())) =>
        {
            Category::Config
        }
        Some(_) if view.culprit().is_some() => Category::Application,
        Some(_) | None => Category::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Container, PodCondition, Termination};

    fn ended(reason: &str, exit_code: i32) -> Container {
        let end = Termination { exit_code, reason: reason.into(), ..Termination::default() };
        Container { state: ContainerState::Terminated(end), ..Container::default() }
    }

    fn waiting(reason: &str) -> Container {
        let state = ContainerState::Waiting { reason: reason.into(), message: String::new() };
        Container { state, ..Container::default() }
    }

    fn condition(kind: &str, status: &str, reason: &str) -> PodCondition {
        PodCondition {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            ..PodCondition::default()
        }
    }

    #[test]
    fn the_first_category_that_fits_is_taken() {
        let target = |reason| Pod {
            conditions: vec![condition("DisruptionTarget", "True", reason)],
            ..Pod::default()
        };
        let container = |container| Pod { containers: vec![container], ..Pod::default() };
        let reason = |reason: &str| Pod { reason: Some(reason.into()), ..Pod::default() };
        let unscheduled = condition("PodScheduled", "False", "Unschedulable");
        let mut oom_and_evicted = target("EvictionByEvictionAPI");
        oom_and_evicted.containers = vec![ended("OOMKilled", 137)];
        for (pod, want) in [
            (container(ended("OOMKilled", 137)), Category::Oom),
            (oom_and_evicted, Category::Oom),
            (reason("Evicted"), Category::Evicted),
            (target("EvictionByEvictionAPI"), Category::Evicted),
            (target("DeletionByTaintManager"), Category::Node),
            (target("TerminationByKubelet"), Category::Evicted),
            (target("PreemptionByScheduler"), Category::Preempted),
            (reason("DeadlineExceeded"), Category::Deadline),
            (Pod { conditions: vec![unscheduled], ..Pod::default() }, Category::Unschedulable),
            (container(waiting("ImagePullBackOff")), Category::Image),
            (container(waiting("CreateContainerConfigError")), Category::Config),
            (target("DeletionByPodGC"), Category::Node),
            (reason("NodeLost"), Category::Node),
            (Pod { phase: PodPhase::Unknown, ..Pod::default() }, Category::Node),
            (container(ended("StartError", 128)), Category::Config),
            (container(ended("Error", 1)), Category::Application),
            (container(ended("Completed", 0)), Category::Unknown),
            (Pod::default(), Category::Unknown),
        ] {
            assert_eq!(of(&FailureView::at(&pod)), want, "{pod:?}");
        }
        assert_eq!(of(&FailureView::of_stall()), Category::Hang);
    }
}
