//! More pods than were admitted. Kueue counts the pods that an AppWrapper declares; whoever may scale a
//! wrapped object, or has it make other pods, runs more on the same quota.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::draft::Draft;
use crate::api::{Phase, condition};
use crate::config::OverQuotaAction;
use crate::mutations::{self, Mutation};
use crate::plan::{Action, FreshRead};
use crate::snapshot::{Pod, PodPhase};
use crate::tuning::Period;

/// For how long a Terminating pod makes room for the one that replaces it. Whoever deletes pods chooses their grace period,
/// and may delete them again and again.
const TERMINATING_MAX: Period = Period::from_secs(120);

/// How many pod sets are named.
const NAMED_MAX: usize = 5;

/// A pod set that has more live pods than it declares.
struct Excess {
    what: String,
    /// From here on there were too many.
    since: Timestamp,
}

/// Says in the condition `PodsOverQuota` that more pods live than were declared, once that has lasted
/// for the grace period of the configuration; where that says so, suspends the AppWrapper then.
pub fn note(draft: &mut Draft<'_>, next: Phase) {
    let kind = condition::PODS_OVER_QUOTA;
    let settings = &draft.facts.config.admission.pods_over_quota;
    let stored = &draft.facts.snapshot.status;
    let mut confirmed = vec![];
    let is_told = !mutations::is_present(Mutation::OverQuotaUnsaid);
    if is_told && next == Phase::Running && stored.phase == Phase::Running {
        for excess in excesses(draft) {
            let at = settings.grace.after(excess.since);
            if draft.facts.now < at {
                draft.look_again(at);
            } else {
                confirmed.push(excess.what);
            }
        }
    }
    if confirmed.is_empty() {
        return draft.clear(kind, "PodsWithinQuota", "");
    }
    let known = condition::is_true(&stored.conditions, kind);
    let suspends = settings.action == OverQuotaAction::Suspend;
    // a watch that lags behind may show pods that are gone
    if (!known || suspends) && draft.facts.snapshot.answered < FreshRead::Pods {
        return draft.ask(FreshRead::Pods);
    }
    let others = confirmed.len().saturating_sub(NAMED_MAX);
    confirmed.truncate(NAMED_MAX);
    let mut text = confirmed.join("; ");
    if others > 0 {
        text += &format!("; and {others} more pod sets");
    }
    if !known {
        let then = if suspends { "; the AppWrapper is suspended" } else { "" };
        draft.warn(kind, format!("{text}{then}"));
    }
    draft.condition(kind, true, kind, &text);
    let message = &mut draft.verdict.message;
    *message = if message.is_empty() { text } else { format!("{message}; {text}") };
    if known && suspends {
        draft.act(Action::Suspend);
    }
}

/// The pod sets with too many pods; pods of no declared pod set are too many from the first one on.
fn excesses(draft: &Draft<'_>) -> Vec<Excess> {
    let snapshot = draft.facts.snapshot;
    let mut live: BTreeMap<_, Vec<Timestamp>> = BTreeMap::new();
    for pod in &snapshot.pods {
        if let Some(since) = counts_since(pod, draft.facts.now) {
            live.entry((pod.component, pod.pod_set)).or_default().push(since);
        }
    }
    let of = |((component, pod_set), mut since): ((Option<usize>, Option<usize>), Vec<_>)| {
        let component = component.and_then(|index| Some((index, snapshot.components.get(index)?)));
        let declared = component
            .zip(pod_set)
            .and_then(|((_, component), pod_set)| component.pod_sets.get(pod_set))
            .map_or(0, |pod_set| usize::try_from(pod_set.count()).unwrap_or(0));
        since.sort_unstable();
        let count = since.iter().filter(|since| **since <= draft.facts.now).count();
        // all that count for longer count still, or they would not be here
        let since = *since.get(declared)?;
        let pods = if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") };
        let place = match (component, pod_set) {
            (Some((index, component)), Some(pod_set)) => {
                format!("{}: {pods} in pod set {index}-{pod_set}", component.title())
            }
            (Some((_, component)), None) => format!("{}: {pods} in no pod set", component.title()),
            (None, _) => format!("{pods} of no component"),
        };
        Some(Excess { what: format!("{place}, {declared} declared"), since })
    };
    live.into_iter().filter_map(of).collect()
}

/// Since when, or from when on, a pod uses quota and does not make room for another one; none where it does not.
fn counts_since(pod: &Pod, now: Timestamp) -> Option<Timestamp> {
    let ended = matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed);
    if ended || pod.lost.is_some() {
        return None;
    }
    let created = pod.created.unwrap_or(now);
    if !pod.terminating {
        return Some(created);
    }
    Some(created.max(TERMINATING_MAX.after(pod.deletion_requested?)))
}
