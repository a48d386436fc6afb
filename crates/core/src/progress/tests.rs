use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_607_200 + second).unwrap_or_default()
}

fn step(second: i64, step: i64) -> Report {
    Report::new(at(second), Values { step: Some(step), ..Values::default() }).unwrap()
}

fn parsed(text: &str) -> String {
    parse(text).map_or_else(|malformed| malformed.to_string(), |report| report.render())
}

#[test]
fn what_is_read_and_what_is_malformed() {
    let long = format!(r#"{{"at":"2026-01-05T10:00:00Z","checkpoint":"{}"}}"#, "x".repeat(257));
    let huge = " ".repeat(1025);
    for (text, want) in [
        (r#"{"at":"2026-01-05T10:00:00Z"}"#, r#"{"at":"2026-01-05T10:00:00Z"}"#),
        (r#"{"at":"2026-01-05T11:00:00.1+01:00"}"#, r#"{"at":"2026-01-05T10:00:01Z"}"#),
        (
            r#"{"at":"2026-01-05T10:00:00Z","percent":100,"step":0,"eta":60,"metrics":{"loss":1}}"#,
            r#"{"at":"2026-01-05T10:00:00Z","percent":100,"step":0,"eta":60}"#,
        ),
        (
            r#"{"at":"2026-01-05T10:00:00Z","checkpoint":"a"}"#,
            r#"{"at":"2026-01-05T10:00:00Z","checkpoint":"a","checkpointAt":"2026-01-05T10:00:00Z"}"#,
        ),
        (
            r#"{"at":"2026-01-05T10:00:00Z","checkpoint":"a","checkpointAt":"2027-01-05T10:00:00Z"}"#,
            r#"{"at":"2026-01-05T10:00:00Z","checkpoint":"a","checkpointAt":"2026-01-05T10:00:00Z"}"#,
        ),
        (r#"{"at":"2026-01-05T10:00:00Z","percent":101}"#, "percent: 101 must be from 0 to 100"),
        (
            r#"{"at":"2026-01-05T10:00:00Z","step":-1}"#,
            "step: -1 must be from 0 to 9007199254740991",
        ),
        (
            r#"{"at":"yesterday\u001b"}"#,
            r#"at: "yesterday\\u{1b}" is not a time: must be like 2026-01-05T10:00:00Z (RFC 3339)"#,
        ),
        (
            r#"{"at":"2026-01-05T10:00:00Z","checkpoint":""}"#,
            "checkpoint: has 0 bytes: must have 1 to 256",
        ),
        (
            r#"{"at":"2026-01-05T10:00:00Z","checkpoint":"a\nb"}"#,
            r#"checkpoint: "a\nb" must have no control characters"#,
        ),
        (&long, "checkpoint: has 257 bytes: must have 1 to 256"),
        (&huge, "has 1025 bytes: must have at most 1024"),
    ] {
        assert_eq!(parsed(text), want, "{text}");
    }
    for text in ["", "{}", "[]", "7", r#"{"at":1}"#, r#"{"at":"2026-01-05T10:00:00Z","step":"1"}"#]
    {
        assert!(matches!(parse(text), Err(Malformed::Json(_))), "{text}");
    }
}

#[test]
fn a_message_that_repeats_the_step_is_no_progress() {
    let first = step(0, 5);
    let repeated = step(60, 5).after(Some(&first));
    assert_eq!(repeated.at(), at(0));
    assert_eq!(step(60, 6).after(Some(&first)).at(), at(60));
    assert_eq!(
        step(60, 4).after(Some(&first)).at(),
        at(60),
        "a process went back to its checkpoint"
    );
    assert_eq!(step(-60, 9).after(Some(&first)), first, "an older message changes nothing");
    let silent = Report::new(at(60), Values::default()).unwrap().after(Some(&first));
    assert_eq!((silent.at(), silent.step()), (at(60), Some(5)), "the pod works");
    let percent = Values { percent: Some(10), step: Some(5), ..Values::default() };
    let percent = Report::new(at(60), percent).unwrap().after(Some(&first));
    assert_eq!((percent.at(), percent.percent()), (at(60), Some(10)));
    for (done, later, want) in [
        (100, Some(6), None),
        (100, Some(5), Some(100)),
        (100, None, Some(100)),
        (99, Some(6), Some(99)),
    ] {
        let first = Values { percent: Some(done), step: Some(5), ..Values::default() };
        let first = Report::new(at(0), first).unwrap();
        let later = Values { step: later, ..Values::default() };
        let later = Report::new(at(60), later).unwrap().after(Some(&first));
        assert_eq!(later.percent(), want, "{done} %, then {later:?}");
    }
}

#[test]
fn a_checkpoint_is_as_old_as_the_first_message_that_names_it() {
    let saved = |second, step, name: &str| {
        let checkpoint = Some(name.to_owned());
        Report::new(at(second), Values { step: Some(step), checkpoint, ..Values::default() })
            .unwrap()
    };
    let first = saved(0, 100, "step-100");
    let repeated = saved(60, 160, "step-100").after(Some(&first));
    assert_eq!(repeated.checkpoint(), Some(("step-100", at(0))));
    let unsaid = step(70, 170).after(Some(&repeated));
    assert_eq!(unsaid.checkpoint(), Some(("step-100", at(0))));
    let next = saved(90, 200, "step-200").after(Some(&unsaid));
    assert_eq!(next.checkpoint(), Some(("step-200", at(90))));
    assert_eq!(parse(&next.render()), Ok(next));
}

#[test]
fn a_message_may_be_given_a_later_time_and_no_earlier_one() {
    let before = step(600, 5);
    for (second, moment, want) in
        [(60, None, (600, 5)), (60, Some(at(600)), (600, 6)), (700, Some(at(600)), (700, 6))]
    {
        let later = step(second, 6).no_earlier_than(moment).after(Some(&before));
        assert_eq!((later.at(), later.step()), (at(want.0), Some(want.1)), "{second} {moment:?}");
    }
}

proptest! {
    #[test]
    fn every_report_is_read_back_and_within_its_bound(
        second in 0..9_000_000_000_i64,
        numbers in any::<(Option<i64>, Option<i64>, Option<i64>)>(),
        name in proptest::option::of(".{0,90}"),
    ) {
        let (percent, step, eta) = numbers;
        let percent = percent.map(|n| n.rem_euclid(101));
        let step = step.map(|n| n.rem_euclid(NUMBER_MAX + 1));
        let eta = eta.map(|n| n.rem_euclid(NUMBER_MAX + 1));
        let values = Values { percent, step, eta, checkpoint: name };
        if let Ok(report) = Report::new(Timestamp::from_second(second).unwrap(), values) {
            let text = report.render();
            prop_assert!(text.len() <= BYTES_MAX);
            prop_assert_eq!(parse(&text), Ok(report));
        }
    }

    #[test]
    fn no_text_stops_the_reader(text in ".{0,200}") {
        let _read = parse(&text);
    }
}
