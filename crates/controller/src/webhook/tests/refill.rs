//! What an update leaves out, and gets again.

use serde_json::{Value, json};

use super::{with, without};
use crate::config::Config;
use crate::webhook::judge::{Endpoint, ReviewStep, judge};
use crate::webhook::testing::{asked, given_aw, given_review};

const KUEUE: &str = "system:serviceaccount:kueue-system:kueue-controller-manager";
const OWN: &str = "system:serviceaccount:appwrapper-system:appwrapper-controller";
const SETS: &str = "/spec/components/0/podSets";
const INFOS: &str = "/spec/components/0/podSetInfos";

/// An AppWrapper in a queue, as admission and Kueue have left it.
fn stored() -> Value {
    let sets = json!([{"path": "template.spec.template", "replicas": 1}]);
    let aw = with(&with(&given_aw(), SETS, sets), INFOS, json!([{"labels": {"a": "b"}}]));
    let labels = json!({"kueue.x-k8s.io/queue-name": "main", "workload.codeflare.dev/user": "ann",
        "workload.codeflare.dev/userid": "1"});
    let aw = with(&aw, "/metadata/labels", labels);
    let aw = with(&aw, "/metadata/finalizers", json!(["workload.codeflare.dev/finalizer"]));
    with(&aw, "/spec/requester", json!({"username": "ann"}))
}

/// What an update by a user is turned into.
fn refilled(old: &Value, new: &Value, user: &str) -> Value {
    refilled_with(&Config::default(), old, new, user)
}

/// The same with a configuration.
fn refilled_with(config: &Config, old: &Value, new: &Value, user: &str) -> Value {
    let endpoint = Endpoint::MutateAppWrapper;
    let review = given_review(endpoint, "UPDATE", old, new);
    let review = asked(endpoint, &with(&review, "/request/userInfo/username", json!(user)));
    let mut copy = new.clone();
    match judge(endpoint, &review, config, None, Some(OWN)) {
        ReviewStep::Final(answer) => answer.patch.iter().for_each(|op| op.apply(&mut copy)),
        other => panic!("it is not final: {other:?}"),
    }
    copy
}

#[test]
fn what_a_manifest_leaves_out_is_filled_in_again() {
    let old = stored();
    let bare = without(&without(&old, SETS), INFOS);
    assert_eq!(refilled(&old, &bare, "ann"), old);
    assert_eq!(refilled(&old, &with(&bare, SETS, json!([])), "ann"), old);
    assert_eq!(refilled(&old, &with(&bare, INFOS, json!(null)), "ann"), old);
    let empty = with(&bare, "/spec/components/0/template/metadata/annotations", json!({}));
    assert_eq!(refilled(&old, &empty, "ann"), old);
    for account in [KUEUE, OWN] {
        assert_eq!(refilled(&old, &bare, account), bare, "{account} writes what it means");
    }
}

#[test]
fn what_is_given_or_was_never_there_stays_as_it_is() {
    let old = stored();
    let other = json!([{"path": "template", "replicas": 2}]);
    for new in [with(&old, SETS, other), with(&old, INFOS, json!([{"labels": {"c": "d"}}]))] {
        assert_eq!(refilled(&old, &new, "ann"), new, "validation says what is wrong with it");
    }
    let bare = without(&without(&old, SETS), INFOS);
    assert_eq!(refilled(&bare, &old, "ann"), old);
    let longer = with(&bare, "/spec/components", json!([{}, {}]));
    for new in [with(&bare, "/spec/components", json!("x")), longer] {
        assert_eq!(refilled(&old, &new, "ann"), new);
    }
    let odd = with(&bare, "/spec/components", json!([1]));
    assert_eq!(refilled(&old, &odd, "ann"), odd);
}

#[test]
fn without_a_queue_the_user_may_remove_what_kueue_has_added() {
    let old = stored();
    let suspended = with(&without(&old, INFOS), "/spec/suspend", json!(true));
    assert_eq!(refilled(&old, &suspended, "ann"), with(&old, "/spec/suspend", json!(true)));
    let alone = without(&old, "/metadata/labels/kueue.x-k8s.io~1queue-name");
    let new = without(&alone, INFOS);
    assert_eq!(refilled(&alone, &new, "ann"), new);
}

#[test]
fn what_admission_wrote_beside_the_components_is_kept() {
    let old = with(&stored(), "/spec/suspend", json!(false));
    let deleted =
        |aw: &Value| with(aw, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let user = "/metadata/labels/workload.codeflare.dev~1user";
    let finalizers = "/metadata/finalizers";
    for gone in [user, "/spec/requester", "/spec/suspend", finalizers] {
        assert_eq!(refilled(&old, &without(&old, gone), "ann"), old, "{gone}");
    }
    let user_id = "/metadata/labels/workload.codeflare.dev~1userid";
    let without_uid = with(&old, user_id, json!(""));
    assert_eq!(refilled(&without_uid, &without(&without_uid, user_id), "ann"), without_uid);
    let bare = without(&old, "/metadata/labels");
    let kept = json!({"workload.codeflare.dev/user": "ann", "workload.codeflare.dev/userid": "1"});
    assert_eq!(refilled(&old, &bare, "ann")["metadata"]["labels"], kept);
    let others = with(&old, finalizers, json!(["a/b"]));
    let both = json!(["a/b", "workload.codeflare.dev/finalizer"]);
    assert_eq!(refilled(&old, &others, "ann")["metadata"]["finalizers"], both);
    let going = without(&deleted(&old), finalizers);
    assert_eq!(refilled(&deleted(&old), &going, "ann"), going, "an administrator may");
    let alone = without(&old, "/metadata/labels/kueue.x-k8s.io~1queue-name");
    let resumed = without(&alone, "/spec/suspend");
    assert_eq!(refilled(&alone, &resumed, "ann"), resumed, "without a queue it is the user's");
    let sent = with(&old, "/spec/managedBy", json!("kueue.x-k8s.io/multikueue"));
    let sent = without(&with(&sent, "/spec/progress", json!({"stallAfter": "10m"})), finalizers);
    let annotations = json!({"workload.codeflare.dev/policies":
        json!({"progress": {"stallAfter": "10m"}}).to_string()});
    let sent = with(&sent, "/metadata/annotations", annotations);
    let left_out = without(&without(&sent, "/spec/managedBy"), "/metadata/annotations");
    assert_eq!(refilled(&sent, &left_out, "ann"), sent, "with the policies that it carries");
    let ours = with(&sent, finalizers, json!(["workload.codeflare.dev/finalizer"]));
    assert_eq!(refilled(&ours, &left_out, "ann"), sent, "the finalizer of what is sent may go");
}

#[test]
fn the_default_queue_is_kept_where_none_is_given() {
    let label = "/metadata/labels/kueue.x-k8s.io~1queue-name";
    let old = with(&stored(), "/spec/suspend", json!(true));
    for (default, is_kept) in [("", false), ("main", true), ("other", false)] {
        let text = format!("admission: {{defaultQueueName: {default:?}}}");
        let config = Config::parse(&text).expect("settings");
        let empty = with(&old, label, json!(""));
        for new in [without(&old, label), empty, without(&old, "/metadata/labels")] {
            let found = refilled_with(&config, &old, &new, "ann");
            let queue = &found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"];
            assert_eq!(queue == "main", is_kept, "{default:?} {new}");
        }
        let moved = with(&old, label, json!("else"));
        assert_eq!(refilled_with(&config, &old, &moved, "ann"), moved, "{default:?}");
    }
}
