//! Annotations, policies, retry policies: rows 1 to 33.

#![expect(clippy::too_many_lines, reason = "a row has a few lines")]

use super::*;

pub(super) fn annotations() -> Vec<Row> {
    const WARMUP: &str =
        "metadata.annotations[workload.codeflare.dev.appwrapper/warmupGracePeriodDuration]";
    const LIMIT: &str = "metadata.annotations[workload.codeflare.dev.appwrapper/retryLimit]";
    const CODES: &str = "metadata.annotations[workload.codeflare.dev.appwrapper/terminalExitCodes]";
    let warmup = |text: &str| annotated("warmupGracePeriodDuration", text);
    let limit = |text: &str| annotated("retryLimit", text);
    let terminal = |text: &str| annotated("terminalExitCodes", text);
    let mut both = good();
    both["metadata"]["annotations"] = json!({
        format!("{PREFIX}/terminalExitCodes"): "1,2", format!("{PREFIX}/retryableExitCodes"): "2,3",
    });
    vec![
        row("1", "negative", warmup("-1h"), denied(WARMUP, "must not be negative")),
        row("2", "empty", warmup(""), denied(WARMUP, "must be a duration")),
        row("3", "no number", warmup("NaN"), denied(WARMUP, "must be a duration")),
        row("3", "infinite", warmup("Inf"), denied(WARMUP, "must be a duration")),
        row("4", "exponent", warmup("1e9h"), denied(WARMUP, "must be a duration")),
        row(
            "5",
            "over 64 bits",
            warmup("9999999999999999999s"),
            denied(WARMUP, "at most 2562047h"),
        ),
        row("6", "words", warmup("5 days"), denied(WARMUP, "must be a duration")),
        // the contract has d for 24 h, within the maximum of grace periods
        row("7", "a day", annotated("successTTLDuration", "5d"), Accepted),
        row("8", "month", warmup("1M"), denied(WARMUP, "must be a duration")),
        row("8", "year", warmup("1y"), denied(WARMUP, "must be a duration")),
        row("9", "over the maximum", warmup("25h"), Warned { says: "capped at 24h" }),
        row("10", "less than it counts", warmup("0.0000000001ns"), Accepted),
        row("11", "negative limit", limit("-1"), denied(LIMIT, "must be a whole number from 0")),
        row("12", "2³²", limit("4294967296"), denied(LIMIT, "must be a whole number from 0")),
        row("13", "2³¹", limit("2147483648"), denied(LIMIT, "must be a whole number from 0")),
        row("14", "fraction", limit("3.5"), denied(LIMIT, "must be a whole number from 0")),
        row("14", "exponent", limit("1e3"), denied(LIMIT, "must be a whole number from 0")),
        row("15", "word", terminal("abc"), denied(CODES, "is not an exit code")),
        // the contract allows spaces
        row("16", "spaces", terminal("1, 2"), Accepted),
        row("17", "zero", terminal("0"), denied(CODES, "from 1 to 255")),
        row("18", "256", terminal("256"), denied(CODES, "from 1 to 255")),
        row("18", "minus", terminal("-1"), denied(CODES, "from 1 to 255")),
        row("19", "semicolon", terminal("1;2"), denied(CODES, "separated by commas")),
        row("20", "gap", terminal("1,,2"), denied(CODES, "has an empty item")),
        row(
            "20",
            "in both lists",
            Object(both),
            denied(
                "metadata.annotations[workload.codeflare.dev.appwrapper/retryableExitCodes]",
                "2 also in",
            ),
        ),
        // the contract accepts an unknown key with a warning
        row(
            "21",
            "typo",
            annotated("retryLimitt", "5"),
            Warned { says: "did you mean retryLimit?" },
        ),
    ]
}

