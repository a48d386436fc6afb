//! Answers a request from the store.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::discovery;
use super::kinds::{Kind, KindId};
use super::object::{Address, Object};
use super::patch::{self, Form};
use super::query::{self, Params, Query};
use super::refusal::Refusal;
use super::remove::Deletion;
use super::selector::Filter;
use super::store::{Part, Store};
use super::watch::Watch;
use super::write::{Writer, remove};

/// The answer to a request.
#[derive(Debug)]
pub enum ApiResponse {
    /// A document, with the HTTP status.
    Document(u16, String),
    /// What happens from here on.
    Watch(Watch),
}

/// Answers a request: method, path with query, content type, body.
#[must_use]
pub fn answer(
    store: &mut Store,
    method: &Method,
    uri: &str,
    content_type: &str,
    body: &[u8],
) -> ApiResponse {
    answered(respond(store, method, uri, content_type, Sent::Text(body)))
}

/// Answers a request whose body was read already.
#[must_use]
pub fn answer_read(
    store: &mut Store,
    method: &Method,
    uri: &str,
    content_type: &str,
    body: Value,
) -> ApiResponse {
    answered(respond(store, method, uri, content_type, Sent::Value(body)))
}

/// The body of a request.
enum Sent<'a> {
    Text(&'a [u8]),
    Value(Value),
}

impl Sent<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Value(value) => value.is_null(),
        }
    }

    fn read(self) -> Result<Value, Refusal> {
        match self {
            Self::Text(text) => serde_json::from_slice(text)
                .map_err(|error| Refusal::bad_request(error.to_string())),
            Self::Value(value) => Ok(value),
        }
    }
}

fn answered(response: Result<ApiResponse, Refusal>) -> ApiResponse {
    response.unwrap_or_else(|refusal| {
        let text = if refusal.is_bare() { refusal.message } else { refusal.status().to_string() };
        ApiResponse::Document(refusal.code, text)
    })
}

fn respond(
    store: &mut Store,
    method: &Method,
    uri: &str,
    content_type: &str,
    body: Sent<'_>,
) -> Result<ApiResponse, Refusal> {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let params = query::params(query);
    let query = query::read(store, method, path, &params, content_type)?;
    let ok = |object: &Arc<Object>| ApiResponse::Document(200, object.text().to_owned());
    Ok(match query {
        Query::Discover(path) => ApiResponse::Document(200, discovery::document(store, &path)?),
        Query::Create(kind, namespace) => {
            let value = body.read()?;
            check_kind(store.kinds.get(kind), &value)?;
            let object = store.create(kind, &namespace, value)?;
            ApiResponse::Document(201, object.text().to_owned())
        }
        Query::Get(address) => ok(&store.existing(&address)?),
        Query::List(kind, namespace) => {
            ApiResponse::Document(200, list(store, kind, &namespace, &params)?)
        }
        Query::Watch(kind, namespace) => {
            ApiResponse::Watch(Watch::open(store, kind, &namespace, &params)?)
        }
        Query::Replace(address, part) => replaced(store, &address, part, body.read()?)?,
        Query::Patch(address, part, form) => {
            ok(&patched(store, &address, part, form, body.read()?)?)
        }
        Query::Delete(address) => {
            let options = if body.is_empty() { options(&params) } else { body.read()? };
            delete(store, &address, &Deletion::parse(&options)?)?
        }
        Query::Review(_) => ApiResponse::Document(201, review(store, body.read()?).to_string()),
    })
}

/// An object must be of the kind that the path names; a custom resource must say so.
fn check_kind(kind: &Kind, value: &Value) -> Result<(), Refusal> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let wrong = |key: &str, want: &str| !text(key).is_empty() && text(key) != want;
    let message = || format!("the object provided is no {} of {}", kind.kind, kind.api_version());
    if kind.is_custom() && text("kind").is_empty() {
        return Err(Refusal::bad_request(message()));
    }
    if wrong("kind", &kind.kind) || wrong("apiVersion", &kind.api_version()) {
        let invalid = kind.is_custom() && !wrong("apiVersion", &kind.api_version());
        return Err(if invalid {
            Refusal::invalid(message())
        } else {
            Refusal::bad_request(message())
        });
    }
    Ok(())
}

/// Replaces an object; some kinds are created so.
fn replaced(
    store: &mut Store,
    address: &Address,
    part: Part,
    value: Value,
) -> Result<ApiResponse, Refusal> {
    let kind = store.kinds.get(address.kind);
    check_kind(kind, &value)?;
    if kind.created_by_update() && part == Part::Whole && store.get(address).is_none() {
        let mut value = value;
        value["metadata"]["name"] = (*address.name).into();
        remove(&mut value["metadata"], "resourceVersion");
        let object = store.create(address.kind, &address.namespace, value)?;
        return Ok(ApiResponse::Document(201, object.text().to_owned()));
    }
    Ok(ApiResponse::Document(200, store.replace(address, part, value)?.text().to_owned()))
}

