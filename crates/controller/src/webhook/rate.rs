//! How many requests to the cluster a user, a namespace and a peer may cause.
//!
//! An access check costs API requests by the controller, and every client that reaches the webhook's port can
//! send a review with any user name. So there is a rate limit for each user that a peer names, one for each namespace,
//! since a tenant has as many `ServiceAccounts` as it likes, and one for each peer over all of them: no client can exhaust
//! the limit of a user at another peer. An API server is one peer for all its tenants, so each peer has a reserve beside
//! its limit, which only namespaces that ask for little and the controller itself draw on. A check that was made a moment
//! ago costs little: its results are cached.

use std::sync::Arc;
use std::time::Duration;

use ring::digest::{Context, SHA256};

use super::Identity;
use crate::clock::Clock;
use crate::listener::Peer;
use crate::rate::{Rate, RateLimiter};
use crate::ttl_cache::TtlCache;

/// A user: so many requests a second, and so many at once.
const OF_USER: Rate = Rate { each: Duration::from_millis(10), at_once: 500 };
/// A namespace: twice as many, so that no user of it can lock out the others.
const OF_NAMESPACE: Rate = Rate { each: Duration::from_millis(5), at_once: 1_000 };
/// A peer: an API server asks for all its users.
const OF_PEER: Rate = Rate { each: Duration::from_micros(2_500), at_once: 2_000 };
/// A namespace that asks for no more than this draws on the reserve of its peer. A check that takes more than
/// `at_once` does not.
const CALM: Rate = Rate { each: Duration::from_millis(100), at_once: 30 };
/// The reserve of a peer, beside [`OF_PEER`]: enough for 20 namespaces that ask for as much as is calm all the time.
const RESERVE: Rate = Rate { each: Duration::from_millis(5), at_once: 1_000 };
/// The shortest time for which results are cached, denials included.
const PAID_FOR: Duration = Duration::from_secs(2);
/// The most checks that are remembered.
const PAID_MAX: usize = 4_096;

/// What a check is about, and who asks: a digest, so that its size does not matter.
pub(super) type Subject = Vec<u8>;

/// Who has to wait before more checks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The user, for this long.
    User(Duration),
    /// All users of this namespace, for this long.
    Namespace(Duration),
    /// All users of this peer, for this long.
    Peer(Duration),
}

/// A user or a namespace, as a peer names it: a digest, so that its size does not matter.
type Named = (Option<Peer>, Vec<u8>);

/// The requests that users, namespaces and peers have caused.
#[derive(Debug)]
pub(super) struct Rates {
    clock: Arc<dyn Clock>,
    users: RateLimiter<Named>,
    namespaces: RateLimiter<Named>,
    calm: RateLimiter<Named>,
    peers: RateLimiter<Peer>,
    reserve: RateLimiter<Peer>,
    paid: TtlCache<Subject, ()>,
}

