//! Pages of lists. Whoever creates objects chooses how large they are, and a page is read as a whole: one that exceeds
//! a bound is not read to its end, and fewer objects are asked for.

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use tokio::sync::Mutex;
use tower::{BoxError, Service};

use super::send;

/// The most bytes of a page of more than one object.
pub(super) const PAGE_BYTES_MAX: usize = 16 << 20;
/// How many times fewer objects are asked for after a page that was too large.
const SHRINK_BY: u32 = 8;

const LIMIT: &str = "limit=";

/// The same request for a page of fewer objects.
pub(super) struct Smaller {
    uri: Uri,
    headers: HeaderMap,
    limit: u32,
}

impl Smaller {
    /// None where the request is not for a page, or for one of a single object.
    pub(super) fn of(request: &Request<Body>) -> Option<Self> {
        let mut pairs = request.uri().query().unwrap_or_default().split('&');
        let limit = pairs.find_map(|pair| pair.strip_prefix(LIMIT)?.parse().ok())?;
        let (uri, headers) = (request.uri().clone(), request.headers().clone());
        (request.method() == Method::GET && limit > 1).then_some(Self { uri, headers, limit })
    }

    fn request(&self) -> Result<Request<Body>, BoxError> {
        let limited = |pair: &str| {
            if pair.starts_with(LIMIT) { format!("{LIMIT}{}", self.limit) } else { pair.to_owned() }
        };
        let pairs: Vec<String> =
            self.uri.query().unwrap_or_default().split('&').map(limited).collect();
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query =
            Some(PathAndQuery::try_from(format!("{}?{}", self.uri.path(), pairs.join("&")))?);
        let mut request = Request::get(Uri::from_parts(parts)?).body(Body::empty())?;
        request.headers_mut().clone_from(&self.headers);
        Ok(request)
    }
}

/// The answer as a whole. Of a page that is too large it is the one to a request for fewer objects; its continue token
/// leads to the others.
///
/// # Errors
/// Where the connection breaks.
pub(super) async fn whole<S, B>(
    mut answer: Response<B>,
    mut smaller: Option<Smaller>,
    service: &Mutex<S>,
) -> Result<Response<Bytes>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    while let Some(mut page) = smaller {
        let (head, body) = answer.into_parts();
        match Limited::new(body, PAGE_BYTES_MAX).collect().await {
            Ok(body) => return Ok(Response::from_parts(head, body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => {}
            Err(error) => return Err(error),
        }
        page.limit = (page.limit / SHRINK_BY).max(1);
        answer = send(service, page.request()?).await?;
        smaller = Some(page).filter(|page| page.limit > 1);
    }
    let (head, body) = answer.into_parts();
    let bytes = body.collect().await.map_err(Into::into)?.to_bytes();
    Ok(Response::from_parts(head, bytes))
}
