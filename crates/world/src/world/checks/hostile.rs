//! What a hostile tenant can neither do to others nor get for itself.
//!
//! [`VICTIMS`] holds for every AppWrapper whose owner plays by the rules, in every world; [`ADVERSARY`] is
//! what is left of the invariants for the adversary's own, which only its harm to others and its use of
//! quota are judged by.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::calls::CallScope;
use super::liveness::{self, EndScope};
use super::{Check, Invariant, Scope, Violation, first};
use crate::api::Phase;
use crate::world::actors::{find_condition, is_true};
use crate::world::moment;
use crate::world::oracle::{State, Thing, Wrapper, decided};

/// The longest that a pause may last, with some room.
const PAUSE_MAX: Duration = Duration::from_hours(25);
/// How long an answer about somebody's rights is believed.
const ANSWERED_FOR: Duration = Duration::from_secs(10);
/// The least time between two restarts that are not counted.
const UNCOUNTED_FLOOR: Duration = Duration::from_secs(10);

/// The invariants of the victims.
pub const VICTIMS: &[Invariant<Check>] = &[
    ("S18", "a failure has a cause that belongs to the AppWrapper", own_cause),
    ("S19", "Succeeded only when everything required has succeeded", succeeded_by_right),
    ("S19", "every condition is allowed in the phase", in_the_table),
];

/// The invariants of the adversary's own AppWrapper.
pub const ADVERSARY: &[Invariant<Check>] = &[
    ("S2", "the adversary has no live pod without QuotaReserved", no_pod_without_quota),
    ("S6", "a forged restart count is not trusted", counted_from_zero),
    ("S11", "the adversary's finalizer is removed only when nothing is left", finalizer_last),
    ("S13", "uncounted restarts are at least 10 s apart", uncounted_slowly),
    ("L11", "a forged timestamp does not delay a restart", paused_by_right),
];

/// Checks a change; the first invariant that does not hold.
#[must_use]
pub fn check(scope: &Scope<'_>) -> Option<Violation> {
    first(if scope.wrapper.hostile { ADVERSARY } else { VICTIMS }, scope)
}

fn name(thing: &Thing) -> String {
    format!("{}/{}", thing.kind, thing.name)
}

/// The pod that is named as the cause of a failure belongs to the AppWrapper.
fn own_cause(scope: &Scope<'_>) -> Option<String> {
    let before = scope.change.before.as_ref().filter(|_| scope.is_own() && scope.ours)?;
    let cause = |value: &serde_json::Value| {
        decided(value).and_then(|attempt| attempt["failure"]["podUID"].as_str()).map(str::to_owned)
    };
    let now = cause(&scope.change.object.value)?;
    let is_new = cause(&before.value).as_ref() != Some(&now);
    let root = scope.oracle.root_of(&now);
    let wrong = root.map(|root| &**root) != Some(&*scope.change.object.uid);
    (is_new && wrong).then(|| format!("pod {now}"))
}

/// Of each component with pods, the object says so, or its expected pods have succeeded.
fn succeeded_by_right(scope: &Scope<'_>) -> Option<String> {
    let enters =
        scope.wrapper.state.phase == Phase::Succeeded && scope.before.phase != Phase::Succeeded;
    if !enters {
        return None;
    }
    let Wrapper { pod_sets, succeeded, .. } = scope.wrapper;
    let lacks = |(set, expected): &(&String, &i64)| {
        let part = set.split('-').next().and_then(|text| text.parse().ok());
        let done = part.is_some_and(|part: usize| succeeded.parts.contains(&part));
        let pods = succeeded.pods.get(*set).map_or(0, std::collections::BTreeSet::len);
        !done && i64::try_from(pods).unwrap_or(i64::MAX) < **expected
    };
    pod_sets.iter().find(lacks).map(|(set, expected)| format!("pod set {set} of {expected} pods"))
}

