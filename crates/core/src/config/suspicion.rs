//! The section `nodeSuspicion`.

use super::FailureCategory;
use super::read::{CATEGORIES_MAX, CATEGORY, is_category};
use super::section::Section;
use crate::api::Category;
use crate::tuning::{Period, names};

/// When a node is suspect, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSuspicion {
    /// What follows for new attempts.
    pub effect: SuspicionEffect,
    /// After this time, evidence has half of its points.
    pub half_life: Period,
    /// A node with at least this many points is suspect.
    pub threshold: i32,
    /// What containers of one namespace show counts for at most this percentage of the threshold.
    pub namespace_share: i32,
    /// Categories of failures that point to the node more than to the job: built in, or those of the configuration.
    pub hardware_categories: Vec<String>,
}

/// How new attempts avoid suspect nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SuspicionEffect {
    /// Not at all; nothing is recorded either.
    Off,
    /// Their pods prefer other nodes.
    #[default]
    Prefer,
    /// Their pods require other nodes, as long as those have room for them.
    Require,
}

impl SuspicionEffect {
    /// Its name, as in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "Off",
            Self::Prefer => "Prefer",
            Self::Require => "Require",
        }
    }
}

/// The least threshold: above the points that one AppWrapper gives.
pub const THRESHOLD_MIN: i32 = 51;
/// The most: the points of as much evidence as a node has at most.
pub const THRESHOLD_MAX: i32 = 800;
/// The bounds of the half-life.
const HALF_LIFE: (Period, Period) = (Period::from_secs(3_600), Period::from_secs(90 * 86_400));

impl Default for NodeSuspicion {
    fn default() -> Self {
        Self {
            effect: SuspicionEffect::default(),
            half_life: Period::from_secs(7 * 86_400),
            threshold: 100,
            namespace_share: 35,
            hardware_categories: vec![],
        }
    }
}

pub(super) fn read(section: &mut Section<'_>, configured: &[FailureCategory]) -> NodeSuspicion {
    let default = NodeSuspicion::default();
    let effects = [SuspicionEffect::Off, SuspicionEffect::Prefer, SuspicionEffect::Require];
    // Helm reads `Off` as YAML 1.1 does, and writes it as `false`
    let is_off = section.is_false("effect");
    let is_named = !is_off && section.has("effect");
    let named = is_named
        .then(|| section.choice("effect", &effects.map(|effect| (effect.as_str(), effect))))
        .flatten();
    let effect = if is_off { Some(SuspicionEffect::Off) } else { named };
    let half_life = section.period("halfLife", default.half_life);
    if half_life < HALF_LIFE.0 || half_life > HALF_LIFE.1 {
        let message = format!("must be from {} to {}", HALF_LIFE.0, HALF_LIFE.1);
        section.problem("halfLife", Some(&half_life.to_string()), message);
    }
    let threshold = section.whole("threshold", THRESHOLD_MIN..=THRESHOLD_MAX, default.threshold);
    let share = section.whole("namespaceShare", 1..=100, default.namespace_share);
    let mut known: Vec<&str> = Category::ALL.map(Category::as_str).to_vec();
    known.extend(configured.iter().map(|one| one.name.as_str()));
    let categories = section.texts("hardwareCategories", |text| {
        if !is_category(text) {
            return Err(CATEGORY.to_owned());
        }
        let is_known = known.contains(&text);
        let unknown = || format!("unknown category: {}", names::hint(text, &known));
        is_known.then(|| text.to_owned()).ok_or_else(unknown)
    });
    if categories.len() > CATEGORIES_MAX {
        let message = format!("must have at most {CATEGORIES_MAX} categories");
        section.problem("hardwareCategories", Some(&categories.len().to_string()), message);
    }
    NodeSuspicion {
        effect: effect.unwrap_or(default.effect),
        half_life,
        threshold,
        namespace_share: share,
        hardware_categories: categories,
    }
}
