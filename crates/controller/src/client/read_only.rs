//! A client that only reads.

use http::{Method, Request};
use kube::client::Body;
use tower::filter::FilterLayer;

/// A request was not sent, since it could change something.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path} was not sent: with --shadow, the controller only reads")]
pub struct WouldWrite {
    method: Method,
    path: String,
}

/// Tells whether a request may leave.
type OnlyGet = fn(Request<Body>) -> Result<Request<Body>, WouldWrite>;

/// A layer of a client: every request that is not a GET fails, and does not leave.
///
/// That is more than writes of objects: reviews of access and of tokens are created, too.
#[must_use]
pub fn read_only() -> FilterLayer<OnlyGet> {
    FilterLayer::new(only_get)
}

fn only_get(request: Request<Body>) -> Result<Request<Body>, WouldWrite> {
    if *request.method() == Method::GET {
        return Ok(request);
    }
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    Err(WouldWrite { method, path })
}
