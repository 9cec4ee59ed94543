//! In which domain of the cluster the pods of a group are tried that all have to be in one.

use super::starving::Failed;
use crate::session::Session;
use crate::session::dispatch::EvictionKind;
use crate::session::fit::FitError;
use crate::session::priority_queue::PriorityQueue;
use crate::session::resource::Resource;
use crate::session::roles::Role;
use crate::session::task::{Context, Status};
use crate::session::topology::DomainId;
use crate::session::transaction::Operations;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::sync::Arc;

/// Where the pods of a job are tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct DomainTarget {
    /// Nowhere else; `None` for a job whose pods may be anywhere.
    pub(super) within: Option<DomainId>,
    /// Whether all that the job needs to start fits there, now or after the pending evictions. For an unconfined job
    /// this is known only once its tasks are placed.
    pub(super) suffices: bool,
}

/// Which tasks of a job that wait are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    All,
    /// Those that ask for nothing.
    BestEffort,
}

/// The result of trying a domain: whether the job is complete there now, whether it will be, and how many pods fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Tried {
    now: bool,
    later: bool,
    fit: usize,
}

/// The fit errors and contexts of a job and its tasks before a trial.
struct FitErrors {
    fit_errors: HashMap<usize, FitError>,
    failed_roles: Vec<Role>,
    last: Vec<(usize, Option<Context>)>,
}

