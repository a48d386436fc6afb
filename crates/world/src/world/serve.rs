//! Calls of the controllers: what they are told, and what goes wrong on the way.

use std::time::Duration;

use http::Method;

use super::actors::kueue::WorkloadState;
use super::checks::calls::{self, CallScope, Target};
use super::checks::safety;
use super::coverage::Covered;
use super::faults::{Effect, Fault, Moment};
use super::rng::{mix, mix_text};
use super::wire::Call;
use super::{LateCall, Source, World, oracle};
use crate::act::events::{EventType, Notice};
use crate::api::Phase;
use crate::observe::cache::Key;
use crate::sim::{Address, ApiResponse, Refusal, answer_read};

/// How many `AppWrappers` a controller looks after without any delay.
const FEW: usize = 5;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is answered.
    Served,
    /// It is refused without being looked at.
    Refused(u16),
    /// It is applied, and its reply does not arrive; or arrives as an error.
    Lost(Option<u16>),
    /// It fails, and is applied later.
    Late,
    /// The process dies, before or after the call is applied, or when it has been answered.
    Crash(Moment),
    /// Another replica takes over.
    Takeover(Moment),
    /// It is answered, and from then on every call fails for a while.
    ThenOutage(u16),
}

impl World {
    /// Serves the call of a reconcile.
    pub(super) async fn serve(&mut self, index: usize, key: &Key) {
        let Some(replica) = self.replicas.get_mut(index) else { return };
        let Some(flight) = replica.flights.get_mut(key) else { return };
        let Some(call) = flight.call.take() else { return };
        let number = self.calls;
        self.calls += 1;
        self.last_call = self.trace.steps;
        self.hash_of_calls = mix_text(mix(self.hash_of_calls, call.body.len() as u64), &call.uri);
        self.trace.note(self.elapsed, call_name(&call), short(&call.uri), &[index as u64]);
        let fate = self.fate(number, &call);
        let mut doubtful = self.is_doubtful();
        if let Some(flight) = self.replicas[index].flights.get_mut(key) {
            flight.hurt |= fate != Fate::Served;
            flight.doubtful |= doubtful;
            doubtful = flight.doubtful;
        }
        match fate {
            Fate::Served => self.answer(index, key, &call, doubtful),
            Fate::Refused(code) => self.refuse(&call, code),
            Fate::Lost(code) => {
                self.apply(index, key, &call, &Target::of(&call.uri), doubtful);
                Self::injure(&call, code);
                self.happened(Covered::ReplyLost);
            }
            Fate::Late => {
                let wait = Duration::from_millis(self.fault_rng.between(1, 90_000));
                let (sent, call_again) = (self.elapsed, call.detached());
                let off = self.replicas[index].clock.off_by(super::moment(sent));
                self.late.push(LateCall { sent, off, at: sent + wait, call: call_again });
                call.sever();
            }
            Fate::ThenOutage(code) => {
                self.answer(index, key, &call, doubtful);
                self.outage_until = self.elapsed + Duration::from_secs(3);
                self.outage_code = code;
            }
            Fate::Crash(moment) => return self.crash_at(index, key, &call, moment, doubtful).await,
            Fate::Takeover(moment) => {
                return self.take_over_at(index, key, call, moment, doubtful);
            }
        }
        self.drive(index, key).await;
        self.grow_doubt(index);
    }

    /// A replica crashes before or after its call is served, or when only the reply is lost.
    async fn crash_at(
        &mut self,
        index: usize,
        key: &Key,
        call: &Call,
        moment: Moment,
        doubtful: bool,
    ) {
        match moment {
            Moment::Before => {}
            Moment::Lost => drop(self.apply(index, key, call, &Target::of(&call.uri), doubtful)),
            Moment::After => {
                self.answer(index, key, call, doubtful);
                self.drive(index, key).await;
            }
        }
        self.crash(index);
    }

    /// Another replica becomes the leader, while a call of the old one is under way or after it.
    fn take_over_at(
        &mut self,
        index: usize,
        key: &Key,
        call: Call,
        moment: Moment,
        doubtful: bool,
    ) {
        match moment {
            // the call is served later, while the other leads
            Moment::Before => {
                if let Some(flight) = self.replicas[index].flights.get_mut(key) {
                    flight.call = Some(call);
                }
            }
            Moment::Lost => {
                self.apply(index, key, &call, &Target::of(&call.uri), doubtful);
                call.sever();
            }
            Moment::After => self.answer(index, key, &call, doubtful),
        }
        self.take_over(index);
    }

