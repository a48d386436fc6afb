//! Who may read the metrics: the API server is asked who a bearer token belongs to (`TokenReview`), and
//! whether they may GET `/metrics` (`SubjectAccessReview`).
//!
//! Results are cached, so that scrapes cost at most two calls every [`KEPT_FOR`]; a revoked permission stays
//! valid for at most that long. While the API server is unavailable, which the metrics tell, a token that was allowed before
//! keeps its permission for [`KEPT_IN_OUTAGE_FOR`]; other requests are denied.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::listener::Peer;
use crate::rate::{Rate, RateLimiter};
use crate::telemetry;
use crate::ttl_cache::TtlCache;

/// How long an answer holds.
pub const KEPT_FOR: Duration = Duration::from_secs(30);
/// How long a permission holds while the API server cannot be asked again.
pub const KEPT_IN_OUTAGE_FOR: Duration = Duration::from_mins(10);
/// How many results are cached; the oldest is evicted first.
pub const KEPT_MAX: usize = 256;
/// How many tokens the API server is asked about at a time.
const ASKED_AT_A_TIME: usize = 4;
/// How long its answers may take, both together.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The same about a token that was allowed before. Prometheus waits 10 s for the page.
const ANSWER_AGAIN_WITHIN: Duration = Duration::from_secs(3);
/// The longest token that it is asked about; those of service accounts have about 1 KiB.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// How often the log says that tokens of one peer cannot be verified.
const LINES_OF_A_PEER: Rate = Rate { each: Duration::from_secs(1), at_once: 10 };

/// Asks who may read the metrics.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    client: Client,
    kept: TtlCache<Digest, Permission>,
    /// The last answers about tokens that were allowed once: invented ones evict none of them.
    last: TtlCache<Digest, Permission>,
    places: Semaphore,
    clock: Arc<dyn Clock>,
    lines: RateLimiter<Option<Peer>>,
}

/// What is kept instead of a token.
type Digest = Vec<u8>;

/// What the API server says of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permission {
    /// It is valid, and its user has the permission.
    Allowed,
    /// It is valid, but its user lacks the permission.
    Forbidden,
    /// It is not valid.
    Unknown,
}

/// Why a token could not be verified.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("TokenReview or SubjectAccessReview failed")]
    Ask(#[from] kube::Error),
    #[error("the API server did not respond within {} s", ANSWER_WITHIN.as_secs())]
    Slow,
}

impl Access {
    /// Asks with a client, which may create `TokenReview` and `SubjectAccessReview`.
    #[must_use]
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        let [kept, last] = [(); 2].map(|()| TtlCache::new(clock.clone(), KEPT_MAX));
        let places = Semaphore::new(ASKED_AT_A_TIME);
        let lines = RateLimiter::new(LINES_OF_A_PEER);
        Self(Arc::new(Inner { client, kept, last, places, clock, lines }))
    }

    /// The router, for those who may.
    pub(super) fn guard(self, router: Router) -> Router {
        router.layer(from_fn_with_state(self, check))
    }

    async fn answer(&self, token: &str) -> Result<Permission, Error> {
        if token.len() > TOKEN_BYTES_MAX {
            return Ok(Permission::Unknown);
        }
        let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
        let digest = digest.as_ref().to_vec();
        if let Some(answer) = self.0.kept.get(&digest) {
            return Ok(answer);
        }
        let asked = async {
            let place = self.0.places.acquire().await;
            // somebody else may have asked the same meanwhile
            if let Some(answer) = self.0.kept.get(&digest) {
                return Ok(answer);
            }
            let answer = self.ask(token).await?;
            drop(place);
            self.0.kept.put(digest.clone(), answer, KEPT_FOR);
            if answer == Permission::Allowed || self.0.last.get(&digest).is_some() {
                self.0.last.put(digest.clone(), answer, KEPT_IN_OUTAGE_FOR);
            }
            Ok(answer)
        };
        let is_known = self.0.last.get(&digest).is_some();
        let within = if is_known { ANSWER_AGAIN_WITHIN } else { ANSWER_WITHIN };
        let answer = tokio::time::timeout(within, asked).await.unwrap_or(Err(Error::Slow));
        answer.or_else(|error| self.0.last.get(&digest).ok_or(error))
    }

    async fn ask(&self, token: &str) -> Result<Permission, Error> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews: Api<TokenReview> = Api::all(self.0.client.clone());
        let said = reviews.create(&PostParams::default(), &review).await?.status;
        let said = said.filter(|said| said.authenticated == Some(true));
        let Some(user) = said.and_then(|said| said.user) else { return Ok(Permission::Unknown) };
        let review = SubjectAccessReview { spec: may_read(user), ..SubjectAccessReview::default() };
        let reviews: Api<SubjectAccessReview> = Api::all(self.0.client.clone());
        let said = reviews.create(&PostParams::default(), &review).await?.status;
        let allowed = said.is_some_and(|said| said.allowed && said.denied != Some(true));
        Ok(if allowed { Permission::Allowed } else { Permission::Forbidden })
    }
}

/// The question whether someone may GET `/metrics`, with all that is known of them.
fn may_read(user: UserInfo) -> SubjectAccessReviewSpec {
    let UserInfo { username, uid, groups, extra } = user;
    SubjectAccessReviewSpec {
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some("/metrics".to_owned()),
            verb: Some("get".to_owned()),
        }),
        resource_attributes: None,
        user: username,
        uid,
        groups,
        extra,
    }
}

async fn check(State(access): State<Access>, request: Request, next: Next) -> Response {
    let Some(token) = bearer(request.headers()) else { return unknown() };
    match access.answer(token).await {
        Ok(Permission::Allowed) => next.run(request).await,
        Ok(Permission::Forbidden) => forbidden(),
        Ok(Permission::Unknown) => unknown(),
        Err(error) => {
            let peer = request.extensions().get::<Peer>().copied();
            if access.0.lines.take(peer, 1, access.0.clock.elapsed()).is_ok() {
                let cause = telemetry::chain(&error);
                tracing::warn!(cause, "Access check for /metrics failed; request denied.");
            }
            let text = "cannot verify the token with the API server; try again later\n";
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

fn forbidden() -> Response {
    let text = "forbidden: the token's user cannot get /metrics; grant a ClusterRole with \
                nonResourceURLs [/metrics], verbs [get]\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

fn unknown() -> Response {
    let text = "unauthorized: a valid bearer token is required\n";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("Bearer") && !token.is_empty()).then_some(token)
}
