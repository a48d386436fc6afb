//! The answers to the page's requests.

use axum::extract::Request;
use axum::http::header::{ALLOW, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::super::Error;
use super::super::aw::object_name;
use super::super::aw::story::{STYLE, Story, html};
use super::Source;
use super::guard::{Guard, HEADERS};
use super::stream::events;
use crate::clock::{Clock, SystemClock};

const PAGE: &str = include_str!("assets/index.html");
const PAGE_STYLE: &str = include_str!("assets/page.css");
/// The modules of the page.
const MODULES: [(&str, &str); 5] = [
    ("app.js", include_str!("assets/app.js")),
    ("dom.js", include_str!("assets/dom.js")),
    ("list.js", include_str!("assets/list.js")),
    ("play.js", include_str!("assets/play.js")),
    ("story.js", include_str!("assets/story.js")),
];

/// What is served, and to whom.
pub(super) struct Site {
    pub guard: Guard,
    pub source: Source,
}

/// The answer to a request.
pub(super) async fn answer(site: &Site, request: Request) -> Response {
    let (request, _) = request.into_parts();
    let admitted = site.guard.admit(&request.method, &request.uri, &request.headers);
    let mut response = match admitted {
        Ok(path) => page(site, path, &Asked::of(&request.uri)).await,
        Err(status) => {
            let mut refusal =
                (status, "forbidden: open the URL that the command printed\n").into_response();
            if status == StatusCode::METHOD_NOT_ALLOWED {
                refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            }
            refusal
        }
    };
    response.headers_mut().extend(HEADERS);
    response
}

/// What a request asks for.
#[derive(Debug, Default)]
struct Asked {
    namespace: String,
    name: String,
    at: Option<Timestamp>,
}

impl Asked {
    /// From the query. Names have no character that would have to be escaped in it, and times are seconds.
    fn of(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let of = |key: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
        };
        let name = |key: &str| of(key).and_then(|text| object_name(text).ok()).unwrap_or_default();
        let at = of("at").and_then(|text| text.parse().ok());
        Self {
            namespace: name("namespace"),
            name: name("name"),
            at: at.and_then(|second| Timestamp::from_second(second).ok()),
        }
    }
}

async fn page(site: &Site, path: &str, asked: &Asked) -> Response {
    let text =
        |kind: &'static str, text: &'static str| ([(CONTENT_TYPE, kind)], text).into_response();
    if let Some((_, module)) = MODULES.iter().find(|(name, _)| *name == path) {
        return text("text/javascript; charset=utf-8", module);
    }
    match (path, &site.source) {
        ("", _) => text("text/html; charset=utf-8", PAGE),
        ("style.css", _) => {
            ([(CONTENT_TYPE, "text/css; charset=utf-8")], format!("{PAGE_STYLE}{STYLE}"))
                .into_response()
        }
        ("info", Source::Live(live)) => {
            let namespace = live.namespace.as_ref();
            let title = namespace.map_or_else(
                || "all namespaces".to_owned(),
                |namespace| format!("namespace {namespace}"),
            );
            data(&json!({"mode": "live", "title": title}))
        }
        ("info", Source::Played(recording)) => data(&recording.info()),
        ("events", Source::Live(live)) => events(&live.rows),
        ("rows", Source::Played(recording)) => data(&recording.rows(asked.at)),
        ("queues", Source::Live(live)) => data(&live.queues().await),
        ("queues", Source::Played(recording)) => data(&recording.queues(asked.at)),
        ("story", _) => told(story(site, asked).await, |story| data(&story)),
        ("picture.svg", _) => told(story(site, asked).await, |story| {
            picture("image/svg+xml", &asked.name, "svg", story.svg())
        }),
        ("picture.html", _) => told(story(site, asked).await, |story| {
            picture("text/html; charset=utf-8", &asked.name, "html", html(&story))
        }),
        _ => (StatusCode::NOT_FOUND, "not found\n").into_response(),
    }
}

fn data(answer: &impl Serialize) -> Response {
    match serde_json::to_string(answer) {
        Ok(json) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn story(site: &Site, asked: &Asked) -> Result<Story, Error> {
    match &site.source {
        Source::Live(live) => live.story(&asked.namespace, &asked.name, SystemClock.now()).await,
        Source::Played(recording) => recording.story(&asked.namespace, &asked.name, asked.at),
    }
}

/// A file to keep: the browser saves it, and does not show it here.
fn picture(kind: &'static str, name: &str, extension: &str, text: String) -> Response {
    let file = format!("attachment; filename=\"{name}.{extension}\"");
    ([(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, file)], text).into_response()
}

fn told(story: Result<Story, Error>, answer: impl FnOnce(Story) -> Response) -> Response {
    match story {
        Ok(story) => answer(story),
        Err(error) => {
            let status = match error {
                Error::Negative(_) | Error::Usage(_) => StatusCode::NOT_FOUND,
                Error::Cluster(_) | Error::System(_) => StatusCode::BAD_GATEWAY,
            };
            (status, data(&json!({"error": error.to_string()}))).into_response()
        }
    }
}