/// What a phase says of `PodsReady` and `DeletingResources`.
fn in_the_table(scope: &Scope<'_>) -> Option<String> {
    if !scope.is_own() || !scope.ours {
        return None;
    }
    let phase = scope.wrapper.state.phase;
    let is = |condition: &str| is_true(&scope.change.object.value, condition);
    let may_be_ready = matches!(phase, Phase::Running | Phase::Succeeded);
    let goes = matches!(
        phase,
        Phase::Resetting
            | Phase::Suspending
            | Phase::Terminating
            | Phase::Failed
            | Phase::Succeeded
    );
    let ready = is("PodsReady") && !may_be_ready;
    let deleting = is("DeletingResources") && !goes && scope.wrapper.components.going.is_empty();
    (ready || deleting).then(|| format!("{phase:?}: ready {ready}, deleting {deleting}"))
}

fn no_pod_without_quota(scope: &Scope<'_>) -> Option<String> {
    let State { quota, phase, .. } = scope.wrapper.state;
    // what its owner has written there is its owner's
    if quota || scope.wrapper.forged_at.is_some() {
        return None;
    }
    let live = scope.wrapper.rightful().find(|thing| thing.is_live_pod())?;
    Some(format!("{phase:?} with {}", name(live)))
}

fn counted_from_zero(scope: &Scope<'_>) -> Option<String> {
    let (before, after) = (scope.before.count, scope.wrapper.state.count);
    // a negative count is written anew as 0
    let wrong = scope.is_own() && scope.ours && before != after;
    let wrong = wrong && (after < 0 || (after == 0 && before > 0));
    wrong.then(|| format!("{before} → {after}"))
}

fn finalizer_last(scope: &Scope<'_>) -> Option<String> {
    let went = scope.ours && scope.before.finalizer && !scope.wrapper.state.finalizer;
    // what its owner has written there is its owner's
    let went = went && scope.wrapper.forged_at.is_none();
    let left = scope.wrapper.rightful().find(|thing| is_left(thing)).filter(|_| went)?;
    Some(name(left))
}

/// Whether a thing of the adversary's must be gone before its AppWrapper goes. A pod that has ended, and that
/// its owner's own hand has left without a controller, uses no quota; an object that was orphaned before its UID
/// was recorded was left on purpose.
fn is_left(thing: &Thing) -> bool {
    thing.is_live_pod() || thing.component && !thing.pod && !thing.unproven
}

/// From one attempt's begin to the next, where nothing was counted and nobody suspended it in between.
fn uncounted_slowly(scope: &Scope<'_>) -> Option<String> {
    let wrapper = scope.wrapper;
    let (before, after) = (scope.before.phase, wrapper.state.phase);
    if before != Phase::Resetting || after != Phase::Resuming || wrapper.forged_at.is_some() {
        return None;
    }
    let attempt = decided(&scope.change.object.value)?;
    // one that the annotation `active` has ended since follows no restart
    let is_last = attempt["attempt"].as_i64().unwrap_or(0) + 1 == wrapper.state.attempt;
    if attempt["action"] != "RestartIgnoringLimit" || !is_last {
        return None;
    }
    let waited = wrapper.deployed_at.saturating_sub(wrapper.deployed_before?);
    (waited + scope.slack < UNCOUNTED_FLOOR).then(|| format!("after {waited:?}"))
}

/// A pause ends in time, counted from when everything was gone, or from what was forged last.
fn paused_by_right(scope: &Scope<'_>) -> Option<String> {
    let wrapper = scope.wrapper;
    let resumes = scope.before.phase == Phase::Resetting && wrapper.state.phase == Phase::Resuming;
    if !resumes || !scope.oracle.calm {
        return None;
    }
    let old = &scope.change.before.as_ref()?.value["status"];
    let gone: Timestamp = old["since"]["gone"].as_str()?.parse().ok()?;
    let entered = scope.elapsed.saturating_sub(wrapper.lasted);
    let begun = gone.max(moment(entered.max(wrapper.forged_at.unwrap_or_default())));
    let until = begun.checked_add(PAUSE_MAX).ok()?;
    (moment(scope.elapsed) > until).then(|| format!("after {until}"))
}

/// The controller let an AppWrapper go.
#[must_use]
pub fn let_go(gone: &Wrapper) -> Option<Violation> {
    let left = gone
        .rightful()
        .find(|thing| if gone.hostile { is_left(thing) } else { thing.component || thing.pod })?;
    let judged = gone.state.finalizer && (gone.sane || gone.hostile && gone.forged_at.is_none());
    judged.then(|| Violation {
        invariant: "S11",
        sentence: "an AppWrapper is removed only when nothing is left",
        seen: name(left),
    })
}

