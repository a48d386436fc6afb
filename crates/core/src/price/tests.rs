use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::api::{
    AppWrapperStatus, Attempt, AttemptAction, AttemptOutcome, AttemptProgress, Budget,
    ComponentStatus, FailureRecord, PendingMemory, Phase, PodSetSince, Requeue, Retries,
    RetryCount, RuleRef, RuleSource, Since, SuspectEffect, SuspectNodes, Usage, UsageSeconds,
    UsageState,
};

#[test]
fn a_size_is_that_of_what_go_stores() {
    for (value, want) in [
        (json!({"a": "b"}), r#"{"a":"b"}"#.len()),
        (json!("<&>"), r#""\u003c\u0026\u003e""#.len()),
        (json!("\n\u{1b}"), r#""\n\u001b""#.len()),
        (json!("\u{2028}é"), r#""\u2028é""#.len()),
        (json!([1, null, true]), "[1,null,true]".len()),
    ] {
        assert_eq!(stored_bytes(&value), want, "{value}");
    }
}

#[test]
fn small_objects_take_much_more_than_their_text() {
    let many = json!(vec![json!({"": 0}); 1000]);
    let memory = memory_bytes(&many);
    assert!(memory > 600_000, "{memory} bytes for {}", many.to_string().len());
    let text = json!({"data": "x".repeat(1 << 20)});
    assert!(memory_bytes(&text) < (1 << 20) + 1024);
}

fn moment() -> Time {
    Time(Timestamp::from_second(1_800_000_000).unwrap())
}

fn name(length: usize) -> String {
    "n".repeat(length)
}

/// A message whose every byte is stored as six.
fn message() -> String {
    "<".repeat(STATUS_MESSAGE_BYTES_MAX)
}

fn condition(message: &str) -> Condition {
    Condition {
        type_: "x".repeat(40),
        status: "Unknown".to_owned(),
        reason: "R".repeat(64),
        message: message.to_owned(),
        last_transition_time: moment(),
        observed_generation: Some(i64::MIN),
    }
}

#[derive(Clone, Debug)]
struct Given {
    name: String,
    kind: String,
    api_version: String,
    pod_sets: Vec<PodSet>,
    containers: Vec<String>,
}

fn given() -> impl Strategy<Value = Vec<Given>> {
    let text = "[a-z<&]{0,63}";
    let set = (
        any::<Option<i32>>(),
        "[a-z.\\[\\]0-9]{1,80}",
        prop::collection::btree_map("[a-z/]{1,30}", "[a-z<]{0,40}", 0..4),
    )
        .prop_map(|(replicas, path, annotations)| PodSet { replicas, path, annotations });
    let component = (
        "[a-z<]{1,253}",
        text,
        text,
        prop::collection::vec(set, 0..3),
        prop::collection::vec("[a-z<]{1,63}", 0..8),
    )
        .prop_map(|(name, kind, api_version, pod_sets, containers)| Given {
            name,
            kind,
            api_version,
            pod_sets,
            containers,
        });
    prop::collection::vec(component, 0..12)
}

/// A status with everything in it that the bounds allow.
#[expect(clippy::too_many_lines, reason = "every field of the status, once")]
fn full(given: &[Given]) -> AppWrapperStatus {
    let titles = given.iter().map(|each| format!("{}/{}", each.kind, each.name));
    let longest = titles.max_by_key(stored_bytes);
    let text = || Some(name(253));
    let failure = FailureRecord {
        component: longest,
        pod: text(),
        pod_uid: Some(name(36)),
        node: text(),
        container: text(),
        init_container: Some(false),
        exit_code: Some(i32::MIN),
        signal: Some(i32::MIN),
        reason: text(),
        message: Some(message()),
        category: Some(name(63)),
    };
    let attempt = Attempt {
        attempt: i32::MIN,
        started_at: Some(moment()),
        ready_at: Some(moment()),
        failed_at: Some(moment()),
        ended_at: Some(moment()),
        outcome: Some(AttemptOutcome::ComponentRecreated),
        action: Some(AttemptAction::RestartIgnoringLimit),
        rule: Some(RuleRef {
            source: RuleSource::ExitCodeAnnotation,
            policy: text(),
            name: Some(name(128)),
            index: Some(i32::MIN),
            overrides: true,
        }),
        retries: Some(Retries { used: i32::MIN, limit: i32::MIN }),
        failure: Some(failure),
        collateral: Some(i32::MIN),
        progress: Some(AttemptProgress {
            at: moment(),
            step: Some(i64::MIN),
            percent: Some(i64::MIN),
            checkpoint: Some("<".repeat(CHECKPOINT_BYTES_MAX)),
        }),
    };
    let component = |(index, each): (usize, &Given)| ComponentStatus {
        name: each.name.clone(),
        kind: each.kind.clone(),
        api_version: each.api_version.clone(),
        pod_sets: each.pod_sets.clone(),
        conditions: vec![condition(""); 2],
        uid: Some(name(36)),
        pod_owners: vec![name(36); if index == 0 { POD_OWNERS_MAX } else { 0 }],
    };
    let since = |_: &PodSet| PodSetSince {
        pod_set: "127-9".to_owned(),
        ready: false,
        terminating: true,
        since: moment(),
        failed_at: Some(moment()),
        replaced_until: Some(moment()),
    };
    let most = given.iter().max_by_key(|each| pending(each));
    let grown = |container: &String| PendingMemory {
        component: i32::MIN,
        pod_set: i32::MIN,
        container: container.clone(),
        request: Some(u64::MAX.to_string()),
        limit: Some(u64::MAX.to_string()),
    };
    AppWrapperStatus {
        uncounted_restarts: i32::MAX,
        ignored_failures: i32::MAX,
        phase: Phase::Terminating,
        resetting_count: i32::MIN,
        conditions: vec![condition(&message()); CONDITIONS_MAX],
        component_status: given.iter().enumerate().map(component).collect(),
        attempts: vec![attempt; ATTEMPTS_MAX],
        retry_counts: vec![
            RetryCount { policy: name(253), rule: name(63), count: i32::MIN };
            RETRY_COUNTS_MAX
        ],
        recovery_deadline: Some(moment()),
        requeue: Some(Requeue { attempt: i32::MIN, active_after: Some(moment()) }),
        budget: Some(Budget { used: i32::MIN, global_used: i32::MIN, since: moment() }),
        retry_after: Some(moment()),
        avoid_nodes: vec![name(253); AVOIDED_NODES_MAX],
        suspect_nodes: Some(SuspectNodes {
            effect: SuspectEffect::Require,
            hostnames: vec![name(63); SUSPECT_NODES_MAX],
        }),
        pending_memory: most
            .map_or_else(Vec::new, |each| each.containers.iter().map(grown).collect()),
        since: Some(Since {
            ignored_pods: vec![name(36); IGNORED_PODS_MAX],
            deployed: Some(moment()),
            pod_sets: given.iter().flat_map(|each| &each.pod_sets).map(since).collect(),
            failed_pods: Some(moment()),
            deleting: Some(moment()),
            gone: Some(moment()),
            failed: Some(moment()),
            succeeded: Some(moment()),
        }),
        usage: Some(Usage {
            state: Some(UsageState::Productive),
            since: Some(moment()),
            attempt_productive_seconds: i64::MAX,
            seconds: UsageSeconds {
                waiting: i64::MAX,
                starting: i64::MAX,
                productive: i64::MAX,
                lost: i64::MAX,
                teardown: i64::MAX,
                pause: i64::MAX,
                idle: i64::MAX,
            },
        }),
    }
}

fn pending(each: &Given) -> usize {
    pending_bytes(each.containers.iter().map(String::as_str))
}

fn largest(given: &[Given]) -> usize {
    largest_status(given.iter().map(|each| Shape {
        name: &each.name,
        kind: &each.kind,
        api_version: &each.api_version,
        pod_sets: &each.pod_sets,
        pending: pending(each),
    }))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_status_is_larger_than_it_can_grow_to(given in given()) {
        let (stored, largest) = (stored_bytes(&full(&given)), largest(&given));
        prop_assert!(stored <= largest, "{} bytes, and at most {}", stored, largest);
    }
}

/// What is reserved leaves room for ordinary objects of any size.
#[test]
fn the_largest_status_of_an_ordinary_object_is_small() {
    let one = Given {
        name: "train".into(),
        kind: "Job".into(),
        api_version: "batch/v1".into(),
        pod_sets: vec![PodSet { path: "template.spec.template".into(), ..PodSet::default() }],
        containers: vec!["main".into()],
    };
    let bytes = largest(std::slice::from_ref(&one));
    assert!((100_000..256_000).contains(&bytes), "{bytes}");
    let many = largest(&vec![one; COMPONENTS_MAX]);
    assert!(many < 400_000, "{many}");
}
