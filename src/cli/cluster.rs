//! Connecting to a cluster.

mod proxy;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::{ClusterArgs, Error};
use crate::client;
use crate::election::{LeaderWrites, Leadership};
use crate::metrics::Metrics;
use crate::observe::live;
use crate::telemetry;
use proxy::{ProxySettings, own_proxy};

/// The longest silence on a connection that is waited on. A watch sends something about every minute, if only a bookmark, and
/// the API server leaves out one now and then: a watch that is silent for longer is broken. Other calls of the controller end earlier
/// ([`client::Limits`]).
const ANSWER_WITHIN: Duration = Duration::from_mins(3);

/// The client of a command: as with kubectl, a request that the API server refuses for now is sent again when it asks for that.
///
/// # Errors
/// Where there is no usable kubeconfig.
pub async fn connect(args: &ClusterArgs) -> Result<Client, Error> {
    let config = config(args).await?;
    let builder = ClientBuilder::try_from(config).map_err(|error| no_client(&error))?;
    Ok(builder.with_layer(&client::SendAgain).build())
}

/// A client of settings that were read before, with every call counted and limited in time. It does not retry by itself:
/// what is tried again, and when, is decided by the controller.
///
/// # Errors
/// Where no client can be made of them.
pub fn counted(config: Config, metrics: &Metrics) -> Result<Client, Error> {
    let builder = ClientBuilder::try_from(config).map_err(|error| no_client(&error))?;
    Ok(builder.with_layer(&metrics.calls()).with_layer(&client::Limits).build())
}

/// The same, which only reads: other requests do not leave.
///
/// # Errors
/// Where no client can be made of them.
pub fn read_only(config: Config, metrics: &Metrics) -> Result<Client, Error> {
    let builder = ClientBuilder::try_from(config).map_err(|error| no_client(&error))?;
    let builder = builder.with_layer(&metrics.calls()).with_layer(&client::Limits);
    Ok(builder.with_layer(&client::read_only()).build())
}

/// The same, whose writes leave only while this replica leads.
///
/// # Errors
/// Where no client can be made of them.
pub fn fenced(config: Config, metrics: &Metrics, leadership: Leadership) -> Result<Client, Error> {
    let builder = ClientBuilder::try_from(config).map_err(|error| no_client(&error))?;
    let builder = builder.with_layer(&metrics.calls()).with_layer(&client::Limits);
    Ok(builder.with_layer(&LeaderWrites::new(leadership)).build())
}

/// What a client is made of.
///
/// # Errors
/// Where there is no usable kubeconfig.
pub async fn config(args: &ClusterArgs) -> Result<Config, Error> {
    let options =
        KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let file = match &args.kubeconfig {
        Some(path) => Kubeconfig::read_from(path).map(without_empty),
        None => merged(&paths()),
    };
    let (mut contexts, mut own) = (vec![], None);
    let read = match file {
        Ok(file) => {
            contexts = file.contexts.iter().map(|context| context.name.clone()).collect();
            own = own_proxy(&file, args.context.as_deref());
            Config::from_custom_kubeconfig(file, &options).await
        }
        Err(error) => Err(error),
    };
    let is_given = args.kubeconfig.is_some();
    let is_set = std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty());
    let origin = if is_given {
        Origin::Argument
    } else if is_set {
        Origin::Environment
    } else {
        Origin::Default
    };
    let place = place(args.kubeconfig.as_deref(), origin);
    let is_of_file = read.is_ok();
    let mut config = match read {
        Ok(config) => config,
        // what the command line names is wrong
        Err(error) if is_given || args.context.is_some() => {
            return Err(Error::Usage(no_cluster(&error, origin, &place, &contexts)));
        }
        // the cluster of the pod is another one than that of the file
        Err(error) if !is_missing(&error, &contexts) => {
            return Err(Error::Cluster(no_cluster(&error, origin, &place, &contexts)));
        }
        Err(error) => Config::incluster().map_err(|in_pod| match in_pod {
            // it is no pod
            InClusterError::ReadEnvironmentVariable(_) => {
                Error::Cluster(no_cluster(&error, origin, &place, &contexts))
            }
            other => Error::Cluster(format!("no cluster: {other}")),
        })?,
    };
    if !is_given {
        config.apply_debug_overrides();
    }
    if is_of_file {
        // kube-client 5 looks in NO_PROXY for the proxy, not for the server
        let settings = ProxySettings::of_environment(&config.cluster_url);
        config.proxy_url = settings.proxy(&config.cluster_url, own.as_deref());
    }
    prepare(&mut config);
    remember(args, &config);
    Ok(config)
}

