//! A controller that only watches: what it would have done is compared with what the active controller does.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;

use crate::api::Phase;
use crate::config::Config;
use crate::locked::Locked;
use crate::metrics::Metrics;
use crate::snapshot::Snapshot;
use crate::tuning::{Limits, Period};
pub use appwrapper_core::shadow::DifferenceKind;
use appwrapper_core::shadow::{Difference, Finding, ShadowInputs};
use k8s_openapi::jiff::Timestamp;

/// The most differences that are named when the process ends.
const NAMED_MAX: usize = 20;

/// What was found so far, over all AppWrappers.
#[derive(Debug)]
pub struct Shadow {
    /// A step may come so much earlier or later than this controller would have made it.
    pub patience: Period,
    metrics: Metrics,
    tally: Mutex<BTreeMap<Row, u64>>,
}

/// A kind of finding. There are only so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    result: RowResult,
    from: Phase,
    expected: Phase,
    observed: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RowResult {
    Differs(DifferenceKind),
    Unseen,
    Agreed,
}

impl RowResult {
    /// As labels and columns: the result, and how the decisions differ.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Differs(kind) => ("differ", kind.as_str()),
            Self::Unseen => ("unseen", "none"),
            Self::Agreed => ("agree", "none"),
        }
    }
}

impl Row {
    const fn of(finding: &Finding) -> Self {
        match finding {
            Finding::Agreed { from, to } => {
                Self { result: RowResult::Agreed, from: *from, expected: *to, observed: *to }
            }
            Finding::Unseen { from, to } => {
                Self { result: RowResult::Unseen, from: *from, expected: *from, observed: *to }
            }
            Finding::Differs(Difference { kind, from, expected, observed, .. }) => Self {
                result: RowResult::Differs(*kind),
                from: *from,
                expected: *expected,
                observed: *observed,
            },
        }
    }
}

impl Shadow {
    /// Nothing was found yet.
    #[must_use]
    pub fn new(patience: Period, metrics: Metrics) -> Self {
        Self { patience, metrics, tally: Mutex::default() }
    }

    /// A look, with this patience.
    pub(crate) const fn sight<'a>(
        &self,
        snapshot: Snapshot,
        limits: &'a Limits,
        config: &'a Config,
        (now, anchor): (Timestamp, Timestamp),
    ) -> ShadowInputs<'a> {
        ShadowInputs { snapshot, limits, config, now, anchor, patience: self.patience }
    }

    /// Logs and counts a finding about the AppWrapper of the current span.
    pub fn note(&self, finding: &Finding) {
        let row = Row::of(finding);
        let (result, difference) = row.result.names();
        self.metrics.compared(result, difference);
        *self.tally.locked().entry(row).or_default() += 1;
        match finding {
            Finding::Differs(difference) => log(difference),
            Finding::Agreed { from, to } => tracing::debug!(%from, %to, "Decisions match."),
            Finding::Unseen { from, to } => {
                tracing::debug!(%from, %to, "Inputs of the decision were not observed.");
            }
        }
    }

    /// A table of what was found: differences first. No name of an object is in it.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = line(["RESULT", "DIFFERENCE", "FROM", "EXPECTED", "OBSERVED", "COUNT"]);
        let tally = self.tally.locked();
        for (Row { result, from, expected, observed }, count) in &*tally {
            let (result, difference) = result.names();
            let [from, expected, observed] =
                [from, expected, observed].map(|phase| phase.name_or("Empty"));
            text += &line([result, difference, from, expected, observed, &count.to_string()]);
        }
        text
    }

    /// Logs the sum of what was found.
    pub fn conclude(&self) {
        let tally = self.tally.locked();
        let of = |name: &str| {
            let rows = tally.iter().filter(|(row, _)| row.result.names().0 == name);
            rows.map(|(_, count)| count).sum::<u64>()
        };
        let differs = |row: &Row| matches!(row.result, RowResult::Differs(_));
        let mut differences = String::new();
        for (row, count) in tally.iter().filter(|(row, _)| differs(row)).take(NAMED_MAX) {
            let Row { result, from, expected, observed } = row;
            let separator = if differences.is_empty() { "" } else { "; " };
            let [from, expected, observed] =
                [from, expected, observed].map(|phase| phase.name_or("Empty"));
            // writing to a text does not fail
            let written = write!(
                differences,
                "{separator}{} from {from}, expected {expected}, observed {observed}: {count}",
                result.names().1
            );
            debug_assert!(written.is_ok());
        }
        tracing::info!(
            agree = of("agree"),
            differ = of("differ"),
            unseen = of("unseen"),
            differences,
            "Stopped comparing with the active controller."
        );
    }
}

fn line(cells: [&str; 6]) -> String {
    let [result, difference, from, expected, observed, count] = cells;
    format!("{result:<8}{difference:<13}{from:<13}{expected:<13}{observed:<13}{count}\n")
}

/// Messages stay out of the log, as everywhere: they may quote what is confidential.
fn log(difference: &Difference) {
    let Difference { kind, from, expected, observed, since, due, action, reason, retries } =
        difference;
    let (kind, action) = (kind.as_str(), action.as_str());
    let [from, expected, observed] = [from, expected, observed].map(|it| it.name_or("Empty"));
    let [since, due] = [since, due].map(|moment| moment.map(tracing::field::display));
    let (expected_count, observed_count) = retries.unzip();
    tracing::warn!(
        difference = kind,
        from,
        expected,
        observed,
        since,
        due,
        action,
        reason,
        expected_count,
        observed_count,
        "The active controller decided differently."
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::AttemptAction;
    use crate::decide::VerdictAction;

    fn differs(kind: DifferenceKind) -> Finding {
        Finding::Differs(Difference {
            kind,
            from: Phase::Running,
            expected: Phase::Resetting,
            observed: Phase::Failed,
            since: None,
            due: None,
            action: VerdictAction::Handle(AttemptAction::Restart),
            reason: "MissingComponent".to_owned(),
            retries: None,
        })
    }

    #[test]
    fn the_table_counts_what_was_found_with_differences_first() {
        let metrics = Metrics::new();
        let shadow = Shadow::new(Period::from_secs(120), metrics.clone());
        let agreed = Finding::Agreed { from: Phase::Empty, to: Phase::Suspended };
        for finding in [
            &agreed,
            &differs(DifferenceKind::OtherPhase),
            &agreed,
            &Finding::Unseen { from: Phase::Running, to: Phase::Resetting },
        ] {
            shadow.note(finding);
        }
        let table = "\
RESULT  DIFFERENCE   FROM         EXPECTED     OBSERVED     COUNT
differ  other_phase  Running      Resetting    Failed       1
unseen  none         Running      Running      Resetting    1
agree   none         Empty        Suspended    Suspended    2
";
        assert_eq!(shadow.table(), table);
        let page = metrics.page();
        for line in [
            "appwrapper_shadow_decisions_total{difference=\"none\",result=\"agree\"} 2",
            "appwrapper_shadow_decisions_total{difference=\"none\",result=\"unseen\"} 1",
            "appwrapper_shadow_decisions_total{difference=\"other_phase\",result=\"differ\"} 1",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}
