//! The controller in a simulated cluster: seeds, plans, and whether the checks find anything.

use std::collections::BTreeSet;

use appwrapper::api::Phase;
use appwrapper::bad_nodes::measure;
use appwrapper::mutations::{self, Mutation};
use appwrapper::world::Options;
use appwrapper::world::adversary::Hostility;
use appwrapper::world::coverage::{Covered, why_never};
use appwrapper::world::explore::{explore, run_one};
use appwrapper::world::faults::{Fault, FaultPlan, Faults};
use appwrapper::world::plans;
use appwrapper::world::shrink::{self, shrink};

/// Seeds in which something did not hold once, and what was wrong in the controller.
const FOUND: &[(u64, &str)] = &[
    (8, "a watch that went back in time made a component be created in Resetting"),
    (76, "a Job between a JobSet and its pods made a pod after everything was said to be gone"),
    (130, "a pod whose node was deleted had failed, it was said, when it became ready"),
    (1313, "pods that only a lagging watch did not show counted as too few"),
    (1116, "a pod that a late write made stayed in Failed"),
    (1013, "a forced deletion that was repeated wrote the status for ever"),
    (4307, "an outage ate the grace period of a pod that failed in it"),
    (6999, "a watch that went back in time showed an earlier attempt's success"),
    (3674, "a late write's object stayed in Failed when its deletion was refused once"),
    (2067, "a pod of an earlier attempt that stuck was waited for without end in Resuming"),
    (5969, "a Job had counted a pod that still seemed to run: the next step began too early"),
    (4201, "a component was created again, and another's failure was recorded as the cause"),
    (1459, "after a hang, the only node was avoided, and no pod ever ran again"),
    (6696, "a leader created what its own write, ten seconds old, still seemed to want"),
    (1886, "a watch repeated old events, and a deleted pod counted as created again"),
    (6768, "a new leader still saw a pod that was gone, and gave up its component"),
    (
        952,
        "an owner could not be read with an expired token, which counted as a missing permission",
    ),
];

/// How many seeds a mutation has to be found in.
const SEEDS_MAX: u64 = 2_000;

fn hold(seed: u64) {
    let report = run_one(Options::of(seed, Faults::all()));
    if let Some((violation, step)) = &report.violation {
        let smallest = shrink(&report, &Options::of(seed, Faults::all()));
        let lines = smallest.report.lines.join("\n");
        panic!(
            "seed {seed} step {step}: {violation}\n{lines}\n{}",
            shrink::command(&smallest.options)
        );
    }
}

#[test]
fn what_was_found_once_stays_mended() {
    for (seed, _) in FOUND {
        hold(*seed);
    }
}

