//! The ledger of an AppWrapper: where the time went in which quota was reserved.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the time with reserved quota was spent. It is updated only when the status is written for another
/// reason; the seconds since `since` belong to `state`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// What the quota is used for. Not set while no quota is reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<UsageState>,
    /// When this state began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Productive seconds of the running attempt until `since`. `seconds` includes them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt_productive_seconds: i64,
    /// Seconds of all attempts until `since`, by state.
    #[serde(default, skip_serializing_if = "UsageSeconds::is_empty")]
    pub seconds: UsageSeconds,
}

/// What reserved quota is used for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum UsageState {
    /// Not every expected pod is scheduled, and the attempt was never ready.
    Waiting,
    /// Every expected pod is scheduled, and the attempt was never ready.
    Starting,
    /// Every expected pod is running or has succeeded.
    Productive,
    /// Was productive, in an attempt that then failed.
    Lost,
    /// The resources are being deleted.
    Teardown,
    /// All resources are deleted; the next attempt has not begun.
    Pause,
    /// The attempt was ready and is not ready now, or a failed AppWrapper keeps its resources.
    Idle,
}

/// Seconds by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageSeconds {
    /// Seconds in which not every expected pod was scheduled, of attempts that were not ready yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting: i64,
    /// Seconds from the scheduling of the last expected pod until the attempt was ready.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub starting: i64,
    /// Seconds in which every expected pod was running or had succeeded, without those that were lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub productive: i64,
    /// Productive seconds of attempts that then failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: i64,
    /// Seconds in which resources were being deleted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub teardown: i64,
    /// Seconds from the deletion of all resources until the next attempt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pause: i64,
    /// Seconds in which an attempt that had been ready was not ready.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle: i64,
}

impl UsageState {
    /// Every state, in the order of an attempt.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Starting,
        Self::Productive,
        Self::Lost,
        Self::Idle,
        Self::Teardown,
        Self::Pause,
    ];

    /// Its name, as in the status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Productive => "productive",
            Self::Lost => "lost",
            Self::Teardown => "teardown",
            Self::Pause => "pause",
            Self::Idle => "idle",
        }
    }
}

impl UsageSeconds {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The seconds of a state.
    #[must_use]
    pub const fn of(&self, state: UsageState) -> i64 {
        match state {
            UsageState::Waiting => self.waiting,
            UsageState::Starting => self.starting,
            UsageState::Productive => self.productive,
            UsageState::Lost => self.lost,
            UsageState::Teardown => self.teardown,
            UsageState::Pause => self.pause,
            UsageState::Idle => self.idle,
        }
    }

    /// The seconds of a state, to be changed.
    pub const fn of_mut(&mut self, state: UsageState) -> &mut i64 {
        match state {
            UsageState::Waiting => &mut self.waiting,
            UsageState::Starting => &mut self.starting,
            UsageState::Productive => &mut self.productive,
            UsageState::Lost => &mut self.lost,
            UsageState::Teardown => &mut self.teardown,
            UsageState::Pause => &mut self.pause,
            UsageState::Idle => &mut self.idle,
        }
    }
}

// serde hands the field over by reference
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(seconds: &i64) -> bool {
    *seconds == 0
}