    /// What a plan or chance has in mind for a call.
    fn fate(&mut self, number: u32, call: &Call) -> Fate {
        if let Some(plan) = self.options.plan {
            return if plan.call == number && self.faults_on {
                self.injected += 1;
                planned(plan.moment, plan.effect)
            } else if self.outage_until > self.elapsed {
                Fate::Refused(self.outage_code)
            } else {
                Fate::Served
            };
        }
        if !self.faults_on {
            return Fate::Served;
        }
        if self.outage_until > self.elapsed {
            return Fate::Refused(503);
        }
        if !self.fault_rng.permille(self.weights.call_faults) {
            return Fate::Served;
        }
        let choices = [Fault::Crash, Fault::Lost, Fault::Late, Fault::Refuse, Fault::Leader];
        let fault = *self.fault_rng.pick(&choices);
        let (die, code) = (self.fault_rng.below(3), self.fault_rng.below(6));
        if !self.may_strike(fault) {
            return Fate::Served;
        }
        let moment = [Moment::Before, Moment::Lost, Moment::After][die];
        match fault {
            Fault::Crash => Fate::Crash(moment),
            Fault::Lost => Fate::Lost([None, Some(504), Some(500)][die]),
            Fault::Late if call.is_write() => Fate::Late,
            Fault::Leader => Fate::Takeover(moment),
            _ => Fate::Refused([409, 429, 500, 503, 504, 403][code]),
        }
    }

    /// Whether a fault strikes now: it may happen in this world, and was not shrunk away.
    pub(super) fn may_strike(&mut self, fault: Fault) -> bool {
        if !self.faults_on || !self.options.faults.has(fault) {
            return false;
        }
        self.injected += 1;
        if self.options.without.contains(&self.injected) {
            return false;
        }
        self.coverage.fault(fault);
        let number = self.injected;
        self.trace.note(self.elapsed, "fault", fault.as_str(), &[number]);
        true
    }

    /// Two processes believe that they lead: neither can be sure that its creations are wanted when they
    /// arrive.
    fn is_doubtful(&self) -> bool {
        self.replicas.iter().any(|replica| replica.doubts.is_some())
    }

    fn refuse(&mut self, call: &Call, code: u16) {
        // only a create can be refused for quota, and only the next page of a list because its token has expired
        let code = match code {
            403 if call.uri.contains("continue=") => 410,
            403 if call.method != Method::POST => 503,
            // no chance of its own, which would change every world
            504 if self.options.plan.is_none() && call.uri.len().is_multiple_of(3) => 401,
            _ => code,
        };
        Self::injure(call, Some(code));
        self.happened(match code {
            409 => Covered::Conflict,
            429 => Covered::TooMany,
            _ => Covered::ServerError,
        });
    }

    /// Answers with an error, or not at all.
    fn injure(call: &Call, code: Option<u16>) {
        let Some(code) = code else { return call.sever() };
        let (reason, message) = match code {
            // a quota that is used up, or one whose usage is not computed yet
            403 if call.body.len().is_multiple_of(2) => {
                ("Forbidden", "jobs is forbidden: exceeded quota: small")
            }
            403 => {
                ("Forbidden", "jobs is forbidden: status unknown for quota: small, resources: pods")
            }
            401 => ("Unauthorized", "Unauthorized"),
            409 => ("Conflict", "the object has been modified"),
            410 => ("Expired", "The provided continue parameter is too old"),
            429 => ("TooManyRequests", "try again later"),
            _ => ("InternalError", "the server is not well"),
        };
        call.answer(code, Refusal::new(code, reason, message).status().to_string());
    }

    fn answer(&mut self, index: usize, key: &Key, call: &Call, late: bool) {
        let target = Target::of(&call.uri);
        let (code, text) = self.apply(index, key, call, &target, late);
        self.trace.detail(|| format!("{} {} → {code}", call.method, call.uri));
        self.note_read(index, key, call, &target);
        call.answer(code, text);
    }

    /// A process is told of an object, or that somebody else's has the name of a component.
    fn note_read(&mut self, index: usize, key: &Key, call: &Call, target: &Target) {
        if call.method != Method::GET {
            return;
        }
        if let Some(object) = target.address(&self.store).and_then(|at| self.store.get(&at)) {
            self.replicas[index].read.insert(object.uid.to_string());
        }
        let resumes = |wrapper: &&oracle::Wrapper| {
            wrapper.is_of(key) && wrapper.state.phase == Phase::Resuming
        };
        let resuming = self.oracle.wrappers.values().find(resumes);
        let object = resuming.and_then(|wrapper| self.store.get(&wrapper.address)).cloned();
        if let Some(object) = object
            && safety::has_taken_name(&self.store, &self.oracle, &object)
            && let Some(wrapper) = self.oracle.wrappers.get_mut(&object.uid)
        {
            wrapper.obstacle = true;
        }
    }

