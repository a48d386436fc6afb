//! A cluster on this machine with the controller running, a sample that fails once and is retried, and
//! its phases as they change. Ctrl-C ends everything.
//!
//! ```text
//! cargo run --release --example cluster -- [--kueue] [SAMPLE…]
//! ```
//!
//! With `--kueue`, Kueue runs as well and admits what names a queue; without a sample, nothing is applied.
//! That is the cluster of `docs/user/getting-started.md`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use appwrapper::api::{AppWrapper, Phase};
use appwrapper::clock::SystemClock;
use appwrapper::config::Config;
use appwrapper::controller::Controller;
use controlplane::{ControlPlane, Options};
use futures::StreamExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

type Failure = Box<dyn std::error::Error>;

/// The sample that is applied where none is named.
const SAMPLE: &str = "samples/retried-job.yaml";

/// The label by which an AppWrapper names the LocalQueue that admits it.
const QUEUE: &str = "kueue.x-k8s.io/queue-name";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (kueue, samples) = arguments();
    say("Starting etcd, kube-apiserver, controllers, scheduler, nodes and operators …")?;
    let begin = Instant::now();
    let options = Options {
        jobset: true,
        training: true,
        ray: true,
        kueue,
        // Kueue would release the quota of what is being deleted while its pods still end
        kueue_config: json!({"featureGates": {"FinishOrphanedWorkloads": false}}),
        crds: appwrapper::crd::all().into(),
        ..Options::default()
    };
    let plane = ControlPlane::start(options).await?;
    say(&format!("Ready after {:.1} s.", begin.elapsed().as_secs_f32()))?;
    let controller = Controller::new(plane.client(), Arc::new(SystemClock), Config::default());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(controller.run(async { drop(stopped.await) }));
    let client = plane.client();
    let shown = tokio::spawn(show_phases(client.clone()));
    for sample in &samples {
        apply(&client, sample).await?;
    }
    say(&format!(
        "\nTo look around, in another terminal:\n\nexport KUBECONFIG={}\nkubectl get appwrappers,pods\n\n\
         Ctrl-C ends it.\n",
        plane.kubeconfig().display()
    ))?;
    tokio::signal::ctrl_c().await?;
    shown.abort();
    drop(stop);
    running.await?;
    plane.stop().await;
    Ok(())
}

/// Whether Kueue is to run, and the samples to apply.
fn arguments() -> (bool, Vec<PathBuf>) {
    let arguments = std::env::args_os().skip(1);
    let (flags, mut samples): (Vec<PathBuf>, Vec<PathBuf>) =
        arguments.map(PathBuf::from).partition(|argument| argument.as_os_str() == "--kueue");
    let kueue = !flags.is_empty();
    if samples.is_empty() && !kueue {
        samples.push(Path::new(env!("CARGO_MANIFEST_DIR")).join(SAMPLE));
    }
    (kueue, samples)
}

/// Creates an AppWrapper suspended, as Kueue would, and admits it once it is Suspended, unless Kueue does.
async fn apply(client: &Client, sample: &Path) -> Result<(), Failure> {
    let text = std::fs::read_to_string(sample)
        .map_err(|error| format!("cannot read {}: {error}", sample.display()))?;
    let mut wrapper: AppWrapper = serde_saphyr::from_str(&text)
        .map_err(|error| format!("{} is no AppWrapper: {error}", sample.display()))?;
    wrapper.spec.suspend = true;
    let wrappers: Api<AppWrapper> = Api::namespaced(client.clone(), "default");
    let name = wrapper.name_any();
    wrappers.create(&PostParams::default(), &wrapper).await?;
    let shown = sample.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(sample);
    say(&format!("Applied {}.", shown.display()))?;
    if wrapper.labels().contains_key(QUEUE) {
        return Ok(());
    }
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut states = Box::pin(watcher(wrappers.clone(), only).applied_objects());
    while let Some(state) = states.next().await {
        if state?.status.is_some_and(|status| status.phase == Phase::Suspended) {
            break;
        }
    }
    let admit = Patch::Merge(json!({"spec": {"suspend": false}}));
    wrappers.patch(&name, &PatchParams::default(), &admit).await?;
    Ok(())
}

/// Prints each change of phase, with what went wrong.
async fn show_phases(client: Client) {
    let begin = Instant::now();
    let wrappers: Api<AppWrapper> = Api::all(client);
    let mut changes =
        Box::pin(watcher(wrappers, watcher::Config::default()).default_backoff().applied_objects());
    let mut phases = std::collections::BTreeMap::new();
    while let Some(next) = changes.next().await {
        let Ok(wrapper) = next else { continue };
        let name = wrapper.name_any();
        let status = wrapper.status.unwrap_or_default();
        if status.phase == Phase::Empty || phases.get(&name) == Some(&status.phase) {
            continue;
        }
        phases.insert(name.clone(), status.phase);
        let failure = status.attempts.last().and_then(|attempt| attempt.failure.as_ref());
        let cause = match (status.phase, failure) {
            (Phase::Resetting | Phase::Failed, Some(failure)) => format!(
                "   pod {} on {}, exit code {}",
                failure.pod.as_deref().unwrap_or("-"),
                failure.node.as_deref().unwrap_or("-"),
                failure.exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string()),
            ),
            _ => String::new(),
        };
        let after = begin.elapsed().as_secs_f32();
        let line = format!("{after:6.1} s  {name}  {}{cause}", status.phase);
        if say(&line).is_err() {
            return;
        }
    }
}

fn say(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{line}")
}
