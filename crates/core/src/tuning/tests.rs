use super::*;

fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| (format!("{}{name}", keys::ANNOTATION_PREFIX), (*value).to_owned()))
        .collect()
}

fn of(pairs: &[(&str, &str)]) -> (Limits, Vec<String>) {
    let (limits, remarks) = Limits::of(&given(pairs), &FaultTolerance::default());
    let texts = remarks.iter().map(|remark| format!("{}: {remark}", remark.severity)).collect();
    (limits, texts)
}

#[test]
fn without_annotations_the_defaults_hold() {
    let (limits, remarks) = of(&[]);
    let defaults = FaultTolerance::default();
    assert_eq!(remarks, Vec::<String>::new());
    assert_eq!(limits.admission_grace.to_string(), "1m");
    assert_eq!(limits.warmup_grace.to_string(), "5m");
    assert_eq!(limits.failure_grace.to_string(), "1m");
    assert_eq!(limits.retry_pause.to_string(), "1m30s");
    assert_eq!(limits.retry_limit, 3);
    assert_eq!(limits.deletion_on_failure_grace, Period::ZERO);
    assert_eq!(limits.forceful_deletion_grace.to_string(), "10m");
    assert_eq!(limits.success_ttl, defaults.success_ttl);
    assert!(limits.terminal_exit_codes.is_empty() && limits.retryable_exit_codes.is_empty());
}

#[test]
fn every_annotation_is_read() {
    let (limits, remarks) = of(&[
        ("admissionGracePeriodDuration", "1s"),
        ("warmupGracePeriodDuration", "2s"),
        ("failureGracePeriodDuration", "3s"),
        ("retryPausePeriodDuration", "4s"),
        ("retryLimit", "5"),
        ("deletionOnFailureGracePeriodDuration", "6s"),
        ("forcefulDeletionGracePeriodDuration", "7s"),
        ("successTTLDuration", "0"),
        ("terminalExitCodes", "1, 2"),
        ("retryableExitCodes", "3"),
        ("retryPolicies", "infra, ml-training"),
        ("active", "false"),
    ]);
    assert_eq!(remarks, Vec::<String>::new());
    let second = Period::from_secs;
    assert_eq!(
        limits,
        Limits {
            admission_grace: second(1),
            warmup_grace: second(2),
            failure_grace: second(3),
            retry_pause: second(4),
            retry_limit: 5,
            deletion_on_failure_grace: second(6),
            forceful_deletion_grace: second(7),
            success_ttl: Period::ZERO,
            terminal_exit_codes: [1, 2].into(),
            retryable_exit_codes: [3].into(),
            retry_policies: vec!["infra".to_owned(), "ml-training".to_owned()],
            active: Some(false),
        }
    );
}

