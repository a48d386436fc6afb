//! Retry sources: the objects that say how failures are retried, beside the AppWrapper itself. Retry policies,
//! and the queues that they are attached to.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::assemble::Wrapper;
use super::cache::{Cache, Key, KindKey, Sync};
use super::nodes::aversions;
use super::raw_object::RawObject;
use crate::api::{GROUP, Phase, keys};
use crate::config::Autopilot;
use crate::kinds;
use crate::policies::{
    AppliedRetryPolicies, DefaultPolicy, RetryPolicy, UnusablePolicy, administered, attached,
    surplus,
};
use crate::snapshot::{Pod, PodPhase, Snapshot};

/// What is kept of a retry source.
#[derive(Clone, Debug, PartialEq)]
pub enum RetrySource {
    /// A `RetryPolicy`, or why it cannot be read.
    Policy(Result<Arc<RetryPolicy>, String>),
    /// A `LocalQueue`.
    LocalQueue {
        /// The `ClusterQueue` that it leads to.
        cluster_queue: String,
        /// Names of the retry policies that are attached to it.
        policies: Option<String>,
    },
    /// A `ClusterQueue`.
    ClusterQueue {
        /// Names of the retry policies that are attached to it.
        policies: Option<String>,
    },
}

/// Retry policies that are attached elsewhere than to a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attach {
    /// The AppWrapper's own.
    pub own: Vec<String>,
    /// The one that holds where there is no other, or before the AppWrapper's own where it overrides.
    pub default: Option<String>,
}

/// The kinds of retry sources. Their version is whichever is served.
const KINDS: [(&str, &str); 3] = [
    (GROUP, "RetryPolicy"),
    (keys::KUEUE_GROUP, "LocalQueue"),
    (keys::KUEUE_GROUP, "ClusterQueue"),
];

fn key(group: &str, kind: &str) -> KindKey {
    KindKey { api_version: format!("{group}/*"), kind: kind.to_owned() }
}

/// The retry policies.
#[must_use]
pub fn retry_policies() -> &'static KindKey {
    static KIND: LazyLock<KindKey> = LazyLock::new(|| key(GROUP, "RetryPolicy"));
    &KIND
}

/// Kueue's local queues.
#[must_use]
pub fn local_queues() -> &'static KindKey {
    static KIND: LazyLock<KindKey> = LazyLock::new(|| key(keys::KUEUE_GROUP, "LocalQueue"));
    &KIND
}

/// Kueue's cluster queues.
#[must_use]
pub fn cluster_queues() -> &'static KindKey {
    static KIND: LazyLock<KindKey> = LazyLock::new(|| key(keys::KUEUE_GROUP, "ClusterQueue"));
    &KIND
}

/// The kind of retry source that a group and a kind name.
#[must_use]
pub fn kind_of(group: &str, kind: &str) -> Option<KindKey> {
    KINDS.contains(&(group, kind)).then(|| key(group, kind))
}

/// Whether a kind is one of retry sources, and not one that is wrapped.
#[must_use]
pub fn is_retry_source(kind: &KindKey) -> bool {
    let group = kind.api_version.strip_suffix("/*");
    group.is_some_and(|group| KINDS.contains(&(group, kind.kind.as_str())))
}

/// The kinds, with their versions, as which retry sources may be served; the best first.
#[must_use]
pub fn served_as(kind: &KindKey) -> Vec<KindKey> {
    let group = kind.api_version.trim_end_matches("/*");
    let versions: &[&str] = if group == GROUP { &["v1alpha1"] } else { &["v1beta2", "v1beta1"] };
    let of = |version: &&str| KindKey {
        api_version: format!("{group}/{version}"),
        kind: kind.kind.clone(),
    };
    versions.iter().map(of).collect()
}

/// The kinds of retry sources that may have a say in an AppWrapper's retries: none where it names neither a
/// policy nor a queue, and there is no default.
#[must_use]
pub fn used_by(wrapper: &Wrapper, default: Option<&str>) -> Vec<&'static KindKey> {
    let names_policies = wrapper.annotations.contains_key(keys::RETRY_POLICIES);
    used(names_policies || default.is_some(), wrapper.queue.is_some())
}

