use std::convert::Infallible;

use kube::Client;
use kube::core::ObjectList;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;

type Reply = Response<Full<Bytes>>;

/// A client of a server that answers so after a while.
fn client(after: Duration, reply: impl Fn() -> Reply + Clone + Send + 'static) -> Client {
    let service = tower::service_fn(move |_: Request<Body>| {
        let reply = reply.clone();
        async move {
            tokio::time::sleep(after).await;
            Ok::<_, Infallible>(reply())
        }
    });
    Client::new(Limits.layer(service), "default")
}

fn reply(code: u16, retry_after: Option<&str>, body: &str) -> Reply {
    let mut builder = Response::builder().status(code);
    if let Some(text) = retry_after {
        builder = builder.header("Retry-After", text);
    }
    builder.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
}

async fn get(client: &Client, path: &str) -> Result<Value, kube::Error> {
    client.request(Request::get(path).body(vec![]).unwrap()).await
}

#[tokio::test]
async fn a_client_that_only_reads_sends_nothing_else() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    let server = seen.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        server.lock().unwrap().push(request.method().clone());
        async { Ok::<_, Infallible>(reply(200, None, "{}")) }
    });
    let client = Client::new(read_only().layer(service), "default");
    let all = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "BREW"];
    for method in all {
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let request = Request::builder().method(method).uri(path).body(vec![]).unwrap();
        let answer = client.request::<Value>(request).await;
        assert_eq!(answer.is_ok(), method == "GET", "{method}");
        if let Err(kube::Error::Service(error)) = answer {
            let error = error.downcast::<WouldWrite>().unwrap().to_string();
            assert_eq!(
                error,
                format!("{method} {path} was not sent: with --shadow, the controller only reads")
            );
        }
    }
    assert_eq!(*seen.lock().unwrap(), [Method::GET]);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_again_where_the_api_server_asks_to_wait() {
    for (code, asked, refused, times, seconds) in [
        (429, Some("2"), 3, 4, 6),
        (503, Some("2"), 3, 4, 6),
        (429, Some("1"), 99, 11, 10),
        (429, Some("31"), 3, 1, 0),
        (429, None, 3, 1, 0),
        (503, Some("Fri, 31 Dec 1999 23:59:59 GMT"), 3, 1, 0),
        // whether a write was carried out is not known
        (504, Some("2"), 3, 1, 0),
        (500, Some("2"), 3, 1, 0),
        (409, Some("2"), 3, 1, 0),
    ] {
        let seen = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
        let server = seen.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body
                    .collect()
                    .await
                    .map(http_body_util::Collected::to_bytes)
                    .unwrap_or_default();
                let mut seen = server.lock().unwrap();
                seen.push((head.method, head.uri.to_string(), head.headers, body));
                let code = if seen.len() > refused { 200 } else { code };
                Ok::<_, Infallible>(reply(code, asked, "{}"))
            }
        });
        let client = Client::new(SendAgain.layer(service), "default");
        let begun = tokio::time::Instant::now();
        let request = Request::post("/api/v1/namespaces/n/pods?dryRun=All").header("a", "b");
        let answer = client.request::<Value>(request.body(b"{}".to_vec()).unwrap()).await;
        let seen = seen.lock().unwrap();
        assert_eq!((seen.len(), begun.elapsed().as_secs()), (times, seconds), "{code} {asked:?}");
        assert_eq!(answer.is_ok(), times > refused, "{code} {asked:?}");
        assert!(seen.iter().all(|it| *it == seen[0]), "{seen:?}");
        assert_eq!(seen[0].3, "{}");
    }
}

