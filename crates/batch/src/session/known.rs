//! The objects of jobs as watches report them.

use super::objects::key;
use super::pod_id::PodId;
use crate::session::snapshot::upstream::upstream_job;
use evictd_batch_objects::{PodGroup, PodGroupStatus, Queue};
use evictd_pod::wire::{Metadata, Pod};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Objects by `namespace/name`, or by name where there are no namespaces.
type ByKey<T> = BTreeMap<Arc<str>, Arc<T>>;

/// Pods of the batch scheduler, pod groups and queues, for the shell that carries out sessions.
#[derive(Debug, Default)]
pub struct Known {
    pods: BTreeMap<PodId, Arc<Pod>>,
    groups: BTreeMap<Arc<str>, Group>,
    /// Groups of `scheduling.k8s.io`, by the jobs that they are.
    upstream: ByKey<evictd_pod::wire::PodGroup>,
    queues: ByKey<Queue>,
    /// How many statuses of groups were assumed.
    writes: u64,
}

/// A pod group as the last watch event has shown it, and as sessions see it.
#[derive(Debug)]
struct Group {
    seen: Arc<PodGroup>,
    /// With the assumed status.
    shown: Arc<PodGroup>,
    assumed: Option<Assumed>,
}

/// A status that no watch event shows yet.
#[derive(Debug)]
struct Assumed {
    status: PodGroupStatus,
    write: u64,
    /// The version of the group with this status. `None` before the API server has answered.
    version: Option<u64>,
}

/// The answer of the API server to the write of a group's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupWrite {
    /// The group was written, and has this `resourceVersion` since.
    Written(Option<u64>),
    /// The group has another status than assumed.
    Failed,
}

impl Group {
    fn of(seen: Arc<PodGroup>, assumed: Option<Assumed>) -> Self {
        let mut shown = Arc::clone(&seen);
        if let Some(assumed) = &assumed {
            Arc::make_mut(&mut shown).status.clone_from(&assumed.status);
        }
        Self {
            seen,
            shown,
            assumed,
        }
    }
}

impl Assumed {
    /// Whether the group was written after a watch saw it in this state.
    fn is_newer_than(&self, seen: &PodGroup) -> bool {
        match (self.version, version(seen)) {
            (None, _) => true,
            (Some(written), Some(seen)) => seen < written,
            (Some(_), None) => false,
        }
    }
}

fn version(group: &PodGroup) -> Option<u64> {
    group.metadata.resource_version.parse().ok()
}

fn name(metadata: &Metadata) -> Arc<str> {
    metadata.name.as_str().into()
}

impl Known {
    /// A pod was added or changed. It stays after its end, because its gang counts it.
    pub fn put_pod(&mut self, pod: Arc<Pod>) {
        self.pods.insert(PodId::of(&pod.metadata), pod);
    }

    /// A pod was deleted.
    pub fn remove_pod(&mut self, metadata: &Metadata) {
        self.pods.remove(&PodId::of(metadata));
    }

    /// The status of a group will be written. Returns the group as it will be. The answer has this number of the write.
    pub fn assume_group(
        &mut self,
        key: &str,
        status: &PodGroupStatus,
    ) -> Option<(Arc<PodGroup>, u64)> {
        let group = self.groups.get_mut(key)?;
        self.writes += 1;
        let assumed = Assumed {
            status: status.clone(),
            write: self.writes,
            version: None,
        };
        *group = Group::of(Arc::clone(&group.seen), Some(assumed));
        Some((Arc::clone(&group.shown), self.writes))
    }

    /// The write of a group's status was answered. Returns the group if its status is now another one.
    pub fn group_written(
        &mut self,
        key: &str,
        write: u64,
        answer: GroupWrite,
    ) -> Option<Arc<PodGroup>> {
        let group = self.groups.get_mut(key)?;
        // A later status is assumed already, or the group was made anew.
        let assumed = group
            .assumed
            .as_mut()
            .filter(|assumed| assumed.write == write)?;
        match answer {
            GroupWrite::Written(Some(version)) => {
                assumed.version = Some(version);
                if assumed.is_newer_than(&group.seen) {
                    return None;
                }
            }
            // The next watch event counts, whatever it shows.
            GroupWrite::Written(None) => {
                assumed.version = Some(0);
                return None;
            }
            GroupWrite::Failed => {}
        }
        *group = Group::of(Arc::clone(&group.seen), None);
        Some(Arc::clone(&group.shown))
    }

    /// The pod of this id.
    pub fn pod(&self, id: &str) -> Option<&Arc<Pod>> {
        self.pods.get(id)
    }

    /// Every pod, in the order of their ids.
    pub fn pods(&self) -> impl Iterator<Item = (&PodId, &Arc<Pod>)> {
        self.pods.iter()
    }

    /// A group came or changed. Returns it with the assumed status, if the event is older than the write of that.
    pub fn put_group(&mut self, group: Arc<PodGroup>) -> Arc<PodGroup> {
        let key = key(&group.metadata);
        let before = self.groups.remove(&key);
        let assumed = before
            .filter(|before| before.seen.metadata.uid == group.metadata.uid)
            .and_then(|before| before.assumed)
            .filter(|assumed| assumed.is_newer_than(&group));
        let known = Group::of(group, assumed);
        let shown = Arc::clone(&known.shown);
        self.groups.insert(key, known);
        shown
    }

