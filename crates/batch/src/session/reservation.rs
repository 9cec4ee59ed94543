//! Nodes that are kept for a job that has waited long, so that it does not starve behind smaller ones (volcano#748, #947).
//!
//! One job at a time has a turn ([`Turns`](super::turns::Turns)). A turn needs pending pods: a PodGroup alone proves no
//! demand. Nodes are reserved against jobs that come after it. A turn ends when the job starts, when it no longer
//! waits, and after a second bound. Then the job waits as long as before until its next turn, and other queues and
//! namespaces come first. The pause between two turns is as long as the turn was, because reserved nodes stand idle:
//! half of the time belongs to small jobs. A queue, and a namespace in it, wait longer if they had more nodes reserved
//! than their part ([`Parts`]). The condition `Reserved` is only written, never read.

use super::Session;
use super::free_capacity::times;
use super::gang::{Gang, Part, need_of};
use super::parts::Parts;
use super::plugins::QueueShare;
use super::resource::Resource;
use super::snapshot::{INQUEUE, UNKNOWN};
use super::task::Status;
use super::topology::DomainId;
use super::turns::Candidate;
use crate::compat::Difference;
use crate::conf::Action;
use crate::wire::PodGroupCondition;
use evictd_placement::NodeId;
use jiff::{SignedDuration, Timestamp};

/// The type of the condition.
const RESERVED: &str = "Reserved";
/// So many times the room that a job needs is kept for it, if there is so much: whatever of it becomes free first will do. The
/// last pods of a node may run for hours, and all that became free before them would stand empty.
const SPARE: usize = 2;
/// So many nodes are named.
const NAMED: usize = 5;

/// Nodes that are kept for a job.
#[derive(Debug)]
pub(crate) struct Reservation {
    job: usize,
    /// The request of its smallest gang.
    need: Resource,
    /// By node.
    pub(crate) nodes: Vec<bool>,
    /// The amounts that jobs of its queue hold on those nodes; they return to the queue's share.
    returns: Resource,
    /// No longer than until then.
    pub(crate) until: Timestamp,
}

/// How long a job waits before nodes are kept for it, and how long they are.
#[derive(Clone, Copy)]
struct Bounds {
    after: SignedDuration,
    hold: SignedDuration,
}

