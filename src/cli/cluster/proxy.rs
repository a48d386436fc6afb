//! Whether the API server of a kubeconfig is reached through a proxy.
//! Source: client-go, which asks `useProxy` of golang.org/x/net/http/httpproxy.

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::Kubeconfig;

/// What the environment says; empty where it says nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct ProxySettings {
    /// `HTTPS_PROXY`, or `HTTP_PROXY` for a server without TLS.
    proxy: String,
    /// `NO_PROXY`.
    no_proxy: String,
}

impl ProxySettings {
    /// Those of the environment of this process.
    pub(super) fn of_environment(server: &Uri) -> Self {
        let first = |names: [&str; 2]| {
            let values = names.into_iter().filter_map(std::env::var_os);
            let mut values = values.filter_map(|value| value.into_string().ok());
            values.find(|value| !value.is_empty()).unwrap_or_default()
        };
        let proxy = if server.scheme_str() == Some("http") {
            first(["HTTP_PROXY", "http_proxy"])
        } else {
            first(["HTTPS_PROXY", "https_proxy"])
        };
        Self { proxy, no_proxy: first(["NO_PROXY", "no_proxy"]) }
    }

    /// The proxy by which an API server is reached; `own` is that of its cluster in the kubeconfig, for which `NO_PROXY` has
    /// no meaning.
    pub(super) fn proxy(&self, server: &Uri, own: Option<&str>) -> Option<Uri> {
        let text = match own.filter(|own| !own.is_empty()) {
            Some(own) => own.to_owned(),
            None if self.proxy.is_empty() || is_direct(server, &self.no_proxy) => return None,
            None if self.proxy.contains("://") => self.proxy.clone(),
            None => format!("http://{}", self.proxy),
        };
        text.parse().ok()
    }
}

/// The `proxy-url` of the cluster of a context; without one, of the current context.
pub(super) fn own_proxy(file: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let name = context.or(file.current_context.as_deref())?;
    let named = file.contexts.iter().find(|it| it.name == name)?;
    let cluster = &named.context.as_ref()?.cluster;
    let named = file.clusters.iter().find(|it| it.name == *cluster)?;
    named.cluster.as_ref()?.proxy_url.clone()
}

/// Whether a server is reached without a proxy: on this machine, or because `NO_PROXY` names it.
fn is_direct(server: &Uri, no_proxy: &str) -> bool {
    let host = server.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_local = host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback());
    // the library takes `*` for a name, so for no address, and knows no `*.` before a domain
    let entries: Vec<&str> = no_proxy.split(',').map(str::trim).collect();
    let known = entries.iter().map(|entry| entry.strip_prefix("*.").unwrap_or(entry));
    let known = known.collect::<Vec<_>>().join(",");
    let rules = || Matcher::builder().all("http://proxy").no(known).build();
    is_local || entries.contains(&"*") || rules().intercept(server).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_proxy_names_is_reached_directly() {
        for (host, no_proxy, want) in [
            ("localhost", "", true),
            ("127.0.0.1", "", true),
            ("127.8.9.1", "", true),
            ("[::1]", "", true),
            ("api.example.com", "", false),
            ("api.example.com", "*", true),
            ("10.1.2.3", "*", true),
            ("api.example.com", "other.com, *", true),
            ("api.example.com", "api.example.com", true),
            ("API.Example.com", " api.EXAMPLE.com ,", true),
            ("api.example.com", "example.com", true),
            ("api.example.com", ".example.com", true),
            ("api.example.com", "other.com, *.example.com", true),
            ("example.com", "example.com", true),
            ("badexample.com", "example.com", false),
            ("api.example.com", "ple.com", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "2.3", false),
            ("10.1.2.3", "10.1.0.0/16", true),
            ("10.1.2.3", "10.2.0.0/16", false),
            ("10.1.2.3", "0.0.0.0/0", true),
            ("10.1.2.3", "10.1.2.3/32", true),
            ("10.1.2.3", "10.1.2.2/32", false),
            ("10.1.2.3", "10.0.0.0/33", false),
            ("10.1.2.3", "fd00::/8", false),
            ("[fd00::7]", "fd00::7", true),
            ("[fd00::7]", "fd00::/8", true),
            ("[fe80::7]", "fd00::/8", false),
            ("[fd00::7]", "::/0", true),
            ("api.example.com", "10.0.0.0/8", false),
        ] {
            let server = format!("https://{host}:6443").parse().unwrap();
            assert_eq!(is_direct(&server, no_proxy), want, "{host} {no_proxy}");
        }
    }

    #[test]
    fn the_proxy_of_the_kubeconfig_comes_before_the_environments() {
        let of = |proxy: &str, no_proxy: &str, server: &str, own: Option<&str>| {
            let settings = ProxySettings { proxy: proxy.to_owned(), no_proxy: no_proxy.to_owned() };
            settings.proxy(&server.parse().unwrap(), own).map(|proxy| proxy.to_string())
        };
        let (server, env) = ("https://api.example.com:6443", "http://proxy.example.com:3128");
        for (proxy, no_proxy, server, own, want) in [
            ("", "", server, None, None),
            (env, "", server, None, Some("http://proxy.example.com:3128/")),
            (env, "", server, Some(""), Some("http://proxy.example.com:3128/")),
            (env, "", server, Some("http://own:80"), Some("http://own:80/")),
            (env, "*", server, Some("http://own:80"), Some("http://own:80/")),
            (env, "api.example.com", server, None, None),
            // what the proxy itself is called has no meaning
            (env, "proxy.example.com", server, None, Some("http://proxy.example.com:3128/")),
            (env, "", "https://127.0.0.1:6443", None, None),
            ("proxy:3128", "", server, None, Some("http://proxy:3128/")),
        ] {
            let found = of(proxy, no_proxy, server, own);
            assert_eq!(found.as_deref(), want, "{proxy} {no_proxy} {server} {own:?}");
        }
    }

    #[test]
    fn a_cluster_has_a_proxy_of_its_own() {
        let file = "
contexts:
- {name: a, context: {cluster: a, user: u}}
- {name: b, context: {cluster: b, user: u}}
current-context: a
clusters:
- {name: a, cluster: {server: 'https://a'}}
- {name: b, cluster: {server: 'https://b', proxy-url: 'http://p:80'}}
";
        let file = Kubeconfig::from_yaml(file).unwrap();
        for (context, want) in [(None, None), (Some("b"), Some("http://p:80")), (Some("c"), None)] {
            assert_eq!(own_proxy(&file, context).as_deref(), want, "{context:?}");
        }
    }
}