#[test]
fn a_malformed_value_leaves_the_default() {
    let (defaults, _) = of(&[]);
    for (name, value, fragment) in [
        ("warmupGracePeriodDuration", "-1h", "must not be negative"),
        ("warmupGracePeriodDuration", "", "must be a duration like"),
        ("warmupGracePeriodDuration", "5 days", "must be a duration like"),
        ("retryPausePeriodDuration", "9999999999999999999s", "must be at most 2562047h"),
        ("active", "False", r#"must be "true" or "false""#),
        ("active", "", r#"must be "true" or "false""#),
        ("retryLimit", "-1", "must be a whole number from 0 to 2147483647"),
        ("retryLimit", "4294967296", "must be a whole number"),
        ("retryLimit", "2147483648", "must be a whole number"),
        ("retryLimit", "3.5", "must be a whole number"),
        ("retryLimit", "1e3", "must be a whole number"),
        ("retryLimit", "", "must be a whole number"),
        ("terminalExitCodes", "1,,2", "has an empty item"),
        ("retryableExitCodes", "1;2", "\"1;2\" is not an exit code"),
        ("retryPolicies", "a,,b", "has an empty item"),
        ("retryPolicies", "A", "\"A\" is not the name of a RetryPolicy"),
    ] {
        let (limits, remarks) = of(&[(name, value)]);
        let start = format!(
            "error: metadata.annotations[{}{name}]: Invalid value: {value:?}: ",
            keys::ANNOTATION_PREFIX
        );
        assert_eq!(limits, defaults, "{name}={value}");
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        assert!(remarks[0].starts_with(&start) && remarks[0].contains(fragment), "{remarks:?}");
    }
}

#[test]
fn a_long_period_is_clipped_with_a_warning() {
    let (limits, remarks) =
        of(&[("failureGracePeriodDuration", "25h"), ("successTTLDuration", "8d")]);
    assert_eq!(limits.failure_grace, FaultTolerance::default().grace_maximum);
    assert_eq!(limits.success_ttl, FaultTolerance::default().success_ttl);
    let prefix = keys::ANNOTATION_PREFIX;
    let start = format!("warning: metadata.annotations[{prefix}");
    assert_eq!(
        remarks,
        [
            format!("{start}failureGracePeriodDuration]: \"25h\": capped at 24h"),
            format!("{start}successTTLDuration]: \"8d\": capped at 7d"),
        ]
    );
    let (limits, remarks) =
        of(&[("failureGracePeriodDuration", "24h"), ("successTTLDuration", "7d")]);
    assert_eq!(limits.failure_grace, FaultTolerance::default().grace_maximum);
    assert_eq!(remarks, Vec::<String>::new());
}

#[test]
fn a_code_in_both_lists_makes_both_void() {
    let (limits, remarks) =
        of(&[("terminalExitCodes", "1,2,3"), ("retryableExitCodes", "3, 2, 9")]);
    assert!(limits.terminal_exit_codes.is_empty() && limits.retryable_exit_codes.is_empty());
    assert_eq!(remarks.len(), 1);
    assert!(remarks[0].contains("retryableExitCodes]: Invalid value: \"3, 2, 9\": 2,3 also in "));
}

#[test]
fn an_unknown_key_is_a_warning_that_names_the_nearest() {
    let (_, remarks) = of(&[("priority", "1"), ("retryLimitt", "5"), ("tas-sub-group-count", "1")]);
    let prefix = keys::ANNOTATION_PREFIX;
    let far = "unknown annotation, has no effect; must be one of admissionGracePeriodDuration, ";
    assert!(remarks[0].contains(far), "{remarks:?}");
    assert_eq!(
        remarks[1..],
        [
            format!(
                "warning: metadata.annotations[{prefix}retryLimitt]: \"5\": \
                 unknown annotation, has no effect; did you mean retryLimit?"
            ),
            format!(
                "warning: metadata.annotations[{prefix}tas-sub-group-count]: \"1\": \
                 has no effect here: it belongs in the annotations of a pod set"
            ),
        ]
    );
    let foreign = BTreeMap::from([("example.com/retryLimitt".to_owned(), "5".to_owned())]);
    assert_eq!(Limits::of(&foreign, &FaultTolerance::default()).1, vec![]);
}

#[test]
fn an_annotation_with_the_prefix_of_the_group_is_a_warning_that_names_the_right_one() {
    let group = "workload.codeflare.dev/";
    let prefix = keys::ANNOTATION_PREFIX;
    let of = |names: &[&str]| -> Vec<String> {
        let all = names.iter().map(|name| (format!("{group}{name}"), "5".to_owned())).collect();
        let (limits, remarks) = Limits::of(&all, &FaultTolerance::default());
        assert_eq!(limits, self::of(&[]).0, "{names:?}");
        remarks.iter().map(|remark| format!("{}: {remark}", remark.severity)).collect()
    };
    for (name, want) in [
        ("retryLimit", "has no effect; did you mean {prefix}retryLimit?"),
        ("retrylimits", "has no effect; did you mean {prefix}retryLimit?"),
        ("retry-policies", "has no effect on an AppWrapper; did you mean {prefix}retryPolicies?"),
    ] {
        let start = format!("warning: metadata.annotations[{group}{name}]: \"5\": ");
        assert_eq!(of(&[name]), [start + &want.replace("{prefix}", prefix)]);
    }
    for name in ["policies", "exported-at", "progress", "team"] {
        assert_eq!(of(&[name]), Vec::<String>::new(), "{name}");
    }
    let names: Vec<String> = (0..UNKNOWN_MAX + 5).map(|i| format!("retryLimit{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(of(&names).len(), UNKNOWN_MAX);
}
