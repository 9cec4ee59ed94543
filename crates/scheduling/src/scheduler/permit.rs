//! Pods that wait until plugins permit their binding.

use super::binding_cycle::{BindingCycle, chosen};
use super::cluster_state::ClusterState;
use super::{Attempt, Outcome, Rejected};
use crate::change::{Delta, is_assigned};
use crate::framework::{PendingPermit, PluginRejection};
use crate::plugins::PluginName;
use crate::pod_lifecycle::WaitingPod;
use evictd_placement::Permit;
use evictd_pod::duration;
use evictd_pod::wire;
use jiff::Timestamp;
use std::sync::Arc;

impl BindingCycle {
    /// Asks the Permit plugins again if the cluster has changed, and rejects the pods that have waited too long (S5-060).
    pub(super) fn check_permits(&mut self, state: &mut ClusterState, now: Timestamp) {
        if !state.queue.lifecycles().has_waiting_pods() {
            return;
        }
        let changes = state.cluster().changes().now();
        let has_changed = std::mem::replace(&mut self.permits_checked_at, changes) != changes;
        for key in state.queue.lifecycles().waiting_uids() {
            // A gang that was rejected in an earlier round has taken its pods along.
            let Some(mut waiting) = state.queue.take_waiting_pod(&key) else {
                continue;
            };
            let rejection = match waiting.timed_out(now) {
                Some(permit) => Some(timeout_of(permit)),
                None if has_changed => self.ask_permit_again(state, &mut waiting),
                None => None,
            };
            // A pod of a gang goes back among the waiting pods first, so that it is rejected or bound together with the others.
            match (rejection, waiting.gang.clone()) {
                (Some(rejection), None) => self.reject(state, now, &key, &waiting, rejection),
                (None, None) if waiting.pending.is_empty() => {
                    let (pod, number) = (Arc::clone(&waiting.pod), waiting.attempts);
                    let outcome = self.bind(state, now, &key, waiting);
                    self.results.push(Attempt {
                        key,
                        pod,
                        number,
                        outcome,
                    });
                }
                (rejection, gang) => {
                    state.queue.delay(now, &key, waiting);
                    if let (Some(rejection), Some(gang)) = (rejection, gang) {
                        self.reject_gang(state, now, &gang, &rejection);
                    }
                }
            }
        }
        self.bind_permitted_gangs(state, now);
    }

    /// Asks the plugins that a pod waits for. One rejection is enough.
    fn ask_permit_again(
        &self,
        state: &ClusterState,
        waiting: &mut WaitingPod,
    ) -> Option<PluginRejection> {
        let mut rejection = None;
        for permit in &self.profiles[waiting.profile].permits {
            let name = permit.name();
            let is_pending = waiting.pending.iter().any(|pending| pending.plugin == name);
            if !is_pending {
                continue;
            }
            let chosen = chosen(state.cluster(), &waiting.pod, &waiting.node);
            match permit.permit(chosen) {
                Permit::Allow => waiting.pending.retain(|pending| pending.plugin != name),
                Permit::Wait(_) => {}
                Permit::Reject(reason) => {
                    let plugin = name.to_owned();
                    rejection.get_or_insert(PluginRejection { plugin, reason });
                }
            }
        }
        rejection
    }

    fn reject(
        &mut self,
        state: &mut ClusterState,
        now: Timestamp,
        key: &Arc<str>,
        waiting: &WaitingPod,
        rejection: PluginRejection,
    ) {
        let rejected = Rejected::on_chosen_node(rejection);
        self.forget(state, now, key, waiting, rejected.failure().rejectors);
        let outcome = Outcome::Unschedulable(rejected);
        self.results.push_waiting(key, waiting, outcome);
    }

    /// Sends a victim that waits for permits back to the queue, together with its gang (S4-022). False if it does not wait.
    pub(super) fn reject_victim(
        &mut self,
        state: &mut ClusterState,
        now: Timestamp,
        key: &str,
    ) -> bool {
        let Some(waiting) = state.queue.lifecycles().waiting_pod(key) else {
            return false;
        };
        let gang = waiting.gang.clone();
        let rejection = PluginRejection {
            plugin: PluginName::DefaultPreemption.as_str().to_owned(),
            reason: "preempted".to_owned(),
        };
        if let Some(gang) = gang {
            self.reject_gang(state, now, &gang, &rejection);
        } else if let Some(waiting) = state.queue.take_waiting_pod(key) {
            self.reject(state, now, &key.into(), &waiting, rejection);
        }
        true
    }

    /// Takes out a pod that waits for permits, if it was deleted or bound by another client.
    pub(super) fn take_ended(
        state: &mut ClusterState,
        pods: &Delta<wire::Pod>,
    ) -> Option<(Arc<str>, WaitingPod)> {
        if !state.queue.lifecycles().has_waiting_pods() {
            return None;
        }
        let old = pods.old.as_ref()?;
        let still_waits = pods.new.as_ref().is_some_and(|new| !is_assigned(new));
        if still_waits {
            return None;
        }
        let key = old.metadata.key();
        let waiting = state.queue.take_waiting_pod(&key)?;
        Some((key, waiting))
    }

    /// Ends the attempt of a pod that [`Self::take_ended`] returned. The cluster has applied the change already.
    pub(super) fn end_waiting(
        &mut self,
        state: &mut ClusterState,
        now: Timestamp,
        key: &str,
        waiting: &WaitingPod,
    ) {
        self.unreserve(state, waiting);
        state.queue.done(now, key);
        let broken_gang = waiting
            .gang
            .as_ref()
            .filter(|gang| !state.queue.is_whole(gang));
        if let Some(gang) = broken_gang {
            let rejection = PluginRejection {
                plugin: PluginName::GangScheduling.as_str().to_owned(),
                reason: format!("pod {:?} of its group is gone", waiting.pod.metadata.name),
            };
            self.reject_gang(state, now, gang, &rejection);
        }
    }
}

fn timeout_of(permit: &PendingPermit) -> PluginRejection {
    let plugin = permit.plugin.clone();
    let waited = duration::format(permit.timeout);
    PluginRejection {
        reason: format!("rejected due to timeout after waiting {waited} at plugin {plugin}"),
        plugin,
    }
}
