//! What an AppWrapper is, what its policies say, and what is decided about it: from facts alone. This crate names no
//! client, no runtime and no clock, since its manifest has none.
//!
//! Each module uses only modules above it in the table of ARCHITECTURE.md.

/// Defines an enum of which each variant has a name and a documentation. `ALL` holds every variant, and `as_str` returns the name.
///
/// ```
/// appwrapper_core::named! {
///     /// A side.
///     #[derive(Clone, Copy)]
///     pub enum Side {
///         Left: "left", "It is on the left.";
///         Right: "right", "It is on the right.";
///     }
/// }
/// assert_eq!(Side::ALL.map(Side::as_str), ["left", "right"]);
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$of_enum:meta])*
        $visibility:vis enum $type:ident {
            $($(#[$of_variant:meta])* $name:ident: $text:literal, $doc:literal;)+
        }
    ) => {
        $(#[$of_enum])*
        $visibility enum $type {
            $(#[doc = $doc] $(#[$of_variant])* $name,)+
        }

        impl $type {
            /// Every one.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$name),+];

            /// Its name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

pub mod api;
pub mod config;
pub mod crd;
pub mod decide;
pub mod failure_log;
pub mod json_text;
pub mod kinds;
pub mod kueue;
pub mod mutations;
pub mod pattern;
pub mod plan;
pub mod policies;
pub mod price;
pub mod printable;
pub mod progress;
pub mod quantity;
pub mod record;
pub mod shadow;
pub mod snapshot;
pub mod status;
pub mod suspicion;
pub mod tuning;
