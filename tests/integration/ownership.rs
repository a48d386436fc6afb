//! What is ours, by UID, and what is not.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::harness::{Case, job, pod, test, tuned, wrapper};
use crate::objects::{config_map, job_set};

const NAME_LABEL: &str = "workload.codeflare.dev/appwrapper";
const UID_LABEL: &str = "workload.codeflare.dev/appwrapper-uid";
const ATTEMPT_LABEL: &str = "workload.codeflare.dev/attempt";

/// An owner reference to a controller.
fn controlled_by(owner: &DynamicObject) -> Value {
    let types = owner.types.as_ref().expect("an object that was created has a kind");
    json!([{
        "apiVersion": types.api_version, "kind": types.kind, "name": owner.name_any(),
        "uid": owner.uid(), "controller": true, "blockOwnerDeletion": true,
    }])
}

/// An object is as it was: nobody has even touched it.
async fn is_untouched(case: &Case, kind: &str, was: &DynamicObject) {
    let is = case.stored("v1", kind, &was.name_any()).await.expect("it is still there");
    assert_eq!((is.uid(), is.resource_version()), (was.uid(), was.resource_version()));
}

#[test]
fn a_component_deleted_behind_our_back_is_created_again() {
    test("a_component_deleted_behind_our_back_is_created_again", async |case| {
        case.wrap("aw", json!({}), vec![job("j", json!({}), &[]), config_map("c")]).await;
        for (attempt, (api_version, kind, name)) in
            [(1, ("batch/v1", "Job", "j")), (2, ("v1", "ConfigMap", "c"))]
        {
            case.ready("aw", attempt - 1).await;
            let old = case.stored(api_version, kind, name).await.expect("it is there");
            case.delete(api_version, kind, name).await;
            case.unhealthy("aw", "MissingComponent").await;
            let again = case.ready("aw", attempt).await;
            assert_eq!(again.restarts(), attempt);
            let new = case.stored(api_version, kind, name).await.expect("it is there again");
            assert_ne!(old.uid(), new.uid());
        }
        case.lawful("aw").await;
    });
}

#[test]
fn the_name_of_anothers_object_is_left_to_it() {
    test("the_name_of_anothers_object_is_left_to_it", async |case| {
        // One that says nothing, and one that claims to be ours by its labels.
        let plain = case.create(config_map("plain")).await;
        let mut labelled = config_map("labelled");
        labelled["metadata"]["labels"] = json!({NAME_LABEL: "labelled", ATTEMPT_LABEL: "0"});
        let labelled = case.create(labelled).await;
        for taken in [&plain, &labelled] {
            let name = taken.name_any();
            let templates = vec![pod(&name, &[]), config_map(&name)];
            case.wrap(&name, json!({}), templates).await;
            case.phase(&name, "Failed").await;
            let done = case.condition(&name, "QuotaReserved", "False").await;
            assert_eq!(done.condition_field("Unhealthy", "reason"), "CreateFailed");
            let message = done.condition_field("Unhealthy", "message");
            let advice = "left unchanged: delete it, or use another name";
            assert!(message.contains(advice), "{message}");
            assert!(case.stored("v1", "Pod", &name).await.is_none());
            is_untouched(&case, "ConfigMap", taken).await;
            case.delete_wrapper(&name).await;
            case.gone("AppWrapper", &name).await;
            is_untouched(&case, "ConfigMap", taken).await;
        }
    });
}

#[test]
fn pods_of_strangers_with_our_labels_neither_count_nor_suffer() {
    test("pods_of_strangers_with_our_labels_neither_count_nor_suffer", async |case| {
        let settings = tuned(&[("failureGracePeriodDuration", "0s")]);
        let aw = case.wrap("aw", settings, vec![pod("p", &[])]).await;
        case.ready("aw", 0).await;
        let owner = case.create(config_map("owner")).await;
        let copied = json!({
            NAME_LABEL: "aw", UID_LABEL: aw.uid(), ATTEMPT_LABEL: "0",
            "workload.codeflare.dev/podset": "0-0",
        });
        let mut strangers = vec![];
        for (name, labels, owned) in [
            ("by-name", json!({NAME_LABEL: "aw"}), false),
            ("by-uid", copied.clone(), false),
            ("by-uid-owned", copied, true),
        ] {
            let mut template = pod(name, &[("run-for", "0s"), ("exit-code", "1")]);
            template["metadata"]["labels"] = labels;
            if owned {
                template["metadata"]["ownerReferences"] = controlled_by(&owner);
            }
            case.create(template).await;
            case.pod(name, "Failed").await;
            strangers.push(case.stored("v1", "Pod", name).await.expect("it is there"));
        }
        // Failed strangers do not reset it, running ones would not keep it from succeeding.
        let mut template = pod("running", &[]);
        template["metadata"]["labels"] = json!({NAME_LABEL: "aw", UID_LABEL: aw.uid()});
        template["metadata"]["ownerReferences"] = controlled_by(&owner);
        case.create(template).await;
        case.pod("running", "Running").await;
        strangers.push(case.stored("v1", "Pod", "running").await.expect("it is there"));
        case.end_pod("p", "0").await;
        case.phases("aw", &["", "Resuming", "Running", "Succeeded"]).await;
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
        for stranger in &strangers {
            is_untouched(&case, "Pod", stranger).await;
        }
    });
}

