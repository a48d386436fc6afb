use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::observe::assemble;
use crate::observe::records::Identity;
use crate::snapshot::PodPhase;

fn controller(api_version: &str, kind: &str, name: &str, uid: &str) -> Controller {
    Controller {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        uid: uid.into(),
    }
}

fn job(uid: &str) -> Controller {
    controller("batch/v1", "Job", uid, uid)
}

fn us() -> Controller {
    controller("workload.codeflare.dev/v1beta2", "AppWrapper", "aw", "aw")
}

fn component(api_version: &str, kind: &str, name: &str) -> Component {
    Component {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        ..Component::default()
    }
}

/// A pod named `p` of UID `p`, with what its owner reference and its UID label say.
fn pod(owner: Option<Controller>, label: Option<&str>) -> PodRecord {
    let identity = Identity {
        name: "p".into(),
        uid: "p".into(),
        controller: owner,
        appwrapper_uid: label.map(str::to_owned),
        ..Identity::default()
    };
    PodRecord { identity, pod_set: Some((0, 1)), ..PodRecord::default() }
}

/// A `JobSet` js of UID `js-uid`, a ConfigMap, and a Pod that was not created yet.
struct World {
    roots: BTreeMap<String, Option<usize>>,
    components: Vec<Component>,
    kin: Kin,
}

impl World {
    fn new() -> Self {
        let roots = [("aw", None), ("js-uid", Some(0)), ("cm-uid", Some(1))];
        Self {
            roots: roots.into_iter().map(|(uid, index)| (uid.to_owned(), index)).collect(),
            components: vec![
                component("jobset.x-k8s.io/v1alpha2", "JobSet", "js"),
                component("v1", "ConfigMap", "cm"),
                component("v1", "Pod", "wrapped"),
            ],
            kin: Kin::default(),
        }
    }

    fn ancestors() -> Ancestors {
        Ancestors::from([
            (job("job"), Ancestor::Exists(Some(js("js-uid")))),
            (job("deep"), Ancestor::Exists(Some(job("job")))),
            (job("theirs"), Ancestor::Exists(None)),
            (job("other"), Ancestor::Exists(Some(js("other-uid")))),
            (js("other-uid"), Ancestor::Exists(None)),
            (job("js-alone"), Ancestor::Exists(None)),
            (job("js-moved"), Ancestor::Exists(Some(job("theirs")))),
            (job("gone"), Ancestor::Gone),
            (job("js-gone"), Ancestor::Gone),
            (js("gone-uid"), Ancestor::Exists(Some(us()))),
            (job("forged"), Ancestor::Exists(Some(us()))),
            (job("loop"), Ancestor::Exists(Some(job("loop")))),
            (controller("v1", "ConfigMap", "js", "js-uid"), Ancestor::Gone),
            (controller("v1", "Secret", "s", "s"), Ancestor::Unknown(Doubt::Forbidden)),
            (controller("x/v1", "Y", "y", "y"), Ancestor::Unknown(Doubt::UnknownKind)),
            (job("away"), Ancestor::Unknown(Doubt::Unavailable)),
            (job("late"), Ancestor::Unknown(Doubt::Unread)),
            (workers_of("leader"), Ancestor::Exists(Some(leader("leader")))),
            (workers_of("other"), Ancestor::Exists(Some(leader("other")))),
        ])
    }

    fn of(&self, pod: &PodRecord) -> Lineage {
        let Self { roots, components, kin } = self;
        Family::new("aw", roots, components, kin).lineage(pod, &Self::ancestors())
    }
}

fn js(uid: &str) -> Controller {
    controller("jobset.x-k8s.io/v1alpha2", "JobSet", "js", uid)
}

/// The leader of a group of a LeaderWorkerSet.
fn leader(name: &str) -> Controller {
    controller("v1", "Pod", name, "leader-uid")
}

/// The StatefulSet of the workers of a leader.
fn workers_of(leader: &str) -> Controller {
    controller("apps/v1", "StatefulSet", leader, leader)
}

fn ours(component: usize, links: &[Controller]) -> Lineage {
    let pod_set = (component == 0).then_some(1);
    let place = Place { component: Some(component), pod_set, attempt: None };
    Lineage::Ours(Ours { place, links: links.to_vec(), detached: false })
}

