//! The AppWrappers as their watch has shown them.
//!
//! A summary of each is kept whatever its size. Its text is kept only as long as the texts of all fit into
//! a budget: where they do not, those of the namespace that uses most go first, and such an AppWrapper is
//! read from the API server again when it is reconciled. What tenants write so costs calls for themselves
//! instead of memory for all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;

use super::assemble::Wrapper;
use super::cache::Key;
use super::cached_appwrapper::{Before, CachedAppWrapper};
use super::raw_object::RawObject;
use crate::api::Phase;
use crate::locked::RwLocked;

/// The texts of all AppWrappers together, in bytes.
const TEXTS_MAX: usize = 24 << 20;
/// Memory of the AppWrappers that are kept parsed, in bytes: those that are being reconciled.
const PARSED_MAX: usize = 3 << 20;
/// One that takes more is not kept: a few would displace all others.
const PARSED_EACH_MAX: usize = PARSED_MAX / 16;

/// The AppWrappers of a cluster. A clone shows the same.
#[derive(Clone, Debug, Default)]
pub struct Store(Arc<RwLock<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    entries: BTreeMap<Key, Arc<CachedAppWrapper>>,
    /// AppWrappers that a new list has not shown yet.
    unlisted: BTreeSet<Key>,
    texts: Texts,
    parsed: Parsed,
}

/// Which texts are kept, with their sizes in bytes.
#[derive(Debug, Default)]
struct Texts {
    total: usize,
    by_namespace: BTreeMap<String, Namespace>,
}

#[derive(Debug, Default)]
struct Namespace {
    total: usize,
    /// By size, so that the largest goes first.
    by_size: BTreeSet<(usize, String)>,
}

/// AppWrappers that were parsed lately, the oldest first.
#[derive(Debug, Default)]
struct Parsed {
    total: usize,
    next: u64,
    by_key: BTreeMap<Key, (u64, usize, Arc<Wrapper>)>,
    by_age: BTreeMap<u64, Key>,
    /// Memory of those of each namespace, in bytes.
    by_namespace: BTreeMap<String, usize>,
}

/// What an event of the watch shows.
#[derive(Debug)]
pub enum Shown {
    /// A list begins.
    Begin,
    /// An AppWrapper, as part of a list.
    Listed(Arc<CachedAppWrapper>),
    /// An AppWrapper has been created or changed.
    Changed(Arc<CachedAppWrapper>),
    /// An AppWrapper is gone.
    Gone(Key),
    /// A list is complete: the AppWrappers that it did not show are gone.
    Complete(Vec<Key>),
}

impl Store {
    /// Takes in an event of the watch, with objects read by `read`: see [`CachedAppWrapper::read`].
    pub fn apply(
        &self,
        event: Event<RawObject>,
        read: impl FnOnce(RawObject, &Before) -> (CachedAppWrapper, Option<Arc<Wrapper>>),
    ) -> Shown {
        match event {
            Event::Init => self.change(|inner| {
                inner.unlisted = inner.entries.keys().cloned().collect();
                Shown::Begin
            }),
            Event::InitApply(seen) => {
                if let Some(known) = self.change(|inner| inner.list_again(&seen.meta)) {
                    return Shown::Listed(known);
                }
                // thousands come at once, and most of them rest: nothing is kept parsed
                let (stored, _) = read(seen, &Before::default());
                Shown::Listed(self.change(|inner| inner.put(stored, None)))
            }
            Event::Apply(seen) => {
                let before = self.before(&seen.meta);
                let (stored, parsed) = read(seen, &before);
                Shown::Changed(self.change(|inner| inner.put(stored, parsed)))
            }
            Event::Delete(seen) => {
                let key = Key::of(&seen.meta);
                self.change(|inner| inner.remove(&key));
                Shown::Gone(key)
            }
            Event::InitDone => self.change(|inner| {
                let gone: Vec<Key> = std::mem::take(&mut inner.unlisted).into_iter().collect();
                for key in &gone {
                    inner.remove(key);
                }
                Shown::Complete(gone)
            }),
        }
    }

