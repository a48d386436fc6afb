//! `mutate.memory`: the next attempt has more of it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::build::{failed, running, said};
use crate::api::{PendingMemory, Phase, condition};
use crate::decide::Decision;
use crate::decide::tests::given::{World, at};
use crate::plan::{Action, FreshRead};
use crate::quantity::Bytes;
use crate::snapshot::{ContainerMemory, PodTemplate};

const GROW: &str = "{backoff: {initialDelay: 5s}, rules: [{name: oom, action: Retry, \
                    onExitCodes: {operator: In, values: [137]}, \
                    mutate: {memory: {factor: 1.5, max: 100Mi}}}]}";

fn mib(amount: u64) -> Bytes {
    Bytes(amount << 20)
}

/// A Job that failed with code 137, with a container of this request and limit.
fn job(request: Option<u64>, limit: Option<u64>) -> World {
    let world = running(&["Job/work:1", "Job/other:1"]).retry_policy("p", GROW);
    let world = world.with(failed(0).code(137)).fails(0, "BackoffLimitExceeded", "", 25);
    with_memory(world, request.map(mib), limit.map(mib))
}

fn with_memory(world: World, request: Option<Bytes>, limit: Option<Bytes>) -> World {
    world.component(0, |component| {
        let main = ContainerMemory { name: "main".into(), request, limit };
        component.templates = vec![PodTemplate { containers: vec![main], ..Default::default() }];
    })
}

fn pending(world: &World) -> Vec<PendingMemory> {
    world.decide(25).status.pending_memory
}

fn amounts(world: &World) -> Option<(Option<String>, Option<String>)> {
    pending(world).into_iter().next().map(|one| (one.request, one.limit))
}

#[test]
fn requests_and_limits_grow_by_the_factor_up_to_the_maximum() {
    let text = |amount: &str| Some(amount.to_owned());
    for (what, request, limit, want) in [
        ("both", Some(32), Some(64), Some((text("48Mi"), text("96Mi")))),
        ("up to the maximum", Some(64), Some(80), Some((text("96Mi"), text("100Mi")))),
        ("only a request", Some(32), None, Some((text("48Mi"), None))),
        ("only a limit", None, Some(32), Some((None, text("48Mi")))),
        ("already at the maximum", Some(100), Some(100), None),
        ("above the maximum: it never shrinks", Some(200), Some(200), None),
        ("none is asked for", None, None, None),
    ] {
        assert_eq!(amounts(&job(request, limit)), want, "{what}");
    }
    let events = job(Some(32), Some(64)).decide(25).events;
    let told = |event: &crate::decide::Warning| {
        event.message.contains("Restarting with memory 96Mi (container main): ")
    };
    assert!(events.iter().any(told), "{events:?}");
    let of = pending(&job(Some(32), None));
    assert_eq!((of[0].component, of[0].pod_set, of[0].container.as_str()), (0, 0, "main"));
}

#[test]
fn growth_compounds_from_attempt_to_attempt() {
    let mut sizes = vec![];
    let mut limit = 20;
    for _ in 0..4 {
        let Some((_, Some(text))) = amounts(&job(None, Some(limit))) else { break };
        let grown: Bytes = text.parse().unwrap();
        limit = grown.0 >> 20;
        sizes.push(limit);
    }
    assert_eq!(sizes, [30, 45, 67, 100]);
}

#[test]
fn only_a_retry_by_that_rule_grows() {
    let other = "{rules: [{action: Retry, onExitCodes: {operator: In, values: [137]}}]}";
    let world = with_memory(running(&["Job/work:1"]), Some(mib(32)), None);
    let world = world.with(failed(0).code(137)).fails(0, "BackoffLimitExceeded", "", 25);
    assert!(pending(&world.clone().retry_policy("p", other)).is_empty());
    let refused = world.retry_policy("p", GROW).retries(20);
    assert_eq!(said(&refused.decide(25)), "Fail retryLimit/p/oom#0 20 of 20");
    assert!(pending(&refused).is_empty());
}

