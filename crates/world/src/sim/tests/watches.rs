//! Watches.

use http::Method;
use serde_json::{Value, json};

use super::{CONFIG_MAPS, ask, create, named, server};
use crate::sim::{ApiResponse, Store, Watch, answer};

fn watch(store: &mut Store, query: &str) -> Watch {
    let uri = format!("{CONFIG_MAPS}?watch=true&{query}");
    match answer(store, &Method::GET, &uri, "", b"") {
        ApiResponse::Watch(watch) => watch,
        ApiResponse::Document(code, text) => panic!("{code} {text}"),
    }
}

/// What a watch tells now: type and name.
fn told(store: &Store, watch: &mut Watch) -> Option<Vec<String>> {
    let short = |line: &String| {
        let event: Value = serde_json::from_str(line).unwrap();
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        format!("{} {name}", event["type"].as_str().unwrap())
    };
    Some(watch.lines(store)?.iter().map(short).collect())
}

fn labelled(name: &str, team: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"team": team}}})
}

#[test]
fn a_watch_tells_what_is_there_and_what_happens() {
    let mut store = server();
    create(&mut store, CONFIG_MAPS, &named("a"));
    let now = format!("resourceVersion={}", store.version());
    let mut all = watch(&mut store, "");
    let mut zero = watch(&mut store, "resourceVersion=0");
    let mut new = watch(&mut store, &now);
    create(&mut store, CONFIG_MAPS, &named("b"));
    create(&mut store, "/api/v1/namespaces", &named("n"));
    create(&mut store, "/api/v1/namespaces/n/configmaps", &named("stranger"));
    ask(&mut store, "DELETE", &format!("{CONFIG_MAPS}/a"), &Value::Null);
    let news = ["ADDED b", "DELETED a"];
    for watch in [&mut all, &mut zero] {
        assert_eq!(told(&store, watch).unwrap(), ["ADDED a", news[0], news[1]]);
    }
    assert_eq!(told(&store, &mut new).unwrap(), news);
    assert_eq!(told(&store, &mut new).unwrap(), [""; 0], "it was told");
}

#[test]
fn an_object_that_is_no_longer_selected_is_gone() {
    let mut store = server();
    let mut x = watch(&mut store, "labelSelector=team%3Dx");
    create(&mut store, CONFIG_MAPS, &labelled("a", "y"));
    for team in ["x", "x2", "x", "x"] {
        let patch = json!({"metadata": {"labels": {"team": team}}});
        ask(&mut store, "PATCH", &format!("{CONFIG_MAPS}/a"), &patch);
    }
    ask(&mut store, "PATCH", &format!("{CONFIG_MAPS}/a"), &json!({"data": {"k": "1"}}));
    ask(&mut store, "DELETE", &format!("{CONFIG_MAPS}/a"), &Value::Null);
    let want = ["ADDED a", "DELETED a", "ADDED a", "MODIFIED a", "DELETED a"];
    assert_eq!(told(&store, &mut x).unwrap(), want);
}

#[test]
fn what_is_deleted_is_seen_as_it_was() {
    let mut store = server();
    let mut all = watch(&mut store, "");
    create(&mut store, CONFIG_MAPS, &labelled("a", "x"));
    ask(&mut store, "DELETE", &format!("{CONFIG_MAPS}/a"), &Value::Null);
    let lines = all.lines(&store).unwrap();
    let last: Value = serde_json::from_str(&lines[1]).unwrap();
    let metadata = &last["object"]["metadata"];
    assert_eq!(metadata["labels"]["team"], "x");
    assert_eq!(metadata.get("deletionTimestamp"), None);
    assert_eq!(metadata["resourceVersion"], store.version().to_string());
}

#[test]
fn a_watch_that_is_left_behind_says_so_and_ends() {
    let mut store = server();
    let now = |store: &Store| format!("resourceVersion={}", store.version());
    let begin = now(&store);
    let mut late = watch(&mut store, &begin);
    create(&mut store, CONFIG_MAPS, &named("a"));
    let begin = now(&store);
    let mut early = watch(&mut store, &begin);
    store.compact(store.version());
    let mut old = watch(&mut store, "resourceVersion=1");
    for watch in [&mut late, &mut old] {
        let lines = watch.lines(&store).unwrap();
        let event: Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
        assert_eq!(watch.lines(&store), None);
    }
    assert_eq!(told(&store, &mut early).unwrap(), [""; 0], "it missed nothing");
    assert_eq!(store.history().len(), 0);
    assert_eq!(store.compacted(), store.version());
}

#[test]
fn what_a_watch_is_asked() {
    let mut store = server();
    let asked = watch(&mut store, "allowWatchBookmarks=true&timeoutSeconds=7");
    assert_eq!((asked.bookmarks, asked.timeout), (true, Some(7)));
    let bookmark: Value = serde_json::from_str(&asked.bookmark(&store)).unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], store.version().to_string());
    for (query, want) in
        [("resourceVersion=x", 500), ("labelSelector=a+b", 400), ("fieldSelector=spec.x%3D1", 400)]
    {
        let uri = format!("{CONFIG_MAPS}?watch=1&{query}");
        let ApiResponse::Document(code, _) = answer(&mut store, &Method::GET, &uri, "", b"") else {
            panic!("{query} is watched");
        };
        assert_eq!(code, want, "{query}");
    }
}
