//! What was deleted since the last look, as it was at the end: pods that had ended or were disrupted, and components that had
//! ended. The next look sees it once more, so that the same is decided whether a look came just before the deletion or just
//! after it. What had ended and a new list does not show, or cannot be watched any more, counts as deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::cache::KindKey;
use super::kin::{Kin, Place};
use super::pod_record::PodRecord;
use super::records::{Identity, ObjectRecord};
use crate::api::NEW_COMPONENTS_MAX;
use crate::snapshot::{Outcome, Pod, PodPhase};

/// The most pods that are kept between two looks at one AppWrapper.
pub const PODS_MAX: usize = 64;
/// The most other objects: as many as an AppWrapper may have components.
const OBJECTS_MAX: usize = NEW_COMPONENTS_MAX;

/// What the watches have shown to be deleted of what names one AppWrapper.
#[derive(Debug, Default)]
pub struct Deleted {
    pods: Vec<Arc<PodRecord>>,
    objects: Vec<(KindKey, ObjectRecord)>,
}

impl Deleted {
    /// Keeps a pod, if its containers had ended, or if it was disrupted: the API server removes one with a grace period of 0
    /// before its kubelet can say how it ended, and its owner counts it as failed.
    pub fn note_pod(&mut self, record: &Arc<PodRecord>) {
        if !record.is_over || self.pods.len() >= PODS_MAX {
            return;
        }
        if has_ended(record) {
            self.note_ended(record);
        } else if is_disrupted(record) {
            let mut failed = PodRecord::clone(record);
            failed.pod.phase = PodPhase::Failed;
            self.pods.push(Arc::new(failed));
        }
    }

    /// Keeps a pod that a new list does not show, if its containers had ended: of any other it is not known how it ended.
    pub fn note_ended(&mut self, record: &Arc<PodRecord>) {
        if has_ended(record) && self.pods.len() < PODS_MAX {
            self.pods.push(record.clone());
        }
    }

    /// Whether nothing was.
    #[cfg(test)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.objects.is_empty()
    }

    /// The pods alone; the objects stay for the next look.
    #[must_use]
    pub fn take_pods(&mut self) -> Self {
        Self { pods: std::mem::take(&mut self.pods), objects: vec![] }
    }

    /// Keeps an object, if it says that it had ended, and not that it is another's than the AppWrapper's of this UID. Where
    /// there is no room, one that names this controller takes that of one without a controller.
    pub fn note_object(&mut self, kind: &KindKey, record: &ObjectRecord, appwrapper: &str) {
        let controller = record.identity.controller.as_ref();
        let is_anothers = controller.is_some_and(|it| it.uid != appwrapper)
            || !record.identity.may_be_of(appwrapper);
        if is_anothers || record.report.outcome == Outcome::Active {
            return;
        }
        let noted = (kind.clone(), record.clone());
        if self.objects.len() < OBJECTS_MAX {
            self.objects.push(noted);
        } else if controller.is_some()
            && let Some(orphan) =
                self.objects.iter_mut().find(|(_, it)| it.identity.controller.is_none())
        {
            *orphan = noted;
        }
    }
}

/// Whether a pod is being ended from outside, and has not ended yet as far as this tells.
pub(super) fn is_disrupted(record: &PodRecord) -> bool {
    !has_ended(record) && record.pod.true_condition("DisruptionTarget").is_some()
}

fn has_ended(record: &PodRecord) -> bool {
    matches!(record.pod.phase, PodPhase::Failed | PodPhase::Succeeded)
}

/// The same, as far as it is known to be ours, until it is decided about.
#[derive(Debug, Default)]
pub struct DeletedObjects {
    pods: Vec<Pod>,
    objects: Vec<(KindKey, ObjectRecord)>,
}

impl DeletedObjects {
    /// Takes in what was deleted since the last look: components, and pods of ours. A pod is ours if an earlier look has found
    /// that; so is a component, or `recorded` holds its UID.
    pub fn take(&mut self, deleted: Deleted, kin: &Kin, recorded: &BTreeSet<&str>) {
        let is_component =
            |it: &Identity| kin.is_component(&it.uid) || recorded.contains(it.uid.as_str());
        for record in deleted.pods {
            if is_component(&record.identity) {
                self.objects.push((KindKey::pod(), ObjectRecord::of_pod(&record)));
            }
            self.take_pod(&record, kin);
        }
        let objects = deleted.objects.into_iter();
        self.objects.extend(objects.filter(|(_, record)| is_component(&record.identity)));
        self.objects.truncate(OBJECTS_MAX);
    }