#[test]
fn how_long_a_call_may_take() {
    for (method, uri, want) in [
        (Method::GET, "/api/v1/namespaces/n/pods/p", CALL_WITHIN),
        (Method::GET, "/api/v1/namespaces/n/pods?limit=500", CALL_WITHIN),
        (Method::GET, "/api/v1/pods?limit=500&labelSelector=a", LIST_ALL_WITHIN),
        (Method::GET, "/api/v1/pods?watch=true&resourceVersion=1", CALL_WITHIN),
        (Method::POST, "/api/v1/namespaces/n/pods", CALL_WITHIN),
        (Method::DELETE, "/api/v1/namespaces/n/pods/p", CALL_WITHIN),
    ] {
        assert_eq!(deadline(&method, &uri.parse().unwrap()), want, "{method} {uri}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_answered_in_time_fails() {
    let slow = client(CALL_WITHIN + Duration::from_secs(1), || reply(200, None, "{}"));
    let error = get(&slow, "/api/v1/namespaces/n/pods/p").await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("GET /api/v1/namespaces/n/pods/p: no response within 35 s"), "{text}");
    let slow_enough = client(CALL_WITHIN / 2, || reply(200, None, "{}"));
    assert_eq!(get(&slow_enough, "/api/v1/namespaces/n/pods/p").await.unwrap(), json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_fails_and_that_of_a_watch_goes_on() {
    let service = tower::service_fn(async |_: Request<Body>| {
        let never = futures::stream::pending::<Result<http_body::Frame<Bytes>, Infallible>>();
        Ok::<_, Infallible>(Response::new(http_body_util::StreamBody::new(never)))
    });
    let mut service = Limits.layer(service);
    let mut send = async |uri: &str| {
        let request = Request::get(uri).body(Body::empty()).unwrap();
        service.ready().await.unwrap().call(request).await.map(drop)
    };
    assert!(send("/api/v1/pods").await.is_err());
    assert!(send("/api/v1/pods?watch=true").await.is_ok());
}

#[tokio::test]
async fn retry_after_becomes_part_of_the_error() {
    let status = |seconds: u32| {
        let details = json!({"retryAfterSeconds": seconds});
        json!({"kind": "Status", "status": "Failure", "code": 429, "message": "m",
            "reason": "TooManyRequests", "details": details})
        .to_string()
    };
    for (code, header, body, want, message) in [
        (429, Some("7"), "Too many requests\n".to_owned(), Some(7), "Too many requests"),
        (503, Some("7"), String::new(), Some(7), ""),
        (429, Some("3600"), String::new(), Some(60), ""),
        (429, None, status(5), Some(5), "m"),
        (429, Some("7"), status(5), Some(5), "m"),
        (429, Some("7"), status(0), Some(7), "m"),
        (429, Some("Fri, 31 Dec 1999 23:59:59 GMT"), status(0), None, "m"),
        (429, None, "no".to_owned(), None, "no"),
        (500, Some("7"), "no".to_owned(), None, "no"),
    ] {
        let client = client(Duration::ZERO, {
            let body = body.clone();
            move || reply(code, header, &body)
        });
        let error = get(&client, "/api/v1/pods").await.unwrap_err();
        let want = want.map(Duration::from_secs);
        assert_eq!(retry_after(&error), want, "{code} {header:?} {body}");
        let kube::Error::Api(status) = &error else { panic!("{error}") };
        assert_eq!((status.code, status.message.as_str()), (code, message), "{header:?} {body}");
    }
    let fine = client(Duration::ZERO, || reply(200, Some("7"), r#"{"metadata": {}, "items": []}"#));
    let request = Request::get("/api/v1/pods").body(vec![]).unwrap();
    let list: ObjectList<kube::core::DynamicObject> = fine.request(request).await.unwrap();
    assert!(list.items.is_empty());
}

#[tokio::test]
async fn an_error_without_a_code_has_the_code_of_its_answer() {
    for (code, body, want) in [
        (502, r#"{"message": "no upstream"}"#, 502),
        (503, "{}", 503),
        (409, r#"{"code": 422, "message": "m"}"#, 422),
    ] {
        let client = client(Duration::ZERO, move || reply(code, None, body));
        let error = get(&client, "/api/v1/namespaces/n/pods/p").await.unwrap_err();
        let kube::Error::Api(status) = &error else { panic!("{error}") };
        assert_eq!(status.code, want, "{body}");
        assert_eq!(body.contains("no upstream"), status.message == "no upstream", "{body}");
    }
}

#[tokio::test]
async fn an_error_that_is_too_long_is_not_read_to_its_end() {
    let too_long = "the error message of the API server has more than 256 KiB; to read it, send";
    for (code, bytes, want) in [
        (422, ERROR_BYTES_MAX, "x"),
        (422, ERROR_BYTES_MAX + 1, too_long),
        (500, 32 << 20, too_long),
    ] {
        let client = client(Duration::ZERO, move || reply(code, None, &"x".repeat(bytes)));
        let error = get(&client, "/api/v1/namespaces/n/pods/p").await.unwrap_err();
        let kube::Error::Api(status) = &error else { panic!("{error}") };
        assert_eq!((status.code, status.message.starts_with(want)), (code, true), "{bytes}");
        assert_eq!(is_rejected_for_good(&error), code == 422, "{bytes}");
    }
}

/// A server of Leases of these sizes in bytes, page by page; what it was asked for, in order.
fn leases(sizes: Vec<usize>) -> (Client, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    let asked = seen.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let number = |name: &str| -> usize {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(found, _)| *found == name).map_or(0, |(_, value)| value.parse().unwrap())
        };
        let (first, limit) = (number("continue"), number("limit"));
        asked.lock().unwrap().push(format!("{limit} from {first}"));
        let last = (first + limit).min(sizes.len());
        let items: Vec<Value> = (first..last)
            .map(|i| json!({"metadata": {"name": i.to_string()}, "text": "x".repeat(sizes[i])}))
            .collect();
        let rest = if last < sizes.len() { last.to_string() } else { String::new() };
        let page = json!({"metadata": {"continue": rest}, "items": items}).to_string();
        async move { Ok::<_, Infallible>(reply(200, None, &page)) }
    });
    (Client::new(Limits.layer(service), "default"), seen)
}

#[tokio::test]
async fn of_a_page_that_is_too_large_fewer_objects_are_asked_for() {
    const MIB: usize = 1 << 20;
    for (sizes, calls) in [
        (vec![1; 600], vec!["500 from 0", "500 from 500"]),
        // the API server never stores so much in an object, but a single one is read whatever it takes
        (vec![17 * MIB], vec!["500 from 0", "62 from 0", "7 from 0", "1 from 0"]),
        // the next page asks for as many as fitted
        (vec![MIB; 20], vec!["500 from 0", "62 from 0", "7 from 0", "7 from 7", "7 from 14"]),
        (
            [vec![5 * MIB; 7], vec![1; 100]].concat(),
            // once a page is small, the next one asks for more again
            vec![
                "500 from 0",
                "62 from 0",
                "7 from 0",
                "1 from 0",
                "1 from 1",
                "1 from 2",
                "1 from 3",
                "1 from 4",
                "1 from 5",
                "1 from 6",
                "1 from 7",
                "8 from 8",
                "64 from 16",
                "500 from 80",
            ],
        ),
    ] {
        let (client, seen) = leases(sizes.clone());
        let resource =
            kube::core::ApiResource::erase::<k8s_openapi::api::coordination::v1::Lease>(&());
        let params = kube::api::ListParams::default();
        let all = crate::observe::live::list(&client, &resource, Some("n"), &params).await.unwrap();
        let names: Vec<_> = all.into_iter().map(|object| object.meta.name.unwrap()).collect();
        assert_eq!(names, (0..sizes.len()).map(|i| i.to_string()).collect::<Vec<_>>());
        assert_eq!(*seen.lock().unwrap(), calls);
    }
}

#[test]
fn a_watch_that_fails_is_never_left_alone_for_long() {
    let mut pauses = WatchPauses(WATCH_PAUSE.0);
    let first: Vec<u128> = pauses.by_ref().take(5).map(|pause| pause.as_millis()).collect();
    assert_eq!(first, [800, 1600, 3200, 4000, 4000]);
    pauses.reset();
    assert_eq!(pauses.next(), Some(WATCH_PAUSE.0));
}