#[test]
fn a_queue_managed_app_wrapper_goes_back_through_kueue() {
    let mut world = job(Some(32), Some(32));
    world.snapshot.queue_managed = true;
    let decision = world.decide(25);
    assert_eq!(said(&decision), "Restart retryPolicy/p/oom#0 0 of 20");
    assert_eq!((decision.next, decision.actions.len()), (Phase::Suspending, 0));
    assert_eq!(decision.status.resetting_count, 1);
    let suspending = world.written(&decision);
    let writes_memory = |decision: &Decision| {
        decision.actions.iter().any(|action| matches!(action, Action::GrowMemory { .. }))
    };
    // Kueue frees the quota of another size at once, without a look at the pods
    for (what, deleting) in [
        ("nothing is deleted yet", suspending.clone()),
        ("Kueue evicts meanwhile", suspending.clone().suspended(true)),
        (
            "deletion is forced",
            suspending.clone().since(|since| since.deleting = Some(Time(at(-900)))),
        ),
    ] {
        let said = deleting.decide(26);
        let decision = deleting.written(&said).decide(26);
        assert_eq!((decision.next, writes_memory(&decision)), (Phase::Suspending, false), "{what}");
        assert!(!decision.actions.is_empty(), "{what}: it is deleted");
    }
    let unsure = suspending.clone().all_gone().answered(FreshRead::Missing).decide(40);
    assert_eq!(
        (unsure.ask, writes_memory(&unsure)),
        (FreshRead::Gone, false),
        "a LIST must show it"
    );
    let early = suspending.clone().all_gone().decide(40);
    assert_eq!(early.actions, [Action::GrowMemory { suspend: true }]);
    assert_eq!(early.next, Phase::Suspending, "not before the growth is written");
    let grown = with_memory(suspending.suspended(true), Some(mib(48)), Some(mib(48)));
    assert!(!writes_memory(&grown.decide(27)));
    let suspended = grown.clone().all_gone().decide(40);
    assert_eq!(suspended.next, Phase::Suspended);
    assert!(suspended.status.pending_memory.is_empty());
    assert_eq!(suspended.status.resetting_count, 1, "the count stays");
    let mut refused = grown.suspended(false).all_gone();
    refused.snapshot.growth_refused = Some("exceeded quota".into());
    for (suspend, want) in [
        (false, "All resources are deleted"),
        (true, "spec.suspend is true; all resources are deleted"),
    ] {
        let decision = refused.clone().suspended(suspend).decide(40);
        assert_eq!((decision.next, decision.verdict.message.as_str()), (Phase::Suspended, want));
        for kind in [condition::QUOTA_RESERVED, condition::RESOURCES_DEPLOYED] {
            let said = condition::find(&decision.status.conditions, kind).unwrap();
            assert_eq!((said.status.as_str(), said.message.as_str()), ("False", want), "{kind}");
        }
    }
}

#[test]
fn what_multikueue_created_is_retried_with_the_memory_that_it_has() {
    let mut world = job(Some(32), Some(32));
    world.snapshot.queue_managed = true;
    world.snapshot.has_manager = true;
    let decision = world.decide(25);
    assert_eq!(said(&decision), "Restart retryPolicy/p/oom#0 0 of 20");
    assert_eq!(decision.next, Phase::Resetting);
    assert!(decision.status.pending_memory.is_empty());
    assert!(decision.events.iter().any(|event| event.reason == "MemoryNotGrown"));
}

#[test]
fn with_a_prebuilt_workload_a_retry_has_the_memory_that_it_has() {
    for (queue_managed, grows) in [(true, false), (false, true)] {
        let mut world = job(Some(32), Some(32));
        world.snapshot.queue_managed = queue_managed;
        world.snapshot.is_prebuilt = true;
        let decision = world.decide(25);
        assert_eq!(said(&decision), "Restart retryPolicy/p/oom#0 0 of 20");
        assert_eq!(decision.next, Phase::Resetting);
        assert_eq!(!decision.status.pending_memory.is_empty(), grows);
        let event = decision.events.iter().find(|event| event.reason == "MemoryNotGrown");
        assert_eq!(event.is_some_and(|it| it.message.contains("a prebuilt Workload")), !grows);
    }
}

