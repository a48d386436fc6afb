use serde_json::{Value, json};

use super::*;
use crate::observe::ancestry::Ancestor;
use crate::observe::kin::Kin;
use crate::observe::raw_object::RawObject;
use crate::observe::records::Identity;
use crate::snapshot::{BackoffLimit, Expected};

/// An AppWrapper of UID `aw` around a Job `j`, with an entry of `componentStatus`.
fn wrapper(entry: &Value) -> Arc<Wrapper> {
    let template = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}},
    });
    let object = json!({
        "metadata": {"name": "aw", "namespace": "ns", "uid": "aw"},
        "spec": {"components": [{"template": template}]},
        "status": {"phase": "Running", "componentStatus": [entry]},
    });
    let seen = serde_json::from_str::<RawObject>(&object.to_string()).unwrap();
    Arc::new(Wrapper::read(&seen).unwrap())
}

fn entry(uid: &str) -> Value {
    json!({"name": "j", "kind": "Job", "apiVersion": "batch/v1", "uid": uid,
        "podSets": [{"path": "template.spec.template", "replicas": 1}]})
}

fn controller(kind: &str, name: &str, uid: &str) -> Controller {
    let group = if kind == "AppWrapper" { GROUP } else { "batch" };
    Controller {
        api_version: format!("{group}/v1"),
        kind: kind.into(),
        name: name.into(),
        uid: uid.into(),
    }
}

#[test]
fn a_record_is_about_the_template_or_about_nothing() {
    let honest = wrapper(&entry("u"));
    assert!(honest.flaws.is_empty());
    assert_eq!(honest.components[0].recorded.as_deref(), Some("u"));
    for (field, value) in [
        ("name", json!("victim")),
        ("kind", json!("ConfigMap")),
        ("apiVersion", json!("v1")),
        ("podSets", json!([])),
        ("podSets", json!([{"path": "template.spec.template", "replicas": 9}])),
    ] {
        let mut forged = entry("u");
        forged[field] = value;
        let forged = wrapper(&forged);
        assert!(!forged.flaws.is_empty(), "{field}");
        assert_eq!(forged.components[0].recorded, None, "{field}");
        let name = (&*forged.components[0].kind, &*forged.components[0].name);
        assert_eq!(name, ("Job", "j"), "{field}");
        assert_eq!(forged.status.component_status[0].pod_sets, honest.components[0].pod_sets);
    }
}

#[test]
fn a_record_without_names_is_completed_and_no_flaw() {
    // as the Go controller writes it before the first creation
    let mut unnamed = entry("u");
    for field in ["name", "kind", "apiVersion", "uid"] {
        unnamed[field] = "".into();
    }
    let found = wrapper(&unnamed);
    assert!(found.flaws.is_empty(), "{:?}", found.flaws);
    assert_eq!(found.status.component_status[0].name, "j");
}

#[test]
fn a_ray_cluster_that_runs_stays_as_the_go_controller_counted_it() {
    let pod = json!({"spec": {"containers": [{"name": "main"}]}});
    let ray = json!({"headGroupSpec": {"template": pod}, "workerGroupSpecs": [
        {"replicas": 2, "numOfHosts": 4, "template": pod}, {"minReplicas": 2, "template": pod}]});
    let (go, ours) = ([1, 2, 1], [1, 8, 2]);
    for (phase, uid, counts, stays) in [
        ("Running", None, go, true),
        ("Failed", None, go, true),
        ("Running", Some("u"), go, false),
        ("Running", None, [1, 1, 1], false),
        ("Running", None, [1, 2, 0], false),
        ("Suspended", None, go, false),
        ("Resetting", Some("u"), go, false),
    ] {
        for (kind, field) in [("RayCluster", ""), ("RayJob", "rayClusterSpec.")] {
            let case = format!("{kind} {phase} {uid:?} {counts:?}");
            let is_job = kind == "RayJob";
            let spec = if is_job { json!({"rayClusterSpec": ray}) } else { ray.clone() };
            let template = json!({"apiVersion": "ray.io/v1", "kind": kind,
                "metadata": {"name": "r"}, "spec": spec});
            let set = |group: &str, count: i32| {
                let path = format!("template.spec.{field}{group}.template");
                json!({"path": path, "replicas": count})
            };
            let sets = [
                set("headGroupSpec", counts[0]),
                set("workerGroupSpecs[0]", counts[1]),
                set("workerGroupSpecs[1]", counts[2]),
            ];
            let entry = json!({"name": "r", "kind": kind, "apiVersion": "ray.io/v1", "uid": uid,
                "podSets": sets});
            let object = json!({"metadata": {"name": "aw", "namespace": "ns", "uid": "aw"},
                "spec": {"components": [{"template": template}]},
                "status": {"phase": phase, "componentStatus": [entry]}});
            let seen = serde_json::from_str::<RawObject>(&object.to_string()).unwrap();
            let found = Wrapper::read(&seen).unwrap();
            let counted = |sets: &[PodSet]| sets.iter().map(PodSet::count).collect::<Vec<_>>();
            let recorded = &found.status.component_status[0];
            let want = if stays { counts } else { ours };
            assert_eq!(counted(&recorded.pod_sets), want, "{case}");
            assert_eq!(counted(&found.components[0].pod_sets), ours, "{case}");
            assert_eq!(found.flaws.is_empty(), stays, "{case}");
            assert_eq!(recorded.uid.as_deref(), uid, "{case}");
        }
    }
}

