//! Which of several replicas leads, on the API server in memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use appwrapper::clock::{Clock, ManualClock, SystemClock};
use appwrapper::election::{Candidate, Election, LeaderWrites, Leadership, Times};
use appwrapper::sim::{ApiServer, Store};
use futures::FutureExt;
use http::{Request, Response};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, Error};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::{Layer, ServiceExt};

const TIMES: Times = Times {
    lease: Duration::from_secs(5),
    renew_deadline: Duration::from_secs(4),
    renew_every: Duration::from_millis(50),
    look_every: Duration::from_millis(20),
};

/// A cluster with a namespace for the Lease.
struct Cluster(Client);

/// How long a call takes, on which clock.
type Slow = Option<(Arc<ManualClock>, Duration)>;

/// The way of one replica to it.
#[derive(Clone, Default)]
struct Wire {
    /// Nothing comes through.
    cut: Arc<AtomicBool>,
    /// The next write is applied, and its reply is lost.
    lose_reply: Arc<AtomicBool>,
    /// Each reply takes so long, on this clock.
    slow: Arc<Mutex<Slow>>,
}

impl Cluster {
    async fn new() -> Self {
        let client = ApiServer::new(Store::new(SystemClock.now())).client();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": "system"}}));
        let namespace = namespace.expect("a namespace");
        namespaces.create(&PostParams::default(), &namespace).await.expect("it is new");
        Self(client)
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.0.clone(), "system")
    }

    async fn holder(&self) -> String {
        let lease = self.leases().get("lock").await.expect("there is a Lease");
        lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
    }

    fn candidate(&self, identity: &str, wire: &Wire) -> Election {
        self.candidate_by(identity, wire, Arc::new(SystemClock))
    }

    fn candidate_by(&self, identity: &str, wire: &Wire, clock: Arc<dyn Clock>) -> Election {
        let (upstream, wire) = (self.0.clone(), wire.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (upstream, wire) = (upstream.clone(), wire.clone());
            async move {
                if wire.cut.load(Ordering::SeqCst) {
                    return std::future::pending().await;
                }
                let writes = request.method() != http::Method::GET;
                let reply = upstream.send(request).await;
                // whoever waits for it, or the whole machine, stands still meanwhile
                if let Some((clock, time)) = wire.slow.lock().expect("nobody panics").clone() {
                    clock.advance(time);
                }
                if writes && wire.lose_reply.swap(false, Ordering::SeqCst) {
                    return Err(Error::Service("the reply was lost".into()));
                }
                reply
            }
        });
        let candidate = Candidate {
            namespace: "system".to_owned(),
            name: "lock".to_owned(),
            identity: identity.to_owned(),
            times: TIMES,
        };
        Election::new(Client::new(service, "system"), clock, candidate)
    }
}

#[tokio::test]
async fn one_leads_and_gives_back_what_another_takes_at_once() {
    let cluster = Cluster::new().await;
    let (mut first, mut second) =
        (cluster.candidate("a", &Wire::default()), cluster.candidate("b", &Wire::default()));
    first.won().await;
    assert!(first.leadership().holds());
    assert!(second.won().now_or_never().is_none(), "it waits");
    first.release().await;
    assert!(!first.leadership().holds());
    second.won().await;
    assert_eq!(cluster.holder().await, "b");
    let lease = cluster.leases().get("lock").await.expect("there is a Lease");
    assert_eq!(lease.spec.and_then(|spec| spec.lease_transitions), Some(1));
}

#[tokio::test]
async fn a_leader_that_is_cut_off_ends_before_another_begins() {
    let cluster = Cluster::new().await;
    let wire = Wire::default();
    let (mut first, mut second) =
        (cluster.candidate("a", &wire), cluster.candidate("b", &Wire::default()));
    first.won().await;
    let (mine, other) = (first.leadership(), second.leadership());
    let both = async {
        // looked at as often as may be: never do both lead
        while !other.holds() {
            tokio::task::yield_now().await;
        }
        assert!(!mine.holds(), "the first still leads");
    };
    wire.cut.store(true, Ordering::SeqCst);
    tokio::join!(first.lost(), second.won(), both);
    assert_eq!(cluster.holder().await, "b");
}