impl Session<'_> {
    /// Decides for which job nodes are kept in this session, and which.
    pub(crate) fn reserve(&mut self) {
        let (Some(now), Some(bounds)) = (self.snapshot.now, self.bounds()) else {
            return;
        };
        self.snapshot.turns.not_after(now);
        let holder = self.holder();
        if holder.is_none() {
            self.snapshot.turns.end(now);
        }
        let mut chosen = None;
        if let Some((job, since)) = holder {
            let over = now.duration_since(since) >= bounds.hold;
            match self.nodes_for(job).filter(|_| !over) {
                Some(nodes) => chosen = Some((job, since, nodes)),
                None => self.end_reservation(job, over, now),
            }
        }
        if chosen.is_none() && self.snapshot.turns.next_after().is_none_or(|at| at <= now) {
            chosen = self.first_starving(now, bounds.after);
        }
        self.withdraw_others(chosen.as_ref().map(|(job, ..)| *job), now);
        if let Some((job, since, nodes)) = chosen {
            let until = since.checked_add(bounds.hold).unwrap_or(Timestamp::MAX);
            self.keep(job, since, until, nodes);
        }
    }

    fn candidate(&self, job: usize) -> Candidate<'_> {
        let job = &self.snapshot.jobs[job];
        Candidate {
            job: &job.key,
            created: job.created,
            queue: &self.snapshot.queues[job.queue].name,
        }
    }

    /// The job whose turn it is, and since when.
    fn holder(&self) -> Option<(usize, Timestamp)> {
        let name = self.snapshot.turns.job()?;
        let mut live = self.snapshot.live.iter().copied();
        let job = live.find(|job| *self.snapshot.jobs[*job].key == *name)?;
        Some((job, self.snapshot.turns.since(self.candidate(job))?))
    }

    /// Groups whose condition claims a turn that they do not have: an earlier scheduler wrote it, or a tenant.
    fn withdraw_others(&mut self, chosen: Option<usize>, now: Timestamp) {
        let claims = |job: &usize| {
            let mut conditions = self.snapshot.jobs[*job].conditions.iter();
            let claims = conditions
                .any(|condition| condition.kind == RESERVED && condition.status == "True");
            claims && Some(*job) != chosen
        };
        let others: Vec<usize> = self.snapshot.live.iter().copied().filter(claims).collect();
        for job in others {
            self.say_reserved(
                job,
                false,
                "Done",
                "no nodes are kept for it".to_owned(),
                now,
            );
        }
    }

    fn bounds(&self) -> Option<Bounds> {
        let arguments = self.conf.arguments_of(Action::Allocate);
        let seconds = |name: &str, default: f64| {
            let seconds = arguments.map_or(default, |arguments| arguments.number(name, default));
            SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::MAX)
        };
        let bounds = Bounds {
            after: seconds("reservation.afterSeconds", 600.0),
            hold: seconds("reservation.forSeconds", 14_400.0),
        };
        let acts = self.compat.has(Difference::ReserveNodes)
            && self.conf.actions.contains(&Action::Allocate);
        (acts && bounds.hold.is_positive()).then_some(bounds)
    }

    /// Of the jobs that have waited longer than a bound the first that nodes can be kept for, with those.
    fn first_starving(
        &mut self,
        now: Timestamp,
        after: SignedDuration,
    ) -> Option<(usize, Timestamp, Vec<bool>)> {
        let jobs = self.snapshot.live.iter().copied();
        let jobs = jobs.filter(|job| self.has_starved(*job, now, after));
        let mut jobs: Vec<usize> = jobs.collect();
        jobs.retain(|job| self.waits(*job));
        if jobs.is_empty() {
            return None;
        }
        let parts = Parts::of(&self.snapshot, |queue| self.deserved_part(queue));
        jobs.retain(|job| {
            let queue = self.snapshot.jobs[*job].queue;
            let shares = [parts.of_queue(queue), parts.of_namespace(queue)];
            let paid = self.snapshot.turns.paid_at(self.candidate(*job), shares);
            paid.is_none_or(|at| at <= now)
        });
        jobs.sort_by(|one, other| {
            let rank = |job: usize| self.snapshot.turns.rank(self.candidate(job));
            let before = |one, other| self.job_before(one, other);
            let by_turns = rank(*one).cmp(&rank(*other));
            by_turns.then_with(|| before(*other, *one).cmp(&before(*one, *other)))
        });
        let mut jobs = jobs.into_iter();
        // As times are written.
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let (job, nodes) = jobs.find_map(|job| Some((job, self.nodes_for(job)?)))?;
        let mut turns = std::mem::take(&mut self.snapshot.turns);
        turns.begin(self.candidate(job), now);
        self.snapshot.turns = turns;
        Some((job, now, nodes))
    }

    /// Which part of the cluster a queue deserves by the plugin that divides it, if there is one.
    fn deserved_part(&self, queue: usize) -> Option<f64> {
        let proportion = self
            .plugins
            .proportion
            .as_ref()
            .map(|proportion| &proportion.shares);
        let capacity = self
            .plugins
            .capacity
            .as_ref()
            .map(|capacity| &capacity.shares);
        let share = proportion.or(capacity)?.of(queue)?;
        Some(share.entitled().dominant(&self.snapshot.total).1)
    }

    /// Whether a job has waited for so long since it came, or since its last turn.
    fn has_starved(&self, job: usize, now: Timestamp, after: SignedDuration) -> bool {
        let created = self.snapshot.jobs[job].created;
        let since = created.max(self.snapshot.turns.ended(self.candidate(job)));
        since.is_some_and(|since| now.duration_since(since) >= after)
    }

    /// Whether a job without pods has waited so long that it may have nodes kept. It is let in although it does not fit: its pods are
    /// made then, and only pods prove that it needs the room.
    pub(crate) fn may_be_made(&self, job_id: usize) -> bool {
        let (Some(now), Some(bounds)) = (self.snapshot.now, self.bounds()) else {
            return false;
        };
        let job = &self.snapshot.jobs[job_id];
        job.tasks.is_empty()
            && self.has_starved(job_id, now, bounds.after)
            && self.queue_may_have(job.queue, &job.min_resources())
    }

    /// Whether a job waits for room, and nothing else.
    fn waits(&self, job_id: usize) -> bool {
        let job = &self.snapshot.jobs[job_id];
        let starts = job.count(Status::Running) + job.count(Status::Bound) > 0;
        let waiting = job.is_pending() || job.phase == INQUEUE || job.phase == UNKNOWN;
        waiting && !starts && !job.is_ready() && self.invalid(job_id).is_none()
    }

    /// The nodes to reserve for a job. `None` if it does not wait with all pods that it needs, if its queue may not
    /// have so much, or if an empty cluster is too small. No node is reserved while its queue is over its share by pods
    /// elsewhere. Then the job waits for those pods, and reserved nodes would stand idle.
    fn nodes_for(&mut self, job: usize) -> Option<Vec<bool>> {
        if !self.waits(job) {
            return None;
        }
        let Gang::Parts(parts) = self.smallest_gang(job) else {
            return None;
        };
        let need = need_of(&parts);
        let queue = self.snapshot.jobs[job].queue;
        if !self.queue_may_have(queue, &need) {
            return None;
        }
        let nodes = self.soonest(job, &parts)?;
        // Where there is room for it already, it is the share alone that it lacks.
        let returns = if self.has_idle(&nodes, &need) {
            Resource::default()
        } else {
            self.held_on(&nodes, queue)
        };
        let may_start = self.within_share(queue, &need, |share| {
            let mut sum = share.with(&need);
            sum.sub(&returns);
            sum
        });
        Some(nodes.into_iter().map(|node| node && may_start).collect())
    }

    /// Whether some nodes together have so much free now.
    fn has_idle(&self, nodes: &[bool], need: &Resource) -> bool {
        let mut idle = Resource::default();
        let some = self.snapshot.nodes.iter().zip(nodes);
        for (node, _) in some.filter(|(_, kept)| **kept) {
            idle.add(&node.future_idle());
        }
        need.within_for(&idle, need)
    }

    /// The amounts that jobs of a queue hold on some nodes.
    fn held_on(&self, nodes: &[bool], queue: usize) -> Resource {
        let mut held = Resource::default();
        let some = self.snapshot.nodes.iter().zip(nodes);
        let tasks = some
            .filter(|(_, kept)| **kept)
            .flat_map(|(node, _)| &node.tasks);
        for task in tasks {
            let task = &self.snapshot.tasks[*task];
            if task.status.is_allocated() && self.snapshot.jobs[task.job].queue == queue {
                held.add(&task.request);
            }
        }
        held
    }

    /// Whether a queue may ever hold so much.
    fn queue_may_have(&self, queue: usize, need: &Resource) -> bool {
        let open = self.snapshot.queues[queue].open;
        open && self.within_share(queue, need, |_| need.clone())
    }

    /// Whether an amount is within a queue's limits, in the requested resources.
    fn within_share(
        &self,
        queue: usize,
        asked: &Resource,
        amount: impl Fn(&QueueShare) -> Resource,
    ) -> bool {
        let proportion = self.plugins.proportion.as_ref();
        let proportion = proportion.and_then(|proportion| proportion.shares.of(queue));
        let capacity = self.plugins.capacity.as_ref();
        let capacity = capacity.and_then(|capacity| capacity.shares.of(queue));
        let deserved = proportion.is_none_or(|share| {
            let amount = amount(share);
            amount.within_for(&share.deserved, asked)
        });
        let mut shares = proportion.into_iter().chain(capacity);
        deserved && shares.all(|share| amount(share).within_for(&share.real_capability, asked))
    }

    /// The reservation that a job has to respect.
    fn respected(&self, job: usize) -> Option<&Reservation> {
        let excluded = self.snapshot.jobs[job].excluded;
        self.reservation.as_ref().filter(|_| excluded)
    }

    /// The same while a job asks to be let in: only if the one that nodes are kept for is not let in either.
    fn respected_at_entry(&self, job: usize) -> Option<&Reservation> {
        let kept = self.respected(job);
        kept.filter(|kept| self.snapshot.jobs[kept.job].is_pending())
    }

    /// The amount of its queue's share that a job of the same queue leaves free. Amounts that the reserved nodes will
    /// return are not part of it.
    fn left_over_of_share(&self, kept: &Reservation, job: usize) -> Option<Resource> {
        let same = self.snapshot.jobs[kept.job].queue == self.snapshot.jobs[job].queue;
        same.then(|| kept.need.beyond(&kept.returns))
    }

    /// The amount of its queue's share that a job leaves free when it is enqueued.
    pub(crate) fn left_over_of_share_at_entry(&self, job: usize) -> Option<Resource> {
        self.left_over_of_share(self.respected_at_entry(job)?, job)
    }

    /// The amount of the cluster that a job leaves free when it is enqueued. A placement check beside the reserved
    /// nodes is enough.
    pub(crate) fn left_over_at_entry(&self, job: usize) -> Option<&Resource> {
        let kept = self.respected_at_entry(job)?;
        (!self.asks_for_places()).then_some(&kept.need)
    }

    /// Whether a task leaves its queue so much of its share as the job needs that nodes are kept for.
    pub(crate) fn leaves_share(&self, task: usize) -> bool {
        let task = &self.snapshot.tasks[task];
        let Some(kept) = self.respected(task.job) else {
            return true;
        };
        let Some(need) = self.left_over_of_share(kept, task.job) else {
            return true;
        };
        let queue = self.snapshot.jobs[task.job].queue;
        self.within_share(queue, &task.request, |share| {
            let mut sum = share.with(&task.request);
            sum.add(&need);
            sum
        })
    }

    /// The fewest nodes that can take all of these pods several times over when others have left: those first of which the
    /// largest part is free already. Of domains that all pods have to be in one of, that which has the most room already.
    fn soonest(&mut self, job: usize, parts: &[Part]) -> Option<Vec<bool>> {
        let mut free_amounts = self.emptied(job);
        let mut best: Option<Kept> = None;
        for within in self.tries(job) {
            let kept = self.soonest_in(within, parts, &mut free_amounts);
            let freer = |kept: &Kept| best.as_ref().is_none_or(|best| kept.free > best.free);
            best = kept.filter(freer).or(best);
        }
        best.map(|kept| kept.nodes)
    }

    /// The free amounts by node if all other jobs had ended.
    fn emptied(&self, job: usize) -> Vec<Resource> {
        let snapshot = &self.snapshot;
        let mut free_amounts: Vec<Resource> = Vec::with_capacity(snapshot.nodes.len());
        for node in &snapshot.nodes {
            let mut room = node.future_idle();
            let others = node.tasks.iter().map(|task| &snapshot.tasks[*task]);
            let others = others.filter(|task| {
                let stays = matches!(task.status, Status::Releasing | Status::Pipelined);
                !stays && snapshot.jobs[task.job].is_live && task.job != job
            });
            others.for_each(|task| room.add(&task.request));
            free_amounts.push(room);
        }
        free_amounts
    }

    /// The soonest nodes of one domain. The free_amounts are as they were afterwards.
    fn soonest_in(
        &mut self,
        within: Option<DomainId>,
        parts: &[Part],
        free_amounts: &mut [Resource],
    ) -> Option<Kept> {
        let mut kept = Kept {
            nodes: vec![false; free_amounts.len()],
            free: 0.0,
        };
        let mut taken: Vec<(usize, Resource)> = Vec::new();
        let fits = parts
            .iter()
            .all(|part| self.keep_part(within, part, (&mut *free_amounts, &mut taken), &mut kept));
        for (node, amount) in taken {
            free_amounts[node].add(&amount);
        }
        fits.then_some(kept)
    }

    /// Keeps nodes for pods that are alike. For those that would not even fit alone nothing is kept.
    fn keep_part(
        &mut self,
        within: Option<DomainId>,
        part: &Part,
        (free_amounts, taken): (&mut [Resource], &mut Vec<(usize, Resource)>),
        kept: &mut Kept,
    ) -> bool {
        let mut order = self.rated(within, part, free_amounts);
        // Those that are kept already are used first.
        order.sort_by(|one, other| {
            let kept = kept.nodes[other.node].cmp(&kept.nodes[one.node]);
            kept.then_with(|| other.free.total_cmp(&one.free))
        });
        if first_with_room(&order, part.count).is_none() {
            return false;
        }
        let wanted = part.count.saturating_mul(SPARE);
        let mut used = first_with_room(&order, wanted).unwrap_or(order);
        drop_needless(&mut used, wanted);
        let mut left = part.count;
        for node in used {
            let count = node.most.min(left);
            left -= count;
            kept.nodes[node.node] = true;
            let mut amount = part.request.clone();
            #[expect(clippy::cast_precision_loss, reason = "there are not so many pods")]
            {
                kept.free += node.free * node.most as f64;
                amount.scale(count as f64);
            }
            free_amounts[node.node].sub(&amount);
            taken.push((node.node, amount));
        }
        true
    }

    /// The nodes that pods could be on if others had left, in the order of their names.
    fn rated(
        &mut self,
        within: Option<DomainId>,
        part: &Part,
        free_amounts: &[Resource],
    ) -> Vec<Rated> {
        let by_rank = self.snapshot.by_rank.clone();
        let rated = by_rank.into_iter().filter_map(|node| {
            if !self.domains.reaches(within, node) {
                return None;
            }
            let most = times(&part.request, |dim| free_amounts[node].get(dim));
            if most == 0 {
                return None;
            }
            // A pod that is not made proves no need.
            let task = part.task?;
            let (evaluator, view) = self.evaluation();
            let open = evaluator.might_take(view, task, node, true);
            let idle = view.snapshot.nodes[node].future_idle();
            let parts = part.request.some();
            let parts = parts.map(|(dim, amount)| idle.get(dim) / amount);
            let now = parts.fold(f64::INFINITY, f64::min).max(0.0);
            #[expect(clippy::cast_precision_loss, reason = "there are not so many pods")]
            let free = (now / most as f64).min(1.0);
            open.then_some(Rated { node, most, free })
        });
        rated.collect()
    }

    /// Keeps nodes for a job from all that come after it.
    fn keep(&mut self, job: usize, since: Timestamp, until: Timestamp, nodes: Vec<bool>) {
        let priority = |job: usize| self.snapshot.queues[self.snapshot.jobs[job].queue].priority;
        let after = |other: &usize| {
            *other != job && priority(*other) <= priority(job) && !self.job_before(*other, job)
        };
        let live = self.snapshot.live.iter().copied();
        let excluded: Vec<usize> = live.filter(after).collect();
        for other in excluded {
            self.snapshot.jobs[other].excluded = true;
        }
        let by_rank = self.snapshot.by_rank.iter();
        let kept: Vec<&str> = by_rank
            .filter(|node| nodes[**node])
            .map(|node| self.cluster.node_name(NodeId::of(*node)))
            .collect();
        self.snapshot.turns.keeps(kept.len(), nodes.len());
        let named: Vec<&str> = kept.iter().copied().take(NAMED).collect();
        let more = match kept.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = if named.is_empty() {
            format!(
                "its part of what its queue may have is kept for it until {until} at the latest"
            )
        } else {
            let named = named.join(", ");
            format!("nodes are kept for it until {until} at the latest: {named}{more}")
        };
        self.say_reserved(job, true, "WaitedLong", message, since);
        let need = self.smallest_gang(job).need();
        self.reservation = Some(Reservation {
            job,
            need,
            returns: self.held_on(&nodes, self.snapshot.jobs[job].queue),
            nodes,
            until,
        });
    }

    /// Ends the reservation of a job that can start.
    pub(crate) fn starts(&mut self, job: usize) {
        let kept = self
            .reservation
            .take_if(|reservation| reservation.job == job);
        let (Some(_), Some(now)) = (kept, self.snapshot.now) else {
            return;
        };
        for job in &mut self.snapshot.jobs {
            job.excluded = false;
        }
        self.end_reservation(job, false, now);
    }

    fn end_reservation(&mut self, job: usize, over: bool, now: Timestamp) {
        self.snapshot.turns.end(now);
        let (reason, message) = if over {
            (
                "HeldLong",
                "it could not start while nodes were kept for it",
            )
        } else if self.waits(job) {
            (
                "Withdrawn",
                "its queue may not have so much, or it fits nowhere",
            )
        } else {
            ("Done", "it does not wait any more")
        };
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        self.say_reserved(job, false, reason, message.to_owned(), now);
    }

    fn say_reserved(
        &mut self,
        job: usize,
        holds: bool,
        reason: &str,
        message: String,
        since: Timestamp,
    ) {
        let condition = PodGroupCondition {
            kind: RESERVED.to_owned(),
            status: if holds { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: Some(since),
            transition_id: String::new(),
        };
        self.say(job, condition);
    }
}

/// Nodes that may be kept.
#[derive(Debug)]
struct Kept {
    nodes: Vec<bool>,
    /// So many pods would have room there now.
    free: f64,
}

/// A node that pods of a part could be on.
#[derive(Debug, Clone, Copy)]
struct Rated {
    node: usize,
    /// How many of them, when others have left.
    most: usize,
    /// Which part of the room for those is free now.
    free: f64,
}

/// The first that have room for so many pods together, if all have.
fn first_with_room(order: &[Rated], count: usize) -> Option<Vec<Rated>> {
    let mut sum = 0_usize;
    let mut used = Vec::new();
    for node in order {
        if sum >= count {
            break;
        }
        sum = sum.saturating_add(node.most);
        used.push(*node);
    }
    (sum >= count).then_some(used)
}

/// Drops nodes that are not needed for so many pods, last first.
fn drop_needless(used: &mut Vec<Rated>, count: usize) {
    let mut sum = used
        .iter()
        .fold(0_usize, |sum, node| sum.saturating_add(node.most));
    for at in (0..used.len()).rev() {
        if sum - used[at].most >= count {
            sum -= used[at].most;
            used.remove(at);
        }
    }
}
