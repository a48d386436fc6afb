//! What MultiKueue makes of an AppWrapper: that of a manager cluster runs as a copy in a worker cluster.

use super::super::Error;
use super::super::cluster::{cluster_flags, quoted};
use super::super::place::{One, Place};
use super::Target;
use super::workload::Queued;
use crate::api::{Phase, keys};
use crate::observe::assemble::Wrapper;
use crate::observe::workload::SeenWorkload;

/// What is said of a copy in a worker cluster: Kueue of the manager cluster alone decides when it runs.
pub(super) const COPY: &str = "a copy that MultiKueue created in this worker cluster: change the AppWrapper in the \
    manager cluster";
/// How one is run again in a manager cluster: it has no attempts there, and its copy is gone.
pub(super) const AGAIN: &str =
    "to run it again, delete the AppWrapper and create it again in this cluster";
/// What is said of a component in a manager cluster.
pub(super) const CREATED_THERE: &str = "created in the worker cluster only";

/// Whether Kueue sends it to a worker cluster.
pub(in crate::cli) fn is_sent(wrapper: &Wrapper) -> bool {
    wrapper.other_manager() == Some(keys::MULTIKUEUE)
}

/// The command by which a user suspends or resumes what Kueue sends to a worker cluster.
pub(super) fn command(workload: &SeenWorkload, namespace: &str, active: bool) -> String {
    let (name, namespace) = (quoted(&workload.name), quoted(namespace));
    let flags = cluster_flags();
    format!(
        "kubectl patch workload {name} -n {namespace}{flags} --type=merge -p '{{\"spec\":{{\"active\":{active}}}}}'"
    )
}

/// An AppWrapper, and where its resources are if Kueue sends it to a worker cluster.
///
/// # Errors
/// It is not there, or the cluster does not answer.
pub(super) async fn one(target: &Target) -> Result<(One, Option<String>), Error> {
    let place = target.place().await?;
    let one = place.one(&target.name).await?;
    let note = note(&place, &one.wrapper).await?;
    Ok((one, note))
}

/// Where the resources of one are that Kueue sends to a worker cluster; none of another.
///
/// # Errors
/// The cluster does not answer.
pub(super) async fn note(place: &Place, wrapper: &Wrapper) -> Result<Option<String>, Error> {
    if !is_sent(wrapper) {
        return Ok(None);
    }
    let queued = place.workload(&wrapper.uid).await?;
    Ok(Some(elsewhere(wrapper, &queued)))
}

/// Where its resources are, as far as its Workload says.
pub(super) fn elsewhere(wrapper: &Wrapper, queued: &Queued) -> String {
    let cluster = match queued {
        Queued::Workload(workload) => workload.cluster.as_ref(),
        Queued::NoKueue | Queued::Nothing | Queued::Hidden(_) => None,
    };
    let place = cluster.map_or_else(
        || "a worker cluster of MultiKueue".to_owned(),
        |name| format!("the worker cluster {name}"),
    );
    match wrapper.status.phase {
        Phase::Succeeded | Phase::Failed => {
            format!("it ran in {place}; Kueue deletes its copy there once it has finished")
        }
        Phase::Empty | Phase::Suspended if cluster.is_none() => {
            format!("its resources are created only in {place}, once that cluster admits it")
        }
        Phase::Empty
        | Phase::Suspended
        | Phase::Resuming
        | Phase::Running
        | Phase::Resetting
        | Phase::Suspending
        | Phase::Terminating => format!("its resources are in {place}: run this command there"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One in a phase that Kueue sends to a worker cluster.
    pub fn sent(phase: Phase) -> Wrapper {
        let mut wrapper =
            Wrapper { namespace: "ns".into(), name: "train".into(), ..Wrapper::default() };
        wrapper.status.phase = phase;
        std::sync::Arc::make_mut(&mut wrapper.spec).managed_by = Some(keys::MULTIKUEUE.into());
        wrapper
    }

    #[test]
    fn a_manager_cluster_says_where_the_resources_are() {
        let workload = |cluster: Option<&str>| {
            let cluster = cluster.map(str::to_owned);
            Queued::Workload(Box::new(SeenWorkload { cluster, ..SeenWorkload::default() }))
        };
        let there = "run this command there";
        for (phase, queued, want) in [
            (Phase::Running, workload(Some("west")), ["in the worker cluster west: ", there]),
            (Phase::Running, workload(None), ["in a worker cluster of MultiKueue: ", there]),
            (Phase::Resetting, Queued::Hidden("no".into()), ["worker cluster", there]),
            (Phase::Empty, workload(Some("west")), ["in the worker cluster west: ", there]),
            (Phase::Empty, workload(None), ["are created only in a worker cluster", "admits it"]),
            (
                Phase::Suspended,
                Queued::Nothing,
                ["are created only in a worker cluster", "admits it"],
            ),
            (Phase::Failed, workload(Some("west")), ["ran in the worker cluster west", "deletes"]),
            (Phase::Succeeded, Queued::Nothing, ["ran in a worker cluster", "deletes its copy"]),
        ] {
            let said = elsewhere(&sent(phase), &queued);
            assert!(want.iter().all(|part| said.contains(part)), "{phase}: {said}");
        }
        assert!(!is_sent(&Wrapper::default()));
    }

    #[test]
    fn the_workload_is_changed_by_a_command_of_kubectl() {
        let workload = SeenWorkload { name: "w".into(), ..SeenWorkload::default() };
        assert_eq!(
            command(&workload, "ns", false),
            "kubectl patch workload w -n ns --type=merge -p '{\"spec\":{\"active\":false}}'"
        );
    }
}
