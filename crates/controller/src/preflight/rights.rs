//! Whether the controller may do what wrapping a kind needs.

use futures::stream::{self, StreamExt, TryStreamExt};
use kube::Client;

use super::Notice;
use crate::config::{Admission, AllowedKind, FailureLogs, History, ProgressServer};
use crate::discovery;
use crate::kinds::Kind;
use crate::telemetry;
use crate::webhook::access::review::{Access, in_time, may_i};
use crate::webhook::access::rules::Target;
use crate::webhook::authorize::AccessError;

/// The most kinds that are checked at the same time.
const AT_ONCE: usize = 8;

/// Why a kind is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// It is in `admission.allowedKinds`.
    Allowed,
    /// It is one of the known ones, and every kind is allowed.
    Known,
    /// Pods are what everything wrapped comes down to.
    Pods,
}

/// What was found of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Finding {
    NotServed,
    Unusable(String),
    /// The resource as RBAC names it, and the verbs that are denied.
    Denied(String, Vec<&'static str>),
}

/// The kinds to check.
fn kinds(admission: &Admission) -> Vec<(AllowedKind, Reason)> {
    let pod = AllowedKind { group: String::new(), kind: "Pod".to_owned() };
    if admission.allowed_kinds.is_empty() {
        let known =
            |row: &Kind| AllowedKind { group: row.group().to_owned(), kind: row.kind.to_owned() };
        return Kind::all().map(|row| (known(row), Reason::Known)).collect();
    }
    let mut kinds: Vec<_> =
        admission.allowed_kinds.iter().map(|kind| (kind.clone(), Reason::Allowed)).collect();
    if !admission.allowed_kinds.contains(&pod) {
        kinds.push((pod, Reason::Pods));
    }
    kinds
}

/// The sentence about a kind; none where there is nothing to say.
fn notice(kind: &AllowedKind, why: Reason, finding: Finding) -> Option<Notice> {
    let text = match (finding, why) {
        (Finding::NotServed, Reason::Allowed) => format!(
            "admission.allowedKinds has {kind}, which the cluster does not serve: install its \
             CustomResourceDefinition, or correct the name"
        ),
        // most clusters have only some of them
        (Finding::NotServed, Reason::Known | Reason::Pods) => return None,
        (Finding::Unusable(flaw), Reason::Allowed) => format!(
            "admission.allowedKinds has {kind}, which is never admitted: {flaw}; remove it from \
             the list"
        ),
        (Finding::Unusable(flaw), Reason::Known | Reason::Pods) => {
            format!("{kind} can never be wrapped in this cluster: {flaw}")
        }
        (Finding::Denied(_, verbs), _) if verbs.is_empty() => return None,
        (Finding::Denied(resource, verbs), Reason::Allowed | Reason::Known) => format!(
            "the controller cannot {} {resource} in all namespaces: AppWrappers with a {kind} are \
             denied or fail; add these verbs to its ClusterRole{}",
            verbs.join(", "),
            match why {
                Reason::Allowed => format!(", or remove {kind} from admission.allowedKinds"),
                Reason::Known | Reason::Pods => String::new(),
            }
        ),
        (Finding::Denied(resource, verbs), Reason::Pods) => format!(
            "the controller cannot {} {resource} in all namespaces: it cannot watch and clean up \
             any AppWrapper; add these verbs to its ClusterRole",
            verbs.join(", ")
        ),
    };
    Some(Notice(text))
}

/// Checks the controller's permissions for the kinds that may be wrapped.
pub(super) async fn look(client: &Client, admission: &Admission) -> Vec<Notice> {
    let looks = kinds(admission).into_iter().map(|(kind, why)| async move {
        let finding = find(client, &kind, why).await?;
        Ok(notice(&kind, why, finding))
    });
    let looks: Vec<_> = looks.collect();
    let found: Result<Vec<Option<Notice>>, AccessError> =
        stream::iter(looks).buffered(AT_ONCE).try_collect().await;
    match found {
        Ok(notices) => notices.into_iter().flatten().collect(),
        Err(error) => {
            let cause = telemetry::chain(&error);
            let said = format!("cannot check the controller's own permissions: {cause}");
            vec![Notice(said)]
        }
    }
}

/// Checks the permission of the progress server, if it is enabled.
pub(super) async fn progress(client: &Client, server: &ProgressServer) -> Option<Notice> {
    if !server.enabled {
        return None;
    }
    may_not(client, "patch", "pods").await.then(|| {
        Notice(
            "progressServer.enabled is true, but the controller cannot patch pods: no report is \
             written, and AppWrappers with spec.progress.startWithin are restarted as Stalled until \
             no retry is left; apply config/progress (Helm: progress: true), or set \
             progressServer.enabled to false"
                .to_owned(),
        )
    })
}

/// Checks the permission to read logs, if they are to be kept.
pub(super) async fn logs(client: &Client, logs: &FailureLogs) -> Option<Notice> {
    let lacks = logs.enabled && may_not(client, "get", "pods/log").await;
    lacks.then(|| {
        Notice(
            "failureLogs.enabled is true, but the controller cannot get pods/log: no log is kept; \
             apply config/logs (Helm: logs: true), or set failureLogs.enabled to false"
                .to_owned(),
        )
    })
}

/// Checks the permission to write records, if they are to be kept.
pub(super) async fn history(client: &Client, history: &History) -> Option<Notice> {
    let lacks = history.enabled && may_not(client, "create", "configmaps").await;
    lacks.then(|| {
        Notice(
            "history.enabled is true, but the controller cannot create configmaps: no record is kept; \
             apply config/history (Helm: history: true), or set history.enabled to false"
                .to_owned(),
        )
    })
}

