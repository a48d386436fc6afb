//! Whether the user who created an AppWrapper may still create what it wraps.
//!
//! The webhook asks when the AppWrapper is created; hours in a queue may lie between that and the
//! moment at which its components are. So it is asked again before each creation, with everything that
//! is known of the user, and the answer is believed for a few seconds.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::core::ApiResource;

use super::create::{fatal, transient};
use crate::api::Requester;
use crate::clock::Clock;
use crate::mutations::{self, Mutation};
use crate::observe::assemble::Wrapper;
use crate::snapshot::CreationFailure;
use crate::ttl_cache::TtlCache;
use crate::webhook::access::review::{Access, may_for_good};

/// How long an answer is believed. The API server's own view of roles lags behind by less.
const ANSWERED_FOR: Duration = Duration::from_secs(10);
/// The most answers that are remembered.
const ANSWERS_MAX: usize = 1_000;

/// Asks the API server, and remembers for a while what it said.
#[derive(Debug)]
pub struct Rights(TtlCache<(Requester, Access), bool>);

/// What is asked about the requester of an AppWrapper.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Whether it must be allowed to create each component.
    pub checked: bool,
    /// Whether there must be one.
    pub required: bool,
}

impl Rights {
    /// Remembers nothing yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(TtlCache::new(clock, ANSWERS_MAX))
    }

    /// Whether the requester of an AppWrapper may create an object of a resource in its namespace.
    ///
    /// # Errors
    /// It may not, which is final; or that cannot be told for now.
    pub async fn check(
        &self,
        client: &Client,
        wrapper: &Wrapper,
        resource: &ApiResource,
        asked: Asked,
    ) -> Result<(), CreationFailure> {
        let Some(requester) = &wrapper.spec.requester else {
            return if asked.required { Err(fatal(no_requester(wrapper))) } else { Ok(()) };
        };
        if !asked.checked {
            return Ok(());
        }
        let access = Access {
            verb: "create",
            namespace: Some(wrapper.namespace.clone()),
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.plural.clone(),
        };
        let key = (requester.clone(), access);
        let allowed = if let Some(known) = self.0.get(&key) {
            known
        } else {
            let (requester, access) = &key;
            let asked = may_for_good(client, requester, access.clone()).await;
            let allowed = asked.map_err(|error| transient(error.to_string()))?;
            // a larger one was not written by the webhook
            if requester.bytes() <= Requester::BYTES_MAX {
                let forever = mutations::is_present(Mutation::RightsAskedOnce);
                let lifetime = if forever { Duration::MAX } else { ANSWERED_FOR };
                self.0.put(key, allowed, lifetime);
            }
            allowed
        };
        if allowed { Ok(()) } else { Err(fatal(denied(requester, wrapper, resource))) }
    }
}

/// Nobody is known who could be asked about: what may have led to that, and the two ways out.
fn no_requester(wrapper: &Wrapper) -> String {
    format!(
        "spec.requester is not set, and admission.requireRequester of the configuration is true: the \
         AppWrapper was created under another controller, while the admission webhook was disabled, or \
         under an outdated CRD appwrappers.workload.codeflare.dev, which drops the field; delete and \
         recreate it (kubectl aw retry {}), or ask the administrator to update the CRD, or to set \
         admission.requireRequester to false",
        wrapper.name
    )
}

