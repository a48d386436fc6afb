//! What is known to differ, and stays so.

/// Where a field is that is not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In the metadata of an object.
    Metadata,
    /// In a `Status`.
    Status,
    /// In a `Status` that tells a failure.
    Failure,
}

/// A field that is not compared.
#[derive(Debug)]
pub struct Kept {
    pub place: Where,
    pub field: &'static str,
    pub why: &'static str,
}

/// The fields that are not compared. The comparison drops these and no others.
pub const KEPT: &[Kept] = &[
    Kept {
        place: Where::Metadata,
        field: "managedFields",
        why: "nobody applies on the server's side, so nobody asks who owns a field",
    },
    Kept { place: Where::Metadata, field: "selfLink", why: "no server sets it any more" },
    Kept { place: Where::Status, field: "message", why: "texts are for people" },
    Kept { place: Where::Status, field: "metadata", why: "it is empty" },
    Kept {
        place: Where::Failure,
        field: "details",
        why: "values are not validated, so there are no causes; a refusal names the object in its message",
    },
];
