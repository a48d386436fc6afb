//! Pages of lists. Whoever creates objects chooses how large they are, and a page is read as a whole: one that exceeds
//! a bound is not read to its end, and fewer objects are asked for.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use tokio::sync::Mutex;
use tower::{BoxError, Service};

use super::send;
use crate::locked::Locked;

/// The most bytes of a page of more than one object.
pub(super) const PAGE_BYTES_MAX: usize = 16 << 20;
/// How many times fewer objects are asked for after a page that was too large.
const SHRINK_BY: u32 = 8;

/// Of how many lists it is remembered how many objects fit into a page.
const LISTS_MAX: usize = 64;

const LIMIT: &str = "limit=";
const CONTINUE: &str = "continue=";

/// A request for a page of a list.
pub(super) struct Page {
    uri: Uri,
    headers: HeaderMap,
    limit: u32,
    /// The list that it is a page of: the request without limit and continue token.
    list: String,
    asked: u32,
    is_first: bool,
}

/// How many objects to ask for, of lists of which a page was too large.
#[derive(Debug, Default)]
pub(super) struct PageSizes(std::sync::Mutex<BTreeMap<String, u32>>);

impl PageSizes {
    /// The request for a page with the limit that fitted the page before, where that one was too large.
    ///
    /// # Errors
    /// Where no request can be made of the URI.
    pub(super) fn adapt(
        &self,
        page: Option<&mut Page>,
        request: Request<Body>,
    ) -> Result<Request<Body>, BoxError> {
        let Some(page) = page.filter(|page| !page.is_first) else { return Ok(request) };
        let Some(limit) = self.0.locked().get(&page.list).copied() else { return Ok(request) };
        page.limit = limit.min(page.asked);
        page.request()
    }

    /// A page came, of so many bytes: the next one asks for as many objects, or for more where they are smaller again.
    fn note(&self, page: &Page, bytes: usize) {
        let grown = page.limit.saturating_mul(SHRINK_BY);
        let limit = if bytes <= PAGE_BYTES_MAX / SHRINK_BY as usize { grown } else { page.limit };
        let mut lists = self.0.locked();
        if limit >= page.asked {
            lists.remove(&page.list);
            return;
        }
        lists.insert(page.list.clone(), limit);
        if lists.len() > LISTS_MAX {
            lists.pop_first();
        }
    }
}

impl Page {
    /// None where the request is not for a page, or for one of a single object.
    pub(super) fn of(request: &Request<Body>) -> Option<Self> {
        let pairs = || request.uri().query().unwrap_or_default().split('&');
        let limit = pairs().find_map(|pair| pair.strip_prefix(LIMIT)?.parse().ok())?;
        let of_list = |pair: &&str| !pair.starts_with(LIMIT) && !pair.starts_with(CONTINUE);
        let query: Vec<&str> = pairs().filter(of_list).collect();
        let page = Self {
            uri: request.uri().clone(),
            headers: request.headers().clone(),
            limit,
            list: format!("{}?{}", request.uri().path(), query.join("&")),
            asked: limit,
            is_first: pairs().all(|pair| !pair.starts_with(CONTINUE)),
        };
        (request.method() == Method::GET && limit > 1).then_some(page)
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
    mut page: Option<Page>,
    service: &Mutex<S>,
    fitting: &PageSizes,
) -> Result<Response<Bytes>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    while let Some(smaller) = page.as_mut().filter(|page| page.limit > 1) {
        let (head, body) = answer.into_parts();
        match Limited::new(body, PAGE_BYTES_MAX).collect().await {
            Ok(body) => {
                let bytes = body.to_bytes();
                fitting.note(smaller, bytes.len());
                return Ok(Response::from_parts(head, bytes));
            }
            Err(error) if error.is::<LengthLimitError>() => {}
            Err(error) => return Err(error),
        }
        smaller.limit = (smaller.limit / SHRINK_BY).max(1);
        answer = send(service, smaller.request()?).await?;
    }
    let (head, body) = answer.into_parts();
    let bytes = body.collect().await.map_err(Into::into)?.to_bytes();
    if let Some(page) = &page {
        fitting.note(page, bytes.len());
    }
    Ok(Response::from_parts(head, bytes))
}
