//! The simulated API server answers as a real one.
//!
//! Sequences of operations, chosen by chance that can be repeated, are sent to both. Answers, objects,
//! lists and what watches tell must agree, after UIDs, versions and generated names were numbered by
//! their appearance. What is known to differ is listed in [`kept`].
//!
//! `CONFORMANCE_SEQUENCES` sets how many sequences are run, `CONFORMANCE_SEED` with which they begin.

mod canary;
mod changes;
mod compare;
mod family;
mod generate;
mod kept;
mod kinds;
mod mirror;
mod pair;
mod random;
mod side;

use std::sync::LazyLock;
use std::time::Duration;

use controlplane::{ControlPlane, Options};
use futures::{StreamExt, stream};
use kube::Client;
use serde_json::json;

use crate::harness::{own_crds, runtime, start_plane};
use crate::rules::before::without_rules;
use generate::Generator;
use kept::What;
use pair::{Pair, request};
use side::Side;

/// A control plane without nodes, and without KWOK: nothing runs pods.
/// The simulated server evaluates no rules and no bounds of definitions, so this one has none.
static PLANE: LazyLock<ControlPlane> =
    LazyLock::new(|| start_plane(Options { nodes: 0, crds: without_rules(), ..own_crds() }));

/// Nothing that is waited for takes longer, unless it never comes.
const PATIENCE: Duration = Duration::from_mins(5);

/// How many operations a sequence has.
const STEPS: usize = 30;

/// How many sequences are run where it is not said.
const SEQUENCES: usize = 100;

/// How many sequences are run at a time.
const ABREAST: usize = 16;

/// How many disagreements are told.
const SHOWN: usize = 5;

#[expect(clippy::disallowed_methods, reason = "a test is an edge")]
fn setting(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// What both sides need besides the objects of a sequence.
async fn prepare(client: &Client) {
    let mut real = Side::new(client.clone());
    let namespace = json!({"metadata": {"name": canary::NAMESPACE}});
    let node = json!({"metadata": {"name": kinds::NODE}});
    for (path, object) in [("/api/v1/namespaces", namespace), ("/api/v1/nodes", node)] {
        let answer = real.send(&request("POST", path.to_owned(), Some(object))).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
    }
}

/// Runs one sequence; returns the number of operations, and both sides as they are left.
async fn sequence(client: Client, seed: usize) -> Result<(usize, Pair), String> {
    let namespace = format!("conformance-{seed}");
    let mut generator = Generator::new(u64::try_from(seed).expect("a number"), &namespace);
    let mut pair = Pair::open(client, &namespace, generator.kinds()).await;
    let mut story = vec![];
    for number in 0..STEPS {
        let step = generator.step();
        story.push(format!("{number}. {step:?}"));
        let told = |text| format!("{}\nseed {seed}: {text}", story.join("\n"));
        pair.step(&step).await.map_err(told)?;
    }
    pair.finish().await.map_err(|text| format!("{}\nseed {seed}: {text}", story.join("\n")))?;
    Ok((STEPS, pair))
}

#[test]
#[ignore = "nightly: hundreds of sequences of requests"]
fn the_simulated_server_answers_as_a_real_one() {
    LazyLock::force(&PLANE);
    let sequences = setting("CONFORMANCE_SEQUENCES").unwrap_or(SEQUENCES);
    let first = setting("CONFORMANCE_SEED").unwrap_or(1);
    runtime().block_on(async {
        let client = PLANE.client();
        prepare(&client).await;
        let start = tokio::time::Instant::now();
        let run = |seed| sequence(client.clone(), seed);
        let outcomes: Vec<_> = stream::iter((first..first + sequences).map(run))
            .buffer_unordered(ABREAST)
            .collect()
            .await;
        let mut wrong = vec![];
        let mut operations = 0;
        for outcome in outcomes {
            match outcome {
                Ok((steps, mut pair)) => {
                    operations += steps;
                    // the collectors have had time for what nobody expected
                    wrong.extend(pair.last().await.err());
                }
                Err(text) => wrong.push(text),
            }
        }
        let seconds = start.elapsed().as_secs();
        println!("{sequences} sequences, {operations} operations, {seconds} s");
        let some: Vec<String> = wrong.iter().take(SHOWN).cloned().collect();
        assert!(wrong.is_empty(), "{} disagree:\n{}", wrong.len(), some.join("\n\n"));
    });
}

#[test]
fn what_is_known_to_differ_does() {
    LazyLock::force(&PLANE);
    runtime().block_on(async {
        let sides = [pair::simulated().client(), PLANE.client()];
        let mut codes = vec![];
        for client in sides {
            let mut side = Side::new(client);
            let namespace = json!({"metadata": {"name": "kept"}});
            let create = request("POST", "/api/v1/namespaces".to_owned(), Some(namespace));
            assert_eq!(side.send(&create).await.code, 201);
            let mut answers = vec![];
            for kept in kept::KEPT {
                if let What::Request(probe) = &kept.what {
                    answers.push(side.probe(probe).await);
                }
            }
            codes.push(answers);
        }
        let probes = kept::KEPT.iter().filter_map(|kept| match &kept.what {
            What::Request(probe) => Some((probe, kept.why)),
            What::Metadata(_) | What::Status(_) | What::Failure(_) => None,
        });
        for (at, (probe, why)) in probes.enumerate() {
            let got = (codes[0][at], codes[1][at]);
            assert_eq!(got, probe.codes, "{} {}: {why}", probe.method, probe.path);
        }
    });
}
