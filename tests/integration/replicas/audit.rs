//! Who wrote what, as the API server says.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// Verbs that change nothing.
pub const READS: [&str; 3] = ["get", "list", "watch"];

/// All requests of replicas so far.
pub struct Audit(Vec<Request>);

/// One request that was answered.
#[derive(Clone, Debug)]
struct Request {
    from: String,
    verb: String,
    resource: String,
    name: String,
    code: u64,
    received: Timestamp,
}

impl Audit {
    /// Reads the log.
    pub fn of(path: Option<&Path>) -> Self {
        let file = File::open(path.expect("there is an audit log")).expect("it can be read");
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        // most is of others, and long
        let ours = lines.filter(|line| line.contains("\"sourceIPs\":[\"127.77."));
        Self(ours.filter_map(|line| request(&line)).collect())
    }

    /// The requests of a replica: verb, resource, and the code of the response.
    pub fn calls(&self, from: &str) -> Vec<(&str, &str, u64)> {
        let own = self.0.iter().filter(|request| request.from == from);
        own.map(|it| (it.verb.as_str(), it.resource.as_str(), it.code)).collect()
    }

    /// What a leader of the past has changed since the new one first wrote the Lease.
    pub fn late(&self, old: &str, new: &str) -> Vec<String> {
        let mut of_new = self.0.iter().filter(|it| it.from == new && it.resource == "leases");
        let taken = of_new.find(|it| it.is_write()).expect("the new leader wrote the Lease");
        let mut of_old = self.0.iter().filter(|it| it.from == old && it.is_write()).peekable();
        assert!(of_old.peek().is_some(), "the requests of {old} are told by its address");
        of_old.filter(|it| it.received >= taken.received).map(Request::tell).collect()
    }
}

impl Request {
    fn tell(&self) -> String {
        let Self { from, verb, resource, name, code, received } = self;
        format!("{received} {from} {verb} {resource}/{name} {code}")
    }

    fn is_write(&self) -> bool {
        self.code < 300 && !READS.contains(&self.verb.as_str())
    }
}

fn request(line: &str) -> Option<Request> {
    let line: Value = serde_json::from_str(line).ok()?;
    let text = |pointer: &str| {
        line.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    Some(Request {
        from: text("/sourceIPs/0"),
        verb: text("/verb"),
        resource: text("/objectRef/resource"),
        name: text("/objectRef/name"),
        code: line["responseStatus"]["code"].as_u64()?,
        received: text("/requestReceivedTimestamp").parse().ok()?,
    })
}
