//! The log of the first cause of a failure: which is kept, what of it, and where. Pure: `act` reads and writes it.
//!
//! Each log has a ConfigMap in the namespace of its AppWrapper, owned by it and named after the UID of the pod: who may
//! read ConfigMaps there may read it, and nobody else. It is never changed, and never found by a label.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

use crate::api::{AppWrapperStatus, FailureRecord};
use crate::config::FailureLogs;
use crate::pattern::Pattern;
use crate::snapshot::{Pod, Snapshot};
use crate::tuning::names;

/// The most logs that are kept of an AppWrapper: those of its last failures.
pub const KEPT_MAX: usize = 5;
/// The most bytes that are read of a log.
pub const READ_BYTES_MAX: usize = 1 << 20;
/// The longest line, in characters; the rest is left out.
const LINE_CHARS_MAX: usize = 4096;
/// What is written in place of what is redacted.
const REDACTED: &str = "[redacted]";

/// The key of the log in its ConfigMap.
pub const LOG_KEY: &str = "log";

/// A log that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Number of the attempt.
    pub attempt: i32,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod.
    pub pod_uid: String,
    /// Name of the container.
    pub container: String,
}

/// The name of the ConfigMap with the log of a pod; none for a UID that is none.
#[must_use]
pub fn config_map(pod_uid: &str) -> Option<String> {
    names::is_label(pod_uid).then(|| format!("appwrapper-log-{pod_uid}"))
}

/// The log that is to be kept after a status was written: that of the failure that it is the first to record. The pod
/// has to be one of ours, on a node from which a log can be read, and have run.
#[must_use]
pub fn wanted(
    old: &AppWrapperStatus,
    new: &AppWrapperStatus,
    snapshot: &Snapshot,
) -> Option<Wanted> {
    let known =
        |uid: &str| failures(old).any(|(_, failure)| failure.pod_uid.as_deref() == Some(uid));
    let (attempt, failure) = failures(new).last()?;
    let uid = failure.pod_uid.as_deref().filter(|uid| !known(uid))?;
    let pod = snapshot.pods.iter().find(|pod| pod.uid == uid)?;
    let is_read = snapshot.loss_of(pod).is_none() && pod.node.is_some();
    let container = container(pod, failure)?;
    is_read.then(|| Wanted {
        attempt,
        pod: pod.name.clone(),
        pod_uid: uid.to_owned(),
        container: container.to_owned(),
    })
}

/// The recorded container; else the first of the pod that is no init container.
fn container<'a>(pod: &'a Pod, failure: &FailureRecord) -> Option<&'a str> {
    let named = failure.container.as_deref();
    let named = named.and_then(|name| pod.containers.iter().find(|one| one.name == name));
    let first = || pod.containers.iter().find(|one| !one.init);
    named.or_else(first).map(|one| one.name.as_str())
}

/// The failures of a status that name a pod, in order, with their attempts; each pod once.
fn failures(status: &AppWrapperStatus) -> impl Iterator<Item = (i32, &FailureRecord)> {
    let mut last = None;
    status.attempts.iter().filter_map(move |attempt| {
        let failure = attempt.failure.as_ref()?;
        let uid = failure.pod_uid.as_deref()?;
        if last.replace(uid) == Some(uid) {
            return None;
        }
        Some((attempt.attempt, failure))
    })
}

/// The ConfigMaps that are to go after a status was written: those of the failures that are no longer among the last
/// [`KEPT_MAX`], whether or not a log of them was kept.
#[must_use]
pub fn expired(old: &AppWrapperStatus, new: &AppWrapperStatus) -> Vec<String> {
    let last = last_pods(new);
    let gone = last_pods(old).into_iter().filter(|uid| !last.contains(uid));
    gone.filter_map(config_map).collect()
}

/// The UIDs of the pods of the last [`KEPT_MAX`] failures.
fn last_pods(status: &AppWrapperStatus) -> Vec<&str> {
    let mut all: Vec<&str> =
        failures(status).filter_map(|(_, failure)| failure.pod_uid.as_deref()).collect();
    all.split_off(all.len().saturating_sub(KEPT_MAX))
}

/// What is kept of a log: its last lines, redacted, and no more bytes than the configuration allows. Of a log that was
/// cut at [`READ_BYTES_MAX`], the last line is left out: a part of a secret matches no pattern.
#[must_use]
pub fn excerpt(log: &[u8], settings: &FailureLogs) -> String {
    let text = String::from_utf8_lossy(log);
    let mut lines: Vec<&str> = text.lines().collect();
    if log.len() >= READ_BYTES_MAX {
        lines.pop();
    }
    let redaction = Redaction::new(&settings.redact);
    let most = usize::try_from(settings.lines).unwrap_or(0);
    let mut left = settings.bytes_max;
    let mut kept = vec![];
    for line in lines.into_iter().rev().take(most) {
        let line = redaction.apply(line);
        let end = line.char_indices().nth(LINE_CHARS_MAX).map_or(line.len(), |(at, _)| at);
        let line = &line[..end];
        let room = left.min(line.len());
        if room == 0 && !line.is_empty() {
            break;
        }
        kept.push(line[..line.floor_char_boundary(room)].to_owned());
        match left.checked_sub(line.len() + 1) {
            Some(rest) => left = rest,
            None => break,
        }
    }
    kept.reverse();
    kept.join("\n")
}