/// The files of $KUBECONFIG.
fn paths() -> Vec<PathBuf> {
    let paths = std::env::var_os("KUBECONFIG").unwrap_or_default();
    std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// One kubeconfig of several files, without those that do not exist, as kubectl does; without files, that of the user.
///
/// # Errors
/// A file cannot be read, or none exists.
fn merged(paths: &[PathBuf]) -> Result<Kubeconfig, KubeconfigError> {
    let exist = paths.iter().filter(|path| {
        // one that may not be seen is no missing one
        path.try_exists().unwrap_or_else(|error| error.kind() != ErrorKind::NotADirectory)
    });
    let files = exist.map(|path| Kubeconfig::read_from(path).map(without_empty));
    match (files.reduce(|all, next| all?.merge(next?)), paths.first()) {
        (Some(all), _) => all,
        (None, Some(first)) => Kubeconfig::read_from(first).map(without_empty),
        (None, None) => Kubeconfig::read().map(without_empty),
    }
}

/// client-go writes an empty current context where there is none, and takes an empty namespace for none.
fn without_empty(mut file: Kubeconfig) -> Kubeconfig {
    let named = |name: Option<String>| name.filter(|name| !name.is_empty());
    file.current_context = named(file.current_context);
    for context in file.contexts.iter_mut().filter_map(|context| context.context.as_mut()) {
        context.namespace = named(context.namespace.take());
    }
    file
}

/// Whether there is no kubeconfig, or one without contexts; only then, a pod uses its own cluster. kubectl does so also
/// where no context is current.
fn is_missing(error: &KubeconfigError, contexts: &[String]) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(source, _) => {
            matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        }
        KubeconfigError::CurrentContextNotSet => contexts.is_empty(),
        _ => false,
    }
}

/// Address of the API server, for messages.
static SERVER: OnceLock<String> = OnceLock::new();
/// What the commands that messages advise are told; none before a connection.
static DEFAULTS: OnceLock<Defaults> = OnceLock::new();

/// Where a command looks that is given no flags, and the flags that led to this cluster.
struct Defaults {
    namespace: String,
    /// `--context` and `--kubeconfig` as they were given, each after a space.
    flags: String,
}

impl Defaults {
    fn of(args: &ClusterArgs, namespace: &str) -> Self {
        let context = args.context.as_ref().map(|name| format!(" --context {}", quoted(name)));
        let file = args.kubeconfig.as_ref().map(|path| path.display().to_string());
        let file = file.map(|file| format!(" --kubeconfig {}", quoted(&file)));
        let flags = [context, file].into_iter().flatten().collect();
        Self { namespace: namespace.to_owned(), flags }
    }

    fn place(&self, namespace: &str) -> String {
        let is_default = namespace == self.namespace;
        let namespace = if is_default { String::new() } else { namespace_flag(namespace) };
        namespace + &self.flags
    }
}

/// The flag for a namespace after a space; nothing for none.
fn namespace_flag(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!(" -n {}", quoted(namespace)) }
}

/// Keeps what messages say of the cluster: a program connects to one.
fn remember(args: &ClusterArgs, config: &Config) {
    _ = SERVER.set(config.cluster_url.to_string());
    _ = DEFAULTS.set(Defaults::of(args, &config.default_namespace));
}

