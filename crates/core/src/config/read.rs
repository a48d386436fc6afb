use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::error::{Errors, Problem};
use super::section::Section;
use super::{
    Admission, Autopilot, Backoff, BackoffError, CONDITIONS, CategoryMatcher, Config, Effect,
    FailureCategory, Health, LeaderElection, Metrics, OverQuotaAction, PodsOverQuota,
    ProgressServer, REFILL_AFTER_MIN, RetryDefaults, ServerUrlError, Taint, Webhook,
};
use super::{failure_logs, history, suspicion};
use crate::api::ExitCodeOperator;
use crate::pattern::Pattern;
use crate::tuning::{FaultTolerance, Period, names};

/// The most categories of failures: each is tried at each failure.
pub(super) const CATEGORIES_MAX: usize = 100;

pub(super) fn config(text: &str) -> Result<Config, Errors> {
    let mut problems = vec![];
    let file = match serde_saphyr::from_str_with_options::<Value>(text, options()) {
        Ok(file) if file["kind"] == "ConfigMap" => {
            let message = "must be the configuration itself, not a ConfigMap: pass the text of \
                           its key appwrapper.yaml";
            problems.push(Problem::new("kind", Some("ConfigMap"), message));
            Value::Null
        }
        Ok(file) => file,
        Err(serde_saphyr::Error::MultipleDocuments { .. }) => {
            problems.push(Problem::new("", None, "must be one YAML document"));
            Value::Null
        }
        Err(error) => {
            problems.push(Problem::new("", None, format!("invalid YAML: {error}")));
            Value::Null
        }
    };
    let config = Section::root(&file, &mut problems).read(root);
    match Errors::of(problems) {
        Some(errors) => Err(errors),
        None => Ok(config),
    }
}

/// One line for an error, without the part of the file around it. Booleans are those of YAML 1.2: `Off` is also a
/// value of `nodeSuspicion.effect`.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! { with_snippet: false, strict_booleans: true }
}

fn root(root: &mut Section<'_>) -> Config {
    let fault_tolerance = root.section("faultTolerance", fault_tolerance);
    let retry_policy = root.section("retryPolicy", retry_policy);
    let failure_categories = failure_categories(root);
    let config = Config {
        fault_tolerance,
        retry_policy,
        failure_logs: root.section("failureLogs", failure_logs::read),
        history: root.section("history", history::read),
        autopilot: root.section("autopilot", autopilot),
        node_suspicion: root
            .section("nodeSuspicion", |section| suspicion::read(section, &failure_categories)),
        admission: root.section("admission", admission),
        scheduler_name: root.name("schedulerName"),
        webhook: root.section("webhook", webhook),
        progress_server: root.section("progressServer", progress_server),
        metrics: root.section("metrics", |section| {
            let default = Metrics::default();
            Metrics {
                address: section.address("address", default.address),
                secure: section.flag("secure", default.secure),
            }
        }),
        health: root.section("health", |section| Health {
            address: section.address("address", Health::default().address),
        }),
        leader_election: root.section("leaderElection", leader_election),
        failure_categories,
    };
    check_addresses(root, &config);
    config
}

/// Two servers cannot listen at one address.
fn check_addresses(root: &mut Section<'_>, config: &Config) {
    let Config { webhook, progress_server, metrics, health, .. } = config;
    let listeners = [
        ("webhook.address", webhook.enabled.then_some(webhook.address)),
        ("progressServer.address", progress_server.enabled.then_some(progress_server.address)),
        ("metrics.address", Some(metrics.address)),
        ("health.address", Some(health.address)),
    ];
    let listeners: Vec<_> =
        listeners.into_iter().filter_map(|(field, at)| Some((field, at?))).collect();
    for (index, (field, at)) in listeners.iter().enumerate() {
        let taken = listeners[..index].iter().find(|(_, other)| {
            let meets =
                other.ip() == at.ip() || [other, at].iter().any(|it| it.ip().is_unspecified());
            meets && other.port() == at.port() && at.port() != 0
        });
        if let Some((other, _)) = taken {
            root.problem(field, Some(&at.to_string()), format!("must differ from {other}"));
        }
    }
}

