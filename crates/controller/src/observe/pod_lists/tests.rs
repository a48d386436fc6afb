use std::convert::Infallible;
use std::time::Duration;

use futures::future::join_all;
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// Each LIST that began, as the AppWrappers that it is about.
#[derive(Clone)]
struct Server {
    begun: Arc<Mutex<Vec<Vec<String>>>>,
    /// How long a LIST takes.
    takes: Duration,
    /// So many of the first fail.
    failing: usize,
    /// With this HTTP status.
    code: u16,
}

impl Default for Server {
    fn default() -> Self {
        Self { begun: Arc::default(), takes: Duration::from_secs(1), failing: 0, code: 500 }
    }
}

/// The names in a label selector, as a URL has it.
fn named(uri: &str) -> Vec<String> {
    let value = uri.split("appwrapper").nth(1).unwrap();
    let list = value.strip_prefix("+in+%28").and_then(|rest| rest.split("%29").next());
    let one = || value.strip_prefix("%3D").and_then(|rest| rest.split('&').next());
    list.or_else(one).unwrap().split("%2C").map(str::to_owned).collect()
}

/// A pod that is named after the AppWrapper that it names.
fn pod(name: &str) -> Value {
    let labels = json!({"workload.codeflare.dev/appwrapper": name});
    json!({"metadata": {"name": format!("{name}-pod"), "namespace": "n", "uid": "u", "labels": labels}})
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let names = named(&request.uri().to_string());
                let pods: Vec<Value> = names.iter().map(|name| pod(name)).collect();
                let count = {
                    let mut begun = server.begun.lock().unwrap();
                    begun.push(names);
                    begun.len()
                };
                tokio::time::sleep(server.takes).await;
                let code = if count <= server.failing { server.code } else { 200 };
                let body = if code == 200 {
                    json!({"metadata": {}, "items": pods})
                } else {
                    json!({"status": "Failure", "code": code})
                };
                let body = body.to_string();
                let body = Body::from(body.into_bytes());
                Ok::<_, Infallible>(http::Response::builder().status(code).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }

    fn begun(&self) -> Vec<Vec<String>> {
        self.begun.lock().unwrap().clone()
    }
}

fn key(name: &str) -> Key {
    Key { namespace: "n".to_owned(), name: name.to_owned() }
}

/// The pods of an AppWrapper, by name; none where they could not be listed.
async fn ask(lists: &PodLists, client: &Client, name: &str, known: usize) -> Option<Vec<String>> {
    let pods = lists.pods(client, &key(name), known).await.ok()?;
    Some(pods.into_iter().map(|record| record.identity.name.clone()).collect())
}

#[tokio::test(start_paused = true)]
async fn those_that_wait_share_a_list_that_begins_after_they_asked() {
    let (lists, server) = (PodLists::default(), Server::default());
    let client = server.client();
    let all = ["a", "b", "c"].map(|name| ask(&lists, &client, name, 1));
    let found = join_all(all).await;
    assert_eq!(found, ["a", "b", "c"].map(|name| Some(vec![format!("{name}-pod")])));
    assert_eq!(server.begun(), [vec!["a".to_owned()], vec!["c".to_owned(), "b".to_owned()]]);
    assert!(lists.namespaces().is_empty(), "nothing is kept");
}

#[tokio::test(start_paused = true)]
async fn a_storm_takes_a_list_for_each_moment_or_for_as_many_as_it_has_room_for() {
    let takes = Duration::from_millis(5);
    for (count, gap, want, millis) in [
        (1, 1, vec![1], 5),
        // the first at once, the others when the moment has come
        (3, 0, vec![1, 2], 55),
        (60, 2, vec![1, 25, 25, 9], 155),
        // what is full waits for nothing
        (70, 0, vec![1, 32, 32, 5], 65),
    ] {
        let (lists, server) = (PodLists::apart(), Server { takes, ..Server::default() });
        let (client, begun) = (server.client(), Instant::now());
        let names: Vec<String> = (0..count).map(|number| format!("a-{number}")).collect();
        let asked = names.iter().enumerate().map(async |(number, name)| {
            tokio::time::sleep(Duration::from_millis(gap * number as u64)).await;
            ask(&lists, &client, name, 1).await
        });
        let found = join_all(asked).await;
        let pods = names.iter().map(|name| Some(vec![format!("{name}-pod")]));
        assert_eq!(found, pods.collect::<Vec<_>>());
        let sizes: Vec<usize> = server.begun().iter().map(Vec::len).collect();
        assert_eq!((sizes, begun.elapsed().as_millis()), (want, millis), "{count} {gap}");
        assert!(lists.namespaces().is_empty(), "nothing is kept");
    }
}