/// The same, of an AppWrapper that names policies, or has a queue.
#[must_use]
pub fn used(names_policies: bool, has_queue: bool) -> Vec<&'static KindKey> {
    let mut kinds = vec![];
    if names_policies || has_queue {
        kinds.push(retry_policies());
    }
    if has_queue {
        kinds.extend([local_queues(), cluster_queues()]);
    }
    kinds
}

/// Whether every retry source that may have a say in an AppWrapper's retries has been listed once.
#[must_use]
pub fn are_listed(cache: &Cache, wrapper: &Wrapper, default: Option<&str>) -> bool {
    let mut kinds = used_by(wrapper, default).into_iter();
    kinds.all(|kind| cache.sync(kind) != Sync::Starting)
}

/// Whether an AppWrapper that names this LocalQueue may depend on a retry source: on a RetryPolicy in any case, on
/// a LocalQueue where it names that, and on a ClusterQueue where its LocalQueue leads to that, as far as is known.
#[must_use]
pub fn may_use(
    cache: &Cache,
    wrapper: &Key,
    queue: Option<&str>,
    (kind, at): (&KindKey, &Key),
) -> bool {
    if kind == retry_policies() {
        return true;
    }
    let Some(name) = queue.map(str::to_owned) else { return false };
    let own = Key { namespace: wrapper.namespace.clone(), name };
    if kind == local_queues() {
        return own == *at;
    }
    match cache.retry_source(local_queues(), &own) {
        Some(RetrySource::LocalQueue { cluster_queue, .. }) => cluster_queue == at.name,
        Some(RetrySource::Policy(_) | RetrySource::ClusterQueue { .. }) => true,
        None => cache.sync(local_queues()) != Sync::Done,
    }
}

impl RetrySource {
    /// Reads a retry source of a kind.
    #[must_use]
    pub fn of(seen: &RawObject, kind: &KindKey) -> Self {
        let annotations = seen.meta.annotations.as_ref();
        let policies = annotations.and_then(|all| all.get(keys::QUEUE_RETRY_POLICIES)).cloned();
        match kind.kind.as_str() {
            "RetryPolicy" => Self::Policy(policy(seen).map(Arc::new)),
            "LocalQueue" => Self::LocalQueue { cluster_queue: cluster_queue(seen), policies },
            _ => Self::ClusterQueue { policies },
        }
    }
}

/// A policy of a newer version is read as far as it can be.
fn policy(seen: &RawObject) -> Result<RetryPolicy, String> {
    #[derive(Deserialize)]
    struct Body {
        #[serde(default)]
        spec: Option<Map<String, Value>>,
    }
    // the position is one in a text that nobody has seen
    let said = |error: serde_json::Error| {
        error.to_string().split(" at line ").next().unwrap_or_default().to_owned()
    };
    let body: Body = serde_json::from_str(seen.raw.get()).map_err(said)?;
    let name = seen.meta.name.as_deref().unwrap_or_default();
    Ok(RetryPolicy::of_stored(name, body.spec.unwrap_or_default()))
}

fn cluster_queue(seen: &RawObject) -> String {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Body {
        spec: Spec,
    }
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase")]
    struct Spec {
        cluster_queue: String,
    }
    serde_json::from_str::<Body>(seen.raw.get()).unwrap_or_default().spec.cluster_queue
}

/// Fills in what depends on the retry policies in force: they themselves, and of nodes and templates as
/// much as they may ask for.
pub fn fill(
    snapshot: &mut Snapshot,
    wrapper: &Wrapper,
    cache: &Cache,
    attach: &Attach,
    autopilot: &Autopilot,
) {
    snapshot.queue_managed = wrapper.queue.is_some();
    snapshot.retry = applied(wrapper, cache, attach);
    // Only a retry asks for them, of a pod that does not run, or of a hang, and the attempt that follows it: not each look at
    // a healthy gang.
    let may_hang = snapshot.policies.progress.is_some();
    let ails = may_hang || !snapshot.pods.iter().all(runs);
    let status = &wrapper.status;
    let begins = matches!(status.phase, Phase::Resetting | Phase::Suspended);
    let avoids = begins && !status.avoid_nodes.is_empty();
    let avoid = avoids || ails && snapshot.retry.may_avoid_nodes();
    let grow = ails && snapshot.retry.may_grow_memory();
    if avoid {
        snapshot.sites = cache.sites();
    }
    if avoid || grow || !status.pending_memory.is_empty() {
        fill_templates(snapshot, wrapper, autopilot);
    }
}