    /// Applies a call, with all checks.
    fn apply(
        &mut self,
        index: usize,
        key: &Key,
        call: &Call,
        target: &Target,
        late: bool,
    ) -> (u16, String) {
        let body = call.json();
        let is_status = target.is_wrapper() && target.sub == "status" && call.is_write();
        let none = std::collections::BTreeSet::new();
        let wrapper = self.oracle.wrappers.values().find(|wrapper| wrapper.is_of(key));
        let slack = self.slack(wrapper);
        let flight = self.replicas[index].flights.get(key);
        let is_replaced = self.replicas[index].doubts.is_some();
        let cannot_know =
            flight.zip(wrapper).is_some_and(|(it, wrapper)| it.seen < wrapper.overtaken);
        let (listed, number, statuses) = match &flight {
            Some(flight) => {
                (&flight.listed, flight.calls, flight.status_writes + u32::from(is_status))
            }
            None => (&none, 0, 0),
        };
        let scope = CallScope {
            store: &self.store,
            oracle: &self.oracle,
            call,
            target,
            body: &body,
            listed,
            removed: &self.replicas[index].removed,
            key: Some(key),
            calls: number,
            status_writes: statuses,
            elapsed: self.elapsed,
            slack,
            late,
            replaced: is_replaced || cannot_know,
            prompt: self.is_prompt(),
        };
        let violation = calls::check(&scope);
        self.coverage.checks += calls::CALLS.len() as u64;
        let name = body["metadata"]["name"].as_str().map(str::to_owned);
        let (code, text, changed) = self.carry_out(call, target, body, (late, None));
        if changed && is_replaced {
            self.note_overtaken(target);
        }
        if code < 300 {
            self.note_removal(index, call, target, name);
        }
        self.replicas[index].note_shared_list(&key.namespace, &call.uri);
        if let Some(flight) = self.replicas[index].flights.get_mut(key) {
            flight.note_answer(call, code);
            flight.status_writes += u32::from(is_status && code < 300);
        }
        if let Some(violation) = violation {
            self.violated(violation);
        } else if is_status && code < 300 && !changed {
            self.violated(super::checks::Violation {
                invariant: "S10",
                sentence: "every write of status changes something",
                seen: call.uri.clone(),
            });
        }
        (code, text)
    }

    /// Whether nothing goes wrong: no fault, no process that stood still, and no more work than is done at once.
    pub(super) fn is_prompt(&self) -> bool {
        let is_small = self.oracle.wrappers.len() <= FEW;
        let is_calm = self.options.faults.0.is_empty() && self.options.plan.is_none() && is_small;
        let stood_still = self.replicas.iter().any(|replica| !replica.frozen_until.is_zero());
        is_calm && self.adversary.is_none() && self.outage_until.is_zero() && !stood_still
    }

    /// The API server's part. Beside whether the call may come too late: by how much it does.
    fn carry_out(
        &mut self,
        call: &Call,
        target: &Target,
        body: serde_json::Value,
        (late, late_by): (bool, Option<Duration>),
    ) -> (u16, String, bool) {
        if let Some(refusal) = self.admission(call, target, &body, late) {
            // a namespace that is being deleted refuses nothing for good
            if !self.closed {
                self.note_refusal(call, refusal.code);
            }
            return (refusal.code, refusal.status().to_string(), false);
        }
        self.note_obstacle(call, target, &body);
        let review = call.is_review().then(|| body.clone());
        let before = self.store.version();
        // pages of one, so that every list is a list of pages
        let uri = if self.options.faults.0.is_empty() {
            call.uri.clone()
        } else {
            let few = if self.adversary.is_some() { "limit=25" } else { "limit=1" };
            call.uri.replace("limit=500", few)
        };
        let answered = answer_read(&mut self.store, &call.method, &uri, &call.content_type, body);
        let changed = self.store.version() != before;
        if let Some(review) = review {
            self.note_review(&review, &answered);
        }
        if let Some(late_by) = late_by.filter(|_| changed) {
            self.note_late(target, late_by);
        }
        self.absorb(if late { Source::Late } else { Source::Ours });
        match answered {
            ApiResponse::Document(code, text) => (code, text, changed),
            // controllers here do not watch through the wire
            ApiResponse::Watch(_) => (500, "{}".to_owned(), changed),
        }
    }

