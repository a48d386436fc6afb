//! Who may ask: only a reader that knows the URL, on this machine. Other pages in the same browser may send requests
//! to loopback, also under a name of their own (DNS rebinding), so that the address alone admits nobody.

use std::fmt;

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use ring::rand::{SecureRandom, SystemRandom};

use super::super::Error;

/// Bytes of a token.
const TOKEN_BYTES: usize = 16;

/// The port of a URL that names none.
const HTTP_PORT: u16 = 80;

/// What an answer may load and do: only this server's own files, and no page of another origin may hold it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every answer. There are none for other origins (CORS).
pub(super) const HEADERS: [(header::HeaderName, HeaderValue); 6] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    // the token is in the URL
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        header::HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        header::HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// Admits requests.
#[derive(Clone)]
pub(super) struct Guard {
    token: String,
    hosts: Vec<String>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl Guard {
    /// For a server on this port of loopback, with a new token.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn new(port: u16) -> Result<Self, Error> {
        let mut bytes = [0; TOKEN_BYTES];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| Error::System("cannot read random numbers for a token".to_owned()))?;
        let token = format!("{:032x}", u128::from_be_bytes(bytes));
        let names = ["127.0.0.1", "localhost"];
        let mut hosts: Vec<String> = names.map(|name| format!("{name}:{port}")).into();
        if port == HTTP_PORT {
            hosts.extend(names.map(str::to_owned)); // browsers leave it out
        }
        Ok(Self { token, hosts })
    }

    /// The URL that admits.
    pub(super) fn url(&self) -> String {
        format!("http://{}/{}/", self.hosts[0], self.token)
    }

    /// The path below the token, where the request is admitted.
    ///
    /// # Errors
    /// The status of the refusal.
    pub(super) fn admit<'u>(
        &self,
        method: &Method,
        uri: &'u Uri,
        headers: &HeaderMap,
    ) -> Result<&'u str, StatusCode> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let is_ours = host.is_some_and(|host| self.hosts.iter().any(|ours| ours == host));
        if !is_ours || hosts.next().is_some() {
            return Err(StatusCode::FORBIDDEN);
        }
        let path = uri.path().strip_prefix('/').unwrap_or_default();
        let (token, below) = path.split_once('/').ok_or(StatusCode::FORBIDDEN)?;
        if !is_same(token, &self.token) {
            return Err(StatusCode::FORBIDDEN);
        }
        if method == Method::GET { Ok(below) } else { Err(StatusCode::METHOD_NOT_ALLOWED) }
    }
}

/// Whether two texts are the same, in a time that does not tell where they differ.
fn is_same(given: &str, secret: &str) -> bool {
    let differs = given.bytes().zip(secret.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == secret.len() && differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_url_on_loopback_is_admitted() {
        let guard = Guard::new(8001).unwrap();
        let token = guard.token.clone();
        assert_eq!(token.len(), 2 * TOKEN_BYTES);
        assert_ne!(token, Guard::new(8001).unwrap().token);
        assert!(!format!("{guard:?}").contains(&token));
        let ask = |method: Method, host: &[&str], path: &str| {
            let mut headers = HeaderMap::new();
            for host in host {
                headers.append(header::HOST, host.parse().unwrap());
            }
            let uri: Uri = path.parse().unwrap();
            guard.admit(&method, &uri, &headers).map(str::to_owned).map_err(|code| code.as_u16())
        };
        let own = ["127.0.0.1:8001"];
        let path = format!("/{token}/story?name=a");
        assert_eq!(ask(Method::GET, &own, &path), Ok("story".to_owned()));
        assert_eq!(ask(Method::GET, &["localhost:8001"], &path), Ok("story".to_owned()));
        assert_eq!(ask(Method::GET, &own, &format!("/{token}/")), Ok(String::new()));
        let rebound: [&[&str]; 5] =
            [&["evil.example:8001"], &["127.0.0.1"], &["127.0.0.1:80"], &[], &[own[0], own[0]]];
        for host in rebound {
            assert_eq!(ask(Method::GET, host, &path), Err(403), "{host:?}");
        }
        let default = Guard::new(80).unwrap();
        for (host, want) in
            [("127.0.0.1", true), ("localhost", true), ("127.0.0.1:80", true), ("evil", false)]
        {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            let uri: Uri = default.url().parse().unwrap();
            let admitted = default.admit(&Method::GET, &uri, &headers);
            assert_eq!(admitted.is_ok(), want, "{host}");
        }
        let longer = format!("/{token}0/story");
        for path in ["/", "/story", "//story", &path[..20], &format!("/{token}"), &longer] {
            assert_eq!(ask(Method::GET, &own, path), Err(403), "{path}");
        }
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::HEAD] {
            assert_eq!(ask(method.clone(), &own, &path), Err(405), "{method}");
        }
    }
}
