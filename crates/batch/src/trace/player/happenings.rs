//! What happens by itself: jobs come, pods end, and pods that had to go are gone.

use super::{Live, Player, PodState, Stage};
use crate::trace::ledger::Amounts;
use std::cmp::Reverse;

/// In the order in which it happens at the same moment. A pod is named by its job, its index and how often it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Ends { job: usize, pod: usize, made: u32 },
    IsGone { job: usize, pod: usize, made: u32 },
    Comes { job: usize },
}

impl Player<'_> {
    /// Lets everything happen up to a moment, that moment included.
    pub(super) fn happen_until(&mut self, at: u64) {
        while let Some(Reverse((time, event))) = self.events.peek().copied() {
            if time > at {
                break;
            }
            self.events.pop();
            self.now = time;
            self.ledger.advance(time);
            match event {
                Event::Ends { job, pod, made } => self.ends(job, pod, made),
                Event::IsGone { job, pod, made } => self.is_gone(job, pod, made),
                Event::Comes { job } => self.comes(job),
            }
        }
    }

    /// Something has happened that a session has to look at.
    fn happened(&mut self) {
        self.changed = true;
        self.idle = 0;
    }

    fn comes(&mut self, job: usize) {
        let (own, state) = (&self.trace.jobs[job], &mut self.jobs[job]);
        let group = own.group(self.now);
        self.groups.insert(own.key(), job);
        self.world.group(&group);
        let mut live = Live {
            group,
            pods: Vec::new(),
            amounts: Vec::new(),
            running: 0,
            done: 0,
        };
        for (number, task) in own.tasks.iter().enumerate() {
            let amounts = self.ledger.amounts_of(&task.requests);
            for index in 0..task.replicas {
                self.made += 1;
                let pod = own.pod(task, index, self.now, self.made);
                self.world.pod(&pod);
                self.ledger.waits(state.queue, &amounts);
                self.waiting += 1;
                let key = format!("{}/{}", own.namespace(), pod.metadata.name);
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
        self.ledger.job_waits();
        self.evictions = 0;
        self.happened();
    }

    fn ends(&mut self, job: usize, pod: usize, made: u32) {
        let state = &mut self.jobs[job];
        let Some(live) = &mut state.live else { return };
        let own = &mut live.pods[pod];
        let Stage::Runs(since) = own.stage else {
            return;
        };
        if own.made != made {
            return;
        }
        own.stage = Stage::Ended;
        "Succeeded".clone_into(&mut own.pod.status.phase);
        let amounts = &live.amounts[own.task];
        count(&mut self.work, amounts, self.now - since);
        self.ledger.leaves(state.queue, amounts);
        self.world.ended(&own.pod);
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
        let state = &mut self.jobs[job];
        state.ended = true;
        self.ended += 1;
        let Some(live) = state.live.take() else {
            return;
        };
        for own in &live.pods {
            self.world.remove_pod(&own.pod);
            self.pods.remove(&key_of(own));
        }
        self.world.remove_group(&live.group);
        self.groups.remove(&self.trace.jobs[job].key());
    }

    /// A pod that had to go is gone, and is made anew.
    fn is_gone(&mut self, job: usize, pod: usize, made: u32) {
        let (own, state) = (&self.trace.jobs[job], &mut self.jobs[job]);
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
        self.made += 1;
        *pod = own.pod(&own.tasks[*task], *index, self.now, self.made);
        *stage = Stage::Waits;
        self.world.pod(pod);
        let amounts = &live.amounts[*task];
        self.ledger.leaves(state.queue, amounts);
        self.ledger.waits(state.queue, amounts);
        self.waiting += 1;
        self.happened();
    }
}

fn key_of(own: &PodState) -> String {
    let metadata = &own.pod.metadata;
    format!("{}/{}", metadata.namespace, metadata.name)
}

/// Adds what a pod has used for so long.
pub(super) fn count(sum: &mut Amounts, amounts: &Amounts, millis: u64) {
    for (sum, amount) in sum.iter_mut().zip(amounts) {
        *sum = sum.saturating_add(amount.saturating_mul(i128::from(millis)));
    }
}
