//! One of the two servers, and what it has answered.

use std::collections::BTreeMap;

use futures::io::{AsyncBufReadExt, Lines};
use futures::{AsyncBufRead, StreamExt, TryStreamExt};
use http::header;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use super::compare::Names;
use super::generate::Request;
use super::kept::Probe;

/// A server, and what it has answered.
pub struct Side {
    pub client: Client,
    pub names: Names,
    /// UID and versions of each object that was seen, by plural and name.
    seen: BTreeMap<String, (String, Vec<String>)>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
}

/// The events of a watch.
pub struct Events(Lines<Box<dyn AsyncBufRead + Send + Unpin>>);

impl Side {
    pub fn new(client: Client) -> Self {
        Self { client, names: Names::default(), seen: BTreeMap::new() }
    }

    /// Sends a request, with what stands in its body replaced by what this side has answered.
    pub async fn send(&mut self, request: &Request) -> Answer {
        let bytes = match &request.body {
            None => vec![],
            Some(body) => {
                let mut body = body.clone();
                self.resolve(&mut body);
                serde_json::to_vec(&body).expect("JSON")
            }
        };
        let response =
            self.send_bytes(request.method, &request.path, request.content_type, bytes).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("the answer is read").to_bytes();
        let text = || Value::from(String::from_utf8_lossy(&bytes).into_owned());
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
        self.remember(&request.path, &body);
        Answer { code, body }
    }

    /// The code by which a request is answered.
    pub async fn probe(&self, probe: &Probe) -> u16 {
        let path = format!("/api/v1/namespaces/kept/{}", probe.path);
        let bytes = probe.body.as_bytes().to_vec();
        let response = self.send_bytes(probe.method, &path, probe.content_type, bytes).await;
        response.status().as_u16()
    }

    async fn send_bytes(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        bytes: Vec<u8>,
    ) -> http::Response<Body> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, "application/json")
            .body(Body::from(bytes))
            .expect("a request");
        self.client.send(request).await.expect("the server answers")
    }

    fn remember(&mut self, path: &str, body: &Value) {
        let text = |key: &str| body["metadata"][key].as_str();
        let plural = path.split('/').skip_while(|part| *part != "namespaces").nth(2);
        let (Some(plural), Some(name), Some(uid), Some(version)) =
            (plural, text("name"), text("uid"), text("resourceVersion"))
        else {
            return;
        };
        let plural = plural.split('?').next().unwrap_or_default();
        let seen = self.seen.entry(format!("{plural}/{name}")).or_default();
        uid.clone_into(&mut seen.0);
        if seen.1.last().is_none_or(|last| last != version) {
            seen.1.push(version.to_owned());
        }
    }

    fn resolve(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => fields.values_mut().for_each(|value| self.resolve(value)),
            Value::Array(items) => items.iter_mut().for_each(|value| self.resolve(value)),
            Value::String(text) => {
                if let Some((what, whose)) =
                    text.strip_prefix('$').and_then(|it| it.split_once(':'))
                {
                    let seen = self.seen.get(whose);
                    let known = match what {
                        "uid" => seen.map(|(uid, _)| uid),
                        "stale" => seen.and_then(|(_, versions)| versions.first()),
                        _ => seen.and_then(|(_, versions)| versions.last()),
                    };
                    let unknown =
                        if what == "uid" { "55555555-5555-4555-8555-555555555555" } else { "1" };
                    *text = known.cloned().unwrap_or_else(|| unknown.to_owned());
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Opens a watch.
    pub async fn watch(&self, path: &str) -> Events {
        let request = http::Request::get(path).body(Body::empty()).expect("a request");
        let response = self.client.send(request).await.expect("the server answers");
        let stream = response.into_body().into_data_stream().map_err(std::io::Error::other);
        let reader: Box<dyn AsyncBufRead + Send + Unpin> = Box::new(stream.into_async_read());
        Events(reader.lines())
    }
}

impl Events {
    /// The next event; none when the watch has ended.
    pub async fn next(&mut self) -> Option<Value> {
        let line = self.0.next().await?.expect("the watch is read");
        Some(serde_json::from_str(&line).expect("an event is JSON"))
    }
}
