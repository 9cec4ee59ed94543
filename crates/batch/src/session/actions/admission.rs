//! Whether a job that asks to be let in could be placed (volcano#3910, kueue#11287).

use crate::compat::Difference;
use crate::conf::{Action, Plugin, PluginName, Switch};
use crate::session::Session;
use crate::session::dispatch::{EvictionKind, Lost};
use crate::session::free_capacity::{FreeCapacity, GangQuery, VictimPool};
use crate::session::gang::Gang;
use crate::session::plugins::{Drf, QueueShare};
use crate::session::resource::{Dim, Resource};
use crate::session::task::Status;
use crate::session::topology::DomainId;
use hashbrown::HashMap;

impl Session<'_> {
    /// Whether the smallest gang of a job fits on the nodes now, or after evictions that its queue may ask for. The
    /// reason is recorded if it does not fit. If it fits, its room counts as taken from now on.
    pub(super) fn has_place(&mut self, job_id: usize, free: &mut Option<FreeCapacity>) -> bool {
        let job = &self.snapshot.jobs[job_id];
        let runs = job.count(Status::Running) + job.count(Status::Bound) > 0;
        if !self.asks_for_places() || runs {
            return true;
        }
        let mut capacity = match free.take() {
            Some(free) => free,
            None => self.free_capacity(),
        };
        let gang = self.smallest_gang(job_id);
        let tries = self.tries(job_id);
        let mut placed = self.first_room(&mut capacity, (job_id, &gang), &tries, None);
        if placed.is_err() {
            for pool in self.victim_pools(job_id, &gang) {
                if !capacity.knows(pool) {
                    capacity.learn(pool, self.held_by(pool, job_id));
                }
                placed = self
                    .first_room(&mut capacity, (job_id, &gang), &tries, Some(pool))
                    .or(placed);
            }
        }
        match placed {
            Err(at) => {
                let words = self.kept_out_words(&gang, at);
                let words = self.with_domains(&mut capacity, (job_id, &gang), &tries, words);
                self.snapshot.jobs[job_id].not_enqueued_because = Some(words);
            }
            Ok(()) => self.withdraw_unschedulable(job_id),
        }
        *free = Some(capacity);
        placed.is_ok()
    }

    /// Places a gang in the first of these domains in which all of it fits. As an error the place of the part that does not fit
    /// into the last one.
    fn first_room(
        &mut self,
        free: &mut FreeCapacity,
        (job, gang): (usize, &Gang),
        tries: &[Option<DomainId>],
        pool: Option<VictimPool>,
    ) -> Result<(), usize> {
        let mut placed = match gang {
            Gang::Nothing => Ok(()),
            _ => Err(0),
        };
        for within in tries {
            let (evaluator, view) = self.evaluation();
            let gang_query = GangQuery {
                job,
                gang,
                within: *within,
            };
            placed = free.place(evaluator, view, gang_query, pool);
            if placed.is_ok() {
                break;
            }
        }
        placed
    }

    /// Why a job is not enqueued, with the best topology domain if its pods belong in one.
    fn with_domains(
        &mut self,
        free: &mut FreeCapacity,
        (job, gang): (usize, &Gang),
        tries: &[Option<DomainId>],
        words: String,
    ) -> String {
        if tries.is_empty() {
            return self.no_domain_words(job);
        }
        let mut best: Option<(DomainId, usize)> = None;
        for within in tries.iter().flatten() {
            let gang_query = GangQuery {
                job,
                gang,
                within: Some(*within),
            };
            let (evaluator, view) = self.evaluation();
            let count = free.count(evaluator, view, gang_query);
            if best.is_none_or(|(_, most)| count > most) {
                best = Some((*within, count));
            }
        }
        let Some((within, fit)) = best else {
            return words;
        };
        let all = match gang {
            Gang::Parts(parts) => parts.iter().map(|part| part.count).sum(),
            Gang::Nothing | Gang::Sum(..) => 0,
        };
        format!("{words}. {}", self.domain_words(job, within, (fit, all)))
    }

    /// Whether jobs that ask to be let in are gang_query for a place.
    pub(crate) fn asks_for_places(&self) -> bool {
        let arguments = self.conf.arguments_of(Action::Enqueue);
        let asks = arguments.is_none_or(|arguments| arguments.boolean("placementEnable", true));
        self.compat.has(Difference::EnqueueWhatFits) && asks
    }

    /// The free capacity beside the jobs that were enqueued before.
    fn free_capacity(&mut self) -> FreeCapacity {
        let mut free = FreeCapacity::new(self.evaluation().1);
        for job in self.snapshot.live.clone() {
            if !self.is_on_its_way(job) {
                continue;
            }
            let gang = self.smallest_gang(job);
            let tries = self.tries(job);
            // One that does not fit holds nothing, as when room is given out.
            let _ = self.first_room(&mut free, (job, &gang), &tries, None);
        }
        free
    }

    /// Whether a job was let in and is still to be placed.
    fn is_on_its_way(&self, job_id: usize) -> bool {
        let job = &self.snapshot.jobs[job_id];
        !job.is_pending() && !job.is_ready() && !self.snapshot.is_in_vain(job_id)
    }

    /// The victim pools that a job's queue may draw from.
    fn victim_pools(&self, job_id: usize, gang: &Gang) -> Vec<VictimPool> {
        let job = &self.snapshot.jobs[job_id];
        if let Gang::Parts(parts) = gang {
            let mut tasks = parts.iter().filter_map(|part| part.task);
            if tasks.any(|task| self.snapshot.tasks[task].never_preempts) {
                return Vec::new();
            }
        }
        let need = gang.need();
        let mut all = Vec::new();
        if self.conf.actions.contains(&Action::Preempt) && !job.has_topology {
            all.push((EvictionKind::Preempt, job.queue, job.priority));
        }
        let shared = self.plugins.proportion.is_some() || self.plugins.capacity.is_some();
        let reclaims = self.conf.actions.contains(&Action::Reclaim);
        if reclaims && (!shared || self.may_reclaim(job_id, &need)) {
            all.push((EvictionKind::Reclaim, job.queue, 0));
        }
        all
    }

    /// The requests of possible victims by node. This may be more than the plugins permit in the end, because their
    /// answer depends on earlier evictions.
    fn held_by(&self, (kind, queue, _): VictimPool, job: usize) -> Vec<Resource> {
        let mut held = vec![Resource::default(); self.snapshot.nodes.len()];
        // By job, since it is the same for all of its tasks.
        let mut gives: HashMap<usize, bool> = HashMap::new();
        for (node, on_node) in self.snapshot.nodes.iter().enumerate() {
            for task in &on_node.tasks {
                let could_go = self.could_go(kind, queue, *task);
                let task = &self.snapshot.tasks[*task];
                let may_go = match kind {
                    _ if !could_go => false,
                    EvictionKind::Preempt => *gives.entry(task.job).or_insert_with(|| {
                        self.might_give_way(task.job, job) && self.might_go_whole(task.job, job)
                    }),
                    EvictionKind::Reclaim => {
                        let other = self.snapshot.jobs[task.job].queue;
                        self.has_more_than_its_share(other, queue)
                    }
                };
                if may_go {
                    held[node].add(&task.request);
                }
            }
        }
        held
    }

    /// Whether a job may lose pods to another one of its queue: all plugins of a tier that have an opinion say so.
    fn might_give_way(&self, job_id: usize, to: usize) -> bool {
        let job = &self.snapshot.jobs[job_id];
        let grants = |plugin: &Plugin| match plugin.name {
            PluginName::Conformance => Some(true),
            PluginName::Gang if self.compat.has(Difference::WholeGangs) => None,
            PluginName::Gang => Some(job.ready() > job.min_member),
            PluginName::Priority => Some(job.priority < self.snapshot.jobs[to].priority),
            PluginName::Drf => {
                let drf = self.plugins.drf.as_ref();
                drf.map(|drf| drf.share(job_id) > drf.share(to))
            }
            _ => None,
        };
        self.at(Switch::Preemptable).any(|tier| {
            let mut opinions = tier.filter_map(grants).peekable();
            opinions.peek().is_some() && opinions.all(|grants| grants)
        })
    }

    /// Whether a job that cannot spare a pod could go, all of it, for another one: if that one comes first also when nothing is
    /// left of this one. Of jobs that can spare pods it says nothing against it.
    fn might_go_whole(&self, job_id: usize, to: usize) -> bool {
        let job = &self.snapshot.jobs[job_id];
        let whole = self.spares_gangs() && !job.can_spare(job.ready().saturating_sub(1));
        // The answer is used for all jobs of a queue and a priority, which may be of several namespaces.
        let by_namespace = self.plugins.drf.as_ref().is_some_and(Drf::has_namespaces);
        if !whole || !self.compat.has(Difference::PreemptByJobOrder) || by_namespace {
            return true;
        }
        let Some(task) = self.snapshot.tasks_of(to, Status::Pending).next() else {
            return true;
        };
        let lost = Lost {
            tasks: job.ready(),
            amount: job.allocated.clone(),
        };
        self.precedes(task, job_id, &lost)
    }

    /// Whether a queue's allocation exceeds its deserved share if another queue wanted the whole cluster. True if no
    /// plugin computes shares.
    fn has_more_than_its_share(&self, queue: usize, other: usize) -> bool {
        let more = |share: &QueueShare, deserved: &Resource| {
            let mut held = share.allocated.iter();
            held.any(|(dim, held)| dim != Dim::PODS && held > deserved.get(dim))
        };
        if let Some(proportion) = &self.plugins.proportion {
            let deserved = &proportion.if_wanted(other)[queue];
            return proportion
                .shares
                .of(queue)
                .is_none_or(|share| more(share, deserved));
        }
        let capacity = self.plugins.capacity.as_ref();
        let share = capacity.and_then(|capacity| capacity.shares.of(queue));
        share.is_none_or(|share| more(share, &share.deserved))
    }

    /// Why a job is not let in.
    fn kept_out_words(&self, gang: &Gang, at: usize) -> String {
        let Gang::Parts(parts) = gang else {
            return "there is no room now for its minResources".to_owned();
        };
        let Some(part) = parts.get(at) else {
            return "there is no room now for its gang".to_owned();
        };
        let role = match self.snapshot.roles.name(part.role) {
            "" => String::new(),
            role => format!(" of task {role}"),
        };
        let amounts = self.amounts_text(&part.request);
        let count = part.count;
        let beside = if parts.len() > 1 {
            " beside the rest of its gang"
        } else {
            ""
        };
        let pods = match count {
            1 => format!("1 pod{role} that asks for {amounts}"),
            count => format!("{count} pods{role} that ask for {amounts} each"),
        };
        format!("there is no room now for {pods}{beside}")
    }

    /// `cpu 2, memory 1Gi`.
    fn amounts_text(&self, amounts: &Resource) -> String {
        let some = amounts.some().filter(|(dim, _)| *dim != Dim::PODS);
        let texts: Vec<String> = some
            .map(|(dim, amount)| {
                let name = self.snapshot.dims.name(dim);
                format!("{name} {}", crate::session::objects::quantity(name, amount))
            })
            .collect();
        texts.join(", ")
    }
}