    /// Takes in a pod that is gone, if it had ended and is ours; the last word of it counts.
    pub fn take_pod(&mut self, record: &PodRecord, kin: &Kin) {
        let uid = &record.identity.uid;
        let Some(place) = kin.place(uid).filter(|_| has_ended(record)) else { return };
        self.pods.retain(|pod| pod.uid != *uid);
        if self.pods.len() < PODS_MAX {
            let Place { component, pod_set, attempt } = *place;
            // it is never overdue
            let pod = Pod { gone: true, due_to_go: None, ..record.pod.clone() };
            self.pods.push(Pod { component, pod_set, attempt, ..pod });
        }
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.objects.is_empty()
    }

    /// The object of a kind that had one of these UIDs.
    #[must_use]
    pub fn object(&self, kind: &KindKey, uids: [Option<&str>; 2]) -> Option<&ObjectRecord> {
        let is_it = |record: &ObjectRecord| uids.contains(&Some(record.identity.uid.as_str()));
        self.objects.iter().find(|(of, record)| of == kind && is_it(record)).map(|(_, it)| it)
    }

    /// Our pods; none that is among these as well.
    #[must_use]
    pub fn pods(&self, others: &[Pod]) -> Vec<Pod> {
        let is_other = |pod: &&Pod| others.iter().all(|other| other.uid != pod.uid);
        self.pods.iter().filter(is_other).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::records::Controller;

    fn kind() -> KindKey {
        KindKey { api_version: "batch/v1".to_owned(), kind: "Job".to_owned() }
    }

    fn identity(uid: &str) -> Identity {
        Identity { uid: uid.to_owned(), ..Identity::default() }
    }

    /// Pods and Jobs that have ended, and a stranger's Job before them.
    fn deleted(pods: usize, jobs: &[String]) -> Deleted {
        let mut deleted = Deleted::default();
        for number in 0..pods {
            let mut record =
                PodRecord { identity: identity(&format!("p{number}")), ..PodRecord::default() };
            record.pod.phase = PodPhase::Failed;
            deleted.note_ended(&Arc::new(record));
        }
        for uid in [&"stranger".to_owned()].into_iter().chain(jobs) {
            let mut record = ObjectRecord { identity: identity(uid), ..ObjectRecord::default() };
            record.report.outcome = Outcome::Succeeded;
            deleted.note_object(&kind(), &record, "aw");
        }
        deleted
    }

    #[test]
    fn strangers_do_not_crowd_out_how_components_ended() {
        let named = |label: Option<&str>, controller: Option<&str>| Identity {
            appwrapper_uid: label.map(str::to_owned),
            controller: controller
                .map(|uid| Controller { uid: uid.to_owned(), ..Controller::default() }),
            ..identity("stranger")
        };
        for (stranger, is_orphan_kept) in [
            (named(None, Some("x")), true),
            (named(Some("x"), None), true),
            (named(Some("x"), Some("aw")), true),
            (named(None, None), false), // it may be as much a component
        ] {
            let mut deleted = Deleted::default();
            let mut note = |identity: &Identity| {
                let identity = identity.clone();
                let mut record = ObjectRecord { identity, ..ObjectRecord::default() };
                record.report.outcome = Outcome::Succeeded;
                deleted.note_object(&kind(), &record, "aw");
            };
            for _ in 0..OBJECTS_MAX {
                note(&stranger);
            }
            note(&Identity { uid: "orphan".to_owned(), ..named(Some("aw"), None) });
            note(&Identity { uid: "job".to_owned(), ..named(Some("aw"), Some("aw")) });
            let mut kin = Kin::default();
            kin.put_component(0, "job");
            let mut deleted_objects = DeletedObjects::default();
            deleted_objects.take(deleted, &kin, &BTreeSet::from(["orphan"]));
            let is_kept = |uid| deleted_objects.object(&kind(), [Some(uid), None]).is_some();
            assert_eq!((is_kept("job"), is_kept("orphan")), (true, is_orphan_kept), "{stranger:?}");
        }
    }

    #[test]
    fn pods_do_not_crowd_out_how_their_components_ended() {
        let jobs: Vec<String> = (0..20).map(|number| format!("job-{number}")).collect();
        let mut kin = Kin::default();
        for (index, job) in jobs.iter().enumerate().skip(1) {
            kin.put_component(index, job);
        }
        let recorded = BTreeSet::from([jobs[0].as_str()]);
        let mut deleted_objects = DeletedObjects::default();
        deleted_objects.take(deleted(PODS_MAX, &[]), &kin, &recorded);
        deleted_objects.take(deleted(36, &jobs), &kin, &recorded);
        for job in &jobs {
            assert!(deleted_objects.object(&kind(), [Some(job.as_str()), None]).is_some(), "{job}");
        }
        assert!(deleted_objects.object(&kind(), [Some("stranger"), None]).is_none());
        // a wrapped Pod is a component, too
        assert!(deleted_objects.object(&KindKey::pod(), [Some("p1"), None]).is_none());
        kin.put_component(0, "p1");
        deleted_objects.take(deleted(2, &[]), &kin, &recorded);
        assert!(deleted_objects.object(&KindKey::pod(), [Some("p1"), None]).is_some());
    }
}