#[test]
fn what_runs_of_a_kind_that_go_does_not_count_stays_uncounted() {
    let none = json!([]);
    let workers = "template.spec.tfReplicaSpecs.Worker.template";
    let pod = json!({"spec": {"containers": [{"name": "tensorflow"}]}});
    let replicas = json!({"Worker": {"replicas": 2, "template": pod}});
    let given = json!([{"path": workers, "replicas": 2}]);
    for (phase, kind, uid, declared, recorded, stays) in [
        ("Running", "TFJob", None, &none, &none, true),
        ("Failed", "TFJob", None, &none, &none, true),
        ("Suspended", "TFJob", None, &none, &none, false),
        ("Running", "TFJob", Some("u"), &none, &none, false),
        ("Running", "TFJob", None, &given, &none, false),
        ("Running", "TFJob", None, &none, &json!([{"path": workers, "replicas": 1}]), false),
        ("Running", "PyTorchJob", None, &none, &none, false),
    ] {
        let case = format!("{phase} {kind} {uid:?} {declared} {recorded}");
        let field = if kind == "TFJob" { "tfReplicaSpecs" } else { "pytorchReplicaSpecs" };
        let template = json!({"apiVersion": "kubeflow.org/v1", "kind": kind,
            "metadata": {"name": "t"}, "spec": {field: replicas}});
        let entry = json!({"name": "t", "kind": kind, "apiVersion": "kubeflow.org/v1", "uid": uid,
            "podSets": recorded});
        let object = json!({"metadata": {"name": "aw", "namespace": "ns", "uid": "aw"},
            "spec": {"components": [{"template": template, "podSets": declared}]},
            "status": {"phase": phase, "componentStatus": [entry]}});
        let seen = serde_json::from_str::<RawObject>(&object.to_string()).unwrap();
        let found = Wrapper::read(&seen).unwrap();
        assert_eq!(found.components[0].flaw, None, "{case}");
        let counts: Vec<i32> = found.components[0].pod_sets.iter().map(PodSet::count).collect();
        assert_eq!(counts, [2], "{case}");
        assert_eq!(found.flaws.is_empty(), stays, "{case}");
        let of_entry = found.status.component_status[0].pod_sets.len();
        assert_eq!(of_entry, usize::from(!stays), "{case}");
    }
}

#[test]
fn a_component_with_a_generated_name_is_what_the_record_says() {
    let template = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"generateName": "made-", "labels": {"a": "b"}},
        "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}});
    let made = |name: &str| {
        let mut record = entry("u");
        record["name"] = name.into();
        let object = json!({"metadata": {"name": "aw", "namespace": "ns", "uid": "aw"},
            "spec": {"components": [{"template": template}]},
            "status": {"phase": "Running", "componentStatus": [record]}});
        Wrapper::read(&serde_json::from_str::<RawObject>(&object.to_string()).unwrap()).unwrap()
    };
    let known = made("made-x1");
    assert_eq!((&*known.components[0].name, known.components[0].flaw.as_ref()), ("made-x1", None));
    assert!(known.flaws.is_empty(), "{:?}", known.flaws);
    let metadata = known.component(0).template["metadata"].clone();
    assert_eq!(metadata, json!({"name": "made-x1", "labels": {"a": "b"}}));
    for other in ["", "other-x1"] {
        assert!(made(other).components[0].flaw.is_some(), "{other}");
    }
}

#[test]
fn another_version_of_a_known_kind_ends_as_the_known_one() {
    for (api_version, kind, want) in [
        ("batch/v1", "Job", End::Reported),
        ("kubeflow.org/v2beta1", "MPIJob", End::Reported),
        ("ray.io/v1alpha1", "RayCluster", End::Never),
        ("example.com/v2beta1", "MPIJob", End::Unknown),
    ] {
        let template = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
        let object = json!({"metadata": {"name": "aw", "namespace": "ns", "uid": "aw"},
            "spec": {"components": [{"template": template}]}, "status": {"phase": "Running"}});
        let seen = serde_json::from_str::<RawObject>(&object.to_string()).unwrap();
        let found = Wrapper::read(&seen).unwrap();
        assert_eq!(found.components[0].end, want, "{api_version} {kind}");
    }
}