#[test]
fn a_pod_is_ours_by_a_chain_of_owners_alone() {
    use Lineage::{Stranger, Undetermined};
    let world = World::new();
    let aw = Some("aw");
    for (owner, label, want) in [
        // a chain that leads to a component
        (Some(js("js-uid")), aw, ours(0, &[])),
        (Some(js("js-uid")), None, ours(0, &[])),
        (Some(job("job")), aw, ours(0, &[job("job")])),
        (Some(job("job")), None, ours(0, &[job("job")])),
        (Some(job("deep")), None, ours(0, &[job("deep"), job("job")])),
        // a component that the roots do not have yet, by its name under the AppWrapper
        (Some(js("gone-uid")), aw, ours(0, &[])),
        // the label of another AppWrapper
        (Some(job("job")), Some("other"), Stranger),
        // under the AppWrapper there are its components and nothing else
        (Some(us()), aw, Stranger),
        (Some(job("forged")), aw, Stranger),
        (Some(controller("v1", "Node", "aw", "aw")), aw, Stranger),
        // a ConfigMap controls no pods
        (Some(controller("v1", "ConfigMap", "cm", "cm-uid")), aw, Stranger),
        // a component's UID under another kind or name is no reference to it
        (Some(controller("v1", "ConfigMap", "js", "js-uid")), aw, Undetermined(Doubt::OwnerGone)),
        (Some(controller("v1", "ConfigMap", "js", "js-uid")), None, Stranger),
        (Some(job("js-uid")), aw, Lineage::Unread(job("js-uid"))),
        // somebody else's
        (Some(job("theirs")), aw, Stranger),
        (Some(job("other")), aw, Undetermined(Doubt::OwnerDetached)),
        (Some(job("other")), None, Stranger),
        (Some(job("loop")), aw, Stranger),
        // it looks like one that a component made, and nothing controls it
        (Some(job("js-alone")), aw, Undetermined(Doubt::OwnerDetached)),
        (Some(job("js-alone")), None, Stranger),
        (Some(job("js-alone")), Some("other"), Stranger),
        (Some(job("js-moved")), aw, Stranger),
        // it looks like a component
        (Some(js("other-uid")), aw, Undetermined(Doubt::OwnerDetached)),
        // it cannot be told
        (Some(job("gone")), aw, Undetermined(Doubt::OwnerGone)),
        (Some(job("gone")), None, Stranger),
        (Some(job("js-gone")), aw, Undetermined(Doubt::Outlived)),
        (Some(job("js-gone")), None, Undetermined(Doubt::Outlived)),
        (Some(job("js-gone")), Some("other"), Stranger),
        (Some(controller("v1", "Secret", "s", "s")), aw, Undetermined(Doubt::Forbidden)),
        (Some(controller("v1", "Secret", "s", "s")), None, Undetermined(Doubt::Forbidden)),
        (Some(controller("v1", "Secret", "s", "s")), Some("other"), Stranger),
        (Some(controller("x/v1", "Y", "y", "y")), aw, Undetermined(Doubt::UnknownKind)),
        (Some(job("away")), aw, Undetermined(Doubt::Unavailable)),
        (Some(job("late")), aw, Undetermined(Doubt::Unread)),
        (None, aw, Undetermined(Doubt::NoOwner)),
        (None, None, Stranger),
        (Some(job("new")), aw, Lineage::Unread(job("new"))),
    ] {
        let got = world.of(&pod(owner.clone(), label));
        assert_eq!(got, want, "{owner:?} {label:?}");
    }
}

/// The Go controller writes no UID anywhere; this one records that of each component.
#[test]
fn a_pod_without_our_uid_holds_only_what_the_go_controller_has_begun() {
    let mut world = World::new();
    let orphaned = pod(Some(job("js-gone")), None);
    assert_eq!(world.of(&orphaned), Lineage::Undetermined(Doubt::Outlived));
    world.components[0].recorded = Some("js-uid".into());
    assert_eq!(world.of(&orphaned), Lineage::Stranger);
}

