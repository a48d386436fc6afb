//! Reloads a configuration file that changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, LoadError};
use crate::locked::RwLocked;
use crate::reconcile::Context;
use crate::telemetry;

/// How often the file is looked at.
const RELOAD_EVERY: Duration = Duration::from_secs(1);

/// Reloads a changed configuration file; one with errors is reported, and the old one stays. `known` is what the file said
/// before the configuration in force was read from it; `adapt` makes of a configuration what this process runs with.
pub(super) async fn reload(
    context: Arc<Context>,
    path: PathBuf,
    mut known: Option<String>,
    adapt: fn(Config) -> Config,
) {
    let begun_with = context.config();
    let mut seen = known.clone();
    let mut ticks = tokio::time::interval(RELOAD_EVERY);
    loop {
        ticks.tick().await;
        let text = text_of(Some(&path)).await;
        // one that is being written in place is taken when two looks show the same
        let is_whole = text == seen;
        seen = text;
        if !is_whole || seen == known {
            continue;
        }
        known.clone_from(&seen);
        let loaded = match &known {
            Some(text) => Config::parse(text)
                .map_err(|source| LoadError::Invalid { path: path.clone(), source }),
            None => Config::load(&path), // says why it cannot be read
        };
        context.metrics.set_configuration_valid(loaded.is_ok());
        match loaded.map(adapt) {
            Ok(config) => {
                let sections = config.needs_restart(&begun_with).join(", ");
                *context.config.write_locked() = Arc::new(config);
                context.requeue_all();
                tracing::info!(file = %path.display(), "Reloaded the configuration.");
                if !sections.is_empty() {
                    tracing::warn!(sections, "Changed sections take effect after a restart.");
                }
            }
            Err(error) => {
                let cause = telemetry::chain(&error);
                tracing::error!(cause, "The configuration is invalid; keeping the previous one.");
            }
        }
    }
}

/// What the file says; none where there is none, or where it cannot be read.
pub(super) async fn text_of(path: Option<&Path>) -> Option<String> {
    tokio::fs::read_to_string(path?).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, SystemClock};
    use crate::controller::Controller;
    use crate::sim::{ApiServer, Store};

    /// Replaces the file at once, as the kubelet does, and tells the limit in force when it must have been
    /// looked at.
    async fn written(context: &Context, path: &Path, text: &str) -> i32 {
        let new = path.with_extension("new");
        tokio::fs::write(&new, text).await.unwrap();
        tokio::fs::rename(&new, path).await.unwrap();
        tokio::time::sleep(RELOAD_EVERY * 3).await;
        let config = context.config.read().unwrap();
        config.retry_policy.global_max_retries
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_taken_over_and_one_with_errors_is_not() {
        let client = ApiServer::new(Store::new(SystemClock.now())).client();
        let controller = Controller::new(client, Arc::new(SystemClock), Config::default());
        let context = controller.context.clone();
        let name = format!("appwrapper-reload-{}.yaml", std::process::id());
        let path = std::env::temp_dir().join(name);
        // it has changed since the configuration was read
        tokio::fs::write(&path, "retryPolicy: {globalMaxRetries: 9}").await.unwrap();
        let adapt = |mut config: Config| {
            config.metrics.secure = false;
            config
        };
        let known = Some("{}".to_owned());
        let task = tokio::spawn(reload(context.clone(), path.clone(), known, adapt));
        tokio::time::sleep(RELOAD_EVERY * 3).await;
        assert_eq!(context.config.read().unwrap().retry_policy.global_max_retries, 9);
        assert!(!context.config.read().unwrap().metrics.secure, "it is adapted as the first one");
        let of = async |text: &str| written(&context, &path, text).await;
        let is_shown = |line: &str| context.metrics.page().contains(line);
        assert_eq!(of("retryPolicy: {globalMaxRetries: 7}").await, 7);
        assert!(is_shown("appwrapper_configuration_valid 1\n"));
        assert_eq!(of("retryPolicy: {globalMaxRetries: -1}").await, 7, "the old one stays");
        assert!(is_shown("appwrapper_configuration_valid 0\n"));
        assert_eq!(of("retryPolicy: {globalMaxRetries: 0}").await, 0);
        assert!(is_shown("appwrapper_configuration_valid 1\n"));
        task.abort();
        tokio::fs::remove_file(&path).await.unwrap();
    }
}