impl Rates {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let paid = TtlCache::new(clock.clone(), PAID_MAX);
        let [users, namespaces, calm] = [OF_USER, OF_NAMESPACE, CALM].map(RateLimiter::new);
        let [peers, reserve] = [OF_PEER, RESERVE].map(RateLimiter::new);
        Self { clock, users, namespaces, calm, peers, reserve, paid }
    }

    /// Charges a check that takes so many requests of the cluster; one where its results are remembered. The controller
    /// itself asks in no `namespace`: its writes are no tenant's.
    ///
    /// # Errors
    /// Where there were too many: nothing is charged.
    pub(super) fn charge(
        &self,
        peer: Option<Peer>,
        who: &Identity,
        namespace: Option<&str>,
        about: &Subject,
        requests: u32,
    ) -> Result<(), Wait> {
        let now = self.clock.elapsed();
        let requests = if self.paid.get(about).is_some() { 1 } else { requests.saturating_add(1) };
        // the user first: who is beyond her limit takes nothing from the others of the namespace and of the peer
        let named = |name: &str| (peer, digest([name]));
        let (user, tenant) = (named(&who.username), namespace.map(named));
        self.users.take(user.clone(), requests, now).map_err(Wait::User)?;
        if let Some(tenant) = &tenant {
            self.namespaces.take(tenant.clone(), requests, now).map_err(|time| {
                self.users.refund(&user, requests, now);
                Wait::Namespace(time)
            })?;
        }
        let Some(peer) = peer else { return Ok(()) };
        self.take_of_peer(peer, tenant.as_ref(), requests, now).map_err(|time| {
            self.users.refund(&user, requests, now);
            if let Some(tenant) = &tenant {
                self.namespaces.refund(tenant, requests, now);
            }
            Wait::Peer(time)
        })
    }

    /// Takes from what a peer may cause: for a namespace that asks for little, from its reserve first, and for the controller
    /// itself, which has no tenant, from its reserve last. Where both have too little, the shorter wait counts.
    fn take_of_peer(
        &self,
        peer: Peer,
        tenant: Option<&Named>,
        requests: u32,
        now: Duration,
    ) -> Result<(), Duration> {
        let of_peer = || self.peers.take(peer, requests, now);
        let of_reserve = || self.reserve.take(peer, requests, now);
        let Some(tenant) = tenant else {
            return of_peer().or_else(|wait| of_reserve().map_err(|other| wait.min(other)));
        };
        // the limiter would take more than can ever be there as all of it
        let is_calm =
            requests <= CALM.at_once && self.calm.take(tenant.clone(), requests, now).is_ok();
        if !is_calm {
            return of_peer();
        }
        of_reserve().or_else(|wait| {
            self.calm.refund(tenant, requests, now);
            of_peer().map_err(|other| wait.min(other))
        })
    }

    /// Notes that all results of a check are remembered.
    pub(super) fn remembered(&self, about: Subject) {
        self.paid.put(about, (), PAID_FOR);
    }
}

/// What a check is about: everything that its results may depend on.
pub(super) fn subject<'a>(
    who: &'a Identity,
    namespace: &'a str,
    objects: impl IntoIterator<Item = [&'a str; 2]>,
) -> Subject {
    let Identity { username, uid, groups, extra } = who;
    let extra = extra.iter().flat_map(|(key, values)| {
        [key.as_str(), "="].into_iter().chain(values.iter().map(String::as_str)).chain([""])
    });
    let groups = groups.iter().map(String::as_str).chain([""]);
    let all = [username.as_str(), uid.as_str(), namespace].into_iter().chain(groups).chain(extra);
    digest(all.chain(objects.into_iter().flatten()))
}

