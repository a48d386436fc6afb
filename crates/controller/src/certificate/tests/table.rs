//! Each state of the Secret and what is done about it.

use kube::api::DynamicObject;
use serde_json::json;

use super::*;
use crate::certificate::configuration;

const HOST: &str = "a.b.svc";

/// What the Secret holds, seconds from the beginning.
#[derive(Default)]
struct Given {
    current: Option<Served>,
    next: Option<(Served, Option<i64>)>,
    old: Option<(Served, i64)>,
}

impl Given {
    fn stored(self) -> Certificates {
        Certificates {
            current: self.current,
            next: self.next.map(|(served, since)| Next { served, trusted_since: since.map(at) }),
            old: self.old.map(|(old, since)| Old {
                authority: old.texts().authority.clone(),
                since: at(since),
            }),
        }
    }
}

/// Configurations that hold what they should, or not.
fn faced(stored: &Certificates, is_held: bool, texts: &[&str]) -> WebhookState {
    let held = if is_held { stored.bundle() } else { None };
    WebhookState { names: names(texts), bundles: vec![stored.bundle(), held] }
}

#[test]
fn every_state_has_its_next_step() {
    use Change::{Distrust, Forget, Make, MakeNext, Promote, Trust};
    let current = || Some(made(0, &[HOST]));
    let next = |since: Option<i64>| Some((made(4800, &[HOST]), since));
    let fresh = || Given { current: current(), ..Given::default() };
    let rotating = |since| Given { next: next(since), ..fresh() };
    let rotated = || Given { old: Some((made(-4800, &[HOST]), 500)), ..fresh() };
    let other = || Given { current: Some(made(0, &["other"])), ..Given::default() };
    let after_other = |since| Given { next: Some((made(9, &[HOST]), since)), ..other() };
    let life = i64::try_from(LIFE).unwrap();
    // what, the Secret, whether it is trusted, now, what is done, when to look again
    let rows = [
        ("nothing", Given::default(), true, 0, Some(Make), OVERLAP),
        ("fresh", fresh(), true, 10, None, 4800),
        ("valid from now on", fresh(), true, -OVERLAP, None, 4800),
        ("not valid yet", fresh(), true, -OVERLAP - 1, Some(Make), 4800),
        ("not valid for a long time", fresh(), true, -OVERLAP - life / 4, None, 4800),
        ("next, not valid yet", rotating(None), true, 4199, Some(MakeNext), 4800),
        ("fresh, not trusted yet", fresh(), false, 10, None, 4800),
        ("not yet two thirds", fresh(), true, 4799, None, 4800),
        ("two thirds", fresh(), true, 4800, Some(MakeNext), life - OVERLAP),
        ("two thirds, not trusted", fresh(), false, 4800, Some(MakeNext), life - OVERLAP),
        ("next, not trusted yet", rotating(None), false, 4810, None, life - OVERLAP),
        ("next, seen trusted", rotating(None), true, 4810, Some(Trust), life - OVERLAP),
        ("overlap not over", rotating(Some(4811)), true, 5410, None, 5411),
        ("overlap over", rotating(Some(4811)), true, 5411, Some(Promote), life - OVERLAP),
        ("trust lost", rotating(Some(4811)), false, 5411, Some(Distrust), life - OVERLAP),
        ("trusted in a year", rotating(Some(99_999_999)), true, 5000, Some(Trust), life - OVERLAP),
        ("late, trusted", rotating(Some(6500)), true, life - OVERLAP, Some(Promote), 7100),
        ("late, not trusted yet", rotating(None), true, life - OVERLAP, Some(Trust), life),
        ("late, not to be trusted", rotating(None), false, life - OVERLAP, None, life),
        ("expired, next there", rotating(None), false, life, Some(Promote), 4800 + life),
        ("expired while down", fresh(), true, life, Some(Make), life + OVERLAP),
        ("both expired", rotating(None), true, 4800 + life, Some(Make), 4800 + life + OVERLAP),
        ("old, overlap not over", rotated(), true, 1099, None, 1100),
        ("old, overlap over", rotated(), true, 1100, Some(Forget), 4800),
        ("old, overlap over, not trusted", rotated(), false, 1100, Some(Forget), 4800),
        ("a name is missing", other(), true, 10, Some(MakeNext), 4800),
        ("a name, next untrusted", after_other(None), false, 10, None, 4800),
        ("a name, next seen trusted", after_other(None), true, 10, Some(Trust), 4800),
        ("a name, next trusted", after_other(Some(11)), true, 11, Some(Promote), 611),
    ];
    for (what, given, is_held, now, change, again) in rows {
        let stored = given.stored();
        let faced = faced(&stored, is_held, &[HOST]);
        let plan = plan(&stored, true, &faced, at(now), lifetimes());
        let want = Rotation {
            serve: stored.current.as_ref(),
            change,
            bundle: stored.bundle(),
            look_again: at(again),
        };
        assert_eq!(plan, want, "{what}");
    }
}