#[test]
fn every_invariant_holds_in_every_seed() {
    for seed in 0..60 {
        hold(seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let hash = |jobs| {
        let total = explore(7_000, 20, jobs, &Faults::all(), Hostility::Tenth, &|_| {});
        (total.hash, total.steps)
    };
    assert_eq!(hash(1), hash(2));
    let one = run_one(Options { keep_trace: true, ..Options::of(7_001, Faults::all()) });
    let again = run_one(Options { keep_trace: true, ..Options::of(7_001, Faults::all()) });
    assert_eq!(one.lines, again.lines);
    assert_eq!(one.hash, again.hash);
    assert_ne!(one.hash, run_one(Options::of(7_002, Faults::all())).hash);
}

/// A world with an adversary.
fn hostile(seed: u64, hostility: Hostility) -> Options {
    Options { hostility, ..Options::of(seed, Faults::all()) }
}

#[test]
fn an_adversary_harms_nobody() {
    for seed in (5..100).step_by(10) {
        hold(seed);
    }
}

#[test]
#[ignore = "nightly: 150 worlds"]
fn an_adversary_harms_nobody_in_many_worlds() {
    for seed in (105..600).step_by(10) {
        hold(seed);
    }
    for seed in 100_000..100_100 {
        let report = run_one(hostile(seed, Hostility::Always));
        assert_eq!(report.violation, None, "seed {seed}, --adversary");
    }
}

/// What is wrong there is wrong because of the adversary.
#[test]
fn a_hostile_world_without_its_adversary_is_sound() {
    for seed in 100_000..100_060 {
        let report = run_one(hostile(seed, Hostility::MutedAlways));
        assert_eq!(report.violation, None, "seed {seed}");
    }
}

#[test]
fn a_hostile_world_is_the_same_each_time() {
    for seed in 100_000..100_010 {
        let hash = || run_one(hostile(seed, Hostility::Always)).hash;
        assert_eq!(hash(), hash(), "seed {seed}");
        assert_ne!(hash(), run_one(hostile(seed, Hostility::MutedAlways)).hash, "seed {seed}");
    }
}

#[test]
fn the_adversary_changes_no_other_world() {
    let mut others = Faults::all();
    others.0.remove(&Fault::Adversary);
    for seed in (0..40).filter(|seed| seed % 10 != 5) {
        let with = run_one(Options::of(seed, Faults::all()));
        assert_eq!(with.hash, run_one(Options::of(seed, others.clone())).hash, "seed {seed}");
    }
}

/// Mistakes that only a hostile tenant makes use of.
const FOR_THE_ADVERSARY: &[Mutation] = &[
    Mutation::LabelIsOwnership,
    Mutation::InventedOwnerIsGone,
    Mutation::RelabelledPodIsGone,
    Mutation::OrphanedPodIsGone,
    Mutation::RightsAskedOnce,
    Mutation::FinalizerNotRestored,
    Mutation::NoFloorOfUncounted,
    Mutation::RecordedUidIsProof,
    Mutation::AncestorsByUid,
    Mutation::UnreadableOwnerFailsLook,
    Mutation::NegativeCountTrusted,
    Mutation::FarRetryAfterTrusted,
    Mutation::UnknownPhaseStopsAll,
    Mutation::OverQuotaUnsaid,
];

/// Mistakes about suspect nodes, which the laws of `suspicion` find.
const OF_SUSPICION: &[Mutation] =
    &[Mutation::SuspectTwice, Mutation::NamespaceUnbounded, Mutation::WithdrawnStays];

/// Mistakes that one invariant is there for: that another does not hold because of them is not enough.
const FOUND_BY: &[(Mutation, &str)] = &[
    (Mutation::LostIsFailed, "S12"),
    (Mutation::DeleteByName, "S7"),
    (Mutation::NoPause, "S13"),
    (Mutation::NoGrace, "S13"),
    (Mutation::ForceAtOnce, "S14"),
    (Mutation::LostIsFenced, "S14"),
    (Mutation::Unguarded, "S10"),
    (Mutation::AnyDeactivationTrusted, "K6"),
    (Mutation::QuotaEarly, "S2"),
    (Mutation::AttemptsOverlap, "S5"),
    (Mutation::NoLimit, "S6"),
    (Mutation::FinalizerEarly, "S11"),
    (Mutation::RightsAskedOnce, "S17"),
];

/// Mistakes that only a world without faults shows: there, every deadline is kept to the second.
const OF_SCENARIOS: &[Mutation] = &[Mutation::DeleteLate];

/// Precision over a few seeds, in a thousand.
fn precision_with(mutation: Option<Mutation>) -> usize {
    mutations::put(mutation);
    let measured = measure(0..20);
    mutations::put(None);
    measured.precision_permille()
}

#[test]
fn bad_nodes_show_mistakes_about_suspect_nodes() {
    assert!(precision_with(None) >= 950);
    // that an AppWrapper counts twice is too rare here
    for mutation in [Mutation::NamespaceUnbounded, Mutation::WithdrawnStays] {
        let precision = precision_with(Some(mutation));
        assert!(precision < 950, "{}: {precision}", mutation.as_str());
    }
}

/// The first seed that shows a mutation; only this thread has it.
fn first_seed_with(mutation: Mutation) -> Option<(u64, String)> {
    let hostility =
        if FOR_THE_ADVERSARY.contains(&mutation) { Hostility::Always } else { Hostility::Tenth };
    let expected =
        FOUND_BY.iter().find(|(one, _)| *one == mutation).map(|(_, invariant)| *invariant);
    mutations::put(Some(mutation));
    let found = (0..SEEDS_MAX).find_map(|seed| {
        let (violation, _) = run_one(hostile(seed, hostility)).violation?;
        let is_it = expected.is_none_or(|invariant| violation.invariant == invariant);
        is_it.then(|| (seed, violation.to_string()))
    });
    mutations::put(None);
    found
}

#[test]
#[ignore = "nightly: hundreds of worlds for each mutation"]
fn every_mutation_is_found() {
    all_are_found(
        Mutation::ALL
            .iter()
            .copied()
            .filter(|mutation| !FOR_THE_ADVERSARY.contains(mutation))
            .filter(|mutation| !OF_SUSPICION.contains(mutation))
            .filter(|mutation| !OF_SCENARIOS.contains(mutation))
            .collect(),
    );
}

#[test]
#[ignore = "nightly: hundreds of worlds for each mutation"]
fn every_mutation_for_the_adversary_is_found() {
    all_are_found(FOR_THE_ADVERSARY.to_vec());
}

#[expect(clippy::print_stdout, reason = "shown with --nocapture")]
#[expect(clippy::disallowed_methods, reason = "which one is looked for is said from outside")]
fn all_are_found(mut mutations: Vec<Mutation>) {
    if let Ok(name) = std::env::var("MUTATION") {
        let is_it = |mutation: &&Mutation| mutation.as_str() == name;
        let known = Mutation::ALL.iter().find(is_it).expect("MUTATION names a mutation");
        assert!(!OF_SUSPICION.contains(known), "{name}: the tests of `suspicion` look for it");
        assert!(!OF_SCENARIOS.contains(known), "{name}: scenarios show it");
        mutations.retain(|mutation| mutation == known);
    }
    let count = mutations.len();
    let mutations = std::sync::Mutex::new(mutations);
    let found = std::sync::Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(mutation) = mutations.lock().expect("no panic").pop() else { return };
                    let first = first_seed_with(mutation);
                    found.lock().expect("no panic").push((mutation, first));
                }
            });
        }
    });
    let found = found.into_inner().expect("no panic");
    for (mutation, first) in &found {
        println!("{:<20} {first:?}", mutation.as_str());
    }
    let missed: Vec<&str> = found
        .iter()
        .filter(|(_, first)| first.is_none())
        .map(|(mutation, _)| mutation.as_str())
        .collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
    assert_eq!(found.len(), count);
}

