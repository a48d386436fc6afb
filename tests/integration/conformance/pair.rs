//! Both servers, side by side.

use std::collections::BTreeMap;

use appwrapper::sim::{ApiServer, Garbage, Store};
use futures::future::join_all;
use kube::Client;
use serde_json::{Value, json};

use super::PATIENCE;
use super::canary;
use super::changes::apply;
use super::compare::{difference, stable_name, state};
use super::generate::{Request, Step};
use super::kinds::Kind;
use super::mirror::{LAST, Mirror, all_events, version, watch_path};
use super::side::{Answer, Side};

/// The states of all objects, by kind and name.
type States = BTreeMap<(String, String), Value>;

/// A simulated and a real server with one namespace of the same name.
pub struct Pair {
    namespace: String,
    kinds: Vec<&'static Kind>,
    server: ApiServer,
    sim: Side,
    real: Side,
    /// The versions from which everything is watched.
    since: (String, String),
    /// Everything that happens on the real server.
    mirrors: Vec<Mirror>,
    garbage: Garbage,
    noted: u64,
    /// The collector has written something, at a moment of its own.
    collected: bool,
}

impl Pair {
    pub async fn open(real: Client, namespace: &str, kinds: Vec<&'static Kind>) -> Self {
        let server = simulated();
        let (mut sim, mut real) = (Side::new(server.client()), Side::new(real));
        let request = Request {
            method: "POST",
            path: "/api/v1/namespaces".to_owned(),
            content_type: "application/json",
            body: Some(json!({"metadata": {"name": namespace}})),
        };
        let version = |answer: Answer| {
            assert_eq!(answer.code, 201, "{}", answer.body);
            answer.body["metadata"]["resourceVersion"].as_str().expect("a version").to_owned()
        };
        let since = (version(sim.send(&request).await), version(real.send(&request).await));
        // version 1 is long gone on the real server, too
        server.with(|store| store.compact(store.version()));
        let noted = server.with(|store| store.version());
        let open =
            |kind: &&'static Kind| Mirror::open(real.client.clone(), kind, namespace, &since.1);
        let mirrors = join_all(kinds.iter().map(open)).await;
        Self {
            namespace: namespace.to_owned(),
            kinds,
            server,
            sim,
            real,
            since,
            mirrors,
            garbage: Garbage::default(),
            noted,
            collected: false,
        }
    }

