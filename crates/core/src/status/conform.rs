//! Whether a text is a status as the definition has it. Nearly all are, and need no closer look.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::shape::{self, Shape, Text};

/// Whether a status has no flaw and no field that the definition does not know. Builds nothing.
///
/// A required field that is given twice is counted twice here; the types refuse it.
pub(super) fn conforms(status: &str) -> bool {
    let mut text = serde_json::Deserializer::from_str(status);
    Against(shape::status()).deserialize(&mut text).is_ok() && text.end().is_ok()
}

/// Checks a value against a shape: an error where the value differs from it.
#[derive(Clone, Copy)]
struct Against<'a>(&'a Shape);

impl<'de> DeserializeSeed<'de> for Against<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Against<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.expected())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        ensure(matches!(self.0, Shape::Flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        ensure(matches!(self.0, Shape::Number { min, max } if (*min..=*max).contains(&number)))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        i64::try_from(number).map_or_else(|_| ensure(false), |number| self.visit_i64(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        ensure(match self.0 {
            Shape::Text(allowed) => allowed.allows(text),
            Shape::Moment(allowed) => {
                let matches = is_plain_moment(text) || allowed.allows(text);
                matches && text.parse::<jiff::Timestamp>().is_ok()
            }
            Shape::Number { .. }
            | Shape::Flag
            | Shape::List { .. }
            | Shape::Fields(_)
            | Shape::Texts { .. } => false,
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Shape::List { items, max } = self.0 else { return ensure(false) };
        let mut length = 0;
        while list.next_element_seed(Against(items))?.is_some() {
            length += 1;
        }
        ensure(length <= *max)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        match self.0 {
            Shape::Fields(fields) => {
                let mut missing = fields.required().count();
                while let Some(name) = object.next_key::<&str>()? {
                    let Some(field) = fields.get(name) else { return ensure(false) };
                    object.next_value_seed(Against(&field.shape))?;
                    missing = missing.saturating_sub(field.is_required.into());
                }
                ensure(missing == 0)
            }
            Shape::Texts { max, value } => {
                let mut length = 0;
                while let Some((_, text)) = object.next_entry::<&str, &str>()? {
                    length += 1;
                    ensure(value.allows(text))?;
                }
                ensure(length <= *max)
            }
            Shape::Text(_)
            | Shape::Moment(_)
            | Shape::Number { .. }
            | Shape::Flag
            | Shape::List { .. } => ensure(false),
        }
    }
}

fn ensure<E: Error>(conforms: bool) -> Result<(), E> {
    if conforms { Ok(()) } else { Err(E::custom("differs from the definition")) }
}

/// Whether a moment has the form of nearly all of them, such as `2026-01-01T00:00:00Z`. The pattern of the definition allows
/// each of these; only others are matched against it, which takes longer.
pub(super) fn is_plain_moment(text: &str) -> bool {
    const HIGHEST: &str = "2199-99-99T29:59:59Z";
    let fits = |(byte, highest): (u8, u8)| match highest {
        b'0'..=b'9' => (b'0'..=highest).contains(&byte),
        separator => byte == separator,
    };
    text.len() == HIGHEST.len()
        && text.starts_with('2')
        && text.bytes().zip(HIGHEST.bytes()).all(fits)
}

impl Text {
    fn allows(&self, text: &str) -> bool {
        let fits = self.max.is_none_or(|max| text.len() <= max || text.chars().count() <= max);
        let is_known = self.words.is_empty() || self.words.iter().any(|word| word == text);
        fits && is_known && self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
    }
}