fn fault_tolerance(section: &mut Section<'_>) -> FaultTolerance {
    let default = FaultTolerance::default();
    let read = FaultTolerance {
        admission_grace: section.period("admissionGracePeriod", default.admission_grace),
        warmup_grace: section.period("warmupGracePeriod", default.warmup_grace),
        failure_grace: section.period("failureGracePeriod", default.failure_grace),
        retry_pause: section.period("retryPausePeriod", default.retry_pause),
        retry_limit: section.whole("retryLimit", 0..=i32::MAX, default.retry_limit),
        deletion_on_failure_grace: section
            .period("deletionOnFailureGracePeriod", default.deletion_on_failure_grace),
        forceful_deletion_grace: section
            .period("forcefulDeletionGracePeriod", default.forceful_deletion_grace),
        success_ttl: section.period("successTTL", default.success_ttl),
        grace_maximum: section.period("gracePeriodMaximum", default.grace_maximum),
    };
    for (name, period) in [
        ("admissionGracePeriod", read.admission_grace),
        ("warmupGracePeriod", read.warmup_grace),
        ("failureGracePeriod", read.failure_grace),
        ("retryPausePeriod", read.retry_pause),
        ("deletionOnFailureGracePeriod", read.deletion_on_failure_grace),
        ("forcefulDeletionGracePeriod", read.forceful_deletion_grace),
    ] {
        if period > read.grace_maximum {
            let message = format!("must be at most gracePeriodMaximum ({})", read.grace_maximum);
            section.problem(name, Some(&period.to_string()), message);
        }
    }
    if read.admission_grace > read.warmup_grace {
        let message = format!("must be at most warmupGracePeriod ({})", read.warmup_grace);
        let value = read.admission_grace.to_string();
        section.problem("admissionGracePeriod", Some(&value), message);
    }
    read
}

fn retry_policy(section: &mut Section<'_>) -> RetryDefaults {
    let default = RetryDefaults::default();
    RetryDefaults {
        global_max_retries: section.whole(
            "globalMaxRetries",
            0..=i32::MAX,
            default.global_max_retries,
        ),
        max_uncounted_restarts: section.whole(
            "maxUncountedRestarts",
            0..=i32::MAX,
            default.max_uncounted_restarts,
        ),
        default_policy_name: section.name("defaultPolicyName"),
        default_backoff: if section.has("defaultBackoff") {
            section.section("defaultBackoff", backoff)
        } else {
            None
        },
        refill_after: if section.has("refill") {
            section.section("refill", refill_after)
        } else {
            None
        },
    }
}

fn refill_after(section: &mut Section<'_>) -> Option<Period> {
    if !section.has("after") {
        section.problem("after", None, "must be given");
    }
    let after = section.maybe_period("after")?;
    if after < REFILL_AFTER_MIN {
        let message = format!("must be at least {REFILL_AFTER_MIN}");
        section.problem("after", Some(&after.to_string()), message);
    }
    Some(after)
}

fn backoff(section: &mut Section<'_>) -> Option<Backoff> {
    if !section.has("initialDelay") {
        section.problem("initialDelay", None, "must be given");
    }
    let initial = section.maybe_period("initialDelay");
    let multiplier = section.number("multiplier", Backoff::MULTIPLIER);
    let maximum = section.period("maxDelay", Backoff::MAX_DELAY);
    // the multiplier is judged also where the delay is missing
    match Backoff::new(initial.unwrap_or_default(), multiplier, maximum) {
        Ok(backoff) => initial.map(|_| backoff),
        Err(BackoffError::Order(initial, maximum)) => {
            let message = format!("must be at most maxDelay ({maximum})");
            section.problem("initialDelay", Some(&initial.to_string()), message);
            None
        }
        Err(_) => {
            section.problem("multiplier", Some(&multiplier.to_string()), "must be 1 or more");
            None
        }
    }
}

