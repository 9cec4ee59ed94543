//! Freeing a node for a task: who goes, one after the other, until it fits.

use crate::session::Session;
use crate::session::dispatch::Taking;
use crate::session::resource::Unnamed;
use crate::session::statement::Steps;
use crate::session::task::Status;
use hashbrown::HashMap;

/// A task that wants room, and where.
#[derive(Clone, Copy)]
struct Wish {
    taking: Taking,
    task: usize,
    node: usize,
    /// Whether the filters that look beyond a node let it pass before anybody went.
    coupled: bool,
}

impl Session<'_> {
    /// Frees a node for a task: of those who may go one after the other goes until it fits. Whether it does; if not,
    /// nobody goes.
    pub(super) fn free(
        &mut self,
        steps: &mut Steps,
        taking: Taking,
        (task, node): (usize, usize),
        candidates: &[usize],
    ) -> bool {
        // Whom plugins grant is costly to find out, and are never more than these.
        if !self.suffices(task, node, candidates) {
            return false;
        }
        let victims = self.asked_for(taking, task, candidates);
        if !self.suffices(task, node, &victims) {
            return false;
        }
        let (judge, view) = self.asking();
        let wish = Wish {
            taking,
            task,
            node,
            coupled: judge.passes_coupled(view, task, node),
        };
        let mut own = Steps::default();
        let mut gone = Vec::new();
        for victims in self.rounds(wish, victims) {
            if self.fits_now(wish) {
                break;
            }
            for victim in victims {
                // Of a gang that goes as a whole some may have gone already.
                if self.model.tasks[victim].status == Status::Releasing {
                    continue;
                }
                self.evict(&mut own, victim, taking.as_str());
                gone.push(victim);
            }
        }
        if !self.fits_now(wish) {
            self.discard(own);
            return false;
        }
        if self.form.fewest_victims {
            self.spare_needless(wish, &mut own, &mut gone);
        }
        let mut requests = gone.iter().map(|victim| &self.model.tasks[*victim].request);
        let evicts = match taking {
            Taking::Reclaim => requests.len() > 0,
            Taking::Preempt => requests.any(|request| !request.is_empty()),
        };
        self.pipeline_on(&mut own, task, node, evicts);
        steps.append(own);
        true
    }

    /// Those of some candidates whom plugins grant.
    fn asked_for(&self, taking: Taking, task: usize, candidates: &[usize]) -> Vec<usize> {
        if !self.spares_gangs() {
            return self.granted(taking, task, candidates);
        }
        // Who can be spared is asked for first, and then who loses least, since plugins grant only so many.
        let (mut all, mut rest) = self.spare_first(candidates.to_vec());
        if taking == Taking::Reclaim && self.form.loses_least {
            let gangs = self.least_lost_first(self.gangs_of(&rest));
            let job = |task: usize| self.model.tasks[task].job;
            rest.sort_by_cached_key(|task| gangs.iter().position(|gang| *gang == job(*task)));
        }
        all.extend(rest);
        self.granted(taking, task, &all)
    }

    /// Whether a task could be on a node if all of these went.
    fn suffices(&self, task: usize, node: usize, victims: &[usize]) -> bool {
        let mut idle = self.model.nodes[node].future_idle();
        for victim in victims {
            idle.add(&self.model.tasks[*victim].request);
        }
        self.model.tasks[task].request.within(&idle, Unnamed::Zero)
    }

    /// Promises a task the first of these nodes that has room for it, or will have when those are gone who go already: nobody
    /// else has to go then. Whether there is one. Volcano leaves that to allocate, which leaves out gangs of which a part
    /// still lacks room.
    pub(super) fn fits_without_victims(
        &mut self,
        steps: &mut Steps,
        taking: Taking,
        task: usize,
        nodes: &[usize],
    ) -> bool {
        if !self.form.fewest_victims {
            return false;
        }
        let fits = |own: &mut Self, node: usize| {
            let room = own.model.nodes[node].will_have(&own.model.tasks[task].request);
            room && {
                let (judge, view) = own.asking();
                let coupled = judge.passes_coupled(view, task, node);
                own.fits_now(Wish {
                    taking,
                    task,
                    node,
                    coupled,
                })
            }
        };
        let found = nodes.iter().copied().find(|node| fits(self, *node));
        if let Some(node) = found {
            self.pipeline_on(steps, task, node, false);
        }
        found.is_some()
    }

    /// Whether the task fits on the node now that some have gone.
    fn fits_now(&mut self, wish: Wish) -> bool {
        let own = &self.model.tasks[wish.task];
        let room = self.model.nodes[wish.node].will_have(&own.request);
        let queue = self.model.jobs[own.job].queue;
        if !room || (wish.taking == Taking::Preempt && !self.is_allocatable(queue, wish.task)) {
            return false;
        }
        let anew = self.form.asks_placement;
        let (judge, view) = self.asking();
        if anew {
            return judge.passes(view, wish.task, wish.node);
        }
        wish.taking == Taking::Reclaim
            || (wish.coupled && judge.passes_apart(view, wish.task, wish.node))
    }

    /// Who goes together, in the order in which they go.
    fn rounds(&self, wish: Wish, victims: Vec<usize>) -> Vec<Vec<usize>> {
        if !self.spares_gangs() {
            let order = self.victims_in_order(victims);
            return order.into_iter().map(|victim| vec![victim]).collect();
        }
        let (spare, rest) = self.spare_first(victims);
        let mut gangs = self.gangs_of(&rest);
        if wish.taking == Taking::Reclaim && self.form.loses_least {
            gangs = self.least_lost_first(gangs);
        } else {
            // The smallest first; the order among equals stays.
            gangs.sort_by_key(|job| self.model.jobs[*job].ready());
        }
        let gangs = gangs
            .into_iter()
            .filter_map(|job| self.whole_gang(wish, job));
        let gangs: Vec<Vec<usize>> = gangs.collect();
        let spare = spare.into_iter().map(|victim| vec![victim]);
        spare.chain(gangs).collect()
    }

    /// The jobs of some tasks, in the order in which they are met.
    fn gangs_of(&self, tasks: &[usize]) -> Vec<usize> {
        let mut gangs = Vec::new();
        for task in tasks {
            let job = self.model.tasks[*task].job;
            if !gangs.contains(&job) {
                gangs.push(job);
            }
        }
        gangs
    }

    /// Jobs in the order of what is lost if all of each goes.
    fn least_lost_first(&self, jobs: Vec<usize>) -> Vec<usize> {
        let jobs = jobs.into_iter();
        let mut lost: Vec<(f64, usize)> =
            jobs.map(|job| (self.loss(self.there(job)), job)).collect();
        lost.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        lost.into_iter().map(|(_, job)| job).collect()
    }

    /// Those whom their gangs can spare, and the others, each in the order in which they would go.
    fn spare_first(&self, tasks: Vec<usize>) -> (Vec<usize>, Vec<usize>) {
        let mut left: HashMap<usize, i32> = HashMap::new();
        let order = self.victims_in_order(tasks).into_iter();
        order.partition(|task| {
            let job = self.model.tasks[*task].job;
            let own = &self.model.jobs[job];
            let left = left.entry(job).or_insert_with(|| own.ready());
            *left -= 1;
            own.can_spare(*left)
        })
    }

    /// All tasks of a gang that are on nodes, if each of them may go; nobody of one that got room in this very session, or of
    /// that which wants room. A gang is taken as one: that its queue has more than its share before the first goes is
    /// enough.
    fn whole_gang(&self, wish: Wish, job: usize) -> Option<Vec<usize>> {
        let own = &self.model.jobs[job];
        let new = [Status::Allocated, Status::Binding, Status::Pipelined];
        let same = self.model.tasks[wish.task].job == job;
        if same || new.into_iter().any(|status| own.count(status) > 0) {
            return None;
        }
        let there: Vec<usize> = self.there(job).collect();
        let may_go = |task: &usize| {
            let granted = || self.granted(wish.taking, wish.task, &[*task]);
            self.model.tasks[*task].preemptable && !granted().is_empty()
        };
        let all = there.iter().all(may_go);
        let precedes = wish.taking == Taking::Reclaim
            || !self.form.keeps_order
            || self.preceded(wish.task, &there).len() == there.len();
        (all && precedes).then(|| self.victims_in_order(there))
    }

    /// The tasks of a job that are on nodes, and were before this session.
    fn there(&self, job: usize) -> impl Iterator<Item = usize> {
        let tasks = self.model.jobs[job].tasks.iter().copied();
        tasks.filter(|task| {
            let status = self.model.tasks[*task].status;
            matches!(status, Status::Bound | Status::Running)
        })
    }

    /// The work that is lost when some tasks go: for how long each has held which part of the cluster. One of which nobody says
    /// since when it runs has just begun.
    pub(super) fn loss(&self, tasks: impl Iterator<Item = usize>) -> f64 {
        let lost = tasks.map(|task| {
            let own = &self.model.tasks[task];
            let lasted = self.model.now.zip(own.started);
            let lasted = lasted.map_or(0.0, |(now, since)| now.duration_since(since).as_secs_f64());
            // To start anew costs something, too: of some that have just begun the smallest go.
            own.request.dominant(&self.model.total).1 * (lasted.max(0.0) + 1.0)
        });
        lost.sum()
    }

    /// Lets those stay without whom it would do: who would go last first.
    fn spare_needless(&mut self, wish: Wish, steps: &mut Steps, gone: &mut Vec<usize>) {
        for index in (0..gone.len()).rev() {
            let victim = gone[index];
            // Of a gang that goes nobody stays alone.
            let job = &self.model.jobs[self.model.tasks[victim].job];
            if self.spares_gangs() && !job.can_spare(job.ready()) {
                continue;
            }
            self.take_back(steps, victim);
            if self.fits_now(wish) {
                gone.remove(index);
            } else {
                self.evict(steps, victim, wish.taking.as_str());
            }
        }
    }
}