#[test]
fn a_next_generation_that_lacks_a_name_is_made_again() {
    let given = Given {
        current: Some(made(0, &[HOST])),
        next: Some((made(4800, &[HOST]), Some(4801))),
        ..Given::default()
    };
    let stored = given.stored();
    let faced = faced(&stored, true, &[HOST, "10.0.0.1"]);
    let plan = plan(&stored, true, &faced, at(5500), lifetimes());
    assert_eq!(plan.change, Some(Change::MakeNext));
    // names that are not needed any more change nothing
    let faced = WebhookState { names: names(&[]), ..faced };
    let plan = super::plan(&stored, true, &faced, at(5500), lifetimes());
    assert_eq!(plan.change, Some(Change::Promote));
}

/// Without a configuration nobody calls: the next generation has nothing to wait for but its time.
#[test]
fn where_nobody_calls_everything_is_trusted() {
    let given = Given {
        current: Some(made(0, &[HOST])),
        next: Some((made(4800, &[HOST]), None)),
        ..Given::default()
    };
    let stored = given.stored();
    let plan = plan(&stored, true, &WebhookState::default(), at(4801), lifetimes());
    assert_eq!(plan.change, Some(Change::Trust));
}

#[test]
fn what_is_of_no_use_in_the_secret_is_replaced() {
    let (one, two) = (made(0, &[HOST]), made(4800, &[HOST]));
    let full = Given {
        current: Some(one.clone()),
        next: Some((two.clone(), Some(541))),
        old: Some((made(-4800, &[HOST]), 1)),
    };
    let full = full.stored();
    let mut data = Data::from([("of-somebody-else".to_owned(), vec![0, 255])]);
    full.write(&mut data);
    assert_eq!((data.len(), Certificates::read(&data)), (10, full.clone()));
    assert!(full.is_all_of(&data));
    let rows: [(&str, &str, Option<Change>); 9] = [
        ("tls.crt", "garbage", Some(Change::Promote)),
        ("tls.key", &two.texts().key, Some(Change::Promote)),
        ("ca.crt", &two.texts().authority, Some(Change::Promote)),
        ("next-tls.crt", "garbage", Some(Change::Tidy)),
        ("next-tls.key", &one.texts().key, Some(Change::Tidy)),
        ("next-ca.crt", "", Some(Change::Tidy)),
        ("next-trusted-since", "yesterday", Some(Change::Trust)),
        ("old-ca.crt", "garbage", None),
        ("in-use-since", "yesterday", None),
    ];
    for (key, text, want) in rows {
        let mut data = data.clone();
        data.insert(key.to_owned(), text.into());
        let mut stored = Certificates::read(&data);
        let is_tidy = stored.is_all_of(&data);
        assert!(!is_tidy, "{key}");
        let faced = faced(&stored, true, &[HOST]);
        let of = |stored: &Certificates| plan(stored, is_tidy, &faced, at(550), lifetimes()).change;
        assert_eq!(of(&stored), want, "{key}");
        // where the next one is in use, there is nothing else to be done first
        stored.next = None;
        let promoted = ["tls.crt", "tls.key", "ca.crt"].contains(&key);
        let want = if promoted { Change::Make } else { Change::Tidy };
        assert_eq!(of(&stored), Some(want), "{key}");
        stored.write(&mut data);
        assert!(stored.is_all_of(&data), "{key}: the old text is gone");
        assert_eq!(data["of-somebody-else"], [0, 255]);
    }
}

/// Replicas in turn, each by its own clock: the one that is ahead begins.
#[test]
fn replicas_whose_clocks_differ_agree_on_a_generation() {
    let life = i64::try_from(LIFE).unwrap();
    for (behind, want) in
        [(0, 1), (OVERLAP, 1), (OVERLAP + 1, 2), (life / 3 - 1, 2), (life / 2, 1), (2 * life, 1)]
    {
        let (mut stored, mut changes) = (Certificates::default(), 0);
        for now in [0, -behind, 1, 1 - behind, 2, 2 - behind] {
            let faced = faced(&stored, true, &[HOST]);
            let Some(change) = plan(&stored, true, &faced, at(now), lifetimes()).change else {
                continue;
            };
            let make = || Generation::make(&names(&[HOST]), lifetimes().valid(at(now)));
            change.apply(&mut stored, at(now), make).unwrap();
            changes += 1;
        }
        assert_eq!(changes, want, "{behind} s");
        let current = stored.current.unwrap();
        assert!(want == 1 || current.pair().not_before() <= at(-behind), "{behind} s");
    }
}

