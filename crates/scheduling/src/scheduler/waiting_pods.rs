//! From the choice of a node to the binding: the Reserve, Permit and `PreBind` points of custom plugins.

use super::{Attempt, Outcome, Rejected, Scheduler};
use crate::change::{Change, is_assigned, pod_key};
use crate::config::print_duration;
use crate::framework::Refusal;
use crate::plugins::{PluginName, PluginSet};
use crate::pod_lifecycle::WaitingPod;
use crate::pre_bind::PreBindPlan;
use crate::scheduling_algorithm::ScheduleResult;
use evictd_placement::{Chosen, Permit, Pod};
use evictd_pod::wire;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A pod that is being placed: its key, the pod, the number of the attempt, and the index of its profile.
pub(super) type Placing<'a> = (&'a Arc<str>, &'a Arc<wire::Pod>, u32, usize);

impl Scheduler {
    /// Binds the pod, or lets it wait for permits, unless a plugin refuses (S5-058, S5-059).
    pub(super) fn place(
        &mut self,
        now: Timestamp,
        placing: Placing<'_>,
        pod: Pod,
        decided: ScheduleResult,
    ) -> Outcome {
        let (key, wire, number, profile) = placing;
        let node: Arc<str> = self.cluster.node_name(decided.chosen).into();
        let chosen = self.chosen(wire, &node);
        let by = match self.frameworks[profile].reserve_and_permit(chosen) {
            Ok(by) => by,
            Err(refusal) => {
                self.cluster.release(pod);
                let rejected = refused(refusal);
                self.failed(now, key, &rejected.failure());
                return Outcome::Unschedulable(rejected);
            }
        };
        let pre_bind = PreBindPlan::begin(&mut self.cluster, &pod, decided.chosen);
        self.cluster.assume(pod, decided.chosen);
        self.queue.assume(now, key, &node);
        let waiting = WaitingPod {
            pod: Arc::clone(wire),
            number,
            profile,
            node: Arc::clone(&node),
            decided,
            pre_bind,
            since: now,
            by,
            gang: None,
        };
        if waiting.by.is_empty() {
            return self.go(now, key, waiting);
        }
        self.queue.delay(now, key, waiting);
        Outcome::WaitsOnPermit { node }
    }

