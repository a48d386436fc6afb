//! `refill` and `stopWhen` by chance, in worlds with policies.

use serde_json::json;

use super::{Act, HOSTILE, Scene, each_pod};
use crate::world::rng::Rng;

impl Scene {
    /// Adds budgets to half of the AppWrappers that have a `failurePolicy`, or to all AppWrappers. Some of their pods run
    /// for long enough that restarts are given back.
    pub(super) fn add_budgets(&mut self, rng: &mut Rng, all: bool) {
        for (_, act) in &mut self.script {
            let Act::Create(object) = act else { continue };
            let is_one = object["kind"] == "AppWrapper"
                && object["metadata"]["labels"][HOSTILE].is_null()
                && object["spec"].is_object();
            let policy = &mut object["spec"]["failurePolicy"];
            let has_policy = policy.is_object() || all && policy.is_null();
            if !is_one || !has_policy || !all && rng.one_in(2) {
                continue;
            }
            if all || !rng.one_in(3) {
                policy["refill"] = json!({"after": format!("{}s", rng.between(60, 90))});
            }
            if rng.one_in(2) {
                policy["stopWhen"] = json!({
                    "attemptsWithoutProgress": rng.between(1, 3),
                    "progressAfter": format!("{}s", rng.between(10, 80)),
                });
            }
            if rng.one_in(2) {
                each_pod(&mut object["spec"]["components"], &mut |pod| {
                    if let Some(runs) = pod["metadata"]["annotations"].get_mut("sim/run-for") {
                        *runs = "150s".into();
                    }
                });
            }
        }
    }
}