fn failure_categories(root: &mut Section<'_>) -> Vec<FailureCategory> {
    let categories = root.sections("failureCategories", CATEGORIES_MAX, category);
    let mut seen = BTreeSet::new();
    for category in &categories {
        if !seen.insert(&category.name) {
            let message = "must be unique among the failure categories";
            root.problem("failureCategories", Some(&category.name), message);
        }
    }
    categories
}

fn category(section: &mut Section<'_>) -> Option<FailureCategory> {
    let name = section.text("name");
    match &name {
        None => section.problem("name", None, "must be given"),
        Some(text) if !is_category(text) => section.problem("name", Some(text), CATEGORY),
        Some(_) => {}
    }
    let matchers = ["onExitCodes", "onTerminationMessage", "onConditions"];
    let given: Vec<_> = matchers.into_iter().filter(|name| section.has(name)).collect();
    let matcher = match given[..] {
        ["onExitCodes"] => section.section("onExitCodes", exit_codes),
        ["onTerminationMessage"] => section.section("onTerminationMessage", termination_message),
        ["onConditions"] => conditions(section),
        _ => {
            let given = given.join(", ");
            let message =
                "must have exactly one of onExitCodes, onTerminationMessage, onConditions";
            section.problem("", (!given.is_empty()).then_some(&given), message);
            None
        }
    };
    Some(FailureCategory { name: name.filter(|text| is_category(text))?, matcher: matcher? })
}

pub(super) const CATEGORY: &str = "must be 1 to 63 lower-case letters, digits, '-' or '_', beginning and ending with a letter or digit";

/// An RFC 1123 label, and the underscore that names such as `cuda_error` have.
pub(super) fn is_category(text: &str) -> bool {
    names::is_label(&text.replace('_', "-"))
}

fn exit_codes(section: &mut Section<'_>) -> Option<CategoryMatcher> {
    let operators = [("In", ExitCodeOperator::In), ("NotIn", ExitCodeOperator::NotIn)];
    let operator = section.choice("operator", &operators);
    let values = section.codes("values", operator != Some(ExitCodeOperator::In));
    if section.is_empty("values") {
        section.problem("values", None, "must have at least one exit code");
    }
    Some(CategoryMatcher::ExitCodes { operator: operator?, values })
}

fn termination_message(section: &mut Section<'_>) -> Option<CategoryMatcher> {
    let text = section.text("pattern").unwrap_or_default();
    match Pattern::new(&text) {
        Ok(pattern) => Some(CategoryMatcher::TerminationMessage(pattern)),
        Err(error) => {
            section.problem("pattern", Some(&text), error.to_string());
            None
        }
    }
}

fn conditions(section: &mut Section<'_>) -> Option<CategoryMatcher> {
    let named = section.texts("onConditions", |text| {
        let known = CONDITIONS.contains(&text);
        known
            .then(|| text.to_owned())
            .ok_or_else(|| format!("must be one of {}", CONDITIONS.join(", ")))
    });
    if section.is_empty("onConditions") {
        section.problem("onConditions", None, "must have at least one condition");
    }
    (!named.is_empty()).then_some(CategoryMatcher::Conditions(named))
}

fn autopilot(section: &mut Section<'_>) -> Autopilot {
    let default = Autopilot::default();
    Autopilot {
        inject_anti_affinities: section
            .flag("injectAntiAffinities", default.inject_anti_affinities),
        monitor_nodes: section.flag("monitorNodes", default.monitor_nodes),
        resource_taints: if section.has("resourceTaints") {
            section.lists("resourceTaints", taint).into_iter().collect()
        } else {
            default.resource_taints
        },
    }
}

fn taint(section: &mut Section<'_>) -> Option<Taint> {
    let key = section.text("key");
    if key.is_none() {
        section.problem("key", None, "must be given");
    }
    let value = section.text("value").unwrap_or_default();
    if let Some(key) = key.as_ref().filter(|key| !names::is_qualified(key)) {
        section.problem("key", Some(key), names::QUALIFIED);
    }
    if !value.is_empty() && !names::is_label_value(&value) {
        section.problem("value", Some(&value), names::LABEL_VALUE);
    }
    let effects = [Effect::PreferNoSchedule, Effect::NoSchedule, Effect::NoExecute];
    let effect = section.choice("effect", &effects.map(|effect| (effect.as_str(), effect)));
    Some(Taint { key: key?, value, effect: effect? })
}

