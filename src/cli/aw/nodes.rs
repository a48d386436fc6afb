//! `appwrapper nodes`: the nodes on which failures of AppWrappers began, and which of them are suspect.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::core::ApiResource;
use serde::Serialize;

use super::super::cluster::{unlisted, unread};
use super::super::configuration::ControllerConfig;
use super::super::place::Place;
use super::super::term::{self, Page, Row, table};
use super::super::{ClusterArgs, Error, Output};
use super::words::{self, GAP, NOTHING};
use super::{block_on, now, tell};
use crate::api::{NodeSuspicion, SuspicionEvidence};
use crate::config::{Config, NodeSuspicion as Settings, SuspicionEffect};
use crate::observe::live;
use crate::observe::nodes::{self, Marks};
use crate::observe::raw_object::RawObject;
use crate::observe::suspicions::Stored;
use crate::snapshot::place::Site;
use crate::suspicion::{Known, reaching, score, suspects_max};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Controller configuration file; defaults to the one in ConfigMap
    /// appwrapper-system/appwrapper-config
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The nodes, most points first.
#[derive(Debug, Serialize)]
struct Listed {
    /// A node with at least this many points is suspect.
    threshold: i32,
    items: Vec<Item>,
    notes: Vec<String>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    node: String,
    /// Points now.
    score: i32,
    suspect: bool,
    /// How new attempts avoid it.
    effect: Effect,
    /// When the last evidence expires.
    expires_at: Option<Timestamp>,
    evidence: Vec<SuspicionEvidence>,
}

/// How new attempts avoid a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Effect {
    /// Not at all.
    None,
    /// Their pods prefer other nodes.
    Prefer,
    /// Their pods require other nodes, as long as those have room.
    Require,
}

pub(in crate::cli) fn run(args: &Args) -> Result<ExitCode, Error> {
    let (stored, sites, known) = block_on(async {
        let Place { client, .. } = Place::of(&args.cluster, None).await?;
        let known = ControllerConfig::of(args.config.as_deref(), &client).await?;
        let params = ListParams::default();
        let resource = ApiResource::erase::<NodeSuspicion>(&());
        let stored = live::list(&client, &resource, None, &params).await;
        let stored = stored.map_err(|error| unlisted(&error))?;
        let resource = ApiResource::erase::<Node>(&());
        let sites = live::list(&client, &resource, None, &params).await;
        Ok((stored, sites.map_err(|error| unread(&error)), known))
    })?;
    let ControllerConfig { config, doubt } = known;
    let sites = sites.map(|all| all.iter().map(site).collect::<Vec<_>>());
    let listed = listed(&stored, sites, &config, doubt, now());
    if listed.items.is_empty() && args.output == Output::Text {
        term::remark("no failures of AppWrappers are recorded for any node");
        return Ok(super::DONE);
    }
    tell(args.output, &listed, || text(&listed, now(), term::has_colour()))
}

fn site(seen: &RawObject) -> Arc<Site> {
    Arc::new(nodes::node(seen, &Marks::default()).1)
}

/// What is said of the nodes. Who may not see Nodes does not learn which are suspect: that depends on how many there are.
fn listed(
    stored: &[RawObject],
    sites: Result<Vec<Arc<Site>>, String>,
    config: &Config,
    doubt: Option<String>,
    now: Timestamp,
) -> Listed {
    let settings = &config.node_suspicion;
    let stored: BTreeMap<String, Stored> = stored
        .iter()
        .map(|seen| (seen.meta.name.clone().unwrap_or_default(), Stored::of(seen)))
        .collect();
    let mut notes: Vec<String> = doubt.into_iter().collect();
    let sites = sites.unwrap_or_else(|why| {
        notes.push(format!("cannot tell which nodes are suspect: cannot list nodes: {why}"));
        vec![]
    });
    let uids: BTreeMap<&str, &str> =
        sites.iter().map(|site| (site.name.as_str(), site.uid.as_str())).collect();
    let known = stored.iter().filter_map(|(node, stored)| {
        Some(Known { node, uid: uids.get(node.as_str())?, record: &stored.record })
    });
    let mut suspects = reaching(known, now, settings);
    let most = suspects_max(sites.len());
    notes.extend(too_many(suspects.len().saturating_sub(most), sites.len()));
    suspects.truncate(most);
    let item = |(node, stored): (&String, &Stored)| {
        let suspect = suspects.iter().any(|one| one.node == *node);
        Item {
            node: node.clone(),
            score: score(&stored.record, now, settings),
            suspect,
            effect: effect(suspect, settings, config.autopilot.monitor_nodes),
            expires_at: stored.record.expires_at(settings.half_life),
            evidence: stored.record.evidence().to_vec(),
        }
    };
    let mut items: Vec<Item> = stored.iter().map(item).collect();
    items.sort_by(|a, b| (b.score, &a.node).cmp(&(a.score, &b.node)));
    Listed { threshold: settings.threshold, items, notes }
}

/// That more nodes reach the threshold than may be suspect, where there are more.
fn too_many(over: usize, nodes: usize) -> Option<String> {
    let more = match over {
        0 => return None,
        1 => "1 more node reaches".to_owned(),
        over => format!("{over} more nodes reach"),
    };
    let most = suspects_max(nodes);
    Some(format!("{more} the threshold; of {nodes} nodes, at most {most} can be suspect"))
}

const fn effect(suspect: bool, settings: &Settings, monitor_nodes: bool) -> Effect {
    match settings.effect {
        _ if !suspect || !monitor_nodes => Effect::None,
        SuspicionEffect::Off => Effect::None,
        SuspicionEffect::Prefer => Effect::Prefer,
        SuspicionEffect::Require => Effect::Require,
    }
}

