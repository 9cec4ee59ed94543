//! What a queue deserves and cannot use: jobs start all at once or not at all, and what is left of the queue's part may be too
//! small for any that waits. Others have it until that changes.

use super::shares::{Lent, QueueShare, Shares};
use crate::session::model::Model;
use crate::session::resource::{Dim, Resource, Unnamed, share};
use crate::session::task::Status;

/// So many queues lend. Those with less to lend are left out, since each costs a look at all jobs that wait.
const LENDERS: usize = 16;

/// What a job waits for.
struct Want {
    /// All of this at once, or nothing.
    gang: Resource,
    /// Any part of this besides.
    rest: Resource,
}

/// Lowers what queues deserve to what they can use, one queue after the other, that with the most to lend first: what it lends
/// may be what another one lacks. Then it is asked again what each could use: those that were first have not seen what came after.
pub(super) fn lend(shares: &mut Shares, model: &Model, total: &Resource) {
    let unmet = |own: &QueueShare| !own.request.within_for(&own.deserved, &own.request);
    let mut wants: Vec<Option<Vec<Want>>> = Vec::new();
    for own in &shares.queues {
        wants.push(own.as_ref().filter(|own| unmet(own)).map(|_| Vec::new()));
    }
    for (index, job) in model.live_jobs() {
        if let Some(wants) = &mut wants[job.queue] {
            wants.extend(Want::of(model, index));
        }
    }
    for wants in wants.iter_mut().flatten() {
        let size = |want: &Want| want.gang.dominant(&model.total).1;
        wants.sort_by(|one, other| size(other).total_cmp(&size(one)));
    }
    let mut lenders = Vec::new();
    while lenders.len() < LENDERS
        && let Some((queue, lent)) = most_to_lend(shares, model, &wants)
    {
        set_lent(shares, total, queue, Some(lent));
        lenders.push((queue, wants[queue].take().unwrap_or_default()));
    }
    // What others have lent after it may be just what a lender lacked.
    for (queue, wants) in lenders {
        set_lent(shares, total, queue, None);
        let lent = shares.of(queue).and_then(|own| lent_by(own, &wants));
        if lent.is_some() {
            set_lent(shares, total, queue, lent);
        }
    }
    give_back(shares, total);
}

/// What others do not take of what was lent stays with the queues that deserve it: their jobs are tried, and told what they
/// lack.
fn give_back(shares: &mut Shares, total: &Resource) {
    let queues = shares.queues.iter().flatten();
    let mut unclaimed = queues.fold(total.clone(), |sum, own| sum.beyond(&own.deserved));
    for own in shares.queues.iter_mut().flatten() {
        let Some(lent) = &own.lent else { continue };
        let mut back = lent.deserved.beyond(&own.deserved);
        back.lower_to(&unclaimed, Unnamed::Zero);
        unclaimed = unclaimed.beyond(&back);
        own.deserved.add(&back);
        own.update();
    }
}

/// Notes what a queue lends, and divides anew.
fn set_lent(shares: &mut Shares, total: &Resource, queue: usize, lent: Option<Lent>) {
    if let Some(own) = &mut shares.queues[queue] {
        own.lent = lent;
    }
    shares.divide(total);
}

/// Of the queues that cannot use all that they deserve the one that lacks use for the most of all that it asks for: nobody can do
/// anything with memory alone.
fn most_to_lend(
    shares: &Shares,
    model: &Model,
    wants: &[Option<Vec<Want>>],
) -> Option<(usize, Lent)> {
    let mut most: Option<([f64; 2], usize, Lent)> = None;
    for (queue, (own, wants)) in shares.queues.iter().zip(wants).enumerate() {
        let (Some(own), Some(wants)) = (own, wants) else {
            continue;
        };
        let Some(lent) = lent_by(own, wants) else {
            continue;
        };
        let unused = own.deserved.beyond(&lent.usable);
        let asked = own.request.some().filter(|(dim, _)| *dim != Dim::PODS);
        let parts = asked.map(|(dim, _)| share(unused.get(dim), model.total.get(dim)));
        let size = [parts.fold(1.0, f64::min), unused.dominant(&model.total).1];
        let name = |queue: usize| &model.queues[queue].name;
        let more = most.as_ref().is_none_or(|(most, other, _)| {
            let order = size[0].total_cmp(&most[0]);
            let order = order.then_with(|| size[1].total_cmp(&most[1]));
            order.then_with(|| name(*other).cmp(name(queue))).is_gt()
        });
        if more {
            most = Some((size, queue, lent));
        }
    }
    most.map(|(_, queue, lent)| (queue, lent))
}

/// What a queue can use of what it deserves, if that is not all.
fn lent_by(own: &QueueShare, wants: &[Want]) -> Option<Lent> {
    let left = left_over(own, wants);
    let mut usable = own.deserved.clone();
    usable.sub(&left);
    let deserved = own.deserved.clone();
    (!left.is_empty()).then_some(Lent { usable, deserved })
}

/// What no job that waits could use of what a queue deserves, if the largest gangs got theirs first.
fn left_over(own: &QueueShare, wants: &[Want]) -> Resource {
    let mut left = own.deserved.beyond(&own.allocated);
    for want in wants {
        if want.gang.within_for(&left, &want.gang) {
            left = left.beyond(&want.gang).beyond(&want.rest);
        }
    }
    left
}

impl Want {
    fn of(model: &Model, job: usize) -> Option<Self> {
        let own = &model.jobs[job];
        let waiting = model.tasks_of(job, Status::Pending);
        let waiting = waiting.map(|task| &model.tasks[task]);
        let waiting = waiting.filter(|task| !task.gated && !task.best_effort);
        let mut requests: Vec<&Resource> = waiting.map(|task| &task.request).collect();
        if requests.is_empty() {
            return None;
        }
        let missing = own.min_member - own.ready() - own.pending_best_effort;
        let missing = usize::try_from(missing).unwrap_or(0).min(requests.len());
        if missing < requests.len() {
            let size = |request: &Resource| request.dominant(&model.total).1;
            requests.sort_by(|one, other| size(one).total_cmp(&size(other)));
        }
        let sum = |requests: &[&Resource]| {
            let mut sum = Resource::default();
            for request in requests {
                sum.add(request);
            }
            sum
        };
        let (gang, rest) = requests.split_at(missing);
        Some(Self {
            gang: sum(gang),
            rest: sum(rest),
        })
    }
}
