//! In which domain of the cluster the pods of a group are tried that all have to be in one.

use super::taking::Failed;
use crate::session::Session;
use crate::session::dispatch::Taking;
use crate::session::fit::FitError;
use crate::session::order::Waiting;
use crate::session::resource::Resource;
use crate::session::statement::Steps;
use crate::session::task::{Context, Role, Status};
use crate::session::within::Within;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::sync::Arc;

/// Where the pods of a job are tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    /// Nowhere else; `None` for a job whose pods may be anywhere.
    pub(super) within: Option<Within>,
    /// Whether all that the job needs to start fits there, now or when those have gone that go already. Of a job whose pods may be
    /// anywhere that is found out as they are placed.
    pub(super) suffices: bool,
}

/// Which tasks of a job that wait are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    All,
    /// Those that ask for nothing.
    BestEffort,
}

/// What came of a domain: whether the job has enough there now, whether it will have, and how many of its pods fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Tried {
    now: bool,
    later: bool,
    fit: usize,
}

/// What a job and its tasks were told, before a try that does not count.
struct Told {
    fit_errors: HashMap<usize, FitError>,
    failed_roles: Vec<Role>,
    last: Vec<(usize, Option<Context>)>,
}

impl Session<'_> {
    /// Where the tasks of a job are tried that wait: in the first domain in which all of them fit, else in the one in which the
    /// most do, before all those in which it has what it needs to start. `None` if there is no domain, of which they are told.
    pub(super) fn spot(&mut self, job: usize, which: Which) -> Option<Spot> {
        let Some(choice) = self.choice(job) else {
            return Some(Spot {
                within: None,
                suffices: true,
            });
        };
        let own = &self.model.jobs[job];
        if let ([within], true) = (&*choice, own.ready() >= own.min_member) {
            let words = self.domain_words(job, *within, (0, 0));
            self.model.jobs[job].best_domain = Some(words);
            return Some(Spot {
                within: Some(*within),
                suffices: true,
            });
        }
        let best = self.best_of(job, which, &choice).or_else(|| {
            let (now, later) = (false, false);
            let (within, fit) = self.roomiest(job, &choice)?;
            Some((within, Tried { now, later, fit }))
        });
        let Some((within, tried)) = best else {
            self.has_no_domain(job);
            return None;
        };
        let waiting = self.model.tasks_of(job, Status::Pending).count();
        let words = self.domain_words(job, within, (tried.fit, waiting));
        self.model.jobs[job].best_domain = Some(words);
        Some(Spot {
            within: Some(within),
            suffices: tried.later,
        })
    }

    /// The best of these domains, if any of them might have room for what a job needs to start.
    fn best_of(&mut self, job: usize, which: Which, choice: &[Within]) -> Option<(Within, Tried)> {
        let most = match which {
            Which::All => self.most_in(job, choice, None),
            Which::BestEffort => None,
        };
        let missing = self.missing(job);
        let ask_nothing = self.model.jobs[job].pending_best_effort;
        let ask_nothing = usize::try_from(ask_nothing).unwrap_or(0);
        let mut best: Option<(Within, Tried)> = None;
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

    /// Tries all tasks of a job that wait in a domain, and takes them back; what came of it, and whether no node refused one.
    fn try_in(&mut self, job: usize, which: Which, within: Within) -> (Tried, bool) {
        let told = self.told(job);
        let mut steps = Steps::default();
        let all = self.within((job, Some(within)), |own| {
            let mut refused = 0;
            if which == Which::All {
                let mut tasks = own.waiting(job);
                refused = own.give_room(&mut steps, &mut tasks, job, true);
            }
            refused + own.fill_all(&mut steps, job) == 0
        });
        let own = &self.model.jobs[job];
        let later = own.ready() + own.pipelined();
        let tried = Tried {
            now: own.ready() >= own.min_member,
            later: later >= own.min_member,
            fit: steps.placed(),
        };
        self.discard(steps);
        self.tell_again(job, told);
        (tried, all)
    }

    /// Places the tasks of a job that ask for nothing; how many find no node.
    pub(super) fn fill_all(&mut self, steps: &mut Steps, job: usize) -> usize {
        let waiting = self.model.tasks_of(job, Status::Pending);
        let waiting = waiting.filter(|task| {
            let task = &self.model.tasks[*task];
            task.best_effort && !task.gated
        });
        let waiting: Vec<usize> = waiting.collect();
        let mut refused = 0;
        for task in waiting {
            let (judge, view) = self.asking();
            match judge.choose(view, task, false, None) {
                Ok(node) => self.allocate_on(steps, task, node),
                Err(_) => refused += 1,
            }
        }
        refused
    }

    /// The spot for a task that asks for nothing, if all that its job needs to start is there, or fits there.
    pub(super) fn spot_to_fill(&mut self, task: usize) -> Option<Spot> {
        let job = self.model.tasks[task].job;
        // Of a job some of whose tasks got their nodes in this session that was found out then.
        let own = &self.model.jobs[job];
        let found = own.count(Status::Allocated) + own.count(Status::Binding) > 0;
        let spot = match self.choice(job).as_deref() {
            Some([within]) if found => Spot {
                within: Some(*within),
                suffices: true,
            },
            _ => self.spot(job, Which::BestEffort)?,
        };
        if !spot.suffices {
            let words = self.model.jobs[job].best_domain.clone();
            self.fails(task, FitError::Words(words.unwrap_or_default().into()));
        }
        Some(spot).filter(|spot| spot.suffices)
    }

    /// The tasks of a job are told that there is no domain for them.
    fn has_no_domain(&mut self, job: usize) {
        let words: Arc<str> = self.no_domain_words(job).into();
        let waiting: Vec<usize> = self.model.tasks_of(job, Status::Pending).collect();
        for task in waiting {
            self.fails(task, FitError::Words(Arc::clone(&words)));
        }
    }

    /// Lets tasks of a job take room from others, each as `take` does it, and those go if the job has enough then. If all its
    /// pods have to be in one domain, one after the other is tried, those first in which the most pods have room already:
    /// nobody goes before it is known that all that the job needs fits into one.
    pub(super) fn take_room(
        &mut self,
        taking: Taking,
        (job, tasks): (usize, &mut Waiting),
        mut take: impl FnMut(&mut Self, &mut Steps, usize) -> bool,
    ) {
        let Some(choice) = self.choice(job) else {
            let mut steps = Steps::default();
            self.take_for_each(&mut steps, (job, tasks), &mut take);
            if self.is_pipelined(job) {
                self.commit(steps);
            } else {
                self.discard(steps);
            }
            return;
        };
        for within in self.domains_to_free(taking, job, choice) {
            let told = self.told(job);
            let mut steps = Steps::default();
            self.within((job, Some(within)), |own| {
                own.take_for_each(&mut steps, (job, &mut tasks.clone()), &mut take);
            });
            let own = &self.model.jobs[job];
            let enough = own.ready() + own.pipelined() >= own.min_member;
            if enough && self.is_pipelined(job) {
                self.commit(steps);
                return;
            }
            self.discard(steps);
            self.tell_again(job, told);
        }
    }

    /// One task after the other, until the job has enough.
    fn take_for_each(
        &mut self,
        steps: &mut Steps,
        (job, tasks): (usize, &mut Waiting),
        take: &mut impl FnMut(&mut Self, &mut Steps, usize) -> bool,
    ) {
        let mut failed = Failed::default();
        while self.is_starving(job) {
            let Some(task) = tasks.pop(|one, other| self.task_before(one, other)) else {
                break;
            };
            if !self.is_like_failed(task, &failed) && !take(self, steps, task) {
                self.note_failed(task, &mut failed);
            }
        }
    }

    /// How many pods that ask for something a job lacks to start.
    fn missing(&self, job: usize) -> usize {
        let own = &self.model.jobs[job];
        let missing = own.min_member - own.ready() - own.pipelined() - own.pending_best_effort;
        usize::try_from(missing).unwrap_or(0)
    }

    /// The domains that might have room for what a job lacks if others went, in the order in which they are tried.
    fn domains_to_free(&mut self, taking: Taking, job: usize, choice: Vec<Within>) -> Vec<Within> {
        let held = self.held_by_others(taking, job);
        let (Some(now), Some(most)) = (
            self.most_in(job, &choice, None),
            self.most_in(job, &choice, Some(&held)),
        ) else {
            return choice;
        };
        let missing = self.missing(job);
        let domains = choice.into_iter().zip(now.into_iter().zip(most));
        let domains = domains.filter(|(_, (_, most))| *most >= missing);
        let mut domains: Vec<(Within, usize)> = domains
            .map(|(within, (now, _))| (within, now.min(missing)))
            .collect();
        domains.sort_by_key(|(_, now)| Reverse(*now));
        domains.into_iter().map(|(within, _)| within).collect()
    }

    /// What all those hold on each node who could go, whatever plugins say.
    fn held_by_others(&self, taking: Taking, job: usize) -> Vec<Resource> {
        let queue = self.model.jobs[job].queue;
        let nodes = self.model.nodes.iter().map(|node| {
            let mut held = Resource::default();
            for task in &node.tasks {
                if self.could_go(taking, queue, *task) && self.model.tasks[*task].job != job {
                    held.add(&self.model.tasks[*task].request);
                }
            }
            held
        });
        nodes.collect()
    }

    /// What a job and its tasks were told so far.
    fn told(&self, job: usize) -> Told {
        let own = &self.model.jobs[job];
        let last = own.tasks.iter();
        let last = last.map(|task| (*task, self.model.tasks[*task].last));
        Told {
            last: last.collect(),
            fit_errors: own.fit_errors.clone(),
            failed_roles: own.failed_roles.clone(),
        }
    }

    /// Leaves a job and its tasks with what they were told before.
    fn tell_again(&mut self, job: usize, told: Told) {
        let own = &mut self.model.jobs[job];
        own.fit_errors = told.fit_errors;
        own.failed_roles = told.failed_roles;
        for (task, last) in told.last {
            self.model.tasks[task].last = last;
        }
    }

    /// The domain that a job is in which has all that it needs to start; nothing in particular for one that may be anywhere. `None`
    /// if it has not so much yet.
    pub(super) fn settled(&mut self, job: usize) -> Option<Spot> {
        let choice = self.choice(job);
        let own = &self.model.jobs[job];
        let has_enough = own.ready() + own.pipelined() >= own.min_member;
        let within = match choice.as_deref() {
            None => None,
            Some([within]) if has_enough => Some(*within),
            Some(_) => return None,
        };
        let suffices = true;
        Some(Spot { within, suffices })
    }
}
