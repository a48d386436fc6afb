//! Which of several replicas works: the one that holds the Lease.
//!
//! ```text
//! read Lease ─▶ lease::Record ─▶ Step ─┬─ Take, Renew: write, guarded by resourceVersion
//!                                      └─ Wait
//! Leadership ─▶ Fence: no write leaves a replica that has not renewed in time
//! ```
//!
//! As in client-go, a candidate tells by its own clock how long a Lease has stood still, so clocks
//! need not agree: from the end of the read that first showed it so. A leader counts from the moment
//! before its renewal is sent, and ends its work when it could not renew for
//! [`Times::renew_deadline`]; until then nobody else can have taken the Lease. The clock goes on while
//! the machine is paused, which timers do not: after each wait it is asked again.
//!
//! A replica that is not ready only reads the Lease: it could not work, and would keep it from one that can.

mod fence;
mod leadership;
mod lease;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{GetParams, PostParams};
use kube::{Client, Error, Resource};
use serde_json::Value;
use tokio::sync::watch;

pub use fence::{LeaderWrites, NotLeading};
pub use leadership::Leadership;
pub use lease::Times;

use crate::clock::Clock;
use crate::telemetry;
use lease::{Entry, Record, Step};

/// For how long a call that failed is remembered although the leader survived it: longer than most periods that begin anew
/// after an outage.
const REMEMBERED_FOR: SignedDuration = SignedDuration::from_mins(10);

/// Where the Lease is, and who wants it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who this is: unlike every other replica, also an earlier one of this pod.
    pub identity: String,
    /// How long things take.
    pub times: Times,
}

/// A candidate at work.
pub struct Election {
    candidate: Candidate,
    leases: Leases,
    clock: Arc<dyn Clock>,
    leadership: Leadership,
    /// Whether this replica may take the Lease.
    ready: watch::Receiver<bool>,
    record: Option<Record>,
    /// The Lease may name this replica, also where no answer has said so.
    tried: bool,
    /// A read or a write of the Lease that failed, unless it is known to tell nothing about the leader.
    failure: Option<Failure>,
    /// When this replica last wrote over a Lease that nobody had held for a while.
    free_until: Option<Timestamp>,
}

/// The last call about the Lease that failed.
#[derive(Clone, Debug)]
struct Failure {
    at: Timestamp,
    /// Who led before the first one; empty where that was this replica, or is not known.
    leader: String,
    /// The version of the Lease that was read first since the last one, with that leader.
    version: Option<String>,
}

impl Election {
    /// Creates an election. The client must not be behind the [`LeaderWrites`], nor retry by itself.
    #[must_use]
    pub fn new(client: Client, clock: Arc<dyn Clock>, candidate: Candidate) -> Self {
        let leadership = Leadership::new(clock.clone(), &candidate.times);
        let leases = Leases { client, path: Lease::url_path(&(), Some(&candidate.namespace)) };
        let (_, ready) = watch::channel(true);
        let (record, tried, failure, free_until) = (None, false, None, None);
        Self { candidate, leases, clock, leadership, ready, record, tried, failure, free_until }
    }

    /// The same, but it takes the Lease only once `ready` is true, which it then stays. Until then, it only reads the Lease.
    #[must_use]
    pub fn once(mut self, ready: watch::Receiver<bool>) -> Self {
        self.ready = ready;
        self
    }

    /// Whether this replica leads, for a [`LeaderWrites`].
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Waits until this replica leads. Errors are logged and retried. Returns up to when nobody may have led: until the last
    /// error, since an outage of the API server ends the process that led when it began, or until now where nobody had renewed
    /// the Lease for a while. An error that the leader survived is left out once it is long ago.
    pub async fn won(&mut self) -> Option<Timestamp> {
        loop {
            let pause = match self.turn(self.candidate.times.renew_deadline).await {
                Some(Turn::Leads) if self.leadership.holds() => break,
                Some(Turn::Waits(pause)) => pause,
                // it was won, and too long ago by now; or somebody wrote in between
                Some(Turn::Leads | Turn::Again) => Duration::ZERO,
                None => self.candidate.times.look_every,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                Ok(()) = self.ready.changed() => {}
            }
        }
        tracing::info!(identity = self.candidate.identity, "Acquired leadership.");
        self.failure.as_ref().map(|failure| failure.at).max(self.free_until)
    }