    /// An AppWrapper.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<CachedAppWrapper>> {
        self.read(|inner| inner.entries.get(key).cloned())
    }

    /// The keys of all AppWrappers.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.read(|inner| inner.entries.keys().cloned().collect())
    }

    /// All AppWrappers.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<CachedAppWrapper>> {
        self.read(|inner| inner.entries.values().cloned().collect())
    }

    /// An AppWrapper of this version, where it was parsed lately.
    #[must_use]
    pub fn parsed(&self, key: &Key, version: &str) -> Option<Arc<Wrapper>> {
        self.read(|inner| {
            let (_, _, wrapper) = inner.parsed.by_key.get(key)?;
            (wrapper.version == version).then(|| wrapper.clone())
        })
    }

    /// What is known of an AppWrapper, in whatever version.
    fn before(&self, meta: &ObjectMeta) -> Before {
        let key = Key::of(meta);
        self.read(|inner| Before {
            parsed: inner.parsed.by_key.get(&key).map(|(_, _, wrapper)| wrapper.clone()),
            stored: inner.entries.get(&key).cloned(),
        })
    }

    /// Keeps an AppWrapper parsed for a while.
    pub fn keep_parsed(&self, key: Key, wrapper: Arc<Wrapper>) {
        self.change(|inner| inner.parsed.put(key, wrapper));
    }

    /// How many bytes of text are kept.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.read(|inner| inner.texts.total)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.0.write_locked())
    }

    fn read<T>(&self, read: impl FnOnce(&Inner) -> T) -> T {
        read(&self.0.read_locked())
    }
}

impl Inner {
    /// One that a new list shows as it is known already: it is not read again.
    fn list_again(&mut self, meta: &ObjectMeta) -> Option<Arc<CachedAppWrapper>> {
        let key = Key::of(meta);
        let known = self.entries.get(&key)?;
        let is_same = meta.resource_version.as_deref() == Some(known.version())
            && meta.uid.as_deref() == Some(known.uid());
        self.unlisted.remove(&key);
        is_same.then(|| known.clone())
    }

    fn put(
        &mut self,
        stored: CachedAppWrapper,
        parsed: Option<Arc<Wrapper>>,
    ) -> Arc<CachedAppWrapper> {
        let key = stored.key();
        let was_parsed = self.parsed.by_key.contains_key(&key);
        self.remove(&key);
        // one that waits for its first reconcile displaces none that is reconciled already
        if let Some(wrapper) = parsed.filter(|it| was_parsed || self.parsed.has_room_for(it)) {
            self.parsed.put(key.clone(), wrapper);
        }
        if let Some(size) = stored.text().map(str::len) {
            self.texts.put(&key, size);
        }
        let stored = Arc::new(stored);
        self.entries.insert(key, stored.clone());
        while self.texts.total > TEXTS_MAX {
            let Some(largest) = self.texts.largest_of_most() else { break };
            self.texts.remove(&largest.1, largest.0);
            if let Some(entry) = self.entries.get_mut(&largest.1) {
                *entry = Arc::new(entry.without_text());
            }
        }
        stored
    }

    fn remove(&mut self, key: &Key) {
        self.unlisted.remove(key);
        self.parsed.remove(key);
        if let Some(size) = self.entries.remove(key).and_then(|old| old.text().map(str::len)) {
            self.texts.remove(key, size);
        }
    }
}

impl Texts {
    fn put(&mut self, key: &Key, size: usize) {
        let namespace = self.by_namespace.entry(key.namespace.clone()).or_default();
        namespace.total += size;
        namespace.by_size.insert((size, key.name.clone()));
        self.total += size;
    }

    fn remove(&mut self, key: &Key, size: usize) {
        let Some(namespace) = self.by_namespace.get_mut(&key.namespace) else { return };
        if namespace.by_size.remove(&(size, key.name.clone())) {
            namespace.total -= size;
            self.total -= size;
        }
        if namespace.by_size.is_empty() {
            self.by_namespace.remove(&key.namespace);
        }
    }