/// Fills in what the pod templates of the components ask for.
pub fn fill_templates(snapshot: &mut Snapshot, wrapper: &Wrapper, autopilot: &Autopilot) {
    let aversions = aversions(autopilot);
    for (component, wrapped) in snapshot.components.iter_mut().zip(&wrapper.spec.components) {
        component.templates = kinds::templates(wrapped, &component.pod_sets, &aversions);
    }
}

/// Whether a pod runs, or has succeeded. One that is Terminating may be the cause of a failure before it has ended.
fn runs(pod: &Pod) -> bool {
    let is_up = matches!(pod.phase, PodPhase::Running | PodPhase::Succeeded);
    is_up && pod.lost.is_none() && !pod.terminating
}

/// The default of the configuration, with what its policy says of overriding.
#[must_use]
pub fn default_policy<'a>(cache: &Cache, attach: &'a Attach) -> Option<DefaultPolicy<'a>> {
    let name = attach.default.as_deref()?;
    let at = Key { namespace: String::new(), name: name.to_owned() };
    let found = cache.retry_source(retry_policies(), &at);
    let overrides = matches!(found, Some(RetrySource::Policy(Ok(policy))) if policy.overrides);
    Some(DefaultPolicy { name, overrides })
}

fn applied(wrapper: &Wrapper, cache: &Cache, attach: &Attach) -> AppliedRetryPolicies {
    let (mut local, mut cluster) = (None, None);
    if let Some(queue) = &wrapper.queue {
        let at = Key { namespace: wrapper.namespace.clone(), name: queue.clone() };
        if let Some(RetrySource::LocalQueue { cluster_queue, policies }) =
            cache.retry_source(local_queues(), &at)
        {
            local = policies;
            let at = Key { namespace: String::new(), name: cluster_queue };
            if let Some(RetrySource::ClusterQueue { policies }) =
                cache.retry_source(cluster_queues(), &at)
            {
                cluster = policies;
            }
        }
    }
    let default = default_policy(cache, attach);
    let names = attached(cluster.as_deref(), local.as_deref(), &attach.own, default);
    let mut applied = AppliedRetryPolicies::default();
    for name in names {
        let at = Key { namespace: String::new(), name: name.clone() };
        match cache.retry_source(retry_policies(), &at) {
            Some(RetrySource::Policy(Ok(policy))) => applied.policies.push(policy),
            Some(RetrySource::Policy(Err(flaw))) => {
                applied.unusable.push(UnusablePolicy { name, flaw: Some(flaw) });
            }
            Some(RetrySource::LocalQueue { .. } | RetrySource::ClusterQueue { .. }) | None => {
                let is_unread = cache.sync(retry_policies()) == Sync::Blind;
                let flaw = is_unread.then(|| "the controller cannot read RetryPolicies".to_owned());
                applied.unusable.push(UnusablePolicy { name, flaw });
            }
        }
    }
    applied.administered = administered(cluster.as_deref(), local.as_deref(), &attach.own, default);
    applied.flaws = surplus(cluster.as_deref(), local.as_deref());
    applied
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::json;

    use super::*;
    use crate::api::{AppWrapperSpec, AppWrapperStatus};

    fn wrapper(queue: Option<&str>, annotated: bool) -> Wrapper {
        let map = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let meta = ObjectMeta {
            namespace: Some("n".to_owned()),
            labels: queue.map(|queue| map(keys::QUEUE_NAME, queue)),
            annotations: annotated.then(|| map(keys::RETRY_POLICIES, "own")),
            ..ObjectMeta::default()
        };
        Wrapper::new(&meta, AppWrapperSpec::default(), AppWrapperStatus::default())
    }

    fn put(cache: &Cache, kind: &KindKey, object: &Value) {
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        let at = Key::of(&seen.meta);
        cache.put_retry_source(kind, at, RetrySource::of(&seen, kind));
    }

    #[test]
    fn retry_sources_are_asked_only_where_something_names_them() {
        let kinds = |wrapper: Wrapper, default: Option<&str>| -> Vec<String> {
            used_by(&wrapper, default).into_iter().map(|kind| kind.kind.clone()).collect()
        };
        assert!(kinds(wrapper(None, false), None).is_empty());
        assert!(kinds(wrapper(Some(""), false), None).is_empty());
        assert_eq!(kinds(wrapper(None, true), None), ["RetryPolicy"]);
        assert_eq!(kinds(wrapper(None, false), Some("d")), ["RetryPolicy"]);
        let all = ["RetryPolicy", "LocalQueue", "ClusterQueue"];
        assert_eq!(kinds(wrapper(Some("q"), true), Some("d")), all);
        for kind in used_by(&wrapper(Some("q"), false), None) {
            assert!(is_retry_source(kind));
            assert!(served_as(kind).iter().all(|served| !is_retry_source(served)));
        }
        let wrapped = KindKey { api_version: "batch/v1".into(), kind: "Job".into() };
        assert!(!is_retry_source(&wrapped));
    }

    #[test]
    fn what_a_retry_may_need_is_read_where_a_pod_does_not_run() {
        let pod = |phase, terminating| Pod { phase, terminating, ..Pod::default() };
        for (phase, up) in [
            (PodPhase::Running, true),
            (PodPhase::Succeeded, true),
            (PodPhase::Pending, false),
            (PodPhase::Failed, false),
            (PodPhase::Unknown, false),
        ] {
            assert_eq!(
                (runs(&pod(phase, false)), runs(&pod(phase, true))),
                (up, false),
                "{phase:?}"
            );
        }
    }

    #[test]
    fn a_change_of_a_queue_concerns_only_those_who_use_it() {
        let key = |namespace: &str, name: &str| Key {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let cache = Cache::default();
        let (local, cluster, policies) = (local_queues(), cluster_queues(), retry_policies());
        let uses = |queue, kind, at| may_use(&cache, &key("n", "aw"), queue, (kind, &at));
        assert!(uses(Some("q"), cluster, key("", "other")), "it is not known where q leads to");
        let list = BTreeMap::from([(
            key("n", "q"),
            RetrySource::LocalQueue { cluster_queue: "c".to_owned(), policies: None },
        )]);
        cache.replace_retry_sources(local, list);
        for (queue, kind, at, want) in [
            (Some("q"), local, key("n", "q"), true),
            (Some("q"), local, key("n", "p"), false),
            (Some("q"), local, key("m", "q"), false),
            (Some("q"), cluster, key("", "c"), true),
            (Some("q"), cluster, key("", "d"), false),
            (Some("gone"), cluster, key("", "c"), false),
            (None, cluster, key("", "c"), false),
            (None, local, key("n", "q"), false),
            (Some("q"), policies, key("", "p"), true),
            (None, policies, key("", "p"), true),
        ] {
            assert_eq!(uses(queue, kind, at.clone()), want, "{queue:?}: {} {at:?}", kind.kind);
        }
    }

    #[test]
    fn policies_of_queues_come_first_and_what_is_not_there_is_missing() {
        let cache = Cache::default();
        let annotated = |names: &str| json!({keys::QUEUE_RETRY_POLICIES: names});
        put(
            &cache,
            local_queues(),
            &json!({
                "metadata": {"name": "q", "namespace": "n", "annotations": annotated("team, odd")},
                "spec": {"clusterQueue": "c"},
            }),
        );
        put(
            &cache,
            cluster_queues(),
            &json!({
                "metadata": {"name": "c", "annotations": annotated("infra")},
            }),
        );
        for name in ["infra", "team", "d"] {
            put(&cache, retry_policies(), &json!({"metadata": {"name": name}, "spec": {}}));
        }
        put(
            &cache,
            retry_policies(),
            &json!({
                "metadata": {"name": "odd"}, "spec": 7,
            }),
        );
        let attach = Attach { own: vec!["own".to_owned()], default: Some("d".to_owned()) };
        let names = |wrapper: &Wrapper, attach: &Attach| {
            let found = applied(wrapper, &cache, attach);
            let names: Vec<String> = found.policies.iter().map(|one| one.name.clone()).collect();
            (names, found.unusable)
        };
        let (found, missing) = names(&wrapper(Some("q"), true), &attach);
        assert_eq!(found, ["infra", "team"]);
        let flaw = "invalid type: integer `7`, expected a map";
        assert_eq!(missing[0], UnusablePolicy { name: "odd".into(), flaw: Some(flaw.into()) });
        assert_eq!(missing[1], UnusablePolicy { name: "own".into(), flaw: None });
        assert_eq!(names(&wrapper(None, true), &attach).0, [""; 0], "the user's own holds instead");
        let policy = json!({"metadata": {"name": "d"}, "spec": {"override": true}});
        put(&cache, retry_policies(), &policy);
        assert_eq!(names(&wrapper(None, true), &attach).0, ["d"], "it overrides");
        assert_eq!(names(&wrapper(Some("q"), true), &attach).0, ["infra", "team"]);
        let default = Attach { own: vec![], ..attach };
        assert_eq!(names(&wrapper(Some("gone"), false), &default).0, ["d"]);
        assert_eq!(names(&wrapper(None, false), &Attach::default()), (vec![], vec![]));
    }

    #[test]
    fn a_policy_that_may_not_be_read_is_not_said_to_be_missing() {
        let cache = Cache::default();
        let attach = Attach { own: vec!["own".to_owned()], default: None };
        let said = || {
            applied(&wrapper(None, true), &cache, &attach).unusable.first().map(ToString::to_string)
        };
        assert_eq!(said().as_deref(), Some("RetryPolicy own does not exist"));
        cache.set_blind(retry_policies());
        let want = "RetryPolicy own cannot be used: the controller cannot read RetryPolicies";
        assert_eq!(said().as_deref(), Some(want));
    }

    #[test]
    fn a_rule_that_cannot_be_read_takes_no_other_with_it() {
        let rule = json!({"action": "Retry", "onConditions": ["OOMKilled"]});
        let odd = json!({"action": "Escalate", "onConditions": ["OOMKilled"]});
        let object = json!({"metadata": {"name": "p"}, "spec": {"rules": [odd, rule, 7]}});
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        let RetrySource::Policy(Ok(policy)) = RetrySource::of(&seen, retry_policies()) else {
            panic!("read")
        };
        assert_eq!(policy.rules.iter().map(|rule| rule.index).collect::<Vec<_>>(), [1]);
        assert!(
            policy.flaws[0].contains("spec.rules[0]: unknown variant `Escalate`"),
            "{policy:?}"
        );
        assert_eq!(policy.flaws.len(), 2);
    }

    #[test]
    fn a_list_of_a_queue_that_is_too_long_is_cut() {
        let cache = Cache::default();
        let names: Vec<String> = (0..48_000).map(|i| format!("p{i}")).collect();
        put(
            &cache,
            local_queues(),
            &json!({
                "metadata": {"name": "q", "namespace": "n", "annotations": {
                    keys::QUEUE_RETRY_POLICIES: names.join(","),
                }},
                "spec": {"clusterQueue": "c"},
            }),
        );
        let found = applied(&wrapper(Some("q"), false), &cache, &Attach::default());
        assert_eq!(found.unusable.len(), 16);
        assert!(
            found.flaws[0].contains("LocalQueue: must list at most 16 RetryPolicies"),
            "{:?}",
            found.flaws
        );
    }

    #[test]
    fn a_policy_that_cannot_be_read_says_why() {
        let object = json!({"metadata": {"name": "p"}, "spec": "many"});
        let seen: RawObject = serde_json::from_str(&object.to_string()).unwrap();
        let RetrySource::Policy(Err(flaw)) = RetrySource::of(&seen, retry_policies()) else {
            panic!("read")
        };
        assert!(flaw.starts_with("invalid type: string \"many\""), "{flaw}");
    }
}
