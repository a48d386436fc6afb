//! What an earlier look has shown holds at a later one, when the object that showed it is gone.

use super::build::{check, in_phase};
use crate::api::Phase;
use crate::decide::tests::given::World;
use crate::snapshot::{Object, Owner, Presence};

fn without(world: World, index: usize) -> World {
    world.component(index, |component| component.presence = Presence::Absent)
}

/// Jobs `a` and `b` in Resuming: `a` has succeeded, and an older object holds the name of `b`.
#[test]
fn a_component_that_succeeds_before_the_others_are_created_is_not_created_again() {
    let mut world = in_phase(Phase::Resuming, &["Job/a:1", "Job/b:1"]);
    for status in &mut world.snapshot.status.component_status {
        status.uid = None;
    }
    let held = world.object_of(1, |object| object.terminating = true);
    let going = || held.clone().succeeds(0).object_of(0, |object| object.terminating = true);
    let gone = without(going().settled(1), 0);
    let free = without(gone.clone(), 1);
    let taken = gone.clone().component(0, |component| {
        let owner = Owner::Stranger("somebody".into());
        component.presence = Presence::Present(Object { owner, ..Object::default() });
    });
    check(vec![
        ("… and its name is taken", taken, 2, "Wait 60"),
        ("its TTL deletes it", going().settled(1), 2, "Wait 60"),
        ("… and it is gone", gone.clone(), 2, "Wait 60"),
        ("one that has not succeeded", without(held.clone().settled(1), 0), 2, "Deploy"),
    ]);
    assert_eq!(free.decide(2).verdict.create, [1]);
    let up = free
        .object_of(1, |_| {})
        .component(1, |one| one.presence = going().snapshot.components[1].presence.clone());
    let up = up.object_of(1, |object| object.terminating = false).settled(3);
    let status = &up.snapshot.status;
    assert_eq!(
        (status.phase, status.component_status[0].uid.as_deref()),
        (Phase::Running, Some("uid-a"))
    );
    check(vec![("it is not missed either", up.ready(1, 1), 4, "None")]);
}