    /// The largest text of the namespace whose texts take most, and its size.
    fn largest_of_most(&self) -> Option<(usize, Key)> {
        let (name, most) = self.by_namespace.iter().max_by_key(|(_, namespace)| namespace.total)?;
        let (size, largest) = most.by_size.last()?;
        Some((*size, Key { namespace: name.clone(), name: largest.clone() }))
    }
}

impl Parsed {
    fn has_room_for(&self, wrapper: &Wrapper) -> bool {
        self.total + wrapper.memory_bytes() <= PARSED_MAX
    }

    fn put(&mut self, key: Key, wrapper: Arc<Wrapper>) {
        self.remove(&key);
        let size = wrapper.memory_bytes();
        // one that has ended is parsed again if it is reconciled, which is rare
        let has_ended = matches!(wrapper.status.phase, Phase::Succeeded | Phase::Failed);
        if has_ended || size > PARSED_EACH_MAX {
            return;
        }
        self.by_age.insert(self.next, key.clone());
        *self.by_namespace.entry(key.namespace.clone()).or_default() += size;
        self.by_key.insert(key, (self.next, size, wrapper));
        self.next += 1;
        self.total += size;
        while self.total > PARSED_MAX {
            let Some(oldest) = self.oldest_of_most() else { break };
            self.remove(&oldest);
        }
    }

    /// The oldest of the namespace whose AppWrappers take most.
    fn oldest_of_most(&self) -> Option<Key> {
        let (most, _) = self.by_namespace.iter().max_by_key(|(_, size)| **size)?;
        self.by_age.values().find(|key| key.namespace == *most).cloned()
    }

