//! Lists, and their pages.

use serde_json::{Value, json};

use super::{CONFIG_MAPS, PODS, THINGS, ask, create, get, named, server, thing};
use crate::sim::Store;

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

/// Config maps a to e; of them b and d are of team x.
fn five() -> Store {
    let mut store = server();
    for (name, team) in [("a", "y"), ("b", "x"), ("c", "y"), ("d", "x"), ("e", "y")] {
        let object = json!({"metadata": {"name": name, "labels": {"team": team}}});
        create(&mut store, CONFIG_MAPS, &object);
    }
    store
}

#[test]
fn what_a_list_is() {
    let mut store = server();
    create(&mut store, CONFIG_MAPS, &named("a"));
    create(&mut store, THINGS, &thing("a"));
    let (_, list) = get(&mut store, CONFIG_MAPS);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert_eq!(list["metadata"], json!({"resourceVersion": store.version().to_string()}));
    assert_eq!(list["items"][0].get("kind"), None, "the list says it");
    let (_, list) = get(&mut store, THINGS);
    assert_eq!(list["items"][0]["kind"], "Thing", "a custom resource says it itself");
    assert_eq!(names(&get(&mut store, "/api/v1/namespaces/nowhere/configmaps").1), [""; 0]);
    assert_eq!(names(&get(&mut store, "/api/v1/configmaps").1), ["a"]);
}

#[test]
fn selectors_select() {
    let mut store = five();
    for (query, want) in [
        ("labelSelector=team%3Dx", Some(vec!["b", "d"])),
        ("labelSelector=team+in+(x,z),team", Some(vec!["b", "d"])),
        ("labelSelector=!team", Some(vec![])),
        ("fieldSelector=metadata.name%3Dc", Some(vec!["c"])),
        ("labelSelector=team%3Dx&fieldSelector=metadata.name!%3Db", Some(vec!["d"])),
        ("labelSelector=team+in+(x", None),
        ("fieldSelector=status.phase%3DRunning", None),
    ] {
        let (code, list) = get(&mut store, &format!("{CONFIG_MAPS}?{query}"));
        match want {
            Some(want) => assert_eq!((code, names(&list)), (200, want), "{query}"),
            None => assert_eq!((code, &list["reason"]), (400, &json!("BadRequest")), "{query}"),
        }
    }
    let (code, _) = get(&mut store, &format!("{PODS}?fieldSelector=status.phase%3DRunning"));
    assert_eq!(code, 200);
}

/// Each page: what is on it, how many are left, whether there is another.
#[test]
fn pages_follow_each_other() {
    for (query, want) in [
        ("limit=2", json!([[["a", "b"], 3, true], [["c", "d"], 1, true], [["e"], null, false]])),
        ("limit=5", json!([[["a", "b", "c", "d", "e"], null, false]])),
        ("limit=9", json!([[["a", "b", "c", "d", "e"], null, false]])),
        ("limit=1&fieldSelector=metadata.name%3Db", json!([[["b"], null, false]])),
        // there is another page where anything is left, though nothing of it is selected
        (
            "limit=1&labelSelector=team%3Dx",
            json!([[["b"], null, true], [["d"], null, true], [[], null, false]]),
        ),
    ] {
        let mut store = five();
        let mut pages = vec![];
        let mut token = String::new();
        loop {
            let (_, list) = get(&mut store, &format!("{CONFIG_MAPS}?{query}{token}"));
            let metadata = &list["metadata"];
            let next = metadata["continue"].as_str();
            pages.push(json!([names(&list), metadata["remainingItemCount"], next.is_some()]));
            let Some(next) = next else { break };
            token = format!("&continue={next}");
        }
        assert_eq!(Value::from(pages), want, "{query}");
    }
}

#[test]
fn pages_are_of_one_moment() {
    let mut store = five();
    let (_, first) = get(&mut store, &format!("{CONFIG_MAPS}?limit=2"));
    let token = first["metadata"]["continue"].as_str().unwrap();
    ask(&mut store, "DELETE", &format!("{CONFIG_MAPS}/c"), &Value::Null);
    create(&mut store, CONFIG_MAPS, &named("cc"));
    ask(&mut store, "PATCH", &format!("{CONFIG_MAPS}/d"), &json!({"data": {"new": "1"}}));
    let uri = format!("{CONFIG_MAPS}?limit=9&continue={token}");
    let (_, second) = get(&mut store, &uri);
    assert_eq!(names(&second), ["c", "d", "e"]);
    assert_eq!(second["items"][1].get("data"), None);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);

    store.compact(store.version());
    let (code, answer) = get(&mut store, &uri);
    assert_eq!((code, &answer["reason"]), (410, &json!("Expired")));
    for token in ["x", "x:y", "1:x", "x:a/b"] {
        let (code, _) = get(&mut store, &format!("{CONFIG_MAPS}?limit=1&continue={token}"));
        assert_eq!(code, 400, "{token}");
    }
}