#[test]
fn a_violation_is_shrunk_and_can_be_replayed() {
    mutations::put(Some(Mutation::QuotaEarly));
    let report = (0..SEEDS_MAX)
        .map(|seed| run_one(Options::of(seed, Faults::all())))
        .find(|report| report.violation.is_some())
        .expect("the mutation is found");
    let smallest = shrink(&report, &Options::of(report.seed, Faults::all()));
    let again = run_one(smallest.options.clone());
    mutations::put(None);
    let violation = |report: &appwrapper::world::RunReport| {
        report.violation.clone().map(|(violation, step)| (violation.invariant, step))
    };
    assert_eq!(violation(&again), violation(&smallest.report));
    let (first, last) = (violation(&report), violation(&again));
    assert_eq!(first.map(|(name, _)| name), last.map(|(name, _)| name));
    assert!(last.map(|(_, step)| step) <= first.map(|(_, step)| step));
    assert!(smallest.options.faults.0.len() < Faults::all().0.len(), "{:?}", smallest.options);
    let command = shrink::command(&smallest.options);
    assert!(command.contains("--trace") && command.contains("--seed"), "{command}");
}

#[test]
fn every_scenario_ends_as_it_should() {
    let scenarios = plans::scenarios();
    let page = std::fs::read_to_string("ARCHITECTURE.md").expect("the page");
    let told = format!("`world/plans.rs`: {} scenarios,", scenarios.len());
    assert!(page.contains(&told), "ARCHITECTURE.md says how many there are: {told}");
    let names: BTreeSet<&str> = scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
    assert_eq!(names.len(), scenarios.len());
    for scenario in &scenarios {
        let report = scenario.run(None, false);
        assert_eq!(scenario.wrong(&report), None, "{}", scenario.name);
    }
}

#[test]
fn scenarios_show_a_deletion_that_begins_late() {
    for mutation in OF_SCENARIOS {
        mutations::put(Some(*mutation));
        let scenarios = plans::scenarios();
        let reports = scenarios.iter().filter_map(|scenario| scenario.run(None, false).violation);
        let found: BTreeSet<&str> = reports.map(|(violation, _)| violation.invariant).collect();
        mutations::put(None);
        assert!(["L2", "L5", "L6"].iter().all(|one| found.contains(one)), "{found:?}");
    }
}

/// Every scenario, every moment and effect, spread over its calls; `appwrapper simulate --exhaustive`
/// runs all of them.
#[test]
#[ignore = "nightly: a fault at thousands of calls"]
fn a_fault_at_any_call_changes_no_end() {
    for (index, scenario) in plans::scenarios().iter().enumerate() {
        let calls = scenario.run(None, false).calls;
        for plan in FaultPlan::all(calls).skip(index % 7).step_by(29) {
            let report = scenario.run(Some(plan), false);
            assert_eq!(scenario.wrong(&report), None, "{} {plan:?}", scenario.name);
        }
    }
}

/// Before anything was created, nothing happens to it; and the worlds are rich.
#[test]
fn most_of_what_can_be_met_is_met_soon() {
    let total = explore(20_000, 60, 2, &Faults::all(), Hostility::Tenth, &|_| {});
    let of_pods = [Covered::PodRunning, Covered::PodFailed, Covered::ComponentGone];
    for happening in of_pods {
        assert!(why_never(Phase::Empty, happening).is_some());
        assert_eq!(total.coverage.count(Phase::Empty, happening), 0, "{}", happening.as_str());
    }
    let (seen, asked) = total.coverage.pairs();
    assert!(seen * 10 > asked * 6, "{seen} of {asked}");
}
