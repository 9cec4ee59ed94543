//! Frees a node for a task: evicts victims one by one until the task fits.

use crate::compat::Difference;
use crate::session::Session;
use crate::session::dispatch::EvictionKind;
use crate::session::resource::Unnamed;
use crate::session::task::Status;
use crate::session::transaction::Operations;
use hashbrown::HashMap;

/// A task that wants room, and where.
#[derive(Clone, Copy)]
struct Preemptor {
    kind: EvictionKind,
    task: usize,
    node: usize,
    /// Whether the filters that look beyond a node let it pass before anybody went.
    coupled: bool,
}

impl Session<'_> {
    /// Frees a node for a task: evicts victims one by one until it fits. Returns whether it fits; if not, nothing is
    /// evicted.
    pub(super) fn free(
        &mut self,
        operations: &mut Operations,
        kind: EvictionKind,
        (task, node): (usize, usize),
        candidates: &[usize],
    ) -> bool {
        // The victim functions of plugins are expensive, and never return more than the candidates.
        if !self.suffices(task, node, candidates) {
            return false;
        }
        let victims = self.asked_for(kind, task, candidates);
        if !self.suffices(task, node, &victims) {
            return false;
        }
        let (evaluator, view) = self.evaluation();
        let preemptor = Preemptor {
            kind,
            task,
            node,
            coupled: evaluator.passes_coupled(view, task, node),
        };
        let mut own_steps = Operations::default();
        let mut gone = Vec::new();
        for victims in self.rounds(preemptor, victims) {
            if self.fits_now(preemptor) {
                break;
            }
            for victim in victims {
                // A whole gang may share victims with an earlier round.
                if self.snapshot.tasks[victim].status == Status::Releasing {
                    continue;
                }
                self.evict(&mut own_steps, victim, kind.as_str());
                gone.push(victim);
            }
        }
        if !self.fits_now(preemptor) {
            self.discard(own_steps);
            return false;
        }
        if self.compat.has(Difference::FewestVictims) {
            self.spare_needless(preemptor, &mut own_steps, &mut gone);
        }
        let mut requests = gone
            .iter()
            .map(|victim| &self.snapshot.tasks[*victim].request);
        let evicts = match kind {
            EvictionKind::Reclaim => requests.len() > 0,
            EvictionKind::Preempt => requests.any(|request| !request.is_empty()),
        };
        self.pipeline_on(&mut own_steps, task, node, evicts);
        operations.append(own_steps);
        true
    }

    /// The candidates that the plugins permit.
    fn asked_for(&self, kind: EvictionKind, task: usize, candidates: &[usize]) -> Vec<usize> {
        if !self.spares_gangs() {
            return self.permitted(kind, task, candidates);
        }
        // Who can be spared is asked for first, and then who loses least, since plugins grant only so many.
        let (mut all, mut rest) = self.spare_first(candidates.to_vec());
        if kind == EvictionKind::Reclaim && self.compat.has(Difference::LeastLostWork) {
            let gangs = self.least_lost_first(self.gangs_of(&rest));
            let job = |task: usize| self.snapshot.tasks[task].job;
            rest.sort_by_cached_key(|task| gangs.iter().position(|gang| *gang == job(*task)));
        }
        all.extend(rest);
        self.permitted(kind, task, &all)
    }

    /// Whether a task could be on a node if all of these went.
    fn suffices(&self, task: usize, node: usize, victims: &[usize]) -> bool {
        let mut idle = self.snapshot.nodes[node].future_idle();
        for victim in victims {
            idle.add(&self.snapshot.tasks[*victim].request);
        }
        self.snapshot.tasks[task]
            .request
            .within(&idle, Unnamed::Zero)
    }

    /// Pipelines a task on the first node that has room for it, now or after pending evictions, so that no further pod
    /// is evicted. Returns whether there is one. Volcano leaves this to allocate, which discards gangs of which a part
    /// lacks room.
    pub(super) fn fits_without_victims(
        &mut self,
        operations: &mut Operations,
        kind: EvictionKind,
        task: usize,
        nodes: &[usize],
    ) -> bool {
        if !self.compat.has(Difference::FewestVictims) {
            return false;
        }
        let fits = |session: &mut Self, node: usize| {
            let room =
                session.snapshot.nodes[node].will_have(&session.snapshot.tasks[task].request);
            room && {
                let (evaluator, view) = session.evaluation();
                let coupled = evaluator.passes_coupled(view, task, node);
                session.fits_now(Preemptor {
                    kind,
                    task,
                    node,
                    coupled,
                })
            }
        };
        let found = nodes.iter().copied().find(|node| fits(self, *node));
        if let Some(node) = found {
            self.pipeline_on(operations, task, node, false);
        }
        found.is_some()
    }

    /// Whether the task fits on the node after the evictions so far.
    fn fits_now(&mut self, preemptor: Preemptor) -> bool {
        let task = &self.snapshot.tasks[preemptor.task];
        let room = self.snapshot.nodes[preemptor.node].will_have(&task.request);
        let queue = self.snapshot.jobs[task.job].queue;
        if !room
            || (preemptor.kind == EvictionKind::Preempt
                && !self.is_allocatable(queue, preemptor.task))
        {
            return false;
        }
        let anew = self.compat.has(Difference::RecheckPlacement);
        let (evaluator, view) = self.evaluation();
        if anew {
            return evaluator.passes(view, preemptor.task, preemptor.node);
        }
        preemptor.kind == EvictionKind::Reclaim
            || (preemptor.coupled && evaluator.passes_apart(view, preemptor.task, preemptor.node))
    }

    /// The victims in the order of their eviction; those of one round are evicted together.
    fn rounds(&self, preemptor: Preemptor, victims: Vec<usize>) -> Vec<Vec<usize>> {
        if !self.spares_gangs() {
            let order = self.victims_in_order(victims);
            return order.into_iter().map(|victim| vec![victim]).collect();
        }
        let (spare, rest) = self.spare_first(victims);
        let mut gangs = self.gangs_of(&rest);
        if preemptor.kind == EvictionKind::Reclaim && self.compat.has(Difference::LeastLostWork) {
            gangs = self.least_lost_first(gangs);
        } else {
            // The smallest first; the order among equals stays.
            gangs.sort_by_key(|job| self.snapshot.jobs[*job].ready());
        }
        let gangs = gangs
            .into_iter()
            .filter_map(|job| self.whole_gang(preemptor, job));
        let gangs: Vec<Vec<usize>> = gangs.collect();
        let spare = spare.into_iter().map(|victim| vec![victim]);
        spare.chain(gangs).collect()
    }

    /// The jobs of some tasks, in the order in which they are met.
    fn gangs_of(&self, tasks: &[usize]) -> Vec<usize> {
        let mut gangs = Vec::new();
        for task in tasks {
            let job = self.snapshot.tasks[*task].job;
            if !gangs.contains(&job) {
                gangs.push(job);
            }
        }
        gangs
    }

    /// Jobs in the order of the work that is lost if the whole job is evicted.
    fn least_lost_first(&self, jobs: Vec<usize>) -> Vec<usize> {
        let jobs = jobs.into_iter();
        let mut lost: Vec<(f64, usize)> =
            jobs.map(|job| (self.loss(self.there(job)), job)).collect();
        lost.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        lost.into_iter().map(|(_, job)| job).collect()
    }

    /// Splits tasks into those that their gangs can spare and the others, each in victim order.
    fn spare_first(&self, tasks: Vec<usize>) -> (Vec<usize>, Vec<usize>) {
        let mut left: HashMap<usize, i32> = HashMap::new();
        let order = self.victims_in_order(tasks).into_iter();
        order.partition(|task| {
            let job_id = self.snapshot.tasks[*task].job;
            let job = &self.snapshot.jobs[job_id];
            let left = left.entry(job_id).or_insert_with(|| job.ready());
            *left -= 1;
            job.can_spare(*left)
        })
    }

    /// All tasks of a gang on nodes, if each may be evicted. `None` for the preemptor's own job and for a gang that was
    /// placed in this session. A gang counts as one victim: its queue only has to be above its share before the first
    /// task.
    fn whole_gang(&self, preemptor: Preemptor, job_id: usize) -> Option<Vec<usize>> {
        let job = &self.snapshot.jobs[job_id];
        let new = [Status::Allocated, Status::Binding, Status::Pipelined];
        let same = self.snapshot.tasks[preemptor.task].job == job_id;
        if same || new.into_iter().any(|status| job.count(status) > 0) {
            return None;
        }
        let there: Vec<usize> = self.there(job_id).collect();
        let may_go = |task: &usize| {
            let permitted = || self.permitted(preemptor.kind, preemptor.task, &[*task]);
            self.snapshot.tasks[*task].preemptable && !permitted().is_empty()
        };
        let all = there.iter().all(may_go);
        let precedes = preemptor.kind == EvictionKind::Reclaim
            || !self.compat.has(Difference::PreemptByJobOrder)
            || self.allowed_by_order(preemptor.task, &there).len() == there.len();
        (all && precedes).then(|| self.victims_in_order(there))
    }

    /// The tasks of a job that are on nodes, and were before this session.
    fn there(&self, job: usize) -> impl Iterator<Item = usize> {
        let tasks = self.snapshot.jobs[job].tasks.iter().copied();
        tasks.filter(|task| {
            let status = self.snapshot.tasks[*task].status;
            matches!(status, Status::Bound | Status::Running)
        })
    }

    /// The work that is lost by evicting some tasks: the sum of dominant share times running time. A task with an
    /// unknown start time counts as just started.
    pub(super) fn loss(&self, tasks: impl Iterator<Item = usize>) -> f64 {
        let lost = tasks.map(|task| {
            let task = &self.snapshot.tasks[task];
            let lasted = self.snapshot.now.zip(task.started);
            let lasted = lasted.map_or(0.0, |(now, since)| now.duration_since(since).as_secs_f64());
            // To start anew costs something, too: of some that have just begun the smallest go.
            task.request.dominant(&self.snapshot.total).1 * (lasted.max(0.0) + 1.0)
        });
        lost.sum()
    }

    /// Undoes evictions that turn out to be unnecessary, in reverse victim order.
    fn spare_needless(
        &mut self,
        preemptor: Preemptor,
        operations: &mut Operations,
        gone: &mut Vec<usize>,
    ) {
        for index in (0..gone.len()).rev() {
            let victim = gone[index];
            // A gang is evicted as a whole or not at all.
            let job = &self.snapshot.jobs[self.snapshot.tasks[victim].job];
            if self.spares_gangs() && !job.can_spare(job.ready()) {
                continue;
            }
            self.take_back(operations, victim);
            if self.fits_now(preemptor) {
                gone.remove(index);
            } else {
                self.evict(operations, victim, preemptor.kind.as_str());
            }
        }
    }
}
