//! How long the objects of evicted pods are kept: until they are old, or until their owner has enough newer ones
//! (users #9).

use evictd_pod::Pod;
use jiff::{SignedDuration, Timestamp};
use std::{collections::BTreeMap, fmt};

/// A pod that evictd evicted and whose object still exists.
#[derive(Debug, Clone, Copy)]
pub struct EvictedPod<'a> {
    /// The pod as the API server lists it.
    pub pod: &'a Pod,
    /// When it was evicted.
    pub evicted_at: Timestamp,
}

/// How many evicted pods to keep, and for how long; by default none is ever deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// The longest time that one is kept; `None` means forever.
    pub ttl: Option<SignedDuration>,
    /// How many an owner keeps, the newest; `None` means all. Pods without an owner are not limited by it.
    pub keep_per_owner: Option<u32>,
}

/// Why one is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionReason {
    /// It is at least this old.
    Old(SignedDuration),
    /// Its owner has at least this many newer ones.
    TooMany(u32),
}

impl fmt::Display for DeletionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Old(ttl) => {
                let ttl = evictd_pod::duration::format(*ttl);
                write!(f, "it was evicted {ttl} ago or earlier")
            }
            Self::TooMany(most) => write!(f, "its owner has {most} newer ones"),
        }
    }
}

impl Retention {
    /// Whether anything is ever deleted.
    pub fn is_limited(&self) -> bool {
        self.ttl.is_some() || self.keep_per_owner.is_some()
    }

    /// Which of these to delete now and why, the oldest first. Pods of a Job are kept because the Job counts them,
    /// and so are pods that may not have ended yet. A pod that is being deleted already is ignored.
    pub fn due(
        &self,
        now: Timestamp,
        evicted_pods: &[EvictedPod<'_>],
    ) -> Vec<(usize, DeletionReason)> {
        // A pod is one too many if enough newer ones of its owner are there.
        let mut newest_first: Vec<usize> = (0..evicted_pods.len()).collect();
        newest_first.sort_by_key(|index| {
            let one = &evicted_pods[*index];
            std::cmp::Reverse((one.evicted_at, &one.pod.uid))
        });
        let mut newer: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        let mut due = Vec::new();
        for index in newest_first {
            let one = &evicted_pods[index];
            let owner = one.pod.controller.as_ref();
            let of_job = owner.is_some_and(|owner| owner.kind == "Job");
            if of_job || one.pod.deletion_timestamp.is_some() {
                continue;
            }
            let too_many = owner.zip(self.keep_per_owner).and_then(|(owner, most)| {
                let newer = newer.entry((&one.pod.namespace, &owner.uid)).or_default();
                *newer += 1;
                (*newer > most).then_some(DeletionReason::TooMany(most))
            });
            let age = now.duration_since(one.evicted_at);
            let old = self.ttl.filter(|ttl| age >= *ttl).map(DeletionReason::Old);
            if let Some(why) = too_many.or(old).filter(|_| one.has_ended(now)) {
                due.push((index, why));
            }
        }
        due.reverse();
        due
    }
}

impl EvictedPod<'_> {
    /// Deleting the object of a pod that still runs would cut its grace period short.
    fn has_ended(&self, now: Timestamp) -> bool {
        const TEARDOWN_MARGIN: SignedDuration = SignedDuration::from_secs(10);
        let requested = self
            .pod
            .termination_grace_period_seconds
            .unwrap_or(crate::rules::DEFAULT_GRACE_PERIOD_SECONDS);
        let grace = SignedDuration::from_secs(requested.max(0)).saturating_add(TEARDOWN_MARGIN);
        now.duration_since(self.evicted_at) >= grace
    }
}