#[tokio::test]
async fn a_lost_reply_and_a_lost_lease_do_not_end_it() {
    let cluster = Cluster::new().await;
    let wire = Wire::default();
    let mut first = cluster.candidate("a", &wire);
    first.won().await;
    let renewed = async {
        for fault in 0..2 {
            if fault == 0 {
                wire.lose_reply.store(true, Ordering::SeqCst);
            } else {
                let gone = cluster.leases().delete("lock", &DeleteParams::default()).await;
                gone.expect("it is deleted");
            }
            // until it was met and written over again, by what is another version then
            let before = version(&cluster).await;
            while wire.lose_reply.load(Ordering::SeqCst) || version(&cluster).await == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    tokio::select! {
        () = first.lost() => panic!("it goes on"),
        () = renewed => {}
    }
    assert!(first.leadership().holds());
}

#[tokio::test]
async fn the_lease_is_given_back_also_when_a_renewal_was_on_its_way() {
    let cluster = Cluster::new().await;
    let wire = Wire::default();
    let mut first = cluster.candidate("a", &wire);
    first.won().await;
    let before = version(&cluster).await;
    wire.lose_reply.store(true, Ordering::SeqCst);
    let renewed = async {
        while version(&cluster).await == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // it is asked to end while it waits for the reply
    tokio::select! {
        () = first.lost() => panic!("it goes on"),
        () = renewed => {}
    }
    first.release().await;
    assert_eq!(cluster.holder().await, "");
}

async fn version(cluster: &Cluster) -> Option<String> {
    let lease = cluster.leases().get_opt("lock").await.expect("it can be read");
    lease.and_then(|lease| lease.metadata.resource_version)
}

#[tokio::test]
async fn another_that_took_the_lease_ends_it() {
    let cluster = Cluster::new().await;
    let mut first = cluster.candidate("a", &Wire::default());
    first.won().await;
    let mut lease = cluster.leases().get("lock").await.expect("there is a Lease");
    lease.spec.as_mut().expect("it says who").holder_identity = Some("b".to_owned());
    cluster.leases().replace("lock", &PostParams::default(), &lease).await.expect("it is written");
    first.lost().await;
    assert!(!first.leadership().holds());
    assert_eq!(cluster.holder().await, "b", "and is left to it");
}

#[tokio::test]
async fn who_does_not_lead_reads_but_does_not_write() {
    let leadership = Leadership::new(Arc::new(SystemClock), &TIMES);
    let upstream = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, Error>(Response::new(Body::empty()))
    });
    let fenced = LeaderWrites::new(leadership).layer(upstream);
    for (method, passes) in
        [("GET", true), ("POST", false), ("PUT", false), ("PATCH", false), ("DELETE", false)]
    {
        let request = Request::builder().method(method).uri("/api/v1/pods").body(Body::empty());
        let answer = fenced.clone().oneshot(request.expect("a request")).await;
        assert_eq!(answer.is_ok(), passes, "{method}");
    }
}

#[tokio::test]
async fn what_waits_for_a_connection_when_leadership_ends_is_not_sent() {
    let cluster = Cluster::new().await;
    let clock = manual();
    let mut first = cluster.candidate_by("a", &Wire::default(), clock.clone());
    first.won().await;
    let leadership = first.leadership();
    let waits = leadership.clone();
    let upstream = tower::service_fn(move |_: Request<Body>| {
        let (waits, clock) = (waits.clone(), clock.clone());
        async move {
            clock.advance(TIMES.lease); // nobody renews
            assert!(!waits.holds());
            // it is got on with once more, and only then would it go out
            tokio::task::yield_now().await;
            Ok::<_, Error>(Response::new(Body::empty()))
        }
    });
    let request = Request::builder().method("POST").uri("/api/v1/pods");
    let request = request.body(Body::from(b"{}".to_vec())).expect("a request");
    let answer = LeaderWrites::new(leadership).layer(upstream).oneshot(request).await;
    let refusal = answer.expect_err("it was sent").to_string();
    assert!(refusal.contains("may no longer be the leader"), "{refusal}");
}

/// Whoever deletes the Lease takes nothing from its holder, which creates it again.
#[tokio::test]
async fn a_lease_that_was_deleted_is_not_taken_while_its_holder_leads() {
    let cluster = Cluster::new().await;
    let clock = manual();
    let mut first = cluster.candidate_by("a", &Wire::default(), clock.clone());
    let mut second = cluster.candidate_by("b", &Wire::default(), clock.clone());
    first.won().await;
    waits(&mut second).await; // it has seen the Lease
    cluster.leases().delete("lock", &DeleteParams::default()).await.expect("it is deleted");
    waits(&mut second).await;
    assert!(first.leadership().holds());
    clock.advance(TIMES.lease);
    assert!(!first.leadership().holds());
    second.won().await;
    assert_eq!(cluster.holder().await, "b");
}

fn manual() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(SystemClock.now()))
}

/// Looks at the Lease, and does not take it.
async fn waits(candidate: &mut Election) {
    let won = tokio::time::timeout(TIMES.look_every * 10, candidate.won()).await;
    assert!(won.is_err(), "it has taken the Lease");
}