    /// Notes a pod that a DELETE of a process has removed, until the process creates another of its name.
    fn note_removal(&mut self, index: usize, call: &Call, target: &Target, name: Option<String>) {
        if target.plural != "pods" || !target.sub.is_empty() {
            return;
        }
        let namespace = target.namespace.clone();
        let removed = &mut self.replicas[index].removed;
        if call.method == "POST" {
            removed.remove(&Key { namespace, name: name.unwrap_or_default() });
        } else if call.method == "DELETE"
            && target.address(&self.store).is_some_and(|address| self.store.get(&address).is_none())
        {
            removed.insert(Key { namespace, name: target.name.clone() });
        }
    }

    /// Somebody's rights were asked for.
    fn note_review(&mut self, body: &serde_json::Value, answered: &ApiResponse) {
        let ApiResponse::Document(_, text) = answered else { return };
        let allowed = text.contains("\"allowed\":true");
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let asked = &body["spec"]["resourceAttributes"];
        if asked["verb"] == "create" {
            let about = (text(&body["spec"]["user"]), text(&asked["resource"]));
            self.oracle.reviews.insert(about, (self.elapsed, allowed));
        }
    }

    /// Notes what stands in the way of a creation for good.
    fn note_obstacle(&mut self, call: &Call, target: &Target, body: &serde_json::Value) {
        let owner = &body["metadata"]["ownerReferences"][0];
        let discovers = target.plural.is_empty() && call.uri.starts_with("/api");
        if discovers {
            let gone = !self.unserved.is_empty();
            self.oracle.wrappers.values_mut().for_each(|wrapper| wrapper.obstacle |= gone);
        }
        if call.method != Method::POST || owner["kind"] != "AppWrapper" {
            return;
        }
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let address = target.address(&self.store);
        let at = address.map(|at| Address::new(at.kind, &target.namespace, name));
        let taken = at.and_then(|at| self.store.get(&at)).is_some();
        if let Some(wrapper) =
            owner["uid"].as_str().and_then(|uid| self.oracle.wrappers.get_mut(uid))
        {
            wrapper.obstacle |= taken || !self.unserved.is_empty();
        }
    }

