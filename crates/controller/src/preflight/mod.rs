//! What to tell an administrator when the controller starts: settings around it that will cause trouble.
//!
//! Each check is a pure function of what was read. Nothing here keeps the controller from working, and
//! what cannot be read is reported, not guessed.

mod fit;
mod follow;
mod kueue;
mod quota;
mod rights;

pub use follow::follow;

use std::fmt;

use kube::Client;

use crate::certificate::{MUTATING, VALIDATING};
use crate::config::Config;

/// One sentence for an administrator: what is not as it should be, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice(pub(crate) String);

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Checks Kueue, the controller's own permissions and the configuration.
pub async fn warnings(client: &Client, config: &Config) -> Vec<Notice> {
    let mut notices: Vec<Notice> = unchecked(config).into_iter().collect();
    notices.extend(of_kueue(client, config).await);
    notices.extend(rights::look(client, &config.admission).await);
    notices.extend(rights::progress(client, &config.progress_server).await);
    notices.extend(rights::logs(client, &config.failure_logs).await);
    notices.extend(rights::history(client, &config.history).await);
    notices
}

/// Checks Kueue alone, which only reads.
pub async fn of_kueue(client: &Client, config: &Config) -> Vec<Notice> {
    kueue::look(client, config).await
}

/// The webhook is off.
fn unchecked(config: &Config) -> Option<Notice> {
    let requester = if config.admission.require_requester {
        "; admission.requireRequester is true: new AppWrappers fail unless another webhook sets \
         spec.requester; set it to false otherwise"
    } else {
        ""
    };
    (!config.webhook.enabled).then(|| {
        Notice(format!(
            "webhook.enabled is false: only the rules of the CustomResourceDefinition apply, \
             nothing checks whether users may create the resources that they wrap, and malformed \
             AppWrappers fail when they run; set it to true unless another webhook does these \
             checks; if it stays false, delete the webhook configurations {MUTATING} and \
             {VALIDATING}, or new and changed AppWrappers are denied{requester}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_that_is_off_is_mentioned() {
        assert_eq!(unchecked(&Config::default()), None);
        let off = Config::parse("webhook: {enabled: false}").unwrap();
        let said = unchecked(&off).unwrap().to_string();
        assert!(said.starts_with("webhook.enabled is false: only the rules of"), "{said}");
        let both = "appwrapper-mutating-webhook and appwrapper-validating-webhook";
        assert!(said.contains(&format!("delete the webhook configurations {both}, ")), "{said}");
        let requires = "webhook: {enabled: false}\nadmission: {requireRequester: true}";
        let requires = unchecked(&Config::parse(requires).unwrap()).unwrap().to_string();
        assert!(requires.contains("requireRequester") && !said.contains("requireRequester"));
    }
}