/// The flags of an advised command about an object in a namespace, each after a space: the namespace unless it is the
/// default one, and [`cluster_flags`]. Without a cluster, the default namespace is unknown.
fn place_flags(namespace: &str) -> String {
    let defaults = DEFAULTS.get();
    defaults.map_or_else(|| namespace_flag(namespace), |defaults| defaults.place(namespace))
}

/// An object as an advised command names it: its name, and [`place_flags`]. In a file, either may be any text.
pub(super) fn target_words(name: &str, namespace: &str) -> String {
    quoted(name) + &place_flags(namespace)
}

/// The context and the kubeconfig that this command was given, as flags of an advised command, each after a space.
pub(super) fn cluster_flags() -> String {
    place_flags("")
}

/// A text as one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The file of the kubeconfig, or the files.
fn place(argument: Option<&Path>, origin: Origin) -> String {
    match (argument, origin) {
        (Some(path), _) => path.display().to_string(),
        (None, Origin::Environment) => {
            std::env::var_os("KUBECONFIG").unwrap_or_default().display().to_string()
        }
        (None, Origin::Argument | Origin::Default) => "~/.kube/config".to_owned(),
    }
}

/// The most contexts that a message names.
const CONTEXTS_MAX: usize = 10;

/// Who says which kubeconfig is read.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Argument,
    Environment,
    Default,
}

/// Why there is no cluster, in one sentence; the causes are in the text of the error.
fn no_cluster(error: &KubeconfigError, origin: Origin, place: &str, contexts: &[String]) -> String {
    let (from, advice) = match origin {
        Origin::Argument => (" (from --kubeconfig)", ""),
        Origin::Environment => (" (from $KUBECONFIG)", "; set --kubeconfig"),
        Origin::Default => ("", "; set --kubeconfig"),
    };
    let contexts = match contexts.split_at(contexts.len().min(CONTEXTS_MAX)) {
        ([], _) => "it has no contexts".to_owned(),
        (shown, []) => format!("its contexts: {}", shown.join(", ")),
        (shown, more) => format!("its contexts: {} and {} more", shown.join(", "), more.len()),
    };
    match error {
        KubeconfigError::CurrentContextNotSet => {
            format!("{place} has no current context; set --context; {contexts}")
        }
        KubeconfigError::LoadContext(context) => {
            format!("context {context:?} is not in {place}; {contexts}")
        }
        KubeconfigError::ReadConfig(source, path) => {
            format!("no cluster: cannot read {}{from}: {source}{advice}", path.display())
        }
        KubeconfigError::FindPath => format!("no cluster: {error}{advice}"),
        KubeconfigError::ParseNoProxy(cause) => format!("no cluster: NO_PROXY: {cause}"),
        other => format!("no cluster: kubeconfig {place}{from}: {other}"),
    }
}

fn no_client(error: &kube::Error) -> Error {
    Error::Cluster(format!("cannot create a client: {}", telemetry::chain(error)))
}

/// Sets what the controller relies on.
pub fn prepare(config: &mut Config) {
    config.default_retry = false;
    config.read_timeout = Some(ANSWER_WITHIN);
    let agent = concat!("appwrapper/", env!("CARGO_PKG_VERSION"));
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(agent)));
}

/// The words of the API server, where it answered; else what happened.
pub(super) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => telemetry::chain(other),
    }
}

/// The same of a read.
pub(super) fn unread(error: &live::Error) -> String {
    match error {
        live::Error::Api { source, .. } => said(source),
        live::Error::NoKind(_) | live::Error::NotNamespaced(_) => error.to_string(),
    }
}

/// An error of the cluster.
pub(super) fn unanswered(error: &kube::Error) -> Error {
    Error::Cluster(match error {
        kube::Error::Api(_) => format!("the API server returned an error: {}", said(error)),
        _ => unreachable_server(SERVER.get(), error),
    })
}

