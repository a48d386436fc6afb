//! The suspect nodes, where an attempt may begin.

use k8s_openapi::jiff::Timestamp;

use super::Context;
use crate::api::{Phase, keys};
use crate::config::SuspicionEffect;
use crate::observe::assemble::Wrapper;
use crate::observe::retry_sources;
use crate::snapshot::Snapshot;
use crate::snapshot::place::Site;

/// Fills in the hostnames of suspect nodes; if other nodes may be required, all nodes and templates as well.
pub(super) fn fill(context: &Context, wrapper: &Wrapper, snapshot: &mut Snapshot, now: Timestamp) {
    let begins = match wrapper.status.phase {
        Phase::Empty | Phase::Suspended | Phase::Resetting => !snapshot.suspend,
        Phase::Resuming
        | Phase::Running
        | Phase::Suspending
        | Phase::Succeeded
        | Phase::Failed
        | Phase::Terminating => false,
    };
    let config = context.config();
    let requires = match config.node_suspicion.effect {
        SuspicionEffect::Off => return,
        SuspicionEffect::Prefer => false,
        SuspicionEffect::Require => true,
    };
    if !begins {
        return;
    }
    let suspects = context.suspicions.suspects(&context.cache, now, &config.node_suspicion);
    snapshot.suspects = suspects.iter().filter_map(|(_, site)| hostname(site)).collect();
    if requires && !snapshot.suspects.is_empty() {
        snapshot.sites = context.cache.sites();
        retry_sources::fill_templates(snapshot, wrapper, &config.autopilot);
    }
}

/// The label by which affinity tells a node from others; none where no pod could name it.
fn hostname(site: &Site) -> Option<String> {
    site.labels.get(keys::HOSTNAME).filter(|label| !label.is_empty()).cloned()
}