#[test]
fn memory_that_does_not_reach_the_pods_stays_and_an_event_says_why() {
    for (why, want) in [(None, false), (Some("the operator has its own"), true)] {
        let world = job(None, None).component(0, |one| one.templates[0].memory_stays = why);
        let decision = world.decide(25);
        assert_eq!(said(&decision), "Restart retryPolicy/p/oom#0 0 of 20");
        assert!(decision.status.pending_memory.is_empty());
        let event = decision.events.iter().find(|event| event.reason == "MemoryNotGrown");
        assert_eq!(event.is_some_and(|it| it.message.contains("has its own")), want, "{why:?}");
    }
}

#[test]
fn kueues_readmission_does_not_cut_the_delay_short() {
    let mut world = job(Some(32), Some(32));
    world.snapshot.queue_managed = true;
    let decision = world.decide(21);
    let world = with_memory(world.written(&decision).suspended(true), Some(mib(48)), Some(mib(48)));
    let suspended = world.all_gone();
    let decision = suspended.decide(22);
    let admitted = suspended.written(&decision).suspended(false).with_finalizer();
    assert_eq!(admitted.decide(24).next, Phase::Suspended, "until second 25");
    assert_eq!(admitted.decide(25).next, Phase::Resuming);
}

#[test]
fn at_the_maximum_it_is_an_ordinary_reset() {
    let mut world = job(Some(100), Some(100));
    world.snapshot.queue_managed = true;
    let decision = world.decide(25);
    assert_eq!(decision.next, Phase::Resetting);
    assert_eq!(said(&decision), "Restart retryPolicy/p/oom#0 0 of 20");
}

#[test]
fn without_a_queue_it_is_written_in_resetting_before_it_resumes() {
    let world = job(Some(32), Some(32));
    let decision = world.decide(25);
    assert_eq!(decision.next, Phase::Resetting);
    let gone = world.written(&decision).all_gone();
    let noted = gone.decide(30);
    let gone = gone.written(&noted);
    let decision = gone.decide(31);
    assert_eq!(decision.actions, [Action::GrowMemory { suspend: false }]);
    assert_eq!(decision.next, Phase::Resetting, "the templates do not show it yet");
    let grown = with_memory(gone, Some(mib(48)), Some(mib(48)));
    let resumed = grown.decide(32);
    assert_eq!((resumed.next, resumed.actions.len()), (Phase::Resuming, 0));
    assert!(resumed.status.pending_memory.is_empty());
}

#[test]
fn growth_that_is_refused_is_given_up_with_an_event() {
    let world = job(Some(32), Some(32));
    let decision = world.decide(25);
    let gone = world.written(&decision).all_gone();
    let mut refused = gone.settled(30);
    refused.snapshot.growth_refused = Some("exceeded quota".into());
    let decision = refused.decide(31);
    assert_eq!(decision.next, Phase::Resuming);
    assert!(decision.status.pending_memory.is_empty());
    let event = decision.events.iter().find(|event| event.reason == "MemoryNotGrown").unwrap();
    assert!(event.message.contains("exceeded quota"));
}

#[test]
fn memory_grows_by_no_more_than_a_policy_asks_for() {
    let text = |amount: &str| Some(amount.to_owned());
    for (what, container, request, limit, is_kept) in [
        ("what the rule asks for", "main", text("48Mi"), text("96Mi"), true),
        ("less", "main", text("40Mi"), text("64Mi"), true),
        ("already written", "main", text("32Mi"), text("64Mi"), true),
        ("more", "main", text("49Mi"), text("96Mi"), false),
        ("beyond the maximum", "main", text("48Mi"), text("101Mi"), false),
        ("shrinks", "main", text("1Mi"), text("96Mi"), false),
        ("where nothing is requested", "main", text("48Mi"), None, false),
        ("no amount", "main", text("-1"), text("96Mi"), false),
        ("no such container", "other", text("48Mi"), text("96Mi"), false),
    ] {
        let mut world = job(Some(32), Some(64));
        world.snapshot.status.pending_memory = vec![PendingMemory {
            container: container.into(),
            request,
            limit,
            ..Default::default()
        }];
        // nothing has failed that would ask for memory anew
        world.snapshot.pods.clear();
        world.snapshot.suspend = true;
        let decision = world.decide(25);
        let kept = decision.status.pending_memory == world.snapshot.status.pending_memory;
        assert_eq!(kept, is_kept, "{what}");
        let warned = decision.events.iter().any(|event| event.reason == "InvalidStatus");
        assert_eq!(warned, !is_kept, "{what}");
    }
}

