//! Requests by verb and resource, from the audit log of the API server.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use crate::failure::Failure;

/// Numbers of requests by verb and resource, as in `patch appwrappers/status`.
#[derive(Clone, Debug, Default)]
pub struct Calls(BTreeMap<String, u32>);

/// Requests of a period.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Those of the controller.
    pub own: Calls,
    /// Those of everybody, this example included.
    pub all: Calls,
}

/// One line of the log.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    stage: String,
    verb: String,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: Target,
    request_received_timestamp: Timestamp,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Target {
    resource: String,
    subresource: String,
}

impl Calls {
    /// All of them together.
    pub fn total(&self) -> u32 {
        self.0.values().sum()
    }

    /// The most frequent ones, with their numbers.
    pub fn most(&self, count: usize) -> Vec<(String, u32)> {
        let mut all: Vec<_> = self.0.iter().map(|(what, times)| (what.clone(), *times)).collect();
        all.sort_by(|(a, many), (b, more)| more.cmp(many).then(a.cmp(b)));
        all.truncate(count);
        all
    }

    fn count(&mut self, line: &Line) {
        let Target { resource, subresource } = &line.object_ref;
        let resource = if resource.is_empty() { "?" } else { resource };
        let mut what = format!("{} {resource}", line.verb);
        if !subresource.is_empty() {
            what += &format!("/{subresource}");
        }
        *self.0.entry(what).or_default() += 1;
    }
}

/// Counts what was received in a period, the ends included. What `agent` begins the user agent of is the
/// controller's. The log is a file and those that it was continued from, when it became large.
pub fn count(log: &Path, agent: &str, from: Timestamp, to: Timestamp) -> Result<Counted, Failure> {
    let mut counted = Counted::default();
    let dir = log.parent().unwrap_or(log);
    for entry in fs::read_dir(dir).map_err(Failure::io("read", dir))? {
        let path = entry.map_err(Failure::io("read", dir))?.path();
        let part =
            |part: Option<&OsStr>| part.and_then(OsStr::to_str).unwrap_or_default().to_owned();
        if !part(path.file_stem()).starts_with("audit") || part(path.extension()) != "log" {
            continue;
        }
        let file = File::open(&path).map_err(Failure::io("read", &path))?;
        for line in BufReader::new(file).lines() {
            let line = line.map_err(Failure::io("read", &path))?;
            // the last line may not be whole yet; its request is over a second after the period
            if let Ok(line) = serde_json::from_str(&line) {
                counted.take(&line, agent, from, to);
            }
        }
    }
    Ok(counted)
}

impl Counted {
    fn take(&mut self, line: &Line, agent: &str, from: Timestamp, to: Timestamp) {
        // a watch is counted when it begins, everything else when it is answered
        let stage = if line.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
        let received = line.request_received_timestamp;
        if line.stage != stage || received < from || received > to {
            return;
        }
        self.all.count(line);
        if !agent.is_empty() && line.user_agent.starts_with(agent) {
            self.own.count(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"
{"stage":"ResponseComplete","verb":"create","userAgent":"appwrapper/0.1.0","objectRef":{"resource":"pods"},"requestReceivedTimestamp":"2026-01-01T00:00:01.500000Z"}
{"stage":"ResponseComplete","verb":"patch","userAgent":"appwrapper/0.1.0","objectRef":{"resource":"appwrappers","subresource":"status"},"requestReceivedTimestamp":"2026-01-01T00:00:01.600000Z"}
{"stage":"ResponseComplete","verb":"patch","userAgent":"kwok/0.7","objectRef":{"resource":"pods","subresource":"status"},"requestReceivedTimestamp":"2026-01-01T00:00:01.700000Z"}
{"stage":"ResponseStarted","verb":"watch","userAgent":"appwrapper/0.1.0","objectRef":{"resource":"pods"},"requestReceivedTimestamp":"2026-01-01T00:00:01.800000Z"}
{"stage":"ResponseComplete","verb":"watch","userAgent":"appwrapper/0.1.0","objectRef":{"resource":"pods"},"requestReceivedTimestamp":"2026-01-01T00:00:01.800000Z"}
{"stage":"ResponseComplete","verb":"get","requestURI":"/version","requestReceivedTimestamp":"2026-01-01T00:00:01.900000Z"}
{"stage":"ResponseComplete","verb":"create","userAgent":"appwrapper/0.1.0","objectRef":{"resource":"pods"},"requestReceivedTimestamp":"2026-01-01T00:00:09.000000Z"}"#;

    fn counted(agent: &str) -> Counted {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let (from, to) = (time("2026-01-01T00:00:01Z"), time("2026-01-01T00:00:02Z"));
        let mut counted = Counted::default();
        for line in LINES.trim().lines() {
            counted.take(&serde_json::from_str(line).unwrap(), agent, from, to);
        }
        counted
    }

    #[test]
    fn each_request_of_the_period_is_counted_once() {
        let counted = counted("appwrapper/");
        assert_eq!((counted.own.total(), counted.all.total()), (3, 5));
        let own = ["create pods", "patch appwrappers/status", "watch pods"];
        assert_eq!(counted.own.most(9), own.map(|what| (what.to_owned(), 1)));
        assert_eq!(counted.all.most(1).len(), 1);
    }

    #[test]
    fn without_a_controller_none_is_its() {
        assert_eq!(counted("").own.total(), 0);
    }
}
