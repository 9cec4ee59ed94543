//! The events between sessions: jobs arrive, pods end, and evicted pods terminate.

use super::{Live, PodState, Simulator, Stage};
use crate::usage::Amounts;
use evictd_pod::wire::{PodPhase, full_name};
use hashbrown::HashSet;
use std::cmp::Reverse;

/// In the order in which it happens at the same moment. A pod is named by its job, its index and how often it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Ends { job: usize, pod: usize, made: u32 },
    IsGone { job: usize, pod: usize, made: u32 },
    Leave { nodes: usize },
    Join { nodes: usize },
    Comes { job: usize },
    Deleted { job: usize },
}

impl Simulator<'_> {
    /// Lets everything happen up to a moment, that moment included.
    pub(super) fn happen_until(&mut self, at: u64) {
        while let Some(Reverse((time, event))) = self.events.peek().copied() {
            if time > at {
                break;
            }
            self.events.pop();
            self.now = time;
            self.usage.advance(time);
            match event {
                Event::Ends { job, pod, made } => self.ends(job, pod, made),
                Event::IsGone { job, pod, made } => self.is_gone(job, pod, made),
                Event::Leave { nodes } => self.leave(nodes),
                Event::Join { nodes } => self.join(nodes),
                Event::Comes { job } => self.comes(job),
                Event::Deleted { job } => self.deleted(job),
            }
        }
    }

    /// Something has happened that a session has to look at.
    fn happened(&mut self) {
        self.changed = true;
        self.idle = 0;
    }

    fn comes(&mut self, job: usize) {
        let (traced, state) = (&self.trace.jobs[job], &mut self.jobs[job]);
        let group = traced.group(self.now);
        self.groups.insert(traced.key(), job);
        self.world.group(&group);
        let mut live = Live {
            group,
            pods: Vec::new(),
            amounts: Vec::new(),
            running: 0,
            done: 0,
        };
        for (number, task) in traced.tasks.iter().enumerate() {
            let amounts = self.usage.amounts_of(&task.requests);
            for index in 0..task.replicas {
                self.made += 1;
                let pod = traced.pod(task, index, self.now, self.made);
                self.world.pod(&pod);
                self.usage.waits(state.queue, &amounts);
                self.waiting += 1;
                let key = full_name(traced.namespace(), &pod.metadata.name);
                self.pods.insert(key, (job, live.pods.len()));
                live.pods.push(PodState {
                    pod,
                    task: number,
                    index,
                    made: 0,
                    stage: Stage::Waits,
                });
            }
            live.amounts.push(amounts);
        }
        state.live = Some(live);
        self.usage.job_waits();
        self.evictions = 0;
        self.happened();
    }

    fn ends(&mut self, job: usize, pod: usize, made: u32) {
        let state = &mut self.jobs[job];
        let Some(live) = &mut state.live else { return };
        let pod_state = &mut live.pods[pod];
        let Stage::Runs(since) = pod_state.stage else {
            return;
        };
        if pod_state.made != made {
            return;
        }
        pod_state.stage = Stage::Ended;
        pod_state.pod.status.phase = PodPhase::Succeeded;
        let amounts = &live.amounts[pod_state.task];
        count(&mut self.work, amounts, self.now - since);
        self.usage.leaves(state.queue, amounts);
        self.world.ended(&pod_state.pod);
        live.running -= 1;
        live.done += 1;
        if live.done == live.pods.len() {
            self.end(job);
        }
        self.evictions = 0;
        self.happened();
    }

    /// A job has come to its end, and is removed.
    fn end(&mut self, job: usize) {
        self.jobs[job].ended = true;
        self.ended += 1;
        self.forget(job);
    }

    /// Nothing of a job is left.
    fn forget(&mut self, job: usize) {
        let Some(live) = self.jobs[job].live.take() else {
            return;
        };
        self.over += 1;
        for pod in &live.pods {
            self.world.remove_pod(&pod.pod);
            self.pods.remove(&key_of(pod));
        }
        self.world.remove_group(&live.group);
        self.groups.remove(&self.trace.jobs[job].key());
    }

    /// An evicted pod has terminated, and is created again.
    fn is_gone(&mut self, job: usize, pod: usize, made: u32) {
        let (traced, state) = (&self.trace.jobs[job], &mut self.jobs[job]);
        let Some(live) = &mut state.live else { return };
        let PodState {
            pod,
            task,
            index,
            made: now_made,
            stage,
        } = &mut live.pods[pod];
        if *stage != Stage::Goes || *now_made != made {
            return;
        }
        self.world.remove_pod(pod);
        let amounts = &live.amounts[*task];
        self.usage.leaves(state.queue, amounts);
        if state.deleted {
            *stage = Stage::Ended;
            live.done += 1;
            if live.done == live.pods.len() {
                self.forget(job);
            }
            return self.happened();
        }
        self.made += 1;
        *pod = traced.pod(&traced.tasks[*task], *index, self.now, self.made);
        *stage = Stage::Waits;
        self.world.pod(pod);
        self.usage.waits(state.queue, amounts);
        self.waiting += 1;
        self.happened();
    }

    fn join(&mut self, nodes: usize) {
        let nodes = &self.trace.nodes[nodes];
        for node in nodes.objects() {
            self.world.node(&node);
        }
        self.usage.nodes(nodes, true);
        self.evictions = 0;
        self.happened();
    }

    /// Nodes are lost, and their pods end at once. The pods are created again.
    fn leave(&mut self, nodes: usize) {
        let nodes = &self.trace.nodes[nodes];
        let names: HashSet<String> = nodes.names().collect();
        let mut gone = Vec::new();
        for (job, state) in self.jobs.iter_mut().enumerate() {
            let Some(live) = &mut state.live else {
                continue;
            };
            for (index, pod) in live.pods.iter_mut().enumerate() {
                let is_there = !matches!(pod.stage, Stage::Waits | Stage::Ended);
                if !is_there || !names.contains(&pod.pod.spec.node_name) {
                    continue;
                }
                if let Stage::Runs(since) = pod.stage {
                    count(&mut self.lost, &live.amounts[pod.task], self.now - since);
                    live.running -= 1;
                    pod.stage = Stage::Goes;
                }
                pod.made += 1;
                gone.push((job, index, pod.made));
            }
        }
        for (job, pod, made) in gone {
            self.is_gone(job, pod, made);
        }
        for name in &names {
            self.world.remove_node(name);
        }
        self.usage.nodes(nodes, false);
        self.evictions = 0;
        self.happened();
    }

    /// The owner of a job deletes it: its pods have to go, and none is created again.
    fn deleted(&mut self, job: usize) {
        let state = &mut self.jobs[job];
        let Some(live) = &mut state.live else { return };
        state.deleted = true;
        let mut going = Vec::new();
        for (index, pod) in live.pods.iter_mut().enumerate() {
            match pod.stage {
                Stage::Waits => {
                    pod.stage = Stage::Ended;
                    live.done += 1;
                    self.waiting -= 1;
                    self.usage.withdraws(state.queue, &live.amounts[pod.task]);
                    self.world.remove_pod(&pod.pod);
                }
                Stage::Runs(since) => going.push((index, since)),
                Stage::Goes | Stage::Ended => {}
            }
        }
        self.world.remove_group(&live.group);
        self.groups.remove(&self.trace.jobs[job].key());
        if state.wait.is_none() {
            self.usage.job_starts();
        }
        let ended = live.done == live.pods.len();
        for (pod, since) in going {
            self.goes(job, pod, since);
        }
        if ended {
            self.forget(job);
        }
        self.evictions = 0;
        self.happened();
    }
}

fn key_of(pod_state: &PodState) -> String {
    let metadata = &pod_state.pod.metadata;
    full_name(&metadata.namespace, &metadata.name)
}

/// Adds the usage of a pod for a span of time.
pub(super) fn count(sum: &mut Amounts, amounts: &Amounts, millis: u64) {
    for (sum, amount) in sum.iter_mut().zip(amounts) {
        *sum = sum.saturating_add(amount.saturating_mul(i128::from(millis)));
    }
}