/// A retry with more memory that Kueue has to admit again, with everything gone; the policy has no backoff unless one is
/// given.
fn going_back(backoff: &str, change: impl FnOnce(&mut World)) -> World {
    let policy = GROW.replace("backoff: {initialDelay: 5s},", backoff);
    let mut world = with_memory(running(&["Job/work:1"]), Some(mib(32)), None);
    world.snapshot.queue_managed = true;
    let world = world.with(failed(0).code(137)).fails(0, "BackoffLimitExceeded", "", 25);
    let world = world.retry_policy("p", &policy);
    let decision = world.decide(25);
    assert_eq!(decision.next, Phase::Suspending);
    let mut world = world.written(&decision).suspended(true).all_gone();
    change(&mut world);
    world
}

#[test]
fn without_a_backoff_the_pause_runs_from_when_everything_is_gone_also_where_memory_grows() {
    let grown = |world: &mut World| *world = with_memory(world.clone(), Some(mib(48)), None);
    let refused = |world: &mut World| world.snapshot.growth_refused = Some("no".into());
    let no_pause = |world: &mut World| {
        grown(world);
        world.limits.retry_pause = crate::tuning::Period::ZERO;
    };
    let no_queue = |world: &mut World| {
        grown(world);
        world.snapshot.queue_managed = false;
    };
    for (what, world, want) in [
        ("the pause", going_back("", grown), Some(130)),
        ("… also where the growth is refused", going_back("", refused), Some(130)),
        ("there is none", going_back("", no_pause), None),
        ("a user suspends", going_back("", no_queue), None),
        ("a backoff", going_back("backoff: {initialDelay: 5s},", grown), Some(25)),
    ] {
        let suspended = world.decide(40);
        assert_eq!(suspended.next, Phase::Suspended, "{what}");
        let until = suspended.status.retry_after.as_ref().map(|time| time.0);
        assert_eq!(until, want.map(at), "{what}");
        let admitted = world.written(&suspended).suspended(false).with_finalizer();
        let waits = if want > Some(41) { Phase::Suspended } else { Phase::Resuming };
        let next = |second| admitted.decide(second).next;
        assert_eq!((next(41), next(130)), (waits, Phase::Resuming), "{what}");
    }
}

#[test]
fn what_rests_on_policies_stays_until_they_are_listed() {
    let unlisted = |world: &mut World| {
        world.snapshot.retry.policies.clear();
        world.snapshot.retry.unlisted = true;
        let until = at(9_000_000);
        world.snapshot.status.retry_after = Some(Time(until));
    };
    let world = going_back("", unlisted);
    let suspended = world.decide(40);
    assert_eq!(suspended.next, Phase::Suspended, "no deletion waits for policies");
    assert_eq!(suspended.actions, [], "nor does memory grow by the status alone");
    assert_eq!(suspended.events, []);
    let stored = &world.snapshot.status;
    assert_eq!(suspended.status.pending_memory, stored.pending_memory);
    assert_eq!(suspended.status.retry_after, stored.retry_after);
    // they are listed, and Kueue has admitted it as it was
    let listed =
        world.written(&suspended).suspended(false).with_finalizer().retry_policy("p", GROW);
    let mut listed = listed.clone().written(&listed.decide(41));
    listed.snapshot.retry.unlisted = false;
    listed.snapshot.status.retry_after = None;
    assert_eq!(listed.decide(42).actions, [Action::GrowMemory { suspend: true }]);
    let grown = with_memory(listed, Some(mib(48)), None).decide(43);
    assert_eq!((grown.next, grown.status.pending_memory.len()), (Phase::Resuming, 0));
}
