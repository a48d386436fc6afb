//! `spec.progress` by chance, and pods that report: some until they end, some stop before, some never begin.

use serde_json::json;

use super::{Act, HOSTILE, Scene, each_pod};
use crate::world::rng::Rng;

impl Scene {
    /// Adds `spec.progress` to half of the AppWrappers of a third of the worlds, or to all AppWrappers.
    pub(super) fn add_progress(&mut self, rng: &mut Rng, all: bool) {
        if !all && !rng.one_in(3) {
            return;
        }
        for (_, act) in &mut self.script {
            let Act::Create(object) = act else { continue };
            let is_one =
                object["kind"] == "AppWrapper" && object["metadata"]["labels"][HOSTILE].is_null();
            if !is_one || !all && rng.one_in(2) {
                continue;
            }
            let every = rng.between(2, 12);
            let stall = (2 * every).max(10) + rng.between(0, 20);
            object["spec"]["progress"] = json!({"stallAfter": format!("{stall}s")});
            if rng.one_in(2) {
                let start = stall + rng.between(0, 60);
                object["spec"]["progress"]["startWithin"] = format!("{start}s").into();
            }
            let mut life = vec![("sim/progress-every", format!("{every}s"))];
            if rng.one_in(2) {
                life.push(("sim/checkpoint-every", rng.between(1, 3).to_string()));
            }
            if rng.one_in(2) {
                life.push(("sim/progress-steps", rng.between(0, 6).to_string()));
                if rng.one_in(2) {
                    life.push(("sim/hang-until-attempt", rng.between(1, 2).to_string()));
                }
            }
            each_pod(&mut object["spec"]["components"], &mut |pod| {
                for (key, value) in &life {
                    pod["metadata"]["annotations"][*key] = value.as_str().into();
                }
            });
        }
    }
}