    /// A creation was refused for good.
    fn note_refusal(&mut self, call: &Call, code: u16) {
        if call.method == Method::POST && matches!(code, 400 | 403 | 404 | 422) {
            let body = call.json();
            let uid = body["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default();
            if let Some(wrapper) = self.oracle.wrappers.get_mut(uid) {
                wrapper.obstacle = true;
            }
        }
    }

    /// What stands before the store: a closed namespace, and the fence, where this world has one.
    fn admission(
        &self,
        call: &Call,
        target: &Target,
        body: &serde_json::Value,
        late: bool,
    ) -> Option<Refusal> {
        if call.method == Method::GET && self.is_unreadable(&target.plural) {
            let message = format!("{} is forbidden: the controller cannot get it", target.plural);
            return Some(Refusal::new(403, "Forbidden", message));
        }
        if call.method != Method::POST || call.is_review() {
            return None;
        }
        if self.closed {
            let message =
                "unable to create new content in namespace because it is being terminated";
            return Some(Refusal::new(403, "Forbidden", message));
        }
        let owner = &body["metadata"]["ownerReferences"][0];
        if !self.fenced || !late || owner["kind"] != "AppWrapper" {
            return None;
        }
        let attempt = &body["metadata"]["labels"][oracle::ATTEMPT];
        let attempt = attempt.as_str().and_then(|text| text.parse().ok());
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&body["kind"]), text(&body["metadata"]["name"]));
        let current = owner["uid"].as_str().and_then(|uid| self.oracle.wrappers.get(uid));
        let right = current.is_some_and(|wrapper| {
            let part = wrapper.own.part(&kind, &name);
            !wrapper.state.suspend && attempt.is_some_and(|attempt| wrapper.wants(part, attempt))
        });
        let message = format!("{} is not to be created now", target.plural);
        (!right).then(|| Refusal::new(403, "Forbidden", message))
    }

    /// A Kubernetes event: nobody reads it here.
    pub(super) fn serve_event(&mut self, notice: Notice) {
        self.calls_of_events += 1;
        if self.faults_on && self.options.faults.has(Fault::Events) && self.fault_rng.one_in(4) {
            self.coverage.fault(Fault::Events);
            return; // it is not accepted, and nobody waits for it
        }
        let Notice { kind, name, reason, message, namespace: _, uid: _ } = notice;
        self.trace.detail(|| format!("event {name} {reason}: {message}"));
        if self.keep_events && kind == EventType::Warning {
            self.events.push((self.elapsed, name, reason.to_owned(), message));
        }
    }

    /// A write whose caller has given up reaches the API server.
    pub(super) fn carry_out_late(&mut self, index: usize) {
        let LateCall { sent, off, call, .. } = self.late.remove(index);
        let target = Target::of(&call.uri);
        let late_by = self.elapsed.saturating_sub(sent) + off;
        let body = call.json();
        self.trace.note(self.elapsed, "late", short(&call.uri), &[]);
        self.happened(Covered::LateWrite);
        let (.., changed) = self.carry_out(&call, &target, body, (true, Some(late_by)));
        if changed {
            // the attempt that it has begun was dated by it, too
            self.note_late(&target, late_by);
            self.note_overtaken(&target);
        }
    }

    /// An AppWrapper may have been written by a process that another has replaced, or by a write that came late.
    fn note_overtaken(&mut self, target: &Target) {
        let key = Key { namespace: target.namespace.clone(), name: target.name.clone() };
        let written = self.oracle.wrappers.values_mut().find(|wrapper| wrapper.is_of(&key));
        if let Some(wrapper) = written.filter(|_| target.is_wrapper())
            && let Some(object) = self.store.get(&wrapper.address)
        {
            wrapper.overtaken = object.version;
        }
    }

    /// What a write of an AppWrapper says of now was true so long ago.
    fn note_late(&mut self, target: &Target, late_by: Duration) {
        let key = Key { namespace: target.namespace.clone(), name: target.name.clone() };
        let written = self.oracle.wrappers.values_mut().filter(|wrapper| wrapper.is_of(&key));
        written.filter(|_| target.is_wrapper()).for_each(|wrapper| wrapper.note_skew(late_by));
    }

    /// No more pods of an AppWrapper run than Kueue has let in. What has lost its owner is about to go, too.
    pub(super) fn check_admitted_pods(&mut self, uid: &str) {
        let admitted = self.kueue.workloads.get(uid).and_then(|known| known.requests.get("pods"));
        let wrapper = self.oracle.wrappers.get(uid).filter(|_| self.adversary.is_none());
        let Some((admitted, wrapper)) = admitted.zip(wrapper) else { return };
        let is_more = |pods: usize| i64::try_from(pods).is_ok_and(|pods| pods * 1000 > *admitted);
        let things = wrapper.things.iter();
        let live = things.filter(|(_, it)| it.is_live_pod() && !it.late && !it.terminating);
        if !is_more(live.clone().count()) {
            return;
        }
        let is_kept = |uid: &str| {
            let owner = self.store.by_uid(uid).and_then(|pod| pod.controller());
            let owner = owner.and_then(|owner| self.store.by_uid(owner["uid"].as_str()?));
            owner.is_some_and(|owner| !owner.is_deleting())
        };
        let count = live.filter(|(uid, _)| is_kept(uid)).count();
        if is_more(count) {
            let seen = format!("{count} of {}", wrapper.address.name);
            self.violated(super::checks::Violation {
                invariant: "S4",
                sentence: "no more pods run than Kueue has admitted",
                seen,
            });
        }
    }

    /// Quota is right: whatever runs was let in. Checked here because only Kueue's books tell.
    pub(super) fn check_quota(&mut self) {
        let stray = self.oracle.wrappers.iter().find(|(uid, wrapper)| {
            let managed = self.kueue.workloads.get(*uid);
            let holds =
                |standing| matches!(standing, WorkloadState::Admitted | WorkloadState::Evicting);
            (wrapper.sane || wrapper.hostile && wrapper.forged_at.is_none())
                && managed.is_some_and(|workload| !holds(workload.standing))
                && wrapper.rightful().any(oracle::Thing::is_live_pod)
        });
        if let Some((_, wrapper)) = stray {
            let seen = format!("{} in {:?}", wrapper.address.name, wrapper.state.phase);
            self.violated(super::checks::Violation {
                invariant: "S4",
                sentence: "live pods of a queue-managed AppWrapper have quota",
                seen,
            });
        }
    }
}

const fn planned(moment: Moment, effect: Effect) -> Fate {
    match (effect, moment) {
        (Effect::Crash, moment) => Fate::Crash(moment),
        (Effect::Leader, moment) => Fate::Takeover(moment),
        (Effect::Code(code), Moment::Before) => Fate::Refused(code),
        (Effect::Code(code), Moment::Lost) => Fate::Lost(Some(code)),
        (Effect::Code(code), Moment::After) => Fate::ThenOutage(code),
    }
}

fn call_name(call: &Call) -> &'static str {
    match call.method.as_str() {
        "GET" => "get",
        "POST" => "post",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "call",
    }
}

/// The end of a path: what it is about.
fn short(uri: &str) -> &str {
    let path = uri.split('?').next().unwrap_or_default();
    let at = path.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    &path[at..]
}
