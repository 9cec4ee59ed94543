//! Plugin proportion: the cluster is divided among queues by weight, and what one does not want goes to the others
//! (S6-129 to S6-134).

use super::lending::lend;
use super::shares::Shares;
use crate::session::Form;
use crate::session::model::Model;
use crate::session::resource::{Resource, Unnamed};
use std::cell::OnceCell;

#[derive(Debug, Clone)]
pub(crate) struct Proportion {
    pub(crate) shares: Shares,
    /// What is divided.
    total: Resource,
    /// By queue, once somebody has asked: what all queues would deserve if this one wanted all that there is.
    if_wanted: Vec<OnceCell<Vec<Resource>>>,
}

impl Proportion {
    pub(crate) fn open(model: &Model, form: &Form) -> Self {
        let mut shares = Shares::open(model, form);
        let total = if form.divides_what_is_left {
            left_by_others(model)
        } else {
            model.total.clone()
        };
        shares.divide(&total);
        if form.lends_unusable {
            lend(&mut shares, model, &total);
        }
        let if_wanted = vec![OnceCell::new(); shares.queues.len()];
        Self {
            shares,
            total,
            if_wanted,
        }
    }

    /// What all queues would deserve if this one wanted all that there is. What it deserves now counts no pods that are not
    /// made yet.
    pub(crate) fn if_wanted(&self, queue: usize) -> &[Resource] {
        self.if_wanted[queue].get_or_init(|| {
            let mut shares = self.shares.clone();
            if let Some(own) = &mut shares.queues[queue] {
                own.lent = None;
                own.request.raise_to(&self.total);
            }
            shares.divide(&self.total);
            let queues = shares.queues.into_iter();
            queues
                .map(|own| own.map(|own| own.deserved).unwrap_or_default())
                .collect()
        })
    }

    /// Whether a queue has all that it deserves.
    pub(crate) fn is_overused(&self, queue: usize) -> bool {
        let own = self.shares.of(queue);
        own.is_some_and(|own| own.deserved.within(&own.allocated, Unnamed::Zero))
    }

    /// Whether a queue deserves one request more, in the dimensions that it names.
    pub(crate) fn may_have(&self, queue: usize, request: &Resource) -> bool {
        let own = self.shares.of(queue);
        own.is_none_or(|own| own.with(request).within_for(&own.deserved, request))
    }
}

/// What jobs hold, and what is free or is getting free: all that pods of no job do not hold.
fn left_by_others(model: &Model) -> Resource {
    let mut left = Resource::default();
    for node in &model.nodes {
        for (dim, idle) in node.idle.iter() {
            // A node on which there is too much takes nothing from others.
            let free = (idle + node.releasing.get(dim)).max(0.0);
            left.add_to(dim, free);
        }
    }
    for (_, job) in model.live_jobs() {
        left.add(&job.allocated);
    }
    left
}