    /// Makes a step on both sides.
    pub async fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Send(request) => {
                self.let_collector_see(request).await;
                self.both(request, request).await?;
            }
            Step::Rewrite { path, subresource, change } => {
                let get = request("GET", path.clone(), None);
                let (sim, real) = self.both(&get, &get).await?;
                if sim.code == 200 {
                    let put = |mut object: Value| {
                        apply(&mut object, change);
                        request("PUT", format!("{path}{subresource}"), Some(object))
                    };
                    self.both(&put(sim.body), &put(real.body)).await?;
                }
            }
            Step::Pages { path, between } => self.pages(path, between.as_ref()).await?,
            Step::Expired { path } => {
                let (mut sim, mut real) = (self.sim.watch(path).await, self.real.watch(path).await);
                let line = |event: Option<Value>| self::line(event.as_ref());
                agree(&line(within(sim.next()).await?), &line(within(real.next()).await?))?;
            }
        }
        self.settle().await
    }

    async fn both(&mut self, sim: &Request, real: &Request) -> Result<(Answer, Answer), String> {
        let (sim, real) = (self.sim.send(sim).await, self.real.send(real).await);
        agree(
            &self.sim.names.answer(sim.code, &sim.body),
            &self.real.names.answer(real.code, &real.body),
        )
        .map_err(|text| format!("{text}\nsim  {}\nreal {}", sim.body, real.body))?;
        let kind = real.body["kind"].as_str().unwrap_or_default();
        if let Some(mirror) = self.mirrors.iter_mut().find(|mirror| mirror.kind.kind == kind) {
            mirror.written = mirror.written.max(version(&real.body).unwrap_or(0));
        }
        Ok((sim, real))
    }

    /// A list, page by page; each side goes on with a token of its own.
    async fn pages(&mut self, path: &str, mut between: Option<&Request>) -> Result<(), String> {
        let (mut sim, mut real) = (path.to_owned(), path.to_owned());
        loop {
            let get = |path: &String| request("GET", path.clone(), None);
            let answers = self.both(&get(&sim), &get(&real)).await?;
            if let Some(request) = between.take() {
                self.both(request, request).await?;
            }
            let next = |answer: &Answer| {
                let token = answer.body["metadata"]["continue"].as_str().unwrap_or_default();
                (!token.is_empty()).then(|| format!("{path}&continue={token}"))
            };
            let (Some(a), Some(b)) = (next(&answers.0), next(&answers.1)) else { return Ok(()) };
            (sim, real) = (a, b);
        }
    }

    /// Before a deletion, the collector of the real server must know of everything: dependents that it
    /// does not know of yet, it neither waits for nor leaves alone.
    async fn let_collector_see(&self, request: &Request) {
        let owns = |store: &mut Store| {
            let all: Vec<String> = self
                .kinds
                .iter()
                .filter_map(|kind| store.kinds.by_name(kind.api_version, kind.kind))
                .flat_map(|kind| store.all(kind))
                .map(|object| object.uid.to_string())
                .collect();
            all.iter().any(|uid| store.owned_by(uid).next().is_some())
        };
        if request.method == "DELETE" && self.server.with(owns) {
            canary::sing(&self.real, &self.kinds).await;
        }
    }

    /// Lets the collectors of both sides do what is left to do.
    async fn settle(&mut self) -> Result<(), String> {
        let mut anything = false;
        let mut collected = false;
        self.server.with(|store| {
            loop {
                let news = store.history().iter().filter(|it| it.object.version > self.noted);
                for change in news {
                    self.garbage.note(store, change);
                }
                self.noted = store.version();
                if self.garbage.is_empty() {
                    break;
                }
                anything = true;
                collected |= self.garbage.collect(store, 0);
            }
        });
        self.collected |= collected;
        if anything { self.meet().await } else { Ok(()) }
    }

    /// Waits until the real server has the state of the simulated one.
    async fn meet(&mut self) -> Result<(), String> {
        let want = self.states();
        let outcome = within(async {
            while !self.mirrors.iter().all(Mirror::caught_up) || self.mirrored() != want {
                self.follow().await;
            }
        })
        .await;
        outcome.or_else(|_| agree(&shown(&want), &shown(&self.mirrored())))
    }

    /// Takes one more event of any kind.
    async fn follow(&mut self) {
        let next = self.mirrors.iter_mut().map(|mirror| Box::pin(mirror.follow()));
        futures::future::select_all(next).await;
    }

    fn mirrored(&self) -> States {
        let mut states = States::new();
        for event in self.mirrors.iter().flat_map(|mirror| &mirror.seen) {
            let object = &event["object"];
            if event["type"] == "DELETED" {
                states.remove(&key(object));
            } else {
                states.insert(key(object), state(object));
            }
        }
        states
    }

    /// The states of all objects of the simulated server.
    fn states(&self) -> States {
        self.server.with(|store| {
            let ids =
                self.kinds.iter().map(|kind| store.kinds.by_name(kind.api_version, kind.kind));
            let objects = ids.flatten().flat_map(|kind| store.all(kind));
            objects.map(|object| (key(&object.value), state(&object.value))).collect()
        })
    }

    /// Compares everything that watches have told.
    pub async fn finish(&mut self) -> Result<(), String> {
        for kind in self.kinds.clone() {
            let mut object = kind.fresh(LAST);
            object["metadata"]["labels"]["team"] = "a".into();
            let create = request("POST", kind.path(&self.namespace), Some(object));
            self.both(&create, &create).await?;
        }
        for kind in self.kinds.clone() {
            let mut selectors = vec!["", "&labelSelector=team%3Da", "&labelSelector=team+in+(a,b)"];
            if kind.is_pod() {
                selectors.push("&fieldSelector=status.phase%3DPending");
            }
            for selector in selectors {
                self.compare_watches(kind, selector).await?;
            }
        }
        Ok(())
    }

    async fn compare_watches(&mut self, kind: &Kind, selector: &str) -> Result<(), String> {
        for from_now in [false, true] {
            let (a, b) = if from_now { ("", "") } else { (&*self.since.0, &*self.since.1) };
            let path = |version| watch_path(kind, &self.namespace, version, selector);
            let sim = all_events(&self.sim, &path(a)).await?;
            let real = all_events(&self.real, &path(b)).await?;
            let apart = self.collected && !from_now;
            let sim: Vec<Value> =
                sorted(sim, apart).iter().map(|it| self.sim.names.event(it)).collect();
            let real: Vec<Value> =
                sorted(real, apart).iter().map(|it| self.real.names.event(it)).collect();
            agree(&sim.into(), &real.into()).map_err(|text| {
                format!("watch of {} {selector} (from now: {from_now}): {text}", kind.plural)
            })?;
        }
        Ok(())
    }

    /// Compares what is there now, long after the last step.
    pub async fn last(&mut self) -> Result<(), String> {
        for kind in self.kinds.clone() {
            let path = format!("{}?labelSelector=app", kind.path(&self.namespace));
            let list = request("GET", path, None);
            self.both(&list, &list).await?;
        }
        Ok(())
    }
}

/// A simulated server with our own kinds.
pub fn simulated() -> ApiServer {
    let mut store = Store::default();
    for definition in appwrapper::crd::all() {
        store.kinds.define(&serde_json::to_value(definition).expect("JSON"));
    }
    ApiServer::new(store)
}

/// A request with JSON.
pub fn request(method: &'static str, path: String, body: Option<Value>) -> Request {
    Request { method, path, content_type: "application/json", body }
}

/// Events in their order; where a collector has taken part, in the order of each object.
fn sorted(mut events: Vec<Value>, apart: bool) -> Vec<Value> {
    if apart {
        events.sort_by_key(|event| key(&event["object"]));
    }
    events
}

fn key(object: &Value) -> (String, String) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let name = stable_name(&object["metadata"]["name"]);
    (kind, name.as_str().unwrap_or_default().to_owned())
}

/// An event that tells an error.
fn line(event: Option<&Value>) -> Value {
    let of = |pointer: &str| event.and_then(|event| event.pointer(pointer)).cloned();
    json!([
        of("/type"),
        of("/object/kind"),
        of("/object/code"),
        of("/object/reason"),
        of("/code"),
        of("/object/metadata/name")
    ])
}

fn shown(states: &States) -> Value {
    states.iter().map(|((kind, name), state)| (format!("{kind}/{name}"), state.clone())).collect()
}

/// Waits, but not forever.
pub async fn within<T>(work: impl Future<Output = T>) -> Result<T, String> {
    tokio::time::timeout(PATIENCE, work).await.map_err(|_| "it never came".to_owned())
}

fn agree(sim: &Value, real: &Value) -> Result<(), String> {
    let mut found = vec![];
    difference("", sim, real, &mut found);
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}
