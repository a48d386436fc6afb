//! The definition of the status as something that a value can be held against.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt;
use regex::Regex;

use super::definition::bound;
use crate::api::AppWrapper;

/// What a field may hold, as the definition says.
#[derive(Debug)]
pub(super) enum Shape {
    /// A text.
    Text(Text),
    /// A moment.
    Moment(Text),
    /// A whole number.
    Number {
        /// The least.
        min: i64,
        /// The most.
        max: i64,
    },
    /// True or false.
    Flag,
    /// A list.
    List {
        /// What each of its items is.
        items: Box<Self>,
        /// The most items.
        max: usize,
    },
    /// An object with these fields.
    Fields(Fields),
    /// Texts by name.
    Texts {
        /// The most entries.
        max: usize,
        /// What each of them is.
        value: Text,
    },
}

/// The fields of an object: so few that a scan finds one sooner than a search does.
#[derive(Debug)]
pub(super) struct Fields(pub Vec<Field>);

/// A field of an object.
#[derive(Debug)]
pub(super) struct Field {
    /// Its name.
    pub name: String,
    /// Whether the object must have it.
    pub is_required: bool,
    /// What it may hold.
    pub shape: Shape,
}

/// What a text may be.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// The most characters.
    pub max: Option<usize>,
    /// The only ones that there are; empty where any is.
    pub words: Vec<String>,
    /// What it looks like.
    pub pattern: Option<Regex>,
}

/// The shape of `status`.
pub(super) fn status() -> &'static Shape {
    static STATUS: LazyLock<Shape> = LazyLock::new(|| {
        let definition = AppWrapper::crd();
        let version = definition.spec.versions.into_iter().next();
        let schema = version.and_then(|version| version.schema?.open_api_v3_schema);
        let status = schema.and_then(|schema| schema.properties?.remove("status"));
        let mut status = status.unwrap_or_default();
        bound(&mut status);
        Shape::of(&status)
    });
    &STATUS
}

impl Shape {
    fn of(schema: &JSONSchemaProps) -> Self {
        let text = || Text::of(schema);
        match schema.type_.as_deref() {
            Some("string") if schema.format.as_deref() == Some("date-time") => Self::Moment(text()),
            Some("string") => Self::Text(text()),
            Some("integer") => Self::Number {
                min: whole(schema.minimum, i64::MIN),
                max: whole(schema.maximum, i64::MAX),
            },
            Some("boolean") => Self::Flag,
            Some("array") => {
                let items = match &schema.items {
                    Some(JSONSchemaPropsOrArray::Schema(items)) => Self::of(items),
                    Some(JSONSchemaPropsOrArray::Schemas(_)) | None => Self::Text(Text::default()),
                };
                Self::List { items: Box::new(items), max: count(schema.max_items) }
            }
            Some(_) | None if schema.additional_properties.is_some() => Self::Texts {
                max: count(schema.max_properties),
                value: Text { max: Some(4096), ..Text::default() },
            },
            Some(_) | None => {
                let is_required = |name| schema.required.iter().flatten().any(|it| it == name);
                let fields = schema.properties.iter().flatten().map(|(name, field)| Field {
                    name: name.clone(),
                    is_required: is_required(name),
                    shape: Self::of(field),
                });
                Self::Fields(Fields(fields.collect()))
            }
        }
    }
}

impl Fields {
    /// The field of a name.
    pub fn get(&self, name: &str) -> Option<&Field> {
        self.0.iter().find(|field| field.name == name)
    }

    /// Those that the object must have.
    pub fn required(&self) -> impl Iterator<Item = &Field> {
        self.0.iter().filter(|field| field.is_required)
    }
}

impl Text {
    fn of(schema: &JSONSchemaProps) -> Self {
        let words = schema.enum_.iter().flatten();
        Self {
            max: schema.max_length.and_then(|max| usize::try_from(max).ok()),
            words: words.filter_map(|word| word.0.as_str().map(str::to_owned)).collect(),
            pattern: schema.pattern.as_deref().and_then(|pattern| Regex::new(pattern).ok()),
        }
    }
}

fn count(max: Option<i64>) -> usize {
    max.and_then(|max| usize::try_from(max).ok()).unwrap_or(usize::MAX)
}

#[expect(clippy::cast_possible_truncation, reason = "the bounds are whole numbers below 2^53")]
fn whole(bound: Option<f64>, unbounded: i64) -> i64 {
    bound.map_or(unbounded, |bound| bound as i64)
}