/// Patterns that are replaced. They are compiled for one log: failures are rare.
struct Redaction(Vec<Regex>);

impl Redaction {
    /// Every pattern was checked when the configuration was read. One that does not compile all the same would let
    /// through what it should not: then every line is redacted as a whole.
    fn new(patterns: &[Pattern]) -> Self {
        let compiled: Result<Vec<Regex>, regex::Error> = patterns
            .iter()
            .map(|pattern| {
                let mut builder = RegexBuilder::new(pattern.as_str());
                builder.size_limit(Pattern::COMPILED_BYTES_MAX * 16);
                builder.dfa_size_limit(Pattern::COMPILED_BYTES_MAX).build()
            })
            .collect();
        Self(compiled.unwrap_or_else(|_| RegexBuilder::new("(?s).+").build().into_iter().collect()))
    }

    fn apply<'a>(&self, line: &'a str) -> Cow<'a, str> {
        self.0.iter().fold(Cow::Borrowed(line), |line, pattern| {
            match pattern.replace_all(&line, regex::NoExpand(REDACTED)) {
                Cow::Borrowed(_) => line,
                Cow::Owned(redacted) => Cow::Owned(redacted),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Attempt;
    use crate::snapshot::Container;

    fn settings(lines: i32, bytes_max: usize, redact: &[&str]) -> FailureLogs {
        let redact = redact.iter().map(|text| Pattern::new(text).unwrap()).collect();
        FailureLogs { enabled: true, lines, bytes_max, redact }
    }

    #[test]
    fn the_last_lines_are_kept_and_no_more_bytes_than_allowed() {
        for (log, lines, bytes, want) in [
            ("", 10, 100, ""),
            ("a\nb\nc\n", 10, 100, "a\nb\nc"),
            ("a\nb\nc\n", 2, 100, "b\nc"),
            ("a\nb\nc", 2, 100, "b\nc"),
            ("aaaa\nbbbb\ncccc\n", 10, 10, "bbbb\ncccc"),
            ("aaaa\nbbbb\ncccc\n", 10, 9, "bbbb\ncccc"),
            ("aaaa\nbbbb\ncccc\n", 10, 7, "bb\ncccc"),
            ("aaaa\nbbbb\ncccc\n", 10, 3, "ccc"),
            ("ää\nö", 10, 4, "\u{f6}"),
            ("a\r\n\n\nb", 10, 100, "a\n\n\nb"),
        ] {
            let kept = excerpt(log.as_bytes(), &settings(lines, bytes, &[]));
            assert!(kept.len() <= bytes, "{log:?}");
            assert!(
                kept.ends_with(want) && kept.trim_start_matches('\n').len() <= want.len(),
                "{kept:?}: {log:?}"
            );
        }
        let odd = excerpt(b"a\xff\xfe\0b", &settings(1, 100, &[]));
        assert_eq!(odd, "a\u{fffd}\u{fffd}\0b");
        let long = excerpt(&[b'x'; 10_000], &settings(1, 65_536, &[]));
        assert_eq!(long.len(), LINE_CHARS_MAX);
    }

    #[test]
    fn secrets_are_redacted_before_anything_is_cut() {
        let all = settings(10, 1024, &[r"(?i)(token|password)[=:]\S+", "sk-[a-z0-9]{8,}"]);
        assert_eq!(
            excerpt(b"start\nPassword=hunter2 TOKEN:abc x\nkey sk-12345678 end\n", &all),
            "start\n[redacted] [redacted] x\nkey [redacted] end"
        );
        // the bytes that are left end within the secret, the line is longer than what is kept
        let small = settings(10, 12, &["secret-[a-z]+"]);
        let kept = excerpt(b"secret-abcdefghijkl\nlast", &small);
        assert!(!kept.contains("secret"), "{kept}");
        let long = format!("{}secret-abc", "x".repeat(LINE_CHARS_MAX - 4));
        assert!(
            !excerpt(long.as_bytes(), &settings(1, 65_536, &["secret-[a-z]+"])).contains("secr")
        );
        // what is put in is text, never a reference to a group
        assert_eq!(excerpt(b"a$1b", &settings(1, 100, &["(\\$1)"])), "a[redacted]b");
        let mut cut = vec![b'\n'; READ_BYTES_MAX];
        cut[READ_BYTES_MAX - 4..].copy_from_slice(b"secr");
        assert!(!excerpt(&cut, &settings(5, 100, &["secret"])).contains("secr"));
    }

    #[test]
    fn a_pattern_that_does_not_compile_lets_nothing_through() {
        let broken = FailureLogs { redact: vec![Pattern::unchecked("(")], ..settings(5, 100, &[]) };
        assert_eq!(excerpt(b"a secret\n\nb", &broken), "[redacted]\n\n[redacted]");
    }

    fn status(pods: &[&str]) -> AppWrapperStatus {
        let attempts = (0..).zip(pods).map(|(attempt, uid)| {
            let failure = FailureRecord {
                pod: Some("p".into()),
                pod_uid: (!uid.is_empty()).then(|| (*uid).to_owned()),
                container: Some("main".into()),
                ..FailureRecord::default()
            };
            Attempt { attempt, failure: Some(failure), ..Attempt::default() }
        });
        AppWrapperStatus { attempts: attempts.collect(), ..AppWrapperStatus::default() }
    }

    fn pod(uid: &str) -> Pod {
        let container =
            |name: &str, init| Container { name: name.into(), init, ..Container::default() };
        Pod {
            name: "p".into(),
            uid: uid.into(),
            node: Some("node-1".into()),
            containers: vec![
                container("setup", true),
                container("side", false),
                container("main", false),
            ],
            ..Pod::default()
        }
    }

    #[test]
    fn the_log_of_a_failure_that_is_new_and_ours_is_wanted() {
        let snapshot = |pods: Vec<Pod>| Snapshot { pods, ..Snapshot::default() };
        let of = |old: &[&str], new: &[&str], pods: Vec<Pod>| {
            wanted(&status(old), &status(new), &snapshot(pods))
        };
        let want =
            Wanted { attempt: 1, pod: "p".into(), pod_uid: "b".into(), container: "main".into() };
        assert_eq!(of(&["a"], &["a", "b"], vec![pod("a"), pod("b")]), Some(want.clone()));
        assert_eq!(of(&["a", "b"], &["a", "b"], vec![pod("b")]), None, "it was recorded before");
        assert_eq!(of(&["a"], &["a", "b"], vec![pod("a")]), None, "no pod of ours has this UID");
        assert_eq!(of(&["a"], &["a", ""], vec![pod("a")]), None, "no pod failed");
        let unbound = Pod { node: None, ..pod("b") };
        assert_eq!(of(&["a"], &["a", "b"], vec![unbound]), None, "it never ran");
        let other = Pod { containers: pod("b").containers[..2].to_vec(), ..pod("b") };
        let side = Wanted { container: "side".into(), ..want };
        assert_eq!(of(&["a"], &["a", "b"], vec![other]), Some(side));
        let bare = Pod { containers: vec![], ..pod("b") };
        assert_eq!(of(&["a"], &["a", "b"], vec![bare]), None);
    }

    #[test]
    fn the_logs_of_the_last_failures_are_kept() {
        let gone = |old: &[&str], new: &[&str]| expired(&status(old), &status(new));
        let all = ["a", "b", "c", "d", "e", "f", "g"];
        assert_eq!(gone(&all[..4], &all[..5]), [""; 0]);
        assert_eq!(gone(&all[..5], &all[..6]), ["appwrapper-log-a"]);
        assert_eq!(gone(&all[..6], &all), ["appwrapper-log-b"]);
        assert_eq!(gone(&all, &all), [""; 0], "no failure is new");
        assert_eq!(gone(&all[..5], &all), ["appwrapper-log-a", "appwrapper-log-b"]);
        assert_eq!(gone(&all[..6], &all[1..]), ["appwrapper-log-b"], "an entry was given up");
        assert_eq!(gone(&["a"], &["b"]), ["appwrapper-log-a"], "another pod failed first");
        // whoever may write the status names nothing but such a ConfigMap
        let forged = ["../../secrets/x", "b", "c", "d", "e", "f"];
        assert_eq!(gone(&forged[..5], &forged), [""; 0]);
        assert_eq!(config_map("A b"), None);
    }

    #[test]
    fn as_many_logs_stay_whether_or_not_each_failure_has_one() {
        type HasLog = fn(usize) -> bool;
        let pods: Vec<String> = (0..20).map(|failure| format!("p{failure}")).collect();
        let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
        let cases: [(&str, HasLog); 4] = [
            ("each has one", |_| true),
            ("every second has one", |failure| failure % 2 == 0),
            ("those without one come last", |failure| failure < 7),
            ("those without one come first", |failure| failure >= 7),
        ];
        for (what, has_log) in cases {
            let mut kept: Vec<String> = vec![];
            for (failure, pod) in pods.iter().enumerate() {
                if has_log(failure) {
                    kept.extend(config_map(pod));
                }
                let gone = expired(&status(&pods[..failure]), &status(&pods[..=failure]));
                kept.retain(|name| !gone.contains(name));
                let last = failure.saturating_sub(KEPT_MAX - 1)..=failure;
                let want = last.filter(|failure| has_log(*failure)).count();
                assert_eq!(kept.len(), want, "{what}, after failure {failure}");
            }
        }
    }
}