    /// Renews until leadership is lost.
    pub async fn lost(&mut self) {
        let renew_every = self.candidate.times.renew_every;
        let mut pause = renew_every;
        loop {
            tokio::time::sleep(pause).await;
            let left = self.leadership.left();
            if left.is_zero() {
                tracing::error!("Lost leadership: the Lease was not renewed in time.");
                break;
            }
            // a call that hangs leaves time for another
            let within = left.min(self.candidate.times.renew_deadline / 2);
            pause = match self.turn(within).await {
                Some(Turn::Again) => Duration::ZERO,
                Some(Turn::Leads) | None => renew_every.min(left),
                Some(Turn::Waits(_)) => {
                    let holder = self.record.as_ref().map(Record::holder_shown);
                    tracing::error!(holder, "Lost leadership: another replica holds the Lease.");
                    break;
                }
            };
        }
        self.leadership.ended();
        self.tried = false; // another replica holds the Lease, or the API server does not answer
    }

    /// Releases the Lease, so that another replica does not wait for its end: also where this one was asked to end before it
    /// knew that it had taken the Lease.
    pub async fn release(&mut self) {
        let held = self.leadership.holds();
        self.leadership.ended();
        self.record = None;
        if !held && !self.tried {
            return;
        }
        let within = self.candidate.times.renew_deadline;
        match tokio::time::timeout(within, self.try_release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let cause = telemetry::chain(&error);
                tracing::warn!(cause, "Failed to release the Lease.");
            }
            Err(_) => tracing::warn!(?within, "Timed out releasing the Lease."),
        }
    }

    /// A write may have been on its way when this replica was asked to end, so the Lease is read.
    async fn try_release(&self) -> Result<(), Error> {
        while let Some(found) = self.leases.get(&self.candidate.name).await? {
            let record = Record::seen(found, None, self.clock.elapsed());
            if record.holder() != self.candidate.identity {
                break;
            }
            let nobody = record.written(Step::Renew, &self.entry(""));
            match self.leases.replace(&self.candidate.name, &nobody).await {
                // that renewal, after all
                Err(Error::Api(status)) if status.code == 409 => {}
                written => return written.map(drop),
            }
        }
        Ok(())
    }

    /// One read of the Lease and the write that follows from it, within a time; none if it did not complete,
    /// so that it is not known whether the write was applied.
    async fn turn(&mut self, within: Duration) -> Option<Turn> {
        match tokio::time::timeout(within, self.try_turn()).await {
            Ok(Ok(turn)) => Some(turn),
            Ok(Err(error)) => {
                let cause = telemetry::chain(&error);
                tracing::warn!(cause, "Failed to read or update the Lease.");
                self.doubt();
                None
            }
            Err(_) => {
                tracing::warn!(?within, "Timed out reading or updating the Lease.");
                self.doubt();
                None
            }
        }
    }

    /// A call has failed. A write of ours may have been applied: its version must be read.
    fn doubt(&mut self) {
        let at = self.clock.around_now().1;
        let before = self.failure.take().map(|before| before.leader);
        let leader = before.unwrap_or_else(|| {
            let holder = self.record.as_ref().map(Record::holder);
            holder.filter(|it| *it != self.candidate.identity).unwrap_or_default().to_owned()
        });
        self.failure = Some(Failure { at, leader, version: None });
        if self.record.as_ref().is_some_and(|record| record.holder() == self.candidate.identity) {
            self.record = None;
        }
    }

    /// Forgets a failed call once the replica that led before it has renewed the Lease after it, and the call is long ago:
    /// until then, a replica that takes over knows of the outage by it alone.
    fn forget_failure(&mut self, read: &Record) {
        let Some(failure) = &mut self.failure else { return };
        if failure.leader.is_empty() || failure.leader != read.holder() {
            return;
        }
        let is_renewed = failure.version.as_ref().is_some_and(|first| first != read.version());
        failure.version.get_or_insert_with(|| read.version().to_owned());
        let is_old = self.clock.now().duration_since(failure.at) > REMEMBERED_FOR;
        if is_renewed && is_old {
            self.failure = None;
        }
    }

    async fn try_turn(&mut self) -> Result<Turn, Error> {
        let own = self.record.clone().filter(|it| it.holder() == self.candidate.identity);
        let record = if own.is_some() {
            own
        } else {
            let found = self.leases.get(&self.candidate.name).await?;
            // the answer may have been long on its way: the Lease is as old as it is now at most
            let ended = self.clock.elapsed();
            if found.is_none()
                && let Some(pause) = self.holder_leads_for(ended)
            {
                return Ok(Turn::Waits(pause));
            }
            let read = found.map(|found| Record::seen(found, self.record.as_ref(), ended));
            if let Some(read) = &read {
                self.forget_failure(read);
            }
            read
        };
        self.record.clone_from(&record);
        let Candidate { identity, times, .. } = &self.candidate;
        let at = self.clock.elapsed();
        let step = record.as_ref().map_or(Step::Take, |record| record.step(identity, at, times));
        if let Step::Wait(pause) = step {
            self.tried = false; // the Lease names another replica
            return Ok(Turn::Waits(pause));
        }
        if step == Step::Take && !*self.ready.borrow() {
            return Ok(Turn::Waits(times.look_every));
        }
        self.write(record.as_ref(), step).await
    }

    /// Where the Lease was deleted: until its holder must have noticed, it leads.
    fn holder_leads_for(&self, at: Duration) -> Option<Duration> {
        let Candidate { identity, times, .. } = &self.candidate;
        match self.record.as_ref()?.step(identity, at, times) {
            Step::Wait(pause) => Some(pause),
            Step::Take | Step::Renew => None,
        }
    }

    async fn write(&mut self, record: Option<&Record>, step: Step) -> Result<Turn, Error> {
        self.tried = true;
        let name = &self.candidate.name;
        let entry = self.entry(&self.candidate.identity);
        let lease = record.map_or_else(|| lease::first(&entry), |it| it.written(step, &entry));
        let (now, at) = self.clock.around_now();
        if step == Step::Take && record.is_some_and(|record| record.is_long_free(now)) {
            self.free_until = Some(at);
        }
        // others count from when it is applied, which is later
        let sent = self.clock.elapsed();
        let written = match record {
            Some(_) => self.leases.replace(name, &lease).await,
            None => self.leases.create(&lease).await,
        };
        match written {
            Ok(lease) => {
                self.record = Some(Record::seen(lease, None, sent));
                self.leadership.renewed(sent);
                Ok(Turn::Leads)
            }
            // somebody wrote in between: who, is read. A creation that finds no namespace is an error.
            Err(Error::Api(status))
                if status.code == 409 || status.code == 404 && record.is_some() =>
            {
                self.record = None;
                Ok(Turn::Again)
            }
            Err(error) => Err(error),
        }
    }

    fn entry<'a>(&'a self, holder: &'a str) -> Entry<'a> {
        let Candidate { name, times, .. } = &self.candidate;
        Entry { name, holder, lasts: times.lease, now: self.clock.now() }
    }
}

