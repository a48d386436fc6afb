//! Creation and change.

use serde_json::{Value, json};

use super::{CONFIG_MAPS, LEASES, PODS, THINGS, ask, create, get, named, server, thing};

#[test]
fn what_is_created() {
    let elsewhere = json!({"metadata": {"name": "a", "namespace": "elsewhere"}});
    let versioned = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
    for (path, object, want, reason) in [
        (CONFIG_MAPS, named("a"), 201, ""),
        (CONFIG_MAPS, json!({"metadata": {"generateName": "a-"}}), 201, ""),
        (CONFIG_MAPS, json!({"metadata": {}}), 422, "Invalid"),
        (CONFIG_MAPS, json!([]), 400, "BadRequest"),
        (CONFIG_MAPS, elsewhere, 400, "BadRequest"),
        (CONFIG_MAPS, versioned, 500, ""),
        (CONFIG_MAPS, json!({"kind": "Pod", "metadata": {"name": "a"}}), 400, "BadRequest"),
        ("/api/v1/namespaces/nowhere/configmaps", named("a"), 404, "NotFound"),
        ("/api/v1/namespaces", named("n"), 201, ""),
        (THINGS, thing("a"), 201, ""),
        (THINGS, named("a"), 400, "BadRequest"),
        (THINGS, json!({"kind": "Other", "metadata": {"name": "a"}}), 422, "Invalid"),
        (THINGS, json!({"kind": "Thing", "apiVersion": "v7"}), 400, "BadRequest"),
    ] {
        let (code, answer) = ask(&mut server(), "POST", path, &object);
        let told = answer["reason"].as_str().unwrap_or_default();
        assert_eq!((code, told), (want, reason), "{path} {object}");
    }
}

#[test]
fn what_becomes_of_a_new_object() {
    let mut store = server();
    let object = json!({
        "metadata": {
            "name": "a", "uid": "u", "generation": 7, "deletionTimestamp": "2026-01-01T00:00:00Z",
            "labels": {}, "annotations": null, "finalizers": [],
        },
        "status": {"phase": "Running"},
    });
    let pod = create(&mut store, PODS, &object);
    let metadata = &pod["metadata"];
    assert_eq!(pod["status"], json!({"phase": "Pending"}));
    assert_eq!(metadata["generation"], 1);
    assert_ne!(metadata["uid"], "u");
    for field in ["deletionTimestamp", "labels", "annotations", "finalizers"] {
        assert!(metadata.get(field).is_none(), "{field}");
    }

    let mut object = thing("a");
    object["status"] = json!({"phase": "x"});
    object["spec"] = json!({"size": null, "unknown": 1});
    let thing = create(&mut store, THINGS, &object);
    assert_eq!(thing.get("status"), None);
    assert_eq!(thing["spec"], json!({"size": 1}));

    let (code, answer) = ask(&mut store, "POST", PODS, &named("a"));
    assert_eq!((code, &answer["reason"]), (409, &json!("AlreadyExists")));
}

#[test]
fn names_are_generated() {
    let mut store = server();
    let object = json!({"metadata": {"generateName": "a-"}});
    let mut name = || create(&mut store, CONFIG_MAPS, &object)["metadata"]["name"].clone();
    let (first, second) = (name(), name());
    assert_ne!(first, second);
    for name in [first, second] {
        let generated = name.as_str().and_then(|name| name.strip_prefix("a-")).map(str::len);
        assert_eq!(generated, Some(5), "{name}");
    }
}

/// Each write of a pod or a custom resource: what became of its generation, spec, label and status.
#[test]
fn who_writes_what() {
    let change = json!({
        "metadata": {"labels": {"a": "b"}, "generation": 9, "creationTimestamp": null},
        "spec": {"size": 2}, "status": {"phase": "Running"},
    });
    let all = json!([2, 2, "b"]);
    for (path, object, subresource, want) in [
        (PODS, named("a"), "", json!([all, "Pending"])),
        (PODS, named("a"), "/status", json!([[1, null, "b"], "Running"])),
        (THINGS, thing("a"), "", json!([all, null])),
        (THINGS, thing("a"), "/status", json!([[1, null, null], "Running"])),
    ] {
        let mut store = server();
        create(&mut store, path, &object);
        let uri = format!("{path}/a{subresource}");
        let (code, new) = ask(&mut store, "PATCH", &uri, &change);
        let got = json!([
            [new["metadata"]["generation"], new["spec"]["size"], new["metadata"]["labels"]["a"]],
            new["status"]["phase"],
        ]);
        assert_eq!((code, got), (200, want), "{uri}");
        assert_eq!(new["metadata"]["creationTimestamp"], "1970-01-01T00:00:00Z");

        // the same again changes nothing
        let before = store.version();
        let (_, again) = ask(&mut store, "PATCH", &uri, &change);
        assert_eq!(again["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"]);
        assert_eq!(store.version(), before);
    }
}

#[test]
fn a_change_goes_through_the_history() {
    let mut store = server();
    create(&mut store, CONFIG_MAPS, &json!({"metadata": {"name": "a"}, "data": {"k": "1"}}));
    let (_, first) = get(&mut store, &format!("{CONFIG_MAPS}/a"));
    let (_, second) = ask(&mut store, "PUT", &format!("{CONFIG_MAPS}/a"), &named("a"));
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_ne!(version(&first), version(&second));
    assert_eq!(second.get("data"), None);
    let last = store.history().last().unwrap();
    assert_eq!(last.before.as_ref().map(|before| &before.value), Some(&first));
    assert_eq!(last.object.value, second);
}

#[test]
fn some_kinds_are_created_by_an_update() {
    let mut store = server();
    for (path, object, want) in [
        (LEASES, named("a"), 201),
        (LEASES, named("a"), 422),
        (CONFIG_MAPS, named("a"), 404),
        (THINGS, thing("a"), 404),
    ] {
        let (code, _) = ask(&mut store, "PUT", &format!("{path}/a"), &object);
        assert_eq!(code, want, "{path}");
    }
}