const TITLES: [&str; 6] = ["NODE", "SCORE", "EVIDENCE", "LAST", "EXPIRES", "EFFECT"];

fn text(listed: &Listed, now: Timestamp, colours: bool) -> Page {
    let row = |item: &Item| -> Row {
        let standing = item.evidence.iter().filter(|one| !one.withdrawn);
        let last = standing.map(|one| one.time.0).max();
        let expires = item.expires_at.map(|at| at.as_second().saturating_sub(now.as_second()));
        let effect = match item.effect {
            Effect::None => NOTHING,
            Effect::Prefer => "Prefer",
            Effect::Require => "Require",
        };
        let cells = vec![
            item.node.clone(),
            format!("{} of {}", item.score, listed.threshold),
            evidence(&item.evidence),
            last.map_or_else(
                || NOTHING.to_owned(),
                |last| format!("{} ago", words::age(Some(last), now)),
            ),
            expires.map_or_else(|| NOTHING.to_owned(), |left| words::rounded(left.max(0))),
            effect.to_owned(),
        ];
        (cells, item.suspect.then_some(term::Colour::Yellow))
    };
    let rows: Vec<Row> = listed.items.iter().map(row).collect();
    let mut page = table((&TITLES, None), &rows, GAP, colours);
    for note in &listed.notes {
        page.line(&format!("note: {note}"));
    }
    page
}

/// How much evidence of each kind there is, such as `2 NodeLost, 1 Container (1 withdrawn)`.
fn evidence(all: &[SuspicionEvidence]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in all.iter().filter(|one| !one.withdrawn) {
        *counts.entry(one.kind.as_str()).or_default() += 1;
    }
    let counted: Vec<String> =
        counts.iter().rev().map(|(kind, count)| format!("{count} {kind}")).collect();
    let counted = if counted.is_empty() { NOTHING.to_owned() } else { counted.join(", ") };
    match all.iter().filter(|one| one.withdrawn).count() {
        0 => counted,
        withdrawn => format!("{counted} ({withdrawn} withdrawn)"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn object(name: &str, evidence: &[Value]) -> RawObject {
        let object = json!({"metadata": {"name": name, "uid": "s", "resourceVersion": "1"},
            "spec": {"nodeUID": "u", "score": 0, "evidence": evidence}});
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn seen(kind: &str, uid: &str, namespace: &str, second: i64) -> Value {
        json!({"kind": kind, "namespace": namespace, "name": "aw", "uid": uid, "time": at(second)})
    }

    fn given(sites: Result<Vec<Arc<Site>>, String>, config: &Config) -> Listed {
        let mut withdrawn = seen("Container", "d", "n", 30);
        withdrawn["withdrawn"] = true.into();
        let of_lost = |uid: &str, second: i64| seen("NodeLost", uid, "m", second);
        let lost = [of_lost("a", 0), of_lost("b", 3600), of_lost("e", 5400), withdrawn];
        let objects =
            [object("node-0", &[seen("Container", "c", "n", 0)]), object("node-1", &lost)];
        listed(&objects, sites, config, None, at(7200))
    }

    fn two() -> Vec<Arc<Site>> {
        let site = |name: &str| Site { name: name.into(), uid: "u".into(), ..Site::default() };
        vec![Arc::new(site("node-0")), Arc::new(site("node-1"))]
    }

    #[test]
    fn a_row_has_points_evidence_and_effect() {
        insta::assert_snapshot!(text(&given(Ok(two()), &Config::default()), at(7200), false).to_string(), @r"
        NODE     SCORE        EVIDENCE                   LAST       EXPIRES   EFFECT
        node-1   149 of 100   3 NodeLost (1 withdrawn)   30m ago    34d       Prefer
        node-0   19 of 100    1 Container                120m ago   34d       -
        ");
    }

    #[test]
    fn nodes_beyond_the_limit_are_counted_in_a_note() {
        let of_lost = |uid: &str, second: i64| seen("NodeLost", uid, "m", second);
        let lost = [of_lost("a", 0), of_lost("b", 3600), of_lost("e", 5400)];
        let objects = [object("node-0", &lost), object("node-1", &lost)];
        let listed = listed(&objects, Ok(two()), &Config::default(), None, at(7200));
        let suspects: Vec<bool> = listed.items.iter().map(|item| item.suspect).collect();
        assert_eq!(suspects, [true, false]);
        let want = "1 more node reaches the threshold; of 2 nodes, at most 1 can be suspect";
        assert_eq!(listed.notes, [want]);
        let want = "2 more nodes reach the threshold; of 40 nodes, at most 2 can be suspect";
        assert_eq!(too_many(2, 40).as_deref(), Some(want));
        assert_eq!(too_many(0, 40), None);
    }

    #[test]
    fn evidence_that_was_withdrawn_is_not_the_last() {
        let mut withdrawn = seen("Container", "d", "n", 7000);
        withdrawn["withdrawn"] = true.into();
        let objects = [object("node-0", &[seen("NodeLost", "a", "m", 0), withdrawn])];
        let listed = listed(&objects, Ok(two()), &Config::default(), None, at(7200));
        let page = text(&listed, at(7200), false).to_string();
        assert!(page.contains("1 NodeLost (1 withdrawn)   120m ago"), "{page}");
    }

    #[test]
    fn what_is_not_known_is_said() {
        let hidden = given(Err("forbidden".to_owned()), &Config::default());
        assert!(hidden.items.iter().all(|item| !item.suspect));
        assert!(hidden.notes[0].contains("cannot list nodes: forbidden"), "{:?}", hidden.notes);
        let mut config = Config::default();
        config.node_suspicion.effect = SuspicionEffect::Off;
        let off = given(Ok(two()), &config);
        assert!(off.items[0].suspect && off.items[0].effect == Effect::None);
    }
}
