//! Limits of pods on local storage. They are checked at a slow interval because that needs walks through
//! directories.

use super::active::Active;
use crate::{pods::PodSet, usage::WalkScope};
use evictd_eviction::local_storage;
use evictd_usage::Usage;
use jiff::{SignedDuration, Timestamp};

/// The kubelet's own period for these limits (S1-017).
const PERIOD: SignedDuration = SignedDuration::from_secs(10);

/// When the directories were last measured.
#[derive(Debug, Default)]
pub(super) struct LocalStorageCheck {
    begun: Option<Timestamp>,
    /// Whether any pod of this generation of the set has a limit.
    limited: Option<(u64, bool)>,
}

impl LocalStorageCheck {
    /// Usage of the pods with limits, if the check is due and the walk has ended; the usage of other pods is left
    /// unknown.
    pub(super) fn usage(
        &mut self,
        now: Timestamp,
        active: &Active,
        gauge: &mut crate::usage::UsageReader,
    ) -> Option<Usage> {
        let set = active.set();
        if !self.is_due(now) || !self.any_limited(set) {
            return None;
        }
        // While the walk is under way the check stays due, and the next cycle asks for its result.
        let usage = gauge.read_disk(now, set, WalkScope::LimitedPods)?;
        self.begun = Some(now);
        Some(usage)
    }

    /// Whether the check is due and cannot evict some pod that has a limit.
    pub(super) fn lacks_a_cgroup(&self, now: Timestamp, active: &Active) -> bool {
        let mut pods = active.set().pods.iter();
        self.is_due(now) && pods.any(|pod| pod.cgroup.is_none() && local_storage::limited(pod))
    }

    fn is_due(&self, now: Timestamp) -> bool {
        let recent = |begun: Timestamp| now.duration_since(begun) < PERIOD;
        !self.begun.is_some_and(recent)
    }

    fn any_limited(&mut self, set: &PodSet) -> bool {
        let known = self
            .limited
            .filter(|(generation, _)| *generation == set.generation);
        let any = known.map_or_else(
            || set.pods.iter().any(|pod| local_storage::limited(pod)),
            |(_, any)| any,
        );
        self.limited = Some((set.generation, any));
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::LocalPod;
    use evictd_pod::{Pod, wire};

    #[test]
    fn whether_any_pod_has_a_limit_is_asked_once_for_each_set_of_pods() {
        let set = |generation, volume: &str| {
            let text = format!(r#"{{"spec":{{"volumes":[{{"name":"v",{volume}}}]}}}}"#);
            let pod: wire::Pod = serde_json::from_str(&text).unwrap();
            PodSet {
                generation,
                pods: vec![LocalPod::new(Pod::from_wire(pod), None)],
                ..PodSet::default()
            }
        };
        let (unlimited, limited) = (r#""emptyDir":{}"#, r#""emptyDir":{"sizeLimit":"1Mi"}"#);
        let mut patrol = LocalStorageCheck::default();
        for (generation, volume, any) in [
            (1, unlimited, false),
            (1, limited, false),
            (2, limited, true),
            (3, unlimited, false),
        ] {
            assert_eq!(patrol.any_limited(&set(generation, volume)), any);
        }
    }
}
