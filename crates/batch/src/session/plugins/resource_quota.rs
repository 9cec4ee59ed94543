//! Plugin resourcequota: a job is enqueued if the quotas of its namespace have room for its minResources (S6-220).

use super::{Plugin, Reserved, Tiers, Vote};
use crate::session::snapshot::ids::JobId;
use crate::session::snapshot::resource::{Dim, Resource};
use crate::session::snapshot::{Job, Quota, Snapshot};
use evictd_pod::Quantity;
use evictd_pod::wire::ResourceList;
use std::collections::BTreeMap;

/// Amounts in billionths, by name, so that names of quotas and of resources are alike.
type Sums = BTreeMap<Box<str>, i128>;

#[derive(Debug, Default)]
pub(super) struct ResourceQuotas {
    /// By namespace the requests of the jobs that this session has enqueued.
    promised: BTreeMap<Box<str>, Sums>,
}

fn nanos(list: &ResourceList, name: &str) -> i128 {
    list.get(name).map_or(0, Quantity::nano_value)
}

/// The requests of a job, with the names of quotas.
fn request_of(snapshot: &Snapshot, job: &Job) -> Option<Sums> {
    if let Some(list) = &job.min_list {
        let amounts = list.iter();
        return Some(
            amounts
                .map(|(name, amount)| (name.into(), amount.nano_value()))
                .collect(),
        );
    }
    let amounts = job.min_resources.as_ref()?.iter();
    let amounts = amounts.filter(|(_, amount)| *amount != 0.0);
    let sums = amounts.map(|(dim, amount)| {
        let unit = match dim {
            Dim::MEMORY | Dim::PODS => 1_000_000_000,
            _ => 1_000_000,
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "amounts came as whole numbers"
        )]
        let amount = amount as i128 * unit;
        (snapshot.dims.name(dim).into(), amount)
    });
    Some(sums.collect())
}

/// The names of which a quota has too little.
fn exceeded<'q>(quota: &'q Quota, request: &Sums, promised: Option<&Sums>) -> Vec<&'q str> {
    let named = quota.hard.iter();
    named
        .filter(|(name, hard)| {
            // Even one that asks for nothing of it waits while more than all is used.
            let Some(asked) = request.get(*name) else {
                return false;
            };
            let promised = promised.and_then(|sums| sums.get(*name)).copied();
            asked + nanos(&quota.used, name) + promised.unwrap_or(0) > hard.nano_value()
        })
        .map(|(name, _)| name)
        .collect()
}

impl Plugin for ResourceQuotas {
    fn job_enqueueable(
        &self,
        tiers: Tiers<'_>,
        job: JobId,
        _: &Resource,
        _: &Reserved,
    ) -> Result<Vote, String> {
        let job = &tiers.snapshot.jobs[job];
        let Some(request) = request_of(tiers.snapshot, job) else {
            return Ok(Vote::Permit);
        };
        let promised = self.promised.get(job.namespace());
        let quotas = tiers.snapshot.facts.quotas.get(job.namespace());
        for (name, quota) in quotas.into_iter().flatten() {
            let exceeded = exceeded(quota, &request, promised);
            if exceeded.is_empty() {
                continue;
            }
            let lines = exceeded.iter().map(|resource| {
                let quantity = |nanos: i128| {
                    let milli = i64::try_from(nanos / 1_000_000).unwrap_or(i64::MAX);
                    Quantity::milli(milli)
                };
                let promised = promised.and_then(|sums| sums.get(*resource)).copied();
                let used = nanos(&quota.used, resource) + promised.unwrap_or(0);
                format!(
                    "{resource}: requested {}, used {}, limited {}",
                    quantity(request.get(*resource).copied().unwrap_or(0)),
                    quantity(used),
                    quantity(nanos(&quota.hard, resource)),
                )
            });
            return Err(format!(
                "resource quota insufficient, {name}: {}",
                lines.collect::<Vec<_>>().join("; ")
            ));
        }
        Ok(Vote::Permit)
    }

    fn job_let_in(&mut self, snapshot: &Snapshot, job: JobId) {
        let job = &snapshot.jobs[job];
        if let Some(request) = request_of(snapshot, job) {
            let promised = self.promised.entry(job.namespace().into()).or_default();
            for (name, amount) in request {
                *promised.entry(name).or_default() += amount;
            }
        }
    }
}