/// Whether the controller lacks a permission of the core group. Where that cannot be told, the kinds cannot be checked
/// either, and that is said.
async fn may_not(client: &Client, verb: &'static str, resource: &str) -> bool {
    let access = Access {
        verb,
        namespace: None,
        group: String::new(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
    };
    !may_i(client, access).await.unwrap_or(true)
}

async fn find(client: &Client, kind: &AllowedKind, why: Reason) -> Result<Finding, AccessError> {
    let what = format!("discover {kind}");
    let search = discovery::find_in_group(client, &kind.group, &kind.kind);
    let Some(served) = in_time(&what, search).await? else { return Ok(Finding::NotServed) };
    let target = Target::of(&served);
    if let Some(flaw) = target.flaw() {
        return Ok(Finding::Unusable(flaw));
    }
    let mut denied = vec![];
    for access in target.handling(None) {
        let verb = access.verb;
        let is_needed = match why {
            Reason::Allowed | Reason::Known => true,
            Reason::Pods => verb != "create",
        };
        if is_needed && !may_i(client, access).await? {
            denied.push(verb);
        }
    }
    Ok(Finding::Denied(target.to_string(), denied))
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::config::Config;

    #[test]
    fn the_kinds_of_the_list_are_looked_at_or_the_known_ones_and_always_pods() {
        let of = |text: &str| {
            let config = Config::parse(&format!("admission: {{allowedKinds: [{text}]}}")).unwrap();
            let kinds = kinds(&config.admission).into_iter();
            kinds.map(|(kind, why)| format!("{kind} {why:?}")).collect::<Vec<_>>()
        };
        assert_eq!(of("").len(), Kind::all().count());
        assert_eq!(of("")[..2], ["Pod Known", "Job.batch Known"]);
        assert_eq!(of("Job.batch"), ["Job.batch Allowed", "Pod Pods"]);
        assert_eq!(of("Pod"), ["Pod Allowed"]);
    }

    #[tokio::test]
    async fn a_part_that_is_enabled_needs_its_permission() {
        let of = async |text: &str, allowed: bool| {
            let service = tower::service_fn(move |_: http::Request<Body>| async move {
                let text = json!({"spec": {}, "status": {"allowed": allowed}}).to_string();
                let answer =
                    http::Response::builder().status(201).body(Body::from(text.into_bytes()));
                Ok::<_, kube::Error>(answer.unwrap())
            });
            let client = Client::new(service, "default");
            let config = Config::parse(text).unwrap();
            let found = [
                progress(&client, &config.progress_server).await,
                logs(&client, &config.failure_logs).await,
                history(&client, &config.history).await,
            ];
            found.into_iter().flatten().map(|notice| notice.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of("{}", false).await, [""; 0]);
        for (part, lacks, value) in [
            ("progressServer", "patch pods: no report is written", "progress"),
            ("failureLogs", "get pods/log: no log is kept", "logs"),
            ("history", "create configmaps: no record is kept", "history"),
        ] {
            let text = format!("{part}: {{enabled: true}}");
            assert_eq!(of(&text, true).await, [""; 0], "{part}");
            let said = of(&text, false).await;
            let begin = format!("{part}.enabled is true, but the controller cannot {lacks}");
            let end = format!(" (Helm: {value}: true), or set {part}.enabled to false");
            let is_right =
                said.len() == 1 && said[0].starts_with(&begin) && said[0].ends_with(&end);
            assert!(is_right, "{said:?}");
        }
    }

    #[test]
    fn each_kind_has_one_sentence_at_most() {
        use Finding::{Denied, NotServed, Unusable};
        use Reason::{Allowed, Known, Pods};
        let job: AllowedKind = "Job.batch".parse().unwrap();
        let denied = |verbs: &[&'static str]| Denied("jobs.batch".into(), verbs.into());
        for (why, finding, want) in [
            (Allowed, denied(&[]), None),
            (
                Allowed,
                denied(&["list", "watch"]),
                Some(
                    "the controller cannot list, watch jobs.batch in all namespaces: AppWrappers with \
                     a Job.batch are denied or fail; add these verbs to its ClusterRole, or remove \
                     Job.batch from admission.allowedKinds",
                ),
            ),
            (
                Known,
                denied(&["delete"]),
                Some(
                    "the controller cannot delete jobs.batch in all namespaces: AppWrappers with a \
                     Job.batch are denied or fail; add these verbs to its ClusterRole",
                ),
            ),
            (
                Pods,
                denied(&["watch"]),
                Some(
                    "the controller cannot watch jobs.batch in all namespaces: it cannot watch and \
                     clean up any AppWrapper; add these verbs to its ClusterRole",
                ),
            ),
            (Known, NotServed, None),
            (Pods, NotServed, None),
            (
                Allowed,
                NotServed,
                Some(
                    "admission.allowedKinds has Job.batch, which the cluster does not serve: install \
                     its CustomResourceDefinition, or correct the name",
                ),
            ),
            (
                Allowed,
                Unusable("must be namespaced".into()),
                Some(
                    "admission.allowedKinds has Job.batch, which is never admitted: must be \
                     namespaced; remove it from the list",
                ),
            ),
        ] {
            let said = notice(&job, why, finding).map(|notice| notice.to_string());
            assert_eq!(said.as_deref(), want);
        }
    }
}