    /// A group was deleted.
    pub fn remove_group(&mut self, metadata: &Metadata) {
        self.groups.remove(&key(metadata));
    }

    /// The group of this `namespace/name`.
    pub fn group(&self, key: &str) -> Option<&Arc<PodGroup>> {
        self.groups.get(key).map(|group| &group.shown)
    }

    /// A group of `scheduling.k8s.io` came or changed.
    pub fn put_upstream(&mut self, group: Arc<evictd_pod::wire::PodGroup>) {
        self.upstream.insert(upstream_job(&group.metadata), group);
    }

    /// A group of `scheduling.k8s.io` was deleted.
    pub fn remove_upstream(&mut self, metadata: &Metadata) {
        self.upstream.remove(&upstream_job(metadata));
    }

    /// The group of `scheduling.k8s.io` that is this job.
    pub fn upstream(&self, job: &str) -> Option<&Arc<evictd_pod::wire::PodGroup>> {
        self.upstream.get(job)
    }

    /// A queue came or changed.
    pub fn put_queue(&mut self, queue: Arc<Queue>) {
        self.queues.insert(name(&queue.metadata), queue);
    }

    /// A queue was deleted.
    pub fn remove_queue(&mut self, metadata: &Metadata) {
        self.queues.remove(&name(metadata));
    }

    /// Whether there is any queue.
    pub fn has_queues(&self) -> bool {
        !self.queues.is_empty()
    }

    /// The queue of this name.
    pub fn queue(&self, name: &str) -> Option<&Arc<Queue>> {
        self.queues.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_batch_objects::PodGroupPhase;

    fn group(version: &str, uid: &str, phase: PodGroupPhase) -> Arc<PodGroup> {
        let mut group = PodGroup::default();
        group.metadata.namespace = "ml".into();
        group.metadata.name = "train".to_owned();
        group.metadata.uid = uid.into();
        group.metadata.resource_version = version.into();
        group.status.phase = phase;
        Arc::new(group)
    }

    fn phase(known: &Known) -> PodGroupPhase {
        known.group("ml/train").unwrap().status.phase.clone()
    }

    /// A group of version 5 whose status is being written.
    fn assuming() -> (Known, u64) {
        let mut known = Known::default();
        known.put_group(group("5", "u", PodGroupPhase::Pending));
        let status = group("", "", PodGroupPhase::Inqueue).status.clone();
        let (_, write) = known.assume_group("ml/train", &status).unwrap();
        (known, write)
    }

    #[test]
    fn an_older_watch_event_does_not_undo_the_assumed_status_of_a_group() {
        let (mut known, write) = assuming();
        let shown = known.put_group(group("6", "u", PodGroupPhase::Pending));
        assert_eq!(shown.status.phase, PodGroupPhase::Inqueue);
        assert!(
            known
                .group_written("ml/train", write, GroupWrite::Written(Some(8)))
                .is_none()
        );
        known.put_group(group("7", "u", PodGroupPhase::Pending));
        assert_eq!(phase(&known), PodGroupPhase::Inqueue);
        known.put_group(group("9", "u", PodGroupPhase::Running));
        assert_eq!(phase(&known), PodGroupPhase::Running);
    }

    #[test]
    fn a_watch_event_that_comes_before_the_answer_counts_if_it_is_newer() {
        let (mut known, write) = assuming();
        known.put_group(group("9", "u", PodGroupPhase::Running));
        assert_eq!(phase(&known), PodGroupPhase::Inqueue);
        let shown = known.group_written("ml/train", write, GroupWrite::Written(Some(8)));
        assert_eq!(shown.unwrap().status.phase, PodGroupPhase::Running);
    }

    #[test]
    fn a_status_that_was_not_written_is_not_assumed_any_longer() {
        let (mut known, write) = assuming();
        let shown = known.group_written("ml/train", write, GroupWrite::Failed);
        assert_eq!(shown.unwrap().status.phase, PodGroupPhase::Pending);
    }

    #[test]
    fn the_answer_to_an_earlier_write_does_not_end_a_later_assumption() {
        let (mut known, write) = assuming();
        let running = group("", "", PodGroupPhase::Running).status.clone();
        known.assume_group("ml/train", &running).unwrap();
        assert!(
            known
                .group_written("ml/train", write, GroupWrite::Written(Some(6)))
                .is_none()
        );
        known.put_group(group("6", "u", PodGroupPhase::Inqueue));
        assert_eq!(phase(&known), PodGroupPhase::Running);
    }

    #[test]
    fn a_group_that_was_made_anew_has_its_own_status() {
        let (mut known, write) = assuming();
        known.put_group(group("9", "other", PodGroupPhase::Pending));
        assert_eq!(phase(&known), PodGroupPhase::Pending);
        assert!(
            known
                .group_written("ml/train", write, GroupWrite::Failed)
                .is_none()
        );
    }

    #[test]
    fn an_answer_without_a_version_leaves_the_decision_to_the_next_watch_event() {
        let (mut known, write) = assuming();
        assert!(
            known
                .group_written("ml/train", write, GroupWrite::Written(None))
                .is_none()
        );
        assert_eq!(phase(&known), PodGroupPhase::Inqueue);
        known.put_group(group("6", "u", PodGroupPhase::Pending));
        assert_eq!(phase(&known), PodGroupPhase::Pending);
    }
}
