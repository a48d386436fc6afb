//! `spec.executionPolicy`: step by step, in the order of the rules.

use serde_json::{Value, json};

use super::{at, explain, job, job_that_is, line, pod, spec, with, wrapper};

const FIELDS: [&str; 5] = ["/phase", "/nextPhase", "/action", "/create", "/delete"];

/// Three Jobs of one pod each; `rules` are those of the execution policy, in order.
fn stepped(phase: &str, rules: &str) -> Value {
    let policy = format!("executionPolicy: {{executionPolicyOrder: InOrder, rules: [{rules}]}}");
    let mut wrapper = spec(wrapper(phase), &policy);
    let mut template = wrapper["spec"]["components"][0]["template"].clone();
    template["spec"]["parallelism"] = json!(1);
    template["spec"]["completions"] = json!(1);
    let named = |name: &str| with(template.clone(), "/metadata/name", json!(name));
    let components = ["prepare", "work", "report"].map(|name| json!({"template": named(name)}));
    wrapper["spec"]["components"] = json!(components);
    let entries = ["prepare", "work", "report"].map(|name| {
        json!({"name": name, "kind": "Job", "apiVersion": "batch/v1",
            "podSets": [{"path": "template.spec.template"}]})
    });
    if !phase.is_empty() {
        wrapper["status"]["componentStatus"] = json!(entries);
    }
    wrapper
}

/// The wrapper, with this written of a component that was created.
fn created(mut wrapper: Value, index: usize, name: &str) -> Value {
    let entry = &mut wrapper["status"]["componentStatus"][index];
    entry["uid"] = json!(format!("{name}-uid"));
    entry["conditions"] = json!([{"type": "ResourcesDeployed", "status": "True",
        "reason": "ComponentCreatedSuccessfully", "message": "", "lastTransitionTime": at(0)}]);
    wrapper
}

fn named(job: Value, name: &str) -> Value {
    let job = with(job, "/metadata/name", json!(name));
    let job = with(job, "/metadata/uid", json!(format!("{name}-uid")));
    let job = with(job, "/spec/parallelism", json!(1));
    with(job, "/spec/completions", json!(1))
}

fn pod_of(job: &str, phase: &str) -> Value {
    let mut pod = pod(&format!("{job}-0"), phase, 0);
    pod["metadata"]["ownerReferences"][0]["name"] = json!(job);
    pod["metadata"]["ownerReferences"][0]["uid"] = json!(format!("{job}-uid"));
    pod
}

fn ready(pod: Value) -> Value {
    let condition = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at(5)}]);
    with(pod, "/status/conditions", condition)
}

const STEPS: &str = "{targetComponents: [prepare], waitForComponentsStatus: Succeeded}, \
                     {targetComponents: [Job/work], waitForComponentsStatus: Ready}";

