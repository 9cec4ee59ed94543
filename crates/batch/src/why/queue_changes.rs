//! The possible changes of the job's queue.

use super::change::Change;
use super::search::{Proposal, Search};
use crate::session::JobDiagnosis;
use evictd_pod::resources::{self, units};
use evictd_pod::{Counted, Requests};
use evictd_what_if::{Trial, least, necessary};

/// A weight that makes the others negligible.
const HEAVIEST: i32 = 10_000;

fn divisor(one: i64, other: i64) -> i64 {
    let (mut one, mut other) = (one.saturating_abs(), other.saturating_abs());
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one.max(1)
}

/// A priority above those of all earlier jobs; none if there is no such job.
pub(super) fn before_all(diagnosis: &JobDiagnosis) -> Option<Change> {
    let highest = diagnosis.ahead.iter().map(|ahead| ahead.priority).max()?;
    Some(Change::Priority {
        from: diagnosis.priority,
        to: highest.max(diagnosis.priority).checked_add(1)?,
    })
}

impl Search<'_, '_> {
    /// The queue's capability raised by as little as will do, one resource after the other.
    pub(super) fn capability(&mut self, diagnosis: &JobDiagnosis) -> Option<Proposal> {
        let lifted = self.lifted(diagnosis);
        if lifted.is_empty() || !self.suffices(&lifted) {
            return None;
        }
        let needed = necessary(self, lifted, <[Change]>::to_vec);
        let tight = self.tightened(needed);
        self.proposal(tight)
    }

    /// The queue's capability, raised to all that it requests and the job needs.
    pub(super) fn lifted(&self, diagnosis: &JobDiagnosis) -> Vec<Change> {
        let name = &diagnosis.queue.name;
        let Some(queue) = self.what_if.queues.get(name) else {
            return Vec::new();
        };
        let usages = diagnosis.queue.resources.iter();
        let lifted = usages.filter_map(|usage| {
            let resource = usage.resource.as_str();
            let from = *queue.spec.capability.get(resource)?;
            let wanted = units(resource, usage.request);
            let wanted = wanted.saturating_add(units(resource, usage.promised));
            let to = units(resource, from).max(wanted);
            let to = to.saturating_add(self.needs(resource));
            Some(Change::Capability {
                queue: name.clone(),
                resource: resource.to_owned(),
                from,
                to: resources::quantity(resource, to),
            })
        });
        lifted.collect()
    }

    /// The same changes with capabilities that are raised by no more than needed. All of them together start the job.
    pub(super) fn tightened(&mut self, mut changes: Vec<Change>) -> Vec<Change> {
        for index in 0..changes.len() {
            let Change::Capability {
                queue,
                resource,
                from,
                to,
            } = changes[index].clone()
            else {
                continue;
            };
            let (low, high) = (units(&resource, from), units(&resource, to));
            // Requests are round numbers, so proposals are. The last step may be beyond the smallest that works.
            let step = self.step(&resource, low);
            let more = high.saturating_sub(low);
            let steps = more / step + i64::from(more % step != 0);
            let raised = |count: i64| Change::Capability {
                queue: queue.clone(),
                resource: resource.clone(),
                from,
                to: resources::quantity(&resource, low.saturating_add(count.saturating_mul(step))),
            };
            let with = |count: i64| {
                let mut tried = changes.clone();
                tried[index] = raised(count);
                tried
            };
            let least = least(self, (0, steps), with);
            changes[index] = raised(least);
        }
        changes
    }

    /// The largest step: every request is a multiple of it.
    fn step(&self, resource: &str, of: i64) -> i64 {
        let pods = self.what_if.pods.values();
        let asked = pods.map(|pod| Requests::of(pod, Counted::Scheduled).get(resource));
        let groups = self.what_if.groups.values();
        let least =
            groups.filter_map(|group| group.spec.min_resources.as_ref()?.get(resource).copied());
        asked
            .chain(least)
            .fold(of, |step, amount| divisor(step, units(resource, amount)))
    }

    /// The amount of a resource that the job's pending pods request, or that its minResources name.
    fn needs(&self, resource: &str) -> i64 {
        let group = self.what_if.groups.get(&self.subject.group);
        let group = group.or(self.subject.pending.group.as_ref());
        let least = group.and_then(|group| group.spec.min_resources.as_ref());
        let least = least.and_then(|list| list.get(resource));
        let least = least.map_or(0, |amount| units(resource, *amount));
        let pods = self.subject.pods(self.what_if).map(|(_, pod)| pod);
        let asked = pods.map(|pod| Requests::of(pod, Counted::Scheduled).get(resource));
        let asked = asked.map(|amount| units(resource, amount));
        asked.fold(0, i64::saturating_add).max(least)
    }

    /// The largest gang that starts with the pods that have room, or with the existing ones.
    pub(super) fn smaller_gang(&mut self, diagnosis: &JobDiagnosis) -> Option<Proposal> {
        let from = diagnosis.min_member;
        if diagnosis.missing == 0 || from < 2 {
            return None;
        }
        self.smallest((0, i64::from(from - 1)), |fewer| {
            let fewer = i32::try_from(fewer).unwrap_or(i32::MAX);
            vec![Change::MinMember {
                from,
                to: from - fewer,
            }]
        })
    }

    /// The job's priority, above all earlier jobs.
    pub(super) fn priority(&mut self, diagnosis: &JobDiagnosis) -> Option<Proposal> {
        let change = before_all(diagnosis)?;
        self.proposal(vec![change])
    }

    /// The queue's weight raised to the smallest that will do.
    pub(super) fn weight(&mut self, diagnosis: &JobDiagnosis) -> Option<Proposal> {
        let name = diagnosis.queue.name.clone();
        let from = self.what_if.queues.get(&name)?.spec.weight;
        let heaviest = i64::from(from.max(1)) * i64::from(HEAVIEST);
        self.smallest((i64::from(from), heaviest), |to| {
            vec![Change::Weight {
                queue: name.clone(),
                from,
                to: i32::try_from(to).unwrap_or(i32::MAX),
            }]
        })
    }
}
