//! Carries out the decisions of a session: pods are bound or evicted, and the statuses of groups are written.

use super::events::{Event, count};
use super::{PATIENCE, Simulator, Stage};
use crate::objects::timestamp;
use evictd_batch::session::{EvictionKind, Outcome};
use evictd_pod::wire::{Condition, ConditionStatus, PodPhase, Time};
use std::cmp::Reverse;

/// Evictions without a pod's end in between after which nothing is expected any more, for each pod that is there.
const BACK_AND_FORTH: usize = 20;

impl Simulator<'_> {
    pub(super) fn carry_out(&mut self) {
        let outcome = std::mem::take(&mut self.outcome);
        let acts = !outcome.binds.is_empty() || !outcome.evicted.is_empty();
        // A row of sessions that change only conditions ends the simulation.
        self.idle = if acts { 0 } else { self.idle + 1 };
        // Usage is constant between changes, so it is recorded only before one.
        if acts || outcome.reserved_free != self.reserved_free {
            self.usage.advance(self.now);
            self.usage.reserves(outcome.reserved_free.as_ref());
            self.reserved_free.clone_from(&outcome.reserved_free);
        }
        for (key, node) in &outcome.binds {
            self.bind(key, node);
        }
        for eviction in &outcome.evicted {
            self.evict(&eviction.pod, eviction.reason);
        }
        let promised = self.set_pod_conditions(&outcome);
        let moved = self.tell_groups(&outcome);
        self.outcome = outcome;
        self.unsettled = acts;
        self.changed = acts || ((promised || moved) && self.idle < PATIENCE);
        // Jobs that evict each other in turn would never end.
        if self.evictions > BACK_AND_FORTH * (self.pods.len() + PATIENCE as usize) {
            self.broken_off = true;
        }
    }

    fn bind(&mut self, key: &str, node: &str) {
        let Some((job, pod)) = self.pods.get(key).copied() else {
            return;
        };
        let (traced, state) = (&self.trace.jobs[job], &mut self.jobs[job]);
        let Some(live) = &mut state.live else { return };
        let bound = &mut live.pods[pod];
        node.clone_into(&mut bound.pod.spec.node_name);
        bound.pod.status.phase = PodPhase::Running;
        bound.pod.status.start_time = timestamp(self.now);
        // The nomination is fulfilled.
        bound.pod.status.nominated_node_name.clear();
        bound.stage = Stage::Runs(self.now);
        self.world.pod(&bound.pod);
        self.usage.starts(state.queue, &live.amounts[bound.task]);
        let made = bound.made;
        let at = self.now.saturating_add(traced.duration.as_millis());
        self.events
            .push(Reverse((at, Event::Ends { job, pod, made })));
        self.waiting -= 1;
        live.running += 1;
        let there = live.running as usize + live.done;
        // A job has started once its gang is complete. Later evictions do not change that.
        if state.wait.is_none() && there >= traced.least() as usize {
            state.wait = Some(self.now - traced.arrival.as_millis());
            self.usage.job_starts();
        }
    }

    fn evict(&mut self, key: &str, kind: EvictionKind) {
        let Some((job, pod)) = self.pods.get(key).copied() else {
            return;
        };
        let state = &mut self.jobs[job];
        let Some(live) = &state.live else { return };
        let Stage::Runs(since) = live.pods[pod].stage else {
            return;
        };
        if kind.is_reclaim() {
            state.reclaimed += 1;
        } else {
            state.preempted += 1;
        }
        self.evictions += 1;
        self.goes(job, pod, since);
    }

    /// A pod that has run for a time has to go.
    pub(super) fn goes(&mut self, job: usize, pod: usize, since: u64) {
        let Some(live) = &mut self.jobs[job].live else {
            return;
        };
        let gone = &mut live.pods[pod];
        gone.stage = Stage::Goes;
        // The event of its end belongs to the earlier generation and is ignored.
        gone.made += 1;
        gone.pod.metadata.deletion_timestamp = timestamp(self.now).map(Time::from);
        self.world.pod(&gone.pod);
        count(&mut self.lost, &live.amounts[gone.task], self.now - since);
        let made = gone.made;
        let at = self.now + self.trace.termination_seconds.as_millis();
        self.events
            .push(Reverse((at, Event::IsGone { job, pod, made })));
        live.running -= 1;
    }

    /// Writes why pods have no node, and their nominated nodes. Returns whether any was nominated.
    fn set_pod_conditions(&mut self, outcome: &Outcome) -> bool {
        let mut promised = false;
        for (key, condition) in &outcome.pod_conditions {
            let Some((job, pod)) = self.pods.get(key).copied() else {
                continue;
            };
            let Some(live) = &mut self.jobs[job].live else {
                continue;
            };
            let pod = &mut live.pods[pod].pod;
            if let Some(node) = &condition.nominated_node_name {
                node.clone_into(&mut pod.status.nominated_node_name);
                promised = true;
            }
            // A session says nothing of a pod to which it would say the same again.
            pod.status.conditions = vec![Condition {
                kind: "PodScheduled".into(),
                status: ConditionStatus::of(&condition.status),
                reason: condition.reason.clone().into(),
                message: condition.message.clone(),
                ..Condition::default()
            }];
            self.world.pod(pod);
        }
        promised
    }

    /// Writes the statuses of groups; whether any phase has changed.
    fn tell_groups(&mut self, outcome: &Outcome) -> bool {
        let mut moved = false;
        let written = outcome
            .pod_groups
            .iter()
            .filter(|(_, condition)| condition.written);
        for (key, condition) in written {
            let job = self.groups.get(key).map(|job| &mut self.jobs[*job]);
            let Some(live) = job.and_then(|job| job.live.as_mut()) else {
                continue;
            };
            moved |= condition.status.phase != live.group.status.phase;
            live.group.status = condition.status.clone();
            self.world.group(&live.group);
        }
        moved
    }
}