/// The name of a queue, which becomes the value of a label.
fn queue(section: &mut Section<'_>) -> Option<String> {
    let name = section.name("defaultQueueName")?;
    if name.len() > names::LABEL_MAX {
        section.problem("defaultQueueName", Some(&name), names::LABEL_VALUE);
        return None;
    }
    Some(name)
}

fn admission(section: &mut Section<'_>) -> Admission {
    let default = Admission::default();
    Admission {
        default_queue_name: queue(section),
        user_rbac_admission_check: section
            .flag("userRBACAdmissionCheck", default.user_rbac_admission_check),
        allowed_kinds: section.texts("allowedKinds", |text| {
            text.parse().map_err(|error: super::AllowedKindError| error.to_string())
        }),
        kueue_account: section.text("kueueAccount").unwrap_or(default.kueue_account),
        refuse_foreground_deletion: section
            .flag("refuseForegroundDeletion", default.refuse_foreground_deletion),
        require_requester: section.flag("requireRequester", default.require_requester),
        pods_over_quota: section.section("podsOverQuota", pods_over_quota),
    }
}

fn pods_over_quota(section: &mut Section<'_>) -> PodsOverQuota {
    let default = PodsOverQuota::default();
    let actions = [("Report", OverQuotaAction::Report), ("Suspend", OverQuotaAction::Suspend)];
    let given = section.has("action");
    let action = given.then(|| section.choice("action", &actions)).flatten();
    PodsOverQuota {
        action: action.unwrap_or(default.action),
        grace: section.period("gracePeriod", default.grace),
    }
}

fn webhook(section: &mut Section<'_>) -> Webhook {
    let default = Webhook::default();
    Webhook {
        enabled: section.flag("enabled", default.enabled),
        address: section.address("address", default.address),
        cert_dir: section.text("certDir").map(PathBuf::from),
        client_ca_file: section.text("clientCAFile").map(PathBuf::from),
    }
}

fn progress_server(section: &mut Section<'_>) -> ProgressServer {
    let default = ProgressServer::default();
    let text = section.text("url");
    let url = text.as_ref().and_then(|text| text.parse().ok());
    if let (Some(text), None) = (&text, &url) {
        section.problem("url", Some(text), ServerUrlError.to_string());
    }
    ProgressServer {
        enabled: section.flag("enabled", default.enabled),
        address: section.address("address", default.address),
        url,
    }
}

fn leader_election(section: &mut Section<'_>) -> LeaderElection {
    let default = LeaderElection::default();
    let read = LeaderElection {
        enabled: section.flag("enabled", default.enabled),
        namespace: section.name("namespace"),
        name: section.name("name").unwrap_or(default.name),
        lease_duration: section.period("leaseDuration", default.lease_duration),
        renew_deadline: section.period("renewDeadline", default.renew_deadline),
        retry_period: section.period("retryPeriod", default.retry_period),
    };
    let LeaderElection { lease_duration, renew_deadline, retry_period, .. } = &read;
    if lease_duration.as_duration().subsec_nanos() > 0 {
        let value = lease_duration.to_string();
        section.problem("leaseDuration", Some(&value), "must be a whole number of seconds");
    }
    if renew_deadline >= lease_duration {
        let message = format!("must be less than leaseDuration ({lease_duration})");
        section.problem("renewDeadline", Some(&renew_deadline.to_string()), message);
    }
    if retry_period >= renew_deadline || retry_period.as_duration().is_zero() {
        let message =
            format!("must be greater than 0 and less than renewDeadline ({renew_deadline})");
        section.problem("retryPeriod", Some(&retry_period.to_string()), message);
    }
    read
}