/// A call that goes past what a look is about.
#[must_use]
pub fn check_call(scope: &CallScope<'_>) -> Option<Violation> {
    let violation = |invariant, sentence, seen| Some(Violation { invariant, sentence, seen });
    if let Some(seen) = strays(scope) {
        return violation("S18", "a reconcile writes and deletes only its own objects", seen);
    }
    if let Some(seen) = deleted_in_use(scope) {
        return violation("S18", "no object of a victim is deleted while it should run", seen);
    }
    if let Some(seen) = unauthorised(scope) {
        return violation("S17", "the requester may create every object that is created", seen);
    }
    None
}

/// A write of another AppWrapper, or a deletion of something of another.
fn strays(scope: &CallScope<'_>) -> Option<String> {
    let key = scope.key?;
    let is_key = |wrapper: &Wrapper| {
        *wrapper.address.namespace == *key.namespace && *wrapper.address.name == *key.name
    };
    if scope.call.is_write() && scope.target.is_wrapper() {
        let own = scope.target.namespace == key.namespace && scope.target.name == key.name;
        return (!own).then(|| scope.call.uri.clone());
    }
    if scope.call.method != http::Method::DELETE {
        return None;
    }
    let object = scope.store.get(&scope.target.address(scope.store)?)?;
    let wrapper = scope.oracle.wrappers.get(scope.oracle.root_of(&object.uid)?)?;
    let hits = scope.body["preconditions"]["uid"] == *object.uid;
    (hits && !is_key(wrapper)).then(|| format!("{} of {}", scope.call.uri, wrapper.address.name))
}

/// A deletion of what a stored phase wants to be there.
fn deleted_in_use(scope: &CallScope<'_>) -> Option<String> {
    if scope.call.method != http::Method::DELETE || scope.replaced {
        return None;
    }
    let object = scope.store.get(&scope.target.address(scope.store)?)?;
    let wrapper = scope.oracle.wrappers.get(scope.oracle.root_of(&object.uid)?)?;
    let thing = wrapper.things.get(&object.uid)?;
    let runs = matches!(wrapper.state.phase, Phase::Resuming | Phase::Running);
    let goes = thing.part.is_some_and(|part| wrapper.components.going.contains_key(&part));
    let current = thing.attempt == wrapper.state.attempt && !thing.late;
    let hits = scope.body["preconditions"]["uid"] == *object.uid;
    // one that is being deleted already may be forced: S14 says when
    let wrong = hits && wrapper.sane && runs && current && !goes && !object.is_deleting();
    wrong.then(|| format!("{} in {:?}", scope.call.uri, wrapper.state.phase))
}

/// A creation that its requester was not asked about lately, or may not do.
fn unauthorised(scope: &CallScope<'_>) -> Option<String> {
    let owner = &scope.body["metadata"]["ownerReferences"][0];
    if scope.call.method != http::Method::POST || owner["kind"] != "AppWrapper" || scope.replaced {
        return None;
    }
    let wrapper = scope.oracle.wrappers.get(owner["uid"].as_str()?)?;
    let user = wrapper.requester.clone()?;
    let resource = scope.target.plural.clone();
    let seen = format!("{} for {user}", scope.call.uri);
    match scope.oracle.reviews.get(&(user, resource)) {
        Some((at, true)) if *at + ANSWERED_FOR + scope.slack >= scope.elapsed => None,
        Some(_) | None => Some(seen),
    }
}

/// What must hold even if the adversary keeps the world from becoming idle.
const ENDLESS: &[Invariant<liveness::Check>] =
    &[("L11", "a forged timestamp does not delay a restart", nothing_for_ever)];

/// What must hold at the end.
const ENDS: &[Invariant<liveness::Check>] = &[
    ("L3", "a deleted AppWrapper of the adversary is removed", deleted),
    ("S11", "an AppWrapper with deployed resources has the finalizer", finalizer_is_back),
    ("S21", "more pods than were admitted are reported", over_quota_is_said),
];

/// Checks the end of a world that has come to rest.
#[must_use]
pub fn check_end(scope: &EndScope<'_>) -> Option<Violation> {
    check_endless(scope).or_else(|| first(ENDS, scope))
}