#[test]
fn the_first_step_alone_is_created_first() {
    let empty = with(stepped("", STEPS), "/spec/suspend", json!(false));
    let suspended = with(stepped("Suspended", STEPS), "/spec/suspend", json!(false));
    for (what, wrapper, want) in [
        (
            "to be created",
            stepped("Resuming", STEPS),
            r#"Resuming Resuming Deploy ["Job/prepare"] []"#,
        ),
        ("resumed", suspended, r#"Suspended Resuming Deploy ["Job/prepare"] []"#),
        ("born", empty, r#" Resuming Deploy ["Job/prepare"] []"#),
    ] {
        assert_eq!(line(&explain(&[wrapper], 1), &FIELDS), want, "{what}");
    }
}

#[test]
fn a_step_begins_when_the_last_has_got_far_enough() {
    let first = || created(stepped("Running", STEPS), 0, "prepare");
    let second = || created(first(), 1, "work");
    let prepare = |condition: &str| match condition {
        "" => named(job(), "prepare"),
        _ => named(job_that_is(condition, "Test"), "prepare"),
    };
    let done = || vec![prepare("Complete"), pod_of("prepare", "Succeeded")];
    let work = || named(job(), "work");
    for (what, wrapper, objects, want) in [
        (
            "it runs",
            first(),
            vec![prepare(""), pod_of("prepare", "Running")],
            "Running Running None [] []",
        ),
        (
            "it is ready, and must have succeeded",
            first(),
            vec![prepare(""), ready(pod_of("prepare", "Running"))],
            "Running Running None [] []",
        ),
        ("it has succeeded", first(), done(), r#"Running Running Deploy ["Job/work"] []"#),
        (
            "the second runs",
            second(),
            [done(), vec![work(), pod_of("work", "Running")]].concat(),
            "Running Running None [] []",
        ),
        (
            "the second is ready",
            second(),
            [done(), vec![work(), ready(pod_of("work", "Running"))]].concat(),
            r#"Running Running Deploy ["Job/report"] []"#,
        ),
    ] {
        let objects = [vec![wrapper], objects].concat();
        assert_eq!(line(&explain(&objects, 30), &FIELDS), want, "{what}");
    }
}

#[test]
fn a_restart_takes_all_steps_down_and_starts_with_the_first() {
    let running = created(created(stepped("Running", STEPS), 0, "prepare"), 1, "work");
    let objects = [
        running,
        named(job_that_is("Complete", "Test"), "prepare"),
        pod_of("prepare", "Succeeded"),
        named(job_that_is("Failed", "BackoffLimitExceeded"), "work"),
    ];
    let want = r#"Running Resetting Restart [] ["Job/prepare","Job/work"]"#;
    assert_eq!(line(&explain(&objects, 30), &FIELDS), want);
    let gone = json!([{"type": "ResourcesDeployed", "status": "False", "reason": "X", "message": "",
        "lastTransitionTime": at(0)}]);
    let resetting = with(stepped("Resetting", STEPS), "/status/conditions", gone);
    let want = r#"Resetting Resuming Deploy ["Job/prepare"] []"#;
    assert_eq!(line(&explain(&[resetting], 90), &FIELDS), want);
}

#[test]
fn any_order_is_all_at_once() {
    let policy = json!({"executionPolicyOrder": "AnyOrder"});
    let wrapper = with(stepped("Resuming", ""), "/spec/executionPolicy", policy);
    let want = r#"Resuming Resuming Deploy ["Job/prepare","Job/work","Job/report"] []"#;
    assert_eq!(line(&explain(&[wrapper], 1), &FIELDS), want);
}

#[test]
fn it_says_which_step_waits_for_what() {
    let first = || created(stepped("Running", STEPS), 0, "prepare");
    let prepare = || named(job(), "prepare");
    let done = || named(job_that_is("Complete", "Test"), "prepare");
    let message = |objects: &[Value], second: i64| {
        let answer = explain(objects, second);
        (line(&answer, &["/action"]), line(&answer, &["/message"]))
    };
    let none = |text: &str| ("None".to_owned(), text.to_owned());
    let runs = [first(), prepare(), pod_of("prepare", "Running")];
    let second = "step 2 of 3 waits for Job/prepare to succeed";
    assert_eq!(message(&runs, 30), none(second));
    let (action, text) = message(&[first(), prepare(), pod_of("prepare", "Pending")], 30);
    assert_eq!(action, "Wait");
    let pods = "Job/prepare: 0 of 1 pods are running in pod set 0-0; ";
    assert!(text.starts_with(pods) && text.ends_with(&format!("; {second}")), "{text}");
    let deployed = [stepped("Resuming", STEPS), prepare()];
    let text = format!("All components of the first step exist; {second}");
    assert_eq!(message(&deployed, 1), none(&text));
    let begins = [first(), done(), pod_of("prepare", "Succeeded")];
    let deploy = ("Deploy".to_owned(), "Starting step 2 of 3".to_owned());
    assert_eq!(message(&begins, 30), deploy);
    let third = [
        created(first(), 1, "work"),
        done(),
        pod_of("prepare", "Succeeded"),
        named(job(), "work"),
        pod_of("work", "Running"),
    ];
    assert_eq!(message(&third, 30), none("step 3 of 3 waits for Job/work to be ready"));
}

#[test]
fn several_components_are_waited_for_together() {
    let rules = "{targetComponents: [prepare, work], waitForComponentsStatus: Succeeded}";
    let running = created(created(stepped("Running", rules), 0, "prepare"), 1, "work");
    let objects = [
        running,
        named(job(), "prepare"),
        pod_of("prepare", "Running"),
        named(job(), "work"),
        pod_of("work", "Running"),
    ];
    let message = line(&explain(&objects, 30), &["/message"]);
    assert_eq!(message, "step 2 of 2 waits for Job/prepare and Job/work to succeed");
}

#[test]
fn a_restart_creates_nothing_of_a_step_that_is_half_created() {
    let rules = "{targetComponents: [prepare], waitForComponentsStatus: Succeeded}";
    let running = created(created(stepped("Running", rules), 0, "prepare"), 1, "work");
    let coming = json!([{"type": "ResourcesDeployed", "status": "False", "reason": "Deploying",
        "message": "", "lastTransitionTime": at(10)}]);
    let half = with(running, "/status/componentStatus/2/conditions", coming);
    let prepared = || named(job_that_is("Complete", "Test"), "prepare");
    let failed = named(job_that_is("Failed", "BackoffLimitExceeded"), "work");
    let objects = [half.clone(), prepared(), pod_of("prepare", "Succeeded"), failed];
    let want = r#"Running Resetting Restart [] ["Job/prepare","Job/work"]"#;
    assert_eq!(line(&explain(&objects, 30), &FIELDS), want);
    let healthy = [half, prepared(), named(job(), "work"), pod_of("work", "Running")];
    let want = r#"Running Running Deploy ["Job/report"] []"#;
    assert_eq!(line(&explain(&healthy, 30), &FIELDS), want);
}
