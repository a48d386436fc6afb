//! What discovery and reviews mean for an AppWrapper.

use kube::discovery::Scope;

use super::review::Access;
use crate::discovery::Served;
use crate::tuning::{Severity, names, shortened};
use crate::webhook::validate::Finding;

/// What the controller does with a component: it creates it, reads it, and must be able to take it
/// away again.
const NAMESPACED_VERBS: [&str; 3] = ["create", "get", "delete"];

/// Components are watched in all namespaces at once.
const CLUSTER_VERBS: [&str; 2] = ["list", "watch"];

/// The resource of a kind that is wrapped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    group: String,
    version: String,
    plural: String,
    namespaced: bool,
    /// The verbs that it needs and does not have.
    lacks: Vec<&'static str>,
}

impl Target {
    /// As discovery describes it.
    #[must_use]
    pub fn of((resource, capabilities): &Served) -> Self {
        let has = |verb: &&str| capabilities.operations.iter().any(|operation| operation == verb);
        let needs = NAMESPACED_VERBS.into_iter().chain(CLUSTER_VERBS);
        Self {
            group: resource.group.clone(),
            version: resource.version.clone(),
            plural: resource.plural.clone(),
            namespaced: match capabilities.scope {
                Scope::Namespaced => true,
                Scope::Cluster => false,
            },
            lacks: needs.filter(|verb| !has(verb)).collect(),
        }
    }

    /// Why objects of it can never be wrapped, by any user; none if they can.
    #[must_use]
    pub fn flaw(&self) -> Option<String> {
        if !self.lacks.is_empty() {
            let lacks = self.lacks.join(", ");
            return Some(format!(
                "must be a kind that supports create, get, delete, list and watch: {self} lack {lacks}"
            ));
        }
        (!self.namespaced)
            .then(|| format!("must be namespaced: {self} are cluster-scoped and cannot be wrapped"))
    }

    /// That somebody creates one.
    pub(super) fn creation(&self, namespace: &str) -> Access {
        self.access("create", Some(namespace))
    }

    /// All that the controller does, for an AppWrapper in a namespace; none: in any.
    #[must_use]
    pub fn handling(&self, namespace: Option<&str>) -> Vec<Access> {
        let inside = NAMESPACED_VERBS.map(|verb| self.access(verb, namespace));
        inside.into_iter().chain(CLUSTER_VERBS.map(|verb| self.access(verb, None))).collect()
    }

    fn access(&self, verb: &'static str, namespace: Option<&str>) -> Access {
        Access {
            verb,
            namespace: namespace.map(str::to_owned),
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.plural.clone(),
        }
    }
}

/// `jobs.batch`, as RBAC names it.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { group, plural, .. } = self;
        if group.is_empty() { f.write_str(plural) } else { write!(f, "{plural}.{group}") }
    }
}

