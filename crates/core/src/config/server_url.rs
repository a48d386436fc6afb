use std::fmt;
use std::str::FromStr;

/// The longest: a host of 253 characters, and a port.
const BYTES_MAX: usize = 270;

/// Where a server is reached: `https://`, a host, and perhaps a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl(String);

/// Why a text is no [`ServerUrl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be https:// with a host and an optional port, and no path, such as https://progress.example.com:8444"
)]
pub struct ServerUrlError;

impl ServerUrl {
    /// The whole URL, without a slash at its end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host: a DNS name, an IPv4 address, or an IPv6 address in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        split(&self.0).map_or("", |(host, _)| host)
    }
}

/// Host and port.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    let rest = text.strip_prefix("https://")?;
    match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => Some((host, Some(port))),
        Some(_) | None => Some((rest, None)),
    }
}

fn is_host(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let (bare, others) = inner.map_or((text, "-."), |inner| (inner, ":."));
    let fits = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
    !bare.is_empty() && bare.chars().all(fits)
}

impl FromStr for ServerUrl {
    type Err = ServerUrlError;

    fn from_str(text: &str) -> Result<Self, ServerUrlError> {
        let text = text.strip_suffix('/').unwrap_or(text);
        let (host, port) = split(text).ok_or(ServerUrlError)?;
        let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        if text.len() > BYTES_MAX || !is_host(host) || !is_port {
            return Err(ServerUrlError);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_perhaps_a_port() {
        for (text, host) in [
            ("https://a", "a"),
            ("https://a.b-c.svc:8444/", "a.b-c.svc"),
            ("https://10.0.0.1:1", "10.0.0.1"),
            ("https://[fd00::1]", "[fd00::1]"),
            ("https://[fd00::1]:65535", "[fd00::1]"),
        ] {
            let url: ServerUrl = text.parse().unwrap();
            assert_eq!(url.host(), host, "{text}");
            assert_eq!(url.as_str().parse(), Ok(url.clone()), "{text}");
            assert!(!url.as_str().ends_with('/'), "{text}");
        }
        let long = format!("https://{}", "a".repeat(270));
        for text in [
            "",
            "a",
            "http://a",
            "https://",
            "https://:1",
            "https://a:0",
            "https://a:65536",
            "https://a:",
            "https://a/b",
            "https://a//",
            "https://u@a",
            "https://a?b",
            "https://fd00::1",
            "https://[]",
            "https://a b",
            &long,
        ] {
            assert_eq!(text.parse::<ServerUrl>(), Err(ServerUrlError), "{text}");
        }
    }
}