#[test]
fn an_object_is_ours_by_its_owner_or_as_seen_or_by_label_and_record_together() {
    let owned = |uid: &str| Some(controller("AppWrapper", "aw", uid));
    let label = |uid: &str| Some(uid.to_owned());
    for (what, recorded, seen, owner, labelled, want) in [
        ("our owner reference", "", "", owned("aw"), None, true),
        ("another's", "u", "u", owned("other"), label("aw"), false),
        ("recorded alone", "u", "", None, None, false),
        ("seen alone", "", "u", None, None, true),
        ("labelled alone", "x", "x", None, label("aw"), false),
        ("labelled for another", "u", "u", None, label("other"), false),
        ("orphaned, as recorded", "u", "", None, label("aw"), true),
        ("orphaned, as seen", "", "u", None, label("aw"), true),
    ] {
        let identity = Identity {
            uid: "u".into(),
            name: "j".into(),
            controller: owner,
            appwrapper_uid: labelled,
            ..Identity::default()
        };
        let record = ObjectRecord { identity, ..ObjectRecord::default() };
        let presence = wrapper(&entry(recorded)).presence(0, record, &[], Some(seen));
        let Presence::Present(object) = presence else { panic!("it is there") };
        assert_eq!(object.owner == Owner::Us, want, "{what}");
    }
}

#[test]
fn pods_of_a_recorded_object_are_ours_where_it_is_gone_or_says_so_itself() {
    let wrapper = wrapper(&entry("u"));
    let roots = wrapper.roots(&wrapper.components);
    assert_eq!(roots.keys().collect::<Vec<_>>(), ["aw"], "a record is no root");
    let job = || controller("Job", "j", "u");
    for (what, owner, known, label, want) in [
        ("not looked at yet", job(), None, None, "read"),
        ("gone", job(), Some(Ancestor::Gone), None, "ours"),
        ("gone, labelled", job(), Some(Ancestor::Gone), Some("aw"), "ours"),
        ("gone, labelled for another", job(), Some(Ancestor::Gone), Some("other"), "stranger"),
        (
            "it is ours",
            job(),
            Some(Ancestor::Exists(Some(controller("AppWrapper", "aw", "aw")))),
            None,
            "ours",
        ),
        ("it is nobody's", job(), Some(Ancestor::Exists(None)), None, "stranger"),
        (
            "it is another's",
            job(),
            Some(Ancestor::Exists(Some(controller("CronJob", "c", "c")))),
            Some("aw"),
            "read",
        ),
        ("another kind", controller("Node", "j", "u"), Some(Ancestor::Gone), None, "stranger"),
        ("another name", controller("Job", "k", "u"), Some(Ancestor::Gone), None, "stranger"),
    ] {
        let reference = owner.clone();
        let identity = Identity {
            name: "p".into(),
            controller: Some(owner),
            appwrapper_uid: label.map(str::to_owned),
            ..Identity::default()
        };
        let record = PodRecord { identity, ..PodRecord::default() };
        let ancestors: Ancestors = known.map(|known| (reference, known)).into_iter().collect();
        let components = &wrapper.components;
        let kin = Kin::default();
        let family = Family::new("aw", &roots, components, &kin);
        let got = match family.lineage(&record, &ancestors) {
            Lineage::Ours(Ours { place, .. }) => {
                assert_eq!(place.component, Some(0), "{what}");
                "ours"
            }
            Lineage::Unread(_) => "read",
            Lineage::Stranger | Lineage::Undetermined(_) => "stranger",
        };
        assert_eq!(got, want, "{what}");
    }
}

/// What the AppWrapper around this template, with these pod sets, sees of the object with this `spec` and `status`: pods that
/// each pod set still has to run, and those that have not started.
fn expected_of(template: &Value, sets: &[(String, i32)], live: &Value) -> (Vec<i64>, Vec<usize>) {
    let set = |(path, count): &(String, i32)| json!({"path": path, "replicas": count});
    let pod_sets: Vec<Value> = sets.iter().map(set).collect();
    let object = json!({"metadata": {"name": "aw", "namespace": "ns", "uid": "aw"},
        "spec": {"components": [{"template": template, "podSets": pod_sets}]},
        "status": {"phase": "Running"}});
    let seen = serde_json::from_str::<RawObject>(&object.to_string()).unwrap();
    let wrapper = Wrapper::read(&seen).unwrap();
    let component = &wrapper.components[0];
    assert_eq!(component.flaw, None);
    let seen = serde_json::from_str::<RawObject>(&live.to_string()).unwrap();
    let record = ObjectRecord::of(&seen, &component.api_version, &component.kind);
    let presence = wrapper.presence(0, record, &component.pod_sets, None);
    let Presence::Present(Object { report, .. }) = presence else { panic!("it is there") };
    let running = report.expected.values().map(|expected| expected.running(0)).collect();
    (running, report.unstarted.into_iter().collect())
}

