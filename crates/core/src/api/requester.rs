use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The user who created an AppWrapper, with everything that an authorizer may look at. Kubernetes:
/// `UserInfo` of `authentication.k8s.io/v1`.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(default)]
#[schemars(transform = bounded)]
pub struct Requester {
    /// Name of the user, such as `system:serviceaccount:<namespace>:<name>`.
    pub username: String,
    /// UID of the user, which differs from that of an earlier user of the same name. May be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Groups that the user belongs to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Additional attributes provided by the authenticator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Requester {
    /// The largest requester that is stored or remembered, in bytes of text.
    pub const BYTES_MAX: usize = 8 << 10;

    /// Bytes of text in it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let Self { username, uid, groups, extra } = self;
        let of = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
        let extra: usize = extra.iter().map(|(key, values)| key.len() + of(values)).sum();
        username.len() + uid.len() + of(groups) + extra
    }
}

/// A name, and bounds without which no API server accepts a rule that compares two requesters. Nothing of
/// [`Requester::BYTES_MAX`] that an authenticator makes comes near them.
fn bounded(schema: &mut Schema) {
    schema.insert("required".to_owned(), json!(["username"]));
    if let Some(username) =
        schema.pointer_mut("/properties/username").and_then(Value::as_object_mut)
    {
        username.remove("default");
    }
    for (field, keyword, bound) in [
        ("/properties/username", "maxLength", 8192),
        ("/properties/uid", "maxLength", 8192),
        ("/properties/groups", "maxItems", 1024),
        ("/properties/groups/items", "maxLength", 8192),
        ("/properties/extra", "maxProperties", 256),
        ("/properties/extra/additionalProperties", "maxItems", 256),
        ("/properties/extra/additionalProperties/items", "maxLength", 8192),
    ] {
        if let Some(field) = schema.pointer_mut(field).and_then(Value::as_object_mut) {
            field.insert(keyword.to_owned(), json!(bound));
        }
    }
}
