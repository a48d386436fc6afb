//! More pods than were admitted. Kueue counts the pods that an AppWrapper declares; whoever may scale a
//! wrapped object, or has it make other pods, runs more on the same quota.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use super::Facts;
use super::draft::Draft;
use crate::api::{Phase, condition};
use crate::config::{Config, OverQuotaAction};
use crate::mutations::{self, Mutation};
use crate::plan::{Action, FreshRead};
use crate::printable::escape;
use crate::snapshot::Pod;
use crate::tuning::Period;

/// For how long a Terminating pod makes room for the one that replaces it: whoever deletes pods chooses their grace period.
const TERMINATING_MAX: Period = Period::from_secs(120);

/// How many pod sets are named.
const NAMED_MAX: usize = 5;

/// A pod set that has more live pods than it declares.
struct Excess {
    what: String,
    /// From here on there were too many.
    since: Timestamp,
}

/// Says in the condition `PodsOverQuota` that more pods live than were declared, once that has lasted for the grace period
/// of the configuration; where that says so, suspends the AppWrapper then. In every phase that holds quota: how long a
/// creation, a deletion or the time after a failure may take is up to the annotations.
pub fn note(draft: &mut Draft<'_>, next: Phase) {
    if draft.asks() {
        return;
    }
    let kind = condition::PODS_OVER_QUOTA;
    let stored = &draft.facts.snapshot.status;
    let mut confirmed = confirmed(draft);
    if confirmed.is_empty() {
        return draft.clear(kind, "PodsWithinQuota", "");
    }
    let known = condition::is_true(&stored.conditions, kind);
    let suspends = ends(draft.facts.config) && next.runs_components();
    // a watch that lags behind may show pods that are gone
    if (!known || suspends) && draft.facts.snapshot.answered < FreshRead::Pods {
        return draft.ask(FreshRead::Pods);
    }
    let others = confirmed.len().saturating_sub(NAMED_MAX);
    confirmed.truncate(NAMED_MAX);
    let mut text = confirmed.join("; ");
    if others > 0 {
        let what = if others == 1 { "pod set" } else { "pod sets" };
        text += &format!("; and {others} more {what}");
    }
    if !known {
        let then = if suspends { "; the AppWrapper will be suspended" } else { "" };
        draft.warn(kind, format!("{text}{then}"));
    }
    let said = condition::find(&draft.status.conditions, kind).filter(|_| known);
    // a status that changes at every look would delay its suspension
    let is_news = |said: &Condition| !suspends && named(&said.message) != named(&escape(&text));
    if said.is_none_or(is_news) {
        draft.say(kind, kind, &text);
    }
    let message = &mut draft.verdict.message;
    *message = if message.is_empty() { text } else { format!("{message}; {text}") };
    if known && suspends {
        draft.act(Action::Suspend);
    }
}

/// What a message names: the counts of pods change often, and cause no write.
fn named(message: &str) -> Vec<&str> {
    message.split("; ").map(subject).collect()
}

fn subject(part: &str) -> &str {
    part.split_once(" has ").or_else(|| part.split_once(": ")).map_or("", |(what, _)| what)
}

/// Whether the configuration ends what runs more pods than were admitted.
const fn ends(config: &Config) -> bool {
    match config.admission.pods_over_quota.action {
        OverQuotaAction::Suspend => true,
        OverQuotaAction::Report => false,
    }
}

/// Whether an AppWrapper is to be ended because it was seen to run more pods than were admitted.
pub fn is_to_end(draft: &Draft<'_>) -> bool {
    let conditions = &draft.facts.snapshot.status.conditions;
    ends(draft.facts.config) && condition::is_true(conditions, condition::PODS_OVER_QUOTA)
}