#[test]
fn a_wrapped_pod_is_known_by_its_name_under_the_appwrapper_or_its_uid() {
    let mut world = World::new();
    let mut wrapped = pod(Some(us()), Some("aw"));
    wrapped.identity.name = "wrapped".into();
    assert_eq!(world.of(&wrapped), ours(2, &[]));
    let bare = pod(None, None);
    assert_eq!(world.of(&bare), Lineage::Stranger);
    world.roots.insert("p".into(), Some(2));
    assert_eq!(world.of(&bare), ours(2, &[]), "its UID is recorded");
    // a Pod controls no pods
    let below = pod(Some(controller("v1", "Pod", "wrapped", "p")), Some("aw"));
    let below =
        PodRecord { identity: Identity { uid: "q".into(), ..below.identity.clone() }, ..below };
    assert_eq!(world.of(&below), Lineage::Stranger);
}

#[test]
fn a_leader_that_is_ours_leads_to_us_and_is_not_read_again() {
    let mut world = World::new();
    let worker = pod(Some(workers_of("leader")), Some("aw"));
    world.components.push(component("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws"));
    assert_eq!(world.of(&worker), Lineage::Unread(leader("leader")), "it was not seen yet");
    let place = |component| Place { component: Some(component), ..Place::default() };
    world.kin.put_pod("leader-uid", "leader", &place(3));
    assert_eq!(world.of(&worker), ours(3, &[workers_of("leader"), leader("leader")]));
    let of_another = pod(Some(workers_of("other")), Some("aw"));
    assert_eq!(world.of(&of_another), Lineage::Unread(leader("other")), "another name");
    let World { roots, components, kin } = &world;
    let family = Family::new("aw", roots, components, kin);
    assert!(family.is_known(&leader("leader")) && !family.is_known(&leader("other")));
    // pods of a JobSet own no pods
    world.kin.forget("leader-uid");
    world.kin.put_pod("leader-uid", "leader", &place(0));
    assert_eq!(world.of(&worker), Lineage::Unread(leader("leader")));
}

#[test]
fn what_has_ended_and_has_no_owner_holds_nothing() {
    let world = World::new();
    for (phase, terminating, want) in [
        (PodPhase::Pending, false, Lineage::Undetermined(Doubt::NoOwner)),
        (PodPhase::Running, false, Lineage::Undetermined(Doubt::NoOwner)),
        (PodPhase::Unknown, false, Lineage::Undetermined(Doubt::NoOwner)),
        (PodPhase::Failed, true, Lineage::Undetermined(Doubt::NoOwner)),
        (PodPhase::Failed, false, Lineage::Stranger),
        (PodPhase::Succeeded, false, Lineage::Stranger),
    ] {
        let mut pod = pod(None, Some("aw"));
        (pod.pod.phase, pod.pod.terminating) = (phase, terminating);
        assert_eq!(world.of(&pod), want, "{phase:?} {terminating}");
    }
}

#[test]
fn an_owner_that_is_gone_counts_where_it_is_recorded_and_fits() {
    let mut world = World::new();
    let gone = |kind: &str| controller("batch/v1", kind, "gone", "gone");
    let owned = || pod(Some(gone("Job")), Some("aw"));
    assert_eq!(world.of(&owned()), Lineage::Undetermined(Doubt::OwnerGone), "no record");
    // a Pod and a ConfigMap make no Jobs, whatever is recorded of them
    world.components[1].recorded_pod_owners = vec!["gone".into()];
    world.components[2].recorded_pod_owners = vec!["gone".into()];
    assert_eq!(world.of(&owned()), Lineage::Undetermined(Doubt::OwnerGone), "no such kind");
    world.components[0].recorded_pod_owners = vec!["gone".into()];
    assert_eq!(world.of(&owned()), ours(0, &[]));
    assert_eq!(world.of(&pod(Some(gone("Job")), None)), Lineage::Stranger, "no label");
    assert_eq!(world.of(&pod(Some(gone("Job")), Some("other"))), Lineage::Stranger);
    assert_eq!(world.of(&pod(Some(job("job")), Some("aw"))), ours(0, &[job("job")]));
    // what exists is asked for its own owner, and what is recorded of it may hold back, no more
    world.components[0].recorded_pod_owners = vec!["theirs".into(), "js-moved".into()];
    let detached = Lineage::Undetermined(Doubt::OwnerDetached);
    assert_eq!(world.of(&pod(Some(job("theirs")), Some("aw"))), detached);
    assert_eq!(world.of(&pod(Some(job("js-moved")), Some("aw"))), detached);
    assert_eq!(world.of(&pod(Some(job("theirs")), None)), Lineage::Stranger, "no label");
    let mut ended = pod(Some(job("theirs")), Some("aw"));
    ended.pod.phase = PodPhase::Failed;
    assert_eq!(world.of(&ended), Lineage::Stranger, "nothing of it runs");
}