/// Whether these can be an API version and a kind at all: what cannot is not asked for, since it would
/// become part of a path.
pub(super) fn can_be_served(api_version: &str, kind: &str) -> bool {
    let (group, version) = match api_version.split_once('/') {
        Some((group, version)) => (Some(group), version),
        None => (None, api_version),
    };
    group.is_none_or(names::is_subdomain)
        && names::is_label(version)
        && !kind.is_empty()
        && kind.len() <= names::LABEL_MAX
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The sentence about a kind that is not served.
pub(super) fn unknown(api_version: &str, kind: &str) -> String {
    format!("no matches for kind \"{}\" in version \"{}\"", shortened(kind), shortened(api_version))
}

/// What is said of a user who may not create a resource; the same for every resource.
pub(super) fn denied_to_user(username: &str, target: &Target, namespace: &str) -> String {
    let user = shortened(username);
    format!("user {user:?} must be allowed to create {target} in namespace {namespace}")
}

/// What is said of rights that the controller lacks: one sentence for the namespace, one for all.
pub(super) fn denied_to_controller(target: &Target, denied: &[Access]) -> Vec<String> {
    let verbs_of = |inside: bool| {
        let there = denied.iter().filter(|access| access.namespace.is_some() == inside);
        there.map(|access| access.verb).collect::<Vec<&str>>().join(", ")
    };
    let namespace = denied.iter().find_map(|access| access.namespace.as_deref());
    let inside = format!("namespace {}", namespace.unwrap_or_default());
    [(verbs_of(true), inside.as_str()), (verbs_of(false), "all namespaces")]
        .into_iter()
        .filter(|(verbs, _)| !verbs.is_empty())
        .map(|(verbs, place)| {
            format!("the controller must be allowed to {verbs} {target} in {place}")
        })
        .collect()
}

/// Something against the kind of a template.
pub(super) fn against(path: &str, kind: &str, message: String) -> Finding {
    Finding {
        severity: Severity::Error,
        field: format!("{path}.kind"),
        value: Some(shortened(kind)),
        message,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::ApiResource;
    use kube::discovery::ApiCapabilities;

    use super::*;

    const ALL: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

    fn target(group: &str, plural: &str, scope: Scope, verbs: &[&str]) -> Target {
        let resource = ApiResource {
            group: group.into(),
            version: "v1".into(),
            api_version: String::new(),
            kind: String::new(),
            plural: plural.into(),
        };
        let operations = verbs.iter().map(|verb| (*verb).to_owned()).collect();
        Target::of(&(resource, ApiCapabilities { scope, subresources: vec![], operations }))
    }

    #[test]
    fn what_cannot_be_handled_is_refused() {
        let jobs = target("batch", "jobs", Scope::Namespaced, ALL);
        assert_eq!(jobs.flaw(), None);
        for (target, want) in [
            (
                target("", "nodes", Scope::Cluster, ALL),
                "must be namespaced: nodes are cluster-scoped and cannot be wrapped",
            ),
            (
                target("", "bindings", Scope::Namespaced, &["create"]),
                "must be a kind that supports create, get, delete, list and watch: bindings lack \
                 get, delete, list, watch",
            ),
            (
                target("authentication.k8s.io", "tokenreviews", Scope::Cluster, &["create"]),
                "must be a kind that supports create, get, delete, list and watch: \
                 tokenreviews.authentication.k8s.io lack get, delete, list, watch",
            ),
            (
                target("metrics.k8s.io", "pods", Scope::Namespaced, &["get", "list"]),
                "must be a kind that supports create, get, delete, list and watch: \
                 pods.metrics.k8s.io lack create, delete, watch",
            ),
        ] {
            assert_eq!(target.flaw().as_deref(), Some(want));
        }
    }

    #[test]
    fn what_the_controller_lacks_is_said_by_place() {
        let jobs = target("batch", "jobs", Scope::Namespaced, ALL);
        let all = jobs.handling(Some("team"));
        let said = denied_to_controller(&jobs, &all);
        let want = [
            "the controller must be allowed to create, get, delete jobs.batch in namespace team",
            "the controller must be allowed to list, watch jobs.batch in all namespaces",
        ];
        assert_eq!(said, want);
        assert_eq!(denied_to_controller(&jobs, &all[4..]).len(), 1);
        assert_eq!(denied_to_controller(&jobs, &[]), [""; 0]);
    }

    #[test]
    fn only_names_become_part_of_a_path() {
        for (api_version, kind, want) in [
            ("v1", "Pod", true),
            ("batch/v1", "Job", true),
            ("jobset.x-k8s.io/v1alpha2", "JobSet", true),
            ("", "Pod", false),
            ("/v1", "Pod", false),
            ("batch/", "Job", false),
            ("batch/v1/namespaces", "Job", false),
            ("v1?watch=true", "Pod", false),
            ("v1#", "Pod", false),
            ("../v1", "Pod", false),
            ("..", "Pod", false),
            ("batch /v1", "Job", false),
            ("batch/v1", "", false),
            ("batch/v1", "Jöb", false),
            ("batch/v1", &"J".repeat(64), false),
        ] {
            assert_eq!(can_be_served(api_version, kind), want, "{api_version} {kind}");
        }
    }

    #[test]
    fn a_long_name_is_cut() {
        let jobs = target("batch", "jobs", Scope::Namespaced, ALL);
        let want = r#"user "alice" must be allowed to create jobs.batch in namespace team"#;
        assert_eq!(denied_to_user("alice", &jobs, "team"), want);
        assert!(denied_to_user(&"é\n".repeat(500), &jobs, "team").len() < 300);
    }
}
