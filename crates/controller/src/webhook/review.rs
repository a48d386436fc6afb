//! The request of an API server: the bytes of an `AdmissionReview`, read into a [`Review`].

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Identity;
use super::levels::shallow;
use super::validate::LEVELS_MAX;
use super::weight::weight;
use crate::api::GROUP;
use crate::tuning::shortened;

/// The supported version of the envelope.
const API_VERSION: &str = "admission.k8s.io/v1";
/// The most memory that an object may take once it is read: ten times what one of 1 MiB takes that has few
/// and long texts, and more than any that people write.
const OBJECT_WEIGHT_MAX: usize = 20 << 20;
/// The same of a whole review: two objects, and who asks.
const REVIEW_WEIGHT_MAX: usize = 2 * OBJECT_WEIGHT_MAX + (4 << 20);
/// The longest description of what is wrong with the JSON.
const SHAPE_CHARS_MAX: usize = 200;

/// The operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// It is created.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
}

impl Operation {
    /// Its name, as in Kubernetes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// AppWrappers, `v1beta2`.
    AppWrappers,
    /// RetryPolicies, `v1alpha1`.
    RetryPolicies,
}

impl Resource {
    const fn version(self) -> &'static str {
        match self {
            Self::AppWrappers => "v1beta2",
            Self::RetryPolicies => "v1alpha1",
        }
    }

    const fn plural(self) -> &'static str {
        match self {
            Self::AppWrappers => "appwrappers",
            Self::RetryPolicies => "retrypolicies",
        }
    }
}

/// An object as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// It, with everything that lies too deep as a string.
    pub value: Value,
    /// Whether something lies too deep.
    pub too_deep: bool,
}

/// How the dependents of a deleted object are handled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteOptions {
    /// `Background`, `Foreground` or `Orphan`.
    pub propagation_policy: Option<String>,
    /// The older way to say `Orphan`.
    pub orphan_dependents: Option<bool>,
}

/// An admission review of an API server. Kubernetes: `AdmissionRequest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// Names the review in the response.
    pub uid: String,
    /// The operation.
    pub operation: Operation,
    /// Who asks for it.
    pub requester: Identity,
    /// Namespace of the object; empty where it has none.
    pub namespace: String,
    /// The new object; null on DELETE.
    pub object: Object,
    /// The old object; null on CREATE.
    pub old_object: Object,
    /// The delete options; on DELETE only.
    pub options: DeleteOptions,
}

/// Why bytes are no review that can be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// There is nothing.
    #[error("the body is empty: expected an AdmissionReview of {API_VERSION}")]
    Empty,
    /// The bytes are no text.
    #[error("the body is not UTF-8")]
    Encoding,
    /// The text is no JSON, or of another shape.
    #[error("the body is not an AdmissionReview: {0}")]
    Shape(String),
    /// It is something else.
    #[error("the body is {kind:?} of {api_version:?}: expected AdmissionReview of {API_VERSION}")]
    Kind {
        /// Its API version.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// An object is made of so many parts that reading it takes too much memory.
    #[error(
        "{field} has too many fields and items: an object must take at most {most} MiB of memory",
        most = OBJECT_WEIGHT_MAX >> 20
    )]
    TooHeavy {
        /// What it is.
        field: &'static str,
    },
    /// A field is missing.
    #[error("{0} must be given")]
    Missing(&'static str),
    /// Such an operation is not asked about.
    #[error("request.operation is {0:?}: expected CREATE, UPDATE or DELETE")]
    Operation(String),
    /// Something else is asked about.
    #[error("request.resource is {found}: expected {expected}")]
    Resource {
        /// What it is asked about.
        found: String,
        /// What it should be.
        expected: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(borrow)]
    request: Option<Request<'a>>,
}

/// The objects stay where they are in the body until they are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource: GroupVersionResource,
    #[serde(default)]
    sub_resource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    user_info: Identity,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
    #[serde(borrow)]
    options: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupVersionResource {
    group: String,
    version: String,
    resource: String,
}

impl Review {
    /// Reads the body of a request. Objects may have any depth and are not judged.
    ///
    /// # Errors
    /// Where it is not a review of an API server about this resource.
    pub fn read(body: &[u8], resource: Resource) -> Result<Self, ReviewError> {
        if body.is_empty() {
            return Err(ReviewError::Empty);
        }
        let text = std::str::from_utf8(body).map_err(|_| ReviewError::Encoding)?;
        if weight(body) > REVIEW_WEIGHT_MAX {
            return Err(ReviewError::TooHeavy { field: "the review" });
        }
        // raw values and unknown fields are skipped without recursion
        let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| shape(&error))?;
        let Envelope { api_version, kind, request } = envelope;
        if api_version != API_VERSION || kind != "AdmissionReview" {
            let [api_version, kind] = [api_version, kind].map(|text| shortened(&text));
            return Err(ReviewError::Kind { api_version, kind });
        }
        let request = request.ok_or(ReviewError::Missing("request"))?;
        if request.uid.is_empty() {
            return Err(ReviewError::Missing("request.uid"));
        }
        if request.user_info.username.is_empty() {
            return Err(ReviewError::Missing("request.userInfo.username"));
        }
        of_resource(&request, resource)?;
        let operation = match request.operation.as_str() {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            other => return Err(ReviewError::Operation(shortened(other))),
        };
        let (needs_new, needs_old) = match operation {
            Operation::Create => (true, false),
            Operation::Update => (true, true),
            Operation::Delete => (false, true),
        };
        let options = request.options.filter(|_| operation == Operation::Delete);
        let options = options.map(|raw| object(raw, "request.options")).transpose()?;
        Ok(Self {
            uid: request.uid,
            operation,
            requester: request.user_info,
            namespace: request.namespace,
            object: taken(request.object, needs_new, "request.object")?,
            old_object: taken(request.old_object, needs_old, "request.oldObject")?,
            options: serde_json::from_value(options.unwrap_or_default().value).unwrap_or_default(),
        })
    }
}

fn of_resource(request: &Request<'_>, expected: Resource) -> Result<(), ReviewError> {
    let GroupVersionResource { group, version, resource } = &request.resource;
    let mut found = format!("{group}/{version} {resource}");
    if !request.sub_resource.is_empty() {
        found += &format!("/{}", request.sub_resource);
    }
    let expected = format!("{GROUP}/{} {}", expected.version(), expected.plural());
    if found == expected {
        return Ok(());
    }
    Err(ReviewError::Resource { found: shortened(&found), expected })
}

fn taken(
    raw: Option<&RawValue>,
    is_needed: bool,
    field: &'static str,
) -> Result<Object, ReviewError> {
    match raw {
        Some(raw) if is_needed => object(raw, field),
        None if is_needed => Err(ReviewError::Missing(field)),
        Some(_) | None => Ok(Object::default()),
    }
}

fn object(raw: &RawValue, field: &'static str) -> Result<Object, ReviewError> {
    if weight(raw.get().as_bytes()) > OBJECT_WEIGHT_MAX {
        return Err(ReviewError::TooHeavy { field });
    }
    let shallow = shallow(raw.get(), LEVELS_MAX);
    let value = serde_json::from_str(&shallow.text).map_err(|error| shape(&error))?;
    Ok(Object { value, too_deep: shallow.levels > LEVELS_MAX })
}

fn shape(error: &serde_json::Error) -> ReviewError {
    // it may quote what it found
    let text = error.to_string();
    ReviewError::Shape(text.chars().take(SHAPE_CHARS_MAX).collect())
}