/// It reads the Lease all the same, and so knows for how long that has stood still.
#[tokio::test(start_paused = true)]
async fn a_replica_that_is_not_ready_leaves_the_lease_to_another() {
    let (cluster, clock) = (Cluster::new().await, manual());
    let (listed, ready) = watch::channel(false);
    let mut first = cluster.candidate_by("a", &Wire::default(), clock.clone()).once(ready);
    let mut second = cluster.candidate_by("b", &Wire::default(), clock.clone());
    waits(&mut first).await;
    second.won().await;
    assert_eq!(cluster.holder().await, "b");
    waits(&mut first).await;
    clock.advance(TIMES.lease); // nobody renews
    waits(&mut first).await;
    let lists = async {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        listed.send_replace(true);
    };
    let begun = Instant::now();
    tokio::join!(first.won(), lists);
    assert!(begun.elapsed() < TIMES.look_every, "it takes the Lease at once");
    assert_eq!(cluster.holder().await, "a");
}

/// The machine stands still for longer than the Lease lasts, between two renewals or during one, and its
/// timers know nothing of it: the first thing that the replica sees is that it does not lead.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_machine_was_paused_does_not_lead() {
    let cluster = Cluster::new().await;
    for in_a_renewal in [false, true] {
        let (wire, clock) = (Wire::default(), manual());
        let mut first = cluster.candidate_by("a", &wire, clock.clone());
        first.won().await;
        let leadership = first.leadership();
        assert!(leadership.holds());
        if in_a_renewal {
            *wire.slow.lock().expect("nobody panics") = Some((clock, TIMES.renew_deadline));
        } else {
            clock.advance(TIMES.renew_deadline);
            assert!(!leadership.holds(), "before any timer has run");
        }
        first.lost().await;
        assert!(!leadership.holds());
        *wire.slow.lock().expect("nobody panics") = None;
        cluster.leases().delete("lock", &DeleteParams::default()).await.expect("it is there");
    }
}

/// A Lease that is won by a write whose reply took too long is not held.
#[tokio::test(start_paused = true)]
async fn leadership_that_was_over_when_it_was_won_is_won_again() {
    let cluster = Cluster::new().await;
    let (wire, clock) = (Wire::default(), manual());
    let mut first = cluster.candidate_by("a", &wire, clock.clone());
    *wire.slow.lock().expect("nobody panics") = Some((clock, TIMES.renew_deadline));
    let heals = async {
        // after some replies the way is quick again
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        *wire.slow.lock().expect("nobody panics") = None;
    };
    tokio::join!(first.won(), heals);
    assert!(first.leadership().holds());
}

/// Whatever somebody writes into the Lease is neither in the way, nor lost.
#[tokio::test]
async fn garbage_in_the_lease_is_kept_and_in_nobodys_way() {
    let cluster = Cluster::new().await;
    let mut first = cluster.candidate("a", &Wire::default());
    first.won().await;
    let spoil = |holder: &str| {
        json!({
            "metadata": {"labels": {"team": "x"}, "annotations": {"note": "n".repeat(100_000)},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d",
                    "uid": "u"}]},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": i32::MAX,
                "renewTime": "9999-12-31T23:59:59.999999Z", "strategy": "OldestEmulationVersion"},
        })
    };
    let spoiled = async |holder: &str| {
        let (patch, params) = (Patch::Merge(spoil(holder)), PatchParams::default());
        // the answer is of no type of ours
        drop(cluster.leases().patch("lock", &params, &patch).await);
    };
    spoiled("a").await;
    // it is met, and written over
    let renewed = async {
        loop {
            if let Ok(lease) = cluster.leases().get("lock").await {
                break lease;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let lease = tokio::select! {
        () = first.lost() => panic!("it goes on"),
        lease = renewed => lease,
    };
    let kept = serde_json::to_value(&lease).expect("JSON");
    assert_eq!(kept["metadata"]["labels"], json!({"team": "x"}));
    assert_eq!(kept["metadata"]["annotations"]["note"], "n".repeat(100_000));
    assert_eq!(kept["metadata"]["ownerReferences"][0]["name"], "d");
    assert_eq!(kept["spec"]["strategy"], "OldestEmulationVersion");
    assert_eq!(kept["spec"]["leaseDurationSeconds"], 5);

    // one that nobody of ours holds, for ever as it says
    let clock = manual();
    let mut second = cluster.candidate_by("b", &Wire::default(), clock.clone());
    spoiled(&"x".repeat(200_000)).await;
    waits(&mut second).await;
    clock.advance(TIMES.lease * 10);
    second.won().await;
    assert_eq!(cluster.holder().await, "b");
}
