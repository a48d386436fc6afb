//! Writes that another client overtakes: its author may change an AppWrapper without pause.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::passing::failure;
use super::refused::{renew, store, stored, storing};
use super::{Play, running};
use crate::observe::cache::KindKey;
use crate::observe::cached_appwrapper::CachedAppWrapper;
use crate::reconcile::{Context, Next, awaits_own_write, reconcile};

/// An API server on which another client makes this change before this many writes of the controller; how many writes have
/// come is counted.
fn raced(
    object: &Arc<Mutex<Value>>,
    losses: usize,
    change: Change,
) -> (Arc<Context>, Arc<AtomicUsize>) {
    let writes = Arc::new(AtomicUsize::new(0));
    let count = writes.clone();
    let context = storing(object, move |object, patch| {
        if count.fetch_add(1, Ordering::SeqCst) < losses {
            let before = object.clone();
            change(object);
            if *object == before {
                return failure(409, "a webhook denied the request");
            }
            renew(object);
        }
        if patch["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
            return failure(409, "the object has been modified");
        }
        store(object, patch);
        (200, object.clone())
    });
    context
        .cache
        .set_blind(&KindKey { api_version: "batch/v1".to_owned(), kind: "Job".to_owned() });
    (Arc::new(context), writes)
}

type Change = fn(&mut Value);

/// A change by another client, how many writes lose against it, the writes, phase and next reconcile that follow, and
/// whether the controller has written what the watch has yet to show, and so does not rest.
type Race = (Change, usize, usize, &'static str, Option<Next>, bool);

fn annotate(object: &mut Value) {
    object["metadata"]["annotations"] = json!({"a": object["metadata"]["resourceVersion"]});
}

#[tokio::test]
async fn a_write_is_decided_again_where_another_client_was_first() {
    let later = Next::After(Duration::from_secs(5));
    let races: [Race; 6] = [
        (annotate, 0, 1, "Suspending", None, true),
        // nobody has written: something else answers so
        (|_| {}, 1, 1, "Running", Some(later), false),
        (annotate, 4, 5, "Suspending", None, true),
        // the rounds run out
        (annotate, 99, 6, "Running", Some(Next::After(Duration::from_millis(500))), false),
        // not to be suspended any more, but its Job is missing
        (|object| object["spec"]["suspend"] = false.into(), 1, 2, "Resetting", None, true),
        // another leader: what it has done has yet to show in the watches
        (
            |object| object["status"]["resettingCount"] = 1.into(),
            1,
            1,
            "Running",
            Some(later),
            false,
        ),
    ];
    for (change, losses, writes, phase, next, awaits) in races {
        let object = Arc::new(Mutex::new(Play::of(&running(), true, false).object));
        let (context, count) = raced(&object, losses, change);
        let seen = Arc::new(stored(&object.lock().unwrap()));
        let shown = serde_json::from_str(&object.lock().unwrap().to_string()).unwrap();
        context.store.apply(Event::Apply(shown), CachedAppWrapper::read);
        let done = reconcile(seen.clone(), context.clone()).await.unwrap();
        assert_eq!(object.lock().unwrap()["status"]["phase"], phase, "{losses}");
        assert_eq!(count.load(Ordering::SeqCst), writes, "{losses}");
        assert!(next.is_none_or(|next| done == next), "{losses}: {done:?}");
        assert_eq!(awaits_own_write(&context, &seen.key()), awaits, "{losses}");
    }
}

#[tokio::test]
async fn a_finalizer_is_removed_where_another_client_was_first() {
    let object = Play::of(&json!({"phase": "Terminating"}), false, true).object;
    let object = Arc::new(Mutex::new(object));
    let (context, _) = raced(&object, 2, |object| {
        let finalizers = object["metadata"]["finalizers"].as_array_mut().unwrap();
        finalizers.push("a/b".into());
    });
    for _ in 0..3 {
        let seen = Arc::new(stored(&object.lock().unwrap()));
        reconcile(seen, context.clone()).await.unwrap();
    }
    assert_eq!(object.lock().unwrap()["metadata"]["finalizers"], json!(["a/b", "a/b"]));
}