#[test]
fn a_name_used_again_waits_for_the_objects_of_the_old() {
    test("a_name_used_again_waits_for_the_objects_of_the_old", async |case| {
        let template = || vec![pod("p", &[("stuck", "")])];
        let old = case.wrap("aw", json!({}), template()).await;
        let old_pod = case.pod("p", "Running").await;
        case.delete_wrapper("aw").await;
        case.phase("aw", "Terminating").await;
        // Somebody removes our finalizer: the object goes, its pod stays for a while.
        case.patch("aw", json!({"metadata": {"finalizers": null}})).await;
        case.gone("AppWrapper", "aw").await;
        let new = case.wrap("aw", json!({}), template()).await;
        assert_ne!(old.uid(), new.uid());
        let seen = case.says("aw", "Unhealthy", old_pod.uid()).await;
        assert_eq!(seen.phase(), "Resuming");
        assert_eq!(seen.object["metadata"]["uid"], json!(new.uid()));
        case.force_delete_pod("p").await;
        case.ready("aw", 0).await;
        let pods = case.log().uids("Pod", "p");
        assert_eq!(pods.len(), 2);
        let pod = case.stored("v1", "Pod", "p").await.expect("it is there");
        assert_eq!(pod.labels()[UID_LABEL], new.uid().expect("it has a UID"));
    });
}

#[test]
fn an_object_of_ours_that_exists_already_is_taken() {
    test("an_object_of_ours_that_exists_already_is_taken", async |case| {
        // As after a creation whose reply was lost; without labels, the watch does not show it.
        let mut aw = wrapper("aw", json!({}), vec![job("j", json!({}), &[])]);
        aw["spec"]["suspend"] = true.into();
        let aw = case.create(aw).await;
        case.phase("aw", "Suspended").await;
        let mut template = job("j", json!({}), &[]);
        template["metadata"]["ownerReferences"] = controlled_by(&aw);
        // a Job that has no label at all is given those of its pods
        template["metadata"]["labels"] = json!({"example.com/own": "label"});
        let labels = json!({NAME_LABEL: "aw", UID_LABEL: aw.uid(), ATTEMPT_LABEL: "0"});
        template["spec"]["template"]["metadata"]["labels"] = labels;
        let created = case.create(template).await;
        case.suspend("aw", false).await;
        let seen = case.ready("aw", 0).await;
        assert_eq!(seen.object["status"]["componentStatus"][0]["uid"], json!(created.uid()));
        let pod = case.pod("j-", "Running").await;
        case.end_pod(&pod.name, "0").await;
        case.others_go_on("other").await;
        let stored = case.stored("batch/v1", "Job", "j").await.expect("it is there");
        assert_eq!(stored.uid(), created.uid());
        case.delete_wrapper("aw").await;
        case.gone("AppWrapper", "aw").await;
        assert!(case.stored("batch/v1", "Job", "j").await.is_none());
    });
}

#[test]
fn what_appears_after_the_suspension_is_swept_away() {
    test("what_appears_after_the_suspension_is_swept_away", async |case| {
        // As if a leader that was paused had gone on after another one had finished its work.
        let aw = case.wrap("aw", json!({}), vec![pod("p", &[])]).await;
        case.ready("aw", 0).await;
        case.suspend("aw", true).await;
        case.phase("aw", "Suspended").await;
        let mut late = pod("p", &[]);
        late["metadata"]["labels"] =
            json!({NAME_LABEL: "aw", UID_LABEL: aw.uid(), ATTEMPT_LABEL: "0"});
        late["metadata"]["ownerReferences"] = controlled_by(&aw);
        let late = case.create(late).await.uid().expect("it has a UID");
        case.until("the late pod is deleted", |log| {
            log.all("Pod").any(|pod| pod.uid() == late && pod.deleted).then_some(())
        })
        .await;
        assert_eq!(case.phase("aw", "Suspended").await.condition("QuotaReserved"), "False");
    });
}

#[test]
fn a_pod_whose_owners_are_gone_is_still_ours() {
    test("a_pod_whose_owners_are_gone_is_still_ours", async |case| {
        let settings = tuned(&[("forcefulDeletionGracePeriodDuration", "3s")]);
        let jobs: [(&str, &[(&str, &str)]); 1] = [("a", &[("stuck", "")])];
        case.wrap("aw", settings, vec![job_set("js", json!({}), &jobs)]).await;
        case.ready("aw", 0).await;
        let old = case.pod("js-a-0-0", "Running").await;
        case.delete("jobset.x-k8s.io/v1alpha2", "JobSet", "js").await;
        case.unhealthy("aw", "MissingComponent").await;
        // Neither JobSet nor Job is left; the pod is waited for, named, and forced.
        case.says("aw", "DeletingResources", &format!("Pod/{}", old.name)).await;
        case.ready("aw", 1).await;
        case.lawful("aw").await;
    });
}
