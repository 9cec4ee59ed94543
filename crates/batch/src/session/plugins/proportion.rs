//! Plugin proportion: the cluster is divided among queues by weight, and what one does not want goes to the others
//! (S6-129 to S6-134).

use super::shares::Shares;
use crate::session::model::Model;
use crate::session::resource::{Resource, Unnamed};
use std::cell::OnceCell;

#[derive(Debug, Clone)]
pub(crate) struct Proportion {
    pub(crate) shares: Shares,
    /// By queue, once somebody has asked: what all queues would deserve if this one wanted all that there is.
    if_wanted: Vec<OnceCell<Vec<Resource>>>,
}

impl Proportion {
    pub(crate) fn open(model: &Model) -> Self {
        let mut shares = Shares::open(model);
        divide(&mut shares, &model.total);
        let if_wanted = vec![OnceCell::new(); shares.queues.len()];
        Self { shares, if_wanted }
    }

    /// What all queues would deserve if this one wanted all that there is. What it deserves now counts no pods that are not
    /// made yet.
    pub(crate) fn if_wanted(&self, queue: usize, total: &Resource) -> &[Resource] {
        self.if_wanted[queue].get_or_init(|| {
            let mut shares = self.shares.clone();
            for own in shares.queues.iter_mut().flatten() {
                own.deserved = Resource::default();
            }
            if let Some(own) = &mut shares.queues[queue] {
                own.request.raise_to(total);
            }
            divide(&mut shares, total);
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

/// The most rounds.
const ROUNDS: usize = 10_000;

/// Round by round gives each queue that wants more its part of what is left (S6-129).
fn divide(shares: &mut Shares, total: &Resource) {
    let mut remaining = total.clone();
    let mut met = vec![false; shares.queues.len()];
    // It is over after a few rounds, unless somebody has written weights below zero.
    for _ in 0..ROUNDS {
        let unmet = shares.queues.iter().zip(&met).filter(|(_, met)| !**met);
        let weights: f64 = unmet
            .filter_map(|(own, _)| own.as_ref().map(|own| own.weight))
            .sum();
        if weights == 0.0 {
            break;
        }
        let before = remaining.clone();
        let (mut more, mut less) = (Resource::default(), Resource::default());
        for (own, met) in shares.queues.iter_mut().zip(&mut met) {
            let Some(own) = own.as_mut().filter(|_| !*met) else {
                continue;
            };
            let old = own.deserved.clone();
            let mut part = before.clone();
            part.scale(own.weight / weights);
            own.deserved.add(&part);
            own.deserved
                .lower_to(&own.real_capability, Unnamed::Infinity);
            own.deserved.lower_to(&own.request, Unnamed::Zero);
            own.deserved.raise_to(&own.guarantee);
            own.update();
            *met = own.request.within(&own.deserved, Unnamed::Zero) || own.deserved == old;
            more.add(&own.deserved.beyond(&old));
            less.add(&old.beyond(&own.deserved));
        }
        // A guarantee may have given more than there was; nobody is made to pay for it.
        remaining.add(&less);
        remaining = remaining.beyond(&more);
        if remaining.is_empty() || remaining == before {
            break;
        }
    }
}