    fn remove(&mut self, key: &Key) {
        let Some((age, size, _)) = self.by_key.remove(key) else { return };
        self.by_age.remove(&age);
        self.total -= size;
        if let Some(namespace) = self.by_namespace.get_mut(&key.namespace) {
            *namespace -= size;
            if *namespace == 0 {
                self.by_namespace.remove(&key.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::raw_object::RawObject;
    use super::*;

    fn seen(namespace: &str, name: &str, filler: usize) -> RawObject {
        in_phase(namespace, name, filler, "Running")
    }

    fn in_phase(namespace: &str, name: &str, filler: usize, phase: &str) -> RawObject {
        let template = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c"}, "data": {"a": "x".repeat(filler)}});
        let object = json!({
            "metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1"},
            "spec": {"components": [{"template": template}]},
            "status": {"phase": phase},
        });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn apply(store: &Store, event: Event<RawObject>) -> Shown {
        store.apply(event, CachedAppWrapper::read)
    }

    fn key(namespace: &str, name: &str) -> Key {
        Key { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn a_list_reads_again_only_what_has_changed() {
        let store = Store::default();
        let mut newer = seen("n", "b", 1);
        newer.meta.resource_version = Some("2".to_owned());
        let mut other = seen("n", "c", 1);
        other.meta.uid = Some("other".to_owned());
        for name in ["a", "b", "c"] {
            apply(&store, Event::Apply(seen("n", name, 0)));
        }
        apply(&store, Event::Init);
        let mut read = vec![];
        for seen in [seen("n", "a", 0), newer, other, seen("n", "d", 0)] {
            store.apply(Event::InitApply(seen), |seen, before| {
                read.push(seen.meta.name.clone().unwrap());
                CachedAppWrapper::read(seen, before)
            });
        }
        assert_eq!(read, ["b", "c", "d"]);
        let Shown::Complete(gone) = apply(&store, Event::InitDone) else {
            panic!("the list is complete")
        };
        assert_eq!(gone, []);
        assert_eq!(store.get(&key("n", "b")).unwrap().version(), "2");
        assert_eq!(store.get(&key("n", "c")).unwrap().uid(), "other");
    }

    #[test]
    fn a_new_list_shows_what_is_gone() {
        let store = Store::default();
        for name in ["a", "b"] {
            apply(&store, Event::Apply(seen("n", name, 0)));
        }
        apply(&store, Event::Init);
        apply(&store, Event::InitApply(seen("n", "b", 0)));
        let Shown::Complete(gone) = apply(&store, Event::InitDone) else {
            panic!("the list is complete")
        };
        assert_eq!(gone, [key("n", "a")]);
        assert_eq!(store.keys(), [key("n", "b")]);
        apply(&store, Event::Delete(seen("n", "b", 0)));
        assert_eq!(store.keys(), []);
        assert_eq!(store.text_bytes(), 0);
    }

    #[test]
    fn a_namespace_of_large_objects_loses_its_own_texts_first() {
        let store = Store::default();
        apply(&store, Event::Apply(seen("small", "a", 1_000)));
        for number in 0..40 {
            apply(&store, Event::InitApply(seen("large", &number.to_string(), 1 << 20)));
            assert!(store.text_bytes() <= TEXTS_MAX);
        }
        apply(&store, Event::Apply(seen("small", "b", 1_000)));
        let has_text = |namespace: &str, name: &str| {
            store.get(&key(namespace, name)).unwrap().text().is_some()
        };
        assert!(has_text("small", "a") && has_text("small", "b"));
        let kept = (0..40).filter(|number| has_text("large", &number.to_string())).count();
        assert!((20..24).contains(&kept), "{kept}");
        assert_eq!(store.keys().len(), 42, "the summaries of all are kept");
        for number in 0..40 {
            apply(&store, Event::Delete(seen("large", &number.to_string(), 0)));
        }
        let left =
            CachedAppWrapper::read(seen("small", "a", 1_000), &Before::default()).0.size() * 2;
        assert_eq!(store.text_bytes(), left);
    }

    #[test]
    fn what_was_parsed_lately_is_kept_within_a_budget_and_by_version() {
        let store = Store::default();
        let is_parsed = |name: &str| store.parsed(&key("n", name), "1").is_some();
        let reconcile = |namespace: &str, name: &str| {
            let wrapper = store.get(&key(namespace, name)).unwrap().parsed().unwrap();
            store.keep_parsed(key(namespace, name), Arc::new(wrapper));
        };
        apply(&store, Event::Apply(seen("n", "a", 0)));
        assert!(is_parsed("a"));
        assert!(store.parsed(&key("n", "a"), "2").is_none());
        let some = 40 << 10;
        for number in 0..40 {
            apply(&store, Event::Apply(seen("n", &format!("b{number}"), some)));
        }
        assert!(is_parsed("a") && is_parsed("b0"), "what only waits displaces nothing");
        assert!(!is_parsed("b39"));
        apply(&store, Event::Apply(seen("n", "b0", some)));
        assert!(is_parsed("b0"), "it has changed");
        reconcile("n", "b39");
        assert!(is_parsed("b39") && !is_parsed("a"), "the oldest goes");
        apply(&store, Event::Apply(seen("n", "huge", PARSED_EACH_MAX)));
        reconcile("n", "huge");
        assert!(!is_parsed("huge") && is_parsed("b39"), "it would displace many");
        apply(&store, Event::InitApply(seen("n", "d", 0)));
        assert!(!is_parsed("d"), "a list leaves nothing parsed");
        for phase in ["Succeeded", "Failed"] {
            apply(&store, Event::Apply(in_phase("n", "b39", 0, phase)));
            reconcile("n", "b39");
            assert!(!is_parsed("b39"), "it has ended");
        }
        apply(&store, Event::Apply(seen("other", "e", some)));
        reconcile("other", "e");
        for number in 0..40 {
            reconcile("n", &format!("b{number}"));
        }
        assert!(store.parsed(&key("other", "e"), "1").is_some(), "a namespace displaces its own");
        for number in 0..40 {
            apply(&store, Event::Delete(seen("n", &format!("b{number}"), 0)));
        }
        apply(&store, Event::Delete(seen("other", "e", 0)));
        store.read(|inner| {
            assert_eq!(inner.parsed.total, 0);
            assert!(inner.parsed.by_age.is_empty() && inner.parsed.by_namespace.is_empty());
        });
    }
}
