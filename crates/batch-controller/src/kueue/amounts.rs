//! Sums of the quotas of all flavors.

use super::objects::ResourceGroup;
use evictd_pod::Quantity;
use std::collections::{BTreeMap, BTreeSet};

pub(super) type Amounts = BTreeMap<String, Quantity>;

/// The sums of quotas over the flavors. A resource without a nominal quota is left out.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) nominal: Amounts,
    /// Nominal quota plus borrowing limit.
    pub(super) limits: Amounts,
    /// Resources that may be borrowed without a limit in some flavor.
    pub(super) unlimited: BTreeSet<String>,
    /// Amounts that are never lent.
    pub(super) not_lent: Amounts,
}

impl Sums {
    pub(super) fn of(groups: &[ResourceGroup]) -> Self {
        let mut sums = Self::default();
        let flavors = groups.iter().flat_map(|group| &group.flavors);
        for quota in flavors.flat_map(|flavor| &flavor.resources) {
            let Some(nominal) = quota.nominal_quota else {
                continue;
            };
            add(&mut sums.nominal, &quota.name, nominal);
            match quota.borrowing_limit {
                Some(limit) => add(&mut sums.limits, &quota.name, nominal + limit),
                None => {
                    sums.unlimited.insert(quota.name.clone());
                }
            }
            if let Some(lent) = quota.lending_limit
                && lent < nominal
            {
                add(&mut sums.not_lent, &quota.name, nominal - lent);
            }
        }
        sums
    }
}

fn add(amounts: &mut Amounts, name: &str, more: Quantity) {
    let before = amounts.entry(name.to_owned()).or_default();
    *before += more;
}

pub(super) fn add_all(amounts: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        add(amounts, resource, *amount);
    }
}