fn unreachable_server(server: Option<&String>, error: &kube::Error) -> String {
    let server = server.map(|server| format!(" {server}")).unwrap_or_default();
    let why = plain_cause(error).unwrap_or_else(|| said(error));
    format!("cannot reach the API server{server}: {why}")
}

/// The cause at the end of the chain, where it needs none of those before it.
fn plain_cause(error: &kube::Error) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if let Some(
            kind @ (ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::TimedOut),
        ) = kind
        {
            return Some(kind.to_string());
        }
        cause = error.source();
    }
    None
}

/// The same of a read.
pub(super) fn unlisted(error: &live::Error) -> Error {
    match error {
        live::Error::Api { source, .. } => unanswered(source),
        live::Error::NoKind(_) | live::Error::NotNamespaced(_) => Error::Cluster(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_kubeconfig_the_cause_is_named_once() {
        let missing = || {
            let error = std::io::Error::new(std::io::ErrorKind::NotFound, "not there");
            KubeconfigError::ReadConfig(error, "/nope".into())
        };
        let none: [String; 0] = [];
        let contexts = ["a".to_owned(), "b".to_owned()];
        for (error, origin, contexts, want) in [
            (
                missing(),
                Origin::Argument,
                &none[..],
                "no cluster: cannot read /nope (from --kubeconfig): not there",
            ),
            (
                missing(),
                Origin::Environment,
                &none[..],
                "no cluster: cannot read /nope (from $KUBECONFIG): not there; set --kubeconfig",
            ),
            (
                missing(),
                Origin::Default,
                &none[..],
                "no cluster: cannot read /nope: not there; set --kubeconfig",
            ),
            (
                KubeconfigError::LoadContext("c".to_owned()),
                Origin::Argument,
                &contexts[..],
                "context \"c\" is not in /kc; its contexts: a, b",
            ),
            (
                KubeconfigError::CurrentContextNotSet,
                Origin::Environment,
                &contexts[..1],
                "/kc has no current context; set --context; its contexts: a",
            ),
            (
                KubeconfigError::CurrentContextNotSet,
                Origin::Argument,
                &none[..],
                "/kc has no current context; set --context; it has no contexts",
            ),
            (
                KubeconfigError::MissingClusterUrl,
                Origin::Argument,
                &contexts[..],
                "no cluster: kubeconfig /kc (from --kubeconfig): cluster url is missing on selected cluster",
            ),
        ] {
            assert_eq!(no_cluster(&error, origin, "/kc", contexts), want);
        }
        let many: Vec<String> = (0..12).map(|i| format!("c{i}")).collect();
        let said =
            no_cluster(&KubeconfigError::CurrentContextNotSet, Origin::Default, "/kc", &many);
        assert!(said.ends_with(", c9 and 2 more"), "{said}");
    }

    #[test]
    fn an_advised_command_is_told_what_is_not_the_default() {
        for (context, kubeconfig, namespace, want) in [
            (None, None, "team", ""),
            (None, None, "other", " -n other"),
            (None, None, "a;b", " -n 'a;b'"),
            (Some("prod"), None, "team", " --context prod"),
            (Some("arn:aws:eks:a/b"), None, "", " --context arn:aws:eks:a/b"),
            (None, Some("/kc"), "other", " -n other --kubeconfig /kc"),
            (Some("a b"), Some("it's"), "team", r" --context 'a b' --kubeconfig 'it'\''s'"),
        ] {
            let args = ClusterArgs {
                kubeconfig: kubeconfig.map(PathBuf::from),
                context: context.map(str::to_owned),
            };
            assert_eq!(Defaults::of(&args, "team").place(namespace), want);
        }
        assert_eq!(place_flags("other"), " -n other", "without a cluster");
        assert_eq!(target_words("$(a)", "b c"), "'$(a)' -n 'b c'", "of a file");
        assert_eq!(cluster_flags(), "", "without a cluster");
    }

    #[test]
    fn an_unreadable_no_proxy_is_no_fault_of_the_kubeconfig() {
        let error = KubeconfigError::ParseNoProxy(kube::config::NoProxyError::EmptyValue);
        let said = no_cluster(&error, Origin::Default, "/kc", &[]);
        assert_eq!(said, "no cluster: NO_PROXY: comma-separated value is empty");
    }

    #[test]
    fn only_without_a_kubeconfig_a_pod_uses_its_own_cluster() {
        let unread = |kind: ErrorKind| KubeconfigError::ReadConfig(kind.into(), "/kc".into());
        let contexts = ["a".to_owned()];
        for (error, contexts, want) in [
            (KubeconfigError::FindPath, &contexts[..0], true),
            (unread(ErrorKind::NotFound), &contexts[..0], true),
            (unread(ErrorKind::NotADirectory), &contexts[..0], true),
            (unread(ErrorKind::PermissionDenied), &contexts[..0], false),
            (unread(ErrorKind::InvalidData), &contexts[..0], false),
            (Kubeconfig::from_yaml("contexts: [").unwrap_err(), &contexts[..0], false),
            (KubeconfigError::CurrentContextNotSet, &contexts[..0], true),
            (KubeconfigError::CurrentContextNotSet, &contexts[..], false),
            (KubeconfigError::LoadContext("b".to_owned()), &contexts[..0], false),
            (KubeconfigError::MissingClusterUrl, &contexts[..], false),
        ] {
            assert_eq!(is_missing(&error, contexts), want, "{error}");
        }
    }

    #[test]
    fn of_several_kubeconfigs_those_that_exist_are_merged() {
        let folder = std::env::temp_dir().join(format!("appwrapper-kc-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (first, second, wrong) = (folder.join("a"), folder.join("b"), folder.join("wrong"));
        let (missing, other) = (folder.join("missing"), folder.join("other"));
        std::fs::write(&first, "contexts: [{name: a}]\ncurrent-context: \"\"").unwrap();
        std::fs::write(&second, "contexts: [{name: a}, {name: b}]\ncurrent-context: b").unwrap();
        std::fs::write(&wrong, "contexts: [").unwrap();
        let below = first.join("below");
        let all = merged(&[missing.clone(), first.clone(), below, other.clone(), second]).unwrap();
        let names: Vec<&str> = all.contexts.iter().map(|context| context.name.as_str()).collect();
        assert_eq!((&names[..], all.current_context.as_deref()), (&["a", "b"][..], Some("b")));
        assert_eq!(merged(std::slice::from_ref(&first)).unwrap().current_context, None);
        let unnamed = "contexts: [{name: a, context: {cluster: a, user: u, namespace: \"\"}}]";
        std::fs::write(&first, unnamed).unwrap();
        let all = merged(std::slice::from_ref(&first)).unwrap();
        let context = all.contexts[0].context.as_ref().unwrap();
        assert_eq!(context.namespace, None, "it is default");
        let error = merged(&[first, wrong]).unwrap_err();
        assert!(matches!(error, KubeconfigError::Parse(_)), "{error}");
        let error = merged(&[missing.clone(), other]).unwrap_err();
        assert!(
            matches!(&error, KubeconfigError::ReadConfig(_, path) if *path == missing),
            "{error}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_server_that_refuses_is_named() {
        let server = "https://127.0.0.1:6443/".to_owned();
        let refused = std::io::Error::from(ErrorKind::ConnectionRefused);
        let error = kube::Error::Service(Box::new(refused));
        assert_eq!(
            unreachable_server(Some(&server), &error),
            "cannot reach the API server https://127.0.0.1:6443/: connection refused"
        );
        let other = kube::Error::Service("certificate has expired".into());
        let said = unreachable_server(None, &other);
        assert!(said.starts_with("cannot reach the API server: "), "{said}");
        assert!(said.contains("certificate has expired"), "{said}");
    }
}