/// The Leases of a namespace, as JSON.
struct Leases {
    client: Client,
    path: String,
}

impl Leases {
    async fn get(&self, name: &str) -> Result<Option<Value>, Error> {
        let request = kube::core::Request::new(&self.path).get(name, &GetParams::default());
        match self.client.request(request.map_err(Error::BuildRequest)?).await {
            Ok(lease) => Ok(Some(lease)),
            Err(Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, lease: &Value) -> Result<Value, Error> {
        let request = kube::core::Request::new(&self.path);
        let request = request.create(&PostParams::default(), lease.to_string().into_bytes());
        self.client.request(request.map_err(Error::BuildRequest)?).await
    }

    async fn replace(&self, name: &str, lease: &Value) -> Result<Value, Error> {
        let request = kube::core::Request::new(&self.path);
        let request = request.replace(name, &PostParams::default(), lease.to_string().into_bytes());
        self.client.request(request.map_err(Error::BuildRequest)?).await
    }
}

/// The outcome of one read and write of the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// This replica leads.
    Leads,
    /// Another replica leads, or this one is not ready; the Lease is read again after a pause.
    Waits(Duration),
    /// Somebody wrote in between.
    Again,
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::clock::ManualClock;

    /// An API server that has this Lease, and answers writes with this code.
    fn server(found: Option<Value>, code: u16) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let found = found.clone().filter(|_| request.method() == http::Method::GET);
            let code = if request.method() == http::Method::GET { 404 } else { code };
            async move {
                let failure = json!({"status": "Failure", "code": code, "message": "no"});
                let (code, body) = found.map_or((code, failure), |lease| (200, lease));
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, Error>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_lease_that_cannot_be_created_is_not_tried_again_at_once() {
        let ended = json!({"metadata": {"name": "lock", "resourceVersion": "1"},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 15}});
        for (found, code, again) in [
            (None, 404, false), // its namespace does not exist
            (None, 409, true),
            (None, 500, false),
            (Some(&ended), 404, true),
            (Some(&ended), 409, true),
            (Some(&ended), 500, false),
        ] {
            let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
            let (namespace, name) = ("gone".to_owned(), "lock".to_owned());
            let identity = "me".to_owned();
            let candidate = Candidate { namespace, name, identity, times: Times::default() };
            let client = server(found.cloned(), code);
            let turn = Election::new(client, clock, candidate).try_turn().await;
            assert_eq!(turn.ok(), again.then_some(Turn::Again), "{code}, found: {found:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_call_that_the_leader_survived_is_forgotten() {
        let a = |version: &'static str| Some(("a", version));
        let b = |version: &'static str| Some(("b", version));
        for (minutes, reads, is_known) in [
            (6, vec![], false),
            (6, vec![None, None], true),
            (6, vec![a("1"), None, a("2"), a("3")], false),
            // what the old leader knows of the outage goes with it
            (5, vec![a("1"), None, a("2"), a("3")], true),
            (5, vec![a("1"), None, a("2"), a("3"), a("4")], false),
            (6, vec![a("1"), None, a("2"), a("2")], true),
            (6, vec![a("1"), None, a("2")], true),
            (6, vec![a("1"), None, b("2"), b("3")], true), // it may have ended another leader
            (6, vec![a("1"), None, b("2"), None, b("3"), b("4")], true),
            (6, vec![a("1"), None, a("2"), None, a("3")], true),
            (6, vec![a("1"), None, a("2"), a("3"), None], true),
            (6, vec![None, a("2"), a("3")], true),
        ] {
            let left = Arc::new(Mutex::new(reads.clone().into_iter()));
            let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
            let time = clock.clone();
            let service = tower::service_fn(move |request: Request<Body>| {
                let is_read = request.method() == http::Method::GET;
                if is_read {
                    time.advance(Duration::from_mins(minutes));
                }
                let next = if is_read { left.lock().unwrap().next() } else { None };
                let (code, body) = match next.unwrap_or(Some(("", "9"))) {
                    Some((holder, version)) => {
                        let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15});
                        let metadata = json!({"name": "lock", "resourceVersion": version});
                        (200, json!({"metadata": metadata, "spec": spec}))
                    }
                    None => (500, json!({"status": "Failure", "code": 500, "message": "no"})),
                };
                let body = Body::from(body.to_string().into_bytes());
                std::future::ready(Response::builder().status(code).body(body))
            });
            let (namespace, name) = ("system".to_owned(), "lock".to_owned());
            let identity = "me".to_owned();
            let candidate = Candidate { namespace, name, identity, times: Times::default() };
            let mut election = Election::new(Client::new(service, "default"), clock, candidate);
            let failed_at = election.won().await;
            assert_eq!(failed_at.is_some(), is_known, "{minutes} min each: {reads:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_nobody_had_held_for_a_while_tells_of_it() {
        let now = "2027-01-15T08:00:00Z".parse::<Timestamp>().unwrap();
        for (renewed, is_known) in [
            (Some(json!("2027-01-15T07:59:55.000000Z")), false), // released 5 s ago
            (Some(json!("2027-01-15T07:59:00.000000Z")), false),
            (Some(json!("2027-01-15T07:58:59.000000Z")), true),
            (Some(json!("2026-01-15T08:00:00.000000Z")), true),
            (Some(json!("2028-01-15T08:00:00.000000Z")), false), // by a clock that is ahead
            (Some(json!("9999-12-31T23:59:59.000000Z")), false),
            (Some(json!(null)), false),
            (None, false), // there is no Lease
        ] {
            let found = renewed.clone().map(|renewed| {
                let spec = json!({"holderIdentity": "", "leaseDurationSeconds": 15,
                    "renewTime": renewed});
                let metadata = json!({"name": "lock", "resourceVersion": "1"});
                json!({"metadata": metadata, "spec": spec})
            });
            let service = tower::service_fn(move |request: Request<Body>| {
                let absent = json!({"status": "Failure", "code": 404, "message": "no"});
                let found = found.clone();
                async move {
                    let (code, body) = if request.method() == http::Method::GET {
                        found.map_or_else(
                            || (404, absent.to_string().into_bytes()),
                            |lease| (200, lease.to_string().into_bytes()),
                        )
                    } else {
                        (200, request.into_body().collect_bytes().await?.to_vec())
                    };
                    let body = Body::from(body);
                    Ok::<_, Error>(Response::builder().status(code).body(body).unwrap())
                }
            });
            let (namespace, name) = ("system".to_owned(), "lock".to_owned());
            let identity = "me".to_owned();
            let candidate = Candidate { namespace, name, identity, times: Times::default() };
            let clock = Arc::new(ManualClock::at(now));
            let mut election = Election::new(Client::new(service, "default"), clock, candidate);
            let want = is_known.then_some(now);
            assert_eq!(election.won().await, want, "{renewed:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_taken_without_an_answer_is_given_back() {
        let lease = json!({"metadata": {"name": "lock", "resourceVersion": "1"},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 15}});
        let stored = Arc::new(Mutex::new((0, lease)));
        let server = stored.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                if request.method() == http::Method::PUT {
                    let body = request.into_body().collect_bytes().await?;
                    let writes = {
                        let mut stored = server.lock().unwrap();
                        *stored = (stored.0 + 1, serde_json::from_slice(&body).unwrap());
                        stored.0
                    };
                    if writes == 1 {
                        std::future::pending::<()>().await;
                    }
                }
                let lease = server.lock().unwrap().1.to_string();
                Ok::<_, Error>(Response::new(Body::from(lease.into_bytes())))
            }
        });
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let (namespace, name) = ("system".to_owned(), "lock".to_owned());
        let candidate =
            Candidate { namespace, name, identity: "me".to_owned(), times: Times::default() };
        let mut election = Election::new(Client::new(service, "default"), clock, candidate);
        // it is asked to end before the answer comes
        let won = tokio::time::timeout(Duration::from_secs(1), election.won()).await;
        let holder = || stored.lock().unwrap().1["spec"]["holderIdentity"].clone();
        assert_eq!((won.is_err(), holder()), (true, json!("me")));
        election.release().await;
        assert_eq!(holder(), "");
    }

    #[tokio::test]
    async fn a_lease_that_another_replica_holds_is_not_released() {
        for (sees_holder, calls) in [(false, 1), (true, 0)] {
            let lease = |holder: &str, version: &str| {
                json!({"metadata": {"name": "lock", "resourceVersion": version},
                    "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}})
            };
            let stored = Arc::new(Mutex::new((0, lease("", "1"))));
            let server = stored.clone();
            let service = tower::service_fn(move |request: Request<Body>| {
                let mut stored = server.lock().unwrap();
                stored.0 += 1;
                let conflict = json!({"status": "Failure", "code": 409, "message": "no"});
                let is_read = request.method() == http::Method::GET;
                let (code, body) = if is_read { (200, stored.1.clone()) } else { (409, conflict) };
                let body = Body::from(body.to_string().into_bytes());
                std::future::ready(Response::builder().status(code).body(body))
            });
            let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
            let (namespace, name) = ("system".to_owned(), "lock".to_owned());
            let identity = "me".to_owned();
            let candidate = Candidate { namespace, name, identity, times: Times::default() };
            let mut election = Election::new(Client::new(service, "default"), clock, candidate);
            assert_eq!(election.try_turn().await.ok(), Some(Turn::Again), "it may have been taken");
            stored.lock().unwrap().1 = lease("other", "2");
            if sees_holder {
                assert!(matches!(election.try_turn().await, Ok(Turn::Waits(_))));
            }
            stored.lock().unwrap().0 = 0;
            election.release().await;
            assert_eq!(stored.lock().unwrap().0, calls, "{sees_holder}");
        }
    }
}