/// The pod sets that have too many pods, where every look has shown too many for the grace period: not the same pods all the
/// time, nor the same pod set, since pods that live for a moment only follow one another. While that is said, each pod set
/// with too many is named at once.
fn confirmed(draft: &mut Draft<'_>) -> Vec<String> {
    let holds_quota = condition::is_true(&draft.status.conditions, condition::QUOTA_RESERVED);
    if !holds_quota || mutations::is_present(Mutation::OverQuotaUnsaid) {
        return vec![];
    }
    let Facts { snapshot, config, now, .. } = draft.facts;
    let excesses = excesses(draft);
    let present = excesses.iter().map(|each| each.since).filter(|since| *since <= now).min();
    // nothing tells that there were too many all the time where calls failed meanwhile
    let known = snapshot.over_quota_since;
    let known = known.filter(|since| snapshot.last_gap.is_none_or(|gap| gap < *since));
    let first = present.map(|since| known.map_or(since, |it| it.min(since)));
    draft.over_quota_since = first;
    let grace = config.admission.pods_over_quota.grace;
    let is_said = condition::is_true(&snapshot.status.conditions, condition::PODS_OVER_QUOTA);
    let due_at = |each: &Excess| match first.filter(|_| each.since <= now) {
        Some(_) if is_said => now,
        Some(first) => grace.after(first),
        None => grace.after(each.since),
    };
    let (due, young): (Vec<_>, Vec<_>) = excesses.into_iter().partition(|each| due_at(each) <= now);
    for each in young {
        draft.look_again(due_at(&each));
    }
    due.into_iter().map(|each| each.what).collect()
}

/// The pod sets with too many pods; pods of no declared pod set are too many from the first one on.
fn excesses(draft: &Draft<'_>) -> Vec<Excess> {
    let snapshot = draft.facts.snapshot;
    let mut live: BTreeMap<_, Vec<&Pod>> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| pod.uses_quota()) {
        live.entry((pod.component, pod.pod_set)).or_default().push(pod);
    }
    let of = |((component, pod_set), pods): ((Option<usize>, Option<usize>), Vec<&Pod>)| {
        let component = component.and_then(|index| Some((index, snapshot.components.get(index)?)));
        let declared = component
            .zip(pod_set)
            .and_then(|((_, component), pod_set)| component.pod_sets.get(pod_set))
            .map_or(0, |pod_set| usize::try_from(pod_set.count()).unwrap_or(0));
        let since = counted_since(pods, declared, draft.facts.now);
        let count = since.iter().filter(|since| **since <= draft.facts.now).count();
        // all that count for longer count still, or they would not be here
        let since = *since.get(declared)?;
        let (pods, belong) = match count {
            1 => ("1 live pod".to_owned(), "belongs"),
            _ => (format!("{count} live pods"), "belong"),
        };
        let what = match (component, pod_set) {
            (Some((index, component)), Some(pod_set)) => {
                let title = component.title();
                let most = match declared {
                    0 => "none is declared".to_owned(),
                    1 => "only 1 is declared".to_owned(),
                    most => format!("only {most} are declared"),
                };
                format!("{title}: pod set {index}-{pod_set} has {pods}, but {most}")
            }
            (Some((_, component)), None) => {
                format!("{}: {pods} {belong} to no pod set", component.title())
            }
            (None, _) => format!("{pods} {belong} to no component"),
        };
        Some(Excess { what, since })
    };
    live.into_iter().filter_map(of).collect()
}

/// Since when, or from when on, each pod of a pod set counts, the first one first. A Terminating pod makes room for the one
/// that replaces it; no more of them do than are declared, those whose deletion was requested last. Where it is not known
/// when that was, it was when the pod was created.
fn counted_since(mut pods: Vec<&Pod>, declared: usize, now: Timestamp) -> Vec<Timestamp> {
    let created = |pod: &Pod| pod.created.unwrap_or(now);
    let requested = |pod: &Pod| pod.deletion_requested.unwrap_or_else(|| created(pod));
    pods.sort_by_cached_key(|pod| std::cmp::Reverse(pod.terminating.then(|| requested(pod))));
    let since = pods.into_iter().enumerate().map(|(index, pod)| {
        let makes_room = pod.terminating && index < declared;
        let from = if makes_room { TERMINATING_MAX.after(requested(pod)) } else { created(pod) };
        created(pod).max(from)
    });
    let mut since: Vec<Timestamp> = since.collect();
    since.sort_unstable();
    since
}