/// Jobs that run have learned its authority.
#[test]
fn a_replica_whose_clock_is_behind_leaves_what_pods_have_learned() {
    let (lifetimes, day) = (Lifetimes::of_pods(), 24 * 3600);
    let valid = lifetimes.valid(at(-30 * day));
    let served = Generation::make(&names(&[HOST]), valid).unwrap().check().unwrap();
    let stored = Certificates { current: Some(served), ..Certificates::default() };
    let faced = faced(&stored, true, &[HOST]);
    for behind in [0, 31, 60, 1_000] {
        let plan = plan(&stored, true, &faced, at(-behind * day), lifetimes);
        assert_eq!((plan.change, plan.serve), (None, stored.current.as_ref()), "{behind} days");
    }
}

#[test]
fn a_bundle_does_not_depend_on_which_generation_is_in_use() {
    let given = Given {
        current: Some(made(0, &[HOST])),
        next: Some((made(4800, &[HOST]), Some(4801))),
        ..Given::default()
    };
    let before = given.stored();
    let mut after = before.clone();
    Change::Promote.apply(&mut after, at(5401), || Err(())).unwrap();
    assert_eq!(before.bundle(), after.bundle());
    assert_eq!(after.old.map(|old| old.since), Some(at(5402)), "the time was rounded down");
    assert_eq!(after.current, before.next.map(|next| next.served));
}

#[test]
fn a_generation_is_trusted_by_who_trusts_its_authority() {
    let (one, two) = (made(0, &[HOST, "127.0.0.1", "::1"]), made(0, &[HOST]));
    assert_eq!(one.until(), at(LIFE.cast_signed()));
    let trusted = |served: &Served, by: &Served| {
        served.pair().trusted_until(by.texts().authority.as_bytes()).is_some()
    };
    assert!(trusted(&one, &one) && !trusted(&one, &two));
    assert!(one.covers(&names(&[HOST, "[::1]", "127.0.0.1", "A.B.svc."])));
    assert!(!two.covers(&names(&[HOST, "127.0.0.1"])));
    let texts = one.texts().clone();
    assert!(Generation { authority: two.texts().authority.clone(), ..texts }.check().is_none());
    assert!(!format!("{one:?}{:?}", one.texts()).contains("PRIVATE"), "no key is logged");
}

#[test]
fn configurations_say_who_is_called_and_whom_they_trust() {
    let client = |client| json!({"name": "n", "timeoutSeconds": 5, "clientConfig": client});
    let mut object: DynamicObject = serde_json::from_value(json!({
        "metadata": {"name": "c", "resourceVersion": "7"},
        "webhooks": [
            client(json!({"service": {"name": "s", "namespace": "n", "port": 8443}, "caBundle": "YQ=="})),
            client(json!({"url": "https://Example.com:9443/validate?x=1"})),
            client(json!({"url": "https://[::1]:9443/", "caBundle": "not base64!"})),
            client(json!({"url": "https://127.0.0.1"})),
            client(json!({"url": "nothing of a URL"})),
            client(json!({})),
        ],
    }))
    .unwrap();
    let found = configuration::names(&object);
    let found: Vec<&str> = found.iter().map(Name::as_str).collect();
    assert_eq!(found, ["127.0.0.1", "::1", "example.com", "s.n", "s.n.svc"]);
    let bundles = |object: &DynamicObject| configuration::bundles(object).collect::<Vec<_>>();
    let mut want = vec![None; 6];
    want[0] = Some("a".to_owned());
    assert_eq!(bundles(&object), want);
    assert!(configuration::trust(&mut object, "b"));
    assert_eq!(bundles(&object), vec![Some("b".to_owned()); 6]);
    assert!(!configuration::trust(&mut object, "b"), "nothing is left to be changed");
    assert_eq!(object.data["webhooks"][0]["timeoutSeconds"], 5, "all else stays");
    object.data = json!({});
    assert!(!configuration::trust(&mut object, "b"), "there is no entry");
}

#[test]
fn times_are_in_proportion() {
    let rows = [
        (90 * 24 * 3600, 90 * 24 * 3600, 600, 24 * 3600),
        (7200, 7200, 600, 600),
        (3600, 3600, 300, 300),
        (12, 12, 1, 1),
        (0, 12, 1, 1),
    ];
    for (given, life, overlap, skew) in rows {
        let lifetimes = Lifetimes::of(Duration::from_secs(given));
        let (from, until) = lifetimes.valid(at(0));
        assert_eq!((from, until), (at(-skew), at(life)), "{given}");
        assert_eq!(lifetimes.renewal(until), at(life * 2 / 3), "{given}");
        assert_eq!(lifetimes.overlap(), Duration::from_secs(overlap), "{given}");
        assert_eq!(lifetimes.last_moment(until), at(life - overlap.cast_signed()), "{given}");
    }
    assert_eq!(Lifetimes::default(), Lifetimes::of(Duration::from_hours(2160)));
}