impl Session<'_> {
    /// The domain in which a job's pending tasks are tried. The first domain that fits them all is best, then one that
    /// lets the job start, then the one that fits most. `None` if there is no domain; the tasks then have a fit error.
    pub(super) fn target(&mut self, job_id: usize, which: Which) -> Option<DomainTarget> {
        let Some(choice) = self.choice(job_id) else {
            return Some(DomainTarget {
                within: None,
                suffices: true,
            });
        };
        let job = &self.snapshot.jobs[job_id];
        if let ([within], true) = (&*choice, job.ready() >= job.min_member) {
            let words = self.domain_words(job_id, *within, (0, 0));
            self.snapshot.jobs[job_id].best_domain = Some(words);
            return Some(DomainTarget {
                within: Some(*within),
                suffices: true,
            });
        }
        let best = self.best_of(job_id, which, &choice).or_else(|| {
            let (now, later) = (false, false);
            let (within, fit) = self.roomiest(job_id, &choice)?;
            Some((within, Tried { now, later, fit }))
        });
        let Some((within, tried)) = best else {
            self.has_no_domain(job_id);
            return None;
        };
        let waiting = self.snapshot.tasks_of(job_id, Status::Pending).count();
        let words = self.domain_words(job_id, within, (tried.fit, waiting));
        self.snapshot.jobs[job_id].best_domain = Some(words);
        Some(DomainTarget {
            within: Some(within),
            suffices: tried.later,
        })
    }

    /// The best of these domains that could let the job start.
    fn best_of(
        &mut self,
        job: usize,
        which: Which,
        choice: &[DomainId],
    ) -> Option<(DomainId, Tried)> {
        let most = match which {
            Which::All => self.most_in(job, choice, None),
            Which::BestEffort => None,
        };
        let missing = self.missing(job);
        let ask_nothing = self.snapshot.jobs[job].pending_best_effort;
        let ask_nothing = usize::try_from(ask_nothing).unwrap_or(0);
        let mut best: Option<(DomainId, Tried)> = None;
        for (at, within) in choice.iter().enumerate() {
            let most = most.as_ref().map_or(usize::MAX, |most| most[at]);
            let no_better = best
                .is_some_and(|(_, best)| best.now && most.saturating_add(ask_nothing) <= best.fit);
            if most < missing || no_better {
                continue;
            }
            let (tried, all) = self.try_in(job, which, *within);
            if best.is_none_or(|(_, best)| tried > best) {
                best = Some((*within, tried));
            }
            if all && tried.now {
                break;
            }
        }
        best
    }

    /// Tries all pending tasks of a job in a domain and undoes that. Returns the result, and whether no task was
    /// refused.
    fn try_in(&mut self, job_id: usize, which: Which, within: DomainId) -> (Tried, bool) {
        let fit_errors_of = self.fit_errors_of(job_id);
        let mut operations = Operations::default();
        let all = self.within((job_id, Some(within)), |session| {
            let mut refused = 0;
            if which == Which::All {
                let mut tasks = session.waiting(job_id);
                refused = session.give_room(&mut operations, &mut tasks, job_id, true);
            }
            refused + session.fill_all(&mut operations, job_id) == 0
        });
        let job = &self.snapshot.jobs[job_id];
        let later = job.ready() + job.pipelined();
        let tried = Tried {
            now: job.ready() >= job.min_member,
            later: later >= job.min_member,
            fit: operations.placed(),
        };
        self.discard(operations);
        self.restore_fit_errors(job_id, fit_errors_of);
        (tried, all)
    }

    /// Places the tasks of a job that ask for nothing; how many find no node.
    pub(super) fn fill_all(&mut self, operations: &mut Operations, job: usize) -> usize {
        let waiting = self.snapshot.tasks_of(job, Status::Pending);
        let waiting = waiting.filter(|task| {
            let task = &self.snapshot.tasks[*task];
            task.best_effort && !task.gated
        });
        let waiting: Vec<usize> = waiting.collect();
        let mut refused = 0;
        for task in waiting {
            let (evaluator, view) = self.evaluation();
            match evaluator.choose(view, task, false, None) {
                Ok(node) => self.allocate_on(operations, task, node),
                Err(_) => refused += 1,
            }
        }
        refused
    }

    /// The target for a task that asks for nothing, if all that its job needs to start is there, or fits there.
    pub(super) fn target_to_fill(&mut self, task: usize) -> Option<DomainTarget> {
        let job_id = self.snapshot.tasks[task].job;
        // Of a job some of whose tasks got their nodes in this session that was found out then.
        let job = &self.snapshot.jobs[job_id];
        let found = job.count(Status::Allocated) + job.count(Status::Binding) > 0;
        let target = match self.choice(job_id).as_deref() {
            Some([within]) if found => DomainTarget {
                within: Some(*within),
                suffices: true,
            },
            _ => self.target(job_id, Which::BestEffort)?,
        };
        if !target.suffices {
            let words = self.snapshot.jobs[job_id].best_domain.clone();
            self.fails(task, FitError::Words(words.unwrap_or_default().into()));
        }
        Some(target).filter(|target| target.suffices)
    }

    /// Gives the tasks of a job the fit error that there is no domain.
    fn has_no_domain(&mut self, job: usize) {
        let words: Arc<str> = self.no_domain_words(job).into();
        let waiting: Vec<usize> = self.snapshot.tasks_of(job, Status::Pending).collect();
        for task in waiting {
            self.fails(task, FitError::Words(Arc::clone(&words)));
        }
    }

    /// Frees room for the tasks of a job by `take`, and commits if the job can start. If all its pods belong in one
    /// domain, each domain is tried, most free room first. No pod is evicted before all that the job needs fits into
    /// one domain.
    pub(super) fn take_room(
        &mut self,
        kind: EvictionKind,
        (job_id, tasks): (usize, &mut PriorityQueue),
        mut take: impl FnMut(&mut Self, &mut Operations, usize) -> bool,
    ) {
        let Some(choice) = self.choice(job_id) else {
            let mut operations = Operations::default();
            self.take_for_each(&mut operations, (job_id, tasks), &mut take);
            if self.is_pipelined(job_id) {
                self.commit(operations);
            } else {
                self.discard(operations);
            }
            return;
        };
        for within in self.domains_to_free(kind, job_id, choice) {
            let fit_errors_of = self.fit_errors_of(job_id);
            let mut operations = Operations::default();
            self.within((job_id, Some(within)), |session| {
                session.take_for_each(&mut operations, (job_id, &mut tasks.clone()), &mut take);
            });
            let job = &self.snapshot.jobs[job_id];
            let enough = job.ready() + job.pipelined() >= job.min_member;
            if enough && self.is_pipelined(job_id) {
                self.commit(operations);
                return;
            }
            self.discard(operations);
            self.restore_fit_errors(job_id, fit_errors_of);
        }
    }

    /// One task after the other, until the job has enough.
    fn take_for_each(
        &mut self,
        operations: &mut Operations,
        (job, tasks): (usize, &mut PriorityQueue),
        take: &mut impl FnMut(&mut Self, &mut Operations, usize) -> bool,
    ) {
        let mut failed = Failed::default();
        while self.is_starving(job) {
            let Some(task) = tasks.pop(|one, other| self.task_before(one, other)) else {
                break;
            };
            if !self.is_like_failed(task, &failed) && !take(self, operations, task) {
                self.note_failed(task, &mut failed);
            }
        }
    }

    /// How many pods that ask for something a job lacks to start.
    fn missing(&self, job: usize) -> usize {
        let job = &self.snapshot.jobs[job];
        let missing = job.min_member - job.ready() - job.pipelined() - job.pending_best_effort;
        usize::try_from(missing).unwrap_or(0)
    }

    /// The domains that could have room after evictions, in the order in which they are tried.
    fn domains_to_free(
        &mut self,
        kind: EvictionKind,
        job: usize,
        choice: Vec<DomainId>,
    ) -> Vec<DomainId> {
        let held = self.held_by_others(kind, job);
        let (Some(now), Some(most)) = (
            self.most_in(job, &choice, None),
            self.most_in(job, &choice, Some(&held)),
        ) else {
            return choice;
        };
        let missing = self.missing(job);
        let domains = choice.into_iter().zip(now.into_iter().zip(most));
        let domains = domains.filter(|(_, (_, most))| *most >= missing);
        let mut domains: Vec<(DomainId, usize)> = domains
            .map(|(within, (now, _))| (within, now.min(missing)))
            .collect();
        domains.sort_by_key(|(_, now)| Reverse(*now));
        domains.into_iter().map(|(within, _)| within).collect()
    }

    /// The requests of all candidates for eviction by node, before plugins filter them.
    fn held_by_others(&self, kind: EvictionKind, job: usize) -> Vec<Resource> {
        let queue = self.snapshot.jobs[job].queue;
        let nodes = self.snapshot.nodes.iter().map(|node| {
            let mut held = Resource::default();
            for task in &node.tasks {
                if self.could_go(kind, queue, *task) && self.snapshot.tasks[*task].job != job {
                    held.add(&self.snapshot.tasks[*task].request);
                }
            }
            held
        });
        nodes.collect()
    }

    /// The fit errors of a job and its tasks so far.
    fn fit_errors_of(&self, job: usize) -> FitErrors {
        let job = &self.snapshot.jobs[job];
        let last = job.tasks.iter();
        let last = last.map(|task| (*task, self.snapshot.tasks[*task].last));
        FitErrors {
            last: last.collect(),
            fit_errors: job.fit_errors.clone(),
            failed_roles: job.failed_roles.clone(),
        }
    }

    /// Restores the fit errors from before a trial.
    fn restore_fit_errors(&mut self, job: usize, fit_errors_of: FitErrors) {
        let job = &mut self.snapshot.jobs[job];
        job.fit_errors = fit_errors_of.fit_errors;
        job.failed_roles = fit_errors_of.failed_roles;
        for (task, last) in fit_errors_of.last {
            self.snapshot.tasks[task].last = last;
        }
    }

    /// The domain that a job is in which has all that it needs to start; nothing in particular for one that may be anywhere. `None`
    /// if it has not so much yet.
    pub(super) fn settled(&mut self, job: usize) -> Option<DomainTarget> {
        let choice = self.choice(job);
        let job = &self.snapshot.jobs[job];
        let has_enough = job.ready() + job.pipelined() >= job.min_member;
        let within = match choice.as_deref() {
            None => None,
            Some([within]) if has_enough => Some(*within),
            Some(_) => return None,
        };
        let suffices = true;
        Some(DomainTarget { within, suffices })
    }
}