pub(super) fn policies() -> Vec<Row> {
    const VALUES: &str = "spec.podFailurePolicy.rules[0].onExitCodes.values";
    const VALUE: &str = "spec.podFailurePolicy.rules[0].onExitCodes.values[0]";
    const SECOND: &str = "spec.podFailurePolicy.rules[0].onExitCodes.values[1]";
    const PATTERN: &str = "spec.failurePolicy.rules[0].onJobFailureMessagePatterns[0]";
    let all: Vec<i32> = (1..=256).collect();
    let ignore = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]});
    let many = vec![json!({"type": "DisruptionTarget"}); 21];
    let other = json!({"containerName": "other", "operator": "In", "values": [1]});
    vec![
        row("22", "success is no failure", codes("In", json!([0])), denied(VALUE, "must not be 0"))
            .server("must not have 0"),
        row("22", "unsorted", codes("In", json!([2, 1])), Accepted),
        row("23", "twice", codes("In", json!([1, 1])), denied(SECOND, "unique"))
            .server("Duplicate value"),
        row("24", "none", codes("In", json!([])), denied(VALUES, "at least one entry"))
            .server("at least 1 items"),
        row("24", "256 of them", codes("NotIn", json!(all)), denied(VALUES, "at most 255"))
            .server("must have at most 255 items"),
        row("24", "over 255", codes("In", json!([256])), Accepted),
        row(
            "25",
            "21 rules",
            spec("podFailurePolicy", json!({"rules": vec![ignore; 21]})),
            denied("spec.podFailurePolicy.rules", "at most 20 entries"),
        )
        .server("must have at most 20 items"),
        row(
            "25",
            "unknown container",
            spec("podFailurePolicy", json!({"rules": [{"action": "Count", "onExitCodes": other}]})),
            denied(
                "spec.podFailurePolicy.rules[0].onExitCodes.containerName",
                "must be a container of the pods: one of main",
            ),
        ),
        row(
            "25",
            "21 conditions",
            spec(
                "podFailurePolicy",
                json!({"rules": [{"action": "Count", "onPodConditions": many}]}),
            ),
            denied("spec.podFailurePolicy.rules[0].onPodConditions", "at most 20 entries"),
        )
        .server("must have at most 20 items"),
        // linear in the message, so no trap
        row("26", "nested repetition", pattern("(a+)+$"), Accepted),
        row("27", "explodes", pattern("(?:a{1000}){1000}"), denied(PATTERN, "at most 256 KiB")),
        row("28", "unclosed", pattern("("), denied(PATTERN, "unclosed group")),
        row(
            "28",
            "21 patterns",
            patterns(&["a"; 21]),
            denied("spec.failurePolicy.rules[0].onJobFailureMessagePatterns", "at most 20 entries"),
        )
        .server("must have at most 20 items"),
        row("28", "513 bytes", pattern(&"a".repeat(513)), denied(PATTERN, "at most 512"))
            .server("may not be more than 512"),
        row(
            "28",
            "257 letters of 2 bytes",
            pattern(&"é".repeat(257)),
            denied(PATTERN, "512 bytes"),
        ),
    ]
}

pub(super) fn retry_policies() -> Vec<Row> {
    const RULE: &str = "spec.rules[0]";
    const FACTOR: &str = "spec.rules[0].mutate.memory.factor";
    const NAMED: &str = "spec.rules[0].name";
    let unspecified = json!({"action": null, "onConditions": ["Evicted"]});
    let category = |name: &str| retry_policy(json!({"onFailureCategory": [name]}));
    vec![
        row(
            "29",
            "no action",
            retry_policy(unspecified),
            denied("spec.rules[0].action", "must be given"),
        )
        .server("spec.rules[0].action"),
        row("30", "no matcher", retry_policy(json!({})), denied(RULE, "exactly one of"))
            .server("exactly one of onConditions"),
        row(
            "30",
            "two matchers",
            evicted(json!({"onFailureCategory": ["oom"]})),
            denied(RULE, "exactly one of"),
        )
        .server("exactly one of onConditions"),
        row(
            "30",
            "nothing grows",
            evicted(json!({"mutate": {}})),
            denied("spec.rules[0].mutate.memory", "must be given"),
        )
        .server("must be given"),
        row("31", "factor 1", factor(json!(1)), denied(FACTOR, "above 1")).server("above 1"),
        row("31", "factor below 1", factor(json!(0.5)), denied(FACTOR, "above 1"))
            .server("above 1"),
        row("31", "no number", factor(json!("NaN")), denied(FACTOR, "must be a number"))
            .server("must be of type number"),
        row("31", "factor 1e308", factor(json!(1e308)), denied(FACTOR, "at most 100"))
            .server("at most 100"),
        row(
            "32",
            "name of 64",
            evicted(json!({"name": "a".repeat(64)})),
            denied(NAMED, "at most 63"),
        )
        .server("may not be more than 63"),
        row("32", "capitals", evicted(json!({"name": "A"})), denied(NAMED, "1 to 63 lower-case"))
            .server("must be 1 to 63 lower-case"),
        row(
            "32",
            "no category",
            category(""),
            denied("spec.rules[0].onFailureCategory[0]", "name of a failure category"),
        )
        .server("names of failure categories"),
        row(
            "32",
            "limit 2³²",
            evicted(json!({"retryLimit": 4_294_967_296_i64})),
            denied("spec.rules[0].retryLimit", "whole number"),
        )
        .server("spec.rules[0].retryLimit"),
        // the policy may come later; until then a user sees that it is missing
        row(
            "33",
            "missing policy",
            annotated("retryPolicies", "nowhere"),
            Warned { says: "nowhere" },
        )
        .cluster(),
        row(
            "33",
            "no name",
            annotated("retryPolicies", "a,,b"),
            denied(
                "metadata.annotations[workload.codeflare.dev.appwrapper/retryPolicies]",
                "has an empty item",
            ),
        ),
    ]
}