/// One digest of texts, wherever one ends and another begins.
fn digest<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut context = Context::new(&SHA256);
    for text in texts {
        context.update(&text.len().to_be_bytes());
        context.update(text.as_bytes());
    }
    context.finish().as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::clock::ManualClock;
    use crate::webhook::testing::given_user;

    const ROBOT: Peer = Peer::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn rates() -> (Arc<ManualClock>, Rates) {
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        (clock.clone(), Rates::new(clock))
    }

    fn about(who: &Identity, namespace: &str) -> Subject {
        subject(who, namespace, [["batch/v1", "Job"]])
    }

    /// A check that takes ten requests.
    fn charge(
        rates: &Rates,
        peer: Option<Peer>,
        who: &Identity,
        namespace: &str,
    ) -> Result<(), Wait> {
        rates.charge(peer, who, Some(namespace), &about(who, namespace), 9)
    }

    #[test]
    fn a_namespace_with_many_users_takes_no_more_than_two() {
        let (clock, rates) = rates();
        let robot = |number: u32| given_user(&format!("system:serviceaccount:hostile:{number}"));
        let passed = (0..1_000)
            .filter(|number| charge(&rates, Some(ROBOT), &robot(number % 20), "hostile").is_ok());
        assert_eq!(passed.count(), 100);
        let wait = charge(&rates, Some(ROBOT), &robot(20), "hostile");
        assert_eq!(wait, Err(Wait::Namespace(Duration::from_millis(50))));
        // the controller itself does not wait for a tenant
        let (us, about) = (given_user("us"), about(&robot(0), "hostile"));
        assert_eq!(rates.charge(Some(ROBOT), &us, None, &about, 9), Ok(()));
        assert_eq!(charge(&rates, Some(ROBOT), &given_user("bob"), "team"), Ok(()));
        // who waits for the namespace is not charged elsewhere
        assert_eq!(charge(&rates, Some(ROBOT), &robot(20), "other"), Ok(()));
        clock.advance(Duration::from_millis(100));
        assert_eq!(charge(&rates, Some(ROBOT), &robot(0), "hostile"), Ok(()));
    }

    #[test]
    fn a_user_leaves_room_for_the_others_of_the_namespace() {
        let (_, rates) = rates();
        let (ann, bob) = (given_user("ann"), given_user("bob"));
        let passed = (0..1_000).filter(|_| charge(&rates, Some(ROBOT), &ann, "team").is_ok());
        assert_eq!(passed.count(), 50);
        assert!((0..50).all(|_| charge(&rates, Some(ROBOT), &bob, "team").is_ok()));
    }

    #[test]
    fn a_thousand_alike_at_a_hundred_a_second_are_not_held_up() {
        let (clock, rates) = rates();
        let ann = given_user("ann");
        for number in 0..1_000 {
            let about = about(&ann, "team");
            assert_eq!(
                rates.charge(Some(ROBOT), &ann, Some("team"), &about, 3),
                Ok(()),
                "{number}"
            );
            rates.remembered(about);
            clock.advance(Duration::from_millis(10));
        }
    }

    #[test]
    fn who_asks_for_ever_new_answers_has_to_wait_and_others_have_not() {
        let (clock, rates) = rates();
        let (ann, bob) = (given_user("ann"), given_user("bob"));
        let ask =
            |who: &Identity, number: u32| charge(&rates, None, who, &format!("team-{number}"));
        let passed = (0..1_000).take_while(|number| ask(&ann, *number).is_ok()).count();
        assert_eq!(passed, 50, "ten requests each");
        assert_eq!(ask(&ann, 1_000), Err(Wait::User(Duration::from_millis(100))));
        assert_eq!(ask(&bob, 0), Ok(()));
        clock.advance(Duration::from_millis(100));
        assert_eq!((ask(&ann, 1_001), ask(&ann, 1_002).is_ok()), (Ok(()), false));
    }

    #[test]
    fn nobody_spends_what_a_user_has_at_another_peer() {
        let (_, rates) = rates();
        let ann = given_user("ann");
        let ask = |peer: u64, number: u32| {
            charge(&rates, Some(Peer::V6(peer)), &ann, &format!("team-{number}"))
        };
        let passed = (0..1_000).take_while(|number| ask(1, *number).is_ok()).count();
        assert_eq!(passed, 50);
        assert_eq!(ask(2, 0), Ok(()));
    }

    #[test]
    fn who_is_refused_takes_nothing_from_others_of_the_peer() {
        let (_, rates) = rates();
        let (ann, bob) = (given_user("ann"), given_user("bob"));
        let ask = |who: &Identity, number: u32| {
            charge(&rates, Some(ROBOT), who, &format!("team-{number}"))
        };
        let passed = (0..1_000).take_while(|number| ask(&ann, *number).is_ok()).count();
        assert_eq!(passed, 50);
        assert!((0..1_000).all(|number| matches!(ask(&ann, number), Err(Wait::User(_)))));
        assert_eq!(ask(&bob, 0), Ok(()));
    }

    #[test]
    fn who_waits_for_the_peer_is_not_charged() {
        let (clock, rates) = rates();
        let ask = |who: &Identity, number: u32| {
            charge(&rates, Some(ROBOT), who, &format!("team-{number}"))
        };
        for user in 0..6 {
            let who = given_user(&format!("user-{user}"));
            assert!((0..50).all(|number| ask(&who, number).is_ok()));
        }
        let bob = given_user("bob");
        assert!((0..100).all(|number| matches!(ask(&bob, number), Err(Wait::Peer(_)))));
        clock.advance(Duration::from_secs(2));
        assert!((0..50).all(|number| ask(&bob, number).is_ok()));
    }

    #[test]
    fn a_peer_that_names_ever_new_users_has_to_wait_too() {
        let (_, rates) = rates();
        let passed = (0..10_000_u32).take_while(|number| {
            let who = given_user(&format!("user-{number}"));
            charge(&rates, Some(ROBOT), &who, &format!("team-{number}")).is_ok()
        });
        assert_eq!(passed.count(), 300, "with the reserve");
        let who = given_user("carl");
        let wait = charge(&rates, Some(ROBOT), &who, "team");
        assert_eq!(wait, Err(Wait::Peer(Duration::from_millis(25))));
        assert_eq!(charge(&rates, Some(Peer::V6(1)), &who, "team"), Ok(()));
    }

    #[test]
    fn a_quiet_namespace_is_served_whatever_the_busy_ones_do() {
        let (clock, rates) = rates();
        let flood = |namespace: &str| {
            let users = [1, 2].map(|number| given_user(&format!("{namespace}-{number}")));
            let ask = |who| charge(&rates, Some(ROBOT), who, namespace).is_ok();
            users.iter().map(|who| (0..60).filter(|_| ask(who)).count()).sum::<usize>()
        };
        let busy = ["a", "b", "c"];
        assert_eq!(busy.map(flood), [100, 100, 9], "the last has what is calm");
        let (ann, us) = (given_user("ann"), given_user("us"));
        for second in 0..30 {
            assert_eq!(charge(&rates, Some(ROBOT), &ann, "quiet"), Ok(()), "{second}");
            let about = about(&us, "quiet");
            assert_eq!(rates.charge(Some(ROBOT), &us, None, &about, 9), Ok(()), "{second}");
            clock.advance(Duration::from_secs(1));
            assert!(busy.map(flood)[0] < 50, "they go on");
        }
        // who asks for more than is calm competes with the others
        let asked = |_| charge(&rates, Some(ROBOT), &ann, "quiet");
        let answers: Vec<_> = (0..5).map(asked).collect();
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 3, "{answers:?}");
        assert!(matches!(answers.last(), Some(Err(Wait::Peer(_)))), "{answers:?}");
    }

    #[test]
    fn a_check_that_takes_more_than_is_calm_leaves_the_reserve() {
        let (_, rates) = rates();
        let ann = given_user("ann");
        rates.peers.take(ROBOT, OF_PEER.at_once, Duration::ZERO).unwrap();
        let about = about(&ann, "team");
        let charge = |requests| rates.charge(Some(ROBOT), &ann, Some("team"), &about, requests);
        assert!(matches!(charge(64), Err(Wait::Peer(_))));
        assert_eq!(charge(29), Ok(()), "with the access check itself, 30");
    }

    #[test]
    fn where_both_limits_refuse_the_shorter_wait_counts() {
        let (_, rates) = rates();
        let (ann, us) = (given_user("ann"), given_user("us"));
        rates.peers.take(ROBOT, OF_PEER.at_once, Duration::ZERO).unwrap();
        rates.reserve.take(ROBOT, RESERVE.at_once - 9, Duration::ZERO).unwrap();
        let soon = Err(Wait::Peer(RESERVE.each));
        assert_eq!(charge(&rates, Some(ROBOT), &ann, "team"), soon);
        assert_eq!(rates.charge(Some(ROBOT), &us, None, &about(&us, "team"), 9), soon);
        // the reserve lacks more than the peer's own limit does
        rates.reserve.take(ROBOT, 9, Duration::ZERO).unwrap();
        let later = Err(Wait::Peer(10 * OF_PEER.each));
        assert_eq!(charge(&rates, Some(ROBOT), &ann, "team"), later);
        assert_eq!(rates.charge(Some(ROBOT), &us, None, &about(&us, "team"), 9), later);
    }

    #[test]
    fn what_differs_has_another_digest() {
        let (ann, bob) = (given_user("ann"), given_user("bob"));
        let mut member = ann.clone();
        member.groups.push("g".to_owned());
        let mut scoped = ann.clone();
        scoped.extra.insert("g".to_owned(), vec![]);
        let all = [
            about(&ann, "team"),
            about(&ann, "tea"),
            about(&bob, "team"),
            about(&member, "team"),
            about(&scoped, "team"),
            subject(&ann, "team", [["batch/v1", "JobJob"]]),
            subject(&ann, "team", [["batch/v1J", "ob"]]),
            subject(&ann, "team", [["batch/v1", "Job"], ["batch/v1", "Job"]]),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
