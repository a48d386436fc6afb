//! Stage 1: `globalMaxRetries: 0`.

use std::sync::Arc;

use super::build::{check, failed, running};
use crate::decide::tests::given::World;

const KILL: &str = "retryPolicy: {globalMaxRetries: 0}";
const KILLED: &str = "Fail killSwitch 0 of 0";

fn killed(world: World) -> World {
    world.configured(KILL)
}

#[test]
fn the_kill_switch_comes_before_every_other_stage() {
    let job = || killed(running(&["Job/work:1"])).fails(0, "BackoffLimitExceeded", "", 20);
    let ignore = "podFailurePolicy: {rules: [{action: Ignore, \
                  onExitCodes: {operator: In, values: [42]}}]}";
    let fatal = "podFailurePolicy: {rules: [{action: FailAppWrapper, \
                 onExitCodes: {operator: In, values: [42]}}]}";
    let with_rule = |action: &str| format!("failurePolicy: {{rules: [{{action: {action}}}]}}");
    let pod = || failed(0).code(42);
    let retry = "{defaultAction: Retry}";
    let terminal = || {
        job().with(pod()).limits(|limits| {
            limits.terminal_exit_codes = [42].into_iter().collect();
        })
    };
    let evacuation = {
        let mut world = killed(running(&["Job/work:1"])).ready(0, 1);
        let no_execute = ["gpu".to_owned()].into();
        world
            .snapshot
            .nodes
            .insert("node-1".into(), crate::snapshot::Node { no_execute, lost: None });
        world.pod(0, |pod| pod.resources = Arc::new(["gpu".to_owned()].into()))
    };
    check(vec![
        ("an ignored pod", job().spec(ignore).with(pod()), 20, KILLED),
        ("a pod that fails the AppWrapper", job().spec(fatal).with(pod()), 20, KILLED),
        ("a terminal exit code", terminal(), 20, KILLED),
        ("a restart", job().spec(&with_rule("RestartAppWrapper")), 20, KILLED),
        (
            "an uncounted restart",
            job().spec(&with_rule("RestartAppWrapperAndIgnoreMaxRestarts")),
            20,
            KILLED,
        ),
        ("a component created again", job().spec(&with_rule("RecreateComponent")), 20, KILLED),
        ("a retry policy", job().retry_policy("p", retry), 20, KILLED),
        ("nothing at all", job(), 20, KILLED),
        ("a node that is to blame", evacuation, 20, KILLED),
        ("what is used is told", job().retries(5), 20, "Fail killSwitch 5 of 0"),
    ]);
}

#[test]
fn a_change_of_the_configuration_holds_for_the_next_decision() {
    let world = running(&["Job/work:1"]).fails(0, "BackoffLimitExceeded", "", 20);
    check(vec![
        ("before", world.clone(), 20, "Restart retryLimit 0 of 3"),
        ("thrown", killed(world.clone()), 20, KILLED),
        (
            "lowered",
            world.configured("retryPolicy: {globalMaxRetries: 2}").retries(2),
            20,
            "Fail retryLimit 2 of 2",
        ),
    ]);
}