#[test]
fn an_owner_that_is_gone_counts_where_it_was_seen_in_a_chain() {
    let mut world = World::new();
    world.kin.put_link(job("gone"), Some(0));
    assert_eq!(world.of(&pod(Some(job("gone")), Some("aw"))), ours(0, &[]));
    assert_eq!(world.of(&pod(Some(job("gone")), None)), ours(0, &[]));
    // by another name it is another
    let renamed = Controller { name: "x".into(), ..job("gone") };
    assert_eq!(
        world.of(&pod(Some(renamed.clone()), Some("aw"))),
        Lineage::Unread(renamed),
        "what a reference says must fit what was seen"
    );
}

#[test]
fn a_pod_once_seen_as_ours_stays_ours() {
    let mut world = World::new();
    let place = Place { component: Some(0), pod_set: Some(1), attempt: Some(3) };
    world.kin.put_pod("p", "p", &place);
    let secret = controller("v1", "Secret", "s", "s");
    for (owner, label, links, detached) in [
        (Some(job("job")), Some("aw"), vec![job("job")], false),
        (Some(job("job")), Some("other"), vec![job("job")], false),
        (Some(job("gone")), None, vec![], false),
        (Some(job("new")), Some("aw"), vec![], false),
        (Some(secret), Some("aw"), vec![], false),
        (Some(job("theirs")), Some("other"), vec![], true),
        (None, Some("aw"), vec![], true),
        (None, None, vec![], true),
    ] {
        let want = Lineage::Ours(Ours { place: place.clone(), links, detached });
        let mut seen = pod(owner.clone(), label);
        seen.pod_set = Some((1, 0)); // whatever its labels say now
        seen.identity.attempt = Some(9);
        assert_eq!(world.of(&seen), want, "{owner:?} {label:?}");
    }
}

/// Any owner reference but one that leads to a component by its own kind and name.
fn owners() -> impl Strategy<Value = Option<Controller>> {
    let uids = ["aw", "js-uid", "cm-uid", "job", "gone", "p", "s", "x", "theirs", "own"];
    let kinds =
        [("v1", "Node"), ("v1", "Secret"), ("v1", "Pod"), ("x/v1", "Y"), ("batch/v1", "Job")];
    let any = (
        prop::sample::select(kinds.to_vec()),
        prop::sample::select(uids.to_vec()),
        prop::sample::select(uids.to_vec()),
    );
    let any = any.prop_map(|((api_version, kind), name, uid)| {
        Some(controller(api_version, kind, name, uid))
    });
    let forged = |owner: &Option<Controller>| owner.as_ref() != Some(&job("job"));
    prop_oneof![1 => Just(None), 1 => Just(Some(us())), 8 => any]
        .prop_filter("a real chain", forged)
}

proptest! {
    #[test]
    fn whatever_foreign_pods_say_ours_are_the_same(
        foreign in prop::collection::vec((owners(), prop::option::of("aw|other"), 0_usize..5), 0..20),
        remembered in any::<bool>(),
    ) {
        let mut world = World::new();
        if remembered {
            world.kin.put_pod("own", "own", &Place::default());
            world.kin.put_link(job("job"), Some(0));
        }
        let named = |mut record: PodRecord, uid: &str| {
            uid.clone_into(&mut record.identity.uid);
            uid.clone_into(&mut record.identity.name);
            Arc::new(record)
        };
        let own = named(pod(Some(job("job")), Some("aw")), "own");
        let ancestors = World::ancestors();
        let family =
            Family::new("aw", &world.roots, &world.components, &world.kin);
        let alone = assemble::pods(std::slice::from_ref(&own), &family, &ancestors);
        let mut all = vec![own];
        for (number, (owner, label, phase)) in foreign.into_iter().enumerate() {
            let mut record = pod(owner, label.as_deref());
            record.pod.phase = PodPhase::ALL[phase];
            all.push(named(record, &format!("foreign-{number}")));
        }
        let sorted = assemble::pods(&all, &family, &ancestors);
        prop_assert_eq!(&sorted.ours, &alone.ours);
        prop_assert_eq!(&sorted.links, &alone.links);
        prop_assert_eq!(sorted.others.len(), all.len() - 1);
    }
}