#[test]
fn a_train_job_runs_as_many_recorded_pods_as_are_declared() {
    let jobs = ["load", "node", "none"].map(|name| {
        let pod = json!({"spec": {"containers": [{"name": "node"}]}});
        json!({"name": name, "template": {"spec": {"template": pod}}})
    });
    let recorded = json!({"manager": "workload.codeflare.dev/appwrapper",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}});
    let template = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "t", "uid": "t"}, "spec": {"runtimeRef": {"name": "r"},
            "runtimePatches": [{"manager": "mine"}, recorded]}});
    let path = |index: usize| {
        let place = "template.spec.runtimePatches[1].trainingRuntimeSpec.template.spec";
        format!("{place}.replicatedJobs[{index}].template.spec.template")
    };
    let sets = [(path(0), 1), (path(1), 4), (path(2), 0)];
    let job = |name: &str, field: &str| json!({"name": name, field: 1});
    for (jobs, running, unstarted) in [
        (json!([]), [1, 4, 0], vec![]),
        (json!([job("load", "active")]), [1, 0, 0], vec![1]),
        (json!([job("load", "succeeded"), job("node", "active")]), [0, 4, 0], vec![]),
    ] {
        let mut live = template.clone();
        live["status"] = json!({"jobsStatus": jobs});
        let found = expected_of(&template, &sets, &live);
        assert_eq!(found, (running.to_vec(), unstarted), "{jobs}");
    }
}

#[test]
fn what_never_ends_may_be_scaled_down_and_has_no_quota_for_more() {
    let pod = json!({"spec": {"containers": [{"name": "c"}]}});
    let replicas = |kind: &str| {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x", "uid": "u"},
            "spec": {"replicas": 3, "template": pod}})
    };
    let leaders = |leader: &Value| {
        json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
            "metadata": {"name": "x", "uid": "u"}, "spec": {"replicas": 3, "leaderWorkerTemplate":
                {"size": 4, "leaderTemplate": leader, "workerTemplate": pod}}})
    };
    for (template, of_one) in [
        (replicas("Deployment"), vec![1_i64]),
        (replicas("StatefulSet"), vec![1]),
        (leaders(&pod), vec![1, 3]),
        (leaders(&json!(null)), vec![4]),
    ] {
        for (live, want) in [(3_i64, 3_i64), (1, 1), (0, 0), (5, 3)] {
            let mut scaled = template.clone();
            scaled["spec"]["replicas"] = live.into();
            let want: Vec<i64> = of_one.iter().map(|pods| want * pods).collect();
            assert_eq!(expected_of(&template, &[], &scaled).0, want, "{live}: {template}");
        }
    }
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "x", "uid": "u"}, "spec": {"parallelism": 2, "template": pod}});
    let mut scaled = job.clone();
    scaled["spec"]["parallelism"] = 5.into();
    assert_eq!(expected_of(&job, &[], &scaled).0, [5], "it ends");
}

#[test]
fn a_report_has_the_order_of_the_declared_pod_sets() {
    let set = |path: &str| PodSet { path: path.into(), ..PodSet::default() };
    let all = [0_usize, 2];
    let report = Report {
        expected: all.map(|index| (index, Expected::pods(if index == 2 { 2 } else { 0 }))).into(),
        unstarted: all.into(),
        unreplaced: all.into(),
        perhaps_unreplaced: all.into(),
        replaced_by_exit_code: all.into(),
        backoff: all.map(|index| (index, BackoffLimit::default())).into(),
        deletes_pods: true,
        in_order: true,
        serves: true,
        ..Report::default()
    };
    let paths = ["a", "b", "c"].map(str::to_owned);
    // "a" is not declared
    let found = reindexed(report, &paths, &[set("c"), set("b")]);
    let want = Report {
        expected: [(0, Expected::pods(2))].into(),
        unstarted: [0].into(),
        unreplaced: [0].into(),
        perhaps_unreplaced: [0].into(),
        replaced_by_exit_code: [0].into(),
        backoff: [(0, BackoffLimit::default())].into(),
        deletes_pods: true,
        in_order: true,
        serves: true,
        ..Report::default()
    };
    assert_eq!(found, want);
}
