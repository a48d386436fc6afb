//! Logs, and how errors are written in them.

use std::env::VarError;
use std::io::IsTerminal;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::FromEnvError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::debug_fn;

use crate::printable::escape;

/// What is logged unless `RUST_LOG` says otherwise: our own changes, and warnings of the rest. The Kubernetes
/// client warns with the whole answer that it could not read, which may be a Secret, and logs each call that fails; what
/// went wrong is in the error that we log.
pub const DEFAULT_FILTER: &str = "warn,appwrapper=info,kube_client=error,kube_client::client::builder=off,hyper=error,rustls=error";

/// Starts logging to standard error, filtered by `RUST_LOG`.
pub fn init(json: bool) {
    let (filter, wrong) = filter(EnvFilter::try_from_default_env());
    let colours = std::io::stderr().is_terminal();
    let logs = subscriber(json, filter, colours, std::io::stderr);
    // Fails only where a test has started logging already.
    drop(tracing::subscriber::set_global_default(logs));
    if let Some(cause) = wrong {
        tracing::warn!(cause, "RUST_LOG is invalid; the default filter applies.");
    }
}

/// Logs as JSON whatever `RUST_LOG` leaves out of errors: why the process ends.
pub fn unfiltered(log: impl FnOnce()) {
    let logs = subscriber(true, EnvFilter::new("error"), false, std::io::stderr);
    tracing::subscriber::with_default(logs, log);
}

/// The filter of the environment, or the default one; and what is wrong with the former, where it is set.
fn filter(read: Result<EnvFilter, FromEnvError>) -> (EnvFilter, Option<String>) {
    let error = match read {
        Ok(filter) => return (filter, None),
        Err(error) => error,
    };
    let source = std::error::Error::source(&error);
    let unread = source.and_then(|source| source.downcast_ref::<VarError>());
    let is_unset = unread == Some(&VarError::NotPresent);
    (EnvFilter::new(DEFAULT_FILTER), (!is_unset).then(|| chain(&error)))
}

/// Writes a line for each event: text, or one JSON object with the event's own fields at the top and
/// those of the reconcile that it happened in under `span`.
pub fn subscriber<W>(
    json: bool,
    filter: EnvFilter,
    colours: bool,
    writer: W,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let logs =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(writer);
    if json {
        Box::new(logs.json().flatten_event(true).with_span_list(false).finish())
    } else {
        // a line is one event: foreign text must not contain line breaks or terminal escapes
        let fields = debug_fn(|writer, field, value| {
            let text = format!("{value:?}");
            match field.name() {
                "message" => write!(writer, "{}", escape(&text)),
                name => write!(writer, "{name}={}", escape(&text)),
            }
        });
        Box::new(logs.fmt_fields(fields.delimited(" ")).finish())
    }
}

/// Logs panics in the usual format: the location, and the message if it is a constant. A formatted message
/// may quote an object.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        let text = panic.payload().downcast_ref::<&str>();
        tracing::error!(location, text, "Internal error.");
    }));
}

/// An error and its causes, on one line. Errors of some libraries end with the text of their cause: it is said once.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.ends_with(&said) {
            text += &format!(": {said}");
        }
        source = cause.source();
    }
    text
}

