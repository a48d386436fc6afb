//! What a request asks for, by its method, path and query.

use std::collections::BTreeMap;

use http::Method;

use super::kinds::{Kind, KindId};
use super::object::Address;
use super::patch::Form;
use super::refusal::Refusal;
use super::store::{Part, Store};

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Query {
    Discover(String),
    Create(KindId, String),
    Get(Address),
    List(KindId, String),
    Watch(KindId, String),
    Replace(Address, Part),
    Patch(Address, Part, Form),
    Delete(Address),
    Review(String),
}

/// The parameters of a request.
pub(super) type Params = BTreeMap<String, String>;

/// Reads the parameters.
pub(super) fn params(query: &str) -> Params {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        })
        .collect()
}

/// Undoes percent-encoding, and `+` for a space.
fn decode(text: &str) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = || text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], hex()) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (b'+', _) => {
                out.push(b' ');
                at += 1;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

const REVIEWS: [&str; 2] = ["selfsubjectaccessreviews", "subjectaccessreviews"];

/// Reads a request.
pub(super) fn read(
    store: &Store,
    method: &Method,
    path: &str,
    params: &Params,
    content_type: &str,
) -> Result<Query, Refusal> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Ok(Query::Discover(path.to_owned())),
    };
    if group == "authorization.k8s.io"
        && let [resource] = rest
        && REVIEWS.contains(resource)
    {
        return Ok(Query::Review((*resource).to_owned()));
    }
    let (namespace, rest) = match rest {
        [] => return Ok(Query::Discover(path.to_owned())),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() && *rest != ["status"] => {
            (*namespace, rest)
        }
        rest => ("", rest),
    };
    let Some(kind) = store.kinds.by_path(group, version, rest[0]) else {
        let built_in = |(_, kind): (KindId, &Kind)| {
            kind.group == group && kind.version == version && !kind.is_custom()
        };
        let known = store.kinds.served().any(built_in);
        return Err(if known { Refusal::no_path() } else { Refusal::nowhere() });
    };
    let known = store.kinds.get(kind);
    let address = |name: &str| Address::new(kind, namespace, name);
    match (method.as_str(), &rest[1..]) {
        ("GET", []) if is_true(params, "watch") => Ok(Query::Watch(kind, namespace.to_owned())),
        ("GET", []) => Ok(Query::List(kind, namespace.to_owned())),
        ("POST", []) => Ok(Query::Create(kind, namespace.to_owned())),
        ("GET", [name]) => Ok(Query::Get(address(name))),
        ("GET", [name, "status"]) if known.status => Ok(Query::Get(address(name))),
        ("PUT", [name]) => Ok(Query::Replace(address(name), Part::Whole)),
        ("PUT", [name, "status"]) if known.status => {
            Ok(Query::Replace(address(name), Part::Status))
        }
        ("PATCH", [name]) => Ok(Query::Patch(address(name), Part::Whole, Form::of(content_type)?)),
        ("PATCH", [name, "status"]) if known.status => {
            Ok(Query::Patch(address(name), Part::Status, Form::of(content_type)?))
        }
        ("DELETE", [name]) => Ok(Query::Delete(address(name))),
        (_, [_, _, ..]) => Err(Refusal::no_path()),
        ("PUT", []) if known.is_custom() => Err(Refusal::bad_request("name must be provided")),
        _ => Err(Refusal::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )),
    }
}

pub(super) fn is_true(params: &Params, key: &str) -> bool {
    params.get(key).is_some_and(|value| value == "true" || value == "1")
}