#[tokio::test(start_paused = true)]
async fn an_appwrapper_with_many_pods_lists_alone() {
    let (lists, server) = (PodLists::default(), Server::default());
    let client = server.client();
    let all = [("a", 1), ("b", SHARED_PODS_MAX + 1), ("c", 1)];
    let begun = tokio::time::Instant::now();
    join_all(all.map(|(name, known)| ask(&lists, &client, name, known))).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
    assert_eq!(server.begun(), [["a"], ["b"], ["c"]]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_rejected_fails_the_one_that_made_it_alone() {
    let (lists, server) =
        (PodLists::default(), Server { failing: 2, code: 400, ..Server::default() });
    let client = server.client();
    let found = join_all(["a", "b", "c"].map(|name| ask(&lists, &client, name, 1))).await;
    assert_eq!(found, [None, None, Some(vec!["c-pod".to_owned()])]);
    let begun = server.begun();
    assert_eq!(begun.last().unwrap(), &["c"], "{begun:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_an_overloaded_server_refuses_is_not_made_by_all_that_waited_for_it() {
    for code in [429, 500, 503, 504] {
        let (lists, server) = (PodLists::apart(), Server { failing: 2, code, ..Server::default() });
        let client = server.client();
        let found = join_all(["a", "b", "c", "d"].map(|name| ask(&lists, &client, name, 1))).await;
        assert_eq!(found, [None, None, None, None], "{code}");
        assert_eq!(server.begun(), [vec!["a"], vec!["c", "d", "b"]], "{code}");
        assert_eq!(ask(&lists, &client, "b", 1).await, Some(vec!["b-pod".to_owned()]));
    }
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_keeps_nobody_waiting() {
    for gives_up in ["a", "b", "c"] {
        for after in [0, 500, 1500] {
            let (lists, server) = (PodLists::default(), Server::default());
            let client = server.client();
            let one = async |name: &'static str| {
                let listed = ask(&lists, &client, name, 1);
                let most = if name == gives_up { after } else { 60_000 };
                tokio::time::timeout(Duration::from_millis(most), listed).await.is_ok()
            };
            let answered = join_all(["a", "b", "c"].map(one)).await;
            let want =
                ["a", "b", "c"].map(|name| name != gives_up || (name == "a" && after > 1000));
            assert_eq!(answered, want, "{gives_up} after {after} ms");
            assert!(lists.namespaces().is_empty(), "nothing is kept");
        }
    }
}

/// A list that lacks pods is as wrong as an empty one; simulated worlds rarely show it, since pods that were seen
/// before and that a list lacks are read one by one.
#[tokio::test]
async fn every_page_of_a_list_is_read() {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let uri = request.uri().to_string();
        let page: usize = uri.split("continue=").nth(1).map_or(0, |token| token.parse().unwrap());
        let metadata =
            if page < 2 { json!({"continue": (page + 1).to_string()}) } else { json!({}) };
        let items = [pod(&format!("{page}"))];
        let body = json!({"metadata": metadata, "items": items}).to_string();
        Ok::<_, Infallible>(http::Response::new(Body::from(body.into_bytes())))
    });
    let client = Client::new(service, "default");
    let pods = live::listed_pods(&client, "n", &["a"]).await.unwrap();
    let names: Vec<&str> = pods.iter().map(|record| record.identity.name.as_str()).collect();
    assert_eq!(names, ["0-pod", "1-pod", "2-pod"]);
}
