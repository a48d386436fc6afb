//! The server as a tower service, for `kube::Client`.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use tokio::sync::watch as signal;
use tower::Service;

use super::response::{ApiResponse, answer};
use super::store::Store;
use super::watch::Watch;

/// The body of a response.
pub type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A server that is shared by its clients and whoever else changes the store.
#[derive(Clone, Debug)]
pub struct ApiServer {
    store: Arc<Mutex<Store>>,
    changed: Arc<signal::Sender<u64>>,
}

impl ApiServer {
    /// A server of a store.
    #[must_use]
    pub fn new(store: Store) -> Self {
        let changed = Arc::new(signal::Sender::new(store.version()));
        Self { store: Arc::new(Mutex::new(store)), changed }
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes the store; watches are told.
    pub fn with<T>(&self, work: impl FnOnce(&mut Store) -> T) -> T {
        let mut store = self.lock();
        let result = work(&mut store);
        let version = store.version();
        drop(store);
        self.changed.send_if_modified(|known| std::mem::replace(known, version) != version);
        result
    }

    /// A client of this server.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    async fn handle(self, request: Request<kube::client::Body>) -> Result<Reply, kube::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let uri = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let content_type = head.headers.get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let answered = self.with(|store| answer(store, &head.method, uri, content_type, &body));
        Ok(match answered {
            ApiResponse::Document(code, text) => reply(code, text),
            ApiResponse::Watch(watch) => self.stream(watch),
        })
    }

    fn stream(self, watch: Watch) -> Reply {
        let ends =
            watch.timeout.map(|seconds| tokio::time::Instant::now() + Duration::from_secs(seconds));
        let news = self.changed.subscribe();
        let state = Told { server: self, watch, news, ends, ready: VecDeque::new(), over: false };
        let frames = stream::unfold(state, |mut state| async move {
            let line = state.next().await?;
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from(line))), state))
        });
        let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
        let json = header::HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}

/// A watch that is being told.
struct Told {
    server: ApiServer,
    watch: Watch,
    news: signal::Receiver<u64>,
    ends: Option<tokio::time::Instant>,
    ready: VecDeque<String>,
    over: bool,
}

impl Told {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.over {
                return None;
            }
            self.news.mark_unchanged();
            match self.watch.lines(&self.server.lock()) {
                Some(lines) => self.ready.extend(lines),
                None => return None,
            }
            if !self.ready.is_empty() {
                continue;
            }
            let ends = async {
                match self.ends {
                    Some(ends) => tokio::time::sleep_until(ends).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.news.changed() => changed.ok()?,
                () = ends => {
                    self.over = true;
                    if self.watch.bookmarks {
                        return Some(self.watch.bookmark(&self.server.lock()));
                    }
                }
            }
        }
    }
}

/// A response with a JSON document.
#[must_use]
pub fn reply(code: u16, text: String) -> Reply {
    let mut response = Response::new(Full::new(Bytes::from(text)).boxed_unsync());
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

impl Service<Request<kube::client::Body>> for ApiServer {
    type Response = Reply;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        Box::pin(self.clone().handle(request))
    }
}
