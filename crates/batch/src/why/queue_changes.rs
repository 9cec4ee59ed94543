//! The possible changes of the job's queue.

use super::change::Change;
use super::search::{Proposal, Search};
use super::what_if::WhatIf;
use crate::session::{BlockingReason, JobDiagnosis};
use evictd_batch_objects::QueueState;
use evictd_pod::resources::{self, units};
use evictd_pod::{Counted, Requests};

/// A weight that makes the others negligible.
const HEAVIEST: i32 = 10_000;

/// A priority above those of all earlier jobs; none if there is no such job.
pub(super) fn before_all(diagnosis: &JobDiagnosis) -> Option<Change> {
    let highest = diagnosis.ahead.iter().map(|ahead| ahead.priority).max()?;
    Some(Change::Priority {
        from: diagnosis.priority,
        to: highest.max(diagnosis.priority).checked_add(1)?,
    })
}

/// Opens a queue that is closed, and before it the closed queues above it: a queue below a closed one cannot be opened.
pub(super) fn queues_to_open(what_if: &WhatIf<'_>, name: &str) -> Option<Change> {
    let mut closed = Vec::new();
    let mut at = name;
    // A circle of parents ends at the latest after all queues.
    for _ in 0..what_if.queues.len() {
        let Some(queue) = what_if.queues.get(at) else {
            break;
        };
        if queue.status.state != QueueState::Open && !closed.iter().any(|name| name == at) {
            closed.push(at.to_owned());
        }
        at = &queue.spec.parent;
    }
    closed.reverse();
    let queue = closed.pop()?;
    Some(Change::OpenQueue {
        queue,
        parents: closed,
    })
}

impl Search<'_, '_> {
    /// The capability that is the limit above the job's queue, raised to what there would be with the job.
    fn lifted_above(&self, diagnosis: &JobDiagnosis) -> Vec<Change> {
        let limits = diagnosis
            .blocking_reasons
            .iter()
            .filter_map(|reason| match reason {
                BlockingReason::NotEnqueued {
                    lacks,
                    limited_by: Some(limit),
                    ..
                }
                | BlockingReason::Limit {
                    lacks,
                    limited_by: Some(limit),
                    ..
                } => Some((limit, lacks)),
                _ => None,
            });
        let above = limits.filter(|(limit, _)| {
            limit.key == "spec.capability" && limit.queue != diagnosis.queue.name
        });
        let lifted = above.flat_map(|(limit, lacks)| {
            lacks.iter().filter_map(|shortfall| {
                let queue = self.what_if.queues.get(&limit.queue)?;
                let from = *queue.spec.capability.get(&shortfall.resource)?;
                let to = shortfall.wanted;
                Some(Change::Capability {
                    queue: limit.queue.clone(),
                    resource: shortfall.resource.clone(),
                    from,
                    to: from.max(to),
                })
            })
        });
        lifted.collect()
    }

    /// The queue's capability, raised to all that it requests and the job needs, and that of a queue above it.
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
        lifted.chain(self.lifted_above(diagnosis)).collect()
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
        self.proposal(vec![Change::MinMember { from, to: 1 }])
    }

    /// The queue's weight raised to the smallest that will do.
    pub(super) fn weight(&mut self, diagnosis: &JobDiagnosis) -> Option<Proposal> {
        let queue = diagnosis.queue.name.clone();
        let from = self.what_if.queues.get(&queue)?.spec.weight;
        let to = from.max(1).saturating_mul(HEAVIEST);
        self.proposal(vec![Change::Weight { queue, from, to }])
    }
}
