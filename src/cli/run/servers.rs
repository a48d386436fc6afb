//! The servers, on threads of their own: the review of a large AppWrapper does not delay a decision, nor a
//! decision a review. The progress server has another one: however much pods report, reviews are not delayed.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::try_join_all;
use kube::Client;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::worker::{Stop, Worker, any_failed, stop_all};
use super::{Error, cluster};
use crate::certificate::{self, CertificateNames, Lifetimes, Name, PROGRESS_SERVICE, Renewer};
use crate::clock::Clock;
use crate::config::{Config, ServerUrl};
use crate::kinds::ProgressEndpoint;
use crate::progress_server::{self, Serving};
use crate::reconcile::Context;
use crate::tls::{self, Clients, Current, Limits, Validity};
use crate::webhook::access::{Reviews, own_account};
use crate::webhook::server::{Admission, router};
use crate::{listener, serve, telemetry};

/// Until the controller's own account is known, it is asked for so often.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// How long the process waits at its end until the progress reports that it has accepted are written.
const FLUSHED_WITHIN: Duration = Duration::from_secs(5);

/// Servers at work.
pub(super) struct Servers {
    pub(super) workers: Vec<Worker>,
    /// Whether the webhook and the metrics have a certificate that is valid now; none where neither is served.
    is_valid: Option<watch::Receiver<bool>>,
    /// Whether the webhook knows a CA of its clients; none where it serves clients without a certificate.
    clients_known: Option<watch::Receiver<bool>>,
}

/// What the thread of the webhook and the metrics is given.
struct Parts {
    client: Client,
    context: Arc<Context>,
    config: Config,
    webhook: Option<TcpListener>,
    metrics: Option<TcpListener>,
    valid: watch::Sender<bool>,
    clients: Arc<Clients>,
}

/// What the thread of the progress server is given.
struct ProgressParts {
    client: Client,
    context: Arc<Context>,
    listener: TcpListener,
    url: Option<ServerUrl>,
}

impl Servers {
    /// Starts the webhook, the progress server, and the metrics where they are secure.
    pub(super) fn start(
        connection: kube::Config,
        context: Arc<Context>,
        config: Config,
    ) -> Result<Self, Error> {
        let (webhook, metrics) = (&config.webhook, &config.metrics);
        let progress = &config.progress_server;
        let webhook =
            webhook.enabled.then(|| listen("the webhook", webhook.address)).transpose()?;
        let metrics = metrics.secure.then(|| listen("metrics", metrics.address)).transpose()?;
        let progress =
            progress.enabled.then(|| listen("progress reports", progress.address)).transpose()?;
        let mut servers = Self { workers: vec![], is_valid: None, clients_known: None };
        if let Some(listener) = progress {
            context.progress.set(Serving::Starting, context.clock.now());
            let (runtime, client) = runtime(connection.clone(), &context)?;
            let (context, url) = (context.clone(), config.progress_server.url.clone());
            let parts = ProgressParts { client, context, listener, url };
            let worker = Worker::start("progress", runtime, async |stop| parts.serve(stop).await)?;
            servers.workers.push(worker);
        }
        if webhook.is_some() || metrics.is_some() {
            let (valid, is_valid) = watch::channel(false);
            let (runtime, client) = runtime(connection, &context)?;
            let clients = Arc::new(Clients::new());
            let has_authorities = webhook.is_some() && config.webhook.client_ca_file.is_some();
            servers.clients_known = has_authorities.then(|| clients.is_known());
            let parts = Parts { client, context, config, webhook, metrics, valid, clients };
            let worker = Worker::start("servers", runtime, async |stop| parts.serve(stop).await)?;
            servers.workers.push(worker);
            servers.is_valid = Some(is_valid);
        }
        Ok(servers)
    }

    /// Whether there are a certificate and the CA of clients, and whether the threads run, for `/readyz`.
    pub(super) fn checks(&self) -> impl Iterator<Item = serve::Check> {
        let certificate = self.is_valid.clone().map(|is_valid| ("certificate", is_valid));
        let clients = self.clients_known.clone().map(|is_known| ("client-ca", is_known));
        certificate.into_iter().chain(clients).chain(self.workers.iter().map(Worker::check))
    }

    /// Lets them finish what they have begun, and waits for their end.
    pub(super) fn stop(self) {
        stop_all(self.workers);
    }
}

/// A runtime, and a client whose connections it drives.
fn runtime(connection: kube::Config, context: &Context) -> Result<(Runtime, Client), Error> {
    let runtime = crate::cli::runtime()?;
    let client = {
        let _here = runtime.enter();
        cluster::counted(connection, &context.metrics)?
    };
    Ok((runtime, client))
}