fn patched(
    store: &mut Store,
    address: &Address,
    part: Part,
    form: Form,
    patch: Value,
) -> Result<Arc<Object>, Refusal> {
    let old = store.existing(address)?;
    let value = patch::apply(form, &old.value, patch)?;
    let same = |key: &str| value.get(key) == old.value.get(key);
    if !same("kind") || !same("apiVersion") {
        return Err(Refusal::invalid("the kind of an object cannot be changed"));
    }
    store.replace_by(address, part, value, Writer::Patch)
}

/// `DeleteOptions` in the parameters, where there is no body.
fn options(params: &Params) -> Value {
    let seconds = params.get("gracePeriodSeconds").and_then(|text| text.parse::<i64>().ok());
    json!({"gracePeriodSeconds": seconds, "propagationPolicy": params.get("propagationPolicy")})
}

fn delete(
    store: &mut Store,
    address: &Address,
    deletion: &Deletion,
) -> Result<ApiResponse, Refusal> {
    let last = store.delete(address, deletion)?;
    let kind = store.kinds.get(address.kind);
    if store.get(address).is_some() || kind.returned() {
        return Ok(ApiResponse::Document(200, last.text().to_owned()));
    }
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": &*address.name, "kind": kind.plural, "uid": &*last.uid},
    });
    if !kind.group.is_empty() {
        status["details"]["group"] = kind.group.clone().into();
    }
    Ok(ApiResponse::Document(200, status.to_string()))
}

/// Whether an access is allowed: everything is that was not denied.
fn review(store: &Store, mut review: Value) -> Value {
    let text = |key: &str| {
        review["spec"]["resourceAttributes"][key].as_str().unwrap_or_default().to_owned()
    };
    let user = review["spec"]["user"].as_str().unwrap_or_default().to_owned();
    let denied = store.denied.contains(&(text("verb"), text("resource")))
        || store.revoked.contains(&(user, text("verb"), text("resource")));
    review["status"] = json!({"allowed": !denied});
    review
}

/// A list, or one page of it.
fn list(store: &Store, kind: KindId, namespace: &str, params: &Params) -> Result<String, Refusal> {
    let text = |key: &str| params.get(key).map(String::as_str).unwrap_or_default();
    let known = store.kinds.get(kind);
    let filter =
        Filter::parse(namespace, text("labelSelector"), text("fieldSelector"), known.graceful)?;
    let limit: usize = text("limit").parse().unwrap_or(0);
    let (version, after) = match text("continue") {
        "" => (store.version(), None),
        token => {
            let wrong = || Refusal::bad_request("continue key is not valid");
            let (version, after) = token.split_once(':').ok_or_else(wrong)?;
            let (namespace, name) = after.split_once('/').ok_or_else(wrong)?;
            let after = Address::new(kind, namespace, name);
            (version.parse().map_err(|_| wrong())?, Some(after))
        }
    };
    let left = |object: &&Arc<Object>| {
        filter.is_within(&object.address.namespace)
            && !filter.passes_over(&object.address.name)
            && after.as_ref().is_none_or(|after| object.address > *after)
    };
    let past;
    let all: Vec<&Arc<Object>> = if version == store.version() {
        store.all(kind).filter(left).collect()
    } else {
        past = store.all_at(kind, version)?;
        past.values().filter(left).collect()
    };
    let mut found = vec![];
    let mut metadata = json!({"resourceVersion": version.to_string()});
    for (at, object) in all.iter().enumerate() {
        if filter.matches(&object.address.namespace, &object.value) {
            found.push(*object);
        }
        // there is another page where there is another object: whether it matches is not known yet
        if limit > 0 && found.len() == limit && at + 1 < all.len() {
            let Address { namespace, name, .. } = &object.address;
            metadata["continue"] = format!("{version}:{namespace}/{name}").into();
            if !filter.selects() {
                metadata["remainingItemCount"] = (all.len() - at - 1).into();
            }
            break;
        }
    }
    let custom = known.is_custom();
    let items: Vec<&str> = found
        .iter()
        .map(|object| if custom { object.text() } else { object.text_in_list() })
        .collect();
    Ok(format!(
        r#"{{"kind":"{}List","apiVersion":"{}","metadata":{metadata},"items":[{}]}}"#,
        known.kind,
        known.api_version(),
        items.join(",")
    ))
}