/// Checks the end of a world that the adversary keeps from coming to rest.
#[must_use]
pub fn check_endless(scope: &EndScope<'_>) -> Option<Violation> {
    first(ENDLESS, scope)
}

fn hostile<'a>(scope: &EndScope<'a>) -> impl Iterator<Item = &'a Wrapper> {
    scope.oracle.wrappers.values().filter(|wrapper| wrapper.hostile)
}

fn deleted(scope: &EndScope<'_>) -> Option<String> {
    let waits = |wrapper: &&Wrapper| wrapper.state.deleting && !names_pods(scope, wrapper);
    let wrapper = hostile(scope).find(waits)?;
    Some(format!("{} in {:?}", wrapper.address.name, wrapper.state.phase))
}

/// No pause before a retry is longer than the longest period that can be configured.
fn nothing_for_ever(scope: &EndScope<'_>) -> Option<String> {
    let waits = |wrapper: &&Wrapper| {
        let lasted = scope.elapsed.saturating_sub(wrapper.entered);
        wrapper.state.phase == Phase::Resetting && lasted > PAUSE_MAX && !names_pods(scope, wrapper)
    };
    let wrapper = hostile(scope).find(waits)?;
    Some(format!("{} in Resetting since {:?}", wrapper.address.name, wrapper.entered))
}

/// Whether it says that it waits for pods of which it cannot be told whose they are: its owner's own hand has
/// made them so.
fn names_pods(scope: &EndScope<'_>, wrapper: &Wrapper) -> bool {
    let object = scope.store.get(&wrapper.address);
    let deleting = object.and_then(|object| find_condition(&object.value, "DeletingResources"));
    deleting.is_some_and(|condition| condition["reason"] == "UndeterminedPods")
}

fn finalizer_is_back(scope: &EndScope<'_>) -> Option<String> {
    let bare = |wrapper: &&Wrapper| {
        let State { finalizer, deleting, deployed, .. } = wrapper.state;
        let live = wrapper.rightful().any(Thing::is_live_pod);
        !finalizer && !deleting && deployed && live && wrapper.forged_at.is_none()
    };
    let wrapper = hostile(scope).find(bare)?;
    Some(format!("{} in {:?}", wrapper.address.name, wrapper.state.phase))
}

/// True where there are more live pods of a pod set than were declared, and nowhere else.
fn over_quota_is_said(scope: &EndScope<'_>) -> Option<String> {
    let all = scope.oracle.wrappers.values().filter(|wrapper| wrapper.sane || wrapper.hostile);
    let running =
        |wrapper: &&Wrapper| wrapper.state.phase == Phase::Running && wrapper.forged_at.is_none();
    all.filter(running).find_map(|wrapper| {
        let object = scope.store.get(&wrapper.address)?;
        // what was hidden from the controller at once may be counted or not
        let mut things = wrapper.things.iter();
        let orphaned =
            |uid: &str| scope.store.by_uid(uid).is_none_or(|it| it.controller().is_none());
        if things.any(|(uid, thing)| thing.escaped || thing.pod && orphaned(uid)) {
            return None;
        }
        let said = is_true(&object.value, "PodsOverQuota");
        // one that is Terminating counts after a while
        let mut live: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        for thing in wrapper.rightful().filter(|thing| thing.is_live_pod()) {
            let (certain, all) =
                live.entry(thing.pod_set.as_deref().unwrap_or_default()).or_default();
            *certain += i64::from(!thing.terminating);
            *all += 1;
        }
        let is_over = |set: &str, count: i64| {
            wrapper.pod_sets.get(set).is_some_and(|declared| count > *declared)
        };
        let over = live.iter().find(|(set, (certain, _))| is_over(set, *certain));
        match over {
            Some((set, (certain, _))) if !said => {
                Some(format!("{certain} pods of {set} of {}", wrapper.address.name))
            }
            None if said && !live.iter().any(|(set, (_, all))| is_over(set, *all)) => {
                let why = find_condition(&object.value, "PodsOverQuota")
                    .map(|one| one["message"].to_string());
                Some(format!(
                    "{} has none too many: {}",
                    wrapper.address.name,
                    why.unwrap_or_default()
                ))
            }
            Some(_) | None => None,
        }
    })
}
