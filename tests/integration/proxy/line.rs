//! The line between a controller and the API server, and the one fault that happens on it.
//!
//! Lists and watches of all namespaces become those of one namespace. They and events pass; every other
//! request is a call, and calls are what a plan counts.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use appwrapper::sim::Refusal;
use appwrapper::world::faults::{Effect, FaultPlan, Moment};
use http::{Method, Request, Response, Uri};
use kube::client::Body;
use kube::{Client, Error};
use tokio::sync::watch;

/// So many calls fail after the reply that an outage begins with.
const OUTAGE: u32 = 3;
/// So many calls of the new leader are waited for until a call of the old one goes on, by turns.
const HELD_FOR: u32 = 4;
/// So many calls the old leader makes after the new one took over.
const GOES_ON: u32 = 5;

/// Which requests a plan counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Every call.
    Calls,
    /// The calls that are no GET.
    Writes,
}

/// The controllers of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one that the fault strikes.
    First,
    /// The one that comes after it, or beside it.
    Second,
}

/// What the controllers of a plan share.
pub struct Line {
    upstream: Client,
    namespace: String,
    plan: FaultPlan,
    counted: Counted,
    state: watch::Sender<State>,
    calls: Mutex<Vec<String>>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each comes true by itself")]
pub struct State {
    /// The fault has struck.
    pub struck: bool,
    /// The first controller is dead.
    pub dead: bool,
    /// What the story was about has been reached.
    over: bool,
    /// A call of the first controller, or its reply, is on its way while another leads.
    held: bool,
    /// How many counted calls each has begun.
    begun: [u32; 2],
}

/// What happens to a call.
enum Fate {
    Pass,
    Strike,
    Refuse(u16),
    Die,
}

impl Line {
    pub fn new(upstream: Client, namespace: &str, plan: FaultPlan, counted: Counted) -> Arc<Self> {
        let (state, calls) = (watch::Sender::default(), Mutex::default());
        Arc::new(Self { upstream, namespace: namespace.to_owned(), plan, counted, state, calls })
    }

    /// A line on which nothing ever happens: its controller sees this namespace alone.
    pub fn quiet(upstream: Client, namespace: &str) -> Arc<Self> {
        let never = FaultPlan { call: u32::MAX, moment: Moment::Before, effect: Effect::Crash };
        Self::new(upstream, namespace, never, Counted::Calls)
    }

