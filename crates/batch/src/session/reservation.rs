//! Nodes that are kept for a job that has waited long, so that it does not starve behind smaller ones (volcano#748, #947).
//!
//! One job at a time has a turn ([`Turns`](super::turns::Turns)). A turn needs pods that wait: a group that only claims to need room gets none. Nodes are
//! kept from jobs that come after it. A turn ends when the job starts, when it does not wait any more, and after a second bound.
//! Then the job waits as long as before until it has another turn, and other queues and namespaces come first. Between two turns
//! passes as long as the first has lasted, because what is kept stands empty: where many jobs wait for hours, half of the time
//! belongs to small jobs. A queue, and a namespace in it, wait longer where they had more nodes kept than is their part ([`Parts`]). The condition `Reserved` only informs; it is never read.

use super::Session;
use super::gang::{Gang, Part, need_of};
use super::model::{INQUEUE, UNKNOWN};
use super::parts::Parts;
use super::plugins::QueueShare;
use super::resource::Resource;
use super::rooms::times;
use super::task::Status;
use super::turns::Candidate;
use super::within::Within;
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
    /// What it needs.
    need: Resource,
    /// By node.
    pub(crate) nodes: Vec<bool>,
    /// What jobs of its queue hold on those, which comes back to the queue's share.
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
        let (Some(now), Some(bounds)) = (self.model.now, self.bounds()) else {
            return;
        };
        self.model.turns.not_after(now);
        let holder = self.holder();
        if holder.is_none() {
            self.model.turns.end(now);
        }
        let mut chosen = None;
        if let Some((job, since)) = holder {
            let over = now.duration_since(since) >= bounds.hold;
            match self.nodes_for(job).filter(|_| !over) {
                Some(nodes) => chosen = Some((job, since, nodes)),
                None => self.end_reservation(job, over, now),
            }
        }
        if chosen.is_none() && self.model.turns.next_after().is_none_or(|at| at <= now) {
            chosen = self.first_starving(now, bounds.after);
        }
        self.withdraw_others(chosen.as_ref().map(|(job, ..)| *job), now);
        if let Some((job, since, nodes)) = chosen {
            let until = since.checked_add(bounds.hold).unwrap_or(Timestamp::MAX);
            self.keep(job, since, until, nodes);
        }
    }

    fn candidate(&self, job: usize) -> Candidate<'_> {
        let own = &self.model.jobs[job];
        Candidate {
            job: &own.key,
            created: own.created,
            queue: &self.model.queues[own.queue].name,
        }
    }

    /// The job whose turn it is, and since when.
    fn holder(&self) -> Option<(usize, Timestamp)> {
        let name = self.model.turns.job()?;
        let mut live = self.model.live.iter().copied();
        let job = live.find(|job| *self.model.jobs[*job].key == *name)?;
        Some((job, self.model.turns.since(self.candidate(job))?))
    }

    /// Groups whose condition claims a turn that they do not have: an earlier scheduler wrote it, or a tenant.
    fn withdraw_others(&mut self, chosen: Option<usize>, now: Timestamp) {
        let claims = |job: &usize| {
            let mut conditions = self.model.jobs[*job].conditions.iter();
            let claims = conditions.any(|own| own.kind == RESERVED && own.status == "True");
            claims && Some(*job) != chosen
        };
        let others: Vec<usize> = self.model.live.iter().copied().filter(claims).collect();
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
            let seconds = arguments.map_or(default, |own| own.number(name, default));
            SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::MAX)
        };
        let bounds = Bounds {
            after: seconds("reservation.afterSeconds", 600.0),
            hold: seconds("reservation.forSeconds", 14_400.0),
        };
        let acts = self.form.reserves && self.conf.actions.contains(&Action::Allocate);
        (acts && bounds.hold.is_positive()).then_some(bounds)
    }

    /// Of the jobs that have waited longer than a bound the first that nodes can be kept for, with those.
    fn first_starving(
        &mut self,
        now: Timestamp,
        after: SignedDuration,
    ) -> Option<(usize, Timestamp, Vec<bool>)> {
        let jobs = self.model.live.iter().copied();
        let jobs = jobs.filter(|job| self.has_starved(*job, now, after));
        let mut jobs: Vec<usize> = jobs.collect();
        jobs.retain(|job| self.waits(*job));
        if jobs.is_empty() {
            return None;
        }
        let parts = Parts::of(&self.model, |queue| self.deserved_part(queue));
        jobs.retain(|job| {
            let queue = self.model.jobs[*job].queue;
            let own = [parts.of_queue(queue), parts.of_namespace(queue)];
            let paid = self.model.turns.paid_at(self.candidate(*job), own);
            paid.is_none_or(|at| at <= now)
        });
        jobs.sort_by(|one, other| {
            let rank = |job: usize| self.model.turns.rank(self.candidate(job));
            let before = |one, other| self.job_before(one, other);
            let by_turns = rank(*one).cmp(&rank(*other));
            by_turns.then_with(|| before(*other, *one).cmp(&before(*one, *other)))
        });
        let mut jobs = jobs.into_iter();
        // As times are written.
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let (job, nodes) = jobs.find_map(|job| Some((job, self.nodes_for(job)?)))?;
        let mut turns = std::mem::take(&mut self.model.turns);
        turns.begin(self.candidate(job), now);
        self.model.turns = turns;
        Some((job, now, nodes))
    }

    /// Which part of the cluster a queue deserves by the plugin that divides it, if there is one.
    fn deserved_part(&self, queue: usize) -> Option<f64> {
        let proportion = self.plugins.proportion.as_ref().map(|own| &own.shares);
        let capacity = self.plugins.capacity.as_ref().map(|own| &own.shares);
        let share = proportion.or(capacity)?.of(queue)?;
        Some(share.entitled().dominant(&self.model.total).1)
    }

    /// Whether a job has waited for so long since it came, or since its last turn.
    fn has_starved(&self, job: usize, now: Timestamp, after: SignedDuration) -> bool {
        let created = self.model.jobs[job].created;
        let since = created.max(self.model.turns.ended(self.candidate(job)));
        since.is_some_and(|since| now.duration_since(since) >= after)
    }

    /// Whether a job without pods has waited so long that it may have nodes kept. It is let in although it does not fit: its pods are
    /// made then, and only pods prove that it needs the room.
    pub(crate) fn may_be_made(&self, job: usize) -> bool {
        let (Some(now), Some(bounds)) = (self.model.now, self.bounds()) else {
            return false;
        };
        let own = &self.model.jobs[job];
        own.tasks.is_empty()
            && self.has_starved(job, now, bounds.after)
            && self.queue_may_have(own.queue, &own.min_resources())
    }

    /// Whether a job waits for room, and nothing else.
    fn waits(&self, job: usize) -> bool {
        let own = &self.model.jobs[job];
        let starts = own.count(Status::Running) + own.count(Status::Bound) > 0;
        let waiting = own.is_pending() || own.phase == INQUEUE || own.phase == UNKNOWN;
        waiting && !starts && !own.is_ready() && self.invalid(job).is_none()
    }

    /// The nodes that are kept for a job if they are for any: `None` if it does not wait with all pods that it needs, if its queue may not have so much, or
    /// if it would not even fit if all jobs had left. While its queue holds too much for it, and not on those nodes, none are:
    /// the job waits for others of its queue to end, and nodes would stand empty for nothing.
    fn nodes_for(&mut self, job: usize) -> Option<Vec<bool>> {
        if !self.waits(job) {
            return None;
        }
        let Gang::Parts(parts) = self.smallest_gang(job) else {
            return None;
        };
        let need = need_of(&parts);
        let queue = self.model.jobs[job].queue;
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
        let may_start = self.within_share(queue, &need, |own| {
            let mut sum = own.with(&need);
            sum.sub(&returns);
            sum
        });
        Some(nodes.into_iter().map(|node| node && may_start).collect())
    }

    /// Whether some nodes together have so much free now.
    fn has_idle(&self, nodes: &[bool], need: &Resource) -> bool {
        let mut idle = Resource::default();
        let some = self.model.nodes.iter().zip(nodes);
        for (node, _) in some.filter(|(_, kept)| **kept) {
            idle.add(&node.future_idle());
        }
        need.within_for(&idle, need)
    }

    /// What jobs of a queue hold on some nodes.
    fn held_on(&self, nodes: &[bool], queue: usize) -> Resource {
        let mut held = Resource::default();
        let some = self.model.nodes.iter().zip(nodes);
        let tasks = some
            .filter(|(_, kept)| **kept)
            .flat_map(|(node, _)| &node.tasks);
        for task in tasks {
            let task = &self.model.tasks[*task];
            if task.status.is_allocated() && self.model.jobs[task.job].queue == queue {
                held.add(&task.request);
            }
        }
        held
    }

    /// Whether a queue may ever hold so much.
    fn queue_may_have(&self, queue: usize, need: &Resource) -> bool {
        let open = self.model.queues[queue].open;
        open && self.within_share(queue, need, |_| need.clone())
    }

    /// Whether an amount is within what a queue may have, in the dimensions that are asked for.
    fn within_share(
        &self,
        queue: usize,
        asked: &Resource,
        amount: impl Fn(&QueueShare) -> Resource,
    ) -> bool {
        let proportion = self.plugins.proportion.as_ref();
        let proportion = proportion.and_then(|own| own.shares.of(queue));
        let capacity = self.plugins.capacity.as_ref();
        let capacity = capacity.and_then(|own| own.shares.of(queue));
        let deserved = proportion.is_none_or(|own| {
            let amount = amount(own);
            amount.within_for(&own.deserved, asked)
        });
        let mut shares = proportion.into_iter().chain(capacity);
        deserved && shares.all(|own| amount(own).within_for(&own.real_capability, asked))
    }

    /// The reservation that a job has to respect.
    fn respected(&self, job: usize) -> Option<&Reservation> {
        let barred = self.model.jobs[job].barred;
        self.reservation.as_ref().filter(|_| barred)
    }

    /// The same while a job asks to be let in: only if the one that nodes are kept for is not let in either.
    fn respected_at_entry(&self, job: usize) -> Option<&Reservation> {
        let kept = self.respected(job);
        kept.filter(|kept| self.model.jobs[kept.job].is_pending())
    }

    /// What a job of the same queue has to leave over of its share: what jobs on the nodes that are kept give back is not
    /// among it.
    fn left_over_of_share(&self, kept: &Reservation, job: usize) -> Option<Resource> {
        let same = self.model.jobs[kept.job].queue == self.model.jobs[job].queue;
        same.then(|| kept.need.beyond(&kept.returns))
    }

    /// What a job that asks to be let in has to leave over of its queue's share.
    pub(crate) fn left_over_of_share_at_entry(&self, job: usize) -> Option<Resource> {
        self.left_over_of_share(self.respected_at_entry(job)?, job)
    }

    /// What a job that asks to be let in has to leave over of the cluster. Where it has to have a place besides the nodes that are
    /// kept, that is enough.
    pub(crate) fn left_over_at_entry(&self, job: usize) -> Option<&Resource> {
        let kept = self.respected_at_entry(job)?;
        (!self.asks_for_places()).then_some(&kept.need)
    }

    /// Whether a task leaves its queue so much of its share as the job needs that nodes are kept for.
    pub(crate) fn leaves_share(&self, task: usize) -> bool {
        let task = &self.model.tasks[task];
        let Some(kept) = self.respected(task.job) else {
            return true;
        };
        let Some(need) = self.left_over_of_share(kept, task.job) else {
            return true;
        };
        let queue = self.model.jobs[task.job].queue;
        self.within_share(queue, &task.request, |own| {
            let mut sum = own.with(&task.request);
            sum.add(&need);
            sum
        })
    }

    /// The fewest nodes that can take all of these pods several times over when others have left: those first of which the
    /// largest part is free already. Of domains that all pods have to be in one of, that which has the most room already.
    fn soonest(&mut self, job: usize, parts: &[Part]) -> Option<Vec<bool>> {
        let mut rooms = self.emptied(job);
        let mut best: Option<Kept> = None;
        for within in self.tries(job) {
            let kept = self.soonest_in(within, parts, &mut rooms);
            let freer = |kept: &Kept| best.as_ref().is_none_or(|best| kept.free > best.free);
            best = kept.filter(freer).or(best);
        }
        best.map(|own| own.nodes)
    }

    /// What would be free on each node if all other jobs had left.
    fn emptied(&self, job: usize) -> Vec<Resource> {
        let model = &self.model;
        let mut rooms: Vec<Resource> = Vec::with_capacity(model.nodes.len());
        for node in &model.nodes {
            let mut room = node.future_idle();
            let others = node.tasks.iter().map(|task| &model.tasks[*task]);
            let others = others.filter(|task| {
                let stays = matches!(task.status, Status::Releasing | Status::Pipelined);
                !stays && model.jobs[task.job].is_live && task.job != job
            });
            others.for_each(|task| room.add(&task.request));
            rooms.push(room);
        }
        rooms
    }

    /// The soonest nodes of one domain. The rooms are as they were afterwards.
    fn soonest_in(
        &mut self,
        within: Option<Within>,
        parts: &[Part],
        rooms: &mut [Resource],
    ) -> Option<Kept> {
        let mut kept = Kept {
            nodes: vec![false; rooms.len()],
            free: 0.0,
        };
        let mut taken: Vec<(usize, Resource)> = Vec::new();
        let fits = parts
            .iter()
            .all(|part| self.keep_part(within, part, (&mut *rooms, &mut taken), &mut kept));
        for (node, amount) in taken {
            rooms[node].add(&amount);
        }
        fits.then_some(kept)
    }

    /// Keeps nodes for pods that are alike. For those that would not even fit alone nothing is kept.
    fn keep_part(
        &mut self,
        within: Option<Within>,
        part: &Part,
        (rooms, taken): (&mut [Resource], &mut Vec<(usize, Resource)>),
        kept: &mut Kept,
    ) -> bool {
        let mut order = self.rated(within, part, rooms);
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
        for own in used {
            let count = own.most.min(left);
            left -= count;
            kept.nodes[own.node] = true;
            let mut amount = part.request.clone();
            #[expect(clippy::cast_precision_loss, reason = "there are not so many pods")]
            {
                kept.free += own.free * own.most as f64;
                amount.scale(count as f64);
            }
            rooms[own.node].sub(&amount);
            taken.push((own.node, amount));
        }
        true
    }

    /// The nodes that pods could be on if others had left, in the order of their names.
    fn rated(&mut self, within: Option<Within>, part: &Part, rooms: &[Resource]) -> Vec<Rated> {
        let by_rank = self.model.by_rank.clone();
        let rated = by_rank.into_iter().filter_map(|node| {
            if !self.domains.reaches(within, node) {
                return None;
            }
            let most = times(&part.request, |dim| rooms[node].get(dim));
            if most == 0 {
                return None;
            }
            // A pod that is not made proves no need.
            let task = part.task?;
            let (judge, view) = self.asking();
            let open = judge.might_take(view, task, node, true);
            let idle = view.model.nodes[node].future_idle();
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
        let priority = |job: usize| self.model.queues[self.model.jobs[job].queue].priority;
        let after = |other: &usize| {
            *other != job && priority(*other) <= priority(job) && !self.job_before(*other, job)
        };
        let live = self.model.live.iter().copied();
        let barred: Vec<usize> = live.filter(after).collect();
        for other in barred {
            self.model.jobs[other].barred = true;
        }
        let by_rank = self.model.by_rank.iter();
        let kept: Vec<&str> = by_rank
            .filter(|node| nodes[**node])
            .map(|node| self.cluster.node_name(NodeId::of(*node)))
            .collect();
        self.model.turns.keeps(kept.len(), nodes.len());
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
            returns: self.held_on(&nodes, self.model.jobs[job].queue),
            nodes,
            until,
        });
    }

    /// A job was given what it needs: nothing is kept for it any more.
    pub(crate) fn starts(&mut self, job: usize) {
        let kept = self.reservation.take_if(|own| own.job == job);
        let (Some(_), Some(now)) = (kept, self.model.now) else {
            return;
        };
        for job in &mut self.model.jobs {
            job.barred = false;
        }
        self.end_reservation(job, false, now);
    }

    fn end_reservation(&mut self, job: usize, over: bool, now: Timestamp) {
        self.model.turns.end(now);
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
    for own in order {
        if sum >= count {
            break;
        }
        sum = sum.saturating_add(own.most);
        used.push(*own);
    }
    (sum >= count).then_some(used)
}

/// Leaves out those without whom there is room for so many: the last first.
fn drop_needless(used: &mut Vec<Rated>, count: usize) {
    let mut sum = used
        .iter()
        .fold(0_usize, |sum, own| sum.saturating_add(own.most));
    for at in (0..used.len()).rev() {
        if sum - used[at].most >= count {
            sum -= used[at].most;
            used.remove(at);
        }
    }
}
