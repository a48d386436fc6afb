//! What must hold at every moment of a history, whatever the controller says of itself.
//!
//! One thing is not the controller's: Kueue 0.18 decides about an AppWrapper as its cache shows it. Where
//! it evicts one within milliseconds of having started it, the cache may still show it suspended and
//! without quota; then Kueue releases the quota without having stopped anything, and stops it a moment
//! later. That is told from everything else by the store alone: Kueue takes quota back only from what it
//! finds suspended and without quota, and at the write that takes it, the AppWrapper is not suspended, or
//! says that it has quota. Such a [theft](Figures::thefts) is counted; until that AppWrapper is suspended
//! and says that it has no quota, its pods are not held against it. All other laws hold for it as ever.

use std::collections::{BTreeMap, BTreeSet};

use super::observer::{Change, Kind};

const ATTEMPT: &str = "workload.codeflare.dev/attempt";

/// What there was to judge.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// How many writes there were, after each of which everything was judged.
    pub moments: usize,
    /// How many pods there have been.
    pub pods: usize,
    /// How many pods were alive at once, at most.
    pub at_once: usize,
    /// How often Kueue let an AppWrapper in.
    pub admissions: usize,
    /// How often it took the quota back from one that had not ended.
    pub evictions: usize,
    /// How often Kueue took it back from one that had it, by a stale cache of its own.
    pub thefts: usize,
    /// How many pods Kueue counted at once, at most.
    pub counted: usize,
    /// How many restarts were counted.
    pub restarts: i64,
}

#[derive(Debug)]
struct Pod {
    name: String,
    alive: bool,
    attempt: String,
}

/// Everything of one AppWrapper.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is said by itself")]
struct Wrapper {
    name: String,
    exists: bool,
    says_quota: bool,
    says_deployed: bool,
    suspended: bool,
    /// Kueue has taken its quota back by mistake.
    robbed: bool,
    restarts: i64,
    /// By UID: so many pods of it Kueue counts, or none.
    workloads: BTreeMap<String, usize>,
    pods: BTreeMap<String, Pod>,
    jobs: BTreeSet<String>,
}

impl Wrapper {
    fn alive(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().filter(|pod| pod.alive)
    }

    /// Whether Kueue would take no quota from it, if it saw it as it is.
    fn has_started(&self) -> bool {
        self.exists && (self.says_quota || !self.suspended)
    }

    fn reserved(&self) -> usize {
        self.workloads.values().sum()
    }

    /// The first law that does not hold.
    fn wrong(&self) -> Option<String> {
        let alive = self.alive().count();
        let attempts: BTreeSet<&str> = self.alive().map(|pod| pod.attempt.as_str()).collect();
        let left = self.pods.len() + self.jobs.len();
        let law = if alive > self.reserved() && !self.robbed {
            format!("S4: {alive} pods live, Kueue counts {}", self.reserved())
        } else if alive > 0 && !self.says_quota {
            "S2: pods live, and it says that it has no quota".to_owned()
        } else if left > 0 && !self.says_deployed {
            "S1: something is there, and it says that nothing is deployed".to_owned()
        } else if left > 0 && !self.exists {
            "S11: something is there, and its AppWrapper is gone".to_owned()
        } else if attempts.len() > 1 {
            format!("S5: pods of the attempts {attempts:?} live beside each other")
        } else {
            return None;
        };
        let pods: Vec<&str> = self.pods.values().map(|pod| pod.name.as_str()).collect();
        Some(format!("{}: {law}; pods {pods:?}, jobs {:?}", self.name, self.jobs))
    }
}

/// The world at one moment.
#[derive(Default)]
struct World {
    wrappers: BTreeMap<String, Wrapper>,
    /// Whose each Job was, also of those that are gone.
    owners: BTreeMap<String, String>,
    figures: Figures,
}

/// Goes through a history and judges each moment of it.
///
/// # Errors
/// The first moment at which a law does not hold.
pub fn judge(history: &[Change], quota: usize) -> Result<Figures, String> {
    let mut world = World::default();
    for (index, change) in history.iter().enumerate() {
        let said =
            world.apply(change).and_then(|whose| world.wrong(&whose, quota).map_or(Ok(()), Err));
        said.map_err(|wrong| {
            let before = &history[index.saturating_sub(25)..=index];
            let lines: Vec<String> = before.iter().map(told).collect();
            format!("{wrong}\nafter\n{}", lines.join("\n"))
        })?;
        world.figures.moments += 1;
    }
    Ok(world.figures)
}

/// A change in a line.
fn told(change: &Change) -> String {
    let Change { revision, kind, deleted, .. } = change;
    let gone = if *deleted { " deleted" } else { "" };
    let conditions = ["QuotaReserved", "ResourcesDeployed", "Evicted", "Finished"];
    let conditions = conditions.map(|it| format!("{it}={}", change.condition(it))).join(" ");
    let suspend = &change.object["spec"]["suspend"];
    format!(
        "{revision} {kind:?}/{}{gone} {} {conditions} suspend={suspend}",
        change.name(),
        change.phase()
    )
}

