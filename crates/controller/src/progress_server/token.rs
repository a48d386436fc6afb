//! Which pod a token is bound to: the API server is asked (`TokenReview`).
//!
//! A valid answer is kept for [`KEPT_FOR`] by a digest of the token, so a pod costs one call in that time. Other
//! tokens are asked about each time, within the rate of the peer that sends them: nobody fills the cache with them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use k8s_openapi::api::authentication::v1::{
    TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo,
};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::time::timeout;

use super::refusal::Refusal;
use super::{PLACE_TIME_MAX, PodId};
use crate::clock::Clock;
use crate::kinds::PROGRESS_AUDIENCE;
use crate::listener::{Peer, Shares};
use crate::rate::{Rate, RateLimiter};
use crate::telemetry;
use crate::ttl_cache::TtlCache;
use crate::tuning::names;

/// How long an answer holds: a token that was revoked is taken for so long.
pub(super) const KEPT_FOR: Duration = Duration::from_mins(1);
/// How many answers are kept; the oldest is evicted first.
const KEPT_MAX: usize = 16_384;
/// The questions of one peer: all pods of a node may come from one address.
const OF_PEER: Rate = Rate { each: Duration::from_millis(100), at_once: 100 };
/// The most questions at a time, and those of one peer.
const ASKED_AT_A_TIME: u32 = 8;
const ASKED_OF_A_PEER: u32 = 2;
/// How often the log says that tokens of one peer cannot be reviewed.
const LINES_OF_A_PEER: Rate = Rate { each: Duration::from_secs(1), at_once: 10 };
/// The longest token that is asked about; those of service accounts have about 1 KiB.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Who a request is from where no address is known: all of them together.
const UNKNOWN: Peer = Peer::V6(0);
/// What the name of a ServiceAccount's user begins with.
const ACCOUNT: &str = "system:serviceaccount:";
/// What the API server says of the pod that a token is bound to.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// Asks which pod a token is bound to.
pub(super) struct Tokens {
    client: Client,
    clock: Arc<dyn Clock>,
    kept: TtlCache<Vec<u8>, PodId>,
    rates: RateLimiter<Peer>,
    places: Shares,
    lines: RateLimiter<Peer>,
}

impl Tokens {
    pub(super) fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self {
            client,
            kept: TtlCache::new(clock.clone(), KEPT_MAX),
            clock,
            rates: RateLimiter::new(OF_PEER),
            places: Shares::new(ASKED_AT_A_TIME, ASKED_OF_A_PEER),
            lines: RateLimiter::new(LINES_OF_A_PEER),
        }
    }

    /// The pod that a token is bound to.
    ///
    /// # Errors
    /// It is bound to none, or that cannot be told now.
    pub(super) async fn pod(&self, peer: Option<Peer>, token: &str) -> Result<PodId, Refusal> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Refusal::Token);
        }
        let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
        let digest = digest.as_ref().to_vec();
        if let Some(pod) = self.kept.get(&digest) {
            return Ok(pod);
        }
        let peer = peer.unwrap_or(UNKNOWN);
        self.rates.take(peer, 1, self.clock.elapsed()).map_err(Refusal::TooMany)?;
        let place = timeout(PLACE_TIME_MAX, self.places.take(Some(peer), 1)).await;
        let place = place.map_err(|_| Refusal::no_place(&self.places, PLACE_TIME_MAX))?;
        let pod = bound(self.review(peer, token).await?)?;
        drop(place);
        self.kept.put(digest, pod.clone(), KEPT_FOR);
        Ok(pod)
    }

    /// What the API server says of a token. The log says why it says nothing, for one peer only so often.
    async fn review(&self, peer: Peer, token: &str) -> Result<Option<TokenReviewStatus>, Refusal> {
        let audiences = Some(vec![PROGRESS_AUDIENCE.to_owned()]);
        let spec = TokenReviewSpec { token: token.to_owned(), audiences };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        match reviews.create(&PostParams::default(), &review).await {
            Ok(review) => Ok(review.status),
            Err(error) => {
                if self.lines.take(peer, 1, self.clock.elapsed()).is_ok() {
                    let cause = telemetry::chain(&error);
                    tracing::warn!(cause, "TokenReview failed; progress report refused.");
                }
                Err(Refusal::Unavailable("token"))
            }
        }
    }
}

/// The token of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (scheme, token) = value.and_then(|value| value.split_once(' ')).ok_or(Refusal::NoToken)?;
    let token = token.trim();
    if scheme.eq_ignore_ascii_case("Bearer") && !token.is_empty() {
        Ok(token)
    } else {
        Err(Refusal::NoToken)
    }
}

/// The pod that the API server says a token is bound to.
fn bound(said: Option<TokenReviewStatus>) -> Result<PodId, Refusal> {
    let is_for_us = |said: &TokenReviewStatus| {
        // an authenticator that knows nothing of audiences says none
        let audiences = said.audiences.iter().flatten();
        said.authenticated == Some(true) && audiences.into_iter().any(|it| it == PROGRESS_AUDIENCE)
    };
    let user = said.filter(is_for_us).and_then(|said| said.user).ok_or(Refusal::Token)?;
    of_user(&user).ok_or(Refusal::NotAPod)
}

fn of_user(user: &UserInfo) -> Option<PodId> {
    let (namespace, _) = user.username.as_ref()?.strip_prefix(ACCOUNT)?.split_once(':')?;
    let none = BTreeMap::new();
    let extra = user.extra.as_ref().unwrap_or(&none);
    let one = |key: &str| match extra.get(key).map(Vec::as_slice) {
        Some([value]) => Some(value.clone()),
        Some(_) | None => None,
    };
    let (name, uid) = (one(POD_NAME)?, one(POD_UID)?);
    let are_names = names::is_label(namespace) && names::is_subdomain(&name) && !uid.is_empty();
    are_names.then(|| PodId { namespace: namespace.to_owned(), name, uid })
}