/// In the words of the API server.
fn denied(requester: &Requester, wrapper: &Wrapper, resource: &ApiResource) -> String {
    format!(
        "User {:?} cannot create resource {:?} in API group {:?} in the namespace {:?}",
        crate::tuning::shortened(&requester.username),
        resource.plural,
        resource.group,
        wrapper.namespace
    )
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use http::{Request, Response};
    use k8s_openapi::jiff::Timestamp;
    use kube::client::Body;
    use kube::core::ObjectMeta;
    use serde_json::{Value, json};

    use super::*;
    use crate::api::{AppWrapperSpec, AppWrapperStatus};
    use crate::clock::ManualClock;
    use crate::locked::Locked;

    /// What the API server is asked, and what it answers, in order; then it fails.
    type Asked = Arc<Mutex<Vec<Value>>>;

    fn server(answers: &[Value]) -> (Client, Asked) {
        let asked = Asked::default();
        let answers = Arc::new(Mutex::new(VecDeque::from(answers.to_vec())));
        let seen = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (seen, answers) = (seen.clone(), answers.clone());
            async move {
                let body = request.into_body().collect_bytes().await?;
                let body: Value = serde_json::from_slice(&body).unwrap();
                seen.locked().push(body["spec"].clone());
                let answer = answers.locked().pop_front();
                let (code, text) = match answer {
                    Some(status) => (201, json!({"spec": {}, "status": status})),
                    None => (500, json!({"status": "Failure", "code": 500, "message": "no"})),
                };
                let body = Body::from(text.to_string().into_bytes());
                let response = Response::builder().status(code).body(body).unwrap();
                Ok::<_, kube::Error>(response)
            }
        });
        (Client::new(service, "default"), asked)
    }

    fn wrapper(requester: Option<Requester>) -> Wrapper {
        let metadata = ObjectMeta { namespace: Some("team".into()), ..ObjectMeta::default() };
        let spec = AppWrapperSpec { requester, ..AppWrapperSpec::default() };
        Wrapper::new(&metadata, spec, AppWrapperStatus::default())
    }

    fn ann() -> Requester {
        let extra = [("scope".to_owned(), vec!["x".to_owned()])].into();
        Requester { username: "ann".into(), uid: "u".into(), groups: vec!["g".into()], extra }
    }

    fn jobs() -> ApiResource {
        ApiResource::erase::<k8s_openapi::api::batch::v1::Job>(&())
    }

    const CHECKED: super::Asked = super::Asked { checked: true, required: true };

    #[tokio::test]
    async fn the_whole_user_is_asked_about_once_in_a_while() {
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let rights = Rights::new(clock.clone());
        let (client, asked) = server(&[true, false].map(|allowed| json!({"allowed": allowed})));
        let ask = async || rights.check(&client, &wrapper(Some(ann())), &jobs(), CHECKED).await;
        for _ in 0..3 {
            assert_eq!(ask().await, Ok(()));
        }
        let known = asked.lock().unwrap().clone();
        let want = json!([{
            "user": "ann", "uid": "u", "groups": ["g"], "extra": {"scope": ["x"]},
            "resourceAttributes": {"verb": "create", "namespace": "team", "group": "batch",
                "version": "v1", "resource": "jobs"},
        }]);
        assert_eq!(json!(known), want);
        clock.advance(ANSWERED_FOR);
        let message = "User \"ann\" cannot create resource \"jobs\" in API group \"batch\" in the \
                       namespace \"team\"";
        let denied = Err(CreationFailure { fatal: true, message: message.into() });
        assert_eq!([ask().await, ask().await], [denied.clone(), denied]);
        clock.advance(ANSWERED_FOR);
        let unknown = ask().await.expect_err("nobody answers");
        assert!(!unknown.fatal, "{}", unknown.message);
        assert_eq!(asked.lock().unwrap().len(), 3);
    }

    #[tokio::test]
    async fn an_authorizer_that_fails_denies_nothing_for_good() {
        let failing = |allowed: bool, denied: bool| {
            let why = "webhook: EOF";
            json!({"allowed": allowed, "denied": denied, "evaluationError": why})
        };
        let answers = [failing(false, false), failing(true, false), failing(false, true)];
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let rights = Rights::new(clock.clone());
        let (client, asked) = server(&answers);
        let ask = async || rights.check(&client, &wrapper(Some(ann())), &jobs(), CHECKED).await;
        let unknown = ask().await.expect_err("nobody has allowed it");
        assert!(!unknown.fatal && unknown.message.contains("webhook: EOF"), "{}", unknown.message);
        assert_eq!(ask().await, Ok(()), "the first answer is not remembered");
        clock.advance(ANSWERED_FOR);
        assert!(ask().await.expect_err("it is denied").fatal);
        assert_eq!(asked.lock().unwrap().len(), 3);
    }

    #[tokio::test]
    async fn nobody_is_asked_about_where_that_is_not_set() {
        let rights = Rights::new(Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH)));
        let (client, asked) = server(&[]);
        for (requester, checked, required, want) in [
            (None, true, false, true),
            (None, true, true, false),
            (None, false, true, false),
            (Some(ann()), false, true, true),
        ] {
            let settings = super::Asked { checked, required };
            let found = rights.check(&client, &wrapper(requester), &jobs(), settings).await;
            assert_eq!(found.is_ok(), want, "{settings:?}");
            let names_crd = |said: &str| said.contains("outdated CRD appwrappers.workload");
            assert!(found.err().is_none_or(|it| it.fatal && names_crd(&it.message)));
        }
        assert_eq!(asked.lock().unwrap().len(), 0);
    }
}