impl World {
    /// Whose change it is.
    fn apply(&mut self, change: &Change) -> Result<String, String> {
        let uid = change.uid().to_owned();
        let owner = change.owner().to_owned();
        match change.kind {
            Kind::AppWrapper => {
                self.apply_wrapper(change)?;
                return Ok(uid);
            }
            Kind::Workload => {
                let wrapper = self.wrappers.entry(owner.clone()).or_default();
                let before = wrapper.workloads.get(&uid).copied().unwrap_or(0);
                let now = counted(change);
                wrapper.workloads.insert(uid, now);
                let taken = before > 0 && now == 0 && !change.deleted;
                let taken = taken && change.condition("Finished") != "True";
                let robbed = taken && wrapper.has_started();
                wrapper.robbed |= robbed;
                self.figures.thefts += usize::from(robbed);
                self.figures.admissions += usize::from(before == 0 && now > 0);
                self.figures.evictions += usize::from(taken);
                return Ok(owner);
            }
            Kind::Job => {
                self.owners.insert(uid.clone(), owner.clone());
                let jobs = &mut self.wrappers.entry(owner.clone()).or_default().jobs;
                if change.deleted {
                    jobs.remove(&uid)
                } else {
                    jobs.insert(uid)
                };
                return Ok(owner);
            }
            Kind::Pod => {}
        }
        let owner = self.owners.get(&owner).cloned().unwrap_or(owner);
        let pods = &mut self.wrappers.entry(owner.clone()).or_default().pods;
        if change.deleted {
            pods.remove(&uid);
        } else {
            let name = change.name().to_owned();
            let alive = !["Succeeded", "Failed"].contains(&change.phase());
            let pod = Pod { name, alive, attempt: change.label(ATTEMPT).to_owned() };
            self.figures.pods += usize::from(pods.insert(uid, pod).is_none());
        }
        Ok(owner)
    }

    fn apply_wrapper(&mut self, change: &Change) -> Result<(), String> {
        let wrapper = self.wrappers.entry(change.uid().to_owned()).or_default();
        change.name().clone_into(&mut wrapper.name);
        wrapper.exists = !change.deleted;
        let says_quota = change.condition("QuotaReserved") == "True";
        wrapper.suspended = change.object["spec"]["suspend"] == true;
        if says_quota && !wrapper.says_quota && wrapper.suspended {
            return Err(format!("S3: {} takes quota while it is suspended", wrapper.name));
        }
        wrapper.says_quota = says_quota;
        wrapper.robbed &= wrapper.has_started();
        wrapper.says_deployed = change.condition("ResourcesDeployed") == "True";
        let restarts = change.object["status"]["resettingCount"].as_i64().unwrap_or(0);
        let limit = change.object["metadata"]["annotations"][LIMIT].as_str();
        let limit = limit.and_then(|limit| limit.parse().ok()).unwrap_or(3);
        if restarts < wrapper.restarts || restarts > limit {
            let before = wrapper.restarts;
            return Err(format!(
                "S6: {}: {before}, then {restarts} of {limit} restarts",
                wrapper.name
            ));
        }
        self.figures.restarts += restarts - wrapper.restarts;
        wrapper.restarts = restarts;
        Ok(())
    }

    /// What is wrong after a change of one AppWrapper, which can break no other's laws but the sums.
    fn wrong(&mut self, whose: &str, quota: usize) -> Option<String> {
        let lawful = self.wrappers.values().filter(|it| !it.robbed);
        let alive: usize = lawful.map(|it| it.alive().count()).sum();
        let reserved: usize = self.wrappers.values().map(Wrapper::reserved).sum();
        self.figures.at_once = self.figures.at_once.max(alive);
        self.figures.counted = self.figures.counted.max(reserved);
        if alive > quota || reserved > quota {
            return Some(format!("S4: {alive} pods live, {reserved} are counted, {quota} fit"));
        }
        self.wrappers.get(whose).and_then(Wrapper::wrong)
    }
}

/// The annotation of the most restarts.
const LIMIT: &str = "workload.codeflare.dev.appwrapper/retryLimit";

/// How many pods of a Workload Kueue counts.
fn counted(workload: &Change) -> usize {
    let reserved = workload.condition("QuotaReserved") == "True"
        && workload.condition("Finished") != "True"
        && !workload.deleted;
    let sets = workload.object["status"]["admission"]["podSetAssignments"].as_array();
    let counts = sets.into_iter().flatten().filter_map(|set| set["count"].as_u64());
    if reserved {
        counts.map(|count| usize::try_from(count).unwrap_or(usize::MAX)).sum()
    } else {
        0
    }
}