impl ProgressParts {
    async fn serve(self, stopped: Stop) -> Result<(), Error> {
        let Self { client, context, listener, url } = self;
        let (clock, metrics) = (context.clock.clone(), context.metrics.clone());
        let current = Arc::new(Current::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(keeper_for_pods(&client, &context, &current, url).run());
        let desk = progress_server::Desk::new(client, clock, metrics);
        let router = desk.router();
        let writes = desk.clone();
        tasks.spawn(async move { writes.write().await });
        let listener = listening(listener)?;
        let limits = progress_server::limits();
        let ended = tokio::select! {
            () = tls::serve(listener, router, current, None, limits, stopped) => Ok(()),
            failed = any_failed(&mut tasks) => Err(failed),
        };
        // pods do not send again what was accepted
        let _in_time = tokio::time::timeout(FLUSHED_WITHIN, desk.flush()).await;
        ended
    }
}

impl Parts {
    async fn serve(self, stopped: Stop) -> Result<(), Error> {
        let Self { client, context, config, webhook, metrics, valid, clients } = self;
        let clock = context.clock.clone();
        let current = Arc::new(Current::new());
        let mut tasks = JoinSet::new();
        keep(&mut tasks, &client, &clock, &config, &current);
        tasks.spawn(tell(current.validity(), context.clone(), valid));
        let mut serving = vec![];
        if let Some(listener) = webhook {
            let own_account = Arc::new(OnceLock::new());
            tasks.spawn(learn(client.clone(), own_account.clone()));
            let admission = admission(&client, &context, clock.clone(), own_account);
            let router = router(Arc::new(admission));
            let clients = config.webhook.client_ca_file.map(|file| {
                tasks.spawn(certificate::client_authorities(file, clients.clone()));
                clients
            });
            serving.push((listener, router, current.clone(), clients, Limits::default()));
        }
        if let Some(listener) = metrics {
            let access = serve::Access::new(client, clock);
            let router = serve::metrics_router(context.metrics.clone(), Some(access));
            serving.push((listener, router, current.clone(), None, Limits::small()));
        }
        let serving =
            serving.into_iter().map(async |(listener, router, current, clients, limits)| {
                let listener = listening(listener)?;
                let stopped = stopped.clone();
                tls::serve(listener, router, current, clients, limits, stopped).await;
                Ok::<_, Error>(())
            });
        tokio::select! {
            served = try_join_all(serving) => served.map(drop),
            failed = any_failed(&mut tasks) => Err(failed),
        }
    }
}

/// Keeps the certificate, as one of the tasks.
fn keep(
    tasks: &mut JoinSet<()>,
    client: &Client,
    clock: &Arc<dyn Clock>,
    config: &Config,
    current: &Arc<Current>,
) {
    if let Some(directory) = config.webhook.cert_dir.clone() {
        tasks.spawn(certificate::files(directory, current.clone()));
    } else {
        let names = CertificateNames::of(client.default_namespace());
        tasks.spawn(Renewer::new(client, clock.clone(), current.clone(), names).run());
    }
}

/// What keeps the certificate of the progress server, and tells where pods reach it.
fn keeper_for_pods(
    client: &Client,
    context: &Arc<Context>,
    current: &Arc<Current>,
    url: Option<ServerUrl>,
) -> Renewer {
    let namespace = client.default_namespace();
    let name = url.as_ref().and_then(|url| Name::parse(url.host()));
    let by_service = || format!("https://{PROGRESS_SERVICE}.{namespace}.svc");
    let url = url.map_or_else(by_service, |url| url.to_string());
    let (told, served) = (context.clone(), current.clone());
    let names = CertificateNames::progress(namespace);
    Renewer::new(client, context.clock.clone(), current.clone(), names)
        .with_lifetimes(Lifetimes::of_pods())
        .with_name(name)
        .telling(move |ca| {
            let validity = *served.validity().borrow();
            if let Validity::Between(from, _) = validity
                && told.clock.now() < from
            {
                tracing::warn!(%from, "The progress server's certificate is not valid yet.");
            }
            let endpoint = ProgressEndpoint { url: url.clone(), ca: ca.to_owned() };
            told.progress.set(Serving::At(Arc::new(endpoint)), told.clock.now());
        })
}

/// Tells whether the certificate is valid now, and when it expires.
async fn tell(
    mut validity: watch::Receiver<Validity>,
    context: Arc<Context>,
    valid: watch::Sender<bool>,
) {
    loop {
        let known = *validity.borrow_and_update();
        if let Validity::Between(_, until) = known {
            context.metrics.set_certificate_expiry(until);
        }
        let (is_valid, changes_at) = known.at(context.clock.now());
        valid.send_replace(is_valid);
        let moment = async {
            match changes_at {
                Some(at) => tokio::time::sleep(context.clock.until(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = validity.changed() => if changed.is_err() { return },
            () = moment => {}
        }
    }
}

fn admission(
    client: &Client,
    context: &Arc<Context>,
    clock: Arc<dyn Clock>,
    own_account: Arc<OnceLock<String>>,
) -> Admission {
    let (settings, kueue) = (context.clone(), context.clone());
    Admission {
        config: Box::new(move || settings.config()),
        kueue: Box::new(move || kueue.kueue().wait_for_pods_ready),
        own_account,
        authorize: Arc::new(Reviews::new(client.clone(), clock.clone())),
        metrics: context.metrics.clone(),
        clock,
    }
}

async fn learn(client: Client, account: Arc<OnceLock<String>>) {
    loop {
        match own_account(&client).await {
            Ok(name) => {
                // nobody else sets it
                drop(account.set(name));
                return;
            }
            Err(error) => {
                let cause = telemetry::chain(&error);
                tracing::warn!(cause, "Cannot determine the controller's own account; retrying.");
                tokio::time::sleep(ASK_EVERY).await;
            }
        }
    }
}

/// The listener, on the runtime of this thread.
fn listening(listener: TcpListener) -> Result<tokio::net::TcpListener, Error> {
    tokio::net::TcpListener::from_std(listener)
        .map_err(|error| Error::System(format!("cannot listen: {error}")))
}

fn listen(what: &'static str, address: SocketAddr) -> Result<TcpListener, Error> {
    listener::bind(address)
        .map_err(|error| Error::System(format!("cannot listen on {address} for {what}: {error}")))
}
