//! Deletes the objects of evicted pods once there are too many of them or they are old: one at a time, in the
//! background.

use crate::pods::Listing;
use evictd_cluster_client::{Actions, ApiError, Backoff, CALL_TIMEOUT};
use evictd_eviction::retention::{DeletionReason, EvictedPod, Retention};
use evictd_kernel::clock::Clock;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, Preconditions},
    core::PartialObjectMeta,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{sync::watch, time::sleep};

/// How often to check whether one has become old.
const PERIOD: Duration = Duration::from_secs(10);
/// The pause between two deletions.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause after a refusal, doubled each time.
const REFUSED_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// Deletes the objects of pods that were evicted on this node.
pub(crate) struct PodGarbageCollector {
    retention: Retention,
    /// UIDs of the pods that are in this node's own history. The annotation on a pod is not enough, because users
    /// can write it.
    evicted: watch::Receiver<BTreeSet<String>>,
    actions: Actions,
    clock: Clock,
    /// UIDs of pods that were deleted, or in a dry run reported, for as long as they are listed.
    done: BTreeSet<String>,
    /// UIDs of pods whose deletion was refused, until the others have been tried.
    refused: BTreeSet<String>,
    backoff: Backoff,
}

/// A pod whose object is to be deleted.
struct Due {
    namespace: String,
    name: String,
    uid: String,
    why: DeletionReason,
}

impl PodGarbageCollector {
    /// By these limits, for the pods with these UIDs.
    pub(crate) fn new(
        retention: Retention,
        evicted: watch::Receiver<BTreeSet<String>>,
        actions: Actions,
        clock: Clock,
    ) -> Self {
        Self {
            retention,
            evicted,
            actions,
            clock,
            done: BTreeSet::new(),
            refused: BTreeSet::new(),
            backoff: Backoff::new(REFUSED_PAUSE, LONGEST_PAUSE),
        }
    }

    /// Runs until the source of pods ends. In a dry run it only logs the deletions.
    pub(crate) async fn run(
        mut self,
        mut listings: watch::Receiver<Arc<Listing>>,
        mut dry_run: watch::Receiver<bool>,
    ) {
        while listings.has_changed().is_ok() {
            // What would have been deleted in a dry run is deleted after it.
            if dry_run.has_changed().unwrap_or(false) {
                self.done.clear();
            }
            let dry = *dry_run.borrow_and_update();
            let next = self.next(&listings.borrow_and_update());
            match next {
                Some(due) if dry => {
                    due.log("would delete");
                    self.done.insert(due.uid);
                }
                Some(due) => {
                    sleep(self.delete(due).await).await;
                }
                None => {
                    tokio::select! {
                        _ = listings.changed() => {}
                        Ok(()) = dry_run.changed() => self.done.clear(),
                        () = sleep(PERIOD) => {}
                    }
                }
            }
        }
    }

    /// The pod that has been due for longest, preferably one that was not refused. `None` while the pods may be out
    /// of date.
    fn next(&mut self, listing: &Listing) -> Option<Due> {
        if listing.stale.is_some() {
            return None;
        }
        let evicted = self.evicted.borrow();
        let evicted_pods: Vec<EvictedPod<'_>> = listing
            .pods
            .iter()
            .filter_map(|listed| {
                let (pod, evicted_at) = (&listed.pod, listed.evicted_at?);
                let ours = evicted.contains(&pod.uid);
                ours.then_some(EvictedPod { pod, evicted_at })
            })
            .collect();
        drop(evicted);
        let listed = |uid: &String| evicted_pods.iter().any(|one| one.pod.uid == *uid);
        self.done.retain(listed);
        self.refused.retain(listed);
        let mut due = self.retention.due(self.clock.now(), &evicted_pods);
        due.retain(|(index, _)| !self.done.contains(&evicted_pods[*index].pod.uid));
        let fresh = |(index, _): &&(usize, DeletionReason)| {
            let uid = &evicted_pods[*index].pod.uid;
            !self.refused.contains(uid)
        };
        let next = due.iter().find(fresh);
        // Each pod has had its turn. The refused ones are tried again, one after the other.
        if next.is_none() {
            self.refused.clear();
        }
        let (index, why) = *next.or(due.first())?;
        let pod = evicted_pods[index].pod;
        Some(Due {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            why,
        })
    }

    /// Deletes the object, with the UID as a precondition. A missing object, or another pod with its name, is a
    /// success. Returns the wait before the next deletion.
    async fn delete(&mut self, due: Due) -> Duration {
        let what = format!("deleting the evicted pod {}/{}", due.namespace, due.name);
        let pods: Api<PartialObjectMeta<Pod>> =
            Api::namespaced(self.actions.client(), &due.namespace);
        let options = DeleteParams {
            preconditions: Some(Preconditions {
                // A new pod may have the name by now.
                uid: Some(due.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let call = pods.delete(&due.name, &options);
        match self.actions.call(&what, CALL_TIMEOUT, call).await {
            Ok(_) => due.log("deleted"),
            Err(error) if is_about_another(&error) => {}
            Err(error) => {
                let pause = self.backoff.next(Backoff::NO_JITTER);
                if pause == REFUSED_PAUSE {
                    tracing::warn!("evicted pods are kept longer than evictedPods says: {error}");
                }
                self.refused.insert(due.uid);
                return pause;
            }
        }
        self.done.insert(due.uid);
        self.backoff.reset();
        PAUSE
    }
}

impl Due {
    fn log(&self, what: &str) {
        let pod = format!("{}/{}", self.namespace, self.name);
        tracing::info!(
            EVICTD_POD = pod,
            EVICTD_POD_UID = self.uid,
            "{what} the evicted pod {pod}: {}",
            self.why
        );
    }
}

fn is_about_another(error: &ApiError) -> bool {
    let code = error.status().map(|status| status.code);
    matches!(code, Some(404 | 409))
}

#[cfg(test)]
mod tests;