    /// The client of a controller.
    pub fn client(self: &Arc<Self>, role: Role) -> Client {
        let line = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let line = line.clone();
            async move { line.serve(role, request).await }
        });
        Client::new(service, "default")
    }

    /// Waits until it has come so far.
    pub async fn until(&self, far: impl Fn(&State) -> bool) {
        let mut state = self.state.subscribe();
        // the sender lives as long as this does
        drop(state.wait_for(|state| far(state)).await);
    }

    /// Whether the fault has struck.
    pub fn struck(&self) -> bool {
        self.state.borrow().struck
    }

    /// The story is over: what is held goes on now, and is waited for.
    pub async fn settle(&self) {
        self.state.send_modify(|state| state.over = true);
        self.until(|state| !state.held || state.dead).await;
    }

    /// Every call that was made, one a line.
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn serve(
        self: Arc<Self>,
        role: Role,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, Error> {
        if let Some(scoped) = within(request.uri(), &self.namespace) {
            *request.uri_mut() = scoped;
            return self.upstream.send(request).await;
        }
        let path = request.uri().path();
        if path.contains("/events") || path.ends_with("/nodes") {
            return self.upstream.send(request).await;
        }
        let said = format!("{role:?} {} {}", request.method(), request.uri());
        let fate = self.fate(role, request.method());
        let struck = matches!(fate, Fate::Strike);
        self.note(format!("{said}{}", if struck { " ← struck" } else { "" }));
        let reply = match fate {
            Fate::Pass => self.upstream.send(request).await,
            Fate::Strike => self.strike(request).await,
            Fate::Refuse(code) => Ok(refusal(code)),
            Fate::Die => self.die().await,
        };
        let code = reply.as_ref().map_or_else(ToString::to_string, |it| it.status().to_string());
        self.note(format!("{said} → {code}"));
        reply
    }

    fn note(&self, line: String) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn fate(&self, role: Role, method: &Method) -> Fate {
        if self.counted == Counted::Writes && *method == Method::GET {
            return Fate::Pass;
        }
        let mut fate = Fate::Pass;
        self.state.send_modify(|state| {
            let number = state.begun[role as usize];
            state.begun[role as usize] += 1;
            let FaultPlan { call, moment, effect } = self.plan;
            if role == Role::Second || number < call {
                return;
            }
            fate = match effect {
                _ if number == call => Fate::Strike,
                Effect::Code(code) if moment == Moment::After && number <= call + OUTAGE => {
                    Fate::Refuse(code)
                }
                Effect::Leader if number > call + GOES_ON => Fate::Die,
                Effect::Code(_) | Effect::Leader | Effect::Crash => Fate::Pass,
            };
            state.struck = true;
        });
        fate
    }

    async fn strike(self: &Arc<Self>, request: Request<Body>) -> Result<Response<Body>, Error> {
        let FaultPlan { moment, effect, .. } = self.plan;
        match (moment, effect) {
            (Moment::Before, Effect::Crash) => self.die().await,
            (Moment::Before, Effect::Code(code)) => return Ok(refusal(code)),
            (Moment::Before, Effect::Leader) => self.hold().await,
            (Moment::Lost | Moment::After, _) => {}
        }
        let reply = self.upstream.send(request).await;
        if effect == Effect::Leader && moment != Moment::Before {
            self.hold().await;
        }
        self.state.send_modify(|state| state.held = false);
        match (moment, effect) {
            (Moment::Lost, Effect::Crash) => self.die().await,
            (Moment::Lost, Effect::Code(code)) => Ok(refusal(code)),
            (Moment::Lost, Effect::Leader) => {
                Err(Error::Service(io::Error::from(io::ErrorKind::ConnectionReset).into()))
            }
            (Moment::After, Effect::Crash) => {
                let line = self.clone();
                // once the reply has gone out, wherever the controller is by then
                tokio::spawn(async move {
                    tokio::task::yield_now().await;
                    line.kill();
                });
                reply
            }
            (Moment::Before, _) | (Moment::After, Effect::Code(_) | Effect::Leader) => reply,
        }
    }

    /// The call waits while another leader does something, or has done all.
    async fn hold(&self) {
        let long = 1 + self.plan.call % HELD_FOR;
        self.state.send_modify(|state| state.held = true);
        self.until(|state| state.begun[Role::Second as usize] >= long || state.over).await;
    }

    fn kill(&self) {
        self.state.send_modify(|state| state.dead = true);
    }

    /// The process dies, and nobody is told of the end of this call.
    async fn die(&self) -> ! {
        self.kill();
        std::future::pending().await
    }
}

/// A list or watch of all namespaces, as one of a single namespace.
fn within(uri: &Uri, namespace: &str) -> Option<Uri> {
    let parts: Vec<&str> = uri.path().split('/').skip(1).collect();
    let (["api", _, plural] | ["apis", _, _, plural]) = parts[..] else { return None };
    if plural == "nodes" {
        return None;
    }
    let start = uri.path().len() - plural.len();
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let scoped = format!("{}namespaces/{namespace}/{plural}{query}", &uri.path()[..start]);
    Some(scoped.parse().expect("a path"))
}

/// An answer as the API server gives it when it refuses.
fn refusal(code: u16) -> Response<Body> {
    let (reason, message) = match code {
        409 => ("Conflict", "the object has been modified; please apply your changes to it"),
        429 => ("TooManyRequests", "the server has received too many requests"),
        500 => ("InternalError", "an error on the server has prevented the request"),
        504 => ("Timeout", "the server was unable to return a response in time"),
        _ => ("", "an error of the server"),
    };
    let status = Refusal::new(code, reason, message).status().to_string();
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(Body::from(status.into_bytes())).expect("a response")
}