/// Counts the lines that this thread logs, until the guard is dropped.
#[cfg(test)]
pub(crate) fn count_lines()
-> (std::sync::Arc<std::sync::atomic::AtomicUsize>, tracing::subscriber::DefaultGuard) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let lines = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = lines.clone();
    let layer = tracing_subscriber::fmt().with_writer(move || {
        counted.fetch_add(1, Ordering::SeqCst); // once for each line
        std::io::sink()
    });
    (lines, tracing::subscriber::set_default(layer.finish()))
}

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::testing::keep_lines;
    use super::*;
    use crate::observe::cached_appwrapper::CachedAppWrapper;

    #[test]
    #[expect(clippy::cognitive_complexity, reason = "each line is a macro")]
    fn what_libraries_quote_is_not_logged() {
        let (written, guard) = keep_lines(false, DEFAULT_FILTER);
        tracing::warn!(target: "kube_client::client", "{{password: secret-1}}, error");
        tracing::warn!(target: "hyper::proto::h1", "secret-3");
        tracing::warn!(target: "rustls::conn", "secret-4");
        tracing::warn!(target: "elsewhere", "told-1");
        tracing::info!(target: "appwrapper::controller", "told-2");
        tracing::error!(target: "kube_client::client", "told-3");
        tracing::error!(target: "kube_client::client::builder", "secret-5");
        drop(guard);
        let text = written.text();
        assert!(!text.contains("secret"), "{text}");
        assert_eq!(text.matches("told-").count(), 3, "{text}");
    }

    /// Also where only warnings are logged.
    #[test]
    fn a_line_of_a_reconcile_names_its_appwrapper_under_every_filter() {
        let meta = json!({"name": "a", "namespace": "n", "uid": "u"});
        let meta = serde_json::from_value(meta).unwrap();
        let stored = CachedAppWrapper::unreadable(meta, "flaw".to_owned());
        for (is_json, filter, want) in [
            (false, "warn", r#"namespace="n" appwrapper="a" uid="u""#),
            (true, "warn", r#""appwrapper":"a""#),
            (false, "error", r#"namespace="n" appwrapper="a" uid="u""#),
        ] {
            let (lines, guard) = keep_lines(is_json, filter);
            crate::reconcile::span(&stored).in_scope(|| tracing::error!("Failed."));
            drop(guard);
            let text = lines.text();
            assert!(text.contains(want), "{filter}: {text}");
        }
    }

    #[test]
    fn a_filter_that_is_wrong_is_said_and_one_that_is_left_out_is_not() {
        let default = EnvFilter::new(DEFAULT_FILTER).to_string();
        let given = |text: &str| EnvFilter::try_new(text).map_err(FromEnvError::from);
        for (read, want, is_said) in [
            (given("appwrapper=debug"), "appwrapper=debug", false),
            (given("appwrapper=loud"), &default, true),
            (Err(VarError::NotUnicode("\u{1}".into()).into()), &default, true),
            (Err(VarError::NotPresent.into()), &default, false),
        ] {
            let (filter, wrong) = filter(read);
            assert_eq!(filter.to_string(), want);
            assert_eq!(wrong.is_some(), is_said, "{wrong:?}");
        }
    }

    #[test]
    fn a_cause_that_an_error_names_itself_is_said_once() {
        #[derive(Debug, thiserror::Error)]
        enum Nested {
            #[error("the watch failed: {0}")]
            Named(#[source] Box<Self>),
            #[error("reading failed")]
            Silent(#[source] Box<Self>),
            #[error("timed out")]
            Last,
        }
        let silent = || Nested::Silent(Nested::Last.into());
        for (error, want) in [
            (Nested::Last, "timed out"),
            (silent(), "reading failed: timed out"),
            (Nested::Named(silent().into()), "the watch failed: reading failed: timed out"),
            (Nested::Named(Nested::Last.into()), "the watch failed: timed out"),
        ] {
            assert_eq!(chain(&error), want);
        }
    }

    #[test]
    fn what_others_wrote_makes_no_line_of_its_own() {
        let hostile = "a\x1b[2J\n2026-01-01T00:00:00Z  INFO forged\r\u{202e}";
        for json in [false, true] {
            let (lines, guard) = keep_lines(json, "trace");
            let span = tracing::info_span!("look", name = hostile, shown = %hostile);
            span.in_scope(|| {
                let error = std::io::Error::other(hostile);
                tracing::warn!(%error, hostile, debug = ?hostile, "Said {hostile}.");
            });
            drop(guard);
            let text = lines.text();
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(!text.contains('\x1b') && !text.contains('\r'), "{text}");
            assert!(text.contains("Said a"), "{text}");
        }
    }
}