    pub(super) const fn chosen<'c>(&'c self, pod: &'c wire::Pod, node: &'c str) -> Chosen<'c> {
        Chosen {
            cluster: &self.cluster,
            pod,
            node,
        }
    }

    /// Begins the binding of a permitted pod, unless a `PreBind` plugin fails.
    fn go(&mut self, now: Timestamp, key: &Arc<str>, waiting: WaitingPod) -> Outcome {
        let chosen = self.chosen(&waiting.pod, &waiting.node);
        if let Some(message) = self.frameworks[waiting.profile].wrong_before_binding(chosen) {
            let placed = (&*waiting.pod, &*waiting.node);
            self.unbind(now, key, placed, PluginSet::default());
            return Outcome::Error(message);
        }
        self.queue.bind(now, key, &waiting.pod, waiting.number);
        Outcome::Placed {
            node: waiting.node,
            decided: waiting.decided,
            pre_bind: waiting.pre_bind,
        }
    }

    /// Asks the plugins again about the pods that wait for them, if the cluster has changed. Rejects the pods that have waited
    /// too long (S5-060). [`Scheduler::attempt`] returns the results.
    pub(super) fn review_permits(&mut self, now: Timestamp) {
        if !self.queue.lifecycles().has_waiting_pods() {
            return;
        }
        let changes = self.cluster.changes().now();
        let asks = std::mem::replace(&mut self.permits_asked_at, changes) != changes;
        for key in self.queue.lifecycles().waiting_uids() {
            let Some(mut waiting) = self.queue.take_waiting_pod(&key) else {
                continue;
            };
            let refusal = match waiting.expired(now) {
                Some((plugin, timeout)) => Some((plugin.clone(), too_long(&plugin, timeout))),
                None if asks => self.permit_again(&mut waiting),
                None => None,
            };
            match (refusal, waiting.gang.clone()) {
                (Some(refusal), None) => self.withdraw(now, key, waiting, refusal),
                (None, None) if waiting.by.is_empty() => {
                    let (pod, number) = (Arc::clone(&waiting.pod), waiting.number);
                    let outcome = self.go(now, &key, waiting);
                    self.decided.push_back(Attempt {
                        key,
                        pod,
                        number,
                        outcome,
                    });
                }
                (refusal, gang) => {
                    self.queue.delay(now, &key, waiting);
                    if let (Some(refusal), Some(gang)) = (refusal, gang) {
                        self.withdraw_gang(now, &gang, &refusal);
                    }
                }
            }
        }
        self.bind_permitted_gangs(now);
    }

    /// Asks the plugins that a pod waits for. One rejection is enough.
    fn permit_again(&self, waiting: &mut WaitingPod) -> Option<Refusal> {
        let chosen = self.chosen(&waiting.pod, &waiting.node);
        let mut refusal = None;
        for plugin in &self.frameworks[waiting.profile].permits {
            let name = plugin.name();
            if !waiting.by.iter().any(|(plugin, _)| plugin == name) {
                continue;
            }
            match plugin.permit(chosen) {
                Permit::Allow => waiting.by.retain(|(plugin, _)| plugin != name),
                Permit::Wait(_) => {}
                Permit::Reject(reason) => {
                    refusal.get_or_insert((name.to_owned(), reason));
                }
            }
        }
        refusal
    }

    /// Rejects a pod that waited for permits; it gives back its node.
    fn withdraw(&mut self, now: Timestamp, key: Arc<str>, waiting: WaitingPod, refusal: Refusal) {
        let rejected = refused(refusal);
        let placed = (&*waiting.pod, &*waiting.node);
        self.unbind(now, &key, placed, rejected.failure().rejectors);
        self.decided.push_back(Attempt {
            key,
            pod: waiting.pod,
            number: waiting.number,
            outcome: Outcome::Unschedulable(rejected),
        });
    }

    /// Sends a victim that waits for permits back to the queue instead of deleting it (S4-022). False if it does not wait.
    pub fn reject_waiting(&mut self, now: Timestamp, key: &str) -> bool {
        let Some(waiting) = self.queue.lifecycles().waiting_pod(key) else {
            return false;
        };
        let gang = waiting.gang.clone();
        let refusal = ("DefaultPreemption".to_owned(), "preempted".to_owned());
        if let Some(gang) = gang {
            self.withdraw_gang(now, &gang, &refusal);
        } else if let Some(waiting) = self.queue.take_waiting_pod(key) {
            self.withdraw(now, key.into(), waiting, refusal);
        }
        true
    }

    /// Takes out a pod that waits for permits and was deleted or bound by someone else.
    pub(super) fn take_ended(&mut self, change: &Change) -> Option<(Arc<str>, WaitingPod)> {
        let Change::Pod(pods) = change else {
            return None;
        };
        let old = pods.old.as_ref();
        let old = old.filter(|_| self.queue.lifecycles().has_waiting_pods())?;
        if pods.new.as_ref().is_some_and(|new| !is_assigned(new)) {
            return None;
        }
        let key = pod_key(&old.metadata);
        let waiting = self.queue.take_waiting_pod(&key)?;
        Some((key, waiting))
    }

    /// Calls Unreserve for a pod that waited for permits and was deleted or bound by someone else. The cluster has applied the
    /// change already.
    pub(super) fn end_waiting(&mut self, now: Timestamp, key: &Arc<str>, waiting: WaitingPod) {
        let chosen = self.chosen(&waiting.pod, &waiting.node);
        self.frameworks[waiting.profile].unreserve(chosen);
        self.queue.done(now, key);
        if let Some(gang) = waiting.gang.filter(|gang| !self.queue.is_whole(gang)) {
            let plugin = PluginName::GangScheduling.as_str().to_owned();
            let reason = format!("pod {:?} of its group is gone", waiting.pod.metadata.name);
            self.withdraw_gang(now, &gang, &(plugin, reason));
        }
    }
}

fn too_long(plugin: &str, timeout: SignedDuration) -> String {
    let waited = print_duration(timeout);
    format!("rejected due to timeout after waiting {waited} at plugin {plugin}")
}

/// The result of a pod that a plugin refuses on its node.
pub(super) fn refused((plugin, reason): Refusal) -> Rejected {
    Rejected {
        message: format!("0/1 nodes are available: 1 {reason}."),
        plugins: BTreeSet::from([plugin]),
        rejections: Arc::default(),
        preempts: false,
        nominated: None,
        deallocates: None,
        victims: Vec::new(),
        actions: Vec::new(),
        nominations_cleared: Vec::new(),
        clears_nomination: true,
    }
}
